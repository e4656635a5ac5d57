"""Cells that stand in the document of their object: one chunk, in memory; put back by a change of that document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.errors import ReadOnly
from hyperslab.formats.mongo.segments import AssembledChunk
from hyperslab.formats.mongo.sparse_chunk import listed
from hyperslab.model.coo import Coo
from hyperslab.model.spec import ArraySpec

Swapped = Callable[[np.ndarray[Any, Any], bytes | None], None]
"""Stores cells if those that are stored are still these bytes (None: whatever they are), else Conflict."""


class EmbeddedChunk:
    """``cells``: as they are stored, which may be fewer or more than ``spec`` has now; ``swapped`` puts others."""

    concurrency = None

    def __init__(
        self, cells: Callable[[], AssembledChunk], spec: ArraySpec, url: str, swapped: Swapped | None = None
    ) -> None:
        self._stored = cells
        self._spec = spec
        self._url = url
        self._swapped = swapped
        self._grid = Grid.of(spec.shape, tuple(max(1, n, _int(cut)) for n, cut in _pairs(spec)))

    @property
    def grid(self) -> Grid:
        """The grid of one chunk."""
        return self._grid

    def read_into(self, coords: Coords, out: Block) -> bool:
        """The cells into ``out``, filled up to the length of the chunk."""
        self._put(self._stored(), out)
        return True

    def read_coo(self, coords: Coords) -> Coo:
        """The cells as a list."""
        return listed(self._stored(), self._spec.shape, self._spec.fill_cell())

    def read(self, coords: Coords) -> Block:
        """The cells in memory of their own."""
        block = np.empty(self._grid.chunk_shape(coords), self._spec.numpy_dtype)
        self._put(self._stored(), block)
        return block

    def _put(self, cells: AssembledChunk, out: Block) -> None:
        if cells.shape != out.shape:
            out[...] = self._spec.fill_cell()
        cells.read_common(out)

    def write(self, coords: Coords, block: Block) -> None:
        """Put the document of the object with these cells in the place of the old one."""
        self._change(block, None)

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Of the one chunk; as lasting as every change of that document, which the settings say for all."""
        for _, block in pairs:
            self._change(block, None)

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], Any]:
        """The cells, and their bytes as they are stored."""
        cells = self._stored()
        block = np.empty(self._grid.chunk_shape((0,) * len(cells.shape)), self._spec.numpy_dtype)
        self._put(cells, block)
        return [block for _ in coords], cells.block().tobytes()

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Store the cells unless others are stored by now, else Conflict."""
        for _, block in pairs:
            self._change(block, expected)

    def erase(self, coords: Coords) -> None:
        """Let all cells be the fill value."""
        self._change(np.full(self._spec.shape, self._spec.fill_cell(), self._spec.numpy_dtype), None)

    def _change(self, block: Block, expected: bytes | None) -> None:
        if self._swapped is None:
            raise ReadOnly("this object is open for reading", url=self._url, remedy="open it with mode='r+'")
        inside: tuple[Any, ...] = tuple(slice(0, length) for length in self._spec.shape)
        self._swapped(block[(*inside, ...)], expected)

    def stored(self) -> Iterator[Coords]:
        """The one chunk."""
        yield (0,) * len(self._spec.shape)

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes of the cells."""
        return self.nbytes_stored() if any(True for _ in coords) else 0

    def nbytes_stored(self) -> int:
        """Bytes of the cells."""
        return self._stored().nbytes


def _pairs(spec: ArraySpec) -> Iterator[tuple[int, int | tuple[int, ...]]]:
    return zip(spec.shape, spec.chunks, strict=True)


def _int(cut: int | tuple[int, ...]) -> int:
    return cut if isinstance(cut, int) else sum(cut)
