"""The wait for the journal of the chunks of a new object: once at its end, or with each where one wait would not do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pymongo.monitoring import CommandListener

import hyperslab as hs
from hyperslab.formats.mongo import writer

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo

CELLS = np.arange(24.0).reshape(4, 6)


class ChunkWrites(CommandListener):
    """The write concerns of the commands that store chunks, in their order."""

    def __init__(self) -> None:
        self.concerns: list[tuple[Any, Any]] = []

    def started(self, event: Any) -> None:
        name = event.command_name
        if name in ("insert", "update") and event.command[name].endswith(".chunks"):
            concern = event.command.get("writeConcern", {})
            self.concerns.append((concern.get("w"), concern.get("j")))

    def succeeded(self, event: Any) -> None: ...

    def failed(self, event: Any) -> None: ...


@pytest.fixture
def writes() -> ChunkWrites:
    return ChunkWrites()


def convert(mongo: Mongo, db: Database[Any], folder: Path, writes: ChunkWrites) -> None:
    """Convert an array of several chunks into a new object, by a client that ``writes`` listens to."""
    with hs.create(folder / "x.zarr") as root:
        root.create_array("v", data=CELLS, chunks=(2, 3))
    place = f"{mongo.url}/{db.name}#x"
    hs.convert(folder / "x.zarr", place, storage_options=(None, {"event_listeners": [writes]}))
    np.testing.assert_array_equal(hs.open_group(place)["v"][...], CELLS)


def test_chunks_of_a_known_server_share_one_wait(
    mongo: Mongo, db: Database[Any], tmp_path: Path, writes: ChunkWrites
) -> None:
    convert(mongo, db, tmp_path, writes)
    assert {bool(journaled) for _, journaled in writes.concerns} == {False}


def test_each_chunk_waits_where_the_server_is_not_known(
    mongo: Mongo, db: Database[Any], tmp_path: Path, writes: ChunkWrites, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a router, whose wait at the end would be that of the server of the document alone."""
    monkeypatch.setattr(writer, "current_writer", lambda database: None)
    convert(mongo, db, tmp_path, writes)
    assert set(writes.concerns) == {("majority", True)}


def test_no_chunk_waits_that_is_not_to_be_durable(
    mongo: Mongo, db: Database[Any], writes: ChunkWrites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "current_writer", lambda database: None)
    options = {"event_listeners": [writes]}
    with hs.create(f"{mongo.url}/{db.name}#x", durable=False, storage_options=options) as root:
        root.create_array("v", data=CELLS, chunks=(2, 3))
    assert {bool(journaled) for _, journaled in writes.concerns} == {False}
