"""The header: every layout to fields and back, and every field out of its range."""

from __future__ import annotations

from struct import pack

import pytest
from blp_files import golden, manifest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.codecs.blosc import MAX_BYTES
from hyperslab.errors import FormatError
from hyperslab.formats.bloscpack.preamble import ENOUGH, BloscpackHeader, Layout, parse_header, render_header

SIZES = st.integers(-1, MAX_BYTES)


@given(
    layout=st.sampled_from(["v1", "v2", "v3", "spec"]),
    sizes=st.tuples(SIZES, SIZES).filter(lambda pair: not pair[1] > pair[0] >= 0),
    nchunks=st.integers(-1, 2**62),
    spare=st.integers(0, 2**62),
    offsets=st.booleans(),
    metadata=st.booleans(),
    version=st.sampled_from([2, 3]),
    rest=st.tuples(st.integers(0, 8), st.integers(0, 255), st.integers(0, 2**31 - 1)),
)
def test_round_trip(
    layout: Layout,
    sizes: tuple[int, int],
    nchunks: int,
    spare: int,
    offsets: bool,
    metadata: bool,
    version: int,
    rest: tuple[int, int, int],
) -> None:
    checksum, typesize, meta_size = rest
    header = BloscpackHeader(
        layout=layout,
        version={"v1": 1, "v2": 2, "v3": 3}.get(layout, version),
        has_offsets=offsets and layout != "v1",
        has_metadata={"spec": True, "v3": metadata}.get(layout, False),
        checksum=checksum if layout != "v1" else 0,
        typesize=typesize if layout != "v1" else 8,
        chunk_size=sizes[0] if layout != "v1" else -1,
        last_chunk=sizes[1] if layout != "v1" else -1,
        nchunks=nchunks,
        max_app=spare if layout == "v3" and offsets and nchunks >= 0 else 0,
        meta_size=meta_size if layout == "spec" else 0,
    )
    assert parse_header(render_header(header) + (b"JSON" if layout == "v3" else b"{'a'")) == header


def test_golden_headers() -> None:
    for name in manifest():
        data = golden(name)
        header = parse_header(data[:ENOUGH])
        assert render_header(header) == data[: header.size]


def head(version: int = 3, options: int = 1, checksum: int = 1, *rest: int) -> bytes:
    chunk_size, last_chunk, nchunks, last = rest or (2048, 1760, 6, 60)
    return pack("<4s4Biiqq", b"blpk", version, options, checksum, 8, chunk_size, last_chunk, nchunks, last) + b"JSON"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "begins with b''"),
        (b"blpx" + bytes(32), "blpx"),
        (b"blpk", "version None"),
        (head(0), "version 0"),
        (head(4), "version 4"),
        (head(255), "version 255"),
        (head()[:31], "ends within its header, after 31"),
        (b"blpk\1" + bytes(10), "after 15"),
        (b"blpk\1\0\0\0" + pack("<q", -2), "-2 chunks"),
        (head(3, 4), "options 0x04"),
        (head(3, 0xFF), "options 0xff"),
        (head(3, 1, 9), "checksum 9"),
        (head(3, 1, 1, -2, -1, 6, 0), "chunk-size -2"),
        (head(3, 1, 1, MAX_BYTES + 1, 0, 6, 0), "chunk-size 2147483632"),
        (head(3, 1, 1, 2048, -2, 6, 0), "last-chunk -2"),
        (head(3, 1, 1, 2048, 2049, 6, 0), "larger than chunk-size"),
        (head(3, 1, 1, 2048, 1, -2, 0), "-2 chunks"),
        (head(3, 1, 1, 2048, 1, 6, -1), "room for -1 more"),
        (head(3, 1, 1, 2048, 1, 2**62, 2**62), "chunks and room for"),
        (head(3, 0, 1, 2048, 1, 6, 5), "where there are none"),
        (head(3, 1, 1, 2048, 1, -1, 5), "where there are none"),
        (head(2, 1, 1, 2048, 1, 6, 5), "meta-size 5"),
        (head(2, 3, 1, 2048, 1, 6, 2**32), "reserved bytes 0x1"),
        (head(2, 3, 1, 2048, 1, 6, -1), "meta-size -1"),
    ],
)
def test_out_of_range(data: bytes, says: str) -> None:
    with pytest.raises(FormatError) as raised:
        parse_header(data)
    assert says in str(raised.value)
    assert raised.value.problems


def test_every_flaw_is_listed() -> None:
    with pytest.raises(FormatError) as raised:
        parse_header(head(3, 0x81, 9, 10, 11, -5, 0))
    assert len(raised.value.problems) == 4
