"""The document of an object (``<prefix>.meta``) to plain values and back, and loaded by id.

What is ours beyond the specification stands in one field, ``hyperslab``, which other readers pass over; it is absent
where there is nothing to say, and always in what :class:`hyperslab.mongo.XarrayMongoDB` puts by default.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np
from bson import ObjectId
from pymongo import ReadPreference

from hyperslab.errors import HyperslabError, MissingChunks, NotFound
from hyperslab.formats.mongo.bson_values import (
    Document,
    DocumentCollection,
    MutableDocument,
    Sizes,
    dtype_from_text,
    dtype_to_text,
    parse_index,
    parse_sizes,
    subdocument,
    to_little_endian,
)
from hyperslab.formats.mongo.chunk_documents import (
    DENSE,
    SPARSE,
    AssembledChunk,
    Segment,
    assemble_chunk,
    bytes_view,
    encode_coo,
    expected_bytes,
)
from hyperslab.formats.mongo.errors import CorruptDocument, DocumentNotFoundError
from hyperslab.model.coo import Coo, Numbers
from hyperslab.stores.attempts import kept_waiting

ARRAY = "__DataArray__"
"""The name of the one variable of a DataArray."""
EXTENSION = "hyperslab"
"""The field of a meta document that no one else writes."""
VERSION = f"{EXTENSION}.version"
"""Counts the changes of the document, so that one is made only to what was read."""
STATUS = f"{EXTENSION}.status"
""":data:`WRITING` while the object is being made, :data:`RETIRED` of an older version of another one, else absent. An
object with a status is found by its id alone."""
WRITING, RETIRED = "writing", "retired"
RETIRED_AT = f"{EXTENSION}.retired_at"
"""When another object took the place of a version."""
KEPT_UNTIL = f"{EXTENSION}.kept_until"
"""When garbage collection may remove a version; absent: never."""
LINEAGE = f"{EXTENSION}.lineage"
"""What an object and its older versions have in common: the id of the oldest one."""
SINCE = f"{EXTENSION}.since"
"""When an object took the place of a version."""
KEEPS = f"{EXTENSION}.keeps"
"""There until an object has taken a place: for how many seconds what it replaces is kept as a version, -1 for ever."""
TOUCHED = f"{EXTENSION}.touched"
"""When such an object last gave a sign of life."""
PUTTING = f"{EXTENSION}.putting"
"""There while the chunks of an object are stored that can be found already: True, or when that was last touched."""
CLAIMS = f"{EXTENSION}.claims"
"""The name that the object is about to take, or the id of an object without a name whose place it is about to take."""
REPLACES = f"{EXTENSION}.replaces"
"""The object whose place this one has taken, or is to take; that one is still to be removed."""
LEASE = f"{EXTENSION}.lease"
"""Who changes the object (``owner``), and ``until`` when nobody else may; ``moves`` (True) while the holder makes a new
object of it, which will lack what others change meanwhile."""
UNDO = f"{EXTENSION}.undo"
"""The chunks that are being changed, and where copies of their old documents lie."""
DERIVED: Literal["derived"] = "derived"
"""The value of ``chunk_ids`` in that field where the ids of chunk documents follow from their keys."""
_KNOWN = ("_id", "attrs", "coords", "data_vars", "chunkSize", "name", EXTENSION)
# More than any collection holds; a damaged document may claim any number.
_MOST_CHUNKS = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One variable. ``chunks``: sizes per axis, None when it is stored whole; None in a size: nobody knows it.

    ``embedded`` are cells that stand in the document itself. ``problem`` says why nothing can be read of it; its entry
    is kept as it is stored (``raw``), whatever else of the object is changed.
    """

    dims: tuple[Hashable, ...]
    dtype: np.dtype
    shape: Sizes
    chunks: tuple[Sizes, ...] | None = None
    sparse: bool = False
    attrs: Document = field(default_factory=dict)
    units: str | None = None
    fill: bytes | None = None
    embedded: AssembledChunk | None = None
    problem: HyperslabError | None = None
    raw: Any = None

    @property
    def keys(self) -> Iterator[tuple[int, ...] | None]:
        """The chunks that must be stored; none of what is embedded."""
        if self.embedded is None and self.chunks is None:
            yield None
        elif self.embedded is None and self.chunks is not None:
            yield from product(*(range(len(sizes)) for sizes in self.chunks))

    def has(self, chunk: tuple[int, ...] | None) -> bool:
        """Return True if its grid has such a chunk."""
        if chunk is None or self.chunks is None:
            return chunk is None and self.chunks is None
        inside = [index < len(sizes) for index, sizes in zip(chunk, self.chunks, strict=False)]
        return len(chunk) == len(self.chunks) and all(inside)

    @property
    def has_known_sizes(self) -> bool:
        """Return True if every size is known."""
        return None not in self.shape and all(None not in sizes for sizes in self.chunks or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """One object: its variables in order, attributes, name (None: it has none), and the most bytes of a segment.

    ``extension``: the field ``hyperslab``; ``extra``: fields that nobody here knows, which are kept.
    """

    id: Any
    coords: Mapping[str, Variable]
    data_vars: Mapping[str, Variable]
    chunk_size: int
    attrs: Document = field(default_factory=dict)
    name: Any = None
    extension: Document = field(default_factory=dict)
    extra: Document = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, Variable]:
        """Coordinates first, then the data."""
        return {**self.coords, **self.data_vars}

    @property
    def has_derived_ids(self) -> bool:
        """Return True if the ids of its chunk documents follow from their keys."""
        return self.extension.get("chunk_ids") == DERIVED

    @property
    def is_array(self) -> bool:
        """Return True if it is a DataArray."""
        return list(self.data_vars) == [ARRAY]


