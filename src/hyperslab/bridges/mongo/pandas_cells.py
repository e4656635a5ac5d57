"""Cells of pandas' types as cells of NumPy's that documents hold, and back.

Text of any length is stored as long as the longest, times with a zone as those of UTC, categories as their values. What
it takes to have zones and categories back stands in ``pandas`` of what the field ``hyperslab`` says of the variable;
others read the plain cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import xarray as xr

from hyperslab.bridges.dask import is_dask_array
from hyperslab.errors import Unsupported
from hyperslab.formats.mongo.document import Meta
from hyperslab.formats.mongo.to_spec import variable_extension

pd: Any = import_module("pandas")  # which comes with xarray, and without types
PANDAS_FIELD = "pandas"
_MISSING = "fill what is missing first: fillna()"


def as_numpy(name: str, variable: xr.Variable) -> tuple[xr.Variable, dict[str, Any] | None]:
    """Return the variable with cells of NumPy's, and what to say besides; None where nothing is to be said.

    Unsupported for text or categories of which some are missing, and for zones and categories that have no name.
    """
    dtype, declared = variable.dtype, None
    if isinstance(dtype, pd.DatetimeTZDtype):
        cells, declared = _without_zone(name, variable.data, dtype)
    elif isinstance(dtype, pd.CategoricalDtype):
        cells, declared = _category_values(name, variable.data, dtype)
    elif isinstance(dtype, np.dtype) and dtype.kind in "OT" and not is_dask_array(variable.data):
        cells = variable.values
    else:
        return variable, None
    if cells.dtype.kind in "OT":
        cells = _fixed_length(name, cells)
    return xr.Variable(variable.dims, cells, variable.attrs), declared


def _without_zone(name: str, times: Any, dtype: Any) -> tuple[Any, dict[str, Any]]:
    zone = str(dtype.tz)
    try:
        is_known = pd.DatetimeTZDtype(dtype.unit, zone) == dtype
    except (TypeError, ValueError, KeyError):
        is_known = False
    if not is_known:
        raise Unsupported(
            f"variable {name!r} has the time zone {zone!r}, which has no name", remedy="tz_convert('UTC')"
        )
    return times.tz_convert("UTC").tz_localize(None).to_numpy(), {"timezone": zone}


def _category_values(name: str, cells: Any, dtype: Any) -> tuple[Any, dict[str, Any]]:
    categories = dtype.categories.to_numpy()
    listed = categories.tolist()
    if not all(type(each) in (str, int, float, bool) for each in listed):
        remedy = "astype() it to the type of its categories"
        raise Unsupported(f"variable {name!r} has categories that are no text and no numbers", remedy=remedy)
    codes = np.asarray(cells.codes)
    if (codes < 0).any():
        raise Unsupported(f"variable {name!r} has missing categories", remedy=_MISSING)
    plain = categories if len(listed) else np.zeros(0, "U1")
    return plain[codes], {"categories": listed, "ordered": bool(dtype.ordered)}


def _fixed_length(name: str, cells: object) -> Any:
    """Return text as long as the longest; other objects stay, and are refused as such."""
    plain = np.asarray(cells, object)
    is_text = [isinstance(each, str) for each in plain.flat]
    if all(is_text):
        return plain.astype("U")
    others = [each for each, is_one in zip(plain.flat, is_text, strict=True) if not is_one]
    if any(is_text) and all(each is None or each is pd.NA or each != each for each in others):
        raise Unsupported(f"variable {name!r} has missing text", remedy=_MISSING)
    return cells


def pandas_description(meta: Meta, name: str) -> Mapping[str, Any]:
    """Return what is said of a variable's type in pandas, nothing where it has none."""
    found = variable_extension(meta, name).get(PANDAS_FIELD)
    return found if isinstance(found, Mapping) else {}


def as_pandas(cells: object, declared: Mapping[str, Any]) -> Any:
    """Return the cells in the type that they had. Values that are no category, as others may have stored them, become
    one."""
    if not isinstance(cells, np.ndarray) or cells.ndim != 1:
        return cells
    if isinstance(zone := declared.get("timezone"), str) and cells.dtype.kind == "M":
        return pd.DatetimeIndex(cells).tz_localize("UTC").tz_convert(zone)  # an array of them would become objects
    if isinstance(categories := declared.get("categories"), list):
        known = dict.fromkeys([*categories, *cells.tolist()])
        return pd.Categorical(cells.tolist(), categories=pd.Index([*known]), ordered=bool(declared.get("ordered")))
    return cells
