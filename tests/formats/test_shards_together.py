"""Shards of few chunks, which are read several at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import CorruptChunk

CELLS = np.arange(1, 1601, dtype="<i4").reshape(40, 40)
SHARDS = [(2, 2), (2, 4), (4, 4), (6, 2)]


def _made(path: Path, shards: tuple[int, int]) -> hs.Array:
    with hs.create(path, format="zarr3", durable=False) as root:
        root.create_array("a", data=CELLS, chunks=(2, 2), shards=shards, fill_value=0)
    array = hs.open_group(path, workers=1)["a"]
    assert isinstance(array, hs.Array)
    return array


@pytest.mark.parametrize("shards", SHARDS)
def test_cells_of_many_shards(tmp_path: Path, shards: tuple[int, int]) -> None:
    array = _made(tmp_path / "x.zarr", shards)
    for key in (np.s_[:, :], np.s_[1:39, 3:38], np.s_[::3, ::-1], np.s_[7, :], np.s_[:, 5:6]):
        np.testing.assert_array_equal(array[key], CELLS[key])
        np.testing.assert_array_equal(array[key], CELLS[key])  # parts of chunks from the cache


@pytest.mark.parametrize("shards", SHARDS)
def test_each_shard_has_its_own_version_in_the_cache(tmp_path: Path, shards: tuple[int, int]) -> None:
    array, expected = _made(tmp_path / "x.zarr", shards), CELLS.copy()
    np.testing.assert_array_equal(array[1:-1, 1:-1], expected[1:-1, 1:-1])
    with hs.open_group(tmp_path / "x.zarr", "r+") as root:
        for at in ((1, 1), (20, 21), (38, 9)):
            root["a"][at] = expected[at] = -1
    np.testing.assert_array_equal(array[1:-1, 1:-1], expected[1:-1, 1:-1])


@pytest.mark.parametrize("shards", SHARDS)
def test_a_shard_that_is_missing_or_damaged_among_others(tmp_path: Path, shards: tuple[int, int]) -> None:
    array, expected = _made(tmp_path / "x.zarr", shards), CELLS.copy()
    (tmp_path / "x.zarr/a/c/1/1").unlink()
    expected[shards[0] : 2 * shards[0], shards[1] : 2 * shards[1]] = 0
    np.testing.assert_array_equal(array[...], expected)
    doomed = tmp_path / "x.zarr/a/c/2/3"
    data = bytearray(doomed.read_bytes())
    data[-1] ^= 1  # of the digest of its index
    doomed.write_bytes(data)
    looks = {
        "whole": lambda: array[...],
        "one chunk": lambda: array[2 * shards[0], 3 * shards[1]],
        "sizes": lambda: array.plan(np.s_[2 * shards[0], 3 * shards[1]]),
        "which chunks": lambda: list(array.lazy[...].cells.source.stored_coords()),
    }
    for look in looks.values():
        with pytest.raises(CorruptChunk, match=r"index of the shard is damaged: .*wrong checksum.*erase") as caught:
            look()
        assert caught.value.key == "a/c/2/3"
        assert caught.value.url == array.url


@pytest.mark.sampled(0)
def test_shards_that_take_more_than_their_cells(tmp_path: Path) -> None:
    """Memory for several of them at once is guessed by their cells."""
    random = np.random.default_rng(0).integers(0, 2**31, (24, 512)).astype("<i4")
    with hs.create(tmp_path / "x.zarr", format="zarr3", durable=False) as root:
        root.create_array("a", data=random, chunks=(1, 8), shards=(1, 8), codec=["crc32c"] * 100)
    np.testing.assert_array_equal(hs.open_group(tmp_path / "x.zarr", workers=1)["a"][...], random)
