"""Cells of an HDF5 dataset that lies in one piece: any part of them by few reads of bytes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block
from hyperslab.errors import HyperslabError
from hyperslab.formats.hdf5 import ContiguousCells, pread

_GAP = 64 << 10
"""Bytes that are read at once though few of them may be wanted: less than another call costs."""
_BLOCK = 4 << 20
"""Bytes of the blocks that a large array is read and written by, so that threads share the work."""


def block_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """How an array in one piece is cut into blocks: along its first axes, so that each is one run of bytes."""
    blocks = list(shape)
    for axis, length in enumerate(shape):
        inner = prod(shape[axis + 1 :]) * itemsize
        blocks[axis] = min(length, max(1, _BLOCK // max(1, inner)))
        if blocks[axis] > 1:
            break
    return tuple(blocks)


class FlatCells(ContiguousCells):
    """Such cells, of which a part can be read."""

    @property
    def where(self) -> tuple[int | None, tuple[int, ...], np.dtype[Any]]:
        """The byte that the cells begin at, their shape, and their type as it is stored."""
        return self._offset, self._spec.shape, self._stored

    def read_part(self, coords: Coords, within: tuple[slice, ...], out: Block) -> bool:
        """Read the cells ``within`` a block into ``out``; False when nothing was ever written."""
        if self._offset is None:
            return False
        origin = self._grid.origin(coords)
        itemsize = self._stored.itemsize
        strides = [itemsize * prod(self._spec.shape[axis + 1 :]) for axis in range(len(origin))]
        start = self._offset
        steps = []
        for first, part, stride in zip(origin, within, strides, strict=True):
            start += (first + part.start) * stride
            steps.append((part.step or 1) * stride)
        try:
            self._read(start, tuple(steps), out)
        except HyperslabError as error:
            raise error.locate(url=self._url) from error.__cause__
        return True

    def _read(self, start: int, strides: tuple[int, ...], out: Block) -> None:
        """Cells whose bytes are ``strides`` apart: their whole span at once, or axis by axis where that is wide."""
        span = self._stored.itemsize + sum([(n - 1) * step for n, step in zip(out.shape, strides, strict=True)])
        if out.ndim and span > max(_GAP, 2 * out.size * self._stored.itemsize):
            for place in range(len(out)):
                self._read(start + place * strides[0], strides[1:], out[place : place + 1].reshape(out.shape[1:]))
            return
        data = pread(self._descriptor, span, start)
        out[...] = np.ndarray(out.shape, self._stored, data, 0, strides)
