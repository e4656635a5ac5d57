"""Pickles of references as hdmf-zarr 0.6 to 0.13 wrote them: by the stock pickler, with a class of the same name."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from hyperslab.codecs.references import spelled
from hyperslab.model.refs import ObjectReference


class ZarrReference(dict):  # type: ignore[type-arg]
    """What the peer's class is: a dict with four keys."""


ZarrReference.__module__ = "hdmf_zarr.utils"
ZarrReference.__qualname__ = "ZarrReference"


@contextmanager
def peer() -> Iterator[None]:
    """hdmf_zarr.utils.ZarrReference can be imported, as where the peer is installed."""
    known = {name: sys.modules.get(name) for name in ("hdmf_zarr", "hdmf_zarr.utils")}
    package, utils = ModuleType("hdmf_zarr"), ModuleType("hdmf_zarr.utils")
    utils.ZarrReference = ZarrReference  # type: ignore[attr-defined]
    package.utils = utils  # type: ignore[attr-defined]
    sys.modules |= {"hdmf_zarr": package, "hdmf_zarr.utils": utils}
    try:
        yield
    finally:
        for name, module in known.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def theirs(value: Any) -> Any:
    """A cell as the peer holds it."""
    if isinstance(value, tuple):
        return tuple(map(theirs, value))
    return ZarrReference(spelled(value)) if isinstance(value, ObjectReference) else 0 if value is None else value


def stock(cells: np.ndarray[Any, Any], protocol: int = 5) -> bytes:
    """The cells pickled as the peer did."""
    names = cells.dtype.names
    untagged = [(name, "O" if cells.dtype[name].hasobject else cells.dtype[name]) for name in names or ()]
    out = np.empty(cells.shape, untagged or cells.dtype)
    flat = out.reshape(-1)
    for place, cell in enumerate(cells.reshape(-1).tolist()):
        flat[place] = theirs(cell)
    with peer():
        return pickle.dumps(out, protocol=protocol)


def loaded(data: bytes) -> np.ndarray[Any, Any]:
    """What the stock unpickler makes of it where the peer is installed."""
    with peer():
        found: np.ndarray[Any, Any] = pickle.loads(data)
        return found
