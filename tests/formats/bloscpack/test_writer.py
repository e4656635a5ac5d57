"""Files that are made, changed, and appended to: what stands in them, and which of their bytes change."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numcodecs.blosc
import numpy as np
import pytest
import spec_reader
import xarray as xr
from blp_files import golden, manifest, truth, write
from numpy.testing import assert_array_equal

import hyperslab as hs
from hyperslab.codecs.checksums import DIGESTS
from hyperslab.errors import AlreadyExists, Conflict, Invalid, NodeNotFound, ReadOnly, StorageError, Unsupported
from hyperslab.formats.bloscpack.chunk_table import ChunkTable, read_table
from hyperslab.formats.bloscpack.file import LocalFile
from hyperslab.formats.bloscpack.preamble import Preamble, read_preamble

pytestmark = pytest.mark.sampled(2)

WALK = np.round(np.cumsum(np.random.default_rng(5).normal(size=64 * 16)), 2).reshape(64, 16)


def parts_of(path: Any) -> tuple[Preamble, ChunkTable, bytes]:
    """Front, chunks and bytes of a file."""
    file = LocalFile(str(path), str(path))
    front = read_preamble(file)
    return front, read_table(file, front), Path(path).read_bytes()


def changed_bytes(old: bytes, new: bytes) -> tuple[int, int]:
    """The first byte that differs, and the end of the last one (from the front, of files of one length)."""
    assert len(old) == len(new)
    where = np.flatnonzero(np.frombuffer(old, "u1") != np.frombuffer(new, "u1"))
    return int(where[0]), int(where[-1]) + 1


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """64 chunks of one row, with room in each."""
    path = tmp_path / "rows.blp"
    with hs.create(path, slack="full") as root:
        root.create_array("x", data=WALK, chunks=(1, 16), dims=("time", "y"), attrs={"units": "K"})
    return path


# -- against bloscpack's own files ----------------------------------------------------------------------------------

ARRAYS = [
    name
    for name, said in manifest().items()
    if said["kind"] == "ndarray"
    and "/" not in name
    and not {"maxapp0", "aligned_pad"} & set(name.split(".")[0].split("_"))
]


@pytest.mark.parametrize("name", [name for name in ARRAYS if name != "struct_aligned_pad.blp"])
def test_all_but_the_chunks_is_as_bloscpack_writes_it(name: str, tmp_path: Path) -> None:
    theirs, table, old = parts_of(write(tmp_path, golden(name)))
    array = truth(name)
    path = tmp_path / "ours.blp"
    hs.save(
        path,
        array,
        order="F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C",
        checksum=DIGESTS[theirs.header.checksum].name,
        offsets=theirs.header.has_offsets,
        chunk_bytes=max(theirs.header.chunk_size, 1) if table.found > 1 else 1 << 20,
        metadata_codec="none" if "nocodec" in name else "zlib",
    )
    ours, chunks, new = parts_of(path)
    chosen = 24 if "_cs_" in name else 32  # those were written without a reserve of offsets
    assert new[:chosen] == old[:chosen]
    assert theirs.section is not None
    if "nocodec" not in name:
        assert ours.section == theirs.section
    assert ours.doc == theirs.doc
    assert [*(ours.doc or {})] == [*(theirs.doc or {})]
    if theirs.header.has_offsets and chosen == 32 and "nocodec" not in name:
        assert (ours.offsets_at, ours.chunks_at) == (theirs.offsets_at, theirs.chunks_at)
        spare = slice(ours.offsets_at + 8 * chunks.found, ours.chunks_at)
        assert new[spare] == old[spare]
        assert chunks.starts[0] == table.starts[0] == ours.chunks_at
    assert_array_equal(hs.open(path)[...], array)


@pytest.mark.parametrize("layout", ["v3", "blaze"])
def test_the_layouts(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "a.blp"
    hs.save(path, WALK, layout=layout, chunks=(20, 16))
    front, table, data = parts_of(path)
    assert (data[4], front.header.layout) == ((3, "v3") if layout == "v3" else (2, "spec"))
    assert table.found == 4
    assert_array_equal(hs.open(path)[...], WALK)
    assert not hs.check(path, deep=True)


@pytest.mark.covering
@pytest.mark.parametrize(
    "dtype", ["f8", ">i2", "S3", "?", "c16", "M8[s]", "U2", "S300", [("a", "<f4"), ("b", "u1", (2,))]]
)
@pytest.mark.parametrize("checksum", [digest.name for digest in DIGESTS])
def test_who_reads_the_specification_alone_reads_it(tmp_path: Path, dtype: Any, checksum: str) -> None:
    cells = np.random.default_rng(3).integers(0, 2, (30, 5, np.dtype(dtype).itemsize), "u1")
    cells = np.ascontiguousarray(cells).view(dtype).reshape(30, 5)
    for offsets in (True, False):
        for order, axis in (("C", 0), ("F", 1)):
            path = tmp_path / f"{offsets}{order}.blp"
            chunks = (4, 5) if axis == 0 else (30, 2)
            hs.save(
                path, cells, layout="blaze", checksum=checksum, offsets=offsets, order=order, slack=0.5, chunks=chunks
            )
            assert spec_reader.read(path).tobytes() == cells.tobytes()
            array: Any = hs.open(path, "r+")
            array[3:20, 1:] = cells[:17, :4]
            expected = cells.copy()
            expected[3:20, 1:] = cells[:17, :4]
            array.append(cells, axis)
            expected = np.concatenate([expected, cells], axis, dtype=cells.dtype)
            array.resize(expected[:50, :7].shape)
            assert spec_reader.read(path).tobytes() == expected[:50, :7].tobytes()


# -- new files ------------------------------------------------------------------------------------------------------


def test_chunks_in_any_order_and_again(tmp_path: Path) -> None:
    large = np.random.default_rng(1).integers(0, 1 << 40, (40, 1 << 16)).astype("f8")
    path = tmp_path / "a.blp"
    with hs.create(path, durable=False) as root:
        array = root.create_array("x", large.shape, "f8", chunks=(1, 1 << 16))
        for number in [3, 1, *range(39, 3, -1), 0, 2]:
            array[number] = large[number] + 1
            assert_array_equal(array[number], large[number] + 1)
        for number in (0, 7, 39):
            array[number, 10:] = 0
            array[number] = large[number] + 1
        array[5] -= 1
        array[5, :3] = 7
        large[5, :3] = 7
        for number in set(range(40)) - {5}:
            array[number] = large[number]
        assert_array_equal(array[...], large)
    assert os.listdir(tmp_path) == ["a.blp"]
    assert_array_equal(hs.open(path)[...], large)
    assert not hs.check(path, deep=True)


def test_what_nobody_wrote_is_the_fill_value(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    with hs.create(path) as root:
        array = root.create_array("x", (50, 3), "i4", chunks=(8, 3), fill_value=-7)
        array[20:22] = 1
        array.resize((47, 3))
    expected = np.full((47, 3), -7, "i4")
    expected[20:22] = 1
    array = hs.open(path)
    assert_array_equal(array[...], expected)
    assert array.fill_value == -7


@pytest.mark.covering
@pytest.mark.parametrize("layout", ["v3", "blaze"])
@pytest.mark.parametrize("offsets", [True, False])
def test_a_stream_of_unknown_length(tmp_path: Path, layout: str, offsets: bool) -> None:
    steps = np.random.default_rng(1).normal(size=(30, 3, 1 << 16))
    path = tmp_path / "a.blp"
    with hs.create(path, layout=layout, offsets=offsets, durable=False) as root:
        array = root.create_array("x", (0, 1 << 16), "f8", chunks=(2, 1 << 16))
        for step in steps:
            array.append(step)
        (unfinished,) = tmp_path.iterdir()
        left = hs.open(unfinished, format="bloscpack")
        whole = len(left) - len(left) % 2
        assert whole > 60
        assert_array_equal(left[: len(left)], steps.reshape(90, -1)[: len(left)])
        array.append(steps[0][:1])
    expected = np.concatenate([steps.reshape(90, -1), steps[0][:1]])
    assert os.listdir(tmp_path) == ["a.blp"]
    front, table, _ = parts_of(path)
    assert (front.header.nchunks, front.header.last_chunk) == (46, 1 << 19)
    assert table.starts[0] == front.chunks_at
    assert_array_equal(hs.open(path)[...], expected)
    assert not hs.check(path, deep=True)


def test_coordinates_before_and_behind_their_array(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    with hs.create(path) as root:
        time = root.create_array("time", data=np.arange(64.0), dims=("time",), attrs={"units": "days since 2000-01-01"})
        root.create_array("names", data=np.array(["é"] * 16, object), dtype=str, dims=("y",))
        root.create_array("air", data=WALK, dims=("time", "y"), chunks=(10, 16), attrs={"coordinates": "names"})
        root.create_array("y", data=np.arange(16), dims=("y",))
        root.attrs["title"] = "a walk"
        time[0] = -1.0
        assert_array_equal(root["air"][...], WALK)
    root: Any = hs.open_group(path)
    assert sorted(root) == ["air", "names", "time", "y"]
    assert root.attrs["title"] == "a walk"
    assert_array_equal(root["time"][...], [-1.0, *range(1, 64)])
    assert list(root["names"][...]) == ["é"] * 16
    air: Any = hs.open(path)
    assert (air.name, air.dims, air.chunks) == ("air", ("time", "y"), (10, 16))
    assert_array_equal(air.sel(time="2000-01-04"), WALK[3])
    with hs.open_group(path, "r+") as root:
        root["y"][3] = 30
        root.create_array("height", data=np.float32(2.5), attrs={"units": "m"})
        root["air"].attrs["coordinates"] = "names height"
        del root["time"]
    assert_array_equal(hs.open(path, path="y")[...], [0, 1, 2, 30, *range(4, 16)])
    assert sorted(hs.open_group(path)) == ["air", "height", "names", "y"]


@pytest.mark.parametrize("failing", [1, 2, 9, 12])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    """What fails once is never published, whatever goes well after it."""
    large, calls, real = np.random.default_rng(1).normal(size=(12, 1 << 17)), 0, os.pwrite

    def full(*arguments: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    monkeypatch.setattr(os, "pwrite", full)
    root = hs.create(tmp_path / "a.blp", durable=False)
    array = root.create_array("x", large.shape, "f8", chunks=(1, 1 << 17))
    for row in range(12):
        with suppress(StorageError):
            array[row] = large[row]
    with pytest.raises(StorageError):
        root.close()
    assert os.listdir(tmp_path) == []
    calls = 0
    with pytest.raises(StorageError, match="No space"):
        hs.save(tmp_path / "a.blp", large)
    assert os.listdir(tmp_path) == []


def test_several_arrays_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"one array.*: a, b"), hs.create(tmp_path / "a.blp") as root:
        root.create_array("a", data=WALK)
        root.create_array("b", data=WALK)
    with pytest.raises(Unsupported, match="groups"), hs.create(tmp_path / "a.blp") as root:
        root.create_group("g")
    with pytest.raises(Unsupported, match="text"), hs.create(tmp_path / "a.blp") as root:
        root.create_array("words", data=np.array(["a", "bc"], object), dtype=str)
    with pytest.raises(ZeroDivisionError), hs.create(tmp_path / "a.blp") as root:
        root.create_array("a", data=WALK)
        raise ZeroDivisionError
    with pytest.raises(Invalid, match="one array"), hs.create(tmp_path / "a.blp") as root:
        root.create_array("a", (1 << 20, 64), "f8", dims=("x", "y"))
        root.create_array("b", (1 << 20, 64), "f8", dims=("x", "y"))
    hs.create(tmp_path / "a.blp").close()
    assert os.listdir(tmp_path) == []
    with pytest.raises(Invalid, match="nothing was written"):
        hs.save(tmp_path / "a.blp", xr.Dataset(attrs={"title": "nothing"}))
    with pytest.raises(Unsupported, match="groups"):
        hs.save(tmp_path / "a.blp", xr.DataTree.from_dict({"/g": xr.Dataset({"x": 1})}))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layout": "v4"}, "v3 and blaze"),
        ({"checksum": "crc"}, "adler32"),
        ({"slack": -1}, "full"),
        ({"slack": "much"}, "full"),
        ({"order": "K"}, "C and F"),
        ({"offsets": "no"}, "True or False"),
        ({"chunk_bytes": 0}, "chunk_bytes"),
        ({"metadata_codec": "lzma"}, "zlib"),
        ({"shape": 1}, "chunk_bytes"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        hs.create(tmp_path / "a.blp", **options)
    assert os.listdir(tmp_path) == []


def test_arrays_that_cannot_be_held(tmp_path: Path) -> None:
    root = hs.create(tmp_path / "a.blp")
    for wish, said in [
        ({"dtype": "S0"}, "0 bytes"),
        ({"codec": "zstd"}, "chunks of Blosc"),
        ({"shape": (2, 1 << 30), "dtype": "f8", "chunks": (1, 1 << 20)}, "axis 0 only"),
        ({"shards": (4,)}, "shards"),
    ]:
        with pytest.raises(Unsupported, match=said):
            root.create_array("x", **({"shape": (4,), "dtype": "i4"} | wish))
    root.close()
    assert os.listdir(tmp_path) == []


def test_chunks_are_cut_in_rows(tmp_path: Path) -> None:
    def chunks(shape: tuple[int, ...], **wish: Any) -> Any:
        options = {"order": wish.pop("order")} if "order" in wish else {}
        root = hs.create(tmp_path / "a.blp", **options)
        found = root.create_array("x", shape, "f4", **wish).chunks
        root._session.reader.discard()
        return found

    assert chunks((1000, 1000)) == (262, 1000)
    assert chunks((1000, 1000), order="F") == (1000, 262)
    assert chunks((1000, 1000), chunks=(100, 100)) == (10, 1000)
    assert chunks((1000, 1000), chunks=(100, 1000)) == (100, 1000)
    assert chunks((5,), chunks=(8,)) == (8,)
    assert chunks((0, 256)) == (1024, 256)
    assert chunks((1 << 28,)) == (1 << 18,)


def test_a_file_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    hs.save(path, WALK)
    with pytest.raises(AlreadyExists):
        hs.save(path, WALK)
    with pytest.raises(AlreadyExists):
        hs.create(path)
    hs.save(path, WALK + 1, mode="w")
    assert_array_equal(hs.open(path)[...], WALK + 1)
    with hs.create(path, overwrite=True) as root:
        root.create_array("x", data=WALK + 2)
        assert_array_equal(hs.open(path)[...], WALK + 1)
    assert_array_equal(hs.open(path)[...], WALK + 2)
    first, second = hs.create(tmp_path / "b.blp"), hs.create(tmp_path / "b.blp")
    for root in (first, second):
        root.create_array("x", data=WALK)
    first.close()
    with pytest.raises(AlreadyExists):
        second.close()
    with pytest.raises(Invalid, match="closed"):
        first["x"][...]
    assert sorted(os.listdir(tmp_path)) == ["a.blp", "b.blp"]


def test_a_link_stays_and_the_file_keeps_its_mode(tmp_path: Path) -> None:
    path, link = tmp_path / "a.blp", tmp_path / "link.blp"
    hs.save(path, WALK)
    path.chmod(0o640)
    link.symlink_to(path)
    hs.open(link, "r+").append(WALK[:40])
    hs.open(link, "r+").attrs["long"] = "x" * 5000
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert len(hs.open(path)) == 104


# -- which bytes change ---------------------------------------------------------------------------------------------


def test_one_cell_changes_one_chunk(rows: Path) -> None:
    inode = rows.stat().st_ino
    _, table, old = parts_of(rows)
    array = hs.open(rows, "r+")
    for number in (0, 31, 63):
        before = rows.read_bytes()
        array[number, 3] += 1000.125
        start, stop = changed_bytes(before, rows.read_bytes())
        first = int(table.starts[number])
        assert first <= start
        assert stop <= first + int(table.rooms[number])
    assert rows.stat().st_ino == inode
    assert os.listdir(rows.parent) == ["rows.blp"]
    assert len(rows.read_bytes()) == len(old)
    expected = WALK.copy()
    expected[[0, 31, 63], 3] += 1000.125
    assert_array_equal(hs.open(rows)[...], expected)
    assert not hs.check(rows, deep=True)


def test_attributes_change_within_their_room(rows: Path) -> None:
    inode = rows.stat().st_ino
    front, _, old = parts_of(rows)
    array = hs.open(rows, "r+")
    array.attrs["note"] = "short"
    start, stop = changed_bytes(old, rows.read_bytes())
    assert (start >= 32, stop <= front.offsets_at) == (True, True)
    assert rows.stat().st_ino == inode
    array.attrs["noise"] = np.random.default_rng(0).bytes(1500).hex()
    assert rows.stat().st_ino != inode
    assert dict(hs.open(rows).attrs)["note"] == "short"
    assert_array_equal(hs.open(rows)[...], WALK)


def test_appending_uses_the_reserve_then_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    hs.save(path, WALK[:7], chunks=(4, 16))
    inode, expected = path.stat().st_ino, WALK[:7]
    front, table, old = parts_of(path)
    assert front.header.max_app == 20
    array = hs.open(path, "r+")
    array.append(WALK[7:15])
    expected = WALK[:15]
    now, chunks, new = parts_of(path)
    assert path.stat().st_ino == inode
    assert (now.header.nchunks, now.header.last_chunk, now.header.max_app) == (4, 3 * 128, 18)
    first = slice(int(table.starts[0]), int(table.starts[1]))
    assert new[first] == old[first]
    assert_array_equal(chunks.starts[:2], table.starts)
    for _ in range(9):
        array.append(WALK[:8])
        expected = np.concatenate([expected, WALK[:8]])
    assert path.stat().st_ino == inode
    assert parts_of(path)[0].header.max_app == 0
    array.append(WALK[:8])
    expected = np.concatenate([expected, WALK[:8]])
    assert path.stat().st_ino != inode
    assert parts_of(path)[0].header.max_app == 240
    assert_array_equal(hs.open(path)[...], expected)
    assert not hs.check(path, deep=True)


def test_cutting_off_rows(rows: Path) -> None:
    inode = rows.stat().st_ino
    array = hs.open(rows, "r+")
    array.resize((40, 16))
    front, table, data = parts_of(rows)
    assert rows.stat().st_ino == inode
    assert (front.header.nchunks, front.header.max_app) == (40, 664)
    assert len(data) == table.starts[-1] + table.rooms[-1]
    assert data[front.offsets_at + 320 : front.chunks_at] == b"\xff" * 8 * 664
    array.resize((41, 16))
    assert_array_equal(hs.open(rows)[...], [*WALK[:40], np.zeros(16)])
    assert not hs.check(rows, deep=True)


def test_without_checksums_nothing_changes_in_place(tmp_path: Path) -> None:
    """A reader beside the writer could not tell a chunk that is half changed."""
    path = tmp_path / "a.blp"
    hs.save(path, WALK, checksum="none", slack="full")
    inode = path.stat().st_ino
    hs.open(path, "r+")[0, 0] = 5
    assert path.stat().st_ino != inode


def test_chunks_that_did_not_change_are_copied_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    hs.save(path, WALK, chunks=(8, 16), codec="blosc:zlib:9")
    _, table, old = parts_of(path)
    hs.open(path, "r+", slack=0)[9] = np.random.default_rng(0).normal(size=16)
    _, chunks, new = parts_of(path)
    for number in (0, *range(2, 8)):
        was, now = (int(each.starts[number]) for each in (table, chunks))
        room = int(table.rooms[number])
        assert new[now : now + room] == old[was : was + room]
    assert chunks.starts[2] > table.starts[2]


@pytest.mark.sampled(0)
@pytest.mark.parametrize("slack", [0, "full"])
def test_changes_of_more_than_a_journal_holds(tmp_path: Path, slack: Any) -> None:
    """They wait in a file in part, and the old one is written anew: never twice in memory."""
    path = tmp_path / "a.blp"
    large = np.random.default_rng(0).integers(0, 1 << 60, (90, 1 << 17))
    hs.save(path, large, chunks=(1, 1 << 17), slack=slack)
    inode = path.stat().st_ino
    array: Any = hs.open(path, "r+", durable=False)
    array[:50] = large[40:]
    assert path.stat().st_ino == inode
    large[:50] = large[40:].copy()
    assert_array_equal(hs.open(path)[...], large)
    array[...] = large[::-1]
    assert path.stat().st_ino != inode
    assert_array_equal(hs.open(path)[...], large[::-1])
    inode = path.stat().st_ino
    array.append(large)
    assert path.stat().st_ino == inode
    assert_array_equal(hs.open(path)[90:], large)
    assert os.listdir(tmp_path) == ["a.blp"]


# -- what a transaction is ------------------------------------------------------------------------------------------


def test_a_batch_shows_at_once(rows: Path) -> None:
    root: Any = hs.open_group(rows, "r+")
    with root.batch():
        root["x"][0] = 1
        root["x"].attrs["a"] = 1
        root["x"].append(np.ones((2, 16)))
        root["x"][-1, 0] = 5
        assert len(root["x"]) == 66
        assert_array_equal(hs.open(rows)[...], WALK)
    assert len(hs.open(rows)) == 66
    assert hs.open(rows)[-1, 0] == 5
    assert hs.open(rows).attrs["a"] == 1


def test_closing_ends_a_batch(rows: Path) -> None:
    root: Any = hs.open_group(rows, "r+")
    with root.batch():
        root["x"][0] = 1
        root.close()
        assert (hs.open(rows)[0] == 1).all()
    with pytest.raises(Invalid, match="closed"):
        root["x"][0] = 2
    hs.open(rows, "r+", lock_timeout=0.1)[0] = 3


def test_media_that_take_no_writes(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the superuser is refused: by errors that a system without rights would give."""
    array: Any = hs.open(rows, "r+")
    root: Any = hs.open_group(rows, "r+")
    before, real = rows.read_bytes(), os.open

    def refused(path: Any, flags: int, *mode: int, **options: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, flags, *mode, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refused)
        for change in (
            lambda: array.__setitem__(0, 1),
            lambda: array.append(WALK),
            lambda: root["x"].attrs.update(a=1),
        ):
            with pytest.raises(ReadOnly, match="Permission denied"):
                change()
    assert rows.read_bytes() == before
    array[0] = 1
    with pytest.raises(StorageError, match="No such file"):
        hs.create(rows.parent / "none" / "a.blp")


