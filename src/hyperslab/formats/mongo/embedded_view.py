"""The cells of an array that stood in the document of its object when a handle was opened, and lie in chunks by now.

Another handle has made the array longer. The older one goes on to read and write the cells that it knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.formats.mongo.source import MongoChunks
from hyperslab.model.coo import Numbers
from hyperslab.stores.attempts import attempts, beaten


class EmbeddedView:
    """The cells within ``shape`` from the origin of the chunks of ``source``, those past its end as ``fill``."""

    def __init__(self, source: MongoChunks, shape: tuple[int, ...], fill: Numbers, url: str) -> None:
        self._source = source
        self._shape = shape
        self._fill = fill
        self._url = url

    def _touched(self) -> Iterator[tuple[Coords, tuple[slice, ...], tuple[slice, ...]]]:
        """Return the chunks that hold the cells: which of theirs, and which of all."""
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
        for coords, inner, outer in self._touched():
            block = self._source.read(coords)
            if block is not None:
                cells[outer] = block[inner]
        return cells

    def swap(self, cells: Numbers, expected: bytes | None, timeout: float | None) -> None:
        """Store the cells where those that are stored are still these bytes (None: whatever they are), else Conflict.

        Chunk by chunk; one whose cells stay is not written.
        """
        known = None if expected is None else np.frombuffer(expected, self._fill.dtype).reshape(self._shape)
        for coords, inner, outer in self._touched():
            if known is None:
                for attempt in attempts(timeout):
                    with attempt:
                        self._put_over(coords, inner, cells[outer], None)
            elif known[outer].tobytes() != cells[outer].tobytes():
                self._put_over(coords, inner, cells[outer], known[outer])

    def _put_over(self, coords: Coords, inner: Any, cells: Numbers, known: Numbers | None) -> None:
        """Change one chunk as long as it is what was read."""
        blocks, stamp = self._source.read_stamped([coords])
        shape = self._source.grid.chunk_shape(coords)
        block = np.full(shape, self._fill, self._fill.dtype) if blocks[0] is None else blocks[0]
        if known is not None and block[inner].tobytes() != known.tobytes():
            raise beaten(self._url, str(coords))
        block[inner] = cells
        self._source.swap([(coords, block)], stamp)
