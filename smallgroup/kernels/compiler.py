"""`python -m smallgroup.kernels.compiler FOLDER NAME SOURCE FLAG...`: a library, by torch's extension builder.

A process of its own, because the builder also loads what it has built, from the folder it was built in.
"""

import os
import sys
import sysconfig

from torch.utils import cpp_extension


def main(folder: str, name: str, source: str, flags: list[str]) -> None:
    """Leave the library in the folder."""
    # The programs of this environment, ninja among them, are found also where it was not activated.
    os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    cpp_extension.load(
        name,
        [source],
        extra_cflags=flags,
        extra_ldflags=[flag for flag in flags if flag == "-fopenmp"],
        build_directory=folder,
        is_python_module=False,
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
