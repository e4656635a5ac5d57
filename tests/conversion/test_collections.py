"""Collections converted between their layouts, and to and from others: ids, attributes, schemas and cells stay."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.database import Client, DimensionSchema, Scale, TimeDimensionSchema, VArraySchema
from hyperslab.errors import Unsupported
from hyperslab.integrity.comparison import diff

sys.path.insert(0, str(Path(__file__).parents[1]))
from formats import golden_deker
from servers.s3 import S3

pytestmark = pytest.mark.sampled(2)

FEW = ("weather_small", "tiles_i64", "tiles_f32_arrays_shape", "attrs_all", "comp_gzip_9", "comp_lzf")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """What DEKER wrote: some collections of every kind."""
    return unpacked(tmp_path, FEW)


def unpacked(folder: Path, kept: tuple[str, ...]) -> Path:
    root = golden_deker.unpack(folder / "peer")
    for name in golden_deker.collections():
        if name not in kept:
            shutil.rmtree(root / "collections" / name)
            (root / "collections" / f"{name}.lock").unlink(missing_ok=True)
    return root


@pytest.fixture
def air(tmp_path: Path) -> Path:
    """A dataset of a grid with its coordinates, attributes and a group."""
    with hs.create(tmp_path / "air.zarr") as root:
        root.attrs["title"] = "air"
        coordinates: dict[str, tuple[Any, str]] = {
            "time": (np.arange(24), "hours since 2013-01-01"),
            "lat": (np.arange(60.0, 30.0, -2.5, dtype="f4"), "degrees_north"),
            "level": (np.array([1000.0, 850.0, 500.0]), "hPa"),
        }
        for name, (values, units) in coordinates.items():
            root.create_array(name, data=values, dims=[name], units=units)
        group = root.create_group("surface")
        cells = np.arange(24 * 12 * 3, dtype="f4").reshape(24, 12, 3)
        group.create_array("t2m", data=cells, dims=["time", "lat", "level"], chunks=(8, 12, 3), units="K")
        group.create_array("flags", data=np.arange(12, dtype="u1").reshape(3, 4))
    return tmp_path / "air.zarr"


def links(root: Path) -> list[Path]:
    files = (Path(folder) / name for folder, _, names in os.walk(root) for name in names)
    return [file for file in files if file.is_symlink()]


def test_from_deker_s_layout_to_ours_and_back(store: Path, tmp_path: Path) -> None:
    hs.convert(store, tmp_path / "ours", "collections", verify=True)
    assert diff(store, tmp_path / "ours") == []
    assert hs.open(tmp_path / "ours").format == "collections"
    hs.convert(tmp_path / "ours", tmp_path / "back", "deker", verify=True)
    assert diff(store, tmp_path / "back") == []
    assert hs.open(tmp_path / "back").format == "deker"
    for name in FEW:
        document = tmp_path / "back" / "collections" / name / f"{name}.json"
        assert document.read_bytes() == golden_deker.document(name)


@pytest.mark.skipif(not golden_deker.EXTENDED, reason="this platform has no floats of 80 bits")
def test_long_floats_stay(tmp_path: Path) -> None:
    store = unpacked(tmp_path, ("dtype_float128", "dtype_complex256"))
    hs.convert(store, tmp_path / "ours", "collections", verify=True)
    hs.convert(tmp_path / "ours", tmp_path / "back", "deker", verify=True)
    assert diff(store, tmp_path / "back") == []
    hs.convert(store, tmp_path / "a.zarr", verify=True)
    assert diff(store, tmp_path / "a.zarr") == []


def test_links_lead_to_where_the_database_is_put(store: Path, tmp_path: Path) -> None:
    hs.convert(store, tmp_path / "back", "deker")
    found = links(tmp_path / "back")
    assert found
    assert all(os.readlink(link).startswith(f"{tmp_path}/back/") and link.exists() for link in found)


def test_cells_are_those_that_deker_wrote(store: Path, tmp_path: Path) -> None:
    hs.convert(store, tmp_path / "ours", "collections")
    root = hs.open_group(tmp_path / "ours")
    for name in FEW:
        for array in golden_deker.arrays(name):
            found = root[f"{name}/{array['id']}"]
            assert isinstance(found, hs.Array)
            assert np.array_equal(found[...], golden_deker.truth(array), equal_nan=True)


@pytest.mark.parametrize("layout", ["collections", "deker"])
def test_through_zarr(store: Path, tmp_path: Path, layout: str) -> None:
    hs.convert(store, tmp_path / "a.zarr", verify=True)
    hs.convert(tmp_path / "a.zarr", tmp_path / "back", layout, verify=True)
    assert diff(store, tmp_path / "back") == []


def test_through_netcdf(store: Path, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="labels of 'day_hours'"):
        hs.convert(store, tmp_path / "a.nc")
    hs.convert(store, tmp_path / "a.nc", allow_loss=True)
    hs.convert(tmp_path / "a.nc", tmp_path / "back", "deker", verify=True)
    with Client(store, mode="r") as client, Client(tmp_path / "back", mode="r") as other:
        for collection in client:
            again = other.get_collection(collection.name)
            assert again is not None
            assert again.as_dict == collection.as_dict
            for array in collection:
                found = again[array.id]
                assert found.primary_attributes == array.primary_attributes
                assert found.custom_attributes == array.custom_attributes
                assert np.array_equal(found[...].read(), array[...].read(), equal_nan=True)


@pytest.mark.parametrize("place", ["memory://collections-converted", "ours.zip"])
def test_into_places_without_folders(store: Path, tmp_path: Path, place: str) -> None:
    target = place if "://" in place else str(tmp_path / place)
    hs.convert(store, target, "collections", verify=True)
    assert diff(store, target) == []
    assert not hs.check(target, deep=True)


@pytest.mark.sampled(0)
def test_into_a_bucket(store: Path, s3: S3) -> None:
    url, options = f"s3://{s3.bucket()}/deep/db", {"storage_options": s3.options}
    hs.convert(store, url, "collections", verify=True, storage_options=(None, s3.options))
    root = hs.open_group(url, **options)
    assert (root.format, sorted(root)) == ("collections", sorted(FEW))
    with Client(url, mode="r", **options) as client:
        tiles = client.get_collection("tiles_i64")
        assert tiles is not None
        for array in golden_deker.arrays("tiles_i64"):
            assert np.array_equal(tiles[array["id"]][:].read(), golden_deker.truth(array))
    assert not hs.check(url, storage_options=s3.options)


def test_a_name_without_a_format_is_said_to_become_zarr(
    store: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = (
        f"{tmp_path / 'copy'} becomes zarr3, collections its groups; format='collections' (--format) makes a database"
    )
    report = hs.convert(store, tmp_path / "copy")
    assert report.format == "zarr3" and [each.getMessage() for each in caplog.records].count(told) == 1
    caplog.clear()
    first = golden_deker.arrays("tiles_i64")[0]
    hs.convert(store, tmp_path / "named.zarr")
    hs.convert(store, tmp_path / "given", "zarr3")
    hs.convert(store, tmp_path / "database", "collections")
    hs.convert(store, tmp_path / "array", path=f"tiles_i64/{first['id']}")
    assert not any("becomes zarr3" in each.getMessage() for each in caplog.records)


def test_a_collection_or_one_array_of_it(store: Path, tmp_path: Path) -> None:
    first = golden_deker.arrays("tiles_i64")[0]
    report = hs.convert(store, tmp_path / "one.zarr", path=f"tiles_i64/{first['id']}")
    assert report.arrays == 1
    found = hs.open_group(tmp_path / "one.zarr")[first["id"]]
    assert isinstance(found, hs.Array)
    assert np.array_equal(found[...], golden_deker.truth(first))
    assert set(found.spec.indexes) == {"t", "x"}


def test_each_array_becomes_a_collection_with_the_labels_of_its_coordinates(air: Path, tmp_path: Path) -> None:
    hs.convert(air, tmp_path / "db", "collections", verify=True)
    assert diff(air, tmp_path / "db") == []
    with Client(tmp_path / "db", mode="r") as client:
        assert sorted(map(str, client)) == ["lat", "level", "surface.flags", "surface.t2m", "time"]
        t2m = client.get_collection("surface.t2m")
        assert t2m is not None
        time, lat, level = t2m.schema.dimensions
        assert isinstance(time, TimeDimensionSchema)
        assert (time.start_value, time.step) == (datetime(2013, 1, 1, tzinfo=UTC), timedelta(hours=1))
        assert isinstance(lat, DimensionSchema)
        assert lat.scale == Scale(60.0, -2.5)
        assert isinstance(level, DimensionSchema)
        assert (level.scale, level.labels) == (None, None)
        only = t2m.first()
        assert only is not None
        assert only["2013-01-01T05:00", 50.0:45.0, 0].read().tolist() == [192.0, 195.0]


def test_back_to_what_it_was(air: Path, tmp_path: Path) -> None:
    hs.convert(air, tmp_path / "db", "deker", verify=True)
    hs.convert(tmp_path / "db", tmp_path / "again.zarr", verify=True)
    assert diff(air, tmp_path / "again.zarr") == []
    hs.convert(tmp_path / "db", tmp_path / "again.nc", verify=True)  # coordinates hold the labels: nothing is lost


def test_only_numbers_become_collections_and_words_their_labels(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("station", data=np.array(["a", "b"]), dims=["station"])
        root.create_array("v", data=np.arange(2.0), dims=["station"])
    assert not hs.convert(tmp_path / "a.zarr", tmp_path / "db", "collections", verify=True).losses
    with Client(tmp_path / "db") as client:
        assert [collection.name for collection in client] == ["v"]
        assert client.get_collection("v").schema.dimensions[0].labels == ("a", "b")
    found = hs.open_group(tmp_path / "db")
    assert sorted(found) == ["station", "v"]
    assert (found["v"].sel(station="b"), found["station"][...].tolist()) == (1.0, ["a", "b"])


def test_what_deker_s_layout_cannot_have_is_refused(tmp_path: Path) -> None:
    with Client(tmp_path / "ours") as client:
        dims = [DimensionSchema("n", None), DimensionSchema("x", 3)]
        client.create_collection("rows", VArraySchema(dims, float, arrays_shape=(2, 2))).create()
    with pytest.raises(Unsupported, match="unlimited"):
        hs.convert(tmp_path / "ours", tmp_path / "theirs", "deker")
    assert not (tmp_path / "theirs").exists()
    hs.convert(tmp_path / "ours", tmp_path / "again", "collections", verify=True)
    assert diff(tmp_path / "ours", tmp_path / "again") == []


@pytest.mark.sampled(0)
def test_filters_of_hdf5_work_though_the_netcdf_library_came_first(store: Path, air: Path, tmp_path: Path) -> None:
    hs.convert(air, tmp_path / "air.nc", path="surface")
    golden_deker.unpack(tmp_path / "whole")
    root = next((tmp_path / "whole").rglob("collections")).parent
    code = f"""
