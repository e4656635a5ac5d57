"""Collections that keep versions: as of every moment they read as they were then."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.database import ArraySchema, AttributeSchema, Client, Collection, DimensionSchema, VArraySchema
from hyperslab.errors import AlreadyExists, ClientError, HyperslabError, Invalid, ReadOnly, Unsupported
from programs import ran
from servers.s3 import S3

ATTRIBUTES = [AttributeSchema("day", int, primary=True), AttributeSchema("note", str, primary=False)]
WHOLE = ArraySchema([DimensionSchema("x", 4), DimensionSchema("y", 6)], np.int32, ATTRIBUTES, fill_value=-1)
TILED = VArraySchema([DimensionSchema("x", 4), DimensionSchema("y", 6)], np.int32, ATTRIBUTES, -1, arrays_shape=(2, 3))
GROWING = ArraySchema([DimensionSchema("x", None), DimensionSchema("y", 6)], np.int32, ATTRIBUTES, fill_value=-1)

State = dict[int, tuple[str | None, Any]]


def state(collection: Collection) -> State:
    """Return attributes and cells of all arrays, by key."""
    return {
        array.primary_attributes["day"]: (array.custom_attributes["note"], array[:].read().tolist())
        for array in collection
    }


def now() -> datetime:
    """Return the present moment, which is that of no change before or after."""
    time.sleep(0.000_01)
    moment = datetime.now(UTC)
    time.sleep(0.000_01)
    return moment


def past(client: Client, moment: datetime) -> Collection:
    found = client.get_collection("air", at=moment)
    assert found is not None
    return found


@pytest.mark.parametrize("schema", [WHOLE, TILED, GROWING], ids=["whole", "tiled", "growing"])
@pytest.mark.parametrize("index", ["stored", "memory"])
@settings(max_examples=15, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["make", "cells", "note", "remove", "append"]), st.integers(0, 3), st.integers(0, 9)),
        max_size=14,
    )
)
def test_every_moment_reads_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, schema: Any, index: Any, steps: list[tuple[str, int, int]]
) -> None:
    root = tmp_path_factory.mktemp("versions")
    with Client(root, durable=False) as client:
        collection = client.create_collection("air", schema, index=index, keep_versions=True)
        known: list[tuple[datetime, State]] = [(now(), {})]
        for step, day, value in steps:
            array = collection.get(day=day)
            if step == "make" and array is None:
                collection.create({"day": day}, {"note": f"n{value}"})
            elif array is None:
                continue
            elif step == "append" and schema is GROWING:
                array.append(np.full((2, 6), value, np.int32))
            elif step == "cells" and array.shape[0]:
                array[value % array.shape[0] :, value % 6 :].update(value)
            elif step == "note":
                array.update_custom_attributes({"note": f"m{value}"})
            elif step == "remove":
                array.delete()
            known.append((now(), state(collection)))
        for moment, then in known:
            assert state(past(client, moment)) == then
    with Client(root, mode="r") as client:
        for moment, then in known:
            collection = past(client, moment)
            assert state(collection) == then
            assert len(collection) == len(then)
            for day, (note, _) in then.items():
                found = collection.get(day=day)
                assert found is not None and found.custom_attributes["note"] == note
                assert day in [each.primary_attributes["day"] for each in collection.query(note=note)]
            assert collection.get(day=100) is None
    assert not hs.check(root)


def test_what_is_past_takes_no_changes(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = client.create_collection("air", WHOLE, keep_versions=True)
        collection.create({"day": 1})
        then = past(client, now())
        with pytest.raises(ReadOnly):
            then.create({"day": 2})
        with pytest.raises(ReadOnly):
            then.first()[:].update(1)
        with pytest.raises(ReadOnly):
            then.first().update_custom_attributes({"note": "x"})
        for change in (then.first().delete, then.clear, then.delete, then.expire):
            with pytest.raises(ReadOnly):
                change()
        assert len(collection) == 1


def test_an_archive_reads_as_it_was(tmp_path: Path) -> None:
    with Client(tmp_path / "kept.db") as client:
        array = client.create_collection("air", WHOLE, keep_versions=True).create({"day": 1}, {"note": "first"})
        then = now()
        array.update_custom_attributes({"note": "second"})
    shutil.make_archive(str(tmp_path / "kept"), "zip", tmp_path / "kept.db")
    for place in (tmp_path / "kept.db", tmp_path / "kept.zip"):
        with Client(place, mode="r") as client:
            assert past(client, then).first().custom_attributes == {"note": "first"}
            assert client.get_collection("air").first().custom_attributes == {"note": "second"}


def test_moments_that_have_no_versions(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        client.create_collection("air", WHOLE, keep_versions=60)
        client.create_collection("other", WHOLE)
        with pytest.raises(Invalid, match="kept"):
            client.get_collection("air", at=datetime.now(UTC) - timedelta(hours=1))
        with pytest.raises(Invalid, match="come"):
            client.get_collection("air", at="2999-01-01")
        with pytest.raises(Unsupported, match="keep_versions"):
            client.get_collection("other", at="2020-01-01")
        assert client.get_collection("none", at="2020-01-01") is None
        for wrong in (5, timedelta(hours=1), "soon"):
            with pytest.raises(ClientError):
                client.get_collection("air", at=wrong)  # type: ignore[arg-type]
        for wrong in (-1, "long", 1e12):
            with pytest.raises(Invalid):
                client.create_collection("wrong", WHOLE, keep_versions=wrong)
        with pytest.raises(Unsupported):
            client.create_collection("wrong", WHOLE, keep_versions=True, layout="deker")
        assert sorted(each.name for each in client) == ["air", "other"]


def test_a_url_says_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Client("kept.db") as client:
        array = client.create_collection("air", WHOLE, keep_versions=True).create({"day": 1}, {"note": "first"})
        array[:].update(np.full((4, 6), 1, np.int32))
        moment = now()
        array[:].update(np.full((4, 6), 2, np.int32))
        array.update_custom_attributes({"note": "second"})
        id = array.id
    plain, zoned = moment.replace(tzinfo=None).isoformat(), moment.astimezone(timezone(timedelta(hours=2))).isoformat()
    for at in (plain, zoned, plain.replace(":", "%3A")):
        for place in (f"kept.db?at={at}", f"{tmp_path}/kept.db?at={at}", f"file://{tmp_path}/kept.db?at={at}"):
            with hs.open(place) as root:
                assert root[f"air/{id}"][0, 0] == 1
                assert pickle.loads(pickle.dumps(root))[f"air/{id}"][0, 0] == 1
            with Client(place, mode="r") as client:
                assert client.get_collection("air").query(note="first").to_xarray(stack="day")["air"][0, 0, 0] == 1
                with pytest.raises(Invalid, match="already"):
                    client.get_collection("air", at=moment)
    url = f"kept.db?at={plain}"
    assert Path("kept.db").is_dir() and os.listdir() == ["kept.db"]
    with hs.open(f"kept.db/collections/air?at={plain}") as group:
        assert group[id][0, 0] == 1
    with xr.open_dataset(url, group=f"air/{id}") as found:  # the engine is found out
        assert int(found[id][0, 0]) == 1
    assert hs.check(url, deep=True) == []
    hs.convert(url, "before.zarr")
    assert hs.open("before.zarr")[f"air/{id}"][0, 0] == 1
    assert hs.diff(url, "before.zarr") == [] and hs.diff("kept.db", "before.zarr") != []
    for words in (
        ("get", url, f"air/{id}", "-s", "x=0", "-s", "y=0"),
        ("get", f"kept.db/air/{id}?at={plain}", "-s", "x=0", "-s", "y=0"),
        ("db", "get", url, "air", "day=1", "-s", "x=0", "-s", "y=0"),
    ):
        done = CliRunner().invoke(main, list(words))
        assert done.stdout == "1\n", (words, done.output)
    assert id in CliRunner().invoke(main, ["db", "query", url, "air", "note=first"]).stdout
    assert CliRunner().invoke(main, ["db", "delete", url, "air", "--yes"]).exit_code == 6
    for change in (lambda: Client(url), lambda: hs.open(url, "r+"), lambda: hs.repair(url, dry_run=False)):
        with pytest.raises(ReadOnly, match="only read"):
            change()
    with pytest.raises(ReadOnly, match="only read"):
        hs.convert("before.zarr", url, overwrite=True, format="collections")
    for place in (f"before.zarr?at={plain}", f"before.zarr/air?at={plain}"):
        for look in (hs.open, hs.check, lambda place: hs.convert(place, "copy.zarr")):
            with pytest.raises(Unsupported, match="keeps no versions"):
                look(place)
    with pytest.raises(Invalid, match="no moment"):
        hs.open("kept.db?at=yesterday")
    with pytest.raises(Invalid, match="already"):
        hs.open(url, at=moment)
    assert sorted(os.listdir()) == ["before.zarr", "kept.db"]


def test_a_folder_of_that_very_name_is_no_moment(tmp_path: Path) -> None:
    hs.create(tmp_path / "a.zarr").create_array("x", data=np.arange(3))
    os.rename(tmp_path / "a.zarr", tmp_path / "a.zarr?at=2026-01-01")
    assert hs.open(tmp_path / "a.zarr?at=2026-01-01")["x"][2] == 2


def test_changes_of_an_array_are_told(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = client.create_collection("air", TILED, keep_versions=timedelta(days=1))
        before = now()
        array = collection.create({"day": 1})
        array[:].update(5)
        array.update_custom_attributes({"note": "a"})
        made, written, noted = array.changes()
        assert before < made < written < noted < now()
        assert state(past(client, written))[1] == (None, np.full((4, 6), 5).tolist())
        assert state(past(client, made))[1] == (None, np.full((4, 6), -1).tolist())
        assert state(past(client, made - timedelta(microseconds=1))) == {}
        with pytest.raises(Invalid, match="kept for 1 day, and"):
            past(client, now() - timedelta(days=2))


def test_versions_whose_time_is_over_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.formats.collections.own.versions._GRACE", 0.0)
    with Client(tmp_path) as client:
        collection = client.create_collection("air", WHOLE, keep_versions=0.5)
        array = collection.create({"day": 1})
        for value in range(5):
            array[:].update(value)
        moment = now()
        array[:].update(7)
        assert state(past(client, moment))[1][1] == np.full((4, 6), 4).tolist()
        then = past(client, moment)
        time.sleep(0.6)
        with pytest.raises(Invalid, match="kept"):
            then.first()
        assert collection.expire() > 5
        assert array.changes() == []
        assert array[:].read()[0, 0] == 7
        assert not list((tmp_path / "collections" / "air").rglob("versions/*/*"))


@pytest.mark.parametrize("age", ["0", "1d"])
def test_how_long_versions_stay_is_not_said_to_the_command(tmp_path: Path, age: str) -> None:
    with Client(tmp_path) as client:
        client.create_collection("air", WHOLE, keep_versions=True)
    result = CliRunner().invoke(main, ["db", "expire", str(tmp_path), "air", "--older-than", age])
    assert result.exit_code and "take no options" in result.output
    assert "db delete URL COLLECTION" in result.output


def test_a_client_keeps_no_state_that_nobody_uses(tmp_path: Path) -> None:
    """A service that is asked for one moment after the other stays as small as it is; what is in use ends with it."""
    with Client(tmp_path) as client:
        client.create_collection("air", WHOLE, keep_versions=True).create({"day": 1})
        held, other = past(client, now()), past(client, now())
        assert len(held) == len(other) == 1
        connection = weakref.ref(other._collection.connection)
        del other
        gc.collect()
        assert connection() is None
    with pytest.raises(ClientError, match="closed"):
        len(held)


def test_a_past_collection_is_pickled(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = client.create_collection("air", WHOLE, keep_versions=True)
        collection.create({"day": 1})[:].update(1)
        then = past(client, now())
        collection.get(day=1)[:].update(2)
        assert pickle.loads(pickle.dumps(then)).get(day=1)[0, 0].read() == 1
        assert pickle.loads(pickle.dumps(then.first()))[0, 0].read() == 1


def test_an_array_that_was_made_anew_is_the_one_of_the_moment(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = client.create_collection("air", WHOLE, keep_versions=True)
        first = collection.create({"day": 1})
        moment = now()
        first.delete()
        gone = now()
        second = collection.create({"day": 1})
        assert past(client, moment).get(day=1).id == first.id
        assert past(client, gone).get(day=1) is None
        assert past(client, now()).get(day=1).id == second.id != first.id


def test_an_id_that_is_used_again_hides_no_version_of_a_clock_that_was_ahead(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = client.create_collection("air", WHOLE, keep_versions=True)
        array = collection.create({"day": 1})
        array[:].update(5)
        moment = now()
        array.delete()
        ((removed,),) = [
            [name for name in folder.iterdir() if not name.name.endswith("-")]
            for folder in tmp_path.glob(f"collections/air/versions/*/{array.id}/zarr.json")
        ]
        removed.rename(removed.with_name(f"{datetime.now(UTC) + timedelta(seconds=2):%Y%m%dT%H%M%S%f}"))
        collection.create({"day": 2}, id_=array.id)
        assert past(client, moment)[array.id].primary_attributes == {"day": 1}


def test_versions_are_second_names_of_files(tmp_path: Path) -> None:
    """What is kept takes no room until it is replaced."""
    with Client(tmp_path) as client:
        collection = client.create_collection("air", TILED, keep_versions=True)
        array = collection.create({"day": 1})
        array[:].update(1)
        array[0, 0].update(2)
        folder = tmp_path / "collections" / "air"
        kept = [path for path in folder.rglob("versions/*/*/c.*/*") if path.stat().st_size]
        assert len(kept) == 1  # of the one tile that changed
        assert client.calculate_storage_size("air").bytes > 0
        collection.rename("wind")
        found = client.get_collection("wind")
        assert found is not None and len(found.first().changes()) == 3


WRITER = """
import sys
from datetime import UTC, datetime
import numpy as np
from hyperslab.database import Client
with Client(sys.argv[1]) as client:
    collection = client.get_collection("air")
    array = collection.get(day=1)
    for value in range(1, 10_000):
        array[:].update(value)
        print(value, datetime.now(UTC).isoformat(), flush=True)
