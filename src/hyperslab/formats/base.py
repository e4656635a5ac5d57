"""What a format is: a name, what it can hold, how it is recognised, and a Reader or Writer of its documents.

A format of a third party needs not inherit anything: ``Reader``, ``Writer`` and ``Format`` are protocols. Each
of the other protocols is one ability that some formats have and that the floors above ask for with ``isinstance``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import Problem
from hyperslab.model.paths import child
from hyperslab.model.refs import Link, Pointer
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location, Probe

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


# -- readers and writers -----------------------------------------------------------------------------------------------

Mode = Literal["r", "r+", "a", "w", "x"]


class Reader(Protocol):
    """An open dataset. Paths are ``a/b``, ``""`` is the root."""

    def children(self, path: str) -> Iterable[str]:
        """Names of the groups, arrays and links right below a group, in the dataset's order; below an array is
        nothing. NodeNotFound."""
        ...

    def node(self, path: str) -> GroupSpec | ArraySpec | Link:
        """Return the spec or the link at ``path``; NodeNotFound."""
        ...

    def chunks(self, path: str) -> ChunkSource:
        """Return the chunks of the array at ``path``; raises Unsupported when its cells cannot be decoded."""
        ...

    def close(self) -> None:
        """Write what is pending, let go of handles; closing twice is fine."""
        ...


@runtime_checkable
class Writer(Reader, Protocol):
    """A dataset that takes writes; absent in a read-only format."""

    def put(self, path: str, spec: GroupSpec | ArraySpec | Link) -> None:
        """Make or replace the documents of a node; chunks are left alone. Missing parent groups are made.

        A link is given only to a format with the feature ``LINKS``.
        """
        ...

    def drop(self, path: str) -> None:
        """Remove a node with all below it."""
        ...


@runtime_checkable
class Batches(Protocol):
    def batch(self) -> AbstractContextManager[None]:
        """Collect changes: one write per document and one consolidation at the end of the block."""
        ...


@runtime_checkable
class LocksDataset(Protocol):
    def lock_node(self, path: str) -> AbstractContextManager[None]:
        """Hold a node's documents while they are read, changed and put back; afterwards reads see the newest."""
        ...


@runtime_checkable
class MovesNodes(Protocol):
    def move(self, source: str, target: str) -> None:
        """Rename a node with all below it."""
        ...


@runtime_checkable
class WritesAhead(Protocol):
    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        """Return the chunks of an array as they will be under ``spec``, before its documents are put (growing)."""
        ...


@runtime_checkable
class RemembersRows(Protocol):
    """A format whose arrays grow with one another: each is as long as its dimension, though it was given less."""

    def written_length(self, path: str, axis: int) -> int:
        """Return the length along ``axis`` up to which cells were written; those behind read as the fill value."""
        ...

    def appended(self, path: str, axis: int, stop: int) -> None:
        """Remember that cells were written up to ``stop``, and none behind."""
        ...


@runtime_checkable
class Removes(Protocol):
    def remove(self, path: str, axis: int, start: int, stop: int) -> bool:
        """Take a range out of an array and close the gap, whole; False where moving cells is the best way."""
        ...


@runtime_checkable
class Discards(Protocol):
    def discard(self) -> None:
        """Close without publishing what is pending: a block ended with an error."""
        ...


@runtime_checkable
class Relocated(Protocol):
    @property
    def location(self) -> Location:
        """Where others can open what is being written, before it stands at its place."""
        ...


@runtime_checkable
class Refreshes(Protocol):
    def refresh(self, path: str) -> None:
        """Forget what is remembered of a node's documents."""
        ...


@runtime_checkable
class HoldsOne(Protocol):
    """A dataset that is one array, with its coordinates beside it in the root group."""

    @property
    def main(self) -> str | None:
        """Return the name of that array, which is what opening the dataset gives; None while it has none."""
        ...


@runtime_checkable
class HoldsMoreBeside(Protocol):
    @property
    def in_coordinates(self) -> frozenset[Feature]:
        """Of the features of a format of one array, those that its coordinates alone have."""
        ...


