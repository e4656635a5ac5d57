"""Cells that a caller gives: as arrays, and what cells of a type would hold otherwise (numbers that overflow, text that
would be cut, missing text)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from hyperslab.array.references import as_cells, holds_references, reference_fields
from hyperslab.errors import Invalid
from hyperslab.model.cells import Values, as_type
from hyperslab.model.dtypes import DataType, NumpyDType, numpy_dtype

# The classes of pandas.NA and pandas.NaT.
_MISSING = ("NAType", "NaTType")
# Kinds of types of which cells of one may be cells of another.
_ALIKE = ("biufc", "SUT", "M", "m")
_REMEDY = "cast the data first, if that is meant"


def require_fit(values: Values, dtype: DataType, node: str = "") -> None:
    """Raise Invalid for whole numbers, truth values, text and times that cells of ``dtype`` would hold otherwise, for
    floats that would become infinite, and for complex numbers where they are real. Other floats are rounded."""
    if not isinstance(dtype, np.dtype):
        return
    source, target = values.dtype.kind, dtype.kind
    if source in "mM" and target != source and target in "biufcmM":
        kind = "times" if source == "M" else "timedeltas"
        remedy = "give numbers of the units that the array has"
        raise Invalid(f"cells of {dtype} hold no {kind}", node=node, remedy=remedy)
    if np.can_cast(values.dtype, dtype, "safe"):
        return
    if source == "c" and target in "biuf":
        raise Invalid(f"cells of {dtype} hold no complex numbers", node=node, remedy=_REMEDY)
    lost = _lost(values, dtype, node)
    if lost is not None and lost.any():
        raise Invalid(f"cells of {dtype} cannot hold {values[lost].flat[0]}", node=node, remedy=_REMEDY)


def _lost(values: Values, dtype: NumpyDType, node: str) -> Values | None:
    """Return a mask of the cells that would change; None for pairs of types that say nothing of each other."""
    source, target = values.dtype.kind, dtype.kind
    if source == "O":
        return _cut(values, dtype) if target in "SU" else None
    if not any(source in kinds and target in kinds for kinds in _ALIKE):
        return None
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            cells = values.astype(dtype)
    except ValueError as error:
        raise Invalid(f"data do not fit cells of {dtype}: {error}", node=node, remedy=_REMEDY) from error
    if target in "fc":
        lost = np.isinf(cells) & np.isfinite(values)
    else:
        lost = cells != values if target in "biu" else cells.astype(values.dtype) != values
    return np.asarray(lost & ~np.isnat(values) if target in "mM" else lost)


def cast_remedy(values: Values | None, own: NumpyDType, dtype: NumpyDType, anew: str) -> str:
    """Return what to do with cells of ``own`` where ``dtype`` is stored: astype() where all ``values`` fit, else
    ``anew``, where ``{dtype}`` stands for a type that holds both. ``values``: None where nobody has computed them."""
    if not any({own.kind, dtype.kind} <= set(kinds) for kinds in _ALIKE):
        return f"give cells of {dtype}, or store these under another name"
    with suppress(Invalid):
        if values is not None:
            require_fit(values, dtype)
            is_rounded = own.kind in "fc" and dtype.kind in "fc"
            return f"astype({dtype.str!r}) it{', which rounds it' if is_rounded else ''}"
    return anew.replace("{dtype}", np.promote_types(own, dtype).str)


def _cut(values: Values, dtype: NumpyDType) -> Values:
    """Return a mask of the objects that are longer than text of a length; missing ones are empty."""
    room = text_room(dtype)
    lengths = [_length(cell, dtype.kind) for cell in values.reshape(-1)]
    return np.array([length > room for length in lengths], bool).reshape(values.shape)


def _length(cell: object, kind: str) -> int:
    if isinstance(cell, bytes):
        return len(cell.rstrip(b"\0"))
    text = "" if is_missing(cell) else str(cell).rstrip("\0")
    return len(text.encode()) if kind == "S" else len(text)


def text_room(dtype: NumpyDType) -> int:
    """Return the bytes or characters that a cell of text of a fixed length holds."""
    return dtype.itemsize // (4 if dtype.kind == "U" else 1)


def is_missing(cell: object) -> bool:
    """Return True if a cell among text is none: None, NaN, or what pandas writes for it."""
    if isinstance(cell, float | np.floating):
        return bool(np.isnan(cell))
    return cell is None or type(cell).__name__ in _MISSING


def without_missing(values: Values) -> Values:
    """Return text with empty cells where there is none: as xarray and netCDF store what is missing."""
    if values.dtype.kind == "T":
        # Of ``StringDType`` only those have missing cells whose dtype says how they are called.
        if not hasattr(values.dtype, "na_object"):
            return values
        return without_missing(values.astype(object)).astype(np.dtypes.StringDType())
    if values.dtype.kind != "O":
        return values
    missing = np.array([is_missing(cell) for cell in values.reshape(-1)], bool).reshape(values.shape)
    return np.where(missing, "", values) if missing.any() else values


# -- arrays of the cells that a caller gives ---------------------------------------------------------------------------
# Tuples are rows, and NumPy never looks into references: it takes a tuple in a list for one more dimension unless it
# knows the fields, and reads the cells that a reference to a region stands for.


def to_array(value: Any, dtype: DataType | None) -> Values:
    """Return ``value`` as an array, as it is meant for cells of ``dtype`` where that is known; its own type stays, but
    for lists of rows. Invalid for what is no row."""
    plain = None if dtype is None else numpy_dtype(dtype)
    if plain is not None and plain.names is not None:
        return as_rows(value, plain) if isinstance(value, list | tuple) else np.asarray(value)
    if (dtype is not None and reference_fields(dtype)) or holds_references(value):
        return as_cells(value)
    return np.asarray(value)


def as_rows(value: object, dtype: NumpyDType) -> Values:
    """Return rows: an array of them, one as a tuple, or lists of those."""
    if isinstance(value, np.ndarray | np.void):
        rows = np.asarray(value)
        names = rows.dtype.names
        if names is None or dtype.names is None or len(names) != len(dtype.names):
            return rows.astype(dtype, casting="unsafe", copy=False)
        if names != dtype.names:
            fields: Any = rows.dtype.fields
            renamed: Any = {"names": dtype.names, "itemsize": rows.dtype.itemsize}
            renamed |= {"formats": [fields[name][0] for name in names], "offsets": [fields[name][1] for name in names]}
            rows = rows.view(np.dtype(renamed))
        return as_type(rows, dtype)
    try:
        return np.array(_spelled(value, dtype), dtype)
    except (TypeError, ValueError) as error:
        remedy = f"give tuples of {', '.join(dtype.names or ())}"
        raise Invalid(f"{type(value).__name__} is no row: {error}", remedy=remedy) from error


def has_fields(value: object) -> bool:
    """Return True if a value of NumPy has rows for cells."""
    return isinstance(value, np.ndarray | np.void) and value.dtype.names is not None


def _spelled(value: object, dtype: NumpyDType) -> object:
    """Return lists of rows with the chars of their text one by one: NumPy would give each of n chars the first one."""
    match value:
        case tuple() if dtype.names is not None and len(value) == len(dtype.names):
            return tuple(_spelled(part, dtype[name]) for part, name in zip(value, dtype.names, strict=True))
        case list():
            return [_spelled(part, dtype) for part in value]
        case str() | bytes() if dtype.base == np.dtype("S1") and len(dtype.shape) == 1:
            text = value.encode() if isinstance(value, str) else value
            return list(np.array([text], f"S{dtype.shape[0]}").view("S1"))
    return value
