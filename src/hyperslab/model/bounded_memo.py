"""A memo of a pure function: what is made of the documents of a dataset's many arrays is mostly the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from marshal import dumps
from typing import Generic, TypeVar

T = TypeVar("T")
# Of a dataset with many kinds of arrays the memo starts anew, which costs less than keeping their order of use. Long
# documents (a list of labels, say) differ from one another and would only take memory.
_MOST_ENTRIES, _LONGEST_KEY = 64, 1 << 14


def json_key(*values: object) -> Hashable | None:
    """Return what tells JSON values from others; None for long ones."""
    # Equal values of different types compare equal in a tuple, but not here. Version 2 has no marks of objects that
    # occur twice, which would tell apart what is equal; repr takes several times as long.
    try:
        key = dumps(values, 2)  # type: ignore[arg-type]  # they are JSON
    except ValueError:  # nested too deep
        return None
    return key if len(key) <= _LONGEST_KEY else None


class BoundedMemo(Generic[T]):
    """A pure function that is called once for values of the same ``key``, and always where they have none: by default
    JSON values, of which 1, 1.0 and true are three. Nobody may change its results, of which it keeps ``most``."""

    def __init__(
        self, function: Callable[..., T], key: Callable[..., Hashable | None] = json_key, most: int = _MOST_ENTRIES
    ) -> None:
        self._function = function
        self._key = key
        self._most = most
        self._results: dict[Hashable, T] = {}

    def __call__(self, *values: object) -> T:
        """Return the function's result for these values."""
        key = self._key(*values)
        results = self._results  # another thread may begin anew, by another dict: none ever loses what it has
        if key in results:
            return results[key]
        result = self._function(*values)
        if key is not None:
            if len(self._results) >= self._most:
                self._results = {}
            self._results[key] = result
        return result
