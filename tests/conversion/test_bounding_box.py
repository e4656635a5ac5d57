"""Boxes of longitude and latitude: equal to a search of every cell, on straight and curved grids and of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.conversion.bounding_box import BoundingBox, find_box_cells, find_nearest_cell
from hyperslab.conversion.selection import Select, Selector
from hyperslab.errors import Invalid, SelectionError, Unsupported
from hyperslab.group.cf_variables import AxisSearch
from hyperslab.stores import MemoryStore

EAST, NORTH = {"units": "degrees_east"}, {"units": "degrees_north"}


def inside(longitude: np.ndarray, latitude: np.ndarray, box: BoundingBox) -> np.ndarray:
    east = box.east + 360 if box.east < box.west else box.east
    turns = [(longitude + 360 * turn >= box.west) & (longitude + 360 * turn <= east) for turn in range(-4, 5)]
    return np.logical_or.reduce(turns) & (latitude >= box.south) & (latitude <= box.north)


def taken(root: hs.Group, box: BoundingBox, path: str = "v") -> Any:
    arrays = [array for _, array in root.arrays()]
    selector = Selector(arrays, Select({}, {}, box=box))
    return root[path].oindex[selector.key(root[path])], selector


@given(
    first=st.integers(-36, 36),
    falls=st.booleans(),
    west=st.integers(-180, 360),
    width=st.integers(0, 359),
    south=st.integers(-80, 60),
    height=st.integers(20, 100),
    part=st.integers(12, 36),
)
def test_a_box_on_a_straight_grid(
    first: int, falls: bool, west: int, width: int, south: int, height: int, part: int
) -> None:
    lon = (first * 10 + np.arange(0.0, 10 * part, 10))[:: -1 if falls else 1]
    lat = np.arange(80.0, -81, -20)[:: -1 if falls else 1]
    root = hs.create(MemoryStore())
    root.create_array("x", data=lon, dims=("x",), attrs=EAST)
    root.create_array("y", data=lat, dims=("y",), attrs=NORTH)
    cells = root.create_array("v", data=np.arange(lon.size * lat.size).reshape(lat.size, lon.size), dims=("y", "x"))[
        ...
    ]
    box = BoundingBox(west, south, west + width, min(south + height, 90))
    within = inside(*np.meshgrid(lon, lat), box)
    if not within.any():
        with pytest.raises(SelectionError, match="no cell lies in the box"):
            taken(root, box)
        return
    found, selector = taken(root, box)
    assert sorted(found.ravel().tolist()) == sorted(cells[within].tolist())
    labels = lon[selector.key(root["x"])[0]] + selector.shifts(root["x"]).get("x", 0.0)
    assert ((labels >= west) & (labels <= west + width)).all()
    assert (np.diff(labels) > 0).all() or (np.diff(labels) < 0).all()


def curved(shape: tuple[int, int], shift: float, around: bool) -> tuple[np.ndarray, np.ndarray]:
    """Longitude and latitude of a grid that is bent, with its seam somewhere; ``around``: it goes once around."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    span = 360 if around else 200
    longitude = shift + columns * span / shape[1] + rows * 2.0
    latitude = -60 + rows * 120 / shape[0] + 5 * np.sin(columns)
    return (longitude + 180) % 360 - 180, latitude


@given(
    shift=st.integers(-180, 180),
    around=st.booleans(),
    west=st.integers(-180, 180),
    width=st.integers(10, 120),
    south=st.integers(-50, 20),
)
def test_a_box_on_a_curved_grid_is_the_smallest_rectangle(
    shift: int, around: bool, west: int, width: int, south: int
) -> None:
    lon, lat = curved((8, 24), shift, around)
    root = hs.create(MemoryStore())
    root.create_array("lon", data=lon, dims=("y", "x"), attrs=EAST)
    root.create_array("lat", data=lat, dims=("y", "x"), attrs=NORTH)
    cells = root.create_array("v", data=np.arange(lon.size).reshape(lon.shape), dims=("y", "x"))[...]
    box = BoundingBox(west, south, west + width, south + 30)
    within = inside(lon, lat, box)
    if not within.any():
        with pytest.raises(SelectionError):
            taken(root, box)
        return
    found, selector = taken(root, box)
    assert set(cells[within].tolist()) <= set(found.ravel().tolist())
    rows, columns = np.flatnonzero(within.any(1)), np.flatnonzero(within.any(0))
    assert found.shape[0] == np.ptp(rows) + 1
    shortest = min(np.ptp((columns - start) % 24) + 1 for start in (columns if around else [0]))
    assert found.shape[1] == shortest
    item = selector.key(root["v"])[1]
    places = np.arange(24)[item]
    assert set(np.diff(places)) <= ({1, -23} if around else {1})


