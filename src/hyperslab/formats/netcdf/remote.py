"""netCDF files on a server, opened by byte ranges.

The libraries get a sparse local copy that holds the structures of the file: h5py walks the remote file once, which
brings what it touches: links, headers and attributes, but neither cells nor the maps of chunks. The map of a variable
is fetched when its chunks are first read or counted; chunks are then read from the server. Cells that only the library
can read (a filter, a type or a layout that is unknown here) are fetched into the copy when they are first asked for.
Where the walk does not do, everything that lies between the cells is fetched, so that no byte is missing.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block, ChunkReader
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.formats.hdf5.cells import ChunkLocation, ContiguousCells, Hdf5Chunks, SourceTypes
from hyperslab.formats.hdf5.file import (
    HDF5_MAGIC,
    ByteStream,
    check_heap,
    check_heaps,
    find_heaps,
    has_wide_addresses,
    is_node,
    read_below,
)
from hyperslab.formats.hdf5.lock import LOCK
from hyperslab.formats.netcdf import classic, library
from hyperslab.formats.netcdf.reader import NetcdfReader
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.object import RemoteFile
from hyperslab.stores.ranges import merge
from hyperslab.stores.requests import each_request
from hyperslab.stores.stored_file import StoredFile
from hyperslab.stores.system import pread, pwrite

if TYPE_CHECKING:
    import h5py

# -- Chunks on a server ------------------------------------------------------------------------------------------------
# What a batch of chunks needs comes by few requests.


class FetchedHdf5Chunks(ChunkReader):
    """Stored bytes of some chunks, to be decoded."""

    def __init__(self, chunks: Hdf5Chunks, parts: Mapping[Coords, bytes]) -> None:
        self.grid = chunks.grid
        self._chunks = chunks
        self._parts = parts

    def read_into(self, coords: Coords, out: Block) -> bool:
        part = self._parts.get(coords)
        if part is not None:
            self._chunks.decode(coords, part, out)
        return part is not None


class RemoteChunks(Hdf5Chunks):
    """A chunked HDF5 dataset whose chunks are on a server; its map is fetched into the copy at the first use."""

    def __init__(self, dataset: h5py.Dataset, file: Any, spec: ArraySpec, url: str) -> None:
        super().__init__(dataset, file, spec, url, can_be_repaired=lambda: False)
        self._file: SparseCopy = file
        self.traits = replace(self.traits, concurrency=file.concurrency, fetches=True)

    def _read_table(self) -> dict[Coords, ChunkLocation]:
        self._file.fetch_map(self._dataset.name)
        return super()._read_table()

    def stored_file(self) -> StoredFile:
        return describe(self._file.file)

    def read_into(self, coords: Coords, out: Block) -> bool:
        return self.fetch([coords]).read_into(coords, out)

    def fetch(self, coords: Sequence[Coords]) -> FetchedHdf5Chunks:
        """Fetch the stored bytes of these chunks."""
        table = self.table()
        places = {place: table[place] for place in coords if place in table}
        parts = self._file.preads([(offset, offset + size) for offset, size, _ in places.values()]) if places else []
        return FetchedHdf5Chunks(self, dict(zip(places, parts, strict=True)))


class RemoteCells(ContiguousCells):
    """Cells in one piece on a server: a chunk's rows come together."""

    def __init__(self, file: Any, offset: int | None, spec: ArraySpec, stored: NumpyDType, url: str) -> None:
        super().__init__(file, offset, spec, stored, url)
        self._file: SparseCopy = file
        self.traits = replace(self.traits, concurrency=file.concurrency)

    def stored_file(self) -> StoredFile:
        return describe(self._file.file)

    def read_into(self, coords: Coords, out: Block) -> bool:
        if self._offset is None:
            return False
        extent = self.grid.extent(coords)
        target = self._inside(extent, out)
        rows = list(self._rows(extent))
        size = target[(*rows[0][1], ...)].size * self._stored.itemsize if rows else 0
        for (_, place), data in zip(rows, self._file.preads([(at, at + size) for at, _ in rows]), strict=True):
            cells = target[(*place, ...)]
            cells[...] = np.frombuffer(data, self._stored).reshape(cells.shape)
        return True


