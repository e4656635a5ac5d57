"""The data and the layouts that every library writes and reads: shape, chunks, codec in each library's words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


@dataclass(frozen=True)
class Codec:
    """One codec: Zarr v3's document (None: only in v2), hyperslab's word, and the arguments of netCDF4 and h5py."""

    name: str
    v3: tuple[dict[str, Any], ...] | None
    ours: Any
    netcdf: dict[str, Any]
    hdf5: str


LZ4 = Codec(
    "blosc-lz4",
    (
        {
            "name": "blosc",
            "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
        },
    ),
    "blosc:lz4:5",
    {"compression": "blosc_lz4", "complevel": 5, "blosc_shuffle": 1},
    "blosc",
)
NONE = Codec("uncompressed", (), None, {}, "none")
ZSTD = Codec(
    "zstd",
    ({"name": "zstd", "configuration": {"level": 3, "checksum": False}},),
    "zstd:3",
    {"compression": "zstd", "complevel": 3, "shuffle": False},
    "zstd",
)
ZLIB = Codec(
    "zlib+shuffle", None, "shuffle+zlib:1", {"compression": "zlib", "complevel": 1, "shuffle": True}, "zlib+shuffle"
)
CODECS = (LZ4, NONE, ZSTD, ZLIB)


@dataclass(frozen=True)
class Layout:
    """A 2-D float32 array: its shape, chunks, perhaps shards around them, and codec."""

    shape: tuple[int, int]
    chunks: tuple[int, int]
    codec: Codec
    shards: tuple[int, int] | None = None

    @property
    def title(self) -> str:
        """``256 MiB, blosc-lz4, chunks of 4 MiB``."""
        return f"{_size(self.shape)}, {self.codec.name}, chunks of {_size(self.chunks)}"

    @property
    def zarr_format(self) -> int:
        """2 where Zarr v3 has no such codec."""
        return 2 if self.codec.v3 is None else 3

    @property
    def document(self) -> dict[str, Any]:
        """The Zarr v3 metadata that tensorstore takes."""
        inner = [LITTLE, *(self.codec.v3 or ())]
        sharding = {"chunk_shape": list(self.chunks), "codecs": inner, "index_codecs": [LITTLE, {"name": "crc32c"}]}
        return {
            "shape": list(self.shape),
            "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.shards or self.chunks)}},
            "codecs": [{"name": "sharding_indexed", "configuration": sharding}] if self.shards else inner,
        }


def _size(shape: tuple[int, int]) -> str:
    kibibytes = shape[0] * shape[1] * 4 // 1024
    return f"{kibibytes // 1024} MiB" if kibibytes >= 1024 else f"{kibibytes} KiB"


@cache
def field(shape: tuple[int, int]) -> Values:
    """A smooth field plus noise, in float32; the same every time."""
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    smooth = 280 + 20 * np.sin(rows / 700) * np.cos(columns / 900)
    noise = np.random.default_rng(7).standard_normal(shape, dtype=np.float32)
    values = smooth.astype(np.float32) + np.float32(0.02) * noise
    values.flags.writeable = False
    return values
