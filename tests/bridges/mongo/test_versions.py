"""Older versions of objects: kept for their readers, found by time, bounded by retention; small chunks joined."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sparse
import xarray as xr
from bson import ObjectId
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.monitoring import CommandListener
from xarray.testing import assert_identical

import hyperslab as hs
from command_line import CliRunner
from hyperslab.bridges.mongo import compaction
from hyperslab.cli import main
from hyperslab.errors import Conflict, Invalid, NotFound, ReadOnly, Unsupported
from hyperslab.mongo import DocumentNotFoundError, XarrayMongoDB

if TYPE_CHECKING:
    from servers.mongo import Mongo


def days(start: int, count: int, scale: float = 1.0) -> xr.Dataset:
    cells = np.add.outer(np.arange(start, start + count), np.arange(40.0)) * scale
    return xr.Dataset({"t": (("time", "x"), cells)}, {"time": np.arange(start, start + count)}, {"scale": scale})


@pytest.fixture
def keeping(database: Database[Any]) -> XarrayMongoDB:
    return XarrayMongoDB(database, chunk_size_bytes=1000, embed_threshold_bytes=40, keep_versions=True)


def put(xdb: XarrayMongoDB, x: Any, name: str) -> ObjectId:
    id, future = xdb.put(x, name=name)
    if future is not None:
        future.compute()
    return id


def now(database: Database[Any]) -> datetime:
    """The server's clock, some milliseconds from the last change and from the next one."""
    time.sleep(0.02)
    found: datetime = database.client.admin.command("hello")["localTime"].replace(tzinfo=UTC)
    time.sleep(0.02)
    return found


def documents(xdb: XarrayMongoDB) -> int:
    return xdb.chunks.count_documents({})


def wait_for_next_second() -> None:
    """Ids hold the second in which they were made."""
    time.sleep(1.05 - time.time() % 1)


# -- versions ----------------------------------------------------------------------------------------------------------


def test_each_version_is_found_by_its_time(keeping: XarrayMongoDB, database: Database[Any]) -> None:
    wanted, moments, ids = [], [], []
    for scale in (1.0, 2.0, 3.0):
        wait_for_next_second()
        wanted.append(days(0, 5, scale))
        ids.append(put(keeping, wanted[-1], "a") if scale == 1 else keeping.replace("a", wanted[-1])[0])
        moments.append(now(database))
    assert [info.id for info in keeping.versions("a")] == ids
    assert [info.status for info in keeping.versions(ids[0])] == ["retired", "retired", None]
    assert [info.id for info in keeping.list()] == ids[-1:]
    assert_identical(keeping.get("a"), wanted[-1])
    for id, moment, each in zip(ids, moments, wanted, strict=True):
        assert_identical(keeping.get(id, load=True), each)
        assert_identical(keeping.get("a", load=True, at=moment), each)
        assert_identical(keeping.get("a", load=True, at=moment.isoformat()), each)
    with pytest.raises(NotFound, match="no version"):
        keeping.get("a", at=moments[0] - timedelta(minutes=1))
    with pytest.raises(Invalid, match="moment"):
        keeping.get("a", at="yesterday")
    assert keeping.check() == []


def test_a_version_was_made_when_it_took_its_place(keeping: XarrayMongoDB) -> None:
    """To the millisecond, by the server's clock; what took no other's place has the second of its id."""
    first = put(keeping, days(0, 5), "a")
    second, third = (keeping.replace("a", days(0, 5, scale))[0] for scale in (2.0, 3.0))
    infos = keeping.versions("a")
    since = [keeping.meta.find_one({"_id": id})["hyperslab"]["since"].replace(tzinfo=UTC) for id in (second, third)]
    assert [info.created for info in infos] == [first.generation_time, *since]
    assert infos[1].created <= infos[1].retired and infos[1].created <= infos[2].created
    assert keeping.list()[0].created == since[1]


