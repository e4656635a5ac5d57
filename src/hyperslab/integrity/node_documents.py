"""The documents of a dataset as they are stored: those of each node, and consolidated metadata, which copies them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from hyperslab.errors import FormatError, HyperslabError, Problem
from hyperslab.formats.documents import LIMITS, mend_json, read_document
from hyperslab.formats.rules import Finding, found
from hyperslab.formats.zarr.dialect import Docs, MetadataDialect, read_consolidated, strip_consolidated
from hyperslab.model.paths import child, is_within, relative
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store


@dataclass(slots=True)
class NodeDocuments:
    """A node's documents: those that could be read, the names of those that could not, the spec that they make."""

    docs: Docs = field(default_factory=dict)
    copy: dict[str, object] | None = None
    broken: list[str] = field(default_factory=list)
    spec: GroupSpec | ArraySpec | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_node(self) -> bool:
        """Return whether a document says what this is, be it damaged."""
        return bool(self.docs) or bool(self.broken)


def read_stored(
    store: Store, dialect: MetadataDialect, path: str, names: Collection[str], *, explained: bool = False
) -> NodeDocuments:
    """Return the documents among ``names``, which are what lies right in the node's folder. ``explained``: the format
    itself tells what is survived while they are parsed."""
    stored = NodeDocuments()
    wanted = dict.fromkeys((*dialect.nodes, *dialect.extras, dialect.consolidated_name))
    for name in wanted:
        if name not in names:
            continue
        doc = _read(store, dialect, path, name, stored)
        if name == dialect.consolidated_name:
            stored.copy = doc
        if doc is not None and (name in dialect.nodes or name in dialect.extras):
            stored.docs[name] = doc
    _keep_one_kind(stored, dialect, path)
    if any(name in stored.docs for name in dialect.nodes) and not _is_broken(stored, dialect):
        _parse(stored, dialect, path, explained=explained)
    return stored


def _is_broken(stored: NodeDocuments, dialect: MetadataDialect) -> bool:
    """Return whether the document that says what this is cannot be read."""
    first = next((name for name in dialect.nodes if name in stored.docs or name in stored.broken), None)
    return first in stored.broken


def _keep_one_kind(stored: NodeDocuments, dialect: MetadataDialect, path: str) -> None:
    """Of several documents that make a node the first counts."""
    kinds = [name for name in dialect.nodes if name in stored.docs or name in stored.broken]
    for name in kinds[1:]:
        stored.docs.pop(name, None)
        message = f"both {kinds[0]} and {name} say what this is; {kinds[0]} counts"
        stored.findings.append(found(path, "two-kinds", message, key=child(path, name)))


def _read(
    store: Store, dialect: MetadataDialect, path: str, name: str, stored: NodeDocuments
) -> dict[str, object] | None:
    place = child(path, name)
    try:
        size = store.size(place)
        most = LIMITS.copy if name == dialect.consolidated_name else LIMITS.size
        if size is not None and size > most:
            message = f"the document has {size} bytes, {most} are allowed"
            raise FormatError(message, problems=[Problem(path, "json-size", message)])
        data = store.get(place)
        if data is None:
            return None
        doc = read_document(data, place)
        stored.findings += _mended(data, path, place)
        return doc
    except HyperslabError as error:
        kind = error.problems[0].kind if isinstance(error, FormatError) and error.problems else "unreadable-document"
        stored.broken.append(name)
        stored.findings.append(found(path, kind, f"{error.message} [key={place}]", key=place))
        return None


def _mended(data: bytes, path: str, place: str) -> Iterator[Finding]:
    """Return the findings of a document that is no JSON and is read all the same, or that holds too much."""
    try:
        _, mended = mend_json(data)
    except FormatError:
        return
    if mended:
        yield found(path, "json-mended", f"the document is no JSON: {', '.join(mended)} [key={place}]", key=place)


def _parse(stored: NodeDocuments, dialect: MetadataDialect, path: str, *, explained: bool) -> None:
    """Add the spec, and every defect of the documents."""
    place = child(path, next(iter(name for name in dialect.nodes if name in stored.docs)))
    with suppress(FormatError):
        stored.spec = dialect.parse(stored.docs, path)
    if explained and stored.spec is not None:
        return
    for problem in dialect.problems(stored.docs, path):
        stored.findings.append(found(path, problem.kind, f"{problem.message} [key={place}]", key=place))