@runtime_checkable
class HoldsMany(Protocol):
    """A place of many datasets, each of which is a group of its root."""

    def some_names(self, most: int) -> list[str]:
        """Return names of its datasets, at most ``most``."""
        ...


@runtime_checkable
class HoldsCollections(Protocol):
    """A place of collections of arrays, each of which is a group of its root."""

    def members(self, path: str) -> list[str]:
        """Return the first collections of the root, or arrays of a collection; none in a group that is a dataset."""
        ...


@runtime_checkable
class Omits(Protocol):
    """A reader that does not show all that its place holds."""

    def omitted(self, path: str) -> Iterable[Problem]:
        """Return what a node has, among its attributes or right below it, and is not shown; ``kind`` is the feature."""
        ...


@runtime_checkable
class Examines(Protocol):
    def problems(self, *, deep: bool, workers: int) -> Iterable[Problem]:
        """Return every problem of the dataset, after a look at all of it; ``deep`` decodes every chunk besides."""
        ...


@dataclass(frozen=True, slots=True)
class Remedy:
    """A problem, and what mends it: the ``action`` in words (None: nothing does), and as a deed, ``act``, after copies
    of the keys ``keep`` are kept or what lies at ``take`` is taken out.

    ``at``: the key that it is about. ``settles``: kinds of problems of that key, and of those below it, that a look at
    the keys alone finds and that are this one again. ``part``: what a repair can be limited to (``"links"``).
    ``asked``: the wish of a repair without which it is not mended. ``sound``: no problem, but can be made better.
    """

    problem: Problem
    action: str | None = None
    act: Callable[[], None] | None = None
    keep: tuple[str, ...] = ()
    take: str = ""
    at: str = ""
    settles: frozenset[str] = frozenset()
    part: str = ""
    asked: str = ""
    sound: bool = False


@runtime_checkable
class Repairs(Protocol):
    def remedies(self, *, deep: bool, workers: int) -> Iterable[Remedy]:
        """Return every problem, as :meth:`Examines.problems` finds them, with its remedy."""
        ...


@runtime_checkable
class Rebuilds(Protocol):
    """A format in which no single chunk is replaced that cannot be decoded."""

    def rebuild(self, path: str, without: Collection[tuple[int, ...]]) -> None:
        """Make an array anew of its chunks; those at the coordinates ``without`` are not read, and hold the fill
        value."""
        ...


@runtime_checkable
class LeadsOut(Protocol):
    """A format whose links and references may lead to other datasets."""

    def place_of(self, pointer: Pointer) -> Location | None:
        """Where the dataset is that a pointer leads to, None for this one; BrokenLink or ExternalLinkRefused."""
        ...


@runtime_checkable
class AllowsExternal(Protocol):
    """A format whose links may be allowed to lead to more places than they do by themselves."""

    def allowing(self, places: Sequence[str] | bool) -> Format:
        """Return the format that follows links to these folders and URLs too, True for all; Invalid."""
        ...


@runtime_checkable
class FindsObjects(Protocol):
    """A format whose nodes have an identity that stays when they are moved."""

    def object_ids(self) -> Mapping[str, str]:
        """Return the path of each node that has an ``object_id``, by that; read once, when it is first asked for."""
        ...

    def paths_of(self, object_id: str) -> Sequence[str]:
        """Return the paths of the nodes that call themselves so: several where a node was copied with its identity."""
        ...


