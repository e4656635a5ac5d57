"""Zstandard frames that others write: several in one chunk, skippable ones, some that do not declare their content."""

from __future__ import annotations

from collections.abc import Callable

import numcodecs.zstd
import numpy as np
import pytest
from chains import chain, strings

from hyperslab.codecs import zstd
from hyperslab.errors import CorruptChunk, HyperslabError, Unsupported
from hyperslab.model.dtypes import VlenString

pytestmark = pytest.mark.usefixtures("decoder")

CELLS = np.repeat(np.arange(100_000, dtype="<i4") % 7919, 3)
DATA = CELLS.tobytes()
SKIPPABLE = b"\x53\x2a\x4d\x18\x05\x00\x00\x00hello"


def frame(data: bytes, checksum: bool = False) -> bytes:
    return bytes(numcodecs.zstd.compress(data, 3, checksum))


def undeclared(data: bytes, checksum: bool = False) -> bytes:
    """A frame without its content size, as writers of streams make it."""
    stored = frame(data, checksum)
    place, width = zstd._locate_size(stored[4])
    single = stored[4] & 0x20
    window = b"\x88" if single else stored[5:6]
    return stored[:4] + bytes([stored[4] & 0x1F]) + window + stored[place + width :]


def parts(count: int) -> list[bytes]:
    size = len(DATA) // count
    return [DATA[start : start + size] for start in range(0, len(DATA), size)]


FRAMES = {
    "one": frame(DATA),
    "with a checksum": frame(DATA, True),
    "one that does not declare its size": undeclared(DATA),
    "one that does not declare it, with a checksum": undeclared(DATA, True),
    "three": b"".join(map(frame, parts(3))),
    "three that do not declare it": b"".join(map(undeclared, parts(3))),
    "one of each": frame(DATA[:999]) + undeclared(DATA[999:70_000]) + frame(DATA[70_000:], True),
    "an empty one first": frame(b"") + frame(DATA),
    "an empty one last": frame(DATA) + undeclared(b""),
    "a skippable one first": SKIPPABLE + frame(DATA),
    "skippable ones between": frame(DATA[:8]) + SKIPPABLE + SKIPPABLE + undeclared(DATA[8:]) + SKIPPABLE,
}


def test_numcodecs_that_decodes_only_frames_that_declare_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zstd.libblosc2, "load_library", lambda: None)
    monkeypatch.setattr(zstd, "_decodes_undeclared", lambda: False)
    made = chain("<i4", CELLS.shape, "bytes", "zstd")
    np.testing.assert_array_equal(made.decode(frame(DATA)), CELLS)
    assert chain("<i4", (0,), "bytes", "zstd").decode(frame(b"")).tolist() == []
    with pytest.raises(Unsupported, match=r"numcodecs>=0\.16\.2"):
        made.decode(undeclared(DATA))


@pytest.mark.parametrize("name", FRAMES)
def test_content_of_a_known_size(name: str) -> None:
    made = chain("<i4", CELLS.shape, "bytes", "zstd")
    out = np.zeros_like(CELLS)
    made.decode_into(FRAMES[name], out)
    np.testing.assert_array_equal(out, CELLS)
    np.testing.assert_array_equal(made.decode(memoryview(FRAMES[name])), CELLS)


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("change", [-4, 4])
def test_content_of_another_size(name: str, change: int) -> None:
    count = CELLS.size + change // 4
    with pytest.raises(CorruptChunk) as caught:
        chain("<i4", (count,), "bytes", "zstd").decode(FRAMES[name])
    assert caught.value.expected is not None


@pytest.mark.parametrize("write", [frame, undeclared])
@pytest.mark.parametrize("cut", [0, 1, 5])
def test_content_of_unknown_size(write: Callable[[bytes], bytes], cut: int) -> None:
    words = strings("a", "hé", "", "c" * 200_000)
    plain = bytes(chain(VlenString(), words.shape, "vlen-utf8").encode(words))
    made = chain(VlenString(), words.shape, "vlen-utf8", "zstd")
    stored = write(plain)
    several = write(plain[:10]) + SKIPPABLE + write(plain[10:1000]) + write(plain[1000:])
    for data in (stored, several):
        assert made.decode(data).tolist() == words.tolist()
        if cut:
            with pytest.raises(CorruptChunk):
                made.decode(data[:-cut])
            with pytest.raises(CorruptChunk):
                made.decode(data + data[:cut])


def test_more_blocks_than_there_is_room_for() -> None:
    """Of 4000 bytes each the library of blosc2 finds out that they are too many; numcodecs is not asked."""
    stored = b"\x28\xb5\x2f\xfd\x00\x88" + 40_000 * (b"\x02\x7d\x00\x00") + b"\x01\x00\x00"
    with pytest.raises((CorruptChunk, Unsupported), match="zstd"):
        chain(VlenString(), (2,), "vlen-utf8", "zstd").decode(stored)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("place", range(40))
def test_damaged_headers(place: int, step: int) -> None:
    stored = bytearray(undeclared(DATA[:1000]) + frame(DATA[1000:2000]))
    for change in range(1, 256, step):
        broken = bytearray(stored)
        broken[place] ^= change
        for made in (chain("<i4", (500,), "zstd"), chain(VlenString(), (3,), "vlen-utf8", "zstd")):
            try:
                made.decode(bytes(broken))
            except HyperslabError as error:
                assert isinstance(error, CorruptChunk)
