"""Groups within an object, by a real server: arrays called by their paths, attributes beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from pymongo import MongoClient

import hyperslab as hs
from hyperslab.errors import AlreadyExists, Invalid, Unsupported
from hyperslab.mongo import XarrayMongoDB

if TYPE_CHECKING:
    from servers.mongo import Mongo


@pytest.fixture
def place(mongo: Mongo) -> str:
    """An object with groups two deep."""
    place = f"{mongo.url}/{mongo.database()}#air"
    with hs.create(place) as root:
        root.attrs["title"] = "air"
        group = root.create_group("surface/low")
        group.attrs.update({"level": np.float32(2), "note": "é"})
        group.create_array("t2m", data=np.arange(6.0).reshape(2, 3), dims=["time", "x"], units="K")
        root.create_array("surface/x", data=np.arange(3), dims=["x"])
    return place


@pytest.fixture
def base(mongo: Mongo) -> str:
    """The URL of an empty database."""
    return f"{mongo.url}/{mongo.database()}"


def test_what_is_in_them_is_found_again(place: str) -> None:
    root = hs.open_group(place)
    assert (list(root), list(root["surface"]), list(root["surface/low"])) == (["surface"], ["x", "low"], ["t2m"])
    group = root["surface/low"]
    assert (dict(group.attrs), type(group.attrs["level"])) == ({"level": 2, "note": "é"}, np.float32)
    array = hs.open_array(place, path="surface/low/t2m")
    assert (array.dims, array.units, array.sel(x=1).tolist()) == (("time", "x"), "K", [1.0, 4.0])
    assert not hs.check(place, deep=True)


def test_others_read_the_arrays_by_their_paths(place: str, mongo: Mongo) -> None:
    name = place.rpartition("/")[2].partition("#")[0]
    with MongoClient(mongo.url) as client:
        found = XarrayMongoDB(client[name])
        id = client[name]["xarray.meta"].find_one({})["_id"]
        dataset = found.get(id, load=True)
    assert sorted(dataset.variables) == ["surface/low/t2m", "surface/x"]
    assert dataset["surface/low/t2m"].attrs["units"] == "K"


def test_they_are_changed_and_removed(place: str) -> None:
    with hs.open_group(place, "r+") as root:
        root["surface/low"].attrs["note"] = "changed"
        root["surface/low/t2m"][0, 0] = 9
        root.create_group("empty")
        with pytest.raises((Invalid, AlreadyExists)):
            root.create_array("surface", data=[1.0])
        with pytest.raises((Invalid, AlreadyExists)):
            root.create_group("surface/x")
    root = hs.open_group(place)
    assert (root["surface/low"].attrs["note"], root["surface/low/t2m"][0, 0]) == ("changed", 9)
    with hs.open_group(place, "r+") as root:
        del root["surface/low"]
    root = hs.open_group(place)
    assert (list(root), list(root["surface"]), len(root["empty"])) == (["surface", "empty"], ["x"], 0)
    assert not hs.check(place, deep=True)


def test_a_data_array_has_none(mongo: Mongo) -> None:
    import xarray as xr

    name = mongo.database()
    with MongoClient(mongo.url) as client:
        id, _ = XarrayMongoDB(client[name]).put(xr.DataArray([1.0, 2.0], dims="x", name="one"))
    with hs.open_group(f"{mongo.url}/{name}#{id}", "r+") as root, pytest.raises(Unsupported, match="DataArray"):
        root.create_group("g")


def test_one_name_of_a_dimension_has_several_lengths(mongo: Mongo, tmp_path: object) -> None:
    base = f"{mongo.url}/{mongo.database()}"
    with hs.create(f"{tmp_path}/a.zarr") as root:
        for group, length in (("a", 3), ("b", 4), ("", 5)):
            root.create_array(f"{group}/v".strip("/"), data=np.arange(length), dims=["n"])
    report = hs.convert(f"{tmp_path}/a.zarr", f"{base}#x", verify=True)
    assert not report.losses
    assert not hs.diff(f"{tmp_path}/a.zarr", f"{base}#x")


def test_groups_have_sizes_of_their_own(base: str) -> None:
    """One name of a dimension has one length in a group, and others in other groups; also while arrays grow."""
    tree = xr.DataTree.from_dict(
        {
            "/": xr.Dataset({"a": ("x", np.arange(3))}),
            "/g": xr.Dataset({"a": ("y", np.arange(5)), "b": ("y", np.arange(5.0))}),
            "/h": xr.Dataset({"a": ("y", np.arange(7))}, {"y": np.arange(7)}),
            "/h/i": xr.Dataset({"b": ("z", np.arange(2))}),
        }
    )
    hs.save(f"{base}#tree", tree)
    xr.testing.assert_identical(xr.open_datatree(f"{base}#tree", engine="hyperslab").load(), tree)
    root = hs.open_group(f"{base}#tree", "r+")
    for name in ("a", "b"):
        root[f"g/{name}"].append(np.arange(5, 7), dim="y")
    read = xr.open_datatree(f"{base}#tree", engine="hyperslab").load()
    longer = xr.Dataset({"a": ("y", np.arange(7)), "b": ("y", np.arange(7.0))})
    xr.testing.assert_identical(read["g"].to_dataset(), longer)
    for name in ("a", "y"):
        root[f"h/{name}"].append(np.arange(7, 9), dim="y")
    read = xr.open_datatree(f"{base}#tree", engine="hyperslab").load()
    assert (dict(read["g"].sizes)["y"], dict(read["h"].sizes)["y"]) == (7, 9)
    assert {"y"} == set(read["h"].indexes)
    assert not hs.check(f"{base}#tree", deep=True)
    with pytest.raises(Invalid, match="share their dimensions"):
        root.create_array("g/c", data=np.arange(3), dims=("y",))


@pytest.mark.parametrize(
    "values",
    [
        np.array(["ab", "cdef"]),
        np.array(["ab", "cdef"], object),
        np.array(["ab", "cdef"], np.dtypes.StringDType()),
        np.array("cdef"),
        np.array([], object),
    ],
    ids=["U4", "objects", "StringDType", "scalar", "empty"],
)
def test_text_of_xarray_is_as_long_as_the_longest(base: str, values: Any) -> None:
    dims = ("s",)[: values.ndim]
    for ds in (
        xr.Dataset({"t": (dims, np.zeros(values.shape))}, {"s": (dims, values)}),
        xr.Dataset({"q": (dims, values)}),
    ):
        hs.save(f"{base}#text", ds, mode="w")
        found = xr.load_dataset(f"{base}#text", engine="hyperslab")
        for name in {"s", "q"} & set(ds.variables):
            assert found[name].dtype.kind == "U"
            assert found[name].values.tolist() == values.tolist()


@pytest.mark.parametrize("again", [False, True])
def test_an_array_without_cells_keeps_the_chunks_of_all_axes(base: str, again: bool) -> None:
    with hs.create(f"{base}#empty") as root:
        made = root.create_array("a", (0, 3), "f8", chunks=(4, 2), dims=["t", "x"])
        if not again:
            made.append(np.ones((5, 3)))
    if again:
        with hs.open_group(f"{base}#empty", "r+") as root:
            root["a"].attrs["units"] = "K"
            assert root["a"].chunks == (4, 2)
            root["a"].append(np.ones((5, 3)))
    read = hs.open_array(f"{base}#empty", path="a")
    assert (read.chunks, read.shape, read[...].sum()) == ((4, 2), (5, 3), 15)
    assert not hs.check(f"{base}#empty", deep=True)
