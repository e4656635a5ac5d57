"""Cells that were read as xarray objects, sparse and with units where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr

from hyperslab.bridges import pint, sparse
from hyperslab.bridges.mongo.pandas_cells import as_pandas, said_of
from hyperslab.bridges.mongo.reading import Loaded
from hyperslab.formats.mongo.attributes import decode
from hyperslab.formats.mongo.document import ARRAY, Meta
from hyperslab.formats.mongo.to_spec import codes_of, ours_of
from hyperslab.model.coo import Coo


def built(meta: Meta, loaded: Mapping[str, Loaded], ureg: Any) -> xr.Dataset | xr.DataArray:
    """The object; units become Quantities of the registry ``ureg``."""
    variables = {
        name: xr.Variable(
            variable.dims,
            as_pandas(_data(loaded[name], ureg), said_of(meta, name)),
            _attrs(variable.attrs, ours_of(meta, name)),
        )
        for name, variable in meta.variables.items()
    }
    coords = {name: variables[name] for name in meta.coords}
    attrs = _attrs(meta.attrs, meta.ours)
    if not meta.is_array:
        return _dataset({name: variables[name] for name in meta.data_vars}, coords, attrs)
    data = variables[ARRAY]
    array = xr.DataArray(data.data, coords, data.dims, attrs=attrs)
    array.name = meta.name  # else one without a name has that of its dask array
    return array


def _dataset(data: dict[str, xr.Variable], coords: dict[str, xr.Variable], attrs: dict[str, Any]) -> xr.Dataset:
    """xarray takes data with the name of a dimension for a coordinate, unless it is told otherwise afterwards."""
    dims = {dim for variable in (*data.values(), *coords.values()) for dim in variable.dims}
    odd = [name for name in data if name in dims]
    if not odd:
        return xr.Dataset(data, coords, attrs)
    plain = {name: variable for name, variable in data.items() if name not in odd}
    bare = xr.Coordinates({name: data[name] for name in odd}, indexes={})
    return xr.Dataset(plain, bare, attrs).reset_coords(odd).assign_coords(coords)


def _attrs(raw: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """As BSON has them, but for those whose type we have said besides."""
    codes = codes_of(ours)
    return {name: decode(value, codes[name]) if name in codes else value for name, value in raw.items()}


def _data(loaded: Loaded, ureg: Any) -> Any:
    cells = sparse.from_coo(loaded.cells) if isinstance(loaded.cells, Coo) else loaded.cells
    return cells if loaded.units is None else pint.join(cells, loaded.units, ureg)
