"""What a Dataset says is what is stored, or it is refused: numbers, text, times, missing cells, links of variables.

In memory and lazily (dask), in new variables and in those that are there.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from xarray.testing import assert_identical

import hyperslab as hs
from hyperslab.errors import Invalid

pytestmark = pytest.mark.filterwarnings("ignore::xarray.SerializationWarning")
PLACES = ["a.zarr", "a.nc"]
PACKING = {"dtype": "i2", "scale_factor": 0.5, "add_offset": 1.0, "_FillValue": np.int16(-1)}
MISFITS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "an overflow of floats": (np.array([1.0, 1e300]), {"dtype": "f4"}, r"holds 1e\+300, which cells of float32 cannot"),
    "what is no number": (np.array([1.0, np.nan]), {"dtype": "i2"}, "holds NaN, which cells of int16 cannot"),
    "complex numbers": (np.array([1, 1j]), {"dtype": "f8"}, "holds complex numbers, which cells of float64 cannot"),
    "an overflow": (np.array([1, 40_000]), {"dtype": "i2"}, "40000, which cells of int16 cannot"),
    "an overflow of packed numbers": (np.array([1.0, 40_000]), PACKING, "40000.0, which cells of int16 cannot"),
    "infinity": (np.array([1.0, np.inf]), {"dtype": "i4"}, "inf, which cells of int32 cannot"),
    "a truth": (np.array([0, 2]), {"dtype": "bool"}, "holds 2, which cells of bool cannot"),
}
LONGER = {"S2": np.array([b"longer", b"yy"]), "U2": np.array(["longer", "yy"])}


def opened(url: object, **options: Any) -> xr.Dataset:
    return xr.open_dataset(str(url), engine="hyperslab", **options)


def put(dataset: xr.Dataset, place: Path, how: str) -> None:
    """Behind, into a region of, or over what is there."""
    options: dict[str, Any] = {"append": {"append_dim": "t"}, "region": {"region": {"t": slice(0, 2)}}}.get(
        how, {"mode": how}
    )
    dataset.hyperslab.save(place, **options)


@pytest.mark.covering
@pytest.mark.parametrize("name", MISFITS)
@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_numbers_that_do_not_fit_are_refused(tmp_path: Path, place: str, lazily: bool, name: str) -> None:
    cells, encoding, words = MISFITS[name]
    dataset = xr.Dataset({"x": ("t", cells)})
    dataset = dataset.chunk({"t": 1}) if lazily else dataset
    with pytest.raises(Invalid, match=words):
        dataset.hyperslab.save(tmp_path / place, encoding={"x": encoding})
    dataset["x"].encoding = encoding  # as it stays with what was read and then computed
    with pytest.raises(Invalid, match=words):
        dataset.hyperslab.save(tmp_path / place)
    assert not (tmp_path / place).exists()


@pytest.mark.covering
@pytest.mark.parametrize("how", ["append", "region", "r+"])
@pytest.mark.parametrize("name", MISFITS)
@pytest.mark.parametrize("lazily", [False, True])
def test_numbers_that_do_not_fit_what_is_there_are_refused(tmp_path: Path, lazily: bool, name: str, how: str) -> None:
    cells, encoding, words = MISFITS[name]
    place = tmp_path / "a.zarr"
    xr.Dataset({"x": ("t", np.zeros(2))}).hyperslab.save(place, encoding={"x": encoding})
    before = hs.open(place)["x"][:]
    dataset = xr.Dataset({"x": ("t", cells)})
    with pytest.raises(Invalid, match=words):
        put(dataset.chunk({"t": 1}) if lazily else dataset, place, how)
    array = hs.open(place)["x"]
    assert array.shape == (2,)
    np.testing.assert_array_equal(array[1:], before[1:])


@pytest.mark.covering
@pytest.mark.parametrize("how", ["append", "region", "r+", "a"])
@pytest.mark.parametrize("kind", LONGER)
@pytest.mark.parametrize("lazily", [False, True])
def test_longer_text_is_never_cut(tmp_path: Path, lazily: bool, kind: str, how: str) -> None:
    place = tmp_path / "a.zarr"
    with hs.create(place) as root:
        root.create_array("x", shape=(2,), dtype=kind, dims=["t"])[...] = np.array(["ab", "cd"], kind)
    dataset = xr.Dataset({"x": ("t", LONGER[kind])})
    dataset = dataset.chunk({"t": 1}) if lazily else dataset
    if how == "a":
        put(dataset, place, how)
        assert hs.open(place)["x"][:].tolist() == LONGER[kind].tolist()
        return
    with pytest.raises(Invalid, match=r"longer|cannot hold"):
        put(dataset, place, how)
    assert hs.open(place)["x"][0] == np.array(["ab"], kind)[0]
    put(xr.Dataset({"x": ("t", LONGER[kind][1:])}) if how == "append" else dataset[["x"]].isel(t=[1, 1]), place, how)


def test_text_that_has_become_longer_than_where_it_was_read_is_stored_whole(tmp_path: Path) -> None:
    for number, kind in enumerate(LONGER):
        dataset = xr.Dataset({"x": ("t", LONGER[kind])})
        dataset["x"].encoding["dtype"] = np.dtype(kind)
        dataset.hyperslab.save(tmp_path / f"{number}.zarr")
        assert hs.open(tmp_path / f"{number}.zarr")["x"][:].tolist() == LONGER[kind].tolist()


@pytest.mark.parametrize("place", PLACES)
def test_times_are_no_plain_numbers(tmp_path: Path, place: str) -> None:
    times = np.array(["2000-01-01", "2001-01-01"], "M8[ns]")
    with hs.create(tmp_path / place) as root:
        root.create_array("x", shape=(2,), dtype="i4", dims=["t"])
    for cells in (times, times - times[0]):
        with pytest.raises(Invalid, match="numbers without units of time"):
            put(xr.Dataset({"x": ("t", cells)}), tmp_path / place, "region")


@pytest.mark.parametrize("place", PLACES)
def test_timedeltas_are_no_times(tmp_path: Path, place: str) -> None:
    times = np.array(["2000-01-01", "2001-01-01"], "M8[ns]")
    for number, (stored, given) in enumerate([(times, times - times[0]), (times - times[0], times)]):
        target = tmp_path / f"{number}{place}"
        xr.Dataset({"x": ("t", stored)}).hyperslab.save(target)
        with pytest.raises(Invalid, match="in units of"):
            put(xr.Dataset({"x": ("t", given)}), target, "region")


@pytest.mark.parametrize("na", [None, np.nan])
@pytest.mark.parametrize("place", [*PLACES, "a.nczarr"])
def test_missing_text_is_empty(tmp_path: Path, place: str, na: object) -> None:
    cells = np.array(["ab", na], np.dtypes.StringDType(na_object=na))
    for number, dataset in enumerate([xr.Dataset({"x": ("t", cells)}), xr.Dataset({"x": ("t", cells)}).chunk()]):
        dataset.hyperslab.save(tmp_path / f"{number}{place}")
        assert opened(tmp_path / f"{number}{place}")["x"].values.tolist() == ["ab", ""]


@pytest.mark.parametrize("place", PLACES)
def test_objects_that_are_all_missing_are_nan(tmp_path: Path, place: str) -> None:
    xr.Dataset({"x": ("t", np.array([None, np.nan], object))}).hyperslab.save(tmp_path / place)
    got = opened(tmp_path / place)["x"]
    assert got.dtype == float
    assert np.isnan(got.values).all()


@pytest.mark.parametrize("place", PLACES)
def test_objects_that_are_all_missing_are_empty_behind_text(tmp_path: Path, place: str) -> None:
    xr.Dataset({"x": ("t", ["a", "b"])}).hyperslab.save(tmp_path / place, unlimited_dims="t")
    put(xr.Dataset({"x": ("t", np.array([None, np.nan], object))}), tmp_path / place, "append")
    assert opened(tmp_path / place)["x"].values.tolist() == ["a", "b", "", ""]


@pytest.mark.parametrize("place", [*PLACES, "a.nczarr"])
def test_links_between_variables_are_kept(tmp_path: Path, place: str) -> None:
    dataset = xr.Dataset(
        {
            "t": (
                "x",
                [1.0, 2.0],
                {"grid_mapping": "crs", "cell_measures": "area: cells", "ancillary_variables": "err"},
            ),
            "err": ("x", [0.1, 0.1]),
        },
        {
            "x": ("x", [0.0, 1.0], {"bounds": "x_bnds", "formula_terms": "a: crs"}),
            "x_bnds": (("x", "two"), np.zeros((2, 2))),
            "crs": ((), 0),
            "cells": ("x", [1.0, 1.0]),
        },
    )
    dataset.hyperslab.save(tmp_path / place)
    linked = opened(tmp_path / place, decode_coords="all")
    linked.hyperslab.save(tmp_path / f"b{place}")
    again = hs.open(tmp_path / f"b{place}")
    for name, words in (
        ("t", ("grid_mapping", "cell_measures", "ancillary_variables")),
        ("x", ("bounds", "formula_terms")),
    ):
        assert {word: again[name].attrs[word] for word in words} == {word: dataset[name].attrs[word] for word in words}
    assert_identical(opened(tmp_path / f"b{place}", decode_coords="all").load(), linked.load())


@pytest.mark.parametrize("place", PLACES)
def test_unlimited_dimensions_are_named_whole(tmp_path: Path, place: str) -> None:
    dataset = xr.Dataset({"x": (("time", "t"), np.zeros((2, 3)))})
    for number, (own, given) in enumerate([("time", None), (None, "time"), (["time"], None), ({"t"}, ["time"])]):
        dataset.encoding["unlimited_dims"] = own
        dataset.hyperslab.save(tmp_path / f"{number}{place}", unlimited_dims=given)
        dims = hs.open(tmp_path / f"{number}{place}").dims
        assert {name: dim.unlimited for name, dim in dims.items()} == {"time": True, "t": False}


def test_unlimited_dimensions_that_there_are_not(tmp_path: Path) -> None:
    dataset = xr.Dataset({"x": ("t", np.zeros(3))})
    with pytest.raises(Invalid, match="no dimension 'tt' to be unlimited; did you mean 't'"):
        dataset.hyperslab.save(tmp_path / "a.zarr", unlimited_dims="tt")
    dataset.encoding["unlimited_dims"] = "time"
    with pytest.warns(UserWarning, match="unlimited dimensions that the dataset does not have: time"):
        dataset.hyperslab.save(tmp_path / "a.zarr")


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_truths_are_truths_in_zarr(tmp_path: Path, format: str) -> None:
    place = tmp_path / "a.zarr"
    dataset = xr.Dataset({"x": ("t", np.array([True, False]))})
    dataset.hyperslab.save(place, format=format, unlimited_dims="t")
    dataset.hyperslab.save(place, append_dim="t")
    assert hs.open(place)["x"].dtype == bool
    for engine in ("hyperslab", "zarr"):
        assert xr.open_dataset(place, engine=engine)["x"].values.tolist() == [True, False] * 2


@pytest.mark.parametrize("place", PLACES)
def test_truths_that_are_stored_as_numbers_stay_so(tmp_path: Path, place: str) -> None:
    with hs.create(tmp_path / place) as root:
        root.create_array("x", data=np.array([1, 0], "i1"), dims=["t"], attrs={"dtype": "bool"})
    put(xr.Dataset({"x": ("t", np.array([True, True]))}), tmp_path / place, "region")
    assert hs.open(tmp_path / place)["x"].dtype == np.int8
    assert opened(tmp_path / place)["x"].values.tolist() == [True, True]


def floats() -> xr.Dataset:
    """Floats of several widths, in cells, coordinates, bounds and objects; one whose encoding has no mark."""
    return xr.Dataset(
        {
            "a": ("t", np.array([1.5, np.nan, 3], "f4")),
            "plain": ("t", [1.0, 2.0, 3.0], {}, {"_FillValue": None}),
            "packed": ("t", [1.0, 2.0, 3.0], {}, {"dtype": "i2", "scale_factor": 0.5}),
            "t_bounds": (("t", "side"), np.zeros((3, 2))),
            "objects": ("t", np.array([1.5, None, 3.0], object)),
            "n": ("t", [1, 2, 3]),
        },
        {
            "t": ("t", [10.0, 20.0, 30.0], {"bounds": "t_bounds"}),
            "when": ("t", np.array(["2020", "2021", "2022"], "M8[ns]")),
        },
    )


def marks(url: object, engine: Any, **options: object) -> dict[str, Any]:
    """Return what marks missing cells by variable, as text: NaN equals NaN."""
    with xr.open_dataset(str(url), engine=engine, **options) as found:
        return {str(name): str(each.encoding.get("_FillValue")) for name, each in found.variables.items()}


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize("form", ["zarr2", "zarr3", "netcdf", "nczarr"])
def test_floats_get_the_marks_of_xarray_s_own_writers(tmp_path: Path, form: str, lazily: bool) -> None:
    dataset = floats().drop_vars("objects")  # which xarray marks in no file
    dataset = dataset.chunk({"t": 2}) if lazily else dataset
    if form.startswith("zarr"):
        dataset.to_zarr(tmp_path / "theirs", zarr_format=int(form[-1]), consolidated=form == "zarr2")
    else:
        dataset.to_netcdf(tmp_path / "theirs", engine="netcdf4")
    engine = "zarr" if form.startswith("zarr") else "netcdf4"
    options = {"consolidated": form == "zarr2"} if form.startswith("zarr") else {}
    wanted = marks(tmp_path / "theirs", engine, **options)
    assert wanted["a"] == "nan" and wanted["plain"] == wanted["n"] == "None"
    ours = tmp_path / {"zarr2": "a.zarr", "zarr3": "a.zarr", "netcdf": "a.nc", "nczarr": "a.nczarr"}[form]
    dataset.hyperslab.save(ours, format=form, unlimited_dims=() if form.startswith("zarr") else "t")
    assert marks(ours, "hyperslab") == wanted
    if form != "nczarr":
        assert marks(ours, engine, **options) == wanted
        both = [xr.load_dataset(place, engine=engine, **options) for place in (ours, tmp_path / "theirs")]
        assert_identical(*both)
    behind = dataset.assign_coords(t=("t", [40.0, 50.0, 60.0], {"bounds": "t_bounds"}))
    behind.hyperslab.save(ours, append_dim="t")
    behind.hyperslab.save(ours, region="auto")
    longer = opened(ours).load()
    assert longer["a"].isnull().values.tolist() == [False, True, False] * 2
    assert marks(ours, "hyperslab") == wanted


@pytest.mark.parametrize("place", PLACES)
def test_objects_that_are_floats_get_the_mark(tmp_path: Path, place: str) -> None:
    floats()[["objects"]].hyperslab.save(tmp_path / place)
    assert marks(tmp_path / place, "hyperslab")["objects"] == "nan"
    assert opened(tmp_path / place)["objects"].isnull().values.tolist() == [False, True, False]


@pytest.mark.parametrize("place", ["a.b2nd", "a.nwb.zarr"])
def test_floats_get_no_mark_where_xarray_has_no_writer(tmp_path: Path, place: str) -> None:
    xr.Dataset({"a": ("t", [1.0, np.nan])}).hyperslab.save(tmp_path / place)
    assert marks(tmp_path / place, "hyperslab")["a"] == "None"


@pytest.mark.parametrize("place", PLACES)
def test_cells_without_a_mark_are_written_over_as_they_are(tmp_path: Path, place: str) -> None:
    """As in datasets of 0.1.0: also later, which arrays that are made anew cannot be."""
    dataset = xr.Dataset({"a": ("t", np.array([1.0, np.nan]), {"units": "K"}, {"_FillValue": None})})
    dataset.hyperslab.save(tmp_path / place)
    new = xr.Dataset({"a": ("t", np.array([np.nan, 5.0]), {"units": "m"})})
    new.hyperslab.save(tmp_path / place, mode="a")
    assert marks(tmp_path / place, "hyperslab")["a"] == "None"
    assert_identical(opened(tmp_path / place).load(), new)
    if place == "a.zarr":
        new.chunk().hyperslab.save(tmp_path / place, mode="a", compute=False).compute()


def test_a_fill_value_is_kept(tmp_path: Path) -> None:
    dataset = xr.Dataset({"x": ("t", [1, 2, 3])})
    dataset.hyperslab.save(tmp_path / "a.zarr", encoding={"x": {"fill_value": -99}})
    opened(tmp_path / "a.zarr").hyperslab.save(tmp_path / "b.zarr")
    assert hs.open(tmp_path / "b.zarr")["x"].fill_value == -99
    opened(tmp_path / "b.zarr").astype("u1").hyperslab.save(tmp_path / "c.zarr", encoding={"x": {"dtype": "u1"}})
    assert hs.open(tmp_path / "c.zarr")["x"].fill_value == 0  # -99 is no cell of it
    opened(tmp_path / "b.zarr").hyperslab.save(tmp_path / "d.zarr", format="zarr2")
    assert hs.open(tmp_path / "d.zarr")["x"].fill_value != -99  # where it would mark what is missing


@pytest.mark.parametrize("place", PLACES)
def test_text_as_the_marker_of_missing_numbers(tmp_path: Path, place: str) -> None:
    for number, (mark, expected) in enumerate([("NA", [1.0, -9.0]), ("-9", [1.0, np.nan])]):
        target = tmp_path / f"{number}{place}"
        with hs.create(target) as root:
            root.create_array("x", data=np.array([1.0, -9.0]), dims=["t"], attrs={"missing_value": mark})
        np.testing.assert_array_equal(hs.open(target)["x"].decoded()[:], expected)
        opened(target).hyperslab.save(tmp_path / f"b{number}{place}")
        assert hs.open(tmp_path / f"b{number}{place}")["x"].attrs["missing_value"] == mark


@pytest.mark.parametrize("wanted", [None, "f4", ["f4"]])
def test_encodings_that_are_none(tmp_path: Path, wanted: Any) -> None:
    with pytest.raises(Invalid, match=r"encoding of 'a' is .*; give a mapping"):
        xr.Dataset({"a": ("t", [1.0])}).hyperslab.save(tmp_path / "a.zarr", encoding={"a": wanted})


def test_words_of_other_engines(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": ("t", np.arange(6.0))})
    encoding = {"a": {"chunksizes": (2,), "shards": None, "preferred_chunks": {"t": 3}, "original_shape": (9,)}}
    dataset.hyperslab.save(tmp_path / "a.zarr", encoding=encoding, zarr_format=2)
    root = hs.open(tmp_path / "a.zarr")
    assert (root.format, root["a"].chunks) == ("zarr2", (2,))


def test_a_coordinate_is_saved_as_one(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": ("x", [1.0, 2.0])}, {"x": [3, 4], "y": ("x", [5, 6])})
    for name in ("x", "y"):
        dataset[name].hyperslab.save(tmp_path / f"{name}.zarr")
        assert_identical(opened(tmp_path / f"{name}.zarr")[name].load(), dataset[name])
    with pytest.raises(Invalid, match="the array is called 'x', as one of its dimensions is; rename"):
        xr.DataArray(np.zeros((2, 2)), dims=["x", "y"], name="x").hyperslab.save(tmp_path / "c.zarr")
    with pytest.raises(Invalid, match="the array is called 'y', as one of its coordinates is; rename"):
        dataset["a"].rename("y").hyperslab.save(tmp_path / "c.zarr")


@pytest.mark.parametrize("place", PLACES)
def test_a_subtree_has_what_it_inherits(tmp_path: Path, place: str) -> None:
    tree = xr.DataTree.from_dict(
        {
            "/": xr.Dataset(coords={"x": [1, 2, 3]}),
            "/child": xr.Dataset({"foo": ("x", [4, 5, 6])}),
            "/child/grandchild": xr.Dataset({"bar": ("x", [7, 8, 9])}),
        }
    )
    encoding = {"/": {"foo": {"dtype": "i2"}}, "grandchild": {"bar": {"chunks": (2,)}}}
    tree["child"].hyperslab.save(tmp_path / place, encoding=encoding)
    got = xr.open_datatree(tmp_path / place, engine="hyperslab")
    for path in ("/", "/grandchild"):
        assert_identical(got[path].to_dataset().load(), tree[f"/child{path}"].to_dataset())
    root = hs.open(tmp_path / place)
    assert list(root["grandchild"]) == ["bar"]
    assert root["foo"].dtype == np.int16
    assert root["grandchild/bar"].chunks == (2,)
    with pytest.raises(Invalid, match="encoding for 'grandchildren', which is no node of the tree"):
        tree["child"].hyperslab.save(tmp_path / "b.zarr", encoding={"/grandchildren": {}})


def test_nothing_is_said_of_what_fits(tmp_path: Path) -> None:
    dataset = xr.Dataset({"x": ("t", np.array([1.0, np.nan, 2.0]))})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset.hyperslab.save(tmp_path / "a.zarr", encoding={"x": PACKING})
    assert hs.open(tmp_path / "a.zarr")["x"][:].tolist() == [0, -1, 2]


def test_whole_numbers_are_packed_without_wrapping_around(tmp_path):
    encoding = {"a": {"dtype": "i1", "add_offset": 10, "scale_factor": 1}}
    dataset = xr.Dataset({"a": ("x", np.array([5, 100], "u1"))})
    dataset.hyperslab.save(str(tmp_path / "a.zarr"), encoding=encoding)
    assert xr.open_dataset(str(tmp_path / "a.zarr"), engine="hyperslab").a.values.tolist() == [5, 100]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("dtype", "unsigned"), [("i1", "true"), ("u2", "false")])
@pytest.mark.parametrize("words", [{}, {"scale_factor": 0.5}, {"_FillValue": 100}], ids=str)
@pytest.mark.parametrize("lazily", [False, True])
def test_numbers_of_the_other_sign_stay_the_same(
    tmp_path: Path, place: str, dtype: str, unsigned: str, words: dict[str, Any], lazily: bool
) -> None:
    """With a marker of missing cells and without: xarray's coder writes ``_Unsigned`` only beside a marker."""
    raw = np.array([1, -4, 100], f"i{np.dtype(dtype).itemsize}").astype(dtype)
    attrs = {**words, "_Unsigned": unsigned}
    with hs.create(tmp_path / "s.zarr") as root:
        root.create_array("c", dims=("t",), data=raw, attrs=attrs)
    dataset = opened(tmp_path / "s.zarr", chunks={} if lazily else None)
    dataset.hyperslab.save(tmp_path / place, unlimited_dims=["t"])
    assert_identical(dataset.compute(), opened(tmp_path / place).load())
    stored = hs.open(tmp_path / place)["c"]
    assert stored.dtype == np.dtype(dtype)
    assert stored.attrs["_Unsigned"] == unsigned
    put(dataset, tmp_path / place, "append")
    assert hs.open(tmp_path / place)["c"][...].tolist() == [*raw.tolist(), *raw.tolist()]


