"""Chars of netCDF are texts along their last dimension; bytes of length 1 keep every dimension."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs

LETTERS = np.array([b"a", b"b", b"c"], "S1")


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_bytes_of_length_1_keep_their_dimensions(tmp_path: Path, format: str) -> None:
    with hs.create(tmp_path / "a.zarr", format=format) as root:
        root.create_array("flag", data=LETTERS, dims=("x",))
        root.create_array("table", data=np.array([LETTERS, LETTERS]), dims=("y", "x"))
        root.create_array("nameless", data=LETTERS)
    dataset = xr.open_dataset(tmp_path / "a.zarr", engine="hyperslab")
    assert dataset["flag"].dims == ("x",)
    assert dataset["table"].dims == ("y", "x")
    assert dataset["nameless"].shape == (3,)
    np.testing.assert_array_equal(dataset["flag"], LETTERS)
    opened = hs.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(opened["flag"].to_xarray(), LETTERS)
    np.testing.assert_array_equal(opened["flag"].decoded()[:], LETTERS)
    joined = xr.open_dataset(tmp_path / "a.zarr", engine="hyperslab", concat_characters=True)
    assert joined["flag"].item() == b"abc"


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_bytes_of_length_1_are_appended_to(tmp_path: Path, format: str) -> None:
    dataset = xr.Dataset({"flag": ("x", LETTERS)})
    dataset.hyperslab.save(tmp_path / "a.zarr", format=format)
    dataset.hyperslab.save(tmp_path / "a.zarr", append_dim="x")
    np.testing.assert_array_equal(hs.open(tmp_path / "a.zarr")["flag"][:], np.concatenate([LETTERS, LETTERS]))


@pytest.mark.parametrize("name", ["a.nc", "a.nczarr"])
def test_chars_are_joined_also_after_conversion_to_zarr(tmp_path: Path, name: str) -> None:
    with hs.create(tmp_path / name) as root:
        root.create_array("word", data=LETTERS, dims=("length",))
    hs.convert(tmp_path / name, tmp_path / "b.zarr", format="zarr3")
    for place in (name, "b.zarr"):
        assert xr.open_dataset(tmp_path / place, engine="hyperslab")["word"].item() == b"abc"
