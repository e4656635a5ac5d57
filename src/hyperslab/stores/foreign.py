"""Stores of other libraries as ours: those of obstore and zarr-python, and fsspec's mappings.

A folder or bucket that one of them stands for is opened as such, with all its abilities. Behind any other there are
neither locks nor compare-and-swap: it takes one writer at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from hyperslab.errors import HyperslabError, NotFound, StorageError
from hyperslab.stores import counting
from hyperslab.stores.base import Buffer, ProcessStore, Store, StoreTraits
from hyperslab.stores.credentials import redact, redact_text
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.keys import below, check_key, check_prefix, is_key, split_names
from hyperslab.stores.ranges import span

Result = TypeVar("Result")
Names = list[str]
_TRAITS = StoreTraits(ranges=True)


def adopt_store(target: object) -> Store | None:
    """Return a store of one of those libraries, or a mapping, as one of ours; None of what is neither.

    A library that nobody has imported has no stores, and is not imported for this. Subclasses of local stores may do
    more than the folder does: they are called.
    """
    if "obstore.store" in sys.modules:
        from obstore.store import AzureStore, GCSStore, HTTPStore, LocalStore, MemoryStore, S3Store

        if isinstance(target, AzureStore | GCSStore | HTTPStore | LocalStore | MemoryStore | S3Store):
            return _wrap_bucket(target)
    if "fsspec.mapping" in sys.modules:
        from fsspec.implementations.local import LocalFileSystem
        from fsspec.mapping import FSMap

        if isinstance(target, FSMap):
            return DirectoryStore(target.root) if type(target.fs) is LocalFileSystem else FsspecStore(target)
    if isinstance(target, MutableMapping):
        return MappingStore(target)
    if "zarr.abc.store" in sys.modules:  # also of libraries that make their own kind of these, such as IcechunkStore
        return _adopt_zarr(target)
    return None


def _adopt_zarr(target: object) -> Store | None:
    from zarr.abc.store import Store as ZarrStore
    from zarr.storage import LocalStore, ObjectStore

    if type(target) is LocalStore:
        return DirectoryStore(target.root, read_only=target.read_only)
    if type(target) is ObjectStore:
        return _wrap_bucket(target.store, read_only=target.read_only)
    return ZarrPythonStore(target) if isinstance(target, ZarrStore) else None


def _wrap_bucket(store: Any, *, read_only: bool = False) -> Store:
    from hyperslab.stores.buckets import wrapped

    return wrapped(store, read_only=read_only)


class _Foreign(ProcessStore):
    """The common base of both: how keys are checked, what is counted, and what becomes of errors."""

    def __init__(self, url: str, *, read_only: bool) -> None:
        super().__init__(redact(url), read_only=read_only)

    traits = _TRAITS
    """Parts of values are read; the libraries tell no versions, and lock nothing."""

    def _load(self, key: str, start: int | None, stop: int | None) -> bytes | None:
        raise NotImplementedError

    def _save(self, key: str, value: bytes) -> None:
        raise NotImplementedError

    def _drop(self, key: str) -> None:
        raise NotImplementedError

    def _size(self, key: str) -> int | None:
        raise NotImplementedError

    def _names(self, prefix: str) -> Names:
        raise NotImplementedError

    def _names_right_below(self, prefix: str) -> tuple[Names, Names]:
        raise NotImplementedError

    def get(self, key: str) -> bytes | None:
        return self._try(check_key(key), lambda: self._read(key, None, None))

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        size = self.size(key)
        if size is None:
            return None
        parts: Any = []
        for start, stop in ranges:
            first, last = span(start, stop, size)
            whole = first == 0 and last == size
            read = partial(self._read, key, None if whole else first, None if whole else last)
            parts.append(self._try(key, read) if first < last else b"")
        return None if None in parts else parts

    def _read(self, key: str, start: int | None, stop: int | None) -> bytes | None:
        value = self._load(key, start, stop)
        if counting.traces:
            counting.count(1, read=len(value or b""))
        return value

    def size(self, key: str) -> int | None:
        return self._try(check_key(key), lambda: self._size(key))

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter(sorted(filter(is_key, self._try(prefix, lambda: self._names(check_prefix(prefix))))))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        keys, inner = self._try(prefix, lambda: self._names_right_below(check_prefix(prefix)))
        return sorted(filter(is_key, keys)), sorted(filter(is_key, inner))

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Store one value; how durably is the other library's business."""
        self._require_writable(check_key(key))
        data = bytes(value)
        if counting.traces:
            counting.count(1, written=len(data))
        self._try(key, lambda: self._save(key, data))

    def delete(self, key: str, *, durable: bool = False) -> None:
        self._require_writable(check_key(key))
        self._try(key, lambda: self._drop(key))

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        self._require_writable(check_prefix(prefix))
        for key in [*self._try(prefix, lambda: self._names(prefix)), *([prefix] if prefix else [])]:
            self._try(key, partial(self._drop, key))

    def _try(self, key: str, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except HyperslabError:
            raise
        except Exception as error:
            message = f"{type(error).__name__}: {redact_text(str(error))}"
            raise StorageError(message, url=self._url, key=key or None) from None


class MappingStore(_Foreign):
    """Any mapping of text to bytes that can be changed: a dict, or the map of NCZarr's draft."""

    def __init__(self, mapping: MutableMapping[str, bytes]) -> None:
        self._mapping = mapping
        super().__init__(f"mapping://{id(mapping):x}", read_only=False)

    def _load(self, key: str, start: int | None, stop: int | None) -> bytes | None:
        value = self._mapping.get(key)
        return None if value is None else bytes(value)[start:stop]

    def _save(self, key: str, value: bytes) -> None:
        self._mapping[key] = value

    def _drop(self, key: str) -> None:
        with suppress(KeyError):
            del self._mapping[key]

    def _size(self, key: str) -> int | None:
        value = self._mapping.get(key)
        return None if value is None else len(value)

    def _names(self, prefix: str) -> Names:
        return [key for key in list(self._mapping) if isinstance(key, str) and key.startswith(below(prefix))]

    def _names_right_below(self, prefix: str) -> tuple[Names, Names]:
        rest = [key[len(below(prefix)) :].partition("/") for key in self._names(prefix)]
        return [name for name, slash, _ in rest if not slash], list({name for name, slash, _ in rest if slash})


_GONE = (FileNotFoundError, IsADirectoryError, NotADirectoryError, KeyError)


class FsspecStore(_Foreign):
    """The files below the root of ``fsspec.get_mapper(…)``."""

    def __init__(self, mapper: Any, *, read_only: bool = False) -> None:
        self._fs = mapper.fs
        self._root = str(mapper.root).rstrip("/")
        super().__init__(self._fs.unstrip_protocol(self._root), read_only=read_only)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}" if key and self._root else key or self._root

    def _keys_in(self, paths: Iterable[str]) -> Names:
        root = self._fs._strip_protocol(self._root)
        return [path.removeprefix(root).strip("/") for path in paths]

    def _load(self, key: str, start: int | None, stop: int | None) -> bytes | None:
        try:
            return bytes(self._fs.cat_file(self._path(key), start, stop))
        except _GONE:
            return None

    def _save(self, key: str, value: bytes) -> None:
        if not getattr(self._fs, "async_impl", False):  # those speak to servers, where it might make a bucket
            self._fs.makedirs(self._path(key).rpartition("/")[0], exist_ok=True)
        self._fs.pipe_file(self._path(key), value)

    def _drop(self, key: str) -> None:
        with suppress(*_GONE):
            if self._fs.isfile(self._path(key)):
                self._fs.rm_file(self._path(key))

    def _size(self, key: str) -> int | None:
        self._fs.invalidate_cache(self._path(key).rpartition("/")[0])
        try:
            info = self._fs.info(self._path(key))
        except _GONE:
            return None
        return int(info["size"]) if info["type"] == "file" else None

    def _names(self, prefix: str) -> Names:
        self._fs.invalidate_cache()
        with suppress(*_GONE):
            found = self._keys_in(self._fs.find(self._path(prefix)))
            return [key for key in found if key.startswith(below(prefix))]
        return []

    def _names_right_below(self, prefix: str) -> tuple[Names, Names]:
        self._fs.invalidate_cache()
        keys: Names = []
        inner: Names = []
        skip = len(below(prefix))
        with suppress(*_GONE):
            infos = self._fs.ls(self._path(prefix), detail=True)
            for info, key in zip(infos, self._keys_in(info["name"] for info in infos), strict=True):
                if info["type"] != "directory":
                    keys.append(key[skip:])
                elif self._fs.find(self._path(key)):
                    inner.append(key[skip:])
        return list(filter(None, keys)), inner


