"""What dead writers left of a collection, and keys that are no part of one, with what takes them away."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial

from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, NodeNotFound, Problem, StorageError, Unsupported
from hyperslab.formats.collections.own.documents import (
    CREATING,
    DOCUMENT,
    FOLDERS,
    GENERATIONS,
    INDEX,
    JOURNAL,
    KEYS,
    STAGED,
    UNSETTLED,
    part_of,
)
from hyperslab.formats.collections.own.store import (
    StoredCollection,
    creation_names,
    is_under_way,
    remove_creation_marker,
)
from hyperslab.formats.collections.own.tile_transaction import TileTransaction
from hyperslab.formats.collections.own.tiles import Tiles
from hyperslab.formats.rules import Finding
from hyperslab.model.schemas.arrays import is_id


def finding_at(
    node: str,
    kind: str,
    message: str,
    key: str,
    action: str | None = None,
    act: Callable[[], None] | None = None,
    keep: tuple[str, ...] = (),
) -> Finding:
    """Return a problem at a key with what mends it, which may lose what lies at the keys ``keep``."""
    return Finding(Problem(node, kind, f"{message} [key={key}]"), action, act, keep, key=key)


def mark_settled(collection: StoredCollection, id: str) -> None:
    """Have whoever knows an array look at it anew: it is settled."""
    collection.store.touch(collection.keys.generation(part_of(id)), durable=True)
    collection.store.delete(collection.keys.unsettled(id))


class CollectionOrphans:
    """What is left over in a collection; whose writers are at work now is known from when this is made."""

    def __init__(self, collection: StoredCollection) -> None:
        self._collection = collection
        self._store = collection.store
        self._keys = collection.keys
        self._unsettled = set(collection.unsettled_ids())

    def find_damage(self, ids: Collection[str]) -> Iterator[Finding]:
        """Yield all of it with what takes it away; ``ids``: of the arrays that have documents."""
        yield from self._leftovers(ids)
        yield from self._strays(ids)

    def _leftovers(self, ids: Collection[str]) -> Iterator[Finding]:
        for id in sorted(self._unsettled.intersection(self._collection.unsettled_ids())):
            key = self._keys.unsettled(id)
            act = partial(self._settle, id)
            message = "a writer died, or is at work, while it changed or removed the array"
            yield finding_at(self._collection.node(id), "unsettled", message, key, "look at the array anew", act)
        for name in () if is_under_way(self._store, self._keys) else creation_names(self._store, self._keys):
            key = f"{self._keys.folder(CREATING)}/{name}"
            act = partial(remove_creation_marker, self._store, self._keys, name)
            message = "a writer died, or is at work, while it made many arrays"
            yield finding_at(self._keys.name, "leftover", message, key, "remove what tells of it", act)
        tiled = set()
        for folder, place in ((JOURNAL, 0), (STAGED, 1)):
            for name in self._store.list_dir(self._keys.folder(folder))[place]:
                if name in ids:
                    tiled.add(name)
                else:
                    key = f"{self._keys.folder(folder)}/{name}"
                    act = partial(self._drop_prefix, name, key)
                    yield finding_at(
                        self._collection.node(name), "leftover", "the array is gone", key, "remove it", act
                    )
        for id in sorted(tiled):
            with suppress(NodeNotFound, FormatError, Unsupported):
                source = self._collection.chunks(id, self._collection.spec(id))
                yield from tile_orphans(source, self._collection.node(id))

    def _settle(self, id: str) -> None:
        try:
            with self._collection.lock(id):
                mark_settled(self._collection, id)
        except NodeNotFound:
            mark_settled(self._collection, id)

    def _drop_prefix(self, id: str, key: str) -> None:
        if not is_id(id) or self._store.stamp(self._keys.array_document(id)) is None:
            self._store.delete_prefix(key)

    def _strays(self, ids: Collection[str]) -> Iterator[Finding]:
        """Yield keys that belong to no collection, and unfinished writes."""
        files, names = self._store.list_dir(self._keys.base)
        for name in sorted({*files, *names} - {DOCUMENT, INDEX, *FOLDERS}):
            key = f"{self._keys.base}/{name}"
            yield finding_at(self._keys.name, "stray", "this is no part of a collection", key)
        folders = [self._keys.folder(name) for name in (KEYS, GENERATIONS, UNSETTLED, JOURNAL)]
        arrays = [self._keys.array(id) for id in sorted(ids)]
        for folder in [self._keys.base, *folders, *arrays]:
            yield from self._unfinished(folder)

    def _unfinished(self, folder: str) -> Iterator[Finding]:
        for stray in self._store.strays(folder):
            key = f"{folder}/{stray.name}"
            if stray.kind != "temporary":
                yield finding_at(self._keys.name, stray.kind, "this is no value", key)
            elif stray.is_abandoned:
                act = partial(self._store.expel, key, None)
                yield finding_at(self._keys.name, "unfinished-write", "a writer died", key, "remove it", act)


# -- what writers over several tiles left who died --------------------------------------------------------------------


def tile_orphans(source: ChunkSource, node: str = "") -> Iterator[Finding]:
    """Yield those of one array, the ``node``; it is read as it should be meanwhile, but for a damaged journal."""
    if not isinstance(source, Tiles):
        return
    transaction = source.tile_transaction
    try:
        _, last = transaction.journal.read()
    except (FormatError, StorageError) as error:
        message = f"the journal of writes over several tiles is damaged: {error.message}"
        action = "remove it; a write whose tiles are not all in their places stays in parts"
        yield finding_at(node, "journal", message, transaction.journal.key, action, partial(_forget, transaction))
        return
    tidy = partial(_tidy, transaction)
    if last is not None and last.pending:
        message = "a writer died, or is at work, before all tiles of its write were in their places"
        yield finding_at(node, "unsettled", message, transaction.journal.key, "put them there", tidy)
    pending = last.txn if last is not None and last.pending else None
    names, _ = transaction.keys.store.list_dir(transaction.staging_folder)
    if any(name.partition(".")[0] != pending for name in names):
        message = "a writer died, or is at work, before its write over several tiles counted"
        yield finding_at(node, "leftover", message, transaction.staging_folder, "remove what it left", tidy)


def _forget(transaction: TileTransaction) -> None:
    with transaction.lock_array(transaction.keys.settings.lock_timeout):
        transaction.journal.remove()


def _tidy(transaction: TileTransaction) -> None:
    with transaction.lock_tiles((), transaction.keys.settings.lock_timeout, several=True):
        transaction.remove_abandoned()
