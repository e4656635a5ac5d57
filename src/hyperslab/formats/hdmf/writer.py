"""Writing an HDMF dataset: what is written once and whole, with consolidated metadata that is never stale.

The links of a group are changed by putting, dropping and moving links alone; its attributes leave them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import AlreadyExists, HyperslabError, Invalid, NodeNotFound, Unsupported
from hyperslab.formats.base import Format
from hyperslab.formats.hdmf.attributes import LINKS, OWN, PLACE, SPECIFICATIONS, SPECLOC, V2, V3
from hyperslab.formats.hdmf.profile import HDMFOptions, attributes_of, with_attributes
from hyperslab.formats.hdmf.reader import HdmfReader, is_specification, links_of, place_said
from hyperslab.formats.hdmf.reference_ids import (
    completed,
    completed_attrs,
    completed_chunks,
    is_complete,
    object_id_of,
    reference_fields,
)
from hyperslab.formats.hdmf.v2 import HdmfV2
from hyperslab.formats.hdmf.v3 import HdmfV3
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.commit import Change
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr.writer import KeyedWriter
from hyperslab.formats.zarr3.document import NAME as V3_NAME
from hyperslab.model.dtypes import VlenString
from hyperslab.model.paths import is_within, normalize, split
from hyperslab.model.refs import Link, ObjectReference, Pointer, RegionReference
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location

Spec = GroupSpec | ArraySpec
_PLAIN = re.compile(r"format zarr([23])")
_TELLING = frozenset({"neurodata_type", SPECLOC, V2.links, V3.links})
"""Attributes by which a root is known to be one of HDMF."""


class HdmfDocuments(KeyedWriter):
    """The documents and chunks of a dataset open for writing; ``consolidated`` is always true."""

    _is_fresh = False

    def known(self, path: str) -> Spec | None:
        """The node at a path, None where there is none; nothing is looked for but its documents."""
        spec = self._specs.get(path)
        if spec is None:
            docs = self._docs(path)
            spec = None if docs is None else self._parse(path, docs)
        return spec

    def id_of(self, path: str) -> str | None:
        """What a node calls itself; None where it does not, or cannot be read."""
        try:
            spec = self.known(path)
        except HyperslabError:
            return None
        return None if spec is None else object_id_of(spec)

    def _documents_of(self, path: str, spec: Spec) -> Docs:
        docs = super()._documents_of(path, self.with_ids(spec))
        return docs if path or isinstance(spec, ArraySpec) else _told_apart(docs)

    def with_ids(self, spec: Spec) -> Spec:
        """The node with all ids of its links and references."""
        attrs = completed_attrs(spec.attrs, self.id_of)
        whole = spec if attrs is spec.attrs else spec.evolve(attrs=attrs)
        links = {name: completed(link, self.id_of) for name, link in links_of(spec).items()}
        return with_links(whole, links) if isinstance(whole, GroupSpec) and links else whole

    def put_all(self, changes: Mapping[str, Spec]) -> None:
        """Put nodes by one commit."""
        with self.batch() if len(changes) > 1 else nullcontext():  # which others that use this writer would wait for
            for path, spec in changes.items():
                self.put(path, spec)

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        """The chunks as they are under ``spec``; references get their ids when they are written."""
        fields = reference_fields(spec.dtype)
        if fields is None or spec.problem is not None or "zarr2" not in spec.layout:
            return super().chunks_as(path, spec)
        try:
            keys = ChunkKeys(self._store, path, self._spelling.key_of(spec), self._settings)
            return completed_chunks(keys, spec, fields, self.id_of)
        except HyperslabError as error:
            raise error.locate(url=self._store.url, node=path) from error.__cause__

    def _commit(self, change: Change) -> None:
        """A copy that lacks the specifications, as those of hdmf-zarr 0.6 do, gives way to one of all that is there."""
        if not self._is_fresh:
            self._is_fresh = True
            self._drop_partial_copy()
        super()._commit(change)

    def _drop_partial_copy(self) -> None:
        name = self._spelling.copy_name
        if name in self._spelling.nodes:  # only in Zarr v2 there were writers of such
            return
        doc = self._stored("", name)
        copy = None if doc is None else self._spelling.read_copy(doc)
        if copy is None or SPECIFICATIONS in copy or self._stored_docs(SPECIFICATIONS) is None:
            return
        self._target.delete(name, durable=self._settings.durable)


class HdmfWriter(HdmfReader):
    """A dataset open for writing."""

    def __init__(
        self,
        documents: HdmfDocuments,
        where: Location,
        options: HDMFOptions,
        variant: Format,
        spelling: HdmfV2 | HdmfV3,
    ) -> None:
        super().__init__(documents, where, options, variant)
        self._written = documents
        self._spelling = spelling
        self._incomplete: set[str] = set()

    # -- nodes ------------------------------------------------------------------------------------------------------

    def put(self, path: str, spec: Spec | Link) -> None:
        """Make or replace a node or link; missing groups above are made. Ids of links and references are completed."""
        path = normalize(path)
        self._changed()
        group, name = split(path)
        if self._link(group) is not None:
            raise Invalid("a link holds no nodes", url=self.store.url, node=group, remedy="name its target")
        if isinstance(spec, Link):
            self._put_link(path, spec)
            return
        with ExitStack() as locks:
            changes: dict[str, Spec] = {}
            if self._link(path) is not None:
                locks.enter_context(self._written.lock_node(group))
                changes |= {group: without_link(self._group(group), name)}
            if is_within(path, SPECIFICATIONS) and path and place_said(self._group("")) is None:
                locks.enter_context(self._written.lock_node(""))
                changes |= self._naming_specifications(changes.get(""))
            changes |= {path: self._array(path, spec) if isinstance(spec, ArraySpec) else self._with_layout(path, spec)}
            self._written.put_all(changes)
        self._note(path)

    def _changed(self) -> None:
        self._ids = self._place = None

    def _array(self, path: str, spec: ArraySpec) -> ArraySpec:
        """The array, as schemas are kept where it is the text of one."""
        place = place_said(self._written.known("")) or SPECIFICATIONS
        is_text = isinstance(spec.dtype, VlenString) and not spec.shape
        return self._spelling.specification() if is_text and is_specification(path, place) else spec

    def _with_layout(self, path: str, spec: GroupSpec) -> GroupSpec:
        """The group with the links and the place of the specifications that it has, whatever its layout says."""
        now = self._written.known(path)
        own = {} if now is None else now.layout.get(OWN, {})
        kept = {name: own[name] for name in (LINKS, PLACE) if name in own}
        said = {name: value for name, value in spec.layout.get(OWN, {}).items() if name not in (LINKS, PLACE)}
        return spec.evolve(layout={**spec.layout, OWN: {**said, **kept}})

    def _naming_specifications(self, changed: Spec | None) -> dict[str, Spec]:
        """The root, which may be one that is about to change, with the place of the specifications, where it did not
        name it yet."""
        root = changed if isinstance(changed, GroupSpec) else self._group("")
        return {} if place_said(root) is not None else {"": with_place(root, SPECIFICATIONS)}

    def _follow_specifications(self, source: str, target: str | None) -> None:
        """The root names them where they are now that ``source`` was moved or dropped."""
        with self._written.lock_node(""):
            root = self._group("")
            place = place_said(root)
            if source and place is not None and is_within(place, source):
                self._written.put("", with_place(root, None if target is None else target + place[len(source) :]))

    def _group(self, path: str) -> GroupSpec:
        """A group as it is now, or is made."""
        spec = self._written.known(path) or GroupSpec()
        if isinstance(spec, ArraySpec):
            raise Invalid("an array holds no other nodes", url=self.store.url, node=path)
        return spec

    def drop(self, path: str) -> None:
        """Remove a link, or a node with all below it."""
        path = normalize(path)
        self._changed()
        if self._link(path) is None:
            self._written.drop(path)
            self._follow_specifications(path, None)
            return
        group, name = split(path)
        with self._written.lock_node(group):
            self._written.put(group, without_link(self._group(group), name))

    def move(self, source: str, target: str) -> None:
        """Rename a link, or a node with all below it; AlreadyExists when the target is taken."""
        source, target = normalize(source), normalize(target)
        self._changed()
        if self._link(target) is not None:
            raise AlreadyExists("the target of the move is taken", url=self.store.url, node=target)
        link = self._link(source)
        if link is None:
            self._written.move(source, target)
            self._follow_specifications(source, target)
            return
        with self.batch():
            self._put_link(target, link)
            self.drop(source)

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """A user's wish in the spelling of the profile, or Unsupported."""
        try:
            return self._written.new_array(spec)
        except Unsupported as error:  # said by the format below, whose other version is our other profile
            message = _PLAIN.sub(r"format hdmf (profile v\1)", error.message)
            raise Unsupported(message, remedy=_PLAIN.sub(r"profile='v\1'", error.remedy or "") or None) from None

    # -- links ------------------------------------------------------------------------------------------------------

    def _put_link(self, path: str, link: Link) -> None:
        group, name = split(path)
        if not name:
            raise Invalid("the root is no link", url=self.store.url)
        if self._link(path) is None and self._is_there(path):
            remedy = "remove it first"
            raise AlreadyExists("a group or array has this name", url=self.store.url, node=path, remedy=remedy)
        with self._written.lock_node(group):
            spec = self._group(group)
            self._written.put(group, with_links(spec, {**links_of(spec), name: link}))
        self._note(group)

    def _is_there(self, path: str) -> bool:
        try:
            self._written.node(path)
        except NodeNotFound:
            return False
        return True

    # -- batches and locks ------------------------------------------------------------------------------------------

    def _note(self, path: str) -> None:
        """Remember a node that points at what has no id yet."""
        spec = self._written.known(path)
        if spec is not None and not all(map(is_complete, pointers(spec))):
            self._incomplete.add(path)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Each document of the block is written once, at its end, and consolidated metadata after them."""
        with self._written.batch():
            try:
                yield
            finally:
                self._complete()

    def _complete(self) -> None:
        """Put what pointed at nodes that were not there yet once more."""
        again, self._incomplete = self._incomplete, set()
        for path in again:
            if self._has_new_ids(path):
                with self._written.lock_node(path):  # others may have changed it since
                    spec = self._written.known(path)
                    if spec is not None:
                        self._written.put(path, spec)

    def _has_new_ids(self, path: str) -> bool:
        spec = self._written.known(path)
        return spec is not None and ids_in(self._written.with_ids(spec)) != ids_in(spec)

    @contextmanager
    def lock_node(self, path: str) -> Iterator[None]:
        """Hold a node's documents against other writers, for a link those of its group."""
        with self._written.lock_node(path if self._link(path) is None else split(path)[0]):
            yield

    def consolidate(self, path: str = "") -> None:
        """Write consolidated metadata of a group (the whole dataset) into it, as it is stored now."""
        self._written.consolidate(path)


