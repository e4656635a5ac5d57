"""The attributes of all arrays of a collection in memory, kept up to date by generations.

An index is never a source of truth: what it finds is read again before it is given (:mod:`.queries`).

It may be stored with the collection: a line of magic and the BLAKE2b of the rest, then compressed JSON: the attributes
of the schema, by part its mark and those of its documents, by id the values of a row. Nobody trusts it: any doubt makes
it void, what it says of a part holds while the mark of that part is the present one, and what a query finds by it is
read again."""

from __future__ import annotations

import json
import os
import threading
import zlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import itemgetter
from typing import Any
from weakref import WeakSet

from hyperslab.chunks.plan import batched
from hyperslab.chunks.pool import each_if_many
from hyperslab.database.conditions import Condition, Query, Rank, ranker
from hyperslab.errors import ReadOnly, StorageError
from hyperslab.formats.collections.base import CollectionStore
from hyperslab.formats.metadata_json.records import value_from_json, value_to_json
from hyperslab.model.schemas import AnyArraySchema, AttributeSchema, Record
from hyperslab.stores.base import Stamp, Unversioned
from hyperslab.stores.forks import call_after_fork

# Records that are in memory at once besides the rows.
RECORDS_PER_REFRESH = 1024


# Listings that are asked for at once: each is one request where requests are slow.
_THREADS = 8


# Times that a refresh looks again while others make arrays; then it takes what it has: with writers that never rest it
# would look for ever.
_LOOKS = 8


# Rows that must have changed for an index to be stored again, and a sixteenth of all of them.
_WORTH_KEEPING = 256


@dataclass(slots=True)
class _News:
    """The findings of one look: parts that changed; by id rows, records that are not committed, and what is gone."""

    parts: dict[str, ListedPart] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    pending: dict[str, Record] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)


class AttributeIndex:
    """The attributes of a collection's arrays, for queries from any thread.

    Where the collection's document says ``"index": "stored"`` it is kept in the store, for whoever opens it next.
    ``unread``: the number of arrays that the last refresh left out, since their records could not be read.
    """

    def __init__(self, store: CollectionStore) -> None:
        self.store = store
        self._columns = AttributeColumns(store.document.schema)
        self._keeper = store if store.stores_index else None
        self._begin()
        _indexes.add(self)

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._parts: dict[str, ListedPart] = {}
        self._pending: dict[str, Record] = {}
        self._loose: set[str] = set()
        self._table = Table(self._columns)
        self._changes = 0
        self.unread = 0
        self._is_loaded = self._keeper is None

    def count(self) -> int:
        """Return how many arrays there are now."""
        with self._lock:
            self._refresh()
            return len(self._table.rows)

    def rows(self, query: Query) -> list[Row]:
        """Return the rows of the arrays that fulfil a query, in its order; all of them, whatever its limit."""
        with self._lock:
            self._refresh()
            return self._table.find_rows(query)

    # -- following changes ------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Look at what changed since the last time, until nothing does: of arrays that are made together a look while
        they are made may find those alone that it came to last."""
        if not self._is_loaded:
            self._load()
        for _ in range(_LOOKS):
            stamps = self.store.generations()
            has_more = self._follow({part: _stamp_digest(stamp) for part, stamp in stamps.items()})
            unversioned = any(isinstance(stamp, Unversioned) for stamp in stamps.values())
            if not has_more or unversioned or self.store.generations() == stamps:
                break

    def _follow(self, stamps: Mapping[str, int]) -> bool:
        """Take over what changed: an error on the way leaves all as it was. True when there are several arrays
        that were not there before."""
        news = _News()
        self._look_at_parts(stamps, news)
        # Documents whose writer may have died before it said that they changed; also those that were found so once,
        # and that no listing has told of since.
        loose = {*self.store.unsettled_ids(), *self._loose}.difference(news.rows, news.gone)
        self._read(loose, news)
        # Arrays whose creation was not completed when they were looked at last.
        self._take_committed({id: each for id, each in self._pending.items() if id not in news.pending}, news)
        # When one of those that are made together was committed by now, all are: look again at what was not a moment
        # ago, in this look or an earlier one.
        if news.rows:
            self._take_committed({**self._pending, **news.pending}, news)
        self._parts = {part: news.parts.get(part) or self._parts[part] for part in stamps}
        listed = {id for part in self._parts.values() for id in loose if id in part.marks}
        self._loose = loose.difference(listed, news.gone)
        self._pending = {id: each for id, each in self._pending.items() if id not in news.gone and id not in news.rows}
        self._pending.update(news.pending)
        self.unread = self._forget_unread(news.gone)
        several = len(news.rows.keys() - self._table.rows.keys()) > 1
        self._table.change(news.gone | news.pending.keys(), news.rows)
        self._changes += len(news.gone) + len(news.rows)
        if self._changes > max(_WORTH_KEEPING, len(self._table.rows) >> 4):
            self._keep()
        return several

    def _forget_unread(self, gone: Collection[str]) -> int:
        """Forget what is listed and could not be read, for now or because it is damaged, so that the next look reads
        it; return how many arrays those are."""
        count = 0
        for part in self._parts.values():
            if unread := part.marks.keys() & gone:
                count += len(unread)
                part.stamp = UNSURE
                for id in unread:
                    del part.marks[id]
        return count

    def _look_at_parts(self, stamps: Mapping[str, int], news: _News) -> None:
        """Read the documents of parts whose stamps changed: those that are new, changed or gone."""
        for part in self._parts.keys() - stamps.keys():
            news.gone.update(self._parts[part].marks)
        stale = [part for part, stamp in stamps.items() if part not in self._parts or self._parts[part].stamp != stamp]
        listings: dict[str, dict[str, int]] = {}

        def list_part(part: str) -> None:
            listings[part] = {id: _stamp_digest(stamp) for id, stamp in self.store.list_part(part).items()}

        each_if_many(list_part, stale, _THREADS)
        changed: list[str] = []
        for part in stale:
            marks = listings[part]
            before = self._parts[part].marks if part in self._parts else {}
            news.parts[part] = ListedPart(stamps[part], marks)
            news.gone.update(before.keys() - marks.keys())
            changed += [id for id, mark in marks.items() if before.get(id) != mark]
        self._read(changed, news)

    def _take_committed(self, pending: Mapping[str, Record], news: _News) -> None:
        """Take over the rows of those of the ``pending`` records whose arrays exist by now."""
        left = [record for id, record in pending.items() if id not in news.rows and id not in news.gone]
        for record in self.store.filter_committed(left) if left else ():
            news.rows[record.id] = self._columns.row(record, record.id)
            news.pending.pop(record.id, None)

    def _read(self, ids: Collection[str], news: _News) -> None:
        """Records by their ids; what is not there, or damaged, is gone for now."""
        records = self.store.records(ids) if ids else ()
        left = {id: id for id in ids}
        for batch in batched(records, RECORDS_PER_REFRESH):
            committed = {record.id for record in self.store.filter_committed(batch)}
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
            data = self._keeper.read_index() if self._keeper else None
        found = parse_index(data, self._columns.attributes) if data else None
        if found is not None:
            self._parts, rows = found
            self._table.change((), rows)

    def _keep(self) -> None:
        """Store it, where that is wanted and can be."""
        self._changes = 0
        if self._keeper is not None:
            with suppress(ReadOnly, StorageError):  # it is a cache: the next one may write it
                data = index_bytes(self._parts, self._table.rows, self._columns.attributes)
                self._keeper.write_index(data)


def _stamp_digest(stamp: Stamp) -> int:
    """Return a stamp in few bytes: equal ones have equal marks, in every process, and others as good as never."""
    if isinstance(stamp, Unversioned):
        return int.from_bytes(os.urandom(8))
    return int.from_bytes(blake2b(repr(stamp).encode(), digest_size=8).digest())


_indexes: WeakSet[AttributeIndex] = WeakSet()


def _begin_anew() -> None:
    """In a forked child: whoever held the lock is not in this process, and may have been half-way."""
    for index in _indexes:
        index._begin()


call_after_fork(_begin_anew)


# -- rows in the orders of their attributes ---------------------------------------------------------------------------


Row = tuple[Any, ...]
"""An id, then the values of the attributes in the schema's order."""


