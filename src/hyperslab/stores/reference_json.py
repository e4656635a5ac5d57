"""kerchunk's references as one JSON document.

Version 1 (``{"version": 1, "refs": {key: entry}, "templates": {name: text}}``) and the older bare ``{key: entry}``.
An entry is text (after ``base64:`` as base64), a JSON object, or ``[target]`` and ``[target, offset, length]``. A
target is a path, relative to the document, or a URL. Specification: kerchunk's "Reference specification".
"""

from __future__ import annotations

import gc
import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from hyperslab.errors import FormatError, NotFound, Unsupported
from hyperslab.stores.files import read_error, version_of
from hyperslab.stores.keys import below, is_key
from hyperslab.stores.reference_table import VERSIONS, Entry, ReferenceTable, is_remote, read_versions

_TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
# The character behind the slash: what sorts after all keys below a prefix.
_BEHIND = chr(ord("/") + 1)


class JsonReferences(ReferenceTable):
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
    def _keys(self) -> Sequence[str]:
        """All that a store may have, sorted; not ``""`` or ``a//b``."""
        return sorted(filter(is_key, self._entries))

    def list(self, prefix: str) -> Iterator[str]:
        """Yield every key below ``prefix/``, sorted."""
        start, keys = below(prefix), self._keys
        for number in range(bisect_left(keys, start), len(keys)):
            if not keys[number].startswith(start):
                break
            yield keys[number]

    def list_dir(self, prefix: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names right below ``prefix/``: (keys, sub-prefixes), each sorted."""
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
        found: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"this is no JSON object: {error}", url=url) from None
    finally:
        if collects:
            gc.enable()
    return found


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
