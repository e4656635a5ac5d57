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
from servers.files import serving

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


def test_a_replaced_file_is_a_conflict(folder: Path, web: str) -> None:
    write_large(folder / "moving.nc")
    root = hs.open(f"{web}/moving.nc")
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
