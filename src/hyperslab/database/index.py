"""The attributes of all arrays of a collection in memory, kept up to date by generations.

An index is never a source of truth: what it finds is read again before it is given (:mod:`.queries`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from weakref import WeakSet

from hyperslab.chunks.pool import batched, each_if_many
from hyperslab.database import index_text
from hyperslab.database.conditions import Query
from hyperslab.database.table import AttributeColumns, Row, Table
from hyperslab.errors import ReadOnly, StorageError
from hyperslab.formats.collection_stores import CachesIndex, CollectionStore
from hyperslab.model.schemas import Record
from hyperslab.stores.base import Stamp, Unversioned

_BATCH = 1024
_THREADS = 8
_LOOKS = 8
"""Times that a refresh looks again while others make arrays; then it takes what it has."""
_WORTH_KEEPING = 256
"""Rows that must have changed for an index to be stored again, and a sixteenth of all of them."""


@dataclass(slots=True)
class _News:
    """What a look at the collection found: parts anew, and by id rows, records that are not committed, what is gone."""

    parts: dict[str, index_text.ListedPart] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    pending: dict[str, Record] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)


class AttributeIndex:
    """The attributes of a collection's arrays, for queries from any thread.

    Where the collection's document says ``"index": "stored"`` it is kept in the store, for whoever opens it next.
    """

    def __init__(self, holding: CollectionStore) -> None:
        self._holding = holding
        self._columns = AttributeColumns(holding.document.schema)
        self._keeper = holding if isinstance(holding, CachesIndex) and holding.keeps_index else None
        self._begin()
        _indexes.add(self)

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._parts: dict[str, index_text.ListedPart] = {}
        self._pending: dict[str, Record] = {}
        self._loose: set[str] = set()
        self._table = Table(self._columns)
        self._changes = 0
        self._unread = 0
        self._is_loaded = self._keeper is None

    @property
    def holding(self) -> CollectionStore:
        """The arrays that it is of."""
        return self._holding

    def count(self) -> int:
        """How many arrays there are now."""
        with self._lock:
            self._refresh()
            return len(self._table.rows)

    def rows(self, query: Query) -> list[Row]:
        """What the index knows of the arrays that fulfil a query, in its order; of all of them, whatever its limit."""
        with self._lock:
            self._refresh()
            return self._table.found(query)

    @property
    def unread(self) -> int:
        """How many arrays the last look left out, since their records could not be read."""
        return self._unread

    # -- following changes ------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Look at what changed since the last time, until nothing does: of arrays that are made together a look while
        they are made may find those alone that it came to last."""
        if not self._is_loaded:
            self._load()
        for _ in range(_LOOKS):
            stamps = self._holding.generations()
            has_more = self._follow({part: _mark(stamp) for part, stamp in stamps.items()})
            unversioned = any(isinstance(stamp, Unversioned) for stamp in stamps.values())
            if not has_more or unversioned or self._holding.generations() == stamps:
                break

    def _follow(self, stamps: Mapping[str, int]) -> bool:
        """Take over what changed: an error on the way leaves all as it was. True when there are several arrays
        that were not there before."""
        news = _News()
        self._look_at_parts(stamps, news)
        loose = self._look_at_unsettled(news)
        self._look_at_pending(news)
        self._look_again(news)
        self._parts = {part: news.parts.get(part) or self._parts[part] for part in stamps}
        self._loose = {id for id in loose if id not in news.gone and not self._is_listed(id)}
        self._pending = {id: each for id, each in self._pending.items() if id not in news.gone and id not in news.rows}
        self._pending.update(news.pending)
        self._unread = self._left_unread(news.gone)
        several = len(news.rows.keys() - self._table.rows.keys()) > 1
        self._table.change(news.gone | news.pending.keys(), news.rows)
        self._changes += len(news.gone) + len(news.rows)
        if self._changes > max(_WORTH_KEEPING, len(self._table.rows) >> 4):
            self._keep()
        return several

    def _left_unread(self, gone: Collection[str]) -> int:
        """How many are listed and could not be read, for now or because they are damaged: the next look reads them."""
        count = 0
        for part in self._parts.values():
            if unread := part.marks.keys() & gone:
                count += len(unread)
                part.stamp = index_text.UNSURE
                for id in unread:
                    del part.marks[id]
        return count

    def _is_listed(self, id: str) -> bool:
        return any(id in part.marks for part in self._parts.values())

    def _look_at_parts(self, stamps: Mapping[str, int], news: _News) -> None:
        """The documents of parts whose stamps changed: those that are new, other ones or gone."""
        for part in self._parts.keys() - stamps.keys():
            news.gone.update(self._parts[part].marks)
        stale = [part for part, stamp in stamps.items() if part not in self._parts or self._parts[part].stamp != stamp]
        listings = self._listings(stale)
        changed: list[str] = []
        for part in stale:
            marks = listings[part]
            before = self._parts[part].marks if part in self._parts else {}
            news.parts[part] = index_text.ListedPart(stamps[part], marks)
            news.gone.update(before.keys() - marks.keys())
            changed += [id for id, mark in marks.items() if before.get(id) != mark]
        self._read(changed, news)

    def _listings(self, parts: Collection[str]) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}

        def look(part: str) -> None:
            found[part] = {id: _mark(stamp) for id, stamp in self._holding.listing(part).items()}

        each_if_many(look, parts, _THREADS)
        return found

    def _look_at_unsettled(self, news: _News) -> set[str]:
        """Documents whose writer may have died before it said that they changed; also those that were found so once,
        and that no listing has told of since."""
        ids = {id for id in {*self._holding.unsettled(), *self._loose} if id not in news.rows and id not in news.gone}
        self._read(ids, news)
        return ids

    def _look_at_pending(self, news: _News) -> None:
        """Arrays whose creation was not completed when they were looked at last."""
        known = {*news.gone, *news.pending, *news.rows}
        waiting = [record for id, record in self._pending.items() if id not in known]
        for record in self._holding.committed(waiting) if waiting else ():
            news.rows[record.id] = self._columns.row(record, record.id)

    def _look_again(self, news: _News) -> None:
        """Arrays that were not committed a moment ago, in this look or an earlier one: when one of those made together
        was by now, all are."""
        pending = {**self._pending, **news.pending}
        left = [record for id, record in pending.items() if id not in news.rows and id not in news.gone]
        for record in self._holding.committed(left) if news.rows and left else ():
            news.rows[record.id] = self._columns.row(record, record.id)
            news.pending.pop(record.id, None)

    def _read(self, ids: Collection[str], news: _News) -> None:
        """Records by their ids; what is not there, or damaged, is gone for now."""
        records = self._holding.records(ids) if ids else ()
        left = {id: id for id in ids}
        for batch in batched(records, _BATCH):
            committed = {record.id for record in self._holding.committed(batch)}
            for record in batch:
                id = left.pop(record.id, record.id)  # one text for all that is known of it
                if id in committed:
                    news.rows[id] = self._columns.row(record, id)
                else:
                    news.pending[id] = record
        news.gone.update(left)

    # -- the stored one ---------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Begin with what is stored; where it is none of this collection's, or damaged, with nothing."""
        self._is_loaded = True
        data = None
        with suppress(StorageError):
            data = self._keeper.cached_index() if self._keeper else None
        found = index_text.parse(data, self._columns.attributes) if data else None
        if found is not None:
            self._parts = found.parts
            self._table.change((), found.rows)

    def _keep(self) -> None:
        """Store it, where that is wanted and can be."""
        self._changes = 0
        if self._keeper is not None:
            with suppress(ReadOnly, StorageError):  # it is a cache: the next one may write it
                data = index_text.render(
                    index_text.StoredIndex(self._parts, self._table.rows), self._columns.attributes
                )
                self._keeper.keep_index(data)


def _mark(stamp: Stamp) -> int:
    """A stamp in few bytes: equal ones have equal marks, in every process, and others as good as never."""
    if isinstance(stamp, Unversioned):
        return int.from_bytes(os.urandom(8))
    return int.from_bytes(blake2b(repr(stamp).encode(), digest_size=8).digest())


_indexes: WeakSet[AttributeIndex] = WeakSet()


def _begin_anew() -> None:
    """In a forked child: whoever held the lock is not in this process, and may have been half-way."""
    for index in _indexes:
        index._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
