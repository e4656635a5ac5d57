"""``hyperslab append``: cells, datasets, one array or all along a dimension, and what is refused."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.array import Array
from hyperslab.cli import main
from hyperslab.conversion import append
from hyperslab.conversion.append import append_cells, append_dataset
from hyperslab.errors import AlreadyExists, FormatError, Invalid, NodeNotFound, NotFound

AIR = np.arange(24.0).reshape(6, 4)


def made(path: Path, rows: slice, format: str | None = None, *, units: str = "hours since 2020-01-01") -> Path:
    with hs.create(path, format) as root:
        root.create_array("air", shape=(0, 4), dtype="f8", dims=("time", "x"), chunks=(2, 4))
        root["air"].append(AIR[rows])
        root.create_array("time", shape=(0,), dtype="i4", dims=("time",), chunks=(4,), attrs={"units": units})
        root["time"].append(np.arange(6)[rows])
    return path


def several(path: Path, rows: slice) -> Path:
    made(path, rows)
    with hs.open_group(path, "r+") as root:
        root.create_array("g/wind", data=AIR[rows] * 2, dims=("time", "x"))
        root.create_array("still", data=AIR[0], dims=("x",))
    return path


@pytest.mark.parametrize("suffix", [".b2nd", ".blp", ".blaze"])
def test_the_first_dimension_of_the_array_where_other_coordinates_stand_beside_it(tmp_path: Path, suffix: str) -> None:
    target, more = made(tmp_path / f"a{suffix}", slice(0, 2)), made(tmp_path / "b.zarr", slice(2, 6))
    for path, rows in ((target, slice(0, 2)), (more, slice(2, 6))):
        with hs.open_group(path, "r+") as root:
            root["air"].attrs["coordinates"] = "height age"
            root.create_array("height", data=np.float64(2))
            root.create_array("age", data=np.arange(6)[rows], dims=("time",))
    done = append_dataset(target, more)
    assert (done.dimension, done.rows, sorted(done.arrays)) == ("time", 4, ["age", "air", "time"])
    with hs.open_group(target) as root:
        assert np.array_equal(root["air"][...], AIR)
        assert root["age"][...].tolist() == root["time"][...].tolist() == list(range(6))


@pytest.mark.covering
@pytest.mark.parametrize("suffix", [".zarr", ".nc", ".b2nd", ".blp", ".blaze"])
@pytest.mark.parametrize("source", [".zarr", ".b2nd"])
def test_a_dataset_behind_another(tmp_path: Path, suffix: str, source: str) -> None:
    target, more = made(tmp_path / f"a{suffix}", slice(0, 2)), made(tmp_path / f"b{source}", slice(2, 6))
    done = append_dataset(target, more)
    assert (done.dimension, done.rows, done.arrays, done.shorter) == ("time", 4, ("air", "time"), ())
    with hs.open_group(target) as root:
        assert np.array_equal(root["air"][...], AIR)
        assert root["time"][...].tolist() == list(range(6))


def test_every_array_along_the_dimension(tmp_path: Path) -> None:
    target, more = several(tmp_path / "a.zarr", slice(0, 3)), several(tmp_path / "b.zarr", slice(3, 6))
    with pytest.raises(Invalid, match="--dim"):
        append_dataset(target, more)
    assert append_dataset(target, more, dim="time").arrays == ("air", "g/wind", "time")
    with hs.open_group(target) as root:
        assert np.array_equal(root["g/wind"][...], AIR * 2)
        assert root["still"].shape == (4,)
        assert root["time"].shape == (6,)


def test_one_array_with_its_coordinate(tmp_path: Path) -> None:
    target, more = several(tmp_path / "a.zarr", slice(0, 3)), made(tmp_path / "b.b2nd", slice(3, 6))
    assert append_dataset(target, more, path="/air").arrays == ("air", "time")
    with hs.open_group(target) as root:
        assert root["air"].shape == (6, 4)
        assert root["g/wind"].shape == (3, 4)


@pytest.mark.parametrize("slab", [1, 100, 1 << 20])
def test_cells_along_any_dimension(tmp_path: Path, slab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append, "_SLAB", slab)
    target = made(tmp_path / "a.zarr", slice(0, 6))
    assert append_cells(target, AIR[:, :2], dim="x").dimension == "x"
    done = append_cells(target, np.ones((3, 6)))
    assert (done.rows, done.shorter) == (3, ("time",))
    with hs.open_group(target) as root:
        assert np.array_equal(root["air"][...], np.vstack([np.hstack([AIR, AIR[:, :2]]), np.ones((3, 6))]))


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    target = several(tmp_path / "a.zarr", slice(0, 3))
    other = made(tmp_path / "b.zarr", slice(3, 6), units="minutes since 2020-01-01")
    before = {file: file.read_bytes() for file in target.rglob("*") if file.is_file()}
    with pytest.raises(Invalid, match="no whole numbers"):
        append_dataset(target, other, "air")
    with pytest.raises(Invalid, match="no array for /g/wind"):
        append_dataset(target, made(tmp_path / "c.zarr", slice(0, 1)), dim="time")
    for wrong, how in [(AIR[:, :3], {}), (AIR[0], {}), (AIR, {"dim": "y"})]:
        with pytest.raises(Invalid):
            append_cells(target, wrong, "air", **how)
    with pytest.raises(Invalid, match="air, g/wind, still"):
        append_cells(target, AIR)
    with pytest.raises(Invalid, match="is a group"):
        append_cells(target, AIR, "g")
    with pytest.raises(NodeNotFound):
        append_cells(target, AIR, "ari")
    with pytest.raises(Invalid, match="no array has a dimension 'y'"):
        append_dataset(target, other, dim="y")
    with pytest.raises(Invalid, match=r"to itself \[.*; copy it first"):
        append_dataset(target, target)
    assert {file: file.read_bytes() for file in target.rglob("*") if file.is_file()} == before


def test_labels_go_on_in_order(tmp_path: Path) -> None:
    target, again = made(tmp_path / "a.zarr", slice(0, 3)), made(tmp_path / "b.zarr", slice(1, 5))
    said = r"'time' has the label 2020-01-01T01:00:00 already, and 1 more .*node=/time\]; leave these rows out"
    with pytest.raises(Invalid, match=said):
        append_dataset(target, again)
    with pytest.raises(Invalid, match="2020-01-01T00:00:00 behind 2020-01-01T02:00:00"):
        append_cells(target, np.zeros(1, "i4"), "time")
    later, earlier = made(tmp_path / "late.zarr", slice(3, 5)), made(tmp_path / "first.zarr", slice(0, 3))
    with pytest.raises(Invalid, match=r"T02:00:00 behind .*: are target and source the wrong way round"):
        append_dataset(later, earlier)
    falling = made(tmp_path / "c.zarr", slice(4, 2, -1))
    with pytest.raises(Invalid, match="T05:00:00 behind 2020-01-01T03:00:00"):
        append_dataset(falling, made(tmp_path / "e.zarr", slice(5, 6)))
    append_dataset(falling, made(tmp_path / "d.zarr", slice(2, None, -1)))
    with hs.open_group(falling) as root:
        assert root["time"][...].tolist() == [4, 3, 2, 1, 0]
    with hs.open_group(target) as root:
        assert root["time"].shape == (3,)


def test_times_rise_from_a_single_one(tmp_path: Path) -> None:
    late, first, next_one = (made(tmp_path / f"{row}.zarr", slice(row, row + 1)) for row in (5, 0, 1))
    unordered = made(tmp_path / "unordered.zarr", slice(1, 3))
    with pytest.raises(Invalid, match=r"T00:00:00 behind 2020-01-01T05:00:00 .*wrong way round.*--repeated allow"):
        append_dataset(late, first)
    with pytest.raises(Invalid, match="T01:00:00 to 2020-01-01T02:00:00 behind"):
        append_dataset(late, unordered)
    with pytest.raises(Invalid, match="T00:00:00 behind"):
        append_cells(late, np.zeros(1, "i4"), "time")
    append_dataset(first, next_one)
    append_dataset(first, late)
    append_dataset(late, next_one, repeated="allow")
    for path, want in ((first, [0, 1, 5]), (late, [5, 1])):
        with hs.open_group(path) as root:
            assert root["time"][...].tolist() == want


def on_grid(path: Path, time: int, *, times: str = "hours since 2020-01-01", **labels: Any) -> Path:
    """Make a dataset of one time on a grid with these labels; ``attrs`` of a dimension beside its labels."""
    with hs.create(path) as root:
        root.create_array("air", data=np.full((1, 3), float(time)), dims=("time", "x"))
        root.create_array("wind", data=np.full((1, 3), 1.0), dims=("time", "x"))
        root.create_array("time", data=np.array([time]), dims=("time",), attrs={"units": times})
        for name, (cells, attrs) in labels.items():
            root.create_array(name, data=np.asarray(cells), dims=(name,), attrs=attrs)
    return path


@pytest.mark.parametrize(
    ("stored", "rows", "words"),
    [
        (([10.0, 5.0, 0.0], {}), ([10.0, 5.0, 0.0], {}), None),
        ((np.array([0.1, 0.2, np.nan], "f4"), {}), (np.array([0.1, 0.2, np.nan], "f4").astype("f8"), {}), None),
        (([1, 2, 3], {}), ([1.0, 2.0, 3.0], {}), None),
        (([100, 50, 0], {"scale_factor": 0.5}), ([50.0, 25.0, 0.0], {}), None),
        (([0, 24, 48], {"units": "hours since 2020-01-01"}), ([0, 1, 2], {"units": "days since 2020-01-01"}), None),
        ((np.array(["a", "b", "c"], "T"), {}), (np.array([b"a", b"b", b"c"]), {}), None),
        (([10.0, 5.0, 0.0], {}), ([0.0, 5.0, 10.0], {}), r"labels of 'x' .*other way.*convert -s x=::-1"),
        (([-180.0, -60.0, 60.0], {}), ([0.0, 120.0, 240.0], {}), r"labels of 'x' are not .*select or reindex"),
        (([0, 1, 2], {"units": "hours since 2020-01-01"}), ([0, 1, 2], {"units": "days since 2020-01-01"}), "of 'x'"),
        ((np.array(["a", "b", "c"], "T"), {}), (np.array([b"a", b"b", b"d"]), {}), "labels of 'x'"),
        ((np.array(["a", "b", "c"], "T"), {}), ([1, 2, 3], {}), "labels of 'x'"),
    ],
)
def test_rows_of_another_grid_are_refused(tmp_path: Path, stored: Any, rows: Any, words: str | None) -> None:
    """As ``save(append_dim=)`` and the join do; labels are compared by their meaning, whatever their types."""
    target, more = on_grid(tmp_path / "a.zarr", 1, x=stored), on_grid(tmp_path / "b.zarr", 2, x=rows)
    if words is None:
        assert append_dataset(target, more, dim="time").rows == 1
        return
    for how in ({}, {"path": "air"}, {"repeated": "allow"}):
        with pytest.raises(Invalid, match=words):
            append_dataset(target, more, dim="time", **how)
    with hs.open_group(target) as root:
        assert (root["air"].shape, root["time"].shape) == ((1, 3), (1,))


def on_curve(path: Path, time: int, named: bool = True, **changes: Any) -> Path:
    """Make a dataset of one time on a curved grid: longitude and latitude are cells of two dimensions."""
    lat, lon = np.meshgrid([50.0, 51.0], [5.0, 6.0, 7.0], indexing="ij")
    cells = {"lat": lat, "lon": lon + lat / 100, "height": np.float64(2)} | changes
    attrs = {"coordinates": "lat lon height age"} if named else {}
    with hs.create(path) as root:
        root.create_array("time", shape=(0,), dtype="i4", dims=("time",), attrs={"units": "hours since 2020-01-01"})
        root.create_array("age", shape=(0,), dtype="i4", dims=("time",))
        for name in ("air", "wind"):
            root.create_array(name, shape=(0, 2, 3), dtype="f8", dims=("time", "y", "x"), attrs=attrs)
        for name in ("air", "wind", "age", "time"):
            root[name].append(np.full((1, *root[name].shape[1:]), time))
        for name, units in (("lat", "degrees_north"), ("lon", "degrees_east"), ("height", "m")):
            if cells[name] is not None:
                data = np.asarray(cells[name])
                root.create_array(name, data=data, dims=("y", "x")[: data.ndim], attrs={"units": units})
    return path


LAT = np.repeat([[50.0], [51.0]], 3, axis=1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"lat": LAT.astype("f4")}, None),
        ({"lat": LAT + 1}, r"labels of 'lat' are not .*select or reindex"),
        ({"lat": LAT[::-1]}, r"labels of 'lat' .*other way.*convert -s y=::-1"),
        ({"height": np.float64(10)}, r"labels of 'height' are not .*leave it out"),
        ({"lat": None, "height": None}, None),
    ],
)
@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_rows_of_another_curved_grid_are_refused(tmp_path: Path, suffix: str, changes: Any, words: str | None) -> None:
    """Coordinates of any rank are compared, but for those along the dimension that grows; also by ``save``."""
    target, more = on_curve(tmp_path / f"a{suffix}", 1), on_curve(tmp_path / f"b{suffix}", 2, **changes)
    with hs.open_group(more) as root:
        rows = root.to_xarray().load()
    if words is None:
        assert append_dataset(target, more, dim="time").rows == 1
        hs.save(target, rows.assign_coords(time=rows["time"] + np.timedelta64(1, "h")), append_dim="time")
        with hs.open_group(target) as root:
            assert root["age"][...].tolist() == [1, 2, 2]
        return
    for how in ({}, {"path": "air"}, {"repeated": "allow"}):
        with pytest.raises(Invalid, match=words) as caught:
            append_dataset(target, more, dim="time", **how)
        assert caught.value.node == str(words.split("'")[1])
    with pytest.raises(Invalid, match=words):
        hs.save(target, rows, append_dim="time")
    with hs.open_group(target) as root:
        assert (root["air"].shape, root["time"].shape) == ((1, 2, 3), (1,))


class ReadKeys(dict[str, bytes]):
    """A place in memory that keeps the keys that are read."""

    def __init__(self, folder: Path) -> None:
        files = (path for path in folder.rglob("*") if path.is_file())
        super().__init__({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})
        self.keys_read: list[str] = []

    def get(self, key: str, default: Any = None) -> Any:
        self.keys_read.append(key)
        return super().get(key, default)


def test_a_curved_grid_is_known_by_its_units_and_read_once(tmp_path: Path) -> None:
    """Where no attribute names the coordinates their roles in CF do; several arrays share them."""
    target, same = (ReadKeys(on_curve(tmp_path / f"{time}.zarr", time, named=False)) for time in (1, 2))
    append_dataset(target, same, dim="time")
    for place in (target, same):
        chunks = [key for key in place.keys_read if key.startswith(("lat/c", "lon/c", "height/c"))]
        assert sorted(chunks) == ["lat/c/0/0", "lon/c/0/0"]
    other = on_curve(tmp_path / "3.zarr", 3, named=False, lat=LAT + 1)
    with pytest.raises(Invalid, match="labels of 'lat'"):
        append_dataset(target, other, dim="time")


def test_labels_that_one_side_alone_has_are_not_compared(tmp_path: Path) -> None:
    target, more = on_grid(tmp_path / "a.zarr", 1), on_grid(tmp_path / "b.zarr", 2, x=([1, 2, 3], {}))
    assert append_dataset(target, more, dim="time").left_out == ("x",)
    assert append_dataset(target, on_grid(tmp_path / "c.zarr", 3), dim="time").left_out == ()


def test_the_command_says_what_the_source_alone_has(tmp_path: Path) -> None:
    target, more = made(tmp_path / "a.zarr", slice(0, 2)), several(tmp_path / "b.zarr", slice(2, 4))
    done = CliRunner().invoke(main, ["append", str(target), str(more)])
    assert done.exit_code == 0, done.output
    assert f"left out, since {target} has no such arrays: /g/wind, /still" in done.stderr
    again = [str(target), str(more), "--repeated", "overwrite"]
    assert json.loads(CliRunner().invoke(main, ["append", *again, "--json"]).stdout)["left_out"] == ["g/wind", "still"]
    assert "left out" not in CliRunner().invoke(main, ["append", *again, "--path", "air"]).stderr  # nor wanted


def test_rows_whose_labels_are_there(tmp_path: Path) -> None:
    """They are written over, with the rest behind, or stand there twice."""
    for repeated, want in (("overwrite", [0, 1, 2, 3, 4]), ("allow", [0, 1, 2, 1, 2, 3, 4])):
        target, again = made(tmp_path / f"{repeated}.zarr", slice(0, 3)), made(tmp_path / f"{repeated}.nc", slice(1, 5))
        with hs.open_group(again, mode="r+") as root:
            root["air"][...] = root["air"][...] + 1
            added = root["air"][...]
        done = append_dataset(target, again, dim="time", repeated=repeated)
        with hs.open_group(target) as root:
            assert (root["time"][...].tolist(), done.rows) == (want, 4)
            np.testing.assert_array_equal(root["air"][-4:], added)
            np.testing.assert_array_equal(root["air"][: len(want) - 4], AIR[: len(want) - 4])
    mixed = made(tmp_path / "mixed.zarr", [5, 4])
    with pytest.raises(Invalid, match="behind new ones"):
        append_dataset(target, mixed, dim="time", repeated="overwrite")
    again = made(tmp_path / "all.zarr", slice(0, 2))
    assert append_dataset(tmp_path / "overwrite.zarr", again, dim="time", repeated="overwrite").rows == 2
    with hs.open_group(tmp_path / "overwrite.zarr") as root:
        assert root["time"][...].tolist() == [0, 1, 2, 3, 4]
        np.testing.assert_array_equal(root["air"][:2], AIR[:2])


def test_rows_are_written_over_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append, "_SLAB", 1 << 20)
    cells = np.random.default_rng(1).normal(size=(128, 1 << 14))  # 16 MiB
    for name, rows in (("a.zarr", slice(0, 128)), ("b.zarr", slice(5, 128))):
        with hs.create(tmp_path / name) as root:
            root.create_array("air", data=-cells[rows], dims=("time", "x"), chunks=(4, 1 << 14), codec="none")
            root.create_array("time", data=np.arange(128)[rows], dims=("time",))
    with hs.open_group(tmp_path / "b.zarr", mode="r+") as root:
        root["air"][...] = cells[5:]
    tracemalloc.start()
    append_dataset(tmp_path / "a.zarr", tmp_path / "b.zarr", dim="time", repeated="overwrite")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20, peak
    with hs.open_group(tmp_path / "a.zarr") as root:
        np.testing.assert_array_equal(root["air"][5:], cells[5:])
        np.testing.assert_array_equal(root["air"][:5], -cells[:5])


def test_what_cannot_grow_or_has_other_rows_than_its_labels_is_told_the_way_out(tmp_path: Path) -> None:
    target, more = made(tmp_path / "a.zarr", slice(0, 3)), made(tmp_path / "b.zarr", slice(3, 6))
    with hs.open_group(target, mode="r+") as root:
        root.create_array("alone", data=1.5)
    with pytest.raises(Invalid, match=r"without dimensions cannot grow.*; name an array"):
        append_cells(target, np.ones(2), "alone")
    with hs.open_group(more, mode="r+") as root:
        root["time"].resize(2)
    with pytest.raises(Invalid, match=r"/air: 3, /time: 2.*; give as many rows"):
        append_dataset(target, more, "air")


@pytest.mark.parametrize("suffix", [".zarr", ".b2nd", ".blp"])
def test_all_get_their_rows_or_none(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, more = made(tmp_path / f"a{suffix}", slice(0, 2)), made(tmp_path / "b.zarr", slice(2, 6))
    append = Array.append

    def failing(self: Array, *given: Any) -> None:
        if self.name == "time":
            raise AlreadyExists("the disk is full")
        append(self, *given)

    monkeypatch.setattr(Array, "append", failing)
    with pytest.raises(AlreadyExists):
        append_dataset(target, more)
    monkeypatch.undo()
    with hs.open_group(target) as root:
        assert np.array_equal(root["air"][...], AIR[:2])
        assert root["time"].shape == (2,)


def test_the_command(tmp_path: Path) -> None:
    target, more = made(tmp_path / "a.blp", slice(0, 2)), made(tmp_path / "b.nc", slice(2, 4))
    done = CliRunner().invoke(main, ["append", str(target), str(more)])
    assert done.exit_code == 0, done.output
    assert f"{more} -> {target}: 2 rows along time to /air, /time" in done.output
    np.save(tmp_path / "more.npy", AIR[4:])
    done = CliRunner().invoke(main, ["append", str(target), str(tmp_path / "more.npy"), "--dim", "time", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["rows"], told["arrays"], told["shorter"]) == (2, ["air"], ["time"])
    np.save(tmp_path / "last.npy", np.arange(4, 6))
    done = CliRunner().invoke(main, ["append", str(target), str(tmp_path / "last.npy"), "--path", "time"])
    assert done.exit_code == 0, done.output
    with hs.open_group(target) as root:
        assert np.array_equal(root["air"][...], AIR)
        assert root["time"][...].tolist() == list(range(6))


def test_an_arrays_own_place_is_that_array_of_its_dataset(tmp_path: Path) -> None:
    """Its coordinate is looked for, its attributes are compared, and consolidated metadata follows."""
    target, more = tmp_path / "a.zarr", made(tmp_path / "b.zarr", slice(2, 4))
    with hs.create(target, consolidated=True) as root:
        root.create_array("air", data=AIR[:2], dims=("time", "x"))
        root.create_array("time", data=np.arange(2), dims=("time",), units="hours since 2020-01-01")
    np.save(tmp_path / "more.npy", AIR[4:])
    done = CliRunner().invoke(main, ["append", str(target / "air"), str(tmp_path / "more.npy")])
    assert done.exit_code == 0, done.output
    assert "2 rows along time to /air" in done.output
    assert "/time got none" in done.output
    copied = json.loads((target / "zarr.json").read_bytes())["consolidated_metadata"]["metadata"]
    assert copied["air"]["shape"] == [4, 4]
    with hs.open_group(target, "r+") as root:
        assert root["air"].shape == (4, 4)
        root["air"].resize((2, 4))
    other = made(tmp_path / "c.zarr", slice(2, 4), units="minutes since 2020-01-01")
    with pytest.raises(Invalid, match="no whole numbers"):
        append_dataset(target / "air", other)
    with pytest.raises(Invalid, match="appended to itself"):
        append_dataset(target, target / "air")
    assert append_dataset(target / "air", more / "air").arrays == ("air", "time")
    with hs.open_group(target) as root:
        assert root["time"][...].tolist() == [0, 1, 2, 3]
        assert np.array_equal(root["air"][...], AIR[:4])
    assert not hs.check(target)


def test_files_that_are_no_cells(tmp_path: Path) -> None:
    from hyperslab.cli.commands.convert import _load

    with pytest.raises(NotFound):
        _load(str(tmp_path / "a.npy"))
    (tmp_path / "b.npy").write_bytes(b"nothing")
    np.save(tmp_path / "c.npy", np.array([{}], object), allow_pickle=True)
    for name in ("b.npy", "c.npy"):
        with pytest.raises(FormatError):
            _load(str(tmp_path / name))


def test_times_of_another_epoch_are_counted_on(tmp_path: Path) -> None:
    target, more = (
        made(tmp_path / "a.zarr", slice(0, 2)),
        made(tmp_path / "b.zarr", slice(0, 2), units="days since 2020-01-03"),
    )
    append_dataset(target, more)
    with hs.open_group(target) as root:
        assert root["time"][:].tolist() == [0, 1, 48, 72]


def with_times(path: Path, times: Any, **attrs: Any) -> Path:
    with hs.create(path, overwrite=True) as root:
        root.create_array("time", data=times, dims=("time",), attrs=attrs)
        root.create_array("v", data=np.arange(len(times)), dims=("time",))
    return path


DAY_1, DAY_3 = (np.array([f"2026-01-0{day}", f"2026-01-0{day + 1}"], "M8[us]") for day in (1, 3))


@pytest.mark.parametrize("kind", ["M8[s]", "M8[ms]", "M8[us]", "M8[ns]"])
@pytest.mark.parametrize(
    ("rows", "units"),
    [
        (np.array([48, 72], "i4"), "hours since 2026-01-01"),
        (np.array([2.0, 3.0]), "days since 2026-01-01"),
        (np.array([2.0, 3.0], "f4"), "days since 2026-01-01"),
        (DAY_3.astype("M8[ms]").astype("i8"), "milliseconds since 1970-01-01"),
        (DAY_3.astype("M8[ns]").astype("i8"), "nanoseconds since 1970-01-01"),
    ],
)
def test_times_that_are_counted_and_datetimes_go_together(tmp_path: Path, rows: Any, units: str, kind: str) -> None:
    stored = with_times(tmp_path / "a.zarr", DAY_1.astype(kind))
    append_dataset(stored, with_times(tmp_path / "b.zarr", rows, units=units, calendar="proleptic_gregorian"))
    with hs.open_group(stored) as root:
        assert root["time"].dtype == np.dtype(kind)
        assert root["time"][:].tolist() == np.concatenate([DAY_1, DAY_3]).astype(kind).tolist()
    first = rows.astype("f8") - np.diff(rows.astype("f8")) * 2
    counted = with_times(tmp_path / "c.zarr", first.astype(rows.dtype), units=units, calendar="proleptic_gregorian")
    append_dataset(counted, with_times(tmp_path / "b.zarr", DAY_3.astype(kind)))
    with hs.open_group(counted) as root:
        assert root["time"].dtype == rows.dtype and root["time"][2:].tolist() == rows.tolist()


def test_missing_times_stay_missing(tmp_path: Path) -> None:
    stored = with_times(tmp_path / "a.zarr", DAY_1)
    append_dataset(
        stored,
        with_times(tmp_path / "b.zarr", np.array([-1, 48]), units="hours since 2026-01-01", _FillValue=-1),
        repeated="allow",
    )
    append_dataset(
        stored,
        with_times(tmp_path / "b.zarr", np.array([72, np.nan]), units="hours since 2026-01-01"),
        repeated="allow",
    )
    with hs.open_group(stored) as root:
        wanted = np.array(["NaT", "2026-01-03", "2026-01-04", "NaT"], "M8[us]")
        np.testing.assert_array_equal(root["time"][2:], wanted)
    late = np.array(["2026-01-03", "NaT"], "M8[us]")
    for first, attrs, wanted in (
        (np.array([0, 1]), {"_FillValue": -1}, [48, -1]),
        (np.array([0.0, 1]), {}, [48, np.nan]),
    ):
        counted = with_times(tmp_path / "c.zarr", first, units="hours since 2026-01-01", **attrs)
        append_dataset(counted, with_times(tmp_path / "b.zarr", late), repeated="allow")
        with hs.open_group(counted) as root:
            np.testing.assert_array_equal(root["time"][2:], wanted)
    counted = with_times(tmp_path / "c.zarr", np.array([0, 1]), units="hours since 2026-01-01")
    with pytest.raises(Invalid, match="a missing time"):
        append_dataset(counted, with_times(tmp_path / "b.zarr", late), repeated="allow")


@pytest.mark.parametrize(
    ("stored", "rows", "words"),
    [
        ((DAY_1, {}), ([2, 3], {}), "numbers without units of time"),
        (([2, 3], {}), (DAY_3, {}), "numbers without units of time"),
        (([2, 3], {"units": "m"}), (DAY_3, {}), "numbers without units of time"),
        ((DAY_1, {}), ([2, 3], {"units": "days since 2026-01-01", "calendar": "360_day"}), "calendar 360_day"),
        (
            (DAY_1.astype("M8[s]"), {}),
            ([2500, 3500], {"units": "milliseconds since 2026-01-03"}),
            "no whole numbers of",
        ),
        (([2, 3], {"units": "days since 2026-01-01"}), (DAY_3 + np.timedelta64(1, "h"), {}), "no whole numbers of"),
    ],
)
@pytest.mark.parametrize("repeated", ["error", "allow"])
def test_times_that_do_not_fit_are_refused(tmp_path: Path, stored: Any, rows: Any, words: str, repeated: Any) -> None:
    target = with_times(tmp_path / "a.zarr", np.asarray(stored[0]), **stored[1])
    with pytest.raises(Invalid, match=words) as caught:
        append_dataset(target, with_times(tmp_path / "b.zarr", np.asarray(rows[0]), **rows[1]), repeated=repeated)
    assert caught.value.node == "time" and caught.value.remedy
    with hs.open_group(target) as root:
        assert root["v"].shape == (2,)


def test_rows_of_another_writer_stay_when_an_append_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails at the second array; somebody else has appended to the first one in between."""
    target, more = made(tmp_path / "a.zarr", slice(0, 2)), made(tmp_path / "b.zarr", slice(2, 4))
    whole = Array.append
    appended: list[str] = []

    def failing(self: Array, data: Any, axis: Any = 0) -> None:
        if appended:
            with hs.open_group(target, "r+") as other:
                whole(other[appended[0]], np.asarray(other[appended[0]][:1]))
            raise OSError("no space left")
        appended.append(self.path)
        whole(self, data, axis)

    monkeypatch.setattr(Array, "append", failing)
    with pytest.raises(OSError, match="no space"):
        append_dataset(target, more)
    with hs.open_group(target) as root:
        assert root[appended[0]].shape[0] == 5
        np.testing.assert_array_equal(root[appended[0]][4], root[appended[0]][0])


