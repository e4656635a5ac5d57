"""A part of a chunk as a span of its bytes, which segments hold that, and the part again from these. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class CellSpan:
    """The cells ``within`` (forward slices) of a chunk of ``shape``, in C order from cell ``low`` up to ``high``."""

    shape: tuple[int, ...]
    itemsize: int
    low: int
    high: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], within: Sequence[slice], itemsize: int) -> CellSpan:
        """The span of a part that holds at least one cell."""
        steps = [part.step or 1 for part in within]
        counts = tuple(len(range(*part.indices(size))) for part, size in zip(within, shape, strict=True))
        unit = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        low = sum(part.start * size for part, size in zip(within, unit, strict=True))
        strides = tuple(step * size for step, size in zip(steps, unit, strict=True))
        high = low + sum((count - 1) * stride for count, stride in zip(counts, strides, strict=True)) + 1
        return cls(shape, itemsize, low, high, counts, strides)

    @property
    def total(self) -> int:
        """Bytes of the whole chunk."""
        return self.itemsize * prod(self.shape)

    @property
    def is_small(self) -> bool:
        """Return whether it is so little of the chunk that it is not read whole."""
        return 2 * (self.high - self.low) * self.itemsize <= self.total

    def numbers(self, size: int) -> range:
        """The segments, of ``size`` bytes each, that hold the span."""
        return range(self.low * self.itemsize // size, (self.high * self.itemsize - 1) // size + 1)

    def take(self, segments: Mapping[int, bytes], size: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
        """The part, from segments by their number; None when they are not as long as they should be."""
        if any(len(data) != length for data, length in self._lengths(segments.items(), size)):
            return None
        start, stop = self.low * self.itemsize, self.high * self.itemsize
        raw = np.empty(stop - start, np.uint8)
        for n in self.numbers(size):
            if n not in segments:
                return None
            first, last = max(start, n * size), min(stop, n * size + size)
            piece = np.frombuffer(segments[n], np.uint8)[first - n * size : last - n * size]
            raw[first - start : last - start] = piece
        cells = raw.view(dtype)
        strides = tuple(stride * self.itemsize for stride in self.strides)
        return np.lib.stride_tricks.as_strided(cells, self.counts, strides, writeable=False)

    def _lengths(self, segments: Iterable[tuple[int, bytes]], size: int) -> Iterable[tuple[bytes, int]]:
        return ((data, max(0, min(size, self.total - n * size))) for n, data in segments)
