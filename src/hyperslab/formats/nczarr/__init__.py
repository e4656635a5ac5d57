"""NCZarr: the netCDF-4 data model on Zarr v2, in the dialect that netcdf-c writes today and in the draft of 2018.

Specifications: https://docs.unidata.ucar.edu/nug/current/nczarr_head.html and, for what lies below,
https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html ::

    air.nczarr/
    ├── .zgroup            {"zarr_format": 2}
    ├── .zattrs            {"title": "…", "_nczarr_group": {"dimensions": …, "arrays": …, "groups": …}, …}
    ├── .zmetadata         consolidated metadata: a copy of all documents (optional; always in the draft)
    └── temperature/
        ├── .zarray        that of Zarr v2
        ├── .zattrs        {"units": "K", "_nczarr_array": {"dimension_references": ["/time", "/lat"], …}, …}
        └── 0.0            a chunk

``.zattrs`` of a group::

    {"title": "x", "_nczarr_group": {"dimensions": {"time": {"size": 3, "unlimited": 1}, "lat": 4},
     "arrays": ["temperature"], "groups": []}, "_nczarr_attr": {"types": {"title": ">S1"}}}

Every generation that netcdf-c wrote is read; the current dialect and the draft are written. Plain Zarr is read as
netCDF where the format is asked for by name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.formats.base import PROVENANCE, Feature, Format, FormatInfo, FormatTraits, Mode, Variant
from hyperslab.formats.documents import JsonMapping
from hyperslab.formats.nczarr.dialect import CONSOLIDATED, NczarrDialect
from hyperslab.formats.nczarr.generation import DRAFT_ONLY, NCZarrOptions
from hyperslab.formats.nczarr.reader import NczarrReader
from hyperslab.formats.nczarr.writer import NczarrWriter
from hyperslab.formats.zarr.opening import ZarrFormat, open_zarr
from hyperslab.formats.zarr.reader import ZarrReader
from hyperslab.stores.location import Location, Probe

_HOLDS = frozenset(
    {
        Feature.GROUPS,
        Feature.ARRAYS,
        Feature.DIMENSIONS,
        Feature.UNLIMITED,
        Feature.ATTRIBUTES,
        Feature.TYPED_ATTRIBUTES,
        Feature.STRINGS,
        Feature.CHAR,
        Feature.BIG_ENDIAN,
        Feature.SCALARS,
        Feature.CHUNKS,
        Feature.CODECS,
        Feature.CHECKSUMS,
        Feature.UNITS,
    }
)
_NETCDF = "netCDF has no such type"
_NOTES = {
    Feature.DIMENSIONS: "declared in groups; a second length of one name is stored as `name@length`",
    Feature.STRINGS: "UTF-8 in cells of one width, which follows from the longest text",
    Feature.VLEN: "no place in Zarr v2 that netcdf-c knows",
    **dict.fromkeys((Feature.COMPLEX, Feature.BOOLEAN, Feature.DATETIME, Feature.FLOAT16, Feature.UNICODE), _NETCDF),
    Feature.FIXED_BYTES: "what has this type in Zarr v2 is text in netCDF",
    Feature.UNITS: "the attribute `units`",
}
_NO_TYPES = dict.fromkeys(
    (Feature.USER_TYPES, Feature.STRUCTURED, Feature.SUBARRAYS),
    "the draft alone has user types; netcdf-c never wrote them",
)
_DRAFT_HOLDS = _HOLDS | {Feature.STRUCTURED, Feature.SUBARRAYS, Feature.USER_TYPES}
_MARKS = {
    ".zgroup": (b"_nczarr_superblock", b"_NCZARR_SUPERBLOCK"),
    ".zattrs": (b"_nczarr_superblock", b"_nczarr_group"),
    ".zdataset": (b"",),
    ".nczarr": (b"",),
}
# marks in consolidated metadata, which is searched as bytes: it may be large, and is decoded later by who needs it
_IN_COPY = (*_MARKS[".zgroup"], b"nczarr_version")
_OF_ARRAY = b"_nczarr_array"
_SAID_BY, _IS_COPY = PROVENANCE.encode(), b'"metadata"'
_COMMON = frozenset(["zlib", "bz2", "zstd", "blosc", "shuffle", "fletcher32"])


@dataclass(frozen=True)
class NczarrFormat(ZarrFormat):
    """NCZarr, read and written. ``dialect``: of a new dataset; the draft holds user types too."""

    dialect: Literal["current", "draft"] = "current"

    name = "nczarr"
    info = FormatInfo(
        "nczarr",
        "the netCDF-4 model on Zarr v2",
        "metadata of NCZarr in .zgroup or .zattrs, a .zdataset or .nczarr",
        True,
        (
            Variant("current", _HOLDS, {"dialect": "current"}, _NOTES | _NO_TYPES),
            Variant("draft", _DRAFT_HOLDS, {"dialect": "draft"}, _NOTES | {Feature.USER_TYPES: "in `.ztypedefs`"}),
        ),
    )

    @property
    def features(self) -> frozenset[Feature]:
        """Return what the dialect can hold."""
        return _DRAFT_HOLDS if self.dialect == "draft" else _HOLDS

    traits = FormatTraits(
        is_keyed=True,
        dimension_scope="group",
        shares_lengths=True,
        bounds_text=True,
        marks_nan=True,
        common_codecs=_COMMON,
        finds_damage=True,
    )
    is_known_by_root = True
    dialects = (NczarrDialect,)

    @property
    def metadata_dialect(self) -> NczarrDialect:
        """Return a new dialect of documents: one for each dataset, whose generation it learns."""
        return NczarrDialect(NCZarrOptions(dialect=self.dialect), self)

    def variant(self, options: JsonMapping) -> Format:
        return NczarrFormat("draft" if options.get("dialect") == "draft" else "current")

    reader = NczarrReader
    writer = NczarrWriter

    def sniff(self, probe: Probe) -> bool:
        """Return True where the root has metadata of NCZarr; a consolidated dataset is known by one request.

        So has a group or an array of a dataset: it must not be changed without what is around it.
        """
        copy = probe.get(CONSOLIDATED)
        if copy is not None and _IS_COPY in copy and _SAID_BY not in copy:
            return any(mark in copy for mark in _IN_COPY)
        if copy is not None and any(mark in copy for mark in _IN_COPY):
            return True
        if copy is None and probe.get(".zgroup") is None:  # every root has one; on a server each question is a request
            return probe.get(".zarray") is not None and _OF_ARRAY in (probe.get(".zattrs") or b"")
        for name, marks in _MARKS.items():
            if (document := probe.get(name)) is not None and any(map(document.__contains__, marks)):
                return True
        return _SAID_BY in (probe.get(".zattrs") or b"") and probe.has_any(DRAFT_ONLY)

    @property
    def options(self) -> tuple[str, ...]:
        return (*(field.name for field in fields(NCZarrOptions)), "consolidated")

    def open(
        self,
        where: Location,
        mode: Mode,
        *,
        settings: Settings = DEFAULTS,
        consolidated: bool = False,
        remembered: Probe | None = None,
        **options: Any,
    ) -> ZarrReader:
        """Open or make a dataset by :class:`NCZarrOptions`, ``settings``, ``consolidated`` and ``remembered``.

        A dataset of an older generation of netcdf-c, and one of plain Zarr, is ReadOnly.
        """
        nczarr_options = NCZarrOptions(**({"dialect": self.dialect} | options))
        dialect = NczarrDialect(nczarr_options, self)
        opened = open_zarr(
            self, dialect, where, mode, settings=settings, consolidated=consolidated, remembered=remembered
        )
        if mode != "r":
            dialect.raise_if_only_read(where.url)
        return opened


FORMAT = NczarrFormat()
