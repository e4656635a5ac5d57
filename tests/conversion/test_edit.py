"""``edit``: names and attributes of datasets of every writable format, all of a change or nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import hyperslab as hs
from command_line import run
from format_variants import VARIANTS
from hyperslab.conversion.edit import EditReport, edit
from hyperslab.errors import AlreadyExists, Conflict, HyperslabError, Invalid, NotFound, Unsupported
from hyperslab.stores.memory import MemoryStore
from programs import ran

LOCAL = [name for name in VARIANTS if name not in ("mongo", "collections", "deker", "bcolz")] + ["netcdf3", "zip"]
CELLS = np.arange(12, dtype="f4").reshape(3, 4)


def make(folder: Path, name: str) -> Path:
    """A dataset of a variant with an array along its coordinate and a dimension without one."""
    variant = VARIANTS.get(name)
    suffix = {"netcdf3": ".nc", "zip": ".zarr.zip"}.get(name) or (variant.suffix if variant else "")
    options: dict[str, Any] = dict(variant.options) if variant else {}
    options |= {"model": "NETCDF3_64BIT_OFFSET"} if name == "netcdf3" else {}
    with hs.create(folder / f"a{suffix}", **options) as root:
        root.create_array("lat", data=np.arange(3.0), dims=["lat"], attrs={"units": "degrees_north"})
        about = {"units": "K", "coordinates": "lat", "cell_methods": "lat: x: mean (of lat)", "history": "made"}
        root.create_array("t", data=CELLS, dims=["lat", "x"], attrs=about)
    return folder / f"a{suffix}"


def state(place: Path | str) -> dict[str, Any]:
    """Dimensions, attributes and cells of every array."""
    with hs.open_group(place) as root:
        arrays = dict(root.arrays())
        return {n: (a.dims, {k: str(v) for k, v in a.attrs.items()}, a[...].tolist()) for n, a in arrays.items()}


@pytest.mark.parametrize("name", LOCAL)
def test_attributes(tmp_path: Path, name: str) -> None:
    place = make(tmp_path, name)
    report = edit(
        place,
        set={"t:units": "degC", "t:level": np.int16(3), "*:_FillValue": -1},
        rename_attributes={"lat:units": "unit"},
        delete=["t:cell_*"],
        append={"t:history": ", changed", ":note": "new"},
    )
    assert len(report.changes) == 8 and "/t:units is 'degC', it was 'K'" in report.changes
    with hs.open_group(place) as root:
        attrs = dict(root["t"].attrs)
        assert attrs["_FillValue"].dtype == "f4" and attrs.pop("_FillValue") == -1
        wanted = {"units": "degC", "coordinates": "lat", "history": "made, changed", "level": 3}
        assert {key: value for key, value in attrs.items() if not key.startswith("_")} == wanted
        assert attrs["level"].dtype == "i2"
        assert root["lat"].attrs["unit"] == "degrees_north" and "units" not in root["lat"].attrs
        assert np.array_equal(root["t"][...], CELLS)
    assert edit(place, set={"t:units": "degC"}).changes == ()
    edit(place, delete=["*:_FillValue"])
    assert "_FillValue" not in state(place)["t"][1]


@pytest.mark.parametrize("name", ["zarr2", "zarr3", "netcdf"])
def test_whole_numbers_where_floats_were(tmp_path: Path, name: str) -> None:
    """Who reads it may take floats alone, as pynwb does; :=1 of JSON says no type."""
    place = make(tmp_path, name)
    edit(place, set={"t:offset": 0.5, "t:single": np.float32(2.5), "t:ends": np.array([0.5, 1.5]), "t:count": 3})
    changes = edit(place, set={"t:offset": 1, "t:single": 4, "t:ends": [2, 3], "t:count": 4}).changes
    assert len(changes) == 4 and "/t:offset is 1.0" in changes[0]
    with hs.open_group(place) as root:
        attrs = root["t"].attrs
        kept = [np.asarray(attrs[each]).dtype.kind for each in ("offset", "single", "ends", "count")]
        assert kept == ["f", "f", "f", "i"] and np.asarray(attrs["single"]).dtype == np.float32
        assert (attrs["offset"], attrs["single"], np.asarray(attrs["ends"]).tolist()) == (1.0, 4.0, [2.0, 3.0])
    notes = {
        "offset": ("1", "floats to text"),
        "single": (2**24 + 1, "floats to integers"),
        "ends": (np.int16(1), "floats to integers"),
        "count": (0.5, "integers to floats"),
        "units": (1, "text to integers"),
    }
    for attribute, (value, note) in notes.items():
        changes = edit(place, set={f"t:{attribute}": value}, dry_run=True).changes
        assert len(changes) == 2 and changes[1] == f"note: /t:{attribute} changes from {note}"


def test_patterns_that_overlap(tmp_path: Path) -> None:
    place = make(tmp_path, "zarr3")
    assert len(edit(place, delete=["t:units", "*:units"]).changes) == 2
    assert "units" not in {**state(place)["t"][1], **state(place)["lat"][1]}
    edit(place, set={"*:units": "1"})
    edit(place, rename_attributes={"t:units": "unit"}, delete=["*:units"])
    assert state(place)["t"][1]["unit"] == "1" and "units" not in state(place)["lat"][1]
    with pytest.raises(NotFound, match="no attribute 't:units'"):
        edit(place, delete=["t:units"])


@pytest.mark.parametrize("value", [1e300, -1e300])
def test_numbers_that_the_cells_cannot_have(tmp_path: Path, value: float) -> None:
    place = make(tmp_path, "zarr3")
    with pytest.raises(Invalid, match="is no float32"):
        edit(place, set={"t:_FillValue": value})
    edit(place, set={"t:_FillValue": float("inf"), "t:level": np.array([1.0], "f4")})
    with pytest.raises(Invalid, match="does not fit"):
        edit(place, append={"t:level": value})


@pytest.mark.parametrize("name", LOCAL)
def test_names(tmp_path: Path, name: str) -> None:
    place = make(tmp_path, name)
    if name.startswith("hdmf"):
        with pytest.raises(Unsupported, match="references that name its arrays") as caught:
            edit(place, rename_variables={"t": "air"})
        assert "pynwb" in str(caught.value)
        edit(place, rename_dimensions={"x": "lon"})
        assert state(place)["t"][0] == ("lat", "lon")
        return
    before = state(place)
    dry = edit(place, rename_dimensions={"lat": "latitude"}, rename_variables={"lat": "latitude"}, dry_run=True)
    assert state(place) == before
    done = edit(place, rename_dimensions={"lat": "latitude"}, rename_variables={"lat": "latitude"})
    assert done == EditReport(dry.url, dry.changes, False) and len(done.changes) == 4
    edit(place, rename_variables={"t": "air"}, rename_dimensions={"x": "lon"})
    after = state(place)
    assert set(after) == {"latitude", "air"}
    dims, attrs, cells = after["air"]
    assert dims == ("latitude", "lon") and cells == CELLS.tolist()
    assert attrs["coordinates"] == "latitude" and attrs["cell_methods"] == "latitude: lon: mean (of latitude)"
    assert after["latitude"][0] == ("latitude",) and not hs.check(place)
    assert sorted(os.listdir(tmp_path)) == [place.name]


def test_what_is_edited_is_what_xarray_renames(tmp_path: Path) -> None:
    place = make(tmp_path, "netcdf")
    with xr.open_dataset(place) as whole:
        wanted = whole.load().rename({"lat": "latitude", "t": "air", "x": "lon"})
    wanted["air"].attrs["cell_methods"] = "latitude: lon: mean (of latitude)"
    names = {"lat": "latitude", "t": "air"}
    edit(place, rename_variables=names, rename_dimensions={"lat": "latitude", "x": "lon"})
    with xr.open_dataset(place) as found:
        xr.testing.assert_identical(found.load(), wanted)


def test_names_in_groups_and_a_circle(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_dimension("x", 2)
        root.create_array("a", data=[1, 2], dims=["x"], attrs={"ancillary_variables": "b"})
        root.create_array("b", data=[3, 4], dims=["x"], attrs={"ancillary_variables": "a /g/c"})
        root.create_array("g/c", data=[5, 6], dims=["x"], attrs={"ancillary_variables": "a"})
        root.create_array("g/a", data=[[7], [8]], dims=["x", "z"])
    hs.convert(tmp_path / "a.nc", tmp_path / "a.zarr")
    for place in (tmp_path / "a.nc", tmp_path / "a.zarr"):
        edit(place, rename_variables={"a": "b", "b": "a", "g/c": "d"}, rename_dimensions={"x": "z", "z": "x"})
        with hs.open(place) as root:
            assert root["a"][0] == 3 and root["b"][0] == 1 and root["g/d"][0] == 5
            assert root["a"].attrs["ancillary_variables"] == "b /g/d"
            assert root["b"].attrs["ancillary_variables"] == "a"
            assert root["g/d"].attrs["ancillary_variables"] == "a"  # the one in its own group
            assert root["g/a"].dims == ("z", "x")


def test_a_renamed_variable_goes_by_either_name(tmp_path: Path) -> None:
    place = make(tmp_path, "netcdf")
    names = {"t": "air", "lat": "t"}
    edit(place, rename_variables=names, set={"air:long_name": "Air", "t:units": "degC"}, delete=["a*:history"])
    with hs.open_group(place) as root:
        assert root["air"].attrs["long_name"] == "Air"
        assert root["air"].attrs["units"] == "degC"  # "t" is who had the name before
        assert root["t"].attrs["units"] == "degrees_north"
        assert "history" not in root["air"].attrs


@pytest.mark.parametrize("name", ["zarr3", "netcdf"])
def test_refusals_touch_nothing(tmp_path: Path, name: str) -> None:
    place = make(tmp_path, name)
    before = state(place)
    for changes, kind, said in (
        ({"rename_variables": {"q": "r"}}, NotFound, "there are lat, t"),
        ({"rename_variables": {"t": "lat"}}, AlreadyExists, "/lat exists"),
        ({"rename_variables": {"t": "a/b"}}, Invalid, "is not a name"),
        ({"rename_dimensions": {"y": "r"}}, NotFound, "no dimension 'y'"),
        ({"rename_dimensions": {"x": "lat"}}, AlreadyExists, "there is a dimension 'lat'"),
        ({"rename_attributes": {"t:unit": "u"}}, NotFound, "did you mean 'units'"),
        ({"rename_attributes": {"t:units": "history"}}, AlreadyExists, "there is an attribute"),
        ({"delete": ["t:nothing"]}, NotFound, "no attribute"),
        ({"set": {"units": "K"}}, Invalid, "names no attribute"),
        ({"set": {"u:units": "K"}}, NotFound, "no variable is named 'u'"),
        ({"append": {"t:units": 3}}, Invalid, "text and numbers"),
        ({"set": {"t:units": "C"}, "rename_variables": {"t": "lat"}}, AlreadyExists, "exists"),
    ):
        with pytest.raises(kind, match=said):
            edit(place, **changes)  # type: ignore[arg-type]
        assert state(place) == before
    with pytest.raises(NotFound, match="no variable is named 'airs'"):
        edit(place, rename_variables={"t": "air"}, set={"airs:units": "C"})
    note = edit(place, rename_variables={"lat": "y"}, dry_run=True).changes[-1]
    assert note == "note: y is the coordinate of lat no more; rename the dimension as well to keep it"


def test_writers_beside_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hyperslab.conversion import edit as module

    place = make(tmp_path, "zarr3")
    real = module._clone

    def clone(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        with hs.open(place, "r+") as root:
            root["t"][0, 0] = 99

    monkeypatch.setattr(module, "_clone", clone)
    with pytest.raises(Conflict, match="others wrote"):
        edit(place, rename_variables={"t": "air"})
    assert state(place)["t"][2][0][0] == 99 and sorted(os.listdir(tmp_path)) == [place.name]
    monkeypatch.undo()
    edit(place, rename_variables={"t": "air"})
    assert state(place)["air"][2][0][0] == 99


@pytest.mark.parametrize("name", ["zarr3", "blaze"])
def test_writers_wait_while_the_folders_change_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Else a chunk would go into the old folder, between the last look at it and its removal."""
    from hyperslab.stores import building as module

    place = make(tmp_path, name)
    real, others = module.exchange, []

    def write() -> None:
        with hs.open_group(place, "r+") as root:
            root["t"][0, 0] = 99

    def exchange(first: str, second: str) -> bool:
        others.append(threading.Thread(target=write))
        others[0].start()
        others[0].join(0.3)  # ample for a write that nobody keeps waiting
        return bool(real(first, second))

    monkeypatch.setattr(module, "exchange", exchange)
    edit(place, set={"*:note": "new"})
    others[0].join()
    after = state(place)["t"]
    assert after[1]["note"] == "new" and after[2][0][0] == 99


