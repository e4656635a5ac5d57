"""Changes of chunks that are taken back where the one who makes them dies: readers see the old chunk or the new one.

A chunk of several documents is changed one document after the other. So its documents are first copied under an id of
their own, and the document of the object says so (``hyperslab.undo``): from then on readers take the copies, until the
change is done and the entry gone. An entry whose time has passed is rolled back by whoever changes the object next. The
entry of a chunk whose length changes stays until the same change of the object's document that says the new length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hyperslab.errors import HyperslabError, NotFound
from hyperslab.formats.mongo import stored
from hyperslab.formats.mongo.document import OURS
from hyperslab.formats.mongo.ids import Chunk, Derived
from hyperslab.formats.mongo.lease import FIELD as LEASE
from hyperslab.formats.mongo.segments import Key, Segment, parse_key, show
from hyperslab.stores.attempts import attempts, beaten

if TYPE_CHECKING:
    from pymongo.collection import Collection

FIELD = f"{OURS}.undo"
SECONDS = 30.0
"""How long a change may take at least; one of many bytes takes longer."""
_PER_SECOND = 1 << 20
_WAS = "was"
_VERSION = f"{OURS}.version"
_COUNTED = {_VERSION: {"$add": [{"$ifNull": [f"${_VERSION}", 0]}, 1]}}
_TRIES = 3


@dataclass(frozen=True, slots=True)
class UndoEntry:
    """A chunk that is being changed: ``place`` in the field, ``id`` that its copies lie under, and how many there are;
    None while they are made, when the chunk itself is still what it was."""

    place: str
    id: Any
    key: Key
    count: int | None = None

    @property
    def path(self) -> str:
        """Of the entry in the document of the object."""
        return f"{FIELD}.{self.place}"


def entries(ours: Any) -> dict[Key, UndoEntry]:
    """What the field ``hyperslab`` of an object tells of chunks that are being changed."""
    told = ours.get("undo") if isinstance(ours, Mapping) else None
    found = {}
    for place, value in told.items() if isinstance(told, Mapping) else ():
        with suppress(HyperslabError, AttributeError):
            key = parse_key(value)
            found[key] = UndoEntry(place, value.get("id"), key, value.get("documents"))
    return found


def copies(doc: Mapping[str, Any] | None) -> list[Any]:
    """The ids that copies lie under, by the document of an object."""
    return [entry.id for entry in entries((doc or {}).get(OURS)).values()]


def named(meta: Collection[Any]) -> set[Any]:
    """The ids that copies lie under, of all objects."""
    return {id for doc in meta.find({FIELD: {"$exists": True}}, {FIELD: 1}) for id in copies(doc)}


def _told(meta: Collection[Any], meta_id: Any) -> dict[Key, UndoEntry]:
    return entries((meta.find_one({"_id": {"$eq": meta_id}}, {FIELD: 1}) or {}).get(OURS))


# -- reading ----------------------------------------------------------------------------------------------------------


class UndoView:
    """What a reader goes by: the chunks whose old documents lie apart, but for those that are its own (``mine``)."""

    def __init__(
        self,
        meta: Collection[Any],
        meta_id: Any,
        known: Mapping[Key, UndoEntry],
        mine: Mapping[Key, UndoEntry] | None = None,
    ) -> None:
        self._meta = meta
        self._meta_id = meta_id
        self._known = known
        self._mine: Mapping[Key, UndoEntry] = {} if mine is None else mine

    def holds(self, key: Key) -> bool:
        """Return whether a chunk is being changed, as far as is known."""
        entry = self._known.get(key)
        return entry is not None and entry.count is not None and self._mine.get(key) != entry

    def fetch(self, chunks: Collection[Any], name: str, wanted: Iterable[Chunk]) -> dict[Chunk, list[Segment]]:
        """The old documents of those that are being changed; a chunk that had none has none. The others, and those
        whose change is done, have no entry: they are read from their place."""
        found = {}
        for chunk in wanted:
            if self.holds((name, chunk)) and (old := self._old(chunks, (name, chunk))) is not None:
                found[chunk] = old
        return found

    def _old(self, chunks: Collection[Any], key: Key) -> list[Segment] | None:
        for _ in range(_TRIES):
            if not self.holds(key):
                return None
            entry = self._known[key]
            segments = stored.fetch(chunks, entry.id, key[0], [key[1]]).get(key[1], [])
            if segments and len(segments) == entry.count:
                return segments
            self._known = _told(self._meta, self._meta_id)
            if not entry.count and self._known.get(key) == entry:
                return []
        return None


def settled(ours: Mapping[str, Any], held: Mapping[Key, UndoEntry]) -> dict[str, Any] | None:
    """The field ``hyperslab`` once these changes are done; None where somebody has taken one of them back."""
    told = dict(ours.get("undo") or {})
    for entry in held.values():
        found = told.pop(entry.place, None)
        if not isinstance(found, Mapping) or found.get("id") != entry.id:
            return None
    rest = {name: value for name, value in ours.items() if name != "undo"}
    return {**rest, "undo": told} if told else rest


# -- changing ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Mark:
    """True if anything of a chunk was changed yet."""

    changed: bool = False


@dataclass(slots=True, kw_only=True)
class ChunkUndo:
    """Changes of the chunks of one object. ``owner``: the name under which the object is held.

    ``held``: entries that stay until :meth:`end`, since the length of chunks changes; ``shown`` tells which chunks
    others see at all. None where a change is done once the chunk is.
    """

    meta: Collection[Any]
    chunks: Collection[Any]
    meta_id: Any
    url: str
    patience: float | None = 60
    owner: str | None = None
    held: dict[Key, UndoEntry] | None = None
    shown: Callable[[Key], bool] = field(default=lambda key: True)

    def needed(self, counts: Mapping[Key, int]) -> set[Key]:
        """Which of these chunks, that are to have so many documents, are not changed by one command."""
        if self.held is not None:
            return {key for key in counts if self.shown(key)}
        found: dict[Key, int] = dict(counts)
        for name in dict.fromkeys(name for name, _ in counts):
            wanted = stored.query(self.meta_id, name, [chunk for one, chunk in counts if one == name])
            present: dict[Key, int] = {}
            for row in self.chunks.find(wanted, {"name": 1, "chunk": 1}):
                present[parse_key(row)] = present.get(parse_key(row), 0) + 1
            found |= {key: max(count, found.get(key, 0)) for key, count in present.items()}
        return {key for key, count in found.items() if count > 1}

    def version(self) -> Any:
        """Counts the changes that others begin, end and take back; None where there were none."""
        doc = self.meta.find_one({"_id": {"$eq": self.meta_id}}, {_VERSION: 1}) or {}
        return (doc.get(OURS) or {}).get("version")

    def free(self, keys: Iterable[Key]) -> None:
        """Chunks that are about to be changed by one command: nobody else changes them, or died of it. Conflict."""
        keys = list(keys)
        for attempt in attempts(self.patience):
            with attempt:
                told = _told(self.meta, self.meta_id)
                for entry in (told[key] for key in keys if key in told and told[key] != (self.held or {}).get(key)):
                    self._pass(entry)

    def _pass(self, entry: UndoEntry) -> None:
        if not roll_back(self.meta, self.chunks, self.meta_id, entry):
            raise beaten(self.url, show(entry.key))

    @contextmanager
    def during(self, key: Key) -> Iterator[Mark]:
        """Change one chunk: it is as it was until the end of the block, and again where that fails. Conflict."""
        mark = Mark()
        if self.held is not None and key in self.held:
            yield mark
            return
        entry = self._begin(key)
        if self.held is not None:
            self.held[key] = entry
        try:
            yield mark
        except BaseException:
            from pymongo.errors import PyMongoError

            with suppress(PyMongoError, HyperslabError):  # else it is rolled back by the next one
                self._take_back(entry, mark.changed)
            raise
        if self.held is None:
            self.end([entry])

    def _take_back(self, entry: UndoEntry, changed: bool) -> None:
        if self.held is not None:
            self.held.pop(entry.key, None)
        if changed:
            roll_back(self.meta, self.chunks, self.meta_id, entry, lapsed=False)
        else:
            self.end([entry])

    def _begin(self, key: Key) -> UndoEntry:
        from bson import ObjectId

        entry = UndoEntry(str(Derived(self.meta_id)(*key, 0)), ObjectId(), key)
        for attempt in attempts(self.patience):
            with attempt:
                self._enter(entry)
        count, held = self._copy(entry)
        change = {f"{entry.path}.documents": count, f"{entry.path}.until": _later(held), **_COUNTED}
        found = self.meta.update_one({"_id": self.meta_id, f"{entry.path}.id": entry.id}, [{"$set": change}])
        if not found.matched_count:
            raise beaten(self.url, show(key))
        return replace(entry, count=count)

    def _enter(self, entry: UndoEntry) -> None:
        name, chunk = entry.key
        where = {"name": {"$literal": name}, "chunk": {"$literal": None if chunk is None else list(chunk)}}
        value = {"id": entry.id, **where, "owner": {"$literal": self.owner}, "until": _later(0)}
        free: dict[str, Any] = {"_id": self.meta_id, entry.path: {"$exists": False}}
        if self.owner is not None:
            free[f"{LEASE}.owner"] = self.owner
        if self.meta.update_one(free, [{"$set": {entry.path: value, **_COUNTED}}]).matched_count:
            return
        other = _told(self.meta, self.meta_id).get(entry.key)
        if other is not None:
            self._pass(other)
            self._enter(entry)
            return
        if self.meta.find_one({"_id": self.meta_id}, {"_id": 1}) is None:
            raise NotFound("the object is gone", url=self.url, key=str(self.meta_id))
        raise beaten(self.url, show(entry.key))

    def _copy(self, entry: UndoEntry) -> tuple[int, int]:
        """How many documents were copied, and their bytes."""
        from bson import ObjectId

        docs = self.chunks.find(stored.query(self.meta_id, entry.key[0], [entry.key[1]]))
        count = held = 0
        for batch in stored.batches({**doc, "_id": ObjectId(), _WAS: doc["_id"], "meta_id": entry.id} for doc in docs):
            self.chunks.insert_many(batch)
            count += len(batch)
            held += sum(len(value) for doc in batch for value in doc.values() if isinstance(value, bytes))
        return count, held

    def end(self, done: Iterable[UndoEntry]) -> None:
        """Changes that are done: readers take the chunks from their places."""
        for entry in done:
            _leave(self.meta, self.meta_id, entry)
            self.chunks.delete_many({"meta_id": entry.id})

    def close(self, *, failed: bool = False, keep: Iterable[Key] = ()) -> None:
        """End what is held, or take it back."""
        kept = set(keep)
        for key, entry in list((self.held or {}).items()):
            if key in kept:
                continue
            if failed:
                roll_back(self.meta, self.chunks, self.meta_id, entry, lapsed=False)
            else:
                self.end([entry])
            (self.held or {}).pop(key, None)


def _later(held: int) -> dict[str, Any]:
    return {"$add": ["$$NOW", int(1000 * (SECONDS + held / _PER_SECOND))]}


def _leave(meta: Collection[Any], meta_id: Any, entry: UndoEntry) -> None:
    """Remove an entry, and the field with the last one."""
    rest = {"$cond": [{"$eq": [f"${FIELD}", {}]}, "$$REMOVE", f"${FIELD}"]}
    wanted = {"_id": meta_id, f"{entry.path}.id": entry.id}
    meta.update_one(wanted, [{"$unset": entry.path}, {"$set": {FIELD: rest, **_COUNTED}}])


# -- taking back ------------------------------------------------------------------------------------------------------


def _lapsed(entry: UndoEntry) -> dict[str, Any]:
    """Return whether its time has passed, and whoever made it does not hold the object any more."""
    held = [{"$eq": [f"${entry.path}.owner", f"${LEASE}.owner"]}, {"$gt": [f"${LEASE}.until", "$$NOW"]}]
    return {"$and": [{"$lt": [f"${entry.path}.until", "$$NOW"]}, {"$not": [{"$and": held}]}]}


def lapsed(meta: Collection[Any], meta_id: Any) -> list[UndoEntry]:
    """The entries whose time has passed."""
    told = _told(meta, meta_id).values()
    return [one for one in told if meta.find_one({"_id": meta_id, "$expr": _lapsed(one)}, {"_id": 1}) is not None]


def roll_back(
    meta: Collection[Any], chunks: Collection[Any], meta_id: Any, entry: UndoEntry, *, lapsed: bool = True
) -> bool:
    """Make a chunk what it was; False where that is not to be done, as long as its time has not passed."""
    wanted = {"_id": meta_id, f"{entry.path}.id": entry.id, **({"$expr": _lapsed(entry)} if lapsed else {})}
    claimed = {f"{entry.path}.until": _later(0), f"{entry.path}.owner": None, **_COUNTED}
    if not meta.update_one(wanted, [{"$set": claimed}]).matched_count:
        return False
    if entry.count is not None and chunks.count_documents({"meta_id": entry.id}) == entry.count:
        _restore(chunks, meta_id, entry)
    _leave(meta, meta_id, entry)
    chunks.delete_many({"meta_id": entry.id})
    return True


def _restore(chunks: Collection[Any], meta_id: Any, entry: UndoEntry) -> None:
    from pymongo import ReplaceOne

    known = []
    for batch in stored.batches(chunks.find({"meta_id": entry.id})):
        docs = [{**doc, "_id": doc[_WAS], "meta_id": meta_id} for doc in batch]
        known += [doc["_id"] for doc in docs]
        plain = [{name: value for name, value in doc.items() if name != _WAS} for doc in docs]
        chunks.bulk_write([ReplaceOne({"_id": doc["_id"]}, doc, upsert=True) for doc in plain])
    chunks.delete_many({**stored.query(meta_id, entry.key[0], [entry.key[1]]), "_id": {"$nin": known}})


def put_back(meta: Collection[Any], chunks: Collection[Any], meta_id: Any, entry: UndoEntry) -> None:
    """Roll back a change whose time has passed, unless somebody else has."""
    roll_back(meta, chunks, meta_id, entry)


def roll_back_all(meta: Collection[Any], chunks: Collection[Any], meta_id: Any) -> bool:
    """Roll back all whose time has passed; whether there were any."""
    return bool(sum(roll_back(meta, chunks, meta_id, entry) for entry in lapsed(meta, meta_id)))
