"""The JSON documents of a Blaze, bcolz or BLZ directory, and the spec that they mean. Pure.

``meta/sizes`` and ``meta/storage`` as the specification has them, the attributes in ``meta/attributes`` (``__attrs__``
in bcolz). Two files of ours in ``meta``, which others pass over: ``superchunks`` has what ``storage`` has no key for,
``labels`` name, dimensions and coordinates (``formats/single_array``), there only when there is something to say.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil, log10, prod
from typing import Any, Literal

import numpy as np

from hyperslab.chunks.auto import longest_chunk, whole_chunks
from hyperslab.codecs.blosc import CNAMES, MAX_BYTES, SHUFFLES
from hyperslab.codecs.checksums import NUMBERS, digest_number
from hyperslab.codecs.checksums import WORDS as CHECKSUMS
from hyperslab.errors import FormatError, Invalid, Unsupported
from hyperslab.formats.blaze.data_file import DataFileLayout
from hyperslab.formats.bloscpack.document import long_name, read_dtype
from hyperslab.formats.bloscpack.encoding import Slack, check_slack
from hyperslab.formats.documents import object_or_empty
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.metadata_json.attributes import encode_attrs
from hyperslab.formats.metadata_json.cells import cell_from_json, cell_to_json
from hyperslab.formats.metadata_json.dtypes import dtype_to_json
from hyperslab.formats.single_array.document import Doc, Document, LabelledArray, labels_from_json, labels_to_json
from hyperslab.formats.single_array.reader import coordinate_spec
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import NumpyDType, VlenString, describe, packed
from hyperslab.model.spec import ArraySpec, Chunks, Codec
from hyperslab.stores.keys import is_key

SIZES, STORAGE, LABELS, SUPERCHUNKS = "meta/sizes", "meta/storage", "meta/labels", "meta/superchunks"
ATTRIBUTES = {"blaze": "meta/attributes", "bcolz": "__attrs__"}
TABLE = "__rootdirs__"
DATA, META = "data", "meta"
Docs = Mapping[str, Document]
"""Documents by their keys."""

_SHUFFLES = {number: name for name, number in SHUFFLES.items()}
# Keys of `meta/storage` that are read; all others are kept as they are.
_KEYS = ("dtype", "cparams", "bparams", "chunklen", "dflt", "expectedlen")


@dataclass(frozen=True, slots=True)
class BlazeOptions:
    """The storage of new arrays: the ``layout``, the name of the ``checksum`` behind each chunk, chunks in a superchunk
    (None: as many as make about 32 MiB), the ``slack`` in each chunk. Invalid for others than there are."""

    layout: Literal["blaze", "bcolz"] = "blaze"
    checksum: str = "adler32"
    superchunk: int | None = None
    slack: Slack = 0

    def __post_init__(self) -> None:
        if check_slack(self.slack) and self.layout == "bcolz":
            raise Invalid("layout bcolz says nowhere that there is slack", remedy="use layout='blaze', or leave it out")
        if self.layout not in ATTRIBUTES:
            raise Invalid(f"layout {self.layout!r}", remedy=f"a layout is one of {', '.join(ATTRIBUTES)}")
        digest_number(self.checksum)
        if self.superchunk is not None and (not isinstance(self.superchunk, int) or self.superchunk < 1):
            raise Invalid(f"superchunk={self.superchunk!r}", remedy="a number of chunks, at least 1")


@dataclass(frozen=True, slots=True)
class ColumnStorage:
    """The storage of one array's chunks: ``rows`` in each, ``per`` superchunk, their codec, the room in them."""

    layout: str
    rows: int
    per: int
    checksum: str
    codec: Codec
    slack: Slack = 0

    @classmethod
    def of(cls, spec: ArraySpec) -> ColumnStorage:
        """Return the storage that a spec of this format describes."""
        declared: Document = spec.layout.get("blaze", {})
        inner: Any = spec.inner_chunks or spec.chunks
        codecs = spec.codecs[0].config["codecs"] if spec.inner_chunks else spec.codecs
        rows = inner[0] if inner else 1
        outer: Any = spec.chunks
        per = outer[0] // rows if spec.inner_chunks else 1
        slack = declared.get("slack", 0)
        return cls(declared.get("layout", "blaze"), rows, per, declared.get("checksum", "adler32"), codecs[0], slack)

    def shape_of(self, row_bytes: int, itemsize: int) -> DataFileLayout:
        """Return the data files of a column whose rows take so many bytes."""
        single = self.layout == "bcolz"
        return DataFileLayout(self.rows * row_bytes, self.per, itemsize, NUMBERS[self.checksum], single, self.slack)


