"""An index of attributes that is kept as objects of a bucket, for collections whose values are no files.

What the objects are says :mod:`.manifests`. Nobody trusts them more than the stamps in them allow: a part of the
collection counts as known while its stamp in the index is the present one of its generation. So a lost, damaged or
older index only has more parts listed.

A process loads the objects into a database in memory, when something is looked up first, and what was published since
when parts have changed. What it finds anew lies beside that (``fresh``), as with a file that it may not write.

Writers and those who look and may write *publish*: they put another head in place of the one that they know, on the
condition that it still is there. A writer publishes its changes when they are many or some seconds old, and when it is
closed; who dies before that leaves the index older. Manifests are stored before the head that names them, and removed
some time after the last one that did.
"""

from __future__ import annotations

import logging
import random
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b

import msgspec

from hyperslab.chunks.plan import batched
from hyperslab.errors import Conflict, CorruptChunk, FormatError, HyperslabError
from hyperslab.formats.collections.index_database import (
    UNSURE,
    IndexChange,
    IndexDatabase,
    IndexPlace,
    PartNews,
    Row,
    form_of,
    ids_within,
)
from hyperslab.formats.collections.index_file import transaction
from hyperslab.formats.collections.manifests import (
    HEAD_BYTES,
    MANIFEST_BYTES,
    RETIRED_SECONDS,
    Draft,
    Head,
    ManifestRef,
    Move,
    RowChanges,
    Run,
    encode_head,
    encode_manifest,
    manifest_moment,
    manifest_name,
    merge,
    parse_head,
    parse_manifest,
    parse_rows,
    split_columns,
)
from hyperslab.formats.collections.ranks import encode_rank, ranker
from hyperslab.model.schemas import AttributeSchema
from hyperslab.stores.attempts import FIRST_PAUSE_SECONDS, beaten
from hyperslab.stores.base import Stamp, Store
from hyperslab.stores.requests import each_request

LOGGER = logging.getLogger("hyperslab.database")

CURRENT = "current"
"""The name of the head."""

# Changes of parts after which they are published, and the seconds after which the next change is: a create takes seven
# requests or so, and this one or two of each 64, or of each ten seconds. Buckets take a few swaps of one key a second.
_MANY, _SECONDS = 64, 10.0

# Changes that are in memory at the most, should the bucket take none; then all are forgotten.
_MOST = 1 << 14

# Rows found anew that are published while there is more to find: what is in memory twice, and lost with a kill.
_ROWS_PER_PUBLISH = 1 << 16

# Times that a head is swapped, or read, while others are faster; then the changes wait for the next time. There is none
# when a writer is closed, so that it tries for longer, with the pauses of ``attempts`` between: some three seconds.
_TRIES, _TRIES_AT_END = 3, 9

# Seconds for which nothing is published after a request has failed: it was repeated for some time already. And after
# others were faster: they publish again in some seconds.
_REST, _REST_OF_BEATEN = 30.0, 1.0

# Manifests that are fetched, and in memory, at once.
_FETCHES = 8


class _Lost(Exception):
    """A manifest that the head names is missing or damaged."""


