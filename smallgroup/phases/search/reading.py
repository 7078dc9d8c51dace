"""What steps left on a device, brought to main memory in one go."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from smallgroup.group import LearnerReport, StepReport

Architectures = Mapping[int, Mapping[str, Tensor]]
"""Architecture tensors by the number of the learner."""


def read_reports(
    reports: Sequence[StepReport], beside: Architectures | None = None
) -> tuple[list[StepReport], Architectures]:
    """Return reports, and architectures, in main memory; from a device they are sent as one, and waited for once."""
    beside = beside or {}
    tensors = [tensor for report in reports for learner in report.learners for tensor in _tensors(learner)]
    tensors += [tensor for one in beside.values() for tensor in one.values()]
    devices = {tensor.device for tensor in tensors}
    if all(device.type == "cpu" for device in devices):
        return list(reports), beside
    if len(devices) > 1 or len({tensor.dtype for tensor in tensors}) > 1:
        found = iter([tensor.cpu() for tensor in tensors])
    else:
        whole = torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).cpu()
        parts = torch.split(whole, [tensor.numel() for tensor in tensors])
        found = iter([part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)])
    own = [replace(report, learners=[_with(learner, found) for learner in report.learners]) for report in reports]
    return own, {k: {name: next(found) for name in one} for k, one in beside.items()}


def on_device(report: StepReport) -> bool:
    """Return whether a part of a report is not in main memory."""
    return any(tensor.device.type != "cpu" for learner in report.learners for tensor in _tensors(learner))


def _tensors(learner: LearnerReport) -> list[Tensor]:
    """Return terms, gradient and soft labels, always in this order."""
    terms = [tensor for parts in learner.terms.values() for tensor in parts.values()]
    own = [] if learner.soft_labels is None else [learner.soft_labels]
    return [*terms, *learner.gradient.values(), *own]


def _with(learner: LearnerReport, found: Iterator[Tensor]) -> LearnerReport:
    terms = {term: {name: next(found) for name in parts} for term, parts in learner.terms.items()}
    gradient = {name: next(found) for name in learner.gradient}
    labels = None if learner.soft_labels is None else next(found)
    return replace(learner, terms=terms, gradient=gradient, soft_labels=labels)
