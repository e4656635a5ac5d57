"""What means missing stays missing, also where Zarr v2 keeps it in ``fill_value`` alone, as xarray and kerchunk do."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.conversion.append import append_dataset
from hyperslab.errors import Invalid
from old_peers import reads_zarr

TARGETS = {
    "zarr3": ("t.zarr", {"format": "zarr3"}),
    "zarr2": ("t.zarr", {"format": "zarr2"}),
    "netcdf": ("t.nc", {}),
    "nczarr": ("t.nczarr", {"format": "nczarr"}),
    "nczarr draft": ("t.nczarr", {"format": "nczarr", "dialect": "draft"}),
    "hdmf v2": ("t.zarr", {"format": "hdmf", "profile": "v2"}),
    "hdmf v3": ("t.zarr", {"format": "hdmf", "profile": "v3"}),
    "b2nd": ("t.b2nd", {"path": "packed"}),
    "bloscpack": ("t.blp", {"path": "packed"}),
    "blaze": ("t.blaze", {"format": "blaze", "path": "packed"}),
}
WANTED = {
    "packed": np.array([273.15, np.nan, 274.15]),
    "plain": np.array([1.5, np.nan, 2.5]),
    "counts": np.array([0.0, np.nan, 7.0]),
}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Zarr v2 as xarray writes it, with a NaN in each array."""
    dataset = xr.Dataset({name: ("x", cells) for name, cells in WANTED.items()})
    encoding: dict[str, Any] = {
        "packed": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 273.15, "_FillValue": -32767},
        "plain": {"dtype": "f4", "_FillValue": np.float32(1e20)},
        "counts": {"dtype": "i4", "_FillValue": -1},
    }
    dataset.to_zarr(tmp_path / "s.zarr", zarr_format=2, encoding=encoding, consolidated=True)
    assert "_FillValue" not in json.loads((tmp_path / "s.zarr/packed/.zattrs").read_bytes())
    return tmp_path / "s.zarr"


def references(folder: Path) -> Path:
    """The same documents as kerchunk refers to them."""
    refs: dict[str, Any] = {}
    for file in sorted(folder.rglob("*")):
        key = file.relative_to(folder).as_posix()
        if file.is_file() and key != ".zmetadata":
            refs[key] = file.read_text() if file.name.startswith(".z") else [f"{folder.name}/{key}"]
    document = folder.with_suffix(".json")
    document.write_text(json.dumps({"version": 1, "refs": refs}))
    return document


@pytest.mark.covering
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("referred", [False, True])
def test_a_marker_in_the_fill_value_alone_is_converted(
    tmp_path: Path, written: Path, name: str, referred: bool
) -> None:
    target, how = TARGETS[name]
    report = hs.convert(references(written) if referred else written, tmp_path / target, verify=True, **how)
    assert report.losses == ()
    for array, wanted in WANTED.items():
        if how.get("path", array) == array:
            root = hs.open(tmp_path / target)
            found = root if isinstance(root, hs.Array) else root[array]
            np.testing.assert_allclose(found.decoded()[...], wanted, rtol=1e-6)


@reads_zarr
@pytest.mark.parametrize("name", ["zarr3", "zarr2", "netcdf"])
def test_peers_find_the_missing_cells_of_what_was_converted(tmp_path: Path, written: Path, name: str) -> None:
    target, how = TARGETS[name]
    hs.convert(written, tmp_path / target, **how)
    engine: dict[str, Any] = {} if name == "netcdf" else {"engine": "zarr", "consolidated": False}
    with xr.open_dataset(tmp_path / target, **engine) as dataset:
        for array, wanted in WANTED.items():
            np.testing.assert_allclose(dataset[array].values, wanted, rtol=1e-6)


