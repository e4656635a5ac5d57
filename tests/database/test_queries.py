"""Queries and their stacks through the client, in both layouts; xarray and NumPy are the oracles."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dask
import iris_sample_data
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from forked import pool
from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    Collection,
    DimensionSchema,
    Prefix,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.errors import Invalid, NodeNotFound, SchemaError
from permissions import unreadable

START = datetime(2023, 1, 1, tzinfo=UTC)
STATIONS = ("Augsburg", "Aalen", "Ulm")
ATTRIBUTES = [
    AttributeSchema("dt", datetime, True),
    AttributeSchema("station", str, True),
    AttributeSchema("tm", int, False),
]
SCHEMA = ArraySchema(
    [
        TimeDimensionSchema("hour", 4, "$dt", timedelta(hours=6)),
        DimensionSchema("lat", 3, scale=Scale(50.0, -0.25)),
        DimensionSchema("kind", 2, labels=["t", "p"]),
    ],
    np.float32,
    ATTRIBUTES,
)
DAYS = 5
CELLS = np.random.default_rng(5).normal(size=(DAYS, len(STATIONS), *SCHEMA.shape)).astype("f4")


def filled(client: Client, layout: str, **options) -> Collection:
    """An array of each station for each day, made in no order."""
    collection = client.create_collection("weather", SCHEMA, layout=layout, **options)
    keys = [(day, place) for day in range(DAYS) for place in range(len(STATIONS))]
    attributes = [
        ({"dt": START + timedelta(days=day), "station": STATIONS[place]}, {"tm": day * 10 + place if day else None})
        for day, place in keys[::-1]
    ]
    for array, key in zip(collection.create_many(attributes), keys[::-1], strict=True):
        array[:].update(CELLS[key])
    return collection


def keys(found) -> list[tuple[int, str]]:
    return [((each.primary_attributes["dt"] - START).days, each.primary_attributes["station"]) for each in found]


def test_any_attribute_finds_arrays(client, layout):
    weather = filled(client, layout)
    everything = [(day, name) for day in range(DAYS) for name in sorted(STATIONS)]
    assert keys(weather.query()) == keys(weather) == everything and len(weather) == len(everything) == 15
    assert keys([weather.first(), weather.last()]) == [everything[0], everything[-1]]
    assert keys(weather.query(dt=("2023-01-02", START + timedelta(days=3)), station="Ulm")) == [
        (day, "Ulm") for day in (1, 2, 3)
    ]
    assert keys(weather.query({"station": Prefix("A")}, dt=START)) == [(0, "Aalen"), (0, "Augsburg")]
    assert keys(weather.query(tm=[10, 42, 99])) == [(1, "Augsburg"), (4, "Ulm")]
    assert keys(weather.query(tm=None)) == everything[:3] and not weather.query(tm=(50, None))
    found = weather.query(tm=(None, None), order="-tm", limit=2)
    assert [each.custom_attributes["tm"] for each in found] == [42, 41]
    np.testing.assert_array_equal(found[0][:].read(), CELLS[4, 2])
    assert keys(weather.query(order="station")[4:7]) == [(4, "Aalen"), (0, "Augsburg"), (1, "Augsburg")]
    assert repr(weather.query()) == "<Found by a query in collection 'weather'>"


def test_what_is_no_query_is_refused_before_anything_is_read(client, layout):
    weather = filled(client, layout)
    with hs.trace() as cost:
        for wanted, says in [
            ({"dt": "soon"}, "'dt'.*soon"),
            ({"tm": "1"}, "'tm'"),
            ({"when": 1}, "no attribute 'when'"),
        ]:
            with pytest.raises(SchemaError, match=says):
                weather.query(wanted)
        with pytest.raises(SchemaError, match="'heigth'"):
            weather.query(order="heigth")
    assert cost.bytes_read == 0


def test_changes_of_another_client_are_found(client, layout, tmp_path):
    weather = filled(client, layout)
    with Client(f"file://{tmp_path}/store") as second:
        other = second.get_collection("weather")
        assert len(other) == len(weather) == 15
        weather.query(station="Ulm", tm=22)[0].update_custom_attributes({"tm": 99})
        assert keys(other.query(tm=(50, None))) == [(2, "Ulm")] and not other.query(tm=22)
        other.query(tm=99)[0].delete()
        assert keys(weather.query(station="Ulm")) == [(day, "Ulm") for day in (0, 1, 3, 4)]
        other.create({"dt": START - timedelta(days=1), "station": "Ulm"}, {"tm": -1})
        assert keys([weather.first()]) == [(-1, "Ulm")] and len(weather) == 15
        weather.clear()
        assert len(other) == 0 and list(other) == [] and other.first() is None and other.last() is None


def test_what_is_removed_between_finding_and_reading_is_no_error(client, layout):
    weather = filled(client, layout)
    found = weather.query(station="Aalen")
    weather.query(station="Aalen", dt="2023-01-03")[0].delete()
    assert keys(found) == [(day, "Aalen") for day in (0, 1, 3, 4)] and len(found) == 4
    gone = found[1]
    gone.delete()
    with pytest.raises(NodeNotFound):
        gone[:].read()


def test_creating_and_asking_at_once(client, layout):
    collection = client.create_collection("weather", SCHEMA, layout=layout)
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        for day in range(6):
            made = collection.create({"dt": START + timedelta(days=day), "station": f"S{number}"}, {"tm": number})
            assert collection.query(tm=number, order="-dt", limit=1)[0].id == made.id
            assert len(collection.query(station=f"S{number}")) == day + 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(collection) == 24


# -- stacks -------------------------------------------------------------------------------------------------------


def test_a_stack_is_one_dataset_with_all_labels(client, layout):
    weather = filled(client, layout)
    dataset = weather.to_xarray(stack="dt", station="Ulm")
    days = np.datetime64("2023-01-01", "ns") + np.arange(DAYS) * np.timedelta64(1, "D")
    steps = (np.arange(4) * np.timedelta64(6, "h")).astype("m8[ns]")
    want = xr.Dataset(
        {"weather": (("dt", "hour", "lat", "kind"), CELLS[:, 2])},
        {
            "dt": days,
            "station": ("dt", np.array(["Ulm"] * DAYS, object)),
            "tm": ("dt", [np.nan, 12, 22, 32, 42]),
            "hour": steps,
            "hour_time": (("dt", "hour"), days[:, None] + steps),
            "lat": [50.0, 49.75, 49.5],
            "kind": np.array(["t", "p"], object),
        },
    )
    xr.testing.assert_equal(dataset, want)
    assert dataset.weather.sel(dt="2023-01-04", hour="12h", lat=49.75, kind="p").item() == CELLS[3, 2, 2, 1, 1]
    two = weather.query(dt=START, order="-station", limit=2).to_xarray("station")
    assert two.station.values.tolist() == ["Ulm", "Augsburg"] and two.sizes["station"] == 2
    np.testing.assert_array_equal(two.weather, CELLS[0, [2, 0]])


def test_a_stack_reads_only_what_is_asked_for(client, layout):
    weather = filled(client, layout)
    dataset = weather.to_xarray(stack="dt", station="Ulm", chunks={})
    assert dataset.weather.chunks[0] == (1,) * DAYS
    with hs.trace() as cost:
        np.testing.assert_array_equal(dataset.weather[3].compute(scheduler="synchronous"), CELLS[3, 2])
    assert cost.chunks == 1


def test_times_that_all_share_are_those_of_the_dimension(client, layout):
    dims = [TimeDimensionSchema("t", 3, "2023-01-01", timedelta(hours=1)), DimensionSchema("v", 2, labels=[0.5, 1.5])]
    series = client.create_collection(
        "series", ArraySchema(dims, int, [AttributeSchema("run", int, True)]), layout=layout
    )
    series.create_many([({"run": run}, {}) for run in range(2)])[1][:].update(np.arange(6).reshape(3, 2))
    dataset = series.to_xarray()
    assert dataset.t.dtype == "M8[ns]" and dataset.t.dims == ("t",)
    assert dataset.series.sel(run=1, t="2023-01-01T02", v=1.5).item() == 5
    alone = series.last().array.to_xarray()
    assert alone.sel(t="2023-01-01T02", v=1.5).item() == 5


def test_arrays_that_grew_are_filled_up_to_the_longest(client):
    dims = [TimeDimensionSchema("t", None, "$dt", timedelta(hours=1)), DimensionSchema("x", 2)]
    series = client.create_collection("series", ArraySchema(dims, float, ATTRIBUTES[:2]))
    for day in range(3):
        made = series.create({"dt": START + timedelta(days=day), "station": "Ulm"})
        made.append(np.full((day, 2), day), "t")
    dataset = series.to_xarray(stack="dt")
    want = [[[np.nan] * 2] * 2, [[1.0] * 2, [np.nan] * 2], [[2.0] * 2] * 2]
    np.testing.assert_array_equal(dataset.series, want)
    assert dataset.t_time[2, 1].values == np.datetime64("2023-01-03T01")


def test_stacks_that_make_no_sense(client, layout):
    weather = filled(client, layout)
    with pytest.raises(SchemaError, match="which attribute"):
        weather.query().to_xarray()
    with pytest.raises(SchemaError, match="stack='dt' says"):
        weather.to_xarray("dt")
    bare = client.create_collection("bare", ArraySchema([DimensionSchema("x", 2)], float), layout=layout)
    bare.create()
    with pytest.raises(SchemaError, match="'bare' have no attribute"):
        bare.to_xarray()
    with pytest.raises(Invalid, match="no attribute 'place'"):
        weather.query().to_xarray("place")
    with pytest.raises(Invalid, match="no array of 'weather' was found"):
        weather.to_xarray(stack="dt", station="Rome")


@pytest.mark.parametrize("layout", ["hyperslab"])
def test_processes_read_a_stack(client, layout):
    weather = filled(client, layout)
    with pool() as processes, dask.config.set(scheduler="processes", pool=processes):
        dataset = weather.to_xarray(stack="dt", station="Ulm", chunks={"dt": 2})
        np.testing.assert_array_equal(dataset.weather.max(("dt", "kind")), CELLS[:, 2].max((0, 3)))


def test_a_block_is_a_tile(client, layout):
    dims = [DimensionSchema("y", 4), DimensionSchema("x", 6)]
    schema = VArraySchema(dims, int, [AttributeSchema("run", int, True)], 0, vgrid=(2, 3))
    runs = client.create_collection("runs", schema, layout=layout)
    cells = np.arange(48).reshape(2, 4, 6)
    for number, array in enumerate(runs.create_many([({"run": number}, {}) for number in range(2)])):
        array[:].update(cells[number])
    dataset = runs.to_xarray(chunks={})
    assert dataset.runs.chunks == ((1, 1), (2, 2), (2, 2, 2))
    np.testing.assert_array_equal(dataset.runs, cells)


def real(name: str) -> xr.Dataset:
    (path,) = Path(iris_sample_data.path).rglob(name)
    return xr.open_dataset(path, decode_times=False)


def labelled(name: str, values: np.ndarray) -> DimensionSchema:
    """With a scale where the labels are regular, else with the labels themselves."""
    start, step = float(values[0]), float(values[1] - values[0])
    if np.array_equal(start + np.arange(len(values)) * step, values):
        return DimensionSchema(name, len(values), scale=Scale(start, step))
    return DimensionSchema(name, len(values), labels=values.astype(float).tolist())


@pytest.mark.parametrize(
    ("name", "variable"), [("ostia_monthly.nc", "surface_temperature"), ("A1B_north_america.nc", "air_temperature")]
)
def test_real_data_as_a_collection_by_time(client, layout, name, variable):
    with real(name) as source:
        times = source["time"][:12].values
        cells = source[variable][:12].values
        lat, lon = source["latitude"].values, source["longitude"].values
    schema = ArraySchema(
        [labelled("latitude", lat), labelled("longitude", lon)], cells.dtype, [AttributeSchema("dt", datetime, True)]
    )
    collection = client.create_collection("temperature", schema, layout=layout)
    moments = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=float(hours)) for hours in times]
    for array, day in zip(collection.create_many([({"dt": moment}, {}) for moment in moments]), cells, strict=True):
        array.array[...] = day
    dataset = collection.to_xarray(stack="dt", dt=(moments[2], moments[9]))
    np.testing.assert_array_equal(dataset.temperature, cells[2:10])
    np.testing.assert_array_equal(dataset.latitude, lat.astype(float))
    np.testing.assert_array_equal(dataset.longitude, lon.astype(float))
    assert (
        dataset.dt.values.tolist() == np.array([each.replace(tzinfo=None) for each in moments[2:10]], "M8[ns]").tolist()
    )
    picked = dataset.temperature.sel(dt=moments[5].replace(tzinfo=None), longitude=float(lon[7]))
    np.testing.assert_array_equal(picked, cells[5][:, 7])


# -- what it costs ------------------------------------------------------------------------------------------------


def test_among_four_times_as_many_a_query_costs_the_same(tmp_path):
    costs = []
    for count in (250, 1000):
        with Client(f"file://{tmp_path}/{count}", durable=False) as client:
            schema = ArraySchema([DimensionSchema("x", 2)], float, ATTRIBUTES)
            collection = client.create_collection("many", schema)
            collection.create_many(
                ({"dt": START + timedelta(hours=hour), "station": "Ulm"}, {"tm": hour}) for hour in range(count)
            )
            assert len(collection) == count
            with hs.trace() as found:
                assert len(collection.query(tm=(101, 200))) == 100
            with hs.trace() as one:
                assert collection.get(dt=START, station="Ulm").custom_attributes["tm"] == 0
            costs.append((found.requests, one.requests, one.bytes_read))
    assert costs[0][:2] == costs[1][:2]
    assert costs[0][0] <= 210 and costs[0][1] <= 3


@pytest.mark.parametrize("options", [{}, {"index": "stored"}, {"index": "memory"}])
def test_an_index_that_is_stored_spares_the_next_client_the_documents(tmp_path, options):
    with Client(f"file://{tmp_path}/store", durable=False) as client:
        collection = client.create_collection("many", SCHEMA, **options)
        collection.create_many(
            ({"dt": START + timedelta(hours=hour), "station": "Ulm"}, {"tm": hour}) for hour in range(400)
        )
    with Client(f"file://{tmp_path}/store", mode="r") as client, hs.trace() as cost:
        assert len(client.get_collection("many").query(tm=7)) == 1
    is_stored = options.get("index") != "memory"
    assert (cost.requests < 20) == is_stored
    path = tmp_path / "store" / "collections" / "many" / "index.sqlite"
    assert path.exists() == is_stored
    if is_stored:
        path.unlink()
        with Client(f"file://{tmp_path}/store") as client:
            assert len(client.get_collection("many").query(tm=(0, 9))) == 10
            assert client.get_collection("many").first()[:].shape == SCHEMA.shape
        assert path.exists()
    assert not hs.check(tmp_path / "store")


@pytest.mark.parametrize("index", [None, "stored", "memory"])
def test_the_index_of_dekers_layout_is_among_the_caches_of_the_user(tmp_path, monkeypatch, index):
    caches = tmp_path / "caches"
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches))

    def find(**asked):
        with Client(f"file://{tmp_path}/store", mode="r") as client, hs.trace() as cost:
            return sorted(keys(client.get_collection("weather").query(**asked))), cost.requests

    with Client(f"file://{tmp_path}/store", durable=False) as client:
        weather = filled(client, "deker", index=index)
        before = sorted(path for path in (tmp_path / "store").rglob("*"))
        assert find(tm=(10, 12))[0] == [(1, name) for name in sorted(STATIONS)]
        assert sorted(path for path in (tmp_path / "store").rglob("*")) == before
        assert [path.name for path in caches.rglob("*.sqlite")] == (["index.sqlite"] if index == "stored" else [])
        weather.query(station="Ulm", tm=12)[0].update_custom_attributes({"tm": 99})
        weather.query(station="Aalen", dt=START)[0].delete()
        assert find(tm=(10, 12))[0] == [(1, "Aalen"), (1, "Augsburg")] and find(tm=99)[0] == [(1, "Ulm")]
        with Client(f"file://{tmp_path}/store", mode="r") as other:
            assert len(other.get_collection("weather")) == 14
        weather.delete()
    assert not list(caches.rglob("index.sqlite"))


def test_other_places_of_an_index_are_refused(client):
    with pytest.raises(SchemaError, match="index='kept'"):
        client.create_collection("many", SCHEMA, index="kept")


def file_of(root: Path, layout: str, id: str) -> Path:
    """The file with the record of an array."""
    name = {"hyperslab": "zarr.json", "deker": f"{id}.hdf5"}[layout]
    (path,) = [found for found in root.rglob(name) if found.parent.name == id[9 * (layout == "deker") :]]
    return path


def test_a_damaged_array_is_left_out_and_the_log_says_which(client, layout, tmp_path, caplog):
    weather = filled(client, layout)
    broken, *sound = [array.id for array in weather]
    path = file_of(tmp_path, layout, broken)
    path.write_bytes(b"damaged" * 9)
    os.utime(path, (0, 0))
    with Client(client.root_path.parent, mode="r") as other:
        caplog.clear()
        assert {array.id for array in other.get_collection("weather").query()} == set(sound)
    assert "passed over" in caplog.text and broken in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are of Linux")
def test_what_could_not_be_read_once_is_found_at_the_next_look(client, tmp_path):
    ids = [array.id for array in filled(client, "deker")]
    with Client(client.root_path.parent, mode="r") as other:
        collection = other.get_collection("weather")
        with unreadable(file_of(tmp_path, "deker", ids[0])):
            assert [array.id for array in collection] == ids[1:]
        assert [array.id for array in collection] == ids
