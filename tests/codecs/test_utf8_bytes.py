"""``utf8_bytes``: bytes are stored as the text that they spell, others are refused before anything is written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import CorruptChunk, Invalid
from hyperslab.model.dtypes import VlenBytes, VlenString
from hyperslab.model.spec import Codec

CODECS = (Codec("utf8_bytes"), Codec("vlen-utf8"))


def chain(shape, fill=b""):
    return build_chain(CODECS, ChunkLayout(VlenBytes(), shape, fill))


@given(st.lists(st.text().map(str.encode), min_size=6, max_size=6))
def test_text_goes_both_ways(cells):
    block = np.array(cells, object).reshape(2, 3)
    stored = chain((2, 3)).encode(block)
    assert bytes(stored) == bytes(build_chain(CODECS[1:], ChunkLayout(VlenString(), (2, 3))).encode(as_text(block)))
    assert chain((2, 3)).decode(stored).tolist() == block.tolist()


def as_text(block):
    return np.array([cell.decode() for cell in block.flat], np.dtypes.StringDType()).reshape(block.shape)


@given(st.binary(min_size=1))
def test_what_is_no_text_is_refused(cell):
    try:
        cell.decode()
    except UnicodeDecodeError:
        with pytest.raises(Invalid, match="UTF-8"):
            chain((2,)).encode(np.array([b"a", cell], object))


def test_cells_that_were_never_written_are_empty():
    assert chain((2,)).decode(chain((2,)).encode(np.array([None, b"a"], object))).tolist() == [b"", b"a"]


def test_it_takes_bytes_alone_and_no_configuration():
    with pytest.raises(Invalid, match="byte strings"):
        build_chain(CODECS, ChunkLayout(VlenString(), (2,)))
    with pytest.raises(Invalid):
        build_chain((Codec("utf8_bytes", {"a": 1}), CODECS[1]), ChunkLayout(VlenBytes(), (2,)))
    with pytest.raises(Invalid, match="UTF-8"):
        chain((2,), b"\xff")


def test_damaged_chunks_are_corrupt():
    with pytest.raises(CorruptChunk):
        chain((1,)).decode(b"\1\0\0\0\1\0\0\0\xff")
