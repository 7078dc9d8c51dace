"""The largest sizes that a config, a file of a run or a call may ask for, each declared once.

They lie far above any published network. Below them everything can be built on the meta device and counted in a few
seconds, so that a single wrong digit, or an untrusted folder, ends in an error and not in a hang.
"""

MOST = {
    "channels": 4096,
    "cells": 100,
    "cells_per_stage": 50,
    "halvings": 6,  # of a stem: 4,096 pixels become 64
    "classes": 50_000,  # ImageNet-21k has 21,841
    "image_channels": 1024,
    "image_size": 4096,
    "batch_size": 100_000,
    "epochs": 100_000,
    "steps_per_epoch": 10_000_000,
    "learners": 64,
    "plugins": 100,
    "candidates": 1000,
    "stages": 20,
    "edges": 20,  # into one node of a cell; published cells have two, and six at most
    "workers": 64,
    "threads": 1024,
    "batch": 100_000,  # these three of benchmarks
    "size": 4096,
    "rounds": 100_000,
}
"""By the name that a size has in calls and sentences."""
MOST_PARAMETERS = 1_000_000_000
"""Of one network: the product of sizes that are allowed one by one may still be too large for any machine."""


def check_parameters(count: int) -> None:
    """Refuse a network with too many parameters, before memory is asked for."""
    if count > MOST_PARAMETERS:
        raise ValueError(
            f"a network must have at most {MOST_PARAMETERS:,} parameters, but this one would have {count:,}; lower its "
            "channels or cells"
        )
