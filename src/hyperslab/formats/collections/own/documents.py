"""Keys and documents of a collection: where its parts lie, how its arrays are cut, the ``zarr.json`` of each.

Names and values never lead elsewhere: ids are checked UUIDs, key entries are hashes, names of collections were checked.

An Array is one shard, cut into shards only along unlimited dimensions; a VArray has a shard per tile. Chunks have the
lengths that the options of the collection say, or those that any new array gets; in a tile the nearest that divide it.

The document of an array is that of Zarr v3, of which a collection uses the attributes most of the time: making one
costs little more than its attributes, reading a record no more than them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import msgspec

from hyperslab.chunks.auto import CHUNK_BYTES, auto_chunks
from hyperslab.errors import FormatError, Invalid, Problem
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.formats.collections.index_file import FILE, FILES
from hyperslab.formats.collections.stored_attributes import StoredAttributes
from hyperslab.formats.documents import check_limits, read_document, write_again, write_json
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.hdf5.filters import codecs_from_options
from hyperslab.formats.metadata_json import records
from hyperslab.formats.metadata_json.extended_metadata import (
    ATTRIBUTE,
    ExtendedMetadata,
    read_attributes,
    write_attributes,
    write_indexes,
)
from hyperslab.formats.metadata_json.records import key_to_bytes
from hyperslab.formats.zarr3.document import NAME, new_array, parse, render, type_to_name
from hyperslab.model.schemas import VArraySchema
from hyperslab.model.schemas.arrays import ArraySchema, AttributeValues, Record, allows_shape
from hyperslab.model.schemas.attributes import value_to_json
from hyperslab.model.schemas.options import check_options
from hyperslab.model.spec import ArraySpec

# -- keys -------------------------------------------------------------------------------------------------------------


COLLECTIONS = "collections"


DOCUMENT = "collection.json"


ARRAY = "zarr.json"


OLD_INDEX = "index"
"""A cache that older versions made; it is removed."""


INDEX_FILES = (OLD_INDEX, *FILES)
"""The names of what is a cache."""


BATCH = 1024
"""Documents that are in memory at once: they are fetched by many requests at once where they are such."""


ARRAYS, KEYS, GENERATIONS, UNSETTLED = "arrays", "keys", "generations", "unsettled"


JOURNAL, STAGED, CREATING, BATCHES = "journal", "staged", "creating", "batches"


VERSIONS = "versions"


MANIFESTS = "manifests"
"""The folder of the index, where values are no files."""


FOLDERS = (ARRAYS, KEYS, GENERATIONS, UNSETTLED, JOURNAL, STAGED, CREATING, BATCHES, VERSIONS, MANIFESTS)
"""All that a collection holds besides its document and files of an index."""


PART = 2
"""Characters of an id by which arrays are listed together."""


is_entry = re.compile(r"[0-9a-f]{32}", re.ASCII).fullmatch
"""A match when a name may be that of a key entry."""


@dataclass(frozen=True, slots=True)
class CollectionKeys:
    """The keys of the collection of this name."""

    name: str

    @property
    def base(self) -> str:
        """The folder of the collection."""
        return f"{COLLECTIONS}/{self.name}"

    def folder(self, name: str) -> str:
        """Return the key of one of :data:`FOLDERS`."""
        return f"{COLLECTIONS}/{self.name}/{name}"

    @property
    def document(self) -> str:
        """The key of the collection's document."""
        return f"{COLLECTIONS}/{self.name}/{DOCUMENT}"

    @property
    def index(self) -> str:
        """A cache of what the documents say: a file of SQLite, where values are files."""
        return f"{COLLECTIONS}/{self.name}/{FILE}"

    @property
    def old_index(self) -> str:
        """The cache of older versions."""
        return f"{COLLECTIONS}/{self.name}/{OLD_INDEX}"

    def array(self, id: str) -> str:
        """Return the folder of an array."""
        return f"{COLLECTIONS}/{self.name}/{ARRAYS}/{id[:PART]}/{id}"

    def array_document(self, id: str) -> str:
        """Return the document of an array."""
        return f"{COLLECTIONS}/{self.name}/{ARRAYS}/{id[:PART]}/{id}/{ARRAY}"

    def part(self, part: str) -> str:
        """Return the folder of the arrays that are listed together."""
        return f"{COLLECTIONS}/{self.name}/{ARRAYS}/{part}"

    def generation(self, part: str) -> str:
        """Return the key whose value changes when an array of a part does."""
        return f"{COLLECTIONS}/{self.name}/{GENERATIONS}/{part}"

    def unsettled(self, id: str) -> str:
        """Return the key that exists while an array's document changes."""
        return f"{COLLECTIONS}/{self.name}/{UNSETTLED}/{id}"

    def batch(self, txn: str) -> str:
        """Return the key of the value that tells what became of the arrays made together under this name."""
        return f"{COLLECTIONS}/{self.name}/{BATCHES}/{txn}"

    def entry(self, schema: ArraySchema, values: Record | AttributeValues) -> str:
        """Return the key entry of primary values: BLAKE2b of 16 bytes of their canonical JSON."""
        digest = hashlib.blake2b(key_to_bytes(schema, values), digest_size=16).hexdigest()
        return f"{COLLECTIONS}/{self.name}/{KEYS}/{digest}"


