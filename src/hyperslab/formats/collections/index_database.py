"""The rows of an index of attributes in a database of SQLite: in a file beside the collection, or in memory.

Nobody trusts it. A part of the collection counts as known while its stamp here is the present one of its generation;
what a query finds here is read again. A writer changes rows and stamp in the same step in which it changes the
generation; when it cannot, the stamp stays old, and the next look at the part lists it anew.

Tables: ``meta``; ``parts`` with the stamp of each, a part being named by what its ids begin with; ``arrays`` with the
mark of each document and a column per attribute, whose bytes compare as the ranks of its values do
(:func:`.ranks.encode_rank`); ``pending``, the ids of arrays whose creation may not be completed.

Who may not write into the file keeps what it found anew in tables of the same form in memory (``fresh``), which hide
the rows of the file with the same ids, and those whose arrays are gone (``hides``). What is there of a part counts
while the stamp of the part in the file is the one that it was found beside (``base``).
"""

from __future__ import annotations

import atexit
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, TypeVar
from urllib.parse import quote
from weakref import WeakSet

from hyperslab.errors import Conflict
from hyperslab.formats.collections.ranks import encode_rank, ranker
from hyperslab.model.schemas import AttributeSchema, Record
from hyperslab.stores.base import Stamp, Unversioned
from hyperslab.stores.forks import call_around_fork
from hyperslab.stores.locks import hold_folder

FILE = "index.sqlite"
"""The name of the file."""

FILES = (FILE, *(f"{FILE}-{tail}" for tail in ("wal", "shm", "journal")))
"""The names of all files that SQLite makes."""

UNSURE = 0
"""The stamp of a part that is to be looked at again, whatever its present one is; the mark of a document that is to be
read again."""

Row = tuple[Any, ...]
"""An id, the mark of its document, then the encoded ranks of the attributes in the schema's order."""

Span = tuple[bytes, bytes, bool]
"""The first and last encoded rank that fits; True if the last one does."""

# The form of the tables: another one is made anew.
_FORM = 1

# Seconds that a change waits for others. They take a millisecond each, a refresh of many parts a second or two.
_PATIENCE = 2.0

# Seconds for which a file that was locked for so long, or could not be written, is left alone by writers.
_PAUSE = 30.0

# Bytes of a page: each change of a row writes one page whole for each tree.
_PAGE = 1024

# Pages that are written aside before they are put into the file, which is flushed then: those of some 500 creations.
_CHECKPOINT = 4000

# Attributes that have an index in the order of their values, those of the key first: each takes some 10 us of every
# creation, and 70 bytes of an array. By others all rows are looked through, a million in half a second.
_INDEXES = 8

# Kibibytes of pages that are kept in memory: the upper levels of all trees of a million rows.
_CACHE = 16 << 10

# Times that a reader without locks looks again at a file that is changed meanwhile; then it goes on without it.
_LOOKS = 4

# Arrays whose creation was completed that are written with the next change.
_FEW = 16

# Members of a condition up to which they stand in the statement; more go into a table of their own.
_INLINE = 64

# Rows of a condition that are counted at most, in steps, to find the one that fits the fewest: a step costs less than
# the query does when the condition before it was the best.
_STEPS = (1 << 10, 1 << 15, 1 << 62)

Result = TypeVar("Result")


def stamp_digest(stamp: Stamp) -> int:
    """Return a stamp in few bytes: equal ones have equal digests, in every process, and others as good as never;
    ``UNSURE`` for one that equals none."""
    if isinstance(stamp, Unversioned):
        return UNSURE
    return int.from_bytes(blake2b(repr(stamp).encode(), digest_size=8).digest(), signed=True)


