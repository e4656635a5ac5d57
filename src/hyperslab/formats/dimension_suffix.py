"""Dimensions of one name and several lengths, in formats where a name has one length: ``dim0`` and ``dim0@3``.

HDMF, Zarr and Blosc say the names of an array's dimensions with the array, so that arrays of one group may mean
different lengths by one name. netCDF and xarray declare dimensions: there the second length is called
``<name>@<length>``, which the reader shows by its plain name as long as the plain one can be seen from there.
"""

from __future__ import annotations

from collections.abc import Callable


def add_suffix(name: str, size: int) -> str:
    """What the dimension ``name`` is stored as where another one of this name is longer or shorter."""
    return f"{name}@{size}"


def strip_suffix(name: str, size: int, declares: Callable[[str], bool]) -> str:
    """The name of a stored dimension of this length as it was given. ``declares``: whether a name is declared in
    its group or further out."""
    plain, _, length = name.rpartition("@")
    return plain if plain and length == str(size) and declares(plain) else name