def to_blaze_spec(spec: ArraySpec, storing: ColumnStorage, **layout: Any) -> ArraySpec:
    """Return the spec in this format's own spelling: chunks of whole rows, in superchunks where those hold several."""
    rest = whole_chunks(spec.shape[1:])
    chunks, codecs = (storing.rows, *rest) if spec.shape else (), (storing.codec,)
    if storing.per > 1 and spec.shape:
        config = {"chunk_shape": chunks, "codecs": codecs, "index_codecs": ()}
        chunks, codecs = (storing.rows * storing.per, *rest), (Codec("sharding_indexed", config),)
    declared: Doc = {"layout": storing.layout, "checksum": storing.checksum}
    declared |= {"slack": storing.slack} if storing.slack else {}
    declared |= layout
    return spec.evolve(chunks=chunks, codecs=codecs, layout={"blaze": declared})


def other_layout(spec: ArraySpec) -> Doc:
    """Return what the documents said of the array that is no part of its :class:`ColumnStorage`."""
    declared: Document = spec.layout.get("blaze", {})
    return {key: value for key, value in declared.items() if key not in ("layout", "checksum", "slack")}


def with_whole_rows(spec: ArraySpec) -> ArraySpec:
    """Return the spec with chunks of whole rows, whatever its shape has become."""
    more = other_layout(spec)
    if more.get("expectedlen") is None:
        more["expectedlen"] = spec.shape[0] if spec.shape else 1
    return to_blaze_spec(spec, ColumnStorage.of(spec), **more)


def row_bytes(spec: ArraySpec) -> int:
    """Return the decoded bytes of one row: all cells at one position of the first axis."""
    return prod(spec.shape[1:]) * spec.numpy_dtype.itemsize


# -- reading --------------------------------------------------------------------------------------------------------


def parse_documents(docs: Docs, layout: str, per: int | None = None, *, rowwise: bool = False) -> LabelledArray:
    """Return the array with its labels; ``per``: chunks in the first superchunk, where only its header tells;
    ``rowwise``: whether the cells of structures lie whole in files right below ``data``, and not in columns.

    FormatError lists every problem; Unsupported for cells that are objects.
    """
    problems = Problems("")
    sizes, storage = docs.get(SIZES, {}), docs.get(STORAGE, {})
    shape = problems.lengths("shape", sizes.get("shape"), 0)
    dtype = _dtype(storage.get("dtype"), problems)
    rows = storage.get("chunklen")
    if type(rows) is not int or rows < 1:
        problems.fatal("chunklen", f"chunklen is {rows!r:.60}, not a whole number of at least 1")
    own = docs.get(SUPERCHUNKS, {})
    per = _read_per(own, per, layout, problems)
    problems.raise_if_fatal()
    assert shape is not None and dtype is not None and isinstance(rows, int)
    spec = ArraySpec(shape=shape, dtype=dtype, chunks=(1,) * len(shape))
    if rows * row_bytes(spec) > MAX_BYTES:
        problems.fatal(
            "chunklen", f"chunks of {rows} rows take {rows * row_bytes(spec)} bytes, Blosc takes {MAX_BYTES}"
        )
        problems.raise_if_fatal()
    checksum = _one_of(NUMBERS, own.get("checksum"), "adler32") if layout == "blaze" else "none"
    storing = ColumnStorage(layout, rows, per, checksum, _read_codec(storage, own, spec), _slack(own.get("slack", 0)))
    extra_keys = {key: storage[key] for key in storage if key not in _KEYS}
    params = "bparams" if "bparams" in storage else "cparams"
    more = {
        "expectedlen": storage.get("expectedlen"),
        "kept": extra_keys,
        "params": params,
        "said": storage.get(params),
        "dflt": storage.get("dflt"),
    }
    if layout == "blaze" and (rowwise or own.get("rowwise") is True):
        more["rowwise"] = True
    declared = {**docs.get(LABELS, {}), "attrs": docs.get(ATTRIBUTES[layout], {})}
    labelled = labels_from_json(declared, to_blaze_spec(spec, storing, **more))
    main = labelled.spec
    if main.fill_value is None:
        main = main.evolve(fill_value=_fill(storage.get("dflt"), main))
    return LabelledArray(labelled.name, main, labelled.coords, labelled.group)


