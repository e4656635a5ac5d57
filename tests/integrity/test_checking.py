"""``check``: finds everything, in whatever store and format, in bounded memory, and nothing in what is sound."""

from __future__ import annotations

import json
import pickle
import shutil
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
import xarray as xr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from planting import CASES, LAYOUTS, Dataset, sound

import hyperslab as hs
from hyperslab.chunks.settings import DEFAULTS
from hyperslab.errors import FormatError, NotFound, Problem, SelectionError
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.shards import ShardedChunks, open_chunks
from hyperslab.integrity.report import Report
from hyperslab.integrity.stored_chunks import Shards, open_objects
from hyperslab.model.spec import ArraySpec, Chunks, Codec
from hyperslab.stores.memory import MemoryStore
from old_peers import reads_zarr

pytestmark = pytest.mark.sampled(2)

GOLDEN = Path(__file__).parents[1] / "golden"


def kinds(report: Report) -> set[tuple[str, str]]:
    return {(problem.node, problem.kind) for problem in report}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_everything_is_found_at_once(layout: str, tmp_path: Path) -> None:
    """The first problem never ends the search."""
    data = Dataset(sound(tmp_path, layout), layout)
    names = [
        "group without document",
        "raw chunk cut",
        "chunk cut",
        "chunk outside the grid",
        "foreign file in an array",
        "foreign folder",
        "unfinished write",
        "circle of folders",
        "name that is no key",
        "consolidated metadata stale",
    ]
    for name in names:
        CASES[name].plant(data)
    report = hs.check(str(data.root), deep=True)
    notes = {(note.node, note.kind) for note in report.notes}
    assert {(CASES[name].node, CASES[name].kind_in(layout)) for name in names} <= kinds(report) | notes
    assert all(mend.done for mend in hs.repair(str(data.root), dry_run=False))  # type: ignore[attr-defined]
    assert list(hs.check(str(data.root), deep=True)) == []


@pytest.mark.parametrize("layout", ["zarr3", "shards"])
def test_any_flipped_byte_is_found(layout: str, tmp_path: Path) -> None:
    """Chunks have checksums, documents a copy: a byte turned in either is found, whatever it is turned to."""
    place = tmp_path / "x.zarr"
    shards: dict[str, Any] = {"chunks": (2, 3), "shards": (4, 6)} if layout == "shards" else {"chunks": (4, 6)}
    with hs.create(str(place), "zarr3", consolidated=True) as root, root.batch():
        root.create_group("g").attrs["title"] = "a group"
        cells = np.arange(1, 97, dtype="i4").reshape(8, 12)
        root.create_array("a", data=cells, dims=("y", "x"), attrs={"units": "K"}, **shards)
        root.create_array("g/raw", data=cells, codec="none", **shards)
    files = [
        path for path in sorted(place.rglob("*")) if path.is_file() and path.parent != place and path.stat().st_size
    ]
    assert list(hs.check(str(place), deep=True)) == []
    sizes = [path.stat().st_size for path in files]

    @settings(max_examples=min(settings.default.max_examples, 300))
    @given(number=st.integers(0, sum(sizes) - 1), mask=st.integers(1, 255))
    def flip(number: int, mask: int) -> None:
        path = files[int(np.searchsorted(np.cumsum(sizes), number, side="right"))]
        before = path.read_bytes()
        turned = bytearray(before)
        turned[number % len(before)] ^= mask
        assume(path.name != "zarr.json" or differs(before, bytes(turned)))
        path.write_bytes(turned)
        try:
            report = hs.check(str(place), deep=True)
        finally:
            path.write_bytes(before)
        node = str(path.relative_to(place).parent).split("/c/")[0]
        assert any(problem.node == node for problem in report), f"{path} byte {number % len(before)} ^ {mask}"

    flip()


def differs(before: bytes, after: bytes) -> bool:
    """Whether two documents differ in more than the space between their words."""
    try:
        return json.loads(before) != json.loads(after)
    except ValueError:
        return True


@pytest.mark.sampled(0)
def test_the_stores_of_other_implementations_are_sound(tmp_path: Path) -> None:
    archives = sorted(GOLDEN.glob("zarr*/*.zip"))
    assert {archive.parent.name for archive in archives} == {"zarr2", "zarr3"}
    for archive in archives:
        zipfile.ZipFile(archive).extractall(tmp_path / archive.stem)
        (tmp_path / archive.stem / "truth.json").unlink()
        shutil.rmtree(tmp_path / archive.stem / "refuse", ignore_errors=True)
        shutil.rmtree(tmp_path / archive.stem / "consolidated_stale", ignore_errors=True)
        report = hs.check(tmp_path / archive.stem, deep=True)
        # their features lie side by side in plain folders: groups that have no document
        assert {problem.kind for problem in report} <= {"missing-document"}, str(report)
        for folder in (tmp_path / archive.stem).iterdir():
            documents = [folder / name for name in ("zarr.json", ".zgroup", ".zarray")]
            if any(document.exists() for document in documents):
                left = hs.check(folder, deep=True)
                assert not left or folder.name == "partial", str(left)


