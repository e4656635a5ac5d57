"""kerchunk's references: a JSON document that says in which file, at which byte, each key's value lies. Read-only.

Version 1 (``{"version": 1, "refs": {key: entry}, "templates": {name: text}}``) and the older bare ``{key: entry}``.
An entry is text (after ``base64:`` as base64), a JSON object, or ``[target]`` and ``[target, offset, length]``. A
target is a path, relative to the document, or a URL. Specification: kerchunk's "Reference specification".
"""

from __future__ import annotations

import base64
import gc
import os
import re
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote
from weakref import WeakValueDictionary

import msgspec

from hyperslab.errors import FormatError, NotFound, StorageError, Unsupported
from hyperslab.stores.base import Scratch, Store, StoreTraits, too_long
from hyperslab.stores.buckets import open_objects
from hyperslab.stores.credentials import redact, resolve
from hyperslab.stores.files import pread, pread_into, read_error, version_of
from hyperslab.stores.keys import below, check_key, check_prefix, is_key
from hyperslab.stores.object import RemoteFile
from hyperslab.stores.ranges import span
from hyperslab.stores.requests import IN_FLIGHT
from hyperslab.stores.stored_file import StoredFile, tag_of

LIMIT = 64 << 20
"""The largest document that is read, unless the storage option ``limit`` says otherwise."""

Entry = str | dict[str, Any] | list[Any]
_TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
# The character behind the slash: what sorts after all keys below a prefix.
_BEHIND = chr(ord("/") + 1)
VERSIONS = "hyperslab"
"""The member beside references under which the versions of files stand."""
# Files that stay open: to open one, with the look whether it may be read, takes as long as to read 64 KiB of it.
_MOST_OPEN = 128
_ANEW = "make the references anew (hs.virtual, hyperslab virtual --overwrite)"
_REMEDY = (
    "name the folders or URLs that may be read: storage_options={'allow_external': [...]}, or True for all "
    "(--storage-option allow_external=FOLDER)"
)