def test_a_version_that_was_removed_is_not_taken_for_the_next(keeping: XarrayMongoDB, database: Database[Any]) -> None:
    put(keeping, days(0, 5), "a")
    moments = []
    for scale in (2.0, 3.0):
        keeping.replace("a", days(0, 5, scale))
        moments.append(now(database))
    keeping.delete(keeping.versions("a")[1].id)
    with pytest.raises(NotFound, match="not kept any more"):
        keeping.get("a", at=moments[0])
    assert_identical(keeping.get("a", load=True, at=moments[1]), days(0, 5, 3))


def test_what_was_replaced_is_a_version_before_anybody_has_made_it_one(
    keeping: XarrayMongoDB, database: Database[Any]
) -> None:
    """As whoever replaces it leaves it who is killed in the midst of that."""
    ids = [put(keeping, days(0, 5), "a")]
    moments = []
    for scale in (2.0, 3.0):
        moments.append(now(database))
        ids.append(keeping.replace("a", days(0, 5, scale))[0])
    fields = {f"hyperslab.{name}": "" for name in ("status", "lineage", "since", "retired_at")}
    keeping.meta.update_one({"_id": ids[1]}, {"$unset": {name: "" for name in (*fields,) if "status" in name}})
    keeping.meta.update_one({"_id": ids[1]}, {"$unset": {"hyperslab.retired_at": ""}})
    taken = {"hyperslab.replaces": ids[1], "hyperslab.keeps": -1}
    keeping.meta.update_one({"_id": ids[2]}, {"$unset": fields, "$set": taken})
    for _ in range(2):
        versions = keeping.versions("a")
        assert [info.id for info in versions] == ids
        assert [info.status for info in versions] == ["retired", "retired", None]
        assert [keeping.get("a", at=moment).attrs["scale"] for moment in moments] == [1, 2]
        assert keeping.get("a", at=datetime.now(UTC) + timedelta(seconds=30)).attrs["scale"] == 3
        assert [info.id for info in keeping.list()] == ids[2:]
        hs.repair(f"mongodb://{':'.join(map(str, database.client.address))}/{database.name}", dry_run=False)
    keeping.meta.update_one({"_id": ids[1]}, {"$unset": {"hyperslab.status": "", "hyperslab.retired_at": ""}})
    keeping.meta.update_one({"_id": ids[2]}, {"$unset": fields, "$set": taken})
    assert [info.id for info in keeping.expire(keep_newest=2, dry_run=True)] == []
    assert [info.id for info in keeping.expire(keep_newest=2)] == ids[:1]
    assert [info.id for info in keeping.versions("a")] == ids[1:]
    assert keeping.meta.find_one({"_id": ids[1]})["hyperslab"]["status"] == "retired"  # type: ignore[index]


def test_whoever_reads_a_version_reads_on(keeping: XarrayMongoDB) -> None:
    put(keeping, days(0, 5).chunk({"time": 2}), "a")
    lazy = keeping.get("a")
    keeping.replace("a", days(0, 5, 7))
    keeping.collect_garbage(age=0)
    assert_identical(lazy.compute(), days(0, 5))
    plain = XarrayMongoDB(keeping.meta.database)
    lazy = plain.get(keeping.versions("a")[0].id)
    plain.replace("a", days(0, 5, 9))  # which keeps nothing of its own, and loses no older version
    assert_identical(lazy.compute(), days(0, 5))
    assert [info.attrs["scale"] for info in plain.versions("a")] == [1.0, 9.0]


def test_versions_are_kept_as_long_as_asked_for(database: Database[Any]) -> None:
    xdb = XarrayMongoDB(database, embed_threshold_bytes=0, keep_versions=timedelta(seconds=1))
    put(xdb, days(0, 5), "a")
    before = documents(xdb)
    old = xdb.get("a", load=False)
    xdb.replace("a", days(0, 5, 2))
    assert [orphan.kind for orphan in xdb.collect_garbage().orphans] == []
    assert_identical(old.compute(), days(0, 5))
    time.sleep(1.1)
    assert [orphan.kind for orphan in xdb.collect_garbage(dry_run=True).orphans] == ["expired-version"]
    assert len(xdb.collect_garbage().orphans) == 1
    assert (len(xdb.versions("a")), documents(xdb)) == (1, before)
    assert xdb.check() == []


