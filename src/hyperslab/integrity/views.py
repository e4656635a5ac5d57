"""The subjects of rules: a dataset, a node, an array, a name in its folder, a stored chunk, the arrays of a group; and
the state that their mends work with (:class:`RepairState`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.settings import Settings
from hyperslab.errors import NodeNotFound
from hyperslab.formats.base import FormatTraits
from hyperslab.formats.rules import Act, Finding
from hyperslab.formats.zarr.dialect import Docs, MetadataDialect
from hyperslab.formats.zarr.writer import ZarrWriter
from hyperslab.integrity.node_documents import ConsolidatedMetadata, NodeDocuments
from hyperslab.integrity.quarantine import Quarantine
from hyperslab.integrity.stored_chunks import ArrayObjects, ChunkNames, open_objects
from hyperslab.model.paths import outward
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Store

# -- what rules look at -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class DatasetView:
    """A dataset of documents and chunks under keys. ``deep``: every chunk is decoded. ``known_names``: of documents.

    After a survey ``consolidated`` has the consolidated metadata, ``unreadable`` the nodes whose documents make no
    sense, and ``groups`` the paths below which nodes lie. ``format_warns``: the format itself tells of
    what is survived in its documents.
    """

    store: Store
    dialect: MetadataDialect
    settings: Settings
    deep: bool
    known_names: frozenset[str]
    traits: FormatTraits
    format_warns: bool = False
    unreadable: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)

    @cached_property
    def consolidated(self) -> ConsolidatedMetadata:
        """Return the consolidated metadata that was met so far."""
        return ConsolidatedMetadata(self.dialect)


class Role(Enum):
    """The role of a folder of a dataset."""

    GROUP = "a group"
    BARE_GROUP = "a group without a document"
    ARRAY = "an array"
    BARE_ARRAY = "an array without a document"
    UNREADABLE = "a node whose document says nothing"
    FOREIGN = "no part of a dataset"
    EMPTY = "nothing"


@dataclass(eq=False)
class NodeView:
    """A folder that may be a node: the ``names`` and folders (``inner``) right in it, but for ``strays``."""

    dataset: DatasetView
    path: str
    names: Collection[str]
    inner: Collection[str]
    strays: Sequence[Finding]
    stored: NodeDocuments
    role: Role


@dataclass(eq=False)
class ArrayView:
    """An array. Afterwards: the number of objects ``stored`` in place, the largest coordinates of all that are
    stored, in the grid or outside of it (``last``, -1 where there is none), and what was found of its chunks
    (``chunk_findings``)."""

    dataset: DatasetView
    path: str
    objects: ArrayObjects
    stored: int = 0
    last: list[int] = field(default_factory=list)
    chunk_findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.last = [-1] * len(self.objects.grid.axes)

    @cached_property
    def names(self) -> ChunkNames:
        """Return what names of chunks are read by."""
        return ChunkNames(self.objects.keys.key_of, self.objects.grid)


@dataclass(frozen=True, slots=True, eq=False)
class EntryView:
    """A file or folder in an array's folder that is no chunk in its place: its ``name`` there, and its key."""

    array: ArrayView
    name: str
    key: str
    is_folder: bool
    coords: Coords | None


@dataclass(frozen=True, slots=True, eq=False)
class ChunkView:
    """A stored chunk or shard in its place."""

    array: ArrayView
    coords: Coords
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """An array of a group. ``last``: the largest coordinates of its stored objects, in its grid or outside of it, -1
    where none is; empty where nothing is known of them."""

    path: str
    spec: ArraySpec
    last: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Return its name in the group."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, eq=False)
class GroupView:
    """A group and its arrays; ``dataset``: None in a format that keeps them in no store of keys. ``unlimited``: the
    dimensions that the group declares to be so, along which its arrays grow together."""

    dataset: DatasetView | None
    path: str
    members: Sequence[Member]
    unlimited: frozenset[str] = frozenset()


# -- what mends work with ---------------------------------------------------------------------------------------------


@dataclass(eq=False)
class RepairState:
    """One look through a dataset that is to be mended. ``questioned``: arrays whose documents do not describe their
    chunks, of which none is touched; ``resized``: those that will have another shape before their chunks are mended;
    ``renewed``: groups whose consolidated metadata is written anew."""

    dataset: DatasetView
    store: Store
    writer: ZarrWriter
    quarantine: Quarantine
    questioned: set[str] = field(default_factory=set)
    resized: dict[str, ArraySpec] = field(default_factory=dict)
    renewed: set[str] = field(default_factory=set)
    _objects: dict[str, tuple[Docs, ArrayObjects]] = field(default_factory=dict)
    _met: set[tuple[str, str]] = field(default_factory=set)

    # -- documents --------------------------------------------------------------------------------------------------

    def under_lock(self, action: str, act: Act) -> tuple[str, Act]:
        """Return a plan whose deed is done under the lock of the root, which writers of documents hold."""

        def act_under_lock() -> None:
            with self.writer.lock_node(""):
                act()

        return action, act_under_lock

    def spec_now(self, path: str) -> ArraySpec | None:
        """Return the array as its own documents have it at this moment; None when it is none."""
        self.writer.refresh(path)
        spec = self.writer.node(path)
        return spec if spec.is_array else None

    # -- chunks -----------------------------------------------------------------------------------------------------

    @property
    def swaps(self) -> bool:
        """Return True if chunks have no locks and are swapped, as writers do there."""
        return self.store.traits.swaps and not self.store.traits.locks_chunks

    def lease(self) -> AbstractContextManager[None]:
        """Hold, in a bucket, where chunks have no locks, the dataset's lease, as does who makes it anew."""
        return nullcontext() if self.store.traits.locks_chunks else self.writer.lock_node("")

    def objects(self, path: str) -> ArrayObjects:
        """Return the objects of an array as it is described when the mends are planned."""
        if path not in self._objects:
            spec = self.spec_now(path)
            store, dialect = self.store, self.dataset.dialect
            if spec is None:
                raise NodeNotFound("the array is gone", url=store.url, node=path)
            objects = open_objects(store, path, dialect.key_of(spec), spec, self.dataset.settings)
            self._objects[path] = (dialect.render(spec), objects)
        return self._objects[path][1]

    def is_unchanged(self, path: str) -> bool:
        """Return True if an array is described as it was when its mends were planned."""
        now = self.spec_now(path)
        return now is not None and self.dataset.dialect.render(now) == self._objects[path][0]

    def is_met(self, finding: Finding) -> bool:
        """Return True if another finding about the same thing came before."""
        same = (finding.problem.node, finding.key)
        known = same in self._met
        self._met.add(same)
        return known


def without_explained(explaining: Sequence[Finding], findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings that do not come of one of those that explain them."""
    kinds: dict[str, set[str]] = {}
    for each in explaining:
        if each.explains:
            kinds.setdefault(each.key, set()).update(each.explains)
    for finding in findings:
        if not kinds or not any(finding.problem.kind in kinds.get(key, ()) for key in outward(finding.key)):
            yield finding
