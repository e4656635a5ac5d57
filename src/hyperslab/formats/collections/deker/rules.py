"""Rules and damage of a DEKER collection: documents, files, links, tiles, locks, strays.

Nothing that is damaged keeps the rest from being looked at. What the peer's own check finds at its levels 1 to 4 is
found here too; besides, links to nothing, tiles without links, and what is left of processes that died.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import mul
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block
from hyperslab.errors import Conflict, HyperslabError, NodeNotFound, NotFound, Problem
from hyperslab.formats.collections.base import document_problems
from hyperslab.formats.collections.deker import links, locks
from hyperslab.formats.collections.deker.arrays import StoredArrays
from hyperslab.formats.collections.deker.data_file import DekerFile, open_file
from hyperslab.formats.collections.deker.file_writer import FileRewrite, count_fill
from hyperslab.formats.collections.deker.folder import (
    FOLDERS,
    Kind,
    are_safe,
    data_files,
    data_path,
    id_in,
    make_empty,
    path_component,
    position_of,
    read_json_file,
    tile_folder,
    translate_errors,
    walk,
)
from hyperslab.formats.collections.deker.tiles import Place, parse_tile_position
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.rules import FOREIGN, LINKS, Act, Finding, Rule, Rules, found_at, found_foreign, join_spans, span
from hyperslab.model.schemas.arrays import Record
from hyperslab.stores.files import remove_tree, write_errors
from hyperslab.stores.keys import has_no_writer, is_temporary
from hyperslab.stores.locks import hold_file


@dataclass(frozen=True)
class FolderLink:
    """A link in the folder ``place``, the node that it is of, and the path that it leads to."""

    kind: Kind
    place: str
    id: str
    node: str
    target: str


@translate_errors(lambda survey: survey.folder.path)
@dataclass
class CollectionSurvey:
    """One look through a collection; ``deep`` reads every cell besides."""

    arrays: StoredArrays
    deep: bool
    records: dict[str, Record] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    odd: dict[str, list[FolderLink]] = field(default_factory=dict)
    """By the kind of problem: links that hyperslab follows and DEKER does not."""

    def __post_init__(self) -> None:
        self.folder = self.arrays.folder
        self._path = self.folder.path
        self._name = self.folder.name

    def run(self) -> Iterator[Finding]:
        """Yield every problem with what mends it."""
        yield from self.examine_document()
        yield from self._arrays()
        yield from self._links()
        if self.folder.kind == "varray":
            yield from self._tiles()
        for kind, found in self.odd.items():
            yield self._odd_links(kind, found)
        yield from self._strays()

    def _finding(
        self,
        node: str,
        kind: str,
        message: str,
        place: str,
        action: str | None = None,
        act: Act | None = None,
        *,
        part: str = "",
        cells: str = "",
    ) -> Finding:
        """Return a problem of the file or link at ``place`` in the collection's folder; ``act`` runs as a change."""

        def modify(act: Act) -> None:
            with self.folder.modify():
                act()

        key = f"collections/{self._name}/{place}".rstrip("/")
        done = None if act is None else partial(modify, act)
        return found_at(node, kind, message, key, action, done, part=part, cells=cells)

    def _node(self, id: str) -> str:
        return f"{self._name}/{id}"

    # -- documents --------------------------------------------------------------------------------------------------

    def examine_document(self) -> Iterator[Finding]:
        """Yield the problems of the collection's document and lock file."""
        place = f"{self._name}.json"
        try:
            found = document_problems(read_json_file(self.folder.document), self._name)
        except HyperslabError as error:
            found = [Problem(self._name, "invalid-document", error.said)]
        for problem in found:
            yield self._finding(self._name, problem.kind, problem.message, place)
        if not os.path.isfile(self.folder.lock):
            message = "the collection has no lock file, which DEKER's check asks for"
            place, make = f"../{self._name}.lock", partial(make_empty, self.folder.lock)
            yield self._finding(self._name, "no-lock-file", message, place, "make it", make)

    def _arrays(self) -> Iterator[Finding]:
        kind = self.folder.kind
        for id, _ in data_files(self._path, kind):
            place = data_path(kind, id)
            opened = None
            try:
                if kind == "array":
                    opened = open_file(self.folder.data(id))
                text = self.arrays.text(id) if opened is None else opened.text
                yield from self._record(id, place, text)
            except HyperslabError as error:
                self.damaged.add(id)
                yield self._finding(self._node(id), "unreadable-node", error.said, place)
                continue
            if opened is not None:
                yield from self._examine_file(id, None, place, opened)

    def _record(self, id: str, place: str, text: str | None) -> Iterator[Finding]:
        problems = Problems(self._node(id))
        record = self.arrays.parse(id, text or "", problems)
        for problem in problems:
            yield self._finding(problem.node, problem.kind, problem.message, place)
        if problems.is_fatal:
            self.damaged.add(id)
        else:
            self.records[id] = record

    # -- links ------------------------------------------------------------------------------------------------------

    def _links(self) -> Iterator[Finding]:
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
                yield self._finding(self._node(id), "wrong-link", message, place, "remove the link", act, part=LINKS)
            elif record is not None:
                linked.add(id)
                seen.setdefault(place, []).append(id)
        for place, ids in seen.items():
            if len(ids) > 1 and self.arrays.document.schema.primary_attributes:
                message = f"{len(ids)} arrays have one key: {', '.join(ids)}"
                yield self._finding(self._name, "duplicate-key", message, place)
        for id, record in self.records.items():
            if id not in linked:
                yield self._missing_link(id, record)

    def _missing_link(self, id: str, record: Record) -> Finding:
        key = tuple(record.primary.values())
        place = self.arrays.place(key)
        message = "no link leads to the array: it is not found by its key"
        if not are_safe(key):
            return self._finding(self._node(id), "missing-link", message, place)
        if key and self.arrays.existing_ids(place):
            message = "another array has the same key, and the link of it"
            return self._finding(self._node(id), "duplicate-key", message, place)
        act = partial(self._put_link, self.folder.kind, place, id)
        return self._finding(self._node(id), "missing-link", message, place, "make the link", act, part=LINKS)

    def _put_link(self, kind: Kind, place: str, id: str) -> None:
        links.put_link(self._path, kind, place, id, relative=self.folder.relative)

    def _fits(self, place: str, record: Record) -> bool:
        """Return True if a link lies in the folder of a record's key, as far as its tuples tell what they were."""
        parts, values = place.split("/")[1:], tuple(record.primary.values())
        if not are_safe(values):
            return place == self.arrays.place(values)
        return len(parts) == len(values) and all(
            isinstance(value, tuple) or path_component(value) == part for part, value in zip(parts, values, strict=True)
        )

    def _link(self, kind: Kind, place: str, id: str, node: str) -> Iterator[Finding]:
        """Yield the problems of a link's target."""
        target = links.link_text(self._path, kind, place, id)
        if links.follow(self._path, kind, place, id) is None:
            act = partial(self._remove_dangling, kind, place, id)
            message = f"a link leads to nothing: {target}"
            yield self._finding(node, "dangling-link", message, place, "remove the link", act, part=LINKS)
        elif not os.path.isfile(self.folder.data(id, kind)):
            yield self._finding(node, "misplaced-file", f"the file is not where its id says, but at {target}", place)
        elif target != links.expected_target(self._path, kind, place, id, relative=self.folder.relative):
            relative = target is not None and not os.path.isabs(target) and not self.folder.relative
            what = "relative-link" if relative else "moved-link"
            self.odd.setdefault(what, []).append(FolderLink(kind, place, id, node, str(target)))

    def _odd_links(self, what: str, found: list[FolderLink]) -> Finding:
        """Return all links of one kind at once: after a move that is every link of the collection."""
        one, *more = found
        node = self._name if more else one.node
        if what == "moved-link":
            many = f"{len(found):,} links, the first of them to" if more else "a link to"
            message = f"DEKER will not follow {many} {one.target}"
        else:
            many = f"{len(found):,} links are relative, the first of them" if more else "a link is relative"
            message = f"{many}: {one.target}"

        def relink() -> None:
            for each in found:
                self._put_link(each.kind, each.place, each.id)

        action = f"make the link{'s' if more else ''} anew, as hyperslab db relink does"
        return self._finding(node, what, message, one.place, action, relink, part=LINKS)

    def _remove_dangling(self, kind: Kind, place: str, id: str) -> None:
        timeout = self.folder.settings.lock_timeout
        with suppress(NodeNotFound), locks.lock_folder(f"{self._path}/{place}", timeout):
            if links.follow(self._path, kind, place, id) is None:
                links.remove_link(self._path, kind, place, id)
                links.prune(self._path, place)

    # -- tiles ------------------------------------------------------------------------------------------------------

    def _tiles(self) -> Iterator[Finding]:
        linked = {id: place for place, id in links.places(self._path, "array")}
        first: dict[Place, str] = {}
        stored = [id for id, _ in data_files(self._path, "array")]
        for id in sorted(stored, key=lambda id: id not in linked):
            place = data_path("array", id)
            try:
                opened = open_file(self.folder.data(id, "array"))
            except HyperslabError as error:
                node, cells = self._tile_of_link(linked.get(id))
                yield self._finding(node, "unreadable-tile", error.said, place, cells=cells)
                continue
            yield from self._tile(id, place, opened, linked.get(id), first)
        for id, place in linked.items():
            yield from self._link("array", place, id, self._node(place.split("/")[1] if "/" in place else ""))

    def _tile(
        self, id: str, place: str, opened: DekerFile, linked: str | None, first: dict[Place, str]
    ) -> Iterator[Finding]:
        belongs = parse_tile_position(opened.text)
        if belongs is None:
            node, cells = self._tile_of_link(linked)
            yield self._finding(node, "unreadable-tile", "its meta does not say which tile it is", place, cells=cells)
            return
        vid, coords = belongs
        node = self._node(vid)
        if vid not in self.records:
            above = (linked or "").split("/")[1:2]
            if above and above[0] in self.records:
                message = f"its meta says that the tile is of {vid}, its link that it is of {above[0]}"
                yield self._finding(self._node(above[0]), "wrong-meta", message, place)
            elif vid not in self.damaged:
                message, remove = (
                    f"a tile of the array {vid}, which is not there",
                    partial(self._remove_tile, id, linked),
                )
                yield self._finding(self._name, "orphan-tile", message, place, "remove the tile", remove)
            return
        schema: Any = self.arrays.document.schema
        if len(coords) != len(schema.vgrid) or any(a >= n for a, n in zip(coords, schema.vgrid, strict=False)):
            message = f"a tile at {coords}, outside the grid {schema.vgrid}: its meta, or the schema, is in question"
            yield self._finding(node, "outside-tile", message, place)
            return
        wanted = tile_folder(vid, coords)
        if first.setdefault(belongs, id) != id:
            yield self._finding(node, "duplicate-tile", f"two files for the tile {coords}: {first[belongs]} too", place)
        elif linked is None:
            act = partial(self._put_link, "array", wanted, id)
            message = f"no link leads to the tile {coords}"
            yield self._finding(node, "missing-link", message, place, "make the link", act, part=LINKS)
        elif linked != wanted:
            yield self._finding(node, "wrong-link", f"the link of the tile {coords} is at {linked}", place)
        yield from self._examine_file(vid, coords, place, opened)

    def _tile_of_link(self, linked: str | None) -> tuple[str, str]:
        """Return the node, and the cells, of the tile that the link at ``linked`` leads to, as far as it says them."""
        above = (linked or "").split("/")
        coords = position_of(above[2]) if len(above) > 2 else None
        is_place = coords is not None and len(coords) == len(self.arrays.form.shape)
        node = self._node(above[1]) if len(above) > 1 else self._name
        return node, self._cells(above[1], coords) if is_place else ""

    def _cells(self, id: str, coords: Coords | None, within: Sequence[slice] | None = None) -> str:
        """Return the cells, and their labels, of a tile, or of an array (None); of part of its file those ``within``
        it."""
        schema, record, sizes = self.arrays.document.schema, self.records.get(id), self.arrays.form.shape
        starts = (0,) * len(sizes) if coords is None else tuple(map(mul, coords, sizes))
        parts = within or [slice(0, size) for size in sizes]
        extent = [slice(start + part.start, start + part.stop) for start, part in zip(starts, parts, strict=False)]
        indexes = None if record is None else schema.indexes(record.values)
        return span(extent, [dimension.name for dimension in schema.dimensions], indexes)

    def _remove_tile(self, id: str, linked: str | None) -> None:
        links.remove_file(self._path, "array", self.folder.data(id, "array"))
        if linked is not None:
            links.remove_link(self._path, "array", linked, id)
            links.prune(self._path, linked)

    # -- the HDF5 file of an Array or tile; it is mended by writing it anew ------------------------------------------

    def _examine_file(self, id: str, coords: Coords | None, place: str, opened: DekerFile) -> Iterator[Finding]:
        """Yield the problems of the file of an array, or of a tile of it; ``place`` in the folder of the collection."""
        node = self._node(id)
        key = f"collections/{self.folder.name}/{place}"
        form = self.arrays.form

        def found(kind: str, message: str, *, mends: bool = True, is_note: bool = False, cells: str = "") -> Finding:
            action = "write the file anew" if mends else None
            act = partial(self._rewrite, opened.path) if mends else None
            return found_at(node, kind, message, key, action, act, is_note=is_note, cells=cells)

        if opened.cells is not None and opened.shape != form.shape:
            message = f"data has the shape {opened.shape}, the schema says {form.shape}"
            yield found("wrong-shape", message, mends=False, cells=self._cells(id, coords))
            return
        if opened.cells is not None and opened.dtype.newbyteorder("=") != form.dtype:
            message = f"data has the type {opened.dtype}, the schema says {form.dtype}"
            if self._fits_no_file:
                message = f"{message}, as no file of the collection is: the schema is in question"
            yield found("wrong-dtype", message, mends=not self._fits_no_file)
        elif opened.cells is not None and opened.dtype != form.dtype:
            yield found("byte-order", f"data is stored as {opened.dtype.str}", is_note=True)
        if opened.empty_cells is None:
            yield found("no-count", "empty_cells is missing: DEKER cannot update the array")
        if self.deep and opened.cells is not None:
            count = 0
            lost: list[tuple[slice, ...]] = []
            reason = ""
            for box in map(form.grid.extent, form.grid):
                try:
                    count += count_fill(self._read_block(opened, box, form.dtype), self.arrays.fill)
                except HyperslabError as error:
                    lost.append(box)
                    reason = reason or error.said
            if lost:
                cells = join_spans([self._cells(id, coords, box) for box in lost])
                yield found("unreadable-cells", reason, mends=False, cells=cells)
            elif opened.empty_cells is not None and count != opened.empty_cells:
                message = f"empty_cells is {opened.empty_cells}, {count} cells are: DEKER may take data away by it"
                yield found("wrong-count", message, is_note=True)

    @cached_property
    def _fits_no_file(self) -> bool:
        """True if the schema tells the type of the cells of no file: it is wrong then, and not the files."""
        form = self.arrays.form
        for id, _ in data_files(self.folder.path, "array"):
            with suppress(HyperslabError):
                opened = open_file(self.folder.data(id, "array"))
                if opened.cells is not None and opened.dtype.newbyteorder("=") == form.dtype:
                    return False
        return True

    def _require_fit(self, opened: DekerFile) -> None:
        """Raise Conflict where the cells of a file are none of the type that the schema says."""
        form = self.arrays.form
        if opened.cells is None or opened.dtype.newbyteorder("=") == form.dtype:
            return
        for stored, cast in zip(self._blocks(opened, opened.dtype), self._blocks(opened, form.dtype), strict=True):
            if not np.array_equal(cast, stored, equal_nan=form.dtype.kind in "fc" and stored.dtype.kind in "fc"):
                message = f"cells of type {opened.dtype} are not all of type {form.dtype}"
                raise Conflict(message, url=opened.path, remedy="look which is right, the schema or the file")

    def _blocks(self, opened: DekerFile, dtype: np.dtype[np.generic]) -> Iterator[Block]:
        """Yield all cells of a file as ``dtype``, piece by piece."""
        grid = self.arrays.form.grid
        for box in map(grid.extent, grid):
            yield self._read_block(opened, box, dtype)

    def _read_block(self, opened: DekerFile, box: tuple[slice, ...], dtype: np.dtype[np.generic]) -> Block:
        """Return the cells of a file between two corners as ``dtype``."""
        block = np.empty([part.stop - part.start for part in box], dtype)
        opened.read(box, block, self.folder.settings)
        return block

    def _rewrite(self, path: str) -> None:
        """Write a file as it should be, with the cells that it has."""
        arrays, settings = self.arrays, self.folder.settings
        with self.folder.modify(), locks.lock_file(partial(str, path), settings.lock_timeout):
            opened = arrays.files.get(path)
            self._require_fit(opened)
            FileRewrite(path, arrays.form, arrays.fill, settings, opened).run(opened.text or "")
        arrays.files.forget(path)

    # -- what is none of these --------------------------------------------------------------------------------------

    def _strays(self) -> Iterator[Finding]:
        with os.scandir(self._path) as entries:
            folders = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        for path in filter(is_abandoned, folders):
            place, act = os.path.basename(path), partial(remove_tree, path)
            yield self._finding(self._name, "temporary", "a removal was not completed", place, "complete it", act)
        for name, path, _ in walk(self._path, 100):
            place = os.path.relpath(path, self._path)
            remove = partial(os.unlink, path)
            if is_temporary(place.partition("/")[0]) and "/" in place:
                continue
            if locks.is_lock(name):
                if not locks.is_live(path):
                    message = "a lock of a process that is dead"
                    yield self._finding(self._name, "stale-lock", message, place, "remove it", remove)
            elif is_temporary(name):
                if is_abandoned(path):
                    message = "an unfinished write was left"
                    yield self._finding(self._name, "temporary", message, place, "remove it", remove)
            elif place != f"{self._name}.json":
                yield from self._other_file(name, place)

    def _other_file(self, name: str, place: str) -> Iterator[Finding]:
        """Yield what is wrong with a file of no writer: that it is none of an array, or not where its id says."""
        top = place.partition("/")[0]
        kind: Kind = "array" if top.startswith("array") else "varray"
        id = id_in(kind, name) if top in FOLDERS else None
        if id is None:
            key = f"collections/{self._name}/{place}"
            yield found_foreign(self._name, "the file is no part of a collection", key)
        elif not top.endswith("_symlinks") and place != data_path(kind, id):
            yield self._finding(self._name, "misplaced-file", "the file is in the wrong place for its id", place)