def test_what_fails_changes_nothing(rows: Path) -> None:
    before = rows.read_bytes()
    array: Any = hs.open(rows, "r+")
    for wrong in (np.ones((2, 15)), np.ones(16), np.array([["a"] * 16])):
        with pytest.raises(Invalid):
            array.append(wrong)
    with pytest.raises(Invalid):
        array[...] = "text"
    with pytest.raises(Invalid):
        array.attrs["no"] = object()
    with pytest.raises(Unsupported, match="this array is the file"):
        del hs.open_group(rows, "r+")["x"]
    with pytest.raises(Invalid, match="one array"):
        hs.open_group(rows, "r+").create_array("other", data=WALK)
    with pytest.raises(Unsupported, match="links"):
        hs.open_group(rows, "r+").create_link("other", "x")
    assert rows.read_bytes() == before
    assert array.shape == (64, 16)
    assert_array_equal(array[...], WALK)
    root: Any = hs.open_group(rows, "r+")
    with root.batch():
        root["x"][1] = 0
        with pytest.raises(Invalid):
            root["x"].append(np.ones((2, 15)))
    expected = WALK.copy()
    expected[1] = 0
    assert_array_equal(hs.open(rows)[...], expected)
    with pytest.raises(ReadOnly):
        hs.open(rows)[0] = 1


