"""Variables whose cells are Quantities or sparse arrays: as plain ones with units, and where they may be stored."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import xarray as xr

from hyperslab.array.session import OpenDataset
from hyperslab.bridges.pint import is_quantity, split
from hyperslab.bridges.sparse import is_any_sparse
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.base import Feature


def measured(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with the units of its Quantities as attributes; Invalid where a variable says others already."""
    plain = {
        name: _plain(name, variable) for name, variable in dataset.variables.items() if is_quantity(variable._data)
    }
    if not plain:
        return dataset
    coords = {name: variable for name, variable in plain.items() if name in dataset.coords}
    data = {name: variable for name, variable in plain.items() if name not in coords}
    return dataset.assign_coords(coords).assign(data)


def _plain(name: Hashable, variable: xr.Variable) -> xr.Variable:
    cells, units = split(variable._data)
    said = variable.attrs.get("units", units)
    if said != units:
        message = f"{name!r} is a Quantity of {units!r} with an attribute units {said!r}"
        raise Invalid(message, remedy="delete the attribute, or convert the Quantity to those units")
    return xr.Variable(variable.dims, cells, {**variable.attrs, "units": units}, variable.encoding)


def check_sparse(session: OpenDataset, variables: Mapping[str, xr.Variable], *, densify: bool) -> None:
    """Unsupported, before anything is written, where variables are sparse and the format has no such arrays."""
    if densify or Feature.SPARSE in session.format.features:
        return
    lists = [name for name, variable in variables.items() if is_any_sparse(variable._data)]
    if lists:
        names = ", ".join(map(repr, lists))
        message = f"format {session.format.name} has no {Feature.SPARSE.value}: {names}"
        raise Unsupported(message, url=session.url, remedy="densify=True stores all their cells")