# -- what lies beside the collections of a root -----------------------------------------------------------------------


def is_abandoned(path: str) -> bool:
    """Return True if a file or folder has a temporary name, and nobody is at work on it."""
    name = os.path.basename(path)
    if not is_temporary(name):
        return False
    try:
        return has_no_writer(name, time.time() - os.lstat(path).st_mtime)
    except OSError:
        return False


def root_orphans(folder: str, names: Collection[str], known: Collection[str]) -> Iterator[Finding]:
    """Yield the entries (``names``) of the folder of all collections that belong to no ``known`` one."""
    for name in names:
        path = f"{folder}/{name}"
        if name in known or os.path.isfile(f"{path}/collection.json") or os.path.isdir(f"{path}/generations"):
            continue  # the other layout tells of its own
        if is_temporary(name):
            if is_abandoned(path):
                remove = partial(_remove, path)
                yield _root_finding("temporary", "an unfinished change was left", path, "remove it", remove)
        elif _is_unfinished(path):
            message = f"the collection {name} was not made or not removed to the end"
            yield _root_finding("temporary", message, path, "remove its folder", partial(_remove_unfinished, path))
        elif _is_being_made(path):
            continue
        elif any(os.path.isdir(f"{path}/{each}") for each in FOLDERS):
            yield _root_finding("missing-document", f"the collection {name} has no document {name}.json", path)
        elif os.path.isdir(path):
            yield found_foreign("", f"{name} is no collection: it has no document {name}.json", f"collections/{name}")
        elif name.endswith(".lock"):
            if name.removesuffix(".lock") not in known:
                message = "the lock file of a collection that is not there"
                if os.path.isfile(path) and not os.path.getsize(path) and not os.path.lexists(path[: -len(".lock")]):
                    yield _root_finding("stray-lock", message, path, "remove it", partial(_unlock, path))
                else:
                    yield _root_finding("stray-lock", message, path)
        else:
            yield found_foreign("", f"{name} is no part of a collection", f"collections/{name}")


