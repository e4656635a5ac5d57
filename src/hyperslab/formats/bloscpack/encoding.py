"""Chunks as they are stored: a Blosc chunk, room at its end where that is wanted, and its digest. Pure.

Room for a chunk to grow lies inside it: its header counts more bytes than the blocks take, and the digest is over all
of them, so that every reader of Blosc reads it. Chunks of plain bytes (Blosc's memcpy) must be as long as their cells
and the header, which is the most that any chunk takes: such a slot takes every later version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from hyperslab.chunks.source import Block
from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.blosc import HEADER, Blosc
from hyperslab.codecs.digests import Digest
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.bloscpack.document import Content
from hyperslab.model.spec import Codec

Slack = int | float | Literal["full"]
"""Room at the end of each chunk: bytes, a fraction of its stored size, or as much as any version of it may take."""

CODEC = Codec("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1})
_STORED = 0b10
_NBYTES, _CTBYTES = 4, 6
_MOST_TYPESIZE = 255


def check_slack(slack: Any) -> Slack:
    """The wish for room itself; Invalid when it is none."""
    if slack == "full" or (isinstance(slack, int | float) and not isinstance(slack, bool) and 0 <= slack < 2**31):
        wish: Slack = slack
        return wish
    raise Invalid(f"slack={slack!r}", remedy="give bytes (64), a fraction of the stored size (0.2), or 'full'")


def typesize_of(itemsize: int) -> int:
    """The size of a cell in the headers, which have a byte for it."""
    return itemsize if itemsize <= _MOST_TYPESIZE else 1


class Encoder:
    """Cells of one array to slots."""

    def __init__(self, content: Content, digest: Digest, slack: Slack) -> None:
        self._stored = content.stored
        self._transposed = content.order == "F"
        self._digest = digest
        self._slack = slack
        self._blosc = blosc_of(content.spec.codecs, content.stored)

    def slot(self, cells: Block) -> bytes:
        """A stored chunk of these cells, with its digest."""
        if cells.dtype != self._stored:
            padded = np.zeros(cells.shape, self._stored)  # what lies between fields is not whatever was in memory
            padded[...] = cells
            cells = padded
        flat = np.ascontiguousarray(cells.T if self._transposed else cells).reshape(-1)
        return self.seal(self._blosc.encode(flat.view(np.uint8).data if flat.size else b""))

    def seal(self, chunk: Buffer) -> bytes:
        """A Blosc chunk of such cells as it is stored."""
        return sealed(with_slack(chunk, self._slack), self._digest)


def with_slack(chunk: Buffer, slack: Slack) -> Buffer:
    """Return the chunk with room at its end, as far as there can be any."""
    most, used = most_stored(chunk), len(chunk)
    if slack == "full":
        return fitted(chunk, most) or chunk
    more = slack if isinstance(slack, int) else int(slack * used)
    return fitted(chunk, min(most, used + more)) or chunk


def blosc_of(codecs: Sequence[Codec], dtype: np.dtype[Any]) -> Blosc:
    """Blosc as the spec of an array has it; Unsupported for any other codec."""
    found = list(codecs) or [CODEC]
    if len(found) > 1 or found[0].name != "blosc":
        names = "+".join(codec.name for codec in found)
        raise Unsupported(f"format bloscpack holds chunks of Blosc, not of {names}", remedy="codec='blosc:zstd:5'")
    config = {**CODEC.config, **found[0].config, "typesize": typesize_of(dtype.itemsize)}
    return Blosc(config, ChunkLayout(np.dtype("u1"), (0,)))


def most_stored(chunk: Buffer) -> int:
    """Bytes that any chunk of as many cells takes at the most."""
    return int(HEADER.unpack_from(chunk)[_NBYTES]) + HEADER.size


def fitted(chunk: Buffer, size: int) -> Buffer | None:
    """The chunk with zeros at its end, so that it is ``size`` bytes long; None where no Blosc chunk of its cells is."""
    fields = HEADER.unpack_from(chunk)
    used, memcpy = fields[_CTBYTES], fields[2] & _STORED
    if used == size:
        return chunk
    if memcpy or not used <= size <= most_stored(chunk):
        return None
    longer = bytearray(size)
    longer[:used] = chunk
    HEADER.pack_into(longer, 0, *fields[:_CTBYTES], size)
    return longer


def sealed(chunk: Buffer, digest: Digest) -> bytes:
    """The chunk with its digest behind it."""
    return b"".join([chunk, digest.of(chunk)])


def refitted(slot: bytes, size: int, digest: Digest) -> bytes | None:
    """A slot whose chunk is ``size`` bytes long instead; None where it cannot be."""
    chunk = memoryview(slot)[: len(slot) - digest.size]
    if len(chunk) == size:
        return slot
    longer = fitted(chunk, size)
    return None if longer is None else sealed(longer, digest)
