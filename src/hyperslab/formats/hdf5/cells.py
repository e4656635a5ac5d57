"""The cells of an HDF5 dataset without the HDF5 library: chunk offsets once from h5py, then pread and our own codecs.

HDF5 decodes one chunk at a time under a global lock. A chunk's address, its stored size and the mask of filters that
were left out (``H5Dchunk_iter``) are all that threads need to read the same file in parallel. For a filter, a layout
or a type with padding that is not known here :func:`open_chunk_source` returns None, and the library reads instead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from math import prod
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.locations import ChunkLocations
from hyperslab.chunks.source import Block, ChunkSource, DecodingSource, SourceTraits
from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import Conflict, CorruptChunk, HyperslabError, Unsupported
from hyperslab.formats.format_errors import ReadOnlyChunks
from hyperslab.formats.hdf5.types import is_hdf5_bool
from hyperslab.model.dtypes import Char, Enum, NumpyDType
from hyperslab.model.spec import ArraySpec, Codec
from hyperslab.stores.files import pread, pread_into
from hyperslab.stores.stored_file import StoredFile

if TYPE_CHECKING:
    import h5py

ChunkLocation = tuple[int, int, int]
"""Where a chunk lies: offset, bytes, and the mask of filters that it was not passed through."""

NO_REPAIR = "restore the file from a copy, or convert what is sound to a new one (--skip-damaged)"
"""The remedy for a damaged chunk in a file that is changed by nobody here."""
_FLETCHER32 = 3
"""HDF5's number of the filter that appends a checksum."""
_CHECKSUM = 4
"""Bytes of that checksum."""


def open_chunk_source(
    dataset: h5py.Dataset, descriptor: Any, spec: ArraySpec, url: str, source_types: SourceTypes
) -> ChunkSource | None:
    """Return the chunks of an h5py dataset by pread from ``descriptor`` (open on the same file), or None: use h5py.

    ``url`` names the file in errors. ``source_types``: what reads ``descriptor``. ``spec.chunks`` is the dataset's
    chunk shape, or any grid over a dataset that lies in one piece.
    """
    from h5py import h5d

    plist = dataset.id.get_create_plist()
    if dataset.shape != spec.shape:  # netCDF: cells behind the end of this variable, on a longer dimension
        return None
    if not _is_stored_as_cells(dataset, spec) or plist.get_external_count() or dataset.file.userblock_size:
        return None
    layout = plist.get_layout()
    contiguous, chunked = source_types
    if layout == h5d.CONTIGUOUS:
        return contiguous(descriptor, dataset.id.get_offset(), spec, spec.numpy_dtype, url)
    if layout != h5d.CHUNKED or tuple(spec.chunks) != dataset.chunks:
        return None
    try:
        return chunked(dataset, descriptor, spec, url)
    except Unsupported:
        return None


def _is_stored_as_cells(dataset: h5py.Dataset, spec: ArraySpec) -> bool:
    """Return True if the bytes in the file are the bytes of the cells."""
    from h5py import h5t

    kind = dataset.id.get_type()
    match spec.dtype:
        case np.dtype(kind="i" | "u" | "f" | "c"):
            return bool(kind.equal(h5t.py_create(spec.dtype)))
        case np.dtype(kind="b"):
            return is_hdf5_bool(kind)
        case Enum(base=base):
            return isinstance(kind, h5t.TypeEnumID) and bool(kind.get_super().equal(h5t.py_create(base)))
        case Char():
            return isinstance(kind, h5t.TypeStringID) and not kind.is_variable_str() and kind.get_size() == 1
        case _:
            return False


def check_chunk_sizes(dataset: h5py.Dataset, url: str) -> None:
    """Raise CorruptChunk for a chunk of an h5py dataset that is stored in fewer bytes than its filters give.

    HDF5 2.2.0 reads beyond its buffer for such a chunk, which ends the process: its filter fletcher32 takes the 4 bytes
    of the checksum from the length without a look. The sizes lie in B-trees, which have no checksum of their own.
    """
    from h5py import h5d

    plist = dataset.id.get_create_plist()
    if plist.get_layout() != h5d.CHUNKED or not plist.get_nfilters():
        return
    numbers = [plist.get_filter(index)[0] for index in range(plist.get_nfilters())]
    sums = sum(1 << index for index, number in enumerate(numbers) if number == _FLETCHER32)  # as a mask of filters

    def check(chunk: Any) -> None:
        found, least = chunk.size, 1 + (_CHECKSUM if sums & ~chunk.filter_mask else 0)
        if found < least:
            key = f"{dataset.name} chunk at cell {tuple(chunk.chunk_offset)}"
            message = "the index of the chunks is damaged: a chunk is shorter than its filters make any"
            raise CorruptChunk(message, url=url, key=key, expected=least, found=found, remedy=NO_REPAIR)

    try:
        dataset.id.chunk_iter(check)
    except (RuntimeError, OSError, ValueError) as error:
        raise CorruptChunk(f"the index of the chunks is damaged: {error}", url=url, key=dataset.name) from error


