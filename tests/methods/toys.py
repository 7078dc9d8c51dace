"""One toy method per hook: what the protocol is able to carry, each in a few lines."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smallgroup.methods import (
    Architecture,
    Continue,
    Decision,
    EpochEnd,
    Gdas,
    Method,
    Noise,
    Progress,
    Rebuild,
    Stop,
)
from smallgroup.runtime import Phase
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.spaces.space import Choice, EdgeParts, Evaluated, Mixture, Space

SMALL = NasBench201Space(channels=2, cells_per_stage=1, images=ImageSpec(4, 3, 8))


def progress(epoch: int = 0, epochs: int = 10) -> Progress:
    return Progress(epoch=epoch, epochs=epochs, step=0, steps=1)


class Tempered(Method):
    """A temperature that falls (as in ASAP), and operations that fall with it."""

    name: ClassVar[str] = "tempered"

    def schedule(self, progress: Progress) -> None:
        self.state["temperature"] = torch.tensor(1.6 * 0.95**progress.epoch)

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        return (alpha / self.state.get("temperature", torch.ones(()))).softmax(dim=1)

    def trains_architecture(self, progress: Progress) -> bool:
        return progress.epoch >= 10

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        for kind, alpha in self.logits(epoch.architecture).items():
            w = self.relax(alpha, None, None)
            keep = w >= 0.4 / alpha.shape[1]
            keep[torch.arange(len(w)), w.argmax(dim=1)] = True
            self.keep(kind, self.mask(kind) & keep)
        left = sum(int(self.mask(kind).sum()) for kind in self.logits(epoch.architecture))
        return Stop("one operation per edge is left") if left == 3 else Continue()


class Adversarial(Method):
    """Mixing weights disturbed so that the training loss rises (as in SDARTS-ADV), in training phases alone."""

    name: ClassVar[str] = "adversarial"
    epsilon: ClassVar[float] = 0.1

    def draw(self, architecture: Architecture, phase: Phase | None, generator: torch.Generator) -> Noise:
        if phase not in ("v", "w", "w_unlabeled"):
            return {}
        return {
            kind: self.epsilon * (2 * torch.rand(alpha.shape, generator=generator) - 1).to(alpha)
            for kind, alpha in self.logits(architecture).items()
        }

    def look(
        self,
        architecture: Architecture,  # noqa: ARG002
        noise: Noise,
        phase: Phase,  # noqa: ARG002
        loss: Callable[[Noise], Tensor],
    ) -> Noise:
        delta = dict(noise)
        for _ in range(3):
            leaves = {kind: d.detach().requires_grad_() for kind, d in delta.items()}
            gradients = torch.autograd.grad(loss(leaves), list(leaves.values()))
            delta = {
                kind: (d + 0.5 * self.epsilon * g.sign()).clamp(-self.epsilon, self.epsilon)
                for (kind, d), g in zip(delta.items(), gradients, strict=True)
            }
        return delta if loss(delta) > loss(noise) else noise

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        w = alpha.softmax(dim=1)
        if noise is None:
            return w
        w = (w + torch.where(w > 0, noise, 0.0)).clamp(0, 1)
        return w / w.sum(dim=1, keepdim=True)


class Binary(Gdas):
    """One operation runs with a gradient and the others without (as in ProxylessNAS)."""

    name: ClassVar[str] = "binary"
    evaluate: ClassVar[Evaluated] = "detached"

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        assert noise is not None
        p = alpha.softmax(dim=1)
        chosen = F.one_hot((alpha + noise).argmax(dim=1), p.shape[1]).to(p)
        return chosen + p - p.detach()


class Children(Gdas):
    """Several sampled networks and their marginal likelihood (as in PARSEC)."""

    name: ClassVar[str] = "children"

    @property
    def samples(self) -> int:
        return 3

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        assert noise is not None
        # Through the log-probability alone, see `log_probability`; the product keeps the architecture in the graph.
        chosen = F.one_hot((alpha + noise).argmax(dim=1), alpha.shape[1]).to(alpha)
        return chosen * (1 + 0 * alpha.softmax(dim=1))

    def log_probability(self, architecture: Architecture, noise: Noise) -> Tensor:
        total = torch.zeros(())
        for kind, alpha in self.logits(architecture).items():
            chosen = (alpha + noise[kind]).argmax(dim=1, keepdim=True)
            total = total + alpha.log_softmax(dim=1).gather(1, chosen).sum()
        return total

    def combine(self, losses: Tensor, log_probabilities: Tensor, size: int) -> Tensor:
        score = log_probabilities - log_probabilities.detach() - size * losses
        return -(torch.logsumexp(score, dim=0) - torch.tensor(float(len(losses))).log()) / size


class Dropped(Method):
    """Noise on what skip connections give (as in NoisyDARTS and P-DARTS), with the method's own stream."""

    name: ClassVar[str] = "dropped"

    def transform(
        self,
        operation: str,
        output: Tensor,
        generator: torch.Generator,
        phase: Phase | None,  # noqa: ARG002
    ) -> Tensor:
        if operation != "skip_connect":
            return output
        kept = torch.rand(output.shape[:2], generator=generator) < 0.7
        return output * kept[:, :, None, None].to(output) / 0.7


