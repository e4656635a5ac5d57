"""Dimensions of one name and several lengths, in formats where a name has one length: ``dim0`` and ``dim0@3``.

HDMF, Zarr and Blosc say the names of an array's dimensions with the array, so that arrays of one group may mean
different lengths by one name. netCDF and xarray declare dimensions: there the second length is called
``<name>@<length>``, which the reader shows by its plain name as long as the plain one can be seen from there.
"""

from __future__ import annotations

from collections.abc import Callable


def add_suffix(name: str, size: int) -> str:
    """Return the name under which the dimension ``name`` is stored where one of this name has another length."""
    return f"{name}@{size}"


def strip_suffix(name: str, size: int, declares: Callable[[str], bool]) -> str:
    """Return the name of a stored dimension of this length without its suffix, where it has one.

    ``declares`` tells if a name is declared in the dimension's group or further out: only then ``name@length`` is a
    suffix, and no name that somebody chose.
    """
    plain, _, length = name.rpartition("@")
    return plain if plain and length == str(size) and declares(plain) else name
