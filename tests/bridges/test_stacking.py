"""Many arrays as one lazy Dataset; ``numpy.stack`` of their cells is the oracle."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import dask
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hyperslab as hs
from forked import cluster, pool
from hyperslab.array import Array
from hyperslab.bridges.xarray.stacking import Stack, as_cells, stacked
from hyperslab.errors import Invalid, MemoryLimit
from hyperslab.model.dims import Labels, ScaleIndex, TimeScale
from old_peers import needs

COUNT, SHAPE = 12, (4, 6, 2)
DIMS = ("dt", "hour", "y", "kind")
CELLS = np.random.default_rng(8).integers(0, 99, (COUNT, *SHAPE)).astype("i4")
DAYS = [datetime(2023, 1, 1 + number, tzinfo=UTC) for number in range(COUNT)]
STATIONS = ["Ulm", "Ås", "Brno"]
STEP = np.timedelta64(6, "h")


def saved(folder, cells=CELLS, **options) -> list[Array]:
    """One array for each of the cells, cut into two tiles, with labels that only its spec tells."""
    with hs.create(folder / "a.zarr") as root:
        for number, each in enumerate(cells):
            made = {"chunks": (max(len(each), 1), 3, 2), "fill_value": -1} | options
            root.create_array(f"a{number}", data=each, dims=("hour", "y", "kind"), **made)
    root = hs.open(folder / "a.zarr")
    return [labelled(root[f"a{number}"], DAYS[number % COUNT]) for number in range(len(cells))]


def labelled(array: Array, start: datetime) -> Array:
    hours = TimeScale(np.datetime64(start.replace(tzinfo=None), "us"), STEP, array.shape[0])
    indexes = {"hour": hours, "y": ScaleIndex(50.0, -2.5, array.shape[1]), "kind": Labels(("t", "p"))}
    return Array(array._session, array.path, array.spec.evolve(indexes=indexes))


def stack_of(arrays, **options) -> Stack:
    attributes = {
        "dt": DAYS[: len(arrays)],
        "station": [STATIONS[number % 3] for number in range(len(arrays))],
        "tm": [None if number == 1 else number for number in range(len(arrays))],
        "run": list(range(len(arrays))),
        "pair": [(number, "a") for number in range(len(arrays))],
    }
    given = {"name": "weather", "along": "dt", "attributes": attributes, "starts": {"hour": "dt"}}
    return Stack(arrays=arrays, **given | options)


@pytest.fixture(scope="module")
def arrays(tmp_path_factory) -> list[Array]:
    return saved(tmp_path_factory.mktemp("stack"))


def test_coordinates_come_from_attributes_scales_labels_and_times(arrays):
    dataset = stacked(stack_of(arrays))
    assert dict(dataset.sizes) == {"dt": COUNT, "hour": 4, "y": 6, "kind": 2}
    assert dataset.weather.dtype == "i4" and dataset.weather.dims == ("dt", "hour", "y", "kind")
    days = np.array([day.replace(tzinfo=None) for day in DAYS], "M8[ns]")
    np.testing.assert_array_equal(dataset.dt, days)
    assert dataset.dt.dtype == "M8[ns]"
    assert dataset.station.dims == ("dt",) and dataset.station.values.tolist() == STATIONS * 4
    assert np.isnan(dataset.tm[1]) and dataset.tm[2] == 2 and dataset.run.dtype == "i8"
    assert dataset.pair.values[3] == "(3, 'a')"
    assert dataset.y.values.tolist() == [50, 47.5, 45, 42.5, 40, 37.5] and dataset.kind.values.tolist() == ["t", "p"]
    np.testing.assert_array_equal(dataset.hour, np.arange(4) * STEP)
    np.testing.assert_array_equal(dataset.hour_time, days[:, None] + np.arange(4) * STEP)
    np.testing.assert_array_equal(dataset.hour_time[2:9:3, ::-1], (days[:, None] + np.arange(4) * STEP)[2:9:3, ::-1])
    np.testing.assert_array_equal(dataset.weather, CELLS)
    picked = dataset.weather.sel(dt="2023-01-03", hour="6h", y=45.0, kind="p").squeeze()
    assert picked == CELLS[2, 1, 2, 1]
    picked = dataset.weather.where(dataset.station == "Ulm", drop=True)
    np.testing.assert_array_equal(picked, CELLS[::3])


def test_names_that_are_taken_give_way(arrays):
    stack = stack_of(arrays, along="run", name="station")
    attributes = stack.attributes | {"hour": DAYS}
    dataset = stacked(Stack("station", arrays, "run", attributes, {"hour": "hour"}))
    assert dataset["hour_"].dims == ("run",) and dataset["station_"].dims == ("run", "hour", "y", "kind")
    assert dataset["hour"].dtype.kind == "m" and dataset["hour_time"].dims == ("run", "hour")
    with pytest.raises(Invalid, match=r"dimension .hour. already.*dim="):
        stacked(Stack("w", arrays, "hour", attributes))
    dataset = stacked(Stack("w", arrays, "hour", attributes, dim="begin"))
    assert dataset.w.dims[0] == "begin" and dataset.begin.dtype == "M8[ns]"


def test_what_makes_no_sense_is_refused(arrays):
    with pytest.raises(Invalid, match="no array to stack"):
        stacked(stack_of([]))
    with pytest.raises(Invalid, match=r"no attribute .statoin.*station"):
        stacked(stack_of(arrays, along="statoin"))
    with pytest.raises(Invalid, match=r"two arrays have station='Brno'; add an attribute to stack="):
        stacked(stack_of(arrays, along="station"))
    with pytest.raises(Invalid, match=r"two arrays have note=None; add"):
        stacked(stack_of(arrays, along="note", attributes={"note": [None] * COUNT, "dt": DAYS}))
    with pytest.raises(Invalid, match="'heights'"):
        stacked(stack_of(arrays), chunks={"heights": 1})


def axis_key(size: int) -> st.SearchStrategy:
    return st.one_of(
        st.integers(-size, size - 1),
        st.slices(size),
        st.lists(st.integers(-size, size - 1), max_size=6).map(lambda each: np.array(each, dtype=int)),
    )


@given(st.tuples(*map(axis_key, CELLS.shape)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_keys_each_for_itself(arrays, key):
    want = xr.Variable(tuple("abcd"), CELLS)[key]
    have = stacked(stack_of(arrays)).weather.variable[key]
    assert have.dtype == CELLS.dtype
    np.testing.assert_array_equal(have.values, want.values)


@given(st.data(), st.integers(1, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_keys_that_run_together(arrays, data, count):
    key = []
    for size in CELLS.shape:
        points = st.lists(st.integers(-size, size - 1), min_size=count, max_size=count)
        key.append(data.draw(st.one_of(points.map(lambda each: xr.Variable(("p",), each)), st.slices(size))))
    want = xr.Variable(DIMS, CELLS)[tuple(key)]
    have = stacked(stack_of(arrays)).weather.variable[tuple(key)]
    assert have.dims == want.dims
    np.testing.assert_array_equal(have.values, want.values)


@given(st.tuples(*map(axis_key, CELLS.shape)), st.lists(st.integers(0, 3), min_size=4, max_size=4))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=min(settings.default.max_examples, 40),
)
def test_shorter_arrays_are_filled_up(tmp_path_factory, key, hours):
    cells = [CELLS[number, :size] for number, size in enumerate([*hours, 4])]
    arrays = saved(tmp_path_factory.mktemp("short"), cells)
    want = np.full((5, *SHAPE), -1, "i4")
    for number, each in enumerate(cells):
        want[number, : len(each)] = each
    variable = stacked(stack_of(arrays)).weather.variable
    np.testing.assert_array_equal(variable, want)
    key = (key[0] % 5 if isinstance(key[0], int) else slice(None), *key[1:])
    np.testing.assert_array_equal(variable[key], xr.Variable(tuple("abcd"), want)[key])
    points = {"a": ("p", [0, 4, 2, 4, 1]), "b": ("p", [3, 0, 1, 3, 2]), "d": ("p", [1, 0, 0, 1, 1])}
    points = {name: xr.DataArray(places, dims=dim) for name, (dim, places) in points.items()}
    taken = xr.DataArray(variable._data, dims=tuple("abcd")).isel(points)
    assert taken.identical(xr.DataArray(want, dims=tuple("abcd")).isel(points))


def test_a_read_touches_only_what_it_needs(arrays):
    dataset = stacked(stack_of([Array(each._session, each.path, each.spec) for each in arrays]))
    with hs.trace() as cost:
        np.testing.assert_array_equal(dataset.weather[7, :, 4:], CELLS[7, :, 4:])
    assert (cost.chunks, cost.requests) == (1, 1)
    with hs.trace() as cost:
        dataset.weather[2:10:4, 0, 1].load()
    assert cost.chunks == 2
    with hs.trace() as cost:
        dataset.hour_time.load()
    assert cost.requests == 0


def test_a_block_for_each_tile(arrays):
    dataset = stacked(stack_of(arrays), chunks={})
    assert dataset.weather.chunks == ((1,) * COUNT, (4,), (3, 3), (2,))
    with hs.trace() as cost:
        dataset.weather[5, :, :3].compute(scheduler="synchronous")
    assert cost.chunks == 1
    assert stacked(stack_of(arrays), chunks={"dt": 5}).weather.chunks[0] == (5, 5, 2)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask_reads_it_anywhere(arrays, scheduler):
    with ThreadPoolExecutor(2) if scheduler == "threads" else pool() as workers:
        dataset = stacked(stack_of(arrays), chunks={})
        with dask.config.set(scheduler=scheduler, pool=workers):
            np.testing.assert_array_equal((dataset.weather[3:, 2] + 1).sum("dt"), (CELLS[3:, 2] + 1).sum(0))


def test_workers_of_a_cluster_read_it(arrays):
    with cluster(threads=1):
        dataset = stacked(stack_of(arrays), chunks={})
        np.testing.assert_array_equal(dataset.weather.max("dt").compute(), CELLS.max(0))


def test_it_pickles_as_places_do(arrays):
    dataset = stacked(stack_of(arrays))
    text = pickle.dumps(dataset)
    assert CELLS[3].tobytes() not in text
    np.testing.assert_array_equal(pickle.loads(text).weather, CELLS)


@needs("xarray", (2025, 7), "does not read spans of time again that it wrote")
@pytest.mark.parametrize("chunks", [None, {}])
def test_it_saves_to_netcdf_and_zarr(arrays, tmp_path, chunks):
    dataset = stacked(stack_of(arrays), chunks=chunks)
    dataset.to_netcdf(tmp_path / "a.nc")
    dataset.to_zarr(tmp_path / "b.zarr", zarr_format=3, consolidated=False)
    hs.save(tmp_path / "c.zarr", dataset)
    options = {"decode_timedelta": True}
    for again in (
        xr.open_dataset(tmp_path / "a.nc", **options),
        xr.open_zarr(tmp_path / "b.zarr", consolidated=False, **options),
        xr.open_dataset(tmp_path / "c.zarr", engine="hyperslab", **options),
    ):
        xr.testing.assert_equal(again.load(), dataset.load())
        again.close()


def test_a_result_that_is_too_large_is_refused_before_it_is_made(tmp_path):
    saved(tmp_path)
    root = hs.open(tmp_path / "a.zarr", memory_limit=600)
    dataset = stacked(stack_of([root[f"a{number}"] for number in range(COUNT)], starts={}))
    assert dataset.weather[:3].values.shape == (3, *SHAPE)
    with pytest.raises(MemoryLimit):
        dataset.weather.load()


def test_values_become_columns():
    assert as_cells([1, 2]).dtype == "i8" and as_cells([1, 2.5]).dtype == "f8"
    assert as_cells([1j, None]).dtype == "c16"
    assert as_cells([2**80, 1]).tolist() == [str(2**80), "1"]
    assert as_cells(["a", None, "a\0"]).tolist() == ["a", None, "a\0"]
    assert as_cells([None, None]).tolist() == [None, None]
    far = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert as_cells([far, None])[0] == np.datetime64("9999-12-31T23:59:59.999999") and np.isnat(
        as_cells([far, None])[1]
    )
    near = datetime(1969, 12, 31, tzinfo=UTC) + timedelta(microseconds=7)
    assert as_cells([near])[0] == np.datetime64("1969-12-31T00:00:00.000007") and as_cells([near]).dtype == "M8[ns]"


# -- grids of several attributes ---------------------------------------------------------------------------------------


def grid_of(folder, *, dtype="f4", gaps=((1, 2), (3, 0)), **options) -> tuple[xr.Dataset, np.ndarray]:
    """Arrays of 4 days and 3 stations but for some, out of order, as one Dataset; and what its cells should be."""
    cells = CELLS.astype(dtype)
    wanted = np.full((4, 3, *SHAPE), np.nan if dtype == "f4" else -5, dtype)
    pairs = [(day, station) for day in range(4) for station in range(3) if (day, station) not in gaps]
    pairs = [pairs[number] for number in np.random.default_rng(1).permutation(len(pairs))]
    arrays = saved(folder, cells[: len(pairs)])
    by_name = np.argsort(STATIONS)
    for number, (day, station) in enumerate(pairs):
        wanted[day, by_name.tolist().index(station)] = cells[number]
    attributes = {
        "dt": [DAYS[day] for day, _ in pairs],
        "station": [STATIONS[station] for _, station in pairs],
        "run": list(range(len(pairs))),
    }
    stack = Stack("weather", arrays, ("dt", "station"), attributes, {"hour": "dt"}, **options)
    return stacked(stack, {}), wanted


def test_a_grid_of_two_attributes(tmp_path) -> None:
    ds, wanted = grid_of(tmp_path)
    assert ds.weather.dims == ("dt", "station", "hour", "y", "kind")
    assert ds.station.values.tolist() == sorted(STATIONS)
    assert ds.dt.values.tolist() == [int(day.timestamp()) * 10**9 for day in DAYS[:4]]
    assert (ds.run.dims, int(ds.run.isnull().sum())) == (("dt", "station"), 2)
    assert ds.hour_time.dims == ("dt", "hour")
    assert ds.weather.chunks[:2] == ((1,) * 4, (1,) * 3)
    np.testing.assert_array_equal(ds.weather.values, wanted)
    np.testing.assert_array_equal(ds.weather.sel(station="Brno", dt="2023-01-03").values, wanted[2, [0]][0])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_parts_of_a_grid(grid, data) -> None:
    ds, wanted = grid
    key = {}
    for axis, (dim, size) in enumerate(zip(ds.weather.dims, wanted.shape, strict=True)):
        slices = st.slices(size)
        lists = st.lists(st.integers(-size, size - 1), max_size=4).map(lambda some: np.array(some, int))
        key[dim] = data.draw(st.integers(-size, size - 1) | slices | lists, label=f"{axis}")
    found = ds.weather.isel(key)
    expected = xr.DataArray(wanted, dims=ds.weather.dims).isel(key)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.values, expected.values)
    points = xr.DataArray(np.arange(3), dims="p")
    np.testing.assert_array_equal(
        ds.weather.isel(dt=points, station=points, hour=points).values,
        xr.DataArray(wanted, dims=ds.weather.dims).isel(dt=points, station=points, hour=points).values,
    )


@pytest.fixture(scope="module")
def grid(tmp_path_factory) -> tuple[xr.Dataset, np.ndarray]:
    ds, wanted = grid_of(tmp_path_factory.mktemp("grid"))
    return ds, wanted


def test_only_the_arrays_of_a_part_are_read(tmp_path) -> None:
    ds, _ = grid_of(tmp_path)
    with hs.trace() as read:
        _ = ds.weather.isel(dt=0, station=[0, 1]).values
    assert read.chunks == 4  # two tiles of each


def test_grids_with_gaps_of_whole_numbers(tmp_path) -> None:
    with pytest.raises(Invalid, match="cannot be missing"):
        grid_of(tmp_path / "a", dtype="i4")
    ds, wanted = grid_of(tmp_path / "b", dtype="i4", absent=-5)
    np.testing.assert_array_equal(ds.weather.values, wanted)
    ds, wanted = grid_of(tmp_path / "c", dtype="i4", gaps=())
    np.testing.assert_array_equal(ds.weather.values, wanted)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"along": ("dt", "nothing")}, "no attribute 'nothing'"),
        ({"along": ("station", "station")}, "stack="),
        ({"along": ()}, "stack="),
        ({"along": ("station", "pair"), "dim": "x"}, "dim= of a stack along several"),
        ({"along": ("station", "short")}, "two arrays have station="),
    ],
)
def test_grids_that_mean_nothing(arrays, options, says) -> None:
    stack = stack_of(arrays)
    attributes = {**stack.attributes, "short": [1] * len(arrays)}
    with pytest.raises(Invalid, match=says):
        stacked(stack_of(arrays, attributes=attributes, **options))
