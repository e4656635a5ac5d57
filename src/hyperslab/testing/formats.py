"""What every writable format promises, as tests: subclass :class:`FormatTests`.

::

    class TestMyFormat(FormatTests):
        format = FORMAT

        @pytest.fixture
        def place(self, tmp_path):
            return Location.of(tmp_path / "new.mine")

Tests of what the format does not list in its ``features`` are skipped. A format without ``Feature.GROUPS``
and ``Feature.ARRAYS`` holds one array: it stands at ``v``, and a new dataset without it need not be there once it is
closed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from hyperslab.errors import Conflict, HyperslabError, Invalid, NodeNotFound, Unsupported
from hyperslab.formats.base import Feature, Format, Writer
from hyperslab.model.attrs import equal, equal_attrs
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import DataType, Enum, Extension, Opaque, VlenString, describe
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec
from hyperslab.stores.location import Location, Probe
from hyperslab.testing.samples import PLAIN, TYPED, TYPES, cells, same_cells

# -- a format under test -----------------------------------------------------------------------------------------------
# Its datasets opened for the time of a block, and wishes in its own spelling.


_F4 = np.dtype("f4")


class OpenedTests:
    """What the tests of one format share."""

    format: ClassVar[Format]

    def need(self, feature: Feature | None) -> None:
        """Skip the test unless the format has the feature."""
        if feature is not None and feature not in self.format.features:
            pytest.skip(f"{self.format.name} has no {feature.value}")

    @property
    def holds_one(self) -> bool:
        """Return True if a dataset of the format is one array with its coordinates."""
        return not self.format.features & {Feature.GROUPS, Feature.ARRAYS}

    def opened(self, place: Location, mode: Any) -> Writer:
        """Return the dataset, to be closed by the test."""
        return cast(Writer, self.format.open(place, mode))

    @contextmanager
    def writing(self, place: Location, mode: object = "x") -> Iterator[Writer]:
        """Open the dataset for writing for the time of a block."""
        writer = self.opened(place, mode)
        try:
            yield writer
        finally:
            writer.close()

    @contextmanager
    def reading(self, place: Location) -> Iterator[Writer]:
        """Open the dataset anew."""
        with self.writing(place, "r") as reader:
            yield reader

    def wish(self, writer: Writer, dtype: DataType = _F4, **more: Any) -> ArraySpec:
        """Return a new array's spec in the format's own spelling."""
        options: dict[str, Any] = {"shape": (7, 4), "chunks": (3, 4), "dims": ("y", "x")} | more
        spec = ArraySpec(dtype=dtype, **options)
        return writer.new_array(spec)


# -- one array with its coordinates ------------------------------------------------------------------------------------
# What a format promises of it, and one that holds a single array besides.


class OneArrayTests(OpenedTests):
    """Part of :class:`~hyperslab.testing.formats.FormatTests`."""

    def test_the_one_array_keeps_its_name(self, place: Location) -> None:
        with self.writing(place) as writer:
            writer.put("v", self.wish(writer))
        assert self.format.sniff(Probe(place))
        with self.reading(place) as reader:
            assert (list(reader.children("")), list(reader.children("v"))) == (["v"], [])
            with pytest.raises(NodeNotFound):
                list(reader.children("nothing"))
            assert reader.is_single_array is self.holds_one
            assert not self.holds_one or reader.main == "v"

    def test_no_other_array_and_no_group_beside_the_one(self, place: Location) -> None:
        if not self.holds_one:
            pytest.skip(f"{self.format.name} has groups")
        with self.writing(place) as writer, pytest.raises(Unsupported, match=self.format.name):
            writer.put("g", GroupSpec())
        with pytest.raises(Invalid, match="v, w"), self.writing(place, "w" if place.exists() else "x") as writer:
            writer.put("v", self.wish(writer))
            writer.put("w", self.wish(writer))

    @pytest.mark.parametrize(
        ("dtype", "feature"),
        [(np.dtype("f8"), None), (np.dtype("M8[ns]"), Feature.DATETIME), (VlenString(), Feature.STRINGS)],
    )
    def test_coordinates_stand_beside_their_array(
        self, place: Location, dtype: DataType, feature: Feature | None
    ) -> None:
        self.need(feature)
        self.need(Feature.DIMENSIONS)
        with self.writing(place) as writer:
            writer.put("v", self.wish(writer))
            writer.put("y", self.wish(writer, dtype, shape=(7,), chunks=(7,), dims=("y",), attrs={"axis": "Y"}))
            writer.chunks("y").write((0,), cells(dtype, 7))
        with self.reading(place) as reader:
            assert sorted(reader.children("")) == ["v", "y"]
            assert not self.holds_one or reader.main == "v"
            found, block = cast(ArraySpec, reader.node("y")), reader.chunks("y").read((0,))
            assert (found.shape, found.dims, dict(found.attrs)) == ((7,), ("y",), {"axis": "Y"})
            assert block is not None
            assert same_cells(block, cells(dtype, 7))


class FormatTests(OneArrayTests):
    """Give the attribute ``format`` and a fixture ``place``: a free place, new for each test."""

    # -- the dataset ------------------------------------------------------------------------------------------------

    def test_a_new_dataset_is_an_empty_group(self, place: Location) -> None:
        with self.writing(place) as writer:
            assert writer.node("").is_group
            assert list(writer.children("")) == []
        if self.holds_one and not place.exists():
            return
        assert self.format.sniff(Probe(place))
        with self.reading(place) as reader:
            assert reader.node("").is_group
            assert list(reader.children("")) == []

    def test_what_is_no_dataset_is_not_taken_for_one(self, place: Location, tmp_path: Path) -> None:
        if place.scheme != "file":
            pytest.skip("only files and folders may hold anything else")
        (tmp_path / "folder" / "notes").mkdir(parents=True)
        (tmp_path / "folder" / "notes" / "read.me").write_text("{}")
        (tmp_path / "file").write_text("neither")
        assert [self.format.sniff(Probe(Location.of(tmp_path / name))) for name in ("folder", "file")] == [False, False]

    def test_what_is_not_there(self, place: Location) -> None:
        with self.writing(place) as writer:
            for path in ("a", "a/b"):
                with pytest.raises(NodeNotFound):
                    writer.node(path)
                with pytest.raises(NodeNotFound):
                    writer.chunks(path)

    def test_closing_twice_is_fine(self, place: Location) -> None:
        writer = self.opened(place, "x")
        writer.close()
        writer.close()

    # -- groups -----------------------------------------------------------------------------------------------------

    def test_missing_parents_are_made(self, place: Location) -> None:
        self.need(Feature.GROUPS)
        with self.writing(place) as writer:
            writer.put("a/b/c", GroupSpec(attrs={"deep": "yes"}))
        with self.reading(place) as reader:
            assert [list(reader.children(path)) for path in ("", "a", "a/b", "a/b/c")] == [["a"], ["b"], ["c"], []]
            spec = reader.node("a/b/c")
            assert spec.is_group
            assert spec.attrs["deep"] == "yes"

    def test_drop_takes_all_below(self, place: Location) -> None:
        self.need(Feature.GROUPS)
        with self.writing(place) as writer:
            writer.put("a/b", GroupSpec())
            writer.put("ab", GroupSpec())
            writer.drop("a")
            with pytest.raises(NodeNotFound):
                writer.node("a/b")
        with self.reading(place) as reader:
            assert list(reader.children("")) == ["ab"]

    def test_move_takes_all_below(self, place: Location) -> None:
        self.need(Feature.GROUPS)
        with self.writing(place) as writer:
            writer.put("a/b", GroupSpec(attrs={"who": "b"}))
            if not writer.move("a", "c/d"):
                pytest.skip(f"{self.format.name} moves nothing")
            assert list(writer.children("")) == ["c"]
        with self.reading(place) as reader:
            spec = reader.node("c/d/b")
            assert spec.is_group
            assert spec.attrs["who"] == "b"
            with pytest.raises(NodeNotFound):
                reader.node("a")

    def test_unlimited_dimensions(self, place: Location) -> None:
        self.need(Feature.UNLIMITED)
        dims = (Dimension("t", 3, unlimited=True), Dimension("y", 7), Dimension("x", 4))
        with self.writing(place) as writer:
            writer.put("", GroupSpec(dims=dims))
            writer.put("v", self.wish(writer, shape=(3, 7, 4), chunks=(1, 7, 4), dims=("t", "y", "x")))
        with self.reading(place) as reader:
            spec = reader.node("")
            assert spec.is_group
            assert {dim.name: dim for dim in spec.dims}["t"] == dims[0]

    def test_named_types(self, place: Location) -> None:
        self.need(Feature.USER_TYPES)
        types: dict[str, Extension] = {
            "letters": Enum(np.dtype("u1"), (("A", 0), ("B", 7)), "letters"),
            "blob": Opaque(4, "blob"),
        }
        with self.writing(place) as writer:
            writer.put("", GroupSpec(types=types))
        with self.reading(place) as reader:
            spec = reader.node("")
            assert spec.is_group
            assert dict(spec.types) == types

    # -- attributes -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("kind", ["group", "array"])
    def test_plain_attributes(self, place: Location, kind: str) -> None:
        self.need(Feature.ATTRIBUTES)
        self.round_trip_attrs(place, kind, PLAIN)

    @pytest.mark.parametrize("kind", ["group", "array"])
    def test_typed_attributes(self, place: Location, kind: str) -> None:
        self.need(Feature.TYPED_ATTRIBUTES)
        self.round_trip_attrs(place, kind, TYPED)

    def round_trip_attrs(self, place: Location, kind: str, attrs: dict[str, Any]) -> None:
        """Write, open anew, compare values, types and order."""
        with self.writing(place) as writer:
            path = "n" if kind == "array" or Feature.GROUPS in self.format.features else ""
            writer.put(path, GroupSpec(attrs=attrs) if kind == "group" else self.wish(writer, attrs=attrs))
            if path == "":
                writer.put("v", self.wish(writer))
        with self.reading(place) as reader:
            found = reader.node(path)
            assert isinstance(found, GroupSpec | ArraySpec)
            assert list(found.attrs) == list(attrs)
            wrong = {
                name: (value, found.attrs[name]) for name, value in attrs.items() if not equal(value, found.attrs[name])
            }
            assert not wrong

    def test_attributes_change_and_go(self, place: Location) -> None:
        self.need(Feature.ATTRIBUTES)
        with self.writing(place) as writer:
            writer.put("v", self.wish(writer, attrs={"a": 1, "b": "old"}))
            spec = cast(ArraySpec, writer.node("v"))
            writer.put("v", spec.evolve(attrs={"b": "new", "c": 2.5}))
            assert equal_attrs(cast(ArraySpec, writer.node("v")).attrs, {"b": "new", "c": 2.5})
        with self.reading(place) as reader:
            assert equal_attrs(cast(ArraySpec, reader.node("v")).attrs, {"b": "new", "c": 2.5})

    # -- arrays -----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("dtype", "feature"), TYPES, ids=lambda value: describe(value) if value in dict(TYPES) else ""
    )
    def test_cells(self, place: Location, dtype: DataType, feature: Feature | None) -> None:
        self.need(feature)
        if self.holds_one and isinstance(dtype, VlenString):
            pytest.skip(f"{self.format.name} holds text as a coordinate")
        values = cells(dtype, 28).reshape(7, 4)
        with self.writing(place) as writer:
            spec = self.wish(writer, dtype)
            writer.put("v", spec)
            source = writer.chunks("v")
            for coords in source.grid:
                block = np.zeros(source.grid.chunk_shape(coords), spec.numpy_dtype)
                if block.dtype == object:
                    block[...] = spec.fill_cell()
                extent = source.grid.extent(coords)
                block[tuple(slice(0, cut.stop - cut.start) for cut in extent)] = values[extent]
                source.write(coords, block)
        with self.reading(place) as reader:
            found = cast(ArraySpec, reader.node("v"))
            assert (found.shape, found.chunks, found.dims, found.problem) == (spec.shape, spec.chunks, spec.dims, None)
            assert describe(found.dtype) == describe(spec.dtype)
            source = reader.chunks("v")
            for coords in source.grid:
                extent = source.grid.extent(coords)
                got = source.read(coords)
                assert got is not None
                assert same_cells(values[extent], got[tuple(slice(0, cut.stop - cut.start) for cut in extent)])

    def test_types_that_it_lacks_are_named(self, place: Location) -> None:
        lacking = [dtype for dtype, feature in TYPES if feature is not None and feature not in self.format.features]
        if not lacking:
            pytest.skip(f"{self.format.name} lacks no type")
        with self.writing(place) as writer:
            if type(writer).new_array is Writer.new_array:
                pytest.skip(f"{self.format.name} adapts no wishes")
            for dtype in lacking:
                with pytest.raises(Unsupported, match=self.format.name):
                    self.wish(writer, dtype)

    @pytest.mark.parametrize("fill", [-2.5, float("nan"), None])
    def test_unwritten_cells(self, place: Location, fill: float | None) -> None:
        with self.writing(place) as writer:
            writer.put("v", self.wish(writer) if fill is None else self.wish(writer, fill_value=fill))
        with self.reading(place) as reader:
            expected = cast(ArraySpec, reader.node("v")).fill_cell()
            assert fill is None or np.array_equal(expected, np.float32(fill), equal_nan=True)
            block = reader.chunks("v").read((0, 0))
            assert block is None or np.array_equal(block, np.full_like(block, expected), True)

    @pytest.mark.parametrize(("shape", "chunks"), [((0, 4), (2, 2)), ((5,), (8,)), ((2, 3, 4, 5), (1, 2, 3, 4))])
    def test_shapes(self, place: Location, shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
        dims = tuple("abcd"[: len(shape)])
        with self.writing(place) as writer:
            writer.put("v", self.wish(writer, shape=shape, chunks=chunks, dims=dims))
        with self.reading(place) as reader:
            found = cast(ArraySpec, reader.node("v"))
            assert (found.shape, found.dims) == (shape, dims)

    def test_scalar(self, place: Location) -> None:
        self.need(Feature.SCALARS)
        with self.writing(place) as writer:
            writer.put("v", self.wish(writer, np.dtype("f8"), shape=(), chunks=(), dims=()))
            writer.chunks("v").write((), np.array(2.5))
        with self.reading(place) as reader:
            block = reader.chunks("v").read(())
            assert block is not None
            assert block.shape == ()
            assert block[()] == 2.5

    def test_varying_chunks(self, place: Location) -> None:
        self.need(Feature.VARYING_CHUNKS)
        with self.writing(place) as writer:
            writer.put("v", self.wish(writer, chunks=((1, 4, 2), 4)))
            block = np.arange(16, dtype="f4").reshape(4, 4)
            writer.chunks("v").write((1, 0), block)
        with self.reading(place) as reader:
            assert cast(ArraySpec, reader.node("v")).chunks == ((1, 4, 2), 4)
            assert np.array_equal(cast(Any, reader.chunks("v").read((1, 0))), block)

    def test_shards(self, place: Location) -> None:
        self.need(Feature.SHARDS)
        whole = (2, 8) if self.holds_one else (2, 4)
        with self.writing(place) as writer:
            codec = Codec("blosc" if self.holds_one else "zstd")
            spec = self.wish(writer, shape=(8, 8), chunks=whole, layout={"shards": (4, 8)}, codecs=(codec,))
            writer.put("v", spec)
            last = max(writer.chunks("v").grid)
            writer.chunks("v").write(last, np.full(whole, 5, "f4"))
        with self.reading(place) as reader:
            found = cast(ArraySpec, reader.node("v"))
            assert (found.chunks, found.inner_chunks) == ((4, 8), whole)
            source = reader.chunks("v")
            unwritten = source.read((0, 0))
            assert unwritten is None or (self.holds_one and not unwritten.any())
            assert np.array_equal(cast(Any, source.read(last)), np.full(whole, 5, "f4"))

    # -- together ---------------------------------------------------------------------------------------------------

    def test_a_batch_makes_an_array(self, place: Location) -> None:
        with self.writing(place) as writer, writer.batch():
            writer.put("v", self.wish(writer, attrs={"n": 1}))
            spec = cast(ArraySpec, writer.node("v"))
            writer.put("v", spec.evolve(attrs={"n": 2}))
            source = writer.chunks("v")
            source.write((0, 0), np.ones(source.grid.chunk_shape((0, 0)), "f4"))
            assert cast(ArraySpec, writer.node("v")).attrs["n"] == 2
        with self.reading(place) as reader:
            assert cast(ArraySpec, reader.node("v")).attrs["n"] == 2
            block = reader.chunks("v").read((0, 0))
            assert block is not None
            assert (block == 1).all()

    def test_a_batch_reads_what_it_wrote(self, place: Location) -> None:
        self.need(Feature.GROUPS)
        with self.writing(place) as writer, writer.batch():
            writer.put("g", GroupSpec(attrs={"n": 1}))
            writer.put("g/v", self.wish(writer))
            writer.put("g", GroupSpec(attrs={"n": 2}))
            writer.chunks("g/v").write((0, 0), np.ones((3, 4), "f4"))
            writer.put("gone", GroupSpec())
            writer.drop("gone")
            assert list(writer.children("g")) == ["v"]
            assert cast(GroupSpec, writer.node("g")).attrs["n"] == 2
        with self.reading(place) as reader:
            assert list(reader.children("")) == ["g"]
            assert cast(GroupSpec, reader.node("g")).attrs["n"] == 2
            assert reader.chunks("g/v").read((0, 0)) is not None

    def test_a_batch_that_fails_keeps_what_was_put(self, place: Location) -> None:
        self.need(Feature.GROUPS)
        with self.writing(place) as writer:
            with pytest.raises(ZeroDivisionError), writer.batch():
                writer.put("g", GroupSpec())
                raise ZeroDivisionError
            assert list(writer.children("")) == ["g"]

    def test_locked_changes_are_not_lost(self, place: Location) -> None:
        self.need(Feature.ATTRIBUTES)
        with self.writing(place) as maker:
            if type(maker).lock_node is Writer.lock_node:
                pytest.skip(f"{self.format.name} locks no nodes")
            maker.put("v", self.wish(maker))
        with self.writing(place, "r+") as first:
            failed: list[HyperslabError] = []

            def add(writer: Any, name: str) -> None:
                try:
                    for step in range(10):
                        with writer.lock_node("v"):
                            spec = writer.node("v")
                            writer.put("v", spec.evolve(attrs={**spec.attrs, f"{name}{step}": step}))
                except Conflict as error:
                    failed.append(error)

            with self.writing(place, "r+") as second:
                threads = [
                    threading.Thread(target=add, args=pair) for pair in ((first, "a"), (second, "b"), (first, "c"))
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        assert not failed
        with self.reading(place) as reader:
            assert len(cast(ArraySpec, reader.node("v")).attrs) == 30
