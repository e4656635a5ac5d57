"""netCDF files on a web server: the same as here, by few ranges."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import iris_sample_data
import netCDF4
import numpy as np
import pytest
import xarray as xr
from xarray.testing import assert_identical

import hyperslab as hs
from hyperslab.errors import Conflict, CorruptChunk, FormatError, NotFound, Unsupported

sys.path.insert(0, str(Path(__file__).parents[2]))
from servers.files import Spans, round_trips, serving

pytestmark = pytest.mark.sampled(2)

FILES = sorted(Path(iris_sample_data.path).rglob("*.nc"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is served."""
    place: Path = tmp_path_factory.mktemp("served")
    for file in FILES:
        shutil.copy(file, place)
    return place


@pytest.fixture(scope="module")
def web(folder: Path) -> Iterator[str]:
    with serving(folder) as url:
        yield url


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("decode", [True, False])
def test_real_files_are_the_same(web: str, file: Path, decode: bool) -> None:
    with xr.open_dataset(file, decode_cf=decode) as here:
        there = xr.open_dataset(f"{web}/{file.name}", engine="hyperslab", decode_cf=decode)
        assert_identical(there.load(), here)


def write_large(path: Path, **options: object) -> np.ndarray:
    """24 MiB of noise in chunks, with text and a small packed variable beside it."""
    cells = np.random.default_rng(0).random((48, 256, 256))
    with netCDF4.Dataset(path, "w", **options) as file:
        for name, size in zip("tyx", cells.shape, strict=True):
            file.createDimension(name, None if name == "t" else size)
        kind = {} if options else {"zlib": True, "chunksizes": (1, 128, 128)}
        file.createVariable("noise", "f8", ("t", "y", "x"), **kind)[...] = cells
        file.createVariable("t", "i4", ("t",))[...] = np.arange(48)
        if not options:
            words = file.createVariable("words", str, ("y",))
            words[...] = np.array([f"word {i}" for i in range(256)], dtype=object)
    return cells


@pytest.mark.sampled(0)
@pytest.mark.parametrize("model", ["NETCDF4", "NETCDF3_64BIT_OFFSET"])
def test_only_what_is_needed_is_read(folder: Path, web: str, model: str) -> None:
    name = f"{model}.nc"
    cells = write_large(folder / name, **({} if model == "NETCDF4" else {"format": model}))
    with hs.trace() as cost:
        root = hs.open(f"{web}/{name}")
        assert root["noise"].shape == cells.shape
        assert list(root["t"][3:5]) == [3, 4]
    assert cost.bytes_read < 2 << 20
    assert cost.requests < 60  # one for each record of t in netCDF-3
    if model == "NETCDF4":
        with hs.trace() as cost:
            np.testing.assert_array_equal(root["noise"][7, 100:140, 5:9], cells[7, 100:140, 5:9])
        assert cost.bytes_read < 1 << 20
        assert list(root["words"][254:]) == ["word 254", "word 255"]
    np.testing.assert_array_equal(root["noise"][...], cells)
    root.close()


def write_slices(path: Path, names: list[str], steps: int) -> None:
    """One chunk for each step of each variable, step by step, so that the maps lie scattered among the cells."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 2048)
        for name in names:
            variable = file.createVariable(name, "f4", ("t", "x"), zlib=True, chunksizes=(1, 2048))
            variable.setncatts({f"note_{place}": f"{name} {place}" for place in range(12)})  # more than a header holds
        noise = np.random.default_rng(0)
        for step in range(steps):
            for name in names:
                file[name][step] = noise.random(2048, "f4") + step


@pytest.mark.sampled(0)
def test_opening_takes_no_more_requests_for_more_chunks(folder: Path, web: str) -> None:
    names = [f"v{place}" for place in range(8)]
    spent = []
    for steps in (10, 400):
        write_slices(folder / f"slices_{steps}.nc", names, steps)
        with hs.trace() as cost:
            root = hs.open_group(f"{web}/slices_{steps}.nc")
            found = {name: (array.shape, array.chunks, dict(array.attrs)) for name, array in root.arrays()}
        spent.append(cost.requests)
        assert cost.bytes_read < 1 << 20
        with hs.open_group(folder / f"slices_{steps}.nc") as here:
            assert found == {name: (array.shape, array.chunks, dict(array.attrs)) for name, array in here.arrays()}
            with hs.trace() as first:
                np.testing.assert_array_equal(root["v3"][5], here["v3"][5])
            with hs.trace() as second:
                np.testing.assert_array_equal(root["v3"][steps - 1], here["v3"][steps - 1])
            assert root["v7"].nbytes_stored == here["v7"].nbytes_stored
        assert first.requests < 16
        assert second.requests == 1
        root.close()
    assert spent[1] <= spent[0] <= 8


def test_where_chunks_lie_is_read_level_by_level(folder: Path) -> None:
    """HDF5 reads the nodes of the tree one by one, which are some hundred here, each far from the next."""
    with netCDF4.Dataset(folder / "tree.nc", "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 256)
        variable = file.createVariable("v", "f4", ("t", "x"), chunksizes=(1, 256))
        variable[:6000] = np.arange(6000, dtype="f4")[:, None]
    spans: Spans = []
    with serving(folder, spans) as url, hs.open_group(f"{url}/tree.nc") as root:
        spans.clear()
        with hs.trace() as cost:
            assert root["v"][5000].tolist() == [5000] * 256
        assert cost.bytes_read < 1 << 20
        assert 100 < cost.requests < 150
        assert round_trips(spans) < 25
        np.testing.assert_array_equal(root["v"][::1000, 0], np.arange(0, 6000, 1000))


@pytest.mark.sampled(0)
def test_a_replaced_file_is_a_conflict(folder: Path, web: str) -> None:
    write_large(folder / "moving.nc")
    # The server is a thread of this process, which obstore's errors may hold up until the client gives up.
    root = hs.open(f"{web}/moving.nc", storage_options={"client_options": {"timeout": "2s"}})
    shutil.copy(FILES[0], folder / "moving.nc")
    with pytest.raises((Conflict, CorruptChunk)):
        root["noise"][...]


def test_what_cannot_be_opened(folder: Path, web: str) -> None:
    with pytest.raises((NotFound, FormatError)):
        hs.open(f"{web}/missing.nc")
    with pytest.raises(NotFound):
        hs.open(f"{web}/missing.nc", format="netcdf")
    with pytest.raises(Unsupported, match="local file system"):
        hs.open(f"{web}/{FILES[0].name}", "r+", format="netcdf")
    whole = FILES[0].read_bytes()
    (folder / "short.nc").write_bytes(whole[: len(whole) // 3])
    with pytest.raises((FormatError, CorruptChunk)):
        hs.open(f"{web}/short.nc", format="netcdf").to_xarray().load()


def test_telling_of_records_fetches_none_of_them(folder: Path, web: str) -> None:
    """Their cells go through the library, which wants them in a file: they are fetched when they are read."""
    cells = write_large(folder / "records.nc", format="NETCDF3_64BIT_OFFSET")
    with hs.trace() as cost:
        root = hs.open_group(f"{web}/records.nc")
        facts = {name: (array.nbytes_stored, array.chunks, array.attrs) for name, array in root.arrays()}
    assert set(facts) == {"noise", "t"}
    assert cost.bytes_read < 1 << 20
    np.testing.assert_array_equal(root["noise"][20:22], cells[20:22])
    root.close()
