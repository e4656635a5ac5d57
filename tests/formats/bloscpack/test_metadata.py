"""The metadata section, its text, and dtypes as text: round trips, and what is refused."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np
import pytest
from blp_files import section
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hyperslab.errors import FormatError, Invalid, Unsupported
from hyperslab.formats.bloscpack.document import read_dtype, read_literal, read_text, write_dtype, write_text
from hyperslab.formats.bloscpack.preamble import HEAD, parse_head, render_section, unpack
from hyperslab.model.dtypes import packed

NUMBERS = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
DOCS = st.dictionaries(st.text(), PLAIN, max_size=5)


def text_in(data: bytes) -> bytes:
    """The text of a section."""
    found = parse_head(data[: HEAD.size])
    assert len(data) == found.size
    place = HEAD.size + found.room
    return unpack(found, data[HEAD.size : HEAD.size + found.used], data[place : place + found.digest.size])


@given(DOCS, st.integers(0, 8), st.integers(0, 1), st.integers(0, 9), st.integers(0, 99))
def test_round_trip(doc: dict[str, Any], checksum: int, codec: int, level: int, more: int) -> None:
    text = write_text(doc)
    data = render_section(text, checksum=checksum, codec=codec, level=level, room=len(text) + more)
    assert read_text(text_in(data)) == doc
    assert parse_head(data).text == len(text)


def test_room() -> None:
    text = write_text({"a": "x" * 1000})
    assert len(render_section(text)) == HEAD.size + 10 * len(text) + 4
    used = len(zlib.compress(text))
    assert text_in(render_section(text, room=used)) == text
    with pytest.raises(Invalid, match="write the file anew"):
        render_section(text, room=used - 1)


def test_what_zlib_makes_longer_is_stored_as_it_is() -> None:
    found = parse_head(render_section(b'{"a":1}'))
    assert (found.codec, found.level, found.used) == (0, 6, 7)


TEXT = b'{"a":1}'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (section(TEXT, options=1), "options"),
        (section(TEXT, level=10), "level 10"),
        (section(TEXT, checksum=9), "checksum 9"),
        (section(TEXT, codec=2), "codec 2"),
        (section(TEXT, used=71), "stored in 71 with room for 70"),
        (section(TEXT, size=2**32 - 1), "allowed"),
        (section(TEXT, codec=0, size=8), "stored in 7"),
        (b"XSON" + section(TEXT)[4:], "XSON"),
        (section(TEXT)[:31], "ends within"),
    ],
)
def test_section_that_makes_no_sense(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says) as raised:
        parse_head(data)
    assert raised.value.problems


@pytest.mark.parametrize(
    ("size", "used", "says"),
    [(8, TEXT, "other than 8"), (6, TEXT, "other than 6"), (7, TEXT * 2, "other than 7"), (0, b"", "other than 0")],
)
def test_text_of_another_size(size: int, used: bytes, says: str) -> None:
    stored = zlib.compress(used) if used else b""
    found = parse_head(section(TEXT, checksum=0, size=size, used=len(stored)))
    with pytest.raises(FormatError, match=says):
        unpack(found, stored, b"")


@pytest.mark.sampled(0)
def test_bomb_is_not_inflated() -> None:
    stored = zlib.compress(bytes(200 << 20))
    found = parse_head(section(TEXT, checksum=0, size=7, used=len(stored), room=len(stored)))
    with pytest.raises(FormatError, match="other than 7"):
        unpack(found, stored, b"")


def test_wrong_digest_names_both() -> None:
    found = parse_head(section(TEXT))
    with pytest.raises(FormatError, match="expected 00000000, found"):
        unpack(found, zlib.compress(TEXT), bytes(4))


# -- text ---------------------------------------------------------------------------------------------------------


@given(PLAIN)
def test_literals(value: Any) -> None:
    def as_lists(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: as_lists(each) for key, each in value.items()}
        return [as_lists(each) for each in value] if isinstance(value, list) else value

    text = repr(value)
    if "\\" not in text:
        assert read_literal(text) == as_lists(value)
    assert read_literal(repr((value, ()))) == [as_lists(value), []]


def test_the_specification_s_own_example() -> None:
    assert read_text(b"{'dtype': 'float64', 'shape': [1024], 'others': []}") == {
        "dtype": "float64",
        "shape": [1024],
        "others": [],
    }
    assert read_text(b"{u'a': (1, -2.5e3, True, None), 'b': '['}") == {"a": [1, -2500.0, True, None], "b": "["}


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()", "1+1", "1 -1", "f'{1}'", "b'x'", "lambda: 0", "'a'.b", "[].append",
        "(" * 5000 + ")" * 5000, "[" * 100_000, "-" * 100_000 + "1", "{1: 2}", "{1, 2}", "9" * 5000, "'", "...", "1j",
        "[0 for _ in ()]", "(1)(2)", "[1][0]", "{**{}}", "*a", "",
    ],
)  # fmt: skip
def test_no_literal(text: str) -> None:
    with pytest.raises(FormatError):
        read_text(text.encode()) if text.startswith(("{", "_")) else read_literal(text)


def test_metadata_that_are_no_object_or_nothing_at_all() -> None:
    assert read_text(b"[1,2]") == {"metadata": [1, 2]}
    for damaged in (b"", b"\xff\xfe", b"{", b'{"a":', b"\0" * 9):
        with pytest.raises(FormatError, match="no JSON"):
            read_text(damaged)
    with pytest.raises(FormatError, match="nested deeper"):
        read_text(b'{"a":' * 1000 + b"1" + b"}" * 1000)


# -- dtypes -------------------------------------------------------------------------------------------------------

SCALARS = (
    npst.boolean_dtypes()
    | npst.integer_dtypes(endianness="?")
    | npst.floating_dtypes(endianness="?", sizes=(16, 32, 64))
    | npst.complex_number_dtypes(endianness="?", sizes=(64, 128))
    | npst.datetime64_dtypes(endianness="?")
    | npst.timedelta64_dtypes(endianness="?")
    | npst.byte_string_dtypes(min_len=1)
    | npst.unicode_string_dtypes(endianness="?", min_len=1)
)


@st.composite
def aligned(draw: st.DrawFn) -> np.dtype[Any]:
    """Structures, some of them padded or with arrays within."""
    names = draw(st.lists(st.from_regex(r"[a-z_]{1,4}", fullmatch=True), min_size=1, max_size=4, unique=True))
    kinds = st.tuples(SCALARS, st.sampled_from([(), (3,), (2, 1)])).map(lambda kind: np.dtype(kind))
    fields = [(name, draw(kinds)) for name in names]
    made = np.dtype(fields, align=draw(st.booleans()))
    return np.dtype([("x", made), ("y", "u1")]) if draw(st.booleans()) else made


@given(SCALARS | aligned())
def test_dtypes(dtype: np.dtype[Any]) -> None:
    text = write_dtype(dtype)
    assert text == repr(dtype.descr if dtype.names else dtype.str)
    found = read_dtype(text)
    assert found.itemsize == dtype.itemsize
    assert packed(found) == packed(dtype)
    assert np.zeros(2, found).tobytes() == np.zeros(2, dtype).tobytes()
    assert write_dtype(found) == text
    if dtype.names is not None:
        assert read_dtype(json.loads(json.dumps(dtype.descr))) == found


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("float64", "<f8"), ("<f8", "<f8"), ("'<f8'", "<f8"), ("bool", "?"), ("?", "?"), ("uint16", "<u2"),
        ("datetime64[ns]", "<M8[ns]"), ("complex64", "<c8"), ("|S4", "S4"), ("<U3", "<U3"), (">i2", ">i2"),
        ("[('u', '<u2'), ('v', '<f4', (3,))]", [("u", "<u2"), ("v", "<f4", (3,))]),
        ([["a", "f8"]], [("a", "f8")]), ("[(('title', 'n'), '<i4')]", [("n", "<i4")]), ("<m8", "<m8"),
    ],
)  # fmt: skip
def test_spellings(text: Any, dtype: Any) -> None:
    assert read_dtype(text) == np.dtype(dtype)


@pytest.mark.parametrize("text", ["O", "|O", "|O8", "object", "'|O'", "[('a', '<i4'), ('b', '|O')]", [["a", "O"]]])
def test_objects_are_refused(text: Any) -> None:
    with pytest.raises(Unsupported, match="pickles"):
        read_dtype(text)


@pytest.mark.parametrize("text", ["<f16", "float128", "complex256", "<c32"])
def test_floats_of_one_machine(text: str) -> None:
    with pytest.raises(Unsupported, match="machine"):
        read_dtype(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "i4,i4", "(1000000000,)f8", "V999999999", "S0", "x" * 10_000, "datetime64[foo]", "f", "d",
        "numpy.float64", "[('a', '<i4'), ('a', '<i4')]", "[('', '<i4')]", "[('a', '<i4', (0,))]", "[]", "{}", "",
        "[('a', '<i4', (100000, 100000))]", "[('a', '<i4', -1)]", "[('a', 5)]", "[5]", "[('a',)]", 5, None, [], {},
        "[('', '|V3')]", "[('', '|V999999999'), ('a', '<i4')]", True, [["a", "f8", [0]]], [[["a"], "f8"]],
    ],
)  # fmt: skip
def test_no_dtype(text: Any) -> None:
    with pytest.raises(TypeError):
        read_dtype(text)
