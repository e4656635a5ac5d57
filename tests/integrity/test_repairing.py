"""``repair`` beside writers, and what it refuses to touch."""

from __future__ import annotations

import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
from google_crc32c import value as crc32c
from planting import CASES, CELLS, LAYOUTS, Dataset, sound

import hyperslab as hs
from hyperslab.chunks.settings import Settings
from hyperslab.codecs.reference_pickle import pickled
from hyperslab.codecs.registry import shard_index
from hyperslab.errors import Conflict, Invalid, ReadOnly, StorageError
from hyperslab.formats.zarr.writer import ZarrWriter
from hyperslab.formats.zarr3.document import Zarr3
from hyperslab.integrity.mender import Mender
from hyperslab.integrity.quarantine import Quarantine
from hyperslab.integrity.report import Mend
from hyperslab.integrity.survey import KeyedSurvey
from hyperslab.integrity.views import RepairState
from hyperslab.model.spec import Codec
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.object import ObjectStore
from programs import ran


def planned(place: Path) -> list[Any]:
    """The mends of a look at the dataset as it is now, to be done later."""
    store = DirectoryStore(place)
    settings = Settings(lock_timeout=0.2)
    survey = KeyedSurvey(store, Zarr3(), settings, deep=True)
    findings = [finding for finding in survey.run() if not finding.is_note or finding.problem.kind == "outside-grid"]
    writer = ZarrWriter(store, Zarr3(), settings)
    state = RepairState(survey.view, store, writer, Quarantine(store, f"{place}.quarantine"))
    return list(Mender(state).plan(findings))


def damaged(tmp_path: Path, name: str, layout: str = "zarr3") -> Dataset:
    data = Dataset(sound(tmp_path, layout), layout)
    CASES[name].plant(data)
    return data


def uploaded(data: Dataset) -> Any:
    """A bucket that holds the dataset."""
    bucket = obstore.store.MemoryStore()
    for path in data.root.rglob("*"):
        if path.is_file() and path.name != ".lock":
            obstore.put(bucket, str(path.relative_to(data.root)), path.read_bytes())
    return bucket


def test_a_chunk_that_was_written_meanwhile_stays(tmp_path: Path) -> None:
    data = damaged(tmp_path, "chunk cut")
    (mend,) = planned(data.root)
    hs.open(data.root, "r+")["t2m"][0:4, 0:6] = 7
    mend.act()
    assert (hs.open(data.root)["t2m"][0:4, 0:6] == 7).all()
    assert not Path(f"{data.root}.quarantine").exists()


def test_an_append_under_way_loses_nothing(tmp_path: Path) -> None:
    """Its chunks lie outside the grid until the shape is published."""
    data = damaged(tmp_path, "chunk outside the grid")
    (mend,) = planned(data.root)
    data.both("t2m", lambda doc: doc.update(shape=[12, 12]))
    mend.act()
    assert hs.open(data.root)["t2m"][8, 0] == CELLS["t2m"][0, 0]


def test_inner_chunks_are_saved_where_there_are_no_locks(tmp_path: Path) -> None:
    """In an object store the shard is replaced only if it is still the one that was looked at."""
    data = damaged(tmp_path, "inner chunk flipped", "shards")
    bucket = uploaded(data)
    report = hs.repair(bucket, dry_run=False, quarantine=tmp_path / "out")
    assert [(mend.kind, mend.done) for mend in report] == [("corrupt-chunk", True)]  # type: ignore[attr-defined]
    expected = CELLS["t2m"].copy()
    expected[0:2, 0:3] = 0
    np.testing.assert_array_equal(hs.open_group(bucket)["t2m"][...], expected)
    assert (tmp_path / "out" / "t2m" / "c" / "0" / "0").read_bytes() == data.chunk().read_bytes()


def test_a_bucket_that_another_one_is_at_work_on_is_refused(tmp_path: Path) -> None:
    bucket = uploaded(damaged(tmp_path, "chunk cut"))
    with ObjectStore(bucket, "memory://").lock_node("", 1):
        with pytest.raises(Conflict, match="another writer held the lock"):
            hs.repair(bucket, dry_run=False, lock_timeout=0.1)
        assert hs.repair(bucket)
    assert hs.repair(bucket, dry_run=False)[0].done  # type: ignore[attr-defined]
    assert not hs.check(bucket, deep=True)