class Adjusted(Method):
    """A correction after the step (as in DropNAS): a row is shifted so that its first entry stays what it was."""

    name: ClassVar[str] = "adjusted"

    def after_step(self, architecture: Architecture, before: Architecture, noise: Noise) -> None:  # noqa: ARG002
        for name, alpha in architecture.items():
            alpha.sub_((alpha - before[name])[:, :1])


class Partial(nn.Module):
    """Half of the channels mixed, the other half passed by (as in PC-DARTS)."""

    def __init__(self, parts: EdgeParts) -> None:
        super().__init__()
        self.mixed_channels = parts.channels // 2
        self.mixed = MixedEdge(EdgeParts(parts.operations, self.mixed_channels, parts.stride, parts.make))

    def forward(self, inputs: Tensor, choice: Choice) -> Tensor:
        chosen = self.mixed(inputs[:, : self.mixed_channels], choice)
        rest = inputs[:, self.mixed_channels :]
        return torch.cat([chosen, rest if rest.shape[-1] == chosen.shape[-1] else F.max_pool2d(rest, 2, 2)], dim=1)


class Normalized(Method):
    """Edges with weights of their own beside those of operations (as in PC-DARTS)."""

    name: ClassVar[str] = "normalized"

    def initial(self, space: Space, generator: torch.Generator) -> dict[str, Tensor]:
        betas = {
            f"beta_{name}": 1e-3 * torch.randn(len(kind.edges), generator=generator)
            for name, kind in space.kinds.items()
        }
        return {**super().initial(space, generator), **betas}

    def mix(self, architecture: Architecture, noise: Noise, phase: Phase | None) -> dict[str, Mixture]:  # noqa: ARG002
        return {
            kind: Mixture(alpha.softmax(dim=1), edges=architecture[f"beta_{kind}"].softmax(dim=0))
            for kind, alpha in self.logits(architecture).items()
        }

    def build_edge(self, parts: EdgeParts) -> nn.Module:
        return Partial(parts)

    def scores(self, architecture: Architecture) -> dict[str, Tensor]:
        return self.masked(
            {
                kind: alpha.softmax(dim=1) * architecture[f"beta_{kind}"].softmax(dim=0)[:, None]
                for kind, alpha in self.logits(architecture).items()
            }
        )


@dataclass
class Staged(Method):
    """Fewer operations and more cells from stage to stage (as in P-DARTS)."""

    name: ClassVar[str] = "staged"
    every: int = 2

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        if (epoch.progress.epoch + 1) % self.every:
            return Continue()
        for kind, scores in self.scores(epoch.architecture).items():
            weakest = scores.masked_fill(~self.mask(kind), torch.inf).topk(2, dim=1, largest=False).indices
            self.keep(kind, self.mask(kind).scatter(1, weakest, False))
        return Rebuild({"cells": 5})


class Frugal(Method):
    """A penalty on the expected multiply-adds."""

    name: ClassVar[str] = "frugal"

    def penalty(self, architecture: Architecture, costs: Callable[[], Any]) -> Tensor:
        table = costs()
        expected = [
            (alpha.softmax(dim=1) * table[kind].to(alpha)).sum() for kind, alpha in self.logits(architecture).items()
        ]
        return 1e-6 * torch.stack(expected).sum()
