"""Virtual datasets: references that are made of every kind of source read as it does, by hyperslab and by fsspec; what
is no one array is an error that names the file."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import iris_sample_data
import netCDF4
import numpy as np
import pytest
import xarray as xr
from netCDF4._netCDF4 import NetCDF4MissingFeatureException

import hyperslab as hs
from hyperslab.errors import AlreadyExists, Conflict, CorruptChunk, HyperslabError, Invalid, StorageError, Unsupported
from hyperslab.formats.join.pieces import open_piece
from hyperslab.stores.location import Location
from hyperslab.stores.repository_buckets import usual_credentials

sys.path.insert(0, str(Path(__file__).parents[1]))
from servers.files import serving
from servers.s3 import S3, SECRET

LAT, LON = 40, 60
REAL = Path(iris_sample_data.path)


def cells(days: int, seed: int) -> np.ndarray:
    """Temperatures of some days, of few values, so that they compress."""
    return (np.random.default_rng(seed).integers(0, 64, (days, LAT, LON)) / 4).astype("f4")


def netcdf(path: Path, number: int, days: int = 30, **how: Any) -> Path:
    """A month with times counted from its own first day. ``how``: model, contiguous, chunksizes, filters."""
    model = how.pop("model", "NETCDF4")
    unlimited = how.pop("unlimited", True)
    scale = how.pop("scale", None)
    units = how.pop("units", f"days since 2000-{number + 1:02d}-01")
    with netCDF4.Dataset(path, "w", format=model) as file:
        file.createDimension("time", None if unlimited else days)
        file.createDimension("lat", how.pop("lat", LAT))
        file.createDimension("lon", LON)
        time = file.createVariable("time", "f8", ("time",))
        time.units, time.calendar = units, "standard"
        time[:] = np.arange(days)
        lat = file.createVariable("lat", "f4", ("lat",))
        lat[:] = np.linspace(-60, 60, len(file.dimensions["lat"]))
        for name in ("t", "u"):
            if model == "NETCDF4":
                how.setdefault("chunksizes", (1, LAT, LON) if not how.get("contiguous") else None)
            array = file.createVariable(
                name, how.get("dtype", "f4"), ("time", "lat", "lon"), **{k: v for k, v in how.items() if k != "dtype"}
            )
            if scale is not None:
                array.set_auto_scale(False)
                array.scale_factor = scale
            array.units = "K"
            array[:] = cells(days, number)[:, : len(file.dimensions["lat"])] + (name == "u")
    return path


def months(folder: Path, make: Callable[..., Path] = netcdf, count: int = 3, **how: Any) -> list[Path]:
    """Three months of 31, 29 and 31 days."""
    return [make(folder / f"{n}.nc", n, (31, 29, 31)[n % 3], **how) for n in range(count)]


def same(virtual: Any, source: Any) -> None:
    """Every array of the source reads equal, with its dimensions."""
    assert sorted(virtual) == sorted(source)
    for name in source:
        assert virtual[name].dims == source[name].dims
        np.testing.assert_array_equal(virtual[name][...], source[name][...])
        assert virtual[name].units == source[name].units


def through_fsspec(path: Path, **options: Any) -> xr.Dataset:
    """A document as xarray opens it with fsspec's reference file system."""
    storage = {"fo": str(path), "remote_protocol": "file", "asynchronous": True} | options
    kwargs = {"consolidated": False, "storage_options": storage}
    return xr.open_dataset("reference://", engine="zarr", backend_kwargs=kwargs, chunks=None)


FILTERS: dict[str, dict[str, Any]] = {
    "bare chunks": {},
    "zlib": {"zlib": True, "complevel": 1, "shuffle": False},
    "shuffled": {"zlib": True, "complevel": 1, "shuffle": True},
    "checksums": {"zlib": True, "complevel": 1, "shuffle": True, "fletcher32": True},
    "zstd": {"compression": "zstd"},
    "bz2": {"compression": "bzip2"},
    "blosc": {"compression": "blosc_lz4"},
    "big-endian": {"dtype": ">f4", "endian": "big", "zlib": True},
    "in one piece": {"contiguous": True, "unlimited": False},
    "records": {"model": "NETCDF3_CLASSIC"},
    "64 bits": {"model": "NETCDF3_64BIT_OFFSET", "unlimited": False},
    "cdf5": {"model": "NETCDF3_64BIT_DATA"},
}


