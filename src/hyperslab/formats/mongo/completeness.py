"""True if all of an object is stored (reference 4.5, R52, R53): what is missing, and what is wrong.

The server counts documents and bytes, and the client compares them with what the object's document declares. An
object may declare any number of chunks: only those that are stored are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import prod
from typing import TYPE_CHECKING, Any

from bson import ObjectId

from hyperslab.errors import HyperslabError
from hyperslab.formats.mongo.document import Meta, Variable, parse
from hyperslab.formats.mongo.faults import DocumentNotFoundError
from hyperslab.formats.mongo.ids import Chunk
from hyperslab.formats.mongo.segments import SPARSE, Key, Segment, expected_bytes, parse_key, show
from hyperslab.formats.mongo.storage_stats import ChunkDocuments, contradicting, documents_of, tallies
from hyperslab.formats.mongo.to_spec import ours_of
from hyperslab.formats.mongo.undo import entries
from hyperslab.stores import counting

if TYPE_CHECKING:
    from pymongo.collection import Collection

MISSING_CHUNK, MISSING_SEGMENT = "missing-chunk", "missing-segment"
DUPLICATES, CONTRADICTING = "duplicate-documents", "contradicting-documents"
EXCESS, SHAPE, DOCUMENT = "excess-bytes", "chunk-shape", "chunk-document"
STRAY, EMBEDDED = "stray-documents", "embedded-and-stored"
_HARMLESS = (DUPLICATES, STRAY)
_BATCH = 100


@dataclass(frozen=True, slots=True)
class ChunkFlaw:
    """What is wrong with the documents of one chunk; ``stored``: ``n`` and ``_id`` of all of them, where they are
    copies or belong to nothing."""

    key: Key
    kind: str
    message: str
    stored: tuple[tuple[Any, Any], ...] = ()


@dataclass(slots=True)
class Absent:
    """The chunks of one variable that have no documents: all of its grid but those at the numbers ``stored``."""

    name: str
    counts: tuple[int, ...] | None
    stored: set[int] = field(default_factory=set)

    @property
    def declared(self) -> int:
        """How many chunks there must be."""
        return 1 if self.counts is None else prod(self.counts)

    def __len__(self) -> int:
        return self.declared - len(self.stored)

    def add(self, chunk: Chunk) -> None:
        """That one is there."""
        number = 0
        for index, count in zip(chunk or (), self.counts or (), strict=True):
            number = number * count + index
        self.stored.add(number)

    def __iter__(self) -> Iterator[Key]:
        """The missing ones, in order; nothing is remembered of them."""
        start = 0
        for stop in (*sorted(self.stored), self.declared):
            for number in range(start, stop):
                yield self.name, self._chunk(number)
            start = stop + 1

    def _chunk(self, number: int) -> Chunk:
        if self.counts is None:
            return None
        found = []
        for count in reversed(self.counts):
            number, index = divmod(number, count)
            found.append(index)
        return tuple(reversed(found))


class ObjectSurvey:
    """One object compared with its documents: first :meth:`flaws`, to the end, then what is ``absent`` and no fill
    value, and which chunks are ``sparse``."""

    def __init__(self, meta: Meta, chunks: Collection[Any]) -> None:
        self.meta = meta
        self.chunks = chunks
        self.variables = meta.variables
        self._absent = {
            name: Absent(name, None if variable.chunks is None else tuple(map(len, variable.chunks)))
            for name, variable in self.variables.items()
            if variable.problem is None and variable.embedded is None
        }
        self.sparse: list[Key] = []
        self._misfits = False
        self._past = {key: entry.count for key, entry in entries(meta.ours).items() if entry.count is not None}
        for name, chunk in (key for key, count in self._past.items() if count and key[0] in self._absent):
            if self.variables[name].has(chunk):
                self._absent[name].add(chunk)
        self.absent = [absent for name, absent in self._absent.items() if "fill" not in ours_of(meta, name)]

    def is_questioned(self, flaws: Iterable[ChunkFlaw]) -> bool:
        """True if the documents do not fit the object otherwise than by being too many.

        Documents of chunks that it does not have may be sound then, and its own document wrong.
        """
        if self._misfits or any(flaw.kind not in _HARMLESS for flaw in flaws):
            return True
        lengths = {pair for each in self.variables.values() for pair in zip(each.dims, each.shape, strict=False)}
        lengths = {(dim, size) for dim, size in lengths if size is not None}
        if len(lengths) > len({dim for dim, _ in lengths}):
            return True
        if any(variable.problem is not None for variable in self.variables.values()) or any(map(len, self.absent)):
            return True
        is_renamed = any(flaw.kind == STRAY and flaw.key[0] not in self.variables for flaw in flaws)
        return is_renamed and any(absent.declared and not absent.stored for absent in self._absent.values())

    def flaws(self) -> Iterator[ChunkFlaw]:
        """What is wrong with what is stored, in no order."""
        strays: dict[Key, ChunkFlaw] = {}
        doubled: set[Key] = set()
        for tally in tallies(self.chunks, self.meta.id):
            flaw = self._flaw(tally)
            if flaw is None and tally.documents > tally.segments and tally.key["name"] in self._absent:
                doubled.add(parse_key(tally.key))
            elif flaw is not None and flaw.kind == STRAY:
                strays[flaw.key] = flaw
            elif flaw is not None:
                yield flaw
            if counting.watchers:
                counting.done(1)
        doubled -= self._past.keys()
        if strays or doubled:
            found = documents_of(self.chunks, self.meta.id, strays.keys() | doubled)
            yield from (replace(flaw, stored=tuple(found.get(key, ()))) for key, flaw in strays.items())
            yield from self._doubles({key: found[key] for key in doubled if key in found})

    def _flaw(self, tally: ChunkDocuments) -> ChunkFlaw | None:
        try:
            key = parse_key(tally.key)
        except HyperslabError as error:
            return ChunkFlaw((str(tally.key.get("name")), None), DOCUMENT, error.said)
        if key in self._past:  # it is being changed, and read as it was
            return None
        variable = self.variables.get(key[0])
        counted = f"{tally.documents} documents of {show(key)}"
        if variable is None:
            return ChunkFlaw(key, STRAY, f"{counted}, a variable that the object does not have")
        if variable.problem is not None:
            return None
        if variable.embedded is not None and not (self.meta.ours and key[1] is not None):
            return ChunkFlaw(key, EMBEDDED, f"{counted}, whose cells stand in the object's own document")
        if variable.embedded is not None or not variable.has(key[1]):
            return ChunkFlaw(key, STRAY, f"{counted}, a chunk that the variable does not have")
        self._absent[key[0]].add(key[1])
        self.sparse += [key] if tally.said.get("type") == SPARSE else []
        self._misfits |= _is_misfit(key[1], tally, variable)
        return _judged(key, tally, variable, lenient=bool(ours_of(self.meta, key[0])))

    def _doubles(self, found: Mapping[Key, list[tuple[Any, Any]]]) -> Iterator[ChunkFlaw]:
        rest = iter(found.items())
        while some := dict(islice(rest, _BATCH)):
            ids = [id for stored in some.values() for _, id in stored]
            differing = contradicting(self.chunks, self.meta.id, ids)
            for key, stored in some.items():
                if key in differing:
                    yield ChunkFlaw(key, CONTRADICTING, f"documents of {show(key)} with the same n hold other bytes")
                else:
                    surplus = len(stored) - len({n for n, _ in stored})
                    message = f"{surplus} of {len(stored)} documents of {show(key)} are copies"
                    yield ChunkFlaw(key, DUPLICATES, message, tuple(stored))


def _judged(key: Key, tally: ChunkDocuments, variable: Variable, *, lenient: bool) -> ChunkFlaw | None:
    """What is wrong with a chunk that the object has; copies apart. ``lenient``: of any length, as while it grows."""
    if not tally.alike:
        return ChunkFlaw(key, CONTRADICTING, f"documents of {show(key)} contradict each other")
    try:
        segment = tally.segment()
    except HyperslabError as error:
        return ChunkFlaw(key, DOCUMENT, f"{show(key)}: {error.said}")
    if not tally.sound:
        return ChunkFlaw(key, DOCUMENT, f"a document of {show(key)} has no bytes, or an n that is no whole number")
    kind, said = _counted(tally, segment)
    if kind:
        return ChunkFlaw(key, kind, f"{show(key)}: {said}")
    declared = _declared(key[1], variable)
    if len(declared) != len(segment.shape) or not (
        lenient or all(size in (None, found) for size, found in zip(declared, segment.shape, strict=True))
    ):
        return ChunkFlaw(key, SHAPE, f"{show(key)} has the shape {segment.shape}, its variable declares {declared}")
    return None


def _is_misfit(chunk: Chunk, tally: ChunkDocuments, variable: Variable) -> bool:
    """True if a chunk has another length than its place, and none that a growing or shrinking array leaves there.

    Those are longer along an axis at the end of which they lie.
    """
    try:
        found = tally.segment().shape
    except HyperslabError:
        return True
    if chunk is None or variable.chunks is None or len(found) != len(chunk):
        return False
    sizes = zip(_declared(chunk, variable), found, chunk, variable.chunks, strict=True)
    return any(
        size is not None and (length < size or (length > size and index < len(cuts) - 1))
        for size, length, index, cuts in sizes
    )


def _counted(tally: ChunkDocuments, segment: Segment) -> tuple[str, str]:
    expected, found = expected_bytes(segment), (tally.values, tally.places)
    said = f"{sum(found)} of {sum(expected)} bytes"
    if sum(found) > sum(expected):
        return EXCESS, said
    if not tally.unbroken or sum(found) < sum(expected):
        return MISSING_SEGMENT, f"{said}, in {tally.segments} documents, n up to {tally.last}"
    if found != expected:
        return DOCUMENT, f"values and places of {found} bytes, not {expected}"
    if segment.fill is not None and len(segment.fill) != segment.dtype.itemsize:
        return DOCUMENT, f"a fill value of {len(segment.fill)} bytes, not {segment.dtype.itemsize}"
    return "", ""


def _declared(chunk: Chunk, variable: Variable) -> tuple[int | None, ...]:
    if chunk is None or variable.chunks is None:
        return variable.shape
    return tuple(sizes[index] for index, sizes in zip(chunk, variable.chunks, strict=True))


# -- by id ------------------------------------------------------------------------------------------------------------


def load(meta: Collection[Any], id: ObjectId) -> Meta:
    """The document of an object. DocumentNotFoundError, CorruptDocument."""
    doc = meta.find_one({"_id": {"$eq": id}})
    if doc is None:
        raise DocumentNotFoundError(id)
    return parse(doc)


def missing(meta: Collection[Any], chunks: Collection[Any], id: ObjectId, limit: int | None = None) -> list[Key]:
    """The chunks of an object that are not stored, or not whole; at most ``limit``. DocumentNotFoundError."""
    survey = ObjectSurvey(load(meta, id), chunks)
    broken = [flaw.key for flaw in survey.flaws() if flaw.kind == MISSING_SEGMENT]
    found = sorted([*broken, *islice(chain.from_iterable(survey.absent), limit)], key=_order(survey.variables))
    return found[:limit]


def _order(names: Iterable[str]) -> Any:
    places = {name: place for place, name in enumerate(names)}
    return lambda key: (places.get(key[0], len(places)), key[1] or ())


def is_complete(meta: Collection[Any], chunks: Collection[Any], id: ObjectId) -> bool:
    """Return whether all of an object can be read: every byte is there, once or in equal copies.
    DocumentNotFoundError.
    """
    found = load(meta, id)
    if "status" in found.ours or any(variable.problem for variable in found.variables.values()):
        return False
    survey = ObjectSurvey(found, chunks)
    return all(flaw.kind in _HARMLESS for flaw in survey.flaws()) and not any(survey.absent)
