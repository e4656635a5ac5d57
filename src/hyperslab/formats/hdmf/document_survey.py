"""One look at a dataset of HDMF as it is stored, whatever consolidated metadata says, and what pointers lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from hyperslab.chunks.settings import Settings
from hyperslab.errors import BrokenLink, HyperslabError
from hyperslab.formats.hdmf.attributes import SPECIFICATIONS
from hyperslab.formats.hdmf.link_sources import Allowed, DatasetLocation, find_dataset
from hyperslab.formats.hdmf.profile import HdmfProfile
from hyperslab.formats.hdmf.reader import links_of, specifications_path
from hyperslab.formats.hdmf.reference_ids import read_object_id
from hyperslab.formats.hdmf.v2 import HdmfV2
from hyperslab.formats.hdmf.v3 import HdmfV3
from hyperslab.formats.zarr.dialect import ConsolidatedDocs, Docs, strip_consolidated
from hyperslab.formats.zarr.node_search import NodeSearch
from hyperslab.formats.zarr.reader import ZarrReader
from hyperslab.formats.zarr.rules import DocumentSurvey
from hyperslab.model.paths import child, is_within, join
from hyperslab.model.refs import HOPS, Link, Pointer, path_within
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store
from hyperslab.stores.location import Location

# The walk through the groups is recursive, so its depth is bounded well below that of Python's stack.
_DEEPEST = 100
Spec = GroupSpec | ArraySpec


class LinkLoop(BrokenLink):
    """Links that lead to one another without an end."""


class HdmfSurvey(DocumentSurvey):
    """Documents and specs by path, each read when it is first needed. ``others``: the datasets that links lead to."""

    def __init__(
        self, store: Store, profile: HdmfProfile, settings: Settings, where: Location, others: OtherDatasets
    ) -> None:
        self.store = store
        self.profile = profile
        self.settings = settings
        self.where = where
        self._others = others
        self.documents = _StoredDocuments(store, profile, settings)
        self._docs: dict[str, Docs] = {}
        self._specs: dict[str, Spec | None] = {}

    # -- nodes ------------------------------------------------------------------------------------------------------

    def docs(self, path: str) -> Docs:
        """Return the documents of a node without consolidated metadata; ``{}`` where none can be read."""
        if path not in self._docs:
            self._docs[path] = {}
            with suppress(HyperslabError):
                self._docs[path] = self.documents.stored_documents(path) or {}
        return self._docs[path]

    def spec(self, path: str) -> Spec | None:
        """Return a node; None where its documents cannot be read, or there are none."""
        if path not in self._specs:
            docs = self.docs(path)
            if path:
                self.spec("")  # which says where the specifications are
            self._specs[path] = None
            with suppress(HyperslabError):
                self._specs[path] = self.profile.parse(docs, path) if docs else None
        return self._specs[path]

    def as_understood(self, path: str) -> tuple[Docs | None, set[str]]:
        try:
            docs = self.profile.render(self.profile.parse(self.docs(path), path))
            return docs, {problem.kind for problem in self.profile.problems(docs, path)}
        except HyperslabError:
            return None, set()

    def has(self, path: str) -> bool:
        """Return True if a node is there, be it damaged."""
        names = self.profile.nodes
        with suppress(HyperslabError):
            if any(self.store.get(child(path, name)) is not None for name in names):
                return True
            return NodeSearch.of(self.store, names).holds_nodes(path)
        return False

    @cached_property
    def consolidated(self) -> ConsolidatedDocs:
        """Return the documents in consolidated metadata by path; ``{}`` where none can be read."""
        with suppress(HyperslabError):
            return self.documents.consolidated_documents()
        return {}

    def links(self, path: str) -> Mapping[str, Link]:
        """Return the links of a group by name."""
        spec = self.spec(path)
        return {} if spec is None else links_of(spec)

    @cached_property
    def specs(self) -> Mapping[str, Spec]:
        """Return all readable nodes by path, groups before what is in them."""
        return dict(self._walk("", 0))

    def _walk(self, path: str, depth: int) -> Iterator[tuple[str, Spec]]:
        spec = self.spec(path)
        if spec is not None:
            yield path, spec
        if isinstance(spec, ArraySpec) or depth > _DEEPEST:
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
        """Return the paths of the nodes with an ``object_id``, by it; the specifications have none."""
        found: dict[str, list[str]] = {}
        for path, spec in self.specs.items():
            object_id = read_object_id(spec)
            if object_id is not None and not self.is_specification(path):
                found.setdefault(object_id, []).append(path)
        return found

    def object_id_at(self, path: str) -> str | None:
        """Return the ``object_id`` of a node."""
        spec = self.spec(path)
        return None if spec is None else read_object_id(spec)

    @property
    def specifications(self) -> str:
        """Return the path of the group of the specifications, whether it exists or not."""
        return specifications_path(self.spec("")) or SPECIFICATIONS

    def is_specification(self, path: str) -> bool:
        """Return True if a path is the group of the specifications or below it."""
        return is_within(path, self.specifications)

    # -- where pointers lead -------------------------------------------------------------------------------------------

    def resolve_pointer(self, pointer: Pointer) -> tuple[HdmfSurvey, DatasetLocation]:
        """Return the dataset that a pointer leads to, and how it was found; BrokenLink or ExternalLinkRefused."""
        found = find_dataset(self.where, pointer, root_id=self.object_id_at(""), allow=self._others.allow)
        return (self if found.place is None else self._others.at(found.place)), found

    def find(self, path: str, hops: list[Pointer]) -> tuple[HdmfSurvey, str] | None:
        """Follow the links of `path`, which are added to `hops`; return the dataset and the path that it stands for.

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
                dataset, _ = self.resolve_pointer(link)
                return dataset.find(join(path_within(link), "/".join(parts[number + 1 :])), hops)
            here = child(here, name)
            if not self.docs(here) and not self.has(here):
                return None  # a long path that leads to nothing is not walked to its end
        return (self, here) if self.has(here) else None


class _StoredDocuments(ZarrReader):
    """Documents as they are stored."""

    def stored_documents(self, path: str) -> Docs | None:
        """Return the stored documents of a node, without what they say of others."""
        docs = self._stored_docs(path)
        if docs is None:
            return None
        return {name: strip_consolidated(self._dialect, name, doc) for name, doc in docs.items()}

    def consolidated_documents(self) -> ConsolidatedDocs:
        """Return the documents of all nodes in consolidated metadata, without what they say of others."""
        doc = self._stored("", self._dialect.consolidated_name)
        return (None if doc is None else self._dialect.read_consolidated(doc)) or {}


@dataclass
class OtherDatasets:
    """Datasets that links lead to, each opened once for reading and all closed together.

    ``allow``: places that links may lead to besides."""

    settings: Settings
    allow: Allowed = ()
    _surveys: dict[str, HdmfSurvey] = field(default_factory=dict)

    def at(self, place: Location) -> HdmfSurvey:
        """Return the dataset at a place."""
        if place.url not in self._surveys:
            store = place.store(read_only=True)
            profile: HdmfProfile = HdmfV2() if store.get("zarr.json") is None else HdmfV3()
            self._surveys[place.url] = HdmfSurvey(store, profile, self.settings, place, self)
        return self._surveys[place.url]

    def close(self) -> None:
        """Close the stores of all of them."""
        for survey in self._surveys.values():
            survey.store.close()
        self._surveys.clear()
