"""``check``: every problem of a dataset, found by looking through all of it once; the first one never ends the search.

A dataset of documents and chunks under keys is walked from the root (:class:`KeyedSurvey`), and each node, array, name
and chunk is handed to the rules of its place. Any other is asked for what its format finds (``find_damage``), or each
of its nodes is asked for, and with ``deep`` every cell is read.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from hyperslab.api import Target
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.plan import batched
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.progress import ProgressCallback, watching
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.chunks.sparse_io import read_through
from hyperslab.errors import FormatError, HyperslabError, Problem, StorageError
from hyperslab.formats import FORMATS, get_format
from hyperslab.formats.base import FormatTraits, Reader
from hyperslab.formats.rules import Finding, Subject, found, span
from hyperslab.formats.zarr.dialect import MetadataDialect
from hyperslab.formats.zarr.node_search import NodeSearch
from hyperslab.formats.zarr.opening import ZarrFormat
from hyperslab.formats.zarr.reader import ZarrReader
from hyperslab.integrity.chunk_rules import find_strays, holds_any, in_place_of_chunk
from hyperslab.integrity.dataset import CheckedDataset, extent_of, find_place
from hyperslab.integrity.node_documents import NodeDocuments, read_stored
from hyperslab.integrity.report import Report
from hyperslab.integrity.rules import RULES
from hyperslab.integrity.stored_chunks import looks_like_chunks, open_objects
from hyperslab.integrity.views import (
    ArrayView,
    ChunkView,
    DatasetView,
    EntryView,
    GroupView,
    Member,
    NodeView,
    Role,
    without_explained,
)
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child, is_within, outward
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores import counting
from hyperslab.stores.base import Store

# Groups that lie deeper are told and not looked at: no dataset is meant so, and links may lead in a circle.
_DEEPEST = 100
# Chunks that one thread looks at in one go, so that handing out work costs little beside it.
CHUNKS_PER_CHECK = 16
# Chunks of an array that cannot be read for one reason and are named one by one: more say no more.
_MOST_ALIKE = 3


def check(
    url: Target,
    deep: bool = False,
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    allow_external: Sequence[str] | bool = (),
    progress: bool | ProgressCallback | None = None,
) -> Report:
    """Find every problem of the dataset at ``url``, with its node and kind; the report of a sound one is empty.

    All folders, documents, names and lengths of chunks, indexes of shards and consolidated metadata are looked at;
    ``deep`` decodes every chunk besides, by ``workers`` threads, each in the memory of about one chunk. Links are
    looked at where ``open`` follows them: ``allow_external`` as there. ``progress``: True for a bar on a terminal, or a
    function of ``Progress``; it is of ``deep``. The place of a node within a dataset (``x.zarr/t``, ``f.nc/t``): what
    that dataset has there, the report's ``node``, and below. Nothing is changed. NotFound when nothing is there,
    FormatError when it is no dataset at all.
    """
    place = find_place(url, format, storage_options, allow_external)
    settings = Settings(workers=workers, cache_bytes=0)
    with watching(progress if deep else None, "checking", partial(extent_of, place, settings)):
        findings = survey_dataset(place, settings, deep=deep)
        findings += [] if place.node else RULES.apply(Subject.BESIDE, place.where, deep=deep)
    problems = sum_up([finding.problem for finding in findings if not finding.is_note])
    notes = [finding.problem for finding in findings if finding.is_note]
    return Report(problems, url=place.where.url, node=place.node, notes=notes, deep=deep)


def sum_up(problems: Sequence[Problem]) -> list[Problem]:
    """Return problems with one in place of many chunks of an array that cannot be read for one reason, such as a file
    that is gone and all chunks of a virtual dataset in it."""
    alike: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        reason, is_chunk, _ = problem.message.rpartition(" [key=")
        if problem.kind == "unreadable-chunk" and is_chunk:
            alike.setdefault((problem.node, reason), []).append(problem)
    sums: dict[int, Problem | None] = {}
    for (_, reason), some in alike.items():
        if len(some) > _MOST_ALIKE:
            first = some[0].message.removeprefix(reason)
            sums |= {id(each): None for each in some}
            sums[id(some[0])] = replace(some[0], message=f"{reason}: so {len(some):,} chunks, the first of them{first}")
    return [each for problem in problems if (each := sums.get(id(problem), problem)) is not None]


def survey_dataset(place: CheckedDataset, settings: Settings, *, deep: bool) -> list[Finding]:
    """Return the findings of a dataset of whatever format, or of a node of it; of one that does not open all."""
    format = place.format
    if isinstance(format, ZarrFormat):
        dialect = format.metadata_dialect
        with closing(place.where.store(read_only=True)) as store:
            keyed_reader = format.check_reader(store, dialect, settings, place.where)
            return KeyedSurvey(store, dialect, settings, deep, keyed_reader, format.traits).run(place.node)
    try:
        reader = format.open(place.where, "r", settings=settings)
    except FormatError as error:
        return findings_of_unreadable(error)
    except HyperslabError as error:
        raise error.locate(url=place.where.url) from error.__cause__
    with closing(reader):
        return [*filter(place.includes, _survey_reader(reader, place, settings, deep=deep))]


def findings_of_unreadable(error: FormatError) -> list[Finding]:
    """Return the findings of a dataset that cannot be opened, by what opening it raised."""
    problems = [found(problem.node, problem.kind, problem.message) for problem in error.problems]
    return problems or [found("", "unreadable-file", error.said)]


# -- documents and chunks under keys ----------------------------------------------------------------------------------


class KeyedSurvey:
    """One look through a dataset, from the root or one of its nodes: every folder, document and chunk. ``reader``: of a
    format that knows what documents say of one another. Afterwards ``view`` has what mends need to know of the whole.
    """

    def __init__(
        self,
        store: Store,
        dialect: MetadataDialect,
        settings: Settings,
        deep: bool,
        reader: ZarrReader | None = None,
        traits: FormatTraits | None = None,
    ) -> None:
        # the documents of another format beside ours are left alone
        formats = (get_format(name) for name in FORMATS)
        dialects = [dialect, *(format.metadata_dialect for format in formats if isinstance(format, ZarrFormat))]
        names = frozenset(name for one in dialects for name in (*one.nodes, *one.extras, one.consolidated_name))
        self.view = DatasetView(store, dialect, settings, deep, names, traits or FormatTraits())
        self._reader = reader
        self._findings: list[Finding] = []

    def run(self, node: str = "") -> list[Finding]:
        """Return every finding of a node and of those below it, in their order."""
        own = list(self._of_format())
        for group in list(outward(node))[:0:-1]:  # their consolidated metadata may have its documents
            self._add_documents(group)
        self._node(node, node.count("/") + 1 if node else 0)
        self._apply(Subject.DATASET, self.view)
        findings = [*own, *without_explained(own, self._findings)]
        findings = [finding for finding in findings if is_within(finding.problem.node, node)]
        return sorted(findings, key=lambda finding: finding.order)

    def _add_documents(self, group: str) -> None:
        """Read the documents of a group that is not looked at itself."""
        view = self.view
        with suppress(StorageError):
            names, _ = view.store.list_dir(group)
            view.consolidated.add(group, read_stored(view.store, view.dialect, group, names))

    def _apply(self, place: Subject, view: object) -> None:
        self._findings += RULES.apply(place, view, deep=self.view.deep)

    def _note(self, path: str, kind: str, message: str, key: str) -> None:
        """Tell of what keeps the survey from looking further."""
        self._findings.append(RULES.with_rule(found(path, kind, message, key=key)))

    def _of_format(self) -> Iterator[Finding]:
        """Yield what the format itself finds, where the root can be read."""
        reader = self._reader
        if reader is None or not self.view.traits.finds_damage:
            return
        try:
            reader.node("")
        except HyperslabError:
            return
        self.view.format_warns = True
        for finding in reader.find_damage(deep=self.view.deep, workers=self.view.settings.threads):
            yield replace(finding, key=finding.key or finding.problem.node)

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _node(self, path: str, depth: int) -> Member | None:
        """Look at what lies at ``path`` and below. Return, of an array, what its group needs to know."""
        view = self.view
        try:
            names, inner = view.store.list_dir(path)
            strays = list(find_strays(view.store, path, path))
        except StorageError as error:
            self._note(path, "unreadable-folder", error.said, path)
            return None
        stored = read_stored(view.store, view.dialect, path, names, format_warns=view.format_warns)
        view.consolidated.add(path, stored)
        if isinstance(stored.spec, ArraySpec):
            self._apply(Subject.NODE, NodeView(view, path, names, inner, (), stored, Role.ARRAY))
            return self._array(path, stored.spec)
        aside = {stray.key for stray in strays}
        names = [name for name in names if child(path, name) not in aside]
        inner = [name for name in inner if child(path, name) not in aside]
        role, below = self.find_role(path, stored, names, inner)
        if stored.spec is None and self._has_document(stored):
            view.unreadable.add(path)
            view.consolidated.lost(path)
        elif role in (Role.BARE_GROUP, Role.BARE_ARRAY):
            view.consolidated.lost(path)
        self._apply(Subject.NODE, NodeView(view, path, names, inner, strays, stored, role))
        if role in (Role.GROUP, Role.BARE_GROUP):
            self._group(path, below, depth, stored.spec)
        return None

    def find_role(
        self, path: str, stored: NodeDocuments, names: Collection[str], inner: Collection[str]
    ) -> tuple[Role, Collection[str]]:
        """Return what a folder is that is no array, and the folders in it that are looked at where it is a group."""
        if stored.spec is not None:
            return Role.GROUP, inner
        nodes = [name for name in inner if self._holds_nodes(child(path, name))]
        has_document = self._has_document(stored)
        if nodes or (not path and not has_document):
            return (Role.GROUP, nodes) if has_document else (Role.BARE_GROUP, inner)
        if has_document or stored.broken:
            return Role.UNREADABLE, ()
        if stored.is_node or looks_like_chunks(names, inner):
            return Role.BARE_ARRAY, ()
        return (Role.FOREIGN if holds_any(self.view.store, path) else Role.EMPTY), ()

    def _has_document(self, stored: NodeDocuments) -> bool:
        return any(name in self.view.dialect.nodes for name in (*stored.docs, *stored.broken))

    def _holds_nodes(self, path: str) -> bool:
        nodes = self.view.dialect.nodes
        try:
            names, _ = self.view.store.list_dir(path)
            return not set(nodes).isdisjoint(names) or NodeSearch.of(self.view.store, nodes).holds_nodes(path)
        except StorageError:
            return False

    def _group(self, path: str, inner: Collection[str], depth: int, spec: GroupSpec | None) -> None:
        """Look at the nodes in a group, then at what its arrays say of one another."""
        self.view.groups.add(path)
        members = []
        for name in inner:
            if depth >= _DEEPEST:
                message = f"groups lie more than {_DEEPEST} deep; what is below is not looked at"
                self._note(child(path, name), "too-deep", message, child(path, name))
                continue
            member = self._node(child(path, name), depth + 1)
            if member is not None:
                members.append(member)
        unlimited = frozenset(dim.name for dim in spec.dims if dim.unlimited) if spec is not None else frozenset()
        self._apply(Subject.GROUP, GroupView(self.view, path, members, unlimited))

    # -- arrays -----------------------------------------------------------------------------------------------------

    def _array(self, path: str, spec: ArraySpec) -> Member | None:
        view = self.view
        if spec.problem is not None:  # said of its documents
            view.consolidated.lost(path)
            return Member(path, spec)
        try:
            objects = open_objects(view.store, path, view.dialect.key_of(spec), spec, view.settings)
        except HyperslabError as error:
            self._note(path, "not-decoded", error.said, "")
            return Member(path, spec)
        array = ArrayView(view, path, objects)
        self._findings += ArraySurvey(array).survey()
        return Member(path, spec, tuple(array.last))


class ArraySurvey:
    """The folder of one array: chunks in place and out of place, strangers, and what is in each chunk."""

    def __init__(self, array: ArrayView) -> None:
        self._array = array
        self._dataset = array.dataset
        self._findings: list[Finding] = []
        self._finders = RULES.finders(Subject.CHUNK, deep=array.dataset.deep)

    def survey(self) -> list[Finding]:
        """Return all findings; the chunks are looked at by several threads, each in the memory of one chunk."""
        array = self._array
        each_batch(self._chunks_of, batched(self._chunks(), CHUNKS_PER_CHECK), array.objects.keys.settings.threads)
        of_array = list(RULES.apply(Subject.ARRAY, array, deep=self._dataset.deep))
        of_chunks = map(RULES.with_rule, without_explained(of_array, array.chunk_findings))
        return [*self._findings, *of_chunks, *of_array]

    def _chunks_of(self, batch: list[tuple[Coords, str]]) -> None:
        for coords, key in batch:
            chunk = ChunkView(self._array, coords, key)
            for find in self._finders:
                self._array.chunk_findings += list(find(chunk))
        if self._dataset.deep and counting.watchers:
            counting.done(len(batch))

    def _chunks(self) -> Iterator[tuple[Coords, str]]:
        """Yield the chunks that are where they belong; all else is found on the way."""
        array, store = self._array, self._dataset.store
        folders = [""]
        while folders:
            folder = folders.pop()
            place = child(array.path, folder).rstrip("/")
            try:
                names, inner = store.list_dir(place)
                strays = list(find_strays(store, place, array.path))
            except StorageError as error:
                finding = found(array.path, "unreadable-folder", error.said, key=place)
                self._findings.append(RULES.with_rule(finding))
                continue
            self._findings += (RULES.with_rule(in_place_of_chunk(array, stray)) for stray in strays)
            aside = {stray.key for stray in strays}
            for name in (child(folder, name) for name in names if child(place, name) not in aside):
                if name in self._dataset.known_names:  # a document, right in the folder of the array
                    continue
                key, coords = child(array.path, name), array.names.coords(name)
                if coords is not None:
                    array.last = list(map(max, array.last, coords))
                if coords is not None and array.names.within(coords):
                    array.stored += 1
                    yield coords, key
                else:
                    self._find_in_entry(EntryView(array, name, key, False, coords))
            for name in (child(folder, name) for name in reversed(inner) if child(place, name) not in aside):
                coords = array.names.coords(name)
                if coords is None and array.names.leads_to_keys(name):
                    folders.append(name)
                else:  # it has no business here
                    self._find_in_entry(EntryView(array, name, child(array.path, name), True, coords))

    def _find_in_entry(self, entry: EntryView) -> None:
        self._findings += RULES.apply(Subject.ENTRY, entry, deep=self._dataset.deep)


# -- any other format, through its reader -----------------------------------------------------------------------------


def _survey_reader(reader: Reader, place: CheckedDataset, settings: Settings, *, deep: bool) -> Iterator[Finding]:
    """Yield all that the format itself finds, or else what is wrong with each node; and, in a format of one array,
    coordinates that are not as long as the dimension whose labels they are."""
    if place.format.traits.finds_damage:
        yield from reader.find_damage(deep=deep, workers=settings.threads)
    else:
        yield from map(RULES.with_rule, flattened(_survey_node(reader, place.node, settings, deep)))
    try:  # to ask what the array is called reads the documents
        names = reader.children("") if reader.is_single_array else ()
        specs = [(name, reader.node(name)) for name in names]
    except HyperslabError:  # which is a finding already
        return
    members = [Member(name, spec) for name, spec in specs if spec.is_array]
    yield from RULES.apply(Subject.GROUP, GroupView(None, "", members), deep=False)


def _survey_node(reader: Reader, path: str, settings: Settings, deep: bool) -> Generator[Any]:
    """Yield what is wrong with a node, and walks of the nodes in it."""
    try:
        node = reader.node(path)
        names = list(reader.children(path)) if node.is_group else []
    except HyperslabError as error:
        problems = error.problems if isinstance(error, FormatError) else ()
        for problem in problems:
            yield found(path, problem.kind, problem.message)
        if not problems:
            key = f" [key={error.key}]" if error.key else ""
            yield found(path, "unreadable-node", f"{error.said}{key}")
        return
    for problem in reader.omitted(path):
        yield found(problem.node, "not-shown", problem.message, is_note=True)
    if node.is_array and node.problem is not None:
        yield found(path, "not-decoded", node.problem)
    elif node.is_array:
        try:
            source = reader.chunks(path)
        except HyperslabError as error:
            yield found(path, "unreadable-node", error.said)
        else:
            yield from _survey_cells(path, node, source, settings) if deep else ()
    for name in names:
        yield _survey_node(reader, child(path, name), settings, deep)


def _survey_cells(path: str, spec: ArraySpec, source: ChunkSource, settings: Settings) -> list[Finding]:
    """Read every cell, and return the chunks that cannot be decoded."""
    flaws: list[Finding] = []

    def work(batch: list[Coords]) -> None:
        for coords in batch:
            try:
                read_through(source, spec, coords, settings)
            except HyperslabError as error:
                key = f"key={error.key}, " if error.key else ""
                message = f"{error.said} [{key}cells {span(source.grid.extent(coords))}]"
                flaws.append(found(path, "corrupt-chunk", message, coords=coords))

    each_batch(work, batched(source.grid, CHUNKS_PER_CHECK), settings.threads)
    return sorted(flaws, key=lambda finding: finding.order)
