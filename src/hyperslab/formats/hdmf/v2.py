"""Profile v2: the documents of Zarr v2 with ``zarr_link``, ``zarr_dtype`` and ``.specloc`` among the attributes. Pure.

A scalar has the shape ``[1]`` and ``zarr_dtype`` ``"scalar"``; here it has no dimension. One reference, or one row with
references, has the shape ``[1]`` too: ``zarr_dtype`` is needed for its type, so that the mark ``_hyperslab`` says that
it has no dimension.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.codecs.chain import try_chain
from hyperslab.errors import Unsupported
from hyperslab.formats.bounded_memo import BoundedMemo
from hyperslab.formats.codec_kinds import with_serial
from hyperslab.formats.format_errors import Problems, brief
from hyperslab.formats.hdmf.attributes import OWN, V2, marked, split
from hyperslab.formats.hdmf.cell_types import (
    CODECS,
    PICKLE,
    SCALAR,
    as_objects,
    as_row,
    as_text,
    filter_of,
    has_regions,
    is_known,
    is_object,
    objects_of,
    refuse_fill,
    same_type,
    serial_of,
    stand_in,
    stands_in,
    word_of,
    words_of,
)
from hyperslab.formats.hdmf.profile import SPECIFICATION_CODECS, HDMFOptions, Profile, attributes_of, with_attributes
from hyperslab.formats.metadata_json.extended_metadata import MARK
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr2 import document
from hyperslab.formats.zarr2.document import Zarr2
from hyperslab.model.dtypes import DataType, VlenBytes, VlenString, numpy_dtype
from hyperslab.model.spec import ArraySpec, GroupSpec

_OURS = frozenset({"reference_pickle", "reference_text", "record_text", "utf8_bytes"})
"""Codecs of ours that no document may name."""


class HdmfV2(Profile):
    """The :class:`~hyperslab.formats.zarr.dialect.MetadataDialect` of profile v2.

    ``layout["hdmf"]`` of an array: ``zarr_dtype`` as it was, ``scalar`` where the mark says so, ``dimensions`` of a
    scalar as they were, and ``unread`` and ``references`` as for groups.
    """

    words = V2

    def __init__(self, options: HDMFOptions | None = None) -> None:
        super().__init__(Zarr2(), options or HDMFOptions(profile="v2"))

    def read(self, docs: Docs, node: str, problems: Problems) -> GroupSpec | ArraySpec:
        """The spec; what is wrong goes to ``problems``."""
        stored = attributes_of(docs)
        if document.ZARRAY in docs:
            spec = _read_array(docs[document.ZARRAY], stored, self.is_specification(node), problems)
            return self.with_references(spec, stored, problems)
        group = document.read(with_attributes(docs, split(stored)[1]), problems)
        return self.read_group(group, stored, node, problems)

    def render(self, spec: GroupSpec | ArraySpec) -> Docs:
        """The documents; Unsupported names what the profile cannot hold, Invalid a reserved name."""
        if isinstance(spec, GroupSpec):
            return self.write_group(spec)
        old: Mapping[str, Any] = spec.layout.get("zarr2", {})
        said: Mapping[str, Any] = spec.layout.get(OWN, {})
        was = _was(old, said)
        if stands_in(spec):
            kept = was if was is not None and stands_in(was) else None
            text = as_text(spec, {} if kept is None else {"zarr2": stand_in(_flat(old, kept))})
            docs = self.write_node(spec, text)
            doc = _object_words(docs[document.ZARRAY], spec, old, kept)
        else:
            layout = {"zarr2": _flat(old, was)} if was is not None and not stands_in(was) else {}
            docs = self.write_node(spec, spec.evolve(layout=layout))
            doc = _with_zero(docs[document.ZARRAY], spec) if not layout else docs[document.ZARRAY]
        if not spec.shape:
            doc = {**doc, "shape": [1], "chunks": [1]}
        return {document.ZATTRS: _attributes(attributes_of(docs), spec, said, was), document.ZARRAY: doc}

    def new_array(self, wish: ArraySpec) -> ArraySpec:
        """A user's wish in this profile's spelling. What its codecs cannot do to such cells is Invalid now."""
        if wish.layout.get("shards") is not None:
            raise Unsupported("profile v2 of format hdmf has no shards", remedy='profile="v3"')
        dtype = as_row(wish.dtype)
        layout = {"zarr2": wish.layout["zarr2"]} if "zarr2" in wish.layout else {}
        if not is_object(dtype):
            fill = _zero(dtype) if wish.fill_value is None else wish.fill_value
            found = document.new_array(wish.evolve(attrs={}, fill_value=fill, layout=layout))
            old = _with_zero(found.layout["zarr2"], found)
            return self._again(found.evolve(attrs=wish.attrs, layout={"zarr2": old}))
        refuse_fill(wish.fill_value, dtype)
        pickle = self._options.object_codec == "pickle" and not has_regions(dtype)
        codecs = with_serial(wish.codecs, CODECS["pickle" if pickle else "json2"])
        spec = wish.evolve(dtype=dtype, codecs=codecs, fill_value=None, indexes={}, layout={}, problem=None)
        serial_of(spec)
        found = self._again(spec)
        try_chain(found)
        return found

    def specification(self) -> ArraySpec:
        """The array that one source of a specification stands in."""
        wish = ArraySpec(shape=(), dtype=VlenString(), chunks=(), codecs=(CODECS["json2"],))
        return self.new_array(wish)

    def _again(self, spec: ArraySpec) -> ArraySpec:
        """The array as it reads when it has been written."""
        found = self.parse(self.render(spec), "")
        if not isinstance(found, ArraySpec):
            raise TypeError("no array")
        return found


# -- from documents -----------------------------------------------------------------------------------------------


def _read_array(
    doc: Mapping[str, Any], stored: Mapping[str, Any], is_specification: bool, problems: Problems
) -> ArraySpec:
    own, rest = split(stored)
    word = own.pop(V2.dtype, None)
    said: dict[str, Any] = {} if word is None else {V2.dtype: word}
    if own:
        said["unread"] = own
    flat = doc
    if _is_scalar(doc, word, rest):
        flat = {**doc, "shape": [], "chunks": []}
        said |= {} if word == SCALAR else {"scalar": True}
        if document.DIMENSIONS in rest:
            said["dimensions"] = rest.pop(document.DIMENSIONS)
    cells = objects_of(flat, word, problems)
    spec = document.read_array(flat if cells is None else stand_in(flat), rest, problems)
    _check_codecs(spec, cells is not None and cells.codec.name, is_specification, problems)
    spec = spec if cells is None else as_objects(spec, cells)
    _check_word(word, spec, doc, problems)
    return spec.evolve(problem=problems.undecodable_reason, layout={"zarr2": doc, OWN: said})


def _is_scalar(doc: Mapping[str, Any], word: Any, rest: Mapping[str, Any]) -> bool:
    mark = rest.get(MARK)
    marked_so = isinstance(mark, dict) and mark.get("scalar") is True
    return doc.get("shape") == [1] == doc.get("chunks") and (word == SCALAR or marked_so)


def _check_codecs(spec: ArraySpec, serial: Any, is_specification: bool, problems: Problems) -> None:
    if found := [codec.name for codec in spec.codecs if codec.name in _OURS]:
        problems.undecodable("unknown-codec", f"codec {found[0]!r} is not known")
    filters = spec.layout["zarr2"].get("filters")
    if is_specification and (serial == PICKLE or not _is_text_codec(filters)):
        problems.undecodable(
            "specification", "a specification is stored with codec json2, vlen-utf8 or vlen-bytes alone"
        )


def _is_text_codec(filters: Any) -> bool:
    if not isinstance(filters, list):
        return True
    return len(filters) == 1 and isinstance(filters[0], dict) and filters[0].get("id") in tuple(SPECIFICATION_CODECS)


def _check_word(word: Any, spec: ArraySpec, doc: Mapping[str, Any], problems: Problems) -> None:
    """Note what ``zarr_dtype`` says that is not so: the cells are as Zarr's own words have them."""
    if word is None:
        problems.warn("zarr_dtype", f"zarr_dtype is missing; {word_of(spec.dtype, 'v2')} is assumed")
    elif not is_known(word):
        problems.warn("zarr_dtype", f"zarr_dtype is {brief(word)}, which is not known; ignored")
    elif word in ("object", "region") and not is_object(spec.dtype):
        problems.warn("zarr_dtype", f"zarr_dtype is {word!r}, but the cells are no references; ignored")
    elif word == SCALAR and spec.shape:
        problems.warn("zarr_dtype", f"zarr_dtype is 'scalar', but the shape is {doc.get('shape')}; ignored")
    elif isinstance(word, list) and numpy_dtype(spec.dtype).names is None:
        problems.warn("zarr_dtype", "zarr_dtype names fields, but the cells have none; ignored")


