"""Making and changing files: what others see when, growing, removing, sharing dimensions, and what is refused."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from netcdf_files import raw, read_all, write_all

import hyperslab
import hyperslab as hs
from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import AlreadyExists, Conflict, Invalid, NodeNotFound, ReadOnly, StorageError, Unsupported
from hyperslab.formats.netcdf import FORMAT
from hyperslab.formats.netcdf.library import LibraryChunks
from hyperslab.formats.netcdf.reader import NetcdfReader
from hyperslab.formats.netcdf.working_copy import WorkingCopy, find_version
from hyperslab.formats.netcdf.writer import NetcdfWriter
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Compound, Enum, ObjectRef
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec
from hyperslab.stores.location import Location
from old_peers import needs_filters

FLOAT = np.dtype("f4")


def wish(shape: tuple[int, ...], dims: tuple[str | None, ...] = (), dtype: Any = FLOAT, **more: Any) -> ArraySpec:
    chunks = tuple(max(length, 1) for length in shape)
    return ArraySpec(shape=shape, dtype=dtype, chunks=more.pop("chunks", chunks), dims=dims, **more)


def write(path: Path, mode: str = "w", model: str = "NETCDF4") -> NetcdfWriter:
    return NetcdfWriter(str(path), str(path), mode, model, Settings(lock_timeout=5.0))


def read(path: Path) -> NetcdfReader:
    return NetcdfReader(str(path), str(path))


def left_over(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".tmp")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two arrays on an unlimited dimension and a group."""
    target = tmp_path / "a.nc"
    writer = write(target)
    writer.put("", GroupSpec(attrs={"title": "old"}, dims=(Dimension("t", 0, True), Dimension("x", 3))))
    writer.put("a", wish((2, 3), ("t", "x"), fill_value=-1))
    write_all(writer, "a", np.arange(6, dtype="f4").reshape(2, 3))
    writer.put("b", wish((2,), ("t",), np.dtype("i4"), fill_value=-2))
    writer.put("g/c", wish((3,), ("x",)))
    write_all(writer, "g/c", np.ones(3, "f4"))
    writer.close()
    return target


# -- seen whole or not at all ----------------------------------------------------------------------------------------


def test_nothing_is_seen_before_close_and_all_after(tmp_path: Path) -> None:
    target = tmp_path / "new.nc"
    writer = write(target, "x")
    writer.put("a", wish((2,)))
    assert not target.exists()
    assert len(left_over(tmp_path)) == 1
    writer.close()
    writer.close()
    assert left_over(tmp_path) == []
    assert read(target).children("") == ["a"]


def test_a_name_may_be_as_long_as_the_file_system_takes(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 125 + ".nc")
    with hyperslab.create(path) as group:
        group.create_array("v", data=np.arange(3.0))
    assert hyperslab.open(path)["v"][:].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("mode", ["w", "r+"])
def test_a_discarded_change_leaves_the_old_file(path: Path, mode: str) -> None:
    before = path.read_bytes()
    writer = write(path, mode)
    writer.put("z", wish((2,)))
    writer.discard()
    assert path.read_bytes() == before
    assert left_over(path.parent) == []


def test_a_writer_that_is_forgotten_leaves_nothing(path: Path) -> None:
    before = path.read_bytes()
    writer = write(path, "r+")
    writer.put("z", wish((2,)))
    with pytest.warns(ResourceWarning, match="changes were lost"):
        del writer
        gc.collect()
    assert path.read_bytes() == before
    assert left_over(path.parent) == []


