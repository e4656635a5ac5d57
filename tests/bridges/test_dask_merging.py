"""Small blocks of dask arrays are merged to the chunks that they are for, as far as memory has room."""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.bridges import overlaps

DAYS = 365


def days(names: str, first: int, count: int, **options: Any) -> xr.Dataset:
    cells = da.arange(first * 10, (first + count) * 10, chunks=10, dtype="f8", **options).reshape((count, 10))
    assert cells.chunks[0] == (1,) * count
    time = np.arange(first, first + count)
    return xr.Dataset(dict.fromkeys(names, (("time", "x"), cells)), coords={"time": time})


def writes_of_append(place: Path, names: str) -> int:
    """Append a year of days behind 30 of them, in chunks of 60 days; how many chunks were written is the answer."""
    first = days(names, 0, 30).compute()
    first.hyperslab.save(place, chunks={"time": 60, "x": 5}, unlimited_dims="time")
    with hs.trace() as cost:
        days(names, 30, DAYS).hyperslab.save(place, append_dim="time")
    root = hs.open(place)
    for name in names:
        np.testing.assert_array_equal(root[name][:], np.arange((30 + DAYS) * 10.0).reshape(-1, 10))
    return cost.chunks


@pytest.mark.covering
@pytest.mark.parametrize("names", ["a", "ab"])
@pytest.mark.parametrize("place", ["a.zarr", "a.nczarr", "a.nc", "a.zip"])
def test_days_are_appended_to_chunks_of_many(tmp_path: Path, place: str, names: str) -> None:
    chunks = 7  # of 60 days that 365 behind 30 lie in
    assert writes_of_append(tmp_path / place, names) <= chunks * (2 * len(names) + 1) + 2


def test_blocks_are_merged_only_as_far_as_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlaps, "_ROOM", 20 * 10 * 8)
    assert 2 * 18 <= writes_of_append(tmp_path / "a.zarr", "ab") // 2 <= 2 * 26


def test_blocks_that_straddle_chunks_are_cut_there(tmp_path: Path) -> None:
    root = hs.create(tmp_path / "a.zarr")
    array = root.create_array("a", shape=(400,), dtype="f8", chunks=(60,))
    cells = np.arange(394.0)
    with hs.trace() as cost:
        array.lazy[6:].write(da.from_array(cells, chunks=7))
    assert cost.chunks == 7
    np.testing.assert_array_equal(array[6:], cells)


def test_blocks_made_of_the_array_itself_stay_whole(tmp_path: Path) -> None:
    root = hs.create(tmp_path / "a.zarr")
    array = root.create_array("a", data=np.arange(400.0), chunks=(60,))
    array[:] = array.to_dask(chunks=7) + 1
    np.testing.assert_array_equal(array[:], np.arange(400.0) + 1)


def test_blocks_that_are_longer_than_told_are_refused(tmp_path: Path) -> None:
    root = hs.create(tmp_path / "a.zarr")
    array = root.create_array("a", shape=(20,), dtype="f8", chunks=(3,))
    wrong = da.zeros(20, chunks=5).map_blocks(lambda block: np.zeros(7), chunks=((5,) * 4,), dtype="f8")
    with pytest.raises(hs.errors.Invalid, match=r"is of shape \(7,\), dask had told \(5,\)"):
        array[:] = wrong
    with pytest.raises(hs.errors.Invalid, match=r"is of shape \(7,\), dask had told \(5,\)"):
        array.append(wrong)
    assert array.shape == (20,)
