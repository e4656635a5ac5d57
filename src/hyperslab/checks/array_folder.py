"""Everything that lies in an array's folder: chunks in place and out of place, strangers, and what is in each chunk."""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.checks.chunk_names import ChunkNames
from hyperslab.checks.findings import Finding, found
from hyperslab.checks.objects import Flaw, Objects, span
from hyperslab.checks.strangers import strange
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.pool import batched, each_batch
from hyperslab.errors import StorageError
from hyperslab.model.paths import child
from hyperslab.stores import counting
from hyperslab.stores.base import Store

_BATCH = 16
_TRIES = 5


class ArrayFolder:
    """The folder of the array ``path``. ``known``: names of documents, which are none of its business.

    Afterwards ``stored`` is the number of objects in place and ``last`` their largest coordinate along each axis, -1
    where there is none.
    """

    def __init__(self, store: Store, path: str, objects: Objects, known: frozenset[str], *, deep: bool) -> None:
        self._store = store
        self._path = path
        self._objects = objects
        self._known = known
        self._deep = deep
        self._names = ChunkNames(objects.keys.key_of, objects.grid)
        self._found: list[Finding] = []
        self.stored = 0
        self.last = [-1] * len(objects.grid.axes)

    def examine(self) -> list[Finding]:
        """All findings; the chunks are looked at by several threads, each in the memory of one chunk."""
        each_batch(self._examine, batched(self._chunks(), _BATCH), self._objects.keys.settings.threads)
        self._note_missing()
        return self._found

    def _examine(self, batch: list[tuple[Coords, str]]) -> None:
        for coords, place in batch:
            for flaw in self._flaws(coords, place):
                message = f"{flaw.message} [key={place}, cells {span(self._objects.grid, coords)}]"
                self._found.append(found(self._path, flaw.kind, message, key=place, coords=coords))
        if self._deep and counting.watchers:
            counting.done(len(batch))

    def _flaws(self, coords: Coords, place: str) -> list[Flaw]:
        """The flaws of one version of an object; one that is replaced meanwhile is looked at again."""
        keys = self._objects.keys
        flaws: list[Flaw] = []
        for _ in range(_TRIES):
            stamp = keys.stamp(place)
            flaws = list(self._objects.examine(coords, place, deep=self._deep))
            if not flaws or keys.stamp(place) == stamp:
                break
        return flaws

    def _note_missing(self) -> None:
        count, stored = self._objects.grid.size, self.stored
        if 0 < stored < count:
            verb = "is" if count - stored == 1 else "are"
            message = f"{count - stored} of {count} chunks {verb} not stored; their cells read as the fill value"
            self._found.append(found(self._path, "missing-chunk", message, sound=True))

    # -- names ------------------------------------------------------------------------------------------------------

    def _chunks(self) -> Iterator[tuple[Coords, str]]:
        """The chunks that are where they belong; all else is found on the way."""
        folders = [""]
        while folders:
            folder = folders.pop()
            place = child(self._path, folder).rstrip("/")
            try:
                names, inner = self._store.list_dir(place)
                strays = list(strange(self._store, place, self._path))
            except StorageError as error:
                self._found.append(found(self._path, "unreadable-folder", error.said, key=place))
                continue
            self._found += map(self._in_place, strays)
            aside = {stray.key for stray in strays}
            for name in names:
                if child(place, name) not in aside and not (not folder and name in self._known):
                    yield from self._file(child(folder, name))
            folders += [
                child(folder, name)
                for name in reversed(inner)
                if child(place, name) not in aside and self._folder(child(folder, name))
            ]

    def _in_place(self, stray: Finding) -> Finding:
        """A stray, with the cells that are not read where it lies in place of a chunk."""
        coords = self._names.coords(stray.key[len(self._objects.keys.prefix) :])
        if coords is None or not self._names.within(coords):
            return stray
        problem = stray.problem
        message = f"{problem.message} in place of the cells {span(self._objects.grid, coords)}"
        return found(problem.node, problem.kind, message, key=stray.key, coords=coords)

    def _file(self, name: str) -> Iterator[tuple[Coords, str]]:
        place = child(self._path, name)
        coords = self._names.coords(name)
        if coords is None:
            self._found.append(self._misnamed(name, place))
        elif not self._names.within(coords):
            message = f"the chunk {name} lies outside the grid of {self._objects.grid.counts} chunks [key={place}]"
            self._found.append(found(self._path, "outside-grid", message, key=place, coords=coords))
        else:
            self.stored += 1
            self.last = list(map(max, self.last, coords))
            yield coords, place

    def _misnamed(self, name: str, place: str) -> Finding:
        meant = self._names.meant(name)
        if meant is not None:
            right = self._objects.keys.key_of(meant)
            message = f"the chunk {name} would be called {right} in this array, and is not read [key={place}]"
            return found(self._path, "misspelled-key", message, key=place, coords=meant)
        what = "a key of no chunk of this array" if self._names.is_alike(name) else "no part of an array"
        return found(self._path, "foreign", f"{name} is {what} [key={place}]", key=place)

    def _folder(self, name: str) -> bool:
        """Whether to look into a folder; one that has no business here is a finding."""
        place = child(self._path, name)
        coords = self._names.coords(name)
        if coords is not None:
            message = f"a folder lies in place of the chunk {name} [key={place}]"
            stray = found(self._path, "folder-for-chunk", message, key=place)
            self._found.append(self._in_place(stray))
            return False
        if self._names.leads_to_keys(name):
            return True
        if holds_any(self._store, place):
            message = f"the folder {name} is no part of an array [key={place}]"
            self._found.append(found(self._path, "foreign", message, key=place))
        return False


def holds_any(store: Store, folder: str) -> bool:
    """Whether anything at all lies in a folder."""
    return any(map(len, store.list_dir(folder))) or any(True for _ in strange(store, folder, ""))
