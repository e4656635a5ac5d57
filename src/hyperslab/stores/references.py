"""A store of references: keys whose values lie in other files, as kerchunk notes them in JSON or Parquet. Read-only."""

from __future__ import annotations

import base64
import gc
import json
import os
import re
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote
from weakref import WeakValueDictionary

from hyperslab.errors import FormatError, NotFound, StorageError, Unsupported
from hyperslab.stores.base import Scratch, Store, StoreTraits, too_long
from hyperslab.stores.buckets import open_objects
from hyperslab.stores.credentials import redact, resolve
from hyperslab.stores.files import pread, pread_into, read_error, version_of
from hyperslab.stores.keys import below, check_key, check_prefix, is_key
from hyperslab.stores.object import RemoteFile, split_file_url
from hyperslab.stores.ranges import span
from hyperslab.stores.reference_parquet import ParquetReferences
from hyperslab.stores.reference_table import (
    ALLOW,
    ANEW,
    GONE,
    LIMIT,
    VERSIONS,
    Entry,
    ReferenceTable,
    decode_object,
    is_remote,
    is_version,
    parse_allowed,
    read_versions,
)
from hyperslab.stores.requests import IN_FLIGHT
from hyperslab.stores.stored_file import StoredFile, ValuePlace, tag_of
from hyperslab.stores.system import ALWAYS, NO_WAIT

# Files that stay open: to open one, with the look whether it may be read, takes as long as to read 64 KiB of it.
_MOST_OPEN = 128


