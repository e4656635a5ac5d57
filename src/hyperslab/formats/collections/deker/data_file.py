"""One version of the HDF5 file of an Array or tile, open for reading: its ``meta`` text and its cells.

Any HDF5 layout will do. Where things lie is found by :mod:`.hdf5_parser`, or by the library, which is asked once; cells
are then read in parallel by ranges of bytes where our codecs know the filters, and by the library where not. Nothing is
locked and nothing is written, so that read-only media work and no writer is waited for.
"""

from __future__ import annotations

import atexit
import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet, finalize

import numpy as np

from hyperslab.chunks.execute import read
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource, DecodingSource, SourceTraits
from hyperslab.codecs.base import Buffer
from hyperslab.errors import (
    Conflict,
    CorruptChunk,
    FormatError,
    HyperslabError,
    MissingLibrary,
    NodeNotFound,
    Unsupported,
)
from hyperslab.formats.collections.deker.hdf5_parser import parse_data_file
from hyperslab.formats.collections.deker.locks import is_locked_elsewhere
from hyperslab.formats.documents import LIMITS
from hyperslab.formats.format_errors import ReadOnlyChunks
from hyperslab.formats.hdf5.cells import ChunkLocation, ContiguousCells, Hdf5Chunks, open_chunk_source
from hyperslab.formats.hdf5.file import ByteStream
from hyperslab.formats.hdf5.filters import codec_from_filter, load_filter_plugin, read_filters
from hyperslab.formats.hdf5.lock import LOCK
from hyperslab.model.spec import ArraySpec, Codec
from hyperslab.selection.region import Range, Region
from hyperslab.stores import system
from hyperslab.stores.files import READ, pread, read_error

if TYPE_CHECKING:
    import h5py

Box = tuple[slice, ...]


Stamp = tuple[int, ...]


# Errors of the system that say nothing about the file itself: it is not damaged by them.
_OF_THE_SYSTEM = frozenset({errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE})


# The peer changes a file in place: what is opened meanwhile may be half-written.
# Seconds before a file that a writer is at is opened again.
_PAUSES = (0.01, 0.05, 0.2, 0.5)


@dataclass(slots=True, weakref_slot=True)
class DekerFile:
    """A file as it was when it was opened; ``cells`` is None where there is no ``data``: all are fill."""

    path: str
    stamp: Stamp
    text: str | None = None
    empty_cells: int | None = None
    shape: tuple[int, ...] = ()
    dtype: np.dtype[np.generic] = field(default_factory=lambda: np.dtype("V1"))
    cells: ChunkSource | None = None
    codecs: tuple[Codec, ...] = ()
    fill: Block = field(default_factory=lambda: np.zeros(()))
    has_foreign_objects: bool = False
    """True if the file holds what is not of the format."""

    def meta(self) -> str:
        """Return the text; FormatError when there is none."""
        if self.text is None:
            remedy = "restore the file from a copy, or remove the array"
            raise FormatError("the file has no meta", url=self.path, remedy=remedy)
        return self.text

    def read(self, box: Box, out: Block, settings: Settings) -> bool:
        """Put the cells of ``box`` (forward slices) into ``out``, converted to its type; False without ``data``."""
        if self.cells is None:
            return False
        if self._read_at_once(box, out):
            return True
        axes = [Range(part.start, len(range(part.start, part.stop, part.step or 1)), part.step or 1) for part in box]
        plan = make_plan(Region(tuple(axes)), self.cells.grid)
        target = out if out.dtype == self.dtype else np.empty(plan.shape, self.dtype)
        read(self.cells, plan, target, self.fill, settings)
        if target is not out:
            try:
                with np.errstate(all="ignore"):
                    out[...] = target
            except (TypeError, ValueError) as error:
                raise FormatError(f"data of type {self.dtype} cannot be numbers: {error}", url=self.path) from error
        return True

    def _read_at_once(self, box: Box, out: Block) -> bool:
        """Read from a file whose cells are one chunk: nothing is to be planned. False where it takes a plan."""
        cells = self.cells
        if cells is None or out.dtype != self.dtype or cells.grid.fixed != self.shape or not out.size:
            return False
        if out.shape == self.shape and out.flags.c_contiguous:
            found = cells.read_into((0,) * out.ndim, out)
        elif cells.traits.reads_parts:
            found = cells.read_part((0,) * out.ndim, box, out)
        else:
            return False
        if not found:
            out[...] = self.fill
        return True

    def raw(self, coords: Coords) -> tuple[Buffer, int] | None:
        """Return a chunk as it is stored and the mask of the filters it was not passed through; None where it is
        unknown."""
        return self.cells.raw(coords) if isinstance(self.cells, DekerChunks) else None


