"""Rows of HDF5 with text of any length in a field, which netCDF does not know: h5py reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Unsupported
from hyperslab.model.dtypes import VlenString, tag_of

TEXT, ASCII = h5py.string_dtype(), h5py.string_dtype("ascii")
ROW = np.dtype([("name", TEXT), ("n", "i4"), ("seen", "?"), ("code", ASCII)])
ROWS = np.array([("zwölf", 1, True, "ab"), ("", 2, False, "c"), ("x" * 300, 3, True, "")], ROW)
PLAIN = [("zwölf", 1, True, "ab"), ("", 2, False, "c"), ("x" * 300, 3, True, "")]
pytestmark = pytest.mark.skipif(
    [int(part) for part in netCDF4.__netcdf4libversion__.split(".")[:2]] < [4, 10],
    reason="netCDF 4.9 fails now and then",
)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A file with rows in one piece, in compressed chunks, alone, and never written."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["rows"] = ROWS
        file["lone"] = ROWS[0]
        file.create_dataset("g/many", data=np.tile(ROWS, 10), chunks=(7,), compression="gzip", shuffle=True)
        file.create_dataset("unwritten", shape=(2,), dtype=ROW)
        file["rows"].attrs["units"] = "m"
    return tmp_path / "a.h5"


def decode(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize("fast", [True, False])
def test_they_are_what_h5py_reads(made: Path, fast: bool) -> None:
    with hs.open(made, fast=fast) as root, h5py.File(made) as file:
        for name in ("rows", "g/many", "unwritten"):
            expected = [tuple(map(decode, row)) for row in file[name][...].tolist()]
            assert root[name][...].tolist() == expected
        assert root["rows"][...].tolist() == PLAIN
        assert root["lone"][()].tolist() == PLAIN[0]
        assert root["g/many"][5:8].tolist() == [PLAIN[2], *PLAIN[:2]]
        assert root["rows"]["name"].tolist() == [row[0] for row in PLAIN]
        assert isinstance(tag_of(root["rows"].dtype["name"]), VlenString)
        assert root["rows"].attrs["units"] == "m"
    report = hs.check(made, deep=True)
    assert report == [] and report.notes == []


def test_hdmf_keeps_them(made: Path, tmp_path: Path) -> None:
    assert hs.convert(made, tmp_path / "a.nwb.zarr", verify=True).losses == ()
    assert hs.open(tmp_path / "a.nwb.zarr", path="rows")[...].tolist() == PLAIN
    assert not hs.diff(made, tmp_path / "a.nwb.zarr")


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "collections"])
def test_elsewhere_text_gets_one_width(made: Path, tmp_path: Path, format: str) -> None:
    with pytest.raises(Unsupported, match=r"/rows: cells of type rows of name: string, .* become .*<U300"):
        hs.convert(made, tmp_path / "b", format)
    hs.convert(made, tmp_path / "b", format, allow_loss=True, verify=True)
    with hs.open(tmp_path / "b") as root:
        assert root["rows"].dtype["name"] == np.dtype("U300")
        assert root["rows"][...].tolist() == PLAIN
        assert root["g/many"][...].tolist() == PLAIN * 10


def test_in_netcdf_text_becomes_chars(made: Path, tmp_path: Path) -> None:
    hs.convert(made, tmp_path / "b.nc", allow_loss=True, verify=True)
    with hs.open(tmp_path / "b.nc") as root:
        names = [row.tobytes().rstrip(b"\0").decode() for row in root["rows"][...]["name"]]
        assert names == [row[0] for row in PLAIN]


def test_a_file_with_them_is_changed_beside_them(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", track_order=True) as file:
        file["rows"] = ROWS
        file["x"] = np.arange(3.0)
    with hs.open(tmp_path / "a.h5", "r+") as root:
        root["x"][0] = 7.0
        with pytest.raises(Unsupported, match="convert it to a new file"):
            root["rows"][0] = root["rows"][1]
    with hs.open(tmp_path / "a.h5") as root:
        assert root["x"][...].tolist() == [7.0, 1.0, 2.0]
        assert root["rows"][...].tolist() == PLAIN


def test_a_named_type_of_them_is_read_without_its_name(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["kind"] = ROW  # with its booleans the netCDF library opens no file
        file.create_dataset("rows", data=ROWS, dtype=file["kind"])
    with hs.open(tmp_path / "a.h5") as root:
        assert root["rows"][...].tolist() == PLAIN
    (note,) = hs.check(tmp_path / "a.h5").notes
    assert "the type 'kind'" in note.message


def test_text_deeper_in_rows_is_left_out(tmp_path: Path) -> None:
    inner = np.dtype([("name", TEXT)])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("nested", shape=(2,), dtype=[("of", inner), ("n", "i4")])
        file.create_dataset("several", shape=(2,), dtype=[("names", TEXT, (2,))])
    with hs.open(tmp_path / "a.h5") as root:
        assert list(root) == []
    assert {note.node for note in hs.check(tmp_path / "a.h5").notes} == {"nested", "several"}


@pytest.mark.parametrize("where", ["/", "x", "g"])
def test_an_attribute_of_several_dimensions_is_read(tmp_path: Path, where: str) -> None:
    table = np.arange(6.0).reshape(2, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3.0)
        file.create_group("g").attrs["text"] = "abc"
        file[where].attrs["table"] = table
        file[where].attrs["name"] = "abc"
    with hs.open(tmp_path / "a.h5") as root:
        node = root if where == "/" else root[where]
        np.testing.assert_array_equal(node.attrs["table"], table)
        assert node.attrs["name"] == "abc" and root["g"].attrs["text"] == "abc"
        assert root["x"][...].tolist() == [0.0, 1.0, 2.0]
    assert hs.check(tmp_path / "a.h5") == []
    assert hs.convert(tmp_path / "a.h5", tmp_path / "a.zarr", verify=True).losses == ()
    with pytest.raises(Unsupported, match="the attribute 'table'"):
        hs.convert(tmp_path / "a.h5", tmp_path / "a.nc")
