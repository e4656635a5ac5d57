"""How collections hold what they hold, and why they lack what they lack, in every layout."""

from __future__ import annotations

from hyperslab.formats.base import Feature

_BESIDE = "in `collections.json` beside the collections, at most 16 MiB an array"
NOTES = {
    Feature.GROUPS: "collections are groups of arrays; any others stand in `collections.json`",
    Feature.TYPED_ATTRIBUTES: "of an array of its own; one of a collection has the attributes of its schema",
    **dict.fromkeys((Feature.STRINGS, Feature.STRUCTURED, Feature.SUBARRAYS, Feature.BOOLEAN), _BESIDE),
    **dict.fromkeys((Feature.DATETIME, Feature.UNICODE, Feature.FIXED_BYTES, Feature.SCALARS), _BESIDE),
    Feature.VLEN: "a schema says numbers of one size",
    Feature.BIG_ENDIAN: "a schema says types without a byte order",
    Feature.VARYING_CHUNKS: "a schema has one tile length per dimension",
    Feature.SHARDS: "each tile is one already, nobody chooses",
    Feature.LABELS: "scales, words and regular times of the schema",
}
"""How features are held or lacking in every layout."""
