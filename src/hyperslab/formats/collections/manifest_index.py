"""An index of attributes that is kept as objects of a bucket, for collections whose values are no files.

What the objects are says :mod:`.manifests`. Nobody trusts them more than the stamps in them allow: a part of the
collection counts as known while its stamp in the index is the present one of its generation. So a lost, damaged or
older index only has more parts listed.

A process loads the objects into a database, when something is looked up first, and what was published since when parts
have changed. The database is in memory; of a large index it is a file among the caches of this user, the *copy*, which
all processes of the user share: whoever comes to it first loads into it, and it tells which head it is of. What a
process finds anew lies beside that (``overlay``), as with a file that it may not write.

Writers and those who look and may write *publish*: they put another head in place of the one that they know, on the
condition that it still is there. A writer publishes its changes when they are many or some seconds old, and when it is
closed; who dies before that leaves the index older. Manifests are stored before the head that names them, and removed
some time after the last one that did.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from hyperslab.chunks.plan import batched
from hyperslab.errors import Conflict, HyperslabError
from hyperslab.formats.collections.index_database import (
    UNSURE,
    IndexChange,
    IndexDatabase,
    IndexPlace,
    PartNews,
    Row,
    ids_within,
)
from hyperslab.formats.collections.index_file import FILE, cache_folder, is_damage, make_cache_folder, transaction
from hyperslab.formats.collections.manifests import (
    RETIRED_SECONDS,
    Draft,
    Head,
    Move,
    RowChanges,
    is_manifest,
    parse_rows,
)
from hyperslab.formats.collections.published_index import (
    CURRENT,
    TRIES,
    TRIES_AT_END,
    ManifestLost,
    PublishedIndex,
)
from hyperslab.formats.rules import Finding, found_at, found_foreign
from hyperslab.model.schemas import AttributeSchema
from hyperslab.stores.base import Stamp, Store
from hyperslab.stores.files import remove_tree
from hyperslab.stores.requests import each_request

LOGGER = logging.getLogger("hyperslab.database")

# Changes of parts after which they are published, and the seconds after which the next change is: a create takes seven
# requests or so, and this one or two of each 64, or of each ten seconds. Buckets take a few swaps of one key a second.
_MANY, _SECONDS = 64, 10.0

# Changes that are in memory at the most, should the bucket take none; then all are forgotten.
_MOST = 1 << 14

# Rows found anew that are published while there is more to find: what is in memory twice, and lost with a kill.
_ROWS_PER_PUBLISH = 1 << 16

# Seconds for which nothing is published after a request has failed: it was repeated for some time already. And after
# others were faster: they publish again in some seconds.
_REST, _REST_OF_BEATEN = 30.0, 1.0

# Manifests that are fetched, and in memory, at once.
_FETCHES = 8

# Rows from which on there is a copy: fewer are loaded into memory in a tenth of a second, a million in 16.
_COPIED_ROWS = 8192

# Seconds that a process waits for another one that loads into the copy: twice what a million rows took.
_LOADING_SECONDS = 30.0


class ManifestIndex(IndexDatabase):
    """The index of a collection with these attributes in the ``folder`` of a store that swaps values.

    ``exists``: returns True while the collection is there: of one that was removed nothing is stored. Nothing that goes
    wrong with the objects fails a call of its methods.
    """

    def __init__(
        self, attributes: Sequence[AttributeSchema], store: Store, folder: str, exists: Callable[[], bool]
    ) -> None:
        self._objects = PublishedIndex(attributes, store, folder, exists)
        self._may_write = not store.read_only
        self._has_copy = True
        super().__init__(attributes, writable=False)  # what is found goes beside what was loaded
        self._form = self._objects.form

    def _begin(self) -> None:
        super()._begin()
        # Lock order: ``lock`` of the database, then that of the head; who has the latter never waits for the former.
        self._head_lock = threading.RLock()
        self._objects.forget()
        self._is_copy = False
        self._unusable: Stamp | None = None
        self._changes = threading.Lock()
        self._moves: list[Move] = []
        self._unconfirmed: set[str] = set()
        self._published, self._rest_until = time.monotonic(), 0.0

    # -- the database -------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        if self._connection is None and self._has_copy and os.path.exists(path := self._copy_path()):
            self._open_copy(path)
        connection = super()._open()
        self._is_file = True  # what was loaded takes no changes of those who look
        return connection

    def _copy_path(self) -> str:
        return f"{cache_folder(self._form)}/{FILE}"

    def _open_copy(self, path: str) -> None:
        """Open the copy; it is made, or made anew, where there is none that is sound."""
        self._open_to_write(path)
        self._is_copy = self._has_copy = self._connection is not None

    def _open_for(self, head: Head) -> sqlite3.Connection:
        """Return the connection to what a head is loaded into: the copy, where it is worth that and nothing was found
        beside what is in memory."""
        is_large = sum(run.rows for run in head.runs) >= _COPIED_ROWS
        if is_large and self._has_copy and not self._is_copy and not self._has_overlay:
            path = make_cache_folder(self._form)
            if path is None:
                self._has_copy = False
            else:
                self._close()
                self._open_copy(path)
        return self._open()

    @contextmanager
    def _change(self, connection: sqlite3.Connection, seconds: float = 0.0) -> Iterator[None]:
        """Change what was loaded in one transaction, also within a snapshot, which begins anew behind it; wait so many
        seconds for others who change the copy."""
        within = self._is_copy and connection.in_transaction
        if within:
            connection.execute("COMMIT")
        if self._is_copy:
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")
        try:
            with transaction(connection):
                yield
        finally:
            if within and self._connection is connection:
                connection.execute("BEGIN")
                connection.execute("SELECT 1 FROM main.meta").fetchone()

    def _make_tables(self, schema: str) -> None:
        super()._make_tables(schema)
        assert self._connection is not None
        if schema == "main":
            self._connection.execute("CREATE TABLE main.loaded(epoch TEXT, number INTEGER, names TEXT)")

    def _loaded(self, connection: sqlite3.Connection) -> tuple[str, int, frozenset[str]]:
        """Return the epoch and the number of the head that was loaded, and the names of its manifests."""
        found = connection.execute("SELECT epoch, number, names FROM main.loaded").fetchone()
        return ("", 0, frozenset()) if found is None else (found[0], found[1], frozenset(found[2].split()))

    def _present_version(self) -> None:
        return None

    def _close(self) -> None:
        super()._close()
        self._is_copy = False

    def _leave_out(self, error: sqlite3.Error) -> None:
        """Go on without a copy that failed, and remove one that is damaged; else without the objects."""
        if not self._is_copy:
            super()._leave_out(error)
            self._give_up()
            return
        LOGGER.debug("the copy of the index is left out: %s", error)
        self._close()
        self._has_copy = False
        if is_damage(error):
            with suppress(OSError):
                remove_tree(cache_folder(self._form))

    def before_fork(self) -> None:
        """Let go of a copy, whose locks a child could take for its own; what is in memory stays."""
        if self._is_copy:
            self._close()

    def close(self) -> None:
        """Publish what is to be published, and let go of the database."""
        self.publish(wait=True)
        super().close()

    # -- what others have published -----------------------------------------------------------------------------------

    def reload(self) -> bool:
        """Load what was published since; return True if anything was. What this process has to publish goes first."""
        with self.lock, self._head_lock:
            if self._objects.begins_anew and self._unusable is None:
                return False
            if self._moves:
                self.publish()
            try:
                return self._reload()
            except HyperslabError as error:
                LOGGER.debug("the index is left out: %s", error)
                return False

    def _reload(self) -> bool:
        lost: Stamp | None = None
        for _ in range(TRIES):
            self._objects.read_head()
            if self._objects.stamp == self._unusable is not None:
                return False
            try:
                if self._loaded(self._open())[:2] == (self._objects.head.epoch, self._objects.head.number):
                    return False
                self._load(self._objects.head)
                self._objects.begins_anew = False
                return True
            except sqlite3.Error as error:
                self._leave_out(error)
            except ManifestLost:
                # Removed since the head was read, which then is another one, or damaged.
                if self._objects.stamp == lost:
                    break
                lost = self._objects.stamp
        self._give_up()
        return False

    def _give_up(self) -> None:
        """Go on without the objects until there is another head; who may write makes it."""
        if self._connection is not None:
            self._forget_loaded(self._connection)
        self._unusable, self._objects.begins_anew = self._objects.stamp, self._may_write

    def _load(self, head: Head) -> None:
        """Take over a head, or what is new in it, unless another process did."""
        connection = self._open_for(head)
        with self._change(connection, _LOADING_SECONDS):
            epoch, number, names = self._loaded(connection)
            if (epoch, number) < (head.epoch, head.number) or epoch != head.epoch:
                self._load_into(connection, head, epoch, number, names)

    def _load_into(
        self, connection: sqlite3.Connection, head: Head, epoch: str, number: int, names: frozenset[str]
    ) -> None:
        new = [run for run in head.runs if not names.issuperset(ref.name for ref in run.manifests)]
        # The first run tells nothing of what is gone.
        whole = head.epoch != epoch or new[:1] == head.runs[:1] != []
        runs = head.runs if whole else [run for run in new if run.last > number]
        if whole:
            self._clear(connection)
            self._drop_indexes(connection)
        try:
            for refs in batched([ref for run in runs for ref in run.manifests], _FETCHES):
                for delta in each_request([partial(self._objects.read_manifest, ref) for ref in refs]):
                    self._apply(connection, delta)
            for when, columns in head.tail:
                if whole or when > number:
                    self._apply(connection, parse_rows(columns, self._objects.defaults))
        except BaseException:
            self._clear(connection)
            raise
        finally:
            if whole:
                self._make_indexes(connection, "main")
        self._put_stamps(connection, head)

    def _clear(self, connection: sqlite3.Connection) -> None:
        for table in ("parts", "arrays", "pending", "loaded"):
            connection.execute(f"DELETE FROM main.{table}")

    def _forget_loaded(self, connection: sqlite3.Connection) -> None:
        """Have nothing be loaded, for the other processes of a copy, too."""
        try:
            with self._change(connection, _LOADING_SECONDS):
                self._clear(connection)
        except sqlite3.Error as error:
            if self._is_copy:
                self._leave_out(error)

    def _apply(self, connection: sqlite3.Connection, delta: RowChanges) -> None:
        self._delete(connection, "main", delta.gone)
        self._put(connection, "main", list(delta.rows.values()), delta.pending)
        connection.executemany("DELETE FROM main.pending WHERE id = ?", [(id,) for id in delta.committed])

    def _put_stamps(self, connection: sqlite3.Connection, head: Head) -> None:
        connection.execute("DELETE FROM main.parts")
        connection.executemany("INSERT INTO main.parts VALUES (?, ?)", head.stamps.items())
        connection.execute("DELETE FROM main.loaded")
        loaded = (head.epoch, head.number, " ".join(sorted(head.names)))
        connection.execute("INSERT INTO main.loaded VALUES (?, ?, ?)", loaded)

    # -- changes of writers -------------------------------------------------------------------------------------------

    @contextmanager
    def following(self, change: IndexChange) -> Iterator[bool]:
        """Take over what the block changes, and adds to ``change``, to be published."""
        yield self._may_write
        if not self._may_write:
            return
        deltas = {part: RowChanges() for part in change.moves}
        length = len(next(iter(deltas), ""))
        for row in change.rows:
            if (delta := deltas.get(row[0][:length])) is not None:
                delta.rows[row[0]] = row
        for id in change.removed:
            if (delta := deltas.get(id[:length])) is not None:
                delta.gone.add(id)
        count, now = len(self._attributes), time.time()
        moves = [Move(part, *change.moves[part], delta.columns(count), now) for part, delta in deltas.items()]
        with self._changes:
            self._moves += moves
            if change.pending:
                self._unconfirmed.update(row[0] for row in change.rows)
            if len(self._moves) > _MOST:
                self._moves, self._unconfirmed = [], set()
        if not change.pending:
            self.share()

    def confirm(self, ids: Collection[str]) -> None:
        """Take over that arrays which were pending exist: what a writer has made is published by now."""
        with self._changes:
            self._unconfirmed.difference_update(ids)
        # Where another thread looks something up it finds out by itself.
        if self._connection is not None and self.lock.acquire(blocking=False):
            try:
                self._confirmed.update(ids)
            finally:
                self.lock.release()
        self.share()

    def refresh(
        self, parts: Mapping[str, PartNews], rows: Mapping[str, Row], pending: Collection[str], unread: Collection[str]
    ) -> bool:
        """Take over what was found of parts that changed; where it is much, publish it."""
        is_complete = super().refresh(parts, rows, pending, unread)
        if self._may_write:
            with self.lock:
                count = self._open().execute("SELECT count(*) FROM overlay.arrays").fetchone()[0]
                if count > _ROWS_PER_PUBLISH:
                    self.publish()
                    self.stamps()  # forgets what is published
        return is_complete

    # -- publishing ---------------------------------------------------------------------------------------------------

    def share(self) -> None:
        """Publish changes and findings, if they are many or some seconds old."""
        if len(self._moves) >= _MANY or time.monotonic() - self._published >= _SECONDS or self._has_much():
            self.publish()

    def _has_much(self) -> bool:
        """Return True if much was found that others would have to find, too. Of another thread's database: False."""
        if not self._may_write or not self._has_overlay or not self.lock.acquire(blocking=False):
            return False
        try:
            parts = self._open().execute("SELECT count(*) FROM overlay.parts WHERE stamp != base OR base IS NULL")
            return bool(parts.fetchone()[0] >= _MANY)
        finally:
            self.lock.release()

    def publish(self, *, wait: bool = False) -> None:
        """Publish what there is; ``wait`` for another thread that does, and whatever has failed before."""
        if not self._may_write or (time.monotonic() < self._rest_until and not wait):
            return
        if not self._head_lock.acquire(blocking=wait):
            return
        try:
            self._published = time.monotonic()
            self._publish(TRIES_AT_END if wait else TRIES)
        except HyperslabError as error:
            LOGGER.debug("the index stays as it is: %s", error)
            rest = _REST_OF_BEATEN if isinstance(error, Conflict) else _REST
            self._rest_until = time.monotonic() + rest
        finally:
            self._head_lock.release()

    def lacks(self, parts: Collection[str]) -> bool:
        """Return True if one of these parts is unknown after what there is was published: as in a copy of a collection,
        whose index is not trusted."""
        self.publish(wait=True)
        with self._head_lock:
            return not self._objects.head.stamps.keys() >= set(parts)

    def _publish(self, tries: int) -> None:
        has_database = self.lock.acquire(blocking=False)
        try:
            moves = self._complete_moves()
            found, committed = self._findings() if has_database else ([], set())
            if not moves and not found and not committed:
                return
            basis, draft = self._objects.swap(moves, found, committed, tries)
            with self._changes:
                published = set(map(id, moves))
                self._moves = [each for each in self._moves if id(each) not in published]
            if draft.is_changed and has_database and self._connection is not None:
                self._take_over(self._connection, basis, draft)
        finally:
            if has_database:
                self.lock.release()

    def _take_over(self, connection: sqlite3.Connection, basis: tuple[str, int], draft: Draft) -> None:
        """Have what was published be loaded, if what it was made of is; a copy that another process changes at this
        moment stays older."""
        try:
            with self._change(connection):
                if self._loaded(connection)[:2] == basis:
                    self._apply(connection, draft.new)
                    self._put_stamps(connection, draft.head)
        except sqlite3.OperationalError as error:
            if not self._is_copy or is_damage(error):
                raise

    def _complete_moves(self) -> list[Move]:
        """Return the changes whose arrays exist; forget those of creations that came to no end."""
        oldest = time.time() - RETIRED_SECONDS
        with self._changes:
            waiting = [each for each in self._moves if not self._unconfirmed.isdisjoint(each.change.ids)]
            for move in waiting:
                if move.moment < oldest:
                    self._moves.remove(move)
                    self._unconfirmed.difference_update(move.change.ids)
            left = set(map(id, waiting))
            return [each for each in self._moves if id(each) not in left]

    def _findings(self) -> tuple[list[Move], set[str]]:
        """Return what was found beside what was loaded, and arrays that were pending there and exist."""
        connection, now, found = self._connection, time.time(), list[Move]()
        if connection is None:
            return found, set()
        committed = {id for (id,) in connection.execute("SELECT id FROM main.pending")} & self._confirmed
        if self._has_overlay:
            parts = connection.execute("SELECT name, stamp, base FROM overlay.parts WHERE stamp != ?", (UNSURE,))
            for part, stamp, base in parts.fetchall():
                if stamp != base:
                    change = self._overlay_rows(connection, part).columns(len(self._attributes))
                    found.append(Move(part, base, stamp, change, now))
        return found, committed

    def _overlay_rows(self, connection: sqlite3.Connection, part: str) -> RowChanges:
        where, ends = ids_within(part)
        rows = {row[0]: row for row in connection.execute(f"SELECT * FROM overlay.arrays WHERE {where}", ends)}
        pending = {id for (id,) in connection.execute(f"SELECT id FROM overlay.pending WHERE {where}", ends)}
        shadowed = {id for (id,) in connection.execute(f"SELECT id FROM overlay.shadowed WHERE {where}", ends)}
        return RowChanges(rows, pending - self._confirmed, shadowed - rows.keys())

    # -- care ---------------------------------------------------------------------------------------------------------

    def add_attribute(self, attribute: AttributeSchema) -> None:
        """Let the index be one of a schema with this attribute last: rows that are there have its default. Who has the
        schema of before publishes nothing from then on. Where that fails the index is made anew."""
        with self.lock, self._head_lock, suppress(HyperslabError):
            self.publish()
            self._objects.change_form([*self._attributes, attribute])
        super().close()

    def begin_anew(self) -> None:
        """Forget all; the next one that is published takes the place of what is stored."""
        with self.lock, self._head_lock:
            self._forget_loaded(self._open())
            self._close()
            self._objects.is_read, self._objects.begins_anew = False, self._may_write
            self._unusable = None
            with self._changes:
                self._moves, self._unconfirmed = [], set()

    def place(self) -> IndexPlace:
        """Return where the index is, with the bytes of all its objects."""
        objects = self._objects
        sizes = {name: size for name, _, size in objects.store.entries(objects.folder)}
        with self._head_lock:
            objects.read_head()
            url = f"{objects.store.url.rstrip('/')}/{objects.key(CURRENT)}"
            return IndexPlace(url, sum(sizes.values()), objects.head.stamps)

    # -- damage: queries go without an index that is damaged ---------------------------------------------------------

    def find_damage(self, name: str) -> Iterator[Finding]:
        """Yield what is no part of the index of the collection ``name`` any more, or never was, with what mends it."""
        store, folder, head = self._objects.store, self._objects.folder, self._objects.key(CURRENT)
        if fault := self._find_fault():
            action, message = "remove it: who may write makes it anew", f"{fault}: queries go without the index"
            yield found_at(name, "unusable-index", message, head, action, self._remove_faulty_head, (head,))
        for key in self._find_leftovers():
            act, message = partial(self._remove_leftover, key), "a writer of the index died"
            yield found_at(name, "leftover", message, key, "remove it", act, (key,))
        files, folders = store.list_dir(folder)
        for each in sorted({*files, *folders} - {CURRENT}):
            if not is_manifest(each):
                yield found_foreign(name, "this is no part of an index", f"{folder}/{each}")

    def remove_leftovers(self) -> None:
        """Remove manifests that killed writers left."""
        for key in self._find_leftovers():
            self._objects.store.delete(key)

    def _find_fault(self) -> str:
        """Return what is wrong with the head; empty where nothing is, or there is none."""
        with self._head_lock:
            self._objects.read_head_anew()
            return self._objects.fault

    def _remove_faulty_head(self) -> None:
        if self._find_fault():
            self._objects.store.delete(self._objects.key(CURRENT))

    def _find_leftovers(self) -> list[str]:
        """Return the keys of manifests that no head names, and that nobody is about to name."""
        with self._head_lock:
            return self._objects.find_leftovers()

    def _remove_leftover(self, key: str) -> None:
        """Remove a manifest, unless it is named by now or about to be."""
        with self._head_lock:
            is_leftover = bool(self._objects.choose_leftovers([key]))
        if is_leftover:
            self._objects.store.delete(key)
