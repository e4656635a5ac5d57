"""What we write, xarray opens with its own Zarr engine: missing values, dimension names, typed attributes; and back."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.model.attrs import equal

pytestmark = pytest.mark.interop

FORMATS = ["zarr2", "zarr3"]
NUMBERS = ["i1", "u1", "i2", ">i2", "u4", "i8", "f2", "f4", ">f4", "f8", "c8", "c16"]
OTHERS = ["?", "U3", "S3", "V4", "M8[ns]", "m8[s]", str, bytes]
VALUES: list[Any] = [
    3,
    2.5,
    float("nan"),
    "text",
    True,
    None,
    np.float32(-999),
    np.float64("nan"),
    np.int16(-5),
    np.array([7], "i4"),
    np.array([1.5], "f4"),
    np.array([1, 2], "i2"),
    np.complex64(1 - 2j),
    [1, 2],
]


def loaded(xarray: ModuleType, path: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(does not have a Zarr V3 specification|Numcodecs codecs).*")
        warnings.filterwarnings("ignore", category=UserWarning, module="zarr")
        return xarray.open_dataset(path, engine="zarr", consolidated=False, **options).load()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", [*NUMBERS, *OTHERS], ids=str)
def test_every_missing_value_opens(tmp_path: Path, xarray: ModuleType, format: str, dtype: Any) -> None:
    """One attribute that xarray cannot read would hide the whole dataset from it; ours come back as they were set."""
    with hs.create(tmp_path / "a.zarr", format=format) as root:
        for place, value in enumerate(VALUES):
            root.create_array(f"v{place}", (2,), dtype, dims=("x",), attrs={"_FillValue": value, "units": "m"})
    found = hs.open(tmp_path / "a.zarr")
    for place, value in enumerate(VALUES):
        assert equal(found[f"v{place}"].attrs["_FillValue"], value)
        assert list(found[f"v{place}"].attrs) == ["_FillValue", "units"]
    decodes = dtype in NUMBERS and dtype[-2] != "c" and dtype[0] != "c"
    opened = loaded(xarray, tmp_path / "a.zarr", mask_and_scale=False, decode_times=False)
    assert {opened[f"v{place}"].dims for place in range(len(VALUES))} == {("x",)}
    assert not decodes or opened["v0"].attrs["_FillValue"] == 3


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", ["i2", "f4", "f8"])
def test_missing_values_are_masked_and_zeros_are_not(
    tmp_path: Path, xarray: ModuleType, format: str, dtype: str
) -> None:
    cells = np.array([0, 1, 7], dtype)
    with hs.create(tmp_path / "a.zarr", format=format) as root:
        root.create_array("plain", dims=("x",), data=cells)
        root.create_array("masked", dims=("x",), data=cells, attrs={"_FillValue": cells.dtype.type(7)})
    opened = loaded(xarray, tmp_path / "a.zarr")
    assert opened["plain"].values.tolist() == [0, 1, 7]
    assert np.array_equal(opened["masked"].values, [0, 1, np.nan], equal_nan=True)


@pytest.mark.parametrize("format", [*FORMATS, "nczarr"])
def test_numbers_of_float32_are_the_same_to_readers_without_types(
    tmp_path: Path, xarray: ModuleType, format: str
) -> None:
    """xarray takes a number of JSON as a double; the shortest digits of a float32 would mask nothing."""
    marks = {"missing_value": np.float32(1e20), "_FillValue": np.float32(1e20)}
    packed = {"scale_factor": np.float32(0.15), "_FillValue": np.int16(-9)}
    with hs.create(tmp_path / "a.nc") as root:
        cells = np.array([1.5, 1e20], "f4")
        root.create_array("t", dims=("x",), data=cells, attrs=marks, fill_value=np.float32(1e20))
        root.create_array("p", dims=("x",), data=np.array([3, -9], "i2"), attrs=packed, fill_value=-9)
    hs.convert(tmp_path / "a.nc", tmp_path / "a.zarr", format=format)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*multiple fill values")
        opened = loaded(xarray, tmp_path / "a.zarr")
        ours = xarray.open_dataset(tmp_path / "a.zarr", engine="hyperslab").load()
    assert np.array_equal(opened["t"].values, [1.5, np.nan], equal_nan=True)
    raw = loaded(xarray, tmp_path / "a.zarr", mask_and_scale=False)
    assert raw["t"].attrs["missing_value"] == float(np.float32(1e20))
    assert raw["p"].attrs["scale_factor"] == float(np.float32(0.15))
    xarray.testing.assert_identical(ours, xarray.open_dataset(tmp_path / "a.nc").load())
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.nc")
    for name, attrs in (("t", marks), ("p", packed)):
        assert equal(dict(hs.open(tmp_path / "b.nc")[name].attrs), attrs)


@pytest.mark.parametrize("format", FORMATS)
def test_what_xarray_writes(tmp_path: Path, xarray: ModuleType, format: str) -> None:
    dataset = xarray.Dataset(
        {
            "f": (("y", "x"), np.array([[1.5, np.nan]], "f4"), {"units": "K"}),
            "d": (("y", "x"), np.array([[1.5, np.nan]]), {}, {"_FillValue": -999.0}),
            "i": (("y", "x"), np.array([[1.0, np.nan]]), {}, {"_FillValue": -9, "dtype": "i2"}),
            "s": ((), 5.0),
        },
        {"x": [10, 20]},
        {"title": "theirs"},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset.to_zarr(tmp_path / "a.zarr", zarr_format=int(format[-1]), consolidated=True)
    root = hs.open(tmp_path / "a.zarr")
    assert root["f"].dims == ("y", "x")
    assert dict(root.attrs) == {"title": "theirs"}
    assert root["i"][...].tolist() == [[1, -9]]
    assert root["s"][()] == 5
    if format == "zarr3":
        assert equal(root["d"].attrs["_FillValue"], np.float64(-999))
        assert root["i"].attrs["_FillValue"] == -9
        assert np.isnan(root["f"].attrs["_FillValue"])
        assert type(root["f"].attrs["_FillValue"]) is np.float32
    else:
        assert root["d"].fill_value == -999


@pytest.mark.parametrize("format", FORMATS)
def test_consolidated_by_us(tmp_path: Path, xarray: ModuleType, zarr: ModuleType, format: str) -> None:
    """zarr-python lists and opens the tree from our consolidated metadata alone, groups within groups too."""
    with hs.create(tmp_path / "a.zarr", format=format, consolidated=True) as root, root.batch():
        root.create_group("g/h").attrs["n"] = 1
        root.create_array("g/h/v", dims=("x",), data=np.arange(3))
        root.create_array("w", dims=("x",), data=np.arange(3))
    group = zarr.open_group(tmp_path / "a.zarr", mode="r", use_consolidated=True)
    assert sorted(path for path, _ in group.members(max_depth=None)) == ["g", "g/h", "g/h/v", "w"]
    assert group["g/h"].attrs["n"] == 1
    assert xarray.open_dataset(tmp_path / "a.zarr", engine="zarr", consolidated=True)["w"].values.tolist() == [0, 1, 2]
    assert xarray.open_datatree(tmp_path / "a.zarr", engine="zarr")["g/h/v"].values.tolist() == [0, 1, 2]
