"""A part of an array of a collection that is not read yet: ``array[...]``. Its key was checked when it was made."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Protocol

import numpy as np

from hyperslab.bridges.extras import library
from hyperslab.chunks.memory import require
from hyperslab.database.dimensions import Dimension, TimeDimension
from hyperslab.database.plain import plain_attributes
from hyperslab.database.slicing import Item, Resolved
from hyperslab.errors import Invalid


class SubsetPlan(Protocol):
    """What a part needs of its array."""

    @property
    def id(self) -> str: ...
    @property
    def collection(self) -> str: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def fill_value(self) -> Any: ...
    @property
    def dimensions(self) -> tuple[Dimension | TimeDimension, ...]: ...
    @property
    def primary_attributes(self) -> dict[str, Any]: ...
    @property
    def custom_attributes(self) -> dict[str, Any]: ...
    @property
    def memory_limit(self) -> int: ...
    def cast_cells(self, data: Any, shape: tuple[int, ...] | None) -> np.ndarray[Any, Any]: ...
    def read_cells(self, items: tuple[Item, ...]) -> Any: ...
    def write_cells(self, items: tuple[Item, ...], values: np.ndarray[Any, Any]) -> None: ...


class Subset:
    """A part of an array: what it is and where is known, its cells are read when asked for."""

    def __init__(self, array: SubsetPlan, resolved: Resolved) -> None:
        self._array = array
        self._resolved = resolved
        self._require(1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each dimension that is not selected by an int."""
        return self._resolved.selection.shape

    @property
    def bounds(self) -> tuple[Item, ...]:
        """The key that it was made by, in positions."""
        return self._resolved.bounds

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the cells."""
        return self._array.dtype

    @property
    def fill_value(self) -> Any:
        """What cells without data read as."""
        return self._array.fill_value

    @property
    def nbytes(self) -> int:
        """Bytes of its cells in memory."""
        return prod(self.shape) * self.dtype.itemsize

    def read(self) -> Any:
        """The cells as an array, or as a NumPy scalar where every dimension is selected by an int.

        NodeNotFound when the array is gone, CorruptChunk (TilesFailed of several tiles) for damage.
        """
        return self._array.read_cells(self._resolved.items)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("the cells are read: copy=False is impossible")
        return np.asarray(self.read(), dtype)

    def update(self, data: Any) -> None:
        """Store cells: of this shape, or one number for all; of the array's type, or of one that it holds without loss.
        Masked cells are stored as the fill value.

        Invalid for None, SelectionError (an IndexError) for another shape, WrongType for another type: nothing is
        written then. Conflict when another writer holds the array for longer than ``write_lock_timeout``.
        """
        self._array.write_cells(self._resolved.items, self._array.cast_cells(data, self.shape))

    def clear(self) -> None:
        """Give every cell the fill value; tiles that are covered whole are removed."""
        self._array.write_cells(self._resolved.items, np.asarray(self.fill_value, self.dtype))

    def describe(self) -> Mapping[str, list[Any]]:
        """What the cells are called along each dimension: datetimes, labels, values of the scale, or positions."""
        dimensions = self._array.dimensions
        return {d.name: d.values(self._resolved.positions(i, d.size)) for i, d in enumerate(dimensions)}

    def read_xarray(self) -> Any:
        """Return the cells as an ``xarray.DataArray`` with coordinates (times as datetime64 of UTC).

        Its attributes are ``id``, ``collection`` and, as mappings of plain values, ``primary_attributes`` and
        ``custom_attributes``: Zarr holds these; for netCDF, which has no mappings, say ``.drop_attrs()`` first.
        Dimensions that are selected by an int stay, of length 1. Invalid when all of them are.
        """
        if not self.shape:
            raise Invalid("one cell is no DataArray", remedy="read() it, or select a slice of one cell")
        self._require(2)
        xarray, array = library("xarray"), self._array
        positions = [self._resolved.positions(i, d.size) for i, d in enumerate(array.dimensions)]
        return xarray.DataArray(
            np.asarray(self.read()).reshape([len(along) for along in positions]),
            coords={d.name: d.coordinate(along) for d, along in zip(array.dimensions, positions, strict=True)},
            dims=[d.name for d in array.dimensions],
            name=array.collection,
            attrs={
                "id": array.id,
                "collection": array.collection,
                "primary_attributes": plain_attributes(array.primary_attributes),
                "custom_attributes": plain_attributes(array.custom_attributes),
            },
        )

    def _require(self, copies: int) -> None:
        nbytes, limit = copies * self.nbytes, self._array.memory_limit
        if nbytes > limit:
            require(nbytes, limit, f"{self}")

    def _bounds_text(self) -> str:
        return ", ".join(map(_text, self.bounds)) if self.bounds else "()"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(bounds=[{self._bounds_text()}], shape={self.shape}, array={self._array.id})"

    def __str__(self) -> str:
        return f"{self._array}[{self._bounds_text()}]"


class VSubset(Subset):
    """A part of an array in tiles; it reads and writes the tiles that it touches and no others."""


def _text(item: Item) -> str:
    if isinstance(item, int):
        return str(item)
    ends = ["" if end is None else str(end) for end in (item.start, item.stop)]
    return ":".join(ends if item.step is None else [*ends, str(item.step)])