def _dtype(declared: object, problems: Problems) -> NumpyDType | None:
    try:
        dtype = read_dtype(declared)
    except TypeError as error:
        problems.fatal("dtype", str(error))
        return None
    if not dtype.itemsize:
        problems.fatal("dtype", f"cells of type {dtype} have no bytes")
    for path, _ in columns(dtype):
        for name in path:
            if not is_folder_name(name):
                problems.fatal("field-name", f"the field {name!r} is no name of a folder")
    return dtype


def _read_per(own: Document, found: int | None, layout: str, problems: Problems) -> int:
    if layout == "bcolz":
        return 1
    per = own.get("nchunks", found if found is not None else 1)
    if type(per) is not int or not 1 <= per <= 1 << 32:
        problems.fatal("superchunk", f"{per!r:.60} chunks in a superchunk")
        return 1
    return per


def _read_codec(storage: Document, own: Document, spec: ArraySpec) -> Codec:
    """Return what new chunks are written by; a wish that makes no sense is passed over, for each chunk says how it
    is."""
    params = storage.get("cparams", storage.get("bparams"))
    params = object_or_empty(params)
    name = params.get("cname", own.get("cname", "blosclz"))
    level, shuffle = params.get("clevel", 5), params.get("shuffle", 1)
    config = {
        "cname": _one_of(CNAMES, name, "blosclz"),
        "clevel": level if type(level) is int and 0 <= level <= 9 else 5,
        "shuffle": _SHUFFLES.get(int(shuffle) if isinstance(shuffle, bool | int) else 1, "shuffle"),
    }
    if spec.numpy_dtype.names is None:
        config["typesize"] = spec.numpy_dtype.itemsize
    if type(size := own.get("blocksize")) is int and size > 0:
        config["blocksize"] = size
    return Codec("blosc", config)


def _slack(declared: object) -> Slack:
    """Return the room that is said, none for what makes no sense."""
    try:
        return check_slack(declared)
    except Invalid:
        return 0


def _one_of(choices: Collection[str], declared: object, other: str) -> str:
    """Return the word that is said, if it is one of the known ones, else the other."""
    return declared if isinstance(declared, str) and declared in choices else other


def _fill(declared: object, spec: ArraySpec) -> object:
    """Return the value of ``dflt``; None for zero, and for what cannot be one."""
    found = _cell(declared, spec)
    return None if found.tobytes() == bytes(found.itemsize) else found[()]


def _cell(declared: Any, spec: ArraySpec) -> Values:
    """Return the cell that ``dflt`` spells, zero for what is none. BLZ has one for each column of a row."""
    dtype = spec.numpy_dtype
    found = np.zeros((), dtype)
    try:
        while isinstance(declared, list) and dtype.names is None and dtype.kind != "c":
            (declared,) = {json.dumps(each) for each in declared}
            declared = json.loads(declared)
        if dtype.kind == "S":
            cell = np.bytes_(declared.encode("latin-1"))
        elif dtype.kind == "c" and not isinstance(declared, list):
            cell = dtype.type(complex(declared))
        else:
            cell = cell_from_json(bool(declared) if dtype.kind == "b" else declared, dtype)
        found[()] = cell
    except (TypeError, ValueError, OverflowError, AttributeError, KeyError, IndexError):
        return np.zeros((), dtype)
    return found


# -- writing --------------------------------------------------------------------------------------------------------


def render_documents(labelled: LabelledArray, cbytes: int) -> dict[str, Doc | None]:
    """Return the documents by key; None for one that is not to be there. Unsupported for what JSON cannot hold."""
    spec, storing = labelled.spec, ColumnStorage.of(labelled.spec)
    declared: Document = spec.layout.get("blaze", {})
    labels = labels_to_json(labelled)
    attributes = labels.pop("attrs", {})
    docs: dict[str, Doc | None] = {
        STORAGE: _storage(spec, storing, declared),
        LABELS: labels or None,
        ATTRIBUTES[storing.layout]: attributes,
        SIZES: {"shape": list(spec.shape), "nbytes": prod(spec.shape) * spec.numpy_dtype.itemsize, "cbytes": cbytes},
    }
    if storing.layout == "blaze":
        own: Doc = {
            "nchunks": storing.per,
            "checksum": storing.checksum,
            "cname": storing.codec.config["cname"],
        }
        size = storing.codec.config.get("blocksize")
        own |= {"blocksize": size} if size else {}
        own |= {"slack": storing.slack} if storing.slack else {}
        docs[SUPERCHUNKS] = own | ({"rowwise": True} if declared.get("rowwise") else {})
    return docs


