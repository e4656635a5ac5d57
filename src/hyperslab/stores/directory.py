"""A store that is a folder of files: each key is a file, each prefix a folder."""

from __future__ import annotations

import errno
import os
import stat
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hyperslab.errors import AlreadyExists, Conflict, HyperslabError, Invalid, NotFound, StorageError
from hyperslab.stores import counting, locks
from hyperslab.stores.attempts import beaten
from hyperslab.stores.base import Buffer, Stamp, StoreTraits
from hyperslab.stores.files import (
    CAN_FLUSH_ALL,
    MISSING,
    append_byte,
    create,
    discard,
    flush_all,
    link_new,
    move_over,
    remove_tree,
    replace,
    sync_and_close,
    sync_file,
    write_error,
)
from hyperslab.stores.folders import ATTEMPTS, Folders
from hyperslab.stores.keys import check_file_key, check_file_prefix, temporary_name
from hyperslab.stores.reading import FolderReader
from hyperslab.stores.requests import threads
from hyperslab.stores.system import IS_WINDOWS, rename, replace_file
from hyperslab.stores.unexpected_files import expel

# -- how a value comes to lie in a folder ------------------------------------------------------------------------------
# The one way: it is written under another name, made durable, then renamed.
#
# A value is seen old or new and never torn (rename(2) is atomic); with ``durable`` an acknowledged value survives a
# power cut (fsync of the file before the rename, of the folders after it).


if TYPE_CHECKING:
    from concurrent.futures import Future

# Files that are flushed by other threads and are not closed yet, at most: a process may have few open files.
FILES_FLUSHED_AT_ONCE = 128
# Which wait for the medium while the next values are written.
_THREADS = 16
_BY_DESCRIPTOR = os.utime in os.supports_fd
# What a file system says that has no second names for files, or no more of them for one.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES)
# Folders for which one flush of each takes less time than one of all.
FOLDERS_FLUSHED_ONE_BY_ONE = 8
# Threads that make new files, which some file systems take ten times as long for as writing them, and how many files
# they make at a time.
_MAKERS, NEW_FILES_PER_TASK = 2, 16


