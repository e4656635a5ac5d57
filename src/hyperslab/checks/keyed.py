"""A dataset of documents and chunks under keys, looked through from the root: every folder, document and chunk."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from hyperslab.checks.array_folder import CheckedFolder, holds_any
from hyperslab.checks.chunk_names import looks_like_chunks
from hyperslab.checks.copies import Copies
from hyperslab.checks.dimensions import Member, examine_coordinates, examine_dimensions
from hyperslab.checks.documents import NodeDocuments, read_stored
from hyperslab.checks.findings import Finding, found
from hyperslab.checks.opening import open_objects
from hyperslab.checks.unexpected_nodes import strange
from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError, StorageError
from hyperslab.formats import FORMATS, get_format
from hyperslab.formats.base import Remedy, Repairs
from hyperslab.formats.zarr.dialect import FormatOfDocuments, MetadataDialect
from hyperslab.formats.zarr.reader import ZarrReader, holds_nodes
from hyperslab.model.paths import child, is_within
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Store

_DEEPEST = 100


@dataclass
class Walk:
    """One look through a dataset. ``deep``: every chunk is decoded. ``own``: knows what documents say of one another.

    Afterwards ``copies`` has the consolidated metadata, ``unreadable`` the nodes whose documents make no sense, and
    ``groups`` the paths below which nodes lie.
    """

    store: Store
    dialect: MetadataDialect
    settings: Settings
    deep: bool
    own: ZarrReader | None = None
    findings: list[Finding] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.copies = Copies(self.dialect)
        self._told = False

    def run(self) -> list[Finding]:
        """Every finding, in the order of the nodes."""
        self._known = known_names(self.dialect)
        own = list(self._own_findings())
        self._node("", 0)
        self.findings += self.copies.compare()
        self.findings = [
            *own,
            *(finding for finding in self.findings if not any(_settles(one, finding) for one in own)),
        ]
        return sorted(self.findings, key=lambda finding: finding.order)

    def _own_findings(self) -> Iterator[Finding]:
        """What the format itself finds, where the root can be read."""
        if not isinstance(self.own, Repairs):
            return
        try:
            self.own.node("")
        except HyperslabError:
            return
        self._told = True
        for remedy in self.own.remedies(deep=self.deep, workers=self.settings.threads):
            problem = remedy.problem
            place = remedy.at or problem.node
            yield found(problem.node, problem.kind, problem.message, key=place, means=remedy, sound=remedy.sound)

    def _node(self, path: str, depth: int) -> Member | None:
        """Look at what lies at ``path`` and below; what its group needs to know of an array."""
        try:
            names, inner = self.store.list_dir(path)
            strays = list(strange(self.store, path, path))
        except StorageError as error:
            self.findings.append(found(path, "unreadable-folder", error.said, key=path))
            return None
        aside = {stray.key for stray in strays}
        stored = read_stored(self.store, self.dialect, path, names, told=self._told)
        self.findings += stored.findings
        self.copies.add(path, stored)
        if isinstance(stored.spec, ArraySpec):
            return self._array(path, stored.spec)
        self.findings += strays
        names = [name for name in names if child(path, name) not in aside]
        inner = [name for name in inner if child(path, name) not in aside]
        if stored.spec is None:
            self._without_spec(path, stored, names, inner, depth)
        else:
            self._group(path, names, inner, depth)
        return None

    # -- groups -----------------------------------------------------------------------------------------------------

    def _group(self, path: str, names: Collection[str], inner: Collection[str], depth: int) -> None:
        self._foreign(path, names)
        self.groups.add(path)
        members = []
        for name in inner:
            if depth >= _DEEPEST:
                message = f"groups lie more than {_DEEPEST} deep; what is below is not looked at"
                self.findings.append(found(child(path, name), "too-deep", message, key=child(path, name)))
                continue
            member = self._node(child(path, name), depth + 1)
            if member is not None:
                members.append(member)
        if not self._told and self.dialect.format != "hdmf":  # whose names of dimensions bind no two arrays
            self.findings += examine_dimensions(path, members)
        if self.deep:
            self.findings += examine_coordinates(self.store, self.dialect, members, self.settings)

    def _foreign(self, path: str, names: Collection[str]) -> None:
        for name in names:
            if name not in self._known:
                place = child(path, name)
                self.findings.append(found(path, "foreign", f"{name} is no part of a group [key={place}]", key=place))

    def _without_spec(
        self, path: str, stored: NodeDocuments, names: Collection[str], inner: Collection[str], depth: int
    ) -> None:
        """A folder whose documents are missing or say nothing: what it seems to be."""
        nodes = [name for name in inner if self._holds_nodes(child(path, name))]
        said = any(name in self.dialect.nodes for name in (*stored.docs, *stored.broken))
        if said:
            self.unreadable.add(path)
            self.copies.lost(path)
        if nodes or (not path and not said):
            if not said:
                self._missing(path, f"the group has no document ({' or '.join(self.dialect.nodes)})")
            self._group(path, names, nodes if said else inner, depth)
        elif said or stored.broken:
            return
        elif stored.is_node or looks_like_chunks(names, inner):
            wanted = self.dialect.nodes[0]
            self._missing(path, f"chunks or attributes lie here, but no {wanted} says of what array")
        elif holds_any(self.store, path):
            message = f"the folder is no part of a dataset [key={path}]"
            self.findings.append(found(path, "foreign", message, key=path))

    def _holds_nodes(self, path: str) -> bool:
        try:
            names, _ = self.store.list_dir(path)
            return not set(self.dialect.nodes).isdisjoint(names) or holds_nodes(self.store, path, self.dialect.nodes)
        except StorageError:
            return False

    def _missing(self, path: str, message: str) -> None:
        self.copies.lost(path)
        self.findings.append(found(path, "missing-document", message, key=path))

    # -- arrays -----------------------------------------------------------------------------------------------------

    def _array(self, path: str, spec: ArraySpec) -> Member | None:
        if spec.problem is not None:  # said of its documents
            self.copies.lost(path)
            return Member(path, spec)
        try:
            objects = open_objects(self.store, path, self.dialect.key_of(spec), spec, self.settings)
        except HyperslabError as error:
            self.findings.append(found(path, "not-decoded", error.said))
            return Member(path, spec)
        folder = CheckedFolder(self.store, path, objects, self._known, deep=self.deep)
        self.findings += folder.examine()
        return Member(path, spec, objects.grid, tuple(folder.last))


def _settles(own: Finding, finding: Finding) -> bool:
    """Return whether what the format found is why this was found."""
    remedy: Remedy = own.means
    return finding.problem.kind in remedy.settles and is_within(finding.key, remedy.at)


def known_names(dialect: MetadataDialect) -> frozenset[str]:
    """The names of all documents of datasets under keys: those of another format beside ours are left alone."""
    formats = (get_format(name) for name in FORMATS)
    spellings = [dialect, *(format.metadata_dialect for format in formats if isinstance(format, FormatOfDocuments))]
    return frozenset(name for one in spellings for name in (*one.nodes, *one.extras, one.consolidated_name))
