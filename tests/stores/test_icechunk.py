"""Repositories of icechunk as stores: what is written is a commit, whole or not at all, and every earlier state stays.

The peer is icechunk itself, in the same environment: it reads what we committed, and the reverse.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dask.array as da
import icechunk
import numpy as np
import pytest
import zarr
from zarr.core.sync import sync

import hyperslab as hs
from hyperslab import versions
from hyperslab.errors import (
    AlreadyExists,
    Conflict,
    FormatError,
    Invalid,
    NotFound,
    ReadOnly,
    StorageError,
    Unsupported,
)
from hyperslab.stores.icechunk import RepositoryStore
from hyperslab.stores.location import Location
from hyperslab.stores.repository_keys import describe_changes, node_of_key
from servers.s3 import S3

Place = dict[str, Any]
"""The arguments of ``hs.open`` for a repository: its URL, and storage options."""


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place for a repository, where there is none yet: in a folder, and in a bucket of a server."""
    if request.param == "disk":
        return {"url": f"icechunk+file://{tmp_path}/repository"}
    server: S3 = request.getfixturevalue("s3")
    return server.repository()


def open_theirs(place: Place) -> icechunk.Repository:
    """Return the repository as icechunk's own Python API opens it."""
    return icechunk.Repository.open(Location.of(place["url"], place.get("storage_options")).repository._storage())


def read_theirs(place: Place, path: str, **version: Any) -> np.ndarray:
    """Return an array's cells as zarr-python reads them by icechunk."""
    session = open_theirs(place).readonly_session(**(version or {"branch": "main"}))
    return np.asarray(zarr.open_group(session.store, mode="r")[path][...])


# -- what is committed -------------------------------------------------------------------------------------------------


def test_each_write_is_a_commit(place: Place) -> None:
    with hs.create(**place) as root:
        array = root.create_array("t", shape=(8, 6), dtype="f4", chunks=(4, 3), dims=("y", "x"))
        array[0:5] = 2
        array.attrs["units"] = "K"
        root.create_array("g/v", data=np.arange(20.0), chunks=(10,))
        array.append(np.full((3, 6), 7, "f4"), "y")
        del root["g/v"]
    messages = [each.message for each in hs.history(**place)]
    assert messages[-2::-1] == [
        "change /",
        "change /t",
        "write /t, 4 chunks",
        "change /t",
        "write /g/v, 2 chunks",
        "write /t, 2 chunks",
        "remove /g/v",
    ]
    wanted = np.zeros((11, 6), "f4")
    wanted[0:5], wanted[8:] = 2, 7
    np.testing.assert_array_equal(read_theirs(place, "t"), wanted)
    with hs.open(**place) as root:
        np.testing.assert_array_equal(root["t"][...], wanted)
        assert root["t"].units == "K"
        assert list(root) == ["g", "t"] and list(root["g"]) == []


def test_a_block_is_one_commit_or_none(place: Place) -> None:
    with hs.commit(**place, message="first", metadata={"by": "us"}) as root:
        root.create_array("a", data=np.arange(6))
        root.create_array("b", data=np.arange(4.0))
        root["a"][2] = 100
    first, begin = hs.history(**place)
    assert (first.message, first.metadata, first.parent, first.branches) == ("first", {"by": "us"}, begin.id, ("main",))
    with pytest.raises(ZeroDivisionError), hs.commit(**place, message="never") as root:
        root["a"][...] = 0
        root.create_array("c", data=np.arange(3))
        del root["b"]
        raise ZeroDivisionError
    assert [each.message for each in hs.history(**place)] == ["first", "Repository initialized"]
    with hs.open(**place) as root:
        assert sorted(root) == ["a", "b"]
        np.testing.assert_array_equal(root["a"][...], [0, 1, 100, 3, 4, 5])


