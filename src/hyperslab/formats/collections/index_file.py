"""A file of SQLite that may be lost, locked or damaged at any time, with a database in memory beside it.

Who may write opens it with SQLite's write-ahead log, without a flush for each change: one that a power cut takes leaves
the file older. Who may only read writes nothing, no file of locks either. Whatever goes wrong with the file, it is left
out, and what would be there is in memory.

Files are opened so only where all processes that use them share memory (:func:`~hyperslab.stores.files.is_local`).
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import blake2b
from typing import TypeVar
from urllib.parse import quote
from weakref import WeakSet

from hyperslab.errors import Conflict, HyperslabError
from hyperslab.stores.files import is_local
from hyperslab.stores.forks import call_around_fork
from hyperslab.stores.locks import hold_folder

FILE = "index.sqlite"
"""The name of the file."""

FILES = (FILE, *(f"{FILE}-{tail}" for tail in ("wal", "shm", "journal")))
"""The names of all files that SQLite makes."""

# Seconds that a change waits for others. They take a millisecond each, a refresh of many parts a second or two.
_PATIENCE = 2.0

# Seconds for which a file that was locked for so long, or could not be written, is left alone by writers.
_PAUSE = 30.0

# Bytes of a page: each change of a row writes one page whole for each tree.
_PAGE = 1024

# Pages that are written aside before they are put into the file, which is flushed then: those of some 500 creations.
_CHECKPOINT = 4000

# Kibibytes of pages that are kept in memory: the upper levels of all trees of a million rows.
_CACHE = 16 << 10

# Times that a reader without locks looks again at a file that is changed meanwhile; then it goes on without it.
_LOOKS = 4

Result = TypeVar("Result")


class IndexFile(ABC):
    """The file at ``path``, None for memory alone; a subclass knows its tables, whose form is ``form``.

    ``epoch`` changes when what was kept in memory besides the file is gone, since the file is another one.
    """

    def __init__(self, form: str, path: str | None, *, writable: bool) -> None:
        self._form = form
        self._path = path
        self._writable = writable
        self._begin()
        _files.add(self)

    def _begin(self) -> None:
        self.lock = threading.RLock()
        self.epoch = 0
        self._connection: sqlite3.Connection | None = None
        self._version: tuple[int, ...] | None = None
        self._is_file = False
        self._busy_until, self._pause = 0.0, _PAUSE
        self._has_overlay = False  # rows in memory that count in place of the file's

    @abstractmethod
    def _make_tables(self, schema: str) -> None:
        """Make all tables, in the file (``main``) or beside it (``overlay``)."""

    @abstractmethod
    def _finish(self) -> None:
        """Write what is still to be written into the file that is open."""

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
            with _hold_folder_of(path), _opening:
                _close_readers(path)
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
        try:
            self._connection = _connect(f"file:{quote(path)}?mode={'rwc' if make else 'rw'}")
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
            if make or not is_damage(error):
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
            with _opening:
                self._connection = _connect(f"file:{quote(path)}?mode=ro&{how}")
                is_ours = self._is_ours(path)
            if not is_ours:
                raise sqlite3.DatabaseError("it is of another collection")
            self._is_file = True
            self._attach()
        except (sqlite3.Error, OSError):
            self._close()
            self._version = version  # it is not opened again unless it is another one

    def _attach(self) -> None:
        assert self._connection is not None
        self._connection.execute("ATTACH ':memory:' AS overlay")
        self._make_tables("overlay")

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        self._is_file, self._version, self._has_overlay = False, None, False
        if connection is not None:
            self.epoch += 1
            with suppress(sqlite3.Error):
                connection.close()

    def close(self) -> None:
        """Let go of the file, with all that is to be written there."""
        with self.lock:
            if self._is_file and self._writable:
                self._finish()
            self._close()

    __del__ = close

    def before_fork(self) -> None:
        """Let go of the file before the process is forked, with its lock held."""
        if self._is_file:
            self.close()

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

    def state(self) -> tuple[int, int]:
        """Return what changes when another file takes the place of this one, and, for who may write, when another
        connection writes into it; who may only read has snapshots."""
        with self.lock:
            connection = self._open()
            if not self._is_file or not self._writable:
                return self.epoch, 0
            try:
                return self.epoch, int(connection.execute("PRAGMA main.data_version").fetchone()[0])
            except sqlite3.Error as error:
                self._leave_out(error)
                return self.epoch, 0

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Have who may only read see one state of the file during the block, whatever others write meanwhile: what was
        found beside it counts for that state alone."""
        with self.lock:
            connection = self._open()
            begun = False
            if self._is_file and not self._writable and not connection.in_transaction:
                try:
                    connection.execute("BEGIN")
                    connection.execute("SELECT 1 FROM main.meta").fetchone()  # the state is that of the first look
                    begun = True
                except sqlite3.Error as error:
                    self._leave_out(error)
            try:
                yield
            finally:
                # Another connection has taken its place where the file was replaced, or failed.
                if begun and self._connection is connection and connection.in_transaction:
                    connection.execute("COMMIT")

    def _give_way(self, error: sqlite3.Error) -> None:
        """Write nothing into a file for a while that is locked, or full; go on without one that is damaged."""
        if is_damage(error):
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
        if not is_damage(error) or path is None:
            return
        with suppress(OSError, Conflict), _hold_folder_of(path):
            found = os.stat(path)
            if version == (found.st_dev, found.st_ino):
                _remove_files(path)
                self._busy_until = 0.0


