"""How an array is cut into chunks, axis by axis: fixed sizes or varying ones. Integers only.

A fixed axis cuts at multiples of its size and the last chunk may reach past the edge (it is stored whole); a varying
axis lists its sizes and the last may also reach past the edge. A grid may stand in an ``outer`` one (shard > chunk):
outer edges then fall on inner edges.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, product
from math import prod
from operator import floordiv

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.spec import Chunks

Coords = tuple[int, ...]


@dataclass(frozen=True)
class FixedAxis:
    """Cuts ``length`` cells at multiples of ``size``."""

    length: int
    size: int

    @property
    def count(self) -> int:
        return -(-self.length // self.size)

    def start(self, index: int) -> int:
        return index * self.size

    def size_of(self, index: int) -> int:
        return self.size

    def span(self, index: int) -> slice:
        start = index * self.size
        return slice(start, min(start + self.size, self.length))

    def find(self, position: int) -> int:
        return position // self.size

    def find_many(self, positions: np.ndarray) -> np.ndarray:
        return positions // self.size


# Most of a dataset's many arrays are cut alike.
_fixed_axis = lru_cache(1024)(FixedAxis)


@dataclass(frozen=True)
class VaryingAxis:
    """Cuts ``length`` cells into chunks of the listed ``sizes``."""

    length: int
    sizes: tuple[int, ...]

    @cached_property
    def edges(self) -> list[int]:
        """Where each chunk starts, and where the last one stops."""
        return [0, *accumulate(self.sizes)]

    @cached_property
    def count(self) -> int:
        return next((i for i, edge in enumerate(self.edges) if edge >= self.length), len(self.sizes))

    def start(self, index: int) -> int:
        return self.edges[index]

    def size_of(self, index: int) -> int:
        return self.sizes[index]

    def span(self, index: int) -> slice:
        return slice(self.edges[index], min(self.edges[index] + self.sizes[index], self.length))

    def find(self, position: int) -> int:
        return bisect_right(self.edges, position) - 1

    def find_many(self, positions: np.ndarray) -> np.ndarray:
        return np.asarray(np.searchsorted(self.edges, positions, side="right") - 1)


Axis = FixedAxis | VaryingAxis


@dataclass(frozen=True)
class Grid:
    """The chunk grid of one array: an :class:`Axis` per dimension, and the grid around it when chunks lie in shards."""

    axes: tuple[Axis, ...]
    outer: Grid | None = None

    @classmethod
    def of(cls, shape: tuple[int, ...], chunks: Chunks, outer: Grid | None = None) -> Grid:
        """Return a grid over ``shape``: an int (fixed) or a tuple of sizes (varying) per axis."""
        if len(shape) != len(chunks):
            raise Invalid(f"{len(chunks)} chunk lengths for {len(shape)} dimensions", remedy="give one for each")
        for cut in chunks:
            if not isinstance(cut, int) or cut < 1:
                return cls(tuple(map(_axis, shape, chunks)), outer)
        sizes: tuple[int, ...] = tuple(chunks)  # type: ignore[arg-type]  # none is a tuple
        grid = cls(tuple(map(_fixed_axis, shape, sizes)), outer)
        grid.__dict__.update(fixed=sizes, chunk_cells=prod(sizes))  # every array that is opened asks for them
        return grid

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return tuple(axis.length for axis in self.axes)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Chunks per axis."""
        return tuple(axis.count for axis in self.axes)

    @property
    def size(self) -> int:
        """Chunks in all."""
        return prod(self.counts)

    @cached_property
    def fixed(self) -> tuple[int, ...] | None:
        """The one shape of every chunk, or None when an axis varies."""
        sizes = [axis.size for axis in self.axes if isinstance(axis, FixedAxis)]
        return tuple(sizes) if len(sizes) == len(self.axes) else None

    @cached_property
    def chunk_cells(self) -> int:
        """Cells of the first chunk: of each one, where all have one shape."""
        return prod(self.fixed or self.chunk_shape((0,) * len(self.axes)))

    @cached_property
    def members(self) -> tuple[int, ...]:
        """Chunks along each axis of one outer chunk, for fixed grids."""
        cuts = zip(self.axes, self.outer.axes if self.outer else (), strict=True)
        return tuple([outer.size_of(0) // inner.size_of(0) for inner, outer in cuts])

    def outer_of(self, coords: Coords) -> Coords:
        """Return the coordinates of the outer chunk that a chunk lies in, for fixed grids."""
        return tuple(map(floordiv, coords, self.members))

    def chunk_shape(self, coords: Coords) -> tuple[int, ...]:
        """Return the whole shape of a chunk as stored (it may reach past the array's edge)."""
        return self.fixed or tuple(axis.size_of(i) for axis, i in zip(self.axes, coords, strict=True))

    def origin(self, coords: Coords) -> tuple[int, ...]:
        """Return the position of the chunk's first cell."""
        return tuple([axis.start(i) for axis, i in zip(self.axes, coords, strict=True)])

    def extent(self, coords: Coords) -> tuple[slice, ...]:
        """Return the cells of the array that lie in the chunk."""
        return tuple([axis.span(i) for axis, i in zip(self.axes, coords, strict=True)])

    def __iter__(self) -> Iterator[Coords]:
        """Yield every chunk's coordinates in C order."""
        return product(*(range(count) for count in self.counts))


def _axis(length: int, cut: int | tuple[int, ...]) -> Axis:
    if isinstance(cut, int):
        if cut < 1:
            raise Invalid(f"a chunk length of {cut}", remedy="chunk lengths are at least 1")
        return FixedAxis(length, cut)
    if any(size < 1 for size in cut) or sum(cut) < length:
        message = f"chunk sizes that sum to {sum(cut)} do not cover {length} cells"
        raise Invalid(message, remedy="give sizes of at least 1 that do")
    return VaryingAxis(length, tuple(cut))