class Watched(ObjectStore):
    """A bucket that knows which keys were changed while nobody held the dataset's lease."""

    def __init__(self, bucket: Any) -> None:
        super().__init__(bucket, "memory://")
        self.unguarded: list[str] = []

    def _note(self, key: str) -> None:
        if self.read_lock(".lock") is None:
            self.unguarded.append(key)

    def put(self, key: str, value: Any, *, durable: bool = False) -> None:
        self._note(key)
        super().put(key, value, durable=durable)

    def put_if(self, key: str, value: Any, expected: Any, *, durable: bool = False) -> Any:
        self._note(key)
        return super().put_if(key, value, expected, durable=durable)

    def delete(self, key: str, *, durable: bool = False) -> None:
        self._note(key)
        super().delete(key, durable=durable)

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        self._note(prefix)
        super().delete_prefix(prefix, durable=durable)


class Raced(ObjectStore):
    """A bucket in which another writer always comes right before a chunk is replaced or removed."""

    chunks: dict[str, bytes]

    def _first(self, key: str) -> None:
        if key in self.chunks:
            super().put(key, self.chunks.pop(key))

    def put_if(self, key: str, *value: Any, durable: bool = False) -> Any:
        self._first(key)
        return super().put_if(key, *value, durable=durable)

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        self._first(prefix)
        super().delete_prefix(prefix, durable=durable)


@pytest.mark.parametrize(
    ("name", "layout", "coords"),
    [("chunk cut", "zarr3", (0, 0)), ("chunk empty", "shards", (0, 0)), ("chunk under a wrong name", "zarr3", (0, 1))],
)
def test_a_writer_in_a_bucket_that_was_faster_wins(
    name: str, layout: str, coords: tuple[int, ...], tmp_path: Path
) -> None:
    """A chunk of which nothing can be saved is swapped for one of fill values: a deletion has no condition."""
    data = Dataset(sound(tmp_path, layout), layout)
    chunks = {f"t2m/{data.key(coords)}": data.chunk(coords=coords).read_bytes()}
    CASES[name].plant(data)
    store = Raced(uploaded(data), "memory://")
    store.chunks = chunks
    (mend,) = hs.repair(store, dry_run=False)
    assert not mend.done and "mending failed" in mend.message  # type: ignore[attr-defined]
    assert (hs.open_group(store)["t2m"][...] == CELLS["t2m"]).all()
    hs.repair(store, dry_run=False)
    assert not hs.check(store, deep=True)
    assert (hs.open_group(store)["t2m"][...] == CELLS["t2m"]).all()


@pytest.mark.covering
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["chunk empty", "chunk cut", "raw chunk cut"])
def test_what_is_lost_in_a_bucket_reads_as_fill_values(name: str, layout: str, tmp_path: Path) -> None:
    data = damaged(tmp_path, name, layout)
    bucket = uploaded(data)
    assert "write fill values in its place" in str(hs.repair(bucket))
    assert all(mend.done for mend in hs.repair(bucket, dry_run=False))  # type: ignore[attr-defined]
    assert not hs.check(bucket, deep=True)
    root = hs.open_group(bucket)
    for array in ("t2m", "raw"):
        expected = CELLS[array].copy()
        for region in CASES[name].lost.get(array, ()) and [CASES[name].lost[array]]:
            expected[region] = 0
        np.testing.assert_array_equal(root[array][...], expected)


def test_whatever_is_changed_in_a_bucket_is_changed_under_its_lease(tmp_path: Path) -> None:
    data = Dataset(sound(tmp_path, "shards"), "shards")
    names = ["inner chunk flipped", "raw chunk cut", "chunk outside the grid", "foreign folder"]
    names += ["document with bytes behind", "group without document"]
    for name in [*names, "consolidated metadata of nothing"]:
        CASES[name].plant(data)
    store = Watched(uploaded(data))
    report = hs.repair(store, dry_run=False, drop_foreign=True)
    assert len(report) >= 5 and all(mend.done for mend in report)  # type: ignore[attr-defined]
    assert store.unguarded == [] and store.read_lock(".lock") is None
    assert not hs.check(store, deep=True)


def test_links_alone_and_files_at_once_are_refused(tmp_path: Path) -> None:
    place = sound(tmp_path, "zarr3")
    with pytest.raises(Invalid, match="two repairs"):
        hs.repair(place, links=True, drop_foreign=True)


