"""xarray, dask, sparse and pint objects in MongoDB, as xarray_mongodb stores them."""

from hyperslab.bridges.mongo.asynchronous import XarrayMongoDBAsyncIO
from hyperslab.bridges.mongo.database import XarrayMongoDB
from hyperslab.formats.mongo.errors import DocumentNotFoundError

__all__ = ["DocumentNotFoundError", "XarrayMongoDB", "XarrayMongoDBAsyncIO"]
