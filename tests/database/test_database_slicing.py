"""What keys mean: every row of the table of slicing rules, both flavours and both layouts alike."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest

from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    DimensionSchema,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.errors import LabelError

pytestmark = pytest.mark.covering  # layouts and flavours of arrays take turns

SHAPE = (6, 8, 4, 10)
DATA = np.arange(np.prod(SHAPE)).reshape(SHAPE)
DIMENSIONS = [
    TimeDimensionSchema("t", 6, datetime(2023, 1, 1, tzinfo=UTC), timedelta(hours=1)),
    DimensionSchema("y", 8, scale=Scale(90.0, -0.25)),
    DimensionSchema("l", 4, labels=["a", "b", "c", "d"]),
    DimensionSchema("p", 10),
]
START = datetime(2023, 1, 1, tzinfo=UTC).timestamp()
HOUR = timedelta(hours=1)


def at(hour: float, **more: int) -> datetime:
    return datetime(2023, 1, 1, tzinfo=UTC) + timedelta(hours=hour, **more)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with Client(tmp_path_factory.mktemp("slicing"), durable=False) as client:
        yield client


@pytest.fixture(scope="module", params=["hyperslab", "deker"])
def collections(request, store):
    """An Array and a VArray of the table's dimensions, and ones of other dimensions."""
    made = {}
    for flavour, grid in (("array", {}), ("varray", {"vgrid": (2, 2, 1, 2)})):
        schema = (VArraySchema if grid else ArraySchema)(DIMENSIONS, int, [AttributeSchema("k", int, True)], **grid)
        collection = store.create_collection(f"{flavour}_{request.param}", schema, layout=request.param)
        made[flavour] = collection.create({"k": 1})
        made[flavour][:].update(DATA)
    return made


@pytest.fixture(params=["array", "varray"])
def array(request, collections):
    return collections[request.param]


def one(store, layout, dimension, *, tiles=None):
    """An array of ``arange`` along one dimension."""
    name = f"one{sum(1 for _ in store)}"
    schema = ArraySchema([dimension], int) if tiles is None else VArraySchema([dimension], int, vgrid=(tiles,))
    made = store.create_collection(name, schema, layout=layout).create()
    made[:].update(np.arange(dimension.size))
    return made


SELECTS = {
    "int": (2, 2),
    "negative int": (-1, -1),
    "everything": ((), ()),
    "dots": (..., ...),
    "dots first": ((..., 0), (..., 0)),
    "dots between": ((1, ..., 0), (1, ..., 0)),
    "dots for nothing": ((1, 2, ..., 3, 4), (1, 2, 3, 4)),
    "NumPy int": (np.int64(3), 3),
    "NumPy unsigned": (np.uint8(3), 3),
    "NumPy int bounds": (np.s_[np.int32(1) : np.int64(3)], np.s_[1:3]),
    "datetime": (at(3), 3),
    "naive datetime is UTC": (datetime(2023, 1, 1, 3), 3),
    "datetime of a zone": (datetime(2023, 1, 1, 6, tzinfo=timezone(timedelta(hours=3))), 3),
    "ISO": ("2023-01-01T03:00:00", 3),
    "ISO of a zone": ("2023-01-01T05:00:00+02:00", 3),
    "ISO with Z": ("2023-01-01T03:00:00Z", 3),
    "ISO date is midnight": ("2023-01-01", 0),
    "timestamp": (1672542000.0, 3),
    "timestamp within a microsecond": (1672542000.0 + 5e-7, 3),
    "datetime64": (np.datetime64("2023-01-01T03:00:00"), 3),
    "date": (date(2023, 1, 1), 0),
    "scale": (np.s_[:, 89.5], np.s_[:, 2]),
    "last of the scale": (np.s_[:, 88.25], np.s_[:, 7]),
    "scale of float32": (np.s_[:, np.float32(89.5)], np.s_[:, 2]),
    "scale within 1e-6 of a step": (np.s_[:, 89.5 + 2e-7], np.s_[:, 2]),
    "slice of a scale": (np.s_[:, 89.75:89.0], np.s_[:, 1:4]),
    "open end of a scale": (np.s_[:, 89.0:], np.s_[:, 4:]),
    "open start of a scale": (np.s_[:, :89.0], np.s_[:, :4]),
    "the end of a scale as stop": (np.s_[:, 89.0:88.0], np.s_[:, 4:8]),
    "label": (np.s_[:, :, "c"], np.s_[:, :, 2]),
    "slice of labels": (np.s_[:, :, "b":"d"], np.s_[:, :, 1:3]),
    "open start of labels": (np.s_[:, :, :"c"], np.s_[:, :, :2]),
    "open end of labels": (np.s_[:, :, "c":], np.s_[:, :, 2:]),
    "slice of times": (np.s_[at(1) : at(4)], np.s_[1:4]),
    "the end of time as stop": (np.s_[at(1) : at(6)], np.s_[1:6]),
    "mixed kinds of times": (np.s_["2023-01-01T01:00:00" : START + 4 * 3600], np.s_[1:4]),
    "open times": (np.s_[: at(2)], np.s_[:2]),
    "clipped": (np.s_[:, :, :, 0:100], np.s_[:, :, :, 0:100]),
    "clipped at both ends": (np.s_[:, :, :, -100:100], np.s_[:, :, :, :]),
    "beyond": (np.s_[:, :, :, 20:30], np.s_[:, :, :, 20:30]),
    "empty": (np.s_[3:3], np.s_[3:3]),
    "reversed": (np.s_[4:2], np.s_[4:2]),
    "reversed times": (np.s_[at(4) : at(2)], np.s_[4:2]),
    "reversed labels": (np.s_[:, :, "d":"b"], np.s_[:, :, 3:1]),
    "step": (np.s_[::2], np.s_[::2]),
    "negative step": (np.s_[::-1], np.s_[::-1]),
    "negative step of several": (np.s_[:, :, :, 8:1:-3], np.s_[:, :, :, 8:1:-3]),
    "step of labels": (np.s_[:, :, "d":"a":-1], np.s_[:, :, 3:0:-1]),
    "labels backwards, open": (np.s_[:, :, "c"::-1], np.s_[:, :, 2::-1]),
    "step of time": (np.s_[::HOUR], np.s_[::1]),
    "steps of time": (np.s_[1 : 6 : 2 * HOUR], np.s_[1:6:2]),
    "steps of time backwards": (np.s_[::-HOUR], np.s_[::-1]),
    "step of the scale": (np.s_[:, ::-0.5], np.s_[:, ::2]),
    "everything at once": (np.s_[at(2), 89.5:88.5, "a":"c", -1], np.s_[2, 2:6, 0:2, -1]),
    "one cell": ((1, 1, 1, 1), (1, 1, 1, 1)),
}