def test_numbers_in_errors_are_plain(tmp_path: Path) -> None:
    for name, scale in (("a", 0.01), ("b", 0.02)):
        with hs.create(tmp_path / name) as root:
            attrs = {"scale_factor": np.float64(scale)}
            root.create_array("v", data=np.arange(3, dtype="i2"), dims=("t",), attrs=attrs)
    done = CliRunner().invoke(main, ["append", str(tmp_path / "a"), str(tmp_path / "b")])
    assert "scale_factor is 0.01 here and 0.02 there" in done.stderr


def test_packed_rows_fit_packed_cells_alone(tmp_path: Path) -> None:
    packing = {"scale_factor": np.float64(0.1), "add_offset": np.float64(280), "_FillValue": np.int16(-1), "units": "K"}
    floats = {"_FillValue": np.float64(np.nan), "units": "K"}
    bare = {"scale_factor": np.float64(0.1), "units": "K"}
    for name, cells, attrs in (
        ("packed", np.array([1, -1], "i2"), packing),
        ("bare", np.array([1, 2], "i2"), bare),
        ("floats", np.array([280.0]), floats),
    ):
        with hs.create(tmp_path / f"{name}.zarr") as root:
            root.create_array("t", data=cells, dims=("time",), attrs=attrs)
    for name in ("packed", "bare"):
        with pytest.raises(Invalid) as caught:
            append_dataset(tmp_path / "floats.zarr", tmp_path / f"{name}.zarr")
        assert "hyperslab unpack" in str(caught.value.remedy)
    with pytest.raises(Invalid, match="packed here, and not there") as caught:
        append_dataset(tmp_path / "bare.zarr", tmp_path / "floats.zarr")
    assert "append_dim" in str(caught.value.remedy)
    done = CliRunner().invoke(main, ["unpack", str(tmp_path / "packed.zarr"), str(tmp_path / "more.zarr")])
    assert done.exit_code == 0, done.stderr
    append_dataset(tmp_path / "floats.zarr", tmp_path / "more.zarr")
    with hs.open(tmp_path / "floats.zarr") as root:
        np.testing.assert_allclose(root["t"][...], [280.0, 280.1, np.nan])


