"""The JSON documents of a Blaze, bcolz or BLZ directory, and the spec that they mean. Pure.

``meta/sizes`` and ``meta/storage`` as the specification has them, the attributes in ``meta/attributes`` (``__attrs__``
in bcolz). Two files of ours in ``meta``, which others pass over: ``superchunks`` has what ``storage`` has no key for,
``labels`` name, dimensions and coordinates (``formats/one_array.py``), there only when there is something to say.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.codecs.blosc import CNAMES, MAX_BYTES, SHUFFLES
from hyperslab.codecs.digests import NUMBERS, digest_number
from hyperslab.errors import FormatError, Invalid
from hyperslab.formats.blaze.data_file import Shape
from hyperslab.formats.bloscpack.dtype_text import long_name, read_dtype
from hyperslab.formats.bloscpack.encoding import Slack, check_slack
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.metadata_json.cells import cell_from_json, cell_to_json
from hyperslab.formats.one_array import Labelled, labels_from_json, labels_to_json
from hyperslab.model.spec import ArraySpec, Codec
from hyperslab.stores.keys import is_key

SIZES, STORAGE, LABELS, SUPERCHUNKS = "meta/sizes", "meta/storage", "meta/labels", "meta/superchunks"
ATTRIBUTES = {"blaze": "meta/attributes", "bcolz": "__attrs__"}
TABLE = "__rootdirs__"
DATA, META = "data", "meta"
Docs = Mapping[str, Mapping[str, Any]]
"""Documents by their keys."""

_SHUFFLES = {number: name for name, number in SHUFFLES.items()}
_KEYS = ("dtype", "cparams", "bparams", "chunklen", "dflt", "expectedlen")


@dataclass(frozen=True, slots=True)
class BlazeOptions:
    """How new arrays are stored: the ``layout``, the name of the ``checksum`` behind each chunk, chunks in a superchunk
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
    """How one array's chunks are stored: ``rows`` in each, ``per`` superchunk, their codec, the room in them."""

    layout: str
    rows: int
    per: int
    checksum: str
    codec: Codec
    slack: Slack = 0

    @classmethod
    def of(cls, spec: ArraySpec) -> ColumnStorage:
        """As a spec of this format says."""
        said: Mapping[str, Any] = spec.layout.get("blaze", {})
        inner: Any = spec.inner_chunks or spec.chunks
        codecs = spec.codecs[0].config["codecs"] if spec.inner_chunks else spec.codecs
        rows = inner[0] if inner else 1
        outer: Any = spec.chunks
        per = outer[0] // rows if spec.inner_chunks else 1
        slack = said.get("slack", 0)
        return cls(said.get("layout", "blaze"), rows, per, said.get("checksum", "adler32"), codecs[0], slack)

    def shape_of(self, row_bytes: int, itemsize: int) -> Shape:
        """The data files of a column whose rows take so many bytes."""
        single = self.layout == "bcolz"
        return Shape(self.rows * row_bytes, self.per, itemsize, NUMBERS[self.checksum], single, self.slack)


def spelled(spec: ArraySpec, storing: ColumnStorage, **layout: Any) -> ArraySpec:
    """The spec in this format's own spelling: chunks of whole rows, in superchunks where those hold several."""
    rest = whole_chunks(spec.shape[1:])
    chunks, codecs = (storing.rows, *rest) if spec.shape else (), (storing.codec,)
    if storing.per > 1 and spec.shape:
        config = {"chunk_shape": chunks, "codecs": codecs, "index_codecs": ()}
        chunks, codecs = (storing.rows * storing.per, *rest), (Codec("sharding_indexed", config),)
    said: dict[str, Any] = {"layout": storing.layout, "checksum": storing.checksum}
    said |= {"slack": storing.slack} if storing.slack else {}
    said |= layout
    return spec.evolve(chunks=chunks, codecs=codecs, layout={"blaze": said})


def said_besides(spec: ArraySpec) -> dict[str, Any]:
    """What the documents said of the array that is no part of its :class:`ColumnStorage`."""
    said: Mapping[str, Any] = spec.layout.get("blaze", {})
    return {key: value for key, value in said.items() if key not in ("layout", "checksum", "slack")}


def own(spec: ArraySpec) -> ArraySpec:
    """The spec with chunks of whole rows, whatever its shape has become."""
    more = said_besides(spec)
    if more.get("expectedlen") is None:
        more["expectedlen"] = spec.shape[0] if spec.shape else 1
    return spelled(spec, ColumnStorage.of(spec), **more)


def row_bytes(spec: ArraySpec) -> int:
    """Decoded bytes of one row: all cells at one position of the first axis."""
    return prod(spec.shape[1:]) * spec.numpy_dtype.itemsize


# -- reading --------------------------------------------------------------------------------------------------------


