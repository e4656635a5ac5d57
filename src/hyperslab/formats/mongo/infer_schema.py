"""What chunk documents say of their variables, where the document of the object may be wrong or not know it (R23, R25).

Dtype and type of a variable are those of its first chunk; sizes that nobody knew when the object was stored follow from
the shapes of all chunks. One query asks for all variables of an object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hyperslab.errors import HyperslabError
from hyperslab.formats.mongo import stored
from hyperslab.formats.mongo.document import Meta, Variable
from hyperslab.formats.mongo.faults import CorruptDocument
from hyperslab.formats.mongo.numbers import Sizes, sizes_of
from hyperslab.formats.mongo.segments import SPARSE, parse_key
from hyperslab.formats.mongo.to_spec import ours_of
from hyperslab.formats.mongo.types import dtype_from_text

if TYPE_CHECKING:
    from pymongo.collection import Collection

Docs = Sequence[Mapping[str, Any]]


def settled(collection: Collection[Any], meta: Meta) -> dict[str, Variable]:
    """The variables that are not embedded, as their chunk documents have them; a ``problem`` where that fails."""
    lazy = {name: each for name, each in meta.variables.items() if each.problem is None and each.embedded is None}
    asked = {name: each for name, each in lazy.items() if not ours_of(meta, name)}
    wanted = {name: _first(each) if each.known else ... for name, each in asked.items()}
    found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in wanted}
    for doc in stored.first_documents(collection, meta.id, wanted):
        found[doc["name"]].append(doc)
    return lazy | {name: _settled(name, each, found[name]) for name, each in asked.items()}


def _first(variable: Variable) -> tuple[int, ...] | None:
    return None if variable.chunks is None else (0,) * len(variable.chunks)


def _settled(name: str, variable: Variable, docs: Docs) -> Variable:
    try:
        known = variable if variable.known else _with_sizes(name, variable, docs)
        if not docs:
            return known
        first = docs[0]
        sparse = first.get("type", "ndarray") == SPARSE
        fill = first.get("fill_value", known.fill) if sparse else None
        return replace(known, dtype=dtype_from_text(first.get("dtype"), name), sparse=sparse, fill=fill)
    except HyperslabError as problem:
        return replace(variable, problem=problem)


def _with_sizes(name: str, variable: Variable, docs: Docs) -> Variable:
    chunks = variable.chunks
    if chunks is None:
        shape = _shape(name, docs[0]) if docs else variable.shape
        return replace(variable, shape=_all(name, shape))
    sizes: list[list[int | None]] = [[None] * len(axis) for axis in chunks]
    for doc in docs:
        place = parse_key(doc)[1] or ()
        for axis, (index, size) in enumerate(zip(place, _shape(name, doc), strict=True)):
            if index >= len(sizes[axis]):
                continue
            if sizes[axis][index] not in (None, size):
                message = f"chunks of {name!r} that disagree on a length"
                raise CorruptDocument(message, expected=sizes[axis][index], found=size)
            sizes[axis][index] = size
    cuts = tuple(_all(name, tuple(axis)) for axis in sizes)
    return replace(variable, chunks=cuts, shape=tuple(sum(size or 0 for size in axis) for axis in cuts))


def _shape(name: str, doc: Mapping[str, Any]) -> Sizes:
    return sizes_of(doc.get("shape"), "shape", name)


def _all(name: str, sizes: Sizes) -> Sizes:
    if None in sizes:
        message = f"the size of {name!r} is not known: it was computed by nobody, or chunks of it are lost"
        raise CorruptDocument(message)
    return sizes
