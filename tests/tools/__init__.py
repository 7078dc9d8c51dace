"""Tools for contributors: attacks on the package, and proof that a refactoring changes no number. Not in the wheel."""
