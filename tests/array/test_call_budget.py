"""The call budget: a read of one chunk takes at most 60 Python calls, each further chunk at most 12 (house.md).

Counted, not timed: in the calling thread with one worker, and over all threads of a fresh pool.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CHILD = """
import json, sys, threading
import hyperslab as hs
from hyperslab.chunks import pool

url, workers = sys.argv[1], int(sys.argv[2])
root = hs.open_group(url, workers=workers, cache_bytes=0)
counts = {}

def count(array, key):
    array[key]  # imports and tables made on first use are not part of a read
    pool._pools.forget()  # threads are counted only when they start under the profile
    calls = []
    threading.setprofile(lambda frame, event, argument: calls.append(event) if event == "call" else None)
    sys.setprofile(lambda frame, event, argument: calls.append(event) if event == "call" else None)
    array[key]
    sys.setprofile(None)
    threading.setprofile(None)
    return len(calls)

for name, key in [
    ("one", (0, 0)),
    ("part", (slice(1, 3), slice(1, 3))),
    ("ten", (slice(0, 4), slice(0, 40))),
    ("all", ()),
]:
    if "a" in root:
        counts[name] = count(root["a"], key)
counts["row"] = count(root["line"], slice(0, 100))
counts["rows"] = count(root["line"], slice(0, 6400))
print(json.dumps(counts))
"""


@pytest.fixture(scope="module", params=["zarr2", "zarr3", "sharded"])
def url(request, tmp_path_factory):
    """400 chunks of 4 x 4 cells, and 64 that lie one behind the other in what is read."""
    import numpy as np

    import hyperslab as hs

    place = str(tmp_path_factory.mktemp("budget") / "a.zarr")
    root = hs.create(place, "zarr2" if request.param == "zarr2" else "zarr3", durable=False)
    shards = (40, 40) if request.param == "sharded" else None
    root.create_array("a", data=np.arange(6400.0).reshape(80, 80), chunks=(4, 4), shards=shards)
    root.create_array("line", data=np.arange(6400.0), chunks=100)
    return place


def counted(url, workers):
    """Python calls of four reads, in a process of their own."""
    done = subprocess.run([sys.executable, "-c", CHILD, url, str(workers)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_one_worker(url):
    calls = counted(url, 1)
    print(calls)
    assert calls["one"] <= 60
    assert calls["part"] <= 60
    assert (calls["ten"] - calls["one"]) / 9 <= 12
    assert (calls["all"] - calls["one"]) / 399 <= 12
    assert calls["row"] <= 60
    assert (calls["rows"] - calls["row"]) / 63 <= 12


def test_all_threads(url):
    """The threads' own start counts once, not per chunk."""
    calls = counted(url, 3)
    print(calls)
    assert calls["one"] <= 60
    assert (calls["all"] - calls["one"]) / 399 <= 12


@pytest.mark.parametrize("workers", [1, 3])
def test_one_file_of_chunks(workers, tmp_path):
    """Bloscpack: a read of each chunk from its place, its digest, and its decoding into the result."""
    import numpy as np

    import hyperslab as hs

    place = str(tmp_path / "a.blp")
    with hs.create(place, durable=False) as root:
        root.create_array("line", data=np.arange(6400.0), chunks=100)
    calls = counted(place, workers)
    print(calls)
    assert calls["row"] <= 60
    assert (calls["rows"] - calls["row"]) / 63 <= 12
