"""Sources in which arrays have other cells, or that have more arrays, made chunk by chunk as they are read."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from hyperslab.array.session import OpenDataset
from hyperslab.chunks.grid import Coords, FixedAxis, Grid
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.conversion.losses import COLUMNS, Features, required_features, target_type
from hyperslab.conversion.selection import ArraySelection
from hyperslab.conversion.source_nodes import SourceNode, has_coordinate
from hyperslab.errors import Invalid, Problem
from hyperslab.formats.base import Feature, Reader
from hyperslab.formats.format_errors import ReadOnlyChunks
from hyperslab.group.cf_variables import name_coordinates
from hyperslab.model.cells import Values, as_type
from hyperslab.model.dims import index_cells
from hyperslab.model.dtypes import Compound, DataType, NumpyDType, VlenString, describe, numpy_dtype, tag_of
from hyperslab.model.paths import check_name, child, is_name, split
from hyperslab.model.refs import Pointer
from hyperslab.model.spec import ArraySpec, GroupSpec, Node
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


# -- rows for a target that has groups and no rows ---------------------------------------------------------------------
# A group of the array's name, and in it an array of each field. Rows in rows are groups in groups, fields that are
# arrays add their axes as the last ones, complex numbers are the rows of r and i. Each column is read from all rows.


_WITHIN = (Feature.STRUCTURED, Feature.SUBARRAYS, Feature.COMPLEX)


@dataclass(frozen=True, slots=True)
class FieldColumn(DerivedArray):
    """A field (of a field …) of the array at ``origin``, as the array ``spec``."""

    origin: str
    fields: tuple[str, ...]
    spec: ArraySpec

    def open_chunks(self, reader: Reader) -> ColumnChunks:
        """Return the chunks of the column; Invalid where its rows are no array any more."""
        rows = reader.node(self.origin)
        if not rows.is_array:
            raise Invalid("this is no array any more", node=self.origin)
        return ColumnChunks(reader.chunks(self.origin), self, rows.fill_cell())


def split_rows(parts: Sequence[SourceNode], features: Features) -> tuple[list[SourceNode], DerivedArrays]:
    """Return the nodes, those of rows that the target has no type for as groups of columns; and these columns."""
    found: list[SourceNode] = []
    columns: dict[str, FieldColumn] = {}
    for part in parts:
        lacking = _missing_feature(part.node, features) if part.node.is_array else None
        if lacking is None or not part.node.is_array:
            found.append(part)
            continue
        row = _row_type(_base_type(part.node.dtype), features)
        rows = FieldColumn(part.origin, (), part.node)
        below: list[SourceNode] = []
        names = []
        for place, each in _iter_field_columns(rows, part.origin, row, (), features) if row is not None else ():
            name = place[len(part.origin) :].lstrip("/")
            node = each.spec if isinstance(each, FieldColumn) else each
            below.append(SourceNode(child(part.path, name), place, node, whole=False))
            if isinstance(each, FieldColumn):
                names.append(name)
                columns[place] = each
        message = f"cells of type {describe(part.node.dtype)}: its fields become arrays of a group: {', '.join(names)}"
        group = GroupSpec(attrs=part.node.attrs, layout={COLUMNS: (lacking, message)})
        found += [replace(part, node=group), *below]
    return found, columns


def _missing_feature(spec: ArraySpec, features: Features) -> Feature | None:
    """Return what the target lacks, so that an array has to become columns; None where it need not, or cannot."""
    if Feature.GROUPS not in features or target_type(spec.dtype, features) is not None:
        return None
    if _row_type(_base_type(spec.dtype), features) is None:
        return None
    wanted = set(required_features(spec.dtype))
    return next((each for each in _WITHIN if each in wanted and each not in features), None)


def _base_type(dtype: DataType) -> NumpyDType:
    return dtype.base if isinstance(dtype, Compound) else numpy_dtype(dtype)


def _row_type(dtype: NumpyDType, features: Features) -> NumpyDType | None:
    """Return the fields of cells that have some; those of complex numbers where the target has no others."""
    if dtype.names is not None:
        return dtype
    if dtype.kind != "c" or target_type(dtype, features) is not None:
        return None
    half = f"{dtype.str[0]}f{dtype.itemsize // 2}"
    return np.dtype([("r", half), ("i", half)])


def _iter_field_columns(
    above: FieldColumn, group: str, row: NumpyDType, axes: tuple[int, ...], features: Features
) -> Iterator[tuple[str, FieldColumn | GroupSpec]]:
    """Yield every column of a row, and every group for a row in it, with the path in the source that it gets."""
    for name, field in zip(_node_names(row), row.names or (), strict=True):
        kind = row[field]
        place, inner = child(group, name), (*axes, *kind.shape)
        column = replace(above, fields=(*above.fields, field))
        below = _row_type(kind.base, features)
        if below is None:
            yield place, replace(column, spec=_column_spec(above.spec, column.fields, kind.base, inner))
        else:
            yield place, GroupSpec()
            yield from _iter_field_columns(column, place, below, inner, features)


def _node_names(row: NumpyDType) -> Sequence[str]:
    """Return the fields' names; numbers for those that are no names of arrays."""
    numbered = [f"field{number}" for number in range(len(row.names or ()))]
    names = list(numbered)
    for number, name in enumerate(row.names or ()):
        with suppress(Invalid):
            check_name(name)
            names[number] = name
    # Two fields may not become arrays of one name.
    return names if len({*names}) == len(names) else numbered


