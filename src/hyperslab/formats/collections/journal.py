"""The journal of an array that is stored in several tiles: which write over several of them was the last, and whether
all of its tiles have their keys.

It is one JSON document, written twice by each such write: as ``pending`` when all of its tiles lie aside (which is the
commit), and as ``done`` when they have been moved to their keys::

    {"txn": "5f0c…", "state": "pending", "after": "91d2…", "tiles": "c/0/0 c/0/1", "gone": "c/1/0"}

``after`` is the write before. A pending one that nobody is at work on is that of a dead writer. The stamp of the
document is the generation of the cells: while it stays the same, no write over several tiles has shown.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from hyperslab.formats.documents import read_document
from hyperslab.formats.format_errors import flawed
from hyperslab.stores.base import Stamp

_IS_TXN = re.compile(r"[0-9a-f]{16}").fullmatch
_MOST_TOLD = 256
"""Tiles that a write which is done may have touched and still tells of; readers of others then need not start again."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One write: its name, whether tiles of it may lie aside still, the write before, the keys (as they stand below the
    array's folder) of the tiles that it stored and of those that it removed. ``told``: whether those are known."""

    txn: str
    pending: bool
    after: str | None = None
    tiles: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    told: bool = True
    keys: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", frozenset((*self.tiles, *self.gone)))

    def done(self) -> JournalEntry:
        """The same write when all of its tiles have their keys."""
        if len(self.keys) > _MOST_TOLD:
            return JournalEntry(self.txn, False, self.after, told=False)
        return JournalEntry(self.txn, False, self.after, self.tiles, self.gone)

    def hides(self, before: JournalEntry | None, keys: Collection[str]) -> bool:
        """Return whether this write, or one between ``before`` and it, may have shown while these tiles were read."""
        if before is not None and before.txn == self.txn:
            return False
        known = self.told and self.after == (None if before is None else before.txn)
        return not known or len(self.keys.intersection(keys)) > 1

    def text(self) -> bytes:
        """The document."""
        doc: dict[str, Any] = {"txn": self.txn, "state": "pending" if self.pending else "done", "after": self.after}
        if self.told:
            doc |= {"tiles": " ".join(self.tiles), "gone": " ".join(self.gone)}
        return json.dumps(doc).encode()


def new_txn() -> str:
    """A name that no other write has."""
    return os.urandom(8).hex()


def parse(data: bytes, key: str) -> JournalEntry | None:
    """The entry of a document; FormatError for what is none. One that never came to the medium holds nothing: None."""
    if not bytes(data).strip(b"\0"):
        return None
    doc = read_document(data, key)
    txn, state, after = doc.get("txn"), doc.get("state"), doc.get("after")
    tiles, gone = doc.get("tiles", ""), doc.get("gone", "")
    good = all(isinstance(each, str) and _IS_TXN(each) for each in (txn, "0" * 16 if after is None else after))
    if not good or state not in ("pending", "done") or not isinstance(tiles, str) or not isinstance(gone, str):
        message = "this is no journal of a write"
        raise flawed("journal", message, key=key)
    return JournalEntry(str(txn), state == "pending", after, tuple(tiles.split()), tuple(gone.split()), "tiles" in doc)


class WriteJournal:
    """The journal under one key of a store. Several threads may ask it."""

    def __init__(self, store: Any, key: str) -> None:
        self.key = key
        self._store = store
        self._known: tuple[Stamp | None, JournalEntry | None] = None, None

    def look(self) -> tuple[Stamp | None, JournalEntry | None]:
        """The stamp of the journal and what it says now, by one request where nothing has changed."""
        store, (stamp, entry) = self._store, self._known
        if hasattr(store, "get_version"):
            found = store.get_version(self.key, unless=stamp)
            if found is not None and found.data is None:
                return stamp, entry
            return self._remember(None if found is None else found.stamp, None if found is None else found.data)
        if not hasattr(store, "stamp"):
            data = store.get(self.key)
            return data, None if data is None else parse(data, self.key)
        while True:
            now = store.stamp(self.key)
            if now == stamp:
                return stamp, entry
            data = store.get(self.key)
            if store.stamp(self.key) == now:
                return self._remember(now, data)

    def _remember(self, stamp: Stamp | None, data: Any) -> tuple[Stamp | None, JournalEntry | None]:
        known = stamp, None if data is None else parse(bytes(data), self.key)
        self._known = known
        return known

    def put(self, entry: JournalEntry, *, durable: bool) -> None:
        """Write what all others go by from now on."""
        self._store.put(self.key, entry.text(), durable=durable)

    def put_after(self, entry: JournalEntry, stamp: Stamp | None, *, durable: bool) -> None:
        """:meth:`put` in a store without locks: ``Conflict`` if another writer was here since it had this stamp."""
        self._store.put_if(self.key, entry.text(), stamp, durable=durable)

    def forget(self) -> None:
        """Remove it, before the first write over several tiles has shown."""
        self._store.delete(self.key)
