"""Numbers changed before they are stored: by numcodecs' filters, or by Zarr's ``cast_value`` and ``scale_offset``.

Filters are ``delta``, ``fixedscaleoffset``, ``astype``, ``quantize``, ``bitround`` and ``packbits``. Each names the
dtypes that it works in. As in numcodecs the cells' memory is *viewed* as the dtype to encode, byte order included; what
comes out has the encoded dtype in its own byte order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from hyperslab.codecs import config as read
from hyperslab.codecs.base import ArrayToArray, ArrayToBytes, Buffer, ChunkLayout
from hyperslab.codecs.buffers import check_size, contiguous, flat_bytes, from_bytes, is_big
from hyperslab.codecs.config import Config, choice, integer, only, unfit
from hyperslab.errors import CorruptChunk, Invalid, Unsupported
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import NumpyDType

_MANTISSA = {2: 10, 4: 23, 8: 52}


class Filter(ArrayToArray):
    """array -> array with the same number of cells: from ``dtype`` to ``astype``."""

    def __init__(self, name: str, cells: ChunkLayout, dtype: NumpyDType, astype: NumpyDType, kinds: str) -> None:
        memory = cells.numpy_dtype
        if cells.nbytes is None or memory.itemsize != dtype.itemsize or memory.kind == "V":
            raise Invalid(f"codec {name!r} works on {dtype}, the cells are {memory}", remedy=f"dtype {memory.str!r}")
        if dtype.kind not in kinds or astype.kind not in kinds:
            raise Invalid(f"codec {name!r} cannot turn {dtype} into {astype}", remedy=f"dtypes of the kinds {kinds}")
        self._memory = memory
        self._dtype = dtype
        self.cells = ChunkLayout(astype, cells.shape)

    def encode(self, array: Values) -> Values:
        """Return numbers as they are stored."""
        with np.errstate(all="ignore"):
            found = self.forward(contiguous(array).view(self._dtype))
            return found.astype(self.cells.numpy_dtype, copy=False)

    def decode(self, array: Values) -> Values:
        """Return numbers as they were, as far as they can be restored."""
        with np.errstate(all="ignore"):
            found = self.backward(contiguous(array)).astype(self._dtype, copy=False)
        return contiguous(found).view(self._memory)

    def forward(self, array: Values) -> Values:
        """Return the cells of the dtype to encode -> numbers to be cast."""
        return array

    def backward(self, array: Values) -> Values:
        """Return stored numbers -> numbers to be cast."""
        return array


class AsType(Filter):
    """Stored in another type, by NumPy's casts."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("astype", config, "encode_dtype", "decode_dtype")
        dtype = read.dtype("astype", config, "decode_dtype", cells.numpy_dtype.str)
        super().__init__("astype", cells, dtype, read.dtype("astype", config, "encode_dtype"), "biufcmMSU")


class Delta(Filter):
    """The first number, then differences, in C order."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("delta", config, "dtype", "astype")
        dtype = read.dtype("delta", config, "dtype", cells.numpy_dtype.str)
        super().__init__("delta", cells, dtype, read.dtype("delta", config, "astype", dtype.str), "iufc")

    def forward(self, array: Values) -> Values:
        """Return differences; integers wrap around."""
        flat = array.reshape(-1)
        out = np.empty(flat.shape, self.cells.numpy_dtype)
        out[:1] = flat[:1]
        out[1:] = np.diff(flat)
        return out.reshape(array.shape)

    def backward(self, array: Values) -> Values:
        """Return running sums."""
        out = np.empty(array.size, self._dtype)
        np.cumsum(array.reshape(-1), out=out)
        return out.reshape(array.shape)


class FixedScaleOffset(Filter):
    """round((x - offset) * scale), stored as ``astype``."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        name = "fixedscaleoffset"
        only(name, config, "offset", "scale", "dtype", "astype")
        dtype = read.dtype(name, config, "dtype", cells.numpy_dtype.str)
        super().__init__(name, cells, dtype, read.dtype(name, config, "astype", dtype.str), "iuf")
        self._offset = read.number(name, config, "offset")
        self._scale = read.number(name, config, "scale")
        if self._scale == 0:
            raise Invalid("codec 'fixedscaleoffset': scale=0", remedy="a scale other than zero")

    def forward(self, array: Values) -> Values:
        """Return scaled whole numbers."""
        return np.asarray(np.around((array - self._offset) * self._scale))

    def backward(self, array: Values) -> Values:
        """Return x / scale + offset."""
        return np.asarray(array / self._scale + self._offset)


