"""The table of references, however it is stored: where the value of each key lies, in which version of a file."""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from hyperslab.errors import FormatError
from hyperslab.stores.credentials import redact, redact_text
from hyperslab.stores.keys import below
from hyperslab.stores.stored_file import StoredFile

LIMIT = 64 << 20
"""The largest document that is read, unless the storage option ``limit`` says otherwise."""
SUFFIXES = (".json", ".parquet", ".parq")
"""The ends of paths that may be references: a file of JSON, or a folder of Parquet."""
METADATA = ".zmetadata"
"""The file in a folder of Parquet that all documents stand in."""
VERSIONS = "hyperslab"
"""The member beside references under which the versions of files stand; other readers of references pass it over."""
ANEW = "make the references anew (hs.virtual, hyperslab virtual --overwrite)"
"""The remedy where a file is another one than that which references were made of."""
ALLOW = (
    "name the folders or URLs that may be read: allow_external=[...], or True for all (--allow-external PLACE, or any)"
)
"""The remedy where a chunk lies in a place that the caller has not allowed."""
URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)

GONE = f"look whether the file is there, or {ANEW}"
"""The remedy where a file cannot be read."""
_LOOK = f"look whether the file is there, and whether remote_options say how its server is reached; or {ANEW}"

Entry = str | bytes | dict[str, Any] | list[Any]
"""A value as text (after ``base64:`` as base64), bytes or JSON; ``[target]``, or ``[target, offset, length]``."""


class ReferenceTable(ABC):
    """References by key. ``targets``: files with templates filled in, by what entries call them, where that is another
    name; ``versions``: what tells the version of a file that entries were made of, by its name there."""

    targets: Mapping[str, str]
    versions: Mapping[str, Sequence[object]]

    @abstractmethod
    def find(self, key: str) -> Entry | None:
        """Return what stands under a key; None when it is missing."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[str]:
        """Yield every key below ``prefix/``, sorted."""

    @abstractmethod
    def list_dir(self, prefix: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names right below ``prefix/``: (keys, sub-prefixes), each sorted."""

    @property
    @abstractmethod
    def is_remote(self) -> bool:
        """Return True if a file lies on a server."""


def parse_allowed(allowed: object) -> bool | tuple[str, ...]:
    """Return the folders and URLs that a caller allows, or True for all, which text says as ``any`` or ``true``."""
    if isinstance(allowed, bool):
        return allowed or ()
    places = (
        [allowed]
        if isinstance(allowed, str | os.PathLike)
        else list(allowed)
        if isinstance(allowed, list | tuple)
        else []
    )
    texts = tuple(map(os.fsdecode, places))
    return True if any(text.lower() in ("any", "true") for text in texts) else texts


def decode_object(data: bytes, url: str, key: str | None = None) -> dict[str, Any]:
    """Return a document of references: an object of JSON, or with numbers that JSON has no form for (``NaN``), which
    VirtualiZarr writes. FormatError."""
    try:
        try:
            found: object = msgspec.json.decode(data, type=dict[str, object])
        except msgspec.MsgspecError:  # more than ten times as fast as Python's own
            found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is no JSON object: {error}", url=url, key=key) from None
    if not isinstance(found, dict):
        raise FormatError("this is no JSON object", url=url, key=key)
    return found


_NOT_ALLOWED = re.compile(r"resolves to the url prefix (.+?), to be able")
_NOT_NAMED = re.compile(r"can handle the chunk location \((.+?)\), edit")
_CHANGED = re.compile(r"owning the virtual chunk has changed \((?:file://)?(.+?)\)( |$)")


def explain_failure(text: str) -> tuple[str, str] | None:
    """Return a message and a remedy for what icechunk says of a chunk that lies in another file; None for another
    failure."""
    lines = [line.strip(" x\u00d7|`->") for line in text.splitlines()]
    words = " ".join(filter(None, lines))
    if (found := _NOT_ALLOWED.search(words)) is not None:
        return f"this chunk lies below {redact(found[1])}, which was not allowed", ALLOW
    if (found := _NOT_NAMED.search(words)) is not None:
        return f"the repository does not name the place of {redact(found[1])}", ANEW
    if (found := _CHANGED.search(words)) is not None:
        return f"{redact(unquote(found[1]))} has changed since the references were made", ANEW
    if "error fetching virtual reference" in words:
        # From its version 2 on the cause comes first, and where it happened in icechunk's own code behind.
        first, is_behind, _ = text.partition("\ncontext:")
        cause = redact_text(first.strip() if is_behind else next(filter(None, reversed(lines[:-1])), words))
        return f"a chunk in another file cannot be read: {cause}", _LOOK
    return None


def holds_references(path: str) -> bool:
    """Return True if a path with one of the :data:`SUFFIXES` is what that says."""
    return os.path.isfile(path if path.lower().endswith(".json") else os.path.join(path, METADATA))


def is_remote(target: str) -> bool:
    """Return True if a target lies on a server."""
    return URL.match(target) is not None and not target.startswith("file://")


def file_version(file: StoredFile) -> Sequence[object]:
    """Return what tells the version of a file, as it is noted beside references: size, mtime in ns, ETag."""
    return [file.size, file.mtime, file.tag]


def is_version(noted: Sequence[object], *found: object) -> bool:
    """Return True if a file is the one that was noted, as far as both are known."""
    return all(one is None or other is None or one == other for one, other in zip(noted, found, strict=False))


def read_versions(noted: object, url: str) -> dict[str, Sequence[object]]:
    """Return the versions of files that stand beside references; none where others made these."""
    files = noted.get("files", {}) if isinstance(noted, dict) else {}
    if not isinstance(files, dict) or not all(isinstance(each, list) for each in files.values()):
        raise FormatError("the versions of files are lists by name", url=url)
    return files


def names_below(keys: Sequence[str], prefix: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names right below ``prefix/`` of a few keys: (keys, sub-prefixes), each sorted."""
    start = below(prefix)
    parts = [key[len(start) :].partition("/") for key in keys if key.startswith(start)]
    return sorted({name for name, slash, _ in parts if not slash}), sorted({name for name, slash, _ in parts if slash})