def test_another_writer_is_waited_for(rows: Path) -> None:
    first: Any = hs.open_group(rows, "r+")
    second: Any = hs.open(rows, "r+", lock_timeout=0.05)
    with first.batch():
        first["x"][0] = 1
        with pytest.raises(Conflict):
            second[0, 0] = 2
    second[0, 0] = 2
    assert_array_equal(first["x"][0], [2, *[1] * 15])


def test_a_file_that_is_gone_or_another(rows: Path) -> None:
    array: Any = hs.open(rows, "r+")
    hs.save(rows, WALK[:4, :3], mode="w")
    with pytest.raises((Conflict, NodeNotFound)):
        array[0] = 1
    assert_array_equal(hs.open(rows)[...], WALK[:4, :3])
    rows.unlink()
    with pytest.raises(hs.errors.NotFound):
        array[0] = 1
    assert os.listdir(rows.parent) == []


def test_a_file_that_another_program_changes_meanwhile(rows: Path) -> None:
    """One that takes no locks: what it did stays."""
    root: Any = hs.open_group(rows, "r+")
    with pytest.raises(Conflict, match="another file"), root.batch():
        root["x"][0] = 1
        hs.save(rows, WALK + 1, mode="w")
    assert_array_equal(hs.open(rows)[...], WALK + 1)
    root["x"].refresh() if "x" in root else None
    with pytest.raises(NodeNotFound):
        root["x"][0] = 1
    assert os.listdir(rows.parent) == ["rows.blp"]


