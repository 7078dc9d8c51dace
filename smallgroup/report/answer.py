"""What a run found, before all else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smallgroup.phases.search.config import ANSWERS
from smallgroup.report.cells import DrawnCell, draw_cell, drawn
from smallgroup.report.compare import SeedPairs, contributions, differently_trained, head_start
from smallgroup.report.markup import Markup, render
from smallgroup.report.next_steps import next_steps
from smallgroup.report.origins import missing_of, seconds_by_part
from smallgroup.report.run import BASELINES, VERDICT, Run, at, number_at, section_at, table_at, whole
from smallgroup.report.shapes import Drawing, svg
from smallgroup.report.verdict import verdicts_of
from smallgroup.report.words import Fact, SourcedText, count, duration, percent, signed, sized
from smallgroup.runtime.bounds import MOST
from smallgroup.spaces.ground_truth import accuracy_on, caveat_of, cells_compared_with


def answer(run: Run, prefix: str = "", told: Markup | None = None) -> Markup:
    """Draw the cell that was found or trained, its numbers, why this one, what teaching changed, what to do next."""
    return render(
        "answer.html",
        anchor=f"{prefix}answer",
        standing=_standing(run),
        opening=verdicts_of(run, list(drawn_cells(run).values())),
        missing=[f"{words[0].upper()}{words[1:]}." for words in missing_of(run)],
        facts=_search_facts(run) if run.kind == "search" else _training_facts(run),
        verdicts=[SourcedText(sentence, f"{VERDICT}: verdicts") for sentence in run.verdicts],
        why=why(run),
        gained=told,
        next_steps=next_steps(run),
        cells=captioned(run),
    )


def drawn_cells(run: Run) -> dict[str, DrawnCell]:
    """Return the cell of the answer, with the scores that it was derived from where a line of metrics has them."""
    if run.cell is None:
        return {}
    scores = None
    if run.kind == "search" and run.answering is not None and run.epochs:  # of a consensus no line has the scores
        row = run.row(run.answering, run.epochs[-1])
        kinds = ("normal", "reduce", "cell")
        scores = {} if row is None else {kind: found for kind in kinds if (found := table_at(row, kind)) is not None}
    return drawn(run.cell, scores)


def cells_of(run: Run) -> list[Drawing]:
    """Return the drawings of the cell of the answer."""
    whose = "the network" if run.kind == "training" else run.whose
    return [draw_cell(cell, whose) for cell in drawn_cells(run).values()]


def captioned(run: Run) -> list[tuple[str, Markup]]:
    """Return the drawings of the run's cell, each after its title."""
    return [(drawing.title.capitalize(), svg(drawing)) for drawing in cells_of(run)]


def _standing(run: Run) -> str:
    if run.state == "finished":
        return ""
    done, all_ = len(run.epochs), at(run.facts, "course", "epochs")
    far = f"{done} of {all_} epochs" if isinstance(all_, int) else f"{done} epochs"
    words = "This run is in progress" if run.state == "running" else "This run is not finished"
    return f"{words}: {far} are done. This page shows its current state."


def _search_facts(run: Run) -> list[Fact]:
    result, size, training = run.result, run.given.size, run.parts.get("training")
    retained = run.retained
    facts = [_answering(run)]
    row = run.row(retained, run.epochs[-1]) if retained is not None and run.epochs else None
    if result:
        error, source = number_at(result, "validation_error"), "result.json: validation_error"
    else:
        error = None if row is None else row.number("w_error")
        source = "not measured yet" if row is None else f"metrics.jsonl line {row.line}: w_error"
    if training is not None:
        tested = number_at(training.result, "test_error")
        used = str(training.result.get("test_set") or "not tested yet")
        facts.append(Fact("Test error", percent(tested), "training/result.json: test_error", used))
        facts += _balanced("Balanced test error", training.result, "training/result.json")
        for name in (one for one in BASELINES if one in run.parts):
            beside = number_at(run.parts[name].result, "test_error")
            facts.append(Fact(BASELINES[name], percent(beside), f"{name}/result.json: test_error", _beside(run, name)))
    whose = "" if retained is None or retained == run.answering else f" of learner {retained}"
    facts.append(Fact("Validation error", percent(error), source, f"of W in the mixed network{whose}"))
    facts += _balanced("Balanced validation error", result, "result.json")
    facts += _true_facts(run)
    if training is not None and training.result:
        facts += _sizes(
            number_at(training.result, "parameters"),
            number_at(training.result, "multiply_adds"),
            "training/result.json",
            "as trained",
        )
    elif size is not None:
        facts += _sizes(
            size.parameters, size.multiply_adds, "counted from the cell and config.yaml: training.network", size.words
        )
    return [*facts, *_cost(run)]


