"""The variables without which a variable loses its meaning, by CF, UGRID and for discrete samples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import FormatError
from hyperslab.group.cf_variables import companions_of, find_places, global_attributes, keep_references
from hyperslab.stores import MemoryStore


def array(group: hs.Group, name: str, dims: tuple[str, ...] = (), data: Any = None, **attrs: object) -> hs.Array:
    sizes = {"time": 2, "lev": 3, "lat": 4, "lon": 5, "bnds": 2, "x": 5, "y": 4, "station": 3, "obs": 6}
    cells = np.zeros([sizes.get(dim, 2) for dim in dims]) if data is None else data
    return group.create_array(name, data=cells, dims=dims, attrs=attrs)


def names(*arrays: hs.Array) -> set[str]:
    return {each.path for each in companions_of(arrays)}


def test_all_that_attributes_name_comes_along_and_what_these_name() -> None:
    root = hs.create(MemoryStore())
    about = {
        "grid_mapping": "crs: lat lon",
        "cell_measures": "area: area volume: not_there",
        "ancillary_variables": "t_err",
        "coordinates": "height",
    }
    t = array(root, "t", ("time", "lev", "lat", "lon"), **about)
    array(root, "t_err", ("time", "lev", "lat", "lon"), ancillary_variables="t_flag t")
    array(root, "t_flag", ("time",))
    array(root, "time", ("time",), climatology="time_bnds")
    array(root, "time_bnds", ("time", "bnds"))
    array(root, "lev", ("lev",), formula_terms="a: a b: b ps: ps", bounds="lev_bnds")
    array(root, "lev_bnds", ("lev", "bnds"), formula_terms="a: a_bnds b: b_bnds ps: ps")
    for name in ("a", "b"):
        array(root, name, ("lev",))
        array(root, f"{name}_bnds", ("lev", "bnds"))
    array(root, "ps", ("time", "lat", "lon"))
    array(root, "lat", ("lat",), bounds="lat_bnds")
    array(root, "lat_bnds", ("lat", "bnds"))
    array(root, "lon", ("lon",))
    array(root, "crs")
    array(root, "area", ("lat", "lon"))
    array(root, "height")
    array(root, "other", ("time", "lat", "lon"))
    vertical = {"lev", "lev_bnds", "a", "a_bnds", "b", "b_bnds", "ps"}
    near = {"time", "time_bnds", "lat", "lat_bnds", "lon", "crs", "area", "height"}
    assert names(t) == near | vertical | {"t_err", "t_flag"}
    assert names(root["other"]) == {"time", "time_bnds", "lat", "lat_bnds", "lon"}
    assert names(t, root["other"], root["lat"]) == names(t) - {"lat"}


def test_coordinates_are_those_of_xarray(tmp_path: Path) -> None:
    source = xr.Dataset(
        {
            "t": (("time", "y", "x"), np.zeros((2, 4, 5)), {"grid_mapping": "crs"}),
            "crs": ((), 0, {"grid_mapping_name": "latitude_longitude"}),
        },
        {
            "lat": (("y", "x"), np.zeros((4, 5)), {"bounds": "lat_bnds"}),
            "lon": (("y", "x"), np.zeros((4, 5))),
            "lat_bnds": (("y", "x", "four"), np.zeros((4, 5, 4))),
            "time": ("time", [0, 1], {"units": "days since 2000-01-01"}),
            "run": ((), 7),
        },
    )
    source.to_netcdf(tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", decode_coords="all") as theirs, hs.open(tmp_path / "a.nc") as root:
        assert names(root["t"]) == set(map(str, theirs.coords))


def test_the_nearest_of_a_name_and_paths_are_found_across_groups() -> None:
    root = hs.create(MemoryStore())
    array(root, "lat", ("lat",))
    array(root, "crs")
    inner = root.create_group("model/run")
    array(root["model"], "lon", ("lon",))
    array(inner, "lat", ("lat",))
    t = array(inner, "t", ("lat", "lon"), coordinates="/model/lon ../height /gone ../../../crs", grid_mapping="crs")
    array(root["model"], "height")
    assert names(t) == {"model/run/lat", "model/lon", "crs", "model/height"}


def test_what_no_name_can_be_is_passed_over() -> None:
    root = hs.create(MemoryStore())
    t = array(root, "t", ("lat", "b\\d"), coordinates=".. a\\b \0 //", bounds=3, ancillary_variables="t t")
    assert names(t) == set()


def test_meshes_bring_their_topology() -> None:
    root = hs.create(MemoryStore())
    about: dict[str, object] = {"cf_role": "mesh_topology", "topology_dimension": 2, "node_coordinates": "nx ny"}
    array(root, "mesh", (), **about, face_node_connectivity="faces", face_coordinates="fx fy")
    for name in ("nx", "ny"):
        array(root, name, ("node",))
    for name in ("fx", "fy"):
        array(root, name, ("face",))
    array(root, "faces", ("face", "three"))
    depth = array(root, "depth", ("face",), mesh="mesh", location="face", coordinates="fx fy")
    assert names(depth) == {"mesh", "nx", "ny", "fx", "fy", "faces"}
    # only of a topology do such attributes name variables
    other = array(root, "other", ("face",), face_node_connectivity="faces")
    assert names(other) == set()


def test_geometries_bring_their_nodes() -> None:
    root = hs.create(MemoryStore())
    about = {"node_coordinates": "px py", "node_count": "counts", "interior_ring": "rings"}
    array(root, "shape", (), geometry_type="polygon", **about)
    for name, dim in (("px", "node"), ("py", "node"), ("counts", "station"), ("rings", "part")):
        array(root, name, (dim,), data=np.zeros(3))
    flow = array(root, "flow", ("station",), geometry="shape")
    assert names(flow) == {"shape", "px", "py", "counts", "rings"}


@pytest.mark.parametrize("kind", ["contiguous", "indexed", "orthogonal"])
def test_samples_bring_their_instances(kind: str) -> None:
    root = hs.create(MemoryStore())
    root.attrs["featureType"] = "timeSeries"
    root.attrs["Conventions"] = "CF-1.11"
    dims = ("station", "time") if kind == "orthogonal" else ("obs",)
    t = array(root, "t", dims, coordinates="time lat lon")
    array(root, "time", dims[-1:])
    for name in ("lat", "lon", "elevation"):
        array(root, name, ("station",))
    array(root, "station_name", ("station",), data=np.array([b"a", b"b", b"c"]), cf_role="timeseries_id")
    array(root, "something", ("other",))
    expected = {"time", "lat", "lon", "elevation", "station_name"}
    if kind == "contiguous":
        array(root, "row_size", ("station",), sample_dimension="obs")
        expected.add("row_size")
    elif kind == "indexed":
        array(root, "which", ("obs",), instance_dimension="station")
        expected.add("which")
    assert names(t) == expected
    del root.attrs["featureType"]
    assert names(root["t"]) == {"time", "lat", "lon"}


def test_damage_is_raised_or_collected(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr3", consolidated=False) as root:
        array(root, "lat", ("lat",))
        array(root, "t", ("lat", "lon"), coordinates="lat")
        array(root, "lon", ("lon",))
    (tmp_path / "a.zarr/lat/zarr.json").write_text("{")
    with hs.open(tmp_path / "a.zarr") as root:
        with pytest.raises(FormatError, match="lat"):
            companions_of([root["t"]])
        errors: dict[str, Any] = {}
        assert [each.path for each in companions_of([root["t"]], errors)] == ["lon"]
        assert list(errors) == ["lat"]


def test_attributes_speak_of_no_variable_that_is_not_there() -> None:
    attrs = {
        "coordinates": "lat lon height",
        "bounds": "lat_bnds",
        "cell_measures": "area: area",
        "grid_mapping": "crs: lat lon",
        "formula_terms": "a: a ps: ps",
        "units": "lat lon",
        "mesh": 3,
    }
    assert keep_references(attrs, {"lat", "lon", "a", "area", "crs"}) == {
        "coordinates": "lat lon",
        "cell_measures": "area: area",
        "grid_mapping": "crs: lat lon",
        "units": "lat lon",
        "mesh": 3,
    }


def test_attributes_of_groups_above_hold_where_conventions_say_so() -> None:
    root = hs.create(MemoryStore())
    root.attrs["title"] = "all"
    inner = root.create_group("a", {"history": "made"})
    assert global_attributes(inner._session, "a") == {"history": "made"}
    root.attrs["Conventions"] = "CF-1.11"
    assert global_attributes(inner._session, "a") == {"history": "made", "title": "all", "Conventions": "CF-1.11"}


def test_places_are_those_that_an_array_names_or_that_stand_beside_it() -> None:
    root = hs.create(MemoryStore())
    t = array(root, "t", ("y", "x"))
    array(root, "nav_lat", ("y", "x"), units="degrees_north")
    array(root, "nav_lon", ("y", "x"), units="degrees_east")
    assert find_places(t) is None
    found = find_places(t, beside=True)
    assert found is not None
    assert (found.dims, found.latitude.path, found.longitude.path) == (("y", "x"), "nav_lat", "nav_lon")
    named = array(root, "u", ("x", "y"), coordinates="nav_lat nav_lon")
    found = find_places(named)
    assert found is not None
    assert found.dims == ("x", "y")


def test_stations_take_time_in_proportion_to_their_number() -> None:
    """The budget of one variable of the stations more: 400 calls."""

    def calls(count: int) -> int:
        root = hs.create(MemoryStore(), "zarr3")
        with root.batch():
            root.attrs["featureType"] = "timeSeries"
            root.create_array("name", data=np.arange(3), dims=("station",), attrs={"cf_role": "timeseries_id"})
            for number in range(count):
                root.create_array(f"v{number}", data=np.arange(3), dims=("station",))
        arrays, found = [root["v0"]], 0

        def notice(frame: object, event: str, argument: object) -> None:
            nonlocal found
            found += event == "call"

        sys.setprofile(notice)
        try:
            assert len(companions_of(arrays)) == count
        finally:
            sys.setprofile(None)
        return found

    calls(2)
    assert calls(150) - calls(50) < 400 * 100
