"""Floats of which fewer bits stay, as netCDF-C rounds them: a number of bits of the mantissa (its BitRound), or as many
as decimal digits take (its GranularBitRound)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from hyperslab.model.cells import Values

# Bits that a decimal digit takes, and digits that a bit does: as quotients, which round as those of netCDF-C do. With
# the nearest floats powers of ten get other bits than there.
_BITS_PER_DIGIT = math.log(10) / math.log(2)
_DIGITS_PER_BIT = math.log(2) / math.log(10)


def round_bits(cells: Values, bits: int) -> Values:
    """Return floats with so many bits of their mantissa, rounded to the nearest, halves away from zero."""
    return _round_mantissa(cells, np.int64(bits))


def round_digits(cells: Values, digits: int) -> Values:
    """Return floats of which so many decimal digits are significant: as many bits as each number needs for them."""
    if cells.dtype.itemsize == 8:
        finite = np.where(np.isfinite(cells), np.abs(cells), 0)
        return np.where(finite == 0, cells, _round_mantissa(cells, _bits_for_digits(finite, digits)))
    flat = np.ascontiguousarray(cells).reshape(-1)
    rounded = np.empty_like(flat)
    for start in range(0, len(flat), _PART):
        rounded[start : start + _PART] = _round_digits_of_part(flat[start : start + _PART], digits)
    return rounded.reshape(cells.shape)


def _round_digits_of_part(cells: Values, digits: int) -> Values:
    """Return floats of 4 bytes of which so many decimal digits are significant."""
    starts, bits = _spans_of_bits(digits)
    sizes = np.abs(cells).view(np.uint32)  # which are in the order of the numbers
    first, last = np.searchsorted(starts, (sizes.min(), sizes.max()), "right") - 1
    if last - first > _FEW_SPANS:
        return _round_mantissa(cells, bits[np.searchsorted(starts, sizes, "right") - 1])
    halves, masks = _halves_and_masks(bits[first : last + 1], cells.dtype)
    # by arithmetic: to choose cells by a mask takes 2 ns for each
    half, mask = halves[0], masks[0]
    for span in range(1, len(halves)):
        is_above = (sizes >= starts[first + span]).astype(np.uint32)
        half = half ^ is_above * (halves[span] ^ halves[span - 1])
        mask = mask ^ is_above * (masks[span] ^ masks[span - 1])
    rounded: Values = ((cells.view(np.uint32) + half) & mask).view(cells.dtype)
    return rounded


def _bits_for_digits(numbers: Values, digits: int) -> Values:
    """Return how many bits of the mantissa of each number such digits take; -1 for 0."""
    mantissa, exponent = np.frexp(numbers)
    logarithm = np.log10(mantissa, where=mantissa > 0, out=np.zeros(numbers.shape))
    number = np.floor(exponent * _DIGITS_PER_BIT + logarithm) + 1
    power = np.floor(_BITS_PER_DIGIT * (number - digits))
    bits = np.abs(np.floor(exponent - _BITS_PER_DIGIT * logarithm) - power)
    found: Values = np.where(mantissa > 0, bits, 0).astype(np.int64) - 1
    return found


# Spans of numbers up to which each is taken by itself, in 0.6 ns a cell; to look up the bits of each cell takes 20 ns,
# and to compute them, as is done for doubles, 40.
_FEW_SPANS = 24
# Cells that are rounded at once: what is made of them stays in the cache of a core.
_PART = 1 << 16
# Bits of the mantissa of floats of 4 bytes, and their infinity as a word.
_WHOLE_4, _INFINITE_4 = 23, 0x7F800000


@lru_cache(maxsize=8)
def _spans_of_bits(digits: int) -> tuple[Values, Values]:
    """Return where the bits change that such digits take of floats of 4 bytes, as the words of positive numbers in
    their order, and the bits from there on; zero, infinity and NaN keep all of theirs.

    Between two powers of two the bits change once at most, besides at the lower one itself. Neighbours that far apart
    never come out in another order by the rounding of logarithms; doubles would.
    """
    steps = [1 << power for power in range(_WHOLE_4)] + [each << _WHOLE_4 for each in range(1, 255)]
    powers = np.array(steps, np.uint32)
    low, high = powers + np.uint32(1), np.append(powers[1:], np.uint32(_INFINITE_4)) - np.uint32(1)
    low = np.minimum(low, high)

    def bits_at(words: Values) -> Values:
        return _bits_for_digits(words.view(np.float32).astype("f8"), digits)

    before, after = low, high
    for _ in range(_WHOLE_4):
        middle = before + (after - before) // np.uint32(2)
        is_before = bits_at(middle) == bits_at(low)
        before, after = np.where(is_before, middle, before), np.where(is_before, after, middle)
    starts = np.unique(np.concatenate([powers, low, after]))
    bits = bits_at(starts)
    starts = np.concatenate([np.zeros(1, np.uint32), starts, np.full(1, _INFINITE_4, np.uint32)])
    bits = np.concatenate([[_WHOLE_4], bits, [_WHOLE_4]])
    changes = np.flatnonzero(np.diff(bits, prepend=-2))
    return starts[changes], bits[changes]


def _round_mantissa(cells: Values, bits: Values | np.int64) -> Values:
    """Return floats with so many bits of their mantissa, of all or of each."""
    half, mask = _halves_and_masks(bits, cells.dtype)
    words: Any = np.ascontiguousarray(cells).view(half.dtype).reshape(cells.shape)
    rounded: Values = np.asarray((words + half) & mask, half.dtype).view(cells.dtype)
    return rounded


def _halves_and_masks(bits: Values | np.int64, dtype: np.dtype[Any]) -> tuple[Values, Values]:
    """Return, as words of a type of floats, half of the last bit that is kept, which is added, and the bits that are
    kept."""
    whole, unsigned = (_WHOLE_4, np.uint32) if dtype.itemsize == 4 else (52, np.uint64)
    zeros: Values = np.asarray(np.clip(whole - bits, 0, whole), unsigned)
    one: Any = unsigned(1)  # of either type
    halves: Values = np.where(zeros > 0, one << np.maximum(zeros, one).astype(unsigned) - one, unsigned(0))
    return halves.astype(unsigned), np.asarray(~((one << zeros) - one), unsigned)
