"""Checks of plain values that come from anywhere, such as the file of a genotype."""

from collections.abc import Mapping


def check_keys(what: str, data: object, needed: tuple[str, ...], allowed: tuple[str, ...] = ()) -> Mapping[str, object]:
    """Return a dict that has all the needed keys and no others; refuse anything else."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{what} must be an object with the keys {', '.join(needed)}, but got {show(data)}")
    for key in needed:
        if key not in data:
            raise ValueError(f"{what} must have the keys {', '.join(needed)}, but {key} is missing")
    for key in data:
        if key not in (*needed, *allowed):
            raise ValueError(f"{what} must have the keys {', '.join((*needed, *allowed))} only, but has {show(key)}")
    return data


def check_list(what: str, data: object) -> list[object]:
    """Return a list or tuple, and refuse anything else."""
    if not isinstance(data, list | tuple):
        raise ValueError(f"{what} must be a list, but got {show(data)}")
    return list(data)


def check_integer(what: str, data: object) -> int:
    """Return a whole number of moderate size; refuse True and 1.0."""
    # More bits would not fit into a tensor or a file of tensors.
    if not isinstance(data, int) or isinstance(data, bool) or data.bit_length() > 63:
        raise ValueError(f"{what} must be a whole number, but got {show(data)}")
    return data


def show(data: object) -> str:
    """Return what was found, short and on one line."""
    if isinstance(data, Mapping):
        return "an object"
    if isinstance(data, list | tuple):
        return f"a list of {len(data)}"
    if isinstance(data, int) and data.bit_length() > 63:
        return "a very large number"
    return repr(data[:60]) if isinstance(data, str) else repr(data)
