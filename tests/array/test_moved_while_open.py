"""An array that others rename, remove or make anew while a writer has it open: no write is lost in silence."""

from __future__ import annotations

import os
import threading
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Conflict, HyperslabError, NodeNotFound
from hyperslab.formats.zarr import writer
from servers.s3 import S3

FORMATS = ["zarr2", "zarr3", "nczarr", "hdmf"]
CHUNKS = 8


def make_array(url: str, format: str = "zarr3", name: str = "group/a", **how: object) -> None:
    """Make or extend a dataset by an array of so many chunks of two cells, all of them zero."""
    with hs.open(url, mode="r+") if os.path.exists(url) else hs.create(url, format=format) as root:
        if "/" in name and name.partition("/")[0] not in root:
            root.create_group(name.partition("/")[0])
        root.create_array(name, shape=(2 * CHUNKS,), dtype="i4", dims=("x",), **{"chunks": (2,), **how})


def files(place: Path) -> list[str]:
    """Return the names of all files and folders below a place."""
    return sorted(str(each.relative_to(place)) for each in place.rglob("*"))


@pytest.mark.parametrize("has_written", [False, True])
@pytest.mark.parametrize("whole", ["array", "group"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_writer_learns_that_its_array_was_renamed(tmp_path: Path, format: str, whole: str, has_written: bool) -> None:
    place = tmp_path / "d"
    make_array(str(place), format)
    writer = hs.open(str(place), mode="r+")
    array = writer["group/a"]
    if has_written:
        array[0:2] = 7
    with hs.open(str(place), mode="r+") as other:
        other.move("group/a", "group/b") if whole == "array" else other.move("group", "renamed")
    before = files(place)
    for key, cells in ((slice(2, 4), [1, 2]), (3, 5), (slice(None), np.arange(2 * CHUNKS))):
        # the others where its cells were not looked for before, and only consolidated metadata spoke of it
        with pytest.raises(NodeNotFound, match=r"renamed or removed.*open it where it is now|is gone|there is no"):
            array[key] = cells
    assert files(place) == before, "nothing may be in the way of a new name"
    moved = hs.open(str(place))["group/b" if whole == "array" else "renamed/a"]
    np.testing.assert_array_equal(moved[...], [7 if has_written else 0] * 2 + [0] * (2 * CHUNKS - 2))
    with hs.open(str(place), mode="r+") as other:  # the old name is free
        other.move("group/b", "group/a") if whole == "array" else other.move("renamed", "group")
    array[2:4] = 9
    writer.close()
    assert hs.open(str(place))["group/a"][2] == 9


@pytest.mark.parametrize("format", FORMATS)
def test_a_writer_learns_that_its_array_was_removed(tmp_path: Path, format: str) -> None:
    place = tmp_path / "d"
    make_array(str(place), format)
    with hs.open(str(place), mode="r+") as writer:
        array = writer["group/a"]
        array[0:2] = 7
        with hs.open(str(place), mode="r+") as other:
            del other["group/a"]
        with pytest.raises(NodeNotFound, match="renamed or removed"):
            array[0:2] = 8
    assert "a" not in hs.open(str(place))["group"]


@pytest.mark.parametrize("change", [{"dtype": "f8"}, {"chunks": (4,)}, {"codec": "zstd"}])
def test_chunks_never_come_into_another_array(tmp_path: Path, change: dict[str, object]) -> None:
    place = tmp_path / "d"
    make_array(str(place))
    with hs.open(str(place), mode="r+") as writer:
        array = writer["group/a"]
        array[0:2] = 7
        with hs.open(str(place), mode="r+") as other:
            del other["group/a"]
            how = {"shape": (2 * CHUNKS,), "dtype": "i4", "chunks": (2,), **change}
            other["group"].create_array("a", **how)[...] = 1
        with pytest.raises(Conflict, match="another array was put in place"):
            array[0:2] = 8
    assert (hs.open(str(place))["group/a"][...] == 1).all()


@pytest.mark.parametrize("format", FORMATS)
def test_chunks_never_come_into_an_array_of_the_same_type(tmp_path: Path, format: str) -> None:
    """Two arrays change names while one of them is open; so does its group with another one."""
    place = str(tmp_path / "d")
    for name in ("group/a", "group/b", "other/a"):
        make_array(place, format, name)
    for one, two in (("group/a", "group/b"), ("group", "other")):
        with hs.open(place, mode="r+") as writer:
            array = writer["group/a"]
            array[0:2] = 7
            with hs.open(place, mode="r+") as other:
                for source, target in ((one, "aside"), (two, one), ("aside", two)):
                    other.move(source, target)
            with pytest.raises(Conflict, match="another array was put in place"):
                array[0:2] = 8
    assert [hs.open(place)[name][0] for name in ("group/a", "other/a", "other/b")] == [0, 7, 7]


def test_chunks_never_come_into_a_dataset_that_took_the_place(tmp_path: Path) -> None:
    place = str(tmp_path / "d")
    make_array(place)
    with hs.open(place, mode="r+") as writer:
        array = writer["group/a"]
        array[0:2] = 7
        with hs.create(place, overwrite=True) as root:
            root.create_group("group").create_array("a", shape=(2 * CHUNKS,), dtype="i4", chunks=(2,), dims=("x",))
            root["group/a"][2:4] = 1
        with pytest.raises(Conflict, match="another array was put in place"):
            array[0:2] = 8
    assert hs.open(place)["group/a"][:4].tolist() == [0, 0, 1, 1]


def test_an_edit_leaves_writers_to_go_on(tmp_path: Path) -> None:
    """It makes all folders anew where several documents change."""
    place = str(tmp_path / "d")
    for name in ("group/a", "group/b"):
        make_array(place, "zarr3", name)
    with hs.open(place, mode="r+") as writer:
        array = writer["group/a"]
        array[0:2] = 7
        folder = os.stat(os.path.join(place, "group/a")).st_ino
        hs.edit(place, set={"group/*:units": "K"})
        assert os.stat(os.path.join(place, "group/a")).st_ino != folder
        array[2:4] = 8
    assert hs.open(place)["group/a"][:4].tolist() == [7, 7, 8, 8]


def test_an_array_that_others_describe_or_extend_takes_writes(tmp_path: Path) -> None:
    place = tmp_path / "d"
    make_array(str(place))
    with hs.open(str(place), mode="r+") as writer, hs.open(str(place), mode="r+") as other:
        array = writer["group/a"]
        array[0:2] = 7
        other["group/a"].attrs["units"] = "K"
        array[2:4] = 8
        other["group/a"].resize((2 * CHUNKS + 2,))
        array[4:6] = 9
    assert hs.open(str(place))["group/a"][:6].tolist() == [7, 7, 8, 8, 9, 9]


def test_an_array_of_varying_chunks_that_others_extend_takes_writes(tmp_path: Path) -> None:
    place = str(tmp_path / "d")
    with hs.create(place) as root:
        root.create_array("a", shape=(6,), dtype="i4", chunks=((2, 4),))
    with hs.open(place, mode="r+") as writer, hs.open(place, mode="r+") as other:
        array = writer["a"]
        array[0:2] = 7
        other["a"].resize((9,))
        array[2:4] = 8
    assert hs.open(place)["a"][...].tolist() == [7, 7, 8, 8, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("format", FORMATS)
def test_arrays_of_a_batch_take_writes_before_they_are_stored(tmp_path: Path, format: str) -> None:
    place = tmp_path / "d"
    with hs.create(str(place), format=format) as root, root.batch():
        array = root.create_array("a", shape=(4,), dtype="i4", chunks=(2,))
        array[0:2] = 7
        array[...] = [1, 2, 3, 4]
    assert hs.open(str(place))["a"][...].tolist() == [1, 2, 3, 4]


def test_no_write_is_lost_while_an_array_is_renamed_time_and_again(tmp_path: Path) -> None:
    place = str(tmp_path / "d")
    make_array(place)
    acknowledged: dict[int, int] = {}
    refused = 0
    is_over = threading.Event()

    def write() -> None:
        nonlocal refused
        for number in count(1):
            if is_over.is_set():
                return
            chunk = number % CHUNKS
            for name in ("group/a", "group/b"):
                try:
                    with hs.open(place, mode="r+") as root:
                        array = root[name]
                        array[2 * chunk : 2 * chunk + 2] = number
                        acknowledged[chunk] = number
                        array[2 * chunk] = number  # by the array that was opened before
                    break
                except NodeNotFound:
                    refused += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        with hs.open(place, mode="r+") as other:
            for _ in range(500):
                other.move("group/a", "group/b")
                other.move("group/b", "group/a")
                if len(acknowledged) == CHUNKS and refused >= CHUNKS:
                    break
    finally:
        is_over.set()
        thread.join()
    root = hs.open(place)
    cells = root["group/a"][...]
    for chunk, number in acknowledged.items():
        assert cells[2 * chunk + 1] >= number, "an acknowledged write is not there"
    assert len(acknowledged) == CHUNKS


def open_in_bucket(url: str, options: dict[str, Any], shards: tuple[int, ...] | None) -> hs.Array:
    """Return a new array of a bucket, whose first chunks are written."""
    with hs.create(url, storage_options=options) as root:
        root.create_array("a", shape=(2 * CHUNKS,), dtype="i4", chunks=(2,), shards=shards)
    array = hs.open(url, mode="r+", storage_options=options)["a"]
    array[0:4] = 7
    return array


@pytest.mark.parametrize("shards", [None, (4,)])
@pytest.mark.parametrize("how", ["removed", "renamed"])
def test_a_writer_in_a_bucket_learns_of_it_some_seconds_later(
    s3: S3, monkeypatch: pytest.MonkeyPatch, how: str, shards: tuple[int, ...] | None
) -> None:
    """What it wrote before it looked is no part of any array, then or later."""
    monkeypatch.setattr(writer, "SECONDS_WITHOUT_LOOK", 3600.0)
    url, options = f"s3://{s3.bucket()}/d", s3.options
    array = open_in_bucket(url, options, shards)
    with hs.open(url, mode="r+", storage_options=options) as other:
        if how == "renamed":
            other.move("a", "b")
        else:
            del other["a"]
    with hs.trace() as cost:
        array[4:8] = 8  # a short session takes no request more
    assert cost.requests <= 4
    monkeypatch.setattr(writer, "SECONDS_WITHOUT_LOOK", 0.0)
    for key in (slice(8, 12), 3, slice(None)):
        with pytest.raises(NodeNotFound, match="renamed or removed"):
            array[key] = 9
    assert [each.kind for each in hs.check(url, storage_options=options)] == ["missing-document"]
    with hs.open(url, mode="r+", storage_options=options) as other:
        if how == "renamed":
            assert other["b"][...].tolist() == [7] * 4 + [0] * 12
        assert (other.create_array("a", shape=(2 * CHUNKS,), dtype="i4", chunks=(2,))[...] == 0).all()
    assert not hs.check(url, storage_options=options)


@pytest.mark.parametrize("shards", [None, (4,)])
def test_a_writer_in_a_bucket_finds_another_array_in_place(
    s3: S3, monkeypatch: pytest.MonkeyPatch, shards: tuple[int, ...] | None
) -> None:
    monkeypatch.setattr(writer, "SECONDS_WITHOUT_LOOK", 0.0)
    url, options = f"s3://{s3.bucket()}/d", s3.options
    array = open_in_bucket(url, options, shards)
    with hs.open(url, mode="r+", storage_options=options) as other:
        del other["a"]
        other.create_array("a", shape=(2 * CHUNKS,), dtype="f8", chunks=(4,))[...] = 1
    with pytest.raises(NodeNotFound, match="another array was put in place"):
        array[0:4] = 9
    with pytest.raises(HyperslabError):  # the chunk that is changed is none of its own
        array[3] = 9
    assert (hs.open(url, storage_options=options)["a"][...] == 1).all()
