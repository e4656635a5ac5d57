"""Profile v3: the documents of Zarr v3 with ``_LINKS``, ``_DTYPE``, ``_REFERENCE_FIELDS`` among the attributes. Pure.

References are text, rows hold text of fixed width, bytes are text (the mark ``_hyperslab`` says so). The names of
dimensions stand twice: in ``dimension_names`` for readers of Zarr, in ``_ARRAY_DIMENSIONS`` for those of HDMF.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab.codecs.registry import try_chain
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.codec_kinds import ARRAY_TO_BYTES
from hyperslab.formats.documents import is_text_list, object_or_empty, text_or_none
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.hdmf.attributes import (
    LAYOUT,
    REFERENCE_FIELDS,
    REGION_FIELDS,
    V3_DTYPE,
    V3_LINKS,
    add_extended_metadata,
    split_reserved,
)
from hyperslab.formats.hdmf.cell_types import (
    HDMF_CODECS,
    OBJECTS,
    REGIONS,
    check_field,
    field_kinds,
    is_known_type_name,
    is_object,
    is_same_type,
    raise_if_fill_value,
    type_name_of,
    unwrap_row,
)
from hyperslab.formats.hdmf.profile import SPECIFICATION_CODECS, HdmfProfile, replace_attributes, stored_attributes
from hyperslab.formats.metadata_json.dtypes import describe_type
from hyperslab.formats.metadata_json.extended_metadata import ATTRIBUTE
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr3 import document
from hyperslab.formats.zarr3.document import Zarr3
from hyperslab.formats.zarr3.dtypes import STRUCT
from hyperslab.model.bounded_memo import BoundedMemo
from hyperslab.model.dtypes import (
    DataType,
    NumpyDType,
    ObjectRef,
    RegionRef,
    VlenBytes,
    VlenString,
    describe,
    tagged,
)
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

# -- cells that Zarr v3 stores as something else: references and bytes as text, rows of any length as fixed-width rows.
# Zarr's own format gets the array as it is stored (``to_stored_array``); an internal codec makes cells of it.

# How many characters hdmf-zarr gives each field of text, or more: so many or more are read as text of any length.
MIN_TEXT_WIDTH = 512
REFERENCES, ROWS, BYTES = "reference_text", "record_text", "utf8_bytes"
# All but the one that itself makes bytes of cells: references are pickled in profile v2 alone.
INTERNAL_CODECS = HDMF_CODECS - ARRAY_TO_BYTES
_SHARDS = "sharding_indexed"


def insert_step(codecs: Sequence[Codec], step: Codec) -> tuple[Codec, ...]:
    """Return the chain with an internal codec before the one that makes bytes of cells, in shards too."""
    found: list[Codec] = []
    for codec in codecs:
        if codec.name == _SHARDS:
            found.append(Codec(_SHARDS, {**codec.config, "codecs": insert_step(codec.config["codecs"], step)}))
            continue
        if codec.name in ARRAY_TO_BYTES:
            found.append(step)
        found.append(codec)
    return tuple(found)


def remove_steps(codecs: Iterable[Codec]) -> tuple[Codec, ...]:
    """Return the chain as the document has it."""
    return tuple(
        Codec(_SHARDS, {**codec.config, "codecs": remove_steps(codec.config["codecs"])})
        if codec.name == _SHARDS
        else codec
        for codec in codecs
        if codec.name not in INTERNAL_CODECS
    )


def find_steps(codecs: Iterable[Codec]) -> list[Codec]:
    """Return the internal codecs of a chain."""
    found = []
    for codec in codecs:
        if codec.name == _SHARDS:
            found += find_steps(codec.config["codecs"])
        elif codec.name in INTERNAL_CODECS:
            found.append(codec)
    return found


def logical_row(stored: DataType, references: Sequence[str], regions: Sequence[str]) -> NumpyDType | None:
    """Return the rows that stored ones stand for: wide text is references or text of any length; None without such
    fields."""
    if not isinstance(stored, np.dtype) or stored.names is None:
        return None
    kinds: dict[str, ObjectRef | RegionRef | VlenString] = {}
    for name in stored.names:
        field = stored[name]
        if field.kind != "U" or field.subdtype is not None:
            continue
        if name in regions:
            kinds[name] = RegionRef()
        elif name in references:
            kinds[name] = ObjectRef()
        elif field.itemsize // 4 >= MIN_TEXT_WIDTH:
            kinds[name] = VlenString()
    if not kinds:
        return None
    fields = [(name, tagged(np.dtype(object), kinds[name]) if name in kinds else stored[name]) for name in stored.names]
    return np.dtype(fields)


def requested_widths(wish: ArraySpec) -> dict[str, int]:
    """Return how many characters fields of any length get: ``layout["widths"]`` or codec ``record_text``, at least the
    least."""
    widths: dict[str, Any] = dict(wish.layout.get("widths", {}))
    for step in find_steps(wish.codecs):
        widths |= step.config.get("widths", {})
    names = (name for name in wish.numpy_dtype.names or () if wish.numpy_dtype[name].hasobject)
    return {name: max(MIN_TEXT_WIDTH, int(widths.get(name, 0))) for name in names}


def fixed_width_row(row: NumpyDType, widths: Mapping[str, int]) -> NumpyDType:
    """Return the rows of fixed width that are stored; Unsupported for fields that cannot be text."""
    kinds = field_kinds(row)
    for name in row.names or ():
        if row[name].hasobject:
            check_field(name, kinds.get(name), bytes_too=False)
    return np.dtype([(name, f"<U{widths[name]}" if name in widths else row[name]) for name in row.names or ()])


def step_for(dtype: DataType, widths: Mapping[str, int]) -> Codec | None:
    """Return the internal codec that cells of this type need; None for those that Zarr stores itself."""
    match dtype:
        case ObjectRef() | RegionRef():
            return Codec(REFERENCES)
        case VlenBytes():
            return Codec(BYTES)
        case np.dtype() if dtype.hasobject:
            return Codec(ROWS, {"widths": dict(widths)})
        case _:
            return None


def to_stored_array(spec: ArraySpec) -> ArraySpec:
    """Return the array as Zarr's own format is to write it."""
    steps = find_steps(spec.codecs)
    if not steps:
        wanted = step_for(spec.dtype, {})
        if wanted is None or (wanted.name == BYTES and "vlen-bytes" in [codec.name for codec in spec.codecs]):
            return spec
        message = f"cells of type {describe(spec.dtype)} without codec {wanted.name}"
        raise Unsupported(message, remedy="leave the codecs out")
    codecs = remove_steps(spec.codecs)
    match spec.dtype:
        case np.dtype():
            dtype = fixed_width_row(spec.dtype, steps[0].config["widths"])
            return spec.evolve(dtype=dtype, codecs=codecs, fill_value=np.zeros((), dtype)[()])
        case VlenBytes():
            fill = bytes(spec.fill_value or b"").decode()
        case _:
            fill = ""
    return spec.evolve(dtype=VlenString(), codecs=codecs, fill_value=fill)


