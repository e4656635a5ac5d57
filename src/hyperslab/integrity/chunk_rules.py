"""Rules about what lies in an array's folder: chunks that cannot be decoded, under wrong names, or outside the grid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.errors import Conflict
from hyperslab.formats.rules import FOREIGN, Finding, Plan, Rule, Stage, Subject, found, found_at, nothing, span
from hyperslab.integrity.stored_chunks import (
    OTHER_CELLS,
    UNREADABLE,
    ArrayObjects,
    ObjectFlaw,
    has_chunk,
    mismatch,
)
from hyperslab.integrity.views import ArrayView, ChunkView, EntryView, NodeView, RepairState, Role
from hyperslab.model.paths import child
from hyperslab.stores.base import Store

# A chunk that is replaced this often while it is looked at is left to its writer.
SHARD_CHECK_TRIES = 5
_OTHER_LENGTHS = frozenset({"truncated-chunk", "oversized-chunk"})
_BROKEN = _OTHER_LENGTHS | {"corrupt-chunk", "shard-index", "shard-range"}
"""Kinds that put the document in question where all chunks of an array have one: the codecs or lengths that it says may
be wrong, and not the chunks."""
_STRAY_TEXTS = {
    "dangling-link": "a symbolic link leads to {target}, where nothing is",
    "circular-link": "a symbolic link leads in a circle, to {target}",
    "outside-link": "a symbolic link leads out of the dataset, to {target}, and is not followed",
    "special-file": "a pipe, socket or device",
    "unusable-name": "the name can be no key",
}

# -- how they are found: strays and names -----------------------------------------------------------------------------


def find_strays(store: Store, folder: str, node: str) -> Iterator[Finding]:
    """Yield what lies right in a folder and is no value; unfinished writes only when their writer is gone."""
    for stray in store.strays(folder):
        if stray.kind != "temporary":
            message = _STRAY_TEXTS[stray.kind].format(target=stray.target)
        elif stray.is_abandoned:
            since = f"{stray.age / 3600:.0f} hours ago" if stray.age >= 3600 else f"{stray.age:.0f} seconds ago"
            message = f"an unfinished write, begun {since} by a writer that is gone"
        else:
            continue
        place = child(folder, stray.name)
        yield found_at(node, stray.kind, message, place)


def holds_any(store: Store, folder: str) -> bool:
    """Return True if anything at all lies in a folder."""
    return any(map(len, store.list_dir(folder))) or any(True for _ in find_strays(store, folder, ""))


def find_foreign_names(node: NodeView) -> Iterator[Finding]:
    """Yield a note of what lies in the folder of a group and is no part of one, and of folders that are no part of the
    dataset: somebody put them there, such as the OME-XML beside images."""
    if node.role is Role.FOREIGN:
        message = f"the folder is no part of a dataset [key={node.path}]"
        yield found(node.path, FOREIGN, message, key=node.path, is_note=True, wish=FOREIGN)
    if node.role in (Role.GROUP, Role.BARE_GROUP):
        for name in node.names:
            if name not in node.dataset.known_names:
                place = child(node.path, name)
                yield found_at(node.path, FOREIGN, f"{name} is no part of a group", place, is_note=True, wish=FOREIGN)


def find_node_strays(node: NodeView) -> Iterator[Finding]:
    """Yield links, pipes, unfinished writes right in the folder of a node."""
    yield from node.strays


def find_outside_grid(entry: EntryView) -> Iterator[Finding]:
    """Yield a chunk that is none of the array's grid."""
    array, coords = entry.array, entry.coords
    if not entry.is_folder and coords is not None:
        counts = array.objects.grid.counts
        message = f"the chunk {entry.name} lies outside the grid of {counts} chunks, and is not read [key={entry.key}]"
        yield found(array.path, "outside-grid", message, key=entry.key, coords=coords, is_note=True)


def find_misspelled(entry: EntryView) -> Iterator[Finding]:
    """Yield a chunk under the key of another layout."""
    array, meant = entry.array, None if entry.is_folder or entry.coords else entry.array.names.meant(entry.name)
    if meant is not None and entry.coords is None:
        right = array.objects.keys.key_of(meant)
        message = f"the chunk {entry.name} would be called {right} in this array, and is not read [key={entry.key}]"
        yield found(array.path, "misspelled-key", message, key=entry.key, coords=meant)


def find_foreign_entry(entry: EntryView) -> Iterator[Finding]:
    """Yield a note of what is no chunk and no folder of chunks, by its name."""
    array = entry.array
    if entry.coords is not None or array.names.is_alike(entry.name):
        return
    if not entry.is_folder:
        message = f"{entry.name} is no part of an array"
        yield found_at(array.path, FOREIGN, message, entry.key, is_note=True, wish=FOREIGN)
    elif holds_any(array.dataset.store, entry.key):
        message = f"the folder {entry.name} is no part of an array"
        yield found_at(array.path, FOREIGN, message, entry.key, is_note=True, wish=FOREIGN)