def test_a_batch_is_one_commit(place: Place) -> None:
    with hs.create(**place) as root:
        with root.batch():
            root.create_array("a", data=np.arange(6))
            root["a"][0] = 9
            root.attrs["title"] = "two"
        with pytest.raises(ZeroDivisionError), root.batch():
            root["a"][...] = 0
            root.attrs["title"] = "never"
            root.create_group("g")
            raise ZeroDivisionError
        assert root.attrs["title"] == "two" and list(root) == ["a"]
        np.testing.assert_array_equal(root["a"][...], [9, 1, 2, 3, 4, 5])
    assert len(hs.history(**place)) == 3


def test_nothing_changed_is_no_commit(place: Place) -> None:
    hs.create(**place).close()
    with hs.commit(**place, message="nothing") as root:
        assert list(root) == []
    assert len(hs.history(**place)) == 2


def test_shrinking_and_growing_brings_nothing_back(place: Place) -> None:
    with hs.create(**place) as root:
        array = root.create_array("t", data=np.ones((9, 4), "i4"), chunks=(2, 2))
        array.resize((3, 4))
        array.resize((9, 4))
        wanted = np.zeros((9, 4), "i4")
        wanted[:3] = 1
        np.testing.assert_array_equal(array[...], wanted)
        array.remove(slice(0, 2))
    np.testing.assert_array_equal(read_theirs(place, "t"), wanted[2:])


# -- both ways beside icechunk -----------------------------------------------------------------------------------------


def test_theirs_is_read_and_changed(place: Place) -> None:
    storage = Location.of(place["url"], place.get("storage_options")).repository._storage()
    repository = icechunk.Repository.create(storage)
    session = repository.writable_session("main")
    group = zarr.create_group(session.store)
    cells = np.random.default_rng(7).normal(size=(20, 30))
    array = group.create_array("deep/v", shape=cells.shape, chunks=(7, 8), shards=(14, 16), dtype=cells.dtype)
    array[...] = cells
    scalar = group.create_array("s", shape=(), dtype="i4")
    scalar[...] = 5
    session.commit("theirs")
    with hs.open(**place, mode="r+") as root:
        np.testing.assert_array_equal(root["deep/v"][...], cells)
        assert root["s"][()] == 5
        root["deep/v"][3:5, ::2] = -1
        root["s"][()] = 6
    cells[3:5, ::2] = -1
    np.testing.assert_array_equal(read_theirs(place, "deep/v"), cells)
    assert read_theirs(place, "s") == 6


def test_tags_and_branches(place: Place) -> None:
    with hs.commit(**place, message="one") as root:
        root.create_array("a", data=np.arange(4))
    where = Location.of(place["url"], place.get("storage_options")).repository
    theirs = open_theirs(place)
    theirs.create_tag("v1", theirs.lookup_branch("main"))
    theirs.create_branch("dev", theirs.lookup_branch("main"))
    with hs.commit(**place, message="on dev", branch="dev") as root:
        root["a"][0] = 50
    with hs.open(**place, mode="r+", at="dev") as root:
        root["a"][1] = 60
    with hs.commit(**place, message="two") as root:
        root["a"][3] = 70
    states = {at: hs.open(**place, at=at)["a"][...].tolist() for at in ("v1", "dev", "main")}
    assert states == {"v1": [0, 1, 2, 3], "dev": [50, 60, 2, 3], "main": [0, 1, 2, 70]}
    assert read_theirs(place, "a", branch="dev").tolist() == [50, 60, 2, 3]
    assert read_theirs(place, "a", tag="v1").tolist() == [0, 1, 2, 3]
    newest, tagged, _ = hs.history(**place)
    assert (newest.branches, tagged.tags, tagged.message) == (("main",), ("v1",), "one")
    assert [each.message for each in hs.history(**place, at="dev")][:2] == ["write /a, 1 chunk", "on dev"]
    assert where.version is None


def test_a_reader_stays_at_its_snapshot(place: Place) -> None:
    with hs.commit(**place, message="one") as root:
        root.create_array("a", data=np.arange(4), chunks=(2,))
    with hs.open(**place) as before:
        with hs.open(**place, mode="r+") as root:
            root["a"][...] = 9
        np.testing.assert_array_equal(before["a"][...], np.arange(4))
    np.testing.assert_array_equal(hs.open(**place)["a"][...], 9)


# -- versions ----------------------------------------------------------------------------------------------------------