@runtime_checkable
class HoldsSpecifications(Protocol):
    """A format that keeps the schemas that its nodes follow."""

    def specifications(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Namespace, version (the newest last), source: a schema as JSON values, read when it is taken out."""
        ...


@runtime_checkable
class TellsStorage(Protocol):
    def storage(self, path: str) -> Mapping[str, Any]:
        """Return how an array is stored beyond its spec, as plain values for people; empty where there is nothing."""
        ...


@runtime_checkable
class StampsNodes(Protocol):
    def stamp(self, path: str) -> Hashable:
        """Return what identifies the present version of a node's documents; None where that cannot be known."""
        ...


@runtime_checkable
class Plans(Protocol):
    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return a user's wish (shape, dtype, dims, chunks, neutral codecs) in this format's spelling; Unsupported."""
        ...


@runtime_checkable
class TakesLabels(Protocol):
    """A format whose arrays say their labels themselves, though coordinate arrays may stand beside them."""

    @property
    def label_rules(self) -> str:
        """Which labels those are, in words."""
        ...


@runtime_checkable
class SharesDimensions(Protocol):
    """A format that declares dimensions: a name has one length where it is declared."""

    @property
    def dimension_scope(self) -> Literal["group", "dataset"]:
        """Where that is: in a group, as seen from it and those below, or in the whole dataset. Dimensions that
        :func:`hyperslab.formats.dimension_suffix.add_suffix` has named are shown by the names that they were given."""
        ...


@runtime_checkable
class KnowsItsPlace(Protocol):
    """A format whose datasets say where they lie."""

    def placed(self, where: Location) -> None:
        """Correct what a dataset says of its place, after it was made elsewhere and moved to ``where``."""
        ...


@runtime_checkable
class BoundsText(Protocol):
    """A format that stores the text of an array in cells of one width."""

    def room_for_text(self, longest: int) -> Mapping[str, Any]:
        """Attributes of a wish that give each of its cells room for ``longest`` bytes of UTF-8."""
        ...


@runtime_checkable
class CutsChunks(Protocol):
    def auto_chunks(self, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
        """Return the chunk lengths of a new array that nobody chose any for, where the format has a rule of its own."""
        ...


@runtime_checkable
class InDatabase(Protocol):
    """A format whose datasets lie in no store of keys: it alone knows what is at a place."""

    def is_taken(self, where: Location) -> bool:
        """Return whether a dataset is there."""
        ...

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """As :meth:`Plans.new_array`, before anything is opened."""
        ...


@runtime_checkable
class Varies(Protocol):
    """A format that holds more or less by the options that a dataset is made with."""

    def variant(self, options: Mapping[str, Any]) -> Format:
        """Return the format with the features that it has under these options."""
        ...


@runtime_checkable
class VariesByPlace(Protocol):
    """A format whose documents have other names in one dataset than in another."""

    def at(self, probe: Probe) -> Format:
        """Return the format as it is at a place."""
        ...


@runtime_checkable
class IsVariant(Protocol):
    @property
    def variant(self) -> Format:
        """Return the format of this dataset, with the features that it has here."""
        ...


@runtime_checkable
class NamesDatasets(Protocol):
    """A third party's format of which datasets have names of their own kind."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Return the ends of the names of new datasets, such as ``.npys``."""
        ...


class Format(Protocol):
    """A format: ``formats/<name>/__init__.py`` exports one as ``FORMAT``."""

    @property
    def name(self) -> str:
        """Return its name as for ``format=``, such as ``"zarr3"``."""
        ...

    @property
    def features(self) -> frozenset[Feature]:
        """Return what it can hold."""
        ...

    @property
    def info(self) -> FormatInfo:
        """Return its line of ``list_formats``."""
        ...

    def sniff(self, probe: Probe) -> bool:
        """Return whether the place holds this format; each key is read at most once for all formats."""
        ...

    def open(self, where: Location, mode: Mode, **options: Any) -> Reader:
        """Open or make (modes ``w``, ``x``, ``a``) a dataset.

        Options: ``settings``; ``remembered``, what a probe has read by key (only where it read any); the format's own.
        """
        ...


# -- what a dataset holds and its format does not show -----------------------------------------------------------------

NAME_PROBLEM = "names"
"""The kind of the problem that a node has a name which no path can have."""


def omitted_at(reader: Reader, path: str) -> Iterable[Problem]:
    """Return what a node has, among its attributes or right below it, and is not shown."""
    return reader.omitted(path) if isinstance(reader, Omits) else ()


def omitted_below(reader: Reader, path: str) -> Iterator[Problem]:
    """Yield what a node and those below it hold and is not shown, group by group."""
    if not isinstance(reader, Omits):
        return
    waiting = [path]
    while waiting:
        path = waiting.pop()
        yield from reader.omitted(path)
        waiting += [child(path, name) for name in reader.children(path)]


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
                with self.locks:
                    flush()
