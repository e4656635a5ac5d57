"""HDF5 files of Arrays and tiles, new or changed, object by object as the peer makes them; each is replaced whole.

``meta`` is a scalar of fixed length with room for 33 bytes more, ``empty_cells`` the true number of cells that hold the
fill value, ``data`` is absent while that is all of them. A file is written under a temporary name, flushed, renamed: a
reader sees the old or the new one, and nothing is ever left in it that nobody refers to.

A changed file is made of the blocks that were written and of what the old one holds: chunks that nobody wrote to are
copied as they are stored. All are looked through, because ``empty_cells`` must tell the true number of cells with the
fill value: the peer takes ``data`` away by it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.chain import Chain
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import Unsupported
from hyperslab.formats.collections.deker.data_file import DekerFile, block_shape, import_h5py, require_plugin
from hyperslab.formats.collections.deker.folder import put_file, put_in_place, temporary_path
from hyperslab.formats.hdf5.filters import codec_from_filter, read_filters
from hyperslab.formats.hdf5.lock import LOCK
from hyperslab.model.schemas.options import HDF5Options
from hyperslab.model.spec import Codec
from hyperslab.stores.files import discard
from hyperslab.stores.keys import temporary_name

if TYPE_CHECKING:
    import h5py

# Bytes of room that the peer leaves after ``meta``, as its files show.
_PADDING = 33


@dataclass(frozen=True)
class DatasetForm:
    """How the ``data`` of a collection's files is cut and compressed: what ``create_dataset`` is told, and what it made
    of that. ``chunks`` is None for data in one piece."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    create_options: tuple[tuple[str, object], ...]
    chunks: tuple[int, ...] | None
    codecs: tuple[Codec, ...]

    @cached_property
    def grid(self) -> Grid:
        """The pieces that the cells are read and written by: the chunks, or blocks of rows."""
        return Grid.of(self.shape, self.piece_shape)

    @property
    def piece_shape(self) -> tuple[int, ...]:
        """The shape of one of them."""
        return self.chunks or block_shape(self.shape, self.dtype.itemsize)

    @cached_property
    def chain(self) -> Chain | None:
        """The codecs that make a chunk's bytes; None where the library has to."""
        if self.chunks is None:
            return None
        try:
            return build_chain(self.codecs, ChunkLayout(self.dtype, self.chunks, None))
        except Unsupported:
            return None

    def create(self, file: h5py.File) -> h5py.Dataset:
        """Make ``data`` in an h5py file; Unsupported for what the library, as it is in this process, cannot make."""
        if isinstance(dict(self.create_options).get("compression"), int):
            require_plugin()
        return _create_dataset(file, self.shape, self.dtype, self.create_options)

    def check_creatable(self) -> None:
        """Make ``data`` in memory: what :meth:`create` would refuse is refused now."""
        with _in_memory() as file:
            self.create(file)


