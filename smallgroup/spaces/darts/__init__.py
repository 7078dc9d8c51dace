"""The DARTS space: a normal and a reduction cell of four nodes each, eight operations per edge."""

from smallgroup.spaces.darts.genotype import INPUTS, CellGenotype, Edge, Genotype
from smallgroup.spaces.darts.operations import OPERATIONS
from smallgroup.spaces.darts.space import DartsSpace

__all__ = ["INPUTS", "OPERATIONS", "CellGenotype", "DartsSpace", "Edge", "Genotype"]
