"""Profile v2: the documents of Zarr v2 with ``zarr_link``, ``zarr_dtype`` and ``.specloc`` among the attributes. Pure.

A scalar has the shape ``[1]`` and ``zarr_dtype`` ``"scalar"``; here it has no dimension. One reference, or one row with
references, has the shape ``[1]`` too: ``zarr_dtype`` is needed for its type, so that the mark ``_hyperslab`` says that
it has no dimension.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.codecs.registry import try_chain
from hyperslab.formats.codec_kinds import with_array_to_bytes
from hyperslab.formats.documents import object_or_empty
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.hdmf.attributes import LAYOUT, V2_DTYPE, V2_LINKS, add_extended_metadata, split_reserved
from hyperslab.formats.hdmf.cell_types import (
    CODECS,
    HDMF_CODECS,
    PICKLE,
    SCALAR,
    describe_object_array,
    find_object_codec,
    from_text_array,
    has_region_references,
    is_known_type_name,
    is_object,
    is_same_type,
    needs_text_stand_in,
    parse_object_cells,
    raise_if_fill_value,
    to_text_array,
    to_text_document,
    type_name_of,
    unwrap_row,
)
from hyperslab.formats.hdmf.profile import SPECIFICATION_CODECS, HdmfProfile, replace_attributes, stored_attributes
from hyperslab.formats.metadata_json.extended_metadata import ATTRIBUTE
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr2 import document
from hyperslab.formats.zarr2.document import Zarr2
from hyperslab.model.bounded_memo import BoundedMemo
from hyperslab.model.dtypes import DataType, VlenBytes, VlenString, numpy_dtype
from hyperslab.model.spec import ArraySpec, GroupSpec


class HdmfV2(HdmfProfile, Zarr2):
    """The :class:`~hyperslab.formats.zarr.dialect.MetadataDialect` of profile v2.

    ``layout["hdmf"]`` of an array: ``zarr_dtype`` as it was, ``scalar`` where the mark says so, ``dimensions`` of a
    scalar as they were, and ``unread`` and ``references`` as for groups.
    """

    name = "v2"
    links_name = V2_LINKS
    dtype_name = V2_DTYPE

    def read(self, docs: Docs, node: str, problems: Problems) -> GroupSpec | ArraySpec:
        stored = stored_attributes(docs)
        if document.ZARRAY in docs:
            spec = _read_array(docs[document.ZARRAY], stored, self.is_specification(node), problems, self.sound)
            return self.with_references(spec, stored, problems)
        own, rest = split_reserved(stored)
        return self.read_group(super().read(replace_attributes(docs, rest), node, problems), own, rest, node, problems)

    def render_plain(self, spec: GroupSpec | ArraySpec) -> Docs:
        return document.render(spec)

    def render(self, spec: GroupSpec | ArraySpec) -> Docs:
        """Return the documents; Unsupported names what the profile cannot hold, Invalid a reserved name."""
        if spec.is_group:
            return self.write_group(spec)
        stored_document: Mapping[str, Any] = spec.layout.get("zarr2", {})
        own_layout: Mapping[str, Any] = spec.layout.get(LAYOUT, {})
        previous = _previous_array(stored_document, own_layout)
        flat = stored_document
        if previous is not None and not previous.shape:  # Zarr's own format reads a scalar without dimension
            flat = {**stored_document, "shape": [], "chunks": []}
        was_text = previous is not None and needs_text_stand_in(previous)
        if needs_text_stand_in(spec):
            docs = self.write_node(spec, to_text_array(spec, {"zarr2": to_text_document(flat)} if was_text else {}))
            kept = previous if was_text else None
            doc = _object_document(docs[document.ZARRAY], spec, stored_document, kept)
        else:
            is_new = previous is None or was_text
            docs = self.write_node(spec, spec.evolve(layout={} if is_new else {"zarr2": flat}))
            doc = _with_zero_fill(docs[document.ZARRAY], spec) if is_new else docs[document.ZARRAY]
        if not spec.shape:
            doc = {**doc, "shape": [1], "chunks": [1]}
        return {
            document.ZATTRS: _attributes(stored_attributes(docs), spec, own_layout, previous),
            document.ZARRAY: doc,
        }

    def new_array(self, wish: ArraySpec) -> ArraySpec:
        """Return a user's wish as this profile spells it; Invalid where its codecs cannot encode such cells."""
        dtype = unwrap_row(wish.dtype)
        layout = {"zarr2": wish.layout["zarr2"]} if "zarr2" in wish.layout else {}
        if not is_object(dtype):
            fill = _zero_fill(dtype) if wish.fill_value is None else wish.fill_value
            found = document.new_array(wish.evolve(attrs={}, fill_value=fill, is_fill_plain=False, layout=layout))
            stored_document = _with_zero_fill(found.layout["zarr2"], found)
            return self._reparse(found.evolve(attrs=wish.attrs, layout={"zarr2": stored_document}))
        raise_if_fill_value(wish.fill_value, dtype)
        pickle = self._options.object_codec == "pickle" and not has_region_references(dtype)
        codecs = with_array_to_bytes(wish.codecs, CODECS["pickle" if pickle else "json2"])
        spec = wish.evolve(dtype=dtype, codecs=codecs, fill_value=None, indexes={}, layout={}, problem=None)
        find_object_codec(spec)
        found = self._reparse(spec)
        try_chain(found)
        return found

    def specification(self) -> ArraySpec:
        wish = ArraySpec(shape=(), dtype=VlenString(), chunks=(), codecs=(CODECS["json2"],))
        return self.new_array(wish)

    def _reparse(self, spec: ArraySpec) -> ArraySpec:
        """Return the array as it reads once it is written."""
        found = self.parse(self.render(spec), "")
        assert found.is_array
        return found


