"""A store in memory that keeps a list of what is asked of it, and fails when told to."""

from __future__ import annotations

from collections.abc import Iterable

from hyperslab.errors import StorageError
from hyperslab.stores.memory import MemoryStore


class CountingStore(MemoryStore):
    """``calls`` lists (operation, key); after ``left`` changes the next one fails."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self.left: int | None = None

    def get(self, key):
        self.calls.append(("get", key))
        return super().get(key)

    def list_dir(self, prefix=""):
        self.calls.append(("list", prefix))
        return super().list_dir(prefix)

    def put_many(self, pairs: Iterable, *, durable=False):
        for key, value in pairs:
            self.put(key, value, durable=durable)

    def put(self, key, value, *, durable=False):
        self._change("put", key)
        super().put(key, value, durable=durable)

    def delete(self, key, *, durable=False):
        self._change("delete", key)
        super().delete(key, durable=durable)

    def delete_prefix(self, prefix, *, durable=False):
        self._change("delete", prefix)
        super().delete_prefix(prefix, durable=durable)

    def rename(self, source, target):
        self._change("rename", source)
        super().rename(source, target)

    def _change(self, what, key):
        self.calls.append((what, key))
        if self.left is not None:
            if not self.left:
                raise StorageError("no space", key=key)
            self.left -= 1

    def puts(self):
        """The keys stored, in order."""
        return [key for what, key in self.calls if what == "put"]
