"""Names of the DARTS space: its operations and stems."""

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