# -- from documents -----------------------------------------------------------------------------------------------


def _read_array(
    doc: Mapping[str, object],
    stored: Mapping[str, Any],
    is_specification: bool,
    problems: Problems,
    sound: document.SoundDocuments | None = None,
) -> ArraySpec:
    own, rest = split_reserved(stored)
    type_name = own.pop(V2_DTYPE, None)
    own_layout: dict[str, Any] = {} if type_name is None else {V2_DTYPE: type_name}
    if own:
        own_layout["unread"] = own
    flat = doc
    is_marked = object_or_empty(rest.get(ATTRIBUTE)).get("scalar") is True
    if doc.get("shape") == [1] == doc.get("chunks") and (type_name == SCALAR or is_marked):
        flat = {**doc, "shape": [], "chunks": []}
        own_layout |= {} if type_name == SCALAR else {"scalar": True}
        if document.DIMENSIONS in rest:
            own_layout["dimensions"] = rest.pop(document.DIMENSIONS)
    cells = parse_object_cells(flat, type_name, problems)
    spec = document.read_array(flat if cells is None else to_text_document(flat), rest, problems, sound)
    is_pickle = cells is not None and cells[1].name == PICKLE
    _check_codecs(spec, is_pickle=is_pickle, is_specification=is_specification, problems=problems)
    spec = spec if cells is None else from_text_array(spec, *cells)
    _check_type_name(type_name, spec, doc, problems)
    return spec.evolve(problem=problems.undecodable_reason, layout={"zarr2": doc, LAYOUT: own_layout})


def _check_codecs(spec: ArraySpec, *, is_pickle: bool, is_specification: bool, problems: Problems) -> None:
    if found := [codec.name for codec in spec.codecs if codec.name in HDMF_CODECS]:
        problems.undecodable("unknown-codec", f"codec {found[0]!r} is not known")
    filters = spec.layout["zarr2"].get("filters")
    is_text = True
    if isinstance(filters, list):
        is_text = len(filters) == 1 and object_or_empty(filters[0]).get("id") in tuple(SPECIFICATION_CODECS)
    if is_specification and (is_pickle or not is_text):
        problems.undecodable(
            "specification", "a specification is stored with codec json2, vlen-utf8 or vlen-bytes alone"
        )


