"""xarray objects in MongoDB, as xarray_mongodb stores them: :mod:`hyperslab.mongo` is its public face.

An object is planned (``put_plan``: everything is refused before anything is written), stored, replaced or resumed
(``put_tasks``), read whole (``eager_reads``) or as dask arrays (``lazy_reads``), and changed where it lies
(``updates``: append and update). Tasks of dask carry an :class:`~hyperslab.bridges.mongo.origin.ObjectOrigin`, never a
client or a password. ``database`` is XarrayMongoDB, ``asynchronous`` the same for asyncio.
"""

from hyperslab.bridges.extras import pymongo, xarray

assert pymongo and xarray  # asked for first, so that what is missing is named
