"""The variables of an object as the groups and arrays of a hyperslab dataset; the way back is in ``edit_document``.

What the documents of xarray_mongodb do not say stands in the field ``hyperslab``: by variable the cell that chunks
without documents read as (``fill``; in ``fill_value`` where all are stored), chunk lengths that the sizes do not tell,
types of attributes, and the attribute ``coordinates``, which the object says by where its variables stand. Documents
know no groups: an array in one is a variable called by its whole path (``surface/t2m``), which others read as any; the
groups with their attributes stand by their paths in ``groups`` of the field ``hyperslab``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.errors import HyperslabError
from hyperslab.formats.dimension_suffix import strip_suffix
from hyperslab.formats.mongo import chunk_queries
from hyperslab.formats.mongo.bson_values import (
    Collections,
    Document,
    DocumentCollection,
    MutableDocument,
    decode_attrs,
    dtype_from_text,
    parse_sizes,
    subdocument,
)
from hyperslab.formats.mongo.chunk_documents import SPARSE, DerivedIds, parse_key
from hyperslab.formats.mongo.document import ARRAY, Meta, Variable
from hyperslab.formats.mongo.errors import CorruptDocument
from hyperslab.model.dims import Dimension
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec, Chunks, GroupSpec

# -- groups within an object ------------------------------------------------------------------------------------------


GROUPS = "groups"


def inner_groups(meta: Meta) -> Document:
    """Return by path what the object declares of the groups below the root."""
    return subdocument(meta.extension, GROUPS)


def child_names(path: str, groups: Iterable[str], arrays: Iterable[str]) -> Iterator[str]:
    """Yield the names right below a group: arrays, then groups."""
    prefix = f"{path}/" if path else ""
    for name in (*arrays, *groups):
        if name.startswith(prefix) and name != path and "/" not in name[len(prefix) :]:
            yield name[len(prefix) :]


def inner_group_spec(meta: Meta, path: str) -> GroupSpec | None:
    """Return a group below the root; None where there is none."""
    declared = inner_groups(meta).get(path)
    if not isinstance(declared, Mapping):
        return None
    attrs = decode_attrs(subdocument(declared, "attrs"), attr_codes(declared))
    return GroupSpec(attrs=attrs, dims=_unlimited_dims(meta, declared, path))


def _unlimited_dims(meta: Meta, declared: Document, path: str) -> tuple[Dimension, ...]:
    """Return the unlimited dimensions that a group at ``path`` declares."""
    names = declared.get("unlimited")
    dims = [dim for dim in names if isinstance(dim, str)] if isinstance(names, list) else []
    return tuple(Dimension(dim, _dimension_length(meta, dim, path), True) for dim in dims)


def _dimension_length(meta: Meta, dim: str, path: str) -> int:
    """Return the length of the longest array along a dimension, of those in the group or else of those below it."""
    inside = {name: each for name, each in meta.variables.items() if not path or f"{name}/".startswith(f"{path}/")}
    own = {name: each for name, each in inside.items() if split(name)[0] == path}
    for some in (own, inside):
        sizes = (zip(original_dims(meta, each), each.shape, strict=True) for each in some.values() if not each.problem)
        if found := [size or 0 for pairs in sizes for name, size in pairs if name == dim]:
            return max(found)
    return 0


def original_dims(meta: Meta, variable: Variable) -> tuple[str, ...]:
    """Return the names of a variable's dimensions as they were given."""
    names = [dim if isinstance(dim, str) else str(dim) for dim in variable.dims]
    if not any("@" in name for name in names):
        return tuple(names)
    known = {dim for each in meta.variables.values() for dim in each.dims}
    return tuple(
        strip_suffix(name, size or 0, known.__contains__) for name, size in zip(names, variable.shape, strict=True)
    )


COORDINATES = "coordinates"


# -- names ------------------------------------------------------------------------------------------------------------


