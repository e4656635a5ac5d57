"""Arrays that are made together, in the layout of our own: all of them or none, for readers and after a kill."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hyperslab as hs
from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema
from hyperslab.errors import AlreadyExists
from programs import Program, side_by_side

SCHEMA = ArraySchema(
    [DimensionSchema("x", 2)], int, [AttributeSchema("k", int, True), AttributeSchema("b", int, False)]
)
SIZE = 40
LEFT = {"dangling-key", "leftover", "unsettled", "orphan", "missing-generation", "temporary", "unfinished-write"}
"""What a maker that died may leave."""
MAKER = f"""
import sys
from hyperslab.database import Client
with Client(sys.argv[1], durable=False) as client:
    collection = client.get_collection("c")
    print("ready", flush=True)
    for batch in range(int(sys.argv[2])):
        collection.create_many([{{"k": batch * {SIZE} + k, "b": batch}} for k in range({SIZE})])
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with Client(tmp_path / "store") as client:
        client.create_collection("c", SCHEMA)
    return tmp_path / "store"


@contextmanager
def _maker(place: Path, batches: int) -> Iterator[Program]:
    with side_by_side(MAKER, (place, batches)) as (process,):
        assert process.stdout.readline() == "ready\n"
        yield process


def test_readers_see_whole_batches(place):
    with Client(place, mode="r") as client, _maker(place, 12) as process:
        collection = client.get_collection("c")
        seen = set()
        while process.poll() is None:
            seen |= {len(collection), len(collection.query(b=(0, None))), len(client.get_collection("c"))}
        assert {count % SIZE for count in seen} == {0}
        assert process.poll() == 0 and len(collection) == 12 * SIZE
    assert not hs.check(place)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=pytest.mark.soak)])
def test_a_killed_maker_leaves_whole_batches(place, kills):
    pause = random.Random(16)
    for _ in range(kills):
        with _maker(place, 1000) as process:
            time.sleep(pause.uniform(0.01, 0.2))
            assert process.poll() is None
            process.kill()
            process.wait()
        assert {found.kind for found in hs.check(place)} <= LEFT  # read-only: it takes no locks
        with Client(place, durable=False) as client:
            collection = client.get_collection("c")
            assert len(collection) % SIZE == 0
            found = [array.primary_attributes["k"] for array in collection]
            assert all((collection.filter({"k": k}).first() is not None) == (k in found) for k in range(0, 400, 7))
            batch = len(collection) // SIZE
            again = [{"k": batch * SIZE + k, "b": batch} for k in range(SIZE)]
            collection.create_many(again)  # whose keys the dead one may have begun to take
            assert len(collection) == len(found) + SIZE
            with pytest.raises(AlreadyExists):
                collection.create_many(again[:2])
            collection.clear()
    hs.repair(place, dry_run=False)
    assert not hs.check(place)


def test_one_that_fails_leaves_nothing(place):
    with Client(place) as client:
        collection = client.get_collection("c")
        collection.create({"k": 3})
        for wrong in ([{"k": k} for k in range(5)], [{"k": 9}, {"k": 10}, {"k": 9}]):
            with pytest.raises(AlreadyExists):
                collection.create_many(wrong)
        assert [array.primary_attributes["k"] for array in collection] == [3]
        made = collection.create_many([{"k": 0}, {"k": 1}])
        made[0].delete()
        made[1].update_custom_attributes({"b": 4})
        assert collection.create({"k": 0}) == collection.first()
        assert [array.id for array in collection.query(b=4)] == [made[1].id]
    assert not hs.check(place, deep=True)


def test_a_key_that_leads_to_nothing_is_free(tmp_path: Path) -> None:
    """As a request leaves it that was done after the creation had failed, and was undone; cells without a document
    keep their key."""
    with Client(tmp_path) as client:
        schema = ArraySchema([DimensionSchema("x", 3)], int, [AttributeSchema("day", int, primary=True)])
        collection = client.create_collection("air", schema)
        gone, lost = collection.create({"day": 1}), collection.create({"day": 2})
        lost[:].update(5)
        folder = tmp_path / "collections" / "air" / "arrays"
        shutil.rmtree(folder / gone.id[:2] / gone.id)
        (folder / lost.id[:2] / lost.id / "zarr.json").unlink()
        made = collection.create({"day": 1})
        assert collection.get(day=1) == made != gone
        with pytest.raises(AlreadyExists):
            collection.create({"day": 2})
