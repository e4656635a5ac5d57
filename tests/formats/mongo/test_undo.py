"""Changes of chunks that are taken back, and readers beside them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pymongo.monitoring import CommandListener

import hyperslab as hs
from hyperslab.errors import Conflict
from hyperslab.formats.mongo import chunk_queries, chunk_writes
from hyperslab.formats.mongo.chunk_writes import ChunkSwap, swap_chunks

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo

CELLS = np.arange(100.0)
KEY = ("v", (0,))


@pytest.fixture
def url(mongo: Mongo, db: Database[Any]) -> str:
    """An array of one chunk of seven documents."""
    found = f"{mongo.url}/{db.name}#a"
    with hs.create(found, chunk_size_bytes=128, embed_threshold_bytes=0) as root:
        root.create_array("v", data=CELLS, chunks=(100,), dims=("x",))
    return found


class Changes(CommandListener):
    """The commands upon chunks that were sent."""

    def __init__(self) -> None:
        self.of_chunks: list[Any] = []

    def started(self, event: Any) -> None:
        if event.command.get(event.command_name) == "xarray.chunks":
            self.of_chunks.append(event.command)

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


def changes(db: Database[Any], url: str) -> chunk_writes.ChunkUndo:
    meta, chunks = db["xarray.meta"], db["xarray.chunks"]
    key = meta.find_one({"name": "a"})["_id"]
    return chunk_writes.ChunkUndo(meta=meta, chunks=chunks, meta_id=key, url=url, patience=0)


def tear(db: Database[Any], url: str) -> chunk_writes.ChunkUndo:
    """As a writer leaves a chunk who was killed while changing it."""
    broken = changes(db, url)
    broken._begin(KEY)
    broken.chunks.update_one({"meta_id": broken.meta_id, "n": 2}, {"$set": {"data": bytes(128)}})
    broken.chunks.delete_one({"meta_id": broken.meta_id, "n": 5})
    return broken


def test_a_reader_takes_the_copies_and_a_roll_back_the_documents_as_they_were(db: Database[Any], url: str) -> None:
    before = list(db["xarray.chunks"].find().sort("n"))
    broken = tear(db, url)
    np.testing.assert_array_equal(hs.open_group(url)["v"][...], CELLS)
    with pytest.raises(Conflict):
        broken.wait_until_free([KEY])
    place = next(iter(db["xarray.meta"].find_one({"name": "a"})["hyperslab"]["undo"]))
    past = {f"hyperslab.undo.{place}.until": datetime(2000, 1, 1)}
    db["xarray.meta"].update_one({"_id": broken.meta_id}, {"$set": past})
    broken.wait_until_free([KEY])
    assert list(db["xarray.chunks"].find().sort("n")) == before
    assert "undo" not in db["xarray.meta"].find_one({"name": "a"})["hyperslab"]


def test_a_roll_back_names_the_object_in_each_change_of_chunks(db: Database[Any], url: str) -> None:
    """A router (mongos) takes no document in the place of another by its id alone."""
    broken = tear(db, url)
    place = next(iter(db["xarray.meta"].find_one({"name": "a"})["hyperslab"]["undo"]))
    past = {f"hyperslab.undo.{place}.until": datetime(2000, 1, 1)}
    db["xarray.meta"].update_one({"_id": broken.meta_id}, {"$set": past})
    changes = Changes()
    with hs.open_group(url, "r+", storage_options={"event_listeners": [changes]}) as root:
        np.testing.assert_array_equal(root["v"][...], CELLS)
    replaced = [each["q"] for command in changes.of_chunks for each in command.get("updates", ())]
    assert len(replaced) == 7
    assert all(query["meta_id"] == broken.meta_id for query in replaced)


def test_a_reader_that_finds_the_copies_gone_reads_the_chunk_from_its_place(db: Database[Any], url: str) -> None:
    other = changes(db, url)
    entry = other._begin(KEY)
    with hs.open_group(url) as root:
        array = root["v"]
        np.testing.assert_array_equal(array[...], CELLS)
        db["xarray.chunks"].update_one({"meta_id": other.meta_id, "n": 0}, {"$set": {"data": bytes(128)}})
        np.testing.assert_array_equal(array[...], CELLS)
        other._end(entry)
        np.testing.assert_array_equal(array[...], np.where(np.arange(100) < 16, 0, CELLS))


def test_a_change_that_fails_is_taken_back(db: Database[Any], url: str) -> None:
    before = list(db["xarray.chunks"].find().sort("n"))
    with pytest.raises(ZeroDivisionError), changes(db, url).undoable_change(KEY) as mark:
        mark.changed = True
        db["xarray.chunks"].delete_one({"n": 3})
        raise ZeroDivisionError
    assert list(db["xarray.chunks"].find().sort("n")) == before


class Beaten(chunk_writes.ChunkUndo):
    """Of a writer who has looked that nobody changes the chunk; then ``other`` begins."""

    other: Any
    change: Any = None

    def wait_until_free(self, keys: Any = ()) -> int | None:
        version = super().wait_until_free(keys)
        if self.change is None:
            self.change = self.other.undoable_change(KEY)
            self.change.__enter__().changed = True
        return version


def test_a_change_of_one_document_is_not_lost_with_one_that_another_takes_back(db: Database[Any], url: str) -> None:
    """Whose copies are older: the writer is told, and does it again."""
    first, other = changes(db, url), changes(db, url)
    mine = Beaten(meta=first.meta, chunks=first.chunks, meta_id=first.meta_id, url=url, patience=0)
    mine.other = other
    doc = first.chunks.find_one({"meta_id": first.meta_id, "n": 0}) | {"data": bytes(128)}
    segments = chunk_queries.fetch_segments(first.chunks, first.meta_id, "v", [(0,)])[(0,)]
    rest = list(first.chunks.find({"meta_id": first.meta_id, "n": {"$gt": 0}}).sort("n"))
    with pytest.raises(Conflict):
        swap_chunks(first.chunks, first.meta_id, [ChunkSwap(KEY, [doc, *rest], segments)], url, mine)
    assert not mine.change.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    np.testing.assert_array_equal(hs.open_group(url)["v"][...], CELLS)
    with hs.open_group(url, "r+") as root:
        root["v"][0] = 7.0
        assert root["v"][0] == 7.0
