"""The nine checksums of bloscpack, in the order of their numbers on disk: over stored bytes, written right behind them.

adler32 and crc32 are stored as unsigned 32-bit words, little-endian, the others as the raw digest (bloscpack's
header.rst, field ``checksum``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from isal import isal_zlib

from hyperslab.codecs.base import Buffer
from hyperslab.errors import CorruptChunk, Invalid


@dataclass(frozen=True, slots=True)
class Digest:
    """A checksum: its ``name``, its ``size`` in bytes, and ``of`` bytes."""

    name: str
    size: int
    of: Callable[[Buffer], bytes]

    def check(self, data: Buffer, stored: Buffer) -> None:
        """CorruptChunk with both values unless ``stored`` is the digest of ``data``."""
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
    """The number of a checksum; Invalid names those that there are."""
    if name not in NUMBERS:
        raise Invalid(f"checksum {name!r}", remedy=f"there are {', '.join(NUMBERS)}")
    return NUMBERS[name]
