"""HDMF and NWB on Zarr: groups and arrays with links, references and the schemas that they follow.

Specification: https://hdmf-zarr.readthedocs.io/en/stable/storage.html, of which there are two profiles. That of Zarr v2
is what hdmf-zarr wrote up to 0.13, that of Zarr v3 what it writes since 0.14 ::

    session.nwb.zarr/
    ├── .zgroup            {"zarr_format": 2}
    ├── .zattrs            {".specloc": "specifications", "neurodata_type": "NWBFile", "object_id": "b8a1…", …}
    ├── .zmetadata         consolidated metadata: a copy of all documents (always)
    ├── acquisition/
    │   ├── .zgroup
    │   ├── .zattrs        {"zarr_link": [{"name": "raw", "path": "/acquisition/es", "source": ".", …}]}
    │   └── es/
    │       ├── .zarray    that of Zarr v2
    │       ├── .zattrs    {"zarr_dtype": "object", "_ARRAY_DIMENSIONS": ["num_times"], …}
    │       └── 0          a chunk
    └── specifications/core/2.11.0/nwb.base/…      a schema: one JSON text

In the profile of Zarr v3 each node has one ``zarr.json``, in whose attributes ``_LINKS``, ``_DTYPE``, ``_REFERENCE``
and ``_REFERENCE_FIELDS`` say the same. Both are read and written; pickles are read without being executed.

- ``profile``, ``v2``, ``v3``: the documents of a node, as specs and back (pure); ``attributes``: reserved names, links,
  references and values in attributes; ``cell_types``: what cells are by the type names of documents
- ``reader``, ``writer``: an open dataset; ``reference_ids``: object ids added to what is written
- ``link_sources``: which dataset the ``source`` of a link means, and whether it may be opened
- ``document_survey``, ``link_diagnosis``, ``lengths``, ``rules``: what ``check`` finds and ``repair`` mends
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats.base import Feature, Format, FormatInfo, FormatTraits, Mode, Variant
from hyperslab.formats.codec_kinds import BYTES
from hyperslab.formats.hdmf.profile import HdmfOptions, HdmfProfile
from hyperslab.formats.hdmf.reader import HdmfReader
from hyperslab.formats.hdmf.rules import HdmfCheckReader, HdmfRepairWriter
from hyperslab.formats.hdmf.v2 import HdmfV2
from hyperslab.formats.hdmf.v3 import HdmfV3
from hyperslab.formats.hdmf.writer import HdmfDocuments, HdmfWriter
from hyperslab.formats.zarr.opening import EXTENDED_NOTES, ZarrFormat, open_zarr
from hyperslab.formats.zarr3.codecs import COMMON
from hyperslab.stores.base import Store
from hyperslab.stores.location import Location, Probe

ProfileName = Literal["v2", "v3"]
_LACKS = {
    "v2": {Feature.VARYING_CHUNKS, Feature.SHARDS, Feature.SPARSE, Feature.LABELS},
    "v3": {Feature.SUBARRAYS, Feature.SPARSE, Feature.LABELS},
}
_NOTES = EXTENDED_NOTES | {Feature.LABELS: "no word for them beside coordinate arrays"}
_NOTES_OF: dict[ProfileName, dict[Feature, str]] = {
    "v2": {
        Feature.SCALARS: "shape `[1]`, marked `scalar`",
        Feature.VARYING_CHUNKS: "a document of Zarr v2 has one length per dimension",
        Feature.LINKS: "the attribute `zarr_link` of their group",
        Feature.REFERENCES: "`zarr_dtype`, and cells of JSON",
    },
    "v3": {
        Feature.SUBARRAYS: "`struct` of Zarr v3 has no arrays as fields",
        Feature.LINKS: "the attribute `_LINKS` of their group",
        Feature.REFERENCES: "`_DTYPE`, `_REFERENCE`, and cells of text",
    },
}
_DOCUMENT_3 = "zarr.json"
# Searched in the raw bytes: no document is parsed to detect the format.
_MARKS = re.compile(
    rb'"(?:neurodata_type|\.specloc|zarr_link|zarr_dtype|_LINKS|_DTYPE|_REFERENCE|_REFERENCE_FIELDS'
    rb'|specifications/[^"/]+/[^"/]+/namespace(?:/\.zarray)?)"\s*:'
)
_OF_NCZARR = re.compile(rb'"(?:_nczarr_(?:superblock|group|array)|nczarr_version)"\s*:')
"""Marks of a dataset of NCZarr, whose attributes may be those of an NWB file that it was made from."""
# A root without attributes is one whose writer died early. Its first few nodes tell, and each costs one request.
_MOST_CHILDREN = 4


@dataclass(frozen=True)
class HdmfFormat(ZarrFormat):
    """HDMF on Zarr, read and written. ``profile``: of a new dataset, and of one that it is the variant of;
    ``allow_external``: the places that links are followed to unless a call names others."""

    profile: ProfileName = "v2"
    allow_external: Sequence[str] | bool = ()

    @property
    def name(self) -> str:
        return "hdmf"

    @property
    def features(self) -> frozenset[Feature]:
        """Return the features that the profile can hold."""
        return frozenset(Feature) - _LACKS[self.profile]

    @property
    def traits(self) -> FormatTraits:
        """Return what else is to be known of it: readers know the codecs of the Zarr version below the profile;
        numcodecs has all of v2."""
        codecs = COMMON if self.profile == "v3" else BYTES
        return FormatTraits(
            is_keyed=True, repeats_dimensions=True, links_datasets=True, common_codecs=codecs, finds_damage=True
        )

    @property
    def info(self) -> FormatInfo:
        """Return the format's line of ``list_formats``."""
        signs = "Zarr with a neurodata_type, a .specloc, links or data types of HDMF in its attributes"
        variants = tuple(
            Variant(name, HdmfFormat(name).features, {"profile": name}, _NOTES | _NOTES_OF[name]) for name in _NOTES_OF
        )
        return FormatInfo("hdmf", "the HDMF and NWB model on Zarr", signs, True, variants)

    is_known_by_root = True
    dialects = (HdmfV2, HdmfV3)

    @property
    def metadata_dialect(self) -> HdmfProfile:
        """Return the dialect of the profile: the names of its documents, and how they read."""
        return _make_dialect(HdmfOptions(profile=self.profile))

    def variant(self, options: Mapping[str, object]) -> Format:
        return HdmfFormat("v3" if options.get("profile", self.profile) == "v3" else "v2")

    def at(self, probe: Probe) -> Format:
        """Return the format of the profile that the dataset at a place has."""
        return HdmfFormat("v2" if probe.get(_DOCUMENT_3) is None else "v3")

    def allowing(self, places: Sequence[str] | bool) -> Format:
        return replace(self, allow_external=HdmfOptions(allow_external=places).allow_external)

    writer = HdmfDocuments

    def check_reader(self, store: Store, dialect: HdmfProfile, settings: Settings, where: Location) -> HdmfCheckReader:
        """Return a reader of the dataset at `where` that `check` uses; nothing is read yet."""
        return HdmfCheckReader(store, dialect, settings, where, self.allow_external)

    def repair_writer(
        self, store: Store, dialect: HdmfProfile, settings: Settings, where: Location
    ) -> HdmfRepairWriter:
        return HdmfRepairWriter(store, dialect, settings, where, self.allow_external)

    def sniff(self, probe: Probe) -> bool:
        """Return True if a document of the root has words of HDMF; a consolidated dataset is known by one or two
        requests.

        A dataset whose writer died has documents of its first groups alone.
        """
        if (document := probe.get(_DOCUMENT_3)) is not None:
            return _has_marks(document)
        # Before ``.zgroup``: the copy has the documents of all nodes, so that one more request tells, also on a server.
        if (copy := probe.get(".zmetadata")) is not None:
            return _has_marks(copy) and _OF_NCZARR.search(copy) is None
        if probe.get(".zgroup") is None and probe.get(".zarray") is None:
            return False
        attributes = probe.get(".zattrs")
        has_marks = _has_marks(attributes) if attributes is not None else _children_have_marks(probe)
        return has_marks and _OF_NCZARR.search(attributes or b"") is None and probe.get(".zdataset") is None

    @property
    def options(self) -> tuple[str, ...]:
        return (*(field.name for field in fields(HdmfOptions)), "consolidated")

    def open(
        self,
        where: Location,
        mode: Mode,
        *,
        settings: Settings = DEFAULTS,
        consolidated: bool = True,
        remembered: Probe | None = None,
        **options: Any,
    ) -> HdmfReader:
        """Open or make a dataset; options: those of :class:`HdmfOptions`, ``settings``, ``remembered``.

        ``consolidated`` is always true. The profile of a dataset that is there follows from its documents.
        """
        if consolidated is not True:
            raise Invalid(f"consolidated={consolidated!r}", remedy="a dataset of format hdmf always is; leave it out")
        chosen = HdmfOptions(**({"profile": self.profile, "allow_external": self.allow_external} | options))
        if mode in ("r", "r+"):
            remembered = remembered or Probe(where)
            profile = _profile_at(remembered) or chosen.profile
            chosen = chosen if profile == chosen.profile else replace(chosen, profile=profile)
        variant = HdmfFormat(chosen.profile)
        dialect = _make_dialect(chosen)
        documents = open_zarr(
            self, dialect, where, mode, settings=settings, consolidated=True, at_once=False, remembered=remembered
        )
        if isinstance(documents, HdmfDocuments):
            return HdmfWriter(documents, where, chosen, variant, dialect)
        return HdmfReader(documents, where, chosen, variant)


def _make_dialect(options: HdmfOptions) -> HdmfProfile:
    return HdmfV3(options) if options.profile == "v3" else HdmfV2(options)


def _has_marks(data: bytes | None) -> bool:
    return data is not None and _MARKS.search(data) is not None


def _children_have_marks(probe: Probe) -> bool:
    """Return True if one of the first nodes below a root without attributes, or a schema, has words of HDMF."""
    try:
        names = sorted(probe.store.list_dir("")[1])
    except HyperslabError:  # a web server that lists nothing
        return False
    return "specifications" in names or any(_has_marks(probe.get(f"{name}/.zattrs")) for name in names[:_MOST_CHILDREN])


def _profile_at(probe: Probe) -> ProfileName | None:
    """Return the profile of the dataset at a place, None where there is none."""
    if _DOCUMENT_3 not in probe.seen and not probe.where.exists():
        return None
    return "v2" if probe.get(_DOCUMENT_3) is None else "v3"


FORMAT = HdmfFormat()
