"""Zarr v3's ``codecs``, ``chunk_grid`` (regular, rectilinear) and ``chunk_key_encoding`` (default, v2).

Codecs are checked as a chain (cells to cells, cells to bytes, bytes to bytes), shards with their own. ``numcodecs.X``
reads as the codec X; on writing, codecs that v3 has no name for are spelled so again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.codecs.registry import VIEWING, ZARR3_NAMES, canonical, type_after
from hyperslab.codecs.sharding import INDEX_CODECS
from hyperslab.errors import Unsupported
from hyperslab.formats.codec_kinds import ARRAY, ARRAY_TO_BYTES, BYTES
from hyperslab.formats.documents import JsonMapping, JsonObject, as_list
from hyperslab.formats.format_errors import LONGEST, Problems, shorten
from hyperslab.formats.zarr.chunks import KeyOf
from hyperslab.formats.zarr3.dtypes import has_byte_order
from hyperslab.model.dtypes import DataType
from hyperslab.model.spec import Chunks, Codec

# -- chunk_grid and chunk_key_encoding --------------------------------------------------------------------------------


# a short document may name any number of chunks, each of which becomes a number in memory
_MOST_CHUNKS = 10**6
_SEPARATORS = {"default": "/", "v2": "."}


def read_extension(value: object) -> tuple[str, JsonObject] | None:
    """Return name and configuration of an extension point: a bare name, or an object; None when it is neither."""
    match value:
        case str() as name:
            return name, {}
        case {"name": str() as name, "configuration": dict() as config}:
            return name, config
        case {"name": str() as name, "configuration": None}:
            return name, {}
        case {"name": str() as name, **rest} if "configuration" not in rest:
            return name, {}
    return None


def read_grid(value: object, shape: tuple[int, ...], problems: Problems) -> Chunks:
    """Return the chunks of a grid: an int or a tuple of sizes per axis."""
    found = read_extension(value)
    whole = whole_chunks(shape)
    if found is None:
        problems.fatal("chunk_grid", f"chunk_grid is {shorten(value)}, not an object with name and configuration")
        return whole
    name, config = found
    if name == "regular":
        return problems.lengths("chunk_shape", config.get("chunk_shape"), 1, len(shape)) or whole
    if name == "rectilinear":
        return _rectilinear(config, shape, problems) or whole
    problems.undecodable("chunk_grid", f"chunk_grid {name!r} is not known")
    return whole


def _rectilinear(config: JsonObject, shape: tuple[int, ...], problems: Problems) -> Chunks | None:
    value = config.get("chunk_shapes")
    if config.get("kind", "inline") != "inline":
        problems.undecodable(
            "chunk_grid", f"a rectilinear chunk_grid of kind {shorten(config.get('kind'))} is not known"
        )
        return None
    if not isinstance(value, list) or len(value) != len(shape):
        problems.fatal("chunk_shapes", f"chunk_shapes is {shorten(value)}, not a list for {len(shape)} dimensions")
        return None
    cuts = [_axis(cut, length, problems) for cut, length in zip(value, shape, strict=True)]
    return None if problems.is_fatal else tuple(cut or 1 for cut in cuts)


def _axis(value: Any, length: int, problems: Problems) -> int | tuple[int, ...] | None:
    """Return one axis: a size for all chunks, or a list of sizes and of ``[size, how often]``."""
    if _is_size(value):
        return int(value)
    runs: list[tuple[int, int]] = []
    for item in as_list(value):
        match item:
            case int() if _is_size(item):
                runs.append((item, 1))
            case [size, count] if _is_size(size) and _is_size(count):
                runs.append((size, count))
            case _:
                runs = []
                break
    if not runs:
        problems.fatal("chunk_shapes", f"{shorten(value)} are no chunk sizes")
    elif sum(size * count for size, count in runs) < length:
        problems.fatal("chunk_shapes", f"the chunk sizes {shorten(value)} do not reach the length {length}")
    elif len(runs) == 1 and runs[0][1] > 1:
        return runs[0][0]
    elif sum(count for _, count in runs) > _MOST_CHUNKS:
        problems.fatal("chunk_shapes", f"more than {_MOST_CHUNKS} chunk sizes are listed for one axis")
    else:
        return tuple(size for size, count in runs for _ in range(count))
    return None


def _is_size(value: object) -> bool:
    return type(value) is int and 0 < value <= LONGEST


def write_grid(chunks: Chunks) -> JsonObject:
    """Return the ``chunk_grid`` of such chunks: regular when every axis has one size."""
    if all(isinstance(cut, int) for cut in chunks):
        return {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    shapes: list[object] = []
    for cut in chunks:
        runs = [] if isinstance(cut, int) else [(size, len(list(group))) for size, group in groupby(cut)]
        shapes.append([size if count == 1 else [size, count] for size, count in runs] or cut)
    return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}


def read_keys(value: object, problems: Problems) -> tuple[str, str]:
    """Return name and separator of a ``chunk_key_encoding``."""
    found = read_extension("default" if value is None else value)
    if value is None:
        problems.warn("chunk_key_encoding", "chunk_key_encoding is missing; 'default' is assumed")
    if found is None:
        problems.fatal("chunk_key_encoding", f"chunk_key_encoding is {shorten(value)}, not an object with a name")
        return "default", "/"
    name, config = found
    if name not in _SEPARATORS:
        problems.undecodable("chunk_key_encoding", f"chunk_key_encoding {name!r} is not known")
        return "default", "/"
    separator = config.get("separator", _SEPARATORS[name])
    if separator not in (".", "/"):
        problems.fatal("chunk_key_encoding", f"the separator of chunk keys is {shorten(separator)}, not '.' or '/'")
        return name, "/"
    return name, separator


def chunk_keys(name: str, separator: str, ndim: int) -> KeyOf:
    """Return the key of a chunk by its coordinates: ``c/0/1`` (default) or ``0.1`` (v2); ``c`` or ``0`` in 0-d
    arrays."""
    if not ndim:
        return lambda coords: "0" if name == "v2" else "c"
    numbers = separator.join(["%d"] * ndim)
    return (numbers if name == "v2" else f"c{separator}{numbers}").__mod__  # one call in C for each chunk


COMMON = frozenset({"blosc", "crc32c", "gzip", "zstd"})
"""The codecs on bytes that each reader of Zarr v3 knows. Others have names of their own there too, as extensions."""
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_INDEX = np.dtype("u8")
# a bound on recursion: documents may nest codecs as deep as JSON goes
_DEPTH = 8


def read_codecs(
    value: object, dtype: DataType | None, chunks: Chunks, problems: Problems, depth: int = 0
) -> tuple[Codec, ...]:
    """Return the chain for chunks of such cells; ``dtype`` is None where the type is not known."""
    if not isinstance(value, list):
        problems.fatal("codecs", f"codecs is {shorten(value)}, not a list")
        return ()
    chain: list[Codec] = []
    cells = dtype
    for step in value:
        found = read_extension(step)
        if found is None:
            problems.fatal("codec", f"{shorten(step)} is no codec: a name, or an object with name and configuration")
            continue
        codec = Codec(canonical(found[0]), found[1])
        match codec.name:
            case "transpose":
                codec, chunks = _transpose(codec, chunks, problems)
            case "sharding_indexed":
                codec = _sharding(codec, cells, chunks, problems, depth)
            case "bytes":
                codec = _bytes(codec, cells, problems)
            case "astype" | "fixedscaleoffset":
                codec = _in_order_of(codec, cells)
        cells = None if cells is None else type_after(codec, cells)
        chain.append(codec)
    _check_order(chain, problems)
    return tuple(chain)


def _in_order_of(codec: Codec, cells: DataType | None) -> Codec:
    """Return a filter of numcodecs with the byte order that its cells have in memory.

    Zarr v3 knows of none: the filters that zarr-python writes for big-endian cells name the order that these had, and
    the cells are the same by value. Other filters need no such care: ``delta`` of whole numbers is undone in any order.
    """
    name = VIEWING[codec.name]
    try:
        dtype = np.dtype(codec.config[name])
    except (KeyError, TypeError, ValueError, SyntaxError):
        return codec
    if not isinstance(cells, np.dtype) or dtype == cells or dtype.newbyteorder("=") != cells.newbyteorder("="):
        return codec
    return Codec(codec.name, {**codec.config, name: cells.str})


def _check_order(chain: Sequence[Codec], problems: Problems) -> None:
    """Check the order: cells to cells any number of times, cells to bytes once, bytes to bytes any number of times."""
    kinds = [0 if c.name in ARRAY else 1 if c.name in ARRAY_TO_BYTES else 2 if c.name in BYTES else None for c in chain]
    if None in kinds:
        return
    to_bytes = [codec.name for codec, kind in zip(chain, kinds, strict=True) if kind == 1]
    if len(to_bytes) > 1:
        problems.fatal("codecs", f"the codecs {to_bytes} all make bytes of cells; one can")
    elif not to_bytes:
        problems.fatal("codecs", "no codec makes bytes of the cells (such as 'bytes')")
    elif kinds != sorted(kinds, key=lambda kind: kind or 0):
        problems.fatal("codecs", f"the codecs {[codec.name for codec in chain]} stand in an order that cannot be")


def _transpose(codec: Codec, chunks: Chunks, problems: Problems) -> tuple[Codec, Chunks]:
    order = codec.config.get("order")
    ndim = len(chunks)
    if order in ("C", "F"):
        order = list(range(ndim)) if order == "C" else list(reversed(range(ndim)))
    if not isinstance(order, list) or not all(type(n) is int for n in order) or sorted(order) != list(range(ndim)):
        problems.fatal("transpose", f"codec 'transpose': order {shorten(order)} is no permutation of {ndim} axes")
        return codec, chunks
    return Codec("transpose", {"order": order}), tuple(chunks[axis] for axis in order)


def _bytes(codec: Codec, cells: DataType | None, problems: Problems) -> Codec:
    endian = codec.config.get("endian")
    if endian not in (None, "little", "big"):
        problems.fatal("endian", f"codec 'bytes': endian is {shorten(endian)}, not 'little' or 'big'")
    elif endian is None and cells is not None and has_byte_order(cells):
        problems.fatal("endian", f"codec 'bytes': endian is missing, but cells of type {cells} have a byte order")
    elif endian is None and isinstance(cells, np.dtype) and cells.names is not None:
        return Codec("bytes", {"endian": "little"})
    return codec


def _sharding(codec: Codec, cells: DataType | None, chunks: Chunks, problems: Problems, depth: int) -> Codec:
    config = codec.config
    inner = problems.lengths("chunk_shape", config.get("chunk_shape"), 1, len(chunks))
    if depth >= _DEPTH:
        problems.fatal("codecs", f"shards within shards, more than {_DEPTH} deep")
        return codec
    if inner is None:
        return Codec("sharding_indexed", {"chunk_shape": [1] * len(chunks), "codecs": (), "index_codecs": ()})
    for size, cut in zip(inner, chunks, strict=True):
        if any(whole % size for whole in ((cut,) if isinstance(cut, int) else cut)):
            problems.fatal("chunk_shape", f"the inner chunk {list(inner)} does not divide the shard {list(chunks)}")
            break
    counts = tuple(max(1, cut // size) if isinstance(cut, int) else 1 for size, cut in zip(inner, chunks, strict=True))
    location = config.get("index_location", "end")
    if location not in ("start", "end"):
        problems.fatal("index_location", f"index_location is {shorten(location)}, not 'start' or 'end'")
    index: tuple[Codec, ...] = INDEX_CODECS
    if "index_codecs" in config:
        index = read_codecs(config["index_codecs"], _INDEX, (*counts, 2), problems, depth + 1)
    return Codec(
        "sharding_indexed",
        {
            "chunk_shape": list(inner),
            "codecs": read_codecs(config.get("codecs"), cells, inner, problems, depth + 1),
            "index_codecs": index,
            "index_location": location,
        },
    )


def write_codecs(codecs: Sequence[Codec]) -> list[JsonObject]:
    """Return the ``codecs`` of a chain; Unsupported names what Zarr v3 cannot say."""
    return [_write_codec(codec.name, codec.config) for codec in codecs]


def _write_codec(name: str, config: JsonMapping) -> JsonObject:
    """Return one codec with what zarr-python insists on: a level for gzip, a configuration for numcodecs, even empty.

    Numbers that are left out get their defaults.
    """
    match name:
        case "sharding_indexed":
            config = {
                "chunk_shape": list(config["chunk_shape"]),
                "codecs": write_codecs(config["codecs"]),
                "index_codecs": write_codecs(config.get("index_codecs", INDEX_CODECS)),
                "index_location": config.get("index_location", "end"),
            }
        case "crc32c" if config.get("location", "end") == "end":
            config = {}
        case "blosc":
            shuffle = config.get("shuffle", "shuffle")
            if isinstance(shuffle, int) and 0 <= shuffle < len(_SHUFFLES):
                shuffle = _SHUFFLES[shuffle]
            defaults = {"typesize": 1, "cname": "lz4", "clevel": 5, "shuffle": shuffle, "blocksize": 0}
            config = defaults | dict(config) | {"shuffle": shuffle}
        case "zstd":
            config = {"level": 0, "checksum": False, **config}
        case "gzip":
            config = {"level": 1, **config}
        case _ if name not in ZARR3_NAMES:
            raise Unsupported(f"format zarr3 has no codec {name!r}", remedy="choose another codec, or format zarr2")
    spelled = ZARR3_NAMES[name]
    if name == "crc32c" and config:
        spelled = "numcodecs.crc32c"  # the specification's has no parameters
    if config or spelled.startswith("numcodecs."):
        return {"name": spelled, "configuration": dict(config)}
    return {"name": spelled}
