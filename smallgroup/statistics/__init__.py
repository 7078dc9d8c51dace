"""Numbers over several runs: what they are, how sure one can be, and which differences are more than luck."""

from smallgroup.statistics.comparison import Comparison, compare_paired, compare_unpaired, holm, smallest_p
from smallgroup.statistics.summary import LEAST, Summary, Variation, summarise, variation

__all__ = [
    "LEAST",
    "Comparison",
    "Summary",
    "Variation",
    "compare_paired",
    "compare_unpaired",
    "holm",
    "smallest_p",
    "summarise",
    "variation",
]
