"""The preamble of a bloscpack file: header, metadata, offsets, and the room kept for them to grow.

======  ==================  =======================================  =====================================
offset  v1                  v2, and the specification's own layout   v3
======  ==================  =======================================  =====================================
0       ``blpk``, version, options, checksum, typesize: a byte each (v1 has zeros behind the version)
8       i64 nchunks         i32 chunk-size, i32 last-chunk           the same
16                          i64 nchunks                              the same
24                          i32 meta-size (v2: 0), i32 zero          i64 max-app-chunks
======  ==================  =======================================  =====================================

``-1`` stands for what is not known. The version byte alone does not tell the layout: see :func:`parse_header`. Behind
the header come the metadata (bare JSON, or in v3 a section with a header of its own), then the offsets of the chunks.
All integers are little-endian.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Literal, Self

import numpy as np

from hyperslab.codecs.blosc import MAX_BYTES
from hyperslab.codecs.checksums import DIGESTS, Digest
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, Invalid, Problem
from hyperslab.formats.bloscpack.document import Content, read_text, write_text
from hyperslab.formats.bloscpack.document import render_document as render_document
from hyperslab.formats.bloscpack.file import FileBytes
from hyperslab.formats.documents import LIMITS
from hyperslab.formats.format_errors import document_error
from hyperslab.formats.single_array.document import Doc

# -- the header, of 16 bytes (v1) or 32 -----------------------------------------------------------------------------


MAGIC = b"blpk"
SECTION = b"JSON"
V1_SIZE, SIZE = 16, 32
ENOUGH = SIZE + 4
"""Bytes that :func:`parse_header` looks at."""
_V1 = Struct("<4s4Bq")
_V3_HEADER = Struct("<4s4Biiqq")
_SPEC = Struct("<4s4Biiqii")
_OFFSETS, _METADATA = 1, 2
LARGEST_COUNT = 2**63 - 1

Layout = Literal["v1", "v2", "v3", "spec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BloscpackHeader:
    """The fields of a header. ``chunk_size`` and ``last_chunk`` are bytes before compression, -1 where not known, as is
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


def parse_header(data: bytes) -> BloscpackHeader:
    """Return the header that the first :data:`ENOUGH` bytes of a file hold, of whichever layout; FormatError lists
    every flaw.

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
        return _raise_flaws(header, [] if nchunks >= -1 else [f"{nchunks} chunks"])
    _, _, options, checksum, typesize, chunk_size, last_chunk, nchunks, max_app = _V3_HEADER.unpack_from(data)
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
    return _raise_flaws(header, flaws)


def _flaws(header: BloscpackHeader, options: int) -> list[str]:
    flaws = [f"options {options:#04x}, of which only the lowest two bits have a meaning"] if options & ~3 else []
    if header.checksum >= len(DIGESTS):
        flaws.append(f"checksum {header.checksum}, the highest is {len(DIGESTS) - 1}")
    for name, size in (("chunk-size", header.chunk_size), ("last-chunk", header.last_chunk)):
        if not -1 <= size <= MAX_BYTES:
            flaws.append(f"{name} {size}")
    if header.last_chunk > header.chunk_size >= 0:
        flaws.append(f"last-chunk {header.last_chunk} is larger than chunk-size {header.chunk_size}")
    if header.nchunks < -1 or header.max_app < 0 or header.nchunks + header.max_app > LARGEST_COUNT:
        flaws.append(f"{header.nchunks} chunks and room for {header.max_app} more")
    elif header.max_app and (not header.has_offsets or header.nchunks < 0):
        flaws.append(f"room for {header.max_app} more offsets where there are none")
    return flaws


def _raise_flaws(header: BloscpackHeader, flaws: list[str]) -> BloscpackHeader:
    if flaws:
        message = f"the header makes no sense: {'; '.join(flaws)}"
        raise FormatError(message, problems=tuple(Problem("", "header", flaw) for flaw in flaws))
    return header


def render_header(header: BloscpackHeader) -> bytes:
    """Return the bytes of a header."""
    if header.layout == "v1":
        return _V1.pack(MAGIC, 1, 0, 0, 0, header.nchunks)
    options = _OFFSETS * header.has_offsets | _METADATA * header.has_metadata
    start = (MAGIC, header.version, options, header.checksum, header.typesize)
    sizes = (header.chunk_size, header.last_chunk, header.nchunks)
    if header.layout == "v3":
        return _V3_HEADER.pack(*start, *sizes, header.max_app)
    return _SPEC.pack(*start, *sizes, header.meta_size, 0)


# -- the metadata section of v3 -------------------------------------------------------------------------------------
#
# offset  type   field of the section, from its start
# 0       8s     `JSON`, padded
# 8       4u8    options (0), checksum, codec (0 none, 1 zlib), level
# 12      u32    bytes of the text
# 16      u32    room for them in the file
# 20      u32    bytes of it that are used
# 24      8s     name of a user's codec, not used
# 32             what is used, zeros up to the room, then the digest of what is used


HEAD = Struct("<8s4B3I8s")
"""The section's own header."""
ROOM = 10
"""The room for the metadata, in lengths of their text: what bloscpack 0.16 keeps (``MetadataArgs``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The header of the metadata section: bytes of the ``text``, those ``used`` in the file, and the ``room``."""

    text: int
    used: int
    room: int
    checksum: int = 1
    codec: int = 1
    level: int = 6

    @property
    def digest(self) -> Digest:
        """The checksum behind the room."""
        return DIGESTS[self.checksum]

    @property
    def size(self) -> int:
        """Bytes of the whole section."""
        return HEAD.size + self.room + self.digest.size