def test_golden_damage_is_found(tmp_path: Path) -> None:
    """Every array that the golden store calls damaged is one for ``check`` too, or what is not known here is noted."""
    archive = next(GOLDEN.glob("zarr3/*.zip"))
    zipfile.ZipFile(archive).extractall(tmp_path)
    report = hs.check(tmp_path / "refuse", format="zarr3", deep=True)
    said = {problem.node for problem in [*report, *report.notes]}
    arrays = {path.parent.name for path in (tmp_path / "refuse").glob("*/zarr.json")}
    assert arrays and arrays <= said


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_memory_in_an_archive_and_in_an_object_store(layout: str, tmp_path: Path) -> None:
    place = sound(tmp_path, layout)
    data = Dataset(place, layout)
    data.change(data.chunk(), lambda chunk: chunk[:9])
    (place / "t2m" / "notes.txt").write_text("?")
    archive, store, bucket = tmp_path / "x.zarr.zip", MemoryStore(), obstore.store.MemoryStore()
    with zipfile.ZipFile(archive, "w") as file:
        for path in place.rglob("*"):
            if path.is_file() and path.name != ".lock":
                file.write(path, path.relative_to(place))
                store.put(str(path.relative_to(place)), path.read_bytes())
                obstore.put(bucket, str(path.relative_to(place)), path.read_bytes())
    wanted = kinds(hs.check(place, deep=True))
    assert len(wanted) == 1
    for target in (str(archive), store, bucket):
        assert kinds(hs.check(target, deep=True)) == wanted
        assert all(mend.done for mend in hs.repair(target, dry_run=False))  # type: ignore[attr-defined]
        assert list(hs.check(target, deep=True)) == []
        assert ("t2m", "foreign") in {(note.node, note.kind) for note in hs.check(target).notes}
        (mend,) = hs.repair(target, dry_run=False, drop_foreign=True)
        assert mend.done and mend.kind == "foreign"  # type: ignore[attr-defined]
        assert (hs.open_group(target)["t2m"][0:4, 0:6] == 0).all()
    assert sorted(path.name for path in Path(f"{archive}.quarantine").rglob("*") if path.is_file()) == sorted(
        [data.chunk().name, "notes.txt"]
    )


@pytest.mark.parametrize("version", ["zarr2", "zarr3"])
def test_arrays_of_every_rank_and_root_arrays(version: str, tmp_path: Path) -> None:
    with hs.create(tmp_path / "x", version) as root:
        for rank in range(4):
            root.create_array(f"r{rank}", data=np.ones((3,) * rank), chunks=(2,) * rank)
        root.create_array("empty", shape=(0, 3), dtype="f4")
        root.create_array("words", data=np.array(["a", "bcd"], dtype=np.dtypes.StringDType()))
    assert list(hs.check(tmp_path / "x", deep=True)) == []
    for name in ("r0", "r2"):
        shutil.copytree(tmp_path / "x" / name, tmp_path / name)
        assert list(hs.check(tmp_path / name, deep=True)) == []
        assert hs.check(tmp_path / name).notes == []
    chunk = tmp_path / "r0" / ("0" if version == "zarr2" else "c")
    chunk.write_bytes(chunk.read_bytes()[:-1])
    assert [problem.node for problem in hs.check(tmp_path / "r0", deep=True)] == [""]


def test_what_may_be_meant_is_a_note(tmp_path: Path) -> None:
    with hs.create(tmp_path / "x.zarr") as root:
        root.create_array("lat", data=np.array([1.0, 5.0, 3.0]), dims=("lat",))
        a = root.create_array("a", shape=(3, 4), dtype="f4", dims=("lat", "lon"), chunks=(1, 2))
        a[1, 0] = 1
        root.create_array("lon", data=np.arange(3.0), dims=("other",))
    report = hs.check(tmp_path / "x.zarr", deep=True)
    assert not report
    assert {(note.node, note.kind) for note in report.notes} == {
        ("a", "missing-chunk"),
        ("lat", "coordinate-order"),
        ("lon", "coordinate-length"),
    }


