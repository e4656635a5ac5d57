"""hyperslab for users of xarray: the engine, saving and the accessors. Imports xarray.

- ``engine``: the entry point that ``xarray.open_dataset`` finds; ``accessors``: ``ds.hyperslab.save``
- ``reading``: a group or array as a lazy Dataset; ``scales``: labels at regular distances; ``stacking``: many arrays
  of one kind as one
- ``saving``: ``save`` and its modes; ``writing``: new variables and regions, ``append``: rows; ``cells``: their cells
- ``encoding``: variables as they are stored; ``dtypes``: types of both sides
- ``storable``, ``fitting``: what is refused before anything is written: of any format, of what is there
"""

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
