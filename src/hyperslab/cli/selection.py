"""Selections as netCDF people type them: ``time=2013-01..2013-03``, ``lat=50.0..40.0``, ``level=3``.

``dim=start..stop[..step]`` (``:`` serves where no bound holds a colon). A whole number is a position, a float, a date
or a word a label, as is ``20200228`` where no cell has that position; ``dim=@850`` forces a label and quotes a word.
Ranges by label are inclusive, by position exclusive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hyperslab.errors import Invalid

_WHOLE = re.compile(r"[+-]?\d+")
_DATE = re.compile(r"[12]\d{3}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_SYNTAX = "write dim=value or dim=start..stop[..step], for instance time=2013-01..2013-03 or level=3"


@dataclass(frozen=True, slots=True)
class TypedSelection:
    """What was typed, sorted by meaning: ``isel`` by position (int or slice), ``sel`` by label (label or slice)."""

    isel: dict[str, Any] = field(default_factory=dict)
    sel: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.isel or self.sel)

    @property
    def dims(self) -> tuple[str, ...]:
        """Every dimension that is named."""
        return (*self.isel, *self.sel)


def parse_selections(texts: Iterable[str]) -> TypedSelection:
    """Several ``dim=…`` texts as one selection; a dimension may be named once."""
    selection = TypedSelection()
    for text in texts:
        dim, mark, value = text.partition("=")
        dim, value = dim.strip(), value.strip()
        if not mark or not dim or not value:
            raise Invalid(f"{text!r} is not a selection", remedy=_SYNTAX)
        if dim in selection.dims:
            raise Invalid(f"dimension {dim!r} is selected twice", remedy="name each dimension once")
        by_label, chosen = parse_value(value)
        (selection.sel if by_label else selection.isel)[dim] = chosen
    return selection


def with_dates(selection: TypedSelection, sizes: Mapping[str, int]) -> TypedSelection:
    """Take whole numbers for labels that are dates, such as ``20200228``, and no positions of so long a dimension."""
    dates = {dim: item for dim, item in selection.isel.items() if _is_date(item, sizes.get(dim, 0))}
    kept = {dim: item for dim, item in selection.isel.items() if dim not in dates}
    return TypedSelection(kept, {**selection.sel, **dates})


def _is_date(item: Any, size: int) -> bool:
    bounds = [item.start, item.stop] if isinstance(item, slice) else [item]
    numbers = [bound for bound in bounds if bound is not None]
    return bool(numbers) and all(number >= size and _DATE.fullmatch(str(number)) for number in numbers)


def parse_value(text: str) -> tuple[bool, Any]:
    """``(by_label, value)`` of the text after ``dim=``: an int, a label, or a slice of either."""
    parts = _split(text)
    if len(parts) == 1:
        return _bound(parts[0])
    if len(parts) > 3:
        raise Invalid(f"{text!r} has {len(parts) - 1} separators", remedy=_SYNTAX)
    bounds = [_bound(part) if part else None for part in parts[:2]]
    step = _step(parts[2]) if len(parts) == 3 and parts[2] else None
    kinds = {bound[0] for bound in bounds if bound is not None}
    if len(kinds) == 2:
        raise Invalid(
            f"{text!r} mixes a position and a label",
            remedy="write labels as floats, dates or words, or force one: @850",
        )
    start, stop = (None if bound is None else bound[1] for bound in bounds)
    return kinds == {True}, slice(start, stop, step)


def _split(text: str) -> list[str]:
    """Cut at ``..``, else at ``:`` where that is no time of day; quoted text stays whole."""
    pieces = re.findall(r"'[^']*'|\"[^\"]*\"|\.\.|:|[^'\".:]+|.", text)
    if ".." in pieces:
        return _join(pieces, "..")
    if ":" in pieces and not re.search(r"\d[T ]\d\d:\d\d", text):
        return _join(pieces, ":")
    return [text]


def _join(pieces: list[str], mark: str) -> list[str]:
    parts = [""]
    for piece in pieces:
        if piece == mark:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def _bound(text: str) -> tuple[bool, Any]:
    """One bound: ``(by_label, value)``."""
    if text.startswith("@") and len(text) > 1:
        return True, _label(text[1:])
    if _WHOLE.fullmatch(text):
        return False, int(text)
    return True, _label(text)


def _label(text: str) -> Any:
    """A quoted word as itself, a number as int or float, else a word or date."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _step(text: str) -> int:
    if not _WHOLE.fullmatch(text) or int(text) == 0:
        raise Invalid(f"the step {text!r} is not a whole number other than 0", remedy=_SYNTAX)
    return int(text)
