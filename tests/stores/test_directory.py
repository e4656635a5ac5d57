"""What only the store of folders does: reading leaves no trace, few calls per read, folders come and go."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from hyperslab.errors import Conflict, Invalid, NotFound, ReadOnly, StorageError
from hyperslab.stores import DirectoryStore, files, locks
from hyperslab.stores.base import Scratch
from hyperslab.stores.files import link_new, move_over, read_rest, remove_tree
from hyperslab.stores.ranges import span
from hyperslab.stores.system import readv

Lock = Callable[[float], AbstractContextManager[None]]


def calls(action: Callable[[], object]) -> int:
    """Python functions that are called."""
    count = 0

    def see(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.linux
def test_few_calls_per_read(tmp_path: Path) -> None:
    """At most 3 per chunk, present or missing, once its folder is known."""
    store = DirectoryStore(tmp_path)
    store.put("a/c/0", b"12345678")
    store.put("a/c/2", b"12345678")
    scratch, out = Scratch(10), memoryview(bytearray(8))
    store.get("a/c/2")
    for key in ("a/c/0", "a/c/1"):
        assert calls(partial(store.get, key)) <= 3
        assert calls(partial(store.get_into, key, scratch)) <= 3
        assert calls(partial(store.read_exactly, key, out)) <= 3
        assert calls(partial(store.stamp, key)) <= 3


def test_reading_leaves_no_trace(tmp_path: Path) -> None:
    """Nothing is made or changed by any call that reads, nor by one that is refused."""
    writer = DirectoryStore(tmp_path / "x")
    writer.put("a/b/0", b"1")
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    store = DirectoryStore(tmp_path / "x", read_only=True)
    assert store.read_only
    store.get("a/b/0"), store.get("a/b/1"), store.get("c/0"), store.stamp("a/b/0"), store.size("c"), list(store.list())
    refused: list[Callable[[], object]] = [
        lambda: store.put("a/b/0", b"2"),
        lambda: store.put_many([]),
        lambda: store.put_if("c", b"", None),
        lambda: store.delete("a/b/0"),
        lambda: store.delete_prefix(""),
        lambda: store.rename("a", "b"),
        lambda: store.lock_node("", 0).__enter__(),
        lambda: store.lock_chunks("a", [0], 0).__enter__(),
    ]
    for call in refused:
        with pytest.raises(ReadOnly, match="open for reading only"):
            call()
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_root(tmp_path: Path) -> None:
    """It must exist to be read, is made when first written to, and is no file."""
    with pytest.raises(NotFound, match="nowhere"):
        DirectoryStore(tmp_path / "nowhere", read_only=True)
    store = DirectoryStore(tmp_path / "deep/down/x")
    assert store.get("a") is None
    assert list(store.list()) == []
    store.delete("a")
    store.delete_prefix("")
    assert os.listdir(tmp_path) == []
    store.put("a", b"1", durable=True)
    assert (tmp_path / "deep/down/x/a").read_bytes() == b"1"
    with pytest.raises(Invalid, match="no folder"):
        DirectoryStore(tmp_path / "deep/down/x/a")
    with pytest.raises(Invalid):
        DirectoryStore("a\0b")


def test_root_behind_a_link(tmp_path: Path) -> None:
    """The root itself may be a symbolic link."""
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "x")
    store = DirectoryStore(tmp_path / "x")
    store.put("a/b", b"1", durable=True)
    assert store.get("a/b") == b"1"
    assert list(store.list()) == ["a/b"]
    with store.lock_node("", 0), store.lock_chunks("", [0], 0):
        pass
    with locks.hold_folder(lambda: str(tmp_path / "x"), 0):
        pass


def test_lock_file_that_is_a_link(tmp_path: Path) -> None:
    """A lock file that leads elsewhere is not opened, and nothing is made where it leads."""
    store = DirectoryStore(tmp_path / "x")
    store.put("a/0", b"1")
    os.symlink("../../made", tmp_path / "x/a/.lock")
    with pytest.raises(StorageError, match="key=a"), store.lock_chunks("a", [0], 0):
        pass
    assert not (tmp_path / "made").exists()


def test_commit_leaves_nothing_else(tmp_path: Path) -> None:
    """After a group commit of more values than may be open at once there are exactly the values."""
    store = DirectoryStore(tmp_path)
    store.put_many(((f"c/{i % 3}/{i}", b"1") for i in range(300)), durable=True)
    assert sum(len(files) for _, _, files in os.walk(tmp_path)) == 300
    assert len(list(store.list())) == 300


def test_value_and_folder_of_one_name(tmp_path: Path) -> None:
    """Here a key cannot stand below another: an error that says so, and neither is hurt."""
    store = DirectoryStore(tmp_path)
    store.put("a/b", b"1")
    for key in ("a", "a/b/c", "a/b/c/d"):
        for durable in (False, True):
            with pytest.raises(StorageError, match="share a name"):
                store.put(key, b"2", durable=durable)
    assert list(store.list()) == ["a/b"]
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "b"]


def test_too_long_a_name(tmp_path: Path) -> None:
    """Missing for a reader, refused for a writer."""
    store = DirectoryStore(tmp_path)
    for key in ("n" * 300, "a/" * 3000 + "a", "b/" * 3000 + "a"):
        assert store.get(key) is None
        assert store.size(key) is None
        store.delete(key)
        with pytest.raises(Invalid, match="shorter names"):
            store.put(key, b"1")
    assert os.listdir(tmp_path) == []
    store.put("n" * 255, b"1", durable=True)
    assert store.get("n" * 255) == b"1"


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder that is removed here when the test fails: pytest's own removal follows one call per level."""
    yield tmp_path
    if (tmp_path / "a").exists():
        remove_tree(str(tmp_path / "a"))


