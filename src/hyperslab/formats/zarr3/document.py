"""``zarr.json``: to specs and back. Pure.

Both directions take the documents of one node as ``{"zarr.json": document}``. Extension keys that need not be
understood and spellings that mean the same are kept in ``spec.layout`` and written again.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from hyperslab.codecs.registry import try_chain, type_after
from hyperslab.codecs.sharding import INDEX_CODECS
from hyperslab.errors import FormatError, Invalid
from hyperslab.formats.codec_kinds import ARRAY, array_to_bytes_codec, undecodable_reasons, with_array_to_bytes
from hyperslab.formats.documents import JsonMapping, JsonObject, as_list, object_or_empty
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.metadata_json.attributes import Code, encode_attribute
from hyperslab.formats.metadata_json.cells import (
    base64_to_bytes,
    bytes_to_base64,
    fill_values_equal,
    to_fill_cell,
)
from hyperslab.formats.metadata_json.extended_metadata import (
    ATTRIBUTE,
    VERSION,
    ExtendedMetadata,
    apply_described_type,
    plain_type,
    read_attributes,
    read_indexes,
    type_to_describe,
    write_attributes,
    write_indexes,
)
from hyperslab.formats.zarr.chunks import KeyOf
from hyperslab.formats.zarr.dialect import ConsolidatedDocs, Docs, MetadataDialect
from hyperslab.formats.zarr3.codecs import (
    chunk_keys,
    read_codecs,
    read_extension,
    read_grid,
    read_keys,
    write_codecs,
    write_grid,
)
from hyperslab.formats.zarr3.dtypes import (
    STRUCTURED,
    has_byte_order,
    is_raw,
    read_dtype,
    read_fill,
    write_dtype,
    write_fill,
)
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.bounded_memo import BoundedMemo
from hyperslab.model.cells import float_to_json
from hyperslab.model.dtypes import (
    Compound,
    DataType,
    Enum,
    NumpyDType,
    Opaque,
    VlenArray,
    VlenBytes,
    VlenString,
    describe,
    numpy_dtype,
)
from hyperslab.model.spec import ArraySpec, Chunks, Codec, GroupSpec
from hyperslab.stores.keys import is_key

# -- the attribute _FillValue, as xarray spells it --------------------------------------------------------------------
# xarray's reader of Zarr v3 fails on a dataset with any other spelling (xarray.backends.zarr.FillValueCoder): base64 of
# the little-endian float64 in arrays of floats, a pair of these in complex arrays, a plain number in arrays of integers
# and booleans. Values that it cannot spell stand in our own attribute.


_SHAPED = re.compile(r"\[[\d,]*\]$")


def write_missing_value(value: object, dtype: DataType) -> tuple[object, Code | None] | None:
    """Return the value as xarray reads it, and its code; None when xarray would fail on it."""
    cell = value.reshape(-1)[0] if isinstance(value, np.ndarray) and value.size == 1 else value
    if isinstance(cell, np.ndarray | list | dict) or (isinstance(value, np.ndarray) and value.ndim > 1):
        return None
    stored = numpy_dtype(dtype)
    kind, code = stored.kind, encode_attribute(FILL_VALUE, value)[1]
    if isinstance(cell, np.generic):
        code = None if isinstance(value, np.generic) and cell.dtype == stored and kind in "fc" else code
    elif code is None and kind in "fc":
        code = "int" if isinstance(cell, int) else "float"
    match cell:
        case bool() | np.bool_():
            return (bool(cell), code) if kind == "b" else None
        case complex() | np.complexfloating() if kind == "c":
            return [_pack(float(cell.real)), _pack(float(cell.imag))], code
        case int() | np.integer() if kind in "iu":
            return int(cell), code
        case int() | np.integer() if kind == "f" and abs(int(cell)) < 2**1000 and int(float(cell)) == int(cell):
            return _pack(float(cell)), code
        case float() | np.floating() if kind == "f":
            return _pack(float(cell)), code
        case float() | np.floating() if kind in "iu" and np.isfinite(cell):
            return float(cell), code
        case _:
            return None


def _pack(value: float) -> str:
    return bytes_to_base64(struct.pack("<d", value))


def read_missing_value(stored: JsonMapping, dtype: DataType) -> JsonMapping:
    """Return the stored attributes with ``_FillValue`` as any other attribute is spelled, its code in the mark."""
    if FILL_VALUE not in stored:
        return stored
    content = stored.get(ATTRIBUTE)
    mark = content if isinstance(content, dict) else {"version": VERSION}
    codes = object_or_empty(mark.get("attrs"))
    cells = numpy_dtype(dtype)
    value, code = stored[FILL_VALUE], codes.get(FILL_VALUE)
    number = _unpack(value, cells.kind)
    if number is not None:
        value = number
        code = cells.str if code is None else code
    if code is None:
        return stored
    if isinstance(code, str) and _SHAPED.search(code) and (number is not None or not isinstance(value, list)):
        value = [value]
    return {**stored, FILL_VALUE: value, ATTRIBUTE: {**mark, "attrs": {**codes, FILL_VALUE: code}}}


def _unpack(value: object, kind: str) -> object:
    """Return the number of xarray's spelling as JSON; None when it is not spelled so."""
    try:
        match value:
            case str() if kind == "f":
                return float_to_json(struct.unpack("<d", base64_to_bytes(value))[0])
            case [str(real), str(imag)] if kind == "c":
                return [float_to_json(struct.unpack("<d", base64_to_bytes(part))[0]) for part in (real, imag)]
            case _:
                return None
    except (TypeError, struct.error):
        return None