DIMENSIONS = "_ARRAY_DIMENSIONS"
_OF_BYTES = describe_type(VlenBytes())
_REFERENCES: dict[str, ObjectRef | RegionRef] = {OBJECTS["v3"]: ObjectRef(), REGIONS["v3"]: RegionRef()}


class HdmfV3(HdmfProfile, Zarr3):
    """The :class:`~hyperslab.formats.zarr.dialect.MetadataDialect` of profile v3.

    ``layout["hdmf"]`` of an array: ``_DTYPE`` as it was (None: not to be written), ``_REFERENCE_FIELDS`` and
    ``_REGION_FIELDS`` as they were, ``dimensions`` that only ``_ARRAY_DIMENSIONS`` names, and ``unread`` and
    ``references`` as for groups.
    """

    name = "v3"
    links_name = V3_LINKS
    dtype_name = V3_DTYPE
    structure = STRUCT

    def read(self, docs: Docs, node: str, problems: Problems) -> GroupSpec | ArraySpec:
        stored = stored_attributes(docs)
        doc = docs[document.NAME]
        if not self.is_array(docs):
            own, rest = split_reserved(stored)
            plain = {**doc, "attributes": rest} if _has_sound_attributes(doc) else doc
            group = super().read({document.NAME: plain}, node, problems)
            return self.read_group(group, own, rest, node, problems)
        spec = _read_array(doc, stored, self.is_specification(node), problems)
        return self.with_references(spec, stored, problems)

    def render_plain(self, spec: GroupSpec | ArraySpec) -> Docs:
        return super().render(spec)

    def render(self, spec: GroupSpec | ArraySpec) -> Docs:
        """Return the document; Unsupported names what the profile cannot hold, Invalid a reserved name."""
        if spec.is_group:
            return self.write_group(spec)
        stored_document: Mapping[str, Any] = spec.layout.get("zarr3", {})
        own_layout: Mapping[str, Any] = spec.layout.get(LAYOUT, {})
        previous = _previous_array(stored_document, own_layout)
        stored = to_stored_array(spec)
        if own_layout.get("dimensions") == list(spec.dims) and "dimension_names" not in stored_document:
            stored = stored.evolve(dims=())
        docs = self.write_node(spec, stored)
        attributes = stored_attributes(docs)
        if previous is not None and is_object(spec.dtype) and is_same_type(previous.dtype, spec.dtype):
            docs = {document.NAME: {**docs[document.NAME], "fill_value": stored_document["fill_value"]}}
        return replace_attributes(docs, _attributes(attributes, spec, own_layout, previous))

    def new_array(self, wish: ArraySpec) -> ArraySpec:
        """Return a user's wish as this profile spells it; Invalid where its codecs cannot encode such cells."""
        dtype = unwrap_row(wish.dtype)
        widths = requested_widths(wish.evolve(dtype=dtype)) if isinstance(dtype, np.dtype) else {}
        step = step_for(dtype, widths)
        bare = wish.evolve(attrs={}, codecs=tuple(codec for codec in wish.codecs if codec.name not in INTERNAL_CODECS))
        if step is None:
            return self._reparse(super().new_array(bare).evolve(attrs=wish.attrs), wish)
        if is_object(dtype):
            raise_if_fill_value(wish.fill_value, dtype)
        if isinstance(dtype, np.dtype):
            plain = bare.evolve(dtype=fixed_width_row(dtype, widths), fill_value=None)
        else:
            codecs = tuple(Codec("vlen-utf8") if codec.name == "vlen-bytes" else codec for codec in bare.codecs)
            plain = bare.evolve(dtype=VlenString(), fill_value=_text_fill(wish.fill_value, dtype), codecs=codecs)
        stored = super().new_array(plain)
        fill = _cell_fill(stored.fill_value, dtype)
        array = stored.evolve(dtype=dtype, codecs=insert_step(stored.codecs, step), fill_value=fill, attrs=wish.attrs)
        found = self._reparse(array, wish)
        try_chain(found)
        return found

    def _reparse(self, spec: ArraySpec, wish: ArraySpec) -> ArraySpec:
        """Return the array as it reads once it is written."""
        own_layout = {V3_DTYPE: None} if wish.layout.get(LAYOUT, {}).get(V3_DTYPE, "") is None else {}
        found = self.parse(self.render(spec.evolve(layout={**spec.layout, LAYOUT: own_layout})), "")
        assert found.is_array
        return found.evolve(layout={**found.layout, LAYOUT: {**found.layout[LAYOUT], **own_layout}})

    def specification(self) -> ArraySpec:
        layout = {LAYOUT: {V3_DTYPE: None}, "checksum": False}
        return self.new_array(ArraySpec(shape=(), dtype=VlenString(), chunks=(), layout=layout))


