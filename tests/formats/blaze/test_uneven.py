"""Superchunks of which each holds a number of chunks of its own, as the specification allows: read by their headers."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import FormatError, Unsupported

CELLS = np.arange(118, dtype="<f8")
FIELDS = np.dtype([("a", "<f8"), ("b", "<i4")])


def stored_chunks(folder: Path) -> list[bytes]:
    """All chunks of a column with their digests, in order."""
    found = []
    for path in sorted(folder.glob("*.bin"), key=lambda path: int(path.stem.strip("_"))):
        data = path.read_bytes()
        (count,) = struct.unpack_from("<q", data, 16)
        starts = [*struct.unpack_from(f"<{count}q", data, 32), len(data)]
        found += [data[start:stop] for start, stop in pairwise(starts)]
    return found


def write_files(folder: Path, counts: Sequence[int], *, sizes: str = "said", count: str = "said", gap: int = 0) -> None:
    """The same chunks in files of so many each; ``sizes`` and ``count`` may be unknown (-1) in the headers."""
    chunks = [chunk + b"\1" * gap for chunk in stored_chunks(folder)]
    assert sum(counts) == len(chunks)
    typesize, size = struct.unpack_from("<Bi", (folder / "__1__.bin").read_bytes(), 7)
    for path in folder.glob("*.bin"):
        path.unlink()
    at = 0
    for number, many in enumerate(counts, 1):
        part = chunks[at : at + many]
        at += many
        last = struct.unpack_from("<I", part[-1], 4)[0]
        said = (size, last) if sizes == "said" else (-1, -1)
        head = struct.pack("<4s4Biiqq", b"blpk", 2, 1, 1, typesize, *said, many if count == "said" else -1, 0)
        starts = 32 + 8 * many + np.cumsum([0, *map(len, part)])[:-1]
        (folder / f"__{number}__.bin").write_bytes(head + starts.astype("<i8").tobytes() + b"".join(part))


def foreign(place: Path, counts: Sequence[int], **how: str) -> Path:
    """118 rows in 12 chunks of 10, without our documents."""
    with hs.create(place, superchunk=4) as root:
        root.create_array("data", data=CELLS, chunks=10)
    (place / "meta/superchunks").unlink()
    write_files(place / "data", counts, **how)
    return place


@pytest.mark.parametrize("counts", [(4, 2, 4, 2), (2, 4, 4, 2), (1, 11), (11, 1), (3, 1, 1, 1, 6), (5, 1, 5, 1)])
def test_cells_are_where_the_headers_say(tmp_path: Path, counts: Sequence[int]) -> None:
    place = foreign(tmp_path / "a.blaze", counts)
    array = hs.open_array(place)
    np.testing.assert_array_equal(array[...], CELLS)
    for start in range(0, 118, 9):
        np.testing.assert_array_equal(hs.open_array(place)[start : start + 5], CELLS[start : start + 5])
    np.testing.assert_array_equal(array[[117, 3, 60]], CELLS[[117, 3, 60]])
    assert not hs.check(place, deep=True)
    hs.convert(place, tmp_path / "b.blaze", verify=True)
    np.testing.assert_array_equal(hs.open_array(tmp_path / "b.blaze")[...], CELLS)


def test_damage_in_one_names_its_rows(tmp_path: Path) -> None:
    place = foreign(tmp_path / "a.blaze", (4, 2, 4, 2))
    path = place / "data/__3__.bin"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (problem,) = hs.check(place, deep=True)
    assert "__3__.bin, rows 60:100" in str(problem) and "chunk 3" in str(problem)


def test_they_are_only_read(tmp_path: Path) -> None:
    place = foreign(tmp_path / "a.blaze", (4, 2, 4, 2))
    before = {path: path.read_bytes() for path in place.rglob("*.bin")}
    with pytest.raises(Unsupported, match="convert it"):
        hs.open(place, "r+")
    with pytest.raises(Unsupported, match="convert it"):
        hs.shard(place, [tmp_path / "b.blaze", tmp_path / "c.blaze"])
    assert {path: path.read_bytes() for path in place.rglob("*.bin")} == before


def test_columns_that_are_cut_each_in_its_own_way(tmp_path: Path) -> None:
    rows = np.zeros(118, FIELDS)
    rows["a"], rows["b"] = CELLS, np.arange(118)[::-1]
    place = tmp_path / "a.blaze"
    with hs.create(place, superchunk=4) as root:
        root.create_array("data", data=rows, chunks=10)
    (place / "meta/superchunks").unlink()
    write_files(place / "data/b", (2, 2, 2, 2, 2, 2))
    np.testing.assert_array_equal(hs.open_array(place)[...], rows)
    np.testing.assert_array_equal(hs.open_array(place)["b"][45:67], rows["b"][45:67])
    np.testing.assert_array_equal(hs.open_array(place, path="b")[45:67], rows["b"][45:67])
    assert not hs.check(place, deep=True)


@pytest.mark.parametrize("counts", [(4, 2, 4), (4, 2, 4, 4), (5, 4, 2)])
def test_numbers_that_do_not_make_the_array_are_refused(tmp_path: Path, counts: Sequence[int]) -> None:
    place = foreign(tmp_path / "a.blaze", (4, 4, 4))
    chunks = stored_chunks(place / "data")
    at = 0
    for number, many in enumerate(counts, 1):
        part = [chunks[i % 11] for i in range(at, at + many)]
        at += many
        head = struct.pack("<4s4Biiqq", b"blpk", 2, 1, 1, 8, 80, 80, many, 0)
        starts = 32 + 8 * many + np.cumsum([0, *map(len, part)])[:-1]
        path = place / f"data/__{number}__.bin"
        path.write_bytes(head + starts.astype("<i8").tobytes() + b"".join(part))
    with pytest.raises(FormatError, match="the array has 12"):
        hs.open_array(place)


@pytest.mark.parametrize("counts", [(4, 4, 4), (12,), (4, 2, 4, 2)])
@pytest.mark.parametrize("sizes", ["said", "unknown"])
@pytest.mark.parametrize("count", ["said", "unknown"])
def test_headers_that_leave_sizes_and_numbers_open(
    tmp_path: Path, counts: Sequence[int], sizes: str, count: str
) -> None:
    place = foreign(tmp_path / "a.blaze", counts, sizes=sizes, count=count)
    np.testing.assert_array_equal(hs.open_array(place)[...], CELLS)
    assert hs.open_array(place)[77] == 77
    assert not hs.check(place, deep=True)


def test_unknown_numbers_and_room_behind_digests(tmp_path: Path) -> None:
    place = tmp_path / "a.blaze"
    with hs.create(place, superchunk=4) as root:
        root.create_array("data", data=CELLS, chunks=10)
    (place / "meta/superchunks").unlink()
    write_files(place / "data", (4, 4, 4), sizes="unknown", count="unknown", gap=40)
    np.testing.assert_array_equal(hs.open_array(place)[...], CELLS)


@pytest.mark.parametrize("value", [[1], {"a": 1}, None, 3, "sha3"])
@pytest.mark.parametrize("key", ["checksum", "cname", "blocksize"])
def test_our_document_with_values_of_other_kinds(tmp_path: Path, key: str, value: object) -> None:
    place = tmp_path / "a.blaze"
    with hs.create(place, superchunk=4) as root:
        root.create_array("data", data=CELLS, chunks=10)
    path = place / "meta/superchunks"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    np.testing.assert_array_equal(hs.open_array(place)[...], CELLS)
    assert not hs.check(place, deep=True)