def is_damage(error: sqlite3.Error) -> bool:
    """Return True if a file is not, or is no more, one of ours; False if it cannot be used now."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # without one it is an error of this module
    return code & 0xFF in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def cache_folder(place: str) -> str:
    """Return the folder of an index of what lies at a place, among the caches of this user. Whoever removes it loses
    the time to fill it anew."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{caches}/hyperslab/indexes/{blake2b(place.encode(), digest_size=16).hexdigest()}"


def make_cache_folder(place: str) -> str | None:
    """Return the path of the file there, with its folder made; None where there can be none."""
    folder = cache_folder(place)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return None
    return f"{folder}/{FILE}" if is_local(folder) else None


# -- SQLite -----------------------------------------------------------------------------------------------------------


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_PATIENCE)
    try:
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE}")
        connection.execute("PRAGMA temp_store = MEMORY")
    except sqlite3.Error:  # the first look at a damaged file
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Do the block in one transaction, within that of a snapshot where there is one."""
    if connection.in_transaction:
        yield
        return
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


# -- readers and writers of one process -------------------------------------------------------------------------------
# All connections of a process share the mapping of the file beside the database that tells what is in the log (-shm),
# as the first one opened it: where that was a reader, no writer could write. So a writer opens it with no reader there;
# readers open it anew with their next look, and share the mapping of the writer.

# Lock order: within the lock of a file, and the folder's; who holds it waits for no other.
_opening = threading.Lock()


def _close_readers(path: str) -> None:
    """Close the connections that only read the file and its log, of this process; one in use at this moment stays."""
    for reader in list(_files):
        if reader._path == path and not reader._writable and reader.lock.acquire(blocking=False):
            try:
                if reader._version is not None and len(reader._version) == 2:
                    reader._close()
            finally:
                reader.lock.release()


# -- forks ------------------------------------------------------------------------------------------------------------
# SQLite knows by process which files are locked, and a child inherits that: it would take for its own the locks that
# the parent has. So no file is open, and no connection is at work, while a process is forked.


_files: WeakSet[IndexFile] = WeakSet()


_at_rest: list[IndexFile] = []


def _rest() -> None:
    for database in list(_files):
        database.lock.acquire()
        _at_rest.append(database)
        database.before_fork()


def _go_on() -> None:
    while _at_rest:
        _at_rest.pop().lock.release()


def _begin_anew() -> None:
    _at_rest.clear()
    for database in list(_files):
        database._begin()


def _close_all() -> None:
    for database in list(_files):
        # What is not written is only older; threads, and so requests, may not begin any more while a process ends.
        with suppress(HyperslabError, sqlite3.Error, OSError, RuntimeError):
            database.close()


atexit.register(_close_all)
call_around_fork(_rest, _go_on, _begin_anew)
