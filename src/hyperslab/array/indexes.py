"""Which index gives an array's dimension its labels: one stored with the array, the coordinate of that name, or the
seconds of a series of NWB."""

from __future__ import annotations

import time

import numpy as np

from hyperslab.array.cells import CellAccess
from hyperslab.array.cf import join_characters
from hyperslab.array.series import SECONDS, find_clock, is_series_data, read_sample_scale, why_without_seconds
from hyperslab.array.session import OpenDataset
from hyperslab.errors import NodeNotFound, Replaced, SelectionError
from hyperslab.model.dims import Coordinate, Index, cf_time
from hyperslab.model.paths import child, outward, split
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.positional import select


def find_index(session: OpenDataset, path: str, spec: ArraySpec, dim: str) -> Index | None:
    """Return the index of ``dim`` as seen from the array at ``path``: the nearest 1-D array of that name, else the
    seconds of the samples of a series of NWB, whose first dimension is called ``time``, too; or None.

    A coordinate whose units are "… since …" counts time by the CF conventions (CF 1.11, section 4.4). Errors of a link
    that the timestamps of a series are, SelectionError for ``time`` of a series without seconds.
    """
    if dim in spec.indexes:
        return spec.indexes[dim]
    if dim == SECONDS and dim not in spec.dims:
        seconds = find_series_index(session, path, spec)
        if seconds is None:  # numbers would be positions, as on any dimension without labels
            message = f"no seconds, for {why_without_seconds(session, path, spec)}"
            raise SelectionError(message, remedy="select samples by position, with isel")
        return seconds
    size = spec.shape[spec.dims.index(dim)]
    folder = split(path)[0]
    while True:
        place = child(folder, dim)
        coordinate = spec if place == path else _coordinate(session, place)
        if coordinate is not None and coordinate.shape == (size,) and coordinate.dims == (dim,):
            return read_index(session, place, coordinate)
        if not folder:
            return find_series_index(session, path, spec) if dim == spec.dims[0] else None
        folder = split(folder)[0]


# Seconds between looks at an array and a coordinate of different lengths. A writer publishes one after the other: of
# appends without a break two of a hundred labels met such a moment, which lasts some 10 ms in a folder, and in a bucket
# as long as a request.
_PAUSES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)


def find_newest_index(session: OpenDataset, path: str, spec: ArraySpec, dim: str, *, waits: bool) -> Index | None:
    """Return :func:`find_index`, of an array and a coordinate of different lengths what both documents say by now, or
    where it ``waits`` as soon as a writer has published both.

    Replaced where the array has another length than ``spec`` by now.
    """
    index = find_index(session, path, spec, dim)
    if index is not None or (place := _find_uneven(session, path, spec, dim)) is None:
        return index
    for pause in _PAUSES if waits else _PAUSES[:1]:
        time.sleep(pause)
        session.reader.refresh(path)
        now = session.array(path)
        if now.shape != spec.shape:
            message = f"rows were added or removed: the array had the shape {spec.shape} and has {now.shape}"
            raise Replaced(message, node=path, url=session.url)
        session.reader.refresh(place)
        if (index := find_index(session, path, spec, dim)) is not None:
            return index
    return None


def find_series_index(session: OpenDataset, path: str, spec: ArraySpec) -> Index | None:
    """Return the seconds of the samples of the series of NWB that ``path`` is ``data`` of; None without any."""
    clock = find_clock(session, path, spec)
    if clock is None:
        return None
    return read_index(*clock) if clock[2].shape else read_sample_scale(clock, spec.shape[0])


def read_index(session: OpenDataset, place: str, coordinate: ArraySpec) -> Index:
    """Return the cells of the coordinate at ``place`` as the index of its dimension: of chars along a second one the
    texts, without the spaces that fill them up."""
    cells = CellAccess(coordinate, session.reader.chunks(place), session.settings, None, place, session.url)
    cells.session, cells.may_shrink = session, session.reader.may_shrink
    values = np.asarray(cells.read(select((), coordinate.shape)))
    if values.ndim == 2 and values.dtype == "S1":
        texts = [str(text, "utf-8", "replace").rstrip() for text in join_characters(values).tolist()]
        return Coordinate(np.array(texts, np.dtypes.StringDType()))
    calendar = coordinate.attrs.get("calendar")
    times = cf_time(values, coordinate.units or "", None if calendar is None else str(calendar))
    return times or Coordinate(values)


def why_unlabelled(session: OpenDataset, path: str, spec: ArraySpec, dim: str) -> str:
    """Return, for a message, why a dimension has no labels: its coordinate is missing, or of another length."""
    size = spec.shape[spec.dims.index(dim)]
    for folder in outward(split(path)[0]):
        place = child(folder, dim)
        coordinate = spec if place == path else _coordinate(session, place)
        if coordinate is None:
            continue
        if coordinate.dims != (dim,):
            return f"the array /{place} does not run along it alone"
        if coordinate.shape != (size,):
            lengths = f"the coordinate /{place} has the length {coordinate.shape[0]}, the dimension {size}"
            return f"{lengths} (a writer may be at work: try again, or see what check says)"
        return f"the cells of the coordinate /{place} are no labels"
    if dim == spec.dims[0] and is_series_data(session, path):
        return why_without_seconds(session, path, spec)
    return f"there is no coordinate {dim!r}"


def _find_uneven(session: OpenDataset, path: str, spec: ArraySpec, dim: str) -> str | None:
    """Return the coordinate of a dimension that has another length than the array has along it; None without one."""
    size = None if dim not in spec.dims else spec.shape[spec.dims.index(dim)]
    for folder in outward(split(path)[0]):
        coordinate = None if size is None else _coordinate(session, child(folder, dim))
        if coordinate is not None and coordinate.dims == (dim,) and coordinate.shape != (size,):
            return child(folder, dim)
    return None


def _coordinate(session: OpenDataset, place: str) -> ArraySpec | None:
    """Return the array at ``place``; None for anything else. One that is damaged is an error: its labels are no
    positions."""
    try:
        spec = session.reader.node(place)
    except NodeNotFound:
        return None
    return spec if spec.is_array else None