def test_a_process_that_ends_without_close_leaves_nothing(path: Path) -> None:
    before = path.read_bytes()
    code = (
        "import sys; from hyperslab.formats.netcdf.writer import NetcdfWriter as W\n"
        "from hyperslab.model.spec import GroupSpec\n"
        "w = W(sys.argv[1], 'u', 'r+', 'NETCDF4'); w.put('q', GroupSpec()); raise SystemExit(7)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 7
    assert path.read_bytes() == before
    assert left_over(path.parent) == []


def test_after_a_failed_write_nothing_is_published(path: Path) -> None:
    before = path.read_bytes()
    writer = write(path, "r+")
    with pytest.raises(StorageError, match="cannot write"):
        writer.chunks("b").write((0,), np.array(["no", "number"]))
    with pytest.raises(StorageError, match="nothing was published"):
        writer.close()
    assert path.read_bytes() == before
    assert left_over(path.parent) == []


def test_x_refuses_a_target_that_exists_or_comes_to_be(tmp_path: Path) -> None:
    target = tmp_path / "a.nc"
    writer = write(target, "x")
    target.write_bytes(b"somebody else's")
    with pytest.raises(AlreadyExists):
        write(target, "x")
    with pytest.raises(AlreadyExists):
        writer.close()
    assert target.read_bytes() == b"somebody else's"
    assert left_over(tmp_path) == []


def test_of_two_changes_at_once_the_second_is_a_conflict(path: Path) -> None:
    first, second = write(path, "r+"), write(path, "r+")
    first.put("", GroupSpec(attrs={"title": "first"}))
    second.put("", GroupSpec(attrs={"title": "second"}))
    first.close()
    with pytest.raises(Conflict):
        second.close()
    assert read(path).node("").attrs["title"] == "first"
    assert left_over(path.parent) == []


def test_a_file_that_is_replaced_while_it_is_opened_is_a_conflict(tmp_path: Path) -> None:
    """What was read of the one would be changed in the other."""
    place = tmp_path / "a.nc"
    hs.save(place, np.arange(3))
    version = find_version(str(place), str(place))
    hs.save(place, np.arange(4), mode="w")
    work = WorkingCopy(str(place), str(place), "r+", "NETCDF4", DEFAULTS)
    with pytest.raises(Conflict, match="changed while it was opened"):
        work.require_version(version)
    assert [each.name for each in tmp_path.iterdir()] == ["a.nc"]


def test_a_reader_keeps_its_version(path: Path) -> None:
    reader = read(path)
    writer = write(path, "r+")
    write_all(writer, "a", np.zeros((2, 3), "f4"))
    writer.close()
    np.testing.assert_array_equal(read_all(reader, "a"), np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(read_all(read(path), "a"), 0)


# -- changing --------------------------------------------------------------------------------------------------------


def test_growing_one_array_grows_all_on_the_dimension(path: Path) -> None:
    writer = write(path, "r+")
    spec = writer.node("a")
    assert isinstance(spec, ArraySpec)
    writer.put("a", spec.evolve(shape=(5, 3)))
    shapes = {name: node.shape for name in ("a", "b") if isinstance(node := writer.node(name), ArraySpec)}
    assert shapes == {"a": (5, 3), "b": (5,)}
    writer.close()
    with raw(path) as dataset:
        np.testing.assert_array_equal(dataset["a"][:2], np.arange(6).reshape(2, 3))
        np.testing.assert_array_equal(dataset["a"][2:], -1)
        np.testing.assert_array_equal(dataset["b"][:], -2)
        assert len(dataset.dimensions["t"]) == 5
    np.testing.assert_array_equal(read_all(read(path), "b"), [-2] * 5)


def test_what_was_dropped_is_gone_and_may_be_made_anew(path: Path) -> None:
    writer = write(path, "r+")
    writer.drop("a")
    writer.drop("g")
    assert writer.children("") == ["b"]
    with pytest.raises(NodeNotFound):
        writer.node("g/c")
    writer.put("a", wish((4,), ("y",), np.dtype("i2"), fill_value=0))
    writer.close()
    with raw(path) as dataset:
        assert list(dataset.variables) == ["b", "a"]
        assert list(dataset.groups) == []
        assert dataset["a"].dtype == "i2"
        assert dataset.title == "old"
    assert left_over(path.parent) == []


def test_dropping_makes_the_file_smaller(tmp_path: Path) -> None:
    target = tmp_path / "a.nc"
    writer = write(target)
    for name in ("a", "b"):
        writer.put(name, wish((100_000,), ("x",)))
        write_all(writer, name, np.ones(100_000, "f4"))
    writer.close()
    before = target.stat().st_size
    writer = write(target, "r+")
    writer.drop("a")
    writer.close()
    assert target.stat().st_size < before - 350_000
    np.testing.assert_array_equal(read_all(read(target), "b"), 1)


def test_attributes_change_and_keep_the_order_asked_for(path: Path) -> None:
    writer = write(path, "r+")
    for attrs in ({"a": 1, "b": "x", "c": 2.5}, {"b": "y", "a": 1}, {"a": 1, "b": "y", "d": np.str_("s")}):
        for node in ("", "a", "g"):
            spec = writer.node(node)
            writer.put(node, spec.evolve(attrs=attrs) if isinstance(spec, ArraySpec) else GroupSpec(attrs=attrs))
    writer.close()
    reader = read(path)
    for node in ("", "a", "g"):
        assert list(reader.node(node).attrs.items()) == [("a", np.int32(1)), ("b", "y"), ("d", np.str_("s"))]
    assert isinstance(reader.node("a").attrs["d"], np.str_)


def test_partial_chunks_and_edges(tmp_path: Path) -> None:
    target = tmp_path / "a.nc"
    writer = write(target)
    writer.put("a", wish((5, 7), ("y", "x"), chunks=(2, 3), codecs=(Codec("shuffle"), Codec("zlib", {"level": 1}))))
    cells = np.arange(35, dtype="f4").reshape(5, 7)
    write_all(writer, "a", cells)
    np.testing.assert_array_equal(read_all(writer, "a"), cells)
    writer.chunks("a").erase((0, 0))
    cells[:2, :3] = 0
    writer.close()
    np.testing.assert_array_equal(read_all(read(target), "a"), cells)
    with raw(target) as dataset:
        np.testing.assert_array_equal(dataset["a"][:], cells)


def test_threads_write_one_file(tmp_path: Path) -> None:
    target = tmp_path / "a.nc"
    writer = write(target)
    names = [f"v{number}" for number in range(4)]
    for name in names:
        writer.put(name, wish((40, 50), ("y", "x"), chunks=(10, 50)))

    def work(name: str) -> None:
        write_all(writer, name, np.full((40, 50), int(name[1:]), "f4"))

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    reader = read(target)
    assert [float(read_all(reader, name).sum()) for name in names] == [2000.0 * number for number in range(4)]


# -- dimensions and types --------------------------------------------------------------------------------------------


def test_dimensions_are_shared_and_hidden_by_nearer_ones(tmp_path: Path) -> None:
    target = tmp_path / "a.nc"
    writer = write(target)
    writer.put("a", wish((4,), ("x",)))
    writer.put("g/same", wish((4,), ("x",)))
    writer.put("h/other", wish((5,), ("x",)))
    with pytest.raises(Invalid, match="length 4 here, not 6"):
        writer.put("b", wish((6,), ("x",)))
    writer.put("scalar", wish(()))
    writer.put("anonymous", wish((4, 4), (None, None)))
    writer.close()
    with raw(target) as dataset:
        assert {name: len(dim) for name, dim in dataset.dimensions.items()} == {"x": 4, "dim_4": 4, "dim_4_2": 4}
        assert list(dataset["g"].dimensions) == []
        assert len(dataset["h"].dimensions["x"]) == 5
        assert dataset["anonymous"].dimensions == ("dim_4", "dim_4_2")


def test_a_length_of_zero_is_an_unlimited_dimension(tmp_path: Path) -> None:
    writer = write(tmp_path / "a.nc")
    writer.put("a", wish((0, 2), ("t", "x")))
    writer.put("a", wish((3, 2), ("t", "x")))
    writer.put("late", wish((0,), ("t",), fill_value=7))
    late = writer.node("late")
    assert isinstance(late, ArraySpec)
    assert late.shape == (3,)
    np.testing.assert_array_equal(read_all(writer, "late"), [7, 7, 7])
    writer.close()
    np.testing.assert_array_equal(read_all(read(tmp_path / "a.nc"), "late"), [7, 7, 7])


def test_structured_types_within_one_another(tmp_path: Path) -> None:
    inner = np.dtype([("a", ">i4"), ("s", "S4")])
    outer = np.dtype([("p", inner), ("q", "f4", (2, 2)), ("z", "u1")], align=True)
    writer = write(tmp_path / "a.nc")
    writer.put("v", wish((2,), ("x",), outer))
    spec = writer.node("v")
    cells = np.zeros(2, spec.numpy_dtype)
    cells["p"]["a"] = [1, 2]
    cells["q"] = np.arange(8).reshape(2, 2, 2)
    cells["p"]["s"] = b"w"
    write_all(writer, "v", cells)
    writer.close()
    reader = read(tmp_path / "a.nc")
    back = reader.node("v")
    assert isinstance(back, ArraySpec)
    assert isinstance(back.dtype, Compound)
    assert back.dtype.name == "v_t"
    assert back.dtype == spec.dtype
    np.testing.assert_array_equal(read_all(reader, "v"), cells)


def test_one_type_serves_many_arrays(tmp_path: Path) -> None:
    kind = Enum(np.dtype("i1"), (("a", 0), ("b", 1)), "e_t")
    writer = write(tmp_path / "a.nc")
    writer.put("v", wish((2,), ("x",), kind))
    writer.put("g/v", wish((2,), ("x",), kind))
    writer.put("h/v", wish((2,), ("x",), Enum(np.dtype("i1"), (("a", 0),), "e_t")))
    with pytest.raises(Invalid, match="another type named 'e_t'"):
        writer.put("w", wish((2,), ("x",), Enum(np.dtype("i1"), (("c", 0),), "e_t")))
    writer.close()
    with raw(tmp_path / "a.nc") as dataset:
        assert list(dataset.enumtypes) == ["e_t"]
        assert list(dataset["g"].enumtypes) == []
        assert list(dataset["h"].enumtypes) == ["e_t"]


# -- codecs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ((Codec("zlib", {"level": 6}),), (Codec("zlib", {"level": 6}),)),
        (
            (Codec("bytes"), Codec("shuffle", {"elementsize": 4}), Codec("gzip", {"level": 5}), Codec("crc32c")),
            (Codec("fletcher32"), Codec("shuffle", {"elementsize": 4}), Codec("zlib", {"level": 5})),
        ),
        pytest.param((Codec("zstd", {"level": 7}),), (Codec("zstd", {"level": 7}),), marks=needs_filters),
        pytest.param((Codec("bz2", {"level": 1}),), (Codec("bz2", {"level": 1}),), marks=needs_filters),
        (
            (Codec("blosc", {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"}),),
            (Codec("shuffle", {"elementsize": 4}), Codec("zlib", {"level": 5})),
        ),
        pytest.param(
            (Codec("blosc", {"cname": "zstd", "clevel": 3, "shuffle": 0}),),
            (Codec("zstd", {"level": 3}),),
            marks=needs_filters,
        ),
        ((Codec("zlib", {"level": 0}),), ()),
        ((), ()),
    ],
)
def test_codecs_are_kept_or_chosen_anew(tmp_path: Path, asked: Any, found: Any) -> None:
    target = tmp_path / "a.nc"
    writer = write(target)
    writer.put("a", wish((64,), ("x",), chunks=(16,), codecs=asked))
    noise = np.random.default_rng(5).random(64).astype("f4")
    write_all(writer, "a", noise)
    told = writer.node("a")
    writer.close()
    reader = read(target)
    spec = reader.node("a")
    assert isinstance(spec, ArraySpec)
    assert isinstance(told, ArraySpec)
    assert spec.codecs == told.codecs == found
    assert spec.chunks == told.chunks == (16,)
    assert not isinstance(reader.chunks("a"), LibraryChunks)
    np.testing.assert_array_equal(read_all(reader, "a"), noise)
    with raw(target) as dataset:
        np.testing.assert_array_equal(dataset["a"][:], noise)


# -- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (wish((2,), dtype=np.dtype("c8")), "complex64"),
        (wish((2,), dtype=np.dtype("M8[s]")), "datetime64"),
        (wish((2,), dtype=np.dtype("f2")), "float16"),
        (wish((2,), dtype=np.dtype("U4")), "U4"),
        (wish((2,), dtype=np.dtype("S4")), "S4"),
        (wish((2,), dtype=ObjectRef()), "object reference"),
        (wish((2,), dtype=np.dtype([("a", "f2")])), "float16"),
        (wish((2,), dtype=np.dtype([("a", [("b", "i4")], (2,))])), "array of structures"),
        (wish((2,), attrs={"a": None}), "None"),
        (wish((2,), attrs={"a": {"b": 1}}), "dict"),
        (wish((2,), attrs={"a": [1, "b"]}), "list"),
        (wish((2,), attrs={"a": []}), "empty list"),
        (wish((2,), attrs={"a": 2**64}), str(2**64)),
        (wish((2,), attrs={"a": np.zeros((2, 2))}), "2 dimensions"),
        (wish((2,), attrs={"_FillValue": "none"}), "_FillValue"),
        (wish((2,), dtype=np.dtype("i1"), attrs={"_FillValue": 300}), "300"),
        (wish((3,), chunks=((1, 2),)), "one chunk size"),
        (wish((2,), codecs=(Codec("lzma"),)), "lzma"),
        (Link("a"), "links"),
    ],
)
def test_what_netcdf_cannot_hold_is_named(path: Path, spec: Any, what: str) -> None:
    writer = write(path, "r+")
    with pytest.raises(Unsupported, match=what.replace("*", r"\*")) as caught:
        writer.put("new", spec)
    assert caught.value.url == str(path)
    writer.put("fine", wish((2,)))
    writer.close()
    assert read(path).children("")[-2:] == ["fine", "g"]


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("g", GroupSpec()),
        ("", GroupSpec(attrs={"a": np.str_("string")})),
        ("", GroupSpec(attrs={"a": np.int64(1)})),
        ("", GroupSpec(dims=(Dimension("a", 0, True), Dimension("b", 0, True)))),
        ("", GroupSpec(types={"e": Enum(np.dtype("i1"), (("a", 0),), "e")})),
        ("a", wish((2,), dtype=np.dtype("u2"))),
        ("a", wish((2,), dtype=str)),
    ],
)
def test_what_the_classic_models_cannot_hold_is_named(tmp_path: Path, name: str, spec: Any) -> None:
    writer = write(tmp_path / "a.nc", "w", "NETCDF3_CLASSIC")
    with pytest.raises(Unsupported, match="NETCDF3_CLASSIC"):
        writer.put(name, spec.evolve(dtype=np.dtype("u2")) if isinstance(spec, ArraySpec) else spec)
    writer.discard()