def with_links(spec: GroupSpec, links: Mapping[str, Link]) -> GroupSpec:
    """The group with these links."""
    return _with_own(spec, LINKS, links)


def with_place(root: GroupSpec, place: str | None) -> GroupSpec:
    """The root that names this group as the one of the specifications."""
    return _with_own(root, PLACE, place)


def _with_own(spec: GroupSpec, name: str, said: Any) -> GroupSpec:
    return spec.evolve(layout={**spec.layout, OWN: {**spec.layout.get(OWN, {}), name: said}})


def without_link(spec: GroupSpec, name: str) -> GroupSpec:
    """The group without one link."""
    return with_links(spec, {other: link for other, link in links_of(spec).items() if other != name})


def pointers(spec: Spec) -> list[Pointer]:
    """The links of a node, and the references among its attributes."""
    values = (value for value in spec.attrs.values() if isinstance(value, ObjectReference | RegionReference))
    return [*links_of(spec).values(), *values]


def ids_in(spec: Spec) -> list[tuple[str | None, str | None]]:
    """What the pointers of a node know of their targets, which is no part of their being equal."""
    return [(pointer.object_id, pointer.source_object_id) for pointer in pointers(spec)]


def _told_apart(docs: Docs) -> Docs:
    """The documents of a root, with an empty list of links where nothing else tells that it is one of HDMF."""
    attributes = attributes_of(docs)
    if not _TELLING.isdisjoint(attributes):
        return docs
    words = V3 if V3_NAME in docs else V2
    return with_attributes(docs, {**attributes, words.links: []})
