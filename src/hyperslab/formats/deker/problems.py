"""A DEKER collection looked through: documents, files, links, tiles, locks and what is none of these, with remedies.

Nothing that is damaged keeps the rest from being looked at. What the peer's own check finds at its levels 1 to 4 is
found here too; besides, links to nothing, tiles without links, and what is left of processes that died.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hyperslab.errors import HyperslabError, NodeNotFound, Problem
from hyperslab.formats.base import Remedy
from hyperslab.formats.collection_document import CollectionDocument, problems
from hyperslab.formats.deker import links, listing, locks, paths
from hyperslab.formats.deker.cells import DekerCells
from hyperslab.formats.deker.file_problems import FileProblems
from hyperslab.formats.deker.folder import Folder, make_empty, read_document
from hyperslab.formats.deker.lost import Place, place_of
from hyperslab.formats.deker.opened import DekerFile, open_file
from hyperslab.formats.deker.paths import Kind
from hyperslab.formats.deker.records import Records
from hyperslab.formats.deker.stray_files import is_left
from hyperslab.formats.deker.system_errors import translate_errors
from hyperslab.formats.format_errors import Problems
from hyperslab.model.schemas.records import Record
from hyperslab.stores.files import remove_tree
from hyperslab.stores.keys import is_temporary


@dataclass(frozen=True)
class FolderLink:
    """A link in the folder ``place``, the node that it is of, and what it says."""

    kind: Kind
    place: str
    id: str
    node: str
    said: str


@translate_errors(lambda survey: survey.folder.path)
@dataclass
class CollectionSurvey:
    """One look through a collection; ``deep`` reads every cell besides."""

    folder: Folder
    document: CollectionDocument
    stored: Records
    cells: DekerCells
    deep: bool
    records: dict[str, Record] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    odd: dict[str, list[FolderLink]] = field(default_factory=dict)
    """By the kind of problem: links that hyperslab follows and DEKER does not."""

    def __post_init__(self) -> None:
        self._path = self.folder.path
        self._name = self.folder.name
        self._files = FileProblems(self.folder, self.cells, self.deep)

    def run(self) -> Iterator[Remedy]:
        """Every problem with its remedy."""
        yield from self.of_document()
        yield from self._arrays()
        yield from self._links()
        if self.folder.kind == "varray":
            yield from self._tiles()
        for kind, found in self.odd.items():
            yield self._odd_links(kind, found)
        yield from self._strays()

    def _found(
        self,
        node: str,
        kind: str,
        message: str,
        place: str,
        action: str | None = None,
        act: Callable[[], object] | None = None,
        *,
        part: str = "",
    ) -> Remedy:
        """A problem of the file or link at ``place`` in the collection's folder."""
        key = f"collections/{self._name}/{place}".rstrip("/")
        done = None if act is None else partial(self._do, act)
        return Remedy(Problem(node, kind, f"{message} [key={key}]"), action, done, at=key, part=part)

    def _do(self, act: Callable[[], object]) -> None:
        with self.folder.changing():
            act()

    def _node(self, id: str) -> str:
        return f"{self._name}/{id}"

    # -- documents --------------------------------------------------------------------------------------------------

    def of_document(self) -> Iterator[Remedy]:
        """What is wrong with the collection's document and lock file."""
        place = f"{self._name}.json"
        try:
            found = problems(read_document(self.folder.document), self._name)
        except HyperslabError as error:
            found = [Problem(self._name, "invalid-document", error.said)]
        for problem in found:
            yield self._found(self._name, problem.kind, problem.message, place)
        if not os.path.isfile(self.folder.lock):
            message = "the collection has no lock file, which DEKER's check asks for"
            yield self._found(self._name, "no-lock-file", message, f"../{self._name}.lock", "make it", self._make_lock)

    def _make_lock(self) -> None:
        make_empty(self.folder.lock)

    def _arrays(self) -> Iterator[Remedy]:
        kind = self.folder.kind
        for id, _ in listing.data_files(self._path, kind):
            place = paths.data_path(kind, id)
            opened = None
            try:
                if kind == "array":
                    opened = open_file(self.folder.data(id))
                text = self.stored.text(id) if opened is None else opened.text
                yield from self._record(id, place, text)
            except HyperslabError as error:
                self.damaged.add(id)
                yield self._found(self._node(id), "unreadable-node", error.said, place)
                continue
            if opened is not None:
                yield from self._files.examine(self._node(id), place, opened)

    def _record(self, id: str, place: str, text: str | None) -> Iterator[Remedy]:
        problems = Problems(self._node(id))
        record = self.stored.parse(id, text or "", problems)
        for problem in problems:
            yield self._found(problem.node, problem.kind, problem.message, place)
        if problems.is_fatal:
            self.damaged.add(id)
        else:
            self.records[id] = record

    # -- links ------------------------------------------------------------------------------------------------------

    def _links(self) -> Iterator[Remedy]:
        kind = self.folder.kind
        seen: dict[str, list[str]] = {}
        linked: set[str] = set()
        for place, id in list(links.places(self._path, kind)):
            if kind == "array" or not place.startswith("array_symlinks"):
                yield from self._link(kind, place, id, self._node(id))
            record = self.records.get(id)
            if record is not None and not self._fits(place, record):
                message = f"a link to {id} is in the folder of another key"
                act = partial(links.remove_link, self._path, kind, place, id)
                yield self._found(self._node(id), "wrong-link", message, place, "remove the link", act, part="links")
            elif record is not None:
                linked.add(id)
                seen.setdefault(place, []).append(id)
        for place, ids in seen.items():
            if len(ids) > 1 and self.document.schema.primary_attributes:
                message = f"{len(ids)} arrays have one key: {', '.join(ids)}"
                yield self._found(self._name, "duplicate-key", message, place)
        for id, record in self.records.items():
            if id not in linked:
                yield self._missing_link(id, record)

    def _missing_link(self, id: str, record: Record) -> Remedy:
        key = tuple(record.primary.values())
        place = self.stored.place(key)
        message = "no link leads to the array: it is not found by its key"
        if not paths.are_safe(key):
            return self._found(self._node(id), "missing-link", message, place)
        if key and self.stored.live(place):
            message = "another array has the same key, and the link of it"
            return self._found(self._node(id), "duplicate-key", message, place)
        act = partial(self._put_link, self.folder.kind, place, id)
        return self._found(self._node(id), "missing-link", message, place, "make the link", act, part="links")

    def _put_link(self, kind: Kind, place: str, id: str) -> None:
        links.put_link(self._path, kind, place, id, relative=self.folder.relative)

    def _fits(self, place: str, record: Record) -> bool:
        """Return whether a link lies in the folder of a record's key, as far as its tuples tell what they were."""
        parts = place.split("/")[1:]
        values = list(record.primary.values())
        if not paths.are_safe(values):
            return place == self.stored.place(tuple(values))
        return len(parts) == len(values) and all(
            isinstance(value, tuple) or paths.component(value) == part
            for part, value in zip(parts, values, strict=True)
        )

    def _link(self, kind: Kind, place: str, id: str, node: str) -> Iterator[Remedy]:
        """What is wrong with where a link leads."""
        said = links.said_by(self._path, kind, place, id)
        if links.follow(self._path, kind, place, id) is None:
            act = partial(self._remove_dangling, kind, place, id)
            message = f"a link leads to nothing: {said}"
            yield self._found(node, "dangling-link", message, place, "remove the link", act, part="links")
        elif not os.path.isfile(self.folder.data(id, kind)):
            yield self._found(node, "misplaced-file", f"the file is not where its id says, but at {said}", place)
        elif said != links.target_of(self._path, kind, place, id, relative=self.folder.relative):
            relative = said is not None and not os.path.isabs(said) and not self.folder.relative
            what = "relative-link" if relative else "moved-link"
            self.odd.setdefault(what, []).append(FolderLink(kind, place, id, node, str(said)))

    def _odd_links(self, what: str, found: list[FolderLink]) -> Remedy:
        """All links of one kind at once: after a move that is every link of the collection."""
        one, *more = found
        node = self._name if more else one.node
        if what == "moved-link":
            many = f"{len(found):,} links, the first of them to" if more else "a link to"
            message = f"DEKER will not follow {many} {one.said}"
        else:
            many = f"{len(found):,} links are relative, the first of them" if more else "a link is relative"
            message = f"{many}: {one.said}"
        action = f"make the link{'s' if more else ''} anew, as hyperslab db relink does"
        return self._found(node, what, message, one.place, action, partial(self._put_links, found), part="links")

    def _put_links(self, found: list[FolderLink]) -> None:
        for each in found:
            self._put_link(each.kind, each.place, each.id)

    def _remove_dangling(self, kind: Kind, place: str, id: str) -> None:
        timeout = self.folder.settings.lock_timeout
        with suppress(NodeNotFound), locks.hold_place(f"{self._path}/{place}", timeout):
            if links.follow(self._path, kind, place, id) is None:
                links.remove_link(self._path, kind, place, id)
                links.prune(self._path, place)

    # -- tiles ------------------------------------------------------------------------------------------------------

    def _tiles(self) -> Iterator[Remedy]:
        linked = {id: place for place, id in links.places(self._path, "array")}
        first: dict[Place, str] = {}
        stored = [id for id, _ in listing.data_files(self._path, "array")]
        for id in sorted(stored, key=lambda id: id not in linked):
            place = paths.data_path("array", id)
            try:
                opened = open_file(self.folder.data(id, "array"))
            except HyperslabError as error:
                above = linked.get(id, "").split("/")
                node = self._node(above[1]) if len(above) > 1 else self._name
                yield self._found(node, "unreadable-tile", error.said, place)
                continue
            yield from self._tile(id, place, opened, linked.get(id), first)
        for id, place in linked.items():
            yield from self._link("array", place, id, self._node(place.split("/")[1] if "/" in place else ""))

    def _tile(
        self, id: str, place: str, opened: DekerFile, linked: str | None, first: dict[Place, str]
    ) -> Iterator[Remedy]:
        belongs = place_of(opened.text)
        remove: Callable[[], object] = partial(self._remove_tile, id, linked)
        if belongs is None:
            yield self._found(self._name, "unreadable-tile", "its meta does not say which tile it is", place)
            return
        vid, coords = belongs
        node = self._node(vid)
        if vid not in self.records:
            above = (linked or "").split("/")[1:2]
            if above and above[0] in self.records:
                message = f"its meta says that the tile is of {vid}, its link that it is of {above[0]}"
                yield self._found(self._node(above[0]), "wrong-meta", message, place)
            elif vid not in self.damaged:
                message = f"a tile of the array {vid}, which is not there"
                yield self._found(self._name, "orphan-tile", message, place, "remove the tile", remove)
            return
        schema: Any = self.document.schema
        if len(coords) != len(schema.vgrid) or any(a >= n for a, n in zip(coords, schema.vgrid, strict=False)):
            message = f"a tile at {coords}, outside the grid {schema.vgrid}: its meta, or the schema, is in question"
            yield self._found(node, "outside-tile", message, place)
            return
        wanted = paths.tile_folder(vid, coords)
        if first.setdefault(belongs, id) != id:
            yield self._found(node, "duplicate-tile", f"two files for the tile {coords}: {first[belongs]} too", place)
        elif linked is None:
            act = partial(self._put_link, "array", wanted, id)
            message = f"no link leads to the tile {coords}"
            yield self._found(node, "missing-link", message, place, "make the link", act, part="links")
        elif linked != wanted:
            yield self._found(node, "wrong-link", f"the link of the tile {coords} is at {linked}", place)
        yield from self._files.examine(node, place, opened)

    def _remove_tile(self, id: str, linked: str | None) -> None:
        links.remove_file(self._path, "array", self.folder.data(id, "array"))
        if linked is not None:
            links.remove_link(self._path, "array", linked, id)
            links.prune(self._path, linked)

    # -- what is none of these --------------------------------------------------------------------------------------

    def _strays(self) -> Iterator[Remedy]:
        yield from self._doomed()
        for name, path, _ in listing.walk(self._path, 100):
            place = os.path.relpath(path, self._path)
            remove = partial(os.unlink, path)
            if is_temporary(place.partition("/")[0]) and "/" in place:
                continue
            if locks.is_lock(name):
                if not locks.is_live(path):
                    message = "a lock of a process that is dead"
                    yield self._found(self._name, "stale-lock", message, place, "remove it", remove)
            elif is_temporary(name):
                if is_left(path):
                    message = "an unfinished write was left"
                    yield self._found(self._name, "temporary", message, place, "remove it", remove)
            elif not self._is_known(name, place):
                yield self._found(self._name, "alien-file", "the file is no part of a collection", place)

    def _doomed(self) -> Iterator[Remedy]:
        """Folders that were being removed as a whole."""
        with os.scandir(self._path) as entries:
            folders = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        for path in filter(is_left, folders):
            place, act = os.path.basename(path), partial(remove_tree, path)
            yield self._found(self._name, "temporary", "a removal was not completed", place, "complete it", act)

    def _is_known(self, name: str, place: str) -> bool:
        top = place.partition("/")[0]
        if place == f"{self._name}.json":
            return True
        if top not in paths.FOLDERS:
            return False
        kind: Kind = "array" if top.startswith("array") else "varray"
        id = paths.id_in(kind, name)
        return id is not None and (top.endswith("_symlinks") or place == paths.data_path(kind, id))