@pytest.mark.sampled(0)
def test_deep_folders(deep: Path) -> None:
    """A thousand folders in one another are written, listed and removed."""
    store = DirectoryStore(deep)
    key = "a/" * 1000 + "0"
    store.put(key, b"1", durable=True)
    assert DirectoryStore(deep).get(key) == b"1"
    assert list(DirectoryStore(deep).list()) == [key]
    store.delete(key)
    assert os.listdir(deep) == []
    store.put(key, b"1")
    store.delete_prefix("a/a")
    assert os.listdir(deep) == []


def test_folder_that_went_away(tmp_path: Path) -> None:
    """Another process removes folders that this one knows: reads miss, writes make them anew, locks are taken anew."""
    store, other = DirectoryStore(tmp_path), DirectoryStore(tmp_path)
    store.put("a/b/0", b"1", durable=True)
    other.delete_prefix("a")
    assert store.get("a/b/0") is None
    store.put("a/b/0", b"2", durable=True)
    assert store.get("a/b/0") == b"2"
    other.delete("a/b/0")
    with store.lock_chunks("a/b", [1], 0), store.lock_node("a/b", 0):
        pass


def test_folder_that_goes_as_soon_as_it_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one removes its last key there between two calls of this one."""
    store = DirectoryStore(tmp_path)
    store.put("z", b"")
    (tmp_path / "a").mkdir()
    make = os.mkdir

    def mkdir(path: str, *mode: int) -> None:
        try:
            make(path, *mode)
        except FileExistsError:
            os.rmdir(path)
            raise

    monkeypatch.setattr(os, "mkdir", mkdir)
    store.put("a/x", b"1")
    assert store.get("a/x") == b"1"


@pytest.mark.linux
@pytest.mark.parametrize("lock", ["lock_node", "lock_chunks"])
def test_a_lock_in_a_folder_whose_parent_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: str) -> None:
    """Another one removes the parent, as empty, before the folder is made in it."""
    store = DirectoryStore(tmp_path)
    make, goes = os.mkdir, [tmp_path / "a"]

    def mkdir(path: str, *mode: int) -> None:
        if path.endswith("/b/") and goes:
            os.rmdir(goes.pop())
        make(path, *mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with store.lock_node("a/b", 0) if lock == "lock_node" else store.lock_chunks("a/b", [1], 0):
        assert (tmp_path / "a/b").is_dir()
    assert not goes


@pytest.mark.linux
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_touching_what_is_no_value(tmp_path: Path) -> None:
    """A pipe or link in place of a value is replaced; nothing waits for its other end, or is written behind it."""
    (tmp_path / "outside").write_bytes(b"kept")
    store = DirectoryStore(tmp_path / "store")
    store.put("a", b"")
    os.mkfifo(tmp_path / "store" / "pipe")
    os.symlink(tmp_path / "outside", tmp_path / "store" / "link")
    for name in ("pipe", "link"):
        store.touch(name)
        assert store.get(name) == b""
    assert (tmp_path / "outside").read_bytes() == b"kept"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_what_is_written_into_a_pipe_is_no_value(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)  # one that keeps a writer alive
    try:
        os.write(descriptor, b"not a value")
        scratch = Scratch(1 << 14)
        assert store.get("pipe") is None
        assert store.get_into("pipe", scratch) is None
        assert store.get_into("pipe", Scratch()) is None
        assert os.read(descriptor, 100) == b"not a value"  # nothing took it
    finally:
        os.close(descriptor)


@pytest.mark.linux
def test_waiting_for_a_lock_whose_folder_goes(tmp_path: Path) -> None:
    """A lock on a folder that was removed meanwhile guards nothing: the waiter gets one on the new folder."""
    store = DirectoryStore(tmp_path)
    kinds: list[Lock] = [partial(store.lock_chunks, "a", [1]), partial(store.lock_node, "a")]
    for lock in kinds:
        entered = threading.Event()
        leave = threading.Event()

        def wait(lock: Lock = lock, entered: threading.Event = entered, leave: threading.Event = leave) -> None:
            with lock(30):
                entered.set()
                leave.wait(30)

        store.put("a/0", b"1")
        with lock(0):
            waiter = threading.Thread(target=wait)
            waiter.start()
            assert not entered.wait(0.05)
            DirectoryStore(tmp_path).delete_prefix("a")
            store.put("a/0", b"2")
        assert entered.wait(30)
        with pytest.raises(Conflict, match="another writer"), lock(0.02):
            pass
        leave.set()
        waiter.join()


@pytest.mark.linux
def test_merge() -> None:
    """Slots become sorted ranges; too many become one."""
    assert locks.merge([5, 1, 2, 3, 5, 9]) == [(1, 3), (5, 1), (9, 1)]
    assert locks.merge([]) == []
    assert locks.merge(range(0, 100_000, 2)) == [(0, 99_999)]


@pytest.mark.parametrize(
    ("asked", "size", "given"),
    [
        ((0, 4), 10, (0, 4)),
        ((8, 12), 10, (8, 10)),
        ((12, 20), 10, (10, 10)),
        ((-4, 0), 10, (6, 10)),
        ((-4, -1), 10, (6, 9)),
        ((-20, 0), 10, (0, 10)),
        ((-4, 10), 10, (6, 10)),
        ((5, 3), 10, (5, 5)),
        ((5, -1), 10, (5, 5)),
        ((-1, 0), 0, (0, 0)),
    ],
)
def test_span(asked: tuple[int, int], size: int, given: tuple[int, int]) -> None:
    """The one rule of byte ranges."""
    assert span(*asked, size) == given


def test_read_that_comes_in_parts(tmp_path: Path) -> None:
    """A read that the system cuts short goes on; one of a file that shrank ends."""
    reader, writer = os.pipe()
    out = memoryview(bytearray(6))
    os.write(writer, b"123")
    done = readv(reader, (out,))
    os.write(writer, b"456")
    assert read_rest(reader, out, done) == 6
    assert bytes(out) == b"123456"
    os.write(writer, b"78")
    os.close(writer)
    assert read_rest(reader, out, 0) == 2
    os.close(reader)


def test_lock_file_goes_with_the_last_key(tmp_path: Path) -> None:
    """But stays while a writer holds a part of it."""
    store = DirectoryStore(tmp_path)
    store.put_if("a/b/x", b"1", None)
    with store.lock_chunks("a/b", [5], 0):
        store.delete("a/b/x")
        assert os.listdir(tmp_path / "a/b") == [".lock"]
    store.put("a/b/x", b"2")
    store.delete("a/b/x")
    assert os.listdir(tmp_path) == []


def test_an_unpublished_place_has_no_names_in_between(tmp_path: Path) -> None:
    """New values stand under their own names at once; those that replace others, and failures, are as everywhere."""
    store = DirectoryStore(tmp_path / "a", unpublished=True)
    many = {f"g{number % 7}/{number}": str(number).encode() for number in range(200)}
    seen: list[str] = []

    def pairs() -> Iterator[tuple[str, bytes | memoryview]]:
        yield "cells", memoryview(b"first")
        seen.extend(store.list())
        yield from many.items()

    store.put_many(pairs())
    assert seen == ["cells"]
    store.put_many([("cells", b"second"), ("new", b"1"), ("new", b"2")])
    assert {key: store.get(key) for key in store.list()} == many | {"cells": b"second", "new": b"2"}
    before = sorted(store.list())
    values = [*((f"more/{number}", b"x") for number in range(40)), ("cells", b"third"), ("new/x", b"")]
    with pytest.raises(StorageError, match="share a name") as caught:
        store.put_many(values)
    assert caught.value.key == "new/x"
    assert sorted(store.list()) == before
    assert store.get("cells") == b"second"
    assert not [name for name in os.listdir(store.url) if name.endswith(".tmp")]


@pytest.mark.sampled(0)
def test_a_new_value_where_no_link_can_be_had(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A file that has all the names that the file system allows gets the new one nonetheless, if that is free; without
    the call of Linux that renames to a free name alone."""
    monkeypatch.setattr(files, "_libc", lambda: None)
    # On a disk: in memory a file may have any number of names.
    folder = TemporaryDirectory(dir="/var/tmp" if os.path.isdir("/var/tmp") else None)
    request.addfinalizer(folder.cleanup)
    tmp_path = Path(folder.name)
    value, taken = tmp_path / "value", tmp_path / "taken"
    value.write_bytes(b"1")
    taken.write_bytes(b"0")
    for number in range(1 << 17):
        try:
            os.link(value, tmp_path / str(number))
        except OSError:
            break
    else:
        pytest.skip("this file system allows any number of links")
    with pytest.raises(FileExistsError):
        link_new(str(value), str(taken))
    link_new(str(value), str(tmp_path / "free"))
    assert (tmp_path / "free").read_bytes() == b"1"
    assert taken.read_bytes() == b"0"
    assert not value.exists()