@dataclass(slots=True)
class IndexChange:
    """A change of a collection by one of its writers, for the index to follow. ``moves``: by part the stamps of its
    generation before and after, which only this change made different; ``pending``: the rows are those of arrays that
    do not exist yet; ``gone``: ids of those that do not exist any more."""

    moves: dict[str, tuple[int | None, int]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    pending: bool = False
    gone: list[str] = field(default_factory=list)


@dataclass(slots=True)
class PartNews:
    """A part that was listed anew: its stamp in the index when it was looked at (None: unknown), its present one, and
    the marks of all its documents by id."""

    before: int | None
    stamp: int
    marks: Mapping[str, int]


class IndexDatabase:
    """The index of a collection with these attributes, for many threads; ``path``: its file, None for memory alone.

    ``epoch`` changes when what was kept in memory besides the file is gone, since the file is another one.

    Nothing that goes wrong with the file fails a call of its methods: it is left out then, and everything is kept in
    memory. A damaged file is removed by who may write.
    """

    def __init__(
        self, attributes: Sequence[AttributeSchema], path: str | None = None, *, writable: bool = True
    ) -> None:
        self._attributes = attributes
        self._path = path
        self._writable = writable
        self._rankers = [ranker(each) for each in attributes]
        self._columns = {each.name: f"a{place}" for place, each in enumerate(attributes)}
        self._key = [self._columns[each.name] for each in attributes if each.primary]
        self._indexed = [*self._key, *(name for name in self._columns.values() if name not in self._key)][:_INDEXES]
        form = [_FORM, [each.as_dict for each in attributes]]
        self._form = blake2b(json.dumps(form).encode(), digest_size=16).hexdigest()
        self._begin()
        _databases.add(self)

    def _begin(self) -> None:
        self.lock = threading.RLock()
        self.epoch = 0
        self._connection: sqlite3.Connection | None = None
        self._version: tuple[int, ...] | None = None
        self._is_file = False
        self._busy_until, self._pause = 0.0, _PAUSE
        self._confirmed: set[str] = set()
        self._has_fresh = self._has_hidden = False

    # -- rows -------------------------------------------------------------------------------------------------------

    def row(self, record: Record, mark: int) -> Row:
        """Return a record as a row."""
        parts = (record.primary if known.primary else record.custom for known in self._attributes)
        values = (part.get(known.name) for part, known in zip(parts, self._attributes, strict=True))
        return (record.id, mark, *(encode_rank(rank(value)) for rank, value in zip(self._rankers, values, strict=True)))

    # -- opening ----------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        """Return the connection; to another file where the one of before was replaced. Call it with the lock held."""
        if self._path is not None and time.monotonic() >= self._busy_until and self._is_outdated():
            self._close()
            if self._writable:
                self._open_to_write(self._path)
            else:
                self._open_to_read(self._path)
        if self._connection is None:
            self._connection = _connect(":memory:")
            self._make_tables("main")
            self._attach()
        return self._connection

    def _is_outdated(self) -> bool:
        """Return True if the file is to be opened, or opened again."""
        if self._connection is None or (self._writable and not self._is_file):
            return True
        return self._version != self._present_version()

    def _present_version(self) -> tuple[int, ...] | None:
        """Return what tells the file from another; for readers without locks also from a later state of it. None
        without a file."""
        try:
            found = os.stat(self._path or "")
            if self._writable or _has_changes_aside(self._path):
                return (found.st_dev, found.st_ino)
        except OSError:
            return None
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def _open_to_write(self, path: str) -> None:
        try:
            # One at a time opens and removes files: SQLite finds the files beside the database by their names, and who
            # had a new one with an old one beside it would lose what is in it.
            with _hold_folder_of(path):
                if not self._open_if_sound(path):
                    _remove_files(path)
                    self._open_if_sound(path, make=True)
            self._pause = _PAUSE
        except (sqlite3.Error, OSError, Conflict):
            self._close()
            self._busy_until = time.monotonic() + self._pause
            self._pause *= 2  # what is found meanwhile in memory is lost with each attempt

    def _open_if_sound(self, path: str, *, make: bool = False) -> bool:
        """Open a file; False where there is none, or it is damaged, of another form or a copy."""
        if not make and not os.path.exists(path):
            return False
        self._connection = _connect(f"file:{quote(path)}?mode={'rwc' if make else 'rw'}")
        try:
            if make:
                # Without a flush for each change: one that a power cut takes leaves the stamp of its part old.
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("BEGIN IMMEDIATE")
                self._make_tables("main")
                self._connection.execute("INSERT INTO meta VALUES (?, ?)", (self._form, os.stat(path).st_ino))
                self._connection.execute("COMMIT")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
            if not self._is_ours(path):
                raise sqlite3.DatabaseError("it is of another collection")
        except sqlite3.Error as error:
            self._close()
            if make or not _is_damage(error):
                raise
            return False
        self._is_file = True
        self._attach()
        self._version = self._present_version()
        return True

    def _is_ours(self, path: str) -> bool:
        """Return True if the open file has our tables and is no copy: that may be of two moments, and all stamps in it
        are those of other files."""
        assert self._connection is not None
        found = self._connection.execute("SELECT form, inode FROM main.meta").fetchall()
        return found == [(self._form, os.stat(path).st_ino)]

    def _open_to_read(self, path: str) -> None:
        """Open a file without writing beside it: as one that nobody changes, unless a writer has left changes aside."""
        version = self._version = self._present_version()
        if version is None:
            return
        how = "readonly_shm=1" if len(version) == 2 else "immutable=1"
        try:
            self._connection = _connect(f"file:{quote(path)}?mode=ro&{how}")
            if not self._is_ours(path):
                raise sqlite3.DatabaseError("it is of another collection")
            self._is_file = True
            self._attach()
        except (sqlite3.Error, OSError):
            self._close()
            self._version = version  # it is not opened again unless it is another one

    def _attach(self) -> None:
        assert self._connection is not None
        self._connection.execute("ATTACH ':memory:' AS fresh")
        self._make_tables("fresh")
        self._connection.execute("CREATE TABLE fresh.hides(id TEXT PRIMARY KEY) WITHOUT ROWID")
        self._connection.execute("CREATE TEMP TABLE hidden(id TEXT PRIMARY KEY) WITHOUT ROWID")
        self._has_fresh = False

    def _make_tables(self, schema: str) -> None:
        assert self._connection is not None
        columns = "".join(f", {name} BLOB NOT NULL" for name in self._columns.values())
        base = ", base INTEGER" if schema == "fresh" else ""
        for statement in (
            "meta(form TEXT, inode INTEGER)",
            f"parts(name TEXT PRIMARY KEY, stamp INTEGER NOT NULL{base}) WITHOUT ROWID",
            f"arrays(id TEXT PRIMARY KEY, mark INTEGER NOT NULL{columns}) WITHOUT ROWID",
            "pending(id TEXT PRIMARY KEY) WITHOUT ROWID",
        ):
            self._connection.execute(f"CREATE TABLE {schema}.{statement}")
        for name in self._indexed:
            order = ", ".join(self._order(name))
            self._connection.execute(f"CREATE INDEX {schema}.by_{name} ON arrays({order})")

    def _order(self, name: str | None) -> list[str]:
        """Return the columns that rows are sorted by: an attribute, among equals the key; the id comes last."""
        return list(dict.fromkeys([*([] if name is None else [name]), *self._key]))

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        self.epoch += 1
        self._is_file, self._version = False, None
        self._has_fresh = self._has_hidden = False
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def close(self) -> None:
        """Let go of the file, with all that is to be written there."""
        with self.lock:
            if self._is_file and self._writable:
                self._write_confirmed()
            self._close()

    __del__ = close

    def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Look something up; where the file fails, or changes under a reader without locks, once more."""
        for _ in range(_LOOKS):
            connection = self._open()
            try:
                result = work(connection)
            except sqlite3.Error as error:
                if not self._is_file:
                    raise
                self._leave_out(error)
                continue
            if not self._is_file or self._writable or self._version == self._present_version():
                return result
        version = self._version
        self._close()
        self._version = version
        self._busy_until = time.monotonic() + _PAUSE
        return work(self._open())

    def _give_way(self, error: sqlite3.Error) -> None:
        """Write nothing into a file for a while that is locked, or full; go on without one that is damaged."""
        if _is_damage(error):
            self._leave_out(error)
        else:
            self._busy_until = time.monotonic() + _PAUSE

    def _leave_out(self, error: sqlite3.Error) -> None:
        """Go on without a file that failed; remove one that is damaged, if we may."""
        path, version = self._path, self._version
        self._close()
        if not self._writable:
            self._version = version
            return
        self._busy_until = time.monotonic() + _PAUSE
        if not _is_damage(error) or path is None:
            return
        with suppress(OSError, Conflict), _hold_folder_of(path):
            found = os.stat(path)
            if version == (found.st_dev, found.st_ino):
                _remove_files(path)
                self._busy_until = 0.0

    # -- what is known ----------------------------------------------------------------------------------------------

    def stamps(self) -> dict[str, int]:
        """Return the stamps of all parts that are known."""
        with self.lock:
            return self._run(partial(self._stamps, forget=True))

    def _stamps(self, connection: sqlite3.Connection, *, forget: bool = False) -> dict[str, int]:
        """Return the stamps; ``forget`` what is in memory of parts of which the file tells other things by now, or
        nothing sure."""
        found: dict[str, int] = dict(connection.execute("SELECT name, stamp FROM main.parts"))
        if not self._has_fresh:
            return found
        for part, stamp, base in connection.execute("SELECT name, stamp, base FROM fresh.parts").fetchall():
            if found.get(part) == base != UNSURE:
                found[part] = stamp
            elif forget:
                connection.execute("DELETE FROM fresh.parts WHERE name = ?", (part,))
                for table in ("arrays", "pending", "hides"):
                    connection.execute(f"DELETE FROM fresh.{table} WHERE {_WITHIN}", _ends(part))
        return found

    def marks(self, part: str) -> dict[str, int]:
        """Return the marks of the documents of a part, by id."""
        with self.lock:
            return self._run(lambda connection: self._marks(connection, part))

    def _marks(self, connection: sqlite3.Connection, part: str) -> dict[str, int]:
        where = f"SELECT id, mark FROM {{}}.arrays WHERE {_WITHIN}"
        found: dict[str, int] = dict(connection.execute(where.format("main"), _ends(part)))
        if self._has_fresh:
            for (id,) in connection.execute(f"SELECT id FROM fresh.hides WHERE {_WITHIN}", _ends(part)):
                found.pop(id, None)
            found.update(connection.execute(where.format("fresh"), _ends(part)))
        return found

    def pending(self) -> set[str]:
        """Return the ids of arrays whose creation may not be completed, as far as it is not known that it was."""
        with self.lock:
            return self._run(self._pending)

    def _pending(self, connection: sqlite3.Connection) -> set[str]:
        found = {id for (id,) in connection.execute("SELECT id FROM main.pending")}
        if self._has_fresh:
            if found:
                found.difference_update(id for (id,) in connection.execute("SELECT id FROM fresh.hides"))
            found.update(id for (id,) in connection.execute("SELECT id FROM fresh.pending"))
        self._confirmed &= found
        return found - self._confirmed

    def _row(self, connection: sqlite3.Connection, id: str) -> Row | None:
        """Return the row of an array."""
        schema = "main"
        if self._has_fresh and connection.execute("SELECT 1 FROM fresh.hides WHERE id = ?", (id,)).fetchone():
            schema = "fresh"
        found: Row | None = connection.execute(f"SELECT * FROM {schema}.arrays WHERE id = ?", (id,)).fetchone()
        return found

    def _part_of(self, connection: sqlite3.Connection, id: str) -> str:
        """Return the part of an id: all names are of one length."""
        for schema in ("main", "fresh"):
            if found := connection.execute(f"SELECT length(name) FROM {schema}.parts LIMIT 1").fetchone():
                return id[: found[0]]
        return ""

    # -- changes by those who look ----------------------------------------------------------------------------------

    def refresh(
        self, parts: Mapping[str, PartNews], rows: Mapping[str, Row], pending: Collection[str], gone: Collection[str]
    ) -> bool:
        """Take over what was found of parts that changed. ``rows``: of documents that were read, by id; ``pending``:
        those of them whose arrays are not there yet; ``gone``: ids that are listed and could not be read, whose parts
        are to be looked at again. Return False when another one was faster with a part."""
        with self.lock:
            return self._write(lambda connection, schema: self._refresh(connection, schema, parts, rows, pending, gone))

    def _refresh(
        self,
        connection: sqlite3.Connection,
        schema: str,
        parts: Mapping[str, PartNews],
        rows: Mapping[str, Row],
        pending: Collection[str],
        gone: Collection[str],
    ) -> bool:
        known = self._stamps(connection)
        is_complete = True
        unsure = set(gone)
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

    def put_loose(self, rows: Mapping[str, Row], pending: Collection[str], gone: Collection[str]) -> int:
        """Take over what was read of documents without their parts having been listed; return how many of ``gone`` were
        known."""
        with self.lock:
            return self._run(lambda connection: self._put_loose(connection, rows, pending, gone))

    def _put_loose(
        self, connection: sqlite3.Connection, rows: Mapping[str, Row], pending: Collection[str], gone: Collection[str]
    ) -> int:
        known = {id: row for id in {*rows, *gone} if (row := self._row(connection, id)) is not None}
        # An array whose remover died is there, and is not committed any more.
        hidden = set(pending) - self._pending(connection)
        changed = {id: row for id, row in rows.items() if id in hidden or id not in known or known[id][2:] != row[2:]}
        lost = [id for id in gone if id in known]

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
                self._begin_part(connection, schema, part)
                self._delete(connection, schema, self._marks(connection, part))
                if schema == "main":
                    connection.execute("DELETE FROM main.parts WHERE name = ?", (part,))
            return True

        with self.lock:
            if names:
                self._write(write)

    def _begin_part(self, connection: sqlite3.Connection, schema: str, part: str) -> None:
        """Have ``fresh`` know a part, if that is where it is to be changed."""
        if schema == "fresh":
            self._has_fresh = True
            base = connection.execute("SELECT stamp FROM main.parts WHERE name = ?", (part,)).fetchone()
            row = (part, *(base * 2 if base else (UNSURE, None)))
            connection.execute("INSERT OR IGNORE INTO fresh.parts VALUES (?, ?, ?)", row)

    def _set_stamp(self, connection: sqlite3.Connection, schema: str, part: str, stamp: int) -> None:
        if schema == "fresh":
            connection.execute("UPDATE fresh.parts SET stamp = ? WHERE name = ?", (stamp, part))
        else:
            connection.execute("INSERT OR REPLACE INTO main.parts VALUES (?, ?)", (part, stamp))

    def _delete(self, connection: sqlite3.Connection, schema: str, ids: Iterable[str]) -> None:
        gone = [(id,) for id in ids]
        for table in ("arrays", "pending"):
            connection.executemany(f"DELETE FROM {schema}.{table} WHERE id = ?", gone)
        if schema == "fresh":
            connection.executemany("INSERT OR IGNORE INTO fresh.hides VALUES (?)", gone)

    def _put(self, connection: sqlite3.Connection, schema: str, rows: Sequence[Row], pending: Collection[str]) -> None:
        places = ", ".join("?" * (2 + len(self._columns)))
        connection.executemany(f"INSERT OR REPLACE INTO {schema}.arrays VALUES ({places})", rows)
        # An id that is known to be committed was read as such: it is not pending any more.
        self._confirmed.difference_update(pending)
        settled = [(row[0],) for row in rows if row[0] not in pending]
        if settled:
            connection.executemany(f"DELETE FROM {schema}.pending WHERE id = ?", settled)
        if pending:
            connection.executemany(f"INSERT OR IGNORE INTO {schema}.pending VALUES (?)", [(id,) for id in pending])
        if schema == "fresh":
            connection.executemany("INSERT OR IGNORE INTO fresh.hides VALUES (?)", [(row[0],) for row in rows])

    def _write(self, work: Callable[[sqlite3.Connection, str], bool]) -> bool:
        """Do something in one transaction: in the file, or in memory where that takes no change."""
        connection = self._open()
        if self._is_file and self._writable and time.monotonic() >= self._busy_until:
            try:
                with _transaction(connection):
                    return self._write_to_file(connection, work)
            except sqlite3.Error as error:
                self._give_way(error)
                connection = self._open()
                self._has_fresh = connection.execute("SELECT 1 FROM fresh.parts").fetchone() is not None
        schema = "fresh" if self._is_file else "main"
        with _transaction(connection, "DEFERRED"):
            return work(connection, schema)

    def _write_to_file(self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection, str], bool]) -> bool:
        if self._has_fresh:  # of a time when the file took no change: look at these parts again
            for table in ("parts", "arrays", "pending", "hides"):
                connection.execute(f"DELETE FROM fresh.{table}")
            self._has_fresh = False
            return work(connection, "main") and False
        return work(connection, "main")

    def confirm(self, ids: Collection[str]) -> None:
        """Take over that arrays which were pending exist: at once where they are many, else with the next change, or
        when this process ends. A change of its own costs half of what that of a creation does."""
        with self.lock:
            self._confirmed.update(ids)
            if len(self._confirmed) > _FEW:
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
            if change.gone:
                self._delete(connection, "main", change.gone)
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
        with _transaction(connection, "DEFERRED"):
            hidden = len(self._pending(connection))
            count = connection.execute("SELECT count(*) FROM main.arrays").fetchone()[0] - hidden
            if self._has_fresh:
                count += connection.execute("SELECT count(*) FROM fresh.arrays").fetchone()[0]
                both = "SELECT count(*) FROM fresh.hides WHERE id IN (SELECT id FROM main.arrays)"
                count -= connection.execute(both).fetchone()[0]
        return int(count)

    def ids(
        self,
        conditions: Mapping[str, Sequence[Span]],
        order: str | None = None,
        *,
        backwards: bool = False,
        limit: int | None = None,
    ) -> list[str]:
        """Return the ids of arrays, at most ``limit``: those whose attributes lie in one of the spans of each
        condition, in the order of an attribute, then of the key, then of ids. Backwards those without a value stay
        last."""
        if not all(conditions.values()) or limit == 0:
            return []
        with self.lock:
            return self._run(lambda connection: self._ids(connection, conditions, order, backwards, limit))

    def _ids(
        self,
        connection: sqlite3.Connection,
        conditions: Mapping[str, Sequence[Span]],
        order: str | None,
        backwards: bool,
        limit: int | None,
    ) -> list[str]:
        column = None if order is None else self._columns[order]
        columns = [*self._order(column), "id"]
        with _transaction(connection, "DEFERRED"):
            self._hide(connection)
            spans = {
                self._columns[name]: _Spans(connection, place, each)
                for place, (name, each) in enumerate(conditions.items())
            }
            by = self._most_telling(connection, spans) if spans else next(iter(columns))
            if not backwards or column is None:
                return self._select(connection, by, spans, columns, limit, backwards=backwards)
            known = self._select(connection, by, spans, columns, limit, f"{column} < x'02'", backwards=True)
            rest = None if limit is None else limit - len(known)
            if rest == 0:
                return known
            return known + self._select(connection, by, spans, columns, rest, f"{column} >= x'02'")

    def _hide(self, connection: sqlite3.Connection) -> None:
        if self._has_hidden:
            connection.execute("DELETE FROM temp.hidden")
        pending = self._pending(connection)
        self._has_hidden = bool(pending)
        connection.executemany("INSERT INTO temp.hidden VALUES (?)", [(id,) for id in pending])

    def _most_telling(self, connection: sqlite3.Connection, spans: Mapping[str, _Spans]) -> str:
        """Return the column whose condition the fewest rows fulfil, or about so few; of those that have an index."""
        known = {column: each for column, each in spans.items() if column in self._indexed}
        if len(known) < 2:
            return next(iter(known), "")
        for most in _STEPS:
            counts: dict[str, int] = {}
            for column, each in known.items():
                rows = f"SELECT 1 FROM main.arrays INDEXED BY by_{column} WHERE {each.text(column)} LIMIT {most}"
                counts[column] = connection.execute(f"SELECT count(*) FROM ({rows})", each.values).fetchone()[0]
            best = min(counts, key=lambda column: counts[column])
            if counts[best] < most:
                return best
        return next(iter(known))

    def _select(
        self,
        connection: sqlite3.Connection,
        by: str,
        spans: Mapping[str, _Spans],
        columns: Sequence[str],
        limit: int | None,
        only: str = "",
        *,
        backwards: bool = False,
    ) -> list[str]:
        """Return ids by the index of one column, where it has one, in the order of columns; ``only``: one condition
        more."""
        parts: list[str] = []
        values: list[bytes] = []
        index = f"INDEXED BY by_{by}" if by in self._indexed else "NOT INDEXED"
        tests = [only or "TRUE", *(["id NOT IN temp.hidden"] if self._has_hidden else [])]
        # A sign before a column has SQLite not look for another index than that which was chosen.
        tests += [each.text(column if column == by else f"+{column}") for column, each in spans.items()]
        for schema in ("main", "fresh") if self._has_fresh else ("main",):
            hides = " AND id NOT IN fresh.hides" if self._has_fresh and schema == "main" else ""
            parts.append(f"SELECT {', '.join(columns)} FROM {schema}.arrays {index} WHERE {' AND '.join(tests)}{hides}")
            values += [value for each in spans.values() for value in each.values]
        order = ", ".join(f"{column} DESC" if backwards else column for column in columns)
        text = f"{' UNION ALL '.join(parts)} ORDER BY {order} LIMIT {-1 if limit is None else limit}"
        return [row[-1] for row in connection.execute(text, values)]


class _Spans:
    """The spans of one condition, in a statement."""

    def __init__(self, connection: sqlite3.Connection, place: int, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._table = ""
        self._are_values = all(low == high and closed for low, high, closed in spans)
        self.values: list[bytes] = []
        if self._are_values:
            self.values = [low for low, _, _ in spans]
            if len(spans) > _INLINE:
                self._table = f"temp.wanted{place}"
                connection.execute(
                    f"CREATE TEMP TABLE IF NOT EXISTS wanted{place}(value BLOB PRIMARY KEY) WITHOUT ROWID"
                )
                connection.execute(f"DELETE FROM {self._table}")
                connection.executemany(
                    f"INSERT OR IGNORE INTO {self._table} VALUES (?)", [(each,) for each in self.values]
                )
                self.values = []
        else:
            self.values = [end for low, high, _ in spans for end in (low, high)]

    def text(self, column: str) -> str:
        """Return the condition on a column; its parameters are ``values``."""
        if self._table:
            return f"{column} IN {self._table}"
        if self._are_values:
            return f"{column} IN ({', '.join('?' * len(self.values))})"
        tests = (f"{column} >= ? AND {column} <{'=' if closed else ''} ?" for _, _, closed in self._spans)
        return f"({' OR '.join(tests)})"


def _is_damage(error: sqlite3.Error) -> bool:
    """Return True if a file is not, or is no more, one of ours; False if it cannot be used now."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # without one it is an error of this module
    return code & 0xFF in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


# -- SQLite -----------------------------------------------------------------------------------------------------------


# Ids of one part: what their beginning, and their beginning with the largest character behind it, lie about.
_WITHIN = "id >= ? AND id < ?"


def _ends(part: str) -> tuple[str, str]:
    return part, part + "\U0010ffff"


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_PATIENCE)
    connection.execute(f"PRAGMA page_size = {_PAGE}")
    connection.execute(f"PRAGMA cache_size = -{_CACHE}")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _has_changes_aside(path: str | None) -> bool:
    """Return True if a writer has left changes beside a file, which belong to what it holds."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def _hold_folder_of(path: str) -> AbstractContextManager[None]:
    def folder() -> str:
        os.stat(os.path.dirname(path))  # one that was removed is not waited for
        return os.path.dirname(path)

    return hold_folder(folder, _PATIENCE)


def _remove_files(path: str) -> None:
    for name in FILES:
        if os.path.lexists(place := path + name.removeprefix(FILE)):
            os.unlink(place)


# -- forks ------------------------------------------------------------------------------------------------------------
# SQLite knows by process which files are locked, and a child inherits that: it would take for its own the locks that
# the parent has. So no file is open, and no connection is at work, while a process is forked.


_databases: WeakSet[IndexDatabase] = WeakSet()


_at_rest: list[IndexDatabase] = []


def _rest() -> None:
    for database in list(_databases):
        database.lock.acquire()
        _at_rest.append(database)
        if database._is_file:
            database.close()


def _go_on() -> None:
    while _at_rest:
        _at_rest.pop().lock.release()


def _begin_anew() -> None:
    _at_rest.clear()
    for database in list(_databases):
        database._begin()


def _close_all() -> None:
    for database in list(_databases):
        database.close()


atexit.register(_close_all)
call_around_fork(_rest, _go_on, _begin_anew)
