"""From the header and the metalayers of a frame to specs, and back. Pure.

Of ``vlmeta`` the keys in ``KEYS`` are the document of :mod:`hyperslab.formats.single_array.document`; every other key,
and one of these whose value is of another kind than ours, is an attribute if its value is text, a number, bytes,
nothing, a list or a mapping, and stays at its place when the file is changed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from math import prod
from struct import Struct
from typing import Any

import msgspec
import numpy as np

from hyperslab.chunks.auto import auto_chunks
from hyperslab.codecs.registry import parse_codec
from hyperslab.errors import FormatError, Invalid, Unsupported
from hyperslab.formats.single_array.document import (
    KEYS,
    Doc,
    Document,
    LabelledArray,
    is_label,
    labels_from_json,
    labels_to_json,
    text_not_main,
)
from hyperslab.model.dtypes import NumpyDType, VlenString, describe
from hyperslab.model.spec import ArraySpec, Codec

# -- the header of a frame, checked before blosc2 sees the file -----------------------------------------------------
#
# README_CFRAME_FORMAT.rst of C-Blosc2: a msgpack array of 14 fields at fixed places, then the metalayers. The metalayer
# `b2nd` is an array of 7: version, dimensions, shape, chunk shape, block shape, kind of dtype, dtype (NumPy's text).


MAGIC = b"\x9e\xa8b2frame\x00"
SPARSE = "chunks.b2frame"
"""The frame of a sparse directory; its chunks lie beside it."""
MOST_DIMENSIONS = 16
MOST_BYTES = 2**31 - 1 - 32
"""Of one chunk."""
# Bytes of a header beyond which it is a lie: it is read into memory.
LONGEST_HEADER = 1 << 20
# The first 14 fields lie at fixed places, each behind the byte of its msgpack type (`x`); the map of the metalayers
# follows at byte 87.
_FIELDS = Struct(">10sxixQx4sxqxqxixixi")
_MAP = 87
_FROM_A_COPY = "restore the file from a copy"
# Longer text would keep Python's parser busy.
_LONGEST_DTYPE = 1 << 16


@dataclass(frozen=True, slots=True)
class Frame:
    """The array as the header describes it."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    blocks: tuple[int, ...]
    dtype: NumpyDType
    cbytes: int


def header_size(head: bytes) -> int:
    """Return the bytes of the whole header, from its first 128; FormatError when they are none of a frame."""
    if len(head) < _FIELDS.size or not head.startswith(MAGIC):
        raise FormatError("this is no frame of Blosc2, or it is cut off in its header")
    size: int = _FIELDS.unpack_from(head)[1]
    if not _MAP < size <= LONGEST_HEADER:
        raise FormatError(f"a frame header of {size} bytes")
    return size


