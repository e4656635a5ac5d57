"""The rows of an index of attributes in a database of SQLite: in a file beside the collection, or in memory.

Nobody trusts it. A part of the collection counts as known while its stamp here is the present one of its generation;
what a query finds here is read again. A writer changes rows and stamp in the same step in which it changes the
generation; when it cannot, the stamp stays old, and the next look at the part lists it anew.

Tables: ``meta``; ``parts`` with the stamp of each, a part being named by what its ids begin with; ``arrays`` with the
mark of each document and a column per attribute, whose bytes compare as the ranks of its values do
(:func:`.ranks.encode_rank`); ``pending``, the ids of arrays whose creation may not be completed.

Who may not write into the file keeps what it found anew in tables of the same form in memory, the ``overlay``. Its rows
count in place of those of the file with the same ids; these ids, and those of removed arrays, are ``shadowed``. What is
there of a part counts while the stamp of the part in the file is the one that it was found beside (``base``).
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

from hyperslab.errors import Conflict
from hyperslab.formats.collections.index_file import FILE, FILES, IndexFile, transaction
from hyperslab.formats.collections.index_queries import ColumnTest, IndexColumns, IndexQuery
from hyperslab.formats.collections.ranks import encode_rank, ranker
from hyperslab.model.schemas import AttributeSchema, Record
from hyperslab.stores.base import Stamp, Unversioned

UNSURE = 0
"""The stamp of a part that is to be looked at again, whatever its present one is; the mark of a document that is to be
read again."""

Row = tuple[Any, ...]
"""An id, the mark of its document, then the encoded ranks of the attributes in the schema's order."""

# The form of the tables: another one is made anew.
_FORM = 1

# Arrays whose creation was completed that are written with the next change.
_FEW = 16


def stamp_digest(stamp: Stamp) -> int:
    """Return a stamp in few bytes: equal ones have equal digests, in every process, and others as good as never;
    ``UNSURE`` for one that equals none."""
    if isinstance(stamp, Unversioned):
        return UNSURE
    if isinstance(stamp, tuple) and isinstance(stamp[0], str):  # an ETag and a version, which Google's listings lack
        stamp = stamp[0]
    return int.from_bytes(blake2b(repr(stamp).encode(), digest_size=8).digest(), signed=True)


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """Where an index is stored (a path or a URL, empty where it is in memory alone), the bytes that it takes there, and
    the stamps of the parts that are known there."""

    url: str
    nbytes: int
    stamps: Mapping[str, int]


