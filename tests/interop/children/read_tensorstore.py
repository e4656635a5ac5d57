"""tensorstore reads every array of a manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
from canonical import answer

DRIVERS = {"zarr2": "zarr", "zarr3": "zarr3"}


def read(task: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The cells of one array as tensorstore gives them: structured ones field by field."""
    spec = {"driver": DRIVERS[task["format"]], "kvstore": {"driver": "file", "path": task["path"]}}
    fields = _fields(_document(task))
    return ({name: _cells({**spec, "field": name}) for name in fields} if fields else _cells(spec)), {}


def tidy(task: dict[str, Any], values: Any) -> Any:
    """Fields in one array, and a last axis of bytes put together again."""
    shape = _document(task)["shape"]
    if isinstance(values, dict):
        cells = np.empty(shape, [(name, part.dtype) for name, part in values.items()])
        for name, part in values.items():
            cells[name] = part
        return cells
    if values.dtype.itemsize == 0:
        values = np.asarray(_Bytes(values))
    if values.ndim == len(shape) + 1:
        return np.ascontiguousarray(values).view(f"{values.dtype.kind}{values.shape[-1]}").reshape(shape)
    return values


def _document(task: dict[str, Any]) -> Any:
    return json.loads(Path(task["path"], ".zarray" if task["format"] == "zarr2" else "zarr.json").read_text())


def _cells(spec: dict[str, Any]) -> Any:
    return tensorstore.open(spec, open=True, read=True).result().read().result()


class _Bytes:
    """tensorstore's ``char`` and ``byte`` are NumPy's ``S1`` and ``V1``, of which NumPy 2 makes ``S0`` and ``V0``."""

    def __init__(self, cells: Any) -> None:
        self.cells = cells
        one = f"|{cells.dtype.kind}1"
        self.__array_interface__ = {**cells.__array_interface__, "typestr": one, "descr": [("", one)]}


def _fields(said: dict[str, Any]) -> list[str]:
    match said:
        case {"dtype": [*fields]}:
            return [field[0] for field in fields]
        case {"data_type": {"configuration": {"fields": [*fields]}}}:
            return [field["name"] for field in fields]
        case _:
            return []


if __name__ == "__main__":
    answer(read, tidy)
