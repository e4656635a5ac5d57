"""``hyperslab db`` against a real server: what is listed, moved, removed, checked; exit codes; no secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bson import ObjectId
from click.testing import Result
from pymongo import MongoClient
from pymongo.database import Database

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from programs import COMMAND, ran
from servers.mongo import SECRET, Mongo, running_mongod


def run(*arguments: Any, answer: str = "") -> Result:
    return CliRunner().invoke(main, ["db", *map(str, arguments)], input=answer)


def document(*arguments: Any) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


@pytest.fixture
def url(mongo: Mongo) -> str:
    return f"{mongo.url}/{mongo.database()}"


@pytest.fixture
def db(url: str) -> Iterator[Database[Any]]:
    """Two objects, made the day before yesterday and now."""
    with MongoClient[Any](url) as client:
        db = client.get_default_database()
        x = {"dims": ["x"], "dtype": "<i8", "shape": [2], "chunks": None, "type": "ndarray", "data": bytes(16)}
        lazy = {"dims": ["x", "y"], "dtype": "<f4", "shape": [2, 3], "chunks": [[1, 1], [3]], "type": "ndarray"}
        old = ObjectId.from_datetime(datetime.now(UTC) - timedelta(days=2))
        attrs = {"station": "KEF", "year": 2020, "flag": "5"}
        db["xarray.meta"].insert_many(
            [
                {"_id": old, "coords": {}, "data_vars": {"__DataArray__": x}, "chunkSize": 100, "name": "temperature"},
                {"coords": {"x": x}, "data_vars": {"t2m": lazy}, "chunkSize": 100, "attrs": attrs, "name": "air"},
            ]
        )
        air = db["xarray.meta"].find_one({"name": "air"}) or {}
        chunk = {"meta_id": air["_id"], "name": "t2m", "n": 0, "dtype": "<f4", "shape": [1, 3], "type": "ndarray"}
        data = np.arange(3, dtype="<f4").tobytes()
        db["xarray.chunks"].insert_many([{**chunk, "chunk": [i, 0], "data": data} for i in (0, 1)])
        yield db


def names(url: str, *arguments: str) -> list[str]:
    return [each["name"] for each in document("list", url, *arguments)["objects"]]


def test_list(db: Database[Any], url: str) -> None:
    lines = run("list", url).stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["name", "temperature", "air"]
    assert "Dataset    x: 2, y: 3  x, t2m" in lines[2]
    first, _ = document("list", url)["objects"]
    old = db["xarray.meta"].find_one({"name": "temperature"}) or {}
    assert first == {
        "id": str(old["_id"]),
        "name": "temperature",
        "kind": "DataArray",
        "dims": {"x": 2},
        "variables": ["__DataArray__"],
        "attrs": {},
        "created": str(old["_id"].generation_time),
        "nbytes": 16,
        "status": None,
        "retired": None,
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--attr", "station=KEF"], ["air"]),
        (["--attr", "year=2020"], ["air"]),
        (["--attr", "flag=5"], ["air"]),
        (["--attr", "flag:=5"], []),
        (["--attr", "year:=2020", "--attr", "station=KEF"], ["air"]),
        (["--attr", "$where=true"], []),
        (["--dim", "y"], ["air"]),
        (["--dim", "x=2", "--dim", "y=3"], ["air"]),
        (["--dim", "x=3"], []),
        (["--variable", "t2m"], ["air"]),
        (["--name", "temperature"], ["temperature"]),
        (["--limit", "1"], ["temperature"]),
        (["--limit", "1", "--newest"], ["air"]),
    ],
)
def test_list_what_is_asked_for(db: Database[Any], url: str, arguments: list[str], expected: list[str]) -> None:
    assert names(url, *arguments) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["year>=2020"], ["air"]),
        (["year<=2019"], []),
        (["year!=2020"], ["temperature"]),
        (["station^=K", "flag~=[0-9]"], ["air"]),
        (["station=LRW or station=KEF and year>=2000"], ["air"]),
        (["station=KEF or station=null", "year=2020"], None),
        (["year=2020", "year=2021"], ["air"]),
        (["station:=null"], ["temperature"]),
        (["station=null"], ["temperature"]),
        (["station!=null"], ["air"]),
    ],
)
def test_conditions_upon_attributes(db: Database[Any], url: str, said: list[str], expected: list[str] | None) -> None:
    words = [word for text in said for word in ("--attr", text)]
    if expected is None:
        assert (run("list", url, *words).exit_code, "write all in one" in run("list", url, *words).stderr) == (2, True)
    else:
        assert names(url, *words) == expected


def test_a_query_of_the_server_is_no_value(url: str) -> None:
    answer = run("list", url, "--attr", 'station:={"$gt": ""}')
    assert (answer.exit_code, "query of MongoDB" in answer.output) == (2, True)


def test_a_rehearsal_that_finds_nothing_says_so_alone(db: Database[Any], url: str) -> None:
    assert run("expire", url, "--older-than", "90d", "--dry-run").output == "nothing to remove\n"
    shown = run("expire", url, "--older-than", "1d", "--dry-run")
    assert "temperature" in shown.stdout
    assert "without --dry-run" in shown.stderr


def test_list_by_date(db: Database[Any], url: str) -> None:
    yesterday = (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="seconds")
    assert names(url, "--since", yesterday) == ["air"]
    assert names(url, "--until", yesterday) == ["temperature"]


def test_another_collection(db: Database[Any], url: str) -> None:
    db["other.meta"].insert_one({"coords": {}, "data_vars": {}, "chunkSize": 1, "name": "there"})
    assert names(f"{url}?collection=other") == ["there"]
    assert names(f"{url}?collection=none") == []
    nothing = run("list", f"{url}?collection=none")
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "no objects\n")


def test_info(db: Database[Any], url: str) -> None:
    told = document("info", f"{url}#air")
    assert (told["name"], told["kind"], told["dimensions"], told["nbytes"]) == ("air", "Dataset", {"x": 2, "y": 3}, 40)
    assert [(one["name"], one["chunks"], one["stored"]) for one in told["variables"]] == [
        ("x", None, "embedded"),
        ("t2m", [1, 3], "dense"),
    ]
    assert document("info", f"{url}#{told['id']}") == {**told, "url": f"{url}#{told['id']}"}
    text = run("info", f"{url}#air").stdout
    assert "station: KEF" in text
    assert "t2m   <f4    x: 2, y: 3  1 x 3   dense" in text
    all = document("info", url)
    assert (all["objects"], all["chunk_documents"], all["indexes"]) == (2, 2, ["_id_"])
    assert run("info", url).exit_code == 0


def test_get_and_put(db: Database[Any], url: str, tmp_path: Path) -> None:
    assert run("get", f"{url}#air", "-o", tmp_path / "air.zarr").exit_code == 0
    with hs.open(tmp_path / "air.zarr") as root:
        assert root["t2m"][:].tolist() == [[0, 1, 2], [0, 1, 2]]
        assert root.attrs["station"] == "KEF"
    assert run("get", f"{url}#air", "-o", tmp_path / "air.zarr").exit_code == 4
    assert run("get", f"{url}#air", "-o", tmp_path / "air.zarr", "--overwrite").exit_code == 0
    assert run("get", f"{url}#temperature", "-o", tmp_path / "t.npy").exit_code == 0
    assert np.load(tmp_path / "t.npy").tolist() == [0, 0]
    assert document("put", tmp_path / "air.zarr", f"{url}#copy")["source"] == str(tmp_path / "air.zarr")
    assert names(url, "--dim", "y") == ["air", "copy"]
    taken = run("put", tmp_path / "air.zarr", f"{url}#copy")
    assert taken.exit_code == 4
    assert "--overwrite" in taken.stderr
    with hs.open(tmp_path / "air.zarr", "r+") as root:
        root["t2m"][:] = 7
    assert run("put", tmp_path / "air.zarr", f"{url}#copy", "--overwrite").exit_code == 0
    assert names(url, "--dim", "y") == ["air", "copy"]
    with hs.open(f"{url}#copy") as root:
        assert root["t2m"][:].tolist() == [[7] * 3] * 2
    assert run("check", url).stdout == ""
    assert document("gc", url, "--age", "0")["garbage"] == []


def test_delete(db: Database[Any], url: str) -> None:
    asked = run("delete", f"{url}#air", answer="n\n")
    assert (asked.exit_code, asked.stdout.strip()) in [(0, ""), (0, "n")]  # click before 8.2 echoes the answer
    assert "Remove the Dataset air (" in asked.stderr
    unanswered = ran(COMMAND, "db", "delete", f"{url}#air")
    assert (unanswered.returncode, "--yes" in unanswered.stderr) == (2, True)
    assert names(url) == ["temperature", "air"]
    removed = run("delete", f"{url}#air", answer="y\n")
    assert removed.exit_code == 0 and re.search(r"the Dataset air \(\w{24}\) was removed: \d+ document", removed.stderr)
    assert db["xarray.chunks"].count_documents({}) == 0
    assert document("delete", f"{url}#temperature", "--yes")["documents"] == 1
    assert names(url) == []
    assert run("delete", f"{url}#temperature", "--yes").exit_code == 3


def test_check(db: Database[Any], url: str) -> None:
    assert (run("check", url).exit_code, run("check", url).output) == (0, "")
    db["xarray.chunks"].delete_one({"chunk": [1, 0]})
    result = run("check", f"{url}#air", "--deep")
    assert (result.exit_code, result.stdout) == (1, "/t2m: missing-chunk: 1 of 2 chunks are not stored: t2m[1, 0]\n")
    told = document("check", url)
    assert (told["sound"], [one["kind"] for one in told["problems"]]) == (False, ["missing-chunk"])
    assert told["problems"][0]["node"].endswith("/t2m")


def test_gc(db: Database[Any], url: str) -> None:
    lost = ObjectId.from_datetime(datetime(2020, 1, 1, tzinfo=UTC))
    db["xarray.chunks"].insert_one({"_id": lost, "meta_id": lost, "name": "d", "chunk": None, "n": 0, "data": b"1"})
    young = {"_id": ObjectId(), "meta_id": ObjectId(), "name": "d", "chunk": None, "n": 0, "data": b"1"}
    db["xarray.chunks"].insert_one(young)
    shown = run("gc", url)
    assert shown.stdout.startswith(f"{lost}: no-object: ")
    assert "--apply" in shown.stderr
    assert document("gc", url)["garbage"] == [{"kind": "no-object", "id": str(lost), "documents": 1, "nbytes": 81}]
    assert db["xarray.chunks"].count_documents({}) == 4
    assert "1 documents, 81 bytes removed" in run("gc", url, "--apply").stderr
    assert db["xarray.chunks"].count_documents({}) == 3
    assert document("gc", url, "--apply", "--age", "0")["applied"]
    assert db["xarray.chunks"].count_documents({}) == 2
    assert "nothing to remove" in run("gc", url, "--age", "0").stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["info", "{url}#none"], 3, "did you mean|there are"),
        (["info", "{url}#" + "ab" * 12], 3, "no object"),
        (["delete", "{url}", "--yes"], 2, "#name"),
        (["get", "{url}", "-o", "x.zarr"], 2, "#name"),
        (["put", "x.nc", "{url}"], 2, "#name"),
        (["list", "{url}#air"], 2, "#"),
        (["gc", "{url}#air"], 2, "#"),
        (["gc", "{url}", "--age", "-1"], 2, "at least 0"),
        (["list", "{url}", "--since", "soon"], 2, "2024-01-31"),
        (["list", "{url}", "--attr", "a>=1", "--attr", "a>=2"], 2, "two conditions"),
        (["list", "{url}", "--attr", "station"], 2, "no condition"),
        (["list", "{url}", "--attr", "station==KEF"], 2, "write = alone"),
        (["list", "{url}", "--attr", "station!==KEF"], 2, "write != alone"),
        (["list", "{url}", "--attr", "not station=KEF"], 2, "ATTR!=VALUE"),
        (["list", "{url}", "--attr", "NOT(station=KEF)"], 2, "ATTR!=VALUE"),
        (["list", "{url}", "--attr", "(station=KEF or year=1) and flag=5"], 2, "without brackets"),
        (["list", "{url}", "--attr", "or station=KEF"], 2, "without brackets"),
        (["query", "{url}", "station=KEF"], 8, "db list URL --attr"),
        (["versions", "{url}#air", "station=KEF"], 2, "behind #"),
        (["list", "{url}", "--dim", "x=many"], 2, "--dim time"),
        (["list", "mongodb://127.0.0.1:9"], 2, "database"),
        (["list", "mongodb://127.0.0.1:9/a.b"], 2, "choose another name"),
        (["list", "mongodb://127.0.0.1:9/db?collection=a$b"], 2, "choose another name"),
        (["list", "{url}" + "a" * 70], 2, "choose another name"),
        (["list", "mongodb://u:" + SECRET[:3] + "/{secret}@127.0.0.1:9/db"], 2, "escaped"),
        (["list", "{url}", "--storage-option", "usrname=u"], 2, "username"),
        (["info", "air.zarr"], 8, "mongodb://"),
        (["list", "air.zarr"], 3, "nothing"),
        (["list", "mongodb://u:{secret}@127.0.0.1:9/db?serverSelectionTimeoutMS=100"], 7, "server"),
    ],
)
def test_what_goes_wrong(db: Database[Any], url: str, arguments: list[str], code: int, said: str) -> None:
    result = run(*(text.replace("{url}", url).replace("{secret}", SECRET) for text in arguments))
    assert result.exit_code == code, result.output
    assert any(text in result.stderr for text in said.split("|")), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert SECRET not in result.output
    assert "//u:" not in result.output


def test_an_ambiguous_name(db: Database[Any], url: str) -> None:
    db["xarray.meta"].update_many({}, {"$set": {"name": "same"}})
    ids = [str(row["_id"]) for row in db["xarray.meta"].find()]
    result = run("info", f"{url}#same")
    assert result.exit_code == 2
    assert all(id in result.stderr for id in ids)


def test_a_user_who_may_only_read(tmp_path: Path) -> None:
    with running_mongod(auth=True, dbpath=tmp_path) as server:
        name = server.database()
        reader = server.user("reader", {"role": "read", "db": name}).replace("/?", f"/{name}?")
        with MongoClient[Any](server.admin) as admin:
            admin[name]["xarray.meta"].insert_one({"coords": {}, "data_vars": {}, "chunkSize": 1, "name": "one"})
        assert names(reader) == ["one"]
        assert document("info", reader)["objects"] == 1
        assert run("check", f"{reader}#one").exit_code == 0
        assert run("gc", reader, "--apply").exit_code == 0
        refused = run("delete", f"{reader}#one", "--yes")
        assert refused.exit_code == 6
        for arguments in (["list", reader], ["info", reader], ["list", reader, "--json"], ["info", f"{reader}#one"]):
            assert SECRET not in run(*arguments).output
        assert SECRET not in refused.output
        nobody = reader.replace(SECRET, "wrong")
        unknown = run("list", nobody)
        assert unknown.exit_code == 6
        assert "password" in unknown.stderr
        assert "authSource" in unknown.stderr
