"""HDF5 files that have what netCDF has no type for, as those of NWB do: what is left out is said, nothing crashes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import NodeNotFound, Unsupported


@pytest.fixture
def referring(tmp_path: Path) -> Path:
    """A file with references among its cells, among the fields of rows and among attributes."""
    path = tmp_path / "referring.h5"
    with h5py.File(path, "w") as file:
        raw = file.create_dataset("acquisition/raw", data=np.arange(6.0))
        raw.attrs["table"] = file["acquisition"].ref
        raw.attrs["unit"] = "V"
        file.create_dataset("acquisition/used", data=[raw.ref], dtype=h5py.ref_dtype)
        rows = np.dtype([("start", "i4"), ("count", "i4"), ("of", h5py.ref_dtype)])
        for name in ("epochs", "trials"):  # of the second the library shows a variable of two fields
            file.create_dataset(f"intervals/{name}", (60,), rows)[:] = [(n, 1, raw.ref) for n in range(60)]
    return path


def test_what_netcdf_does_not_show_is_a_loss(referring: Path, tmp_path: Path) -> None:
    with pytest.raises(Unsupported) as caught:
        hs.convert(referring, tmp_path / "copy.zarr")
    for node in ("/acquisition/used", "/intervals/epochs", "/intervals/trials"):
        assert f"{node}: the array of HDF5 references, which netCDF does not know, is left out" in str(caught.value)
    assert "/acquisition/raw: the attribute 'table' of HDF5 references" in str(caught.value)
    assert "HyperslabIO" in str(caught.value)
    report = hs.convert(referring, tmp_path / "copy.zarr", allow_loss=True)
    assert sorted(loss.node for loss in report.losses) == [
        "acquisition/raw",
        "acquisition/used",
        "intervals/epochs",
        "intervals/trials",
    ]
    assert {loss.feature for loss in report.losses} == {"references"}
    assert hs.open(tmp_path / "copy.zarr")["acquisition/raw"][:].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_only_what_is_converted_counts(referring: Path, tmp_path: Path) -> None:
    with h5py.File(referring, "r+") as file:
        del file["acquisition/raw"].attrs["table"]
    assert not hs.convert(referring, tmp_path / "raw.zarr", path="acquisition/raw").losses
    with pytest.raises(Unsupported, match="/acquisition/used"):
        hs.convert(referring, tmp_path / "all.zarr", path="acquisition")


@pytest.mark.sampled(0)
def test_rows_whose_references_the_library_overlooks_are_not_read(referring: Path) -> None:
    """Their cells are longer than the library believes: it would write behind its buffer."""
    program = (
        "import sys, hyperslab as hs\n"
        "root = hs.open(sys.argv[1])\n"
        "for _ in range(30):\n"
        "    cells = [root[path][...] for path in ('acquisition/raw', 'intervals/trials') if path in root]\n"
        "print(len(cells), list(root['intervals']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(referring)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 []\n"), done.stderr
    with hs.open(referring) as root, pytest.raises(NodeNotFound):
        root["intervals/trials"]


def test_dimensions_without_variables_are_no_omission(tmp_path: Path) -> None:
    with hs.create(tmp_path / "plain.nc") as root:
        root.create_array("x", data=np.arange(4.0), dims=["row"], attrs={"unit": "m"})
        root.create_group("g").create_array("row", data=np.arange(3), dims=["column"])
    assert not hs.convert(tmp_path / "plain.nc", tmp_path / "plain.zarr", verify=True).losses