class ReferenceStore(Store):
    """The keys of one document. Targets are read only below the document's own folder, and where ``allow_external``
    (a folder or URL prefix, a list of them, or True) allows; ``remote_options`` are the storage options of servers.

    A file of which another version was noted is an error, at its first use and whenever it changes afterwards.
    """

    def __init__(
        self,
        path: str,
        *,
        allow_external: bool | str | Sequence[str] = (),
        remote_options: Mapping[str, Any] | None = None,
        limit: int = LIMIT,
    ) -> None:
        self._path = os.path.abspath(path)
        super().__init__(f"reference://{self._path}", read_only=True)
        self._allowed = parse_allowed(allow_external)
        self._options = dict(remote_options or {})
        self._table: ReferenceTable = (
            ParquetReferences(self._path, self.url, limit)
            if os.path.isdir(self._path)
            else open_json(self._path, self.url, limit)
        )
        self._find = self._table.find
        self._files: dict[str, RemoteFile] = {}
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._stored: dict[str, StoredFile] = {}
        self._lock = threading.Lock()
        # many requests at once suit targets on servers
        concurrency = IN_FLIGHT if self._table.is_remote else None
        self.traits = StoreTraits(ranges=True, has_places=True, concurrency=concurrency)

    def __repr__(self) -> str:
        return f"ReferenceStore({self._path!r})"

    def close(self) -> None:
        with self._lock:
            self._open.clear()

    # -- values -----------------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        found = self.get_ranges(key, [(0, 2**62)])
        return None if found is None else found[0]

    def get_into(self, key: str, scratch: Scratch, most: int | None = None) -> memoryview | None:
        """Return the whole value, that of a local file in ``scratch``. CorruptChunk for more than ``most`` bytes."""
        entry = self._find(check_key(key))
        if not isinstance(entry, list):
            return super().get_into(key, scratch, most)
        target, offset, length = self._placed(key, entry)
        if is_remote(target):
            return super().get_into(key, scratch, most)
        file = self._open_file(key, target)
        size = self._whole(key, target, offset, length, file.check(self, key))
        if most is not None and size > most:
            raise too_long(self.url, key, most, size)
        out = scratch.buffer if len(scratch.buffer) >= size else scratch.reserve(size)
        pread_into(file.descriptor, out[:size], offset)
        return out[:size]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        entry = self._find(check_key(key))
        if entry is None:
            return None
        if not isinstance(entry, list):
            value = self._inline(key, entry)
            return [value[slice(*span(start, stop, len(value)))] for start, stop in ranges]
        target, offset, length = self._placed(key, entry)
        if is_remote(target):
            file = self._remote(key, target)
            size = self._whole(key, target, offset, length, file.size)
            spans = [span(start, stop, size) for start, stop in ranges]
            return file.preads([(offset + first, offset + last) for first, last in spans])
        local = self._open_file(key, target)
        size = self._whole(key, target, offset, length, local.check(self, key))
        spans = [span(start, stop, size) for start, stop in ranges]
        return [bytes(pread(local.descriptor, last - first, offset + first)) for first, last in spans]

    def size(self, key: str) -> int | None:
        """Return the bytes of the value, None when missing."""
        entry = self._find(check_key(key))
        if isinstance(entry, list) and len(entry) == 3:
            return self._placed(key, entry)[2]
        value = self.get(key)
        return None if value is None else len(value)

    def place(self, key: str) -> ValuePlace | None:
        """Return where the bytes of the value lie; None for one that stands in the references, and when missing."""
        entry = self._find(check_key(key))
        if not isinstance(entry, list):
            return None
        target, offset, length = self._placed(key, entry)
        found = self._stored.get(target)
        if found is None:
            if is_remote(target):
                remote = self._remote(key, target)
                found = StoredFile(target, remote.size, None, tag_of(remote.stamp))
            else:
                found = self._open_file(key, target).stored_file()
            self._stored[target] = found
        return found, offset, self._whole(key, target, offset, length, found.size)

    def places(self, prefix: str) -> Iterator[tuple[str, ValuePlace | None]]:
        """Yield every key below ``prefix/`` with the place of its value; None for one in the references."""
        for key in self.list(prefix):
            yield key, self.place(key)

    def list(self, prefix: str = "") -> Iterator[str]:
        return self._table.list(check_prefix(prefix))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        return self._table.list_dir(check_prefix(prefix))

    def _inline(self, key: str, entry: str | dict[str, Any] | bytes) -> bytes:
        if isinstance(entry, bytes):
            return entry
        if isinstance(entry, dict):
            return json.dumps(entry).encode()  # msgspec makes null of NaN
        if not entry.startswith("base64:"):
            return entry.encode()
        try:
            return base64.b64decode(entry[7:], validate=True)
        except ValueError as error:
            raise FormatError(f"the value is no base64: {error}", url=self.url, key=key) from None

    def _placed(self, key: str, entry: Any) -> tuple[str, int, int | None]:
        if type(entry[0]) is str:
            entry = [self._table.targets.get(entry[0], entry[0]), *entry[1:]]
        match entry:
            case [str(target)] if _is_name(target):
                return target, 0, None
            case [str(target), int(offset), int(length)] if offset >= 0 and length >= 0 and _is_name(target):
                return target, int(offset), int(length)
        message = "a reference is [target] or [target, offset, length], and a target is a path or URL"
        raise FormatError(message, url=self.url, key=key)

    # -- targets ----------------------------------------------------------------------------------------------------

    def _open_file(self, key: str, target: str) -> _OpenFile:
        """Return a file of this machine, which stays open while few others are read."""
        with self._lock:
            found = self._open.get(target)
            if found is not None:
                self._open.move_to_end(target)
                return found
        path = self._confined(key, target.removeprefix("file://"))
        try:
            descriptor = os.open(path, os.O_RDONLY | ALWAYS | NO_WAIT)
        except OSError as error:
            message = f"{redact(target)} cannot be read: {error.strerror or error}"
            raise StorageError(message, url=self.url, key=key, remedy=GONE) from error
        opened = _OpenFile(descriptor, target, path, self._table.versions.get(target))
        opened.check(self, key)
        with self._lock:
            found = self._open.setdefault(target, opened)
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)
        return found

    def changed(self, key: str, target: str) -> StorageError:
        """Return the error for a file that is another one than that which the references were made of."""
        message = f"{redact(target)} has changed since the references were made"
        return StorageError(message, url=self.url, key=key, remedy=ANEW)

    def _whole(self, key: str, target: str, offset: int, length: int | None, size: int) -> int:
        """Return the bytes of a value, which lie in a file of so many. StorageError."""
        there = size - offset
        if there < 0 or (length is not None and length > there):
            raise StorageError(f"{redact(target)} ends within the value", url=self.url, key=key, remedy=ANEW)
        return there if length is None else length

    def _confined(self, key: str, target: str) -> str:
        """Return the real path of a target, if it may be read."""
        home = os.path.dirname(self._path)
        path = os.path.realpath(os.path.join(home, target))
        roots = [home, *(() if isinstance(self._allowed, bool) else self._allowed)]
        within = (os.path.join(path, "").startswith(os.path.join(os.path.realpath(root), "")) for root in roots)
        if self._allowed is True or any(within):
            return path
        raise StorageError(f"the target {redact(target)} lies outside", url=self.url, key=key, remedy=ALLOW)

    def _remote(self, key: str, target: str) -> RemoteFile:
        if target not in self._files:
            if not isinstance(self._allowed, bool) and not any(_is_allowed(target, root) for root in self._allowed):
                raise StorageError(f"the target {redact(target)} lies outside", url=self.url, key=key, remedy=ALLOW)
            above, name = split_file_url(target)
            file = RemoteFile.open(open_objects(above, resolve(self._options), read_only=True), name)
            if file is None:
                raise NotFound("there is no such target", url=redact(target), key=key)
            version = self._table.versions.get(target)
            if version is not None and not is_version(version, file.size, None, tag_of(file.stamp)):
                raise self.changed(key, target)
            self._files[target] = file
        return self._files[target]


