"""Reading an HDMF dataset: the nodes that its documents describe, the links beside them, ids and specifications.

Nothing is followed or resolved here. A group and a link of one name cannot both be had: the link counts, since it is
what the writers of the format put there last.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import HyperslabError, NodeNotFound
from hyperslab.formats.base import Format
from hyperslab.formats.hdmf.attribute_names import LINKS, OWN, SPECIFICATIONS
from hyperslab.formats.hdmf.object_ids import id_of, paths_by_id
from hyperslab.formats.hdmf.objects import check_fill
from hyperslab.formats.hdmf.options import HDMFOptions
from hyperslab.formats.hdmf.sources import find_dataset
from hyperslab.formats.hdmf.specifications import Specifications, place_said
from hyperslab.formats.keyed_dataset import KeyedReader
from hyperslab.model.paths import split
from hyperslab.model.refs import Link, Pointer
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Stamp, Store
from hyperslab.stores.location import Location


def links_of(spec: GroupSpec | ArraySpec) -> Mapping[str, Link]:
    """The links of a group by name."""
    links: Mapping[str, Link] = spec.layout.get(OWN, {}).get(LINKS, {})
    return links


class HdmfReader:
    """A dataset open for reading. ``documents`` reads what lies under keys, ``variant`` is the format of its kind."""

    def __init__(self, documents: KeyedReader, where: Location, options: HDMFOptions, variant: Format) -> None:
        self._documents = documents
        self._where = where
        self._options = options
        self._variant = variant
        self._ids: Mapping[str, list[str]] | None = None
        self._place: tuple[str | None] | None = None

    @property
    def store(self) -> Store:
        """The store that the dataset lies in."""
        return self._documents.store

    @property
    def variant(self) -> Format:
        """The format with the features of the dataset's profile."""
        return self._variant

    def close(self) -> None:
        """Let go of the store."""
        self._documents.close()

    def refresh(self, path: str) -> None:
        """Forget what is remembered of a node, and of its group, whose document has the links."""
        self._ids = self._place = None
        self._documents.refresh(path)
        group, name = split(path)
        if name and self._link(path) is not None:
            self._documents.refresh(group)

    def stamp(self, path: str) -> Stamp | None:
        """What identifies the present version of a node's own document, of a link that of its group."""
        return self._documents.stamp(path if self._link(path) is None else split(path)[0])

    # -- the tree ---------------------------------------------------------------------------------------------------

    def node(self, path: str) -> GroupSpec | ArraySpec | Link:
        """What lies at ``path``; a link is given as such. NodeNotFound, or FormatError with every problem."""
        link = self._link(path)
        return self._documents.node(path) if link is None else link

    def _link(self, path: str) -> Link | None:
        """The link that stands at ``path``: its group has it, and need not be whole for others to be read."""
        group, name = split(path)
        if not name:
            return None
        try:
            return links_of(self._documents.node(group)).get(name)
        except HyperslabError:
            return None

    def children(self, path: str) -> Iterable[str]:
        """Names of the nodes right below a group, then those of its links."""
        spec = self.node(path)
        if not isinstance(spec, GroupSpec):
            return []
        names = list(self._documents.children(path))
        if not path and (place := self._specifications_place()) is not None:
            names.append(place.partition("/")[0])
        return list(dict.fromkeys([*names, *links_of(spec)]))

    def chunks(self, path: str) -> ChunkSource:
        """The chunks of an array, by the documents that are stored, whatever consolidated metadata says."""
        if self._link(path) is not None:
            raise NodeNotFound("this is a link, not an array", url=self.store.url, node=path)
        source = self._documents.chunks(path)
        self._check(path, self._documents.node(path))
        return source

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        """The chunks as they are under ``spec``, whatever the documents say."""
        self._check(path, spec)
        return self._documents.chunks_as(path, spec)

    def _check(self, path: str, spec: GroupSpec | ArraySpec) -> None:
        """Look at what else of the document becomes cells: the fill value of rows may be a pickle."""
        if not isinstance(spec, ArraySpec):
            return
        try:
            check_fill(spec)
        except HyperslabError as error:
            raise error.locate(url=self.store.url, node=path) from error.__cause__

    # -- what leads elsewhere ---------------------------------------------------------------------------------------

    def place_of(self, pointer: Pointer) -> Location | None:
        """Return where the dataset is that a pointer leads to, None for this one; BrokenLink or ExternalLinkRefused.

        A warning tells where it is not the place that ``source`` names, at which nothing is.
        """
        found = find_dataset(self._where, pointer, root_id=self._id_of(""), allow=self._options.allow_external)
        if found.instead:
            warnings.warn(f"{self.store.url}: {found.instead}", UserWarning, stacklevel=2)
        return found.place

    def object_ids(self) -> Mapping[str, str]:
        """Return the path of each node that has an ``object_id``, by that; of two the first counts."""
        return {said: paths[0] for said, paths in self._paths_by_id().items()}

    def paths_of(self, object_id: str) -> Sequence[str]:
        """Return the paths of the nodes that call themselves so."""
        return self._paths_by_id().get(object_id, ())

    def _paths_by_id(self) -> Mapping[str, list[str]]:
        if self._ids is None:
            self._ids = paths_by_id(self._documents, self._specifications_place())
        return self._ids

    def _id_of(self, path: str) -> str | None:
        try:
            return id_of(self._documents.node(path))
        except HyperslabError:
            return None

    # -- specifications ---------------------------------------------------------------------------------------------

    def specifications(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Namespace, version (the newest last), source: a schema as JSON values, read when it is taken out."""
        place = self._specifications_place()
        return {} if place is None else Specifications(self._documents, place)

    def _specifications_place(self) -> str | None:
        """The group of the specifications; None where there are none. Consolidated metadata of hdmf-zarr 0.6 knows
        neither the group nor that the root names it: what is stored says so, and is asked once."""
        if self._place is None:
            self._place = (self._find_place(),)
        return self._place[0]

    def _find_place(self) -> str | None:
        root = self._node_or_none("")
        place = place_said(root)
        if root is None:
            return None
        if place is None and SPECIFICATIONS not in self._documents.children(""):
            if "neurodata_type" not in root.attrs:  # then it has a schema
                return None
            place = self._place_stored()
        place = place or SPECIFICATIONS
        return place if isinstance(self._node_or_none(place), GroupSpec) else None

    def _place_stored(self) -> str | None:
        try:
            return place_said(self._documents.stored_node(""))
        except HyperslabError:
            return None

    def _node_or_none(self, path: str) -> GroupSpec | ArraySpec | None:
        try:
            return self._documents.node(path)
        except HyperslabError:
            return None
