"""Collections of our own layout: found, opened and made below a root; their arrays made, changed and removed.

What changes a collection is in ``OwnCollectionStore``; its base, ``StoredCollection`` in :mod:`.store`, has what is
read, and :mod:`.creation` how arrays are created.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import (
    AlreadyExists,
    CollectionNotFound,
    Conflict,
    FormatError,
    HyperslabError,
    NodeNotFound,
    NotFound,
    Problem,
    ReadOnly,
    SchemaError,
    StorageError,
)
from hyperslab.formats.collections import base
from hyperslab.formats.collections.base import (
    CollectionDocument,
    CollectionStore,
    Layout,
    LayoutName,
    record_of,
)
from hyperslab.formats.collections.own.creation import CollectionCreation
from hyperslab.formats.collections.own.documents import (
    ARRAY,
    COLLECTIONS,
    FOLDERS,
    INDEX_FILES,
    KEYS,
    CollectionKeys,
    part_of,
)
from hyperslab.formats.collections.own.rules import RULES, CollectionDamage
from hyperslab.formats.collections.own.store import StoredCollection
from hyperslab.formats.collections.own.versions import ArrayVersions, PastStore
from hyperslab.formats.documents import read_document
from hyperslab.formats.format_errors import Problems, no_versions_error
from hyperslab.formats.rules import Finding
from hyperslab.model.schemas.arrays import Record, check_collection_name, key_of
from hyperslab.model.schemas.attributes import AttributeSchema
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Stamp, Store
from hyperslab.stores.location import Location

NAME: LayoutName = "hyperslab"


class OwnLayout(Layout):
    """Collections under ``collections/<name>/collection.json``."""

    name = NAME

    def names(self, where: Location) -> Iterable[str]:
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
        found = store.get_version(key)
        if found is None:
            return None
        data = bytes(found.data)
        try:
            document = replace(base.parse_document(read_document(data, key), name), layout=NAME)
        except FormatError as error:
            raise error.locate(url=store.url, node=name, key=key) from error.__cause__
        opened = OwnCollectionStore(store, document, data, settings, found.stamp)
        if not isinstance(where.moment, datetime):  # the name of a version is that of a repository, whose store has it
            return opened
        try:
            return opened.at(where.moment)
        except HyperslabError as error:
            raise error.locate(url=store.url, node=name) from None

    def create(self, where: Location, document: CollectionDocument, settings: Settings) -> OwnCollectionStore:
        """Make a new collection; AlreadyExists when the name is taken, Unsupported for filters that we have not."""
        keys = CollectionKeys(check_collection_name(document.name))
        store = where.store(read_only=False, create=True)
        data = base.document_bytes(document)
        made = OwnCollectionStore(store, document, data, settings)
        if made.versions is not None:
            made.versions.require_locks()
        _ = made.documents.template  # what cannot be stored is refused before anything is
        taken = AlreadyExists(f"the collection {document.name!r} exists", url=where.url, node=document.name)
        if _is_taken(store, keys):  # before a folder is made for the lock
            raise taken
        timeout = settings.lock_timeout
        # The folder of all collections first: that is what a maker in DEKER's layout holds, too.
        with _keep_folder(store, COLLECTIONS, timeout), store.lock_node(keys.base, timeout):
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
    """Remove what is left of a collection, unless it was made anew meanwhile."""
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
        self.require_writable()
        if records:
            CollectionCreation(self, records).run()

    def update(self, id: str, change: Callable[[Record], Record]) -> Record:
        made: list[Record] = []

        def renewed(data: bytes) -> bytes | None:
            record = self.parse_record(data, id)
            made.append(change(record))
            if made[0] == record:
                return None
            stored = self.documents.parse_spec(data, id)
            return self.documents.with_record(stored, made[0], stored)

        self._replace_document(id, renewed)
        return made[0]

    def put_spec(self, id: str, spec: ArraySpec) -> None:
        """Store another shape or other attributes of an array: what ``spec`` changes of the one that was read."""

        def renewed(data: bytes) -> bytes:
            stored = self.documents.parse_spec(data, id)
            merged = self.documents.merge_changes(stored, spec)
            return self.documents.with_record(merged, record_of(self.document, merged.attrs), stored)

        self._replace_document(id, renewed)

    def _replace_document(self, id: str, renewed: Callable[[bytes], bytes | None]) -> None:
        """Put another document in place of an array's; until its generation tells so, it is among the unsettled."""
        self.require_writable()
        durable, key = self.settings.durable, self.keys.array_document(id)
        with self.lock(id):
            # A lease may be taken over meanwhile: there the version tells whether the document is still this one.
            old = self.store.get_version(key) if self.store.lease_seconds else None
            data = self.read_document(id) if old is None else bytes(old.data)
            if not self.is_committed(self.parse_record(data, id)):
                raise self.not_found_error(id)
            with self.locate_errors(id):
                new = renewed(data)
            if new is None:
                return
            self.keep_versions(id, [ARRAY])
            # In this order: who dies on the way leaves the array among the unsettled, which every index reads anew.
            self._unsettle(id)
            if old is None:
                self.store.put(key, new, durable=durable)
            else:
                self.store.put_back(key, new, old, durable=durable)
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
                    if self.versions is not None:
                        timeout = self.settings.lock_timeout
                        self.versions.keep_removed(id, durable=self.settings.durable, timeout=timeout)
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

    def add_attribute(self, attribute: AttributeSchema) -> None:
        """Add an attribute with a default to the schema: one document changes, whatever the number of arrays. Whoever
        has the collection open goes on with the new schema at the next look. SchemaError, Conflict."""
        document = self.document.with_attribute(attribute)
        stored = document.stored.attributes[-1]
        self.require_writable()
        if self.manifests is None and self.index_database is not None:
            # Lock order: who opens the file holds the same folder, so it is open before that is held here.
            self.index_database.stamps()
        with self._lock_document():
            if self.manifests is not None:  # before, so that nobody publishes rows that lack values of it
                self.manifests.add_attribute(stored)
            self._put_document(document)
            if self.manifests is None and self.index_database is not None:
                self.index_database.add_attribute(stored)

    def remove_attribute(self, name: str) -> None:
        """Remove a custom attribute from the schema by the same one document; its values stay in those of the arrays
        until these are written again, and nobody reads them. SchemaError, Conflict."""
        self._change_document(self.document.without_attribute(name))

    def rename_attribute(self, name: str, new_name: str) -> None:
        """Give an attribute another name by the same one document; those of the arrays, and the index, keep the name
        that it had first. SchemaError, Conflict."""
        self._change_document(self.document.with_attribute_name(name, new_name))

    def _change_document(self, document: CollectionDocument) -> None:
        self.require_writable()
        with self._lock_document():
            self._put_document(document)

    def _put_document(self, document: CollectionDocument) -> None:
        self.store.put(self.keys.document, base.document_bytes(document), durable=self.settings.durable)

    def rename(self, name: str) -> None:
        """Give the collection another name, by one rename of its folder. Who has it open finds it gone, and what is
        being written there fails. AlreadyExists; Unsupported where folders have no names of their own."""
        self.require_writable()
        if not self.store.traits.renames:
            super().rename(name)
        keys = CollectionKeys(check_collection_name(name))
        document = replace(self.document, name=name)
        taken = AlreadyExists(f"the collection {name!r} exists", url=self.store.url, node=name)
        # Lock order: the folder of all collections, the old name, the new one. Who makes a collection holds the latter,
        # too, and clears what a removed one left there: without it that would be this one.
        with self._lock_document():
            if _is_taken(self.store, keys):  # before a folder is made for the lock
                raise taken
            with self.store.lock_node(keys.base, self.settings.lock_timeout):
                self._rename_folder(keys, document, taken)

    def _rename_folder(self, keys: CollectionKeys, document: CollectionDocument, taken: AlreadyExists) -> None:
        """Give the folder another name, with the names of both held."""
        if _is_taken(self.store, keys):
            raise taken
        if self.index_database is not None:
            self.index_database.close()
        self.store.rename(self.keys.base, keys.base)
        # Until this is stored the document has the old name, of which checks tell and which nobody minds.
        self.store.put(keys.document, base.document_bytes(document), durable=self.settings.durable)

    @contextmanager
    def _lock_document(self) -> Iterator[None]:
        """Hold the collection's document; CollectionNotFound where it is gone, or another one than was read."""
        timeout = self.settings.lock_timeout
        with _keep_folder(self.store, COLLECTIONS, timeout), self.store.lock_node(self.keys.base, timeout):
            if not self.exists():
                message = "the collection was removed, or its schema was changed"
                raise CollectionNotFound(message, url=self.store.url, node=self.keys.name, remedy="open it anew")
            yield

    def drop(self) -> None:
        self.require_writable()
        if not self.exists():
            return
        timeout = self.settings.lock_timeout
        with _keep_folder(self.store, COLLECTIONS, timeout), self.store.lock_node(self.keys.base, timeout):
            if self.exists():
                if self.index_database is not None:
                    self.index_database.begin_anew()
                # The document first: without it the collection is gone, and the rest is found as left over.
                self.store.delete(self.keys.document, durable=self.settings.durable)
                self.store.delete_prefix(self.keys.base, durable=self.settings.durable)

    # -- the past ---------------------------------------------------------------------------------------------------

    def at(self, moment: datetime) -> PastCollection:
        """Return the collection as it was at a moment, to be read. Unsupported where it keeps no versions; Invalid for
        a moment that is to come, or of which versions are kept no more."""
        if self.versions is None:
            raise no_versions_error(self.store.url, self.keys.name, has_locks=self.store.traits.locks_chunks)
        self.versions.check_moment(moment)
        return PastCollection(self, self.versions, moment)

    def changes(self, id: str) -> Sequence[datetime]:
        return [] if self.versions is None else self.versions.moments(id)

    def expire(self) -> int:
        self.require_writable()
        return 0 if self.versions is None else self.versions.expire()

    # -- arrays -----------------------------------------------------------------------------------------------------

    def find_damage(self, *, deep: bool) -> Iterable[Finding]:
        return map(RULES.with_rule, CollectionDamage(self, deep=deep).find_damage())


