"""SIGKILL of mongod during puts: what was acknowledged is there to the bit; nothing incomplete is read as whole.

Threads put arrays of NumPy and of dask in both layouts, and save under the one face; the server is killed while they
do, and comes back with its data. Of what was not acknowledged an object is whole, or not there, or said to be
incomplete, and is whole once it is resumed.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from bson import ObjectId
from pymongo import MongoClient
from pymongo.errors import PyMongoError

import hyperslab as hs
from hyperslab.errors import CorruptChunk, MissingChunks, NotFound, StorageError
from hyperslab.mongo import DocumentNotFoundError, XarrayMongoDB

sys.path.insert(0, str(Path(__file__).parents[1]))
from servers.mongo import running_mongod

DATABASE = "killed"
SHORT = "serverSelectionTimeoutMS=400&connectTimeoutMS=400"
LAYOUTS: tuple[Any, ...] = ("compatible", "extended")
COLLECTIONS = ("compatible", "extended", "face")
WRITERS = 3


def dataset(number: int) -> xr.Dataset:
    """Other cells for each number, which stands in the attributes."""
    random_ = np.random.default_rng(number)
    return xr.Dataset(
        {"grid": (("y", "x"), random_.standard_normal((48, 40))), "line": ("z", random_.integers(0, 9, 6000))},
        {"x": np.arange(40) + number},
        {"number": number},
    )


@dataclass
class Attempt:
    """One put: what of, how, and how it went."""

    number: int
    how: str
    lazy: bool
    key: Any = None
    acknowledged: bool = False

    @property
    def wanted(self) -> xr.Dataset:
        """What it is to be read as."""
        return dataset(self.number)

    @property
    def given(self) -> xr.Dataset:
        """What is put."""
        return self.wanted.chunk({"y": 16, "x": 10, "z": 1000}) if self.lazy else self.wanted


@dataclass
class Campaign:
    """All attempts of all rounds, and what became of those that were not acknowledged."""

    url: str
    attempts: list[Attempt] = field(default_factory=list)
    fates: Counter[str] = field(default_factory=Counter)
    surprises: list[BaseException] = field(default_factory=list)

    def objects(self, client: MongoClient[Any], how: str) -> XarrayMongoDB:
        """The objects of a layout."""
        return XarrayMongoDB(client[DATABASE], how, layout=how, chunk_size_bytes=1000, embed_threshold_bytes=400)

    def place(self, name: str, patience: str = "") -> str:
        """The URL of an object under the one face."""
        return f"{self.url}/{DATABASE}?collection=face{patience}#{name}"

    # -- writing --------------------------------------------------------------------------------------------------

    def write_until_it_is_gone(self, seed: int) -> None:
        """Put one object after the other, until the server does not answer."""
        chance = random.Random(seed)
        with MongoClient[Any](f"{self.url}/?{SHORT}") as client:
            for number in range(seed * 1000, seed * 1000 + 1000):
                attempt = Attempt(number, chance.choice(COLLECTIONS), chance.random() < 0.6)
                self.attempts.append(attempt)
                try:
                    self.put(attempt, client, chance)
                except (PyMongoError, StorageError):
                    return
                except BaseException as error:
                    self.surprises.append(error)
                    raise
                attempt.acknowledged = True

    def put(self, attempt: Attempt, client: MongoClient[Any], chance: random.Random) -> None:
        """One object, to its end."""
        if attempt.how == "face":
            hs.save(self.place(f"n{attempt.number}", f"&{SHORT}"), attempt.given)
            return
        chosen = chance.choice([{}, {"_id": ObjectId()}])
        attempt.key = chosen.get("_id")
        attempt.key, future = self.objects(client, attempt.how).put(attempt.given, **chosen)
        if future is not None:
            with ThreadPoolExecutor(2) as pool:  # at its end no task is at work any more, dask would not wait
                future.compute(scheduler=chance.choice(["sync", "threads"]), pool=pool)

    # -- reading --------------------------------------------------------------------------------------------------

    def check(self, attempts: list[Attempt]) -> None:
        """What became of these."""
        with MongoClient[Any](self.url) as client:
            for attempt in attempts:
                fate = self.fate_in_face(attempt) if attempt.how == "face" else self.fate(attempt, client)
                assert fate == "whole" or not attempt.acknowledged, (attempt, fate)
                if not attempt.acknowledged:
                    self.fates[f"{attempt.how}: {fate}"] += 1
            for how in COLLECTIONS:
                assert doubles(client, how) == []

    def fate_in_face(self, attempt: Attempt) -> str:
        """It has its name when it is whole, not before; saving it once more makes it whole."""
        place = self.place(f"n{attempt.number}")
        try:
            hs.open(place).close()
        except NotFound:
            hs.save(place, attempt.given)
            fate = "absent"
        else:
            fate = "whole"
        xr.testing.assert_identical(hs.open_group(place).to_xarray().load(), attempt.wanted)
        return fate

    def fate(self, attempt: Attempt, client: MongoClient[Any]) -> str:
        """Whether it is whole as it was found; it is afterwards."""
        objects = self.objects(client, attempt.how)
        if attempt.key is None:  # the id that was chosen is not known
            attempt.key = next((info.id for info in objects.find({"number": attempt.number})), None)
            if attempt.key is None:
                return "absent"
        fate = found_as(objects, attempt.key, attempt.wanted)
        if fate != "whole":
            future = objects.resume(attempt.key, attempt.given)
            if future is not None:
                future.compute(scheduler="sync")
            assert found_as(objects, attempt.key, attempt.wanted) == "whole"
        return fate


def found_as(objects: XarrayMongoDB, key: ObjectId, wanted: xr.Dataset) -> str:
    """``whole``, ``incomplete`` or ``absent``: what ``is_complete`` says, and reading at once and later must agree."""
    try:
        complete = objects.is_complete(key)
    except DocumentNotFoundError:
        with pytest.raises(DocumentNotFoundError):
            objects.get(key)
        return "absent"
    if complete:
        for load in (True, None, False):
            xr.testing.assert_identical(objects.get(key, load=load).compute(scheduler="sync"), wanted)
        return "whole"
    for load in (True, None, False):
        with pytest.raises((DocumentNotFoundError, MissingChunks, CorruptChunk)):
            objects.get(key, load=load).compute(scheduler="sync")
    return "incomplete"


def doubles(client: MongoClient[Any], how: str) -> list[Any]:
    """Segments that are stored more than once."""
    key = {name: f"${name}" for name in ("meta_id", "name", "chunk", "n")}
    pipeline: list[dict[str, Any]] = [{"$group": {"_id": key, "times": {"$sum": 1}}}, {"$match": {"times": {"$gt": 1}}}]
    return list(client[DATABASE][f"{how}.chunks"].aggregate(pipeline))


def run(folder: Path, kills: int, seed: int) -> Campaign:
    """Kill the server so often; when it is back, look after what was written since the time before."""
    chance = random.Random(seed)
    campaign, port, first = Campaign(""), None, 0
    for round_ in range(kills):
        with running_mongod(dbpath=folder, port=port) as server:
            campaign.url, port = server.url, server.port
            campaign.check(campaign.attempts[first:])
            first = len(campaign.attempts)
            threads = [
                threading.Thread(target=campaign.write_until_it_is_gone, args=(seed + round_ * WRITERS + writer,))
                for writer in range(WRITERS)
            ]
            for thread in threads:
                thread.start()
            time.sleep(chance.uniform(0.2, 2.0 if kills > 2 else 0.8))
            server.kill()
            for thread in threads:
                thread.join()
        assert campaign.surprises == []
    with running_mongod(dbpath=folder, port=port):
        campaign.check(campaign.attempts[first:])
        fates = campaign.fates.copy()
        campaign.check(campaign.attempts)
    return replace(campaign, fates=fates)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.soak)])
def test_what_was_acknowledged_is_there_and_nothing_incomplete_is_whole(tmp_path: Path, kills: int) -> None:
    campaign = run(tmp_path, kills, seed=1)
    acknowledged = sum(attempt.acknowledged for attempt in campaign.attempts)
    print(f"{kills} kills: {acknowledged} of {len(campaign.attempts)} acknowledged; of others {dict(campaign.fates)}")
    assert acknowledged > kills
    assert len(campaign.attempts) - acknowledged >= kills


# -- changes of what is there -----------------------------------------------------------------------------------------


class Growing:
    """An object of rows: row ``n`` holds ``n`` everywhere, and the first one the number of changes."""

    def __init__(self, objects: XarrayMongoDB) -> None:
        self.objects = objects
        self.key, _ = objects.put(self.rows(0, 2))
        self.appended = self.updated = 0
        self.surprises: list[BaseException] = []

    def rows(self, *numbers: int) -> xr.Dataset:
        """Rows of these numbers, more of them than a document holds."""
        cells = np.repeat(np.array(numbers, "f8"), 100).reshape(-1, 100)
        return xr.Dataset({"v": (("y", "x"), cells)})

    def change_until_it_is_gone(self) -> None:
        """Append a row, and count the changes in the first one."""
        try:
            while True:
                self.objects.append(self.key, self.rows(self.appended + 3), "y")
                self.appended += 1
                self.objects.update(self.key, self.rows(self.updated + 1), {"y": slice(0, 1)})
                self.updated += 1
        except PyMongoError:
            pass
        except BaseException as error:
            self.surprises.append(error)

    def check(self) -> None:
        """All that was acknowledged is there, and at most one change more."""
        assert self.surprises == []
        assert self.objects.is_complete(self.key)
        found = self.objects.get(self.key, load=True)["v"].to_numpy()
        counted, rows = found[0], found[1:, 0]
        assert rows.tolist() == list(range(2, len(rows) + 2))
        assert (found[1:] == rows[:, None]).all()
        assert self.appended <= len(rows) - 1 <= self.appended + 1
        assert set(counted) <= {self.updated, self.updated + 1}


@pytest.mark.soak
@pytest.mark.parametrize("kills", [20])
def test_changes_that_were_acknowledged_are_there(tmp_path: Path, kills: int) -> None:
    """Each object, in one of the layouts, is changed by one writer; appended rows are there whole or not at all."""
    chance, port, changes = random.Random(2), None, 0
    for round_ in range(kills):
        layout = LAYOUTS[round_ % 2]
        with running_mongod(dbpath=tmp_path, port=port) as server, MongoClient[Any](f"{server.url}/?{SHORT}") as client:
            port = server.port
            name = f"{layout}-{round_}"
            growing = Growing(XarrayMongoDB(client[DATABASE], name, layout=layout, embed_threshold_bytes=0))
            thread = threading.Thread(target=growing.change_until_it_is_gone)
            thread.start()
            time.sleep(chance.uniform(0.2, 1.5))
            server.kill()
            thread.join()
        with running_mongod(dbpath=tmp_path, port=port), MongoClient[Any](server.url) as client:
            growing.objects = XarrayMongoDB(client[DATABASE], name, layout=layout)
            growing.check()
            changes += growing.appended + growing.updated
    print(f"{kills} kills: {changes} changes acknowledged, none lost")
    assert changes > kills
