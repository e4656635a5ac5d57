"""tensorstore reads every array of a manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
from canonical import answer, canonical

DRIVERS = {"zarr2": "zarr", "zarr3": "zarr3"}


def read(task: dict[str, Any]) -> dict[str, Any]:
    """The cells of one array: structured ones field by field, a last axis of bytes put together again."""
    spec = {"driver": DRIVERS[task["format"]], "kvstore": {"driver": "file", "path": task["path"]}}
    document = Path(task["path"], ".zarray" if task["format"] == "zarr2" else "zarr.json")
    said = json.loads(document.read_text())
    names = _fields(said)
    if names:
        parts = {name: _cells({**spec, "field": name}) for name in names}
        cells = np.empty(said["shape"], [(name, part.dtype) for name, part in parts.items()])
        for name, part in parts.items():
            cells[name] = part
        return canonical(cells)
    cells = _cells(spec)
    if cells.ndim == len(said["shape"]) + 1 and cells.dtype.kind in "SV":
        cells = np.ascontiguousarray(cells).view(f"{cells.dtype.kind}{cells.shape[-1]}").reshape(said["shape"])
    return canonical(cells)


def _cells(spec: dict[str, Any]) -> Any:
    cells = tensorstore.open(spec, open=True, read=True).result().read().result()
    return np.asarray(_Characters(cells)) if cells.dtype == "S0" else cells


class _Characters:
    """tensorstore's ``char`` is NumPy's ``S1``, of which NumPy 2 makes ``S0``."""

    def __init__(self, cells: Any) -> None:
        self.cells = cells
        self.__array_interface__ = {**cells.__array_interface__, "typestr": "|S1", "descr": [("", "|S1")]}


def _fields(said: dict[str, Any]) -> list[str]:
    match said:
        case {"dtype": [*fields]}:
            return [field[0] for field in fields]
        case {"data_type": {"configuration": {"fields": [*fields]}}}:
            return [field["name"] for field in fields]
        case _:
            return []


if __name__ == "__main__":
    answer(read)
