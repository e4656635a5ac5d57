"""Views over HTTP: reductions are compared with NumPy, and what is read is bounded whatever the size of an array."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Conflict
from hyperslab.stores.location import Location
from hyperslab.web import views
from hyperslab.web.dataset_cache import DatasetCache
from hyperslab.web.views import ViewQuery, read_view

RANDOM = np.random.default_rng(7)
CELLS = RANDOM.normal(280, 20, (5, 90, 130)).astype("f4")
CELLS[0, 10:40, 20:70] = np.nan
PACKED = RANDOM.integers(-200, 200, (90, 130)).astype("i2")
NAV_LAT, NAV_LON = RANDOM.uniform(-90, 90, (20, 30)), RANDOM.uniform(-180, 180, (20, 30))
CURVED = RANDOM.normal(0, 1, (5, 20, 30))
COUNTS, FACTORS = RANDOM.integers(-3000, 3000, (10, 4), "i2"), np.array([1, 2, 0.5, 3])
WAVES = (RANDOM.normal(0, 1, (30, 40)) + 1j * RANDOM.normal(0, 1, (30, 40))).astype("c8")
WAVES[3, 4] = 0
KINDS = RANDOM.choice(np.array([1, 2, 4, -1], "i1"), (60, 90))
VOLTS = COUNTS * 1e-6 * FACTORS + 0.5
LATITUDE, LONGITUDE = {"standard_name": "latitude"}, {"standard_name": "longitude"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of arrays to look at."""
    place = tmp_path_factory.mktemp("views")
    with hs.create(place / "a.zarr") as root:
        days = {"units": "days since 2000-02-27", "attrs": {"calendar": "360_day"}}
        root.create_array("time", data=np.arange(5.0), dims=("time",), **days)
        root.create_array("lat", data=np.linspace(-89, 89, 90), dims=("lat",), units="degrees_north")
        root.create_array("air", data=CELLS, dims=("time", "lat", "lon"), chunks=(2, 32, 40), units="K")
        attrs = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": np.int16(-7)}
        root.create_array("packed", data=PACKED, dims=("lat", "lon"), chunks=(90, 16), attrs=attrs, units="K")
        root.create_array("clock", data=1.6e9 + np.arange(1000) / 30, chunks=(100,))
        root.create_array("moments", data=np.arange(20).astype("M8[h]").reshape(4, 5))
        root.create_array("rows", data=np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")]))
        root.create_array("words", data=np.array(["a", "b"]))
        root.create_array("twice", data=np.arange(12).reshape(3, 4), dims=("x", "x"))
        root.create_array("one", data=np.float64(3))
        root.create_array("none", shape=(0, 4), dtype="f4")
        root.create_array(
            "waves", data=WAVES, dims=("row", "column"), chunks=(8, 7), attrs={"_FillValue": 0}, units="V"
        )
        root.create_array("empty", shape=(100_000, 100_000), dtype="f4", chunks=(1000, 1000), fill_value=7)
        root.create_array("line", shape=(10**10,), dtype="u1", chunks=(10**6,), fill_value=3)
        root.create_array(
            "nav_lat", data=NAV_LAT, dims=("y", "x"), attrs={"standard_name": "latitude"}, units="degrees"
        )
        root.create_array("nav_lon", data=NAV_LON.T, dims=("x", "y"), units="degrees_east", chunks=(7, 7))
        root.create_array("curved", data=CURVED, dims=("time", "y", "x"), attrs={"coordinates": "nav_lon nav_lat gone"})
        root.create_array("clat", data=np.radians(NAV_LAT[:, 0]), dims=("cell",), units="radian", attrs=LATITUDE)
        root.create_array("clon", data=np.radians(NAV_LON[:, 0]), dims=("cell",), units="radian", attrs=LONGITUDE)
        root.create_array("fill_lat", data=np.r_[10.0, np.nan, 9.96921e36], dims=("spot",), units="degrees_north")
        root.create_array("fill_lon", data=np.r_[9.96921e36, 5.0, 5.0], dims=("spot",), units="degrees_east")
        root.create_array("spots", data=np.arange(3.0), dims=("spot",), attrs={"coordinates": "fill_lat fill_lon"})
        root.create_array("points", data=np.arange(20.0), dims=("cell",), attrs={"coordinates": "clat clon"})
        flags = {
            "flag_values": np.array([1, 2, 4], "i1"),
            "flag_meanings": "sea land sea_ice",
            "_FillValue": np.int8(-1),
        }
        root.create_array("kinds", data=KINDS, dims=("row", "column"), attrs=flags)
        masks = {"flag_masks": np.array([1, 2, 12, 12], "u1"), "flag_values": np.array([1, 2, 4, 8], "u1")}
        masks["flag_meanings"] = "cloudy night few many"
        root.create_array("bits", data=np.arange(16, dtype="u1"), dims=("bit",), attrs=masks)
        root.create_array("odd", data=np.arange(3), attrs={"flag_values": [1, 2], "flag_meanings": "one"})
    with hs.create(place / "c.zarr") as root:
        for name in ("damaged", "whole"):
            root.create_array(f"beside/{name}", data=np.arange(6).reshape(2, 3))
    (place / "c.zarr" / "beside" / "damaged" / "zarr.json").write_text("{")
    with hs.create(place / "b.nwb.zarr", "hdmf") as root:
        for name in ("rate", "stamps"):
            series = root.create_group(f"acquisition/{name}", {"neurodata_type": "TimeSeries"})
            series.create_array("data", data=np.arange(40.0).reshape(10, 4))
        root["acquisition/rate"].create_array("starting_time", data=np.float64(2.5), attrs={"rate": 4.0})
        root["acquisition/stamps"].create_array("timestamps", data=np.arange(10.0) ** 2)
        probe = root.create_group("acquisition/probe", {"neurodata_type": "ElectricalSeries"})
        volts = {"conversion": 1e-6, "offset": 0.5, "unit": "volts"}
        probe.create_array("data", data=COUNTS, chunks=(3, 4), attrs=volts)
        probe.create_array("channel_conversion", data=FACTORS)
    return place


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    served = hs.serve(folder / "a.zarr", folder / "b.nwb.zarr", folder / "c.zarr", token="")
    with served as server, httpx.Client(base_url=server.address, timeout=30) as made:
        yield made


def view(client: httpx.Client, node: str, place: str = "a.zarr", **query: Any) -> tuple[dict[str, Any], np.ndarray]:
    """The head and the cells of a view."""
    found = client.get(f"/api/view/{place}", params={"node": node, **query})
    assert found.status_code == 200, found.text
    length = int.from_bytes(found.content[:4], "little")
    assert length % 4 == 0
    head = json.loads(found.content[4 : 4 + length])
    cells = np.frombuffer(found.content[4 + length :], "<f4").reshape(head["shape"])
    return head, cells.astype("f8") * head["factor"] + head["offset"]


def blocks(cells: np.ndarray, height: int, width: int) -> np.ndarray:
    """The cells in blocks: rows of blocks, columns of blocks, cells of a block; NaN beyond the edge."""
    by, bx = -(-cells.shape[0] // height), -(-cells.shape[1] // width)
    rows, columns = -(-cells.shape[0] // by), -(-cells.shape[1] // bx)
    padded = np.full((rows * by, columns * bx), np.nan)
    padded[: cells.shape[0], : cells.shape[1]] = cells
    return padded.reshape(rows, by, columns, bx).swapaxes(1, 2).reshape(rows, columns, by * bx)


def mean_of(cells: np.ndarray) -> np.ndarray:
    """The mean without NaN, NaN of nothing."""
    count = (~np.isnan(cells)).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.nansum(cells, axis=-1) / count


# -- reductions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boxes", [1 << 19, 500])
@pytest.mark.parametrize(
    ("width", "height", "columns", "rows"),
    [(10, 10, (0, 130), (0, 90)), (33, 7, (3, 121), (11, 90)), (1, 1, (0, 130), (0, 90)), (130, 4, (0, 130), (5, 6))],
)
def test_images_are_means_of_blocks(
    client: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
    boxes: int,
    width: int,
    height: int,
    columns: tuple[int, int],
    rows: tuple[int, int],
) -> None:
    monkeypatch.setattr(views, "_BOX_CELLS", boxes)
    query = {"x_range": "{}:{}".format(*columns), "y_range": "{}:{}".format(*rows), "width": width, "height": height}
    part = CELLS[0, rows[0] : rows[1], columns[0] : columns[1]].astype("f8")
    head, cells = view(client, "/air", x="lon", y="lat", **query)
    wanted = mean_of(blocks(part, height, width))
    np.testing.assert_allclose(cells[0], wanted, rtol=1e-6)
    assert np.isnan(wanted).any() == (width in (10, 33))
    by, bx = -(-part.shape[0] // height), -(-part.shape[1] // width)
    assert (head["reduction"], head["is_exact"]) == (
        f"mean of {by} x {bx} cells" if by * bx > 1 else "every cell",
        True,
    )
    assert (head["x"]["start"], head["x"]["stop"], head["x"]["block"]) == (*columns, bx)
    assert (head["y"]["start"], head["y"]["stop"], head["y"]["block"]) == (*rows, by)
    assert head["minimum"] == pytest.approx(np.nanmin(wanted))
    assert (head["cell_minimum"], head["cell_maximum"]) == (np.nanmin(part), np.nanmax(part))
    turned, transposed = view(
        client, "/air", x="lat", y="lon", x_range=query["y_range"], y_range=query["x_range"], width=height, height=width
    )
    np.testing.assert_allclose(transposed[0], wanted.T, rtol=1e-6)
    assert turned["units"] == "K"


def test_thumbnails_show_the_last_dimensions(client: httpx.Client) -> None:
    head, cells = view(client, "/air", thumbnail=1, width=130, height=90)
    assert (head["x"]["dim"], head["y"]["dim"]) == ("lon", "lat")
    np.testing.assert_allclose(cells[0], CELLS[0], rtol=1e-6)
    head, cells = view(client, "/clock", thumbnail=1, width=1000, height=40)
    assert (head["kind"], head["shape"]) == ("line", [1, 1000])
    head, _ = view(client, "/air", thumbnail=1, width=72, height=40, at="time:4")
    assert head["at"][0]["index"] == 4 and head["shape"] == [1, 30, 65]
    head, _ = view(client, "/empty", thumbnail=1, width=72, height=40)
    assert head["cost"]["chunk_nbytes"] <= views.MOST_BYTES // 16
    # of a group the array of the most dimensions, also beside one that is damaged
    assert view(client, "/acquisition/rate", "b.nwb.zarr", thumbnail=1)[0]["path"] == "/acquisition/rate/data"
    assert view(client, "/beside", "c.zarr", thumbnail=1)[0]["path"] == "/beside/whole"
    for node, query in (("/words", {}), ("/one", {}), ("/", {"thumbnail": 2}), ("/acquisition", {})):
        place = "b.nwb.zarr" if node == "/acquisition" else "a.zarr"
        answer = client.get(f"/api/view/{place}", params={"node": node, "thumbnail": 1, **query})
        assert (answer.status_code, answer.json()["error"]["class"]) == (400, "Invalid"), node


def test_every_cell_where_there_are_pixels_enough(client: httpx.Client) -> None:
    head, cells = view(client, "/air", x="lon", y="lat", at="time:3")
    np.testing.assert_array_equal(cells[0].astype("f4"), CELLS[3])
    assert (head["reduction"], head["layers"], head["gaps"]) == ("every cell", ["cells"], [])
    assert head["at"] == [
        {"dim": "time", "size": 5, "index": 3, "label": "2000-02-30 00:00:00", "units": "days since 2000-02-27"}
    ]
    assert head["y"]["labels"] == pytest.approx(np.linspace(-89, 89, 90))
    assert (head["y"]["units"], head["x"]["labels"]) == ("degrees_north", None)


def test_lines_are_envelopes(client: httpx.Client) -> None:
    head, cells = view(client, "/air", x="lon", at=["lat:20", "time:0"], width=13)
    parts = blocks(CELLS[0, 20:21].astype("f8"), 1, 13)[0]
    assert (head["layers"], head["reduction"]) == (
        ["minimum", "mean", "maximum"],
        "minimum, mean and maximum of 10 cells",
    )
    for layer, wanted in enumerate((np.fmin.reduce(parts, 1), mean_of(parts), np.fmax.reduce(parts, 1))):
        np.testing.assert_allclose(cells[layer], wanted, rtol=1e-6)
    assert np.isnan(cells).any(axis=0).sum() == 5
    head, cells = view(client, "/air", x="time", at=["lon:100", "lat:1"])
    np.testing.assert_array_equal(cells[0].astype("f4"), CELLS[:, 1, 100])
    dates = [f"2000-0{2 + day // 30}-{day % 30 + 1:02} 00:00:00" for day in range(26, 31)]
    assert (head["x"]["labels"], head["x"]["values"], head["x"]["calendar"]) == (dates, [0, 1, 2, 3, 4], "360_day")


def test_cells_are_decoded(client: httpx.Client) -> None:
    wanted = np.where(PACKED == -7, np.nan, PACKED * 0.5 + 10)
    _, cells = view(client, "/packed", x="lon", y="lat", width=20, height=20)
    np.testing.assert_allclose(cells[0], mean_of(blocks(wanted, 20, 20)), rtol=1e-6)
    _, cells = view(client, "/packed", x="lon", y="lat", decoded=0)
    np.testing.assert_array_equal(cells[0], PACKED)
    for node, decoded, units in (("/packed", 1, "K"), ("/packed", 0, None), ("/air", 1, "K"), ("/air", 0, "K")):
        assert view(client, node, x="lon", y="lat", decoded=decoded)[0]["units"] == units
    cell = client.get("/api/cell/a.zarr", params={"node": "/packed", "index": "0,1"}).json()
    assert (cell["value"], cell["units"]) == (PACKED[0, 1] * 0.5 + 10, "K")
    assert (cell["stored"], cell["stored_units"]) == (PACKED[0, 1], None)
    head, cells = view(client, "/time")
    assert (cells.tolist(), head["units"]) == ([[0, 1, 2, 3, 4]], "days since 2000-02-27")
    head, cells = view(client, "/moments", x="dim_1", y="dim_0")
    assert (cells[0].tolist(), head["units"]) == (
        (np.arange(20) * 3600).reshape(4, 5).tolist(),
        "seconds since 1970-01-01",
    )
    _, cells = view(client, "/rows", field="b")
    assert cells.tolist() == [[2.5, 4.5]]


def test_numbers_that_are_close_together_for_their_size_are_told_apart(client: httpx.Client) -> None:
    head, cells = view(client, "/clock", x_range="500:600")
    np.testing.assert_allclose(cells[0] - 1.6e9, np.arange(500, 600) / 30, atol=1e-6)
    assert head["offset"] == 1.6e9 + 500 / 30


def test_numbers_beyond_32_bits_are_told(client: httpx.Client, tmp_path: Path) -> None:
    kinds = {"small": [1e-47, np.nan, 3e-47], "least": [5e-324, 0.0], "large": [1e300, -2e300, np.inf], "none": [0.0]}
    with hs.create(tmp_path / "odd.zarr") as root:
        for name, cells in kinds.items():
            root.create_array(name, data=np.array([*cells, 0.0]))
        root.create_array("near", data=1e300 * (1 + np.arange(3) * 2.0**-40))
    with hs.serve(tmp_path / "odd.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        for name, cells in kinds.items():
            head, found = view(client, f"/{name}", "odd.zarr")
            np.testing.assert_allclose(found[0], [*cells, 0.0], rtol=1e-6)
            assert (head["factor"] == 1) == (name == "none")
        _, found = view(client, "/near", "odd.zarr")
        np.testing.assert_allclose(np.diff(found[0]), 1e300 * 2.0**-40, rtol=1e-3)


def test_dimensions_of_one_name_are_told_apart(client: httpx.Client) -> None:
    _, cells = view(client, "/twice", x="dim_0", y="dim_1")
    np.testing.assert_array_equal(cells[0], np.arange(12).reshape(3, 4).T)


def test_images_have_envelopes_on_demand(client: httpx.Client) -> None:
    query = {"x": "lon", "y": "lat", "width": 13, "height": 90, "at": "time:0"}
    head, cells = view(client, "/air", envelope=1, **query)
    parts = blocks(CELLS[0].astype("f8"), 90, 13)
    assert (head["layers"], head["kind"]) == (["minimum", "mean", "maximum"], "image")
    assert head["reduction"] == "minimum, mean and maximum of 1 x 10 cells"
    for layer, wanted in enumerate((np.fmin.reduce(parts, -1), mean_of(parts), np.fmax.reduce(parts, -1))):
        np.testing.assert_allclose(cells[layer], wanted, rtol=1e-6)
    head, cells = view(client, "/empty", x="dim_1", y="dim_0", width=10, height=4, envelope=1)
    assert (cells.shape, cells.min(), cells.max()) == ((3, *head["shape"][1:]), 7, 7)
    refused = client.get(
        "/api/view/a.zarr", params={**query, "node": "/air", "envelope": 1, "width": 4096, "height": 100}
    )
    assert (refused.status_code, refused.json()["error"]["class"]) == (400, "Invalid")


def test_quick_views_read_less(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_BYTES", 16 * 2 * 32 * 40 * 4)
    query = {"x": "lon", "y": "lat", "width": 10, "height": 10}
    head, _ = view(client, "/air", **query)
    quick, cells = view(client, "/air", quick=1, **query)
    assert (head["is_exact"], quick["is_exact"], quick["cost"]["chunks"]) == (True, False, 1)
    np.testing.assert_array_equal(cells[0].astype("f4"), CELLS[0, :: quick["y"]["step"], :: quick["x"]["step"]])


# -- places, roles -----------------------------------------------------------------------------------------------------


def test_coordinates_have_roles(client: httpx.Client) -> None:
    facts = client.get("/api/node/a.zarr", params={"node": "/air"}).json()
    assert [each["role"] for each in facts["coordinates"]] == ["time", "latitude", None]
    assert facts["map"] is None
    facts = client.get("/api/node/a.zarr", params={"node": "/curved"}).json()
    places = {"longitude": "/nav_lon", "latitude": "/nav_lat"}
    assert facts["map"] == {"kind": "grid", "dims": ["y", "x"], "is_way": False, **places}
    facts = client.get("/api/node/a.zarr", params={"node": "/points"}).json()
    places = {"longitude": "/clon", "latitude": "/clat"}
    assert facts["map"] == {"kind": "points", "dims": ["cell"], "is_way": False, **places}


def test_cells_of_curved_grids_have_places(client: httpx.Client) -> None:
    query = {"at": "time:2", "x_range": "3:30", "y_range": "2:20"}
    for x, y in (("x", "y"), ("y", "x")):
        ranges = {"x_range": query["x_range"], "y_range": query["y_range"]}
        if x == "y":
            ranges = {"x_range": query["y_range"], "y_range": query["x_range"]}
        head, cells = view(client, "/curved", x=x, y=y, at="time:2", **ranges, width=7, height=6)
        places, found = view(client, "/curved", x=x, y=y, at="time:2", **ranges, width=7, height=6, positions=1)
        assert places["layers"] == ["longitude", "latitude"] and found.shape[1:] == cells.shape[1:]
        for axis in ("x", "y"):
            assert {fact: places[axis][fact] for fact in ("start", "stop", "step", "block", "count")} == {
                fact: head[axis][fact] for fact in ("start", "stop", "step", "block", "count")
            }
        at = {
            head[axis]["dim"]: np.minimum(
                head[axis]["start"] + np.arange(head[axis]["count"]) * head[axis]["block"] + head[axis]["block"] // 2,
                head[axis]["stop"] - 1,
            )
            for axis in ("x", "y")
        }
        for layer, wanted in enumerate((NAV_LON, NAV_LAT)):
            part = wanted[np.ix_(at["y"], at["x"])]
            np.testing.assert_allclose(found[layer], part if x == "x" else part.T, rtol=1e-6)


def test_cells_of_no_grid_have_places(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = view(client, "/points", x="cell", positions=1)
    np.testing.assert_allclose(found, [NAV_LON[:, 0], NAV_LAT[:, 0]], rtol=1e-5)
    assert np.isnan(view(client, "/spots", positions=1)[1]).all()
    for node, query in [("/air", {"x": "lon"}), ("/curved", {"x": "time"}), ("/points", {"positions": "yes"})]:
        refused = client.get("/api/view/a.zarr", params={"node": node, "positions": 1, **query})
        assert refused.status_code == 400, refused.text
    monkeypatch.setattr(views, "MOST_BYTES", 10)
    monkeypatch.setattr(views, "MOST_CHUNKS", 4)
    refused = client.get("/api/view/a.zarr", params={"node": "/curved", "x": "x", "y": "y", "positions": 1})
    assert (refused.status_code, "too long" in refused.json()["error"]["message"]) == (400, True)


def test_time_series_have_seconds(client: httpx.Client) -> None:
    for name, wanted in [("rate", 2.5 + np.arange(10) / 4), ("stamps", np.arange(10.0) ** 2)]:
        head, _ = view(client, f"/acquisition/{name}/data", "b.nwb.zarr", x="dim_0", y="dim_1")
        assert (head["x"]["role"], head["x"]["labels"]) == ("series", wanted.tolist())
        assert head["y"]["labels"] is None


def test_series_are_in_their_unit(client: httpx.Client) -> None:
    probe = {"place": "b.nwb.zarr", "node": "/acquisition/probe/data"}
    head, cells = view(client, **probe, x="dim_0", y="dim_1")
    assert head["units"] == "volts"
    np.testing.assert_allclose(cells[0], VOLTS.T, rtol=1e-6)
    head, cells = view(client, **probe, x="dim_0", at="dim_1:3", width=2)
    np.testing.assert_allclose(cells[1], VOLTS[:, 3].reshape(2, 5).mean(axis=1), rtol=1e-6)
    head, cells = view(client, **probe, x="dim_1", at="dim_0:2", decoded=0)
    assert (head["units"], cells.tolist()) == (None, [COUNTS[2].tolist()])
    query = {"node": probe["node"], "index": "2,3"}
    cell = client.get("/api/cell/b.nwb.zarr", params=query).json()
    assert (cell["value"], cell["units"]) == (pytest.approx(VOLTS[2, 3]), "volts")
    assert (cell["stored"], cell["stored_units"]) == (COUNTS[2, 3], None)
    assert client.get("/api/node/b.nwb.zarr", params=query).json()["units"] == "volts"
    rows = client.get("/api/rows/b.nwb.zarr", params=query).json()
    assert rows["columns"][0]["units"] == "volts"
    np.testing.assert_allclose([row[0] for row in rows["rows"]], VOLTS)
    found = client.get("/api/histogram/b.nwb.zarr", params={"node": probe["node"], "x": "dim_0", "y": "dim_1"}).json()
    assert (found["units"], found["edges"][0]) == ("volts", pytest.approx(VOLTS.min()))
    query = {"node": probe["node"], "format": "csv", "range": "dim_0:0:1"}
    lines = client.get("/api/export/b.nwb.zarr", params=query).text.splitlines()
    assert [float(line.split(",")[-1]) for line in lines[1:]] == pytest.approx(VOLTS[0].tolist())


# -- histograms --------------------------------------------------------------------------------------------------------


def histogram(client: httpx.Client, node: str, **query: Any) -> dict[str, Any]:
    found = client.get("/api/histogram/a.zarr", params={"node": node, **query})
    assert found.status_code == 200, found.text
    facts: dict[str, Any] = found.json()
    return facts


@pytest.mark.parametrize("boxes", [1 << 19, 500])
def test_histograms_are_those_of_numpy(client: httpx.Client, monkeypatch: pytest.MonkeyPatch, boxes: int) -> None:
    monkeypatch.setattr(views, "_BOX_CELLS", boxes)
    found = histogram(client, "/air", x="lon", y="lat", x_range="5:99", bins=30)
    part = CELLS[0, :, 5:99].astype("f8")
    counts, edges = np.histogram(part[~np.isnan(part)], 30)
    assert found["counts"] == counts.tolist()
    np.testing.assert_allclose(found["edges"], edges)
    assert (found["missing"], found["reduction"], found["is_exact"]) == (np.isnan(part).sum(), "every cell", True)
    found = histogram(client, "/packed", x="lon", y="lat", decoded=0, bins=512)
    assert found["counts"] == [int(np.count_nonzero(value == PACKED)) for value in range(-200, 200)]
    assert found["edges"][:2] == [-200.5, -199.5]


def test_histograms_cost_no_more(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    found = histogram(client, "/empty", x="dim_1", y="dim_0")
    assert (found["edges"], found["missing"], found["cost"]["chunk_nbytes"]) == (
        np.linspace(6.5, 7.5, 65).tolist(),
        0,
        0,
    )
    assert sum(found["counts"]) == found["counts"][32] > 0
    monkeypatch.setattr(views, "MOST_BYTES", 2 * 32 * 40 * 4)
    found = histogram(client, "/air", x="lon", y="lat", at="time:1")
    assert found["cost"]["chunk_nbytes"] <= 2 * views.MOST_BYTES and not found["is_exact"]
    part = CELLS[1, :: found["y"]["step"], :: found["x"]["step"]]
    assert sum(found["counts"]) == part.size
    for bins in ("0", "5000", "x"):
        assert client.get("/api/histogram/a.zarr", params={"node": "/air", "bins": bins}).status_code == 400


def test_histograms_of_odd_cells(client: httpx.Client, tmp_path: Path) -> None:
    with hs.create(tmp_path / "odd.zarr") as root:
        root.create_array("wide", data=np.array([-1.7e308, 1.7e308]))
        root.create_array("infinite", data=np.array([np.inf, -np.inf, 1.0, np.nan]))
        root.create_array("nothing", data=np.full(3, np.nan))
        root.create_array("same", data=np.full(4, 1e300))
        root.create_array("large", data=np.array([2**62, 2**62 + 1]))
        root.create_array("lowest", data=np.full(2, -(2**63)))
        root.create_array("whole", data=np.array([2**52 - 3, 2**52 - 1]))
    with hs.serve(tmp_path / "odd.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        answers = {
            name: client.get("/api/histogram/odd.zarr", params={"node": name, "bins": 4})
            for name in ("wide", "infinite", "nothing", "same", "large", "lowest", "whole")
        }
    assert {name: each.status_code for name, each in answers.items()} == {
        "wide": 400,
        "infinite": 200,
        "nothing": 200,
        "same": 400,
        "large": 400,
        "lowest": 400,
        "whole": 200,
    }
    assert {each.json()["error"]["class"] for each in answers.values() if each.status_code == 400} == {"Invalid"}
    assert answers["whole"].json()["counts"] == [1, 0, 1]
    assert (sum(answers["infinite"].json()["counts"]), answers["infinite"].json()["missing"]) == (1, 3)
    assert (sum(answers["nothing"].json()["counts"]), answers["nothing"].json()["missing"]) == (0, 3)


# -- the budget --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most_bytes", "words"),
    [
        (12 * 2 * 32 * 40 * 4, "mean of 9 x 13 cells"),
        (8 * 2 * 32 * 40 * 4, "mean of 1 x 13 cells, every 72nd of lat"),
        (2 * 32 * 40 * 4, "every 90th of lat, every 130th of lon"),
    ],
)
def test_what_costs_too_much_is_read_in_steps(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, most_bytes: int, words: str
) -> None:
    monkeypatch.setattr(views, "MOST_BYTES", most_bytes)
    head, cells = view(client, "/air", x="lon", y="lat", at="time:1", width=10, height=10)
    assert head["cost"]["chunk_nbytes"] <= most_bytes
    rows, columns = head["y"], head["x"]
    part = CELLS[1, :: rows["step"], :: columns["step"]].astype("f8")
    np.testing.assert_allclose(cells[0], mean_of(blocks(part, rows["count"], columns["count"])), rtol=1e-6)
    assert head["is_exact"] == (rows["step"] == columns["step"] == 1)
    assert head["reduction"] == words


@pytest.mark.parametrize(
    ("node", "query"),
    [
        ("/empty", {"x": "dim_1", "y": "dim_0"}),
        ("/line", {"x": "dim_0"}),
        ("/empty", {"x": "dim_0", "at": "dim_1:99999"}),
    ],
)
def test_an_array_of_any_size_costs_no_more(client: httpx.Client, node: str, query: dict[str, str]) -> None:
    view(client, node, **query)
    tracemalloc.start()
    try:
        head, cells = view(client, node, **query)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    assert (head["cost"]["chunks"] <= views.MOST_CHUNKS, head["cost"]["chunk_nbytes"]) == (True, 0)
    assert (cells == {"/empty": 7, "/line": 3}[node]).all() and cells.size >= 64


@pytest.mark.parametrize(
    ("shape", "chunks", "written"),
    [
        ((100_000, 100_000), (1000, 1000), []),
        ((100_000, 100_000), (1000, 1000), [(0, 0), (50_000, 37_000), (99_000, 99_000)]),
        ((1000, 10_000, 1000), (10, 250, 1000), [(0, 0, 0), (500, 5000, 0)]),
        ((10**10,), (10**6,), [(0,), (5 * 10**9,)]),
    ],
)
def test_the_first_picture_of_ten_to_the_ten_cells(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], written: list[tuple[int, ...]]
) -> None:
    """What the page asks first for a plot of 840 by 450 pixels: an eighth of them, quickly."""
    with hs.create(tmp_path / "b.zarr", durable=False) as root:
        cells = root.create_array("x", shape=shape, dtype="f4", chunks=chunks, fill_value=7)
        for start in written:
            cells[tuple(slice(first, first + size) for first, size in zip(start, chunks, strict=True))] = 3
    names = [f"dim_{axis}" for axis in range(len(shape))]
    query: dict[str, Any] = {"x": names[-1], "y": names[-2]} if len(shape) > 1 else {"x": names[-1]}
    query |= {"width": 105, "height": 57, "quick": 1}
    with hs.serve(tmp_path / "b.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        view(client, "/x", "b.zarr", **query)  # what is imported and opened once is not counted
        before = resident()
        tracemalloc.start()
        try:
            head, found = view(client, "/x", "b.zarr", **query)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 64 << 20 and resident() - before < 64 << 20
    cost = head["cost"]
    assert cost["chunk_nbytes"] <= views.MOST_BYTES // 16
    assert cost["chunks"] <= views.MOST_CHUNKS // 16
    assert (cost["chunk_nbytes"] == 0) == (not written)
    assert found.size and found.max() == 7 and (found.min() < 7) == bool(written) and found.min() >= 3


def resident() -> int:
    """Bytes of this process in memory, as Linux tells; 0 elsewhere."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


def test_a_full_array_costs_no_more(client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_BYTES", 16 << 20)
    with hs.create(tmp_path / "b.zarr", durable=False) as root:
        full = root.create_array("x", shape=(6000, 6000), dtype="f4", chunks=(500, 500))
        full[...] = np.arange(6000, dtype="f4")
    with hs.serve(tmp_path / "b.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        tracemalloc.start()
        try:
            head, cells = view(client, "/x", "b.zarr", x="dim_1", y="dim_0", width=1024, height=1024)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (peak < 64 << 20, head["cost"]["chunk_nbytes"] <= 16 << 20, head["is_exact"]) == (True, True, False)
    np.testing.assert_array_equal(cells[0], np.broadcast_to(np.arange(0, 6000, head["x"]["step"]), cells[0].shape))


# -- damage, and who does not wait -------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_damaged_chunks_are_gaps(tmp_path: Path, suffix: str) -> None:
    place, wanted = tmp_path / f"a{suffix}", np.arange(1200.0).reshape(30, 40)
    with hs.create(place) as root:
        root.create_array("x", data=wanted, chunks=(10, 20), dims=("row", "column"), codec="zlib", checksum=None)
    if suffix == ".zarr":
        (place / "x" / "c" / "1" / "1").write_bytes(b"damaged!")
    else:
        raw = bytearray(place.read_bytes())
        source = hs.open(place)["x"]._cells.source
        at, size, _ = source.table()[(1, 1)]  # type: ignore[attr-defined]
        raw[at : at + size] = bytes(size)
        place.write_bytes(raw)
    wanted[10:20, 20:] = np.nan
    with hs.serve(place, token="") as server, httpx.Client(base_url=server.address) as client:
        head, cells = view(client, "/x", place.name, x="column", y="row")
        np.testing.assert_array_equal(cells[0], wanted)
        assert [(gap["x"], gap["y"], gap["error"]["class"]) for gap in head["gaps"]] == [
            ([20, 40], [10, 20], "CorruptChunk")
        ]
        assert (head["gap_count"], str(tmp_path) in head["gaps"][0]["error"]["message"]) == (1, False)
        head, cells = view(client, "/x", place.name, x="column", y="row", width=10, height=6)
        np.testing.assert_allclose(cells[0], mean_of(blocks(wanted, 6, 10)))
        head, cells = view(client, "/x", place.name, x="row", at="column:30", width=15)
        assert (np.isnan(cells[1]).nonzero()[0].tolist(), head["gaps"][0]["x"]) == ([5, 6, 7, 8, 9], [10, 20])
        found = client.get(f"/api/cell/{place.name}", params={"node": "/x", "index": "12,30"})
        assert (found.status_code, found.json()["error"]["class"]) == (500, "CorruptChunk")
        query = {"node": "/x", "x": "column", "y": "row"}
        for ranges, missing in (({}, 200), ({"x_range": "20:40", "y_range": "10:20"}, 200)):  # some cells, and all
            found = client.get(f"/api/histogram/{place.name}", params={**query, **ranges}).json()
            assert (found["missing"], found["gap_count"]) == (missing, 1)
            assert (found["gaps"][0]["x"], found["gaps"][0]["error"]["class"]) == ([20, 40], "CorruptChunk")


def test_what_is_not_read_in_time_is_a_gap(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_SECONDS", -1.0)
    head, cells = view(client, "/air", x="lon", y="lat")
    assert np.isnan(cells).all() and {gap["error"]["class"] for gap in head["gaps"]} == {"Timeout"}
    assert (head["minimum"], head["cell_minimum"]) == (None, None)


def test_damage_is_told_of_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that there was no time for are not said to be damaged since another one is."""
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=np.arange(1200.0).reshape(30, 40), chunks=(10, 20))
    (tmp_path / "a.zarr" / "x" / "c" / "1" / "1").write_bytes(b"damaged!")
    moments = chain([0.0, 0.0, 0.0, 0.0], repeat(1000.0))  # time for the box, and two of its chunks
    monkeypatch.setattr(views, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    with hs.open(tmp_path / "a.zarr") as root:
        query = ViewQuery("dim_1", "dim_0", {}, None, None, 40, 30)
        head, cells = read_view(root["x"], query, lambda: True)
    assert [gap["error"]["class"] for gap in head["gaps"]] == ["Timeout"] * 4
    np.testing.assert_array_equal(np.isnan(cells[0]), np.arange(30)[:, np.newaxis] >= 10 + np.zeros(40))


def test_a_view_that_nobody_waits_for_ends(folder: Path) -> None:
    datasets = DatasetCache(lambda where: True)
    array = datasets.open_array(Location.of(str(folder / "a.zarr")), "air")
    with pytest.raises(Conflict):
        read_view(array, ViewQuery("lon", "lat", {}, None, None, 10, 10), lambda: False)
    datasets.close()


# -- what is refused ---------------------------------------------------------------------------------------------------


REFUSED: list[tuple[dict[str, Any], int]] = [
    ({"node": "/nowhere"}, 404),
    ({"node": "/air/deeper"}, 404),
    ({"node": "/"}, 400),
    ({"node": ""}, 400),
    ({"node": "/../../etc/passwd"}, 400),
    ({"node": "/a\\b"}, 400),
    ({"node": "/air\x00"}, 400),
    ({"node": "/" + "a/" * 600}, 404),
    ({"node": "/words"}, 400),
    ({"node": "/rows"}, 400),
    ({"node": "/rows", "field": "c"}, 400),
    ({"node": "/air", "field": "a"}, 400),
    ({"node": "/one"}, 400),
    ({"node": "/none"}, 400),
    ({"node": "/air", "x": "nowhere"}, 400),
    ({"node": "/air", "x": "lat", "y": "lat"}, 400),
    ({"node": "/air", "x": ["lat", "lon"]}, 400),
    *(
        ({"node": "/air", "width": width}, 400)
        for width in ("0", "-1", "4097", "9" * 400, "1e3", "½", "٣", " 5", "0x5")
    ),
    *(({"node": "/air", "x": "lat", "y": "lon", "width": "4096", "height": height}, 400) for height in ("4096", "0")),
    *(
        ({"node": "/air", "x": "lon", "x_range": text}, 400)
        for text in ("5:5", "9:3", "0:131", "-5:9", "a:b", "5", ":" * 99)
    ),
    ({"node": "/air", "x_range": f"0:{'9' * 300}"}, 400),
    *(
        ({"node": "/air", "at": text}, 400)
        for text in ("time:5", "time:-1", "time", "time:x", ":1", "nowhere:0", "time:" + "9" * 99)
    ),
    ({"node": "/air", "at": ["time:1"] * 65}, 400),
    ({"node": "/air", "decoded": "yes"}, 400),
]


def test_absurd_views_are_refused(client: httpx.Client) -> None:
    told = {}
    for query, status in REFUSED:
        found = client.get("/api/view/a.zarr", params=query)
        if found.status_code != status or not found.json()["error"]["message"]:
            told[str(query)[:100]] = (found.status_code, found.text[:200])
    assert told == {}
    assert client.get("/api/view/a.zarr", params={"node": "/air"}).status_code == 200


# -- words, degrees ----------------------------------------------------------------------------------------------------


def cell(client: httpx.Client, node: str, *index: int) -> Any:
    return client.get("/api/cell/a.zarr", params={"node": node, "index": ",".join(map(str, index))}).json()


def test_flags_have_words_and_no_mean(client: httpx.Client) -> None:
    head, cells = view(client, "/kinds", x="column", y="row", width=30, height=15)
    words = [{"value": value, "word": word} for value, word in ((1, "sea"), (2, "land"), (4, "sea_ice"))]
    assert (head["flags"], head["reduction"]) == (words, "every 4th of row, every 3rd of column")
    wanted = np.where(KINDS == -1, np.nan, KINDS)[::4, ::3]
    np.testing.assert_array_equal(cells[0], wanted)
    head, _ = view(client, "/kinds", x="column", y="row", width=30, height=15, decoded=0)
    assert (head["flags"], head["reduction"]) == (None, "mean of 4 x 3 cells")
    for value, told in ((1, ["sea"]), (2, ["land"]), (4, ["sea_ice"]), (-1, [])):
        assert cell(client, "/kinds", *np.argwhere(value == KINDS)[0])["words"] == told
    assert cell(client, "/bits", 7)["words"] == ["cloudy", "night", "few"]
    assert cell(client, "/bits", 8)["words"] == ["many"]
    assert view(client, "/bits")[0]["flags"] is None
    assert cell(client, "/odd", 1)["words"] == [] and view(client, "/odd")[0]["flags"] is None


def test_complex_numbers_have_parts(client: httpx.Client) -> None:
    there = np.where(WAVES == 0, np.nan, WAVES)
    parts = {"magnitude": np.abs(there), "real": there.real, "imag": there.imag, "phase": np.angle(there)}
    for part, wanted in parts.items():
        head, cells = view(client, "/waves", x="column", y="row", part=part)
        assert (head["part"], head["units"]) == (part, "radians" if part == "phase" else "V")
        np.testing.assert_allclose(cells[0], np.where(np.isnan(there), np.nan, wanted), rtol=1e-5)
    head, cells = view(client, "/waves", x="column", y="row", width=10, height=10)
    assert head["part"] == "magnitude"
    np.testing.assert_allclose(cells[0], mean_of(blocks(np.abs(there), 10, 10)), rtol=1e-5)
    found = client.get("/api/histogram/a.zarr", params={"node": "/waves", "x": "column", "y": "row", "bins": 5}).json()
    counts = np.histogram(np.abs(there[~np.isnan(there)]), 5)[0]
    assert (found["part"], found["counts"]) == ("magnitude", counts.tolist())
    refused = client.get("/api/view/a.zarr", params={"node": "/waves", "part": "half"})
    assert (refused.status_code, "magnitude, real" in refused.json()["error"]["remedy"]) == (400, True)
    assert view(client, "/air", x="lon", part="real")[0]["part"] is None
    assert cell(client, "/waves", 1, 2)["value"] == pytest.approx([WAVES[1, 2].real, WAVES[1, 2].imag])


def test_a_cell_of_a_curved_grid_has_degrees(client: httpx.Client) -> None:
    latitude, longitude = cell(client, "/curved", 2, 3, 4)["places"]
    assert latitude == {"dim": "nav_lat", "label": NAV_LAT[3, 4], "units": "degrees_north"}
    assert longitude == {"dim": "nav_lon", "label": NAV_LON[3, 4], "units": "degrees_east"}
    assert [each["label"] for each in cell(client, "/points", 5)["places"]] == pytest.approx(
        [NAV_LAT[5, 0], NAV_LON[5, 0]]
    )
    assert cell(client, "/spots", 0)["places"] == cell(client, "/air", 0, 0, 0)["places"] == []


def test_thumbnails_of_pictures_with_colours(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("rgb", data=np.zeros((20, 30, 3), "u1"), dims=("row", "column", "band"))
        root.create_array("lon", data=np.arange(3.0), dims=("lon",), units="degrees_east")
        root.create_array("narrow", data=np.zeros((20, 30, 3)), dims=("time", "lat", "lon"))
        root.create_array("z", data=np.arange(30.0), dims=("z",), attrs={"axis": "Z"})
        root.create_array("section", data=np.zeros((20, 30)), dims=("time", "z"))
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        heads = [view(client, node, thumbnail=1)[0] for node in ("/rgb", "/narrow", "/section")]
    dims = [(head["y"]["dim"], head["x"]["dim"]) for head in heads]
    assert dims == [("row", "column"), ("lat", "lon"), ("z", "time")]


# -- few cells of many -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Arrays of ten to the ten cells, of which some chunks were written, one of them damaged."""
    place = tmp_path_factory.mktemp("sparse") / "a.zarr"
    with hs.create(place, durable=False) as root:
        plane = root.create_array("plane", shape=(100_000, 100_000), dtype="i4", chunks=(1000, 1000), fill_value=2)
        plane[50_000:50_010, 30_000:30_010] = 3_000_000
        plane[99_000:, 99_000:] = 7
        plane[0:5, 0:5] = 1
        missing = root.create_array(
            "missing", shape=(100_000, 100_000), dtype="f4", chunks=(1000, 1000), fill_value=np.nan
        )
        missing[50_000:50_010, 30_000:30_010] = 5
        line = root.create_array("line", shape=(10**10,), dtype="u1", chunks=(10**6,), fill_value=3)
        line[5 * 10**9 : 5 * 10**9 + 1000] = 200
        cube = root.create_array("cube", shape=(20, 6000, 6000), dtype="f4", chunks=(1, 50, 50), fill_value=1)
        cube[3, 100:150, 200:300] = 9
        small = root.create_array("small", shape=(5000, 300), dtype="i2", chunks=(1, 100), fill_value=-1)
        small[17, 150] = 4
        broken = root.create_array(
            "broken", shape=(5000, 200), dtype="f8", chunks=(1, 100), fill_value=0, checksum=None
        )
        broken[7, 120] = 4
    (chunk,) = [path for path in (place / "broken" / "c").rglob("*") if path.is_file()]
    chunk.write_bytes(b"damaged!")
    with hs.serve(place, token="") as server, httpx.Client(base_url=server.address, timeout=30) as made:
        yield made


def test_written_cells_are_seen_among_ten_to_the_ten(sparse: httpx.Client) -> None:
    head, cells = view(sparse, "/plane", x="dim_1", y="dim_0", width=500, height=500)
    assert (head["is_exact"], head["reduction"], head["cost"]["chunks"]) == (True, "mean of 200 x 200 cells", 3)
    assert (head["cell_minimum"], head["cell_maximum"]) == (1, 3_000_000)
    assert cells[0, 250, 150] == pytest.approx(2 + 100 * (3_000_000 - 2) / 40_000)
    assert cells[0, 0, 0] == pytest.approx(2 - 25 / 40_000)
    assert (cells[0, 499, 499], cells[0, 100, 100], cells[0, 495, 494]) == (7, 2, 2)
    head, cells = view(sparse, "/missing", x="dim_1", y="dim_0", width=500, height=500)
    assert np.argwhere(np.isfinite(cells[0])).tolist() == [[250, 150]] and cells[0, 250, 150] == 5
    head, cells = view(sparse, "/line", width=1000)
    assert (head["is_exact"], head["cost"]["chunks"], cells[2].max(), int(np.argmax(cells[2]))) == (True, 1, 200, 500)
    assert cells[1, 500] == pytest.approx(3 + 197 * 1000 / 10**7)
    assert cells[:, 499].tolist() == [3, 3, 3]


def test_parts_of_arrays_with_few_written_chunks(sparse: httpx.Client) -> None:
    for level, most in ((3, 9.0), (4, 1.0)):
        head, cells = view(sparse, "/cube", x="dim_2", y="dim_1", at=f"dim_0:{level}", width=600, height=600)
        assert (head["is_exact"], cells.max(), cells.min()) == (True, most, 1)
    wanted = np.full((5000, 300), -1.0)
    wanted[17, 150] = 4
    head, cells = view(sparse, "/small", x="dim_1", y="dim_0", width=300, height=3000, x_range="130:290")
    np.testing.assert_array_equal(cells[0], mean_of(blocks(wanted[:, 130:290], 3000, 300)))
    head, cells = view(sparse, "/small", x="dim_1", y="dim_0", width=40, height=50, envelope=1)
    parts = blocks(wanted, 50, 40)
    for layer, made in enumerate((np.nanmin(parts, axis=-1), mean_of(parts), np.nanmax(parts, axis=-1))):
        np.testing.assert_allclose(cells[layer], made)
    found = sparse.get("/api/histogram/a.zarr", params={"node": "/small", "x": "dim_1", "y": "dim_0"}).json()
    edges = np.arange(-1, 6) - 0.5
    assert (found["edges"], found["counts"]) == (edges.tolist(), np.histogram(wanted, edges)[0].tolist())


def test_a_damaged_chunk_among_few_is_a_gap(sparse: httpx.Client) -> None:
    head, cells = view(sparse, "/broken", x="dim_1", y="dim_0", width=200, height=2500)
    (gap,) = head["gaps"]
    assert (gap["x"], gap["y"], gap["error"]["class"]) == ([100, 200], [7, 8], "CorruptChunk")
    assert (np.nanmax(cells), np.nanmin(cells), np.isnan(cells).any()) == (0, 0, False)  # a block has another row, too
    head, cells = view(sparse, "/broken", x="dim_1", y="dim_0", width=200, height=4096, y_range="0:4500")
    assert np.isfinite(cells).all() and head["gap_count"] == 1


def test_chunks_among_few_that_are_not_read_in_time_are_no_fill_value(
    sparse: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_SECONDS", -1.0)
    head, cells = view(sparse, "/plane", x="dim_1", y="dim_0", width=100, height=100)
    assert (head["is_exact"], [gap["error"]["class"] for gap in head["gaps"]]) == (True, ["Timeout"] * 3)
    assert np.argwhere(np.isnan(cells[0])).tolist() == [[0, 0], [50, 30], [99, 99]]
    assert np.nanmax(cells) == np.nanmin(cells) == head["cell_maximum"] == 2


def test_a_damaged_index_of_a_shard_among_few_is_a_gap(tmp_path: Path) -> None:
    """Which chunks were ever written is then not known, and those of other shards are read."""
    with hs.create(tmp_path / "a.zarr") as root:
        made = root.create_array("x", shape=(4000, 40), dtype="f8", chunks=(1, 20), shards=(100, 40), fill_value=1)
        made[5, 5] = 4
        made[3004, 25] = 9  # every other row is read
    shard = tmp_path / "a.zarr" / "x" / "c" / "0" / "0"
    shard.write_bytes(shard.read_bytes()[:-8] + b"damaged!")
    with hs.serve(tmp_path, token="") as server, httpx.Client(base_url=server.address) as client:
        head, cells = view(client, "/x", tmp_path.name + "/a.zarr", x="dim_1", y="dim_0", width=40, height=4000)
    assert {gap["error"]["class"] for gap in head["gaps"]} == {"CorruptChunk"}
    assert np.nanmax(cells) == 9 and np.isnan(cells[0, :, 0]).any() and np.isfinite(cells[0, :, 0]).any()
