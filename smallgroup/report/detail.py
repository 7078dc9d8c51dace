"""How much of a run a page shows: as much as a page of its size can hold."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Detail:
    """The most that is shown of a kind."""

    frames: int = 60
    """Epochs through which a slider goes, and columns of a heat map."""
    rows: int = 120
    """Epochs in a table of numbers."""


DETAILS = (Detail(), Detail(24), Detail(24, 40), Detail(10, 15))
"""From the fullest: sliders lose epochs before tables do, for a table is what a number is traced by."""
