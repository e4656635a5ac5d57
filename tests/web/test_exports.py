"""Parts of arrays as files over HTTP: what is in them, and what is refused."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.database import (
    AttributeSchema,
    Client,
    DimensionSchema,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.errors import Conflict, MemoryLimit
from hyperslab.web import exports

CELLS = np.arange(4 * 5 * 6, dtype="i2").reshape(4, 5, 6)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("time", data=np.arange(4), dims=["time"], units="days since 2013-01-01")
        root.create_array("lat", data=np.linspace(50, 40, 5), dims=["lat"], units="degrees_north")
        packed = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": np.int16(3)}
        root.create_array("t", data=CELLS, dims=["time", "lat", None], units="K", chunks=(1, 5, 6), attrs=packed)
        root.create_array("a b:c", data=np.array(["x", "yy\u202e"], np.dtypes.StringDType()), dims=["d:1"])
        root.create_array("huge", shape=(2**40, 2**20), dtype="f8", chunks=(1, 2**10), dims=["y", "x"])
        root.create_array("one", data=np.float64(1.5))
        root.create_array("twice", data=np.arange(9).reshape(3, 3), dims=["pair", "pair"])
        root.create_array("z", data=np.array([0.0, 0.5, 1.0]), dims=["z"])
        root.create_array("covariance", data=np.arange(9).reshape(3, 3), dims=["z", "z"])
        root.create_array("mask", data=np.array([True, False, True]), dims=["m"], attrs={"long_name": "land"})
        root.create_array("waves", data=np.array([1 + 2j]), dims=["w"])
        root.create_array(
            "other", data=np.arange(3), dims=["o"], units="days since 2000-01-01", attrs={"calendar": "360_day"}
        )
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address, timeout=60) as made:
        yield made


def export(client: httpx.Client, **query: Any) -> httpx.Response:
    return client.get("/api/export/a.zarr", params=query)


def test_npy(client: httpx.Client) -> None:
    found = export(client, node="/t", format="npy", at=["time:2"], range=["lat:1:3"], decoded=0)
    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''t.npy"
    np.testing.assert_array_equal(np.load(io.BytesIO(found.content)), CELLS[2, 1:3])
    decoded = np.load(io.BytesIO(export(client, node="/t", format="npy", at="time:0").content))
    np.testing.assert_array_equal(decoded, np.where(CELLS[0] == 3, np.nan, CELLS[0] * 0.5 + 10))
    found = export(client, node="/a b:c", format="npy", range="d:1:1:2")
    assert found.status_code == 200, found.text
    words = np.load(io.BytesIO(found.content))
    assert words.tolist() == ["yy\u202e"]
    assert np.load(io.BytesIO(export(client, node="/one", format="npy").content)) == 1.5


def test_csv(client: httpx.Client) -> None:
    found = export(client, node="/t", format="csv", at=["time:1", "lat:0"], range="dim_2:2:4", decoded=0)
    assert found.headers["content-type"] == "text/csv; charset=utf-8"
    assert found.text.splitlines() == ["dim_2,t", "2,32", "3,33"]
    lines = export(client, node="/t", format="csv", at="dim_2:0", range="lat:0:1").text.splitlines()
    assert lines[:3] == ["time,lat,t", "2013-01-01T00:00:00,50.0,10.0", "2013-01-02T00:00:00,50.0,25.0"]


def test_netcdf(client: httpx.Client, tmp_path: Path) -> None:
    found = export(client, node="/t", format="netcdf", range=["time:1:3"])
    path = tmp_path / "part.nc"
    path.write_bytes(found.content)
    with hs.open(path) as root:
        np.testing.assert_array_equal(root["t"][...], CELLS[1:3] * 0.5 + 10)
        assert root["time"][...].tolist() == [1, 2] and root["t"].units == "K"
        assert root["lat"][...].tolist() == [50.0, 47.5, 45.0, 42.5, 40.0]


def test_a_file_that_nobody_waits_for_is_not_made(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=np.arange(4))
        for answers in ([False], [True, False]):
            with pytest.raises(Conflict):
                exports.export_part(root["x"], exports.ExportQuery("csv", {}, {}), partial(answers.pop, 0))
            assert answers == []


def test_times_and_short_floats_in_netcdf(tmp_path: Path) -> None:
    times = np.array(["2000-01-01T12", "NaT", "1969-12-31T23"], "M8[h]")
    kinds = {
        "when": times,
        "fine": times.astype("M8[ns]") + np.timedelta64(1, "ns"),
        "long": np.array([90, -1], "m8[m]"),
        "half": np.array([0.5, 65504, np.nan], "f2"),
    }
    with hs.create(tmp_path / "a.zarr") as root:
        for name, cells in kinds.items():
            root.create_array(name, data=cells, dims=(f"of_{name}",))
    found = {}
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        for name in kinds:
            path = tmp_path / f"{name}.nc"
            path.write_bytes(export(client, node=f"/{name}", format="netcdf").content)
            with hs.open(path) as root:
                found[name] = np.asarray(root[name].decoded()[...])
    np.testing.assert_array_equal(found["when"], times)
    np.testing.assert_array_equal(found["fine"], kinds["fine"])
    assert (found["long"].dtype.kind, found["long"].tolist()) == ("i", [90 * 60, -60])
    assert (found["half"].dtype, found["half"].tolist()[:2]) == (np.dtype("f4"), [0.5, 65504.0])


def test_truth_values_in_netcdf(client: httpx.Client, tmp_path: Path) -> None:
    path = tmp_path / "mask.nc"
    path.write_bytes(export(client, node="/mask", format="netcdf").content)
    with hs.open(path) as root:
        assert root["mask"].dtype == "i1" and root["mask"].attrs["long_name"] == "land"
        assert root["mask"].decoded()[...].tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({"node": "/huge", "format": "npy"}, 503, "bytes of a file"),
        ({"node": "/huge", "format": "npy", "at": "x:0", "range": "y:0:100000"}, 503, "100,000 chunks"),
        ({"node": "/huge", "format": "csv", "at": "y:0", "range": "x:0:1000001"}, 503, "of a CSV file"),
        ({"node": "/t", "format": "xlsx"}, 400, "no file format"),
        ({"node": "/t"}, 400, "no file format"),
        ({"node": "/t", "format": "csv", "at": "time:4"}, 400, "no position 4"),
        ({"node": "/t", "format": "csv", "at": "nothing:0"}, 400, "no dimension"),
        ({"node": "/t", "format": "csv", "range": "time:3:2"}, 400, "no positions"),
        ({"node": "/t", "format": "csv", "range": "time"}, 400, "no dimension"),
        ({"node": "/t", "format": "csv", "at": "time:0", "range": "time:0:1"}, 400, "chosen twice"),
        ({"node": "/", "format": "csv"}, 400, "group"),
        ({"node": "/waves", "format": "netcdf"}, 400, "no cells of type complex128"),
        ({"node": "/other", "format": "npy"}, 400, "times of other calendars"),
    ],
)
def test_what_is_refused(client: httpx.Client, query: dict[str, Any], status: int, words: str) -> None:
    found = export(client, **query)
    assert found.status_code == status and words in found.json()["error"]["message"]
    assert found.json()["error"]["remedy"]


def test_a_file_holds_so_many_bytes(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MOST_BYTES", CELLS.nbytes)
    assert export(client, node="/t", format="npy", decoded=0).status_code == 200
    assert export(client, node="/t", format="npy").status_code == 503  # as floats they are more
    monkeypatch.setattr(exports, "MOST_BYTES", CELLS.nbytes - 1)
    assert export(client, node="/t", format="npy", decoded=0).status_code == 503
    assert export(client, node="/t", format="csv", at="time:0", decoded=0).status_code == 200
    monkeypatch.setattr(exports, "MOST_CSV_LETTERS", 100)
    refused = export(client, node="/t", format="csv", at="time:0", decoded=0)
    assert (refused.status_code, "100 letters" in refused.json()["error"]["message"]) == (503, True)


def test_labels_are_read_where_a_file_has_them(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "a.zarr" / "time" / "c" / "0").write_bytes(b"damaged!")
    assert np.load(io.BytesIO(export(client, node="/t", format="npy", at="lat:0").content)).shape == (4, 6)
    assert export(client, node="/t", format="csv", at="lat:0").json()["error"]["class"] == "CorruptChunk"


def test_dimensions_of_one_name(client: httpx.Client) -> None:
    found = export(client, node="/twice", format="csv", range=["dim_0:1:3", "dim_1:1:2"])
    assert found.text.splitlines() == ["dim_0,dim_1,twice", "1,1,4", "2,1,7"]
    found = export(client, node="/covariance", format="csv", range=["dim_0:1:3", "dim_1:0:1"])
    assert found.text.splitlines() == ["dim_0,dim_1,covariance", "0.5,0.0,3", "1.0,0.0,6"]


def test_labels_by_a_rule_are_made_of_what_is_chosen(tmp_path: Path) -> None:
    """Those of ten to the ten positions would take all memory."""
    x = DimensionSchema("x", 10**10, scale=Scale(0.0, 0.5))
    day = TimeDimensionSchema("day", 10**10, datetime(2020, 1, 1, tzinfo=UTC), timedelta(seconds=1))
    with Client(f"file://{tmp_path}/store", durable=False) as store:
        for dim in (x, day):
            schema = VArraySchema([dim], float, [AttributeSchema("name", str, True)], arrays_shape=[1000])
            store.create_collection(dim.name, schema).create({"name": "a"})[2:4].update([1.0, 2.0])
    with hs.serve(tmp_path / "store", token="") as server, httpx.Client(base_url=server.address) as client:
        for dim, labels in {
            "x": ["1.0", "1.5"],
            "day": ["2020-01-01T00:00:02", "2020-01-01T00:00:03"],
        }.items():
            listed = client.get("/api/rows/store", params={"node": f"/{dim}"}).json()
            query = {"node": f"/{dim}/{listed['rows'][0][0]}", "format": "csv", "range": f"{dim}:2:4"}
            lines = client.get("/api/export/store", params=query).text.splitlines()
            assert lines[1:] == [f"{labels[0]},1.0", f"{labels[1]},2.0"]
            cell = client.get("/api/cell/store", params={"node": query["node"], "index": "3"}).json()
            assert (str(cell["labels"][0]["label"]), cell["value"]) == (labels[1], 2.0)


# -- tables -----------------------------------------------------------------------------------------------------------


def make_lab(place: Path) -> None:
    """A table with ragged columns and references, series with timestamps and with a rate, and a curved grid."""
    with hs.create(place, "hdmf") as root:
        probe = root.create_group("probe", {"neurodata_type": "ElectricalSeries"})
        probe.create_array("data", data=np.arange(6, dtype="i2").reshape(3, 2), attrs={"conversion": 0.5, "unit": "V"})
        probe.create_array("timestamps", data=np.array([0.5, 2.0, 2.25]))
        steady = root.create_group("steady", {"neurodata_type": "TimeSeries"})
        steady.create_array("data", data=np.arange(3.0))
        steady.create_array("starting_time", data=np.float64(10), attrs={"rate": 4.0})
        units = root.create_group("units", {"colnames": ["times", "waves", "seen", "kind"], "neurodata_type": "Units"})
        units.create_array("id", data=np.arange(3))
        units.create_array("times", data=np.arange(60) / 2)
        units.create_array("times_index", data=np.array([2, 2, 60]))
        units.create_array("waves", data=np.arange(8))
        units.create_array("waves_index", data=np.array([1, 3, 6, 8]))
        units.create_array("waves_index_index", data=np.array([2, 3, 4]))
        units.create_array("seen", data=np.array([root["probe"].ref, root["steady/data"].ref, root["probe"].ref]))
        units.create_array("kind", data=np.array(["a", 'b,"c"', "d"], np.dtypes.StringDType()))


ROWS = [
    ["id", "times", "waves", "seen", "kind"],
    ["0", "[0.0, 0.5]", "[[0], [1, 2]]", "/probe", "a"],
    ["1", "[]", "[[3, 4, 5]]", "/steady/data", 'b,"c"'],
    ["2", str([each / 2 for each in range(2, 60)]), "[[6, 7]]", "/probe", "d"],
]


def test_tables_with_ragged_columns_and_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_lab(tmp_path / "a.zarr")
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        found = export(client, node="/units", format="csv")
        assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''units.csv"
        assert list(csv.reader(found.text.splitlines())) == ROWS
        refused = export(client, node="/units", format="npy").json()["error"]
        assert (refused["class"], "CSV" in refused["message"]) == ("Invalid", True)
        monkeypatch.setattr(exports, "MOST_BYTES", 100)
        assert export(client, node="/units", format="csv").json()["error"]["class"] == "MemoryLimit"


def test_columns_that_are_more_than_a_file_holds(tmp_path: Path) -> None:
    """Once they are decoded, or the chunks that they lie in, though few bytes are stored."""
    with hs.create(tmp_path / "a.zarr", durable=False) as root:
        for name, options in {
            "chunks": {"dtype": "i1", "shape": (1 << 20,), "chunks": (63,)},
            "decoded": {"dtype": "i1", "shape": (10 << 20,), "chunks": (1 << 20,), "attrs": {"scale_factor": 0.5}},
        }.items():
            table = root.create_group(name, {"colnames": ["v"]})
            table.create_array("id", dtype="i1", shape=options["shape"], chunks=options["shape"])
            table.create_array("v", **options)
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        for name, message in (("chunks", "16,645 chunks"), ("decoded", "decoded")):
            refused = export(client, node=f"/{name}", format="csv").json()["error"]
            assert (refused["class"], message in refused["message"]) == ("MemoryLimit", True), refused


def test_records_are_not_all_read_where_they_are_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MOST_CSV_LETTERS", 10_000)
    numbers = iter(range(1000))
    records = ({"number": number, "text": "a" * 1000} for number in numbers)
    with pytest.raises(MemoryLimit, match="10,000 letters"):
        exports.export_records(records, "name", lambda: True)
    assert next(numbers) == 10
    arrays = (({"id": str(number)}, {"text": "a" * 1000}) for number in numbers)
    with pytest.raises(MemoryLimit, match="10,000 letters"):
        exports.export_arrays(arrays, "name", lambda: True)
    assert next(numbers) == 21


def test_labels_of_series_are_seconds(tmp_path: Path) -> None:
    make_lab(tmp_path / "a.zarr")
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        found = export(client, node="/probe/data", format="csv", range="dim_0:1:3", at="dim_1:1")
        assert found.text.splitlines() == ["timestamps,data", "2.0,1.5", "2.25,2.5"]
        found = export(client, node="/steady/data", format="csv", range="dim_0:1:3")
        assert found.text.splitlines() == ["timestamps,data", "10.25,1.0", "10.5,2.0"]
        path = tmp_path / "part.nc"
        path.write_bytes(export(client, node="/probe/data", format="netcdf").content)
    with hs.open(path) as root:
        assert root["data"].sel(dim_0=2.0).tolist() == [1.0, 1.5] and root["data"].units == "V"


def test_data_of_a_group_without_a_type_is_no_series(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        group = root.create_group("plain")
        group.create_array("data", data=np.arange(2.0))
        group.create_array("timestamps", data=np.array([5.0, 6.0]))
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        assert export(client, node="/plain/data", format="csv").text.splitlines() == ["dim_0,data", "0,0.0", "1,1.0"]


def test_cells_of_curved_grids_have_degrees(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("lat", data=np.array([[50.0, 51], [60, 61]]), dims=("y", "x"), units="degrees_north")
        root.create_array("lon", data=np.array([[1.0, 3], [2, 4]]), dims=("x", "y"), units="degrees_east")
        cells = np.arange(8).reshape(2, 2, 2)
        root.create_array("t", data=cells, dims=("time", "y", "x"), attrs={"coordinates": "lat lon gone"})
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        found = export(client, node="/t", format="csv", at="time:1")
        lines = ["y,x,lat,lon,t", "0,0,50.0,1.0,4", "0,1,51.0,2.0,5", "1,0,60.0,3.0,6", "1,1,61.0,4.0,7"]
        assert found.text.splitlines() == lines
        found = export(client, node="/t", format="csv", at=["y:0", "x:1"])
        assert found.text.splitlines() == ["time,t", "0,1", "1,5"]
        path = tmp_path / "part.nc"
        path.write_bytes(export(client, node="/t", format="netcdf", at="time:1", range="x:1:2").content)
    with hs.open(path) as root:
        assert (root["lat"].dims, root["lon"].dims) == (("y", "x"), ("x", "y"))
        assert (root["lat"][...].tolist(), root["lon"][...].tolist()) == ([[51.0], [61.0]], [[2.0, 4.0]])
        assert (root["lat"].units, root["t"].attrs["coordinates"]) == ("degrees_north", "lat lon")


def test_rows_of_structures_have_a_column_for_each_field(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("rows", data=np.array([(1, 0.5), (2, 1.5)], [("number", "i4"), ("part", "f8")]), dims=("r",))
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        found = export(client, node="/rows", format="csv")
        assert found.text.splitlines() == ["r,number,part", "0,1,0.5", "1,2,1.5"]


def test_arrays_of_a_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = VArraySchema([DimensionSchema("x", 3)], float, [AttributeSchema("name", str, True)], arrays_shape=[3])
    with Client(f"file://{tmp_path}/store", durable=False) as store:
        made = [store.create_collection("weather", schema).create({"name": "n0"})]
        made += [store.get_collection("weather").create({"name": f"n{number}"}) for number in (1, 2)]
    with hs.serve(tmp_path / "store", token="") as server, httpx.Client(base_url=server.address) as client:

        def lines(**query: Any) -> list[str]:
            found = client.get("/api/export/store", params={"node": "/weather", "format": "csv", **query})
            assert found.status_code == 200, found.text
            return found.text.splitlines()

        wanted = [f"{each.id},[3],n{number}" for number, each in enumerate(made)]
        assert sorted(lines()) == sorted(["id,shape,name", *wanted])
        assert lines(order="-name") == ["id,shape,name", *reversed(wanted)]
        assert lines(filter="name=n1") == ["id,shape,name", wanted[1]]
        monkeypatch.setattr(exports, "MOST_RECORDS", 2)
        refused = client.get("/api/export/store", params={"node": "/weather", "format": "csv"})
        assert (refused.status_code, refused.json()["error"]["class"]) == (503, "MemoryLimit")


def test_frames_are_tables(tmp_path: Path) -> None:
    """What `hs.write_frame` stored has rows, and is one CSV file."""
    pandas = pytest.importorskip("pandas")
    cells = {"kind": pandas.Categorical(["x", None, "y"]), "count": pandas.array([1, None, 3], "Int64")}
    times = pandas.date_range("2020-01-01", periods=3, freq="h", tz="Europe/Paris", name="time")
    hs.write_frame(tmp_path / "a.zarr", pandas.DataFrame(cells, index=times))
    rows = [
        [f"2020-01-01T0{hour}:00:00+01:00", kind, count]
        for hour, (kind, count) in enumerate([("x", 1), (None, None), ("y", 3)])
    ]
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        facts = client.get("/api/node/a.zarr", params={"node": "/"}).json()
        found = client.get("/api/rows/a.zarr", params={"node": "/"}).json()
        assert (facts["rows"], found["total"], found["rows"]) == (3, 3, rows)
        heads = [(head["name"], head["dtype"]) for head in found["columns"]]
        assert heads[1:] == [("kind", "category"), ("count", "Int64")]
        exported = list(csv.reader(export(client, node="/", format="csv").text.splitlines()))
        assert exported == [["time", "kind", "count"], *([str(cell or "") for cell in row] for row in rows)]
    with hs.open_group(tmp_path / "a.zarr", mode="r+") as root:
        root.attrs["pandas_frame"] = "{"
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        assert client.get("/api/node/a.zarr", params={"node": "/"}).json()["rows"] == 0
        assert client.get("/api/rows/a.zarr", params={"node": "/"}).json()["error"]["class"] == "FormatError"
