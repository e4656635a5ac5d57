"""Checksums of chunks: codecs of 32 bits, always verified, and the digests of bloscpack.

``crc32``, ``crc32c``, ``adler32``, ``fletcher32`` and ``jenkins_lookup3`` stand at the start or the end of a chunk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from isal import isal_zlib

from hyperslab.codecs.base import Buffer, BytesToBytes, ChunkLayout
from hyperslab.codecs.buffers import numcodecs_module, wrong_size
from hyperslab.codecs.config import Config, choice, integer, only
from hyperslab.codecs.crc32c import crc32c
from hyperslab.errors import CorruptChunk, Invalid

# -- two checksums of HDF5: Fletcher's in the form of H5checksum.c, and Bob Jenkins' lookup3 ---------------------------


_SLAB = 1 << 16
_MODULUS = 65535


def fletcher32(data: np.ndarray[Any, np.dtype[np.uint8]]) -> int:
    """Return Fletcher-32 over big-endian 16-bit words, an odd last byte padded with a zero; sums modulo 65535.

    As H5_checksum_fletcher32 folds its sums, a sum that is a multiple of 65535 is 65535, and 0 only where all is zero.
    """
    odd = data[-1:] if len(data) % 2 else None
    words = data[: len(data) // 2 * 2].view(">u2")
    left = len(words) + (odd is not None)
    plain = weighted = 0
    weights = np.arange(min(len(words), _SLAB), 0, -1, dtype=np.float64)
    for start in range(0, len(words), _SLAB):
        slab = words[start : start + _SLAB].astype(np.float64)
        left -= len(slab)
        total = int(slab.sum())
        plain += total
        weighted += left * total + int(slab @ weights[-len(slab) :])
    if odd is not None:
        plain += int(odd[0]) << 8
        weighted += int(odd[0]) << 8
    return _fold(weighted) << 16 | _fold(plain)


def lookup3(data: np.ndarray[Any, np.dtype[np.uint8]], seed: int) -> int:
    """Return Bob Jenkins' lookup3 (H5_checksum_lookup3), by numcodecs."""
    return int(numcodecs_module("jenkins").jenkins_lookup3(data, seed))


def _fold(total: int) -> int:
    return (total - 1) % _MODULUS + 1 if total else 0


Bytes8 = np.ndarray[Any, np.dtype[np.uint8]]
WORDS: dict[str, tuple[Callable[[Bytes8], int], str]] = {
    "crc32": (isal_zlib.crc32, "start"),
    "adler32": (isal_zlib.adler32, "start"),
    "crc32c": (crc32c, "end"),
    "fletcher32": (fletcher32, "end"),
}


class Checksum(BytesToBytes):
    """Four bytes, little-endian, before or after the data."""

    can_decode_into = True

    def __init__(self, name: str, of: Callable[[Bytes8], int], at_end: bool) -> None:
        self._name = name
        self._of = of
        self._at_end = at_end
        self.engine_name = "crc32c" if name == "crc32c" and at_end else None

    def encoded_size(self, size: int) -> int:
        """Return four bytes more."""
        return size + 4

    def encode(self, data: Buffer) -> Buffer:
        """Return the data with its checksum."""
        digest = self._of(np.frombuffer(data, np.uint8)).to_bytes(4, "little")
        return b"".join((data, digest) if self._at_end else (digest, data))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return a view of the data, once its checksum is found to be right; CorruptChunk otherwise."""
        if len(data) < 4:
            raise CorruptChunk(f"{self._name}: no room for the checksum", expected="4 bytes or more", found=len(data))
        view = memoryview(data)
        payload, stored = (view[:-4], view[-4:]) if self._at_end else (view[4:], view[:4])
        if size is not None and len(payload) != size:
            wrong_size(self._name, size, len(payload))
        expected, found = int.from_bytes(stored, "little"), self._of(np.frombuffer(payload, np.uint8))
        if expected != found:
            raise CorruptChunk(f"{self._name}: wrong checksum", expected=f"{expected:#010x}", found=f"{found:#010x}")
        return payload

    def decode_into(self, data: Buffer, out: memoryview) -> None:
        """Put the data into ``out``."""
        out[:] = self.decode(data, len(out))


CRC32C = Checksum("crc32c", crc32c, at_end=True)


def make_checksum(name: str) -> Callable[[Config, ChunkLayout], Checksum]:
    """Return the maker of a checksum of :data:`WORDS`; ``location`` is ``start`` or ``end``."""
    of, default = WORDS[name]

    def make(config: Config, cells: ChunkLayout) -> Checksum:
        only(name, config, "location")
        return Checksum(name, of, choice(name, config, "location", default, ("start", "end")) == "end")

    return make


def make_jenkins(config: Config, cells: ChunkLayout) -> Checksum:
    """Make Bob Jenkins' lookup3 at the end; ``initval`` seeds it, ``prefix`` (text or bytes) is hashed before the
    data."""
    only("jenkins_lookup3", config, "initval", "prefix")
    seed = integer("jenkins_lookup3", config, "initval", 0, 0, 2**32 - 1)
    value = config.get("prefix")
    if value is not None and not isinstance(value, str | bytes):
        raise Invalid(f"codec 'jenkins_lookup3': prefix={value!r}", remedy="text, or null")
    prefix = np.frombuffer(value.encode() if isinstance(value, str) else value or b"", np.uint8)

    def of(data: Bytes8) -> int:
        return lookup3(np.concatenate((prefix, data)) if len(prefix) else data, seed)

    return Checksum("jenkins_lookup3", of, at_end=True)


# -- the nine checksums of bloscpack, in the order of their numbers on disk --------------------------------------------
# They are over stored bytes, right behind them. adler32 and crc32 are stored as unsigned 32-bit words, little-endian,
# the others as the raw digest (bloscpack's header.rst, field ``checksum``).


@dataclass(frozen=True, slots=True)
class Digest:
    """A checksum: its ``name``, its ``size`` in bytes, and ``of`` bytes."""

    name: str
    size: int
    of: Callable[[Buffer], bytes]

    def check(self, data: Buffer, stored: Buffer) -> None:
        """Raise CorruptChunk with both values unless ``stored`` is the digest of ``data``."""
        found = self.of(data)
        if found != stored:
            raise CorruptChunk(f"{self.name}: wrong checksum", expected=bytes(stored).hex(), found=found.hex())


def _hashed(name: str) -> Digest:
    made = getattr(hashlib, name)
    return Digest(name, made().digest_size, lambda data: made(data).digest())


DIGESTS = (
    Digest("none", 0, lambda data: b""),
    Digest("adler32", 4, lambda data: isal_zlib.adler32(data).to_bytes(4, "little")),
    Digest("crc32", 4, lambda data: isal_zlib.crc32(data).to_bytes(4, "little")),
    *map(_hashed, ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")),
)
"""By their number on disk."""

NUMBERS = {digest.name: number for number, digest in enumerate(DIGESTS)}


def digest_number(name: str) -> int:
    """Return the number of a checksum; Invalid names those that there are."""
    if name not in NUMBERS:
        raise Invalid(f"checksum {name!r}", remedy=f"there are {', '.join(NUMBERS)}")
    return NUMBERS[name]
