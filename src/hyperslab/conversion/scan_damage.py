"""The search for damage among the arrays that are to be converted."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hyperslab.array.session import OpenDataset
from hyperslab.checks.reading import read_through
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.conversion.damage import DAMAGE, SourceDamage
from hyperslab.conversion.selecting import Picked
from hyperslab.conversion.walking import Item
from hyperslab.model.spec import ArraySpec

_SETTINGS = Settings(cache_bytes=0)
_log = logging.getLogger("hyperslab")


def readable(source: OpenDataset, items: Sequence[Item], damage: SourceDamage) -> list[Item]:
    """The items of which every chosen cell can be read, in order; ``damage`` notes the others and is logged. Its error
    is raised where no array is left, or not the first one of a target that holds one."""
    look_through(source, items, damage)
    if damage and not _is_rest(items, damage):
        damage.refuse(rest=False)
    damage.tell()
    return [item for item in items if not damage.covers(item.origin)]


def _is_rest(items: Sequence[Item], damage: SourceDamage) -> bool:
    """Return whether something can be copied without what is damaged."""
    arrays = [item for item in items if isinstance(item.node, ArraySpec)]
    if all(damage.covers(item.origin) for item in arrays):
        return False
    one = len(items) > 1 and not items[0].whole and isinstance(items[1].node, ArraySpec)
    return not (one and damage.covers(arrays[0].origin))


def look_through(source: OpenDataset, items: Sequence[Item], damage: SourceDamage) -> None:
    """Read every chosen cell of every array, and note the first error of each that has one."""
    for item in items:
        if isinstance(item.node, ArraySpec) and item.picked is not None and not damage.covers(item.origin):
            try:
                _read(source.reader.chunks(item.origin), item.node, item.picked)
            except DAMAGE as error:
                damage.errors[item.origin] = error.locate(url=source.url, node=item.origin)


def _read(source: ChunkSource, spec: ArraySpec, picked: Picked) -> None:
    if 0 in picked.shape:
        return
    region = picked.region(tuple(slice(0, length) for length in picked.shape))
    chunks = (piece.coords for piece in make_plan(region, source.grid))
    each_batch(lambda coords: read_through(source, spec, coords, _SETTINGS), chunks, _SETTINGS.threads)


@contextmanager
def told_whole(source: OpenDataset, items: Sequence[Item]) -> Iterator[None]:
    """Where the block fails by damage of the source, look for more of it and raise an error that lists all."""
    try:
        yield
    except DAMAGE as error:
        _log.warning("stopped by damage; the whole source is read to list all of it: %s", error)
        damage = SourceDamage()
        look_through(source, items, damage)
        if damage:
            damage.refuse(rest=_is_rest(items, damage))
        raise
