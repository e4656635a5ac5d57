"""Codec ``enum_members``: members and the fill value are written, anything is read."""

from __future__ import annotations

import numpy as np
import pytest

from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import Invalid
from hyperslab.model.dtypes import Enum
from hyperslab.model.spec import Codec

COLOUR = Enum(np.dtype(">i2"), (("red", -1), ("green", 300)), "colour")
CODECS = (Codec("enum_members"), Codec("bytes"))


def test_members_and_the_fill_value_are_written():
    chain = build_chain(CODECS, ChunkLayout(COLOUR, (3,), 7))
    stored = chain.encode(np.array([-1, 300, 7], ">i2"))
    assert bytes(stored) == np.array([-1, 300, 7], ">i2").tobytes()
    with pytest.raises(Invalid, match="5 is no member of enum colour; it has red = -1, green = 300"):
        chain.encode(np.array([-1, 5, 7], ">i2"))


def test_without_a_fill_value_zero_is_written():
    chain = build_chain(CODECS, ChunkLayout(COLOUR, (2,)))
    assert bytes(chain.encode(np.array([0, -1], ">i2"))) == b"\0\0\xff\xff"


def test_anything_is_read():
    assert build_chain(CODECS, ChunkLayout(COLOUR, (2,))).decode(b"\0\5\0\6").tolist() == [5, 6]


def test_other_cells_are_refused():
    with pytest.raises(Invalid, match="works on enumerations, not on int16"):
        build_chain(CODECS, ChunkLayout(np.dtype("i2"), (2,)))
