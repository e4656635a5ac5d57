"""Views over HTTP: reductions are compared with NumPy, and what is read is bounded whatever the size of an array."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Conflict
from hyperslab.stores.location import Location
from hyperslab.web import views
from hyperslab.web.explored import ExploredDatasets
from hyperslab.web.views import ViewQuery, read_view

RANDOM = np.random.default_rng(7)
CELLS = RANDOM.normal(280, 20, (5, 90, 130)).astype("f4")
CELLS[0, 10:40, 20:70] = np.nan
PACKED = RANDOM.integers(-200, 200, (90, 130)).astype("i2")


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
        root.create_array("packed", data=PACKED, dims=("lat", "lon"), chunks=(90, 16), attrs=attrs)
        root.create_array("clock", data=1.6e9 + np.arange(1000) / 30, chunks=(100,))
        root.create_array("moments", data=np.arange(20).astype("M8[h]").reshape(4, 5))
        root.create_array("rows", data=np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")]))
        root.create_array("words", data=np.array(["a", "b"]))
        root.create_array("twice", data=np.arange(12).reshape(3, 4), dims=("x", "x"))
        root.create_array("one", data=np.float64(3))
        root.create_array("none", shape=(0, 4), dtype="f4")
        root.create_array("complex", data=np.ones(3, "c8"))
        root.create_array("empty", shape=(100_000, 100_000), dtype="f4", chunks=(1000, 1000), fill_value=7)
        root.create_array("line", shape=(10**10,), dtype="u1", chunks=(10**6,), fill_value=3)
    return place


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    with hs.serve(folder / "a.zarr", token="") as server, httpx.Client(base_url=server.address, timeout=30) as made:
        yield made


def view(client: httpx.Client, node: str, place: str = "a.zarr", **query: Any) -> tuple[dict[str, Any], np.ndarray]:
    """The head and the cells of a view."""
    found = client.get(f"/api/view/{place}", params={"node": node, **query})
    assert found.status_code == 200, found.text
    length = int.from_bytes(found.content[:4], "little")
    assert length % 4 == 0
    head = json.loads(found.content[4 : 4 + length])
    cells = np.frombuffer(found.content[4 + length :], "<f4").reshape(head["shape"])
    return head, cells.astype("f8") + head["offset"]


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
    assert (head["reduction"], head["is_exact"]) == (f"mean of {by} x {bx}", True)
    assert (head["x"]["start"], head["x"]["stop"], head["x"]["block"]) == (*columns, bx)
    assert (head["y"]["start"], head["y"]["stop"], head["y"]["block"]) == (*rows, by)
    assert head["minimum"] == pytest.approx(np.nanmin(wanted))
    assert (head["cell_minimum"], head["cell_maximum"]) == (np.nanmin(part), np.nanmax(part))
    turned, transposed = view(
        client, "/air", x="lat", y="lon", x_range=query["y_range"], y_range=query["x_range"], width=height, height=width
    )
    np.testing.assert_allclose(transposed[0], wanted.T, rtol=1e-6)
    assert turned["units"] == "K"


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
    assert (head["layers"], head["reduction"]) == (["minimum", "mean", "maximum"], "minimum, mean and maximum of 10")
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


def test_dimensions_of_one_name_are_told_apart(client: httpx.Client) -> None:
    _, cells = view(client, "/twice", x="dim_0", y="dim_1")
    np.testing.assert_array_equal(cells[0], np.arange(12).reshape(3, 4).T)


# -- the budget --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most_bytes", "words"),
    [
        (12 * 2 * 32 * 40 * 4, "mean of 9 x 13"),
        (8 * 2 * 32 * 40 * 4, "mean of 1 x 13, every 72nd of lat"),
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


def test_what_is_not_read_in_time_is_a_gap(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_SECONDS", -1.0)
    head, cells = view(client, "/air", x="lon", y="lat")
    assert np.isnan(cells).all() and {gap["error"]["class"] for gap in head["gaps"]} == {"Timeout"}
    assert (head["minimum"], head["cell_minimum"]) == (None, None)


def test_a_view_that_nobody_waits_for_ends(folder: Path) -> None:
    datasets = ExploredDatasets(lambda where: True)
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
    ({"node": "/complex"}, 400),
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