def describe(file: RemoteFile) -> StoredFile:
    """Return a remote file by its URL and version."""
    return StoredFile.of_object(file.url, file.size, file.stamp)


Span = tuple[int, int]
_PAGE = 64 << 10  # bytes that one read of h5py brings at least
_SMALL_CELLS = 256 << 10  # cells of fewer bytes come with the structures: another request would cost more
_MAX_GAP = 32 << 10  # bytes between two nodes that cost less than another of many requests at once (50 ms, 20 MB/s)
_MAX_SINGLE_TEXTS = (
    4096  # texts that are read one after the other; of more of them, all that is no cell comes by few requests
)
_FAILURES = (OSError, RuntimeError, ValueError, KeyError)


class SparseCopy:
    """A local file as long as the remote one, with holes where nothing was fetched yet."""

    def __init__(self, file: RemoteFile) -> None:
        self.file = file
        descriptor, self.path = tempfile.mkstemp(prefix="hyperslab-", suffix=".nc")
        self._descriptor = descriptor
        self._removal = weakref.finalize(self, _remove, descriptor, self.path)
        self._present: list[Span] = []
        self._fetched_maps: set[str] = set()
        self.concurrency = file.concurrency
        self.is_whole = file.head[:4] in classic.MAGICS
        self._node, self._pauses_at_trees = b"", False
        self._has_trees = has_wide_addresses(file.head)
        os.truncate(descriptor, file.size)
        head = file.head[: file.size]
        self._put([(0, len(head))], [head])

    def _put(self, spans: Sequence[Span], parts: Sequence[bytes]) -> None:
        for (start, _), data in zip(spans, parts, strict=True):
            pwrite(self._descriptor, data, start)
        self._present = merge([*self._present, *spans], 0)

    def _missing(self, spans: Iterable[Span]) -> list[Span]:
        return [hole for span in merge(list(spans), 0) for hole in _missing_parts(span, self._present)]

    def fetch(self, spans: Iterable[Span]) -> None:
        """Fetch those of these bytes that are missing, by few requests."""
        if missing := self._missing(spans):
            self._put(missing, self.file.preads(missing))

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes of the file, fetched by whole pages."""
        if self._missing([(start, stop)]):
            self.fetch([(start // _PAGE * _PAGE, min(-(-stop // _PAGE) * _PAGE, self.file.size))])
        data = pread(self._descriptor, stop - start, start)
        if self._pauses_at_trees and is_node(data):
            self._node = data
            raise OSError("what lies below this node is fetched first")
        return data

    def _read_scattered(self, spans: list[Span]) -> list[bytes]:
        """Return small pieces of the file, fetched by many requests at once; of those that reach out of it none."""
        within = [(start, stop) for start, stop in spans if stop <= self.file.size]
        missing = merge(self._missing(within), _MAX_GAP)
        self._put(missing, each_request([partial(self.file.pread, stop - start, start) for start, stop in missing]))
        return [pread(self._descriptor, stop - start, start) for start, stop in within]

    def preads(self, ranges: Sequence[Span]) -> list[bytes]:
        """Read cells from the server."""
        return self.file.preads(ranges)

    def fetch_map(self, name: str) -> None:
        """Fetch the map of where the chunks of the HDF5 dataset ``name`` lie."""
        with LOCK:
            if self.is_whole or name in self._fetched_maps:
                return
            if self._has_trees:
                self._fetch_tree(name)
            with library.read_locked(self.file.url, name), _open_through_h5py(self) as file:
                file[name].id.chunk_iter(lambda chunk: None)
            self._fetched_maps.add(name)

    def _fetch_tree(self, name: str) -> None:
        """Fetch the tree of a dataset's chunks, whose first node HDF5 finds. The rest is read when HDF5 has ended: it
        holds h5py's lock, which the threads of requests need when they collect garbage."""
        self._node, self._pauses_at_trees = b"", True
        try:
            with suppress(*_FAILURES), _open_through_h5py(self) as file:
                file[name].id.chunk_iter(lambda chunk: None)
        finally:
            self._pauses_at_trees = False
        read_below(self._node, self._read_scattered)

    def fetch_heap_cells(self, name: str) -> None:
        """Fetch the cells of the HDF5 dataset ``name`` that lie in heaps: what h5py touches when it reads them."""
        with LOCK:
            if self.is_whole:
                return
            try:
                with _open_through_h5py(self) as file:
                    stored = file[name]
                    is_touched = stored.size <= _MAX_SINGLE_TEXTS and not stored.is_virtual and not stored.external
                    if is_touched:
                        stored[()]
            except (*_FAILURES, TypeError):
                is_touched = False
            if not is_touched:
                self.fetch_structures()

    def fetch_structures(self) -> None:
        """Fetch all of an HDF5 file that is no cell."""
        with LOCK:
            try:
                with _open_through_h5py(self) as file:
                    cells = [span for dataset in _datasets(file) for span in _cells_left_remote(dataset)]
            except _FAILURES as error:
                raise library.open_error(error, self.file.url) from error
            self.fetch(_missing_parts((0, self.file.size), merge(cells, 0)))
            self.is_whole = True
            check_heaps(self._descriptor, self.file.url)

    def fetch_heaps(self) -> None:
        """Fetch the rest of the heaps whose beginning is here."""
        self.fetch(find_heaps(self._descriptor))

    def close(self) -> None:
        """Remove the file; closing twice is fine, and who forgets it closes it."""
        self._removal()


