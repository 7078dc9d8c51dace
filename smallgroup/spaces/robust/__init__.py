"""Four small parts of the DARTS space in which plain DARTS collapses.

Zela et al., Understanding and Robustifying Differentiable Architecture Search, ICLR 2020 (arXiv:1909.09656).
"""

SPACES = {f"robust-s{n}": f"smallgroup.spaces.robust.definition:RobustS{n}" for n in (1, 2, 3, 4)}
"""What is registered, by name: `module:Class`."""
