"""Profile v3: the documents of Zarr v3 with ``_LINKS``, ``_DTYPE``, ``_REFERENCE_FIELDS`` among the attributes. Pure.

References are text, rows hold text of fixed width, bytes are text (the mark ``_hyperslab`` says so). The names of
dimensions stand twice: in ``dimension_names`` for readers of Zarr, in ``_ARRAY_DIMENSIONS`` for those of HDMF.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab.codecs.chain import try_chain
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.bounded_memo import BoundedMemo
from hyperslab.formats.codec_kinds import SERIAL
from hyperslab.formats.format_errors import Problems, brief
from hyperslab.formats.hdmf.attributes import OWN, REFERENCE_FIELDS, REGION_FIELDS, V3, marked, split
from hyperslab.formats.hdmf.cell_types import (
    OBJECTS,
    REGIONS,
    as_row,
    check_field,
    is_known,
    is_object,
    refuse_fill,
    same_type,
    word_of,
)
from hyperslab.formats.hdmf.profile import SPECIFICATION_CODECS, HDMFOptions, Profile, attributes_of, with_attributes
from hyperslab.formats.metadata_json.dtypes import describe_type
from hyperslab.formats.metadata_json.extended_metadata import MARK
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr3 import document
from hyperslab.formats.zarr3.document import Zarr3, new_array
from hyperslab.model.dtypes import (
    DataType,
    ObjectRef,
    RegionRef,
    VlenBytes,
    VlenString,
    describe,
    tagged,
    tagged_fields,
)
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

# -- ------------------------------------------------------------------------------------------------------------------
# Arrays of profile v3 that Zarr v3 stores as something else: references as text, rows of any length as rows of fixed
# width, bytes as text. Pure.
#
# To Zarr's own format such an array is given as what is stored (``stored_as``); a codec of ours makes it of the
# cells.


NARROWEST = 512
"""How many characters hdmf-zarr gives each field of text, or more: so many or more are read as text of any length."""
REFERENCES, ROWS, BYTES = "reference_text", "record_text", "utf8_bytes"
OURS = (REFERENCES, ROWS, BYTES)
_SHARDS = "sharding_indexed"


def with_step(codecs: Sequence[Codec], step: Codec) -> tuple[Codec, ...]:
    """The chain with a step of ours before the one that makes bytes of cells, in shards too."""
    found: list[Codec] = []
    for codec in codecs:
        if codec.name == _SHARDS:
            found.append(Codec(_SHARDS, {**codec.config, "codecs": with_step(codec.config["codecs"], step)}))
            continue
        if codec.name in SERIAL:
            found.append(step)
        found.append(codec)
    return tuple(found)


def without_steps(codecs: Iterable[Codec]) -> tuple[Codec, ...]:
    """The chain that stands in the document."""
    return tuple(
        Codec(_SHARDS, {**codec.config, "codecs": without_steps(codec.config["codecs"])})
        if codec.name == _SHARDS
        else codec
        for codec in codecs
        if codec.name not in OURS
    )


def steps_in(codecs: Iterable[Codec]) -> list[Codec]:
    """The steps of ours in a chain."""
    found = []
    for codec in codecs:
        if codec.name == _SHARDS:
            found += steps_in(codec.config["codecs"])
        elif codec.name in OURS:
            found.append(codec)
    return found


def row_of(stored: DataType, references: Sequence[str], regions: Sequence[str]) -> np.dtype[Any] | None:
    """The rows that stored ones stand for: wide fields of text are references or text of any length; None without."""
    if not isinstance(stored, np.dtype) or stored.names is None:
        return None
    kinds = {name: _kind(name, stored[name], references, regions) for name in stored.names}
    if not any(kinds.values()):
        return None
    return np.dtype(
        [(name, stored[name] if kind is None else tagged(np.dtype(object), kind)) for name, kind in kinds.items()]
    )


def _kind(
    name: str, field: np.dtype[Any], references: Sequence[str], regions: Sequence[str]
) -> ObjectRef | RegionRef | VlenString | None:
    if field.kind != "U" or field.subdtype is not None:
        return None
    if name in regions:
        return RegionRef()
    if name in references:
        return ObjectRef()
    return VlenString() if field.itemsize // 4 >= NARROWEST else None


def widths_of(row: np.dtype[Any], stored: np.dtype[Any]) -> dict[str, int]:
    """How many characters the fields of any length have, by name."""
    return {name: stored[name].itemsize // 4 for name in row.names or () if row[name].hasobject}


def wished_widths(wish: ArraySpec) -> dict[str, int]:
    """How many characters the fields of any length get: as the wish says by ``layout["widths"]`` or in its codec
    ``record_text``, and never fewer than peers give them."""
    said: dict[str, Any] = dict(wish.layout.get("widths", {}))
    for step in steps_in(wish.codecs):
        said |= step.config.get("widths", {})
    names = (name for name in wish.numpy_dtype.names or () if wish.numpy_dtype[name].hasobject)
    return {name: max(NARROWEST, int(said.get(name, 0))) for name in names}


def packed_row(row: np.dtype[Any], widths: Mapping[str, int]) -> np.dtype[Any]:
    """How rows with fields of any length are stored; Unsupported for fields that there is no text of."""
    kinds = dict(tagged_fields(row))
    for name in row.names or ():
        if row[name].hasobject:
            check_field(name, kinds.get(name), bytes_too=False)
    return np.dtype([(name, f"<U{widths[name]}" if name in widths else row[name]) for name in row.names or ()])


def step_for(dtype: DataType, widths: Mapping[str, int]) -> Codec | None:
    """The codec of ours that cells of this type need; None for those that Zarr stores itself."""
    match dtype:
        case ObjectRef() | RegionRef():
            return Codec(REFERENCES)
        case VlenBytes():
            return Codec(BYTES)
        case np.dtype() if dtype.hasobject:
            return Codec(ROWS, {"widths": dict(widths)})
        case _:
            return None


def stored_as(spec: ArraySpec) -> ArraySpec:
    """The array as Zarr's own format is to know it."""
    steps = steps_in(spec.codecs)
    if not steps:
        wanted = step_for(spec.dtype, {})
        as_zarr_has_them = isinstance(spec.dtype, VlenBytes) and "vlen-bytes" in [codec.name for codec in spec.codecs]
        if wanted is not None and not as_zarr_has_them:
            message = f"cells of type {describe(spec.dtype)} without codec {wanted.name}"
            raise Unsupported(message, remedy="leave the codecs out")
        return spec
    codecs = without_steps(spec.codecs)
    if not isinstance(spec.dtype, np.dtype):
        fill = bytes(spec.fill_value or b"").decode() if isinstance(spec.dtype, VlenBytes) else ""
        return spec.evolve(dtype=VlenString(), codecs=codecs, fill_value=fill)
    dtype = packed_row(spec.dtype, steps[0].config["widths"])
    return spec.evolve(dtype=dtype, codecs=codecs, fill_value=np.zeros((), dtype)[()])


