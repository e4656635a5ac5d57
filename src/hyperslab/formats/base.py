"""What a format is: a name, what it can hold, how it is recognised, and a Reader or Writer of its documents.

Three abstract classes. A subclass has the few abstract methods; every other method has a default that is right for a
format without that ability ("no locks", "nothing omitted"), so that the floors above call it and need not ask first.
What they branch on besides is data: the ``features`` and ``traits`` of a format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cache, partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hyperslab.chunks.auto import auto_chunks
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import Invalid, NodeNotFound, Problem, Unsupported
from hyperslab.model.paths import child
from hyperslab.model.refs import Pointer
from hyperslab.model.spec import ArraySpec, Node
from hyperslab.stores.base import Store
from hyperslab.stores.location import Location, Probe

if TYPE_CHECKING:
    from hyperslab.formats.rules import Finding

# -- what formats can hold: declared once per format and variant -------------------------------------------------------


class Feature(StrEnum):
    """One thing that a format can hold. ``convert`` reads it to name losses, ``check`` to know what may be there."""

    GROUPS = "groups"
    ARRAYS = "several arrays"
    DIMENSIONS = "dimension names"
    UNLIMITED = "unlimited dimensions"
    ATTRIBUTES = "attributes"
    TYPED_ATTRIBUTES = "attribute dtypes"
    STRINGS = "variable-length strings"
    VLEN = "variable-length arrays"
    STRUCTURED = "structured types"
    SUBARRAYS = "sub-array fields"
    USER_TYPES = "named types (enum, opaque, compound)"
    CHAR = "char"
    COMPLEX = "complex numbers"
    BOOLEAN = "booleans"
    DATETIME = "datetime64 and timedelta64"
    FLOAT16 = "float16"
    UNICODE = "fixed-length unicode"
    FIXED_BYTES = "fixed-length bytes"
    BIG_ENDIAN = "big-endian cells"
    SCALARS = "0-d arrays"
    CHUNKS = "chunks"
    VARYING_CHUNKS = "varying chunk sizes"
    SHARDS = "shards"
    CODECS = "codecs"
    CHECKSUMS = "checksums"
    LINKS = "links"
    REFERENCES = "references"
    SPARSE = "sparse arrays"
    LABELS = "labels of dimensions"
    UNITS = "units"


@dataclass(frozen=True, slots=True)
class Variant:
    """A way in which a format is written, which ``options`` of ``create`` and ``convert`` ask for.

    ``notes``: why it lacks a feature, or how it has it, where that does not go without saying.
    """

    name: str
    features: frozenset[Feature] = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[Feature, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "notes", {feature: self.notes[feature] for feature in Feature if feature in self.notes}
        )


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """One line of ``list_formats``. ``variants``: the first one is what a new dataset becomes."""

    name: str
    holds: str
    recognised_by: str
    writable: bool
    variants: tuple[Variant, ...] = ()


@dataclass(frozen=True, slots=True)
class FormatTraits:
    """What the floors above take into account of a format, beside what it can hold (``features``)."""

    suffixes: tuple[str, ...] = ()
    """Ends of the names of a third party's new datasets, such as ``.npys``."""
    in_database: bool = False
    """``is_taken``, ``new_array``: its datasets lie in no store of keys; the format itself tells what is at a place and
    what becomes of a new array."""
    has_collections: bool = False
    """A dataset is a root of collections of arrays that stand for themselves."""
    keeps_versions: bool = False
    """``opening.check_moment``: a dataset is read as it was at the ``moment`` of its place."""
    keeps_consolidated: bool = False
    """``api.add_consolidated``: a dataset that is made whole ends with consolidated metadata."""
    dimension_scope: Literal["group", "dataset"] | None = None
    """``dimension_suffix.add_suffix``: where a name of a dimension has one length, in a group, as seen from it and
    those below, or in the whole dataset; None where dimensions are not declared. Dimensions that got another name are
    shown by the names that they were given."""
    shares_lengths: bool = False
    """``Array.resize``, ``Array.append``: arrays are as long as their dimension, so that they grow with one another."""
    repeats_dimensions: bool = False
    """The name of a dimension says what kind of axis it is, and axes of several lengths share it."""
    links_datasets: bool = False
    """Links and references lead to other datasets of the format too, by their ``source``."""
    label_rules: str = ""
    """In words, which labels arrays say themselves; empty where coordinate arrays alone are labels."""
    bounds_text: bool = False
    """``room_for_text``: text is stored in cells of one width."""
    in_coordinates: frozenset[Feature] = frozenset({Feature.STRINGS})
    """Of the ``features`` of a format of one array, those that its coordinates alone have."""
    common_codecs: frozenset[str] | None = None
    """Codecs on bytes that each reader knows, which a conversion takes where it can choose; None where all codecs are
    known alike."""
    shards_many: bool = False
    """Put arrays of many small chunks into shards by default: every reader of the format knows shards."""
    options_cut: bool = False
    """The options that a dataset is made with say how its arrays are cut, whatever they were cut by."""
    fill_value: Literal["missing", "apart"] | None = None
    """What else it says of cells: ``"missing"``, that those which have it are missing; ``"apart"``, that what means
    missing stands beside it, so that xarray keeps both."""
    kept_layout: frozenset[str] = frozenset()
    """Names in the ``layout`` of an array that stay where it is cut or encoded anew in the same format."""
    native_kinds: str = ""
    """Kinds of NumPy's cells that are stored as such where CF would make numbers of them."""
    finds_damage: bool = False
    """``Reader.find_damage``: it finds itself what is wrong with a dataset. Else reading each node, and each cell,
    tells all that can be."""
    netcdf_attributes: bool = False
    """Attributes are those of the netCDF library: none are mappings, text may end in NUL, and ``_NCProperties`` is its
    own."""
    is_keyed: bool = False
    """``formats.zarr``: nodes are documents, and cells are chunks, under keys of a store."""
    marks_nan: bool = False
    """``save``: floats get the attribute ``_FillValue`` NaN, as xarray's own writer of the format gives them."""


