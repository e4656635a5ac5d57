"""Which attribute says what means missing, where a format keeps it in the fill value alone."""

from __future__ import annotations

from hyperslab.array.session import OpenDataset
from hyperslab.model.attrs import FILL_VALUE, Attrs
from hyperslab.model.spec import ArraySpec


def with_missing(session: OpenDataset, spec: ArraySpec) -> Attrs:
    """Return the attributes of an array, with ``_FillValue`` where Zarr v2's fill value means missing.

    xarray and kerchunk write the marker into ``fill_value`` of ``.zarray`` and nowhere else. They name all dimensions:
    without names the fill value is what unwritten cells read as, as it is in every other format, HDMF's Zarr v2 too.
    """
    if session.format.traits.fill_value != "missing" or spec.fill_value is None or FILL_VALUE in spec.attrs:
        return spec.attrs
    if spec.numpy_dtype.kind not in "iufc" or None in spec.dims or spec.is_fill_plain:
        return spec.attrs
    return {**spec.attrs, FILL_VALUE: spec.fill_value}
