"""The cells of an HDF5 dataset without the HDF5 library: chunk offsets once from h5py, then pread and our own codecs.

HDF5 decodes one chunk at a time under a global lock. A chunk's address, its stored size and the mask of filters that
were left out (``H5Dchunk_iter``) are all that threads need to read the same file in parallel. What this module does
not know (a filter, a layout, a type with padding) it refuses by giving None: the caller then asks the library.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from operator import mul
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.blosc import CNAMES
from hyperslab.codecs.chain import Chain, build_chain
from hyperslab.errors import CorruptChunk, HyperslabError, StorageError, Unsupported
from hyperslab.formats.format_errors import ReadOnlyChunks
from hyperslab.model.dtypes import Char, Enum
from hyperslab.model.spec import ArraySpec, Codec

Stored = tuple[int, int, int]
"""Where a chunk lies: offset, bytes, and the mask of filters that it was not passed through."""

_FLETCHER32 = 3
"""HDF5's number of the filter that appends a checksum."""
_CHECKSUM = 4
"""Bytes of that checksum."""
HAS_PREAD = hasattr(os, "preadv")
"""True if the system reads at an offset; elsewhere the library reads everything."""


def codec_of_filter(number: int, values: tuple[int, ...]) -> Codec:
    """The codec that an HDF5 filter is, by its registered number and values; else ``hdf5_filter``, unknown to us."""
    match number:
        case 1:
            return Codec("zlib", {"level": values[0] if values else 4})
        case 2:
            return Codec("shuffle", {"elementsize": values[0] if values else 1})
        case 3:
            return Codec("fletcher32")
        case 307:
            return Codec("bz2", {"level": values[0] if values else 9})
        case 32015:
            return Codec("zstd", {"level": values[0] if values else 3})
        case 32001 if len(values) > 6 and values[6] < len(CNAMES):
            config = {"cname": CNAMES[values[6]], "clevel": values[4], "shuffle": values[5], "blocksize": 0}
            return Codec("blosc", config)
        case _:
            return Codec("hdf5_filter", {"number": number, "values": list(values)})


def filters_of(dataset: Any) -> tuple[Codec, ...]:
    """The filters of an h5py dataset as codecs, in the order in which they are applied when writing."""
    plist = dataset.id.get_create_plist()
    found = (plist.get_filter(index) for index in range(plist.get_nfilters()))
    return tuple(codec_of_filter(number, tuple(values)) for number, _, values, _ in found)


def open_stored(dataset: Any, descriptor: Any, spec: ArraySpec, url: str, kinds: Kinds) -> ChunkSource | None:
    """The cells of an h5py dataset by pread from ``descriptor`` (open on the same file), or None: ask the library.

    ``url`` names the file in errors. ``kinds``: :data:`LOCAL`, or what else to make of ``descriptor``.
    ``spec.chunks`` is the dataset's chunk shape, or any grid over a dataset that lies in one piece.
    """
    from h5py import h5d

    plist = dataset.id.get_create_plist()
    if dataset.shape != spec.shape:  # netCDF: cells behind the end of this variable, on a longer dimension
        return None
    if not HAS_PREAD or not _plain_type(dataset, spec) or plist.get_external_count() or dataset.file.userblock_size:
        return None
    layout = plist.get_layout()
    whole, chunked = kinds
    if layout == h5d.CONTIGUOUS:
        return whole(descriptor, dataset.id.get_offset(), spec, spec.numpy_dtype, url)
    if layout != h5d.CHUNKED or tuple(spec.chunks) != dataset.chunks:
        return None
    try:
        return chunked(dataset, descriptor, spec, url)
    except Unsupported:
        return None


def _plain_type(dataset: Any, spec: ArraySpec) -> bool:
    """Return whether the bytes in the file are the bytes of the cells."""
    from h5py import h5t

    kind = dataset.id.get_type()
    match spec.dtype:
        case np.dtype(kind="i" | "u" | "f" | "c"):
            return bool(kind.equal(h5t.py_create(spec.dtype)))
        case Enum(base=base):
            return isinstance(kind, h5t.TypeEnumID) and bool(kind.get_super().equal(h5t.py_create(base)))
        case Char():
            return isinstance(kind, h5t.TypeStringID) and not kind.is_variable_str() and kind.get_size() == 1
        case _:
            return False


