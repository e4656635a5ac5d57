"""DEKER's defects that are not shared, by their numbers in the specification."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import golden_deker
import h5py
import numpy as np
import pytest
from deker_arrays import (
    KEY,
    QUICK,
    START,
    TILED,
    count_of,
    file_of,
    kinds,
    make,
    new,
    read,
    reopen,
    repair,
    values,
    write,
)

import hyperslab as hs
from hyperslab.errors import AlreadyExists, Conflict, FormatError, HyperslabError, MissingChunks, SchemaError
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.formats.collections.deker import locks
from hyperslab.formats.collections.deker.array_cells import OpenFiles
from hyperslab.formats.collections.deker.folder import tile_folder
from hyperslab.formats.collections.deker.store import LAYOUT
from hyperslab.formats.hdf5.file import ByteStream
from hyperslab.model.dims import TimeScale
from hyperslab.model.schemas import ArraySchema, AttributeSchema, DimensionSchema, Record
from hyperslab.model.schemas.arrays import new_id, update_record
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.location import Location
from programs import Program

LINE = ArraySchema([DimensionSchema("x", 10)], float, [KEY])
WORDS = ArraySchema([DimensionSchema("x", 10)], float, [AttributeSchema("s", str, True)])


def test_1_the_count_of_empty_cells_is_true_and_clearing_twice_loses_nothing(tmp_path: Path) -> None:
    holding = make(tmp_path, LINE)
    id = new(holding, {"k": 1})
    write(holding, id, np.arange(10.0))
    for _ in range(2):
        write(holding, id, np.nan, slice(0, 5))
        assert count_of(file_of(holding, id)) == 5
    assert read(holding, id)[5:].tolist() == [5, 6, 7, 8, 9]
    other = new(holding, {"k": 2})
    write(holding, other, [1, np.nan, 3], slice(0, 3))
    assert count_of(file_of(holding, other)) == 8
    write(holding, other, [1, 2, 3], slice(0, 3))
    assert count_of(file_of(holding, other)) == 7


_UPDATES = """
import sys
from pathlib import Path
from deker_arrays import changed_forever
changed_forever(Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize("tiled", [False, True])
def test_2_a_killed_update_leaves_the_old_or_the_new_record(tmp_path: Path, tiled: bool) -> None:
    holding = make(tmp_path, TILED) if tiled else make(tmp_path)
    id = new(holding, {"dt": START} if tiled else {"k": 1}, {"note": "0"})
    other = new(holding, {"dt": START + timedelta(1)} if tiled else {"k": 2})
    last = 0
    for turn in range(3):
        child = Program(_UPDATES, tmp_path, id)
        child.stdout.readline()
        time.sleep(0.03 * turn)
        child.kill()
        child.communicate()
        note = holding.record(id).custom["note"]
        assert note is not None
        assert int(note) >= last
        last = int(note)
    assert {record.id for record in holding.records(holding.list_part(""))} == {id, other}
    holding.update(id, lambda record: update_record(holding.document.schema, record, {"note": "end"}))
    assert set(kinds(holding)) <= {"temporary"}


_WRITES = """
import sys
from pathlib import Path
from deker_arrays import written_forever
written_forever(Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize("tiled", [False, True])
def test_3_a_killed_writer_keeps_nobody_from_reading_or_writing(tmp_path: Path, tiled: bool) -> None:
    holding = make(tmp_path, TILED) if tiled else make(tmp_path)
    id = new(holding, {"dt": START} if tiled else {"k": 1})
    for turn in range(3):
        child = Program(_WRITES, tmp_path, id)
        child.stdout.readline()
        time.sleep(0.03 * turn)
        child.kill()
        child.communicate()
        found = read(reopen(tmp_path), id)
        if not tiled:
            assert len(np.unique(found)) == 1
        write(reopen(tmp_path), id, 7 + turn)
        assert (read(holding, id) == 7 + turn).all()
    assert set(kinds(reopen(tmp_path), deep=True)) <= {"temporary"}


def test_3_locks_of_dead_processes_mean_nothing_and_live_ones_are_waited_for(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    folder = file_of(holding, id).parent
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = folder / f"{id}:{new_id()}:{ended.pid}:1.arrayreadlock"
    dead.touch()
    old = folder / f"{id}.hdf5:{sleeper.pid}.varraylock"
    old.touch()
    os.utime(old, (1e9, 1e9))  # made before the process that has this number now began
    write(holding, id, 1.0)
    live = folder / f"{id}:{new_id()}:{sleeper.pid}:1.arrayreadlock"
    live.touch()
    assert (read(holding, id) == 1).all()
    with pytest.raises(Conflict, match="arrayreadlock"):
        write(holding, id, 2.0)
    assert kinds(holding) == ["stale-lock", "stale-lock"]
    holding.clear_locks()
    assert sorted(path.name for path in folder.iterdir()) == sorted([f"{id}.hdf5", live.name])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(write, holding, id, 3.0)
        time.sleep(0.1)
        live.unlink()
        waiting.result()
    assert (read(holding, id) == 3).all()
    sleeper.communicate(b"\n")


def test_4_a_writer_disturbs_no_reader(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    write(holding, id, 1.0)
    path = str(file_of(holding, id))
    with locks.lock_file(lambda: path, 1):
        assert holding.id_of((1,)) == id
        assert [record.id for record in holding.records(holding.list_part(""))] == [id]
        assert (read(reopen(tmp_path, writable=False), id) == 1).all()
        with pytest.raises(Conflict, match=id):
            write(holding, id, 2.0)


def test_5_a_copied_store_is_its_own(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    holding = make(first, TILED)
    id = new(holding, {"dt": START})
    write(holding, id, 1)
    shutil.copytree(first, second, symlinks=True)
    copy = reopen(second)
    write(copy, id, 2)
    assert (read(holding, id) == 1).all()
    assert (read(copy, id) == 2).all()
    assert set(kinds(copy)) == {"moved-link"}
    repair(copy)
    assert kinds(copy) == []
    copy.remove(id)
    assert (read(holding, id) == 1).all()
    assert not any((second / "collections/c").rglob("*.hdf5"))
    assert kinds(holding) == []
    os.rename(first, tmp_path / "moved")
    moved = reopen(tmp_path / "moved")
    assert moved.id_of((START,)) == id
    assert (read(moved, id) == 1).all()


def test_5_no_link_leads_out_of_the_store(tmp_path: Path) -> None:
    first, second = make(tmp_path / "first"), make(tmp_path / "second")
    id = new(first, {"k": 1})
    link = tmp_path / f"second/collections/c/array_symlinks/1/{id}.hdf5"
    link.parent.mkdir(parents=True)
    link.symlink_to(file_of(first, id))
    assert second.id_of((1,)) is None
    second.remove(id)
    assert first.id_of((1,)) == id
    assert kinds(second) == ["dangling-link"]


@pytest.mark.parametrize("key", ["../../x", "/abs", "a/b", "", ".", "..", "nul\0", "x" * 300, "\ud800"])
def test_6_keys_that_would_escape_are_refused(tmp_path: Path, key: str) -> None:
    holding = make(tmp_path / "store", WORDS)
    with pytest.raises(SchemaError):
        holding.create([Record(new_id(), {"s": key}, {})])
    assert holding.id_of((key,)) is None
    assert sorted(path.name for path in (tmp_path / "store/collections/c").iterdir()) == ["c.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("name", ["../../x", "/abs", "a/b", "", " ", ".", "..", "nul\0", "x" * 300, "x.lock"])
def test_6_names_that_would_escape_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SchemaError):
        LAYOUT.create(Location.of(tmp_path / "store"), CollectionDocument(name, LINE, layout="deker"), QUICK)
    assert LAYOUT.open(Location.of(tmp_path / "store"), name, QUICK, writable=True) is None
    assert list(tmp_path.iterdir()) == []


def test_6_a_key_is_no_prefix_of_another(tmp_path: Path) -> None:
    holding = make(tmp_path, WORDS)
    ids = [new(holding, {"s": key}) for key in ("a", "ab", "😀", "a b", "x" * 255, "%2e")]
    assert len(set(ids)) == 6
    assert kinds(holding) == []


_CREATES = """
import sys
from pathlib import Path
from deker_arrays import created_keys
created_keys(Path(sys.argv[1]), int(sys.argv[2]))
"""


@pytest.mark.parametrize("tiled", [False, True])
def test_8_of_processes_that_create_one_key_one_wins(tmp_path: Path, tiled: bool) -> None:
    holding = make(tmp_path, TILED) if tiled else make(tmp_path)
    children = [Program(_CREATES, tmp_path, 40) for _ in range(4)]
    won = [set(json.loads(child.communicate()[0])) for child in children]
    assert set.union(*won) == set(range(40))
    assert sum(map(len, won)) == 40
    assert len(holding.list_part("")) == 40
    assert kinds(holding) == []


def test_8_a_taken_key_or_id_undoes_all_of_one_creation(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 5})
    before = sorted(Path(holding.folder.path).rglob("*"))
    batch = [Record(new_id(), {"k": key}, {"note": None}) for key in (1, 2, 5)]
    with pytest.raises(AlreadyExists, match="'k': 5"):
        holding.create(batch)
    with pytest.raises(AlreadyExists, match=id):
        holding.create([batch[0], Record(id, {"k": 9}, {"note": None})])
    assert sorted(Path(holding.folder.path).rglob("*")) == before


def test_8_a_link_whose_file_never_came_holds_no_key(tmp_path: Path) -> None:
    holding = make(tmp_path)
    lost = new(holding, {"k": 1})
    file_of(holding, lost).unlink()
    assert holding.id_of((1,)) is None
    assert kinds(holding) == ["dangling-link"]
    id = new(holding, {"k": 1})
    assert holding.id_of((1,)) == id
    assert kinds(holding) == []


def test_9_time_axes_are_those_of_the_varray(tmp_path: Path) -> None:
    root = golden_deker.unpack(tmp_path)
    holding = reopen(root, "tiles_f32_arrays_shape")
    array = golden_deker.arrays("tiles_f32_arrays_shape")[0]
    spec = holding.spec(array["id"])
    (axis,) = [index for index in spec.indexes.values() if isinstance(index, TimeScale)]
    start = datetime.fromisoformat(array["custom_attributes"]["start"])
    assert axis.start == np.datetime64(start.replace(tzinfo=None), "us")
    assert (axis.step, axis.size) == (np.timedelta64(1, "D"), 6)


def test_10_tiles_outside_the_grid_are_passed_over(tmp_path: Path) -> None:
    holding = make(tmp_path, TILED)
    id = new(holding, {"dt": START})
    write(holding, id, 3)
    folder = Path(holding.folder.path, tile_folder(id))
    for name in ("4-0", "-1-0", "0", "x"):
        shutil.copytree(folder / "0-0", folder / name, symlinks=True)
    assert (read(holding, id) == 3).all()
    source = holding.chunks(id, holding.spec(id))
    assert sorted(source.stored_coords()) == [(i, j) for i in range(4) for j in range(2)]
    assert set(kinds(holding)) == {"wrong-link"}


def test_17_updates_by_two_instances_are_merged(tmp_path: Path) -> None:
    schema = ArraySchema(
        [DimensionSchema("x", 10)], float, [KEY, *(AttributeSchema(name, int, False) for name in "ab")]
    )
    one, two = make(tmp_path, schema), reopen(tmp_path)
    id = new(one, {"k": 1})
    for holding, name, value in ((one, "a", 1), (two, "b", 2), (one, "a", 3)):
        holding.update(id, lambda record, name=name, value=value: update_record(schema, record, {name: value}))
    assert dict(one.record(id).custom) == {"a": 3, "b": 2}


@pytest.mark.parametrize("whole", [False, True])
def test_21_a_tile_without_its_link_is_found_and_not_made_twice(tmp_path: Path, whole: bool) -> None:
    holding = make(tmp_path, TILED)
    id = new(holding, {"dt": START})
    truth = values((8, 6), "i4")
    write(holding, id, truth)
    folder = Path(holding.folder.path, tile_folder(id))
    (link,) = (folder / "1-1").iterdir()
    shutil.rmtree(folder) if whole else link.unlink()
    assert np.array_equal(read(reopen(tmp_path), id), truth)
    assert set(kinds(holding)) == {"missing-link"}
    again = reopen(tmp_path)
    write(again, id, 0, slice(2, 3), slice(4, 5))
    truth[2, 4] = 0
    assert np.array_equal(read(reopen(tmp_path), id), truth)
    assert link.is_symlink()
    repair(again)
    assert kinds(holding) == []
    assert sum(1 for _ in Path(holding.folder.path, "array_data").rglob("*.hdf5")) == 8


def test_21_a_tile_whose_file_is_gone_is_told_and_written_anew(tmp_path: Path) -> None:
    holding = make(tmp_path, TILED)
    id = new(holding, {"dt": START})
    write(holding, id, 1)
    (link,) = Path(holding.folder.path, tile_folder(id, (0, 1))).iterdir()
    file_of(holding, link.stem).unlink()
    with pytest.raises(MissingChunks, match="0-1"):
        read(holding, id)
    assert (read(holding, id, slice(2, 8)) == 1).all()
    assert kinds(holding) == ["dangling-link"]
    write(holding, id, 2)
    assert (read(holding, id) == 2).all()
    assert kinds(holding) == []


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "no HDF5": lambda data: b"x" * len(data),
    "headers": lambda data: data[:64] + b"\xff" * 256 + data[320:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_22_a_damaged_file_is_told_and_keeps_nothing_else_from_being_read(tmp_path: Path, damage: str) -> None:
    holding = make(tmp_path)
    bad, good = new(holding, {"k": 1}), new(holding, {"k": 2})
    for id in (bad, good):
        write(holding, id, 1.0)
    path = file_of(holding, bad)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    os.utime(path, (1e9, 1e9))
    with pytest.raises(FormatError, match=str(path)):
        holding.record(bad)
    with pytest.raises(HyperslabError):
        read(holding, bad)
    assert [record.id for record in holding.records(holding.list_part(""))] == [good]
    assert (read(holding, good) == 1).all()
    assert kinds(holding, deep=True) == ["unreadable-node"]
    holding.remove(bad)
    assert kinds(holding, deep=True) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"id": 1}', "\xff"])
def test_22_a_damaged_record_is_told(tmp_path: Path, text: str) -> None:
    holding = make(tmp_path, TILED)
    bad, good = (new(holding, {"dt": START + timedelta(days)}) for days in range(2))
    file_of(holding, bad, "varray").write_text(text, "latin-1")
    with pytest.raises(FormatError):
        holding.record(bad)
    assert [record.id for record in holding.records(holding.list_part(""))] == [good]
    assert set(kinds(holding)) >= {"unreadable-node"} or kinds(holding) != []
    holding.remove(bad)
    assert kinds(holding) == []


@pytest.mark.parametrize("schema", [LINE, TILED])
def test_listing_reads_no_record(tmp_path: Path, schema: ArraySchema) -> None:
    """An array whose record is damaged is there, and opening it tells why it cannot be read."""
    holding = make(tmp_path, schema)
    key = {"dt": START} if schema is TILED else {"k": 1}
    id = new(holding, key)
    file_of(holding, id, holding.folder.kind).write_bytes(b"no record")
    with hs.open_group(tmp_path) as root:
        found = root["c"]
        assert isinstance(found, hs.Group)
        assert list(found) == [id]
        with pytest.raises(FormatError, match=id):
            _ = found[id]


def test_22_a_damaged_tile_is_told(tmp_path: Path) -> None:
    holding = make(tmp_path, TILED)
    id = new(holding, {"dt": START})
    write(holding, id, 1)
    (link,) = Path(holding.folder.path, tile_folder(id, (3, 1))).iterdir()
    path = file_of(holding, link.stem)
    path.write_bytes(path.read_bytes()[:500])
    os.utime(path, (1e9, 1e9))
    with pytest.raises(FormatError):
        read(holding, id)
    assert (read(holding, id, slice(0, 6)) == 1).all()
    assert kinds(holding, deep=True) == ["unreadable-tile"]


def test_22_flipped_bytes_of_a_compressed_chunk_are_told(tmp_path: Path) -> None:
    root = golden_deker.unpack(tmp_path, relink=True)
    holding = reopen(root, "comp_gzip_9")
    (id,) = holding.list_part("")
    path = file_of(holding, id)
    with h5py.File(path, "r") as file:
        info = file["data"].id.get_chunk_info(2)
    data = bytearray(path.read_bytes())
    data[info.byte_offset + 4 : info.byte_offset + 40] = bytes(36)
    path.write_bytes(data)
    assert kinds(holding) == []
    assert kinds(holding, deep=True) == ["unreadable-cells"]


def test_22_a_folder_that_is_no_collection_is_passed_over_and_told(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "collections/alien/below").mkdir(parents=True)
    (tmp_path / "collections/file").touch()
    (tmp_path / "collections/gone.lock").touch()
    where = Location.of(tmp_path)
    assert LAYOUT.names(where) == ["c"]
    assert [remedy.problem.kind for remedy in LAYOUT.find_damage(where)] == ["foreign", "foreign", "stray-lock"]


@pytest.mark.parametrize("left", [[], [".c.json.adb9f98010daae5a.tmp", ".collection.json.adb9f98010e0e80c.tmp"]])
def test_the_folder_of_a_collection_that_was_never_made_is_removed(tmp_path: Path, left: list[str]) -> None:
    make(tmp_path)
    folder = tmp_path / "collections/unfinished"
    folder.mkdir()
    for name in left:
        (folder / name).write_text("{")
        os.utime(folder / name, (0, 0))
    (remedy,) = LAYOUT.find_damage(Location.of(tmp_path))
    assert (remedy.problem.kind, remedy.action) == ("temporary", "remove its folder")
    hs.repair(tmp_path, dry_run=False)
    assert not folder.exists()
    assert list(LAYOUT.find_damage(Location.of(tmp_path))) == []


def test_the_folder_of_a_collection_that_is_being_made_stays(tmp_path: Path) -> None:
    make(tmp_path)
    folder = tmp_path / "collections/unfinished"
    folder.mkdir()
    (folder / temporary_name("unfinished.json")).write_text("{")
    assert not [*LAYOUT.find_damage(Location.of(tmp_path))]
    hs.repair(tmp_path, dry_run=False, drop_foreign=True)
    assert folder.exists()


def test_24_no_space_leaks_in_files(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    write(holding, id, 1.0)
    size = file_of(holding, id).stat().st_size
    for turn in range(20):
        write(holding, id, float(turn + 2), slice(0, 2))
        holding.update(
            id, lambda record, turn=turn: update_record(holding.document.schema, record, {"note": str(turn)})
        )
    assert file_of(holding, id).stat().st_size <= size + 16
    assert list(file_of(holding, id).parent.iterdir()) == [file_of(holding, id)]


def test_a_file_that_has_just_been_changed_is_opened_anew(tmp_path: Path) -> None:
    """A further change in the same tick of the clock would leave its stamp as it is."""
    holding = make(tmp_path, LINE)
    id = new(holding, {"k": 1})
    write(holding, id, np.arange(10.0))
    path, files = str(file_of(holding, id)), OpenFiles()
    for seconds, is_remembered in ((10, False), (-10, True)):
        stamp = time.time_ns() + seconds * 10**9  # ahead: it is young however long this takes
        os.utime(path, ns=(stamp, stamp))
        assert (files.get(path) is files.get(path)) == is_remembered


def test_h5py_gets_no_bytes_from_beyond_the_end_of_a_file() -> None:
    data, buffer = b"abcdef", bytearray(b"memory")
    stream = ByteStream(lambda: len(data), lambda start, stop: data[start:stop])
    stream.seek(4)
    assert (stream.readinto(buffer), buffer) == (6, b"ef\0\0\0\0")
    with pytest.raises(OSError, match="beyond the end"):
        stream.readinto(buffer)


@pytest.mark.parametrize("place", [54, 31])
def test_a_file_that_names_a_place_beyond_its_end(tmp_path: Path, place: int) -> None:
    holding = make(tmp_path, LINE)
    id = new(holding, {"k": 1})
    write(holding, id, np.arange(10.0))
    file = Path(file_of(holding, id))
    data = bytearray(file.read_bytes())
    data[place] ^= 4  # of the addresses in the first block of the file, which are near 2**64 then
    data[72] ^= 1  # so that the library is asked
    file.write_bytes(data)
    with pytest.raises(FormatError):
        read(holding, id)
