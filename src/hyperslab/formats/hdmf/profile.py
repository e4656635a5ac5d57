"""The options of a dataset, and what both profiles share: documents, groups with links, the place of specifications."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from hyperslab.errors import Invalid
from hyperslab.formats.documents import object_or_empty
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.hdmf.attributes import (
    LAYOUT,
    LINKS,
    RESERVED,
    SPECIFICATIONS,
    SPECLOC,
    SPECLOC_PATH,
    merge_attributes,
    read_attributes,
    read_links,
    write_attributes,
    write_links,
)
from hyperslab.formats.hdmf.cell_types import ProfileName
from hyperslab.formats.opening import check_bool, check_choices
from hyperslab.formats.zarr.dialect import Docs, MetadataDialect
from hyperslab.formats.zarr2.document import ZATTRS
from hyperslab.formats.zarr3.document import NAME as V3_NAME
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

    profile: ProfileName = "v2"
    object_codec: Literal["json2", "pickle"] = "json2"
    region_attributes: bool = False
    allow_external: Sequence[str] | bool = ()

    def __post_init__(self) -> None:
        check_choices(self, _CHOICES)
        check_bool("region_attributes", self.region_attributes)
        if isinstance(self.allow_external, str):
            object.__setattr__(self, "allow_external", (self.allow_external,))
        match self.allow_external:
            case bool():
                return
            case [*places] if all(isinstance(place, str) for place in places):
                object.__setattr__(self, "allow_external", tuple(places))
            case allowed:
                raise Invalid(f"allow_external={allowed!r}", remedy="folders and URLs, or True for all")


SPECIFICATION_CODECS = frozenset({"json2", "vlen-utf8", "vlen-bytes"})


class HdmfProfile(MetadataDialect):
    """One profile's documents: those of the version of Zarr that it is made with, with reserved attributes.

    A subclass inherits from the dialect of that version too. ``layout["hdmf"]`` of a group: ``links``
    (:class:`~hyperslab.model.refs.Link` by name) and ``specloc``; ``unread`` are reserved attributes that make no sense
    there, ``references`` what stood for attributes that are references.
    """

    format = "hdmf"
    name: ProfileName
    links_name: str
    """The attribute of a group that lists its links."""
    dtype_name: str
    """The attribute of an array that names the type of its cells."""

    def __init__(self, options: HdmfOptions | None = None) -> None:
        self._options = options or HdmfOptions(profile=self.name)
        self.specloc = SPECIFICATIONS
        """The path of the group in which the specifications are, by the root that was parsed last."""

    @abstractmethod
    def render_plain(self, spec: GroupSpec | ArraySpec) -> Docs:
        """Return the documents that Zarr's own format writes."""

    @abstractmethod
    def specification(self) -> ArraySpec:
        """Return the array that the schema of one source is stored in."""

    def is_specification(self, node: str) -> bool:
        """Return True if the path is the group of the specifications or below it."""
        return is_within(node, self.specloc)

    # -- groups -----------------------------------------------------------------------------------------------------

    def read_group(
        self,
        spec: GroupSpec | ArraySpec,
        own: dict[str, Any],
        rest: Mapping[str, Any],
        node: str,
        problems: Problems,
    ) -> GroupSpec | ArraySpec:
        """Add links, references and the place of the specifications to the group that Zarr's own format parsed.

        ``own``, ``rest``: its attributes as they are stored, the reserved ones and the others.
        """
        links, others = read_links(own.pop(self.links_name, []), self.links_name, problems)
        unread: dict[str, Any] = {self.links_name: others} if others else {}
        specloc = None
        if not node:
            specloc = _read_specloc(own.get(SPECLOC), problems)
            self.specloc = specloc or SPECIFICATIONS
        unread |= {name: value for name, value in own.items() if name != SPECLOC or specloc is None}
        attrs, stored_references = read_attributes(spec.attrs, rest, self.name, problems)
        own_layout: dict[str, Any] = {LINKS: links, SPECLOC_PATH: specloc}
        own_layout |= {name: part for name, part in (("unread", unread), ("references", stored_references)) if part}
        return spec.evolve(attrs=attrs, layout={**spec.layout, LAYOUT: own_layout})

    def write_group(self, spec: GroupSpec) -> Docs:
        """Return the documents of a group: those of Zarr's own format with the reserved attributes."""
        own_layout = spec.layout.get(LAYOUT, {})
        own: dict[str, Any] = dict(own_layout.get("unread", {}))
        if links := write_links(own_layout.get(LINKS, {}), own.pop(self.links_name, ()), self.name):
            own[self.links_name] = links
        if own_layout.get(SPECLOC_PATH):
            own[SPECLOC] = own_layout[SPECLOC_PATH]
        docs = self.write_node(spec, spec)
        return replace_attributes(docs, stored_attributes(docs) | own)

    def write_node(self, spec: GroupSpec | ArraySpec, stored: GroupSpec | ArraySpec) -> Docs:
        """Return the documents of `stored` with the attributes of `spec`; Invalid for a reserved name."""
        for name in spec.attrs:
            if name in RESERVED:
                remedy = "choose another name; hyperslab writes this one itself for links, types and specifications"
                raise Invalid(f"the attribute name {name!r} is reserved in format hdmf", remedy=remedy)
        stored_references = spec.layout.get(LAYOUT, {}).get("references", {})
        regions = self._options.region_attributes
        plain, encoded = write_attributes(spec.attrs, stored_references, self.name, regions=regions)
        docs = self.render_plain(stored.evolve(attrs=plain))
        return replace_attributes(docs, merge_attributes(stored_attributes(docs), encoded, spec.attrs))

    # -- arrays -----------------------------------------------------------------------------------------------------

    def with_references(self, spec: ArraySpec, stored: Mapping[str, Any], problems: Problems) -> ArraySpec:
        """Return the array with those of its attributes that are references; ``stored`` are its attributes."""
        attrs, stored_references = read_attributes(spec.attrs, stored, self.name, problems)
        references = {"references": stored_references} if stored_references else {}
        return spec.evolve(attrs=attrs, layout={**spec.layout, LAYOUT: spec.layout[LAYOUT] | references})


def stored_attributes(docs: Docs) -> dict[str, Any]:
    """Return the stored attributes of a node, in either version of Zarr; ``{}`` where they are no object."""
    doc = docs.get(V3_NAME)
    return object_or_empty(docs.get(ZATTRS) if doc is None else doc.get("attributes"))


def replace_attributes(docs: Docs, attributes: Mapping[str, object]) -> Docs:
    """Return the documents of a node with these attributes in place of the stored ones."""
    if V3_NAME in docs:
        return docs | {V3_NAME: {**docs[V3_NAME], "attributes": dict(attributes)}}
    return docs | {ZATTRS: dict(attributes)}


def _read_specloc(path: object, problems: Problems) -> str | None:
    """Return the path that the root names, without a leading slash; None where it names none that is one."""
    if path is None:
        return None
    with suppress(Invalid):
        if isinstance(path, str) and (found := normalize(path)):
            return found
    problems.warn("specloc", f"{SPECLOC} is {shorten(path)}, not the path of a group; {SPECIFICATIONS} is assumed")
    return None
