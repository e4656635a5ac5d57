"""Real files (sample data of Iris): what we read is what netCDF4 reads, and a copy is the same file to netCDF4."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from netcdf_files import REAL, arrays, assert_same_cells, assert_same_files, copy, raw, read_all

from hyperslab.formats.netcdf.library import LibraryChunks
from hyperslab.formats.netcdf.reader import NetcdfReader
from hyperslab.model.spec import ArraySpec, GroupSpec

real = pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)


def test_there_are_files_of_several_models() -> None:
    assert len(REAL) >= 15
    assert {raw(path).data_model for path in REAL} >= {"NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC"}


@pytest.mark.sampled(20)
@pytest.mark.covering
@real
@pytest.mark.parametrize("fast", [True, False])
def test_cells_are_those_of_netcdf4(path: Path, fast: bool) -> None:
    reader = NetcdfReader(str(path), str(path), fast=fast)
    with raw(path) as dataset:
        assert arrays(reader) == list(dataset.variables)
        for name, variable in dataset.variables.items():
            cells = read_all(reader, name)
            if variable.dtype is not str:
                assert cells.dtype == variable.dtype
            assert_same_cells(cells, variable[...])
    reader.close()


@real
def test_documents_are_those_of_netcdf4(path: Path) -> None:
    reader = NetcdfReader(str(path), str(path))
    root = reader.node("")
    with raw(path) as dataset:
        assert isinstance(root, GroupSpec)
        dims = [(dim.name, dim.size, dim.unlimited) for dim in root.dims]
        assert dims == [(name, len(dim), dim.isunlimited()) for name, dim in dataset.dimensions.items()]
        assert list(root.attrs) == dataset.ncattrs()
        for name, variable in dataset.variables.items():
            spec = reader.node(name)
            assert isinstance(spec, ArraySpec)
            assert spec.dims == variable.dimensions
            assert spec.shape == variable.shape
            assert list(spec.attrs) == variable.ncattrs()
            for key, value in spec.attrs.items():
                expected = variable.getncattr(key)
                np.testing.assert_array_equal(np.asarray(value), expected)
                assert np.asarray(value).dtype == np.asarray(expected).dtype or isinstance(value, str)
            if variable.get_fill_value() is not None and variable.dtype is not str:
                np.testing.assert_array_equal(spec.fill_value, unwritten_cell(path, variable))
    reader.close()


def unwritten_cell(path: Path, variable: Any) -> Any:
    """What HDF5 fills with. It need not be ``_FillValue``: NEMO's files name that after the variables were made."""
    if not h5py.is_hdf5(path):
        return variable.get_fill_value()
    with h5py.File(path) as file:
        return file[variable.name].fillvalue


@pytest.mark.sampled(20)
@real
def test_a_copy_is_the_same_file(path: Path, tmp_path: Path) -> None:
    copy(path, tmp_path / "copy.nc")
    assert_same_files(path, tmp_path / "copy.nc")


@pytest.mark.sampled(3)
@real
def test_the_fast_path_gives_what_the_library_gives(path: Path) -> None:
    reader = NetcdfReader(str(path), str(path))
    library = NetcdfReader(str(path), str(path), fast=False)
    for name in arrays(reader):
        fast, slow = reader.chunks(name), library.chunks(name)
        assert isinstance(slow, LibraryChunks)
        for coords in fast.grid:
            mine, theirs = fast.read(coords), slow.read(coords)
            extent = tuple(slice(0, part.stop - part.start) for part in fast.grid.extent(coords))
            assert theirs is not None
            expected = theirs[extent]
            fill = np.full(expected.shape, reader.node(name).fill_cell())
            assert_same_cells(fill if mine is None else mine[extent], expected)
    reader.close()
    library.close()


def test_nearly_all_arrays_are_read_without_the_library() -> None:
    slow = []
    for path in REAL:
        reader = NetcdfReader(str(path), str(path))
        slow += [(path.name, n) for n in arrays(reader) if isinstance(reader.chunks(n), LibraryChunks)]
        reader.close()
    assert slow == [("vlstr_type.nc", "expver")]
