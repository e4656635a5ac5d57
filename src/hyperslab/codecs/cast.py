"""``cast_value`` and ``scale_offset``: numbers in another type by value, and scaled (zarr-extensions).

https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value and ``.../scale_offset``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hyperslab.codecs.base import ChunkLayout, Values
from hyperslab.codecs.config import Config, choice, only
from hyperslab.errors import CorruptChunk, Invalid, Unsupported

Rule = Callable[[Values], Values]
_TYPES = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)} | {"float16", "float32", "float64"}


def _nearest_away(values: Values) -> Values:
    whole = np.trunc(values)
    return np.asarray(np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1, values), whole))


ROUNDINGS: dict[str, Rule] = {
    "nearest-even": np.rint,
    "towards-zero": np.trunc,
    "towards-positive": np.ceil,
    "towards-negative": np.floor,
    "nearest-away": _nearest_away,
}


class CastValue:
    """Cells in ``data_type``, rounded as ``rounding`` says; ``out_of_range`` is ``error``, ``clamp`` or ``wrap``.

    ``scalar_map`` (``encode`` and ``decode``, lists of pairs) names values that are replaced before the cast.
    """

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("cast_value", config, "data_type", "rounding", "out_of_range", "scalar_map")
        source, target = _number_type(cells.numpy_dtype), _named_type(config.get("data_type"))
        self._round = ROUNDINGS[choice("cast_value", config, "rounding", "nearest-even", ROUNDINGS)]
        self._range = choice("cast_value", config, "out_of_range", "error", ("error", "clamp", "wrap"))
        if self._range == "wrap" and target.kind == "f":
            raise Invalid("codec 'cast_value': only integers wrap", remedy="out_of_range 'clamp' or 'error'")
        self._encode_map = _scalar_map(config.get("scalar_map"), "encode", source, target)
        self._decode_map = _scalar_map(config.get("scalar_map"), "decode", target, source)
        self._source, self._target = source, target
        self._cells = ChunkLayout(target, cells.shape)

    @property
    def cells(self) -> ChunkLayout:
        """The cells in the target type."""
        return self._cells

    def encode(self, array: Values) -> Values:
        """Cast; Invalid when a value does not fit."""
        try:
            return self._cast(array, self._target, self._encode_map)
        except OverflowError as error:
            remedy = "out_of_range 'clamp' or 'wrap', or a scalar_map"
            raise Invalid(f"codec 'cast_value': {error}", remedy=remedy) from error

    def decode(self, array: Values) -> Values:
        """Cast back; CorruptChunk when a value does not fit."""
        try:
            return self._cast(array, self._source, self._decode_map)
        except OverflowError as error:
            raise CorruptChunk(f"cast_value: {error}", expected=f"values of {self._source}") from error

    def _cast(self, array: Values, target: np.dtype[Any], replaced: list[tuple[Any, Any]]) -> Values:
        masks = [np.isnan(array) if old != old else array == old for old, _ in replaced]
        if masks:
            array = np.where(np.logical_or.reduce(masks), array.dtype.type(0), array)
        with np.errstate(all="ignore"):
            out = self._to_float(array, target) if target.kind == "f" else self._to_integer(array, target)
        for mask, (_, new) in zip(reversed(masks), reversed(replaced), strict=True):
            out[mask] = new
        return out

    def _to_float(self, array: Values, target: np.dtype[Any]) -> Values:
        out = array.astype(target)
        lost = np.isinf(out) & np.isfinite(array)
        if lost.any():
            if self._range == "error":
                raise OverflowError(f"{array[lost].flat[0]!s} does not fit into {target}")
            largest = np.finfo(target).max
            out[lost] = np.where(array[lost] > 0, largest, -largest)
        return out

    def _to_integer(self, array: Values, target: np.dtype[Any]) -> Values:
        if array.dtype.kind == "f":
            array = np.asarray(self._round(array.astype(np.float64)))
            if np.isnan(array).any():
                raise OverflowError(f"NaN does not fit into {target}")
        info = np.iinfo(target)
        low, high = _below(array, info.min), _above(array, info.max)
        if not (low.any() or high.any()):
            return array.astype(target)
        if self._range == "error":
            raise OverflowError(f"{array[low | high].flat[0]!s} does not fit into {target}")
        if self._range == "clamp":
            out = np.where(low | high, array.dtype.type(0), array).astype(target)
            out[low], out[high] = info.min, info.max
            return out
        return _wrap(array, target)


def _wrap(array: Values, target: np.dtype[Any]) -> Values:
    """Modulo the number of values of ``target``; OverflowError for infinities."""
    if array.dtype.kind != "f":
        return array.astype(target)
    if np.isinf(array).any():
        raise OverflowError(f"infinity does not fit into {target}")
    modulus = 2.0 ** (8 * target.itemsize)
    rest = np.fmod(array, modulus)
    rest = np.where(rest < 0, rest + modulus, rest)
    return np.where(rest == modulus, 0.0, rest).astype(np.uint64).astype(target)


def _below(array: Values, bound: int) -> Values:
    """Where exact values are less than ``bound`` (a power of two, negated, or 0)."""
    return np.asarray(array < (float(bound) if array.dtype.kind == "f" else bound))


def _above(array: Values, bound: int) -> Values:
    """Where exact values are more than ``bound`` (a power of two, less one)."""
    return np.asarray(array >= float(bound + 1) if array.dtype.kind == "f" else array > bound)


class ScaleOffset:
    """(x - offset) * scale, in the cells' own type; whole numbers must come back exactly."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("scale_offset", config, "offset", "scale")
        dtype = _number_type(cells.numpy_dtype)
        self._offset = scalar(config.get("offset", 0), dtype)
        self._scale = scalar(config.get("scale", 1), dtype)
        if self._scale == 0:
            raise Invalid("codec 'scale_offset': scale=0", remedy="a scale other than zero")
        self._whole = dtype.kind in "iu"
        self._cells = ChunkLayout(dtype, cells.shape)

    @property
    def cells(self) -> ChunkLayout:
        """The same type and shape."""
        return self._cells

    def encode(self, array: Values) -> Values:
        """Scaled; Invalid where an integer overflows."""
        with np.errstate(all="ignore"):
            out = np.asarray((array - self._offset) * self._scale)
            if self._whole and not np.array_equal(out // self._scale + self._offset, array):
                raise Invalid("codec 'scale_offset': integers overflow", remedy="a smaller scale, or a wider type")
        return out

    def decode(self, array: Values) -> Values:
        """Scaled back; CorruptChunk where a stored integer is no multiple of the scale."""
        with np.errstate(all="ignore"):
            if not self._whole:
                return np.asarray(array / self._scale + self._offset)
            if (array % self._scale).any():
                raise CorruptChunk("scale_offset: not a multiple of the scale", expected=f"multiples of {self._scale}")
            return np.asarray(array // self._scale + self._offset)


def scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    """A number in Zarr v3's spelling of fill values: a JSON number, ``NaN``, ``Infinity``, or the bits in hex."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise TypeError(value)
        if dtype.kind != "f":
            if isinstance(value, str) or value != int(value):
                raise ValueError(value)
            return dtype.type(int(value))
        if isinstance(value, str) and value.startswith("0x"):
            return np.array(int(value, 16), f"u{dtype.itemsize}").view(dtype)[()]
        if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity"):
            raise ValueError(value)
        return dtype.type(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise Invalid(f"{value!r} is no value of {dtype}", remedy="a number, or NaN, Infinity, -Infinity") from error


def _scalar_map(value: Any, way: str, source: np.dtype[Any], target: np.dtype[Any]) -> list[tuple[Any, Any]]:
    pairs = value.get(way, []) if isinstance(value, Mapping) else value
    if pairs is None:
        return []
    if not isinstance(pairs, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 2 for p in pairs):
        raise Invalid(f"codec 'cast_value': scalar_map={value!r}", remedy="encode and decode: lists of pairs")
    return [(scalar(old, source), scalar(new, target)) for old, new in pairs]


def _number_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.name not in _TYPES:
        raise Unsupported(f"casting and scaling cells of type {dtype}", remedy="integers, or floats of 16 to 64 bits")
    return dtype.newbyteorder("=")


def _named_type(value: Any) -> np.dtype[Any]:
    name = value.get("name") if isinstance(value, Mapping) else value
    if name not in _TYPES:
        raise Unsupported(f"codec 'cast_value': data_type={value!r}", remedy="one of " + ", ".join(sorted(_TYPES)))
    return np.dtype(name)
