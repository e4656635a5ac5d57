"""Where the dataset to be looked at lies, in which words its documents are, and how much of it there is; a damaged one
need not open for that."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import prod
from typing import Any

from hyperslab.api import Target
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats import FORMATS, get_format
from hyperslab.formats.base import Format, Reader
from hyperslab.formats.opening import detect_format, probe_place
from hyperslab.formats.zarr.opening import ZarrFormat
from hyperslab.formats.zarr.reader import holds_nodes
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child
from hyperslab.stores.location import Location, Probe


@dataclass(frozen=True, slots=True)
class CheckedDataset:
    """A dataset's place and format."""

    where: Location
    format: Format


def find_place(
    url: Target,
    format: str | None = None,
    storage_options: Mapping[str, object] | None = None,
    allow_external: Sequence[str] | bool = (),
) -> CheckedDataset:
    """Return the dataset at ``url``, of which links may lead to the places that are allowed. NotFound when nothing is
    there, FormatError when it is no dataset, Invalid when nothing leads out of its format."""
    where = Location.of(url, storage_options)
    probe = probe_place(where)
    found = get_format(format) if format is not None else detect_format(probe, _by_nodes_below)
    there = found.at(probe)
    if allow_external:
        try:
            there = there.allowing(allow_external)
        except Invalid as error:
            raise error.locate(url=where.url) from error.__cause__
    return CheckedDataset(where, there)


def _by_nodes_below(probe: Probe) -> Format | None:
    """Return the format of the nodes below of a dataset that lost the documents of its root."""
    if not probe.where.is_dir():
        return None
    for format in map(get_format, FORMATS):
        if not isinstance(format, ZarrFormat) or format.is_known_by_root:
            continue
        if holds_nodes(probe.store, "", format.metadata_dialect.nodes):
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
        for spec in flattened(_arrays(reader, "")):
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
