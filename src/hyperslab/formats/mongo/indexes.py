"""Indexes of the two collections: what each is for, who makes it, what its absence costs.

Whoever makes an object makes those that are missing (:func:`ensure_write_indexes`), who only reads makes none. The
server builds an index while others read and write. An index that somebody made under another name serves as well.

- Of objects (``<collection>.meta``): by name, by attributes that a user chose, and by the fields of ``hyperslab`` that
  say what is under way. Nearly all documents lack those fields, and the indexes on them hold only documents that have
  them, so that they cost nothing. When an object was made is in its id.
- Of chunks (``<collection>.chunks``): the one that every driver makes lies on ``chunk``, a list, and so finds every
  chunk that has one of the indices anywhere. The positional one lies on ``chunk.0``, ``chunk.1``, … and finds a chunk
  by one key. A unique one that covers fewer positions than a chunk has would take two of its neighbours for one, so
  that it is replaced by a wider one before such chunks are written.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo import IndexModel
from pymongo.collation import Collation
from pymongo.errors import OperationFailure

from hyperslab.errors import Invalid
from hyperslab.formats.mongo.bson_values import Collections, DocumentCollection, MutableDocument
from hyperslab.formats.mongo.chunk_documents import Key, format_key
from hyperslab.formats.mongo.document import CLAIMS, LINEAGE, PUTTING, REPLACES, STATUS, UNDO

# Codes of the server: for what a user may not do (Unauthorized; AtlasError); for an index that is there under another
# name, or another one of that name (IndexOptionsConflict, IndexKeySpecsConflict); for one that is not there; for keys
# that are there twice.
_REFUSED, _CONFLICTS, _NO_INDEX, _DUPLICATE_KEY = (13, 8000), (85, 86), 27, 11000
BINARY = Collation(locale="simple")
"""Texts are equal if their bytes are, whatever the collection was made with."""
_PLAIN_WORD = re.compile(r"\w[^.$\0]*")

Fields = list[tuple[str, int]]
SearchIndex = bool | str | Iterable[str]
"""True: writers make the indexes by which objects are found; names of attributes: those by these, too."""


def is_plain_word(name: str) -> bool:
    """Return True if a name can be part of a path in a query."""
    return bool(_PLAIN_WORD.fullmatch(name))


@dataclass(frozen=True, slots=True)
class Index:
    """An index on ``fields``, by which ``purpose`` is found. ``sparse``: documents without the field are not in it."""

    fields: tuple[str, ...]
    purpose: str
    sparse: bool = False

    @property
    def keys(self) -> Fields:
        """The fields as the driver takes them."""
        return [(field, 1) for field in self.fields]

    @property
    def name(self) -> str:
        """The name that the driver gives it."""
        return "_".join(f"{field}_1" for field in self.fields)

    @property
    def model(self) -> IndexModel:
        """The index as the driver makes it."""
        return IndexModel(self.keys, background=True, collation=BINARY, **({"sparse": True} if self.sparse else {}))

    def is_served_by(self, options: Mapping[str, Any]) -> bool:
        """Return True if an index with these options finds what this one finds."""
        restricted = "partialFilterExpression" in options or "collation" in options
        return (
            options["key"][: len(self.fields)] == self.keys
            and not restricted
            and (self.sparse or not options.get("sparse"))
        )

    def is_in(self, present: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return True if one of these indexes serves."""
        return any(map(self.is_served_by, present.values()))


KEY_INDEX = Index(("meta_id", "name", "chunk"), "chunks of an object")
"""The index that every driver of this layout makes, not unique."""
SEARCH_INDEXES = (
    Index(("name", "_id"), "objects by name"),
    Index((CLAIMS,), "names that somebody is about to take", sparse=True),
    Index((STATUS,), "objects that are being made", sparse=True),
    Index((REPLACES,), "objects whose place another one has taken", sparse=True),
    Index((LINEAGE,), "older versions of an object", sparse=True),
    Index((PUTTING,), "puts that were broken off", sparse=True),
    Index((UNDO,), "changes of chunks that were broken off", sparse=True),
)
"""The indexes of objects that are always made."""


def attribute_index(name: str) -> Index:
    """Return the index by which objects are found by an attribute, in the order in which they were made. Invalid."""
    if not is_plain_word(name):
        remedy = "name an attribute that begins with a letter, digit or _, without . and $"
        raise Invalid(f"there can be no index of the attribute {name!r}", remedy=remedy)
    return Index((f"attrs.{name}", "_id"), f"objects by the attribute {name}")


