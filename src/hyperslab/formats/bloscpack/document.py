"""The array of a bloscpack file, from its metadata and its number of bytes, and back. Pure.

An array: ``dtype``, ``shape``, ``order`` and ``container`` as bloscpack writes them, behind them the labels of
``formats/single_array`` where there is anything to say, then the keys of others, which are attributes::

    {"dtype":"'<f8'","shape":[1500],"order":"C","container":"numpy","dims":["time"],"attrs":{"units":"K"}}

Without ``dtype`` and ``shape`` the file is a stream of bytes, and the metadata are its attributes.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal, Self

import numpy as np

from hyperslab.errors import FormatError, Unsupported
from hyperslab.formats.documents import DocumentLimits, check_limits, read_json
from hyperslab.formats.format_errors import document_error
from hyperslab.formats.metadata_json.attributes import encode_attrs
from hyperslab.formats.metadata_json.dtypes import LARGEST, dtype_from_json, field_shape
from hyperslab.formats.single_array.document import (
    DEFAULT,
    KEYS,
    Doc,
    LabelledArray,
    is_label,
    labels_from_json,
    labels_to_json,
)
from hyperslab.model.dtypes import NumpyDType, packed
from hyperslab.model.spec import ArraySpec, Codec

# -- text of the metadata -------------------------------------------------------------------------------------------
#
# JSON, or a Python literal as in the specification's example.


# What is no JSON may be a Python literal. It is matched by this grammar before Python's parser sees it, and the
# quantifiers are possessive, so that no text takes longer than its length.
_LITERAL = DocumentLimits(size=1 << 20, values=10**5)
_TEXT = r"""u?(?:"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')"""
_NUMBER = r"-?(?:\d+\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?+(?=\s*+(?:[,:)}\]]|\Z))"
_PYTHON = re.compile(rf"(?:\s++|[][{{}}(),:]|{_TEXT}|{_NUMBER}|(?:True|False|None)\b)*+", re.DOTALL)
_ROUND_AS_SQUARE = bytes.maketrans(b"()", b"[]")


def write_text(doc: Doc, *, spaced: bool = False) -> bytes:
    """Return a document as bloscpack writes it: JSON of ASCII without blanks; ``spaced`` as the specification's program
    did.

    ValueError for what JSON has no word for.
    """
    return json.dumps(doc, separators=None if spaced else (",", ":"), allow_nan=False).encode()


def read_text(data: bytes) -> Doc:
    """Return the document of a text: JSON, or the Python literal of the specification's example; FormatError when
    neither.

    A value that is no object stands under ``metadata``.
    """
    try:
        value = read_json(data)
    except FormatError as error:
        try:
            value = read_literal(data.decode())
        except (FormatError, UnicodeDecodeError):
            raise document_error("metadata", f"the metadata are no JSON: {error.message}") from None
    return value if isinstance(value, dict) else {"metadata": value}


def read_literal(text: str) -> object:
    """Return the value of a Python literal, tuples as lists; only texts, numbers, True, False, None, lists, tuples and
    dicts.

    FormatError for anything else, for what is long, and for what is nested deeply: nothing of it is evaluated.
    """
    data = text.encode("utf-8", "surrogatepass")
    check_limits(data.translate(_ROUND_AS_SQUARE), _LITERAL)
    if _PYTHON.fullmatch(text) is None:
        raise document_error("metadata", f"no literal: {text[:80]!r}")
    try:
        return _as_json(ast.literal_eval(text.strip()))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise document_error("metadata", f"no literal: {error}") from None


def _as_json(value: object) -> object:
    """Return the same value with the types of JSON."""
    match value:
        case dict():
            if not all(isinstance(key, str) for key in value):
                raise TypeError("a key that is no text")
            return {key: _as_json(each) for key, each in value.items()}
        case list() | tuple():
            return [_as_json(each) for each in value]
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"a {type(value).__name__}")


# -- data types as bloscpack, Blaze and bcolz spell them ------------------------------------------------------------
#
# Read are `<f8`, `'<f8'` (quotes inside the text, as bloscpack writes it), `float64`, `datetime64[ns]`, the `descr` of
# a structure as text (`[('u', '<u2'), ('v', '<f4', (3,))]`) or as JSON lists. Fields without a name are padding
# (`numpy.lib.format`, `descr_to_dtype`). Object cells are pickles: never read.