def test_changes_that_netcdf_has_no_way_for(path: Path) -> None:
    writer = write(path, "r+")
    a = writer.node("a")
    assert isinstance(a, ArraySpec)
    for change in ({"shape": (1, 3)}, {"shape": (2, 4)}, {"dtype": np.dtype("f8")}, {"dims": ("t", "y")}):
        with pytest.raises(Unsupported):
            writer.put("a", a.evolve(**change))
    with pytest.raises(Invalid):
        writer.put("a", GroupSpec())
    with pytest.raises(Invalid):
        writer.put("a/b", GroupSpec())
    writer.close()
    np.testing.assert_array_equal(read_all(read(path), "a"), np.arange(6).reshape(2, 3))


def test_reading_refuses_writes(path: Path) -> None:
    for fast in (True, False):
        reader = NetcdfReader(str(path), str(path), fast=fast)
        with pytest.raises(ReadOnly):
            reader.chunks("a").write((0, 0), np.zeros((2, 3), "f4"))
        with pytest.raises(ReadOnly):
            reader.chunks("a").erase((0, 0))


def test_a_closed_dataset_says_so(path: Path) -> None:
    reader, writer = read(path), write(path, "r+")
    reader.close()
    writer.close()
    for dataset in (reader, writer):
        with pytest.raises(Invalid, match="closed"):
            read_all(dataset, "a")


