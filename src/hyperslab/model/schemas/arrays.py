"""Array schemas: dimensions, the type of the cells, attributes, fill value; and how a VArray is cut into tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import prod
from typing import Any

import numpy as np

from hyperslab.errors import SchemaError
from hyperslab.model import dims
from hyperslab.model.schemas.attributes import AttributeSchema
from hyperslab.model.schemas.dimensions import AnyDimensionSchema, DimensionSchema, TimeDimensionSchema
from hyperslab.model.schemas.dtype_names import checked_dtype, checked_fill, dtype_name, fill_text

MOST_DIMENSIONS = 64


@dataclass(frozen=True, slots=True, init=False, eq=False)
class ArraySchema:
    """What all arrays of a collection have in common.

    ``dtype`` is ``int``, ``float``, ``complex``, a NumPy type of numbers or its dtype. ``fill_value`` is what cells
    without data read as: the lowest whole number or NaN unless one is given. SchemaError says what does not hold.
    """

    dimensions: tuple[AnyDimensionSchema, ...]
    dtype: np.dtype[Any]
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
        dtype: Any,
        attributes: Sequence[AttributeSchema] | None = None,
        fill_value: Any = None,
    ) -> None:
        cells = checked_dtype(dtype)
        object.__setattr__(self, "dimensions", _checked_dimensions(dimensions))
        object.__setattr__(self, "dtype", cells)
        object.__setattr__(self, "attributes", _checked_attributes(attributes))
        object.__setattr__(self, "fill_value", checked_fill(fill_value, cells))
        object.__setattr__(self, "primary_attributes", tuple(known for known in self.attributes if known.primary))
        object.__setattr__(self, "custom_attributes", tuple(known for known in self.attributes if not known.primary))
        times = tuple(dimension for dimension in self.dimensions if isinstance(dimension, TimeDimensionSchema))
        object.__setattr__(self, "time_dimensions", times)
        for dimension in times:
            self._check_start(dimension)

    def _check_start(self, dimension: TimeDimensionSchema) -> None:
        if dimension.attribute is None:
            return
        attribute = next((known for known in self.attributes if known.name == dimension.attribute), None)
        if attribute is None or attribute.dtype is not datetime:
            found = "there is none" if attribute is None else f"it is of the type {attribute.dtype.__name__}"
            raise SchemaError(
                f"dimension {dimension.name!r} starts at the attribute {dimension.attribute!r}, but {found}",
                remedy=f"add AttributeSchema({dimension.attribute!r}, datetime, ...) to the schema",
            )

    def _key(self) -> tuple[Any, ...]:
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
    def as_dict(self) -> dict[str, Any]:
        """The schema as a collection document has it."""
        return self._said()

    def _said(self) -> dict[str, Any]:
        return {
            "dimensions": [dimension.as_dict for dimension in self.dimensions],
            "dtype": dtype_name(self.dtype),
            "attributes": [attribute.as_dict for attribute in self.attributes],
            "fill_value": fill_text(self.fill_value),
        }

    def indexes(self, values: Mapping[str, Any], shape: Sequence[int] | None = None) -> dict[str, dims.Index]:
        """The labels of one array's dimensions by name, from the values of its attributes (for ``$`` starts).

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
        dtype: Any,
        attributes: Sequence[AttributeSchema] | None = None,
        fill_value: Any = None,
        vgrid: Sequence[int] | None = None,
        arrays_shape: Sequence[int] | None = None,
    ) -> None:
        ArraySchema.__init__(self, dimensions, dtype, attributes, fill_value)
        if (vgrid is None) == (arrays_shape is None):
            raise SchemaError("a VArraySchema takes vgrid or arrays_shape", remedy="give one of the two")
        if vgrid is not None:
            tiles = _counts("vgrid", vgrid, self)
            shape = self._divided(tiles)
        else:
            shape = _counts("arrays_shape", arrays_shape, self)
            tiles = self._covered(shape)
        object.__setattr__(self, "vgrid", tiles)
        object.__setattr__(self, "arrays_shape", shape)

    def _divided(self, tiles: tuple[int, ...]) -> tuple[int, ...]:
        for dimension, count in zip(self.dimensions, tiles, strict=True):
            if dimension.size is None:
                raise SchemaError(f"vgrid for the unlimited dimension {dimension.name!r}", remedy="give arrays_shape")
            if dimension.size % count:
                raise SchemaError(
                    f"vgrid {tiles} does not divide the shape {self.shape}: {count} tiles along {dimension.name!r}",
                    remedy="give numbers of tiles that divide the shape, or arrays_shape",
                )
        return tuple(size // count for size, count in zip(self.shape, tiles, strict=True))

    def _covered(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        for dimension, length in zip(self.dimensions, shape, strict=True):
            if dimension.size is not None and length > dimension.size:
                raise SchemaError(
                    f"arrays_shape {shape}: a tile is longer than the dimension {dimension.name!r}",
                    remedy=f"the shape is {self.shape}",
                )
        return tuple(-(-size // length) for size, length in zip(self.shape, shape, strict=True))

    def _key(self) -> tuple[Any, ...]:
        return (*ArraySchema._key(self), self.vgrid, self.arrays_shape)

    @property
    def is_regular(self) -> bool:
        """Return whether all tiles are of one shape and their number is fixed."""
        return not self.unlimited and not any(
            size % length for size, length in zip(self.shape, self.arrays_shape, strict=True)
        )

    @property
    def tile_nbytes(self) -> int:
        """Bytes that the cells of one tile take in memory."""
        return prod(self.arrays_shape) * self.dtype.itemsize

    def _said(self) -> dict[str, Any]:
        """The stored form, with ``arrays_shape`` where ``vgrid`` does not tell it."""
        said = {**ArraySchema._said(self), "vgrid": list(self.vgrid)}
        return said if self.is_regular else {**said, "arrays_shape": list(self.arrays_shape)}


AnyArraySchema = ArraySchema | VArraySchema


def _checked_dimensions(given: Any) -> tuple[AnyDimensionSchema, ...]:
    if not isinstance(given, list | tuple) or not given:
        raise SchemaError(f"dimensions is {given!r}", remedy="give a list or tuple of dimension schemas, also for one")
    for dimension in given:
        if not isinstance(dimension, DimensionSchema | TimeDimensionSchema):
            raise SchemaError(
                f"{dimension!r} is no dimension schema", remedy="give DimensionSchema or TimeDimensionSchema objects"
            )
    if len(given) > MOST_DIMENSIONS:
        raise SchemaError(f"{len(given)} dimensions", remedy=f"at most {MOST_DIMENSIONS} are possible")
    _check_unique([dimension.name for dimension in given], "dimensions")
    return tuple(given)


def _checked_attributes(given: Any) -> tuple[AttributeSchema, ...]:
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        raise SchemaError(f"attributes is {given!r}", remedy="give a list or tuple of AttributeSchema, also for one")
    for attribute in given:
        if not isinstance(attribute, AttributeSchema):
            raise SchemaError(f"{attribute!r} is no attribute schema", remedy="give AttributeSchema objects")
    _check_unique([attribute.name for attribute in given], "attributes")
    return tuple(given)


def _check_unique(names: list[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"several {what} have the name {', '.join(map(repr, twice))}", remedy="names are unique")


def _counts(word: str, given: Any, schema: ArraySchema) -> tuple[int, ...]:
    """One positive whole number per dimension."""
    whole = isinstance(given, list | tuple) and all(
        isinstance(count, int | np.integer) and not isinstance(count, bool) and count > 0 for count in given
    )
    if not whole:
        raise SchemaError(f"{word} is {given!r}", remedy="give a tuple of whole numbers from 1 on")
    if len(given) != len(schema.dimensions):
        raise SchemaError(f"{word} has {len(given)} numbers for {len(schema.dimensions)} dimensions")
    return tuple(int(count) for count in given)
