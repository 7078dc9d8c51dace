"""A process that carries out runs: `python -m smallgroup.study.worker ROOT NAME STUDY ONLY AT CODE PLUGIN...`.

ONLY is a JSON list of texts: of the study, rows with one of them in their names.
"""

import json
import os
import signal
import stat
import sys
import threading
from pathlib import Path

from smallgroup.registry import import_plugins
from smallgroup.runner import Interrupted
from smallgroup.runtime.files import read_regular, write_whole
from smallgroup.study.file import Study
from smallgroup.study.plan import planned
from smallgroup.study.store import Store
from smallgroup.study.work import work


def main() -> None:
    """Work on all open runs until asked to end. The file AT has the key of the current one.

    It leaves its exit code in the file CODE, unless that is empty, for those who cannot see it end.
    """
    root, name, file, only, at, code, *plugins = sys.argv[1:]
    ended = 1
    try:
        _end_with_owner()
        import_plugins(plugins)
        study = Study.model_validate_json(read_regular(Path(file)))
        plan = planned(name, study, *json.loads(only))
        work(plan.runs, Store(Path(root)), lambda run: write_whole(Path(at), run.key))
        ended = 0
    except Interrupted as error:
        ended = error.exit_code
        print(f"stopping, as asked: {error}", file=sys.stderr)
    finally:
        if code:
            write_whole(Path(code), str(ended))
    sys.exit(ended)


def _end_with_owner() -> None:
    """Save and end as soon as the other end of the input is closed, if that is a pipe."""
    if not stat.S_ISFIFO(os.fstat(0).st_mode):  # somebody started a worker by hand
        return

    def wait() -> None:
        os.read(0, 1)  # not through Python's own buffer, which may not be in use when it ends
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    main()
