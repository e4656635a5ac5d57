"""Our own layout of collections below one root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import AlreadyExists, Conflict, FormatError, NotFound, Problem, SchemaError, StorageError
from hyperslab.formats import collection_document
from hyperslab.formats.base import Remedy
from hyperslab.formats.collection_document import CollectionDocument, LayoutName
from hyperslab.formats.collections.holding import CollectionHolding
from hyperslab.formats.collections.places import COLLECTIONS, FOLDERS, INDEX, Places
from hyperslab.formats.collections.store_fallbacks import keep_folder, lock_node, put_new, size_of
from hyperslab.formats.documents import read_document
from hyperslab.formats.format_errors import Problems
from hyperslab.model.schemas.records import check_name
from hyperslab.stores.base import Store
from hyperslab.stores.location import Location

NAME: LayoutName = "hyperslab"


class OwnLayout:
    """Collections under ``collections/<name>/collection.json``."""

    @property
    def name(self) -> LayoutName:
        """``hyperslab``."""
        return NAME

    def names(self, where: Location) -> Iterable[str]:
        """The collections of this layout, sorted; what is none is passed over."""
        return sorted(_names(where))

    def open(self, where: Location, name: str, settings: Settings, *, writable: bool) -> CollectionHolding | None:
        """A collection; None when there is none of this name and layout; FormatError when its document is damaged."""
        if not _is_name(name):
            return None
        try:
            store = where.store(read_only=not writable)
        except NotFound:
            return None
        data = store.get(Places(name).document)
        return None if data is None else CollectionHolding(store, _parsed(store, name, data), data, settings)

    def create(self, where: Location, document: CollectionDocument, settings: Settings) -> CollectionHolding:
        """A new collection; AlreadyExists when the name is taken, Unsupported for filters that we have not."""
        places = Places(check_name(document.name))
        store = where.store(read_only=False, create=True)
        data = collection_document.text(document)
        made = CollectionHolding(store, document, data, settings)
        _ = made.documents.bare  # what cannot be stored is refused before anything is
        taken = AlreadyExists(f"the collection {document.name!r} exists", url=where.url, node=document.name)
        if _is_taken(store, places):  # before a folder is made for the lock
            raise taken
        with lock_node(store, places.base, settings.lock_timeout):
            if _is_taken(store, places):
                raise taken
            for folder in FOLDERS:  # of one that was not removed to the end
                store.delete_prefix(places.folder(folder))
            store.delete(f"{places.base}/{INDEX}")
            try:
                put_new(store, [(places.document, data)], durable=settings.durable)
            except Conflict:
                raise taken from None
        return made

    def remedies(self, where: Location) -> Iterable[Remedy]:
        """What a reader of collection documents survives, folders whose names are not those of collections, and what
        is left of a collection whose remover died."""
        try:
            store = where.store(read_only=True)
        except NotFound:
            return
        for name in store.list_dir(COLLECTIONS)[1]:
            yield from map(Remedy, _problems_of(store, name))
            if _is_left_over(store, name):
                base = Places(name).base
                problem = Problem(name, "leftover", f"a collection was not removed to the end [key={base}]")
                yield Remedy(problem, "remove what is left", partial(_remove_rest, where, name), at=base)


LAYOUT = OwnLayout()


def _names(where: Location) -> Iterator[str]:
    with suppress(NotFound):
        store = where.store(read_only=True)
        for name in store.list_dir(COLLECTIONS)[1]:
            if _is_name(name) and _is_there(store, Places(name).document):
                yield name


def _is_taken(store: Store, places: Places) -> bool:
    """Return whether a collection of this name is there, in this layout or in DEKER's."""
    return any(size_of(store, key) is not None for key in (places.document, f"{places.base}/{places.name}.json"))


def _is_there(store: Store, key: str) -> bool:
    """Return whether the document of a collection is there; of one that cannot be read, opening the collection
    tells.
    """
    try:
        return size_of(store, key) is not None
    except StorageError:
        return True


def _is_left_over(store: Store, name: str) -> bool:
    """Return whether a folder has parts of a collection, and nothing else."""
    names, folders = store.list_dir(Places(name).base)
    return bool(folders) and {*names, *folders} <= {*FOLDERS, INDEX}


def _remove_rest(where: Location, name: str) -> None:
    """Unless the collection was made anew meanwhile."""
    store, timeout = where.store(read_only=False), DEFAULTS.lock_timeout
    with keep_folder(store, COLLECTIONS, timeout), lock_node(store, Places(name).base, timeout):
        if _is_left_over(store, name):
            store.delete_prefix(Places(name).base)


def _is_name(name: Any) -> bool:
    try:
        check_name(name)
    except SchemaError:
        return False
    return True


def _parsed(store: Store, name: str, data: bytes) -> CollectionDocument:
    try:
        document = collection_document.parse(read_document(data, Places(name).document), name)
        return replace(document, layout=NAME)
    except FormatError as error:
        raise error.locate(url=store.url, node=name, key=Places(name).document) from error.__cause__


def _problems_of(store: Store, name: str) -> Iterator[Problem]:
    try:
        data = store.get(Places(name).document)
    except StorageError:  # which opening the collection tells
        return
    if data is None:
        return
    if not _is_name(name):
        yield Problem(name, "unusable-name", f"{name!r} is no name of a collection: it is not shown")
        return
    problems = Problems(name)
    with suppress(FormatError):  # which opening the collection tells
        collection_document.read(read_document(data, Places(name).document), name, problems)
        if not problems.is_fatal:
            yield from problems
