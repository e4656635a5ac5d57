"""Ranks of attribute values, and the bytes that an index keeps of them.

Values are compared by their *rank*, a tuple that puts unset values last and NaN before them, so that every attribute
has an order, NaN equals NaN and nothing is compared with what it cannot be compared with. The bytes of ranks compare,
byte by byte, as the ranks of one attribute do.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from hyperslab.model.schemas import AttributeSchema
from hyperslab.model.schemas.arrays import canonical_value
from hyperslab.model.schemas.attributes import value_to_json

Rank = tuple[Any, ...]

KNOWN, NAN, UNSET = 0, 1, 2
"""The first part of a rank: values in their order, then NaN, then what is unset."""


def ranker(attribute: AttributeSchema) -> Callable[[Any], Rank]:
    """Return the function that gives the rank of a value of the attribute."""
    kind = attribute.dtype
    if kind in (float, complex) or issubclass(kind, np.inexact):
        return _rank_of_number
    return _rank_of_tuple if kind is tuple else _rank


def _rank(value: object) -> Rank:
    return (UNSET,) if value is None else (KNOWN, value)


def _rank_of_number(value: object) -> Rank:
    if value is None:
        return (UNSET,)
    if value != value:
        return (NAN,)
    return (KNOWN, (value.real, value.imag)) if isinstance(value, complex) else (KNOWN, value)


def _rank_of_tuple(value: object) -> Rank:
    return (UNSET,) if value is None else (KNOWN, json.dumps(value_to_json(canonical_value(value))))


# -- ranks as bytes ---------------------------------------------------------------------------------------------------


_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


# Bytes of a whole number up to which one byte tells its length.
_SHORT = 0x7F


def encode_rank(rank: Rank) -> bytes:
    """Return a rank as bytes: those of two ranks of one attribute compare as the ranks do. A rank without a value,
    ``(KNOWN,)``, comes before all with one."""
    head = bytes((rank[0] + 1,))
    return head + _encode(rank[1]) if len(rank) > 1 else head


def _encode(value: object) -> bytes:
    match value:
        case str():  # UTF-8 keeps the order of code points; lone surrogates, which no document holds, too
            return value.encode("utf-8", "surrogatepass")
        case float():
            return _encode_float(value)
        case int():
            return _encode_whole(value)
        case datetime():
            return _encode_whole((value - _EPOCH) // _MICROSECOND)
        case (float(real), float(imag)):
            return _encode_float(real) + _encode_float(imag)
    raise TypeError(f"no order of bytes for {value!r}")


def _encode_float(value: float) -> bytes:
    """Return IEEE's bytes, with the sign turned about for numbers from zero on, and all bits for those below."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))  # + 0.0: no -0.0
    return struct.pack(">Q", bits ^ (0xFFFFFFFFFFFFFFFF if bits >> 63 else 1 << 63))


def _encode_whole(value: int) -> bytes:
    """Return a length, then the number in that many bytes; of a negative one the complement of it all."""
    if value < 0:
        return bytes(byte ^ 0xFF for byte in _encode_whole(-value))
    length = (value.bit_length() + 7) >> 3
    size = bytes((0x80 + length,)) if length < _SHORT else b"\xff" + length.to_bytes(8)
    return size + value.to_bytes(length)
