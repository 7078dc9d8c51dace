"""Names of the DARTS space: its operations, stems, heads and kinds of cells."""

from smallgroup.spaces.kinds import Kind

OPERATIONS = (
    "none",
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "dil_conv_5x5",
)
"""What a search chooses from, in the order of the architecture's columns."""
KNOWN = (*OPERATIONS[1:6], "sep_conv_7x7", *OPERATIONS[6:], "conv_7x1_1x7")
"""Everything a genotype may name: published cells also have operations that no search chooses from."""
STEMS = ("cifar", "small", "imagenet")
"""For images of about 32x32, for smaller ones such as 8x8 digits, and for about 224x224 (an eighth of it in cells)."""
AUXILIARIES = ("none", "one-norm", "two-norms")
"""No head; with a batch norm behind the first of its convolutions, as DARTS, PC-DARTS and the paper train on ImageNet;
behind both, as everybody does on CIFAR, and P-DARTS and DARTS- on ImageNet as well."""
INPUTS, NODES = 2, 4
"""A cell's nodes 0 and 1 are the outputs of the two cells before it; a searched cell has four more."""
EDGES = tuple((source, node) for node in range(INPUTS, INPUTS + NODES) for source in range(node))
KINDS = {
    "normal": Kind("normal", EDGES, OPERATIONS, "normal cell"),
    "reduce": Kind("reduce", EDGES, OPERATIONS, "reduction cell"),
}
"""The kinds of cells, normal and reduction."""
