"""Other processes: creators that race for one key, and writers killed before each system call that changes a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from own_store import ids, key_of, kinds, made, opened, record, repair, schema

from hyperslab.stores.location import Location
from programs import ran, side_by_side
from servers.s3 import S3

HERE = Path(__file__).parent

RACER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from own_store import opened, record
from hyperslab.errors import AlreadyExists
from hyperslab.stores.location import Location

options = json.loads(sys.argv[3])
holding = opened(Location.of(sys.argv[2], options or None))
print("ready", flush=True)
sys.stdin.readline()
won = []
for number in range(int(sys.argv[4])):
    wanted = record(number)
    try:
        holding.create([wanted])
        won.append((number, wanted.id))
    except AlreadyExists:
        pass
print(json.dumps(won))
"""


def race(url: str, options: dict[str, object], racers: int, keys: int) -> list[tuple[int, str]]:
    """Let so many processes create the same keys; who won which."""
    with side_by_side(RACER, *[(HERE, url, json.dumps(options), keys)] * racers) as processes:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate()[0] for process in processes]
    return [(number, id) for text in said for number, id in json.loads(text)]


def check_race(where: Location, won: list[tuple[int, str]], keys: int) -> None:
    """One has won each key, its array is there, and nothing is left of the others."""
    holding = opened(where)
    assert sorted(number for number, _ in won) == list(range(keys))
    assert ids(holding) == {id for _, id in won}
    assert all(holding.id_of(key_of(record(number))) == id for number, id in won)
    assert kinds(holding, deep=True) == []


@pytest.mark.parametrize(("racers", "keys"), [(2, 60), (12, 5)])
def test_one_of_several_creators_wins(tmp_path: Path, racers: int, keys: int) -> None:
    where = Location.of(tmp_path / "root")
    made(where)
    check_race(where, race(str(tmp_path / "root"), {}, racers, keys), keys)


@pytest.mark.soak
def test_one_of_a_hundred_creators_wins(tmp_path: Path) -> None:
    where = Location.of(tmp_path / "root")
    made(where)
    check_race(where, race(str(tmp_path / "root"), {}, 100, 3), 3)


@pytest.mark.sampled(0)
def test_one_of_two_creators_wins_in_a_bucket(s3: S3) -> None:
    url = f"s3://{s3.bucket()}/root"
    where = Location.of(url, s3.options)
    made(where)
    check_race(where, race(url, s3.options, 2, 10), 10)


