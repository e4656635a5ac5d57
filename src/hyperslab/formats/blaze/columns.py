"""A structured array whose innermost fields are columns of their own: chunks are put together from those of each.

The columns of a nested field lie in folders within that of the field. Reading a field reads its columns alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.formats.blaze.document import ColumnStorage, Field, said_besides, spelled
from hyperslab.formats.blaze.source import FetchedChunks
from hyperslab.formats.blaze.superchunks import Superchunks
from hyperslab.model.spec import ArraySpec, Codec


def column_spec(spec: ArraySpec, path: Field, dtype: np.dtype[Any]) -> ArraySpec:
    """A field of ``spec`` as an array of its own: cells that are arrays become more dimensions."""
    base, shape = dtype.subdtype or (dtype, ())
    fill = fill_of(spec, path)
    storing = ColumnStorage.of(spec)
    config = {key: value for key, value in storing.codec.config.items() if key != "typesize"}
    if base.names is None:
        config["typesize"] = base.itemsize
    rows = spec.shape or (1,)
    column = spec.evolve(
        shape=(*rows, *shape),
        dtype=base,
        dims=(*(spec.dims or (None,)), *([None] * len(shape))),
        fill_value=None if fill.shape and (fill != fill.flat[0]).any() else fill.flat[0],
        attrs={},
    )
    storing = replace(storing, codec=Codec("blosc", config), rows=storing.rows if spec.shape else 1)
    return spelled(column, storing, **said_besides(spec))


def fill_of(spec: ArraySpec, path: Field) -> Block:
    """The fill value of a field."""
    fill = spec.fill_cell()
    for name in path:
        fill = fill[name]
    return fill


class _Together(Protocol):
    def read_into(self, coords: Coords, out: Block) -> bool: ...


class ColumnsFetched:
    """What is stored of chunks of all columns, to be decoded."""

    def __init__(self, source: Columns, fetched: Sequence[_Together]) -> None:
        self._source = source
        self._fetched = fetched

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Put the chunk together in ``out``; False when no column has it."""
        return self._source.assemble(self._fetched, coords, out)


class Columns:
    """The chunks of a structured array. ``columns``: each with the names that lead to its field."""

    def __init__(
        self,
        spec: ArraySpec,
        columns: Sequence[tuple[Field, Superchunks]],
        hold: Callable[[float | None], AbstractContextManager[None]] | None = None,
    ) -> None:
        self._spec = spec
        self._columns = columns
        self._hold = hold
        self.transaction = hold  # without locks of chunks all of a write is done under one of the array
        first = columns[0][1]
        self._first = first
        self.keys = first.keys
        self.concurrency = first.concurrency
        outer = Grid.of(spec.shape, spec.chunks) if spec.inner_chunks else None
        self._grid = Grid.of(spec.shape, spec.inner_chunks or spec.chunks, outer)
        self._fill = spec.fill_cell()

    @property
    def grid(self) -> Grid:
        """How the array is cut."""
        return self._grid

    @property
    def columns(self) -> Sequence[tuple[Field, Superchunks]]:
        """The columns, each with the names that lead to its field."""
        return self._columns

    @property
    def places(self) -> int:
        """Superchunks that each column has."""
        return self._first.places

    def of_field(self, name: str) -> tuple[ArraySpec, Columns]:
        """The array as if its cells had this field alone."""
        dtype = self._spec.numpy_dtype
        assert dtype.fields is not None
        narrow = np.dtype([(name, dtype.fields[name][0])])
        fill = np.zeros((), narrow)
        fill[name] = self._fill[name]
        spec = self._spec.evolve(dtype=narrow, fill_value=fill[()])
        chosen = [(names, column) for names, column in self._columns if names[0] == name]
        return spec, Columns(spec, chosen, self._hold)

    def _local(self, column: Superchunks, coords: Coords) -> Coords:
        """The chunk of a column that holds its part of a chunk."""
        return (coords or (0,)) + (0,) * (len(column.grid.axes) - max(len(coords), 1))

    # -- reading ----------------------------------------------------------------------------------------------------

    def fetch(self, coords: Sequence[Coords]) -> ColumnsFetched:
        """Get what is stored of these chunks, column by column."""
        fetched: list[FetchedChunks] = []
        for _, column in self._columns:
            fetched.append(column.fetch([self._local(column, each) for each in coords]))
        return ColumnsFetched(self, fetched)

    def assemble(self, sources: Sequence[_Together], coords: Coords, out: Block) -> bool:
        """Put a chunk together of those of all columns."""
        found = False
        for (path, column), source in zip(self._columns, sources, strict=True):
            local = self._local(column, coords)
            block = np.empty(column.grid.chunk_shape(local), column.dtype)
            target = out
            for name in path:
                target = target[name]
            if source.read_into(local, block):
                found = True
                target[...] = block.reshape(target.shape)
            else:
                target[...] = fill_of(self._spec, path)
        return found

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Put the chunk together in ``out``; False when it was never written."""
        return self.assemble([column for _, column in self._columns], coords, out)

    def read(self, coords: Coords) -> Block | None:
        """The chunk in memory of its own, or None when it was never written."""
        block = np.empty(self._grid.chunk_shape(coords), self._spec.numpy_dtype)
        return block if self.read_into(coords, block) else None

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, coords: Coords, block: Block) -> None:
        """Store one chunk."""
        self.write_many([(coords, block)], durable=self.keys.settings.durable)

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Store chunks: the files of all columns are shown together."""
        self.keys.require_writable()
        kept = list(pairs)
        files: list[tuple[str, memoryview]] = []
        for path, column in self._columns:
            blocks = ((self._local(column, coords), self._part(column, path, coords, block)) for coords, block in kept)
            files += column.files(column.encoded(blocks))
        self.keys.put_many(files, durable)

    def _part(self, column: Superchunks, path: Field, coords: Coords, block: Block) -> Block:
        for name in path:
            block = block[name]
        return np.ascontiguousarray(block).reshape(column.grid.chunk_shape(self._local(column, coords)))

    def erase(self, coords: Coords) -> None:
        """Set one chunk to the fill value."""
        self.erase_many([coords])

    def erase_many(self, coords: Sequence[Coords]) -> None:
        """Set chunks to the fill value; files of which nothing is left go."""
        for _, column in self._columns:
            column.erase_many([self._local(column, each) for each in coords])

    def complete(self, first: int) -> None:
        """Write the superchunks from ``first`` on that are missing or shorter than the array, with fill values."""
        for _, column in self._columns:
            column.complete(first)

    # -- what is there ----------------------------------------------------------------------------------------------

    def stamp(self, coords: Coords) -> Any:
        """What identifies the stored version of the chunk in every column."""
        stamps = tuple(column.stamp(coords or (0,)) for _, column in self._columns)
        return None if all(stamp is None for stamp in stamps) else stamps

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the superchunks of these chunks against other writers, where the store can."""
        return self._first.lock([each or (0,) for each in coords], timeout)

    def stored(self) -> Iterator[Coords]:
        """The coordinates of every chunk that any column has."""
        seen: set[int] = set()
        for _, column in self._columns:
            seen.update(coords[0] for coords in column.stored())
        rest = (0,) * (len(self._grid.axes) - 1)
        yield from ((number, *rest) if self._grid.axes else () for number in sorted(seen))

    def nbytes_stored(self) -> int:
        """Bytes of all data files."""
        return sum(column.nbytes_stored() for _, column in self._columns)

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes of the files that these chunks lie in."""
        places = [each or (0,) for each in coords]
        return sum(column.stored_sizes(places) for _, column in self._columns)
