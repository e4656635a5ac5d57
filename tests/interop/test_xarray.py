"""xarray's own engine opens scalars, text and empty arrays of ours; what it wrote we change, and it reads on."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs

pytest.importorskip("zarr", minversion="3.1")


def opened(path: Path, **options: Any) -> Any:
    """xarray's dataset, with zarr-python's own warnings about types let through."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification.*")
        with xr.open_dataset(path, engine="zarr", consolidated=False, **options) as dataset:
            return dataset.load()


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_scalars_dimensions_and_text(tmp_path: Path, format: str) -> None:
    with hs.create(tmp_path / "a.zarr", format=format, durable=False) as root:
        root.create_array("scalar", (), "f8", attrs={"units": "m"})[...] = 2.5
        root.create_array("x", (3,), "i4", dims="x")[...] = [3, 1, 2]
        root.create_array("name", (3,), str, dims="x")[...] = ["a", "", "hé ☃"]
        root.create_array("empty", (0, 3), "f4", dims=("t", "x"))
    found = opened(tmp_path / "a.zarr")
    assert float(found["scalar"]) == 2.5 and found["scalar"].dims == () and found["scalar"].attrs == {"units": "m"}
    assert found["x"].dims == ("x",) and found["name"].values.tolist() == ["a", "", "hé ☃"]
    assert found["empty"].dims == ("t", "x") and found["empty"].shape == (0, 3)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("consolidated", [False, True])
def test_we_change_what_xarray_wrote(tmp_path: Path, format: str, consolidated: bool) -> None:
    values = np.arange(6.0).reshape(3, 2)
    time = np.array(["2001-01-01", "2001-01-02", "2001-01-03"], "M8[ns]")
    made = xr.Dataset(
        {"a": (("time", "x"), values, {"units": "K", "_note": [1, 2]}), "name": ("x", ["p", "q"])}, {"time": time}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.to_zarr(tmp_path / "a.zarr", zarr_format=int(format[-1]), consolidated=consolidated)
    with hs.open(tmp_path / "a.zarr", "r+", durable=False) as root:
        assert root.format == format and root["a"].dims == ("time", "x")
        assert np.array_equal(root["a"][...], values)
        root["a"].append([[7.0, 8.0]], dim="time")
        root["a"].attrs["units"] = "degC"
        root["time"].append([3], dim="time")
    reads = (True, False) if consolidated else (False,)
    for copy in reads:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification.*")
            warnings.filterwarnings("ignore", message=".*is currently not part in the Zarr format 3.*")
            with xr.open_dataset(tmp_path / "a.zarr", engine="zarr", consolidated=copy) as found:
                assert np.array_equal(found["a"].values, [*values.tolist(), [7, 8]])
                assert found["a"].attrs == {"units": "degC", "_note": [1, 2]}
                assert found["time"].values[-1] == np.datetime64("2001-01-04") and found["name"].values.tolist() == [
                    "p",
                    "q",
                ]
