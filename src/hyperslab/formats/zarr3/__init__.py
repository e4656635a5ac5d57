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
from typing import Any

from hyperslab.formats.base import Feature, FormatInfo, Mode, Variant
from hyperslab.formats.zarr.opening import open_zarr
from hyperslab.formats.zarr.reader import ZarrReader, holds_nodes
from hyperslab.formats.zarr3.codecs import COMMON
from hyperslab.formats.zarr3.document import NAME, Zarr3
from hyperslab.stores.location import Location, Probe

_LACKS = frozenset({Feature.SUBARRAYS, Feature.LINKS, Feature.REFERENCES, Feature.SPARSE})
_FORMAT_2 = (".zmetadata", ".zgroup", ".zarray")
_OURS = "in the attribute `_hyperslab`, which other readers pass over"
_NOTES = {
    Feature.DIMENSIONS: "`dimension_names`",
    **dict.fromkeys((Feature.UNLIMITED, Feature.TYPED_ATTRIBUTES, Feature.USER_TYPES, Feature.CHAR), _OURS),
    Feature.LABELS: _OURS,
    Feature.VARYING_CHUNKS: "the grid `rectilinear`",
    Feature.SUBARRAYS: "`struct` has no arrays as fields",
    Feature.LINKS: "no word for them; format hdmf has",
    Feature.REFERENCES: "no word for them; format hdmf has",
}


@dataclass(frozen=True)
class Zarr3Format:
    """Zarr format 3, read and written."""

    @property
    def name(self) -> str:
        """Return ``zarr3``."""
        return "zarr3"

    @property
    def features(self) -> frozenset[Feature]:
        """Return what it can hold, with the attribute ``_hyperslab`` for what plain Zarr cannot say."""
        return frozenset(Feature) - _LACKS

    @property
    def common_codecs(self) -> frozenset[str]:
        """Return the codecs that the specification has."""
        return COMMON

    @property
    def info(self) -> FormatInfo:
        """Return its line of ``list_formats``."""
        variants = (Variant("zarr3", self.features, notes=_NOTES),)
        return FormatInfo("zarr3", "trees of groups and chunked or sharded arrays", "a zarr.json", True, variants)

    @property
    def metadata_dialect(self) -> Zarr3:
        """Return the dialect of its documents."""
        return Zarr3()

    def sniff(self, probe: Probe) -> bool:
        """Return whether the root has a ``zarr.json``, or is the place of nodes that have one and of no other
        documents.
        """
        if probe.get(NAME) is not None:
            return True
        if not probe.where.is_dir() or any(probe.get(name) is not None for name in _FORMAT_2):
            return False
        return holds_nodes(probe.store, "", (NAME,))

    def open(self, where: Location, mode: Mode, **options: Any) -> ZarrReader:
        """Open or make a dataset; options: ``settings``, ``consolidated``, ``remembered``."""
        return open_zarr(Zarr3(), where, mode, **options)


FORMAT = Zarr3Format()
