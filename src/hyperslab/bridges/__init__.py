"""hyperslab for users of other libraries: each room imports one of them, and is imported on use."""

from typing import Any


def zarr_store(url: Any, *, read_only: bool = False, durable: bool = True, storage_options: Any = None) -> Any:
    """Return a ``zarr.abc.store.Store`` over any place that hyperslab opens: ``zarr.open(hs.zarr_store(url))``.

    What zarr or ``ds.to_zarr`` write through it is atomic and, if ``durable``, survives a power cut. ``url``: a path, a
    URL or a store of hyperslab's; ``storage_options`` as in ``open``.
    """
    from hyperslab.bridges.extras import library

    library("zarr")
    from hyperslab.bridges.zarr import ZarrStore

    return ZarrStore(url, read_only=read_only, durable=durable, storage_options=storage_options)


__all__ = ["zarr_store"]
