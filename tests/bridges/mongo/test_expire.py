"""Retention: objects go by age and by number with all their chunks, others stay; a killed run tears nothing."""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from bson import ObjectId
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.monitoring import CommandListener

from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.errors import Invalid
from hyperslab.formats.mongo.retention import expire_objects
from hyperslab.mongo import XarrayMongoDB
from programs import forking

sys.path.insert(0, str(Path(__file__).parents[2]))
from servers.mongo import Mongo, watched_work

DAY = timedelta(days=1)


def put(xdb: XarrayMongoDB, name: str | None, age: timedelta, **attrs: Any) -> ObjectId:
    """Store an object as if it had been made so long ago; several may have one name."""
    made = ObjectId(int((datetime.now(UTC) - age).timestamp()).to_bytes(4, "big") + os.urandom(8))
    cells = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("y", "x"), name=name, attrs=attrs).chunk({"y": 1})
    id, future = xdb.put(cells, _id=made)
    future.compute(scheduler="sync")
    return id


def names(xdb: XarrayMongoDB) -> list[Any]:
    return [info.name for info in xdb.list()]


def owners(xdb: XarrayMongoDB) -> set[ObjectId]:
    """The objects that chunks belong to."""
    return set(xdb.chunks.distinct("meta_id"))


@pytest.fixture
def kept(xdb: XarrayMongoDB) -> XarrayMongoDB:
    """Three of the name a, two of the name b, one without a name."""
    for name, days in (("a", 30), ("b", 25), ("a", 20), (None, 15), ("a", 10), ("b", 5)):
        put(xdb, name, days * DAY, days=days)
    return xdb


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ({"older_than": 12 * DAY}, [10, 5]),
        ({"older_than": (12 * DAY).total_seconds()}, [10, 5]),
        ({"older_than": 100 * DAY}, [30, 25, 20, 15, 10, 5]),
        ({"keep_newest": 1}, [15, 10, 5]),
        ({"keep_newest": 2}, [25, 20, 15, 10, 5]),
        ({"keep_newest": 1, "older_than": 22 * DAY}, [20, 15, 10, 5]),
        ({"keep_newest": 2, "older_than": 12 * DAY}, [25, 20, 10, 5]),
        ({"keep_newest": 1, "name": "a"}, [25, 15, 10, 5]),
        ({"older_than": 12 * DAY, "attrs": {"days": slice(20, None)}}, [15, 10, 5]),
    ],
)
def test_what_goes(kept: XarrayMongoDB, how: dict[str, Any], left: list[int]) -> None:
    told = kept.expire(dry_run=True, **how)
    assert len(kept.list()) == 6
    gone = kept.expire(**how)
    assert sorted(info.id for info in told) == sorted(info.id for info in gone)
    assert [info.attrs["days"] for info in kept.list()] == left
    assert owners(kept) == {info.id for info in kept.list()}
    assert kept.expire(**how) == []
    assert kept.check() == []


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"older_than": -1},
        {"older_than": -DAY},
        {"older_than": float("nan")},
        {"keep_newest": 0},
        {"keep_newest": True},
        {"keep_newest": 1.5},
        {"name": "a"},
    ],
)
def test_what_says_not_which(kept: XarrayMongoDB, how: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        kept.expire(**how)
    assert len(kept.list()) == 6


def test_an_object_that_is_being_made_or_was_replaced_is_not_its_own(kept: XarrayMongoDB) -> None:
    id = put(kept, "new", 40 * DAY)
    kept.meta.update_one({"_id": id}, {"$set": {"hyperslab": {"status": "writing"}}})
    kept.expire(older_than=DAY)
    assert kept.meta.find_one({"_id": id}) is not None
    kept.collect_garbage(age=0)
    assert owners(kept) == set()


def test_the_server_reads_what_goes_and_no_more(xdb: XarrayMongoDB, database: Database[Any]) -> None:
    id = put(xdb, "a", 50 * DAY)
    document = xdb.meta.find_one(id)
    assert document is not None
    xdb.meta.insert_many([{**document, "_id": ObjectId(), "name": f"n{number}"} for number in range(300)])
    with watched_work(database, xdb.meta.name) as work:
        assert len(xdb.expire(until=datetime.now(UTC) - 40 * DAY)) == 1
    assert sum(one.documents for one in work) < 20
    assert not [one for one in work if one.sorts or "COLLSCAN" in one.plan]


class Killer(CommandListener):
    """Ends this process before it removes the first chunk of the second object."""

    def __init__(self) -> None:
        self.deletions = 0

    def started(self, event: Any) -> None:
        if event.command_name == "delete":
            self.deletions += 1
            if self.deletions == 2:
                os.kill(os.getpid(), signal.SIGKILL)

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


def expire_until_killed(url: str, database: str) -> None:
    with MongoClient[Any](url, event_listeners=[Killer()]) as client:
        XarrayMongoDB(client[database]).expire(older_than=12 * DAY)


def test_a_killed_run_leaves_objects_whole_and_garbage_that_is_found(mongo: Mongo, database: Database[Any]) -> None:
    xdb = XarrayMongoDB(database, layout="extended")
    for days in (30, 25, 20, 5):
        put(xdb, f"d{days}", days * DAY)
    process = forking().Process(target=expire_until_killed, args=(mongo.url, database.name))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert names(xdb) == ["d20", "d5"]
    for info in xdb.list():
        assert xdb.get(info.id, load=True).shape == (2, 3)
    assert len(owners(xdb)) == 3  # chunks of the second lie there still
    assert [info.name for info in xdb.expire(older_than=12 * DAY)] == ["d20"]
    assert [orphan.kind for orphan in xdb.collect_garbage().orphans] == ["no-object"]
    assert owners(xdb) == {xdb.list()[0].id}


def test_what_is_changed_meanwhile_is_looked_at_again(kept: XarrayMongoDB) -> None:
    expired = expire_objects(kept.meta, kept.chunks, {"days": slice(20, None)}, older_than=DAY)
    assert next(expired).attrs == {"days": 30}
    changed = kept.find({"days": 25})
    kept.meta.update_one({"_id": next(changed).id}, {"$set": {"attrs.days": 0}})
    assert [info.attrs for info in expired] == [{"days": 20}]
    assert [info.attrs["days"] for info in kept.list()] == [0, 15, 10, 5]


def test_the_command(kept: XarrayMongoDB, mongo: Mongo, database: Database[Any]) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["db", "expire", f"{mongo.url}/{database.name}", *arguments])

    told = run("--older-than", "12d", "--keep-newest", "1", "--dry-run")
    assert (told.exit_code, len(told.stdout.splitlines())) == (0, 5), told.output
    assert "nothing was removed" in told.stderr
    assert len(kept.list()) == 6
    gone = json.loads(run("--older-than", "2w", "--attr", "days=15", "--json").stdout)
    assert (gone["applied"], [one["attrs"]["days"] for one in gone["objects"]]) == (True, [15])
    assert run("--older-than", "288h", "--keep-newest", "1").exit_code == 0
    assert [info.attrs["days"] for info in kept.list()] == [10, 5]
    for wrong in ([], ["--older-than", "soon"], ["--older-than", "1x"], ["--older-than", "-1"], ["--keep-newest", "0"]):
        assert run(*wrong).exit_code == 2
    assert len(kept.list()) == 2
    assert run("--older-than", "52w").stderr.strip() == "nothing to remove"


def test_as_a_coroutine(kept: XarrayMongoDB, mongo: Mongo, database: Database[Any]) -> None:
    import asyncio

    from pymongo import AsyncMongoClient

    from hyperslab.mongo import XarrayMongoDBAsyncIO

    async def expire() -> int:
        async with AsyncMongoClient[Any](mongo.url) as client:
            return len(await XarrayMongoDBAsyncIO(client[database.name]).expire(keep_newest=1))

    assert asyncio.run(expire()) == 3
