"""``python campaign_objects.py ROLE NUMBER FOLDER PLACE``: one process of a campaign among objects of MongoDB.

A worker has names of its own, whose objects it puts, replaces (older versions are kept), appends to, updates, compacts,
expires and deletes. Each row tells its object and its write, each cell its column, so that a reader knows of each read
whether it is right. ``PLACE`` is JSON: ``url``, ``database``, ``lease`` in seconds.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from campaigns import Journal, State, read, work
from pymongo import MongoClient

import hyperslab as hs
from hyperslab.errors import Conflict, CorruptChunk, HyperslabError, MissingChunks, NotFound, Replaced
from hyperslab.formats.mongo import object_changes
from hyperslab.mongo import XarrayMongoDB

NAMES = 3
"""Names of each worker; the object of the first one is never deleted."""
COLUMNS = 5
MOST_ROWS = 40
COLLECTION = "campaign"
LAYOUTS: Any = ("compatible", "extended")
GONE = (NotFound, MissingChunks, Replaced)
"""What a reader hears of an object that was removed, or is not whole yet."""


def objects_of(client: MongoClient[Any], database: str, number: int, keeps: bool = True) -> XarrayMongoDB:
    """Return the objects, as one worker writes them: every second one in the other layout."""
    return XarrayMongoDB(
        client[database],
        COLLECTION,
        layout=LAYOUTS[number % 2],
        chunk_size_bytes=80,  # chunks of several documents
        durable=False,  # the server lives on
        embed_threshold_bytes=20,
        keep_versions=keeps,
    )


# -- cells that tell what they are -------------------------------------------------------------------------------------


def make_token(place: int, number: int, start: int, stop: int) -> int:
    """Return what the cells of rows that are written at one stroke have in common."""
    return ((place << 24 | number) << 6 | start) << 6 | (stop - 1)


def dataset_of(tokens: list[int], number: int, first: int = 0) -> xr.Dataset:
    """Return the object with these rows, of which the first one is at ``first``."""
    cells = np.array(tokens, "i8")[:, None] * COLUMNS + np.arange(COLUMNS)
    return xr.Dataset({"t": (("time", "x"), cells)}, {"time": first + np.arange(len(tokens))}, {"number": number})


def tokens_of(place: int, found: xr.Dataset) -> list[int]:
    """Return the tokens of rows that were read. AssertionError for a cell that is wrong, and for a torn change."""
    cells = found["t"].to_numpy()
    tokens = [int(first) // COLUMNS for first in cells[:, 0]]
    np.testing.assert_array_equal(cells, np.array(tokens)[:, None] * COLUMNS + np.arange(COLUMNS), "torn cells")
    numbers = [token >> 12 & (1 << 24) - 1 for token in tokens]
    for token in set(tokens):
        whose, number, start, stop = token >> 36, token >> 12 & (1 << 24) - 1, token >> 6 & 63, (token & 63) + 1
        assert whose == place, f"cells of {whose} in {place}"
        assert stop <= len(tokens), f"a part of what was appended: {tokens}"
        assert min(numbers[start:stop]) >= number, f"a part of a change: {tokens}"
    return tokens


def place_of(name: str) -> int:
    """Return the number of an object by its name."""
    return int(name.removeprefix("n"))


def look_at(name: str, found: xr.Dataset) -> list[Any]:
    """Return what an object holds."""
    return [tokens_of(place_of(name), found), found.attrs["number"]]


# -- workers and readers -----------------------------------------------------------------------------------------------


class Worker:
    """One worker: what it has acknowledged is in its journal before the next deed.

    The state of a name is what its object holds, and what its older versions do, the oldest first.
    """

    def __init__(self, objects: XarrayMongoDB, journal: Journal, number: int) -> None:
        self.objects, self.journal = objects, journal
        self.random = random.Random(number * 10_000_019 + journal.counter)
        self.names = [f"n{number * NAMES + each}" for each in range(NAMES)]
        if journal.open:
            self.settle()

    def settle(self) -> None:
        """Find out what became of a deed that was cut short: all of it, or nothing; of versions that are removed some
        may be left, and of an update, which changes one chunk after the other, some rows be done."""
        assert self.journal.open is not None
        kind, states = self.journal.open
        (name,) = states[0]
        before, found = self.journal.state.get(name), self.look(name)
        after = [state[name] for state in states]
        if found == "incomplete":
            assert kind == "put", f"{name} is incomplete after {kind}"
            self.objects.delete(name)
            found = None
        if found not in (before, *after):
            message = f"{kind} of {name} is neither done nor not begun: {found}, of {before}, {after}"
            assert before and found and kind in ("expire", "delete", "update"), message
            rows = zip(found["held"][0], before["held"][0], (after[0] or before)["held"][0], strict=True)
            assert all(row in either for row, *either in rows), message
            left = iter(before["versions"])
            assert all(version in left for version in found["versions"]), message
        self.journal.settle({name: found})

    def look(self, name: str) -> Any:
        """Return what there is under a name; None where nothing is, and ``incomplete``."""
        try:
            versions = self.objects.versions(name)
            if not self.objects.is_complete(name):
                return "incomplete"
            older = [look_at(name, self.objects.get(info.id, load=True)) for info in versions[:-1]]
            return {"held": look_at(name, self.objects.get(name, load=True)), "versions": older}
        except NotFound:
            return None

    def deed(self) -> None:
        """Do one thing; where the lease was lost find out whether it is done."""
        deeds: list[Callable[[str], None]] = [
            *[self.put] * 2, *[self.append] * 4, *[self.update] * 4, *[self.replace] * 3, self.compact, self.expire,
            self.delete, self.verify,
        ]  # fmt: skip
        name = self.random.choice(self.names)
        chosen = self.put if name not in self.journal.state else self.random.choice(deeds)
        try:
            chosen(name)
        except Conflict:
            if self.journal.open is None:
                self.journal.count("failed")
            else:
                self.settle()

    def do(self, kind: str, name: str, after: Any, deed: Callable[[], object]) -> None:
        """Do what makes ``after`` of an object, and acknowledge it."""
        self.journal.begin(kind, {name: after})
        deed()
        self.journal.acknowledge(kind, {name: after})

    def new(self, name: str) -> tuple[list[Any], xr.Dataset]:
        """Return what a new object is to hold, and the object."""
        number, count = self.journal.next_number(), self.random.randrange(1, 9)
        tokens = [make_token(place_of(name), number, 0, count)] * count
        data = dataset_of(tokens, number)
        return [tokens, number], data.chunk({"time": 3}) if self.random.random() < 0.7 else data

    def store(self, stored: tuple[Any, Any]) -> None:
        """Store the dask arrays of an object."""
        if stored[1] is not None:
            stored[1].compute(scheduler="sync")

    def put(self, name: str) -> None:
        if name not in self.journal.state:
            held, data = self.new(name)
            after = {"held": held, "versions": []}
            self.do("put", name, after, lambda: self.store(self.objects.put(data, name=name)))

    def replace(self, name: str) -> None:
        held, data = self.new(name)
        now = self.journal.state[name]
        after = {"held": held, "versions": [*now["versions"], now["held"]]}
        self.do("replace", name, after, lambda: self.store(self.objects.replace(name, data)))

    def append(self, name: str) -> None:
        now = self.journal.state[name]
        tokens, number = now["held"]
        count = self.random.randrange(1, 4)
        if len(tokens) + count <= MOST_ROWS:
            token = make_token(place_of(name), self.journal.next_number(), len(tokens), len(tokens) + count)
            data = dataset_of([token] * count, 0, len(tokens))
            data = data.chunk() if self.random.random() < 0.3 else data
            after = {**now, "held": [[*tokens, *[token] * count], number]}
            self.do("append", name, after, lambda: self.objects.append(name, data, "time"))

    def update(self, name: str) -> None:
        """Each row for itself: readers may see the rows of one chunk before those of the next."""
        now = self.journal.state[name]
        tokens, number = now["held"]
        start, stop = sorted(self.random.sample(range(len(tokens) + 1), 2))
        own = self.journal.next_number()
        rows = [make_token(place_of(name), own, row, row + 1) for row in range(start, stop)]
        after = {**now, "held": [[*tokens[:start], *rows, *tokens[stop:]], number]}
        data = dataset_of(rows, 0)[["t"]].drop_vars("time")
        self.do("update", name, after, lambda: self.objects.update(name, data, {"time": slice(start, stop)}))

    def compact(self, name: str) -> None:
        """What was joined is an older version with the same cells; nothing is where there was nothing to join."""
        now = self.journal.state[name]
        joined = {**now, "versions": [*now["versions"], now["held"]]}
        self.journal.begin("compact", {name: joined}, {name: now})
        before = self.objects.versions(name)[-1].id
        same = self.objects.compact(name, keep_old=True) == before
        self.journal.acknowledge("compact", {name: now if same else joined})

    def expire(self, name: str) -> None:
        now = self.journal.state[name]
        keep = self.random.randrange(1, 4)
        after = {**now, "versions": now["versions"][max(0, len(now["versions"]) - keep + 1) :]}
        self.do("expire", name, after, lambda: self.objects.expire(name=name, keep_newest=keep))

    def delete(self, name: str) -> None:
        if name != self.names[0]:
            self.do("delete", name, None, lambda: self.objects.delete(name))

    def verify(self, name: str) -> None:
        """The object, and its older versions, are what they should be."""
        found = self.look(name)
        now = self.journal.state[name]
        assert found == now, f"{name}: {found}, not {now}"
        self.journal.count("verify")


class Reader:
    """One reader: it knows nothing of the others but what cells may be."""

    def __init__(self, objects: XarrayMongoDB, url: str) -> None:
        self.objects, self.url, self.random = objects, url, random.Random()
        self.stays: set[str] = set()

    def deed(self) -> int:
        """Read an object in one of several ways."""
        names = [info.name for info in self.objects.find(order="-created", limit=20)]
        names = [*names, *self.stays]
        if not names:
            return 0
        name = self.random.choice(names)
        stays = name in self.stays
        try:
            look_at(name, self.random.choice([self.whole, self.lazy, self.opened])(name))
        except GONE as error:
            assert not stays or isinstance(error, Replaced), f"{name} is lost: {error!r}"
            return 0
        if not place_of(name) % NAMES:
            self.stays.add(name)
        return 1

    def whole(self, name: str) -> xr.Dataset:
        found: xr.Dataset = self.objects.get(name, load=True)
        return found

    def lazy(self, name: str) -> xr.Dataset:
        """What is read later may be expired by then."""
        later = self.objects.get(name, load=False)
        with suppress(NotFound, MissingChunks):
            return later.compute(scheduler="sync")
        return self.whole(name)

    def opened(self, name: str) -> xr.Dataset:
        with hs.open_group(f"{self.url}#{name}") as root:
            try:
                return root.to_xarray().load()
            except (Conflict, NotFound, MissingChunks):
                return self.whole(name)


def main(role: str, number: int, folder: Path, place: dict[str, Any]) -> None:
    """Take part until the campaign is over."""
    object_changes._LEASE_SECONDS = place["lease"]
    journal = Journal(folder / f"{role}-{number}")
    with MongoClient[Any](place["url"], directConnection=True) as client:
        objects = objects_of(client, place["database"], number)
        if role == "worker":
            work(folder, Worker(objects, journal, number).deed)
        else:
            url = f"{place['url']}/{place['database']}?collection={COLLECTION}&directConnection=true"
            read(folder, journal, Reader(objects, url).deed)


# -- what must be there in the end -------------------------------------------------------------------------------------


def check_end(objects: XarrayMongoDB, journals: list[Journal]) -> None:
    """All that was acknowledged is there and nothing else, by each way to find it."""
    wanted: State = {name: state for journal in journals for name, state in journal.state.items()}
    assert [journal.open for journal in journals] == [None] * len(journals)
    infos = objects.list()
    assert sorted(str(info.name) for info in infos) == sorted(wanted)
    assert sorted(str(info.name) for info in objects.find(order="-created")) == sorted(wanted)
    for name, state in wanted.items():
        assert look_at(name, objects.get(name, load=True)) == state["held"]
        versions = objects.versions(name)
        older = [look_at(name, objects.get(info.id, load=True)) for info in versions[:-1]]
        assert older == state["versions"], f"versions of {name}: {older}, not {state['versions']}"


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4]))
    except (HyperslabError, CorruptChunk) as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error
