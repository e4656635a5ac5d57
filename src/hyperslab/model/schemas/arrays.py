"""Schemas of arrays (dimensions, type of the cells, attributes, fill value), and records: the values of one array."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import isnan, prod
from typing import Any

import numpy as np

from hyperslab.errors import SchemaError
from hyperslab.model import dims
from hyperslab.model.amounts import is_whole_number
from hyperslab.model.guessing import meant
from hyperslab.model.schemas.attributes import (
    AttributeSchema,
    convert_value,
    dtype_name,
    fill_text,
    require_dtype,
    require_fill,
    with_complex,
)
from hyperslab.model.schemas.dimensions import (
    AnyDimensionSchema,
    DimensionSchema,
    TimeDimensionSchema,
    check_span,
    iso_text,
)

# NumPy's own limit (since 2.0; 32 before).
MOST_DIMENSIONS = 64


@dataclass(frozen=True, slots=True, init=False, eq=False)
class ArraySchema:
    """The schema of a collection: what all its arrays have in common.

    ``dtype`` is ``int``, ``float``, ``complex``, a NumPy type of numbers or its dtype. ``fill_value`` is what cells
    without data read as: the lowest whole number or NaN unless one is given. SchemaError says what does not hold.
    """

    dimensions: tuple[AnyDimensionSchema, ...]
    dtype: np.dtype[np.generic]
    attributes: tuple[AttributeSchema, ...]
    fill_value: np.generic
    primary_attributes: tuple[AttributeSchema, ...] = field(repr=False)
    """The attributes that are the key of an array, in their order."""
    custom_attributes: tuple[AttributeSchema, ...] = field(repr=False)
    """The attributes whose values may change."""
    time_dimensions: tuple[TimeDimensionSchema, ...] = field(repr=False)
    """The dimensions of times."""

    def __init__(
        self,
        dimensions: Sequence[AnyDimensionSchema],
        dtype: object,
        attributes: Sequence[AttributeSchema] | None = None,
        fill_value: object = None,
    ) -> None:
        cells = require_dtype(dtype)
        object.__setattr__(self, "dimensions", _check_dimensions(dimensions))
        object.__setattr__(self, "dtype", cells)
        object.__setattr__(self, "attributes", _check_attributes(attributes))
        object.__setattr__(self, "fill_value", require_fill(fill_value, cells))
        object.__setattr__(self, "primary_attributes", tuple(known for known in self.attributes if known.primary))
        object.__setattr__(self, "custom_attributes", tuple(known for known in self.attributes if not known.primary))
        times = tuple(dimension for dimension in self.dimensions if isinstance(dimension, TimeDimensionSchema))
        object.__setattr__(self, "time_dimensions", times)
        types = {known.name: known.dtype for known in self.attributes}
        for dimension in times:
            name = dimension.attribute
            if name is not None and types.get(name) is not datetime:
                found = f"it is of the type {types[name].__name__}" if name in types else "there is none"
                raise SchemaError(
                    f"dimension {dimension.name!r} starts at the attribute {name!r}, but {found}",
                    remedy=f"add AttributeSchema({name!r}, datetime, ...) to the schema",
                )

    def _key(self) -> tuple[object, ...]:
        return self.dimensions, self.dtype.char, self.attributes, fill_text(self.fill_value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, ArraySchema) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def start_attributes(self) -> frozenset[str]:
        """The attributes that time axes start at."""
        return frozenset(time.attribute for time in self.time_dimensions if time.attribute is not None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each dimension; an unlimited one counts 0."""
        return tuple(dimension.size or 0 for dimension in self.dimensions)

    @property
    def named_shape(self) -> tuple[tuple[str, int], ...]:
        """Names of the dimensions with their sizes."""
        return tuple((dimension.name, dimension.size or 0) for dimension in self.dimensions)

    @property
    def unlimited(self) -> tuple[str, ...]:
        """The dimensions that grow."""
        return tuple(dimension.name for dimension in self.dimensions if dimension.size is None)

    @property
    def nbytes(self) -> int:
        """Bytes that the cells of one array take in memory."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def as_dict(self) -> dict[str, object]:
        """The schema as a collection document has it."""
        return self._to_dict()

    def _to_dict(self) -> dict[str, object]:
        return {
            "dimensions": [dimension.as_dict for dimension in self.dimensions],
            "dtype": dtype_name(self.dtype),
            "attributes": [attribute.as_dict for attribute in self.attributes],
            "fill_value": fill_text(self.fill_value),
        }

    def with_attributes(self, attributes: Sequence[AttributeSchema], names: Mapping[str, str]) -> ArraySchema:
        """Return the schema with other attributes. ``names``: by their names of before those that attributes have now,
        which times start at. SchemaError for a name that is there twice, and where times start at one that is gone."""
        return ArraySchema(self._starting_at(names), self.dtype, attributes, self.fill_value)

    def _starting_at(self, names: Mapping[str, str]) -> list[AnyDimensionSchema]:
        """Return the dimensions with the names that attributes have now."""
        return [
            replace(each, start_value=f"${names.get(each.attribute, each.attribute)}")
            if isinstance(each, TimeDimensionSchema) and each.attribute is not None
            else each
            for each in self.dimensions
        ]

    def indexes(self, values: Mapping[str, object], shape: Sequence[int] | None = None) -> dict[str, dims.Index]:
        """Return the labels of one array's dimensions by name, from the values of its attributes (for ``$`` starts).

        ``shape`` is the array's own where the schema has unlimited dimensions. A time axis whose attribute is unset
        has none.
        """
        found: dict[str, dims.Index] = {}
        for dimension, size in zip(self.dimensions, self.shape if shape is None else shape, strict=True):
            index: dims.Index | None
            if isinstance(dimension, DimensionSchema):
                index = dimension.index(size)
            else:
                start = dimension.start_of(values)
                index = None if start is None else dimension.index(start, size)
            if index is not None:
                found[dimension.name] = index
        return found


@dataclass(frozen=True, slots=True, init=False, eq=False)
class VArraySchema(ArraySchema):
    """The schema of arrays that are cut into a regular grid of equal tiles.

    Either ``vgrid``, the number of tiles along each dimension, which divides the shape; or ``arrays_shape``, the shape
    of a tile: tiles at the edge may be smaller, and unlimited dimensions need it.
    """

    vgrid: tuple[int, ...]
    arrays_shape: tuple[int, ...]

    def __init__(
        self,
        dimensions: Sequence[AnyDimensionSchema],
        dtype: object,
        attributes: Sequence[AttributeSchema] | None = None,
        fill_value: object = None,
        vgrid: Sequence[int] | None = None,
        arrays_shape: Sequence[int] | None = None,
    ) -> None:
        ArraySchema.__init__(self, dimensions, dtype, attributes, fill_value)
        if (vgrid is None) == (arrays_shape is None):
            raise SchemaError("a VArraySchema takes vgrid or arrays_shape", remedy="give one of the two")
        if vgrid is not None:
            tiles = _counts("vgrid", vgrid, self)
            for dimension, count in zip(self.dimensions, tiles, strict=True):
                if dimension.size is None:
                    message = f"vgrid for the unlimited dimension {dimension.name!r}"
                    raise SchemaError(message, remedy="give arrays_shape")
                if dimension.size % count:
                    raise SchemaError(
                        f"vgrid {tiles} does not divide the shape {self.shape}: {count} tiles along {dimension.name!r}",
                        remedy="give numbers of tiles that divide the shape, or arrays_shape",
                    )
            shape = tuple(size // count for size, count in zip(self.shape, tiles, strict=True))
        else:
            shape = _counts("arrays_shape", arrays_shape, self)
            for dimension, length in zip(self.dimensions, shape, strict=True):
                if dimension.size is not None and length > dimension.size:
                    raise SchemaError(
                        f"arrays_shape {shape}: a tile is longer than the dimension {dimension.name!r}",
                        remedy=f"the shape is {self.shape}",
                    )
            tiles = tuple(-(-size // length) for size, length in zip(self.shape, shape, strict=True))
        object.__setattr__(self, "vgrid", tiles)
        object.__setattr__(self, "arrays_shape", shape)

    def _key(self) -> tuple[object, ...]:
        return (*ArraySchema._key(self), self.vgrid, self.arrays_shape)

    def with_attributes(self, attributes: Sequence[AttributeSchema], names: Mapping[str, str]) -> VArraySchema:
        """Return the schema with other attributes, as that of arrays in one piece does."""
        dimensions = self._starting_at(names)
        return VArraySchema(dimensions, self.dtype, attributes, self.fill_value, arrays_shape=self.arrays_shape)

    @property
    def is_regular(self) -> bool:
        """Return True if all tiles are of one shape and their number is fixed."""
        return not self.unlimited and not any(
            size % length for size, length in zip(self.shape, self.arrays_shape, strict=True)
        )

    @property
    def tile_nbytes(self) -> int:
        """Bytes that the cells of one tile take in memory."""
        return prod(self.arrays_shape) * self.dtype.itemsize

    def _to_dict(self) -> dict[str, object]:
        """Return the stored form, with ``arrays_shape`` where ``vgrid`` does not tell it."""
        doc = {**ArraySchema._to_dict(self), "vgrid": list(self.vgrid)}
        return doc if self.is_regular else {**doc, "arrays_shape": list(self.arrays_shape)}


AnyArraySchema = ArraySchema | VArraySchema


def allows_shape(schema: ArraySchema, shape: tuple[int, ...]) -> bool:
    """Return True if an array of the schema may have this shape: only unlimited dimensions are of any size."""
    sizes = [dimension.size for dimension in schema.dimensions]
    if len(shape) != len(sizes):
        return False
    return all(size is None or size == length for size, length in zip(sizes, shape, strict=True))


def _check_dimensions(dimensions: object) -> tuple[AnyDimensionSchema, ...]:
    if not isinstance(dimensions, list | tuple) or not dimensions:
        raise SchemaError(
            f"dimensions is {dimensions!r}", remedy="give a list or tuple of dimension schemas, also for one"
        )
    for dimension in dimensions:
        if not isinstance(dimension, DimensionSchema | TimeDimensionSchema):
            raise SchemaError(
                f"{dimension!r} is no dimension schema", remedy="give DimensionSchema or TimeDimensionSchema objects"
            )
    if len(dimensions) > MOST_DIMENSIONS:
        raise SchemaError(f"{len(dimensions)} dimensions", remedy=f"at most {MOST_DIMENSIONS} are possible")
    _check_unique([dimension.name for dimension in dimensions], "dimensions")
    return tuple(dimensions)


def _check_attributes(attributes: object) -> tuple[AttributeSchema, ...]:
    if attributes is None:
        return ()
    if not isinstance(attributes, list | tuple):
        raise SchemaError(
            f"attributes is {attributes!r}", remedy="give a list or tuple of AttributeSchema, also for one"
        )
    for attribute in attributes:
        if not isinstance(attribute, AttributeSchema):
            raise SchemaError(f"{attribute!r} is no attribute schema", remedy="give AttributeSchema objects")
    _check_unique([attribute.name for attribute in attributes], "attributes")
    return tuple(attributes)


def _check_unique(names: list[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"several {what} have the name {', '.join(map(repr, twice))}", remedy="names are unique")


def _counts(word: str, numbers: Any, schema: ArraySchema) -> tuple[int, ...]:
    """Return one positive whole number per dimension."""
    whole = isinstance(numbers, list | tuple) and all(is_whole_number(count) and count > 0 for count in numbers)
    if not whole:
        raise SchemaError(f"{word} is {numbers!r}", remedy="give a tuple of whole numbers from 1 on")
    if len(numbers) != len(schema.dimensions):
        raise SchemaError(f"{word} has {len(numbers)} numbers for {len(schema.dimensions)} dimensions")
    return tuple(int(count) for count in numbers)


# -- records: the attributes of one array -----------------------------------------------------------------------------


is_id = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII).fullmatch
"""A match when a text is an id: a UUID of any version, in either case of letters. It is one segment of a key."""


# Bytes of a name in the usual file systems (NAME_MAX); the name of a collection gets a suffix such as .lock.
_LONGEST_COMPONENT = 255


_LONGEST_NAME = 250


AttributeValues = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """An array's id and the values of its attributes, plain Python values of the schema's types.

    ``primary`` is in the schema's order; datetimes are aware and in UTC; a custom value that is unset is None.
    """

    id: str
    primary: AttributeValues = field(hash=False)
    custom: AttributeValues = field(hash=False)

    @property
    def values(self) -> dict[str, Any]:
        """All attributes."""
        return {**self.primary, **self.custom}


def new_id() -> str:
    """Return a random id."""
    return str(uuid.uuid4())


def check_id(id: object) -> str:
    """Return an id as it stands: a UUID of 36 characters, of any version and in either case of letters; SchemaError."""
    if not isinstance(id, str) or not is_id(id):
        raise SchemaError(f"{id!r} is no id", remedy="an id is a UUID of 36 characters in five groups")
    return str(id)


def check_new(
    schema: ArraySchema, primary: AttributeValues | None, custom: AttributeValues | None, *, strict: bool = True
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the values of a new array, complete and in the schema's order; SchemaError names the attribute.

    Every primary value is needed. Custom ones are their default or None unless given, but for datetimes, which are
    needed when ``strict``, and for those that a time axis starts at.
    """
    primary, custom = _mapping(primary, "primary"), _mapping(custom, "custom")
    both = [name for name in primary if name in custom]
    if both:
        raise SchemaError(f"{_names(both)} given as primary and as custom", remedy="give each attribute once")
    _check_known(schema.primary_attributes, primary, "primary")
    _check_known(schema.custom_attributes, custom, "custom")
    missing = [known.name for known in schema.primary_attributes if primary.get(known.name) is None]
    if missing:
        raise SchemaError(f"no value of the primary {_names(missing)}", remedy="give every primary attribute")
    key = {known.name: convert_value(known, primary[known.name]) for known in schema.primary_attributes}
    rest = {
        known.name: _custom(schema, known, custom.get(known.name, known.unset_value), strict)
        for known in schema.custom_attributes
    }
    _check_times(schema, {**key, **rest})
    return key, rest


