"""Stores, which hold bytes under keys: one abstract class whose operations have defaults that are right, if slow.

A key is ``a/b/c``: no leading slash, no empty segment, ``.`` or ``..``. A missing key reads as None: a missing chunk is
the commonest thing in an array store and no exception. Every failure of the medium is a ``StorageError`` that names the
key. A :data:`Stamp` identifies one version of a value; two equal stamps mean the same bytes.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np

from hyperslab.errors import (
    AlreadyExists,
    Conflict,
    CorruptChunk,
    Invalid,
    NotFound,
    ReadOnly,
    StorageError,
    Unsupported,
)
from hyperslab.stores.attempts import attempts, beaten
from hyperslab.stores.keys import Stray, below, check_key, check_prefix, split_names
from hyperslab.stores.ranges import span
from hyperslab.stores.requests import each_request
from hyperslab.stores.stored_file import ValuePlace

Buffer = bytes | bytearray | memoryview
Stamp = Hashable


class Unversioned:
    """The stamp of a value whose server tells neither a version nor a time: no two are equal."""


@dataclass(frozen=True, slots=True)
class Version:
    """A value, or a part of it, of one version: its ``data`` (None where not wanted), whole ``size`` and stamp."""

    data: Any
    size: int
    stamp: Stamp


class Share(ABC):
    """A transaction of another process, in which a part of the work is done. It is pickled."""

    @abstractmethod
    def open(self) -> Store:
        """Return a store whose changes are the other process's to take (``changes``, ``merge``): nobody else sees
        them, and those of a share that is opened again are not in it."""


@dataclass(frozen=True, slots=True)
class StoreTraits:
    """The abilities of a store beyond the defaults of :class:`Store`: callers choose their way of working by it.

    Each flag says what it switches on, and by which method.
    """

    stamped: bool = False
    """``stamp``: it tells versions of a value apart, and costs little."""
    ranges: bool = False
    """``get_ranges``: a part of a value costs less than the whole."""
    descriptors: bool = False
    """``descriptor``: values are files of this machine."""
    gathers: bool = False
    """``get_many``: many values cost less by one call than by one call each."""
    swaps: bool = False
    """``put_if``: it works."""
    locks_nodes: bool = False
    """``lock_node``: it keeps other processes out."""
    locks_chunks: bool = False
    """``lock_chunks``: it keeps other processes out."""
    renames: bool = False
    """``rename``: it moves a folder at one stroke."""
    flushes: bool = False
    """``flush``: one of all is cheaper than a durable write of each."""
    puts_last: bool = False
    """``put_last``: it makes durable what was stored before without being so."""
    expels: bool = False
    """``expel``: it moves what is no value, too."""
    transacts: bool = False
    """``transaction``: what is written within shows together, when it ends well, or not at all."""
    has_places: bool = False
    """``place``, ``places``: values are bytes of files or objects that others can open."""
    concurrency: int | None = None
    """So many requests at once suit it, whatever the number of cores; None where calls are no requests (no method)."""


class Store(ABC):
    """Bytes under keys at ``url``, which is shown in errors and must hold no secrets.

    Of one's own: :meth:`get` and :meth:`list` make a store that can be read, :meth:`put` and :meth:`delete` one that
    can be written. Every other method works by these, and is replaced where the medium has a better way; ``traits``
    says which of them are worth building on.
    """

    traits: StoreTraits = StoreTraits()
    version: str | None = None
    """The name of the version that is read here, for others who want to read the same one; None where the place keeps
    no versions, or what is read is the newest."""

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self._url = url
        self._read_only = read_only

    @property
    def lease_seconds(self) -> float:
        """Return for how long one has to look at a lock to know that its holder is dead; 0 where the kernel tells."""
        return 0.0

    @property
    def url(self) -> str:
        """Where it is, without secrets; usable in messages."""
        return self._url

    @property
    def read_only(self) -> bool:
        """Return True if writes are refused."""
        return self._read_only

    def close(self) -> None:  # noqa: B027  nothing is held open by most
        """Let go of handles; closing twice is fine."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}{', read_only=True' if self.read_only else ''})"

    # -- reading ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the whole value, or None."""

    def get_into(self, key: str, scratch: Scratch, most: int | None = None) -> memoryview | None:
        """Return the whole value, None when missing: in ``scratch``, which grows when too small, where the store reads
        into memory that it is given.

        The view is valid until ``scratch`` is used again. ``CorruptChunk`` for one of more than ``most`` bytes.
        """
        value = self.get(key)
        if value is None:
            return None
        if most is not None and len(value) > most:
            raise too_long(self.url, key, most, len(value))
        return memoryview(value)

    def read_exactly(self, key: str, out: memoryview) -> int | None:
        """Read into ``out`` if the value has its length; return the value's true length, or None when missing."""
        value = self.get(key)
        if value is None:
            return None
        if value and len(value) == out.nbytes:
            out.cast("B")[:] = value
        return len(value)

    def descriptor(self, key: str) -> int | None:
        """Return the value's file, open for reading (the caller closes it); None when missing."""
        self._refuse("values of this store are no files", key)

    def locate(self, key: str) -> str | None:
        """Return the path of the file that the value is, or would be; None where there is no safe way to one."""
        return None

    def open_folder(self, folder: str) -> int | None:
        """Return a folder, open for reading files below it (the caller closes it); None where there is none."""
        return None

    def place(self, key: str) -> ValuePlace | None:
        """Return where the bytes of the value lie (``has_places``); None when missing."""
        self._refuse("values of this store are no bytes of a file", key)

    def places(self, prefix: str) -> Iterator[tuple[str, ValuePlace | None]]:
        """Yield every key below ``prefix/`` with the place of its value (``has_places``), None for one that lies in no
        file."""
        for key in self.list(prefix):
            if (found := self.place(key)) is not None:
                yield key, found

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        """Return the bytes ``start <= i < stop`` of each range, cut at the end; None when the key is missing.

        A negative start counts from the end, and so does a stop of 0 or less beside it: ``(-8, 0)`` is the last 8
        bytes.
        """
        value = self.get(key)
        return None if value is None else [value[slice(*span(start, stop, len(value)))] for start, stop in ranges]

    def get_version(
        self, key: str, part: tuple[int, int] | None = None, *, unless: Stamp | None = None, most: int | None = None
    ) -> Version | None:
        """Return the value, or a ``part`` of it, with its size and stamp; None when missing, without ``data`` when its
        stamp is ``unless``. ``CorruptChunk`` for more than ``most`` bytes.

        Where a store tells no versions the value is its own stamp.
        """
        stamped = self.traits.stamped
        while True:
            stamp = self.stamp(key) if stamped else None
            if stamped and stamp is None:
                return None
            if stamp is not None and stamp == unless:
                return Version(None, 0, unless)
            if stamp is not None and part is not None and self.traits.ranges:
                size, found = self.size(key), self.get_ranges(key, [part])
                if size is not None and found is not None and self.stamp(key) == stamp:
                    return Version(found[0], size, stamp)
                continue
            value = self.get(key)
            if stamped and self.stamp(key) != stamp:  # written between the two looks: another version was read
                continue
            if value is None:
                return None
            if not stamped and value == unless:
                return Version(None, 0, unless)
            if most is not None and len(value) > most:
                raise too_long(self.url, key, most, len(value))
            data = value if part is None else value[slice(*span(*part, len(value)))]
            return Version(data, len(value), stamp if stamped else value)

    def get_ranges_of(self, key: str, ranges: Sequence[tuple[int, int]], stamp: Stamp) -> list[bytes] | None:
        """Return :meth:`get_ranges` of the version that has this stamp; ``Conflict`` when it is another one by now."""
        found = self.get_ranges(key, ranges)
        now = self.stamp(key) if self.traits.stamped else self.get(key)
        if found is not None and now != stamp:
            raise Conflict("it is another version by now", url=self.url, key=key)
        return found

    def size(self, key: str) -> int | None:
        """Return the bytes stored under the key, None when missing."""
        value = self.get(key)
        return None if value is None else len(value)

    def stamp(self, key: str) -> Stamp | None:
        """Return what identifies the present version (size, mtime_ns, inode; or an ETag), None when missing."""
        return None if self.get(key) is None else Unversioned()

    def watch(self, key: str) -> Callable[[], Stamp | None]:
        """Return a function that gives the :meth:`stamp` of a key, for who asks for it with many reads."""
        return partial(self.stamp, key)

    def get_many(self, keys: Sequence[str]) -> Sequence[bytes | StorageError | None]:
        """Return the values of the keys, by many requests at once where values come by requests.

        In place of a file that cannot be read, the error; requests fail as a whole.
        """
        if self.traits.concurrency is not None:
            return each_request([partial(self.get, key) for key in keys])
        values: list[bytes | StorageError | None] = []
        for key in keys:
            try:
                values.append(self.get(key))
            except StorageError as error:
                values.append(error)
        return values

    # -- names ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield every key that stands below ``prefix/``, sorted; temporary files and locks are not keys."""

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """Return the names right below ``prefix/``: (keys, sub-prefixes), each sorted."""
        return split_names(self.list(prefix), prefix)

    def is_mount(self, folder: str) -> bool:
        """Return True for a folder of another file system than that of the root, such as ``/proc``."""
        return False

    def entries(self, folder: str, tail: str = "") -> Iterator[tuple[str, Stamp, int]]:
        """Yield name, stamp and size of every ``folder/<name>`` (``folder/<name>/<tail>``, a name too) that has a
        value, in any order."""
        start, end = below(check_prefix(folder)), f"/{check_key(tail)}" if tail else ""
        for name in self.list_dir(folder)[1 if tail else 0]:
            stamp, size = self.stamp(start + name + end), self.size(start + name + end)
            if stamp is not None and size is not None:
                yield name, stamp, size

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Stamp, int]]:
        """Yield key, stamp and size of every value below ``prefix/``, in any order."""
        for key in self.list(prefix):
            stamp, size = self.stamp(key), self.size(key)
            if stamp is not None and size is not None:
                yield key, stamp, size

    def nbytes_below(self, prefix: str) -> int:
        """Return the bytes of all values below ``prefix/``."""
        return sum(self.size(key) or 0 for key in self.list(check_prefix(prefix)))

    def strays(self, folder: str) -> Sequence[Stray]:
        """Return what lies right in the folder and is no value, sorted by name; locks are no strays."""
        return ()

    def stray_at(self, key: str) -> str | None:
        """Return in words what lies under a key that has no value: a folder, a pipe; None where nothing does."""
        return None

    def check_missing(self, key: str) -> None:
        """Raise CorruptChunk where something lies under a key that has no value: the chunk is not just unwritten."""
        stray = self.stray_at(key)
        if stray is not None:
            raise CorruptChunk("this is no file", expected="a chunk", found=stray, url=self.url, key=key)

    # -- writing ----------------------------------------------------------------------------------------------------

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Store the value: afterwards every reader sees the old or the new one, never a part."""
        self._refuse("this store takes no writes", key)

    def put_many(self, pairs: Iterable[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """Store all values, by one group commit where the store has it: all written, then all durable, then visible.

        Each value is written, or copied, before the next pair is taken: its memory may then hold another value.
        """
        for key, value in pairs:
            self.put(key, value, durable=durable)

    def put_if(self, key: str, value: Buffer, expected: Stamp | None, *, durable: bool = False) -> Stamp:
        """Store the value only if the present one has the stamp ``expected`` (None: is missing), else ``Conflict``;
        return its stamp.

        Over a network also where the answer was lost: read again, and see what is there.
        """
        self._refuse("this store compares no versions", key)

    def put_back(self, key: str, value: Buffer | None, old: Version | None, *, durable: bool = False) -> None:
        """Store what was made of the version ``old`` (None: there was none) in its place; Conflict where another is.
        Without a value the old one is removed, on no condition, for no bucket does that."""
        if value is not None:
            self.put_if(key, value, None if old is None else old.stamp, durable=durable)
        elif old is not None:
            self.delete(key, durable=durable)

    def update(
        self,
        key: str,
        change: Callable[[Buffer | None], Buffer | None],
        *,
        timeout: float | None,
        durable: bool = False,
        most: int | None = None,
    ) -> None:
        """Put what ``change`` makes of the value at ``key`` back in its place; another writer may win the race for it:
        then it is read and changed again, ``Conflict`` after ``timeout`` seconds. ``most``: as for ``get_version``."""
        for attempt in attempts(timeout):
            with attempt:
                old = self.get_version(key, most=most)
                self.put_back(key, change(None if old is None else old.data), old, durable=durable)

    def put_new(self, pairs: Sequence[tuple[str, Buffer]], *, durable: bool = False) -> Sequence[Stamp] | None:
        """Store values whose keys are all missing, in this order, or none of them: ``Conflict`` names a taken one.

        Of several writers of one key one succeeds, unless the store compares no versions: then nobody else may write
        there meanwhile. A writer that dies may leave the first of its values. Return their stamps where the store is
        told them without a further request, else None.
        """
        swaps = self.traits.swaps
        made: list[str] = []
        try:
            for key, value in pairs:
                if swaps:
                    self.put_if(key, value, None, durable=durable)
                elif self.get(key) is not None:
                    raise beaten(self.url, key)
                else:
                    self.put(key, value, durable=durable)
                made.append(key)
        except BaseException:
            for key in made:
                self.delete(key)
            raise
        return None

    def put_last(self, pairs: Sequence[tuple[str, Buffer]], first: Iterable[str], *, durable: bool = False) -> None:
        """Do :meth:`put_new` of values that lead to those of the keys ``first``: if ``durable``, these are on the
        medium before, however they were stored."""
        for key in first if durable else ():
            value = self.get(key)
            if value is not None:
                self.put(key, value, durable=True)
        self.put_new(pairs, durable=durable)

    def touch(self, key: str, *, durable: bool = False) -> tuple[Stamp | None, Stamp] | None:
        """Give the key a stamp that it never had, for little; whatever it holds then. A missing one is made.

        Return the stamps before (None: it was missing) and after, where the store knows both and that nobody else gave
        it one between them; else None.
        """
        self.put(key, os.urandom(16), durable=durable)
        return None

    def flush(self) -> None:
        """Bring everything that was written before to the medium."""
        self._refuse("this store makes values durable one by one")

    def delete(self, key: str, *, durable: bool = False) -> None:
        """Remove the key; missing is fine. If ``durable``, it does not come back after a power cut."""
        self._refuse("this store takes no writes", key)

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        """Remove every key that is ``prefix`` or stands below ``prefix/``; ``""`` removes all. ``durable`` as above."""
        self._require_writable(check_prefix(prefix))
        for key in [*self.list(prefix), *([prefix] if prefix else [])]:
            self.delete(key, durable=durable)

    def rename(self, source: str, target: str) -> None:
        """Move every key below ``source/`` to ``target/``: ``NotFound`` without a source, ``AlreadyExists`` when the
        target has a key, or is one."""
        self._require_writable(check_key(source))
        if check_key(target) == source or target.startswith(f"{source}/"):
            remedy = "name a target outside of it"
            raise Invalid("a folder cannot be moved into itself", url=self.url, key=target, remedy=remedy)
        keys = [*self.list(source)]
        if not keys:
            raise NotFound("there is no such folder", url=self.url, key=source)
        if self.get(target) is not None or next(self.list(target), None) is not None:
            raise AlreadyExists("the target exists", url=self.url, key=target, remedy="choose another name")
        self.move([(key, target + key[len(source) :]) for key in keys])

    def move(self, pairs: Sequence[tuple[str, str]], *, durable: bool = False) -> None:
        """Give values other keys, ``(from, to)``, each over what is there at one stroke: a reader who does not find it
        under the one key any more finds it under the other. One that is missing is passed over."""
        for source, target in [(check_key(source), check_key(target)) for source, target in pairs]:
            value = self.get(source)
            if value is not None:
                self.put(target, value, durable=durable)
                self.delete(source, durable=durable)

    def copy(self, source: str, target: str, *, durable: bool = False) -> bool:
        """Give a value a second key, over what is there; False where it is missing. What is put under one of the keys
        later does not change the other."""
        value = self.get(check_key(source))
        if value is not None:
            self.put(check_key(target), value, durable=durable)
        return value is not None

    def expel(self, place: str, target: str | None) -> None:
        """Take what lies at ``place`` (a value, a folder with all below it, a stray) out of the store.

        It is moved to the path ``target``, which must be free, or removed when that is None. Links are not followed.
        """
        if target is not None:
            self._refuse("what lies in this store is no file that could be moved", place)
        self.delete_prefix(place)

    # -- transactions and locks -------------------------------------------------------------------------------------

    @property
    def is_transacting(self) -> bool:
        """Return True while a transaction runs that threads share: what is written shows when that ends, and others do
        not see it before."""
        return False

    def transaction(self, timeout: float | None = None, *, shared: bool = False) -> AbstractContextManager[None]:
        """Have what the block writes show together when it ends well, or not at all, where the store ``transacts``.
        One within another is a part of that. ``shared``: also what other threads write meanwhile; else these wait, and
        get ``Conflict`` after ``timeout`` seconds (None: never)."""
        return nullcontext()

    def share(self) -> Share | None:
        """Return what other processes write to as parts of the transaction that runs; None where they open the place
        itself."""
        return None

    def merge(self, changes: Iterable[bytes]) -> None:
        """Take what shares of the transaction that runs have changed (:meth:`changes`) into it."""
        self._refuse("this store has no shares")

    def changes(self) -> bytes:
        """Return what was changed in this store, of one that a share opens, for :meth:`merge`."""
        self._refuse("this store has no shares")

    def describe_commit(self, message: str | None, metadata: Mapping[str, Any] | None = None) -> None:
        """Say what the history is to tell of the transaction that runs, where the place has a history."""
        return

    def lock_node(self, folder: str, timeout: float | None) -> AbstractContextManager[None]:
        """Hold the documents of the node at ``folder`` exclusively; ``Conflict`` after ``timeout`` seconds (None:
        never). Nobody is kept out where the store has no locks."""
        return nullcontext()

    def lock_chunks(
        self, folder: str, slots: Sequence[int], timeout: float | None, guard: Callable[[], None] | None = None
    ) -> AbstractContextManager[None]:
        """Hold the bytes ``slots`` of ``folder/.lock``, as ``lock_node``; ``guard`` comes before the folder is made."""
        return nullcontext()

    def lock_writers(self, folders: Sequence[str], timeout: float | None) -> AbstractContextManager[None]:
        """Keep writers of chunks out of folders that are moved or removed, as :meth:`lock_node` does."""
        return nullcontext()

    def end(self) -> None:
        """Take no more writes: the block that made one commit of them has ended."""
        self._read_only = True

    def _require_writable(self, key: str | None = None) -> None:
        """Raise ReadOnly where the store takes no writes."""
        if self.read_only:
            remedy = "open it for writing, or begin another commit where one has ended"
            raise ReadOnly("the store is open for reading only", url=self.url, key=key, remedy=remedy)

    def _refuse(self, reason: str, key: str | None = None) -> NoReturn:
        """Raise ReadOnly, or Unsupported for what this kind of store cannot do."""
        self._require_writable(key)
        raise Unsupported(reason, url=self.url, key=key, remedy="use a store of another kind, such as a folder")


class ProcessStore(Store):
    """A store that knows credentials or holds connections: it is never pickled."""

    def __reduce__(self) -> NoReturn:
        raise Unsupported("a store object cannot be pickled", url=self._url, remedy="name its place by a path or URL")


def too_long(url: str, key: str, most: int, found: int) -> CorruptChunk:
    """Return the error for a stored chunk of more bytes than its cells can take."""
    expected, size = f"at most {most} bytes", f"{found} bytes"
    return CorruptChunk("the chunk is too long for its cells", expected=expected, found=size, url=url, key=key)


# -- memory for stored bytes ---------------------------------------------------------------------------------------


class Scratch(threading.local):
    """One buffer per thread. It grows by being replaced, so that a view of the old one stays what it is."""

    def __init__(self, size: int = 0) -> None:
        self.buffer = np.empty(size, np.uint8).data

    def reserve(self, size: int) -> memoryview:
        """Return the buffer, of at least ``size`` bytes."""
        if size > len(self.buffer):
            self.buffer = np.empty(size, np.uint8).data  # unlike a bytearray, no page of it is touched yet
        return self.buffer
