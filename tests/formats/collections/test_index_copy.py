"""The copy of a bucket's index among the caches of a user: shared, brought up to date, and left out when it fails."""

# ruff: noqa: F811 - fixtures of the other module
from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from own_store import ids, opened
from test_manifest_index import Writers, check, index_of, life, memory, small, some, where  # noqa: F401 - fixtures

import hyperslab as hs
from hyperslab.database.index import AttributeIndex
from hyperslab.formats.collections import manifest_index
from hyperslab.stores.location import Location

pytestmark = pytest.mark.usefixtures("copied")


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Copies of the smallest index, in a cache of the test."""
    monkeypatch.setattr(manifest_index, "_COPIED_ROWS", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches"


def copy_in(caches: Path) -> Path:
    (found,) = caches.glob("hyperslab/indexes/*/index.sqlite")
    return found


def test_who_comes_later_reads_no_manifests(where: Location, copied: Path) -> None:
    writer = opened(where)
    writer.create(some(300))
    writer.close()
    check(opened(where, writable=False))
    assert copy_in(copied).stat().st_mode & 0o077 == 0 or copy_in(copied).parent.stat().st_mode & 0o077 == 0
    for reader in (opened(where, writable=False), opened(where)):
        with hs.trace() as cost:
            index = AttributeIndex(reader)
            assert index.count() == 300
        # the document, what tells of a creation, the generations twice, the unsettled, the head
        assert cost.requests <= 6
        check(reader, index)


def test_a_copy_follows_what_is_published(memory: Location) -> None:
    writer, first = opened(memory), opened(memory, writable=False)
    writer.create(some(40))
    index_of(writer).publish()
    looking = AttributeIndex(first)
    check(first, looking)
    writer.create(some(10, 40))
    writer.remove(some(1)[0].id)
    writer.close()
    second = opened(memory, writable=False)
    check(second)  # loads into the copy what the first has not seen
    check(first, looking)


@pytest.mark.parametrize("damage", [b"", b"no database at all", b"SQLite format 3\0" + bytes(4000)])
def test_a_damaged_copy_is_made_anew(memory: Location, copied: Path, damage: bytes) -> None:
    writer = opened(memory)
    writer.create(some(40))
    writer.close()
    check(opened(memory, writable=False))
    for beside in copy_in(copied).parent.glob("index.sqlite-*"):
        beside.unlink()
    copy_in(copied).write_bytes(damage)
    check(opened(memory, writable=False))
    check(opened(memory))
    assert copy_in(copied).read_bytes() != damage


def test_while_another_process_holds_the_copy(
    memory: Location,
    copied: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manifest_index, "_LOADING_SECONDS", 0.05)
    writer, reader = opened(memory), opened(memory, writable=False)
    writer.create(some(40))
    index_of(writer).publish()
    index = AttributeIndex(reader)
    check(reader, index)
    other = sqlite3.connect(copy_in(copied), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writer.create(some(10, 40))
    writer.close()
    check(reader, index)
    check(opened(memory))
    other.execute("ROLLBACK")
    other.close()
    check(opened(memory))


def test_without_a_place_for_copies(memory: Location, copied: Path) -> None:
    copied.write_bytes(b"a file where the folder should be")
    writer = opened(memory)
    writer.create(some(40))
    writer.close()
    check(opened(memory, writable=False))


def test_made_anew_the_copy_is_too(memory: Location) -> None:
    writer, reader = opened(memory), opened(memory, writable=False)
    writer.create(some(40))
    index_of(writer).publish()
    index = AttributeIndex(reader)
    check(reader, index)
    assert AttributeIndex(writer).make() == 40
    check(reader, index)
    check(opened(memory))


@pytest.mark.usefixtures("small")
def test_threads_that_share_a_copy(where: Location) -> None:
    reader, second = AttributeIndex(opened(where, writable=False)), AttributeIndex(opened(where))
    with ThreadPoolExecutor(3) as pool:
        left = set().union(*pool.map(lambda mine: life(where, mine, 8, [reader, second]), range(3)))
    assert ids(opened(where)) == left
    check(reader.store, reader)
    check(second.store, second)
    check(opened(where, writable=False))


@pytest.mark.usefixtures("small")
class TestWriters(Writers.TestCase):  # type: ignore[name-defined,misc]
    """The walk of writers and a reader, all of which share a copy."""
