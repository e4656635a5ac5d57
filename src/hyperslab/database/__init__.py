"""A database of arrays: collections of one schema each; arrays are found by their attributes and cut by labels."""

from hyperslab.database.arrays import Array, Subset, VArray, VSubset
from hyperslab.database.client import Client
from hyperslab.database.collection import Collection
from hyperslab.database.dimensions import Dimension, TimeDimension
from hyperslab.database.queries import FilteredManager
from hyperslab.formats.conditions import AnyOf, Like, Not, Prefix
from hyperslab.model.schemas import (
    ArraySchema,
    AttributeSchema,
    DimensionSchema,
    HDF5CompressionOpts,
    HDF5Options,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
    get_utc,
)

__all__ = [
    "AnyOf",
    "Array",
    "ArraySchema",
    "AttributeSchema",
    "Client",
    "Collection",
    "Dimension",
    "DimensionSchema",
    "FilteredManager",
    "HDF5CompressionOpts",
    "HDF5Options",
    "Like",
    "Not",
    "Prefix",
    "Scale",
    "Subset",
    "TimeDimension",
    "TimeDimensionSchema",
    "VArray",
    "VArraySchema",
    "VSubset",
    "get_utc",
]