def _is_unfinished(path: str) -> bool:
    """Return True if a folder holds nothing but the temporary files of writers that died."""
    try:
        return not os.path.islink(path) and all(is_abandoned(f"{path}/{name}") for name in os.listdir(path))
    except OSError:
        return False


def _is_being_made(path: str) -> bool:
    """Return True if a folder holds a temporary file of a writer that is at work."""
    try:
        return any(is_temporary(name) and not is_abandoned(f"{path}/{name}") for name in os.listdir(path))
    except OSError:
        return False


def _remove_unfinished(path: str) -> None:
    """Remove such a folder; one that a writer has begun to fill meanwhile stays, since it is not empty."""
    with write_errors(path, ""), suppress(FileNotFoundError):
        for name in os.listdir(path):
            if is_abandoned(f"{path}/{name}"):
                os.unlink(f"{path}/{name}")
        with suppress(OSError):
            os.rmdir(path)


def _root_finding(kind: str, message: str, path: str, action: str | None = None, act: Act | None = None) -> Finding:
    return found_at("", kind, message, f"collections/{os.path.basename(path)}", action, act)


def _remove(path: str) -> None:
    with write_errors(path, ""), suppress(FileNotFoundError):
        remove_tree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def _unlock(lock: str) -> None:
    """Remove a lock file while nobody holds it, unless its collection has been made meanwhile."""
    with write_errors(lock, ""), suppress(FileNotFoundError, NotFound), hold_file(partial(str, lock), 1):
        if not os.path.lexists(lock.removesuffix(".lock")):
            os.unlink(lock)