@pytest.mark.parametrize("words", [{}, {"_FillValue": 7}], ids=str)
def test_numbers_that_would_change_their_sign_are_refused(tmp_path: Path, words: dict[str, Any]) -> None:
    numbers = np.array([-2, 3], "i1")
    misread = xr.Dataset({"c": ("t", numbers, {}, {"dtype": "i1", "_Unsigned": "true", **words})})
    with pytest.raises(Invalid, match="'c' holds -2 to 3, which cells of uint8 cannot"):
        misread.hyperslab.save(tmp_path / "a.zarr")
    xr.Dataset({"c": ("t", numbers, {}, {"_Unsigned": "true"})}).hyperslab.save(tmp_path / "b.zarr")
    assert opened(tmp_path / "b.zarr")["c"].values.tolist() == [-2, 3]


def test_the_marker_of_an_enum_is_a_scalar(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        kind = file.createEnumType(np.uint8, "state_t", {"off": 0, "on": 1, "none": 255})
        file.createVariable("state", kind, ("x",), fill_value=255)[:] = [0, 1, 255]
    dataset = opened(tmp_path / "a.nc").load()
    assert type(dataset["state"].encoding["_FillValue"]) is np.uint8
    dataset.hyperslab.save(tmp_path / "b.nc")
    assert_identical(dataset, opened(tmp_path / "b.nc").load())
    assert hs.open(tmp_path / "b.nc")["state"].attrs["_FillValue"] == 255


DATES = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "M8[s]")


