"""The rules of what netCDF holds, without a file."""

from __future__ import annotations

from math import prod
from typing import Any

import netCDF4
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.formats.netcdf import data_model
from hyperslab.formats.netcdf.data_model import plan_storage
from hyperslab.formats.netcdf.working_copy import Dimensions, Types
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Char, Enum, Opaque
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec


def test_default_fill_values_are_the_librarys() -> None:
    for code, value in netCDF4.default_fillvals.items():
        if code != "S1" and np.dtype(code).kind in "iuf":
            assert data_model.default_fill(np.dtype(code)) == np.array(value).astype(code), code
    assert data_model.default_fill(Char()) is None
    assert data_model.default_fill(Enum(np.dtype("u1"), ())) == 255


@given(st.lists(st.integers(0, 10**7), max_size=5), st.sampled_from([1, 4, 8, 100]))
def test_the_virtual_grid_is_rows_of_at_most_8_mebibytes(shape: list[int], itemsize: int) -> None:
    chunks = data_model.virtual_chunks(tuple(shape), itemsize)
    assert all(1 <= cut <= max(length, 1) for cut, length in zip(chunks, shape, strict=True))
    whole = prod(max(length, 1) for length in shape) * itemsize
    assert prod(chunks) * itemsize <= 8 << 20
    if whole > 8 << 20:
        assert prod(chunks) * itemsize > 1 << 20
    cut = [axis for axis, (size, length) in enumerate(zip(chunks, shape, strict=True)) if size < length]
    if cut:
        assert all(size == 1 for size in chunks[: cut[-1]])


def test_every_problem_is_listed() -> None:
    spec = ArraySpec(
        shape=(3,),
        dtype=np.dtype("c16"),
        chunks=((1, 2),),
        sparse="coo",
        attrs={"a": None, "fine": 1, "b": {"c": 1}, "d": b"bytes"},
    )
    problems = data_model.find_problems(spec, "g/v")
    assert {problem.node for problem in problems} == {"g/v"}
    assert [problem.kind for problem in problems] == ["dtype", "chunks", "sparse", *["attribute"] * 3]
    assert data_model.find_problems(GroupSpec(attrs={"a": 1})) == []


@pytest.mark.parametrize("model", data_model.MODELS)
def test_numbers_of_each_model(model: str) -> None:
    held = {code for code in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8") if holds(code, model)}
    classic = {"i1", "i2", "i4", "f4", "f8"}
    rich = classic | {"u1", "u2", "u4", "i8", "u8"}
    assert held == (rich if model in ("NETCDF4", "HDF5", "NETCDF3_64BIT_DATA") else classic)


def holds(code: str, model: str) -> bool:
    by_cells = data_model.type_problem(np.dtype(code), model) is None
    by_attribute = data_model.attribute_problem(np.dtype(code).type(1), model) is None
    assert by_cells == by_attribute
    return by_cells


def test_anonymous_dimensions_are_named_by_their_length() -> None:
    spec = ArraySpec(shape=(2, 2, 3, 2), dtype=np.dtype("i1"), chunks=(1, 1, 1, 1), dims=(None, None, "x", None))
    assert data_model.to_netcdf_dims(spec) == ("dim_2", "dim_2_2", "x", "dim_2_3")


@pytest.mark.parametrize(
    ("size", "known", "place", "new"),
    [
        (4, Dimension("x", 4), ("", "x"), None),
        (4, Dimension("x", 2, unlimited=True), ("", "x"), None),
        (0, Dimension("x", 2, unlimited=True), ("", "x"), None),
        (4, Dimension("x", 5), ("g", "x"), Dimension("x", 4)),
        (4, Dimension("y", 4), ("g", "x"), Dimension("x", 4)),
    ],
)
def test_where_an_array_finds_its_dimension(size: int, known: Dimension, place: Any, new: Any) -> None:
    dims = Dimensions({("", known.name): known})
    assert dims.place_of("g", "x", size) == (place, new)


def test_where_an_array_finds_its_type() -> None:
    types = Types({("", "t"): Opaque(3, "t")})
    assert types.place_of("a/b", "t", Opaque(3, "t")) == (("", "t"), False)
    assert types.place_of("a/b", "t", Opaque(4, "t")) == (("a/b", "t"), True)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 80), st.booleans()), max_size=4),
    st.lists(st.sampled_from(["zlib", "shuffle", "fletcher32", "zstd", "bz2", "gzip", "blosc", "crc32c"]), max_size=3),
)
def test_storage_is_something_netcdf_takes(axes: list[tuple[int, int, bool]], names: list[str]) -> None:
    shape = tuple(length for length, _, _ in axes)
    unlimited = tuple(free or not length for length, _, free in axes)
    chunks = tuple(cut for _, cut, _ in axes)
    spec = ArraySpec(shape=shape, dtype=np.dtype("f4"), chunks=chunks, codecs=tuple(Codec(name) for name in names))
    storage = plan_storage(spec, unlimited)
    if storage.chunks is None:
        assert not shape
        return
    for cut, length, free in zip(storage.chunks, shape, unlimited, strict=True):
        assert cut >= 1
        assert free or cut <= length
    plain = storage.only_with(lambda codec: codec == "zlib")  # a library without the other filters
    assert plain.arguments().get("compression", "zlib") == "zlib" and 1 <= plain.arguments().get("complevel", 1) <= 9
    order = [codec.name for codec in storage.codecs(4)]
    assert order == sorted(order, key=["fletcher32", "shuffle", "zlib", "zstd", "bz2"].index)
