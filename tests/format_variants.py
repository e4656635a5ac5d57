"""Every format in every variant: where a dataset of it is made, with which options, and what it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import xarray as xr


@dataclass(frozen=True)
class Variant:
    """``suffix`` of its names, ``options`` of ``save``; whether it holds ``one`` array, has ``unlimited`` dimensions,
    is one ``file``, keeps chunks under the keys of a store (``keyed``), and is ``claimed``: xarray needs no engine=."""

    suffix: str
    options: dict[str, Any] = field(default_factory=dict)
    one: bool = False
    unlimited: bool = True
    file: bool = False
    keyed: bool = False
    claimed: bool = False


VARIANTS = {
    "zarr2": Variant(".zarr", {"format": "zarr2"}, keyed=True),
    "zarr3": Variant(".zarr", keyed=True),
    "nczarr draft": Variant(".nczarr", {"dialect": "draft"}, keyed=True, claimed=True),
    "nczarr current": Variant(".nczarr", keyed=True, claimed=True),
    "hdmf v2": Variant(".hdmf.zarr", {"profile": "v2"}, keyed=True),
    "hdmf v3": Variant(".hdmf.zarr", {"profile": "v3"}, keyed=True),
    "bloscpack": Variant(".blp", one=True, file=True, claimed=True),
    "blaze": Variant(".blaze", one=True, claimed=True),
    "bcolz": Variant(".blaze", {"layout": "bcolz"}, one=True, claimed=True),
    "b2nd": Variant(".b2nd", one=True, file=True, claimed=True),
    "mongo": Variant("", claimed=True),
    "collections": Variant("", {"format": "collections"}, claimed=True),
    "deker": Variant("", {"format": "deker"}, unlimited=False, claimed=True),
    "netcdf": Variant(".nc", file=True),
}


@dataclass(frozen=True)
class Places:
    """Names for datasets: in a folder, and in a database."""

    folder: Path
    database: str

    def new(self, name: str) -> str:
        """Where a dataset of the variant is made."""
        if name == "mongo":
            return f"{self.database}#{uuid4().hex[:8]}"
        return str(self.folder / f"{uuid4().hex[:8]}{VARIANTS[name].suffix}")


def dataset(name: str, rows: int = 4, start: int = 0) -> xr.Dataset:
    """Air over time, latitude and longitude, with words that a page must escape, as the variant takes it."""
    times = np.datetime64("2013-01-01", "ns") + np.arange(start, start + rows) * np.timedelta64(1, "D")
    air = np.arange(start * 6.0, (start + rows) * 6.0, dtype="f4").reshape(rows, 2, 3)
    attrs = {"units": "K", "long_name": "<script>alert(1)</script> & 'air'"}
    coords = {"time": times, "lat": [50.0, 40.0], "lon": [0.0, 2.5, 5.0]}
    made = xr.Dataset({"air": (("time", "lat", "lon"), air, attrs)}, coords)
    if VARIANTS[name].unlimited:
        made.encoding["unlimited_dims"] = {"time"}
    if VARIANTS[name].one:
        return made
    made["n"] = ("time", np.arange(start, start + rows, dtype="i4"))
    return made.assign_attrs(title='"><img src=x onerror=alert(1)>')


def save(name: str, url: str, given: xr.Dataset, **more: Any) -> None:
    """The dataset in chunks of two days."""
    given.hyperslab.save(url, chunks={"time": 2}, durable=False, **VARIANTS[name].options, **more)
