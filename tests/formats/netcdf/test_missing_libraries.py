"""Without netCDF4 the format says what to install; without h5py it reads through netCDF4 alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from netcdf_files import REAL, SCRATCH, arrays, assert_same_cells, raw, read_all

from hyperslab.errors import MissingLibrary
from hyperslab.formats.netcdf import FORMAT
from hyperslab.formats.netcdf.library import LibraryChunks
from hyperslab.formats.netcdf.reader import NetcdfReader
from hyperslab.formats.netcdf.writer import NetcdfWriter
from hyperslab.model.dtypes import Opaque
from hyperslab.model.spec import ArraySpec, Codec
from hyperslab.stores.location import Location

COMPRESSED = next(path for path in REAL if path.name.startswith("nemo"))


def test_without_netcdf4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "netCDF4", None)
    with pytest.raises(MissingLibrary, match=r"hyperslab\[netcdf\]"):
        FORMAT.open(Location.of(COMPRESSED), "r")


def test_without_h5py_everything_is_read_through_netcdf4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    reader = NetcdfReader(str(COMPRESSED), str(COMPRESSED))
    with raw(COMPRESSED) as dataset:
        for name in arrays(reader):
            spec = reader.node(name)
            assert isinstance(spec, ArraySpec)
            assert spec.codecs == (Codec("zlib", {"level": 9}),)
            assert isinstance(reader.chunks(name), LibraryChunks)
            assert_same_cells(read_all(reader, name), dataset[name][...])
    reader.close()


def test_without_h5py_opaque_cells_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    writer = NetcdfWriter(str(tmp_path / "a.nc"), "a.nc", "x", "NETCDF4", SCRATCH)
    with pytest.raises(MissingLibrary, match="h5py"):
        writer.put("o", ArraySpec(shape=(2,), dtype=Opaque(3, "o_t"), chunks=(2,)))
    writer.discard()
