"""Rows of a Dataset behind those that are stored: all variables get theirs, or none; labels that are there already."""

from __future__ import annotations

from collections.abc import Container, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab.array import Array, growth
from hyperslab.array.row_labels import Repeated, check_order, check_other_labels, find_repeated, repeated_runs
from hyperslab.bridges.xarray.cells import DelayedWrite, cells_of, write_delayed
from hyperslab.bridges.xarray.fitting import check_calendars, check_dims, check_meaning
from hyperslab.bridges.xarray.writing import (
    NewArrayOptions,
    as_stored,
    detached,
    encode_for,
    read_existing,
    write_over,
    write_region,
)
from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats.base import Feature
from hyperslab.group import Group
from hyperslab.group.frame_columns import refuse_frame
from hyperslab.stores.base import Store

# The lock range of a group into which rows are put, apart from those of chunks and keys.
_APPENDING = (1 << 62) - 1


def append(
    group: Group, dataset: xr.Dataset, dim: str, how: NewArrayOptions, repeated: Repeated = "error"
) -> list[DelayedWrite]:
    """Add rows behind the last of ``dim`` in every variable that has it; the new shapes are published together.

    New variables without ``dim`` are made; those that exist stay as they are. ``repeated``: what becomes of rows whose
    labels are there. Those that are written over come first, and stay so where the others fail.
    """
    refuse_frame(group.attrs, group.url)
    with lock_appends(group):
        existing = read_existing(group)
        computed = [name for name in existing.variables if dim in existing[name].dims and name not in group]
        if computed:
            message = f"{computed[0]!r} is no array: it is computed of a series of NWB"
            remedy = "append a session to a session (hyperslab append), or cells to its arrays (data.append)"
            raise Unsupported(message, remedy=remedy)
        rest = [name for name in dataset.variables if dim not in dataset[name].dims]
        rows = dataset.drop_vars(rest)
        if dim not in rows.dims:
            raise Invalid(f"nothing to append along {dim!r}", remedy=f"there are {tuple(dataset.dims)}")
        _check_lengths(group, existing, rows, dim)
        check_calendars(rows, group)
        _check_other_labels(existing, dataset, dim)
        if dim in dataset.indexes and dim in existing.indexes:
            stored, labels = existing.indexes[dim], _labels_like(existing[dim], dataset[dim])
            places = find_repeated(dim, stored.values, labels.values, repeated)
            if repeated != "allow":
                are_times = isinstance(stored, pd.DatetimeIndex | xr.CFTimeIndex)
                check_order(dim, np.asarray(stored), np.asarray(labels[places < 0]), are_times=are_times)
            if (places >= 0).any() and repeated == "overwrite":
                if not how.compute:
                    remedy = "leave compute=False out"
                    raise Invalid("rows that are written over are not written later", remedy=remedy)
                for mine, theirs in repeated_runs(places):
                    write_delayed(write_region(group, rows.isel({dim: mine}), {dim: theirs}, how))
                dataset, rows = (each.isel({dim: places < 0}) for each in (dataset, rows))
        variables, _ = encode_for(group, as_stored(group, detached(rows, group.url), existing, how), rounds=False)
        pairs: list[tuple[Any, xr.Variable]] = [(group[name], variable) for name, variable in variables.items()]
        for name, (array, variable) in zip(variables, pairs, strict=True):
            check_dims(name, variable, array, dim)
            check_meaning(name, rows.variables[name], variable, array)
        new = [name for name in rest if name not in existing.variables]
        if not new:
            append_all(group, pairs, dim)
            return []
        with write_over(group, dataset[new], how) as delayed:
            append_all(group, pairs, dim, delayed if how.compute else ())
        return [] if how.compute else delayed


def append_all(
    group: Group, pairs: list[tuple[Any, xr.Variable]], dim: str, beside: Iterable[DelayedWrite] = ()
) -> None:
    """Add rows to all arrays, or none: those that have theirs when another one fails lose them again. ``beside``: dask
    arrays that are written with them."""
    before = [(array, array.shape) for array, _ in pairs]
    lazies = [each for each in pairs if is_chunked_array(each[1]._data)]
    try:
        with group.batch():
            if lazies or beside:
                _append_together(lazies, dim, beside)
            for array, variable in pairs:
                if not is_chunked_array(variable._data):
                    array.append(cells_of(variable, array.dtype), dim)
    except BaseException as error:
        for array, shape in before:
            with suppress(HyperslabError):  # of a file that is written whole nothing is kept
                array.resize(shape)
        if isinstance(error, Invalid | Unsupported):
            known = group.dims.get(dim)
            is_fixed = known is not None and not known.unlimited
            if is_fixed and Feature.UNLIMITED in group._session.format.features:
                advice = f"save it with ds.encoding['unlimited_dims'] = {{{dim!r}}}"
                error.remedy = "; ".join(filter(None, (error.remedy, advice)))
        raise