# -- reading ----------------------------------------------------------------------------------------------------------


def parse_object(doc: Document) -> Meta:
    """Return the object; a variable that makes no sense has a ``problem``, the others can be read. CorruptDocument."""
    key = str(doc.get("_id"))
    coords, data_vars = doc.get("coords", {}), doc.get("data_vars", {})
    attrs, extension = doc.get("attrs") or {}, doc.get(EXTENSION) or {}
    for what, value in (("coords", coords), ("data_vars", data_vars), ("attrs", attrs), (EXTENSION, extension)):
        if not isinstance(value, Mapping):
            found = type(value).__name__
            raise CorruptDocument(f"{what} of an object", expected="a document", found=found, key=key)
    if "data_vars" not in doc and "coords" not in doc:
        raise CorruptDocument("this document describes no xarray object", key=key)

    def parse_part(part: Document) -> dict[str, Variable]:
        variables: dict[str, Variable] = {}
        for name, value in part.items():
            try:
                if name in coords and name in data_vars:
                    raise CorruptDocument(f"{name!r} is a coordinate and a data variable", key=key)
                variables[name] = _parse_variable(name, value)
            except HyperslabError as problem:
                variables[name] = Variable(dims=(), dtype=np.dtype("V1"), shape=(), problem=problem, raw=value)
        return variables

    if list(data_vars) == [ARRAY] and isinstance(data_vars[ARRAY], Mapping):
        # The attributes of a DataArray stand at the top, and win over those of its variable.
        attrs = {**subdocument(data_vars[ARRAY], "attrs"), **attrs}
    return Meta(
        id=doc.get("_id"),
        coords=parse_part(coords),
        data_vars=parse_part(data_vars),
        chunk_size=parse_index(doc.get("chunkSize", 0), "chunkSize", key),
        attrs=attrs,
        name=doc.get("name"),
        extension=extension,
        extra={name: value for name, value in doc.items() if name not in _KNOWN},
    )