def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are flushed to the medium from now on."""
    paths: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", noted)
    return paths


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which file a descriptor is of")
def test_what_is_taken_out_of_a_bucket_is_durable_before_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = flushed(monkeypatch)
    data = damaged(tmp_path, "chunk cut")
    kept = tmp_path / "out" / "t2m" / "c" / "0" / "0"

    class Late(ObjectStore):
        def put_if(self, key: str, *value: Any, durable: bool = False) -> Any:
            if key == "t2m/c/0/0":
                assert {str(kept), *map(str, list(kept.parents)[:5])} <= set(paths)
            return super().put_if(key, *value, durable=durable)

    store = Late(uploaded(data), "memory://")
    paths.clear()
    assert [mend.done for mend in hs.repair(store, dry_run=False, quarantine=tmp_path / "out")] == [True]  # type: ignore[attr-defined]
    assert kept.read_bytes() == data.chunk().read_bytes()
    assert (hs.open_group(store)["t2m"][0:4, 0:6] == 0).all()


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs a second file system")
def test_what_goes_to_another_disk_is_durable_before_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = damaged(tmp_path, "chunk cut")
    value = data.chunk().read_bytes()
    other = "/var/tmp" if os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev else "/dev/shm"
    with tempfile.TemporaryDirectory(dir=other) as folder:
        if os.stat(folder).st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("both folders lie on one file system")
        paths = flushed(monkeypatch)
        hs.repair(data.root, dry_run=False, quarantine=folder)
        kept = Path(folder) / "t2m" / "c" / "0" / "0"
        assert kept.read_bytes() == value and {str(kept), str(kept.parent)} <= set(paths)


def test_a_quarantine_that_takes_nothing_costs_nothing(tmp_path: Path) -> None:
    """The error names the folder and what would work; the damaged value stays where it is, half a copy does not."""
    bucket = uploaded(damaged(tmp_path, "chunk cut"))
    (tmp_path / "out").write_text("a file")
    (mend,) = hs.repair(bucket, dry_run=False, quarantine=tmp_path / "out")
    assert not mend.done  # type: ignore[attr-defined]
    assert f"in the quarantine {tmp_path / 'out'}: cannot write: " in mend.message
    assert ObjectStore(bucket, "memory://").get("t2m/c/0/0")
    with limited_files(1), pytest.raises(StorageError, match=r"cannot write.*--quarantine"):
        Quarantine(ObjectStore(bucket, "memory://"), str(tmp_path / "other")).keep("t2m/c/0/0")
    assert [path.name for path in (tmp_path / "other").rglob("*") if path.is_file()] == []


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """No file grows beyond ``size`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiled, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # or a module's would be cut, for all that follow
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        sys.dont_write_bytecode = compiled
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_an_array_that_was_made_anew_is_left_alone(tmp_path: Path) -> None:
    data = damaged(tmp_path, "chunk cut")
    (mend,) = planned(data.root)
    with hs.open_group(data.root, "r+") as root:
        del root["t2m"]
        root.create_array("t2m", data=np.ones((8, 12)), chunks=(4, 6))
    with pytest.raises(Conflict, match="changed while"):
        mend.act()
    assert (hs.open(data.root)["t2m"][...] == 1).all()


def test_a_lock_that_is_held_is_waited_for(tmp_path: Path) -> None:
    data = damaged(tmp_path, "chunk cut")
    with hs.open_group(data.root, "r+")._session.reader.chunks("t2m").lock([(0, 0)], None):  # type: ignore[attr-defined]
        report = hs.repair(data.root, dry_run=False, lock_timeout=0.1)
        assert [(mend.done, mend.action) for mend in report] == [(False, None)]  # type: ignore[attr-defined]
        assert "held the lock" in report[0].message
        assert data.chunk().exists()
    assert hs.repair(data.root, dry_run=False)[0].done  # type: ignore[attr-defined]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_writers_beside_a_repair_lose_nothing(layout: str, tmp_path: Path) -> None:
    """Four threads write cells of the array while another chunk of it is damaged and repaired, time and again."""
    data = damaged(tmp_path, "chunk empty", layout)
    stop = threading.Event()
    errors: list[BaseException] = []

    def write(row: int) -> None:
        array = hs.open_group(data.root, "r+", durable=False)["t2m"]
        number = 0
        while not stop.is_set():
            number += 1
            try:
                array[row, 6:] = number
            except BaseException as error:
                errors.append(error)
                return
        last[row] = number

    last: dict[int, int] = {}
    threads = [threading.Thread(target=write, args=(row,)) for row in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            hs.repair(data.root, dry_run=False)
            data.chunk().parent.mkdir(parents=True, exist_ok=True)
            data.chunk().write_bytes(b"")
        hs.repair(data.root, dry_run=False)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []
    found = hs.open_group(data.root)["t2m"]
    for row in range(4):
        assert (found[row, 6:] == last[row]).all()
    assert not hs.check(data.root, deep=True)


def test_a_document_that_nobody_has_is_left_missing_and_its_chunks_in_place(tmp_path: Path) -> None:
    data = Dataset(sound(tmp_path, "zarr2"), "zarr2")
    (data.root / ".zmetadata").unlink()
    (data.root / "t2m" / ".zarray").unlink()
    files = sorted(path.name for path in (data.root / "t2m").iterdir())
    for dry_run in (True, False):
        report = hs.repair(data.root, dry_run=dry_run)
        assert [(mend.node, mend.kind, mend.action) for mend in report] == [  # type: ignore[attr-defined]
            ("t2m", "missing-document", None)
        ]
        assert "cannot be mended" in str(report[0])
    assert sorted(path.name for path in (data.root / "t2m").iterdir()) == files


def test_a_refused_document_without_a_copy_is_left_as_it_is(tmp_path: Path) -> None:
    data = Dataset(sound(tmp_path, "zarr3"), "zarr3")
    data.edit(data.root / "zarr.json", lambda doc: doc.pop("consolidated_metadata"))
    CASES["document refused"].plant(data)
    before = (data.root / "t2m" / "zarr.json").read_bytes()
    assert [(mend.kind, mend.action) for mend in hs.repair(data.root, dry_run=False)] == [  # type: ignore[attr-defined]
        ("shape", None)
    ]
    assert (data.root / "t2m" / "zarr.json").read_bytes() == before
    assert {"lat", "lon", "raw", "g"} <= set(hs.open_group(data.root))


def test_a_root_document_of_zarr3_that_is_no_json(tmp_path: Path) -> None:
    """With it the copy is gone: the group gets a bare document, the nodes below are what they were."""
    data = Dataset(sound(tmp_path, "zarr3"), "zarr3")
    data.change(data.root / "zarr.json", lambda text: text[: len(text) // 2])
    assert all(mend.done for mend in hs.repair(data.root, dry_run=False))  # type: ignore[attr-defined]
    assert not hs.check(data.root, deep=True)
    assert (hs.open_group(data.root)["t2m"][...] == CELLS["t2m"]).all()
    kept = Path(f"{data.root}.quarantine") / "zarr.json"
    assert b"sound" in kept.read_bytes()


def test_two_dimensions_at_once(tmp_path: Path) -> None:
    data = Dataset(sound(tmp_path, "zarr3"), "zarr3")
    data.both("t2m", lambda doc: doc.update(shape=[4, 6]))
    report = hs.check(data.root)
    assert {problem.kind for problem in report} == {"dimension-sizes"}
    assert {note.kind for note in report.notes} >= {"outside-grid"}
    hs.repair(data.root, dry_run=False)
    assert not hs.check(data.root, deep=True)
    assert (hs.open_group(data.root)["t2m"][...] == CELLS["t2m"]).all()


def test_a_second_repair_keeps_what_the_first_took_out(tmp_path: Path) -> None:
    data = Dataset(sound(tmp_path, "zarr3"), "zarr3")
    for text in ("first", "second"):
        (data.root / "notes.txt").write_text(text)
        hs.repair(data.root, dry_run=False, quarantine=tmp_path / "out", drop_foreign=True)
    found = sorted(path.read_text() for path in (tmp_path / "out").iterdir())
    assert found == ["first", "second"]
    assert not Path(f"{data.root}.quarantine").exists()


def test_links_are_taken_out_and_never_followed(tmp_path: Path) -> None:
    data = damaged(tmp_path, "link out of the dataset")
    shutil.copytree(data.root, tmp_path / "outside" / "kept")
    (data.root / "g" / "far").symlink_to(tmp_path / "outside", target_is_directory=True)
    hs.repair(data.root, dry_run=False)
    assert (tmp_path / "outside" / "kept" / "t2m").is_dir()
    assert (tmp_path / "elsewhere").read_bytes() == b"secret"
    assert not hs.check(data.root, deep=True)


def test_without_permission_nothing_is_touched(tmp_path: Path) -> None:
    data = damaged(tmp_path, "chunk cut")
    with pytest.raises(ReadOnly):
        hs.repair(DirectoryStore(data.root, read_only=True), dry_run=False)
    assert data.chunk().exists()
    (mend,) = hs.repair(DirectoryStore(data.root, read_only=True))
    assert isinstance(mend, Mend) and mend.action


@pytest.mark.parametrize(
    "layout", ["zarr3", *(pytest.param(name, marks=pytest.mark.soak) for name in LAYOUTS if name != "zarr3")]
)
def test_killed_at_any_moment_a_repair_can_be_run_again(layout: str, tmp_path: Path) -> None:
    """SIGKILL after the n-th rename or unlink: a second run ends what the first began, no sound cell is lost."""
    program = (
        "import os, signal, sys\nimport hyperslab as hs\nleft = int(sys.argv[2])\n"
        "def after(real):\n"
        "    def call(*args, **options):\n"
        "        global left\n        result = real(*args, **options)\n        left -= 1\n"
        "        if not left:\n            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return result\n    return call\n"
        "os.rename, os.replace, os.unlink = after(os.rename), after(os.replace), after(os.unlink)\n"
        "hs.repair(sys.argv[1], dry_run=False, drop_foreign=True)\n"
    )
    names = ["chunk cut", "array without document", "foreign file in an array", "chunk under a wrong name"]
    for number in range(1, 30):
        data = Dataset(sound(tmp_path / str(number), layout), layout)
        for name in [names[0], *names[2:], names[1]]:
            CASES[name].plant(data)
        answer = ran(program, data.root, number)
        assert answer.returncode in (0, -signal.SIGKILL), answer.stderr
        hs.repair(data.root, dry_run=False, drop_foreign=True)
        assert not hs.check(data.root, deep=True)
        expected = CELLS["t2m"].copy()
        expected[0:4, 0:6] = 0
        np.testing.assert_array_equal(hs.open_group(data.root)["t2m"][...], expected)
        if not answer.returncode:
            break
    else:
        pytest.fail("the repair never came to its end")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_zarr_python_reads_what_is_mended(layout: str, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    data = Dataset(sound(tmp_path, layout), layout)
    names = [
        "array without document",
        "raw chunk cut",
        "dangling link",
        "consolidated metadata stale",
        "dimension too short",
    ]
    if layout == "shards":
        names[2] = "inner chunk flipped"
    for name in names[1:]:
        CASES[name].plant(data)
    (data.root / "g" / data.group).unlink()
    hs.repair(data.root, dry_run=False)
    root = zarr.open_consolidated(str(data.root), zarr_format=2 if layout == "zarr2" else 3)
    expected = {path: cells.copy() for path, cells in CELLS.items()}
    for name in names:
        for path, region in CASES[name].lost.items():
            expected[path][region] = 0
    for path, cells in expected.items():
        np.testing.assert_array_equal(root[path][...], cells)
    assert root.attrs["title"] == "sound"


class _Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return print, ("this was run",)


def test_a_pickle_that_would_run_something_is_taken_out_of_its_shard_also_under_a_checksum(tmp_path: Path) -> None:
    """Its checksum says that the bytes are those that were written, which makes them no safer."""
    place = tmp_path / "x.zarr"
    with hs.create(place, format="zarr3", durable=False) as root:
        cells = np.array(["a", "b", "c", "d"], object)
        root.create_array("s", data=cells, dtype="str", chunks=(2,), shards=(4,), codec=["crc32c"])
    document = place / "s/zarr.json"
    document.write_text(document.read_text().replace("vlen-utf8", "reference_pickle"))
    chain = (Codec("bytes", {"endian": "little"}), Codec("crc32c"))
    sound_one = pickled([["a", "b"]], np.dtype(object), (2,))
    parts = [data + crc32c(data).to_bytes(4, "little") for data in (sound_one, pickle.dumps(_Runs()))]
    (place / "s/c/0").write_bytes(shard_index((2,), chain, "end").join(parts))
    assert [problem.kind for problem in hs.check(place, deep=True)] == ["unsafe-pickle"]
    assert [mend.done for mend in hs.repair(place, dry_run=False) if isinstance(mend, Mend)] == [True]
    assert not hs.check(place, deep=True)
    assert hs.open_group(place)["s"][:].tolist() == ["a", "b", "", ""]


@pytest.mark.parametrize("codec", ["default", "gzip"])
def test_what_is_taken_out_by_a_nodes_own_place_lies_beside_the_whole(tmp_path: Path, codec: str) -> None:
    """A quarantine within the dataset would itself be told by each check from then on."""
    place = tmp_path / "x.zarr"
    with hs.create(place, consolidated=True) as root:
        root.create_array("g/t", data=np.arange(8), chunks=(4,), codec=codec)
    (place / "g/t/c/1").write_bytes(b"damaged")
    (mend,) = hs.repair(place / "g/t", dry_run=False)
    assert mend.done
    assert (tmp_path / "x.zarr.quarantine/g/t/c/1").read_bytes() == b"damaged"
    assert not hs.check(place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.zarr", "x.zarr.quarantine"]
