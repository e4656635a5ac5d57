"""Which index gives an array's dimension its labels: one stored with the array, the coordinate of that name, or the
seconds of a series of NWB."""

from __future__ import annotations

import numpy as np

from hyperslab.array.cells import CellAccess
from hyperslab.array.cf import join_characters
from hyperslab.array.series import SECONDS, find_clock, is_series_data, read_sample_scale, why_without_seconds
from hyperslab.array.session import OpenDataset
from hyperslab.errors import NodeNotFound, SelectionError
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
    values = np.asarray(cells.read(select((), coordinate.shape)))
    if values.ndim == 2 and values.dtype == "S1":
        texts = [str(text, "utf-8", "replace").rstrip() for text in join_characters(values).tolist()]
        return Coordinate(np.array(texts, np.dtypes.StringDType()))
    calendar = coordinate.attrs.get("calendar")
    time = cf_time(values, coordinate.units or "", None if calendar is None else str(calendar))
    return time or Coordinate(values)


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
            return f"the coordinate /{place} has the length {coordinate.shape[0]}, the dimension {size}"
        return f"the cells of the coordinate /{place} are no labels"
    if dim == spec.dims[0] and is_series_data(session, path):
        return why_without_seconds(session, path, spec)
    return f"there is no coordinate {dim!r}"


def _coordinate(session: OpenDataset, place: str) -> ArraySpec | None:
    """Return the array at ``place``; None for anything else. One that is damaged is an error: its labels are no
    positions."""
    try:
        spec = session.reader.node(place)
    except NodeNotFound:
        return None
    return spec if spec.is_array else None
