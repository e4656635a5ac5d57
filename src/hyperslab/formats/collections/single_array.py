"""Arrays of any dataset as collections of one array: what a schema makes of them and of their labels. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import prod
from typing import Any

import numpy as np

from hyperslab.errors import SchemaError, Unsupported
from hyperslab.formats.collections.base import CollectionDocument, LayoutName
from hyperslab.formats.hdf5.filters import filter_from_codecs
from hyperslab.formats.metadata_json.dtypes import dtype_to_json
from hyperslab.model.calendars import REAL, parse_moment, unit_length
from hyperslab.model.cells import Values
from hyperslab.model.dims import CFTime, Coordinate, FloatLabels, Index, Labels, ScaleIndex, TimeScale
from hyperslab.model.dtypes import VlenString, describe
from hyperslab.model.schemas import (
    ArraySchema,
    DimensionSchema,
    HDF5Options,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.model.schemas import Scale as ScaleSchema
from hyperslab.model.schemas.dimensions import EPOCH, AnyDimensionSchema
from hyperslab.model.spec import ArraySpec

RECORD = ("id", "primary_attributes", "custom_attributes")
"""The attributes of an array of a collection, in order."""


MOST_IN_DOCUMENT = 16 << 20
"""Bytes in memory of an array whose cells stand in the document of the root, at the most."""


# Characters of the path in a collection's name, which has at most 250 bytes, some of them for a number.
_LONGEST = 200


# Bytes of a tile of DEKER's below which a filter takes more of its HDF5 file than it saves.
_SMALL = 1 << 16


def record_attrs(attrs: Mapping[str, Any]) -> dict[str, object]:
    """Return the same attributes as JSON values, where a format without mappings has kept them as text."""
    return {
        name: json.loads(value) if name in RECORD[1:] and _is_json(value) else value for name, value in attrs.items()
    }


def _is_json(value: object) -> bool:
    try:
        return isinstance(value, str) and isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False


def new_array(spec: ArraySpec, format: str) -> ArraySpec:
    """Return a user's wish as a collection can hold it: Unsupported for types, cuts and cells that it cannot.

    Of an array that is one of many its attributes alone count, for the rest is as the schema says.
    """
    if set(spec.attrs) == set(RECORD):
        return spec.evolve(attrs=record_attrs(spec.attrs))
    dtype = spec.dtype
    if is_small_kind(spec):
        return _small(spec, format)
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iufc":
        raise Unsupported(f"format {format} has no cells of type {describe(dtype)}")
    if dtype.byteorder == ">":
        raise Unsupported(f"format {format} has no big-endian cells", remedy="convert them to the native byte order")
    if spec.sparse is not None:
        raise Unsupported(f"format {format} has no sparse arrays", remedy="densify=True stores all cells")
    if any(isinstance(cut, tuple) for cut in spec.chunks):
        raise Unsupported(f"format {format} has no chunks of varying sizes", remedy="give one length per dimension")
    cut = _lengths(spec.layout.get("shards") or spec.chunks)
    fill = np.zeros((), dtype)[()] if spec.fill_value is None else spec.fill_cell()[()]
    codecs = () if filter_from_codecs(spec.codecs, dtype, format) is None else spec.codecs
    return spec.evolve(chunks=cut, codecs=codecs, fill_value=fill, layout={})


def is_small_kind(spec: ArraySpec) -> bool:
    """Return True if no schema has such arrays, whose cells stand in the document of the root then: those without
    dimensions, text, truths, times, rows.
    """
    dtype = spec.dtype
    if isinstance(dtype, VlenString):
        return True
    if not isinstance(dtype, np.dtype) or dtype.hasobject or dtype.kind not in "biufcmMUSV" or spec.sparse is not None:
        return False
    return not spec.shape or dtype.kind in "bmMUSV"


def _small(spec: ArraySpec, format: str) -> ArraySpec:
    """Return an array whose cells will stand in the document, in one piece. Unsupported for what is too much for it."""
    nbytes = prod(spec.shape) * max(spec.numpy_dtype.itemsize, 1)
    if nbytes > MOST_IN_DOCUMENT:
        message = f"format {format} has no place for {prod(spec.shape)} cells of type {describe(spec.dtype)}"
        remedy = f"an array of these cells has at most {MOST_IN_DOCUMENT >> 20} MiB"
        raise Unsupported(message, remedy=remedy)
    if isinstance(spec.dtype, np.dtype):
        try:
            dtype_to_json(spec.dtype)
        except TypeError as error:
            raise Unsupported(f"format {format}: {error}") from None
    whole = tuple(max(1, length) for length in spec.shape)
    return spec.evolve(chunks=whole, codecs=(), fill_value=spec.fill_cell()[()], layout={})


def _lengths(cut: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(length) for length in cut)


def collection_name(path: str, taken: Collection[str]) -> str:
    """Return a name for the collection of the array at a path: ``a.b`` for ``a/b``, with a number where that is
    taken."""
    plain = path.replace("/", ".")[-_LONGEST:]
    name, number = plain, 2
    while name in taken:
        name, number = f"{plain}-{number}", number + 1
    return name


def document_of(
    name: str, spec: ArraySpec, labels: Mapping[str, Index], unlimited: Collection[str], layout: LayoutName
) -> CollectionDocument:
    """Return the collection of one array, with the labels that its dimensions have; those ``unlimited`` grow."""
    if layout == "deker" and prod(_tile(spec, ())) * spec.numpy_dtype.itemsize < _SMALL:
        spec = spec.evolve(codecs=())
    filter = filter_from_codecs(spec.codecs, spec.numpy_dtype, "deker" if layout == "deker" else "collections")
    whole = layout != "deker" or (filter is None and (_divides(spec) or not _is_cut(spec)))
    chunks = None if whole else _tile(spec, ())
    options = None if filter is None and whole else HDF5Options(chunks, filter)
    dimensions = [
        dimension_schema(name, None if dim in unlimited else length, labels.get(name))
        for name, dim, length in zip(dimension_names(spec.dims), spec.dims, spec.shape, strict=True)
    ]
    schema = ArraySchema(dimensions, spec.dtype, fill_value=spec.fill_cell()[()])
    if unlimited or (_is_cut(spec) and (layout != "deker" or _divides(spec))):
        tile = _tile(spec, unlimited)
        schema = VArraySchema(dimensions, spec.dtype, fill_value=schema.fill_value, arrays_shape=tile)
    return CollectionDocument(name, schema, options, layout)


def dimension_names(dims: Sequence[str | None]) -> list[str]:
    """Return a name for each dimension, all different: those without one, or with one that is taken, are numbered."""
    names: list[str] = []
    for axis, dim in enumerate(dims):
        name = dim if dim is not None and dim.strip() and dim not in names else f"dim_{axis}"
        while name in names or (name != dim and name in dims):
            name += "_"
        names.append(name)
    return names


def _tile(spec: ArraySpec, unlimited: Collection[str]) -> tuple[int, ...]:
    cuts = zip(_lengths(spec.chunks), spec.shape, spec.dims, strict=True)
    return tuple(cut if dim in unlimited else max(1, min(cut, length)) for cut, length, dim in cuts)


def _is_cut(spec: ArraySpec) -> bool:
    """Return True if the array has several chunks."""
    return any(cut < length for cut, length in zip(_lengths(spec.chunks), spec.shape, strict=True))


def _divides(spec: ArraySpec) -> bool:
    return not any(length % cut for cut, length in zip(_lengths(spec.chunks), spec.shape, strict=True))


# -- labels of a dimension as those of a schema -----------------------------------------------------------------------


# The first day of the Gregorian calendar. CF's standard calendar is the Julian one before it, datetimes are not.
_GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)


# Part of a step by which numbers may lie off their scale.
_NEAR = 1e-6


# Labels of one dimension that stand in a schema at the most: its document is read whole with each opening.
LABELS_IN_SCHEMA = 10_000


def dimension_schema(name: str, size: int | None, index: Index | None) -> AnyDimensionSchema:
    """Return a dimension with those of its labels that a schema can say: of numbers and times regular ones alone."""
    try:
        return _labelled(name, size, index) or DimensionSchema(name, size)
    except SchemaError:  # words that are no labels: blank ones, or some twice
        return DimensionSchema(name, size)


def _labelled(name: str, size: int | None, index: Index | None) -> AnyDimensionSchema | None:
    match index:
        case ScaleIndex(start=start, step=step):
            return DimensionSchema(name, size, scale=ScaleSchema(float(start), float(step)))
        case Labels(names=names):
            return _words(name, size, names)
        case FloatLabels(values=labels):
            return (
                None if size is None or len(labels) > LABELS_IN_SCHEMA else DimensionSchema(name, size, labels=labels)
            )
        case TimeScale(start=start, step=step):
            ends = np.array([start, start + step])
            micros = ends.astype("M8[us]")
            return _regular_times(name, size, micros.astype("i8")) if (micros == ends).all() else None
        case CFTime():
            return _counted(name, size, index)
        case Coordinate(values=values):
            return _coordinate(name, size, values)
    return None


def _words(name: str, size: int | None, names: tuple[str, ...]) -> DimensionSchema | None:
    return DimensionSchema(name, size, labels=names) if size is not None and len(names) <= LABELS_IN_SCHEMA else None


def _coordinate(name: str, size: int | None, values: Values) -> AnyDimensionSchema | None:
    if values.dtype.kind in "UTO":
        return _words(name, size, tuple(map(str, values))) if all(isinstance(word, str) for word in values) else None
    if values.size < 2:
        return None
    if values.dtype.kind == "M":
        micros = values.astype("M8[us]")
        ends = np.isnat(values).any() or (micros.astype(values.dtype) != values).any()
        return None if ends else _regular_times(name, size, micros.astype("i8"))
    if values.dtype.kind not in "iuf":
        return None
    regular = _regular(values.astype("f8"))
    return None if regular is None else DimensionSchema(name, size, scale=ScaleSchema(*regular))


def _regular(values: Values) -> tuple[float, float] | None:
    """Start and step of numbers that lie on a scale; the step in as few digits as tell all of them."""
    start, step = float(values[0]), float(values[-1] - values[0]) / (values.size - 1)
    if not (np.isfinite(values).all() and step):
        return None
    counts = np.arange(values.size)
    for digits in (6, 9, 12, 17):
        candidate = float(f"{step:.{digits}g}")
        if np.abs(start + counts * candidate - values).max() <= _NEAR * abs(step):
            return start, candidate
    return None


def _regular_times(name: str, size: int | None, micros: Values) -> TimeDimensionSchema | None:
    """Return the times of microseconds since 1970 that are equally far apart, and in years that datetimes have."""
    steps = np.diff(micros)
    if not steps[0] or (steps != steps[0]).any():
        return None
    try:
        first, step = EPOCH + timedelta(microseconds=int(micros[0])), timedelta(microseconds=int(steps[0]))
    except OverflowError:
        return None
    return None if first < _GREGORIAN else TimeDimensionSchema(name, size, start_value=first, step=step)


def _counted(name: str, size: int | None, index: CFTime) -> TimeDimensionSchema | None:
    """Return times of a real calendar that lie on whole microseconds."""
    unit, moment = unit_length(index.unit, index.calendar), parse_moment(index.epoch)
    start = None if moment is None else moment.start(index.calendar)
    values = index.values
    if unit is None or start is None or start % 1000 or index.calendar not in REAL or values.size < 2:
        return None
    if not np.isfinite(values).all() or np.abs(values).max() * (unit / 1000) + abs(start / 1000) > 2**62:
        return None
    exact = values.astype("f8") * (unit / 1000) if values.dtype.kind == "f" or unit % 1000 else None
    micros = values.astype("i8") * (unit // 1000) if exact is None else np.rint(exact).astype("i8")
    return _regular_times(name, size, micros + start // 1000)
