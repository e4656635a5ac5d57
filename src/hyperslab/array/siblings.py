"""What the other arrays of a group tell about one: whether its characters are texts, which clock its bounds keep."""

from __future__ import annotations

from hyperslab.array import times
from hyperslab.array.missing import with_missing
from hyperslab.array.session import OpenDataset
from hyperslab.model.attrs import Attrs
from hyperslab.model.dtypes import Char
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec


def is_text(session: OpenDataset, path: str, spec: ArraySpec) -> bool:
    """Return whether cells are chars, as netCDF has them, that are texts along the last dimension.

    They are when nothing else uses that dimension than bytes that end in it, and it has no coordinate.
    """
    if not isinstance(spec.dtype, Char) or not spec.shape or spec.dims[-1] is None:
        return False
    last = spec.dims[-1]
    for name, other in session.arrays(split(path)[0]):
        if name == last:
            return False
        if last in other.dims and (other.numpy_dtype.kind != "S" or other.dims[-1] != last):
            return False
    return True


def with_clock(session: OpenDataset, path: str, spec: ArraySpec) -> Attrs:
    """Return the attributes with what means missing.

    Bounds of a time coordinate take its units and calendar where they have none (CF 1.11, 7.1).
    """
    attrs = with_missing(session, spec)
    if "units" in attrs or len(spec.shape) < 2 or spec.shape[-1] != 2:
        return attrs
    name = split(path)[1]
    for _, other in session.arrays(split(path)[0]):
        if str(other.attrs.get("bounds")).rstrip("\0") == name and times.clock(other.attrs) is not None:
            clock = {key: other.attrs[key] for key in ("units", "calendar") if key in other.attrs}
            return {**clock, **attrs}
    return attrs