def _storage(spec: ArraySpec, storing: ColumnStorage, declared: Document) -> Doc:
    config = storing.codec.config
    shuffle = SHUFFLES.get(config.get("shuffle", "shuffle"), 1)
    before = declared.get("said")
    params: Doc = dict(before) if isinstance(before, dict) else {}
    if storing.layout == "bcolz" and declared.get("params") != "bparams":
        params |= {"clevel": config["clevel"], "shuffle": shuffle, "cname": config["cname"]}
        params.setdefault("quantize", 0)
    else:
        params |= {"shuffle": shuffle if shuffle == 2 else bool(shuffle), "clevel": config["clevel"]}
    dtype = spec.numpy_dtype
    text = long_name(dtype)
    expected = declared.get("expectedlen")
    expected = (spec.shape[0] if spec.shape else 1) if expected is None else expected
    # The fill value is spelled as it was before where it is the same: there are several ways.
    cell, dflt = spec.fill_cell()[()], declared.get("dflt")
    if dflt is None or _cell(dflt, spec).tobytes() != cell.tobytes():
        dflt = bytes(cell).decode("latin-1") if dtype.kind == "S" else cell_to_json(cell)
    doc: Doc = {"dtype": text, declared.get("params", "cparams"): params, "chunklen": storing.rows}
    last = {"dflt": dflt}
    doc |= {"expectedlen": expected} | last if storing.layout == "bcolz" else last | {"expectedlen": expected}
    extra_keys: Document = declared.get("kept", {})
    return doc | dict(extra_keys)


def document_bytes(doc: Document) -> bytes:
    """Return a document as bcolz writes it: one line of ASCII."""
    return json.dumps(doc, ensure_ascii=True, allow_nan=False).encode() + b"\n"


# -- tables, columns ------------------------------------------------------------------------------------------------


def parse_table(doc: Document) -> dict[str, str]:
    """Return the folder of each column of a bcolz or BLZ table; FormatError for names that are none."""
    names, dirs = doc.get("names"), doc.get("dirs", {})
    if not isinstance(names, list) or not isinstance(dirs, dict) or len(names) > 10**5:
        raise FormatError("the columns are no list of names")
    found = {name: dirs.get(name, name) for name in names if isinstance(name, str)}
    if len(found) < len(names) or not all(
        is_folder_name(name) and is_folder_name(folder) for name, folder in found.items()
    ):
        raise FormatError(f"the columns {names!r:.200} have names that are no names of folders")
    return found


def is_folder_name(name: Any) -> bool:
    """Return True if a field may name a folder: one segment of a key that no data file could have."""
    plain = isinstance(name, str) and is_key(name) is not None and "/" not in name
    return plain and not (name.startswith("__") and name.endswith((".bin", ".blp")))


Field = tuple[str, ...]


def columns(dtype: NumpyDType) -> list[tuple[Field, NumpyDType]]:
    """Return the innermost fields, each with the names that lead to it; one without names for cells that are no
    structure."""
    base, shape = dtype.subdtype or (dtype, ())
    if base.names is None or base.fields is None or shape:
        return [((), dtype)]
    return [((name, *path), leaf) for name in base.names for path, leaf in columns(base.fields[name][0])]


def field_at(dtype: NumpyDType, path: Field) -> NumpyDType | None:
    """Return the type of a field of a field …; None when there is none of these names."""
    for name in path:
        if dtype.fields is None or name not in dtype.fields:
            return None
        dtype = dtype.fields[name][0]
    return dtype


# -- new arrays as the format holds them: types, chunks of whole rows, superchunks ----------------------------------


# Decoded bytes of a superchunk, and its chunks at the most, where nobody chose them.
_SUPERCHUNK = 32 << 20
CHUNKS_PER_SUPERCHUNK = 1024
# Bytes of a chunk for an array of 1 MiB: carray's and bcolz's own figures (see `auto_chunks`).
_BASE = {"blaze": 1024, "bcolz": 4096}
_MIB = 1 << 20


