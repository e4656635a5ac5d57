"""The index of a collection in a file: as fresh as its writers keep it, and for any doubt older, never wrong.

What a full scan of the collection finds is the oracle.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from own_store import ATTRIBUTES, ids, made, opened, record, schema

import hyperslab as hs
from hyperslab.database import Client
from hyperslab.database.conditions import parse
from hyperslab.database.index import AttributeIndex
from hyperslab.database.queries import hits
from hyperslab.formats.collections import index_file
from hyperslab.formats.collections.index_database import stamp_digest
from hyperslab.formats.collections.index_file import FILES
from hyperslab.formats.collections.own.layout import OwnCollectionStore
from hyperslab.model.schemas import Record
from hyperslab.stores.location import Location
from permissions import read_only
from programs import ran, side_by_side

HERE = Path(__file__).parent
NOTES = ["", "a", "ab", "b"]


def check(holding: OwnCollectionStore, index: AttributeIndex | None = None) -> None:
    """What the index finds is what a full scan does."""
    index = index or AttributeIndex(holding)
    every = {each.id: each for each in holding.records(ids(holding))}
    assert index.count() == len(every)
    assert {each.id for each in hits(index, parse(holding.document.schema, None, {}))} == set(every)
    for note in [*NOTES, None]:
        asked = parse(holding.document.schema, None, {"note": note}, "level")
        want = sorted(id for id, each in every.items() if each.custom["note"] == note)
        assert sorted(index.ids(asked)) == want


def is_fresh(holding: OwnCollectionStore) -> bool:
    """Whoever opens the collection next lists nothing."""
    present = {part: stamp_digest(stamp) for part, stamp in holding.generations().items()}
    database = holding.index_database
    assert database is not None
    return database.stamps() == present


def without_index(holding: OwnCollectionStore) -> OwnCollectionStore:
    """A writer that knows of no index, as older versions and other programs are."""
    holding.__dict__["index_database"] = None
    return holding


def file_of(root: Path) -> Path:
    return root / "collections" / "weather" / FILES[0]


@pytest.fixture
def where(tmp_path: Path) -> Location:
    made(Location.of(tmp_path))
    return Location.of(tmp_path)


def some(count: int, first: int = 0) -> list[Record]:
    return [record(number, note=NOTES[number % 4], level=number / 2) for number in range(first, first + count)]


# -- fresh --------------------------------------------------------------------------------------------------------


def test_every_change_of_a_writer_is_followed(where: Location) -> None:
    holding, records = opened(where), some(60)
    for each in records[:40]:
        holding.create([each])
    holding.create(records[40:])
    assert is_fresh(holding)
    holding.update(records[3].id, lambda now: replace(now, custom={**now.custom, "note": "b"}))
    holding.remove(records[5].id)
    assert is_fresh(holding) and is_fresh(opened(where, writable=False))
    check(opened(where, writable=False))
    other = opened(where)
    other.create(some(1, 100))
    assert is_fresh(holding)
    check(holding)
    holding.clear()
    assert is_fresh(other)
    check(other)


def test_a_part_that_was_forgotten_is_looked_at_when_it_is_there(where: Location) -> None:
    """Its generation was not listed yet when the index was read: whoever may not write forgets it, and finds it."""
    holding = opened(where)
    holding.create(some(20))
    check(holding)
    reader = opened(where, writable=False)
    index = AttributeIndex(reader)
    database = reader.index_database
    assert database is not None
    check(reader, index)
    index._database.forget(list(index._database.stamps()))
    check(reader, index)


def test_whoever_opens_next_reads_no_documents(where: Location) -> None:
    opened(where).create(some(300))
    reader = opened(where, writable=False)
    with hs.trace() as cost:
        assert AttributeIndex(reader).count() == 300
        assert len(AttributeIndex(reader).ids(parse(schema(), None, {"level": (10, 20)}))) == 21
    assert cost.requests < 8


def test_without_keys_documents_are_the_commit(tmp_path: Path) -> None:
    bare = schema(attributes=ATTRIBUTES[2:], dimensions=schema().dimensions[1:])
    holding = made(Location.of(tmp_path), bare)
    for number in range(30):
        holding.create([Record(record(0).id, {}, {"note": NOTES[number % 4], "level": None})])
    assert is_fresh(holding)
    check(opened(Location.of(tmp_path), writable=False))


class Writers(RuleBasedStateMachine):
    """Two writers with an index, one without, and a reader; each looks when it likes, at what it knew before."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(os.environ["PYTEST_FOLDER"]) / str(random.getrandbits(60))
        place = Location.of(self.root)
        made(place)
        self.writers = [opened(place), opened(place), without_index(opened(place))]
        self.lookers = [*self.writers[:2], opened(place, writable=False)]
        self.indexes = [AttributeIndex(each) for each in self.lookers]
        self.count = 0

    def _one(self, data: Any) -> str | None:
        known = sorted(ids(self.writers[0]))
        return data.draw(st.sampled_from(known)) if known else None

    @rule(which=st.integers(0, 2), many=st.integers(1, 3), note=st.sampled_from(NOTES))
    def create(self, which: int, many: int, note: str) -> None:
        # Few parts, so that writers meet in them.
        new = [f"{random.choice('ab')}0{record(0).id[2:]}" for _ in range(many)]
        self.writers[which].create([record(self.count + at, id=id, note=note) for at, id in enumerate(new)])
        self.count += many

    @rule(which=st.integers(0, 2), note=st.sampled_from(NOTES), data=st.data())
    def update(self, which: int, note: str, data: Any) -> None:
        if id := self._one(data):
            self.writers[which].update(id, lambda now: replace(now, custom={**now.custom, "note": note}))

    @rule(which=st.integers(0, 2), data=st.data())
    def remove(self, which: int, data: Any) -> None:
        if id := self._one(data):
            self.writers[which].remove(id)

    @rule(which=st.integers(0, 2))
    def look(self, which: int) -> None:
        check(self.lookers[which], self.indexes[which])

    @rule(which=st.integers(0, 2))
    def look_anew(self, which: int) -> None:
        self.indexes[which] = AttributeIndex(self.lookers[which])
        check(self.lookers[which], self.indexes[which])

    @rule()
    def lose(self) -> None:
        for name in FILES:
            file_of(self.root).with_name(name).unlink(missing_ok=True)

    def teardown(self) -> None:
        for each in self.lookers:
            if each.index_database is not None:
                each.index_database.close()
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTEST_FOLDER", str(tmp_path_factory.mktemp("writers")))
    yield


