"""Dimensions by size, labels, scale and time: requirements R13 to R36 of collections."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime, timedelta, timezone
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hyperslab.errors import SchemaError
from hyperslab.model import dims
from hyperslab.model.schemas import ArraySchema, DimensionSchema, Scale, TimeDimensionSchema, get_utc
from hyperslab.selection.labels import resolve_key

HOUR = timedelta(hours=1)
NEW_YEAR = datetime(2023, 1, 1, tzinfo=UTC)


def place(index: dims.Index | None, label: Any) -> Any:
    """The position of a label."""
    return resolve_key(label, ("x",), lambda _: index)


@pytest.mark.parametrize("size", [0, -1, 3.0, True, "3", 2**63, np.bool_(True), nan, [3]])
def test_r13_a_size_is_a_positive_count(size: Any) -> None:
    with pytest.raises(SchemaError, match="has the size"):
        DimensionSchema("x", size)
    with pytest.raises(SchemaError, match="has the size"):
        TimeDimensionSchema("x", size, NEW_YEAR, HOUR)


def test_r13_positions_go_one_by_one() -> None:
    dimension = DimensionSchema(name="x", size=np.int16(255))
    assert (dimension.size, type(dimension.size), dimension.step) == (255, int, 1)


@pytest.mark.parametrize("name", ["", " ", "\t\n", 3, None, b"x", ["x"]])
def test_r14_a_name_is_text_that_is_not_blank(name: Any) -> None:
    with pytest.raises(SchemaError, match="name"):
        DimensionSchema(name, 3)
    with pytest.raises(SchemaError, match="name"):
        TimeDimensionSchema(name, 3, NEW_YEAR, HOUR)


def test_r14_names_are_unique_in_a_schema() -> None:
    time = TimeDimensionSchema("x", 3, NEW_YEAR, HOUR)
    with pytest.raises(SchemaError, match="several dimensions have the name 'x'"):
        ArraySchema([DimensionSchema("x", 3), time], float)


def test_r15_the_dimensions_are_the_shape() -> None:
    schema = ArraySchema([DimensionSchema("b", 2), DimensionSchema("a", 5)], float)
    assert schema.shape == (2, 5)
    assert schema.named_shape == (("b", 2), ("a", 5))


@pytest.mark.parametrize(
    "dimensions", [DimensionSchema("x", 3), None, [], (), {}, "x", [3], [("x", 3)], iter([DimensionSchema("x", 3)])]
)
def test_r16_dimensions_are_a_list_or_tuple_of_schemas(dimensions: Any) -> None:
    with pytest.raises(SchemaError):
        ArraySchema(dimensions, float)


def test_r16_also_a_single_one() -> None:
    income = DimensionSchema(name="total_daily_income", size=366)
    assert ArraySchema(dimensions=(income,), dtype=float).dimensions == (income,)
    assert ArraySchema(dimensions=[income], dtype=float).dimensions == (income,)


def test_r18_a_scale_is_a_named_tuple_or_a_mapping() -> None:
    assert DimensionSchema("x", 3, scale=Scale(start_value=0.0, step=0.01, name="meters")).scale == (
        0.0,
        0.01,
        "meters",
    )
    assert DimensionSchema("x", 3, scale={"start_value": 1.0, "step": 0.5}).scale == Scale(1.0, 0.5, None)


@pytest.mark.parametrize(
    "scale",
    [
        {},
        {"start_value": 1.0},
        {"step": 1.0},
        {"start_value": 1.0, "step": 0.5, "foo": 1},
        {"start": 1.0, "step": 0.5},
        (1.0, 0.5),
        [1.0, 0.5, "m"],
        1.0,
        "1",
        Scale(1.0, 0.5, ""),
        Scale(1.0, 0.5, 3),  # type: ignore[arg-type]
    ],
)
def test_r18_nothing_else_is_a_scale(scale: Any) -> None:
    with pytest.raises(SchemaError):
        DimensionSchema("x", 3, scale=scale)


@pytest.mark.parametrize("word", ["start_value", "step"])
@pytest.mark.parametrize("number", [1, True, "1.0", None, 1j, np.int64(1)])
def test_r19_scale_values_are_floats(word: str, number: Any) -> None:
    with pytest.raises(SchemaError, match=r"give a float: (.)\.0 instead of \1"):
        DimensionSchema("x", 3, scale={"start_value": 1.0, "step": 0.5, word: number})


@pytest.mark.parametrize("scale", [(nan, 1.0), (inf, 1.0), (0.0, nan), (0.0, -inf), (0.0, 0.0), (0.0, -0.0)])
def test_r19_scale_values_are_finite_and_the_step_is_not_zero(scale: tuple[float, float]) -> None:
    with pytest.raises(SchemaError):
        DimensionSchema("x", 3, scale=Scale(*scale))


@pytest.mark.parametrize(
    ("start", "step", "size"), [(1e308, 1e308, 3), (1e16, 1.0, 3), (1.0, 1e-17, 2), (0.0, 1.0, 2**62)]
)
def test_r19_floats_must_tell_the_cells_apart(start: float, step: float, size: int) -> None:
    with pytest.raises(SchemaError, match="tell"):
        DimensionSchema("x", size, scale=Scale(start, step))


ERA5 = (
    DimensionSchema("y", 721, scale=Scale(90.0, -0.25, "lat")),
    DimensionSchema("x", 1440, scale={"start_value": -180.0, "step": 0.25, "name": "lon"}),
)


def test_r20_r21_the_grid_of_era5() -> None:
    schema = ArraySchema(ERA5, np.float32)
    assert schema.shape == (721, 1440)
    lat, lon = (dimension.scale for dimension in ERA5)
    assert lat is not None
    assert lon is not None
    assert (lat.value(0), lon.value(0)) == (90.0, -180.0)
    assert (lat.value(720), lon.value(1439)) == (-90.0, 179.75)
    indexes = schema.indexes({})
    assert (place(indexes["y"], 0.0), place(indexes["x"], 0.0)) == (360, 720)


def test_r22_labels_are_words() -> None:
    labels = ["temperature", "pressure", "wind_speed", "humidity"]
    layers = DimensionSchema("layers", 4, labels=labels)
    labels[0] = "changed"
    assert layers.labels == ("temperature", "pressure", "wind_speed", "humidity")
    assert place(layers.index(4), "temperature") == 0
    assert place(layers.index(4), "wind_speed") == 2


@pytest.mark.parametrize(
    "labels",
    [
        [],
        (),
        {},
        {"a": 0, "b": 1, "c": 2},
        "abc",
        b"abc",
        {"a", "b", "c"},
        np.array(["a", "b", "c"]),
        [1, 2, 3],
        [1.0, 2, 3.0],
        ["a", 1.0, "b"],
        ["a", "b"],
        ["a", "b", "c", "d"],
        ["a", "b", "a"],
        [1.0, 2.0, 1.0],
        [0.0, -0.0, 1.0],
        [nan, 1.0, 2.0],
        [1.0, 2.0, inf],
        [True, False, 1.0],
        [None, "a", "b"],
        3,
    ],
)
def test_r23_labels_are_checked_when_the_schema_is_built(labels: Any) -> None:
    with pytest.raises(SchemaError, match="labels"):
        DimensionSchema("x", 3, labels=labels)


def test_r23_labels_may_be_floats() -> None:
    for labels in ([1.5, -2.5, 0.0], (np.float64(1.5), np.float32(-2.5), 0.0)):
        made = DimensionSchema("x", 3, labels=labels)
        assert made.labels == (1.5, -2.5, 0.0)
        assert {type(label) for label in made.labels or ()} == {float}


def test_r24_labels_or_scale_never_both() -> None:
    with pytest.raises(SchemaError, match="labels and a scale"):
        DimensionSchema("x", 2, labels=["a", "b"], scale=Scale(0.0, 1.0))
    with pytest.raises(SchemaError, match="labels and a scale"):
        DimensionSchema("x", 2, labels=[], scale={})


HEIGHT = DimensionSchema(name="height", size=255, scale=Scale(start_value=0.0, step=0.01, name="meters"))


def test_r26_values_are_rounded_to_the_decimals_of_the_step() -> None:
    assert HEIGHT.scale is not None
    assert HEIGHT.scale.value(1) == 0.01
    assert HEIGHT.scale.value(254) == 2.54
    assert Scale(0.05, 0.1).value(2) == 0.25
    assert Scale(90.125, -0.25).value(1) == 89.875
    assert Scale(0.0, 1e-9).value(3) == 3e-9


@pytest.mark.parametrize(
    ("start", "step", "size"),
    [
        (0.0, 0.01, 255),
        (0.0, 0.1, 100),
        (90.0, -0.1, 1801),
        (-180.0, 0.05, 7200),
        (90.0, -0.25, 721),
        (0.1, 1 / 3, 999),
    ],
)
@pytest.mark.parametrize("kind", [float, np.float32])
def test_r26_every_value_that_is_shown_is_an_index(
    start: float, step: float, size: int, kind: Callable[[float], Any]
) -> None:
    dimension = DimensionSchema("x", size, scale=Scale(start, step))
    assert dimension.scale is not None
    found = [place(dimension.index(size), kind(dimension.scale.value(i))) for i in range(size)]
    assert found == list(range(size))


finite = st.floats(allow_nan=False, allow_infinity=False)
decimal = st.builds(lambda number, places: number / 10**places, st.integers(-(10**7), 10**7), st.integers(0, 12))


@given(finite | decimal, finite | decimal, st.integers(1, 10**5) | st.integers(1, 2**63 - 1), st.floats(0, 1))
@example(1.2e24, 1.0, 1, 0.0)
def test_r26_of_every_scale_that_is_taken(start: float, step: float, size: int, part: float) -> None:
    try:
        dimension = DimensionSchema("x", size, scale=Scale(start, step))
    except SchemaError:
        return
    position = min(int(part * size), size - 1)
    assert dimension.scale is not None
    assert place(dimension.index(size), dimension.scale.value(position)) == position


def test_r27_ints_are_positions_floats_and_texts_are_labels() -> None:
    assert place(HEIGHT.index(255), 3) == 3
    assert place(HEIGHT.index(255), 0.03) == 3
    assert place(HEIGHT.index(255), slice(0.01, 0.04)) == slice(1, 4)
    floats = DimensionSchema("x", 3, labels=[10.0, 0.5, 7.25]).index(3)
    assert place(floats, 0.5) == 1
    assert place(floats, slice(10.0, 7.25)) == slice(0, 2)


@pytest.mark.parametrize("label", [10.00001, 0.4999, 3.0, nan, inf, "10.0"])
def test_r27_nothing_lies_between_float_labels(label: Any) -> None:
    floats = DimensionSchema("x", 3, labels=[10.0, 0.5, 1e6]).index(3)
    with pytest.raises(IndexError):
        place(floats, label)


def test_r27_float_labels_match_within_four_spacings_if_one_alone_does() -> None:
    index = dims.FloatLabels((0.1, 0.3, 1.0, float(np.nextafter(1.0, 2))))
    assert place(index, 0.1 + 0.2) == 1
    assert place(index, np.float32(0.1)) == 0
    assert place(index, 1.0) == 2
    assert place(index, float(np.nextafter(1.0, 2))) == 3
    with pytest.raises(IndexError):
        place(index, float(np.nextafter(1.0, 0)))
    with pytest.raises(IndexError):
        place(index, 0.1 + 0.2 + 1e-12)
    assert place(index, [0.3, 0.1]).tolist() == [1, 0]


def test_r28_r29_a_time_dimension_has_times_alone() -> None:
    with pytest.raises(TypeError):
        TimeDimensionSchema("t", 3, NEW_YEAR, HOUR, labels=["a", "b", "c"])  # type: ignore[call-arg]
    index = TimeDimensionSchema("t", 3, NEW_YEAR, HOUR).index(NEW_YEAR, 3)
    for label in (datetime(2023, 1, 1, 2), "2023-01-01T02:00:00", 1672538400.0, "2023-01-01T05:00:00+03:00"):
        assert place(index, label) == 2


def test_r30_a_year_of_hours() -> None:
    year = TimeDimensionSchema(name="dt", size=8760, start_value=NEW_YEAR, step=HOUR)
    assert place(year.index(NEW_YEAR, 8760), datetime(2023, 12, 31, 23)) == 8759
    with pytest.raises(IndexError):
        place(year.index(NEW_YEAR, 8760), datetime(2024, 1, 1))


def test_r31_a_direct_start_is_that_of_all_arrays() -> None:
    schema = ArraySchema([TimeDimensionSchema("t", 3, NEW_YEAR, HOUR)], float)
    index = dims.TimeScale(np.datetime64("2023-01-01", "us"), np.timedelta64(3600 * 10**6, "us"), 3)
    assert schema.indexes({}) == {"t": index}


@pytest.mark.parametrize(
    ("start", "kept"),
    [
        (datetime(2020, 2, 29), datetime(2020, 2, 29, tzinfo=UTC)),
        (datetime(2020, 2, 29, 1, tzinfo=timezone(timedelta(hours=3))), datetime(2020, 2, 28, 22, tzinfo=UTC)),
        ("2020-02-29T00:00:00.123456-02:30", datetime(2020, 2, 29, 2, 30, 0, 123456, tzinfo=UTC)),
        ("2020-02-29", datetime(2020, 2, 29, tzinfo=UTC)),
        ("2020-02-29T00:00:00Z", datetime(2020, 2, 29, tzinfo=UTC)),
    ],
)
def test_r33_a_start_is_kept_in_utc(start: Any, kept: datetime) -> None:
    found = TimeDimensionSchema("t", 3, start, HOUR).start_value
    assert isinstance(found, datetime)
    assert (found, found.tzinfo) == (kept, UTC)


@pytest.mark.parametrize(
    "start", ["", "$", "$ ", "x", "2020-13-01", None, 0, 1.0, date(2020, 1, 1), np.datetime64("2020-01-01"), b"$dt"]
)
def test_r32_other_starts_are_none(start: Any) -> None:
    with pytest.raises(SchemaError):
        TimeDimensionSchema("t", 3, start, HOUR)


def test_r34_get_utc_converts() -> None:
    assert get_utc(datetime(2020, 1, 1, 12)) == datetime(2020, 1, 1, 12, tzinfo=UTC)
    found = get_utc(datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=-5))))
    assert (found, found.tzinfo) == (datetime(2020, 1, 1, 17, tzinfo=UTC), UTC)
    assert type(get_utc("2020-01-01T12:00")) is datetime
    for wrong in (3, None, date(2020, 1, 1), "x", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))):
        with pytest.raises(SchemaError):
            get_utc(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [timedelta(), 3600, 1.0, "1h", None, {"hours": 1}, np.timedelta64(1, "h")])
def test_r35_a_step_is_a_timedelta_that_is_not_zero(step: Any) -> None:
    with pytest.raises(SchemaError, match="step"):
        TimeDimensionSchema("t", 3, NEW_YEAR, step)


@pytest.mark.parametrize("step", [timedelta(microseconds=1), timedelta(weeks=1), -HOUR])
def test_r35_of_any_length_and_direction(step: timedelta) -> None:
    time = TimeDimensionSchema("t", 4, NEW_YEAR, step)
    assert place(time.index(NEW_YEAR, 4), NEW_YEAR + 3 * step) == 3


@pytest.mark.parametrize(("size", "step"), [(3, timedelta(days=10**7)), (10**12, -HOUR), (2**62, timedelta(weeks=1))])
def test_r35_times_stay_within_the_years_that_datetimes_have(size: int, step: timedelta) -> None:
    with pytest.raises(SchemaError, match="years"):
        TimeDimensionSchema("t", size, NEW_YEAR, step)


def test_r36_ints_are_never_labels() -> None:
    time = TimeDimensionSchema("t", 3, NEW_YEAR, HOUR).index(NEW_YEAR, 3)
    assert place(time, 1) == 1
    assert place(time, 1672531200) == 1672531200
    assert place(HEIGHT.index(255), 1) == 1
    assert place(DimensionSchema("x", 2, labels=[1.0, 0.0]).index(2), 1) == 1


def test_an_unlimited_dimension_has_no_size_and_no_labels() -> None:
    grown = DimensionSchema("x", None, scale=Scale(0.0, 0.5))
    assert grown.index(4) == dims.ScaleIndex(0.0, 0.5, 4)
    assert TimeDimensionSchema("t", None, NEW_YEAR, HOUR).as_dict["size"] is None
    with pytest.raises(SchemaError, match="unlimited"):
        DimensionSchema("x", None, labels=["a"])


EACH = [
    DimensionSchema("x", 3, labels=["a", "b", "c"]),
    DimensionSchema("x", 3, scale=Scale(0.0, 1.0)),
    TimeDimensionSchema("t", 3, "$start", -HOUR),
    TimeDimensionSchema("t", 3, NEW_YEAR, HOUR),
]


@pytest.mark.parametrize("schema", EACH, ids=repr)
def test_r3_dimension_schemas_are_values(schema: Any) -> None:
    for field in ("name", "size"):
        with pytest.raises(FrozenInstanceError):
            setattr(schema, field, 5)
        with pytest.raises(FrozenInstanceError):
            delattr(schema, field)
    for twin in (pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema)):
        assert twin == schema
        assert hash(twin) == hash(schema)
    assert len({*EACH, schema}) == len(EACH)
    assert repr(schema).startswith(f"{type(schema).__name__}(name='{schema.name}', size=3")


def test_a_whole_number_in_a_scale_is_told_as_a_float() -> None:
    with pytest.raises(SchemaError, match=r"give a float: -1\.0 instead of -1"):
        DimensionSchema("lat", 3, scale=Scale(60.0, -1))
