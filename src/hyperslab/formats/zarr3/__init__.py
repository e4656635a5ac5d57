"""Zarr format 3: one JSON document per group and array, chunks or shards of chunks under the keys of a store.

Specification: https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html ::

    air.zarr/
    ├── zarr.json               {"zarr_format": 3, "node_type": "group", "attributes": {"title": "…"}}
    └── temperature/
        ├── zarr.json
        └── c/0/0               a chunk, or a shard of chunks

``temperature/zarr.json``::

    {"zarr_format": 3, "node_type": "array", "shape": [10, 8], "data_type": "float32",
     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 4]}},
     "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
     "fill_value": 0.0, "dimension_names": ["time", "lat"], "attributes": {"units": "K"},
     "codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": 3, "checksum": false}}, {"name": "crc32c"}]}
"""

from __future__ import annotations

from dataclasses import dataclass

from hyperslab.formats.base import Feature, FormatInfo, FormatTraits, Variant
from hyperslab.formats.zarr.node_search import NodeSearch
from hyperslab.formats.zarr.opening import PLAIN_NOTES, ZarrFormat
from hyperslab.formats.zarr3.codecs import COMMON
from hyperslab.formats.zarr3.document import NAME, Zarr3
from hyperslab.stores.location import Probe

_LACKS = {Feature.SUBARRAYS, Feature.LINKS, Feature.REFERENCES, Feature.SPARSE}
_FORMAT_2 = (".zmetadata", ".zgroup", ".zarray")
_NOTES = PLAIN_NOTES | {
    Feature.DIMENSIONS: "`dimension_names`",
    Feature.VARYING_CHUNKS: "the grid `rectilinear`",
    Feature.SUBARRAYS: "`struct` has no arrays as fields",
}


@dataclass(frozen=True)
class Zarr3Format(ZarrFormat):
    """Zarr format 3, read and written."""

    name = "zarr3"
    features = frozenset(Feature) - _LACKS
    """With the attribute ``_hyperslab`` for what plain Zarr cannot say."""
    info = FormatInfo(
        "zarr3",
        "trees of groups and chunked or sharded arrays",
        "a zarr.json; also in repositories of icechunk (icechunk+file:// ...)",
        True,
        (Variant("zarr3", features, notes=_NOTES),),
    )
    traits = FormatTraits(
        is_keyed=True,
        keeps_consolidated=True,
        fill_value="apart",
        marks_nan=True,
        native_kinds="b",
        common_codecs=COMMON,
        shards_many=True,
    )

    metadata_dialect = Zarr3()
    dialects = (Zarr3,)

    def sniff(self, probe: Probe) -> bool:
        """Return True where the root has a ``zarr.json``, or is the place of nodes that have one and of no other
        documents."""
        if probe.get(NAME) is not None:
            return True
        if probe.has_any(_FORMAT_2) or not probe.where.is_dir():
            return False
        search = NodeSearch.of(probe.store, (NAME,))
        found = search.holds_nodes("")
        probe.folders_searched = search.looked
        return found

    def is_bare(self, probe: Probe) -> bool:
        """Return True where the root has no ``zarr.json``."""
        return probe.get(NAME) is None


FORMAT = Zarr3Format()
