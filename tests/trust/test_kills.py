"""SIGKILL during overwrites of chunks of 1 MiB: each chunk is the old or the new one, and no lock stays held.

A driver process forks children that overwrite the array again and again. A child counts its write calls in shared
memory; the driver kills it when the count stands between the first and the last call of an overwrite, then reads.
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import hyperslab as hs

KILLS = 100

DRIVER = """
import json, mmap, os, random, signal, struct, sys, time
import numpy as np
import hyperslab as hs

url, kills = sys.argv[1], int(sys.argv[2])
shared = mmap.mmap(-1, 16)  # write calls of the present overwrite, and of a whole one
random.seed(11)
write = os.write


def child():
    array = hs.open(url, "r+", durable=False, workers=1, lock_timeout=5.0)["a"]
    calls = [0]

    def counted(descriptor, data):
        calls[0] += 1
        struct.pack_into("<q", shared, 0, calls[0])
        return write(descriptor, data)

    os.write = counted
    generation = float(array[...].max())
    while True:
        generation += 1
        calls[0] = 0
        array[...] = generation
        struct.pack_into("<qq", shared, 0, 0, calls[0])


def cells_of_chunks():
    array = hs.open(url)["a"]
    cells = array[...]
    step = cells.shape[0] // 8
    return [np.unique(cells[i : i + step]) for i in range(0, cells.shape[0], step)]


report = {"within": 0, "outside": 0, "torn": 0, "back": 0, "mixed": 0}
newest = 0.0
while report["within"] < kills:
    struct.pack_into("<qq", shared, 0, 0, 0)
    pid = os.fork()
    if not pid:
        try:
            child()
        finally:
            os._exit(1)
    while not struct.unpack_from("<q", shared, 8)[0]:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            sys.exit(f"the child ended by itself: {status}")
        time.sleep(0.001)
    whole = struct.unpack_from("<q", shared, 8)[0]
    target = random.randint(1, whole - 1)
    while struct.unpack_from("<q", shared, 0)[0] != target:
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    calls = struct.unpack_from("<q", shared, 0)[0]
    within = 1 <= calls < whole
    report["within" if within else "outside"] += 1
    chunks = cells_of_chunks()
    report["torn"] += sum(len(values) != 1 for values in chunks)
    oldest, latest = min(v[0] for v in chunks), max(v[-1] for v in chunks)
    report["mixed"] += within and oldest != latest
    report["back"] += latest < newest
    newest = latest
print(json.dumps(report))
"""


@pytest.mark.parametrize(("name", "chunks", "shards"), [
    ("zarr2", (128, 1024), None),
    ("zarr3", (128, 1024), None),
    ("zarr3", (32, 1024), (128, 1024)),
], ids=["zarr2", "zarr3", "shards"])  # fmt: skip
def test_no_chunk_is_torn(tmp_path, name, chunks, shards):
    url = str(tmp_path / "a.zarr")
    root = hs.create(url, name)
    root.create_array("a", data=np.ones((1024, 1024)), chunks=chunks, shards=shards, codec="none")
    root.close()
    done = subprocess.run([sys.executable, "-c", DRIVER, url, str(KILLS)], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    print(report)
    assert report["within"] >= KILLS
    assert report["torn"] == report["back"] == 0
    assert report["mixed"] > 0, "no kill fell between two chunks: the test would not see a torn overwrite"
