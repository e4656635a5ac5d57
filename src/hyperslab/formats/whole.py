"""Arrays that are stored as one piece of plain cells: a source of one chunk, and wishes as such formats hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.errors import CorruptChunk, Unsupported
from hyperslab.formats.features import Feature
from hyperslab.model.dtypes import describe
from hyperslab.model.spec import ArraySpec

NEEDS_MORE = frozenset(
    {
        Feature.STRINGS,
        Feature.VLEN,
        Feature.USER_TYPES,
        Feature.CHAR,
        Feature.CHUNKS,
        Feature.VARYING_CHUNKS,
        Feature.SHARDS,
        Feature.CODECS,
        Feature.CHECKSUMS,
        Feature.LINKS,
        Feature.REFERENCES,
        Feature.SPARSE,
        Feature.LABELS,
    }
)
"""What an array that is one piece of plain cells cannot have."""
PLAIN = frozenset(Feature) - NEEDS_MORE
"""What a format of such arrays can hold where it keeps groups, dimension names and attributes besides."""


@dataclass(frozen=True, slots=True)
class WholeArray:
    """The one chunk of an array, by two functions: ``load`` gives all cells, ``save`` stores them, old or new.

    A ValueError or EOFError of ``load`` says that what is stored under ``key`` is damaged.
    """

    spec: ArraySpec
    key: str
    load: Callable[[], Block]
    save: Callable[[Block], None]

    @property
    def grid(self) -> Grid:
        """The grid of one chunk; of none where the array has no cells."""
        return Grid.of(self.spec.shape, whole_chunks(self.spec.shape))

    def read(self, coords: Coords) -> Block:
        """All cells; CorruptChunk when they are damaged, or others than the spec says."""
        try:
            cells = self.load()
        except (ValueError, EOFError) as error:
            raise CorruptChunk(f"the cells cannot be decoded: {error}", key=self.key) from error
        if (cells.shape, cells.dtype) != (self.spec.shape, self.spec.numpy_dtype):
            raise CorruptChunk("the cells have another shape or type than was said", key=self.key)
        return cells

    def write(self, coords: Coords, block: Block) -> None:
        """Store all cells."""
        self.save(block)

    def erase(self, coords: Coords) -> None:
        """All cells become the fill value."""
        self.save(blank(self.spec))


def blank(spec: ArraySpec) -> Block:
    """All cells of a new array: its fill value."""
    return np.full(spec.shape, spec.fill_cell(), spec.numpy_dtype)


def whole_chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The chunk lengths of an array that is one chunk."""
    return tuple(max(1, length) for length in shape)


def whole_wish(wish: ArraySpec, format: str) -> ArraySpec:
    """A user's wish as one chunk of plain cells without codecs; Unsupported names what it cannot be."""
    if not isinstance(wish.dtype, np.dtype) or wish.dtype.hasobject or wish.dtype.kind == "T":
        raise Unsupported(f"format {format} has no cells of type {describe(wish.dtype)}", remedy="convert the values")
    if "shards" in wish.layout:
        raise Unsupported(f"format {format} has no shards", remedy="leave shards= out: an array is one piece")
    return wish.evolve(chunks=whole_chunks(wish.shape), codecs=(), layout={})