@dataclass(slots=True)
class IndexChange:
    """A change of a collection by one of its writers, for the index to follow. ``moves``: by part the stamps of its
    generation before and after, which only this change made different; ``pending``: the rows are those of arrays that
    do not exist yet; ``removed``: ids of those that do not exist any more."""

    moves: dict[str, tuple[int | None, int]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    pending: bool = False
    removed: list[str] = field(default_factory=list)


@dataclass(slots=True)
class PartNews:
    """A part that was listed anew: its stamp in the index when it was looked at (None: unknown), its present one, and
    the marks of all its documents by id."""

    before: int | None
    stamp: int
    marks: Mapping[str, int]


def form_of(attributes: Sequence[AttributeSchema]) -> str:
    """Return a text that differs where tables have other columns, or the same bytes mean something else."""
    form = [_FORM, [each.as_dict for each in attributes]]
    return blake2b(json.dumps(form).encode(), digest_size=16).hexdigest()


class IndexDatabase(IndexFile):
    """The index of a collection with these attributes, for many threads; ``path``: its file, None for memory alone.

    Nothing that goes wrong with the file fails a call of its methods: it is left out then, and everything is kept in
    memory. A damaged file is removed by who may write. ``is_current``: returns False once the collection has another
    schema, whose file is left alone.
    """

    def __init__(
        self,
        attributes: Sequence[AttributeSchema],
        path: str | None = None,
        *,
        writable: bool = True,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self._is_current = is_current
        self._attributes = attributes
        self._rankers = [ranker(each) for each in attributes]
        self._columns = IndexColumns(attributes)
        super().__init__(form_of(attributes), path, writable=writable)

    def _begin(self) -> None:
        super()._begin()
        self._confirmed: set[str] = set()

    def _is_ours(self, path: str) -> bool:
        is_ours = super()._is_ours(path)
        if not is_ours and self._writable and not self._is_current():
            raise Conflict("the index is that of another schema, which the collection has by now")
        return is_ours

    # -- tables and rows ----------------------------------------------------------------------------------------------

    def _make_tables(self, schema: str) -> None:
        assert self._connection is not None
        columns = "".join(f", {name} BLOB NOT NULL" for name in self._columns.names.values())
        base = ", base INTEGER" if schema == "overlay" else ""
        for statement in (
            "meta(form TEXT, inode INTEGER)",
            f"parts(name TEXT PRIMARY KEY, stamp INTEGER NOT NULL{base}) WITHOUT ROWID",
            f"arrays(id TEXT PRIMARY KEY, mark INTEGER NOT NULL{columns}) WITHOUT ROWID",
            "pending(id TEXT PRIMARY KEY) WITHOUT ROWID",
        ):
            self._connection.execute(f"CREATE TABLE {schema}.{statement}")
        if schema == "overlay":
            self._connection.execute("CREATE TABLE overlay.shadowed(id TEXT PRIMARY KEY) WITHOUT ROWID")
            self._connection.execute("CREATE TABLE temp.excluded(id TEXT PRIMARY KEY) WITHOUT ROWID")
        self._make_indexes(self._connection, schema)

    def _make_indexes(self, connection: sqlite3.Connection, schema: str) -> None:
        for name in self._columns.indexed:
            order = ", ".join(self._columns.order(name))
            connection.execute(f"CREATE INDEX {schema}.by_{name} ON arrays({order})")

    def _drop_indexes(self, connection: sqlite3.Connection) -> None:
        for name in self._columns.indexed:
            connection.execute(f"DROP INDEX main.by_{name}")

    def add_attribute(self, attribute: AttributeSchema) -> None:
        """Give the file a column for one more attribute, filled with its default: the form that it has from then on is
        that of a schema with this attribute last. Where that fails the file is made anew by who opens it next."""
        attributes = [*self._attributes, attribute]
        columns = IndexColumns(attributes)
        name = columns.names[attribute.name]
        default = encode_rank(ranker(attribute)(attribute.unset_value))
        with self.lock, suppress(sqlite3.Error):
            connection = self._open()
            if self._is_file and self._writable:
                with transaction(connection):
                    column = f"{name} BLOB NOT NULL DEFAULT x'{default.hex()}'"
                    connection.execute(f"ALTER TABLE main.arrays ADD COLUMN {column}")
                    if name in columns.indexed:
                        connection.execute(f"CREATE INDEX main.by_{name} ON arrays({', '.join(columns.order(name))})")
                    connection.execute("UPDATE main.meta SET form = ?", (form_of(attributes),))
        self.close()

    def row(self, record: Record, mark: int) -> Row:
        """Return a record as a row."""
        parts = (record.primary if known.primary else record.custom for known in self._attributes)
        values = (part.get(known.name) for part, known in zip(parts, self._attributes, strict=True))
        return (record.id, mark, *(encode_rank(rank(value)) for rank, value in zip(self._rankers, values, strict=True)))

    # -- where it is stored -----------------------------------------------------------------------------------------

    def reload(self) -> bool:
        """Take over what others have stored since; return True if there was anything. A file is shared with them."""
        return False

    def share(self) -> None:
        """Store for others what was found, where that is not done yet and is worth it."""

    def publish(self, *, wait: bool = False) -> None:
        """Store what was found, in any case; ``wait`` for others that do."""

    def begin_anew(self) -> None:
        """Forget all parts, so that the next look lists and reads all of them."""
        self.forget(self.stamps())

    def remove_leftovers(self) -> None:
        """Remove what killed writers left beside the index."""

    def place(self) -> IndexPlace:
        """Return where it is stored."""
        path = self._path or ""
        there = [each for each in (path + name.removeprefix(FILE) for name in FILES) if path and os.path.exists(each)]
        return IndexPlace(path, sum(map(os.path.getsize, there)), self.stamps() if there else {})

    # -- what is known ----------------------------------------------------------------------------------------------

    def stamps(self) -> dict[str, int]:
        """Return the stamps of all parts that are known."""
        with self.lock:
            return self._run(partial(self._stamps, forget=True))

    def _stamps(self, connection: sqlite3.Connection, *, forget: bool = False) -> dict[str, int]:
        """Return the stamps; ``forget`` what is in memory of parts of which the file tells other things by now, or
        nothing sure."""
        found: dict[str, int] = dict(connection.execute("SELECT name, stamp FROM main.parts"))
        if not self._has_overlay:
            return found
        for part, stamp, base in connection.execute("SELECT name, stamp, base FROM overlay.parts").fetchall():
            if found.get(part) == base != UNSURE:
                found[part] = stamp
            elif forget:
                connection.execute("DELETE FROM overlay.parts WHERE name = ?", (part,))
                for table in ("arrays", "pending", "shadowed"):
                    where, ends = ids_within(part)
                    connection.execute(f"DELETE FROM overlay.{table} WHERE {where}", ends)
        return found

    def marks(self, part: str) -> dict[str, int]:
        """Return the marks of the documents of a part, by id."""
        with self.lock:
            return self._run(lambda connection: self._marks(connection, part))

    def _marks(self, connection: sqlite3.Connection, part: str) -> dict[str, int]:
        where, ends = ids_within(part)
        found: dict[str, int] = dict(connection.execute(f"SELECT id, mark FROM main.arrays WHERE {where}", ends))
        if self._has_overlay:
            for (id,) in connection.execute(f"SELECT id FROM overlay.shadowed WHERE {where}", ends):
                found.pop(id, None)
            found.update(connection.execute(f"SELECT id, mark FROM overlay.arrays WHERE {where}", ends))
        return found

    def pending(self) -> set[str]:
        """Return the ids of arrays whose creation may not be completed, as far as it is not known that it was."""
        with self.lock:
            return self._run(self._pending)

    def _pending(self, connection: sqlite3.Connection) -> set[str]:
        found = {id for (id,) in connection.execute("SELECT id FROM main.pending")}
        if self._has_overlay:
            if found:
                found.difference_update(id for (id,) in connection.execute("SELECT id FROM overlay.shadowed"))
            found.update(id for (id,) in connection.execute("SELECT id FROM overlay.pending"))
        self._confirmed &= found
        return found - self._confirmed

    def _row(self, connection: sqlite3.Connection, id: str) -> Row | None:
        """Return the row of an array."""
        schema = "main"
        if self._has_overlay and connection.execute("SELECT 1 FROM overlay.shadowed WHERE id = ?", (id,)).fetchone():
            schema = "overlay"
        found: Row | None = connection.execute(f"SELECT * FROM {schema}.arrays WHERE id = ?", (id,)).fetchone()
        return found

    def _part_of(self, connection: sqlite3.Connection, id: str) -> str:
        """Return the part of an id: all names are of one length."""
        for schema in ("main", "overlay"):
            if found := connection.execute(f"SELECT length(name) FROM {schema}.parts LIMIT 1").fetchone():
                return id[: found[0]]
        return ""

    # -- changes by those who look ----------------------------------------------------------------------------------

    def refresh(
        self, parts: Mapping[str, PartNews], rows: Mapping[str, Row], pending: Collection[str], unread: Collection[str]
    ) -> bool:
        """Take over what was found of parts that changed. ``rows``: of documents that were read, by id; ``pending``:
        those of them whose arrays are not there yet; ``unread``: ids that are listed and could not be read, whose parts
        are to be looked at again. Return False when another one was faster with a part."""
        with self.lock:
            return self._write(
                lambda connection, schema: self._refresh(connection, schema, parts, rows, pending, unread)
            )

    def _refresh(
        self,
        connection: sqlite3.Connection,
        schema: str,
        parts: Mapping[str, PartNews],
        rows: Mapping[str, Row],
        pending: Collection[str],
        unread: Collection[str],
    ) -> bool:
        known = self._stamps(connection)
        is_complete = True
        unsure = set(unread)
        for part, news in parts.items():
            if known.get(part) != news.before:
                is_complete = False
                continue
            self._begin_part(connection, schema, part)
            now = self._marks(connection, part)
            left = now.keys() - news.marks.keys()
            self._delete(connection, schema, left | (unsure & now.keys()))
            read = [id for id in news.marks if id in rows]
            self._put(connection, schema, [rows[id] for id in read], {id for id in read if id in pending})
            # What another one has put there meanwhile is of a document that was not read here.
            is_sure = all(id in rows or now.get(id) == mark for id, mark in news.marks.items() if id not in unsure)
            is_sure = is_sure and unsure.isdisjoint(news.marks)
            # A part without a stamp of its own gets one that tells whether another process was here meanwhile.
            present = news.stamp if news.stamp != UNSURE else int.from_bytes(os.urandom(7))
            self._set_stamp(connection, schema, part, present if is_sure else UNSURE)
        return is_complete

    def put_unsettled(self, rows: Mapping[str, Row], pending: Collection[str], unread: Collection[str]) -> int:
        """Take over what was read of documents without their parts having been listed; return how many of
        ``unread`` were known."""
        with self.lock:
            return self._run(lambda connection: self._put_unsettled(connection, rows, pending, unread))

    def _put_unsettled(
        self, connection: sqlite3.Connection, rows: Mapping[str, Row], pending: Collection[str], unread: Collection[str]
    ) -> int:
        known = {id: row for id in {*rows, *unread} if (row := self._row(connection, id)) is not None}
        # An array whose remover died is there, and is not committed any more.
        uncommitted = set(pending) - self._pending(connection)
        changed = {
            id: row for id, row in rows.items() if id in uncommitted or id not in known or known[id][2:] != row[2:]
        }
        lost = [id for id in unread if id in known]

        def write(connection: sqlite3.Connection, schema: str) -> bool:
            for id in [*changed, *lost]:
                part = self._part_of(connection, id)
                self._begin_part(connection, schema, part)
                if id in changed:
                    self._put(connection, schema, [changed[id]], {id}.intersection(pending))
                else:
                    self._delete(connection, schema, [id])
                    self._set_stamp(connection, schema, part, UNSURE)
            return True

        if changed or lost:
            self._write(write)
        return len(lost)

    def unsure_ids(self, ids: Iterable[str]) -> set[str]:
        """Return those of the ids of which no document is known with its mark."""
        with self.lock:
            return {id for id in ids if self._run(partial(self._is_unsure, id))}

    def _is_unsure(self, id: str, connection: sqlite3.Connection) -> bool:
        row = self._row(connection, id)
        return row is None or row[1] == UNSURE

    def forget(self, parts: Iterable[str]) -> None:
        """Forget parts that are there no more."""
        names = list(parts)

        def write(connection: sqlite3.Connection, schema: str) -> bool:
            for part in names:
                marks = self._marks(connection, part)
                if schema == "main":
                    self._delete(connection, schema, marks)
                    connection.execute("DELETE FROM main.parts WHERE name = ?", (part,))
                elif marks:
                    self._begin_part(connection, schema, part)
                    self._delete(connection, schema, marks)
                    # It may be there again, made after the generations were listed: then it is to be looked at.
                    self._set_stamp(connection, schema, part, UNSURE)
            return True

        with self.lock:
            if names:
                self._write(write)

    def _begin_part(self, connection: sqlite3.Connection, schema: str, part: str) -> None:
        """Have ``overlay`` know a part, if that is where it is to be changed."""
        if schema == "overlay":
            self._has_overlay = True
            base = connection.execute("SELECT stamp FROM main.parts WHERE name = ?", (part,)).fetchone()
            row = (part, *(base * 2 if base else (UNSURE, None)))
            connection.execute("INSERT OR IGNORE INTO overlay.parts VALUES (?, ?, ?)", row)

    def _set_stamp(self, connection: sqlite3.Connection, schema: str, part: str, stamp: int) -> None:
        if schema == "overlay":
            connection.execute("UPDATE overlay.parts SET stamp = ? WHERE name = ?", (stamp, part))
        else:
            connection.execute("INSERT OR REPLACE INTO main.parts VALUES (?, ?)", (part, stamp))

    def _delete(self, connection: sqlite3.Connection, schema: str, ids: Iterable[str]) -> None:
        gone = [(id,) for id in ids]
        for table in ("arrays", "pending"):
            connection.executemany(f"DELETE FROM {schema}.{table} WHERE id = ?", gone)
        if schema == "overlay":
            connection.executemany("INSERT OR IGNORE INTO overlay.shadowed VALUES (?)", gone)

    def _put(self, connection: sqlite3.Connection, schema: str, rows: Sequence[Row], pending: Collection[str]) -> None:
        places = ", ".join("?" * (2 + len(self._columns.names)))
        connection.executemany(f"INSERT OR REPLACE INTO {schema}.arrays VALUES ({places})", rows)
        # An id that is known to be committed was read as such: it is not pending any more.
        self._confirmed.difference_update(pending)
        committed = [(row[0],) for row in rows if row[0] not in pending]
        if committed:
            connection.executemany(f"DELETE FROM {schema}.pending WHERE id = ?", committed)
        if pending:
            connection.executemany(f"INSERT OR IGNORE INTO {schema}.pending VALUES (?)", [(id,) for id in pending])
        if schema == "overlay":
            connection.executemany("INSERT OR IGNORE INTO overlay.shadowed VALUES (?)", [(row[0],) for row in rows])

    def _write(self, work: Callable[[sqlite3.Connection, str], bool]) -> bool:
        """Do something in one transaction: in the file, or in memory where that takes no change."""
        connection = self._open()
        if self._is_file and self._writable and time.monotonic() >= self._busy_until:
            try:
                with transaction(connection):
                    return self._write_to_file(connection, work)
            except sqlite3.Error as error:
                self._give_way(error)
                connection = self._open()
                self._has_overlay = connection.execute("SELECT 1 FROM overlay.parts").fetchone() is not None
        schema = "overlay" if self._is_file else "main"
        try:
            with transaction(connection, "DEFERRED"):
                return work(connection, schema)
        except sqlite3.Error as error:
            if not self._is_file:
                raise
            self._leave_out(error)  # it could not be read: look again
            return False

    def _write_to_file(self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection, str], bool]) -> bool:
        if self._has_overlay:  # of a time when the file took no change: look at these parts again
            for table in ("parts", "arrays", "pending", "shadowed"):
                connection.execute(f"DELETE FROM overlay.{table}")
            self._has_overlay = False
            return work(connection, "main") and False
        return work(connection, "main")

    def confirm(self, ids: Collection[str]) -> None:
        """Take over that arrays which were pending exist: at once where they are many, else with the next change, or
        when this process ends. A change of its own costs half of what that of a creation does."""
        with self.lock:
            self._confirmed.update(ids)
            if len(self._confirmed) > _FEW:
                self._write_confirmed()

    def _finish(self) -> None:
        self._write_confirmed()

    def _write_confirmed(self) -> None:
        if self._confirmed and self._begin_change():
            self._end_change(IndexChange())
        elif not self._is_file:
            self._delete_confirmed(self._open())

    def _delete_confirmed(self, connection: sqlite3.Connection) -> None:
        connection.executemany("DELETE FROM main.pending WHERE id = ?", [(id,) for id in self._confirmed])

    # -- changes by writers of the collection -----------------------------------------------------------------------

    @contextmanager
    def following(self, change: IndexChange) -> Iterator[bool]:
        """Have the file follow what the block changes, and adds to ``change``, in one step with it for all who use this
        method. Yields False where the file follows nothing."""
        with self.lock:
            follows = self._begin_change()
            try:
                yield follows
            except BaseException:
                if follows:
                    self._roll_back()
                raise
            if follows:
                self._end_change(change)

    def _begin_change(self) -> bool:
        if time.monotonic() < self._busy_until:
            return False
        connection = self._open()
        if not self._is_file or not self._writable:
            return False
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._give_way(error)
            return False
        return True

    def _end_change(self, change: IndexChange) -> None:
        connection = self._connection
        assert connection is not None
        confirmed = self._confirmed
        try:
            if confirmed:
                self._delete_confirmed(connection)
            if change.removed:
                self._delete(connection, "main", change.removed)
            if change.rows:
                self._put(connection, "main", change.rows, {row[0] for row in change.rows} if change.pending else ())
            for part, (before, after) in change.moves.items():
                if before is None:
                    connection.execute("INSERT OR IGNORE INTO main.parts VALUES (?, ?)", (part, after))
                else:
                    move = "UPDATE main.parts SET stamp = ? WHERE name = ? AND stamp = ?"
                    connection.execute(move, (after, part, before))
            connection.execute("COMMIT")
            self._confirmed = set()
        except sqlite3.Error as error:
            self._roll_back()
            self._give_way(error)

    def _roll_back(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    # -- queries ----------------------------------------------------------------------------------------------------

    def count(self) -> int:
        """Return how many arrays there are."""
        with self.lock:
            return self._run(self._count)

    def _count(self, connection: sqlite3.Connection) -> int:
        with transaction(connection, "DEFERRED"):
            pending = len(self._pending(connection))
            count = connection.execute("SELECT count(*) FROM main.arrays").fetchone()[0] - pending
            if self._has_overlay:
                count += connection.execute("SELECT count(*) FROM overlay.arrays").fetchone()[0]
                both = "SELECT count(*) FROM overlay.shadowed WHERE id IN (SELECT id FROM main.arrays)"
                count -= connection.execute(both).fetchone()[0]
        return int(count)

    def ids(
        self,
        alternatives: Sequence[Mapping[str, ColumnTest]] = (),
        order: str | None = None,
        *,
        backwards: bool = False,
        limit: int | None = None,
    ) -> list[str]:
        """Return the ids of arrays, at most ``limit``: those whose attributes pass all tests of one of the
        ``alternatives`` (none: all), in the order of an attribute, then of the key, then of ids. Backwards those
        without a value stay last."""
        if limit == 0:
            return []

        def ask(connection: sqlite3.Connection) -> list[str]:
            with transaction(connection, "DEFERRED"):
                connection.execute("DELETE FROM temp.excluded")
                pending = [(id,) for id in self._pending(connection)]
                connection.executemany("INSERT INTO temp.excluded VALUES (?)", pending)
                query = IndexQuery(connection, self._columns, alternatives, has_overlay=self._has_overlay)
                return query.ids(order, limit, backwards=backwards)

        with self.lock:
            return self._run(ask)


def ids_within(part: str) -> tuple[str, tuple[str, str]]:
    """Return a condition for the ids of one part, and its values: what the ids begin with, and that with the largest
    character behind it."""
    return "id >= ? AND id < ?", (part, part + "\U0010ffff")