def test_times(place: Place) -> None:
    begin = datetime.now(UTC)
    with hs.commit(**place, message="one") as root:
        root.create_array("a", data=np.arange(4))
    between = datetime.now(UTC)
    with hs.commit(**place, message="two") as root:
        root["a"][...] = 9
    assert hs.open(**place, at=between)["a"][0] == 0
    assert hs.open(**place, at=between.isoformat())["a"][0] == 0
    assert hs.open(**place, at=np.datetime64(between.replace(tzinfo=None)))["a"][0] == 0
    with pytest.raises(NotFound, match="no snapshot is as old as"):
        hs.open(**place, at=begin)
    with pytest.raises(Invalid, match="is to come"):
        hs.open(**place, at="2190-01-01")
    said = {**place, "url": f"{place['url']}?at={between.isoformat()}"}
    assert hs.open(**said)["a"][0] == 0
    assert hs.open(**{**said, "url": f"{place['url']}?at=main"})["a"][0] == 9
    with pytest.raises(Invalid, match="says a moment already"):
        hs.open(**said, at="main")


def test_a_walk_of_random_commits(place: Place) -> None:
    """Every earlier state reads as NumPy kept it."""
    rng = np.random.default_rng(50)
    kept: dict[str, dict[str, np.ndarray]] = {}
    state: dict[str, np.ndarray] = {}
    hs.create(**place).close()
    for number in range(50 if "storage_options" not in place else 12):
        with hs.commit(**place, message=f"step {number}") as root:
            for _ in range(rng.integers(1, 4)):
                take_a_step(rng, root, state)
            root.attrs["step"] = number
        kept[hs.history(**place, limit=1)[0].id] = {name: cells.copy() for name, cells in state.items()}
    for id, wanted in kept.items():
        root = hs.open(**place, at=id)
        assert sorted(root) == sorted(wanted)
        for name, cells in wanted.items():
            np.testing.assert_array_equal(root[name][...], cells, err_msg=f"{id} {name}")


def take_a_step(rng: np.random.Generator, root: Any, state: dict[str, np.ndarray]) -> None:
    """Do one change of a dataset, and to what NumPy keeps of it."""
    name = f"a{rng.integers(0, 4)}"
    if name not in state:
        state[name] = rng.integers(0, 100, (int(rng.integers(1, 9)), 5))
        root.create_array(name, data=state[name], chunks=(3, 2))
        return
    cells, array = state[name], root[name]
    match rng.integers(0, 5):
        case 0:
            low = int(rng.integers(0, len(cells)))
            cells[low:, ::2] = array[low:, ::2] = int(rng.integers(100, 200))
        case 1:
            rows = rng.integers(0, 100, (2, 5))
            array.append(rows)
            state[name] = np.concatenate([cells, rows])
        case 2:
            length = int(rng.integers(1, len(cells) + 1))
            array.resize((length, 5))
            state[name] = cells[:length].copy()
        case 3 if len(state) > 1:
            del root[name], state[name]
        case _:
            array.resize((len(cells) + 2, 5))
            state[name] = np.concatenate([cells, np.zeros((2, 5), cells.dtype)])


# -- two writers -------------------------------------------------------------------------------------------------------


def test_changes_that_do_not_clash_are_both_kept(place: Place) -> None:
    with hs.commit(**place, message="begin") as root:
        root.create_array("a", data=np.zeros(8), chunks=(2,))
        root.create_array("b", data=np.zeros(8), chunks=(2,))
    with hs.commit(**place, message="slow") as slow:
        slow["a"][0:2] = 1
        with hs.commit(**place, message="fast") as fast:
            fast["a"][4:6] = 2
            fast["b"][...] = 3
    with hs.open(**place) as root:
        np.testing.assert_array_equal(root["a"][...], [1, 1, 0, 0, 2, 2, 0, 0])
        np.testing.assert_array_equal(root["b"][...], 3)
    assert [each.message for each in hs.history(**place)][:3] == ["slow", "fast", "begin"]


