"""The version, which every layer may know."""

__version__ = "0.1.0"
