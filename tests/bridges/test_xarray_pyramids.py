"""Levels of an image pyramid in xarray: each is an array of its own, whatever size those beside it have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import Unsupported
from pyramids import AXES, LEVELS, level, write_pyramid

SIZES = "'y' has several: 4 in s2; 8 in s1; 16 in s0"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("number", range(len(LEVELS)))
def test_one_level_is_an_xarray_object(tmp_path: Path, version: int, number: int) -> None:
    place, name = write_pyramid(tmp_path / "a.zarr", version), LEVELS[number]
    found = [
        hs.open(place)[name].to_xarray(),
        hs.open(f"{place}/{name}").to_xarray(chunks={}),
        xr.open_dataset(f"{place}/{name}", engine="hyperslab")[name],
        xr.open_dataset(place, engine="hyperslab", group=name)[name],
        xr.open_dataset(place, engine="hyperslab", drop_variables={*LEVELS} - {name})[name],
    ]
    for array in found:
        assert np.array_equal(array.values, level(number))
        assert array.dims == AXES or version == 2


def test_coordinates_of_another_size_stay_away(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        for name, size in (("s0", 4), ("s1", 2)):
            root.create_array(name, data=np.ones((size, 3)), dims=("y", "x"))
        root.create_array("y", data=np.arange(4.0), dims=("y",))
        root.create_array("x", data=np.arange(3.0), dims=("x",))
        for name, size in (("p0", 5), ("p1", 6)):
            root.create_array(name, data=np.ones(size), dims=("points",))
    root = hs.open(tmp_path / "a.zarr")
    assert {*root["s0"].to_xarray().coords} == {"y", "x"}
    assert {*root["s1"].to_xarray().coords} == {"x"}
    opened = xr.open_dataset(tmp_path / "a.zarr" / "s1", engine="hyperslab")
    assert {*opened.coords} == {"x"} and opened.sizes == {"y": 2, "x": 3}


def test_a_group_of_several_sizes_is_refused(tmp_path: Path) -> None:
    place = write_pyramid(tmp_path / "a.zarr")
    with pytest.raises(Unsupported, match=f"{SIZES} .*node=/.*drop_variables"):
        hs.open(place).to_xarray()
    with pytest.raises(Unsupported, match=f"{SIZES} .*open one of the arrays alone"):
        xr.open_dataset(place, engine="hyperslab")
    with pytest.raises(Unsupported, match=SIZES):
        xr.open_datatree(place, engine="hyperslab")
    remedy = "'c' has 2 in / and 1 in /labels/nuclei .*node=/labels/nuclei.*open the groups one by one"
    with pytest.raises(Unsupported, match=remedy):
        xr.open_datatree(place, engine="hyperslab", drop_variables=["s1", "s2"])
    groups = xr.open_groups(place, engine="hyperslab", drop_variables=["s1", "s2"])
    assert groups["/labels/nuclei"].sizes["c"] == 1 and groups["/"].sizes["c"] == 2


def test_a_tree_of_levels_without_names_of_dimensions(tmp_path: Path) -> None:
    """Names are made up for their dimensions, of one size each in the whole tree."""
    tree = xr.open_datatree(write_pyramid(tmp_path / "a.zarr", 2), engine="hyperslab")
    for number, name in enumerate(LEVELS):
        assert np.array_equal(tree[name].values, level(number))
        assert np.array_equal(tree[f"labels/nuclei/{name}"].values, level(number)[:, :1])


def test_a_damaged_array_beside_one_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = write_pyramid(tmp_path / "a.zarr", labels=False)
    root = hs.open(place)
    (place / "s1" / "zarr.json").write_text("{")
    assert np.array_equal(root["s0"].to_xarray().values, level(0))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["s1 is left out"]
