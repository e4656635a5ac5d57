"""The place of an array in a tree: ``hs.open("era.zarr/t")`` is the array of the tree, with its labels."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import Invalid, Unsupported
from servers.files import serving
from servers.s3 import S3
from trees import TREES, create_tree


def make(place: Any, tree: str = "zarr3", **more: Any) -> None:
    """Labels of ``lat`` lie beside the array, those of ``time`` in the group above."""
    with create_tree(place, tree, **more) as root:
        root.create_array("time", data=np.arange(4), dims=["time"], units="days since 2020-01-01")
        group = root.create_group("surface")
        group.create_array("lat", data=np.array([10.0, 20.0, 30.0]), dims=["lat"])
        group.create_array("2 m", data=np.arange(12.0).reshape(4, 3), dims=["time", "lat"], chunks=(1, 3))


def assert_labelled(array: Any) -> None:
    assert array.path == "surface/2 m"
    assert array["2020-01-02", 20.0] == array.sel(time="2020-01-02", lat=20.0) == 4.0
    assert array[1, 1] == 4.0


@pytest.mark.parametrize("tree", TREES)
def test_it_keeps_its_labels(tmp_path: Path, tree: str) -> None:
    make(tmp_path / "era.zarr", tree)
    place = tmp_path / "era.zarr/surface/2 m"
    assert_labelled(hs.open(place))
    assert_labelled(hs.open_array(f"{place}/"))
    assert_labelled(pickle.loads(pickle.dumps(hs.open(place))))
    assert hs.open_array(tmp_path / "era.zarr/surface", path="2 m").path == "2 m"


@pytest.mark.parametrize("tree", TREES)
def test_a_change_is_one_of_the_tree(tmp_path: Path, tree: str) -> None:
    """Consolidated metadata of the whole follows, and so do the lengths that siblings share."""
    make(tmp_path / "era.zarr", tree)
    with hs.open_array(tmp_path / "era.zarr/surface/2 m", "r+") as array:
        array.attrs["units"] = "K"
        array["2020-01-02", 20.0] = 7.0
    found: Any = hs.open(tmp_path / "era.zarr")["surface/2 m"]
    assert (found.units, found[1, 1]) == ("K", 7.0)
    assert not hs.check(tmp_path / "era.zarr")


@pytest.mark.parametrize("kind", ["s3", "web", "url"])
def test_it_does_so_everywhere(tmp_path: Path, s3: S3, kind: str) -> None:
    if kind == "s3":
        url, options = f"s3://{s3.bucket()}", {"storage_options": s3.options}
        make(url, **options)
        assert_labelled(hs.open(f"{url}/surface/2%20m", **options))
    elif kind == "url":
        make(tmp_path / "era.zarr")
        assert_labelled(hs.open(f"file://{tmp_path}/era.zarr/surface/2%20m"))
    else:
        make(tmp_path / "era.zarr", "zarr2")
        with serving(tmp_path) as host:
            assert_labelled(hs.open(f"{host}/era.zarr/surface/2%20m"))


def test_one_that_stands_alone_is_as_it_is(tmp_path: Path) -> None:
    """No folder around it is looked through for other datasets, and one of a group that says otherwise is not taken."""
    make(tmp_path / "era.zarr")
    hs.convert(tmp_path / "era.zarr/surface/2 m", tmp_path / "alone.zarr", "zarr3")
    alone = hs.open_array(tmp_path / "alone.zarr")
    assert (alone.path, alone.shape) == ("", (4, 3))
    with hs.create(tmp_path / "stale.zarr", "zarr3", consolidated=True) as root:
        root.create_array("a", data=np.arange(3))
    (tmp_path / "stale.zarr/a/zarr.json").write_bytes((tmp_path / "alone.zarr/zarr.json").read_bytes())
    assert hs.open_array(tmp_path / "stale.zarr/a").shape == (4, 3)


def test_the_whole_of_its_dataset_is_converted_and_compared(tmp_path: Path) -> None:
    """What takes datasets takes the array alone."""
    make(tmp_path / "era.zarr")
    hs.convert(tmp_path / "era.zarr/surface/2 m", tmp_path / "b.zarr", "zarr2", verify=True)
    assert hs.open_array(tmp_path / "b.zarr").path == ""
    assert not hs.diff(tmp_path / "era.zarr/surface/2 m", tmp_path / "b.zarr")


def test_xarray_opens_it_with_its_coordinates(tmp_path: Path) -> None:
    place = tmp_path / "era.zarr"
    make(place)
    with hs.open_group(place / "surface", "r+") as group:
        group.create_array("height", data=np.arange(3.0), dims=["lat"])
        group.create_array("other", data=np.arange(5.0), dims=["x"])
        group["2 m"].attrs["coordinates"] = "height"
    url = str(place / "surface/2 m")
    array = xr.open_dataarray(url, engine="hyperslab")
    assert {*array.coords} == {"lat", "height"}
    assert array.identical(hs.open_array(url).to_xarray())
    assert {*xr.open_dataset(url, engine="hyperslab", chunks={}).variables} == {"2 m", "lat", "height"}
    assert {*xr.open_dataset(place, group="surface/2 m", engine="hyperslab").coords} == {"lat", "height"}
    assert {*xr.open_dataset(url, engine="hyperslab", drop_variables="height").coords} == {"lat"}
    assert "lat" in xr.open_dataset(place / "surface/lat", engine="hyperslab").coords


def test_a_conversion_says_which_coordinates_it_leaves_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make(tmp_path / "era.zarr")
    place = tmp_path / "era.zarr/surface/2 m"
    hs.convert(place, tmp_path / "b.zarr")
    (record,) = caplog.records
    assert re.search(r"coordinates lat of /surface/2 m are left out; .*path='surface/2 m'", record.getMessage())
    caplog.clear()
    hs.convert(tmp_path / "era.zarr", tmp_path / "c.zarr", path="surface/2 m")
    hs.convert(tmp_path / "b.zarr", tmp_path / "d.zarr")
    hs.convert(tmp_path / "era.zarr/surface/lat", tmp_path / "e.zarr")
    assert not caplog.records


@pytest.mark.parametrize("suffix", [".nczarr", ".nc"])
def test_a_format_whose_root_is_a_group_names_the_dataset_and_the_path(tmp_path: Path, suffix: str) -> None:
    make(tmp_path / "era.zarr")
    remedy = r"is a group.*; convert \S*era.zarr with path='surface/2 m' \(--path surface/2 m\)"
    with pytest.raises((Invalid, Unsupported), match=remedy):
        hs.convert(tmp_path / "era.zarr/surface/2 m", tmp_path / f"b{suffix}")
    assert not (tmp_path / f"b{suffix}").exists()
