"""HDF5's filters as codecs, and codecs as filters; filters are named by their numbers in The HDF Group's registry.

A dataset lists its filters, and the options of a collection name one that compresses its arrays: the layout of DEKER
takes any filter of its HDF5 library, of which gzip alone needs no plug-in; the layout of hyperslab has codecs for some.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from hyperslab.codecs.blosc import CNAMES, SHUFFLES, config_of
from hyperslab.codecs.checksums import WORDS as CHECKSUMS
from hyperslab.codecs.registry import parse_codec
from hyperslab.errors import MissingLibrary, Unsupported
from hyperslab.formats.codec_kinds import inner_codecs
from hyperslab.model.spec import Codec

if TYPE_CHECKING:
    import h5py

    from hyperslab.model.schemas import HDF5CompressionOpts, HDF5Options

_SHUFFLES = tuple(SHUFFLES)
_FILTER_NAMES = {
    "lzf": "lzf",
    "szip": "szip",
    307: "bzip2",
    32000: "lzf",
    32008: "bitshuffle",
    32013: "zfp",
    32017: "sz",
}
_NO_FILTER = CHECKSUMS.keys() | {"bytes", "shuffle"}


def codec_from_filter(number: int, values: tuple[int, ...]) -> Codec:
    """Return the codec of a filter, by its registered number and values; ``hdf5_filter`` for one without a codec."""
    match number:
        case 1:
            return Codec("zlib", {"level": values[0] if values else 4})
        case 2:
            return Codec("shuffle", {"elementsize": values[0] if values else 1})
        case 3:
            return Codec("fletcher32")
        case 307:
            return Codec("bz2", {"level": values[0] if values else 9})
        case 32015:
            return Codec("zstd", {"level": values[0] if values else 3})
        case 32001 if len(values) > 6 and values[6] < len(CNAMES):
            config = {"cname": CNAMES[values[6]], "clevel": values[4], "shuffle": values[5], "blocksize": 0}
            return Codec("blosc", config)
        case _:
            return Codec("hdf5_filter", {"number": number, "values": list(values)})


_BUILT_IN = frozenset({4, 5, 6})
"""Filters without a codec here that every HDF5 library has: szip, nbit, scaleoffset."""


def list_plugin_filters(codecs: Sequence[Codec]) -> list[int]:
    """Return the numbers of the filters among ``codecs`` that the HDF5 of netCDF4 lacks: h5py may have them."""
    numbers = [int(codec.config["number"]) for codec in codecs if codec.name == "hdf5_filter"]
    return [number for number in numbers if number not in _BUILT_IN]


def require_filters(codecs: Sequence[Codec], url: str, node: str) -> None:
    """Raise Unsupported for a filter among ``codecs`` that h5py does not have, MissingLibrary where hdf5plugin may."""
    from h5py import h5z

    is_loaded = load_filter_plugin()
    for number in list_plugin_filters(codecs):
        if not h5z.filter_avail(number):
            name = _FILTER_NAMES.get(number)
            message = f"the cells went through HDF5's filter {number}{f' ({name})' if name else ''}, which is not here"
            if not is_loaded:
                raise MissingLibrary(message, url=url, node=node, remedy="pip install 'hyperslab[hdf5]'")
            remedy = "install what wrote the file, or its filter for HDF5, beside h5py"
            raise Unsupported(message, url=url, node=node, remedy=remedy)


def read_filters(dataset: h5py.Dataset) -> tuple[Codec, ...]:
    """Return the filters of an h5py dataset as codecs, in the order in which they are applied when writing."""
    plist = dataset.id.get_create_plist()
    found = (plist.get_filter(index) for index in range(plist.get_nfilters()))
    return tuple(codec_from_filter(number, tuple(values)) for number, _, values, _ in found)


def codecs_from_options(options: HDF5Options | None, dtype: np.dtype[np.generic]) -> tuple[Codec, ...]:
    """Return the codecs for the filter that ``options`` name; the default ones without options. Unsupported."""
    filter = None if options is None else options.compression_opts
    if filter is None:
        return parse_codec("default", dtype)
    opts = filter.compression_opts
    values = opts if isinstance(opts, tuple) else () if opts is None else (opts,)
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
                f"HDF5 filter {_FILTER_NAMES.get(other, other)!r} in the layout hyperslab",
                remedy='compress by gzip, zstd, lz4 or blosc, or choose layout="deker"',
            )


def _blosc(values: Sequence[int | str], dtype: np.dtype[np.generic]) -> tuple[Codec, ...]:
    """Return Blosc by the values of its filter: four that the filter itself sets, then level, shuffle, compressor."""
    numbers = [int(value) for value in values[4:7]]
    level, shuffle, name = numbers + [5, 1, 0][len(numbers) :]
    if name >= len(CNAMES) or shuffle >= len(_SHUFFLES):
        raise Unsupported(f"Blosc filter with the values {tuple(values)}", remedy="see hdf5plugin.Blosc")
    config = {"cname": CNAMES[name], "clevel": level, "shuffle": _SHUFFLES[shuffle]}
    return parse_codec({"name": "blosc", "configuration": config}, dtype)


def filter_from_codecs(codecs: Sequence[Codec], dtype: np.dtype[np.generic], format: str) -> HDF5CompressionOpts | None:
    """Return the filter that compresses as ``codecs`` do, None for the default codecs. Unsupported without one."""
    from hyperslab.model.schemas import HDF5CompressionOpts

    compressors = [codec for codec in inner_codecs(codecs) if codec.name not in _NO_FILTER]
    if not compressors or tuple(compressors) == parse_codec("default", dtype):
        return None
    codec = compressors[-1]
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
    names = "+".join(codec.name for codec in compressors)
    remedy = "codec='gzip:4', or 'default'" if format == "deker" else "compress by gzip, zstd, lz4 or blosc"
    raise Unsupported(f"format {format} has no codec {names}", remedy=remedy)


def load_filter_plugin() -> bool:
    """Import hdf5plugin, which registers its filters with the HDF5 library; return False if it is not installed."""
    try:
        import_module("hdf5plugin")
    except ImportError:
        return False
    return True
