"""xarray objects in MongoDB, as xarray_mongodb stores them: :mod:`hyperslab.mongo` is the public face.

What is stored, and how it is changed beside others, is :mod:`hyperslab.formats.mongo`; here xarray's, dask's, sparse's
and pint's objects become documents and blocks, and those become objects again.

- ``database``: XarrayMongoDB and XarrayMongoDBAsyncIO, whose methods call all other files.
- ``origin``: where the collections are. Tasks of dask carry it, never a client or a password.
- ``put_plan``: an object as the documents it will be; whatever cannot be stored is refused here, before the first
  write. ``database``, ``put_tasks`` and ``updates`` begin with it.
- ``put_tasks``: put, replace and resume, at once or as tasks of dask.
- ``updates``: append and update; ``compaction``: small chunks joined.
- ``reads``: ``get``: what is read at once, and dask arrays of what is read later.
"""

from hyperslab.bridges.extras import pymongo, xarray

assert pymongo and xarray  # asked for first, so that what is missing is named
