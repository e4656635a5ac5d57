"""What a link or reference knows of its target, completed when it is written: ``object_id`` and ``source_object_id``.

By them its target is found again when it was moved (reference 3 rule 7). Those of other datasets are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats.zarr.chunks import CasChunks, ChunkKeys, KeyedChunks
from hyperslab.formats.zarr.reader import KeyedReader
from hyperslab.model.dtypes import DataType, ObjectRef, RegionRef, tagged_fields
from hyperslab.model.paths import child, normalize
from hyperslab.model.refs import Link, ObjectReference, Pointer, RegionReference
from hyperslab.model.spec import ArraySpec, GroupSpec

IdOf = Callable[[str], str | None]
"""The ``object_id`` of the node at a path, ``""`` the root; None where it has none or is not there."""
P = TypeVar("P", bound=Pointer)


def completed(pointer: P, id_of: IdOf) -> P:
    """The pointer with the ids of its target and of this dataset, where it stays within it."""
    if pointer.source not in (".", ""):
        return pointer
    target = pointer.target if isinstance(pointer, Link) else pointer.path
    known = pointer.object_id or _id_at(target, id_of)
    return replace(pointer, object_id=known, source_object_id=id_of("") or pointer.source_object_id)


def _id_at(target: str, id_of: IdOf) -> str | None:
    try:
        return id_of(normalize(target))
    except Invalid:
        return None


def completed_attrs(attrs: Mapping[str, Any], id_of: IdOf) -> Mapping[str, Any]:
    """Attributes with all references among their values completed."""
    if not any(isinstance(value, ObjectReference | RegionReference) for value in attrs.values()):
        return attrs
    return {
        name: completed(value, id_of) if isinstance(value, ObjectReference | RegionReference) else value
        for name, value in attrs.items()
    }


def is_complete(pointer: Pointer) -> bool:
    """Return whether the pointer knows all of its target, or leads to another dataset."""
    return pointer.source not in (".", "") or None not in (pointer.object_id, pointer.source_object_id)


def reference_fields(dtype: DataType) -> tuple[str, ...] | None:
    """The fields of cells that are references, ``()`` where the cells are; None where there are none."""
    if isinstance(dtype, ObjectRef | RegionRef):
        return ()
    if not isinstance(dtype, np.dtype):
        return None
    return tuple(name for name, kind in tagged_fields(dtype) if isinstance(kind, ObjectRef | RegionRef)) or None


def completed_cells(block: Block, fields: tuple[str, ...], id_of: IdOf) -> Block:
    """A copy of cells whose references know their targets; each target is looked up once."""
    known: dict[str, str | None] = {}

    def remembered(path: str) -> str | None:
        if path not in known:
            known[path] = id_of(path)
        return known[path]

    result = block.copy()
    for cells in (result[name] for name in fields) if fields else (result,):
        for place, value in enumerate(cells.flat):
            if isinstance(value, ObjectReference | RegionReference):
                cells.flat[place] = completed(value, remembered)
    return result


class _Completing(KeyedChunks):
    """Chunks of references, which are completed before they are encoded."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, grid: Grid, fields: tuple[str, ...], id_of: IdOf) -> None:
        super().__init__(keys, spec, grid)
        self._fields = fields
        self._id_of = id_of

    def _completed(self, pairs: Iterable[tuple[Coords, Block]]) -> Iterator[tuple[Coords, Block]]:
        return ((coords, completed_cells(block, self._fields, self._id_of)) for coords, block in pairs)

    def _encoded(self, pairs: Iterable[tuple[Coords, Block]]) -> Iterator[tuple[str, Any]]:
        return super()._encoded(self._completed(pairs))


class CompletedChunks(_Completing):
    """In a store with locks."""


class CompletedSwaps(_Completing, CasChunks):
    """In a store with compare-and-swap."""

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Store one chunk if its version is still ``expected``, else ``Conflict``."""
        super().swap(list(self._completed(pairs)), expected)


def completed_chunks(keys: ChunkKeys, spec: ArraySpec, fields: tuple[str, ...], id_of: IdOf) -> KeyedChunks:
    """The chunks of an array with references."""
    made = CompletedSwaps if keys.swaps else CompletedChunks
    return made(keys, spec, Grid.of(spec.shape, spec.chunks), fields, id_of)


# -- ------------------------------------------------------------------------------------------------------------------
# The path of each node by its ``object_id``: how the target of a link is found that was moved.


ID = "object_id"


def object_id_of(spec: GroupSpec | ArraySpec) -> str | None:
    """What a node calls itself; None where it does not."""
    said = spec.attrs.get(ID)
    return said if isinstance(said, str) and said else None


def paths_by_id(documents: KeyedReader, passed: str | None) -> Mapping[str, list[str]]:
    """Return the paths of all nodes that can be read but for those below ``passed`` (the specifications), by what they
    call themselves; most often one each."""
    found: dict[str, list[str]] = {}
    for path, spec in _nodes(documents, passed):
        if (said := object_id_of(spec)) is not None:
            found.setdefault(said, []).append(path)
    return found


def _nodes(documents: KeyedReader, passed: str | None) -> Iterator[tuple[str, GroupSpec | ArraySpec]]:
    """Each group before what is in it, however deep they lie in one another."""
    waiting = [""]
    while waiting:
        path = waiting.pop()
        try:
            spec = documents.node(path)
            names = list(documents.children(path)) if isinstance(spec, GroupSpec) else []
        except HyperslabError:
            continue
        yield path, spec
        waiting += [below for name in reversed(names) if (below := child(path, name)) != passed]
