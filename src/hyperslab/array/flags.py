"""Words for cells: ``flag_values``, ``flag_masks`` and ``flag_meanings`` (CF 1.11, 3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

ATTRIBUTES = ("flag_values", "flag_masks", "flag_meanings")
"""The attributes that tell the words of cells."""
# Flags that are told apart: a stranger may write any number.
_MOST_FLAGS = 256


@dataclass(frozen=True, slots=True)
class Flag:
    """A word, and the stored cells that it is for: those that are ``value`` where they have the bits of ``mask``
    alone."""

    word: str
    value: float
    mask: int | None


@dataclass(frozen=True, slots=True)
class Flags:
    """The words of an array."""

    flags: tuple[Flag, ...]

    @property
    def is_one_of(self) -> bool:
        """True where a cell is one of the words, False where several may hold."""
        return all(flag.mask is None for flag in self.flags)

    def words_of(self, stored: object) -> list[str]:
        """Return the words that hold for a stored cell."""
        cell = np.asarray(stored)
        if cell.ndim or cell.dtype.kind not in "iub" + "f" * self.is_one_of:
            return []
        number = cell.item()
        return [flag.word for flag in self.flags if (number if flag.mask is None else number & flag.mask) == flag.value]


def are_flags(attrs: Mapping[str, Any]) -> bool:
    """Return True if cells with these attributes stand for words: what lies between two of them, as a mean does, says
    nothing."""
    return "flag_values" in attrs or "flag_masks" in attrs


def find_flags(attrs: Mapping[str, Any]) -> Flags | None:
    """Return the words that attributes give to cells; None without any, and where they make no sense."""
    meanings = attrs.get("flag_meanings")
    if not isinstance(meanings, str):
        return None
    words = meanings.rstrip("\0").split()
    values, masks = (_numbers(attrs.get(name)) for name in ("flag_values", "flag_masks"))
    lengths = {len(words), *(len(each) for each in (values, masks) if each is not None)}
    if (values is None and masks is None) or len(lengths) != 1 or not words or len(words) > _MOST_FLAGS:
        return None
    if masks is None:
        assert values is not None
        return Flags(tuple(Flag(word, value, None) for word, value in zip(words, values, strict=True)))
    whole = [int(mask) for mask in masks]
    wanted = whole if values is None else values
    return Flags(tuple(Flag(*each) for each in zip(words, wanted, whole, strict=True)))


def _numbers(value: object) -> list[float] | None:
    """Return the numbers of an attribute; None where there are none."""
    if value is None:
        return None
    cells = np.asarray(value).ravel()
    return cells.tolist() if cells.dtype.kind in "iuf" and np.isfinite(cells).all() else None
