"""Damaged and malicious files: an error of ours that says what and where, in bounded memory, and never other cells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from struct import pack, pack_into
from typing import Any

import numpy as np
import pytest
from blp_files import blp, chunk, file_of, golden, section, text_of, write
from numpy.testing import assert_array_equal

import hyperslab as hs
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, MissingChunks, Unsupported
from hyperslab.formats.bloscpack.preamble import HEAD, SIZE, parse_head

LINE = np.arange(40, dtype="<f8") // 3
TIGHT = section(text_of(LINE), room=70)
CHUNKS = [chunk(LINE[i : i + 16].tobytes()) for i in range(0, 40, 16)]
SMALL = blp(CHUNKS, TIGHT, spare=2)
FIRST = SIZE + len(TIGHT) + 5 * 8


def outcome(path: str) -> np.ndarray[Any, Any] | HyperslabError:
    """All cells, or the error of ours."""
    try:
        array: Any = hs.open(path, cache_bytes=0)
        return np.asarray(array[...])
    except HyperslabError as error:
        assert path in str(error)
        assert error.remedy
        return error


def refused(tmp_path: Path, data: bytes, kind: type[HyperslabError], says: str) -> HyperslabError:
    """The error that reading such a file is; checking it finds something too."""
    path = write(tmp_path, data)
    found = outcome(path)
    assert isinstance(found, kind), found
    assert says in str(found), str(found)
    assert kind is Unsupported or hs.check(path, deep=True)
    return found


def test_truncated_at_every_byte(tmp_path: Path) -> None:
    for data in (SMALL, blp(CHUNKS, TIGHT, offsets=False), blp(CHUNKS), golden("old/v1_f8_750.blp")[:3900]):
        for end in range(len(data)) if len(data) < 2000 else range(0, len(data), 61):
            found = outcome(write(tmp_path, data[:end]))
            assert isinstance(found, FormatError | CorruptChunk | MissingChunks), end


def without_effect() -> dict[int, str]:
    """The bytes of ``SMALL`` that may be anything, and why."""
    used = parse_head(SMALL[SIZE : SIZE + HEAD.size]).used
    places = {7: "typesize: the dtype says it"}
    places |= dict.fromkeys(range(0x38, 0x40), "a user's codec, which codec 0 and 1 do not use")
    places |= dict.fromkeys(range(SIZE + HEAD.size + used, SIZE + HEAD.size + 70), "zeros behind the metadata")
    places |= dict.fromkeys(range(FIRST - 16, FIRST), "offsets in reserve")
    return places


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_every_byte_flipped(tmp_path: Path, step: int) -> None:
    """What is not noticed changes no cell, and is listed here with the reason.

    With one bit of each byte, or two, beside those that are listed; or with all of them.
    """
    unverified = {(6, 0)}  # checksum 1 becomes 0, none
    levels = {(0x2B, bit) for bit in range(8) if (6 ^ 1 << bit) <= 9}  # of zlib, which reading does not need
    fewer = {(24, 1)}  # offsets in reserve, 2 become 0: the chunks are found where they are
    blanks = {(place, 5) for place in range(0x24, 0x28)}  # a NUL behind JSON becomes a blank, as the README has it
    listed = unverified | levels | fewer | blanks
    unnoticed = set()
    for place in range(len(SMALL)):
        for bit in range(8):
            if (8 * place + bit) % step and (place, bit) not in listed:
                continue
            data = bytearray(SMALL)
            data[place] ^= 1 << bit
            found = outcome(write(tmp_path, bytes(data)))
            if isinstance(found, HyperslabError):
                continue
            assert_array_equal(found, LINE, err_msg=f"byte {place}, bit {bit}")
            if place not in without_effect():
                unnoticed.add((place, bit))
    assert unnoticed == listed


@pytest.mark.parametrize(
    ("fields", "kind", "says"),
    [
        ({"options": 7}, FormatError, "options 0x07"),
        ({"checksum": 9}, FormatError, "checksum 9"),
        ({"version": 9}, FormatError, "version 9"),
        ({"sizes": (128, 129)}, FormatError, "larger than chunk-size"),
        ({"sizes": (2**31 - 1, 64)}, FormatError, "chunk-size 2147483647"),
        ({"sizes": (128, 72)}, FormatError, "hold 328 bytes"),
        ({"sizes": (64, 64)}, FormatError, "hold 192 bytes"),
        ({"nchunks": 0}, FormatError, "hold 0 bytes"),
        ({"nchunks": 2}, FormatError, "hold 192 bytes"),
        ({"nchunks": 4}, FormatError, "hold 448 bytes"),
        ({"nchunks": 2**62}, FormatError, "within its offsets"),
        ({"nchunks": 2**62, "offsets": False, "sizes": (1, 1)}, FormatError, "hold 4611686018427387904 bytes"),
        ({"nchunks": -1, "sizes": (64, 64)}, CorruptChunk, "wrong size"),
        ({"last": 2**61}, FormatError, "within its offsets"),
        ({"places": [0, 0, 0]}, CorruptChunk, "its offset lies outside the file or within another chunk"),
        ({"places": [FIRST, FIRST, FIRST + 100]}, CorruptChunk, "within another chunk"),
        ({"places": [FIRST, FIRST + 1, FIRST + 100]}, CorruptChunk, "chunk 0"),
        ({"places": [10**6, 10**7, 2**62]}, CorruptChunk, "outside the file"),
        ({"places": [-2, FIRST, FIRST]}, CorruptChunk, "outside the file"),
        ({"places": [-(2**63), 2**63 - 1, FIRST]}, CorruptChunk, "chunk 0 at byte -9223372036854775808"),
        ({"nchunks": -1, "places": [10**6, -1, -1]}, FormatError, "the first offset is 1000000"),
        ({"nchunks": -1, "places": [FIRST - 15, -1, -1]}, FormatError, "the first offset is"),
        ({"sizes": (-1, -1), "places": [10**6, 0, 0]}, FormatError, "sizes of the chunks are not known"),
    ],
)
def test_fields_that_lie(tmp_path: Path, fields: dict[str, Any], kind: type[HyperslabError], says: str) -> None:
    spare = 0 if fields.get("nchunks") == -1 or "last" in fields or fields.get("offsets") is False else 2
    refused(tmp_path, blp(CHUNKS, TIGHT, spare=spare, **fields), kind, says)


def edited(place: int, form: str, *values: int, digest: int = 0) -> bytes:
    """The first chunk changed; in a file without digests, so that it is not these that notice."""
    stored = bytearray(CHUNKS[0])
    pack_into(form, stored, place, *values)
    return blp([bytes(stored), *CHUNKS[1:]], TIGHT, checksum=digest, sizes=(128, 64))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (edited(0, "<B", 5), "version 5"),
        (edited(0, "<B", 1), "version 1"),
        (edited(3, "<B", 0), "typesize 0"),
        (edited(4, "<I", 2**32 - 1), "expected 128 bytes, found 4294967295"),
        (edited(4, "<I", 129), "expected 128 bytes, found 129"),
        (edited(4, "<I", 0), "found 0"),
        (edited(8, "<I", 0), "blocksize 0"),
        (edited(8, "<I", 2**31), "blocksize 2147483648"),
        (edited(12, "<I", 15), "its stored size makes no sense"),
        (edited(12, "<I", 2**32 - 1), "found 4294967295"),
        (edited(12, "<I", len(CHUNKS[0]) + 1), "its stored size makes no sense"),
        (edited(16, "<i", -1), "block lies outside"),
        (edited(16, "<i", 10**9), "block lies outside"),
        (edited(2, "<B", 0xE1), "unknown compressor"),
    ],
)
def test_chunks_that_lie(tmp_path: Path, data: bytes, says: str) -> None:
    error = refused(tmp_path, data, CorruptChunk, says)
    assert error.key is not None and error.key.startswith("chunk 0 at byte ")
    assert error.node == "data"


@pytest.mark.parametrize("checksum", range(1, 9))
def test_wrong_digests_name_the_chunk_and_both_values(tmp_path: Path, checksum: int) -> None:
    data = bytearray(blp(CHUNKS, TIGHT, checksum=checksum))
    data[-1] ^= 0xFF
    error = refused(tmp_path, bytes(data), CorruptChunk, "wrong checksum (expected ")
    assert isinstance(error, CorruptChunk)
    assert str(error.key).startswith("chunk 2 at byte ")
    assert isinstance(error.expected, str) and isinstance(error.found, str)
    assert error.expected[:-2] == error.found[:-2] and error.expected != error.found


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (b"\x80\x04K\x01.", FormatError, "no JSON"),
        (b"__import__('os').system('true')", FormatError, "no JSON"),
        (b"[" * 100_000, FormatError, "nested deeper"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, FormatError, "nested deeper"),
        (b"{'a':" + b"(" * 3000 + b")" * 3000 + b"}", FormatError, "no JSON"),
        (text_of(LINE).replace(b"'<f8'", b"'|O'"), Unsupported, "pickles"),
        (text_of(LINE).replace(b"'<f8'", b"__import__('os')"), FormatError, "no data type"),
        (text_of(LINE).replace(b"'<f8'", b"(10,)f8,"), FormatError, "no data type"),
        (text_of(LINE).replace(b"[40]", b"[9223372036854775807]"), FormatError, "an array of"),
        (text_of(LINE).replace(b"[40]", b"[1000000000000]"), FormatError, "hold 320 bytes"),
        (text_of(LINE).replace(b"[40]", b"[-40]"), FormatError, "no shape"),
    ],
)
@pytest.mark.parametrize("spec", [True, False])
def test_metadata_that_lie(tmp_path: Path, text: bytes, kind: type[HyperslabError], says: str, spec: bool) -> None:
    refused(tmp_path, blp(CHUNKS, text if spec else section(text), version=2 if spec else 3), kind, says)


def test_damaged_metadata_do_not_hide_damaged_chunks(tmp_path: Path) -> None:
    data = bytearray(blp(CHUNKS, section(b"{nothing")))
    data[-1] ^= 1
    data[-len(CHUNKS[2]) - 4 - 1] ^= 1
    problems = hs.check(write(tmp_path, bytes(data)), deep=True)
    assert [problem.kind for problem in problems] == ["metadata", "corrupt-chunk", "corrupt-chunk"]
    assert [str(problem).partition(" at byte")[0] for problem in problems[1:]] == ["chunk 1", "chunk 2"]


def test_damaged_metadata_and_more_offsets_than_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, blp(CHUNKS, section(b"{nothing"), last=2**62))
    assert [problem.kind for problem in hs.check(path, deep=True)] == ["metadata", "truncated"]


def test_check_lists_every_damaged_chunk(tmp_path: Path) -> None:
    cells = np.arange(10_000, dtype="<f8")
    data = bytearray(file_of(cells, 800))
    path = write(tmp_path, bytes(data))
    assert not hs.check(path) and not hs.check(path, deep=True)
    start = int.from_bytes(data[32 + len(section(text_of(cells))) :][:8], "little")
    at, chosen = start, []
    for number in range(100):
        size = int.from_bytes(data[at + 12 : at + 16], "little")
        if number % 9 == 0:
            data[at + 20] ^= 0x40
            chosen.append(f"/data: chunk {number} at byte {at}: ")
        at += size + 4
    path = write(tmp_path, bytes(data))
    assert not hs.check(path)
    for workers in (1, 3):
        found = hs.check(path, deep=True, workers=workers)
        assert [str(problem).partition("adler32")[0] for problem in found] == chosen
        assert all("expected" in str(problem) and problem.kind == "corrupt-chunk" for problem in found)


def test_check_without_decoding(tmp_path: Path) -> None:
    """Places and headers of chunks are looked at without ``deep``."""
    problems = hs.check(write(tmp_path, edited(4, "<I", 129, digest=1)))
    assert [str(problem) for problem in problems] == [
        f"/data: chunk 0 at byte {FIRST - 16}: its header makes no sense (expected 128 bytes, stored in at most "
        f"{len(CHUNKS[0])}, found 129 in {len(CHUNKS[0])})"
    ]
    problems = hs.check(write(tmp_path, blp(CHUNKS, TIGHT, places=[FIRST - 16, 7, 2**62])))
    assert [str(problem)[:13] for problem in problems] == ["/data: chunk 1", "/data: chunk 2"][:0] or len(problems) == 2
    problems = hs.check(write(tmp_path, b"blpk\3\4\x09\0" + bytes(24)))
    assert sorted(problem.kind for problem in problems) == ["header", "header"]


BOMBS = """
import json, resource, sys
import numpy as np
import hyperslab as hs
from hyperslab.errors import HyperslabError

