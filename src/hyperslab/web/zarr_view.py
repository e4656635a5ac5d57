"""A dataset of any format as the values of a Zarr v3 store, read-only and made when they are asked for.

The documents are those that ``convert`` would write, with consolidated metadata in the root's. A chunk is passed on as
it is stored where the source holds the same bytes; else the one target chunk (shard) is copied into memory by
conversion itself. What is encoded is kept under the stamps of what it was made of.

A dataset may be changed meanwhile by other processes: the stamps of its documents are looked at again from time to
time, those of chunks with each chunk. A value is of one version from its first byte to its last.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any
from weakref import WeakValueDictionary, finalize

from hyperslab.array.session import OpenDataset, close_readers, file_stamp, open_session
from hyperslab.chunks.boxes import Box
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.conversion.adapt import TargetNode
from hyperslab.conversion.copy import SETTINGS, ArrayCopy, copy_box
from hyperslab.conversion.losses import Loss
from hyperslab.conversion.plan import AS_IN_SOURCE, MEMORY, collect_nodes, dry_run, render_documents
from hyperslab.conversion.recoding import add_arrays
from hyperslab.conversion.references import ReferenceMap, build_reference_map
from hyperslab.conversion.source_nodes import SourceDamage
from hyperslab.errors import DAMAGE, Conflict, HyperslabError, NodeNotFound, Replaced, Unsupported
from hyperslab.formats.base import Reader
from hyperslab.formats.zarr.chunks import coords_of_key
from hyperslab.formats.zarr3 import FORMAT
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Stamp, Store, Unversioned
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore
from hyperslab.stores.ranges import span
from hyperslab.stores.requests import each_request
from hyperslab.web.same_bytes import are_same_bytes, spec_as_stored

# Every chunk is encoded once and then kept as it is sent; what was decoded for it is of no more use.
_NO_CACHE = Settings(cache_bytes=0)
# Seconds between two looks at the stamps of a dataset's documents; more where such a look takes long, so that it never
# takes more than this part of the time.
_LOOK_EVERY, _LOOKING_SHARE = 1.0, 0.05
# How often a chunk is made again whose source changed meanwhile: such a source has a writer that never rests.
_TRIES = 20
# Stored chunks that one target chunk is made of and whose stamps are looked at; it is not kept where there are more.
_MOST_STAMPS = 4096
# How much more than is kept of encoded chunks there may be with those that clients have yet to read.
_SENT_SHARE = 4
# Bytes of its name and of the table: of an array without cells there may be any number of chunks that are none.
_ENTRY_BYTES = 400
DOCUMENT = "zarr.json"
"""The name of the documents that a view has."""


@dataclass(frozen=True, slots=True)
class ServedValue:
    """A value, or the part ``data`` of it that begins at ``start``; its whole ``size``, and a ``tag`` of its version.

    ``data`` is None where the caller knows that version. ``is_stored``: passed on as it lies in the source.
    """

    data: bytes | memoryview | None
    start: int
    size: int
    tag: str
    read_more: Callable[[int, int], bytes | memoryview]
    """Returns the bytes ``start <= i < stop`` of the same version; Conflict when there is another one by now."""
    is_stored: bool = False


Part = tuple[int, int]
"""Bytes of a value, as ``get_ranges`` takes them: a negative start counts from the end."""


# -- encoded chunks ----------------------------------------------------------------------------------------------------


class EncodedChunks:
    """The encoded chunks of all views of a server, by what identifies their version: at most ``most`` bytes, those that
    were used last, and with those that are being sent ``_SENT_SHARE`` times as many. At most ``at_once`` are made at a
    time, each of them by one caller however many want it."""

    def __init__(self, most: int, at_once: int) -> None:
        self._most = most
        self._room = threading.BoundedSemaphore(at_once)
        self._mutex = threading.Lock()
        self._values: OrderedDict[str, memoryview | None] = OrderedDict()
        self._gates: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._in_use = 0
        # Lengths of values that nobody has any more. No lock: they are added where that happens, whatever is locked.
        self._let_go: deque[int] = deque()
        self.nbytes = 0

    def get_or_make(self, name: str | None, make: Callable[[], bytes | None]) -> memoryview | None:
        """Return what is kept by this name, else what ``make`` returns, which is kept; without a name it is not.

        Conflict while too much is being sent.
        """
        if name is None:
            return self._make(make)
        with self._mutex:
            # whoever makes a chunk holds its gate, and whoever wants the same one waits there
            gate = self._gates.setdefault(name, threading.Lock())
        with gate:
            with self._mutex:
                if name in self._values:
                    self._values.move_to_end(name)
                    return self._values[name]
            value = self._make(make)
            self._keep(name, value)
        return value

    def forget(self, name: str) -> None:
        """Let go of what is kept by a name: it was made of two versions."""
        with self._mutex:
            if name in self._values:
                self.nbytes -= _nbytes_of(self._values.pop(name))

    def _make(self, make: Callable[[], bytes | None]) -> memoryview | None:
        with self._room:
            with self._mutex:
                while self._let_go:
                    self._in_use -= self._let_go.popleft()
                if self._in_use > self._most * _SENT_SHARE:
                    raise Conflict("too many large chunks are being sent", remedy="try again, with fewer at once")
            value = make()
            if value is None:
                return None
            view = memoryview(value)
            with self._mutex:
                self._in_use += len(view)
            finalize(view, self._let_go.append, len(view)).atexit = False
            return view

    def _keep(self, name: str, value: memoryview | None) -> None:
        with self._mutex:
            self._values[name] = value
            self.nbytes += _nbytes_of(value)
            while self.nbytes > self._most:
                self.nbytes -= _nbytes_of(self._values.popitem(last=False)[1])


def _nbytes_of(value: memoryview | None) -> int:
    """Return the bytes that it takes to remember a chunk, also one of nothing but fill values."""
    return _ENTRY_BYTES + (0 if value is None else len(value))


# -- one state of a dataset --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _ServedArray:
    """An array of the view: its source, and how it is cut and encoded as Zarr v3. ``digest``: of its document there;
    ``stamp``: of that in the source."""

    path: str
    plan: TargetNode
    spec: ArraySpec
    reader: Reader
    references: ReferenceMap | None
    digest: str
    stamp: Stamp | None

    @cached_property
    def grid(self) -> Grid:
        """The grid of the target's stored values: of shards, where there are some."""
        return Grid.of(self.spec.shape, self.spec.chunks)

    @cached_property
    def source(self) -> ChunkSource:
        """The chunks of the source."""
        return self.reader.chunks(self.plan.source.origin)

    @cached_property
    def is_as_stored(self) -> bool:
        """Return True if the source's stored values are those of the target."""
        spec, picked = self.plan.source.node, self.plan.source.picked
        if not spec.is_array or picked is None or not picked.is_all(spec.shape):
            return False
        return are_same_bytes(spec, self.spec)

    @cached_property
    def is_file_at_hand(self) -> bool:
        """Return True if each stored value is a file of this machine, and passed on as it is."""
        store = self.reader.store
        return store is not None and store.traits.descriptors and self.is_as_stored

    def find_coords(self, tail: str) -> Coords | None:
        """Return the coordinates of the stored value whose key below the array is ``tail``; None for no such key."""
        coords = coords_of_key(FORMAT.metadata_dialect.key_of(self.spec), len(self.spec.shape), tail)
        if coords is None or any(at >= count for at, count in zip(coords, self.grid.counts, strict=True)):
            return None
        return coords

    def source_stamps(self, box: Box) -> tuple[Stamp | None, ...] | None:
        """Return the stamps of the stored chunks that a box is made of; None where they cannot be told."""
        source, picked = self.source, self.plan.source.picked
        if not source.traits.stamped or picked is None:
            return None
        every: dict[Coords, Coords] = {}
        for piece in make_plan(picked.region(box), source.grid):
            every[outer_or_self(source.grid, piece.coords)] = piece.coords
            if len(every) > _MOST_STAMPS:
                return None
        looks = [partial(source.stamp, coords) for coords in every.values()]
        many = source.traits.concurrency is not None and len(looks) > 1
        stamps = tuple(each_request(looks) if many else (look() for look in looks))
        return None if any(isinstance(stamp, Unversioned) for stamp in stamps) else stamps

    def encode(self, box: Box) -> bytes | None:
        """Return one target chunk (shard) as it would be stored; None for one of nothing but fill values."""
        origin = self.plan.source
        assert origin.node.is_array and origin.picked is not None
        store = MemoryStore()
        target = FORMAT.reader(store, FORMAT.metadata_dialect, _NO_CACHE).chunks_as(self.path, self.spec)
        copy = ArrayCopy(
            self.path,
            origin.picked,
            self.source,
            origin.node,
            target,
            self.spec,
            MEMORY,
            origin.origin,
            self.references,
        )
        copy.threads(1)  # MemoryLimit before anything is read
        copy_box(copy, box, SETTINGS)
        return next((value for key in store.list() if (value := store.get(key)) is not None), None)