def check_chunk_sizes(dataset: Any, url: str) -> None:
    """Raise CorruptChunk for a chunk of an h5py dataset that is stored in fewer bytes than its filters give.

    HDF5 2.2.0 reads beyond its buffer for such a chunk, which ends the process: its filter fletcher32 takes the 4 bytes
    of the checksum from the length without a look. The sizes lie in B-trees, which have no checksum of their own.
    """
    from h5py import h5d

    plist = dataset.id.get_create_plist()
    if plist.get_layout() != h5d.CHUNKED or not plist.get_nfilters():
        return
    numbers = [plist.get_filter(index)[0] for index in range(plist.get_nfilters())]
    sums = sum(1 << index for index, number in enumerate(numbers) if number == _FLETCHER32)

    def check(chunk: Any) -> None:
        found, least = chunk.size, 1 + (_CHECKSUM if sums & ~chunk.filter_mask else 0)
        if found < least:
            key = f"{dataset.name} chunk at cell {tuple(chunk.chunk_offset)}"
            message = "the index of the chunks is damaged: a chunk is shorter than its filters make any"
            remedy = "restore the file from a copy, or convert what is sound to a new one (--skip-damaged)"
            raise CorruptChunk(message, url=url, key=key, expected=least, found=found, remedy=remedy)

    try:
        dataset.id.chunk_iter(check)
    except (RuntimeError, OSError, ValueError) as error:
        raise CorruptChunk(f"the index of the chunks is damaged: {error}", url=url, key=dataset.name) from error


