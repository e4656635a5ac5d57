"""hyperslab: one system for large labelled N-dimensional arrays."""

__version__ = "0.1.0"