TestWriters = Writers.TestCase
TestWriters.settings = settings(
    settings.default,
    max_examples=min(settings.default.max_examples, 300),
    stateful_step_count=30,
    suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.too_slow],
)


# -- damaged, locked, lost ----------------------------------------------------------------------------------------


DAMAGES = {
    "empty": lambda data: b"",
    "short": lambda data: data[:1000],
    "half": lambda data: data[: len(data) // 2],
    "blank": lambda data: bytes(len(data)),
    "text": lambda data: b"no database" * 999,
    "holes": lambda data: data[:1024] + bytes(len(data) - 1024),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("writable", [False, True])
def test_a_damaged_file_is_left_out_and_made_anew(tmp_path: Path, where: Location, damage: str, writable: bool) -> None:
    first = opened(where)
    first.create(some(300))
    check(first)
    assert first.index_database is not None
    first.index_database.close()
    path = file_of(tmp_path)
    bad = DAMAGES[damage](path.read_bytes())
    path.write_bytes(bad)
    holding = opened(where, writable=writable)
    check(holding)
    if writable:
        holding.create(some(5, 1000))
        check(holding)
        check(opened(where, writable=False))
    else:
        assert path.read_bytes() == bad
    assert not hs.check(tmp_path)


def test_a_file_that_is_damaged_while_it_is_open(tmp_path: Path, where: Location) -> None:
    holding = opened(where)
    holding.create(some(300))
    index = AttributeIndex(holding)
    check(holding, index)
    with open(file_of(tmp_path), "r+b") as file:
        file.write(bytes(os.path.getsize(file.fileno())))
    for name in FILES[1:]:
        file_of(tmp_path).with_name(name).unlink(missing_ok=True)
    holding.create(some(1, 500))
    check(holding, index)
    check(opened(where))


def test_a_locked_file_keeps_nobody_waiting(where: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "_PATIENCE", 0.05)
    opened(where).create(some(50))
    holding, reader = opened(where), opened(where, writable=False)
    other = sqlite3.connect(file_of(tmp_path), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    holding.create(some(5, 100))
    holding.remove(next(iter(ids(holding))))
    check(holding)
    check(reader)
    other.execute("ROLLBACK")
    other.close()
    monkeypatch.setattr(index_file, "_PAUSE", 0)
    last = opened(where)
    check(last)
    assert is_fresh(last)
    last.create(some(5, 200))
    check(holding)
    check(reader)


def test_a_full_file_is_left_as_it_is(where: Location) -> None:
    holding = opened(where)
    holding.create(some(50))
    assert holding.index_database is not None and holding.index_database._connection is not None
    holding.index_database._connection.execute("PRAGMA max_page_count = 1")
    holding.create(some(200, 100))
    check(holding)
    check(opened(where, writable=False))


@pytest.mark.parametrize("is_open", [False, True])
def test_readers_leave_nothing_behind(tmp_path: Path, where: Location, is_open: bool) -> None:
    writer = opened(where)
    writer.create(some(50))
    without_index(opened(where)).create(some(3, 100))
    if not is_open:
        assert writer.index_database is not None
        writer.index_database.close()
    with read_only(tmp_path):
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        check(opened(where, writable=False))
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_who_may_write_here_and_not_there_goes_on(tmp_path: Path, where: Location) -> None:
    opened(where).create(some(50))
    holding = opened(where)
    path = file_of(tmp_path)
    for name in FILES:
        path.with_name(name).unlink(missing_ok=True)
    path.mkdir()
    holding.create(some(5, 100))
    check(holding)
    path.rmdir()


def test_an_array_that_was_damaged_by_nobody_is_found_when_it_is_read(where: Location) -> None:
    holding, records = opened(where), some(20)
    holding.create(records)
    holding.store.put(holding.keys.array_document(records[3].id), b"damaged")
    for each in (opened(where, writable=False), opened(where)):
        index = AttributeIndex(each)
        assert (index.count(), index.unread) == (20, 0)
        assert len(hits(index, parse(schema(), None, {"note": NOTES[3]}, limit=3))) == 3
        assert (index.unread, index.count(), index.unread) == (1, 19, 1)
    holding.store.put(holding.keys.array_document(records[3].id), holding.documents.new_document(records[3]))
    assert AttributeIndex(opened(where, writable=False)).count() == 20


def test_a_copy_is_not_believed(tmp_path: Path, where: Location) -> None:
    opened(where).create(some(50))
    for name in ("copy", "moved"):
        shutil.copytree(tmp_path / "collections", tmp_path / name / "collections")
    check(opened(Location.of(tmp_path / "copy"), writable=False))
    check(opened(Location.of(tmp_path / "moved")))


def test_who_changes_a_copy_lists_it_when_it_closes(tmp_path: Path, where: Location) -> None:
    opened(where).create(some(50))
    shutil.copytree(tmp_path / "collections", tmp_path / "copy" / "collections")
    copy = Location.of(tmp_path / "copy")
    with Client(tmp_path / "copy", durable=False) as client:
        list(client.get_collection("weather").schema.attributes)
    assert not is_fresh(opened(copy))  # it changed nothing
    with Client(tmp_path / "copy", durable=False) as client:
        client.get_collection("weather").create({"dt": datetime(2050, 1, 1, tzinfo=UTC), "station": "Z"})
    assert is_fresh(opened(copy, writable=False))
    check(opened(copy, writable=False))


def test_catching_up_ends_in_time_and_goes_on(tmp_path: Path, where: Location) -> None:
    opened(where).create(some(50))
    shutil.copytree(tmp_path / "collections", tmp_path / "copy" / "collections")
    copy = opened(Location.of(tmp_path / "copy"))
    parts = len(copy.generations())
    assert AttributeIndex(copy).catch_up(0.0) == parts > 1
    check(opened(Location.of(tmp_path / "copy"), writable=False))
    assert AttributeIndex(copy).catch_up(60.0) == 0 == AttributeIndex(copy).catch_up(0.0)
    assert is_fresh(copy)
    check(copy)


def test_what_an_older_version_kept_goes(tmp_path: Path, where: Location) -> None:
    old = file_of(tmp_path).with_name("index")
    old.write_bytes(b"hyperslab index 1")
    check(opened(where, writable=False))
    assert old.exists() and not hs.check(tmp_path)
    opened(where).create(some(1))
    assert not old.exists()


def test_a_collection_made_again_has_nothing_of_the_one_before(where: Location) -> None:
    holding = opened(where)
    holding.create(some(50))
    holding.drop()
    again = made(where)
    check(again)
    again.create(some(3))
    check(opened(where, writable=False))


def test_a_child_that_was_forked_has_an_index_of_its_own(where: Location) -> None:
    holding, records = opened(where), some(60)
    holding.create(records[:20])
    index = AttributeIndex(holding)
    check(holding, index)
    pid = os.fork()
    if not pid:
        status = 1
        try:
            for each in records[20:40]:
                holding.create([each])
                asked = parse(schema(), None, {"note": each.custom["note"]})
                assert each.id in index.ids(asked)
            status = 0
        finally:
            os._exit(status)
    for each in records[40:]:
        holding.create([each])
        index.count()
    assert os.waitpid(pid, 0)[1] == 0
    check(holding, index)
    check(opened(where, writable=False))


# -- other processes ------------------------------------------------------------------------------------------------


TOGETHER = """
import sys
sys.path[:0] = sys.argv[1], sys.argv[1] + "/../.."
from test_index_database import AttributeIndex, NOTES, hits, opened, parse, record, schema, without_index
from hyperslab.stores.location import Location

place, mine = Location.of(sys.argv[2]), int(sys.argv[3])
holding = opened(place)
writer = without_index(opened(place)) if mine == 3 else holding
index, gone = AttributeIndex(holding), set()
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    # Two parts, in which all of them meet.
    ids = [f"{'ab'[(number + at) % 2]}0{record(0).id[2:]}" for at in range(1 + number % 2)]
    new = [record(1000 * mine + 10 * number + at, id=id, note=NOTES[mine]) for at, id in enumerate(ids)]
    writer.create(new)
    if number % 5 == 4:
        writer.remove(new[0].id)
        gone.add(new[0].id)
        new = new[1:]
    found = set(index.ids(parse(schema(), None, {"note": NOTES[mine]})))
    assert {each.id for each in new} <= found
    assert not gone & found
    assert len(found) <= index.count()
print("done")
"""


def test_processes_create_and_ask_together(tmp_path: Path, where: Location) -> None:
    with side_by_side(TOGETHER, *[(HERE, tmp_path, number) for number in range(4)]) as processes:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        reader = opened(where, writable=False)
        index, last = AttributeIndex(reader), 0
        for _ in range(20):
            now = index.count()
            assert now >= last - 4  # each of four may have removed one
            last = now
        for process in processes:
            said, errors = process.communicate()
            assert said == "done\n", errors
    check(reader, index)
    holding = opened(where)
    check(holding)
    assert is_fresh(holding)


KILLED = """
import json, os, shutil, sqlite3, sys
sys.path[:0] = sys.argv[1], os.path.join(sys.argv[1], "..", "..")
from dataclasses import replace
from dying import killed_at
from test_index_database import check, made, opened, some, without_index
from hyperslab.stores.location import Location

place, name, step = sys.argv[2], sys.argv[3], int(sys.argv[4])
OLD, NEW = some(12), some(3, 100)

class Steps(sqlite3.Connection):
    # Each statement is a step: one that os counts as well.
    def execute(self, *arguments):
        os.utime(place)
        return super().execute(*arguments)

    def executemany(self, *arguments):
        os.utime(place)
        return super().executemany(*arguments)


def change(holding):
    match name:
        case "create":
            holding.create(NEW[:1])
            holding.create(NEW[1:2])
        case "create_many":
            holding.create(NEW)
        case "update":
            holding.update(OLD[0].id, lambda now: replace(now, custom={**now.custom, "note": "b", "level": -1.0}))
        case "remove":
            holding.remove(OLD[0].id)
        case "clear":
            holding.clear()
        case "look":
            check(holding)


connect = sqlite3.connect
sqlite3.connect = lambda *arguments, **options: connect(*arguments, factory=Steps, **options)
number, died = 1 - step, True
while died:
    number += step
    shutil.rmtree(place, ignore_errors=True)
    first = made(Location.of(place))
    first.create(OLD[:6])
    for each in OLD[6:]:
        first.create([each])
    first.index_database.close()
    if name == "look":
        without_index(opened(Location.of(place))).create(some(3, 200))
    died = killed_at(number, lambda: opened(Location.of(place)), change)
    check(opened(Location.of(place), writable=False))
    holding = opened(Location.of(place))
    check(holding)
    holding.create(some(2, 300))
    check(holding)
    check(opened(Location.of(place), writable=False))
    holding.index_database.close()
print(json.dumps(number))
"""


@pytest.mark.sampled(20)
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", ["create", "create_many", "update", "remove", "clear", "look"])
def test_killed_between_any_two_steps(tmp_path: Path, name: str, step: int) -> None:
    done = ran(KILLED, HERE, tmp_path / "place", name, step)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) > 20