def test_a_clash_names_the_arrays_and_commits_nothing(place: Place) -> None:
    with hs.commit(**place, message="begin") as root:
        root.create_array("a", data=np.zeros(8), chunks=(4,))
        root.create_array("g/b", data=np.zeros(8), chunks=(4,))
        root.create_array("c", data=np.zeros(8), chunks=(4,))
    clash = pytest.raises(Conflict, match=r"other changes of /a, /g/b since.*repeat")
    with clash, hs.commit(**place, message="slow") as slow:
        slow["a"][0] = 1
        slow["g/b"][5] = 1
        slow["c"][0] = 1
        with hs.commit(**place, message="fast") as fast:
            fast["a"][1] = 2
            fast["g/b"][6] = 2
    with hs.open(**place) as root:
        assert (root["a"][0], root["a"][1], root["g/b"][5], root["c"][0]) == (0, 2, 0, 0)
    assert [each.message for each in hs.history(**place)][:2] == ["fast", "begin"]


def test_a_branch_that_was_moved_meanwhile(place: Place) -> None:
    for number in range(3):
        with hs.commit(**place, message=str(number)) as root:
            if number == 0:
                root.create_array("a", shape=(8,), dtype="i4")
            root["a"][...] = number
    history = hs.history(**place)
    with (
        pytest.raises(Conflict, match=r"the branch main was moved.*repeat it"),
        hs.commit(**place, message="x") as root,
    ):
        root["a"][...] = 9
        versions.restore(**place, at=history[1].id)
    assert hs.history(**place) == hs.history(**place, at=history[1].id)
    assert hs.open(**place)["a"][0] == 1


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_nothing_there(tmp_path: Path) -> None:
    url = f"icechunk+file://{tmp_path}/nothing"
    for call in (lambda: hs.open(url), lambda: hs.open(url, "r+"), lambda: hs.history(url)):
        with pytest.raises(NotFound, match="there is n"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_places_that_keep_no_versions(tmp_path: Path) -> None:
    hs.create(tmp_path / "a.zarr").close()
    for call in (lambda: hs.history(tmp_path / "a.zarr"), lambda: hs.commit(tmp_path / "a.zarr", "x").__enter__()):
        with pytest.raises(Unsupported, match=r"keeps no versions.*hyperslab convert"):
            call()


def test_older_versions_are_only_read(place: Place) -> None:
    with hs.commit(**place, message="one") as root:
        root.create_array("a", data=np.arange(4))
    first = hs.history(**place)[0].id
    for mode in ("r+", "a", "w"):
        with pytest.raises(ReadOnly, match=r"only read.*hyperslab branch"):
            hs.open(**place, mode=mode, at=first)
    with pytest.raises(ReadOnly, match="only read"), hs.commit(**place, message="x", branch=first):
        pass
    with pytest.raises(NotFound, match=r"no tag, branch or snapshot 'nope'.*main"):
        hs.open(**place, at="nope")
    with pytest.raises(NotFound, match="no tag, branch or snapshot"), hs.commit(**place, message="x", branch="nope"):
        pass
    with pytest.raises(Invalid, match="without a message"), hs.commit(**place, message=" "):
        pass


def test_what_a_repository_does_not_hold(place: Place) -> None:
    with pytest.raises(Unsupported, match=r"keys of Zarr v3 alone.*zarr3"):
        hs.create(**place, format="zarr2")
    with hs.create(**place) as root:
        root.create_array("a", data=np.arange(4))
    with pytest.raises(AlreadyExists):
        hs.create(**place)
    hs.create(**place, overwrite=True).close()
    assert list(hs.open(**place)) == []


def test_a_damaged_repository(tmp_path: Path) -> None:
    url = f"icechunk+file://{tmp_path}/r"
    with hs.commit(url, "one") as root:
        root.create_array("a", data=np.arange(4000), chunks=(1000,), codec="none")
    chunk = next((tmp_path / "r" / "chunks").iterdir())
    chunk.unlink()
    with pytest.raises(hs.errors.StorageError, match="icechunk cannot read this") as caught:
        hs.open(url)["a"][...]
    assert caught.value.node == "a" and caught.value.key is not None
    (names,) = (*(tmp_path / "r").glob("refs/branch.main/*"), *(tmp_path / "r").glob("repo"))  # by version 1 or 2
    snapshots = [*(tmp_path / "r" / "snapshots").iterdir()]
    for files, message in ((snapshots, "cannot be read"), ([names], "damaged, or of a newer version")):
        for file in files:
            file.write_bytes(b"not that")
        with pytest.raises(FormatError, match=message) as damaged:
            hs.open(url)
        assert damaged.value.remedy and damaged.value.url == url


# -- the store by itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "node"),
    [
        ("zarr.json", ""),
        ("a/b/zarr.json", "a/b"),
        ("c", ""),
        ("c/0/12", ""),
        ("a/c/0", "a"),
        ("a/c", "a"),
        ("c/c/0", "c"),
        ("a/0.0", None),
        ("a/c/01", None),
        (".zgroup", None),
        ("a/c/0/x", None),
        ("abc", None),
    ],
)
def test_nodes_of_keys(key: str, node: str | None) -> None:
    assert node_of_key(key) == node


