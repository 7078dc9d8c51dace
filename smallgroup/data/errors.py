"""What is wrong with data: one sentence that states what, where and the rule."""

from pathlib import Path

LONGEST = 200
"""Characters of a foreign text (a path, a file's own words) that may enter a sentence."""


class DataError(ValueError):
    """The data a user gave cannot be used; the message is one sentence for them, not for a debugger."""


class WorkerError(RuntimeError):
    """A process that decodes images is gone, or could not be started: nobody gave anything wrong."""


def printable(foreign: object) -> str:
    """A text that is not ours on one line, whatever it holds: what cannot be printed is written as an escape."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(foreign))


def shown(foreign: object) -> str:
    """A text that is not ours, fit for a sentence: one line, printable, its middle left out when it is long."""
    text, half = printable(foreign), LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}...{text[-half:]}"


def reason(error: BaseException) -> str:
    """Why something could not be read: the system's own words without its path, or the kind of the error."""
    if isinstance(error, OSError) and error.strerror:
        return shown(error.strerror).lower()
    return shown(error) or type(error).__name__


def require_folder(path: Path, what: str, help: str = "") -> None:
    """Refuse a path that is not a folder one can look into."""
    try:
        if path.is_dir():
            next(path.iterdir(), None)
            return
        found = "is a file" if path.exists() else "does not exist"
    except (OSError, ValueError) as error:
        found = f"cannot be opened: {reason(error)}"
    raise DataError(f"{what} must be a folder, but {shown(path)} {found}{help}")


def check_same_data(mine: str, theirs: object) -> None:
    """Refuse to go on with a run on other images than it was begun with."""
    if mine != theirs:
        raise DataError(
            "a run is resumed on the images it was begun with, but other images are there now, or some were added or "
            "taken away"
        )
