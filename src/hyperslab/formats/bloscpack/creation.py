"""From a user's wish for a new array, and the options of the format, to what a bloscpack file holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np

from hyperslab.chunks.auto import auto_chunks, longest_chunk, whole_chunks
from hyperslab.codecs.blosc import MAX_BYTES
from hyperslab.codecs.checksums import WORDS as CHECKSUMS
from hyperslab.codecs.digests import digest_number
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.bloscpack.document import axis_of, in_rows, row_bytes
from hyperslab.formats.bloscpack.encoding import CODEC, Slack, blosc_of, check_slack, typesize_of
from hyperslab.formats.bloscpack.preamble import Style
from hyperslab.formats.metadata_json.dtypes import dtype_to_json
from hyperslab.formats.one_array import Labelled, labels_to_json
from hyperslab.model.dtypes import VlenString, describe
from hyperslab.model.spec import ArraySpec, Codec

CHUNK_BYTES = 1 << 20
"""Decoded bytes of a chunk where nobody chose, as in bloscpack."""
AUTO = "auto"
"""The key in a spec's layout that says that nobody chose its chunks."""

OPTIONS = ("layout", "checksum", "offsets", "slack", "metadata_codec", "order", "chunk_bytes")
"""What :meth:`BloscpackOptions.of` takes."""


@dataclass(frozen=True, kw_only=True)
class BloscpackOptions:
    """What a user may say of a file. One that is there keeps its own, but for ``slack`` and ``chunk_bytes``."""

    style: Style = field(default_factory=Style)
    slack: Slack = 0
    order: Literal["C", "F"] = "C"
    chunk_bytes: int = CHUNK_BYTES

    @classmethod
    def of(
        cls,
        layout: str = "v3",
        checksum: str | None = "adler32",
        offsets: bool = True,
        slack: Slack = 0,
        metadata_codec: str | None = "zlib",
        order: str = "C",
        chunk_bytes: int = CHUNK_BYTES,
    ) -> BloscpackOptions:
        """The options of ``create``; Invalid names what there is."""
        if layout not in ("v3", "blaze"):
            raise Invalid(f"layout {layout!r}", remedy="there are v3 and blaze")
        if metadata_codec not in ("zlib", "none", None):
            raise Invalid(f"metadata_codec {metadata_codec!r}", remedy="there are zlib and none")
        if order not in ("C", "F"):
            raise Invalid(f"order {order!r}", remedy="there are C and F")
        if not isinstance(offsets, bool):
            raise Invalid(f"offsets={offsets!r}", remedy="give True or False")
        if not isinstance(chunk_bytes, int) or not 0 < chunk_bytes <= MAX_BYTES:
            raise Invalid(f"chunk_bytes={chunk_bytes!r}", remedy=f"give whole bytes, {MAX_BYTES} at the most")
        number = digest_number(checksum or "none")
        style = Style(
            layout="v3" if layout == "v3" else "spec",
            version=3 if layout == "v3" else 2,
            offsets=offsets,
            checksum=number,
            meta_checksum=number,
            meta_codec=int(metadata_codec == "zlib"),
        )
        return cls(style=style, slack=check_slack(slack), order="F" if order == "F" else "C", chunk_bytes=chunk_bytes)


def new_array(spec: ArraySpec, options: BloscpackOptions) -> ArraySpec:
    """The wish as this format holds it: chunks in whole rows of about the size asked for, one codec, Blosc.

    Unsupported names what cannot be held.
    """
    if isinstance(spec.dtype, VlenString):
        made = spec.evolve(chunks=whole_chunks(spec.shape), codecs=(), layout={})
    else:
        _check_type(spec)
        rows, auto = _rows(spec, options)
        made = spec.evolve(
            chunks=in_rows(spec.shape, order_of(spec.shape, options), rows),
            codecs=(_codec(spec.codecs, spec.numpy_dtype),),
            layout={AUTO: True} if auto else {},
        )
    labels_to_json(Labelled("", made))
    return made


def _check_type(spec: ArraySpec) -> None:
    if not isinstance(spec.dtype, np.dtype):
        remedy = "convert the values, or use another format"
        raise Unsupported(f"format bloscpack has no cells of type {describe(spec.dtype)}", remedy=remedy)
    try:
        dtype_to_json(spec.dtype)
    except TypeError as error:
        raise Unsupported(f"format bloscpack: {error}") from None
    if spec.layout.get("shards") is not None:
        raise Unsupported("format bloscpack has no shards", remedy="leave shards out, or use zarr3")


def _codec(codecs: tuple[Codec, ...], dtype: np.dtype[Any]) -> Codec:
    """The one codec; checksums of others are left out, for a digest follows each chunk."""
    kept = [codec for codec in codecs if codec.name not in CHECKSUMS and codec.name != "bytes"]
    blosc_of(kept, dtype)
    config: Mapping[str, Any] = kept[0].config if kept else {"clevel": 0}
    return Codec("blosc", {**CODEC.config, **config, "typesize": typesize_of(dtype.itemsize)})


def _rows(spec: ArraySpec, options: BloscpackOptions) -> tuple[int, bool]:
    """Rows of a chunk, and whether nobody chose them."""
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
    wished = prod(map(min, lengths, spec.shape)) * dtype.itemsize
    rows = lengths[axis] if whole or not row else wished // row
    return max(1, min(rows, MAX_BYTES // max(row, 1))), False


def default_rows(shape: tuple[int, ...], row: int, axis: int, chunk_bytes: int) -> int:
    """Rows of a chunk where nobody chose: of ``chunk_bytes``, and no more than there are."""
    rows = max(1, chunk_bytes // max(row, 1))
    return min(rows, shape[axis]) if shape[axis] else rows


def order_of(shape: tuple[int, ...], options: BloscpackOptions) -> Literal["C", "F"]:
    """Which index is the fastest one; where both are the same, bloscpack says C."""
    same = len(shape) < 2 or (0 not in shape and sum(length != 1 for length in shape) < 2)
    return "C" if same else options.order


def is_planned(spec: ArraySpec) -> bool:
    """Return whether it is as :func:`new_array` makes it."""
    if isinstance(spec.dtype, VlenString):
        return not spec.codecs
    whole = sum(cut != max(1, length) for cut, length in zip(spec.chunks, spec.shape, strict=True)) <= 1
    return whole and [codec.name for codec in spec.codecs] == ["blosc"]