def _column_spec(rows: ArraySpec, fields: tuple[str, ...], base: NumpyDType, inner: tuple[int, ...]) -> ArraySpec:
    """Return the array of one field."""
    dtype = tag_of(base) or base
    fill = None
    if rows.fill_value is not None:
        cells = as_type(select_field(rows.fill_cell(), fields), numpy_dtype(dtype)).reshape(-1)
        fill = cells[0] if len(cells) and all(cells[0] == cell for cell in cells) else None
    return ArraySpec(
        shape=(*rows.shape, *inner),
        dtype=dtype,
        dims=(*rows.dims, *(None for _ in inner)),
        chunks=(*(rows.inner_chunks or rows.chunks), *(max(length, 1) for length in inner)),
        fill_value=fill,
        indexes=rows.indexes,
        sparse=rows.sparse,
        is_fill_plain=True,  # of rows nobody says what means missing
    )


def select_field(cells: Values, fields: tuple[str, ...]) -> Values:
    """Return the values of a field (of a field …) of rows or complex numbers."""
    for name in fields:
        parts = cells if cells.dtype.names is not None else {"r": cells.real, "i": cells.imag}
        cells = parts[name]
    return cells


# -- reading ----------------------------------------------------------------------------------------------------------


class ColumnChunks(DerivedChunks):
    """The chunks of one column: those of its rows, with the axes that the field has itself whole."""

    def __init__(self, rows: ChunkSource, column: FieldColumn, fill: Values) -> None:
        self._rows = rows
        self._column = column
        self._fill = fill
        self._outer = len(rows.grid.axes)
        self.cell_bytes = -(-fill.dtype.itemsize // max(prod(column.spec.shape[self._outer :]), 1))
        inner = tuple(FixedAxis(length, max(length, 1)) for length in column.spec.shape[self._outer :])
        self.grid = Grid(rows.grid.axes + inner)

    def read(self, coords: Coords) -> Block | None:
        """Return the field's values in a chunk; where none was written those of the rows' fill value."""
        block = self._rows.read(coords[: self._outer])
        if block is None:
            sizes = (axis.size_of(at) for axis, at in zip(self._rows.grid.axes, coords, strict=False))
            block = np.full(tuple(sizes), self._fill, self._fill.dtype)
        return np.ascontiguousarray(as_type(select_field(block, self._column.fields), self._column.spec.numpy_dtype))
