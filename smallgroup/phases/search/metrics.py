"""What an epoch leaves behind: a row per learner."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from smallgroup.data import SearchData
from smallgroup.data.splits import mixed
from smallgroup.group import Exchange, LearnerReport, LocalExchange, NonFiniteError, StepReport
from smallgroup.methods.decisions import Measured
from smallgroup.phases.evaluate import Evaluation, evaluate
from smallgroup.phases.search.collapse import signs_of_collapse
from smallgroup.phases.search.learners import Searcher
from smallgroup.phases.search.reading import Architectures, on_device, read_reports
from smallgroup.phases.search.taught import TaughtCounts
from smallgroup.phases.sharing import share_rows
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import to_plain
from smallgroup.spaces.ground_truth import GroundTruths

LOSSES = ("v_loss", "w_loss", "w_unlabeled_loss", "validation_loss")
TERMS = ("own", "cross", "label")
_MOST_UNREAD = 16
"""Steps whose reports stay on a device until they are read as one."""


class EpochMetrics:
    """Means over the steps of an epoch, and measurements at its end; of V only where it teaches."""

    def __init__(
        self,
        searchers: Sequence[Searcher],
        data: SearchData,
        truth: GroundTruths | None = None,
        *,
        with_v: bool = True,
        images: int = 1000,
        unlabeled_of: Callable[[int], Tensor] | None = None,
    ) -> None:
        self.searchers, self.data, self.truth = searchers, data, truth
        self.with_v, self.indices = with_v, mixed(data.splits.validation)[:images]
        self._sums: list[dict[str, tuple[float, int]]] = [{} for _ in searchers]
        own = data.unlabeled is data.dataset.train
        self.taught = TaughtCounts(len(searchers), len(data.dataset.classes), data.dataset.labels() if own else None)
        self._unlabeled_of = unlabeled_of
        """Which images a step has labeled."""
        self._unread: list[StepReport] = []

    def note(self, report: StepReport, beside: Architectures | None = None) -> Architectures:
        """Count a step in; return architectures of a device in main memory, which are read with it.

        Without architectures, steps on a device are read later, several at once: nobody waits for them before.
        """
        self._unread.append(report)
        if beside or len(self._unread) == _MOST_UNREAD or not on_device(report):
            return self._read(beside)
        return {}

    def _read(self, beside: Architectures | None = None) -> Architectures:
        """Count in the steps that were not read yet; a device is waited for once."""
        unread, self._unread = self._unread, []
        reports, known = read_reports(unread, beside)
        for report in reports:
            self._count(report)
        return known

    def _count(self, report: StepReport) -> None:
        agreements = _agreements([one.soft_labels for one in report.learners])
        for k, one in enumerate(report.learners):
            for name, value in {**_of_step(one), **agreements[k]}.items():
                total, count = self._sums[k].get(name, (0.0, 0))
                self._sums[k][name] = (total + value, count + 1)
        if self._unlabeled_of is not None and any(one.soft_labels is not None for one in report.learners):
            self.taught.note(self._unlabeled_of(report.step), [one.soft_labels for one in report.learners])

    def measured(self, searcher: Searcher) -> Measured:
        """Measure error and loss of a learner's W on the validation images of the metrics."""
        data, device = self.data, searcher.learner.device
        with torch.no_grad():
            found = evaluate(
                searcher.logits, data.dataset.train, data.dataset, self.indices, workers=data.workers, device=device
            )
        return Measured(found.error, found.loss)

    def rows(self, epoch: int, exchange: Exchange | None = None) -> list[dict[str, Any]]:
        """Return a row per learner, each measured where the learner is computed."""
        self._read()
        taught = self.taught.rows()

        def row(k: int) -> dict[str, Any]:
            searcher = self.searchers[k]
            means = {name: total / count for name, (total, count) in self._sums[k].items()}
            rates = {f"{role}_lr": rate for role, rate in searcher.rates.items()}
            end = self._at_the_end(k, searcher, epoch)
            stage = {"stage": searcher.relaxed.stage} if searcher.schedule.number_of_stages > 1 else {}
            return {"epoch": epoch, "learner": k, **stage, **rates, **means, **end, **taught[k]}

        return share_rows(exchange or LocalExchange(len(self.searchers)), row)

    def clear(self) -> None:
        """Forget the sums of the epoch that is over."""
        self._sums, self._unread = [{} for _ in self.searchers], []
        self.taught.clear()

    def _at_the_end(self, k: int, searcher: Searcher, epoch: int) -> dict[str, Any]:
        relaxed, learner = searcher.relaxed, searcher.learner
        genotype = relaxed.derive(learner.architecture)
        data = self.data

        def errors(logits_of: Callable[[Tensor], Tensor], stage: int = 2, whose: str = "") -> Evaluation:
            found = evaluate(
                logits_of,
                data.dataset.train,
                data.dataset,
                self.indices,
                workers=data.workers,
                device=learner.device,
            )
            if not math.isfinite(found.loss):  # then the errors say nothing, although they are numbers
                quantity = f"the validation loss{whose} at the end of epoch {epoch + 1}"
                raise NonFiniteError(k, stage, quantity, relaxed.step)
            return found

        v, w = learner.v or {}, learner.w
        of_w = errors(lambda x: relaxed(w, learner.architecture, x))
        derived = errors(lambda x: relaxed.derived_logits(w, genotype, x), whose=" with the derived cell")
        found: dict[str, Any] = {}
        if self.with_v:
            of_v = errors(lambda x: relaxed(v, learner.architecture, x), stage=1, whose=" of V")
            found = {"v_error": of_v.error, "v_recognised": of_v.recognized}
        entropy, margins = edge_entropy(searcher), edge_margins(searcher)
        return {
            **found,
            "w_error": of_w.error,
            "w_recognised": of_w.recognized,
            "w_validation_loss": of_w.loss,
            "derived_error": derived.error,
            "edge_entropy": entropy,
            "edge_margin": margins,
            "scores": rounded_scores(searcher),
            "skips": genotype.skips,
            "genotype": to_plain(genotype),
            "warnings": signs_of_collapse(relaxed.space, relaxed.space.chosen(genotype), entropy, margins),
            **standing(self.truth, genotype),
        }

    def state(self) -> list[dict[str, list[float]]]:
        """Return the sums so far, so that an interrupted epoch gives the same means."""
        self._read()
        return [{name: [total, count] for name, (total, count) in sums.items()} for sums in self._sums]

    def load_state(self, state: Sequence[Mapping[str, Sequence[float]]]) -> None:
        """Restore the sums of an epoch that a checkpoint interrupted."""
        self._unread = []
        self._sums = [{name: (float(total), int(count)) for name, (total, count) in sums.items()} for sums in state]


