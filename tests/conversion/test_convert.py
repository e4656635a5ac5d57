"""convert: whatever the chunks of both sides, the same cells; bounded memory, progress, selections, refusals."""

from __future__ import annotations

import tracemalloc
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperslab as hs
from hyperslab.chunks.progress import Progress
from hyperslab.conversion.pipeline import convert
from hyperslab.errors import AlreadyExists, CorruptChunk, FormatError, Invalid, LabelError, MemoryLimit, Unsupported
from hyperslab.stores.memory import MemoryStore

DTYPES = ["f4", ">i2", "u1", "?", "c8", "S3", "M8[s]", [("a", "i2"), ("b", "f8")]]


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    nbytes = prod(shape) * dtype.itemsize
    raw = draw(st.binary(min_size=nbytes, max_size=nbytes))
    if dtype.kind == "b":
        raw = bytes(byte & 1 for byte in raw)
    return np.frombuffer(raw, dtype).reshape(shape)


def _lengths(draw: Any, ndim: int) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(1, 10), min_size=ndim, max_size=ndim)))


@settings(max_examples=min(settings.default.max_examples, 60))
@given(arrays(), st.sampled_from(["zarr2", "zarr3"]), st.sampled_from(["zarr2", "zarr3"]), st.booleans(), st.data())
def test_any_chunks_give_the_same_cells(
    data: np.ndarray[Any, Any], old: str, new: str, sharded: bool, draws: st.DataObject
) -> None:
    dims = [f"d{axis}" for axis in range(data.ndim)]
    source, target = MemoryStore(), MemoryStore()
    with hs.create(source, old) as root:
        root.create_array("a", data=data, dims=dims, chunks=_lengths(draws.draw, data.ndim))
    asked = dict(zip(dims, _lengths(draws.draw, data.ndim), strict=True))
    shards = {dim: 3 * length for dim, length in asked.items()} if sharded and new == "zarr3" else None
    memory = draws.draw(st.sampled_from([1 << 14, 1 << 20]))
    report = convert(source, target, new, chunks=asked, shards=shards, verify=True, memory=memory)
    with hs.open(target) as root:
        array = root["a"]
        assert np.asarray(array[...]).astype(data.dtype).tobytes() == data.tobytes()
        assert array.dims == tuple(dims)
        if data.ndim:
            assert array.chunks == tuple(asked.values())
    assert report.verified is not None and report.verified.cells == data.size


@settings(max_examples=min(settings.default.max_examples, 60))
@given(arrays().filter(lambda data: data.ndim > 0), st.data())
def test_a_selection_is_numpys(data: np.ndarray[Any, Any], draws: st.DataObject) -> None:
    dims = [f"d{axis}" for axis in range(data.ndim)]
    select: dict[str, Any] = {}
    key: list[Any] = []
    for dim, length in zip(dims, data.shape, strict=True):
        item: Any = draws.draw(st.one_of(st.slices(length), st.integers(0, length - 1) if length else st.nothing()))
        select[dim] = item
        key.append(item)
    source, target = MemoryStore(), MemoryStore()
    with hs.create(source) as root:
        root.create_array("a", data=data, dims=dims, chunks=_lengths(draws.draw, data.ndim))
    convert(source, target, select=select, verify=True)
    with hs.open(target) as root:
        wanted = data[tuple(key)]
        assert root["a"].shape == wanted.shape
        assert np.asarray(root["a"][...]).astype(data.dtype).tobytes() == wanted.tobytes()


def _sample(target: Any, format: str = "zarr3") -> None:
    with hs.create(target, format) as root:
        root.attrs["title"] = "sample"
        root.create_array("lat", data=np.array([50.0, 45.0, 40.0]), dims=("lat",), attrs={"units": "degrees_north"})
        root.create_array("g/t", data=np.arange(12, dtype="f4").reshape(4, 3), dims=("time", "lat"))
        root.create_array("words", data=np.array(["a", "", "ccc"], np.dtypes.StringDType()), dims=("lat",))


def test_labels_select_in_every_array_that_has_the_dimension() -> None:
    source, target = MemoryStore(), MemoryStore()
    _sample(source)
    convert(source, target, select={"lat": slice(50.0, 45.0), "time": -1}, verify=True)
    with hs.open(target) as root:
        assert root["lat"][...].tolist() == [50.0, 45.0]
        assert root["words"][...].tolist() == ["a", ""]
        assert root["g/t"].dims == ("lat",)
        assert root["g/t"][...].tolist() == [9.0, 10.0]
        assert dict(root.attrs) == {"title": "sample"}


