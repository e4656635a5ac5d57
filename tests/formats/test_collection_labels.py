"""What a schema says of the labels that a dimension has: scales, words, times, or nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.formats.collections.single_array import collection_name, dimension_names, dimension_schema
from hyperslab.model.dims import CFTime, Coordinate, FloatLabels, Labels, ScaleIndex, TimeScale
from hyperslab.model.schemas import DimensionSchema, TimeDimensionSchema
from hyperslab.model.schemas import Scale as ScaleSchema

START = datetime(2013, 1, 1, tzinfo=UTC)
NEW_YEAR = np.datetime64("2013-01-01", "s")


def made(index: Any, size: int) -> DimensionSchema | TimeDimensionSchema:
    return dimension_schema("d", size, index)


@pytest.mark.parametrize(
    ("index", "size", "scale"),
    [
        (ScaleIndex(90.0, -0.25, 8), 8, ScaleSchema(90.0, -0.25)),
        (Coordinate(np.arange(60.0, 30.0, -2.5)), 12, ScaleSchema(60.0, -2.5)),
        (Coordinate(np.arange(5, dtype="i2")), 5, ScaleSchema(0.0, 1.0)),
        (Coordinate(np.linspace(0, 1, 11, dtype="f4")), 11, ScaleSchema(0.0, 0.1)),
        (Coordinate(np.array([1.0, 2.0, 4.0])), 3, None),
        (Coordinate(np.array([1.0, 1.0])), 2, None),
        (Coordinate(np.array([1.0, np.nan])), 2, None),
        (Coordinate(np.array([1.0])), 1, None),
        (Coordinate(np.array([True, False])), 2, None),
        (None, 3, None),
    ],
)
def test_numbers(index: Any, size: int, scale: ScaleSchema | None) -> None:
    found = made(index, size)
    assert isinstance(found, DimensionSchema)
    assert (found.scale, found.labels, found.size) == (scale, None, size)


@pytest.mark.parametrize(
    ("index", "labels"),
    [
        (Labels(("a", "b")), ("a", "b")),
        (Coordinate(np.array(["a", "b"])), ("a", "b")),
        (FloatLabels((1.5, 9.25)), (1.5, 9.25)),
        (Labels(("a", "a")), None),
    ],
)
def test_words(index: Any, labels: tuple[Any, ...] | None) -> None:
    found = made(index, 2)
    assert isinstance(found, DimensionSchema)
    assert found.labels == labels


@pytest.mark.parametrize(
    ("index", "step"),
    [
        (TimeScale(NEW_YEAR, np.timedelta64(6, "h"), 3), timedelta(hours=6)),
        (Coordinate(NEW_YEAR + np.arange(3) * np.timedelta64(1, "D")), timedelta(days=1)),
        (CFTime(np.arange(3), "hours", "2013-01-01", "standard"), timedelta(hours=1)),
        (CFTime(np.array([0.0, 0.5, 1.0]), "days", "2013-01-01", "proleptic_gregorian"), timedelta(hours=12)),
    ],
)
def test_times(index: Any, step: timedelta) -> None:
    found = made(index, 3)
    assert isinstance(found, TimeDimensionSchema)
    assert (found.start_value, found.step) == (START, step)


@pytest.mark.parametrize(
    "index",
    [
        CFTime(np.array([0, 1, 3]), "hours", "2013-01-01", "standard"),
        CFTime(np.arange(3), "hours", "2013-01-01", "noleap"),
        CFTime(np.arange(3), "hours", "1500-01-01", "standard"),
        CFTime(np.array([0.0, np.nan, 1.0]), "hours", "2013-01-01", "standard"),
        CFTime(np.array([0, 10**17, 2 * 10**17]), "hours", "2013-01-01", "standard"),
        TimeScale(np.datetime64("2013-01-01", "ns"), np.timedelta64(1, "ns"), 3),
        Coordinate(np.array(["2013-01-01", "NaT", "2013-01-03"], "M8[D]")),
    ],
)
def test_times_that_a_schema_cannot_say(index: Any) -> None:
    assert made(index, 3) == DimensionSchema("d", 3)


@given(
    start=st.floats(-1e6, 1e6),
    step=st.floats(1e-3, 1e3),
    size=st.integers(2, 50),
    down=st.booleans(),
    narrow=st.booleans(),
)
def test_a_scale_is_never_far_from_the_labels(start: float, step: float, size: int, down: bool, narrow: bool) -> None:
    step = -step if down else step
    values = (start + np.arange(size) * step).astype("f4" if narrow else "f8")
    found = made(Coordinate(values), size)
    assert isinstance(found, DimensionSchema)
    if found.scale is not None:
        said = found.scale.start_value + np.arange(size) * found.scale.step
        assert np.abs(said - values).max() <= 2e-6 * abs(found.scale.step)


@given(st.lists(st.sampled_from([None, "x", "y", "dim_1", "dim_0", " "]), max_size=5))
def test_dimension_names_are_all_different(dims: list[str | None]) -> None:
    names = dimension_names(dims)
    assert len(set(names)) == len(dims)
    assert all(name.strip() for name in names)


def test_collection_names_are_free() -> None:
    assert collection_name("a/b", ()) == "a.b"
    assert collection_name("a/b", ("a.b", "a.b-2")) == "a.b-3"
    assert len(collection_name("n" * 400, ())) == 200
