"""Numbers that are to be stored as another type: whether it holds them. Those of dask are looked at block by block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab.bridges.sparse import is_sparse
from hyperslab.errors import Invalid

Values = np.ndarray[Any, Any]

_MARKERS = ("_FillValue", "missing_value")
_SCALING = (("scale_factor", 1), ("add_offset", 0))


@dataclass(frozen=True)
class Packing:
    """How the numbers of a variable are stored. ``marks``: NaN has a value that stands for it."""

    name: str
    dtype: np.dtype[Any]
    scale: float
    offset: float
    marks: bool

    def check(self, cells: Any) -> Any:
        """Return the same cells. Invalid for numbers that the stored type would hold otherwise; floats may be
        rounded."""
        values = np.append(cells.data, cells.fill_value) if is_sparse(cells) else np.asarray(cells)
        if values.dtype.kind == "c" and self.dtype.kind != "c":
            raise self._refusal("complex numbers")
        if (self.scale, self.offset) != (1, 0):
            if values.dtype.kind in "biu":  # as xarray packs them: whole numbers would wrap around
                values = values.astype("f8")
            values = (values - self.offset) / self.scale
        {"i": self._check_whole, "u": self._check_whole, "b": self._check_truths}.get(
            self.dtype.kind, self._check_floats
        )(values)
        return cells

    def _check_whole(self, values: Values) -> None:
        if values.dtype.kind == "f":
            missing = np.isnan(values)
            if missing.any() and not self.marks:
                raise self._refusal("NaN", "say which number stands for it: encoding _FillValue")
            values = values[~missing]
        if not values.size:
            return
        low, high = values.min().item(), values.max().item()
        bounds = np.iinfo(self.dtype)
        if low < bounds.min - 0.5 or (high >= bounds.max + 0.5 if values.dtype.kind == "f" else high > bounds.max):
            first, last = (each * self.scale + self.offset for each in (low, high))
            raise self._refusal(f"{first} to {last}")

    def _check_floats(self, values: Values) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            lost = np.isinf(values.astype(self.dtype)) & np.isfinite(values)
        if lost.any():
            raise self._refusal(str(values[lost].flat[0]))

    def _check_truths(self, values: Values) -> None:
        lost = values != values.astype(bool)
        if lost.any():
            raise self._refusal(str(values[lost].flat[0]))

    def _refusal(self, what: str, instead: str = "store it with another dtype, scale_factor or add_offset") -> Invalid:
        return Invalid(f"{self.name!r} holds {what}, which cells of {self.dtype} cannot", remedy=instead)


def checked(name: str, variable: xr.Variable, encoding: Mapping[str, Any]) -> xr.Variable:
    """Return the same variable. Invalid where ``encoding`` stores its numbers as a type that does not hold them: at
    once where they are in memory, when a block is computed where they are of dask."""
    packing = _packing(name, variable, encoding)
    if packing is None:
        return variable
    if is_chunked_array(variable._data):
        data = variable.data.map_blocks(packing.check, dtype=variable.dtype, meta=getattr(variable.data, "_meta", None))
        return variable.copy(deep=False, data=data)
    packing.check(variable._data if is_sparse(variable._data) else variable.values)
    return variable


def _packing(name: str, variable: xr.Variable, encoding: Mapping[str, Any]) -> Packing | None:
    """Return how numbers are packed; None where every number is stored as it is."""
    wanted = encoding.get("dtype")
    if wanted is None or wanted is str or variable.dtype.kind not in "biufc":
        return None
    dtype = np.dtype(wanted)
    scale, offset = (np.asarray(encoding.get(word, plain)).item() for word, plain in _SCALING)
    if dtype.kind not in "biufc" or (dtype == variable.dtype and (scale, offset) == (1, 0)):
        return None
    if encoding.get("_Unsigned") in ("true", "false") and dtype.kind in "iu":  # cells are those of the other kind
        dtype = np.dtype(f"{'u' if encoding['_Unsigned'] == 'true' else 'i'}{dtype.itemsize}")
    marks = any(encoding.get(word, variable.attrs.get(word)) is not None for word in _MARKERS)
    return Packing(name, dtype, scale, offset, marks)
