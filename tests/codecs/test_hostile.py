"""Damaged and malicious chunks: an error of ours that says what was expected, in bounded memory, and never a crash."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import resource
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chains import LITTLE, cases, chain
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import CorruptChunk, HyperslabError
from hyperslab.model.dtypes import VlenString

pytestmark = pytest.mark.usefixtures("decoder")

linux = pytest.mark.skipif(sys.platform != "linux", reason="the memory limit needs /proc")


@pytest.mark.sampled(0)
@linux
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_every_byte_damaged_and_every_length(decoder: str, step: int) -> None:
    script = Path(__file__).with_name("mangle.py")
    done = subprocess.run(
        [sys.executable, str(script), decoder, str(step)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (lines[-1:], done.stderr[-2000:])
    assert [line["name"] for line in lines] == list(cases())
    assert not [line for line in lines if line["wrong"]]
    assert not [line["name"] for line in lines if line["other"] and cases()[line["name"]].sound]


GIB = 1 << 30
ZEROS = bytes(1 << 24)


def _lzma_raw(data: bytes) -> bytes:
    return lzma.compress(data, lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 1}])


def _blosc(nbytes: int, blocksize: int, cbytes: int, flags: int = 0x21, rest: bytes = b"") -> bytes:
    return struct.pack("<BBBBIII", 2, 1, flags, 4, nbytes, blocksize, cbytes) + rest


_RAW_LZMA = {"format": 3, "filters": [{"id": lzma.FILTER_LZMA2, "preset": 1}]}
_ZSTD_GIB = b"\x28\xb5\x2f\xfd\xa0" + GIB.to_bytes(4, "little") + b"\x01\x00\x00"
_ZSTD_UNKNOWN = b"\x28\xb5\x2f\xfd\x00\x60" + 4000 * b"\x02\x00\x10\x00" + b"\x01\x00\x00"
BOMBS: dict[str, tuple[Any, Callable[[], bytes]]] = {
    "zstd declares 1 GiB": ("zstd", lambda: _ZSTD_GIB),
    "zstd declares nothing": ("zstd", lambda: _ZSTD_UNKNOWN),
    "lz4 declares 1 GiB": ("lz4", lambda: GIB.to_bytes(4, "little") + b"\x1f\x00\x01\x00\xff\xff"),
    "lz4 declares 4 GiB": ("lz4", lambda: b"\xff\xff\xff\xff\x00\x00"),
    "blosc declares 1 GiB": ("blosc", lambda: _blosc(GIB, GIB, 24, rest=b"\x14\0\0\0\0\0\0\0")),
    "blosc with many blocks": ("blosc", lambda: _blosc(400, 1, 24, rest=b"\x14\0\0\0\0\0\0\0")),
    "zlib": ("zlib", lambda: zlib.compress(ZEROS)),
    "gzip": ("gzip", lambda: gzip.compress(ZEROS)),
    "gzip of many members": ("gzip", lambda: gzip.compress(b"") * 10_000),
    "bz2": ("bz2", lambda: bz2.compress(ZEROS)),
    "bz2 of many streams": ("bz2", lambda: bz2.compress(b"") * 10_000),
    "lzma": ("lzma", lambda: lzma.compress(ZEROS)),
    "lzma alone": (("lzma", {"format": 2}), lambda: lzma.compress(ZEROS, lzma.FORMAT_ALONE)),
    "lzma raw": (("lzma", _RAW_LZMA), lambda: _lzma_raw(ZEROS)),
    "gzip of gzip": (["gzip", "gzip"], lambda: gzip.compress(gzip.compress(ZEROS))),
}


@cache
def _bomb(name: str) -> bytes:
    return BOMBS[name][1]()


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("into", [False, True])
def test_bombs(name: str, into: bool) -> None:
    codecs, _ = BOMBS[name]
    data = _bomb(name)
    made = chain("<i4", (100,), LITTLE, *(codecs if isinstance(codecs, list) else [codecs]))
    before = _memory()
    with pytest.raises(CorruptChunk) as caught:
        made.decode_into(data, np.empty(100, "<i4")) if into else made.decode(data)
    assert caught.value.expected is not None
    assert caught.value.found is not None
    assert _memory() - before < 48 << 20


@cache
def _large_zeros(codec: str) -> bytes:
    """A small chunk that decodes to 128 MiB, or says so."""
    size = 1 << 27
    match codec:
        case "zstd":
            return bytes(chain("u1", (size,), "zstd").encode(np.zeros(size, "u1")))
        case "gzip":
            return gzip.compress(bytes(size), 9)
        case "bz2":
            return bz2.compress(bytes(size), 1)
        case "lzma":
            return lzma.compress(bytes(size), preset=0)
        case "lz4":
            return size.to_bytes(4, "little") + b"\x1f\x00\x01\x00\xff\xff"
    return _blosc(size, size, 24, rest=b"\x14\0\0\0\0\0\0\0")


@pytest.mark.sampled(0)
@pytest.mark.parametrize("codec", ["zstd", "lz4", "gzip", "bz2", "lzma", "blosc"])
def test_bombs_of_variable_length(codec: str) -> None:
    with pytest.raises(CorruptChunk, match=codec):
        chain(VlenString(), (2,), "vlen-utf8", codec).decode(_large_zeros(codec))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02\0\0",
        b"\xff\xff\xff\xff",
        b"\x02\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x02\0\0\0\x01\0\0\0a\x01\0\0\0",
        b"\x02\0\0\0\x00\0\0\0\x02\0\0\0\xff\xfe",
        b"\x02\0\0\0\x00\0\0\0\x00\0\0\0\x00",
    ],
)
def test_vlen_lengths(data: bytes) -> None:
    with pytest.raises(CorruptChunk):
        chain(VlenString(), (2,), "vlen-utf8").decode(data)


CASES = cases()


@given(data=st.binary(max_size=80), name=st.sampled_from(sorted(CASES)))
def test_any_bytes(data: bytes, name: str) -> None:
    case = CASES[name]
    try:
        found = case.chain.decode(data)
    except HyperslabError:
        return
    assert found.shape == case.block.shape


@given(
    head=st.tuples(st.just(2), st.integers(0, 9), st.integers(0, 255), st.sampled_from([1, 4, 7, 255])),
    sizes=st.tuples(st.just(96), st.sampled_from([1, 4, 32, 95, 96])),
    rest=st.binary(max_size=100),
)
def test_blosc_with_a_sound_header_and_any_content(head: Any, sizes: Any, rest: bytes) -> None:
    made = chain("<i4", (4, 6), LITTLE, "blosc")
    data = struct.pack("<BBBBIII", *head, *sizes, 16 + len(rest)) + rest
    try:
        assert made.decode(data).shape == (4, 6)
    except HyperslabError as error:
        assert str(error)