def parse_frame(header: bytes, stored: int, *, sparse: bool) -> Frame:
    """Return the array of a frame of ``stored`` bytes; FormatError for what contradicts itself or the file's length.

    ``sparse``: its chunks lie beside it.
    Unsupported when the frame holds no array, or cells that are Python objects.
    """
    size = header_size(header)
    if len(header) < size:
        raise FormatError(f"the frame is cut off: {len(header)} of {size} bytes of its header", remedy=_FROM_A_COPY)
    _, _, length, _, nbytes, cbytes, typesize, _, chunksize = _FIELDS.unpack_from(header)
    if length > stored or cbytes < 0 or (cbytes > stored and nbytes and not sparse):
        raise FormatError(f"the frame is cut off: {stored} of {length} bytes", remedy=_FROM_A_COPY)
    fields = _metalayer(header)
    if fields is None:
        raise Unsupported(
            "this frame of Blosc2 holds bytes and no array", remedy="load it with blosc2.load_array or load_tensor"
        )
    shape, chunks, blocks, dtype = _array(fields, typesize)
    cut = [-(-a // b) if b else 0 for a, b in zip(shape, chunks, strict=True)]
    padded = prod(-(-a // b) * b if b else 0 for a, b in zip(chunks, blocks, strict=True)) * dtype.itemsize
    if padded != chunksize or prod(cut) * padded != nbytes:
        raise FormatError(f"{nbytes} bytes in chunks of {chunksize} are no array of shape {shape} cut by {chunks}")
    return Frame(shape, chunks, blocks, dtype, cbytes)


def _metalayer(header: bytes) -> list[object] | None:
    """Return the fields of ``b2nd``, None when there is no such metalayer."""
    try:
        if header[_MAP : _MAP + 2] != b"\x93\xcd":
            raise FormatError("the frame header names no metalayers")
        stop = _MAP + int.from_bytes(header[_MAP + 2 : _MAP + 4], "big")
        places = msgspec.msgpack.decode(header[_MAP + 4 : stop], type=dict[str, int])
        if "b2nd" not in places:
            return None
        place = places["b2nd"]
        if not 0 < place <= len(header) - 5 or header[place] != 0xC6:
            raise FormatError("the metalayer b2nd lies outside the header")
        size = int.from_bytes(header[place + 1 : place + 5], "big")
        return msgspec.msgpack.decode(header[place + 5 : place + 5 + size], type=list[Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FormatError(f"the metalayers of the frame make no sense: {error}") from None


def _array(fields: list[Any], typesize: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], NumpyDType]:
    if len(fields) < 5 or not isinstance(fields[1], int) or not all(isinstance(part, list) for part in fields[2:5]):
        raise FormatError("the metalayer b2nd has other fields than version, dimensions, shape, chunks, blocks")
    shape, chunks, blocks = (tuple(part) for part in fields[2:5])
    if not len(shape) == len(chunks) == len(blocks) == fields[1] <= MOST_DIMENSIONS:
        raise FormatError(f"{fields[1]} dimensions, but shape {shape}, chunks {chunks}, blocks {blocks}")
    for lengths in (shape, chunks, blocks):
        if any(type(length) is not int or not 0 <= length < 2**63 for length in lengths):
            raise FormatError(f"{lengths} are no lengths")
    if any(not length for length, whole in zip((*chunks, *blocks), shape * 2, strict=True) if whole):
        raise FormatError(f"chunks {chunks} in blocks {blocks} do not cut shape {shape}")
    # Older frames say no dtype: their cells are bytes of the typesize.
    dtype = parse_dtype(fields[6]) if len(fields) > 6 and fields[5] == 0 else np.dtype(f"V{max(typesize, 1)}")
    if not 0 < dtype.itemsize <= MOST_BYTES or dtype.itemsize != typesize:
        raise FormatError(f"cells of {typesize} bytes, but of type {dtype}")
    return shape, chunks, blocks, dtype


def parse_dtype(text: object) -> NumpyDType:
    """Return the type that NumPy's text names (``<f4``, the list or the dict of a structure); never one of objects."""
    if not isinstance(text, str) or not text or len(text) > _LONGEST_DTYPE:
        raise FormatError(f"{text!r:.80} is no data type")
    try:
        fields = ast.literal_eval(text) if text[0] in "[{" else text
        dtype: NumpyDType = np.dtype(fields)
    except (ValueError, TypeError, SyntaxError, KeyError, RecursionError, MemoryError, OverflowError) as error:
        raise FormatError(f"{text!r:.80} is no data type: {error}") from None
    if dtype.hasobject or dtype.kind == "T":
        raise Unsupported("cells that are Python objects are not read")
    return dtype


CODECS = {"BLOSCLZ": "blosclz", "LZ4": "lz4", "LZ4HC": "lz4hc", "ZLIB": "zlib", "ZSTD": "zstd"}
"""blosc2's names of the compressors that Blosc has too."""
_SHUFFLES = {"SHUFFLE": "shuffle", "BITSHUFFLE": "bitshuffle"}


def parse_metalayers(found: Frame, compression: Document, vlmeta: Document) -> LabelledArray:
    """Return the array with its labels. ``compression``: the names of codec and filters and the level."""
    spec = ArraySpec(
        shape=found.shape,
        dtype=found.dtype,
        chunks=tuple(max(cut, 1) for cut in found.chunks),
        codecs=_codecs(compression, found.dtype.itemsize),
        layout={"blocks": found.blocks, "codec": compression["codec"].lower(), "filters": compression["filters"]},
    )
    labelled = labels_from_json({key: value for key, value in vlmeta.items() if is_label(key, value)}, spec)
    extra = {
        key: as_lists(value) for key, value in vlmeta.items() if not is_label(key, value) and can_be_attribute(value)
    }
    main = labelled.spec.evolve(attrs={**extra, **labelled.spec.attrs})
    return LabelledArray(labelled.name, main, labelled.coords, labelled.group)


def render_metalayers(labelled: LabelledArray, foreign: frozenset[str]) -> Doc:
    """Return the metalayers. ``foreign``: the keys that another program wrote; such attributes stand there again."""
    attrs = labelled.spec.attrs
    kept = {key: attrs[key] for key in attrs if key in foreign and key not in KEYS and can_be_attribute(attrs[key])}
    own = {key: value for key, value in attrs.items() if key not in kept}
    main = labelled.spec.evolve(attrs=own)
    return labels_to_json(LabelledArray(labelled.name, main, labelled.coords, labelled.group)) | kept


def can_be_attribute(value: object) -> bool:
    """Return True if a metalayer's value can be an attribute: text, a number, bytes, nothing, or lists and mappings
    of all but bytes.
    """
    return type(value) is bytes or _is_json(value)


def as_lists(value: object) -> object:
    """Return the same value with lists for tuples, which a metalayer tells apart from them."""
    match value:
        case list() | tuple():
            return [as_lists(each) for each in value]
        case dict():
            return {key: as_lists(each) for key, each in value.items()}
    return value


def _is_json(value: object) -> bool:
    match value:
        case None:
            return True
        case bool() | int() | float() | str():
            return type(value) in (bool, int, float, str)
        case list() | tuple():
            return all(map(_is_json, value))
        case dict():
            return all(isinstance(key, str) and _is_json(each) for key, each in value.items())
        case _:
            return False


def _codecs(compression: Document, itemsize: int) -> tuple[Codec, ...]:
    cname = CODECS.get(compression["codec"])
    if cname is None:
        return ()
    shuffle = next((_SHUFFLES[name] for name in compression["filters"] if name in _SHUFFLES), "noshuffle")
    config = {"cname": cname, "clevel": compression["clevel"], "shuffle": shuffle, "typesize": itemsize}
    return (Codec("blosc", config),)


def compression_of(codecs: tuple[Codec, ...]) -> Doc:
    """Return blosc2's words for a codec chain: ``codec``, ``clevel``, ``filters``. Without codecs nothing is
    compressed."""
    config = codecs[0].config if codecs else {"clevel": 0, "shuffle": "noshuffle"}
    words = {ours: theirs for theirs, ours in CODECS.items()}
    shuffle = config.get("shuffle", "shuffle")
    if isinstance(shuffle, int):
        shuffle = {0: "noshuffle", 2: "bitshuffle"}.get(shuffle, "shuffle")
    filters = {ours: theirs for theirs, ours in _SHUFFLES.items()}
    return {
        "codec": words[str(config.get("cname", "lz4"))],
        "clevel": config.get("clevel", 5),
        "filters": [filters[shuffle]] if shuffle in filters else [],
    }


def new_array(spec: ArraySpec) -> ArraySpec:
    """Return a user's wish as b2nd holds it; Unsupported names what it cannot hold."""
    dtype = spec.dtype
    text = isinstance(dtype, VlenString)
    if not (isinstance(dtype, np.dtype) and dtype.kind not in "OT" and not dtype.hasobject) and not text:
        raise Unsupported(f"format b2nd has no cells of type {describe(dtype)}", remedy="convert the values")
    if text and len(spec.shape) > 1:
        raise text_not_main("b2nd", "")
    if len(spec.shape) > MOST_DIMENSIONS:
        raise Unsupported(f"format b2nd has at most {MOST_DIMENSIONS} dimensions, not {len(spec.shape)}")
    if any(not isinstance(cut, int) for cut in spec.chunks):
        raise Unsupported("format b2nd has one chunk length per dimension, no varying ones", remedy="chunks='auto'")
    itemsize = spec.numpy_dtype.itemsize
    chunks = tuple(cut for cut in spec.chunks if isinstance(cut, int))
    if not text and itemsize * prod(chunks) > MOST_BYTES:
        raise Invalid(f"chunks of {chunks} cells take 2 GiB or more", remedy="smaller chunks, or chunks='auto'")
    return spec.evolve(codecs=_new_codecs(spec), layout={}, chunks=chunks or auto_chunks(spec.shape, itemsize))


def _new_codecs(spec: ArraySpec) -> tuple[Codec, ...]:
    if spec.layout.get("checksum"):
        raise Unsupported("format b2nd has no checksums", remedy="leave checksum= out, or use zarr3 or bloscpack")
    found = parse_codec(list(spec.codecs), spec.numpy_dtype)
    if not found:
        return ()
    if len(found) > 1 or found[0].name != "blosc" or found[0].config.get("cname") not in CODECS.values():
        names = "+".join(codec.name for codec in found)
        raise Unsupported(f"format b2nd has no codec {names}", remedy="codec='blosc:zstd:5', say, or codec='none'")
    return found
