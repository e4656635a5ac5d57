"""Parts of Blosc chunks, and Snappy in them: each equal to a full decode, damage never a crash."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from struct import pack, pack_into

import numcodecs.blosc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyperslab as hs
from hyperslab.codecs.blosc import Blosc, decode_chunk, decode_part, decompress_snappy
from hyperslab.errors import CorruptChunk, HyperslabError, Invalid

pytestmark = pytest.mark.usefixtures("decoder")

GOLDEN = Path(__file__).parents[1] / "golden" / "bloscpack" / "bloscpack-0.16.0.zip"
NAMES = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]


def encoded(data: bytes, typesize: int, cname: str, shuffle: int, blocksize: int, clevel: int = 5) -> bytes:
    """A chunk by Blosc itself."""
    items = np.frombuffer(data, f"V{typesize}") if len(data) % typesize == 0 and data else data
    return bytes(numcodecs.blosc.compress(items, cname.encode(), clevel, shuffle, blocksize))


@st.composite
def chunks(draw: st.DrawFn, names: tuple[str, ...] = tuple(NAMES)) -> tuple[bytes, bytes]:
    """Bytes, and a chunk of them: of any item, shuffle, block and level."""
    size = draw(st.integers(0, 40_000))
    noise = np.random.default_rng(draw(st.integers(0, 99)))
    data = np.repeat(noise.integers(0, draw(st.sampled_from([3, 256])), size // 3 + 1).astype("u1"), 3)[:size].tobytes()
    typesize = draw(st.integers(1, 20) | st.sampled_from([8, 255]))
    how = draw(st.sampled_from(names)), draw(st.integers(0, 2)), draw(st.sampled_from([0, 256, 1000, 4096, 16384]))
    return data, encoded(data, typesize, *how, clevel=draw(st.sampled_from([0, 1, 5, 9])))


@given(chunks(), st.data())
def test_parts_are_those_of_the_whole(made: tuple[bytes, bytes], draw: st.DataObject) -> None:
    data, stored = made
    for _ in range(5):
        start = draw.draw(st.integers(0, len(data)))
        stop = draw.draw(st.integers(start, min(len(data), start + 3000)) | st.integers(start, len(data)))
        out = bytearray(stop - start)
        decode_part(memoryview(bytearray(stored)), start, memoryview(out), len(data))
        assert out == data[start:stop]
        decode_part(stored, start, memoryview(out), len(data))
        assert out == data[start:stop]


@pytest.mark.parametrize("cname", NAMES)
@pytest.mark.parametrize(("typesize", "blocksize"), [(4, 384), (8, 1000), (2, 250), (17, 4097), (255, 30_000)])
def test_blocks_that_do_not_say_that_they_are_one_stream(cname: str, typesize: int, blocksize: int) -> None:
    """As Blosc before 1.14 wrote them: the flag is missing, the size of the block tells."""
    data = np.repeat(np.arange(1700, dtype="u2"), typesize * 3).astype("u1").tobytes()
    stored = bytearray(encoded(data, typesize, cname, 1, blocksize))
    assert stored[2] & 0x10
    stored[2] &= ~0x10
    for one in (bytes(stored), memoryview(stored)):
        out = bytearray(len(data))
        Blosc.decode_into(one, memoryview(out))
        assert out == data
        part = bytearray(3 * typesize)
        decode_part(one, typesize, memoryview(part), len(data))
        assert part == data[typesize : 4 * typesize]


def test_only_parts_that_are_there() -> None:
    stored = encoded(bytes(1000), 8, "lz4", 1, 0)
    for start, length in [(-1, 5), (999, 2), (2000, 0)]:
        with pytest.raises(Invalid):
            decode_part(stored, start, memoryview(bytearray(length)), 1000)
    with pytest.raises(CorruptChunk, match="expected 999 bytes, found 1000"):
        decode_part(stored, 0, memoryview(bytearray(5)), 999)


def test_damaged_blocks_of_parts() -> None:
    data = np.random.default_rng(5).integers(0, 9, 20_000).astype("<i4").tobytes()
    stored = encoded(data, 4, "lz4", 1, 4096)
    for place in range(16, len(stored), 7):
        broken = bytearray(stored)
        broken[place] ^= 0xFF
        out = bytearray(100)
        try:
            decode_part(broken, 40_000, memoryview(out), len(data))
        except CorruptChunk as error:
            assert error.expected is not None


# -- the walk over blocks, by zlib, which the library reads too ------------------------------------------------------


@given(chunks(("zlib",)))
def test_the_walk_is_that_of_blosc(made: tuple[bytes, bytes]) -> None:
    data, stored = made
    out = bytearray(len(data))
    decode_chunk(stored, memoryview(out), lambda part, size: zlib.decompress(part))
    assert out == data


def snappy_chunks() -> list[bytes]:
    """Chunks of a directory that bcolz wrote with Snappy."""
    with zipfile.ZipFile(GOLDEN) as archive:
        names = sorted(name for name in archive.namelist() if "f8_snappy/data/" in name)
        return [archive.read(name)[16:] for name in names]


def snappy_cells() -> np.ndarray:
    with zipfile.ZipFile(GOLDEN) as archive, archive.open("bcolz/f8_snappy.npy") as file:
        return np.lib.format.read_array(file)


def test_snappy_of_bcolz() -> None:
    parts = []
    for stored in snappy_chunks():
        assert stored[2] >> 5 == 2
        size = int.from_bytes(stored[4:8], "little")
        out = memoryview(bytearray(size))
        Blosc.decode_into(stored, out)
        parts.append(bytes(out))
        part = memoryview(bytearray(80))
        decode_part(stored, 17, part, size)
        assert part == parts[-1][17:97]
    cells = snappy_cells()
    assert b"".join(parts)[: cells.nbytes] == cells.tobytes()


def test_snappy_in_zarr(tmp_path: Path) -> None:
    """A chunk of Zarr v2 is a bare Blosc chunk."""
    stored = snappy_chunks()[0]
    size = int.from_bytes(stored[4:8], "little") // 8
    array = hs.create(str(tmp_path / "a.zarr"), "zarr2").create_array(
        "a", (size,), "<f8", chunks=(size,), codec="blosc"
    )
    (tmp_path / "a.zarr" / "a" / "0").write_bytes(stored)
    np.testing.assert_array_equal(array[...], snappy_cells()[:size])


@pytest.mark.sampled(20)
def test_damaged_snappy() -> None:
    """Every byte of a chunk changed, and every length: an error of ours, or bytes as many as there should be."""
    stored = snappy_chunks()[-1]
    size = int.from_bytes(stored[4:8], "little")
    for place in range(len(stored)):
        for broken in (
            stored[:place],
            stored[:place] + bytes([stored[place] ^ 0xFF]) + stored[place + 1 :],
            stored[:place] + bytes([stored[place] ^ 1]) + stored[place + 1 :],
        ):
            try:
                Blosc.decode_into(broken, memoryview(bytearray(size)))
            except HyperslabError as error:
                assert isinstance(error, CorruptChunk)
                assert error.expected is not None


# -- raw Snappy -----------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Elements of every kind, and what they make by the format's description."""
    out, stored = bytearray(), bytearray()
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.integers(0, 3))
        if kind == 0 or not out:
            literal = draw(st.binary(min_size=1, max_size=300))
            extra = draw(st.sampled_from([0, 1, 2, 3, 4]))
            extra = extra if len(literal) <= 60 or extra else 2
            extra = 2 if extra == 1 and len(literal) > 256 else extra
            length = len(literal) - 1
            said = length.to_bytes(extra, "little") if extra else b""
            stored += bytes([(59 + extra if extra else length) << 2]) + said + literal
            out += literal
            continue
        offset = draw(st.integers(1, min(len(out), 2047 if kind == 1 else 65535)))
        length = draw(st.integers(4, 11) if kind == 1 else st.integers(1, 64))
        if kind == 1:
            stored += bytes([1 | (length - 4) << 2 | offset >> 8 << 5, offset & 255])
        else:
            stored += bytes([kind | (length - 1) << 2]) + offset.to_bytes(2 if kind == 2 else 4, "little")
        for _ in range(length):
            out.append(out[-offset])
    return varint(len(out)) + bytes(stored), bytes(out)