def parse_head(data: bytes) -> Section:
    """Return the section whose first 32 bytes these are; FormatError lists every flaw."""
    if len(data) < HEAD.size:
        raise document_error(
            "truncated", f"the file ends within the header of the metadata, after {len(data)} bytes of it"
        )
    magic, options, checksum, codec, level, text, room, used, _ = HEAD.unpack_from(data)
    flaws = [] if magic.rstrip(b"\0 ") == SECTION else [f"metadata of the kind {magic!r}, which is not known"]
    if options:
        flaws.append(f"options {options:#04x} of the metadata, which have no meaning")
    if checksum >= len(DIGESTS):
        flaws.append(f"checksum {checksum} of the metadata, the highest is {len(DIGESTS) - 1}")
    if codec > 1 or level > 9:
        flaws.append(f"codec {codec} of the metadata with level {level}; there are 0 (none) and 1 (zlib), levels to 9")
    if max(text, used) > LIMITS.size:
        flaws.append(f"metadata of {text} bytes, stored in {used}; {LIMITS.size} are allowed")
    if used > room or (codec == 0 and used != text):
        flaws.append(f"metadata of {text} bytes, stored in {used} with room for {room}")
    if flaws:
        message = f"the header of the metadata makes no sense: {'; '.join(flaws)}"
        raise FormatError(message, problems=tuple(Problem("", "metadata", flaw) for flaw in flaws))
    return Section(text=text, used=used, room=room, checksum=checksum, codec=codec, level=level)


def unpack(section: Section, used: bytes, digest: bytes) -> bytes:
    """Return the text of a section; FormatError when it is not what its digest and its size say."""
    try:
        section.digest.check(used, digest)
    except CorruptChunk as error:
        message = f"the metadata have a wrong checksum: expected {error.expected}, found {error.found}"
        raise document_error("checksum", message) from None
    if section.codec == 0:
        return used
    try:
        inflater = zlib.decompressobj()
        text = inflater.decompress(used, section.text + 1)
    except zlib.error as error:
        raise document_error("metadata", f"the metadata cannot be decompressed: {error}") from None
    if len(text) != section.text or not inflater.eof or inflater.unused_data:
        raise document_error("metadata", f"the metadata decompress to other than {section.text} bytes")
    return text


def render_section(text: bytes, *, checksum: int = 1, codec: int = 1, level: int = 6, room: int | None = None) -> bytes:
    """Return a section with this text, stored as it is where zlib would make it longer; Invalid when the room is too
    small.

    ``room``: bytes kept for the text, ten times its length unless given (bloscpack 0.16, ``MetadataArgs``).
    """
    used = zlib.compress(text, level) if codec else text
    if len(used) > len(text):
        used, codec = text, 0
    room = ROOM * len(text) if room is None else room
    if len(used) > room:
        raise Invalid(f"metadata of {len(used)} bytes in a room of {room}", remedy="write the file anew")
    head = HEAD.pack(SECTION, 0, checksum, codec, level, len(text), room, len(used), b"")
    return head + used.ljust(room, b"\0") + DIGESTS[checksum].of(used)


