"""The bounded form of `python -m tests.tools.chaos`: 15 kills, and proof that it would notice."""

from pathlib import Path
from typing import Any

import pytest

from smallgroup.phases.search.learners import Searcher
from smallgroup.runtime.checkpoints import Checkpoints
from tests.tools import chaos
from tests.tools.chaos import Attack, Subject, search_of
from tests.tools.chaos.subjects import draw_images, study_of, training_of


def small(name: str, **changes: Any) -> Subject:
    return search_of(name, {**chaos.SMALL, **chaos.SEARCHES[name], **changes})


def test_kills_of_a_search_leave_no_trace(tmp_path: Path) -> None:
    """Asked to end twice, in the middle of a checkpoint, while it resumes, and without warning."""
    attacks = [
        Attack("SIGINT twice", steps=2, share=0.5),
        Attack("at a file", event=8),
        Attack("in a file", event=45, share=0.5),
        Attack("SIGTERM, SIGKILL", steps=1, share=0.3),
    ]
    search = {**chaos.SMALL["search"], "steps_per_epoch": 8}
    report = chaos.torment(small("group of two", search=search), tmp_path, attacks)
    assert report.mismatches == []
    assert (report.kills, report.resumptions >= 2) == (4, True)


@pytest.mark.slow  # a search is killed above, and stages are resumed in one process elsewhere
def test_kills_across_the_stages_of_p_darts(tmp_path: Path) -> None:
    """Killed when the last step of a stage is written, the first of the next, and in the middle of it."""
    moments = (2, 3, 3, 4, 6)
    report = chaos.torment(small("stages", learners=1), tmp_path, [Attack(step=step) for step in moments])
    assert report.mismatches == []
    assert report.kills == 5


@pytest.mark.slow  # that a search that went back is resumed in one process is tested elsewhere
def test_kills_of_a_search_that_goes_back(tmp_path: Path) -> None:
    """Killed in the epoch that will be taken back, where it is taken back, in its repetition, and after it."""
    attacks = [Attack(step=step) for step in (3, 4, 5, 6, 9)]
    report = chaos.torment(small("going back"), tmp_path, attacks)
    assert report.mismatches == []
    assert report.kills == 5


def test_kills_of_a_training_and_of_its_workers(tmp_path: Path) -> None:
    attacks = [
        Attack("of a worker", steps=1),
        Attack("SIGKILL", steps=1, share=0.5),
        Attack("SIGINT", steps=1),
        Attack("SIGTERM", steps=1),
    ]
    report = chaos.torment(training_of(draw_images(tmp_path / "images"), steps=25), tmp_path, attacks)
    assert report.mismatches == []
    assert report.kills == 4


@pytest.mark.slow  # many processes
def test_kills_of_ranks_and_of_torchrun(tmp_path: Path) -> None:
    """Rank 1, the agent that has started all of them, and rank 0."""
    attacks = [Attack("of a worker", steps=2, event=1), Attack("SIGKILL", steps=1), Attack("of a worker", steps=1)]
    report = chaos.torment(chaos.subjects("ranks", tmp_path / "images", 2), tmp_path, attacks)
    assert report.mismatches == []
    assert report.kills == 3


@pytest.mark.slow  # many processes
def test_kills_of_a_study(tmp_path: Path) -> None:
    """Its workers save and end, also when nobody can tell them to."""
    report = chaos.torment(study_of(rows=1), tmp_path, [Attack("SIGKILL", steps=1), Attack("SIGTERM", steps=3)])
    assert report.mismatches == []
    assert report.kills == 2


def forget_momentum() -> None:
    original = Searcher.load_state

    def load_state(self: Searcher, state: Any) -> None:
        original(self, {name: t for name, t in state.items() if not name.endswith("momentum_buffer")})

    Searcher.load_state = load_state  # type: ignore[method-assign]


def forget_the_newest() -> None:
    original = Checkpoints._places
    Checkpoints._places = lambda self: original(self)[:1]  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("prepare", "said"), [(forget_momentum, "metrics.jsonl"), (forget_the_newest, "it went on after step")]
)
def test_a_search_that_forgets_is_noticed(prepare: Any, said: str, tmp_path: Path) -> None:
    """The negative controls."""
    report = chaos.torment(small("alone"), tmp_path, [Attack(step=3)], prepare)
    assert report.kills == 1
    assert any(said in mismatch for mismatch in report.mismatches)
