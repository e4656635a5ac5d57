"""Damage is named with its file, its chunk and both values; repair mends it and touches nothing that is sound."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc

import numpy as np
import pytest
from spec_reader import read

import hyperslab as hs
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, Invalid, MemoryLimit, Unsupported
from hyperslab.formats import get_format
from hyperslab.stores.location import Location

CELLS = np.arange(100, dtype="<f8")
FIELDS = np.dtype([("a", "<i4"), ("b", [("c", "<f4"), ("d", "S3")])])
ROWS = np.frombuffer(np.random.default_rng(5).integers(1, 60, 100 * FIELDS.itemsize, "u1").tobytes(), FIELDS)


@pytest.fixture
def place(tmp_path):
    """Ten chunks of ten rows in superchunks of three."""
    with hs.create(tmp_path / "a.blaze", superchunk=3, checksum="sha256") as root:
        root.create_array("data", data=CELLS, chunks=10)
    return tmp_path / "a.blaze"


@pytest.fixture
def nested(tmp_path):
    with hs.create(tmp_path / "n.blaze", superchunk=3) as root:
        root.create_array("data", data=ROWS, chunks=10)
    return tmp_path / "n.blaze"


def file(place, number=2):
    return place / f"data/__{number}__.bin"


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def start_of(path, chunk):
    """Where a chunk lies."""
    return int(np.frombuffer(path.read_bytes(), "<i8", 8, 32)[chunk])


def kinds(place, **options):
    return [problem.kind for problem in hs.check(place, **options)]


def test_sound(place, nested):
    for each in (place, nested):
        assert not hs.check(each)
        assert not hs.check(each, deep=True)
        assert not hs.repair(each)


def test_a_wrong_digest_names_chunk_and_both_values(place):
    path = file(place)
    flip(path, start_of(path, 1) + 20)
    array = hs.open_array(place)
    np.testing.assert_array_equal(array[:40], CELLS[:40])
    with pytest.raises(CorruptChunk, match=r"sha256.*expected [0-9a-f]{64}, found [0-9a-f]{64}.*__2__\.bin chunk 1"):
        array[40:50]
    assert kinds(place) == []
    (problem,) = hs.check(place, deep=True)
    assert problem.kind == "corrupt-chunk"
    assert "__2__.bin, rows 30:60" in problem.message
    assert "chunk 1: sha256" in problem.message
    before = file(place, 1).stat()
    (mend,) = hs.repair(place, dry_run=False)
    assert mend.done
    wanted = CELLS.copy()
    wanted[40:50] = 0
    np.testing.assert_array_equal(hs.open_array(place)[...], wanted)
    assert (file(place, 1).stat().st_ino, file(place, 1).stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not hs.check(place, deep=True)
    assert (place.parent / "a.blaze.quarantine/data/__2__.bin").exists()


def test_a_stored_chunk_that_is_moved_as_it_is_names_its_place_too(place):
    flip(file(place), start_of(file(place), 1) + 20)
    source = get_format("blaze").open(Location.of(place), "r").chunks("data")
    with pytest.raises(CorruptChunk, match=r"a\.blaze key=data/__2__\.bin chunk 1\]"):
        source.read_blosc((4,))


def test_missing_and_extra_and_foreign_files(place):
    file(place, 2).unlink()
    shutil.copy(file(place, 1), file(place, 9))
    (place / "data/notes.txt").write_text("mine")
    (place / "data/more").mkdir()
    (place / "data/more/x").write_text("mine")
    assert sorted(kinds(place)) == ["missing-superchunk"]
    assert sorted(note.kind for note in hs.check(place).notes) == ["extra-superchunk", "foreign", "foreign"]
    assert "__2__.bin, rows 30:60" in str(hs.check(place))
    assert all(mend.done for mend in hs.repair(place, dry_run=False))
    assert (place / "data/notes.txt").exists() and (place / "data/more/x").exists()
    assert [mend.kind for mend in hs.repair(place, dry_run=False, drop_foreign=True)] == ["foreign", "foreign"]
    assert not hs.check(place, deep=True)
    wanted = CELLS.copy()
    wanted[30:60] = 0
    np.testing.assert_array_equal(read(place), wanted)


def test_unfinished_writes_and_links(place):
    old, new = (place / f"data/.__1__.bin.{number:016x}.tmp" for number in range(2))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    (place / "data/__4__.bin").rename(place / "kept")
    (place / "data/__4__.bin").symlink_to("nowhere")
    assert sorted(kinds(place)) == ["dangling-link", "missing-superchunk", "temporary"]
    assert all(mend.done for mend in hs.repair(place, dry_run=False))
    assert not hs.check(place, deep=True)
    assert new.exists() and not old.exists()


def test_a_damaged_column_leaves_the_others(nested):
    path = nested / "data/b/c/__1__.bin"
    flip(path, start_of(path, 2) + 20)
    array = hs.open_array(nested)
    np.testing.assert_array_equal(array["a"], ROWS["a"])
    with pytest.raises(CorruptChunk, match=r"data/b/c/__1__\.bin chunk 2"):
        array["b"]
    (mend,) = hs.repair(nested, dry_run=False)
    assert mend.done
    wanted = ROWS.copy()
    wanted["b"]["c"][20:30] = 0
    assert hs.open_array(nested)[...].tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"shape": [-1]}, "shape"),
        ({"shape": "100"}, "shape"),
        ({"shape": [2**63]}, "shape"),
        ({"dtype": "__import__('os').abort()"}, "data type"),
        ({"dtype": "[('a', '<i4'), ('../../b', '<i4')]"}, "no name of a folder"),
        ({"dtype": "[('..', '<i4')]"}, "no name of a folder"),
        ({"dtype": "[('a/b', '<i4')]"}, "no name of a folder"),
        ({"dtype": "[" * 5000}, "data type|deep"),
        ({"dtype": None}, "data type"),
        ({"chunklen": 0}, "chunklen"),
        ({"chunklen": 2**40}, "chunklen|Blosc"),
        ({"chunklen": "10"}, "chunklen"),
        ({"nchunks": 0}, "superchunk"),
        ({"nchunks": [3]}, "superchunk"),
    ],
)
def test_documents_that_make_no_sense(place, change, match):
    for name in ("sizes", "storage", "superchunks"):
        path = place / "meta" / name
        doc = json.loads(path.read_text())
        path.write_text(json.dumps(doc | {key: value for key, value in change.items() if key in doc}))
    with pytest.raises(FormatError, match=match):
        hs.open(place)


def test_objects_are_refused(place):
    path = place / "meta/storage"
    path.write_text(path.read_text().replace("float64", "object"))
    with pytest.raises(Unsupported, match="pickle"):
        hs.open(place)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{" * 10**5])
def test_documents_that_are_no_json(place, damage):
    (place / "meta/storage").write_bytes(damage)
    with pytest.raises(FormatError, match="meta/storage"):
        hs.open(place)


@pytest.mark.parametrize("at", [*range(32), *range(32, 56, 3)])
def test_each_byte_of_the_header_and_offsets(place, at):
    """A flipped byte is an error, or changes nothing that is read: reserved for that are only the sizes of cells."""
    flip(file(place), at)
    try:
        found = hs.open_array(place)[...]
    except HyperslabError:
        assert kinds(place, deep=True)
    else:
        np.testing.assert_array_equal(found, CELLS)
        assert at == 7  # the size of a cell, which each chunk says again


def test_truncated_at_every_byte(place):
    whole = file(place).read_bytes()
    for length in [*range(60), *range(60, len(whole), 7), len(whole) - 1]:
        file(place).write_bytes(whole[:length])
        with pytest.raises((FormatError, CorruptChunk)):
            hs.open_array(place)[30:60]
    assert kinds(place) == ["corrupt-chunk"]
    file(place).write_bytes(whole[:50])
    assert kinds(place) == ["damaged-superchunk"]
    assert all(mend.done for mend in hs.repair(place, dry_run=False))
    assert not hs.check(place, deep=True)


def test_sizes_that_lie_allocate_nothing(place):
    path = place / "meta/sizes"
    path.write_text(json.dumps({"shape": [2**50], "nbytes": 1, "cbytes": 10**30}))
    array = hs.open_array(place)
    assert array.nbytes_stored == sum(each.stat().st_size for each in (place / "data").iterdir())
    tracemalloc.start()
    try:
        with pytest.raises(MemoryLimit):
            array[...]
        assert array[2**50 - 1] == 0
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("layout", ["blaze", "bcolz"])
def test_a_file_that_is_far_too_long(tmp_path, layout):
    """Nothing behind the chunks is read; where they have to be walked through, such a file is refused."""
    place = tmp_path / "a.blaze"
    with hs.create(place, layout=layout) as root:
        root.create_array("data", data=CELLS, chunks=100)
    (path,) = (place / "data").iterdir()
    os.truncate(path, 1 << 40)
    tracemalloc.start()
    try:
        array = hs.open_array(place)
        if layout == "blaze":
            np.testing.assert_array_equal(array[...], CELLS)
        else:
            with pytest.raises(CorruptChunk, match="longer than its chunks"):
                array[...]
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_an_unfinished_file_of_a_time_when_the_array_was_longer(tmp_path):
    """Where its chunks begin is not known: all of it is walked through, however little the array has there now."""
    place, cells = tmp_path / "a.blaze", np.random.default_rng(7).random(4000)
    with hs.create(place, superchunk=4) as root:
        root.create_array("data", data=cells, chunks=1000)
    data = bytearray(file(place, 1).read_bytes())
    data[32:40] = (-1).to_bytes(8, "little", signed=True)
    file(place, 1).write_bytes(data)
    (place / "meta/sizes").write_text(json.dumps({"shape": [5], "nbytes": 40, "cbytes": 0}))
    np.testing.assert_array_equal(hs.open_array(place)[...], cells[:5])


def test_a_count_of_chunks_that_lies(place):
    path = file(place)
    data = bytearray(path.read_bytes())
    for count in (-2, 2, 4, 2**40, 2**62):
        data[16:24] = count.to_bytes(8, "little", signed=True)
        path.write_bytes(data)
        with pytest.raises((FormatError, CorruptChunk)):
            hs.open_array(place)[30:60]


def test_overlapping_chunks(place):
    path = file(place)
    data = bytearray(path.read_bytes())
    data[40:48] = data[32:40]
    path.write_bytes(data)
    with pytest.raises(CorruptChunk, match=r"lies outside the file|over another chunk"):
        hs.open_array(place)[35]


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a\0b", "a\\b", ".lock", "__1__.bin", "c:x"])
def test_fields_that_are_no_names_of_folders(tmp_path, name):
    dtype = np.dtype([("a", "i4"), (name, "i4")])
    with hs.create(tmp_path / "a.blaze") as root, pytest.raises((Unsupported, Invalid)):
        root.create_array("data", data=np.zeros(3, dtype))
    assert not any("x" in path.name for path in tmp_path.rglob("*"))


def test_other_types_and_shapes_are_not_appended(place):
    with hs.open_group(place, "r+") as root:
        array = root["data"]
        with pytest.raises(Invalid):
            array.append(np.zeros((3, 3)))
        with pytest.raises(Invalid):
            array.append(np.array(["a"]))
        with pytest.raises(Invalid):
            array.resize((3, 3))
    np.testing.assert_array_equal(hs.open_array(place)[...], CELLS)


@pytest.mark.parametrize("layout", ["blaze", "bcolz"])
def test_a_length_that_lies_costs_nothing(tmp_path, layout):
    """One problem for all files that are missing, whatever the shape says; a repair does not write them."""
    with hs.create(tmp_path / "a.blaze", layout=layout) as root:
        root.create_array("data", data=CELLS, chunks=10)
    path = tmp_path / "a.blaze/meta/sizes"
    path.write_text(json.dumps({"shape": [10**15], "nbytes": 8 * 10**15, "cbytes": 0}))
    tracemalloc.start()
    problems = list(hs.check(tmp_path / "a.blaze", deep=True))
    mends = list(hs.repair(tmp_path / "a.blaze", dry_run=False))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (problem,) = [problem for problem in problems if problem.kind == "missing-superchunk"]
    assert ":1000000000000000 read as the fill value" in problem.message and len(problems) <= 2
    assert peak < 50 << 20
    assert [mend.done for mend in mends if mend.kind == "missing-superchunk"] == [False]
    np.testing.assert_array_equal(hs.open_array(tmp_path / "a.blaze")[:100], CELLS)
