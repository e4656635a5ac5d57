"""What a bucket or a web server lists, by few requests: each answer tells names, versions and sizes of many objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from hyperslab.errors import StorageError, Unsupported
from hyperslab.stores import counting
from hyperslab.stores.base import Stamp, Unversioned
from hyperslab.stores.keys import below, check_key, check_prefix, is_key
from hyperslab.stores.requests import lists_nothing, request
from hyperslab.stores.store_base import OfThisProcess

Result = TypeVar("Result")
Names = list[str]
Entries = list[tuple[str, Any]]

PAGE = 1000
"""Keys that are listed, or removed, by one request."""


@dataclass(frozen=True)
class StoreListings:
    """What is asked for listings: ``stores``, in turn until one answers, whose names begin with ``above``."""

    above: str
    stores: Sequence[Any]

    def below(self, prefix: str) -> tuple[str | None, int]:
        """What stands there for a prefix of ours, and the length of what precedes the names below it."""
        whole = "/".join(filter(None, (self.above, prefix)))
        return whole or None, len(whole) + 1 if whole else 0


class ObjectListing(OfThisProcess):
    """An object store, as far as it lists."""

    def __init__(self, store: Any, url: str, lists: StoreListings, *, read_only: bool) -> None:
        import obstore

        super().__init__(url, read_only=read_only)
        self._obstore = obstore
        self._store = store
        self._by_version = type(store).__name__ == "GCSStore"
        self._lists = lists
        self._lists_nothing = self._lists_something = False

    def _stamp(self, meta: Mapping[str, Any]) -> Stamp:
        """Google swaps by the number of a version, the others by the ETag; a server that has none tells the time,
        which obstore gives as 1970 where it does not."""
        if self._by_version:
            return meta["e_tag"], meta.get("version")
        time = meta.get("last_modified")
        return meta["e_tag"] or ((meta["size"], time) if time is not None and time.timestamp() else Unversioned())

    def list(self, prefix: str = "") -> Iterator[str]:
        """Every key below ``prefix/``, sorted."""
        return iter(sorted(filter(is_key, self._below(check_prefix(prefix)))))

    def _below(self, prefix: str) -> Names:
        """Every name below ``prefix/``, whatever it is, or that of the prefix itself left out."""
        return [name for name, _ in self._entries_below(prefix)]

    def _entries_below(self, prefix: str) -> Entries:
        """What the server tells of each."""
        where, skip = self._lists.below(prefix)[0], self._lists.below("")[1]

        def walk(store: Any) -> Entries:
            pages = self._obstore.list(store, where, chunk_size=PAGE)
            found = [(entry["path"][skip:], entry) for page in pages for entry in page]
            if counting.traces:
                counting.count(len(found) // PAGE)
            return found

        start, found = below(prefix), self._listing(prefix, walk)
        self._check_listing(is_empty=not found)
        return [(name, entry) for name, entry in found if name.startswith(start)]

    def entries(self, folder: str, tail: str = "") -> Iterator[tuple[str, Stamp, int]]:
        """Name, stamp and size of every ``folder/<name>`` (``folder/<name>/<tail>``) that is there, in any order."""
        skip, behind = len(below(check_prefix(folder))), check_key(tail) if tail else ""
        for key, entry in self._entries_below(folder):
            name, _, rest = key[skip:].partition("/")
            if rest == behind and is_key(name):
                yield name, self._stamp(entry), entry["size"]

    def nbytes_below(self, prefix: str) -> int:
        """Bytes of all objects below ``prefix/``."""
        return sum(entry["size"] for _, entry in self._entries_below(check_prefix(prefix)))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """The names right below ``prefix/``: (keys, sub-prefixes), each sorted."""
        where, skip = self._lists.below(check_prefix(prefix))
        found = self._listing(prefix, lambda store: self._obstore.list_with_delimiter(store, where))
        self._check_listing(is_empty=not found["objects"] and not found["common_prefixes"])
        keys = (entry["path"][skip:] for entry in found["objects"])
        inner = (path[skip:] for path in found["common_prefixes"])
        return sorted(filter(is_key, keys)), sorted(filter(is_key, inner))

    def _check_listing(self, *, is_empty: bool) -> None:
        """Raise Unsupported where an empty listing means that the server knows no folders, which to it are missing:
        then not even the place that was opened, which holds a document, has a name in it."""
        if not is_empty or self._lists_something or len(self._lists.stores) == 1:
            return
        where, _ = self._lists.below("")
        found = self._listing("", lambda store: self._obstore.list_with_delimiter(store, where))
        self._lists_something = bool(found["objects"] or found["common_prefixes"])
        if not self._lists_something:
            self._lists_nothing = True
            raise lists_nothing(self._url)

    def _listing(self, prefix: str, call: Callable[[Any], Result]) -> Result:
        """What ``call`` lists; Unsupported where the server lists nothing, which is asked once."""
        if self._lists_nothing:
            raise lists_nothing(self._url)
        *hasty, last = self._lists.stores
        try:
            for store in hasty:
                with suppress(StorageError):
                    return self._ask(prefix, call, store, listing=True)
            return self._ask(prefix, call, last, listing=bool(hasty))
        except FileNotFoundError:  # where folders are nothing to the server
            self._lists_nothing = True
            raise lists_nothing(self._url) from None
        except Unsupported:
            self._lists_nothing = True
            raise

    def _ask(
        self,
        key: str,
        call: Callable[..., Result],
        *arguments: Any,
        writing: bool = False,
        ranged: bool = False,
        listing: bool = False,
    ) -> Result:
        if counting.traces:
            counting.count(1)
        called = partial(call, *arguments)
        return request(called, self._obstore, self._url, key, writing=writing, ranged=ranged, listing=listing)
