"""xarray's own engine for Zarr opens every dataset of a manifest: as stored, and decoded."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import xarray
from canonical import answer, canonical

STORED = {"mask_and_scale": False, "decode_times": False, "decode_timedelta": False, "concat_characters": False}


def read(task: dict[str, Any]) -> dict[str, Any]:
    """The stored cells, names of dimensions and attributes; how many cells are missing once decoded."""
    place, name = str(PurePath(task["path"]).parent), PurePath(task["path"]).name
    with xarray.open_dataset(place, engine="zarr", consolidated=False, **STORED) as stored:
        variable = stored[name].load()
        attrs = {key: value for key, value in variable.attrs.items() if not key.startswith("_")}
        found = {**canonical(variable.values), "dims": list(variable.dims), "attrs": attrs}
    with xarray.open_dataset(place, engine="zarr", consolidated=False, decode_timedelta=False) as decoded:
        return {**found, "missing": int(decoded[name].isnull().sum())}


if __name__ == "__main__":
    answer(read)
