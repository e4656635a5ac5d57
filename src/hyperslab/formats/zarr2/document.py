"""``.zarray``, ``.zgroup`` and ``.zattrs``: to specs and back. Pure.

Both directions take the documents of one node as a mapping of their names to JSON objects. What another writer put into
``.zarray`` or ``.zgroup`` beyond the format is kept in ``spec.layout`` and written again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.codecs.blosc import SHUFFLES
from hyperslab.codecs.registry import VIEWING, ZARR2_NAMES, canonical, try_chain, type_after
from hyperslab.errors import Unsupported
from hyperslab.formats.codec_kinds import (
    ARRAY,
    ARRAY_TO_BYTES,
    COMPRESSORS,
    array_to_bytes_codec,
    undecodable_reasons,
    with_array_to_bytes,
)
from hyperslab.formats.documents import JsonMapping, JsonObject, as_list
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.metadata_json.cells import (
    base64_to_bytes,
    bytes_to_base64,
    fill_values_equal,
    number_from_json,
    number_to_json,
    raw_cell,
    text_from_json,
    to_fill_cell,
)
from hyperslab.formats.metadata_json.dtypes import dtype_from_json, dtype_to_json
from hyperslab.formats.metadata_json.extended_metadata import (
    ExtendedMetadata,
    apply_described_type,
    plain_type,
    read_attributes,
    read_indexes,
    type_to_describe,
    write_attributes,
    write_indexes,
)
from hyperslab.formats.zarr.dialect import ConsolidatedDocs, Docs, MetadataDialect
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.bounded_memo import BoundedMemo
from hyperslab.model.dtypes import (
    DataType,
    NumpyDType,
    ObjectRef,
    Opaque,
    RegionRef,
    VlenArray,
    VlenBytes,
    VlenString,
    describe,
    numpy_dtype,
)
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec
from hyperslab.stores.keys import is_key

# -- order, filters and compressor as one chain of codecs -------------------------------------------------------------


_NAMES = {id: name for name, id in ZARR2_NAMES.items() if id != name}


def read_codecs(doc: JsonMapping, ndim: int, problems: Problems) -> tuple[Codec, ...]:
    """Return the chain in the order of writing: axes reversed (``order`` "F"), filters, compressor, with ``bytes``
    between.

    The cells lie in the byte order of the dtype, so ``bytes`` needs none.
    """
    filters = doc.get("filters")
    order = doc.get("order", "C")
    if order not in ("C", "F"):
        problems.fatal("order", f"order is {shorten(order)}, not 'C' or 'F'")
    steps = [Codec("transpose", {"order": list(reversed(range(ndim)))})] if order == "F" and ndim > 1 else []
    # json2 has the cells in lists of lists, by their axes, whatever the order in which others lie in memory
    for item in as_list(filters):
        match item:
            case {"id": str() as id} if canonical(id) == "json2":
                steps = []
    if not (filters is None or isinstance(filters, list)):
        problems.fatal("filters", f"filters is {shorten(filters)}, not a list")
        filters = None
    compressor = doc.get("compressor")
    for value in [*(filters or []), *([] if compressor is None else [compressor])]:
        match value:
            case {"id": str() as id, **config}:
                name = _NAMES.get(id) or canonical(id)
                steps.append(Codec(name, {str(key): number_of_text(part) for key, part in config.items()}))
            case _:
                problems.fatal("codec", f"{shorten(value)} is no codec: an object with an 'id'")
    for reason in undecodable_reasons(steps):
        problems.undecodable("unknown-codec", reason)
    return _whole(steps, problems)


def number_of_text(value: object) -> object:
    """Return the number that a text is: netCDF-C 4.9.3 writes the numbers of codecs as text."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19 else value


def _whole(steps: Sequence[Codec], problems: Problems) -> tuple[Codec, ...]:
    """Return the chain with its step from cells to bytes; filters on cells behind filters on bytes cannot be."""
    at = next((i for i, step in enumerate(steps) if step.name not in ARRAY), len(steps))
    if late := [step.name for step in steps[at:] if step.name in ARRAY - set(VIEWING)]:
        problems.undecodable(
            "codec-order", f"codec {late[0]!r} works on cells but stands behind one that works on bytes"
        )
    if at < len(steps) and steps[at].name in ARRAY_TO_BYTES:
        return tuple(steps)
    return (*steps[:at], Codec("bytes"), *steps[at:])


