"""Numbers over several runs: what they are, how sure one can be, and which differences are more than luck."""

from smallgroup.statistics.comparison import Comparison, compare_paired, compare_unpaired, holm, smallest_p
from smallgroup.statistics.equivalence import Equivalence, equivalent_paired
from smallgroup.statistics.summary import LEAST, Summary, over_retrainings, summarize

__all__ = [
    "LEAST",
    "Comparison",
    "Equivalence",
    "Summary",
    "compare_paired",
    "compare_unpaired",
    "equivalent_paired",
    "holm",
    "over_retrainings",
    "smallest_p",
    "summarize",
]