def test_expire_counts_versions_as_objects_of_their_name(keeping: XarrayMongoDB) -> None:
    put(keeping, days(0, 5, 0), "a")
    for scale in range(1, 5):
        keeping.replace("a", days(0, 5, scale))
    put(keeping, days(0, 5, 9), "b")
    gone = keeping.expire(keep_newest=2)
    assert sorted(info.attrs["scale"] for info in gone) == [0, 1, 2]
    assert [info.attrs["scale"] for info in keeping.versions("a")] == [3, 4]
    assert keeping.collect_garbage(age=0).orphans == ()


def test_the_present_object_is_the_newest_whatever_the_clocks_say(keeping: XarrayMongoDB) -> None:
    """Ids have the second of the clock of whoever put the object, and say nothing within one."""
    ahead = ObjectId(f"{0x7FFFFFFF:08x}{'0' * 16}")
    keeping.put(days(0, 5, 1), name="a", _id=ahead)
    keeping.replace("a", days(0, 5, 2))
    keeping.replace("a", days(0, 5, 3))
    assert [info.attrs["scale"] for info in keeping.expire(keep_newest=2)] == [1]
    assert [info.attrs["scale"] for info in keeping.versions("a")] == [2, 3]
    assert [info.attrs["scale"] for info in keeping.expire(keep_newest=1)] == [2]
    assert_identical(keeping.get("a", load=True), days(0, 5, 3))


def test_delete_removes_versions_too(keeping: XarrayMongoDB) -> None:
    first = put(keeping, days(0, 5), "a")
    keeping.replace("a", days(0, 5, 2))
    keeping.replace("a", days(0, 5, 3))
    keeping.delete(first)
    assert [info.attrs["scale"] for info in keeping.versions("a")] == [2, 3]
    keeping.delete("a")
    assert (documents(keeping), keeping.meta.count_documents({})) == (0, 0)


def test_nobody_changes_a_version(keeping: XarrayMongoDB) -> None:
    first = put(keeping, days(0, 5), "a")
    keeping.replace("a", days(0, 5, 2))
    with pytest.raises(Conflict, match="older version"):
        keeping.append(first, days(5, 1), "time")
    with pytest.raises(Conflict, match="older version"):
        keeping.rename(first, "b")
    again = keeping.copy(first, name="b")
    assert_identical(keeping.get(again, load=True), days(0, 5))
    assert [info.id for info in keeping.versions("b")] == [again]


@pytest.mark.parametrize("wrong", [-1, "1d", float("nan"), 1e11])
def test_a_retention_that_means_nothing(database: Database[Any], wrong: Any) -> None:
    with pytest.raises(Invalid, match="keep_versions"):
        XarrayMongoDB(database, keep_versions=wrong)


# -- compaction --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["compatible", "extended"])
def test_many_appends_become_few_chunks(database: Database[Any], layout: Any) -> None:
    xdb = XarrayMongoDB(database, embed_threshold_bytes=0, layout=layout)
    put(xdb, days(0, 1).chunk(), "a")
    for day in range(1, 30):
        xdb.append("a", days(day, 1), "time")
    before, lazy = documents(xdb), xdb.get("a")
    id = xdb.compact("a")
    assert_identical(xdb.get("a", load=True), days(0, 30))
    assert xdb.get("a").t.chunks == ((30,), (40,))
    assert_identical(lazy.compute(), days(0, 30))  # of the old chunks, which stay for an hour
    assert xdb.compact("a") == id
    assert (xdb.check(), xdb.collect_garbage().orphans) == ([], ())
    assert xdb.compact(id, chunk_bytes=1) == id
    xdb.append("a", days(30, 1), "time")
    xdb.compact("a", keep_old=False)
    time.sleep(0.01)
    xdb.collect_garbage(age=0)
    assert len(xdb.versions("a")) == 2  # the first one is still kept
    assert_identical(xdb.get("a", load=True), days(0, 31))
    assert before > 2 * xdb.chunks.count_documents({"meta_id": xdb.versions("a")[-1].id})


