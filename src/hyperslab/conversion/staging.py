"""Where a target is built, and how it comes to its place whole: by a rename, or in place with its documents last.

With an order (``head``) the half-built target and its journal stay when the conversion fails or is killed, under names
that follow from the target's, and the next one goes on from there.
"""

from __future__ import annotations

import logging
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from hyperslab import api
from hyperslab.conversion.journal import ConversionJournal, require_same_order
from hyperslab.errors import AlreadyExists, Conflict, HyperslabError, ReadOnly, StorageError, Unsupported
from hyperslab.formats import SCHEMES
from hyperslab.formats.enclosing import EnclosingDataset
from hyperslab.formats.opening import has_keys
from hyperslab.stores.base import Buffer, Scratch, Stamp, Store
from hyperslab.stores.building import (
    already_exists,
    building,
    make_durable,
    put_in_place,
    refuse_taken,
    remove,
    sync_medium,
)
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.keys import UNFINISHED, below, check_key, is_temporary, split_names
from hyperslab.stores.location import Location
from hyperslab.stores.wrapped import WrappedStore

_log = logging.getLogger("hyperslab")

Head = Mapping[str, Any]

_NOT_RESUMABLE: Head = {"resume": False}
"""The order of a conversion in place that nobody may resume: it marks what is there as half a target."""


@dataclass
class StagedTarget:
    """A target that is being built.

    ``place``: what opens it for writing, in ``mode`` as long as it has no documents. ``has_documents``: they are all
    written, what follows are cells. ``journal``: None when nobody may resume. ``where``: its location, for other
    processes; ``hides_documents``: they are held back there.
    """

    place: Location | UnpublishedStore
    where: Location
    journal: ConversionJournal | None = None
    has_documents: bool = False
    hides_documents: bool = False
    mode: Literal["x", "w"] = "x"
    _store: UnpublishedStore | None = field(default=None, repr=False)

    def documents_written(self) -> None:
        """Note that all documents are there; what is put from now on are cells."""
        documents = [] if self._store is None else self._store.seal()
        if self.journal is not None:
            self.journal.documents_written(documents)
        elif self._store is not None:
            ConversionJournal(self._store, UNFINISHED).documents_written(documents)
        self.has_documents = True

    def reopen_place(self) -> Location | UnpublishedStore:
        """Return what opens the target for reading, from scratch."""
        if self._store is None:
            return self.where
        return UnpublishedStore(self.where.store(read_only=True), dict(self._store.documents), read_only=True)


@contextmanager
def stage_target(
    where: Location, *, overwrite: bool, head: Head | None, message: str | None = None
) -> Iterator[StagedTarget]:
    """Yield where to build the target that is to be at ``where``: in a repository by one commit with a ``message``.

    When the block ends well the target is complete and in its place. Else it is what it was before; in a store without
    renames that is nothing, when something was to be overwritten. ``head``: the order of a conversion that may be
    resumed.

    AlreadyExists unless ``overwrite``; Conflict when another conversion is building it, or a writer is making a dataset
    there; Invalid when ``head`` does not agree with that of the journal.
    """
    if where.scheme == "file" and where.path is not None and head is not None:
        with _stage_resumable(where.path, overwrite, head) as staged:
            yield staged
    elif where.scheme in ("file", "zip") and where.path is not None:
        with building(where.path, overwrite=overwrite, around=EnclosingDataset(where).follow_whole()) as temporary:
            beside = Location.of(temporary if where.scheme == "file" else f"zip://{temporary}")
            yield StagedTarget(beside, beside)
        _remove_interrupted(where.path)
    elif where.keeps_versions:
        with api.one_commit(where, message) as place:
            store = place.store(read_only=False)
            if has_keys(store):
                if not overwrite:
                    raise already_exists(where.url)
                store.delete_prefix("")
            yield StagedTarget(place, place)
    elif where.scheme in SCHEMES:
        yield StagedTarget(where, where, mode="w" if overwrite else "x")
    else:
        with _stage_in_place(where, overwrite, head) as staged:
            yield staged


# -- beside the target ----------------------------------------------------------------------------------------------


