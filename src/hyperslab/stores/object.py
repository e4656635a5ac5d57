"""A store that is a bucket, a container or a web server, through obstore: ``s3``, ``gs``, ``az``, ``http``, ``https``.

No key is asked after before it is read: a missing one answers as fast as one that is there. A stamp is the object's
ETag, and compare-and-swap is a conditional request: chunks need no locks, and that of a node is an object, too. Each
answer to a listing tells names, versions and sizes of many objects. Requests that fail for a moment are repeated by
obstore; what fails for good is a ``StorageError``. :class:`RemoteFile` is one object that is read by ranges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from hyperslab.errors import Conflict, CorruptChunk, StorageError, Unsupported
from hyperslab.stores import counting, leases
from hyperslab.stores.base import (
    Buffer,
    ProcessStore,
    Scratch,
    Stamp,
    Store,
    StoreTraits,
    Unversioned,
    Version,
    too_long,
)
from hyperslab.stores.keys import LOCK, below, check_key, check_prefix, is_key
from hyperslab.stores.leases import KeepsLeases, Lease, lease
from hyperslab.stores.ranges import merge, span
from hyperslab.stores.requests import IN_FLIGHT, Refused, Unranged, each_request, lists_nothing, request
from hyperslab.stores.stored_file import StoredFile, ValuePlace

Result = TypeVar("Result")
Names = list[str]
Entries = list[tuple[str, Any]]

PAGE = 1000
"""Keys that are listed, or removed, by one request."""


# Bytes of a value that is stored by one request, so that its ETag is its MD5: S3 takes 5 GB so.
_ONE_REQUEST = 1 << 30
# Seconds for which a watched stamp is taken as it was: else each of many reads of blank chunks would be two requests.
_WATCHED = 1.0


@dataclass(frozen=True)
class StoreListings:
    """The ``stores`` that are asked for listings, in turn until one answers; names there begin with ``above``."""

    above: str
    stores: Sequence[Any]

    def below(self, prefix: str) -> tuple[str | None, int]:
        """Return what stands there for a prefix of ours, and the length of what precedes the names below it."""
        whole = "/".join(filter(None, (self.above, prefix)))
        return whole or None, len(whole) + 1 if whole else 0


class ObjectListing(ProcessStore):
    """An object store, as far as it lists."""

    def __init__(self, store: Any, url: str, lists: StoreListings, *, read_only: bool) -> None:
        import obstore
        from obstore.store import GCSStore, MemoryStore

        super().__init__(url, read_only=read_only)
        self._obstore = obstore
        self._store = store
        self._by_version = isinstance(store, GCSStore)
        self._has_bare_etags = isinstance(store, MemoryStore)  # without quotes, before obstore 0.11.1
        self._lists = lists
        self._lists_nothing = self._lists_something = False

    def _stamp(self, meta: Mapping[str, Any]) -> Stamp:
        """Return the stamp of a version: Google swaps by the number of one, the others by the ETag; a server that has
        none tells the time, which obstore gives as 1970 where it does not. Lists of some servers (rclone's) leave out
        the quotes of an ETag, which answers to other requests have."""
        tag = meta["e_tag"]
        if tag and not self._has_bare_etags and not tag.endswith('"'):
            tag = f'"{tag}"'
        if self._by_version:
            return tag, meta.get("version")
        time = meta.get("last_modified")
        return tag or ((meta["size"], time) if time is not None and time.timestamp() else Unversioned())

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter(sorted(filter(is_key, self._below(check_prefix(prefix)))))

    def _below(self, prefix: str) -> Names:
        """Return every name below ``prefix/``, whatever it is, or that of the prefix itself left out."""
        return [name for name, _ in self._entries_below(prefix)]

    def _entries_below(self, prefix: str) -> Entries:
        """Return what the server tells of each."""
        where, skip = self._lists.below(prefix)[0], self._lists.below("")[1]

        def walk(store: Any) -> Entries:
            pages = self._obstore.list(store, where, chunk_size=PAGE)
            found = [(entry["path"][skip:], entry) for page in pages for entry in page]
            if counting.traces:
                counting.count(len(found) // PAGE)
            return found

        start, found = below(prefix), self._listing(prefix, walk)
        self._check_listing(is_empty=not found)
        return [(name, entry) for name, entry in found if name.startswith(start)]

    def entries(self, folder: str, tail: str = "") -> Iterator[tuple[str, Stamp, int]]:
        skip, behind = len(below(check_prefix(folder))), check_key(tail) if tail else ""
        for key, entry in self._entries_below(folder):
            name, _, rest = key[skip:].partition("/")
            if rest == behind and is_key(name):
                yield name, self._stamp(entry), entry["size"]

    def places(self, prefix: str) -> Iterator[tuple[str, ValuePlace]]:
        """Yield every key below ``prefix/`` with the object that its value is, as the listing tells."""
        for key, entry in self._entries_below(check_prefix(prefix)):
            if is_key(key):
                yield key, self._place(key, entry)

    def _place(self, key: str, meta: Mapping[str, Any]) -> ValuePlace:
        url = f"{self.url.rstrip('/')}/{quote(key)}"
        return StoredFile.of_object(url, meta["size"], self._stamp(meta)), 0, meta["size"]

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Stamp, int]]:
        for key, entry in self._entries_below(check_prefix(prefix)):
            if is_key(key):
                yield key, self._stamp(entry), entry["size"]

    def nbytes_below(self, prefix: str) -> int:
        return sum(entry["size"] for _, entry in self._entries_below(check_prefix(prefix)))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        where, skip = self._lists.below(check_prefix(prefix))
        found = self._listing(prefix, lambda store: self._obstore.list_with_delimiter(store, where))
        self._check_listing(is_empty=not found["objects"] and not found["common_prefixes"])
        keys = (entry["path"][skip:] for entry in found["objects"])
        inner = (path[skip:] for path in found["common_prefixes"])
        return sorted(filter(is_key, keys)), sorted(filter(is_key, inner))

    def _check_listing(self, *, is_empty: bool) -> None:
        """Raise Unsupported where an empty listing means that the server knows no folders, which to it are missing:
        then not even the place that was opened, which holds a document, has a name in it."""
        if not is_empty or self._lists_something or len(self._lists.stores) == 1:
            return
        where, _ = self._lists.below("")
        found = self._listing("", lambda store: self._obstore.list_with_delimiter(store, where))
        self._lists_something = bool(found["objects"] or found["common_prefixes"])
        if not self._lists_something:
            self._lists_nothing = True
            raise lists_nothing(self._url)

    def _listing(self, prefix: str, call: Callable[[Any], Result]) -> Result:
        """Return what ``call`` lists; Unsupported where the server lists nothing, which is asked once."""
        if self._lists_nothing:
            raise lists_nothing(self._url)
        *hasty, last = self._lists.stores
        try:
            for store in hasty:
                with suppress(StorageError):
                    return self._ask(prefix, call, store, listing=True)
            return self._ask(prefix, call, last, listing=bool(hasty))
        except FileNotFoundError:  # where folders are nothing to the server
            self._lists_nothing = True
            raise lists_nothing(self._url) from None
        except Unsupported:
            self._lists_nothing = True
            raise

    def _ask(
        self,
        key: str,
        call: Callable[..., Result],
        *arguments: Any,
        writing: bool = False,
        ranged: bool = False,
        listing: bool = False,
    ) -> Result:
        if counting.traces:
            counting.count(1)
        called = partial(call, *arguments)
        return request(called, self._obstore, self._url, key, writing=writing, ranged=ranged, listing=listing)


Range = tuple[int, int]

# Unwanted bytes between two ranges that cost less than another request.
REQUEST_GAP = 256 << 10
_TRAITS = StoreTraits(stamped=True, ranges=True, swaps=True, locks_nodes=True, has_places=True, concurrency=IN_FLIGHT)


class ObjectStore(ObjectListing, KeepsLeases):
    """The keys below the prefix of an obstore store. One may be used by many threads, one bucket by many processes.

    ``url`` is shown in errors and must hold no secrets. A store object is never pickled: it knows credentials.
    ``lists``: who is asked for listings, where that is another one.
    """

    def __init__(self, store: Any, url: str, *, read_only: bool = False, lists: StoreListings | None = None) -> None:
        from obstore.store import AzureStore

        super().__init__(store, url, lists or StoreListings("", (store,)), read_only=read_only)
        self._counts_forward = isinstance(store, AzureStore)
        # By thread the leases that it holds, by the keys of their objects.
        self._leases: dict[int, dict[str, Lease]] = {}
        self.sightings = {}

    traits = _TRAITS
    """ETags are stamps, conditional requests swap; a reader of many chunks takes as many threads as requests suit a
    server."""

    # -- reading ----------------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        found = self.get_version(key)
        return None if found is None else bytes(found.data)

    def get_into(self, key: str, scratch: Scratch, most: int | None = None) -> memoryview | None:
        """Return the whole value, which the client makes memory for: ``scratch`` is left alone.

        ``CorruptChunk`` for one of more than ``most`` bytes, before they are fetched.
        """
        found = self.get_version(key, most=most)
        return None if found is None else memoryview(found.data)

    def get_version(
        self, key: str, part: Range | None = None, *, unless: Stamp | None = None, most: int | None = None
    ) -> Version | None:
        """Return the value, or a ``part`` of it (as for :meth:`get_ranges`), with its size and stamp, by one request.

        None when missing; without ``data`` when its stamp is ``unless``. ``CorruptChunk`` beyond ``most`` bytes.
        """
        tag = self._tag(unless)
        options = {} if tag is None else {"if_none_match": tag}
        try:
            return self._version(check_key(key), part, options, most, unless)
        except FileNotFoundError:
            return None

    def _version(
        self, key: str, part: Range | None, options: Mapping[str, Any], most: int | None, unless: Stamp | None = None
    ) -> Version:
        """Return the value or a part of it; a part is cut from the whole where a server gives no parts, or none of an
        empty value."""
        if part is not None and part[0] < 0 and self._counts_forward:
            meta = self._head(key)
            if meta is None:
                raise FileNotFoundError(key)
            part, options = span(*part, meta["size"]), {**options, "if_match": meta["e_tag"]}
        try:
            return self._ask(key, self._fetch, key, part, options, most, unless, ranged=part is not None)
        except (Refused, Unranged):
            found = self._ask(key, self._fetch, key, None, options, most, unless)
        if found.data is None or part is None:
            return found
        start, stop = span(*part, found.size)
        return Version(found.data[start:stop], found.size, found.stamp)

    def _fetch(
        self, key: str, part: Range | None, options: Mapping[str, Any], most: int | None, unless: Stamp | None = None
    ) -> Version:
        options = dict(options)
        if part is not None:
            options["range"] = {"suffix": -part[0]} if part[0] < 0 else part
        try:
            result = self._obstore.get(self._store, key, options=options)
        except self._obstore.exceptions.NotModifiedError:
            return Version(None, 0, unless)
        meta = result.meta
        if most is not None and meta["size"] > most:
            raise too_long(self._url, key, most, meta["size"])
        data = result.bytes()
        if counting.traces:
            counting.count(read=len(data))
        return Version(memoryview(data), meta["size"], self._stamp(meta))

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return bytes ``start <= i < stop`` of each range, cut at the end; a negative start counts from the end.

        Neighbours are fetched by one request, several requests at once.
        """
        return self._ranges(check_key(key), ranges, {})

    def get_ranges_of(self, key: str, ranges: Sequence[Range], stamp: Stamp) -> list[bytes] | None:
        """Return :meth:`get_ranges` of the version that has this stamp; ``Conflict`` when it is another one by now, as
        far as the server tells."""
        tag = self._strong(stamp)
        found = self._ranges(check_key(key), ranges, {} if tag is None else {"if_match": tag})
        unsure = tag is None and not isinstance(stamp, Unversioned)
        if unsure and found is not None and self.stamp(key) != stamp:
            raise Conflict("it is another version by now", url=self._url, key=key)
        return found

    def _ranges(self, key: str, ranges: Sequence[Range], options: Mapping[str, Any]) -> list[bytes] | None:
        if not ranges:
            return None if self.size(key) is None else []
        try:
            if any(not 0 <= start < stop for start, stop in ranges):
                # Ranges that are empty or count from the end; one of the last bytes is one request, others need the
                # size.
                if len(ranges) == 1 and ranges[0][0] < 0 and ranges[0][1] == 0:
                    return [self._part(key, ranges[0], options)]
                size = self.size(key)
                if size is None:
                    return None
                spans = [span(start, stop, size) for start, stop in ranges]
                full = [each for each in spans if each[0] < each[1]]
                several = self._ranges(key, full, options) if full else []
                values = iter(several or ())
                return None if several is None else [next(values) if start < stop else b"" for start, stop in spans]
            merged = merge(ranges, REQUEST_GAP)
            parts = each_request([partial(self._part, key, part, options) for part in merged])
        except FileNotFoundError:
            return None
        found = dict(zip(merged, parts, strict=True))
        return [_cut(wanted, found) for wanted in ranges]

    def _part(self, key: str, part: Range, options: Mapping[str, Any]) -> bytes:
        if part[0] < 0:
            return bytes(self._version(key, part, options, None).data)
        try:
            found = self._ask(key, self._fetch, key, part, options, None, ranged=True)
        except Refused:  # the range begins behind the end, or the value is empty
            return b""
        except Unranged:
            found = self._version(key, part, options, None)
        return bytes(found.data)

    def size(self, key: str) -> int | None:
        meta = self._head(check_key(key))
        return None if meta is None else meta["size"]

    def place(self, key: str) -> ValuePlace | None:
        """Return the object that the value is, all of it; None when missing."""
        meta = self._head(check_key(key))
        return None if meta is None else self._place(key, meta)

    def stamp(self, key: str) -> Stamp | None:
        meta = self._head(check_key(key))
        return None if meta is None else self._stamp(meta)

    def watch(self, key: str) -> Callable[[], Stamp | None]:
        known: list[tuple[float, Stamp | None]] = []

        def ask() -> Stamp | None:
            if not known or time.monotonic() - known[0][0] > _WATCHED:
                known[:] = [(time.monotonic(), self.stamp(key))]
            return known[0][1]

        return ask

    def _head(self, key: str) -> Any:
        try:
            return self._ask(key, self._obstore.head, self._store, key)
        except FileNotFoundError:
            return None

    def _tag(self, stamp: Stamp | None) -> str | None:
        """Return the ETag in a stamp, None of a server that has none."""
        tag: Any = stamp[0] if isinstance(stamp, tuple) else stamp
        return tag if isinstance(tag, str) else None

    def _strong(self, stamp: Stamp | None) -> str | None:
        """Return the ETag if it may stand in If-Match: a weak one never matches there (RFC 9110, 13.1.1)."""
        tag = self._tag(stamp)
        return None if tag is None or tag.startswith("W/") else tag

    # -- writing ----------------------------------------------------------------------------------------------------

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Store one value; a bucket acknowledges what it will keep, so that all writes are durable."""
        self._require_leases()
        self._put(check_key(key), value, "overwrite")

    def put_many(self, pairs: Iterable[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """Store all values, many at once, when all of them are there. Should one fail, others may have been stored."""
        values = {check_key(key): bytes(value) for key, value in pairs}
        self._require_leases()
        each_request([partial(self._put, key, value, "overwrite") for key, value in values.items()])

    def put_if(self, key: str, value: Buffer, expected: Stamp | None, *, durable: bool = False) -> Stamp:
        """Store the value if the present one has the stamp ``expected`` (None: is missing), else ``Conflict``."""
        return self._put(check_key(key), value, self._mode(expected))

    def _mode(self, expected: Stamp | None) -> Any:
        if expected is None:
            return "create"
        etag = self._strong(expected)
        if etag is None:
            raise Unsupported(
                "this server names no versions (strong ETags)", url=self._url, remedy="use another server"
            )
        if isinstance(expected, tuple) and expected[1] is None:
            raise Unsupported("a listing tells no version", url=self._url, remedy="ask for the stamp of the key")
        return {"e_tag": etag, "version": expected[1]} if isinstance(expected, tuple) else {"e_tag": etag}

    def _put(self, key: str, value: Buffer, mode: Any) -> Stamp:
        self._require_writable(key)
        # Pages of a file that is mapped are sent as they are; all else might change meanwhile.
        fixed = isinstance(value, memoryview) and value.readonly and value.ndim == 1 and value.contiguous
        raw = value if fixed or isinstance(value, bytes) else bytes(value)
        in_parts = len(raw) > _ONE_REQUEST and mode == "overwrite"
        put = partial(self._obstore.put, self._store, key, raw, mode=mode, use_multipart=in_parts)
        try:
            made = self._ask(key, put, writing=True)
        except FileNotFoundError:
            raise Conflict("what was to be replaced is gone", url=self._url, key=key) from None
        if counting.traces:
            counting.count(written=len(raw))
        return self._stamp(made)

    def put_new(self, pairs: Sequence[tuple[str, Buffer]], *, durable: bool = False) -> Sequence[Stamp] | None:
        """Store values whose keys are all missing, many at once, or none of them: ``Conflict``. One that has the value
        already counts as stored: the answer to a request may have been lost. Return their stamps."""
        made: list[str] = []

        def put(key: str, value: Buffer) -> Stamp:
            try:
                stamp = self._put(key, value, "create")
            except Conflict:
                found = self.get_version(key)
                if found is None or found.data != bytes(value):
                    raise
                return found.stamp
            made.append(key)
            return stamp

        try:
            return each_request([partial(put, check_key(key), value) for key, value in pairs])
        except BaseException:
            if made:
                self._remove_all(made)
            raise

    def move(self, pairs: Sequence[tuple[str, str]], *, durable: bool = False) -> None:
        self._require_leases()
        each_request([partial(self._move, check_key(source), check_key(target)) for source, target in pairs])

    def _move(self, source: str, target: str) -> None:
        self._require_writable(target)
        with suppress(FileNotFoundError):
            self._ask(source, self._obstore.copy, self._store, source, target, writing=True)
            self._remove(source)

    def delete(self, key: str, *, durable: bool = False) -> None:
        self._require_leases()
        self._remove(check_key(key))

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        """Remove every key that is ``prefix`` or stands below it; ``""`` removes all below the store's own prefix.

        Locks of dead writers go, too; those that this store holds stay: their holder may be the one who removes.
        """
        self._require_writable(check_prefix(prefix))
        self._require_leases()
        leased = {key for own in list(self._leases.values()) for key in list(own)}
        doomed = [name for name in self._below(prefix) if name not in leased]
        if prefix:
            doomed.append(prefix)
        self._remove_all(doomed)

    def _remove_all(self, keys: Names) -> None:
        for start in range(0, len(keys), PAGE):
            self._remove(keys[start : start + PAGE])

    def _remove(self, keys: str | Names) -> None:
        name = keys if isinstance(keys, str) else keys[0]
        self._require_writable(name)
        try:
            self._ask(name, self._obstore.delete, self._store, keys, writing=True)
        except FileNotFoundError:
            if not isinstance(keys, str):
                for key in keys:
                    self._remove(key)

    # -- locks ------------------------------------------------------------------------------------------------------

    @property
    def lease_seconds(self) -> float:
        """Return for how long one has to look at a lock that stays the same until its holder counts as dead."""
        return leases.LEASE + leases.BEAT

    @contextmanager
    def lock_node(self, folder: str, timeout: float | None) -> Iterator[None]:
        """Hold the documents of the node at ``folder`` by a lease; ``Conflict`` after ``timeout`` seconds."""
        self._require_writable(check_prefix(folder))
        key = below(folder) + LOCK
        with lease(self, key, self._url, timeout) as held:
            own = self._leases.setdefault(get_ident(), {})
            own[key] = held
            try:
                yield
            finally:
                del own[key]
                if not own:
                    self._leases.pop(get_ident(), None)

    def _require_leases(self) -> None:
        """Raise ``Conflict``, before a write on no condition, if a lock that this thread holds was taken over."""
        for held in list(self._leases.get(get_ident(), {}).values()):
            held.require()

    def swap_lock(self, key: str, value: Buffer, expected: Stamp | None) -> Stamp:
        """Do :meth:`put_if` of a lock object."""
        return self._put(key, value, self._mode(expected))

    def read_lock(self, key: str) -> Version | None:
        """Do :meth:`get_version` of a lock object."""
        try:
            return self._version(key, None, {}, None)
        except FileNotFoundError:
            return None

    def drop_lock(self, key: str) -> None:
        """Do :meth:`delete` of a lock object."""
        self._remove(key)


def _cut(wanted: Range, found: Mapping[Range, bytes]) -> bytes:
    """Return a range out of the fetched ones, one of which holds it."""
    start, stop = wanted
    if wanted in found:
        return found[wanted]
    low, data = next((first, data) for (first, last), data in found.items() if first <= start and stop <= last)
    return data[start - low : stop - low]


# -- one object as a file that is read by ranges, all of one version -----------------------------------------------


HEAD = 16 << 10
"""Bytes that the first request brings: enough to know the format, and most headers."""


def split_file_url(url: str) -> tuple[str, str]:
    """Return the URL of the folder of a file, and its name. The query of a URL of a web server goes with the first: it
    goes with each request, as a signature or a token must. In a bucket ``?`` is a letter of a name."""
    whole, mark, query = url.partition("?") if url.startswith(("http://", "https://")) else (url, "", "")
    above, _, name = whole.rpartition("/")
    return above + mark + query, unquote(name)


class RemoteFile:
    """The object ``key`` of ``store``. ``size`` in bytes, ``stamp`` of its version, ``head``: its first bytes.

    A read of another version than the first one is a ``Conflict``, where the server names versions.
    """

    def __init__(self, store: Store, key: str, head: bytes, size: int, stamp: Stamp) -> None:
        self._store = store
        self._key = key
        self.head = head
        self.size = size
        self.stamp = stamp
        folder, mark, query = store.url.partition("?")
        self.url = f"{folder.rstrip('/')}/{key}{mark}{query}"
        self.concurrency = store.traits.concurrency

    @classmethod
    def open(cls, store: Store, key: str) -> RemoteFile | None:
        """Open the object by one request; None when there is none."""
        found = store.get_version(key, (0, HEAD))
        return None if found is None else cls(store, key, bytes(found.data), found.size, found.stamp)

    def pread(self, size: int, offset: int) -> bytes:
        """Return exactly ``size`` bytes from ``offset`` on; CorruptChunk when the file is shorter."""
        return self.preads([(offset, offset + size)])[0]

    def preads(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes ``start <= i < stop`` of each range, by few requests at once."""
        for _, stop in ranges:
            if stop > self.size:
                remedy = "get the whole file"
                raise CorruptChunk(
                    "the file ends within the cells", expected=stop, found=self.size, url=self.url, remedy=remedy
                )
        found = self._store.get_ranges_of(self._key, ranges, self.stamp)
        if found is None:
            raise CorruptChunk("the file is gone", url=self.url, remedy="restore it from a copy, or open another one")
        return list(found)
