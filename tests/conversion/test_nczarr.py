"""netCDF-4 files through both dialects of NCZarr and back: ncdump prints the same. Losses are announced."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from cdl.compiling import FOLDER, NAMES, NEEDS_NCGEN, case, every_sixth, ncdump
from hyperslab.errors import Unsupported

pytestmark = pytest.mark.sampled(2)

_SPEC = find_spec("iris_sample_data")
FILES = sorted(Path(str(_SPEC.origin)).parent.glob("sample_data/*.nc")) if _SPEC else []
TYPED = [name for name in NAMES if "types:" in (FOLDER / f"{name}.cdl").read_text("utf-8")]
PLAIN = [name for name in NAMES if name not in TYPED]
DRAFT = [name for name in NAMES if not name.startswith("vlen")]
ARRAYS_IN_FIELDS = {
    name for name in NAMES if name.startswith(("compound_arr", "compound_inner", "compound_char"))
}  # which zarr3 does not hold
BETWEEN = [("draft", name) for name in DRAFT if name not in ARRAYS_IN_FIELDS] + [("current", name) for name in PLAIN]
LONG = "é" * 150


def back(dataset: Path, folder: Path, model: str = "NETCDF4") -> Path:
    """The dataset as a netCDF file."""
    hs.convert(dataset, folder / "back.nc", format="netcdf", model=model)
    return folder / "back.nc"


@NEEDS_NCGEN
@pytest.mark.parametrize("name", every_sixth(DRAFT, 1))
def test_the_draft_holds_all_but_vlen(tmp_path: Path, name: str) -> None:
    made = case(name, tmp_path)
    report = hs.convert(made, tmp_path / "a.nczarr", dialect="draft", verify=True)
    assert not report.losses
    assert ncdump(back(tmp_path / "a.nczarr", tmp_path)) == ncdump(made)


@NEEDS_NCGEN
@pytest.mark.parametrize("name", every_sixth(PLAIN, 3))
def test_the_current_dialect_holds_all_but_user_types(tmp_path: Path, name: str) -> None:
    made = case(name, tmp_path)
    report = hs.convert(made, tmp_path / "a.nczarr", verify=True)
    assert not report.losses
    assert ncdump(back(tmp_path / "a.nczarr", tmp_path)) == ncdump(made)


@pytest.mark.sampled(4)
@NEEDS_NCGEN
@pytest.mark.parametrize("name", TYPED)
def test_user_types_are_an_announced_loss_in_the_current_dialect(tmp_path: Path, name: str) -> None:
    made = case(name, tmp_path)
    with pytest.raises(Unsupported, match=r"type|cells of type"):
        hs.convert(made, tmp_path / "a.nczarr")
    assert not (tmp_path / "a.nczarr").exists()
    report = hs.convert(made, tmp_path / "a.nczarr", allow_loss=True, verify=True)
    with hs.open(made) as root, hs.open(tmp_path / "a.nczarr") as left:
        told = " ".join(str(loss) for loss in report.losses)
        assert all(f"the type {name!r}" in told for name in root.types)
        for path, _ in root.arrays():
            assert path in left or f"/{path}: cells" in told


@NEEDS_NCGEN
@pytest.mark.parametrize("dialect", ["current", "draft"])
def test_vlen_is_an_announced_loss(tmp_path: Path, dialect: str) -> None:
    made = case("vlen", tmp_path)
    with pytest.raises(Unsupported, match=r"/v: cells of type vlen<int32> ragged_t: the array is left out"):
        hs.convert(made, tmp_path / "a.nczarr", dialect=dialect)
    hs.convert(made, tmp_path / "a.nczarr", dialect=dialect, allow_loss=True)
    with hs.open(tmp_path / "a.nczarr") as root:
        assert list(root) == ["plain"]


@pytest.mark.sampled(3)
@NEEDS_NCGEN
@pytest.mark.parametrize(("dialect", "name"), every_sixth(BETWEEN, 0))
def test_plain_zarr_between_keeps_all_but_the_order(tmp_path: Path, name: str, dialect: str) -> None:
    made = case(name, tmp_path)
    hs.convert(made, tmp_path / "a.nczarr", dialect=dialect)
    hs.convert(tmp_path / "a.nczarr", tmp_path / "b.zarr", format="zarr3")
    hs.convert(tmp_path / "b.zarr", tmp_path / "c.nczarr", dialect=dialect)
    assert sorted(ncdump(back(tmp_path / "c.nczarr", tmp_path))) == sorted(ncdump(made))


@pytest.mark.sampled(0)
@pytest.mark.covering
@NEEDS_NCGEN
@pytest.mark.parametrize("dialect", ["current", "draft"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_real_files(tmp_path: Path, path: Path, dialect: str) -> None:
    hs.convert(path, tmp_path / "a.nczarr", dialect=dialect)
    with netCDF4.Dataset(path) as dataset:
        model = dataset.data_model
    assert ncdump(back(tmp_path / "a.nczarr", tmp_path, model)) == ncdump(path)


def stored(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize("dialect", ["current", "draft"])
def test_cells_are_as_wide_as_the_longest_text(tmp_path: Path, dialect: str) -> None:
    with hs.create(tmp_path / "a.zarr", format="zarr3") as root:
        root.create_array("long", data=np.array(["a", LONG, ""], object), dtype=str, dims=("n",), chunks=(1,))
        root.create_array("short", data=np.array(["a", "bc"], object), dtype=str, dims=("m",))
    hs.convert(tmp_path / "a.zarr", tmp_path / "a.nczarr", dialect=dialect, verify=True)
    with hs.open(tmp_path / "a.nczarr") as root:
        assert list(root["long"][...]) == ["a", LONG, ""]
        assert not dict(root["long"].attrs)
    assert stored(tmp_path / "a.nczarr" / "long" / ".zarray")["dtype"] == "|S300"
    assert stored(tmp_path / "a.nczarr" / "long" / ".zattrs")["_nczarr_maxstrlen"] == 300
    assert stored(tmp_path / "a.nczarr" / "short" / ".zarray")["dtype"] == "|S128"


def test_a_selection_needs_room_for_what_it_selects(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", format="zarr3") as root:
        root.create_array("v", data=np.array(["a", LONG, "b"], object), dtype=str, dims=("n",), chunks=(1,))
    hs.convert(tmp_path / "a.zarr", tmp_path / "a.nczarr", select={"n": slice(2, 3)})
    assert stored(tmp_path / "a.nczarr" / "v" / ".zarray")["dtype"] == "|S128"


def test_new_arrays_of_text_have_room_for_their_data(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nczarr") as root:
        root.create_array("v", data=np.array(["a", LONG], object), dtype=str, dims=("n",))
        assert list(root["v"][...]) == ["a", LONG]


def test_text_of_xarray_has_room(tmp_path: Path) -> None:
    dataset = xr.Dataset({"v": ("n", np.array(["a", LONG], object))})
    hs.save(tmp_path / "a.nczarr", dataset)
    with hs.open(tmp_path / "a.nczarr") as root:
        assert list(root["v"][...]) == ["a", LONG]


@pytest.mark.parametrize(("dialect", "other"), [("current", "draft"), ("draft", "current")])
def test_names_of_nameless_dimensions_stay_in_the_other_dialect(tmp_path: Path, dialect: str, other: str) -> None:
    with hs.create(tmp_path / "a.nczarr", dialect=dialect) as root:
        root.create_array("v", data=np.zeros((3, 3)), dims=["x", None])
        root.create_group("g").create_array("w", data=np.zeros((3, 5)))
    hs.convert(tmp_path / "a.nczarr", tmp_path / "b.nczarr", dialect=other, verify=True)
    hs.convert(tmp_path / "b.nczarr", tmp_path / "c.nczarr", dialect=dialect, verify=True)
    for name in ("b", "c"):
        assert not hs.diff(tmp_path / "a.nczarr", tmp_path / f"{name}.nczarr")
        assert not hs.check(tmp_path / f"{name}.nczarr")
        with hs.open_group(tmp_path / "a.nczarr") as before, hs.open_group(tmp_path / f"{name}.nczarr") as after:
            assert (before["v"].dims, before["g/w"].dims) == (after["v"].dims, after["g/w"].dims)
            assert before.dims == after.dims
