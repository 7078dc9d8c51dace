"""Neural architecture search in which a small group of learners teach one another."""

__version__ = "0.1.0"
