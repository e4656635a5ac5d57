"""Collections of arrays that follow one schema: what each of their layouts gives to the floors above.

A root holds collections by name; a collection holds arrays by id. A :class:`Layout` finds and makes the collections of
one root that are laid out its way, a :class:`CollectionStore` has the arrays of one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.formats.base import Remedy
from hyperslab.formats.collection_document import CollectionDocument, LayoutName
from hyperslab.model.schemas.records import Record
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Stamp
from hyperslab.stores.location import Location


class CollectionStore(Protocol):
    """The arrays of one collection. Errors name the collection and the array; what is gone by now is NotFound."""

    @property
    def document(self) -> CollectionDocument:
        """What the collection is, as it was when this was opened: a schema never changes."""
        ...

    def exists(self) -> bool:
        """Return whether the collection is still there."""
        ...

    # -- records ----------------------------------------------------------------------------------------------------

    def record(self, id: str) -> Record:
        """One array's record as it is stored now; NodeNotFound, FormatError."""
        ...

    def records(self, ids: Iterable[str]) -> Iterator[Record]:
        """The records of these arrays; those that are gone or damaged are left out."""
        ...

    def id_of(self, key: tuple[object, ...]) -> str | None:
        """The array with these values of its primary attributes, in the schema's order; None when there is none."""
        ...

    def create(self, records: Sequence[Record]) -> None:
        """New arrays, all of them or none; AlreadyExists names the id or the key that is taken."""
        ...

    def update(self, id: str, change: Callable[[Record], Record]) -> Record:
        """Replace a record by what ``change`` makes of the stored one, under its lock; Conflict, NodeNotFound."""
        ...

    def remove(self, id: str) -> None:
        """Remove an array; one that is gone is fine."""
        ...

    def clear(self) -> None:
        """Remove all arrays of the collection."""
        ...

    def drop(self) -> None:
        """Remove the collection with all that belongs to it; one that is gone is fine."""
        ...

    # -- what an index needs ----------------------------------------------------------------------------------------

    def generations(self) -> Mapping[str, Stamp]:
        """The parts that the arrays are listed by, each with what changes when one of its arrays does."""
        ...

    def listing(self, part: str) -> Mapping[str, Stamp]:
        """The ids of a part with the stamps of their records, those included that are not committed yet."""
        ...

    def ids(self, part: str) -> Iterable[str]:
        """The ids of a part's arrays that exist, sorted; of damaged ones those whose existence needs no record."""
        ...

    def unsettled(self) -> Collection[str]:
        """Ids whose records may have changed without a change of their part's generation."""
        ...

    def committed(self, records: Iterable[Record]) -> Iterator[Record]:
        """Those of the records whose arrays exist: their creation was completed and they were not removed."""
        ...

    # -- arrays -----------------------------------------------------------------------------------------------------

    def spec(self, id: str) -> ArraySpec:
        """What the array is: shape, type, dimension names, labels, how it is cut. NodeNotFound, FormatError."""
        ...

    def put_spec(self, id: str, spec: ArraySpec) -> None:
        """Store another shape or other attributes (:func:`~.collection_document.record_of`) of an array."""
        ...

    def chunks(self, id: str, spec: ArraySpec) -> ChunkSource:
        """The cells of an array under a spec."""
        ...

    def stamp(self, id: str) -> Stamp | None:
        """What identifies the present version of an array's record."""
        ...

    def nbytes_stored(self) -> int:
        """Bytes that all that belongs to the collection takes."""
        ...

    def remedies(self, *, deep: bool) -> Iterable[Remedy]:
        """Every problem of the collection with what mends it; ``deep`` reads every cell besides."""
        ...


@runtime_checkable
class CachesIndex(Protocol):
    """A holding that can store an index of its records, for whoever opens it next: a cache, never to be trusted."""

    @property
    def keeps_index(self) -> bool:
        """Return whether the collection's document asks for it."""
        ...

    def cached_index(self) -> bytes | None:
        """What was stored last; None when there is nothing, or too much."""
        ...

    def keep_index(self, data: bytes) -> None:
        """Store it; ReadOnly."""
        ...


class Layout(Protocol):
    """How collections lie below one root."""

    @property
    def name(self) -> LayoutName:
        """``hyperslab`` or ``deker``."""
        ...

    def names(self, where: Location) -> Iterable[str]:
        """The collections of this layout, sorted; what is none is passed over."""
        ...

    def open(self, where: Location, name: str, settings: Settings, *, writable: bool) -> CollectionStore | None:
        """A collection; None when there is none of this name and layout; FormatError when its document is damaged."""
        ...

    def create(self, where: Location, document: CollectionDocument, settings: Settings) -> CollectionStore:
        """A new collection; AlreadyExists when the name is taken, Unsupported when the layout cannot hold it."""
        ...

    def remedies(self, where: Location) -> Iterable[Remedy]:
        """What is wrong with the root itself, with what mends it: strays, damaged documents."""
        ...
