"""The options of a file, and the form of its stored chunks: a Blosc chunk, slack at its end, its digest. Pure.

Room for a chunk to grow lies inside it: its header counts more bytes than the blocks take, and the digest is over all
of them, so that every reader of Blosc reads it. Chunks of plain bytes (Blosc's memcpy) must be as long as their cells
and the header, which is the most that any chunk takes: such a slot takes every later version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from hyperslab.chunks.auto import auto_chunks, longest_chunk
from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.blosc import HEADER, MAX_BYTES, Blosc
from hyperslab.codecs.checksums import WORDS as CHECKSUMS
from hyperslab.codecs.checksums import Digest, digest_number
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.bloscpack.document import axis_of, in_rows, row_bytes
from hyperslab.formats.bloscpack.preamble import Style
from hyperslab.formats.metadata_json.dtypes import dtype_to_json
from hyperslab.formats.single_array.document import Document, LabelledArray, labels_to_json
from hyperslab.formats.single_array.reader import coordinate_spec
from hyperslab.model.dtypes import NumpyDType, VlenString, describe
from hyperslab.model.spec import ArraySpec, Codec

Slack = int | float | Literal["full"]
"""Room at the end of each chunk: bytes, a fraction of its stored size, or as much as any version of it may take."""

CODEC = Codec("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1})
# The bit of Blosc's flags for chunks of plain bytes.
_STORED = 0b10
# Places of the decoded and of the stored size among the fields of a chunk's header.
_NBYTES, _CTBYTES = 4, 6
_MOST_TYPESIZE = 255


def check_slack(slack: object) -> Slack:
    """Return the wish for room itself; Invalid when it is none."""
    if slack == "full" or (isinstance(slack, int | float) and not isinstance(slack, bool) and 0 <= slack < 2**31):
        room: Slack = slack
        return room
    raise Invalid(f"slack={slack!r}", remedy="give bytes (64), a fraction of the stored size (0.2), or 'full'")


def typesize_of(itemsize: int) -> int:
    """Return the size of a cell in the headers, which have a byte for it."""
    return itemsize if itemsize <= _MOST_TYPESIZE else 1


def with_slack(chunk: Buffer, slack: Slack) -> Buffer:
    """Return the chunk with room at its end, as far as there can be any."""
    most, used = most_stored(chunk), len(chunk)
    if slack == "full":
        return fitted(chunk, most) or chunk
    more = slack if isinstance(slack, int) else int(slack * used)
    return fitted(chunk, min(most, used + more)) or chunk


def blosc_of(codecs: Sequence[Codec], dtype: NumpyDType) -> Blosc:
    """Return Blosc as the spec of an array has it; Unsupported for any other codec."""
    found = list(codecs) or [CODEC]
    if len(found) > 1 or found[0].name != "blosc":
        names = "+".join(codec.name for codec in found)
        raise Unsupported(f"format bloscpack holds chunks of Blosc, not of {names}", remedy="codec='blosc:zstd:5'")
    config = {**CODEC.config, **found[0].config, "typesize": typesize_of(dtype.itemsize)}
    return Blosc(config, ChunkLayout(np.dtype("u1"), (0,)))


def most_stored(chunk: Buffer) -> int:
    """Return the bytes that any chunk of as many cells takes at the most."""
    return int(HEADER.unpack_from(chunk)[_NBYTES]) + HEADER.size


def fitted(chunk: Buffer, size: int) -> Buffer | None:
    """Return the chunk with zeros at its end, so that it is ``size`` bytes long; None where no Blosc chunk of its cells
    is."""
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
    """Return the chunk with its digest behind it."""
    return b"".join([chunk, digest.of(chunk)])


def refitted(slot: bytes, size: int, digest: Digest) -> bytes | None:
    """Return a slot whose chunk is ``size`` bytes long instead; None where it cannot be."""
    chunk = memoryview(slot)[: len(slot) - digest.size]
    if len(chunk) == size:
        return slot
    longer = fitted(chunk, size)
    return None if longer is None else sealed(longer, digest)


# -- options of the format, and new arrays as it holds them ---------------------------------------------------------


CHUNK_BYTES = 1 << 20
"""Decoded bytes of a chunk where nobody chose, as in bloscpack."""
AUTO = "auto"
"""The key in a spec's layout that says that nobody chose its chunks."""


