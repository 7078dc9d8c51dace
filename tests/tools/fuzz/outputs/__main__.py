"""The standalone form."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.tools.fuzz import outputs as room
from tests.tools.fuzz.outputs import (
    CONTROLS,
    Findings,
    every_attempt,
    make_material,
    random_attempts,
    try_outputs,
    without_cleaning,
)
from tests.tools.fuzz.outputs.attempts import look_at_said


def main() -> int:
    """Try every file, then random places, then that the fuzzer finds what is wrong without cleaning."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.fuzz.outputs", description=room.__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="random rounds after one of every file (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="other seeds, other places and attacks")
    parser.add_argument("--no-controls", action="store_true", help="leave the negative control out")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        begin = Findings()
        material, said = make_material(Path(name))
        for what, one in said.items():
            look_at_said(what, one, begin)
        every = list(every_attempt(material))
        wrong = _report("what made them", begin) + _report("every file", try_outputs(material, every))
        for start in range(0, given.rounds, 50):
            rounds = min(50, given.rounds - start)
            findings = try_outputs(material, random_attempts(material, rounds, given.seed + start))
            wrong += _report(f"random places from {start}", findings)
        for control in () if given.no_controls else CONTROLS:
            with without_cleaning(control):
                missing = try_outputs(material, every, until_found=True)
            first = f"found: {missing.defects[0]!a}" if missing.defects else "nothing is found"
            print(f"without cleaning {control}, {missing.tried} attempts: {first}", flush=True)
            wrong += not missing.defects
    return 1 if wrong else 0


def _report(what: str, found: Findings) -> int:
    print(
        f"{time.strftime('%H:%M:%S')} {what}: {found.tried:,} attempts, {found.commands:,} commands "
        f"({found.refused:,} refused), {found.files:,} files looked at, {len(found.defects):,} defects",
        flush=True,
    )
    for defect in found.defects[:20]:
        print(f"  {defect!a}", flush=True)
    return len(found.defects)


if __name__ == "__main__":
    sys.exit(main())