def test_options_and_places_are_checked(path: Path) -> None:
    where = Location.of(path)
    with pytest.raises(Invalid, match="nonsense"):
        hs.open(path, format="netcdf", nonsense=1)
    with pytest.raises(Invalid, match="NETCDF5"):
        FORMAT.open(where, "w", model="NETCDF5")
    with pytest.raises(Unsupported, match="local file system"):
        FORMAT.open(Location.of("memory://netcdf"), "r")
    with pytest.raises(NodeNotFound):
        FORMAT.open(where, "r").node("missing")
    hs.open(path.with_name("b.nc"), "a", model="NETCDF3_CLASSIC").close()
    assert path.with_name("b.nc").read_bytes()[:4] == b"CDF\x01"
    with hs.open(path, "a") as again:
        assert again.attrs["title"] == "old"


# -- appending to variables that share a dimension -------------------------------------------------------------------


@pytest.fixture
def winds(tmp_path: Path) -> Path:
    """Two variables on an unlimited dimension of three days."""
    target = tmp_path / "winds.nc"
    with hyperslab.create(target) as root:
        root.create_array("time", shape=(0,), dtype="i4", dims=["time"], fill_value=-1).append([0, 1, 2])
        root.create_array("x", data=np.arange(2), dims=["x"])
        root.create_array("wind", shape=(0, 2), dtype="f4", dims=["time", "x"], fill_value=-9)
        root["wind"].append(np.ones((3, 2)), dim="time")
    return target