def find_stray_chunk(entry: EntryView) -> Iterator[Finding]:
    """Yield what has the name of a chunk, or of a folder of chunks, of an array of another rank."""
    array, names = entry.array, entry.array.names
    if entry.coords is not None or not names.is_alike(entry.name):
        return
    if not entry.is_folder:
        if names.meant(entry.name) is None:
            yield found_at(array.path, "stray-chunk", f"{entry.name} is a key of no chunk of this array", entry.key)
    elif holds_any(array.dataset.store, entry.key):
        yield found_at(array.path, "stray-chunk", f"the folder {entry.name} has no chunk of this array", entry.key)


def find_folder_for_chunk(entry: EntryView) -> Iterator[Finding]:
    """Yield a folder under the key of a chunk."""
    if entry.is_folder and entry.coords is not None:
        message = f"a folder lies in place of the chunk {entry.name} [key={entry.key}]"
        yield in_place_of_chunk(entry.array, found(entry.array.path, "folder-for-chunk", message, key=entry.key))


def in_place_of_chunk(array: ArrayView, stray: Finding) -> Finding:
    """Return a stray, with the cells that are not read where it lies in place of a chunk."""
    coords = array.names.coords(stray.key[len(array.objects.keys.prefix) :])
    if coords is None or not array.names.within(coords):
        return stray
    problem = stray.problem
    message = f"{problem.message} in place of the cells {span(array.objects.grid.extent(coords))}"
    return found(problem.node, problem.kind, message, key=stray.key, coords=coords)


# -- how they are found: chunks ---------------------------------------------------------------------------------------


def find_chunk_damage(chunk: ChunkView) -> Iterator[Finding]:
    """Yield what is wrong with a stored chunk or shard: its length, its index, with a deep look its cells."""
    array, objects = chunk.array, chunk.array.objects
    flaws: list[ObjectFlaw] = []
    for _ in range(SHARD_CHECK_TRIES):  # the flaws of one version of it
        stamp = objects.keys.stamp(chunk.key)
        flaws = list(objects.examine(chunk.coords, chunk.key, deep=array.dataset.deep))
        if not flaws or objects.keys.stamp(chunk.key) == stamp:
            break
    for flaw in flaws:
        cells = flaw.cells or span(objects.grid.extent(chunk.coords))
        message = f"{flaw.message} [key={chunk.key}, cells {cells}]"
        yield found(array.path, flaw.kind, message, key=chunk.key, coords=chunk.coords)


def find_questioned_document(array: ArrayView) -> Iterator[Finding]:
    """Yield, where no chunk is as the document says, that the document is in question: damage leaves some chunks as
    they were. This explains what was found of the chunks."""
    broken = [finding for finding in array.chunk_findings if finding.problem.kind in _BROKEN]
    places = {finding.key: finding for finding in broken}
    if not places or len(places) != array.stored:
        return
    objects, content = array.objects, None
    if all(finding.problem.kind in _OTHER_LENGTHS for finding in broken):
        # Bare cells have no length of their own: one that all chunks have, and that fits whole cells, is meant so.
        sizes = {objects.keys.size(finding.key) for finding in broken}
        size, cells = next(iter(sizes)), prod(objects.grid.fixed or ())
        if len(sizes) == 1 and size and cells and size % cells == 0:
            content = f"{size} bytes, {size // cells} for each cell"
    if content is None and len(places) > 1:
        # Where some inner chunks of a shard are sound the codecs are right; under a damaged index they are a guess.
        shards = (each for each in places.values() if each.problem.kind != "shard-index")
        if all(objects.salvage(each.coords or (), each.key)[0] is None for each in shards):
            content = "what no codec of the document reads"
    if content is None:
        return
    flaw = mismatch(content)
    for finding in broken:
        message = f"{flaw.message}; {finding.problem.message}"
        yield found(array.path, flaw.kind, message, key=finding.key, coords=finding.coords, explains=_BROKEN)


def note_missing_chunks(array: ArrayView) -> Iterator[Finding]:
    """Yield a note of chunks that are not stored where others are."""
    count, stored = array.objects.grid.size, array.stored
    if 0 < stored < count:
        verb = "is" if count - stored == 1 else "are"
        message = f"{count - stored} of {count} chunks {verb} not stored; their cells read as the fill value"
        yield found(array.path, "missing-chunk", message, is_note=True)


