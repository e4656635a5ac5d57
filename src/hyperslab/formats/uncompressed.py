"""Chunks that are stored as bare cells in plain files: read straight into the result, or only the bytes of a region."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block
from hyperslab.errors import CorruptChunk, HyperslabError, StorageError
from hyperslab.formats.keyed import KeyedChunks

_SLAB = 256 << 10  # bytes read at a time when cells are copied on: they are still in the processor's cache then


class UncompressedChunks(KeyedChunks):
    """:class:`KeyedChunks` without codecs in a store whose values are files."""

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read the chunk straight into ``out``; False when it was never written."""
        return self._read_flat(coords, out.reshape(-1).view(np.uint8).data)

    def reader(self, out: Block) -> Callable[[Coords], bool]:
        """:meth:`read_into` of one block, for many chunks of its shape."""
        return partial(self._read_flat, flat=out.reshape(-1).view(np.uint8).data)

    def _read_flat(self, coords: Coords, flat: memoryview) -> bool:
        keys = self._keys
        key = keys.prefix + keys.key_of(coords)
        try:
            size = keys.store.read_exactly(key, flat)
            if size is not None and size != flat.nbytes:
                raise _wrong_size(flat.nbytes, size)
        except HyperslabError as error:
            raise error.locate(url=keys.store.url, key=key) from error.__cause__
        return size is not None

    def read_part(self, coords: Coords, within: tuple[Any, ...], out: Block) -> bool:
        """Read the cells ``within`` (slices, steps forward) into ``out``, slab by slab; False when never written."""
        keys = self._keys
        key = keys.prefix + keys.key_of(coords)
        descriptor = keys.store.descriptor(key)
        if descriptor is None:
            return False
        shape = self._grid.chunk_shape(coords)
        try:
            expected = prod(shape) * out.dtype.itemsize
            size = os.fstat(descriptor).st_size
            if size != expected:
                raise _wrong_size(expected, size).locate(url=keys.store.url, key=key)
            _read_slabs(descriptor, shape, within, out)
        except OSError as error:
            if isinstance(error, HyperslabError):
                raise
            raise StorageError(f"cannot read: {error.strerror}", url=keys.store.url, key=key) from error
        finally:
            os.close(descriptor)
        return True


def _wrong_size(expected: int, found: int) -> CorruptChunk:
    return CorruptChunk("an uncompressed chunk has the wrong length", expected=f"{expected} bytes", found=found)


def _read_slabs(descriptor: int, shape: tuple[int, ...], within: tuple[Any, ...], out: Block) -> None:
    """Rows of the first axis whose rows are small, as many as a slab holds; the axes before it one index at a time."""
    itemsize = out.dtype.itemsize
    axis = next((k for k in range(len(shape)) if prod(shape[k + 1 :]) * itemsize <= _SLAB), len(shape) - 1)
    row = prod(shape[axis + 1 :]) * itemsize
    rows = within[axis]
    step = rows.step or 1
    taken = max(1, _SLAB // (row * step))  # rows of the result in one slab
    scratch = np.empty((min(taken * step, shape[axis]), *shape[axis + 1 :]), out.dtype)
    raw = scratch.reshape(-1).view(np.uint8).data
    rest = within[axis + 1 :]
    count = len(range(rows.start, rows.stop, step))
    for place in product(*(range(len(range(part.start, part.stop, part.step or 1))) for part in within[:axis])):
        base = 0
        for part, i, length in zip(within, place, shape, strict=False):
            base = base * length + part.start + i * (part.step or 1)
        base = (base * shape[axis] + rows.start) * row
        target = out[place]
        for done in range(0, count, taken):
            some = min(taken, count - done)
            span = ((some - 1) * step + 1) * row
            if os.preadv(descriptor, [raw[:span]], base + done * step * row) != span:
                raise CorruptChunk("the chunk became shorter while it was read", expected=f"{span} bytes")
            target[done : done + some] = scratch[: (some - 1) * step + 1 : step][(slice(None), *rest)]
