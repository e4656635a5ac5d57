"""A selected part of an array with the labels of its cells: as CSV, JSON, ``.npy``, or a dataset of its own.

Labels that an array has by itself are shown as the coordinate array that a dataset of it would have.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from hyperslab import api
from hyperslab.array import Array, cf, references
from hyperslab.array.attributes import with_missing
from hyperslab.array.decoded import Decoded
from hyperslab.array.plain_values import cell_text, to_json_value
from hyperslab.array.series import is_sample_time
from hyperslab.chunks.boxes import Box, source_edges
from hyperslab.conversion.csv_text import CsvBlock, cell_type, open_csv, render_csv, write_csv
from hyperslab.errors import BrokenLink, ExternalLinkRefused, HyperslabError, Invalid
from hyperslab.group import Group
from hyperslab.group.cf_variables import (
    companions_of,
    find_auxiliary_coordinates,
    global_attributes,
    keep_references,
    name_coordinates,
    names_in_attribute,
)
from hyperslab.group.coordinates import find_labels
from hyperslab.model.cells import Values
from hyperslab.model.dims import axis_names, index_cells
from hyperslab.model.paths import split
from hyperslab.selection.circle import add_turns
from hyperslab.selection.region import Range
from hyperslab.stores.memory import MemoryStore

LOGGER = logging.getLogger("hyperslab.conversion")

# Cells of a block of rows: so many where chunks are small; a row of large chunks, so that none is decoded twice, up to
# the most, which as numbers take 32 MiB.
_BLOCK_CELLS, _MOST_CELLS = 1 << 16, 1 << 22


@dataclass(frozen=True, eq=False)
class LabelledAxis:
    """Labels along dimension ``name``, as :func:`.axis_names` has it: the coordinate ``array`` that they come from, the
    ``key`` of those that were chosen, and its stored ``cells`` there. ``head``: what stands above them in a table;
    ``shifted``: whole turns that were added to longitudes."""

    name: str
    array: Array
    key: object
    cells: Values
    head: str
    shifted: Values | None = None

    @cached_property
    def labels(self) -> Values:
        """The labels for people: times as dates, and the stored cells where they cannot be decoded."""
        if self.shifted is not None:
            return self.cells
        try:
            return np.asarray(self.array.decoded().isel({self.array.name: self.key}))
        except HyperslabError:
            return self.cells


@dataclass(frozen=True, eq=False)
class LabelledPart:
    """A part of ``array``: the remaining ``dims``, the ``positions`` along them, and its cells, which are read when
    they are first needed.

    ``root`` and ``key``: what the array was found in, and which part of it this is; ``other_keys``: what is selected
    along dimensions that the array does not have, such as its stations, by their name and length. ``shifted``: whole
    turns that are added to the longitudes of a dimension; ``turns``: to the cells.
    """

    root: Group | Array
    array: Array
    key: tuple[Any, ...]
    dims: tuple[str, ...]
    positions: tuple[Sequence[int], ...]
    decoded: bool
    shifted: Mapping[str, Values]
    other_keys: Mapping[tuple[str | None, int], Any] = field(default_factory=dict)
    turns: Values | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each of the remaining dimensions."""
        return tuple(map(len, self.positions))

    @property
    def size(self) -> int:
        """The number of cells."""
        return prod(self.shape)

    @property
    def values(self) -> Values:
        """The cells for people, decoded where that is wished."""
        return self._cells[0]

    @property
    def cells(self) -> Values:
        """The cells as a dataset of them holds them: decoded ones as they are, but for times and truth values, which
        stand there as they are stored."""
        return self._cells[1]

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes of :attr:`cells`: without those that decoding used up."""
        return self._cells[2]

    @cached_property
    def _cells(self) -> tuple[Values, Values, Mapping[str, Any]]:
        array, key = self.array, self.key
        attrs: Mapping[str, Any] = with_missing(array._session, array.spec)
        if self.decoded:
            view = array.decoded()
            chosen = dict(zip(axis_names(array.dims), key, strict=False))
            values = np.asarray(view.isel({name: item for name, item in chosen.items() if not _is_whole(item)}))
            stored = values
            if values.dtype.kind in "mMbO" and view.ndim == array.ndim:
                stored = _as_array(array.oindex[key])
            else:
                attrs = {**view.attrs, **_physical_limits(array, view)}
        else:
            stored = values = _as_array(array.oindex[key])
        turns = self.shifted.get(str(array.name), self.turns) if array.dims == (array.name,) else self.turns
        if turns is not None:
            values, stored = add_turns(values, turns), add_turns(stored, turns)
        return values, stored, attrs

    @cached_property
    def coordinates(self) -> dict[str, LabelledAxis]:
        """The coordinates of all dimensions that have one; read when they are first asked for, since not every file
        has labels."""
        axes = [read_axis(self.array, axis, item) for axis, item in enumerate(self.key)]
        return {found.name: _shift_axis(found, self.shifted.get(found.name)) for found in axes if found is not None}

    @cached_property
    def auxiliary(self) -> dict[str, Values]:
        """The labels of :attr:`auxiliary_parts` in the shape of the values, by the name of their coordinate."""
        found = {}
        for name, part in self.auxiliary_parts.items():
            axes = sorted(range(len(part.dims)), key=lambda axis: self.dims.index(part.dims[axis]))
            shape = [size if dim in part.dims else 1 for dim, size in zip(self.dims, self.shape, strict=True)]
            found[name] = np.broadcast_to(part.values.transpose(axes).reshape(shape), self.shape)
        return found

    @cached_property
    def auxiliary_parts(self) -> dict[str, LabelledPart]:
        """The parts, of the same cells, of coordinates along other dimensions than their own, as those of a curved
        grid, by their names; those that cannot be read are left out."""
        found: dict[str, LabelledPart] = {}
        if isinstance(self.root, Array) and not self.root.path:
            return found
        keys = dict(zip(self.array.dims, self.key, strict=False))
        sizes = dict(zip(self.array.dims, self.array.shape, strict=True))
        for coordinate in find_auxiliary_coordinates(self.array):
            with suppress(HyperslabError):
                dims = coordinate.decoded().dims
                is_like = None not in dims and len(set(dims)) == len(dims) and set(dims) & set(self.dims)
                if is_like and coordinate.shape[: len(dims)] == tuple(sizes.get(dim) for dim in dims):
                    letters = [slice(None)] * (coordinate.ndim - len(dims))
                    key = (*(keys[dim] for dim in dims), *letters)
                    part = open_part(self.root, coordinate, key, decoded=True)
                    _ = part.values  # which may not be possible
                    found[coordinate.name] = part
        return found

    @property
    def heads(self) -> list[str]:
        """The heading above the labels of each axis."""
        return [self.coordinates[dim].head if dim in self.coordinates else dim for dim in self.dims]

    def labels(self, axis: int) -> Sequence[int] | Values:
        """Return what stands beside the cells of an axis: labels, else positions."""
        found = self.coordinates.get(self.dims[axis])
        return self.positions[axis] if found is None else found.labels

    def axis_of(self, number: int) -> int:
        """Return which axis of the array a remaining dimension is."""
        return [axis for axis, item in enumerate(self.key) if not isinstance(item, int | np.integer)][number]

    def cut(self, box: Box) -> LabelledPart:
        """Return a part of this part, by a slice along each of the remaining dimensions."""
        key, shifted = list(self.key), dict(self.shifted)
        for number, (cut, places) in enumerate(zip(box, self.positions, strict=True)):
            axis = self.axis_of(number)
            some = places[cut]
            if isinstance(some, range):
                key[axis] = slice(some.start, some.stop if some.stop >= 0 else None, some.step)
            else:
                key[axis] = np.asarray(some)
            dim = self.array.dims[axis]
            if dim in shifted:
                shifted[dim] = shifted[dim][cut]
        return open_part(self.root, self.array, tuple(key), decoded=self.decoded, shifted=shifted)

    def as_json(self) -> dict[str, object]:
        """Return the part as JSON values."""
        return {
            "path": self.array.path,
            "dims": self.dims,
            "shape": self.shape,
            "dtype": str(self.values.dtype),
            "units": self.array.units or self.attrs.get("units"),
            "coordinates": {dim: to_json_value(found.labels) for dim, found in self.coordinates.items()},
            "values": to_json_value(self.values),
        }


def open_part(
    root: Group | Array,
    array: Array,
    key: tuple[Any, ...],
    *,
    decoded: bool,
    shifted: Mapping[str, Values] = MappingProxyType({}),
) -> LabelledPart:
    """Return a part, of which no cell is read: ``key`` holds an int, slice or integer array per dimension; ``shifted``:
    whole turns that are added to the longitudes of a dimension."""
    names = axis_names(array.dims)[: array.decoded().ndim if decoded else array.ndim]
    dims = []
    positions: list[Sequence[int]] = []
    for axis, (name, item) in enumerate(zip(names, key, strict=False)):
        if not isinstance(item, int | np.integer):
            dims.append(name)
            positions.append(_positions_of(item, array.shape[axis]))
    return LabelledPart(root, array, key[: len(names)], tuple(dims), tuple(positions), decoded, shifted)


def row_boxes(part: LabelledPart) -> Iterator[Box]:
    """Yield boxes that cover a part of some cells, as slices along its dimensions, in the order of its cells: rows of
    whole chunks, or what of them has ``_MOST_CELLS``."""
    shape = part.shape
    along = next(axis for axis in range(len(shape)) if prod(shape[axis + 1 :]) <= _MOST_CELLS)
    row = prod(shape[along + 1 :])
    spans = [*_row_spans(_chunk_edges(part, along), max(_BLOCK_CELLS // row, 1), _MOST_CELLS // row)]
    for place in np.ndindex(shape[:along]):
        for span in spans:
            yield (*(slice(at, at + 1) for at in place), span, *(slice(0, size) for size in shape[along + 1 :]))


def _chunk_edges(part: LabelledPart, number: int) -> Values:
    """Return where along a dimension of the part its cells come to lie in another chunk, with both ends."""
    axis, places = part.axis_of(number), part.positions[number]
    chunks = part.array.grid.axes[axis]
    if isinstance(places, range):
        starts = source_edges(chunks, Range(places.start, len(places), places.step))
    else:
        starts = np.concatenate([[0], np.flatnonzero(np.diff(chunks.find_many(np.asarray(places)))) + 1])
    return np.append(starts, len(places))


def _row_spans(edges: Values, usual: int, most: int) -> Iterator[slice]:
    """Yield slices from edge to edge, of ``usual`` rows where chunks are shorter, none of more than ``most``."""
    start, end = 0, int(edges[-1])
    while start < end:
        near = int(edges[np.searchsorted(edges, start + usual, "right") - 1])
        stop = near if near > start else int(edges[np.searchsorted(edges, start, "right")])
        stop = min(stop, start + most)
        yield slice(start, stop)
        start = stop


def _shift_axis(axis: LabelledAxis, shifts: Values | None) -> LabelledAxis:
    """Return the axis with whole turns added to its labels."""
    if shifts is None:
        return axis
    return replace(axis, cells=add_turns(axis.cells, shifts), shifted=shifts)


def _positions_of(item: Any, size: int) -> Sequence[int]:
    """Return the positions along a dimension that an int, slice or integer array chooses."""
    if isinstance(item, slice):
        return range(size)[item]
    return [int(place) % size for place in np.atleast_1d(item)]


def _physical_limits(array: Array, view: Decoded) -> dict[str, Any]:
    """Return the limits of valid values in the units of decoded ones; those of packed cells are stored as packed
    (NUG)."""
    how = cf.decoding(array.dtype, {name: array.attrs[name] for name in cf.PACKING if name in array.attrs})
    if not view.is_packed or array.dtype.kind not in "iu":
        return {}
    limits = {name: np.asarray(array.attrs[name]) for name in cf.LIMITS if name in array.attrs}
    return {
        name: cf.decode_limit(how, limit).astype(view.dtype)[()]
        for name, limit in limits.items()
        if limit.dtype.kind in "iu"
    }


def _as_array(cells: Any) -> Values:
    """Return the cells; a single reference to a region is not read."""
    return references.as_cells(cells) if isinstance(cells, references.REFERENCES) else np.asarray(cells)


def _is_whole(item: object) -> bool:
    return isinstance(item, slice) and item == slice(None)


def read_axis(array: Array, axis: int, item: Any) -> LabelledAxis | None:
    """Read the labels that the array has by itself, else those of the nearest 1-D array named like the dimension,
    else the seconds of a time series of NWB.

    None where there are none.
    """
    dim, name = array.dims[axis], axis_names(array.dims)[axis]
    found = None
    with suppress(BrokenLink, ExternalLinkRefused):  # then there are positions
        found = find_labels(array, axis)
    if found is None:
        return None
    if isinstance(found, Array):
        head = name if found.name == dim else "timestamps"
        return LabelledAxis(name, found, item, np.asarray(found.oindex[(item,)]), head)
    places = _positions_of(item, array.shape[axis])
    cells, attrs = index_cells(found, places)
    head = name
    if dim not in array.spec.indexes:  # samples of a series
        attrs, head = {"units": "seconds"}, "timestamps"
    with api.create(MemoryStore(), "zarr3") as own:
        coordinate = own.create_array(name, data=cells, dims=(name,), attrs=attrs)
    key = 0 if isinstance(item, int | np.integer) else slice(None)
    return LabelledAxis(name, coordinate, key, np.asarray(coordinate.oindex[(key,)]), head)


def empty_ranges(array: Array, key: tuple[object, ...], by_label: Collection[str]) -> dict[str, str]:
    """Return the dimensions of which a range takes no cell though there are some, with words on how they run.

    A range by label from the higher to the lower one is empty on an axis that ascends, as it is in xarray.
    """
    found = {}
    for dim, item, size in zip(array.dims, key, array.shape, strict=True):
        if dim and size and isinstance(item, slice) and not range(*item.indices(size)):
            found[dim] = _direction(array, dim) if dim in by_label else f"its positions go from 0 to {size - 1}"
    return found


def _direction(array: Array, dim: str) -> str:
    """Return in words how the labels of a dimension run."""
    found = read_axis(array, array.dims.index(dim), np.array([0, -1]))
    if found is None:
        return "no label lies there"
    cells = found.cells
    first, last = map(cell_text, found.labels)
    if cells.dtype.kind not in "iuf" or cells[0] == cells[1]:
        return f"{dim} runs from {first} to {last}"
    return f"{dim} {'ascends' if cells[0] < cells[1] else 'descends'} from {first} to {last}"


def table_rows(part: LabelledPart) -> Iterator[list[Any]]:
    """Yield one row per cell: its labels, then its value."""
    if not part.dims:
        yield [part.values[()]]
        return
    first, *others = (part.labels(axis) for axis in range(len(part.dims)))
    labels = ((label, *more) for label in first for more in product(*others))
    for row, value in zip(labels, part.values.reshape(-1), strict=True):
        yield [*row, value]


def as_csv(parts: Sequence[LabelledPart], most: int | None = None) -> bytes:
    """Return what :func:`save_csv` writes; MemoryLimit beyond ``most`` letters."""
    return render_csv(*_csv_blocks(parts), most)


def save_csv(parts: Sequence[LabelledPart], path: str) -> None:
    """Write a part as CSV with a header line: of each cell its labels, also those of a curved grid, and its value, that
    of a structure field by field; or parts with the same labels: of each cell its labels, and the value of each part.

    No more than a block of rows is in memory. Invalid for parts that have other dimensions or labels than the first.
    """
    with open_csv(path) as text:
        write_csv(text, *_csv_blocks(parts))


def _csv_blocks(parts: Sequence[LabelledPart]) -> tuple[Iterator[CsvBlock], Callable[[], CsvBlock]]:
    """Return blocks of the rows of parts, and what returns all rows as one."""
    blocks: Iterator[Sequence[LabelledPart]] = iter([parts])
    if parts[0].size > _BLOCK_CELLS and _have_one_shape(parts):
        blocks = ([part.cut(box) for part in parts] for box in row_boxes(parts[0]))
    return map(_csv_block, blocks), lambda: _csv_block(parts)


def _csv_block(parts: Sequence[LabelledPart]) -> CsvBlock:
    first, *others = parts
    columns = [*map(first.labels, range(len(first.dims))), *(part.values for part in parts)]
    if others:
        if not are_alike(parts):
            raise Invalid("the arrays have different dimensions or labels", remedy="take .nc, .zarr or .json")
        return CsvBlock(joined_heads(parts), joined_rows(parts), [cell_type(cells) for cells in columns])
    values = first.values.dtype.names or [first.array.name or "value"]
    columns += first.auxiliary.values()
    heads = [*first.heads, *first.auxiliary, *values]
    return CsvBlock(heads, _csv_rows(first), [cell_type(cells) for cells in columns])


def _csv_rows(part: LabelledPart) -> Iterator[list[object]]:
    fields = part.values.dtype.names
    others = [cells.reshape(-1) for cells in part.auxiliary.values()]
    for number, (*labels, value) in enumerate(table_rows(part)):
        values = [value] if fields is None else [value[name] for name in fields]
        yield [*labels, *(cells[number] for cells in others), *values]


def joined_rows(parts: Sequence[LabelledPart]) -> Iterator[list[Any]]:
    """Yield one row per cell of parts with the same labels: the labels, then the value of each part."""
    for rows in zip(*map(table_rows, parts), strict=True):
        yield [*rows[0], *(row[-1] for row in rows[1:])]


def joined_heads(parts: Sequence[LabelledPart]) -> list[str]:
    """Return the heading of such rows: names of arrays, or their paths where several have one name."""
    names = [part.array.name or "value" for part in parts]
    return [*parts[0].heads, *(names if len(set(names)) == len(names) else (part.array.path for part in parts))]


def are_alike(parts: Sequence[LabelledPart]) -> bool:
    """Return True if all parts have the same labels, so that one table holds them."""
    first = parts[0]
    return _have_one_shape(parts) and all(
        np.array_equal(np.asarray(part.labels(axis)), np.asarray(first.labels(axis)))
        for part in parts[1:]
        for axis in range(len(first.dims))
    )


def _have_one_shape(parts: Sequence[LabelledPart]) -> bool:
    return all(part.dims == parts[0].dims and part.shape == parts[0].shape for part in parts)


def as_npy(part: LabelledPart) -> bytes:
    """Return the cells as a .npy file; Invalid for cells of variable length other than text."""
    cells = part.values
    if cells.dtype.hasobject and cells.dtype.kind != "T":
        message = "a .npy file holds neither times of other calendars nor cells of variable length"
        raise Invalid(message, remedy="take .csv or .json")
    if cells.dtype.kind == "T":  # NumPy casts such text to a length that is said, and to no other
        cells = cells.astype(f"U{np.strings.str_len(cells).max(initial=1)}")
    file = io.BytesIO()
    np.save(file, cells, allow_pickle=False)
    return file.getvalue()


def save_dataset(parts: Sequence[LabelledPart], url: str, *, alone: bool = False) -> list[str]:
    """Write parts and their coordinates as one dataset of the format that the name says; the target must be new. What
    belongs to them by CF, and the global attributes, come along unless ``alone``; return the names of what did.

    Invalid for cells that are not written so, and for parts that would take each other's names or labels.
    """
    own = {part.array.name or "value": part for part in parts}
    if len(own) < len(parts):
        raise Invalid("several of the arrays have one name", remedy="use convert -v, which keeps their groups")
    if any(part.cells.dtype.hasobject and part.cells.dtype.kind != "T" for part in parts):
        raise Invalid("cells of this type are not written by get", remedy="use convert -s, which keeps their type")
    axes: dict[str, LabelledAxis] = {}
    others: dict[str, LabelledPart] = {}
    for part in parts:
        for dim, axis in part.coordinates.items():
            if not np.array_equal(axes.setdefault(dim, axis).cells, axis.cells):
                message = f"the arrays have different labels along {dim!r}"
                raise Invalid(message, node=part.array.path, remedy="write each to a file of its own")
        others |= {name: found for name, found in part.auxiliary_parts.items() if name not in own}
    others = {name: found for name, found in others.items() if name not in axes}
    companions = {} if alone else _read_companions(parts, {*own, *axes, *others})
    others |= companions
    written = {*own, *axes, *others}
    with api.create(url) as root:
        if not alone:
            root.attrs.update(_global_attributes(parts[0].array))
        for dim, axis in axes.items():
            if dim in own:  # a coordinate is its own labels
                continue
            attrs = keep_references(with_missing(axis.array._session, axis.array.spec), written)
            root.create_array(dim, data=_plain_text(axis.cells), dims=(dim,) if axis.cells.ndim else (), attrs=attrs)
        for each, found in {**others, **own}.items():
            attrs, cells = keep_references(found.attrs, written), _plain_text(found.cells)
            if each in own:
                points = [dim for dim, axis in found.coordinates.items() if not axis.cells.ndim and dim != each]
                attrs = name_coordinates(attrs, points)
            if root._session.format.traits.netcdf_attributes:
                cells, attrs = _as_netcdf_cells(cells, attrs)
                texts = {key: json.dumps(value) for key, value in attrs.items() if isinstance(value, dict)}
                if texts:
                    names = ", ".join(map(repr, texts))
                    LOGGER.warning(
                        "netCDF has no attributes within attributes: of %s, JSON text is written for %s", each, names
                    )
                attrs = {**attrs, **texts}
            root.create_array(each, data=cells, dims=found.dims, attrs=attrs)
    return [name for name in (*axes, *others) if name not in own]


def _read_companions(parts: Sequence[LabelledPart], taken: Collection[str]) -> dict[str, LabelledPart]:
    """Return by name the same cells of what belongs to parts by CF, as stored, but for names that are taken; what
    cannot be read, or would give a dimension another length, is left out."""
    keys: dict[tuple[str | None, int], Any] = {}
    lengths: dict[str, int] = {}
    bounds: dict[str, Values] = {}
    for part in parts:
        keys = {**part.other_keys, **keys}
        keys |= dict(zip(zip(part.array.dims, part.array.shape, strict=True), part.key, strict=False))
        lengths |= dict(zip(part.dims, part.shape, strict=True))
        for dim, shifts in part.shifted.items():
            if dim in part.coordinates:
                attrs = part.coordinates[dim].array.spec.attrs
                bounds |= dict.fromkeys(names_in_attribute("bounds", attrs.get("bounds"), attrs), shifts)
    found: dict[str, LabelledPart] = {}
    for other in companions_of([part.array for part in parts], {}):
        if other.name in taken or other.name in found or is_sample_time(other._session, other.path):
            continue  # seconds of samples are a coordinate
        with suppress(HyperslabError):
            key = tuple(keys.get(pair, slice(None)) for pair in zip(other.dims, other.shape, strict=True))
            counted = other.spec.attrs.get("sample_dimension")
            if all(map(_is_whole, key)) and any(dim == counted and not _is_whole(keys[dim, n]) for dim, n in keys):
                continue  # it would count samples that are not here
            part = open_part(parts[0].root, other, key, decoded=False)
            sizes = dict(zip(part.dims, part.shape, strict=True))
            is_plain = not part.cells.dtype.hasobject or part.cells.dtype.kind == "T"
            if is_plain and all(lengths.get(dim, size) == size for dim, size in sizes.items()):
                lengths |= sizes
                turns = bounds.get(other.name)
                found[other.name] = part if turns is None else replace(part, turns=turns)
    return found


def _global_attributes(array: Array) -> dict[str, object]:
    """Return the plain attributes of the groups that an array is in, where they say which conventions they follow."""
    attrs = global_attributes(array._session, split(array.path)[0])
    plain = (str, int, float, np.generic, np.ndarray)
    return {name: value for name, value in attrs.items() if isinstance(value, plain)} if "Conventions" in attrs else {}


TIME_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def _as_netcdf_cells(cells: Values, attrs: dict[str, object]) -> tuple[Values, dict[str, object]]:
    """Return cells of a type that netCDF has, with the attributes by which readers understand them: it has neither
    truth values, nor times of NumPy, nor floats of 16 bits."""
    kind = cells.dtype.kind
    if kind == "b":
        return cells.astype("i1"), attrs | {"dtype": "bool"}
    if kind == "f" and cells.dtype.itemsize == 2:
        return cells.astype("f4"), attrs
    if kind not in "mM":
        return cells, attrs
    unit = np.datetime_data(cells.dtype)[0]
    unit = unit if unit in TIME_UNITS else "s"
    found: dict[str, object] = {**attrs, "units": TIME_UNITS[unit]}
    if kind == "M":
        found |= {"units": f"{TIME_UNITS[unit]} since 1970-01-01", "calendar": "proleptic_gregorian"}
    if np.isnat(cells).any():
        found["_FillValue"] = np.iinfo("i8").min  # which is how NumPy stores what is no time
    return cells.astype(f"{kind}8[{unit}]").astype("i8"), found


def _plain_text(cells: Values) -> Values:
    return cells.astype(np.dtypes.StringDType()) if cells.dtype.kind == "U" else cells