# -- from documents -----------------------------------------------------------------------------------------------


def _has_sound_attributes(doc: Mapping[str, object]) -> bool:
    """Return False where the attributes of a document are no object, which Zarr's own format reports."""
    return isinstance(doc.get("attributes", {}), dict)


def _read_array(
    doc: dict[str, Any], stored: Mapping[str, Any], is_specification: bool, problems: Problems
) -> ArraySpec:
    own, rest = split_reserved(stored)
    type_name = own.pop(V3_DTYPE, None)
    own_layout: dict[str, Any] = {} if type_name is None else {V3_DTYPE: type_name}
    reference_fields = {name: own.pop(name) for name in (REFERENCE_FIELDS, REGION_FIELDS) if name in own}
    own_layout |= reference_fields | ({"unread": own} if own else {})
    dims = rest.pop(DIMENSIONS, None)
    plain = {**doc, "attributes": rest} if _has_sound_attributes(doc) else doc
    spec = document.read({document.NAME: plain}, "", problems)
    assert spec.is_array
    if found := find_steps(spec.codecs):
        problems.undecodable("unknown-codec", f"codec {found[0].name!r} is not known")
        return spec.evolve(problem=problems.undecodable_reason, layout={**spec.layout, LAYOUT: own_layout})
    is_text = isinstance(spec.dtype, VlenString | VlenBytes)
    to_bytes = [codec.name for codec in spec.codecs if codec.name in ARRAY_TO_BYTES]
    if is_specification and is_text and not SPECIFICATION_CODECS.issuperset(to_bytes):
        problems.undecodable(
            "specification", "a specification is stored with codec json2, vlen-utf8 or vlen-bytes alone"
        )
    spec = _read_dimensions(spec, doc, dims, own_layout, problems)
    # Schemas have no _DTYPE in hdmf-zarr's stores: none is written to them either.
    if is_specification and type_name is None:
        own_layout[V3_DTYPE] = None
    array = _apply_reserved(spec, type_name, reference_fields, rest, problems)
    _check_type_name(type_name, array, is_specification, problems)
    return array.evolve(problem=problems.undecodable_reason, layout={**spec.layout, LAYOUT: own_layout})


