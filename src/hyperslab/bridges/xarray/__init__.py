"""hyperslab for users of xarray: the engine, saving and the accessors. Imports xarray."""

from hyperslab.bridges.xarray.reading import open_array, open_group, open_tree
from hyperslab.bridges.xarray.saving import save_xarray

__all__ = ["open_array", "open_group", "open_tree", "save_xarray"]