class Hdf5Chunks(DecodingSource, ReadOnlyChunks):
    """A chunked dataset; the table of its chunks is read at the first use. Read-only. ``can_be_repaired``: called where
    a chunk is damaged, True if ``repair`` can put fill values in its place."""

    traits = SourceTraits(lists_chunks=True)

    def __init__(
        self,
        dataset: h5py.Dataset,
        descriptor: int,
        spec: ArraySpec,
        url: str,
        *,
        can_be_repaired: Callable[[], bool] = lambda: True,
    ) -> None:
        self._dataset = dataset
        self._url = url
        self._can_be_repaired = can_be_repaired
        self._descriptor = descriptor
        self._spec = spec
        self.grid = Grid.of(spec.shape, spec.chunks)
        self._cells = ChunkLayout(spec.dtype, dataset.chunks, spec.fill_value)
        self._chains = {0: build_chain(spec.codecs, self._cells)}
        self._is_uncompressed = not spec.codecs
        self._table: dict[Coords, ChunkLocation] | None = None
        self._table_file: StoredFile | None = None
        self._lock = threading.Lock()

    def table(self) -> dict[Coords, ChunkLocation]:
        """Return the location of every stored chunk, by its coordinates."""
        if self._table is None:
            with self._lock:
                if self._table is None:
                    self._table = self._read_table()
        return self._table

    def _read_table(self) -> dict[Coords, ChunkLocation]:
        table: dict[Coords, ChunkLocation] = {}
        self._table_file = self.stored_file()  # before: what is written from here on is another version
        sizes = self._dataset.chunks

        def add_chunk(chunk: Any) -> None:
            coords = tuple([start // size for start, size in zip(chunk.chunk_offset, sizes, strict=True)])
            table[coords] = (chunk.byte_offset, chunk.size, chunk.filter_mask)

        try:
            self._dataset.id.chunk_iter(add_chunk)
        except (RuntimeError, OSError, ValueError) as error:
            raise CorruptChunk(
                f"the index of the chunks is damaged: {error}", url=self._url, key=self._dataset.name
            ) from error
        return table

    def read_into(self, coords: Coords, out: Block) -> bool:
        stored = (self._table or self.table()).get(coords)  # a call less for every chunk
        if stored is None:
            return False
        offset, size, _ = stored
        try:
            if (
                self._is_uncompressed
                and size == out.nbytes
                and out.flags.c_contiguous
                and out.dtype == self._spec.numpy_dtype
            ):
                pread_into(self._descriptor, out.reshape(-1).view(np.uint8).data, offset)
                return True
            data = pread(self._descriptor, size, offset)
        except HyperslabError as error:
            raise self._locate_error(error, coords, offset) from error.__cause__
        self.decode(coords, data, out)
        return True

    def decode(self, coords: Coords, data: Buffer, out: Block) -> None:
        """Decode what is stored of a chunk into ``out``."""
        offset, _, mask = (self._table or self.table())[coords]
        chain = self._chains.get(mask)
        if chain is None:
            # HDF5 leaves out an optional filter that fails; the mask says which ones the chunk was not passed through.
            applied = tuple(codec for index, codec in enumerate(self._spec.codecs) if not mask >> index & 1)
            chain = self._chains.setdefault(mask, build_chain(applied, self._cells))
        try:
            chain.decode_into(data, out)
        except HyperslabError as error:
            raise self._locate_error(error, coords, offset) from error.__cause__

    def _locate_error(self, error: HyperslabError, coords: Coords, offset: int) -> HyperslabError:
        if isinstance(error, CorruptChunk) and not self._can_be_repaired():
            error.remedy = NO_REPAIR
        return error.locate(url=self._url, key=f"{self._dataset.name} chunk {coords} at byte {offset}")

    def locations(self) -> ChunkLocations:
        """Return where all chunks lie, those that a filter was left out of as odd ones. Conflict for a file that was
        changed since its table was read."""
        table, file = self.table(), self.stored_file()
        if file != self._table_file:
            remedy = "try again when nobody writes the file"
            raise Conflict("the file changed while it was read", url=self._url, key=self._dataset.name, remedy=remedy)
        coords = np.array(list(table), np.int64).reshape(len(table), len(self.grid.axes))
        found = np.array(list(table.values()), np.int64).reshape(len(table), 3)
        plain = found[:, 2] == 0
        return ChunkLocations(
            (file,),
            self._cells.shape,
            self._spec.numpy_dtype,
            with_bytes(self._spec.codecs),
            coords[plain],
            np.zeros(int(plain.sum()), np.int32),
            found[plain, 0],
            found[plain, 1],
            coords[~plain],
        )

    def stored_file(self) -> StoredFile:
        """Return the file that holds the chunks."""
        return StoredFile.of_path(self._url, os.fstat(self._descriptor))

    def stored_coords(self) -> Iterator[Coords]:
        return iter(self.table())

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        table = self.table()
        return sum(table[place][1] for place in coords if place in table)

    def stored_bytes(self, coords: Coords) -> bytes | None:
        """Return the encoded bytes of a chunk, damaged or not; None if its location is outside of the file."""
        stored = self.table().get(coords)
        try:
            return None if stored is None else bytes(pread(self._descriptor, stored[1], stored[0]))
        except HyperslabError:
            return None

    def nbytes_stored(self) -> int:
        return self.stored_sizes(self.table())


class ContiguousCells(DecodingSource, ReadOnlyChunks):
    """Cells in one piece from byte ``offset`` on (None: nothing was ever written), of the dtype ``stored``."""

    def __init__(self, descriptor: int, offset: int | None, spec: ArraySpec, stored: NumpyDType, url: str) -> None:
        self._descriptor = descriptor
        self._url = url
        self._offset = offset
        self._spec = spec
        self._stored = stored
        self.grid = Grid.of(spec.shape, spec.chunks)

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read the chunk's rows into ``out``; what reaches past the array's edge holds the fill value."""
        if self._offset is None:
            return False
        extent = self.grid.extent(coords)
        target = self._inside(extent, out)
        for offset, place in self._rows(extent):
            cells = target[(*place, ...)]
            try:
                if cells.dtype == self._stored and cells.flags.c_contiguous:
                    pread_into(self._descriptor, cells.reshape(-1).view(np.uint8).data, offset)
                else:
                    data = pread(self._descriptor, cells.size * self._stored.itemsize, offset)
                    cells[...] = np.frombuffer(data, self._stored).reshape(cells.shape)
            except HyperslabError as error:
                raise error.locate(url=self._url) from error.__cause__
        return True

    def _inside(self, extent: tuple[slice, ...], out: Block) -> Block:
        """Return the cells of ``out`` that lie in the array, and fill the others with the fill value."""
        inside: tuple[Any, ...] = tuple([slice(0, part.stop - part.start) for part in extent])
        target: Block = out[(*inside, ...)]
        if target.shape != out.shape:
            out[...] = self._spec.fill_cell()
        return target

    def _rows(self, extent: tuple[slice, ...]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield byte offset and index in the chunk of each run of cells that lie side by side in the file."""
        shape = self._spec.shape
        strides = [self._stored.itemsize] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        split = len(shape)  # the axes from here on are read whole, so that their cells are one run
        while split and extent[split - 1] == slice(0, shape[split - 1]):
            split -= 1
        outer = max(split - 1, 0)
        start = (self._offset or 0) + sum([part.start * step for part, step in zip(extent, strides, strict=True)])
        for place in product(*[range(part.stop - part.start) for part in extent[:outer]]):
            yield start + sum(map(mul, place, strides)), place

    def locations(self) -> ChunkLocations:
        """Return all cells as one chunk, of none where nothing was ever written."""
        offsets = () if self._offset is None or 0 in self._spec.shape else (self._offset,)
        return ChunkLocations.of_cells(self.stored_file(), self._spec.shape, self._stored, offsets)

    def stored_file(self) -> StoredFile:
        """Return the file that holds the cells."""
        return StoredFile.of_path(self._url, os.fstat(self._descriptor))

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return the bytes of these chunks' cells within the array."""
        counts = (prod(part.stop - part.start for part in self.grid.extent(place)) for place in coords)
        return 0 if self._offset is None else sum(counts) * self._stored.itemsize

    def nbytes_stored(self) -> int:
        """Return the bytes of all cells."""
        return 0 if self._offset is None else prod(self._spec.shape) * self._stored.itemsize


def with_bytes(codecs: tuple[Codec, ...]) -> tuple[Codec, ...]:
    """Return HDF5's filters, all of which work on bytes, behind the codec that makes bytes of cells."""
    return (Codec("bytes"), *codecs)


SourceTypes = tuple[type[ContiguousCells], Callable[["h5py.Dataset", Any, ArraySpec, str], Hdf5Chunks]]
"""What makes the source of a dataset in one piece, and of one in chunks."""
