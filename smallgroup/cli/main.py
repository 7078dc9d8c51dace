"""What holds for every command: how it fails, and how it ends."""

import errno
import io
import sys
import traceback
from collections.abc import Sequence

import typer

from smallgroup.cli.app import app
from smallgroup.cli.given import PLUGINS
from smallgroup.cli.launching import is_follower
from smallgroup.cli.output import say
from smallgroup.cli.streams import guarded_streams
from smallgroup.registry import import_plugins

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What no other input would have helped against."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code: 2 for bad input, 1 for a failed run, each with one line that says why."""
    with guarded_streams():
        return _run(list(sys.argv[1:] if arguments is None else arguments))


def _run(words: list[str]) -> int:
    end = words.index("--") if "--" in words else len(words)
    # Where they stand does not matter: who sees an error adds --debug or --plugin at the end of the line.
    debug = "--debug" in words[:end]
    options, plugins = _without_plugins([word for word in words[:end] if word != "--debug"])
    words = options + words[end:]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a letter shows another
    try:
        PLUGINS[:] = plugins
        import_plugins(plugins)
        code = app(args=words, prog_name="smallgroup", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # who reads our output has left (`| head`)
        code = FAILED
    except SystemExit as error:  # typer, if it notices first
        code = error.code
    except Exception as error:
        if debug:
            say(*traceback.format_exc().rstrip().split("\n"), err=True)
        elif not is_follower():
            say(f"error: {_sentence(error)}", err=True)
        return _exit_code(error)
    if code == INTERRUPTED and not is_follower():
        say("error: interrupted", err=True)
    return code if isinstance(code, int) else FAILED if code else 0


def _without_plugins(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words of a command line without --plugin, and the plugins."""
    left, plugins = [], []
    given = iter(words)
    for word in given:
        if word == "--plugin":
            plugins.append(next(given, ""))
        elif word.startswith("--plugin="):
            plugins.append(word.removeprefix("--plugin="))
        else:
            left.append(word)
    return left, plugins


def _sentence(error: Exception) -> str:
    """Return an error as one line, whatever it holds."""
    if hasattr(error, "format_message"):  # the parser of the command line
        text = str(error.format_message())
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    elif isinstance(error, ValueError) or type(error).__module__.startswith("smallgroup."):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error} (--debug shows where)"
    return " ".join("; ".join([text, *getattr(error, "__notes__", ())]).split())


def _exit_code(error: Exception) -> int:
    if isinstance(code := getattr(error, "exit_code", None), int) and not hasattr(error, "format_message"):
        return code  # ended by a signal
    if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
        return FAILED
    return BAD_INPUT if isinstance(error, ValueError | OSError) or hasattr(error, "format_message") else FAILED
