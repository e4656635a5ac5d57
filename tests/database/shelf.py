"""A holding in memory whose writers may stop half-way, as those of a store do when they die."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from hyperslab.errors import StorageError
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.model.schemas import AnyArraySchema, Record
from hyperslab.model.schemas.arrays import key_of


class Shelf:
    """Records in parts by the first letters of their ids; several indexes may look at it.

    ``asked`` counts what was asked for, and how many records were read.
    """

    index_database = None

    def __init__(self, schema: AnyArraySchema, *, letters: int = 1) -> None:
        self.document = CollectionDocument("shelf", schema)
        self.documents: dict[str, tuple[int, Record]] = {}
        self.keys: dict[tuple[Any, ...], str] = {}
        self.marked: set[str] = set()
        self.damaged: set[str] = set()
        self.broken = False
        self.asked: dict[str, int] = {}
        self._counting = threading.Lock()
        self._stamps: dict[str, int] = {}
        self._letters = letters
        self._clock = 0

    # -- writers ----------------------------------------------------------------------------------------------------

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _generation(self, id: str) -> None:
        self._stamps[id[: self._letters]] = self._tick()

    def begin(self, record: Record) -> None:
        """A creation up to its commit."""
        self.documents[record.id] = (self._tick(), record)
        self._generation(record.id)

    def commit(self, id: str) -> None:
        """The rest of it."""
        self.keys[self._key(self.documents[id][1])] = id

    def create(self, records: Iterable[Record]) -> None:
        for record in records:
            self.begin(record)
            self.commit(record.id)

    def change(self, record: Record, *, dies: bool = False) -> None:
        """An update, of a writer that may die before it says so."""
        self.marked.add(record.id)
        self.documents[record.id] = (self._tick(), record)
        if not dies:
            self._generation(record.id)
            self.marked.discard(record.id)

    def remove(self, id: str, *, dies: bool = False) -> None:
        """A removal, of a writer that may die after its first step."""
        self.keys.pop(self._key(self.documents[id][1]), None)
        if not dies:
            del self.documents[id]
            self._generation(id)

    def _key(self, record: Record) -> tuple[Any, ...]:
        return key_of(self.document.schema, record) or (record.id,)

    # -- readers ----------------------------------------------------------------------------------------------------

    def _count(self, what: str, many: int = 1) -> None:
        with self._counting:  # an index lists parts by several threads
            self.asked[what] = self.asked.get(what, 0) + many
        if self.broken:
            raise StorageError("the disk is gone")

    @property
    def living(self) -> list[Record]:
        """What a collection of these is, by definition."""
        return [record for id, (_, record) in self.documents.items() if self.keys.get(self._key(record)) == id]

    def generations(self) -> Mapping[str, int]:
        self._count("generations")
        return dict(self._stamps)

    def list_part(self, part: str) -> Mapping[str, int]:
        self._count("list_part")
        return {id: stamp for id, (stamp, _) in dict(self.documents).items() if id.startswith(part)}

    def list_changes(self) -> tuple[Mapping[str, Any], Collection[str]]:
        return self.generations(), self.unsettled_ids()

    def unsettled_ids(self) -> Collection[str]:
        return set(self.marked)

    def records(self, ids: Iterable[str]) -> Iterator[Record]:
        for id in ids:
            self._count("records")
            if id in self.documents and id not in self.damaged:
                yield self.documents[id][1]

    def filter_committed(self, records: Iterable[Record]) -> Iterator[Record]:
        return (record for record in records if self.keys.get(self._key(record)) == record.id)

    def stamp(self, id: str) -> int | None:
        return self.documents[id][0] if id in self.documents else None

    def id_of(self, key: tuple[object, ...]) -> str | None:
        self._count("id_of")
        return self.keys.get(key)