NAME = "zarr.json"
CONSOLIDATED = "consolidated_metadata"
_KEYS = {
    "group": frozenset({"zarr_format", "node_type", "attributes", CONSOLIDATED}),
    "array": frozenset(
        [
            "zarr_format",
            "node_type",
            "attributes",
            "shape",
            "data_type",
            "chunk_grid",
            "chunk_key_encoding",
            "fill_value",
            "codecs",
            "dimension_names",
            "storage_transformers",
        ]
    ),
}
_DEFAULT_KEYS = {"name": "default", "configuration": {"separator": "/"}}


def read(docs: Docs, node: str, problems: Problems) -> GroupSpec | ArraySpec:
    """Return the spec of a node; what is wrong goes to ``problems``."""
    doc = docs[NAME]
    if doc.get("zarr_format") != 3:
        problems.fatal("zarr_format", f"zarr_format is {shorten(doc.get('zarr_format'))}, not 3")
    kind = doc.get("node_type")
    if kind not in ("group", "array"):
        problems.fatal("node_type", f"node_type is {shorten(kind)}, not 'group' or 'array'")
        return GroupSpec()
    for key, value in doc.items():
        if key in _KEYS[kind] or (isinstance(value, dict) and value.get("must_understand") is False):
            continue
        message = f"the key {key!r} is not known, and says not that it need not be understood"
        if kind == "array":
            problems.undecodable("must_understand", message)
        else:
            problems.fatal("must_understand", message)
    own = dict(doc)
    own.pop(CONSOLIDATED, None)
    stored = own.pop("attributes", {})
    if not isinstance(stored, dict):
        stored = problems.mapping("attributes", stored) or {}
    layout = {"zarr3": own}
    if kind == "array":
        # Nearly always it follows from the rest alone what the array is, and many arrays have the same rest.
        plain = not problems and ATTRIBUTE not in stored and FILL_VALUE not in stored
        if plain and (sound := _read_sound(own)) is not None:
            return sound.evolve(attrs=dict(stored), layout=layout)
        return _read_array(doc, stored, problems, layout)
    attrs, marks = read_attributes(stored)
    return GroupSpec(attrs=attrs, dims=marks.dims, types=marks.types, layout=layout)


