"""Cells of the ``data`` of an HDF5 file: chunks that can be copied as they are stored; what only the library reads."""

from __future__ import annotations

import atexit
import io
import os
from typing import Any, NamedTuple
from weakref import WeakSet, finalize

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.codecs.base import Buffer
from hyperslab.errors import CorruptChunk, ReadOnly, Unsupported
from hyperslab.formats.hdf5 import Stored, StoredChunks, pread
from hyperslab.formats.hdf5_lock import LOCK
from hyperslab.formats.hdf5_plugin import load_plugin
from hyperslab.model.spec import ArraySpec

_IN_HDF5 = frozenset({1, 2, 3, 4, 5, 6, 32000})
"""Filters that come with the library and h5py."""


class _Named(NamedTuple):
    """What chunks need to know of a dataset besides where they are."""

    chunks: tuple[int, ...]
    name: str = "/data"


class DekerChunks(StoredChunks):
    """Chunks that our codecs read."""

    @classmethod
    def at(cls, table: dict[Coords, Stored], descriptor: int, spec: ArraySpec, url: str) -> DekerChunks:
        """Chunks at known places; Unsupported for filters that are not ours."""
        made = cls(_Named(Grid.of(spec.shape, spec.chunks).fixed or ()), descriptor, spec, url)
        made._table = table
        return made

    def raw(self, coords: Coords) -> tuple[Buffer, int] | None:
        """The bytes of a chunk and the mask of the filters that it was not passed through; None when missing."""
        stored = self.table().get(coords)
        return None if stored is None else (pread(self._descriptor, stored[1], stored[0]), stored[2])


def need_filters(dataset: Any) -> None:
    """Have the library know the filters of a dataset; Unsupported names the extra that brings them."""
    from h5py import h5z

    plist = dataset.id.get_create_plist()
    for number in (plist.get_filter(place)[0] for place in range(plist.get_nfilters())):
        if number not in _IN_HDF5:
            need_plugin()
        if not h5z.filter_avail(number):
            raise Unsupported(f"the HDF5 filter {number}", remedy="install a library of HDF5 that has it")


def need_plugin() -> None:
    """Have the library know the filters of the package hdf5plugin."""
    if not load_plugin():
        raise Unsupported("an HDF5 filter", remedy="pip install 'hyperslab[hdf5]'")


class _Bytes(io.RawIOBase):
    """The bytes of an open file, through a descriptor of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = os.dup(descriptor)
        finalize(self, os.close, self._descriptor)
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place}.get(whence)
        self._place = offset + (os.fstat(self._descriptor).st_size if start is None else start)
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, out: Any) -> int:
        if self._place >= os.fstat(self._descriptor).st_size:  # which a damaged file may say is beyond 2**63
            return 0
        count = os.preadv(self._descriptor, [out], self._place)
        self._place += count
        return count


def h5_file(descriptor: int) -> Any:
    """The file that is open as ``descriptor`` as an h5py file of its own: it stays the same file whatever its name is
    given to, and whoever else has it open in this process, locked or not, is no matter."""
    import h5py

    return h5py.File(_Bytes(descriptor), "r")


class LibraryCells:
    """Cells read by h5py, one thread at a time; the file is open for as long as these are used. Read-only."""

    def __init__(self, dataset: Any, descriptor: int, spec: ArraySpec, url: str) -> None:
        need_filters(dataset)
        self._descriptor = descriptor
        self._dataset: Any = None
        self._spec = spec
        self._url = url
        self._grid = Grid.of(spec.shape, spec.chunks)

    @property
    def grid(self) -> Grid:
        """The chunks of the file, or blocks."""
        return self._grid

    def read_part(self, coords: Coords, within: tuple[slice, ...], out: Block) -> bool:
        """Read the cells ``within`` a chunk into ``out``; always True."""
        origin = self._grid.origin(coords)
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
        finalize(self, LOCK.leave, file).atexit = False
        self._dataset = file["data"]
        _OPEN.add(self)

    def close(self) -> None:
        """Let go of the file until it is needed again."""
        dataset, self._dataset = self._dataset, None
        if dataset is not None:
            dataset.file.close()

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read a chunk; what reaches past the edge is left alone. Always True."""
        inside = tuple(slice(0, part.stop - part.start) for part in self._grid.extent(coords))
        return self.read_part(coords, inside, out[inside])

    def read(self, coords: Coords) -> Block | None:
        """A chunk in memory of its own."""
        out = np.empty(self._grid.chunk_shape(coords), self._spec.numpy_dtype)
        self.read_into(coords, out)
        return out

    def write(self, coords: Coords, block: Block) -> None:
        """Refused."""
        raise ReadOnly("a file is replaced, never changed", url=self._url)

    def erase(self, coords: Coords) -> None:
        """Refused."""
        raise ReadOnly("a file is replaced, never changed", url=self._url)


_OPEN: WeakSet[LibraryCells] = WeakSet()


@atexit.register
def _close_all() -> None:
    """The library closes what is open when the process ends, and cannot ask for its bytes any more by then."""
    with LOCK:
        for cells in list(_OPEN):
            cells.close()