def resumable_names(target: str) -> tuple[str, str]:
    """Return where a folder ``target`` is built that may be resumed, and where its journal lies."""
    folder, name = os.path.split(os.path.realpath(target))
    return os.path.join(folder, f".partial-resume-{name}"), os.path.join(folder, f".partial-journal-{name}")


@contextmanager
def _stage_resumable(path: str, overwrite: bool, head: Head) -> Iterator[StagedTarget]:
    target = os.path.realpath(path)
    half, notes = resumable_names(path)
    if not os.path.isdir(notes):
        refuse_taken(target, overwrite)
    store = DirectoryStore(notes)
    journal = ConversionJournal(store, sync=partial(sync_medium, os.path.dirname(target)))
    try:
        with _lock_target(store, target):
            staged = _find_interrupted(journal, head, target, half)
            if staged is None:
                refuse_taken(target, overwrite)
                remove(half)
                os.mkdir(half)
                journal.begin({**head, "place": _inode(half)})
                staged = StagedTarget(Location.of(half), Location.of(half), journal)
            with _log_what_is_kept(target):
                yield staged
            if staged.where.path == half:
                remove_temporary_files(half)
                with EnclosingDataset(Location.of(target)).follow_whole():
                    put_in_place(half, target, overwrite=overwrite)
            journal.end()
            remove(half)
            remove(notes)
    except HyperslabError as error:
        if error.url is not None:
            error.url = error.url.replace(half, target).replace(notes, target)
        raise
    except OSError as error:
        raise StorageError(f"the target could not be built: {error}", url=target) from error


@contextmanager
def _log_what_is_kept(target: str) -> Iterator[None]:
    """Log, when the block fails, that what is done is kept."""
    try:
        yield
    except BaseException:
        _log.warning("what is done of %s is kept: the same call, with resume (--resume), goes on from there", target)
        raise


def _find_interrupted(journal: ConversionJournal, head: Head, target: str, half: str) -> StagedTarget | None:
    """Return the target that an earlier conversion left half built, or in its place already; None if there is none."""
    before = journal.head()
    if before is None:
        return None
    require_same_order(before, head, target)
    places = [place for place in (half, target) if _inode(place) == before.get("place")]
    if not places or journal.documents() is None:
        return None
    journal.load()
    where = Location.of(places[0])
    return StagedTarget(where, where, journal, has_documents=True)


# A rename keeps the inode: a conversion that was killed between the rename and the end of its journal finds its target
# complete, in its place.
def _inode(folder: str) -> int | None:
    """Return a folder's number in the file system; None when there is no folder.

    It tells the half-built target from one that it is to replace, whatever their names.
    """
    try:
        return os.stat(folder).st_ino
    except OSError:
        return None


def _remove_interrupted(path: str) -> None:
    """Remove what an interrupted conversion left that this one has made superfluous."""
    half, notes = resumable_names(path)
    if os.path.isdir(notes):
        store = DirectoryStore(notes)
        with suppress(Conflict), _lock_target(store, path):
            ConversionJournal(store).end()
            remove(half)
            remove(notes)


def remove_temporary_files(folder: str) -> None:
    """Remove the temporary files that killed writers left."""
    for place, _, names in os.walk(folder):
        for name in filter(is_temporary, names):
            os.unlink(os.path.join(place, name))


# -- in place -------------------------------------------------------------------------------------------------------


@contextmanager
def _stage_in_place(where: Location, overwrite: bool, head: Head | None) -> Iterator[StagedTarget]:
    store = where.store(read_only=False, create=True)
    local = isinstance(store, DirectoryStore)
    journal = ConversionJournal(store, UNFINISHED, partial(sync_medium, store.url) if local else None)
    _require_free(where, store, journal, overwrite, resumes=head is not None)
    is_complete = False
    try:
        with _lock_target(store, where.url):
            documents = _load_documents(journal, head, where)
            if documents is None:
                _require_free(where, store, journal, overwrite, resumes=False)
                _clear(store)
                journal.begin(_NOT_RESUMABLE if head is None else head)
            unpublished = UnpublishedStore(store, documents)
            log = None if head is None else journal
            with _clear_on_failure(store, journal) if head is None else _log_what_is_kept(where.url):
                yield StagedTarget(
                    unpublished,
                    where,
                    log,
                    has_documents=documents is not None,
                    hides_documents=True,
                    _store=unpublished,
                )
                if local:
                    make_durable(store.url)
                with EnclosingDataset(where).follow_whole():
                    unpublished.publish()
            is_complete = True  # to call anything from here on a failure would have it made again
            try:
                journal.end()
            except (StorageError, ReadOnly) as error:
                _log.warning("%s is complete, but its journal %s is not removed: %s", where.url, UNFINISHED, error)
    except (StorageError, ReadOnly) as error:
        if not is_complete:
            raise
        _log.warning("%s is complete, but its lock is not removed: %s", where.url, error)
    store.close()


