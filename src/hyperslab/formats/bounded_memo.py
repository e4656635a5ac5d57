"""A memo of a pure function of JSON values: most of the documents of a dataset's many arrays are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
# Of a dataset with many kinds of arrays the memo starts anew, which costs less than keeping their order of use. Long
# documents (a list of labels, say) differ from one another and would only take memory.
_MOST_ENTRIES, _LONGEST_KEY = 64, 1 << 14


class BoundedMemo(Generic[T]):
    """A pure function of JSON values that is called once for those that are the same. Nobody may change its results."""

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function
        self._results: dict[str, T] = {}

    def __call__(self, *values: object) -> T:
        """Return the function's result for these values; 1, 1.0 and true are three values."""
        key = repr(values)  # equal values of different types compare equal in a tuple, but not here
        results = self._results  # another thread may begin anew, by another dict: none ever loses what it has
        if key in results:
            return results[key]
        result = self._function(*values)
        if len(key) <= _LONGEST_KEY:
            if len(self._results) >= _MOST_ENTRIES:
                self._results = {}
            self._results[key] = result
        return result
