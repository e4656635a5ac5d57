"""A store that stands in front of another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperslab.stores.base import Buffer, Scratch, Stamp, Store, StoreTraits


class WrappedStore(Store):
    """A store in front of another. Reads are forwarded; writes end in :meth:`put`, :meth:`put_many` and :meth:`delete`,
    which are those of the other store unless a subclass has its own. It has no locks: whoever wraps a store writes
    there alone."""

    def __init__(self, store: Store, *, read_only: bool = False) -> None:
        super().__init__(store.url, read_only=read_only or store.read_only)
        self._store = store
        traits = store.traits
        # those of reading, but for files
        self.traits = StoreTraits(stamped=traits.stamped, ranges=traits.ranges, concurrency=traits.concurrency)

    def close(self) -> None:
        """Close the other store."""
        self._store.close()

    def get(self, key: str) -> bytes | None:
        return self._store.get(key)

    def get_into(self, key: str, scratch: Scratch, most: int | None = None) -> memoryview | None:
        return self._store.get_into(key, scratch, most)

    def read_exactly(self, key: str, out: memoryview) -> int | None:
        return self._store.read_exactly(key, out)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        return self._store.get_ranges(key, ranges)

    def size(self, key: str) -> int | None:
        return self._store.size(key)

    def stamp(self, key: str) -> Stamp | None:
        return self._store.stamp(key)

    def stray_at(self, key: str) -> str | None:
        return self._store.stray_at(key)

    def list(self, prefix: str = "") -> Iterator[str]:
        return self._store.list(prefix)

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        return self._store.list_dir(prefix)

    def is_mount(self, folder: str) -> bool:
        return self._store.is_mount(folder)

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        self._require_writable(key)
        self._store.put(key, value, durable=durable)

    def delete(self, key: str, *, durable: bool = False) -> None:
        """Remove the key from the other store; missing is fine."""
        self._require_writable(key)
        self._store.delete(key, durable=durable)
