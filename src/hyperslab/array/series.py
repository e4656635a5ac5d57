"""Time series of NWB: what their stored numbers mean (``TimeSeries`` and ``ElectricalSeries`` of NWB 2.9).

A number of ``data`` is multiplied by the attribute ``conversion``, and by the factor of its channel where the array
``channel_conversion`` lies beside it; then ``offset`` is added, which gives it in ``unit``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.array.session import OpenDataset
from hyperslab.errors import HyperslabError
from hyperslab.model.paths import child, split
from hyperslab.model.spec import ArraySpec, GroupSpec

_DATA, _CHANNELS = "data", "channel_conversion"
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
        factor=_number(attrs.get("conversion"), 1.0),
        offset=_number(attrs.get("offset"), 0.0),
        units=spec.units or (unit.rstrip("\0") if isinstance(unit, str) else None),
        channels=_find_channels(session, split(path)[0], spec),
    )


def is_series_data(session: OpenDataset, path: str) -> bool:
    """Return True for ``data`` of a group that NWB gives a type; False also where the group cannot be read."""
    folder, name = split(path)
    if name != _DATA:
        return False
    with suppress(HyperslabError):
        group = session.reader.node(folder)
        return isinstance(group, GroupSpec) and "neurodata_type" in group.attrs
    return False


def _find_channels(session: OpenDataset, folder: str, spec: ArraySpec) -> str | None:
    """Return the path of the factors of the channels, if there is one for each."""
    path = child(folder, _CHANNELS)
    with suppress(HyperslabError):
        factors = session.reader.node(path)
        if isinstance(factors, ArraySpec) and factors.numpy_dtype.kind in "iuf" and factors.shape == spec.shape[1:2]:
            return path
    return None


def _number(value: object, otherwise: float) -> float:
    """Return the finite number that an attribute holds, also as an array of one."""
    cells = np.asarray(value)
    if cells.size != 1 or cells.dtype.kind not in "iuf" or not np.isfinite(cells).all():
        return otherwise
    return float(cells.ravel()[0])