def test_a_selection_that_leaves_nothing_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    source = MemoryStore()
    _sample(source)
    convert(source, MemoryStore(), select={"lat": slice(50.0, 45.0), "time": -1})
    assert caplog.messages == []
    convert(source, MemoryStore(), select={"lat": slice(10.0, 5.0), "time": -1})
    rest = "is an empty range (lat descends from 50.0 to 40.0): no cell of it is converted"
    assert caplog.messages == [f"what is selected along lat {rest}"]
    caplog.clear()
    convert(source, MemoryStore(), select={"Y": slice(40.0, 50.0)})
    assert caplog.messages == [f"what is selected along lat {rest}"]
    caplog.clear()
    convert(source, MemoryStore(), select={"time": slice(4, 9)})
    rest = "is an empty range (its positions go from 0 to 3): no cell of it is converted"
    assert caplog.messages == [f"what is selected along time {rest}"]


def test_wrong_selections_say_what_would_work() -> None:
    source, target = MemoryStore(), MemoryStore()
    _sample(source)
    with pytest.raises(Invalid, match="did you mean 'lat'"):
        convert(source, target, select={"lats": 1})
    with pytest.raises(Invalid, match="did you mean 'time'"):
        convert(source, target, chunks={"tim": 1})
    with pytest.raises(Invalid, match=r"a chunk length of 0 \[node=/g/t\]; lengths are at least 1"):
        convert(source, target, chunks={"lat": 0})
    with pytest.raises(LabelError, match=r"50\.0|45\.0"):
        convert(source, target, select={"lat": 47.0})
    assert list(target.list()) == []


def test_progress_counts_to_the_end() -> None:
    source, target = MemoryStore(), MemoryStore()
    with hs.create(source) as root:
        root.create_array("a", data=np.zeros((10, 10)), dims=("x", "y"), chunks=(3, 10))
    seen: list[Progress] = []
    report = convert(source, target, chunks={"x": 2, "y": 5}, progress=seen.append)
    assert seen[0].done_bytes == 0
    assert seen[-1].done_bytes == seen[-1].total_bytes == 800 == report.nbytes
    assert seen[-1].done_chunks == seen[-1].total_chunks == report.chunks
    assert [now.done_bytes for now in seen] == sorted(now.done_bytes for now in seen)


def test_a_target_in_the_way_is_kept_unless_overwritten(tmp_path: Path) -> None:
    _sample(tmp_path / "source.zarr")
    with hs.create(tmp_path / "target.zarr") as root:
        root.create_array("old", data=np.arange(3))
    with pytest.raises(AlreadyExists, match="overwrite"):
        convert(tmp_path / "source.zarr", tmp_path / "target.zarr")
    with hs.open(tmp_path / "target.zarr") as root:
        assert list(root) == ["old"]
    convert(tmp_path / "source.zarr", tmp_path / "target.zarr", overwrite=True)
    with hs.open(tmp_path / "target.zarr") as root:
        assert "old" not in root and "words" in root
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.zarr", "target.zarr"]


def test_losses_are_refused_first_and_listed(tmp_path: Path) -> None:
    _sample(tmp_path / "source.zarr")
    with hs.open(tmp_path / "source.zarr", "r+") as root:
        root.create_array("when", data=np.array(["2001-01-01"], "M8[s]"), dims=("one",))
        root.create_array("half", data=np.array([1.5], "f2"), dims=("one",))
    with pytest.raises(Unsupported, match=r"(?s)/when.*--allow-loss"):
        convert(tmp_path / "source.zarr", tmp_path / "target.nc")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.zarr"]
    report = convert(tmp_path / "source.zarr", tmp_path / "target.nc", allow_loss=True, verify=True)
    assert {loss.node for loss in report.losses} >= {"when", "half"}
    with hs.open(tmp_path / "target.nc") as root:
        assert root["when"].dtype == np.dtype("i8")
        assert root["half"].dtype == np.dtype("f4")
        assert root["half"][...].tolist() == [1.5]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("chunks", [{"x": 2**10, "y": 8}, {"x": 8, "y": 2**10}])
