"""Names of the precisions of a search, and what can be said of them before torch is loaded."""

from typing import Literal

Precision = Literal["float32", "bfloat16", "tf32"]
FULL: Precision = "float32"


def check_first_order(precision: Precision, hypergradient: str) -> None:
    """Refuse second-order gradients in less than float32: differences of such passes are mostly rounding errors."""
    if precision != FULL and hypergradient != "first-order":
        raise ValueError(
            f"run.precision={precision} needs search.hypergradient=first-order, because second-order terms are lost in "
            f"its rounding errors, but it is {hypergradient}"
        )
