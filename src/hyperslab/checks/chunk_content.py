"""Chunks that are whole though they do not hold the cells that their document describes.

The document, or our reading of it, is in question then, and no repair touches them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.chain import Chain, build_chain
from hyperslab.codecs.registry import canonical
from hyperslab.errors import HyperslabError
from hyperslab.model.spec import Codec

KIND = "other-cells"
_LARGEST = 64 << 20
CHECKED = frozenset({"adler32", "bz2", "crc32", "crc32c", "fletcher32", "gzip", "jenkins_lookup3", "lzma", "zlib"})
"""Codecs that notice when the bytes are others: what decodes under them is what was written."""
_SELF_DESCRIBING = frozenset({"blosc", "bz2", "gzip", "lzma", "zlib", "zstd"})
"""Codecs whose bytes begin with what no others begin with."""
_ROOM = 1 << 20
_MEASURED = frozenset({"blosc", "lz4", "snappy", "zstd"})
"""Codecs that store the length of what they packed, and notice when it is another."""


def content_of(chain: Chain, codecs: Sequence[Codec], data: Buffer, error: str) -> str | None:
    """Return what a chunk that does not decode holds, in words, if it is whole; None where its bytes may be damaged.

    ``error``: why it does not decode.
    """
    if len(data) > _LARGEST:
        return None
    names = {canonical(codec.name) for codec in codecs}
    wanted = chain.serial_size
    is_checked, is_measured = not names.isdisjoint(CHECKED), not names.isdisjoint(_MEASURED)
    try:
        raw = chain.unpack(data)
    except (HyperslabError, MemoryError):
        if len(data) == wanted and is_measured | is_checked:
            return "bare cells"
        return _packed_by_another(data, names)
    if wanted is not None and len(raw) != wanted and (is_checked or is_measured):
        return f"{len(raw)} bytes in place of {wanted}"
    if (wanted is None or len(raw) == wanted) and (is_checked or _is_structured(raw)):
        return f"other cells ({error})"
    return _packed_by_another(data, names)


def _packed_by_another(data: Buffer, names: set[str]) -> str | None:
    """Return which compressor packed all bytes, in words, where the document does not name it; None where none did."""
    cells = ChunkLayout(np.dtype("u1"), (_ROOM,))
    for name in _SELF_DESCRIBING - names:
        with suppress(HyperslabError, MemoryError):
            if len(build_chain([Codec("bytes"), Codec(name)], cells).unpack(data)):
                return f"bytes that {name} packed"
    return None


def unpacked_size(data: Buffer) -> int | None:
    """Return how many bytes a chunk holds that some compressor packed whole; None where none did."""
    cells = ChunkLayout(np.dtype("u1"), (_ROOM,))
    for name in _SELF_DESCRIBING:
        with suppress(HyperslabError, MemoryError):
            return len(build_chain([Codec("bytes"), Codec(name)], cells).unpack(data))
    return None


def _is_structured(raw: Buffer) -> bool:
    """Return whether bytes are a sound chunk of an object codec, of whatever cells: a list of JSON, or counted
    items.
    """
    with suppress(ValueError, RecursionError):
        found = json.loads(bytes(raw))
        return isinstance(found, list) and len(found) > 2 and isinstance(found[-2], str) and isinstance(found[-1], list)
    return _is_counted(memoryview(raw))


def _is_counted(raw: memoryview) -> bool:
    """Return whether bytes are a count and so many items, each behind its length, and nothing else."""
    if len(raw) < 4:
        return False
    (count,), at = struct.unpack_from("<I", raw), 4
    if not 0 < count <= len(raw) // 4:
        return False
    for _ in range(count):
        if at + 4 > len(raw):
            return False
        at += 4 + struct.unpack_from("<I", raw, at)[0]
    return at == len(raw)
