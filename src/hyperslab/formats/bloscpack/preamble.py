"""What stands before the chunks of a file, read and made: header, metadata, offsets, and the room kept for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from hyperslab.codecs.digests import DIGESTS, Digest
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.formats.bloscpack.document import Content
from hyperslab.formats.bloscpack.document import render as render_document
from hyperslab.formats.bloscpack.file import FileBytes
from hyperslab.formats.bloscpack.header import ENOUGH, SIZE, BloscpackHeader, parse, render
from hyperslab.formats.bloscpack.metadata import (
    HEAD,
    ROOM,
    Doc,
    Section,
    parse_head,
    read_text,
    render_section,
    unpack,
    write_text,
)
from hyperslab.formats.documents import LIMITS
from hyperslab.formats.format_errors import document_error

MOST_RESERVED = 65536
"""Offsets that are kept in reserve at the most; bloscpack keeps ten times the chunks."""
_APPENDIX = 1 << 20


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
        """Where the first chunk begins, if the header tells how many offsets there are."""
        return self.offsets_at + 8 * max(self.header.slots, 0)

    @property
    def is_loose(self) -> bool:
        """Return whether the metadata may be a user's own, and say nothing of the cells."""
        return self.header.layout == "v3"


def read_front(file: FileBytes) -> Preamble:
    """Header and metadata of a file; FormatError for a header that makes no sense or a file that ends within it.

    What is wrong with the metadata stands in ``fault``.
    """
    header = parse(file.pread(min(ENOUGH, file.size), 0))
    section: Section | None = None
    fault: FormatError | None = None
    doc: Doc | None = None
    offsets_at = header.size
    try:
        if header.layout == "v3" and header.has_metadata:
            offsets_at = -1
            section = parse_head(file.pread(max(0, min(HEAD.size, file.size - SIZE)), SIZE))
            offsets_at = SIZE + section.size
        elif header.layout == "spec":
            offsets_at = SIZE + header.meta_size
        if offsets_at > file.size:
            raise _ends("metadata", offsets_at, file.size)
        text = _text(file, header, section)
        doc = None if text is None else read_text(text)
    except FormatError as error:
        fault = error
    front = Preamble(header=header, section=section, doc=doc, offsets_at=offsets_at, fault=fault)
    if fault is None and front.chunks_at > file.size:
        raise _ends("offsets", front.chunks_at, file.size)
    return front


def _text(file: FileBytes, header: BloscpackHeader, section: Section | None) -> bytes | None:
    if section is not None:
        start = SIZE + HEAD.size
        digest = file.pread(section.digest.size, start + section.room)
        return unpack(section, file.pread(section.used, start), digest)
    if header.layout != "spec":
        return None
    if header.meta_size > LIMITS.size:
        raise document_error("metadata", f"metadata of {header.meta_size} bytes, {LIMITS.size} are allowed")
    return file.pread(header.meta_size, SIZE)


def _ends(within: str, expected: int, found: int) -> FormatError:
    return document_error(
        "truncated", f"the file ends within its {within}: it has {found} bytes, they reach to {expected}"
    )


def read_appendix(file: FileBytes, end: int) -> Doc | None:
    """The JSON behind the last chunk, which ends at ``end``, as Blaze wrote it in 2012; None for anything else."""
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
    """How a file is spelled: ``v3``, or the layout of the specification; which checksums; how the metadata are stored.

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
        """The style of a file; one of v1 or v2, which say nothing of their cells, is written as v3."""
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

    def evolve(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a chunk and of the last one before compression, and the number of chunks."""

    chunk: int
    last: int
    count: int

    @classmethod
    def of(cls, nbytes: int, chunk: int) -> Self:
        """The sizes of so many bytes in chunks of ``chunk``; nothing at all is one empty chunk, as in bloscpack."""
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
        """What bloscpack keeps: ten times the text, and offsets for ten times the chunks; for at least ``reserve``.

        The layout of the specification keeps nothing.
        """
        kept = style.layout == "v3"
        slots = count + min(ROOM * count, MOST_RESERVED) if kept else count
        room = (ROOM if kept else 1) * len(text) if style.metadata else 0
        return cls(room, max(slots, reserve if kept else 0) if style.offsets else 0)


def text_of(content: Content, style: Style) -> bytes:
    """The metadata as text."""
    is_spec = style.layout == "spec"
    return write_text(render_document(content, spec_words=is_spec), spaced=is_spec)


def front_size(style: Style, room: Room) -> int:
    """Where the first chunk begins."""
    section = 0
    if style.metadata:
        section = room.text + (HEAD.size + DIGESTS[style.meta_checksum].size if style.layout == "v3" else 0)
    return SIZE + section + 8 * room.slots


def render_front(style: Style, text: bytes, sizes: Sizes, room: Room, lengths: Sequence[int] | None) -> bytes | None:
    """All that lies in front, in this room; None where it does not fit.

    ``lengths``: bytes of each slot, which the offsets follow from; None while they are not known: offsets are then -1,
    but the first one where the number of chunks is not known either, for it tells how many there is room for.
    """
    start = front_size(style, room)
    if style.layout == "spec":  # blanks behind the text take the place of offsets that are not needed
        count = sizes.count if sizes.count >= 0 else room.slots
        slots = count if style.offsets else 0
        room = Room(room.text + 8 * (room.slots - slots), slots)
    if room.slots < (max(sizes.count, 0) if style.offsets else 0) or room.text < 0:
        return None
    section = _section(style, text, room.text)
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
    return render(head) + section + offsets_of(start, lengths, room.slots, first=sizes.count < 0)


def _section(style: Style, text: bytes, room: int) -> bytes | None:
    if not style.metadata:
        return b"" if room == 0 else None
    if style.layout == "spec":
        return text.ljust(room) if len(text) <= room else None
    return section_in(text, style, room)


def section_in(text: bytes, style: Style, room: int) -> bytes | None:
    """The metadata section of v3 with a certain room; None where the text does not fit."""
    packed = render_section(
        text, checksum=style.meta_checksum, codec=style.meta_codec, level=style.meta_level, room=max(room, len(text))
    )
    if parse_head(packed[: HEAD.size]).used > room:
        return None
    return render_section(text, checksum=style.meta_checksum, codec=style.meta_codec, level=style.meta_level, room=room)


def offsets_of(start: int, lengths: Sequence[int] | None, slots: int, *, first: bool = False) -> bytes:
    """The table of offsets, -1 where there is nothing."""
    table = np.full(slots, -1, "<i8")
    if slots and lengths is None and first:
        table[0] = start
    elif slots and lengths is not None and len(lengths):
        table[0] = start
        np.cumsum(np.asarray(lengths[:-1], "i8"), out=table[1 : len(lengths)])
        table[1 : len(lengths)] += start
    return table.tobytes()