def parse_search_index(wanted: SearchIndex) -> tuple[Index, ...]:
    """Return the indexes that an option ``search_index`` chooses. Invalid."""
    if isinstance(wanted, bool):
        return SEARCH_INDEXES if wanted else ()
    names = [wanted] if isinstance(wanted, str) else list(wanted) if isinstance(wanted, Iterable) else [None]
    if not all(isinstance(name, str) for name in names):
        remedy = "give True, False, or names of attributes"
        raise Invalid(f"search_index={wanted!r}", remedy=remedy)
    return (*SEARCH_INDEXES, *map(attribute_index, dict.fromkeys(names)))


# -- making -----------------------------------------------------------------------------------------------------------


def ensure_index(chunks: DocumentCollection, *, best_effort: bool = False) -> bool:
    """Make the index by chunk, not unique, and return whether it is there. ``best_effort``: a user who may not make
    it does without."""
    try:
        chunks.create_index(KEY_INDEX.keys, background=True)
    except OperationFailure as error:
        if best_effort and error.code in _REFUSED:
            return False
        raise
    return True


def ensure_search_index(meta: DocumentCollection, wanted: Sequence[Index], *, best_effort: bool = True) -> None:
    """Make the indexes of objects that are missing. ``best_effort``: a user who may not make them does without, and is
    warned."""
    if not wanted:
        return
    try:
        # One request where all are there, which the server answers without work.
        meta.create_indexes([index.model for index in wanted])
    except OperationFailure as error:
        if error.code not in (*_REFUSED, *_CONFLICTS):
            raise
        _make_one_by_one(meta, wanted, best_effort)


def _make_one_by_one(meta: DocumentCollection, wanted: Sequence[Index], best_effort: bool) -> None:
    """Make the indexes that no other one serves for."""
    try:
        present = meta.index_information()
        for index in wanted:
            if not index.is_in(present):
                meta.create_indexes([index.model])
    except OperationFailure as error:
        if not best_effort or error.code not in (*_REFUSED, *_CONFLICTS):
            raise
        why = "the server refuses this user" if error.code in _REFUSED else f"the server says: {error}"
        remedy = "let somebody who may run hyperslab db index URL, or say search_index=False"
        warnings.warn(
            f"{meta.full_name} lacks indexes ({why}): each look-up reads all objects; {remedy}",
            UserWarning,
            stacklevel=3,
        )


def ensure_write_indexes(here: Collections, wanted: Sequence[Index]) -> None:
    """Make what is missing before a first write, as far as this user may: the index by chunk, and these of objects."""
    ensure_index(here.chunks, best_effort=True)
    ensure_search_index(here.meta, wanted)


# -- telling ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexState:
    """One index of a collection: what is found by it, whether it ``is_present``, and what its absence costs.
    ``is_optional``: writers make it only where that is chosen."""

    collection: str
    name: str
    purpose: str
    is_present: bool
    cost: str = ""
    is_optional: bool = False


def describe_indexes(here: Collections) -> Iterator[IndexState]:
    """Yield the indexes that look-ups need, those by attributes that are there, and the positional one."""
    objects, segments = here.meta.estimated_document_count(), here.chunks.estimated_document_count()
    present = here.meta.index_information()
    for index in SEARCH_INDEXES:
        there = index.is_in(present)
        yield _state(here.meta, index, there, f"each look-up reads the documents of all {objects:,} objects")
    for options in present.values():
        first = options["key"][0][0]
        if first.startswith("attrs.") and is_plain_word(first[6:]):
            chosen = attribute_index(first[6:])
            yield IndexState(here.meta.name, chosen.name, chosen.purpose, is_present=True, is_optional=True)
    there = KEY_INDEX.is_in(here.chunks.index_information())
    yield _state(here.chunks, KEY_INDEX, there, f"each read of chunks reads all {segments:,} documents of chunks")
    widest = next(iter(_positional(here.chunks)), None)
    name = _name(POSITIONS, False) if widest is None else widest[2]
    cost = "optional: without it one of n x n chunks takes 2 n keys where ids are not derived"
    there = widest is not None
    yield IndexState(here.chunks.name, name, "one chunk by one key", there, "" if there else cost, is_optional=True)


