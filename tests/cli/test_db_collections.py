"""``hyperslab db`` on collections, in both layouts: listed, described, asked for, cut, checked, relinked."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import hyperslab as hs
from command_line import CliRunner, run
from hyperslab.cli import main
from hyperslab.cli.exit_codes import exit_code
from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    DimensionSchema,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.errors import Conflict
from hyperslab.stores.location import Location
from programs import COMMAND, ran
from servers.s3 import S3

DAY = datetime(2023, 1, 1, tzinfo=UTC)


def db(*arguments: Any) -> Result:
    return run("db", *arguments)


def run_alone(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which logs to stderr."""
    return ran(COMMAND, *arguments)


def document(*arguments: Any) -> Any:
    result = db(*arguments, "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


def ids(*arguments: Any) -> list[str]:
    return [array["id"] for array in document("query", *arguments)["arrays"]]


@pytest.fixture(params=["hyperslab", "deker"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    dims = [
        TimeDimensionSchema("hour", 4, "$dt", timedelta(hours=6)),
        DimensionSchema("lat", 3, scale=Scale(60.0, -2.5)),
        DimensionSchema("layer", 2, labels=["warm", "wet"]),
    ]
    attributes = [
        AttributeSchema("dt", datetime, True),
        AttributeSchema("station", str, True),
        AttributeSchema("height", int, False),
        AttributeSchema("place", tuple, False),
    ]
    with Client(tmp_path / "weather.db") as client:
        air = client.create_collection("air", ArraySchema(dims, np.float32, attributes), layout=request.param)
        for day in range(3):
            for station in ("KEF", "LRW"):
                key = {"dt": DAY + timedelta(days=day), "station": station}
                array = air.create(key, {"height": 10 * day, "place": (day, "x") if day else None})
                array[:].update(np.full((4, 3, 2), day, "f4"))
        tiles = VArraySchema([DimensionSchema("y", 4), DimensionSchema("x", 6)], int, vgrid=(2, 3))
        client.create_collection("tiles", tiles, layout=request.param)
    return tmp_path / "weather.db"


def test_list(root: Path) -> None:
    air, tiles = document("list", root)["collections"]
    assert (air["name"], air["kind"], air["arrays"], air["dimensions"]) == (
        "air",
        "array",
        6,
        {"hour": 4, "lat": 3, "layer": 2},
    )
    assert (tiles["kind"], tiles["arrays"]) == ("varray", 0)
    assert db("list", root).stdout.splitlines()[0].split() == [
        "name", "kind", "layout", "dtype", "dimensions", "attributes", "arrays"
    ]  # fmt: skip
    assert len(document("list", root, "--limit", 1)["collections"]) == 1
    assert db("list", root, "--attr", "a=1").exit_code == 2
    (root.parent / "empty" / "collections").mkdir(parents=True)
    assert db("list", root.parent / "empty").stderr == "no collections\n"
    nowhere = db("query", root.parent / "nowhere", "air")
    assert (nowhere.exit_code, "there is nothing" in nowhere.stderr) == (3, True)


def test_a_damaged_collection_is_told_and_hides_no_other(root: Path) -> None:
    next((root / "collections" / "air").glob("*.json")).write_text("{")
    result = run_alone("db", "list", root)
    assert (result.returncode, [line.split()[0] for line in result.stdout.splitlines()]) == (0, ["name", "tiles"])
    assert "passed over" in result.stderr and "air" in result.stderr
    assert run_alone("db", "list", root, "--quiet").stderr == ""


def test_damaged_arrays_are_counted(root: Path) -> None:
    path = next(path for path in root.rglob("*") if path.name == "zarr.json" or path.suffix == ".hdf5")
    path.write_bytes(b"damaged")
    os.utime(path, (1e9, 1e9))
    said = f"1 array that cannot be read is left out of air: hyperslab check {root} tells why\n"
    # An index in a file hears of it when the array is read.
    for arguments in (("query", root, "air"), ("arrays", root, "air")):
        result = db(*arguments)
        assert result.exit_code == 0
        assert said in result.stderr
    for index in root.rglob("index.sqlite*"):
        index.unlink()
    assert said in db("list", root).stderr
    assert [array["arrays"] for array in document("list", root)["collections"]] == [5, 0]
    assert db("query", root, "air", "--quiet").stderr == ""


def test_schema(root: Path) -> None:
    assert [dim["name"] for dim in document("schema", root, "air")["collection"]["schema"]["dimensions"]] == [
        "hour",
        "lat",
        "layer",
    ]
    text = db("schema", root, "air").stdout
    for words in ("from $dt by 6:00:00", "from 60.0 by -2.5", "warm, wet", "string", "primary", "float32"):
        assert words in text
    assert "tiles" in db("schema", root, "tiles").stdout


def test_arrays(root: Path) -> None:
    lines = db("arrays", root, "air", "--limit", 2).stdout.splitlines()
    assert [line.split()[1:3] for line in lines] == [
        ["dt", "station"],
        ["2023-01-01T00:00:00+00:00", "KEF"],
        ["2023-01-01T00:00:00+00:00", "LRW"],
    ]
    assert db("arrays", root, "tiles").stderr == "no arrays\n"


@pytest.mark.covering
@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ((), 6),
        (("station=KEF",), 3),
        (("station=KEF", "station=LRW"), 6),
        (("station^=K",), 3),
        (("dt=2023-01-02",), 2),
        (("dt=2023-01-02T00:00:00Z", "station=LRW"), 1),
        (("dt>=2023-01-02", "dt<=2023-01-03"), 4),
        (("height>=10",), 4),
        (("height>=10", "and", "station=KEF"), 2),
        (("height>=10 and station=KEF or station=LRW",), 5),
        (("height<=10", "station^=L"), 2),
        (("height:=20",), 2),
        (('place=[1, "x"]',), 2),
        (("place=null",), 2),
        (("station=nobody",), 0),
    ],
)
def test_query(root: Path, conditions: tuple[str, ...], count: int) -> None:
    assert len(ids(root, "air", *conditions)) == count


def test_floats_that_are_no_numbers_are_shown(tmp_path: Path) -> None:
    schema = ArraySchema(
        [DimensionSchema("x", 1)], float, [AttributeSchema("n", int, True), AttributeSchema("bias", float, False)]
    )
    with Client(tmp_path) as client:
        runs = client.create_collection("runs", schema)
        for n, bias in enumerate((float("inf"), float("nan"), 0.5, None)):
            runs.create({"n": n}, {"bias": bias})
    rows = [line.split()[1:] for line in db("arrays", tmp_path, "runs").stdout.splitlines()]
    assert rows == [["n", "bias"], ["0", "inf"], ["1", "nan"], ["2", "0.5"], ["3"]]


def test_text_that_no_encoding_can_write_is_shown(tmp_path: Path) -> None:
    schema = ArraySchema([DimensionSchema("x", 1)], float, [AttributeSchema("s", str, True)])
    with Client(tmp_path) as client:
        client.create_collection("odd", schema).create({"s": "a\ud800"})
    shown = db("arrays", tmp_path, "odd")
    assert (shown.exit_code, "a\\ud800" in shown.stdout) == (0, True)
    assert document("arrays", tmp_path, "odd")["arrays"][0]["primary_attributes"] == {"s": "a\ud800"}


def test_query_orders_and_limits(root: Path) -> None:
    found = document("query", root, "air", "station=KEF", "--order", "-dt", "--limit", 2)["arrays"]
    assert [array["custom_attributes"]["height"] for array in found] == [20, 10]


@pytest.mark.covering
@pytest.mark.parametrize(
    "conditions",
    [
        ("dt",),
        ("=1",),
        ("nothing=1",),
        ("height=high",),
        ("dt=never",),
        ("height=1", "height>=2"),
        ("place=x",),
        ("height:={",),
        ("place==x",),
        ("not height=1",),
        ("(height=1 or height=2) and height>=1",),
    ],
)
def test_conditions_that_make_no_sense(root: Path, conditions: tuple[str, ...]) -> None:
    result = db("query", root, "air", *conditions)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


def test_the_help_tells_whole_sentences_and_both_kinds_of_places() -> None:
    _, *said = db("--help").stdout.splitlines()
    assert not any(line.endswith("...") for line in said) and "weather.db" in said[-1]
    assert "weather.db" in db("list", "--help").stdout


def test_get(root: Path, tmp_path: Path) -> None:
    wanted = ("get", root, "air", "dt=2023-01-03", "station=KEF")
    lines = db(*wanted, "-s", "hour=2023-01-03T06:00", "-s", "lat=60.0..57.5", "-s", "layer=wet").stdout.splitlines()
    assert [line.split() for line in lines[1:]] == [["60.0", "2.0"], ["57.5", "2.0"]]
    said = document(*wanted, "-s", "lat=60.0")
    assert said["coordinates"]["layer"] == ["warm", "wet"]
    assert said["coordinates"]["hour"][1].startswith("2023-01-03T06:00")
    for end in ("npy", "csv", "json", "nc", "zarr"):
        assert db(*wanted, "-s", "layer=wet", "-o", tmp_path / f"part.{end}").exit_code == 0
    assert np.array_equal(np.load(tmp_path / "part.npy"), np.full((4, 3), 2, "f4"))
    part = hs.open_group(tmp_path / "part.nc")
    assert part["lat"][...].tolist() == [60.0, 57.5, 55.0]
    first = ids(root, "air")[0]
    assert db("get", root, "air", first, "-s", "lat=61.0", "--nearest").exit_code == 0
    assert db("get", root, "air", first, "-s", "lat=61.0").exit_code != 0


@pytest.mark.parametrize("option", ["--overwrite", "--allow-loss"])
def test_get_takes_no_options_of_objects(root: Path, tmp_path: Path, option: str) -> None:
    result = db("get", root, "air", ids(root, "air")[0], "-o", tmp_path / "part.npy", option)
    assert (result.exit_code, f"{option} for objects of a server" in result.stderr) == (2, True)
    assert not (tmp_path / "part.npy").exists()


def test_get_names_one_array(root: Path) -> None:
    several = db("get", root, "air", "dt=2023-01-02")
    assert (several.exit_code, "several arrays" in several.stderr) == (2, True)
    nobody = db("get", root, "air", "station=nobody")
    assert (nobody.exit_code, "hyperslab db arrays" in nobody.stderr) == (3, True)
    assert db("get", root, "air", "00000000-0000-0000-0000-000000000000").exit_code == 3
    assert db("get", root, "air", "no-id").exit_code == 2
    assert db("get", root).exit_code == 2


def test_get_writes_files_whose_ending_says_what_they_hold(root: Path, tmp_path: Path) -> None:
    result = db("get", root, "air", ids(root, "air")[0], "-o", tmp_path / "x.txt")
    assert (result.exit_code, ".npy, .csv, .json" in result.stderr) == (2, True)
    assert not (tmp_path / "x.txt").exists()


def test_what_is_not_there(root: Path) -> None:
    missing = db("schema", root, "aire")
    assert (missing.exit_code, "did you mean 'air'" in missing.stderr) == (3, True)
    nothing = db("list", root / "nothing")
    assert (nothing.exit_code, nothing.stderr.endswith("; check the spelling\n")) == (3, True)
    of_server = db("info", root)
    assert (of_server.exit_code, "db list, schema" in of_server.stderr) == (8, True)
    for verb in ("query", "arrays", "schema"):
        server = db(verb, "mongodb://localhost/climate", "air")
        assert (server.exit_code, f"db {verb} of a server" in server.stderr) == (8, True)


def test_nothing_is_written_by_looking(root: Path) -> None:
    before = sorted(root.rglob("*"))
    for arguments in (("list", root), ("arrays", root, "air"), ("check", root, "--deep")):
        assert db(*arguments).exit_code == 0
    assert sorted(root.rglob("*")) == before


def test_check(root: Path) -> None:
    assert document("check", root, "--deep") == {
        "schema": "hyperslab.db-check/1", "url": str(root), "deep": True, "sound": True, "problems": []
    }  # fmt: skip
    path = next((root / "collections" / "air").glob("*.json"))
    path.write_text("{")
    result = db("check", root)
    assert result.exit_code == 1
    assert "air" in result.stdout


@pytest.mark.parametrize("root", ["deker"], indirect=True)
def test_relink_after_a_copy(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    shutil.copytree(root, copy, symlinks=True)
    told = db("check", copy).stdout.splitlines()
    assert [line[: line.index(" links, ")] for line in told] == ["/air: moved-link: DEKER will not follow 6"]
    assert "mend: make the links anew, as hyperslab db relink does" in run("repair", copy).stdout
    assert document("relink", copy)["collections"] == ["air", "tiles"]
    links = [path for path in copy.rglob("*") if path.is_symlink()]
    assert links
    assert all(str(path.readlink()).startswith(str(copy)) for path in links)
    assert db("relink", copy, "air", "--relative").exit_code == 0
    assert all(
        not path.readlink().is_absolute() for path in (copy / "collections" / "air").rglob("*") if path.is_symlink()
    )
    assert db("check", copy).exit_code == 0


def test_relink_where_no_links_are(tmp_path: Path) -> None:
    with Client(str(tmp_path / "own.db")) as client:
        client.create_collection("air", ArraySchema([DimensionSchema("x", 2)], float, []))
    assert "no collection of" in db("relink", tmp_path / "own.db").stderr


def test_other_commands_show_collections(root: Path) -> None:
    of_all = run("info", root)
    assert ("air" in of_all.stdout, f"hyperslab db list {root} prints" in of_all.stderr) == (True, True)
    assert run("info", f"{root}/air").stderr == ""
    assert len(run("tree", root).stdout.splitlines()) == 9
    first = ids(root, "air")[0]
    assert "1 chunk" in run("plan", root, f"air/{first}", "-s", "lat=60.0").stdout
    assert "group: air" in run("dump", root, "-h").stdout
    assert run("get", root, f"air/{first}", "-s", "lat=60.0", "-s", "layer=wet").stdout.count("\n") == 5


def test_an_attribute_is_added(root: Path) -> None:
    is_own = document("list", root)["collections"][0]["layout"] == "hyperslab"
    result = db("add-attribute", root, "air", "quality", "int", "--default", "3")
    if not is_own:
        assert result.exit_code != 0 and "DEKER" in result.stderr
        return
    assert result.exit_code == 0, result.output
    assert len(ids(root, "air", "quality=3")) == 6
    assert db("add-attribute", root, "air", "seen", "datetime", "--default", "2026-01-02").exit_code == 0
    assert "2026-01-02" in db("schema", root, "air").stdout
    assert document("add-attribute", root, "air", "flag", "string")["collection"]["schema"]["attributes"][-1] == {
        "name": "flag", "primary": False, "dtype": "string", "default": None
    }  # fmt: skip
    assert db("add-attribute", root, "air", "flag", "string").exit_code != 0
    assert db("add-attribute", root, "air", "other", "int", "--default", "x").exit_code != 0
    assert db("add-attribute", root, "air", "other", "no-type").exit_code != 0


def test_types_of_attributes_are_named_where_one_is_misspelt(root: Path) -> None:
    result = db("add-attribute", root, "air", "more", "integer")
    assert (result.exit_code, "int, float, complex, string" in result.stderr) == (2, True)


def test_an_attribute_is_renamed_and_removed(root: Path) -> None:
    is_own = document("list", root)["collections"][0]["layout"] == "hyperslab"
    if not is_own:
        for words in (
            ("remove-attribute", root, "air", "station", "--yes"),
            ("rename-attribute", root, "air", "a", "b"),
        ):
            result = db(*words)
            assert result.exit_code != 0 and "DEKER" in result.stderr
        return
    db("add-attribute", root, "air", "quality", "int", "--default", "3")
    assert db("rename-attribute", root, "air", "quality", "flag").exit_code == 0
    assert len(ids(root, "air", "flag=3")) == 6
    assert document("rename-attribute", root, "air", "station", "site")["collection"]["name"] == "air"
    assert len(ids(root, "air", "site=KEF")) == 3
    assert db("rename-attribute", root, "air", "site", "flag").exit_code != 0
    assert run_alone("db", "remove-attribute", root, "air", "flag").returncode != 0  # nobody answers
    assert len(ids(root, "air", "flag=3")) == 6
    assert db("remove-attribute", root, "air", "flag", "--yes").exit_code == 0
    assert db("query", root, "air", "flag=3").exit_code != 0
    assert db("remove-attribute", root, "air", "site", "--yes").exit_code != 0
    assert db("check", root).exit_code == 0


def test_a_collection_is_renamed(root: Path) -> None:
    is_own = document("list", root)["collections"][0]["layout"] == "hyperslab"
    assert db("rename", root, "air").exit_code == 2
    result = db("rename", root, "air", "wind")
    if is_own:
        assert result.exit_code == 0, result.output
        assert len(ids(root, "wind")) == 6
        assert db("query", root, "air").exit_code != 0
        assert db("rename", root, "wind", "tiles").exit_code != 0
    assert [each["name"] for each in document("list", root)["collections"]] == ["tiles", "wind"] if is_own else True


def test_arrays_and_collections_are_deleted(root: Path) -> None:
    kept = ids(root, "air", "station=KEF")
    assert run_alone("db", "delete", root, "air", "station=LRW").returncode != 0  # nobody answers
    assert sorted(ids(root, "air", "station=KEF")) == sorted(kept) and len(ids(root, "air")) == 6
    assert document("delete", root, "air", "station=LRW", "--yes")["arrays"] == 3
    assert sorted(ids(root, "air")) == sorted(kept)
    assert db("delete", root, "air", kept[0], "--yes").exit_code == 0
    assert sorted(ids(root, "air")) == sorted(kept[1:])
    assert db("delete", root, "air", "station=LRW", "--yes").exit_code == 0
    assert len(ids(root, "air")) == 2
    assert db("delete", root, "--yes").exit_code == 2
    assert db("delete", root, "none", "--yes").exit_code != 0
    assert db("delete", root, "air", "--yes").exit_code == 0
    assert [each["name"] for each in document("list", root)["collections"]] == ["tiles"]


class _YesAfter(io.RawIOBase):
    """A person who answers yes to the first question, once ``change`` is made."""

    def __init__(self, change: Callable[[], object]) -> None:
        self._change = change
        self._answer = io.BytesIO(b"y\n")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if len(buffer) and not self._answer.tell():
            self._change()
        return self._answer.readinto(buffer)


@pytest.mark.parametrize("verb", ["delete", "get", "versions"])
def test_a_word_that_is_no_id_and_no_condition_is_answered_with_what_is(root: Path, verb: str) -> None:
    result = db(verb, root, "air", "height<10")
    assert (result.exit_code, "'height<10' is no id, and no condition" in result.stderr) == (2, True)
    assert "ATTR<=VALUE" in result.stderr and "hyperslab db query lists" in result.stderr
    before = ids(root, "air")
    assert db("delete", root, "air", before[0], "--yes").exit_code == 0 and ids(root, "air") == before[1:]
    found = ids(root, "air", "height<=10")
    assert found and document("delete", root, "air", "height<=10", "--yes")["ids"] == found


def _delete_and_answer(change: Callable[[], object], *arguments: Any) -> Result:
    return CliRunner().invoke(main, ["db", "delete", *map(str, arguments)], input=_YesAfter(change))


def test_only_arrays_that_were_shown_and_still_meet_the_conditions_are_deleted(root: Path) -> None:
    early, later = ids(root, "air", "height<=10", "--order", "height")[::3]
    with Client(root) as client:
        air = client.get_collection("air")
        assert air is not None

        def change() -> None:
            air[early].update_custom_attributes({"height": 99})
            air.create({"dt": DAY + timedelta(days=9), "station": "KEF"}, {"height": 5, "place": None})

        result = _delete_and_answer(change, root, "air", "height<=10")
    assert result.exit_code == 0 and "Remove 4 arrays" in result.stderr, result.output
    assert "1 array no longer met the conditions" in result.stderr and "3 arrays of the collection" in result.stderr
    assert ids(root, "air", "height=99") == [early] and later not in ids(root, "air")
    assert len(ids(root, "air", "height=5")) == 1


def test_a_collection_that_grew_while_its_end_was_asked_about_stays(root: Path) -> None:
    with Client(root) as client:
        air = client.get_collection("air")
        assert air is not None
        key = {"dt": DAY + timedelta(days=9), "station": "KEF"}
        result = _delete_and_answer(lambda: air.create(key, {"height": 5}), root, "air")
    assert result.exit_code == exit_code(Conflict("")) and "has 7 arrays by now" in result.stderr, result.output
    assert len(ids(root, "air")) == 7
    assert _delete_and_answer(lambda: None, root, "air").exit_code == 0
    assert [each["name"] for each in document("list", root)["collections"]] == ["tiles"]


def test_doctor_of_a_database_without_collections(tmp_path: Path) -> None:
    Client(str(tmp_path / "none.db")).close()
    told = run("doctor", str(tmp_path / "none.db"))
    assert (told.exit_code, told.stdout, told.stderr.strip()) == (0, "", "no collections")


@pytest.mark.parametrize("place", ["disk", "bucket"])
def test_the_index_is_told_and_made_anew(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url, storage = str(tmp_path / "own.db"), dict[str, Any]()
    if place == "bucket":
        s3: S3 = request.getfixturevalue("s3")
        url, storage = f"s3://{s3.bucket()}/own.db", s3.options
    options = [part for name, value in storage.items() for part in ("--storage-option", f"{name}={value}")]
    with Client(url, storage_options=storage or None) as client:
        schema = ArraySchema([DimensionSchema("x", 2)], float, [AttributeSchema("k", int, True)])
        for kind in ("stored", "memory"):
            made = client.create_collection(kind, schema, index=kind)
            made.create_many({"k": number} for number in range(20))

    def states() -> dict[str, Any]:
        result = run("doctor", url, *options, "--json")
        return {state["collection"]: state for state in json.loads(result.stdout)["indexes"]}

    assert states()["stored"]["stale"] == 0 and states()["stored"]["nbytes"] > 0
    assert (states()["memory"]["place"], states()["memory"]["nbytes"]) == ("", 0)
    assert [line.split()[-1] for line in run("doctor", url, *options).stdout.splitlines()] == ["state", "bytes", "date"]
    store = Location.of(url, storage or None).store(read_only=False)
    for part in store.list_dir("collections/stored/generations")[0][:3]:
        store.touch(f"collections/stored/generations/{part}")
    assert states()["stored"]["stale"] == 3
    told = run("doctor", url, *options)
    assert "3 of " in told.stdout and f"hyperslab db index {url} COLLECTION" in told.stderr
    (state,) = document("index", url, "stored", *options)["indexes"]
    assert (state["collection"], state["stale"]) == ("stored", 0) and states()["stored"] == state
    for refused in (["memory"], [], ["stored", "--attr", "k"], ["nothing"]):
        assert db("index", url, *refused, *options).exit_code not in (0, 1)
