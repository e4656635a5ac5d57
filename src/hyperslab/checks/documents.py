"""The documents of one node as they are stored, and everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hyperslab.checks.findings import Finding, found
from hyperslab.errors import FormatError, HyperslabError, Problem
from hyperslab.formats.documents import LIMITS, mend_json, read_document
from hyperslab.formats.zarr.dialect import Docs, MetadataDialect
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Size, Store


@dataclass(slots=True)
class NodeDocuments:
    """A node's documents: those that could be read, the names of those that could not, the spec that they make."""

    docs: Docs = field(default_factory=dict)
    copy: dict[str, Any] | None = None
    broken: list[str] = field(default_factory=list)
    spec: GroupSpec | ArraySpec | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_node(self) -> bool:
        """Return whether a document says what this is, be it damaged."""
        return bool(self.docs) or bool(self.broken)


def read_stored(
    store: Store, dialect: MetadataDialect, path: str, names: Collection[str], *, told: bool = False
) -> NodeDocuments:
    """The documents among ``names``, which are what lies right in the node's folder. ``told``: what is survived while
    they are parsed is said elsewhere."""
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
        _parse(stored, dialect, path, told=told)
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


def _read(store: Store, dialect: MetadataDialect, path: str, name: str, stored: NodeDocuments) -> dict[str, Any] | None:
    place = child(path, name)
    try:
        size = store.size(place) if isinstance(store, Size) else None
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


def _parse(stored: NodeDocuments, dialect: MetadataDialect, path: str, *, told: bool) -> None:
    """The spec, and every defect of the documents."""
    place = child(path, next(iter(name for name in dialect.nodes if name in stored.docs)))
    with suppress(FormatError):
        stored.spec = dialect.parse(stored.docs, path)
    if told and stored.spec is not None:
        return
    for problem in dialect.problems(stored.docs, path):
        stored.findings.append(found(path, problem.kind, f"{problem.message} [key={place}]", key=place))
