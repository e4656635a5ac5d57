"""Commands on image pyramids, whose levels have the same dimensions in different sizes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from command_line import document, run
from hyperslab.errors import AlreadyExists, Invalid, SelectionError
from pyramids import IMAGE, LEVELS, level, write_pyramid

SIZES = "'y', which has several sizes: 4 in labels/nuclei/s2, s2; 8 in labels/nuclei/s1, s1; 16 in labels/nuclei/s0, s0"


# -- selections --------------------------------------------------------------------------------------------------------


def test_positions_are_not_taken_from_levels_of_several_sizes(tmp_path: Path) -> None:
    place, target = write_pyramid(tmp_path / "a.zarr"), tmp_path / "b.zarr"
    result = run("convert", place, target, "-s", "y=1..3")
    assert result.exit_code == 2 and SIZES in result.stderr and "-v s0 or --path s0" in result.stderr
    with pytest.raises(SelectionError, match="choose arrays of one size"):
        hs.convert(place, target, select={"y": slice(1, 3)})
    assert not target.exists()
    for number, (word, name) in enumerate((("-v", "s1"), ("--path", "s1"))):
        assert run("convert", place, f"{target}{number}.zarr", word, name, "-s", "y=1..3").exit_code == 0
        assert np.array_equal(hs.open(f"{target}{number}.zarr")["s1"][...], level(1)[..., 1:3, :])
    assert run("convert", place, target, "-s", "t=1", "-s", "z=0..2", "-s", "y=..").exit_code == 0
    for number, name in enumerate(LEVELS):
        assert np.array_equal(hs.open(target)[name][...], level(number)[1, :, :2])


def test_a_channel_that_labels_have_not(tmp_path: Path) -> None:
    place, target = write_pyramid(tmp_path / "a.zarr"), tmp_path / "b.zarr"
    result = run("convert", place, target, "-s", "c=1")
    assert result.exit_code == 2 and "(-x 'labels/**')" in result.stderr and "2 in s0, s1, s2" in result.stderr
    assert run("convert", place, target, "-s", "c=1", "-x", "labels/**").exit_code == 0
    assert np.array_equal(hs.open(target)["s2"][...], level(2)[:, 1])


def test_labels_mean_the_same_in_all_sizes(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        for group, step in (("fine", 1), ("coarse", 2)):
            root.create_array(f"{group}/y", data=np.arange(0.0, 8, step), dims=("y",))
            root.create_array(f"{group}/field", data=np.arange(0.0, 8, step), dims=("y",))
    assert run("convert", tmp_path / "a.zarr", tmp_path / "b.zarr", "-s", "y=2.0..6.0").exit_code == 0
    root = hs.open(tmp_path / "b.zarr")
    assert [*root["fine/field"][...]] == [2, 3, 4, 5, 6] and [*root["coarse/field"][...]] == [2, 4, 6]
    assert run("convert", tmp_path / "a.zarr", tmp_path / "c.zarr", "-s", "y=2..6").exit_code == 2


def test_positions_of_dimensions_without_a_name_are_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing says that those of two arrays are one dimension."""
    place = write_pyramid(tmp_path / "a.zarr", 2, labels=False)
    assert run("convert", place, tmp_path / "b.zarr", "-s", "dim_3=1..3").exit_code == 0
    assert "the same positions of dim_3 in arrays of several sizes: 4 in s2; 8 in s1; 16 in s0" in caplog.text


def test_aggregate_names_the_sizes_and_the_remedy(tmp_path: Path) -> None:
    place, target = write_pyramid(tmp_path / "a.zarr"), tmp_path / "b.zarr"
    result = run("aggregate", place, target, "--how", "max", "--over", "z")
    assert result.exit_code == 8 and "'y' has several: 4 in s2; 8 in s1; 16 in s0" in result.stderr
    assert "-v NAME takes one" in result.stderr
    for number, name in enumerate(LEVELS):
        assert run("aggregate", place, target, "--how", "max", "--over", "z", "-v", name, "--overwrite").exit_code == 0
        assert np.array_equal(hs.open(target)[name][...], level(number).max(axis=2))


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_info_shows_all_sizes_of_a_dimension(tmp_path: Path) -> None:
    place = write_pyramid(tmp_path / "a.zarr")
    shown = "dimensions: t: 2, c: 2, z: 3, y: 4 or 8 or 16, x: 6 or 12 or 24, labels/nuclei/c: 1\n"
    assert shown in run("info", place).stdout
    facts = document("info", place)["dimensions"]
    assert facts["y"] == {"size": 16, "unlimited": False, "sizes": [4, 8, 16]}
    assert facts["t"] == {"size": 2, "unlimited": False}
    assert "dimensions: t: 2, c: 2, z: 3, y: 8, x: 12\n" in run("info", place, "-v", "/s1").stdout
    with hs.open_group(place, "r+") as root:
        root["s0"].append(IMAGE, "t")
    assert "dimensions: t: 2 or 4, c: 2" in run("info", place).stdout