PROVENANCE = "_NCProperties"
"""The attribute in which netCDF's libraries say who wrote a dataset."""
NAME_PROBLEM = "names"
"""The kind of the problem that a node has a name which no path can have."""


# -- an open dataset ---------------------------------------------------------------------------------------------------


class Reader(ABC):
    """An open dataset. Paths are ``a/b``, ``""`` is the root."""

    store: Store | None = None
    """The store of keys that the dataset lies in; None for a file or database."""
    is_single_array: bool = False
    """True for a dataset that is one array, with its coordinates beside it in the root group."""
    is_written_whole: bool = False
    """True where what is written is there when the dataset is closed, and not before."""
    has_omissions: bool = False
    """True where the reader does not show all that its place holds (``omitted``)."""
    has_links: bool = False
    """True where a node may be a link though the format makes none."""
    may_shrink: bool = False
    """True where another writer may take rows of an open array away: reads look into fill values at their end."""
    location: Location | None = None
    """Where others can open what is being written before it stands at its place; None where they cannot, or it stands
    there."""

    # the tree and its cells

    @abstractmethod
    def children(self, path: str) -> Iterable[str]:
        """Return the names of the groups, arrays and links right below a group, in the dataset's order; below an array
        is nothing. NodeNotFound."""

    def children_after(self, path: str, name: str) -> Iterator[str]:
        """Return the names that :meth:`children` has behind one; NodeNotFound where it is none of them."""
        names = iter(self.children(path))
        if name not in names:  # which goes as far as the name
            raise NodeNotFound("nothing is there any more", node=child(path, name))
        return names

    @abstractmethod
    def node(self, path: str) -> Node:
        """Return the spec or the link at ``path``; NodeNotFound."""

    @abstractmethod
    def chunks(self, path: str) -> ChunkSource:
        """Return the chunks of the array at ``path``; raises Unsupported when its cells cannot be decoded."""

    @abstractmethod
    def close(self) -> None:
        """Write what is pending, let go of handles; closing twice is fine."""

    def discard(self) -> None:
        """Close without publishing what is pending, where that can be: a block ended with an error."""
        self.close()

    # the dataset as a whole

    @property
    def variant(self) -> Format | None:
        """Return the format with the features that this dataset has; None where they are those of the format."""
        return None

    @property
    def stored_format(self) -> Format | None:
        """Return the format that cells are stored in, where that is another one; None where it is this, or several."""
        return None

    @property
    def main(self) -> str | None:
        """Return the name of the array that opening the dataset gives (``is_single_array``); None where it has none."""
        return None

    def some_names(self, most: int) -> Sequence[str] | None:
        """Return names of at most ``most`` datasets, each of which is a group of the root; None where the place is one
        dataset."""
        return None

    def describe_datasets(
        self, start: int, count: int, conditions: Sequence[str], order: str | None = None
    ) -> Sequence[Mapping[str, object]]:
        """Return what is known of the datasets that :meth:`some_names` names, without opening them, from ``start`` on,
        each with its ``name`` and ``attributes``.

        ``conditions`` upon attributes, as :func:`.conditions.parse_texts` parses them; ``name`` is that
        of the dataset. ``order``: by what they are sorted, the largest first with ``-`` before it. Invalid for an order
        that the format has not.
        """
        return ()

    def members(self, path: str) -> Sequence[str]:
        """Return the first collections of the root, or arrays of a collection; none in a group that is a dataset."""
        return ()

    # present versions

    def refresh(self, path: str) -> None:
        """Forget what is remembered of a node's documents."""
        return

    def stamp(self, path: str) -> Hashable:
        """Return what identifies the present version of a node's documents; None where that cannot be known."""
        return None

    def watch(self, path: str) -> Callable[[], Hashable]:
        """Return a function that gives the :meth:`stamp` of a node, for who asks for it with many reads."""
        return partial(self.stamp, path)

    # what a dataset holds besides

    def storage(self, path: str) -> Mapping[str, Any]:
        """Return how an array is stored beyond its spec, as plain values for people; empty where there is nothing."""
        return {}

    def omitted(self, path: str) -> Iterable[Problem]:
        """Return what a node has, among its attributes or right below it, and is not shown; ``kind`` is the feature."""
        return ()

    def omitted_below(self, path: str) -> Iterator[Problem]:
        """Yield what a node and those below it hold and is not shown, group by group."""
        waiting = [path] if self.has_omissions else []
        while waiting:
            path = waiting.pop()
            yield from self.omitted(path)
            waiting += [child(path, name) for name in self.children(path)]

    def repair_problem(self) -> str | None:
        """Return why ``repair`` cannot put fill values in the place of damaged chunks, and what works instead; None
        where it can."""
        return None

    def find_damage(self, *, deep: bool, workers: int) -> Iterable[Finding]:
        """Return every problem of the dataset with what mends it, by rules of the format's own
        (:mod:`hyperslab.formats.rules`), where the format ``finds_damage``; ``deep`` decodes every chunk besides."""
        return ()

    # links and references

    def place_of(self, pointer: Pointer) -> Location | None:
        """Return where the dataset is that a pointer leads to, None for this one; BrokenLink, ExternalLinkRefused, or
        Unsupported where no pointer leaves a dataset."""
        if pointer.source not in ("", "."):
            message = f"a link to {pointer.source!r} leaves the dataset, and its format has no such"
            raise Unsupported(message, remedy="open that dataset by its own URL")
        return None

    def object_ids(self) -> Mapping[str, str]:
        """Return the path of each node that has an ``object_id``, which stays when it is moved, by that; read once,
        when it is first asked for."""
        return {}

    def paths_of(self, object_id: str) -> Sequence[str]:
        """Return the paths of the nodes that call themselves so: several where a node was copied with its identity."""
        return ()

    def specifications(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Return the schemas that nodes follow: namespace, version (the newest last), source. A schema is JSON values,
        read when it is taken out."""
        return {}


class Writer(Reader):
    """A dataset that takes writes; absent in a read-only format."""

    locks_whole: bool = False
    """True where all that is changed under :meth:`lock_node` shows together at its end, or not at all."""

    # nodes

    @abstractmethod
    def put(self, path: str, spec: Node) -> None:
        """Make or replace the documents of a node; chunks are left alone. Missing parent groups are made.

        A link is given only to a format with the feature ``LINKS``.
        """

    @abstractmethod
    def drop(self, path: str) -> None:
        """Remove a node with all below it."""

    def move(self, source: str, target: str) -> bool:
        """Rename a node with all below it; False where it is to be copied, and dropped, by the caller."""
        return False

    def rename_dimension(self, group: str, old: str, new: str) -> bool:
        """Give a dimension that a group declares another name, in all arrays along it; False where each array says its
        dimensions itself, so that the caller puts them. AlreadyExists when the group declares one of the new name."""
        return False

    # new arrays

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return a user's wish (shape, dtype, dims, chunks, neutral codecs) in this format's spelling; Unsupported."""
        return spec

    def auto_chunks(self, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
        """Return the chunk lengths of a new array that nobody chose any for."""
        return auto_chunks(shape, itemsize)

    def room_for_text(self, longest: int) -> Mapping[str, Any]:
        """Return attributes of a wish that give each cell room for ``longest`` bytes of UTF-8 (``bounds_text``)."""
        return {}

    # growing

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        """Return the chunks of an array as they will be under ``spec``, before its documents are put: a reader beside
        sees the new shape only once its cells are there. A format that cannot tell puts the documents first."""
        self.put(path, spec)
        return self.chunks(path)

    def written_length(self, path: str, axis: int) -> int:
        """Return the length along ``axis`` up to which cells were written; those behind read as the fill value. It
        differs from the shape where the format ``shares_lengths``."""
        spec = self.node(path)
        assert isinstance(spec, ArraySpec)
        return spec.shape[axis]

    def appended(self, path: str, axis: int, stop: int) -> None:
        """Remember that cells were written up to ``stop``, and none behind."""
        return

    # several changes, several writers

    def batch(self) -> AbstractContextManager[None]:
        """Collect changes: one write per document and one consolidation at the end of the block."""
        return nullcontext()

    def one_commit(self) -> AbstractContextManager[None]:
        """Have what the block changes show together when it ends well, or not at all, where the store ``transacts``:
        in a repository it is one commit. Other threads may take part in it."""
        return nullcontext()

    def lock_node(self, path: str) -> AbstractContextManager[None]:
        """Hold a node's documents while they are read, changed and put back; afterwards reads see the newest."""
        return nullcontext()

    def follow(
        self, way: str, *, stored: Collection[str] = (), gone: Collection[str] = (), arrived: Collection[str] = ()
    ) -> AbstractContextManager[None]:
        """Have what the dataset says of its nodes follow what another writer, opened at the group ``way`` alone, makes
        of nodes there in the block: documents ``stored``, nodes ``gone``, nodes ``arrived`` with all below."""
        return nullcontext()

    # repair

    def rebuild(self, path: str, without: Collection[tuple[int, ...]]) -> bool:
        """Make an array anew of its chunks, where no single one can be replaced that cannot be decoded; False where
        each can. Those at the coordinates ``without`` are not read, and hold the fill value."""
        return False


# -- a format ----------------------------------------------------------------------------------------------------------

Mode = Literal["r", "r+", "w", "x"]
"""How a format opens a dataset: ``r`` reads, ``r+`` changes, ``w`` replaces, ``x`` makes. Which of them a user's ``a``
is has been decided before (:func:`hyperslab.formats.opening.choose_format`)."""
Moment = str | date | np.datetime64
"""A moment (UTC unless it says otherwise): ISO text, a datetime, a date, whose midnight it is, or a datetime64. Of a
repository also the name of a version: a tag, a branch, the id of a snapshot."""


class Format(ABC):
    """A format: ``formats/<name>/__init__.py`` exports one as ``FORMAT``."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return its name as for ``format=``, such as ``"zarr3"``."""

    @property
    @abstractmethod
    def features(self) -> frozenset[Feature]:
        """Return what it can hold."""

    @property
    @abstractmethod
    def info(self) -> FormatInfo:
        """Return its line of ``list_formats``."""

    @property
    def traits(self) -> FormatTraits:
        """Return what else is to be known of it."""
        return FormatTraits()

    @abstractmethod
    def sniff(self, probe: Probe) -> bool:
        """Return True where the place holds this format; each key is read at most once for all formats."""

    def is_bare(self, probe: Probe) -> bool:
        """Return True where a place that :meth:`sniff` recognises is none by itself: there are only nodes below it."""
        return False

    @abstractmethod
    def open(self, where: Location, mode: Mode, *args: Any, **options: Any) -> Reader:
        """Open or make (modes ``w``, ``x``) a dataset; no format gets the mode ``a``.

        Options, all by keyword: ``settings``; ``remembered``, the probe that found the format (only where it read
        anything); the format's own (``options``).
        """

    @property
    def options(self) -> tuple[str, ...]:
        """Return the names of the options that ``open`` takes of users; by default its keywords."""
        return _keywords(type(self).open)

    def variant(self, options: Mapping[str, Any]) -> Format:
        """Return the format with the features that a dataset made with these options has."""
        return self

    def require_shards(self) -> None:
        """Raise Unsupported where arrays of this format cannot be cut into shards."""
        if Feature.SHARDS not in self.features:
            remedy = "leave shards= (--shards) out, or use zarr3, hdmf with profile v3, or blaze with superchunks"
            raise Unsupported(f"format {self.name} has no shards", remedy=remedy)

    def at(self, probe: Probe) -> Format:
        """Return the format with the names of documents that the dataset at a place has."""
        return self

    def find_group_name(self, probe: Probe) -> str | None:
        """Return the name of the document that a group has, where an array of this format lies at the place; else None.
        The dataset around an array is looked for by it."""
        return None

    def allowing(self, places: Sequence[str] | bool) -> Format:
        """Return the format that follows links to these folders and URLs too, True for all; Invalid."""
        raise Invalid(f"format {self.name} has no option 'allow_external'", remedy="leave it out")

    def placed(self, where: Location) -> None:
        """Correct what a dataset says of its place, after it was made elsewhere and moved to ``where``."""
        return

    def is_taken(self, where: Location) -> bool:
        """Return True where a dataset is there, of a format ``in_database``."""
        return False

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return a wish as :meth:`Writer.new_array` does, before anything is opened, of a format ``in_database``."""
        return spec


@cache
def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the keyword arguments of ``open``, without those that every format has."""
    known = ("self", "where", "mode", "settings", "remembered")
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return tuple(
        name for name, each in signature(function).parameters.items() if each.kind in named and name not in known
    )


# -- for writers ------------------------------------------------------------------------------------------------------


class BatchBlocks:
    """The running blocks of ``batch()`` of one writer, one within another or on several threads; true while one runs.

    At the end of the last block what waits is stored, then ``locks`` are released, which stay for the whole batch.
    ``mutex`` is the writer's own. A change that is noted under it while a block runs is stored by the last one.
    """

    def __init__(self, mutex: AbstractContextManager[object]) -> None:
        self._mutex = mutex
        self._running = 0
        self.locks = ExitStack()

    def __bool__(self) -> bool:
        return bool(self._running)

    @contextmanager
    def block(self, flush: Callable[[], None]) -> Iterator[None]:
        """Enter one block. At the end of the last one ``flush`` stores what waits; what it raises is raised there."""
        with self._mutex:
            self._running += 1
        try:
            yield
        finally:
            with self._mutex:
                self._running -= 1
                is_last = not self._running
            if is_last:
                # what waits is stored before other writers get the locks of the batch
                with self.locks:
                    flush()
