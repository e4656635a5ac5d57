"""Quantities come back as Quantities, whatever they hold, and whoever wrote them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import golden_documents as golden
import numpy as np
import pint
import pytest
import sparse
import xarray as xr

from hyperslab.errors import Invalid, Unsupported
from hyperslab.mongo import XarrayMongoDB

UNITS = pint.get_application_registry()
CELLS: dict[str, Callable[[], Any]] = {  # made by the tests, not at import: numba compiles for seconds
    "numpy": lambda: np.arange(6.0),
    "dask": lambda: da.arange(6.0, chunks=4),
    "sparse": lambda: sparse.COO.from_numpy(np.arange(6.0)),
    "dask of sparse": lambda: da.from_array(sparse.COO.from_numpy(np.arange(6.0)), chunks=4, asarray=False),
}


def dense(data: Any) -> Any:
    data = data.compute(scheduler="sync") if hasattr(data, "compute") else data
    return data.todense() if hasattr(data, "todense") else data


@pytest.mark.covering
@pytest.mark.parametrize("load", [None, True, False])
@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("unit", ["kg * m / s ** 2", "degree_Celsius", "dimensionless"])
def test_quantities_come_back(xdb: XarrayMongoDB, kind: str, unit: str, load: Any) -> None:
    cells = CELLS[kind]()
    x = xr.DataArray(UNITS.Quantity(cells, UNITS.Unit(unit)), dims="x", attrs={"units": "another"})
    key, future = xdb.put(x)
    if future is not None:
        future.compute(scheduler="sync")
    assert xdb.meta.find_one({"_id": key})["data_vars"]["__DataArray__"]["units"] == str(UNITS.Unit(unit))
    read = xdb.get(key, load=load)
    assert read.data.units == UNITS.Unit(unit)
    assert type(read.data.magnitude) is (type(cells) if load is None else type(read.data.magnitude))
    assert np.array_equal(dense(read.data.magnitude), np.arange(6.0))
    assert read.attrs == {"units": "another"}


@pytest.mark.parametrize("load", [None, True, False])
def test_units_that_stand_with_chunks(xdb: XarrayMongoDB, load: Any) -> None:
    case = golden.case("legacy_units_in_chunks")
    xdb.meta.insert_one(dict(case.meta))
    xdb.chunks.insert_many([dict(chunk) for chunk in case.chunks])
    read = xdb.get(case._id, load=load)
    variables = [read] if isinstance(read, xr.DataArray) else list(read.data_vars.values())
    assert [str(variable.data.units) for variable in variables] == ["kilogram"]


def test_a_plain_array_has_no_units(xdb: XarrayMongoDB) -> None:
    key, _ = xdb.put(xr.DataArray([1.0], dims="x", attrs={"units": "m"}))
    assert isinstance(xdb.get(key).data, np.ndarray)


def test_units_that_nobody_knows(xdb: XarrayMongoDB) -> None:
    own = pint.UnitRegistry()
    own.define("furlong_of_tests = 5 m")
    key, _ = xdb.put(xr.DataArray(own.Quantity([1.0], "furlong_of_tests"), dims="x"))
    with pytest.raises(pint.UndefinedUnitError):
        xdb.get(key)
    xdb.ureg = own
    assert str(xdb.get(key).data.units) == "furlong_of_tests"


def test_units_of_what_is_appended_are_the_same(xdb: XarrayMongoDB) -> None:
    key, _ = xdb.put(xr.DataArray(UNITS.Quantity([1.0], "m"), dims="x"))
    xdb.append(key, xr.DataArray(UNITS.Quantity([2.0], "m"), dims="x"), "x")
    assert xdb.get(key).data.magnitude.tolist() == [1, 2]
    with pytest.raises(Invalid, match="meter"):
        xdb.append(key, xr.DataArray(UNITS.Quantity([2.0], "km"), dims="x"), "x")


def test_blocks_that_are_quantities_are_refused(xdb: XarrayMongoDB) -> None:
    inner = da.ones(4, chunks=2).map_blocks(lambda block: UNITS.Quantity(block, "m"), meta=np.empty(0))
    key, future = xdb.put(xr.DataArray(inner, dims="x"))
    with pytest.raises(Unsupported, match="meter"):
        future.compute(scheduler="sync")
    assert xdb.chunks.count_documents({"meta_id": key}) == 0