def update_record(schema: ArraySchema, record: Record, update: AttributeValues, *, strict: bool = True) -> Record:
    """Return the record with other custom values, those first; SchemaError when nothing or something else is asked
    for."""
    update = _mapping(update, "custom")
    if not update:
        raise SchemaError("no attribute to update", remedy="give at least one custom attribute")
    primary = [name for name in update if name in record.primary]
    if primary:
        raise SchemaError(f"the primary {_names(primary)} never changes", remedy="create another array instead")
    customs = {known.name: known for known in schema.custom_attributes}
    _check_known(schema.custom_attributes, update, "custom")
    values = {name: _custom(schema, customs[name], value, strict) for name, value in update.items()}
    made = values | {name: value for name, value in record.custom.items() if name not in values}
    _check_times(schema, {**record.primary, **made})
    return Record(record.id, record.primary, made)


def check_key(schema: ArraySchema, values: AttributeValues) -> dict[str, object]:
    """Return values of attributes to look arrays up by, primary or custom, in the types of the schema; SchemaError."""
    values = _mapping(values, "searched")
    _check_known(schema.attributes, values, "searched")
    return {known.name: check_sought(known, values[known.name]) for known in schema.attributes if known.name in values}


def check_sought(attribute: AttributeSchema, value: object) -> object:
    """Return one value to look arrays up by; a complex number inside a tuple may be given as text."""
    if attribute.dtype is tuple and isinstance(value, tuple):
        value = with_complex(value)
    return convert_value(attribute, value)