def import_h5py() -> Any:
    """Return the module h5py; Unsupported names the extra when it is missing."""
    try:
        import h5py
    except ImportError as error:
        raise MissingLibrary("DEKER's files need h5py", remedy="pip install 'hyperslab[hdf5]'") from error
    return h5py


def file_stamp(path: str) -> Stamp:
    """Return a value that identifies the present version of a file; NodeNotFound when it is gone."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise _open_error(error, path) from error
    return stamp_of(found)


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the stamp of a file by its status: with its device, for a link may lead to another file system."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def open_file(path: str) -> DekerFile:
    """Open a data file, again and again for a while when a writer is at it.

    NodeNotFound when it is gone, Conflict when a writer holds it for longer, FormatError when it is damaged.
    """
    for pause in _PAUSES:
        try:
            return _open(path)
        except FormatError as error:
            modified = file_stamp(path)[3]  # NodeNotFound where it was removed meanwhile
            if not is_locked_elsewhere(path) and time.time_ns() - modified > 10**9:
                raise
            damage = error
        time.sleep(pause)
    if is_locked_elsewhere(path):
        remedy = "try again, or end the writer"
        raise Conflict(f"a writer is at the file; {damage.message}", url=path, remedy=remedy) from damage
    return _open(path)


def _open(path: str) -> DekerFile:
    import_h5py()  # the parser, too, asks it how types are spelled
    try:
        descriptor = os.open(path, READ)
    except OSError as error:
        raise _open_error(error, path) from error
    opened = DekerFile(path, stamp_of(os.fstat(descriptor)))
    finalize(opened, os.close, descriptor)
    with _damage(path):
        if not _fill_by_parser(opened, descriptor):
            with LOCK, h5_file(descriptor) as file:
                _fill_by_library(opened, file, descriptor)
    return opened


def _fill_by_parser(opened: DekerFile, descriptor: int) -> bool:
    """Fill ``opened`` without the library; False for a file that is not as the peer writes it."""
    found = parse_data_file(descriptor)
    if found is None:
        return False
    if found.data is not None and found.dtype is not None:
        data, dtype = found.data, found.dtype
        codecs = tuple(codec_from_filter(*each) for each in data.filters)
        fill = np.frombuffer(data.fill, dtype)[0] if data.fill else np.zeros((), dtype)[()]
        chunks = data.chunks or block_shape(data.shape, dtype.itemsize)
        spec = ArraySpec(shape=data.shape, dtype=dtype, chunks=chunks, codecs=codecs, fill_value=fill)
        try:
            opened.cells = (
                ContiguousDekerCells(descriptor, data.offset, spec, dtype, opened.path)
                if data.chunks is None
                else DekerChunks.at(data.table, descriptor, spec, opened.path)
            )
        except Unsupported:
            return False
        opened.shape, opened.dtype, opened.codecs, opened.fill = data.shape, dtype, codecs, spec.fill_cell()
    opened.empty_cells = found.empty_cells
    opened.text = None if found.text is None else _text(found.text, opened.path)
    return True


def _fill_by_library(opened: DekerFile, file: h5py.File, descriptor: int) -> None:
    """Fill ``opened`` with what the file holds and where."""
    meta, count, data = (file.get(name) for name in ("meta", "empty_cells", "data"))
    if meta is not None:
        if meta.size != 1 or meta.dtype.itemsize > LIMITS.size:
            raise FormatError("meta is no text of at most 64 MiB", url=opened.path)
        opened.text = _text(meta[()], opened.path)
    if count is not None and count.size == 1 and count.dtype.kind in "iu":
        opened.empty_cells = int(np.asarray(count[()]).reshape(())[()])
    opened.has_foreign_objects = bool(set(file) - {"meta", "empty_cells", "data"}) or bool(file.attrs)
    if data is None:
        return
    if not hasattr(data, "chunks") or data.dtype.kind not in "biufc":
        raise FormatError("data is no array of numbers", url=opened.path)
    opened.shape, opened.dtype, opened.codecs = data.shape, data.dtype, read_filters(data)
    opened.fill = np.asarray(data.fillvalue, data.dtype)
    chunks = data.chunks or block_shape(data.shape, data.dtype.itemsize)
    spec = ArraySpec(shape=data.shape, dtype=data.dtype, chunks=chunks, codecs=opened.codecs)
    spec = spec.evolve(fill_value=opened.fill[()])
    cells = open_chunk_source(data, descriptor, spec, opened.path, (ContiguousDekerCells, DekerChunks))
    if isinstance(cells, DekerChunks):
        cells.table()  # which needs the file
    opened.cells = cells or LibraryCells(data, descriptor, spec, opened.path)


def _text(value: Any, path: str) -> str:
    """Return the ``meta`` text: of fixed length, padded or not, or variable, in ASCII or UTF-8."""
    value = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    try:
        text = value if isinstance(value, str) else bytes(value).decode()
    except (TypeError, UnicodeDecodeError) as error:
        raise FormatError(f"meta is no text: {error}", url=path) from error
    return text.strip("\0")


def _open_error(error: OSError, path: str) -> HyperslabError:
    """Return the error of ours for a file that cannot be opened."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NodeNotFound("the array was removed", url=path)
    return read_error(error, path, "")


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """Raise FormatError for what the library says of a damaged or half-written file."""
    try:
        yield
    except HyperslabError as error:
        if isinstance(error, Unsupported | FormatError | NodeNotFound):
            raise
        raise FormatError(f"the HDF5 file is damaged: {error.said}", url=path) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NodeNotFound("the array was removed", url=path) from error
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM:
            raise read_error(error, path, "") from error
        message = str(error).strip().partition("\n")[0]
        raise FormatError(f"the HDF5 file is damaged: {message}", url=path) from error


