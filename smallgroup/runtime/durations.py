"""Read and format lengths of time such as 1h30m."""


def written(seconds: float) -> str:
    """Return a duration as readable text."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    if seconds < 100 * 3600:
        return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
    return f"{seconds / 86400:.1f} days"
