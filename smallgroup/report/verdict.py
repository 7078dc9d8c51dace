"""The first sentence of a page: how the network compares with the baselines, and whether the search is decided."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from smallgroup.report.cells import DrawnCell
from smallgroup.report.compare import Contribution, SeedPairs, contributions, pairs_of, settings_of
from smallgroup.report.run import BASELINES, VERDICT, Run
from smallgroup.report.words import signed

VerdictSide = Literal["better", "worse", "even", "open"]
"""`even`: not told apart, or better than some baselines only; `open`: nothing to compare with."""
SIDES = {"better": "is better than", "worse": "is worse than", "not told apart": "is not told apart from"}
"""What `verdict.json` may say of a baseline."""
DECIDED = 0.5
"""An operation with a larger share of its edge outweighs all others together."""
ALPHA = 0.05


@dataclass(frozen=True)
class OpeningVerdict:
    """A sentence, the color that goes with it, and where it comes from."""

    side: VerdictSide
    sentence: str
    source: str


def verdicts_of(run: Run, cells: Sequence[DrawnCell]) -> list[OpeningVerdict]:
    """Return the verdicts that a page on one run opens with."""
    made = [against_baselines(run)]
    if run.kind == "search":
        made.append(how_decided(cells))
    return [one for one in made if one is not None]


def against_baselines(run: Run) -> OpeningVerdict | None:
    """Return how the network compares with the baselines of a whole run; None if the run is no search."""
    if run.kind != "search":
        return None
    told = {side: [name for name in BASELINES if run.compared.get(name) == side] for side in SIDES}
    known = {side: names for side, names in told.items() if names}
    source = f"{VERDICT}: verdicts"
    if not known:
        if "training" not in run.parts:
            words = "No verdict on accuracy: this run has not trained a network yet"
        elif not any(name in run.parts for name in BASELINES):
            words = "No verdict on accuracy: no baseline was trained beside the network; smallgroup run trains them"
        else:
            words = "No verdict on accuracy: the network and its baselines have not been compared"
        return OpeningVerdict("open", f"{words}.", f"the folder has no {source}")
    parts = [f"{SIDES[side]} {_listed(names)}" for side, names in known.items()]
    side: VerdictSide = "worse" if "worse" in known else "better" if set(known) == {"better"} else "even"
    return OpeningVerdict(side, f"The network found {', and '.join(parts)}.", source)


def _listed(names: Sequence[str]) -> str:
    words = [f"{BASELINES[name][0].lower()}{BASELINES[name][1:]}" for name in names]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def how_decided(cells: Sequence[DrawnCell]) -> OpeningVerdict | None:
    """Return on how many edges of a cell the search is decided; None if its scores are not known."""
    shares = [
        way.share for cell in cells for ways in cell.nodes for way in ways if way.share is not None and way.shares
    ]
    if not shares:
        return None
    decided, least = sum(share > DECIDED for share in shares), min(shares)
    state = "decided" if decided == len(shares) else "undecided" if decided == 0 else "partly decided"
    words = (
        f"The search is {state}: on {decided} of {len(shares)} edges of the cell the operation chosen has more than "
        f"half of the weight; the smallest share is {least:.2f}."
    )
    return OpeningVerdict("better" if state == "decided" else "even", words, "metrics.jsonl: scores of the last epoch")


def of_teaching(runs: Sequence[Run]) -> list[OpeningVerdict]:
    """Return the opening verdicts of a page on several runs: for each setting, whether teaching changed the error."""
    settings = settings_of(pairs_of(runs))
    found = [(setting, _main(contributions(setting))) for setting in settings]
    told = [_taught(setting, main) for setting, main in found if main is not None]
    words = "No verdict on teaching: that takes two runs that differ in lambda alone, one of them with lambda = 0."
    return told or [OpeningVerdict("open", words, "config.yaml of each run")]


def _main(measured: Sequence[Contribution]) -> Contribution | None:
    """Return the test error where all pairs have one, else the validation error."""
    by_title = {one.title.split(" ")[0]: one for one in reversed(measured) if "error" in one.title}
    return by_title.get("test") or by_title.get("validation")


def _taught(setting: SeedPairs, main: Contribution) -> OpeningVerdict:
    n, p = len(setting.pairs), main.comparison.p
    better = main.mean < 0
    side: VerdictSide = "even" if p is None or p >= ALPHA or main.mean == 0 else "better" if better else "worse"
    words = {"better": "is better than", "worse": "is worse than", "even": "is not told apart from"}[side]
    chance = "one pair of seeds cannot tell" if n == 1 else f"Wilcoxon p = {p:.3g}" if p is not None else "no p"
    sentence = (
        f"The search with teaching {words} the one without: {main.title} {signed(main.mean)} points "
        f"(n = {n}; {chance})."
    )
    return OpeningVerdict(side, sentence, "result.json of each run")
