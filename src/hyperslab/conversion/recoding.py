"""Sources in which arrays have other cells, or that have more arrays, made chunk by chunk as they are read."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hyperslab.array.session import OpenDataset
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.conversion.selection import ArraySelection
from hyperslab.conversion.source_nodes import SourceNode, has_coordinate
from hyperslab.errors import Problem
from hyperslab.formats.base import Reader
from hyperslab.formats.format_errors import ReadOnlyChunks
from hyperslab.group.cf_variables import name_coordinates
from hyperslab.model.cells import Values
from hyperslab.model.dims import index_cells
from hyperslab.model.dtypes import VlenString
from hyperslab.model.paths import child, is_name, split
from hyperslab.model.refs import Pointer
from hyperslab.model.spec import ArraySpec, Node
from hyperslab.selection.region import Range
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
        return self._reader.main

    def children(self, path: str) -> Iterable[str]:
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


# -- labels of points (CF 1.11, 5.7) -----------------------------------------------------------------------------------
# Scalar coordinates beside an array, of dimensions that it labels itself. Where a coordinate array has the labels,
# its own cell of the point is that scalar.


_log = logging.getLogger("hyperslab")
_SCALAR = ArraySelection((), (), ())


@dataclass(frozen=True, eq=False)
class PointLabel(DerivedArray):
    """The label of one position of a dimension, as the array ``spec`` with the one cell ``label`` (0-d)."""

    spec: ArraySpec
    label: Values

    def open_chunks(self, reader: Reader) -> DerivedChunks:
        """Return the label as the only chunk."""
        return _LabelChunks(self.label)


class _LabelChunks(DerivedChunks):
    """One chunk of one cell."""

    def __init__(self, label: Values) -> None:
        self._label = label
        self.grid = Grid(())

    def read(self, coords: Coords) -> Block | None:
        """Return the label."""
        return self._label


def add_point_labels(items: Sequence[SourceNode]) -> tuple[list[SourceNode], DerivedArrays]:
    """Return the nodes with a scalar coordinate for each dimension of which one position is selected of an array that
    has the labels itself, named by the attribute ``coordinates`` of the array; and these coordinates by path.

    Where another node has the name, a warning says which label is left out.
    """
    arrays = {item.path: item.node for item in items if item.node.is_array}
    taken = {item.path for item in items}
    found: dict[str, PointLabel] = {}
    scalars: list[SourceNode] = []
    labelled = []
    for item in items:
        folder = split(item.path)[0]
        names = []
        for dim, label in _find_point_labels(item).items():
            size = dict(zip(item.node.dims, item.node.shape, strict=True))[dim] if item.node.is_array else 0
            if has_coordinate(arrays, folder, dim, size):
                continue
            place, origin = child(folder, dim), child(split(item.origin)[0], dim)
            if not is_name(dim) or place in taken or (origin in found and found[origin].label != label.label):
                text = "/%s: the label %s of %s is left out, for /%s is another"
                _log.warning(text, item.path, label.label, dim, place)
                continue
            if origin not in found:
                found[origin] = label
                scalar = SourceNode(place, origin, label.spec, picked=_SCALAR, is_companion=True, keeps_codecs=False)
                scalars.append(scalar)
            names.append(dim)
        if names and item.node.is_array:
            item = replace(item, node=item.node.evolve(attrs=name_coordinates(item.node.attrs, names)))
        labelled.append(item)
    return labelled + scalars, found


def _find_point_labels(item: SourceNode) -> dict[str, PointLabel]:
    """Return by dimension the labels that an array has itself of positions that are selected alone."""
    if not item.node.is_array or item.picked is None:
        return {}
    found = {}
    for axis, dim in enumerate(item.node.dims):
        place = item.picked.axes[axis]
        is_own = dim is not None and dim in item.node.indexes
        if dim is not None and is_own and axis not in item.picked.kept and isinstance(place, Range):
            cells, attrs = index_cells(item.node.indexes[dim], [place.start])
            dtype = VlenString() if isinstance(cells.dtype, np.dtypes.StringDType) else cells.dtype
            found[dim] = PointLabel(ArraySpec(shape=(), dtype=dtype, chunks=(), attrs=attrs), cells.reshape(()))
    return found
