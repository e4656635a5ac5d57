"""kerchunk's references: a JSON document that says in which file, at which byte, each key's value lies. Read-only.

Version 1 (``{"version": 1, "refs": {key: entry}, "templates": {name: text}}``) and the older bare ``{key: entry}``.
An entry is text (after ``base64:`` as base64), a JSON object, or ``[target]`` and ``[target, offset, length]``. A
target is a path, relative to the document, or a URL. Specification: kerchunk's "Reference specification".
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import msgspec

from hyperslab.errors import FormatError, NotFound, StorageError, Unsupported
from hyperslab.stores.buckets import open_objects
from hyperslab.stores.credentials import resolve
from hyperslab.stores.files import read_error, read_whole
from hyperslab.stores.keys import below, check_key, check_prefix, is_key, split_names
from hyperslab.stores.named import Named
from hyperslab.stores.ranges import span
from hyperslab.stores.redaction import redact
from hyperslab.stores.remote import RemoteFile

LIMIT = 64 << 20
"""The largest document that is read, unless the storage option ``limit`` says otherwise."""

Entry = str | dict[str, Any] | list[Any]
Parts = list[bytes]
Ranges = Sequence[tuple[int, int]]
_TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_REMEDY = (
    "name the folders or URLs that may be read: storage_options={'allow_external': [...]}, or True for all "
    "(--storage-option allow_external=FOLDER)"
)


class ReferenceStore(Named):
    """The keys of one document. Targets are read only below the document's own folder, and where ``allow_external``
    (a folder or URL prefix, a list of them, or True) allows; ``remote_options`` are the storage options of servers.
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
        self._entries = _read(self._path, self.url, limit)
        self._files: dict[str, RemoteFile] = {}

    def __repr__(self) -> str:
        return f"ReferenceStore({self._path!r})"

    @cached_property
    def concurrency(self) -> int | None:
        """How many requests at once suit it: many where targets are on servers."""
        remote = any(isinstance(entry, list) and _URL.match(str(entry[0])) for entry in self._entries.values())
        return 32 if remote else None

    # -- values -----------------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        """The whole value, or None."""
        found = self.get_ranges(key, [(0, 2**62)])
        return None if found is None else found[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        """Bytes ``start <= i < stop`` of each range, cut at the end; a negative start counts from the end."""
        entry = self._entries.get(check_key(key))
        if entry is None:
            return None
        if not isinstance(entry, list):
            value = self._inline(key, entry)
            return [value[slice(*span(start, stop, len(value)))] for start, stop in ranges]
        target, offset, length = self._placed(key, entry)
        if _URL.match(target) and not target.startswith("file://"):
            return self._fetched(key, target, offset, length, ranges)
        return self._read_local(key, target, offset, length, ranges)

    def size(self, key: str) -> int | None:
        """Bytes of the value, None when missing."""
        entry = self._entries.get(check_key(key))
        if isinstance(entry, list) and len(entry) == 3:
            return self._placed(key, entry)[2]
        value = self.get(key)
        return None if value is None else len(value)

    def list(self, prefix: str = "") -> Iterator[str]:
        """Every key below ``prefix/``, sorted."""
        start = below(check_prefix(prefix))
        yield from sorted(key for key in self._entries if key.startswith(start))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """The names right below ``prefix/``: (keys, sub-prefixes), each sorted."""
        return split_names(self.list(prefix), prefix)

    def _inline(self, key: str, entry: str | dict[str, Any]) -> bytes:
        if isinstance(entry, dict):
            return msgspec.json.encode(entry)
        if not entry.startswith("base64:"):
            return entry.encode()
        try:
            return base64.b64decode(entry[7:], validate=True)
        except ValueError as error:
            raise FormatError(f"the value is no base64: {error}", url=self.url, key=key) from None

    def _placed(self, key: str, entry: Any) -> tuple[str, int, int | None]:
        match entry:
            case [str(target)]:
                return target, 0, None
            case [str(target), int(offset), int(length)] if offset >= 0 and length >= 0:
                return target, int(offset), int(length)
        raise FormatError("a reference is [target] or [target, offset, length]", url=self.url, key=key)

    # -- targets ----------------------------------------------------------------------------------------------------

    def _read_local(self, key: str, target: str, offset: int, length: int | None, ranges: Ranges) -> Parts:
        path = self._confined(key, target.removeprefix("file://"))
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise read_error(error, self.url, key) from error
        try:
            there = os.fstat(descriptor).st_size - offset
            size = self._whole(key, target, there if length is None else length, there)
            parts = []
            for start, stop in ranges:
                first, last = span(start, stop, size)
                os.lseek(descriptor, offset + first, os.SEEK_SET)
                parts.append(read_whole(descriptor, last - first))
            return parts
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise read_error(error, self.url, key) from error
        finally:
            os.close(descriptor)

    def _whole(self, key: str, target: str, length: int, there: int) -> int:
        if length > there or there < 0:
            message = f"{redact(target)} ends within the value"
            raise StorageError(message, url=self.url, key=key, remedy="the target changed; make the references anew")
        return length

    def _confined(self, key: str, target: str) -> str:
        """The real path of a target, if it may be read."""
        home = os.path.dirname(self._path)
        path = os.path.realpath(os.path.join(home, target))
        roots = [home, *(() if self._allowed is True or not self._allowed else self._allowed)]
        if self._allowed is True or any(_is_within(path, os.path.realpath(root)) for root in roots):
            return path
        raise StorageError(f"the target {redact(target)} lies outside", url=self.url, key=key, remedy=_REMEDY)

    def _fetched(self, key: str, target: str, offset: int, length: int | None, ranges: Ranges) -> Parts:
        if self._allowed is not True and not any(_is_allowed(target, str(root)) for root in self._allowed or ()):
            raise StorageError(f"the target {redact(target)} lies outside", url=self.url, key=key, remedy=_REMEDY)
        file = self._remote(key, target)
        size = self._whole(key, target, file.size - offset if length is None else length, file.size - offset)
        spans = [span(start, stop, size) for start, stop in ranges]
        return file.preads([(offset + first, offset + last) for first, last in spans])

    def _remote(self, key: str, target: str) -> RemoteFile:
        if target not in self._files:
            above, _, name = target.rpartition("/")
            file = RemoteFile.open(open_objects(above, resolve(self._options), read_only=True), unquote(name))
            if file is None:
                raise NotFound("there is no such target", url=redact(target), key=key)
            self._files[target] = file
        return self._files[target]


def _is_within(path: str, root: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(root, ""))


def _is_allowed(url: str, root: str) -> bool:
    """Whether a URL is the root or stands below it, also once a client has made sense of its dots and escapes."""
    bare = unquote(unquote(url))
    if ".." in bare or "\\" in bare or not bare.isprintable():
        return False
    return url == root or url.startswith(root.rstrip("/") + "/")


def _read(path: str, url: str, limit: int) -> dict[str, Entry]:
    """The entries of a document, with its templates filled in."""
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
    try:
        document = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FormatError(f"this is no JSON object: {error}", url=url) from None
    return _entries(document, url)


def _entries(document: dict[str, Any], url: str) -> dict[str, Entry]:
    if "gen" in document:
        raise Unsupported("references that are generated by rules", url=url, remedy="write them out, one per chunk")
    versioned = "version" in document and isinstance(document.get("refs"), dict)
    refs = document["refs"] if versioned else document
    templates = document.get("templates") or {} if versioned else {}
    if not isinstance(templates, dict):
        raise FormatError("templates are an object", url=url)
    found: dict[str, Entry] = {}
    for key, entry in refs.items():
        if not is_key(key):
            continue  # such as "" or "a//b", which no store has
        if not isinstance(entry, str | dict | list) or (isinstance(entry, list) and not entry):
            remedy = (
                "a document of kerchunk names files; of a dataset in Zarr open the folder, not one of its documents"
            )
            raise FormatError(f"{key!r} leads to no chunk", url=url, remedy=remedy)
        found[key] = [_filled(str(entry[0]), templates, url, key), *entry[1:]] if isinstance(entry, list) else entry
    return found


def _filled(target: str, templates: Mapping[str, Any], url: str, key: str) -> str:
    """The target with ``{{name}}`` replaced; a template that computes is refused."""
    if "{{" not in target:
        return target

    def text(found: re.Match[str]) -> str:
        value = templates.get(found[1])
        if not isinstance(value, str) or "{{" in value:
            raise FormatError(f"the template {found[1]!r} is no text", url=url, key=key)
        return value

    filled = _TEMPLATE.sub(text, target)
    if "{{" in filled:
        raise Unsupported("a template that computes", url=url, key=key, remedy="write the references out")
    return filled