def test_what_cannot_be_decoded_here_is_told_and_left_alone(tmp_path: Path) -> None:
    place = sound(tmp_path, "zarr3")
    data = Dataset(place, "zarr3")
    data.edit(place / "t2m" / "zarr.json", lambda doc: doc["codecs"].append({"name": "example.new"}))
    (place / "t2m" / "c" / "0" / "0").write_bytes(b"in the words of another")
    before = (place / "t2m" / "zarr.json").read_bytes()
    assert kinds(hs.check(place, deep=True)) == {("t2m", "unknown-codec")}
    (mend,) = hs.repair(place, dry_run=False)
    assert mend.action is None and (place / "t2m" / "zarr.json").read_bytes() == before  # type: ignore[attr-defined]
    assert (place / "t2m" / "c" / "0" / "0").read_bytes() == b"in the words of another"


def test_fresh_writes_of_others_are_left_alone(tmp_path: Path) -> None:
    place = sound(tmp_path, "zarr3")
    fresh = place / "t2m" / ".c.0123456789abcdef.tmp"
    fresh.write_bytes(b"half")
    assert not hs.repair(place, dry_run=False)
    assert fresh.exists()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_is_that_of_some_chunks(layout: str, tmp_path: Path) -> None:
    """48 chunks of 1 MiB: less than 8 of them are ever held."""
    chunk = {"chunks": (256, 512)} if layout != "shards" else {"chunks": (256, 512), "shards": (256, 2048)}
    version = "zarr2" if layout == "zarr2" else "zarr3"
    with hs.create(tmp_path / "x.zarr", version) as root:
        noise = np.random.default_rng(0).random((256 * 12, 512 * 4))
        root.create_array("a", data=noise, **chunk)
    del noise
    hs.check(tmp_path / "x.zarr", deep=True, workers=1)
    tracemalloc.start()
    try:
        assert not hs.check(tmp_path / "x.zarr", deep=True, workers=1)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_what_lies_too_deep_is_told(tmp_path: Path) -> None:
    store = MemoryStore()
    with hs.create(store) as root:
        root.create_group("/".join("g" * 105))
    (problem,) = hs.check(store)
    assert (problem.kind, problem.node.count("/")) == ("too-deep", 100)
    assert hs.repair(store, dry_run=False)[0].action is None  # type: ignore[attr-defined]


def test_what_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as missing:
        hs.check(tmp_path / "nowhere")
    with pytest.raises(NotFound) as not_opened:
        hs.open(tmp_path / "nowhere")
    assert str(missing.value) == str(not_opened.value)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("?")
    with pytest.raises(FormatError, match="no dataset"):
        hs.check(tmp_path / "folder")
    with pytest.raises(FormatError):
        hs.repair(tmp_path / "folder", dry_run=False)