def part_of(id: str) -> str:
    """Return the part that an array is listed in."""
    return id[:PART]


# -- chunks and shards ------------------------------------------------------------------------------------------------


Lengths = tuple[int, ...]


# Chunks along an unlimited dimension in one shard, which is written whole with each that is appended.
_MOST_CHUNKS = 256


def new_spec(document: CollectionDocument) -> ArraySpec:
    """Return a new array of the collection, without attributes and labels; SchemaError, Unsupported."""
    schema = document.schema
    chunks, shards = chunk_and_shard_lengths(document)
    wish = ArraySpec(
        shape=schema.shape,
        dtype=schema.dtype,
        chunks=chunks,
        dims=tuple(dimension.name for dimension in schema.dimensions),
        codecs=codecs_from_options(document.options, schema.dtype),
        fill_value=schema.fill_value,
        layout={"shards": shards},
    )
    return new_array(wish)


def chunk_and_shard_lengths(document: CollectionDocument) -> tuple[Lengths, Lengths]:
    """Return the lengths of a chunk and of a shard."""
    schema = document.schema
    item = schema.dtype.itemsize
    wanted = None if document.options is None else document.options.chunks
    lengths = schema.arrays_shape if isinstance(schema, VArraySchema) else schema.shape
    chunks = wanted if isinstance(wanted, tuple) else auto_chunks(lengths, item)
    if document.options is not None:
        # An unlimited dimension has no length yet: a chunk of any length fits there.
        room = [length or chunk for length, chunk in zip(lengths, chunks, strict=False)]
        check_options(document.options, room if len(lengths) == len(chunks) else lengths)
    if isinstance(schema, VArraySchema):
        return tuple(map(_divisor, lengths, chunks)), lengths
    shards = [-(-length // chunk) * chunk or chunk for length, chunk in zip(lengths, chunks, strict=True)]
    open_axes = [axis for axis, length in enumerate(lengths) if not length]
    for axis in open_axes[:1]:
        while 2 * prod(shards) * item <= CHUNK_BYTES and shards[axis] < _MOST_CHUNKS * chunks[axis]:
            shards[axis] *= 2
    return chunks, tuple(shards)


def _divisor(length: int, chunk: int) -> int:
    """Return the whole part of a length that is nearest to ``chunk``, by their ratio."""
    if length % chunk == 0:
        return chunk
    small = [part for part in range(1, int(length**0.5) + 1) if length % part == 0]
    divisors = small + [length // part for part in small]
    return min(divisors, key=lambda part: (max(part / chunk, chunk / part), part))


# -- documents of arrays ----------------------------------------------------------------------------------------------


RECORD_ATTRIBUTES = (records.ID, records.PRIMARY, records.CUSTOM)
"""The attributes of an array that are its record."""


READ_STATE = "collections"
"""Where ``spec.layout`` keeps what was read, so that a change of one thing takes back no other one's change."""


class _Attributes(msgspec.Struct):
    id: Any = None
    primary_attributes: object = None
    custom_attributes: object = None
    mark: msgspec.Raw = msgspec.field(name=ATTRIBUTE, default=msgspec.Raw())


class _StoredDocument(msgspec.Struct):
    attributes: _Attributes


_decode = msgspec.json.Decoder(_StoredDocument).decode


@dataclass(frozen=True)
class ArrayDocuments:
    """The documents of the arrays of one collection."""

    document: CollectionDocument

    @cached_property
    def _stored(self) -> StoredAttributes:
        return self.document.stored

    @cached_property
    def template(self) -> ArraySpec:
        """A new array without attributes."""
        return new_spec(self.document)

    @cached_property
    def _head(self) -> bytes:
        """All of the document of a new array but its attributes, and the start of those."""
        doc = {key: value for key, value in render(self.template)[NAME].items() if key != "attributes"}
        return write_json(doc).rstrip()[:-1].rstrip() + b',\n  "attributes": '

    @cached_property
    def _marks(self) -> ExtendedMetadata | None:
        """The marks of all arrays, where they are the same."""
        return None if self.document.schema.start_attributes else self._marks_of({})

    def _marks_of(self, values: Mapping[str, object]) -> ExtendedMetadata:
        spec = self.template
        indexes = write_indexes(self.document.schema.indexes(values), spec.dims)
        return ExtendedMetadata(dtype=type_to_name(spec.dtype), indexes=indexes)

    def new_document(self, record: Record) -> bytes:
        """Return the document of a new array; Invalid when its attributes are too large to be read again."""
        marks = self._marks or self._marks_of(record.values)
        attributes = write_attributes(self._record_to_stored(record), marks)
        return _check_size(self._head + write_json(attributes).rstrip() + b"\n}", record.id)

    def parse_record(self, data: bytes, id: str) -> Record:
        """Return the record that a stored document holds; FormatError."""
        problems = Problems(f"{self.document.name}/{id}")
        record = records.record_from_json(self.document.schema, self._present_attributes(data), problems)
        if record.id != id and not problems.is_fatal:
            problems.fatal("id", f"the document is that of the array {record.id}")
        problems.raise_if_fatal()
        return record

    def problems(self, data: bytes, id: str) -> list[Problem]:
        """Return the problems of the record in a stored document, also those that a reader survives."""
        problems = Problems(f"{self.document.name}/{id}")
        records.record_from_json(self.document.schema, self._present_attributes(data), problems)
        return problems

    def _record_to_stored(self, record: Record) -> dict[str, Any]:
        return records.record_to_json(self._stored.record_to_stored(record))

    def _present_attributes(self, data: bytes) -> Mapping[str, object]:
        return self._by_present_names(_own_attributes(data))

    def _by_present_names(self, attributes: Mapping[str, object]) -> dict[str, Any]:
        """Return the attributes of a document with the names of the schema in those that are the record."""
        found = dict(attributes)
        for part in (records.PRIMARY, records.CUSTOM):
            if isinstance(values := found.get(part), Mapping):
                found[part] = dict(self._stored.to_present(values))
        return found

    def _with_unset_values(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return attributes of an array with those of the schema that its document lacks, as its record has them: a
        document is not written anew when the schema gets an attribute."""
        values = attributes.get(records.CUSTOM)
        if isinstance(values, Mapping):
            unset = {each.name: each for each in self.document.schema.custom_attributes if each.name not in values}
            if unset:
                later = {name: value_to_json(each.unset_value) for name, each in unset.items()}
                attributes[records.CUSTOM] = {**values, **later}
        return attributes

    def parse_spec(self, data: bytes, id: str) -> ArraySpec:
        """Return the array of a stored document; FormatError."""
        spec = parse({NAME: read_document(data, NAME)}, f"{self.document.name}/{id}")
        if not spec.is_array or len(spec.shape) != len(self.document.schema.dimensions):
            message = "the document is not that of an array of this collection"
            raise FormatError(message, problems=(Problem(f"{self.document.name}/{id}", "array", message),))
        stored = spec.attrs.get(records.CUSTOM) or {}
        later = {name: value for name, value in stored.items() if name not in self._stored.known}
        attrs = self._with_unset_values(self._by_present_names(spec.attrs))
        own = {name: attrs.get(name) for name in RECORD_ATTRIBUTES}
        state = {"attrs": own, "shape": spec.shape, "later": later}
        return spec.evolve(attrs=attrs, layout={**spec.layout, READ_STATE: state})

    @cached_property
    def _template_as_stored(self) -> ArraySpec:
        """A new array as its document reads."""
        spec = parse(render(self.template), self.document.name)
        if not spec.is_array:
            raise TypeError("no array")
        return spec

    def stores_as_schema(self, spec: ArraySpec) -> bool:
        """Return True if an array is cut and encoded as the collection cuts and encodes new ones."""
        bare = self._template_as_stored
        return (spec.dtype, spec.chunks, spec.codecs) == (bare.dtype, bare.chunks, bare.codecs)

    def is_single_shard(self, spec: ArraySpec) -> bool:
        """Return True if the array is, and stays, one stored object: what is written to it shows at one stroke."""
        if self.document.schema.unlimited:
            return False
        return all(isinstance(cut, int) and size <= cut for size, cut in zip(spec.shape, spec.chunks, strict=True))

    def with_record(self, spec: ArraySpec, record: Record, stored: ArraySpec) -> bytes:
        """Return the document of an array with another record, and labels that follow it; what others have added to the
        one that is ``stored`` stays, also values of attributes that came into the schema since it was read here."""
        indexes = self.document.schema.indexes(record.values, spec.shape)
        later = stored.layout[READ_STATE]["later"]
        made = self._record_to_stored(record)
        attrs = {**spec.attrs, **made, records.CUSTOM: {**made[records.CUSTOM], **later}}
        return _check_size(write_again(render(spec.evolve(attrs=attrs, indexes=indexes))[NAME]), record.id)

    def merge_changes(self, stored: ArraySpec, wish: ArraySpec) -> ArraySpec:
        """Return the stored array with what ``wish`` changes of the spec that it was made of: shape and custom
        attributes."""
        before = wish.layout.get(READ_STATE, {"attrs": {}, "shape": None})
        shape = stored.shape if wish.shape == before["shape"] else wish.shape
        old = before["attrs"].get(records.CUSTOM) or {}
        new = wish.attrs.get(records.CUSTOM) or {}
        changed = {name: value for name, value in new.items() if name not in old or old[name] != value}
        custom = {**(stored.attrs.get(records.CUSTOM) or {}), **changed}
        attrs = {**stored.attrs, records.CUSTOM: custom}
        same = all(wish.attrs.get(name, attrs[name]) == attrs[name] for name in RECORD_ATTRIBUTES[:2])
        if not same or wish.dtype != stored.dtype or wish.chunks != stored.chunks or wish.dims != stored.dims:
            message = "id, primary attributes, type, dimensions and cut of an array of a collection never change"
            raise Invalid(message, remedy="make another array")
        if not allows_shape(self.document.schema, shape):
            message = f"shape {shape} in a collection of arrays of shape {self.document.schema.shape}"
            raise Invalid(message, remedy="only unlimited dimensions grow and shrink")
        return stored.evolve(shape=shape, attrs=attrs)


def _own_attributes(data: bytes) -> Mapping[str, object]:
    """Return the attributes of a document that are the record; the whole document is read only where it is odd."""
    try:
        found = _decode(data).attributes
        if b'"attrs"' not in bytes(found.mark):
            return {
                records.ID: found.id,
                records.PRIMARY: found.primary_attributes,
                records.CUSTOM: found.custom_attributes,
            }
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    attributes = read_document(data, NAME).get("attributes")
    return read_attributes(attributes)[0] if isinstance(attributes, dict) else {}


def _check_size(data: bytes, id: str) -> bytes:
    try:
        check_limits(data)
    except FormatError as error:
        message = f"the attributes of {id} make its document too large: {error.message}"
        raise Invalid(message, remedy="store large values as cells") from None
    return data