def test_another_name_of_the_file_never_shows_a_half(rows: Path) -> None:
    other = rows.parent / "other.blp"
    os.link(rows, other)
    hs.open(rows, "r+")[0] = 1
    assert_array_equal(hs.open(other)[...], WALK)
    assert (hs.open(rows)[0] == 1).all()


def test_coordinates_stay_though_nothing_names_them_any_more(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    with hs.create(path) as root:
        root.create_array("x", data=WALK, dims=("r", "c"), attrs={"coordinates": "lat"})
        root.create_array("lat", data=WALK, dims=("r", "c"))
    root = hs.open_group(path, "r+")
    del root["x"].attrs["coordinates"]
    root["x"][0] = 1
    assert sorted(hs.open_group(path)) == ["lat", "x"]
    assert hs.open(path).name == "x"


def test_a_long_name(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 125 + ".blp")
    with hs.create(path, slack="full") as root:
        root.create_array("x", data=WALK)
    inode = path.stat().st_ino
    hs.open(path, "r+")[0] = 1
    assert path.stat().st_ino == inode
    assert len(os.listdir(tmp_path)) == 1


# -- files of others ------------------------------------------------------------------------------------------------

CHANGEABLE = [name for name, said in manifest().items() if said["kind"] == "ndarray" and truth(name).ndim]


@pytest.mark.parametrize("name", CHANGEABLE)
def test_files_of_others_are_changed(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, golden(name))
    array: Any = hs.open(path, "r+")
    expected = np.array(array[...])
    plain = manifest()[name].get("layout") in ("v1", "v2") or expected.dtype != truth(name).dtype
    assert plain or expected.dtype.names or expected.tobytes() == truth(name).tobytes()
    if expected.size:
        array[1:3] = expected[:2]
        expected[1:3] = expected[:2].copy()
    axis = 1 if parts_of(path)[0].doc and parts_of(path)[0].doc.get("order") == "F" else 0  # type: ignore[union-attr]
    more = expected[:, :2] if axis else expected[:5]
    for _ in range(2):
        array.append(more, axis)
        expected = np.concatenate([expected, more], axis)
    array.attrs["seen"] = "yes"
    found: Any = hs.open(path)
    assert found[...].tobytes() == expected.tobytes()
    assert found.attrs["seen"] == "yes"
    assert not hs.check(path, deep=True)


def test_padding_is_kept_and_is_zero(tmp_path: Path) -> None:
    path = write(tmp_path, golden("struct_aligned_pad.blp"))
    array: Any = hs.open(path, "r+")
    expected = array[...]
    for _ in range(20):
        array[2:8] = expected[:6]
    doc = parts_of(path)[0].doc
    assert doc is not None
    assert doc["dtype"] == "[('a', '|i1'), ('', '|V7'), ('b', '<f8')]"
    _, table, data = parts_of(path)
    start = int(table.starts[0])
    raw = np.frombuffer(numcodecs.blosc.decompress(data[start : start + int(table.rooms[0]) - 4]), "u1")
    assert (raw.reshape(-1, 16)[:, 1:8] == 0).all()
    expected[2:8] = expected[:6].copy()
    assert hs.open(path)[...].tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["bytes_nometa.blp", "cli_compress.blp", "cli_empty.blp", "append_fill_last.blp"])
