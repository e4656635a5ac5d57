"""Every kind of cell and attribute: written by netCDF4 (or h5py) and read by us, written by us and read by netCDF4."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
from netcdf_files import SCRATCH, assert_same_files, attribute_kinds, copy, raw, read_all, write_all

from hyperslab.formats.netcdf.reader import NetcdfReader
from hyperslab.formats.netcdf.writer import NetcdfWriter
from hyperslab.model.attrs import equal, untagged
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Char, Compound, DataType, Enum, Opaque, VlenArray, VlenBytes, VlenString
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec
from old_peers import needs_filters

NUMBERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
CLASSIC = ["i1", "i2", "i4", "f4", "f8"]
POINT = np.dtype([("x", "i4"), ("y", "f8"), ("name", "S1", (3,)), ("v", "f4", (2, 2))])


def array(dtype: DataType, shape: tuple[int, ...] = (2, 3), **more: Any) -> ArraySpec:
    return ArraySpec(shape=shape, dtype=dtype, chunks=shape, **more)


def objects(*cells: Any) -> np.ndarray[Any, Any]:
    out = np.empty(len(cells), object)
    out[:] = [np.array(cell, "i4") for cell in cells]
    return out


def write_one(path: Path, spec: ArraySpec, cells: Any, model: str = "NETCDF4") -> None:
    writer = NetcdfWriter(str(path), str(path), "w", model, SCRATCH)
    writer.put("v", spec)
    write_all(writer, "v", np.asarray(cells))
    writer.close()


def read_one(path: Path) -> tuple[ArraySpec, np.ndarray[Any, Any]]:
    reader = NetcdfReader(str(path), str(path))
    spec = reader.node("v")
    assert isinstance(spec, ArraySpec)
    cells = read_all(reader, "v")
    reader.close()
    return spec, cells


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("code", NUMBERS)
def test_numbers(tmp_path: Path, code: str, order: str) -> None:
    dtype = np.dtype(order + code)
    cells = np.arange(6).reshape(2, 3).astype(dtype)
    write_one(tmp_path / "a.nc", array(dtype), cells)
    spec, back = read_one(tmp_path / "a.nc")
    assert spec.dtype == dtype
    np.testing.assert_array_equal(back, cells)
    with raw(tmp_path / "a.nc") as dataset:
        np.testing.assert_array_equal(dataset["v"][...], cells)
        assert dataset["v"].endian() == ("big" if order == ">" and dtype.itemsize > 1 else dataset["v"].endian())


@pytest.mark.parametrize("model", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4_CLASSIC"])
@pytest.mark.parametrize("code", CLASSIC)
def test_numbers_of_the_classic_models(tmp_path: Path, code: str, model: str) -> None:
    cells = np.arange(6).reshape(2, 3).astype(code)
    write_one(tmp_path / "a.nc", array(np.dtype(code), attrs={"units": "m", "n": np.int32(3)}), cells, model)
    spec, back = read_one(tmp_path / "a.nc")
    assert spec.dtype == cells.dtype
    assert dict(spec.attrs) == {"units": "m", "n": np.int32(3)}
    np.testing.assert_array_equal(back, cells)
    with raw(tmp_path / "a.nc") as dataset:
        assert dataset.data_model == model
        np.testing.assert_array_equal(dataset["v"][...], cells)


KINDS: list[tuple[DataType, Any]] = [
    (Char(), np.array([b"a", b"", b"\xff"], "S1")),
    (VlenString(), np.array(["é☃", "", "x" * 300], np.dtypes.StringDType())),
    (Enum(np.dtype("u1"), (("clear", 0), ("cloud", 7)), "cover_t"), np.array([0, 7, 3], "u1")),
    (Enum(np.dtype("i2"), (("below", -1), ("above", 1)), "side_t"), np.array([-1, 1, -1], "i2")),
    (Opaque(5, "raw_t"), np.array([b"abcde", b"\0\0\0\0\0", b"\xff\0\xff\0\xff"], "V5")),
    (VlenArray(np.dtype("i4"), "ragged_t"), objects([1, 2], [], [5])),
    (VlenBytes(), np.array([b"", b"ab\0", b"\xff"], object)),
    (Compound(POINT, "point_t"), np.array([(1, 2.5, [b"a", b"b", b"c"], [[1, 2], [3, 4]])] * 3, POINT)),
]


@pytest.mark.parametrize(("dtype", "cells"), KINDS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("unlimited", [False, True])
def test_other_kinds(tmp_path: Path, dtype: DataType, cells: Any, unlimited: bool) -> None:
    path = tmp_path / "a.nc"
    writer = NetcdfWriter(str(path), str(path), "x", "NETCDF4")
    writer.put("", GroupSpec(dims=(Dimension("n", 3, unlimited),)))
    writer.put("v", array(dtype, (3,), dims=("n",), attrs={"units": "1"}))
    write_all(writer, "v", cells)
    writer.close()
    spec, back = read_one(path)
    assert spec.dtype == dtype
    assert spec.dims == ("n",)
    assert dict(spec.attrs) == {"units": "1"}
    assert all(np.array_equal(a, b) for a, b in zip(back, cells, strict=True))
    if not isinstance(dtype, Opaque | VlenBytes):
        with raw(path) as dataset:
            found = np.asarray(dataset["v"][...])
            assert all(np.array_equal(a, b) for a, b in zip(found.astype(cells.dtype), cells, strict=True))


@pytest.mark.parametrize(("dtype", "cells"), KINDS, ids=lambda value: type(value).__name__)
def test_scalars_of_other_kinds(tmp_path: Path, dtype: DataType, cells: Any) -> None:
    one = np.empty((), cells.dtype)
    one[()] = cells[0]
    write_one(tmp_path / "a.nc", array(dtype, ()), one)
    spec, back = read_one(tmp_path / "a.nc")
    assert spec.dtype == dtype
    assert np.array_equal(back[()], cells[0])


def test_opaque_variables_keep_their_place_and_their_dimensions(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    writer = NetcdfWriter(str(path), str(path), "x", "NETCDF4")
    for name, dtype in (("a", np.dtype("i4")), ("o", Opaque(3, "o_t")), ("b", np.dtype("i4"))):
        writer.put(name, array(dtype, (2,), dims=("x",), attrs={"long_name": "é", "n": np.float32(2)}))
    writer.close()
    reader = NetcdfReader(str(path), str(path))
    assert reader.children("") == ["a", "o", "b"]
    spec = reader.node("o")
    assert isinstance(spec, ArraySpec)
    assert (spec.dims, spec.dtype) == (("x",), Opaque(3, "o_t"))
    assert dict(spec.attrs) == {"long_name": "é", "n": np.float32(2)}
    root = reader.node("")
    assert isinstance(root, GroupSpec)
    assert root.types == {"o_t": Opaque(3, "o_t")}
    reader.close()
    with raw(path) as dataset:
        assert list(dataset.variables) == ["a", "b"]


ATTRIBUTES: dict[str, Any] = {
    "char": "kelvin",
    "char_utf8": "°C ☃",
    "char_empty": "",
    "string": np.str_("kelvin"),
    "string_empty": np.str_(""),
    "strings": np.array(["a", "é", ""], np.dtypes.StringDType()),
    "opaque": np.void(b"abc"),
    "structured": np.array([(1, 2.5)], np.dtype([("a", "i4"), ("b", "f8")]))[0],
    **{code: np.dtype(code).type(7) for code in NUMBERS},
    **{f"{code}s": np.arange(3).astype(code) for code in NUMBERS},
    "empty": np.array([], "i2"),
    "nan": np.float32("nan"),
    "big": np.uint64(2**64 - 1),
}


@pytest.mark.parametrize("where", ["", "v", "g"])
def test_attributes_keep_type_value_and_order(tmp_path: Path, where: str) -> None:
    path = tmp_path / "a.nc"
    writer = NetcdfWriter(str(path), str(path), "w", "NETCDF4")
    spec: Any = array(np.dtype("f4"), attrs=ATTRIBUTES) if where == "v" else GroupSpec(attrs=ATTRIBUTES)
    writer.put(where, spec)
    assert list(writer.node(where).attrs) == list(ATTRIBUTES)
    writer.close()
    reader = NetcdfReader(str(path), str(path))
    back = reader.node(where).attrs
    reader.close()
    assert list(back) == list(ATTRIBUTES)
    for name, value in ATTRIBUTES.items():
        assert equal(untagged(back[name]), value), name
    kinds = {name: (kind, vlen) for node, name, kind, vlen in attribute_kinds(path) if node == where}
    assert kinds["char_utf8"] == ("TypeStringID", False)
    assert kinds["string"] == ("TypeStringID", True)


def test_python_values_become_netcdf_types(tmp_path: Path) -> None:
    given = {"i": 3, "wide": 2**40, "u8": 2**63, "f": 1.5, "l": [1, 2], "m": [1, 2.5], "s": ["a", "b"], "one": [4]}
    path = tmp_path / "a.nc"
    writer = NetcdfWriter(str(path), str(path), "w", "NETCDF4")
    writer.put("", GroupSpec(attrs=given))
    writer.close()
    reader = NetcdfReader(str(path), str(path))
    back = reader.node("").attrs
    reader.close()
    types = {"i": "i4", "wide": "i8", "u8": "u8", "f": "f8", "l": "i4", "m": "f8", "one": "i4"}
    assert {name: np.asarray(back[name]).dtype.str[1:] for name in types} == types
    assert list(back["s"]) == ["a", "b"]
    assert back["one"] == np.int32(4)


def make_by_netcdf4(path: Path) -> None:
    """A file with groups, shared dimensions, every user type, filters and attributes, made by netCDF4 alone."""
    with netCDF4.Dataset(path, "w") as root:
        root.set_auto_maskandscale(False)
        root.setncattr("title", "é".encode())
        root.setncattr_string("words", ["a", "b"])
        root.createDimension("t", None)
        root.createDimension("x", 4)
        root.createDimension("unused", 9)
        cover = root.createEnumType("u1", "cover_t", {"clear": 0, "cloud": 7})
        inner = root.createCompoundType(np.dtype([("a", "i4"), ("b", "f8")]), "inner_t")
        outer = root.createCompoundType(np.dtype([("in", [("a", "i4"), ("b", "f8")]), ("z", "i1")]), "outer_t")
        ragged = root.createVLType("i2", "ragged_t")
        root.createVariable("x", "f8", ("x",))[:] = np.arange(4)
        group = root.createGroup("g")
        group.createDimension("y", 3)
        deep = group.createGroup("h")
        deep.setncattr("n", np.int16(4))
        root.createVariable("cover", cover, ("t", "x"), fill_value=7)[0:2] = np.zeros((2, 4), "u1")
        root.createVariable("points", inner, ("x",))[:] = np.ones(4, inner.dtype)
        root.createVariable("outer", outer, ("x",))[:] = np.zeros(4, outer.dtype)
        lines = root.createVariable("lines", ragged, ("x",))
        for place in range(4):
            lines[place] = np.arange(place, dtype="i2")
        group.createVariable("text", str, ("y",))[:] = np.array(["é", "", "z"], object)
        group.createVariable("chars", "S1", ("x", "y"), fill_value=b"-")[1:3] = b"q"
        big = deep.createVariable("big", ">f4", ("t", "y"), endian="big", fill_value=np.float32(-1))
        big.units, big.offset = "m", np.array([1, 2], "i8")
        big[0:3] = np.arange(9).reshape(3, 3)
        for name, level in (("zlib", 6), ("zstd", 3), ("bzip2", 9)):
            packed = deep.createVariable(
                name, "i4", ("t", "x"), compression=name, complevel=level, fletcher32=True, chunksizes=(2, 3)
            )
            packed[1:4] = np.arange(12).reshape(3, 4)
        deep.createVariable("x", "i4", ("y", "t"))[...] = np.zeros((3, 4))
        deep.createVariable("nothing_written", "f4", ("x",), zlib=True)
        deep.createVariable("scalar", "f8", ())[...] = 2.5


@needs_filters
def test_a_copy_of_everything_is_the_same_to_netcdf4(tmp_path: Path) -> None:
    make_by_netcdf4(tmp_path / "a.nc")
    copy(tmp_path / "a.nc", tmp_path / "b.nc")
    assert_same_files(tmp_path / "a.nc", tmp_path / "b.nc")


@needs_filters
def test_opaque_types_survive_a_copy(tmp_path: Path) -> None:
    make_by_netcdf4(tmp_path / "a.nc")
    with h5py.File(tmp_path / "a.nc", "r+") as file:
        kind = h5py.h5t.create(h5py.h5t.OPAQUE, 4)
        kind.set_tag(b"")
        kind.commit(file["g"].id, b"raw_t")
        made = file["g"].create_dataset("raw", (3,), dtype=file["g/raw_t"])
        made.dims[0].attach_scale(file["g/y"])
        made[...] = np.array([b"abcd", b"efgh", b"ijkl"], "V4")
        made.attrs["key"] = np.void(b"1234")
    copy(tmp_path / "a.nc", tmp_path / "b.nc")
    reader = NetcdfReader(str(tmp_path / "b.nc"), "b")
    spec = reader.node("g/raw")
    assert isinstance(spec, ArraySpec)
    assert (spec.dtype, spec.dims) == (Opaque(4, "raw_t"), ("y",))
    assert spec.attrs["key"].tobytes() == b"1234"
    assert read_all(reader, "g/raw").tolist() == [b"abcd", b"efgh", b"ijkl"]
    reader.close()


@needs_filters
def test_filters_are_codecs_in_their_order(tmp_path: Path) -> None:
    make_by_netcdf4(tmp_path / "a.nc")
    reader = NetcdfReader(str(tmp_path / "a.nc"), "a")
    found = {name: reader.node(f"g/h/{name}") for name in ("zlib", "zstd", "bzip2")}
    reader.close()
    codecs = {name: spec.codecs for name, spec in found.items() if isinstance(spec, ArraySpec)}
    assert codecs == {
        "zlib": (Codec("fletcher32"), Codec("shuffle", {"elementsize": 4}), Codec("zlib", {"level": 6})),
        "zstd": (Codec("fletcher32"), Codec("zstd", {"level": 3})),
        "bzip2": (Codec("fletcher32"), Codec("bz2", {"level": 9})),
    }


@pytest.mark.covering
@pytest.mark.parametrize("model", ["NETCDF4", "NETCDF3_64BIT_OFFSET"])
@pytest.mark.parametrize("attrs", [{}, {"_FillValue": np.float32(-9)}, {"units": "K", "_FillValue": np.float32(-9)}])
@pytest.mark.parametrize("fill", [0.0, -9.0, 9.9692099683868690e36, np.nan])
def test_unwritten_cells_read_as_the_fill_value(tmp_path: Path, fill: float, attrs: dict[str, Any], model: str) -> None:
    path = tmp_path / "a.nc"
    writer = NetcdfWriter(str(path), str(path), "w", model)
    writer.put("", GroupSpec(dims=(Dimension("t", 0, True),)))
    wish = ArraySpec(shape=(3, 4), dtype=np.dtype("f4"), chunks=(2, 4), dims=("t", "x"), fill_value=fill, attrs=attrs)
    writer.put("a", wish)
    writer.put("fixed", wish.evolve(dims=("y", "x")))
    source = writer.chunks("a")
    block = source.read((0, 0))
    assert block is not None
    block[:2] = 1
    source.write((0, 0), block)
    writer.put("a", wish.evolve(shape=(5, 4)))
    writer.close()
    with raw(path) as dataset:
        for name in ("a", "fixed"):
            assert dataset[name].ncattrs() == list(attrs)
        np.testing.assert_array_equal(dataset["a"][:2], 1)
        np.testing.assert_array_equal(dataset["a"][2:], np.full((3, 4), fill, "f4"))
        np.testing.assert_array_equal(dataset["fixed"][:], np.full((3, 4), fill, "f4"))
    spec, _ = read_any(path, "a")
    if model == "NETCDF4":
        np.testing.assert_array_equal(spec.fill_value, np.float32(fill))


def read_any(path: Path, name: str) -> tuple[ArraySpec, np.ndarray[Any, Any]]:
    reader = NetcdfReader(str(path), str(path))
    spec, cells = reader.node(name), read_all(reader, name)
    reader.close()
    assert isinstance(spec, ArraySpec)
    return spec, cells