hs.open(sys.argv[1])[...]
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (192 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
steps = (
    hs.open,
    lambda path: hs.open(path)[3],
    lambda path: hs.open(path)[...],
    lambda path: hs.check(path, deep=True),
)
for path in sys.argv[2:]:
    for step in steps:
        try:
            step(path)
            said = "fine"
        except HyperslabError as error:
            said = type(error).__name__
        print(json.dumps([path, said]))
"""


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform != "linux", reason="the memory limit needs /proc")
def test_bounded_memory(tmp_path: Path) -> None:
    """Files of few bytes that claim much: nothing is allocated for it."""
    huge = bytearray(CHUNKS[0])
    pack_into("<II", huge, 4, 2**31 - 17, 2**31 - 17)
    zeros = chunk(bytes(256 << 20), cname="zstd")
    doc = {"dtype": "'|u1'", "shape": [2**31 - 17], "order": "C", "container": "numpy"}
    text = bytearray(section(b"{}", size=2**26, used=2**26))
    pack_into("<I", text, 16, 2**32 - 1)
    many = text_of(LINE).replace(b"[40]", b"[%d]" % 2**40)
    files = {
        "size": blp([bytes(huge)], section(json.dumps(doc).encode()), sizes=(2**31 - 17, 2**31 - 17)),
        "unsaid": blp([bytes(huge)], sizes=(-1, -1), nchunks=-1, offsets=False),
        "zeros": blp([zeros], b"", sizes=(256 << 20, 256 << 20)),
        "count": blp(CHUNKS, section(many), sizes=(8, 8), nchunks=2**40, offsets=False),
        "text": blp(CHUNKS, bytes(text)),
        "spec": pack("<4s4Biiqii", b"blpk", 2, 3, 1, 8, 128, 64, 3, 2**31 - 1, 0) + bytes(99),
    }
    paths = [write(tmp_path, data, f"{name}.blp") for name, data in files.items()]
    sparse = tmp_path / "sparse.blp"
    sparse.write_bytes(pack("<4s4Biiqq", b"blpk", 3, 1, 1, 8, 8, 8, 2**36, 0))
    os.truncate(sparse, 2**40)
    sound = write(tmp_path, SMALL, "sound.blp")
    done = subprocess.run(
        [sys.executable, "-c", BOMBS, sound, *paths, str(sparse)],
        capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == 4 * (len(files) + 1)
    allowed = {"fine", "FormatError", "CorruptChunk", "MemoryLimit", "MissingChunks"}
    assert {kind for _, kind in said} <= allowed, said