def _parse_variable(name: str, doc: object) -> Variable:
    if not isinstance(doc, dict):
        raise CorruptDocument(f"variable {name!r}", expected="a document", found=type(doc).__name__)
    dims, attrs, units = doc.get("dims"), doc.get("attrs") or {}, doc.get("units")
    if not isinstance(dims, list) or not isinstance(attrs, dict) or not isinstance(units, str | None):
        raise CorruptDocument(f"variable {name!r}", expected="dims, attrs, units", found=sorted(doc))
    if any(isinstance(dim, list | dict) for dim in dims):
        raise CorruptDocument(f"dims of {name!r}", expected="names", found=dims)
    shape, chunks = parse_sizes(doc.get("shape"), "shape", name), _parse_chunks(doc.get("chunks"), name)
    if len(dims) != len(shape) or (chunks is not None and len(chunks) != len(shape)):
        raise CorruptDocument(f"dims, shape and chunks of {name!r}", expected=len(dims), found=(shape, chunks))
    for size, sizes in zip(shape, chunks or (), strict=False):
        whole = [part for part in sizes if part is not None]
        if size is not None and len(whole) == len(sizes) and sum(whole) != size:
            raise CorruptDocument(f"chunks of {name!r} that do not add up", expected=size, found=sum(whole))
    found = Variable(
        dims=tuple(dims),
        dtype=dtype_from_text(doc.get("dtype"), name),
        shape=shape,
        chunks=chunks,
        sparse=doc.get("type", DENSE) == SPARSE,
        attrs=attrs,
        units=units,
        fill=doc.get("fill_value"),
    )
    embedded = _parse_embedded(name, doc, found)
    return found if embedded is None else replace(found, embedded=embedded)