def test_messages() -> None:
    assert describe_changes(["a/zarr.json", "zarr.json"]) == "change /a, /"
    assert describe_changes(["a/zarr.json", "a/c/0"]) == "write /a, 1 chunk"
    assert describe_changes(["a/zarr.json", "a/c/0"], {"a"}) == "remove /a"
    assert describe_changes([f"a{n}/c/0" for n in range(7)]) == "write /a0, /a1, /a2, /a3 and 3 more"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RepositoryStore]:
    """A store with a group, two arrays and chunks of several lengths."""
    url = f"icechunk+file://{tmp_path}/r"
    with hs.commit(url, "begin") as root:
        root.create_array("g/a", data=np.arange(4096, dtype="u1"), chunks=(1024,), codec="none", checksum=False)
        root.create_array("s", data=np.int32(5), codec="none", checksum=False)
    made = RepositoryStore(Location.of(url).repository)
    yield made
    made.close()


def test_values_and_names(store: RepositoryStore) -> None:
    chunk = bytes(np.arange(1024, dtype="u1"))
    assert list(store.list()) == sorted(
        [
            "zarr.json",
            "g/zarr.json",
            "g/a/zarr.json",
            *(f"g/a/c/{n}" for n in range(4)),
            "s/zarr.json",
            "s/c",
        ]
    )
    assert list(store.list("g/a/c")) == [f"g/a/c/{n}" for n in range(4)]
    assert [store.list_dir(path) for path in ("", "g/a", "g/a/c", "s", "none")] == [
        (["zarr.json"], ["g", "s"]),
        (["zarr.json"], ["c"]),
        (["0", "1", "2", "3"], []),
        (["c", "zarr.json"], []),
        ([], []),
    ]
    assert store.get("g/a/c/0") == chunk and store.size("g/a/c/0") == 1024
    assert store.get("g/a/c/9") is store.get("x/c/0") is store.get(".zgroup") is store.size("x/c/0") is None
    assert store.get_ranges("g/a/c/0", [(0, 3), (-4, 0), (1020, 2000), (5, 5), (-9999, 0)]) == [
        chunk[:3],
        chunk[-4:],
        chunk[1020:],
        b"",
        chunk,
    ]
    assert store.get_ranges("g/a/c/7", [(0, 3)]) is None
    assert store.get_many(["g/a/c/0", "s/c", ".zattrs", "g/a/c/7"]) == [chunk, b"\x05\0\0\0", None, None]


def test_stamps(store: RepositoryStore) -> None:
    before = store.stamp("g/a/c/0")
    assert before is not None and store.stamp("g/a/c/0") == before and store.stamp("g/a/c/7") is None
    with store.transaction(shared=True):
        store.put("g/a/c/0", bytes(1024))
        changed = store.stamp("g/a/c/0")
        assert changed not in (before, None)
        assert store.stamp("g/a/c/1") is not None
    assert store.stamp("g/a/c/0") not in (before, changed, None)
    store.delete("g/a/c/0")
    assert store.stamp("g/a/c/0") is None