def test_memory_is_bounded(tmp_path: Path, chunks: dict[str, int]) -> None:
    size, memory = 2**11, 2**23
    with hs.create(tmp_path / "source.zarr") as root:
        array = root.create_array("a", shape=(size, size), dtype="f8", dims=("x", "y"), chunks=(size, 8), codec="none")
        for start in range(0, size, 64):
            array[:, start : start + 64] = np.arange(64.0)
    tracemalloc.start()
    try:
        convert(tmp_path / "source.zarr", tmp_path / "target.zarr", chunks=chunks, memory=memory)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size * size * 8 > 3 * memory
    assert peak < memory + 2**21
    with hs.open(tmp_path / "target.zarr") as root:
        assert root["a"][5, :128].tolist() == [*np.arange(64.0), *np.arange(64.0)]


def test_a_chunk_larger_than_the_memory_is_refused(tmp_path: Path) -> None:
    with hs.create(tmp_path / "source.zarr") as root:
        root.create_array("a", data=np.zeros(2**16), dims=("x",), chunks=(2**10,))
    with pytest.raises(MemoryLimit):
        convert(tmp_path / "source.zarr", tmp_path / "target.zarr", chunks={"x": -1}, memory=2**16)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.zarr"]


def test_a_damaged_source_leaves_no_target(tmp_path: Path) -> None:
    with hs.create(tmp_path / "source.zarr") as root:
        root.create_array("a", data=np.arange(4096.0), dims=("x",), chunks=(512,))
    chunk = tmp_path / "source.zarr/a/c/3"
    chunk.write_bytes(chunk.read_bytes()[:-5])
    with pytest.raises((CorruptChunk, FormatError)):
        convert(tmp_path / "source.zarr", tmp_path / "target.zarr", chunks={"x": 1000})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.zarr"]


def test_what_is_no_mapping_is_refused() -> None:
    source = MemoryStore()
    _sample(source)
    with pytest.raises(Invalid, match="auto"):
        convert(source, MemoryStore(), chunks=(1, 2))  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="at least 1"):
        convert(source, MemoryStore(), chunks={"lat": 0})


def test_words_for_shards_that_mean_nothing() -> None:
    source, target = MemoryStore(), MemoryStore()
    _sample(source)
    wrongs: list[Any] = ["foo", True, 4, (1, 2), {"lat": 0}]
    for wrong in wrongs:
        with pytest.raises(Invalid, match=r"shards=.*; give False or 'none', 'auto', 'many' .* lengths by dimension"):
            convert(source, target, shards=wrong)
    assert list(target.list()) == []


def test_many_keeps_the_chunks_that_lie_in_shards_of_the_source() -> None:
    source = MemoryStore()
    with hs.create(source) as root:
        root.create_array("a", data=np.arange(45.0 * 45).reshape(45, 45), chunks=(1, 1), shards=(9, 9))
        root.create_array("b", data=np.arange(100.0), chunks=(1,), shards=(10,))
    target = MemoryStore()
    convert(source, target, shards="many", verify=True)
    root = hs.open_group(target)
    assert (root["a"].chunks, root["a"].shards) == ((1, 1), (45, 45))
    assert (root["b"].chunks, root["b"].shards) == ((1,), None)  # not so many


def test_the_report_tells_shards_from_chunks() -> None:
    source = MemoryStore()
    with hs.create(source) as root:
        root.create_array("a", data=np.arange(12), dims=("x",), chunks=(12,))
        root.create_array("x", data=np.arange(12), dims=("x",), chunks=(12,))
    report = convert(source, MemoryStore(), chunks={"x": 2}, shards={"x": 4})
    assert (report.chunks, report.shards) == (4, 3)
    assert ", 1 chunk and 3 shards, " in str(report)
    report = convert(source, MemoryStore(), chunks={"x": 2})
    assert (report.chunks, report.shards) == (7, 0)
    assert ", 7 chunks, " in str(report)
    report = convert(source, MemoryStore(), path="a", chunks={"x": 2}, shards={"x": 12})
    assert ", 1 chunk and 1 shard, " in str(report)


def test_shards_where_there_are_none_are_refused(tmp_path: Path) -> None:
    _sample(tmp_path / "source.zarr")
    with pytest.raises(Unsupported, match="zarr2 has no shards"):
        convert(tmp_path / "source.zarr", tmp_path / "target.zarr", "zarr2", shards="auto")


def test_shards_that_would_cut_a_chunk_are_refused(tmp_path: Path) -> None:
    _sample(tmp_path / "source.zarr")
    with pytest.raises(Invalid, match=r"shards of lat=10 hold no whole number of chunks of lat=7"):
        convert(tmp_path / "source.zarr", tmp_path / "target.zarr", "zarr3", chunks={"lat": 7}, shards={"lat": 10})
    assert not (tmp_path / "target.zarr").exists()
    convert(tmp_path / "source.zarr", tmp_path / "target.zarr", "zarr3", chunks={"lat": 2}, shards={"lat": -1})
    convert(tmp_path / "source.zarr", tmp_path / "rounded.zarr", "zarr3", shards={"lat": 10}, verify=True)


