"""Archives: against zipfile as the other implementation, damaged ones, bombs, and what a crash leaves."""

from __future__ import annotations

import os
import struct
import subprocess
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import hyperslab as hs
from hyperslab.errors import (
    Conflict,
    CorruptChunk,
    FormatError,
    HyperslabError,
    Invalid,
    MemoryLimit,
    NotFound,
    ReadOnly,
    Unsupported,
)
from hyperslab.stores import ZipStore
from hyperslab.stores.keys import is_temporary

Actor = Callable[..., "subprocess.Popen[str]"]
VALUES = {"zarr.json": b"{}", "a/zarr.json": b"{ }", "a/c/0": bytes(range(256)) * 40, "a/c/1": b""}


def archive(path: Path, values: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """An archive that zipfile made."""
    with zipfile.ZipFile(path, "w", method) as made:
        for key, value in values.items():
            made.writestr(key, value)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_reads_what_zipfile_wrote(tmp_path: Path, method: int) -> None:
    """Values, ranges and sizes, stored and deflated; folder entries are no keys."""
    path = archive(tmp_path / "x.zip", VALUES, method)
    with zipfile.ZipFile(path, "a") as made:
        made.mkdir("a/folder")
    store = ZipStore(path, read_only=True)
    assert {key: store.get(key) for key in store.list()} == VALUES
    assert store.get_ranges("a/c/0", [(0, 4), (-4, 0), (10_000, 20_000)]) == [
        b"\0\1\2\3",
        b"\xfc\xfd\xfe\xff",
        VALUES["a/c/0"][10_000:],
    ]
    assert store.size("a/c/0") == 10_240
    assert store.list_dir("a") == (["zarr.json"], ["c"])
    store.close()
    store.close()


def test_zipfile_reads_what_we_wrote(tmp_path: Path) -> None:
    """Overwritten, removed and added: one entry per key, and the archive is sound."""
    path = tmp_path / "deep/x.zip"
    store = ZipStore(path)
    for key in VALUES:
        store.put(key, b"older")
    for key, value in VALUES.items():
        store.put(key, value)
    store.put("gone", b"1")
    store.delete("gone")
    assert not path.exists()
    store.close()
    with zipfile.ZipFile(path) as made:
        assert made.testzip() is None
        assert {info.filename: made.read(info) for info in made.infolist()} == VALUES
    assert os.listdir(tmp_path / "deep") == ["x.zip"]


@pytest.mark.linux
def test_change_of_an_archive(tmp_path: Path) -> None:
    """Seen at once by its writer, by others when it was closed; a reader of the old one goes on reading that."""
    path = archive(tmp_path / "x.zip", VALUES)
    reader = ZipStore(path, read_only=True)
    writer = ZipStore(path)
    writer.put("zarr.json", b"new")
    writer.delete_prefix("a/c")
    assert writer.get("zarr.json") == b"new"
    assert list(writer.list()) == ["a/zarr.json", "zarr.json"]
    assert reader.get("zarr.json") == b"{}"
    writer.close()
    assert reader.get("a/c/0") == VALUES["a/c/0"]
    reader.close()
    with zipfile.ZipFile(path) as made:
        assert {name: made.read(name) for name in made.namelist()} == {"zarr.json": b"new", "a/zarr.json": b"{ }"}


def test_removal_alone_is_written(tmp_path: Path) -> None:
    """An archive from which entries were only removed."""
    path = archive(tmp_path / "x.zip", VALUES)
    store = ZipStore(path)
    store.delete_prefix("")
    store.close()
    with zipfile.ZipFile(path) as made:
        assert made.namelist() == []


def test_opening_and_closing_changes_nothing(tmp_path: Path) -> None:
    """Neither for reading nor for writing, nor when abandoned."""
    path = archive(tmp_path / "x.zip", VALUES)
    before = (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino)
    for read_only in (True, False):
        ZipStore(path, read_only=read_only).close()
    store = ZipStore(path)
    store.put("new", b"1")
    store.abandon()
    del store
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert os.listdir(tmp_path) == ["x.zip"]


def test_store_that_is_dropped(tmp_path: Path) -> None:
    """Not closed: what was written is lost, which is said, and nothing stays."""
    path = archive(tmp_path / "x.zip", {"a": b"1"})
    store = ZipStore(path)
    store.put("a", b"2")
    with pytest.warns(ResourceWarning, match="changes were lost"):
        del store
    assert os.listdir(tmp_path) == ["x.zip"]
    with zipfile.ZipFile(path) as made:
        assert made.read("a") == b"1"


def test_two_writers(tmp_path: Path) -> None:
    """The one that closes last has not what the other wrote, and is refused."""
    path = archive(tmp_path / "x.zip", {"a": b"1"})
    first, second = ZipStore(path), ZipStore(path)
    first.put("a", b"2")
    second.put("b", b"3")
    first.close()
    with pytest.raises(Conflict, match="another writer"):
        second.close()
    assert os.listdir(tmp_path) == ["x.zip"]
    with zipfile.ZipFile(path) as made:
        assert made.namelist() == ["a"] and made.read("a") == b"2"


def test_two_makers(tmp_path: Path) -> None:
    first, second = ZipStore(tmp_path / "x.zip"), ZipStore(tmp_path / "x.zip")
    first.put("a", b"1")
    second.put("b", b"2")
    second.close()
    with pytest.raises(Conflict, match="another writer"):
        first.close()
    assert ZipStore(tmp_path / "x.zip", read_only=True).get("b") == b"2"


def test_refusals(tmp_path: Path) -> None:
    """No archive, no file, closed, read-only."""
    with pytest.raises(NotFound):
        ZipStore(tmp_path / "nowhere.zip", read_only=True)
    with pytest.raises(Invalid, match="no file"):
        ZipStore(tmp_path)
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(FormatError, match="no sound zip"):
        ZipStore(tmp_path / "text.zip", read_only=True)
    store = ZipStore(archive(tmp_path / "x.zip", VALUES), read_only=True)
    calls: list[Callable[[], object]] = [
        lambda: store.put("b", b""),
        lambda: store.delete("b"),
        lambda: store.delete_prefix(""),
    ]
    for call in calls:
        with pytest.raises(ReadOnly):
            call()
    store.close()
    with pytest.raises(Invalid, match="closed"):
        store.get("zarr.json")


def test_last_of_two_entries_counts(tmp_path: Path) -> None:
    """As it does for an archive that was appended to."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as made:
        made.writestr("a", b"old")
        with pytest.warns(UserWarning, match="Duplicate"):
            made.writestr("a", b"new")
    store = ZipStore(tmp_path / "x.zip", read_only=True)
    assert store.get("a") == b"new"
    assert list(store.list()) == ["a"]
    store.close()


def test_archive_of_one_folder(tmp_path: Path) -> None:
    """Its folder is the root, and is a name, too; not so where a key or a second folder lies beside it."""
    path = archive(tmp_path / "x.zip", {f"air.zarr/{key}": value for key, value in VALUES.items()})
    store = ZipStore(path, read_only=True)
    assert {key: store.get(key) for key in store.list()} == VALUES
    assert store.get("air.zarr/zarr.json") == b"{}"
    store.close()
    archive(path, {"a/zarr.json": b"1", "b": b"2"})
    store = ZipStore(path, read_only=True)
    assert list(store.list()) == ["a/zarr.json", "b"]
    assert store.get("zarr.json") is None
    store.close()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_wrong_checksum(tmp_path: Path, method: int) -> None:
    """Every byte of a value is covered; of a deflated one, all but the bits that pad its last byte."""
    path = archive(tmp_path / "x.zip", {"key": b"some bytes that are worth it" * 3}, method)
    good = path.read_bytes()
    with zipfile.ZipFile(path) as made:
        size = made.getinfo("key").compress_size
    for place in range(33, 33 + size - (method == zipfile.ZIP_DEFLATED)):
        bad = bytearray(good)
        bad[place] ^= 0x10
        path.write_bytes(bad)
        store = ZipStore(path, read_only=True)
        with pytest.raises(CorruptChunk) as caught:
            store.get("key")
        assert caught.value.key == "key"
        store.close()


def test_any_damage(tmp_path: Path) -> None:
    """A byte changed anywhere, or the end cut off anywhere: the right values, or an error of ours, never wrong ones."""
    path = archive(tmp_path / "x.zip", {"a/0": b"value " * 20, "a/1": b"other"})
    good = path.read_bytes()
    damaged = [good[:length] for length in range(len(good))]
    damaged += [
        good[:i] + bytes([good[i] ^ flip]) + good[i + 1 :] for i in range(len(good)) for flip in (1, 0x80, 0xFF)
    ]
    outcomes = set()
    for data in damaged:
        path.write_bytes(data)
        try:
            store = ZipStore(path, read_only=True)
        except HyperslabError:
            outcomes.add("refused")
            continue
        for key in list(store.list()):
            try:
                value = store.get(key)
            except HyperslabError:
                outcomes.add("error")
            else:
                assert value in (b"value " * 20, b"other")
                outcomes.add("value")
        store.close()
    assert outcomes == {"refused", "error", "value"}


def patched(path: Path, **changes: int) -> Path:
    """The archive with fields of its one directory entry changed."""
    fields = {"flags": (8, "<H"), "method": (10, "<H"), "packed": (20, "<L"), "size": (24, "<L"), "offset": (42, "<L")}
    data = bytearray(path.read_bytes())
    directory = data.index(b"PK\1\2")
    for name, value in changes.items():
        place, kind = fields[name]
        struct.pack_into(kind, data, directory + place, value)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"flags": 1}, Unsupported),
        ({"method": 12}, Unsupported),
        ({"method": 97}, Unsupported),
        ({"size": 0xFFFFFFF0}, FormatError),
        ({"size": 50_000}, CorruptChunk),
        ({"size": 10}, CorruptChunk),
        ({"packed": 0x7FFFFFFF}, FormatError),
        ({"offset": 5}, FormatError),
        ({"offset": 0x7FFFFFFF}, FormatError),
    ],
)
def test_lies_about_an_entry(tmp_path: Path, changes: dict[str, int], error: type[Exception]) -> None:
    """Encrypted, unknown method, sizes and places that cannot be: refused by name, nothing large allocated."""
    path = patched(archive(tmp_path / "x.zip", {"key": os.urandom(500) + bytes(500)}), **changes)
    store = ZipStore(path, read_only=True)
    with pytest.raises(error) as caught:
        store.get("key")
    assert isinstance(caught.value, HyperslabError)
    assert caught.value.key == "key"
    store.close()


def test_bomb(tmp_path: Path) -> None:
    """An entry that honestly inflates to more than the limit is refused before it is."""
    path = archive(tmp_path / "x.zip", {"bomb": bytes(3 << 20), "small": b"1"})
    store = ZipStore(path, read_only=True, limit=2 << 20)
    with pytest.raises(MemoryLimit, match="3145728 bytes"):
        store.get("bomb")
    with pytest.raises(MemoryLimit):
        store.get_ranges("bomb", [(0, 1)])
    assert store.get("small") == b"1"
    store.close()


def test_disk_that_fills_up(tmp_path: Path, actor: Actor) -> None:
    """A write that fails ends the whole change: the old archive stays, the store is closed, nothing is left."""
    path = archive(tmp_path / "x.zip", {"a": b"1"})
    said = actor("too_large_zip", path).communicate()[0].splitlines()
    assert said[0].startswith("StorageError: cannot write: File too large")
    assert "key=b" in said[0]
    assert os.listdir(tmp_path) == ["x.zip"]
    store = ZipStore(path, read_only=True)
    assert list(store.list()) == ["a"]
    store.close()


def test_killed_writer(tmp_path: Path, actor: Actor) -> None:
    """It leaves the old archive, and one file whose name tells what it is."""
    path = archive(tmp_path / "x.zip", {"a": b"1"})
    process = actor("write_zip", path)
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    process.kill()
    process.wait()
    assert sorted(map(bool, map(is_temporary, os.listdir(tmp_path)))) == [False, True]
    with zipfile.ZipFile(path) as made:
        assert made.namelist() == ["a"]


@pytest.mark.parametrize("key", ["zarr.json", "a/zarr.json"])
def test_deflated_document_beyond_the_limit(tmp_path: Path, key: str) -> None:
    """It is refused by its size before anything is inflated, by open and by check."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        if key != "zarr.json":
            made.writestr("zarr.json", '{"zarr_format": 3, "node_type": "group"}')
        with made.open(key, "w") as entry:
            for _ in range(9):
                entry.write(b" " * (8 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="75497472 bytes") as caught:
            hs.open(f"zip://{path}")["a"]
        assert caught.value.key == key
        if key != "zarr.json":
            assert "json-size" in hs.check(f"zip://{path}").kinds
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