def test_what_another_process_changed_has_another_stamp(tmp_path: Path) -> None:
    """An array that has the old cells in memory reads the new ones, once they were merged."""
    with hs.commit(f"icechunk+file://{tmp_path}/r", "begin") as root:
        array = root.create_array("a", data=np.ones(40), chunks=(10,))
        assert array[0] == 1
        store = array._session.reader.store
        stamp = store.stamp("a/c/3")
        other = store.share().open()
        with hs.open_group(other, "r+") as there:
            there["a"][...] = 2
        store.merge([other.changes()])
        assert store.stamp("a/c/3") not in (stamp, None)
        assert array[0] == root["a"][0] == 2


def test_writes_beyond_those_that_are_remembered(store: RepositoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.stores.icechunk._MOST_KNOWN", 2)
    stamps = set()
    with store.transaction(shared=True):
        for number in range(12):
            store.put(f"g/a/c/{number % 4}", bytes([number]) * 1024)
            assert store.stamp(f"g/a/c/{number % 4}") not in stamps
            stamps.update(store.stamp(f"g/a/c/{chunk}") for chunk in range(4))
            assert max(len(store._known), len(store._written)) <= 4
    assert hs.history(store.url)[0].message == "write /g/a, 4 chunks"


def test_parts_of_what_failed_fail(store: RepositoryStore) -> None:
    """A thread that writes while the transaction fails, which another one began, gets an error, and nothing of it is
    there; nobody waits for ever."""
    begun, failing = threading.Event(), threading.Event()

    def write() -> None:
        with store.transaction():
            store.put("g/a/c/0", bytes(1024))
            begun.set()
            failing.wait()
            while True:
                store.put("g/a/c/0", bytes(1024))

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(KeyError), store.transaction(shared=True):
            part = pool.submit(write)
            begun.wait()
            failing.set()
            raise KeyError
        with pytest.raises(StorageError, match="the commit that this is a part of has failed"):
            part.result()
    assert store.get("g/a/c/0") == bytes(np.arange(1024, dtype="u1"))
    with store.transaction(0):
        store.put("g/a/c/1", bytes(1024))
    assert [each.message for each in hs.history(store.url)][:2] == ["write /g/a, 1 chunk", "begin"]
    assert store.get("g/a/c/0") == bytes(np.arange(1024, dtype="u1"))


def test_a_write_by_one_thread_waits_for_another(store: RepositoryStore) -> None:
    with store.transaction(), pytest.raises(Conflict, match="until the timeout"):
        run_in_thread(lambda: store.transaction(0.05).__enter__())
    with store.transaction(shared=True):
        run_in_thread(lambda: store.put("g/a/c/0", bytes(1024)))
    assert hs.history(store.url)[0].message == "write /g/a, 1 chunk"


def run_in_thread(job: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(job).result()


def test_threads_of_one_writer_lose_nothing(tmp_path: Path) -> None:
    """Each cell by itself, of chunks that all threads change; one by one, and in a batch."""
    with hs.create(f"icechunk+file://{tmp_path}/r") as root:
        array = root.create_array("a", data=np.zeros(48, "i4"), chunks=(16,))

        def write(first: int, value: int) -> None:
            for cell in range(first, 48, 4):
                array[cell] = value + cell

        for value, block in ((100, nullcontext), (200, root.batch)):
            with block(), ThreadPoolExecutor(4) as pool:
                list(pool.map(write, range(4), [value] * 4))
            np.testing.assert_array_equal(array[...], np.arange(48) + value)
    assert len(hs.history(f"icechunk+file://{tmp_path}/r")) == 3 + 48 + 1


def test_dask_arrays_are_written_by_threads(tmp_path: Path) -> None:
    """Also within an append, which holds the array."""
    url = f"icechunk+file://{tmp_path}/r"
    with hs.create(url) as root:
        array = root.create_array("a", data=da.full(40, 9, chunks=7, dtype="i4"), chunks=(10,))
        array.append(da.ones(25, chunks=6, dtype="i4"))
        array[3:17] = da.full(14, 5, chunks=2, dtype="i4")
    wanted = np.repeat([9, 5, 9, 1], [3, 14, 23, 25])
    np.testing.assert_array_equal(hs.open(url)["a"][...], wanted)
    assert [each.message for each in hs.history(url)][:3] == [
        "write /a, 2 chunks",
        "write /a, 3 chunks",
        "write /a, 4 chunks",
    ]


def test_their_session_is_not_ours(store: RepositoryStore) -> None:
    """What is not committed is seen by nobody else."""
    theirs = icechunk.Repository.open(Location.of(store.url).repository._storage())
    with store.transaction(shared=True):
        store.put("g/a/c/0", bytes(1024))
        cells = np.asarray(zarr.open_array(theirs.readonly_session("main").store, path="g/a", mode="r")[:1024])
        assert cells.any()
    session = theirs.readonly_session("main")
    assert sync(session.store.exists("g/a/c/0"))
    assert not np.asarray(zarr.open_array(session.store, path="g/a", mode="r")[:1024]).any()


# -- many processes, and processes that are killed ---------------------------------------------------------------------

COMMITTING = Path(__file__).with_name("committing.py")


def begin_committing(how: str, place: Place, which: int, times: int) -> subprocess.Popen[str]:
    """Start a process that commits."""
    command = [sys.executable, str(COMMITTING), how, json.dumps(place), str(which), str(times)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def make_two_arrays(place: Place, chunk: int) -> None:
    with hs.commit(**place, message="begin") as root:
        for name in ("a", "b"):
            root.create_array(name, data=np.zeros(100, "i4"), chunks=(chunk,), codec="none")


@pytest.mark.parametrize("times", [4, pytest.param(60, marks=pytest.mark.soak)])
@pytest.mark.parametrize("how", ["commit", "clash", "write"])
def test_eight_processes_lose_nothing(place: Place, how: str, times: int) -> None:
    """Every acknowledged commit is in the history, and every acknowledged cell has its last value."""
    count = 8 if "storage_options" not in place else 3  # moto is slow
    make_two_arrays(place, 10)
    processes = [begin_committing(how, place, which, times) for which in range(count)]
    outputs = [process.communicate()[0] for process in processes]  # which closes their pipes
    assert [process.returncode for process in processes] == [0] * count
    said = [json.loads(line) for output in outputs for line in output.splitlines()]
    assert len(said) == count * times
    wanted = {each["cell"]: each["value"] for each in said}
    with hs.open(**place) as root:
        cells = root["a"][...]
    assert {cell: cells[cell] for cell in wanted} == wanted
    history = [each.message for each in hs.history(**place)]
    assert {each["message"] for each in said if "message" in each} <= set(history)
    assert len(history) == 2 + count * times


def test_the_exit_waits_for_threads_that_are_not_of_python() -> None:
    """A thread of icechunk that is in Python code while the process ends would abort it."""
    program = """
import _thread, atexit, time
atexit.register(lambda: print(ended))
began, ended = [], []
from hyperslab.stores.repositories import library
library()
def run():
    began.append("began")
    time.sleep(0.1)
    ended.append("ended")
_thread.start_new_thread(run, ())
while not began:
    time.sleep(0.001)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "['ended']\n"


@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.soak)])
def test_a_killed_writer_leaves_its_last_commit(tmp_path: Path, kills: int) -> None:
    """At whatever time it is killed, what opens is the last acknowledged state or the one after it, whole."""
    place = {"url": f"icechunk+file://{tmp_path}/r"}
    make_two_arrays(place, 5)
    rng = np.random.default_rng(kills)
    for number in range(kills):
        with begin_committing("generations", place, 0, 0) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(int(rng.integers(1, 4)))]
            time.sleep(float(rng.uniform(0, 0.02)))
            process.kill()
            lines += process.stdout.read().splitlines()
        last = max(json.loads(line)["generation"] for line in lines if line.strip())
        with hs.open(**place) as root:
            seen = {*root["a"][...].tolist(), *root["b"][...].tolist()}
        assert seen in ({last}, {last + 1}), number
    assert hs.check(place["url"], deep=True) == []