def outer_or_self(grid: Grid, coords: Coords) -> Coords:
    """Return the coordinates of the outer chunk that a chunk lies in, its own where there is none."""
    return coords if grid.outer is None else grid.outer_of(coords)


class OpenState:
    """A dataset as its documents were at one moment: what it is as Zarr, and the chunks of its arrays.

    The reader is closed when nobody holds the state any more, also not a value that is still being sent.
    """

    def __init__(self, where: Location, file: Stamp | None) -> None:
        self.file = file
        # The stamps are older than what is read: whatever is written meanwhile, the next look finds other ones.
        self._session = session = self._open(where)
        self.stamps = self.look()
        if file is None:
            self._session = session = self._open(where)
        damage = SourceDamage(kinds=(*DAMAGE, Unsupported))
        items, made = collect_nodes(session, FORMAT, damage, skip_damaged=True)
        nowhere = Location.of(MemoryStore())
        references = build_reference_map(session, items, "", nowhere)
        if references is not None:
            items = [replace(item, node=references.map_node(item.node)) for item in items]
        source = add_arrays(session, made)
        plan = dry_run(source, items, AS_IN_SOURCE, FORMAT, nowhere, allow_loss=True, references=references)
        nodes = drop_plain_dimensions([_store_alike(node) for node in plan.nodes])
        self.documents = render_documents(FORMAT, nodes, {"consolidated": True})
        damaged = (Loss(each.node, each.kind, each.message) for each in damage.problems)
        self.losses: Sequence[Loss] = (*plan.losses, *damaged)
        self.tags = {key: tag_of(document) for key, document in self.documents.items()}
        self.arrays = self._make_arrays(nodes, source.reader, references)

    def _open(self, where: Location) -> OpenDataset:
        session = open_session(where, "r", None, _NO_CACHE, {})
        finalize(self, close_readers, session.reader, session.linked)
        return session

    def _make_arrays(
        self, nodes: Sequence[TargetNode], reader: Reader, references: ReferenceMap | None
    ) -> dict[str, _ServedArray]:
        store = MemoryStore()
        store.put_many(self.documents.items())
        target = FORMAT.reader(store, FORMAT.metadata_dialect, _NO_CACHE)
        arrays = {}
        for plan in nodes:
            path = plan.source.path
            spec = target.node(path)
            if spec.is_array:
                digest = self.tags[f"{path}/{DOCUMENT}".lstrip("/")]
                stamp = self.look_at(plan.source.origin)
                arrays[path] = _ServedArray(path, plan, spec, reader, references, digest, stamp)
        return arrays

    def look(self) -> object:
        """Return what identifies the present documents of the source: their stamps and the names in groups.

        On a server only the root's is looked at, by one request.
        """
        session, reader = self._session, self._session.reader
        if session.format.traits.in_database:
            reader.refresh("")
        remote = reader.store is not None and reader.store.traits.concurrency is not None
        found: list[object] = []
        waiting = [""]
        while waiting:
            path = waiting.pop()
            try:
                stamp = reader.stamp(path)
                found.append(None if isinstance(stamp, Unversioned) else stamp)
                if remote:
                    continue
                node = reader.node(path)
                names = list(reader.children(path)) if node.is_group else []
            except HyperslabError as error:  # a damaged node is left out, as long as it is damaged so
                found.append(error.said)
                continue
            found.append(tuple(names))
            waiting += [f"{path}/{name}".lstrip("/") for name in names]
        return tuple(found)

    def look_at(self, path: str) -> Stamp | None:
        """Return the stamp of the present document of an array of the source; None where none is told, or where that
        would be a request."""
        reader = self._session.reader
        if reader.store is None or reader.store.traits.concurrency is not None:
            return None
        try:
            stamp = reader.stamp(path)
        except NodeNotFound:  # a column of rows has none of its own
            return None
        return None if isinstance(stamp, Unversioned) else stamp

    def find_array(self, key: str) -> tuple[_ServedArray, Coords] | None:
        """Return the array that a key lies in, and the coordinates of the value there; None for no such key."""
        folder = key
        while True:
            folder = folder.rpartition("/")[0]
            array = self.arrays.get(folder)
            if array is not None:
                coords = array.find_coords(key[len(folder) :].lstrip("/"))
                return None if coords is None else (array, coords)
            if not folder:
                return None


