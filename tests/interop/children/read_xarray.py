"""xarray's own engine for Zarr opens every dataset of a manifest: as stored, and decoded."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import xarray
from canonical import answer

STORED = {"mask_and_scale": False, "decode_times": False, "decode_timedelta": False, "concat_characters": False}


def read(task: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The stored cells, names of dimensions and attributes; decoded it opens too."""
    place, name = str(PurePath(task["path"]).parent), PurePath(task["path"]).name
    with xarray.open_dataset(place, engine="zarr", consolidated=False, **STORED) as stored:
        variable = stored[name].load()
        attrs = {key: value for key, value in variable.attrs.items() if not key.startswith("_")}
        values, found = variable.values, {"dims": list(variable.dims), "attrs": attrs}
    with xarray.open_dataset(place, engine="zarr", consolidated=False, decode_timedelta=False) as decoded:
        decoded[name].load()
    return values, found


if __name__ == "__main__":
    answer(read)
