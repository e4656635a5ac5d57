"""Libraries that an extra brings: imported on use, and named with their extra where they are not installed.

``from hyperslab.bridges.extras import xarray`` at the top of a room that needs xarray gives the module, or an error
that says what to install in place of a bare ``ModuleNotFoundError`` from deeper within.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from hyperslab.errors import MissingLibrary

_EXTRAS = {
    "bson": "mongo",
    "dask": "dask",
    "flox": "dask",
    "hdmf": "hdmf",
    "httptools": "web",
    "pandas": "xarray",
    "pint": "pint",
    "pymongo": "mongo",
    "sparse": "sparse",
    "starlette": "web",
    "uvicorn": "web",
    "xarray": "xarray",
}


def library(name: str) -> Any:
    """Return the module ``name``; MissingLibrary where its package is not installed. One that is broken says so
    itself."""
    package = name.partition(".")[0]
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        wanted = f"'hyperslab[{_EXTRAS[package]}]'" if package in _EXTRAS else package
        raise MissingLibrary(f"this needs the library {package}", remedy=f"pip install {wanted}") from error


def imported(name: str) -> Any:
    """Return the module ``name`` where something has imported it, else None; it is not imported for this.

    A module stands in ``sys.modules`` before it has its names. One that another thread is importing is waited for.
    """
    if sys.modules.get(name) is None:
        return None
    try:
        return import_module(name)
    except ImportError:  # the other thread failed
        return None


def __getattr__(name: str) -> Any:
    if name in _EXTRAS:
        return library(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
