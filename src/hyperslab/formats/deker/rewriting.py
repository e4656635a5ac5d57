"""A changed Array or tile: a new file, made of the blocks that were written and of what the old one holds.

Chunks that nobody wrote to are copied as they are stored. All are looked through, because ``empty_cells`` must tell the
true number of cells with the fill value: the peer takes ``data`` away by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block
from hyperslab.formats.deker.files import Form, empty_file, new_file, put_file, small_file
from hyperslab.formats.deker.opened import DekerFile
from hyperslab.formats.hdf5_lock import LOCK

_SMALL = 1 << 16
"""Bytes of cells up to which a file is put together in memory, without the library."""


def count_fill(cells: Block, fill: Block) -> int:
    """How many cells hold the fill value."""
    same = np.isnan(cells) if np.isnan(fill) else cells == fill
    return int(np.count_nonzero(same))


class _NothingLeft(Exception):
    """All cells are fill."""


@dataclass
class Rewriting:
    """``old`` with the blocks ``written`` (by their place in the form's grid) put over it: a new file at ``path``."""

    path: str
    form: Form
    fill: Block
    settings: Settings
    old: DekerFile | None = None
    written: Mapping[Coords, Block] = field(default_factory=dict)

    def run(self, text: str) -> None:
        """Write the file with this ``meta``; without ``data`` when every cell is fill."""
        size = int(np.prod(self.form.shape, dtype=object))
        others = self.old is not None and self.old.others
        if self.form.chunks is None and size * self.form.dtype.itemsize <= _SMALL and not others:
            self._write_small(text, size)
            return
        if self.written or (self.old is not None and self.old.cells is not None):
            try:
                self._write(text, size)
                return
            except _NothingLeft:
                pass
        if others:
            self._write(text, size, bare=True)
        else:
            put_file(self.path, empty_file(text, size), durable=self.settings.durable)

    def _write_small(self, text: str, size: int) -> None:
        """The same in memory, for few cells in one piece."""
        cells = np.full(self.form.shape, self.fill, self.form.dtype)
        if self.old is not None:
            self.old.read(tuple(slice(0, length) for length in cells.shape), cells, self.settings)
        for coords, block in self.written.items():
            extent = self.form.grid.extent(coords)
            cells[extent] = block[tuple(slice(0, part.stop - part.start) for part in extent)]
        empty = count_fill(cells, self.fill)
        body = empty_file(text, size) if empty == size else small_file(text, empty, self.form, cells)
        put_file(self.path, body, durable=self.settings.durable)

    def _write(self, text: str, size: int, *, bare: bool = False) -> None:
        old = self.old.path if self.old is not None and self.old.others else None
        with new_file(self.path, text, durable=self.settings.durable, old=old) as file:
            empty = size if bare else self._fill(file)
            if empty == size and not bare:
                raise _NothingLeft
            with LOCK:
                file["empty_cells"][()] = empty

    def _fill(self, file: Any) -> int:
        """Write all pieces; the number of cells that hold the fill value."""
        with LOCK:
            data = self.form.create(file)
        counts: list[int] = []
        batches = iter(self.form.grid)
        each_batch(lambda coords: counts.append(self._piece(data, coords)), batches, self._workers())
        return sum(counts)

    def _workers(self) -> int:
        nbytes = int(np.prod(self.form.shape, dtype=object)) * self.form.dtype.itemsize
        return min(self.settings.threads, self.form.grid.size) if nbytes > 1 << 20 else 1

    def _piece(self, data: Any, coords: Coords) -> int:
        """Write one piece; how many of its cells within the array hold the fill value."""
        extent = self.form.grid.extent(coords)
        inside = tuple(slice(0, part.stop - part.start) for part in extent)
        block = self.written.get(coords)
        stored: tuple[Any, int] | None = None
        if block is None:
            block = self._old_block(coords)
            if self.old is not None and self._copies:
                stored = self.old.raw(coords)
        if stored is None and self.form.chain is not None:
            stored = (self.form.chain.encode(np.ascontiguousarray(block, self.form.dtype)), 0)
        with LOCK:
            if stored is None:
                data[extent] = block[inside]
            else:
                data.id.write_direct_chunk(tuple(part.start for part in extent), bytes(stored[0]), stored[1])
        return count_fill(block[inside], self.fill)

    @property
    def _copies(self) -> bool:
        """Return whether chunks of the old file are what they would be in the new one."""
        old, form = self.old, self.form
        return (
            old is not None
            and old.cells is not None
            and old.cells.grid == form.grid
            and old.dtype == form.dtype
            and old.codecs == form.codecs
        )

    def _old_block(self, coords: Coords) -> Block:
        """A piece as it was, the fill value where nothing was."""
        extent = self.form.grid.extent(coords)
        block = np.full(self.form.grid.chunk_shape(coords), self.fill, self.form.dtype)
        if self.old is not None:
            inside = tuple(slice(0, part.stop - part.start) for part in extent)
            self.old.read(extent, block[inside], Settings(workers=1, memory_limit=self.settings.memory_limit))
        return block
