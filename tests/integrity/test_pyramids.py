"""Arrays of a group that give one name of a dimension several lengths, as the levels of an image pyramid do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

import hyperslab as hs
from pyramids import LEVELS, level, write_pyramid


def stored(place: Path) -> dict[str, bytes]:
    """Every file of a dataset but locks."""
    files = (path for path in place.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def change_shape(place: Path, shape: list[int]) -> None:
    """Another shape in the document of an array, and nothing else."""
    document = json.loads((place / "zarr.json").read_text())
    (place / "zarr.json").write_text(json.dumps(document | {"shape": shape}))


@pytest.mark.parametrize("version", [2, 3])
def test_a_pyramid_is_sound(tmp_path: Path, version: int) -> None:
    place = write_pyramid(tmp_path / "a.zarr", version)
    report = hs.check(place, deep=True)
    assert not report
    named = {(note.node, note.kind) for note in report.notes}
    assert named == ({("", "dimension-sizes"), ("labels/nuclei", "dimension-sizes")} if version == 3 else set())
    before = stored(place)
    assert not hs.repair(place, dry_run=False)
    assert stored(place) == before


def test_a_repair_of_other_damage_leaves_the_levels_alone(tmp_path: Path) -> None:
    place = write_pyramid(tmp_path / "a.zarr")
    before = stored(place)
    (place / "s0" / "c" / "0" / "0" / "0" / "0" / "0").write_bytes(b"cut")
    (place / "s1" / "c" / "0" / "0" / "0" / "0" / "9").write_bytes(b"behind the end of s1, and of every level")
    mends = hs.repair(place, dry_run=False)
    assert {mend.kind for mend in mends} == {"corrupt-chunk", "outside-grid"}
    assert not hs.check(place, deep=True)
    lost = "s0/c/0/0/0/0/0"
    assert stored(place) == {key: value for key, value in before.items() if key != lost}
    root = zarr.open_group(place, mode="r")
    for number, name in enumerate(LEVELS[1:], 1):
        assert np.array_equal(root[name][...], level(number))  # type: ignore[index]


def test_a_chunk_behind_the_end_of_a_level_does_not_make_it_longer(tmp_path: Path) -> None:
    """Nothing says which of the other levels it should be as long as."""
    place = write_pyramid(tmp_path / "a.zarr", labels=False)
    (place / "s2" / "c" / "0" / "0" / "0" / "0" / "1").write_bytes(b"")
    hs.repair(place, dry_run=False)
    assert hs.open(place)["s2"].shape == level(2).shape
    assert not hs.check(place, deep=True)


@pytest.mark.parametrize("is_stored", [True, False])
def test_an_array_that_was_cut_short_is_made_as_long_as_its_chunks_say(tmp_path: Path, is_stored: bool) -> None:
    place, cells = tmp_path / "a.zarr", np.arange(1, 49.0).reshape(8, 6)
    root = zarr.open_group(place, mode="w", zarr_format=3)
    for name, values, dims in (("air", cells, ("t", "x")), ("age", cells[:, 0], ("t",)), ("t", np.arange(8), ("t",))):
        array = root.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=(3,) * values.ndim, dimension_names=dims
        )
        array[...] = values
    if is_stored:
        change_shape(place / "air", [6, 6])
        assert hs.check(place).kinds == {"dimension-sizes": 1}
        (mend, *_) = hs.repair(place)
        assert mend.action is not None and mend.action.startswith("make /air from (6, 6) to (8, 6)")
    else:  # the other arrays are longer, which alone proves nothing
        root["air"].resize((6, 6))  # type: ignore[union-attr]
        assert not hs.check(place, deep=True)
    hs.repair(place, dry_run=False)
    assert not hs.check(place, deep=True)
    assert np.array_equal(hs.open(place)["air"][...], cells if is_stored else cells[:6])


def test_an_unlimited_dimension_that_the_group_declares_has_one_length(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_dimension("t")
        root.create_array("air", data=np.ones((2, 3)), dims=("t", "x"))
        root.create_array("t", data=np.arange(2), dims=("t",))
        root["air"].append(np.ones((2, 3)))
    assert hs.check(tmp_path / "a.zarr").kinds == {"dimension-sizes": 1}
    before = stored(tmp_path / "a.zarr")
    (mend,) = hs.repair(tmp_path / "a.zarr", dry_run=False)
    assert not mend.done and mend.action is None and "append to the shorter arrays" in str(mend.remedy)
    assert "removal from the front has stopped, remove the same rows from the longer arrays" in str(mend.remedy)
    assert stored(tmp_path / "a.zarr") == before


@pytest.mark.parametrize("format", ["nczarr", "netcdf", "zarr2"])
def test_a_pyramid_that_was_converted_is_sound(tmp_path: Path, format: str) -> None:
    suffix = {"nczarr": "nczarr", "netcdf": "nc", "zarr2": "zarr"}[format]
    place, back = tmp_path / f"b.{suffix}", tmp_path / "c.zarr"
    hs.convert(write_pyramid(tmp_path / "a.zarr"), place, format=format, allow_loss=True)
    hs.convert(place, back, format="zarr3", allow_loss=True)
    for each in (place, back):
        assert not hs.check(each, deep=True)
        before = stored(each) if each.is_dir() else {}
        assert not hs.repair(each, dry_run=False)
        assert (stored(each) if each.is_dir() else {}) == before
    for number, name in enumerate(LEVELS):
        assert np.array_equal(hs.open(back)[name][...], level(number))