def _read_array(doc: JsonMapping, stored: JsonMapping, problems: Problems, layout: JsonMapping) -> ArraySpec:
    shape = problems.lengths("shape", doc.get("shape"), 0)
    if shape is None:
        return ArraySpec(shape=(), dtype=Opaque(1), chunks=())
    chunks = read_grid(doc.get("chunk_grid"), shape, problems)
    read_keys(doc.get("chunk_key_encoding"), problems)
    plain: DataType | None = None
    try:
        plain = read_dtype(doc.get("data_type"))
    except TypeError as error:
        problems.undecodable("data_type", str(error))
    codecs = read_codecs(doc.get("codecs"), plain, chunks, problems)
    for reason in [] if problems.is_fatal else undecodable_reasons(codecs):
        problems.undecodable("unknown-codec", reason)
    for value in as_list(doc.get("storage_transformers") or []):
        found = read_extension(value)
        name = shorten(found[0] if found else value)
        problems.undecodable("storage_transformer", f"storage transformer {name} is not known")
    attrs, marks = read_attributes(stored if plain is None else read_missing_value(stored, plain))
    dtype = Opaque(1, shorten(doc.get("data_type"))) if plain is None else apply_described_type(plain, marks.dtype)
    fill = None if plain is None else _read_fill(doc, dtype, problems)
    if isinstance(dtype, VlenArray):
        codecs = _renamed(codecs, "vlen-bytes", Codec("vlen-array", {"dtype": dtype.base.newbyteorder("<").str}))
    dims, ndim = doc.get("dimension_names"), len(shape)
    if dims is None:
        dims = ()
    elif not isinstance(dims, list) or len(dims) != ndim or not all(isinstance(dim, str | None) for dim in dims):
        message = f"dimension_names is {shorten(dims)}, not a name or null for {ndim} dimensions"
        problems.fatal("dimension_names", message)
        dims = ()
    return ArraySpec(
        shape=shape,
        dtype=dtype,
        chunks=chunks,
        dims=tuple(dims),
        codecs=codecs,
        fill_value=fill,
        attrs=attrs,
        indexes=read_indexes(marks.indexes, tuple(dims), shape) if marks.indexes else {},
        problem=problems.undecodable_reason,
        layout=layout,
    )


def _read_sound_array(own: JsonMapping) -> ArraySpec | None:
    """Return the spec of a document without attributes; None where anything is wrong with it."""
    problems = Problems("")
    spec = _read_array(own, {}, problems, {})
    return None if problems else spec


_read_sound = BoundedMemo(_read_sound_array)


def _read_fill(doc: JsonMapping, dtype: DataType, problems: Problems) -> object:
    if "fill_value" not in doc:
        problems.fatal("fill_value", "fill_value is missing")
        return None
    try:
        return read_fill(doc["fill_value"], dtype)
    except (TypeError, ValueError, OverflowError) as error:
        problems.fatal("fill_value", f"fill_value for cells of type {describe(dtype)}: {error}")
        return None


def _renamed(codecs: tuple[Codec, ...], old: str, new: Codec) -> tuple[Codec, ...]:
    """Return the chain with another codec from cells to bytes, in shards too."""
    found = []
    for codec in codecs:
        if codec.name == "sharding_indexed":
            inner = {"codecs": _renamed(codec.config["codecs"], old, new)}
            found.append(Codec(codec.name, {**codec.config, **inner}))
        else:
            found.append(new if codec.name == old else codec)
    return tuple(found)


def render(spec: GroupSpec | ArraySpec, structure: str = STRUCTURED) -> Docs:
    """Return the document of a node; Unsupported names what Zarr v3 cannot hold. ``structure``: how rows are spelled
    that have no spelling yet."""
    old: JsonMapping = spec.layout.get("zarr3", {})
    if spec.is_group:
        attributes = write_attributes(spec.attrs, ExtendedMetadata(spec.dims, None, spec.types))
        return {NAME: {"zarr_format": 3, "node_type": "group"} | dict(old) | {"attributes": attributes}}
    spelled, hidden = {}, []
    if FILL_VALUE in spec.attrs:
        value = write_missing_value(spec.attrs[FILL_VALUE], plain_type(spec.dtype))
        if value is None:
            hidden = [FILL_VALUE]
        else:
            spelled = {FILL_VALUE: value}
    was = _parse_old(old) if old else None
    dtype = type_to_name(spec.dtype) if was is None or was.dtype != spec.dtype else None
    marks = ExtendedMetadata(dtype=dtype, indexes=write_indexes(spec.indexes, spec.dims))
    attributes = write_attributes(spec.attrs, marks, spelled, hidden)
    return {NAME: _render_array(spec, old, was, structure) | {"attributes": attributes}}


_parse_old = BoundedMemo(lambda old: _read_array(old, {}, Problems(""), {}))


def type_to_name(dtype: DataType) -> Any:
    """Return the type to describe: cells of any length and floats of 80 bits are stored as bytes; None for others."""
    return dtype if isinstance(dtype, VlenArray) or is_raw(dtype) else type_to_describe(dtype)


