"""convert and save to and from formats that hold one array; ``path`` for every target."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.errors import Conflict, Invalid, Unsupported

AIR = np.arange(24.0).reshape(2, 3, 4)


def tree(path: Path) -> Path:
    """A root with ``time``, a group with two arrays, coordinates of all kinds, and a group beside it."""
    with hs.create(path) as root:
        root.attrs["title"] = "all"
        root.create_array("time", data=np.arange(2), dims=("time",), attrs={"bounds": "time_bnds"})
        root.create_array("time_bnds", data=np.arange(4.0).reshape(2, 2), dims=("time", "nv"))
        group = root.create_group("g", attrs={"model": "m"})
        said = {"coordinates": "lat2 height", "units": "K"}
        group.create_array("air", data=AIR, dims=("time", "y", "x"), chunks=(1, 2, 2), attrs=said)
        group.create_array("rain", data=AIR[0] * 2, dims=("y", "x"))
        group.create_array("x", data=np.array(list("abcd")), dtype=str, dims=("x",))
        group.create_array("lat2", data=AIR[1], dims=("y", "x"))
        group.create_array("height", data=np.float64(2))
        root.create_array("other/far", data=np.arange(3))
    return path


@pytest.mark.parametrize("suffix", ["b2nd", "blp", "blaze", "zarr", "nc"])
def test_an_array_of_a_group_with_its_coordinates(tmp_path: Path, suffix: str) -> None:
    source, target = tree(tmp_path / "a.zarr"), tmp_path / f"b.{suffix}"
    report = hs.convert(source, target, path="g/air", verify=True)
    assert report.verified is not None
    with hs.open_group(target) as root:
        assert sorted(root) == ["air", "height", "lat2", "time", "time_bnds", "x"]
        assert dict(root.attrs) == {"model": "m"}
        assert root["air"].dims == ("time", "y", "x")
        assert np.array_equal(root["air"][...], AIR)
        assert root["x"][...].tolist() == list("abcd")
        assert np.array_equal(root["lat2"][...], AIR[1])


def test_from_one_array_to_a_tree_and_back(tmp_path: Path) -> None:
    hs.convert(tree(tmp_path / "a.zarr"), tmp_path / "b.b2nd", path="/g/air")
    for name in ("c.zarr", "d.nc", "e.b2nd"):
        hs.convert(tmp_path / "b.b2nd", tmp_path / name, verify=True)
    hs.convert(tmp_path / "c.zarr", tmp_path / "f.b2nd", verify=True)
    for name in ("b.b2nd", "c.zarr", "e.b2nd", "f.b2nd"):
        with hs.open_group(tmp_path / name) as root:
            assert np.array_equal(root["air"][...], AIR)
            assert root["air"].units == "K"
            assert set(root) == {"air", "height", "lat2", "time", "time_bnds", "x"}
    assert hs.open(tmp_path / "f.b2nd").chunks == hs.open(tmp_path / "b.b2nd").chunks


def test_several_arrays_are_listed(tmp_path: Path) -> None:
    source = tree(tmp_path / "a.zarr")
    with pytest.raises(Invalid, match=r"g/air, g/rain, other/far.*path="):
        hs.convert(source, tmp_path / "b.b2nd")
    with hs.create(tmp_path / "empty.zarr"):
        pass
    with pytest.raises(Invalid, match="no array"):
        hs.convert(tmp_path / "empty.zarr", tmp_path / "b.b2nd")
    assert not (tmp_path / "b.b2nd").exists()


def test_the_only_array_needs_no_path(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("g/v", data=AIR, dims=("t", "y", "x"))
        root.create_array("g/t", data=[5, 6], dims=("t",))
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.b2nd")
    assert np.array_equal(hs.open(tmp_path / "b.b2nd").sel(t=6), AIR[1])


def test_what_lies_beside_the_only_array_is_a_loss(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("v", data=AIR)
        root.create_group("said", attrs={"n": 1})
    with pytest.raises(Unsupported, match="/said: the group is left out"):
        hs.convert(tmp_path / "a.zarr", tmp_path / "b.b2nd")
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.b2nd", allow_loss=True)
    assert np.array_equal(hs.open(tmp_path / "b.b2nd")[...], AIR)


def test_a_group_becomes_the_root(tmp_path: Path) -> None:
    report = hs.convert(tree(tmp_path / "a.zarr"), tmp_path / "b.zarr", path="g", verify=True)
    with hs.open_group(tmp_path / "b.zarr") as root:
        assert set(root) == {"air", "rain", "x", "lat2", "height", "time", "time_bnds"}
        assert dict(root.attrs) == {"model": "m"}
    assert report.companions == ("time", "time_bnds")
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", path="g", alone=True, overwrite=True)
    with hs.open_group(tmp_path / "b.zarr") as root:
        assert set(root) == {"air", "rain", "x", "lat2", "height"}


def test_selections_apply_to_the_coordinates_too(tmp_path: Path) -> None:
    hs.convert(tree(tmp_path / "a.zarr"), tmp_path / "b.b2nd", path="g/air", select={"x": ["b", "d"], "time": 1})
    array = hs.open(tmp_path / "b.b2nd")
    assert np.array_equal(array[...], AIR[1][:, [1, 3]])
    assert np.array_equal(array.sel(x="d"), AIR[1][:, 3])


def test_an_array_at_the_root_gets_a_name(tmp_path: Path) -> None:
    import json

    folder = tmp_path / "a.zarr"
    folder.mkdir()
    said = {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<i4", "compressor": None, "fill_value": 7}
    (folder / ".zarray").write_text(json.dumps(said | {"order": "C", "filters": None}))
    hs.convert(folder, tmp_path / "b.b2nd")
    array = hs.open(tmp_path / "b.b2nd")
    assert (array.name, array[...].tolist()) == ("data", [7, 7, 7])


def test_the_command(tmp_path: Path) -> None:
    source, target = str(tree(tmp_path / "a.zarr")), str(tmp_path / "b.b2nd")
    refused = CliRunner().invoke(main, ["convert", source, target])
    assert refused.exit_code
    assert "--path" in refused.output
    done = CliRunner().invoke(main, ["convert", source, target, "--path", "g/rain", "--verify"])
    assert done.exit_code == 0, done.output
    assert np.array_equal(hs.open(target)[...], AIR[0] * 2)


# -- save -----------------------------------------------------------------------------------------------------------


def labelled() -> xr.DataArray:
    coords = {"x": np.array(list("abcd")), "t": np.array(["2020-01-01", "2020-01-02"], "M8[ns]")}
    coords |= {"lat": (("y", "x"), AIR[1]), "height": 2.0}
    return xr.DataArray(AIR, coords=coords, dims=("t", "y", "x"), name="air", attrs={"units": "K"})


SUFFIXES = pytest.mark.parametrize("suffix", [".b2nd", ".blp", ".blaze"])


@SUFFIXES
def test_saved_data_arrays_come_back(tmp_path: Path, suffix: str) -> None:
    wanted = labelled()
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    hs.save(first, wanted)
    found = hs.open(first).to_xarray()
    xr.testing.assert_identical(found.load(), wanted)
    hs.save(second, wanted.to_dataset(), codec="blosc:zstd:3", chunks={"t": 1})
    array = hs.open(second)
    assert array.chunks[0] == 1
    assert "zstd" in repr(array.codec)
    xr.testing.assert_identical(array.to_xarray().load(), wanted)
    xr.testing.assert_identical(xr.open_dataset(second, engine="hyperslab").load(), wanted.to_dataset())


@SUFFIXES
def test_saved_plain_arrays_come_back(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    hs.save(first, AIR)
    assert np.array_equal(hs.open(first)[...], AIR)
    hs.save(first, AIR[0], mode="w")
    assert hs.open(first).shape == (3, 4)
    with pytest.raises(Invalid, match="a, b"):
        hs.save(second, xr.Dataset({"a": ("x", [1]), "b": ("x", [2])}))
    assert not second.exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"layout": "bcolz"}, {"layout": "bcolz", "chunks_in_each": 1}),
        ({"checksum": "md5"}, {"checksum": "md5"}),
        ({"superchunk": 2}, {"chunks_in_each": 2, "superchunks": 3}),
        ({}, {"checksum": "crc32", "chunks_in_each": 4, "superchunks": 2}),
    ],
)
def test_options_of_blaze_count_between_its_directories(
    tmp_path: Path, options: dict[str, object], expected: dict[str, object]
) -> None:
    cells = np.arange(60000.0).reshape(60, 1000)
    with hs.create(tmp_path / "a.blaze", superchunk=4, checksum="crc32") as root:
        root.create_array("air", data=cells, dims=("time", "x"), chunks=(10, 1000))
    hs.convert(tmp_path / "a.blaze", tmp_path / "b.blaze", verify=True, **options)
    done = CliRunner().invoke(main, ["info", str(tmp_path / "b.blaze"), "--json"])
    told = json.loads(done.stdout)["arrays"][0]["storage"]
    assert {name: told[name] for name in expected} == expected
    assert np.array_equal(hs.open(tmp_path / "b.blaze")[...], cells)
    assert hs.open(tmp_path / "b.blaze").chunks == (10, 1000)


@pytest.mark.parametrize("name", ["a.blp", "a.blaze", "a.b2nd"])
def test_refresh_shows_what_another_writer_did(tmp_path: Path, name: str) -> None:
    hs.save(tmp_path / name, np.arange(64.0), chunks=(8,))
    array = hs.open_array(tmp_path / name)
    with hs.open_group(tmp_path / name, "r+") as root:
        root["data"].resize((5,))
    array.refresh()
    np.testing.assert_array_equal(array[...], np.arange(5.0))
    with hs.open_group(tmp_path / name, "r+") as root:
        root["data"].append(np.ones(30))
        root["data"].attrs["units"] = "K"
    array.refresh()
    np.testing.assert_array_equal(array[...], np.append(np.arange(5.0), np.ones(30)))
    assert array.units == "K"


def test_a_file_that_became_shorter(tmp_path: Path) -> None:
    """What was open before reads the old cells or the new ones, or says so, and calls no sound file damaged."""
    hs.save(tmp_path / "a.blp", np.arange(6400.0), chunks=(800,))
    array = hs.open_array(tmp_path / "a.blp", cache_bytes=0)
    with hs.open_group(tmp_path / "a.blp", "r+") as root:
        root["data"].resize((900,))
    try:
        cells = array[...]
        assert len(cells) in (900, 6400)
        np.testing.assert_array_equal(cells, np.arange(len(cells)))
    except Conflict as error:
        assert "refresh()" in str(error)
