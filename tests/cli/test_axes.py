"""Where cells stand along an axis, and where they end."""

from __future__ import annotations

from itertools import product
from typing import Any

import cftime
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyperslab as hs
from hyperslab.cli.plot_axes import Axis, axis_of, date_text
from hyperslab.conversion import labelled_part
from hyperslab.stores import MemoryStore


def made(cells: Any, bounds: Any = None, item: Any = slice(None), **attrs: Any) -> Axis:
    """The axis of an array over a dimension ``x`` with this coordinate."""
    root = hs.create(MemoryStore(), format="zarr3")
    cells = np.asarray(cells)
    extra = {"bounds": "x_bnds"} if bounds is not None else {}
    root.create_array("x", data=cells, dims=("x",), attrs={**attrs, **extra})
    if bounds is not None:
        root.create_array("x_bnds", data=np.asarray(bounds, "f8"), dims=("x", "two"))
    array = root.create_array("a", data=np.arange(cells.size), dims=("x",))
    part = labelled_part.open_part(root, array, (item,), decoded=False)
    return axis_of(root, part, 0, item, np.arange(cells.size)[item])


def test_edges_lie_half_way_and_half_a_step_beyond() -> None:
    axis = made([0.0, 1.0, 3.0, 7.0], units="m")
    assert axis.edges().tolist() == [-0.5, 0.5, 2.0, 5.0, 9.0]
    assert axis.label == "x (m)"


@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=30), st.sampled_from([1.0, -1.0]))
def test_each_cell_lies_between_its_edges(steps: list[float], way: float) -> None:
    axis = Axis(dim="x", title="x", at=way * np.cumsum(steps))
    edges = axis.edges()
    low, high = np.minimum(edges[:-1], edges[1:]), np.maximum(edges[:-1], edges[1:])
    assert ((low < axis.at) & (axis.at < high)).all()


@pytest.mark.parametrize(
    ("attrs", "is_vertical", "is_down"),
    [
        ({"axis": "Z"}, True, False),
        ({"axis": "Z", "positive": "Down"}, True, True),
        ({"axis": "Z", "units": "hPa"}, True, True),
        ({"standard_name": "height", "units": "m"}, True, False),
        ({"standard_name": "height", "positive": "down"}, True, True),
        ({"standard_name": "ocean_sigma_coordinate"}, True, False),
        ({"standard_name": "atmosphere_hybrid_sigma_pressure_coordinate"}, True, True),
        ({"standard_name": "sea_water_pressure", "units": "1e4 Pa"}, True, True),
        ({"standard_name": "surface_altitude", "units": "m"}, False, False),
        ({"axis": "X", "units": "m"}, False, False),
    ],
)
def test_vertical_axes_are_known_by_their_attributes(attrs: dict[str, str], is_vertical: bool, is_down: bool) -> None:
    axis = made([0.1, 0.5, 0.9], **attrs)
    assert (axis.vertical, axis.down) == (is_vertical, is_down)


def test_latitudes_end_at_the_poles() -> None:
    assert made([90.0, 87.5, 85.0], units="degrees_north").edges().tolist() == [90.0, 88.75, 86.25, 83.75]
    assert made([90.0, 87.5, 85.0], units="K").edges()[0] == 91.25


@pytest.mark.parametrize("way", [1, -1])
def test_stored_bounds_are_the_edges(way: int) -> None:
    bounds = [[0, 1], [1, 4], [4, 5]][::way]
    assert made([0.2, 2.0, 4.9][::way], bounds).edges().tolist() == [0, 1, 4, 5][::way]
    assert made([0.2, 2.0, 4.9][::way], [pair[::-1] for pair in bounds]).edges().tolist() == [0, 1, 4, 5][::way]


@pytest.mark.parametrize("bounds", [[[0, 1], [2, 4]], [[0, 1], [1, 1.5]], [[0, 1, 2], [1, 2, 3]]])
def test_bounds_with_gaps_or_beside_their_cells_are_not_taken(bounds: Any) -> None:
    assert made([0.5, 2.0], bounds).edges().tolist() == [-0.25, 1.25, 2.75]


