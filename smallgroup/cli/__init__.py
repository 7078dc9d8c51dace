"""The command `smallgroup`: thin, over what the package offers."""

from smallgroup.cli.main import main

__all__ = ["main"]
