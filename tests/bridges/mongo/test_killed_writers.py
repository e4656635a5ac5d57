"""SIGKILL of a writer before each command by which it changes objects, for every kind of change.

What is left is the old state or the new one, or an object that is said to be incomplete; both faces read the same; the
garbage can be told and removed without changing what is found; and the change made again gives what it should.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import xarray as xr
from pymongo import MongoClient

import hyperslab as hs
from hyperslab.errors import CorruptChunk, MissingChunks
from hyperslab.mongo import DocumentNotFoundError, XarrayMongoDB
from programs import forking

sys.path.insert(0, str(Path(__file__).parent))
from writers_to_kill import CHANGES, DATASETS, Change, State, Where, change_until_killed, put, save

if TYPE_CHECKING:
    from servers.mongo import Mongo

_PATIENCE = 60
_SIZE = 64
"""Bytes in a document: chunks are several."""
SHORT = ("replace", "update")


@pytest.fixture(params=["standalone", pytest.param("replica", marks=pytest.mark.soak)])
def server(request: pytest.FixtureRequest) -> Mongo:
    found: Mongo = request.getfixturevalue("mongo" if request.param == "standalone" else "mongo_replica")
    return found


@pytest.fixture
def database(server: Mongo) -> Iterator[str]:
    name = server.database()
    yield name
    with MongoClient[Any](server.url, directConnection=True) as client:
        client.drop_database(name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.soak) for name in CHANGES]
)
def test_a_killed_writer_leaves_the_old_or_the_new(server: Mongo, database: str, name: str) -> None:
    """Before every second command; the soak kills before each."""
    assert _kills(server, database, name, "compatible", reads=False, step=2) > 0


@pytest.mark.soak
@pytest.mark.parametrize("layout", ["compatible", "extended"])
@pytest.mark.parametrize("name", CHANGES)
def test_it_does_so_before_any_command(server: Mongo, database: str, name: str, layout: str) -> None:
    assert _kills(server, database, name, layout, reads=True) > 0


def _kills(server: Mongo, database: str, name: str, layout: str, *, reads: bool, step: int = 1) -> int:
    """Kill before each ``step``-th command of the change in turn; how many there were."""
    change, number = CHANGES[name], 0
    while True:
        where = Where(server.url, database, f"x{number}", layout, _SIZE)
        for object_, label in change.before.items():
            (save if change.face else put)(where, object_, label)
        if not _is_killed(name, where, number, reads):
            assert _seen(where, change) == change.after
            assert where.objects.check() == []
            return number
        _look_at_what_is_left(where, change, number)
        number += step


def _is_killed(name: str, where: Where, number: int, reads: bool) -> bool:
    writer = forking().Process(target=change_until_killed, args=(name, where, number, reads))
    writer.start()
    writer.join(_PATIENCE)
    assert writer.exitcode in (0, -signal.SIGKILL)
    return writer.exitcode != 0


def _look_at_what_is_left(where: Where, change: Change, number: int) -> None:
    found = _seen(where, change)
    assert found in (change.before, change.after, *change.between), (number, found)
    objects = where.objects
    _lapse(objects)
    list(hs.repair(where.url("").rstrip("#"), dry_run=False))
    assert _seen(where, change) == found, number
    objects.collect_garbage(age=0)
    assert _seen(where, change) == found, number
    assert [each for each in objects.check() if "?" not in found.values()] == [], number
    if found == change.before:
        change.act(where)
        assert _seen(where, change) == change.after, number
        assert objects.check() == []


def _lapse(objects: XarrayMongoDB) -> None:
    """As if the lease of the one that was killed, and its transaction, had run out."""
    objects.meta.database.client.admin.command("killAllSessions", [])
    held = {"hyperslab.lease": {"$exists": True}}
    objects.meta.update_many(held, {"$set": {"hyperslab.lease.until": datetime(2000, 1, 1)}})
    for doc in list(objects.meta.find({"hyperslab.undo": {"$exists": True}})):
        past = {f"hyperslab.undo.{place}.until": datetime(2000, 1, 1) for place in doc["hyperslab"]["undo"]}
        objects.meta.update_one({"_id": doc["_id"]}, {"$set": past})


def _seen(where: Where, change: Change) -> State:
    """What each name gives, by both faces alike."""
    objects = where.objects
    assert len(objects.list()) == len({info.name for info in objects.find()})
    return {info.name: _label(where, objects, info.id) for info in objects.find()}


def _label(where: Where, objects: XarrayMongoDB, key: Any) -> str:
    if not objects.is_complete(key):
        with pytest.raises((DocumentNotFoundError, MissingChunks, CorruptChunk)):
            objects.get(key, load=True)
        return "?"
    whole = objects.get(key, load=True)
    later = objects.get(key, load=False).compute(scheduler="sync")
    xr.testing.assert_identical(whole, later)
    with hs.open_group(where.url(str(key))) as root:
        xr.testing.assert_identical(root.to_xarray().load(), whole)
    return next(
        (label for label, each in DATASETS.items() if each.compute(scheduler="sync").identical(whole)), str(whole)
    )
