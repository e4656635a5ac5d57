"""Numbers about arrays agree with NumPy's, however the cells are cut, packed and missing, within their memory."""

import tracemalloc

import cftime
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import hyperslab as hs
from hyperslab.array.periods import Groups, group_times
from hyperslab.conversion.statistics import Moments, measure, measure_rows
from hyperslab.errors import Invalid
from hyperslab.stores.memory import MemoryStore

_MEMORY = 64 << 20


def make(cells, chunks=None, **attrs):
    """Return an array of its own with these cells."""
    root = hs.create(MemoryStore(), "zarr3")
    dims = tuple(f"d{axis}" for axis in range(cells.ndim))
    return root.create_array("x", data=cells, dims=dims, chunks=chunks, attrs=attrs)


def numbers(array, memory=_MEMORY, **options):
    """Return the numbers about all cells of an array."""
    return measure(array, array.lazy[...].selection.region.axes, memory=memory, **options)


def near(value, expected, scale=1.0):
    """Return True if two numbers agree to within rounding."""
    return np.isclose(float(value), float(expected), rtol=1e-6, atol=1e-9 * max(scale, 1.0), equal_nan=True)


_DTYPES = st.sampled_from(["f4", "f8", ">f4", "i2", "u1", "i4", "i8"])


@st.composite
def cut_arrays(draw):
    """Draw cells of some type, some of them NaN, and lengths of chunks."""
    dtype = np.dtype(draw(_DTYPES))
    shape = draw(npst.array_shapes(min_dims=1, max_dims=3, max_side=9))
    if dtype.kind == "f":
        elements = st.floats(-1000, 1000, width=8 * dtype.itemsize) | st.just(float("nan"))
    else:
        elements = st.integers(0 if dtype.kind == "u" else -100, 100)
    cells = draw(npst.arrays(dtype, shape, elements=elements))
    chunks = tuple(draw(st.integers(1, size)) for size in shape)
    return cells, chunks


@settings(deadline=None, max_examples=80)
@given(cut_arrays(), st.integers(0, 2))
def test_numbers_agree_with_numpy(case, axis):
    cells, chunks = case
    array = make(cells, chunks)
    found = numbers(array, memory=512)
    wide = cells.astype("f8")
    known = wide[~np.isnan(wide)]
    assert found.moments.cells[0] == cells.size
    assert found.moments.missing[0] == cells.size - known.size
    if known.size:
        assert (found.low[0], found.high[0]) == (known.min(), known.max())
        assert near(found.mean[0], known.mean(), 1000)
        assert near(found.moments.deviation[0], known.std(), 1000)
    else:
        assert found.low == found.mean == found.high == [None]
    axis %= cells.ndim
    owners = np.arange(cells.shape[axis]) % 2
    labels = ["even", "odd"][: int(owners.max()) + 1]
    parts = numbers(array, groups=Groups(axis, "parity", labels, owners))
    for number in range(len(labels)):
        some = np.compress(owners == number, wide, axis)
        some = some[~np.isnan(some)]
        assert parts.moments.known[number] == some.size
        if some.size:
            assert (parts.low[number], parts.high[number]) == (some.min(), some.max())
            assert near(parts.mean[number], some.mean(), 1000)
            assert near(parts.moments.deviation[number], some.std(), 1000)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), min_size=1, max_size=12), st.integers(0, 9))
def test_parts_merge_as_if_they_were_one(parts, offset):
    parts = [[1e9 * offset + cell for cell in part] for part in parts]
    merged = Moments.empty(1, np.dtype("f8"))
    for part in parts:
        merged.add(measure_rows(np.array([part])), np.zeros(1, np.int64))
    whole = np.concatenate(parts)
    assert merged.cells[0] == whole.size
    assert near(merged.mean[0], whole.mean())
    assert abs(merged.deviation[0] - whole.std()) <= 1e-6 * max(whole.std(), 1e-6 * abs(whole).max())


def test_a_large_mean_beside_a_small_deviation_loses_nothing():
    cells = 1e8 + np.random.default_rng(1).standard_normal(200_000)
    assert near(numbers(make(cells, (1000,))).moments.deviation[0], cells.std())


