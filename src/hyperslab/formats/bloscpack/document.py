"""What a bloscpack file holds, from its metadata and its number of bytes, and back. Pure.

An array: ``dtype`` (see ``dtype_text``), ``shape``, ``order`` and ``container`` as bloscpack writes them, behind them
the labels of ``formats/one_array.py`` where there is anything to say, then the keys of others, which are attributes::

    {"dtype":"'<f8'","shape":[1500],"order":"C","container":"numpy","dims":["time"],"attrs":{"units":"K"}}

Without ``dtype`` and ``shape`` the file is a stream of bytes, and the metadata are its attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal, Self

import numpy as np

from hyperslab.errors import FormatError, Unsupported
from hyperslab.formats.bloscpack.dtype_text import long_name, read_dtype, write_dtype
from hyperslab.formats.bloscpack.metadata import Doc
from hyperslab.formats.format_errors import document_error
from hyperslab.formats.metadata_json.attributes import encode_attrs
from hyperslab.formats.one_array import DEFAULT, KEYS, Labelled, is_label, labels_from_json, labels_to_json
from hyperslab.model.dtypes import packed
from hyperslab.model.spec import ArraySpec, Codec

NUMPY = ("dtype", "shape", "order", "container")
_MOST = 2**63 - 1
_AXES = 32
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

    labelled: Labelled
    stored: np.dtype[Any]
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
        """A copy with some fields changed."""
        return replace(self, **changes)


def axis_of(shape: tuple[int, ...], order: str) -> int:
    """The axis that is cut, the slowest one."""
    return 0 if order == "C" else len(shape) - 1


def in_rows(shape: tuple[int, ...], order: str, rows: int) -> tuple[int, ...]:
    """Chunks of so many rows."""
    axis = axis_of(shape, order)
    return tuple(max(1, rows if i == axis else length) for i, length in enumerate(shape))


def row_bytes(shape: tuple[int, ...], stored: np.dtype[Any], order: str) -> int:
    """Bytes of the cells at one position of the slowest axis."""
    return prod(shape[1:] if order == "C" else shape[:-1]) * stored.itemsize


def cut(shape: tuple[int, ...], stored: np.dtype[Any], order: str, chunk_size: int) -> tuple[int, ...]:
    """The chunks that the array shows, in whole rows: those that are stored where rows end with them, else larger ones.

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


def parse(
    doc: Doc | None, *, nbytes: int, chunk_size: int, loose: bool = False, codecs: tuple[Codec, ...] = ()
) -> Content:
    """What a stream of ``nbytes`` (-1: not known) in chunks of ``chunk_size`` holds by its metadata.

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
    return Content(labelled=Labelled(DEFAULT, spec), stored=stored, plain=True)


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
    said = {key: doc[key] for key in KEYS if key in doc and is_label(key, doc[key])}
    labelled = labels_from_json(said, spec)
    rest = {key: value for key, value in doc.items() if key not in (*NUMPY, *said)}
    if doc.get("container", "numpy") != "numpy":
        rest["container"] = doc["container"]
    attrs = labelled.spec.attrs
    extra = {key: value for key, value in rest.items() if key in attrs or (key, value) == ("others", [])}
    outer = {key: value for key, value in rest.items() if key not in extra}
    labelled = replace(labelled, spec=labelled.spec.evolve(attrs=outer | dict(attrs)))
    return Content(labelled=labelled, stored=stored, order=order, outer=tuple(outer), extra=extra)


def _shape(said: Any, stored: np.dtype[Any]) -> tuple[int, ...]:
    if not isinstance(said, list) or any(type(n) is not int or n < 0 for n in said):
        raise TypeError(f"{said!r:.80} is no shape")
    if len(said) > _AXES or prod(n or 1 for n in said) * stored.itemsize > _MOST:
        raise TypeError(f"an array of {len(said)} axes and {prod(said)} cells")
    return tuple(said)


def render(content: Content, *, spec_words: bool = False) -> Doc:
    """Return the document of an array, keys in bloscpack's order (``spec_words``: in the specification's words); of a
    stream of bytes, its attributes.

    Unsupported for attributes of a stream of bytes, or cells of coordinates, that JSON cannot hold.
    """
    if content.plain:
        return plain_doc(content.spec.attrs)
    shape = list(content.spec.shape)
    doc: Doc
    if spec_words:
        doc = {"dtype": long_name(content.stored), "shape": shape, "others": []}
        doc |= {"order": content.order} if content.order == "F" else {}
    else:
        doc = {"dtype": write_dtype(content.stored), "shape": shape, "order": content.order, "container": "numpy"}
    spec = content.spec
    values, codes = encode_attrs(spec.attrs)
    outer = {name: values[name] for name in content.outer if name in values and name not in (*KEYS, *codes)}
    inner = spec.evolve(attrs={name: value for name, value in spec.attrs.items() if name not in outer})
    return doc | labels_to_json(replace(content.labelled, spec=inner)) | outer | content.extra


def plain_doc(attrs: Mapping[str, Any]) -> Doc:
    """The metadata of a stream of bytes: attributes that are plain JSON."""
    values, codes = encode_attrs(attrs)
    if codes:
        name = next(iter(codes))
        remedy = "give JSON's own types, or write an array"
        raise Unsupported(f"attribute {name!r}: a file of plain bytes has no typed attributes", remedy=remedy)
    return values
