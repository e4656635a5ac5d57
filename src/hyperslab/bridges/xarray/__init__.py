"""hyperslab for users of xarray: the engine, saving and the accessors. Imports xarray."""

from hyperslab.bridges.extras import xarray
from hyperslab.bridges.xarray.accessors import Accessor
from hyperslab.bridges.xarray.reading import indexed, open_array, open_group, open_groups, open_lazy, open_lazy_tree
from hyperslab.bridges.xarray.saving import save_xarray

assert xarray  # asked for first, so that it is named where it is missing

__all__ = [
    "Accessor",
    "indexed",
    "open_array",
    "open_group",
    "open_groups",
    "open_lazy",
    "open_lazy_tree",
    "save_xarray",
]
