"""Where the stored bytes of an array's chunks lie: in which file, from which byte on, how many.

In bulk, as NumPy arrays, since a million chunks are common.

A reader who knows this, and the codecs, needs neither the format nor the library that wrote the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from hyperslab.model.cells import Values
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.spec import Codec
from hyperslab.stores.stored_file import StoredFile

_CHANGES_NO_BYTE = ("bytes",)


@dataclass(frozen=True, eq=False)
class ChunkLocations:
    """The stored chunks of one array, in any order.

    ``files``: those that hold them. ``shape``: that of each chunk, stored whole also at the array's edge; ``dtype``:
    that of its cells, with their byte order; ``codecs``: what it was passed through, in the order of writing, with
    ``bytes`` where the cells became bytes. ``coords`` (n, ndim), ``numbers`` (which of the files), ``offsets``,
    ``sizes`` in bytes: one row per chunk. ``odd`` (m, ndim): chunks that are stored in another way, as HDF5 does with a
    filter that makes a chunk no smaller; their cells only the source reads.
    """

    files: Sequence[StoredFile]
    shape: tuple[int, ...]
    dtype: NumpyDType
    codecs: tuple[Codec, ...]
    coords: Values
    numbers: Values
    offsets: Values
    sizes: Values
    odd: Values

    @classmethod
    def of_cells(
        cls, file: StoredFile, shape: tuple[int, ...], dtype: NumpyDType, offsets: Sequence[int] | Values
    ) -> ChunkLocations:
        """Return chunks of bare cells that follow one another along the first axis, by their first bytes."""
        count = len(offsets)
        coords = np.zeros((count, len(shape)), np.int64)
        if shape:
            coords[:, 0] = np.arange(count)
        return cls(
            (file,),
            shape,
            dtype,
            (Codec("bytes"),),
            coords,
            np.zeros(count, np.int32),
            np.asarray(offsets, np.int64).reshape(count),
            np.full(count, prod(shape) * dtype.itemsize, np.int64),
            np.zeros((0, len(shape)), np.int64),
        )

    def __len__(self) -> int:
        return len(self.coords)

    @cached_property
    def is_uncompressed(self) -> bool:
        """Return True if each chunk is its bare cells."""
        return all(codec.name in _CHANGES_NO_BYTE for codec in self.codecs)

    def can_recut(self, shape: tuple[int, ...]) -> bool:
        """Return True if chunks of this shape are whole runs of bytes of the stored ones."""
        if shape == self.shape:
            return True
        if not self.is_uncompressed or len(self.odd) or any(map(np.mod, self.shape, shape)):
            return False
        cut = max(axis for axis, size in enumerate(shape) if size != self.shape[axis])
        return all(size == 1 for size in shape[:cut])

    def recut(self, shape: tuple[int, ...], counts: tuple[int, ...]) -> ChunkLocations:
        """Return the same bytes as smaller chunks, of a grid with so many along each axis, where :meth:`can_recut`."""
        if shape == self.shape:
            return self
        parts = tuple(size // part for size, part in zip(self.shape, shape, strict=True))
        inner = np.indices(parts).reshape(len(parts), -1).T
        strides = [part * prod(self.shape[axis + 1 :]) * self.dtype.itemsize for axis, part in enumerate(shape)]
        coords = (self.coords[:, None, :] * np.array(parts) + inner[None]).reshape(-1, len(parts))
        offsets = (self.offsets[:, None] + (inner @ np.array(strides, np.int64))[None]).reshape(-1)
        kept = (coords < np.array(counts)).all(axis=1)
        return replace(
            self,
            shape=shape,
            coords=coords[kept],
            numbers=np.repeat(self.numbers, prod(parts))[kept],
            offsets=offsets[kept],
            sizes=np.full(int(kept.sum()), prod(shape) * self.dtype.itemsize, np.int64),
        )

    def moved(self, first: Sequence[int], files: int) -> ChunkLocations:
        """Return the same chunks as part of a larger grid, in which the first one stands at ``first``, and of a longer
        list of files, in which their own begin with the number ``files``."""
        start = np.array(first, np.int64)
        return replace(self, coords=self.coords + start, odd=self.odd + start, numbers=self.numbers + np.int32(files))


def concatenate(parts: Sequence[ChunkLocations], counts: tuple[int, ...]) -> ChunkLocations:
    """Return chunks of several pieces as those of one array, whose grid has ``counts`` chunks along each axis; what
    lies behind is left out. All have one shape, type and codecs."""
    first = parts[0]
    joined = ChunkLocations(
        [file for part in parts for file in part.files],
        first.shape,
        first.dtype,
        first.codecs,
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("coords", "numbers", "offsets", "sizes", "odd")
        ),
    )
    kept = (joined.coords < np.array(counts)).all(axis=1)
    if kept.all():
        return joined
    lists = {name: getattr(joined, name)[kept] for name in ("coords", "numbers", "offsets", "sizes")}
    return replace(joined, **lists, odd=joined.odd[(joined.odd < np.array(counts)).all(axis=1)])