class ManifestIndex(IndexDatabase):
    """The index of a collection with these attributes in the ``folder`` of a store that swaps values.

    ``exists``: returns True while the collection is there: of one that was removed nothing is stored. Nothing that goes
    wrong with the objects fails a call of its methods.
    """

    def __init__(
        self, attributes: Sequence[AttributeSchema], store: Store, folder: str, exists: Callable[[], bool]
    ) -> None:
        self._store = store
        self._folder = folder
        self._exists = exists
        self._may_write = not store.read_only
        super().__init__(attributes, writable=False)  # what is found goes beside what was loaded
        self._form = self._form_here(attributes)
        self._head = self._empty_head()
        self._defaults = [
            encode_rank(ranker(each)(each.unset_value)) if each.has_default else None for each in attributes
        ]

    def _begin(self) -> None:
        super()._begin()
        # Lock order: ``lock`` of the database, then that of the head; who has the latter never waits for the former.
        self._head_lock = threading.RLock()
        self._head, self._is_read = self._empty_head(), False
        self._stamp: Stamp | None = None
        self._loaded: tuple[str, int, frozenset[str]] = ("", 0, frozenset())
        self._fault = ""
        self._unusable: Stamp | None = None
        self._begins_anew = False
        self._changes = threading.Lock()
        self._moves: list[Move] = []
        self._unconfirmed: set[str] = set()
        self._published, self._rest_until = time.monotonic(), 0.0

    def _form_here(self, attributes: Sequence[AttributeSchema]) -> str:
        """Return the form of an index of these attributes, which no copy has: that may be of two moments, with ETags
        that are those of the original."""
        place = f"{form_of(attributes)} {self._store.url.rstrip('/')}/{self._folder}"
        return blake2b(place.encode(), digest_size=16).hexdigest()

    def _empty_head(self) -> Head:
        return Head(self._form, "")

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}"

    # -- the database in memory ---------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        connection = super()._open()
        self._is_file = True  # what was loaded takes no changes of those who look
        return connection

    def _present_version(self) -> None:
        return None

    def _close(self) -> None:
        super()._close()
        self._loaded = ("", 0, frozenset())

    def _leave_out(self, error: sqlite3.Error) -> None:
        super()._leave_out(error)
        self._give_up()

    def before_fork(self) -> None:
        """Leave the database as it is: it has no file whose locks a child could take for its own."""

    def close(self) -> None:
        """Publish what is to be published, and let go of the database."""
        self.publish(wait=True)
        super().close()

    # -- what others have published -----------------------------------------------------------------------------------

    def reload(self) -> bool:
        """Load what was published since; return True if anything was. What this process has to publish goes first."""
        with self.lock, self._head_lock:
            if self._begins_anew and self._unusable is None:
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
        for _ in range(_TRIES):
            self._read_head()
            if (self._head.epoch, self._head.number) == self._loaded[:2] or self._stamp == self._unusable is not None:
                return False
            try:
                self._load(self._head)
                self._begins_anew = False
                return True
            except _Lost:
                # Removed since the head was read, which then is another one, or damaged.
                if self._stamp == lost:
                    break
                lost = self._stamp
        self._give_up()
        return False

    def _give_up(self) -> None:
        """Go on without the objects until there is another head; who may write makes it."""
        self._unusable, self._begins_anew = self._stamp, self._may_write

    def _read_head(self) -> None:
        """Look at the head, unless it is the one that is known; one that is damaged is as good as none."""
        key, unless = self._key(CURRENT), self._stamp if self._is_read else None
        head = self._empty_head()
        stamp: Stamp | None = None
        try:
            found = self._store.get_version(key, unless=unless, most=HEAD_BYTES)
            if found is not None and found.data is None:
                return
            self._fault = ""
            if found is not None:
                stamp = found.stamp
                head = parse_head(found.data, self._form, self._defaults)
        except (CorruptChunk, FormatError) as error:
            self._fault = error.message
            LOGGER.debug("the index is left out: %s", error)
            stamp = self._store.stamp(key) if stamp is None else stamp
        self._head, self._stamp, self._is_read = head, stamp, True

    def _load(self, head: Head) -> None:
        """Take over a head, or what is new in it."""
        epoch, number, names = self._loaded
        new = [run for run in head.runs if not names.issuperset(ref.name for ref in run.manifests)]
        # The first run tells nothing of what is gone.
        whole = head.epoch != epoch or new[:1] == head.runs[:1] != []
        runs = head.runs if whole else [run for run in new if run.last > number]
        connection = self._open()
        with transaction(connection):
            if whole:
                self._clear(connection)
                self._drop_indexes(connection)
            try:
                for refs in batched([ref for run in runs for ref in run.manifests], _FETCHES):
                    for delta in each_request([partial(self._read_manifest, ref) for ref in refs]):
                        self._apply(connection, delta)
                for when, columns in head.tail:
                    if whole or when > number:
                        self._apply(connection, parse_rows(columns, self._defaults))
            except BaseException:
                self._clear(connection)
                raise
            finally:
                if whole:
                    self._make_indexes(connection, "main")
            self._put_stamps(connection, head)

    def _clear(self, connection: sqlite3.Connection) -> None:
        for table in ("parts", "arrays", "pending"):
            connection.execute(f"DELETE FROM main.{table}")
        self._loaded = ("", 0, frozenset())

    def _apply(self, connection: sqlite3.Connection, delta: RowChanges) -> None:
        self._delete(connection, "main", delta.gone)
        self._put(connection, "main", list(delta.rows.values()), delta.pending)
        connection.executemany("DELETE FROM main.pending WHERE id = ?", [(id,) for id in delta.settled])

    def _put_stamps(self, connection: sqlite3.Connection, head: Head) -> None:
        connection.execute("DELETE FROM main.parts")
        connection.executemany("INSERT INTO main.parts VALUES (?, ?)", head.stamps.items())
        self._loaded = (head.epoch, head.number, frozenset(head.names))

    def _read_manifest(self, ref: ManifestRef) -> RowChanges:
        most = min(ref.nbytes, MANIFEST_BYTES)
        try:
            found = self._store.get_version(self._key(ref.name), most=most)
            if found is None:
                raise _Lost
            return parse_manifest(found.data, self._defaults)
        except (CorruptChunk, FormatError) as error:
            raise _Lost from error

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
        for id in change.gone:
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
        self, parts: Mapping[str, PartNews], rows: Mapping[str, Row], pending: Collection[str], gone: Collection[str]
    ) -> bool:
        """Take over what was found of parts that changed; where it is much, publish it."""
        is_complete = super().refresh(parts, rows, pending, gone)
        if self._may_write:
            with self.lock:
                count = self._open().execute("SELECT count(*) FROM fresh.arrays").fetchone()[0]
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
        if not self._may_write or not self._has_fresh or not self.lock.acquire(blocking=False):
            return False
        try:
            parts = self._open().execute("SELECT count(*) FROM fresh.parts WHERE stamp != base OR base IS NULL")
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
            self._publish(_TRIES_AT_END if wait else _TRIES)
        except HyperslabError as error:
            LOGGER.debug("the index stays as it is: %s", error)
            rest = _REST_OF_BEATEN if isinstance(error, Conflict) else _REST
            self._rest_until = time.monotonic() + rest
        finally:
            self._head_lock.release()

    def _publish(self, tries: int) -> None:
        has_database = self.lock.acquire(blocking=False)
        try:
            moves = self._complete_moves()
            found, settled = self._findings() if has_database else ([], set())
            if not moves and not found and not settled:
                return
            basis, draft = self._swap(moves, found, settled, tries)
            with self._changes:
                published = set(map(id, moves))
                self._moves = [each for each in self._moves if id(each) not in published]
            if draft.is_changed and has_database and self._connection is not None and self._loaded[:2] == basis:
                with transaction(self._connection):
                    self._apply(self._connection, draft.new)
                    self._put_stamps(self._connection, draft.head)
        finally:
            if has_database:
                self.lock.release()

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
        settled = {id for (id,) in connection.execute("SELECT id FROM main.pending")} & self._confirmed
        if self._has_fresh:
            parts = connection.execute("SELECT name, stamp, base FROM fresh.parts WHERE stamp != ?", (UNSURE,))
            for part, stamp, base in parts.fetchall():
                if stamp != base:
                    change = self._fresh_rows(connection, part).columns(len(self._attributes))
                    found.append(Move(part, base, stamp, change, now))
        return found, settled

    def _fresh_rows(self, connection: sqlite3.Connection, part: str) -> RowChanges:
        where, ends = ids_within(part)
        rows = {row[0]: row for row in connection.execute(f"SELECT * FROM fresh.arrays WHERE {where}", ends)}
        pending = {id for (id,) in connection.execute(f"SELECT id FROM fresh.pending WHERE {where}", ends)}
        hidden = {id for (id,) in connection.execute(f"SELECT id FROM fresh.hides WHERE {where}", ends)}
        return RowChanges(rows, pending - self._confirmed, hidden - rows.keys())

    def _swap(
        self, moves: Sequence[Move], found: Sequence[Move], settled: set[str], tries: int
    ) -> tuple[tuple[str, int], Draft]:
        """Put a head with these changes in place of the present one. Return the epoch and number that the other one
        had, and what was made of it. Conflict when others were faster again and again."""
        made: set[str] = set()
        for attempt in range(tries):
            if attempt or not self._is_read:
                _pause(attempt)
                self._read_head()
                self._remove(made - self._head.names)
                made.clear()
            if not self._head.epoch and not self._exists():  # also where its schema is another one by now
                break
            base = self._empty_head() if self._begins_anew else self._head
            draft = self._draft(base, moves, found, settled)
            if not draft.is_changed:
                return (base.epoch, base.number), draft
            over = draft.finish(time.time())
            try:
                if draft.has_full_tail():
                    self._fold(draft, made)
                stamp = self._store.put_if(self._key(CURRENT), encode_head(draft.head), self._stamp)
            except Conflict:  # also where the answer to a swap was lost
                continue
            except _Lost:
                self._begins_anew = attempt > 0
                continue
            self._head, self._stamp, self._is_read, self._begins_anew = draft.head, stamp, True, False
            self._remove(over)
            return (base.epoch, base.number), draft
        self._is_read = False
        raise beaten(self._store.url, self._key(CURRENT))

    def _draft(self, base: Head, moves: Sequence[Move], found: Sequence[Move], settled: set[str]) -> Draft:
        draft = Draft(base, self._defaults)
        if not base.epoch:
            draft.head.epoch = secrets.token_hex(16)
            now = time.time()
            draft.head.retired = [*self._head.retired, *((name, now) for name in self._head.names)]
        for move in moves:
            draft.add(move, waits=True)
        for move in found:
            draft.add(move, waits=False)
        draft.settle(settled)
        return draft

    def _fold(self, draft: Draft, made: set[str]) -> None:
        """Make a run of the tail, and of runs that are not much longer."""
        newer, taken = draft.take_tail()
        for run in taken[:-1]:
            older = RowChanges()
            for ref in run.manifests:
                older.add(self._read_manifest(ref))
            older.add(newer)
            newer = older
        longest = taken[-1].manifests if taken else []
        refs, rows = list[ManifestRef](), 0
        for delta in merge(map(self._read_manifest, longest), newer, is_first=not draft.head.runs):
            for columns in split_columns(delta, len(self._attributes)):
                name, data = manifest_name(secrets.token_hex(16)), encode_manifest(columns)
                made.add(name)
                self._store.put(self._key(name), data, durable=True)
                refs.append(ManifestRef(name, len(data)))
                rows += len(columns.ids) + len(columns.gone) + len(columns.settled)
        draft.put_run(Run(rows, draft.head.number, refs), taken, time.time())
        if not refs:  # nothing is left, which no run tells of
            draft.head.epoch = secrets.token_hex(16)

    def _remove(self, names: Collection[str]) -> None:
        with suppress(HyperslabError):
            for name in names:
                self._store.delete(self._key(name))

    # -- care ---------------------------------------------------------------------------------------------------------

    def add_attribute(self, attribute: AttributeSchema) -> None:
        """Let the index be one of a schema with this attribute last: rows that are there have its default. Who has the
        schema of before publishes nothing from then on. Where that fails the index is made anew."""
        with self.lock, self._head_lock, suppress(HyperslabError):
            self.publish()
            form = self._form_here([*self._attributes, attribute])
            for attempt in range(_TRIES_AT_END):
                self._is_read = False
                self._read_head()
                head = msgspec.structs.replace(self._head, form=form, number=self._head.number + 1, waiting=[])
                try:
                    if head.epoch:
                        self._store.put_if(self._key(CURRENT), encode_head(head), self._stamp)
                    break
                except Conflict:
                    _pause(attempt)
        super().close()

    def begin_anew(self) -> None:
        """Forget all; the next one that is published takes the place of what is stored."""
        with self.lock, self._head_lock:
            self._close()
            self._is_read, self._begins_anew, self._unusable = False, self._may_write, None
            with self._changes:
                self._moves, self._unconfirmed = [], set()

    def place(self) -> IndexPlace:
        """Return where the index is, with the bytes of all its objects."""
        sizes = {name: size for name, _, size in self._store.entries(self._folder)}
        with self._head_lock:
            self._read_head()
            return IndexPlace(
                f"{self._store.url.rstrip('/')}/{self._key(CURRENT)}", sum(sizes.values()), self._head.stamps
            )

    def find_fault(self) -> str:
        """Return what is wrong with the head; empty where nothing is, or there is none."""
        with self._head_lock:
            self._is_read = False
            self._read_head()
            return self._fault

    def remove_leftovers(self) -> None:
        """Remove manifests that killed writers left."""
        for key in self.leftovers():
            self._store.delete(key)

    def leftovers(self) -> list[str]:
        """Return the keys of manifests that no head names, and that nobody is about to name."""
        names = [name for name, _, _ in self._store.entries(self._folder)]
        with self._head_lock:
            self._is_read = False
            self._read_head()
            known = self._head.names.union(name for name, _ in self._head.retired)
        oldest = time.time() - RETIRED_SECONDS
        moments = {name: manifest_moment(name) for name in names if name not in known}
        return [self._key(name) for name, moment in moments.items() if moment is not None and moment < oldest]


def _pause(attempt: int) -> None:
    """Wait before another attempt, at random, so that writers who met do not meet again; not before the first one."""
    if attempt:
        time.sleep(random.uniform(0, FIRST_PAUSE_SECONDS * 2**attempt))