@pytest.mark.parametrize("referred", [False, True])
def test_decoded_cells_are_missing_where_the_fill_value_says_so(written: Path, referred: bool) -> None:
    place = references(written) if referred else written
    for array, wanted in WANTED.items():
        np.testing.assert_allclose(hs.open(place)[array].decoded()[...], wanted, rtol=1e-6)
        found = json.loads(CliRunner().invoke(main, ["get", str(place), array, "--decoded", "--json"]).stdout)["values"]
        assert found[1] in (None, "NaN")


@reads_zarr
@pytest.mark.covering
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("target", ["zarr2", "zarr3", "netcdf"])
@pytest.mark.parametrize("fill", [0, 7, -1])
def test_fill_value_and_marker_may_be_two(tmp_path: Path, version: int, target: str, fill: int) -> None:
    dataset = xr.Dataset({"a": ("x", [0.0, np.nan, 7.0]), "b": ("x", [0.0, np.nan, 7.0])})
    encoding: dict[str, Any] = {name: {"dtype": "i4", "_FillValue": -1} for name in "ab"}
    if version == 3:
        encoding["a"]["fill_value"] = fill
    dataset.to_zarr(tmp_path / "s.zarr", zarr_format=version, encoding=encoding, consolidated=False)
    hs.convert(tmp_path / "s.zarr", tmp_path / "t", format=target, verify=True)
    engine: dict[str, Any] = {} if target == "netcdf" else {"engine": "zarr", "consolidated": False}
    with xr.open_dataset(tmp_path / "t", **engine) as found:
        for name in "ab":
            np.testing.assert_array_equal(found[name].values, [0.0, np.nan, 7.0])


def test_a_source_and_its_conversion_do_not_differ(tmp_path: Path, written: Path) -> None:
    hs.convert(written, tmp_path / "t.zarr", format="zarr3")
    assert not hs.diff(written, tmp_path / "t.zarr")
    assert not hs.diff(tmp_path / "t.zarr", written)


