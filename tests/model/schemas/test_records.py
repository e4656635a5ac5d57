"""Values of attributes, ids, names and options: requirements R3, R44, R46, R47 and defects 6 and 7 of collections."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from hyperslab.errors import SchemaError
from hyperslab.model.schemas import (
    ArraySchema,
    AttributeSchema,
    DimensionSchema,
    HDF5CompressionOpts,
    HDF5Options,
    Record,
    TimeDimensionSchema,
)
from hyperslab.model.schemas.arrays import (
    check_collection_name,
    check_component,
    check_id,
    check_key,
    check_new,
    key_of,
    new_id,
    update_record,
)
from hyperslab.model.schemas.options import check_options, options_from_json

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
TYPES: dict[str, type] = {"i": int, "f": float, "c": complex, "s": str, "t": tuple, "d": datetime}
X = [DimensionSchema("x", 2)]
EVERY = ArraySchema(
    [*X, TimeDimensionSchema("dt", 3, "$start", timedelta(hours=1))],
    float,
    [AttributeSchema(name, kind, primary=True) for name, kind in TYPES.items()]
    + [AttributeSchema(f"c{name}", kind, primary=False) for name, kind in TYPES.items()]
    + [AttributeSchema("start", datetime, primary=False)],
)
KEY: dict[str, Any] = {"i": 1, "f": 1.5, "c": 1 - 2j, "s": "s", "t": (1, "a", (2j, NOON)), "d": NOON}
CUSTOM: dict[str, Any] = {"cd": NOON, "start": NOON}


def of(kind: type, *, primary: bool = True) -> ArraySchema:
    """A schema with one attribute ``a``."""
    return ArraySchema(X, float, [AttributeSchema("a", kind, primary)])


def kept(kind: type, value: Any) -> Any:
    """What becomes of a primary value."""
    return check_new(of(kind), {"a": value}, None)[0]["a"]


def test_r44_values_come_out_whole_and_in_order() -> None:
    primary, custom = check_new(EVERY, dict(reversed(KEY.items())), CUSTOM)
    assert primary == KEY
    assert list(primary) == list(TYPES)
    assert custom == {"ci": None, "cf": None, "cc": None, "cs": None, "ct": None, "cd": NOON, "start": NOON}


@pytest.mark.parametrize("name", TYPES)
def test_r44_every_primary_value_is_needed(name: str) -> None:
    for lacking in ({other: value for other, value in KEY.items() if other != name}, {**KEY, name: None}):
        with pytest.raises(SchemaError, match=f"no value of the primary attribute '{name}'"):
            check_new(EVERY, lacking, CUSTOM)


def test_r44_none_at_all_or_no_mapping() -> None:
    with pytest.raises(SchemaError, match="attributes 'i', 'f', 'c', 's', 't', 'd'"):
        check_new(EVERY, None, CUSTOM)
    for wrong in ([("i", 1)], "i", 3):
        with pytest.raises(SchemaError, match="mapping"):
            check_new(EVERY, wrong, CUSTOM)  # type: ignore[arg-type]
    assert check_new(ArraySchema(X, float), None, None) == ({}, {})


@pytest.mark.parametrize(
    ("primary", "custom"),
    [({**KEY, "x": 1}, CUSTOM), (KEY, {**CUSTOM, "x": 1}), ({**KEY, "ci": 1}, CUSTOM), (KEY, {**CUSTOM, 3: 1})],
)
def test_r44_unknown_names_are_refused(primary: Any, custom: Any) -> None:
    with pytest.raises(SchemaError, match="no attribute"):
        check_new(EVERY, primary, custom)


def test_r44_one_name_in_both() -> None:
    with pytest.raises(SchemaError, match="as primary and as custom"):
        check_new(EVERY, KEY, {**CUSTOM, "i": 1})


@pytest.mark.parametrize(
    ("kind", "value", "plain"),
    [
        (int, np.int64(3), 3),
        (int, np.uint8(3), 3),
        (int, 10**30, 10**30),
        (float, 3, 3.0),
        (float, np.int8(3), 3.0),
        (float, np.float32(0.1), float(np.float32(0.1))),
        (float, np.float64(0.1), 0.1),
        (float, inf, inf),
        (complex, np.complex64(1j), 1j),
        (str, np.str_("a"), "a"),
        (tuple, (np.int64(1), np.float32(0.5), np.str_("a"), (), ((),)), (1, 0.5, "a", (), ((),))),
        (tuple, (datetime(2020, 1, 1, 12),), (NOON,)),
        (tuple, (np.complex64(1j), "1j "), (1j, "1j ")),
        (datetime, datetime(2020, 1, 1, 12), NOON),
        (datetime, "2020-01-01T14:00+02:00", NOON),
        (datetime, np.datetime64("2020-01-01T12"), NOON),
        (datetime, date(2020, 1, 1), NOON.replace(hour=0)),
        (datetime, datetime(2020, 1, 1, 15, tzinfo=timezone(timedelta(hours=3))), NOON),
        (np.int8, np.int8(5), 5),
        (np.int8, 5, 5),
        (np.uint64, 2**64 - 1, 2**64 - 1),
        (np.float32, 0.1, float(np.float32(0.1))),
        (np.float16, 1, 1.0),
        (np.longdouble, 0.1, 0.1),
        (np.complex64, 0.1j, complex(np.complex64(0.1j))),
    ],
)
def test_defect_7_numpy_numbers_are_taken_by_value_and_kept_plain(kind: type, value: Any, plain: Any) -> None:
    found = kept(kind, value)
    assert found == plain
    assert type(found) is type(plain)
    if isinstance(plain, datetime):
        assert found.tzinfo is UTC
    if isinstance(plain, tuple):
        assert list(map(type, found)) == list(map(type, plain))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True),
        (int, np.bool_(True)),
        (int, 1.0),
        (int, "1"),
        (int, np.timedelta64(1, "s")),
        (float, True),
        (float, "1.0"),
        (float, 1j),
        (float, 2**53 + 1),
        (float, 10**400),
        (complex, 1),
        (complex, 1.0),
        (complex, True),
        (complex, "1j"),
        (str, 1),
        (str, b"a"),
        (tuple, [1]),
        (tuple, ([1],)),
        (tuple, ((1, {}),)),
        (tuple, (None,)),
        (tuple, (True,)),
        (tuple, (b"a",)),
        (tuple, (date(2020, 1, 1),)),
        (tuple, "a"),
        (tuple, (1, (np.str_("2j"),))),
        (datetime, "1 January"),
        (datetime, np.datetime64("NaT", "s")),
        (datetime, np.datetime64(1, "ns")),
        (datetime, 0.0),
        (np.int8, 128),
        (np.int8, 1.0),
        (np.uint8, -1),
        (np.int8, True),
        (np.float16, 1e6),
        (np.float32, "1"),
        (np.complex64, complex(0, 1e300)),
        (np.complex64, 1.0),
    ],
)
@pytest.mark.parametrize("primary", [True, False])
def test_r44_r46_values_of_another_type_are_refused(kind: type, value: Any, primary: bool) -> None:
    given = ({"a": value}, None) if primary else (None, {"a": value})
    with pytest.raises(SchemaError, match="attribute 'a' takes"):
        check_new(of(kind, primary=primary), *given)


def test_r47_custom_values_are_optional_but_for_datetimes() -> None:
    for missing in ("cd", "start"):
        for custom in ({**CUSTOM, missing: None}, {name: NOON for name in CUSTOM if name != missing}):
            with pytest.raises(SchemaError, match=f"datetime attribute '{missing}'"):
                check_new(EVERY, KEY, custom)
    assert check_new(EVERY, KEY, {"start": NOON}, strict=False)[1]["cd"] is None
    with pytest.raises(SchemaError, match="datetime attribute 'start'"):
        check_new(EVERY, KEY, {"cd": NOON}, strict=False)


def test_r32_a_start_leaves_its_axis_within_the_years() -> None:
    with pytest.raises(SchemaError, match="years"):
        check_new(EVERY, KEY, {**CUSTOM, "start": datetime(9999, 12, 31, 22, 30)})


def record() -> Record:
    """An array of every attribute."""
    return Record(new_id(), *check_new(EVERY, KEY, CUSTOM))


def test_r46_custom_values_change_the_changed_ones_first() -> None:
    old = record()
    new = update_record(EVERY, old, {"cs": "new", "ci": np.int8(3), "cf": 2})
    assert (new.id, new.primary) == (old.id, old.primary)
    assert list(new.custom) == ["cs", "ci", "cf", "cc", "ct", "cd", "start"]
    assert [new.custom[name] for name in ("cs", "ci", "cf", "cd")] == ["new", 3, 2.0, NOON]
    assert type(new.custom["cf"]) is float
    assert update_record(EVERY, new, {"cs": None}).custom["cs"] is None
    assert old.custom["cs"] is None


@pytest.mark.parametrize(
    "update", [{}, None, {"x": 1}, {"i": 1}, {"ci": "1"}, {"ci": 1, "x": 2}, {"cd": None}, {"start": None}, [], "cs"]
)
def test_r46_other_updates_are_refused(update: Any) -> None:
    with pytest.raises(SchemaError):
        update_record(EVERY, record(), update)


def test_r47_without_strictness_datetimes_may_be_unset_but_no_start() -> None:
    assert update_record(EVERY, record(), {"cd": None}, strict=False).custom["cd"] is None
    with pytest.raises(SchemaError, match="start"):
        update_record(EVERY, record(), {"start": None}, strict=False)
    with pytest.raises(SchemaError, match="years"):
        update_record(EVERY, record(), {"start": datetime(9999, 12, 31, 22, 30)})


def test_defect_7_what_is_sought_is_checked_by_type() -> None:
    assert check_key(EVERY, {"f": 1, "i": np.int64(1)}) == {"i": 1, "f": 1.0}
    assert check_key(EVERY, {"d": "2020-01-01T15:00:00+03:00", "cd": "2020-01-01 12:00"}) == {"d": NOON, "cd": NOON}
    for wrong in ({"i": "1"}, {"i": True}, {"i": 1.0}, {"x": 1}, {"i": None}, {"d": "x"}, {"s": 1}):
        with pytest.raises(SchemaError):
            check_key(EVERY, wrong)


def test_keys_compare_as_they_are_stored() -> None:
    read = {**KEY, "t": (1, "a", ("2j", "2020-01-01T12:00:00+00:00"))}
    assert key_of(EVERY, Record(new_id(), KEY, {})) == key_of(EVERY, read)
    assert hash(key_of(EVERY, KEY)) == hash(key_of(EVERY, read))
    floats = of(float)
    assert key_of(floats, {"a": nan}) == key_of(floats, {"a": np.float64(nan)})
    assert str(key_of(floats, {"a": -0.0})) == "(0.0,)"
    assert str(key_of(of(complex), {"a": -0.0 - 0j})) == "(0j,)"


def test_r3_records_are_values() -> None:
    old = record()
    with pytest.raises(AttributeError):
        old.id = ""  # type: ignore[misc]
    twin = pickle.loads(pickle.dumps(old))
    assert twin == old
    assert hash(twin) == hash(old)
    assert old.values == {**old.primary, **old.custom}


@pytest.mark.parametrize("id", ["352FDD68-dcb5-1edc-b3fc-4fcad9dea7fe", "00000000-0000-0000-0000-000000000000"])
def test_ids_of_any_version_and_case(id: str) -> None:
    assert check_id(id) == id
    assert check_id(new_id()) != new_id()


@pytest.mark.parametrize(
    "id",
    [
        "",
        "x",
        None,
        3,
        "352fdd68dcb54edcb3fc4fcad9dea7fe",
        "{352fdd68-dcb5-4edc-b3fc-4fcad9dea7fe}",
        "352fdd68-dcb5-4edc-b3fc-4fcad9dea7fg",
        "352fdd68-dcb5-4edc-b3fc-4fcad9dea7fe\n",
        "../../68-dcb5-4edc-b3fc-4fcad9dea7fe",
        "352fdd6-8dcb5-4edc-b3fc-4fcad9dea7fe",
        "\N{FULLWIDTH DIGIT ONE}52fdd68-dcb5-4edc-b3fc-4fcad9dea7fe",
    ],
)
def test_other_texts_are_no_ids(id: Any) -> None:
    with pytest.raises(SchemaError, match="is no id"):
        check_id(id)


@pytest.mark.parametrize("text", ["", ".", "..", "/abs", "a/b", "../../x", "a\0", "x" * 256, "é" * 128, "\ud800"])
def test_defect_6_components_lead_nowhere_else(text: str) -> None:
    with pytest.raises(SchemaError, match="folder of a key"):
        check_component(text)


@pytest.mark.parametrize(
    "text", ["a", "...", "x" * 255, "é b", "(1, 'a', 2.5)", "\N{SLIGHTLY SMILING FACE}", "a\\b", " "]
)
def test_defect_6_other_components_are_fine(text: str) -> None:
    assert check_component(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "\n",
        None,
        3,
        b"a",
        ".",
        "..",
        "../../x",
        "/abs",
        "a/b",
        "a\\b",
        "a\0b",
        "x" * 251,
        "é" * 126,
        "\udcff",
        "x.lock",
    ],
)
def test_defect_6_names_of_collections(name: Any) -> None:
    with pytest.raises(SchemaError, match="name of a collection"):
        check_collection_name(name)


@pytest.mark.parametrize("name", ["weather", "é b", "x" * 250, "\N{SLIGHTLY SMILING FACE}", "a.b", "lock"])
def test_other_names_of_collections_are_fine(name: str) -> None:
    assert check_collection_name(name) == name


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (HDF5Options(None, None), {"chunks": {"mode": "none"}, "compression": {"compression": "none", "options": []}}),
        (HDF5Options(True), {"chunks": {"mode": "true"}, "compression": {"compression": "none", "options": []}}),
        (
            HDF5Options((8, 16), HDF5CompressionOpts("gzip", 6)),
            {"chunks": {"mode": "manual", "size": [8, 16]}, "compression": {"compression": "gzip", "options": ["6"]}},
        ),
        (
            HDF5Options([8], HDF5CompressionOpts("gzip")),
            {"chunks": {"mode": "manual", "size": [8]}, "compression": {"compression": "gzip", "options": None}},
        ),
        (
            HDF5Options(None, HDF5CompressionOpts("szip", ("nn", 8))),
            {"chunks": {"mode": "none"}, "compression": {"compression": "szip", "options": ["nn", "8"]}},
        ),
        (
            HDF5Options(None, HDF5CompressionOpts(32001, (0, 0, 0, 0, 5, 1, 1))),
            {
                "chunks": {"mode": "none"},
                "compression": {"compression": "32001", "options": ["0", "0", "0", "0", "5", "1", "1"]},
            },
        ),
    ],
)
def test_options_as_documents_have_them(options: HDF5Options, said: dict[str, Any]) -> None:
    assert options.as_dict == said
    assert options_from_json(said) == options
    assert pickle.loads(pickle.dumps(options)) == options
    assert len({options, options_from_json(said)}) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"chunks": False},
        {"chunks": 8},
        {"chunks": ()},
        {"chunks": (0,)},
        {"chunks": (8.0,)},
        {"chunks": (True,)},
        {"chunks": "true"},
        {"compression_opts": "gzip"},
        {"compression_opts": 6},
    ],
)
def test_other_options_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        HDF5Options(**arguments)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("zip", None),
        (None, 6),
        ("gzip", 10),
        ("gzip", -1),
        ("gzip", "6"),
        ("gzip", (1, 2)),
        (True, None),
        (0, None),
        (2**16, None),
        ("lzf", True),
        (32015, (1.5,)),
        (32015, 1.5),
        (b"gzip", None),
    ],
)
def test_other_filters_are_refused(name: Any, values: Any) -> None:
    with pytest.raises(SchemaError):
        HDF5CompressionOpts(name, values)


@pytest.mark.parametrize(
    "said",
    [
        [],
        "none",
        {"chunks": {"mode": "x"}},
        {"chunks": {"mode": "manual"}},
        {"chunks": []},
        {"compression": "gzip"},
        {"compression": {"compression": "x", "options": None}},
        {"compression": {"compression": "gzip", "options": "6"}},
    ],
)
def test_options_that_make_no_sense(said: Any) -> None:
    with pytest.raises(SchemaError):
        options_from_json(said)


def test_options_may_be_left_out() -> None:
    assert options_from_json(None) is None
    assert options_from_json({}) == HDF5Options()


def test_chunks_fit_the_array() -> None:
    check_options(HDF5Options((8, 16)), (8, 20))
    check_options(HDF5Options(True), (8, 20))
    for chunks in ((8,), (9, 16), (1, 1, 1)):
        with pytest.raises(SchemaError, match="do not fit"):
            check_options(HDF5Options(chunks), (8, 20))
