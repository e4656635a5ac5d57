"""What the formats declare against a table that was written by hand from their specifications.

The columns are what a dataset of that kind can hold by its specification, in the places that it leaves to a writer too
(attributes and documents that other readers pass over): the reference pages of NCZarr, HDMF, Bloscpack and Blaze,
MongoDB and collections, the specifications of Zarr v2 and v3, the netCDF User's Guide, C-Blosc2's metalayers.
"""

from __future__ import annotations

import pytest

import hyperslab as hs
from hyperslab.formats import get_format
from hyperslab.formats.base import Feature

COLUMNS = (
    ("zarr2", "zarr2"),
    ("zarr3", "zarr3"),
    ("nczarr", "draft"),
    ("nczarr", "current"),
    ("hdmf", "v2"),
    ("hdmf", "v3"),
    ("bloscpack", "v3"),
    ("bloscpack", "blaze"),
    ("blaze", "blaze"),
    ("blaze", "bcolz"),
    ("b2nd", "b2nd"),
    ("mongo", "mongo"),
    ("collections", "collections"),
    ("deker", "deker"),
    ("netcdf", "netcdf"),
)
#                       zarr  nczarr   hdmf   bloscp.  blaze  b2nd mongo coll. deker netcdf
#                       2 3   dr cu   v2 v3   v3 bl   bl bc
TABLE = {
    Feature.GROUPS: "          x x   x  x   x  x   .  .   .  .   .    x     x     x     x",
    Feature.ARRAYS: "          x x   x  x   x  x   .  .   .  .   .    x     x     x     x",
    Feature.DIMENSIONS: "      x x   x  x   x  x   x  x   x  x   x    x     x     x     x",
    Feature.UNLIMITED: "       x x   x  x   x  x   x  x   x  x   x    x     x     .     x",
    Feature.ATTRIBUTES: "      x x   x  x   x  x   x  x   x  x   x    x     x     x     x",
    Feature.TYPED_ATTRIBUTES: "x x   x  x   x  x   x  x   x  x   x    x     x     x     x",
    Feature.STRINGS: "         x x   x  x   x  x   x  x   x  x   x    .     x     x     x",
    Feature.VLEN: "            x x   .  .   x  x   .  .   .  .   .    .     .     .     x",
    Feature.STRUCTURED: "      x x   x  .   x  x   x  x   x  .   x    .     x     x     x",
    Feature.SUBARRAYS: "       x .   x  .   x  .   x  x   x  .   x    .     x     x     x",
    Feature.USER_TYPES: "      x x   x  .   x  x   .  .   .  .   .    .     .     .     x",
    Feature.CHAR: "            x x   x  x   x  x   .  .   .  .   .    .     .     .     x",
    Feature.COMPLEX: "         x x   .  .   x  x   x  x   x  x   x    x     x     x     .",
    Feature.BOOLEAN: "         x x   .  .   x  x   x  x   x  x   x    x     x     x     x",
    Feature.DATETIME: "        x x   .  .   x  x   x  x   x  x   x    x     x     x     .",
    Feature.FLOAT16: "         x x   .  .   x  x   x  x   x  x   x    x     x     x     .",
    Feature.UNICODE: "         x x   .  .   x  x   x  x   x  x   x    x     x     x     .",
    Feature.FIXED_BYTES: "     x x   .  .   x  x   x  x   x  x   x    x     x     x     .",
    Feature.BIG_ENDIAN: "      x x   x  x   x  x   x  x   x  x   x    .     .     .     x",
    Feature.SCALARS: "         x x   x  x   x  x   x  x   x  x   x    x     x     x     x",
    Feature.CHUNKS: "          x x   x  x   x  x   x  x   x  x   x    x     x     x     x",
    Feature.VARYING_CHUNKS: "  . x   .  .   .  x   .  .   .  .   .    x     .     .     .",
    Feature.SHARDS: "          . x   .  .   .  x   .  .   x  .   .    .     .     .     .",
    Feature.CODECS: "          x x   x  x   x  x   x  x   x  x   x    .     x     x     x",
    Feature.CHECKSUMS: "       x x   x  x   x  x   x  x   x  .   .    .     x     .     x",
    Feature.LINKS: "           . .   .  .   x  x   .  .   .  .   .    .     .     .     .",
    Feature.REFERENCES: "      . .   .  .   x  x   .  .   .  .   .    .     .     .     .",
    Feature.SPARSE: "          . .   .  .   .  .   .  .   .  .   .    x     .     .     .",
    Feature.LABELS: "          x x   .  .   .  .   .  .   .  .   .    .     x     x     .",
    Feature.UNITS: "           x x   x  x   x  x   x  x   x  x   x    x     x     x     x",
}


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name.lower())
def test_every_format_declares_what_its_specification_holds(feature: Feature) -> None:
    marks = TABLE[feature].split()
    assert len(marks) == len(COLUMNS)
    infos = hs.list_formats()
    for (format, name), mark in zip(COLUMNS, marks, strict=True):
        variant = next(each for each in infos[format].variants if each.name == name)
        assert (feature in variant.features) == (mark == "x"), f"{format} {name}"


def test_the_table_names_every_variant() -> None:
    written = {format: info for format, info in hs.list_formats().items() if info.writable}
    declared = [(format, each.name) for format, info in written.items() for each in info.variants]
    assert sorted(declared) == sorted(COLUMNS)


def test_what_is_declared_is_what_conversion_asks() -> None:
    for format, info in hs.list_formats().items():
        found = get_format(format)
        assert found.features == info.variants[0].features
        for variant in info.variants:
            chosen = found.variant(variant.options)
            assert chosen.features == variant.features, f"{format} {variant.name}"
