"""What append and update have in common: one changer at a time, cells that fit, and the change of the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from hyperslab.bridges.dask import is_dask_array
from hyperslab.bridges.mongo.options import PutOptions
from hyperslab.bridges.mongo.origin import Collections, ObjectOrigin
from hyperslab.bridges.mongo.pandas_cells import said_of
from hyperslab.bridges.mongo.planning import PutPlan
from hyperslab.bridges.mongo.reading import find
from hyperslab.errors import Invalid
from hyperslab.formats.mongo.document import Meta, Variable, render
from hyperslab.formats.mongo.document_limits import check_document
from hyperslab.formats.mongo.lease import FIELD, leased, lost
from hyperslab.formats.mongo.names import VERSION, unfinished
from hyperslab.formats.mongo.objects import resolve
from hyperslab.formats.mongo.undo import entries, roll_back_all
from hyperslab.model.coo import Coo

DERIVED: Literal["derived"] = "derived"
_PATIENCE = 60
"""Seconds to wait for another one who changes the object."""


@contextmanager
def changed(origin: ObjectOrigin, name_or_id: Any) -> Iterator[tuple[Collections, Meta, str]]:
    """An object that nobody else changes during the block, with the name under which it is held. NotFound, Conflict."""
    here = origin.open()
    meta_id = resolve(here.meta, name_or_id)
    with leased(here.meta, meta_id, origin.uri, _PATIENCE) as owner:
        meta = find(here, meta_id)
        if entries(meta.ours) and roll_back_all(here.meta, here.chunks, meta_id):
            meta = find(here, meta_id)
        if "status" in meta.ours:
            raise unfinished(meta_id)
        yield here, meta, owner


def options_of(meta: Meta, options: PutOptions) -> PutOptions:
    """Return the options by which new cells of an object are stored, so that they lie as those that it has."""
    ids = DERIVED if meta.ours.get("chunk_ids") == DERIVED else options.chunk_ids
    return replace(options, chunk_size_bytes=meta.chunk_size, embed_threshold_bytes=0, chunk_ids=ids)


def check_zones(meta: Meta, plan: PutPlan) -> None:
    """Raise Invalid for times with a zone that are to join times without one, or the other way round."""
    for name in (name for name in plan.meta.variables if name in meta.variables):
        new, old = (said_of(each, name).get("timezone") for each in (plan.meta, meta))
        if (new is None) != (old is None):
            message = f"{name!r} has {'no time zone' if new is None else 'a time zone'}, other than what is stored"
            raise Invalid(message, remedy="tz_localize() one of the two, or tz_localize(None)")


def fitting(name: str, variable: Variable, plan: PutPlan, axis: int | None = None) -> Any:
    """The new cells of a variable, of its dtype and kind; all lengths but that along ``axis`` are its own. Invalid."""
    if name not in plan.meta.variables:
        raise Invalid(f"variable {name!r} is missing", remedy="give all variables that have the dimension")
    new, cells = plan.meta.variables[name], plan.cells[name]
    if new.dims != variable.dims:
        raise Invalid(f"{name!r} has the dimensions {new.dims}, not {variable.dims}", remedy="transpose() it")
    if axis is not None and any(
        one != other for at, (one, other) in enumerate(zip(new.shape, variable.shape, strict=True)) if at != axis
    ):
        raise Invalid(f"{name!r} is of shape {new.shape}, and what is stored of {variable.shape}")
    if not new.known:
        raise Invalid(f"the chunk sizes of {name!r} are not known", remedy="call compute_chunk_sizes() of its data")
    if new.units != variable.units:
        raise Invalid(f"{name!r} is in {new.units}, and what is stored in {variable.units}", remedy="convert it: to()")
    if not np.can_cast(new.dtype, variable.dtype, "safe"):
        raise Invalid(f"{name!r} is of dtype {new.dtype}, and what is stored of {variable.dtype}", remedy="astype() it")
    return _of_kind(cells, variable)


def _of_kind(cells: Any, variable: Variable) -> Any:
    """The cells sparse where the variable is, else dense; of its dtype."""
    if is_dask_array(cells):
        return cells.astype(variable.dtype)
    if variable.sparse and isinstance(cells, Coo):
        fill = cells.fill.astype(variable.dtype)
        if fill.tobytes() == variable.fill:
            return Coo(cells.shape, cells.coords, cells.data.astype(variable.dtype), fill)
    dense = (cells.dense() if isinstance(cells, Coo) else np.asarray(cells)).astype(variable.dtype)
    return Coo.of_dense(dense, fill_of(variable)) if variable.sparse else dense


def fill_of(variable: Variable) -> Any:
    """The cell that a sparse variable does not list."""
    return np.frombuffer(variable.fill or bytes(variable.dtype.itemsize), variable.dtype)[0]


def length_of(name: str, variable: Variable, axis: int) -> int:
    """How long a variable is along an axis. Invalid where nobody knows its sizes."""
    if not variable.known:
        raise Invalid(f"nobody knows the size of {name!r}", remedy="load the object and put it anew")
    return variable.shape[axis] or 0


def with_variables(meta: Meta, changed: Mapping[str, Variable]) -> Meta:
    """The object with these variables in the place of those of the same names."""
    coords, data_vars = (
        {name: changed.get(name, variable) for name, variable in part.items()} for part in (meta.coords, meta.data_vars)
    )
    return replace(meta, coords=coords, data_vars=data_vars)


def check_size(meta: Meta) -> None:
    """Unsupported where the document of the object would be none that a server takes."""
    check_document(render(meta))


def settle(here: Collections, meta: Meta, owner: str) -> None:
    """Let the object have these variables, if it is still held under this name. Conflict, Unsupported."""
    check_size(meta)
    document = render(meta)
    variables = {part: document[part] for part in ("coords", "data_vars")}
    change = {"$set": variables, "$inc": {VERSION: 1}}
    if not here.meta.update_one({"_id": meta.id, f"{FIELD}.owner": owner}, change).matched_count:
        raise lost(None, str(meta.id))