@contextmanager
def _clear_on_failure(store: Store, journal: ConversionJournal) -> Iterator[None]:
    """Remove what was built, when the block fails; what cannot be removed stays marked, for the next to replace."""
    try:
        yield
    except BaseException:
        try:
            _clear(store)
            journal.end()
        except HyperslabError as error:
            _log.warning("what was written of %s is not removed, the next conversion does: %s", store.url, error)
        raise


def _load_documents(journal: ConversionJournal, head: Head | None, where: Location) -> dict[str, bytes] | None:
    """Return the documents of an earlier conversion that goes on; None when this one is the first."""
    before = None if head is None else journal.head()
    if before is None or head is None or before == _NOT_RESUMABLE:
        return None
    require_same_order(before, head, where.url)
    documents = journal.documents()
    if documents is None:
        return None
    journal.load()
    return parse_documents(documents)


def _clear(store: Store) -> None:
    """Remove what is there.

    The mark of a conversion stays, so that what a killed one has not removed is never taken for somebody's.
    """
    # the root first: a reader finds the old dataset or none, never half of one
    keys, folders = store.list_dir("")
    for key in sorted(keys, key=lambda key: key[0].isdigit()):  # those are chunks of an array at the root
        store.delete(key)
    for folder in folders:
        if folder != UNFINISHED:
            store.delete_prefix(folder)


def _require_free(where: Location, store: Store, journal: ConversionJournal, overwrite: bool, *, resumes: bool) -> None:
    """Raise AlreadyExists for what is not to be replaced: all but what a killed conversion has left unfinished."""
    before = journal.head()
    if overwrite or (resumes and before is not None):
        return
    keys, folders = store.list_dir("")
    if before is None and (keys or {*folders} - {UNFINISHED}):
        raise already_exists(where.url)
    documents = None if before is None else journal.documents()
    if documents is None:
        return
    *_, (last, _) = publication_order(parse_documents(documents))
    if store.get(last) is not None:
        message = "the target exists: a conversion completed it, and was cut off before it could tidy up"
        raise AlreadyExists(message, url=where.url, remedy="open it, or choose overwrite=True (--overwrite)")
    if before != _NOT_RESUMABLE:
        remedy = "go on with resume=True (--resume), or start anew with overwrite=True (--overwrite)"
        raise AlreadyExists("an interrupted conversion lies there", url=where.url, remedy=remedy)


