"""The place of what is taken out of a dataset: moved to a folder beside it, where there is one, else removed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats.enclosing import find_enclosing
from hyperslab.formats.rules import Finding
from hyperslab.stores.base import Store
from hyperslab.stores.credentials import redact
from hyperslab.stores.files import discard, open_folder, sync_folder, write_error
from hyperslab.stores.location import Location, local_path

# Bytes of a value that are copied at once: a value of any size is kept in bounded memory.
_PIECE = 16 << 20


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Takes keys, folders and strays out of ``store``, if the dataset lies in one; ``folder`` is where they go, None:
    nowhere."""

    store: Store | None
    folder: str | None

    @property
    def verb(self) -> str:
        """Return what happens, for messages."""
        return f"move it to {self.folder}" if self.folder else "remove it"

    def keeping(self, place: str) -> str:
        """Return where the present value of a key is kept when it is replaced, for messages."""
        if self.folder is None:
            return "what is stored now is kept nowhere, unless quarantine= (--quarantine) names a folder"
        return f"what is stored now is kept as {self._free(place)}"

    def take(self, place: str) -> None:
        """Take away what lies at ``place``."""
        self._take(place, self._free(place) if self.folder else None)

    def remove(self, place: str) -> None:
        """Remove what nobody will miss."""
        self._take(place, None)

    def keep(self, place: str) -> None:
        """Copy a value that is about to be replaced."""
        if self.folder:
            self._copy(place, self._free(place))

    def keep_bytes(self, name: str, data: bytes) -> None:
        """Keep what is about to be replaced and has no key of its own."""
        if self.folder and data:
            with self._failing(name):
                self._write([data], self._free(name))

    def carry_out(self, finding: Finding) -> None:
        """Do what a finding says mends it; what is taken out or replaced is kept."""
        for place in finding.keep:
            self.keep(place)
        if finding.take:
            self.take(finding.take)
        if finding.act is not None:
            finding.act()

    def _take(self, place: str, target: str | None) -> None:
        store = self.store
        if store is None:
            return
        if target is None or store.traits.expels:
            store.expel(place, target)
            return
        self._copy(place, target)
        for key in store.list(place):
            self._copy(key, target + key[len(place) :])
        store.delete_prefix(place)

    def _copy(self, place: str, target: str) -> None:
        """Store a value as a file, which the medium keeps when this is done; nothing where there is no value."""
        pieces = self._pieces(place)
        with self._failing(place):
            for first in filter(None, pieces):
                self._write(chain([first], pieces), target)

    @contextmanager
    def _failing(self, place: str) -> Iterator[None]:
        """Tell what the quarantine's medium refuses as that."""
        try:
            yield
        except HyperslabError:
            raise
        except OSError as error:
            failed = write_error(error, self.folder or "", place)
            failed.message = f"nothing is kept in the quarantine {self.folder}: {failed.message}"
            failed.remedy = "name another folder with quarantine= (--quarantine)"
            raise failed from error

    def _write(self, pieces: Iterable[bytes], target: str) -> None:
        """Write all of it, durable, or no file."""
        above = os.path.dirname(os.path.abspath(self.folder or ""))
        while not os.path.isdir(above):
            above = os.path.dirname(above)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            with open(target, "xb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            # the names of the file, and of the folders that were made for it, are kept by a sync of what they stand in
            place = os.path.abspath(target)
            while place != above:
                place = os.path.dirname(place)
                with open_folder(place) as descriptor:
                    sync_folder(descriptor)
        except BaseException:
            discard(target)
            raise

    def _pieces(self, place: str) -> Iterator[bytes]:
        """Yield the value, some MiB at a time where the store reads parts of values."""
        store = self.store
        if store is None:
            return
        if not store.traits.ranges:
            yield store.get(place) or b""
            return
        for start in range(0, store.size(place) or 0, _PIECE):
            yield from store.get_ranges(place, [(start, start + _PIECE)]) or []

    def _free(self, place: str) -> str:
        """Return a path of that name in the folder that is not taken by what an earlier repair left."""
        path = os.path.join(self.folder or "", *place.split("/"))
        number = 1
        free = path
        while os.path.lexists(free):
            number += 1
            free = f"{path}.{number}"
        return free


def quarantine_folder(where: Location, wanted: str | os.PathLike[str] | None) -> str | None:
    """Return the folder that is wanted, else one beside a dataset in the file system; of a node within one, beside
    the whole."""
    if wanted is not None:
        folder = local_path(os.fspath(wanted))
        if folder is None:
            raise Invalid(f"a quarantine at {redact(os.fspath(wanted))}", remedy="name a folder of this machine")
        return folder
    if where.path is None:
        return None
    root = find_enclosing(where)
    return f"{where.path}.quarantine" if root is None else f"{root.path}.quarantine/{root.way_to(where)}"