def test_a_curved_grid_around_the_globe_keeps_its_columns_and_says_where_it_is_cut() -> None:
    lon, lat = curved((8, 24), 77.0, True)
    root = hs.create(MemoryStore())
    root.create_array("lon", data=lon, dims=("y", "x"), attrs=EAST)
    root.create_array("lat", data=lat, dims=("y", "x"), attrs=NORTH)
    cells = root.create_array("v", data=np.arange(lon.size).reshape(lon.shape), dims=("y", "x"))[...]
    found, selector = taken(root, BoundingBox(-180, -90, 180, 90))
    assert np.array_equal(found, cells)
    assert selector.notes == []
    _, selector = taken(root, BoundingBox(60, -20, 100, 20))
    places = np.arange(24)[selector.key(root["v"])[1]]
    assert selector.notes == [f"the box goes across the seam of /lon: x {places[0]} to 23, then 0 to {places[-1]}"]


@given(shift=st.integers(-180, 180), east=st.integers(-180, 360), north=st.integers(-90, 90), turned=st.booleans())
def test_the_cell_nearest_to_a_point_on_a_curved_grid(shift: int, east: int, north: int, turned: bool) -> None:
    lon, lat = curved((8, 24), shift, True)
    lat[0, :3] = np.nan
    root = hs.create(MemoryStore())
    root.create_array("nav_lon", data=lon, dims=("y", "x"), attrs=EAST)
    places = (lat.T, ("x", "y")) if turned else (lat, ("y", "x"))
    root.create_array("nav_lat", data=places[0], dims=places[1], attrs=NORTH)
    attrs = {"coordinates": "nav_lon nav_lat"}
    root.create_array("v", data=np.arange(lon.size).reshape(lon.shape), dims=("y", "x"), attrs=attrs)

    def on_sphere(lon: Any, lat: Any) -> np.ndarray:
        lon, lat = np.radians(lon), np.radians(lat)
        return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], -1)

    cosines = on_sphere(lon, lat) @ on_sphere(east, north)
    for words in ("lon", "lat"), ("nav_lon", "nav_lat"), ("longitude", "latitude"):
        select = Select.of(dict(zip(words, (float(east), float(north)), strict=True)), "nearest")
        selector = Selector([root["v"]], select)
        row, column = selector.key(root["v"])
        assert cosines[row, column] == pytest.approx(np.nanmax(cosines), abs=1e-12)
        away = np.degrees(np.arccos(min(cosines[row, column], 1.0)))
        assert selector.notes[0].startswith(f"{words[0]}={east} {words[1]}={north}: the nearest cell is y={row} x=")
        assert float(selector.notes[0].split()[-3]) == pytest.approx(away, abs=2e-5, rel=1e-4)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_no_cell_of_an_empty_grid_is_the_nearest(shape: tuple[int, int]) -> None:
    root = hs.create(MemoryStore())
    lon, lat = (root.create_array(n, shape=shape, dtype="f8", dims=("y", "x")) for n in ("lon", "lat"))
    assert find_nearest_cell(lon, lat, 10.0, 50.0) is None