def _state(collection: DocumentCollection, index: Index, is_present: bool, cost: str) -> IndexState:
    return IndexState(collection.name, index.name, index.purpose, is_present, "" if is_present else cost)


# -- the positional index ---------------------------------------------------------------------------------------------


POSITIONS = 8
"""Positions of a chunk that a positional index covers, unless an object has more dimensions."""
MOST_POSITIONS = 29
"""An index has at most 32 fields; ``meta_id``, ``name`` and ``n`` are three of them."""
_POSITION = re.compile(r"chunk\.(\d+)")
# Documents that a warning names: enough to see of which object they are.
_SHOWN = 5


def positional_index(positions: int) -> Fields:
    """Return the index that finds a chunk by one key, whatever its neighbours."""
    return [("meta_id", 1), ("name", 1), *((f"chunk.{axis}", 1) for axis in range(positions)), ("n", 1)]


def ensure_positional(chunks: DocumentCollection, positions: int = POSITIONS, *, unique: bool = False) -> bool:
    """Make a positional index that covers at least so many positions, and return whether it is unique.

    One that cannot be unique (documents that are there twice, or more positions than an index has fields) is made
    otherwise, with a warning. One of ours that is narrower is replaced.
    """
    positions = max(positions, POSITIONS)
    if positions > MOST_POSITIONS:
        if unique:
            _warn(f"an index covers {MOST_POSITIONS} dimensions, not {positions}")
        positions, unique = MOST_POSITIONS, False
    present = _positional(chunks)
    if not any(covers >= positions and is_unique >= unique for covers, is_unique, _ in present):
        unique = unique and _make_positional(chunks, positions, unique=True)
        if not unique:
            _make_positional(chunks, positions, unique=False)
    for covers, is_unique, name in present:
        if covers < positions and name == _name(covers, is_unique):
            try:
                chunks.drop_index(name)
            except OperationFailure as error:
                if error.code != _NO_INDEX:
                    raise
    return any(is_unique for _, is_unique, _ in _positional(chunks))


def find_duplicates(chunks: DocumentCollection, limit: int | None = None) -> list[tuple[Any, Key, Any]]:
    """Return object, chunk and n of documents that are there more than once, which none should be."""
    key = {"meta_id": "$meta_id", "name": "$name", "chunk": "$chunk", "n": "$n"}
    pipeline: list[MutableDocument] = [
        {"$group": {"_id": key, "count": {"$sum": 1}}},
        {"$match": {"count": {"$gt": 1}}},
        *([{"$limit": limit}] if limit else []),
    ]
    found: list[tuple[Any, Key, Any]] = []
    for row in (row["_id"] for row in chunks.aggregate(pipeline, allowDiskUse=True)):
        chunk = row.get("chunk")
        index = tuple(chunk) if isinstance(chunk, list) else None
        found.append((row.get("meta_id"), (str(row.get("name")), index), row.get("n")))
    return found


def _positional(chunks: DocumentCollection) -> list[tuple[int, bool, str]]:
    """Return how many positions each positional index covers, whether it is unique, and its name; the widest first."""
    found = []
    for name, index in chunks.index_information().items():
        fields = [field for field, _ in index["key"]]
        positions = sum(bool(_POSITION.fullmatch(field)) for field in fields)
        if positions and fields == [field for field, _ in positional_index(positions)]:
            found.append((positions, bool(index.get("unique")), name))
    return sorted(found, reverse=True)


def _name(positions: int, unique: bool) -> str:
    return f"hyperslab_{positions}_positions{'_unique' if unique else ''}"


def _make_positional(chunks: DocumentCollection, positions: int, *, unique: bool) -> bool:
    """Make the index; False where documents stand in the way of a unique one."""
    try:
        name = _name(positions, unique)
        chunks.create_index(positional_index(positions), name=name, background=True, unique=unique)
    except OperationFailure as error:
        if error.code != _DUPLICATE_KEY:
            raise
        found = find_duplicates(chunks, _SHOWN + 1)
        shown = ", ".join(f"{meta_id} {format_key(key)} n={n}" for meta_id, key, n in found[:_SHOWN])
        _warn(f"documents are stored more than once: {shown}{' and more' if len(found) > _SHOWN else ''}")
        return False
    return True


def _warn(why: str) -> None:
    message = f"the positional index is not unique: {why}; hyperslab check finds them, repair removes copies"
    warnings.warn(message, UserWarning, stacklevel=4)
