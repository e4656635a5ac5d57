"""xarray, dask, sparse and pint objects in MongoDB, as xarray_mongodb stores them."""

from hyperslab.bridges.mongo.database import XarrayMongoDB, XarrayMongoDBAsyncIO
from hyperslab.formats.mongo.errors import DocumentNotFoundError
from hyperslab.model.conditions import AnyOf, Like, Not, Prefix

__all__ = ["AnyOf", "DocumentNotFoundError", "Like", "Not", "Prefix", "XarrayMongoDB", "XarrayMongoDBAsyncIO"]