def test_chunks_are_joined_up_to_a_size(keeping: XarrayMongoDB) -> None:
    put(keeping, days(0, 20).chunk({"time": 3, "x": 7}), "a")
    keeping.compact("a", chunk_bytes=8 * 9 * 21)
    assert keeping.get("a").t.chunks == ((20,), (7, 7, 7, 7, 7, 5))  # along the axis of most chunks first
    assert_identical(keeping.get("a", load=True), days(0, 20))
    with pytest.raises(Invalid, match="chunk_bytes"):
        keeping.compact("a", chunk_bytes=0)
    with pytest.raises(NotFound):
        keeping.compact("b")


def test_what_else_an_object_holds_stays(keeping: XarrayMongoDB) -> None:
    cells = np.zeros((6, 8))
    cells[2, 3] = 1.5
    x = xr.Dataset(
        {
            "s": (("y", "x"), sparse.COO.from_numpy(cells)),
            "q": (("y", "x"), cells, {"long_name": "plain", "none": None}),
            "word": ("y", np.array(list("abcdef"))),
            "zero": ("none", np.zeros(0)),
        },
        {"kind": ("y", np.arange(6, dtype="i2"))},
        {"title": "all"},
    ).chunk({"y": 1})
    put(keeping, x, "a")
    before = keeping.meta.find_one({"name": "a"})
    keeping.compact("a")
    after = keeping.meta.find_one({"name": "a"})
    assert before is not None and after is not None
    for part in ("coords", "data_vars"):
        for name, entry in before[part].items():
            same = {field: value for field, value in entry.items() if field != "chunks"}
            assert {field: after[part][name][field] for field in same} == same
    assert after["attrs"] == before["attrs"]
    found = keeping.get("a", load=True)
    assert isinstance(found.s.data, sparse.COO)
    assert_identical(found.map(sparse_to_dense), x.compute().map(sparse_to_dense))
    assert keeping.get("a").s.chunks == ((6,), (8,))


def sparse_to_dense(array: xr.DataArray) -> xr.DataArray:
    return array.copy(data=array.data.todense()) if isinstance(array.data, sparse.COO) else array


def test_an_incomplete_object_is_not_compacted(keeping: XarrayMongoDB) -> None:
    id = put(keeping, days(0, 20).chunk({"time": 3}), "a")
    keeping.chunks.delete_one({"meta_id": id, "name": "t"})
    with pytest.raises((DocumentNotFoundError, hs.HyperslabError)):
        keeping.compact("a")
    assert [info.id for info in keeping.list()] == [id]