class StoredChunks(ReadOnlyChunks):
    """A chunked dataset; the table of its chunks is read at the first use. Read-only."""

    def __init__(self, dataset: Any, descriptor: int, spec: ArraySpec, url: str) -> None:
        self._dataset = dataset
        self._url = url
        self._descriptor = descriptor
        self._spec = spec
        self._grid = Grid.of(spec.shape, spec.chunks)
        self._cells = ChunkLayout(spec.dtype, dataset.chunks, spec.fill_value)
        self._chains = {0: build_chain(spec.codecs, self._cells)}
        self._bare = not spec.codecs
        self._table: dict[Coords, Stored] | None = None
        self._lock = threading.Lock()

    @property
    def grid(self) -> Grid:
        """The HDF5 chunk grid."""
        return self._grid

    def table(self) -> dict[Coords, Stored]:
        """Every stored chunk by its coordinates."""
        if self._table is None:
            with self._lock:
                if self._table is None:
                    self._table = self._read_table()
        return self._table

    def _read_table(self) -> dict[Coords, Stored]:
        table: dict[Coords, Stored] = {}
        sizes = self._dataset.chunks

        def note(chunk: Any) -> None:
            coords = tuple([start // size for start, size in zip(chunk.chunk_offset, sizes, strict=True)])
            table[coords] = (chunk.byte_offset, chunk.size, chunk.filter_mask)

        try:
            self._dataset.id.chunk_iter(note)
        except (RuntimeError, OSError, ValueError) as error:
            raise CorruptChunk(
                f"the index of the chunks is damaged: {error}", url=self._url, key=self._dataset.name
            ) from error
        return table

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``; False when it was never written."""
        stored = self.table().get(coords)
        if stored is None:
            return False
        offset, size, mask = stored
        try:
            if self._bare and size == out.nbytes and out.flags.c_contiguous and out.dtype == self._spec.numpy_dtype:
                pread_into(self._descriptor, out.reshape(-1).view(np.uint8).data, offset)
            else:
                chain = self._chains.get(mask) or self._chain_without(mask)
                chain.decoder(out)(pread(self._descriptor, size, offset))
        except HyperslabError as error:
            raise self._located(error, coords, offset) from error.__cause__
        return True

    def decode(self, coords: Coords, data: Buffer, out: Block) -> None:
        """Decode what is stored of a chunk into ``out``."""
        offset, _, mask = self.table()[coords]
        chain = self._chains.get(mask) or self._chain_without(mask)
        try:
            chain.decode_into(data, out)
        except HyperslabError as error:
            raise self._located(error, coords, offset) from error.__cause__

    def _located(self, error: HyperslabError, coords: Coords, offset: int) -> HyperslabError:
        return error.locate(url=self._url, key=f"{self._dataset.name} chunk {coords} at byte {offset}")

    def _chain_without(self, mask: int) -> Chain:
        kept = tuple(codec for place, codec in enumerate(self._spec.codecs) if not mask >> place & 1)
        return self._chains.setdefault(mask, build_chain(kept, self._cells))

    def read(self, coords: Coords) -> Block | None:
        """The decoded chunk, or None when it was never written."""
        block = np.empty(self._cells.shape, self._spec.numpy_dtype)
        return block if self.read_into(coords, block) else None

    def stored(self) -> Iterator[Coords]:
        """The coordinates of every stored chunk."""
        return iter(self.table())

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes that these chunks take in the file."""
        table = self.table()
        return sum(table[place][1] for place in coords if place in table)

    def stored_bytes(self, coords: Coords) -> bytes | None:
        """What is stored of a chunk, whatever is wrong with it; None where its place is outside of the file."""
        stored = self.table().get(coords)
        try:
            return None if stored is None else bytes(pread(self._descriptor, stored[1], stored[0]))
        except HyperslabError:
            return None

    def nbytes_stored(self) -> int:
        """Bytes that all chunks take."""
        return self.stored_sizes(self.table())


class ContiguousCells(ReadOnlyChunks):
    """Cells that lie in one piece from byte ``offset`` on (None: nothing was ever written), as ``stored`` dtype."""

    def __init__(self, descriptor: int, offset: int | None, spec: ArraySpec, stored: np.dtype[Any], url: str) -> None:
        self._descriptor = descriptor
        self._url = url
        self._offset = offset
        self._spec = spec
        self._stored = stored
        self._grid = Grid.of(spec.shape, spec.chunks)

    @property
    def grid(self) -> Grid:
        """The grid that was laid over the cells."""
        return self._grid

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read the chunk's rows into ``out``; what reaches past the array's edge holds the fill value."""
        if self._offset is None:
            return False
        extent = self._grid.extent(coords)
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
        """The cells of ``out`` that lie in the array; the others get the fill value."""
        inside: tuple[Any, ...] = tuple([slice(0, part.stop - part.start) for part in extent])
        target: Block = out[(*inside, ...)]
        if target.shape != out.shape:
            out[...] = self._spec.fill_cell()
        return target

    def _rows(self, extent: tuple[slice, ...]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Byte offset and place in the chunk of each run of cells that lie side by side in the file."""
        shape = self._spec.shape
        strides = [self._stored.itemsize] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        split = len(shape)
        while split and extent[split - 1] == slice(0, shape[split - 1]):
            split -= 1
        outer = max(split - 1, 0)
        start = (self._offset or 0) + sum([part.start * step for part, step in zip(extent, strides, strict=True)])
        for place in product(*[range(part.stop - part.start) for part in extent[:outer]]):
            yield start + sum(map(mul, place, strides)), place

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes of these chunks' cells within the array."""
        counts = (prod(part.stop - part.start for part in self._grid.extent(place)) for place in coords)
        return 0 if self._offset is None else sum(counts) * self._stored.itemsize

    def nbytes_stored(self) -> int:
        """Bytes of all cells."""
        return 0 if self._offset is None else prod(self._spec.shape) * self._stored.itemsize

    def read(self, coords: Coords) -> Block | None:
        """The chunk, or None when nothing was ever written."""
        block = np.empty(self._grid.chunk_shape(coords), self._spec.numpy_dtype)
        return block if self.read_into(coords, block) else None


Kinds = tuple[type[ContiguousCells], type[StoredChunks]]
"""What becomes of a dataset in one piece, and of one in chunks."""
LOCAL: Kinds = (ContiguousCells, StoredChunks)
"""For a file of this machine, by its descriptor."""


def pread(descriptor: int, size: int, offset: int) -> Buffer:
    """Exactly ``size`` bytes from ``offset`` on; CorruptChunk when the file is shorter, before they are allocated."""
    length = os.fstat(descriptor).st_size
    if offset + size > length:
        raise _short(offset + size, length)
    try:
        data = os.pread(descriptor, size, offset)
    except OSError as error:
        raise StorageError(f"cannot read: {error.strerror}") from error
    if len(data) == size:
        return data
    out = memoryview(bytearray(size))  # more than is read at once
    pread_into(descriptor, out, offset)
    return out


def pread_into(descriptor: int, out: memoryview, offset: int) -> None:
    """Fill ``out`` (bytes) from ``offset`` on; CorruptChunk when the file is shorter."""
    done = 0
    while done < out.nbytes:
        try:
            count = os.preadv(descriptor, [out[done:]], offset + done)
        except OverflowError:  # a damaged file may say that cells lie beyond 2**63
            count = 0
        except OSError as error:
            raise StorageError(f"cannot read: {error.strerror}") from error
        if not count:
            raise _short(offset + out.nbytes, offset + done)
        done += count


def _short(stop: int, length: int) -> CorruptChunk:
    return CorruptChunk("the file ends within the cells", expected=stop, found=length)
