"""The reserved attributes of both profiles: they stand in documents, and never among the attributes that users see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hyperslab.errors import Invalid

SPECLOC = ".specloc"
"""At the root: the path of the group in which the specifications are."""
SPECIFICATIONS = "specifications"
"""That group's usual path."""
REFERENCE_FIELDS, REGION_FIELDS = "_REFERENCE_FIELDS", "_REGION_FIELDS"
RESERVED = ("zarr_link", "zarr_dtype", SPECLOC, "_LINKS", "_DTYPE", REFERENCE_FIELDS, REGION_FIELDS)
OWN, LINKS, PLACE = "hdmf", "links", "specloc"
"""The part of a spec's ``layout`` that is this format's; in that of a group its links by name, and in that of the root
the path of the group of the specifications."""


@dataclass(frozen=True, slots=True)
class Words:
    """What one profile calls the links of a group and the type of an array."""

    profile: Literal["v2", "v3"]
    links: str
    dtype: str


V2 = Words("v2", "zarr_link", "zarr_dtype")
V3 = Words("v3", "_LINKS", "_DTYPE")


def split(stored: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reserved attributes of a node, and the others."""
    own = {name: stored[name] for name in RESERVED if name in stored}
    return own, {name: value for name, value in stored.items() if name not in own}


def refuse_reserved(attrs: Iterable[str]) -> None:
    """Invalid for an attribute of users that bears a reserved name."""
    for name in attrs:
        if name in RESERVED:
            remedy = "choose another name; hyperslab writes this one itself for links, types and specifications"
            raise Invalid(f"the attribute name {name!r} is reserved in format hdmf", remedy=remedy)