def test_netcdf_files(tmp_path: Path) -> None:
    place = tmp_path / "x.nc"
    with hs.create(place) as root:
        cells = np.random.default_rng(1).random((64, 64))
        root.create_array("a", data=cells, dims=("y", "x"), chunks=(16, 64), codec="gzip")
        root.create_array("b", data=np.arange(64), dims=("y",))
    assert (list(hs.check(place, deep=True)), list(hs.repair(place))) == ([], [])
    data = bytearray(place.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    place.write_bytes(data)
    report = hs.check(place, deep=True)
    assert {problem.node for problem in report} == {"a"} and "cells [" in report[0].message
    shown = hs.repair(place)
    assert place.read_bytes() == bytes(data) and len(shown) == len(report)
    assert all(mend.done for mend in hs.repair(place, dry_run=False, quarantine=tmp_path / "out"))  # type: ignore[attr-defined]
    assert not hs.check(place, deep=True) and len(list((tmp_path / "out").rglob("chunk.*"))) == len(report)
    found = hs.open_array(place, path="a")[...]
    assert (found == cells).mean() >= 0.5 and np.unique(found[found != cells]).size == 1
    place.write_bytes(data[:200])
    assert hs.check(place)


@pytest.mark.parametrize("suffix", ["zarr", "blp", "blaze", "b2nd"])
def test_a_coordinate_that_is_too_short_for_its_dimension(tmp_path: Path, suffix: str) -> None:
    with hs.create(tmp_path / f"a.{suffix}") as root:
        root.create_array("air", data=np.arange(24.0).reshape(6, 4), dims=("time", "x"), attrs={"coordinates": "age"})
        root.create_array("time", data=np.arange(6), dims=("time",), attrs={"units": "days since 2020-01-01"})
        root.create_array("age", data=np.arange(6), dims=("time",))
    assert not hs.check(tmp_path / f"a.{suffix}", deep=True)
    with hs.open_group(tmp_path / f"a.{suffix}", "r+") as root:
        root["air"].append(np.ones((2, 4)))
    report = hs.check(tmp_path / f"a.{suffix}", deep=True)
    # A single array and its coordinates share their dimensions; plain Zarr asks for no such thing.
    (problem,) = report.notes if suffix == "zarr" else report
    assert (problem.node, problem.kind, bool(report)) == ("", "dimension-sizes", suffix != "zarr")
    assert "'time' has several sizes: 6 in" in problem.message and "8 in air" in problem.message
    with pytest.raises(SelectionError, match="labels need a coordinate of the dimension's name and length"):
        hs.open_array(tmp_path / f"a.{suffix}", path="air").sel(time="2020-01-02")


def test_a_report_travels() -> None:
    report = Report([Problem("a", "kind", "wrong")], url="x", notes=[Problem("b", "note", "odd")], deep=True)
    again = pickle.loads(pickle.dumps(report))
    assert (list(again), again.notes, again.url, again.deep) == (list(report), report.notes, "x", True)
    assert str(report) == "/a: kind: wrong" and report.kinds == {"kind": 1}


def test_a_copy_may_say_what_says_nothing(tmp_path: Path) -> None:
    """As zarr-python does where it consolidates what others wrote."""
    with hs.create(tmp_path / "x.zarr", consolidated=True) as root:
        root.create_array("g/a", data=np.array(["b", "c"], object), dtype=str)
    document = tmp_path / "x.zarr" / "zarr.json"
    kept = document.read_text()
    for transformers, configuration, is_sound in (([], {}, True), (["one"], {}, False), ([], {"more": 1}, False)):
        said = json.loads(kept)
        copy = said["consolidated_metadata"]["metadata"]["g/a"]
        copy["storage_transformers"] = transformers
        copy["codecs"][0]["configuration"] = configuration
        document.write_text(json.dumps(said))
        assert kinds(hs.check(tmp_path / "x.zarr")) == (set() if is_sound else {("g/a", "stale-copy")})


@reads_zarr
@pytest.mark.parametrize("version", [2, 3])
def test_what_zarr_python_and_xarray_write_is_sound(version: Any, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    times = np.arange("2013-01-01", "2013-01-21", dtype="datetime64[D]").astype("datetime64[ns]")
    air = xr.Dataset(
        {"t2m": (("time", "lat"), np.ones((20, 4)), {"units": "K"}), "n": ((), 5)},
        {"time": times, "lat": [1.0, 2.0, 3.0, 4.0]},
        {"nan": float("nan"), "f": np.float32(1)},
    )
    place = tmp_path / "x.zarr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say of one another is not at stake
        air.isel(time=slice(0, 9)).to_zarr(place, zarr_format=version, encoding={"t2m": {"chunks": (4, 2)}})
        air.isel(time=slice(9, None)).to_zarr(place, zarr_format=version, append_dim="time")
        root = zarr.open_group(place, mode="r+", use_consolidated=False)
        shards = {} if version == 2 else {"shards": (4, 4)}
        array = root.create_array("g/a", shape=(10, 10), chunks=(2, 2), dtype="i4", **shards)
        array[:] = np.arange(100).reshape(10, 10)
        array.resize((7, 7))
        zarr.consolidate_metadata(place)
    report = hs.check(place, deep=True)
    assert (list(report), report.notes) == ([], [])
    assert not hs.repair(place, dry_run=False)


SHARDED = Codec("sharding_indexed", {"chunk_shape": [2], "codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]})


@pytest.mark.parametrize(
    ("codecs", "chunks", "cut"),
    [
        ([SHARDED], (4,), True),
        ([SHARDED, Codec("crc32c")], (4,), False),
        ([Codec("bytes")], (4,), False),
        ([SHARDED], ((4, 8),), False),
    ],
)
def test_shards_are_cut_where_readers_cut_them(codecs: list[Codec], chunks: Chunks, cut: bool) -> None:
    """What a check examines is what a reader reads."""
    spec = ArraySpec(shape=(12,), dtype=np.dtype("i4"), chunks=chunks, codecs=tuple(codecs), fill_value=0)
    store, key_of = MemoryStore(), lambda coords: "c/" + "/".join(map(str, coords))
    assert isinstance(open_objects(store, "a", key_of, spec, DEFAULTS), Shards) == cut
    assert isinstance(open_chunks(ChunkKeys(store, "a", key_of, DEFAULTS), spec), ShardedChunks) == cut


def test_the_cells_of_a_damaged_inner_chunk_are_its_own(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    with hs.create(place) as root:
        root.create_array("a", data=np.arange(60.0 * 40).reshape(60, 40), chunks=(5, 4), shards=(60, 40), codec="none")
    shard = place / "a/c/0/0"
    data = bytearray(shard.read_bytes())
    at = data.index(np.arange(200.0, 204).tobytes())  # the first row of the inner chunk behind the first ones
    data[at] ^= 1
    shard.write_bytes(data)
    (problem,) = hs.check(f"{place}/a", deep=True)
    assert problem.message.startswith("inner chunk [5:10, 0:4]: ")
    assert problem.message.endswith("[key=a/c/0/0, cells [5:10, 0:4]]")
