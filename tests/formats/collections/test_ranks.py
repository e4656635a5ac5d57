"""Ranks as bytes: they compare as the ranks do, for every type of attribute."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.formats.collections.ranks import KNOWN, NAN, UNSET, encode_rank, ranker
from hyperslab.model.schemas import AttributeSchema

TEXTS = st.text(st.characters(), max_size=4) | st.sampled_from(
    ["", "\0", "a", "a\0", "\ud7ff", "\ue000", "\U0010ffff", "\ud800"]
)
WHOLE = (
    st.integers()
    | st.integers(-3, 3)
    | st.sampled_from([2**k + d for k in (7, 8, 63, 64, 900, 1100) for d in (-1, 0, 1)])
)
FLOATS = st.floats() | st.sampled_from([-0.0, 0.0, 5e-324, -5e-324, math.inf, -math.inf, math.nan])
MOMENTS = st.datetimes(timezones=st.just(UTC)) | st.integers(-2, 2).map(
    lambda count: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=count)
)
VALUES: dict[type, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: WHOLE,
    float: FLOATS,
    complex: st.builds(complex, FLOATS, FLOATS),
    datetime: MOMENTS,
    tuple: st.lists(st.integers(-2, 2) | TEXTS | FLOATS | MOMENTS, max_size=2).map(tuple),
    np.int8: st.integers(-128, 127),
    np.uint64: st.integers(0, 2**64 - 1),
    np.float32: st.floats(width=32),
    np.complex64: st.complex_numbers(width=64),
}


@pytest.mark.parametrize("kind", VALUES)
@given(st.data())
def test_bytes_compare_as_ranks_do(kind: type, data: st.DataObject) -> None:
    rank = ranker(AttributeSchema("a", kind, False))
    value = VALUES[kind]
    either = st.none() | value | (WHOLE.map(lambda number: -number) if kind is int else value)
    one, other = rank(data.draw(either)), rank(data.draw(either))
    assert (one < other) == (encode_rank(one) < encode_rank(other))
    assert (one == other) == (encode_rank(one) == encode_rank(other))
    for end in ((KNOWN,), (NAN,), (UNSET,)):
        assert (one < end) == (encode_rank(one) < encode_rank(end))


@given(TEXTS, TEXTS)
def test_texts_that_begin_alike_lie_together(start: str, text: str) -> None:
    low, rank = encode_rank((KNOWN, start)), encode_rank((KNOWN, text))
    assert text.startswith(start) == rank.startswith(low)
