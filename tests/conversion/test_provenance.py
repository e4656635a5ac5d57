"""Sources whose root says who wrote it, as netCDF does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import Unsupported


def test_the_provenance_of_another_file_is_named_and_not_the_disk(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr2") as root:
        root.attrs["_NCProperties"] = "version=2,netcdf=4.9.0"
        root.create_array("v", data=np.arange(3), dims=("x",))
    with pytest.raises(Unsupported, match="_NCProperties"):
        hs.convert(tmp_path / "a.zarr", tmp_path / "a.nc")
    assert not (tmp_path / "a.nc").exists()
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr3", verify=True)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_provenance_is_a_loss_that_is_told(tmp_path: Path, format: str) -> None:
    with hs.create(tmp_path / "a.zarr", format) as root:
        root.attrs.update({"_NCProperties": "version=2,netcdf=4.9.0", "title": "air"})
        root.create_array("v", data=np.arange(3), dims=("x",))
    report = hs.convert(tmp_path / "a.zarr", tmp_path / "a.nc", allow_loss=True, verify=True)
    assert [(loss.node, loss.feature) for loss in report.losses] == [("", "attributes")]
    assert "_NCProperties" in report.losses[0].message
    with hs.open(tmp_path / "a.nc") as found:
        assert dict(found.attrs) == {"title": "air"}
        assert found["v"][...].tolist() == [0, 1, 2]


def test_classic_files_keep_the_provenance_of_another(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr2") as root:
        root.attrs["_NCProperties"] = "version=2,netcdf=4.9.0"
        root.create_array("v", data=np.arange(3, dtype="i4"), dims=("x",))
    hs.convert(tmp_path / "a.zarr", tmp_path / "a.nc", model="NETCDF3_CLASSIC", verify=True)
    assert hs.open(tmp_path / "a.nc").attrs["_NCProperties"] == "version=2,netcdf=4.9.0"


def test_links_to_zarrs_of_netcdf_are_told_beside_it(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr2") as root:
        root.attrs["_NCProperties"] = "version=2,netcdf=4.9.0"
        root.create_array("v", data=np.arange(3), dims=("x",))
    with hs.create(tmp_path / "b.zarr", "hdmf") as root:
        root.attrs["_NCProperties"] = "version=2,netcdf=4.9.0"
        root.create_link("a", "/", source=str(tmp_path / "a.zarr"))
        root.create_array("w", data=np.arange(2))
    report = hs.convert(tmp_path / "b.zarr", tmp_path / "b.nc", allow_loss=True, verify=True)
    assert {loss.node for loss in report.losses} == {"", "a"}
    with hs.open_group(tmp_path / "b.nc") as found:
        assert (list(found), dict(found.attrs)) == (["w"], {})


KEPT_BY_THE_LIBRARY = (
    *("CLASS", "DIMENSION_LABELS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST", "_ARRAY_DIMENSIONS", "_Codecs"),
    *("_Format", "_IsNetcdf4", "_NCCOPY", "_Netcdf4Coordinates", "_Netcdf4Dimid", "_SuperblockVersion"),
    *("_nc3_strict", "_nczarr_attr", "_nczarr_group"),
)


def test_names_that_the_library_keeps_for_itself_are_told(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.attrs.update(dict.fromkeys(KEPT_BY_THE_LIBRARY, "text") | {"title": "air"})
        root.create_array("v", data=np.arange(3), dims=("x",), attrs=dict.fromkeys(KEPT_BY_THE_LIBRARY, 1))
        # of text the library makes a file that it cannot open, of an array it dies
        root["v"].attrs["_QuantizeBitGroomNumberOfSignificantDigits"] = [1, 2]
    report = hs.convert(tmp_path / "a.zarr", tmp_path / "a.nc", allow_loss=True, verify=True)
    named = len(KEPT_BY_THE_LIBRARY)
    assert [loss.node for loss in report.losses] == [""] * named + ["v"] * (named + 1)
    with hs.open_group(tmp_path / "a.nc") as found:
        assert (dict(found.attrs), dict(found["v"].attrs)) == ({"title": "air"}, {})
    with hs.create(tmp_path / "b.nc") as made, pytest.raises(Unsupported, match="keeps for itself"):
        made.attrs["CLASS"] = "text"


def test_xarray_neither_gets_nor_writes_the_provenance(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr2") as root:
        root.attrs.update({"_NCProperties": "version=2,netcdf=4.9.0", "title": "air"})
        root.create_array("v", data=np.arange(3), dims=("x",))
    with xr.open_dataset(tmp_path / "a.zarr", engine="hyperslab") as ours:
        assert ours.attrs == {"title": "air"}
        ours.hyperslab.save(tmp_path / "a.nc")
        ours.attrs["_NCProperties"] = "version=2,netcdf=4.9.0"
        with pytest.warns(UserWarning, match="_NCProperties is left out"):
            ours.hyperslab.save(tmp_path / "b.nc")
    for name in ("a.nc", "b.nc"):
        with xr.open_dataset(tmp_path / name, engine="netcdf4") as found:
            assert found.attrs == {"title": "air"}
