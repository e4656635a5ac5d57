"""Where the dataset to be checked lies, and in which words its documents are; a damaged one need not open for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyperslab.api import Target
from hyperslab.errors import Invalid, NotFound
from hyperslab.formats import FORMATS, detect, get_format, names
from hyperslab.formats.base import AllowsExternal, Format, VariesByPlace
from hyperslab.formats.opening import is_occupied
from hyperslab.formats.signatures import unknown_format_error
from hyperslab.formats.zarr.dialect import FormatOfDocuments, MetadataDialect
from hyperslab.formats.zarr.reader import holds_nodes
from hyperslab.stores.location import Location, Probe


@dataclass(frozen=True, slots=True)
class CheckedDataset:
    """A dataset's place and format. ``dialect`` is None where it is no format of documents under keys."""

    where: Location
    format: Format

    @property
    def dialect(self) -> MetadataDialect | None:
        """What its documents are called and how they read."""
        return self.format.metadata_dialect if isinstance(self.format, FormatOfDocuments) else None


def find_place(
    url: Target,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    allow_external: Sequence[str] | bool = (),
) -> CheckedDataset:
    """The dataset at ``url``, of which links may lead to the places that are allowed. NotFound when nothing is there,
    FormatError when it is no dataset, Invalid when nothing leads out of its format."""
    where = Location.of(url, storage_options)
    nothing = NotFound("there is nothing", url=where.url, remedy="check the spelling")
    if not where.exists():
        raise nothing
    probe = Probe(where)
    chosen = get_format(format) if format is not None else detect(probe) or _by_nodes_below(probe)
    if chosen is None and where.path is None and not is_occupied(where):  # a bucket tells only when it is listed
        raise nothing
    if chosen is None:
        raise unknown_format_error(probe, names())
    found = chosen.at(probe) if isinstance(chosen, VariesByPlace) else chosen
    return CheckedDataset(where, _allowing(found, allow_external, where.url) if allow_external else found)


def _allowing(format: Format, places: Sequence[str] | bool, url: str) -> Format:
    if not isinstance(format, AllowsExternal):
        raise Invalid(f"format {format.name} has no option 'allow_external'", url=url, remedy="leave it out")
    return format.allowing(places)


def _by_nodes_below(probe: Probe) -> Format | None:
    """A dataset that lost the documents of its root: the format of the nodes that lie below."""
    if not probe.where.is_dir():
        return None
    told_by_root = {"nczarr", "hdmf"}  # their nodes below are those of zarr2 and zarr3
    for format in (get_format(name) for name in FORMATS if name not in told_by_root):
        if isinstance(format, FormatOfDocuments) and holds_nodes(probe.store, "", format.metadata_dialect.nodes):
            return format
    return None