def _read_dimensions(
    spec: ArraySpec, doc: Mapping[str, Any], dims: Any, own_layout: dict[str, Any], problems: Problems
) -> ArraySpec:
    """Return the array with its dimension names, those of the attribute where Zarr's own document has none."""
    if dims is None:
        return spec
    rank = len(spec.shape)
    if not isinstance(dims, list) or len(dims) != rank or not all(isinstance(name, str | None) for name in dims):
        problems.warn("dimensions", f"{DIMENSIONS} is {shorten(dims)}, which names no {rank} dimensions; ignored")
        return spec.evolve(attrs={**spec.attrs, DIMENSIONS: dims})
    if doc.get("dimension_names") is None:
        own_layout["dimensions"] = dims
        return spec.evolve(dims=tuple(dims))
    if list(spec.dims) != dims:
        problems.warn("dimensions", f"{DIMENSIONS} is {shorten(dims)}, but dimension_names says otherwise, and counts")
    return spec


def _apply_reserved(
    spec: ArraySpec,
    type_name: object,
    reference_fields: Mapping[str, object],
    rest: Mapping[str, object],
    problems: Problems,
) -> ArraySpec:
    """Return the array as its reserved attributes describe it: references, rows of any length, bytes."""
    fields = [
        _parse_field_names(reference_fields.get(name), name, problems) for name in (REFERENCE_FIELDS, REGION_FIELDS)
    ]
    if isinstance(spec.dtype, VlenString):
        of_bytes = object_or_empty(rest.get(ATTRIBUTE)).get("dtype") == _OF_BYTES
        kind = _REFERENCES.get(text_or_none(type_name) or "")
        if kind is None and not of_bytes:
            return spec
        dtype = VlenBytes() if kind is None else kind
        if kind is not None and spec.fill_value not in (None, ""):
            problems.warn("fill_value", "the fill value of references is not empty; those never written are none")
        step = Codec(BYTES if kind is None else REFERENCES)
        fill = _cell_fill(spec.fill_value, dtype)
        return spec.evolve(dtype=dtype, codecs=insert_step(spec.codecs, step), fill_value=fill)
    row = logical_row(spec.dtype, *fields)
    kinds = {} if row is None else field_kinds(row)
    for name in fields[0] + fields[1]:
        if kinds.get(name) in (None, VlenString()):
            problems.warn("reference-fields", f"there is no field {name!r} of text that could hold references; ignored")
    if row is None:
        return spec
    if spec.fill_value is not None and any(spec.fill_value.tobytes()):
        problems.warn("fill_value", "the fill value of rows is not empty; those never written are rows of zeros")
    widths = {name: spec.numpy_dtype[name].itemsize // 4 for name in row.names or () if row[name].hasobject}
    step = Codec(ROWS, {"widths": widths})
    return spec.evolve(dtype=row, codecs=insert_step(spec.codecs, step), fill_value=None)


def _parse_field_names(names: object, attribute: str, problems: Problems) -> list[str]:
    if names is None:
        return []
    if is_text_list(names):
        return names
    problems.warn("reference-fields", f"{attribute} is {shorten(names)}, not a list of names; ignored")
    return []


def _check_type_name(type_name: object, spec: ArraySpec, is_specification: bool, problems: Problems) -> None:
    """Warn of a ``_DTYPE`` that does not fit the cells: Zarr's own type counts."""
    if type_name is None:
        if not is_specification and type_name_of(spec.dtype, "v3") is not None:
            problems.warn("_DTYPE", f"_DTYPE is missing; {type_name_of(spec.dtype, 'v3')} is assumed")
    elif not is_known_type_name(type_name):
        problems.warn("_DTYPE", f"_DTYPE is {shorten(type_name)}, which is not known; ignored")
    elif type_name in (OBJECTS["v3"], REGIONS["v3"]) and not is_object(spec.dtype):
        problems.warn("_DTYPE", f"_DTYPE is {type_name!r}, but the cells are no references; ignored")


# -- to documents -------------------------------------------------------------------------------------------------


def _previous_array(stored_document: Mapping[str, object], own_layout: Mapping[str, object]) -> ArraySpec | None:
    """Parse the stored document of an array without its attributes; None for a new array."""
    if not stored_document:
        return None
    stored = {
        name: own_layout[name]
        for name in (V3_DTYPE, REFERENCE_FIELDS, REGION_FIELDS)
        if own_layout.get(name) is not None
    }
    return _parse_previous(stored_document, stored)


_parse_previous = BoundedMemo(lambda stored_document, stored: _read_array(stored_document, stored, False, Problems("")))


def _attributes(
    stored: Mapping[str, Any], spec: ArraySpec, own_layout: Mapping[str, Any], previous: ArraySpec | None
) -> dict[str, object]:
    """Return the stored attributes with those of this profile."""
    attributes: dict[str, Any] = dict(own_layout.get("unread", {}))
    same = previous is not None and is_same_type(previous.dtype, spec.dtype)
    is_bytes = isinstance(spec.dtype, VlenBytes)
    type_name = type_name_of(spec.dtype, "v3")
    if V3_DTYPE in own_layout and (same or (own_layout[V3_DTYPE] is None and not is_bytes)):
        type_name = own_layout[V3_DTYPE]
    attributes |= {} if type_name is None else {V3_DTYPE: type_name}
    if same:
        attributes |= {name: own_layout[name] for name in (REFERENCE_FIELDS, REGION_FIELDS) if name in own_layout}
    else:
        for attribute, kind in ((REFERENCE_FIELDS, ObjectRef()), (REGION_FIELDS, RegionRef())):
            if names := [name for name, found in field_kinds(spec.dtype).items() if found == kind]:
                attributes[attribute] = names
    if any(name is not None for name in spec.dims):
        attributes[DIMENSIONS] = list(spec.dims)
    attributes = {**stored, **attributes}
    return add_extended_metadata(attributes, dtype=_OF_BYTES) if is_bytes else attributes


# -- new arrays ---------------------------------------------------------------------------------------------------


def _text_fill(fill: Any, dtype: DataType) -> str:
    """Return the fill value of cells that are stored as text; Invalid for bytes that are no text."""
    if fill is None or not isinstance(dtype, VlenBytes):
        return ""
    try:
        return bytes(fill).decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"profile v3 of format hdmf stores bytes as text; the fill value is none: {error}") from None


def _cell_fill(fill: Any, dtype: DataType) -> object:
    """Return the fill value of cells by that of the text that is stored."""
    return (fill or "").encode() if isinstance(dtype, VlenBytes) else None
