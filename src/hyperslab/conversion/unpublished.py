"""A dataset in a store without renames, while it is built: its documents are held back until all cells are there.

Readers find chunks that nothing speaks of, so they find no dataset. What is held back, and the journal, lie in a hidden
folder that is not listed.
"""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from hyperslab.errors import ReadOnly, StorageError
from hyperslab.stores.base import Buffer, PutMany
from hyperslab.stores.keys import UNFINISHED, below, check_key, split_names

_log = logging.getLogger("hyperslab")

_ABILITIES = ("get_ranges", "get_into", "read_exactly", "stamp", "size", "concurrency")
"""What the arrays of a store that nobody else writes may ask of it besides; locks and swaps are not needed."""


def lend(store: Any, borrower: Any) -> None:
    """Give ``borrower`` what else ``store`` can do for chunks, as attributes of its own: ``isinstance`` with a protocol
    sees no ``__getattr__`` (Python 3.12)."""
    for name in _ABILITIES:
        if hasattr(store, name):
            setattr(borrower, name, getattr(store, name))


class Unpublished:
    """``store`` with what it will hold once it is published. ``held``: the documents, None as long as they are still
    being written: until :meth:`seal` every value that is put is one."""

    def __init__(self, store: Any, held: dict[str, bytes] | None = None, *, read_only: bool = False) -> None:
        self._store = store
        self._read_only = read_only
        self._holding = held is None
        self.held = {} if held is None else held
        lend(store, self)
        for name, ask in (("size", len), ("stamp", bytes), ("get_ranges", parts_of)):
            if hasattr(store, name):
                setattr(self, name, partial(self._of_held, ask, getattr(store, name)))

    @property
    def url(self) -> str:
        """The store's."""
        return str(self._store.url)

    @property
    def read_only(self) -> bool:
        """Return whether writes are refused."""
        return self._read_only or bool(self._store.read_only)

    def close(self) -> None:
        """The store stays open: it is not yet published."""

    def get(self, key: str) -> bytes | None:
        """The whole value, or None."""
        if key in self.held:
            return self.held[key]
        found: bytes | None = self._store.get(key)
        return found

    def _of_held(self, ask: Callable[..., Any], asked: Callable[..., Any], key: str, *arguments: Any) -> Any:
        """What is told of a value that is held back, else what the store says."""
        return ask(self.held[key], *arguments) if key in self.held else asked(key, *arguments)

    def list(self, prefix: str = "") -> Iterator[str]:
        """Every key below ``prefix/``, sorted."""
        stored = (key for key in self._store.list(prefix) if not key.startswith(f"{UNFINISHED}/"))
        yield from sorted({*stored, *self._held_below(prefix)})

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """The names right below ``prefix/``: (keys, sub-prefixes), each sorted."""
        keys, folders = self._store.list_dir(prefix)
        more, inner = split_names(self._held_below(prefix), prefix)
        return sorted({*keys, *more}), sorted({*folders, *inner} - ({UNFINISHED} if not prefix else set()))

    def _held_below(self, prefix: str) -> Iterator[str]:
        return (key for key in self.held if key.startswith(below(prefix)))

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Store the value, or hold it back."""
        self.put_many([(key, value)], durable=durable)

    def put_many(self, pairs: Iterable[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """By the store's own group commit, else one by one."""
        if self._holding:
            self._hold(pairs)
        elif isinstance(self._store, PutMany):
            self._store.put_many(self._cells(pairs), durable=durable)
        else:
            for key, value in self._cells(pairs):
                self._store.put(key, value, durable=durable)

    def _cells(self, pairs: Iterable[tuple[str, Buffer]]) -> Iterator[tuple[str, Buffer]]:
        """What is not held back; documents may change even when cells are written, where cells stand in them."""
        for key, value in pairs:
            if key in self.held:
                self._hold([(key, value)])
            else:
                yield key, value

    def _hold(self, pairs: Iterable[tuple[str, Buffer]]) -> None:
        """Keep the values, in the order in which each was last put."""
        for key, value in pairs:
            self.held.pop(check_key(key), None)
            self.held[key] = bytes(value)

    def delete(self, key: str, *, durable: bool = False) -> None:
        """Remove the key; missing is fine."""
        if self.held.pop(key, None) is None:
            self._store.delete(key, durable=durable)

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        """Remove every key that is ``prefix`` or stands below it."""
        for key in [key for key in self.held if key == prefix or key.startswith(below(prefix))]:
            del self.held[key]
        self._store.delete_prefix(prefix, durable=durable)

    def seal(self) -> Sequence[Sequence[str]]:
        """The documents are complete: what is put from now on are cells. What is held back, as JSON values."""
        self._holding = False
        return [[key, b64encode(value).decode()] for key, value in self.held.items()]

    def publish(self) -> None:
        """Put what was held back, the root's last, and see that it is there. A value whose request failed may be there
        all the same, and one that is there may be unreadable for a while: neither makes a complete target a failure.
        """
        documents = in_order(self.held)
        for key, value in documents:
            try:
                self._store.put(key, value, durable=True)
            except (StorageError, ReadOnly):
                if not self._has(key, value):
                    raise
        try:
            wrong = [key for key, value in documents if self._store.get(key) != value]
        except StorageError as error:
            _log.warning("%s is complete, but its documents could not be read again: %s", self.url, error)
            return
        if wrong:
            raise StorageError("what was written is not what is read", url=self.url, key=wrong[0])

    def _has(self, key: str, value: bytes) -> bool:
        """Return whether the value is known to be stored."""
        try:
            return bool(self._store.get(key) == value)
        except StorageError:
            return False


def in_order(documents: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """Return the documents in the order in which they are published: with the last one the dataset is complete."""
    return sorted(documents.items(), key=lambda entry: "/" not in entry[0])


def parts_of(value: bytes, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Parts of a value as :class:`~.stores.base.GetRanges` gives them."""
    return [value[start : stop or None] if start < 0 else value[start:stop] for start, stop in ranges]


def unsealed(documents: Sequence[Sequence[str]]) -> dict[str, bytes]:
    """What :meth:`Unpublished.seal` gave."""
    return {key: b64decode(value) for key, value in documents}
