"""The kinds of codecs, and chains of one of each kind.

As in Zarr v3 a chain is any number of codecs from cells to cells (``ARRAY``), one from cells to bytes
(``ARRAY_TO_BYTES``), and any number from bytes to bytes (``BYTES``). These lists follow from ``CODECS``: a new codec is
in them by its class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hyperslab.codecs.base import ArrayToArray, ArrayToBytes, BytesToBytes
from hyperslab.codecs.registry import CODECS, MAKERS, REFUSED, names_of_kind
from hyperslab.model.dtypes import DataType, VlenArray, VlenBytes, VlenString
from hyperslab.model.spec import Codec

ARRAY = names_of_kind(ArrayToArray)
ARRAY_TO_BYTES = names_of_kind(ArrayToBytes)
BYTES = names_of_kind(BytesToBytes)
COMPRESSORS = frozenset(name for name, entry in CODECS.items() if entry.is_compressor)


def undecodable_reasons(codecs: Iterable[Codec]) -> list[str]:
    """Return, for each codec that cannot be decoded, why not; also for those within shards."""
    reasons = []
    for codec in codecs:
        if codec.name in REFUSED:
            reasons.append(f"codec {codec.name!r} is not decoded: {REFUSED[codec.name]}")
        elif codec.name not in MAKERS:
            reasons.append(f"codec {codec.name!r} is not known")
        elif codec.name == "sharding_indexed":
            reasons += undecodable_reasons(codec.config["codecs"]) + undecodable_reasons(codec.config["index_codecs"])
    return reasons


def is_compressed(codecs: Iterable[Codec]) -> bool:
    """Return True where one of the codecs compresses, also within shards."""
    return any(step.name in COMPRESSORS for step in inner_codecs(codecs))


def array_to_bytes_codec(dtype: DataType) -> Codec:
    """Return the codec that makes bytes of such cells when nobody chose one."""
    match dtype:
        case VlenString():
            return Codec("vlen-utf8")
        case VlenBytes():
            return Codec("vlen-bytes")
        case VlenArray(base=base):
            return Codec("vlen-array", {"dtype": base.newbyteorder("<").str})
        case _:
            return Codec("bytes")


def with_array_to_bytes(codecs: Sequence[Codec], step: Codec) -> tuple[Codec, ...]:
    """Return the chain with ``step`` between the codecs on cells and those on bytes, unless it has such a step.

    A step ``bytes`` that says no order of bytes, as chains of Zarr v2 have it, gets that of ``step``.
    """
    if any(codec.name in ARRAY_TO_BYTES for codec in codecs):
        return tuple(step if codec == Codec("bytes") and step.name == "bytes" else codec for codec in codecs)
    at = next((i for i, codec in enumerate(codecs) if codec.name not in ARRAY), len(codecs))
    return (*codecs[:at], step, *codecs[at:])


def inner_codecs(codecs: Iterable[Codec]) -> Iterator[Codec]:
    """Yield the codecs of the chunks: in shards those of their inner chunks."""
    for codec in codecs:
        if codec.name == "sharding_indexed":
            yield from inner_codecs(codec.config["codecs"])
        else:
            yield codec
