"""Several places that are named together. They have no keys of their own: a format that lies on several stores opens
each of its places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperslab.errors import Unsupported
from hyperslab.stores.base import Store


class SeveralStore(Store):
    """The places by their numbers, without anything in them."""

    def __init__(self, urls: Sequence[str], *, read_only: bool) -> None:
        url = " + ".join(urls)
        if not read_only:
            remedy = "open one of them, or gather them into one dataset (hs.gather)"
            raise Unsupported("places that are named together are only read", url=url, remedy=remedy)
        super().__init__(url, read_only=True)
        self._count = len(urls)

    def get(self, key: str) -> bytes | None:
        """Return None."""
        return None

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter(())

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """Return a folder for each place."""
        return [], [] if prefix else [str(number) for number in range(self._count)]
