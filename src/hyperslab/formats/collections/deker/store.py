"""Collections in DEKER's layout: found, opened and made below a root; their arrays made, changed and removed.

An array exists once its file has its name: on creation the link comes before, on removal the file goes first, so that a
process that dies between leaves a link which stands for nothing, and never an array that only some can see.

A creation lays the file complete under a temporary name; with the key's folder locked the link is made, unless one
leads to an array that exists; then the file gets its name. Who dies between leaves a link that leads to nothing: it
holds no key, and the next one to want that key replaces it. All arrays of a creation are made or none."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial
from math import prod

from hyperslab.chunks.settings import Settings
from hyperslab.errors import (
    AlreadyExists,
    FormatError,
    HyperslabError,
    Invalid,
    NodeNotFound,
    Problem,
    StorageError,
    Unsupported,
)
from hyperslab.formats.collections.base import (
    CollectionDocument,
    CollectionStore,
    Layout,
    LayoutName,
    document_bytes,
    parse_document,
    record_of,
)
from hyperslab.formats.collections.deker import links, locks
from hyperslab.formats.collections.deker.array_cells import FileCells
from hyperslab.formats.collections.deker.arrays import StoredArrays
from hyperslab.formats.collections.deker.data_file import stamp_of
from hyperslab.formats.collections.deker.file_writer import FileRewrite, file_bytes
from hyperslab.formats.collections.deker.folder import (
    FOLDERS,
    CollectionFolder,
    Kind,
    check_parts,
    data_files,
    make_empty,
    put_file,
    read_json_file,
    sync_entries,
    sync_removal,
    tile_folder,
    total_size,
    translate_errors,
    walk,
    with_folder,
    write_beside,
)
from hyperslab.formats.collections.deker.locks import lock_folder
from hyperslab.formats.collections.deker.rules import RULES, CollectionSurvey, root_orphans
from hyperslab.formats.collections.index_database import IndexDatabase
from hyperslab.formats.collections.index_file import cache_folder, make_cache_folder
from hyperslab.formats.format_errors import no_versions_error
from hyperslab.formats.metadata_json import records
from hyperslab.formats.rules import Finding
from hyperslab.model.schemas.arrays import Record, check_collection_name, check_id
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Stamp, Unversioned
from hyperslab.stores.files import discard, read_error, remove_tree, write_errors
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.location import Location
from hyperslab.stores.locks import hold_file, hold_folder
from hyperslab.stores.system import replace_file

RELATIVE = "relative_links"
"""The key of a collection document that says that its links are relative; the peer passes over it."""


@translate_errors(lambda layout: "")
class DekerLayout(Layout):
    """Collections whose documents are called as they are, on a local file system."""

    name: LayoutName = "deker"

    def names(self, where: Location) -> list[str]:
        """Return the collections of this layout, sorted; what is none is passed over."""
        folder = _collections(where)
        return [] if folder is None else [name for name in _entries(folder) if _has_document(folder, name)]

    def open(self, where: Location, name: str, settings: Settings, *, writable: bool) -> DekerCollectionStore | None:
        """Return a collection; None when there is none of this name and layout; FormatError when its document is
        damaged."""
        folder = _collections(where)
        if folder is None or "/" in name or "\0" in name or not _has_document(folder, name):
            return None
        path = f"{folder}/{name}/{name}.json"
        try:
            document = parse_document(read_json_file(path), name)
        except FormatError as error:
            raise error.locate(url=path) from error.__cause__
        if where.moment is not None:
            raise no_versions_error(where.url, name, has_locks=True)
        return DekerCollectionStore(os.path.dirname(folder), document, settings, writable=writable)

    def create(self, where: Location, document: CollectionDocument, settings: Settings) -> DekerCollectionStore:
        """Make a new collection; AlreadyExists when the name is taken, Unsupported elsewhere than on a local file
        system."""
        check_collection_name(document.name)
        folder = _collections(where)
        if folder is None:
            raise Unsupported(
                "the layout deker needs a folder of a file system",
                url=where.url,
                remedy='choose layout="hyperslab", which is format="collections"',
            )
        holding = DekerCollectionStore(os.path.dirname(folder), document, settings, writable=True)
        holding.form.check_creatable()  # options that HDF5 cannot have are refused before anything is stored
        path, lock = holding.folder.path, holding.folder.lock

        def lock_path() -> str:
            make_empty(lock)
            return lock

        with write_errors(where.url, f"collections/{document.name}"):
            os.makedirs(folder, exist_ok=True)
            # Lock order: the folder of all collections, which a maker in our own layout holds as well, then the peer's
            # lock file of the name.
            timeout = settings.lock_timeout
            with hold_folder(lambda: folder, timeout, beside=True), hold_file(lock_path, timeout):
                # An empty folder is what a creation left that was not completed.
                if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
                    raise AlreadyExists(f"the collection {document.name!r} exists", url=where.url)
                _publish(path, document_bytes(document), settings)
        return holding

    def find_damage(self, where: Location) -> Iterator[Finding]:
        """Yield folders and files that belong to no collection, with what mends that."""
        folder = _collections(where)
        if folder is None:
            return
        names = _entries(folder)
        yield from root_orphans(folder, names, [name for name in names if _has_document(folder, name)])


LAYOUT = DekerLayout()


def _collections(where: Location) -> str | None:
    """Return the folder of all collections; None for a place that is no folder of this machine."""
    if where.scheme != "file" or where.path is None:
        return None
    return f"{where.path.rstrip('/')}/collections"


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise read_error(error, folder, "") from error


def _has_document(folder: str, name: str) -> bool:
    """Return True if a folder holds the document of a collection, and not one of our own layout that is called so."""
    path = f"{folder}/{name}/{name}.json"
    if not os.path.isfile(path):
        return False
    if name != "collection":
        return True
    try:
        doc = read_json_file(path)
    except FormatError:
        return not os.path.isdir(f"{folder}/{name}/arrays")
    return not (isinstance(doc, dict) and doc.get("layout") == "hyperslab")


def _publish(path: str, body: bytes, settings: Settings) -> None:
    """Make the folder of a collection with its document, by one rename."""
    above, name = os.path.split(path)
    temporary = f"{above}/{temporary_name(name)}"
    os.mkdir(temporary)
    try:
        os.rename(write_beside(f"{temporary}/{name}.json", body, durable=settings.durable), f"{temporary}/{name}.json")
        os.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            remove_tree(temporary)
        raise
    if settings.durable:
        sync_entries(path)
        sync_entries(above)


# -- one collection ---------------------------------------------------------------------------------------------------


LOGGER = logging.getLogger("hyperslab.database")


@translate_errors(lambda holding: holding.folder.path)
class DekerCollectionStore(StoredArrays, CollectionStore):
    """The collection ``document`` below ``root``, an absolute path."""

    def __init__(self, root: str, document: CollectionDocument, settings: Settings, *, writable: bool) -> None:
        path = f"{root}/collections/{document.name}"
        relative = document.extra.get(RELATIVE) is True
        super().__init__(CollectionFolder(path, document.kind, settings, writable, relative), document)

    def exists(self) -> bool:
        return os.path.isfile(self.folder.document)

    # -- records ----------------------------------------------------------------------------------------------------

    def records(self, ids: Iterable[str]) -> Iterator[Record]:
        """Yield the records of these arrays; those that are gone or damaged are left out, and damage is logged."""
        for id in ids:
            try:
                record = self.record(id)
            except NodeNotFound:
                continue
            except HyperslabError as error:
                LOGGER.error("an array is passed over: %s", error)
                continue
            yield record

    def create(self, records: Sequence[Record]) -> None:
        """Make arrays, all of them or none; AlreadyExists, SchemaError for a key that cannot be a path."""
        with self.folder.modify():
            DekerCreation(self).run(records)

    def update(self, id: str, change: Callable[[Record], Record]) -> Record:
        path = self.path(id)
        with self.folder.modify(), locks.lock_file(partial(str, path), self.folder.settings.lock_timeout):
            old = self.record(id)
            new = change(old)
            if new.id != id or dict(new.primary) != dict(old.primary):
                raise Invalid("the id and the primary attributes of an array never change", url=path)
            body = records.record_to_bytes(new, updated=True)
            if self.folder.kind == "varray":
                put_file(path, body, durable=self.folder.settings.durable)
                return new
            form, fill = self.form, self.fill
            opened = FileCells(self.files, path, form, fill, self.folder.settings).opened
            FileRewrite(path, form, fill, self.folder.settings, opened).run(body.decode())
            self.files.forget(path)
        return new

    def remove(self, id: str) -> None:
        path = self.path(id)
        found: list[tuple[str, str]] | None = None
        with self.folder.modify():
            with suppress(NodeNotFound), locks.lock_file(partial(str, path), self.folder.settings.lock_timeout):
                try:
                    found = self.links_of(self.record(id))
                except (FormatError, StorageError):
                    found = self.links_to(id)
                links.remove_file(self.folder.path, self.folder.kind, path, durable=self.folder.settings.durable)
            for place, _ in found or ():
                remove_link_locked(self.folder, place, id)
            if self.folder.kind == "varray" and found is not None:
                self._remove_tiles(id)
            self.files.forget(path)

    def _remove_tiles(self, id: str) -> None:
        """Remove the files of all tiles of a VArray, and what leads to them, once their writers are done."""
        path = self.folder.path
        for name in links.names(f"{path}/{tile_folder(id)}"):
            place = f"{tile_folder(id)}/{name}"
            with suppress(NodeNotFound), locks.lock_folder(f"{path}/{place}", self.folder.settings.lock_timeout):
                for tile in links.linked_ids(path, "array", place):
                    links.remove_link(path, "array", place, tile)
                    links.remove_file(path, "array", self.folder.data(tile, "array"))
                links.prune(path, place)
        with suppress(FileNotFoundError):
            remove_tree(f"{path}/{tile_folder(id)}")

    def clear(self) -> None:
        """Remove all arrays of the collection: nothing but its document is left."""
        with self.folder.modify():
            # The data first: an array exists by its file, so that a process that dies on the way leaves links alone.
            data = f"{self.folder.kind}_data"
            for name in (data, *FOLDERS):
                self._discard(f"{self.folder.path}/{name}")
            self.unlinked.forget()

    def drop(self) -> None:
        """Remove the collection with its lock file; one that is gone is fine."""
        with suppress(OSError):
            remove_tree(cache_folder(self._place()))
        with self.folder.modify(), suppress(FileNotFoundError):
            if not os.path.lexists(self.folder.lock):
                self._discard(self.folder.path)
                return
            with hold_file(partial(str, self.folder.lock), self.folder.settings.lock_timeout):
                self._discard(self.folder.path)
                os.unlink(self.folder.lock)
                if self.folder.settings.durable:
                    sync_removal(os.path.dirname(self.folder.lock))

    def _discard(self, path: str) -> None:
        """Remove a folder, for everybody else at one stroke."""
        above, name = os.path.split(path)
        doomed = f"{above}/{temporary_name(name)}"
        with suppress(FileNotFoundError):
            if os.path.islink(path):
                os.unlink(path)
            else:
                os.utime(path)  # from when on it is left over
                os.rename(path, doomed)
            if self.folder.settings.durable:
                sync_removal(above)
            if os.path.lexists(doomed):
                remove_tree(doomed)

    # -- what an index needs ----------------------------------------------------------------------------------------

    @cached_property
    def index_database(self) -> IndexDatabase | None:
        """The file that the index is kept in, where the collection's document asks for it: among the caches of this
        user, for nobody but the peer may put files into its folders."""
        if self.document.extra.get("index") != "stored":
            return None
        path = make_cache_folder(self._place())
        return None if path is None else IndexDatabase(self.document.schema.attributes, path)

    def _place(self) -> str:
        """Return what tells this collection from others of the user: its place and its document."""
        return json.dumps([os.path.realpath(self.folder.path), self.document.as_dict])

    def generations(self) -> Mapping[str, Stamp]:
        """Return one part that is listed anew each time: the peer leaves no mark of its changes."""
        return {"": Unversioned()}

    def list_part(self, part: str) -> Mapping[str, Stamp]:
        """Return the ids of all arrays with the stamps of their files."""
        return {id: stamp_of(found) for id, found in data_files(self.folder.path, self.folder.kind)}

    def ids(self, part: str) -> Iterable[str]:
        """Return the ids of all arrays, sorted: a file makes one exist, whatever is in it."""
        return sorted(self.list_part(part))

    def unsettled_ids(self) -> Collection[str]:
        """Return no ids: every change of a record gives its file another stamp."""
        return ()

    def filter_committed(self, records: Iterable[Record]) -> Iterator[Record]:
        """Return those of the records whose files exist."""
        return (record for record in records if os.path.exists(self.folder.data(record.id)))

    # -- arrays -----------------------------------------------------------------------------------------------------

    def put_spec(self, id: str, spec: ArraySpec) -> None:
        """Store other custom attributes of an array; Unsupported for another shape."""
        if spec.shape != self.document.schema.shape:
            raise Unsupported(
                "arrays of another shape than their schema's in the layout deker",
                url=self.folder.path,
                remedy='make the collection with layout="hyperslab"',
            )
        record = record_of(self.document, spec.attrs)
        self.update(id, lambda old: Record(id, record.primary, record.custom))

    def nbytes_stored(self) -> int:
        """Return bytes of all files of the collection."""
        return total_size(self.folder.path)

    # -- health -----------------------------------------------------------------------------------------------------

    def find_damage(self, *, deep: bool) -> Iterable[Finding]:
        return map(RULES.with_rule, CollectionSurvey(self, deep).run())

    def document_problems(self) -> Iterable[Problem]:
        """Return every problem of the collection itself, whatever its arrays are like."""
        survey = CollectionSurvey(self, False)
        return (finding.problem for finding in survey.examine_document())

    def clear_locks(self) -> None:
        """Remove the lock files of the peer whose processes are dead."""
        with self.folder.modify():
            for name, path, _ in walk(self.folder.path, 100):
                if locks.is_lock(name) and not locks.is_live(path):
                    with suppress(FileNotFoundError):
                        os.unlink(path)

    def relink(self, *, relative: bool | None = None) -> int:
        """Make every link lead to where its file is now, after a move or copy; how many were made anew.

        ``relative``: what kind of links there shall be from now on; None: of the kind that the collection has.
        """
        with self.folder.modify():
            if relative is not None and relative != self.folder.relative:
                self.folder.relative = relative
                extra = {key: value for key, value in self.document.extra.items() if key != RELATIVE}
                self.document = replace(self.document, extra={**extra, RELATIVE: True} if relative else extra)
                put_file(self.folder.document, document_bytes(self.document), durable=self.folder.settings.durable)
            kinds: set[Kind] = {self.folder.kind, "array"}
            return sum(links.relink(self.folder.path, kind, relative=self.folder.relative) for kind in kinds)


# -- creation of arrays -----------------------------------------------------------------------------------------------


# What ``link`` says on file systems without hard links, and for a file that has as many as it may.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS})


class DekerCreation:
    """Arrays that are made together."""

    def __init__(self, arrays: StoredArrays) -> None:
        self._arrays = arrays
        self._folder = arrays.folder
        self._made: list[tuple[Record, str]] = []

    def run(self, new: Sequence[Record]) -> None:
        """Make them; AlreadyExists, SchemaError for a key that cannot be a path."""
        for record in new:
            check_id(record.id)
            check_parts(record.primary.values())
        try:
            for record in new:
                self._create(record)
        except BaseException:
            for record, place in reversed(self._made):
                with suppress(OSError, HyperslabError):  # a link that stays, as somebody holds its folder, holds no key
                    links.remove_file(self._folder.path, self._folder.kind, self._folder.data(record.id))
                    remove_link_locked(self._folder, place, record.id)
            raise

    def _create(self, record: Record) -> None:
        path = links.require_inside(self._folder.path, self._folder.data(record.id))
        place = self._arrays.place(tuple(record.primary.values()))
        linked = links.require_inside(self._folder.path, f"{self._folder.path}/{place}")
        durable = self._folder.settings.durable
        if os.path.lexists(path):
            raise self._taken(f"the id {record.id}")
        text = records.record_to_bytes(record)
        body = (
            file_bytes(text.decode(), prod(self._arrays.document.schema.shape))
            if self._folder.kind == "array"
            else text
        )
        head = os.path.dirname(path)
        missing = first_missing(head) if durable else head
        temporary = with_folder(head, lambda: write_beside(path, body, durable=durable))
        try:
            absent = first_missing(linked) if durable else linked
            try:
                # Without primary attributes all links lie in one folder, and nobody is kept out.
                made = partial(with_folder, linked, partial(str, linked))
                with hold_folder(made, self._folder.settings.lock_timeout) if record.primary else nullcontext():
                    self._link(record, place, temporary, path)
            finally:
                discard(temporary)
        except BaseException:
            links.prune(self._folder.path, os.path.relpath(head, self._folder.path))
            raise
        self._made.append((record, place))
        if durable:
            sync_from(missing, head)
            sync_from(absent, linked)

    def _link(self, record: Record, place: str, temporary: str, path: str) -> None:
        folder, kind = self._folder, self._folder.kind
        keyed = bool(record.primary)
        if keyed and self._arrays.existing_ids(place):
            raise self._taken(f"the key {dict(record.primary)}")
        # The link before the file, whose name makes the array exist: who dies between leaves a link that holds no key.
        links.put_link(folder.path, kind, place, record.id, relative=folder.relative, alone=keyed)
        try:
            _name_new(temporary, path)
        except BaseException as error:
            if keyed or not os.path.exists(path):
                links.remove_link(folder.path, kind, place, record.id)
                links.prune(folder.path, place)
            if isinstance(error, FileExistsError):
                raise self._taken(f"the id {record.id}") from error
            raise

    def _taken(self, what: str) -> AlreadyExists:
        return AlreadyExists(f"{what} is taken", url=self._folder.path, node=self._folder.name)


def remove_link_locked(folder: CollectionFolder, place: str, id: str) -> None:
    """Remove a link, and folders that it leaves empty, while nobody is making one there."""
    with suppress(NodeNotFound), lock_folder(f"{folder.path}/{place}", folder.settings.lock_timeout):
        links.remove_link(folder.path, folder.kind, place, id)
        links.prune(folder.path, place)
        if folder.settings.durable:
            sync_removal(f"{folder.path}/{place}")


def _name_new(temporary: str, path: str) -> None:
    """Give a file a name that nothing has; FileExistsError."""
    try:
        with_folder(os.path.dirname(path), partial(os.link, temporary, path))
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from error
        replace_file(temporary, path)


def first_missing(folder: str) -> str:
    """Return the outermost folder on the way to ``folder`` that is not there yet; ``folder`` itself when all are."""
    found = folder
    while not os.path.isdir(folder):
        found, folder = folder, os.path.dirname(folder)
    return found


def sync_from(first: str, folder: str) -> None:
    """Have the medium keep the entries of ``folder``, and those that lead to it from the folder above ``first`` on."""
    while True:
        sync_entries(folder)
        if len(folder) < len(first):
            return
        folder = os.path.dirname(folder)
