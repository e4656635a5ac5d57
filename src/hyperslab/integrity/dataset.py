"""Where the dataset to be looked at lies, which node of it, in which words its documents are, and how much of it there
is; a damaged one need not open for that."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from math import prod
from typing import Any

from hyperslab.api import Target
from hyperslab.array.session import open_session
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError, Invalid, NodeNotFound
from hyperslab.formats import FORMATS, detect, get_format
from hyperslab.formats.base import Format, Reader
from hyperslab.formats.enclosing import find_above, find_enclosing, find_existing
from hyperslab.formats.opening import allow_places, check_moment, detect_format, options_of_format, probe_place
from hyperslab.formats.rules import Finding
from hyperslab.formats.signatures import document_error, holds_only_datasets
from hyperslab.formats.zarr.node_search import NodeSearch
from hyperslab.formats.zarr.opening import ZarrFormat
from hyperslab.group.links import follow
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child, is_within
from hyperslab.stores.location import Location, Probe


@dataclass(frozen=True, slots=True)
class CheckedDataset:
    """A dataset's place and format, and the node that alone is looked at with all below it; the root: all of it."""

    where: Location
    format: Format
    node: str = ""

    def includes(self, finding: Finding) -> bool:
        """Return True for a finding of the part that is looked at."""
        return is_within(finding.problem.node, self.node)


def find_place(
    url: Target,
    format: str | None = None,
    storage_options: Mapping[str, object] | None = None,
    allow_external: Sequence[str] | bool = (),
) -> CheckedDataset:
    """Return the dataset at ``url``, of which links may lead to the places that are allowed; of the place of a node
    within a dataset that dataset. NotFound when nothing is there, NodeNotFound when the dataset has no such node,
    FormatError when it is no dataset, Invalid when nothing leads out of its format."""
    place = allow_places(Location.of(url, storage_options), {"allow_external": allow_external})
    where, node = (place, "") if format is not None and place.exists() else _find_around(place)
    probe = probe_place(where)
    found = get_format(format) if format is not None else detect_format(probe, _by_nodes_below)
    check_moment(place, found)
    there = found.at(probe)
    if node and not place.exists():
        _raise_if_missing(where, format, node)
    if allow_external and options_of_format(there, where, {"allow_external": allow_external}):
        try:
            there = there.allowing(allow_external)
        except Invalid as error:
            raise error.locate(url=where.url) from error.__cause__
    return CheckedDataset(where, there, node)


def _find_around(place: Location) -> tuple[Location, str]:
    """Return the dataset that a place lies in as a node, and the path of that node; the place itself where it lies in
    none."""
    if (found_above := find_above(place)) is not None:
        return found_above
    where, below = find_existing(place)
    if place.path is not None and os.path.isfile(place.path) and document_error(place) is not None:
        return place, ""  # before a document of Zarr v3 is taken for one of references
    probe = Probe(where)
    found = detect(probe) if where.exists() else None
    if found is not None and not isinstance(found, ZarrFormat):
        return where, "" if where is place else where.way_to(place)
    if found is None and document_error(place) is not None:
        return place, ""
    root = find_enclosing(below)
    if root is not None and _detect(root) is not None:
        return root, root.way_to(place)
    if where is place and where.is_dir() and not (found and probe.has_any(found.metadata_dialect.nodes)):
        # no document says what it is: it may be where a root of collections keeps them
        above = where.above()
        around = None if above is None else _detect(above)
        if above is not None and around is not None and around.traits.has_collections:
            return above, ""
    return place, ""


def _detect(where: Location) -> Format | None:
    """Return the format of what lies around a place; None where that is none, or may not be looked at."""
    with suppress(HyperslabError):
        return detect(Probe(where))
    return None


def _raise_if_missing(where: Location, format: str | None, node: str) -> None:
    """Raise NodeNotFound where a dataset that opens has no such node."""
    try:
        session = open_session(where, "r", format, Settings(cache_bytes=0), {})
    except HyperslabError:  # it is damaged, which the look finds
        return
    try:
        follow(session, node)
    except NodeNotFound as error:
        raise error.locate(url=where.url, node=node) from error.__cause__
    except HyperslabError:
        pass
    finally:
        session.close()


def _by_nodes_below(probe: Probe) -> Format | None:
    """Return the format of the nodes below of a dataset that lost the documents of its root."""
    if not probe.where.is_dir() or holds_only_datasets(probe):
        return None
    for format in map(get_format, FORMATS):
        if not isinstance(format, ZarrFormat) or format.is_known_by_root:
            continue
        if NodeSearch.of(probe.store, format.metadata_dialect.nodes).holds_nodes(""):
            return format
    return None


def extent_of(place: CheckedDataset, settings: Settings) -> tuple[int, int]:
    """Return the bytes of cells, and the chunks (shards), of all arrays; what cannot be read counts nothing."""
    try:
        reader = place.format.open(place.where, "r", settings=settings)
    except HyperslabError:
        return 0, 0
    nbytes = chunks = 0
    with closing(reader):
        for spec in flattened(_arrays(reader, place.node)):
            nbytes += prod(spec.shape) * spec.numpy_dtype.itemsize
            chunks += Grid.of(spec.shape, spec.chunks).size
    return nbytes, chunks


def _arrays(reader: Reader, path: str) -> Generator[Any]:
    try:
        node = reader.node(path)
        names = list(reader.children(path)) if node.is_group else []
    except HyperslabError:
        return
    if node.is_array and node.problem is None:
        yield node
    for name in names:
        yield _arrays(reader, child(path, name))
