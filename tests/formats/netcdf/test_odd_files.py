"""Files that netCDF allows, or that damage makes, and that its library reads otherwise than they are, or for ever."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from cdl.compiling import NEEDS_NCGEN, compiled, ncdump
from hyperslab.errors import FormatError, Invalid, Unsupported
from programs import COMMAND, ran


def classic(path: Path, names: list[str]) -> Path:
    """A netCDF-3 file with a variable of two numbers for each name."""

    def text(name: str) -> bytes:
        return struct.pack(">I", len(name)) + name.encode() + bytes(-len(name) % 4)

    def variables(begin: int) -> bytes:
        made = (text(name) + struct.pack(">7I", 1, 0, 0, 0, 4, 8, begin + 8 * n) for n, name in enumerate(names))
        return struct.pack(">II", 11, len(names)) + b"".join(made)

    head = b"CDF\x01" + struct.pack(">III", 0, 10, 1) + text("x") + struct.pack(">III", 2, 0, 0)
    cells = b"".join(struct.pack(">ii", n, n + 1) for n, _ in enumerate(names))
    path.write_bytes(head + variables(len(head + variables(0))) + cells)
    return path


@pytest.mark.parametrize("name", ["", "a/b", "..", ".", "a\\b"])
def test_variables_whose_names_lead_nowhere_are_told(tmp_path: Path, name: str) -> None:
    path = classic(tmp_path / "a.nc", [name, "sound"])
    with hs.open_group(path) as root:
        assert list(root) == ["sound"]
        assert root["sound"][:].tolist() == [1, 2]
        assert repr(name) in root.tree()
    report = hs.check(path)
    assert not report
    assert [repr(name) in note.message for note in report.notes] == [True]
    with pytest.raises(Unsupported, match="holds no slash"):
        hs.convert(path, tmp_path / "b.zarr")
    report = hs.convert(path, tmp_path / "b.zarr", allow_loss=True)
    assert [loss.node for loss in report.losses] == [""]
    with hs.open_group(path, "r+") as root, pytest.raises(Unsupported, match="written anew without"):
        del root["sound"]


def test_two_variables_of_one_name_are_damage(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="the same name"):
        hs.open(classic(tmp_path / "a.nc", ["a", "a"]))


@pytest.mark.sampled(0)
def test_a_heap_of_zeros_does_not_keep_the_library_busy_for_ever(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        file.createVariable("v", "i4", ("x",))[:] = [1, 2, 3]
        file.createVariable("s", str, ("x",))[:] = np.array(["a", "bc", ""], object)
    assert not hs.check(tmp_path / "a.nc")
    data = (tmp_path / "a.nc").read_bytes()
    start = data.index(b"GCOL")
    (tmp_path / "b.nc").write_bytes(data[: start + 16] + bytes(512) + data[start + 528 :])
    command = [sys.executable, "-m", "hyperslab", "check", str(tmp_path / "b.nc")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"hdf5-heap: the global heap at byte {start}" in done.stdout


THREE = """netcdf three {
dimensions:
  dim = 4 ;
variables:
  int top(dim) ;
data:
  top = 1, 2, 3, 4 ;
group: g {
  dimensions:
    dim = 2 ;
  group: h {
    dimensions:
      dim = 3 ;
    variables:
      int v(/dim, /g/dim, dim) ;
      string s(/dim, dim) ;
      double dim(dim) ;
    data:
      v = 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23 ;
      s = "a","b","c","d","e","f","g","h","i","j","k","l" ;
      dim = 1, 2, 3 ;
  }
}
}
"""


@NEEDS_NCGEN
def test_three_dimensions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a.cdl").write_text(THREE)
    made = compiled(tmp_path / "a.cdl", tmp_path / "a.nc")
    with hs.open_group(made) as root:
        assert root["g/h/v"].shape == (4, 2, 3)
        assert np.array_equal(root["g/h/v"][:], np.arange(24).reshape(4, 2, 3))
        assert root["g/h/s"][:, 0].tolist() == ["a", "d", "g", "j"]
        assert [root[group].dims["dim"].size for group in ("g", "g/h")] == [2, 3]
    assert not hs.check(made, deep=True)
    dumped = ran(COMMAND, "dump", made)
    (tmp_path / "b.cdl").write_text(dumped.stdout)
    assert ncdump(compiled(tmp_path / "b.cdl", tmp_path / "b.nc")) == ncdump(made)
    for suffix in (".nc", ".zarr"):
        assert not hs.convert(made, tmp_path / f"c{suffix}", verify=True).losses
        with hs.open_group(tmp_path / f"c{suffix}") as root:
            assert np.array_equal(root["g/h/v"][:], np.arange(24).reshape(4, 2, 3))
            assert root["g"].dims["dim"].size == 2
    with hs.open_group(made, "r+") as root:
        with pytest.raises(Unsupported, match="others of the same name"):
            root["g/h/v"][0] = 1
        with pytest.raises(Unsupported, match="others of the same name"):
            del root["top"]


@NEEDS_NCGEN
@pytest.mark.parametrize(
    ("cdl", "said", "cells"),
    [
        (
            "types: compound a_t { int x ; } ; compound b_t { a_t as(2) ; } ;"
            "variables: b_t v ; data: v = {{{1}, {2}}} ;",
            "array of compounds",
            [1, 2],
        ),
        (
            "group: g { dimensions: x = 3 ; } group: h { variables: int v(/g/x) ; data: v = 1, 2, 3 ; }",
            "a group that is not above",
            [1, 2, 3],
        ),
    ],
)
def test_what_the_library_opens_no_file_with_is_read_through_h5py(
    tmp_path: Path, cdl: str, said: str, cells: list[int]
) -> None:
    (tmp_path / "a.cdl").write_text(f"netcdf a {{ {cdl} }}")
    made = compiled(tmp_path / "a.cdl", tmp_path / "a.nc")
    with hs.open_group(made) as root:
        assert root["h/v" if "h" in root else "v"][...].tobytes() == np.array(cells, "i4").tobytes()
    assert not hs.check(made, deep=True)
    assert len(hs.convert(made, tmp_path / "a.zarr", allow_loss=True, verify=True).losses) == ("types" in cdl)
    dumped = ran(COMMAND, "dump", made)
    (tmp_path / "b.cdl").write_text(dumped.stdout)
    assert not hs.diff(made, compiled(tmp_path / "b.cdl", tmp_path / "b.nc"))
    with pytest.raises(Unsupported, match=said):
        hs.open(made, "r+")


@pytest.fixture
def far(tmp_path: Path) -> Path:
    """A file of h5py whose variables run along scales of groups that are not above theirs."""
    with h5py.File(tmp_path / "far.nc", "w") as file:
        scales = {}
        for name, size, most in (("a/x", 3, 3), ("c/d/x", 5, 5), ("c/t", 4, None)):
            scales[name] = file.create_dataset(name, data=np.arange(size, dtype="f8"), maxshape=(most,))
            scales[name].make_scale(name)
        file.create_dataset("top", data=np.array([7, 8, 9], ">i2")).dims[0].attach_scale(scales["a/x"])
        file["top"].attrs.update({"units": np.bytes_("K"), "n": np.int16(3)})
        wide = file.create_dataset("b/wide", data=np.arange(15, dtype="f4").reshape(3, 5), chunks=(2, 2), compression=4)
        wide.dims[0].attach_scale(scales["a/x"])
        wide.dims[1].attach_scale(scales["c/d/x"])
        text = file.create_dataset("b/text", data=["p", "q", "r"], dtype=h5py.string_dtype())
        text.dims[0].attach_scale(scales["a/x"])
        short = file.create_dataset("b/short", data=[1, 2], maxshape=(None,), fillvalue=-1)
        short.dims[0].attach_scale(scales["c/t"])
        file["b/bare"] = np.array([b"a", b"b"])
    return tmp_path / "far.nc"


def test_scales_of_groups_elsewhere_are_dimensions_of_the_group(far: Path, tmp_path: Path) -> None:
    with hs.open_group(far) as root:
        assert (root["top"].dims, root["top"].dtype, dict(root["top"].attrs)) == (("x",), ">i2", {"n": 3, "units": "K"})
        assert (root["b/wide"].dims, root["b/text"].dims, root["b/bare"].dims) == (("x", "x_5"), ("x",), (None,))
        assert root["b"].dims["t"].unlimited
        assert root["b/short"][:].tolist() == [1, 2, -1, -1]
        assert root["b/wide"].chunks == (2, 2)
        assert np.array_equal(root["b/wide"][:], np.arange(15).reshape(3, 5))
        assert root["b/text"][:].tolist() == ["p", "q", "r"]
        assert root["b"].to_xarray().sizes["x_5"] == 5
    for suffix in (".nc", ".zarr"):
        assert not hs.convert(far, tmp_path / f"a{suffix}", verify=True).losses
        assert [(found.node, found.kind) for found in hs.diff(far, tmp_path / f"a{suffix}")] == [("top", "type")] * (
            suffix == ".zarr"  # which has no big-endian cells
        )


def test_files_that_only_h5py_reads_are_not_changed(far: Path) -> None:
    before = far.read_bytes()
    for mode in ("r+", "a"):
        with pytest.raises(Unsupported, match="convert it to a new one"):
            hs.open(far, mode)
    assert far.read_bytes() == before
    assert [path.name for path in far.parent.iterdir()] == ["far.nc"]


def test_a_coordinate_of_two_dimensions_is_a_scale_itself(tmp_path: Path) -> None:
    """netCDF tells its dimensions by their numbers."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in (("y", 2), ("x", 3)):
            file.createDimension(name, size)
        file.createVariable("y", "i4", ("y", "x"))[...] = np.arange(6).reshape(2, 3)
        file.createGroup("g").createDimension("z", 4)
        file.createGroup("h")
    with h5py.File(tmp_path / "a.nc", "r+") as file:
        file.create_dataset("h/v", data=np.arange(4)).dims[0].attach_scale(file["g/z"])
    with hs.open_group(tmp_path / "a.nc") as root:
        assert root["y"].dims == ("y", "x")
        assert root["h/v"].dims == ("z",)
        assert np.array_equal(root["y"][...], np.arange(6).reshape(2, 3))