def test_infinite_cells_are_no_missing_ones():
    found = numbers(make(np.array([1.0, np.inf, 2.0, np.nan]), (1,)))
    assert found.high == [np.inf]
    assert found.mean == [np.inf]
    assert found.moments.missing[0] == 1


def test_packed_cells_are_decoded():
    stored = np.array([[1, 2, -99], [4, 5, 6]], "i2")
    found = numbers(make(stored, (1, 2), scale_factor=0.5, add_offset=10.0, _FillValue=np.int16(-99)))
    physical = np.array([10.5, 11.0, 12.0, 12.5, 13.0])
    assert found.moments.missing[0] == 1
    assert (found.low[0], found.high[0]) == (10.5, 13.0)
    assert near(found.mean[0], physical.mean())
    assert near(found.moments.deviation[0], physical.std())


def test_series_of_nwb_are_in_their_unit():
    root = hs.create(MemoryStore(), "hdmf")
    root.create_group("lfp", {"neurodata_type": "ElectricalSeries"})
    attrs = {"conversion": 1e-6, "offset": 0.5, "unit": "volts"}
    array = root.create_array("lfp/data", data=np.array([-3, 5], "i2"), attrs=attrs)
    found = numbers(array, bins=2)
    assert found.units == "volts"
    assert near(found.low[0], 0.5 - 3e-6)
    assert near(found.high[0], 0.5 + 5e-6)
    assert near(found.edges[-1], 0.5 + 5e-6)


def test_times_are_dates_of_their_calendar():
    found = numbers(make(np.array([0, 59, 360]), units="days since 2000-01-01", calendar="360_day"))
    assert found.low == [cftime.datetime(2000, 1, 1, calendar="360_day")]
    assert found.high == [cftime.datetime(2001, 1, 1, calendar="360_day")]
    real = numbers(make(np.array([0.0, 1.0, np.nan]), units="days since 2000-01-01"))
    assert real.mean == [np.datetime64("2000-01-01T12:00")]
    assert real.units == "days"


@pytest.mark.parametrize("order", ["<", ">"])
def test_dates_of_nanoseconds_are_told_apart(order):
    first = np.datetime64("2026-11-28T10:00:00.000000001", "ns")
    cells = (first + np.arange(3).astype("m8[ns]")).astype(f"{order}M8[ns]")
    whole = numbers(make(cells, (2,)))
    assert (whole.low, whole.high) == ([cells[0]], [cells[2]])
    some = np.concatenate([cells, np.full(3, "NaT", cells.dtype)])
    found = numbers(make(some, (2,)), groups=Groups(0, "d0", range(6), np.arange(6)))
    assert (found.low[:3], found.high[:3]) == (list(cells), list(cells))
    assert found.low[3:] == found.mean[3:] == [None] * 3
    assert numbers(make(some, (6,))).moments.missing.tolist() == [3]


@pytest.mark.parametrize("attrs", [{}, {"valid_range": np.array([0.0, 100.0])}])
def test_a_histogram_counts_as_numpy_does(attrs):
    cells = np.random.default_rng(2).uniform(-5, 120, (30, 40))
    cells[3] = np.nan
    found = numbers(make(cells, (7, 11), **attrs), bins=12)
    known = cells[~np.isnan(cells)]
    span = (0.0, 100.0) if attrs else (known.min(), known.max())
    counts, edges = np.histogram(known, 12, span)
    np.testing.assert_array_equal(found.moments.counts[0], counts)
    np.testing.assert_allclose(found.edges, edges)


def test_a_histogram_of_short_floats_has_ends_that_these_have_not():
    cells = np.linspace(0, 1000, 100).astype("f2")
    found = numbers(make(cells), bins=4, span=(0.0, 100_000.0))
    assert found.moments.counts.tolist() == [[100, 0, 0, 0]]


def test_a_histogram_without_room_for_its_bins():
    with pytest.raises(Invalid, match="10 bins have no room") as caught:
        numbers(make(np.array([1e16, 1e16 + 2])), bins=10)
    assert "--range" in str(caught.value.remedy)


