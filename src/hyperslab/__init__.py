"""hyperslab: one system for large labelled N-dimensional arrays.

``open`` any dataset, slice it by label, compute, append, ``convert`` any format to any other. Names are loaded when
they are first used, so that importing hyperslab costs next to nothing::

    import hyperslab as hs

    root = hs.open("air.zarr")                       # any format; only metadata is read
    print(root.tree())
    cells = root["t2m"].sel(time="2026-11", lat=57.5)  # a NumPy array
    root["t2m"][0, :10]                              # by position, as in NumPy
    hs.convert("air.zarr", "air.nc")

On the command line ``hyperslab --help`` lists what can be done, and ``hyperslab doctor`` what is installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperslab import errors, stores
    from hyperslab.api import commit, create, history, join, list_formats, open, open_array, open_group
    from hyperslab.array import Array
    from hyperslab.bridges import zarr_store
    from hyperslab.chunks.progress import Progress
    from hyperslab.conversion.blaze_shards import gather, shard
    from hyperslab.conversion.edit import edit
    from hyperslab.conversion.frame_append import append_frame
    from hyperslab.conversion.frames import read_frame, write_frame
    from hyperslab.conversion.losses import Loss
    from hyperslab.conversion.memory_objects import save
    from hyperslab.conversion.pipeline import convert
    from hyperslab.conversion.report import ConversionReport
    from hyperslab.conversion.transfer import TransferReport, copy, sync
    from hyperslab.conversion.virtual_dataset import virtual
    from hyperslab.errors import HyperslabError, Problem
    from hyperslab.formats.nczarr.adopt import adopt
    from hyperslab.group import Group
    from hyperslab.integrity.comparison import diff
    from hyperslab.integrity.mender import repair
    from hyperslab.integrity.report import Report
    from hyperslab.integrity.survey import check
    from hyperslab.model.dims import Dimension
    from hyperslab.stores.counting import trace
    from hyperslab.web.server import serve

__version__ = "0.2.0"

__all__ = [
    "Array",
    "ConversionReport",
    "Dimension",
    "Group",
    "HyperslabError",
    "Loss",
    "Problem",
    "Progress",
    "Report",
    "TransferReport",
    "adopt",
    "append_frame",
    "check",
    "commit",
    "convert",
    "copy",
    "create",
    "diff",
    "edit",
    "errors",
    "gather",
    "history",
    "join",
    "list_formats",
    "open",
    "open_array",
    "open_group",
    "read_frame",
    "repair",
    "save",
    "serve",
    "shard",
    "stores",
    "sync",
    "trace",
    "virtual",
    "write_frame",
    "zarr_store",
]

_HOMES = {
    "Array": "array",
    "ConversionReport": "conversion.report",
    "Dimension": "model.dims",
    "Group": "group",
    "HyperslabError": "errors",
    "Loss": "conversion.losses",
    "Problem": "errors",
    "Progress": "chunks.progress",
    "Report": "integrity.report",
    "TransferReport": "conversion.transfer",
    "adopt": "formats.nczarr.adopt",
    "append_frame": "conversion.frame_append",
    "check": "integrity.survey",
    "commit": "api",
    "convert": "conversion.pipeline",
    "copy": "conversion.transfer",
    "create": "api",
    "diff": "integrity.comparison",
    "edit": "conversion.edit",
    "gather": "conversion.blaze_shards",
    "history": "api",
    "join": "api",
    "read_frame": "conversion.frames",
    "repair": "integrity.mender",
    "list_formats": "api",
    "open": "api",
    "open_array": "api",
    "open_group": "api",
    "save": "conversion.memory_objects",
    "serve": "web.server",
    "shard": "conversion.blaze_shards",
    "sync": "conversion.transfer",
    "trace": "stores.counting",
    "virtual": "conversion.virtual_dataset",
    "write_frame": "conversion.frames",
    "zarr_store": "bridges",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"hyperslab.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in ("errors", "stores"):
        return import_module(f"hyperslab.{name}")
    raise AttributeError(f"module 'hyperslab' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names for users alone: those of imports and of the floors inside would hide them in a completion."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