def test_a_point_on_a_curved_grid_on_the_command_line(tmp_path: Path) -> None:
    lon, lat = curved((8, 24), 77.0, True)
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("nav_lon", data=lon, dims=("y", "x"), attrs=EAST)
        root.create_array("nav_lat", data=lat, dims=("y", "x"), attrs=NORTH)
        attrs = {"coordinates": "nav_lon nav_lat"}
        root.create_array("v", data=np.arange(192).reshape(8, 24), dims=("y", "x"), attrs=attrs)
    source = str(tmp_path / "a.zarr")

    def run(*words: str) -> Any:
        return CliRunner().invoke(main, ["get", source, "v", *words])

    point = ("-s", f"lon={lon[3, 5] + 0.1}", "-s", f"lat={lat[3, 5]}")
    result = run(*point, "--nearest")
    assert result.stdout.split() == ["77"]
    assert "the nearest cell is y=3 x=5 at" in result.stderr
    assert run(*point, "--nearest", "--tolerance", "1").exit_code == 0
    for word in ("lon", "nav_lon"):
        refused = run("-s", f"{word}=10.0")
        assert refused.exit_code == 2
        assert "/nav_lon runs along y and x: --bbox" in refused.stderr
    assert "the nearest is y=3 x=5" in run(*point, "--nearest", "--tolerance", "0.001").stderr
    assert "'y' is selected twice" in run(*point, "--nearest", "-s", "y=2").stderr
    hs.convert(source, tmp_path / "b.zarr", select={"lon": lon[3, 5], "lat": lat[3, 5]}, method="nearest")
    with hs.open_group(tmp_path / "b.zarr") as root:
        assert root["v"][()] == 77
        assert root["nav_lon"][()] == lon[3, 5]


def test_missing_places_lie_nowhere_and_attributes_may_be_missing() -> None:
    root = hs.create(MemoryStore())
    lon, lat = np.array([[10.0, np.nan], [12, 13]]), np.array([[50.0, 51], [-999, 52]])
    root.create_array("lon", data=lon, dims=("y", "x"), attrs=EAST)
    root.create_array("lat", data=lat, dims=("y", "x"), attrs={**NORTH, "_FillValue": -999.0})
    root.create_array("v", data=np.arange(4).reshape(2, 2), dims=("y", "x"), attrs={"coordinates": "lat lon"})
    assert taken(root, BoundingBox(0, 40, 20, 60))[0].tolist() == [[0, 1], [2, 3]]
    assert taken(root, BoundingBox(12.5, 40, 20, 60))[0].tolist() == [[3]]


def stations(kind: str) -> hs.Group:
    root = hs.create(MemoryStore())
    root.attrs["featureType"] = "timeSeries"
    about = {"coordinates": "lat lon"}
    root.create_array("lat", data=[50.0, 10, 51], dims=("station",), attrs=NORTH)
    root.create_array("lon", data=[10.0, 10, -170], dims=("station",), attrs=EAST)
    root.create_array(
        "name", data=np.array(["a", "b", "c"]), dtype=str, dims=("station",), attrs={"cf_role": "timeseries_id"}
    )
    if kind == "orthogonal":
        root.create_array("v", data=np.arange(6).reshape(3, 2), dims=("station", "time"), attrs=about)
    else:
        root.create_array("v", data=np.arange(6), dims=("obs",), attrs=about)
    if kind == "contiguous":
        root.create_array("row_size", data=[1, 3, 2], dims=("station",), attrs={"sample_dimension": "obs"})
    if kind == "indexed":
        root.create_array("which", data=[2, 0, 1, 0, 2, 1], dims=("obs",), attrs={"instance_dimension": "station"})
    return root


@pytest.mark.parametrize(
    ("kind", "cells", "names"),
    [
        ("orthogonal", [[0, 1], [4, 5]], ["a", "c"]),
        ("contiguous", [0, 4, 5], ["a", "c"]),
        ("indexed", [0, 1, 3, 4], ["a", "b", "c"]),
    ],
)
def test_a_box_of_samples_takes_those_of_its_stations(kind: str, cells: list[object], names: list[str]) -> None:
    root = stations(kind)
    found, selector = taken(root, BoundingBox(0, 40, -160, 60))
    assert found.tolist() == cells
    assert [str(name) for name in root["name"].oindex[selector.key(root["name"])]] == names
    if kind == "contiguous":
        assert root["row_size"].oindex[selector.key(root["row_size"])].tolist() == [1, 2]


