"""The accessor ``hyperslab`` of xarray's objects: ``ds.hyperslab.save``, ``da.hyperslab.save``, ``dt.hyperslab.save``.

xarray has entry points for engines, but none for accessors: they are there once this module is imported.
"""

from __future__ import annotations

from typing import Any

import xarray as xr

from hyperslab import api
from hyperslab.bridges.xarray.saving import save_xarray


class Accessor:
    """Add the methods of hyperslab to a Dataset, DataArray or DataTree, which it gets as ``obj``."""

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def save(self, url: api.Target, **options: Any) -> Any:
        """Save the object, as ``hyperslab.save(url, obj, ...)`` does."""
        return save_xarray(url, self._obj, **options)


for _kind in ("dataset", "dataarray", "datatree"):
    getattr(xr, f"register_{_kind}_accessor")("hyperslab")(Accessor)
