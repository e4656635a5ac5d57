"""A dataset in a store without renames, while it is built: the documents of its root are held back until it is whole.

Readers find no root, so they find no dataset. What is held back, and the journal, lie in a hidden folder that is not
listed.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hyperslab.errors import StorageError
from hyperslab.stores.base import Buffer, PutMany

HIDDEN = ".hyperslab-convert"
"""The folder of the journal in a store that is built in place."""


class Unpublished:
    """``store`` with what it will hold once it is published. ``held``: the root's documents, None as long as they are
    still being written: until :meth:`seal` every key without a folder is one."""

    def __init__(self, store: Any, held: dict[str, bytes] | None = None, *, read_only: bool = False) -> None:
        self._store = store
        self._read_only = read_only
        self._holding = held is None
        self.held = {} if held is None else held

    def __getattr__(self, name: str) -> Any:
        """What else the store can do (ranges, stamps, sizes), it does."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._store, name)

    @property
    def url(self) -> str:
        """The store's."""
        return str(self._store.url)

    @property
    def read_only(self) -> bool:
        """Whether writes are refused."""
        return self._read_only or bool(self._store.read_only)

    def close(self) -> None:
        """The store stays open: it is not yet published."""

    def get(self, key: str) -> bytes | None:
        """The whole value, or None."""
        if key in self.held:
            return self.held[key]
        found: bytes | None = self._store.get(key)
        return found

    def list(self, prefix: str = "") -> Iterator[str]:
        """Every key below ``prefix/``, sorted."""
        stored = (key for key in self._store.list(prefix) if not key.startswith(f"{HIDDEN}/"))
        yield from sorted({*stored, *self.held}) if not prefix else stored

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """The names right below ``prefix/``: (keys, sub-prefixes), each sorted."""
        keys, folders = self._store.list_dir(prefix)
        if prefix:
            return keys, folders
        return sorted({*keys, *self.held}), [name for name in folders if name != HIDDEN]

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Store the value, or hold it back."""
        self.put_many([(key, value)], durable=durable)

    def put_many(self, pairs: Iterable[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """By the store's own group commit, else one by one."""
        through = self._hold(pairs) if self._holding else pairs
        if isinstance(self._store, PutMany):
            self._store.put_many(through, durable=durable)
            return
        for key, value in through:
            self._store.put(key, value, durable=durable)

    def _hold(self, pairs: Iterable[tuple[str, Buffer]]) -> Iterator[tuple[str, Buffer]]:
        """Keep the root's values, in the order in which each was last put; give out the others."""
        for key, value in pairs:
            if "/" in key:
                yield key, value
            else:
                self.held.pop(key, None)
                self.held[key] = bytes(value)

    def delete(self, key: str) -> None:
        """Remove the key; missing is fine."""
        if self.held.pop(key, None) is None:
            self._store.delete(key)

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that is ``prefix`` or stands below it."""
        self._store.delete_prefix(prefix)

    def seal(self) -> Sequence[Sequence[str]]:
        """The documents are complete: what is put from now on are cells. What is held back, as JSON values."""
        self._holding = False
        return [[key, b64encode(value).decode()] for key, value in self.held.items()]

    def publish(self) -> None:
        """Put what was held back, in the order in which it was written, and see that it is there."""
        for key, value in self.held.items():
            self._store.put(key, value, durable=True)
        for key, value in self.held.items():
            if self._store.get(key) != value:
                raise StorageError("what was written is not what is read", url=self.url, key=key)


def unsealed(documents: Sequence[Sequence[str]]) -> dict[str, bytes]:
    """What :meth:`Unpublished.seal` gave."""
    return {key: b64decode(value) for key, value in documents}