def test_a_dump_compiles_to_the_same_dimensions(tmp_path: Path) -> None:
    place, made = write_pyramid(tmp_path / "a.zarr"), tmp_path / "made.nc"
    (tmp_path / "a.cdl").write_text(run("dump", place).stdout)
    subprocess.run(["ncgen", "-4", "-o", made, tmp_path / "a.cdl"], check=True)
    ours = run("dump", place, "--header").stdout
    theirs = subprocess.run(["ncdump", "-h", made], check=True, capture_output=True, text=True).stdout
    for line in ("ushort s1(t, c, z, y@8, x@12) ;", "y@4 = 4 ;", "y = 16 ;", "c = 1 ;"):
        assert line in ours and line in theirs
    for number, name in enumerate(LEVELS):
        assert np.array_equal(hs.open(made)[name][...], level(number))
        assert np.array_equal(hs.open(made)[f"labels/nuclei/{name}"][...], level(number)[:, :1])


# -- dimensions without a name -----------------------------------------------------------------------------------------


def test_an_append_along_a_dimension_without_a_name(tmp_path: Path) -> None:
    place = write_pyramid(tmp_path / "a.zarr", 2)
    shutil.copytree(place, tmp_path / "b.zarr")
    result = run("append", tmp_path / "b.zarr", place)
    assert result.exit_code == 2 and "name it by --dim: there are dim_0, dim_1" in result.stderr
    result = run("append", tmp_path / "b.zarr", place, "--dim", "dim_0")
    assert result.exit_code == 0 and "2 rows along dim_0" in result.output
    root = hs.open(tmp_path / "b.zarr")
    for number, name in enumerate(LEVELS):
        assert np.array_equal(root[name][...], np.concatenate([level(number)] * 2))
    assert run("append", tmp_path / "b.zarr", place, "--dim", "dim_1", "--path", "s1").exit_code == 2


def test_isel_and_append_take_the_place_of_a_dimension(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        array = root.create_array("a", data=IMAGE[0, 0], dims=("z", None, None))
        assert np.array_equal(array.isel(dim_1=slice(2, 5), z=1), IMAGE[0, 0, 1, 2:5])
        assert np.array_equal(array.isel(dim_2=[3, 1]), IMAGE[0, 0][..., [3, 1]])
        with pytest.raises(Invalid, match="no dimension 'dim_0'"):
            array.isel(dim_0=1)
        array.append(IMAGE[0, 0, :, :1], "dim_1")
        assert array.shape == (3, 17, 24)


def test_dimensions_get_their_first_names(tmp_path: Path) -> None:
    place = write_pyramid(tmp_path / "a.zarr", 2)
    names = [word for axis, name in enumerate("tczyx") for word in ("--rename-dimension", f"dim_{axis}={name}")]
    result = run("edit", place, *names)
    assert result.exit_code == 0 and "dimension dim_0, which has no name in 6 arrays, is called t now" in result.output
    root = hs.open(place)
    for number, name in enumerate(LEVELS):
        assert root[name].dims == root[f"labels/nuclei/{name}"].dims == tuple("tczyx")
        assert np.array_equal(root[name].isel(t=1), level(number)[1])
    assert run("edit", place, "--rename-dimension", "dim_0=t").exit_code == 3
    assert run("edit", place, "--rename-dimension", "t=time").exit_code == 0


def test_first_names_in_one_group(tmp_path: Path) -> None:
    place = write_pyramid(tmp_path / "a.zarr", 2)
    hs.edit(place, rename_dimensions={"labels/nuclei/dim_1": "label"})
    root = hs.open(place)
    assert root["labels/nuclei/s1"].dims == (None, "label", None, None, None) and root["s1"].dims == (None,) * 5
    with pytest.raises(AlreadyExists, match="'same'"):
        hs.edit(place, rename_dimensions={"dim_0": "same", "dim_2": "same"})


@pytest.mark.parametrize("suffix", ["zarr", "blp", "blaze", "b2nd"])
def test_first_names_in_formats_of_one_array(tmp_path: Path, suffix: str) -> None:
    place = tmp_path / f"a.{suffix}"
    with hs.create(place) as root:
        root.create_array("a", data=IMAGE[0, 0])
    hs.edit(place, rename_dimensions={"dim_1": "y"})
    array = hs.open_array(place, path="a")
    assert array.dims == (None, "y", None) and np.array_equal(array[...], IMAGE[0, 0])
    assert not hs.check(place, deep=True)
