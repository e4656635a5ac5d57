"""xarray, dask, sparse and pint objects in MongoDB, as xarray_mongodb stores them."""

from hyperslab.bridges.mongo.database import XarrayMongoDB, XarrayMongoDBAsyncIO
from hyperslab.formats.conditions import AnyOf, Like, Not, Prefix
from hyperslab.formats.mongo.errors import DocumentNotFoundError

__all__ = ["AnyOf", "DocumentNotFoundError", "Like", "Not", "Prefix", "XarrayMongoDB", "XarrayMongoDBAsyncIO"]