def new_array(request: ArraySpec, options: BlazeOptions) -> ArraySpec:
    """Return the spec to put; Unsupported names what the format does not hold, with a remedy."""
    encode_attrs(request.attrs)  # refuses what no document can hold
    if isinstance(request.dtype, VlenString):  # a coordinate: its cells stand in a document
        return coordinate_spec(request)
    if not isinstance(request.dtype, np.dtype):
        raise Unsupported(
            f"format blaze holds no cells of type {describe(request.dtype)}", remedy="use zarr3 or netcdf"
        )
    spec = request.evolve(dtype=packed(request.dtype), indexes={}, problem=None)
    _check_type(spec.numpy_dtype, options.layout)
    row = row_bytes(spec)
    if row > MAX_BYTES:
        raise Unsupported(f"rows of {row} bytes in format blaze", remedy="put a longer dimension first, or use zarr3")
    rows = max(1, min(_rows(spec), MAX_BYTES // max(row, 1)))
    shards = request.layout.get("shards")
    checksum = "none" if request.layout.get("checksum") is False else options.checksum
    per = _per(spec, rows, shards, options)
    storing = ColumnStorage(options.layout, rows, per, checksum, _codec(request), options.slack)
    return to_blaze_spec(spec, storing)


def _check_type(dtype: NumpyDType, layout: str) -> None:
    try:
        dtype_to_json(dtype)
    except TypeError:
        raise Unsupported(f"format blaze holds no cells of type {dtype}", remedy="use numbers, text or times") from None
    if not dtype.itemsize:
        raise Unsupported(f"format blaze holds no cells without bytes: {dtype}", remedy="give the type a length")
    if layout == "bcolz" and dtype.names is not None:
        remedy = "use layout='blaze', or one array for each field"
        raise Unsupported("bcolz cannot open arrays of structures that it has written", remedy=remedy)
    for path, _ in columns(dtype):
        for name in path:
            if not is_folder_name(name):
                raise Unsupported(f"format blaze has a folder for each field, and none is called {name!r}")


def _rows(spec: ArraySpec) -> int:
    """Return the rows in a chunk of about as many cells as wished."""
    if not spec.shape:
        return 1
    first, *rest = longest_chunk(spec.chunks)
    lengths = spec.shape[1:]
    if all(cut >= length for cut, length in zip(rest, lengths, strict=True)):
        return first
    return max(1, first * prod(rest) // max(1, prod(lengths)))


def _per(spec: ArraySpec, rows: int, shards: Chunks | None, options: BlazeOptions) -> int:
    """Return the chunks in a superchunk: as wished, else a power of two that makes about 32 MiB."""
    if options.layout == "bcolz" or not spec.shape:
        if shards is not None and spec.shape:
            raise Unsupported("layout bcolz has no superchunks", remedy="use layout='blaze'")
        return 1
    if shards is not None:
        cells = _rows(spec.evolve(chunks=shards))
        return max(1, ceil(cells / rows))
    if options.superchunk is not None:
        return options.superchunk
    most = _SUPERCHUNK // max(1, rows * row_bytes(spec))
    return min(CHUNKS_PER_SUPERCHUNK, 1 << max(0, most.bit_length() - 1))


def _codec(request: ArraySpec) -> Codec:
    codecs = [codec for codec in request.codecs if codec.name not in CHECKSUMS]
    if not codecs:
        return Codec("blosc", {"cname": "lz4", "clevel": 0, "shuffle": "noshuffle"})
    if len(codecs) > 1 or codecs[0].name != "blosc":
        names = "+".join(codec.name for codec in codecs)
        raise Unsupported(f"format blaze has no codec {names}", remedy="blosc with lz4, zstd …: codec='blosc:zstd:5'")
    config = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"} | dict(codecs[0].config)
    config.pop("typesize", None)
    if request.numpy_dtype.names is None:
        config["typesize"] = request.numpy_dtype.itemsize
    return Codec("blosc", config)


def auto_chunks(shape: tuple[int, ...], itemsize: int, layout: str) -> tuple[int, ...]:
    """Return the chunks that carray (layout ``blaze``) and bcolz 1.2 choose by the number of bytes, in whole rows."""
    if not shape:
        return ()
    row = max(1, prod(shape[1:]) * max(itemsize, 1))
    mebibytes = min(max(shape[0] * row / _MIB, 1e-4), 1e4)
    exponent = log10(10 ** int(log10(mebibytes))) + 6
    nbytes = int(_BASE[layout] * 2**exponent)
    return (max(1, nbytes // row), *whole_chunks(shape[1:]))