class Commit:
    """Values that become visible together, in the order in which they were added, when the ``with`` block ends well.

    When it does not, nothing of them is left. ``key`` is the one that is being worked on, for error messages.
    ``named_at_once``: a new value gets its name at once, where nobody reads before all of the dataset is there.
    ``new``: no key may have a value, else ``Conflict``. ``at_once``: made durable by flushes of the whole file system.
    ``first``: keys of values that must be on the medium, if ``durable``, before these become visible.
    """

    def __init__(
        self,
        folders: Folders,
        *,
        durable: bool,
        named_at_once: bool = False,
        new: bool = False,
        at_once: bool = False,
        first: Iterable[str] = (),
    ) -> None:
        self.key = ""
        self._named_at_once = named_at_once
        self._new = new
        self._at_once = at_once
        self._first = first
        self._shown: list[str] = []
        self._folders = folders
        self._durable = durable
        self._written: list[tuple[str, str, str]] = []
        self._last: tuple[str, int] | None = None
        self._flushing: list[tuple[str, Future[None]]] = []
        self._keys: set[str] = set()
        self._failed: str | None = None
        self._batch: list[tuple[str, bytes]] = []
        self._making: list[Future[None]] = []

    def add(self, key: str, value: Buffer) -> None:
        """Write one value under a temporary name, or let it be written with others: bytes, which do not change."""
        if counting.traces:
            counting.count(1, written=memoryview(value).nbytes)
        if not self._named_at_once or self._durable or not isinstance(value, bytes) or key in self._keys:
            self._finish_batches()
            self.key = key
            self._write(key, value)
            return
        self._keys.add(key)
        self._batch.append((key, value))
        if len(self._batch) == NEW_FILES_PER_TASK:
            self._making.append(threads(_MAKERS, "make").submit(self._write_batch, self._batch))
            self._batch = []

    def _write_batch(self, batch: list[tuple[str, bytes]]) -> None:
        for key, value in batch:
            try:
                self._write(key, value)
            except BaseException:
                self._failed = key
                raise

    def _finish_batches(self) -> None:
        """Write the last batch in this thread, while the others are under way."""
        batch, self._batch = self._batch, []
        self._write_batch(batch)
        while self._making:
            self._making[0].result()
            del self._making[0]

    def _write(self, key: str, value: Buffer) -> None:
        folder, _, name = key.rpartition("/")
        made: tuple[str, int] | None = None
        if self._named_at_once:
            with suppress(FileExistsError):
                made = self._create(folder, name, value)
        temporary, descriptor = made or self._create(folder, temporary_name(name), value)
        self._written.append((key, temporary, folder))
        if made is None:
            _stamp(temporary, descriptor)
        if not self._durable or self._at_once:
            os.close(descriptor)
            return
        if self._last is not None:
            self._flushing.append((self._last[0], threads(_THREADS, "flush").submit(sync_and_close, self._last[1])))
        self._last = key, descriptor
        if len(self._flushing) >= FILES_FLUSHED_AT_ONCE:
            self._wait()

    def _create(self, folder: str, name: str, value: Buffer) -> tuple[str, int]:
        for _ in range(ATTEMPTS):
            try:
                temporary = self._folders.make(folder) + name
                return temporary, create(temporary, value)
            except FileNotFoundError:  # the folder was removed meanwhile, as empty or with its node
                self._folders.forget_all()
        temporary = self._folders.make(folder) + name
        return temporary, create(temporary, value)

    def _flush(self) -> None:
        """Flush the last value in this thread, while the others are under way."""
        self._finish_batches()
        on_medium = self._flush_first() if self._durable and not self._at_once else set()
        if self._last is not None:
            (self.key, descriptor), self._last = self._last, None
            sync_and_close(descriptor)
        self._wait()
        self._folders.settle(on_medium)

    def _flush_first(self) -> set[str]:
        """Have all that must be on the medium before flushed by other threads; the folders that will be there then."""
        submit = threads(_THREADS, "flush").submit
        keys = list(self._first)
        for key in keys:
            folder, _, name = key.rpartition("/")
            self._flushing.append((key, submit(sync_file, self._folders.path(folder) + name)))
        paths, on_medium = self._folders.to_flush(dict.fromkeys(key.rpartition("/")[0] for key in keys))
        self._flushing += [(path, submit(self._folders.flush, path)) for path in paths]
        return on_medium

    def _wait(self) -> None:
        while self._flushing:
            self.key, running = self._flushing.pop(0)
            running.result()

    def _show(self) -> None:
        while self._written:
            self.key, temporary, folder = self._written[0]
            place = self._folders.path(folder) + self.key.rpartition("/")[2]
            if self._new:
                try:
                    link_new(temporary, place)
                except FileExistsError:
                    raise beaten(self._folders.url, self.key) from None
                self._shown.append(place)
            elif temporary != place:
                replace(temporary, place, flushed=self._durable)
            del self._written[0]

    @contextmanager
    def _lasting(self, folders: Collection[str]) -> Iterator[None]:
        """Have the names that the block gives to values on the medium afterwards."""
        if not self._durable:
            yield
            return
        if self._at_once:
            flush_all(self._folders.root)
        if not self._at_once or len(folders) <= FOLDERS_FLUSHED_ONE_BY_ONE:
            with self._folders.durable(folders):
                yield
        else:
            yield
            flush_all(self._folders.root)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                # Order: every value is whole on the medium before the first of them gets its name, and the names are
                # on the medium before the writer is told that they are.
                folders = dict.fromkeys(folder for _, _, folder in self._written)
                self._flush()
                with self._lasting(folders):
                    self._show()
                self._shown.clear()
        finally:
            if self._last is not None:
                with suppress(OSError):
                    os.close(self._last[1])
            for running in [*(running for _, running in self._flushing), *self._making]:
                running.exception()
            for _, temporary, _ in self._written:
                discard(temporary)
            for place in reversed(self._shown):
                discard(place)
            self.key = self._failed or self.key


