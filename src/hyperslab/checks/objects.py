"""The stored objects of one array, chunks or shards: what is wrong with each, and what of it can be saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hyperslab.checks.chunk_content import KIND as OTHER_CELLS
from hyperslab.checks.chunk_content import content_of
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.memory import require
from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.chain import Chain, build_chain
from hyperslab.errors import CorruptChunk, HyperslabError, UnsafePickle
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.model.spec import ArraySpec


@dataclass(frozen=True, slots=True)
class ObjectFlaw:
    """What is wrong with one stored object."""

    kind: str
    message: str


class ArrayObjects(Protocol):
    """The stored objects of one array."""

    @property
    def grid(self) -> Grid:
        """The grid of stored objects: chunks, or shards."""
        ...

    @property
    def keys(self) -> ChunkKeys:
        """Where they lie, and the locks that guard them."""
        ...

    def examine(self, coords: Coords, key: str, *, deep: bool) -> Iterator[ObjectFlaw]:
        """What is wrong with the object under ``key``; ``deep``: every cell is decoded."""
        ...

    def salvage(self, coords: Coords, key: str) -> tuple[Any, str]:
        """What can be saved of a damaged object, as new bytes (None: nothing), and the cells that are lost, as text."""
        ...

    def blank(self, coords: Coords) -> Any:
        """An object of nothing but fill values, as bytes: what takes the place of a lost one that cannot be deleted."""
        ...


class Chunks:
    """One object per chunk, under a chain of codecs."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, grid: Grid) -> None:
        self.keys = keys
        self.grid = grid
        self._spec = spec
        self._chains: dict[tuple[int, ...], Chain] = {}
        if grid.fixed is not None:
            self._chain(grid.fixed)

    def _chain(self, shape: tuple[int, ...]) -> Chain:
        if shape not in self._chains:
            cells = ChunkLayout(self._spec.dtype, shape, self._spec.fill_value)
            self._chains[shape] = build_chain(self._spec.codecs, cells)
        return self._chains[shape]

    def examine(self, coords: Coords, key: str, *, deep: bool) -> Iterator[ObjectFlaw]:
        """Its length where that is known, and its cells when ``deep``."""
        try:
            chain = self._chain(self.grid.chunk_shape(coords))
            size = self.keys.size(key)
            if size is None:
                return
            flaw = length_flaw(size, chain.size, chain.most_stored)
            if flaw is not None:
                content = self._content(chain, key, size, flaw.message)
                yield flaw if content is None else mismatch(content)
            elif deep:
                require(2 * (chain.cells.nbytes or 0) + size, self.keys.settings.memory_limit)
                data = self.keys.store.get(key)
                if data is not None:
                    yield from self._decoded(chain, data)
        except HyperslabError as error:
            yield flaw_of(error)

    def _content(self, chain: Chain, key: str, size: int, error: str) -> str | None:
        """Return what a chunk of another length holds, if it is whole."""
        if chain.most_stored is not None and size > chain.most_stored:
            return None
        data = self.keys.store.get(key)
        return None if data is None else content_of(chain, self._spec.codecs, data, error)

    def _decoded(self, chain: Chain, data: Buffer) -> Iterator[ObjectFlaw]:
        try:
            chain.decode(data)
        except HyperslabError as error:
            yield flaw_of(error, content_of(chain, self._spec.codecs, data, error.said))

    def salvage(self, coords: Coords, key: str) -> tuple[Any, str]:
        """A chunk is whole or nothing."""
        return None, span(self.grid, coords)

    def blank(self, coords: Coords) -> Any:
        """A chunk of fill values."""
        shape = self.grid.chunk_shape(coords)
        return self._chain(shape).encode(np.ascontiguousarray(np.broadcast_to(self._spec.fill_cell(), shape)))


def length_flaw(size: int, fixed: int | None, most: int | None) -> ObjectFlaw | None:
    """What the stored length alone tells: ``fixed`` bytes are right where they are known, ``most`` never exceeded."""
    if not size and fixed != 0:
        return ObjectFlaw("empty-chunk", "the chunk has no bytes")
    if fixed is not None and size < fixed:
        return ObjectFlaw("truncated-chunk", f"the chunk has {size} bytes in place of {fixed}")
    if fixed is not None and size > fixed:
        return ObjectFlaw("oversized-chunk", f"the chunk has {size} bytes in place of {fixed}")
    if most is not None and size > most:
        return ObjectFlaw("oversized-chunk", f"the chunk has {size} bytes, more than its cells can take")
    return None


def mismatch(content: str) -> ObjectFlaw:
    """Return the flaw of a chunk that is whole, and holds something else than its document says."""
    return ObjectFlaw(OTHER_CELLS, f"the chunk holds {content}: its document is in question, and not the chunk")


def flaw_of(error: HyperslabError, content: str | None = None) -> ObjectFlaw:
    """Return what an error at reading means; ``content``: what the chunk holds, where it is whole."""
    if isinstance(error, CorruptChunk) and content is not None:
        return mismatch(content)
    if isinstance(error, CorruptChunk):
        return ObjectFlaw("corrupt-chunk", error.said)
    if isinstance(error, UnsafePickle):
        return ObjectFlaw("unsafe-pickle", error.said)
    return ObjectFlaw("unreadable-chunk", error.said)


def span(grid: Grid, coords: Coords) -> str:
    """The cells of a chunk as people write them: ``[0:4, 8:12]``."""
    return f"[{', '.join(f'{part.start}:{part.stop}' for part in grid.extent(coords))}]"
