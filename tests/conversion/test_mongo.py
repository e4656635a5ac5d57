"""Into MongoDB and out of it, by a real server: sparse arrays stay sparse, units stay, every loss is told before."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pint
import pytest
import sparse
import xarray as xr
from pymongo import MongoClient

import hyperslab as hs
from hyperslab.conversion.losses import required_features
from hyperslab.errors import NotFound, Unsupported
from hyperslab.formats import get_format
from hyperslab.mongo import XarrayMongoDB
from hyperslab.testing.samples import PLAIN, TYPED, TYPES, cells


@pytest.fixture
def base(mongo):
    return f"{mongo.url}/{mongo.database()}"


def lists(shape, seed=0, fill=0.0, dtype="f8"):
    """Few cells among many."""
    cells = np.full(shape, fill, dtype)
    rng = np.random.default_rng(seed)
    cells.reshape(-1)[rng.integers(0, cells.size, max(1, cells.size // 50))] = rng.integers(1, 9)
    return sparse.COO.from_numpy(cells, fill_value=np.dtype(dtype).type(fill))


def plain(data):
    data = getattr(data, "magnitude", data)
    data = data.compute() if hasattr(data, "compute") else data
    return data.todense() if isinstance(data, sparse.COO) else np.asarray(data)


@pytest.fixture
def dataset():
    return xr.Dataset(
        {
            "small": (("y", "x"), lists((20, 13), 1), {"long_name": "stands in the document"}),
            "missing": (("Y", "X"), lists((500, 300), 2, np.nan)),
            "counts": (("Y", "X"), lists((500, 300), 3, 7, "i2")),
            "waves": (("Y", "X"), lists((500, 300), 4, 0, "c16")),
            "blocks": (("Y", "X"), da.from_array(lists((500, 300), 5), chunks=(200, 300))),
            "heat": (("Y", "X"), pint.Quantity(lists((500, 300), 6), "K")),
            "cold": (("Y", "X"), pint.Quantity(da.from_array(lists((500, 300), 7), chunks=(250, 300)), "degC")),
            "speed": ("x", pint.Quantity(np.arange(13.0), "m/s")),
            "plain": ("x", np.arange(13)),
        },
        coords={"x": np.arange(13.0), "mark": ("y", sparse.COO.from_numpy(np.arange(20) % 7))},
    )


SPARSE = ["small", "missing", "counts", "waves", "blocks", "heat", "cold", "mark"]


def chunk_types(url):
    """The types of the documents of chunks, and of variables."""
    with MongoClient(url) as client:
        database = client.get_default_database()
        stored = {(doc["meta_id"], doc["name"]): doc["type"] for doc in database["xarray.chunks"].find()}
        for meta in database["xarray.meta"].find():
            for part in ("coords", "data_vars"):
                for name, doc in meta[part].items():
                    assert stored.get((meta["_id"], name), doc["type"]) == doc["type"]
                    yield name, doc["type"]


def check(root, dataset):
    for name in dataset.variables:
        expected = plain(dataset.variables[name]._data)
        assert root[name][...].tobytes() == expected.tobytes()
        found = root[name].to_sparse()
        assert found.todense().tobytes() == expected.tobytes()
        assert (root[name].spec.sparse == "COO") == (name in SPARSE)


def test_saved_sparse_and_measured(base, dataset):
    hs.save(f"{base}#one", dataset)
    root = hs.open(f"{base}#one")
    check(root, dataset)
    assert dict(chunk_types(base)) == {name: "COO" if name in SPARSE else "ndarray" for name in dataset.variables}
    units = {name: root[name].units for name in ("heat", "cold", "speed", "plain")}
    assert units == {"heat": "kelvin", "cold": "degree_Celsius", "speed": "meter / second", "plain": None}
    assert np.isnan(root["missing"].fill_value)
    assert root["missing"].to_sparse().nnz == dataset["missing"].data.nnz
    back = xr.open_dataset(f"{base}#one", engine="hyperslab", chunks={})
    assert np.array_equal(back["counts"].values, plain(dataset["counts"].data))
    assert root["counts"].to_sparse((slice(100, 300, 7), 5)).todense().tolist() == root["counts"][100:300:7, 5].tolist()


def test_densify_stores_all_cells(base, dataset):
    hs.save(f"{base}#one", dataset, densify=True)
    assert set(dict(chunk_types(base)).values()) == {"ndarray"}
    for name in dataset.variables:
        assert np.array_equal(hs.open(f"{base}#one")[name][...], plain(dataset.variables[name]._data), equal_nan=True)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("chunks", [None, {"Y": 90, "X": 110}], ids=["the same chunks", "others"])
def test_from_one_database_into_another(base, dataset, chunks):
    hs.save(f"{base}#one", dataset)
    report = hs.convert(f"{base}#one", f"{base}2#two", chunks=chunks, verify=True)
    assert not report.losses
    check(hs.open(f"{base}2#two"), dataset)
    assert dict(chunk_types(f"{base}2")) == dict(chunk_types(base))
    assert not hs.diff(f"{base}#one", f"{base}2#two")


def test_out_of_it_and_back(base, dataset, tmp_path):
    hs.save(f"{base}#one", dataset)
    with pytest.raises(Unsupported, match="the sparse array is stored dense") as told:
        hs.convert(f"{base}#one", tmp_path / "a.zarr")
    assert str(told.value).count("stored dense") == len(SPARSE)
    assert not (tmp_path / "a.zarr").exists()
    for name, changed in (("a.zarr", set()), ("a.nc", {"waves"})):
        report = hs.convert(f"{base}#one", tmp_path / name, allow_loss=True, verify=True)
        assert {loss.node for loss in report.losses if loss.feature == "sparse arrays"} == set(SPARSE)
        differences = hs.diff(f"{base}#one", tmp_path / name)
        assert differences.cells == sum(variable.size for variable in dataset.variables.values())
        assert {problem.node for problem in differences if problem.node} == changed
    waves = hs.open_array(tmp_path / "a.nc", path="waves")[...]
    assert np.array_equal(waves["r"] + 1j * waves["i"], plain(dataset["waves"].data))
    hs.convert(tmp_path / "a.zarr", f"{base}#back")
    assert not hs.diff(f"{base}#one", f"{base}#back")
    assert {kind for name, kind in chunk_types(base) if name == "heat"} == {"COO", "ndarray"}


def test_units_besides_an_attribute(base, tmp_path):
    """What xarray_mongodb may store: a Quantity with an attribute that says other units."""
    heat = xr.Dataset({"a": ("x", pint.Quantity(np.arange(30.0), "K"), {"units": "old"})})
    with MongoClient(base) as client:
        key, _ = XarrayMongoDB(client.get_default_database()).put(heat)
        hs.convert(f"{base}#{key}", f"{base}#same")
        back = XarrayMongoDB(client.get_default_database()).get(hs.open(f"{base}#same")._session.reader.id)
        assert (str(back["a"].data.units), back["a"].attrs) == ("kelvin", {"units": "old"})
    with pytest.raises(Unsupported, match="the units 'kelvin' are left out, for the attribute units is 'old'"):
        hs.convert(f"{base}#{key}", tmp_path / "a.zarr")
    with pytest.raises(Unsupported, match="the units 'kelvin' are left out"):
        hs.convert(f"{base}#{key}", f"{base}#other", chunks={"x": 7})
    hs.convert(f"{base}#{key}", tmp_path / "a.zarr", allow_loss=True)
    assert hs.open(tmp_path / "a.zarr")["a"].units == "old"


def test_some_cells_are_selected(base, dataset):
    hs.save(f"{base}#one", dataset)
    hs.convert(f"{base}#one", f"{base}2#two", select={"Y": slice(100, 333), "X": 7})
    root = hs.open(f"{base}2#two")
    assert root["missing"].spec.sparse == "COO"
    assert np.array_equal(root["missing"][...], plain(dataset["missing"].data)[100:333, 7], equal_nan=True)


def test_a_large_one_never_becomes_dense(base):
    """Of 32 GiB, in sixteen chunks and in one."""
    places = np.array([[5, (1 << 32) - 1]])
    cells = sparse.COO(places, np.array([1.0, 2.0]), shape=(1 << 32,))
    with hs.create(f"{base}#one") as root:
        root.create_array("many", data=cells, chunks=(1 << 28,), dims="x")
        root.create_array("one", data=cells, chunks=(1 << 32,), dims="x")
    hs.convert(f"{base}#one", f"{base}2#two")
    for url in (f"{base}#one", f"{base}2#two"):
        root = hs.open(url)
        for name in ("many", "one"):
            assert root[name].to_sparse().coords.tolist() == places.tolist()
            assert root[name][3:7].tolist() == [0.0, 0.0, 1.0, 0.0]
            assert root[name][-1] == 2.0
            assert "sparse" in root[name]._repr_html_().lower()


def test_cells_of_a_sparse_array_are_changed(base):
    cells = lists((60, 40), fill=np.nan)
    with hs.create(f"{base}#one") as root:
        a = root.create_array("a", data=cells, chunks=(20, 40), dims=("y", "x"))
        expected = cells.todense()
        a[10:30, 5] = expected[10:30, 5] = 4.0
        a[20:40] = lists((20, 40), 5, np.nan)
        expected[20:40] = lists((20, 40), 5, np.nan).todense()
        a[:20] = lists((20, 40), 6, 1.0)
        expected[:20] = lists((20, 40), 6, 1.0).todense()
        assert np.array_equal(a[...], expected, equal_nan=True)
        a.append(lists((10, 40), 7, np.nan))
        expected = np.concatenate([expected, lists((10, 40), 7, np.nan).todense()])
    a = hs.open(f"{base}#one")["a"]
    assert np.array_equal(a[...], expected, equal_nan=True)
    assert np.array_equal(a.to_sparse().todense(), expected, equal_nan=True)
    assert {kind for _, kind in chunk_types(base)} == {"COO"}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_every_loss_is_told(base, tmp_path, format):
    """An array of every type that the format holds, attributes of many, a group: what differs was told before."""
    features = get_format(format).features
    types = [dtype for dtype, feature in TYPES if feature is None or feature in features]
    with hs.create(tmp_path / "a.zarr", format=format) as root:
        for number, dtype in enumerate(types):
            root.create_array(f"t{number}", shape=3, dtype=dtype, dims="x")[...] = cells(dtype, 3)
        root.create_array("typed", data=np.arange(3.0), dims="x", attrs={**PLAIN, **TYPED})
        root.create_group("below").create_array("a", data=np.arange(3))
    with pytest.raises(Unsupported) as told:
        hs.convert(tmp_path / "a.zarr", f"{base}#one")
    with pytest.raises(NotFound):
        hs.open(f"{base}#one")
    report = hs.convert(tmp_path / "a.zarr", f"{base}#one", allow_loss=True, verify=True)
    assert all(str(loss) in str(told.value) for loss in report.losses)
    lost = {loss.node for loss in report.losses}
    lacking = features - get_format("mongo").features
    source = hs.open(tmp_path / "a.zarr")
    assert {name for name, array in source.arrays() if lacking & set(required_features(array.data_type))} <= lost
    assert {problem.node for problem in hs.diff(tmp_path / "a.zarr", f"{base}#one")} <= lost
    hs.convert(f"{base}#one", tmp_path / "back.zarr", format=format)
    assert not hs.diff(f"{base}#one", tmp_path / "back.zarr")


def test_labels_go_on_across_the_seam(base, tmp_path):
    lon = np.arange(0.0, 360, 10)
    theirs = xr.Dataset({"t": (("lat", "lon"), np.arange(72.0).reshape(2, 36))}, {"lon": lon})
    theirs["lon"].attrs["units"] = "degrees_east"
    theirs.to_netcdf(tmp_path / "a.nc")
    expected = theirs.assign_coords(lon=(lon + 180) % 360 - 180).sortby("lon").sel(lon=slice(-20, 20))
    hs.convert(tmp_path / "a.nc", f"{base}#seam", select={"lon": slice(-20.0, 20.0)}, allow_loss=True)
    hs.convert(f"{base}#seam", tmp_path / "b.nc", allow_loss=True)
    with xr.open_dataset(tmp_path / "b.nc") as found:
        np.testing.assert_array_equal(found["lon"], expected["lon"])
        np.testing.assert_array_equal(found["t"], expected["t"])