def key_of(schema: ArraySchema, values: Record | AttributeValues) -> tuple[object, ...]:
    """Return the primary values in the schema's order, alike for a record just made and the same one read back."""
    primary = values.primary if isinstance(values, Record) else values
    return tuple(canonical_value(primary[known.name]) for known in schema.primary_attributes)


def canonical_value(value: object) -> object:
    """Return a value as it compares: inside tuples complex numbers and datetimes are text, as they are stored; no
    -0.0."""
    match value:
        case tuple():
            return tuple(_canonical_member(part) for part in value)
        case float():
            return NAN if isnan(value) else value + 0.0
        case complex():
            return value + 0j
    return value


NAN = float("nan")


def _canonical_member(value: object) -> object:
    match value:
        case complex():
            return str(value)
        case datetime():
            return iso_text(value)
    return canonical_value(value)


def check_component(text: str) -> str:
    """Return the text of a primary value as a component of a path; SchemaError for one that would lead elsewhere."""
    bad = text in ("", ".", "..") or "/" in text or "\0" in text
    if bad or _length(text) > _LONGEST_COMPONENT:
        raise SchemaError(
            f"{_brief(text)} cannot be a folder of a key",
            remedy="a primary value is not empty, '.' or '..', has no slash or NUL and at most 255 bytes",
        )
    return text


