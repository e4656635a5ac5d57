"""Values that are no NumPy arrays and are not made ones to find out what they are: arrays of ``dask`` and ``sparse``.

Neither library is imported for the question.
"""

from __future__ import annotations


def is_dask_array(value: object) -> bool:
    """Return True if the value is a dask array."""
    kind = type(value)  # a Delayed claims to have every attribute
    return hasattr(kind, "__dask_graph__") and hasattr(kind, "numblocks") and hasattr(kind, "map_blocks")


def is_sparse(value: object) -> bool:
    """Return True if the value is an array of the ``sparse`` package, of any layout."""
    return any(kind.__name__ == "SparseArray" and _is_of_sparse(kind.__module__) for kind in type(value).__mro__)


def _is_of_sparse(module: str) -> bool:
    return module.partition(".")[0] == "sparse"


def is_sparse_in_blocks(value: object) -> bool:
    """Return True if the value is a dask array that says that its blocks are sparse."""
    return is_dask_array(value) and is_sparse(getattr(value, "_meta", None))


def is_any_sparse(value: object) -> bool:
    """Return True if the value is sparse, or a dask array of sparse blocks."""
    return is_sparse(value) or is_sparse_in_blocks(value)
