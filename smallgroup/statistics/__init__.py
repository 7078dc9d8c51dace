"""Numbers over several runs: what they are, how sure one can be, and which differences are more than luck."""

from smallgroup.statistics.comparison import Comparison, compare_paired, compare_unpaired, holm, smallest_p
from smallgroup.statistics.summary import LEAST, Summary, over_retrainings, summarise

__all__ = [
    "LEAST",
    "Comparison",
    "Summary",
    "compare_paired",
    "compare_unpaired",
    "holm",
    "over_retrainings",
    "smallest_p",
    "summarise",
]
