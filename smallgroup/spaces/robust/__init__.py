"""Four small parts of the DARTS space in which plain DARTS collapses.

Zela et al., Understanding and Robustifying Differentiable Architecture Search, ICLR 2020 (arXiv:1909.09656).
"""
