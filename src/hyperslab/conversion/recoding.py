"""Sources in which arrays have other cells, or that have more arrays, made chunk by chunk as they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hyperslab.array.session import OpenDataset
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import Problem
from hyperslab.formats.base import Reader
from hyperslab.formats.format_errors import ReadOnlyChunks
from hyperslab.model.cells import Values
from hyperslab.model.refs import Pointer
from hyperslab.model.spec import ArraySpec, Node
from hyperslab.stores.location import Location


@dataclass(frozen=True, eq=False)
class CellChange:
    """The change of one array: its new ``spec``, its cells by ``apply``, and the ``line`` that reports it."""

    spec: ArraySpec
    apply: Callable[[Values], Values]
    line: str
    keeps_type: bool = True


Recoding = Mapping[str, CellChange]
"""Changed arrays, by their paths in the source."""


# -- arrays that are made ----------------------------------------------------------------------------------------------


class DerivedChunks(ReadOnlyChunks):
    """The chunks of an array that the source has not, but that is made of it here: no other process has it.

    ``cell_bytes``: bytes that are read for one of its cells.
    """

    cell_bytes: int = 1


class DerivedArray(ABC):
    """An array that the source has not, or has with other cells, and that is made of it."""

    spec: ArraySpec

    @abstractmethod
    def open_chunks(self, reader: Reader) -> ChunkSource:
        """Return the chunks; ``reader``: of the source."""


DerivedArrays = Mapping[str, DerivedArray]
"""By the path that an array is read under."""


class _DerivingReader(Reader):
    """A source's reader, for that which has more arrays, or others."""

    def __init__(self, reader: Reader, arrays: DerivedArrays) -> None:
        self._reader = reader
        self._arrays = arrays
        self.has_omissions = reader.has_omissions
        self.has_links = reader.has_links
        self.is_single_array = reader.is_single_array

    @property
    def main(self) -> str | None:
        """The name of the array that opening the source gives."""
        return self._reader.main

    def children(self, path: str) -> Iterable[str]:
        """Return the names that the source has below a group."""
        return self._reader.children(path)

    def node(self, path: str) -> Node:
        """Return an array that is made, or what the source has there."""
        return self._arrays[path].spec if path in self._arrays else self._reader.node(path)

    def chunks(self, path: str) -> ChunkSource:
        """Return the chunks of an array that is made, or of one of the source."""
        return self._arrays[path].open_chunks(self._reader) if path in self._arrays else self._reader.chunks(path)

    def omitted(self, path: str) -> Iterable[Problem]:
        """Return what the source's format does not show."""
        return self._reader.omitted(path)

    def place_of(self, pointer: Pointer) -> Location | None:
        """Return where a pointer of the source leads."""
        return self._reader.place_of(pointer)

    def close(self) -> None:
        """Close the source."""
        self._reader.close()


def add_arrays(source: OpenDataset, arrays: DerivedArrays) -> OpenDataset:
    """Return the source, in which there are more arrays, or others."""
    return replace(source, reader=_DerivingReader(source.reader, arrays)) if arrays else source


# -- arrays that become others -----------------------------------------------------------------------------------------


class RecodedChunks(ReadOnlyChunks):
    """The chunks of an array with other cells."""

    def __init__(self, source: ChunkSource, apply: Callable[[Values], Values]) -> None:
        self._source = source
        self._apply = apply
        self.grid = source.grid

    def read(self, coords: Coords) -> Block | None:
        """Return the changed cells of a chunk; None where none was written."""
        block = self._source.read(coords)
        return None if block is None else np.ascontiguousarray(self._apply(np.asarray(block)))


@dataclass(frozen=True, eq=False)
class _RecodedArray(DerivedArray):
    """The array at ``path`` of the source, with other cells."""

    path: str
    spec: ArraySpec
    apply: Callable[[Values], Values]

    def open_chunks(self, reader: Reader) -> RecodedChunks:
        """Return the source's chunks with the cells that become of them."""
        return RecodedChunks(reader.chunks(self.path), self.apply)


def add_recoding(source: OpenDataset, recoding: Recoding) -> OpenDataset:
    """Return the source, in which arrays have the cells that become of them."""
    return add_arrays(source, {path: _RecodedArray(path, each.spec, each.apply) for path, each in recoding.items()})