@pytest.mark.parametrize("how", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.covering
def test_files_of_netcdf_joined(tmp_path: Path, how: dict[str, Any], form: str) -> None:
    try:
        files = months(tmp_path, **how)
    except (RuntimeError, NetCDF4MissingFeatureException) as error:  # a netCDF library without this filter
        pytest.skip(str(error))
    target = tmp_path / f"all.{form}"
    report = hs.virtual(files, target, along="time")
    assert report.references == 2 * (31 + 29 + 31)
    assert report.files == 3 and report.arrays == 4 and report.format == form
    same(hs.open(target), hs.join(files, along="time"))
    with (
        xr.open_dataset(target, engine="hyperslab") as found,
        xr.open_mfdataset(files, data_vars="minimal") as expected,
    ):
        xr.testing.assert_equal(found, expected)


@pytest.mark.parametrize("how", FILTERS.values(), ids=FILTERS)
def test_fsspec_reads_them(tmp_path: Path, how: dict[str, Any]) -> None:
    """By paths from the working directory, which fsspec takes them for."""
    try:
        files = months(tmp_path, **how)
    except (RuntimeError, NetCDF4MissingFeatureException) as error:
        pytest.skip(str(error))
    hs.virtual(files, tmp_path / "all.json", along="time", relative=False)
    with through_fsspec(tmp_path / "all.json") as found, xr.open_mfdataset(files, data_vars="minimal") as expected:
        np.testing.assert_array_equal(found.t.values, expected.t.values)
        np.testing.assert_array_equal(found.time.values, expected.time.values)


def test_many_files(tmp_path: Path) -> None:
    """Two hundred months, of which a table of Parquet holds two."""
    for number in range(200):
        with netCDF4.Dataset(tmp_path / f"{number:03d}.nc", "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", 700)
            time = file.createVariable("time", "i4", ("time",))
            time.units, time[:] = f"days since {1900 + number}-01-01", np.arange(60)
            array = file.createVariable("a", "i2", ("time", "x"), zlib=True, chunksizes=(1, 700))
            array[:] = np.arange(60)[:, None] + number
    files = sorted(tmp_path.glob("*.nc"))
    expected = hs.join(files)["a"][...]
    for form in ("json", "parquet"):
        report = hs.virtual(f"{tmp_path}/*.nc", tmp_path / f"all.{form}")
        assert report.references == 12_000 and report.files == 200
        root = hs.open(tmp_path / f"all.{form}")
        np.testing.assert_array_equal(root["a"][...], expected)
        assert root["a"].sel(time=slice("2099-01-02", "2099-01-03"))[:, 0].tolist() == [200, 201]
    size = sum(path.stat().st_size for path in (tmp_path / "all.parquet" / "a").iterdir())
    assert size < 20 * 12_000


def zarr_pieces(folder: Path, **options: Any) -> list[Path]:
    """The months as datasets of Zarr."""
    made = []
    (folder / "files").mkdir()
    for number, file in enumerate(months(folder / "files", zlib=True)):
        made.append(folder / f"{number}.zarr")
        hs.convert(file, made[-1], **options)
    return made


ZARRS: dict[str, dict[str, Any]] = {
    "zarr2": {"format": "zarr2", "chunks": {"time": 1}},
    "zarr3": {"format": "zarr3", "chunks": {"time": 1}},
    "gzip": {"format": "zarr3", "chunks": {"time": 1}, "codec": "gzip:3"},
    "bare": {"format": "zarr3", "chunks": {"time": 1}, "codec": "none"},
    "nczarr": {"format": "nczarr", "chunks": {"time": 1}},
    "hdmf": {"format": "hdmf", "chunks": {"time": 1}, "allow_loss": True},
}


@pytest.mark.parametrize("options", ZARRS.values(), ids=ZARRS)
def test_datasets_of_zarr_joined(tmp_path: Path, options: dict[str, Any]) -> None:
    pieces = zarr_pieces(tmp_path, **options)
    report = hs.virtual(pieces, tmp_path / "all.json", along="time")
    assert report.references == 2 * (31 + 29 + 31)
    same(hs.open(tmp_path / "all.json"), hs.join(pieces, along="time"))


def test_inner_chunks_of_shards(tmp_path: Path) -> None:
    source = netcdf(tmp_path / "a.nc", 0, 20)
    hs.convert(source, tmp_path / "a.zarr", chunks={"time": 2, "lat": 20}, shards={"time": 8, "lat": 40})
    report = hs.virtual(tmp_path / "a.zarr", tmp_path / "a.json", relative=False)
    assert report.references == 2 * 10 * 2 and report.files == 2 * 3
    same(hs.open(tmp_path / "a.json"), hs.open(tmp_path / "a.zarr"))
    with through_fsspec(tmp_path / "a.json") as found:
        np.testing.assert_array_equal(found.t.values, hs.open(source)["t"][...])


def test_a_file_of_bloscpack(tmp_path: Path) -> None:
    values = np.arange(50 * LAT * LON, dtype="f4").reshape(50, LAT, LON)
    with hs.create(tmp_path / "a.blp") as root:
        array = root.create_array("a", shape=values.shape, dtype="f4", dims=("t", "y", "x"), chunks=(8, LAT, LON))
        array[...] = values
    report = hs.virtual(tmp_path / "a.blp", tmp_path / "a.json")
    assert report.references == 6  # the last chunk is shorter than the others, and stored whole with the references
    assert isinstance(json.loads((tmp_path / "a.json").read_text())["refs"]["a/6.0.0"], str)
    np.testing.assert_array_equal(hs.open(tmp_path / "a.json")["a"][...], values)


@pytest.mark.parametrize("name", ["A1B_north_america.nc", "E1_north_america.nc", "SOI_Darwin.nc", "ostia_monthly.nc"])
def test_real_files(tmp_path: Path, name: str) -> None:
    shutil.copy(REAL / name, tmp_path)
    hs.virtual(tmp_path / name, tmp_path / "one.json")
    assert not hs.diff(tmp_path / name, tmp_path / "one.json")


def test_on_a_web_server(tmp_path: Path) -> None:
    months(tmp_path, zlib=True)
    with serving(tmp_path) as url:
        pieces = [f"{url}/{n}.nc" for n in range(3)]
        hs.virtual(pieces, tmp_path / "all.json", along="time")
        with pytest.raises(StorageError, match="outside"):
            hs.open(tmp_path / "all.json")["t"][0]
        root = hs.open(tmp_path / "all.json", storage_options={"allow_external": url})
        same(root, hs.join([tmp_path / f"{n}.nc" for n in range(3)], along="time"))


def test_zarr_on_a_web_server_that_lists_nothing(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    hs.convert(netcdf(tmp_path / "a.nc", 0, 20), tmp_path / "web" / "a.zarr", chunks={"time": 1})
    with serving(tmp_path / "web") as url:
        assert hs.virtual(f"{url}/a.zarr", tmp_path / "a.json").references == 40
        same(hs.open(tmp_path / "a.json", storage_options={"allow_external": url}), hs.open(tmp_path / "a.nc"))


@pytest.mark.parametrize("format", ["netcdf", "zarr3", "shards"])
def test_in_a_bucket(tmp_path: Path, s3: S3, format: str) -> None:
    """Files, chunks under keys and inner chunks of shards; a changed object is noticed by its ETag."""
    place = f"s3://{s3.bucket()}"
    file = netcdf(tmp_path / "a.nc", 0, 20, zlib=True)
    store = Location.of(place, s3.options).store(read_only=False)
    if format == "netcdf":
        store.put("data/a.nc", file.read_bytes())
        source, changed = f"{place}/data/a.nc", "data/a.nc"
    else:
        more: dict[str, Any] = {"shards": {"time": 4}} if format == "shards" else {}
        options = (None, s3.options)
        hs.convert(file, f"{place}/data/a.zarr", chunks={"time": 1}, storage_options=options, **more)
        source, changed = f"{place}/data/a.zarr", "data/a.zarr/t/c/0/0/0"
    report = hs.virtual(source, tmp_path / "a.json", storage_options=s3.options)
    assert report.references == 40
    assert SECRET not in (tmp_path / "a.json").read_text()
    allowed = {"allow_external": place, "remote_options": s3.options}
    same(hs.open(tmp_path / "a.json", storage_options=allowed), hs.open(file))
    store.put(changed, (store.get(changed) or b"") + b"more")
    with pytest.raises(StorageError, match="changed"):
        hs.open(tmp_path / "a.json", storage_options=allowed)["t"][0]


def test_a_chunk_without_a_filter_is_stored_inline(tmp_path: Path) -> None:
    values = cells(4, 0)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        array = file.create_dataset("a", data=values, chunks=(1, LAT, LON), compression="gzip")
        array.id.write_direct_chunk((2, 0, 0), values[2].tobytes(), filter_mask=1)
    report = hs.virtual(tmp_path / "a.h5", tmp_path / "a.json")
    assert report.references == 3
    np.testing.assert_array_equal(hs.open(tmp_path / "a.json")["a"][...], values)


def test_unwritten_chunks_read_as_the_fill_value(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        array = file.create_dataset("a", (4, LAT, LON), "f4", chunks=(1, LAT, LON), fillvalue=7.0)
        array[1] = 1
    assert hs.virtual(tmp_path / "a.h5", tmp_path / "a.json").references == 1
    assert hs.open(tmp_path / "a.json")["a"][:, 0, 0].tolist() == [7, 1, 7, 7]


def test_large_cells_in_one_piece_are_cut(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.arange(12 << 20, dtype="u1").reshape(12, 1 << 20)
    assert hs.virtual(tmp_path / "a.h5", tmp_path / "a.json").references == 3
    found = hs.open(tmp_path / "a.json")["a"]
    assert found.chunks == (4, 1 << 20)
    np.testing.assert_array_equal(found[5, :300], np.arange(300, dtype="u1"))


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_references_to_references(tmp_path: Path, form: str) -> None:
    """Pieces that are references themselves: the chunks are those of the files; one that stands inline stays so."""
    values = cells(4, 0)
    with h5py.File(tmp_path / "odd.h5", "w") as file:
        array = file.create_dataset("a", data=values, chunks=(1, LAT, LON), compression="gzip")
        array.id.write_direct_chunk((2, 0, 0), values[2].tobytes(), filter_mask=1)
    hs.virtual(tmp_path / "odd.h5", tmp_path / f"odd.{form}")
    assert hs.virtual(tmp_path / f"odd.{form}", tmp_path / "again.json").references == 3
    np.testing.assert_array_equal(hs.open(tmp_path / "again.json")["a"][...], values)
    files = months(tmp_path, zlib=True)
    for file in files:
        hs.virtual(file, file.with_suffix(f".{form}"))
    pieces = [file.with_suffix(f".{form}") for file in files]
    report = hs.virtual(pieces, tmp_path / "all.json", along="time")
    assert report.references == 182 and report.files == 3
    same(hs.open(tmp_path / "all.json"), hs.join(files, along="time"))
    os.utime(files[1], (1, 1))
    with pytest.raises(StorageError, match=r"1\.nc has changed"):
        hs.virtual(pieces, tmp_path / "more.json", along="time")


def test_what_join_gave_is_a_source(tmp_path: Path) -> None:
    files = months(tmp_path, zlib=True)
    joined = hs.join(files, along="time")
    hs.virtual(joined, tmp_path / "all.json")
    hs.convert(joined, tmp_path / "all.zarr")
    for name in ("all.json", "all.zarr"):
        same(hs.open(tmp_path / name), joined)
    with hs.create(tmp_path / "deep.zarr") as root:
        root.create_group("g")
        with pytest.raises(Invalid, match="not all that its place says") as caught:
            hs.convert(root["g"], tmp_path / "g.zarr")
    assert "path=" in str(caught.value.remedy)


def test_check_sums_up_the_chunks_of_a_file_that_is_gone(tmp_path: Path) -> None:
    files = months(tmp_path, zlib=True)
    hs.virtual(files, tmp_path / "all.json", along="time")
    files[1].unlink()
    found = hs.check(tmp_path / "all.json", deep=True)
    assert [problem.node for problem in found] == ["t", "u"]
    assert "1.nc cannot be read: No such file or directory: so 29 chunks, the first of them [key=t/31.0.0" in str(found)


def test_tiles_of_a_map(tmp_path: Path) -> None:
    whole = np.arange(80 * 120, dtype="f8").reshape(80, 120)
    places = []
    for row in range(2):
        for column in range(3):
            places.append(tmp_path / f"{row}{column}.nc")
            part = whole[row * 40 : row * 40 + 40, column * 40 : column * 40 + 40]
            labels = {"y": np.arange(40) + row * 40, "x": np.arange(40) + column * 40}
            xr.Dataset({"a": (("y", "x"), part)}, labels).to_netcdf(places[-1], format="NETCDF3_64BIT")
    hs.virtual(places, tmp_path / "all.json", along=("y", "x"))
    np.testing.assert_array_equal(hs.open(tmp_path / "all.json")["a"][...], whole)


def test_paths_are_relative_below_the_target_or_absolute(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    files = months(tmp_path / "files", zlib=True)
    hs.virtual(files, tmp_path / "near.json", along="time")
    hs.virtual(files, tmp_path / "whole.json", along="time", relative=False)
    targets = {
        name: {e[0] for e in json.loads((tmp_path / name).read_text())["refs"].values() if isinstance(e, list)}
        for name in ("near.json", "whole.json")
    }
    assert targets["near.json"] == {"files/0.nc", "files/1.nc", "files/2.nc"}
    assert targets["whole.json"] == {str(file) for file in files}
    with through_fsspec(tmp_path / "whole.json") as found:
        assert found.t.shape == (91, LAT, LON) and float(found.t[40].sum()) == float(cells(29, 1)[9].sum())
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.move(tmp_path / "near.json", moved)
    shutil.move(tmp_path / "files", moved)
    np.testing.assert_array_equal(hs.open(moved / "near.json")["t"][31:60], cells(29, 1))


# -- repositories of icechunk ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in")
@pytest.mark.parametrize("how", FILTERS.values(), ids=FILTERS)
def test_virtual_chunks_of_a_repository(tmp_path: Path, how: dict[str, Any]) -> None:
    icechunk = pytest.importorskip("icechunk")
    (tmp_path / "files").mkdir()
    try:
        files = months(tmp_path / "files", **how)
    except (RuntimeError, NetCDF4MissingFeatureException) as error:
        pytest.skip(str(error))
    url = f"icechunk+file://{tmp_path}/repository"
    report = hs.virtual(files, url, along="time")
    assert report.references == 2 * (31 + 29 + 31) and report.files == 3 and report.format == "icechunk"
    expected = hs.join(files, along="time")
    same(hs.open(url, storage_options={"allow_external": str(tmp_path / "files")}), expected)
    assert next(snapshot.message for snapshot in hs.history(url)) == "refer to 3 pieces"
    with pytest.raises(StorageError, match="was not allowed"):
        hs.open(url)["t"][0]
    # icechunk itself, and xarray
    storage = icechunk.local_filesystem_storage(str(tmp_path / "repository"))
    prefix = f"file://{tmp_path}/files/"
    repository = icechunk.Repository.open(
        storage, authorize_virtual_chunk_access={prefix: usual_credentials(icechunk, prefix)}
    )
    with xr.open_zarr(repository.readonly_session("main").store, consolidated=False, chunks=None) as found:
        np.testing.assert_array_equal(found.t.values, expected["t"][...])


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in")
@pytest.mark.parametrize("where", ["disk", "s3"])
def test_virtual_chunks_in_a_bucket(tmp_path: Path, s3: S3, where: str) -> None:
    """The repository keeps where the server is, and no secret; icechunk itself reads it, too."""
    icechunk = pytest.importorskip("icechunk")
    (tmp_path / "files").mkdir()
    files, bucket = months(tmp_path / "files", zlib=True), s3.bucket()
    store = Location.of(f"s3://{bucket}", s3.options).store(read_only=False)
    for file in files:
        store.put(f"data/{file.name}", file.read_bytes())
    own = s3.options if where == "s3" else {}
    url = f"icechunk+s3://{bucket}/repository" if own else f"icechunk+file://{tmp_path}/repository"
    pieces = [f"s3://{bucket}/data/{file.name}" for file in files]
    hs.virtual(pieces, url, along="time", storage_options=(s3.options, own))
    expected = hs.join(files, along="time")
    options = {**own, "remote_options": s3.options}
    same(hs.open(url, storage_options=options, allow_external=f"s3://{bucket}/data"), expected)
    with pytest.raises(StorageError, match="was not allowed"):
        hs.open(url, storage_options=options)["t"][0]
    with pytest.raises(StorageError) as caught:
        hs.open(url, storage_options=own, allow_external=True)["t"][0]
    assert "remote_options" in str(caught.value.remedy)
    with pytest.raises(Invalid, match="remote_options"):
        hs.open(url, storage_options={**own, "remote_options": "secret"})
    place = Location.of(url, own).repository
    theirs = icechunk.containers_credentials(
        {f"s3://{bucket}/data/": icechunk.s3_credentials(access_key_id="tester", secret_access_key=SECRET)}
    )
    session = icechunk.Repository.open(place._storage(), authorize_virtual_chunk_access=theirs).readonly_session("main")
    with xr.open_zarr(session.store, consolidated=False, chunks=None) as found:
        np.testing.assert_array_equal(found.t.values, expected["t"][...])
    store.put("data/1.nc", (store.get("data/1.nc") or b"") + b"more")
    with pytest.raises(StorageError, match=r"1\.nc has changed since the references were made"):
        hs.open(url, storage_options=options, allow_external=True)["t"][40]


def test_virtual_chunks_on_a_web_server(tmp_path: Path) -> None:
    """icechunk forgets the port of a server, so that only the usual one will do."""
    pytest.importorskip("icechunk")
    (tmp_path / "files").mkdir()
    files, url = months(tmp_path / "files", zlib=True), f"icechunk+file://{tmp_path}/repository"
    with serving(tmp_path / "files") as web, pytest.raises(Unsupported, match="at the port") as caught:
        hs.virtual([f"{web}/{file.name}" for file in files], url, along="time")
    assert "JSON or Parquet" in str(caught.value.remedy) and not (tmp_path / "repository").exists()
    try:
        with serving(tmp_path / "files", port=80) as web:
            hs.virtual([f"{web}/{file.name}" for file in files], url, along="time")
            same(hs.open(url, allow_external=web), hs.join(files, along="time"))
    except PermissionError as error:
        pytest.skip(f"the port 80 is not for everybody: {error}")


@pytest.mark.parametrize("kind", ["all.json", "all.parquet", "repository"])
def test_places_are_allowed_alike_whatever_leads_there(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("icechunk")
    (folder := tmp_path / "files").mkdir()
    (tmp_path / "references").mkdir()
    files = months(folder, zlib=True)
    target = str(tmp_path / "references" / kind)
    target = f"icechunk+file://{target}" if kind == "repository" else target
    hs.virtual(files, target, along="time")
    for allowed in (True, "any", "true", folder, str(folder), [str(folder)], ("/nowhere", str(folder))):
        for options in ({"allow_external": allowed}, {"storage_options": {"allow_external": allowed}}):
            root = hs.open(target, **options)
            np.testing.assert_array_equal(root["t"][40], cells(29, 1)[9])
            np.testing.assert_array_equal(pickle.loads(pickle.dumps(root["t"]))[40], cells(29, 1)[9])
    assert not hs.check(target, deep=True, allow_external=[str(folder)])
    hs.convert(target, tmp_path / "copy.zarr", allow_external=True)
    np.testing.assert_array_equal(hs.open(tmp_path / "copy.zarr")["t"][31:60], cells(29, 1))
    for places in ((), str(tmp_path / "elsewhere")):
        with pytest.raises(StorageError) as caught:
            hs.open(target, allow_external=places)["t"][0]
        assert "--allow-external" in str(caught.value.remedy)
    os.utime(files[1], (2**31 - 9, 2**31 - 9))
    with pytest.raises(StorageError, match=r"1\.nc has changed since the references were made") as caught:
        hs.open(target, allow_external=True)["t"][40]
    assert "make the references anew" in str(caught.value.remedy)
    files[2].unlink()
    with pytest.raises(StorageError, match=r"No such file"):
        hs.open(target, allow_external=True)["t"][70]


@pytest.mark.parametrize("name", ["my data", "a%20b", "50%", "a#b", "why?", "Zürich", "a+b"])
def test_files_whose_names_a_url_escapes(tmp_path: Path, name: str) -> None:
    pytest.importorskip("icechunk")
    (folder := tmp_path / name).mkdir()
    files = [path.rename(folder / f"{name} {path.name}") for path in months(folder, zlib=True)]
    (tmp_path / "elsewhere").symlink_to(folder)
    url = f"icechunk+file://{tmp_path}/repository"
    hs.virtual(files, url, along="time")
    for allowed in (folder, folder.as_uri(), tmp_path / "elsewhere", tmp_path):
        root = hs.open(url, storage_options={"allow_external": str(allowed)})
        np.testing.assert_array_equal(root["t"][:31], cells(31, 0))
    with pytest.raises(StorageError):
        hs.open(url, storage_options={"allow_external": f"{folder}/deeper"})["t"][0]


def test_a_repository_sees_that_a_file_changed(tmp_path: Path) -> None:
    pytest.importorskip("icechunk")
    files = months(tmp_path, zlib=True)
    url = f"icechunk+file://{tmp_path}/repository"
    hs.virtual(files, url, along="time")
    with pytest.raises(AlreadyExists):
        hs.virtual(files, url, along="time")
    options = {"allow_external": True}
    os.utime(files[1], (2**31 - 9, 2**31 - 9))
    root = hs.open(url, storage_options=options)
    np.testing.assert_array_equal(root["t"][:31], cells(31, 0))
    with pytest.raises(StorageError, match=r"1\.nc has changed since the references were made"):
        root["t"][40]
    hs.virtual(files, url, along="time", overwrite=True)
    same(hs.open(url, storage_options=options), hs.join(files, along="time"))
    assert len(hs.history(url)) == 3


def containers(folder: Path) -> set[str]:
    """The places of virtual chunks that a repository names."""
    import icechunk

    config = icechunk.Repository.fetch_config(icechunk.local_filesystem_storage(str(folder)))
    return set((config and config.virtual_chunk_containers) or ())


def test_a_repository_names_the_folders_of_its_pieces_alone(tmp_path: Path) -> None:
    pytest.importorskip("icechunk")
    (tmp_path / "data").mkdir()
    (tmp_path / "home" / "me").mkdir(parents=True)
    files = [netcdf(tmp_path / "data" / "0.nc", 0, 31), netcdf(tmp_path / "home" / "me" / "1.nc", 1, 29)]
    url = f"icechunk+file://{tmp_path}/repository"
    hs.virtual(files, url, along="time")
    assert containers(tmp_path / "repository") == {f"file://{tmp_path}/data/", f"file://{tmp_path}/home/me/"}
    expected = hs.join(files, along="time")
    os.symlink(tmp_path / "data", tmp_path / "alias")
    allowed = [str(tmp_path / "alias"), str(tmp_path / "home")]
    same(hs.open(url, allow_external=allowed), expected)
    with pytest.raises(StorageError):
        hs.open(url, allow_external=allowed[1])["t"][0]


def test_a_repository_names_a_dataset_that_is_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("icechunk")
    for number in range(2):
        cells = np.full((9, 60, 60), number + 1.0, "f4")
        labels = {"time": np.arange(9.0) + 9 * number}
        hs.save(tmp_path / f"{number}.zarr", xr.Dataset({"t": (("time", "y", "x"), cells)}, labels), chunks={"time": 3})
    hs.virtual(tmp_path / "0.zarr", f"icechunk+file://{tmp_path}/one")
    assert containers(tmp_path / "one") == {f"file://{tmp_path}/0.zarr/"}
    hs.virtual([tmp_path / "0.zarr", tmp_path / "1.zarr"], f"icechunk+file://{tmp_path}/both", along="time")
    assert containers(tmp_path / "both") == {f"file://{tmp_path}/"}


def test_what_is_refused_changes_no_repository(tmp_path: Path) -> None:
    pytest.importorskip("icechunk")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    url = f"icechunk+file://{tmp_path}/repository"
    hs.virtual(months(tmp_path / "a"), url, along="time")
    before = containers(tmp_path / "repository"), len(hs.history(url))
    with pytest.raises(AlreadyExists):
        hs.virtual(months(tmp_path / "b"), url, along="time")
    assert (containers(tmp_path / "repository"), len(hs.history(url))) == before


@pytest.mark.parametrize("stored", [0, 1])
def test_tables_are_written_of_stored_chunks_alone(tmp_path: Path, stored: int) -> None:
    with hs.create(tmp_path / "a.zarr", format="zarr2") as root:
        array = root.create_array("a", shape=(10**14,), dtype="f4", dims=("x",), chunks=(10_000,), codec="none")
        for number in range(stored):
            array[number * 10**13 + 5] = 1
    report = hs.virtual(tmp_path / "a.zarr", tmp_path / "a.parquet")
    assert report.references == stored
    assert len(list((tmp_path / "a.parquet" / "a").glob("*.parq"))) == stored
    assert hs.open(tmp_path / "a.parquet")["a"][5] == stored


# -- what does not fit -------------------------------------------------------------------------------------------------


def test_the_target_exists(tmp_path: Path) -> None:
    files = months(tmp_path)
    hs.virtual(files, tmp_path / "all.json", along="time")
    with pytest.raises(AlreadyExists):
        hs.virtual(files, tmp_path / "all.json", along="time")
    hs.virtual(files, tmp_path / "all.json", along="time", overwrite=True)


@pytest.mark.parametrize("target", ["all.nc", "all", "all.zarr"])
def test_a_name_that_says_no_form(tmp_path: Path, target: str) -> None:
    with pytest.raises(Invalid, match="json"):
        hs.virtual(months(tmp_path), tmp_path / target, along="time")


OTHERS: dict[str, tuple[type[HyperslabError], dict[str, Any], str]] = {
    "codecs": (Unsupported, {"zlib": True, "fletcher32": True}, "t"),
    "type": (Invalid, {"zlib": True, "dtype": "f8"}, "t"),
    "byte order": (HyperslabError, {"zlib": True, "dtype": ">f4", "endian": "big"}, "t"),
    "grid": (Invalid, {"zlib": True, "lat": LAT // 2, "chunksizes": (1, LAT // 2, LON)}, "lat"),
    "chunks": (Unsupported, {"zlib": True, "chunksizes": (2, LAT, LON)}, "t"),
    "packing": (Invalid, {"zlib": True, "scale": 0.5}, "t"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_piece_that_is_no_part_of_one_array(tmp_path: Path, kind: str) -> None:
    error, how, node = OTHERS[kind]
    files = [netcdf(tmp_path / "0.nc", 0, 31, zlib=True), netcdf(tmp_path / "1.nc", 1, 29, **how)]
    with pytest.raises(error) as caught:
        hs.virtual(files, tmp_path / "all.json", along="time")
    assert caught.value.url == str(files[1]) and caught.value.node == node and caught.value.remedy
    assert not (tmp_path / "all.json").exists()


def test_a_chunk_that_is_cut_short_in_the_middle(tmp_path: Path) -> None:
    files = months(tmp_path, zlib=True, chunksizes=(10, LAT, LON))
    with pytest.raises(Unsupported, match="cut short") as caught:
        hs.virtual(files, tmp_path / "all.json", along="time")
    assert caught.value.url == str(files[0]) and caught.value.node == "t"
    assert "hs.open([...])" in str(caught.value.remedy) and "hs.convert" in str(caught.value.remedy)


def test_a_level_of_a_compressor_makes_no_difference(tmp_path: Path) -> None:
    files = [netcdf(tmp_path / f"{n}.nc", n, 28, zlib=True, complevel=1 + n) for n in range(3)]
    hs.virtual(files, tmp_path / "all.json", along="time")
    same(hs.open(tmp_path / "all.json"), hs.join(files, along="time"))


def test_missing_and_truncated_files(tmp_path: Path) -> None:
    files = months(tmp_path, zlib=True)
    with pytest.raises(HyperslabError) as caught:
        hs.virtual([*files, tmp_path / "gone.nc"], tmp_path / "all.json", along="time")
    assert "gone.nc" in str(caught.value)
    files[1].write_bytes(files[1].read_bytes()[:2000])
    with pytest.raises(HyperslabError) as caught:
        hs.virtual(files, tmp_path / "all.json", along="time")
    assert caught.value.url == str(files[1])


def test_a_file_that_is_written_while_its_chunks_are_looked_up(tmp_path: Path) -> None:
    reader, _ = open_piece(Location.of(netcdf(tmp_path / "a.nc", 0, zlib=True)))
    source = reader.chunks("t")
    assert len(list(source.stored_coords())) == 30
    os.utime(tmp_path / "a.nc", ns=(1, 1))
    with pytest.raises(Conflict, match="changed"):
        source.locations()
    reader.close()


# -- sources that change afterwards ------------------------------------------------------------------------------------


def made(tmp_path: Path, form: str = "json") -> Path:
    """References to three files."""
    hs.virtual(months(tmp_path, zlib=True), tmp_path / f"all.{form}", along="time")
    return tmp_path / f"all.{form}"


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_file_that_was_replaced(tmp_path: Path, form: str) -> None:
    target = made(tmp_path, form)
    netcdf(tmp_path / "1.nc", 7, 29, zlib=True)
    root = hs.open(target)
    np.testing.assert_array_equal(root["t"][:31], cells(31, 0))
    with pytest.raises(StorageError, match=r"1\.nc has changed") as caught:
        root["t"][40]
    assert "overwrite" in str(caught.value.remedy)


def test_a_file_that_changes_while_it_is_open(tmp_path: Path) -> None:
    root = hs.open(made(tmp_path), cache_bytes=0)
    np.testing.assert_array_equal(root["t"][40], cells(29, 1)[9])
    with open(tmp_path / "1.nc", "r+b") as file:
        file.write(b"\x89HDF")
    os.utime(tmp_path / "1.nc", ns=(1, 1))
    with pytest.raises(StorageError, match=r"1\.nc has changed"):
        root["t"][40]


def test_a_file_that_is_gone_or_cut_off(tmp_path: Path) -> None:
    target = made(tmp_path)
    (tmp_path / "2.nc").unlink()
    with pytest.raises(HyperslabError, match=r"2\.nc"):
        hs.open(target)["t"][90]
    os.truncate(tmp_path / "0.nc", 5000)
    with pytest.raises(StorageError, match=r"0\.nc has changed"):
        hs.open(target)["t"][0]


def test_damaged_cells_are_still_seen(tmp_path: Path) -> None:
    """A checksum of the source is verified through references, too."""
    hs.virtual([netcdf(tmp_path / "0.nc", 0, 30, zlib=True, fletcher32=True)], tmp_path / "all.json")
    document = json.loads((tmp_path / "all.json").read_text())
    _, offset, size = document["refs"]["t/3.0.0"]
    before = os.stat(tmp_path / "0.nc")
    with open(tmp_path / "0.nc", "r+b") as file:
        file.seek(offset + size // 2)
        byte = file.read(1)
        file.seek(offset + size // 2)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(tmp_path / "0.nc", ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(CorruptChunk):
        hs.open(tmp_path / "all.json")["t"][3]


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_files_elsewhere_are_told_when_references_are_written(
    tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "elsewhere").mkdir()
    files = months(tmp_path / "files", zlib=True)
    for relative in (True, False):
        hs.virtual(files, tmp_path / f"{relative}.{form}", along="time", relative=relative)
    assert "outside the folder" not in caplog.text
    target = tmp_path / "elsewhere" / f"a.{form}"
    hs.virtual(files, target, along="time")
    assert "3 files lie outside the folder of" in caplog.text and "--allow-external" in caplog.text
    with pytest.raises(StorageError, match="lies outside"):
        hs.open(target)["t"][...]
    assert hs.open(target, allow_external=str(tmp_path / "files"))["t"].shape == (91, LAT, LON)
