"""SIGKILL during overwrites: each chunk is the old or the new one, no lock stays held, nothing is left that matters.

A driver process forks children that overwrite an array. A child counts its system calls that change the store (writes,
which are cut into short ones, renames, and what removes an old chunk after one) in shared memory. Every other child
kills itself right before a call, between the first and the last; the others the driver kills, at any moment after that
call. Then it reads.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from programs import ran

KILLS = 12

DRIVER = """
import json, mmap, os, random, signal, struct, sys, time
import numpy as np
import hyperslab as hs

url, kills = sys.argv[1], int(sys.argv[2])
shared = mmap.mmap(-1, 8)  # calls of the present overwrite
last = None  # before which call a child kills itself
random.seed(11)
write, replace, unlink = os.write, os.replace, os.unlink


def count():
    now = struct.unpack_from("<q", shared, 0)[0] + 1
    struct.pack_into("<q", shared, 0, now)
    if now == last:
        os.kill(os.getpid(), signal.SIGKILL)


def short_write(descriptor, data):
    count()
    return write(descriptor, memoryview(data)[:65536])


def counted_replace(source, target):
    count()
    return replace(source, target)


def counted_unlink(path):  # of the old chunk, when it has changed names with the new one
    count()
    return unlink(path)


def overwrite(generation):
    array = hs.open(url, "r+", durable=False, workers=1, lock_timeout=5.0)["a"]
    os.write, os.replace, os.unlink = short_write, counted_replace, counted_unlink
    array[...] = generation


def chunks_of(array):
    cells = array[...]
    step = len(cells) // 8
    return [cells[i : i + step] for i in range(0, len(cells), step)]


def forked(generation):
    struct.pack_into("<q", shared, 0, 0)
    pid = os.fork()
    if not pid:
        status = 1
        try:
            overwrite(generation)
            status = 0
        finally:
            os._exit(status)
    return pid


def finished(pid):
    done, status = os.waitpid(pid, os.WNOHANG)
    if done and status and not os.WIFSIGNALED(status):
        sys.exit(f"the child failed by itself: {status}")
    return done


stored = hs.open(url)["a"].nbytes_stored
os.waitpid(forked(2.0), 0)
whole = struct.unpack_from("<q", shared, 0)[0]
report = {"whole": whole, "within": 0, "outside": 0, "torn": 0, "mixed": 0, "odd": 0, "stored": 0, "left": 0}
before = {2.0}
generation = 2.0
while report["within"] < kills and report["outside"] < 3 * kills:
    generation += 1.0
    target = random.randint(1, whole - 1)
    last = target if generation % 2 else None
    pid = forked(generation)
    while struct.unpack_from("<q", shared, 0)[0] < target and not finished(pid):
        time.sleep(0.0001)
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
    calls = struct.unpack_from("<q", shared, 0)[0]
    report["within" if 1 <= calls < whole else "outside"] += 1
    array = hs.open(url)["a"]
    chunks = chunks_of(array)
    report["torn"] += sum(bool((chunk != chunk.flat[0]).any()) for chunk in chunks)
    now = {float(chunk.flat[0]) for chunk in chunks}
    report["mixed"] += generation in now and len(now) > 1
    report["odd"] += not now <= before | {generation}
    report["stored"] += array.nbytes_stored != stored
    before = now
report["left"] = sum(name.endswith(".tmp") for _, _, names in os.walk(url) for name in names)
last, start = None, time.monotonic()
overwrite(generation + 1)
report["waited"] = time.monotonic() - start
report["at last"] = sorted({float(chunk.flat[0]) for chunk in chunks_of(hs.open(url)["a"])}) == [generation + 1]
print(json.dumps(report))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="the children are forked")
@pytest.mark.parametrize("kills", [KILLS, pytest.param(300, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("name", "chunks", "shards"), [
    ("zarr2", (32, 512), None),
    ("zarr3", (32, 512), None),
    ("zarr3", (8, 512), (32, 512)),
], ids=["zarr2", "zarr3", "shards"])  # fmt: skip
def test_no_chunk_is_torn(
    tmp_path: Path, name: str, chunks: tuple[int, int], shards: tuple[int, int] | None, kills: int
) -> None:
    url = str(tmp_path / "a.zarr")
    root = hs.create(url, name, durable=False)
    root.create_array("a", data=np.ones((256, 512)), chunks=chunks, shards=shards, codec="none")
    root.close()
    done = ran(DRIVER, url, kills)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    print(report)
    assert report["within"] >= kills
    assert report["torn"] == report["odd"] == report["stored"] == 0, report
    assert report["mixed"] > 0, "no kill fell between two chunks: the test would not see a torn overwrite"
    assert report["left"] > 0, "no kill fell within a write: nothing unfinished was left under a temporary name"
    assert report["at last"], report