class ZarrPythonStore(_Foreign):
    """A store of zarr-python, whose calls are awaited in its own event loop."""

    def __init__(self, store: Any) -> None:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        self._store = store
        self._sync = sync
        self._prototype = default_buffer_prototype()
        super().__init__(str(store), read_only=store.read_only)
        self._try("", self._begin)

    def _begin(self) -> None:
        """Open the store: some of its calls want it open, and none says so by a clear error."""
        try:
            self._sync(self._store._ensure_open())
        except FileNotFoundError:
            raise NotFound("there is no such place", url=self._url, remedy="check the spelling") from None

    def _load(self, key: str, start: int | None, stop: int | None) -> bytes | None:
        from zarr.abc.store import RangeByteRequest

        part = None if start is None or stop is None else RangeByteRequest(start, stop)
        found = self._sync(self._store.get(key, self._prototype, part))
        return None if found is None else found.to_bytes()

    def _save(self, key: str, value: bytes) -> None:
        self._sync(self._store.set(key, self._prototype.buffer.from_bytes(value)))

    def _drop(self, key: str) -> None:
        with suppress(*_GONE):
            self._sync(self._store.delete(key))

    def _size(self, key: str) -> int | None:
        try:
            return int(self._sync(self._store.getsize(key)))
        except _GONE:
            return None

    def _names(self, prefix: str) -> Names:
        names = self._store.list_prefix(below(prefix))

        async def collect() -> Names:
            return [name async for name in names]

        found: Names = self._sync(collect())
        return found

    def _names_right_below(self, prefix: str) -> tuple[Names, Names]:
        """Go by the whole listing: what ``list_dir`` calls a name may be a key, a folder or both."""
        return split_names(self._names(prefix), prefix)
