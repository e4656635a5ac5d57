"""What the explorer asks for over HTTP: what lies where, nodes in full, cells, rows; and what strangers put there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest

import hyperslab as hs
from format_variants import VARIANTS, Places, dataset, save
from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema, VArraySchema
from hyperslab.errors import Conflict
from hyperslab.model.dtypes import Enum
from hyperslab.stores.location import Location
from hyperslab.web import nodes, places, rows
from hyperslab.web.dataset_cache import DatasetCache

if TYPE_CHECKING:
    from servers.mongo import Mongo

HOSTILE = "<script>alert(1)</script>\u202e\ud800"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a dataset of groups, arrays, attributes and rows, and what is none."""
    (tmp_path / "deeper").mkdir()
    (tmp_path / "notes.txt").write_text("no dataset")
    with hs.create(tmp_path / "deeper" / "a.zarr") as root:
        root.attrs["title"] = "a dataset"
        for group in ("one", "two/inner"):
            made = root.create_group(group)
            made.create_array("x", data=np.arange(6).reshape(2, 3), dims=("row", "column"), units="m", chunks=(1, 3))
            made.create_array("row", data=np.array(["first", "second"]), dims=("row",))
        root["one/x"].attrs.update({"long": "a" * 5000, "many": list(range(1000)), "bad": HOSTILE, "nan": float("nan")})
        root.create_array("rows", data=np.array([(1, 0.5), (2, 1.5)], [("number", "i4"), ("part", "f8")]))
        root.create_array("words", data=np.array(["a", "b" * 900, HOSTILE[:-1]], np.dtypes.StringDType()))
        root.create_array("wide", data=np.arange(400).reshape(2, 200))
        root.create_array("one cell", data=np.int64(2**62))
    return tmp_path


@pytest.fixture
def client(folder: Path) -> Iterator[httpx.Client]:
    with hs.serve(folder, token="") as server, httpx.Client(base_url=server.address, timeout=30) as made:
        yield made


def get(client: httpx.Client, path: str, **query: Any) -> Any:
    """The JSON of an answer."""
    found = client.get(f"/api/{path}", params=query)
    assert (found.status_code, found.headers["content-type"]) == (200, "application/json"), found.text
    return found.json()


# -- what lies where ---------------------------------------------------------------------------------------------------


def test_places_folders_and_datasets(client: httpx.Client, folder: Path) -> None:
    assert get(client, "browse") == {"kind": "places", "names": [folder.name], "is_whole": True}
    place = f"browse/{quote(folder.name)}"
    assert get(client, place)["names"] == ["deeper"]
    found = get(client, f"{place}/deeper/a.zarr")
    assert (found["kind"], found["format"], found["is_whole"], found["next"]) == ("dataset", "zarr3", True, None)
    told = {node["path"]: node for node in found["nodes"]}
    assert next(iter(told)) == "/" and {"/one/x", "/two/inner/row", "/words"} <= set(told)
    wanted = {"dims": ["row", "column"], "shape": [2, 3], "dtype": "int64", "units": "m", "nbytes": 48}
    assert told["/one/x"] == {"path": "/one/x", "kind": "array", **wanted}
    assert client.get(found["zarr"] + "/zarr.json").status_code == 200
    assert client.get(f"{found['zarr']}/losses").json() == {"losses": []}
    below = get(client, f"{place}/deeper/a.zarr/two")
    assert [node["path"] for node in below["nodes"]] == ["/two", "/two/inner", "/two/inner/row", "/two/inner/x"]
    assert client.get(f"/api/{place}/notes.txt").status_code == 404
    assert client.get(f"/api/{place}/deeper/a.zarr/three").status_code == 404