_LONG = re.compile(r"bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)|(?:datetime|timedelta)64(?:\[\w+\])?")
_SHORT = re.compile(r"[<>|=]?(?:[a-zA-Z?]\d*(?:\[\w+\])?)")
_QUOTED = re.compile(f"'({_SHORT.pattern})'")
# Cells of these types are refused by name: pickles run code, and `long double` differs from machine to machine.
_OBJECTS = re.compile(r"[<>|=]?(?:O\d*|object)")
_EXOTIC = re.compile(r"[<>|=]?(?:f12|f16|c24|c32|g|G)|float(?:96|128)|complex(?:192|256)")
_PADDING = re.compile(r"\|?V\d{1,9}")


def read_dtype(value: object) -> NumpyDType:
    """Return the type of the cells as they lie in the file, padding included.

    TypeError says what is wrong; Unsupported for object cells and for floats of more than 8 bytes.
    """
    if isinstance(value, str):
        text = value.strip()
        if _SHORT.fullmatch(text) or _LONG.fullmatch(text) or _OBJECTS.fullmatch(text) or _EXOTIC.fullmatch(text):
            return _simple(text)
        if quoted := _QUOTED.fullmatch(text):  # a literal as bloscpack writes it, without asking Python's parser
            return _simple(quoted[1])
        try:
            value = read_literal(text)
        except FormatError:
            raise TypeError(f"{text[:80]!r} is no data type") from None
        if isinstance(value, str):
            return _simple(value)
    if isinstance(value, list) and value:
        return _structured(value)
    raise TypeError(f"{value!r:.80} is no data type")


def write_dtype(dtype: NumpyDType) -> str:
    """Return the text of a type: ``repr`` of its ``str`` or, for a structure, of its ``descr`` (bloscpack 0.16)."""
    return repr(dtype.str if dtype.names is None else dtype.descr)


def long_name(dtype: NumpyDType) -> str:
    """Return the text of a type in the specification's words: ``float64``, ``>f8``, ``|S5``, the ``descr`` of a
    structure."""
    return str(dtype) if dtype.names is None else str(np.lib.format.dtype_to_descr(dtype))


def _simple(text: str) -> NumpyDType:
    if _OBJECTS.fullmatch(text):
        raise Unsupported("object cells are pickles, which run code when they are read", remedy="read it where it is")
    if _EXOTIC.fullmatch(text):
        raise Unsupported(f"cells of type {text!r}, which differ from machine to machine", remedy="store them as f8")
    if _LONG.fullmatch(text):
        try:
            return np.dtype(text)
        except TypeError as error:
            raise TypeError(f"{text!r} is no data type: {error}") from None
    return dtype_from_json(text.replace("?", "b1"))


def _structured(value: list[object]) -> NumpyDType:
    names: dict[str, NumpyDType] = {}
    offsets, size = [], 0
    for part in value:
        if not isinstance(part, list) or len(part) not in (2, 3):
            raise TypeError(f"{part!r:.80} is no field: (name, type) or (name, type, shape)")
        name = _name(part[0])
        if name == "" and len(part) == 2 and isinstance(part[1], str) and _PADDING.fullmatch(part[1]):
            size += int(part[1].lstrip("|V"))
        else:
            if not name or name in names:
                raise TypeError(f"field {name!r} has no name of its own")
            dtype = read_dtype(part[1])
            if len(part) == 3:
                lengths = field_shape(part[2])
                if prod(lengths) * dtype.itemsize > LARGEST:
                    raise TypeError(f"a field of {prod(lengths)} cells of {dtype.itemsize} bytes")
                dtype = np.dtype((dtype, lengths))
            names[name] = dtype
            offsets.append(size)
            size += names[name].itemsize
        if size > LARGEST:
            raise TypeError(f"cells of this type have {size} bytes or more")
    if not names:
        raise TypeError("a structure without fields")
    return np.dtype({"names": [*names], "formats": [*names.values()], "offsets": offsets, "itemsize": size})


