"""Two checksums of HDF5: Fletcher's in the form of H5checksum.c, and Bob Jenkins' lookup3."""

from __future__ import annotations

from typing import Any

import numpy as np

_SLAB = 1 << 16
_MODULUS = 65535


def fletcher32(data: np.ndarray[Any, np.dtype[np.uint8]]) -> int:
    """Fletcher-32 over big-endian 16-bit words, an odd last byte padded with a zero; sums modulo 65535.

    As H5_checksum_fletcher32 folds its sums, a sum that is a multiple of 65535 is 65535, and 0 only where all is zero.
    """
    odd = data[-1:] if len(data) % 2 else None
    words = data[: len(data) // 2 * 2].view(">u2")
    left = len(words) + (odd is not None)
    plain = weighted = 0
    weights = np.arange(min(len(words), _SLAB), 0, -1, dtype=np.float64)
    for start in range(0, len(words), _SLAB):
        slab = words[start : start + _SLAB].astype(np.float64)
        left -= len(slab)
        total = int(slab.sum())
        plain += total
        weighted += left * total + int(slab @ weights[-len(slab) :])
    if odd is not None:
        plain += int(odd[0]) << 8
        weighted += int(odd[0]) << 8
    return _fold(weighted) << 16 | _fold(plain)


def lookup3(data: np.ndarray[Any, np.dtype[np.uint8]], seed: int) -> int:
    """Bob Jenkins' lookup3 (H5_checksum_lookup3), by numcodecs."""
    from numcodecs.jenkins import jenkins_lookup3

    return int(jenkins_lookup3(data, seed))


def _fold(total: int) -> int:
    return (total - 1) % _MODULUS + 1 if total else 0
