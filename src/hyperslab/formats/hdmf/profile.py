"""How a dataset of HDMF is opened or made.

What the two profiles share: which documents there are, groups with their links, the place of the specifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hyperslab.errors import Invalid
from hyperslab.formats.choices import check_choices, check_truth
from hyperslab.formats.format_errors import Problems, brief
from hyperslab.formats.hdmf.attributes import (
    LINKS,
    OWN,
    PLACE,
    SPECIFICATIONS,
    SPECLOC,
    Words,
    read_links,
    read_values,
    refuse_reserved,
    split,
    with_apart,
    write_links,
    write_values,
)
from hyperslab.formats.zarr.chunks import KeyOf
from hyperslab.formats.zarr.dialect import Copy, Docs, MetadataDialect
from hyperslab.formats.zarr2.document import ZATTRS, Zarr2
from hyperslab.formats.zarr3.document import NAME as V3_NAME
from hyperslab.formats.zarr3.document import Zarr3
from hyperslab.model.paths import is_within, normalize
from hyperslab.model.spec import ArraySpec, GroupSpec

_CHOICES = {"profile": ("v2", "v3"), "object_codec": ("json2", "pickle")}


@dataclass(frozen=True, slots=True, kw_only=True)
class HDMFOptions:
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
        check_truth("region_attributes", self.region_attributes)
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


class Profile(MetadataDialect):
    """One profile's documents: those of Zarr (``zarr``) with the reserved attributes (``words``).

    ``layout["hdmf"]`` of a group: ``links`` (:class:`~hyperslab.model.refs.Link` by name) and ``specloc``; ``unread``
    are reserved attributes that make no sense there, ``references`` what stood for attributes that are references.
    """

    format = "hdmf"
    words: Words

    def __init__(self, zarr: Zarr2 | Zarr3, options: HDMFOptions) -> None:
        self._zarr: MetadataDialect = zarr
        self._options = options
        self.specloc = SPECIFICATIONS
        """The path of the group in which the specifications are, as the root said when it was parsed."""

    @property
    def options(self) -> HDMFOptions:
        """How the dataset is opened or made."""
        return self._options

    @property
    def nodes(self) -> tuple[str, ...]:
        """The documents that make a node."""
        return self._zarr.nodes

    @property
    def extras(self) -> tuple[str, ...]:
        """Documents that a node may have besides."""
        return self._zarr.extras

    @property
    def copy_name(self) -> str:
        """The document that a copy stands in."""
        return self._zarr.copy_name

    def is_array(self, docs: Docs) -> bool:
        """Return whether the documents are those of an array."""
        return self._zarr.is_array(docs)

    def key_of(self, spec: ArraySpec) -> KeyOf:
        """The key of a chunk, relative to the array's folder."""
        return self._zarr.key_of(spec)

    def read_copy(self, doc: Mapping[str, Any]) -> Copy | None:
        """The consolidated metadata in a document; None when damaged."""
        return self._zarr.read_copy(doc)

    def write_copy(self, holder: Docs, copy: Copy) -> dict[str, Any]:
        """The document ``copy_name`` with a copy."""
        return self._zarr.write_copy(holder, copy)

    def without_copy(self, doc: Mapping[str, Any]) -> dict[str, Any] | None:
        """The document ``copy_name`` without its copy."""
        return self._zarr.without_copy(doc)

    def is_specification(self, node: str) -> bool:
        """Return whether the path is the group of the specifications or below it."""
        return is_within(node, self.specloc)

    # -- groups -----------------------------------------------------------------------------------------------------

    def read_group(
        self, spec: GroupSpec | ArraySpec, stored: Mapping[str, Any], node: str, problems: Problems
    ) -> GroupSpec | ArraySpec:
        """The group that Zarr's own format made of the document, with its links; ``stored`` are its attributes."""
        own, rest = split(stored)
        links, others = read_links(own.pop(self.words.links, []), self.words.links, problems)
        unread: dict[str, Any] = {self.words.links: others} if others else {}
        specloc = None if node else _read_specloc(own, problems)
        self.specloc = self.specloc if node else specloc or SPECIFICATIONS
        unread |= {name: value for name, value in own.items() if name != SPECLOC or specloc is None}
        attrs, spellings = read_values(spec.attrs, rest, self.words, problems)
        said: dict[str, Any] = {LINKS: links, PLACE: specloc}
        said |= {name: part for name, part in (("unread", unread), ("references", spellings)) if part}
        return spec.evolve(attrs=attrs, layout={**spec.layout, OWN: said})

    def write_group(self, spec: GroupSpec) -> Docs:
        """The documents of a group: by Zarr's own format, with the reserved attributes."""
        said = spec.layout.get(OWN, {})
        own: dict[str, Any] = dict(said.get("unread", {}))
        links = write_links(said.get(LINKS, {}), own.pop(self.words.links, ()), self.words.profile)
        if links:
            own[self.words.links] = links
        if said.get(PLACE):
            own[SPECLOC] = said[PLACE]
        docs = self.write_node(spec, spec)
        return with_attributes(docs, attributes_of(docs) | own)

    def write_node(self, spec: GroupSpec | ArraySpec, stand_in: GroupSpec | ArraySpec) -> Docs:
        """The documents of ``stand_in`` with the attributes of ``spec``; Invalid for a reserved name."""
        refuse_reserved(spec.attrs)
        spellings = spec.layout.get(OWN, {}).get("references", {})
        regions = self._options.region_attributes
        plain, apart = write_values(spec.attrs, spellings, self.words, regions=regions)
        docs = self._zarr.render(stand_in.evolve(attrs=plain))
        return with_attributes(docs, with_apart(attributes_of(docs), apart, spec.attrs))

    # -- arrays -----------------------------------------------------------------------------------------------------

    def with_references(self, spec: ArraySpec, stored: Mapping[str, Any], problems: Problems) -> ArraySpec:
        """The array with those of its attributes that are references; ``stored`` are its attributes."""
        attrs, spellings = read_values(spec.attrs, stored, self.words, problems)
        said = {**spec.layout[OWN], "references": spellings} if spellings else spec.layout[OWN]
        return spec.evolve(attrs=attrs, layout={**spec.layout, OWN: said})


def attributes_of(docs: Docs) -> dict[str, Any]:
    """The stored attributes of a node, in either version of Zarr; none where they are no object."""
    doc = docs.get(V3_NAME)
    found = docs.get(ZATTRS, {}) if doc is None else doc.get("attributes", {})
    return found if isinstance(found, dict) else {}


def with_attributes(docs: Docs, attributes: Mapping[str, Any]) -> Docs:
    """The documents of a node with these attributes stored."""
    if V3_NAME in docs:
        return docs | {V3_NAME: {**docs[V3_NAME], "attributes": dict(attributes)}}
    return docs | {ZATTRS: dict(attributes)}


def _read_specloc(own: Mapping[str, Any], problems: Problems) -> str | None:
    """The path that the root says, without a slash before it; None where it says none that makes sense."""
    said = own.get(SPECLOC)
    if said is None:
        return None
    try:
        path = normalize(said) if isinstance(said, str) else ""
    except Invalid:
        path = ""
    if not path:
        problems.warn("specloc", f"{SPECLOC} is {brief(said)}, not the path of a group; {SPECIFICATIONS} is assumed")
        return None
    return path
