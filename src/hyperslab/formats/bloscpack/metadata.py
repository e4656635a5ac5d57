"""The metadata of a bloscpack file: the section of v3, the specification's bare JSON, and the text of both. Pure.

======  =====  ============================================================================
offset  type   field of the section, from its start
======  =====  ============================================================================
0       8s     ``JSON``, padded
8       4u8    options (0), checksum, codec (0 none, 1 zlib), level
12      u32    bytes of the text
16      u32    room for them in the file
20      u32    bytes of it that are used
24      8s     name of a user's codec, not used
32             what is used, zeros up to the room, then the digest of what is used
======  =====  ============================================================================
"""

from __future__ import annotations

import ast
import json
import re
import zlib
from dataclasses import dataclass
from struct import Struct
from typing import Any

from hyperslab.codecs.digests import DIGESTS, Digest
from hyperslab.errors import CorruptChunk, FormatError, Invalid, Problem
from hyperslab.formats.bloscpack.header import SECTION
from hyperslab.formats.documents import LIMITS, DocumentLimits, check_limits, read_json
from hyperslab.formats.format_errors import document_error

Doc = dict[str, Any]

HEAD = Struct("<8s4B3I8s")
"""The section's own header."""
ROOM = 10
"""So many times the text is kept free for it to grow, as bloscpack does."""
_LITERAL = DocumentLimits(size=1 << 20, values=10**5)
_TEXT = r"""u?(?:"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')"""
_NUMBER = r"-?(?:\d+\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?+(?=\s*+(?:[,:)}\]]|\Z))"
_PYTHON = re.compile(rf"(?:\s++|[][{{}}(),:]|{_TEXT}|{_NUMBER}|(?:True|False|None)\b)*+", re.DOTALL)
_ROUND_AS_SQUARE = bytes.maketrans(b"()", b"[]")


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
    """The section whose first 32 bytes these are; FormatError lists every flaw."""
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
    """The text of a section; FormatError when it is not what its digest and its size say."""
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
    """A section with this text, stored as it is where zlib would make it longer; Invalid when the room is too small.

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


# -- the text -----------------------------------------------------------------------------------------------------


def write_text(doc: Doc, *, spaced: bool = False) -> bytes:
    """A document as bloscpack writes it: JSON of ASCII without blanks; ``spaced`` as the specification's program did.

    ValueError for what JSON has no word for.
    """
    return json.dumps(doc, separators=None if spaced else (",", ":"), allow_nan=False).encode()


def read_text(data: bytes) -> Doc:
    """The document of a text: JSON, or the Python literal of the specification's example; FormatError when neither.

    A value that is no object stands under ``metadata``.
    """
    try:
        value = read_json(data)
    except FormatError as error:
        try:
            value = read_literal(data.decode())
        except (FormatError, UnicodeDecodeError):
            raise document_error("metadata", f"the metadata are no JSON: {error.message}") from None
    return value if isinstance(value, dict) else {"metadata": value}


def read_literal(text: str) -> Any:
    """The value of a Python literal, tuples as lists; only texts, numbers, True, False, None, lists, tuples and dicts.

    FormatError for anything else, for what is long, and for what is nested deeply: nothing of it is evaluated.
    """
    data = text.encode("utf-8", "surrogatepass")
    check_limits(data.translate(_ROUND_AS_SQUARE), _LITERAL)
    if _PYTHON.fullmatch(text) is None:
        raise document_error("metadata", f"no literal: {text[:80]!r}")
    try:
        return _plain(ast.literal_eval(text.strip()))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise document_error("metadata", f"no literal: {error}") from None


def _plain(value: Any) -> Any:
    """The same value with the types of JSON."""
    match value:
        case dict():
            if not all(isinstance(key, str) for key in value):
                raise TypeError("a key that is no text")
            return {key: _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"a {type(value).__name__}")