DIMENSIONS = "_ARRAY_DIMENSIONS"
_OF_BYTES = describe_type(VlenBytes())
_REFERENCES: dict[str, ObjectRef | RegionRef] = {OBJECTS["v3"]: ObjectRef(), REGIONS["v3"]: RegionRef()}


class HdmfV3(Profile):
    """The :class:`~hyperslab.formats.zarr.dialect.MetadataDialect` of profile v3.

    ``layout["hdmf"]`` of an array: ``_DTYPE`` as it was (None: not to be written), ``_REFERENCE_FIELDS`` and
    ``_REGION_FIELDS`` as they were, ``dimensions`` that only ``_ARRAY_DIMENSIONS`` names, and ``unread`` and
    ``references`` as for groups.
    """

    words = V3

    def __init__(self, options: HDMFOptions | None = None) -> None:
        super().__init__(Zarr3(), options or HDMFOptions(profile="v3"))

    def read(self, docs: Docs, node: str, problems: Problems) -> GroupSpec | ArraySpec:
        """The spec; what is wrong goes to ``problems``."""
        stored = attributes_of(docs)
        doc = docs[document.NAME]
        if not self.is_array(docs):
            rest = split(stored)[1] if isinstance(doc.get("attributes", {}), dict) else doc["attributes"]
            return self.read_group(document.read({**doc, "attributes": rest}, problems), stored, node, problems)
        spec = _read_array(doc, stored, self.is_specification(node), problems)
        return self.with_references(spec, stored, problems)

    def render(self, spec: GroupSpec | ArraySpec) -> Docs:
        """The document; Unsupported names what the profile cannot hold, Invalid a reserved name."""
        if isinstance(spec, GroupSpec):
            return self.write_group(spec)
        old: Mapping[str, Any] = spec.layout.get("zarr3", {})
        said: Mapping[str, Any] = spec.layout.get(OWN, {})
        was = _was(old, said)
        stored = stored_as(spec)
        if said.get("dimensions") == list(spec.dims) and "dimension_names" not in old:
            stored = stored.evolve(dims=())
        docs = self.write_node(spec, stored)
        attributes = attributes_of(docs)
        if was is not None and is_object(spec.dtype) and same_type(was.dtype, spec.dtype):
            docs = {document.NAME: {**docs[document.NAME], "fill_value": old["fill_value"]}}
        return with_attributes(docs, _attributes(attributes, spec, said, was))

    def new_array(self, wish: ArraySpec) -> ArraySpec:
        """A user's wish in this profile's spelling. What its codecs cannot do to such cells is Invalid now."""
        dtype = as_row(wish.dtype)
        widths = wished_widths(wish.evolve(dtype=dtype)) if isinstance(dtype, np.dtype) else {}
        step = step_for(dtype, widths)
        bare = wish.evolve(attrs={}, codecs=tuple(codec for codec in wish.codecs if codec.name not in OURS))
        if step is None:
            return self._again(new_array(bare).evolve(attrs=wish.attrs), wish)
        plain = packed_row(dtype, widths) if isinstance(dtype, np.dtype) else VlenString()
        fill = _text_of(wish.fill_value, dtype) if isinstance(plain, VlenString) else None
        if is_object(dtype):
            refuse_fill(wish.fill_value, dtype)
        found = new_array(bare.evolve(dtype=plain, fill_value=fill, codecs=_of_text(bare.codecs, plain)))
        whole = with_step(found.codecs, step)
        again = found.evolve(dtype=dtype, codecs=whole, fill_value=_cell_of(found.fill_value, dtype), attrs=wish.attrs)
        made = self._again(again, wish)
        try_chain(made)
        return made

    def _again(self, spec: ArraySpec, wish: ArraySpec) -> ArraySpec:
        """The array as it reads when it has been written."""
        said = {V3.dtype: None} if wish.layout.get(OWN, {}).get(V3.dtype, "") is None else {}
        found = self.parse(self.render(spec.evolve(layout={**spec.layout, OWN: said})), "")
        if not isinstance(found, ArraySpec):
            raise TypeError("no array")
        return found.evolve(layout={**found.layout, OWN: {**found.layout[OWN], **said}})

    def specification(self) -> ArraySpec:
        """The array that one source of a specification stands in."""
        wish = ArraySpec(shape=(), dtype=VlenString(), chunks=(), layout={OWN: {V3.dtype: None}, "checksum": False})
        return self.new_array(wish)