def _answering(run: Run) -> Fact:
    """Return whose cell it is, and the rule if it is not the paper's."""
    retained = run.retained
    if not run.result or run.rule == "retained":
        return Fact(
            "Retained" if run.result else "Best so far",
            "not known yet" if retained is None else f"learner {retained}",
            "result.json: retained" if run.result else "metrics.jsonl: lowest w_validation_loss of the last epoch",
            run.method(retained) if retained is not None else None,
        )
    return Fact("Answer", run.whose, "result.json: answer", f"by {run.rule}: {ANSWERS[run.rule]}")


def _balanced(title: str, result: Mapping[str, Any], file: str) -> list[Fact]:
    """Return the mean of the errors on each class; nothing for results of earlier versions."""
    error = number_at(result, "balanced_error")
    return [] if error is None else [Fact(title, percent(error), f"{file}: balanced_error", "mean over the classes")]


def _beside(run: Run, name: str) -> str:
    """Return how the training of a baseline compares with that of the cell found."""
    own, other = (number_at(run.parts[part].result, "steps") for part in ("training", name))
    if own is None or other is None:
        return "training not finished yet"
    if own == other:
        return f"trained for {count(own)} steps, as the cell found"
    return f"not comparable: trained for {count(other)} steps, the cell found for {count(own)}"


def _true_facts(run: Run) -> list[Fact]:
    made = []
    for column in section_at(run.result, "true_accuracy"):
        words = accuracy_on(column)
        value = percent(number_at(run.result, "true_accuracy", column))
        source = f"result.json: true_accuracy.{column}"
        made.append(Fact(f"{words[0].upper()}{words[1:]}", value, source, _percentiles(run, column)))
    return made


def _percentiles(run: Run, column: str) -> str | None:
    """Return how the cell compares with others; for a prediction, how far it can be trusted."""
    percentile = number_at(run.result, "percentile", column)
    at_cost = number_at(run.result, "percentile_at_cost", column)
    parts = []
    if percentile is not None:
        parts.append(f"better than {percentile:.1f} % of {cells_compared_with(column)}")
        if at_cost is not None:
            parts[-1] += f" and than {at_cost:.1f} % of those of the same cost"
    if (caveat := caveat_of(column)) is not None:
        parts.append(caveat)
        if run.cell is not None:
            parts.append(f"skip connections in the normal cell: {run.cell.skips}")
    return "; ".join(parts) or None


def _sizes(parameters: float | None, multiply_adds: float | None, source: str, words: str) -> list[Fact]:
    return [
        Fact("Parameters", sized(parameters), f"{source}, parameters = {count(parameters)}", words),
        Fact(
            "Multiply-adds", sized(multiply_adds), f"{source}, multiply_adds = {count(multiply_adds)}", "for one image"
        ),
    ]


def _cost(run: Run) -> list[Fact]:
    result = run.result
    if result:
        seconds = number_at(result, "seconds")
        steps = number_at(result, "steps")
        source = "result.json"
    else:
        seconds = sum(seconds_by_part(run).values())
        steps = max((number_at(one, "step") or 0.0 for one in run.times), default=None)
        source = "times.jsonl"
    memory, file = run.peak_memory
    return [
        Fact(
            "Time of the search" if run.kind == "search" else "Time",
            duration(seconds),
            f"{source}: seconds",
            None if steps is None else f"{count(steps)} steps",
        ),
        Fact(
            "Memory", "not known" if memory is None else f"{memory:,.0f} MB", f"{file}: peak_memory_mb", "at its peak"
        ),
    ]


