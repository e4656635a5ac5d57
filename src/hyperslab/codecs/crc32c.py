"""CRC-32C (RFC 3720): by the engine in C, by google-crc32c where that is installed, or by NumPy.

All three give the same. The engine comes first where the processor has an instruction for it, as it does on x86-64,
then google-crc32c, which has one for other processors too. NumPy is for where neither is: it sums 0.3 GB/s, the
others 22.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from hyperslab.chunks.engine import load_engine

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]

_POLYNOMIAL = 0x82F63B78  # of Castagnoli, its bits reversed
_ALL = 0xFFFFFFFF
# Bytes of a lane, which is summed beside others, and how many lanes at a time: of several sizes these took the least
# time, for 64 KiB and 4 MiB. Up to so few bytes one by one take less.
_LANE, _MOST_LANES, _FEW = 64, 16384, 2048


def sum_by_numpy(data: bytes | Bytes) -> int:
    """Return the CRC-32C of bytes: of many lanes side by side, then of pairs of neighbours until one is left."""
    cells = np.frombuffer(data, np.uint8)
    odd = len(cells) % _LANE if len(cells) > _FEW else len(cells)
    total = _ALL
    table = _after_zeros(0)[0].tolist()
    for byte in cells[:odd].tolist():
        total = total >> 8 ^ table[(total ^ byte) & 255]
    lanes = cells[odd:].reshape(-1, _LANE)
    for start in range(0, len(lanes), _MOST_LANES):
        slab = lanes[start : start + _MOST_LANES]
        total = int(_skip(np.array([total], np.uint32), slab.size)[0]) ^ _sum_lanes(slab)
    return total ^ _ALL


def _sum_lanes(lanes: Bytes) -> int:
    """Return the sum of lanes that follow one another, begun with 0 and not turned over."""
    table = _of_two_bytes()
    words = lanes.view("<u2")
    sums = np.zeros(len(lanes), np.uint32)
    for place in range(words.shape[1]):
        sums = sums >> 16 ^ table[(sums ^ words[:, place]) & 0xFFFF]
    length = _LANE
    while len(sums) > 1:
        if len(sums) % 2:  # zeros before all others add nothing
            sums = np.concatenate((np.zeros(1, np.uint32), sums))
        sums = _skip(sums[::2], length) ^ sums[1::2]
        length *= 2
    return int(sums[0])


def _skip(sums: Words, length: int) -> Words:
    """Return what so many zero bytes make of sums."""
    for power in range(length.bit_length()):
        if length >> power & 1:
            sums = _look_up(_after_zeros(power), sums)
    return sums


def _look_up(tables: Words, sums: Words) -> Words:
    one, two, three, four = tables
    found: Words = one[sums & 255] ^ two[sums >> 8 & 255] ^ three[sums >> 16 & 255] ^ four[sums >> 24]
    return found


@cache  # several threads may make a table at once: they make the same
def _after_zeros(power: int) -> Words:
    """Return what ``2**power`` zero bytes make of a sum: four tables, one for each of its bytes."""
    if power:
        half = _after_zeros(power - 1)
        return _look_up(half, half.reshape(-1)).reshape(4, 256)
    sums: Words = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        sums = (sums >> 1 ^ (sums & 1) * _POLYNOMIAL).astype(np.uint32)
    rest = np.arange(256, dtype=np.uint32)
    return np.stack([sums, rest, rest << 8, rest << 16])  # the last byte goes out, the others move down


@cache
def _of_two_bytes() -> Words:
    """Return what two zero bytes make of a sum below 65,536."""
    words = np.arange(1 << 16, dtype=np.uint32)
    return _look_up(_after_zeros(1), words)


def _choose() -> tuple[str, Callable[[bytes | Bytes], int]]:
    engine = load_engine()
    if engine is not None and engine.sums_by_processor:
        return "the engine in C", engine.crc32c
    with suppress(ImportError):
        import google_crc32c

        if google_crc32c.implementation == "c":  # without a wheel for this Python it may be one that sums byte by byte
            return "google-crc32c", google_crc32c.value
    return ("NumPy", _sum_slowly) if engine is None else ("the engine in C", engine.crc32c)


@cache
def _tell_of_slow_sums() -> None:
    """Tell once that checksums take most of the time: of chunks of 16 KiB ten times as much as all else."""
    logging.getLogger("hyperslab").warning("checksums are summed by NumPy, slowly: pip install google-crc32c")


def _sum_slowly(data: bytes | Bytes) -> int:
    _tell_of_slow_sums()
    return sum_by_numpy(data)


IMPLEMENTATION, crc32c = _choose()
"""The name of the library that sums, and its function of ``bytes`` or an array of them: google-crc32c takes no other
buffer."""