# -- from documents -----------------------------------------------------------------------------------------------


def _read_array(
    doc: Mapping[str, Any], stored: Mapping[str, Any], is_specification: bool, problems: Problems
) -> ArraySpec:
    own, rest = split(stored)
    word = own.pop(V3.dtype, None)
    said: dict[str, Any] = {} if word is None else {V3.dtype: word}
    named = {name: own.pop(name) for name in (REFERENCE_FIELDS, REGION_FIELDS) if name in own}
    said |= named | ({"unread": own} if own else {})
    dims = rest.pop(DIMENSIONS, None)
    attributes = rest if isinstance(doc.get("attributes", {}), dict) else doc["attributes"]
    spec = document.read({**doc, "attributes": attributes}, problems)
    if not isinstance(spec, ArraySpec):
        raise TypeError("no array")
    if found := steps_in(spec.codecs):
        problems.undecodable("unknown-codec", f"codec {found[0].name!r} is not known")
        return spec.evolve(problem=problems.undecodable_reason, layout={**spec.layout, OWN: said})
    _check_specification(spec, is_specification, problems)
    spec = _with_dims(spec, doc, dims, said, problems)
    if is_specification and word is None:
        said[V3.dtype] = None
    whole = _as_read(spec, word, named, rest, problems)
    _check_word(word, whole, is_specification, problems)
    return whole.evolve(problem=problems.undecodable_reason, layout={**spec.layout, OWN: said})


