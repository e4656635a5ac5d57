"""Where the chunks of an object lie under the one face: how they are asked for, and how they get there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperslab.chunks.pool import batched
from hyperslab.errors import Conflict, NotFound
from hyperslab.formats.mongo import changes, stored
from hyperslab.formats.mongo.ids import Chunk
from hyperslab.formats.mongo.segments import Key, Segment
from hyperslab.formats.mongo.undo import ChunkUndo, UndoView

if TYPE_CHECKING:
    from pymongo.collection import Collection

_TOGETHER = 16
"""Chunks that are asked for at once before they are changed."""
Keyed = tuple[Key, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCollection:
    """Where the chunks of an object lie. ``derived``: by ids that follow from their keys (None: nobody knows yet);
    ``unstored``: told before chunks are erased; None where nothing is to be changed; ``wrote``: told after writing.

    ``past``: the chunks that somebody changes, which are read as they were; ``undo``: how others may take back what is
    changed here, None for an object that is still being made. ``meta``: where its document is."""

    collection: Collection[Any]
    meta_id: Any
    url: str
    chunk_size: int
    derived: bool | None = None
    unstored: Callable[[str], None] | None = None
    wrote: Callable[[], None] | None = None
    past: UndoView
    meta: Collection[Any]
    undo: ChunkUndo | None = None

    def fetch(
        self, name: str, wanted: Sequence[Chunk], derived: bool, notice: Callable[[Mapping[str, Any]], None]
    ) -> dict[Chunk, list[Segment]]:
        """The documents of these chunks; those that somebody changes as they were."""
        found = self.past.fetch(self.collection, name, wanted)
        rest = [chunk for chunk in wanted if chunk not in found]
        target = self.collection
        found |= stored.fetch(target, self.meta_id, name, rest, derived=derived, notice=notice)
        if len(found) < len(wanted):
            self.check_there()
        return found

    def check_there(self) -> None:
        """Return whether the object is still there, of which documents are missing: they go after its own. A reader
        is told to read anew (Conflict), a writer that there is nothing to be changed (NotFound).
        """
        if self.meta.find_one({"_id": self.meta_id}, {"_id": 1}) is not None:
            return
        if self.unstored is not None:
            raise NotFound("the object is gone", url=self.url, key=str(self.meta_id), remedy="open it again")
        message = "the object was removed, or another one has taken its place"
        raise Conflict(message, url=self.url, key=str(self.meta_id), remedy="open it again")

    def store(self, keyed: Iterable[Keyed], durable: bool) -> None:
        """Put chunks in the place of what may be there."""
        target = changes.durably(self.collection, durable)
        plain = keyed if self.undo is None else self._not_undoable(target, keyed, self.undo)
        if self.derived:
            stored.put(target, (doc for _, docs in plain for doc in docs))
            return
        for key, docs in plain:
            changes.replace_chunk(target, self.meta_id, key, docs)

    def _not_undoable(self, target: Collection[Any], keyed: Iterable[Keyed], undo: ChunkUndo) -> Iterator[Keyed]:
        """Those that one command stores; the others are stored so that they can be taken back."""
        for some in batched(keyed, _TOGETHER):
            needed = undo.needed({key: len(docs) for key, docs in some})
            undo.free(key for key, _ in some if key not in needed)
            for key, docs in some:
                if key in needed:
                    changes.replace_undoably(target, self.meta_id, key, docs, undo)
                else:
                    yield key, docs

    def erase(self, name: str, wanted: Sequence[Chunk]) -> None:
        """Forget chunks, by one command, those whose length changes so that it can be taken back."""
        undo, keys = self.undo, [(name, chunk) for chunk in wanted]
        needed = set() if undo is None or undo.held is None else undo.needed(dict.fromkeys(keys, 0))
        if undo is not None:
            undo.free(key for key in keys if key not in needed)
            for key in needed:
                with undo.during(key) as mark:
                    mark.changed = True
        self.collection.delete_many(stored.query(self.meta_id, name, wanted))
