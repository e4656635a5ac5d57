"""Where a target is built, and how it comes to its place whole: by a rename, or in place with its documents last.

With an order (``head``) the half-built target and its journal stay when the conversion fails or is killed, under names
that follow from the target's, and the next one goes on from there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from hyperslab.conversion.fingerprint import agree
from hyperslab.conversion.journal import ConversionJournal
from hyperslab.conversion.unpublished import Unpublished, in_order, unsealed
from hyperslab.errors import AlreadyExists, Conflict, HyperslabError, ReadOnly, StorageError, Unsupported
from hyperslab.formats import SCHEMES
from hyperslab.stores import leases
from hyperslab.stores.base import Locks, LocksNodes, WritableStore
from hyperslab.stores.building import building, make_durable, put_in_place, refuse_taken, remove, sync_medium
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.keys import UNFINISHED, is_temporary
from hyperslab.stores.location import Location

Head = Mapping[str, Any]

_ANEW: Head = {"resume": False}
"""The order of a conversion in place that nobody may resume: it marks what is there as half a target."""

_log = logging.getLogger("hyperslab")


@dataclass
class StagedTarget:
    """A target that is being built. ``place``: what opens it for writing. ``begun``: its documents are written and
    sealed. ``journal``: None when nobody may resume. ``where``: its location, for other processes; ``held``: whether
    its documents are held back there; ``mode``: in which it is opened before it is ``begun``."""

    place: Any
    where: Location
    journal: ConversionJournal | None = None
    begun: bool = False
    held: bool = False
    mode: Literal["x", "w"] = "x"
    _store: Unpublished | None = field(default=None, repr=False)

    def documents_written(self) -> None:
        """All documents are there; what is put from now on are cells."""
        documents = [] if self._store is None else self._store.seal()
        if self.journal is not None:
            self.journal.documents_written(documents)
        elif self._store is not None:
            ConversionJournal(self._store, UNFINISHED).documents_written(documents)
        self.begun = True

    def anew(self) -> Any:
        """What opens the target for reading, from scratch."""
        if self._store is None:
            return self.where
        return Unpublished(self.where.store(read_only=True), dict(self._store.held), read_only=True)


@contextmanager
def site_of(where: Location, *, overwrite: bool, head: Head | None) -> Iterator[StagedTarget]:
    """Where to build the target at ``where``. ``head``: the order of a conversion that may be resumed.

    When the block ends well the target is complete and in its place. Else it is what it was before; in a store without
    renames that is nothing, when something was to be overwritten. AlreadyExists unless ``overwrite``; Conflict when
    another conversion is building it, or a writer is making a dataset there; Invalid when ``head`` does not agree with
    that of the journal.
    """
    if where.scheme == "file" and where.path is not None and head is not None:
        with _resumable(where.path, overwrite, head) as site:
            yield site
    elif where.scheme in ("file", "zip") and where.path is not None:
        with building(where.path, overwrite=overwrite) as temporary:
            beside = Location.of(temporary if where.scheme == "file" else f"zip://{temporary}")
            yield StagedTarget(beside, beside)
        _forget_interrupted(where.path)
    elif where.scheme in SCHEMES:
        yield StagedTarget(where, where, mode="w" if overwrite else "x")
    else:
        with _in_place(where, overwrite, head) as site:
            yield site


# -- beside the target ----------------------------------------------------------------------------------------------


def resumable_names(target: str) -> tuple[str, str]:
    """Where a folder ``target`` is built that may be resumed, and where its journal lies."""
    folder, name = os.path.split(os.path.realpath(target))
    return os.path.join(folder, f".partial-resume-{name}"), os.path.join(folder, f".partial-journal-{name}")


@contextmanager
def _resumable(path: str, overwrite: bool, head: Head) -> Iterator[StagedTarget]:
    target = os.path.realpath(path)
    half, notes = resumable_names(path)
    if not os.path.isdir(notes):
        refuse_taken(target, overwrite)
    store = DirectoryStore(notes)
    journal = ConversionJournal(store, sync=partial(sync_medium, os.path.dirname(target)))
    try:
        with _alone(store, target):
            site = _continued(journal, head, target, half)
            if site is None:
                refuse_taken(target, overwrite)
                site = _begun(journal, head, half)
            with _kept(target):
                yield site
            if site.where.path == half:
                sweep(half)
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
def _kept(target: str) -> Iterator[None]:
    """Say, when the block fails, that it was not in vain."""
    try:
        yield
    except BaseException:
        _log.warning("what is done of %s is kept: the same call, with resume (--resume), goes on from there", target)
        raise


def _continued(journal: ConversionJournal, head: Head, target: str, half: str) -> StagedTarget | None:
    """The site that an earlier conversion left: half built, or in its place already; None when there is none."""
    before = journal.head()
    if before is None:
        return None
    agree(before, head, target)
    places = [place for place in (half, target) if _number_of(place) == before.get("place")]
    if not places or journal.documents() is None:
        return None
    journal.load()
    where = Location.of(places[0])
    return StagedTarget(where, where, journal, begun=True)


def _begun(journal: ConversionJournal, head: Head, half: str) -> StagedTarget:
    """An empty folder to build in, and its journal."""
    remove(half)
    os.mkdir(half)
    journal.begin({**head, "place": _number_of(half)})
    where = Location.of(half)
    return StagedTarget(where, where, journal)


def _number_of(folder: str) -> int | None:
    """What tells a folder from others, whatever its name: the half-built target and one that it is to replace."""
    try:
        return os.stat(folder).st_ino
    except OSError:
        return None


def _forget_interrupted(path: str) -> None:
    """Remove what an interrupted conversion left that this one has made superfluous."""
    half, notes = resumable_names(path)
    if os.path.isdir(notes):
        store = DirectoryStore(notes)
        with suppress(Conflict), _alone(store, path):
            ConversionJournal(store).end()
            remove(half)
            remove(notes)


def sweep(folder: str) -> None:
    """Remove the temporary files that killed writers left."""
    for place, _, names in os.walk(folder):
        for name in filter(is_temporary, names):
            os.unlink(os.path.join(place, name))


# -- in place -------------------------------------------------------------------------------------------------------


@contextmanager
def _in_place(where: Location, overwrite: bool, head: Head | None) -> Iterator[StagedTarget]:
    store = where.store(read_only=False, create=True)
    local = isinstance(store, DirectoryStore)
    journal = ConversionJournal(store, UNFINISHED, partial(sync_medium, store.url) if local else None)
    _refuse_taken(where, store, journal, overwrite, resumes=head is not None)
    is_complete = False
    try:
        with _alone(store, where.url):
            held = _held_back(journal, head, where)
            if held is None:
                _refuse_taken(where, store, journal, overwrite, resumes=False)
                _clear(store)
                journal.begin(_ANEW if head is None else head)
            unpublished = Unpublished(store, held)
            log = None if head is None else journal
            with _cleared(store, journal) if head is None else _kept(where.url):
                yield StagedTarget(unpublished, where, log, begun=held is not None, held=True, _store=unpublished)
                if local:
                    make_durable(store.url)
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
def _cleared(store: WritableStore, journal: ConversionJournal) -> Iterator[None]:
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


def _held_back(journal: ConversionJournal, head: Head | None, where: Location) -> dict[str, bytes] | None:
    """The documents of an earlier conversion that goes on; None when this one is the first."""
    before = None if head is None else journal.head()
    if before is None or head is None or before == _ANEW:
        return None
    agree(before, head, where.url)
    documents = journal.documents()
    if documents is None:
        return None
    journal.load()
    return unsealed(documents)


def _clear(store: WritableStore) -> None:
    """Remove what is there, its root first: a reader finds the old dataset or none, never half of one. The mark of a
    conversion stays, so that what a killed one has not removed is never taken for somebody's."""
    keys, folders = store.list_dir("")
    for key in sorted(keys, key=lambda key: key[0].isdigit()):  # those are chunks of an array at the root
        store.delete(key)
    for folder in folders:
        if folder != UNFINISHED:
            store.delete_prefix(folder)


