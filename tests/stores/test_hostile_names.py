"""Names that try to leave the dataset, at every entry point: refused or missing, nothing outside is read or changed."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperslab.errors import HyperslabError, Invalid, StorageError
from hyperslab.stores import DirectoryStore, KeyValueMap, MemoryStore, ZipStore
from hyperslab.stores.base import Scratch
from hyperslab.stores.keys import check_key, is_key, is_temporary, temporary_name
from hyperslab.stores.location import Location, Probe
from hyperslab.testing.stores import BAD_KEYS, KEPT_KEYS, ODD_KEYS, calls_of

CANARY = b"the canary"
PAYLOADS = [
    *BAD_KEYS,
    *KEPT_KEYS,
    "../canary",
    "a/../../canary",
    "a/b/../../../canary",
    "./../canary",
    "..//canary",
    "a/..",
    "a/./../../canary",
    "....//canary/..",
    "/etc/passwd",
    "//etc/passwd",
    "///canary",
    "\\canary",
    "..\\canary",
    "a\\..\\..\\canary",
    "\\\\host\\share\\canary",
    "C:\\canary",
    "C:canary",
    "c:/canary",
    "Z:",
    "canary\0",
    "\0",
    "../canary\0.json",
    "a/b\0/../../canary",
    "../../../../../../../../etc/passwd",
    "a//../../canary",
    "link/canary",
    "link/../canary",
    "link",
    "a/filelink",
    "a/b/uplink/canary",
    "a/b/uplink/x/a/0",
    "%2e%2e/canary",
    "..%2fcanary",
    "%2e%2e%2fcanary",
    "\uff0e\uff0e/canary",
    "..\u2215canary",
    "~/canary",
    "$HOME/canary",
    "file:///etc/passwd",
    "a/\udc80",
    "\ud83d",
    "a" * 5000,
    "a/" * 3000 + "a",
    "/".join([".."] * 1500),
]


ENCODABLE = [text for text in PAYLOADS if text.encode(errors="replace") == text.encode(errors="ignore")]


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything outside the dataset: names, contents, times."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts[0] == "x"
        if not inside:
            status = path.lstat()
            found[str(path)] = (path.read_bytes() if path.is_file() else None, status.st_mtime_ns, status.st_ino)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """``x`` is the dataset, with links that lead out of it; beside it lie a canary and a folder ``xx``."""
    (tmp_path / "canary").write_bytes(CANARY)
    (tmp_path / "xx").mkdir()
    (tmp_path / "xx/canary").write_bytes(CANARY)
    DirectoryStore(tmp_path / "x").put("a/b/0", b"inside")
    os.symlink("..", tmp_path / "x/link")
    os.symlink("../../canary", tmp_path / "x/a/filelink")
    os.symlink("../../../xx", tmp_path / "x/a/b/uplink")
    return tmp_path


def stores_at(place: Path) -> list[Callable[[], object]]:
    """One of each kind of store."""
    return [lambda: DirectoryStore(place / "x"), MemoryStore, lambda: ZipStore(place / "x/archive.zip")]


@pytest.mark.covering
@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
@pytest.mark.parametrize("kind", range(3), ids=["directory", "memory", "zip"])
def test_no_name_leaves_the_store(place: Path, payload: str, kind: int) -> None:
    """All calls of the store."""
    before = snapshot(place)
    store = stores_at(place)[kind]()
    for call in calls_of(store, payload):
        try:
            result = call()
        except HyperslabError:
            continue
        assert CANARY not in (result if isinstance(result, list) else [result])
    if isinstance(store, ZipStore):
        store.abandon()
    assert snapshot(place) == before


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_no_name_leaves_a_map_or_a_probe(place: Path, payload: str) -> None:
    """The faces above a store."""
    before = snapshot(place)
    made = KeyValueMap(DirectoryStore(place / "x"))
    probe = Probe(Location.of(place / "x"))
    for call in (
        lambda: made.get(payload),
        lambda: made.set(payload, b"1"),
        lambda: made.remove(payload),
        lambda: made.contains(payload),
        lambda: made[payload],
        lambda: probe.get(payload),
    ):
        try:
            assert call() != CANARY
        except (HyperslabError, KeyError):
            continue
    assert snapshot(place) == before


@pytest.mark.parametrize("payload", ENCODABLE, ids=range(len(ENCODABLE)))
def test_no_entry_name_leaves_an_archive(tmp_path: Path, payload: str) -> None:
    """An entry whose name is no key is not to be seen, and does not hide the others."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("good", b"1")
        info = zipfile.ZipInfo("placeholder")
        info.filename = payload
        archive.writestr(info, CANARY)
    store = ZipStore(tmp_path / "x.zip", read_only=True)
    expected = {"good", payload} if is_key(payload) else {"good"}
    assert set(store.list()) == expected
    assert store.get("good") == b"1"
    store.close()


