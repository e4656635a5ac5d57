"""The header of a bloscpack file: 16 bytes (v1) or 32, all integers little-endian. Pure.

======  ==================  =======================================  =====================================
offset  v1                  v2, and the specification's own layout   v3
======  ==================  =======================================  =====================================
0       ``blpk``, version, options, checksum, typesize: a byte each (v1 has zeros behind the version)
8       i64 nchunks         i32 chunk-size, i32 last-chunk           the same
16                          i64 nchunks                              the same
24                          i32 meta-size (v2: 0), i32 zero          i64 max-app-chunks
======  ==================  =======================================  =====================================

``-1`` stands for what is not known. The version byte alone does not tell the layout: see :func:`parse`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Literal, Self

from hyperslab.codecs.blosc import MAX_BYTES
from hyperslab.codecs.digests import DIGESTS, Digest
from hyperslab.errors import FormatError, Problem
from hyperslab.formats.format_errors import document_error

MAGIC = b"blpk"
SECTION = b"JSON"
V1_SIZE, SIZE = 16, 32
ENOUGH = SIZE + 4
"""Bytes that :func:`parse` looks at."""
_V1 = Struct("<4s4Bq")
_V3 = Struct("<4s4Biiqq")
_SPEC = Struct("<4s4Biiqii")
_OFFSETS, _METADATA = 1, 2
_MOST = 2**63 - 1

Layout = Literal["v1", "v2", "v3", "spec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BloscpackHeader:
    """What a header says. ``chunk_size`` and ``last_chunk`` are bytes before compression, -1 where not known, as is
    ``nchunks``; ``max_app`` the offsets in reserve (v3), ``meta_size`` the bytes of JSON (the specification's layout).
    """

    layout: Layout
    version: int
    has_offsets: bool = True
    has_metadata: bool = False
    checksum: int = 1
    typesize: int = 8
    chunk_size: int
    last_chunk: int
    nchunks: int
    max_app: int = 0
    meta_size: int = 0

    @property
    def size(self) -> int:
        """Bytes of the header."""
        return V1_SIZE if self.layout == "v1" else SIZE

    @property
    def digest(self) -> Digest:
        """The checksum behind each chunk."""
        return DIGESTS[self.checksum]

    @property
    def slots(self) -> int:
        """Offsets that there is room for; -1 where that cannot be told."""
        if not self.has_offsets:
            return 0
        return -1 if self.nchunks < 0 else self.nchunks + self.max_app

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks before compression; -1 where not known."""
        if min(self.chunk_size, self.last_chunk, self.nchunks) < 0:
            return -1
        return self.chunk_size * (self.nchunks - 1) + self.last_chunk if self.nchunks else 0

    def evolve(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return replace(self, **changes)


def parse(data: bytes) -> BloscpackHeader:
    """The header that the first :data:`ENOUGH` bytes of a file hold, of whichever layout; FormatError lists every flaw.

    Version 1 is v1. Version 3 is v3 if it has no metadata or their section begins with ``JSON``. Any other 2 or 3 has a
    meta-size: with metadata it is the specification's layout, which no JSON text can be mistaken for, else v2.
    """
    if data[:4] != MAGIC:
        raise document_error("magic", f"the file begins with {data[:4]!r}, not with {MAGIC!r}")
    version = data[4] if len(data) > 4 else None
    if version not in (1, 2, 3):
        raise document_error("version", f"bloscpack of version {version}, which is not known")
    if len(data) < (V1_SIZE if version == 1 else SIZE):
        raise document_error("truncated", f"the file ends within its header, after {len(data)} bytes")
    if version == 1:
        nchunks = _V1.unpack_from(data)[-1]
        header = BloscpackHeader(
            layout="v1", version=1, has_offsets=False, checksum=0, chunk_size=-1, last_chunk=-1, nchunks=nchunks
        )
        return _checked(header, [] if nchunks >= -1 else [f"{nchunks} chunks"])
    _, _, options, checksum, typesize, chunk_size, last_chunk, nchunks, max_app = _V3.unpack_from(data)
    has_metadata = bool(options & _METADATA)
    is_v3 = version == 3 and (not has_metadata or data[SIZE : SIZE + 4] == SECTION)
    meta_size, reserved = _SPEC.unpack_from(data)[-2:]
    header = BloscpackHeader(
        layout="v3" if is_v3 else "spec" if has_metadata else "v2",
        version=version,
        has_offsets=bool(options & _OFFSETS),
        has_metadata=has_metadata,
        checksum=checksum,
        typesize=typesize,
        chunk_size=chunk_size,
        last_chunk=last_chunk,
        nchunks=nchunks,
        max_app=max_app if is_v3 else 0,
        meta_size=0 if is_v3 else meta_size,
    )
    flaws = _flaws(header, options)
    if not is_v3 and (reserved or meta_size < 0 or (meta_size and not has_metadata)):
        flaws.append(f"meta-size {meta_size} and reserved bytes {reserved:#x}")
    return _checked(header, flaws)


def _flaws(header: BloscpackHeader, options: int) -> list[str]:
    flaws = [f"options {options:#04x}, of which only the lowest two bits have a meaning"] if options & ~3 else []
    if header.checksum >= len(DIGESTS):
        flaws.append(f"checksum {header.checksum}, the highest is {len(DIGESTS) - 1}")
    for name, size in (("chunk-size", header.chunk_size), ("last-chunk", header.last_chunk)):
        if not -1 <= size <= MAX_BYTES:
            flaws.append(f"{name} {size}")
    if header.last_chunk > header.chunk_size >= 0:
        flaws.append(f"last-chunk {header.last_chunk} is larger than chunk-size {header.chunk_size}")
    if header.nchunks < -1 or header.max_app < 0 or header.nchunks + header.max_app > _MOST:
        flaws.append(f"{header.nchunks} chunks and room for {header.max_app} more")
    elif header.max_app and (not header.has_offsets or header.nchunks < 0):
        flaws.append(f"room for {header.max_app} more offsets where there are none")
    return flaws


def _checked(header: BloscpackHeader, flaws: list[str]) -> BloscpackHeader:
    if flaws:
        message = f"the header makes no sense: {'; '.join(flaws)}"
        raise FormatError(message, problems=tuple(Problem("", "header", flaw) for flaw in flaws))
    return header


def render(header: BloscpackHeader) -> bytes:
    """The bytes of a header."""
    if header.layout == "v1":
        return _V1.pack(MAGIC, 1, 0, 0, 0, header.nchunks)
    options = _OFFSETS * header.has_offsets | _METADATA * header.has_metadata
    start = (MAGIC, header.version, options, header.checksum, header.typesize)
    sizes = (header.chunk_size, header.last_chunk, header.nchunks)
    if header.layout == "v3":
        return _V3.pack(*start, *sizes, header.max_app)
    return _SPEC.pack(*start, *sizes, header.meta_size, 0)
