"""What may have been meant by a name that is not there."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def meant(name: Any, known: Iterable[Any]) -> str:
    """A remedy: the name that is most alike, else all that there are."""
    names = [str(each) for each in known if each is not None]
    near = get_close_matches(str(name), names, 1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names) or 'none'}"