# -- cells in one piece -----------------------------------------------------------------------------------------------


# Bytes that are read at once though few of them may be wanted: less than another call costs.
DEKER_READ_GAP = 64 << 10


# Bytes of the blocks that a large array is read and written by, so that threads share the work.
DEKER_BLOCK_BYTES = 4 << 20


def block_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the shape of the blocks that an array in one piece is read by: cut along its first axes, so that each is
    one run of bytes."""
    blocks = list(shape)
    for axis, length in enumerate(shape):
        inner = prod(shape[axis + 1 :]) * itemsize
        blocks[axis] = min(length, max(1, DEKER_BLOCK_BYTES // max(1, inner)))
        if blocks[axis] > 1:
            break
    return tuple(blocks)


class ContiguousDekerCells(ContiguousCells):
    """Such cells, of which a part can be read."""

    traits = SourceTraits(reads_parts=True)

    @property
    def offset(self) -> int | None:
        """The byte that the cells begin at; None where nothing was ever written."""
        return self._offset

    def read_part(self, coords: Coords, within: tuple[slice, ...], out: Block) -> bool:
        """Read the cells ``within`` a block into ``out``; False when nothing was ever written."""
        if self._offset is None:
            return False
        origin = self.grid.origin(coords)
        itemsize = self._stored.itemsize
        strides = [itemsize * prod(self._spec.shape[axis + 1 :]) for axis in range(len(origin))]
        start = self._offset
        steps = []
        for first, part, stride in zip(origin, within, strides, strict=True):
            start += (first + part.start) * stride
            steps.append((part.step or 1) * stride)
        try:
            self._read(start, tuple(steps), out)
        except HyperslabError as error:
            raise error.locate(url=self._url) from error.__cause__
        return True

    def _read(self, start: int, strides: tuple[int, ...], out: Block) -> None:
        """Read cells whose bytes are ``strides`` apart: their whole span at once, or axis by axis where that is
        wide."""
        span = self._stored.itemsize + sum([(n - 1) * step for n, step in zip(out.shape, strides, strict=True)])
        if out.ndim and span > max(DEKER_READ_GAP, 2 * out.size * self._stored.itemsize):
            for place in range(len(out)):
                self._read(start + place * strides[0], strides[1:], out[place : place + 1].reshape(out.shape[1:]))
            return
        data = pread(self._descriptor, span, start)
        out[...] = np.ndarray(out.shape, self._stored, data, 0, strides)


# -- chunks, and cells that only the library reads --------------------------------------------------------------------


# Filters that come with the library and h5py.
_IN_HDF5 = frozenset({1, 2, 3, 4, 5, 6, 32000})


class _Named(NamedTuple):
    """Stands for the h5py dataset where the parser found the chunks: what is asked of one beside its table."""

    chunks: tuple[int, ...]
    name: str = "/data"


class DekerChunks(Hdf5Chunks):
    """Chunks that our codecs read."""

    @classmethod
    def at(cls, table: dict[Coords, ChunkLocation], descriptor: int, spec: ArraySpec, url: str) -> DekerChunks:
        """Return chunks at known places; Unsupported for filters that are not ours."""
        made = cls(_Named(Grid.of(spec.shape, spec.chunks).fixed or ()), descriptor, spec, url)
        made._table = table
        return made

    def raw(self, coords: Coords) -> tuple[Buffer, int] | None:
        """Return the bytes of a chunk and the mask of the filters that it was not passed through; None when missing."""
        stored = self.table().get(coords)
        return None if stored is None else (pread(self._descriptor, stored[1], stored[0]), stored[2])


def require_filters(dataset: h5py.Dataset) -> None:
    """Have the library know the filters of a dataset; Unsupported names the extra that brings them."""
    from h5py import h5z

    plist = dataset.id.get_create_plist()
    for number in (plist.get_filter(place)[0] for place in range(plist.get_nfilters())):
        if number not in _IN_HDF5:
            require_plugin()
        if not h5z.filter_avail(number):
            raise Unsupported(f"the HDF5 filter {number}", remedy="install a library of HDF5 that has it")


def require_plugin() -> None:
    """Have the library know the filters of the package hdf5plugin."""
    if not load_filter_plugin():
        raise Unsupported("an HDF5 filter", remedy="pip install 'hyperslab[hdf5]'")


def h5_file(descriptor: int) -> h5py.File:
    """Return the file that is open as ``descriptor`` as an h5py file of its own: it stays the same file whatever its
    name is given to, and whoever else has it open in this process, locked or not, is no matter."""
    import h5py

    own = os.dup(descriptor)
    stream = ByteStream(lambda: os.fstat(own).st_size, lambda start, stop: system.pread(own, stop - start, start))
    finalize(stream, os.close, own)
    return h5py.File(stream, "r")


class LibraryCells(DecodingSource, ReadOnlyChunks):
    """Cells read by h5py, one thread at a time; the file is open for as long as these are used. Read-only."""

    traits = SourceTraits(reads_parts=True)

    def __init__(self, dataset: h5py.Dataset, descriptor: int, spec: ArraySpec, url: str) -> None:
        require_filters(dataset)
        self._descriptor = descriptor
        self._dataset: h5py.Dataset = None
        self._spec = spec
        self._url = url
        self.grid = Grid.of(spec.shape, spec.chunks)

    def read_part(self, coords: Coords, within: tuple[slice, ...], out: Block) -> bool:
        """Read the cells ``within`` a chunk into ``out``; always True."""
        origin = self.grid.origin(coords)
        box = tuple(slice(a + p.start, a + p.stop, p.step) for a, p in zip(origin, within, strict=True))
        try:
            with LOCK:
                if self._dataset is None:
                    self._open()
                out[...] = self._dataset[box or ()]
        except (OSError, RuntimeError, ValueError) as error:
            raise CorruptChunk(
                f"the library cannot read it: {error}", url=self._url, key=f"data chunk {coords}"
            ) from error
        return True

    def _open(self) -> None:
        file = h5_file(self._descriptor)
        finalize(self, LOCK.close_later, file).atexit = False
        self._dataset = file["data"]
        _OPEN.add(self)

    def close(self) -> None:
        """Let go of the file until it is needed again."""
        dataset, self._dataset = self._dataset, None
        if dataset is not None:
            dataset.file.close()

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read a chunk; what reaches past the edge is left alone. Always True."""
        inside = tuple(slice(0, part.stop - part.start) for part in self.grid.extent(coords))
        return self.read_part(coords, inside, out[inside])


_OPEN: WeakSet[LibraryCells] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all files before HDF5's own exit handler does, when it can ask for no bytes any more."""
    with LOCK:
        for cells in list(_OPEN):
            cells.close()