def test_links(place: Path) -> None:
    """A link that leads out is an error that names the key, and is not listed; one that stays within is followed."""
    store = DirectoryStore(place / "x")
    os.symlink("b/0", place / "x/a/good")
    os.symlink("a", place / "x/goodfolder")
    os.symlink("b", place / "x/a/b/loop")
    os.symlink("nowhere", place / "x/dangling")
    os.symlink(place / "xx", place / "x/absolute")
    for key in ("link/canary", "a/filelink", "a/b/uplink/canary", "absolute/canary"):
        for call in (store.get, store.size, store.stamp, lambda key: store.get_into(key, Scratch())):
            with pytest.raises(StorageError, match="out of the dataset") as caught:
                call(key)
            assert caught.value.key in (key, key.rpartition("/")[0])
    assert store.get("a/good") == store.get("goodfolder/b/0") == b"inside"
    assert store.size("a/good") == 6
    assert store.stamp("a/good") == store.stamp("a/b/0")
    assert store.get("dangling") is None
    assert list(store.list()) == ["a/b/0", "a/good", "goodfolder/b/0", "goodfolder/good"]
    assert store.list_dir("") == ([], ["a", "goodfolder"])


@pytest.mark.parametrize("key", ["link/canary", "a/b/uplink/new"])
def test_links_are_not_written_through(place: Path, key: str) -> None:
    """Below a link that leads out nothing is written; a write replaces the link itself, a removal removes it."""
    store = DirectoryStore(place / "x")
    store.put("c/0", b"1")
    before = snapshot(place)
    calls: list[Callable[[], object]] = [
        lambda: store.put(key, b"1"),
        lambda: store.put_many([(key, b"1")], durable=True),
        lambda: store.put_if(key, b"1", None),
        lambda: store.delete(key),
        lambda: store.delete_prefix(key),
        lambda: store.rename("c", key),
        lambda: store.lock_node(key, 0).__enter__(),
        lambda: store.lock_chunks(key, [0], 0).__enter__(),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="out of the dataset"):
            call()
    store.put("a/filelink", b"mine")
    assert store.get("a/filelink") == b"mine"
    for prefix in ("link", "a", "c"):
        store.delete_prefix(prefix)
    assert list(store.list()) == []
    assert snapshot(place) == before


@pytest.mark.linux
def test_what_is_no_plain_file_is_missing(tmp_path: Path) -> None:
    """A pipe does not make a reader wait; a folder has no bytes."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    store = DirectoryStore(tmp_path)
    for key in ("pipe", "folder"):
        assert store.get(key) is None
        assert store.get_into(key, Scratch()) is None
        assert store.read_exactly(key, memoryview(bytearray())) is None
        assert store.size(key) is None
    assert list(store.list()) == []


def test_temporary_names() -> None:
    """They are recognised, are no keys, and fit into a file name whatever the key is called."""
    for name in ("a", "x.tmp", "日" * 80, "n" * 255, *ODD_KEYS):
        made = temporary_name(name.replace("/", "_"))
        assert is_temporary(made)
        assert not is_key(made)
        assert len(made.encode()) <= 255
    assert not is_temporary(".x.tmp")
    with pytest.raises(Invalid):
        check_key(b"a")