def test_what_goes_away_amid_an_edit_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So do the temporary files of writers beside, between two steps of an edit."""
    place = make(tmp_path, "zarr3")
    real, passing = os.link, place / "t" / ".passing.tmp"
    passing.write_bytes(b"")

    def link(source: str, target: str, **options: Any) -> None:
        if os.path.basename(source) == passing.name:
            passing.unlink()
        real(source, target, **options)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(Conflict, match="others wrote"):
        edit(place, set={"*:note": "new"})
    assert not passing.exists() and "note" not in state(place)["t"][1]


def test_places_that_are_no_folders() -> None:
    store = MemoryStore()
    with hs.create(store, "zarr3") as root:
        root.create_array("t", data=CELLS, dims=["lat", "x"])
    edit(store, rename_variables={"t": "air"}, rename_dimensions={"x": "lon"})
    with hs.open(store) as root:
        assert root["air"].dims == ("lat", "lon")


def test_a_commit_of_a_repository(tmp_path: Path) -> None:
    pytest.importorskip("icechunk")
    url = f"icechunk+file://{tmp_path}/repo"
    hs.convert(make(tmp_path, "zarr3"), url)
    before = len(list(hs.history(url)))
    edit(url, rename_variables={"t": "air"}, set={"t:units": "degC"})
    assert len(list(hs.history(url))) == before + 1
    with hs.open(url) as root:
        assert root["air"].attrs["units"] == "degC"


def test_objects_of_databases_change_one_at_a_time(mongo: Any) -> None:
    url = f"{mongo.url}/{mongo.database()}#one"
    with hs.create(url) as root:
        root.create_array("t", data=CELLS, dims=["lat", "x"], attrs={"units": "K"})
        root.create_array("u", data=CELLS, dims=["lat", "x"])
    edit(url, set={"t:units": "C"})
    with hs.open_group(url) as root:
        assert root["t"].attrs["units"] == "C"
    with pytest.raises(Unsupported, match="one by one"):
        edit(url, set={"*:units": "D"})
    with hs.open_group(url) as root:
        assert root["t"].attrs["units"] == "C"


KILLS = """
import os, shutil, sys
sys.path.insert(0, sys.argv[2])
from dying import killed_at
from test_edit import edit, make, state
from pathlib import Path

