"""Blocks of dask without missing cells are reduced without a look for any, and give what xarray gives."""

import tracemalloc

import numpy as np
import pytest
import xarray as xr

from hyperslab.bridges.xarray.aggregation import Aggregation, aggregate
from hyperslab.bridges.xarray.block_reductions import reduce_blocks

pytest.importorskip("dask")


def field(missing, shape=(12, 5, 6), dtype="f4"):
    random = np.random.default_rng(7)
    cells = random.normal(280, 9, shape).astype(dtype)
    if missing:
        cells[random.random(shape) < 0.3] = np.nan
        cells[:, 2, 3] = np.nan
    return xr.Variable(("t", "y", "x"), cells)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("chunks", [{}, {"t": 5}, {"t": 5, "y": 2, "x": 4}])
@pytest.mark.parametrize("dims", [("t",), ("x",), ("x", "t"), ("t", "y", "x")])
@pytest.mark.parametrize("how", ["mean", "sum", "std"])
@pytest.mark.filterwarnings("ignore:.*(empty slice|Degrees of freedom|invalid value).*")
def test_numbers_are_those_of_xarray(how, dims, chunks, missing):
    cells = field(missing)
    options = {"min_count": 1} if how == "sum" else {}
    expected = getattr(cells.astype("f8"), how)(dims, skipna=True, **options)
    found = reduce_blocks(cells.chunk(chunks), how, dims)
    assert (found.dims, found.dtype) == (expected.dims, np.dtype("f8"))
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("chunks", [{}, {"t": 5, "y": 2, "x": 4}])
@pytest.mark.parametrize("weight_dims", [("y",), ("x", "y"), ("t", "y")])
@pytest.mark.parametrize("dims", [("y", "x"), ("x", "y", "t")])
@pytest.mark.parametrize("how", ["mean", "sum"])
def test_weighted_numbers_are_those_of_xarray(how, dims, weight_dims, chunks, missing):
    cells = field(missing)
    random = np.random.default_rng(8)
    weights = xr.Variable(weight_dims, random.random([cells.sizes[dim] for dim in weight_dims]))
    found = reduce_blocks(cells.chunk(chunks), how, dims, weights)
    expected = getattr(xr.DataArray(cells.astype("f8")).weighted(xr.DataArray(weights)), how)(dims)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)


@pytest.mark.parametrize(
    ("how", "dims", "weighted", "most"),
    [
        ("mean", ("t",), False, 0.5),  # of the bytes of a block; looking for missing cells takes 1.3
        ("sum", ("t",), False, 0.5),
        ("mean", ("y", "x"), False, 0.1),
        ("std", ("t",), False, 2.5),  # the differences as double, squared where they are
        ("mean", ("y", "x"), True, 2.2),  # the cells as double; repeated weights would take 2 more
    ],
)
def test_what_a_full_block_takes(how, dims, weighted, most):
    cells = field(False, (2 * 32, 128, 128))
    weights = xr.Variable(("y",), np.arange(1.0, 129.0)) if weighted else None
    block = cells.nbytes / 2
    lazy = reduce_blocks(cells.chunk({"t": 32}), how, dims, weights)
    lazy.compute(scheduler="sync")
    tracemalloc.start()
    try:
        lazy.compute(scheduler="sync")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < block * (1 + most), "the block itself, and what is made of it"


def test_days_of_the_year_are_no_work_of_flox():
    times = np.arange("2001-01-01", "2003-01-01", dtype="M8[D]").astype("M8[ns]")
    cells = np.random.default_rng(9).normal(size=(730, 20, 30)).astype("f4")
    dataset = xr.Dataset({"t": (("time", "y", "x"), cells)}, {"time": times}).chunk({"time": 8})
    found, _ = aggregate(dataset, Aggregation("mean", ("time",), by="day"))
    names = " ".join(found["t"].data.dask.layers)
    assert "groupby" not in names and "_reduce_block" in names
    # as many cells in a block as before, of both years
    assert max(found["t"].chunksizes["time"]) == 4
    np.testing.assert_allclose(found["t"].values, cells.reshape(2, 365, 20, 30).mean(0, dtype="f8"), rtol=1e-6)


@pytest.mark.parametrize("how", ["mean", "sum", "min", "max", "std", "count"])
@pytest.mark.parametrize(
    ("step", "word", "group"),
    [
        (24, {"by": "day"}, None),
        (6, {"every": "day"}, "1D"),
        (3, {"by": "hour"}, "time.hour"),
        (6, {"by": "hour"}, "time.hour"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*(empty slice|Degrees of freedom|All-NaN|invalid value).*")
def test_short_periods_are_those_of_xarray(how, step, word, group):
    count = 2 * 366 * 24 // step
    times = (np.datetime64("2003-01-01", "h") + np.arange(count) * step).astype("M8[ns]")
    cells = field(True, (count, 4, 6)).values
    dataset = xr.Dataset({"t": (("time", "y", "x"), cells)}, {"time": times})
    found, _ = aggregate(dataset.chunk({"time": 50}), Aggregation(how, ("time",), **word))
    array = dataset["t"].astype("f8")
    if group is None:
        days = dataset["time"].dt.month * 100 + dataset["time"].dt.day
        groups = array.groupby(days.rename("day"))
    else:
        groups = array.resample(time=group) if group == "1D" else array.groupby(group)
    expected = getattr(groups, how)("time", **({"min_count": 1} if how == "sum" else {}))
    values = expected.transpose(..., "y", "x").values
    if group is None:  # which xarray sorts, though 29 February is the last that first comes
        order = np.argsort(np.unique(days, return_index=True)[1])
        values = values[order]
    np.testing.assert_allclose(found["t"].values, values, rtol=2e-6)