def test_plain_bytes_are_changed(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, golden(name))
    array: Any = hs.open(path, "r+")
    expected = np.append(array[...], np.arange(5, dtype="u1"))
    array.append(np.arange(5, dtype="u1"))
    assert not parts_of(path)[0].header.has_metadata, "bytes stay bytes"
    assert_array_equal(hs.open(path)[...], expected)
    array.attrs["who"] = "me"
    assert parts_of(path)[0].doc == {"who": "me"}
    assert_array_equal(hs.open(path)[...], expected)


def test_rows_that_chunks_do_not_end_with(tmp_path: Path) -> None:
    """bloscpack cuts at bytes; what is changed here is cut at rows."""
    from blp_files import file_of

    path = write(tmp_path, file_of(WALK, chunk_size=136))
    array: Any = hs.open(path, "r+")
    array[3, 3] = 7
    expected = WALK.copy()
    expected[3, 3] = 7
    assert_array_equal(hs.open(path)[...], expected)
    assert parts_of(path)[0].header.chunk_size % 128 == 0


# -- the face -------------------------------------------------------------------------------------------------------


def test_save_and_convert(tmp_path: Path) -> None:
    air = xr.DataArray(
        WALK.astype("f4"),
        dims=("time", "y"),
        coords={"time": np.arange("2000-01", "2000-03-05", dtype="M8[D]").astype("M8[ns]"), "y": np.arange(16.0)},
        attrs={"units": "K"},
        name="air",
    )
    hs.save(tmp_path / "a.blp", air)
    assert os.listdir(tmp_path) == ["a.blp"]
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "a.blp", engine="hyperslab")["air"].load(), air)
    hs.convert(tmp_path / "a.blp", tmp_path / "a.zarr", verify=True)
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.blp", verify=True)
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "b.blp", engine="hyperslab")["air"].load(), air)
    hs.save(tmp_path / "a.blp", air.isel(time=slice(0, 0)), mode="w")
    with hs.create(tmp_path / "c.zarr") as root:
        root.create_array("a", data=WALK)
        root.create_array("b", data=WALK)
    with pytest.raises(Invalid, match="a, b"):
        hs.convert(tmp_path / "c.zarr", tmp_path / "c.blp")
    assert sorted(os.listdir(tmp_path)) == ["a.blp", "a.zarr", "b.blp", "c.zarr"]
