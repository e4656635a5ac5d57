"""Writing an HDMF dataset: what is written once and whole, with consolidated metadata that is never stale.

The links of a group are changed by putting, dropping and moving links alone; its attributes leave them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress

from hyperslab.chunks.grid import Grid
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import AlreadyExists, HyperslabError, Invalid, NodeNotFound, Unsupported
from hyperslab.formats.base import Format, Writer
from hyperslab.formats.hdmf.attributes import (
    LAYOUT,
    LINKS,
    SPECIFICATIONS,
    SPECLOC,
    SPECLOC_PATH,
    V2_LINKS,
    V3_LINKS,
    Reference,
)
from hyperslab.formats.hdmf.profile import HdmfOptions, HdmfProfile, replace_attributes, stored_attributes
from hyperslab.formats.hdmf.reader import HdmfReader, is_specification, links_of, specifications_path
from hyperslab.formats.hdmf.reference_ids import (
    CasReferenceChunks,
    ReferenceChunks,
    complete_pointer,
    has_all_ids,
    read_object_id,
    reference_fields,
)
from hyperslab.formats.zarr.commit import DocumentChange
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr.writer import ZarrWriter
from hyperslab.formats.zarr3.document import NAME as V3_NAME
from hyperslab.model.dtypes import VlenString
from hyperslab.model.paths import is_within, normalize, split
from hyperslab.model.refs import Link, Pointer
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location

Spec = GroupSpec | ArraySpec
# Zarr's own format speaks of its other version in messages; here that is the other profile.
_PLAIN = re.compile(r"format zarr([23])")
_IDENTIFYING = frozenset({"neurodata_type", SPECLOC, V2_LINKS, V3_LINKS})
"""Attributes by which a root is known to be one of HDMF."""


class HdmfDocuments(ZarrWriter):
    """The documents and chunks of a dataset open for writing; ``consolidated`` is always true."""

    _is_fresh = False

    def node_or_none(self, path: str) -> Spec | None:
        """Return the node at a path by its documents alone, None where there is none."""
        spec = self._specs.get(path)
        if spec is None:
            docs = self._docs(path)
            spec = None if docs is None else self._parse(path, docs)
        return spec

    def find_object_id(self, path: str) -> str | None:
        """Return the ``object_id`` of a node; None where it has none, or cannot be read."""
        try:
            spec = self.node_or_none(path)
        except HyperslabError:
            return None
        return None if spec is None else read_object_id(spec)

    def _documents_of(self, path: str, spec: Spec) -> Docs:
        docs = super()._documents_of(path, self.complete_ids(spec))
        attributes = stored_attributes(docs)
        if path or spec.is_array or not _IDENTIFYING.isdisjoint(attributes):
            return docs
        # Nothing else marks this root as one of HDMF: an empty list of links does.
        return replace_attributes(docs, {**attributes, V3_LINKS if V3_NAME in docs else V2_LINKS: []})

    def complete_ids(self, spec: Spec) -> Spec:
        """Return the node with all ids of its links and references."""
        references = {
            name: complete_pointer(value, self.find_object_id)
            for name, value in spec.attrs.items()
            if isinstance(value, Reference)
        }
        whole = spec.evolve(attrs={**spec.attrs, **references}) if references else spec
        links = {name: complete_pointer(link, self.find_object_id) for name, link in links_of(spec).items()}
        return _replace_layout(whole, LINKS, links) if whole.is_group and links else whole

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        """Return the chunks of an array as `spec` describes them; references get their ids when they are written."""
        fields = reference_fields(spec.dtype)
        if fields is None or spec.problem is not None or "zarr2" not in spec.layout:
            return super().chunks_as(path, spec)
        try:
            keys = self.keys_of(path, spec)
            source = CasReferenceChunks if keys.uses_compare_and_swap else ReferenceChunks
            return source(keys, spec, Grid.of(spec.shape, spec.chunks), fields, self.find_object_id)
        except HyperslabError as error:
            raise error.locate(url=self.store.url, node=path) from error.__cause__

    def _commit(self, change: DocumentChange) -> None:
        """Commit a change, the first time without consolidated metadata that lacks the specifications."""
        name = self._dialect.consolidated_name
        is_first, self._is_fresh = not self._is_fresh, True
        # Only in Zarr v2, where it stands in a document of its own, there were writers of such.
        if is_first and name not in self._dialect.nodes:
            doc = self._stored("", name)
            copy = None if doc is None else self._dialect.read_consolidated(doc)
            if copy is not None and SPECIFICATIONS not in copy and self._stored_docs(SPECIFICATIONS) is not None:
                self.store.delete(name, durable=self._settings.durable)
        super()._commit(change)


class HdmfWriter(HdmfReader, Writer):
    """A dataset open for writing."""

    def __init__(
        self,
        documents: HdmfDocuments,
        where: Location,
        options: HdmfOptions,
        variant: Format,
        dialect: HdmfProfile,
    ) -> None:
        super().__init__(documents, where, options, variant)
        self._written = documents
        self._dialect = dialect
        self._incomplete: set[str] = set()

    # -- nodes ------------------------------------------------------------------------------------------------------

    def put(self, path: str, spec: Spec | Link) -> None:
        """Make or replace a node or link; missing groups above are made. Ids of links and references are completed."""
        path = normalize(path)
        self._forget_ids()
        group, name = split(path)
        if self._link(group) is not None:
            raise Invalid("a link holds no nodes", url=self.store.url, node=group, remedy="name its target")
        if spec.is_link:
            self._put_link(path, spec)
            return
        # Lock order: the group that loses a link of this name, then the root that names the specifications. All changes
        # are one commit.
        with ExitStack() as locks:
            groups: dict[str, GroupSpec] = {}
            if self._link(path) is not None:
                locks.enter_context(self._written.lock_node(group))
                groups[group] = _without_link(self._group(group), name)
            if is_within(path, SPECIFICATIONS) and path and specifications_path(self._group("")) is None:
                locks.enter_context(self._written.lock_node(""))
                root = groups.get("") or self._group("")
                if specifications_path(root) is None:
                    groups[""] = _replace_layout(root, SPECLOC_PATH, SPECIFICATIONS)
            node = self._schema_array(path, spec) if spec.is_array else self._with_links(path, spec)
            changes = {**groups, path: node}
            # A batch only where there are several: others that use this writer would wait for its end.
            with self._written.batch() if len(changes) > 1 else nullcontext():
                for place, changed in changes.items():
                    self._written.put(place, changed)
        self._remember_incomplete(path)

    def _forget_ids(self) -> None:
        self._ids = self._place = None

    def _schema_array(self, path: str, spec: ArraySpec) -> ArraySpec:
        """Return the array, in place of a text below the specifications the array of a schema."""
        place = specifications_path(self._written.node_or_none("")) or SPECIFICATIONS
        is_text = isinstance(spec.dtype, VlenString) and not spec.shape
        return self._dialect.specification() if is_text and is_specification(path, place) else spec

    def _with_links(self, path: str, spec: GroupSpec) -> GroupSpec:
        """Return the group with its present links and place of the specifications, whatever its layout says."""
        present = self._written.node_or_none(path) or GroupSpec()
        own = {name: part for name, part in spec.layout.get(LAYOUT, {}).items() if name not in (LINKS, SPECLOC_PATH)}
        present_own = present.layout.get(LAYOUT, {})
        kept = {name: present_own[name] for name in (LINKS, SPECLOC_PATH) if name in present_own}
        return spec.evolve(layout={**spec.layout, LAYOUT: {**own, **kept}})

    def _follow_specifications(self, source: str, target: str | None) -> None:
        """Name the specifications in the root where they are, now that `source` was moved or dropped."""
        with self._written.lock_node(""):
            root = self._group("")
            place = specifications_path(root)
            if source and place is not None and is_within(place, source):
                present = None if target is None else target + place[len(source) :]
                self._written.put("", _replace_layout(root, SPECLOC_PATH, present))

    def _group(self, path: str) -> GroupSpec:
        """Return the group at a path, a new one where nothing is; Invalid for an array."""
        spec = self._written.node_or_none(path) or GroupSpec()
        if spec.is_array:
            raise Invalid("an array holds no other nodes", url=self.store.url, node=path)
        return spec

    def drop(self, path: str) -> None:
        """Remove a link, or a node with all below it."""
        path = normalize(path)
        self._forget_ids()
        if self._link(path) is None:
            self._written.drop(path)
            self._follow_specifications(path, None)
            return
        group, name = split(path)
        with self._written.lock_node(group):
            self._written.put(group, _without_link(self._group(group), name))

    def move(self, source: str, target: str) -> bool:
        """Rename a link, or a node with all below it; AlreadyExists when the target is taken."""
        source, target = normalize(source), normalize(target)
        self._forget_ids()
        if self._link(target) is not None:
            raise AlreadyExists("the target of the move is taken", url=self.store.url, node=target)
        link = self._link(source)
        if link is None:
            self._written.move(source, target)
            self._follow_specifications(source, target)
            return True
        with self.batch():
            self._put_link(target, link)
            self.drop(source)
        return True

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return a user's wish as the profile spells it; Unsupported where it cannot be stored."""
        try:
            return self._written.new_array(spec)
        except Unsupported as error:  # of the format below, whose other version is our other profile
            message = _PLAIN.sub(r"format hdmf (profile v\1)", error.message)
            raise Unsupported(message, remedy=_PLAIN.sub(r"profile='v\1'", error.remedy or "") or None) from None

    # -- links ------------------------------------------------------------------------------------------------------

    def _put_link(self, path: str, link: Link) -> None:
        group, name = split(path)
        if not name:
            raise Invalid("the root is no link", url=self.store.url)
        if self._link(path) is None:
            with suppress(NodeNotFound):
                self._written.node(path)
                remedy = "remove it first"
                raise AlreadyExists("a group or array has this name", url=self.store.url, node=path, remedy=remedy)
        with self._written.lock_node(group):
            spec = self._group(group)
            self._written.put(group, _replace_layout(spec, LINKS, {**links_of(spec), name: link}))
        self._remember_incomplete(group)

    # -- batches and locks ------------------------------------------------------------------------------------------

    def _remember_incomplete(self, path: str) -> None:
        """Remember a node with a pointer to a node that has no id yet."""
        spec = self._written.node_or_none(path)
        if spec is not None and not all(map(has_all_ids, _list_pointers(spec))):
            self._incomplete.add(path)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Write each document of the block once, at its end, and consolidated metadata after them."""
        with self._written.batch():
            # A pointer of the block may lead to a node that was put after it: its ids are known only now.
            try:
                yield
            finally:
                self._complete()

    def _complete(self) -> None:
        """Put nodes again whose pointers led to nodes that were not there yet."""
        again, self._incomplete = self._incomplete, set()
        for path in again:
            spec = self._written.node_or_none(path)
            if spec is None or _pointer_ids(self._written.complete_ids(spec)) == _pointer_ids(spec):
                continue
            with self._written.lock_node(path):  # others may have changed it since
                if (present := self._written.node_or_none(path)) is not None:
                    self._written.put(path, present)

    @contextmanager
    def lock_node(self, path: str) -> Iterator[None]:
        """Hold a node's documents against other writers, for a link those of its group."""
        with self._written.lock_node(path if self._link(path) is None else split(path)[0]):
            yield

    def follow(
        self, way: str, *, stored: Collection[str] = (), gone: Collection[str] = (), arrived: Collection[str] = ()
    ) -> AbstractContextManager[None]:
        """Have consolidated metadata follow what another writer makes of nodes below ``way`` in the block."""
        return self._written.follow(way, stored=stored, gone=gone, arrived=arrived)

    def consolidate(self, path: str = "") -> None:
        """Write consolidated metadata of a group (the whole dataset) into it, as it is stored now."""
        self._written.consolidate(path)


def _replace_layout(spec: GroupSpec, name: str, part: object) -> GroupSpec:
    """Return the group with another part of this format's layout."""
    return spec.evolve(layout={**spec.layout, LAYOUT: {**spec.layout.get(LAYOUT, {}), name: part}})


def _without_link(spec: GroupSpec, name: str) -> GroupSpec:
    return _replace_layout(spec, LINKS, {other: link for other, link in links_of(spec).items() if other != name})


def _list_pointers(spec: Spec) -> list[Pointer]:
    """Return the links of a node, and the references among its attributes."""
    return [*links_of(spec).values(), *(value for value in spec.attrs.values() if isinstance(value, Reference))]


def _pointer_ids(spec: Spec) -> list[tuple[str | None, str | None]]:
    """Return the ids of all pointers of a node; pointers compare equal without them."""
    return [(pointer.object_id, pointer.source_object_id) for pointer in _list_pointers(spec)]
