"""`python -m smallgroup.cli`."""

import sys

from smallgroup.cli.main import main

sys.exit(main())