def test_zeros_of_zarr2_without_names_of_dimensions_are_cells(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", format="zarr2") as root:
        root.create_array("a", data=np.array([0, 1], "i4"), fill_value=0)
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr3", verify=True)
    for name in ("a.zarr", "b.zarr"):
        array = hs.open(tmp_path / name)["a"]
        assert array.decoded()[...].tolist() == [0, 1] and not array.attrs


@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_fill_values_of_hdmf_mean_nothing_missing(tmp_path: Path, profile: str) -> None:
    with hs.create(tmp_path / "a.zarr", format="hdmf", profile=profile) as root:
        root.create_array("a", data=np.array([0, 1], "i4"), dims=("x",))
        root.create_array("s", data=["", "b"], dims=("x",))
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr3", verify=True)
    for name in ("a.zarr", "b.zarr"):
        root = hs.open(tmp_path / name)
        assert root["a"].decoded()[...].tolist() == [0, 1] and not root["a"].attrs
        assert root["s"].decoded()[...].tolist() == ["", "b"]


@pytest.mark.parametrize("source", ["zarr3", "netcdf"])
@pytest.mark.parametrize("how", [{}, {"chunks": {"x": 2}}])
def test_a_fill_value_that_marks_nothing_marks_nothing_after_zarr2(
    tmp_path: Path, source: str, how: dict[str, Any]
) -> None:
    with hs.create(tmp_path / "a", format=source) as root:
        root.create_array("a", data=np.array([-1.0, 2.0]), dims=("x",), fill_value=-1.0)
    hs.convert(tmp_path / "a", tmp_path / "b", format="zarr2", verify=True)
    hs.convert(tmp_path / "b", tmp_path / "b2", format="zarr2", verify=True, **how)
    with hs.open(tmp_path / "b2", "r+") as root:
        root["a"].attrs["units"] = "K"
        assert root["a"].decoded()[...].tolist() == [-1.0, 2.0]
    hs.convert(tmp_path / "b2", tmp_path / "c", format=source, verify=True)
    with hs.open(tmp_path / "c") as root:
        assert root["a"].decoded()[...].tolist() == [-1.0, 2.0]
        assert dict(root["a"].attrs) == {"units": "K"}


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1"])
@pytest.mark.parametrize("source", ["netcdf", "nczarr"])
def test_what_netcdf_fills_without_a_marker_is_masked_nowhere(tmp_path: Path, source: str, dtype: str) -> None:
    cells = np.array([1, 2, 3, 4, 5, 255 if dtype == "u1" else 6], dtype)
    with hs.create(tmp_path / "a", format=source) as root:
        root.create_array("a", data=cells, dims=("x",), chunks=(2,))
        root.create_array("gap", shape=(6,), dtype=dtype, dims=("x",), chunks=(2,))[:3] = cells[:3]
    with hs.open(tmp_path / "a") as root:
        wanted = {name: root[name][...] for name in ("a", "gap")}
    assert hs.convert(tmp_path / "a", tmp_path / "b", format="zarr2", verify=True).losses == ()
    assert json.loads((tmp_path / "b/a/.zarray").read_bytes())["fill_value"] is None
    with xr.open_dataset(tmp_path / "b", engine="zarr", consolidated=False) as found:
        assert "_FillValue" not in {**found["a"].encoding, **found["a"].attrs}
        np.testing.assert_array_equal(found["a"].values, cells)
    hs.convert(tmp_path / "b", tmp_path / "c", format=source, verify=True)
    for place in ("b", "c"):
        with hs.open(tmp_path / place) as root:
            for name, there in wanted.items():
                np.testing.assert_array_equal(root[name].decoded()[...], there)
                assert not root[name].attrs


@pytest.mark.parametrize("codec", ["blosc:lz4", "zstd"])
def test_a_chunk_beyond_the_array_makes_up_for_no_chunk_that_is_missing(tmp_path: Path, codec: str) -> None:
    """A killed append leaves such chunks; the fill value of cells that nobody wrote stays, and so no chunk is made."""
    default = np.float32(9.969209968386869e36)
    with hs.create(tmp_path / "a", format="nczarr") as root:
        options: Any = {"chunks": (2,), "codec": codec, "fill_value": default}
        root.create_array("gap", shape=(6,), dtype="f4", dims=("x",), **options)[:4] = [1, 2, 3, 4]
    with hs.open(tmp_path / "a") as root:
        wanted = root["gap"][...]
    assert wanted[4:].tolist() == [default] * 2
    (tmp_path / "a/gap/3").write_bytes((tmp_path / "a/gap/0").read_bytes())
    hs.convert(tmp_path / "a", tmp_path / "b", format="zarr2")
    with hs.open(tmp_path / "b") as root:
        np.testing.assert_array_equal(root["gap"][...], wanted)
    assert not (tmp_path / "b/gap/2").exists()  # what nobody wrote is not written


def test_rows_with_another_marker_are_not_appended(tmp_path: Path, written: Path) -> None:
    hs.convert(written, tmp_path / "t.zarr", format="zarr3")
    with hs.open(tmp_path / "t.zarr", "r+") as root:
        root["plain"].attrs["_FillValue"] = np.float32(-9)
    with pytest.raises(Invalid, match="_FillValue"):
        append_dataset(tmp_path / "t.zarr", written, dim="x")


def test_fields_of_rows_have_no_marker(tmp_path: Path) -> None:
    """The fill value of rows is what unwritten ones read as: zeros in a field of Zarr v2 are not missing."""
    rows = np.array([(0, 1.5), (2, 0.0)], dtype=[("a", "<i4"), ("b", "<f8")])
    with hs.create(tmp_path / "a.zarr", "zarr2") as root:
        root.create_array("rows", data=rows, dims=("x",), fill_value=np.zeros((), rows.dtype)[()])
    hs.convert(tmp_path / "a.zarr", tmp_path / "b", "nczarr", allow_loss=True)
    group = hs.open_group(tmp_path / "b")["rows"]
    assert [dict(group[name].attrs) for name in ("a", "b")] == [{}, {}]
