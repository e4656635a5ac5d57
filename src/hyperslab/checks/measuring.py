"""How much there is to look at in a dataset, as far as its documents tell."""

from __future__ import annotations

from collections.abc import Generator
from math import prod
from typing import Any

from hyperslab.checks.places import CheckedDataset
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import Reader
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec


def extent_of(place: CheckedDataset, settings: Settings) -> tuple[int, int]:
    """Bytes of cells, and chunks (shards), of all arrays; what cannot be read counts nothing."""
    try:
        reader = place.format.open(place.where, "r", settings=settings)
    except HyperslabError:
        return 0, 0
    nbytes = chunks = 0
    try:
        for spec in flattened(_arrays(reader, "")):
            nbytes += prod(spec.shape) * spec.numpy_dtype.itemsize
            chunks += Grid.of(spec.shape, spec.chunks).size
    finally:
        reader.close()
    return nbytes, chunks


def _arrays(reader: Reader, path: str) -> Generator[Any]:
    try:
        node = reader.node(path)
        names = list(reader.children(path)) if isinstance(node, GroupSpec) else []
    except HyperslabError:
        return
    if isinstance(node, ArraySpec) and node.problem is None:
        yield node
    for name in names:
        yield _arrays(reader, child(path, name))
