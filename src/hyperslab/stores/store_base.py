"""What every store says of itself: where it is, and whether it takes writes."""

from __future__ import annotations

from typing import NoReturn

from hyperslab.errors import ReadOnly, Unsupported


class StoreBase:
    """A store at ``url``, which is shown in errors and must hold no secrets."""

    def __init__(self, url: str, *, read_only: bool) -> None:
        self._url = url
        self._read_only = read_only

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return self._url

    @property
    def read_only(self) -> bool:
        """Return whether writes are refused."""
        return self._read_only

    def close(self) -> None:
        """Nothing is held open, or whoever made what is held closes it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r}{', read_only=True' if self._read_only else ''})"

    def _writable(self, key: str | None = None) -> None:
        if self._read_only:
            raise ReadOnly("the store was opened for reading", url=self._url, key=key, remedy="open it for writing")


class OfThisProcess(StoreBase):
    """A store that knows credentials or holds connections: it is never pickled."""

    def __reduce__(self) -> NoReturn:
        raise Unsupported("a store object cannot be pickled", url=self._url, remedy="name its place by a path or URL")