_CODECS = "codecs"
_SAYS_NOTHING: dict[str, object] = {"storage_transformers": []}
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
        """Add what lies at one node."""
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
            self._found.append(found(path, "damaged-copy", message, key=place, detail=path))

    def _says_one(self, doc: Mapping[str, object]) -> bool:
        """Return whether a document that has no copy to be read claims to have one."""
        own = self._dialect.without_consolidated(doc)
        return own is None or any(value is not None for name, value in doc.items() if name not in own)

    def lost(self, path: str) -> None:
        """Leave a node out of the comparison that has no document that can be read."""
        self._broken.add(path)

    def spare(self, path: str) -> Docs | None:
        """Return the documents of a node as the nearest copy has them; None where none has."""
        for holder in sorted(self._copies, key=len, reverse=True):
            inner = relative(path, holder)
            if is_within(path, holder) and inner in self._copies[holder]:
                return {
                    name: strip_consolidated(self._dialect, name, doc)
                    for name, doc in self._copies[holder][inner].items()
                }
        return None

    def compare(self) -> Iterator[Finding]:
        """Yield how each copy differs from what is stored; a copy may be all that is left of a document."""
        yield from self._found
        for holder, copy in self._copies.items():
            place = child(holder, self._dialect.consolidated_name)
            below = {relative(path, holder): path for path in self._nodes if is_within(path, holder) and path != holder}
            for inner, path in below.items():
                if inner not in copy:
                    message = f"consolidated metadata of /{holder} does not know this node [key={place}]"
                    yield found(path, "incomplete-copy", message, key=place, detail=holder)
                elif path not in self._broken and not self._same(self._nodes[path], copy[inner]):
                    message = f"consolidated metadata of /{holder} has other documents than this node [key={place}]"
                    yield found(path, "stale-copy", message, key=place, detail=holder)
            for inner in copy:
                path = child(holder, inner) if holder else inner
                if inner and inner not in below and path not in self._broken:
                    message = f"consolidated metadata of /{holder} knows a node that has no document [key={place}]"
                    yield found(path, "copy-of-nothing", message, key=place, detail=holder)
            if "" in copy and holder in self._nodes and not self._same(self._nodes[holder], copy[""]):
                message = f"consolidated metadata of /{holder} has other documents than the group itself [key={place}]"
                yield found(holder, "stale-copy", message, key=place, detail=holder)

    def _same(self, stored: Docs, copied: Docs) -> bool:
        """Return whether documents are the same. Empty attributes are as good as none, and a key that need not be
        understood is no difference where only one side has it: zarr-python puts such into the copies of groups."""
        a, b = self._filled(stored), self._filled(copied)
        return a.keys() == b.keys() and all(_same_document(a[name], b[name]) for name in a)

    def _filled(self, docs: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
        own = {name: strip_consolidated(self._dialect, name, dict(doc)) for name, doc in docs.items()}
        return {name: doc for name, doc in own.items() if doc or name not in self._dialect.extras}


def _same_document(a: Mapping[str, object], b: Mapping[str, object]) -> bool:
    alone = {name: (a if name in a else b)[name] for name in a.keys() ^ b.keys()}
    if not all(_is_idle(name, value) for name, value in alone.items()):
        return False
    return all(_spelled(name, a[name]) == _spelled(name, b[name]) for name in a.keys() & b.keys())


def _spelled(name: str, value: object) -> str:
    """Return a value as text; codecs without configurations that say nothing."""
    return json.dumps(_without_empty(value) if name == _CODECS else value, sort_keys=True)


def _without_empty(value: object) -> object:
    if isinstance(value, list):
        return [_without_empty(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_empty(part) for key, part in value.items() if (key, part) != ("configuration", {})}


def _is_idle(name: str, value: object) -> bool:
    """Return whether a key may as well be missing."""
    if name in _SAYS_NOTHING:
        return bool(value == _SAYS_NOTHING[name])
    return isinstance(value, dict) and value.get("must_understand") is False