def _with_dims(
    spec: ArraySpec, doc: Mapping[str, Any], dims: Any, said: dict[str, Any], problems: Problems
) -> ArraySpec:
    """The array with the names of its dimensions, taken from the attribute where Zarr's own words have none."""
    if dims is None:
        return spec
    fits = (
        isinstance(dims, list) and len(dims) == len(spec.shape) and all(isinstance(name, str | None) for name in dims)
    )
    if not fits:
        problems.warn(
            "dimensions", f"{DIMENSIONS} is {brief(dims)}, which names no {len(spec.shape)} dimensions; ignored"
        )
        return spec.evolve(attrs={**spec.attrs, DIMENSIONS: dims})
    if doc.get("dimension_names") is None:
        said["dimensions"] = dims
        return spec.evolve(dims=tuple(dims))
    if list(spec.dims) != dims:
        problems.warn("dimensions", f"{DIMENSIONS} is {brief(dims)}, but dimension_names says otherwise, and counts")
    return spec


def _as_read(
    spec: ArraySpec, word: Any, named: Mapping[str, Any], rest: Mapping[str, Any], problems: Problems
) -> ArraySpec:
    """The array as its reserved attributes have it: references, rows of any length, bytes."""
    fields = [_names(named.get(name), name, problems) for name in (REFERENCE_FIELDS, REGION_FIELDS)]
    if isinstance(spec.dtype, VlenString):
        mark = rest.get(MARK)
        of_bytes = isinstance(mark, dict) and mark.get("dtype") == _OF_BYTES
        kind = _REFERENCES.get(word) if isinstance(word, str) else None
        if kind is None and not of_bytes:
            return spec
        dtype = VlenBytes() if kind is None else kind
        if kind is not None and spec.fill_value not in (None, ""):
            problems.warn("fill_value", "the fill value of references is not empty; those never written are none")
        step = Codec(BYTES if kind is None else REFERENCES)
        fill = _cell_of(spec.fill_value, dtype)
        return spec.evolve(dtype=dtype, codecs=with_step(spec.codecs, step), fill_value=fill)
    row = row_of(spec.dtype, *fields)
    found = {} if row is None else dict(tagged_fields(row))
    for name in fields[0] + fields[1]:
        if not isinstance(found.get(name), ObjectRef | RegionRef):
            problems.warn("reference-fields", f"there is no field {name!r} of text that could hold references; ignored")
    if row is None or not isinstance(spec.dtype, np.dtype):
        return spec
    if spec.fill_value is not None and any(spec.fill_value.tobytes()):
        problems.warn("fill_value", "the fill value of rows is not empty; those never written are rows of zeros")
    step = Codec(ROWS, {"widths": widths_of(row, spec.dtype)})
    return spec.evolve(dtype=row, codecs=with_step(spec.codecs, step), fill_value=None)


def _names(said: Any, word: str, problems: Problems) -> list[str]:
    if said is None:
        return []
    if isinstance(said, list) and all(isinstance(name, str) for name in said):
        return said
    problems.warn("reference-fields", f"{word} is {brief(said)}, not a list of names; ignored")
    return []


