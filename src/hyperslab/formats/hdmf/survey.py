"""One look at a dataset of HDMF as it is stored, whatever consolidated metadata says, and what pointers lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from hyperslab.chunks.settings import Settings
from hyperslab.errors import BrokenLink, HyperslabError
from hyperslab.formats.hdmf.attributes import SPECIFICATIONS
from hyperslab.formats.hdmf.link_sources import Allowed, PointedPlace, find_dataset
from hyperslab.formats.hdmf.profile import HDMFOptions
from hyperslab.formats.hdmf.reader import links_of, place_said
from hyperslab.formats.hdmf.reference_ids import object_id_of
from hyperslab.formats.hdmf.v2 import HdmfV2
from hyperslab.formats.hdmf.v3 import HdmfV3
from hyperslab.formats.zarr.dialect import Copy, Docs, own_document
from hyperslab.formats.zarr.reader import KeyedReader, holds_nodes
from hyperslab.model.paths import child, is_within, join
from hyperslab.model.refs import HOPS, Link, Pointer, path_within
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store
from hyperslab.stores.location import Location

DEEPEST = 100
Spec = GroupSpec | ArraySpec
Profiled = HdmfV2 | HdmfV3


class LinkLoop(BrokenLink):
    """Links that lead to one another without an end."""


class HDMFSurvey:
    """Documents and specs by path, read when they are asked for, with ``others``: the datasets that links lead to."""

    def __init__(self, store: Store, profile: Profiled, settings: Settings, where: Location, others: Others) -> None:
        self.store = store
        self.profile = profile
        self.settings = settings
        self.where = where
        self._others = others
        self.documents = _Stored(store, profile, settings)
        self._docs: dict[str, Docs] = {}
        self._specs: dict[str, Spec | None] = {}

    # -- nodes ------------------------------------------------------------------------------------------------------

    def docs(self, path: str) -> Docs:
        """The documents of a node without a copy of others; none where there are none that can be read."""
        if path not in self._docs:
            found: Docs | None = None
            with suppress(HyperslabError):
                found = self.documents.stored_documents(path)
            self._docs[path] = found or {}
        return self._docs[path]

    def spec(self, path: str) -> Spec | None:
        """What they say; None where they cannot be read, or there are none."""
        if path not in self._specs:
            self._specs[path] = self._parsed(path)
        return self._specs[path]

    def _parsed(self, path: str) -> Spec | None:
        docs = self.docs(path)
        if path:
            self.spec("")  # which says where the specifications are
        try:
            return self.profile.parse(docs, path) if docs else None
        except HyperslabError:
            return None

    def has(self, path: str) -> bool:
        """Return whether a node is there, be it damaged."""
        names = self.profile.nodes
        with suppress(HyperslabError):
            return any(self.store.get(child(path, name)) is not None for name in names) or holds_nodes(
                self.store, path, names
            )
        return False

    @cached_property
    def copy(self) -> Copy:
        """What consolidated metadata says; nothing where there is none that can be read."""
        with suppress(HyperslabError):
            return self.documents.copied_documents()
        return {}

    def links(self, path: str) -> Mapping[str, Link]:
        """The links of a group by name."""
        spec = self.spec(path)
        return {} if spec is None else links_of(spec)

    @cached_property
    def specs(self) -> Mapping[str, Spec]:
        """All nodes that can be read by path, groups before what is in them."""
        return dict(self._walk("", 0))

    def _walk(self, path: str, depth: int) -> Iterator[tuple[str, Spec]]:
        spec = self.spec(path)
        if spec is not None:
            yield path, spec
        if isinstance(spec, ArraySpec) or depth > DEEPEST:
            return
        try:
            names = self.store.list_dir(path)[1]
        except HyperslabError:
            return
        for name in names:
            below = child(path, name)
            if self.docs(below) or (spec is not None and self.has(below)):
                yield from self._walk(below, depth + 1)

    # -- what nodes call themselves -----------------------------------------------------------------------------------

    @cached_property
    def ids(self) -> Mapping[str, list[str]]:
        """The paths of the nodes with an ``object_id``, by that; the specifications have none."""
        found: dict[str, list[str]] = {}
        for path, spec in self.specs.items():
            said = object_id_of(spec)
            if said is not None and not self.is_specification(path):
                found.setdefault(said, []).append(path)
        return found

    def id_of(self, path: str) -> str | None:
        """What a node calls itself."""
        spec = self.spec(path)
        return None if spec is None else object_id_of(spec)

    @property
    def specifications(self) -> str:
        """The path of their group, where there is one."""
        return place_said(self.spec("")) or SPECIFICATIONS

    def is_specification(self, path: str) -> bool:
        """Return whether a path is their group or below it."""
        return is_within(path, self.specifications)

    # -- where pointers lead -------------------------------------------------------------------------------------------

    def dataset_of(self, pointer: Pointer) -> HDMFSurvey:
        """The dataset that a pointer of this one leads to; BrokenLink or ExternalLinkRefused."""
        return self.found_by(pointer)[0]

    def found_by(self, pointer: Pointer) -> tuple[HDMFSurvey, PointedPlace]:
        """Return the same, with how it was found."""
        found = find_dataset(self.where, pointer, root_id=self.id_of(""), allow=self._others.allow)
        return (self if found.place is None else self._others.at(found.place)), found

    def find(self, path: str, hops: list[Pointer]) -> tuple[HDMFSurvey, str] | None:
        """The dataset and the path that ``path`` stands for, with the links on the way followed and added to ``hops``.

        None where nothing is; LinkLoop, or the error of the link that cannot be followed.
        """
        parts = path.split("/") if path else []
        here = ""
        for number, name in enumerate(parts):
            link = self.links(here).get(name)
            if link is not None:
                hops.append(link)
                if len(hops) > HOPS:
                    raise LinkLoop(f"more than {HOPS} links lead to one another")
                return self.dataset_of(link).find(join(path_within(link), "/".join(parts[number + 1 :])), hops)
            here = child(here, name)
            if not self.docs(here) and not self.has(here):
                return None  # a long path that leads to nothing is not walked to its end
        return (self, here) if self.has(here) else None


class _Stored(KeyedReader):
    """Documents as they are stored."""

    def stored_documents(self, path: str) -> Docs | None:
        """Those of a node, without what they say of others."""
        docs = self._stored_docs(path)
        return None if docs is None else {name: own_document(self._spelling, name, doc) for name, doc in docs.items()}

    def copied_documents(self) -> Copy:
        """Those of all nodes in consolidated metadata, without what they say of others."""
        doc = self._stored("", self._spelling.copy_name)
        return (None if doc is None else self._spelling.read_copy(doc)) or {}


@dataclass
class Others:
    """The datasets beside one, each opened once for reading; those that are open are closed together.

    ``allow``: places that links may lead to besides."""

    settings: Settings
    allow: Allowed = ()
    _known: dict[str, HDMFSurvey] = field(default_factory=dict)

    def at(self, place: Location) -> HDMFSurvey:
        """The one at a place."""
        if place.url not in self._known:
            store = place.store(read_only=True)
            version_3 = store.get("zarr.json") is not None
            profile: Profiled = HdmfV3(HDMFOptions(profile="v3")) if version_3 else HdmfV2(HDMFOptions())
            self._known[place.url] = HDMFSurvey(store, profile, self.settings, place, self)
        return self._known[place.url]

    def close(self) -> None:
        """Let go of their stores."""
        for survey in self._known.values():
            survey.store.close()
        self._known.clear()