def _stamp(path: str, descriptor: int) -> None:
    """Give a file the present time; it is closed when that fails. The clock of a file system may tick only every few
    ms, and two versions must never share size, time and inode."""
    now = time.time_ns()
    try:
        os.utime(descriptor if _BY_DESCRIPTOR else path, ns=(now, now))
    except BaseException:
        os.close(descriptor)
        raise


# Where the lock ranges of ``put_if`` start, far above those of chunks.
_SWAPS = 1 << 62
# Seconds that ``put_if`` waits for another one that is at work on the key.
_PATIENCE = 60.0
# New values for which one flush of the file system takes less time than one of each.
_MANY = 64
# Bytes after which a value that is only touched begins anew. Whoever follows changes by their number cannot follow that
# one: the index of a collection with 256 such values lists its arrays anew, once in sixteen million changes.
_LONGEST = 1 << 16
_TRAITS = StoreTraits(
    has_places=True,
    stamped=True,
    ranges=True,
    descriptors=True,
    swaps=True,
    locks_nodes=True,
    locks_chunks=True,
    renames=True,
    flushes=CAN_FLUSH_ALL,
    puts_last=True,
    expels=True,
)


class DirectoryStore(FolderReader):
    """Keys as files below ``root``. Opened ``read_only`` it must exist and is never touched; else it is made when first
    written to. Values are replaced atomically; symbolic links are followed only within the root; one store may be
    used by many threads, and many processes may use one root. ``unpublished``: nobody reads there before all is
    written, so that a new value gets its name at once.
    """

    def __init__(self, root: str | os.PathLike[str], *, read_only: bool = False, unpublished: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._unpublished = unpublished

    traits = _TRAITS
    """All that a folder can do."""

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Store one value: every reader sees the old or the new one, also when this fails or the process dies."""
        self.put_many([(key, value)], durable=durable)

    def put_many(self, pairs: Iterable[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """Group commit: all values written, then all made durable, then all made visible.

        When writing one of them fails none becomes visible.
        """
        commit = Commit(self._folders, durable=durable, named_at_once=self._unpublished)
        with self._writing(commit), commit:
            for key, value in pairs:
                commit.add(check_file_key(key), value)

    def put_if(self, key: str, value: Buffer, expected: Stamp | None, *, durable: bool = False) -> Stamp:
        """Store the value if the present one has the stamp ``expected`` (None: is missing), else ``Conflict``.

        Every writer of such a key must use this call: a plain ``put`` asks nobody.
        """
        folder, _, name = check_file_key(key).rpartition("/")
        if expected is None:
            self.put_new([(key, value)], durable=durable)
            return self.stamp(key)
        if self.stamp(key) is None:  # before a folder is made for the lock
            raise beaten(self.url, key)
        # The look and the write are one step for all who use this call: they lock the same range for the same key.
        with self.lock_chunks(folder, [_SWAPS + zlib.crc32(name.encode())], _PATIENCE):
            if self.stamp(key) != expected:
                raise beaten(self.url, key)
            self.put(key, value, durable=durable)
            return self.stamp(key)

    def put_new(self, pairs: Sequence[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """Commit values together whose keys are all missing, or of none of them: ``Conflict``. No locks are asked for:
        two files cannot have one name."""
        self.put_last(pairs, (), durable=durable)

    def put_last(self, pairs: Sequence[tuple[str, Buffer]], first: Iterable[str], *, durable: bool = False) -> None:
        at_once = durable and len(pairs) >= _MANY and _TRAITS.flushes
        commit = Commit(self._folders, durable=durable, new=True, at_once=at_once, first=first)
        with self._writing(commit):
            try:
                with commit:
                    for key, value in pairs:
                        commit.add(check_file_key(key), value)
            except Conflict:
                for folder in {key.rpartition("/")[0]: None for key, _ in pairs}:
                    self._prune(folder)
                raise

    def touch(self, key: str, *, durable: bool = False) -> tuple[Stamp | None, Stamp] | None:
        """Give the key another stamp: it grows by a byte, and begins anew from time to time."""
        folder, _, name = check_file_key(key).rpartition("/")
        with self._writing(key):
            try:
                length, change = append_byte(self._folders.make(folder) + name, durable=durable)
            except OSError as error:  # the folder was removed meanwhile; a pipe or a link has the name
                if error.errno not in (errno.ENOENT, errno.ENXIO, errno.ELOOP):
                    raise
                self._folders.forget_all()
                length, change = _LONGEST, None
            if length >= _LONGEST:
                self.put(key, b"", durable=durable)
                return None
            if length == 1 and durable:
                with self._folders.durable([folder]):
                    pass
            return change

    def flush(self) -> None:
        with self._writing(""):
            flush_all(self._folders.make(""))

    def delete(self, key: str, *, durable: bool = False) -> None:
        """Remove the key, and folders that it leaves empty; missing is fine."""
        folder, _, name = check_file_key(key).rpartition("/")
        with self._writing(key):
            place = self._folders.find(folder)
            if place is None:
                return
            with self._lasting(folder, durable):
                try:
                    os.unlink(place + name)
                except OSError as error:
                    if error.errno not in MISSING and not os.path.isdir(place + name):
                        raise
            self._prune(folder)

    def _lasting(self, folder: str, durable: bool) -> AbstractContextManager[None]:
        """Force a folder to the disk after the block, if ``durable``: what it removed does not come back after a power
        cut."""
        return self._folders.durable([folder]) if durable else nullcontext()

    def _prune(self, folder: str) -> None:
        """Remove folders that hold no key, from ``folder`` upwards; one that a writer holds stays."""
        while folder:
            path = self._folders.path(folder)
            try:
                locks.remove_empty_folder(path)
            except (OSError, Conflict):
                return
            self._folders.forget(folder)
            folder = folder.rpartition("/")[0]

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        """Remove every key that is ``prefix`` or stands below it; for readers a folder is gone at one stroke."""
        folder, _, name = check_file_prefix(prefix).rpartition("/")
        with self._writing(prefix):
            place = self._folders.find(folder)
            if place is None:
                return
            with self._lasting(folder, durable):
                doomed = [_put_away(place, entry) for entry in ([name] if name else os.listdir(place))]
            for path in filter(None, doomed):
                with suppress(FileNotFoundError):
                    remove_tree(path)
            self._folders.forget_all()
            self._prune(folder)

    def expel(self, place: str, target: str | None) -> None:
        """Move a value, folder or stray out of the store to the path ``target``, or remove it; empty folders go too."""
        with self._writing(place):
            expel(self._folders, place, target)
            self._prune(place.rpartition("/")[0])

    def rename(self, source: str, target: str) -> None:
        """Move every key below ``source/`` to ``target/`` at one stroke.

        ``NotFound`` without a source, ``AlreadyExists`` when something has the name of the target.
        """
        above = check_file_key(source).rpartition("/")[0]
        folder, _, name = check_file_key(target).rpartition("/")
        with self._writing(target):
            if target == source or target.startswith(f"{source}/"):
                remedy = "name a target outside of it"
                raise Invalid("a folder cannot be moved into itself", url=self.url, key=target, remedy=remedy)
            place = self._folders.find(source)
            if place is None:
                raise NotFound("there is no such folder", url=self.url, key=source)
            new = self._folders.make(folder) + name
            with self._folders.durable([above, folder]):
                self._move(place, new, target)
            self._folders.forget_all()
            self._prune(above)

    def _move(self, source: str, target: str, key: str) -> None:
        taken = AlreadyExists("the target exists", url=self.url, key=key, remedy="remove it, or choose another name")
        if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
            raise taken
        try:
            if IS_WINDOWS and os.path.isdir(target):  # an empty one, over which nothing is renamed there
                os.rmdir(target)
            rename(source[:-1], target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise taken from error
            raise

    def move(self, pairs: Sequence[tuple[str, str]], *, durable: bool = False) -> None:
        folders = {check_file_key(key).rpartition("/")[0]: None for pair in pairs for key in pair}
        with self._writing(pairs[0][0] if pairs else ""):
            for folder in folders:
                self._folders.make(folder)
            with self._folders.durable(folders) if durable else nullcontext():
                for source, target in pairs:
                    self._move_value(source, target, flushed=durable)

    def copy(self, source: str, target: str, *, durable: bool = False) -> bool:
        """Give a value a second key: a second name of its file, since no value is changed where it lies. A file system
        that has no such names gets a copy."""
        above, _, name = check_file_key(source).rpartition("/")
        folder, _, new = check_file_key(target).rpartition("/")
        with self._writing(target):
            place = self._folders.find(above)
            if place is None:
                return False
            # Made beside it, so that what has the name already is replaced at one stroke.
            spare = self._folders.make(folder) + temporary_name(new)
            try:
                os.link(place + name, spare, follow_symlinks=os.link not in os.supports_follow_symlinks)
            except FileNotFoundError:
                self._prune(folder)
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                return super().copy(source, target, durable=durable)
            with self._lasting(folder, durable):
                replace_file(spare, self._folders.make(folder) + new)
            with suppress(FileNotFoundError):
                os.unlink(spare)  # which is left where both were names of one file
        return True

    def _move_value(self, source: str, target: str, *, flushed: bool) -> None:
        for _ in range(ATTEMPTS):
            above, _, name = source.rpartition("/")
            folder, _, new = target.rpartition("/")
            try:
                place = self._folders.make(folder)
                spare = place + temporary_name(new)
                move_over(self._folders.path(above) + name, place + new, spare, flushed=flushed)
            except FileNotFoundError:
                if not os.path.lexists(self._folders.path(above) + name):
                    return
                self._folders.forget_all()  # a folder was removed meanwhile, as empty
            else:
                return
        raise StorageError("the folder is being removed all the time", url=self.url, key=target)

    def lock_chunks(
        self, folder: str, slots: Sequence[int], timeout: float | None, guard: Callable[[], None] | None = None
    ) -> AbstractContextManager[None]:
        """Hold the bytes ``slots`` of ``folder/.lock`` exclusively; ``Conflict`` after ``timeout`` s (None: never).
        ``guard`` is called before a folder is made that is missing."""
        return self._locked(locks.hold_ranges(self._maker(folder, guard), slots, timeout), folder)

    def lock_node(self, folder: str, timeout: float | None) -> AbstractContextManager[None]:
        """Hold the folder itself exclusively; ``Conflict`` after ``timeout`` seconds (None: never)."""
        return self._locked(locks.hold_folder(self._maker(folder), timeout, beside=bool(folder)), folder)

    def lock_writers(self, folders: Sequence[str], timeout: float | None) -> AbstractContextManager[None]:
        """Hold all of ``folder/.lock`` of each folder exclusively; ``Conflict`` after ``timeout`` s (None: never)."""
        if IS_WINDOWS:  # which moves no folder in which a lock is held
            return nullcontext()
        return locks.hold_all_ranges(
            [path for path in map(self._folders.path, folders) if os.path.isdir(path)], timeout
        )

    def _maker(self, folder: str, guard: Callable[[], None] | None = None) -> Callable[[], str]:
        check_file_prefix(folder)

        def make() -> str:
            if not os.path.isdir(self._folders.path(folder)):
                if guard is not None:
                    guard()
                self._folders.forget_all()
            return self._folders.make(folder)

        return make

    @contextmanager
    def _locked(self, lock: AbstractContextManager[None], folder: str) -> Iterator[None]:
        with self._writing(folder):
            try:
                lock.__enter__()
            except Conflict as error:
                raise error.locate(url=self.url, key=folder) from None
        try:
            yield
        finally:
            lock.__exit__(None, None, None)

    @contextmanager
    def _writing(self, place: str | Commit) -> Iterator[None]:
        """Refuse when read-only; name the key in what the system says."""
        self._require_writable()
        try:
            yield
        except HyperslabError:
            raise
        except OSError as error:
            raise write_error(error, self.url, place if isinstance(place, str) else place.key) from error


def _put_away(place: str, name: str) -> str | None:
    """Remove a file or link; rename a folder, which so goes at one stroke, and give its path, to be removed."""
    path = place + name
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        if error.errno in MISSING:
            return None
        raise
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(mode):
            os.unlink(path)
            return None
        doomed = place + temporary_name(name)
        rename(path, doomed)
        return doomed
    return None
