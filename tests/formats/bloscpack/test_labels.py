"""Labels: the array by its name, its coordinates beside it, xarray over both."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from blp_files import file_of, write

import hyperslab as hs
from hyperslab.errors import Invalid, NodeNotFound

CELLS = np.arange(48.0).reshape(6, 8)
LABELS: dict[str, Any] = {
    "name": "air",
    "dims": ["time", "x"],
    "attrs": {"units": "K", "scale": 0.5, "coordinates": "height"},
    "types": {"scale": "<f4"},
    "coords": {
        "time": {
            "dtype": "<i4",
            "shape": [6],
            "dims": ["time"],
            "cells": [0, 1, 2, 3, 4, 5],
            "attrs": {"units": "days since 2000-01-01"},
        },
        "x": {"dtype": "string", "shape": [8], "dims": ["x"], "cells": list("abcdefgh")},
        "height": {"dtype": "<f8", "shape": [], "cells": [2.0]},
    },
    "group": {"attrs": {"title": "t"}, "unlimited": ["time"]},
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return write(tmp_path, file_of(CELLS, 128, LABELS))


def test_the_array_is_what_opening_gives(url: str) -> None:
    array: Any = hs.open(url)
    assert (array.name, array.dims, array.units) == ("air", ("time", "x"), "K")
    assert array.attrs["scale"].dtype == np.float32
    np.testing.assert_array_equal(array["2000-01-03":"2000-01-05", "c"], CELLS[2:4, 2])
    np.testing.assert_array_equal(array.sel(x=["a", "h"]), CELLS[:, [0, 7]])


def test_the_group_around_it(url: str) -> None:
    root = hs.open_group(url)
    assert list(root) == ["air", "time", "x", "height"]
    assert root.attrs["title"] == "t"
    assert root.dims["time"].unlimited
    assert list(hs.open(url, path="x")[...]) == list("abcdefgh")
    assert root["height"][()] == 2.0
    with pytest.raises(NodeNotFound):
        root["time/x"]
    with pytest.raises(NodeNotFound, match="did you mean 'height'"):
        root["heigh"]
    with pytest.raises(Invalid):
        hs.open_group(url, path="air")


def test_xarray(url: str) -> None:
    for kinds in ({}, {"engine": "hyperslab"}):
        dataset = xr.open_dataset(url, **kinds)
        assert list(dataset.data_vars) == ["air"]
        assert set(dataset.coords) == {"time", "x", "height"}
        assert dataset.attrs == {"title": "t"}
        assert dataset.encoding["unlimited_dims"] == {"time"}
        assert dataset.air.sel(time="2000-01-03", x="c") == CELLS[2, 2]
        np.testing.assert_array_equal(dataset.air, CELLS)
    assert xr.open_dataarray(url).name == "air"
    array: Any = hs.open(url)
    assert array.to_xarray().sel(x="b").shape == (6,)
    assert list(xr.open_datatree(url, engine="hyperslab").children) == []


def test_dask_and_pickle(url: str) -> None:
    array: Any = pickle.loads(pickle.dumps(hs.open(url)))
    np.testing.assert_array_equal(array[...], CELLS)
    np.testing.assert_array_equal(array.to_dask().compute(), CELLS)


def test_converted(url: str, tmp_path: Path) -> None:
    hs.convert(url, str(tmp_path / "a.zarr"))
    root: Any = hs.open(str(tmp_path / "a.zarr"))
    np.testing.assert_array_equal(root["air"][...], CELLS)
    assert root["air"].attrs["units"] == "K"
    assert list(root["x"][...]) == list("abcdefgh")
    assert not hs.diff(url, str(tmp_path / "a.zarr"))


@pytest.mark.parametrize("shape", [(10, 7), (12, 7)])
def test_chunks_of_an_array_whose_coordinate_is_named_last(tmp_path: Path, shape: tuple[int, int]) -> None:
    path, cells = tmp_path / "a.blp", np.arange(84.0).reshape(12, 7)[: shape[0]]
    with hs.create(path) as root:
        root.create_array("x", (10, 7), "f8", chunks=(3, 7), dims=["a", "b"], codec="blosc:zstd:3")
        root.create_array("name", data=np.array(["a", "b"] * 5), dims=["a"], chunks=(4,))
        root["x"].resize(shape)  # while two arrays may be the one
        root["x"][...] = cells
        root["x"].attrs["coordinates"] = "name"
    x = hs.open_array(path)
    (codec,) = x.codec
    assert (x.chunks, codec.config["cname"]) == ((3, 7), "zstd")
    np.testing.assert_array_equal(x[...], cells)
