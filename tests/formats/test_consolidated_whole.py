"""Datasets that are made whole end with consolidated metadata, which stays true; a stale copy is told as such."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import hyperslab as hs
from hyperslab.errors import FormatError

DATA = xr.Dataset({"a": (("x", "y"), np.arange(6.0).reshape(2, 3))}, coords={"x": [1, 2]})


def _quietly(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xr.open_dataset(path, engine="zarr").load()


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
@pytest.mark.parametrize("resume", [False, True])
def test_a_conversion_ends_with_a_copy_that_stays_true(tmp_path: Path, form: str, resume: bool) -> None:
    if form == "zarr3":
        pytest.importorskip("xarray", minversion="2025.6", reason="xarray before 2025.6 with zarr-python 3.1")
    hs.save(tmp_path / "x.nc", DATA)
    hs.convert(tmp_path / "x.nc", tmp_path / "y.zarr", form, verify=True, resume=resume)
    xr.testing.assert_equal(_quietly(tmp_path / "y.zarr"), DATA)
    with hs.open_group(tmp_path / "y.zarr", "r+") as root:
        root.create_array("later", data=np.arange(2.0), dims=("x",))
        root.attrs["note"] = "n"
    found = _quietly(tmp_path / "y.zarr")
    assert "later" in found and found.attrs["note"] == "n"
    assert not hs.check(tmp_path / "y.zarr")


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_it_can_be_left_out(tmp_path: Path, form: str) -> None:
    hs.save(tmp_path / "x.nc", DATA)
    hs.convert(tmp_path / "x.nc", tmp_path / "y.zarr", form, consolidated=False)
    hs.save(tmp_path / "z.zarr", np.arange(3), format=form, consolidated=False)
    for name in ("y.zarr", "z.zarr"):
        assert not (tmp_path / name / ".zmetadata").exists()
        if form == "zarr3":
            assert b"consolidated_metadata" not in (tmp_path / name / "zarr.json").read_bytes()


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_an_array_without_a_group_gets_no_copy(tmp_path: Path, form: str) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=np.arange(3))
    hs.convert(tmp_path / "x.zarr", tmp_path / "y.zarr", form, verify=True)
    with hs.open_array(tmp_path / "y.zarr", "r+") as array:
        array.attrs["note"] = "n"
    assert not (tmp_path / "y.zarr/.zmetadata").exists()
    assert not any(b"consolidated_metadata" in path.read_bytes() for path in (tmp_path / "y.zarr").rglob("*.json"))
    found = zarr.open_array(tmp_path / "y.zarr", mode="r")
    assert found[:].tolist() == [0, 1, 2] and found.attrs["note"] == "n"
    assert not hs.check(tmp_path / "y.zarr")


def test_a_copy_in_the_document_of_an_array_is_taken_out(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=np.arange(3))
    document = tmp_path / "x.zarr/zarr.json"
    plain = json.loads(document.read_bytes())
    copy = {"kind": "inline", "must_understand": False, "metadata": {}}
    document.write_text(json.dumps(plain | {"consolidated_metadata": copy}))
    (problem,) = hs.check(tmp_path / "x.zarr")
    assert problem.kind == "damaged-copy" and "array" in problem.message
    hs.repair(tmp_path / "x.zarr", dry_run=False)
    assert json.loads(document.read_bytes()) == plain and not hs.check(tmp_path / "x.zarr")
    assert zarr.open_array(tmp_path / "x.zarr", mode="r")[:].tolist() == [0, 1, 2]


def test_a_plain_array_is_saved_with_a_copy(tmp_path: Path) -> None:
    hs.save(tmp_path / "x.zarr", np.arange(3))
    assert b"consolidated_metadata" in (tmp_path / "x.zarr/zarr.json").read_bytes()


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part:UserWarning")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("other", [{"shape": (4, 3), "dtype": "i4"}, {"shape": (4,), "dtype": "f8"}])
def test_an_array_that_was_overwritten_with_another_rank_or_type(
    tmp_path: Path, version: Any, other: dict[str, Any]
) -> None:
    place = tmp_path / "x.zarr"
    group = zarr.open_group(place, mode="w", zarr_format=version)
    group.create_array("a", shape=(4,), dtype="i4", chunks=(2,))[:] = 1
    zarr.consolidate_metadata(group.store)
    group.create_array("a", **other, overwrite=True)[:] = 2
    for read in (
        lambda: hs.open(place)["a"][...],
        lambda: hs.open(place).to_xarray().load(),
        lambda: hs.open(place)["a"].plan(slice(0, 2)),
        lambda: hs.open(place)["a"].to_dask().compute(),
    ):
        with pytest.raises(FormatError, match="stale"):
            read()
    array: Any = hs.open(place)["a"]
    for _ in range(2):
        with pytest.raises(FormatError, match="stale"):
            array[...]
    array.refresh()
    assert array.shape == other["shape"] and (array[...] == 2).all()
    assert hs.check(place)
    hs.repair(place, dry_run=False)
    assert (hs.open_group(place)["a"][...] == 2).all() and not hs.check(place)