def _parse_chunks(value: object, name: str) -> tuple[Sizes, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise CorruptDocument(f"chunks of {name!r}", expected="a list of lists of sizes", found=value)
    chunks = tuple(parse_sizes(sizes, "chunks", name) for sizes in value)
    if (count := prod(map(len, chunks))) > _MOST_CHUNKS:
        raise CorruptDocument(f"chunks of {name!r}", expected=f"at most {_MOST_CHUNKS}", found=count)
    return chunks


def _parse_embedded(name: str, doc: Document, variable: Variable) -> AssembledChunk | None:
    data = doc.get("sparse_data" if variable.sparse else "data")
    if data is None:
        return None
    coords, fill = (doc.get("sparse_coords"), doc.get("fill_value")) if variable.sparse else (None, None)
    shape = tuple(size for size in variable.shape if size is not None)
    whole = isinstance(coords, bytes) and isinstance(fill, bytes) if variable.sparse else True
    if not isinstance(data, bytes) or not whole or len(shape) != len(variable.shape):
        raise CorruptDocument(f"the bytes of {name!r} in its object", expected="bytes", found=type(data).__name__)
    nnz = parse_index(doc.get("nnz"), "nnz", name) if variable.sparse else None
    segment = Segment((name, None), 0, variable.dtype, shape, data, coords, nnz, fill)
    try:
        return assemble_chunk(segment.key, [segment])
    except MissingChunks:
        message = f"the bytes of {name!r} in its object"
        raise CorruptDocument(message, expected=sum(expected_bytes(segment)), found=len(data)) from None


# -- writing ----------------------------------------------------------------------------------------------------------


def render_object(meta: Meta) -> MutableDocument:
    """Return the document, its fields in the order that xarray_mongodb gives them."""
    doc: MutableDocument = {} if meta.id is None else {"_id": meta.id}
    for part, variables in (("coords", meta.coords), ("data_vars", meta.data_vars)):
        doc[part] = {name: _render_variable(name, variable) for name, variable in variables.items()}
    doc["chunkSize"] = meta.chunk_size
    if meta.attrs:
        doc["attrs"] = dict(meta.attrs)
    if meta.name is not None:
        doc["name"] = meta.name
    if meta.extension:
        doc[EXTENSION] = dict(meta.extension)
    return doc | dict(meta.extra)


def _render_variable(name: str, variable: Variable) -> Any:
    """Return the entry of one variable. Unsupported for its dtype."""
    if variable.problem is not None:
        return variable.raw

    def render_sizes(sizes: Sizes) -> list[int | float]:
        return [float("nan") if size is None else size for size in sizes]

    doc: MutableDocument = {
        "dims": list(variable.dims),
        "dtype": dtype_to_text(variable.dtype, name),
        "shape": render_sizes(variable.shape),
        "chunks": None if variable.chunks is None else list(map(render_sizes, variable.chunks)),
        "type": SPARSE if variable.sparse else DENSE,
    }
    if variable.attrs:
        doc["attrs"] = dict(variable.attrs)
    if variable.units is not None:
        doc["units"] = variable.units
    if variable.sparse and variable.fill is not None:
        doc["fill_value"] = variable.fill
    if variable.embedded is not None:
        first = variable.embedded.first
        sparse = {"nnz": first.nnz, "sparse_data": first.data, "sparse_coords": first.coords}
        doc |= sparse if first.sparse else {"data": first.data}
    return doc


def embed_cells(name: str, cells: Numbers | Coo) -> AssembledChunk:
    """Return cells as they stand in the document of their object."""
    if isinstance(cells, Coo):
        nnz, data, places, fill = encode_coo(cells)
        return AssembledChunk((Segment((name, None), 0, cells.dtype, cells.shape, data, places, nnz, fill),))
    stored = to_little_endian(cells)
    return AssembledChunk((Segment((name, None), 0, stored.dtype, stored.shape, bytes_view(stored).tobytes()),))


def choose_embedded(sizes: Mapping[str, int], threshold: int) -> set[str]:
    """Return which of the variables that are stored whole stand in the document: the smallest, as long as their bytes
    add up to no more than ``threshold``; one without bytes always does.
    """
    left, names = threshold, set()
    for name in sorted(sizes, key=lambda name: sizes[name]):
        left -= sizes[name]
        if left < 0:
            break
        names.add(name)
    return names


# -- in the collection ------------------------------------------------------------------------------------------------


def load_meta(meta: DocumentCollection, id: ObjectId) -> Meta:
    """Return the document of an object. DocumentNotFoundError, CorruptDocument."""
    doc = meta.find_one({"_id": {"$eq": id}})
    if doc is None:
        raise DocumentNotFoundError(id)
    return parse_object(doc)


def raise_problems(meta: Meta) -> Meta:
    """Return the object, if every variable of it can be read; else raise what is wrong with the first that cannot."""
    for variable in meta.variables.values():
        if variable.problem is not None:
            raise variable.problem
    return meta


def object_exists(meta: DocumentCollection, id: ObjectId) -> bool:
    """Return True if the collection has the document of an object; its chunks go after it."""
    return meta.find_one({"_id": {"$eq": id}}, {"_id": 1}) is not None


def load_extension(meta: DocumentCollection, id: ObjectId, url: str, owner: str | None) -> Document:
    """Return what the field ``hyperslab`` of an object says of changes, before one is made to it by whoever holds it as
    ``owner`` (None: does not), and behind it: the errors of :func:`raise_if_moved`."""
    # A secondary may not know yet that the object was removed, or is held.
    newest = meta.with_options(read_preference=ReadPreference.PRIMARY)
    doc = newest.find_one({"_id": {"$eq": id}}, dict.fromkeys((UNDO, VERSION, STATUS, LEASE), 1))
    if doc is None:
        raise NotFound("the object is gone", url=url, key=str(id), remedy="open it again")
    extension = subdocument(doc, EXTENSION)
    raise_if_moved(meta, id, extension, url, owner)
    return extension


def raise_if_moved(meta: DocumentCollection, id: ObjectId, extension: Document, url: str, owner: str | None) -> None:
    """Raise NotFound for an older version, which nobody changes, and Conflict while another holder than ``owner`` makes
    a new object of this one."""
    if extension.get("status") == RETIRED:
        message = "another object has taken the place of this one, which is an older version"
        raise NotFound(message, url=url, key=str(id), remedy="open it by its name, and write again")
    lease = subdocument(extension, "lease")
    if not lease.get("moves") or lease.get("owner") == owner:
        return
    # A lease whose time has passed is taken away, not passed over: a holder that came to a halt must find it gone.
    expired = {f"{LEASE}.owner": {"$eq": lease.get("owner")}, "$expr": {"$lt": [f"${LEASE}.until", "$$NOW"]}}
    if not meta.update_one({"_id": id, **expired}, {"$unset": {LEASE: ""}}).matched_count:
        raise kept_waiting(url, str(id))
