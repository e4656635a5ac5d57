"""The call budget: a read of one chunk takes at most 45 Python calls, each further chunk at most 12.

It is that of formats whose chunks lie each under its own key or at its own place in a file; of Zarr it is 18 where the
engine in C reads them and 22 where Python does. What the others cost is pinned so that it does not grow unseen: chunks
of bcolz are files with a header each, read and checked anew; MongoDB is asked by pymongo. Counted are reads of what was
read before: of tiles of DEKER it is known then where in their files the cells lie, and of shards of many chunks their
index, as long as the files stay the same.
Counted, not timed: in the calling thread with one worker, and over all threads of a fresh pool.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import hyperslab as hs
from format_variants import VARIANTS, Places
from hyperslab.chunks.engine import load_engine
from servers.mongo import Mongo

CHILD = """
import json, sys, threading
import hyperslab as hs
from hyperslab.chunks import pool
from hyperslab.codecs import libblosc2

if sys.argv[2] == "numcodecs":
    libblosc2.load_library = lambda: None
KEYS = {"one": (0, 0), "part": (slice(1, 3), slice(1, 3)), "ten": (slice(0, 4), slice(0, 40)), "all": ()}

def count(array, key):
    array[key]  # imports and tables made on first use are not part of a read
    # pymongo looks after its connections when its time comes, in any thread: that is in one count alone.
    return min(count_once(array, key), count_once(array, key))

def count_once(array, key):
    pool._pools.forget()  # threads are counted only when they start under the profile
    calls = []
    threading.setprofile(lambda frame, event, argument: calls.append(event) if event == "call" else None)
    sys.setprofile(lambda frame, event, argument: calls.append(event) if event == "call" else None)
    array[key]
    sys.setprofile(None)
    threading.setprofile(None)
    return len(calls)

def count_new(url):
    # a cell of a chunk that the cache has not, which it has afterwards
    array = hs.open_array(url, path="a")
    array[0, 0]
    return min(count_once(array, (3, 8)), count_once(array, (3, 12)))

def counts(url):
    root = hs.open_group(url, workers=int(sys.argv[1]), cache_bytes=0)
    found = {name: count(root["a"], key) for name, key in KEYS.items()} if "a" in root else {}
    if found:
        found["new"] = count_new(url)
    return {**found, "row": count(root["line"], slice(0, 100)), "rows": count(root["line"], slice(0, 6400))}

print(json.dumps({url: counts(url) for url in sys.argv[3:]}))
"""
ONE, FURTHER = 45, 12
KEYED = [name for name, variant in VARIANTS.items() if variant.keyed]
WITHIN = ["b2nd", "blaze", "bloscpack", "collections", "deker", "netcdf"]
# Of chunks under keys, and of those in shards: a read of one, and of a cell whose chunk the cache has not.
BY_ENGINE = {"keyed": (18, 21), "sharded": (18, 20)}
IN_PYTHON = {"keyed": (22, 30), "sharded": (38, 51)}
PINNED = {
    "bcolz": (65, 48),
    "mongo": (560, 170),
}
"""Calls of one chunk, and of each further one, of formats that the budget is not for."""
BY_NUMCODECS = {"zarr2": (42, 28), "zarr3": (42, 28), "sharded": (56, 28), "bloscpack": (40, 28)}
"""Those of Blosc where blosc2 is not installed and numcodecs decodes its chunks by Python calls of its own."""
Counts = dict[str, dict[str, int]]


@pytest.fixture(scope="module")
def urls(mongo: Mongo, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """400 chunks of 4 x 4 cells, and 64 that lie one behind the other in what is read."""
    places = Places(tmp_path_factory.mktemp("budget"), f"{mongo.url}/{mongo.database()}")
    found = {}
    for name in (*VARIANTS, "sharded"):
        variant = VARIANTS.get(name, VARIANTS["zarr3"])
        found[name] = places.new("zarr3" if name == "sharded" else name)
        with hs.create(found[name], durable=False, **variant.options) as root:
            if not variant.one:
                shards = {"shards": (40, 40)} if name == "sharded" else {}
                root.create_array("a", data=np.arange(6400.0).reshape(80, 80), chunks=(4, 4), dims=("y", "z"), **shards)
            root.create_array("line", data=np.arange(6400.0), chunks=100, dims=("x",))
    return found


@pytest.fixture(scope="module", params=[1, 3], ids=["one worker", "all threads"])
def counted(urls: dict[str, str], request: pytest.FixtureRequest) -> Iterator[Counts]:
    """Python calls of reads of each dataset, in a process of its own."""
    yield count_in_child(urls, request.param, "libblosc2")


@pytest.fixture(scope="module")
def counted_by_numcodecs(urls: dict[str, str]) -> Iterator[Counts]:
    """Those of an installation without blosc2."""
    yield count_in_child({name: url for name, url in urls.items() if name in BY_NUMCODECS}, 1, "numcodecs")


def count_in_child(urls: dict[str, str], workers: int, decoder: str) -> Counts:
    command = [sys.executable, "-c", CHILD, str(workers), decoder, *urls.values()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(counts := {name: found[url] for name, url in urls.items()})
    return counts


def check(counts: dict[str, int], one: int, further: int) -> None:
    """The threads' own start counts once, not per chunk."""
    assert counts["row"] <= one
    assert (counts["rows"] - counts["row"]) / 63 <= further
    if "one" in counts:
        assert counts["one"] <= one
        assert counts["part"] <= one
        assert (counts["ten"] - counts["one"]) / 9 <= further
        assert (counts["all"] - counts["one"]) / 399 <= further


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", WITHIN)
def test_within_the_budget(counted: Counts, name: str) -> None:
    check(counted[name], ONE, FURTHER)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [*KEYED, "sharded"])
def test_of_chunks_under_keys(counted: Counts, name: str) -> None:
    kind = "sharded" if name == "sharded" else "keyed"
    one, new = (IN_PYTHON if load_engine() is None else BY_ENGINE)[kind]
    check(counted[name], one, FURTHER)
    assert counted[name]["new"] <= new


@pytest.mark.parametrize("name", PINNED)
def test_what_the_others_cost(counted: Counts, name: str) -> None:
    check(counted[name], *PINNED[name])


@pytest.mark.parametrize("name", BY_NUMCODECS)
def test_what_numcodecs_costs(counted_by_numcodecs: Counts, name: str) -> None:
    check(counted_by_numcodecs[name], *BY_NUMCODECS[name])


def test_every_format_is_counted() -> None:
    assert {*WITHIN, *KEYED, *PINNED} == {*VARIANTS} and "sharded" not in VARIANTS
