"""Consolidated metadata against the documents that it copies: stale, incomplete, of nothing, damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hyperslab.checks.documents import Stored
from hyperslab.checks.findings import Finding, found
from hyperslab.errors import HyperslabError
from hyperslab.formats.keyed_commit import is_within, key, relative
from hyperslab.formats.spelling import Copy, Docs, Spelling


class Copies:
    """The documents of all nodes and the copies among them, as they are met from the root on."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._nodes: dict[str, Docs] = {}
        self._broken: set[str] = set()
        self._copies: dict[str, Copy] = {}
        self._found: list[Finding] = []

    def add(self, path: str, stored: Stored) -> None:
        """What lies at one node."""
        spelling = self._spelling
        if any(name in stored.docs for name in spelling.nodes):
            self._nodes[path] = {name: self._own(name, doc) for name, doc in stored.docs.items()}
        if stored.broken:
            self._broken.add(path)
        if stored.copy is None:
            return
        copy = spelling.read_copy(stored.copy)
        if copy is not None:
            self._copies[path] = copy
        elif self._says_one(stored.copy):
            place = key(path, spelling.copy_name)
            message = f"the consolidated metadata is damaged, and is not used [key={place}]"
            self._found.append(found(path, "damaged-copy", message, key=place, means=path))

    def _says_one(self, doc: Mapping[str, Any]) -> bool:
        """Whether a document that has no copy to be read claims to have one."""
        own = self._spelling.without_copy(doc)
        return own is None or any(value is not None for name, value in doc.items() if name not in own)

    def lost(self, path: str) -> None:
        """The node has no document that can be read; it is not compared."""
        self._broken.add(path)

    def spare(self, path: str) -> Docs | None:
        """The documents of a node as the nearest copy has them."""
        for holder in sorted(self._copies, key=len, reverse=True):
            inner = relative(path, holder)
            if is_within(path, holder) and inner in self._copies[holder]:
                return {name: self._own(name, doc) for name, doc in self._copies[holder][inner].items()}
        return None

    def _own(self, name: str, doc: dict[str, Any]) -> dict[str, Any]:
        own = self._spelling.without_copy(doc) if name == self._spelling.copy_name else doc
        return doc if own is None else own

    def compare(self) -> Iterator[Finding]:
        """How each copy differs from what is stored; a copy may be all that is left of a document."""
        yield from self._found
        for holder, copy in self._copies.items():
            place = key(holder, self._spelling.copy_name)
            below = {relative(path, holder): path for path in self._nodes if is_within(path, holder) and path != holder}
            for inner, path in below.items():
                if inner not in copy:
                    message = f"consolidated metadata of /{holder} does not know this node [key={place}]"
                    yield found(path, "incomplete-copy", message, key=place, means=holder)
                elif path not in self._broken and not self._same(self._nodes[path], copy[inner]):
                    message = f"consolidated metadata of /{holder} has other documents than this node [key={place}]"
                    yield found(path, "stale-copy", message, key=place, means=holder)
            for inner in copy:
                path = key(holder, inner) if holder else inner
                if inner and inner not in below and path not in self._broken:
                    message = f"consolidated metadata of /{holder} knows a node that has no document [key={place}]"
                    yield found(path, "copy-of-nothing", message, key=place, means=holder)
            if "" in copy and holder in self._nodes and not self._same(self._nodes[holder], copy[""]):
                message = f"consolidated metadata of /{holder} has other documents than the group itself [key={place}]"
                yield found(holder, "stale-copy", message, key=place, means=holder)

    def _same(self, stored: Docs, copied: Docs) -> bool:
        """The same documents, or such as mean the same; empty attributes are as good as none."""
        if self._plain(stored) == self._plain(copied):
            return True
        try:
            return self._meaning(stored) == self._meaning(copied)
        except HyperslabError:
            return False

    def _meaning(self, docs: Docs) -> dict[str, str]:
        """The documents in our own words, without what only their writer understands."""
        return self._plain(self._spelling.render(self._spelling.parse(docs, "").evolve(layout={})))

    def _plain(self, docs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        own = {name: self._own(name, dict(doc)) for name, doc in docs.items()}
        kept = {name: doc for name, doc in own.items() if doc or name not in self._spelling.extras}
        return {name: json.dumps(doc, sort_keys=True) for name, doc in kept.items()}
