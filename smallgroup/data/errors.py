"""What is wrong with data: one sentence that states what, where and the rule."""

from pathlib import Path

from smallgroup.runtime.text import shown


class DataError(ValueError):
    """The user's data cannot be used; the message is one sentence for the user."""


class NoClassesError(DataError):
    """A folder has no classes: its images are of no use as a labeled dataset."""


class WorkerError(RuntimeError):
    """A process that decodes images is gone, or could not be started: nobody gave anything wrong."""


def reason(error: BaseException) -> str:
    """Return why something could not be read: the system's own words without its path, or the kind of the error."""
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
    """Refuse to resume a run on other images than it started with."""
    if mine != theirs:
        raise DataError(
            "a run must be resumed on the images it started with, but images were changed, added or removed since"
        )
