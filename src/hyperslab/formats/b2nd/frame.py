"""The header of a Blosc2 frame that holds an N-dimensional array: what is checked before blosc2 sees the file. Pure.

README_CFRAME_FORMAT.rst of C-Blosc2: a msgpack array of 14 fields at fixed places, then the metalayers. The metalayer
``b2nd`` is an array of 7: version, dimensions, shape, chunk shape, block shape, kind of dtype, dtype (NumPy's text).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from math import prod
from struct import Struct
from typing import Any

import msgspec
import numpy as np

from hyperslab.errors import FormatError, Unsupported

MAGIC = b"\x9e\xa8b2frame\x00"
SPARSE = "chunks.b2frame"
"""The frame of a sparse directory; its chunks lie beside it."""
MOST_DIMENSIONS = 16
MOST_BYTES = 2**31 - 1 - 32
"""Of one chunk."""
LONGEST_HEADER = 1 << 20
_FIELDS = Struct(">10sxixQx4sxqxqxixixi")
_MAP = 87
_LONGEST_DTYPE = 1 << 16


@dataclass(frozen=True, slots=True)
class Frame:
    """What the header says of the array."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    blocks: tuple[int, ...]
    dtype: np.dtype[Any]
    cbytes: int


def header_size(head: bytes) -> int:
    """Bytes of the whole header, from its first 128; FormatError when they are none of a frame."""
    if len(head) < _FIELDS.size or not head.startswith(MAGIC):
        raise FormatError("this is no frame of Blosc2, or it is cut off in its header")
    size: int = _FIELDS.unpack_from(head)[1]
    if not _MAP < size <= LONGEST_HEADER:
        raise FormatError(f"a frame header of {size} bytes")
    return size


def parse(header: bytes, stored: int, *, sparse: bool) -> Frame:
    """The array of a frame of ``stored`` bytes; FormatError for what contradicts itself or the file's length.

    ``sparse``: its chunks lie beside it.
    Unsupported when the frame holds no array, or cells that are Python objects.
    """
    size = header_size(header)
    if len(header) < size:
        raise FormatError(f"the frame is cut off: {len(header)} of {size} bytes of its header")
    _, _, length, _, nbytes, cbytes, typesize, _, chunksize = _FIELDS.unpack_from(header)
    if length > stored or cbytes < 0 or (cbytes > stored and nbytes and not sparse):
        raise FormatError(f"the frame is cut off: {stored} of {length} bytes")
    said = _metalayer(header)
    if said is None:
        raise Unsupported(
            "this frame of Blosc2 holds bytes and no array", remedy="load it with blosc2.load_array or load_tensor"
        )
    shape, chunks, blocks, dtype = _array(said, typesize)
    cut = [-(-a // b) if b else 0 for a, b in zip(shape, chunks, strict=True)]
    padded = prod(-(-a // b) * b if b else 0 for a, b in zip(chunks, blocks, strict=True)) * dtype.itemsize
    if padded != chunksize or prod(cut) * padded != nbytes:
        raise FormatError(f"{nbytes} bytes in chunks of {chunksize} are no array of shape {shape} cut by {chunks}")
    return Frame(shape, chunks, blocks, dtype, cbytes)


def _metalayer(header: bytes) -> list[Any] | None:
    """The fields of ``b2nd``, None when there is no such metalayer."""
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


def _array(said: list[Any], typesize: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
    if len(said) < 5 or not isinstance(said[1], int) or not all(isinstance(part, list) for part in said[2:5]):
        raise FormatError("the metalayer b2nd has other fields than version, dimensions, shape, chunks, blocks")
    shape, chunks, blocks = (tuple(part) for part in said[2:5])
    if not len(shape) == len(chunks) == len(blocks) == said[1] <= MOST_DIMENSIONS:
        raise FormatError(f"{said[1]} dimensions, but shape {shape}, chunks {chunks}, blocks {blocks}")
    for lengths in (shape, chunks, blocks):
        if any(type(length) is not int or not 0 <= length < 2**63 for length in lengths):
            raise FormatError(f"{lengths} are no lengths")
    if any(not length for length, whole in zip((*chunks, *blocks), shape * 2, strict=True) if whole):
        raise FormatError(f"chunks {chunks} in blocks {blocks} do not cut shape {shape}")
    dtype = parse_dtype(said[6]) if len(said) > 6 and said[5] == 0 else np.dtype(f"V{max(typesize, 1)}")
    if not 0 < dtype.itemsize <= MOST_BYTES or dtype.itemsize != typesize:
        raise FormatError(f"cells of {typesize} bytes, but of type {dtype}")
    return shape, chunks, blocks, dtype


def parse_dtype(text: Any) -> np.dtype[Any]:
    """The type that NumPy's text names (``<f4``, the list or the dict of a structure); never one of objects."""
    if not isinstance(text, str) or not text or len(text) > _LONGEST_DTYPE:
        raise FormatError(f"{text!r:.80} is no data type")
    try:
        said = ast.literal_eval(text) if text[0] in "[{" else text
        dtype: np.dtype[Any] = np.dtype(said)
    except (ValueError, TypeError, SyntaxError, KeyError, RecursionError, MemoryError, OverflowError) as error:
        raise FormatError(f"{text!r:.80} is no data type: {error}") from None
    if dtype.hasobject or dtype.kind == "T":
        raise Unsupported("cells that are Python objects are not read")
    return dtype