def _check_specification(spec: ArraySpec, is_specification: bool, problems: Problems) -> None:
    serial = [codec.name for codec in spec.codecs if codec.name in SERIAL]
    text = isinstance(spec.dtype, VlenString | VlenBytes)
    if is_specification and text and not SPECIFICATION_CODECS.issuperset(serial):
        problems.undecodable(
            "specification", "a specification is stored with codec json2, vlen-utf8 or vlen-bytes alone"
        )


def _check_word(word: Any, spec: ArraySpec, is_specification: bool, problems: Problems) -> None:
    """Note what ``_DTYPE`` says that is not so: the cells are as Zarr's own words have them."""
    if word is None:
        if not is_specification and word_of(spec.dtype, "v3") is not None:
            problems.warn("_DTYPE", f"_DTYPE is missing; {word_of(spec.dtype, 'v3')} is assumed")
    elif not is_known(word):
        problems.warn("_DTYPE", f"_DTYPE is {brief(word)}, which is not known; ignored")
    elif word in (OBJECTS["v3"], REGIONS["v3"]) and not is_object(spec.dtype):
        problems.warn("_DTYPE", f"_DTYPE is {word!r}, but the cells are no references; ignored")


# -- to documents -------------------------------------------------------------------------------------------------


def _was(old: Mapping[str, Any], said: Mapping[str, Any]) -> ArraySpec | None:
    """The array without attributes as its document said."""
    if not old:
        return None
    stored = {name: said[name] for name in (V3.dtype, REFERENCE_FIELDS, REGION_FIELDS) if said.get(name) is not None}
    return _as_it_was(old, stored)


_as_it_was = BoundedMemo(lambda old, stored: _read_array(old, stored, False, Problems("")))


def _attributes(
    stored: Mapping[str, Any], spec: ArraySpec, said: Mapping[str, Any], was: ArraySpec | None
) -> dict[str, Any]:
    """The attributes with those of this profile."""
    attributes: dict[str, Any] = dict(said.get("unread", {}))
    same = was is not None and same_type(was.dtype, spec.dtype)
    word = said[V3.dtype] if V3.dtype in said and (same or said[V3.dtype] is None) else word_of(spec.dtype, "v3")
    if isinstance(spec.dtype, VlenBytes) and word is None:
        word = word_of(spec.dtype, "v3")
    attributes |= {} if word is None else {V3.dtype: word}
    if same:
        attributes |= {name: said[name] for name in (REFERENCE_FIELDS, REGION_FIELDS) if name in said}
    elif isinstance(spec.dtype, np.dtype):
        for word, kind in ((REFERENCE_FIELDS, ObjectRef), (REGION_FIELDS, RegionRef)):
            if names := [name for name, found in tagged_fields(spec.dtype) if isinstance(found, kind)]:
                attributes[word] = names
    if any(name is not None for name in spec.dims):
        attributes[DIMENSIONS] = list(spec.dims)
    attributes = {**stored, **attributes}
    return marked(attributes, dtype=_OF_BYTES) if isinstance(spec.dtype, VlenBytes) else attributes


# -- new arrays ---------------------------------------------------------------------------------------------------


def _text_of(fill: Any, dtype: DataType) -> str:
    """The fill value of cells that are stored as text; Invalid for bytes that are none."""
    if fill is None or not isinstance(dtype, VlenBytes):
        return ""
    try:
        return bytes(fill).decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"profile v3 of format hdmf stores bytes as text; the fill value is none: {error}") from None


def _cell_of(fill: Any, dtype: DataType) -> Any:
    """The fill value of cells by that of the text that is stored."""
    return (fill or "").encode() if isinstance(dtype, VlenBytes) else None


def _of_text(codecs: tuple[Codec, ...], plain: DataType) -> tuple[Codec, ...]:
    """The chain for cells that are stored as text."""
    if not isinstance(plain, VlenString):
        return codecs
    return tuple(Codec("vlen-utf8") if codec.name == "vlen-bytes" else codec for codec in codecs)