def test_samples_that_are_counted_are_not_chosen_one_by_one() -> None:
    root = hs.create(MemoryStore())
    root.create_array("lat", data=[50.0, 10, 51], dims=("obs",), attrs=NORTH)
    root.create_array("lon", data=[10.0, 10, 12], dims=("obs",), attrs=EAST)
    root.create_array("v", data=np.arange(3), dims=("obs",), attrs={"coordinates": "lat lon"})
    assert taken(root, BoundingBox(0, 40, 20, 60))[0].tolist() == [0, 2]
    root.create_array("row_size", data=[1, 2], dims=("trajectory",), attrs={"sample_dimension": "obs"})
    with pytest.raises(Unsupported, match="counted by /row_size"):
        taken(root, BoundingBox(0, 40, 20, 60))


@pytest.mark.parametrize(
    ("kind", "item", "cells", "count"),
    [
        ("contiguous", 1, [1, 2, 3], 3),
        ("contiguous", [0, 2], [0, 4, 5], [1, 2]),
        ("contiguous", slice(1, None), [1, 2, 3, 4, 5], [3, 2]),
        ("indexed", [0, 2], [0, 1, 3, 4], None),
        ("indexed", 1, [2, 5], None),
        ("orthogonal", [0, 2], [[0, 1], [4, 5]], None),
    ],
)
def test_samples_follow_the_instances_that_are_chosen(kind: str, item: object, cells: object, count: object) -> None:
    root = stations(kind)
    selector = Selector([array for _, array in root.arrays()], Select({"station": item}, {}))
    assert root["v"].oindex[selector.key(root["v"])].tolist() == cells
    if count is not None:
        assert root["row_size"].oindex[selector.key(root["row_size"])].tolist() == count
    if kind == "indexed":  # whose numbers stay right
        assert selector.key(root["name"]) == (slice(None),)
        assert "all of station stay" in selector.notes[0]


def test_samples_and_their_instances_are_not_chosen_apart() -> None:
    root = stations("contiguous")
    arrays = [array for _, array in root.arrays()]
    with pytest.raises(Unsupported, match="counted by /row_size"):
        Selector(arrays, Select({"obs": slice(0, 2)}, {}))
    with pytest.raises(Unsupported, match="another order"):
        Selector(arrays, Select({"station": [2, 0]}, {}))
    whole = Selector(arrays, Select({"obs": slice(0, 6), "station": slice(None)}, {}))
    assert whole.pick(root["lat"]).shape == (3,)
    alone = Selector([root["v"]], Select({"obs": slice(0, 2)}, {}))
    assert alone.pick(root["v"]).shape == (2,)


@pytest.mark.parametrize("bad", [(0, 50, 10, 40), (0, -100, 10, 40), (0, 1, 2), (0, 1, float("nan"), 3)])
def test_what_is_no_box_is_refused(bad: tuple[float, ...]) -> None:
    with pytest.raises(Invalid):
        BoundingBox.of(bad)


@pytest.mark.parametrize("bad", [(10, 20, 30), [1, 2, 3, 4, 5], "10,20,30,40", None], ids=repr)
def test_convert_says_how_many_numbers_a_box_has(tmp_path: Path, bad: Any) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("lat", data=np.arange(0.0, 50, 10), dims=("lat",), attrs=NORTH)
        root.create_array("lon", data=np.arange(0.0, 60, 10), dims=("lon",), attrs=EAST)
        root.create_array("v", data=np.zeros((5, 6)), dims=("lat", "lon"))
    with pytest.raises(Invalid, match=r"a box of .*; give four numbers: west, south, east and north"):
        hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", select={"bbox": bad})
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", select={"bbox": (10, 20, 30, 40)})
    assert hs.open(tmp_path / "b.zarr")["v"].shape == (3, 3)


