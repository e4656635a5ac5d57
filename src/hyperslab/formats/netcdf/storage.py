"""How a variable is laid out in a netCDF-4 file: the arguments of ``createVariable`` and the codecs they amount to.

HDF5 applies a checksum first, then the byte shuffle, then one compressor; netCDF knows no other order. The Blosc filter
that comes with netCDF4 fails on chunks that do not get smaller, so what was in Blosc is written with zlib or zstd.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hyperslab.chunks.auto import longest_chunk
from hyperslab.errors import Unsupported
from hyperslab.formats.netcdf.document import is_hidden
from hyperslab.model.dtypes import is_fixed
from hyperslab.model.spec import ArraySpec, Codec

_PLAIN = {"zlib": "zlib", "gzip": "zlib", "zstd": "zstd", "bz2": "bzip2"}
_CHECKSUMS = frozenset({"fletcher32", "crc32c", "crc32", "adler32"})
_IMPLIED = frozenset({"bytes", "vlen-utf8", "vlen-array", "vlen-bytes"})
_LEVELS = {"zlib": (1, 9), "gzip": (1, 9), "bz2": (1, 9), "zstd": (1, 22)}


@dataclass(frozen=True, slots=True)
class Storage:
    """``chunks`` None: in one piece. ``compressor`` is one of netCDF's, under our name."""

    chunks: tuple[int, ...] | None
    checksum: bool = False
    shuffle: bool = False
    compressor: Codec | None = None

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``createVariable``."""
        if self.chunks is None:
            return {"contiguous": True}
        given: dict[str, Any] = {"chunksizes": self.chunks, "fletcher32": self.checksum}
        if self.compressor is None:
            return given
        name, level = _PLAIN[self.compressor.name], self.compressor.config["level"]
        return given | {"compression": name, "complevel": level, "shuffle": self.shuffle}

    def codecs(self, itemsize: int) -> tuple[Codec, ...]:
        """What a reader of the file will find."""
        found = [Codec("fletcher32")] if self.checksum else []
        found += [Codec("shuffle", {"elementsize": itemsize})] if self.shuffle else []
        return (*found, self.compressor) if self.compressor is not None else tuple(found)


def storage_of(spec: ArraySpec, unlimited: tuple[bool, ...]) -> Storage:
    """Where the cells of ``spec`` go: chunks are cut to the length of limited dimensions; what lay in one piece
    does so again where it can. Unsupported names a codec that netCDF does not have."""
    chunks = tuple(
        cut if free else max(1, min(cut, length))
        for cut, length, free in zip(longest_chunk(spec.chunks), spec.shape, unlimited, strict=True)
    )
    checksum, shuffle, compressor = _steps(spec)
    bare = compressor is None and not checksum and not any(unlimited)
    if not spec.shape or (bare and spec.layout.get("contiguous")):
        return Storage(None)
    return Storage(chunks, checksum, shuffle, compressor)


def _steps(spec: ArraySpec) -> tuple[bool, bool, Codec | None]:
    checksum = shuffle = False
    compressor: Codec | None = None
    for codec in spec.codecs:
        if codec.name in _CHECKSUMS:
            checksum = True
        elif codec.name == "shuffle":
            shuffle = True
        elif codec.name in _PLAIN:
            compressor = _compressor(codec.name, codec.config.get("level"))
        elif codec.name == "blosc":
            shuffle = codec.config.get("shuffle", 1) not in (0, "noshuffle")
            name = "zstd" if codec.config.get("cname") == "zstd" else "zlib"
            compressor = _compressor(name, codec.config.get("clevel"))
        elif codec.name == "hdf5_filter":
            compressor, shuffle = _compressor("zlib", None), True
        elif codec.name not in _IMPLIED:
            raise Unsupported(f"netCDF has no codec {codec.name!r}", remedy="use zlib, zstd, bz2 or fletcher32")
    if not is_fixed(spec.dtype) or is_hidden(spec.dtype):
        return False, False, None
    shuffled = shuffle and compressor is not None and compressor.name == "zlib"
    return checksum, shuffled, compressor


def _compressor(name: str, asked: object) -> Codec | None:
    """The compressor under netCDF's name for it, with a level that it takes; None for level 0 (store)."""
    level = asked if isinstance(asked, int) else 4
    if level == 0 and name != "zstd":
        return None
    low, high = _LEVELS[name]
    return Codec("zlib" if name == "gzip" else name, {"level": max(low, min(high, level or 3))})
