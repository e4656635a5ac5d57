"""Cells that stand in the document of their object: one chunk, in memory; put back by a change of that document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, ChunkSource, SourceTraits
from hyperslab.errors import Conflict, NodeNotFound, ReadOnly
from hyperslab.formats.mongo.chunk_documents import AssembledChunk
from hyperslab.formats.mongo.chunk_source import MongoChunks
from hyperslab.formats.mongo.document import Meta, Variable, embed_cells
from hyperslab.formats.mongo.edit_document import with_variable
from hyperslab.formats.mongo.object_changes import Edit
from hyperslab.formats.mongo.to_spec import variable_extension
from hyperslab.model.coo import Coo, Numbers
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.attempts import attempts, beaten


class EmbeddedChunk(ChunkSource):
    """``cells``: as they are stored, which may be fewer or more than ``spec`` has now; ``writer`` puts others (None: it
    is open for reading)."""

    traits = SourceTraits(swaps=True, reads_sparse=True, lists_chunks=True)

    def __init__(
        self, cells: Callable[[], AssembledChunk], spec: ArraySpec, url: str, writer: EmbeddedCells | None = None
    ) -> None:
        self._stored = cells
        self._spec = spec
        self._url = url
        self._writer = writer
        lengths = (cut if isinstance(cut, int) else sum(cut) for cut in spec.chunks)
        self.grid = Grid.of(spec.shape, tuple(max(1, *pair) for pair in zip(spec.shape, lengths, strict=True)))

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read the cells into ``out``, filled up to the length of the chunk."""
        self._stored().read_padded(out, self._spec.fill_cell())
        return True

    def read_coo(self, coords: Coords) -> Coo:
        return self._stored().coo_of_shape(self._spec.shape, self._spec.fill_cell())

    def read(self, coords: Coords) -> Block:
        """Return the cells in memory of their own."""
        block = np.empty(self.grid.chunk_shape(coords), self._spec.numpy_dtype)
        self._stored().read_padded(block, self._spec.fill_cell())
        return block

    def write(self, coords: Coords, block: Block) -> None:
        """Put the document of the object with these cells in the place of the old one."""
        self._change(block, None)

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], Any]:
        """Return the cells, and their bytes as they are stored."""
        cells = self._stored()
        block = np.empty(self.grid.chunk_shape((0,) * len(cells.shape)), self._spec.numpy_dtype)
        cells.read_padded(block, self._spec.fill_cell())
        return [block for _ in coords], cells.block().tobytes()

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Store the cells unless others are stored by now, else Conflict."""
        for _, block in pairs:
            self._change(block, expected)

    def erase(self, coords: Coords) -> None:
        """Let all cells be the fill value."""
        self._change(np.full(self._spec.shape, self._spec.fill_cell(), self._spec.numpy_dtype), None)

    def _change(self, block: Block, expected: bytes | None) -> None:
        if self._writer is None:
            raise ReadOnly("this object is open for reading", url=self._url, remedy="open it with mode='r+'")
        inside: Any = (*(slice(0, length) for length in self._spec.shape), ...)
        self._writer.swap(block[inside], expected)

    def stored_coords(self) -> Iterator[Coords]:
        yield (0,) * len(self._spec.shape)

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return bytes of the cells."""
        return self.nbytes_stored() if any(True for _ in coords) else 0

    def nbytes_stored(self) -> int:
        """Return bytes of the cells."""
        return self._stored().nbytes


