"""The architecture gradient of two learners in betty, higher, torchopt and here: the same problem, four libraries.

Prints for each library that is installed the largest difference from our exact gradient, the passes per learner, the
lines in which the problem is stated, and peak memory and CPU time in units of ours, the libraries taking turns.
Usage: other_libraries.py [ROUNDS]
"""

import inspect
import logging
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import deepcopy
from functools import partial
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from smallgroup.group import Learner, SmallGroup

# ruff: noqa: ANN401, PLC0415
XI, SIZE, BATCH, HIDDEN = 0.3, 64, 128, (256, 384)
passes: Counter[str] = Counter()


class Network(nn.Module):
    """A perceptron whose architecture is a gate per hidden unit, given from outside."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(SIZE, hidden), nn.Linear(hidden, 5)

    def forward(self, inputs: Tensor, gate: Tensor) -> Tensor:
        logits: Tensor = self.second(torch.tanh(self.first(inputs)) * torch.sigmoid(gate))
        passes["forward"] += 1
        if logits.requires_grad:
            logits.register_hook(lambda _: passes.update(["backward"]))  # type: ignore[no-untyped-call]
        return logits


torch.manual_seed(0)
NETWORKS = [(Network(hidden).double(), Network(hidden).double()) for hidden in HIDDEN]
GATES = [torch.randn(hidden).double() for hidden in HIDDEN]
X, U, X_V = (torch.randn(BATCH, SIZE).double() for _ in range(3))
Y, Y_V = X[:, :5].argmax(dim=1), X_V[:, :5].argmax(dim=1)


def cross_entropy(logits: Tensor, soft: Tensor) -> Tensor:
    return -(soft * logits.log_softmax(dim=1)).sum(dim=1).mean()


def smallgroup(mode: Any) -> Callable[[], Sequence[Tensor]]:
    def learner(v: nn.Module, w: nn.Module, gate: Tensor) -> Learner:
        def apply(weights: Any, architecture: Any, inputs: Tensor) -> Tensor:
            logits: Tensor = functional_call(w, weights, (inputs, architecture["gate"]))
            return logits

        return Learner(apply, {"gate": gate}, dict(v.named_parameters()), dict(w.named_parameters()))

    learners = [learner(v, w, gate) for (v, w), gate in zip(deepcopy(NETWORKS), GATES, strict=True)]
    group = SmallGroup(learners, hypergradient=mode, v_lr=XI, w_lr=XI)
    return lambda: [found["gate"] for found in group.architecture_gradients((X, Y), U, (X_V, Y_V))]


def higher() -> Callable[[], Sequence[Tensor]]:
    import higher

    networks, gates = deepcopy(NETWORKS), [gate.clone().requires_grad_() for gate in GATES]

    def gradient() -> Sequence[Tensor]:
        labels, losses = [], []
        with ExitStack() as stack:

            def functional(module: nn.Module) -> Any:
                return stack.enter_context(higher.innerloop_ctx(module, torch.optim.SGD(module.parameters(), lr=XI)))

            for k, (v, _) in enumerate(networks):
                network, optimizer = functional(v)
                optimizer.step(F.cross_entropy(network(X, gates[k]), Y))
                labels.append(network(U, gates[k]).softmax(dim=1))
            for k, (_, w) in enumerate(networks):
                network, optimizer = functional(w)
                loss = F.cross_entropy(network(X, gates[k]), Y)
                optimizer.step(loss + cross_entropy(network(U, gates[k]), labels[1 - k]))
                losses.append(F.cross_entropy(network(X_V, gates[k]), Y_V))
            return torch.autograd.grad(losses[0] + losses[1], gates)

    return gradient


def torchopt() -> Callable[[], Sequence[Tensor]]:
    import torchopt

    networks, gates = deepcopy(NETWORKS), [gate.clone().requires_grad_() for gate in GATES]

    def gradient() -> Sequence[Tensor]:
        labels, losses = [], []
        states = [[torchopt.extract_state_dict(module) for module in pair] for pair in networks]
        for k, (v, _) in enumerate(networks):
            torchopt.MetaSGD(v, lr=XI).step(F.cross_entropy(v(X, gates[k]), Y))
            labels.append(v(U, gates[k]).softmax(dim=1))
        for k, (_, w) in enumerate(networks):
            loss = F.cross_entropy(w(X, gates[k]), Y)
            torchopt.MetaSGD(w, lr=XI).step(loss + cross_entropy(w(U, gates[k]), labels[1 - k]))
            losses.append(F.cross_entropy(w(X_V, gates[k]), Y_V))
        found = torch.autograd.grad(losses[0] + losses[1], gates)
        for pair, kept in zip(networks, states, strict=True):
            for module, state in zip(pair, kept, strict=True):
                torchopt.recover_state_dict(module, state)
        return found

    return gradient


def betty(kind: str) -> Callable[[], Sequence[Tensor]]:
    from betty.configs import Config, EngineConfig
    from betty.engine import Engine
    from betty.problems import ImplicitProblem, IterativeProblem

    unrolls = kind == "iterative"
    base: Any = IterativeProblem if unrolls else ImplicitProblem
    found: list[Tensor] = []

    class Weights(base):  # type: ignore[misc]
        def forward(self, inputs: Tensor, gate: Tensor) -> Any:
            given = (inputs, gate)
            return self.fmodule(self.params, self.buffers, *given) if unrolls else self.module(*given)

    class First(Weights):
        def training_step(self, batch: Any) -> Tensor:
            mine, other = self.a.module[self.k], self.a.module[1 - self.k]
            loss = F.cross_entropy(self.forward(batch[0], mine), batch[1])
            return loss.add(0 * other.sum())  # betty's default fails where a loss leaves a parameter out

    class Second(Weights):
        def training_step(self, batch: Any) -> Tensor:
            gates, peer = self.a.module, 1 - self.k
            labels = getattr(self, f"v{peer}")(U, gates[peer]).softmax(dim=1)
            loss = F.cross_entropy(self.forward(batch[0], gates[self.k]), batch[1])
            return loss + cross_entropy(self.forward(U, gates[self.k]), labels)

    class Architectures(ImplicitProblem):  # type: ignore[misc]
        def training_step(self, batch: Any) -> Tensor:
            parts = [F.cross_entropy(getattr(self, f"w{k}")(batch[0], self.module[k]), batch[1]) for k in (0, 1)]
            return parts[0] + parts[1]

        def custom_optimizer_step(self) -> None:
            found[:] = [gate.grad.clone() for gate in self.module]

    def weights_of(cls: Any, name: str, k: int, module: nn.Module) -> Any:
        sgd = torch.optim.SGD(module.parameters(), lr=XI)
        problem = cls(f"{name}{k}", config, module, sgd, train_data_loader=[(X, Y)], device="cpu")
        problem.k = k
        return problem

    config = Config(type="darts", first_order=not unrolls, retain_graph=True)
    gates = nn.ParameterList([nn.Parameter(gate.clone()) for gate in GATES])
    networks, none = deepcopy(NETWORKS), torch.optim.SGD(gates, lr=0.0)
    v = [weights_of(First, "v", k, networks[k][0]) for k in (0, 1)]
    w = [weights_of(Second, "w", k, networks[k][1]) for k in (0, 1)]
    a = Architectures("a", config, gates, none, train_data_loader=[(X_V, Y_V)], device="cpu")
    upper = {v[0]: [w[1]], v[1]: [w[0]], w[0]: [a], w[1]: [a]}
    dependencies = {"u2l": {a: [*v, *w]}, "l2u": upper}
    engine = Engine([*v, *w, a], EngineConfig(train_iters=1, valid_step=2), dependencies)
    engine.train()

    def gradient() -> Sequence[Tensor]:
        engine.train_step()  # V and W move, and keep the graph of how they came there: one engine, one gradient
        return found

    return gradient


def lines_of(function: Callable[..., Any]) -> int:
    return len([line for line in inspect.getsource(function).splitlines() if line.strip()])


def peak_of(gradient: Callable[[], Any]) -> int:
    """Return the largest number of bytes that tensors held at once, beyond what they held before."""
    with torch.profiler.profile(profile_memory=True) as profile:
        gradient()
    results: Any = profile.profiler
    changes: list[int] = [event.nbytes() for event in results.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(changes))


def main(rounds: int = 15) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    rows: dict[str, Callable[[], Callable[[], Sequence[Tensor]]]] = {
        "smallgroup, exact": partial(smallgroup, "exact"),
        "smallgroup, finite-difference": partial(smallgroup, "finite-difference"),
        "higher": higher,
        "torchopt": torchopt,
        "betty, IterativeProblem": partial(betty, "iterative"),
        "betty, ImplicitProblem (its default)": partial(betty, "implicit"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in rows if find_spec(name.split(",")[0])}
    for _ in range(rounds):
        for name, times in seconds.items():
            gradient = rows[name]()
            start = time.process_time()
            gradient()
            times.append(time.process_time() - start)
    exact = rows["smallgroup, exact"]()()
    peak, unit = peak_of(rows["smallgroup, exact"]()), statistics.median(seconds["smallgroup, exact"])
    title = f"{'':<38}{'difference':>10}{'passes':>13}{'lines':>8}{'memory':>9}{'time':>7}"
    print(f"{title}   (median of {rounds}, exact = 1)")
    for name, build in rows.items():
        if name not in seconds:
            print(f"{name:<38} not installed")
            continue
        passes.clear()
        gap = max(float((g - e).norm() / e.norm()) for g, e in zip(build()(), exact, strict=True))
        count = f"{passes['forward'] / 2:g}F + {passes['backward'] / 2:g}B"
        lines = lines_of(build.func if isinstance(build, partial) else build)
        shares = f"{peak_of(build()) / peak:8.2f} {statistics.median(seconds[name]) / unit:6.2f}"
        print(f"{name:<38} {gap:9.1e}   {count:>10}   {lines:>5} {shares}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
