"""The cells of an HDF5 or netCDF-3 file on a server: what a batch of chunks needs comes by few requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block
from hyperslab.formats.hdf5 import ContiguousCells, StoredChunks
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.remote import RemoteFile


class _FetchedCells:
    """Stored bytes of some chunks, to be decoded."""

    def __init__(self, chunks: StoredChunks, parts: Mapping[Coords, bytes]) -> None:
        self._chunks = chunks
        self._parts = parts

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``; False when it was never written."""
        part = self._parts.get(coords)
        if part is not None:
            self._chunks.decode(coords, part, out)
        return part is not None


class RemoteChunks(StoredChunks):
    """A chunked HDF5 dataset whose metadata are here and whose chunks are on a server."""

    def __init__(self, dataset: Any, file: Any, spec: ArraySpec, url: str) -> None:
        super().__init__(dataset, file, spec, url)
        self._file: RemoteFile = file
        self.concurrency = file.concurrency

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``; False when it was never written."""
        return self.fetch([coords]).read_into(coords, out)

    def fetch(self, coords: Sequence[Coords]) -> _FetchedCells:
        """The stored bytes of these chunks."""
        table = self.table()
        wanted = {place: table[place] for place in coords if place in table}
        parts = self._file.preads([(offset, offset + size) for offset, size, _ in wanted.values()]) if wanted else []
        return _FetchedCells(self, dict(zip(wanted, parts, strict=True)))


class RemoteCells(ContiguousCells):
    """Cells in one piece on a server: a chunk's rows come together."""

    def __init__(self, file: Any, offset: int | None, spec: ArraySpec, stored: np.dtype[Any], url: str) -> None:
        super().__init__(file, offset, spec, stored, url)
        self._file: RemoteFile = file
        self.concurrency = file.concurrency

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read the chunk's rows into ``out``; what reaches past the array's edge holds the fill value."""
        if self._offset is None:
            return False
        extent = self._grid.extent(coords)
        target = self._inside(extent, out)
        rows = list(self._rows(extent))
        size = target[(*rows[0][1], ...)].size * self._stored.itemsize if rows else 0
        for (_, place), data in zip(rows, self._file.preads([(at, at + size) for at, _ in rows]), strict=True):
            cells = target[(*place, ...)]
            cells[...] = np.frombuffer(data, self._stored).reshape(cells.shape)
        return True
