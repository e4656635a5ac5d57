"""Object ids: added to links and references when they are written, and the paths of nodes by them.

By ``object_id`` and ``source_object_id`` the target of a link or reference is found again when it was moved. Ids in
pointers to other datasets are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats.documents import text_or_none
from hyperslab.formats.hdmf.cell_types import field_kinds
from hyperslab.formats.zarr.chunks import CasChunks, ChunkKeys, KeyedChunks
from hyperslab.formats.zarr.reader import ZarrReader
from hyperslab.model.dtypes import DataType, ObjectRef, RegionRef
from hyperslab.model.paths import child, normalize
from hyperslab.model.refs import Link, ObjectReference, Pointer, RegionReference
from hyperslab.model.spec import ArraySpec, GroupSpec

ObjectIdLookup = Callable[[str], str | None]
"""The ``object_id`` of the node at a path, ``""`` the root; None where it has none or is not there."""
P = TypeVar("P", bound=Pointer)


def complete_pointer(pointer: P, find_id: ObjectIdLookup) -> P:
    """Add the ids of its target and of this dataset to a pointer that stays within it."""
    if pointer.source not in (".", ""):
        return pointer
    object_id = pointer.object_id
    if not object_id:
        with suppress(Invalid):
            object_id = find_id(normalize(pointer.target if isinstance(pointer, Link) else pointer.path))
    return replace(pointer, object_id=object_id, source_object_id=find_id("") or pointer.source_object_id)


def has_all_ids(pointer: Pointer) -> bool:
    """Return True if the pointer has both ids, or leads to another dataset."""
    return pointer.source not in (".", "") or None not in (pointer.object_id, pointer.source_object_id)


def reference_fields(dtype: DataType) -> tuple[str, ...] | None:
    """Return the fields of cells that are references, ``()`` where the cells are; None where there are none."""
    match dtype:
        case ObjectRef() | RegionRef():
            return ()
    kinds = field_kinds(dtype)
    return tuple(name for name in kinds if kinds[name] in (ObjectRef(), RegionRef())) or None


class ReferenceChunks(KeyedChunks):
    """Chunks of references, which are completed before they are encoded."""

    def __init__(
        self, keys: ChunkKeys, spec: ArraySpec, grid: Grid, fields: tuple[str, ...], find_id: ObjectIdLookup
    ) -> None:
        super().__init__(keys, spec, grid)
        self._fields = fields
        self._find_id = find_id

    def _complete(self, pairs: Iterable[tuple[Coords, Block]]) -> Iterator[tuple[Coords, Block]]:
        """Yield copies of blocks with complete references; in each block every target is looked up once."""
        for coords, block in pairs:
            find_id = cache(self._find_id)
            result = block.copy()
            for cells in [result[name] for name in self._fields] or [result]:
                for place, value in enumerate(cells.flat):
                    if isinstance(value, ObjectReference | RegionReference):
                        cells.flat[place] = complete_pointer(value, find_id)
            yield coords, result

    def _encoded(self, pairs: Iterable[tuple[Coords, Block]]) -> Iterator[tuple[str, object]]:
        return super()._encoded(self._complete(pairs))


class CasReferenceChunks(ReferenceChunks, CasChunks):
    """The same in a store with compare-and-swap."""

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        super().swap(list(self._complete(pairs)), expected)


# -- nodes by their ids ------------------------------------------------------------------------------------------------

OBJECT_ID = "object_id"


def read_object_id(spec: GroupSpec | ArraySpec) -> str | None:
    """Return the ``object_id`` of a node, None without one."""
    return text_or_none(spec.attrs.get(OBJECT_ID)) or None


def map_object_ids(documents: ZarrReader, excluded: str | None) -> Mapping[str, list[str]]:
    """Return the paths of all readable nodes by object id, mostly one each, without what is below `excluded`.

    Each group stands before its nodes.
    """
    found: dict[str, list[str]] = {}
    waiting = [""]  # a list, not recursion: groups may be nested deeper than Python's stack
    while waiting:
        path = waiting.pop()
        try:
            spec = documents.node(path)
            names = list(documents.children(path)) if spec.is_group else []
        except HyperslabError:
            continue
        if (object_id := read_object_id(spec)) is not None:
            found.setdefault(object_id, []).append(path)
        waiting += [below for name in reversed(names) if (below := child(path, name)) != excluded]
    return found
