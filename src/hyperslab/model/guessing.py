"""What may have been meant by a name that is not there, or by the text of a value."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

_SHOWN = 20


def nearest(name: Any, known: Iterable[object]) -> str | None:
    """Return a remedy: the name that is most alike; None where none is."""
    near = get_close_matches(str(name), [str(each) for each in known if each is not None], 1)
    return f"did you mean {near[0]!r}?" if near else None


def meant(name: Any, known: Iterable[object]) -> str:
    """Return a remedy: the name that is most alike, else those that there are, the first of many."""
    names = [str(each) for each in known if each is not None]
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return nearest(name, names) or f"there are {', '.join(names[:_SHOWN]) or 'none'}{more}"


def values_of_text(text: str) -> set[object]:
    """Return the values that a text may mean: itself, and the number that it spells."""
    for kind in (int, float):  # first the one that has the more exact value
        with suppress(ValueError):
            return {text, kind(text)}
    return {text}
