"""Values of strangers as JSON has them, of bounded size: long texts and lists are cut, and it is said that they are."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.array.decoded import value_units
from hyperslab.array.flags import Flags
from hyperslab.array.plain_values import to_json_value
from hyperslab.stores.credentials import redact_text

# Letters of a text, items of a list, and lists within each other that are told.
MOST_LETTERS, MOST_ITEMS, _MOST_LEVELS = 2000, 100, 6


def cut_text(text: str, most: int = MOST_LETTERS) -> tuple[str, str | None]:
    """Return a text, or the beginning of a long one and words that say so."""
    if len(text) <= most:
        return text, None
    return f"{text[:most]}…", f"the first {most:,} of {len(text):,} letters"


def public_text(text: str, most: int = MOST_LETTERS) -> str:
    """Return what an error or another library says, without secrets, and of a long text the beginning."""
    return cut_text(redact_text(text), most)[0]


def shown_units(array: Array) -> tuple[str | None, str | None]:
    """Return the units of decoded cells, and those of stored ones, as they are told."""
    decoded, stored = (units and cut_text(units)[0] for units in value_units(array))
    return decoded, stored


def flag_facts(flags: Flags | None) -> list[dict[str, object]] | None:
    """Return the words of cells, with the number of each; None where a cell is not one of them."""
    if flags is None or not flags.is_one_of:
        return None
    return [{"value": flag.value, "word": cut_text(flag.word, 200)[0]} for flag in flags.flags]


def plain(value: object, most: int = MOST_ITEMS, letters: int = MOST_LETTERS) -> tuple[Any, str | None]:
    """Return a value as JSON has it, long texts and lists cut, and words that say so where it was cut."""
    return _Cutter(most, letters).cut(value)


class _Cutter:
    """Makes one value as JSON has it, of at most ``most`` items per list, and twenty times as many in all."""

    def __init__(self, most: int, letters: int) -> None:
        self._most = most
        self._letters = letters
        self._left = 20 * most
        self._note: str | None = None

    def cut(self, value: object) -> tuple[Any, str | None]:
        """Return the value and what was cut."""
        return self._part(value, 0), self._note

    def _part(self, value: object, level: int) -> Any:
        match value:
            case np.ndarray() if value.ndim:
                return self._items(value, len(value), level)
            case list() | tuple():
                return self._items(value, len(value), level)
            case dict():
                names = self._items(value, len(value), level, of_mapping=True)
                return {name: self._part(value[key], level + 1) for key, name in names}
            case np.ndarray() if value.dtype.hasobject:
                return self._part(value[()], level)
        self._left -= 1
        shown = to_json_value(value)
        if not isinstance(shown, str):
            return shown
        text, note = cut_text(shown, self._letters)
        self._note = self._note or note
        return text

    def _items(self, items: Iterable[Any], count: int, level: int, *, of_mapping: bool = False) -> list[Any]:
        """Return the first items of a list; of a mapping its first keys, each with its text."""
        most = 0 if level >= _MOST_LEVELS else max(min(self._most, self._left), 0)
        if count > most:
            self._note = self._note or f"the first {most:,} of {count:,} items"
        some = islice(items, most)
        if of_mapping:
            return [(key, cut_text(str(key))[0]) for key in some]
        return [self._part(item, level + 1) for item in some]
