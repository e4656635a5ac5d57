"""A store in memory: for tests, for scratch, and for ``memory://name``, which one process opens again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from weakref import WeakSet

from hyperslab.errors import AlreadyExists, Invalid, NotFound
from hyperslab.stores import counting
from hyperslab.stores.attempts import beaten, kept_waiting
from hyperslab.stores.base import Buffer, Stamp, Store, StoreTraits
from hyperslab.stores.forks import call_after_fork
from hyperslab.stores.keys import below, check_key, check_prefix


class _Shelf:
    """The values, each with the number of its version, and who holds which lock."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[bytes, int]] = {}
        self.versions = count(1)
        self.renew()
        _SHELVES.add(self)

    def renew(self) -> None:
        """Free every lock: in a forked child their holders do not exist."""
        self.locked: set[Hashable] = set()
        self.lock = threading.RLock()
        """Held by whoever changes values: ``put_if`` looks and stores in one step. To read one it is not needed."""
        self.changed = threading.Condition(self.lock)


_TRAITS = StoreTraits(stamped=True, ranges=True, swaps=True, locks_nodes=True, locks_chunks=True, renames=True)
_SHELVES: WeakSet[_Shelf] = WeakSet()
_NAMED: dict[str, _Shelf] = {}


def _renew_all() -> None:
    for shelf in list(_SHELVES):
        shelf.renew()


call_after_fork(_renew_all)