# -- to documents -------------------------------------------------------------------------------------------------


def _was(old: Mapping[str, Any], said: Mapping[str, Any]) -> ArraySpec | None:
    """The array without attributes as its documents said."""
    if not old:
        return None
    stored = {V2.dtype: said[V2.dtype]} if V2.dtype in said else {}
    return _as_it_was(old, marked(stored, scalar=said.get("scalar")))


_as_it_was = BoundedMemo(lambda old, stored: _read_array(old, stored, False, Problems("")))


def _flat(old: Mapping[str, Any], was: ArraySpec | None) -> Mapping[str, Any]:
    """The document as Zarr's own format reads it: a scalar has no dimension."""
    return {**old, "shape": [], "chunks": []} if was is not None and not was.shape else old


def _object_words(
    doc: dict[str, Any], spec: ArraySpec, old: Mapping[str, Any], was: ArraySpec | None
) -> dict[str, Any]:
    """``.zarray`` with the words of objects in place of those of text; the old ones where they mean the same."""
    same_codec = was is not None and serial_of(was) == serial_of(spec)
    first = old["filters"][0] if same_codec else filter_of(serial_of(spec))
    words = {"filters": [first, *doc["filters"][1:]]} | words_of(spec)
    if was is not None and same_codec and same_type(was.dtype, spec.dtype):
        words |= {name: old[name] for name in ("dtype", "fill_value") if name in old}
    if was is not None and was.codecs == spec.codecs and "order" in old:
        words["order"] = old["order"]  # which lists of JSON do not follow, so that no codec tells it
    return doc | words