def test_a_long_list_goes_on(client: httpx.Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"browse/{folder.name}/deeper/a.zarr"
    whole = [node["path"] for node in get(client, place)["nodes"]]
    for most in (1, 2, 5):
        monkeypatch.setattr(nodes, "MOST_NODES", most)
        found, query = [], {}
        while True:
            part = get(client, place, **query)
            assert len(part["nodes"]) <= most
            found += [node["path"] for node in part["nodes"]]
            if part["is_whole"]:
                break
            query = {"after": part["next"]}
        assert found == whole
    for gone in ("/three", "/one/y", "/one/x/deeper"):
        assert client.get(f"/api/{place}", params={"after": gone}).status_code == 400
    assert client.get(f"/api/{place}/one", params={"after": "/two/inner"}).status_code == 400


def test_a_long_folder_is_not_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where most of its names are of nobody's concern."""
    monkeypatch.setattr(places, "MOST_NAMES", 3)
    for folder, names in {"few": "abc", "many": "abcd", "hidden": [f".{number}" for number in range(31)]}.items():
        for name in names:
            (tmp_path / folder / name).mkdir(parents=True)
    with hs.serve(tmp_path, token="") as server, httpx.Client(base_url=server.address) as client:
        found = {name: get(client, f"browse/{tmp_path.name}/{name}") for name in ("few", "many", "hidden")}
    told = {name: (len(each["names"]), each["is_whole"]) for name, each in found.items()}
    assert told == {"few": (3, True), "many": (3, False), "hidden": (0, False)}


def test_a_list_of_one_level(client: httpx.Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"browse/{folder.name}/deeper/a.zarr"
    names = ["/", "/one", "/one cell", "/rows", "/two", "/wide", "/words"]
    assert sorted(node["path"] for node in get(client, place, depth=1)["nodes"]) == names
    assert [node["path"] for node in get(client, place, node="/two", depth=1)["nodes"]] == ["/two", "/two/inner"]
    assert client.get(f"/api/{place}", params={"depth": 0}).status_code == 400
    monkeypatch.setattr(nodes, "MOST_NODES", 2)
    found, query = [], {"depth": 1}
    while True:
        part = get(client, place, **query)
        found += [node["path"] for node in part["nodes"]]
        if part["is_whole"]:
            break
        query["after"] = part["next"]
    assert sorted(found) == names and get(client, place, depth=1, after="/two/inner")["nodes"][0]["path"] in names


def test_a_node_in_full(client: httpx.Client, folder: Path) -> None:
    found = get(client, f"node/{folder.name}/deeper/a.zarr", node="/one/x")
    wanted = {"path": "/one/x", "shape": [2, 3], "chunks": [1, 3], "shards": None, "rows": 2, "fill_value": 0}
    assert {name: found[name] for name in wanted} == wanted
    assert "blosc" in found["codec"] and found["nbytes_stored"] > 0
    row, column = found["coordinates"]
    assert (row["dim"], row["coordinate"], row["ends"]) == ("row", "/one/row", ["first", "second"])
    assert (column["dim"], column["coordinate"], column["ends"]) == ("column", None, [])
    attributes = {each["name"]: each for each in found["attributes"]}
    assert attributes["long"]["cut"] == "the first 2,000 of 5,000 letters"
    assert (attributes["many"]["value"], attributes["many"]["cut"]) == ([*range(100)], "the first 100 of 1,000 items")
    assert (attributes["units"], attributes["nan"]["value"]) == ({"name": "units", "value": "m"}, "nan")
    group = get(client, f"node/{folder.name}/deeper/a.zarr")
    assert (group["kind"], group["path"], group["attributes"][0]["value"]) == ("group", "/", "a dataset")
    assert get(client, f"node/{folder.name}/deeper/a.zarr/one/x") == found


def test_links_are_followed_and_told(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "hdmf") as root:
        root.create_array("x", data=np.arange(3))
        root.create_link("y", "x")
        root.create_link("broken", "nowhere")
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        listed = {node["path"]: node for node in get(client, "browse/a.zarr")["nodes"]}
        assert (listed["/y"]["kind"], listed["/y"]["target"], listed["/broken"]["kind"]) == ("link", "/x", "link")
        found = get(client, "node/a.zarr", node="/y")
        assert (found["link"]["leads_to"], found["kind"], found["shape"]) == ("/x", "array", [3])
        assert client.get("/api/node/a.zarr", params={"node": "/broken"}).status_code == 404


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", VARIANTS)
def test_every_format(name: str, tmp_path: Path, mongo: Mongo) -> None:
    url = Places(tmp_path, f"{mongo.url}/{mongo.database()}").new(name)
    save(name, url, dataset(name))
    with hs.serve(url, token="") as server, httpx.Client(base_url=server.address) as client:
        (place,) = (quote(each, safe="") for each in server.zarr_urls)
        listed = get(client, f"browse/{place}")
        air = next(node for node in listed["nodes"] if node["path"] == "/air")
        assert (air["dims"], air["shape"], air["units"]) == (["time", "lat", "lon"], [4, 2, 3], "K")
        facts = get(client, f"node/{place}", node="/air")
        assert facts["coordinates"][0]["ends"][0].startswith("2013-01-01")
        assert [each["ends"] for each in facts["coordinates"][1:]] == [[50.0, 40.0], [0.0, 5.0]]
        cell = get(client, f"cell/{place}", node="/air", index="3,1,2")
        assert (cell["value"], [each["label"] for each in cell["labels"]][1:]) == (23.0, [40.0, 5.0])
        shown = client.get(f"/api/view/{place}", params={"node": "/air", "x": "lon", "y": "lat", "at": "time:2"})
        cells = np.frombuffer(shown.content[-24:], "<f4")
        np.testing.assert_array_equal(cells, dataset(name)["air"].values[2].ravel())
        told = get(client, f"rows/{place}", node="/time")
        assert (told["total"], [row[0][:10] for row in told["rows"]][1]) == (4, "2013-01-02")


def test_changes_by_others_are_seen(client: httpx.Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.web.dataset_cache._LOOK_EVERY", -1.0)
    place, query = f"{folder.name}/deeper/a.zarr", {"node": "/one/x"}
    assert get(client, f"cell/{place}", index="0,0", **query)["value"] == 0
    with hs.open(folder / "deeper" / "a.zarr", "r+") as root:
        root["one/x"][...] = 9
        root["one/x"].attrs["seen"] = True
        root.create_array("new", data=np.arange(2))
    assert get(client, f"cell/{place}", index="0,0", **query)["value"] == 9
    assert "seen" in [each["name"] for each in get(client, f"node/{place}", **query)["attributes"]]
    assert "/new" in [node["path"] for node in get(client, f"browse/{place}")["nodes"]]


# -- rows --------------------------------------------------------------------------------------------------------------


def test_rows_of_arrays(client: httpx.Client, folder: Path) -> None:
    place = f"rows/{folder.name}/deeper/a.zarr"
    found = get(client, place, node="/rows")
    assert [column["name"] for column in found["columns"]] == ["number", "part"]
    assert (found["rows"], found["total"], found["next"]) == ([[1, 0.5], [2, 1.5]], 2, None)
    words = get(client, place, node="/words")["rows"]
    assert (words[0], words[1][0]["cut"], len(words[1][0]["value"]), words[2]) == (["a"], True, 501, [HOSTILE[:-1]])
    assert get(client, place, node="/words", start=1, count=1)["next"] == 2
    assert get(client, place, node="/words", start=3)["rows"] == []
    wide = get(client, place, node="/wide", start=1)
    assert wide["rows"] == [[{"value": [*range(200, 250)], "cut": True}]]
    assert get(client, place, node="/one cell")["rows"] == [[2**62]]
    labelled = get(client, place, node="/one/x")
    assert (labelled["labels"], labelled["rows"]) == (["first", "second"], [[[0, 1, 2]], [[3, 4, 5]]])


def test_words_of_flags_are_told_of_a_node(tmp_path: Path) -> None:
    """All of them, though of a list among the attributes there are but the first."""
    words = [f"word{number}" for number in range(150)]
    attrs = {"flag_values": np.arange(150, dtype="u1"), "flag_meanings": " ".join(words)}
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("kinds", data=np.arange(3, dtype="u1"), attrs=attrs)
        root.create_array("plain", data=np.arange(3))
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        found = get(client, "node/a.zarr", node="/kinds")["flags"]
        assert found == [{"value": number, "word": word} for number, word in enumerate(words)]
        assert get(client, "node/a.zarr", node="/plain")["flags"] is None


def test_rows_are_decoded_whatever_their_dimensions(tmp_path: Path) -> None:
    attrs = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": np.int16(-1)}
    cells = np.array([[0, 2, -1], [4, 6, 8]], "i2")
    with hs.create(tmp_path / "a.zarr") as root:
        for name, data in {"two": cells, "one": cells[0], "none": cells[0, 1]}.items():
            root.create_array(name, data=data, attrs=attrs, units="K")
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        found = {name: get(client, "rows/a.zarr", node=f"/{name}")["rows"] for name in ("two", "one", "none")}
    assert found == {
        "two": [[[10.0, 11.0, None]], [[12.0, 13.0, 14.0]]],
        "one": [[10.0], [11.0], [None]],
        "none": [[11.0]],
    }


def test_a_collection_is_one_however_its_path_is_spelled(tmp_path: Path) -> None:
    """Each has an index of all attributes, of which there must not be as many as there are spellings."""
    schema = ArraySchema([DimensionSchema("x", 3)], float, [AttributeSchema("name", str, primary=True)])
    with Client(f"file://{tmp_path}/store", durable=False) as store:
        store.create_collection("weather", schema).create({"name": "a"})
    datasets = DatasetCache(lambda where: True)
    where = Location.of(tmp_path / "store")
    for path in ("weather", "/weather", "weather/", "//weather", "/weather//"):
        assert len(datasets.find_arrays(where, path, ["name=a"], None)[0]) == 1
    (found,) = datasets._open.values()
    assert list(found.collections) == ["weather"]
    datasets.close()


def test_rows_far_behind_the_first_end_with_their_client(tmp_path: Path) -> None:
    """The ids of all arrays of a collection that lie before them are read, of which there may be millions."""
    schema = VArraySchema([DimensionSchema("x", 3)], float, [AttributeSchema("name", str, True)], arrays_shape=[3])
    with Client(f"file://{tmp_path}/store", durable=False) as store:
        store.create_collection("weather", schema).create({"name": "a"})
    datasets = DatasetCache(lambda where: True)
    node = datasets.open_node(Location.of(tmp_path / "store"), "/weather")
    assert rows.read_rows(*node, 10**17, 5, lambda: True)["rows"] == []
    with pytest.raises(Conflict, match="nobody waits"):
        rows.read_rows(*node, 10**17, 5, lambda: False)
    datasets.close()


def test_long_answers_end_early(client: httpx.Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_MOST_BYTES", 10)
    found = get(client, f"rows/{folder.name}/deeper/a.zarr", node="/words")
    assert (len(found["rows"]), found["next"], found["total"]) == (1, 1, 3)


def table(root: Any, **columns: np.ndarray) -> None:
    """Make a table as HDMF has them."""
    made = root.create_group("table", {"colnames": [name for name in columns if not name.endswith("_index")]})
    made.create_array("id", data=np.arange(3))
    for name, cells in columns.items():
        made.create_array(name, data=cells)


def test_ragged_columns_are_lists(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        times, ends = np.arange(7) / 2, np.array([2, 2, 7])
        waves, inner, outer = np.arange(8), np.array([1, 3, 6, 8]), np.array([2, 3, 4])
        table(root, word=np.array(["a", "b", "c"]), times=times, times_index=ends, waves=waves, waves_index=inner,
              waves_index_index=outer, bad=times, bad_index=np.array([5, 2, 9]))  # fmt: skip
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        found = get(client, "rows/a.zarr", node="/table")
        names = [column["name"] for column in found["columns"]]
        assert names == ["id", "word", "times", "waves", "bad"]
        assert [column["is_ragged"] for column in found["columns"]] == [False, False, True, True, True]
        told = [dict(zip(names, row, strict=True)) for row in found["rows"]]
        assert [row["times"] for row in told] == [[0.0, 0.5], [], [1.0, 1.5, 2.0, 2.5, 3.0]]
        assert [row["waves"] for row in told] == [[[0], [1, 2]], [[3, 4, 5]], [[6, 7]]]
        assert ([row["word"] for row in told], [row["bad"] for row in told]) == (["a", "b", "c"], [None] * 3)
        assert "make no sense" in found["columns"][-1]["problem"]
        assert get(client, "rows/a.zarr", node="/table", start=2)["rows"] == found["rows"][2:]
        assert get(client, "node/a.zarr", node="/table")["rows"] == 3


@pytest.mark.parametrize(("name", "left"), [("r_index", "v"), ("v", "r")])
def test_a_column_that_cannot_be_opened_has_a_problem(tmp_path: Path, name: str, left: str) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr2") as root:
        table(root, v=np.arange(3) * 10, r=np.arange(6), r_index=np.array([1, 3, 6]))
    (tmp_path / "a.zarr" / "table" / name / ".zarray").write_text("{")
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        found = get(client, "rows/a.zarr", node="/table")
        assert get(client, "node/a.zarr", node="/table")["rows"] == found["total"] == 3
        exported = client.get("/api/export/a.zarr", params={"node": "/table", "format": "csv"})
    problems = {column["name"]: column.get("problem") for column in found["columns"]}
    assert list(problems) == ["id", "v", "r"] and (problems["id"], problems[left]) == (None, None)
    damaged = name.removesuffix("_index")
    assert "JSON" in problems[damaged]
    cells = {"v": [0, 10, 20], "r": [[0], [1, 2], [3, 4, 5]]} | {damaged: [None] * 3}
    assert found["rows"] == [list(row) for row in zip([0, 1, 2], cells["v"], cells["r"], strict=True)]
    assert (exported.status_code, exported.json()["error"]["class"]) == (500, "FormatError")


def test_rows_of_a_part_of_an_array(tmp_path: Path) -> None:
    """By the dimensions of a view, at its positions, with the labels of both."""
    cells = np.arange(3 * 4 * 70.0).reshape(3, 4, 70)
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("t", data=cells.astype("f4"), dims=("time", "lat", "lon"), attrs={"scale_factor": 0.5})
        root.create_array("lat", data=np.array([1.5, 2.5, 3.5, 4.5]), dims=("lat",))
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        found = get(client, "rows/a.zarr", node="/t", x="lon", y="lat", at="time:2", start=1, count=2, x_range="10:70")
        assert found["rows"] == (cells[2, 1:3, 10:60] / 2).tolist()
        assert (found["labels"], found["total"], found["next"]) == ([2.5, 3.5], 4, 3)
        assert [head["name"] for head in found["columns"]] == [str(place) for place in range(10, 60)]
        assert found["plane"] == {"row": "lat", "column": "lon", "start": 10, "stop": 60, "size": 70}
        turned = get(client, "rows/a.zarr", node="/t", x="lat", y="lon", at="time:1", start=68)
        assert turned["rows"] == (cells[1, :, 68:].T / 2).tolist()
        assert [head["name"] for head in turned["columns"]] == ["1.5", "2.5", "3.5", "4.5"]
        line = get(client, "rows/a.zarr", node="/t", x="time", at=["lat:3", "lon:5"])
        assert line["rows"] == [[cell / 2] for cell in cells[:, 3, 5]]
        assert get(client, "rows/a.zarr", node="/t", x="time", start=3)["rows"] == []
        for query in ({"x": "no"}, {"x": "lat", "y": "lat"}, {"x": "lat", "at": "time:3"}, {"x": "lat", "count": 0}):
            answer = client.get("/api/rows/a.zarr", params={"node": "/t", **query})
            assert (answer.status_code, answer.json()["error"]["class"]) == (400, "Invalid"), query


def test_columns_of_wide_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many columns the first are shown, and so many rows that all of their cells together are not too much."""
    with hs.create(tmp_path / "a.zarr", durable=False) as root:
        made = root.create_group("table", {"colnames": [f"c{number}" for number in range(305)]})
        for number in range(305):
            made.create_array(f"c{number}", data=np.array([number]))
        made.create_array("id", data=np.array([1]))
        wide = root.create_group("wide", {"colnames": [f"c{number}" for number in range(6)]})
        for number in range(6):
            wide.create_array(f"c{number}", data=np.zeros((40, 10)))
        root.create_array("s", data=np.zeros(2, [(f"f{number}", "i1") for number in range(302)]))
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        found = get(client, "rows/a.zarr", node="/table")
        assert (len(found["columns"]), found["more_columns"], len(found["rows"][0])) == (300, 6, 300)
        found = get(client, "rows/a.zarr", node="/s")
        assert (len(found["columns"]), found["more_columns"], len(found["rows"][0])) == (300, 2, 300)
        monkeypatch.setattr(rows, "_READ_BYTES", 3 * 6 * 80)
        found = get(client, "rows/a.zarr", node="/wide")
        assert (found["more_columns"], len(found["rows"]), found["next"]) == (0, 3, 3)
        assert len(get(client, "rows/a.zarr", node="/wide/c0")["rows"]) == 18


def test_tables_of_nwb(tmp_path: Path) -> None:
    pytest.importorskip("pynwb")
    from pynwb.testing.mock.file import mock_NWBFile

    from hyperslab.hdmf import HyperslabIO

    made, spikes = mock_NWBFile(), ([0.1, 0.2], [], [0.5] * 60)
    for times in spikes:
        made.add_unit(spike_times=times)
    with HyperslabIO(tmp_path / "a.nwb.zarr", "w") as io:
        io.write(made)
    with hs.serve(tmp_path / "a.nwb.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        listed = {node["path"]: node for node in get(client, "browse/a.nwb.zarr")["nodes"]}
        assert listed["/units"]["type"] == "Units"
        found = get(client, "rows/a.nwb.zarr", node="/units")
        assert found["rows"] == [[0, [0.1, 0.2]], [1, []], [2, {"value": [0.5] * 50, "cut": True}]]


def test_what_is_no_number_is_told_by_its_name(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=np.zeros(3), fill_value=np.nan, attrs={"most": np.inf, "missing": np.nan})
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as client:
        facts = get(client, "node/a.zarr", node="/x")
        assert facts["fill_value"] == "nan"
        assert {each["name"]: each["value"] for each in facts["attributes"]} == {"most": "inf", "missing": "nan"}


def test_words_of_an_enum(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        kind = Enum(np.dtype("i1"), (("no", 0), ("yes", 1)), "answer_t")
        root.create_array("right", data=np.array([0, 1, 1], "i1"), dtype=kind, dims=["trial"])
    with hs.serve(tmp_path / "a.nc", token="") as server, httpx.Client(base_url=server.address) as client:
        assert get(client, "rows/a.nc", node="/right")["rows"] == [["no"], ["yes"], ["yes"]]


def test_times_of_a_collection_are_told_alike(tmp_path: Path) -> None:
    schema = ArraySchema(
        dimensions=[DimensionSchema("x", 3)], dtype=float, attributes=[AttributeSchema("dt", datetime, True)]
    )
    with Client(f"file://{tmp_path}/store", durable=False) as store:
        store.create_collection("days", schema).create({"dt": datetime(2023, 1, 1, tzinfo=UTC)})
    with hs.serve(tmp_path / "store", token="") as server, httpx.Client(base_url=server.address) as client:
        for query in ({}, {"order": "dt"}, {"filter": "dt>=2023-01-01"}):
            assert get(client, "rows/store", node="/days", **query)["rows"][0][2] == "2023-01-01T00:00:00+00:00"


@pytest.mark.parametrize("layout", ["hyperslab", "deker"])
def test_records_of_collections(tmp_path: Path, layout: Any) -> None:
    schema = ArraySchema(
        dimensions=[DimensionSchema("x", 3)],
        dtype=float,
        attributes=[AttributeSchema("name", str, primary=True), AttributeSchema("depth", float, primary=False)],
    )
    with Client(f"file://{tmp_path}/store", durable=False) as store:
        collection = store.create_collection("weather", schema, layout=layout)
        for number in range(5):
            made = collection.create({"name": f"n{number}"}, {"depth": number / 2})
            made[:].update(np.full(3, float(number)))
    with hs.serve(tmp_path / "store", token="") as server, httpx.Client(base_url=server.address) as client:
        listed = {node["path"]: node["kind"] for node in get(client, "browse/store")["nodes"]}
        assert listed == {"/": "group", "/weather": "collection"}
        seen: list[dict[str, Any]] = []
        start: int | None = 0
        while start is not None:
            part = get(client, "rows/store", node="/weather", start=start, count=2)
            names = [column["name"] for column in part["columns"]]
            seen += [dict(zip(names, row, strict=True)) for row in part["rows"]]
            start = part["next"]
        assert part["total"] == 5
        assert sorted((each["name"], each["depth"], each["shape"]) for each in seen) == [
            (f"n{number}", number / 2, [3]) for number in range(5)
        ]
        last = next(each for each in seen if each["name"] == "n4")
        assert get(client, "cell/store", node=f"/weather/{last['id']}", index="1")["value"] == 4.0
        for conditions, wanted in (
            (["depth>=0.5", "depth<=1.5"], "123"),
            (["name^=n", "depth:=2.0"], "4"),
            (["name=x"], ""),
        ):
            found = get(client, "rows/store", node="/weather", where=conditions, count=2)
            rest = get(client, "rows/store", node="/weather", where=conditions, start=2)
            place = [column["name"] for column in found["columns"] or rest["columns"]].index("name") if wanted else 0
            assert sorted(row[place] for row in found["rows"] + rest["rows"]) == [f"n{number}" for number in wanted]
        for where in ("depth", "nothing=1", "depth=word"):
            answer = client.get("/api/rows/store", params={"node": "/weather", "where": where})
            assert (answer.status_code, answer.json()["error"]["class"]) == (400, "Invalid")
        far = client.get("/api/rows/store", params={"node": "/weather", "where": "depth>=0", "start": 10**9})
        assert far.status_code == 400 and "first 10,000" in far.json()["error"]["message"]

        def found(**query: Any) -> tuple[list[Any], int | None]:
            part = get(client, "rows/store", node="/weather", **query)
            at = [column["name"] for column in part["columns"]].index("name") if part["rows"] else 0
            return [row[at] for row in part["rows"]], part["next"]

        assert found(where=["depth>=0.5", "depth<=1.5"], order="-depth") == (["n3", "n2", "n1"], None)
        assert found(where="name^=n", order="name", start=1, count=2) == (["n1", "n2"], 3)
        assert found(where=["name=n4", "name=n0", "name=x"]) == (["n0", "n4"], None)
        assert found(where="depth>=9") == ([], None)
        assert found(filter="depth>=0.5 and name^=n and depth<=1.5", order="name") == (["n1", "n2", "n3"], None)
        assert found(where="depth>=0.5", filter='name:="n3 and n=4"') == ([], None)
        assert get(client, "rows/store", node="/weather", filter="name=a and b and depth=1")["conditions"] == [
            "name=a and b",
            "depth=1",
        ]
        for wrong in ({"where": "depth"}, {"where": "length=1"}, {"where": "depth=a"}, {"order": "length"}):
            answer = client.get("/api/rows/store", params={"node": "/weather", **wrong})
            assert answer.status_code == 400, wrong
        assert client.get("/api/rows/store", params={"node": "/", "where": "depth=1"}).status_code == 400


def test_attributes_named_like_what_is_told_of_an_array(tmp_path: Path) -> None:
    attributes = [AttributeSchema("id", str, primary=True), AttributeSchema("shape", int, primary=False)]
    with Client(f"file://{tmp_path}/store", durable=False) as store:
        collection = store.create_collection("w", ArraySchema([DimensionSchema("x", 3)], float, attributes))
        ids = {name: collection.create({"id": name}, {"shape": number}).id for number, name in enumerate("ab")}
    with hs.serve(tmp_path / "store", token="") as server, httpx.Client(base_url=server.address) as client:
        for query in ({"order": "-id"}, {"where": "shape>=0", "order": "-id"}, {}):
            found = get(client, "rows/store", node="/w", **query)
            heads = [(column["name"], column.get("order")) for column in found["columns"]]
            assert heads[:2] == [("id", None), ("shape", None)]
            assert set(heads[2:]) == {("id (attribute)", "id"), ("shape (attribute)", "shape")}
            rows = [dict(zip([name for name, _ in heads], row, strict=True)) for row in found["rows"]]
            assert {row["id (attribute)"]: row["id"] for row in rows} == ids
            assert [row["id (attribute)"] for row in rows] == ["b", "a"] or not query
            assert get(client, "cell/store", node=f"/w/{rows[0]['id']}", index="0")["value"] is None


def test_objects_of_a_database(mongo: Mongo) -> None:
    database = f"{mongo.url}/{mongo.database()}"
    save("mongo", f"{database}#{quote('two & <b>')}", dataset("mongo"))
    with hs.serve(database, token="") as server, httpx.Client(base_url=server.address) as client:
        (place,) = server.zarr_urls
        assert get(client, f"browse/{place}") == {
            "kind": "database",
            "path": place,
            "names": ["two & <b>"],
            "is_whole": True,
        }
        found = get(client, f"rows/{place}", count=1)
        row = dict(zip([column["name"] for column in found["columns"]], found["rows"][0], strict=True))
        assert (row["name"], row["kind"], found["total"]) == ("two & <b>", "Dataset", 1)
        assert "air" in row["variables"]
        assert get(client, f"rows/{place}", where="name=two & <b>")["total"] == 1
        assert get(client, f"rows/{place}", where=["name=two & <b>", "source=none"])["total"] == 0
        assert get(client, f"rows/{place}", filter="name^=two and depth!=2 and source=null")["total"] == 1
        assert get(client, f"rows/{place}", filter="depth>=2 or source~=n*")["total"] == 0
        for wrong in ({"where": "name"}, {"filter": "name=a or depth=1"}, {"order": "nothing"}):
            assert client.get(f"/api/rows/{place}", params=wrong).json()["error"]["class"] == "Invalid"
        for name in ("one and three", "zoo"):
            save("mongo", f"{database}#{quote(name)}", dataset("mongo"))
        assert get(client, f"rows/{place}", filter="name=one and three")["total"] == 1
        by_name, by_age = ["one and three", "two & <b>", "zoo"], ["two & <b>", "one and three", "zoo"]
        orders = {None: by_age, "created": by_age, "-created": by_age[::-1], "name": by_name, "-name": by_name[::-1]}
        for order, wanted in orders.items():
            found = get(client, f"rows/{place}", **({"order": order} if order else {}))
            column = [column["name"] for column in found["columns"]].index("name")
            assert [row[column] for row in found["rows"]] == wanted, order
        for query, wanted in (({"order": "-name"}, by_name[::-1]), ({"filter": "name=zoo"}, ["zoo"])):
            saved = client.get(f"/api/export/{place}", params={"format": "csv", **query})
            rows = list(csv.DictReader(io.StringIO(saved.text)))
            assert [row["name"] for row in rows] == wanted and "air" in json.loads(rows[0]["variables"])
        path = f"{place}/{quote('two & <b>')}"
        assert get(client, f"node/{path}", node="/air")["shape"] == [4, 2, 3]


# -- what strangers ask, and put there ---------------------------------------------------------------------------------


PATHS = (".%2e%2f", "%2e%2e%2f", "..%2f..", "%c0%ae", "a%00b", "%5c", "nowhere", "%2fetc%2fpasswd", "a" * 3000)
QUERIES = (
    {"node": "/../.."},
    {"node": "a/./b"},
    {"node": "/one/x\r\n"},
    {"node": "/nowhere"},
    {"node": ["/one", "/two"]},
    {"node": "/one/x", "index": "0"},
    {"node": "/one/x", "index": "2,0"},
    {"node": "/one/x", "index": "-1,0"},
    {"node": "/one/x", "index": "0," * 900},
    {"node": "/one/x", "index": "9" * 3000},
    {"node": "/one/x", "index": "a,b"},
)


def test_hostile_requests_are_refused(client: httpx.Client, folder: Path) -> None:
    told = {}
    for kind in ("browse", "node", "cell", "rows", "view"):
        for path in PATHS:
            for place in (path, f"{folder.name}/{path}", f"{folder.name}/deeper/a.zarr/{path}"):
                if client.get(f"/api/{kind}/{place}").status_code not in (400, 404):
                    told[f"{kind}/{place}"] = client.get(f"/api/{kind}/{place}").text
        assert (
            client.get(f"/api/{kind}/{folder.name}/deeper/a.zarr", headers={"Host": "evil.example"}).status_code == 403
        )
        assert client.post(f"/api/{kind}").status_code == 405
    for query in QUERIES:
        found = client.get(f"/api/cell/{folder.name}/deeper/a.zarr", params=query)
        if found.status_code not in (400, 404):
            told[str(query)[:80]] = found.text
    for query in (
        {"count": 0},
        {"count": "x"},
        {"start": "-1"},
        {"start": "9" * 99},
        {"node": "/one"},
        {"where": "a=1"},
    ):
        found = client.get(f"/api/rows/{folder.name}/deeper/a.zarr", params={"node": "/words", **query})
        if found.status_code != 400:
            told[str(query)] = found.text
    assert told == {}
    assert get(client, f"rows/{folder.name}/deeper/a.zarr", node="/words", start=10**17)["rows"] == []
    assert client.get("/api/nothing").status_code == client.get("/api/browsed").status_code == 404


def test_the_token_is_asked_for(folder: Path) -> None:
    with hs.serve(folder, token="letmein") as server:
        assert httpx.get(f"{server.address}/api/browse").status_code == 403
        assert httpx.get(f"{server.address}/api/browse", headers=server.headers).status_code == 200


def test_names_and_attributes_of_strangers_are_bounded(tmp_path: Path) -> None:
    document = {"zarr_format": 3, "node_type": "group", "attributes": {f"a{i}": HOSTILE[:-1] for i in range(2000)}}
    place = tmp_path / "a.zarr"
    place.mkdir()
    deep: Any = "end"
    for _ in range(50):
        deep = [deep, {"x": deep}] if len(str(deep)) < 10_000 else [deep]
    document["attributes"]["deep"] = deep
    document["attributes"] = dict(reversed(document["attributes"].items()))
    (place / "zarr.json").write_text(json.dumps(document))
    with hs.open(place, "r+") as root:
        for number in range(30):
            root.create_array(f"x{number}", shape=(2**60,), dtype="u1", chunks=(2**40,))
        root.create_group("long", {f"a{i}": ["é" * 3000] * 30 for i in range(40)})
    (place / "x3" / "zarr.json").write_text("{}")
    with hs.serve(place, token="") as server, httpx.Client(base_url=server.address) as client:
        answer = client.get("/api/node/a.zarr")
        assert (answer.status_code, len(answer.content) < 1 << 20, answer.json()["attributes_are_all"]) == (
            200,
            True,
            False,
        )
        assert len(answer.json()["attributes"]) == 500 and answer.json()["attributes"][0]["cut"]
        listed = {node["path"]: node for node in get(client, "browse/a.zarr")["nodes"]}
        assert (len(listed), listed["/x3"]["kind"], listed["/x4"]["shape"]) == (32, "problem", [2**60])
        assert client.get("/api/node/a.zarr", params={"node": "/x3"}).json()["error"]["class"] == "FormatError"
        long = get(client, "node/a.zarr", node="/long")
        assert 1 <= len(long["attributes"]) < 40 and not long["attributes_are_all"]
        assert len(json.dumps(long)) < 2 << 20
        found = client.get("/api/view/a.zarr", params={"node": "/x4"})
        assert found.status_code in (200, 503)
        assert client.get("/api/rows/a.zarr", params={"node": "/x4"}).status_code in (200, 503)