def _render_array(spec: ArraySpec, old: JsonMapping, was: ArraySpec | None, structure: str) -> JsonObject:
    """Return the document without attributes: the old one's words where they still mean the same, and its other
    keys."""
    doc = {"zarr_format": 3, "node_type": "array", "shape": list(spec.shape)} | dict(old)
    doc["shape"] = list(spec.shape)
    dtype = spec.dtype
    if is_raw(dtype):
        stored: DataType = np.dtype((np.void, numpy_dtype(dtype).itemsize))
    else:
        stored = VlenBytes() if isinstance(dtype, VlenArray) else plain_type(dtype)
    same_type = was is not None and plain_type(was.dtype) == stored
    if not same_type:
        doc["data_type"] = write_dtype(dtype, structure)
    problems = Problems("")
    # the old grid may give these chunks for the new shape too
    if was is None or read_grid(old.get("chunk_grid"), spec.shape, problems) != spec.chunks or problems.is_fatal:
        doc["chunk_grid"] = write_grid(spec.chunks)
    doc.setdefault("chunk_key_encoding", _DEFAULT_KEYS)
    if (
        was is None
        or not same_type
        or not fill_values_equal(
            was.fill_value, spec.fill_value.tobytes() if isinstance(spec.dtype, VlenArray) else spec.fill_value
        )
    ):
        doc["fill_value"] = write_fill(spec.fill_value, dtype, doc["data_type"])
    codecs = _renamed(spec.codecs, "vlen-array", Codec("vlen-bytes"))
    if was is None or was.codecs != codecs:
        doc["codecs"] = write_codecs(codecs)
    if was is None or was.dims != spec.dims:
        doc.pop("dimension_names", None)
        if any(name is not None for name in spec.dims):
            doc["dimension_names"] = list(spec.dims)
    return doc


def key_of(spec: ArraySpec) -> KeyOf:
    """Return the key of a chunk by its coordinates."""
    encoding = spec.layout.get("zarr3", {}).get("chunk_key_encoding", _DEFAULT_KEYS)
    return _make_key_of(encoding, len(spec.shape))


_make_key_of = BoundedMemo(lambda encoding, ndim: chunk_keys(*read_keys(encoding, Problems("")), ndim))


# -- new arrays: byte order, checksums, shards, fill value ------------------------------------------------------------


def new_array(wish: ArraySpec, structure: str = STRUCTURED) -> ArraySpec:
    """Return the spec to put, rows spelled as a ``structure``. ``wish.layout``: ``shards`` (lengths or None),
    ``checksum`` (True: crc32c behind the codecs).

    Chunks in shards are checksummed one by one, as is the index. A type that Zarr v3 lacks is Unsupported.
    """
    dtype, order = _native(wish.dtype)
    if any(codec.name in ARRAY - {"transpose"} for codec in wish.codecs):
        order = "little"  # zarr-python's filters take the cells that bytes gives them for little-endian ones
    stored = dtype  # what the codecs on cells leave for bytes
    for codec in wish.codecs:
        stored = type_after(codec, stored)
    base = stored.base if isinstance(stored, Enum | Compound) else stored
    is_ordered = isinstance(base, np.dtype) and (has_byte_order(base) or base.names is not None)
    codecs = with_array_to_bytes(
        wish.codecs, Codec("bytes", {"endian": order}) if is_ordered else array_to_bytes_codec(dtype)
    )
    if wish.layout.get("checksum", True) and codecs[-1].name != "crc32c":
        codecs = (*codecs, Codec("crc32c"))
    chunks: Chunks = wish.chunks
    shards = wish.layout.get("shards")
    if shards is not None:
        codecs, chunks = (_sharding_codec(codecs, wish.chunks, shards),), tuple(shards)
    fill = to_fill_cell(_zero(dtype) if wish.fill_value is None else wish.fill_value, dtype)
    spec = wish.evolve(dtype=dtype, chunks=chunks, codecs=codecs, fill_value=fill, layout={}, problem=None)
    try:
        result = parse(render(spec, structure))
    except FormatError as error:
        raise Invalid(error.message, remedy="choose other codecs for these cells") from None
    if not result.is_array:
        raise Invalid("this is no array")
    try_chain(result)
    return result


def _native(dtype: DataType) -> tuple[DataType, str]:
    """Return the type in the machine's byte order, and the order in which it is to be stored."""
    match dtype:
        case np.dtype():
            return dtype.newbyteorder("="), "big" if _is_big(dtype) else "little"
        case Enum(base=base):
            return Enum(base.newbyteorder("="), dtype.members, dtype.name), "big" if _is_big(base) else "little"
        case Compound(base=base):
            return Compound(base.newbyteorder("="), dtype.name), "big" if _is_big(base) else "little"
        case _:
            return dtype, "little"


