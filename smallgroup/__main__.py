"""`python -m smallgroup`: the command, also for launchers such as torchrun."""

import sys

from smallgroup.cli import main

if __name__ == "__main__":
    sys.exit(main())