def test_a_compaction_that_came_to_a_halt_loses_no_append(
    keeping: XarrayMongoDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(keeping, days(0, 20).chunk({"time": 3}), "a")
    put_in_place = compaction.put_in_place

    def halt(*arguments: Any, **options: Any) -> Any:
        """The lease runs out, and another one appends."""
        keeping.meta.update_one({"name": "a"}, {"$set": {"hyperslab.lease.until": datetime(2000, 1, 1)}})
        keeping.append("a", days(20, 1), "time")
        return put_in_place(*arguments, **options)

    monkeypatch.setattr(compaction, "put_in_place", halt)
    with pytest.raises(Conflict, match="locked by another writer"):
        keeping.compact("a")
    assert_identical(keeping.get("a", load=True), days(0, 21))
    assert (len(keeping.list()), keeping.collect_garbage(age=0, dry_run=True).orphans) == (1, ())


class BeforeLease(CommandListener):
    """Does ``act`` once, right before a lease is taken."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act: Callable[[], Any] | None = act

    def started(self, event: Any) -> None:
        if self.act is not None and event.command_name == "update" and "lease" in str(event.command):
            act, self.act = self.act, None
            act()

    def succeeded(self, event: Any) -> None:
        """Nothing is done."""

    def failed(self, event: Any) -> None:
        """Nothing is done."""


CHANGES_BY_NAME: dict[str, Callable[[XarrayMongoDB], Any]] = {
    "append": lambda xdb: xdb.append("a", days(20, 1), "time"),
    "update": lambda xdb: xdb.update("a", days(3, 1), {"time": slice(3, 4)}),
    "compact": lambda xdb: xdb.compact("a"),
}


@pytest.mark.covering
@pytest.mark.parametrize("change", CHANGES_BY_NAME)
@pytest.mark.parametrize("keep", [True, False])
def test_a_change_by_name_goes_on_with_the_object_that_took_the_name(
    mongo: Mongo, database: Database[Any], change: str, keep: bool
) -> None:
    other = XarrayMongoDB(database, embed_threshold_bytes=40, keep_versions=keep)
    old = put(other, days(0, 20).chunk({"time": 1}), "a")
    before = BeforeLease(lambda: other.compact("a") if keep else put_again(other))
    with MongoClient[Any](mongo.url, event_listeners=[before]) as client:
        CHANGES_BY_NAME[change](XarrayMongoDB(client[database.name], embed_threshold_bytes=40))
    assert before.act is None
    assert old not in [each.id for each in other.list()]
    assert_identical(other.get("a", load=True), days(0, 21 if change == "append" else 20))
    with pytest.raises((Conflict, NotFound)):
        other.append(old, days(21, 1), "time")  # an id means one object for ever


def put_again(xdb: XarrayMongoDB) -> None:
    xdb.replace("a", days(0, 20).chunk({"time": 1}))[1].compute()


def test_errors_name_the_database(keeping: XarrayMongoDB) -> None:
    put(keeping, days(0, 2), "a")
    wrong: dict[str, Callable[[], Any]] = {
        "did you mean 'a'": lambda: keeping.delete("aa"),
        "there are time, x": lambda: keeping.append("a", days(2, 1), "hour"),
        "there are time": lambda: keeping.update("a", days(0, 1), {"hour": slice(0, 1)}),
        "write 2024-01-31": lambda: keeping.get("a", at="soon"),
        "give seconds": lambda: keeping.expire(older_than="90d"),  # type: ignore[arg-type]
        "give the copy another one": lambda: keeping.copy("a"),
        "not an empty one": lambda: keeping.put(days(0, 1), name=""),
    }
    for remedy, act in wrong.items():
        with pytest.raises(hs.HyperslabError) as caught:
            act()
        assert (caught.value.url or "").endswith(f"/{keeping.meta.database.name}"), caught.value
        assert remedy in (caught.value.remedy or ""), caught.value
    with pytest.raises(Invalid, match=r"keep_old='1h'"):
        keeping.compact("a", keep_old="1h")  # type: ignore[arg-type]
    assert [each.name for each in keeping.list()] == ["a"]


# -- the command line --------------------------------------------------------------------------------------------------


def test_commands(keeping: XarrayMongoDB, mongo: Mongo) -> None:
    put(keeping, days(0, 20).chunk({"time": 2}), "a")
    url = f"{mongo.url}/{keeping.meta.database.name}#a"
    told = CliRunner().invoke(main, ["db", "compact", url, "--keep-old", "2h", "--json"])
    assert told.exit_code == 0, told.output
    new = json.loads(told.stdout)["id"]
    assert "nothing to join" in CliRunner().invoke(main, ["db", "compact", url]).stderr
    rows = CliRunner().invoke(main, ["db", "versions", url]).stdout.splitlines()
    assert ("replaced" in rows[0], len(rows), rows[-1].split()[0]) == (True, 3, new)
    found = json.loads(CliRunner().invoke(main, ["db", "versions", url, "--json"]).stdout)["objects"]
    assert [each["status"] for each in found] == ["retired", None]
    assert_identical(keeping.get("a", load=True), days(0, 20))


# -- a moment where a place is named -----------------------------------------------------------------------------------


@pytest.fixture
def place(mongo: Mongo, database: Database[Any]) -> str:
    return f"{mongo.url}/{database.name}"


@pytest.fixture
def moments(keeping: XarrayMongoDB, database: Database[Any]) -> list[datetime]:
    """When an object had the scale 1, 2 and 3."""
    found = []
    for scale in (1.0, 2.0, 3.0):
        wait_for_next_second()
        put(keeping, days(0, 5), "a") if scale == 1 else keeping.replace("a", days(0, 5, scale))
        found.append(now(database))
    return found


def scale_of(root: Any) -> float:
    """Of the cells and the attribute, which belong together."""
    assert root["t"][3, 2] == 5 * root.attrs["scale"]
    return float(root.attrs["scale"])


def test_a_moment_is_opened(place: str, moments: list[datetime], keeping: XarrayMongoDB) -> None:
    for scale, moment in enumerate(moments, 1):
        zoned = moment.astimezone(timezone(timedelta(hours=2))).isoformat()
        plain = moment.replace(tzinfo=None)
        for at in (moment, plain, plain.isoformat(), zoned, np.datetime64(plain)):
            with hs.open(f"{place}#a", at=at) as root:
                assert scale_of(root) == scale
        for at in (plain.isoformat(), zoned, plain.isoformat(" ")):
            with hs.open(f"{place}?collection=xarray&at={at}#a") as root:
                assert (scale_of(root), plain.isoformat() in root.url) == (scale, True)
        with xr.open_dataset(f"{place}#a", engine="hyperslab", at=moment) as found:
            assert scale_of(found) == scale
    with hs.open(f"{place}#a", at=datetime.now(UTC) + timedelta(seconds=30)) as root:
        assert scale_of(root) == 3
    assert hs.check(f"{place}?at={plain.isoformat()}#a", deep=True) == []


def test_a_moment_stays_what_it_was(place: str, moments: list[datetime], keeping: XarrayMongoDB) -> None:
    root = hs.open_group(f"{place}#a", at=moments[-1])
    lazy = root["t"].to_dask()
    sent = pickle.dumps((root, lazy))
    keeping.replace("a", days(0, 5, 7))
    root["t"].refresh()
    again, lazy_again = pickle.loads(sent)
    assert [scale_of(each) for each in (root, again)] == [3, 3]
    assert [each[3, 2].compute() for each in (lazy, lazy_again)] == [15, 15]


def test_a_moment_is_converted_and_compared(place: str, moments: list[datetime], tmp_path: Path) -> None:
    url, old = f"{place}#a", tmp_path / "old.zarr"
    report = hs.convert(url, old, at=moments[0], verify=True)
    assert moments[0].replace(tzinfo=None).isoformat() in report.source
    assert scale_of(hs.open(old)) == 1
    assert hs.diff(url, old, at=moments[0]) == hs.diff(old, url, at=(None, moments[0])) == []
    assert hs.diff(url, old) != []
    assert hs.diff(url, url, at=(moments[0], moments[1])) != []
    hs.convert(url, f"{place}#b", at=moments[1])
    assert scale_of(hs.open(f"{place}#b")) == 2
    hs.convert(url, f"{place}?collection=other#a", at=moments[1])  # another collection is another place
    assert scale_of(hs.open(f"{place}?collection=other#a")) == 2


def test_a_moment_is_only_read(place: str, moments: list[datetime], keeping: XarrayMongoDB, tmp_path: Path) -> None:
    at = moments[0].replace(tzinfo=None).isoformat()
    hs.save(tmp_path / "other.zarr", days(0, 5, 9))
    for mode in ("r+", "a", "w", "x"):
        with pytest.raises(ReadOnly, match="only read"):
            hs.open(f"{place}#a", mode, at=at)
        with pytest.raises(ReadOnly, match="only read"):
            hs.open(f"{place}?at={at}#a", mode)
    with pytest.raises(ReadOnly, match="only read"):
        hs.convert(tmp_path / "other.zarr", f"{place}?at={at}#a", overwrite=True)
    with pytest.raises(ReadOnly, match="only read"):
        hs.save(f"{place}?at={at}#c", days(0, 5, 9))
    with pytest.raises(ReadOnly, match="only read"):
        hs.repair(f"{place}?at={at}#a", dry_run=False)
    told = CliRunner().invoke(main, ["db", "delete", f"{place}?at={at}#a", "--yes"])
    assert (told.exit_code, "by name or id" in told.stderr) == (2, True)
    assert scale_of(hs.open(f"{place}#a")) == 3
    assert [info.name for info in keeping.list()] == ["a"]


def test_moments_that_lead_nowhere(place: str, moments: list[datetime], tmp_path: Path) -> None:
    at = moments[0].replace(tzinfo=None).isoformat()
    with pytest.raises(NotFound, match="no version"):
        hs.open(f"{place}#a", at=moments[0] - timedelta(days=1))
    for wrong in ("yesterday", "", 5):
        with pytest.raises(Invalid, match="no moment"):
            hs.open(f"{place}#a", at=wrong)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="no moment"):
        hs.open(f"{place}?at=yesterday#a")
    with pytest.raises(Invalid, match="already"):
        hs.open(f"{place}?at={at}#a", at=at)
    with pytest.raises(Invalid, match="one object"):
        hs.open(place, at=at)
    hs.save(tmp_path / "new.zarr", days(0, 5))
    with pytest.raises(Unsupported, match="keeps no versions"):
        hs.open(tmp_path / "new.zarr", at=at)
    with pytest.raises(Unsupported, match="keeps no versions"):
        hs.convert(tmp_path / "new.zarr", tmp_path / "copy.zarr", at=at)
    with pytest.raises(Unsupported, match="keeps no versions"):
        hs.diff(f"{place}#a", tmp_path / "new.zarr", at=(None, at))
    with pytest.raises(NotFound, match="nothing"):
        hs.open(tmp_path / "none.zarr", at=at)


def test_commands_take_a_moment(place: str, moments: list[datetime], tmp_path: Path) -> None:
    url, at = f"{place}#a", moments[0].replace(tzinfo=None).isoformat()

    def told(*arguments: str) -> str:
        done = CliRunner().invoke(main, list(arguments))
        assert done.exit_code == 0, done.output
        return done.stdout

    assert told("get", url, "t", "-s", "time=3", "-s", "x=2", "--at", at) == "5.0\n"
    assert told("get", f"{place}?at={at}#a", "t", "-s", "time=3", "-s", "x=2") == "5.0\n"
    assert told("get", url, "t", "-s", "time=3", "-s", "x=2") == "15.0\n"
    assert json.loads(told("info", url, "--at", at, "--json"))["attrs"] == {"scale": 1.0}
    told("convert", url, str(tmp_path / "old.zarr"), "--at", at, "-s", "time=0..3")
    assert hs.open(tmp_path / "old.zarr").attrs["scale"] == 1
    told("convert", url, str(tmp_path / "whole.zarr"), "--at", at)
    assert told("diff", url, str(tmp_path / "whole.zarr"), "--at", at) == ""
    assert CliRunner().invoke(main, ["diff", url, str(tmp_path / "whole.zarr")]).exit_code == 1
    refused = CliRunner().invoke(main, ["info", str(tmp_path / "old.zarr"), "--at", at])
    assert (refused.exit_code, "keeps no versions" in refused.stderr) == (8, True)
