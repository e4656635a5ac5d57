"""Readers beside a writer in another process: caches serve no chunk that was replaced, shapes fit their cells.

A writer process overwrites, appends and resizes without rest; the readers count what contradicts its protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from programs import Program

READS = 300
MOST = 100_000
LAYOUTS = pytest.mark.parametrize(
    ("name", "codec", "shards"),
    [
        ("zarr2", "none", None),
        ("zarr2", "zlib:1", None),
        ("zarr3", "default", None),
        ("zarr3", "default", (32, 8)),
        ("zarr3", "none", (32, 8)),
    ],
    ids=["zarr2-raw", "zarr2", "zarr3", "shards", "shards-raw"],
)
HEAD = """
import sys
import numpy as np
import hyperslab as hs
url = sys.argv[1]
array = hs.open(url, "r+", durable=False, workers=1)["a"]
print("ready", flush=True)
"""
# Every chunk holds one number, the generation, and noise of a length that changes with it.
OVERWRITE = (
    HEAD
    + """
generation = 0
noise = np.random.default_rng(1).integers(0, 2**40, (512, 8, 7))
cells = np.zeros(array.shape, array.dtype)
while True:
    generation += 1
    cells[:, 0] = generation
    cells[:, 1:] = 0
    few = generation % 7
    cells[:, 1 : 1 + few] = noise[generation % 512, :, :few].repeat(len(cells) // 8, 0)
    array[...] = cells
"""
)
# Row i holds i, whatever the length is.
APPEND = (
    HEAD
    + """
while True:
    length = array.shape[0]
    if length > 300:
        array.resize((5, 8))
        length = 5
    rows = np.arange(length, length + 1 + length % 11)
    array.append(np.repeat(rows[:, None] + 1, 8, 1))
"""
)
RESIZE = (
    HEAD
    + """
import itertools
for step in itertools.count():
    array.resize((40, 8))
    array[8:40] = np.repeat(np.arange(8, 40)[:, None] + 1, 8, 1)
    array.resize((8 + step % 5, 8))
    array.resize((100 + step % 7, 8))
    array.resize((8, 8))
"""
)


@contextmanager
def writer(script: str, url: str) -> Iterator[None]:
    """A process that writes while the block runs; one that fails by itself is an error."""
    process = Program(script, url)
    try:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        yield
        assert process.poll() is None, process.communicate()[1]
    finally:
        process.kill()
        process.communicate()


def made(tmp_path: Path, name: str, codec: str, shards: Any, rows: int) -> str:
    url = str(tmp_path / "a.zarr")
    with hs.create(url, name, durable=False) as root:
        data = np.repeat(np.arange(rows)[:, None] + 1, 8, 1)
        root.create_array("a", data=data, chunks=(8, 8), shards=shards, codec=codec)
    return url


KEYS: list[Any] = [
    (slice(0, 8), slice(0, 3)),
    (slice(8, 16), slice(None)),
    (slice(3, 5), slice(1, 2)),
    (slice(0, 64, 9), 0),
    (slice(None), slice(None)),
    (slice(20, 23), 0),
]


@pytest.mark.covering
@LAYOUTS
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["no cache", "cache"])
def test_overwritten_chunks_are_never_old_or_torn(
    tmp_path: Path, name: str, codec: str, shards: Any, cache_bytes: int
) -> None:
    """A chunk is of one generation, and no read goes back behind what this reader saw of the chunk."""
    url = made(tmp_path, name, codec, shards, 64)
    array: Any = hs.open(url, cache_bytes=cache_bytes, workers=1)["a"]
    hs.open(url, "r+", durable=False)["a"][...] = 0
    newest = np.zeros(8, int)
    seen = set()
    with writer(OVERWRITE, url):
        for number in range(MOST):
            if number * len(KEYS) >= READS and len(seen) > 20:
                break
            for key in KEYS:
                rows = np.arange(64)[key[0]]
                first = array[key[0], 0] if key[1] == slice(1, 2) else array[key]
                first = first[:, 0] if first.ndim == 2 else first
                for chunk in np.unique(rows // 8):
                    found = np.unique(first[rows // 8 == chunk])
                    assert len(found) == 1, f"chunk {chunk} is torn in read {number}: {found}"
                    assert found[0] >= newest[chunk], f"chunk {chunk} went back from {newest[chunk]} to {found[0]}"
                    newest[chunk] = found[0]
            seen.add(int(newest[0]))
    assert len(seen) > 20, "the writer hardly wrote: nothing was tested"


@pytest.mark.covering
@LAYOUTS
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["no cache", "cache"])
def test_a_replaced_chunk_is_seen_at_once(tmp_path: Path, name: str, codec: str, shards: Any, cache_bytes: int) -> None:
    """What a write acknowledged is what every later read of an open array gives: no clock, no size tells them apart."""
    url = made(tmp_path, name, codec, shards, 64)
    array: Any = hs.open(url, cache_bytes=cache_bytes)["a"]
    other: Any = hs.open(url, "r+", durable=False)["a"]
    for value in range(1, 40):
        other[...] = value
        assert (array[1:3, 2:5] == value).all()
        assert (array[1:3, 2:5] == value).all()
        other[8:10, 1] = -value
        assert (array[7:11, 1] == [value, -value, -value, value]).all()
        assert array[40, 4] == value


@LAYOUTS
def test_a_chunk_that_comes_and_goes(tmp_path: Path, name: str, codec: str, shards: Any) -> None:
    """Erased chunks read as the fill value, and come back, through the caches."""
    url = made(tmp_path, name, codec, shards, 64)
    array: Any = hs.open(url)["a"]
    other: Any = hs.open(url, "r+", durable=False)["a"]
    for value in range(1, 16):
        other.resize((4, 8))
        other.resize((64, 8))
        assert (array[8:10, 0:2] == 0).all()
        assert array[3, 3] == (4 if value == 1 else value - 1)
        other[...] = value
        assert (array[8:10, 0:2] == value).all()


@pytest.mark.sampled(20)
@pytest.mark.covering
@LAYOUTS
@pytest.mark.parametrize("script", [APPEND, RESIZE], ids=["append", "resize"])
def test_the_shape_fits_the_cells(tmp_path: Path, name: str, codec: str, shards: Any, script: str) -> None:
    """Row i holds i + 1; only a row that a shrink took away between the two reads of this reader may be 0."""
    url = made(tmp_path, name, codec, shards, 8)
    array: Any = hs.open(url, workers=1)["a"]
    lengths = set()
    with writer(script, url):
        for number in range(MOST):
            if number >= READS // 2 and len(lengths) > 10:
                break
            array.refresh()
            length = array.shape[0]
            lengths.add(length)
            first = 0 if number % 3 else max(0, length - 9)
            cells = array[first:]  # once more, and fewer, where rows were taken away
            rows = np.arange(first, first + len(cells))
            right = cells == rows[:, None] + 1
            if not right.all():
                wrong = rows[~right.all(1)]
                assert (cells[~right.all(1)] == 0).all(), (length, wrong, cells[~right.all(1)])
                assert script is RESIZE or wrong[0] >= 5, "these rows are never taken away"
                array.refresh()
    assert len(lengths) > 10, "the writer hardly wrote: nothing was tested"
