"""Kill runs at random moments, resume them, and compare them bit for bit with uninterrupted runs.

    python -m tests.tools.chaos --kills 200

Every run is in a process of its own. It is killed without warning or asked to end: in the middle of a step, of a
checkpoint, of its own start or of its resumption. Then it is resumed, and killed again, until it ends. What it leaves
behind must be what a run leaves that was never killed: every tensor, every line of metrics, the genotype and the
result. Nothing that was saved may be lost on the way, and no process may be left.
"""

from tests.tools.chaos.attack import Attack, How, attacks
from tests.tools.chaos.compare import differences
from tests.tools.chaos.subjects import SEARCHES, SMALL, Subject, search_of, subjects
from tests.tools.chaos.torment import Report, torment

__all__ = [
    "SEARCHES",
    "SMALL",
    "Attack",
    "How",
    "Report",
    "Subject",
    "attacks",
    "differences",
    "search_of",
    "subjects",
    "torment",
]
