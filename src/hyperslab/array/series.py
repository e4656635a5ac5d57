"""Time series of NWB: what their stored numbers mean (``TimeSeries`` and ``ElectricalSeries`` of NWB 2.9).

A number of ``data`` is multiplied by the attribute ``conversion``, and by the factor of its channel where the array
``channel_conversion`` lies beside it; then ``offset`` is added, which gives it in ``unit``.

Its first dimension has a label for each sample, in seconds: ``timestamps``, which may be a link to those of another
series, or ``starting_time`` and the ``rate`` that is an attribute of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.array.cells import CellAccess
from hyperslab.array.references import ReferenceResolver
from hyperslab.array.session import OpenDataset
from hyperslab.errors import HyperslabError, NodeNotFound
from hyperslab.model.dims import ScaleIndex
from hyperslab.model.paths import child, split
from hyperslab.model.series import DATA, SERIES_TYPE, STARTING_TIME, TIMESTAMPS, SampleTimes, finite_number, sample_rate
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.selection.positional import select

SECONDS = "time"
"""The name of the first dimension of a series in selections by seconds."""
FoundArray = tuple[OpenDataset, str, ArraySpec]
"""An array: its dataset, its path there and its spec."""
_CHANNELS = "channel_conversion"
COMPANIONS = (TIMESTAMPS, STARTING_TIME, _CHANNELS)
"""The names of the arrays beside ``data`` of a series that tell its seconds and its unit."""
_USED = ("conversion", "offset")


@dataclass(frozen=True, slots=True)
class SeriesMeaning:
    """The factor and the offset of the numbers of a series, and their units afterwards.

    ``channels``: the path of further factors, one for each position of the second dimension; None without any.
    """

    factor: float
    offset: float
    units: str | None
    channels: str | None

    def packing(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes with factor and offset as CF spells them; the offset is left to who multiplies by the
        factors of the channels before."""
        found = {name: value for name, value in attrs.items() if name not in _USED}
        if self.factor != 1:
            found["scale_factor"] = np.float64(self.factor)
        if self.offset != 0 and self.channels is None:
            found["add_offset"] = np.float64(self.offset)
        return found


def find_series_meaning(session: OpenDataset, path: str, spec: ArraySpec) -> SeriesMeaning | None:
    """Return what the numbers of the array at ``path`` mean where it is ``data`` of a series of NWB; None for others,
    and for those that CF attributes pack."""
    attrs = spec.attrs
    is_packed = bool({"scale_factor", "add_offset"} & set(attrs))
    if spec.numpy_dtype.kind not in "iuf" or is_packed or not {*_USED, "unit"} & set(attrs):
        return None
    if not is_series_data(session, path):
        return None
    unit = attrs.get("unit")
    return SeriesMeaning(
        factor=finite_number(attrs.get("conversion"), 1.0),
        offset=finite_number(attrs.get("offset"), 0.0),
        units=spec.units or (unit.rstrip("\0") if isinstance(unit, str) else None),
        channels=_find_channels(session, split(path)[0], spec),
    )


def is_series_data(session: OpenDataset, path: str) -> bool:
    """Return True for ``data`` of a group that NWB gives a type; False also where the group cannot be read."""
    folder, name = split(path)
    if name != DATA:
        return False
    with suppress(HyperslabError):
        group = session.reader.node(folder)
        return isinstance(group, GroupSpec) and SERIES_TYPE in group.attrs
    return False


def is_sample_time(session: OpenDataset, path: str) -> bool:
    """Return True for an array of a series that tells the seconds of its samples."""
    folder, name = split(path)
    return name in (TIMESTAMPS, STARTING_TIME) and is_series_data(session, child(folder, DATA))


# -- seconds of the samples --------------------------------------------------------------------------------------------


def name_dims(session: OpenDataset, path: str, spec: ArraySpec, words: Iterable[str]) -> tuple[str | None, ...]:
    """Return the names of the dimensions, the first one of ``data`` of a series as ``SECONDS`` where that is among
    ``words`` and no dimension is called so."""
    dims = spec.dims
    if SECONDS in words and SECONDS not in dims and dims and is_series_data(session, path):
        return (SECONDS, *dims[1:])
    return dims


def find_clock(session: OpenDataset, path: str, spec: ArraySpec) -> FoundArray | None:
    """Return what tells the seconds of the samples of the series that ``path`` is ``data`` of: its timestamps, one for
    each sample, else its starting_time where that has a rate; None without. Errors of a link that stands for one."""
    if not spec.shape or not is_series_data(session, path):
        return None
    stamps = _find_beside(session, path, TIMESTAMPS)
    if stamps is not None and stamps[2].shape == spec.shape[:1]:
        return stamps
    start = _find_beside(session, path, STARTING_TIME)
    return start if start is not None and sample_rate(start[2]) else None


def find_timestamps(session: OpenDataset, path: str, spec: ArraySpec) -> FoundArray | None:
    """Return the timestamps of the series that ``path`` is ``data`` of, however many there are; None without."""
    return _find_beside(session, path, TIMESTAMPS) if spec.shape and is_series_data(session, path) else None


def read_sample_scale(clock: FoundArray, samples: int) -> ScaleIndex:
    """Return the seconds of samples by their starting_time, which is read, and its rate."""
    session, path, start = clock
    cells = CellAccess(start, session.reader.chunks(path), session.settings, None, path, session.url)
    rate = sample_rate(start)
    return ScaleIndex(float(cells.read(select((), ()))), 1 / rate, samples, rate)


def find_sample_times(session: OpenDataset, path: str, spec: ArraySpec) -> SampleTimes | None:
    """Return when the samples of a series were taken; None for what is no series, or has no samples or no seconds."""
    clock = find_clock(session, path, spec) if spec.shape and spec.shape[0] else None
    if clock is None:
        return None
    if not clock[2].shape:
        scale = read_sample_scale(clock, spec.shape[0])
        return SampleTimes.of_rate(scale.start, sample_rate(clock[2]), scale.size)
    holder, place, stamps = clock
    cells = CellAccess(stamps, holder.reader.chunks(place), holder.settings, None, place, holder.url)
    first, last = (float(cells.read(select((position,), stamps.shape))) for position in (0, -1))
    return SampleTimes(first, last, None)


def why_without_seconds(session: OpenDataset, path: str, spec: ArraySpec) -> str:
    """Return, for a message, why the samples of a series have no labels."""
    found = _find_beside(session, path, TIMESTAMPS)
    if found is not None and len(found[2].shape) == 1:
        return f"the timestamps /{found[1]} have the length {found[2].shape[0]}, the dimension {spec.shape[0]}"
    return "the series has neither timestamps nor a starting_time with a rate"


def _find_beside(session: OpenDataset, path: str, name: str) -> FoundArray | None:
    """Return the array of this name in the group of the array at ``path``, or what a link of that name leads to."""
    place = child(split(path)[0], name)
    try:
        node = session.reader.node(place)
    except NodeNotFound:
        return None
    if node.is_link:
        led = ReferenceResolver(session).resolve(node)
        return (led._session, led.path, led.spec) if led.spec.is_array else None
    return (session, place, node) if node.is_array else None


# -- numbers -----------------------------------------------------------------------------------------------------------


def _find_channels(session: OpenDataset, folder: str, spec: ArraySpec) -> str | None:
    """Return the path of the factors of the channels, if there is one for each."""
    path = child(folder, _CHANNELS)
    with suppress(HyperslabError):
        factors = session.reader.node(path)
        if isinstance(factors, ArraySpec) and factors.numpy_dtype.kind in "iuf" and factors.shape == spec.shape[1:2]:
            return path
    return None
