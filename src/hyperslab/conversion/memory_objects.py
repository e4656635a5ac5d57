"""``save``: an object in memory, or lazy (xarray, NumPy, dask, sparse, pint), as a dataset."""

from __future__ import annotations

from typing import Any, Literal

from hyperslab import api
from hyperslab.chunks.progress import ProgressCallback, storing
from hyperslab.errors import Invalid

Mode = Literal["x", "w", "a", "r+"]


def save(
    url: api.Target,
    obj: Any,
    *,
    format: str | None = None,
    chunks: Any = None,
    shards: Any = None,
    codec: object = None,
    mode: Mode | None = None,
    densify: bool = False,
    progress: bool | ProgressCallback | None = None,
    **options: Any,
) -> object:
    """Store ``obj``: an xarray Dataset, DataArray or DataTree, an array of NumPy, dask or sparse, a Quantity of pint.

    ``mode``: ``x`` a new dataset, AlreadyExists when there is one; ``w`` one in place of the old, once it is complete;
    ``a`` add variables; ``r+`` change cells of those that are there. Without it: ``a`` with ``append_dim``, ``r+`` with
    ``region``, else ``x``. ``chunks`` and ``shards`` (by dimension) and ``codec`` for all arrays; ``shards`` also
    ``"auto"``, ``"many"``, or False (``"none"``), which leaves small chunks out of shards that many of them get in
    Zarr v3 (not with ``compute=False``). For xarray objects, as in xarray's ``to_zarr``: ``group``, ``encoding`` (by
    variable, of a DataTree by path and variable; also ``chunks``, ``shards``, ``codec``, ``checksum``),
    ``unlimited_dims``, ``append_dim``, ``region`` (slices by dimension, or ``"auto"``; no need to align with chunks),
    ``compute=False`` (gives a Delayed that writes the dask arrays); ``repeated`` says what becomes of rows of
    ``append_dim`` whose labels are there: ``"error"``, ``"overwrite"`` or ``"allow"``, which keeps both. Other options
    as in ``open``. A plain array becomes the array ``data``, with ``shards`` as in ``create_array``. Sparse arrays stay
    sparse, Unsupported where the format has none: ``densify=True`` stores all their cells.
    Units of Quantities become the attribute ``units``. ``progress``: True for a bar on a terminal, or a function of
    ``Progress``. Invalid for what cannot be stored.
    """
    if "overwrite" in options:
        raise Invalid("save takes no overwrite", remedy="mode='w' replaces what is there, once the new one is complete")
    library = type(obj).__module__.partition(".")[0]
    if library == "pandas":
        remedy = "write_frame() stores a DataFrame; to_frame() makes one of a Series, to_numpy() an array"
        raise Invalid(f"a {type(obj).__name__} of pandas is no array", remedy=remedy)
    if library == "xarray":
        from hyperslab.bridges.xarray.saving import save_xarray

        how: dict[str, Any] = {"format": format, "chunks": chunks, "codec": codec, "mode": mode, "densify": densify}
        return save_xarray(url, obj, **how, shards=shards, progress=progress, **options)
    # What the caller has, of whatever library, is known by what it can do; nothing of ours is asked so.
    if not hasattr(obj, "__array__") or not hasattr(obj, "shape"):
        remedy = "give the place, then an xarray object or an array: save(url, obj)"
        raise Invalid(f"{type(obj).__name__} cannot be saved", remedy=remedy)
    if hasattr(obj, "mask"):
        raise Invalid("a masked array has no place for its mask", remedy="fill it, or use xarray with _FillValue")
    if mode not in (None, "x", "w"):
        raise Invalid(f"mode {mode!r} for a plain array", remedy="open the dataset and assign to the array")
    choices = {"chunks": chunks, "shards": shards, "codec": codec}
    layout = {name: value for name, value in choices.items() if value is not None}
    with storing(progress, obj), api.build_dataset(url, format, overwrite=mode == "w", **options) as root:
        root.create_array("data", data=obj, densify=densify, **layout)
    return None
