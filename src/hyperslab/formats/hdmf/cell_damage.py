"""References in cells that lead nowhere: of each array the first of each kind is told, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.memory import require
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.hdmf.link_damage import LINKS
from hyperslab.formats.hdmf.link_diagnosis import Verdict, judge
from hyperslab.formats.hdmf.reference_ids import reference_fields
from hyperslab.formats.hdmf.survey import HDMFSurvey
from hyperslab.formats.keyed_damage import NodeDamage
from hyperslab.model.paths import child
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.spec import ArraySpec

_MOST_CHUNKS = 1 << 18
"""An array of more chunks is not looked into: none of references has so many."""
Reference = ObjectReference | RegionReference


@dataclass(slots=True)
class _Count:
    first: str
    total: int = 0


def of_cells(survey: HDMFSurvey, path: str) -> Iterator[NodeDamage]:
    """What is wrong with the references in the cells of an array. Chunks that cannot be decoded are told elsewhere."""
    spec = survey.spec(path)
    fields = reference_fields(spec.dtype) if isinstance(spec, ArraySpec) and spec.problem is None else None
    if not isinstance(spec, ArraySpec) or fields is None:
        return
    known: dict[Any, tuple[Verdict, ...]] = {}
    found: dict[str, _Count] = {}
    for place, reference in _references(survey, path, spec, fields):
        same = (type(reference), reference, reference.object_id, reference.source_object_id)
        if same not in known:
            known[same] = judge(survey, reference).verdicts
        for verdict in known[same]:
            shown = f"{place} leads to {reference}: {verdict.message}"
            found.setdefault(verdict.kind, _Count(shown)).total += 1
    for kind, count in found.items():
        message = count.first if count.total == 1 else f"{count.total} references; the first, {count.first}"
        yield NodeDamage(Problem(path, f"reference-{kind}", message), f"cells {kind}", part=LINKS)


def _references(
    survey: HDMFSurvey, path: str, spec: ArraySpec, fields: tuple[str, ...]
) -> Iterator[tuple[str, Reference]]:
    """The references of all chunks, each with what its cell is called."""
    try:
        source = survey.documents.chunks_as(path, spec)
        if source.grid.fixed is None:
            return
        require(prod(source.grid.fixed) * spec.numpy_dtype.itemsize, survey.settings.memory_limit)
        for coords in _stored(survey, path, spec, source):
            origin = [cut.start for cut in source.grid.extent(coords)]
            cut = tuple(slice(0, part.stop - part.start) for part in source.grid.extent(coords))
            for name, cells in _cells(source, coords, fields):
                for index, cell in np.ndenumerate(cells[cut]):
                    if isinstance(cell, Reference):
                        where = ", ".join(str(start + i) for start, i in zip(origin, index, strict=True))
                        yield f"cell [{where}]{f' field {name!r}' if name else ''}", cell
    except HyperslabError:
        return


def _cells(source: ChunkSource, coords: Coords, fields: tuple[str, ...]) -> list[tuple[str, Any]]:
    try:
        block = source.read(coords)
    except HyperslabError:
        return []
    if block is None:
        return []
    return [(name, block[name]) for name in fields] if fields else [("", block)]


def _stored(survey: HDMFSurvey, path: str, spec: ArraySpec, source: ChunkSource) -> Iterator[Coords]:
    """The chunks that are there."""
    if source.grid.size > _MOST_CHUNKS:
        return
    if source.grid.outer is not None:
        yield from source.grid
        return
    there = set(survey.store.list(path))
    key_of = survey.profile.key_of(spec)
    yield from (coords for coords in source.grid if child(path, key_of(coords)) in there)