# Changed rows up to which sorted lists are always kept and changed in place.
_FEW = 64


# How many times as long it takes to put a row into a sorted list as to sort it with all others.
_COSTLIER = 16


class AttributeColumns:
    """Where the values of an attribute stand in a row, and how they rank."""

    def __init__(self, schema: AnyArraySchema) -> None:
        self.attributes = schema.attributes
        self._place = {attribute.name: place for place, attribute in enumerate(schema.attributes, 1)}
        self._rankers = {attribute.name: ranker(attribute) for attribute in schema.attributes}
        self.key = [attribute.name for attribute in schema.primary_attributes]

    def row(self, record: Record, id: str) -> Row:
        """Return a record as a row of this id."""
        parts = (record.primary if known.primary else record.custom for known in self.attributes)
        return (id, *(part.get(known.name) for part, known in zip(parts, self.attributes, strict=True)))

    def rank(self, name: str) -> Callable[[Row], Rank]:
        """Return the function that gives the rank of a row's attribute."""
        place, rank = self._place[name], self._rankers[name]
        return lambda row: rank(row[place])

    def order(self, name: str | None) -> Callable[[Row], Row]:
        """Return the sort key of rows: an attribute, among equals the key, and the id in the end."""
        ranks = [self.rank(known) for known in ([] if name is None else [name]) + self.key]
        return lambda row: (*[rank(row) for rank in ranks], row[0])


