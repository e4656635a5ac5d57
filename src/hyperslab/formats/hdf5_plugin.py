"""Filters of the HDF5 library that come in a package of their own, hdf5plugin."""

from __future__ import annotations

from importlib import import_module


def load_plugin() -> bool:
    """Have the library know the filters of hdf5plugin; whether it is installed. Importing it is all that it takes."""
    try:
        import_module("hdf5plugin")
    except ImportError:
        return False
    return True
