"""What every task has to keep to, so that a group can differentiate through what its learners hand over."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.group import Learner, SmallGroup, Task
from smallgroup.group.inputs import Inputs
from smallgroup.group.labels import Labels
from smallgroup.group.task import describe
from smallgroup.runtime import stream

XI = 0.2
"""A large step, so that every term shows."""
SIZES = (4, 5, 6)
"""Of the three batches: a mean over the wrong one would show."""
MODES = ("first-order", "finite-difference", "exact")
CONTROLS: dict[str, dict[str, Any]] = {
    "the paper": {},
    "without first stage": {"labels_from": "w"},
    "joint": {"labels_from": "w-joint"},
    "frozen": {"labels_from": "frozen"},
    "without human labels": {"human_labels": False},
    "self-taught": {"targets": "own"},
    "knows nothing": {"targets": "uniform"},
    "independent": {"lam": 0.0},
}


class TaskContract:
    """Tests of a task: inherit, and return the task, outputs as `apply` would return them, and labels."""

    def task(self) -> Task:
        """Return a new instance of the task under test."""
        raise NotImplementedError

    def outputs(self, size: int, generator: torch.Generator) -> Tensor:
        """Return outputs for `size` inputs, in float64: any numbers that a network might return."""
        raise NotImplementedError

    def labels(self, size: int, generator: torch.Generator) -> Labels:
        """Return labels for a batch of `size` inputs."""
        raise NotImplementedError

    def inputs(self, size: int, generator: torch.Generator) -> Inputs:
        """Return inputs, if the task looks at them."""
        return torch.randn(size, 2, generator=generator, dtype=torch.float64)

    # The four methods.

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_losses_are_numbers_and_tables_have_a_row_per_input(self, dtype: torch.dtype) -> None:
        """Check that losses are finite numbers in the precision of the outputs, and tables have a row per input."""
        task, inputs, outputs, handed = self._made(dtype)
        table = handed(outputs)
        for made in (table, task.nothing(outputs, inputs)):
            assert isinstance(made, Tensor), f"a table must be a tensor, but got {describe(made)}"
            assert made.dtype == dtype, f"a table must keep the precision of the outputs, but it is {made.dtype}"
            assert made.shape == table.shape, "nothing must have the shape of what is handed over"
            assert made.shape[:1] == outputs.shape[:1], "a table must have a row per input"
            assert bool(made.isfinite().all()), "a table must be finite"
        for loss in (
            task.loss(outputs, self._labels(dtype)),
            task.pupil_loss(outputs, table),
            task.loss_on_nothing(outputs, inputs),
        ):
            assert isinstance(loss, Tensor), f"a loss must be a tensor, but got {describe(loss)}"
            assert loss.shape == (), f"a loss must be a scalar, but its shape is {tuple(loss.shape)}"
            assert loss.dtype == dtype, f"a loss must keep the precision of the outputs, but it is {loss.dtype}"
            assert bool(loss.isfinite()), "a loss must be finite"

    def test_nothing_is_changed_and_nothing_is_drawn(self) -> None:
        """Check that every method gives the same bits when repeated, and leaves its inputs as they were."""
        task, inputs, outputs, _ = self._made()
        # Nothing of this is the result of a method that is called below: it could have changed it already.
        table, labels, generator = self._other_table(task, self._inputs()), self._labels(), torch.get_rng_state()
        raw = self.outputs(SIZES[0], stream("testing", "outputs"))
        given = _tensors([raw, inputs, outputs, labels, table])
        before = [tensor.clone() for tensor in given]
        methods: dict[str, Callable[[], Tensor | None]] = {
            "normalized": lambda: task.normalized(raw),
            "loss": lambda: task.loss(outputs, labels),
            "hand_over": lambda: task.hand_over(outputs, inputs),
            "pupil_loss": lambda: task.pupil_loss(outputs, table),
            "nothing": lambda: task.nothing(outputs, inputs),
            "loss_on_nothing": lambda: task.loss_on_nothing(outputs, inputs),
            "slope": lambda: task.slope(outputs, table),
            "handed_change": lambda: task.handed_change(table, table),
        }
        for name, method in methods.items():
            first, second = method(), method()
            same = first is second or (first is not None and second is not None and torch.equal(first, second))
            assert same, f"{name} must give the same bits when it is asked again"
            unchanged = all(torch.equal(now, then) for now, then in zip(given, before, strict=True))
            assert unchanged, f"{name} must not change what it is given"
        assert torch.equal(generator, torch.get_rng_state()), "a method must not draw from the global generator"

    def test_losses_are_means_over_the_batch(self) -> None:
        """Check that repeating every input leaves the loss the same."""
        task, inputs, outputs, _ = self._made()
        # Somebody else's table: on one's own a squared loss is 0, summed or not.
        labels, table = self._labels(), self._other_table(task, inputs)
        twice = torch.cat([outputs, outputs])
        torch.testing.assert_close(task.pupil_loss(twice, torch.cat([table, table])), task.pupil_loss(outputs, table))
        if isinstance(labels, Tensor):
            torch.testing.assert_close(task.loss(twice, torch.cat([labels, labels])), task.loss(outputs, labels))

    def test_a_row_learns_from_its_own_row_of_a_table(self) -> None:
        """Refuse broadcasts: a table [n] against outputs [n, 1] would teach every input what all were handed."""
        task, inputs, outputs, _ = self._made()
        table = self._other_table(task, inputs)
        others = torch.cat([table[:1], self._other_table(task, inputs, 1)[1:]])
        _, one = self._with_gradient(lambda made: task.pupil_loss(made, table), outputs)
        _, two = self._with_gradient(lambda made: task.pupil_loss(made, others), outputs)
        rule = (
            "the gradient of pupil_loss in a row of the outputs must not depend on other rows of the table; "
            f"is a table of shape {tuple(table.shape)} broadcast against outputs of shape {tuple(outputs.shape)}?"
        )
        torch.testing.assert_close(one[0], two[0], msg=rule)

    def test_a_row_learns_from_its_own_labels(self) -> None:
        """Refuse broadcasts: labels [n] against outputs [n, 1] would teach every input the mean of all labels."""
        task, _, outputs, _ = self._made()
        labels = self._labels()
        if not isinstance(labels, Tensor):
            pytest.skip("only labels that are a tensor can be given to other rows")
        # Given to other rows, but never changed: a mean may be over those labels alone that count.
        others, rolled = torch.cat([labels[:1], labels[1:].roll(1, 0)]), labels.roll(1, 0)
        _, one = self._with_gradient(lambda made: task.loss(made, labels), outputs)
        _, two = self._with_gradient(lambda made: task.loss(made, others), outputs)
        rule = "the gradient of loss in a row of the outputs must not depend on the labels of other rows"
        torch.testing.assert_close(one[0], two[0], msg=rule)
        shapes = f"labels of shape {tuple(labels.shape)} broadcast against outputs of shape {tuple(outputs.shape)}"
        same = torch.isclose(task.loss(outputs, labels), task.loss(outputs, rolled), rtol=1e-9, atol=0)
        assert torch.equal(labels, rolled) or not same, f"loss must depend on whose label is whose; are {shapes}?"

    def test_the_loss_on_nothing_is_that_on_the_table_of_nothing(self) -> None:
        """Check values and gradients, if a task has a faster way."""
        task, inputs, outputs, _ = self._made()
        table = task.nothing(outputs, inputs)
        for found, expected in zip(
            self._with_gradient(lambda made: task.loss_on_nothing(made, inputs), outputs),
            self._with_gradient(lambda made: task.pupil_loss(made, table), outputs),
            strict=True,
        ):
            torch.testing.assert_close(found, expected)

    def test_nobody_knows_anything_of_nothing(self) -> None:
        """Check that the table of nothing is the same whatever the outputs are."""
        task, inputs, outputs, _ = self._made()
        other = task.normalized(self.outputs(SIZES[0], stream("testing", "other outputs")))
        assert torch.equal(task.nothing(outputs, inputs), task.nothing(other, inputs)), "nothing depends on outputs"

    def test_everything_can_be_differentiated(self) -> None:
        """Check reverse, forward and forward over reverse mode, which `exact` uses, against differences of values."""
        task, inputs, outputs, handed = self._made()
        labels, table = self._labels(), self._other_table(task, inputs)
        outputs.requires_grad_()
        for function in (
            lambda made: task.loss(made, labels),
            lambda made: task.pupil_loss(made, table),
            handed,
        ):
            assert torch.autograd.gradcheck(function, outputs, check_forward_ad=True)
            assert torch.autograd.gradgradcheck(function, outputs, check_fwd_over_rev=True)

    def test_the_slope_is_minus_the_derivative_of_the_pupils_loss(self) -> None:
        """Check the slope in the table, times the batch size, against differences of values."""
        task, inputs, outputs, _ = self._made()
        table, width = self._other_table(task, inputs), 1e-6
        slope = task.slope(outputs, table)
        assert slope.shape == table.shape
        for i in range(8):
            along = self._other_table(task, inputs, i) - table
            ahead, behind = (task.pupil_loss(outputs, table + sign * width * along) for sign in (1, -1))
            found, expected = (slope * along).sum(), -len(outputs) * (ahead - behind) / (2 * width)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)

    def test_the_change_of_a_table_follows_from_the_sensitivity(self) -> None:
        """Check the change, if the task defines it, against differences of tables along a direction of the outputs."""
        task, generator, width = self.task(), stream("testing", "change"), 1e-6
        inputs, outputs = self.inputs(SIZES[0], generator), self.outputs(SIZES[0], generator)
        along, table = self.outputs(SIZES[0], generator), self._other_table(task, inputs)
        ahead, behind = (task.normalized(outputs + sign * width * along) for sign in (1, -1))
        sensitivity = (task.slope(ahead, table) - task.slope(behind, table)) / (2 * width)
        found = task.handed_change(task.hand_over(task.normalized(outputs), inputs), sensitivity)
        if found is None:
            pytest.skip("the task measures how its tables change")
        expected = (task.hand_over(ahead, inputs) - task.hand_over(behind, inputs)) / (2 * width)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)

    def test_a_linear_loss_is_linear(self) -> None:
        """Check linearity if the task claims it: tables of several teachers are then added up first."""
        task, inputs, outputs, handed = self._made()
        if not task.linear:
            pytest.skip("the task does not say that its loss is linear")
        one, two = handed(outputs), self._other_table(task, inputs)
        expected = task.pupil_loss(outputs, one) + task.pupil_loss(outputs, two)
        torch.testing.assert_close(task.pupil_loss(outputs, one + two), expected)

    def test_wrong_labels_are_refused(self) -> None:
        """Check that labels for fewer inputs, and labels that are not numbers, raise one sentence each."""
        task, labels = self.task(), self._labels()
        task.check_labels(labels, SIZES[0], "train")
        if isinstance(labels, Tensor):
            with pytest.raises((ValueError, TypeError), match="train"):
                task.check_labels(labels[:-1], SIZES[0], "train")
        if isinstance(labels, Tensor) and labels.is_floating_point():
            with pytest.raises(ValueError, match="train"):
                task.check_labels(torch.full_like(labels, float("nan")), SIZES[0], "train")

    def test_labels_of_another_shape_are_refused(self) -> None:
        """Check that labels of another shape are refused, or mean the same: [n] against [n, 1] gives a wrong loss."""
        task, _, outputs, _ = self._made()
        labels = self._labels()
        if not isinstance(labels, Tensor):
            pytest.skip("only of labels that are tensors other shapes are known")
        for other in (labels.unsqueeze(1), labels.unsqueeze(-1), labels.squeeze(), labels.reshape(len(labels), -1)):
            if other.shape != labels.shape:
                shapes = f"labels of shape {tuple(other.shape)} in place of {tuple(labels.shape)}"
                refusal = _refusal(task, outputs, other)
                if refusal is None:
                    rule = f"{shapes} must be refused by check_labels, label_shape or check_fit, or mean the same"
                    torch.testing.assert_close(task.loss(outputs, other), task.loss(outputs, labels), msg=rule)
                else:
                    assert "train" in refusal, f"{shapes} must be refused by a sentence that names the batch"

    # In a group.

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_the_gradient_is_that_of_the_unrolled_problem(self, count: int) -> None:
        """Check `exact` against autograd through the steps of V and W, and finite differences against `exact`."""
        batches, learners = self._batches(), self._learners(count)
        leaves = [learner.architecture["a"].clone().requires_grad_() for learner in learners]
        expected = torch.autograd.grad(self._unrolled(learners, leaves, batches), leaves)
        for mode, tolerance in (("exact", 1e-8), ("finite-difference", 1e-4)):
            group = self._group(learners, hypergradient=mode, radius=1e-4)
            for k, found in enumerate(group.architecture_gradients(*batches)):
                gap, size = float((found["a"] - expected[k]).norm()), float(expected[k].norm())
                assert gap <= tolerance * size, f"{mode}: learner {k} is off by {gap:.1e}, the norm is {size:.1e}"

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("control", CONTROLS)
    def test_groups_of_every_kind_take_steps(self, control: str, mode: str) -> None:
        """Check that weights and architectures move and stay finite, and no term is skipped."""
        options = dict(CONTROLS[control])
        if options.get("labels_from") == "frozen":
            options["labels_from"] = [learner.frozen() for learner in self._learners(2)]
        learners = self._learners(2)
        before = [{**learner.w, **learner.architecture} for learner in learners]
        before = [{name: tensor.clone() for name, tensor in tensors.items()} for tensors in before]
        report = self._group(learners, hypergradient=mode, **options).step(*self._batches())
        assert report.skipped == 0
        for learner, old in zip(learners, before, strict=True):
            for name, tensor in {**learner.w, **learner.architecture}.items():
                assert bool(tensor.isfinite().all()), f"{name} is not finite"
                assert not torch.equal(tensor, old[name]), f"{name} has not moved"

    # What the tests are made of.

    def _made(self, dtype: torch.dtype = torch.float64) -> tuple[Task, Inputs, Tensor, Any]:
        task, inputs = self.task(), self._inputs()
        outputs = self.outputs(SIZES[0], stream("testing", "outputs")).to(dtype)
        task.check_outputs(outputs, SIZES[0], "apply")
        return task, inputs, task.normalized(outputs), lambda made: task.hand_over(made, inputs)

    def _inputs(self) -> Inputs:
        return self.inputs(SIZES[0], stream("testing", "inputs"))

    def _with_gradient(self, loss: Callable[[Tensor], Tensor], outputs: Tensor) -> tuple[Tensor, Tensor]:
        leaf = outputs.detach().clone().requires_grad_()
        value = loss(leaf)
        return value.detach(), torch.autograd.grad(value, leaf)[0]

    def _other_table(self, task: Task, inputs: Inputs, number: int | None = None) -> Tensor:
        """Return what another learner hands over for the same inputs."""
        outputs = self.outputs(SIZES[0], stream("testing", "teacher", number))
        return task.hand_over(task.normalized(outputs), inputs)

    def _labels(self, dtype: torch.dtype = torch.float64) -> Labels:
        labels = self.labels(SIZES[0], stream("testing", "labels"))
        return labels.to(dtype) if isinstance(labels, Tensor) and labels.is_floating_point() else labels

    def _batches(self) -> tuple[tuple[Inputs, Labels], Inputs, tuple[Inputs, Labels]]:
        generator = stream("testing", "batches")
        x, u, x_v = (self.inputs(size, generator) for size in SIZES)
        self._known = [(made, self.outputs(size, generator)) for made, size in zip((x, u, x_v), SIZES, strict=True)]
        return (x, self.labels(SIZES[0], generator)), u, (x_v, self.labels(SIZES[2], generator))

    def _learners(self, count: int) -> list[Learner]:
        """Build learners of two weights and two gates each, around outputs that are known for every batch."""
        generator = stream("testing", "learners")

        def numbers() -> Tensor:
            return 0.5 + 0.3 * torch.randn(2, generator=generator, dtype=torch.float64)

        return [Learner(self._apply, {"a": numbers()}, {"w": numbers()}, {"w": numbers()}) for _ in range(count)]

    def _apply(self, weights: Any, architecture: Any, inputs: Inputs) -> Tensor:  # noqa: ANN401
        base = next(outputs for known, outputs in self._known if known is inputs)
        a, w = architecture["a"], weights["w"]
        result: Tensor = base + torch.tanh(a[0] * w[0] * base) + a[1] * torch.sin(w[1] + base)
        return result

    def _group(self, learners: Sequence[Learner], **options: Any) -> SmallGroup:  # noqa: ANN401
        rates = {"v_lr": XI, "w_lr": XI, "architecture_lr": XI}
        return SmallGroup(learners, task=self.task(), **{**rates, **options})

    def _unrolled(self, learners: Sequence[Learner], a: Sequence[Tensor], batches: Any) -> Tensor:  # noqa: ANN401
        """Return sum_k L(W'_k, A_k, D_val) as the paper writes it, with lambda = 1."""
        task, ((x, y), u, (x_v, y_v)) = self.task(), batches

        def outputs(k: int, weights: Tensor, inputs: Inputs) -> Tensor:
            return task.normalized(self._apply({"w": weights}, {"a": a[k]}, inputs))

        def stepped(weights: Tensor, loss: Tensor) -> Tensor:
            return weights - XI * torch.autograd.grad(loss, weights, create_graph=True)[0]

        tables = []
        for k, learner in enumerate(learners):
            v = (learner.v or {})["w"].clone().requires_grad_()
            v = stepped(v, task.loss(outputs(k, v, x), y))
            tables.append(task.hand_over(outputs(k, v, u), u))
        losses = []
        for k, learner in enumerate(learners):
            w = learner.w["w"].clone().requires_grad_()
            pupil = [task.pupil_loss(outputs(k, w, u), table) for j, table in enumerate(tables) if j != k]
            w = stepped(w, torch.stack([task.loss(outputs(k, w, x), y), *pupil]).sum())
            losses.append(task.loss(outputs(k, w, x_v), y_v))
        return torch.stack(losses).sum()


def _tensors(value: object) -> list[Tensor]:
    """Return all tensors in inputs or labels of any form."""
    if isinstance(value, Tensor):
        return [value]
    values = value.values() if isinstance(value, Mapping) else value
    if isinstance(values, str) or not isinstance(values, Iterable):
        return []
    return [tensor for one in values for tensor in _tensors(one)]


def _refusal(task: Task, outputs: Tensor, labels: Tensor) -> str | None:
    try:
        task.check_fit(outputs, labels, task.check_labels(labels, len(outputs), "train"), "train")
    except (ValueError, TypeError) as error:
        return str(error)
    return None