@pytest.mark.parametrize("name", SELECTS)
def test_selects(array, name):
    key, positions = SELECTS[name]
    subset = array[key]
    expected = DATA[positions]
    assert subset.shape == expected.shape
    found = subset.read()
    np.testing.assert_array_equal(found, expected)
    assert isinstance(found, np.ndarray) == (expected.ndim > 0)


WRONG = {
    "int beyond": 6,
    "int before": -7,
    "int beyond the last": np.s_[0, 0, 0, 10],
    "int is no timestamp": 1672542000,
    "too many": (0, 0, 0, 0, 0),
    "two dots": (..., 0, ...),
    "truth": True,
    "NumPy truth": np.True_,
    "None": None,
    "list": [1, 2],
    "array": np.array([1, 2]),
    "mask": np.ones(6, bool),
    "set": {1},
    "tuple in a tuple": ((1, 2), 0),
    "truth in a slice": np.s_[True:3],
    "list in a slice": np.s_[[1] : 3],
    "off the scale": np.s_[:, 88.0],
    "between two of the scale": np.s_[:, 89.6],
    "a quarter of a step off": np.s_[:, 89.5 + 0.0625],
    "NaN": np.s_[:, float("nan")],
    "infinity": np.s_[:, float("inf")],
    "huge": np.s_[:, 1e300],
    "float on labels": np.s_[:, :, 1.0],
    "float on nothing": np.s_[:, :, :, 1.0],
    "text on nothing": np.s_[:, :, :, "a"],
    "text on a scale": np.s_[:, "a"],
    "time on labels": np.s_[:, :, at(0)],
    "unknown label": np.s_[:, :, "e"],
    "unknown label as stop": np.s_[:, :, "a":"e"],
    "float bound off the grid": np.s_[:, 89.6:],
    "float bound beyond the end": np.s_[:, :87.75],
    "the end of a scale as start": np.s_[:, 88.0:],
    "no time": "yesterday",
    "off the hour": at(0.5),
    "a microsecond off": at(1, microseconds=1),
    "before the first": at(-1),
    "the end of time": at(6),
    "the end of time as start": np.s_[at(6) :],
    "after the end as stop": np.s_[: at(7)],
    "timestamp off": START + 1.0,
    "int and time": np.s_[1 : at(3)],
    "label and int": np.s_[:, :, "a":2],
    "float and int": np.s_[:, 90.0:3],
    "step of half an hour": np.s_[:: timedelta(minutes=30)],
    "step of no time": np.s_[:: timedelta(0)],
    "step of time on labels": np.s_[:, :, ::HOUR],
    "float step on labels": np.s_[:, :, ::1.0],
    "float step on nothing": np.s_[:, :, :, ::2.0],
    "float step on time": np.s_[::3600.0],
    "step between": np.s_[:, ::0.3],
    "text as step": np.s_[::"a"],
}


