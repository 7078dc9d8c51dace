"""A module to use after the search: `ModuleApply.trained`."""

import pytest
import torch
from torch import Tensor, nn

from smallgroup.group import Learner, ModuleApply, SmallGroup


class Normed(nn.Module):
    """A batch norm between two layers, with dropout after it and a gate as its architecture."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.second, self.gate = nn.Linear(4, 3), nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.drop(self.norm(self.first(x))) * self.gate.sigmoid())  # type: ignore[no-any-return]


def searched() -> tuple[ModuleApply, Learner, list[Tensor]]:
    """One of two learners after a few steps, and batches of unequal size."""
    learners = []
    for seed in (0, 1):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = Normed().double()
            x, u, x_v = (torch.randn(6, 5, dtype=torch.float64) for _ in range(3))
            batches = [1 + 2 * torch.randn(size, 5, dtype=torch.float64) for size in (7, 4, 3)]
        tensors = {name: p.detach().clone() for name, p in module.named_parameters()}
        gate = {"gate": tensors.pop("gate")}
        v = {name: tensor.clone() for name, tensor in tensors.items()}
        learners.append(Learner(ModuleApply(module, seed=seed), gate, v, tensors))
    group = SmallGroup(learners, hypergradient="first-order", architecture_lr=0.1)
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    for _ in range(3):
        group.step(train=(x, y), unlabeled=u, validation=(x_v, y))
    apply = learners[0].apply
    assert isinstance(apply, ModuleApply)
    return apply, learners[0], batches


def by_hand(weights: dict[str, Tensor], gate: Tensor, batches: list[Tensor], x: Tensor) -> Tensor:
    """The eval output with the plain mean over batches of each batch's mean and unbiased variance."""
    hidden = [batch @ weights["first.weight"].T + weights["first.bias"] for batch in batches]
    mean = torch.stack([h.mean(dim=0) for h in hidden]).mean(dim=0)
    variance = torch.stack([h.var(dim=0) for h in hidden]).mean(dim=0)
    h = (x @ weights["first.weight"].T + weights["first.bias"] - mean) / (variance + 1e-5).sqrt()
    h = (h * weights["norm.weight"] + weights["norm.bias"]) * gate.sigmoid()
    return h @ weights["second.weight"].T + weights["second.bias"]


@pytest.mark.parametrize("which", ["v", "w"])
def test_the_statistics_are_those_of_the_batches(which: str) -> None:
    apply, learner, batches = searched()
    weights, before = getattr(learner, which), {name: t.clone() for name, t in apply.module.state_dict().items()}
    generator = torch.get_rng_state()
    model = apply.trained(weights, learner.architecture, [(batch, torch.zeros(len(batch))) for batch in batches])
    assert torch.equal(generator, torch.get_rng_state())
    assert not any(layer.training for layer in model.modules())
    x = batches[0]
    torch.testing.assert_close(model(x), by_hand(weights, learner.architecture["gate"], batches, x))
    parameters = dict(model.named_parameters())
    for name, tensor in (weights | learner.architecture).items():
        assert torch.equal(parameters[name], tensor)
        assert parameters[name].data_ptr() != tensor.data_ptr()
    assert not any(torch.equal(parameters[name], before[name]) for name in ("second.weight", "gate"))
    assert model.get_submodule("norm").momentum == 0.1
    assert apply.module.training
    for name, tensor in apply.module.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_what_needs_batches_says_so() -> None:
    apply, learner, _ = searched()
    for batches, message in ((None, "'norm' has such statistics"), ([], "at least one batch")):
        with pytest.raises(ValueError, match=message):
            apply.trained(learner.w, learner.architecture, batches)
    with pytest.raises(ValueError, match=r"'gate' must have the module's shape \[4\], but it has \[1\]"):
        apply.trained(learner.w, {"gate": torch.zeros(1)})


def test_a_layer_in_eval_mode_keeps_the_statistics_that_the_group_used() -> None:
    apply, learner, batches = searched()
    apply.module.get_submodule("norm").eval()
    apply.module.get_submodule("drop").eval()
    expected = apply(learner.w, learner.architecture, batches[0])
    for given in (None, batches):
        assert torch.equal(apply.trained(learner.w, learner.architecture, given)(batches[0]), expected)


def test_instance_norms_are_averaged_too() -> None:
    module = nn.Sequential(nn.InstanceNorm1d(2, track_running_stats=True))
    batches = [torch.arange(n * 6.0).view(n, 2, 3) ** 2 for n in (1, 2)]
    model = ModuleApply(module).trained({}, {}, batches)
    means = [batch.mean(dim=(0, 2)) for batch in batches]
    torch.testing.assert_close(model.state_dict()["0.running_mean"], (means[0] + means[1]) / 2)
