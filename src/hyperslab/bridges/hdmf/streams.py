"""Data that arrive piece by piece: written whole rows of chunks at a time, in bounded memory; the array grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import numpy as np
from hdmf.data_utils import AbstractDataChunkIterator

from hyperslab.array import Array
from hyperslab.array.session import OpenDataset
from hyperslab.bridges.hdmf.lazy import rows_at_once
from hyperslab.bridges.hdmf.types import Refer, cells
from hyperslab.errors import Invalid
from hyperslab.formats.base import Writer
from hyperslab.model.spec import ArraySpec

Step = Callable[[int], None]
"""Told how many bytes of cells were written."""


class Stream:
    """One iterator and the array that it fills. Rows that follow each other wait until they fill chunks."""

    def __init__(
        self, session: OpenDataset, path: str, spec: ArraySpec, data: AbstractDataChunkIterator, refer: Refer
    ) -> None:
        self._session = session
        self._writer: Writer = session.writer()
        self.path = path
        self._spec = spec
        self._data = data
        self._refer = refer
        self._waiting: list[np.ndarray[Any, Any]] = []
        self._start = self._stop = 0
        first = spec.chunks[0] if spec.chunks else 1
        self._chunk = first if isinstance(first, int) else max(first)
        self._writer.put(path, spec)

    def step(self, done: Step) -> bool:
        """Write what the iterator gives next; False when it gives no more, and the array is complete."""
        try:
            piece = next(self._data)
        except StopIteration:
            self._flush(self._stop, done)
            self._writer.put(self.path, self._spec)
            return False
        key = _box(piece.selection, piece.data, self._spec.shape)
        self._grow(tuple(each.stop for each in key))
        values = cells(piece.data, self._spec.dtype, self._refer).reshape([each.stop - each.start for each in key])
        if not self._rows_of(key):
            self._flush(self._stop, done)
            self._write(key, values, done)
            return True
        if not self._waiting or key[0].start != self._stop:
            self._flush(self._stop, done)
            self._start = key[0].start
        self._waiting.append(values)
        self._stop = key[0].stop
        whole = self._stop // self._chunk * self._chunk
        if whole > self._start and prod(values.shape[1:]) * values.itemsize * (whole - self._start) >= _ENOUGH:
            self._flush(whole, done)
        return True

    def _rows_of(self, key: tuple[slice, ...]) -> bool:
        return bool(key) and all(
            each == slice(0, length) for each, length in zip(key[1:], self._spec.shape[1:], strict=True)
        )

    def _flush(self, stop: int, done: Step) -> None:
        """Write the rows that wait, up to ``stop``; the others go on waiting."""
        if not self._waiting:
            return
        rows = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        count = stop - self._start
        rest = (slice(0, length) for length in rows.shape[1:])
        self._waiting = [rows[count:]] if count < len(rows) else []
        self._write((slice(self._start, stop), *rest), rows[:count], done)
        self._start = stop

    def _write(self, key: tuple[slice, ...], values: np.ndarray[Any, Any], done: Step) -> None:
        Array(self._session, self.path, self._spec)[key] = values
        done(values.nbytes)

    def _grow(self, bounds: tuple[int, ...]) -> None:
        shape = tuple(max(pair) for pair in zip(self._spec.shape, bounds, strict=True))
        if shape != self._spec.shape:
            if self._waiting and shape[1:] != self._spec.shape[1:]:
                self._flush(self._stop, lambda nbytes: None)
            self._spec = self._spec.evolve(shape=shape)
            self._writer.put(self.path, self._spec)


_ENOUGH = 4 << 20


def exhaust(streams: Iterable[Stream], done: Step, *, together: bool) -> None:
    """Write them one after the other, or in turns: iterators may share what they are fed from."""
    queue = deque(streams)
    while queue:
        stream = queue.popleft()
        if stream.step(done):
            (queue.append if together else queue.appendleft)(stream)


def first_shape(data: AbstractDataChunkIterator) -> tuple[int, ...]:
    """The shape to begin with: what is not known yet is empty, and grows."""
    shape = data.maxshape
    if shape is None:
        shape = data.recommended_data_shape()
    if shape is None:
        raise Invalid("an iterator that gives nothing and says no shape", remedy="give it maxshape=")
    return tuple(0 if length is None else int(length) for length in shape)


def slabs(data: Any) -> Iterable[slice]:
    """The rows of a large array, so many at a time that copying them takes bounded memory."""
    rows = rows_at_once(data)
    return (slice(start, min(start + rows, data.shape[0])) for start in range(0, data.shape[0], rows))


def _box(selection: Any, data: Any, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """A chunk's selection as a range per axis; Invalid for anything else."""
    parts = selection if isinstance(selection, tuple) else (selection,)
    if Ellipsis in [part for part in parts if part is Ellipsis] or len(parts) > len(shape):
        raise Invalid(f"a chunk at {selection!r}", remedy="give a range per dimension")
    parts = (*parts, *(slice(None),) * (len(shape) - len(parts)))
    sizes = iter(np.shape(data))
    return tuple(_range(part, sizes, length) for part, length in zip(parts, shape, strict=True))


def _range(part: Any, sizes: Any, length: int) -> slice:
    if isinstance(part, int | np.integer):
        return slice(int(part), int(part) + 1)
    size = next(sizes, length)
    if not isinstance(part, slice) or part.step not in (None, 1):
        raise Invalid(f"a chunk at {part!r}", remedy="give a range per dimension")
    start = int(part.start or 0)
    return slice(start, start + int(size) if part.stop is None else int(part.stop))
