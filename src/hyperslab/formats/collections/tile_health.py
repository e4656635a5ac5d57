"""What writers over several tiles left who died, and journals that are damaged; with what mends each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, StorageError
from hyperslab.formats.collections.tile_transaction import TileTransaction
from hyperslab.formats.collections.tiles import Tiles


@dataclass(frozen=True, slots=True)
class TileLeftover:
    """One finding: a stable ``kind``, a ``message`` for people, the ``key`` that it is about, what mends it in words
    and as a call."""

    kind: str
    message: str
    key: str
    remedy: str
    act: Callable[[], None]


def leftovers(source: ChunkSource) -> Iterator[TileLeftover]:
    """Those of one array; it is read as it should be meanwhile, but for a damaged journal."""
    if not isinstance(source, Tiles):
        return
    switch = source.switch
    try:
        _, last = switch.journal.look()
    except (FormatError, StorageError) as error:
        message = f"the journal of writes over several tiles is damaged: {error.message}"
        remedy = "remove it; a write whose tiles are not all in their places stays in parts"
        yield TileLeftover("journal", message, switch.journal.key, remedy, partial(_forget, switch))
        return
    tidy = partial(_tidy, switch)
    if last is not None and last.pending:
        message = "a writer died, or is at work, before all tiles of its write were in their places"
        yield TileLeftover("unsettled", message, switch.journal.key, "put them there", tidy)
    pending = last.txn if last is not None and last.pending else None
    names, _ = switch.keys.store.list_dir(switch.aside)
    if any(name.partition(".")[0] != pending for name in names):
        message = "a writer died, or is at work, before its write over several tiles counted"
        yield TileLeftover("leftover", message, switch.aside, "remove what it left", tidy)


def _forget(switch: TileTransaction) -> None:
    with switch.alone(switch.keys.settings.lock_timeout):
        switch.journal.forget()


def _tidy(switch: TileTransaction) -> None:
    with switch.held((), switch.keys.settings.lock_timeout, several=True):
        switch.sweep()
