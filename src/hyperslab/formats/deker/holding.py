"""One collection in DEKER's layout: its arrays by id and by key, made, changed and removed so that the peer can follow.

An array exists once its file has its name: on creation the link comes before, on removal the file goes first, so that a
process that dies between leaves a link which stands for nothing, and never an array that only some can see.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import prod

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, HyperslabError, Invalid, NodeNotFound, Problem, StorageError, Unsupported
from hyperslab.formats.base import Remedy
from hyperslab.formats.collection_document import CollectionDocument, record_of, text
from hyperslab.formats.deker import links, listing, locks, paths
from hyperslab.formats.deker.cells import DekerCells
from hyperslab.formats.deker.creating import DekerCreation, remove_held
from hyperslab.formats.deker.files import put_file, sync_removal
from hyperslab.formats.deker.folder import Folder
from hyperslab.formats.deker.problems import CollectionSurvey
from hyperslab.formats.deker.records import Key, Records
from hyperslab.formats.deker.rewriting import Rewriting
from hyperslab.formats.deker.source import FileCells
from hyperslab.formats.deker.system_errors import translate_errors
from hyperslab.formats.metadata_json import records
from hyperslab.model.schemas.records import Record
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Stamp, Unversioned
from hyperslab.stores.files import remove_tree
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.locks import hold_file

LOGGER = logging.getLogger("hyperslab.database")
RELATIVE = "relative_links"
"""The key of a collection document that says that its links are relative; the peer passes over it."""


@translate_errors(lambda holding: holding.folder.path)
class DekerHolding:
    """The collection ``document`` below ``root``, an absolute path."""

    def __init__(self, root: str, document: CollectionDocument, settings: Settings, *, writable: bool) -> None:
        path = f"{root}/collections/{document.name}"
        relative = document.extra.get(RELATIVE) is True
        self.folder = Folder(path, document.kind, settings, writable, relative)
        self.stored = Records(self.folder, document)
        self.cells = DekerCells(self.folder, document, self.stored)
        self._document = document

    @property
    def document(self) -> CollectionDocument:
        """What the collection is, as it was when this was opened."""
        return self._document

    def exists(self) -> bool:
        """Return whether the collection is still there."""
        return os.path.isfile(self.folder.document)

    # -- records ----------------------------------------------------------------------------------------------------

    def record(self, id: str) -> Record:
        """One array's record as it is stored now; NodeNotFound, FormatError, Conflict."""
        return self.stored.read(id)

    def records(self, ids: Iterable[str]) -> Iterator[Record]:
        """The records of these arrays; those that are gone or damaged are left out, and damage is logged."""
        for id in ids:
            try:
                record = self.stored.read(id)
            except NodeNotFound:
                continue
            except HyperslabError as error:
                LOGGER.error("an array is passed over: %s", error)
                continue
            yield record

    def id_of(self, key: Key) -> str | None:
        """The array with these values of its primary attributes; None when there is none."""
        return self.stored.id_of(tuple(key))

    def create(self, records: Sequence[Record]) -> None:
        """New arrays, all of them or none; AlreadyExists, SchemaError for a key that cannot be a path."""
        with self.folder.changing():
            DekerCreation(self.folder, self.stored, self._size).run(records)

    @property
    def _size(self) -> int:
        return prod(self._document.schema.shape)

    def update(self, id: str, change: Callable[[Record], Record]) -> Record:
        """Replace a record by what ``change`` makes of the stored one, under its lock; Conflict, NodeNotFound."""
        path = self.stored.path(id)
        with self.folder.changing(), locks.hold(partial(str, path), self.folder.settings.lock_timeout):
            old = self.stored.read(id)
            new = change(old)
            if new.id != id or dict(new.primary) != dict(old.primary):
                raise Invalid("the id and the primary attributes of an array never change", url=path)
            body = records.text(new, updated=True)
            if self.folder.kind == "varray":
                put_file(path, body, durable=self.folder.settings.durable)
                return new
            form, fill = self.cells.form, self.cells.fill
            opened = FileCells(self.cells.files, path, form, fill, self.folder.settings).opened
            Rewriting(path, form, fill, self.folder.settings, opened).run(body.decode())
            self.cells.files.forget(path)
        return new

    def remove(self, id: str) -> None:
        """Remove an array; one that is gone is fine."""
        path = self.stored.path(id)
        found: list[tuple[str, str]] | None = None
        with self.folder.changing():
            with suppress(NodeNotFound), locks.hold(partial(str, path), self.folder.settings.lock_timeout):
                try:
                    found = self.stored.links_of(self.stored.read(id))
                except (FormatError, StorageError):
                    found = self.stored.links_to(id)
                links.remove_file(self.folder.path, self.folder.kind, path, durable=self.folder.settings.durable)
            for place, _ in found or ():
                remove_held(self.folder, place, id)
            if self.folder.kind == "varray" and found is not None:
                self._remove_tiles(id)
            self.cells.files.forget(path)

    def _remove_tiles(self, id: str) -> None:
        """Remove the files of all tiles of a VArray, and what leads to them, once their writers are done."""
        path = self.folder.path
        for name in links.names(f"{path}/{paths.tile_folder(id)}"):
            place = f"{paths.tile_folder(id)}/{name}"
            with suppress(NodeNotFound), locks.hold_place(f"{path}/{place}", self.folder.settings.lock_timeout):
                for tile in links.linked_ids(path, "array", place):
                    links.remove_link(path, "array", place, tile)
                    links.remove_file(path, "array", self.folder.data(tile, "array"))
                links.prune(path, place)
        with suppress(FileNotFoundError):
            remove_tree(f"{path}/{paths.tile_folder(id)}")

    def clear(self) -> None:
        """Remove all arrays of the collection: nothing but its document is left."""
        with self.folder.changing():
            data = f"{self.folder.kind}_data"  # by whose files arrays are there, or not
            for name in (data, *paths.FOLDERS):
                self._discard(f"{self.folder.path}/{name}")
            self.cells.lost.forget()

    def drop(self) -> None:
        """Remove the collection with its lock file; one that is gone is fine."""
        with self.folder.changing(), suppress(FileNotFoundError):
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

    def generations(self) -> Mapping[str, Stamp]:
        """One part that is listed anew each time: the peer leaves no mark of its changes."""
        return {"": Unversioned()}

    def listing(self, part: str) -> Mapping[str, Stamp]:
        """The ids of all arrays with the stamps of their files."""
        return {
            id: (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            for id, found in listing.data_files(self.folder.path, self.folder.kind)
        }

    def ids(self, part: str) -> Iterable[str]:
        """The ids of all arrays, sorted: a file makes one exist, whatever is in it."""
        return sorted(self.listing(part))

    def unsettled(self) -> Collection[str]:
        """None: every change of a record gives its file another stamp."""
        return ()

    def committed(self, records: Iterable[Record]) -> Iterator[Record]:
        """Those of the records whose files exist."""
        return (record for record in records if os.path.exists(self.folder.data(record.id)))

    # -- arrays -----------------------------------------------------------------------------------------------------

    def spec(self, id: str) -> ArraySpec:
        """What an array is. NodeNotFound, FormatError."""
        return self.cells.spec(id)

    def put_spec(self, id: str, spec: ArraySpec) -> None:
        """Store other custom attributes of an array; Unsupported for another shape."""
        if spec.shape != self._document.schema.shape:
            raise Unsupported(
                "arrays of another shape than their schema's in the layout deker",
                url=self.folder.path,
                remedy='make the collection with layout="hyperslab"',
            )
        record = record_of(self._document, spec.attrs)
        self.update(id, lambda old: Record(id, record.primary, record.custom))

    def chunks(self, id: str, spec: ArraySpec) -> ChunkSource:
        """The cells of an array under a spec."""
        return self.cells.source(id, spec)

    def stamp(self, id: str) -> Stamp | None:
        """What identifies the present version of an array's record."""
        return self.stored.stamp(id)

    def nbytes_stored(self) -> int:
        """Bytes of all files of the collection."""
        return listing.total_size(self.folder.path)

    # -- health -----------------------------------------------------------------------------------------------------

    def remedies(self, *, deep: bool) -> Iterable[Remedy]:
        """Every problem of the collection with what mends it; ``deep`` reads every cell besides."""
        return CollectionSurvey(self.folder, self._document, self.stored, self.cells, deep).run()

    def document_problems(self) -> Iterable[Problem]:
        """Every problem of the collection itself, whatever its arrays are like."""
        survey = CollectionSurvey(self.folder, self._document, self.stored, self.cells, False)
        return (remedy.problem for remedy in survey.of_document())

    def clear_locks(self) -> None:
        """Remove the lock files of the peer whose processes are dead."""
        with self.folder.changing():
            for name, path, _ in listing.walk(self.folder.path, 100):
                if locks.is_lock(name) and not locks.is_live(path):
                    with suppress(FileNotFoundError):
                        os.unlink(path)

    def relink(self, *, relative: bool | None = None) -> int:
        """Make every link lead to where its file is now, after a move or copy; how many were made anew.

        ``relative``: what kind of links there shall be from now on; None: of the kind that the collection has.
        """
        with self.folder.changing():
            if relative is not None and relative != self.folder.relative:
                self.folder.relative = relative
                extra = {key: value for key, value in self._document.extra.items() if key != RELATIVE}
                self._document = replace(self._document, extra={**extra, RELATIVE: True} if relative else extra)
                put_file(self.folder.document, text(self._document), durable=self.folder.settings.durable)
            kinds: set[paths.Kind] = {self.folder.kind, "array"}
            return sum(links.relink(self.folder.path, kind, relative=self.folder.relative) for kind in kinds)
