"""R81 to R87: the complete weather example, run as its users type it, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from hyperslab import database
from hyperslab.database import Client

EXAMPLE = """
import sys
from datetime import datetime, timedelta
from hyperslab.database import (
    TimeDimensionSchema, DimensionSchema, Scale, AttributeSchema, ArraySchema, Client, Collection
)

dimensions = [
    TimeDimensionSchema(name="day_hours", size=24, start_value="$dt", step=timedelta(hours=1)),
    DimensionSchema(name="y", size=181, scale=Scale(start_value=90.0, step=-1.0, name="lat")),
    DimensionSchema(name="x", size=360, scale=Scale(start_value=-180.0, step=1.0, name="lon")),
    DimensionSchema(
        name="weather", size=4, labels=["temperature", "humidity", "pressure", "wind_speed"]
    ),
]
attributes = [
    AttributeSchema(name="dt", dtype=datetime, primary=True),
    AttributeSchema(name="tm", dtype=int, primary=False),
]
array_schema = ArraySchema(dimensions=dimensions, attributes=attributes, dtype=float)

collection: Collection
with Client(uri=sys.argv[1]) as client:
    collection = client.create_collection("weather", array_schema{layout})
print(collection)
"""

DOCUMENT = (
    b'{"name": "weather", "type": "array", "schema": {"dimensions": [{"name": "day_hours", "size": 24, "type": "time", '
    b'"start_value": "$dt", "step": {"days": 0, "seconds": 3600, "microseconds": 0}}, {"name": "y", "size": 181, '
    b'"labels": null, "scale": {"start_value": 90.0, "step": -1.0, "name": "lat"}, "type": "generic"}, {"name": "x", '
    b'"size": 360, "labels": null, "scale": {"start_value": -180.0, "step": 1.0, "name": "lon"}, "type": "generic"}, '
    b'{"name": "weather", "size": 4, "labels": ["temperature", "humidity", "pressure", "wind_speed"], "scale": null, '
    b'"type": "generic"}], "dtype": "numpy.float64", "attributes": [{"name": "dt", "primary": true, "dtype": '
    b'"datetime"}, {"name": "tm", "primary": false, "dtype": "int"}], "fill_value": null}, "options": null, '
    b'"storage_adapter": "HDF5StorageAdapter", "metadata_version": "0.2"}'
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, subprocess.CompletedProcess[str]]]:
    """The example has run, once for each layout: its folder, and what it printed."""

    @cache
    def run(layout: str) -> tuple[Path, subprocess.CompletedProcess[str]]:
        program = EXAMPLE.replace("{layout}", "" if layout == "hyperslab" else ', layout="deker"')
        store = tmp_path_factory.mktemp(layout) / "data/store"
        command = [sys.executable, "-W", "error", "-c", program, f"file://{store}"]
        return store, subprocess.run(command, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture
def store(runs, layout: str) -> Path:
    return runs(layout)[0]


@pytest.fixture
def collection(store):
    with Client(f"file://{store}") as client:
        yield client.get_collection("weather")


@pytest.mark.sampled(20)
def test_r84_the_example_runs_and_prints_the_name(runs, layout):
    weather = runs(layout)[1]
    assert (weather.returncode, weather.stdout, weather.stderr) == (0, "weather\n", "")


def test_r81_r82_what_the_example_declares(collection):
    schema = collection.schema
    assert schema.named_shape == (("day_hours", 24), ("y", 181), ("x", 360), ("weather", 4))
    assert schema.dimensions[1].scale == (90.0, -1.0, "lat") and schema.dimensions[2].scale == (-180.0, 1.0, "lon")
    assert schema.dimensions[3].labels == ("temperature", "humidity", "pressure", "wind_speed")
    assert [(each.name, each.primary) for each in schema.attributes] == [("dt", True), ("tm", False)]
    assert schema.dtype == float and schema.fill_value != schema.fill_value


def test_r83_what_it_imports_is_public():
    used = {"TimeDimensionSchema", "DimensionSchema", "Scale", "AttributeSchema", "ArraySchema", "Client", "Collection"}
    fixed = {"VArraySchema", "Array", "VArray", "Dimension", "TimeDimension", "Subset", "VSubset", "HDF5Options"}
    fixed |= {"HDF5CompressionOpts", "get_utc", "AnyOf", "Like", "Not", "Prefix", "FilteredManager"}
    assert used | fixed == set(database.__all__)


def test_r85_its_folder_is_there(store):
    assert (store / "collections/weather").is_dir()


def test_r86_an_array_is_a_day_of_weather(collection):
    array = collection.create({"dt": database.get_utc("2023-01-01")})
    assert array.shape == (24, 181, 360, 4) and array.nbytes == 24 * 181 * 360 * 4 * 8
    array["2023-01-01T12:00:00", 52.0, 13.0:16.0, "temperature"].update([1.5, 2.5, 3.5])
    found = collection.filter({"dt": database.get_utc("2023-01-01")}).first()
    assert found["2023-01-01T12:00:00", 52.0, 14.0, "temperature"].read() == 2.5
    assert found[12, 38, 193:196, 0].read().tolist() == [1.5, 2.5, 3.5]
    assert found[:, 52.0, 14.0, "humidity":].describe()["weather"] == ["humidity", "pressure", "wind_speed"]


def test_r87_the_document_is_the_peers_to_the_byte(store, layout):
    folder = store / "collections/weather"
    assert len(DOCUMENT) == 825
    if layout == "deker":
        assert (folder / "weather.json").read_bytes() == DOCUMENT
    else:
        assert (folder / "collection.json").read_bytes() == DOCUMENT[:-1] + b', "layout": "hyperslab"}'
        assert not (folder / "weather.json").exists()
