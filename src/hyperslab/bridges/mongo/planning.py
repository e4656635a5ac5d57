"""An xarray object as the documents it will be: whatever cannot be stored is refused here, before the first write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import bson
import numpy as np
import xarray as xr
from bson import ObjectId

from hyperslab.bridges import sparse
from hyperslab.bridges.dask import is_dask_array
from hyperslab.bridges.mongo import pandas_cells
from hyperslab.bridges.mongo.attributes import attributes, dimension_names, object_name, variable_name
from hyperslab.bridges.mongo.cells import cells_of, stored_size
from hyperslab.bridges.mongo.options import PutOptions, check_sizes
from hyperslab.errors import Invalid, Unsupported, WrongType
from hyperslab.formats.mongo.document import ARRAY, Meta, Variable, embed, embedded_names, render
from hyperslab.formats.mongo.document_limits import MOST_BYTES, check_document
from hyperslab.formats.mongo.ids import Derived, Ids, Salted
from hyperslab.formats.mongo.numbers import Sizes
from hyperslab.formats.mongo.segments import DENSE, SPARSE
from hyperslab.formats.mongo.types import dtype_to_text, little
from hyperslab.model.coo import Coo, Numbers


@dataclass(frozen=True, slots=True)
class PutPlan:
    """The document of an object, the cells that are stored whole, and dask arrays, whose blocks are; ``ids`` of all."""

    meta: Meta
    whole: Mapping[str, Numbers | Coo]
    lazy: Mapping[str, Any]
    ids: Ids

    @property
    def cells(self) -> dict[str, Any]:
        """The cells of all variables."""
        inside = {name: variable.embedded for name, variable in self.meta.variables.items() if variable.embedded}
        embedded = {name: each.coo() if each.sparse else each.block() for name, each in inside.items()}
        return {**embedded, **self.whole, **self.lazy}

    @property
    def positions(self) -> int:
        """The most dimensions of a variable that is stored in chunks."""
        return max((len(variable.chunks or ()) for variable in self.meta.variables.values()), default=0)


def planned(x: Any, options: PutOptions, *, name: Any = None, id: ObjectId | None = None) -> PutPlan:
    """The plan for a Dataset or DataArray. WrongType for anything else; Unsupported and Invalid name the variable."""
    coords, data_vars, attrs = _parts(x)
    check_sizes(options.chunk_size_bytes, options.embed_threshold_bytes)
    variables: dict[str, Variable] = {}
    cells: dict[str, Any] = {}
    said_of: dict[str, Any] = {}
    for key, given in _in_order(x, coords).items():
        variable, said = pandas_cells.as_numpy(key, given)
        variables[key], cells[key] = _variable(key, variable, densify=options.densify)
        said_of |= {} if said is None else {key: {pandas_cells.FIELD: said}}
    whole = {key: value for key, value in cells.items() if not is_dask_array(value)}
    inside = embedded_names({key: stored_size(value) for key, value in whole.items()}, options.embed_threshold_bytes)
    variables |= {key: replace(variables[key], embedded=embed(key, whole[key])) for key in inside}
    called = name if name is not None or isinstance(x, xr.Dataset) else x.name
    meta = Meta(
        id=id or ObjectId(),
        coords={key: variables[key] for key in coords},
        data_vars={key: variables[key] for key in data_vars},
        chunk_size=options.chunk_size_bytes,
        attrs=attributes(attrs, "the object"),
        name=object_name(called),
        ours={"variables": said_of} if said_of else {},
    )
    outside = {key: value for key, value in whole.items() if key not in inside}
    _check_sizes(meta, options.chunk_size_bytes, outside)
    ids = Derived(meta.id) if options.chunk_ids == "derived" else Salted()
    return PutPlan(meta, outside, {key: value for key, value in cells.items() if key not in whole}, ids)


def _parts(x: Any) -> tuple[list[str], list[str], Mapping[Any, Any]]:
    """Names of coordinates and of data, and attributes of the object."""
    if isinstance(x, xr.DataArray):
        coords, data_vars = [variable_name(name) for name in x.coords], [ARRAY]
        if ARRAY in coords:
            raise Invalid(f"a coordinate with the name {ARRAY!r}", remedy="rename it: the data is stored by that name")
    elif isinstance(x, xr.Dataset):
        coords, data_vars = [[variable_name(name) for name in part] for part in (x.coords, x.data_vars)]
        if data_vars == [ARRAY]:
            remedy = "rename it, or store the DataArray: what has this name alone comes back as one"
            raise Invalid(f"the only data variable has the name {ARRAY!r}", remedy=remedy)
    else:
        raise WrongType(f"a {type(x).__name__} cannot be stored", remedy="give a Dataset or a DataArray")
    for name, index in x.xindexes.items():
        levels = getattr(getattr(index, "index", None), "nlevels", 1)
        if levels > 1:
            raise Unsupported(f"{name!r} is a MultiIndex", remedy=f"store its levels: reset_index({name!r})")
    return coords, data_vars, x.attrs


def _in_order(x: Any, coords: list[str]) -> dict[str, xr.Variable]:
    """All variables, in the order of the object: that of a DataArray are its coordinates and then its data."""
    if isinstance(x, xr.DataArray):
        return {**{name: x.coords[name].variable for name in coords}, ARRAY: x.variable}
    return {str(name): variable for name, variable in x.variables.items()}


def _variable(name: str, variable: xr.Variable, *, densify: bool) -> tuple[Variable, Any]:
    if not isinstance(variable.dtype, np.dtype):
        raise Unsupported(f"variable {name!r} is of the pandas dtype {variable.dtype}", remedy="astype() it to NumPy's")
    cells, units = cells_of(variable.data, name, densify=densify)
    is_lazy = is_dask_array(cells)
    is_sparse = isinstance(cells, Coo) or sparse.is_sparse_in_blocks(cells)
    fill = (cells.fill if isinstance(cells, Coo) else sparse.fill_of(cells)) if is_sparse else None
    chunks = tuple(map(_sizes, getattr(cells, "chunks", ())))
    said = Variable(
        dims=dimension_names(variable.dims, name),
        dtype=cells.dtype.newbyteorder("<"),
        shape=_sizes(cells.shape),
        chunks=chunks if is_lazy else None,
        sparse=is_sparse,
        attrs={} if name == ARRAY else attributes(variable.attrs, f"variable {name!r}"),
        units=units,
        fill=None if fill is None else little(fill).tobytes(),
    )
    return said, cells


def _sizes(sizes: Any) -> Sizes:
    return tuple(None if isnan(size) else int(size) for size in sizes)


# -- sizes of documents -----------------------------------------------------------------------------------------------


def _check_sizes(meta: Meta, chunk_size: int, whole: Mapping[str, Numbers | Coo]) -> None:
    """Unsupported and Invalid where a document would be none that a server takes."""
    check_document(render(meta))
    for name, variable in meta.variables.items():
        if variable.embedded is None:
            most = min(chunk_size, stored_size(whole[name])) if name in whole else chunk_size
            if (size := largest_document(name, variable, most)) > MOST_BYTES:
                message = f"a document of {name!r} would have {size} bytes, and may have {MOST_BYTES}"
                raise Invalid(message, remedy=f"chunk_size_bytes={chunk_size} is too much: take less")


def largest_document(name: str, variable: Variable, payload: int) -> int:
    """The bytes of a document of this variable that holds ``payload`` bytes of cells (reference 2.1)."""
    unknown = 1 << 62
    doc: dict[str, Any] = {
        "_id": ObjectId(),
        "meta_id": ObjectId(),
        "name": name,
        "chunk": None if variable.chunks is None else [unknown] * len(variable.chunks),
        "n": 1 << 31,
        "dtype": dtype_to_text(variable.dtype, name),
        "shape": [unknown if size is None else size for size in variable.shape],
        "type": SPARSE if variable.sparse else DENSE,
    }
    if variable.sparse:
        doc |= {"nnz": unknown, "fill_value": variable.fill or b"", "sparse_data": b"", "sparse_coords": b""}
    else:
        doc["data"] = b""
    return len(bson.encode(doc)) + payload