def _store_alike(plan: TargetNode) -> TargetNode:
    """Return an array whose chunks are those of the source where they can be: a copy alone gets checksums."""
    source, node = plan.source.node, plan.node
    return replace(plan, node=spec_as_stored(source, node)) if source.is_array and node.is_array else plan


def drop_plain_dimensions(nodes: Sequence[TargetNode]) -> list[TargetNode]:
    """Return the nodes, of whose groups none declares a dimension that Zarr tells by an array of this length in it:
    what stands in the attribute ``_hyperslab`` of a group, xarray cannot write on to netCDF."""
    lengths: dict[str, set[tuple[str | None, int]]] = {}
    for each in nodes:
        if isinstance(each.node, ArraySpec):
            group = split(each.source.path)[0]
            lengths.setdefault(group, set()).update(zip(each.node.dims, each.node.shape, strict=True))
    found = []
    for each in nodes:
        if isinstance(each.node, GroupSpec):
            known = lengths.get(each.source.path, set())
            dims = tuple(dim for dim in each.node.dims if dim.unlimited or (dim.name, dim.size) not in known)
            each = replace(each, node=each.node.evolve(dims=dims))
        found.append(each)
    return found


# -- the view ----------------------------------------------------------------------------------------------------------


class ZarrView:
    """The dataset at ``where`` as the values of a Zarr v3 store; ``chunks`` keeps what is encoded, also for others."""

    def __init__(self, where: Location, chunks: EncodedChunks) -> None:
        self.where = where
        self._chunks = chunks
        self._lock = threading.Lock()
        self._state: OpenState | None = None
        self._next_look = 0.0

    def losses(self) -> Sequence[Loss]:
        """Return what the dataset holds and Zarr v3 does not, and what of it cannot be read."""
        return self._current().losses

    def paths(self) -> Sequence[str]:
        """Return the paths of all arrays."""
        return list(self._current().arrays)

    def close(self) -> None:
        """Let go of the dataset; values that are still being sent keep it open until then."""
        with self._lock:
            self._state = None

    def read(
        self, key: str, part: Part | None = None, known: Sequence[str] = (), at_hand: OpenState | None = None
    ) -> ServedValue | None:
        """Return a value, or a part of it; None for a key that is not there.

        ``known``: tags of versions that the caller has: of those no bytes are read. ``at_hand``: what
        :meth:`find_at_hand` gave, so that the documents are not looked at; Replaced where they are of no use any more.
        Conflict when the source is written faster than it can be read.
        """
        for _ in range(_TRIES):
            state = at_hand or self._current()
            if (document := state.documents.get(key)) is not None:
                return _cut(document, state.tags[key], part, known)
            found = state.find_array(key)
            if found is None:
                return None
            array, coords = found
            try:
                if array.is_as_stored and (stored := array.source.stored_value(coords)) is not None:
                    return self._read_stored(state, *stored, part, known)
                return self._read_encoded(state, array, coords, part, known)
            except Replaced:  # the documents are those of another version by now
                self._forget(state)
                if at_hand is not None:
                    raise
            except HyperslabError as error:
                raise error.locate(url=self.where.url, node=array.path, key=key) from error.__cause__
        raise _restless(self.where)

    def find_at_hand(self, key: str) -> OpenState | None:
        """Return the state of which :meth:`read` takes a value as it lies in a folder of this machine: nothing is
        opened, looked at again, asked of a server, or encoded for it. None where that is not so.

        It is read of that state, since a moment later the documents may be due to be looked at, all of them.
        """
        state = self._state
        if state is None or state.file is not None or time.monotonic() >= self._next_look:
            return None
        if key in state.documents:
            return state
        found = state.find_array(key)
        return state if found is not None and found[0].is_file_at_hand else None

    def _forget(self, state: OpenState) -> None:
        """Have the dataset opened anew by whoever reads next."""
        with self._lock:
            if self._state is state:
                self._state = None

    def _read_stored(
        self, state: OpenState, store: Store, key: str, part: Part | None, known: Sequence[str]
    ) -> ServedValue | None:
        """Return a value of the source as it is stored, of one version."""
        if known and store.traits.stamped:
            stamp = store.stamp(key)
            if stamp is None:
                store.check_missing(key)
                return None
            if (tag := self._tag(key, stamp)) in known:
                return _known(tag)
        found = store.get_version(key, part)
        if found is None:
            store.check_missing(key)
            return None
        if isinstance(found.stamp, Unversioned):  # no version is told: nothing but the bytes can tell
            whole = store.get(key)
            return None if whole is None else _cut(whole, tag_of(whole), part, known)
        tag = self._tag(key, found.stamp)
        start = 0 if part is None else span(*part, found.size)[0]
        more = partial(_read_more, state, store, key, found.stamp)
        return ServedValue(None if tag in known else found.data, start, found.size, tag, more, is_stored=True)

    def _read_encoded(
        self, state: OpenState, array: _ServedArray, coords: Coords, part: Part | None, known: Sequence[str]
    ) -> ServedValue | None:
        """Return a chunk (shard) that is encoded here, of one version of the source."""
        box = array.grid.extent(coords)
        for _ in range(_TRIES):
            before = self._versions(state, array, box)
            tag = None if before is None else self._tag(array.path, array.digest, coords, before)
            if tag is not None and tag in known:
                return _known(tag)
            value = self._chunks.get_or_make(tag, partial(array.encode, box))
            if before is None or self._versions(state, array, box) == before:
                return None if value is None else _cut(value, tag or tag_of(value), part, known)
            if tag is not None:
                self._chunks.forget(tag)
        raise _restless(self.where)

    def _versions(self, state: OpenState, array: _ServedArray, box: Box) -> object:
        """Return what identifies the version of all that a box is made of; None where nothing does. Replaced when it
        is no longer what the documents of the state say."""
        if file_stamp(self.where) != state.file or state.look_at(array.plan.source.origin) != array.stamp:
            raise Replaced("the documents have changed", url=self.where.url, node=array.path)
        stamps = array.source_stamps(box)
        return None if stamps is None and state.file is None else (state.file, stamps)

    def _tag(self, *parts: object) -> str:
        return tag_of(repr((self.where.url, *parts)).encode())

    def _current(self) -> OpenState:
        """Return the state of the dataset, opened anew when its documents have changed."""
        state = self._state
        if state is not None and state.file is None and time.monotonic() < self._next_look:
            return state  # a folder: its values are looked at one by one
        file = file_stamp(self.where)
        if state is not None and state.file == file:
            if time.monotonic() < self._next_look or not self._lock.acquire(blocking=False):
                return state  # the state of a moment ago, while another thread looks
            try:
                return self._refresh(state)
            finally:
                self._lock.release()
        with self._lock:
            state = self._state
            if state is None or state.file != (file := file_stamp(self.where)):
                self._state = None  # what is gone, or damaged by now, is not served from memory
                state = self._state = OpenState(self.where, file)
                self._next_look = time.monotonic() + _LOOK_EVERY
            return state

    def _refresh(self, state: OpenState) -> OpenState:
        """Return the state if its documents are what they were, else a new one. The lock is held."""
        began = time.monotonic()
        try:
            if state.look() != state.stamps:
                self._state = None
                state = self._state = OpenState(self.where, file_stamp(self.where))
        except NodeNotFound:
            self._state = None
            raise
        finally:
            now = time.monotonic()
            self._next_look = now + max(_LOOK_EVERY, (now - began) / _LOOKING_SHARE)
        return state