class Quantize(Filter):
    """Rounded to a power of two that keeps ``digits`` decimal digits; nothing to undo."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("quantize", config, "digits", "dtype", "astype")
        dtype = read.dtype("quantize", config, "dtype", cells.numpy_dtype.str)
        super().__init__("quantize", cells, dtype, read.dtype("quantize", config, "astype", dtype.str), "f")
        digits = read.integer("quantize", config, "digits", 0, -300, 300)
        # The least power of two that is finer than 10 ** -digits.
        self._scale = 2.0 ** math.ceil(math.log2(10.0**digits))

    def forward(self, array: Values) -> Values:
        """Return rounded numbers."""
        return np.asarray(np.around(self._scale * array) / self._scale)


class BitRound(Filter):
    """Mantissas rounded to ``keepbits`` bits, ties to even; infinities and NaN stay; nothing to undo."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("bitround", config, "keepbits")
        dtype = cells.numpy_dtype
        if dtype.kind != "f" or dtype.itemsize not in _MANTISSA:
            raise read.unfit("bitround", "floats of 2, 4 or 8 bytes", dtype)
        super().__init__("bitround", cells, dtype, dtype, "f")
        bits = _MANTISSA[dtype.itemsize]
        self._drop = bits - read.integer("bitround", config, "keepbits", None, 0, bits)

    def forward(self, array: Values) -> Values:
        """Return rounded numbers."""
        if self._drop == 0:
            return array
        native = array.astype(array.dtype.newbyteorder("="))
        bits = native.view(f"u{array.itemsize}")
        one = bits.dtype.type(1)
        drop = bits.dtype.type(self._drop)
        half = bits.dtype.type((1 << (self._drop - 1)) - 1)
        rounded = (bits + ((bits >> drop) & one) + half) >> drop << drop
        return np.where(np.isfinite(native), rounded.view(native.dtype), native)


# -- booleans and small numbers as bits: numcodecs' packbits and the Zarr extension of the same name -------------------


