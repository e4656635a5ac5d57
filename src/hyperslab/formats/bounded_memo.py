"""What was made of a document lately: the arrays of a dataset are many, and most of their documents are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_MOST, _LONGEST = 64, 1 << 14


class BoundedMemo(Generic[T]):
    """A pure function of JSON values, asked once for those that are the same; what it gives is never changed."""

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function
        self._known: dict[str, T] = {}

    def __call__(self, *values: Any) -> T:
        """The function's result for these values, which tell 1 from 1.0 and from true."""
        key = repr(values)
        if key in self._known:
            return self._known[key]
        found = self._function(*values)
        if len(key) <= _LONGEST:
            if len(self._known) >= _MOST:
                self._known = {}
            self._known[key] = found
        return found
