"""The CF conventions as arithmetic: stored values and attributes in, what they mean out (CF 1.11, 2.5.1, 4.4, 8.1).

Rules of dtype follow ``xarray.conventions.decode_cf_variable``, so that both give the same arrays. They differ where
xarray gives wrong numbers or none: a missing cell of an integer array whose units are a plain duration (``"days"``)
becomes NaN, not the smallest int64; missing cells are compared in the stored type, before precision is lost, and
untyped numbers of JSON as numbers of that type; ``missing_value`` counts under ``_Unsigned`` too; a missing time of a
calendar without datetime64 becomes None, not the epoch; short floats are counted as double in durations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab.array import times
from hyperslab.errors import FormatError
from hyperslab.model.attrs import FILL_VALUE, Attrs
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import NumpyDType

PACKING = ("scale_factor", "add_offset", "_Unsigned")
"""Attributes of packed cells."""
LIMITS = ("valid_min", "valid_max", "valid_range")
"""Attributes that say which cells are valid (CF 1.11, 2.5.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """The decoding that the attributes ask for of cells of the stored ``dtype``, in the order of the fields.

    ``attrs`` are the others: those that were not used up.
    """

    dtype: NumpyDType
    attrs: Attrs
    join: bool = False
    encoding: str | None = None
    viewed: NumpyDType | None = None
    fills: tuple[object, ...] = ()
    masked: NumpyDType | None = None
    scale: object = None
    offset: Any = None
    scaled: NumpyDType | None = None
    duration: times.Duration | None = None
    clock: times.Clock | None = None
    boolean: bool = False


def decode(values: Values, attrs: Attrs) -> Values:
    """Return stored ``values`` of any shape with the conventions applied; ``FormatError`` when an attribute makes no
    sense."""
    return apply(decoding(values.dtype, attrs), values)


def decoding(dtype: NumpyDType, attrs: Attrs, *, join: bool = False) -> Decoding:
    """Return what ``attrs`` ask of cells of ``dtype``; ``join``: characters along the last dimension are one text."""
    if dtype.kind in "mMV":
        return Decoding(dtype=dtype, attrs=attrs)
    rest = dict(attrs)
    encoding = rest.pop("_Encoding", None)
    unsigned = rest.pop("_Unsigned", None)
    viewed: NumpyDType | None
    if (dtype.kind, unsigned) == ("i", "true"):
        viewed = np.dtype(f"u{dtype.itemsize}")
    elif (dtype.kind, unsigned) == ("u", "false"):
        viewed = np.dtype(f"i{dtype.itemsize}")
    else:
        viewed = None
    fills, keep = _fills(rest, dtype)
    scale, offset = _number(rest, "scale_factor"), _number(rest, "add_offset")
    clock = times.clock(rest) if dtype.kind in "iuf" else None
    duration = times.duration(rest) if dtype.kind in "iuf" else None
    timed = clock is not None or duration is not None
    used = ("units", "calendar") if clock else ("units", "dtype") if duration else ()
    boolean = rest.get("dtype") == "bool" and not used
    masked = _masked(viewed or dtype, scale, offset, timed) if fills else None
    keep = keep and clock is None and not times.is_span(rest)
    return Decoding(
        dtype=dtype,
        attrs={name: value for name, value in rest.items() if name not in (("dtype",) if boolean else used)},
        join=join,
        encoding=None if encoding is None else str(encoding),
        viewed=viewed,
        fills=fills,
        masked=masked,
        scale=scale,
        offset=offset,
        scaled=_scaled(masked or viewed or dtype, scale, offset, keep, bool(fills)),
        duration=duration,
        clock=clock,
        boolean=boolean,
    )


def apply(how: Decoding, values: Values) -> Values:
    """Return the decoded cells, in memory of their own where anything changes; ``values`` are left as they are."""
    if how.join:
        values = join_characters(values)
    if how.encoding is not None:
        values = decode_text(values, how.encoding)
    values = _unpack(how, _mask(how, values))
    if how.duration is not None:
        values = times.decode_durations(values, how.duration)
    if how.clock is not None:
        values = times.decode_times(values, how.clock)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    return values.astype(bool) if how.boolean else values


def decode_limit(how: Decoding, value: object) -> Values:
    """Return a limit of valid cells as the number that it means: whole numbers of packed cells are packed (NUG)."""
    limit = np.asarray(value)
    if (how.scaled is None and how.viewed is None) or limit.dtype.kind not in "iu" or how.dtype.kind not in "iu":
        return limit
    return apply(replace(how, fills=(), clock=None, duration=None), limit.astype(how.dtype))


def valid_limits(how: Decoding, attrs: Attrs) -> tuple[float, float]:
    """Return the least and the greatest valid number, infinite where the attributes say none; what is no number says
    none."""
    low, high = -np.inf, np.inf
    for name in ("valid_range", "valid_min", "valid_max"):
        limit = decode_limit(how, attrs.get(name, ()))
        match name, sorted(limit.astype("f8").ravel().tolist()) if limit.dtype.kind in "iuf" else []:
            case "valid_range", [least, most]:
                low, high = least, most
            case "valid_min", [least]:
                low = least
            case "valid_max", [most]:
                high = most
    return low, high


def _mask(how: Decoding, stored: Values) -> Values:
    values = stored if how.viewed is None else stored.astype(how.viewed)
    if not how.fills:
        return values
    missing = np.zeros(stored.shape, bool)
    for fill in how.fills:
        missing |= stored == fill
        if how.viewed is not None:
            missing |= values == fill
    result = values.astype(how.masked, copy=True)
    result[missing] = times.MISSING if result.dtype.kind == "i" else np.nan
    return result


def _unpack(how: Decoding, values: Values) -> Values:
    if how.scaled is None:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        values = values.astype(how.scaled, copy=True)
        if how.scale is not None:
            values *= how.scale
        if how.offset is not None:
            values += how.offset
    return values


def _fills(rest: dict[str, object], dtype: NumpyDType) -> tuple[tuple[object, ...], bool]:
    """Return the values that mean missing, taken out of ``rest``, and whether any attribute that fits says what
    does."""
    found: list[Any] = []
    keep = False
    for name in ("missing_value", FILL_VALUE):
        value = rest.pop(name, None)
        if value is None:
            continue
        if name == "missing_value" and isinstance(value, str) and dtype.kind not in "SUTO":
            value = _read_number(value)  # text that is none marks no number
        some = [_fitted(name, fill, dtype) for fill in _each(value) if not _is_nan(fill)]
        keep = keep or bool(some) or dtype.kind not in "iu"
        found += some
    return tuple(found), keep


def _read_number(text: str) -> float:
    """Return the number that a text spells; NaN for any other text, such as ``"NA"``."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _each(value: Any) -> list[object]:
    if isinstance(value, np.ndarray):
        return list(value.ravel())
    return list(value) if isinstance(value, list | tuple) else [value]


def _is_nan(value: object) -> bool:
    return value is None or bool(np.isscalar(value) and value != value)


def _fitted(name: str, fill: object, dtype: NumpyDType) -> object:
    """Return ``fill`` as it compares with cells: an untyped number of JSON takes the cells' type if it has a place in
    it."""
    if dtype.kind in "SUTO":
        return fill.encode() if dtype.kind == "S" and isinstance(fill, str) else fill
    if isinstance(fill, str | bytes | Mapping | list):
        raise FormatError(
            f"attribute {name} is {fill!r}, the cells are {dtype}",
            remedy="correct the attribute, or read the cells as stored, without decoded()",
        )
    if dtype.kind == "f" and isinstance(fill, int | float) and not isinstance(fill, np.generic):
        with np.errstate(over="ignore"):
            near = dtype.type(fill)
        return near if np.isfinite(near) == np.isfinite(fill) else np.float64(fill)
    return fill


def _number(rest: dict[str, object], name: str) -> Any:
    value = rest.pop(name, None)
    if isinstance(value, np.ndarray | list | tuple) and np.size(value) == 1:
        value = np.ravel(value)[0]
    if value is not None and not isinstance(value, int | float | np.integer | np.floating):
        raise FormatError(
            f"attribute {name} is {value!r}, not a number",
            remedy="correct the attribute, or read the cells as stored, without decoded()",
        )
    return value


def _masked(dtype: NumpyDType, scale: object, offset: object, timed: bool) -> NumpyDType:
    """Return the type that has a place for missing cells."""
    if scale is not None or offset is not None:
        chosen = _floating(dtype, scale, offset)
        return np.dtype("f8") if chosen.kind in "iu" else chosen
    if timed and dtype.kind in "iu":
        return np.dtype("i8")
    if dtype.kind in "iu":
        return np.dtype("f4") if dtype.itemsize <= 2 else np.dtype("f8")
    return dtype if dtype.kind in "fc" else np.dtype(object)


def _scaled(dtype: NumpyDType, scale: object, offset: object, keep: bool, masked: bool) -> NumpyDType | None:
    """Return the type that scale and offset are applied in; ``keep``: that of the cells as they are."""
    if scale is None and offset is None:
        return None
    chosen = dtype if keep else _floating(dtype, scale, offset)
    return np.dtype("f8") if masked and chosen.kind in "iu" else chosen


def _floating(dtype: NumpyDType, scale: object, offset: object) -> NumpyDType:
    """Return the type of unpacked cells.

    Scale and offset of the same floating type give it (double for 32-bit integers), any other offset gives double,
    a scale alone gives its own type.
    """
    if offset is None:
        return np.dtype(type(scale))
    if scale is None:
        return np.dtype("f8")
    kind = np.dtype(type(scale))
    same = kind == np.dtype(type(offset)) and kind in (np.dtype("f4"), np.dtype("f8"))
    return np.dtype("f8") if not same or (dtype.kind in "iu" and dtype.itemsize == 4) else kind


# -- text from bytes: characters joined along the last dimension, and bytes decoded by their ``_Encoding`` -------------


def join_characters(values: Values) -> Values:
    """Join ``S1`` cells of shape ``(..., n)`` as ``S<n>`` of shape ``(...)``."""
    length = values.shape[-1]
    if length == 0:
        return np.zeros(values.shape[:-1], "S1")
    return np.ascontiguousarray(values).view(f"S{length}").reshape(values.shape[:-1])


def decode_text(values: Values, encoding: str) -> Values:
    """Return the bytes as text (``StringDType``); ``FormatError`` when the encoding is unknown or the bytes are not of
    it."""
    if values.dtype.kind not in "SO":
        return values
    try:
        texts = [str(cell, encoding) if isinstance(cell, bytes) else str(cell) for cell in values.ravel().tolist()]
    except (LookupError, ValueError) as error:
        raise FormatError(
            f"the text cannot be decoded by _Encoding {encoding!r}: {error}",
            remedy="read the bytes as stored, without decoded()",
        ) from error
    return np.array(texts, np.dtypes.StringDType()).reshape(values.shape)