class _OpenFile:
    """A file that is closed once nobody reads it any more. ``version``: as the references noted it."""

    __slots__ = ("_path", "_seen", "_target", "_version", "descriptor")

    def __init__(self, descriptor: int, target: str, path: str, version: Sequence[object] | None) -> None:
        self.descriptor = descriptor
        self._target = target
        self._path = path
        self._version = version
        self._seen: tuple[int, int] | None = None

    def check(self, store: ReferenceStore, key: str) -> int:
        """Return the size of the file; StorageError where it is another version than that of the references."""
        found = os.fstat(self.descriptor)
        seen = found.st_size, found.st_mtime_ns
        if seen != self._seen:
            if self._version is not None and not is_version(self._version, *seen, None):
                raise store.changed(key, self._target)
            self._seen = seen
        return found.st_size

    def stored_file(self) -> StoredFile:
        """Return the file by its path, with what tells its version."""
        return StoredFile.of_path(self._path, os.fstat(self.descriptor))

    def __del__(self) -> None:
        os.close(self.descriptor)


def _is_name(target: str) -> bool:
    """Return True if a file or URL can be called so: without NUL, and of whole characters."""
    try:
        return "\0" not in target and target.encode() is not None
    except UnicodeEncodeError:
        return False


def _is_allowed(url: str, root: str) -> bool:
    """Return True if a URL is the root or stands below it, also once a client has made sense of its dots and
    escapes.
    """
    bare = unquote(unquote(url))
    if ".." in bare or "\\" in bare or not bare.isprintable():
        return False
    return url == root or url.startswith(root.rstrip("/") + "/")


# -- references as one JSON document -----------------------------------------------------------------------------------
# Version 1 ({"version": 1, "refs": {key: entry}, "templates": {name: text}}) and the older bare {key: entry}. An
# entry is text (after base64: as base64), a JSON object, or [target] and [target, offset, length]. A target is a
# path, relative to the document, or a URL. Specification: kerchunk's "Reference specification".


_TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
# The character behind the slash: what sorts after all keys below a prefix.
_BEHIND = chr(ord("/") + 1)


