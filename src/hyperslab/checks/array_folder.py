"""Everything that lies in an array's folder: chunks in place and out of place, strangers, and what is in each chunk."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from hyperslab.checks.chunk_names import ChunkNames
from hyperslab.checks.findings import Finding, found
from hyperslab.checks.objects import ArrayObjects, ObjectFlaw, mismatch, span
from hyperslab.checks.unexpected_nodes import strange
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.pool import batched, each_batch
from hyperslab.errors import StorageError
from hyperslab.model.paths import child
from hyperslab.stores import counting
from hyperslab.stores.base import Store

_BATCH = 16
_TRIES = 5
_OTHER_LENGTHS = frozenset({"truncated-chunk", "oversized-chunk"})
_BROKEN = _OTHER_LENGTHS | {"corrupt-chunk", "shard-index", "shard-range"}


class CheckedFolder:
    """The folder of the array ``path``. ``known``: names of documents, which are none of its business.

    Afterwards ``stored`` is the number of objects in place and ``last`` their largest coordinate along each axis, -1
    where there is none.
    """

    def __init__(self, store: Store, path: str, objects: ArrayObjects, known: frozenset[str], *, deep: bool) -> None:
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
        self._question_document()
        self._note_missing()
        return self._found

    def _examine(self, batch: list[tuple[Coords, str]]) -> None:
        for coords, place in batch:
            for flaw in self._flaws(coords, place):
                message = f"{flaw.message} [key={place}, cells {span(self._objects.grid, coords)}]"
                self._found.append(found(self._path, flaw.kind, message, key=place, coords=coords))
        if self._deep and counting.watchers:
            counting.done(len(batch))

    def _flaws(self, coords: Coords, place: str) -> list[ObjectFlaw]:
        """The flaws of one version of an object; one that is replaced meanwhile is looked at again."""
        keys = self._objects.keys
        flaws: list[ObjectFlaw] = []
        for _ in range(_TRIES):
            stamp = keys.stamp(place)
            flaws = list(self._objects.examine(coords, place, deep=self._deep))
            if not flaws or keys.stamp(place) == stamp:
                break
        return flaws

    def _question_document(self) -> None:
        """Call the document in question where no chunk is as it says: damage leaves some chunks as they were."""
        broken = [finding for finding in self._found if finding.problem.kind in _BROKEN]
        places = {finding.key: finding for finding in broken}
        if not places or len(places) != self.stored:
            return
        content = self._common_length(broken)
        if content is None and len(places) > 1 and not any(map(self._is_saved, places.values())):
            content = "what no codec of the document reads"
        if content is None:
            return
        for finding in broken:
            flaw = mismatch(content)
            message = f"{flaw.message}; {finding.problem.message}"
            changed = found(self._path, flaw.kind, message, key=finding.key, coords=finding.coords)
            self._found[self._found.index(finding)] = changed

    def _is_saved(self, finding: Finding) -> bool:
        """Return whether some inner chunks of a shard are sound; under an index that is none they are a guess."""
        return (
            finding.problem.kind != "shard-index"
            and self._objects.salvage(finding.coords or (), finding.key)[0] is not None
        )

    def _common_length(self, broken: list[Finding]) -> str | None:
        """Tell the length that all chunks have where it fits whole cells: bare ones have no length of their own."""
        sizes = {self._objects.keys.size(finding.key) for finding in broken}
        size, cells = next(iter(sizes)), prod(self._objects.grid.fixed or ())
        is_cut = any(finding.problem.kind not in _OTHER_LENGTHS for finding in broken)
        if is_cut or len(sizes) > 1 or not size or not cells or size % cells:
            return None
        return f"{size} bytes, {size // cells} for each cell"

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
            counts = self._objects.grid.counts
            message = f"the chunk {name} lies outside the grid of {counts} chunks, and is not read [key={place}]"
            self._found.append(found(self._path, "outside-grid", message, key=place, coords=coords, sound=True))
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
        """Return whether to look into a folder; one that has no business here is a finding."""
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
    """Return whether anything at all lies in a folder."""
    return any(map(len, store.list_dir(folder))) or any(True for _ in strange(store, folder, ""))
