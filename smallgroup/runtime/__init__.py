"""What every layer relies on: seeds and streams of random numbers."""

from smallgroup.runtime.streams import Phase, seed_of, stream

__all__ = ["Phase", "seed_of", "stream"]
