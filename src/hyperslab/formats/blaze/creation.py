"""From a user's wish to an array of this format: types that it holds, chunks of whole rows, superchunks. Pure."""

from __future__ import annotations

from math import ceil, log10, prod
from typing import Any

import numpy as np

from hyperslab.chunks.auto import longest_chunk, whole_chunks
from hyperslab.codecs.blosc import MAX_BYTES
from hyperslab.codecs.checksums import WORDS as CHECKSUMS
from hyperslab.errors import Unsupported
from hyperslab.formats.blaze.document import BlazeOptions, ColumnStorage, columns, is_safe, row_bytes, spelled
from hyperslab.formats.metadata_json.attributes import encode_attrs
from hyperslab.formats.metadata_json.dtypes import dtype_to_json
from hyperslab.model.dtypes import VlenString, describe, packed
from hyperslab.model.spec import ArraySpec, Chunks, Codec

_SUPERCHUNK = 32 << 20
_MOST = 1024
_BASE = {"blaze": 1024, "bcolz": 4096}
_MIB = 1 << 20


def new_array(wish: ArraySpec, options: BlazeOptions) -> ArraySpec:
    """The spec to put; Unsupported names what the format does not hold, with a remedy."""
    encode_attrs(wish.attrs)  # refuses what no document can hold
    if isinstance(wish.dtype, VlenString):  # a coordinate: its cells stand in a document
        return wish.evolve(chunks=whole_chunks(wish.shape), codecs=(), indexes={}, layout={})
    if not isinstance(wish.dtype, np.dtype):
        raise Unsupported(f"format blaze holds no cells of type {describe(wish.dtype)}", remedy="use zarr3 or netcdf")
    spec = wish.evolve(dtype=packed(wish.dtype), indexes={}, problem=None)
    _check_type(spec.numpy_dtype, options.layout)
    row = row_bytes(spec)
    if row > MAX_BYTES:
        raise Unsupported(f"rows of {row} bytes in format blaze", remedy="put a longer dimension first, or use zarr3")
    rows = max(1, min(_rows(spec), MAX_BYTES // max(row, 1)))
    shards = wish.layout.get("shards")
    checksum = "none" if wish.layout.get("checksum") is False else options.checksum
    per = _per(spec, rows, shards, options)
    storing = ColumnStorage(options.layout, rows, per, checksum, _codec(wish), options.slack)
    return spelled(spec, storing)


def _check_type(dtype: np.dtype[Any], layout: str) -> None:
    try:
        dtype_to_json(dtype)
    except TypeError:
        raise Unsupported(f"format blaze holds no cells of type {dtype}", remedy="use numbers, text or times") from None
    if not dtype.itemsize:
        raise Unsupported(f"format blaze holds no cells without bytes: {dtype}", remedy="give the type a length")
    if layout == "bcolz" and dtype.names is not None:
        remedy = "use layout='blaze', or one array for each field"
        raise Unsupported("bcolz cannot open arrays of structures that it has written", remedy=remedy)
    for path, _ in columns(dtype):
        for name in path:
            if not is_safe(name):
                raise Unsupported(f"format blaze has a folder for each field, and none is called {name!r}")


def _rows(spec: ArraySpec) -> int:
    """Rows in a chunk of about as many cells as wished."""
    if not spec.shape:
        return 1
    first, *rest = longest_chunk(spec.chunks)
    lengths = spec.shape[1:]
    if all(cut >= length for cut, length in zip(rest, lengths, strict=True)):
        return first
    return max(1, first * prod(rest) // max(1, prod(lengths)))


def _per(spec: ArraySpec, rows: int, shards: Chunks | None, options: BlazeOptions) -> int:
    """Chunks in a superchunk: as wished, else a power of two that makes about 32 MiB."""
    if options.layout == "bcolz" or not spec.shape:
        if shards is not None and spec.shape:
            raise Unsupported("layout bcolz has no superchunks", remedy="use layout='blaze'")
        return 1
    if shards is not None:
        cells = _rows(spec.evolve(chunks=shards))
        return max(1, ceil(cells / rows))
    if options.superchunk is not None:
        return options.superchunk
    most = _SUPERCHUNK // max(1, rows * row_bytes(spec))
    return min(_MOST, 1 << max(0, most.bit_length() - 1))


def _codec(wish: ArraySpec) -> Codec:
    named = [codec for codec in wish.codecs if codec.name not in CHECKSUMS]
    if not named:
        return Codec("blosc", {"cname": "lz4", "clevel": 0, "shuffle": "noshuffle"})
    if len(named) > 1 or named[0].name != "blosc":
        names = "+".join(codec.name for codec in named)
        raise Unsupported(f"format blaze has no codec {names}", remedy="blosc with lz4, zstd …: codec='blosc:zstd:5'")
    config = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"} | dict(named[0].config)
    config.pop("typesize", None)
    if wish.numpy_dtype.names is None:
        config["typesize"] = wish.numpy_dtype.itemsize
    return Codec("blosc", config)


def auto_chunks(shape: tuple[int, ...], itemsize: int, layout: str) -> tuple[int, ...]:
    """The chunks that carray (layout ``blaze``) and bcolz 1.2 choose by the number of bytes, in whole rows."""
    if not shape:
        return ()
    row = max(1, prod(shape[1:]) * max(itemsize, 1))
    mebibytes = min(max(shape[0] * row / _MIB, 1e-4), 1e4)
    exponent = log10(10 ** int(log10(mebibytes))) + 6
    nbytes = int(_BASE[layout] * 2**exponent)
    return (max(1, nbytes // row), *whole_chunks(shape[1:]))