folder, name = Path(sys.argv[1]), sys.argv[3]
sound = make(folder, name)
kept = folder / "kept"
(shutil.copytree if sound.is_dir() else shutil.copy2)(sound, kept)
CHANGES = {"rename_variables": {"t": "air"}, "rename_dimensions": {"x": "lon"}, "set": {"lat:units": "1"}}
old = state(sound)
edit(sound, **CHANGES)
new = state(sound)
number = 1
while True:
    (shutil.rmtree if sound.is_dir() else os.unlink)(sound)
    (shutil.copytree if kept.is_dir() else shutil.copy2)(kept, sound)
    died = killed_at(number, lambda: None, lambda _: edit(sound, **CHANGES))
    found = state(sound)
    assert found in ((old, new) if died else (new,)), (number, found)
    if found == old:
        edit(sound, **CHANGES)
        assert state(sound) == new
    if not died:
        break
    number += 1 if number < 40 else 7
assert number > 2, number
left = [each for each in os.listdir(folder) if each not in (sound.name, "kept")]
assert not left, left
"""


@pytest.mark.parametrize("name", ["zarr3", "nczarr current", "netcdf", "bloscpack"])
def test_killed_at_any_time_it_is_old_or_new(tmp_path: Path, name: str) -> None:
    result = ran(KILLS, tmp_path, Path(__file__).parent, name)
    assert result.returncode == 0, result.stderr


# -- on the command line -----------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    place = make(tmp_path, "netcdf")
    options = ["--rename-variable", "t=air", "--set", "t:units=degC", "--set", "t:valid_range:=[0, 300]"]
    options += ["--set", "t:flags:i2=1,2", "--delete", "t:history", "--append", ":history=ed=ited"]
    dry = run("edit", place, *options, "--dry-run")
    assert dry.exit_code == 0 and "nothing was changed" in dry.stderr and set(state(place)) == {"lat", "t"}
    done = run("edit", place, *options)
    assert done.exit_code == 0 and done.stdout == dry.stdout and len(done.stdout.splitlines()) == 6, done.stderr
    with netCDF4.Dataset(place) as file:
        assert file["air"].units == "degC" and file["air"].valid_range.dtype == "f4"
        assert file["air"].flags.dtype == "i2" and file.history == "ed=ited" and "history" not in file["air"].ncattrs()
    facts = json.loads(run("edit", place, "--delete", "air:flags", "--json").stdout)
    assert facts["schema"] == "hyperslab.edit/1" and facts["changes"] == [
        "/air:flags is deleted: it was [1, 2] (int16)"
    ]
    for wrong, code in (
        ([], 2),
        (["--set", "air=3"], 2),
        (["--set", "air:n:i1=300"], 2),
        (["--set", "air:n:=x"], 2),
        (["--rename-variable", "air"], 2),
        (["--rename-variable", "sky=t"], 3),
        (["--rename-variable", "air=lat"], 4),
    ):
        assert run("edit", place, *wrong).exit_code == code


@pytest.mark.interop
def test_the_same_as_nco(tmp_path: Path) -> None:
    ours = make(tmp_path, "netcdf")
    theirs = tmp_path / "nco.nc"
    shutil.copy(ours, theirs)
    subprocess.run(["ncrename", "-h", "-v", "t,air", "-d", "x,lon", "-a", "lat@units,unit", theirs], check=True)
    subprocess.run(["ncatted", "-h", "-a", "level,air,o,s,3", "-a", "units,air,a,c, or C", theirs], check=True)
    edit(ours, rename_variables={"t": "air"}, rename_dimensions={"x": "lon"}, rename_attributes={"lat:units": "unit"})
    edit(ours, set={"air:level": np.int16(3)}, append={"air:units": " or C"})
    theirs_now = state(theirs)
    theirs_now["air"][1]["cell_methods"] = "lat: lon: mean (of lat)"  # which NCO lets be
    assert state(ours) == theirs_now


# -- walks -------------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["t", "lat", "x", "air", "lon", "y"])
STEPS = st.one_of(
    st.tuples(st.just("rename_variables"), NAMES, NAMES),
    st.tuples(st.just("rename_dimensions"), NAMES, NAMES),
    st.tuples(st.just("set"), NAMES, st.sampled_from(["K", "1", "lat x"])),
)


@pytest.mark.parametrize("name", ["collections", "deker"])
def test_arrays_of_collections_change_one_at_a_time(tmp_path: Path, name: str) -> None:
    place = tmp_path / "a"
    with hs.create(place, **VARIANTS[name].options) as root:
        for each in ("s", "t"):
            root.create_array(each, data=CELLS, dims=["lat", "x"], attrs={"units": "K"})
    with pytest.raises(Unsupported, match="2 nodes change"):
        edit(place, set={"s:units": "degC", "t:units": "degC"})
    assert hs.open_group(place)["s"].attrs["units"] == "K"
    edit(place, set={"s:units": "degC"})
    assert hs.open_group(place)["s"].attrs["units"] == "degC"


@pytest.mark.parametrize("name", ["zarr2", "nczarr current", "nczarr draft", "netcdf", "blaze", "bloscpack", "b2nd"])
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_walks_give_what_they_give_in_memory(
    tmp_path_factory: Any, name: str, steps: list[tuple[str, str, str]]
) -> None:
    place = make(tmp_path_factory.mktemp("walk"), name)
    store = MemoryStore()
    with hs.create(store, "zarr3") as root, hs.open_group(place) as source:
        for array in (source["lat"], source["t"]):
            root.create_array(array.name, data=array[...], dims=array.dims, attrs=dict(array.attrs))
    for kind, old, new in steps:
        changes: dict[str, Any] = {kind: {f"{old}:coordinates" if kind == "set" else old: new}}
        outcomes = []
        for each in (store, place):
            try:
                edit(each, **changes)
                outcomes.append("done")
            except HyperslabError as error:
                outcomes.append(type(error).__name__)
        if outcomes[1] in ("Invalid", "Unsupported") and outcomes[0] == "done":
            return  # what a format of one array, or of declared dimensions, does not take
        assert outcomes[0] == outcomes[1], (kind, old, new)
        assert state(place) == state(store)