def datetimes(url: str, kind: str, cells: np.ndarray = DATES[:2]) -> None:
    with hs.create(url, overwrite=True) as root:
        root.create_array("time", data=cells.astype(kind), dims=["time"])


@pytest.mark.parametrize("kind", ["M8[s]", "M8[us]", "M8[ns]"])
@pytest.mark.parametrize("chunks", [None, {}])
def test_datetimes_that_are_stored_as_such_are_saved(tmp_path: Path, kind: str, chunks: Any) -> None:
    url = f"{tmp_path}/a.zarr"
    datetimes(url, kind)
    with xr.open_dataset(url, engine="hyperslab", chunks=chunks) as stored:
        stored = stored.assign(late=("time", stored["time"].data))
        stored["late"].encoding = {"dtype": np.dtype(kind)}
        for copy in (f"{tmp_path}/b.zarr", f"{tmp_path}/b.nc"):
            hs.save(copy, stored)
            with xr.open_dataset(copy, engine="hyperslab") as found:
                xr.testing.assert_identical(found, stored.compute())
    with hs.open_group(f"{tmp_path}/b.zarr") as root:
        assert root["time"].dtype == root["late"].dtype == np.dtype(kind)


@pytest.mark.parametrize("kind", ["M8[s]", "M8[us]", "M8[ns]"])
@pytest.mark.parametrize("new", ["M8[s]", "M8[us]", "M8[ns]"])
def test_datetimes_go_behind_and_over_others(tmp_path: Path, kind: str, new: str) -> None:
    url = f"{tmp_path}/a.zarr"
    datetimes(url, kind)
    hs.save(url, xr.Dataset(coords={"time": DATES[2:].astype(new)}), append_dim="time")
    with hs.open_group(url) as root:
        assert root["time"][:].tolist() == DATES.astype(kind).tolist()
    hs.save(url, xr.Dataset(coords={"time": DATES[:1].astype(new) - np.timedelta64(1, "D")}), region={"time": slice(1)})
    with hs.open_group(url) as root:
        assert root["time"][0] == np.datetime64("2025-12-31") and root["time"][:].dtype == kind


@pytest.mark.parametrize("cells", [DATES[2:].astype("M8[ms]") + np.timedelta64(1, "ms"), np.array([20000])])
@pytest.mark.parametrize("options", [{"append_dim": "time", "repeated": "allow"}, {"region": {"time": slice(1)}}])
def test_what_is_no_datetime_of_those_that_are_stored_is_refused(tmp_path: Path, cells: Any, options: Any) -> None:
    url = f"{tmp_path}/a.zarr"
    datetimes(url, "M8[s]")
    with pytest.raises(Invalid, match=r"'time' is .*, stored is datetime64"):
        hs.save(url, xr.Dataset(coords={"time": cells}), **options)
    with hs.open_group(url) as root:
        assert root["time"][:].tolist() == DATES[:2].tolist()