def test_variables_of_one_dimension_are_appended_to_in_turn(winds: Path) -> None:
    with hyperslab.open(winds, "r+") as root:
        assert root["wind"].shape == (3, 2)
        for day in (3, 5):
            root["time"].append([day, day + 1])
            root["wind"].append(np.full((2, 2), day), dim="time")
    with hyperslab.open(winds) as root:
        assert root["time"][:].tolist() == [0, 1, 2, 3, 4, 5, 6]
        assert root["wind"][:, 0].tolist() == [1, 1, 1, 3, 3, 5, 5]


def test_an_append_may_reach_less_or_further_than_the_dimension(winds: Path) -> None:
    with hyperslab.open(winds, "r+") as root:
        root["time"].append([3, 4, 5])
        root["wind"].append(np.full((1, 2), 3), dim="time")
        assert root["wind"][:, 0].tolist() == [1, 1, 1, 3, -9, -9]
        root["wind"].append(np.full((3, 2), 4), dim="time")
        root["time"].append([6])
    with hyperslab.open(winds) as root:
        assert root["wind"][:, 0].tolist() == [1, 1, 1, 3, 4, 4, 4]
        assert root["time"][:].tolist() == list(range(7))


def test_an_append_never_covers_what_was_written_by_keys(winds: Path) -> None:
    with hyperslab.open(winds, "r+") as root:
        root["time"].append([3, 4])
        root["wind"][3:5] = 7
        root["time"].resize((6,))
        root["time"].append([6])
        root["wind"].append(np.full((1, 2), 8), dim="time")
        assert root["time"][:].tolist() == [0, 1, 2, 3, 4, -1, 6]
        assert root["wind"][:, 0].tolist() == [1, 1, 1, 7, 7, 8, -9]