import hyperslab as hs
hs.open({str(tmp_path / "air.nc")!r})["t2m"][0, 0, 0]
for array in hs.open({str(root)!r})["comp_32001"].values():
    print(array[...].shape)
"""
    clean = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}  # which netCDF4 sets
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=clean)
    assert (done.returncode, done.stdout) == (0, "(20, 30)\n"), done.stderr


def test_what_is_too_much_for_the_document_keeps_its_values(tmp_path: Path) -> None:
    with hs.create(tmp_path / "many.zarr") as root:
        many = root.create_array("many", shape=(17 << 20,), dtype="?", dims=["n"], chunks=(1 << 21,))
        many[-3:] = True
        root.create_array("few", data=[True, False], dims=["m"])
        root.create_array("text", shape=(2 << 20,), dtype=str, dims=["k"])
    with pytest.raises(Unsupported, match="/many: cells of type bool become int8"):
        hs.convert(tmp_path / "many.zarr", tmp_path / "db", "collections")
    report = hs.convert(tmp_path / "many.zarr", tmp_path / "db", "collections", allow_loss=True, verify=True)
    assert sorted(loss.node for loss in report.losses) == ["many", "text"]
    found = hs.open_group(tmp_path / "db")
    assert sorted(found) == ["few", "many"]
    assert (found["few"].dtype, found["many"].dtype, found["many"][-4:].tolist()) == (bool, "i1", [0, 1, 1, 1])


@pytest.mark.parametrize("layout", ["collections", "deker"])
def test_a_group_may_be_called_as_the_collection_of_an_array(tmp_path: Path, layout: str) -> None:
    """``a/b`` lies in a collection that is called ``a.b``, which is no node: the group ``a.b`` is."""
    with hs.create(tmp_path / "x.zarr") as root:
        for path in ("a/b", "a.b/x", "a.b/y"):
            root.create_array(path, data=np.arange(3.0))
    hs.convert(tmp_path / "x.zarr", tmp_path / "x", layout, verify=True)
    root = hs.open_group(tmp_path / "x")
    assert sorted(root["a.b"]) == ["x", "y"]
    assert diff(tmp_path / "x.zarr", tmp_path / "x") == []