@dataclass(frozen=True, slots=True)
class EmbeddedCells:
    """The cells of an array in the document of an object that is open for changes.

    ``ahead``: they get the length of ``spec``, else they keep the one that they have by now. ``meta``: the object as it
    is known now; ``change``: makes a change of it; ``moved``: the chunks of the array, where another handle has moved
    its cells to chunks.
    """

    name: str
    spec: ArraySpec
    ahead: bool
    url: str
    timeout: float | None
    meta: Callable[[], Meta]
    change: Callable[[Edit], None]
    moved: Callable[[], MongoChunks]

    def read(self) -> AssembledChunk:
        """Return the cells as they are stored."""
        embedded = self._variable(self.meta()).embedded
        return embed_cells(self.name, self._view().read()) if embedded is None else embedded

    def swap(self, block: Numbers, expected: bytes | None) -> None:
        """Store cells if those that are stored are still these bytes (None: whatever they are), else Conflict."""
        try:
            self.change(partial(self._edit, block=block, expected=expected))
        except Conflict:
            if self._variable(self.meta()).embedded is not None:
                raise
            self._view().swap(block, expected, self.timeout)

    def _edit(self, meta: Meta, *, block: Numbers, expected: bytes | None) -> Meta:
        old = self._variable(meta)
        if old.embedded is None or (expected is not None and old.embedded.block().tobytes() != expected):
            raise beaten(self.url, self.name)
        cells = block
        if not self.ahead:  # as far as there are any
            cells = old.embedded.block()
            common = tuple(slice(0, min(pair)) for pair in zip(cells.shape, block.shape, strict=True))
            cells[common] = block[common]
        cells = np.ascontiguousarray(cells, old.dtype).reshape(cells.shape)
        stored = Coo.of_dense(cells, self.spec.fill_cell()) if old.sparse else cells
        entry = replace(old, shape=cells.shape, embedded=embed_cells(self.name, stored))
        return with_variable(meta, self.name, entry, variable_extension(meta, self.name))

    def _variable(self, meta: Meta) -> Variable:
        """Return the variable of a handle whose array is ``spec``. NodeNotFound where it is gone, or is another one by
        now."""
        variable = meta.variables.get(self.name)
        if variable is None or len(variable.shape) != len(self.spec.shape) or variable.dtype != self.spec.numpy_dtype:
            raise NodeNotFound("the array is gone, or another has its place", url=self.url, node=self.name)
        return variable

    def _view(self) -> EmbeddedView:
        return EmbeddedView(self.moved(), self.spec.shape, self.spec.fill_cell(), self.url)


# -- cells that have moved to chunks since ----------------------------------------------------------------------------
# Another handle has made the array longer. This one goes on to read and write the cells that it knows.


class EmbeddedView:
    """The cells within ``shape`` from the origin of the chunks of ``source``, those past its end as ``fill``."""

    def __init__(self, source: MongoChunks, shape: tuple[int, ...], fill: Numbers, url: str) -> None:
        self._source = source
        self._shape = shape
        self._fill = fill
        self._url = url

    def _chunks_within(self) -> Iterator[tuple[Coords, tuple[slice, ...], tuple[slice, ...]]]:
        """Yield the chunks that hold the cells: which of theirs, and which of all."""
        grid = self._source.grid
        common = tuple(map(min, self._shape, grid.shape))
        if 0 in common:
            return
        last = [axis.find(length - 1) for axis, length in zip(grid.axes, common, strict=True)]
        for coords in product(*(range(index + 1) for index in last)):
            start = grid.origin(coords)
            stop = [min(part.stop, length) for part, length in zip(grid.extent(coords), common, strict=True)]
            inner = tuple(slice(0, two - one) for one, two in zip(start, stop, strict=True))
            yield coords, inner, tuple(map(slice, start, stop))

    def read(self) -> Numbers:
        """Return all cells."""
        cells: Numbers = np.full(self._shape, self._fill, self._fill.dtype)
        for coords, inner, outer in self._chunks_within():
            block = self._source.read(coords)
            if block is not None:
                cells[outer] = block[inner]
        return cells

    def swap(self, cells: Numbers, expected: bytes | None, timeout: float | None) -> None:
        """Store the cells where those that are stored are still these bytes (None: whatever they are), else Conflict.

        Chunk by chunk; one whose cells stay is not written.
        """
        known = None if expected is None else np.frombuffer(expected, self._fill.dtype).reshape(self._shape)
        for coords, inner, outer in self._chunks_within():
            if known is not None and known[outer].tobytes() == cells[outer].tobytes():
                continue
            # Where nothing is expected a Conflict means that the chunk is read again; else whoever read it is to know.
            for attempt in attempts(timeout if known is None else 0):
                with attempt:
                    blocks, stamp = self._source.read_stamped([coords])
                    shape = self._source.grid.chunk_shape(coords)
                    block = np.full(shape, self._fill, self._fill.dtype) if blocks[0] is None else blocks[0]
                    if known is not None and block[inner].tobytes() != known[outer].tobytes():
                        raise beaten(self._url, str(coords))
                    block[inner] = cells[outer]
                    self._source.swap([(coords, block)], stamp)