def _restless(where: Location) -> Conflict:
    return Conflict("this is written faster than it can be read", url=where.url, remedy="read it when it rests")


def _read_more(state: OpenState, store: Store, key: str, stamp: Stamp, start: int, stop: int) -> bytes:
    """Return bytes of a stored value of this version; Conflict when it is another one. ``state`` keeps it open."""
    pieces = store.get_ranges_of(key, [(start, stop)], stamp)
    if pieces is None:
        raise Conflict("the value is gone by now", url=store.url, key=key, remedy="open the dataset again")
    return pieces[0]


def tag_of(value: bytes | memoryview) -> str:
    """Return a tag of some bytes: 128 bits."""
    return blake2b(value, digest_size=16).hexdigest()


def _cut(value: bytes | memoryview, tag: str, part: Part | None, known: Sequence[str]) -> ServedValue:
    """Return a value in memory, or a part of it."""
    view = value if isinstance(value, memoryview) else memoryview(value)
    start, stop = (0, len(value)) if part is None else span(*part, len(value))
    return ServedValue(None if tag in known else view[start:stop], start, len(value), tag, partial(_slice, view))


def _slice(value: memoryview, start: int, stop: int) -> memoryview:
    return value[start:stop]


def _known(tag: str) -> ServedValue:
    """Return a value that the caller has already."""
    return ServedValue(None, 0, 0, tag, partial(_slice, memoryview(b"")))
