"""The options of a dataset, and what both profiles share: documents, groups with links, the place of specifications."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hyperslab.errors import Invalid
from hyperslab.formats.documents import object_or_empty
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.hdmf.attributes import (
    LAYOUT,
    LINKS,
    SPECIFICATIONS,
    SPECLOC,
    SPECLOC_PATH,
    AttributeNames,
    merge_attributes,
    raise_if_reserved,
    read_attributes,
    read_links,
    split_reserved,
    write_attributes,
    write_links,
)
from hyperslab.formats.opening import check_bool, check_choices
from hyperslab.formats.zarr.chunks import KeyOf
from hyperslab.formats.zarr.dialect import ConsolidatedDocs, Docs, MetadataDialect
from hyperslab.formats.zarr2.document import ZATTRS, Zarr2
from hyperslab.formats.zarr3.document import NAME as V3_NAME
from hyperslab.formats.zarr3.document import Zarr3
from hyperslab.model.paths import is_within, normalize
from hyperslab.model.spec import ArraySpec, GroupSpec

_CHOICES = {"profile": ("v2", "v3"), "object_codec": ("json2", "pickle")}


@dataclass(frozen=True, slots=True, kw_only=True)
class HdmfOptions:
    """``profile`` of a new dataset: on Zarr v2 or on Zarr v3. ``object_codec``: what references are stored with in
    profile v2; releases of hdmf-zarr up to 0.13 read rows with references only from ``pickle``, which is never executed
    here. ``region_attributes``: write region references in attributes of profile v2, which those releases cannot open.
    ``allow_external``: folders and URLs that links may lead to besides the folder of the dataset, True for all.
    """

    profile: Literal["v2", "v3"] = "v2"
    object_codec: Literal["json2", "pickle"] = "json2"
    region_attributes: bool = False
    allow_external: Sequence[str] | bool = ()

    def __post_init__(self) -> None:
        check_choices(self, _CHOICES)
        check_bool("region_attributes", self.region_attributes)
        if isinstance(self.allow_external, str):
            object.__setattr__(self, "allow_external", (self.allow_external,))
        allowed = self.allow_external
        if not isinstance(allowed, bool | Sequence) or (
            not isinstance(allowed, bool) and not all(isinstance(place, str) for place in allowed)
        ):
            raise Invalid(f"allow_external={allowed!r}", remedy="folders and URLs, or True for all")
        if not isinstance(allowed, bool):
            object.__setattr__(self, "allow_external", tuple(allowed))


SPECIFICATION_CODECS = frozenset({"json2", "vlen-utf8", "vlen-bytes"})


class HdmfProfile(MetadataDialect):
    """One profile's documents: those of Zarr (``zarr``) with the reserved attributes (``attribute_names``).

    ``layout["hdmf"]`` of a group: ``links`` (:class:`~hyperslab.model.refs.Link` by name) and ``specloc``; ``unread``
    are reserved attributes that make no sense there, ``references`` what stood for attributes that are references.
    """

    format = "hdmf"
    attribute_names: AttributeNames

    def __init__(self, zarr: Zarr2 | Zarr3, options: HdmfOptions) -> None:
        self._zarr: MetadataDialect = zarr
        self._options = options
        self.specloc = SPECIFICATIONS
        """The path of the group in which the specifications are, as the root said when it was parsed."""

    @property
    def options(self) -> HdmfOptions:
        """Return the options that the dataset was opened or made with."""
        return self._options

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of the documents that make a node."""
        return self._zarr.nodes

    @property
    def extras(self) -> tuple[str, ...]:
        """Return the names of documents that a node may have besides."""
        return self._zarr.extras

    @property
    def consolidated_name(self) -> str:
        """Return the name of the document that consolidated metadata stands in."""
        return self._zarr.consolidated_name

    @abstractmethod
    def specification(self) -> ArraySpec:
        """Return the array that the schema of one source is stored in."""

    def is_array(self, docs: Docs) -> bool:
        """Return whether the documents are those of an array."""
        return self._zarr.is_array(docs)

    def key_of(self, spec: ArraySpec) -> KeyOf:
        """Return the function that gives the key of a chunk, relative to the array's folder."""
        return self._zarr.key_of(spec)

    def read_consolidated(self, doc: Mapping[str, object]) -> ConsolidatedDocs | None:
        """Return the consolidated metadata in a document; None when damaged."""
        return self._zarr.read_consolidated(doc)

    def write_consolidated(self, holder: Docs, copy: ConsolidatedDocs) -> dict[str, object]:
        """Return the document ``consolidated_name`` with consolidated metadata."""
        return self._zarr.write_consolidated(holder, copy)

    def without_consolidated(self, doc: Mapping[str, object]) -> dict[str, object] | None:
        """Return the document ``consolidated_name`` without consolidated metadata."""
        return self._zarr.without_consolidated(doc)

    def is_specification(self, node: str) -> bool:
        """Return whether the path is the group of the specifications or below it."""
        return is_within(node, self.specloc)

    # -- groups -----------------------------------------------------------------------------------------------------

    def read_group(
        self, spec: GroupSpec | ArraySpec, stored: Mapping[str, Any], node: str, problems: Problems
    ) -> GroupSpec | ArraySpec:
        """Add links, references and the place of the specifications to the group that Zarr's own format parsed."""
        own, rest = split_reserved(stored)
        links, others = read_links(own.pop(self.attribute_names.links, []), self.attribute_names.links, problems)
        unread: dict[str, Any] = {self.attribute_names.links: others} if others else {}
        specloc = None if node else _read_specloc(own, problems)
        self.specloc = self.specloc if node else specloc or SPECIFICATIONS
        unread |= {name: value for name, value in own.items() if name != SPECLOC or specloc is None}
        attrs, stored_references = read_attributes(spec.attrs, rest, self.attribute_names, problems)
        own_layout: dict[str, Any] = {LINKS: links, SPECLOC_PATH: specloc}
        own_layout |= {name: part for name, part in (("unread", unread), ("references", stored_references)) if part}
        return spec.evolve(attrs=attrs, layout={**spec.layout, LAYOUT: own_layout})

    def write_group(self, spec: GroupSpec) -> Docs:
        """Return the documents of a group: those of Zarr's own format with the reserved attributes."""
        own_layout = spec.layout.get(LAYOUT, {})
        own: dict[str, Any] = dict(own_layout.get("unread", {}))
        links = write_links(
            own_layout.get(LINKS, {}), own.pop(self.attribute_names.links, ()), self.attribute_names.profile
        )
        if links:
            own[self.attribute_names.links] = links
        if own_layout.get(SPECLOC_PATH):
            own[SPECLOC] = own_layout[SPECLOC_PATH]
        docs = self.write_node(spec, spec)
        return replace_attributes(docs, stored_attributes(docs) | own)

    def write_node(self, spec: GroupSpec | ArraySpec, stored: GroupSpec | ArraySpec) -> Docs:
        """Return the documents of `stored` with the attributes of `spec`; Invalid for a reserved name."""
        raise_if_reserved(spec.attrs)
        stored_references = spec.layout.get(LAYOUT, {}).get("references", {})
        regions = self._options.region_attributes
        plain, encoded = write_attributes(spec.attrs, stored_references, self.attribute_names, regions=regions)
        docs = self._zarr.render(stored.evolve(attrs=plain))
        return replace_attributes(docs, merge_attributes(stored_attributes(docs), encoded, spec.attrs))

    # -- arrays -----------------------------------------------------------------------------------------------------

    def with_references(self, spec: ArraySpec, stored: Mapping[str, Any], problems: Problems) -> ArraySpec:
        """Return the array with those of its attributes that are references; ``stored`` are its attributes."""
        attrs, stored_references = read_attributes(spec.attrs, stored, self.attribute_names, problems)
        own_layout = (
            {**spec.layout[LAYOUT], "references": stored_references} if stored_references else spec.layout[LAYOUT]
        )
        return spec.evolve(attrs=attrs, layout={**spec.layout, LAYOUT: own_layout})


def stored_attributes(docs: Docs) -> dict[str, Any]:
    """Return the stored attributes of a node, in either version of Zarr; ``{}`` where they are no object."""
    doc = docs.get(V3_NAME)
    found = docs.get(ZATTRS, {}) if doc is None else doc.get("attributes", {})
    return object_or_empty(found)


def replace_attributes(docs: Docs, attributes: Mapping[str, object]) -> Docs:
    """Return the documents of a node with these attributes in place of the stored ones."""
    if V3_NAME in docs:
        return docs | {V3_NAME: {**docs[V3_NAME], "attributes": dict(attributes)}}
    return docs | {ZATTRS: dict(attributes)}


def _read_specloc(own: Mapping[str, object], problems: Problems) -> str | None:
    """Return the path that the root names, without a leading slash; None where it names none that is one."""
    path_text = own.get(SPECLOC)
    if path_text is None:
        return None
    try:
        path = normalize(path_text) if isinstance(path_text, str) else ""
    except Invalid:
        path = ""
    if not path:
        problems.warn(
            "specloc", f"{SPECLOC} is {shorten(path_text)}, not the path of a group; {SPECIFICATIONS} is assumed"
        )
        return None
    return path
