"""What stands before the chunks of a file: its header, its metadata, and where its offsets are."""

from __future__ import annotations

from dataclasses import dataclass

from hyperslab.errors import FormatError, HyperslabError, Problem
from hyperslab.formats.bloscpack.file import Bytes
from hyperslab.formats.bloscpack.header import ENOUGH, SIZE, Header, parse
from hyperslab.formats.bloscpack.metadata import HEAD, Doc, Section, parse_head, read_text, unpack
from hyperslab.formats.documents import LIMITS

_APPENDIX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """``offsets_at``: where the offsets are or would be, -1 where that cannot be told. ``fault``: why there is no
    ``doc`` although there should be; the chunks may still be found."""

    header: Header
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
        """Whether the metadata may be a user's own, and say nothing of the cells."""
        return self.header.layout == "v3"


def read_front(file: Bytes) -> Front:
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
    front = Front(header=header, section=section, doc=doc, offsets_at=offsets_at, fault=fault)
    if fault is None and front.chunks_at > file.size:
        raise _ends("offsets", front.chunks_at, file.size)
    return front


def _text(file: Bytes, header: Header, section: Section | None) -> bytes | None:
    if section is not None:
        start = SIZE + HEAD.size
        digest = file.pread(section.digest.size, start + section.room)
        return unpack(section, file.pread(section.used, start), digest)
    if header.layout != "spec":
        return None
    if header.meta_size > LIMITS.size:
        message = f"metadata of {header.meta_size} bytes, {LIMITS.size} are allowed"
        raise FormatError(message, problems=(Problem("", "metadata", message),))
    return file.pread(header.meta_size, SIZE)


def _ends(within: str, expected: int, found: int) -> FormatError:
    message = f"the file ends within its {within}: it has {found} bytes, they reach to {expected}"
    return FormatError(message, problems=(Problem("", "truncated", message),))


def read_appendix(file: Bytes, end: int) -> Doc | None:
    """The JSON behind the last chunk, which ends at ``end``, as Blaze wrote it in 2012; None for anything else."""
    size = file.size - end
    if not 0 < size <= _APPENDIX:
        return None
    try:
        text = file.pread(size, end)
        return read_text(text) if text.lstrip()[:1] == b"{" else None
    except HyperslabError:
        return None