def test_what_was_given_is_known_after_a_node_was_removed(winds: Path) -> None:
    with hyperslab.open(winds, "r+") as root:
        root["time"].append([3])
        del root["x"]
        root.create_array("late", shape=(0,), dtype="i4", dims=["time"]).append(np.arange(4))
        root["wind"].append(np.full((1, 2), 3), dim="time")
        assert root["wind"].shape == (4, 2) and root["wind"][3, 0] == 3
        assert root["late"][:].tolist() == [0, 1, 2, 3]


def test_a_dimension_whose_name_netcdf_does_not_take_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with (
        hs.create(tmp_path / "a.nc", "netcdf") as root,
        pytest.raises(Invalid, match=r"a/b.*name the dimension") as raised,
    ):
        root.create_array("g/x", shape=(2,), dims=("a/b",))
    assert raised.value.node == "g/x" and str(tmp_path) in str(raised.value.url)
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("g/x", shape=(2,), dims=("a/b",))
    with pytest.raises(Invalid, match="a/b"):
        hs.convert(tmp_path / "a.zarr", tmp_path / "b.nc")
    assert not (tmp_path / "b.nc").exists()


def test_a_type_that_is_refused_is_refused_of_its_array(tmp_path: Path) -> None:
    with hs.create(tmp_path / "b.nc") as root, pytest.raises(Unsupported, match="complex128") as refused:
        root.create_group("g").create_array("c", data=np.array([1j]), dims=["x"])
    assert refused.value.node == "g/c"