# -- the table: all of it is found by the look above ------------------------------------------------------------------

RULES = Rules(
    Rule(
        ("wrong-dtype", "wrong-shape", "outside-tile", "wrong-meta"),
        "an array or tile that contradicts the schema",
        "a DEKER file whose cells all fit the type of the others is rewritten; nothing is removed",
    ),
    Rule(
        ("missing-link", "wrong-link", "dangling-link", "moved-link"),
        "a DEKER link that is missing, dangling, wrong, or leads to a previous place of the collection",
        "created, rewritten, or removed if its target is gone",
    ),
    Rule(
        ("relative-link",),
        "a note: links that hyperslab follows but DEKER does not",
        "rewritten",
    ),
    Rule(
        ("duplicate-key", "duplicate-tile", "misplaced-file"),
        "two arrays with one key, two files for one tile, or a file in the wrong place for its id",
        "not repairable",
    ),
    Rule(
        ("orphan-tile",),
        "a tile whose array is gone",
        "removed",
    ),
    Rule(
        ("no-count", "wrong-count", "byte-order"),
        "a count or property that DEKER expects and the file lacks; harmless for hyperslab",
        "rewritten",
    ),
    Rule(
        ("no-lock-file", "stale-lock", "temporary"),
        "missing lock files, and leftovers of dead writers",
        "created; removed",
    ),
    Rule(
        (FOREIGN,),
        "a note: files and folders that are not part of a collection",
        "left alone; `--drop-foreign` moves them to quarantine",
    ),
    Rule(("missing-document",), "a DEKER collection without its document", "not repairable"),
    Rule(
        ("invalid-document", "unreadable-node", "unreadable-tile", "unreadable-cells"),
        "an array, tile or collection that cannot be read",
        "not repairable",
    ),
)