def _name(value: object) -> str:
    """Return the name of a field, which may stand behind a title."""
    if isinstance(value, list) and len(value) == 2:
        value = value[1]
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no name of a field")
    return value


NUMPY = ("dtype", "shape", "order", "container")
LARGEST_COUNT = 2**63 - 1
# As many dimensions as bloscpack's NumPy has at the most.
_AXES = 32
# Bytes of a chunk of the grid where the stored chunks have no size in common.
_UNKNOWN = 1 << 20
_TOGETHER = 4
"""Stored chunks that are read together where their borders are not those of rows: those at the ends are read twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One array with its labels, and how its cells lie in the stream: their dtype (padding included), their order.

    ``plain``: a stream of bytes without a dtype, the metadata of which are its attributes. ``outer``: the names of the
    attributes that stand beside ``dtype`` and not in ``attrs``. ``extra``: keys that are kept and are no attributes.
    ``surplus``: bytes that the chunks hold behind the cells.
    """

    labelled: LabelledArray
    stored: NumpyDType
    order: Literal["C", "F"] = "C"
    plain: bool = False
    outer: tuple[str, ...] = ()
    extra: Doc = field(default_factory=dict)
    surplus: int = 0

    @property
    def spec(self) -> ArraySpec:
        """The array."""
        return self.labelled.spec

    @property
    def axis(self) -> int:
        """The axis along which the stream is cut: the slowest one."""
        return axis_of(self.spec.shape, self.order)

    @property
    def row(self) -> int:
        """Bytes of the cells at one position of that axis (of all cells where there is none)."""
        return row_bytes(self.spec.shape, self.stored, self.order)

    @property
    def nbytes(self) -> int:
        """Bytes of all cells in the stream."""
        return prod(self.spec.shape) * self.stored.itemsize

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


def axis_of(shape: tuple[int, ...], order: str) -> int:
    """Return the axis that is cut, the slowest one."""
    return 0 if order == "C" else len(shape) - 1


def in_rows(shape: tuple[int, ...], order: str, rows: int) -> tuple[int, ...]:
    """Return the chunks of so many rows."""
    axis = axis_of(shape, order)
    return tuple(max(1, rows if i == axis else length) for i, length in enumerate(shape))


def row_bytes(shape: tuple[int, ...], stored: NumpyDType, order: str) -> int:
    """Return the bytes of the cells at one position of the slowest axis."""
    return prod(shape[1:] if order == "C" else shape[:-1]) * stored.itemsize