class MemoryStore(Store):
    """Keys in a dict, with every ability that a store may have. ``name`` opens the one of ``memory://name``."""

    def __init__(self, name: str | None = None, *, read_only: bool = False) -> None:
        super().__init__(f"memory://{name or ''}", read_only=read_only)
        if name is None:
            self._shelf = _Shelf()
        elif read_only:
            self._shelf = _NAMED.get(name) or _Shelf()
        else:
            self._shelf = _NAMED.setdefault(name, _Shelf())
        if read_only and name is not None and not self._shelf.values:
            raise NotFound("nothing is stored under this name in this process", url=self.url)

    traits = _TRAITS
    """All that a dict can do."""

    @staticmethod
    def exists(name: str) -> bool:
        """Return True if ``memory://name`` holds anything in this process."""
        shelf = _NAMED.get(name)
        return shelf is not None and bool(shelf.values)

    @staticmethod
    def forget(name: str) -> None:
        """Let go of ``memory://name``; stores that are open keep what they hold."""
        _NAMED.pop(name, None)

    def __repr__(self) -> str:
        return f"<MemoryStore {self.url}: {len(self._shelf.values)} keys>"

    def get(self, key: str) -> bytes | None:
        found = self._shelf.values.get(check_key(key))
        if counting.traces:
            counting.count(1, read=0 if found is None else len(found[0]))
        return None if found is None else found[0]

    def stamp(self, key: str) -> Stamp | None:
        """Return the number of the present version, None when missing."""
        found = self._shelf.values.get(check_key(key))
        return None if found is None else found[1]

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Store a copy of the value."""
        self._require_writable(check_key(key))
        if counting.traces:
            counting.count(1, written=memoryview(value).nbytes)
        copy = bytes(value)
        with self._shelf.lock:
            self._shelf.values[key] = (copy, next(self._shelf.versions))

    def put_many(self, pairs: Iterable[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """Store copies of all values, once all of them are there."""
        self._require_writable()
        copies = {check_key(key): bytes(value) for key, value in pairs}
        if counting.traces:
            counting.count(len(copies), written=sum(map(len, copies.values())))
        with self._shelf.lock:
            versions = self._shelf.versions
            self._shelf.values.update({key: (value, next(versions)) for key, value in copies.items()})

    def put_if(self, key: str, value: Buffer, expected: Stamp | None, *, durable: bool = False) -> Stamp:
        """Store the value if the present one has the stamp ``expected`` (None: is missing), else ``Conflict``."""
        with self._shelf.lock:
            if self.stamp(key) != expected:
                raise beaten(self.url, key)
            self.put(key, value)
            return self.stamp(key)

    def put_new(self, pairs: Sequence[tuple[str, Buffer]], *, durable: bool = False) -> None:
        with self._shelf.lock:
            for key, _ in pairs:
                if check_key(key) in self._shelf.values:
                    raise beaten(self.url, key)
            self.put_many(pairs)

    def touch(self, key: str, *, durable: bool = False) -> None:
        """Give the key another stamp."""
        self.put(key, b"")

    def delete(self, key: str, *, durable: bool = False) -> None:
        self._require_writable(check_key(key))
        with self._shelf.lock:
            self._shelf.values.pop(key, None)

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        self._require_writable(check_prefix(prefix))
        with self._shelf.lock:
            for key in [key for key in list(self._shelf.values) if key == prefix or key.startswith(below(prefix))]:
                self._shelf.values.pop(key, None)

    def rename(self, source: str, target: str) -> None:
        self._require_writable(check_key(source))
        if check_key(target) == source or target.startswith(f"{source}/"):
            remedy = "name a target outside of it"
            raise Invalid("a folder cannot be moved into itself", url=self.url, key=target, remedy=remedy)
        with self._shelf.lock:
            moved = list(self.list(source))
            if not moved:
                raise NotFound("there is no such folder", url=self.url, key=source)
            if target in self._shelf.values or next(self.list(target), None) is not None:
                raise AlreadyExists("the target exists", url=self.url, key=target, remedy="choose another name")
            for key in moved:
                self._shelf.values[target + key[len(source) :]] = self._shelf.values.pop(key)

    def move(self, pairs: Sequence[tuple[str, str]], *, durable: bool = False) -> None:
        self._require_writable()
        moved = [(check_key(source), check_key(target)) for source, target in pairs]
        with self._shelf.lock:
            for source, target in moved:
                found = self._shelf.values.get(source)
                if found is not None:
                    self._shelf.values[target] = found
                    del self._shelf.values[source]

    def list(self, prefix: str = "") -> Iterator[str]:
        start = below(check_prefix(prefix))
        yield from sorted(key for key in list(self._shelf.values) if key.startswith(start))

    def entries(self, folder: str, tail: str = "") -> Iterator[tuple[str, Stamp, int]]:
        start = below(check_prefix(folder))
        behind = f"/{check_key(tail)}" if tail else ""
        for key, (value, version) in list(self._shelf.values.items()):
            if key.startswith(start) and key.endswith(behind):
                name = key[len(start) : len(key) - len(behind)]
                if name and "/" not in name:
                    yield name, version, len(value)

    def nbytes_below(self, prefix: str) -> int:
        start = below(check_prefix(prefix))
        return sum(len(value) for key, (value, _) in list(self._shelf.values.items()) if key.startswith(start))

    @contextmanager
    def lock_chunks(
        self, folder: str, slots: Sequence[int], timeout: float | None, guard: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """Hold the slots of the folder against other threads; ``Conflict`` after ``timeout`` seconds (None: never)."""
        with self._hold({(check_prefix(folder), slot) for slot in slots}, folder, timeout):
            yield

    def lock_node(self, folder: str, timeout: float | None) -> AbstractContextManager[None]:
        """Hold the folder against other threads; ``Conflict`` after ``timeout`` seconds (None: never)."""
        return self._hold({check_prefix(folder)}, folder, timeout)

    @contextmanager
    def _hold(self, wanted: set[Hashable], folder: str, timeout: float | None) -> Iterator[None]:
        self._require_writable(folder)
        shelf = self._shelf
        changed, locked = shelf.changed, shelf.locked
        with changed:
            if not changed.wait_for(lambda: locked.isdisjoint(wanted), timeout):
                raise kept_waiting(self.url, folder)
            locked.update(wanted)
        try:
            yield
        finally:
            if locked is shelf.locked:
                with changed:
                    locked.difference_update(wanted)
                    changed.notify_all()