@given(streams())
def test_every_element(made: tuple[bytes, bytes]) -> None:
    stored, expected = made
    assert decompress_snappy(stored, len(expected)) == expected
    assert decompress_snappy(memoryview(stored), len(expected)) == expected
    with pytest.raises(CorruptChunk):
        decompress_snappy(stored, len(expected) + 1)
    for end in range(len(stored)):
        if stored[:end] != stored:
            with pytest.raises(CorruptChunk):
                decompress_snappy(stored[:end], len(expected))


@given(st.binary(max_size=200), st.integers(0, 1000))
def test_noise(data: bytes, size: int) -> None:
    try:
        assert len(decompress_snappy(data, size)) == size
    except CorruptChunk as error:
        assert error.expected is not None


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b"", 0), (b"\x80" * 9, 5), (b"\x05\x01\x00", 5), (b"\x05\x02\x00\x00", 5), (b"\x05\x00a\x05\x02", 5),
        (b"\x05\x00a\xfe", 5), (b"\x05\xfc\xff\xff\xff\xffa", 5), (b"\x02\x04aa\x00a", 2),
        (b"\xff\xff\xff\xff\x0f", 5),
    ],
)  # fmt: skip
def test_what_is_no_snappy(data: bytes, size: int) -> None:
    with pytest.raises(CorruptChunk):
        decompress_snappy(data, size)


@pytest.mark.parametrize("length", [-1, 2**31 - 1, 10**6])
def test_streams_outside_the_chunk(length: int) -> None:
    stored = bytearray(snappy_chunks()[0])
    first = int.from_bytes(stored[16:20], "little")
    pack_into("<i", stored, first, length)
    with pytest.raises(CorruptChunk, match="a stream of"):
        Blosc.decode_into(bytes(stored), memoryview(bytearray(int.from_bytes(stored[4:8], "little"))))


def test_flags_that_blosc_1_does_not_have() -> None:
    body = pack("<i", 20) + bytes(200)
    for flags in (0x48, 0x45):
        stored = pack("<BBBBIII", 2, 1, flags, 1, 100, 100, 16 + len(body)) + body
        with pytest.raises(CorruptChunk, match="flags"):
            Blosc.decode_into(stored, memoryview(bytearray(100)))
