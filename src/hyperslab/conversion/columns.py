"""Rows for a target that has groups and no rows: a group of the array's name, and in it an array of each field.

Rows in rows are groups in groups, fields that are arrays add their axes as the last ones, complex numbers are the rows
of ``r`` and ``i``. These columns are arrays that are made of the source, each read from all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from hyperslab.chunks.grid import Coords, FixedAxis, Grid
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.conversion.losses import COLUMNS, Features, required_features, target_type
from hyperslab.conversion.recoding import DerivedArray, DerivedArrays, DerivedChunks
from hyperslab.conversion.source_nodes import SourceNode
from hyperslab.errors import Invalid
from hyperslab.formats.base import Feature, Reader
from hyperslab.model.cells import Values, as_type
from hyperslab.model.dtypes import Compound, DataType, NumpyDType, describe, numpy_dtype, tag_of
from hyperslab.model.paths import check_name, child
from hyperslab.model.spec import ArraySpec, GroupSpec

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
