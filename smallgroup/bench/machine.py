"""What the numbers of a bench depend on: it stands above every table."""

from typing import Any

from smallgroup.runtime.environment import Environment


def head(path: str) -> dict[str, Any]:
    """Return threads, torch, the processor with the instructions in use, and the path."""
    now = Environment.current(path)
    return {"threads": now.threads, "torch": now.torch, "cpu": now.cpu, "path": now.kernels}
