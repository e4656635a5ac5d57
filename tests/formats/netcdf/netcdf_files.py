"""Real netCDF files, made ones, and netCDF4 as the other implementation that every result is compared with."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import iris_sample_data
import netCDF4
import numpy as np

from hyperslab.chunks.settings import Settings
from hyperslab.formats.netcdf.reader import NetcdfReader
from hyperslab.formats.netcdf.writer import NetcdfWriter
from hyperslab.model.spec import ArraySpec

SCRATCH = Settings(durable=False)
REAL = sorted(Path(iris_sample_data.path).rglob("*.nc"))
RESERVED = (
    "_NCProperties",
    "_Netcdf4Coordinates",
    "_Netcdf4Dimid",
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "CLASS",
    "NAME",
)


def raw(path: Path) -> netCDF4.Dataset:
    """Open a copy of the file with netCDF4, cells as stored; what it warns of (opaque variables) is expected.

    A copy, since HDF5 2.2.0 ends the process, tests later, where a file with text was open twice.
    """
    with warnings.catch_warnings(), TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        dataset = netCDF4.Dataset(shutil.copy(path, folder))
    dataset.set_auto_maskandscale(False)
    dataset.set_auto_chartostring(False)
    return dataset


def read_all(reader: Any, path: str) -> np.ndarray[Any, Any]:
    """The cells of an array, chunk by chunk."""
    spec = reader.node(path)
    source = reader.chunks(path)
    out = np.full(spec.shape, spec.fill_cell(), spec.numpy_dtype)
    for coords in source.grid:
        block = source.read(coords)
        if block is not None:
            extent = source.grid.extent(coords)
            out[(*extent, ...)] = block[(*(slice(0, part.stop - part.start) for part in extent), ...)]
    return out


def arrays(reader: Any, path: str = "") -> list[str]:
    """The paths of all arrays."""
    found = []
    for name in reader.children(path):
        child = f"{path}/{name}" if path else name
        found += [child] if isinstance(reader.node(child), ArraySpec) else arrays(reader, child)
    return found


def copy(source: Path, target: Path, model: str | None = None) -> None:
    """Reader -> Writer, chunk by chunk."""
    reader = NetcdfReader(str(source), str(source))
    writer = NetcdfWriter(str(target), str(target), "w", model or reader.model, SCRATCH)
    copy_node(reader, writer, "")
    writer.close()
    reader.close()


def copy_node(reader: Any, writer: Any, path: str) -> None:
    """One node with all below it."""
    spec = reader.node(path)
    writer.put(path, spec)
    if isinstance(spec, ArraySpec):
        write_all(writer, path, read_all(reader, path))
        return
    for name in reader.children(path):
        copy_node(reader, writer, f"{path}/{name}" if path else name)


def write_all(writer: Any, path: str, cells: np.ndarray[Any, Any]) -> None:
    """Store all cells of an array."""
    source = writer.chunks(path)
    spec = writer.node(path)
    for coords in source.grid:
        extent = source.grid.extent(coords)
        block = np.full(source.grid.chunk_shape(coords), spec.fill_cell(), spec.numpy_dtype)
        block[(*(slice(0, part.stop - part.start) for part in extent), ...)] = cells[(*extent, ...)]
        source.write(coords, block)


def attribute_kinds(path: Path) -> list[Any]:
    """The HDF5 type of each attribute, in order: what tells char from string. Nothing for netCDF-3."""
    if not h5py.is_hdf5(path):
        return []
    found: list[Any] = []

    def note(name: str, node: Any) -> None:
        for key in node.attrs:
            if key not in RESERVED:
                kind = node.attrs.get_id(key).get_type()
                found.append((name, key, type(kind).__name__, getattr(kind, "is_variable_str", bool)()))

    with h5py.File(path) as file:
        note("", file)
        file.visititems(note)
    return found


def assert_same_files(a: Path, b: Path) -> None:
    """Everything that netCDF4 can tell of two files is equal, order included."""
    with raw(a) as one, raw(b) as other:
        assert one.data_model == other.data_model
        assert_same_group(one, other)
    assert attribute_kinds(a) == attribute_kinds(b)


def assert_same_group(a: Any, b: Any) -> None:
    def dims(group: Any) -> list[Any]:
        return [(name, len(dim), dim.isunlimited()) for name, dim in group.dimensions.items()]

    assert dims(a) == dims(b)
    for types in ("enumtypes", "cmptypes", "vltypes"):
        assert str(getattr(a, types)) == str(getattr(b, types))
    assert_same_attributes(a, b)
    assert list(a.variables) == list(b.variables)
    for name in a.variables:
        assert_same_variable(a.variables[name], b.variables[name])
    assert list(a.groups) == list(b.groups)
    for name in a.groups:
        assert_same_group(a.groups[name], b.groups[name])


def assert_same_variable(a: Any, b: Any) -> None:
    assert a.dimensions == b.dimensions
    assert str(a.datatype) == str(b.datatype)
    assert (a.endian() == "big") == (b.endian() == "big")
    if a.group().disk_format == "HDF5":
        assert a.chunking() == b.chunking()
        assert a.filters() == b.filters()
    assert_same_attributes(a, b)
    assert_same_cells(a[...], b[...])


def assert_same_attributes(a: Any, b: Any) -> None:
    assert a.ncattrs() == b.ncattrs()
    for name in a.ncattrs():
        one, other = a.getncattr(name), b.getncattr(name)
        assert type(one) is type(other)
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)


def assert_same_cells(a: Any, b: Any) -> None:
    """Equal cells, NaN as NaN; variable-length ones cell by cell."""
    x, y = np.asarray(a), np.asarray(b)
    assert x.shape == y.shape
    if x.dtype == object or y.dtype == object:
        assert all(np.array_equal(i, j) for i, j in zip(x.flat, y.flat, strict=True))
    else:
        np.testing.assert_array_equal(x, y)
