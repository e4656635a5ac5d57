"""The same cells as another type, and whether two types or two arrays are the same."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import numpy as np

from hyperslab.model.dtypes import DataType, Enum, Extension, NumpyDType, numpy_dtype, tag_of

Values = np.ndarray


def as_type(values: Values, dtype: NumpyDType) -> Values:
    """Return the same values as ``dtype``; themselves where they are that already. Fields are taken one by one.

    References become text, none at all is empty text; bytes that become text are UTF-8, as are those of text.
    """
    if values.dtype == dtype:
        return values
    if values.dtype == object and dtype.kind in "TUS":
        texts: list[Any] = [as_bytes(cell) for cell in values.reshape(-1)]
        if dtype.kind != "S":
            texts = [cell.decode() for cell in texts]
        return np.array(texts, dtype).reshape(values.shape)
    if (values.dtype.kind, dtype.kind) in (("S", "T"), ("U", "S")):
        return as_type(values.astype(object), dtype)
    if values.dtype.kind == "c" and dtype.names == ("r", "i"):
        return np.ascontiguousarray(values).view(dtype).reshape(values.shape)
    if values.dtype.names is None or dtype.names is None:
        return values.astype(dtype)
    out = np.empty(values.shape, dtype)
    _fill_fields(out, values)
    return out


def number_cell(value: object, dtype: NumpyDType) -> Any:
    """Return the cell of a numeric dtype that a number means, or the one number in a list; floats are rounded.

    TypeError where it is no one number, OverflowError where the dtype does not hold it: a fraction or NaN among whole
    numbers, what would become infinite.
    """
    array = np.asarray(value)
    number: Any = array.item() if array.size == 1 and array.dtype.kind in "biufcO" else None
    is_number = isinstance(number, Number)
    if not is_number or (dtype.kind != "c" and isinstance(number, complex | np.complexfloating)):
        raise TypeError(f"{value!r} is no {dtype.name}")
    if dtype.kind in "biu":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if not low <= number <= high or number != int(number):
            raise OverflowError(f"{value!r} is no {dtype.name}")
        return np.array(int(number), dtype)[()]
    with np.errstate(over="ignore"):
        cell = array.reshape(()).astype(dtype)[()]
    if np.isinf(cell) and not np.isinf(number):
        raise OverflowError(f"{value!r} is no {dtype.name}")
    return cell


def float_to_json(value: float) -> float | str:
    """Return a float, or the text that stands for it: JSON has no NaN and no infinities."""
    if math.isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def as_bytes(cell: object) -> bytes:
    """Return the bytes of a cell of bytes, text or references: UTF-8, and none where there is nothing."""
    return cell if isinstance(cell, bytes) else b"" if cell is None else str(cell).encode()


def _fill_fields(out: Values, values: Values) -> None:
    for name in out.dtype.names or ():
        source, target = values[name], out[name]
        if source.dtype.kind in "OU" and target.ndim == source.ndim + 1 and target.dtype == np.dtype("S1"):
            source = as_type(source, np.dtype(f"S{target.shape[-1]}"))
        if target.dtype.names is not None:
            _fill_fields(target, source)
        elif target.ndim == source.ndim + 1 and source.dtype.kind == "S":
            target[...] = np.ascontiguousarray(source).view("S1").reshape(target.shape)
        elif source.ndim == target.ndim + 1 and target.dtype.kind == "S":
            target[...] = np.ascontiguousarray(source).view(target.dtype).reshape(target.shape)
        elif source.dtype.kind in "OU" and target.dtype.kind in "US":
            target[...] = as_type(source, target.dtype)
        else:
            target[...] = source


def same_type(expected: DataType, found: DataType, *, any_order: bool = False) -> bool:
    """Return True if cells of one type mean what cells of the other do; a type that had no name may have got one.

    ``any_order``: whatever the order of their bytes.
    """
    if isinstance(expected, Extension) and type(expected) is not type(found):
        return False
    if isinstance(expected, Enum) and isinstance(found, Enum) and expected.members != found.members:
        return False
    a, b = numpy_dtype(expected), numpy_dtype(found)
    if any_order and a.kind != "T" and b.kind != "T":
        a, b = a.newbyteorder("="), b.newbyteorder("=")
    return bool(_layout(a) == _layout(b))


def _layout(dtype: NumpyDType) -> object:
    """Return a type without what formats spell differently: n bytes of text or n chars, the byte order within
    fields."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return ("S", shape[0]) if base == np.dtype("S1") and len(shape) == 1 else (_layout(base), shape)
    if dtype.fields is not None and dtype.names is not None:
        fields = dtype.fields
        return tuple((name, _layout(_native(fields[name][0]))) for name in dtype.names)
    if dtype.kind == "O":
        return "O", type(tag_of(dtype))
    return ("S", dtype.itemsize) if dtype.kind == "S" else dtype.str


def _native(dtype: NumpyDType) -> NumpyDType:
    """Return a type in this machine's byte order; objects have none, and lose their tag by asking for one."""
    return dtype if dtype.hasobject and dtype.names is None else dtype.newbyteorder("=")


# Bytes that are compared at a time: each comparison copies them, and larger copies compare no faster.
_COMPARED = 1 << 20


def same_cells(a: Values, b: Values) -> bool:
    """Return True if two arrays hold the same bits (NaN payloads and signed zeros included); text and objects by
    value.
    """
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype == object:
        return all(_same_object(x, y) for x, y in zip(a.flat, b.flat, strict=True))
    if a.dtype.kind == "T":
        return bool(np.array_equal(a, b))
    if a.dtype.hasobject and a.dtype.names is not None:
        return all(same_cells(a[name], b[name]) for name in a.dtype.names)
    left, right = (np.ascontiguousarray(cells).reshape(-1) for cells in (a, b))
    step = max(1, _COMPARED // max(a.dtype.itemsize, 1))
    starts = range(0, left.size, step)
    return all(left[at : at + step].tobytes() == right[at : at + step].tobytes() for at in starts)


def equal_labels(a: Values, b: Values) -> bool:
    """Return True if two lists of labels are the same, whatever types hold them; a missing label equals a missing one,
    and bytes the text that they are in UTF-8. False for labels that cannot be compared, as times of two calendars."""
    if a.shape != b.shape:
        return False
    a, b = _without_bytes(a), _without_bytes(b)
    can_miss = all(each.dtype.kind in "biufcmM" for each in (a, b))
    try:
        return bool(np.array_equal(a, b, equal_nan=can_miss))
    except TypeError:
        return False


def _without_bytes(labels: Values) -> Values:
    if labels.dtype.kind != "S":
        return labels
    return np.array([label.decode("utf-8", "replace") for label in labels.flat], "T").reshape(labels.shape)


def _same_object(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return same_cells(a, b)
    return bool(type(a) is type(b) and a == b)


def longest_text(cells: Values) -> int:
    """Return the bytes of UTF-8 of the longest text among the cells; 0 where there are none."""
    return max((len(str(cell).encode()) for cell in cells.flat), default=0)
