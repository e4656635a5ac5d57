"""Do what a plan says: read chunks into a result, write values into chunks, by threads over batches of pieces.

A chunk that is wanted whole and lies contiguous in the result is decoded straight into it; any other into one scratch
block per batch, then copied. A written chunk that is covered whole is not read first. Every write holds the locks of
its batch's chunks, so that no other writer's cells are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.cache import BlockCache
from hyperslab.chunks.cas_writes import new_block, swapper
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.grouping import batches, outer_chunks
from hyperslab.chunks.memory import require
from hyperslab.chunks.plan import Piece, Plan
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import DEFAULTS, MEBIBYTE, Settings
from hyperslab.chunks.source import Block, ChunkSource, ReadsInto
from hyperslab.errors import HyperslabError, TilesFailed
from hyperslab.stores import counting

# -- ------------------------------------------------------------------------------------------------------------------
# Reads and writes of several outer chunks, each stored by itself, that count as one.


class MultiShardOperation:
    """A read or write of several outer chunks (``count``) that counts as one: ``source`` is asked for moments of it, or
    for a target; where some of its chunks fail the others are tried, so that one error tells of all."""

    def __init__(self, source: ChunkSource, count: int, grid: Grid) -> None:
        self.source = source
        self._count = count
        self._grid = grid
        self._errors: dict[Coords, Exception] = {}

    def noting(self, work: Callable[[Sequence[Piece]], None]) -> Callable[[Sequence[Piece]], None]:
        """``work``, whose failures are kept for the end; those of a single outer chunk are raised."""
        if self._count == 1:
            return work

        def noted(pieces: Sequence[Piece]) -> None:
            try:
                work(pieces)
            except HyperslabError as error:
                tiles: dict[Coords, list[Piece]] = {}
                for piece in pieces:
                    tiles.setdefault(self._grid.outer_of(piece.coords), []).append(piece)
                if len(tiles) == 1:
                    self._errors.update(dict.fromkeys(tiles, error))
                else:  # which of them it was
                    for tile in tiles.values():
                        noted(tile)

        return noted

    def check(self, done: str) -> None:
        """TilesFailed if there were failures."""
        if self._errors:
            message = f"{len(self._errors)} of {self._count} tiles could not be {done}"
            raise TilesFailed(message, exceptions=dict(sorted(self._errors.items())))


# -- ------------------------------------------------------------------------------------------------------------------
# Which chunks lie side by side in the result, so that few copies bring many of them there. Pure.


def strips(pieces: Sequence[Piece], most: int) -> Iterator[Sequence[Piece]]:
    """Cut pieces into runs of up to ``most`` that follow each other as neighbours along the last axis."""
    places = [piece[0] for piece in pieces]
    start = 0
    for i in range(1, len(pieces)):
        *row, last = places[i - 1]
        if places[i] != (*row, last + 1) or i - start == most:
            yield pieces[start:i]
            start = i
    yield pieces[start:]


def full(strip: Sequence[Piece], width: int) -> slice:
    """Which pieces of a strip are whole chunks, ``width`` cells wide, taken forwards; only its ends can be others."""
    first, last = strip[0], strip[-1]
    if not strip[len(strip) // 2].whole or first.out[-1].step is not None:
        return slice(0, 0)
    span = last.out[-1]
    short = not last.whole or span.stop - span.start != width
    return slice(0 if first.whole else 1, len(strip) - short)


def lies_contiguous(shape: tuple[int, ...], out: np.ndarray[Any, Any]) -> bool:
    """Return whether a block of this shape within ``out`` is C-contiguous there."""
    step = out.itemsize
    for size, stride in zip(reversed(shape), reversed(out.strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


_SERIAL = MEBIBYTE // 2  # decoded bytes below which starting threads costs more than it saves
_SERIAL_SMALL = 16 * MEBIBYTE  # the same for small chunks: the threads wait for each other between them
_LARGE = MEBIBYTE // 4  # decoded bytes from which a chunk is not small
_BATCH = 4 * MEBIBYTE  # decoded bytes that one thread takes at a time, so that all come to an end together
_DURABLE = 64 * MEBIBYTE  # the same where a writer waits for the medium after each batch
_STRIP = MEBIBYTE  # decoded bytes of neighbouring chunks that are copied into the result together
_NEIGHBOURS = 8  # more of them would not make the copy cheaper
_FEW = 2 * _NEIGHBOURS  # pieces of a batch for which it is not worth the preparation
_MOST = 64  # chunks that one thread takes at a time


def read(
    source: ChunkSource,
    plan: Plan,
    out: Block,
    fill: Block,
    settings: Settings = DEFAULTS,
    cache: BlockCache | None = None,
    whole: MultiShardOperation | None = None,
) -> None:
    """Put the plan's cells into ``out`` (of the plan's shape); chunks that were never written give ``fill`` (0-d).

    ``whole``: where ``source`` is another one as of one moment.
    """
    pieces = len(plan)
    if not pieces:
        return
    if hasattr(source, "steady"):
        touched = outer_chunks(plan)
        moments = source.steady(touched)
        try:
            for moment in moments:
                whole = MultiShardOperation(source, len(touched), plan.grid)
                read(moment, plan, out, fill, settings, cache, whole)
                whole.check("read")
        finally:
            moments.close()
        return
    nbytes = chunk_bytes(plan, out.dtype)
    require(nbytes, settings.memory_limit)
    reader = _BatchReader(source, plan, out, fill, cache, source if whole is None else whole.source)
    workers = min(settings.threads, pieces) if pieces * nbytes > (_SERIAL if nbytes >= _LARGE else _SERIAL_SMALL) else 1
    if (concurrency := getattr(source, "concurrency", None)) is not None:  # so many requests at once suit its store
        workers = min(settings.workers or concurrency, 1 << (pieces - 1).bit_length())  # few sizes, few pools
    if counting.traces:
        counting.count(chunks=pieces)
    work: Callable[[Any], None] = reader.read_batch
    if counting.watchers:
        work = counting.telling(work, out.nbytes / pieces)
    if pieces == 1 or (workers == 1 and plan.grid.outer is None and pieces <= _MOST):
        work(list(plan))
        return
    size = max(1, min(_MOST, _BATCH // nbytes, -(-pieces // (4 * workers)) if workers > 1 else pieces))
    groups = batches(plan, size, _MOST, across=getattr(source, "fetches_across", False))
    each_batch(work if whole is None else whole.noting(work), groups, workers)


class _BatchReader:
    """Reads batches of pieces into one result; several threads may call it."""

    def __init__(
        self,
        source: ChunkSource,
        plan: Plan,
        out: Block,
        fill: Block,
        cache: BlockCache | None,
        owner: ChunkSource,
    ) -> None:
        self.owner = owner
        self.fetch = getattr(source, "fetch", None)  # getattr: isinstance of a Protocol costs dozens of calls
        into: Any = source if hasattr(source, "read_into") else _Copying(source)
        self.into: ReadsInto = into
        self.part = getattr(source, "read_part", None) if plan.basic and plan.groups else None
        self.fetch_parts = getattr(source, "fetch_parts", None) if self.part is not None else None
        self.plan = plan
        self.straight = plan.basic and (plan.grid.fixed is None or lies_contiguous(plan.grid.fixed, out))
        self.out = out
        self.fill = fill
        self.stamp = getattr(source, "stamp", None) if cache is not None and cache.limit else None
        self.cache = cache
        self.newer = getattr(source, "read_newer", None)
        self.fetches_stamps = getattr(source, "fetches_stamps", False)

    def read_batch(self, pieces: Any) -> None:
        """Read every piece, in the calling thread."""
        into: Any = self.into
        stamp_of, part = self.stamp, self.part
        if self.fetch is not None:
            into, stamp_of, pieces = self._fetched(pieces)
            part = part and getattr(into, "read_part", part)
        out, grid, fill = self.out, self.plan.grid, self.fill
        fixed, order, straight = grid.fixed, self.plan.order, self.straight
        if len(pieces) > _FEW and self.plan.basic and not straight:
            pieces = self._read_strips(into, pieces)
        scratch: Block | None = None
        read: Any = None
        for coords, within, target, whole in pieces:
            shape = fixed or grid.chunk_shape(coords)
            if whole and straight and self._read_straight(into, coords, out[target], shape):
                continue
            if stamp_of is not None and not (whole and self.plan.basic):
                block = self._through_cache(stamp_of, into, coords, shape)
                out[target] = (block if order is None else block.transpose(order))[within]
                continue
            if part is not None:
                if not part(coords, within, out[target]):
                    out[target] = fill
                continue
            if scratch is None or scratch.shape != shape:
                scratch = np.empty(shape, out.dtype)
                read = _reader(into, scratch)
            if read(coords):
                out[target] = (scratch if order is None else scratch.transpose(order))[within]
            else:
                out[target] = fill

    def _read_strips(self, into: Any, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Read neighbours along the last axis side by side and copy them at once; pieces that have none are left."""
        shape, ndim = self.plan.grid.fixed, self.out.ndim
        most = 0 if shape is None else min(_NEIGHBOURS, _STRIP // max(1, prod(shape) * self.out.itemsize))
        if shape is None or most < 2 or len(self.plan.groups[-1]) == 1:
            return pieces
        left: list[Piece] = []
        blocks = np.empty((most, *shape), self.out.dtype)
        readers = [_reader(into, block) for block in blocks]
        axes = (*range(1, ndim), 0, ndim)
        for strip in strips(pieces, most):
            inner = full(strip, shape[-1])
            left += strip[: inner.start]
            left += strip[inner.stop :]
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

    def _read_straight(self, into: ReadsInto, coords: Coords, view: Block, shape: tuple[int, ...]) -> bool:
        """Decode into the result itself, when the chunk lies contiguous there."""
        if view.shape != shape or not view.flags.c_contiguous:
            return False
        if not into.read_into(coords, view):
            view[...] = self.fill
        return True

    def _fetched(self, pieces: Sequence[Piece]) -> tuple[ReadsInto, Any, Sequence[Piece]]:
        """What is stored of the pieces, by few requests; with a cache their stamps, and without those that it has."""
        stamp_of = self.stamp
        fetch: Any = self.fetch
        if self.fetch_parts is not None:
            wanted = [(piece.coords, None if piece.whole else piece.within) for piece in pieces]
            return self.fetch_parts(wanted), stamp_of, pieces
        if stamp_of is not None and self.fetches_stamps and not self._knows_any(pieces):
            fetched = fetch([piece.coords for piece in pieces])
            return fetched, lambda coords: fetched.version, pieces
        if stamp_of is not None:
            stamp_of, pieces = self._from_cache(stamp_of, pieces)
        return fetch([piece.coords for piece in pieces]) if pieces else self.into, stamp_of, pieces

    def _knows_any(self, pieces: Sequence[Piece]) -> bool:
        """Return whether the cache may serve one of the pieces, so that it is worth asking for stamps."""
        cache: Any = self.cache
        wanted = [piece.coords for piece in pieces if not (piece.whole and self.plan.basic)]
        return any(cache.peek((self.owner, coords)) is not None for coords in wanted)

    def _from_cache(
        self, stamp_of: Callable[[Coords], Any], pieces: Sequence[Piece]
    ) -> tuple[Callable[[Coords], Any], Sequence[Piece]]:
        """Serve what the cache has; the other pieces, and stamps from before anything is fetched: it is no older."""
        grid = self.plan.grid
        stamps: dict[Coords, Any] = {}
        known: dict[Coords, Any] = {}
        for coords, *_ in pieces:
            place = coords if grid.outer is None else grid.outer_of(coords)  # one stamp for all of an outer chunk
            if place not in known:
                known[place] = stamp_of(coords)
            stamps[coords] = known[place]
        return stamps.__getitem__, [piece for piece in pieces if not self._served(piece, stamps[piece.coords])]

    def _served(self, piece: Piece, stamp: Any) -> bool:
        """Copy a chunk that is wanted in part from the cache, if it has this version."""
        if stamp is None or (piece.whole and self.plan.basic):
            return False
        cache: Any = self.cache
        block = cache.get((self.owner, piece.coords), stamp)
        if block is None:
            return False
        order = self.plan.order
        self.out[piece.out] = (block if order is None else block.transpose(order))[piece.within]
        return True

    def _through_cache(
        self, stamp_of: Callable[[Coords], Any], into: ReadsInto, coords: Coords, shape: tuple[int, ...]
    ) -> Block:
        if self.newer is not None:
            return self._newer(coords, shape)
        stamp = stamp_of(coords)
        cache: Any = self.cache
        block: Block | None = cache.get((self.owner, coords), stamp) if stamp is not None else None
        if block is None:
            block = np.empty(shape, self.out.dtype)
            if not into.read_into(coords, block):
                block[...] = self.fill
            elif stamp is not None and not block.dtype.hasobject:
                cache.put((self.owner, coords), stamp, block)
        return block

    def _newer(self, coords: Coords, shape: tuple[int, ...]) -> Block:
        """The chunk from the cache or from the store, which tells by one request whether it has another."""
        cache: Any = self.cache
        newer: Any = self.newer
        peeked: tuple[Any, Any] = cache.peek((self.owner, coords)) or (None, None)
        known, old = peeked
        found, stamp = newer(coords, known)
        if stamp is None:
            return np.full(shape, self.fill, self.out.dtype)
        block: Block = old if found is None else found
        if found is not None and not block.dtype.hasobject:
            cache.put((self.owner, coords), stamp, block)
        return block


def _reader(into: Any, block: Block) -> Callable[[Coords], bool]:
    """What reads chunks into ``block``, one after the other."""
    reader = getattr(into, "reader", None)
    return partial(into.read_into, out=block) if reader is None else reader(block)


class _Copying:
    """``read_into`` for a source that only has ``read``."""

    def __init__(self, source: ChunkSource) -> None:
        self._source = source

    def read_into(self, coords: Coords, out: Block) -> bool:
        block = self._source.read(coords)
        if block is not None:
            out[...] = block
        return block is not None


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
    pieces = len(plan)
    if not pieces:
        return
    nbytes = chunk_bytes(plan, fill.dtype)
    require(nbytes, settings.memory_limit)
    if counting.traces:
        counting.count(chunks=pieces)
    waits = settings.durable and not hasattr(source, "transaction")  # else the medium is waited for once, at the end
    size = max(1, min(_MOST, (_DURABLE if waits else _BATCH) // nbytes))
    workers = min(settings.threads, -(-pieces // size)) if nbytes * pieces > _SERIAL else 1
    if hasattr(source, "together"):
        touched = outer_chunks(plan)
        whole = MultiShardOperation(source, len(touched), plan.grid)
        with source.together(touched, settings.lock_timeout) as target:
            work = whole.noting(_work(target, plan, values, fill, settings, fields))
            each_batch(work, batches(plan, size, pieces), workers)
            whole.check("written, so that nothing of this write shows")
        return
    with transaction_of(source, settings):
        work = _work(source, plan, values, fill, settings, fields)
        each_batch(work, batches(plan, size, pieces), workers)


def _work(
    source: ChunkSource, plan: Plan, values: Block, fill: Block, settings: Settings, fields: Any
) -> Callable[[Sequence[Piece]], None]:
    """What writes batches of pieces."""
    make = swapper if hasattr(source, "swap") else _writer
    work = make(source, plan, values, fill, settings, fields)
    return counting.telling(work, values.nbytes / len(plan), written=True) if counting.watchers else work


def transaction_of(source: ChunkSource, settings: Settings) -> AbstractContextManager[None]:
    """What makes one of all that is written to the source in a block, where it can (:class:`~.source.Transacts`)."""
    begin = getattr(source, "transaction", None)
    return nullcontext() if begin is None else begin(settings.lock_timeout)


def _writer(
    source: ChunkSource, plan: Plan, values: Block, fill: Block, settings: Settings, fields: Any
) -> Callable[[Sequence[Piece]], None]:
    def work(pieces: Sequence[Piece]) -> None:
        with locked(source, [piece.coords for piece in pieces], settings):
            pairs = ((piece.coords, new_block(source.read, plan, piece, values, fill, fields)) for piece in pieces)
            store(source, pairs, settings)

    return work


def store(source: ChunkSource, pairs: Iterable[tuple[Coords, Block]], settings: Settings) -> None:
    """Write chunks: all together, where the source can (:class:`~.source.WritesMany`), else one after the other."""
    write_many = getattr(source, "write_many", None)
    if write_many is not None:
        write_many(pairs, durable=settings.durable)
        return
    for coords, block in pairs:
        source.write(coords, block)


def locked(source: ChunkSource, coords: Sequence[Coords], settings: Settings) -> AbstractContextManager[None]:
    """Hold these chunks for a block, where the source can (:class:`~.source.Locking`)."""
    lock = getattr(source, "lock", None)
    return nullcontext() if lock is None else lock(coords, settings.lock_timeout)


def chunk_bytes(plan: Plan, dtype: np.dtype[Any]) -> int:
    """Decoded bytes of the plan's first chunk (of each chunk where the grid is fixed); at least 1."""
    shape = plan.grid.fixed or plan.grid.chunk_shape((0,) * len(plan.grid.axes))
    return max(1, dtype.itemsize * prod(shape))