def _with_zero(doc: Mapping[str, Any], spec: ArraySpec) -> dict[str, Any]:
    """Text that was never written is 0 to HDMF."""
    is_empty = isinstance(spec.dtype, VlenString | VlenBytes) and spec.fill_value in ("", b"")
    return {**doc, "fill_value": 0} if is_empty else dict(doc)


def _attributes(
    stored: Mapping[str, Any], spec: ArraySpec, said: Mapping[str, Any], was: ArraySpec | None
) -> dict[str, Any]:
    """The attributes with those of this profile."""
    attributes = dict(stored)
    if not spec.shape:
        del attributes[document.DIMENSIONS]
        if "dimensions" in said:
            attributes[document.DIMENSIONS] = said["dimensions"]
        if is_object(spec.dtype):
            attributes = marked(attributes, scalar=True)
    attributes |= said.get("unread", {})
    same = was is not None and same_type(was.dtype, spec.dtype) and bool(was.shape) == bool(spec.shape)
    attributes[V2.dtype] = said[V2.dtype] if same and V2.dtype in said else _word(spec)
    return attributes


def _word(spec: ArraySpec) -> Any:
    return SCALAR if not spec.shape and not is_object(spec.dtype) else word_of(spec.dtype, "v2")


# -- new arrays ---------------------------------------------------------------------------------------------------


def _zero(dtype: DataType) -> Any:
    """What HDMF's writers give as the fill value of new arrays."""
    if isinstance(dtype, VlenString | VlenBytes):
        return "" if isinstance(dtype, VlenString) else b""
    plain = numpy_dtype(dtype)
    return np.zeros((), plain)[()] if plain.kind in "biufc" or plain.names is not None else None
