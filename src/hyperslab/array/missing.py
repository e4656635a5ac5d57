"""Which attribute says what means missing, where a format keeps it in the fill value alone."""

from __future__ import annotations

import numpy as np

from hyperslab.array.session import OpenDataset
from hyperslab.errors import Invalid
from hyperslab.formats.zarr2.document import UNWRITTEN
from hyperslab.model.attrs import FILL_VALUE, Attrs
from hyperslab.model.cells import number_cell
from hyperslab.model.dtypes import DataType, describe, numpy_dtype
from hyperslab.model.spec import ArraySpec


def with_missing(session: OpenDataset, spec: ArraySpec) -> Attrs:
    """Return the attributes of an array, with ``_FillValue`` where Zarr v2's fill value means missing.

    xarray and kerchunk write the marker into ``fill_value`` of ``.zarray`` and nowhere else. They name all dimensions:
    without names the fill value is what unwritten cells read as, as it is in every other format, HDMF's Zarr v2 too.
    """
    if session.format.traits.fill_value != "missing" or spec.fill_value is None or FILL_VALUE in spec.attrs:
        return spec.attrs
    if spec.numpy_dtype.kind not in "iufc" or None in spec.dims or UNWRITTEN in spec.layout:
        return spec.attrs
    return {**spec.attrs, FILL_VALUE: spec.fill_value}


def require_fill_value(attrs: Attrs, dtype: DataType) -> None:
    """Raise Invalid for a number as ``_FillValue`` that no cell of such an array can be.

    Only what a user sets is looked at: what others wrote is read as it is. So is what is no one number, such as text:
    it marks nothing, and formats that cannot hold it refuse it themselves.
    """
    cells = numpy_dtype(dtype)
    if FILL_VALUE not in attrs or cells.kind not in "iufc":
        return
    value = attrs[FILL_VALUE]
    try:
        number_cell(value, cells)
    except OverflowError:
        holds = f"a number that {cells.name} holds"
        if cells.kind in "iu":
            holds = f"a whole number from {np.iinfo(cells).min} to {np.iinfo(cells).max}"
        message = f"{FILL_VALUE}={value!s:.60} is no cell of type {describe(dtype)}"
        raise Invalid(message, remedy=f"give {holds}, or make the array of another dtype") from None
    except TypeError:
        return
