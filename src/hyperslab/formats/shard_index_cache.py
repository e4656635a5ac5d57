"""Where the chunks in a stored value lie, remembered as long as the value is the same."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

MOST = 64 << 20
"""Bytes of decoded indexes that one array remembers."""


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)


class ShardIndexCache(dict[str, tuple[Any, T]]):
    """By key: the stamp of a value, and its index."""

    def remember(self, key: str, stamp: Any, index: T) -> None:
        """Take one more; all are forgotten where they would be too many."""
        if len(self) * index.nbytes > MOST:
            self.clear()
        self[key] = (stamp, index)
