"""`python -m tests.tools.dist FOLDER`: tests the sdist and the wheel in FOLDER as a user would get them.

A new virtual environment in a temporary folder gets the wheel and what it depends on. There, outside of the repository,
the command searches, trains and shows a small run; then a part of the suite, taken out of the sdist, runs against the
installed wheel. The exit code is 1 if anything fails.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMALL = ["--set=data.labeled_fraction=0.2", "--set=search.epochs=1", "--set=search.steps_per_epoch=2"]
SUITE = ["tests/group/test_gradients.py", "tests/group/test_step.py", "tests/keys", "tests/test_config.py"]
NEEDED = ["smallgroup/py.typed", "smallgroup/recipes/quick.yaml", "smallgroup/report/page.css"]
"""Files that are no modules and that an installation must have."""


def only(folder: Path, pattern: str) -> Path:
    """Return the one file of a folder that has a pattern."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{folder} must have one {pattern}, but has {len(found)}")
    return found[0]


def call(place: Path, *words: str) -> None:
    """Run a program in a folder, and end with its exit code if it fails."""
    print("$", " ".join(Path(word).name if word.startswith("/") else word for word in words), flush=True)
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(words, cwd=place, env={**clean, "OMP_NUM_THREADS": "1"}, check=False)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}")


def main(arguments: list[str]) -> None:
    """Install the wheel, use it, and run tests of the sdist against it."""
    folder = Path(arguments[0]).resolve()
    wheel, sdist = only(folder, "*.whl"), only(folder, "*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="smallgroup-dist-") as name:
        place = Path(name)
        venv.create(place / "venv", with_pip=True)
        python, command = str(place / "venv/bin/python"), str(place / "venv/bin/smallgroup")
        install = [python, "-m", "pip", "install", "--quiet"]
        call(place, *install, "--constraint", str(ROOT / "constraints/tested.txt"), str(wheel))
        call(place, python, "-m", "pip", "check")
        call(place, command, "--version")
        call(place, command, "search", "--out=run", *SMALL)
        call(place, command, "train", "run", "--set=training.epochs=1")
        call(place, command, "show", "run")
        missing = f"[name for name in {NEEDED} if not (Path(smallgroup.__file__).parents[1] / name).exists()]"
        call(place, python, "-c", f"from pathlib import Path; import sys, smallgroup; sys.exit({missing} or None)")
        call(place, *install, "hypothesis", "pytest", "pytest-xdist")
        with tarfile.open(sdist) as archive:
            archive.extractall(place / "sdist", filter="data")
        source = only(place / "sdist", "*")
        # Without its sources, so that what the tests import is the wheel.
        (source / "smallgroup").rename(place / "sources")
        call(source, python, "-m", "pytest", "-q", "-n", "2", *SUITE)


if __name__ == "__main__":
    main(sys.argv[1:])