def _remove(descriptor: int, path: str) -> None:
    os.close(descriptor)
    with suppress(OSError):
        os.unlink(path)


class RemoteNetcdfReader(NetcdfReader):
    """:class:`NetcdfReader` over a sparse copy; cells come from the server."""

    def __init__(self, file: RemoteFile, *, fast: bool = True) -> None:
        self._copy = SparseCopy(file)
        self._fetched: set[str] = set()
        try:
            _fetch_metadata(self._copy)
            if not self._copy.is_whole and not self._is_readable(fast):
                self._copy.fetch_structures()
            if self._copy.is_whole:
                super().__init__(self._copy.path, file.url, fast=fast)
        except BaseException:
            self._copy.close()
            raise

    def _is_readable(self, fast: bool) -> bool:
        """Open the copy; return whether the libraries find there all that they look for before they read cells."""
        with suppress(HyperslabError):  # perhaps for what the walk left out: the whole copy tells
            super().__init__(self._copy.path, self._copy.file.url, fast=fast)
            if self._opened().hdf5 is not None:
                waiting = [""]
                while waiting:
                    path = waiting.pop()
                    if self.node(path).is_group:
                        waiting += [child(path, name) for name in self.children(path)]
                return True
        if self._file is not None:
            super().close()
        return False

    def _cell_source(self) -> tuple[Any, SourceTypes]:
        return self._copy, (RemoteCells, RemoteChunks)

    def _stored_file(self) -> StoredFile:
        return describe(self._copy.file)

    def _find(self, path: str) -> Any:
        """Return the library's variable, once its cells are in the copy: what is not read is not fetched."""
        self._fetch_cells(path)
        return super()._find(path)

    def _find_hidden(self, path: str) -> Any:
        self._fetch_cells(path)
        return super()._find_hidden(path)

    def _fetch_cells(self, path: str) -> None:
        if path not in self._fetched:
            self._copy.fetch(self._cells_of(path))
            self._fetched.add(path)

    def _cells_of(self, path: str) -> list[Span]:
        opened = self._opened()
        if opened.header is not None:
            return classic.cell_spans(opened.header, path)
        with library.read_locked(self._url, path):
            stored = opened.hdf5_dataset(path)
            if stored is None:
                return []
            if _is_outside_chunks(stored):
                self._copy.fetch_heap_cells(stored.name)
            if stored.chunks is not None:
                self._copy.fetch_map(stored.name)
            return list(_cell_spans(stored))

    def stamp(self, path: str) -> Any:
        return self._copy.file.stamp

    def close(self) -> None:
        """Let go of the file and remove the copy; closing twice is fine."""
        super().close()
        self._copy.close()


@contextmanager
def _open_through_h5py(copy: SparseCopy) -> Iterator[Any]:
    """Yield the remote file as h5py opens it: what it touches is in the copy from then on."""
    module = library.require_h5py("files of netCDF-4 on a server", copy.file.url)

    def read(start: int, stop: int) -> bytes:
        data = copy.read(start, stop)
        check_heap(data, copy.file.url)
        return data

    with LOCK, module.File(ByteStream(lambda: copy.file.size, read), "r") as file:
        yield file