_SMALL = {"bool": 1, "int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
_SMALL |= {"float6_e2m3fn": 6, "float6_e3m2fn": 6}
_SLAB = 1 << 16


class PackBools(ArrayToArray):
    """numcodecs' ``packbits``: the number of padding bits in a byte, then eight booleans a byte, the first highest."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("numcodecs.packbits", config)
        if cells.numpy_dtype.itemsize != 1 or cells.nbytes is None:
            raise unfit("numcodecs.packbits", "booleans", cells.dtype)
        self._dtype = cells.numpy_dtype
        self._shape = cells.shape
        self._count = prod(cells.shape)
        self.cells = ChunkLayout(np.dtype(np.uint8), (1 + -(-self._count // 8),))

    def encode(self, array: Values) -> Values:
        """Return packed booleans."""
        out = np.empty(self.cells.shape, np.uint8)
        out[0] = -self._count % 8
        out[1:] = np.packbits(contiguous(array).reshape(-1).view(np.bool_))
        return out

    def decode(self, array: Values) -> Values:
        """Return booleans; CorruptChunk when the number of padding bits is wrong."""
        padding = -self._count % 8
        if int(array[0]) != padding:
            raise CorruptChunk("packbits: wrong number of padding bits", expected=padding, found=int(array[0]))
        return np.unpackbits(array[1:], count=self._count).view(self._dtype).reshape(self._shape)


class PackBits(ArrayToBytes):
    """The Zarr extension: bits ``first_bit`` to ``last_bit`` of each component, lowest first, one after another.

    https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/packbits
    """

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("packbits", config, "padding_encoding", "first_bit", "last_bit")
        dtype = cells.numpy_dtype
        if cells.nbytes is None or dtype.itemsize == 0 or dtype.names or dtype.kind in "SUO" or dtype.type is np.void:
            raise unfit("packbits", "numbers and booleans", cells.dtype)
        self._dtype = dtype
        self._shape = cells.shape
        parts = 2 if dtype.kind == "c" else 1
        self._width = dtype.itemsize // parts
        bits = _SMALL.get(dtype.name, 8 * self._width)
        self._first = integer("packbits", config, "first_bit", 0, 0, bits - 1)
        self._last = integer("packbits", config, "last_bit", bits - 1, self._first, bits - 1)
        self._padding = choice("packbits", config, "padding_encoding", "none", ("none", "first_byte", "last_byte"))
        self._signed = dtype.kind in "imM"
        self._count = parts * prod(cells.shape)
        self._bits = self._count * (self._last - self._first + 1)
        self.size: int = -(-self._bits // 8) + (self._padding != "none")

    def encode(self, array: Values) -> Buffer:
        """Return packed bits."""
        components = self._little(np.frombuffer(flat_bytes(contiguous(array)), np.uint8))
        parts = [b""] if self._padding != "first_byte" else [bytes([-self._bits % 8])]
        for start in range(0, self._count, _SLAB):
            bits = np.unpackbits(components[start : start + _SLAB], axis=1, bitorder="little")
            parts.append(np.packbits(bits[:, self._first : self._last + 1].reshape(-1), bitorder="little").tobytes())
        parts += [bytes([-self._bits % 8])] if self._padding == "last_byte" else []
        return b"".join(parts)

    def decode(self, data: Buffer) -> Values:
        """Return the cells; CorruptChunk when the size or the number of padding bits is wrong."""
        check_size("packbits", data, self.size)
        packed = np.frombuffer(data, np.uint8)
        if self._padding != "none":
            at = 0 if self._padding == "first_byte" else -1
            expected, found = -self._bits % 8, int(packed[at])
            if expected != found:
                raise CorruptChunk("packbits: wrong number of padding bits", expected=expected, found=found)
            packed = packed[1:] if at == 0 else packed[:-1]
        out = np.empty((self._count, self._width), np.uint8)
        step = self._last - self._first + 1
        for start in range(0, self._count, _SLAB):
            count = min(_SLAB, self._count - start)
            piece = packed[start * step // 8 : -(-(start + count) * step // 8)]
            out[start : start + count] = self._unpack(piece, count, step)
        return from_bytes(flat_bytes(self._little(out.reshape(-1))), self._dtype, self._shape)

    def _unpack(self, packed: Values, count: int, step: int) -> Values:
        found = np.unpackbits(packed, count=count * step, bitorder="little").reshape(count, step)
        bits = np.zeros((count, 8 * self._width), np.uint8)
        bits[:, self._first : self._last + 1] = found
        if self._signed:
            bits[:, self._last + 1 :] = found[:, -1:]
        return np.packbits(bits, axis=1, bitorder="little")

    def _little(self, memory: Values) -> Any:
        """Return components, one a row, their lowest byte first; its own inverse."""
        rows = memory.reshape(-1, self._width)
        return np.ascontiguousarray(rows[:, ::-1]) if is_big(self._dtype) else rows


# -- cast_value and scale_offset: numbers in another type by value, and scaled -----------------------------------------
# https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value and ``.../scale_offset``.


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


class CastValue(ArrayToArray):
    """Cells in ``data_type``, rounded as ``rounding`` says; ``out_of_range`` is ``error``, ``clamp`` or ``wrap``.

    ``scalar_map`` (``encode`` and ``decode``, lists of pairs) names values that are replaced before the cast.
    """

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("cast_value", config, "data_type", "rounding", "out_of_range", "scalar_map")
        value = config.get("data_type")
        name = value.get("name") if isinstance(value, Mapping) else value
        if name not in _TYPES:
            raise Unsupported(f"codec 'cast_value': data_type={value!r}", remedy="one of " + ", ".join(sorted(_TYPES)))
        source, target = _number_type(cells.numpy_dtype), np.dtype(name)
        self._round = ROUNDINGS[choice("cast_value", config, "rounding", "nearest-even", ROUNDINGS)]
        self._range = choice("cast_value", config, "out_of_range", "error", ("error", "clamp", "wrap"))
        if self._range == "wrap" and target.kind == "f":
            raise Invalid("codec 'cast_value': only integers wrap", remedy="out_of_range 'clamp' or 'error'")
        self._encode_map = _scalar_map(config.get("scalar_map"), "encode", source, target)
        self._decode_map = _scalar_map(config.get("scalar_map"), "decode", target, source)
        self._source, self._target = source, target
        self.cells = ChunkLayout(target, cells.shape)

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

    def _cast(self, array: Values, target: NumpyDType, replaced: list[tuple[object, object]]) -> Values:
        masks = [np.isnan(array) if old != old else array == old for old, _ in replaced]
        if masks:
            array = np.where(np.logical_or.reduce(masks), array.dtype.type(0), array)
        with np.errstate(all="ignore"):
            out = self._to_float(array, target) if target.kind == "f" else self._to_integer(array, target)
        for mask, (_, new) in zip(reversed(masks), reversed(replaced), strict=True):
            out[mask] = new
        return out

    def _to_float(self, array: Values, target: NumpyDType) -> Values:
        out = array.astype(target)
        lost = np.isinf(out) & np.isfinite(array)
        if lost.any():
            if self._range == "error":
                raise OverflowError(f"{array[lost].flat[0]!s} does not fit into {target}")
            largest = np.finfo(target).max
            out[lost] = np.where(array[lost] > 0, largest, -largest)
        return out

    def _to_integer(self, array: Values, target: NumpyDType) -> Values:
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
        # Modulo the number of values of ``target``; OverflowError for infinities.
        if array.dtype.kind != "f":
            return array.astype(target)
        if np.isinf(array).any():
            raise OverflowError(f"infinity does not fit into {target}")
        modulus = 2.0 ** (8 * target.itemsize)
        rest = np.fmod(array, modulus)
        rest = np.where(rest < 0, rest + modulus, rest)
        return np.where(rest == modulus, 0.0, rest).astype(np.uint64).astype(target)


def _below(array: Values, bound: int) -> Values:
    """Return where exact values are less than ``bound`` (a power of two, negated, or 0)."""
    return np.asarray(array < (float(bound) if array.dtype.kind == "f" else bound))


def _above(array: Values, bound: int) -> Values:
    """Return where exact values are more than ``bound`` (a power of two, less one)."""
    return np.asarray(array >= float(bound + 1) if array.dtype.kind == "f" else array > bound)


class ScaleOffset(ArrayToArray):
    """(x - offset) * scale, in the cells' own type; whole numbers must come back exactly."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("scale_offset", config, "offset", "scale")
        dtype = _number_type(cells.numpy_dtype)
        self._offset = scalar(config.get("offset", 0), dtype)
        self._scale = scalar(config.get("scale", 1), dtype)
        if self._scale == 0:
            raise Invalid("codec 'scale_offset': scale=0", remedy="a scale other than zero")
        self._whole = dtype.kind in "iu"
        self.cells = ChunkLayout(dtype, cells.shape)

    def encode(self, array: Values) -> Values:
        """Return scaled numbers; Invalid where an integer overflows."""
        with np.errstate(all="ignore"):
            out = np.asarray((array - self._offset) * self._scale)
            if self._whole and not np.array_equal(out // self._scale + self._offset, array):
                raise Invalid("codec 'scale_offset': integers overflow", remedy="a smaller scale, or a wider type")
        return out

    def decode(self, array: Values) -> Values:
        """Return scaled back; CorruptChunk where a stored integer is no multiple of the scale."""
        with np.errstate(all="ignore"):
            if not self._whole:
                return np.asarray(array / self._scale + self._offset)
            if (array % self._scale).any():
                raise CorruptChunk("scale_offset: not a multiple of the scale", expected=f"multiples of {self._scale}")
            return np.asarray(array // self._scale + self._offset)


def scalar(value: object, dtype: NumpyDType) -> object:
    """Return a number in Zarr v3's spelling of fill values: a JSON number, ``NaN``, ``Infinity``, or the bits in
    hex."""
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


def _scalar_map(value: object, way: str, source: NumpyDType, target: NumpyDType) -> list[tuple[object, object]]:
    pairs = value.get(way, []) if isinstance(value, Mapping) else value
    if pairs is None:
        return []
    if not isinstance(pairs, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 2 for p in pairs):
        raise Invalid(f"codec 'cast_value': scalar_map={value!r}", remedy="encode and decode: lists of pairs")
    return [(scalar(old, source), scalar(new, target)) for old, new in pairs]


def _number_type(dtype: NumpyDType) -> NumpyDType:
    if dtype.name not in _TYPES:
        raise Unsupported(f"casting and scaling cells of type {dtype}", remedy="integers, or floats of 16 to 64 bits")
    return dtype.newbyteorder("=")