class ReferenceTable(ABC):
    """What references say. ``targets``: files with templates filled in, by what entries call them; ``versions``: what
    tells the version of a file that entries were made of, by its name there."""

    targets: Mapping[str, str]
    versions: Mapping[str, Sequence[object]]

    @abstractmethod
    def find(self, key: str) -> Entry | bytes | None:
        """Return what stands under a key: its value as text, JSON or bytes, or ``[target]``, or ``[target, offset,
        length]``; None when it is missing."""

    @property
    @abstractmethod
    def keys(self) -> Sequence[str]:
        """All keys, sorted."""

    @property
    @abstractmethod
    def is_remote(self) -> bool:
        """True if a file lies on a server."""


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
        self._allowed = [allow_external] if isinstance(allow_external, str) else allow_external  # not its letters
        self._options = dict(remote_options or {})
        self._table: ReferenceTable = _document(self._path, self.url, limit)
        self._find = self._table.find
        self._files: dict[str, RemoteFile] = {}
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._lock = threading.Lock()
        # many requests at once suit targets on servers
        self.traits = StoreTraits(ranges=True, concurrency=IN_FLIGHT if self._table.is_remote else None)

    def __repr__(self) -> str:
        return f"ReferenceStore({self._path!r})"

    def close(self) -> None:
        """Let go of the files; closing twice is fine."""
        with self._lock:
            self._open.clear()

    # -- values -----------------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        """Return the whole value, or None."""
        found = self.get_ranges(key, [(0, 2**62)])
        return None if found is None else found[0]

    def get_into(self, key: str, scratch: Scratch, most: int | None = None) -> memoryview | None:
        """Return the whole value, that of a local file in ``scratch``. CorruptChunk for more than ``most`` bytes."""
        entry = self._find(check_key(key))
        if not isinstance(entry, list):
            return super().get_into(key, scratch, most)
        target, offset, length = self._placed(key, entry)
        if _is_remote(target):
            return super().get_into(key, scratch, most)
        file = self._open_file(key, target)
        size = self._whole(key, target, offset, length, file.check(self, key))
        if most is not None and size > most:
            raise too_long(self.url, key, most, size)
        out = scratch.buffer if len(scratch.buffer) >= size else scratch.reserve(size)
        pread_into(file.descriptor, out[:size], offset)
        return out[:size]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        """Return bytes ``start <= i < stop`` of each range, cut at the end; a negative start counts from the end."""
        entry = self._find(check_key(key))
        if entry is None:
            return None
        if not isinstance(entry, list):
            value = self._inline(key, entry)
            return [value[slice(*span(start, stop, len(value)))] for start, stop in ranges]
        target, offset, length = self._placed(key, entry)
        if _is_remote(target):
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

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield every key below ``prefix/``, sorted."""
        start, keys = below(check_prefix(prefix)), self._table.keys
        for number in range(bisect_left(keys, start), len(keys)):
            if not keys[number].startswith(start):
                break
            yield keys[number]

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """Return the names right below ``prefix/``: (keys, sub-prefixes), each sorted."""
        start, keys = below(check_prefix(prefix)), self._table.keys
        names: list[str] = []
        inner: list[str] = []
        number = bisect_left(keys, start)
        while number < len(keys) and keys[number].startswith(start):
            name, slash, _ = keys[number][len(start) :].partition("/")
            (inner if slash else names).append(name)
            number = bisect_left(keys, f"{start}{name}{_BEHIND}", number) if slash else number + 1
        return names, sorted(inner)

    def _inline(self, key: str, entry: str | dict[str, Any] | bytes) -> bytes:
        if isinstance(entry, bytes):
            return entry
        if isinstance(entry, dict):
            return msgspec.json.encode(entry)
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
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise read_error(error, redact(target), key) from error
        opened = _OpenFile(descriptor, target, self._table.versions.get(target))
        opened.check(self, key)
        with self._lock:
            found = self._open.setdefault(target, opened)
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)
        return found

    def changed(self, key: str, target: str) -> StorageError:
        """Return the error for a file that is another one than that which the references were made of."""
        message = f"{redact(target)} has changed since the references were made"
        return StorageError(message, url=self.url, key=key, remedy=_ANEW)

    def _whole(self, key: str, target: str, offset: int, length: int | None, size: int) -> int:
        """Return the bytes of a value, which lie in a file of so many. StorageError."""
        there = size - offset
        if there < 0 or (length is not None and length > there):
            raise StorageError(f"{redact(target)} ends within the value", url=self.url, key=key, remedy=_ANEW)
        return there if length is None else length

    def _confined(self, key: str, target: str) -> str:
        """Return the real path of a target, if it may be read."""
        home = os.path.dirname(self._path)
        path = os.path.realpath(os.path.join(home, target))
        roots = [home, *(() if self._allowed is True or not self._allowed else self._allowed)]
        within = (os.path.join(path, "").startswith(os.path.join(os.path.realpath(root), "")) for root in roots)
        if self._allowed is True or any(within):
            return path
        raise StorageError(f"the target {redact(target)} lies outside", url=self.url, key=key, remedy=_REMEDY)

    def _remote(self, key: str, target: str) -> RemoteFile:
        if target not in self._files:
            if self._allowed is not True and not any(_is_allowed(target, str(root)) for root in self._allowed or ()):
                raise StorageError(f"the target {redact(target)} lies outside", url=self.url, key=key, remedy=_REMEDY)
            above, _, name = target.rpartition("/")
            file = RemoteFile.open(open_objects(above, resolve(self._options), read_only=True), unquote(name))
            if file is None:
                raise NotFound("there is no such target", url=redact(target), key=key)
            version = self._table.versions.get(target)
            if version is not None and not _is_version(version, file.size, None, tag_of(file.stamp)):
                raise self.changed(key, target)
            self._files[target] = file
        return self._files[target]


class _OpenFile:
    """A file that is closed once nobody reads it any more. ``version``: as the references noted it."""

    __slots__ = ("_seen", "_target", "_version", "descriptor")

    def __init__(self, descriptor: int, target: str, version: Sequence[object] | None) -> None:
        self.descriptor = descriptor
        self._target = target
        self._version = version
        self._seen: tuple[int, int] | None = None

    def check(self, store: ReferenceStore, key: str) -> int:
        """Return the size of the file; StorageError where it is another version than that of the references."""
        found = os.fstat(self.descriptor)
        seen = found.st_size, found.st_mtime_ns
        if seen != self._seen:
            if self._version is not None and not _is_version(self._version, *seen, None):
                raise store.changed(key, self._target)
            self._seen = seen
        return found.st_size

    def __del__(self) -> None:
        os.close(self.descriptor)


def file_version(file: StoredFile) -> list[object]:
    """Return what tells the version of a file, as it is noted beside references: size, mtime in ns, ETag."""
    return [file.size, file.mtime, file.tag]


def _is_version(noted: Sequence[object], *found: object) -> bool:
    """Return True if a file is the one that was noted, as far as both are known."""
    return all(one is None or other is None or one == other for one, other in zip(noted, found, strict=False))


def _is_remote(target: str) -> bool:
    return _URL.match(target) is not None and not target.startswith("file://")


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


class _ReferenceDocument(ReferenceTable):
    """What a JSON document says: ``entries`` by key as they stand there."""

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
    def keys(self) -> list[str]:
        """All that a store may have, sorted; not ``""`` or ``a//b``."""
        return sorted(filter(is_key, self._entries))

    @cached_property
    def is_remote(self) -> bool:
        """True if a target lies on a server."""
        return any(map(_is_remote, self.targets.values()))


# Documents that are open, by what identifies a version. No lock: two threads that read one at once read the same, and
# the list below is changed by single calls.
_OPEN: WeakValueDictionary[tuple[Any, ...], _ReferenceDocument] = WeakValueDictionary()
# The one that was read last, until a second store has it: the store that finds out a format is closed before.
_LATEST: list[_ReferenceDocument] = []


def _document(path: str, url: str, limit: int) -> _ReferenceDocument:
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
        found: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"this is no JSON object: {error}", url=url) from None
    finally:
        if collects:
            gc.enable()
    return found


def _entries(document: dict[str, Any], url: str) -> _ReferenceDocument:
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
    return _ReferenceDocument(refs, targets, read_versions(document.get(VERSIONS), url) if versioned else {})


def read_versions(noted: object, url: str) -> dict[str, list[object]]:
    """Return the versions of files that stand beside references; none where others made these."""
    files = noted.get("files", {}) if isinstance(noted, dict) else {}
    if not isinstance(files, dict) or not all(isinstance(each, list) for each in files.values()):
        raise FormatError("the versions of files are lists by name", url=url)
    return files


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