class JsonReferences(ReferenceTable):
    """The references of a JSON document: ``entries`` by key as they stand there."""

    def __init__(
        self, entries: dict[str, Entry], targets: dict[str, str], versions: Mapping[str, Sequence[object]]
    ) -> None:
        self.targets = targets
        self.versions = versions
        self._entries = entries

    def find(self, key: str) -> Entry | None:
        """Return an entry as it stands there."""
        return self._entries.get(key)

    @cached_property
    def _keys(self) -> Sequence[str]:
        """All that a store may have, sorted; not ``""`` or ``a//b``."""
        return sorted(filter(is_key, self._entries))

    def list(self, prefix: str) -> Iterator[str]:
        start, keys = below(prefix), self._keys
        for number in range(bisect_left(keys, start), len(keys)):
            if not keys[number].startswith(start):
                break
            yield keys[number]

    def list_dir(self, prefix: str) -> tuple[Sequence[str], Sequence[str]]:
        start, keys = below(prefix), self._keys
        names: list[str] = []
        inner: list[str] = []
        number = bisect_left(keys, start)
        while number < len(keys) and keys[number].startswith(start):
            name, slash, _ = keys[number][len(start) :].partition("/")
            (inner if slash else names).append(name)
            number = bisect_left(keys, f"{start}{name}{_BEHIND}", number) if slash else number + 1
        return names, sorted(inner)

    @cached_property
    def is_remote(self) -> bool:
        """Return True if a target lies on a server."""
        return any(map(is_remote, self.targets.values()))


# Documents that are open, by what identifies a version. No lock: two threads that read one at once read the same, and
# the list below is changed by single calls.
_OPEN: WeakValueDictionary[tuple[Any, ...], JsonReferences] = WeakValueDictionary()
# The one that was read last, until a second store has it: the store that finds out a format is closed before.
_LATEST: list[JsonReferences] = []


def open_json(path: str, url: str, limit: int) -> JsonReferences:
    """Return the document at a path, read once for all stores that are open."""
    try:
        found = os.stat(path)
    except OSError:
        return _entries(_read(path, url, limit), url)
    version = path, version_of(found)
    known = _OPEN.get(version)
    if known is None or found.st_size > limit:
        known = _OPEN[version] = _entries(_read(path, url, limit), url)
        _LATEST[:] = [known]
    elif known in _LATEST:
        _LATEST.clear()
    return known


def _read(path: str, url: str, limit: int) -> dict[str, Any]:
    """Return the JSON object of a document."""
    try:
        if os.path.getsize(path) > limit:
            remedy = "give storage_options={'limit': bytes} if you trust it"
            raise FormatError(f"the document has more than {limit} bytes", url=url, remedy=remedy)
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise NotFound("there is no such file", url=url) from None
    except OSError as error:
        raise read_error(error, url, "") from error
    collects = gc.isenabled()
    gc.disable()  # which would look through all entries again and again while they are made, and takes half the time
    try:
        return decode_object(data, url)
    finally:
        if collects:
            gc.enable()


def _entries(document: dict[str, Any], url: str) -> JsonReferences:
    if "gen" in document:
        raise Unsupported("references that are generated by rules", url=url, remedy="write them out, one per chunk")
    versioned = "version" in document and isinstance(document.get("refs"), dict)
    refs = document["refs"] if versioned else document
    templates = document.get("templates") or {} if versioned else {}
    if not isinstance(templates, dict):
        raise FormatError("templates are an object", url=url)
    lists = [entry for entry in refs.values() if type(entry) is list]  # of a million entries: no function for each
    if not {*map(type, refs.values())} <= {str, dict, list} or [] in lists:
        remedy = "a document of kerchunk names files; of a dataset in Zarr open the folder, not one of its documents"
        for key, entry in refs.items():  # an entry under what no store takes as a key is never asked for
            if is_key(key) and (not isinstance(entry, str | dict | list) or entry == []):
                raise FormatError(f"{key!r} leads to no chunk", url=url, remedy=remedy)
    targets: dict[str, str] = {}
    for target in {entry[0] for entry in lists if entry and type(entry[0]) is str}:
        targets[target] = _filled(target, templates, url)
    return JsonReferences(refs, targets, read_versions(document.get(VERSIONS), url) if versioned else {})


def _filled(target: str, templates: Mapping[str, Any], url: str) -> str:
    """Return the target with ``{{name}}`` replaced; a template that computes is refused."""
    if "{{" not in target:
        return target

    def text(found: re.Match[str]) -> str:
        value = templates.get(found[1])
        if not isinstance(value, str) or "{{" in value:
            raise FormatError(f"the template {found[1]!r} of {target!r} is no text", url=url)
        return value

    filled = _TEMPLATE.sub(text, target)
    if "{{" in filled:
        raise Unsupported(f"a template that computes: {target!r}", url=url, remedy="write the references out")
    return filled