def _training_facts(run: Run) -> list[Fact]:
    result = run.result
    facts = []
    if "test_error" in result:
        used = str(result.get("test_set") or "")
        facts.append(Fact("Test error", percent(number_at(result, "test_error")), "result.json: test_error", used))
        facts += _balanced("Balanced test error", result, "result.json")
        best = number_at(result, "best_test_error")
        if best is not None:
            facts.append(
                Fact(
                    "Best test error",
                    percent(best),
                    "result.json: best_test_error",
                    "chosen by the test images themselves: too low",
                )
            )
    kept = whole(result.get("retained"))  # of several networks, the one that all else here is about
    rows = [row for row in run.rows if kept is None or row.learner == kept]
    last = rows[-1] if rows else None
    if last is not None and last.number("train_error") is not None:
        facts.append(
            Fact(
                "Training error",
                percent(last.number("train_error")),
                f"metrics.jsonl line {last.line}: train_error",
                "of augmented images",
            )
        )
    if result:
        facts += _sizes(
            number_at(result, "parameters"), number_at(result, "multiply_adds"), "result.json", "as trained"
        )
    return [*facts, *_networks(result), *_cost(run)]


def _networks(result: Mapping[str, Any]) -> list[Fact]:
    """Return every network of a group with its validation loss, by which one was chosen, and its test error."""
    group = result.get("group")
    if not isinstance(group, list):
        return []
    numbers = [(number_at(one, "validation_loss"), number_at(one, "test_error")) for one in group[: MOST["learners"]]]
    words = [
        f"{k}: {'' if loss is None else f'{loss:.4f}, '}{'no test error' if error is None else f'{error:.2f} %'}"
        for k, (loss, error) in enumerate(numbers)
    ]
    kept = f"validation loss and test error; {result.get('retained')} is kept for its validation loss"
    return [Fact("Networks", "; ".join(words), "result.json: group", kept)]


@dataclass(frozen=True)
class Reason:
    """The reason for an answer: a sentence whose numbers say where they come from."""

    title: str
    words: str
    sources: list[SourcedText]
    end: str = ""


def why(run: Run) -> Reason | None:
    """Return why this learner or this cell was chosen."""
    if run.kind != "search" or run.retained is None:
        return None
    if run.result and run.rule != "retained":
        sentence = at(run.result, "answer", "sentence")
        if not isinstance(sentence, str):
            return None
        return Reason("Why this cell: ", "", [SourcedText(f"{sentence}.", "result.json: answer.sentence")])
    if run.result:
        group = run.result.get("group")
        entries = group if isinstance(group, list) else []
        losses = {k: number_at(one, "validation_loss") for k, one in enumerate(entries)}
        sources = {k: f"result.json: group[{k}].validation_loss" for k in losses}
        words = "it has the lowest loss on all validation images ("
    else:
        rows = {k: run.row(k, run.epochs[-1]) for k in run.learners}
        losses = {k: None if row is None else row.number("w_validation_loss") for k, row in rows.items()}
        sources = {k: f"metrics.jsonl line {row.line}: w_validation_loss" for k, row in rows.items() if row is not None}
        words = f"it has the lowest validation loss of W after epoch {run.epochs[-1]} ("
    known = {k: loss for k, loss in losses.items() if loss is not None}
    if known.get(run.retained) != min(known.values(), default=0.0):
        return None  # a result that contradicts itself explains nothing
    if len(losses) == 1:
        return Reason("", "It is the only learner.", [])
    told = [SourcedText(f"learner {k} {loss:.4f}", sources[k]) for k, loss in known.items()]
    return Reason("Why this learner: ", words, told, " nats).")


def contributed(setting: SeedPairs) -> Markup | None:
    """Return what teaching changed, where runs without it are given."""
    gained = contributions(setting)
    if not gained:
        return None
    n = len(setting.pairs)
    items = []
    for one in gained:
        better = one.mean < 0 if one.lower_is_better else one.mean > 0
        verdict = "the same" if one.mean == 0 else "better" if better else "worse"
        words = f"{one.title}: {signed(one.mean, 3)} {one.unit} ({verdict})"
        if one.comparison.p is not None:
            words += f", Wilcoxon p = {one.comparison.p:.3g}, at best {one.comparison.smallest_p:.3g} with so few seeds"
        items.append(SourcedText(words, "result.json of the run minus that of its twin with lambda = 0"))
    caution = (
        "One seed each: a difference of this size may be chance."
        if n == 1
        else f"Means over {n} seeds, paired; p says how often chance alone would differ as much."
    )
    notes = (differently_trained(setting), caution, head_start(setting))
    return render("gained.html", items=items, notes=[words for words in notes if words])