# -- how they are mended ----------------------------------------------------------------------------------------------


def take_out(state: RepairState, finding: Finding) -> Plan:
    """Take out what does not belong here."""
    take, verb = partial(_take, state, finding.key), state.quarantine.verb
    if finding.coords is None:
        return verb, take
    cells = _spanned(state, finding)
    return f"{verb}; the cells {cells} read as the fill value then", take


def _take(state: RepairState, place: str) -> None:
    with state.lease():
        state.quarantine.take(place)


def _spanned(state: RepairState, finding: Finding) -> str:
    return span(state.objects(finding.problem.node).grid.extent(finding.coords or ()))


def remove(state: RepairState, finding: Finding) -> Plan:
    """Remove what nobody will miss."""
    return "remove it", partial(state.quarantine.remove, finding.key)


def replace_chunk(state: RepairState, finding: Finding) -> Plan:
    """Take out a damaged chunk, or write a shard anew with the inner chunks that decode; of several findings about one
    the first mends all."""
    if state.is_met(finding):
        return "mended with the rest of this chunk", nothing
    saved, lost = state.objects(finding.problem.node).salvage(finding.coords or (), finding.key)
    cells = f"the cells {lost} read as the fill value then" if lost else "no cell is lost"
    gone = "write fill values in its place" if state.swaps else state.quarantine.verb
    action = gone if saved is None else "keep its other inner chunks" if lost else "write it anew"
    return f"{action}; {cells}", partial(_replace, state, finding)


def _replace(state: RepairState, finding: Finding) -> None:
    """Replace a chunk if it is still damaged. Where a store has no locks, a writer that was faster is a Conflict."""
    store = state.store
    with _locked_chunk(state, finding) as (objects, coords):
        stamp = objects.keys.stamp(finding.key)
        if not any(True for _ in objects.examine(coords, finding.key, deep=True)):
            return
        saved, _ = objects.salvage(coords, finding.key)
        if objects.keys.stamp(finding.key) != stamp:
            raise Conflict("the chunk was written meanwhile", url=store.url, key=finding.key)
        if saved is None and not state.swaps:
            state.quarantine.take(finding.key)
            return
        state.quarantine.keep(finding.key)
        # no bucket deletes on a condition: a chunk that is lost there is swapped for one of fill values
        _put(state, finding.key, objects.blank(coords) if saved is None else saved, stamp)


@contextmanager
def _locked_chunk(state: RepairState, finding: Finding) -> Iterator[tuple[ArrayObjects, Coords]]:
    """Lock the array against growth and change, the chunk against writers; Conflict when the array did change."""
    path, coords = finding.problem.node, finding.coords or ()
    objects = state.objects(path)
    # in the order of writers: the document of the array, the dataset's lease, then the chunk
    with (
        state.writer.lock_node(path),
        state.lease(),
        objects.keys.lock([coords], state.dataset.settings.lock_timeout),
    ):
        if not state.is_unchanged(path):
            message = "the array was changed while it was repaired"
            raise Conflict(message, url=state.store.url, node=path, remedy="repair it again")
        yield objects, coords


def _put(state: RepairState, key: str, value: Any, stamp: Any) -> None:
    """Store a chunk; where there are no locks only if the present one still has this stamp, else Conflict."""
    store = state.store
    if state.swaps:
        store.put_if(key, value, stamp, durable=True)
    else:
        store.put(key, value, durable=True)


def rename_chunk(state: RepairState, finding: Finding) -> Plan:
    """Give a chunk that decodes the place that its name means, when nothing lies there; else take it out."""
    objects, coords = state.objects(finding.problem.node), finding.coords or ()
    right = objects.keys.prefix + objects.keys.key_of(coords)
    sound = not any(True for _ in objects.examine(coords, finding.key, deep=True))
    if not sound or objects.keys.exists(right):
        return state.quarantine.verb, partial(_take, state, finding.key)

    def rename() -> None:
        with _locked_chunk(state, finding) as (now, _):
            value = state.store.get(finding.key)
            if value is not None and not now.keys.exists(right):
                _put(state, right, value, None)
                state.store.delete(finding.key)

    return f"call it {right}; it holds the cells {_spanned(state, finding)}", rename


def take_out_outside(state: RepairState, finding: Finding) -> Plan:
    """Take out a chunk outside the grid, unless an append has published its shape meanwhile."""
    spec = state.resized.get(finding.problem.node)
    if spec is not None and has_chunk(Grid.of(spec.shape, spec.chunks), finding.coords or ()):
        return "nothing: it lies in the array once that is as long as its dimensions", nothing

    def take() -> None:
        path = finding.problem.node
        with state.writer.lock_node(path), state.lease():
            now = state.spec_now(path)
            if now is not None and not has_chunk(Grid.of(now.shape, now.chunks), finding.coords or ()):
                state.quarantine.take(finding.key)

    return state.quarantine.verb, take


