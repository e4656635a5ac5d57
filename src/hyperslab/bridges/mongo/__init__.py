"""xarray objects in MongoDB, as xarray_mongodb stores them: :mod:`hyperslab.mongo` is its public face.

An object is planned (``planning``: everything is refused before anything is written), written (``writing``), read
whole (``reading``, ``assembling``) or lazily (``lazy``), and changed where it lies (``appending``, ``updating``,
``resuming``, ``replacing``). Tasks of dask carry an
:class:`~hyperslab.bridges.mongo.origin.ObjectOrigin`, never a client or a password.
"""

from hyperslab.bridges.extras import pymongo, xarray

assert pymongo and xarray  # asked for first, so that what is missing is named