def write_codecs(codecs: Sequence[Codec], ndim: int) -> JsonObject:
    """Return ``order``, ``filters`` and ``compressor`` of a chain; Unsupported names what Zarr v2 cannot say."""
    order = "C"
    steps = list(codecs)
    if steps and steps[0].name == "transpose":
        if list(steps[0].config["order"]) != list(reversed(range(ndim))):
            raise Unsupported("format zarr2 has no axis order but C and F", remedy="use format zarr3")
        order = "F" if ndim > 1 and all(step.name != "json2" for step in steps) else "C"
        del steps[0]
    written = [_write_codec(step) for step in steps if step.name != "bytes"]
    compressor = written.pop() if steps and steps[-1].name in COMPRESSORS else None
    return {"order": order, "filters": written or None, "compressor": compressor}


def _write_codec(codec: Codec) -> JsonObject:
    name = codec.name
    if name not in ZARR2_NAMES:
        raise Unsupported(f"format zarr2 has no codec {name!r}", remedy="choose another codec, or format zarr3")
    config = dict(codec.config)
    if name == "blosc":
        config.pop("typesize", None)
        config["shuffle"] = SHUFFLES.get(config.get("shuffle", 1), config.get("shuffle", 1))
        config = {"cname": "lz4", "clevel": 5, "blocksize": 0} | config
    if name == "zstd" and config.get("checksum") is False:
        del config["checksum"]  # what absence means, and tensorstore knows no such key
    return {"id": ZARR2_NAMES[name], **config}


# -- dtype and fill_value ---------------------------------------------------------------------------------------------
# NumPy's names of types; what lies behind ``|O`` is told by the object codec among the filters.


_TEXT_CODECS = ("vlen-utf8", "json2", "msgpack2", "categorize")


def read_dtype(name: object, codecs: Sequence[Codec]) -> DataType:
    """Return the type of the cells; TypeError says what is wrong. ``|O`` is what its object codec makes it."""
    if name not in ("|O", "O", "object"):
        return dtype_from_json(name)
    for codec in codecs:
        if codec.name in _TEXT_CODECS:
            return VlenString()
        if codec.name == "vlen-bytes":
            return VlenBytes()
        if codec.name == "vlen-array":
            return VlenArray(dtype_from_json(codec.config.get("dtype")))
    raise TypeError("cells of type 'object' need one of the codecs vlen-utf8, vlen-bytes, vlen-array, json2, msgpack2")


def write_dtype(dtype: DataType) -> object:
    """Return the ``dtype`` of a type; Unsupported when Zarr v2 has none."""
    match dtype:
        case VlenString() | VlenBytes() | VlenArray():
            return "|O"
        case ObjectRef() | RegionRef():
            pass
        case _:
            try:
                return dtype_to_json(numpy_dtype(dtype))
            except TypeError:
                pass
    raise Unsupported(
        f"format zarr2 has no cells of type {describe(dtype)}", remedy="use format zarr3, or convert the cells first"
    )


def read_fill(value: object, dtype: DataType) -> object:
    """Return the fill value as a cell; null is None: such cells read as the type's zero. TypeError when it does not
    fit."""
    if value is None:
        return None
    match dtype:
        case VlenString():
            return _text(value)
        case VlenBytes():
            return b"" if value in ("", 0) else base64_to_bytes(value)
        case VlenArray():
            return None
        case _:
            return _read_cell(value, numpy_dtype(dtype))


def _read_cell(value: object, dtype: NumpyDType) -> object:
    if dtype.kind == "U":
        text = _text(value)
        if len(text) > dtype.itemsize // 4:
            raise TypeError(f"{value!r} is longer than {dtype.itemsize // 4} characters")
        return np.str_(text)
    if dtype.kind == "S":
        text = _text(value)
        try:
            raw = base64_to_bytes(text)
        except TypeError:
            raw = text.encode()  # as netCDF-C writes it
        if len(raw) > dtype.itemsize:
            raise TypeError(f"{value!r} is longer than {dtype.itemsize} bytes")
        return np.bytes_(raw)
    if dtype.kind == "V":
        if value in ("", 0):
            return np.zeros((), dtype)[()]
        return raw_cell(base64_to_bytes(value), dtype)
    if dtype.kind == "b" and value in (0, 1):
        return np.bool_(value)
    return number_from_json(value, dtype)


