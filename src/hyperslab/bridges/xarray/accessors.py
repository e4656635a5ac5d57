"""``ds.hyperslab.save``, ``da.hyperslab.save``, ``dt.hyperslab.save``."""

from __future__ import annotations

from typing import Any

import xarray as xr

from hyperslab import api


class Accessor:
    """What hyperslab adds to a Dataset, DataArray or DataTree."""

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def save(self, url: api.Target, **options: Any) -> Any:
        """``hyperslab.save(url, obj, ...)``."""
        from hyperslab.bridges.xarray.saving import save_xarray  # it needs xarray, whose import brings this module

        return save_xarray(url, self._obj, **options)


for _kind in ("dataset", "dataarray", "datatree"):
    getattr(xr, f"register_{_kind}_accessor")("hyperslab")(Accessor)