def test_dimensions_that_grow_and_fill_values_are_kept(tmp_path: Path) -> None:
    _sample(tmp_path / "source.zarr")
    with hs.open(tmp_path / "source.zarr", "r+") as root:
        root.create_array("sparse", shape=(100,), dtype="i4", dims=("x",), chunks=(10,), fill_value=-1)
        root["sparse"][55] = 7
    convert(tmp_path / "source.zarr", tmp_path / "target.zarr", "zarr3", chunks={"x": 5}, verify=True)
    with hs.open(tmp_path / "target.zarr") as root:
        assert root["sparse"].fill_value == -1
        assert root["sparse"][54:57].tolist() == [-1, 7, -1]
    stored = [path for path in (tmp_path / "target.zarr/sparse/c").rglob("*") if path.is_file()]
    assert len(stored) == 1


def test_attributes_that_netcdf_has_no_type_for_become_json_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with hs.create(tmp_path / "source.zarr") as root:
        root.attrs.update({"flag": True, "tree": {"a": [1, None]}, "number": 5})
        root.create_array("a", data=np.zeros(2), dims=("x",), attrs={"none": None, "units": "K"})
    with pytest.raises(Unsupported, match=r"'tree', \{'a': \[1, None\]\}, becomes JSON text"):
        convert(tmp_path / "source.zarr", tmp_path / "target.nc")
    report = convert(tmp_path / "source.zarr", tmp_path / "target.nc", allow_loss=True, verify=True)
    assert len(report.losses) == 2
    assert [record.getMessage() for record in caplog.records] == [f"lost in netcdf: {loss}" for loss in report.losses]
    with hs.open(tmp_path / "target.nc") as root:
        assert (root.attrs["flag"], root.attrs["tree"]) == (True, '{"a": [1, null]}')
        assert root.attrs["number"] == 5
        assert dict(root["a"].attrs) == {"none": "null", "units": "K"}


def test_what_nczarr_takes_as_json_text_is_said_first(tmp_path: Path) -> None:
    with hs.create(tmp_path / "source.zarr") as root:
        root.attrs.update({"tree": {"a": 1}, "one": ["x"], "title": "t"})
        root.create_array("a", data=np.zeros(2), dims=("x",), attrs={"none": None, "several": ["a", "b"]})
        root["a"].attrs["empty"] = np.array([], "f4")
    report = convert(tmp_path / "source.zarr", tmp_path / "target.nczarr", allow_loss=True, verify=True)
    said = [str(loss).partition(",")[0] for loss in report.losses]
    assert said == ["/: the attribute 'tree'", "/a: the attribute 'none'", "/a: the attribute 'empty'"]
    assert all("becomes JSON text" in str(loss) for loss in report.losses)
    with pytest.raises(Unsupported, match="'tree'"):
        convert(tmp_path / "source.zarr", tmp_path / "other.nczarr", dialect="draft")


@pytest.mark.parametrize("suffix", ["zarr", "nc", "blp"])
def test_zeros_are_not_missing_to_xarray_in_zarr2(tmp_path: Path, suffix: str) -> None:
    with hs.create(tmp_path / f"a.{suffix}") as root:
        root.create_array("t", data=np.array([0.0, 1.5]), dims=["x"], fill_value=0.0)
        root.create_array("x", data=np.arange(2), dims=["x"])
    hs.convert(tmp_path / f"a.{suffix}", tmp_path / "b.zarr", "zarr2", verify=True)
    for how in ({"engine": "hyperslab"}, {"engine": "zarr", "consolidated": False}):
        with xr.open_dataset(tmp_path / "b.zarr", **how) as dataset:
            assert dataset["t"].values.tolist() == [0.0, 1.5]
            assert dataset["x"].dtype == np.dtype("i8")