"""


@pytest.mark.parametrize("schema", [WHOLE, TILED], ids=["whole", "tiled"])
def test_what_was_acknowledged_is_found_after_a_kill(tmp_path: Path, schema: Any) -> None:
    """A writer is killed at any moment: the state as of each acknowledged write is the one that it wrote."""
    with Client(tmp_path, durable=False) as client:
        collection = client.create_collection("air", schema, keep_versions=True)
        collection.create({"day": 1})[:].update(0)
        moments: dict[int, datetime] = {}
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                value, text = line.split()
                moments[int(value)] = datetime.fromisoformat(text)
                if len(moments) == 25:
                    os.kill(writer.pid, signal.SIGKILL)
        for value, moment in moments.items():
            np.testing.assert_array_equal(past(client, moment).get(day=1)[:].read(), np.full((4, 6), value))
        last = collection.get(day=1)[:].read()
        assert last.min() == last.max() >= max(moments)


MAKER = """
import os, shutil, sys
from datetime import UTC, datetime
sys.path.insert(0, sys.argv[2])
from dying import killed_at
from hyperslab.database import Client

sound, place = (os.path.join(sys.argv[1], name) for name in ("sound", "x"))
died, number = True, 0
while died:
    number += 1
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(sound, place)
    before = datetime.now(UTC)
    died = killed_at(number, lambda: Client(place).get_collection("air"), lambda air: air.create({}, {"note": "new"}))
    with Client(place, mode="r") as client:
        assert len(client.get_collection("air", at=before)) == 0, number
        found = len(client.get_collection("air"))
        assert found == 1 if not died else found in (0, 1), number
