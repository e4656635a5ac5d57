"""``ds.hyperslab.save``, ``da.hyperslab.save``, ``dt.hyperslab.save``."""

from __future__ import annotations

from typing import Any

import xarray as xr

from hyperslab import api


@xr.register_dataset_accessor("hyperslab")  # type: ignore[no-untyped-call]
@xr.register_dataarray_accessor("hyperslab")  # type: ignore[no-untyped-call]
@xr.register_datatree_accessor("hyperslab")  # type: ignore[no-untyped-call]
class Accessor:
    """What hyperslab adds to a Dataset, DataArray or DataTree."""

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def save(self, url: api.Target, **options: Any) -> Any:
        """``hyperslab.save(url, obj, ...)``."""
        from hyperslab.bridges.xarray.saving import save_xarray  # it needs xarray, whose import brings this module

        return save_xarray(url, self._obj, **options)