def _text(value: object) -> str:
    return "" if value == 0 and not isinstance(value, bool) else text_from_json(value)


def write_fill(value: Any, dtype: DataType) -> object:
    """Return the JSON of a fill value; structured ones are base64 of the cell's bytes in the array's own byte order."""
    if value is None:
        return None
    match dtype:
        case VlenArray():
            if len(value):
                raise Unsupported("format zarr2 has no fill value for arrays of variable length", remedy="leave it out")
            return None
        case VlenString():
            return str(value)
        case VlenBytes():
            return bytes_to_base64(bytes(value))
    stored = numpy_dtype(dtype)
    match stored.kind:
        case "U":
            return str(value)
        case "S":
            return bytes_to_base64(bytes(value).ljust(stored.itemsize, b"\0"))  # tensorstore insists on every byte
        case "V":
            return bytes_to_base64(np.asarray(value).astype(stored, copy=False).tobytes())
        case _:
            return number_to_json(value, bits=False)


ZARRAY, ZGROUP, ZATTRS = ".zarray", ".zgroup", ".zattrs"
DIMENSIONS = "_ARRAY_DIMENSIONS"
Separator = Literal[".", "/"]
SEPARATORS: tuple[Separator, ...] = (".", "/")


_NAME_KINDS = frozenset({str, type(None)})