def dataset_form(options: HDF5Options | None, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> DatasetForm:
    """Return the form of arrays of this shape and type under the options of their collection; Unsupported for a
    filter."""
    if options is None:
        return DatasetForm(shape, dtype, (), None, ())
    create_options: dict[str, object] = {}
    if options.chunks is not None:
        create_options["chunks"] = options.chunks
    filters = options.compression_opts
    if filters.compression is not None:
        create_options["compression"] = filters.compression
        if filters.compression_opts is not None:
            create_options["compression_opts"] = filters.compression_opts
    return _form(shape, dtype, tuple(create_options.items()))


@lru_cache(maxsize=256)
def _form(
    shape: tuple[int, ...], dtype: np.dtype[np.generic], create_options: tuple[tuple[str, Any], ...]
) -> DatasetForm:
    """Return the form that the library makes of it, asked in memory.

    A filter that has a number is one of a plug-in, which reading does not need: how it cuts the cells is asked without.
    """
    options = dict(create_options)
    number = options.get("compression")
    if not isinstance(number, int):
        with _in_memory() as file:
            data = _create_dataset(file, shape, dtype, create_options)
            return DatasetForm(shape, dtype, create_options, data.chunks, read_filters(data))
    codec = codec_from_filter(number, tuple(options.get("compression_opts") or ()))
    with _in_memory() as file:
        data = _create_dataset(file, shape, dtype, (("chunks", options.get("chunks", True)),))
        return DatasetForm(shape, dtype, create_options, data.chunks, (codec,))


def _create_dataset(
    file: h5py.File, shape: tuple[int, ...], dtype: np.dtype[np.generic], create_options: tuple[tuple[str, Any], ...]
) -> h5py.Dataset:
    try:
        return file.create_dataset("data", shape, dtype, **dict(create_options))
    except (ValueError, TypeError, RuntimeError) as error:
        remedy = "choose other collection_options"
        if "netCDF4" in sys.modules and isinstance(dict(create_options).get("compression"), int):
            remedy = "import hdf5plugin before netCDF4, whose HDF5 library its filters take for h5py's"
        raise Unsupported(f"HDF5 with {dict(create_options)}: {error}", remedy=remedy) from error


@contextmanager
def _in_memory() -> Iterator[h5py.File]:
    """Yield an h5py file in memory, under the library's lock."""
    h5py = import_h5py()
    with LOCK, h5py.File(temporary_name("form"), "w", driver="core", backing_store=False) as file:
        yield file


def file_bytes(text: str, count: int, form: DatasetForm | None = None, cells: bytes = b"") -> bytes:
    """Return a file of which ``count`` cells hold the fill value; without a form it has no ``data``, with one that lies
    in one piece."""
    meta = text.encode("ascii")
    places, image = _image(len(meta) + _PADDING, form and form.shape, form and form.dtype)
    whole = bytearray(image)
    for place, part in zip(places, (meta, count.to_bytes(8, "little"), cells), strict=False):
        whole[place : place + len(part)] = part
    return bytes(whole)


@lru_cache(maxsize=64)
def _image(size: int, shape: tuple[int, ...] | None, dtype: np.dtype[np.generic] | None) -> tuple[list[int], bytes]:
    """Return a file with ``size`` zero bytes as its ``meta``, and where in it ``meta``, ``empty_cells`` and ``data``
    begin."""
    h5py = import_h5py()
    name = temporary_name("image")
    with LOCK, h5py.File(name, "w", driver="core", backing_store=False, libver="earliest") as file:
        made = [_meta(file, b"", size), file.create_dataset("empty_cells", data=np.int64(0))]
        if shape is not None:
            made.append(file.create_dataset("data", data=np.zeros(shape, dtype)))
        file.flush()
        return [part.id.get_offset() for part in made], file.id.get_file_image()


def _meta(file: h5py.File, text: bytes, size: int) -> h5py.Dataset:
    return file.create_dataset("meta", data=np.array(text, f"S{size}"))


@contextmanager
def new_file(path: str, text: str, *, durable: bool, old: str | None = None) -> Iterator[h5py.File]:
    """Yield an h5py file with ``meta`` that takes the place of ``path`` when the block ends well.

    What the file ``old`` holds besides the objects of the format is copied. When the block fails nothing is left.
    """
    h5py = import_h5py()
    temporary = temporary_path(path)
    try:
        with LOCK:
            file = h5py.File(temporary, "w-", libver="earliest", locking=False)
        try:
            meta = text.encode("ascii")
            with LOCK:
                _meta(file, meta, len(meta) + _PADDING)
                file.create_dataset("empty_cells", data=np.int64(0))
                if old is not None:
                    _copy_others(h5py, old, file)
            yield file
        finally:
            with LOCK:
                file.close()
        put_in_place(temporary, path, durable=durable)
    finally:
        discard(temporary)


def _copy_others(h5py: Any, old: str, file: h5py.File) -> None:
    """Copy objects and attributes of others, as far as they can be read."""
    with suppress(OSError, RuntimeError, ValueError, KeyError), h5py.File(old, "r", locking=False) as source:
        for name in source:
            if name not in ("meta", "empty_cells", "data"):
                source.copy(name, file)
        for name, value in source.attrs.items():
            file.attrs[name] = value


# -- changed files ----------------------------------------------------------------------------------------------------


# Bytes of cells up to which a file is put together in memory, without the library.
_SMALL = 1 << 16


# Bytes of cells up to which one thread does all the work.
_WORTH_THREADS = 1 << 20


def count_fill(cells: Block, fill: Block) -> int:
    """Return how many cells hold the fill value."""
    same = np.isnan(cells) if np.isnan(fill) else cells == fill
    return int(np.count_nonzero(same))


class _NothingLeft(Exception):
    """All cells are fill."""


@dataclass
class FileRewrite:
    """``old`` with the blocks ``written`` (by their place in the form's grid) put over it: a new file at ``path``."""

    path: str
    form: DatasetForm
    fill: Block
    settings: Settings
    old: DekerFile | None = None
    written: Mapping[Coords, Block] = field(default_factory=dict)

    def run(self, text: str) -> None:
        """Write the file with this ``meta``; without ``data`` when every cell is fill."""
        size = prod(self.form.shape)
        has_foreign_objects = self.old is not None and self.old.has_foreign_objects
        if self.form.chunks is None and size * self.form.dtype.itemsize <= _SMALL and not has_foreign_objects:
            self._write_small(text, size)
            return
        if self.written or (self.old is not None and self.old.cells is not None):
            try:
                self._write(text, size)
                return
            except _NothingLeft:
                pass
        if has_foreign_objects:
            self._write(text, size, bare=True)
        else:
            put_file(self.path, file_bytes(text, size), durable=self.settings.durable)

    def _write_small(self, text: str, size: int) -> None:
        """Write few cells in one piece, put together in memory."""
        cells = np.full(self.form.shape, self.fill, self.form.dtype)
        if self.old is not None:
            self.old.read(tuple(slice(0, length) for length in cells.shape), cells, self.settings)
        for coords, block in self.written.items():
            extent = self.form.grid.extent(coords)
            cells[extent] = block[tuple(slice(0, part.stop - part.start) for part in extent)]
        empty = count_fill(cells, self.fill)
        body = file_bytes(text, size) if empty == size else file_bytes(text, empty, self.form, cells.tobytes())
        put_file(self.path, body, durable=self.settings.durable)

    def _write(self, text: str, size: int, *, bare: bool = False) -> None:
        old = self.old.path if self.old is not None and self.old.has_foreign_objects else None
        with new_file(self.path, text, durable=self.settings.durable, old=old) as file:
            empty = size if bare else self._fill(file)
            if empty == size and not bare:
                raise _NothingLeft
            with LOCK:
                file["empty_cells"][()] = empty

    def _fill(self, file: h5py.File) -> int:
        """Write all pieces; the number of cells that hold the fill value."""
        with LOCK:
            data = self.form.create(file)
        counts: list[int] = []
        nbytes = prod(self.form.shape) * self.form.dtype.itemsize
        workers = min(self.settings.threads, self.form.grid.size) if nbytes > _WORTH_THREADS else 1
        each_batch(lambda coords: counts.append(self._piece(data, coords)), iter(self.form.grid), workers)
        return sum(counts)

    def _piece(self, data: h5py.Dataset, coords: Coords) -> int:
        """Write one piece; how many of its cells within the array hold the fill value."""
        extent = self.form.grid.extent(coords)
        inside = tuple(slice(0, part.stop - part.start) for part in extent)
        block = self.written.get(coords)
        stored: tuple[Any, int] | None = None
        if block is None:
            block = np.full(self.form.grid.chunk_shape(coords), self.fill, self.form.dtype)
            if self.old is not None:
                one = Settings(workers=1, memory_limit=self.settings.memory_limit)
                self.old.read(extent, block[inside], one)
                # A chunk that nobody wrote to is read all the same: empty_cells must tell what it holds.
                stored = self.old.raw(coords) if self._copies(self.old) else None
        if stored is None and self.form.chain is not None:
            stored = (self.form.chain.encode(np.ascontiguousarray(block, self.form.dtype)), 0)
        with LOCK:
            if stored is None:
                data[extent] = block[inside]
            else:
                data.id.write_direct_chunk(tuple(part.start for part in extent), bytes(stored[0]), stored[1])
        return count_fill(block[inside], self.fill)

    def _copies(self, old: DekerFile) -> bool:
        """Return True if chunks of the old file are what they would be in the new one."""
        grid = None if old.cells is None else old.cells.grid
        return (grid, old.dtype, old.codecs) == (self.form.grid, self.form.dtype, self.form.codecs)
