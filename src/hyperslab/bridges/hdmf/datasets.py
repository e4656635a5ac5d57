"""Arrays of ours as hdmf takes them, and the wrapper by which users say how data are to be stored.

They are read when they are indexed, appended to and changed in place. Ragged columns widen their indexes: hdmf itself
gives an index that it read 255 rows, and fails at the next one, when a part of the row was added already.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from hdmf.build import ObjectMapper
from hdmf.common import VectorIndex
from hdmf.data_utils import AbstractDataChunkIterator, DataChunk, DataIO
from hdmf.query import HDMFDataset

from hyperslab.array import Array
from hyperslab.errors import Invalid
from hyperslab.formats.codec_kinds import ARRAY, COMPRESSORS
from hyperslab.group import Group
from hyperslab.model.dtypes import VlenBytes, is_fixed
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec, Codec

# Bytes of cells from which an array is handed to other backends piece by piece.
LARGE = 64 << 20
# Cells of any length are decoded whole chunks at a time: arrays of at most so many keep what they decoded.
_MAX_CACHED_CELLS = 1 << 16
# Bytes of a piece, about: pieces are whole chunks.
_PIECE = 16 << 20


class HyperslabDataset(HDMFDataset):
    """An array of a dataset, lazily read. ``data[key]`` has NumPy's meaning; in a writable file ``data[key] = value``
    and ``append`` change it at once. Text is read as ``object`` cells."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self._cached_cells: Any = None

    @property
    def dataset(self) -> Array:
        """Return the array itself."""
        return self._array

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the lengths of the dimensions."""
        return self._array.shape

    @property
    def maxshape(self) -> tuple[int, ...]:
        """Return the shape: any array may grow."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """Return the number of cells."""
        return self._array.size

    @property
    def nbytes(self) -> int:
        """Return the bytes of all cells in memory."""
        return self._array.nbytes

    @property
    def chunks(self) -> Any:
        """Return the chunk lengths."""
        return self._array.chunks

    @property
    def attrs(self) -> Any:
        """Return the attributes without reserved ones; changes write through."""
        return self._array.attrs

    @property
    def dtype(self) -> Any:
        """Return the dtype of the cells: ``S`` for bytes of any length, ``object`` for text."""
        if isinstance(self._array.data_type, VlenBytes):
            return np.dtype("S")
        dtype = self._array.dtype
        return np.dtype(object) if dtype.kind == "T" else dtype

    def _cells(self, key: Any) -> Any:
        array = self._array
        if is_fixed(array.data_type):
            return array[key]
        if array.size > _MAX_CACHED_CELLS:
            return _text_as_objects(array[key])
        if self._cached_cells is None:
            self._cached_cells = _text_as_objects(array[...])
        return self._cached_cells[tuple(key) if isinstance(key, tuple) else key]

    __getitem__ = _cells

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array[key] = value
        self._cached_cells = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        cells = np.asarray(self._cells(...))
        return cells if dtype is None else cells.astype(dtype, copy=False)

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        if is_fixed(self._array.data_type) or self._array.size > _MAX_CACHED_CELLS:
            return map(_text_as_objects, self._array)
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
            is_object = self.dtype == object
            cells = np.array(rows, object) if is_object else np.asarray(rows)
            if is_object and (cells.ndim == 1 or not isinstance(rows[0], list | np.ndarray)):
                cells = np.empty(len(rows), object)  # what has a length of its own, as text has, is one cell
                cells[:] = rows
            self._array = widen_cells(self._array, cells)
            self._array.append(cells)
            self._cached_cells = None

    def resize(self, size: int | tuple[int, ...], axis: int | None = None) -> None:
        """Give the array another shape, or another length along ``axis``, in the file, at once, as h5py does."""
        shape: Any = size
        if axis is not None:
            shape = tuple(size if i == axis % self.ndim else length for i, length in enumerate(self.shape))
        self._array.resize(shape)
        self._cached_cells = None

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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.data, dtype)


class StreamedDataset(HyperslabDataset, AbstractDataChunkIterator):
    """A large one, which backends that copy it take piece by piece, in bounded memory."""

    def __init__(self, array: Array) -> None:
        super().__init__(array)
        self._row = 0

    def recommended_chunk_shape(self) -> Any:
        """Return the chunk lengths; None where they vary."""
        chunks = self._array.chunks
        return tuple(chunks) if all(isinstance(length, int) for length in chunks) else None

    def recommended_data_shape(self) -> tuple[int, ...]:
        """Return the shape."""
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
    """Return how many rows of a large array are copied at a time: whole chunks of about 16 MiB."""
    row = max(1, np.dtype(data.dtype).itemsize * prod(data.shape[1:]))
    cut = 1
    match getattr(data, "chunks", None):
        case (int(length), *_):
            cut = length
    return int(max(1, _PIECE // (row * cut)) * cut)


def open_lazily(array: Array) -> HyperslabDataset:
    """Return the array as a dataset of hdmf."""
    large = array.ndim > 0 and is_fixed(array.data_type) and array.nbytes >= LARGE
    return (StreamedDataset if large else HyperslabDataset)(array)


def _text_as_objects(cells: Any) -> Any:
    """Return text as objects, other cells as they are."""
    return cells.astype(object) if isinstance(cells, np.ndarray) and cells.dtype.kind == "T" else cells


for _kind in (HyperslabDataset, StreamedDataset):
    ObjectMapper.no_convert(_kind)


# -- the wrapper of data that are to be written ------------------------------------------------------------------------


class HyperslabDataIO(DataIO):
    """Data with the way they are stored by :class:`~hyperslab.hdmf.HyperslabIO`.

    ``chunks``, ``shards`` (profile v3), ``codec`` (``"zstd:5"``, ``"none"``, a list …) and ``fill_value`` are what they
    are in ``Group.create_array``. ``data`` may be an :class:`~hyperslab.array.Array` of any format. ``link_data``: of
    data that are an array of an open HDMF dataset, write a link to it rather than a copy (None: as the argument of
    ``write`` says). Without data, ``shape`` and ``dtype`` make an array of
    nothing but fill values, to be filled by :attr:`dataset` once the file is written.
    """

    def __init__(
        self,
        data: Any = None,
        *,
        chunks: Any = "auto",
        shards: Any = None,
        codec: Any = "default",
        fill_value: Any = None,
        link_data: bool | None = None,
        dtype: Any = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        if isinstance(data, Array):
            data = open_lazily(data)
        super().__init__(
            data=data, **({} if dtype is None else {"dtype": dtype}), **({} if shape is None else {"shape": shape})
        )
        self._settings = {"chunks": chunks, "shards": shards, "codec": codec, "fill_value": fill_value}
        self.link_data = link_data
        """Write a link to data that are an array; None: as the argument of ``write`` says."""
        self.dataset: Array | None = None
        """The array that was made of a wrapper without data, once the file is written."""

    @property
    def io_settings(self) -> dict[str, Any]:
        """Return ``chunks``, ``shards``, ``codec`` and ``fill_value``."""
        return dict(self._settings)

    def get_io_params(self) -> dict[str, Any]:
        """Return the arguments without the data: hdmf wraps converted data anew."""
        return {**self._settings, "link_data": self.link_data}


def read_storage_settings(data: Any) -> dict[str, Any]:
    """Return the storage settings of a wrapper. Of those of other backends only the chunk lengths count."""
    if isinstance(data, HyperslabDataIO):
        return data.io_settings
    # The compression of others is HDF5's or zarr's: our default codec takes its place.
    settings = getattr(data, "io_settings", None) or {}
    chunks = settings.get("chunks")
    return {"chunks": tuple(chunks)} if isinstance(chunks, list | tuple) else {}


def read_shape(data: Any) -> tuple[tuple[int, ...], Any]:
    """Return shape and dtype of a wrapper without data; Invalid where it has none."""
    settings = getattr(data, "io_settings", None) or {}
    shape, dtype = settings.get("shape") or data.shape, settings.get("dtype") or data.dtype
    if shape is None or dtype is None or None in shape:
        raise Invalid("a dataset without data needs a shape and a dtype", remedy="give shape= and dtype=")
    return tuple(shape), dtype


# -- indexes of ragged columns -----------------------------------------------------------------------------------------

# The wider array is made under this name, and takes the place of the other when it is whole.
_HIDDEN = "{}~widened"


def widen_indexes(container: Any) -> Any:
    """Let all indexes of a container take any number of rows, and return it: their data widen themselves."""
    below = [container]  # hdmf's all_children would remember what there is now as all that there ever is
    for each in below:
        below += each.children
        if isinstance(each, VectorIndex):
            each._VectorIndex__uint = np.uint64  # hdmf has no public way
            each._VectorIndex__maxval = np.iinfo(np.uint64).max
    return container


def widen_cells(array: Array, cells: np.ndarray) -> Array:
    """Return the array with room for `cells`: where they do not fit, it is made anew of the narrowest type that holds
    them."""
    if array.dtype.kind != "u" or cells.dtype.kind not in "iu" or not cells.size or cells.min() < 0:
        return array
    dtype = np.min_scalar_type(cells.max())
    if dtype.itemsize <= array.dtype.itemsize:
        return array
    above, name = split(array.path)
    parent = Group(array._session, above)
    hidden = _HIDDEN.format(name)
    with parent.batch():
        parent.create_array(
            hidden,
            data=array[...].astype(dtype),
            dims=array.dims,
            chunks=array.chunks,
            shards=array.shards,
            codec=_codec_for(array.spec, dtype),
            attrs=dict(array.attrs),
        )
        del parent[name]
        parent.move(hidden, name)
    found = parent[name]
    assert isinstance(found, Array)
    return found


def _codec_for(spec: ArraySpec, dtype: np.dtype) -> Any:
    """Return the codecs for cells of another width; the default where other cells are made of them first."""
    codecs = next((each.config["codecs"] for each in spec.codecs if each.name == "sharding_indexed"), spec.codecs)
    if any(each.name in ARRAY for each in codecs):
        return "default"
    widths = {"typesize": dtype.itemsize, "elementsize": dtype.itemsize}
    steps = [each for each in codecs if each.name in COMPRESSORS or each.name == "shuffle"]
    return [Codec(each.name, {key: widths.get(key, each.config[key]) for key in each.config}) for each in steps]
