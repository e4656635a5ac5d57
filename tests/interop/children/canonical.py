"""Cells in one spelling, the same in every environment: needs NumPy alone."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def canonical(values: Any) -> dict[str, Any]:
    """Shape, type without byte order, and every bit of the cells; text and objects cell by cell."""
    array = np.asarray(values)
    if array.dtype.kind in "OT":
        return {"shape": list(array.shape), "dtype": "object", "cells": [_cell(cell) for cell in array.ravel()]}
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return {"shape": list(array.shape), "dtype": str(array.dtype), "cells": np.ascontiguousarray(array).tobytes().hex()}


def _cell(cell: Any) -> str:
    if isinstance(cell, bytes):
        return f"bytes {cell.hex()}"
    return f"array {canonical(cell)['cells']}" if isinstance(cell, np.ndarray) else f"text {cell}"


def _as_is(task: dict[str, Any], values: Any) -> Any:
    return values


def answer(read: Callable[[dict[str, Any]], tuple[Any, dict[str, Any]]], tidy: Callable[..., Any] = _as_is) -> None:
    """``read`` every array of the manifest; write cells and more, warnings, or the peer's error as JSON.

    Only what ``read`` raises is the peer's error; ``tidy`` and all else that fails here ends the child.
    """
    manifest, report = map(Path, sys.argv[1:3])
    found = {}
    for task in json.loads(manifest.read_text()):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                values, result = read(task)
            except Exception as error:  # the peer's own words are what is asked for
                values, result = None, {"error": f"{type(error).__name__}: {error}"}
        if "error" not in result:
            result |= canonical(tidy(task, values))
        said = sorted({f"{warning.category.__name__}: {warning.message}" for warning in caught})
        found[task["name"]] = {**result, "warnings": said}
    report.write_text(json.dumps(found))
