"""One version of the HDF5 file of an Array or tile, open for reading: its ``meta`` text and its cells.

Any HDF5 layout will do. The library is asked once where things lie; cells are then read in parallel by ranges of bytes
where our codecs know the filters, and by the library where not. Nothing is locked and nothing is written, so that
read-only media work and no writer is waited for.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import finalize

import numpy as np

from hyperslab.chunks.execute import read
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.codecs.base import Buffer
from hyperslab.errors import Conflict, FormatError, HyperslabError, MissingLibrary, NodeNotFound, Unsupported
from hyperslab.formats.deker.flat import FlatCells, block_shape
from hyperslab.formats.deker.locks import is_held
from hyperslab.formats.deker.quick import quick
from hyperslab.formats.deker.stored import DekerChunks, LibraryCells, h5_file
from hyperslab.formats.documents import LIMITS
from hyperslab.formats.hdf5 import codec_of_filter, filters_of, open_stored
from hyperslab.formats.hdf5_lock import LOCK
from hyperslab.model.spec import ArraySpec, Codec
from hyperslab.selection.region import Range, Region
from hyperslab.stores.files import READ, read_error

Box = tuple[slice, ...]
Stamp = tuple[int, ...]
_OF_THE_SYSTEM = frozenset({errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE})
"""What says nothing about the file itself."""
_PAUSES = (0.01, 0.05, 0.2, 0.5)
"""Seconds before a file that a writer is at is opened again."""


@dataclass(slots=True, weakref_slot=True)
class DekerFile:
    """A file as it was when it was opened; ``cells`` is None where there is no ``data``: all are fill."""

    path: str
    stamp: Stamp
    text: str | None = None
    empty_cells: int | None = None
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype("V1"))
    cells: ChunkSource | None = None
    codecs: tuple[Codec, ...] = ()
    fill: Block = field(default_factory=lambda: np.zeros(()))
    others: bool = False
    """True if the file holds what is not of the format."""

    def meta(self) -> str:
        """The text; FormatError when there is none."""
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
        cells: Any = self.cells
        if out.dtype != self.dtype or cells.grid.fixed != self.shape or not out.size:
            return False
        if out.shape == self.shape and out.flags.c_contiguous:
            found = cells.read_into((0,) * out.ndim, out)
        elif hasattr(cells, "read_part"):
            found = cells.read_part((0,) * out.ndim, box, out)
        else:
            return False
        if not found:
            out[...] = self.fill
        return True

    def raw(self, coords: Coords) -> tuple[Buffer, int] | None:
        """A chunk as it is stored and the mask of the filters it was not passed through; None where it is unknown."""
        return self.cells.raw(coords) if isinstance(self.cells, DekerChunks) else None


def library() -> Any:
    """The module h5py; Unsupported names the extra when it is missing."""
    try:
        import h5py
    except ImportError as error:
        raise MissingLibrary("DEKER's files need h5py", remedy="pip install 'hyperslab[hdf5]'") from error
    return h5py


def file_stamp(path: str) -> Stamp:
    """What identifies the present version of a file; NodeNotFound when it is gone."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise _unread(error, path) from error
    return _stamp(found)


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def open_file(path: str) -> DekerFile:
    """Open a data file, again and again for a while when a writer is at it.

    NodeNotFound when it is gone, Conflict when a writer holds it for longer, FormatError when it is damaged.
    """
    for pause in _PAUSES:
        try:
            return _open(path)
        except FormatError as error:
            if not is_held(path) and time.time() - os.stat(path).st_mtime > 1:
                raise
            said = error
        time.sleep(pause)
    if is_held(path):
        remedy = "try again, or end the writer"
        raise Conflict(f"a writer is at the file; {said.message}", url=path, remedy=remedy) from said
    return _open(path)


def _open(path: str) -> DekerFile:
    library()
    try:
        descriptor = os.open(path, READ)
    except OSError as error:
        raise _unread(error, path) from error
    opened = DekerFile(path, _stamp(os.fstat(descriptor)))
    finalize(opened, os.close, descriptor)
    with _damage(path):
        if not _fill_quickly(opened, descriptor):
            with LOCK, h5_file(descriptor) as file:
                _fill(opened, file, descriptor)
    return opened


def _fill_quickly(opened: DekerFile, descriptor: int) -> bool:
    """What a file holds that is as the peer writes it; False for any other."""
    found = quick(descriptor)
    if found is None:
        return False
    if found.data is not None and found.dtype is not None:
        data, dtype = found.data, found.dtype
        codecs = tuple(codec_of_filter(*each) for each in data.filters)
        fill = np.frombuffer(data.fill, dtype)[0] if data.fill else np.zeros((), dtype)[()]
        chunks = data.chunks or block_shape(data.shape, dtype.itemsize)
        spec = ArraySpec(shape=data.shape, dtype=dtype, chunks=chunks, codecs=codecs, fill_value=fill)
        try:
            opened.cells = (
                FlatCells(descriptor, data.offset, spec, dtype, opened.path)
                if data.chunks is None
                else DekerChunks.at(data.table, descriptor, spec, opened.path)
            )
        except Unsupported:
            return False
        opened.shape, opened.dtype, opened.codecs, opened.fill = data.shape, dtype, codecs, spec.fill_cell()
    opened.empty_cells = found.empty_cells
    opened.text = None if found.text is None else _text(found.text, opened.path)
    return True


def _fill(opened: DekerFile, file: Any, descriptor: int) -> None:
    """What the file holds, and where."""
    meta, count, data = (file.get(name) for name in ("meta", "empty_cells", "data"))
    if meta is not None:
        if meta.size != 1 or meta.dtype.itemsize > LIMITS.size:
            raise FormatError("meta is no text of at most 64 MiB", url=opened.path)
        opened.text = _text(meta[()], opened.path)
    if count is not None and count.size == 1 and count.dtype.kind in "iu":
        opened.empty_cells = int(np.asarray(count[()]).reshape(())[()])
    opened.others = bool(set(file) - {"meta", "empty_cells", "data"}) or bool(file.attrs)
    if data is None:
        return
    if not hasattr(data, "chunks") or data.dtype.kind not in "biufc":
        raise FormatError("data is no array of numbers", url=opened.path)
    opened.shape, opened.dtype, opened.codecs = data.shape, data.dtype, filters_of(data)
    opened.fill = np.asarray(data.fillvalue, data.dtype)
    chunks = data.chunks or block_shape(data.shape, data.dtype.itemsize)
    spec = ArraySpec(shape=data.shape, dtype=data.dtype, chunks=chunks, codecs=opened.codecs)
    spec = spec.evolve(fill_value=opened.fill[()])
    cells = open_stored(data, descriptor, spec, opened.path, (FlatCells, DekerChunks))
    if isinstance(cells, DekerChunks):
        cells.table()  # which needs the file
    opened.cells = cells or LibraryCells(data, descriptor, spec, opened.path)


def _text(value: Any, path: str) -> str:
    """The ``meta`` text: of fixed length, padded or not, or variable, in ASCII or UTF-8."""
    value = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    try:
        text = value if isinstance(value, str) else bytes(value).decode()
    except (TypeError, UnicodeDecodeError) as error:
        raise FormatError(f"meta is no text: {error}", url=path) from error
    return text.strip("\0")


def _unread(error: OSError, path: str) -> HyperslabError:
    """What it means that a file is not read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NodeNotFound("the array was removed", url=path)
    return read_error(error, path, "")


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """What the library says of a damaged or half-written file becomes FormatError."""
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
        said = str(error).strip().partition("\n")[0]
        raise FormatError(f"the HDF5 file is damaged: {said}", url=path) from error