def standing(truth: GroundTruths | None, genotype: Genotype) -> dict[str, dict[str, float | None]]:
    """Return accuracy and percentiles of a trained cell by column, where they are known; written down and not used."""
    return {} if truth is None else truth.of(genotype)


def edge_entropy(searcher: Searcher) -> dict[str, list[float]]:
    """Return, by kind, the entropy of each edge's shares as a part of the largest possible: 1 is undecided."""
    result = {}
    for kind, shares in _shares(searcher).items():
        kept = searcher.relaxed.method.mask(kind).sum(dim=1).clamp(min=2)
        entropy = torch.special.entr(shares).sum(dim=1) / kept.log()
        # Six digits are more than a plot shows, and keep the file small.
        result[kind] = [round(value, 6) for value in entropy.tolist()]
    return result


def edge_margins(searcher: Searcher) -> dict[str, list[float]]:
    """Return, by kind, how far the first operation of each edge leads the second, as a difference of shares."""
    tops = {kind: shares.topk(2, dim=1).values for kind, shares in _shares(searcher).items()}
    return {kind: [round(value, 6) for value in (top[:, 0] - top[:, 1]).tolist()] for kind, top in tops.items()}


def _shares(searcher: Searcher) -> dict[str, Tensor]:
    """Return, by kind, the scores of each edge divided by their sum; what has been removed has none."""
    found = {}
    for kind, scores in searcher.scores.items():
        own = scores.masked_fill(scores == -math.inf, 0.0).double()
        found[kind] = own / own.sum(dim=1, keepdim=True).clamp(min=1e-30)
    return found


def rounded_scores(searcher: Searcher) -> dict[str, list[list[float | None]]]:
    """Return the method's scores by kind for every operation of every edge; null for removed operations."""
    return {
        kind: [[round(value, 4) if math.isfinite(value) else None for value in row] for row in table.tolist()]
        for kind, table in searcher.scores.items()
    }


def _of_step(one: LearnerReport) -> dict[str, float]:
    found = {name: value for name in LOSSES if (value := getattr(one, name)) is not None}
    if one.terms:
        norms = one.norms
        found |= {f"norm_{term}": norms[term] for term in ("direct", *TERMS)}
        found |= {f"cosine_{term}": _cosine(one.terms[term], one.terms["direct"]) for term in TERMS if norms[term] > 0}
        found["skipped"] = float(len(one.skipped))
    if one.soft_labels is not None:
        found["label_entropy"] = float(torch.special.entr(one.soft_labels).sum(dim=1).mean())
    return found


def _agreements(labels: Sequence[Tensor | None]) -> list[dict[str, float]]:
    """Return each learner's share of unlabeled images to which it gives the class that a peer gives, over its peers."""
    classes = [None if table is None else table.argmax(dim=1) for table in labels]
    shares: list[list[float]] = [[] for _ in labels]
    for j, k in combinations(range(len(labels)), 2):
        left, right = classes[j], classes[k]
        if left is not None and right is not None:
            share = float((left == right.to(left.device)).float().mean())
            shares[j].append(share)
            shares[k].append(share)
    return [{"agreement": sum(own) / len(own)} if own else {} for own in shares]


def _cosine(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> float:
    one = torch.cat([left[name].flatten() for name in right]).double()
    other = torch.cat([tensor.flatten() for tensor in right.values()]).double()
    size = float(one.norm() * other.norm())
    return float(one @ other) / size if size > 0 else 0.0
