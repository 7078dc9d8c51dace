"""`python -m smallgroup.bench.outcome.unit FOLDER TASK ARM SEED`: one unit in a process of its own.

CPU seconds are those of the process, so that units side by side do not disturb one another's count.
"""

import sys
from pathlib import Path

from smallgroup.bench.outcome import store
from smallgroup.bench.outcome.arms import ARMS
from smallgroup.bench.outcome.plan import Unit, tables


def main(arguments: list[str]) -> None:
    """Carry out a unit and keep its outcome."""
    quick = "--quick" in arguments
    place, task, arm, seed = (argument for argument in arguments if argument != "--quick")
    folder = Path(place)
    known = {table.task.name: table.task for table in tables(folder, quick=quick)}
    unit = Unit(known[task], arm, int(seed))
    found = None if arm == "run" else store.read(folder, Unit(unit.task, "run", unit.seed))
    store.write(folder, unit, ARMS[arm](unit.task, unit.seed, found))


if __name__ == "__main__":
    main(sys.argv[1:])