MOST_RESERVED = 65536
"""Offsets that are kept in reserve at the most; bloscpack keeps ten times the chunks."""
# Bytes of JSON behind the last chunk that are read at the most.
_APPENDIX = 1 << 20
# Header and metadata of most files lie in their first page, and come by one call of the system.
_FIRST = 4096


# -- read --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Preamble:
    """``offsets_at``: where the offsets are or would be, -1 where that cannot be told. ``fault``: why there is no
    ``doc`` although there should be; the chunks may still be found."""

    header: BloscpackHeader
    section: Section | None = None
    doc: Doc | None = None
    offsets_at: int
    fault: FormatError | None = None

    @property
    def chunks_at(self) -> int:
        """The first byte of the first chunk, if the header tells how many offsets there are."""
        return self.offsets_at + 8 * max(self.header.slots, 0)

    @property
    def is_loose(self) -> bool:
        """Return True if the metadata may be a user's own, and say nothing of the cells."""
        return self.header.layout == "v3"


def read_preamble(file: FileBytes) -> Preamble:
    """Return header and metadata of a file; FormatError for a header that makes no sense or a file that ends within it.

    What is wrong with the metadata stands in ``fault``.
    """
    first = file.pread(min(_FIRST, file.size), 0)

    def read(size: int, offset: int) -> bytes:
        end = offset + size
        return first[offset:end] if end <= len(first) else file.pread(size, offset)

    header = parse_header(first[:ENOUGH])
    section: Section | None = None
    fault: FormatError | None = None
    doc: Doc | None = None
    offsets_at = header.size
    try:
        if header.layout == "v3" and header.has_metadata:
            offsets_at = -1
            section = parse_head(read(max(0, min(HEAD.size, file.size - SIZE)), SIZE))
            offsets_at = SIZE + section.size
        elif header.layout == "spec":
            offsets_at = SIZE + header.meta_size
        if offsets_at > file.size:
            raise _ends("metadata", offsets_at, file.size)
        text = _text(read, header, section)
        doc = None if text is None else read_text(text)
    except FormatError as error:
        fault = error
    front = Preamble(header=header, section=section, doc=doc, offsets_at=offsets_at, fault=fault)
    if fault is None and front.chunks_at > file.size:
        raise _ends("offsets", front.chunks_at, file.size)
    return front


def _text(read: Callable[[int, int], bytes], header: BloscpackHeader, section: Section | None) -> bytes | None:
    if section is not None:
        start = SIZE + HEAD.size
        digest = read(section.digest.size, start + section.room)
        return unpack(section, read(section.used, start), digest)
    if header.layout != "spec":
        return None
    if header.meta_size > LIMITS.size:
        raise document_error("metadata", f"metadata of {header.meta_size} bytes, {LIMITS.size} are allowed")
    return read(header.meta_size, SIZE)


def _ends(within: str, expected: int, found: int) -> FormatError:
    return document_error(
        "truncated", f"the file ends within its {within}: it has {found} bytes, they reach to {expected}"
    )


def read_appendix(file: FileBytes, end: int) -> Doc | None:
    """Return the JSON behind the last chunk, which ends at ``end``, as Blaze wrote it in 2012; None for anything
    else."""
    size = file.size - end
    if not 0 < size <= _APPENDIX:
        return None
    try:
        text = file.pread(size, end)
        return read_text(text) if text.lstrip()[:1] == b"{" else None
    except HyperslabError:
        return None


