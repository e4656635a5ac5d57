"""Cells as the bytes they take in memory: flat views, byte order, reinterpretation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hyperslab.codecs.base import Buffer, Values

_ORDERED = "iufcmMU"


def flat_bytes(array: Values) -> memoryview:
    """The bytes of a C-contiguous array, as a view."""
    if array.itemsize == 0:
        return memoryview(bytearray())
    return array.reshape(-1).view(np.uint8).data


def contiguous(array: Values) -> Values:
    """The same cells in C order, copied only when they are not; 0-d stays 0-d."""
    return array if array.flags.c_contiguous else array.copy(order="C")


def from_bytes(data: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Values:
    """Bytes as cells, without a copy (read-only where the bytes are); their number must fit."""
    if len(data) == 0:
        return np.empty(shape, dtype)
    return np.frombuffer(data, np.uint8).view(dtype).reshape(shape)


def misordered(dtype: np.dtype[Any], endian: str) -> list[tuple[int, int]]:
    """(offset, width) of each number of a cell whose bytes must be reversed to be in ``little`` or ``big`` order."""
    big = endian == "big"
    return [(offset, width) for offset, width, is_big in _numbers(dtype, 0) if is_big != big]


def reverse(array: Values, places: list[tuple[int, int]]) -> None:
    """Reverse the bytes of the numbers at these places of each cell, in place; ``array`` is C-contiguous."""
    if not places or array.size == 0:
        return
    width = places[0][1]
    if width in (2, 4, 8) and len(places) * width == array.itemsize and {size for _, size in places} == {width}:
        array.reshape(-1).view(f"u{width}").byteswap(inplace=True)
        return
    cells = array.reshape(-1).view(np.uint8).reshape(array.size, array.itemsize)
    for offset, width in places:
        cells[:, offset : offset + width] = cells[:, offset : offset + width][:, ::-1].copy()


def _numbers(dtype: np.dtype[Any], offset: int) -> Iterator[tuple[int, int, bool]]:
    """(offset, width, big-endian) of each number in one cell of ``dtype`` that has a byte order."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        for index in range(int(np.prod(shape))):
            yield from _numbers(base, offset + index * base.itemsize)
    elif dtype.fields is not None and dtype.names is not None:
        for name in dtype.names:
            field = dtype.fields[name]
            yield from _numbers(field[0], offset + field[1])
    elif dtype.kind in _ORDERED or (dtype.kind == "V" and dtype.type is not np.void):
        width = {"c": dtype.itemsize // 2, "U": 4}.get(dtype.kind, dtype.itemsize)
        for start in range(0, dtype.itemsize if width > 1 else 0, width):
            yield offset + start, width, is_big(dtype)


def is_big(dtype: np.dtype[Any]) -> bool:
    """Return whether the numbers of a dtype without fields are big-endian."""
    return dtype.byteorder == ">" or (dtype.byteorder == "=" and not np.little_endian)
