"""xarray objects whose cells are Quantities or sparse arrays: saved as plain cells with units, whole or not at all."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pint
import pytest
import sparse
import xarray as xr

import hyperslab as hs
from hyperslab.errors import Invalid, Unsupported

CELSIUS = "degree_Celsius"


def lists(seed=0, fill=0.0):
    cells = np.full((20, 13), fill)
    cells.reshape(-1)[np.random.default_rng(seed).integers(0, 260, 20)] = 1.5
    return sparse.COO.from_numpy(cells, fill_value=fill)


def plain(data):
    data = getattr(data, "magnitude", data)
    data = data.compute() if hasattr(data, "compute") else data
    return data.todense() if isinstance(data, sparse.COO) else np.asarray(data)


@pytest.fixture
def dataset():
    return xr.Dataset(
        {
            "a": (("y", "x"), lists(1), {"long_name": "numpy level"}),
            "b": (("y", "x"), da.from_array(lists(2, np.nan), chunks=(7, 13))),
            "speed": ("x", pint.Quantity(np.arange(13.0), "m/s")),
            "heat": (("y", "x"), pint.Quantity(lists(3), "K")),
            "cold": (
                ("y", "x"),
                pint.Quantity(da.from_array(lists(4), chunks=(7, 13)), "degC"),
                {"units": "degree_Celsius"},
            ),
            "n": ("x", pint.Quantity(np.arange(13))),
        },
        coords={"x": np.arange(13), "z": ("y", sparse.COO.from_numpy(np.arange(20) % 5))},
    )


@pytest.mark.parametrize("name", ["a.zarr", "a.nc", "a.blaze"])
def test_saved_dense(dataset, tmp_path, name):
    dataset = dataset if name != "a.blaze" else dataset["heat"].drop_vars("z").rename("data")
    hs.save(tmp_path / name, dataset, densify=True)
    with xr.open_dataset(tmp_path / name, engine="hyperslab") as back:
        names = dataset.variables if name != "a.blaze" else ["data"]
        for variable in names:
            source = dataset[variable] if name != "a.blaze" else dataset
            expected = plain(source.variable._data)
            assert np.array_equal(back[variable].values, expected, equal_nan=expected.dtype.kind == "f")
        if name != "a.blaze":
            found = {variable: back[variable].attrs.get("units") for variable in dataset.data_vars}
            assert found == {
                "a": None,
                "b": None,
                "speed": "meter / second",
                "heat": "kelvin",
                "cold": "degree_Celsius",
                "n": "dimensionless",
            }
            assert "z" in back.coords


def test_a_format_without_sparse_arrays_names_them_and_nothing_is_written(dataset, tmp_path):
    with pytest.raises(Unsupported, match=r"zarr3 has no sparse arrays: 'a', 'b', 'heat', 'cold', 'z'.*densify=True"):
        hs.save(tmp_path / "a.zarr", dataset)
    assert not (tmp_path / "a.zarr").exists()
    hs.save(tmp_path / "a.zarr", dataset[["speed"]])
    with pytest.raises(Unsupported, match="'a'"):
        hs.save(tmp_path / "a.zarr", dataset[["a"]].drop_vars("z"), mode="a")
    assert "a" not in hs.open(tmp_path / "a.zarr")
    hs.save(tmp_path / "a.zarr", dataset[["a"]].drop_vars("z"), mode="a", densify=True)
    assert np.array_equal(hs.open(tmp_path / "a.zarr")["a"][...], plain(dataset["a"].data))


def test_units_that_contradict_the_quantity(dataset, tmp_path):
    dataset["speed"].attrs["units"] = "km/h"
    with pytest.raises(Invalid, match=r"'speed' is a Quantity of 'meter / second' with an attribute units 'km/h'"):
        hs.save(tmp_path / "a.zarr", dataset, densify=True)
    assert not (tmp_path / "a.zarr").exists()


def test_the_object_that_is_saved_stays_as_it_is(dataset, tmp_path):
    hs.save(tmp_path / "a.zarr", dataset, densify=True)
    assert isinstance(dataset["speed"].data, pint.Quantity)
    assert dataset["speed"].attrs == {}
    assert isinstance(dataset["a"].data, sparse.COO)


def test_units_into_a_region_and_behind_the_last_row(dataset, tmp_path):
    part = dataset[["heat"]].drop_vars(["x", "z"])
    hs.save(tmp_path / "a.zarr", part, densify=True)
    hs.save(tmp_path / "a.zarr", part, append_dim="y")
    hs.save(tmp_path / "a.zarr", part.isel(y=slice(0, 5)) * 2, region={"y": slice(20, 25)})
    found = hs.open(tmp_path / "a.zarr")["heat"]
    expected = np.concatenate([plain(part["heat"].data)] * 2)
    expected[20:25] *= 2
    assert np.array_equal(found[...], expected)
    warm = part.copy()
    warm["heat"] = (("y", "x"), pint.Quantity(lists(3), "mK"))
    with pytest.raises(Invalid, match="units"):
        hs.save(tmp_path / "a.zarr", warm, append_dim="y")


def test_quantities_again(dataset, tmp_path):
    """What is read are plain numbers with units, of which pint makes Quantities."""
    hs.save(tmp_path / "a.zarr", dataset[["speed"]])
    back = hs.open(tmp_path / "a.zarr")["speed"].to_xarray()
    assert type(back.data) is np.ndarray
    again = back.copy(data=pint.Quantity(back.data, back.attrs["units"]))
    assert (again.data == dataset["speed"].data).all()
