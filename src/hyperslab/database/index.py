"""The attributes of all arrays of a collection in a database of SQLite, kept up to date by generations.

An index is never a source of truth: what it finds is read again before it is given (:mod:`.queries`). Where its rows
are, and what the writers of a collection do for it, is in :mod:`hyperslab.formats.collections.index_database`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from weakref import WeakSet

from hyperslab.chunks.plan import batched
from hyperslab.chunks.pool import each_if_many
from hyperslab.database.conditions import Condition, Query
from hyperslab.formats.collections.base import CollectionStore
from hyperslab.formats.collections.index_database import UNSURE, IndexDatabase, PartNews, Row, stamp_digest
from hyperslab.formats.collections.index_queries import ColumnTest
from hyperslab.formats.collections.ranks import encode_rank
from hyperslab.model.schemas import Record
from hyperslab.stores.base import Unversioned
from hyperslab.stores.forks import call_after_fork

# Records that are in memory at once besides their rows.
RECORDS_PER_REFRESH = 1024


# Rows that are in memory at once before they are taken over, in one change: writers wait for half a second.
_ROWS_PER_CHANGE = 1 << 12


# Listings that are asked for at once: each is one request where requests are slow. And parts whose listings are in
# memory at once: of a million arrays these are an eighth, some 20 MB.
_THREADS, _LISTINGS = 8, 32


# Times that a refresh looks again while others make arrays; then it takes what it has: with writers that never rest it
# would look for ever. With 8 looks a reader beside a writer of 40 arrays at a time saw parts of them on a busy machine.
_LOOKS = 64


Answer = TypeVar("Answer")


@dataclass(slots=True)
class _News:
    """The findings of one look: parts that were listed; by id the rows of documents that were read; of these, the
    records of arrays that are not committed; ids that could not be read. ``is_empty``: they tell nothing new."""

    parts: dict[str, PartNews] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    pending: dict[str, Record] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    is_empty: bool = True


@dataclass(frozen=True, slots=True)
class AttributeIndexState:
    """The index of a collection: its ``place`` (a path or URL, empty where it is in the memory of each process), the
    ``nbytes`` that it takes, the number of ``parts`` that arrays are listed by, and of those that are ``stale``: who
    looks something up lists these, and reads the documents that changed."""

    collection: str
    place: str
    nbytes: int
    parts: int
    stale: int


def _column_test(condition: Condition) -> ColumnTest:
    spans = [(encode_rank(span.low), encode_rank(span.high), span.closed) for span in condition.spans]
    return ColumnTest(spans, condition.pattern, condition.negated)


class AttributeIndex:
    """The attributes of a collection's arrays, for queries from any thread.

    It is in the file of the collection's index, where that has one, else in memory. ``unread``: the number of arrays
    that the last refresh left out, since their records could not be read.
    """

    def __init__(self, store: CollectionStore) -> None:
        self.store = store
        self._stored = store.document.stored
        self._database = store.index_database or IndexDatabase(self._stored.attributes)
        self._begin()
        _indexes.add(self)

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._pending: dict[str, Record] = {}
        self._unsettled: set[str] = set()
        self.unread = 0

    def make(self) -> int:
        """Make the index that is stored anew, of all documents; return how many arrays there are."""
        with self._lock:
            self._database.begin_anew()
            count = self.count()
            self._database.publish(wait=True)
            self._database.remove_leftovers()
            return count

    def catch_up(self, seconds: float) -> int:
        """List parts that the stored index does not know, or knows older, for so many seconds; return how many are
        left. What was found is stored, so the next one goes on from there."""
        begin = time.monotonic()
        with self._lock:
            stamps = self.store.generations()
            self._database.reload()
            known = self._database.stamps()
            present = {part: stamp_digest(stamp) for part, stamp in stamps.items()}
            # What is never sure is looked at by each question: to list it here would spare nobody anything.
            stale = [part for part, stamp in present.items() if stamp != UNSURE and known.get(part) != stamp]
            done, some = 0, 1
            while done < len(stale) and (spent := time.monotonic() - begin) < seconds:
                # Some at once as soon as that is sure to end in time: listings may be requests of 50 ms each.
                some = min(2 * some, _LISTINGS) if spent < seconds / 4 else 1
                parts = stale[done : done + some]
                for news, _ in self._look_at_parts({part: present[part] for part in parts}, known):
                    self._database.refresh(news.parts, news.rows, news.pending, news.unread)
                done += len(parts)
            return len(stale) - done

    def state(self) -> AttributeIndexState:
        """Return what is stored of the index, beside the present state of the collection."""
        place, stamps = self._database.place(), self.store.generations()
        stale = [part for part, stamp in stamps.items() if _has_changed(place.stamps.get(part), stamp_digest(stamp))]
        return AttributeIndexState(self.store.document.name, place.url, place.nbytes, len(stamps), len(stale))

    def count(self) -> int:
        """Return how many arrays there are now."""
        return self._look_up(self._database.count)

    def ids(self, query: Query, limit: int | None = None) -> list[str]:
        """Return the ids of the arrays that fulfil a query, in its order: so many of them, whatever its own limit."""
        tests = [
            {self._stored.stored_name(each.attribute.name): _column_test(each) for each in some}
            for some in query.alternatives
        ]
        order = None if query.order is None else self._stored.stored_name(query.order)
        return self._look_up(lambda: self._database.ids(tests, order, backwards=query.backwards, limit=limit))

    def tell_unread(self, ids: Iterable[str]) -> None:
        """Take over that documents could not be read, of which the index knew when they could: those that are there
        still are damaged, and are left out until they are read again."""
        damaged = {id for id in ids if self.store.stamp(id) is not None}
        if damaged:
            with self._lock:
                self.unread += self._database.put_unsettled({}, (), damaged)

    def _look_up(self, question: Callable[[], Answer]) -> Answer:
        """Ask the database when it is up to date, and still the one that was brought up to date."""
        with self._lock:
            for _ in range(_LOOKS):
                state = self._database.state()
                with self._database.snapshot():
                    self._refresh()
                    answer = question()
                # What others have put into the file meanwhile may hide what was found a moment ago.
                if self._database.state() == state:
                    break
            self._database.share()
            return answer

    # -- following changes ------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Look at what changed since the last time, until nothing does: of arrays that are made together a look while
        they are made may find those alone that it came to last."""
        looks = 0.0
        while looks < _LOOKS:
            stamps, unsettled = self.store.list_changes()
            self._unsettled.update(unsettled)
            new, is_complete = self._follow({part: stamp_digest(stamp) for part, stamp in stamps.items()})
            unversioned = any(isinstance(stamp, Unversioned) for stamp in stamps.values())
            if is_complete and (not new or unversioned or self.store.generations() == stamps):
                break
            # Another process that was faster with a part may have listed it before we did: that counts for an eighth.
            looks += 1 if is_complete else 1 / 8

    def _follow(self, stamps: Mapping[str, int]) -> tuple[int, bool]:
        """Take over what changed. Return how many arrays were not there before, and False when another process was
        faster."""
        known = self._database.stamps()
        if any(_has_changed(known.get(part), stamp) for part, stamp in stamps.items()) and self._database.reload():
            known = self._database.stamps()
        self._database.forget(known.keys() - stamps.keys())
        stale = [part for part, stamp in stamps.items() if _has_changed(known.get(part), stamp)]
        unread, new, is_complete = 0, 0, True
        for parts in batched(stale, _LISTINGS):
            for news, made in self._look_at_parts({part: stamps[part] for part in parts}, known):
                unread += len(news.unread)
                new += made
                if not news.is_empty or news.rows or news.unread:
                    is_complete &= self._database.refresh(news.parts, news.rows, news.pending, news.unread)
                self._pending.update(news.pending)
        unread += self._read_unsettled()
        new += self._confirm_pending()
        self.unread = unread
        return new, is_complete

    def _look_at_parts(self, stamps: Mapping[str, int], known: Mapping[str, int]) -> Iterable[tuple[_News, int]]:
        """List parts, and read the documents that are new or changed: some parts at a time. Yield with the findings the
        number of ids that are new."""
        listings: dict[str, dict[str, int]] = {}

        def list_part(part: str) -> None:
            listings[part] = {id: stamp_digest(stamp) for id, stamp in self.store.list_part(part).items()}

        each_if_many(list_part, list(stamps), _THREADS)
        news, changed, new = _News(), dict[str, int](), 0
        for part in stamps:
            marks = listings.pop(part)
            before = self._database.marks(part)
            news.parts[part] = PartNews(known.get(part), stamps[part], marks)
            changed.update((id, mark) for id, mark in marks.items() if _has_changed(before.get(id), mark))
            new += len(marks.keys() - before.keys())
            news.is_empty &= stamps[part] == UNSURE and part in known and before.keys() == marks.keys()
            if len(changed) >= _ROWS_PER_CHANGE:
                self._read(changed, news)
                yield news, new
                news, changed, new = _News(), {}, 0
        self._read(changed, news)
        yield news, new

    def _read_unsettled(self) -> int:
        """Read documents whose writer may have died before it said that they changed; also those that were found so
        once, and that no listing has told of since. Return how many of them could not be read."""
        if not self._unsettled:
            return 0
        news = _News()
        self._read(dict.fromkeys(self._unsettled, UNSURE), news)
        self._pending.update(news.pending)
        lost = self._database.put_unsettled(news.rows, news.pending, news.unread)
        self._unsettled = self._database.unsure_ids(self._unsettled - news.unread)
        return lost

    def _confirm_pending(self) -> int:
        """Take over those arrays whose creation was not completed when they were looked at last, and is by now; return
        how many. When one of those that are made together was committed by now, all are: so this is looked at after all
        else, and again at what was not committed a moment ago."""
        pending = self._database.pending()
        self._pending = {id: record for id, record in self._pending.items() if id in pending}
        if not pending:
            return 0
        self._pending.update((record.id, record) for record in self.store.records(pending - self._pending.keys()))
        committed = {record.id for record in self.store.filter_committed(list(self._pending.values()))}
        if committed:
            left = [record for id, record in self._pending.items() if id not in committed]
            committed.update(record.id for record in self.store.filter_committed(left))
            self._database.confirm(committed)
        return len(committed)

    def _read(self, ids: Mapping[str, int], news: _News) -> None:
        """Read the records of ids, whose documents have these marks; what is not there, or damaged, is unread."""
        left = set(ids)
        for batch in batched(self.store.records(ids) if ids else (), RECORDS_PER_REFRESH):
            committed = {record.id for record in self.store.filter_committed(batch)}
            for record in batch:
                left.discard(record.id)
                news.rows[record.id] = self._database.row(self._stored.record_to_stored(record), ids[record.id])
                if record.id not in committed:
                    news.pending[record.id] = record
        news.unread |= left


def _has_changed(before: int | None, now: int) -> bool:
    """Return True unless a stamp or mark is known to be that of before."""
    return before != now or now == UNSURE


_indexes: WeakSet[AttributeIndex] = WeakSet()


def _begin_anew() -> None:
    """Begin anew in a forked child: whoever held the lock is not in this process, and may have been half-way."""
    for index in _indexes:
        index._begin()


call_after_fork(_begin_anew)