@dataclass(frozen=True, slots=True)
class ArrayDocument:
    """What a ``.zarray`` says by itself."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    codecs: tuple[Codec, ...]
    dtype: DataType
    fill_value: object


SoundDocuments = BoundedMemo[ArrayDocument | None]
"""What each ``.zarray`` of a dataset says that has no problems; None of one that has."""


def check_version(doc: JsonMapping, problems: Problems) -> None:
    """Note the lack of a ``zarr_format``, and one that is not 2."""
    if "zarr_format" not in doc:
        problems.warn("zarr_format", "zarr_format is missing; 2 is assumed")
    elif doc["zarr_format"] != 2:
        problems.fatal("zarr_format", f"zarr_format is {shorten(doc['zarr_format'])}, not 2")


def read_array(
    doc: JsonMapping, stored: JsonMapping, problems: Problems, sound: SoundDocuments | None = None
) -> ArraySpec:
    """Return the spec of a ``.zarray`` with the attributes that are stored beside it; what is wrong goes to
    ``problems``. ``sound``: documents of the dataset that need not be read again."""
    attrs, marks = read_attributes(stored)
    array = sound(doc) if sound is not None and marks.dtype is None else None
    if array is None:
        array = _read_document(doc, marks, problems)
    shape = array.shape
    names, dims = attrs.get(DIMENSIONS), ()
    if isinstance(names, list) and len(names) == len(shape) and _NAME_KINDS.issuperset(map(type, names)):
        dims = tuple(names)
        del attrs[DIMENSIONS]
    elif names is not None:  # names that do not fit stay among the attributes
        problems.warn(
            "dimensions", f"{DIMENSIONS} is {shorten(names)}, which names no {len(shape)} dimensions; ignored"
        )
    return ArraySpec(
        shape=shape,
        dtype=array.dtype,
        chunks=array.chunks,
        dims=dims,
        codecs=array.codecs,
        fill_value=array.fill_value,
        attrs=attrs,
        indexes=read_indexes(marks.indexes, dims, shape) if marks.indexes else {},
        problem=problems.undecodable_reason,
        is_fill_plain=marks.unwritten,
        layout={"zarr2": doc},
    )


def _read_document(doc: JsonMapping, marks: ExtendedMetadata, problems: Problems) -> ArrayDocument:
    check_version(doc, problems)
    shape = problems.lengths("shape", doc.get("shape"), 0) or ()
    chunks = problems.lengths("chunks", doc.get("chunks"), 1, None if problems.is_fatal else len(shape)) or (1,) * len(
        shape
    )
    codecs = read_codecs(doc, len(shape), problems)
    dtype, fill = _cells(doc, codecs, marks, problems)
    if doc.get("dimension_separator", ".") not in SEPARATORS:
        problems.undecodable(
            "separator", f"dimension_separator is {shorten(doc['dimension_separator'])}, not '.' or '/'"
        )
    return ArrayDocument(shape, chunks, codecs, dtype, fill)


def read_sound(doc: JsonMapping) -> ArrayDocument | None:
    """Return what a ``.zarray`` says in which nothing is wrong, whatever attributes are beside it; None for any
    other."""
    problems = Problems("")
    array = _read_document(doc, ExtendedMetadata(), problems)
    return None if problems else array


def _cells(doc: JsonMapping, codecs: Any, marks: ExtendedMetadata, problems: Problems) -> tuple[DataType, object]:
    try:
        dtype = apply_described_type(read_dtype(doc.get("dtype"), codecs), marks.dtype)
    except TypeError as error:
        problems.undecodable("dtype", f"dtype: {error}")
        return Opaque(1, shorten(doc.get("dtype"))), None
    try:
        fill = read_fill(doc.get("fill_value"), dtype)
        # as zarr-python has it: times that were never written are none, and not the first one of their calendar
        return dtype, np.array("NaT", numpy_dtype(dtype))[()] if fill is None and _is_time(dtype) else fill
    except (TypeError, OverflowError) as error:
        problems.fatal("fill_value", f"fill_value for cells of type {describe(dtype)}: {error}")
        return dtype, None


def _is_time(dtype: DataType) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "mM"


def render(spec: GroupSpec | ArraySpec) -> Docs:
    """Return the documents of a node; Unsupported names what Zarr v2 cannot hold."""
    old: JsonMapping = spec.layout.get("zarr2", {})
    if spec.is_group:
        return {
            ZATTRS: write_attributes(spec.attrs, ExtendedMetadata(spec.dims, None, spec.types)),
            ZGROUP: {"zarr_format": 2, **{key: value for key, value in old.items() if key != "zarr_format"}},
        }
    attrs = dict(spec.attrs)
    if not spec.shape or any(name is not None for name in spec.dims):
        attrs = {DIMENSIONS: list(spec.dims)} | {name: value for name, value in attrs.items() if name != DIMENSIONS}
    # xarray takes the pair of a complex _FillValue for two values that both mean missing
    hidden = [FILL_VALUE] if spec.numpy_dtype.kind == "c" and FILL_VALUE in attrs else []
    was = _parse_old(old)
    dtype = type_to_describe(spec.dtype) if was is None or was.dtype != spec.dtype else None
    indexes = write_indexes(spec.indexes, spec.dims)
    marks = ExtendedMetadata(dtype=dtype, indexes=indexes, unwritten=spec.is_fill_plain)
    return {ZATTRS: write_attributes(attrs, marks, hidden=hidden), ZARRAY: render_array(spec, old)}


_parse_old = BoundedMemo(lambda old: read_array(old, {}, Problems("")) if old else None)


def render_array(spec: ArraySpec, old: JsonMapping) -> JsonObject:
    """Return ``.zarray``: the old one's words where they still mean the same, its unknown keys, its order of keys."""
    was = _parse_old(old)
    if any(not isinstance(cut, int) for cut in spec.chunks):
        raise Unsupported("format zarr2 has no chunks of varying size", remedy="give one length per dimension")
    same_type = was is not None and plain_type(was.dtype) == plain_type(spec.dtype)
    kept = dict(old)
    kept |= {"zarr_format": 2, "shape": list(spec.shape), "chunks": list(spec.chunks)}
    if not same_type:
        kept["dtype"] = write_dtype(spec.dtype)
    if was is None or not same_type or not fill_values_equal(was.fill_value, spec.fill_value):
        kept["fill_value"] = write_fill(spec.fill_value, spec.dtype)
    if was is None or was.codecs != spec.codecs:
        kept |= write_codecs(spec.codecs, len(spec.shape))
    return kept if old else kept | {"dimension_separator": "."}


def new_array(wish: ArraySpec, separator: Separator | None = None) -> ArraySpec:
    """Return a user's wish in this format's spelling. No fill value is null, so that xarray masks no zeros; no
    checksum. ``separator``: of chunk keys; None keeps that of an array of this format, else it is ``.``.

    What the codecs cannot do to such cells is Invalid now, not when the first chunk is written.
    """
    fill = wish.fill_value
    if fill is None and _is_time(wish.dtype):
        fill = np.array("NaT", numpy_dtype(wish.dtype))[()]
    stored = wish.dtype  # what the codecs on cells leave for the one that makes bytes
    for codec in wish.codecs:
        stored = type_after(codec, stored)
    codecs = with_array_to_bytes(wish.codecs, array_to_bytes_codec(stored))
    layout = {name: wish.layout[name] for name in ("zarr2",) if name in wish.layout}
    spec = wish.evolve(codecs=codecs, fill_value=to_fill_cell(fill, wish.dtype), layout=layout, problem=None)
    docs = render(spec)
    if separator is not None:
        docs[ZARRAY]["dimension_separator"] = separator
    result = parse(docs)
    if not result.is_array:
        raise TypeError("no array")
    try_chain(result)
    return result


