"""`python -m smallgroup.kernels.compiler FOLDER NAME SOURCE FLAG...`: a library, by torch's extension builder.

A process of its own, because the builder also loads what it has built, from the folder it was built in.
"""

import os
import signal
import sys
import sysconfig
from threading import Thread

from torch.utils import cpp_extension


def end_with_owner() -> None:
    """End this process and the compilers it has started when the standard input closes: its owner is gone.

    They are a process group of their own; ninja passes the signal on to what it has started.
    """

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.killpg(os.getpgrp(), signal.SIGTERM)

    Thread(target=watch, daemon=True).start()


def main(folder: str, name: str, source: str, flags: list[str]) -> None:
    """Leave the library in the folder."""
    # The programs of this environment, ninja among them, are found also where it was not activated.
    os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    if "-fsanitize=address" in flags:
        # What is built can be loaded only by a process that began with the sanitizer, as this one has; compilers that
        # begin with it take twice the time.
        os.environ.pop("LD_PRELOAD", None)
    cpp_extension.load(
        name,
        [source],
        extra_cflags=flags,
        extra_ldflags=[flag for flag in flags if flag == "-fopenmp"],
        build_directory=folder,
        is_python_module=False,
    )


if __name__ == "__main__":
    end_with_owner()
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