def parse(docs: Docs, layout: str, per: int | None = None, *, rowwise: bool = False) -> Labelled:
    """The array with its labels; ``per``: chunks in the first superchunk, where only its header tells; ``rowwise``:
    whether the cells of structures lie whole in files right below ``data``, and not in columns.

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
    per = _per(own, per, layout, problems)
    problems.raise_if_fatal()
    assert shape is not None and dtype is not None and isinstance(rows, int)
    spec = ArraySpec(shape=shape, dtype=dtype, chunks=(1,) * len(shape))
    if rows * row_bytes(spec) > MAX_BYTES:
        problems.fatal(
            "chunklen", f"chunks of {rows} rows take {rows * row_bytes(spec)} bytes, Blosc takes {MAX_BYTES}"
        )
        problems.raise_if_fatal()
    checksum = _one_of(NUMBERS, own.get("checksum"), "adler32") if layout == "blaze" else "none"
    storing = ColumnStorage(layout, rows, per, checksum, _codec(storage, own, spec), _slack(own.get("slack", 0)))
    kept = {key: storage[key] for key in storage if key not in _KEYS}
    params = "bparams" if "bparams" in storage else "cparams"
    more = {
        "expectedlen": storage.get("expectedlen"),
        "kept": kept,
        "params": params,
        "said": storage.get(params),
        "dflt": storage.get("dflt"),
    }
    if layout == "blaze" and (rowwise or own.get("rowwise") is True):
        more["rowwise"] = True
    said = {**docs.get(LABELS, {}), "attrs": docs.get(ATTRIBUTES[layout], {})}
    labelled = labels_from_json(said, spelled(spec, storing, **more))
    main = labelled.spec
    if main.fill_value is None:
        main = main.evolve(fill_value=_fill(storage.get("dflt"), main))
    return Labelled(labelled.name, main, labelled.coords, labelled.group)


def _dtype(said: Any, problems: Problems) -> np.dtype[Any] | None:
    try:
        dtype = read_dtype(said)
    except TypeError as error:
        problems.fatal("dtype", str(error))
        return None
    if not dtype.itemsize:
        problems.fatal("dtype", f"cells of type {dtype} have no bytes")
    for path, _ in columns(dtype):
        for name in path:
            if not is_safe(name):
                problems.fatal("field-name", f"the field {name!r} is no name of a folder")
    return dtype


def _per(own: Mapping[str, Any], found: int | None, layout: str, problems: Problems) -> int:
    if layout == "bcolz":
        return 1
    per = own.get("nchunks", found if found is not None else 1)
    if type(per) is not int or not 1 <= per <= 1 << 32:
        problems.fatal("superchunk", f"{per!r:.60} chunks in a superchunk")
        return 1
    return per


def _codec(storage: Mapping[str, Any], own: Mapping[str, Any], spec: ArraySpec) -> Codec:
    """What new chunks are written by; a wish that makes none sense is passed over, for each chunk says how it is."""
    params = storage.get("cparams", storage.get("bparams"))
    params = params if isinstance(params, dict) else {}
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


def _slack(said: Any) -> Slack:
    """Return the room that is said, none for what makes no sense."""
    try:
        return check_slack(said)
    except Invalid:
        return 0


def _one_of(known: Collection[str], said: Any, other: str) -> str:
    """Return the word that is said, if it is one of the known ones, else the other."""
    return said if isinstance(said, str) and said in known else other


def _fill(said: Any, spec: ArraySpec) -> Any:
    """The value of ``dflt``; None for zero, and for what cannot be one."""
    found = _cell(said, spec)
    return None if found.tobytes() == bytes(found.itemsize) else found[()]


def _cell(said: Any, spec: ArraySpec) -> np.ndarray[Any, Any]:
    """The cell that ``dflt`` spells, zero for what is none. BLZ has one for each column of a row."""
    dtype = spec.numpy_dtype
    found = np.zeros((), dtype)
    try:
        while isinstance(said, list) and dtype.names is None and dtype.kind != "c":
            (said,) = {json.dumps(each) for each in said}
            said = json.loads(said)
        if dtype.kind == "S":
            cell = np.bytes_(said.encode("latin-1"))
        elif dtype.kind == "c" and not isinstance(said, list):
            cell = dtype.type(said)
        else:
            cell = cell_from_json(bool(said) if dtype.kind == "b" else said, dtype)
        found[()] = cell
    except (TypeError, ValueError, OverflowError, AttributeError, KeyError, IndexError):
        return np.zeros((), dtype)
    return found


# -- writing --------------------------------------------------------------------------------------------------------


def render(labelled: Labelled, cbytes: int) -> dict[str, dict[str, Any] | None]:
    """The documents by key; None for one that is not to be there. Unsupported for what JSON cannot hold."""
    spec, storing = labelled.spec, ColumnStorage.of(labelled.spec)
    said: Mapping[str, Any] = spec.layout.get("blaze", {})
    labels = labels_to_json(labelled)
    attributes = labels.pop("attrs", {})
    docs: dict[str, dict[str, Any] | None] = {
        STORAGE: _storage(spec, storing, said),
        LABELS: labels or None,
        ATTRIBUTES[storing.layout]: attributes,
        SIZES: {"shape": list(spec.shape), "nbytes": prod(spec.shape) * spec.numpy_dtype.itemsize, "cbytes": cbytes},
    }
    if storing.layout == "blaze":
        own: dict[str, Any] = {
            "nchunks": storing.per,
            "checksum": storing.checksum,
            "cname": storing.codec.config["cname"],
        }
        size = storing.codec.config.get("blocksize")
        own |= {"blocksize": size} if size else {}
        own |= {"slack": storing.slack} if storing.slack else {}
        docs[SUPERCHUNKS] = own | ({"rowwise": True} if said.get("rowwise") else {})
    return docs


def _storage(spec: ArraySpec, storing: ColumnStorage, said: Mapping[str, Any]) -> dict[str, Any]:
    config = storing.codec.config
    shuffle = SHUFFLES.get(config.get("shuffle", "shuffle"), 1)
    before = said.get("said")
    params: dict[str, Any] = dict(before) if isinstance(before, dict) else {}
    if storing.layout == "bcolz" and said.get("params") != "bparams":
        params |= {"clevel": config["clevel"], "shuffle": shuffle, "cname": config["cname"]}
        params.setdefault("quantize", 0)
    else:
        params |= {"shuffle": shuffle if shuffle == 2 else bool(shuffle), "clevel": config["clevel"]}
    dtype = spec.numpy_dtype
    text = long_name(dtype)
    expected = said.get("expectedlen")
    expected = (spec.shape[0] if spec.shape else 1) if expected is None else expected
    doc: dict[str, Any] = {"dtype": text, said.get("params", "cparams"): params, "chunklen": storing.rows}
    last = {"dflt": _dflt(spec, said.get("dflt"))}
    doc |= {"expectedlen": expected} | last if storing.layout == "bcolz" else last | {"expectedlen": expected}
    kept: Mapping[str, Any] = said.get("kept", {})
    return doc | dict(kept)


def _dflt(spec: ArraySpec, before: Any) -> Any:
    """The fill value as JSON; as it was spelled ``before`` where it is the same."""
    cell = spec.fill_cell()[()]
    if before is not None and _cell(before, spec).tobytes() == cell.tobytes():
        return before
    if spec.numpy_dtype.kind == "S":
        return bytes(cell).decode("latin-1")
    return cell_to_json(cell)


def document_bytes(doc: Mapping[str, Any]) -> bytes:
    """A document as bcolz writes it: one line of ASCII."""
    return json.dumps(doc, ensure_ascii=True, allow_nan=False).encode() + b"\n"


# -- tables, columns ------------------------------------------------------------------------------------------------


def parse_table(doc: Mapping[str, Any]) -> dict[str, str]:
    """The folder of each column of a bcolz or BLZ table; FormatError for names that are none."""
    names, dirs = doc.get("names"), doc.get("dirs", {})
    if not isinstance(names, list) or not isinstance(dirs, dict) or len(names) > 10**5:
        raise FormatError("the columns are no list of names")
    found = {name: dirs.get(name, name) for name in names if isinstance(name, str)}
    if len(found) < len(names) or not all(is_safe(name) and is_safe(folder) for name, folder in found.items()):
        raise FormatError(f"the columns {names!r:.200} have names that are no names of folders")
    return found


def is_safe(name: Any) -> bool:
    """Return whether a field may name a folder: one segment of a key that no data file could have."""
    plain = isinstance(name, str) and is_key(name) is not None and "/" not in name
    return plain and not (name.startswith("__") and name.endswith((".bin", ".blp")))


Field = tuple[str, ...]


def columns(dtype: np.dtype[Any]) -> list[tuple[Field, np.dtype[Any]]]:
    """The innermost fields, each with the names that lead to it; one without names for cells that are no structure."""
    base, shape = dtype.subdtype or (dtype, ())
    if base.names is None or base.fields is None or shape:
        return [((), dtype)]
    return [((name, *path), leaf) for name in base.names for path, leaf in columns(base.fields[name][0])]


def field_at(dtype: np.dtype[Any], path: Field) -> np.dtype[Any] | None:
    """The type of a field of a field …; None when there is none of these names."""
    for name in path:
        if dtype.fields is None or name not in dtype.fields:
            return None
        dtype = dtype.fields[name][0]
    return dtype
