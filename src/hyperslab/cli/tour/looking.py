"""Open a dataset of the tour anew, read all of it and a labelled slice, and say what that took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab import api
from hyperslab.array import Array
from hyperslab.cli.collecting import collection_of, is_server
from hyperslab.cli.databases import open_objects
from hyperslab.cli.opening import selection_key
from hyperslab.cli.selection import parse_selections
from hyperslab.cli.tour.folders import Line, stored, tree
from hyperslab.cli.tour.steps import ARRAY, COLLECTION, IN_NWB, SLICE, SOURCE, Reading
from hyperslab.database import Client
from hyperslab.errors import CorruptChunk

_TIMES = 5

Values = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """What was found at a place: all cells, the slice, the best times of reading them, and what is stored.

    ``files``: of a folder or file; ``documents``: of a database, by their kind.
    """

    place: str
    whole: Values = field(repr=False)
    part: Values = field(repr=False)
    read_seconds: float
    slice_seconds: float
    nbytes: int
    files: int | None = None
    documents: dict[str, int] | None = None
    tree: tuple[Line, ...] = ()


def look(place: str, kind: Reading) -> Look:
    """The dataset at a place, read in the way of its kind."""
    read_seconds, whole = _timed(lambda: _WHOLE[kind](place))
    slice_seconds, part = _timed(_PART[kind](place))
    if is_server(place):
        totals = open_objects(place.partition("#")[0], None).totals()
        documents = {"objects": totals["objects"], "chunks": totals["chunk_documents"]}
        return Look(place, whole, part, read_seconds, slice_seconds, totals["nbytes"], documents=documents)
    path = Path(place)
    nbytes, files = stored(path)
    return Look(place, whole, part, read_seconds, slice_seconds, nbytes, files, tree=tuple(tree(path)))


def refuse_difference(found: Look, source: Look) -> None:
    """CorruptChunk unless all cells and the slice are those of the source, in their type and every bit."""
    for what, ours, theirs in (("slice", found.part, source.part), ("array", found.whole, source.whole)):
        same = ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.tobytes() == theirs.tobytes()
        if not same:
            raise CorruptChunk(f"the {what} differs from that of {source.place}", url=found.place, node=ARRAY)


def _timed(read: Callable[[], Values]) -> tuple[float, Values]:
    """The best of some times, and what was read."""
    best = float("inf")
    for _ in range(_TIMES):
        started = time.perf_counter()
        values = read()
        best = min(best, time.perf_counter() - started)
    return best, values


def _array(place: str) -> Array:
    return api.open_array(place, path=ARRAY)


def _key(array: Array) -> tuple[Any, ...]:
    return selection_key(array, parse_selections(SLICE))


def _dataset_part(place: str) -> Callable[[], Values]:
    def read() -> Values:
        array = _array(place)
        return np.asarray(array.oindex[_key(array)])

    return read


def _nwb_part(place: str) -> Callable[[], Values]:
    """By the positions that the labels have in the source, which are looked up before."""
    key = _key(_array(SOURCE))
    return lambda: np.asarray(api.open_array(place, path=IN_NWB).oindex[key])


def _decades(place: str) -> Values:
    with Client(place, mode="r") as client:
        return np.concatenate(
            [np.asarray(one[:].read()) for one in collection_of(client, COLLECTION).query(order="dt")]
        )


def _decade_part(place: str) -> Callable[[], Values]:
    def read() -> Values:
        with Client(place, mode="r") as client:
            last = collection_of(client, COLLECTION).query(dt="2090-01-01")[0]
            return np.asarray(last[:, 50.0, 260.625].read())

    return read


_WHOLE: dict[Reading, Callable[[str], Values]] = {
    "dataset": lambda place: np.asarray(_array(place)[...]),
    "nwb": lambda place: np.asarray(api.open_array(place, path=IN_NWB)[...]),
    "collection": _decades,
}
_PART: dict[Reading, Callable[[str], Callable[[], Values]]] = {
    "dataset": _dataset_part,
    "nwb": _nwb_part,
    "collection": _decade_part,
}