def _append_together(lazies: Iterable[tuple[Array, xr.Variable]], dim: str, beside: Iterable[DelayedWrite]) -> None:
    """Add rows of dask arrays, in a batch: what their graphs share is computed once; then new shapes are published."""
    from hyperslab.bridges import dask

    with ExitStack() as stack:
        writes: list[Any] = [each.arguments for each in beside]
        for array, variable in lazies:
            session, path = array._session, array.path
            stack.enter_context(session.add_place_to_errors(path))
            stack.enter_context(session.lock_node(path))
            session.refresh(path)
            batched = session.format.traits.shares_lengths
            rows = growth.appending(session, path, variable.shape, variable.dims.index(dim), is_batched=batched)
            writes.append((stack.enter_context(rows), cells_of(variable, array.dtype), None))
        dask.write_together(writes)
    for array, _ in lazies:
        array.refresh()


def _check_lengths(group: Group, existing: xr.Dataset, rows: xr.Dataset, dim: str) -> None:
    """Raise Invalid unless every variable along ``dim`` is appended to, and all are of one length before."""
    missing = [name for name in rows.variables if name not in existing.variables]
    if missing:
        raise Invalid(f"variables that are not there: {missing}", remedy="write them with mode='a' first")
    left = [name for name in existing.variables if dim in existing[name].dims and name not in rows.variables]
    if links := dict(group.links()):
        appended = _distinct_places(group, rows, links)
        left = [name for name in left if _place(group, name) not in appended]
    if left:
        raise Invalid(f"variables with {dim!r} that are not appended to: {left}", remedy="append to all of them")
    lengths = {str(name): existing[name].sizes[dim] for name in rows.variables}
    if len(set(lengths.values())) != 1:
        message = f"the arrays have different lengths along {dim!r}: {lengths}"
        raise Invalid(message, url=group.url, node=group.path, remedy="resize() them to one length first")


def _distinct_places(group: Group, rows: xr.Dataset, links: Container[str]) -> set[tuple[str, str]]:
    """Return the URL and path of each array; Invalid for two names, one of them a link, of one array."""
    places: dict[tuple[str, str], Any] = {}
    for name in rows.variables:
        other = places.setdefault(_place(group, name), name)
        if other != name:
            link = name if str(name) in links else other
            message = f"{other!r} and {name!r} are one array, which rows cannot be appended to twice"
            raise Invalid(message, url=group.url, node=group.path, remedy=f"leave the link out: drop_vars({link!r})")
    return set(places)


def _place(group: Group, name: Any) -> tuple[str, str]:
    array = group[str(name)]
    return array.url, array.path


def _labels_like(stored: xr.DataArray, labels: xr.DataArray) -> pd.Index:
    """Return the labels, times as objects of cftime where the stored ones are, and as datetime64 where those are."""
    index, other = labels.to_index(), stored.to_index()
    if {type(index), type(other)} != {pd.DatetimeIndex, xr.CFTimeIndex}:
        return index
    dim, times = str(labels.name), xr.Dataset(coords={labels.name: labels})
    return times.convert_calendar(stored.dt.calendar, dim, use_cftime=isinstance(other, xr.CFTimeIndex)).indexes[dim]


def _check_other_labels(existing: xr.Dataset, dataset: xr.Dataset, dim: str) -> None:
    """Raise Invalid for other coordinates without the dimension than the stored ones, on a grid of any rank."""
    for name, coordinate in dataset.coords.items():
        if dim in coordinate.dims or name not in existing.coords:
            continue
        dims = existing[name].dims
        ordered = coordinate.transpose(*dims) if set(dims) == set(coordinate.dims) else coordinate
        stored, labels = np.asarray(existing[name].variable), np.asarray(ordered.variable)
        check_other_labels(str(name), stored, labels, [str(each) for each in ordered.dims])


def lock_appends(group: Group) -> AbstractContextManager[None]:
    """Hold the group against other appenders, where its store can."""
    store: Store | None = group.store
    timeout = group._session.settings.lock_timeout
    if store is None:
        return nullcontext()
    if store.traits.locks_chunks:
        return store.lock_chunks(group.path, [_APPENDING], timeout)
    # a bucket: a lease of its own, since the group's is taken to publish the shapes
    return store.lock_node(f"{group.path}/.append".lstrip("/"), timeout)
