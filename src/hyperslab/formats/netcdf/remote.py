"""netCDF files on a server, opened by byte ranges.

The libraries get a sparse local copy that holds everything but the cells: h5py walks the remote file once, which brings
the structures it touches; what lies between the cells is fetched too, so that no byte is missing that netCDF-C may
read. Chunks are then read from the server. Cells that only the library can read (a filter, a type or a layout that is
unknown here) are fetched into the copy when they are first asked for.
"""

from __future__ import annotations

import io
import os
import tempfile
import weakref
from bisect import insort
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError
from hyperslab.formats.hdf5 import Kinds
from hyperslab.formats.hdf5_lock import LOCK
from hyperslab.formats.netcdf import classic, library
from hyperslab.formats.netcdf.dataset import NetcdfReader
from hyperslab.formats.netcdf.opened import HDF5_MAGIC
from hyperslab.formats.remote_cells import RemoteCells, RemoteChunks
from hyperslab.stores.remote import RemoteFile

Span = tuple[int, int]
_PAGE = 64 << 10  # bytes that one read of h5py brings at least
_SMALL = 256 << 10  # cells of fewer bytes come with the structures: another request would cost more
_KINDS = (RemoteCells, RemoteChunks)


class SparseCopy:
    """A local file as long as the remote one, with holes where nothing was fetched yet."""

    def __init__(self, file: RemoteFile) -> None:
        self.file = file
        descriptor, self.path = tempfile.mkstemp(prefix="hyperslab-", suffix=".nc")
        self._descriptor = descriptor
        self._removal = weakref.finalize(self, _remove, descriptor, self.path)
        self._have: list[Span] = []
        os.truncate(descriptor, file.size)
        self._put(0, file.head[: file.size])

    def _put(self, start: int, data: bytes) -> None:
        os.pwrite(self._descriptor, data, start)
        insort(self._have, (start, start + len(data)))
        self._have = list(_joined(self._have))

    def fetch(self, spans: Iterable[Span]) -> None:
        """Have these bytes, those that are missing by few requests."""
        missing = [hole for span in _joined(sorted(spans)) for hole in _holes(span, self._have)]
        for (start, _), data in zip(missing, self.file.preads(missing) if missing else (), strict=True):
            self._put(start, data)

    def read(self, start: int, stop: int) -> bytes:
        """Bytes of the file, fetched by whole pages."""
        self.fetch([(start // _PAGE * _PAGE, min(-(-stop // _PAGE) * _PAGE, self.file.size))])
        return os.pread(self._descriptor, stop - start, start)

    def close(self) -> None:
        """Remove the file; closing twice is fine, and who forgets it closes it."""
        self._removal()


def _remove(descriptor: int, path: str) -> None:
    os.close(descriptor)
    with suppress(OSError):
        os.unlink(path)


class _Stream(io.RawIOBase):
    """The remote file as h5py wants one: what it reads is in the copy from then on."""

    def __init__(self, copy: SparseCopy) -> None:
        self._copy = copy
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._copy.file.size}[whence]
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        stop = min(self._place + len(view), self._copy.file.size)
        data = self._copy.read(self._place, stop) if stop > self._place else b""
        view[: len(data)] = data
        self._place += len(data)
        return len(data)


class RemoteNetcdfReader(NetcdfReader):
    """:class:`NetcdfReader` over a sparse copy; cells come from the server."""

    def __init__(self, file: RemoteFile, *, fast: bool = True) -> None:
        self._copy = SparseCopy(file)
        try:
            _fill(self._copy)
            super().__init__(self._copy.path, file.url, fast=fast)
        except BaseException:
            self._copy.close()
            raise

    def _stored_in(self) -> tuple[Any, Kinds]:
        return self._copy.file, _KINDS

    def chunks(self, path: str) -> ChunkSource:
        """The chunks of the variable: from the server, or through the library once its cells are here."""
        found = super().chunks(path)
        if not isinstance(found, _KINDS):
            self._copy.fetch(self._cells_of(path))
        return found

    def _cells_of(self, path: str) -> list[Span]:
        opened = self._opened()
        if opened.header is not None:
            return classic.spans(opened.header, path)
        with library.reading(self._url, path):
            stored = opened.hdf5_dataset(path)
            return [] if stored is None else list(_extents(stored))

    def stamp(self, path: str) -> Any:
        """What identifies the version of the remote file."""
        return self._copy.file.stamp

    def close(self) -> None:
        """Let go of the file and remove the copy; closing twice is fine."""
        super().close()
        self._copy.close()


def _fill(copy: SparseCopy) -> None:
    """Fetch all that is no cell."""
    if copy.file.head[:4] in classic.MAGICS:
        _fill_header(copy)
        return
    if HDF5_MAGIC not in copy.file.head:
        raise FormatError("the file has the mark of neither netCDF-3 nor HDF5", url=copy.file.url)
    module = library.needed_h5py("files of netCDF-4 on a server", copy.file.url)
    with LOCK:
        try:
            with module.File(_Stream(copy), "r") as file:
                cells = sorted(span for dataset in _datasets(file) for span in _skipped(dataset))
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise library.open_error(error, copy.file.url) from error
    copy.fetch(_between(cells, copy.file.size))


def _fill_header(copy: SparseCopy) -> None:
    """The header of a netCDF-3 file, however long it is."""
    size = len(copy.file.head)
    while True:
        data = copy.read(0, min(size, copy.file.size))
        try:
            classic.parse(data)
            return
        except FormatError as error:
            if size >= copy.file.size:
                raise error.locate(url=copy.file.url) from None
            size *= 4


def _datasets(file: Any) -> Iterator[Any]:
    """Every dataset of the file, met once."""
    module: Any = library.h5py()
    found: list[Any] = []
    file.visititems(lambda name, item: found.append(item))
    return (item for item in found if isinstance(item, module.Dataset))


def _skipped(dataset: Any) -> list[Span]:
    """The cells that stay on the server: of fixed size, and many."""
    if dataset.dtype.hasobject or dataset.dtype.metadata or dataset.is_virtual or dataset.external:
        return []
    return [(start, stop) for start, stop in _extents(dataset) if stop - start >= _SMALL or dataset.nbytes > 4 * _SMALL]


def _extents(dataset: Any) -> Iterator[Span]:
    """Where the cells of a dataset lie."""
    if dataset.chunks is None:
        start = dataset.id.get_offset()
        if start is not None:
            yield start, start + dataset.id.get_storage_size()
        return
    places: list[Span] = []
    dataset.id.chunk_iter(lambda chunk: places.append((chunk.byte_offset, chunk.byte_offset + chunk.size)))
    yield from places


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Sorted spans, those that touch as one."""
    low, high = -1, -1
    for start, stop in spans:
        if start <= high:
            high = max(high, stop)
            continue
        if high > low:
            yield low, high
        low, high = start, stop
    if high > low:
        yield low, high


def _holes(span: Span, have: list[Span]) -> Iterator[Span]:
    """The parts of a span that are not in ``have`` (sorted, apart)."""
    start, stop = span
    for low, high in have:
        if high <= start or low >= stop:
            continue
        if start < low:
            yield start, low
        start = max(start, high)
    if start < stop:
        yield start, stop


def _between(cells: list[Span], size: int) -> Iterator[Span]:
    """What is left of the file between the cells."""
    start = 0
    for low, high in _joined(cells):
        if start < low:
            yield start, low
        start = max(start, high)
    if start < size:
        yield start, size
