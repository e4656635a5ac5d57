"""Arrays of ours as hdmf takes them: read when they are indexed, appended to and changed in place."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from hdmf.build import ObjectMapper
from hdmf.data_utils import AbstractDataChunkIterator, DataChunk, DataIO
from hdmf.query import HDMFDataset

from hyperslab.array import Array
from hyperslab.bridges.hdmf.indexes import with_room
from hyperslab.model.dtypes import VlenBytes, is_fixed

LARGE = 64 << 20
"""Bytes of cells from which an array is handed to other backends piece by piece."""
_KEPT = 1 << 16
_PIECE = 16 << 20


class HyperslabDataset(HDMFDataset):
    """An array of a dataset, lazily read. ``data[key]`` has NumPy's meaning; in a writable file ``data[key] = value``
    and ``append`` change it at once. Text is given as ``object`` cells."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self._kept: Any = None  # cells of any length are decoded whole chunks at a time: few are kept

    @property
    def dataset(self) -> Array:
        """The array itself."""
        return self._array

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each dimension."""
        return self._array.shape

    @property
    def maxshape(self) -> tuple[int, ...]:
        """The same: any array may grow."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """Cells in all."""
        return self._array.size

    @property
    def nbytes(self) -> int:
        """Bytes of all cells in memory."""
        return self._array.nbytes

    @property
    def chunks(self) -> Any:
        """The chunk lengths."""
        return self._array.chunks

    @property
    def attrs(self) -> Any:
        """The attributes of the array, reserved ones left out; changes write through."""
        return self._array.attrs

    @property
    def dtype(self) -> Any:
        """The dtype of the cells: ``S`` for bytes of any length, ``object`` for text."""
        if isinstance(self._array.data_type, VlenBytes):
            return np.dtype("S")
        dtype = self._array.dtype
        return np.dtype(object) if dtype.kind == "T" else dtype

    def __getitem__(self, key: Any) -> Any:
        return self._cells(key)

    def _cells(self, key: Any) -> Any:
        array = self._array
        if is_fixed(array.data_type):
            return array[key]
        if array.size > _KEPT:
            return _plain(array[key])
        if self._kept is None:
            self._kept = _plain(array[...])
        return self._kept[tuple(key) if isinstance(key, tuple) else key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array[key] = value
        self._kept = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        cells = np.asarray(self._cells(...))
        return cells if dtype is None else cells.astype(dtype, copy=False)

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        if is_fixed(self._array.data_type) or self._array.size > _KEPT:
            return map(_plain, self._array)
        return iter(self._cells(...))

    def __next__(self) -> Any:
        raise TypeError("an array is no iterator")

    def append(self, arg: Any) -> None:
        """Add one row at the end, in the file, at once."""
        self.extend([arg])

    def extend(self, arg: Any) -> None:
        """Add rows at the end, in the file, at once."""
        rows = list(arg)
        if rows:
            cells = _column(rows) if self.dtype == object else np.asarray(rows)
            self._array = with_room(self._array, cells)
            self._array.append(cells)
            self._kept = None

    def resize(self, size: int | tuple[int, ...], axis: int | None = None) -> None:
        """Give the array another shape, or another length along ``axis``, in the file, at once, as h5py does."""
        shape: Any = size
        if axis is not None:
            shape = tuple(size if i == axis % self.ndim else length for i, length in enumerate(self.shape))
        self._array.resize(shape)
        self._kept = None

    def __repr__(self) -> str:
        return f"<HyperslabDataset {self.shape} {self.dtype} of {self._array!r}>"


class GrowingDataset(DataIO):
    """A column of a table in a writable file, wrapped: hdmf extends no data of backends but of wrappers."""

    def __init__(self, data: HyperslabDataset) -> None:
        super().__init__(data=data)

    def append(self, arg: Any) -> None:
        """Add one row at the end, in the file, at once."""
        self.data.append(arg)

    def extend(self, arg: Any) -> None:
        """Add rows at the end, in the file, at once."""
        self.data.extend(arg)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[key] = value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.data, dtype)


class StreamedDataset(HyperslabDataset, AbstractDataChunkIterator):
    """A large one, which backends that copy it take piece by piece, in bounded memory."""

    def __init__(self, array: Array) -> None:
        super().__init__(array)
        self._row = 0

    def recommended_chunk_shape(self) -> Any:
        """The chunk lengths that it has."""
        chunks = self._array.chunks
        return tuple(chunks) if all(isinstance(length, int) for length in chunks) else None

    def recommended_data_shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.shape

    def __next__(self) -> DataChunk:
        start = self._row
        if start >= self.shape[0]:
            self._row = 0
            raise StopIteration
        self._row = stop = min(start + rows_at_once(self), self.shape[0])
        rest = (slice(0, length) for length in self.shape[1:])
        return DataChunk(np.asarray(self._array[start:stop]), (slice(start, stop), *rest))


def rows_at_once(data: Any) -> int:
    """How many rows of a large array are copied at a time: whole chunks of about 16 MiB, so many bytes each."""
    row = max(1, np.dtype(data.dtype).itemsize * prod(data.shape[1:]))
    chunks = getattr(data, "chunks", None)
    cut = chunks[0] if isinstance(chunks, tuple) and chunks and isinstance(chunks[0], int) else 1
    return int(max(1, _PIECE // (row * cut)) * cut)


def lazy(array: Array) -> HyperslabDataset:
    """The array as a dataset of hdmf."""
    large = array.ndim > 0 and is_fixed(array.data_type) and array.nbytes >= LARGE
    return (StreamedDataset if large else HyperslabDataset)(array)


def _column(rows: list[Any]) -> np.ndarray[Any, Any]:
    """Rows of objects, or of lists of them, as an array."""
    nested = np.array(rows, object)
    if nested.ndim == 1 or not isinstance(rows[0], list | np.ndarray):
        nested = np.empty(len(rows), object)
        nested[:] = rows
    return nested


def _plain(cells: Any) -> Any:
    """Text as objects."""
    return cells.astype(object) if isinstance(cells, np.ndarray) and cells.dtype.kind == "T" else cells


for _kind in (HyperslabDataset, StreamedDataset):
    ObjectMapper.no_convert(_kind)
