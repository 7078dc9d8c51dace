"""The standalone form."""

import argparse
import sys

import torch

from tests.tools import fuzz as room
from tests.tools.fuzz import READERS, fuzz


def main() -> int:
    """Try all readers and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.fuzz", description=room.__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="how many in all, at least (default 10,000)")
    parser.add_argument("--seed", type=int, default=0, help="other seeds, other inputs")
    parser.add_argument("--only", default="", help="readers whose name has this in it")
    given = parser.parse_args()
    torch.set_num_threads(1)
    readers = [reader for reader in READERS if given.only in reader.name]
    shares, tried, defects = sum(reader.share for reader in readers), 0, 0
    for reader in readers:
        found = fuzz(reader, -(-given.inputs * reader.share // shares), given.seed)
        tried, defects = tried + found.tried, defects + len(found.defects)
        print(
            f"{reader.name}: {found.tried:,} tried, {found.accepted:,} accepted, {found.refused:,} refused, "
            f"{len(found.defects):,} defects, slowest {found.slowest:.2f} s",
            flush=True,
        )
        for defect in found.defects[:10]:
            print(f"  {defect}", flush=True)
    print(f"{tried:,} inputs to {len(readers)} readers, {defects:,} defects")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