def _is_big(dtype: NumpyDType) -> bool:
    if dtype.names is not None and dtype.fields is not None:
        return any(_is_big(dtype.fields[name][0]) for name in dtype.names)
    return dtype.str.startswith(">")


def _zero(dtype: DataType) -> object:
    match dtype:
        case VlenString():
            return ""
        case VlenBytes():
            return b""
        case VlenArray(base=base):
            return np.empty(0, base)
        case np.dtype() if dtype.kind in "mM":
            return np.array("NaT", dtype)[()]
        case _:
            return ArraySpec(shape=(), dtype=dtype, chunks=()).fill_cell()[()]


def _sharding_codec(codecs: Sequence[Codec], chunks: Chunks, shards: Sequence[int]) -> Codec:
    if any(not isinstance(cut, int) for cut in chunks) or len(chunks) != len(shards):
        raise Invalid(f"shards {tuple(shards)} for chunks {tuple(chunks)}", remedy="give one length per dimension")
    if any(shard % cut for shard, cut in zip(shards, chunks, strict=True) if isinstance(cut, int)):
        raise Invalid(
            f"shards of {tuple(shards)} hold no whole number of chunks of {tuple(chunks)}",
            remedy="make every shard length a multiple of the chunk length",
        )
    config = {
        "chunk_shape": list(chunks),
        "codecs": tuple(codecs),
        "index_codecs": INDEX_CODECS,
        "index_location": "end",
    }
    return Codec("sharding_indexed", config)


# -- where the documents lie ------------------------------------------------------------------------------------------


_EMPTY_CONSOLIDATED = {"kind": "inline", "must_understand": False, "metadata": {}}


class _Kind(msgspec.Struct):
    """The kind of node that a document makes; all else in it is skipped."""

    node_type: str = ""


_decode_kind = msgspec.json.Decoder(_Kind).decode


class Zarr3(MetadataDialect):
    """The :class:`~hyperslab.formats.zarr.dialect.MetadataDialect` of Zarr v3."""

    format = "zarr3"
    nodes = (NAME,)
    extras = ()
    consolidated_name = NAME
    structure = STRUCTURED
    """How rows are spelled that have no spelling yet."""
    read = staticmethod(read)
    key_of = staticmethod(key_of)

    def render(self, spec: GroupSpec | ArraySpec) -> Docs:
        """Return the document of a node; Unsupported names what Zarr v3 cannot hold."""
        return render(spec, self.structure)

    def new_array(self, wish: ArraySpec) -> ArraySpec:
        """Return the spec to put; Unsupported for a type that Zarr v3 lacks, Invalid for codecs of other cells."""
        return new_array(wish, self.structure)

    def is_array(self, docs: Docs) -> bool:
        """Return True where its ``node_type`` is ``array``."""
        return docs[NAME].get("node_type") == "array"

    @staticmethod
    def is_array_document(data: bytes) -> bool:
        """Return True where the ``node_type`` is ``array``."""
        try:
            return _decode_kind(data).node_type == "array"
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False

    def read_consolidated(self, doc: JsonMapping) -> ConsolidatedDocs | None:
        """Return the inline ``consolidated_metadata`` of a group; None when damaged. Paths of no node are passed
        over."""
        value = doc.get(CONSOLIDATED)
        entries = value.get("metadata") if isinstance(value, dict) and value.get("kind", "inline") == "inline" else None
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            return None
        found = {path.strip("/"): {NAME: entry} for path, entry in entries.items()}
        return {path: docs for path, docs in found.items() if is_key(path)}

    def write_consolidated(self, holder: Docs, consolidated: ConsolidatedDocs) -> JsonObject:
        """Return the holder's document with consolidated metadata. Groups in it get empty ones, or zarr-python lists
        the store."""
        entries = {path: docs[NAME] for path, docs in consolidated.items() if path}
        for path, doc in entries.items():
            if doc.get("node_type") == "group":
                entries[path] = {**doc, CONSOLIDATED: _EMPTY_CONSOLIDATED}
        own = holder.get(NAME, {"zarr_format": 3, "node_type": "group", "attributes": {}})
        return {**own, CONSOLIDATED: _EMPTY_CONSOLIDATED | {"metadata": entries}}

    def without_consolidated(self, doc: JsonMapping) -> JsonObject | None:
        """Return the holder's own document."""
        return {key: value for key, value in doc.items() if key != CONSOLIDATED}


parse = Zarr3().parse
