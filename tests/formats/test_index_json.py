"""What the labels of dimensions are, kept in the attribute ``_hyperslab`` of Zarr arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyperslab as hs
from hyperslab.formats import zarr2, zarr3
from hyperslab.formats.metadata_json.extended_metadata import ATTRIBUTE, VERSION, read_indexes, write_indexes
from hyperslab.model.dims import Coordinate, FloatLabels, Index, Labels, ScaleIndex, TimeScale
from hyperslab.model.spec import ArraySpec

HOURS = TimeScale(np.datetime64("2023-01-01T00:00:00.000001", "us"), np.timedelta64(-3600 * 10**6, "us"), 4)
EVERY: dict[str, Index] = {
    "time": HOURS,
    "lat": ScaleIndex(90.0, -0.25, 3),
    "layer": Labels(("a", "é", "")),
    "depth": FloatLabels((1.5, -2.0)),
}
SHAPE = (4, 3, 3, 2)


def put(indexes: Mapping[str, Index], format: str) -> ArraySpec:
    """A spec that was written and read again."""
    module = {"zarr2": zarr2, "zarr3": zarr3}[format].document
    wish = ArraySpec(shape=SHAPE, dtype=np.dtype("f4"), chunks=(2, 2, 2, 2), dims=tuple(EVERY), indexes=indexes)
    made = module.new_array(wish)
    documents = json.loads(json.dumps(module.render(made)))
    found = module.parse(documents)
    assert isinstance(found, ArraySpec)
    assert ATTRIBUTE not in found.attrs
    assert module.render(found) == documents
    return found


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_zarr_arrays_keep_the_indexes_of_their_dimensions(format: str) -> None:
    assert put(EVERY, format).indexes == EVERY


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_values_listed_cell_by_cell_are_no_rule_and_stay_out(format: str) -> None:
    assert put({"lat": Coordinate(np.array([1.0, 2.0, 4.0]))}, format).indexes == {}
    assert put({}, format).attrs == {}


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_resized_axis_goes_by_its_rule(tmp_path: Any, format: str) -> None:
    indexes: dict[str, Index] = {
        "t": HOURS,
        "x": ScaleIndex(0.0, 0.5, 2),
        "w": Labels(("a", "b", "c")),
        "f": FloatLabels((1.0, 2.0, 3.0)),
    }
    url = str(tmp_path / "a")
    with hs.open(url, mode="w", format=format) as root:
        root.create_array("v", (4, 2, 3, 3), "f4", dims=tuple(indexes), chunks=(4, 2, 3, 3), fill_value=0)
    name = {"zarr2": ".zattrs", "zarr3": "zarr.json"}[format]
    written = tmp_path / "a" / "v" / name
    document = json.loads(written.read_text())
    attributes = document if format == "zarr2" else document["attributes"]
    attributes[ATTRIBUTE] = {"version": VERSION, "indexes": write_indexes(indexes, tuple(indexes))}
    written.write_text(json.dumps(document))
    with hs.open(url, mode="r+") as root:
        array = root["v"]
        array[2, 0, 1, 2] = 7.0
        assert array["2022-12-31T22:00:00.000001", 0.0, "b", 3.0] == 7.0
        array.resize((5, 4, 2, 2))
        array[4, 3, 1, 1] = 9.0
        assert array["2022-12-31T20:00:00.000001", 1.5, "b", 2.0] == 9.0
        with pytest.raises(IndexError):
            array[0, 0, "c", 0]
    with hs.open(url) as root:
        found = root["v"].spec.indexes
        assert found["t"].size == 5
        assert found["x"] == ScaleIndex(0.0, 0.5, 4)
        assert found["w"] == Labels(("a", "b"))
        assert found["f"] == FloatLabels((1.0, 2.0))


def test_labels_that_are_too_few_go_when_an_axis_grows() -> None:
    spec = ArraySpec(shape=(2,), dtype=np.dtype("f4"), chunks=(2,), dims=("w",), indexes={"w": FloatLabels((1.0, 2.0))})
    assert spec.evolve(shape=(3,)).indexes == {}
    assert spec.evolve(shape=(3,), indexes={"w": Labels(("a", "b", "c"))}).indexes == {"w": Labels(("a", "b", "c"))}
    assert spec.evolve(attrs={"a": 1}).indexes == spec.indexes


@pytest.mark.parametrize(
    "rule",
    [
        None,
        [],
        {"scale": None},
        {"scale": {"start": "0", "step": 1}},
        {"scale": {"start": 0.0, "step": 0}},
        {"scale": {"start": 0.0, "step": float("nan")}},
        {"labels": ["a"]},
        {"labels": ["a", 1.0, "b"]},
        {"labels": [1.0, 1.0, 2.0]},
        {"labels": [True, False, 2.0]},
        {"times": {"start": "x", "step": 1, "unit": "s"}},
        {"times": {"start": "2023-01-01Z", "step": 1, "unit": "s"}},
        {"times": {"start": "2023-13-01", "step": 1, "unit": "s"}},
        {"times": {"start": "2023-01-01", "step": 0, "unit": "s"}},
        {"times": {"start": "2023-01-01", "step": 1, "unit": "Y"}},
        {"times": {"start": "2023-01-01", "step": 10**30, "unit": "s"}},
        {"times": {"start": "2023-01-01", "step": 1, "unit": []}},
        {"times": {"start": "2023-01-01", "step": -(2**63), "unit": "s"}},
    ],
)
def test_rules_that_make_no_sense_are_passed_over(rule: Any) -> None:
    assert read_indexes({"x": rule}, ("x",), (3,)) == {}


numbers = st.floats(allow_nan=False, allow_infinity=False)
indexes_of_three = st.one_of(
    st.builds(ScaleIndex, numbers, numbers.filter(bool), st.just(3)),
    st.lists(st.text(), min_size=3, max_size=3).map(lambda names: Labels(tuple(names))),
    st.lists(numbers, min_size=3, max_size=3, unique=True).map(lambda values: FloatLabels(tuple(values))),
    st.builds(
        lambda start, step, unit: TimeScale(np.datetime64(start, unit), np.timedelta64(step, unit), 3),
        st.integers(-(10**9), 10**9),
        st.integers(1, 2**62),
        st.sampled_from(["D", "h", "m", "s", "ms", "us", "ns"]),
    ),
)


@given(indexes_of_three)
def test_every_rule_is_read_as_it_was_written(index: Index) -> None:
    said = json.loads(json.dumps(write_indexes({"x": index}, ("x", None))))
    assert read_indexes(said, ("x",), (3,)) == {"x": index}
