"""Boxes over the workers of a dask.distributed cluster.

A task carries the places (URL and options without secrets), what is picked of the array, and one box: never an open
file, a store or a password. Each worker process opens both sides once per conversion and array.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from hyperslab.array.origin import DatasetRef
from hyperslab.array.session import OpenDataset
from hyperslab.bridges.cluster import each_task, on_every_worker
from hyperslab.chunks.boxes import Box
from hyperslab.chunks.settings import Settings
from hyperslab.conversion.columns import OfColumn
from hyperslab.conversion.copying import ArrayCopy
from hyperslab.conversion.fingerprint import installed
from hyperslab.conversion.job import CopyProgress, copy_arrays
from hyperslab.conversion.journal import ConversionJournal
from hyperslab.conversion.opening import open_session
from hyperslab.conversion.raw_chunk_copy import copy_box
from hyperslab.conversion.selecting import Picked
from hyperslab.conversion.staged_target import StagedTarget
from hyperslab.conversion.unpublished import Unpublished, unsealed
from hyperslab.errors import FormatError, NodeNotFound, Unsupported
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.keys import UNFINISHED
from hyperslab.stores.location import Location

SETTINGS = Settings(workers=1, cache_bytes=0, durable=True)
_MOST_OPEN = 8


@dataclass(frozen=True, eq=False)
class Errand:
    """What a worker needs to copy boxes of one array: ``name`` is the same for all errands of one conversion and array.

    ``held``: the target's documents are held back, see :mod:`hyperslab.conversion.unpublished`.
    """

    name: str
    source: Location
    target: Location
    held: bool
    format: str
    path: str
    origin: str
    picked: Picked
    memory: int
    version: str = field(default_factory=installed)


def refuse_unreachable(source: Location, target: Location, *, together: bool) -> None:
    """Raise unless workers in other processes can open both sides, without secrets that only the caller has, and write
    the target ``together``: Unsupported, Invalid."""
    for where in (source, target):
        if where.scheme in ("memory", "store"):
            remedy = "name both sides by paths or URLs that the workers reach"
            raise Unsupported("workers cannot open what lies in this process", url=where.url, remedy=remedy)
        DatasetRef(where, "", "r", SETTINGS).__reduce__()  # Invalid where secrets would have to be sent
    if not together or target.scheme == "zip":
        remedy = "convert to a Zarr folder by the workers, then that one here"
        message = "several processes cannot write a new dataset of this kind together"
        raise Unsupported(message, url=target.url, remedy=remedy)


def spread(
    client: Any, copies: Sequence[ArrayCopy], tally: CopyProgress, source: Location, site: StagedTarget, format: str
) -> None:
    """Copy all boxes that are not done by the workers of ``client``; here references and columns."""
    name = f"hyperslab-{id(tally):x}-{client.id}"
    try:
        for copy in copies:
            if copy.refers or isinstance(copy.source, OfColumn):
                copy_arrays([copy], tally, SETTINGS)
                continue
            copy.threads(1)  # MemoryLimit before anything is sent
            sides = (source, site.where, site.held, format)
            errand = Errand(f"{name}/{copy.path}", *sides, copy.path, copy.origin, copy.picked, copy.memory)
            skip = tally.skip(copy)
            left = (numbered for numbered in copy.boxes() if skip is None or not skip.flat[numbered[0]])
            tasks = (((errand, box), (copy, number, box)) for number, box in left)
            each_task(client, run_errand, tasks, lambda done: tally(*done))
    finally:
        on_every_worker(client, let_go, name)


# -- on the workers ---------------------------------------------------------------------------------------------------


class _Open:
    """Both sides of an errand, open; as many boxes at once as the memory allows. Closed when it is ``retired`` and the
    last box that uses it is done."""

    def __init__(self, errand: Errand) -> None:
        if errand.version != installed():
            remedy = "install the same version everywhere"
            raise Unsupported(f"hyperslab {installed()} on a worker, {errand.version} at the client", remedy=remedy)
        self._users = 0
        self._retired = False
        with ExitStack() as readers:
            sessions: list[OpenDataset] = []
            for side in (_open_source, _open_target):
                sessions.append(side(errand))
                readers.callback(sessions[-1].reader.close)
            places = tuple(zip(sessions, (errand.origin, errand.path), strict=True))
            specs = [_array(session, place) for session, place in places]
            chunks = [session.reader.chunks(place) for session, place in places]
            ends = (chunks[0], specs[0], chunks[1], specs[1])
            self.copy = ArrayCopy(errand.path, errand.picked, *ends, errand.memory, errand.origin)
            self.room = threading.BoundedSemaphore(self.copy.threads(1 << 16))
            self._readers = readers.pop_all()

    def enter(self) -> None:
        """One more box uses it."""
        self._users += 1

    def leave(self) -> None:
        """A box is done."""
        self._users -= 1
        self._close_unused()

    def retire(self) -> None:
        """No other box will use it."""
        self._retired = True
        self._close_unused()

    def _close_unused(self) -> None:
        if self._retired and not self._users:
            with suppress(NodeNotFound):
                self._readers.close()


def _open_source(errand: Errand) -> OpenDataset:
    return open_session(errand.source)


def _open_target(errand: Errand) -> OpenDataset:
    place: Any = errand.target
    if errand.held:
        store = errand.target.store(read_only=False)
        place = Unpublished(store, unsealed(ConversionJournal(store, UNFINISHED).documents()))
    return open_session(place, mode="r+", format=errand.format)


def _array(session: OpenDataset, path: str) -> ArraySpec:
    spec = session.reader.node(path)
    if not isinstance(spec, ArraySpec):
        raise FormatError("this is no array any more", url=session.url, node=path)
    return spec


_open: OrderedDict[str, _Open] = OrderedDict()
_turn = threading.Lock()


def run_errand(errand: Errand, box: Box) -> None:
    """Copy one box, on a worker."""
    with _sides_of(errand) as sides, sides.room:
        copy_box(sides.copy, box, SETTINGS)


@contextmanager
def _sides_of(errand: Errand) -> Iterator[_Open]:
    """Both sides of an errand, for one box; those that were not used for the longest time are closed."""
    with _turn:
        if errand.name not in _open:
            _open[errand.name] = _Open(errand)
        _open.move_to_end(errand.name)
        sides = _open[errand.name]
        sides.enter()
        while len(_open) > _MOST_OPEN:
            _open.popitem(last=False)[1].retire()
    try:
        yield sides
    finally:
        with _turn:
            sides.leave()


def let_go(name: str) -> None:
    """Close what a conversion left open on a worker."""
    with _turn:
        for known in [known for known in _open if known.startswith(name)]:
            _open.pop(known).retire()
