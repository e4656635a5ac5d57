"""A query is a document of at most 16 MiB: however many chunks are asked for, each one names no more than it may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pymongo.monitoring import CommandListener, CommandStartedEvent

import hyperslab as hs
from hyperslab.formats.mongo import chunk_queries

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo

MOST = 3
SIZES = {"chunk_size_bytes": 16, "embed_threshold_bytes": 0}
CELLS = np.arange(40.0)


class Longest(CommandListener):
    """How many values the longest ``$in`` or ``$or`` of any command had."""

    def __init__(self) -> None:
        self.count = 0

    def started(self, event: CommandStartedEvent) -> None:
        self._look(event.command)

    def _look(self, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                if name in ("$in", "$or") and isinstance(inner, list):
                    self.count = max(self.count, len(inner))
                self._look(inner)
        elif isinstance(value, list):
            for inner in value:
                self._look(inner)

    def succeeded(self, event: Any) -> None:
        """Nothing is done."""

    def failed(self, event: Any) -> None:
        """Nothing is done."""


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> Longest:
    """The limit is lowered."""
    monkeypatch.setattr(chunk_queries, "CHUNKS_PER_QUERY", MOST)
    return Longest()


@pytest.fixture
def root(mongo: Mongo, db: Database[Any], longest: Longest) -> Iterator[hs.Group]:
    """``x`` of ten chunks of two documents each, by a client that is listened to."""
    url = f"{mongo.url}/{db.name}#o"
    with hs.create(url, **SIZES) as root:
        root.create_array("x", data=CELLS, chunks=(4,), dims=("x",), fill_value=-1)
        for number in range(2 * MOST):
            root.create_array(f"v{number}", data=CELLS[:4], chunks=(4,), dims=("n",))
    with hs.open_group(url, "r+", storage_options={"event_listeners": [longest]}, **SIZES) as root:
        longest.count = 0
        yield root


def test_reads(root: hs.Group, longest: Longest) -> None:
    for _ in range(2):  # by keys, then by the ids that were learnt
        assert root["x"][:].tolist() == CELLS.tolist()
        assert root["x"][1::4].tolist() == CELLS[1::4].tolist()
    assert 1 < longest.count <= MOST


def test_sizes(root: hs.Group, longest: Longest) -> None:
    assert root["x"].plan().stored_nbytes == root["x"].nbytes_stored == CELLS.nbytes
    assert root["x"].plan(np.s_[3:13]).stored_nbytes == 4 * 32
    assert 1 < longest.count <= MOST


def test_writes_and_erasures(root: hs.Group, longest: Longest) -> None:
    array = root["x"]
    array[2:] = -CELLS[2:]
    assert array[:].tolist() == [0, 1, *(-CELLS[2:])]
    array.resize((6,))
    array.resize((40,))
    assert array[:].tolist() == [0, 1, -2, -3, -4, -5, *[-1] * 34]
    source = array.lazy[...].cells.source
    array[:] = CELLS
    source.erase_batch([(place,) for place in range(1, 10)])
    assert hs.open(array.url)["x"][:].tolist() == [*CELLS[:4], *[-1] * 36]
    assert 1 < longest.count <= MOST