def test_new_values_that_are_refused_leave_nothing(tmp_path: Path) -> None:
    """Neither temporary files nor those that had their names already; durable or not, few or many."""
    store = DirectoryStore(tmp_path)
    store.put("b/taken", b"0")
    for count, durable in ((3, False), (3, True), (100, True)):
        pairs = [*((f"a/{number}", b"1") for number in range(count)), ("b/taken", b"1")]
        with pytest.raises(Conflict) as caught:
            store.put_new(pairs, durable=durable)
        assert caught.value.key == "b/taken"
        assert os.listdir(tmp_path) == ["b"]
        assert os.listdir(tmp_path / "b") == ["taken"]


def test_entries_behind_links(tmp_path: Path) -> None:
    """Links within the root are followed, those that lead out of it are not listed."""
    store = DirectoryStore(tmp_path / "x")
    store.put("real/doc", b"123")
    store.put("a/b/doc", b"12")
    (tmp_path / "x/a/linked").symlink_to(tmp_path / "x/real")
    (tmp_path / "x/a/gone").symlink_to(tmp_path / "nothing")
    (tmp_path / "doc").write_bytes(b"1234")
    (tmp_path / "x/a/out").symlink_to(tmp_path)
    assert sorted((name, size) for name, _, size in store.entries("a", "doc")) == [("b", 2), ("linked", 3)]


