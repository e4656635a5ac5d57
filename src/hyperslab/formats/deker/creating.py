"""New arrays of a DEKER collection: all of them or none, and one per key whoever else is at work.

The file lies complete under a temporary name; with the key's folder locked the link is made, unless one leads to an
array that exists; then the file gets its name, at which moment the array exists. Who dies between leaves a link that
leads to nothing: it holds no key, and the next one to want that key replaces it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial

from hyperslab.errors import AlreadyExists, NodeNotFound
from hyperslab.formats.deker import links, paths
from hyperslab.formats.deker.files import empty_file, in_folder, sync_entries, sync_removal, write_beside
from hyperslab.formats.deker.folder import Folder
from hyperslab.formats.deker.locks import hold_place
from hyperslab.formats.deker.records import Key, Records
from hyperslab.formats.metadata_json import records
from hyperslab.model.schemas.records import Record, check_id
from hyperslab.stores import locks
from hyperslab.stores.files import discard

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS})


class DekerCreation:
    """Arrays of ``size`` cells (VArrays: any) that are made together."""

    def __init__(self, folder: Folder, records: Records, size: int) -> None:
        self._folder = folder
        self._records = records
        self._size = size
        self._made: list[tuple[Record, str]] = []

    def run(self, new: Sequence[Record]) -> None:
        """Make them; AlreadyExists, SchemaError for a key that cannot be a path."""
        for record in new:
            check_id(record.id)
            paths.check_parts(record.primary.values())
        try:
            for record in new:
                self._create(record)
        except BaseException:
            for record, place in reversed(self._made):
                self._undo(record.id, place)
            raise

    def _create(self, record: Record) -> None:
        path = links.require_inside(self._folder.path, self._folder.data(record.id))
        key = tuple(record.primary.values())
        place = self._records.place(key)
        linked = links.require_inside(self._folder.path, f"{self._folder.path}/{place}")
        durable = self._folder.settings.durable
        if os.path.lexists(path):
            raise self._taken(f"the id {record.id}")
        text = records.text(record)
        body = empty_file(text.decode(), self._size) if self._folder.kind == "array" else text
        head = os.path.dirname(path)
        missing = first_missing(head) if durable else head
        temporary = in_folder(head, lambda: write_beside(path, body, durable=durable))
        try:
            absent = first_missing(linked) if durable else linked
            try:
                with self._held(place, key):
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
        if keyed and self._records.live(place):
            raise self._taken(f"the key {dict(record.primary)}")
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

    def _held(self, place: str, key: Key) -> AbstractContextManager[None]:
        """Hold the folder of a key; without primary attributes all links lie in one folder, and nobody is kept out."""
        path = f"{self._folder.path}/{place}"
        made = partial(in_folder, path, partial(str, path))
        return locks.hold_folder(made, self._folder.settings.lock_timeout) if key else nullcontext()

    def _undo(self, id: str, place: str) -> None:
        folder, kind = self._folder.path, self._folder.kind
        with suppress(OSError):
            links.remove_file(folder, kind, self._folder.data(id))
            remove_held(self._folder, place, id)

    def _taken(self, what: str) -> AlreadyExists:
        return AlreadyExists(f"{what} is taken", url=self._folder.path, node=self._folder.name)


def remove_held(folder: Folder, place: str, id: str) -> None:
    """Remove a link, and folders that it leaves empty, while nobody is making one there."""
    with suppress(NodeNotFound), hold_place(f"{folder.path}/{place}", folder.settings.lock_timeout):
        links.remove_link(folder.path, folder.kind, place, id)
        links.prune(folder.path, place)
        if folder.settings.durable:
            sync_removal(f"{folder.path}/{place}")


def _name_new(temporary: str, path: str) -> None:
    """Give a file a name that nothing has; FileExistsError."""
    try:
        in_folder(os.path.dirname(path), partial(os.link, temporary, path))
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from error
        os.replace(temporary, path)


def first_missing(folder: str) -> str:
    """The outermost folder on the way to ``folder`` that is not there yet; ``folder`` itself when all are."""
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
