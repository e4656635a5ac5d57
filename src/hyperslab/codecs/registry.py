"""Every codec by its name: one dict. Names are Zarr v3's where it has one; other spellings are aliases.

A codec is made from its configuration and the cells that it is to work on. Nothing here runs code found in data: codecs
that would (``pickle``) have no maker; ``reference_pickle`` reads references out of pickles without running them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hyperslab.codecs.base import ArrayCodec, BytesCodec, ChunkLayout, SerialCodec
from hyperslab.codecs.blosc import Blosc
from hyperslab.codecs.bytes import Bytes
from hyperslab.codecs.cast import CastValue, ScaleOffset
from hyperslab.codecs.checksums import WORDS, make_checksum, make_jenkins
from hyperslab.codecs.deflate import make_gzip, make_zlib
from hyperslab.codecs.enums import Categorize, EnumMembers
from hyperslab.codecs.iso_time import IsoTime
from hyperslab.codecs.json2 import Json2
from hyperslab.codecs.lz4 import Lz4
from hyperslab.codecs.numbers import AsType, BitRound, Delta, FixedScaleOffset, PackBits, PackBools, Quantize
from hyperslab.codecs.pcodec import PCodec
from hyperslab.codecs.record_text import RecordText
from hyperslab.codecs.reference_pickle import ReferencePickle
from hyperslab.codecs.reference_text import ReferenceText
from hyperslab.codecs.shuffle import Shuffle
from hyperslab.codecs.streams import make_bz2, make_lzma
from hyperslab.codecs.text import Base64, FixedUtf8, Utf8Bytes
from hyperslab.codecs.transpose import Transpose
from hyperslab.codecs.vlen import make_array, make_bytes, make_utf8
from hyperslab.codecs.zfpy import Zfpy
from hyperslab.codecs.zstd import Zstd

AnyCodec = ArrayCodec | SerialCodec | BytesCodec
Maker = Callable[[Mapping[str, Any], ChunkLayout], AnyCodec]

REGISTRY: dict[str, Maker] = {
    "astype": AsType,
    "base64": Base64,
    "bitround": BitRound,
    "blosc": Blosc,
    "bytes": Bytes,
    "bz2": make_bz2,
    "cast_value": CastValue,
    "categorize": Categorize,
    "delta": Delta,
    "enum_members": EnumMembers,
    "fixed_utf8": FixedUtf8,
    "fixedscaleoffset": FixedScaleOffset,
    "gzip": make_gzip,
    "iso_time": IsoTime,
    "jenkins_lookup3": make_jenkins,
    "json2": Json2,
    "lz4": Lz4,
    "lzma": make_lzma,
    "numcodecs.packbits": PackBools,
    "packbits": PackBits,
    "pcodec": PCodec,
    "quantize": Quantize,
    "record_text": RecordText,
    "reference_pickle": ReferencePickle,
    "reference_text": ReferenceText,
    "scale_offset": ScaleOffset,
    "shuffle": Shuffle,
    "transpose": Transpose,
    "utf8_bytes": Utf8Bytes,
    "vlen-array": make_array,
    "vlen-bytes": make_bytes,
    "vlen-utf8": make_utf8,
    "zfpy": Zfpy,
    "zlib": make_zlib,
    "zstd": Zstd,
    **{name: make_checksum(name) for name in WORDS},
}

ALIASES = {"endian": "bytes", "vlen_utf8": "vlen-utf8"} | {
    f"numcodecs.{name}": name for name in REGISTRY if name not in ("packbits", "numcodecs.packbits", "bytes")
}
"""Other spellings of a name; numcodecs' and the Zarr extension's ``packbits`` are two codecs."""

REFUSED = {
    "pickle": "it would run code found in the data",
    "msgpack2": "object codecs other than json2 and vlen-* are not read",
    "szip": "there is no free decoder for it here",
}
"""Codecs that are known and never decoded, with the reason."""

VIEWING = {"astype": "decode_dtype", "delta": "dtype", "fixedscaleoffset": "dtype", "quantize": "dtype"}
"""array -> array codecs that Zarr v2 allows behind bytes, with the parameter that says how the bytes are viewed."""


def canonical(name: str) -> str:
    """The registry's name for a codec, whatever its spelling."""
    return ALIASES.get(name, name)
