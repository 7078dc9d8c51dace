"""Second derivatives against the full Hessian."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian

from smallgroup import kernels
from smallgroup.methods import Darts
from smallgroup.methods.curvature import diagonal, largest_eigenvalue
from smallgroup.testing import SmoothSpace
from smallgroup.testing.groups import batches_for, learner_of, relaxed_of


@pytest.fixture(scope="module")
def problem() -> tuple[dict[str, Tensor], Tensor]:
    """The architecture of a small supernet, and the full Hessian of its validation loss there."""
    learner = learner_of(SmoothSpace(), Darts())
    alpha = learner.architecture["alpha_cell"]
    full = hessian(lambda flat: loss({"alpha_cell": flat.reshape(3, 5)}), alpha.flatten())  # type: ignore[no-untyped-call]
    return dict(learner.architecture), full


def loss(architecture: Mapping[str, Tensor]) -> Tensor:
    learner = learner_of(SmoothSpace(), Darts())
    _, _, (x, y) = batches_for(SmoothSpace())
    with kernels.using("plain"):
        return torch.nn.functional.cross_entropy(relaxed_of(learner)(learner.w, architecture, x), y)


def test_the_largest_eigenvalue_is_that_of_the_full_hessian(problem: tuple[dict[str, Tensor], Tensor]) -> None:
    architecture, full = problem
    values = torch.linalg.eigvalsh(full)
    assert float(values[-1]) > 0 > float(values[0])
    assert largest_eigenvalue(loss, architecture, 15) == pytest.approx(float(values[-1]), rel=1e-8)
    assert largest_eigenvalue(loss, architecture, 8) == pytest.approx(float(values[-1]), rel=0.02)


def test_the_largest_counts_even_where_the_lowest_is_of_larger_size() -> None:
    scales = torch.tensor([-9.0, 2.0, 1.0, 0.5]).double()
    found = largest_eigenvalue(lambda a: (scales * a["x"] ** 2).sum() / 2, {"x": torch.ones(4).double()}, 4)
    assert found == pytest.approx(2.0)


def test_a_flat_loss_has_no_curvature() -> None:
    architecture = {"x": torch.ones(4).double(), "y": torch.ones(2).double()}
    assert largest_eigenvalue(lambda a: a["x"].sum(), architecture, 3) == 0
    assert not any(bool(t.any()) for t in diagonal(lambda a: a["x"].sum(), architecture).values())


def test_the_diagonal_is_that_of_the_full_hessian(problem: tuple[dict[str, Tensor], Tensor]) -> None:
    architecture, full = problem
    torch.testing.assert_close(diagonal(loss, architecture)["alpha_cell"].flatten(), full.diagonal())