@contextmanager
def _lock_target(store: Store, target: str) -> Iterator[None]:
    """Keep other conversions, and writers who make a dataset there, from this target, where the store has locks.

    Conflict for a living writer. In a bucket it takes the time of a lease to tell one from a dead one.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(store.lock_node("", store.lease_seconds))
        except Conflict:
            remedy = "wait for it, or stop it"
            raise Conflict("another conversion or writer is building this target", url=target, remedy=remedy) from None
        except Unsupported:  # a server without conditional requests: one writer at a time
            pass
        yield


# -- documents that are held back --------------------------------------------------------------------------------------
# Readers find chunks that nothing speaks of, so they find no dataset. What is held back, and the journal, lie in a
# hidden folder that is not listed.


class UnpublishedStore(WrappedStore):
    """A store without renames in which a dataset is built: its documents are held back until all cells are there.

    ``documents``: those held back by key; None as long as they are still being written: until :meth:`seal` every value
    that is put is one.
    """

    def __init__(self, store: Store, documents: dict[str, bytes] | None = None, *, read_only: bool = False) -> None:
        super().__init__(store, read_only=read_only)
        self._collects_documents = documents is None
        self.documents = {} if documents is None else documents

    def close(self) -> None:
        """Leave the store open: it is not yet published."""

    def get(self, key: str) -> bytes | None:
        return self.documents[key] if key in self.documents else self._store.get(key)

    def get_into(self, key: str, scratch: Scratch, most: int | None = None) -> memoryview | None:
        """Return the whole value, None when missing."""
        if key in self.documents:
            return Store.get_into(self, key, scratch, most)
        return self._store.get_into(key, scratch, most)

    def read_exactly(self, key: str, out: memoryview) -> int | None:
        if key in self.documents:
            return Store.read_exactly(self, key, out)
        return self._store.read_exactly(key, out)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        return Store.get_ranges(self, key, ranges) if key in self.documents else self._store.get_ranges(key, ranges)

    def size(self, key: str) -> int | None:
        return len(self.documents[key]) if key in self.documents else self._store.size(key)

    def stamp(self, key: str) -> Stamp | None:
        """Return what identifies the present version: of a document its bytes."""
        return self.documents[key] if key in self.documents else self._store.stamp(key)

    def list(self, prefix: str = "") -> Iterator[str]:
        stored = (key for key in self._store.list(prefix) if not key.startswith(f"{UNFINISHED}/"))
        yield from sorted({*stored, *self._documents_below(prefix)})

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        keys, folders = self._store.list_dir(prefix)
        more, inner = split_names(self._documents_below(prefix), prefix)
        return sorted({*keys, *more}), sorted({*folders, *inner} - ({UNFINISHED} if not prefix else set()))

    def _documents_below(self, prefix: str) -> Iterator[str]:
        return (key for key in self.documents if key.startswith(below(prefix)))

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Store the value, or hold it back."""
        self.put_many([(key, value)], durable=durable)

    def put_many(self, pairs: Iterable[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """Write by the store's own group commit, else one by one."""

        def cells() -> Iterator[tuple[str, Buffer]]:
            for key, value in pairs:
                # Documents may change even when cells are written, where cells stand in them.
                if self._collects_documents or key in self.documents:
                    # In the order in which each was last put.
                    self.documents.pop(check_key(key), None)
                    self.documents[key] = bytes(value)
                else:
                    yield key, value

        if self._collects_documents:
            list(cells())
        else:
            self._store.put_many(cells(), durable=durable)

    def delete(self, key: str, *, durable: bool = False) -> None:
        if self.documents.pop(key, None) is None:
            self._store.delete(key, durable=durable)

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        for key in [key for key in self.documents if key == prefix or key.startswith(below(prefix))]:
            del self.documents[key]
        self._store.delete_prefix(prefix, durable=durable)

    def seal(self) -> Sequence[Sequence[str]]:
        """Take what is put from now on for cells. Return the documents as JSON values."""
        self._collects_documents = False
        return [[key, b64encode(value).decode()] for key, value in self.documents.items()]

    def publish(self) -> None:
        """Put the documents, the root's last, and see that they are there.

        A value whose request failed may be there all the same, and one that is there may be unreadable for a while:
        neither makes a complete target a failure.
        """
        documents = publication_order(self.documents)
        for key, value in documents:
            try:
                self._store.put(key, value, durable=True)
            except (StorageError, ReadOnly):
                is_stored = False
                with suppress(StorageError):
                    is_stored = self._store.get(key) == value
                if not is_stored:
                    raise
        try:
            wrong = [key for key, value in documents if self._store.get(key) != value]
        except StorageError as error:
            _log.warning("%s is complete, but its documents could not be read again: %s", self.url, error)
            return
        if wrong:
            raise StorageError("what was written is not what is read", url=self.url, key=wrong[0])


def publication_order(documents: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """Return the documents in the order in which they are published: with the last one the dataset is complete."""
    return sorted(documents.items(), key=lambda entry: "/" not in entry[0])


def parse_documents(documents: Sequence[Sequence[str]]) -> dict[str, bytes]:
    """Return the documents that :meth:`UnpublishedStore.seal` gave."""
    return {key: b64decode(value) for key, value in documents}