def check_collection_name(name: object) -> str:
    """Return the name of a collection; SchemaError for one that is blank, too long or would lead elsewhere."""
    if not isinstance(name, str) or not name.strip():
        raise SchemaError(f"{name!r} is no name of a collection", remedy="give text that is not blank")
    bad = name in (".", "..") or any(part in name for part in "/\\\0") or name.endswith(".lock")
    if bad or _length(name) > _LONGEST_NAME:
        raise SchemaError(
            f"{_brief(name)} is no name of a collection",
            remedy="a name is not '.' or '..', has no slash, backslash or NUL, does not end in .lock "
            f"and has at most {_LONGEST_NAME} bytes",
        )
    return str(name)


def _length(text: str) -> int:
    """Return bytes of a text; more than any limit for one that UTF-8 cannot hold."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 2**16


def _brief(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:57]!r}..."


def _mapping(values: object, what: str) -> dict[str, object]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise SchemaError(f"{what} attributes are {values!r}", remedy="give a mapping of names to values")
    return dict(values)


def _check_known(attributes: tuple[AttributeSchema, ...], values: AttributeValues, what: str) -> None:
    names = [known.name for known in attributes]
    for name in values:
        if name not in names:
            raise SchemaError(f"no attribute {name!r} among the {what} ones", remedy=meant(str(name), names))


def _custom(schema: ArraySchema, attribute: AttributeSchema, value: object, strict: bool) -> object:
    if value is not None:
        return convert_value(attribute, value)
    if attribute.name in schema.start_attributes or (strict and attribute.dtype is datetime):
        raise SchemaError(f"no value of the datetime attribute {attribute.name!r}", remedy="give a datetime")
    return None


def _check_times(schema: ArraySchema, values: AttributeValues) -> None:
    for dimension in schema.time_dimensions:
        if dimension.attribute is not None and (start := dimension.start_of(values)) is not None:
            check_span(dimension.name, start, dimension.step, dimension.size)


def _names(names: list[str]) -> str:
    return f"attribute{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
