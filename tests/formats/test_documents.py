"""JSON: strict where it can be, mended where old writers left damage, bounded before it is decoded."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import FormatError
from hyperslab.formats.documents import DocumentLimits, check_limits, mend_json, read_document, read_json, write_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_is_written_reads_back(value):
    data = write_json(value)
    assert json.loads(data) == value
    assert read_json(data) == value


@pytest.mark.parametrize("value", ["é☃", ["é", None], {"☃": "null"}])
def test_text_is_written_without_escapes(value):
    assert "\\u" not in write_json(value).decode()


def test_half_a_character_is_escaped():
    assert read_json(write_json({"a": "\ud800", "b": "é"}))["b"] == "é"
    assert json.loads(write_json(["\ud800"])) == ["\ud800"]


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, [1.0, -math.inf], {"a": {"b": math.nan}}, [None, math.nan], {"a": None, "b": [float("nan")]}],
)
def test_no_document_holds_what_json_has_no_number_for(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(value)


@pytest.mark.parametrize(
    ("data", "value", "mended"),
    [
        (b"[0.,0.,1.]", [0.0, 0.0, 1.0], "digit"),
        (b'[.5, -.5, "0.", ".5", 2.e5]', [0.5, -0.5, "0.", ".5", 2e5], "digit"),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}, "byte order mark"),
        (b'{"a": 1}}J0"}}}', {"a": 1}, "7 characters after"),
        (b'{"a": Infinity, "b": -Infinity}', {"a": math.inf, "b": -math.inf}, None),
        (b"[1e999]", [math.inf], None),
        (b'{"a": 1, "a": 2}', {"a": 2}, None),
        (b'["\\u00e9", 1180591620717411303424]', ["é", 2**70], None),
    ],
)
def test_damage_that_is_mended(data, value, mended):
    assert read_json(data) == value
    notes = mend_json(data)[1]
    assert bool(notes) == (mended is not None)
    assert mended is None or mended in notes[0]


def test_nan():
    assert math.isnan(read_json(b'{"a": NaN}')["a"])


@pytest.mark.parametrize("data", [b"", b"  ", b"{", b'{"a"}', b"nope", b'"\xff"', b"[1,]", b"9" * 5000])
def test_damage_that_is_not(data):
    with pytest.raises(FormatError, match="no JSON") as caught:
        read_json(data)
    assert caught.value.problems[0].kind == "json-damaged"


@pytest.mark.parametrize("data", [b"[]", b"1", b'"x"', b"null", b"true"])
def test_a_document_is_an_object(data):
    with pytest.raises(FormatError, match="not an object") as caught:
        read_document(data, "a/zarr.json")
    assert caught.value.key == "a/zarr.json"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"[" * 200 + b"]" * 200, "json-depth"),
        (b'{"a":' * 101 + b"1" + b"}" * 101, "json-depth"),
        (b"[" * 500, "json-depth"),
        (b"[" + b"1," * 1_000_001 + b"1]", "json-values"),
        (b"[" * 2_000_000, "json-values"),
    ],
)
def test_limits(data, kind):
    with pytest.raises(FormatError) as caught:
        read_json(data)
    assert caught.value.problems[0].kind == kind


def test_the_size_is_limited():
    with pytest.raises(FormatError, match="11 bytes"):
        check_limits(b'"abcdefghi"', DocumentLimits(size=10))


@pytest.mark.parametrize("data", [b"[" * 99 + b"[]" + b"]" * 99, json.dumps(["[" * 5000, "{,[" * 400_000]).encode()])
def test_text_counts_not_as_structure(data):
    read_json(data)


@pytest.mark.parametrize("data", [b'\\"' * 1_000_000, b'"' + b'\\"' * 1_000_000, b'"' * 1_000_001, b"-." * 500_000])
def test_no_text_takes_long(data):
    """Quadratic time in any of these would take hours."""
    try:
        read_json(data)
    except FormatError as error:
        assert error.problems