# -- made --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The form of a file: ``v3``, or the layout of the specification; which checksums; how the metadata are stored.

    ``version``: the version byte. ``metadata``: whether there are any.
    """

    layout: Literal["v3", "spec"] = "v3"
    version: int = 3
    offsets: bool = True
    checksum: int = 1
    typesize: int = 8
    metadata: bool = True
    meta_checksum: int = 1
    meta_codec: int = 1
    meta_level: int = 6

    @classmethod
    def of(cls, found: BloscpackHeader, section: Section | None) -> Self:
        """Return the style of a file; one of v1 or v2, which say nothing of their cells, is written as v3."""
        style = cls(
            layout="spec" if found.layout == "spec" else "v3",
            version=found.version if found.layout == "spec" else 3,
            offsets=found.has_offsets or found.layout == "v1",
            checksum=found.checksum if found.layout != "v1" else 1,
            metadata=found.has_metadata,
        )
        if section is None:
            return style
        return replace(style, meta_checksum=section.checksum, meta_codec=section.codec or 1, meta_level=section.level)

    @property
    def digest(self) -> Digest:
        """The checksum behind each chunk."""
        return DIGESTS[self.checksum]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a chunk and of the last one before compression, and the number of chunks."""

    chunk: int
    last: int
    count: int

    @classmethod
    def of(cls, nbytes: int, chunk: int) -> Self:
        """Return the sizes of ``nbytes`` in chunks of ``chunk``; nothing at all is one empty chunk, as in bloscpack."""
        if nbytes == 0:
            return cls(chunk, 0, 1)
        count = -(-nbytes // chunk)
        return cls(chunk, nbytes - (count - 1) * chunk, count)


UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes for the text of the metadata, and places for offsets."""

    text: int
    slots: int

    @classmethod
    def of(cls, style: Style, text: bytes, count: int, reserve: int = 0) -> Self:
        """Return what bloscpack keeps: ten times the text, and offsets for ten times the chunks, at least ``reserve``.

        The layout of the specification keeps nothing.
        """
        has_room = style.layout == "v3"
        slots = count + min(ROOM * count, MOST_RESERVED) if has_room else count
        room = (ROOM if has_room else 1) * len(text) if style.metadata else 0
        return cls(room, max(slots, reserve if has_room else 0) if style.offsets else 0)


def text_of(content: Content, style: Style) -> bytes:
    """Return the metadata as text."""
    is_spec = style.layout == "spec"
    return write_text(render_document(content, spec_words=is_spec), spaced=is_spec)


def render_preamble(style: Style, text: bytes, sizes: Sizes, room: Room, lengths: Sequence[int] | None) -> bytes | None:
    """Return all that lies in front, in this room; None where it does not fit.

    ``lengths``: bytes of each slot, which the offsets follow from; None while they are not known: offsets are then -1,
    but the first one where the number of chunks is not known either, for it tells how many there is room for.
    """
    # The specification has no room for offsets to come: blanks behind the JSON take the place of those that are not
    # needed.
    if style.layout == "spec":
        count = sizes.count if sizes.count >= 0 else room.slots
        slots = count if style.offsets else 0
        room = Room(room.text + 8 * (room.slots - slots), slots)
    if room.slots < (max(sizes.count, 0) if style.offsets else 0) or room.text < 0:
        return None
    section: bytes | None
    if not style.metadata:
        section = None if room.text else b""
    elif style.layout == "spec":
        section = text.ljust(room.text) if len(text) <= room.text else None
    else:
        section = section_in(text, style, room.text)
    if section is None:
        return None
    known = style.offsets and style.layout == "v3" and sizes.count >= 0
    head = BloscpackHeader(
        layout=style.layout,
        version=style.version,
        has_offsets=style.offsets,
        has_metadata=style.metadata,
        checksum=style.checksum,
        typesize=style.typesize,
        chunk_size=sizes.chunk,
        last_chunk=sizes.last,
        nchunks=sizes.count,
        max_app=room.slots - sizes.count if known else 0,
        meta_size=len(section) if style.layout == "spec" else 0,
    )
    start = head.size + len(section) + 8 * room.slots
    offsets = np.full(room.slots, -1, "<i8")
    if room.slots and lengths is None and sizes.count < 0:
        offsets[0] = start
    elif room.slots and lengths:
        offsets[: len(lengths)] = start
        offsets[1 : len(lengths)] += np.cumsum(np.asarray(lengths[:-1], "i8"))
    return render_header(head) + section + offsets.tobytes()


def section_in(text: bytes, style: Style, room: int) -> bytes | None:
    """Return the metadata section of v3 with a certain room; None where the text does not fit."""
    try:
        return render_section(
            text, checksum=style.meta_checksum, codec=style.meta_codec, level=style.meta_level, room=room
        )
    except Invalid:
        return None