def test_of_every_second_cell_the_edges_lie_half_way() -> None:
    axis = made([0.5, 1.5, 2.5, 3.5], [[0, 1], [1, 2], [2, 3], [3, 4]], slice(None, None, 2))
    assert axis.edges().tolist() == [-0.5, 1.5, 3.5]


@pytest.mark.parametrize(
    ("calendar", "units"),
    [
        *product(["360_day", "noleap", "standard", "julian"], ["days since 1850-01-01", "hours since 1970-01-01"]),
        ("360_day", "months since 2000-01-01"),
    ],
)
def test_times_lie_where_cftime_has_them(calendar: str, units: str) -> None:
    cells = np.array([0, 59, 60, 10_000])
    axis = made(cells, units=units, calendar=calendar)
    dates = cftime.num2date(cells, units, calendar)
    assert [date_text(place, calendar)[:10] for place in axis.at] == [f"{date:%Y-%m-%d}" for date in dates]
    assert np.diff(axis.at).tolist() == [step.total_seconds() for step in np.diff(dates)]
    assert (axis.calendar, axis.label) == (calendar, "x" if calendar == "standard" else f"x ({calendar} calendar)")


def test_packed_and_missing_coordinates() -> None:
    packed = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": np.int16(-1), "units": "m"}
    axis = made(np.array([2, -1, 4], "i2"), **packed)
    assert np.array_equal(axis.at, [11.0, np.nan, 12.0], equal_nan=True)
    assert axis.sorted() is None
    assert axis.by_position(np.arange(3)).at.tolist() == [0, 1, 2]


def test_datetime64_and_words() -> None:
    times = made(np.array(["1970-01-02", "1969-12-31"], "M8[s]"))
    assert (times.at.tolist(), times.calendar) == ([86400.0, -86400.0], "proleptic_gregorian")
    words = made(np.array(["Lerwick", "Oban"], np.dtypes.StringDType()))
    assert (words.at.tolist(), words.words) == ([0, 1], ("Lerwick", "Oban"))


@pytest.mark.parametrize(
    ("attrs", "vertical", "down"),
    [
        ({"positive": "down", "units": "m"}, True, True),
        ({"positive": "up", "units": "m"}, True, False),
        ({"units": "hPa"}, True, True),
        ({"units": "millibars"}, True, True),
        ({"units": "hPa", "positive": "up"}, True, False),
        ({"units": "m"}, False, False),
    ],
)
def test_what_points_down(attrs: dict[str, str], vertical: bool, down: bool) -> None:
    axis = made([1.0, 2.0], **attrs)
    assert (axis.vertical, axis.down) == (vertical, down)


@pytest.mark.parametrize(
    ("degrees", "places"),
    [
        ([350.0, 355.0, 0.0, 5.0], [-10.0, -5.0, 0.0, 5.0]),
        ([0.5, 325.5, 330.5], [-34.5, -29.5, 0.5]),
        ([0.0, 90.0, 180.0, 270.0], [0.0, 90.0, 180.0, 270.0]),
        ([225.0, 230.0, 315.0], [225.0, 230.0, 315.0]),
        ([-180.0, -90.0, 0.0, 90.0], [-180.0, -90.0, 0.0, 90.0]),
        ([180.0, 270.0, 0.0, 90.0], [0.0, 90.0, 180.0, 270.0]),
        ([30.0, 20.0, 10.0], [30.0, 20.0, 10.0]),
    ],
)
def test_longitudes_are_cut_at_their_widest_gap(degrees: list[float], places: list[float]) -> None:
    found = made(degrees, units="degrees_east").sorted()
    assert found is not None
    axis, order = found
    assert axis.at.tolist() == places
    assert (np.array(degrees)[order] % 360).tolist() == [place % 360 for place in places]


def test_disorder_is_sorted_and_equal_labels_have_no_place() -> None:
    found = made([3.0, 1.0, 2.0]).sorted()
    assert found is not None
    assert (found[0].at.tolist(), found[1].tolist()) == ([1.0, 2.0, 3.0], [1, 2, 0])
    assert made([1.0, 1.0, 2.0]).sorted() is None
