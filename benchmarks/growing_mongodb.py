"""Databases that grow: what look-ups in MongoDB take among 10^3, 10^4 and 10^5 small objects. Called by hand:

``python -m benchmarks.growing_mongodb [--sizes 1000,10000,100000] [--before SRC]``: a table in Markdown. ``SRC``: the
folder ``src`` of an earlier state of hyperslab, which looks up the same objects, without the indexes that it did not
make.

Objects are copies of one that hyperslab has put, under other names and ids: a Dataset with a chunk in a document of its
own. Each look-up is made by a process of its own upon a server that was just started: first once (cold: nothing in the
memory of the server, though in that of the system), then for others of its kind (warm: the median).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask.array
import numpy as np
import xarray as xr
from bson import ObjectId
from pymongo import MongoClient

# The objects; and one object aside, which is looked up first.
PREFIX, ASIDE = "xarray", "aside"
STATIONS = 100
# So long a series of look-ups that take a second each is.
SECONDS = 10
REPEATS = 200
OURS, BEFORE, PEER = "hyperslab", "hyperslab before", "xarray_mongodb"
LOOKUPS = ("by name", "newest ten", "ten of a station", "by id")
TITLES = {
    "by name": "`get(name, load=True)`",
    "newest ten": '`find(order="-created", limit=10)`',
    "ten of a station": '`find({"station": …}, order="-created", limit=10)`',
    "by id": "`get(id, load=True)`",
}


def example() -> xr.Dataset:
    cells = dask.array.arange(240.0, chunks=240).reshape(24, 10)
    coords = {"hour": np.arange(24), "level": np.arange(10)}
    return xr.Dataset({"t2m": (("hour", "level"), cells)}, coords, {"station": "s0", "number": 0})


# -- one look-up, in a process of its own -----------------------------------------------------------------------------


def look_up(kind: str, who: str, url: str, numbers: Sequence[int], ids: Sequence[str]) -> list[float]:
    """Return the seconds of each look-up of its kind, the first one first."""
    with MongoClient[Any](url) as client:
        database = client.get_default_database()
        warm_up = database[f"{ASIDE}.meta"].find_one()
        assert warm_up is not None
        for _ in range(2):  # what is imported, and connected to, at the first call is no part of it
            _lookup(kind, who, database, ASIDE)(0, warm_up["_id"])
        one = _lookup(kind, who, database, PREFIX)
        found = []
        for number, id in zip(numbers, ids, strict=True):
            start = time.perf_counter()
            one(number, ObjectId(id))
            found.append(time.perf_counter() - start)
            if sum(found) > SECONDS and len(found) > 2:
                break
    return found


def _lookup(kind: str, who: str, database: Any, prefix: str) -> Callable[[int, ObjectId], None]:
    if who == PEER:
        import xarray_mongodb

        peer = xarray_mongodb.XarrayMongoDB(database, prefix)
        return lambda number, id: _check(peer.get(id, load=True), number)
    from hyperslab.mongo import XarrayMongoDB

    xdb = XarrayMongoDB(database, prefix)
    match kind:
        case "by name":
            return lambda number, id: _check(xdb.get(f"object-{number}", load=True), number)
        case "by id":
            return lambda number, id: _check(xdb.get(id, load=True), number)
        case "newest ten":
            return lambda number, id: _check_count([*xdb.find(order="-created", limit=10)])
    return lambda number, id: _check_count(
        [*xdb.find({"station": f"s{number % STATIONS}"}, order="-created", limit=10)]
    )


def _check(found: xr.Dataset, number: int) -> None:
    assert found.attrs["number"] == number
    assert float(found.t2m[23, 9]) == 239.0


def _check_count(found: list[Any]) -> None:
    assert len(found) in (1, 10)


# -- the server and its objects ---------------------------------------------------------------------------------------


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """Yield the URL of a database, by a server that is started anew; it ends with its data written."""
    from hyperslab.testing.mongod import start

    process, port = start(folder)
    try:
        yield f"mongodb://127.0.0.1:{port}/growing"
    finally:
        process.terminate()
        process.wait(60)


def fill(url: str, count: int) -> list[str]:
    """Put one object, and copies of it; return all ids."""
    from hyperslab.mongo import XarrayMongoDB

    with MongoClient[Any](url) as client:
        database = client.get_default_database()
        for prefix in (ASIDE, PREFIX):
            id, future = XarrayMongoDB(database, prefix, search_index="station").put(example(), name="object-0")
            future.compute(scheduler="sync")
        meta, chunks = database[f"{PREFIX}.meta"], database[f"{PREFIX}.chunks"]
        document, (chunk,) = meta.find_one(id), chunks.find({"meta_id": id})
        ids = [id]
        for start in range(1, count, 5000):
            numbers = range(start, min(start + 5000, count))
            new = [ObjectId() for _ in numbers]
            attrs = [{"station": f"s{number % STATIONS}", "number": number} for number in numbers]
            meta.insert_many(
                {**document, "_id": one, "name": f"object-{number}", "attrs": attr}
                for one, number, attr in zip(new, numbers, attrs, strict=True)
            )
            chunks.insert_many({**chunk, "_id": ObjectId(), "meta_id": one} for one in new)
            ids += new
    return [str(one) for one in ids]


def measure(folder: Path, kind: str, who: str, ids: list[str], before: Path | None) -> tuple[float, float]:
    """Return the seconds of the first look-up upon a server that was just started, and the median of the others."""
    chosen = np.random.default_rng(5).permutation(len(ids))[:REPEATS].tolist()
    root = Path(__file__).parents[1]
    source = before if before and who == BEFORE else root / "src"
    paths = [str(source), str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    with running_server(folder) as url:
        request = json.dumps([kind, who, url, chosen, [ids[number] for number in chosen]])
        command = [sys.executable, "-m", "benchmarks.growing_mongodb", "--look-up"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        answer = subprocess.run(command, input=request, env=environment, check=True, capture_output=True, text=True)
    first, *others = json.loads(answer.stdout)
    return first, statistics.median(others)


def drop_indexes(folder: Path) -> None:
    """Remove the indexes of objects, which an earlier state did not make."""
    with running_server(folder) as url, MongoClient[Any](url) as client:
        client.get_default_database()[f"{PREFIX}.meta"].drop_indexes()


def cases(before: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the look-ups and who makes them, those without indexes last."""
    yield from ((kind, OURS) for kind in LOOKUPS)
    if find_spec("xarray_mongodb"):
        yield "by id", PEER
    if before:
        yield from ((kind, BEFORE) for kind in LOOKUPS)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,10000,100000", type=lambda text: [*map(int, text.split(","))])
    parser.add_argument("--before", type=Path)
    parser.add_argument("--look-up", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.look_up:
        print(json.dumps(look_up(*json.load(sys.stdin))))
        return
    seconds: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for size in options.sizes:
        with TemporaryDirectory(prefix="growing-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            with running_server(folder) as url:
                ids = fill(url, size)
            for kind, who in cases(options.before):
                if who == BEFORE and kind == LOOKUPS[0]:
                    drop_indexes(folder)
                seconds.setdefault((kind, who), []).append(measure(folder, kind, who, ids, options.before))
                print(size, kind, who, seconds[kind, who][-1], file=sys.stderr)
    print_table(options.sizes, seconds)


def print_table(sizes: list[int], seconds: dict[tuple[str, str], list[tuple[float, float]]]) -> None:
    """Print milliseconds, cold and warm, and how much longer the warm ones take for each ten times as many objects."""
    print("| look-up | by | " + " | ".join(f"{size:,}" for size in sizes) + " | times ten |")
    print("|---" * (len(sizes) + 3) + "|")
    for (kind, who), found in seconds.items():
        cells = [f"{1000 * cold:.1f} / {1000 * warm:.2f}" for cold, warm in found]
        growth = (found[-1][1] / found[0][1]) ** (1 / np.log10(sizes[-1] / sizes[0])) if len(sizes) > 1 else 1.0
        print(f"| {TITLES[kind]} | {who} | {' | '.join(cells)} | x {growth:.2f} |")


if __name__ == "__main__":
    main()