def test_a_fill_value_of_zero_stays_in_zarr2_where_xarray_opens_no_such_array(tmp_path: Path) -> None:
    there = zarr.create_array(
        tmp_path / "a.zarr", name="z", shape=(8, 8), chunks=(2, 2), dtype="u2", zarr_format=3, fill_value=0
    )
    there[3, 3] = 5
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", "zarr2", verify=True)
    copy = zarr.open_array(tmp_path / "b.zarr/z", mode="r")
    assert (copy.metadata.zarr_format, copy.fill_value, copy.nchunks_initialized) == (2, 0, 1)
    np.testing.assert_array_equal(copy[...], there[...])
    hs.convert(tmp_path / "b.zarr", tmp_path / "c.zarr", "zarr3", verify=True)
    assert dict(zarr.open_array(tmp_path / "c.zarr/z", mode="r").attrs) == {}
    with hs.create(tmp_path / "d.zarr", "zarr2") as root:
        root.create_array("z", data=there[...], chunks=(2, 2), fill_value=4)
    assert [problem.kind for problem in hs.diff(tmp_path / "b.zarr", tmp_path / "d.zarr")] == ["fill-value"]


def test_a_fill_value_that_is_not_zero_stays_in_zarr2(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("t", shape=(4,), dtype="f4", chunks=(2,), fill_value=-999.0)[0] = 1.0
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", "zarr2", verify=True)
    assert hs.open(tmp_path / "b.zarr/t")[...].tolist() == [1.0, -999.0, -999.0, -999.0]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("old", "new", "options", "shards"),
    [
        ("zarr2", "zarr3", {"chunks": {"y": 1, "x": 1}}, (45, 45)),
        ("zarr3", "zarr3", {"chunks": {"y": 1, "x": 1}}, (45, 45)),
        ("zarr3", "zarr3", {"chunks": {"y": 1, "x": 1}, "shards": False}, None),
        ("zarr3", "zarr3", {}, None),  # as it is
        ("zarr3", "zarr3", {"shards": "many"}, (45, 45)),
        ("zarr2", "zarr3", {"shards": "many"}, (45, 45)),
        ("zarr3", "hdmf", {"shards": "many", "profile": "v3"}, (45, 45)),
        ("zarr3", "hdmf", {"chunks": {"y": 1, "x": 1}, "profile": "v3"}, None),
        ("zarr3", "zarr2", {"chunks": {"y": 1, "x": 1}, "shards": "many"}, None),
        ("zarr3", "zarr3", {"chunks": {"y": 1, "x": 1}, "shards": "none"}, None),
        ("zarr3", "zarr2", {"chunks": {"y": 1, "x": 1}}, None),
        ("zarr3", "nczarr", {"chunks": {"y": 1, "x": 1}, "shards": False}, None),
    ],
)
def test_many_small_chunks_are_put_into_shards(
    old: str, new: str, options: dict[str, Any], shards: tuple[int, int] | None
) -> None:
    source, target = MemoryStore(), MemoryStore()
    with hs.create(source, old) as root:
        cells = np.arange(45.0 * 45).reshape(45, 45)
        root.create_array("a", data=cells, dims=("y", "x"), chunks=(1, 1), shards=False)
    convert(source, target, new, verify=True, **options)
    array = hs.open(target)["a"]
    assert (array.chunks, array.shards) == ((1, 1), shards)


@pytest.mark.covering
@pytest.mark.sampled(0)
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "nczarr"])
@pytest.mark.parametrize("shards", [(300, 200), (10, 8)])
def test_without_the_shards_of_the_source_the_chunks_in_them_stay(format: str, shards: tuple[int, int]) -> None:
    source, target = MemoryStore(), MemoryStore()
    with hs.create(source) as root:
        cells = np.arange(300.0 * 200).reshape(300, 200)
        root.create_array("a", data=cells, dims=("y", "x"), chunks=(5, 4), shards=shards)
    convert(source, target, format, shards=False, verify=True)
    array = hs.open(target)["a"]
    assert (array.chunks, array.shards) == ((5, 4), None)


def test_many_small_chunks_along_a_dimension_that_grows() -> None:
    source, target = MemoryStore(), MemoryStore()
    with hs.create(source) as root:
        root.create_dimension("y")
        root.create_group("g").create_array("a", (50, 50), "f4", dims=("y", "x"))[...] = 1
    convert(source, target, "zarr3", chunks={"y": 1, "x": 1}, verify=True)
    assert hs.open(target)["g/a"].shards == (1, 50)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("memory", [100, 4_000, 100_000])
def test_shards_that_nobody_asked_for_need_no_more_memory_than_chunks(memory: int) -> None:
    source, target = MemoryStore(), MemoryStore()
    with hs.create(source) as root:
        root.create_array("a", data=np.arange(2500.0), dims=("x",), chunks=(5,))
    convert(source, target, "zarr3", chunks={"x": 1}, memory=memory, verify=True)
    shards = hs.open(target)["a"].shards
    assert (shards is None) == (memory == 100)
    assert shards is None or 8 * shards[0] <= memory // 8
