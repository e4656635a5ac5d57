"""Collections of our own layout: found, opened and made below a root; their arrays made, changed and removed.

What changes a collection is in ``OwnCollectionStore``; its base, ``StoredCollection`` in :mod:`.store`, has what is
read and how arrays are created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import (
    AlreadyExists,
    Conflict,
    FormatError,
    NodeNotFound,
    NotFound,
    Problem,
    SchemaError,
    StorageError,
)
from hyperslab.formats.collections import base
from hyperslab.formats.collections.base import CollectionDocument, CollectionStore, Layout, LayoutName, record_of
from hyperslab.formats.collections.own.documents import (
    COLLECTIONS,
    FOLDERS,
    INDEX_FILES,
    KEYS,
    CollectionKeys,
    part_of,
)
from hyperslab.formats.collections.own.rules import RULES, CollectionDamage
from hyperslab.formats.collections.own.store import CollectionCreation, StoredCollection
from hyperslab.formats.documents import read_document
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.rules import Finding
from hyperslab.model.schemas.arrays import Record, check_collection_name
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Store
from hyperslab.stores.location import Location

NAME: LayoutName = "hyperslab"


class OwnLayout(Layout):
    """Collections under ``collections/<name>/collection.json``."""

    name = NAME

    def names(self, where: Location) -> Iterable[str]:
        """Return the collections of this layout, sorted; what is none is passed over."""
        try:
            store = where.store(read_only=True)
        except NotFound:
            return []
        return sorted(name for name in store.list_dir(COLLECTIONS)[1] if _is_name(name) and _is_there(store, name))

    def open(self, where: Location, name: str, settings: Settings, *, writable: bool) -> OwnCollectionStore | None:
        """Return a collection; None when there is none of this name and layout; FormatError when its document is
        damaged."""
        if not _is_name(name):
            return None
        try:
            store = where.store(read_only=not writable)
        except NotFound:
            return None
        key = CollectionKeys(name).document
        data = store.get(key)
        if data is None:
            return None
        try:
            document = replace(base.parse_document(read_document(data, key), name), layout=NAME)
        except FormatError as error:
            raise error.locate(url=store.url, node=name, key=key) from error.__cause__
        return OwnCollectionStore(store, document, data, settings)

    def create(self, where: Location, document: CollectionDocument, settings: Settings) -> OwnCollectionStore:
        """Make a new collection; AlreadyExists when the name is taken, Unsupported for filters that we have not."""
        keys = CollectionKeys(check_collection_name(document.name))
        store = where.store(read_only=False, create=True)
        data = base.document_bytes(document)
        made = OwnCollectionStore(store, document, data, settings)
        _ = made.documents.template  # what cannot be stored is refused before anything is
        taken = AlreadyExists(f"the collection {document.name!r} exists", url=where.url, node=document.name)
        if _is_taken(store, keys):  # before a folder is made for the lock
            raise taken
        with store.lock_node(keys.base, settings.lock_timeout):
            if _is_taken(store, keys):
                raise taken
            for folder in FOLDERS:  # of one that was not removed to the end
                store.delete_prefix(keys.folder(folder))
            for name in INDEX_FILES:
                store.delete(f"{keys.base}/{name}")
            try:
                store.put_new([(keys.document, data)], durable=settings.durable)
            except Conflict:
                raise taken from None
        return made

    def find_damage(self, where: Location) -> Iterable[Finding]:
        """Yield what a reader of collection documents survives, folders whose names are not those of collections, and
        what is left of a collection whose remover died."""
        try:
            store = where.store(read_only=True)
        except NotFound:
            return
        for name in store.list_dir(COLLECTIONS)[1]:
            yield from map(Finding, _problems_of(store, name))
            if _is_left_over(store, name):
                base = CollectionKeys(name).base
                problem = Problem(name, "leftover", f"a collection was not removed to the end [key={base}]")
                yield Finding(problem, "remove what is left", partial(_remove_rest, where, name), key=base)


LAYOUT = OwnLayout()


def _is_taken(store: Store, keys: CollectionKeys) -> bool:
    """Return True if a collection of this name is there, in this layout or in DEKER's."""
    return any(store.size(key) is not None for key in (keys.document, f"{keys.base}/{keys.name}.json"))


def _is_there(store: Store, name: str) -> bool:
    """Return True if a collection has a document; of one that cannot be read, opening the collection tells."""
    try:
        return store.size(CollectionKeys(name).document) is not None
    except StorageError:
        return True


def _is_left_over(store: Store, name: str) -> bool:
    """Return True if a folder has parts of a collection, and nothing else."""
    names, folders = store.list_dir(CollectionKeys(name).base)
    return bool(folders) and {*names, *folders} <= {*FOLDERS, *INDEX_FILES}


def _remove_rest(where: Location, name: str) -> None:
    """Unless the collection was made anew meanwhile."""
    store, timeout = where.store(read_only=False), DEFAULTS.lock_timeout
    with _keep_folder(store, COLLECTIONS, timeout), store.lock_node(CollectionKeys(name).base, timeout):
        if _is_left_over(store, name):
            store.delete_prefix(CollectionKeys(name).base)


def _keep_folder(store: Store, folder: str, timeout: float | None) -> AbstractContextManager[None]:
    """Keep the folder when all in it is removed, where the store removes empty ones: one that is held stays."""
    return store.lock_node(folder, timeout) if store.traits.locks_chunks else nullcontext()


