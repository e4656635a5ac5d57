"""Arrays in several tiles for the tests, and stores that let something happen between their operations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.array.session import OpenDataset
from hyperslab.chunks.cache import BlockCache
from hyperslab.chunks.settings import Settings
from hyperslab.formats import get_format
from hyperslab.formats.collections.own.tiles import open_tiles
from hyperslab.formats.zarr.writer import ZarrWriter
from hyperslab.formats.zarr3.document import Zarr3
from hyperslab.model.spec import ArraySpec

JOURNAL, ASIDE = "journal/x", "staged/x"


class TiledWriter(ZarrWriter):
    """Zarr v3 whose arrays have tiles: a stand-in for collections."""

    def chunks_as(self, path: str, spec: ArraySpec) -> Any:
        return open_tiles(self.store, path, spec, self._settings, journal_key=JOURNAL, staged_folder=ASIDE)


def opened(store: Any, **options: Any) -> Array:
    """The array that :func:`made` made, opened anew."""
    settings = Settings(**({"durable": False, "lock_timeout": 5.0, "cache_bytes": 1 << 20} | options))
    writer = TiledWriter(store, Zarr3(), settings)
    session = OpenDataset(writer, get_format("zarr3"), store.url, True, settings, BlockCache(settings.cache_bytes))
    return Array(session, "a", session.array("a"))


def made(
    store: Any,
    shape: tuple[int, ...] = (8, 8),
    tile: tuple[int, ...] = (4, 4),
    chunk: tuple[int, ...] = (2, 2),
    fill: Any = 0,
    **options: Any,
) -> Array:
    """An array of int32 in such tiles."""
    writer = TiledWriter(store, Zarr3(), Settings(durable=False))
    wish = ArraySpec(shape=shape, dtype=np.dtype("<i4"), chunks=chunk, fill_value=fill, layout={"shards": tile})
    writer.put("a", writer.new_array(wish))
    return opened(store, **options)


def tiles_of(store: Any) -> list[str]:
    """The keys of the tiles that are there."""
    return sorted(key for key in store.list("a") if not key.endswith("zarr.json"))


def aside(store: Any) -> list[str]:
    """What lies aside."""
    return list(store.list(ASIDE))


class Killed(BaseException):
    """The writer died."""


_READS = (
    "get",
    "get_into",
    "get_ranges",
    "get_ranges_of",
    "get_version",
    "size",
    "stamp",
    "list",
    "list_dir",
    "strays",
)
_WRITES = ("put", "put_many", "put_if", "put_new", "delete", "delete_prefix", "lock_chunks", "lock_node")


class Between:
    """A store that calls ``hook(operation, key)`` before each of its operations; of a move before each value."""

    def __init__(self, store: Any, hook: Callable[[str, str], None]) -> None:
        self.store = store
        self.hook = hook

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.store, name)
        if name == "open_folder":  # the engine in C would read past the hook
            return lambda folder: None
        if name == "move":
            return self._move
        if name == "put_many":
            return self._put_many
        if name not in _READS + _WRITES:
            return real

        def call(*arguments: Any, **options: Any) -> Any:
            self.hook(name, str(arguments[0]))
            return real(*arguments, **options)

        return call

    def _move(self, pairs: Any, *, durable: bool = False) -> None:
        for pair in pairs:
            self.hook("move", pair[0])
            self.store.move([pair], durable=durable)

    def _put_many(self, pairs: Any, *, durable: bool = False) -> None:
        for key, value in pairs:
            self.hook("put", key)
            self.store.put(key, value, durable=durable)


class Stopper:
    """A hook that counts, and at the n-th operation does something once."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.at = at
        self.act = act
        self.count = 0

    def __call__(self, operation: str, key: str) -> None:
        self.count += 1
        if self.count == self.at:
            self.act()


class Mortal:
    """A hook that lets its store die at the n-th operation: nothing of what comes after is done."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0

    def __call__(self, operation: str, key: str) -> None:
        self.count += 1
        if self.count >= self.at:
            raise Killed

    @property
    def died(self) -> bool:
        """Whether it came so far."""
        return self.count >= self.at


def dies(at: int, store: Any, change: Callable[[Array], None]) -> bool:
    """Whether a writer dies at its n-th operation; else it did what it was to do."""
    mortal = Mortal(at)
    with suppress(Killed):
        change(opened(Between(store, mortal), workers=1))
    return mortal.died
