"""The documents of a dataset as they are stored: those of each node, and consolidated metadata, which repeats them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from hyperslab.errors import FormatError, HyperslabError, Problem
from hyperslab.formats.documents import LIMITS, mend_json, read_document
from hyperslab.formats.rules import LINKS, Finding, found, found_at
from hyperslab.formats.zarr.dialect import Docs, MetadataDialect, read_consolidated, strip_consolidated
from hyperslab.model.paths import child, is_within, relative
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store


@dataclass(slots=True)
class NodeDocuments:
    """A node's documents: those that could be read, the names of those that could not, the spec that they make; why
    they make none, and ``warnings``: what is survived while they are parsed."""

    docs: Docs = field(default_factory=dict)
    consolidated: dict[str, object] | None = None
    broken: list[str] = field(default_factory=list)
    spec: GroupSpec | ArraySpec | None = None
    findings: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)

    @property
    def is_node(self) -> bool:
        """Return True if a document says what this is, be it damaged."""
        return bool(self.docs) or bool(self.broken)


def read_stored(
    store: Store, dialect: MetadataDialect, path: str, names: Collection[str], *, format_warns: bool = False
) -> NodeDocuments:
    """Return the documents among ``names``, which are what lies right in the node's folder. ``format_warns``: the
    format itself tells what is survived while they are parsed."""
    stored = NodeDocuments()
    wanted = dict.fromkeys((*dialect.nodes, *dialect.extras, dialect.consolidated_name))
    for name in wanted:
        if name not in names:
            continue
        doc = _read(store, dialect, path, name, stored)
        if name == dialect.consolidated_name:
            stored.consolidated = doc
        if doc is not None and (name in dialect.nodes or name in dialect.extras):
            stored.docs[name] = doc
    kinds = [name for name in dialect.nodes if name in stored.docs or name in stored.broken]
    for name in kinds[1:]:  # of several documents that make a node the first counts
        stored.docs.pop(name, None)
        message = f"both {kinds[0]} and {name} say what this is; {kinds[0]} counts"
        stored.findings.append(found(path, "two-kinds", message, key=child(path, name)))
    if kinds and kinds[0] in stored.docs:
        with suppress(FormatError):
            stored.spec = dialect.parse(stored.docs, path)
        if not format_warns or stored.spec is None:
            place = child(path, kinds[0])
            problems = dialect.problems(stored.docs, path)
            findings = [found_at(path, problem.kind, problem.message, place) for problem in problems]
            (stored.findings if stored.spec is None else stored.warnings).extend(findings)
    return stored


def _read(
    store: Store, dialect: MetadataDialect, path: str, name: str, stored: NodeDocuments
) -> dict[str, object] | None:
    """Return a document; None where it is gone, or cannot be read, which is noted in ``stored``."""
    place = child(path, name)
    try:
        size = store.size(place)
        most = LIMITS.consolidated if name == dialect.consolidated_name else LIMITS.size
        if size is not None and size > most:
            message = f"the document has {size} bytes, {most} are allowed"
            raise FormatError(message, problems=[Problem(path, "json-size", message)])
        data = store.get(place)
        if data is None:
            return None
        doc = read_document(data, place)
        with suppress(FormatError):  # what it holds too much of was a finding already
            _, mended = mend_json(data)
            if mended:
                message = f"the document is no JSON: {', '.join(mended)}"
                stored.findings.append(found_at(path, "json-mended", message, place))
        return doc
    except HyperslabError as error:
        kind = error.problems[0].kind if isinstance(error, FormatError) and error.problems else "unreadable-document"
        stored.broken.append(name)
        stored.findings.append(found_at(path, kind, error.message, place))
        return None


_SAYS_NOTHING: dict[str, object] = {"storage_transformers": []}
"""Keys with the value that is as good as none: zarr-python puts them into consolidated metadata alone."""


class ConsolidatedMetadata:
    """The documents of all nodes and the consolidated metadata among them, as they are met from the root on."""

    def __init__(self, dialect: MetadataDialect) -> None:
        self._dialect = dialect
        self._nodes: dict[str, Docs] = {}
        self._broken: set[str] = set()
        self._metadata: dict[str, Mapping[str, Docs]] = {}
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
        if stored.consolidated is None:
            return
        listed = read_consolidated(dialect, stored.consolidated)
        # a document that claims to have consolidated metadata has other keys than one without it
        own = dialect.without_consolidated(stored.consolidated)
        claims = own is None or any(value is not None for name, value in stored.consolidated.items() if name not in own)
        is_array_with_copy = own is not None and claims and stored.spec is not None and stored.spec.is_array
        if listed is not None and not is_array_with_copy:
            self._metadata[path] = listed
        elif claims:
            place = child(path, dialect.consolidated_name)
            message = "the consolidated metadata is damaged, and is not used"
            if is_array_with_copy:
                message = (
                    "the document of an array has consolidated metadata, with which zarr-python 3.1.3 does not open it"
                )
            self._found.append(found_at(path, "damaged-copy", message, place, detail=path, part=LINKS))

    def lost(self, path: str) -> None:
        """Leave a node out of the comparison that has no document that can be read."""
        self._broken.add(path)

    def spare(self, path: str) -> Docs | None:
        """Return the documents of a node as the nearest consolidated metadata has them; None where none has."""
        for holder in sorted(self._metadata, key=len, reverse=True):
            inner = relative(path, holder)
            if is_within(path, holder) and inner in self._metadata[holder]:
                return {
                    name: strip_consolidated(self._dialect, name, doc)
                    for name, doc in self._metadata[holder][inner].items()
                }
        return None

    def compare(self) -> Iterator[Finding]:
        """Yield how consolidated metadata differs from what is stored; it may be all that is left of a document."""
        yield from self._found
        for holder, listed in self._metadata.items():
            place = child(holder, self._dialect.consolidated_name)
            below = {relative(path, holder): path for path in self._nodes if is_within(path, holder) and path != holder}
            for inner, path in below.items():
                if inner not in listed:
                    message = f"consolidated metadata of /{holder} does not know this node"
                    yield found_at(path, "incomplete-copy", message, place, detail=holder, part=LINKS)
                elif path not in self._broken and not self._same(self._nodes[path], listed[inner]):
                    message = f"consolidated metadata of /{holder} has other documents than this node"
                    yield found_at(path, "stale-copy", message, place, detail=holder, part=LINKS)
            for inner in listed:
                path = child(holder, inner) if holder else inner
                if inner and inner not in below and path not in self._broken:
                    message = f"consolidated metadata of /{holder} knows a node that has no document"
                    yield found_at(path, "copy-of-nothing", message, place, detail=holder, part=LINKS)
            if "" in listed and holder in self._nodes and not self._same(self._nodes[holder], listed[""]):
                message = f"consolidated metadata of /{holder} has other documents than the group itself"
                yield found_at(holder, "stale-copy", message, place, detail=holder, part=LINKS)

    def _same(self, stored: Docs, copied: Docs) -> bool:
        """Return True if documents are the same. Empty attributes are as good as none, and a key that need not be
        understood is no difference where only one side has it: zarr-python puts such into that of groups."""
        a, b = self._filled(stored), self._filled(copied)
        return a.keys() == b.keys() and all(_same_document(a[name], b[name]) for name in a)

    def _filled(self, docs: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
        own = {name: strip_consolidated(self._dialect, name, dict(doc)) for name, doc in docs.items()}
        return {name: doc for name, doc in own.items() if doc or name not in self._dialect.extras}


def _same_document(a: Mapping[str, object], b: Mapping[str, object]) -> bool:
    for name in a.keys() ^ b.keys():  # only one side has it: may it as well be missing?
        match (a if name in a else b)[name]:
            case value if name in _SAYS_NOTHING:
                if value != _SAYS_NOTHING[name]:
                    return False
            case {"must_understand": False}:
                continue
            case _:
                return False
    for name in a.keys() & b.keys():
        ours, theirs = ((_without_empty(doc[name]) if name == "codecs" else doc[name]) for doc in (a, b))
        if json.dumps(ours, sort_keys=True) != json.dumps(theirs, sort_keys=True):
            return False
    return True


def _without_empty(value: object) -> object:
    """Return codecs without configurations that say nothing."""
    if isinstance(value, list):
        return [_without_empty(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_empty(part) for key, part in value.items() if (key, part) != ("configuration", {})}