def node_names(meta: Meta) -> dict[str, str]:
    """Return the names of variables by their names in a hyperslab dataset, in order.

    The variable of a DataArray is called as the DataArray, where that is a name that no coordinate has, else ``data``.
    What is no name of a node (empty, dots, with slashes) is escaped as in URLs.
    """
    found: dict[str, str] = {}
    variables = meta.variables
    groups = inner_groups(meta)
    for name in variables:
        above, last = split(name)
        if meta.is_array and name == ARRAY:
            wishes = (meta.name, "data")
            free = [wish for wish in wishes if isinstance(wish, str) and _is_usable(wish) and wish not in variables]
            face = (free or [ARRAY])[0]
        elif _is_usable(name) or (above in groups and _is_usable(last)):
            face = name
        else:
            forbidden = "./\\\0%" if name in (".", "..") else "/\\\0%"
            face = "".join(f"%{ord(c):02X}" if c in forbidden else c for c in name) or "%"
            while face in variables or face in found:
                face += "%"
        found[face] = name
    return found


def _is_usable(name: str) -> bool:
    return name not in ("", ".", "..") and not any(letter in name for letter in "/\\\0")


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VariableChunks:
    """How an array is cut: chunk lengths in a hyperslab dataset, and by axis which of the stored chunks they are where
    some hold nothing (None: all of them)."""

    chunks: Chunks
    stored: tuple[tuple[int, ...] | None, ...]

    def index_of(self, coords: tuple[int, ...]) -> tuple[int, ...]:
        """Return the indices of a chunk in its documents."""
        return tuple(place if known is None else known[place] for place, known in zip(coords, self.stored, strict=True))

    def coords_of(self, key: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the chunk in a hyperslab dataset; None for one that is not there, or holds nothing."""
        if len(key) != len(self.stored):
            return None
        places = []
        for place, known in zip(key, self.stored, strict=True):
            if known is not None and place not in known:
                return None
            places.append(place if known is None else known.index(place))
        return tuple(places)


def variable_chunks(variable: Variable, extension: Document) -> VariableChunks:
    """Return how a variable whose sizes are known is cut."""
    shape = known_sizes(variable.shape)
    if variable.chunks is None:
        chunks: Chunks = whole_chunks(shape)
        stored: tuple[tuple[int, ...] | None, ...] = (None,) * len(shape)
    else:
        cuts = [_axis_chunks(known_sizes(sizes)) for sizes in variable.chunks]
        chunks, stored = tuple(cut for cut, _ in cuts), tuple(known for _, known in cuts)
    declared, is_empty = extension.get("chunks"), variable.chunks is None and 0 in shape
    if isinstance(declared, list) and len(declared) == len(shape) and not any(stored):

        def chosen_length(cut: Any, own: int | tuple[int, ...], length: int) -> int | tuple[int, ...]:
            """Return the length that the maker chose, where the axis has one chunk, or the array no cell."""
            least = 1 if is_empty else max(length, 1)
            fits = isinstance(own, int) and isinstance(cut, int) and cut >= least and own >= length
            return int(cut) if fits else own

        chunks = tuple(map(chosen_length, declared, chunks, shape))
    return VariableChunks(chunks, stored)


def _axis_chunks(sizes: tuple[int, ...]) -> tuple[int | tuple[int, ...], tuple[int, ...] | None]:
    nonempty = tuple(i for i, size in enumerate(sizes) if size)
    if not nonempty:
        return 1, None
    full = tuple(sizes[i] for i in nonempty)
    is_regular = len(set(full[:-1])) <= 1 and full[-1] <= full[0]
    return (full[0] if is_regular else full), None if len(full) == len(sizes) else nonempty


def known_sizes(sizes: tuple[int | None, ...]) -> tuple[int, ...]:
    """Return sizes each of which is known by now."""
    return tuple(0 if size is None else size for size in sizes)


def array_spec(meta: Meta, name: str, variable: Variable) -> ArraySpec:
    """Return the array that a variable, whose sizes are known, is in a hyperslab dataset."""
    extension = variable_extension(meta, name)
    if meta.is_array and name == ARRAY:
        attrs = _decode_attrs(meta.attrs, meta.extension)
    else:
        attrs = _decode_attrs(variable.attrs, extension)
    layout = {}
    if variable.units is not None:
        layout = {"units": variable.units, "attribute": "units" in attrs}
        attrs.setdefault("units", variable.units)
    return ArraySpec(
        shape=known_sizes(variable.shape),
        dtype=variable.dtype,
        chunks=variable_chunks(variable, extension).chunks,
        dims=original_dims(meta, variable),
        fill_value=fill_value_of(extension, variable),
        attrs=attrs,
        sparse=SPARSE if variable.sparse else None,
        layout=layout,
    )


def attr_codes(extension: Document) -> Document:
    """Return the codes of attributes, none where nothing sensible stands there."""
    return subdocument(extension, "attr_types")


def _decode_attrs(raw: Document, extension: Document) -> MutableDocument:
    """Return typed attributes, with the ``coordinates`` that stand in the field ``hyperslab``."""
    attrs = decode_attrs(raw, attr_codes(extension))
    declared = extension.get(COORDINATES)
    return attrs if declared is None or COORDINATES in attrs else {**attrs, COORDINATES: declared}


def variable_extension(meta: Meta, name: str) -> Document:
    """Return the part of the field ``hyperslab`` about one variable."""
    return subdocument(subdocument(meta.extension, "variables"), name)


def fill_value_of(extension: Document, variable: Variable) -> Any:
    """Return the cell that unwritten ones read as; None where the document does not say."""
    raw = extension.get("fill", extension.get("fill_value", variable.fill))
    if not isinstance(raw, bytes) or len(raw) != variable.dtype.itemsize or not raw:
        return None
    return np.frombuffer(raw, variable.dtype)[0]


def unstored_fill(meta: Meta, name: str) -> Any:
    """Return the cell that chunks without documents read as, of an array made as a hyperslab dataset; else None."""
    extension = variable_extension(meta, name)
    return fill_value_of(extension, meta.variables[name]) if "fill" in extension else None


def padding_fill(meta: Meta, name: str) -> Any:
    """Return the cell that fills up chunks that are too short, of an array made as a hyperslab dataset; else None."""
    extension, variable = variable_extension(meta, name), meta.variables[name]
    found = fill_value_of(extension, variable)
    return (np.zeros((), variable.dtype)[()] if found is None else found) if extension else None


def group_spec(meta: Meta) -> GroupSpec:
    """Return the group that an object is in a hyperslab dataset."""
    attrs = {} if meta.is_array else _decode_attrs(meta.attrs, meta.extension)
    if COORDINATES not in attrs:
        declared: set[str] = set()
        for name, variable in meta.variables.items():
            declared.update(split_names(variable_extension(meta, name).get(COORDINATES)))
            declared.update(split_names(variable.attrs.get(COORDINATES)))
        # Nothing but their place in the document distinguishes these coordinates from data.
        unnamed = [name for name, one in meta.coords.items() if one.dims != (name,) and name not in declared]
        if listed := [name for name in unnamed if name and not any(c.isspace() for c in name)]:
            attrs[COORDINATES] = " ".join(listed)
    return GroupSpec(attrs=attrs, dims=_unlimited_dims(meta, meta.extension, ""))


def split_names(text: object) -> list[str]:
    """Return the names that an attribute lists."""
    return text.split() if isinstance(text, str) else []


# -- what chunk documents say ---------------------------------------------------------------------------------------
# Chunk documents speak of their variables, where the document of the object may be wrong or not know it:
# dtype and type are those of the first chunk; sizes that nobody knew when the object was stored follow from the shapes
# of all chunks. One query asks for all variables of an object.


def infer_schema(collection: DocumentCollection, meta: Meta) -> dict[str, Variable]:
    """Return the variables that are not embedded, as their chunk documents have them; a ``problem`` where that
    fails."""
    lazy = {name: each for name, each in meta.variables.items() if each.problem is None and each.embedded is None}
    undeclared = {name: each for name, each in lazy.items() if not variable_extension(meta, name)}
    wanted: MutableDocument = {}
    for name, each in undeclared.items():
        first = None if each.chunks is None else (0,) * len(each.chunks)
        wanted[name] = first if each.has_known_sizes else ...
    found: dict[str, list[Document]] = {name: [] for name in wanted}
    for doc in chunk_queries.fetch_heads(collection, meta.id, wanted):
        found[doc["name"]].append(doc)
    return lazy | {name: _infer_variable(name, each, found[name]) for name, each in undeclared.items()}


def _infer_variable(name: str, variable: Variable, docs: Sequence[Document]) -> Variable:
    try:
        known = variable if variable.has_known_sizes else _infer_sizes(name, variable, docs)
        if not docs:
            return known
        first = docs[0]
        sparse = first.get("type", "ndarray") == SPARSE
        fill = first.get("fill_value", known.fill) if sparse else None
        return replace(known, dtype=dtype_from_text(first.get("dtype"), name), sparse=sparse, fill=fill)
    except HyperslabError as problem:
        return replace(variable, problem=problem)


def _infer_sizes(name: str, variable: Variable, docs: Sequence[Document]) -> Variable:
    """Return the variable with the sizes that the shapes of its chunks tell. CorruptDocument."""
    if variable.chunks is None:
        shape = parse_sizes(docs[0].get("shape"), "shape", name) if docs else variable.shape
        inferred = replace(variable, shape=shape)
    else:
        sizes: list[list[int | None]] = [[None] * len(axis) for axis in variable.chunks]
        for doc in docs:
            place = parse_key(doc)[1] or ()
            shape = parse_sizes(doc.get("shape"), "shape", name)
            for known, index, size in zip(sizes, place, shape, strict=True):
                if index >= len(known):
                    continue
                if known[index] not in (None, size):
                    message = f"chunks of {name!r} that disagree on a length"
                    raise CorruptDocument(message, expected=known[index], found=size)
                known[index] = size
        shape = tuple(sum(size or 0 for size in axis) for axis in sizes)
        inferred = replace(variable, chunks=tuple(map(tuple, sizes)), shape=shape)
    if not inferred.has_known_sizes:
        message = f"the size of {name!r} is not known: it was computed by nobody, or chunks of it are lost"
        raise CorruptDocument(message)
    return inferred


_HEAD = dict.fromkeys(("name", "chunk", "n", "dtype", "type", "fill_value", "units"), 1)
# One $unionWith for each variable: an aggregation has at most 1000 stages (manual of MongoDB).
_MAX_PIPELINES = 100


class DeclaredVariable(NamedTuple):
    """A variable as a dask array describes it before it is computed, from one of its chunks where there is one;
    ``derived``: the ids of its documents follow from their keys."""

    variable: Variable
    derived: bool = False


def read_declarations(here: Collections, meta: Meta, names: Sequence[str]) -> dict[str, DeclaredVariable]:
    """Return the declarations of these variables, by one query for :data:`_MAX_PIPELINES` of them."""
    known = {name: DeclaredVariable(meta.variables[name]) for name in names}
    for start in range(0, len(names), _MAX_PIPELINES):
        parts: list[list[MutableDocument]] = [
            [{"$match": {"meta_id": meta.id, "name": {"$eq": name}}}, {"$limit": 1}, {"$project": _HEAD}]
            for name in names[start : start + _MAX_PIPELINES]
        ]
        others: list[MutableDocument] = [
            {"$unionWith": {"coll": here.chunks.name, "pipeline": part}} for part in parts[1:]
        ]
        for doc in here.chunks.aggregate([*parts[0], *others]):
            name, fill = doc["name"], doc.get("fill_value")
            # A document that makes no sense is passed over here, and an error when the chunk is read.
            with suppress(HyperslabError):
                dtype = dtype_from_text(doc.get("dtype"), parse_key(doc)[0])
                is_sparse = doc.get("type") == SPARSE and isinstance(fill, bytes) and len(fill) == dtype.itemsize
                own = replace(known[name].variable, dtype=dtype, sparse=is_sparse, fill=fill if is_sparse else None)
                own = replace(own, units=own.units or doc.get("units"))
                known[name] = DeclaredVariable(own, DerivedIds(meta.id).is_id_of(doc))
    return known