@pytest.mark.parametrize("name", WRONG)
def test_refuses(array, name):
    with pytest.raises(IndexError):
        array[WRONG[name]]


def test_a_step_of_zero_is_a_value_error(array):
    with pytest.raises(ValueError, match="zero"):
        array[::0]


BOUNDS = {
    "table": (np.s_[at(2), 89.5:88.5, "a":"c", -1], (2, slice(2, 6), slice(0, 2), -1), "2, 2:6, 0:2, -1"),
    "as given": (np.s_[0:2, -1], (slice(0, 2), -1), "0:2, -1"),
    "all": (slice(None), (slice(None),), ":"),
    "nothing": ((), (), "()"),
    "dots": (..., (slice(None),), ":"),
    "dots first": ((..., 0), (slice(None), slice(None), slice(None), 0), ":, :, :, 0"),
    "open labels": (np.s_[:, :, "b":], (slice(None), slice(None), slice(1, 4)), ":, :, 1:4"),
    "step of time": (np.s_[1:3:HOUR], (slice(1, 3, 1),), "1:3:1"),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_tells_its_bounds(array, name):
    key, bounds, text = BOUNDS[name]
    subset = array[key]
    kind = type(array).__name__
    assert subset.bounds == bounds
    assert str(subset) == f"{kind}({array.id})[{text}]"
    prefix = "VSubset" if kind == "VArray" else "Subset"
    assert repr(subset) == f"{prefix}(bounds=[{text}], shape={subset.shape}, array={array.id})"


def test_a_cell_is_a_scalar(array):
    cell = array[1, 2, 3, 4]
    assert cell.shape == () and isinstance(cell.read(), np.int64) and cell.read() == DATA[1, 2, 3, 4]


def test_an_empty_subset_is_read_and_updated_without_effect(array):
    empty = array[4:2]
    assert empty.read().shape == (0, 8, 4, 10)
    empty.update(np.empty((0, 8, 4, 10), int))
    empty.clear()
    np.testing.assert_array_equal(array[:].read(), DATA)


def test_defect_13_float_labels_are_indexes(store, layout):
    array = one(store, layout, DimensionSchema("p", 4, labels=[850.0, 500.1, 1e-3, -7.5]))
    assert [array[label].read() for label in (850.0, 500.1, 1e-3, -7.5)] == [0, 1, 2, 3]
    assert array[np.float32(500.1)].read() == 1
    np.testing.assert_array_equal(array[500.1:-7.5].read(), [1, 2])
    assert array[:].describe() == {"p": [850.0, 500.1, 1e-3, -7.5]}
    for wrong in (850.0001, float("nan"), float("inf"), "850.0"):
        with pytest.raises(IndexError):
            array[wrong]
    with pytest.raises(IndexError):
        array[::1.0]


@pytest.mark.parametrize(("start", "step", "size"), [(0.0, 0.01, 255), (0.0, 0.1, 100), (90.0, -0.1, 1801)])
def test_defect_12_what_a_scale_shows_is_an_index(store, start, step, size):
    array = one(store, "hyperslab", DimensionSchema("h", size, scale=Scale(start, step)))
    for place, value in enumerate(array[:].describe()["h"]):
        assert array[value].bounds == (place,)
        assert array[np.float32(value)].bounds == (place,)
        assert array[start + place * step].bounds == (place,)


def test_defect_14_times_are_exact_to_the_microsecond(store, layout):
    tenth = timedelta(milliseconds=100)
    array = one(store, layout, TimeDimensionSchema("t", 10, datetime(2023, 1, 1), tenth))
    assert array[datetime(2023, 1, 1) + 3 * tenth].read() == 3
    for off in (timedelta(milliseconds=150), timedelta(microseconds=1), timedelta(milliseconds=1)):
        with pytest.raises(IndexError):
            array[datetime(2023, 1, 1) + off]
    with pytest.raises(IndexError):
        array["2023-01-01T00:00:00.001"]


def test_defect_15_the_end_of_time_is_no_position(array):
    with pytest.raises(IndexError):
        array[at(6)]
    assert array[: at(6)].shape[0] == 6


def test_defect_10_out_of_range_is_refused_before_anything_is_written(array):
    for wrong in (6, -7):
        with pytest.raises(IndexError):
            array[wrong].update(np.zeros((8, 4, 10), int))
    assert array[:, :, :, 8:12].shape == (6, 8, 4, 2)
    np.testing.assert_array_equal(array[:].read(), DATA)


@pytest.mark.parametrize("tiles", [None, 3])
def test_a_negative_time_step_counts_backwards(store, layout, tiles):
    array = one(store, layout, TimeDimensionSchema("t", 6, datetime(2023, 1, 1, 5), -HOUR), tiles=tiles)
    assert array[datetime(2023, 1, 1, 2)].read() == 3
    np.testing.assert_array_equal(array[datetime(2023, 1, 1, 4) : datetime(2023, 1, 1, 1)].read(), [1, 2, 3])
    assert array[::-HOUR].bounds == (slice(None, None, 1),)
    assert array[:].describe()["t"][-1] == datetime(2023, 1, 1, tzinfo=UTC)


def test_bounds_do_not_depend_on_the_flavour(collections):
    for key, _ in SELECTS.values():
        assert collections["array"][key].bounds == collections["varray"][key].bounds


def some_item(rng: random.Random, size: int):
    if rng.random() < 0.25:
        return rng.randrange(-size, size)
    bounds = [None, *range(-size - 2, size + 3)]
    return slice(rng.choice(bounds), rng.choice(bounds), rng.choice([None, 1, 2, 3, -1, -2]))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tiled", [False, True])
def test_any_key_of_positions_means_what_it_does_to_numpy(store, layout, tiled, seed):
    rng = random.Random(seed)
    tile, grid = ([rng.randrange(1, 4) for _ in range(seed % 3 + 1)] for _ in range(2))
    shape = [cells * count for cells, count in zip(tile, grid, strict=True)]
    dims = [DimensionSchema(f"d{axis}", size) for axis, size in enumerate(shape)]
    schema = VArraySchema(dims, np.int32, vgrid=grid) if tiled else ArraySchema(dims, np.int32)
    array = store.create_collection(f"any{seed}{layout}{tiled}", schema, layout=layout).create()
    expected = np.full(shape, array.fill_value)
    for step in range(25):
        key = tuple(some_item(rng, size) for size in shape[: rng.randrange(len(shape) + 1)])
        if step % 3 == 0:
            expected[key] = values = np.arange(expected[key].size).reshape(expected[key].shape) + step
            array[key].update(values.astype(np.int32))
        elif step % 7 == 0:
            expected[key] = array.fill_value
            array[key].clear()
        np.testing.assert_array_equal(array[key].read(), expected[key])
        assert array[key].shape == expected[key].shape
    np.testing.assert_array_equal(array[:].read(), expected)


def test_a_label_that_no_cell_has_is_answered_with_what_finds_the_nearest(array):
    with pytest.raises(LabelError, match=r"lies beyond .*; array\.array\.sel\(") as caught:
        array[:, 91.0]
    assert "array.array.array" not in str(caught.value)
    assert array.array.sel(y=91.0, method="nearest").shape == (6, 4, 10)


@pytest.mark.parametrize(
    ("key", "labels", "shape"),
    [
        (slice("2026-03-01", "2026-03-05"), {"time": slice("2026-03-01", "2026-03-05")}, (6, 5)),
        ((0, slice(50.0, 20.0)), {"lat": slice(50.0, 20.0)}, (10, 2)),
    ],
)
def test_a_slice_whose_end_no_cell_has_is_answered_with_what_takes_the_cells_within(tmp_path, key, labels, shape):
    start = datetime(2026, 2, 28, 12, tzinfo=UTC)
    dimensions = [
        TimeDimensionSchema("time", 10, start, timedelta(hours=3)),
        DimensionSchema("lat", 5, scale=Scale(90.0, -15.0)),
    ]
    with Client(tmp_path) as client:
        array = client.create_collection("runs", ArraySchema(dimensions, float)).create()
        (dim,) = labels
        with pytest.raises(LabelError, match=rf"; array\.array\.sel\({dim}=slice\(\.\.\.\)\) takes") as caught:
            array[key]
        assert "nearest" not in str(caught.value)
        assert array.array.sel(**labels).shape == shape


def test_a_day_that_has_begun_before_the_first_cell_is_answered_with_what_takes_all_of_it(tmp_path):
    start = datetime(2026, 11, 3, 14, 30, tzinfo=UTC)
    schema = ArraySchema([TimeDimensionSchema("time", 5, start, timedelta(minutes=1))], float)
    with Client(tmp_path) as client:
        array = client.create_collection("bars", schema).create()
        with pytest.raises(LabelError, match=r"array\.array\.sel\(\.\.\.\) takes '2026-11-03'"):
            array["2026-11-03":"2026-11-04"]
        assert array.array.sel(time="2026-11-03").shape == (5,)