def chunk_keys(spec: ArraySpec) -> Callable[[Coords], str]:
    """Return the key of a chunk by its coordinates: ``0.3.1``, or ``0/3/1`` with the separator ``/``."""
    separator = spec.layout.get("zarr2", {}).get("dimension_separator", ".")
    if not spec.shape:
        return lambda coords: "0"
    return lambda coords: separator.join(map(str, coords))


# -- where the documents lie ------------------------------------------------------------------------------------------


CONSOLIDATED = ".zmetadata"
_DOCUMENTS = (ZARRAY, ZGROUP, ZATTRS)


class Zarr2(MetadataDialect):
    """The :class:`~hyperslab.formats.zarr.dialect.MetadataDialect` of Zarr v2."""

    format = "zarr2"
    nodes = (ZARRAY, ZGROUP)
    extras = (ZATTRS,)
    consolidated_name = CONSOLIDATED
    render = staticmethod(render)
    key_of = staticmethod(chunk_keys)
    dimension_separator: Separator | None = None
    """Between the numbers in chunk keys of new arrays; None: as :func:`new_array` has it."""

    def new_array(self, wish: ArraySpec) -> ArraySpec:
        """Return the spec to put; Unsupported for a type that Zarr v2 lacks, Invalid for codecs of other cells."""
        return new_array(wish, self.dimension_separator)

    def read(self, docs: Docs, node: str, problems: Problems) -> GroupSpec | ArraySpec:
        stored = docs.get(ZATTRS, {})
        if ZARRAY in docs:
            return read_array(docs[ZARRAY], stored, problems, self.sound)
        doc = docs.get(ZGROUP, {})
        check_version(doc, problems)
        attrs, marks = read_attributes(stored)
        return GroupSpec(attrs=attrs, dims=marks.dims, types=marks.types, layout={"zarr2": doc})

    sound: SoundDocuments = BoundedMemo(read_sound)
    """What documents say, each of which is read once."""

    def is_array(self, docs: Docs) -> bool:
        """Return True where there is a ``.zarray``."""
        return ZARRAY in docs

    @staticmethod
    def is_array_document(data: bytes) -> bool:
        """Return True: a ``.zarray`` makes an array."""
        return True

    def read_consolidated(self, doc: JsonMapping) -> ConsolidatedDocs | None:
        """Return ``{"metadata": {key: document}}``; None when damaged. Keys that are none of a node's are passed
        over."""
        entries = doc.get("metadata")
        if not isinstance(entries, dict):
            return None
        copy: ConsolidatedDocs = {}
        for place, value in entries.items():
            path, _, name = place.rpartition("/")
            if name not in _DOCUMENTS or not is_key(place):
                continue
            if not isinstance(value, dict):
                return None
            copy.setdefault(path, {})[name] = value
        return {path: docs for path, docs in copy.items() if not docs.keys().isdisjoint(self.nodes)}

    def write_consolidated(self, holder: Docs, consolidated: ConsolidatedDocs) -> JsonObject:
        """Return the document ``.zmetadata``; the holder's own documents stand in it too."""
        entries = {
            f"{path}/{name}" if path else name: docs[name]
            for path, docs in ({"": holder} | {path: docs for path, docs in consolidated.items() if path}).items()
            for name in _DOCUMENTS
            if name in docs
        }
        return {"metadata": entries, "zarr_consolidated_format": 1}

    def without_consolidated(self, doc: JsonMapping) -> JsonObject | None:
        """Return None: nothing is left of ``.zmetadata``."""
        return None


def parse(docs: Docs, node: str = "") -> GroupSpec | ArraySpec:
    """Return the spec of a node of no dataset; FormatError lists every problem."""
    return Zarr2().parse(docs, node)