# -- the table --------------------------------------------------------------------------------------------------------

_STRANGE = "files, folders and pipes that do not belong here"
_FOREIGN_FILES = "a note: files and folders that no format knows"
_MENDED_ON_WISH = "left alone; `--drop-foreign` moves them to quarantine"

_of_chunk = partial(
    Rule,
    subject=Subject.CHUNK,
    find=find_chunk_damage,
    mend=replace_chunk,
    stage=Stage.SHAPES_FINAL,
    trusts_document=True,
)
_of_stray = partial(Rule, subject=Subject.NODE, find=find_node_strays, mend=take_out, stage=Stage.SHAPES_FINAL)

CHUNK_RULES = (
    _of_chunk(
        ("empty-chunk", "truncated-chunk", "oversized-chunk", "corrupt-chunk"),
        "chunks that cannot be decoded",
        "moved to quarantine; the cells read as the fill value",
    ),
    Rule(
        (OTHER_CELLS,),
        "an intact chunk whose cells contradict the document, or an array with no chunk that fits it: "
        "the document (type, chunks or codecs) is probably wrong, so no chunk is touched",
        "the document is corrected if the intent is clear (a type in bits, a lost `zarr_dtype`); "
        "otherwise not repairable",
        Subject.ARRAY,
        find_questioned_document,
        questions_document=True,
    ),
    _of_chunk(
        ("shard-index", "shard-range", "shard-overlap"),
        "a shard whose index is damaged",
        "the shard is rewritten with the inner chunks that decode",
    ),
    _of_chunk(
        ("unsafe-pickle",),
        "a pickle that would run code, in a chunk (`--deep`) or a fill value",
        "the chunk is moved to quarantine, the fill value rewritten",
    ),
    Rule(
        ("misspelled-key",),
        "a chunk under a key of another layout",
        "renamed if the right key is free and it decodes, otherwise moved to quarantine",
        Subject.ENTRY,
        find_misspelled,
        rename_chunk,
        Stage.SHAPES_FINAL,
        trusts_document=True,
    ),
    Rule(
        ("outside-grid",),
        "a chunk outside the array, as left by a killed `append`",
        "moved to quarantine",
        Subject.ENTRY,
        find_outside_grid,
        take_out_outside,
        Stage.SHAPES_FINAL,
        trusts_document=True,
        mends_notes=True,  # no reader sees it, and a repair takes it out all the same
    ),
    Rule(
        ("stray-chunk",),
        "a chunk under a key that no chunk of the array can have",
        "moved to quarantine",
        Subject.ENTRY,
        find_stray_chunk,
        take_out,
        Stage.SHAPES_FINAL,
        trusts_document=True,
    ),
    Rule(
        (FOREIGN,),
        _FOREIGN_FILES,
        _MENDED_ON_WISH,
        Subject.NODE,
        find_foreign_names,
        take_out,
        Stage.SHAPES_FINAL,
        trusts_document=True,
    ),
    Rule(
        (FOREIGN,),
        _FOREIGN_FILES,
        _MENDED_ON_WISH,
        Subject.ENTRY,
        find_foreign_entry,
        take_out,
        Stage.SHAPES_FINAL,
        trusts_document=True,
    ),
    Rule(
        ("folder-for-chunk",),
        _STRANGE,
        "moved to quarantine",
        Subject.ENTRY,
        find_folder_for_chunk,
        take_out,
        Stage.SHAPES_FINAL,
    ),
    _of_stray(
        ("unusable-name", "special-file"),
        _STRANGE,
        "moved to quarantine",
    ),
    _of_stray(
        ("dangling-link", "circular-link", "outside-link"),
        "symbolic links that are not followed",
        "the link is moved to quarantine",
    ),
    Rule(
        ("temporary",),
        "an unfinished write of a dead writer, or a complete copy that it left beside the dataset; from "
        "another machine only if older than an hour (a copy: than a week)",
        "removed",
        Subject.NODE,
        find_node_strays,
        remove,
        Stage.SHAPES_FINAL,
    ),
    Rule(
        ("missing-chunk",),
        "a note: chunks that are not stored, although others of the array are",
        "not repaired: their cells read as the fill value",
        Subject.ARRAY,
        note_missing_chunks,
    ),
    Rule(
        (UNREADABLE,),
        "the disk, permissions or a limit prevent reading",
        "not repairable here",
        Subject.CHUNK,
        find_chunk_damage,
    ),
)
