"""What an append refuses, since the cells would hold something else, and text of which some is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Invalid

FORMATS = {"zarr3": ".zarr", "zarr2": ".zarr", "nczarr": ".nczarr", "netcdf": ".nc", "b2nd": ".b2nd", "blaze": ".blaze"}
REFUSED = {
    "longer text": (np.array([b"ab"]), np.array(["longer"], object)),
    "longer bytes": (np.array([b"ab"]), np.array([b"longer"])),
    "longer unicode": (np.array(["ab"]), np.array(["longer"], object)),
    "an overflow of floats": (np.ones(1, "f4"), np.array([1e300])),
    "times as numbers": (np.ones(1, "i4"), np.array(["2000-01-01"], "M8[s]")),
    "timedeltas as numbers": (np.ones(1, "f8"), np.array([1], "m8[s]")),
    "timedeltas as times": (np.array(["2000-01-01"], "M8[s]"), np.array([1], "m8[s]")),
    "complex numbers": (np.ones(1), np.array([1j])),
    "what is no number": (np.ones(1, "i2"), np.array([np.nan])),
}
MISSING = {
    "None": np.array(["ab", None], np.dtypes.StringDType(na_object=None)),
    "NaN": np.array(["ab", np.nan], np.dtypes.StringDType(na_object=np.nan)),
    "None among objects": np.array(["ab", None], object),
    "NaN among objects": np.array(["ab", np.nan], object),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_an_append_refuses_what_the_cells_would_hold_otherwise(tmp_path: Path, format: str, name: str) -> None:
    stored, given = REFUSED[name]
    with hs.create(tmp_path / "a.zarr", format) as root:
        array = root.create_array("x", data=stored, dims=["t"])
        with pytest.raises(Invalid, match="hold"):
            array.append(given)
        np.testing.assert_array_equal(array[:], stored)


@pytest.mark.parametrize("format", FORMATS)
def test_an_append_refuses_an_overflow_of_floats_in_every_format(tmp_path: Path, format: str) -> None:
    place = tmp_path / f"a{FORMATS[format]}"
    with hs.create(place, format) as root:
        root.create_array("data", shape=(0,), dtype="f4", dims=["t"], chunks=(4,))
        root["data"].append(np.ones(2))
        with pytest.raises(Invalid, match="cannot hold"):
            root["data"].append(np.array([1e300]))


@pytest.mark.parametrize("name", MISSING)
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "nczarr", "netcdf"])
def test_missing_text_is_empty(tmp_path: Path, format: str, name: str) -> None:
    place = tmp_path / f"a{FORMATS[format]}"
    with hs.create(place, format) as root:
        root.create_array("new", data=MISSING[name], dtype=str, dims=["t"])
        root.create_array("set", shape=(2,), dtype=str, dims=["t"])[...] = MISSING[name]
    root = hs.open(place)
    assert root["new"][:].tolist() == root["set"][:].tolist() == ["ab", ""]


def test_a_list_of_one_text_fits_one_cell(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        array = root.create_array("x", shape=(2,), dtype=str)
        array[0] = ["zz"]
        assert array[:].tolist() == ["zz", ""]
