"""``import hyperslab.xarray`` gives every Dataset, DataArray and DataTree of xarray the accessor ``hyperslab``.

The first use of the engine ``hyperslab``, of ``to_xarray`` or of ``save`` with an object of xarray does the same.
"""

from hyperslab.bridges.xarray.accessors import Accessor

__all__ = ["Accessor"]
