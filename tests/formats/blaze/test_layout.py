"""What stands where: the specification's own examples, files left alone, columns, coordinates, several writers."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from spec_reader import read

import hyperslab as hs
from hyperslab.errors import AlreadyExists, Invalid, ReadOnly, Unsupported

FIELDS = np.dtype([("col1", "<i4"), ("col2", [("sc1", "<f8"), ("sc2", "<u2", (2, 3))]), ("col3", "S5")])


def rows_of(count: int, dtype: np.dtype = FIELDS) -> np.ndarray:
    raw = np.random.default_rng(3).integers(1, 60, count * dtype.itemsize, "u1")
    return np.frombuffer(raw.tobytes(), dtype)


def document(place: Path, name: str) -> dict:
    return json.loads((place / name).read_text())


@pytest.mark.sampled(0)
def test_ten_million_numbers_as_in_the_specification(tmp_path):
    """Requirements 34 and 35."""
    place = tmp_path / "a.blaze"
    cells = np.arange(1e7)
    with hs.create(place, durable=False) as root:
        root.create_array("data", data=cells)
    wanted = {"dtype": "float64", "cparams": {"shuffle": True, "clevel": 5}, "chunklen": 16384}
    wanted |= {"dflt": 0.0, "expectedlen": 10000000}
    assert document(place, "meta/storage") == wanted
    assert list(document(place, "meta/storage")) == list(wanted)
    sizes = document(place, "meta/sizes")
    assert sizes.pop("cbytes") == sum(path.stat().st_size for path in (place / "data").iterdir())
    assert sizes == {"shape": [10000000], "nbytes": 80000000}
    assert sorted(path.name for path in (place / "data").iterdir()) == ["__1__.bin", "__2__.bin", "__3__.bin"]
    np.testing.assert_array_equal(hs.open_array(place)[...], cells)


def test_appending_leaves_full_superchunks_alone(tmp_path):
    place = tmp_path / "a.blaze"
    with hs.create(place, superchunk=2, durable=False) as root:
        root.create_array("data", data=np.arange(64 * 20 - 5.0), chunks=10)
    before = {path.name: path.stat() for path in (place / "data").iterdir()}
    assert len(before) == 64
    with hs.open_group(place, "r+", durable=False) as root:
        root["data"].append(np.arange(50.0))
    after = {path.name: path.stat() for path in (place / "data").iterdir()}
    for number in range(1, 64):
        old, new = before[f"__{number}__.bin"], after[f"__{number}__.bin"]
        assert (old.st_ino, old.st_mtime_ns) == (new.st_ino, new.st_mtime_ns)
    assert before["__64__.bin"].st_ino != after["__64__.bin"].st_ino
    assert len(after) == 67
    np.testing.assert_array_equal(read(place), [*np.arange(64 * 20 - 5.0), *np.arange(50.0)])


def test_only_what_changes_is_written(tmp_path):
    place = tmp_path / "a.blaze"
    with hs.create(place, superchunk=2) as root:
        root.create_array("v", data=np.arange(100.0), chunks=10, dims=("x",), attrs={"a": 1})

    def files() -> dict[str, tuple[int, int]]:
        found = ((path, path.stat()) for path in place.rglob("*") if path.is_file())
        return {str(path.relative_to(place)): (status.st_ino, status.st_mtime_ns) for path, status in found}

    def changed() -> set[str]:
        nonlocal before
        now, old = files(), before
        before = now
        return {name for name in now.keys() | old.keys() if now.get(name) != old.get(name)} - {".lock"}

    before = files()
    with hs.open_group(place, "r+") as root:
        root["v"][33] = -1
        assert changed() == {"data/__2__.bin"}
        root["v"].attrs["a"] = 2
        assert changed() == {"meta/attributes"}
        root["v"].resize(95)
        assert changed() == {"meta/sizes", "data/__5__.bin"}
        root["v"].resize(40)
        assert changed() == {"meta/sizes", "data/__3__.bin", "data/__4__.bin", "data/__5__.bin"}
        root.create_array("x", data=np.arange(40), dims=("x",))
        assert changed() == {"meta/labels"}
        root.attrs["title"] = "all"
        assert changed() == {"meta/labels"}


@pytest.mark.parametrize("options", [{}, {"superchunk": 3, "checksum": "md5"}])
def test_a_column_read_alone_touches_its_files_only(tmp_path, options):
    place, rows = tmp_path / "a.blaze", rows_of(500)
    with hs.create(place, **options) as root:
        root.create_array("data", data=rows, chunks=40)
    assert read(place).tobytes() == rows.tobytes()
    (place / "data/col3").rename(place / "hidden")
    np.testing.assert_array_equal(hs.open_array(place)["col1"], rows["col1"])
    np.testing.assert_array_equal(hs.open_array(place)["col2", 7:300:5], rows["col2"][7:300:5])
    with hs.trace() as all_of_it:
        hs.open_array(place, path="col2/sc2")[...]
    stored = sum(path.stat().st_size for path in (place / "data/col2/sc2").iterdir())
    documents = sum(path.stat().st_size for path in (place / "meta").iterdir())
    assert stored <= all_of_it.bytes_read <= stored + 2 * documents
    column = hs.open_array(place, path="col2/sc2")
    assert (column.shape, column.dtype) == ((500, 2, 3), np.dtype("<u2"))
    np.testing.assert_array_equal(column[3:9, 1], rows["col2"]["sc2"][3:9, 1])
    np.testing.assert_array_equal(hs.open_array(place, path="col2")[5:9], rows["col2"][5:9])
    with pytest.raises(KeyError):
        hs.open(place, path="col2/nothing")


def test_a_column_is_changed_alone(tmp_path):
    place, rows = tmp_path / "a.blaze", rows_of(100).copy()
    with hs.create(place, superchunk=2) as root:
        root.create_array("data", data=rows, chunks=10)
    before = {path: path.stat().st_ino for path in (place / "data").rglob("*.bin")}
    with hs.open_group(place, "r+") as root:
        hs.open_array(place, "r+", path="col2/sc1")[15:40] = 7
        rows["col2"]["sc1"][15:40] = 7
        assert root["data"][...].tobytes() == rows.tobytes()
        touched = {path for path, inode in before.items() if path.stat().st_ino != inode}
        assert touched == {place / "data/col2/sc1" / f"__{number}__.bin" for number in (1, 2)}
        with pytest.raises(Unsupported):
            hs.open_array(place, "r+", path="col1").resize(50)


@pytest.mark.parametrize("path", ["col1", "col2", "col2/sc1"])
def test_a_field_grows_with_its_array_alone(tmp_path, path):
    hs.save(tmp_path / "a.blaze", rows_of(10))
    field = hs.open(tmp_path / "a.blaze", "r+", path=path)
    for change in (
        lambda: field.append(np.zeros((3, *field.shape[1:]), field.dtype)),
        lambda: field.resize((12, *field.shape[1:])),
        lambda: field.attrs.update(units="K"),
    ):
        with pytest.raises(Unsupported, match="with the array that it is of"):
            change()
    field[3] = np.ones((), field.dtype)
    np.testing.assert_array_equal(hs.open(tmp_path / "a.blaze", path=path)[3], np.ones((), field.dtype))


def test_the_first_array_becomes_a_coordinate_of_the_second(tmp_path):
    place = tmp_path / "a.blaze"
    with hs.create(place) as root:
        root.create_array("time", data=np.arange(4) * 6.0, dims=("time",), attrs={"units": "hours since 2000-01-01"})
        assert hs.open(place).name == "time"
        root.create_array("x", data=np.arange(3), dims=("x",))
        root.create_array("name", data=np.array(["a", "é", "c"], object), dtype=str, dims=("x",))
        root.create_array("v", data=np.ones((4, 3)), dims=("time", "x"), attrs={"coordinates": "name"})
        assert hs.open(place).name == "v"
    root = hs.open_group(place)
    assert list(root) == ["v", "time", "x", "name"]
    assert root["name"][...].tolist() == ["a", "é", "c"]
    assert root["v"].sel(time="2000-01-01T12", x=2) == 1
    np.testing.assert_array_equal(read(place), np.ones((4, 3)))
    with hs.open_group(place, "r+") as root:
        root["time"][1] = 7.0
        root["time"].append([24.0])
        del root["x"]
        with pytest.raises(Invalid, match="one array"):
            root["other"] = np.ones(5)
        with pytest.raises(AlreadyExists):
            root.create_array("v", shape=3)
    assert hs.open(place, path="time")[...].tolist() == [0, 7, 12, 18, 24]
    assert list(hs.open_group(place)) == ["v", "time", "name"]
    with pytest.raises(ReadOnly):
        hs.open(place, path="time")[0] = 1


def test_an_array_that_turns_out_to_be_a_coordinate_keeps_its_cells_and_the_group_its_attributes(tmp_path):
    place = tmp_path / "a.blaze"
    with hs.create(place) as root:
        root.attrs["title"] = "t"
        root.create_array("v", data=np.arange(4.0), dims=("x",))
        root.create_array("y", data=np.arange(3), dims=("y",))
        root["y"].attrs["coordinates"] = "v"
    root = hs.open_group(place)
    assert (list(root), dict(root.attrs)) == (["y", "v"], {"title": "t"})
    assert (root["y"][...].tolist(), root["v"][...].tolist()) == ([0, 1, 2], [0, 1, 2, 3])
    with hs.open_group(place, "r+") as root:
        del root["y"]
        root.create_array("w", data=np.ones((4, 2)), dims=("x", "z"), attrs={"coordinates": "v"})
    root = hs.open_group(place)
    assert (list(root), dict(root.attrs)) == (["w", "v"], {"title": "t"})


def test_names_change_and_nothing_else(tmp_path):
    place = tmp_path / "a.blaze"
    with hs.create(place) as root:
        root.create_array("v", data=np.arange(4.0), dims=("x",))
        root.create_array("x", data=np.arange(4), dims=("x",))
        root.move("v", "w")
        root.move("x", "y")
        with pytest.raises(AlreadyExists):
            root.move("w", "y")
        with pytest.raises(KeyError):
            root.move("nothing", "z")
        with pytest.raises(Unsupported):
            root.move("w", "g/w")
    assert list(hs.open_group(place)) == ["w", "y"]
    with hs.open_group(place, "r+") as root:
        del root["w"]
        assert list(root) == ["y"]
        root["w"] = np.arange(7)
        with pytest.raises(Invalid, match=r"w.*y|y.*w"):
            root.close()


def test_a_coordinate_that_is_left_alone_is_the_array(tmp_path):
    place = tmp_path / "a.blaze"
    with hs.create(place, superchunk=1) as root:
        root.create_array("v", data=np.ones((4, 2)), dims=("x", "y"))
        root.create_array("x", data=np.arange(4) * 2, dims=("x",), attrs={"units": "m"})
        del root["v"]
    array = hs.open(place)
    assert (array.name, array.units, array.dims) == ("x", "m", ("x",))
    np.testing.assert_array_equal(array[...], [0, 2, 4, 6])
    np.testing.assert_array_equal(read(place), [0, 2, 4, 6])
    with hs.open_group(place, "r+") as root:
        del root["x"]
        root["v"] = np.arange(7)
    assert list(hs.open_group(place)) == ["v"]


def test_coordinates_without_an_array_are_refused_at_the_end(tmp_path):
    with pytest.raises(Invalid, match=r"time, x|x, time"), hs.create(tmp_path / "a.blaze") as root:
        root.create_array("time", data=np.arange(4), dims=("time",))
        root.create_array("x", data=np.arange(3), dims=("x",))
    with hs.create(tmp_path / "b.blaze") as root, pytest.raises(Unsupported, match="groups"):
        root.create_group("g")
    with pytest.raises(Unsupported, match="text"), hs.create(tmp_path / "c.blaze") as root:
        root.create_array("t", data=np.array(["a", "bc"], object), dtype=str)


def test_other_wishes_are_fitted_or_refused(tmp_path):
    with hs.create(tmp_path / "a.blaze", superchunk=2) as root:
        array = root.create_array("data", data=np.arange(600.0).reshape(30, 20), chunks=(10, 5), codec="blosc:zstd:3")
        assert (array.chunks, array.shards) == ((2, 20), (4, 20))
    assert document(tmp_path / "a.blaze", "meta/superchunks")["cname"] == "zstd"
    for wish, match in [
        ({"codec": "gzip:3"}, "blosc"),
        ({"codec": "shuffle+blosc:lz4"}, "blosc"),
        ({"dtype": bytes}, "format blaze"),
        ({"dtype": "f16" if np.dtype("f8") == np.longdouble else "g"}, "format blaze"),
    ]:
        with hs.create(tmp_path / "b.blaze", overwrite=True) as root, pytest.raises(Unsupported, match=match):
            root.create_array("data", shape=30, **wish)
    for options, match in [({"layout": "v3"}, "layout"), ({"checksum": "sha3"}, "checksum"), ({"superchunk": 0}, "1")]:
        with pytest.raises(Invalid, match=match):
            hs.create(tmp_path / "c.blaze", **options)


def test_rows_of_the_other_kind_do_not_grow(tmp_path):
    with hs.create(tmp_path / "a.blaze") as root:
        array = root.create_array("data", data=np.zeros((4, 3)))
        with pytest.raises(Unsupported, match="first dimension"):
            array.resize((4, 5))
        with pytest.raises(Unsupported, match="first dimension"):
            array.append(np.zeros((4, 1)), dim=1)
        assert array.shape == (4, 3)


@pytest.mark.parametrize("layout", ["blaze", "bcolz"])
def test_several_writers_lose_nothing(tmp_path, layout):
    """Four threads with datasets of their own: cells of the same chunks, and rows at the end."""
    place = tmp_path / "a.blaze"
    with hs.create(place, layout=layout, durable=False) as root:
        root.create_array("data", shape=(40, 4), dtype="i4", chunks=(7, 4))

    def work(column: int) -> None:
        with hs.open_group(place, "r+", durable=False) as mine:
            array = mine["data"]
            for row in range(40):
                array[row, column] = row + 1
                if row % 8 == 0:
                    array.append(np.full((3, 4), 100 + column))

    threads = [threading.Thread(target=work, args=(column,)) for column in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = hs.open_array(place)[...]
    np.testing.assert_array_equal(found[:40], np.tile(np.arange(1, 41), (4, 1)).T)
    assert sorted(found[40:, 0].tolist()) == sorted([100, 101, 102, 103] * 15)
    np.testing.assert_array_equal(read(place), found)
    assert not hs.check(place, deep=True)


def test_an_older_handle_keeps_the_rows_of_others(tmp_path):
    place = tmp_path / "a.blaze"
    with hs.create(place, superchunk=2) as root:
        root.create_array("data", data=np.arange(15.0), chunks=10)
    old = hs.open_array(place, "r+")
    with hs.open_group(place, "r+") as root:
        root["data"].append(np.arange(15.0, 48.0))
    old[:] = -old[:]
    np.testing.assert_array_equal(hs.open_array(place)[...], [*-np.arange(15.0), *np.arange(15.0, 48.0)])


def test_xarray_comes_back(tmp_path):
    time = np.arange("2000-01-01", "2000-02-20", dtype="M8[D]").astype("M8[ns]")
    dataset = xr.Dataset(
        {"air": (("time", "lat"), np.random.default_rng(1).random((50, 20), "f4"), {"units": "K"})},
        coords={
            "time": time,
            "lat": np.linspace(-80, 80, 20),
            "height": 2.0,
            "land": ("lat", np.arange(20) % 3 == 0),
        },
        attrs={"title": "x"},
    )
    dataset.hyperslab.save(tmp_path / "a.blaze")
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "a.blaze").load(), dataset)
    more = dataset.assign_coords(time=time + np.timedelta64(50, "D"))
    more.hyperslab.save(tmp_path / "a.blaze", append_dim="time")
    whole = xr.concat([dataset, more], "time", data_vars="minimal", coords="minimal")
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "a.blaze").load(), whole)
    dataset.air.hyperslab.save(tmp_path / "b.blaze", mode="w", chunks={"time": 9})
    xr.testing.assert_identical(xr.open_dataarray(tmp_path / "b.blaze", engine="hyperslab").load(), dataset.air)
    assert hs.open_array(tmp_path / "b.blaze").chunks == (9, 20)
    dataset.chunk(time=7).hyperslab.save(tmp_path / "c.blaze")
    lazy = xr.open_dataset(tmp_path / "c.blaze", chunks={})
    xr.testing.assert_identical(lazy.load(), dataset)
    with pytest.raises(Invalid, match="air, b"):
        dataset.assign(b=dataset.air).hyperslab.save(tmp_path / "d.blaze")
    assert not (tmp_path / "d.blaze").exists()


@pytest.mark.parametrize("dtype", [np.dtype("i4"), np.dtype([("a", "i4"), ("b", [("c", "i4")])])])
def test_threads_share_one_dataset(tmp_path, dtype):
    with hs.create(tmp_path / "a.blaze", superchunk=2, durable=False) as root:
        array = root.create_array("data", shape=(120,), dtype=dtype, chunks=7)

        def work(first: int) -> None:
            for row in range(first, 120, 4):
                array[row] = row if dtype.names is None else np.array((row, (row,)), dtype)

        threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = read(tmp_path / "a.blaze")
    np.testing.assert_array_equal(found if dtype.names is None else found["b"]["c"], np.arange(120))


@pytest.mark.parametrize("slack", [64, 0.5, "full"])
def test_room_within_chunks(tmp_path, slack):
    """Each chunk says that it takes more than Blosc needs, so that any version of it may take its place."""
    rows = np.repeat(np.arange(40.0), 100).reshape(40, 100)
    plain, roomy = tmp_path / "a.blaze", tmp_path / "b.blaze"
    for place, options in ((plain, {}), (roomy, {"slack": slack})):
        with hs.create(place, **options) as root:
            root.create_array("data", data=rows, chunks=(4, 100))
        with hs.open_group(place, "r+") as root:
            root["data"].append(rows[:6])
            root["data"].attrs["a"] = 1
    assert document(roomy, "meta/superchunks")["slack"] == slack
    np.testing.assert_array_equal(read(roomy), read(plain))
    np.testing.assert_array_equal(hs.open_array(roomy)[...], hs.open_array(plain)[...])
    assert not hs.check(roomy, deep=True)
    sizes = [sum(path.stat().st_size for path in (place / "data").iterdir()) for place in (plain, roomy)]
    assert sizes[1] - sizes[0] >= 12 * 40
    if slack == "full":
        assert sizes[1] >= rows.nbytes + 16 * 10
    with pytest.raises(Invalid, match="slack"):
        hs.create(tmp_path / "c.blaze", slack=-1)
    with pytest.raises(Invalid, match="slack"):
        hs.create(tmp_path / "c.blaze", slack=slack, layout="bcolz")