@pytest.mark.parametrize(("marker", "dtype"), [(-1, "u2"), ("none", "i4"), (1e20, "i4")])
def test_missing_times_without_a_number_that_the_target_holds(tmp_path: Path, marker: object, dtype: str) -> None:
    attrs = {"units": "days since 2020-01-01", "missing_value": marker}
    for name, cells, more in (
        ("a", np.arange(3, dtype=dtype), attrs),
        ("b", np.array(["2020-01-10", "NaT"], "M8[s]"), {}),
    ):
        with hs.create(tmp_path / f"{name}.zarr", "zarr2") as root:
            root.create_array("when", data=cells, dims=("x",), attrs=more)
    with pytest.raises(Invalid, match="NaT"):
        append_dataset(tmp_path / "a.zarr", tmp_path / "b.zarr", dim="x")
    with hs.open_group(tmp_path / "a.zarr") as root:
        assert root["when"][:].tolist() == [0, 1, 2]


def test_infinite_times_are_no_datetimes(tmp_path: Path) -> None:
    units = {"units": "days since 2020-01-01"}
    for name, cells, more in (("a", np.array(["2020-01-10"], "M8[s]"), {}), ("b", np.array([np.inf]), units)):
        with hs.create(tmp_path / f"{name}.zarr", "zarr2") as root:
            root.create_array("when", data=cells, dims=("x",), attrs=more)
    with pytest.raises(Invalid, match="infinity"):
        append_dataset(tmp_path / "a.zarr", tmp_path / "b.zarr", dim="x")