class Table:
    """Rows by id, and in the orders that were asked for."""

    def __init__(self, columns: AttributeColumns) -> None:
        self.rows: dict[str, Row] = {}
        self._columns = columns
        self._sorted: dict[str | None, list[Row]] = {}

    def change(self, gone: Iterable[str], rows: Mapping[str, Row]) -> None:
        """Take rows out by id, and put others in or in the place of their like."""
        old = [row for id in {*gone, *rows} if (row := self.rows.pop(id, None)) is not None]
        self.rows.update(rows)
        count = len(old) + len(rows)
        if count > _FEW and count * _COSTLIER > len(self.rows):
            self._sorted.clear()
        for name, rows_in_order in self._sorted.items():
            order = self._columns.order(name)
            for row in old:
                del rows_in_order[bisect_left(rows_in_order, order(row), key=order)]
            for row in rows.values():
                insort(rows_in_order, row, key=order)

    def find_rows(self, query: Query) -> list[Row]:
        """Return the rows that fulfil a query: those of its most telling condition, then of these those of all
        others."""
        if not query.conditions:
            return self._in_query_order(self._in_order(query.order), query)
        spans = {condition.attribute.name: self._spans(condition) for condition in query.conditions}
        first = min(query.conditions, key=lambda each: sum(map(len, spans[each.attribute.name])))
        name = first.attribute.name
        in_order = self._in_order(name)
        rows = [row for span in spans[name] for row in in_order[span.start : span.stop]]
        for condition in query.conditions:
            if condition is not first:
                rank = self._columns.rank(condition.attribute.name)
                rows = [row for row in rows if condition.fits(rank(row))]
        if name != query.order:
            rows.sort(key=self._columns.order(query.order))
        return self._in_query_order(rows, query)

    def _in_query_order(self, rows: list[Row], query: Query) -> list[Row]:
        """Rows in the order of a query; backwards those without a value stay last."""
        if not query.backwards or query.order is None:
            return rows[::-1] if query.backwards else rows[:]
        known = bisect_left(rows, (1,), key=self._columns.rank(query.order))
        return rows[:known][::-1] + rows[known:]

    def _spans(self, condition: Condition) -> list[range]:
        """Return the places of rows that fulfil a condition, in the order of its attribute."""
        name = condition.attribute.name
        rows, rank = self._in_order(name), self._columns.rank(name)
        found = []
        for span in condition.spans:
            start = bisect_left(rows, span.low, key=rank)
            end = bisect_right if span.closed else bisect_left
            found.append(range(start, max(end(rows, span.high, key=rank), start)))
        return found

    def _in_order(self, name: str | None) -> list[Row]:
        """Return all rows in the order of an attribute, or of the key: sorted by what counts least first, which takes
        the least memory."""
        if name in self._sorted:
            return self._sorted[name]
        if name is None:
            rows = sorted(self.rows.values(), key=itemgetter(0))
            for known in reversed(self._columns.key):
                rows.sort(key=self._columns.rank(known))
        else:
            rows = sorted(self._in_order(None), key=self._columns.rank(name))
        self._sorted[name] = rows
        return rows


# -- the stored index -------------------------------------------------------------------------------------------------


_MAGIC = b"hyperslab index 1 "


# Bytes of JSON: of some two million arrays.
_LARGEST = 1 << 29


UNSURE = 0
"""The mark of a part that is to be looked at again, whatever its present one is."""


@dataclass(slots=True)
class ListedPart:
    """The documents that are listed together: a mark that changes when one of them does, and those of all by id."""

    stamp: int
    marks: dict[str, int]


def index_bytes(
    listed: Mapping[str, ListedPart], rows: Mapping[str, Row], attributes: Sequence[AttributeSchema]
) -> bytes:
    """Return an index as bytes; of parts in which an array is not committed, or damaged, only what is sure."""
    parts: dict[str, tuple[int, dict[str, int]]] = {}
    for name, part in listed.items():
        known = {id: mark for id, mark in part.marks.items() if id in rows}
        parts[name] = (part.stamp if len(known) == len(part.marks) else UNSURE, known)
    values = {id: [value_to_json(value) for value in rows[id][1:]] for _, marks in parts.values() for id in marks}
    doc = {"attributes": [each.as_dict for each in attributes], "parts": parts, "rows": values}
    body = zlib.compress(json.dumps(doc, separators=(",", ":")).encode(), 1)
    return _MAGIC + blake2b(body, digest_size=16).hexdigest().encode() + b"\n" + body


def parse_index(
    data: bytes, attributes: Sequence[AttributeSchema]
) -> tuple[dict[str, ListedPart], dict[str, Row]] | None:
    """Return the parts and rows of an index; None where it is damaged, of another schema or too large."""
    head, _, body = data.partition(b"\n")
    if head != _MAGIC + blake2b(body, digest_size=16).hexdigest().encode():
        return None
    try:
        reader = zlib.decompressobj()
        text = reader.decompress(body, _LARGEST)
        doc = json.loads(text)
        if not reader.eof or doc["attributes"] != [each.as_dict for each in attributes]:
            return None
        parts = {
            name: ListedPart(_whole(stamp), {id: _whole(mark) for id, mark in marks.items()})
            for name, (stamp, marks) in doc["parts"].items()
        }
        rows: dict[str, Row] = {}
        for id, values in doc["rows"].items():
            pairs = zip(attributes, values, strict=True)
            rows[id] = (id, *[None if value is None else value_from_json(known.dtype, value) for known, value in pairs])
    except (zlib.error, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None
    return (parts, rows) if rows.keys() == {id for part in parts.values() for id in part.marks} else None


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError("no whole number")
    return value
