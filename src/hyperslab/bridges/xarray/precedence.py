"""URLs of databases are ours: xarray asks its netCDF engine before any other, and that one claims every URL.

The engines of xarray have an order and no way to change it, and a library of netCDF opens no database. So it is not
asked about those, from when xarray looks for engines, which loads this module.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from xarray.backends import NetCDF4BackendEntrypoint

from hyperslab.formats import SCHEMES

_ASKED = "guess_can_open"


def is_database(target: Any) -> bool:
    """Return whether it is the URL of a database."""
    return isinstance(target, str) and target.partition("://")[0].lower() in SCHEMES and "://" in target


def _but_databases(asked: Any) -> Any:
    @wraps(asked)
    def guess_can_open(self: Any, filename_or_obj: Any) -> Any:
        return not is_database(filename_or_obj) and asked(self, filename_or_obj)

    return guess_can_open


setattr(NetCDF4BackendEntrypoint, _ASKED, _but_databases(getattr(NetCDF4BackendEntrypoint, _ASKED)))