def _refuse_taken(
    where: Location, store: WritableStore, journal: ConversionJournal, overwrite: bool, *, resumes: bool
) -> None:
    """Raise AlreadyExists for what is not to be replaced: all but what a killed conversion has left unfinished."""
    before = journal.head()
    if overwrite or (resumes and before is not None):
        return
    keys, folders = store.list_dir("")
    if before is None and (keys or {*folders} - {UNFINISHED}):
        raise AlreadyExists(
            "the target exists", url=where.url, remedy="choose another, or overwrite=True (--overwrite)"
        )
    documents = None if before is None else journal.documents()
    if documents is None:
        return
    *_, (last, _) = in_order(unsealed(documents))
    if store.get(last) is not None:
        message = "the target exists: a conversion completed it, and was cut off before it could tidy up"
        raise AlreadyExists(message, url=where.url, remedy="open it, or choose overwrite=True (--overwrite)")
    if before != _ANEW:
        remedy = "go on with resume=True (--resume), or start anew with overwrite=True (--overwrite)"
        raise AlreadyExists("an interrupted conversion lies there", url=where.url, remedy=remedy)


@contextmanager
def _alone(store: WritableStore, target: str) -> Iterator[None]:
    """No other conversion builds this target meanwhile, and nobody makes a dataset there, where the store has locks.

    That of a living writer is a Conflict. In a bucket it takes the time of a lease to tell one from a dead one.
    """
    with ExitStack() as held:
        if isinstance(store, LocksNodes):
            patience = 0 if isinstance(store, Locks) else leases.LEASE + leases.BEAT
            try:
                held.enter_context(store.lock_node("", patience))
            except Conflict:
                remedy = "wait for it, or stop it"
                raise Conflict(
                    "another conversion or writer is building this target", url=target, remedy=remedy
                ) from None
            except Unsupported:  # a server without conditional requests: one writer at a time
                pass
        yield
