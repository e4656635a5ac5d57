"""Several processes that make, change, read and remove arrays of one collection: nothing is lost, nothing is torn."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from own_store import ids, key_of, kinds, made, opened, record

from hyperslab.errors import StorageError
from hyperslab.stores.location import Location
from programs import side_by_side
from servers.faults import faulty
from servers.s3 import S3

HERE = Path(__file__).parent

WORKER = """
import json, random, sys
from dataclasses import replace
sys.path.insert(0, sys.argv[1])
from own_store import ids, key_of, opened, record
from hyperslab.errors import AlreadyExists, NodeNotFound
from hyperslab.stores.location import Location

options, shared, count = json.loads(sys.argv[3]), sys.argv[4], int(sys.argv[5])
holding = opened(Location.of(sys.argv[2], options or None))
pick = random.Random(sys.argv[6])
added, alive = 0, {}
for _ in range(count):
    number = pick.randrange(1, 9)
    wanted = record(number, note="made")
    what = pick.choice(["create", "update", "remove", "read", "count", "many", "list"])
    id = holding.id_of(key_of(wanted))
    try:
        if what == "create":
            holding.create([wanted])
        elif what == "many":
            holding.create([record(number), record(number, "B")])
        elif what == "count":
            holding.update(shared, lambda now: replace(now, custom={**now.custom, "level": now.custom["level"] + 1}))
            added += 1
        elif what == "list":
            assert shared in ids(holding)
        elif id is not None and what == "update":
            assert holding.update(id, lambda now: replace(now, custom={**now.custom, "note": "x"})).id == id
        elif id is not None and what == "remove":
            holding.remove(id)
        elif id is not None:
            assert holding.record(id).primary == wanted.primary
    except (AlreadyExists, NodeNotFound) as error:
        assert what not in ("count", "list"), error
print(added)
"""


def work(url: str, options: dict[str, object], shared: str, workers: int, count: int) -> int:
    """Let so many processes work; how often they added one."""
    arguments = (HERE, url, json.dumps(options), shared, count)
    with side_by_side(WORKER, *((*arguments, seed) for seed in range(workers))) as processes:
        said = [process.communicate() for process in processes]
    assert [errors for _, errors in said] == [""] * workers
    return sum(int(text) for text, _ in said)


def check(where: Location, options: dict[str, object], url: str, workers: int, count: int) -> None:
    holding = made(where)
    shared = record(0, level=0.0)
    holding.create([shared])
    added = work(url, options, shared.id, workers, count)
    assert holding.record(shared.id).custom["level"] == added
    found = list(holding.records(ids(holding)))
    assert len({key_of(each) for each in found}) == len(found)
    assert all(holding.id_of(key_of(each)) == each.id for each in found)
    assert kinds(opened(where), deep=True) == []


def test_in_a_folder(tmp_path: Path) -> None:
    check(Location.of(tmp_path / "root"), {}, str(tmp_path / "root"), 4, 150)


@pytest.mark.sampled(0)
def test_in_a_bucket(s3: S3) -> None:
    url = f"s3://{s3.bucket()}/root"
    check(Location.of(url, s3.options), s3.options, url, 2, 25)


def test_a_key_whose_entry_may_have_been_stored_stays_free(s3: S3) -> None:
    """The answer to the request that stores it is lost, and the server answers no other one: the creation has failed,
    and keeps nobody from the key."""
    url = f"s3://{s3.bucket()}/root"
    made(Location.of(url, s3.options))
    with faulty(s3.endpoint) as proxy:
        retries = {"max_retries": 1, "backoff": {"init_backoff": timedelta(milliseconds=5)}}
        bad = opened(Location.of(url, s3.options | {"endpoint": proxy.url, "retry_config": retries}))
        faults = iter(["lost", *["503"] * 100])
        proxy.choose = lambda method, path: next(faults) if method == "PUT" and "/keys/" in path else None
        with pytest.raises(StorageError):
            bad.create([record(1)])
    sound = opened(Location.of(url, s3.options))
    assert (ids(sound), sound.id_of(key_of(record(1)))) == (set(), None)
    assert kinds(sound, deep=True) == []
    again = record(1)
    sound.create([again])
    assert sound.id_of(key_of(again)) == again.id


@pytest.mark.soak
def test_for_long(tmp_path: Path) -> None:
    check(Location.of(tmp_path / "root"), {}, str(tmp_path / "root"), 8, 5000)