def _check_type_name(type_name: object, spec: ArraySpec, doc: Mapping[str, object], problems: Problems) -> None:
    """Warn of a ``zarr_dtype`` that does not fit the cells: Zarr's own type counts."""
    if type_name is None:
        problems.warn("zarr_dtype", f"zarr_dtype is missing; {type_name_of(spec.dtype, 'v2')} is assumed")
    elif not is_known_type_name(type_name):
        problems.warn("zarr_dtype", f"zarr_dtype is {shorten(type_name)}, which is not known; ignored")
    elif type_name in ("object", "region") and not is_object(spec.dtype):
        problems.warn("zarr_dtype", f"zarr_dtype is {type_name!r}, but the cells are no references; ignored")
    elif type_name == SCALAR and spec.shape:
        problems.warn("zarr_dtype", f"zarr_dtype is 'scalar', but the shape is {doc.get('shape')}; ignored")
    elif isinstance(type_name, list) and numpy_dtype(spec.dtype).names is None:
        problems.warn("zarr_dtype", "zarr_dtype names fields, but the cells have none; ignored")


# -- to documents -------------------------------------------------------------------------------------------------


def _previous_array(stored_document: Mapping[str, object], own_layout: Mapping[str, object]) -> ArraySpec | None:
    """Parse the stored document of an array without its attributes; None for a new array."""
    if not stored_document:
        return None
    stored = {V2_DTYPE: own_layout[V2_DTYPE]} if V2_DTYPE in own_layout else {}
    return _parse_previous(stored_document, add_extended_metadata(stored, scalar=own_layout.get("scalar")))


_parse_previous = BoundedMemo(lambda stored_document, stored: _read_array(stored_document, stored, False, Problems("")))


def _object_document(
    doc: dict[str, Any], spec: ArraySpec, stored_document: Mapping[str, Any], previous: ArraySpec | None
) -> dict[str, object]:
    """Return ``.zarray`` with the entries of objects in place of those of text; the stored ones where they mean the
    same."""
    codec = find_object_codec(spec)
    same_codec = previous is not None and find_object_codec(previous) == codec
    first = {"id": "pickle" if codec.name == PICKLE else codec.name, **codec.config}
    if same_codec:
        first = stored_document["filters"][0]
    entries = {"filters": [first, *doc["filters"][1:]]} | describe_object_array(spec)
    if previous is not None and same_codec and is_same_type(previous.dtype, spec.dtype):
        entries |= {name: stored_document[name] for name in ("dtype", "fill_value") if name in stored_document}
    if previous is not None and previous.codecs == spec.codecs and "order" in stored_document:
        entries["order"] = stored_document["order"]  # which lists of JSON do not follow, so that no codec tells it
    return doc | entries


def _with_zero_fill(doc: Mapping[str, object], spec: ArraySpec) -> dict[str, object]:
    """Return the document with the fill value 0 for empty text, which is HDMF's."""
    is_empty = isinstance(spec.dtype, VlenString | VlenBytes) and spec.fill_value in ("", b"")
    return {**doc, "fill_value": 0} if is_empty else dict(doc)


def _attributes(
    stored: Mapping[str, Any], spec: ArraySpec, own_layout: Mapping[str, Any], previous: ArraySpec | None
) -> dict[str, object]:
    """Return the stored attributes with those of this profile."""
    attributes = dict(stored)
    if not spec.shape:
        del attributes[document.DIMENSIONS]
        if "dimensions" in own_layout:
            attributes[document.DIMENSIONS] = own_layout["dimensions"]
        if is_object(spec.dtype):
            attributes = add_extended_metadata(attributes, scalar=True)
    attributes |= own_layout.get("unread", {})
    keeps_kind = (
        previous is not None and is_same_type(previous.dtype, spec.dtype) and bool(previous.shape) == bool(spec.shape)
    )
    if keeps_kind and V2_DTYPE in own_layout:
        attributes[V2_DTYPE] = own_layout[V2_DTYPE]
    elif not spec.shape and not is_object(spec.dtype):
        attributes[V2_DTYPE] = SCALAR
    else:
        attributes[V2_DTYPE] = type_name_of(spec.dtype, "v2")
    return attributes


# -- new arrays ---------------------------------------------------------------------------------------------------


def _zero_fill(dtype: DataType) -> object:
    """Return the fill value that HDMF's writers give to new arrays."""
    match dtype:
        case VlenString():
            return ""
        case VlenBytes():
            return b""
    plain = numpy_dtype(dtype)
    return np.zeros((), plain)[()] if plain.kind in "biufc" or plain.names is not None else None