@dataclass(frozen=True, kw_only=True)
class BloscpackOptions:
    """The options of a file; Invalid names what there is. A file that is there keeps its own, but for ``slack`` and
    ``chunk_bytes``."""

    layout: Literal["v3", "blaze"] = "v3"
    checksum: str | None = "adler32"
    offsets: bool = True
    slack: Slack = 0
    metadata_codec: Literal["zlib", "none"] | None = "zlib"
    order: Literal["C", "F"] = "C"
    chunk_bytes: int = CHUNK_BYTES

    def __post_init__(self) -> None:
        if self.layout not in ("v3", "blaze"):
            raise Invalid(f"layout {self.layout!r}", remedy="there are v3 and blaze")
        if self.metadata_codec not in ("zlib", "none", None):
            raise Invalid(f"metadata_codec {self.metadata_codec!r}", remedy="there are zlib and none")
        if self.order not in ("C", "F"):
            raise Invalid(f"order {self.order!r}", remedy="there are C and F")
        if not isinstance(self.offsets, bool):
            raise Invalid(f"offsets={self.offsets!r}", remedy="give True or False")
        if not isinstance(self.chunk_bytes, int) or not 0 < self.chunk_bytes <= MAX_BYTES:
            raise Invalid(f"chunk_bytes={self.chunk_bytes!r}", remedy=f"give whole bytes, {MAX_BYTES} at the most")
        digest_number(self.checksum or "none")
        check_slack(self.slack)

    @property
    def style(self) -> Style:
        """The form of a new file."""
        is_v3, number = self.layout == "v3", digest_number(self.checksum or "none")
        return Style(
            layout="v3" if is_v3 else "spec",
            version=3 if is_v3 else 2,
            offsets=self.offsets,
            checksum=number,
            meta_checksum=number,
            meta_codec=int(self.metadata_codec == "zlib"),
        )


def new_array(spec: ArraySpec, options: BloscpackOptions) -> ArraySpec:
    """Return the wish as this format holds it: chunks in whole rows of about the size asked for, one codec, Blosc.

    Unsupported names what cannot be held.
    """
    if isinstance(spec.dtype, VlenString):
        new_spec = coordinate_spec(spec)
        labels_to_json(LabelledArray("", new_spec))
        return new_spec
    if not isinstance(spec.dtype, np.dtype):
        remedy = "convert the values, or use another format"
        raise Unsupported(f"format bloscpack has no cells of type {describe(spec.dtype)}", remedy=remedy)
    try:
        dtype_to_json(spec.dtype)
    except TypeError as error:
        raise Unsupported(f"format bloscpack: {error}") from None
    rows, auto = _rows(spec, options)
    # Checksums of other formats are left out, for a digest follows each chunk.
    codecs = [codec for codec in spec.codecs if codec.name not in CHECKSUMS and codec.name != "bytes"]
    blosc_of(codecs, spec.dtype)
    config: Document = codecs[0].config if codecs else {"clevel": 0}
    config = {**CODEC.config, **config, "typesize": typesize_of(spec.dtype.itemsize)}
    new_spec = spec.evolve(
        chunks=in_rows(spec.shape, order_of(spec.shape, options), rows),
        codecs=(Codec("blosc", config),),
        layout={AUTO: True} if auto else {},
    )
    labels_to_json(LabelledArray("", new_spec))
    return new_spec


def _rows(spec: ArraySpec, options: BloscpackOptions) -> tuple[int, bool]:
    """Return the rows of a chunk, and whether nobody chose them."""
    if not spec.shape:
        return 1, False
    dtype = spec.numpy_dtype
    order = order_of(spec.shape, options)
    axis, row = axis_of(spec.shape, order), row_bytes(spec.shape, dtype, order)
    if row > MAX_BYTES:
        message = f"chunks are cut along axis {axis} only, and {row} bytes lie at one of its positions"
        raise Unsupported(f"format bloscpack: {message}", remedy="order='F', another order of axes, or a .zarr folder")
    lengths = longest_chunk(spec.chunks)
    if lengths == auto_chunks(spec.shape, dtype.itemsize):
        return default_rows(spec.shape, row, axis, options.chunk_bytes), True
    whole = all(cut >= n for i, (cut, n) in enumerate(zip(lengths, spec.shape, strict=True)) if i != axis)
    nbytes = prod(map(min, lengths, spec.shape)) * dtype.itemsize
    rows = lengths[axis] if whole or not row else nbytes // row
    return max(1, min(rows, MAX_BYTES // max(row, 1))), False


def default_rows(shape: tuple[int, ...], row: int, axis: int, chunk_bytes: int) -> int:
    """Return the rows of a chunk where nobody chose: of ``chunk_bytes``, and no more than there are."""
    rows = max(1, chunk_bytes // max(row, 1))
    return min(rows, shape[axis]) if shape[axis] else rows


def order_of(shape: tuple[int, ...], options: BloscpackOptions) -> Literal["C", "F"]:
    """Return the order of the axes in a chunk; where C and F are the same, bloscpack says C."""
    same = len(shape) < 2 or (0 not in shape and sum(length != 1 for length in shape) < 2)
    return "C" if same else options.order


def is_planned(spec: ArraySpec) -> bool:
    """Return True if it is as :func:`new_array` makes it."""
    if isinstance(spec.dtype, VlenString):
        return not spec.codecs
    whole = sum(cut != max(1, length) for cut, length in zip(spec.chunks, spec.shape, strict=True)) <= 1
    return whole and [codec.name for codec in spec.codecs] == ["blosc"]