def test_each_position_of_many_is_a_group():
    cells = np.arange(3000.0).reshape(1000, 3)
    cells[7] = np.nan
    found = numbers(make(cells, (7, 2)), groups=Groups(0, "d0", range(1000), np.arange(1000)), memory=2000)
    assert found.moments.cells.tolist() == [3] * 1000
    assert found.moments.missing.tolist() == [3 if row == 7 else 0 for row in range(1000)]
    known = found.moments.known > 0
    np.testing.assert_array_equal(found.moments.mean[known], cells.mean(1)[known])
    np.testing.assert_allclose(found.moments.deviation[known], np.sqrt(2 / 3))
    assert found.low[7] is None


def test_times_beyond_all_dates_are_numbers():
    attrs = {"units": "days since 2000-01-01"}
    found = numbers(make(np.array([0.0, 1e300]), **attrs))
    assert (found.low, found.high, found.units) == ([0.0], [1e300], attrs["units"])
    found = numbers(make(np.array([0.0, 1.0]), **attrs, calendar="none"))
    assert (found.low, found.mean, found.units) == ([0.0], [0.5], attrs["units"])


def test_the_memory_is_bounded():
    array = make(np.zeros((64, 256, 256), "f4"), (4, 256, 256))  # 16 MiB in chunks of 1 MiB
    tracemalloc.start()
    numbers(array, memory=4 << 20, workers=2)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20


def test_nothing_chosen_has_no_numbers():
    array = make(np.arange(6.0).reshape(2, 3))
    found = measure(array, array.lazy[:0].selection.region.axes, memory=_MEMORY)
    assert found.moments.cells[0] == 0
    assert found.low == [None]


# -- periods -----------------------------------------------------------------------------------------------------------


def days(start, stop):
    return np.arange(start, stop, dtype="M8[D]").astype("M8[ns]")


@pytest.mark.parametrize(
    ("word", "labels"),
    [
        ({"by": "month"}, ["01", "02", "12"]),
        ({"by": "season"}, ["DJF"]),
        ({"by": "year"}, ["1999", "2000"]),
        ({"every": "month"}, ["1999-12", "2000-01", "2000-02"]),
        ({"every": "season"}, ["2000-DJF"]),
        ({"every": "year"}, ["1999", "2000"]),
    ],
)
def test_periods_of_a_winter(word, labels):
    groups = group_times(days("1999-12-01", "2000-03-01"), 0, **word)
    assert list(groups.labels) == labels
    assert len(groups.owners) == 91


def test_days_and_hours():
    times = np.array(["2000-02-29T06", "2001-03-01T06", "2001-03-01T18"], "M8[ns]")
    assert list(group_times(times, 0, by="day").labels) == ["02-29", "03-01"]
    # 29 February of 2000 and 1 March of 2001 are the 60th day
    assert list(group_times(times, 0, by="dayofyear").labels) == ["060"]
    cftimes = np.array([cftime.datetime(2000, 2, 30, calendar="360_day")], object)
    assert list(group_times(cftimes, 0, by="dayofyear").labels) == ["060"]
    assert list(group_times(times, 0, by="hour").labels) == ["06", "18"]
    assert list(group_times(times, 0, every="day").labels) == ["2000-02-29", "2001-03-01"]
    assert list(group_times(times, 0, every="hour").labels) == ["2000-02-29T06", "2001-03-01T06", "2001-03-01T18"]


def test_periods_of_other_calendars():
    times = np.array([cftime.datetime(2000, 2, 30, calendar="360_day"), cftime.datetime(2000, 12, 30, 12)], object)
    assert list(group_times(times, 0, every="season").labels) == ["2000-DJF", "2001-DJF"]


def test_what_is_no_time_has_no_periods():
    with pytest.raises(Invalid, match="no times"):
        group_times(np.array([1.0, 2.0]), 0, by="month")
    with pytest.raises(Invalid, match="missing"):
        group_times(np.array(["NaT"], "M8[ns]"), 0, by="month")
    with pytest.raises(Invalid, match="one of the two"):
        group_times(days("2000-01-01", "2000-01-02"), 0, by="month", every="month")