def cut(shape: tuple[int, ...], stored: NumpyDType, order: str, chunk_size: int) -> tuple[int, ...]:
    """Return the chunks that the array shows, in whole rows: those that are stored where rows end with them, else
    larger ones.

    ``chunk_size``: bytes of the stored chunks, -1 where they are not all alike.
    """
    if not shape:
        return ()
    row, rows = row_bytes(shape, stored, order), shape[axis_of(shape, order)]
    if row and chunk_size > 0 and chunk_size % row == 0:
        rows = min(rows, chunk_size // row)
    elif row:
        together = _TOGETHER * chunk_size if chunk_size > 0 else _UNKNOWN
        rows = min(rows, -(-together // row))
    return in_rows(shape, order, rows)


def parse_document(
    doc: Doc | None, *, nbytes: int, chunk_size: int, loose: bool = False, codecs: tuple[Codec, ...] = ()
) -> Content:
    """Return what a stream of ``nbytes`` (-1: not known) in chunks of ``chunk_size`` holds by its metadata.

    ``loose``: the metadata are a user's own unless they fit, as in v3 without ``container``. FormatError lists what
    makes no sense; Unsupported for cells that are not read. Bytes behind the cells are no error: ``blpk append`` puts
    them there and leaves the shape as it was.
    """
    doc = {} if doc is None else doc
    loose = loose and "container" not in doc
    if "dtype" not in doc or "shape" not in doc:
        return _plain(doc, nbytes, chunk_size, codecs)
    try:
        content = _array(doc, chunk_size, codecs)
    except (FormatError, Unsupported):
        if loose:
            return _plain(doc, nbytes, chunk_size, codecs)
        raise
    if nbytes in (-1, content.nbytes):
        return content
    if loose:
        return _plain(doc, nbytes, chunk_size, codecs)
    if nbytes > content.nbytes:
        return content.evolve(surplus=nbytes - content.nbytes)
    raise contradiction(content, nbytes)


def contradiction(content: Content, nbytes: int) -> FormatError:
    """Return the error for chunks of other bytes than the cells take."""
    shape = content.spec.shape
    message = f"the chunks hold {nbytes} bytes, but {shape} cells of {content.stored} take {content.nbytes}"
    return document_error("size", message)


def _plain(doc: Doc, nbytes: int, chunk_size: int, codecs: tuple[Codec, ...]) -> Content:
    shape, stored = (max(nbytes, 0),), np.dtype("u1")
    chunks = cut(shape, stored, "C", chunk_size)
    spec = ArraySpec(shape=shape, dtype=stored, chunks=chunks, codecs=codecs, attrs=dict(doc))
    return Content(labelled=LabelledArray(DEFAULT, spec), stored=stored, plain=True)


def _array(doc: Doc, chunk_size: int, codecs: tuple[Codec, ...]) -> Content:
    try:
        stored = read_dtype(doc["dtype"])
        shape = _shape(doc["shape"], stored)
        order = doc.get("order", "C")
        if order not in ("C", "F"):
            raise TypeError(f"order {order!r}")
    except TypeError as error:
        raise document_error("metadata", f"the metadata make no sense: {error}") from None
    spec = ArraySpec(shape=shape, dtype=packed(stored), chunks=cut(shape, stored, order, chunk_size), codecs=codecs)
    labels = {key: doc[key] for key in KEYS if key in doc and is_label(key, doc[key])}
    labelled = labels_from_json(labels, spec)
    known = (*NUMPY, *labels)
    rest = {key: value for key, value in doc.items() if key not in known}
    if doc.get("container", "numpy") != "numpy":
        rest["container"] = doc["container"]
    attrs = labelled.spec.attrs
    extra = {key: value for key, value in rest.items() if key in attrs or (key, value) == ("others", [])}
    outer = {key: value for key, value in rest.items() if key not in extra}
    labelled = replace(labelled, spec=labelled.spec.evolve(attrs=outer | dict(attrs)))
    return Content(labelled=labelled, stored=stored, order=order, outer=tuple(outer), extra=extra)


def _shape(value: Any, stored: NumpyDType) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(n) is not int or n < 0 for n in value):
        raise TypeError(f"{value!r:.80} is no shape")
    if len(value) > _AXES or prod(n or 1 for n in value) * stored.itemsize > LARGEST_COUNT:
        raise TypeError(f"an array of {len(value)} axes and {prod(value)} cells")
    return tuple(value)


def render_document(content: Content, *, spec_words: bool = False) -> Doc:
    """Return the document of an array, keys in bloscpack's order (``spec_words``: in the specification's words); of a
    stream of bytes, its attributes.

    Unsupported for attributes of a stream of bytes, or cells of coordinates, that JSON cannot hold.
    """
    values, codes = encode_attrs(content.spec.attrs)
    if content.plain:
        if codes:
            remedy = "give JSON's own types, or write an array"
            message = f"attribute {next(iter(codes))!r}: a file of plain bytes has no typed attributes"
            raise Unsupported(message, remedy=remedy)
        return values
    shape = list(content.spec.shape)
    doc: Doc
    if spec_words:
        doc = {"dtype": long_name(content.stored), "shape": shape, "others": []}
        doc |= {"order": content.order} if content.order == "F" else {}
    else:
        doc = {"dtype": write_dtype(content.stored), "shape": shape, "order": content.order, "container": "numpy"}
    spec = content.spec
    outer = {name: values[name] for name in content.outer if name in values and name not in (*KEYS, *codes)}
    inner = spec.evolve(attrs={name: value for name, value in spec.attrs.items() if name not in outer})
    return doc | labels_to_json(replace(content.labelled, spec=inner)) | outer | content.extra