print(number)
"""


def test_an_array_without_a_key_is_none_of_the_time_before_it(tmp_path: Path) -> None:
    """Its maker is killed before any system call: its document, where it is there, was not there before."""
    schema = ArraySchema(WHOLE.dimensions, np.int32, ATTRIBUTES[1:])
    with Client(tmp_path / "sound") as client:
        client.create_collection("air", schema, keep_versions=True)
    done = ran(MAKER, tmp_path, Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5


@pytest.mark.parametrize("schema", [WHOLE, TILED], ids=["whole", "tiled"])
def test_readers_of_a_moment_see_nothing_of_writers(tmp_path: Path, schema: Any) -> None:
    with Client(tmp_path, durable=False) as client:
        collection = client.create_collection("air", schema, keep_versions=True)
        collection.create({"day": 1})[:].update(-7)
        moment = now()
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            for _ in range(100):
                np.testing.assert_array_equal(past(client, moment).get(day=1)[:].read(), np.full((4, 6), -7))
            assert collection.get(day=1)[0, 0].read() > 0
            writer.kill()


def test_a_removal_beside_writers_keeps_every_moment(tmp_path: Path) -> None:
    """Tiles are written by one thread, and the array is removed by another: what was written is found as of then, until
    the moment from which on the array is gone."""
    with Client(tmp_path, durable=False) as client:
        collection = client.create_collection("air", TILED, keep_versions=True)
        for day in range(6):
            array = collection.create({"day": day})
            array[:].update(0)
            written: list[tuple[datetime, int]] = [(now(), 0)]

            def write(known: list[tuple[datetime, int]], array: Any = array) -> None:
                with suppress(HyperslabError):
                    for value in range(1, 500):
                        array[0:2, 0:3].update(value)
                        known.append((now(), value))

            with ThreadPoolExecutor(1) as pool:
                done = pool.submit(write, written)
                time.sleep(0.03)
                array.delete()
                removed = now()
                done.result()
            assert past(client, removed).get(day=day) is None
            seen = [past(client, moment).get(day=day) for moment, _ in written]
            assert seen[0] is not None
            assert [found is None for found in seen] == sorted(found is None for found in seen)
            for found, (_, value) in zip(seen, written, strict=True):
                if found is None:
                    break
                assert found[:].read()[0:2, 0:3].tolist() == np.full((2, 3), value).tolist()
                assert found[3, 5].read() == 0


def test_what_never_was_an_array_is_none_of_the_past(tmp_path: Path) -> None:
    """A dead writer left a document that no key leads to; another one wants its id."""
    with Client(tmp_path) as client:
        collection = client.create_collection("air", WHOLE, keep_versions=True)
        id = collection.create({"day": 1}).id
        folder = tmp_path / "collections" / "air"
        for key in (folder / "keys").iterdir():
            if key.name != ".lock":
                key.unlink()
        before = now()
        with pytest.raises(AlreadyExists):
            collection.create({"day": 2}, id_=id)
        assert len(past(client, now())) == len(past(client, before)) == 0


@pytest.mark.sampled(0)
def test_a_copy_in_a_bucket_takes_no_changes(s3: S3, tmp_path: Path) -> None:
    """Without locks a version could be lost unnoticed: nothing is changed, and moments read as they were."""
    with Client(tmp_path) as client:
        collection = client.create_collection("air", TILED, keep_versions=True)
        collection.create({"day": 1}, {"note": "first"})[:].update(1)
        then = now()
        collection.get(day=1)[:].update(2)
        before = state(collection)
    url = f"s3://{s3.bucket()}/weather"
    hs.copy(tmp_path, url, storage_options=({}, s3.options))
    with Client(url, storage_options=s3.options) as client:
        collection = client.get_collection("air")
        array = collection.get(day=1)
        for change in (
            lambda: array[:].update(3),
            lambda: array.update_custom_attributes({"note": "second"}),
            array.delete,
            lambda: collection.create({"day": 2}),
        ):
            with pytest.raises(Unsupported, match="versions"):
                change()
        assert state(collection) == before
        assert (past(client, then).get(day=1)[:].read() == 1).all()
    assert not hs.check(url, storage_options=s3.options)
