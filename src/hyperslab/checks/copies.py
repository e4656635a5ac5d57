"""Consolidated metadata against the documents that it copies: stale, incomplete, of nothing, damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hyperslab.checks.documents import NodeDocuments
from hyperslab.checks.findings import Finding, found
from hyperslab.formats.zarr.dialect import Docs, MetadataDialect, read_consolidated, strip_consolidated
from hyperslab.model.paths import child, is_within, relative

_CODECS = "codecs"
_SAYS_NOTHING: dict[str, Any] = {"storage_transformers": []}
"""Keys with the value that is as good as none: zarr-python puts them into copies of documents that lack them."""


class Copies:
    """The documents of all nodes and the copies among them, as they are met from the root on."""

    def __init__(self, dialect: MetadataDialect) -> None:
        self._dialect = dialect
        self._nodes: dict[str, Docs] = {}
        self._broken: set[str] = set()
        self._copies: dict[str, Mapping[str, Docs]] = {}
        self._found: list[Finding] = []

    def add(self, path: str, stored: NodeDocuments) -> None:
        """What lies at one node."""
        dialect = self._dialect
        if any(name in stored.docs for name in dialect.nodes):
            self._nodes[path] = {
                name: strip_consolidated(self._dialect, name, doc) for name, doc in stored.docs.items()
            }
        if stored.broken:
            self._broken.add(path)
        if stored.copy is None:
            return
        copy = read_consolidated(dialect, stored.copy)
        if copy is not None:
            self._copies[path] = copy
        elif self._says_one(stored.copy):
            place = child(path, dialect.consolidated_name)
            message = f"the consolidated metadata is damaged, and is not used [key={place}]"
            self._found.append(found(path, "damaged-copy", message, key=place, means=path))

    def _says_one(self, doc: Mapping[str, Any]) -> bool:
        """Return whether a document that has no copy to be read claims to have one."""
        own = self._dialect.without_consolidated(doc)
        return own is None or any(value is not None for name, value in doc.items() if name not in own)

    def lost(self, path: str) -> None:
        """The node has no document that can be read; it is not compared."""
        self._broken.add(path)

    def spare(self, path: str) -> Docs | None:
        """The documents of a node as the nearest copy has them."""
        for holder in sorted(self._copies, key=len, reverse=True):
            inner = relative(path, holder)
            if is_within(path, holder) and inner in self._copies[holder]:
                return {
                    name: strip_consolidated(self._dialect, name, doc)
                    for name, doc in self._copies[holder][inner].items()
                }
        return None

    def compare(self) -> Iterator[Finding]:
        """How each copy differs from what is stored; a copy may be all that is left of a document."""
        yield from self._found
        for holder, copy in self._copies.items():
            place = child(holder, self._dialect.consolidated_name)
            below = {relative(path, holder): path for path in self._nodes if is_within(path, holder) and path != holder}
            for inner, path in below.items():
                if inner not in copy:
                    message = f"consolidated metadata of /{holder} does not know this node [key={place}]"
                    yield found(path, "incomplete-copy", message, key=place, means=holder)
                elif path not in self._broken and not self._same(self._nodes[path], copy[inner]):
                    message = f"consolidated metadata of /{holder} has other documents than this node [key={place}]"
                    yield found(path, "stale-copy", message, key=place, means=holder)
            for inner in copy:
                path = child(holder, inner) if holder else inner
                if inner and inner not in below and path not in self._broken:
                    message = f"consolidated metadata of /{holder} knows a node that has no document [key={place}]"
                    yield found(path, "copy-of-nothing", message, key=place, means=holder)
            if "" in copy and holder in self._nodes and not self._same(self._nodes[holder], copy[""]):
                message = f"consolidated metadata of /{holder} has other documents than the group itself [key={place}]"
                yield found(holder, "stale-copy", message, key=place, means=holder)

    def _same(self, stored: Docs, copied: Docs) -> bool:
        """The same documents. Empty attributes are as good as none, and a key that need not be understood is no
        difference where only one side has it: zarr-python puts such into the copies of groups."""
        a, b = self._filled(stored), self._filled(copied)
        return a.keys() == b.keys() and all(_same_document(a[name], b[name]) for name in a)

    def _filled(self, docs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        own = {name: strip_consolidated(self._dialect, name, dict(doc)) for name, doc in docs.items()}
        return {name: doc for name, doc in own.items() if doc or name not in self._dialect.extras}


def _same_document(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    alone = {name: (a if name in a else b)[name] for name in a.keys() ^ b.keys()}
    if not all(_is_idle(name, value) for name, value in alone.items()):
        return False
    return all(_spelled(name, a[name]) == _spelled(name, b[name]) for name in a.keys() & b.keys())


def _spelled(name: str, value: Any) -> str:
    """A value as text; codecs without configurations that say nothing."""
    return json.dumps(_without_empty(value) if name == _CODECS else value, sort_keys=True)


def _without_empty(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_empty(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_empty(part) for key, part in value.items() if (key, part) != ("configuration", {})}


def _is_idle(name: str, value: Any) -> bool:
    """Return whether a key may as well be missing."""
    if name in _SAYS_NOTHING:
        return bool(value == _SAYS_NOTHING[name])
    return isinstance(value, dict) and value.get("must_understand") is False
