"""Zarr format 2: groups and arrays as JSON documents and chunks under the keys of a store.

Specification: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html ::

    air.zarr/
    ├── .zgroup            {"zarr_format": 2}
    ├── .zattrs            {"title": "…"}
    ├── .zmetadata         consolidated metadata: a copy of all documents (optional)
    └── temperature/
        ├── .zarray
        ├── .zattrs        {"_ARRAY_DIMENSIONS": ["time", "lat"], "units": "K"}
        ├── 0.0            a chunk: cells under filters and a compressor
        └── 0.1

``.zarray``::

    {"zarr_format": 2, "shape": [10, 8], "chunks": [5, 4], "dtype": "<f4", "fill_value": null, "order": "C",
     "filters": null, "compressor": {"id": "zstd", "level": 3}, "dimension_separator": "."}
"""

from __future__ import annotations

from dataclasses import dataclass

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.formats.base import Feature, Format, FormatInfo, FormatTraits, Mode, Reader, Variant
from hyperslab.formats.documents import JsonMapping
from hyperslab.formats.opening import check_choices
from hyperslab.formats.zarr.opening import PLAIN_NOTES, ZarrFormat, open_zarr
from hyperslab.formats.zarr2.document import CONSOLIDATED, SEPARATORS, ZARRAY, ZGROUP, Separator, Zarr2
from hyperslab.stores.location import Location, Probe

_LACKS = {Feature.VARYING_CHUNKS, Feature.SHARDS, Feature.LINKS, Feature.REFERENCES, Feature.SPARSE}
_NOTES = PLAIN_NOTES | {
    Feature.DIMENSIONS: "in the attribute `_ARRAY_DIMENSIONS`, as xarray reads them",
    Feature.STRINGS: "objects with the filter `vlen-utf8`",
    Feature.VLEN: "objects with the filter `vlen-bytes` or `vlen-array`",
    Feature.VARYING_CHUNKS: "a document has one length per dimension",
}


@dataclass(frozen=True)
class Zarr2Format(ZarrFormat):
    """Zarr format 2, read and written. ``dimension_separator``: between the numbers in chunk keys of new arrays."""

    dimension_separator: Separator | None = None

    name = "zarr2"
    features = frozenset(Feature) - _LACKS
    """With the attribute ``_hyperslab`` for what plain Zarr cannot say."""
    info = FormatInfo(
        "zarr2",
        "trees of groups and chunked arrays",
        "a .zgroup, .zarray or .zmetadata",
        True,
        (Variant("zarr2", features, notes=_NOTES),),
    )
    traits = FormatTraits(
        is_keyed=True, keeps_consolidated=True, fill_value="missing", marks_nan=True, native_kinds="b"
    )

    def variant(self, options: JsonMapping) -> Format:
        separator = options.get("dimension_separator")
        return next((Zarr2Format(each) for each in SEPARATORS if each == separator), self)

    metadata_dialect = Zarr2()
    dialects = (Zarr2,)

    def open(
        self,
        where: Location,
        mode: Mode,
        *,
        settings: Settings = DEFAULTS,
        remembered: Probe | None = None,
        consolidated: bool = False,
        dimension_separator: Separator | None = None,
    ) -> Reader:
        """Open or make a dataset. ``consolidated``: write consolidated metadata even where there is none;
        ``dimension_separator``: as the format's, unless None."""
        dialect = Zarr2()
        dialect.dimension_separator = self.dimension_separator
        if dimension_separator is not None:
            dialect.dimension_separator = dimension_separator
            check_choices(dialect, {"dimension_separator": SEPARATORS})
        return open_zarr(
            self, dialect, where, mode, settings=settings, consolidated=consolidated, remembered=remembered
        )

    def sniff(self, probe: Probe) -> bool:
        """Return True where the root has one of the documents; a consolidated dataset is known by one request."""
        return probe.has_any((CONSOLIDATED, ZGROUP, ZARRAY))


FORMAT = Zarr2Format()
