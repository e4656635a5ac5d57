"""Do what a plan says: read chunks into a result, write values into chunks, by threads over batches of pieces.

A chunk that is wanted whole and lies contiguous in the result is decoded straight into it. Others are decoded into
strips, of chunks side by side that are copied at once; into blocks that a cache keeps; by ``read_part``, which needs no
block; else into one scratch block per batch. A written chunk that is covered whole is not read first. Every write holds
the locks of its batch's chunks, so that no other writer's cells are lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from operator import mul
from typing import Any

import numpy as np

from hyperslab.chunks.cache import BlockCache
from hyperslab.chunks.engine import Box, EngineJob, make_read, make_write
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.memory import UNASKED_BYTES, require
from hyperslab.chunks.plan import Piece, Plan, batches, count_by_outer, full, lies_contiguous, outer_chunks, strips
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import DEFAULTS, MEBIBYTE, Settings
from hyperslab.chunks.source import Block, ChunkReader, ChunkSource
from hyperslab.errors import HyperslabError, MemoryLimit, TilesFailed
from hyperslab.stores import counting
from hyperslab.stores.base import Stamp

Work = Callable[[Sequence[Piece]], None]
"""Done with each batch of pieces."""

# -- several outer chunks ----------------------------------------------------------------------------------------------
# Reads and writes of several, each stored by itself, that count as one.


class ShardErrors:
    """The errors of one read or write of ``count`` outer chunks: where some fail the others are tried all the same, so
    that one error tells of all."""

    def __init__(self, count: int, grid: Grid) -> None:
        self._count = count
        self._grid = grid
        self._errors: dict[Coords, Exception] = {}

    def collect(self, work: Work) -> Work:
        """Return ``work`` with its errors kept for the end; that of a single outer chunk is raised at once."""
        if self._count == 1:
            return work

        def collecting(pieces: Sequence[Piece]) -> None:
            try:
                work(pieces)
            except HyperslabError as error:
                shards: dict[Coords, list[Piece]] = {}
                for piece in pieces:
                    shards.setdefault(self._grid.outer_of(piece.coords), []).append(piece)
                if len(shards) == 1:
                    self._errors.update(dict.fromkeys(shards, error))
                else:  # each once more, to find out which of them it was
                    for shard in shards.values():
                        collecting(shard)

        return collecting

    def raise_if_any(self, done: str) -> None:
        """Raise TilesFailed, with the error of each outer chunk, if there were any."""
        if self._errors:
            message = f"{len(self._errors)} of {self._count} tiles could not be {done}"
            raise TilesFailed(message, exceptions=dict(sorted(self._errors.items())))


# Decoded bytes of a read or write below which threads cost more than they save: 30 to 110 us, where no core is free
# for them. By the engine 512 KiB in chunks of 128 KiB take 250 us by Blosc-lz4 and 130 bare, of which they save half.
SERIAL_BYTES = MEBIBYTE // 2
# The same for small chunks: the threads wait for each other between them.
SERIAL_BYTES_OF_SMALL_CHUNKS = 16 * MEBIBYTE
# Decoded bytes from which a chunk is not small.
SMALL_CHUNK_BYTES = MEBIBYTE // 4
# Decoded bytes that one thread takes at a time: few enough that all threads come to an end together. A box of the
# engine costs 10 us beside the 1.9 ms of 4 MiB in chunks of 128 KiB by Blosc-lz4; boxes of 16 MiB took less than 2 %
# less on one core, but by Zstandard one thread could wait 28 ms for the last box of another.
BATCH_BYTES = 4 * MEBIBYTE
# The same where a writer waits for the medium after each batch: many, so that it waits seldom.
DURABLE_BATCH_BYTES = 64 * MEBIBYTE
# Decoded bytes of neighbouring chunks that are copied into the result together: they stay in the processor's cache.
STRIP_BYTES = MEBIBYTE
# Chunks that are copied together: more of them would not make the copy cheaper.
CHUNKS_PER_STRIP = 8
# Pieces of a batch up to which the preparation of strips costs more than it saves.
PIECES_WITHOUT_STRIPS = 2 * CHUNKS_PER_STRIP
# Chunks that one thread takes at a time, however small: what is fetched of all of them is in memory at once.
CHUNKS_PER_BATCH = 64

_NO_CACHE = BlockCache(0)

StampOf = Callable[[Coords], Stamp | None]


def read(
    source: ChunkSource,
    plan: Plan,
    out: Block,
    fill: Block,
    settings: Settings = DEFAULTS,
    cache: BlockCache | None = None,
    *,
    cached_under: ChunkSource | None = None,
    errors: ShardErrors | None = None,
) -> None:
    """Put the plan's cells into ``out`` (of the plan's shape); chunks that were never written give ``fill`` (0-d).

    Where ``source`` is a snapshot: ``cached_under``, the source that it is a snapshot of, under which decoded chunks
    are cached, and ``errors``, where those of single shards are collected.
    """
    count = plan.count
    if not count:
        return
    traits = source.traits
    if traits.multi_shard:
        _read_snapshots(source, plan, out, fill, settings, cache)
        return
    nbytes = plan.grid.chunk_cells * out.dtype.itemsize or 1
    if settings.memory_limit is not None or nbytes > UNASKED_BYTES:
        require(nbytes, settings.memory_limit)
    reader = _BatchReader(source, plan, out, fill, cache, source if cached_under is None else cached_under)
    several = traits.in_files and count > 1  # a single chunk is read by the source, which may call the engine
    engine = make_read(source.stored_files, plan, out, fill, cached=reader.stamp is not None) if several else None
    if engine is None and count > CHUNKS_PER_BATCH and traits.fetches_outer and plan.grid.outer is not None:
        reader.share(settings, nbytes)
    workers = (
        min(settings.threads, count)
        if count * nbytes > (SERIAL_BYTES if engine or nbytes >= SMALL_CHUNK_BYTES else SERIAL_BYTES_OF_SMALL_CHUNKS)
        else 1
    )
    if traits.concurrency is not None:  # so many requests at once suit its store
        # Rounded up to a power of two: there is a pool of threads for each number of workers, and few shall be made.
        workers = min(settings.workers or traits.concurrency, 1 << (count - 1).bit_length())
    if counting.traces:
        counting.count(chunks=count)
    if engine is not None:
        _read_by_engine(engine, reader, count, nbytes, workers, errors)
        return
    work: Callable[[Any], None] = reader.read_shared_batch if reader.shared else reader.read_batch
    if counting.watchers:
        work = counting.report_batches(work, out.nbytes / count)
    if count == 1 or (workers == 1 and plan.grid.outer is None and count <= CHUNKS_PER_BATCH):
        work(plan.pieces())
        return
    size = max(1, min(CHUNKS_PER_BATCH, BATCH_BYTES // nbytes, -(-count // (4 * workers)) if workers > 1 else count))
    groups = batches(plan, size, CHUNKS_PER_BATCH, across=traits.fetches_across)
    each_batch(work if errors is None else errors.collect(work), groups, workers)


def _read_by_engine(
    engine: EngineJob,
    reader: _BatchReader,
    count: int,
    nbytes: int,
    workers: int,
    errors: ShardErrors | None,
) -> None:
    """Read the plan's chunks by the engine, and what that leaves by the source."""
    reader.left_by_engine = True
    read_batch = reader.read_batch if errors is None else errors.collect(reader.read_batch)

    def work(box: Box) -> None:
        if left := engine.read(box):
            read_batch(left)

    try:
        size = max(1, min(BATCH_BYTES // nbytes, -(-count // (4 * workers)) if workers > 1 else count))
        reported = counting.report_batches(work, reader.out.nbytes / count) if counting.watchers else work
        each_batch(reported, engine.boxes(size), workers)
    finally:
        engine.close()


def count_requests(source: ChunkSource, plan: Plan, nbytes: int, settings: Settings = DEFAULTS) -> int:
    """Return how many requests to the store :func:`read` makes for chunks of ``nbytes`` bytes, if nothing is
    remembered: one per chunk; one for an outer chunk of which half or more is wanted; else one for its index, and one
    for each batch of its chunks, or more where these do not lie together."""
    if plan.grid.outer is None or not plan.count:
        return plan.count
    total = 0
    for wanted in count_by_outer(plan).values():
        if _is_fetched_whole(source, plan, wanted, nbytes, settings):
            total += 1
        else:
            total += 1 + -(-wanted // CHUNKS_PER_BATCH)
    return total


def _is_fetched_whole(source: ChunkSource, plan: Plan, wanted: int, nbytes: int, settings: Settings) -> bool:
    """Return whether an outer chunk is fetched by one request when so many chunks of it are wanted: from half of them
    on, where one batch has them all, or all of its batches may share what is fetched and it fits into memory."""
    members = prod(plan.grid.members)
    if 2 * wanted < members:
        return False
    if wanted <= CHUNKS_PER_BATCH:
        return True
    if not source.traits.fetches_outer:
        return False
    try:
        require(members * nbytes, settings.memory_limit)
    except MemoryLimit:
        return False
    return True


class _SharedFetch:
    """What is stored of one outer chunk that several batches read from: fetched by the first of them, let go after the
    last. ``ask``: asks for its stamp; None where that comes with what is fetched, or nobody wants it."""

    def __init__(self, fetch: Callable[[], ChunkReader], batches: int, ask: Callable[[], Stamp | None] | None) -> None:
        self._fetch = fetch
        self._left = batches
        self._ask = ask
        self._lock = threading.Lock()
        self._fetched: ChunkReader | None = None
        self._stamp: Stamp | None = None

    def get(self) -> ChunkReader:
        """Return what is stored of the outer chunk."""
        with self._lock:
            if self._fetched is None:
                self._ask_once()  # before the fetch: what is kept under the stamp is no older
                self._fetched = self._fetch()
                if self._stamp is None:
                    self._stamp = self._fetched.version
            return self._fetched

    def stamp(self) -> Stamp | None:
        """Return the stamp that all batches keep blocks under."""
        with self._lock:
            self._ask_once()
            return self._stamp

    def _ask_once(self) -> None:
        if self._ask is not None and self._stamp is None:
            self._stamp = self._ask()

    def release(self) -> None:
        """Count a batch that is done."""
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                self._fetched = None


def _read_snapshots(
    source: ChunkSource, plan: Plan, out: Block, fill: Block, settings: Settings, cache: BlockCache | None
) -> None:
    """Read the plan from a snapshot of several shards, and again from the next one, until none follows."""
    shards = outer_chunks(plan)
    snapshots = source.snapshot(shards)
    try:
        for snapshot in snapshots:
            errors = ShardErrors(len(shards), plan.grid)
            read(snapshot, plan, out, fill, settings, cache, cached_under=source, errors=errors)
            errors.raise_if_any("read")
    finally:
        snapshots.close()


class _BatchReader:
    """Reads batches of pieces into one result, by several threads; without the engine those ``left_by_engine``."""

    def __init__(
        self,
        source: ChunkSource,
        plan: Plan,
        out: Block,
        fill: Block,
        cache: BlockCache | None,
        cached_under: ChunkSource,
    ) -> None:
        traits = source.traits
        self.source, self.cached_under = source, cached_under
        is_single_chunk = traits.in_files and plan.count == 1  # one chunk, in a file of its own or in a shard's
        self.fetches = traits.fetches and not is_single_chunk
        has_parts = (traits.reads_parts or is_single_chunk) and plan.basic and plan.groups
        self.read_part = source.read_part if has_parts else None
        self.plan = plan
        # Whole chunks may lie contiguous in the result; of one, or of several shapes, _read_into_result finds out.
        fixed = None if plan.count == 1 else plan.grid.fixed
        self.fills_result = plan.basic and (fixed is None or lies_contiguous(fixed, out))
        self.out, self.fill, self.left_by_engine = out, fill, False
        self.stamp: StampOf | None = source.stamp if traits.stamped and cache is not None and cache.limit else None
        self.cache = _NO_CACHE if cache is None else cache
        self.reads_stamps = traits.reads_stamps or is_single_chunk
        self.shared: dict[Coords, _SharedFetch] = {}

    def share(self, settings: Settings, nbytes: int) -> None:
        """Let the batches of each outer chunk that is fetched whole share what is fetched."""
        plan, source = self.plan, self.source
        # whole chunks are never kept, and need no stamp
        ask = None if plan.basic and all(entry[3] for group in plan.groups for entry in group) else self.stamp
        for outer, wanted in count_by_outer(plan).items():
            if wanted > CHUNKS_PER_BATCH and _is_fetched_whole(source, plan, wanted, nbytes, settings):
                first = tuple(map(mul, outer, plan.grid.members))
                stamp = None if ask is None or self.reads_stamps else partial(ask, first)
                self.shared[outer] = _SharedFetch(
                    partial(source.fetch_outer, outer), -(-wanted // CHUNKS_PER_BATCH), stamp
                )

    def read_shared_batch(self, pieces: Sequence[Piece]) -> None:
        """Read every piece, from what is fetched for all batches of their outer chunk where that is so."""
        shared = self.shared.get(self.plan.grid.outer_of(pieces[0].coords))
        try:
            self.read_batch(pieces, shared)
        finally:
            if shared is not None:
                shared.release()

    def read_batch(self, pieces: Sequence[Piece], shared: _SharedFetch | None = None) -> None:
        """Read every piece, in the calling thread."""
        into: ChunkReader = self.source
        stamp_of: StampOf | None = self.stamp
        read_part = self.read_part
        if self.fetches:
            into, stamp_of, pieces = self._fetch(pieces) if shared is None else self._fetch_shared(pieces, shared)
            read_part = read_part and into.read_part
        out, grid, fill = self.out, self.plan.grid, self.fill
        fixed, order, fills_result = grid.fixed, self.plan.order, self.fills_result
        if len(pieces) > PIECES_WITHOUT_STRIPS and self.plan.basic and not fills_result:
            pieces = self._read_strips(into, pieces)
        scratch: Block | None = None
        read: Callable[[Coords], bool] | None = None
        for coords, within, target, whole in pieces:
            shape = fixed or grid.chunk_shape(coords)
            if whole and fills_result and self._read_into_result(into, coords, out[target], shape):
                continue
            if stamp_of is not None and not (whole and self.plan.basic):
                block = self._through_cache(stamp_of, into, coords, shape)
                out[target] = (block if order is None else block.transpose(order))[within]
                continue
            if read_part is not None:
                if not read_part(coords, within, out[target]):
                    out[target] = fill
                continue
            if scratch is None or read is None or scratch.shape != shape:
                scratch = np.empty(shape, out.dtype)
                read = into.reader(scratch)
            if read(coords):
                out[target] = (scratch if order is None else scratch.transpose(order))[within]
            else:
                out[target] = fill

    def _read_strips(self, into: ChunkReader, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Read neighbours along the last axis side by side and copy them at once; pieces that have none are left."""
        shape, ndim = self.plan.grid.fixed, self.out.ndim
        most = 0 if shape is None else min(CHUNKS_PER_STRIP, STRIP_BYTES // max(1, prod(shape) * self.out.itemsize))
        if shape is None or most < 2 or len(self.plan.groups[-1]) == 1:
            return pieces
        left: list[Piece] = []
        blocks = np.empty((most, *shape), self.out.dtype)
        readers = [into.reader(block) for block in blocks]
        axes = (*range(1, ndim), 0, ndim)
        for strip in strips(pieces, most):
            inner = full(strip, shape[-1])
            left += (*strip[: inner.start], *strip[inner.stop :])
            strip = strip[inner]
            if not strip:
                continue
            for read, block, piece in zip(readers, blocks, strip, strict=False):
                if not read(piece[0]):
                    block[...] = self.fill
            _, within, target, _ = strip[0]
            view = self.out[(*target[:-1], slice(target[-1].start, strip[-1][2][-1].stop))]
            cells = blocks[(slice(0, len(strip)), *within)]
            view.reshape(*view.shape[:-1], len(strip), shape[-1])[...] = cells.transpose(axes)
        return left

    def _read_into_result(self, into: ChunkReader, coords: Coords, view: Block, shape: tuple[int, ...]) -> bool:
        """Decode into the result itself, when the chunk lies contiguous there."""
        if view.shape != shape or not view.flags.c_contiguous:
            return False
        if not (into.reader(view)(coords) if self.left_by_engine else into.read_into(coords, view)):
            view[...] = self.fill
        return True

    def _fetch(self, pieces: Sequence[Piece]) -> tuple[ChunkReader, StampOf | None, Sequence[Piece]]:
        """Fetch what is stored of the pieces by few requests; with a cache their stamps, without those that it has."""
        source, stamp_of = self.source, self.stamp
        if stamp_of is None:
            if self.read_part is not None:
                wanted = [(piece.coords, None if piece.whole else piece.within) for piece in pieces]
                return source.fetch_parts(wanted), None, pieces
            return source.fetch([piece.coords for piece in pieces]), None, pieces
        wanted_in_part = [piece.coords for piece in pieces if not (piece.whole and self.plan.basic)]
        # Stamps cost requests of their own, so they are asked for only where the cache may serve a piece.
        if self.reads_stamps and not any(self.cache.peek((self.cached_under, coords)) for coords in wanted_in_part):
            fetched = source.fetch([piece.coords for piece in pieces])
            return fetched, lambda coords: fetched.version, pieces
        stamps, pieces = self._from_cache(stamp_of, pieces)
        return source.fetch([piece.coords for piece in pieces]) if pieces else source, stamps, pieces

    def _fetch_shared(
        self, pieces: Sequence[Piece], shared: _SharedFetch
    ) -> tuple[ChunkReader, StampOf | None, Sequence[Piece]]:
        """Do the same for a batch of an outer chunk that is fetched whole."""
        in_part = [piece.coords for piece in pieces if not (piece.whole and self.plan.basic)]
        if self.stamp is None or not in_part:
            return shared.get(), None, pieces
        if self.reads_stamps and not any(self.cache.peek((self.cached_under, coords)) for coords in in_part):
            shared.get()  # the stamp comes with it
        stamps, pieces = self._from_cache(lambda coords: shared.stamp(), pieces)
        return shared.get() if pieces else self.source, stamps, pieces

    def _from_cache(self, stamp_of: StampOf, pieces: Sequence[Piece]) -> tuple[StampOf, Sequence[Piece]]:
        """Serve what the cache has; the other pieces, and stamps from before anything is fetched: it is no older."""
        grid = self.plan.grid
        stamps: dict[Coords, Stamp | None] = {}
        known: dict[Coords, Stamp | None] = {}
        for coords, *_ in pieces:
            stored = coords if grid.outer is None else grid.outer_of(coords)  # one stamp for all of an outer chunk
            if stored not in known:
                known[stored] = stamp_of(coords)
            stamps[coords] = known[stored]
        return stamps.__getitem__, [piece for piece in pieces if not self._served(piece, stamps[piece.coords])]

    def _served(self, piece: Piece, stamp: Stamp | None) -> bool:
        """Copy a chunk that is wanted in part from the cache, if it has this version."""
        if stamp is None or (piece.whole and self.plan.basic):
            return False
        block = self.cache.get((self.cached_under, piece.coords), stamp)
        if block is None:
            return False
        order = self.plan.order
        self.out[piece.out] = (block if order is None else block.transpose(order))[piece.within]
        return True

    def _through_cache(self, stamp_of: StampOf, into: ChunkReader, coords: Coords, shape: tuple[int, ...]) -> Block:
        """Return the chunk from the cache if it has the stored version, else from the store."""
        name = (self.cached_under, coords)
        if self.reads_stamps and not self.fetches:  # one request tells whether the store has another version
            known, _ = self.cache.peek(name) or (None, None)
            newer, stamp = self.source.read_newer(coords, known)
            if stamp is None:
                return np.full(shape, self.fill, self.out.dtype)
            if newer is not None and not newer.dtype.hasobject:
                self.cache.put(name, stamp, newer)
            block = self.cache.get(name, stamp) if newer is None else newer
        else:
            # The stamp is from before the read, so that a block is never kept under a stamp that is newer than it.
            stamp = stamp_of(coords)
            block = None if stamp is None else self.cache.get(name, stamp)
        if block is None:
            block = np.empty(shape, self.out.dtype)
            if not into.read_into(coords, block):
                block[...] = self.fill
            elif stamp is not None and not block.dtype.hasobject:
                self.cache.put(name, stamp, block)
        return block


def write(
    source: ChunkSource,
    plan: Plan,
    values: Block,
    fill: Block,
    settings: Settings = DEFAULTS,
    fields: Any = None,
) -> None:
    """Put ``values`` (of the plan's shape) into the plan's chunks; ``fill`` (0-d) pads what they do not cover.

    ``fields``: the field, or fields, of a structured dtype that the values are for; the others keep what they hold.
    """
    count = plan.count
    if not count:
        return
    nbytes = plan.grid.chunk_cells * fill.dtype.itemsize or 1
    require(nbytes, settings.memory_limit)
    if counting.traces:
        counting.count(chunks=count)
    traits = source.traits
    waits = settings.durable and not traits.transacts  # else the medium is waited for once, at the end
    size = max(1, min(CHUNKS_PER_BATCH, (DURABLE_BATCH_BYTES if waits else BATCH_BYTES) // nbytes))
    workers = min(settings.threads, -(-count // size)) if nbytes * count > SERIAL_BYTES else 1
    if traits.multi_shard:
        touched = outer_chunks(plan)
        errors = ShardErrors(len(touched), plan.grid)
        with source.multi_shard_write(touched, settings.lock_timeout) as target:
            work = _with_progress(_work(target, plan, values, fill, settings, fields), plan, values)
            each_batch(errors.collect(work), batches(plan, size, count), workers)
            errors.raise_if_any("written, so that nothing of this write shows")
        return
    with source.transaction(settings.lock_timeout):
        work = _work(source, plan, values, fill, settings, fields)
        # To prepare a job of the engine takes longer than the source takes to write a single chunk.
        if traits.in_files and traits.locks and count > 1 and fields is None:
            engine = make_write(source.stored_files, plan, values, fill)
            if engine is not None:
                # A shard is encoded and written whole, by one box. Of chunks in files some are written, and on the way
                # to the medium, while the next are encoded, in memory that stays in the processor's cache.
                per_box, per_part = (size, max(1, BATCH_BYTES // nbytes)) if plan.grid.outer is None else (count, count)
                by_box = _engine_work(engine, per_part, source, work, settings)
                each_batch(_with_progress(by_box, plan, values), engine.boxes(per_box), workers)
                return
        each_batch(_with_progress(work, plan, values), batches(plan, size, count), workers)


def _with_progress(work: Callable[[Any], None], plan: Plan, values: Block) -> Callable[[Any], None]:
    """Return ``work``, which tells watchers of the chunks that it has written, if there are any."""
    return counting.report_batches(work, values.nbytes / plan.count, written=True) if counting.watchers else work


def _engine_work(
    engine: EngineJob, chunks_per_part: int, source: ChunkSource, write_rest: Work, settings: Settings
) -> Callable[[Box], None]:
    """Return the function that has the engine encode a box of chunks, part by part, which the source stores under their
    locks."""

    def encode(box: Box, left: list[Piece]) -> Iterator[tuple[Coords, object]]:
        for part in box.cut(chunks_per_part):
            encoded, rest = engine.encode(part)
            left += rest
            yield from encoded.items()

    def work(box: Box) -> None:
        left: list[Piece] = []
        with source.lock(list(engine.coords(box)), settings.lock_timeout):
            shard = engine.encode_shard(box)
            if shard is not None:
                source.write_shard(next(engine.coords(box)), shard, durable=settings.durable)
            else:
                source.write_encoded(encode(box, left), durable=settings.durable)
        if left:
            write_rest(left)

    return work


def _work(source: ChunkSource, plan: Plan, values: Block, fill: Block, settings: Settings, fields: Any) -> Work:
    """Return the function that writes a batch of pieces: by compare-and-swap, or under the locks of their chunks."""

    def write_locked(pieces: Sequence[Piece]) -> None:
        with source.lock([piece.coords for piece in pieces], settings.lock_timeout):
            pairs = ((piece.coords, _new_block(source.read, plan, piece, values, fill, fields)) for piece in pieces)
            source.write_batch(pairs, durable=settings.durable)

    return _swapper(source, plan, values, fill, settings, fields) if source.traits.swaps else write_locked


def _swapper(source: ChunkSource, plan: Plan, values: Block, fill: Block, settings: Settings, fields: Any) -> Work:
    """Return the function that writes a batch of pieces where no lock can be held: read, change, and put back what is
    still the same version; else start again."""

    def covers(piece: Piece) -> bool:
        return piece.whole and fields is None

    def change(pieces: Sequence[Piece]) -> None:
        """Read what is not covered, put all back at once."""
        old = [piece.coords for piece in pieces if not covers(piece)]

        def make_new(blocks: list[Block | None]) -> list[tuple[Coords, Block]]:
            known = dict(zip(old, blocks, strict=True))
            make = partial(_new_block, known.get, plan, values=values, fill=fill, fields=fields)
            return [(piece.coords, make(piece=piece)) for piece in pieces]

        source.update(old, make_new, settings.lock_timeout)

    def work(pieces: Sequence[Piece]) -> None:
        together = plan.grid.outer is not None and not all(map(covers, pieces))
        covered = [] if together else [piece for piece in pieces if covers(piece)]
        if covered:
            pairs = ((piece.coords, _new_block(source.read, plan, piece, values, fill, fields)) for piece in covered)
            source.write_batch(pairs, durable=settings.durable)
        if together:
            change(pieces)
        elif len(covered) < len(pieces):
            rest = [[piece] for piece in pieces if not covers(piece)]
            each_batch(
                change, rest, min(settings.workers or source.traits.concurrency or 1, 1 << (len(rest) - 1).bit_length())
            )

    return work


def _new_block(
    read: Callable[[Coords], Block | None], plan: Plan, piece: Piece, values: Block, fill: Block, fields: Any
) -> Block:
    """Return the chunk as it will be: the values alone where they cover it, else put over what is there."""
    shape = plan.grid.chunk_shape(piece.coords)
    part: Block = values[piece.out]
    whole = piece.whole and fields is None
    if whole and part.shape == shape:
        return part if part.flags.c_contiguous else np.ascontiguousarray(part).reshape(shape)
    block = None if whole else read(piece.coords)
    if block is None:
        block = np.full(shape, fill, fill.dtype)
    elif not block.flags.writeable:
        block = block.copy()
    target = block if fields is None else block[fields]
    (target if plan.order is None else target.transpose(plan.order))[piece.within] = part
    return block