def test_entries_of_a_folder_that_another_removed(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "x")
    store.put("a/b/doc", b"12")
    assert [name for name, _, _ in store.entries("a", "doc")] == ["b"]
    DirectoryStore(tmp_path / "x").delete_prefix("a")
    assert list(store.entries("a", "doc")) == []


@pytest.mark.linux
@pytest.mark.skipif(sys.platform != "linux", reason="two files change names by one call of Linux")
def test_no_unflushed_value_is_renamed_over_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which ext4 writes out first; a flushed one is, and a new one, for neither costs anything."""
    store = DirectoryStore(tmp_path / "store")
    calls: list[str] = []
    real = os.replace
    monkeypatch.setattr(os, "replace", lambda *names: (calls.append(os.path.basename(names[1])), real(*names)))
    store.put("new", b"1")
    store.put("new", b"2")
    store.put("new", b"3", durable=True)
    store.put("aside", b"4")
    store.move([("aside", "new")])
    assert calls == ["new", "new", "aside"]
    assert store.get("new") == b"4"
    assert sorted(os.listdir(tmp_path / "store")) == ["new"]


def test_a_value_takes_no_name_of_a_folder(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "store")
    store.put("folder/value", b"1")
    store.put("aside", b"2")
    for change in (lambda: store.put("folder", b"2"), lambda: store.move([("aside", "folder")])):
        with pytest.raises(StorageError, match="folder"):
            change()
        assert sorted(store.list("")) == ["aside", "folder/value"]
        assert sorted(os.listdir(tmp_path / "store")) == ["aside", "folder"]


def test_a_value_moves_where_a_file_takes_no_second_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*names: str) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"1")
    new.write_bytes(b"2")
    move_over(str(new), str(old), str(tmp_path / "spare"), flushed=False)
    assert old.read_bytes() == b"2"
    assert os.listdir(tmp_path) == ["old"]


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 8192, 100_000])
def test_a_value_of_any_length_is_read_whole(tmp_path: Path, size: int) -> None:
    """Less than a page of memory is read at one stroke, without a look at the length before."""
    value = bytes(range(256)) * (size // 256 + 1)
    (tmp_path / "a").write_bytes(value[:size])
    assert DirectoryStore(tmp_path, read_only=True).get("a") == value[:size]