def _is_name(name: Any) -> bool:
    try:
        check_collection_name(name)
    except SchemaError:
        return False
    return True


def _problems_of(store: Store, name: str) -> Iterator[Problem]:
    try:
        data = store.get(CollectionKeys(name).document)
    except StorageError:  # which opening the collection tells
        return
    if data is None:
        return
    if not _is_name(name):
        yield Problem(name, "unusable-name", f"{name!r} is no name of a collection: it is not shown")
        return
    problems = Problems(name)
    with suppress(FormatError):  # which opening the collection tells
        base.read_document_into(read_document(data, CollectionKeys(name).document), name, problems)
        if not problems.is_fatal:
            yield from problems


# -- one collection ---------------------------------------------------------------------------------------------------


class OwnCollectionStore(StoredCollection, CollectionStore):
    """The arrays of one collection, with all that can be done to them."""

    # -- changes ----------------------------------------------------------------------------------------------------

    def create(self, records: Sequence[Record]) -> None:
        """Make arrays, all of them or none; AlreadyExists names the id or the key that is taken."""
        self.require_writable()
        if records:
            CollectionCreation(self, records).run()

    def update(self, id: str, change: Callable[[Record], Record]) -> Record:
        """Replace a record by what ``change`` makes of the stored one, under its lock; Conflict, NodeNotFound."""
        made: list[Record] = []

        def renewed(data: bytes) -> bytes | None:
            record = self.parse_record(data, id)
            made.append(change(record))
            return (
                None if made[0] == record else self.documents.with_record(self.documents.parse_spec(data, id), made[0])
            )

        self._replace_document(id, renewed)
        return made[0]

    def put_spec(self, id: str, spec: ArraySpec) -> None:
        """Store another shape or other attributes of an array: what ``spec`` changes of the one that was read."""

        def renewed(data: bytes) -> bytes:
            merged = self.documents.merge_changes(self.documents.parse_spec(data, id), spec)
            return self.documents.with_record(merged, record_of(self.document, merged.attrs))

        self._replace_document(id, renewed)

    def _replace_document(self, id: str, renewed: Callable[[bytes], bytes | None]) -> None:
        """Put another document in place of an array's; until its generation tells so, it is among the unsettled."""
        self.require_writable()
        durable = self.settings.durable
        with self.lock(id):
            data = self.read_document(id)
            if not self.is_committed(self.parse_record(data, id)):
                raise self.not_found_error(id)
            with self.locate_errors(id):
                new = renewed(data)
            if new is None:
                return
            # In this order: who dies on the way leaves the array among the unsettled, which every index reads anew.
            self._unsettle(id)
            self.store.put(self.keys.array_document(id), new, durable=durable)
            self.tell_changes([part_of(id)], durable=durable, changed=[self.documents.parse_record(new, id)])
            self.store.delete(self.keys.unsettled(id))

    def remove(self, id: str) -> None:
        """Remove an array, its key entry first; one that is gone, or not committed yet, is fine."""
        self.require_writable()
        if self._remove_if_there(id):
            self._mark_part_changed(part_of(id), [id])

    def _mark_part_changed(self, part: str, removed: Sequence[str]) -> None:
        """Have whoever knows a part look at it anew; until then what was removed is among the unsettled."""
        self.tell_changes([part], durable=self.settings.durable, removed=removed)
        for id in removed:
            self.store.delete(self.keys.unsettled(id))

    def _remove_if_there(self, id: str) -> bool:
        try:
            with self.lock(id):
                data = self.read_document(id)
                try:
                    record = self.documents.parse_record(data, id)
                    if not self.is_committed(record):
                        return False
                    self._unsettle(id)
                    if self.has_key:
                        self.store.delete(self.key_entry(record), durable=self.settings.durable)
                except FormatError:  # a damaged document does not tell its key
                    self._unsettle(id)
                    for name in self.store.list_dir(self.keys.folder(KEYS))[0]:
                        self.drop_entry(f"{self.keys.folder(KEYS)}/{name}", id)
                self.drop_array(id)
        except NodeNotFound:
            return False
        return True

    def _unsettle(self, id: str) -> None:
        self.store.put(self.keys.unsettled(id), b"", durable=self.settings.durable)

    def clear(self) -> None:
        """Remove all arrays of the collection; those that others make meanwhile stay."""
        self.require_writable()
        for part in self.generations():
            removed = [id for id in self.list_part(part) if self._remove_if_there(id)]
            if removed:
                self._mark_part_changed(part, removed)

    def drop(self) -> None:
        """Remove the collection with all that belongs to it; one that is gone is fine."""
        self.require_writable()
        if not self.exists():
            return
        timeout = self.settings.lock_timeout
        with _keep_folder(self.store, COLLECTIONS, timeout), self.store.lock_node(self.keys.base, timeout):
            if self.exists():
                # The document first: without it the collection is gone, and the rest is found as left over.
                self.store.delete(self.keys.document, durable=self.settings.durable)
                self.store.delete_prefix(self.keys.base, durable=self.settings.durable)

    # -- arrays -----------------------------------------------------------------------------------------------------

    def find_damage(self, *, deep: bool) -> Iterable[Finding]:
        """Return every problem of the collection with what mends it; ``deep`` reads every cell besides."""
        return map(RULES.with_rule, CollectionDamage(self, deep=deep).find_damage())
