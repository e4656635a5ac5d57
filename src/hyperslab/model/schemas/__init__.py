"""Schemas of collections: what their arrays have in common, and the values that one array has besides its cells.

Frozen values, checked when they are made; ``SchemaError`` says what is wrong with them. A collection document
(:mod:`hyperslab.formats.collections.base`) is their stored form.
"""

from hyperslab.model.schemas.arrays import AnyArraySchema, ArraySchema, Record, VArraySchema
from hyperslab.model.schemas.attributes import AttributeSchema
from hyperslab.model.schemas.dimensions import AnyDimensionSchema, DimensionSchema, Scale, TimeDimensionSchema, get_utc
from hyperslab.model.schemas.options import HDF5CompressionOpts, HDF5Options

__all__ = [
    "AnyArraySchema",
    "AnyDimensionSchema",
    "ArraySchema",
    "AttributeSchema",
    "DimensionSchema",
    "HDF5CompressionOpts",
    "HDF5Options",
    "Record",
    "Scale",
    "TimeDimensionSchema",
    "VArraySchema",
    "get_utc",
]
