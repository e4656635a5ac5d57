"""A user's wish for a new array in Zarr v3's spelling: byte order, checksums, shards, fill value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hyperslab.codecs.chain import INDEX_CODECS, try_chain
from hyperslab.errors import FormatError, Invalid
from hyperslab.formats.codec_kinds import ARRAY, serial_codec, with_serial
from hyperslab.formats.metadata_json.cells import as_fill
from hyperslab.formats.zarr3.codecs import cells_after
from hyperslab.formats.zarr3.document import parse, render
from hyperslab.formats.zarr3.dtypes import has_order
from hyperslab.model.dtypes import Compound, DataType, Enum, VlenArray, VlenBytes, VlenString
from hyperslab.model.spec import ArraySpec, Chunks, Codec


def new_array(wish: ArraySpec) -> ArraySpec:
    """The spec to put. ``wish.layout``: ``shards`` (lengths or None), ``checksum`` (True: crc32c behind the codecs).

    Chunks in shards are checksummed one by one, as is the index. A type that Zarr v3 lacks is Unsupported.
    """
    dtype, order = _native(wish.dtype)
    if any(codec.name in ARRAY - {"transpose"} for codec in wish.codecs):
        order = "little"  # zarr-python's filters take the cells that bytes gives them for little-endian ones
    serial = Codec("bytes", {"endian": order}) if _ordered(_filtered(dtype, wish.codecs)) else serial_codec(dtype)
    codecs = with_serial(wish.codecs, serial)
    if wish.layout.get("checksum", True) and codecs[-1].name != "crc32c":
        codecs = (*codecs, Codec("crc32c"))
    chunks: Chunks = wish.chunks
    shards = wish.layout.get("shards")
    if shards is not None:
        codecs, chunks = _sharded(codecs, wish.chunks, shards), tuple(shards)
    fill = as_fill(_zero(dtype) if wish.fill_value is None else wish.fill_value, dtype)
    spec = wish.evolve(dtype=dtype, chunks=chunks, codecs=codecs, fill_value=fill, layout={}, problem=None)
    try:
        found = parse(render(spec))
    except FormatError as error:
        raise Invalid(error.message, remedy="choose other codecs for these cells") from None
    if not isinstance(found, ArraySpec):
        raise Invalid("this is no array")
    try_chain(found)
    return found


def _native(dtype: DataType) -> tuple[DataType, str]:
    """The type in the machine's byte order, and the order in which it is to be stored."""
    match dtype:
        case np.dtype():
            return dtype.newbyteorder("="), "big" if _is_big(dtype) else "little"
        case Enum(base=base):
            return Enum(base.newbyteorder("="), dtype.members, dtype.name), "big" if _is_big(base) else "little"
        case Compound(base=base):
            return Compound(base.newbyteorder("="), dtype.name), "big" if _is_big(base) else "little"
        case _:
            return dtype, "little"


def _filtered(dtype: DataType, codecs: Sequence[Codec]) -> DataType:
    """The type that the codecs on cells leave for ``bytes``."""
    for codec in codecs:
        dtype = (codec.name in ARRAY and cells_after(codec, dtype)) or dtype
    return dtype


def _is_big(dtype: np.dtype[Any]) -> bool:
    if dtype.names is not None and dtype.fields is not None:
        return any(_is_big(dtype.fields[name][0]) for name in dtype.names)
    return dtype.str.startswith(">")


def _ordered(dtype: DataType) -> bool:
    base = dtype.base if isinstance(dtype, Enum | Compound) else dtype
    return isinstance(base, np.dtype) and (has_order(base) or base.names is not None)


def _zero(dtype: DataType) -> Any:
    match dtype:
        case VlenString():
            return ""
        case VlenBytes():
            return b""
        case VlenArray(base=base):
            return np.empty(0, base)
        case np.dtype() if dtype.kind in "mM":
            return np.array("NaT", dtype)[()]
        case _:
            return ArraySpec(shape=(), dtype=dtype, chunks=()).fill_cell()[()]


def _sharded(codecs: Sequence[Codec], chunks: Chunks, shards: Sequence[int]) -> tuple[Codec, ...]:
    if any(not isinstance(cut, int) for cut in chunks) or len(chunks) != len(shards):
        raise Invalid(f"shards {tuple(shards)} for chunks {tuple(chunks)}", remedy="give one length per dimension")
    if any(shard % cut for shard, cut in zip(shards, chunks, strict=True) if isinstance(cut, int)):
        raise Invalid(
            f"shards of {tuple(shards)} hold no whole number of chunks of {tuple(chunks)}",
            remedy="make every shard length a multiple of the chunk length",
        )
    config = {
        "chunk_shape": list(chunks),
        "codecs": tuple(codecs),
        "index_codecs": INDEX_CODECS,
        "index_location": "end",
    }
    return (Codec("sharding_indexed", config),)