class PastCollection(OwnCollectionStore):
    """A collection as it was at a moment. It takes no changes, and has no stored index."""

    def __init__(self, present: OwnCollectionStore, versions: ArrayVersions, at: datetime) -> None:
        store = PastStore(present.store, present.keys, versions, at)
        super().__init__(store, present.document, base.document_bytes(present.document), present.settings)
        self._past = store
        self._present = present
        self._versions = versions

    def exists(self) -> bool:
        """Return True if the collection is still there, with the same document."""
        return self._present.exists()

    def require_writable(self) -> None:
        """Raise ReadOnly."""
        raise ReadOnly("what is past never changes", url=self.store.url, remedy="open the collection without at=")

    def is_committed(self, record: Record) -> bool:
        """Return True if the array existed at the moment: its document was changed since, or its key leads to it."""
        return self._was_changed(record.id) or self._present.is_committed(record)

    def _was_changed(self, id: str) -> bool:
        """Return True if an array's document is a version: only those of arrays that exist are kept."""
        return bool(self._past.older(self.keys.array_document(id)))

    def filter_committed(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield those of the records whose arrays existed."""
        return filter(self.is_committed, records)

    def id_of(self, key: tuple[object, ...]) -> str | None:
        """Return the array that had these primary values: the one that has them now, or one that was removed since."""
        id = self._present.id_of(key)
        if id is not None and self.store.stamp(self.keys.array_document(id)) is not None:
            return id
        for part in self._versions.parts():
            present = self._present.list_part(part)
            removed = [id for id in self.list_part(part) if id not in present]
            for record in self.records(removed):
                if key_of(self.document.schema, record) == key:
                    return record.id
        return None

    def generations(self) -> Mapping[str, Stamp]:
        """Return the parts, whose arrays never change."""
        return dict.fromkeys([*self._present.generations(), *self._versions.parts()], 1)

    def list_part(self, part: str) -> Mapping[str, Stamp]:
        ids = {*self._present.list_part(part), *self._versions.ids(part)}
        stamps = ((id, self.store.stamp(self.keys.array_document(id))) for id in sorted(ids) if part_of(id) == part)
        return {id: stamp for id, stamp in stamps if stamp is not None}

    def unsettled_ids(self) -> Collection[str]:
        return ()