KILLED = '''
import json, os, shutil, sys
from dataclasses import replace
sys.path[:0] = sys.argv[1], os.path.join(sys.argv[1], "..", "..")
from dying import killed_at
from own_store import ids, key_of, kinds, made, opened, record, repair, schema
from hyperslab.errors import AlreadyExists, HyperslabError
from hyperslab.model.schemas import AttributeSchema, Record
from hyperslab.model.schemas.arrays import new_id
from hyperslab.stores.location import Location

folder, name, step = sys.argv[2], sys.argv[3], int(sys.argv[4])
SOUND, PLACE = os.path.join(folder, "sound"), os.path.join(folder, "x")
OLD = [record(number, note="old") for number in range(3)]
NEW = [record(number) for number in range(10, 13)]


def create(holding):
    holding.create(NEW[:1])


def create_many(holding):
    holding.create(NEW)


def update(holding):
    holding.update(OLD[0].id, lambda now: replace(now, custom={**now.custom, "note": "new"}))


def remove(holding):
    holding.remove(OLD[0].id)


def clear(holding):
    holding.clear()


def check(holding, done):
    """The old state or the new one, of each array that a change may touch, to whoever looks."""
    there = ids(holding)
    notes = {found.id: found.custom["note"] for found in holding.records(there)}
    assert set(notes) == there
    for old in OLD:
        assert (holding.id_of(key_of(old)) == old.id) == (old.id in there)
    for new in NEW:
        assert (holding.id_of(key_of(new)) == new.id) == (new.id in there)
    old, new = {each.id for each in OLD}, {each.id for each in NEW}
    touched = {"create": set(), "create_many": set(), "update": set(), "remove": {OLD[0].id}, "clear": old}[name]
    wished = {"create": {NEW[0].id}, "create_many": new, "update": set(), "remove": set(), "clear": set()}[name]
    assert old - touched <= there <= old | wished, there
    assert there & wished in (set(), wished), there
    if done:
        assert there == (old - touched) | wished
    if name == "update":
        assert notes[OLD[0].id] in (("new",) if done else ("old", "new"))
    assert all(notes[each.id] == "old" for each in OLD[1:] if each.id in there)


def changed_unnoticed(holding, before):
    """An array that is another one or gone, though its generation is the same and it is not among the unsettled."""
    generations, unsettled = holding.generations(), holding.unsettled_ids()
    for part, (generation, listing) in before.items():
        now = holding.list_part(part)
        if generations.get(part) == generation:
            other = [id for id in now if now[id] != listing.get(id) and id not in unsettled]
            yield from (id for id in other if is_there(holding, id))
            yield from (id for id in listing if id not in unsettled and not is_there(holding, id))


def is_there(holding, id):
    try:
        return bool(holding.record(id))
    except HyperslabError:
        return False


change = globals()[name]
sound = made(Location.of(SOUND))
sound.create(OLD)
number, left = 1 - step, set()
while True:
    number += step
    shutil.rmtree(PLACE, ignore_errors=True)
    shutil.copytree(SOUND, PLACE)
    holding = opened(Location.of(PLACE))
    before = {part: (stamp, holding.list_part(part)) for part, stamp in holding.generations().items()}
    died = killed_at(number, lambda: opened(Location.of(PLACE)), change)
    check(holding, not died)
    assert list(changed_unnoticed(holding, before)) == []
    left.update(kinds(holding, deep=True))
    try:
        change(holding)  # who comes after is held up by nothing
    except AlreadyExists:
        assert name.startswith("create")
    except HyperslabError:
        assert name == "update"
    repair(holding, deep=True)
    repair(holding, deep=True)
    assert set(kinds(holding, deep=True)) <= {"unfinished-write"}, kinds(holding, deep=True)
    if name.startswith("create"):
        for new in NEW[: 1 if name == "create" else 3]:
            try:
                holding.create([replace(new, id=new_id())])
            except AlreadyExists:
                pass
            assert holding.id_of(key_of(new)) in ids(holding)
    if not died:
        break
print(json.dumps({"steps": number, "left": sorted(left)}))
'''


@pytest.mark.sampled(20)
@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", ["create", "create_many", "update", "remove", "clear"])
def test_killed_between_any_two_steps(tmp_path: Path, name: str, step: int) -> None:
    """Each array is there or not, old or new; nothing hides from an index; the rest is told and taken away."""
    done = ran(KILLED, HERE, tmp_path, name, step)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["steps"] > 5
    assert {"update": "unsettled"}.get(name, "orphan") in report["left"]


def test_killed_without_keys(tmp_path: Path) -> None:
    """Where a document is the commit, whoever reads hears of it though its generation is old."""
    bare = schema(attributes=schema().attributes[2:], dimensions=schema().dimensions[1:])
    holding = made(Location.of(tmp_path), bare)
    found = record(1)
    key = holding.keys.array_document(found.id)
    holding.store.put(holding.keys.unsettled(found.id), b"")
    holding.store.put(key, holding.documents.new_document(type(found)(found.id, {}, found.custom)))
    assert found.id in holding.unsettled_ids()
    assert holding.record(found.id).custom == found.custom
    assert sorted(kinds(holding)) == ["missing-generation", "unsettled"]
    repair(holding)
    assert kinds(holding) == []
    assert ids(holding) == {found.id}
