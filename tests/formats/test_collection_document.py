"""Collection documents and records as text: those that DEKER wrote, byte for byte, and whatever a schema may be."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from math import nan
from typing import Any

import golden_deker as golden
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import FormatError, SchemaError
from hyperslab.formats.collections.base import (
    CollectionDocument,
    bare_spec,
    complete_document,
    document_bytes,
    document_problems,
    parse_document,
    parse_schema,
    record_of,
)
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.metadata_json import records
from hyperslab.model.dims import FloatLabels, Labels, ScaleIndex, TimeScale
from hyperslab.model.schemas import (
    AnyArraySchema,
    AnyDimensionSchema,
    ArraySchema,
    AttributeSchema,
    DimensionSchema,
    HDF5CompressionOpts,
    HDF5Options,
    Record,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.model.schemas import Scale as ScaleSchema
from hyperslab.model.schemas.arrays import check_new, key_of, new_id

HOUR = timedelta(hours=1)
WEATHER = (
    '{"name": "weather", "type": "array", "schema": {"dimensions": [{"name": "day_hours", "size": 24, "type": "time", '
    '"start_value": "$dt", "step": {"days": 0, "seconds": 3600, "microseconds": 0}}, {"name": "y", "size": 181, '
    '"labels": null, "scale": {"start_value": 90.0, "step": -1.0, "name": "lat"}, "type": "generic"}, {"name": "x", '
    '"size": 360, "labels": null, "scale": {"start_value": -180.0, "step": 1.0, "name": "lon"}, "type": "generic"}, '
    '{"name": "weather", "size": 4, "labels": ["temperature", "humidity", "pressure", "wind_speed"], "scale": null, '
    '"type": "generic"}], "dtype": "numpy.float64", "attributes": [{"name": "dt", "primary": true, '
    '"dtype": "datetime"}, {"name": "tm", "primary": false, "dtype": "int"}], "fill_value": null}, "options": null, '
    '"storage_adapter": "HDF5StorageAdapter", "metadata_version": "0.2"}'
)
VGRID = (
    '{"name": "vgrid_coll", "type": "varray", "schema": {"dimensions": [{"name": "y", "size": 100, "labels": null, '
    '"scale": null, "type": "generic"}, {"name": "x", "size": 200, "labels": null, "scale": null, "type": "generic"}], '
    '"dtype": "numpy.int64", "attributes": [], "fill_value": "-99999", "vgrid": [50, 20]}, "options": null, '
    '"storage_adapter": "HDF5StorageAdapter", "metadata_version": "0.2"}'
)
YX = [DimensionSchema("y", 100), DimensionSchema("x", 200)]
LAYERS = ["temperature", "humidity", "pressure", "wind_speed"]


def weather() -> ArraySchema:
    """The schema of the complete example."""
    return ArraySchema(
        dimensions=[
            TimeDimensionSchema(name="day_hours", size=24, start_value="$dt", step=HOUR),
            DimensionSchema(name="y", size=181, scale=ScaleSchema(start_value=90.0, step=-1.0, name="lat")),
            DimensionSchema(name="x", size=360, scale=ScaleSchema(start_value=-180.0, step=1.0, name="lon")),
            DimensionSchema(name="weather", size=4, labels=LAYERS),
        ],
        attributes=[
            AttributeSchema(name="dt", dtype=datetime, primary=True),
            AttributeSchema(name="tm", dtype=int, primary=False),
        ],
        dtype=float,
    )


def test_r81_r82_r86_r87_the_document_of_the_complete_example() -> None:
    document = CollectionDocument("weather", weather(), layout="deker")
    assert document_bytes(document) == WEATHER.encode()
    assert len(document_bytes(document)) == 825
    assert parse_document(json.loads(WEATHER), "weather") == document
    assert document.schema.shape == (24, 181, 360, 4)


@pytest.mark.parametrize("tiles", [{"vgrid": (50, 20)}, {"arrays_shape": (2, 10)}])
def test_r73_the_grid_alone_is_stored(tiles: dict[str, Any]) -> None:
    document = CollectionDocument("vgrid_coll", VArraySchema(YX, np.int64, None, -99999, **tiles), layout="deker")
    assert document_bytes(document) == VGRID.encode()
    found = parse_document(json.loads(VGRID), "vgrid_coll")
    assert found == document
    assert isinstance(found.schema, VArraySchema)
    assert found.schema.arrays_shape == (2, 10)


@pytest.mark.parametrize("name", golden.collections())
def test_documents_of_deker_come_back_byte_for_byte(name: str) -> None:
    stored = golden.document(name)
    document = parse_document(json.loads(stored), name)
    assert document_problems(json.loads(stored), name) == []
    assert document_bytes(document) == stored
    assert document.as_dict == golden.manifest()["collections"][name]["as_dict"]
    assert (document.layout, document.strict) == ("deker", True)


@pytest.mark.parametrize("name", golden.collections())
def test_records_of_deker_come_back_byte_for_byte(name: str) -> None:
    document = parse_document(json.loads(golden.document(name)), name)
    for said in golden.arrays(name):
        meta = {key: said[key] for key in ("id", "primary_attributes", "custom_attributes")}
        problems = Problems(name)
        record = records.record_from_json(document.schema, meta, problems)
        assert not problems
        assert records.record_to_bytes(record, updated="updated" in said["note"]) == json.dumps(meta).encode()
        spec = bare_spec(document, record)
        assert list(spec.shape) == said["shape"]
        assert record_of(document, spec.attrs) == record


def test_an_updated_record_of_deker_has_its_types() -> None:
    document = parse_document(json.loads(golden.document("attrs_all")), "attrs_all")
    record = record_of(document, golden.arrays("attrs_all")[2])
    assert record.primary == {
        "i": 2,
        "f": 1.0,
        "c": 2 - 1j,
        "s": "s 2",
        "tp": (2, "a", (1.5, 2j)),
        "d": datetime(2000, 1, 3, tzinfo=UTC),
    }
    assert record.custom["cd"] == datetime(2001, 1, 1, tzinfo=UTC)
    assert list(record.custom) == ["cs", "never", "cd", "ci", "cf", "cc", "ct"]


@pytest.mark.parametrize("number", [256, 99])
def test_a_bare_spec_has_what_the_schema_says(number: int) -> None:
    dt = datetime(2023, 1, 1, tzinfo=UTC)
    record = Record(new_id(), *check_new(weather(), {"dt": dt}, {"tm": number}))
    spec = bare_spec(CollectionDocument("weather", weather()), record)
    assert spec.shape == spec.chunks == (24, 181, 360, 4)
    assert spec.dims == ("day_hours", "y", "x", "weather")
    assert spec.dtype == np.float64
    assert np.isnan(spec.fill_value)
    assert spec.problem is None
    assert spec.attrs == {
        "id": record.id,
        "primary_attributes": {"dt": "2023-01-01T00:00:00+00:00"},
        "custom_attributes": {"tm": number},
    }
    assert spec.indexes == {
        "day_hours": TimeScale(np.datetime64(dt.replace(tzinfo=None), "us"), np.timedelta64(HOUR, "us"), 24),
        "y": ScaleIndex(90.0, -1.0, 181),
        "x": ScaleIndex(-180.0, 1.0, 360),
        "weather": Labels(tuple(LAYERS)),
    }


def test_a_bare_spec_of_an_array_that_has_grown() -> None:
    dims = [TimeDimensionSchema("t", None, "$dt", HOUR), DimensionSchema("x", 2, labels=[0.5, 1.5])]
    schema = ArraySchema(dims, int, [AttributeSchema("dt", datetime, False)])
    document = CollectionDocument("a", schema, strict=False)
    assert bare_spec(document, Record(new_id(), {}, {"dt": datetime(2020, 1, 1)})).shape == (0, 2)
    spec = bare_spec(document, Record(new_id(), {}, {"dt": None}), (7, 2))
    assert spec.shape == (7, 2)
    assert spec.indexes == {"x": FloatLabels((0.5, 1.5))}


def test_our_own_layout_says_so_and_what_the_grid_does_not_tell() -> None:
    grown = VArraySchema([DimensionSchema("y", None), *YX[1:]], float, arrays_shape=(30, 7))
    document = CollectionDocument("a", grown, strict=False)
    said = json.loads(document_bytes(document))
    assert (said["layout"], said["strict"]) == ("hyperslab", False)
    assert said["schema"]["dimensions"][0]["size"] is None
    assert (said["schema"]["vgrid"], said["schema"]["arrays_shape"]) == ([0, 29], [30, 7])
    assert parse_document(said, "a") == document


@pytest.mark.parametrize(
    "schema",
    [
        ArraySchema([DimensionSchema("y", None)], float),
        VArraySchema(YX, float, arrays_shape=(30, 10)),
        VArraySchema([DimensionSchema("y", None)], float, arrays_shape=(3,)),
        VArraySchema(
            [TimeDimensionSchema(name, 4, "$dt", HOUR) for name in "ab"],  # whose tiles DEKER cannot name
            float,
            [AttributeSchema("dt", datetime, True)],
            vgrid=(2, 2),
        ),
    ],
)
def test_r68_the_layout_of_deker_takes_no_extensions(schema: AnyArraySchema) -> None:
    with pytest.raises(SchemaError, match="layout deker"):
        CollectionDocument("a", schema, layout="deker")
    said = CollectionDocument("a", schema).as_dict
    del said["layout"]
    with pytest.raises(FormatError, match="layout deker"):
        parse_document(said, "a")


Change = Callable[[dict[str, Any]], object]


def put(*path: Any) -> Change:
    """A change of one value of a document, the last of the path."""
    *way, last, value = path

    def change(said: dict[str, Any]) -> None:
        for step in way:
            said = said[step]
        said[last] = value

    return change


def drop(*path: Any) -> Change:
    """A change that takes a key out of a document."""
    *way, last = path

    def change(said: dict[str, Any]) -> None:
        for step in way:
            said = said[step]
        del said[last]

    return change


DIMS = ("schema", "dimensions")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (drop("name"), "name"),
        (drop("type"), "type"),
        (put("type", "vector"), "type"),
        (put("type", []), "type"),
        (drop("schema"), "schema"),
        (put("schema", []), "schema"),
        (drop("metadata_version"), "metadata_version"),
        (put("metadata_version", "0.3"), "metadata_version"),
        (put("metadata_version", "0.10"), "metadata_version"),
        (put("metadata_version", "1"), "metadata_version"),
        (put("metadata_version", 0.2), "metadata_version"),
        (put("metadata_version", "x"), "metadata_version"),
        (put("metadata_version", "0.-1"), "metadata_version"),
        (put("metadata_version", ""), "metadata_version"),
        (put("layout", "zarr"), "layout"),
        (put("options", []), "options"),
        (put("options", {"chunks": {"mode": "some"}}), "options"),
        (drop(*DIMS), "schema.dimensions"),
        (put(*DIMS, "x"), "schema.dimensions"),
        (put(*DIMS, [3]), r"schema.dimensions\[0\]"),
        (put(*DIMS, []), "schema"),
        (drop(*DIMS, 1, "type"), r"schema.dimensions\[1\]"),
        (put(*DIMS, 1, "type", "x"), r"schema.dimensions\[1\]"),
        (drop(*DIMS, 1, "name"), r"schema.dimensions\[1\]: name"),
        (put(*DIMS, 1, "name", "x"), "several dimensions"),
        (put(*DIMS, 1, "size", -3), r"schema.dimensions\[1\]"),
        (put(*DIMS, 1, "size", 3.0), r"schema.dimensions\[1\]"),
        (put(*DIMS, 1, "scale", {"start_value": 1}), r"schema.dimensions\[1\]"),
        (put(*DIMS, 1, "scale", {"start_value": 1, "step": 1.0}), r"schema.dimensions\[1\]"),
        (put(*DIMS, 1, "scale", {"start_value": nan, "step": 1.0, "name": None}), r"schema.dimensions\[1\]"),
        (put(*DIMS, 3, "labels", ["a", "b"]), r"schema.dimensions\[3\]"),
        (put(*DIMS, 3, "labels", {"a": 1}), r"schema.dimensions\[3\]"),
        (put(*DIMS, 0, "start_value", None), r"schema.dimensions\[0\]: start_value"),
        (put(*DIMS, 0, "start_value", "$other"), "other"),
        (put(*DIMS, 0, "step", 3600), r"schema.dimensions\[0\]"),
        (put(*DIMS, 0, "step", {"hours": 1}), r"schema.dimensions\[0\]"),
        (put(*DIMS, 0, "step", {"days": 0.5}), r"schema.dimensions\[0\]"),
        (put(*DIMS, 0, "step", {"days": 10**12}), r"schema.dimensions\[0\]"),
        (put(*DIMS, 0, "step", {}), r"schema.dimensions\[0\]"),
        (put("schema", "dtype", "numpy.float_"), "schema.dtype"),
        (drop("schema", "dtype"), "schema.dtype"),
        (drop("schema", "attributes"), "schema.attributes"),
        (put("schema", "attributes", {}), "schema.attributes"),
        (put("schema", "attributes", [{"name": "dt"}]), r"schema.attributes\[0\]"),
        (put("schema", "attributes", 0, "dtype", "list"), r"schema.attributes\[0\]"),
        (put("schema", "attributes", 0, "primary", 1), r"schema.attributes\[0\]"),
        (drop("schema", "fill_value"), "schema.fill_value"),
        (put("schema", "fill_value", "x"), "schema.fill_value"),
        (put("schema", "fill_value", []), "schema.fill_value"),
    ],
)
def test_damage_names_collection_and_field(change: Change, field: str) -> None:
    said = json.loads(WEATHER)
    change(said)
    with pytest.raises(FormatError, match=field) as caught:
        parse_document(said, "weather")
    assert caught.value.node == "weather"
    assert caught.value.problems == tuple(document_problems(said, "weather"))


@pytest.mark.parametrize("said", [None, [], "x", 3])
def test_a_document_is_an_object(said: Any) -> None:
    with pytest.raises(FormatError, match="not an object"):
        parse_document(said, "a")


@pytest.mark.parametrize("vgrid", [None, [3, 1], [50], [0, 20], "x", [50, 20.0]])
def test_damage_of_the_grid(vgrid: Any) -> None:
    said = json.loads(VGRID)
    said["schema"]["vgrid"] = vgrid
    with pytest.raises(FormatError, match="vgrid"):
        parse_document(said, "vgrid_coll")
    del said["schema"]["vgrid"]
    with pytest.raises(FormatError, match="vgrid"):
        parse_document(said, "vgrid_coll")


def test_every_problem_is_told_at_once() -> None:
    said = json.loads(WEATHER)
    said["type"] = "x"
    said["schema"]["dtype"] = "numpy.bool"
    said["schema"]["dimensions"][1]["size"] = 0
    said["schema"]["dimensions"][2]["size"] = 0
    said["metadata_version"] = "9"
    found = {problem.kind for problem in document_problems(said, "weather")}
    assert found == {"type", "schema.dtype", "schema.dimensions[1]", "schema.dimensions[2]", "metadata_version"}


@pytest.mark.parametrize(
    "change",
    [
        drop("options"),
        drop("storage_adapter"),
        drop("schema", "dimensions", 1, "scale"),
        drop("schema", "dimensions", 1, "labels"),
        put("metadata_version", "0.1"),
        put("metadata_version", "0.2.0"),
        put("schema", "dtype", "float64"),
        put("schema", "dtype", "numpy.double"),
        put("schema", "fill_value", "nan"),
    ],
)
def test_what_a_reader_survives(change: Change) -> None:
    said = json.loads(WEATHER)
    change(said)
    found = parse_document(said, "weather")
    assert found.storage_adapter == "HDF5StorageAdapter"
    assert replace(found, metadata_version="0.2").schema.dtype == np.float64


def test_the_place_tells_the_name() -> None:
    found = parse_document(json.loads(WEATHER), "moved")
    assert found.name == "moved"
    assert [problem.kind for problem in document_problems(json.loads(WEATHER), "moved")] == ["name"]


def test_keys_that_are_not_known_are_kept() -> None:
    said = json.loads(WEATHER)
    said["note"] = {"a": [1, None]}
    said["schema"]["crs"] = "EPSG:4326"
    document = parse_document(said, "weather")
    assert (document.extra, document.schema_extra) == ({"note": {"a": [1, None]}}, {"crs": "EPSG:4326"})
    assert document.as_dict == said
    assert [problem.kind for problem in document_problems(said, "weather")] == ["unknown-key"]
    hash(document)


def test_what_users_leave_out_is_completed() -> None:
    said = {
        "name": "a",
        "type": "array",
        "schema": {"dimensions": [{"name": "x", "size": 2, "type": "generic"}], "dtype": "numpy.int8"},
        "metadata_version": "0.2",
    }
    document = parse_document(complete_document(said), "a")
    assert (document.schema, document.options) == (ArraySchema([DimensionSchema("x", 2)], np.int8), None)
    assert complete_document({"schema": 3}) == {"schema": 3}
    with pytest.raises(FormatError):
        parse_document(said, "a")


def test_a_schema_alone() -> None:
    problems = Problems("a")
    assert parse_schema("array", json.loads(WEATHER)["schema"], problems) == weather()
    assert not problems
    assert parse_schema("array", None, problems) is None
    assert problems.is_fatal


KINDS: dict[str, type] = {"i": int, "f": float, "c": complex, "s": str, "t": tuple, "d": datetime}
EVERY = ArraySchema(
    [DimensionSchema("x", 2)],
    float,
    [AttributeSchema(name, kind, primary) for primary in (True, False) for name, kind in KINDS.items() if primary]
    + [AttributeSchema(f"c{name}", kind, primary=False) for name, kind in KINDS.items()]
    + [AttributeSchema("small", np.float32, primary=False), AttributeSchema("whole", np.uint8, primary=False)],
)
STORED: dict[str, Any] = {
    "id": "10ecb727-70e5-49a7-ad6b-f793ee0a23be",
    "primary_attributes": {"i": 1, "f": 0.5, "c": "2j", "s": "s", "t": [1, ["a"]], "d": "2020-01-01T00:00:00+00:00"},
    "custom_attributes": dict.fromkeys(["ci", "cf", "cc", "cs", "ct", "cd", "small", "whole"]),
}


def read(said: Any) -> Record:
    """The record of JSON values; FormatError."""
    problems = Problems("a")
    record = records.record_from_json(EVERY, said, problems)
    problems.raise_if_fatal()
    return record


@pytest.mark.parametrize(
    "change",
    [
        drop("id"),
        put("id", "../x"),
        put("id", None),
        drop("primary_attributes"),
        put("primary_attributes", []),
        drop("custom_attributes"),
        drop("primary_attributes", "i"),
        put("primary_attributes", "i", None),
        put("primary_attributes", "i", True),
        put("primary_attributes", "i", 1.5),
        put("primary_attributes", "i", []),
        put("primary_attributes", "f", {}),
        put("primary_attributes", "f", "x"),
        put("primary_attributes", "c", "x"),
        put("primary_attributes", "c", True),
        put("primary_attributes", "s", 3),
        put("primary_attributes", "t", "x"),
        put("primary_attributes", "d", "x"),
        put("primary_attributes", "d", 3),
        put("custom_attributes", "ci", "x"),
        put("custom_attributes", "cd", "2020-13-01"),
        put("custom_attributes", "small", []),
    ],
)
def test_damage_of_a_record_is_told(change: Change) -> None:
    said = json.loads(json.dumps(STORED))
    change(said)
    with pytest.raises(FormatError):
        read(said)


def test_a_record_is_an_object() -> None:
    with pytest.raises(FormatError, match="not an object"):
        read([])


@pytest.mark.parametrize(
    ("name", "said", "value"),
    [
        ("d", "2001-01-01 00:00:00+00:00", datetime(2001, 1, 1, tzinfo=UTC)),
        ("d", "2001-01-01T00:00:00.000005", datetime(2001, 1, 1, 0, 0, 0, 5, tzinfo=UTC)),
        ("d", "2001-01-01T03:00:00+03:00", datetime(2001, 1, 1, tzinfo=UTC)),
        ("c", "(1+2j)", 1 + 2j),
        ("c", "-1j", -1j),
        ("c", 3, 3 + 0j),
        ("f", 3, 3.0),
        ("f", "0.5", 0.5),
        ("i", 10**30, 10**30),
        ("i", 3.0, 3),
        ("t", [], ()),
    ],
)
def test_forms_of_values_that_are_read(name: str, said: Any, value: Any) -> None:
    record = read({**STORED, "primary_attributes": {**STORED["primary_attributes"], name: said}})
    assert record.primary[name] == value
    assert type(record.primary[name]) is type(value)


def test_r47_reading_accepts_null_for_datetimes() -> None:
    assert read(STORED).custom["cd"] is None


def test_attributes_that_are_missing_or_unknown_are_noted() -> None:
    said = json.loads(json.dumps(STORED))
    del said["custom_attributes"]["cd"]
    said["custom_attributes"]["new"] = 1
    problems = Problems("a")
    record = records.record_from_json(EVERY, said, problems)
    assert record.custom["cd"] is None
    assert "new" not in record.custom
    assert [problem.kind for problem in problems] == ["unknown-attribute", "missing-attribute"]
    assert not problems.is_fatal


def test_after_an_update_datetimes_have_a_space_as_the_peer_writes_them() -> None:
    record = replace(read(STORED), custom={**read(STORED).custom, "cd": datetime(2001, 1, 1, tzinfo=UTC)})
    assert records.record_to_json(record)["custom_attributes"]["cd"] == "2001-01-01T00:00:00+00:00"
    said = json.loads(records.record_to_bytes(record, updated=True))
    assert said["custom_attributes"]["cd"] == "2001-01-01 00:00:00+00:00"
    assert said["primary_attributes"]["d"] == "2020-01-01T00:00:00+00:00"
    assert read(said) == record


moments = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))])).filter(
    lambda moment: 2 < moment.year < 9998
)
leaves = st.one_of(st.integers(), st.floats(), st.complex_numbers(), st.text(), moments)
VALUES: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(),
    float: st.floats(),
    complex: st.complex_numbers(),
    str: st.text(),
    tuple: st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(tuple)).filter(
        lambda value: isinstance(value, tuple)
    ),
    datetime: moments,
}


@given(st.data())
def test_records_come_back_from_their_text(data: st.DataObject) -> None:
    primary = {name: data.draw(VALUES[kind]) for name, kind in KINDS.items()}
    custom = {f"c{name}": data.draw(st.none() | VALUES[kind]) for name, kind in KINDS.items() if name != "d"}
    key, rest = check_new(EVERY, primary, {**custom, "cd": data.draw(moments), "small": 0.1, "whole": 255})
    record = Record(new_id(), key, rest)
    for updated in (False, True):
        stored = records.record_to_bytes(record, updated=updated)
        found = read(json.loads(stored))
        assert records.record_to_bytes(found, updated=updated) == stored
        assert records.key_to_bytes(EVERY, found) == records.key_to_bytes(EVERY, record)
        if not any(value != value for value in key.values()):
            assert key_of(EVERY, found) == key_of(EVERY, record)
        for name in ("i", "s", "d"):
            assert (found.primary[name], type(found.primary[name])) == (key[name], type(key[name]))


def test_equal_keys_have_equal_texts() -> None:
    schema = ArraySchema(
        [DimensionSchema("x", 2)], float, [AttributeSchema("f", float, True), AttributeSchema("s", str, True)]
    )
    assert records.key_to_bytes(schema, {"s": "é", "f": -0.0}) == b'[0.0,"\\u00e9"]'
    assert records.key_to_bytes(schema, {"s": "1", "f": nan}) == b'[NaN,"1"]'


names = st.text(min_size=1).filter(str.strip)


@st.composite
def dimensions(draw: st.DrawFn, name: str) -> AnyDimensionSchema:
    size = draw(st.integers(1, 5))
    match draw(st.sampled_from(["plain", "text", "float", "scale", "time", "start"])):
        case "text":
            return DimensionSchema(
                name, size, labels=draw(st.lists(st.text(), min_size=size, max_size=size, unique=True))
            )
        case "float":
            floats = st.floats(allow_nan=False, allow_infinity=False)
            return DimensionSchema(name, size, labels=draw(st.lists(floats, min_size=size, max_size=size, unique=True)))
        case "scale":
            steps = st.floats(-1e6, 1e6).filter(lambda step: abs(step) > 1e-3)
            return DimensionSchema(
                name, size, scale=ScaleSchema(draw(st.floats(-1e6, 1e6)), draw(steps), draw(st.none() | names))
            )
        case "time":
            return TimeDimensionSchema(name, size, draw(moments), draw(st.timedeltas(HOUR / 3600, HOUR)))
        case "start":
            return TimeDimensionSchema(name, size, "$dt", -draw(st.timedeltas(HOUR / 3600, HOUR)))
        case _:
            return DimensionSchema(name, draw(st.none() | st.integers(1, 2**40)))


@st.composite
def documents(draw: st.DrawFn) -> CollectionDocument:
    dims = [draw(dimensions(name)) for name in draw(st.lists(names, min_size=1, max_size=4, unique=True))]
    kinds = st.sampled_from([*KINDS.values(), np.float32, np.longlong, np.clongdouble, np.uint64])
    words = draw(st.lists(names.filter(lambda name: name != "dt"), max_size=3, unique=True))
    attributes = [AttributeSchema(word, draw(kinds), draw(st.booleans())) for word in words]
    attributes.insert(draw(st.integers(0, len(words))), AttributeSchema("dt", datetime, draw(st.booleans())))
    dtype = np.dtype(draw(st.sampled_from("bhilqBHILQefdgFDG")))
    fill = draw(st.none() | st.integers(0, 127))
    schema: AnyArraySchema
    if draw(st.booleans()):
        lengths = [1 if dim.size is None else draw(st.integers(1, min(dim.size, 50))) for dim in dims]
        schema = VArraySchema(dims, dtype, attributes, fill, arrays_shape=lengths)
        starts = [dim for dim in dims if isinstance(dim, TimeDimensionSchema) and dim.attribute]
        extended = bool(schema.unlimited) or not schema.is_regular or len(starts) > 1
    else:
        schema = ArraySchema(dims, dtype, attributes, fill)
        extended = bool(schema.unlimited)
    options = draw(st.sampled_from([None, HDF5Options(), HDF5Options(True, HDF5CompressionOpts(32015, (3,)))]))
    layout = "hyperslab" if extended else draw(st.sampled_from(["hyperslab", "deker"]))
    return CollectionDocument(draw(names), schema, options, layout=layout, strict=draw(st.booleans()))  # type: ignore[arg-type]


@given(documents())
def test_every_document_comes_back_from_its_text(document: CollectionDocument) -> None:
    stored = document_bytes(document)
    assert document_problems(json.loads(stored), document.name) == []
    found = parse_document(json.loads(stored), document.name)
    assert found == document
    assert document_bytes(found) == stored


def test_r17_r25_labels_are_stored_whole_and_a_scale_as_its_rule() -> None:
    many = DimensionSchema("w", 1000, labels=[f"{number}" for number in range(1000)])
    long = DimensionSchema("x", 10**15, scale=ScaleSchema(0.0, 0.5))
    document = CollectionDocument("a", ArraySchema([many, long], float))
    said = json.loads(document_bytes(document))["schema"]["dimensions"]
    assert said[0]["labels"] == list(many.labels or ())
    assert said[1]["scale"] == {"start_value": 0.0, "step": 0.5, "name": None}
    spec = bare_spec(document, Record(new_id(), {}, {}))
    assert spec.indexes == {"w": Labels(tuple(map(str, range(1000)))), "x": ScaleIndex(0.0, 0.5, 10**15)}


def test_r71_a_grid_is_that_of_every_array() -> None:
    document = parse_document(json.loads(VGRID), "vgrid_coll")
    assert isinstance(document.schema, VArraySchema)
    assert document.schema.vgrid == (50, 20)
    assert {bare_spec(document, Record(new_id(), {}, {})).shape for _ in range(2)} == {(100, 200)}
