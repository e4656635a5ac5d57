"""Shards: split by superchunk and joined again without decoding; a list of them on different stores reads as one."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from spec_reader import read

import hyperslab as hs
from forked import cluster
from hyperslab.errors import AlreadyExists, FormatError, Invalid, Unsupported
from hyperslab.stores.location import Location
from servers.s3 import S3

FIELDS = np.dtype([("a", "<i4"), ("b", [("c", "<f4", (2,)), ("d", "S3")])])
CELLS = np.arange(230 * 6, dtype="<i4").reshape(230, 6)


@pytest.fixture
def whole(tmp_path):
    """Superchunks of 20 rows, a coordinate along the rows and one across them."""
    with hs.create(tmp_path / "whole.blaze", superchunk=4) as root:
        root.create_array("air", data=CELLS, chunks=(5, 6), dims=("t", "x"), attrs={"units": "K"})
        root.create_array("t", data=np.arange(230) * 0.5, dims=("t",))
        root.create_array("x", data=np.arange(6) * 10, dims=("x",))
    return tmp_path / "whole.blaze"


def files(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in (place / "data").rglob("*.b*")}


def test_three_stores_read_as_one(whole, tmp_path, s3: S3):
    places = [tmp_path / "a.blaze", tmp_path / "b.blaze.zip", f"s3://{s3.bucket()}/c.blaze"]
    hs.shard(whole, places, storage_options=s3.options)
    array = hs.open_array(places, storage_options=s3.options)
    np.testing.assert_array_equal(array[...], CELLS)
    np.testing.assert_array_equal(array[::-3, 2:], CELLS[::-3, 2:])
    np.testing.assert_array_equal(array[[200, 3, 110, 3]], CELLS[[200, 3, 110, 3]])
    assert (array.chunks, array.shards, array.dims, dict(array.attrs)) == ((5, 6), (20, 6), ("t", "x"), {"units": "K"})
    assert array.sel(t=100.5, x=30) == CELLS[201, 3]
    np.testing.assert_array_equal(array.to_dask(), CELLS)
    root = hs.open_group(places, storage_options=s3.options)
    np.testing.assert_array_equal(root["t"][...], np.arange(230) * 0.5)
    assert not hs.check(places, deep=True, storage_options=s3.options)
    parts = [hs.open_array(place, storage_options=s3.options if "s3" in str(place) else None) for place in places]
    np.testing.assert_array_equal(np.concatenate([part[...] for part in parts]), CELLS)
    assert [part.shape[0] % 20 for part in parts] == [0, 0, 10]
    with pytest.raises(Unsupported, match="only read"):
        hs.open(places, "r+", storage_options=s3.options)
    hs.gather(places, tmp_path / "again.blaze", storage_options=s3.options)
    assert files(tmp_path / "again.blaze") == files(whole)
    for name in ("sizes", "storage", "superchunks", "attributes", "labels"):
        assert (tmp_path / "again.blaze/meta" / name).read_text() == (whole / "meta" / name).read_text()


def test_a_cluster_reads_shards(whole, tmp_path, s3: S3, monkeypatch):
    names = {"access_key_id": "AWS_ACCESS_KEY_ID", "secret_access_key": "AWS_SECRET_ACCESS_KEY"}
    names |= {"endpoint": "AWS_ENDPOINT", "region": "AWS_REGION"}
    for option, name in names.items():
        monkeypatch.setenv(name, s3.options[option])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    places = [tmp_path / "a.blaze", tmp_path / "b.blaze.zip", f"s3://{s3.bucket()}/c.blaze"]
    hs.shard(whole, places)
    array = hs.open_array(places)
    assert pickle.loads(pickle.dumps(array))[17].tolist() == CELLS[17].tolist()
    with cluster():
        np.testing.assert_array_equal(array.to_dask(), CELLS)
        dataset = xr.open_dataset(places, engine="hyperslab", chunks={})
        np.testing.assert_array_equal((dataset.air + 1).sum("t"), (CELLS + 1).sum(0))


def test_secrets_stay_here(whole, tmp_path, s3: S3):
    places = [tmp_path / "a.blaze", f"s3://{s3.bucket()}/c.blaze"]
    hs.shard(whole, places, storage_options=s3.options)
    where = Location.of(places, s3.options)
    assert "canary" not in repr(where) and b"canary" not in pickle.dumps(where)
    with pytest.raises(Invalid, match="secrets"):
        pickle.dumps(hs.open_array(places, storage_options=s3.options))


@pytest.mark.covering
@pytest.mark.parametrize("layout", ["blaze", "bcolz"])
@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_split_and_joined(tmp_path, layout, count):
    cells = np.arange(230.0)
    options = {"superchunk": 4} if layout == "blaze" else {}
    with hs.create(tmp_path / "a.blaze", layout=layout, **options) as root:
        root.create_array("data", data=cells, chunks=5)
    places = [tmp_path / f"{number}.blaze" for number in range(count)]
    hs.shard(tmp_path / "a.blaze", places)
    np.testing.assert_array_equal(hs.open_array(places)[...], cells)
    np.testing.assert_array_equal(np.concatenate([read(place) for place in places]), cells)
    hs.gather(places, tmp_path / "b.blaze")
    assert files(tmp_path / "b.blaze") == files(tmp_path / "a.blaze")
    np.testing.assert_array_equal(read(tmp_path / "b.blaze"), cells)


def test_columns_are_split_alike(tmp_path):
    rows = np.frombuffer(np.random.default_rng(5).integers(1, 60, 100 * FIELDS.itemsize, "u1").tobytes(), FIELDS)
    with hs.create(tmp_path / "a.blaze", superchunk=2) as root:
        root.create_array("data", data=rows, chunks=7)
    places = [tmp_path / f"{number}.blaze" for number in range(3)]
    hs.shard(tmp_path / "a.blaze", places)
    assert hs.open_array(places)[...].tobytes() == rows.tobytes()
    np.testing.assert_array_equal(hs.open_array(places, path="b/c")[...], rows["b"]["c"])
    np.testing.assert_array_equal(hs.open_array(places)["a"], rows["a"])
    hs.gather(places, tmp_path / "b.blaze")
    assert read(tmp_path / "b.blaze").tobytes() == rows.tobytes()


def test_shards_that_grew_are_read_and_not_gathered(whole, tmp_path):
    places = [tmp_path / "a.blaze", tmp_path / "b.blaze"]
    hs.shard(whole, places)
    with hs.open_group(places[0], "r+") as root:
        root["air"].append(-CELLS[:5])
        root["t"].append(np.arange(5) * 0.5 + 1000)
    first = len(hs.open_array(places[0]))
    wanted = np.concatenate([CELLS[: first - 5], -CELLS[:5], CELLS[first - 5 :]])
    np.testing.assert_array_equal(hs.open_array(places)[...], wanted)
    np.testing.assert_array_equal(hs.open_array(places)[::-7], wanted[::-7])
    with pytest.raises(Invalid, match="superchunks"):
        hs.gather(places, tmp_path / "c.blaze")
    assert not (tmp_path / "c.blaze").exists()


@pytest.mark.parametrize("kind", [str, Path])
def test_one_place_is_no_list_of_letters(whole, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match=r"one place where a list is meant.*part"):
        hs.shard(whole, kind("part"))
    with pytest.raises(Invalid, match=r"one place where a list is meant.*whole"):
        hs.gather(kind("whole.blaze"), "joined.blaze")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["whole.blaze"]


def test_what_is_refused(whole, tmp_path):
    with pytest.raises(Invalid, match="13 shards of 12 superchunks"):
        hs.shard(whole, [tmp_path / f"{number}" for number in range(13)])
    (tmp_path / "file").write_text("another's")
    with pytest.raises(AlreadyExists, match="the target exists"):
        hs.gather([whole], tmp_path / "file")
    (tmp_path / "file").unlink()
    with pytest.raises(AlreadyExists):
        hs.shard(whole, [tmp_path / "new.blaze", whole])
    with hs.create(tmp_path / "other.blaze") as root:
        root.create_array("data", data=np.arange(7.0))
    with pytest.raises(Invalid, match=r"other\.blaze holds rows of"):
        hs.open([whole, tmp_path / "other.blaze"])[...]
    with pytest.raises(Invalid, match="empty list"):
        hs.open([])
    with pytest.raises(Invalid, match="places within a list"):
        hs.open([whole, [whole]])
    with hs.create(tmp_path / "z.zarr") as root:
        root.create_array("data", data=np.arange(7.0))
    with pytest.raises(Invalid, match="joined"):
        hs.open([tmp_path / "z.zarr", tmp_path / "z.zarr"])
    with pytest.raises(FormatError, match="blaze"):
        hs.shard(tmp_path / "z.zarr", [tmp_path / "new.blaze"])
    assert sorted(os.listdir(tmp_path)) == ["new.blaze", "other.blaze", "whole.blaze", "z.zarr"]


def test_dask_over_shards(whole, tmp_path):
    places = [tmp_path / f"{number}.blaze" for number in range(3)]
    hs.shard(whole, places)
    lazy = hs.open_array(places).to_dask()
    assert isinstance(lazy, da.Array) and lazy.chunks[0][0] == 20
    np.testing.assert_array_equal(lazy[37:].mean(0), CELLS[37:].mean(0))
