"""What queries cost as a collection grows, from a thousand arrays to a million; called by hand.

``python -m benchmarks.growing_collections build FOLDER COUNT`` writes a collection of so many arrays, without their
cells, straight into its files, which takes a tenth of the time of making them one by one. ``measure FOLDER`` asks it by
fresh processes, and prints a line for each question: milliseconds, the best of three. The first query by a client that
may write comes first: where the collection has an index of its own, it makes it. ``create FOLDER`` makes 200 more
arrays there, one by one and durable, 5 times.

``bucket COUNT`` makes so many arrays in a bucket of moto, asks by fresh clients, with the stored index and without, and
makes 100 more one by one, three times each way in turn: requests, milliseconds and bytes.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

START = datetime(2000, 1, 1, tzinfo=UTC)
STATIONS, NAME = 10, "records"


def build(folder: str, count: int) -> None:
    """Write a collection of ``count`` arrays: ten stations, one array an hour each."""
    from hyperslab.chunks.settings import Settings
    from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema
    from hyperslab.formats.collections.own.layout import LAYOUT
    from hyperslab.model.schemas import Record
    from hyperslab.stores.location import Location

    keys = [AttributeSchema("dt", datetime, True), AttributeSchema("station", str, True)]
    others = [AttributeSchema("level", float, False), AttributeSchema("run", int, False)]
    with Client(f"file://{folder}", durable=False) as client:
        client.create_collection(NAME, ArraySchema([DimensionSchema("x", 24)], float, [*keys, *others]))
    store = LAYOUT.open(Location.of(folder), NAME, Settings(durable=False), writable=True)
    assert store is not None
    base, chance = f"{folder}/collections/{NAME}", Random(1)
    os.makedirs(f"{base}/generations", exist_ok=True)
    os.makedirs(f"{base}/keys", exist_ok=True)
    for part in range(256):
        os.makedirs(f"{base}/arrays/{part:02x}", exist_ok=True)
        _write(f"{base}/generations/{part:02x}", b"+")
    for number in range(count):
        id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        key = {"dt": START + timedelta(hours=number // STATIONS), "station": f"S{number % STATIONS}"}
        record = Record(id, key, {"level": chance.random(), "run": number})
        os.mkdir(f"{base}/arrays/{id[:2]}/{id}")
        _write(f"{base}/arrays/{id[:2]}/{id}/zarr.json", store.documents.new_document(record))
        _write(f"{folder}/{store.key_entry(record)}", id.encode())


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


# -- questions, each asked by a process of its own ---------------------------------------------------------------------


def ask(folder: str, what: str) -> float:
    """Return the milliseconds that a question takes, from the opening of the database on; the megabytes of memory that
    it takes for ``memory``."""
    from hyperslab.database import Client

    began = time.perf_counter()
    with Client(f"file://{folder}", mode="a" if what == "first" else "r") as client:
        records = client.get_collection(NAME)
        ask_once(records, what)
        if what == "warm":
            began = time.perf_counter()
            for _ in range(20):
                ask_once(records, what)
            return (time.perf_counter() - began) * 50
        taken = (time.perf_counter() - began) * 1000
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if what == "memory" else taken


def ask_once(records: Any, what: str) -> None:
    """Ask a question of a collection."""
    match what:
        case "key":
            assert records.get(dt=START + timedelta(hours=50), station="S3").custom_attributes["run"] == 503
        case "newest":
            newest = [each.primary_attributes["dt"] for each in records.query(order="-dt", limit=10)]
            assert len(newest) == 10 and newest == sorted(newest, reverse=True)
        case "count":
            assert len(records) >= 1000
        case "wide":
            assert len(list(records.query(level=(0.2, 0.8), limit=10))) == 10
        case _:
            found = [each.custom_attributes["run"] for each in records.query(run=(300, 399), limit=10)]
            assert found == list(range(300, 310))


def measure(folder: str) -> None:
    """Print what each question takes."""
    for what in ("first", "range", "wide", "key", "newest", "count", "warm", "memory"):
        times = 1 if what == "first" else 3
        call = [sys.executable, "-m", "benchmarks.growing_collections", "ask", folder, what]
        best = min(float(subprocess.run(call, check=True, capture_output=True, text=True).stdout) for _ in range(times))
        print(f"{what:8} {best:12.1f}", flush=True)


def create(folder: str) -> None:
    """Print the milliseconds that each of 200 arrays takes which are made one by one, durable; five times."""
    from hyperslab.database import Client

    with Client(f"file://{folder}", durable=True) as client:
        records, taken = client.get_collection(NAME), list[float]()
        first = int(time.time())  # keys that no other call has
        for turn in range(5):
            began = time.perf_counter()
            for number in range(200):
                moment = START - timedelta(seconds=first, milliseconds=turn * 200 + number)
                records.create({"dt": moment, "station": "S0"}, {"level": 0.5, "run": -number})
            taken.append((time.perf_counter() - began) * 1000 / 200)
        print(json.dumps([round(each, 3) for each in taken]))


# -- in a bucket -------------------------------------------------------------------------------------------------------


def bucket(count: int) -> None:
    """Print what questions and creations cost in a bucket."""
    from benchmarks.buckets import KEYS, running_server
    from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema

    keys = [AttributeSchema("dt", datetime, True), AttributeSchema("station", str, True)]
    others = [AttributeSchema("level", float, False), AttributeSchema("run", int, False)]
    schema, chance = ArraySchema([DimensionSchema("x", 24)], float, [*keys, *others]), Random(1)

    def attributes(number: int) -> dict[str, Any]:
        moment = START + timedelta(hours=number // STATIONS)
        return {"dt": moment, "station": f"S{number % STATIONS}", "level": chance.random(), "run": number}

    with running_server() as endpoint:
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bench", method="PUT")).close()
        options = {"endpoint": endpoint, **KEYS}
        for kind in ("stored", "memory"):
            with Client(f"s3://bench/{kind}", storage_options=options) as client:
                records = client.create_collection(NAME, schema, index=kind)
                _cost(f"{kind}: make {count}", lambda to=records: to.create_many(map(attributes, range(count))))
        for kind in ("stored", "memory"):
            for what in ("range", "newest", "count"):
                _cost(f"{kind}: {what}", lambda kind=kind, what=what: _ask_bucket(f"s3://bench/{kind}", options, what))
        for turn in range(3):
            for kind in ("stored", "memory"):
                first = count + 100 * turn
                _cost(f"{kind}: make 100", lambda kind=kind, first=first: _make(kind, options, attributes, first))


def _ask_bucket(url: str, options: Mapping[str, Any], what: str) -> None:
    from hyperslab.database import Client

    with Client(url, mode="r", storage_options=options) as client:
        records = client.get_collection(NAME)
        if what == "range":
            assert [each.custom_attributes["run"] for each in records.query(run=(30, 30))] == [30]
        elif what == "newest":
            assert len(list(records.query(order="-dt", limit=1))) == 1
        else:
            assert len(records) >= 100


def _make(kind: str, options: Mapping[str, Any], attributes: Callable[[int], dict[str, Any]], first: int) -> None:
    from hyperslab.database import Client

    with Client(f"s3://bench/{kind}", storage_options=options) as client:
        records = client.get_collection(NAME)
        for number in range(first, first + 100):
            values = attributes(number)
            records.create({name: values.pop(name) for name in ("dt", "station")}, values)


def _cost(name: str, call: Callable[[], object]) -> None:
    import hyperslab as hs

    began = time.perf_counter()
    with hs.trace() as cost:
        call()
    taken = (time.perf_counter() - began) * 1000
    print(f"{name:22} {cost.requests:7} requests {taken:9.1f} ms {cost.bytes_read:9} bytes read", flush=True)


if __name__ == "__main__":
    calls: dict[str, Callable[..., Any]] = {"build": build, "measure": measure, "create": create}
    if sys.argv[1] == "ask":
        print(ask(*sys.argv[2:]))
    elif sys.argv[1] == "bucket":
        bucket(int(sys.argv[2]))
    else:
        calls[sys.argv[1]](*sys.argv[2:3], *map(int, sys.argv[3:]))
