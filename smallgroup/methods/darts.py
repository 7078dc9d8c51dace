"""DARTS: Liu, Simonyan and Yang, Differentiable Architecture Search, ICLR 2019 (arXiv:1806.09055)."""

from typing import ClassVar

from smallgroup.methods.method import Method


class Darts(Method):
    """Softmax over the operations of every edge; the derived cell keeps the two strongest edges of each node."""

    name: ClassVar[str] = "darts"