@NEEDS_NCGEN
def test_dimensions_of_one_name_in_nested_groups_are_written(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        below = root.create_group("g")
        for group, size in ((root, 4), (below, 2), (below.create_group("h"), 3)):
            group.create_dimension("dim", size)
            group.create_array("v", data=np.arange(size), dims=["dim"])
        with pytest.raises(Invalid, match="'dim' has length 3 here, not 4"):
            root["g/h"].create_array("w", data=np.zeros((4, 2, 3)), dims=["dim", "dim", "dim"])
    with hs.open_group(tmp_path / "a.nc") as root:
        assert [root[path].shape for path in ("v", "g/v", "g/h/v")] == [(4,), (2,), (3,)]
    assert sum("dim = " in line for line in ncdump(tmp_path / "a.nc")) == 3


NULS = {"inner": "x\0y", "end": "abc\0", "many": "K\0\0", "only": "\0\0", "empty": "", "plain": "text"}


@pytest.mark.sampled(20)
@NEEDS_NCGEN
@pytest.mark.parametrize("kind", ["3", "4", "5"])
def test_nuls_of_char_attributes_are_kept(tmp_path: Path, kind: str) -> None:
    said = "".join(f'v:{name} = "{text}" ; '.replace("\0", "\\000") for name, text in NULS.items())
    units = 'v:units = "days since 2000-01-01\\000" ; v:calendar = "standard\\000" ; :title = "air\\000" ;'
    (tmp_path / "a.cdl").write_text(f"netcdf a {{ variables: int v ; {said} {units} data: v = 1 ; }}")
    made = compiled(tmp_path / "a.cdl", tmp_path / "a.nc", kind)
    with hs.open_group(made) as root:
        attrs = dict(root["v"].attrs)
        assert attrs.items() >= NULS.items()
        assert root.attrs["title"] == "air\0"
        assert root["v"].units == "days since 2000-01-01"
        assert root["v"].decoded()[()] == np.datetime64("2000-01-02")
    with xr.open_dataset(made, engine="hyperslab") as ours, xr.open_dataset(made, engine="netcdf4") as theirs:
        assert ours["v"].item() == theirs["v"].item()
        assert ours["v"].attrs == theirs["v"].attrs | {"inner": "x\0y"}
        assert ours.attrs == theirs.attrs
    assert not hs.convert(made, tmp_path / "b.zarr", verify=True).losses
    for model in ("NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"):
        target = tmp_path / f"{model}.nc"
        assert not hs.convert(tmp_path / "b.zarr", target, verify=True, model=model).losses
        with hs.open_group(target) as root:
            assert (dict(root["v"].attrs), root.attrs["title"]) == (attrs, "air\0")
        assert ncdump(target) == ncdump(made)
    with hs.open_group(made, "r+") as root:
        root.create_array("w", data=np.arange(2, dtype="i4"), dims=["x"], attrs={"b": "b\0", "a": "a"})
        del root["v"]
    with hs.open_group(made) as root:
        assert (list(root), list(root["w"].attrs.items())) == (["w"], [("b", "b\0"), ("a", "a")])
        assert root.attrs["title"] == "air\0"


def test_nuls_that_netcdf_has_no_room_for_are_told(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("v", data=np.arange(2, dtype="i4"), dims=["x"], attrs={"lone": "\0", "end": "abc\0"})
    for model in ("NETCDF4", "NETCDF3_CLASSIC"):
        target = tmp_path / f"{model}.nc"
        with pytest.raises(Unsupported, match=r"'lone'.*loses the NULs at its end"):
            hs.convert(tmp_path / "a.zarr", target, model=model)
        losses = hs.convert(tmp_path / "a.zarr", target, model=model, allow_loss=True, verify=True).losses
        assert [loss.message.split("'")[1] for loss in losses] == ["lone"]
        with hs.open_group(target) as root:
            assert dict(root["v"].attrs) == {"lone": "", "end": "abc\0"}
    with hs.create(tmp_path / "b.nc") as root, pytest.raises(Unsupported, match="netCDF ends strings there"):
        root.attrs["text"] = np.str_("a\0b")


def test_the_terminators_of_texts_in_plain_hdf5_are_no_text(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_dataset("v", data=[1]).attrs["units"] = np.array(b"K", "S4")
    with hs.open_group(tmp_path / "a.nc") as root:
        assert root["v"].attrs["units"] == "K"


def test_what_another_model_of_netcdf_cannot_hold_is_told(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("v", data=np.arange(2, dtype="u8"), dims=["x"])
        root.create_array("w", data=np.arange(2, dtype="i4"), dims=["x"], attrs={"a": np.str_("é")})
    report = hs.convert(tmp_path / "a.nc", tmp_path / "b.nc", model="NETCDF3_CLASSIC", allow_loss=True, verify=True)
    assert {loss.node for loss in report.losses} == {"v", "w"}
    with hs.open_group(tmp_path / "b.nc") as root:
        assert list(root) == ["w"]


def test_a_lone_cell_of_any_length_is_an_array(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        kind = file.createVLType("i4", "ragged_t")
        file.createVariable("one", kind, ())[...] = np.array([3], "i4")
    assert h5py.File(tmp_path / "a.nc")["one"].shape == ()
    assert not hs.convert(tmp_path / "a.nc", tmp_path / "a.zarr", verify=True).losses
    with hs.open_group(tmp_path / "a.zarr") as root:
        assert root["one"][()].tolist() == [3]