def test_labels_of_a_dimension_called_bbox_are_no_box(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("v", data=np.arange(6), dims=("bbox",))
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", select={"bbox": (1, 2, 5)})
    assert hs.open(tmp_path / "b.zarr")["v"][...].tolist() == [1, 2, 5]


def test_a_box_on_the_command_line_and_in_convert(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("lat", data=np.arange(80.0, -81, -20), dims=("lat",), attrs=NORTH)
        root.create_array("lon", data=np.arange(0.0, 360, 30), dims=("lon",), attrs=EAST)
        root.create_array("v", data=np.arange(108).reshape(9, 12), dims=("lat", "lon"))
        root.create_array("other", data=np.arange(3))

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, list(arguments))

    source = str(tmp_path / "a.zarr")
    hs.convert(source, tmp_path / "b.zarr", select={"bbox": (-30, 10, 30, 50)}, verify=True)
    result = run("convert", source, str(tmp_path / "c.zarr"), "--bbox", "-30,10,30,50")
    assert result.exit_code == 0, result.stderr
    assert "the box goes across the seam of /lon: -30 to 30" in caplog.text
    for name in ("b", "c"):
        with hs.open_group(tmp_path / f"{name}.zarr") as root:
            assert root["lon"][...].tolist() == [-30, 0, 30]
            assert root["lat"][...].tolist() == [40, 20]
            assert root["v"][...].tolist() == [[35, 24, 25], [47, 36, 37]]
            assert root["other"].shape == (3,)
    result = run("get", source, "v", "--bbox", "-30,10,30,30")
    words = "lat lon v 20.0 -30.0 47 20.0 0.0 36 20.0 30.0 37"
    assert result.stdout.split() == words.split()
    assert run("plot", source, "v", "--bbox", "-90,10,90,50", "-o", str(tmp_path / "a.png")).exit_code == 0
    result = run("get", source, "v", "--bbox", "1,1,2,2")
    assert result.exit_code == 2
    assert "no cell lies in the box 1,1,2,2" in result.stderr
    assert "there are longitudes from 0 to 330 and latitudes from -80 to 80" in result.stderr
    assert "write west,south,east,north" in run("get", source, "v", "--bbox", "1,2,3").stderr
    assert "selected twice" in run("get", source, "v", "--bbox", "-30,10,30,50", "-s", "lat=1").stderr
    assert "no array has longitudes" in run("get", source, "other", "--bbox", "-30,10,30,50").stderr


def test_cells_of_several_grids_along_the_same_dimensions() -> None:
    root = hs.create(MemoryStore())
    for name, step in (("t", 0.0), ("u", 5.0)):
        lon, lat = np.meshgrid(np.arange(0.0, 60, 10) + step, np.arange(0.0, 30, 10))
        root.create_array(f"lon_{name}", data=lon, dims=("y", "x"), attrs=EAST)
        root.create_array(f"lat_{name}", data=lat, dims=("y", "x"), attrs=NORTH)
        about = {"coordinates": f"lat_{name} lon_{name}"}
        root.create_array(f"v_{name}", data=lon, dims=("y", "x"), attrs=about)
    found = find_box_cells([root["v_t"], root["v_u"]], BoundingBox(15, 0, 30, 10), AxisSearch())
    assert found["x", 6][""].positions.tolist() == [1, 2, 3]


def test_groups_with_straight_grids_of_the_same_lengths() -> None:
    root = hs.create(MemoryStore())
    for name, first in (("a", 0.0), ("b", 100.0), ("c/near", 0.0)):
        group = root.create_group(name)
        lon, lat = first + np.arange(0.0, 50, 10), np.arange(0.0, 30, 10)
        coordinates = root if name.startswith("c") else group  # of the last in the group around it
        coordinates.create_array("lon", data=lon, dims=("lon",), attrs=EAST)
        coordinates.create_array("lat", data=lat, dims=("lat",), attrs=NORTH)
        group.create_array("v", data=np.add.outer(lat / 100, lon), dims=("lat", "lon"))
    root.create_array("besides", data=np.arange(5), dims=("lon",))
    arrays = [root[path] for path in ("a/v", "a/lon", "b/v", "b/lon", "c/near/v", "besides")]
    selector = Selector(arrays, Select({}, {}, box=BoundingBox(20, 0, 120, 10)))
    found = [array.oindex[selector.key(array)].ravel()[:3].tolist() for array in arrays]
    assert found == [[20, 30, 40], [20, 30, 40], [100, 110, 120], [100, 110, 120], [20, 30, 40], [2, 3, 4]]
