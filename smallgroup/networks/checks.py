"""Sizes a user may get wrong."""


def check_counts(**counts: int) -> None:
    """Refuse what is not a whole number from 1 on, by name."""
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool):
            raise TypeError(f"{name} must be a whole number, but got {type(count).__name__}")
        if count < 1:
            raise ValueError(f"{name} must be at least 1, but got {count}")