def _fetch_metadata(copy: SparseCopy) -> None:
    """Fetch what the libraries look for before they read cells."""
    if copy.is_whole:
        _fetch_header(copy)
        return
    if HDF5_MAGIC not in copy.file.head:
        raise FormatError("the file has the mark of neither netCDF-3 nor HDF5", url=copy.file.url)
    try:
        with _open_through_h5py(copy) as file:
            _touch_below(file, set())
        copy.fetch_heaps()
    except HyperslabError:
        raise
    except (*_FAILURES, TypeError):  # a type that h5py does not read, or damage, which is told from there
        copy.fetch_structures()


def _touch_below(group: h5py.Group, seen: set[int]) -> None:
    """Read what the libraries read of a group and of all below; h5py's own ``visititems`` would read every map."""
    module: Any = library.h5py()
    seen.add(hash(group.id))
    _touch(group)
    for name in group:
        if isinstance(group.get(name, getlink=True), module.HardLink):
            item = group[name]
            if hash(item.id) in seen:
                continue
            if isinstance(item, module.Group):
                _touch_below(item, seen)
            else:
                seen.add(hash(item.id))
                _touch(item)


def _touch(item: Any) -> None:
    """Read what the libraries read of an object: netCDF-C goes by the order of creation, others go by the names."""
    module: Any = library.h5py()
    by_creation = module.h5.INDEX_CRT_ORDER
    match item:
        case module.Group():
            with suppress(*_FAILURES):  # no order is kept
                item.id.links.iterate(lambda name: None, idx_type=by_creation)
        case module.Dataset() if not item.dtype.hasobject:
            _ = item.fillvalue
    with suppress(*_FAILURES):
        module.h5a.iterate(item.id, lambda name: None, index_type=by_creation)
    for name in item.attrs:
        _ = item.attrs[name]


def _fetch_header(copy: SparseCopy) -> None:
    """Fetch the header of a netCDF-3 file, however long it is."""
    size = len(copy.file.head)
    while True:
        data = copy.read(0, min(size, copy.file.size))
        try:
            classic.parse_header(data)
            return
        except FormatError as error:
            if size >= copy.file.size:
                raise error.locate(url=copy.file.url) from None
            size *= 4


def _datasets(file: h5py.File) -> Iterator[h5py.Dataset]:
    """Return every dataset of the file, once."""
    module: Any = library.h5py()
    found: list[Any] = []
    file.visititems(lambda name, item: found.append(item))
    return (item for item in found if isinstance(item, module.Dataset))


def _cells_left_remote(dataset: h5py.Dataset) -> list[Span]:
    """Return where the cells lie that stay on the server: of fixed size, and many."""
    if _is_outside_chunks(dataset):
        return []
    return [
        (start, stop)
        for start, stop in _cell_spans(dataset)
        if stop - start >= _SMALL_CELLS or dataset.nbytes > 4 * _SMALL_CELLS
    ]


def _is_outside_chunks(dataset: h5py.Dataset) -> bool:
    """Return True if cells lie elsewhere than in the chunks: in heaps, or in other datasets or files."""
    return bool(dataset.dtype.hasobject or dataset.dtype.metadata or dataset.is_virtual or dataset.external)


def _cell_spans(dataset: h5py.Dataset) -> Iterator[Span]:
    """Yield where the cells of a dataset lie."""
    if dataset.chunks is None:
        start = dataset.id.get_offset()
        if start is not None:
            yield start, start + dataset.id.get_storage_size()
        return
    places: list[Span] = []
    dataset.id.chunk_iter(lambda chunk: places.append((chunk.byte_offset, chunk.byte_offset + chunk.size)))
    yield from places


def _missing_parts(span: Span, have: list[Span]) -> Iterator[Span]:
    """Yield the parts of a span that are not in ``have`` (sorted, apart)."""
    start, stop = span
    for place in range(max(bisect_right(have, span) - 1, 0), len(have)):
        low, high = have[place]
        if low >= stop:
            break
        if high <= start:
            continue
        if start < low:
            yield start, low
        start = max(start, high)
    if start < stop:
        yield start, stop
