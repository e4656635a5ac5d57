"""HDF5's filters, by which the options of a collection name what compresses its arrays, and our codecs. Pure.

The layout of DEKER has any filter of its HDF5 library, of which gzip alone needs no plug-in; ours has codecs for some.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyperslab.codecs.blosc import CNAMES, SHUFFLES, config_of
from hyperslab.codecs.checksums import WORDS as CHECKSUMS
from hyperslab.codecs.default import parse_codec
from hyperslab.errors import Unsupported
from hyperslab.formats.codec_kinds import inner_codecs
from hyperslab.model.schemas import HDF5CompressionOpts, HDF5Options
from hyperslab.model.spec import Codec

_SHUFFLES = tuple(SHUFFLES)
_FILTERS = {"lzf": "lzf", "szip": "szip", 307: "bzip2", 32000: "lzf", 32008: "bitshuffle", 32013: "zfp", 32017: "sz"}
_PASSED_OVER = CHECKSUMS.keys() | {"bytes", "shuffle"}


def codecs_of(options: HDF5Options | None, dtype: np.dtype[np.generic]) -> tuple[Codec, ...]:
    """The codecs for the filter that the options name; the usual ones when there are no options. Unsupported."""
    filter = None if options is None else options.compression_opts
    if filter is None:
        return parse_codec("default", dtype)
    values = _values(filter)
    match filter.compression:
        case None:
            return ()
        case "gzip" | 1:
            return (Codec("gzip", {"level": int(values[0]) if values else 4}),)
        case 32015:
            return parse_codec({"name": "zstd", "configuration": {"level": int(values[0]) if values else 3}})
        case 32004:
            return (Codec("lz4", {"acceleration": 1}),)
        case 32001:
            return _blosc(values, dtype)
        case other:
            raise Unsupported(
                f"HDF5 filter {_FILTERS.get(other, other)!r} in the layout hyperslab",
                remedy='compress by gzip, zstd, lz4 or blosc, or choose layout="deker"',
            )


def _values(filter: HDF5CompressionOpts) -> Sequence[int | str]:
    values = filter.compression_opts
    return () if values is None else values if isinstance(values, tuple) else (values,)


def _blosc(values: Sequence[int | str], dtype: np.dtype[np.generic]) -> tuple[Codec, ...]:
    """Four numbers that the filter fills in, then level, shuffle and compressor."""
    numbers = [int(value) for value in values[4:7]]
    level, shuffle, name = numbers + [5, 1, 0][len(numbers) :]
    if name >= len(CNAMES) or shuffle >= len(_SHUFFLES):
        raise Unsupported(f"Blosc filter with the values {tuple(values)}", remedy="see hdf5plugin.Blosc")
    config = {"cname": CNAMES[name], "clevel": level, "shuffle": _SHUFFLES[shuffle]}
    return parse_codec({"name": "blosc", "configuration": config}, dtype)


def filter_of(codecs: Sequence[Codec], dtype: np.dtype[np.generic], format: str) -> HDF5CompressionOpts | None:
    """The filter that compresses as these codecs do, None for the usual codecs; Unsupported where there is none."""
    named = [codec for codec in inner_codecs(codecs) if codec.name not in _PASSED_OVER]
    if not named or tuple(named) == parse_codec("default", dtype):
        return None
    codec = named[-1]
    level = codec.config.get("level")
    match codec.name:
        case "gzip" | "zlib":
            return HDF5CompressionOpts("gzip", max(0, level) if isinstance(level, int) else 1)
        case "zstd" if format != "deker":
            return HDF5CompressionOpts(32015, (level if isinstance(level, int) else 3,))
        case "lz4" if format != "deker":
            return HDF5CompressionOpts(32004)
        case "blosc" if format != "deker" and (config := config_of([codec])) is not None:
            shuffle = _SHUFFLES.index(config.get("shuffle", "shuffle"))
            name = CNAMES.index(config.get("cname", "lz4"))
            return HDF5CompressionOpts(32001, (0, 0, 0, 0, config.get("clevel", 5), shuffle, name))
    names = "+".join(codec.name for codec in named)
    remedy = "codec='gzip:4', or 'default'" if format == "deker" else "compress by gzip, zstd, lz4 or blosc"
    raise Unsupported(f"format {format} has no codec {names}", remedy=remedy)
