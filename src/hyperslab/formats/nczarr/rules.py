"""Damage of NCZarr datasets: what netcdf-c and others wrote otherwise than they meant, and what mends it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import prod

from hyperslab.chunks.auto import longest_chunk
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.documents import JsonObject, is_text_list, mend_json, text_or_none
from hyperslab.formats.format_errors import shorten
from hyperslab.formats.nczarr.cells import FILL_DOUBLE, SIX_DIGITS, with_item_size
from hyperslab.formats.nczarr.dimensions import (
    SCALAR,
    XARRAY,
    are_names,
    find_dimension,
    is_anonymous,
    qualified,
    short_names,
    split_qualified,
)
from hyperslab.formats.nczarr.document_survey import NCZarrSurvey
from hyperslab.formats.nczarr.generation import ARRAY, GROUP, SUPERBLOCK, TYPES, Generation
from hyperslab.formats.nczarr.own_metadata import (
    own_metadata,
    read_references,
    with_dimensions,
    with_own_metadata,
    with_references,
    with_shape,
)
from hyperslab.formats.nczarr.user_types import dtype_in_bytes, same_type
from hyperslab.formats.rules import Finding, Rule, Rules, Subject
from hyperslab.formats.zarr.commit import DocumentChange
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr.rules import chunk_keys, document_finding, warning_finding
from hyperslab.formats.zarr2.document import ZARRAY, ZATTRS, ZGROUP, number_of_text
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Compound, Opaque, numpy_dtype
from hyperslab.model.paths import child, outward, split
from hyperslab.model.spec import ArraySpec

# -- dimensions --------------------------------------------------------------------------------------------------------
# They lead nowhere, or have another length than the arrays on them. The shape of an array is always right: somebody
# resized it who does not know of dimensions.


@dataclass(frozen=True, slots=True)
class AxisUse:
    """An axis of an array on a dimension."""

    path: str
    axis: int
    size: int


@dataclass
class NewDimensions:
    """Dimensions that are to be declared, by group, for the arrays that are to be on them."""

    survey: NCZarrSurvey
    dims: dict[str, dict[str, Dimension]] = field(default_factory=dict)

    def known(self, fqn: str) -> Dimension | None:
        """Return the dimension that is declared, or will be."""
        group, name = split_qualified(fqn)
        return self.dims.get(group, {}).get(name) or find_dimension(fqn, self.survey.context)

    def take(self, name: str, size: int, node: str) -> str:
        """Return the qualified name for an axis: the nearest dimension of this name that fits, else one that is
        made."""
        home = "" if is_anonymous(name, size) else split(node)[0]
        for group in outward(split(node)[0]):
            found = self.known(qualified(group, name))
            if found is not None and (found.size == size or found.unlimited):
                return qualified(group, name)
        # another dimension has the name: the length tells them apart
        while self.known(qualified(home, name)) is not None:
            name = f"{name}_{size}"
        self.dims.setdefault(home, {})[name] = Dimension(name, size)
        return qualified(home, name)

    def docs(self) -> dict[str, Docs]:
        """Return the documents of the groups."""
        survey = self.survey
        return {
            group: with_dimensions(survey.docs(group), survey.generation, dims.values())
            for group, dims in self.dims.items()
        }


def find_dimension_damage(survey: NCZarrSurvey) -> Iterator[Finding]:
    """Yield arrays whose references cannot be followed, then dimensions of another length than their arrays."""
    if survey.generation is Generation.PURE:
        return
    uses: dict[str, list[AxisUse]] = {}
    for path, spec in survey.arrays:
        references = read_references(survey.docs(path), survey.generation)
        names = references if are_names(references, len(spec.shape)) else None
        if names is None:
            yield from _lost(survey, path, spec, references)
            continue
        lost = [name for name in names if find_dimension(name, survey.context) is None]
        if lost:
            message = f"no group declares the dimension {', '.join(map(repr, dict.fromkeys(lost)))}"
            action = "name the nearest that fits, or declare it"
            change = partial(_write_references, survey, path, spec, names, None)
            yield document_finding(Problem(path, "undeclared-dimension", message), "", action, change)
        for axis, (name, size) in enumerate(zip(names, spec.shape, strict=True)):
            uses.setdefault(name, []).append(AxisUse(path, axis, size))
    for fqn, several in uses.items():
        dim = find_dimension(fqn, survey.context)
        if dim is not None:
            yield from _length_damage(survey, fqn, dim, several)


# -- references -------------------------------------------------------------------------------------------------------


def _lost(survey: NCZarrSurvey, path: str, spec: ArraySpec, references: object) -> Iterator[Finding]:
    """Yield an array that somebody wrote or rewrote who does not know NCZarr."""
    if references is None and not spec.shape and survey.generation is Generation.DRAFT:
        return
    names = [split_qualified(fqn)[1] for fqn in spec.layout["dimensions"]]
    message = f"the dimensions are {shorten(references)}, the shape is {list(spec.shape)}"
    typedef, type_said = None, ""
    if references is None:
        made_up = all(is_anonymous(name, size) for name, size in zip(names, spec.shape, strict=True))
        source = "no name that was given" if names and made_up else "_ARRAY_DIMENSIONS"
        message = f"has no references to dimensions: it is on {names}, by {source}"
        typedef, type_said = _typedef(survey, path, spec)
    action = f"write the references{type_said}, declare what is missing"
    change = partial(_write_references, survey, path, spec, names, typedef)
    yield document_finding(Problem(path, "lost-references", message), "", action, change)


def _write_references(
    survey: NCZarrSurvey, path: str, spec: ArraySpec, names: Sequence[str], typedef: str | None
) -> DocumentChange:
    """Return references of an array: those that are sound as they are, the others by their names."""
    wanted, found = NewDimensions(survey), []
    for name, size in zip(names, spec.shape, strict=True):
        is_sound = name.startswith("/") and wanted.known(name) is not None
        found.append(name if is_sound else wanted.take(split_qualified(name)[1], size, path))
    docs, generation = survey.docs(path), survey.generation
    # all documents anew where NCZarr's own are not there
    if read_references(docs, generation) is None and not generation.is_older:
        layout = {**spec.layout, "dimensions": tuple(found), "typedef": typedef or spec.layout.get("typedef")}
        docs = survey.rendered(path, spec.evolve(layout=layout)) or docs
    docs = with_references(docs, generation, found)
    if typedef is not None:
        docs = docs | {ZARRAY: {**docs[ZARRAY], "typedef": typedef}}
    return DocumentChange({**wanted.docs(), path: docs})


def _typedef(survey: NCZarrSurvey, path: str, spec: ArraySpec) -> tuple[str | None, str]:
    """Return the one type with cells like those of an array that lost the name of its type, and what is said of it."""
    plain = isinstance(spec.dtype, Opaque) or numpy_dtype(spec.dtype).names is not None
    if survey.generation is not Generation.DRAFT or spec.layout.get("typedef") or not plain:
        return None, ""
    found = []
    for group in outward(split(path)[0]):
        declaring = survey.context.group(group)
        for name, kind in ({} if declaring is None else declaring.types).items():
            match kind, spec.dtype:
                case Opaque(), Opaque():
                    is_like = kind.size == spec.dtype.size
                case Compound(), _:
                    is_like = same_type(numpy_dtype(kind), numpy_dtype(spec.dtype))
                case _:
                    is_like = False
            found += [qualified(group, name)] if is_like else []
    return (found[0], f" and the typedef {found[0]}") if len(found) == 1 else (None, "")


# -- lengths ----------------------------------------------------------------------------------------------------------


def _length_damage(survey: NCZarrSurvey, fqn: str, dim: Dimension, uses: Sequence[AxisUse]) -> Iterator[Finding]:
    """Yield a dimension of another length than its arrays."""
    sizes = {use.size for use in uses}
    others = [use for use in uses if use.size != dim.size]
    if not others:
        return
    if dim.unlimited or len(sizes) == 1:
        lengths = ", ".join(dict.fromkeys(f"/{use.path} is {use.size} long" for use in others))
        message = f"the dimension {fqn} has the length {dim.size}, {lengths}"
        action = f"make it {max(sizes)} long{', and every array on it' if dim.unlimited else ''}"
        change = partial(_lengthen_all, survey, fqn, replace(dim, size=max(sizes)), uses)
        yield document_finding(Problem(split_qualified(fqn)[0], "dimension-size", message), fqn, action, change)
        return
    paths = {use.path for use in others}
    yield from (_own_dimension(survey, fqn, dim, path, spec) for path, spec in survey.arrays if path in paths)


def _lengthen_all(survey: NCZarrSurvey, fqn: str, dim: Dimension, uses: Sequence[AxisUse]) -> DocumentChange:
    """Make all arrays as long as the dimension, then the dimension."""
    changed: dict[str, Docs] = {}
    arrays = dict(survey.arrays)
    places: dict[str, set[int]] = {}
    for use in uses:
        places.setdefault(use.path, set()).add(use.axis)
    for path, axes in places.items():
        spec = arrays[path]
        shape = tuple(dim.size if axis in axes else size for axis, size in enumerate(spec.shape))
        if shape != spec.shape:
            rows = [min(row, size) for row, size in zip(spec.layout.get("written") or spec.shape, shape, strict=True)]
            changed[path] = with_shape(survey.docs(path), survey.generation, shape, rows)
    group = split_qualified(fqn)[0]
    return DocumentChange(changed | {group: with_dimensions(survey.docs(group), survey.generation, [dim])})


def _own_dimension(survey: NCZarrSurvey, fqn: str, dim: Dimension, path: str, spec: ArraySpec) -> Finding:
    """Return the damage of an array that alone has another length: it gets a dimension of its own."""
    names = read_references(survey.docs(path), survey.generation)
    sizes = [size for name, size in zip(names, spec.shape, strict=True) if name == fqn and size != dim.size]
    message = f"the array is {' and '.join(map(str, sizes))} long on the dimension {fqn} of length {dim.size}"

    def change() -> DocumentChange:
        wanted = NewDimensions(survey)
        found = [
            wanted.take(f"{dim.name}_{size}", size, path) if name == fqn and size != dim.size else name
            for name, size in zip(names, spec.shape, strict=True)
        ]
        return DocumentChange({**wanted.docs(), path: with_references(survey.docs(path), survey.generation, found)})

    action = f"put it on a dimension {', '.join(f'{dim.name}_{size}' for size in sizes)} of its own"
    return document_finding(Problem(path, "dimension-size", message), fqn, action, change)


_ELSEWHERE = frozenset({"dimensions", "dimension-size"})
_BITS = {"<i8": "|i1", ">i8": "|i1", "<u8": "|u1", ">u8": "|u1"}
"""Types of the draft's table, which counts bits, that NumPy knows as others."""
_CHUNK_KINDS = frozenset({"truncated-chunk", "other-cells"})
_MOST_UNPACKED = 16
Patch = Callable[[JsonObject], JsonObject]


def node_damage(survey: NCZarrSurvey, path: str) -> Iterator[Finding]:
    """Yield what is wrong with the documents of one node, but for names of dimensions."""
    spec = survey.spec(path)
    if spec is None:
        return
    # Not by the rule of all documents, which writes the JSON that is meant: here the values of attributes are text, and
    # keep the characters that it is spelled with.
    place = child(path, ZATTRS)
    data = survey.store.get(place)
    _, mended = (None, []) if data is None else mend_json(data)
    if mended:
        problem = Problem(path, "json-mended", f"the document is no JSON: {', '.join(mended)} [key={place}]")
        explains = frozenset({"json-mended"})
        change = _patch_document(survey, path, lambda attributes: attributes, ZATTRS)
        yield document_finding(problem, "", "write it as JSON", change, key=place, explains=explains)
    has_references = survey.generation is not Generation.PURE
    for number, problem in enumerate(survey.problems(path)):
        if not (has_references and problem.kind in _ELSEWHERE):
            yield _warning_damage(survey, path, problem, str(number))
    if spec.is_array:
        doc = survey.docs(path)[ZARRAY]
        if with_numbers(doc) != doc:  # as netcdf-c 4.9.3 writes them; readers of Zarr refuse them
            problem = Problem(path, "codec-text", "numbers of codecs are stored as text")
            yield document_finding(problem, "", "write them as numbers", _patch_document(survey, path, with_numbers))
        yield from _array_dimensions_damage(survey, path, spec)
        if survey.generation is Generation.DRAFT:
            yield from _bits_for_bytes(survey, path, spec)


def _patch_document(survey: NCZarrSurvey, path: str, patch: Patch, name: str = ZARRAY) -> Callable[[], DocumentChange]:
    def change() -> DocumentChange:
        docs = survey.docs(path)
        return DocumentChange({path: docs | {name: patch(docs[name])}})

    return change


def _warning_damage(survey: NCZarrSurvey, path: str, problem: Problem, about: str) -> Finding:
    """Return a problem that is survived while reading, with the change that writes what was meant."""
    docs, kind = survey.docs(path), problem.kind
    doc = docs.get(ZARRAY, {})
    if kind == "elementsize":
        spec = survey.spec(path)
        codecs = spec.codecs if spec is not None and spec.is_array else ()
        size = next(int(codec.config["elementsize"]) for codec in codecs if "elementsize" in codec.config)
        change = _patch_document(survey, path, partial(with_item_size, size=size))
        return document_finding(problem, kind, f"write the elementsize {size}", change)
    if kind == "byte-order":
        right = f"<{str(doc['dtype'])[1:]}"
        return document_finding(
            problem, kind, f"write the dtype {right}, which the cells have", _set_member(survey, path, "dtype", right)
        )
    if kind == "bit-count dtype":
        right = str(dtype_in_bytes(doc["dtype"]))
        return document_finding(problem, kind, f"write the dtype {right}", _set_member(survey, path, "dtype", right))
    if kind == "fill_value":
        six_digits = doc.get("fill_value") == SIX_DIGITS
        attribute = docs.get(ZATTRS, {}).get(FILL_VALUE) if doc.get("fill_value") is None else None
        fill = FILL_DOUBLE if six_digits else attribute
        if fill is not None:
            return document_finding(
                problem, kind, f"write the fill value {fill}", _set_member(survey, path, "fill_value", fill)
            )
    if kind == "dimensions" and XARRAY in docs.get(ZATTRS, {}):
        without = _patch_document(survey, path, lambda doc: {name: doc[name] for name in doc if name != XARRAY}, ZATTRS)
        return document_finding(problem, kind, f"remove {XARRAY}", without)
    return warning_finding(survey, path, problem, about)


def _set_member(survey: NCZarrSurvey, path: str, name: str, value: object) -> Callable[[], DocumentChange]:
    return _patch_document(survey, path, lambda doc: {**doc, name: value})


def with_numbers(doc: JsonObject) -> JsonObject:
    """Return the ``.zarray`` with numbers of codecs that are numbers."""

    def read(content: object) -> object:
        if not isinstance(content, dict):
            return content
        return {name: value if name == "id" else number_of_text(value) for name, value in content.items()}

    filters = doc.get("filters")
    several = list(map(read, filters)) if isinstance(filters, list) else filters
    changed = {"filters": several, "compressor": read(doc.get("compressor"))}
    return {name: changed.get(name, value) for name, value in doc.items()}


def _array_dimensions_damage(survey: NCZarrSurvey, path: str, spec: ArraySpec) -> Iterator[Finding]:
    """Yield ``_ARRAY_DIMENSIONS``, which readers of Zarr go by, against the references."""
    docs = survey.docs(path)
    plain, names = docs.get(ZATTRS, {}).get(XARRAY), read_references(docs, survey.generation)
    if plain is None or not is_text_list(names) or len(names) != len(spec.shape):
        return
    if any(find_dimension(name, survey.context) is None for name in names):
        return
    if plain != list(short_names(names)) and not (not names and plain in ([], [SCALAR])):
        message = f"{XARRAY} is {shorten(plain)}, the dimensions are {shorten(names)}"
        yield document_finding(
            Problem(path, "xarray-dimensions", message),
            "",
            f"write the names of the dimensions as {XARRAY}",
            lambda: DocumentChange({path: with_references(docs, survey.generation, names)}),
        )


def _bits_for_bytes(survey: NCZarrSurvey, path: str, spec: ArraySpec) -> Iterator[Finding]:
    """Yield ``<i8`` that counts bits: chunks that hold as many bytes as they have cells."""
    doc = survey.docs(path)[ZARRAY]
    dtype, cut = doc.get("dtype"), doc.get("chunks")
    right = _BITS.get(text_or_none(dtype) or "")
    if right is not None and isinstance(cut, list) and _content_sizes(survey, path, spec) == {prod(cut)}:
        message = f"dtype {dtype!r} counts bits, for chunks of {prod(cut)} cells have as many bytes; {right!r} is meant"
        problem = Problem(path, "bit-count dtype", message)
        change = _set_member(survey, path, "dtype", right)
        yield document_finding(problem, "", f"write the dtype {right}", change, key=path, explains=_CHUNK_KINDS)


def _content_sizes(survey: NCZarrSurvey, path: str, spec: ArraySpec) -> set[int | None]:
    """Return how many bytes stored chunks hold: of packed ones the first alone are unpacked; None where one cannot
    be."""
    store, keys = survey.store, chunk_keys(survey.store, path)
    if not spec.codecs:
        return {store.size(place) for place in keys}
    sizes: set[int | None] = set()
    for place in islice(keys, _MOST_UNPACKED):
        try:
            chain = build_chain(spec.codecs, ChunkLayout(spec.dtype, longest_chunk(spec.chunks), spec.fill_value))
            sizes.add(len(chain.unpack(store.get(place) or b"")))
        except HyperslabError:
            sizes.add(None)
    return sizes


# -- lists of groups, chunks that a rename left behind, marks of two generations --------------------------------------


_OWN = frozenset({SUPERBLOCK, GROUP, ARRAY, TYPES})
_MARKS = {Generation.V1: (".zdataset",), Generation.DRAFT: ()}
_LISTS = ("arrays", "groups")
_LISTED = frozenset({Generation.V1, Generation.V2A, Generation.V2B, Generation.V2C})


def mixed_generation_damage(survey: NCZarrSurvey) -> Iterator[Finding]:
    """Yield marks of other generations than the one that counts."""
    generation = survey.generation
    if generation is Generation.PURE:
        return

    def mixed(marks: str) -> Problem:
        message = f"{marks}: a mark of another generation than {generation}, which counts"
        return Problem("", "mixed-marks", message)

    names = survey.store.list_dir("")[0]
    for name in _MARKS.get(generation, (".nczarr", ".zdataset")):
        if name in names:
            yield document_finding(mixed(name), name, "take it out", key=name, take=name)
    group = survey.docs("").get(ZGROUP, {})
    if generation is Generation.V2C:
        strange = [name for name in group if name.lower() in _OWN]
    else:
        strange = [SUPERBLOCK.upper()] if generation is Generation.V2B and SUPERBLOCK.upper() in group else []
    if strange:
        left = {name: value for name, value in group.items() if name not in strange}
        change = _patch_document(survey, "", lambda doc: left, ZGROUP)
        yield document_finding(mixed(", ".join(strange)), ZGROUP, "take them out of .zgroup", change)


def list_damage(survey: NCZarrSurvey, path: str) -> Iterator[Finding]:
    """Yield what a group lists that is not there, and what is there that it does not list."""
    spec = survey.specs.get(path)
    if spec is None or not spec.is_group or survey.generation not in _LISTED:
        return
    own = own_metadata(survey.docs(path), survey.generation, GROUP) or {}
    lists = [own.get(kind) for kind in _LISTS]
    if not all(is_text_list(names) and all(name and "/" not in name for name in names) for names in lists):
        # somebody made it who does not know NCZarr
        problem = Problem(path, "unlisting-group", "the group does not list what is in it")
        change = partial(_write_lists, survey, path)
        yield document_finding(problem, "", "write the lists of what is in it", change)
        return
    alike: dict[str, list[str]] | None = None
    for problem in survey.dataset.list_mismatches(path):
        name = split(problem.node)[1]
        if problem.kind == "missing":
            change = partial(_change_lists, survey, path, name, None)
            yield document_finding(problem, "", "take it out of the list", change)
            continue
        alike = _by_likeness(survey, path, own["arrays"]) if alike is None else alike
        orphan, there = _orphaned_chunks(survey, problem.node, alike), survey.specs.get(problem.node)
        if orphan is not None or there is None:
            yield orphan or document_finding(problem)
            continue
        kind = "arrays" if there.is_array else "groups"
        yield document_finding(problem, "", "list it", partial(_change_lists, survey, path, name, kind))


def _write_lists(survey: NCZarrSurvey, path: str) -> DocumentChange:
    """Return a group with the lists of what is in it."""
    spec, lists = survey.specs[path], survey.lists(path)
    docs = survey.rendered(path, spec.evolve(layout={**spec.layout, **lists}))
    known = (own_metadata(survey.docs(path), survey.generation, GROUP) or {}).get("dimensions", {})
    own = {"dimensions": known, **lists}
    return DocumentChange({path: docs or with_own_metadata(survey.docs(path), survey.generation, GROUP, own)})


def _change_lists(survey: NCZarrSurvey, path: str, name: str, kind: str | None) -> DocumentChange:
    """Return the group with the name in one list, or in none."""
    own = own_metadata(survey.docs(path), survey.generation, GROUP) or {}
    lists = {}
    for each in _LISTS:
        names = [other for other in own.get(each) or [] if other != name]
        lists[each] = [*names, name] if each == kind else names
    return DocumentChange({path: with_own_metadata(survey.docs(path), survey.generation, GROUP, lists)})


# -- renamed arrays ---------------------------------------------------------------------------------------------------


def _orphaned_chunks(survey: NCZarrSurvey, old: str, alike: Mapping[str, Sequence[str]]) -> Finding | None:
    """Return the damage of an array that netcdf-c renamed, of which it left all but the documents behind."""
    store, likeness = survey.store, _likeness(survey, old)
    left = list(chunk_keys(store, old)) if likeness in alike else []
    # an array is the new one where none of the chunks that were left is another one there
    heirs = [
        path
        for path in alike.get(likeness or "", ())
        if left and all(store.get(path + place[len(old) :]) in (None, store.get(place)) for place in left)
    ]
    if len(heirs) != 1:
        return None
    message = f"/{heirs[0]} was called so before; its chunks were left here, and it reads as its fill value"
    problem = Problem(old, "orphaned-chunks", message)
    change = partial(_move_chunks, survey, old, heirs[0])
    return document_finding(problem, "", f"move the chunks to /{heirs[0]}", change)


def _by_likeness(survey: NCZarrSurvey, group: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the arrays that a group lists, those of like documents together."""
    result: dict[str, list[str]] = {}
    for path in (child(group, name) for name in dict.fromkeys(names)):
        if (likeness := _likeness(survey, path)) is not None:
            result.setdefault(likeness, []).append(path)
    return result


def _likeness(survey: NCZarrSurvey, path: str) -> str | None:
    """Return what an array of netcdf-c keeps when it is renamed; None for other nodes."""
    spec = survey.specs.get(path)
    if spec is None or not spec.is_array:
        return None
    docs = survey.docs(path)
    known = own_metadata(docs, survey.generation, ARRAY)
    return None if known is None else json.dumps([known, docs.get(ZARRAY)], sort_keys=True)


def _move_chunks(survey: NCZarrSurvey, old: str, new: str) -> DocumentChange:
    """Return the move of chunks, one by one: each lies in one place or the other, and a move cut short is taken up
    again."""
    store = survey.store

    def act() -> None:
        store.move([(place, new + place[len(old) :]) for place in chunk_keys(store, old)], durable=True)
        store.delete_prefix(old)

    return DocumentChange({}, gone=(old,), act=act)


# -- the table --------------------------------------------------------------------------------------------------------


RULES = Rules(
    Rule(
        ("dimension-size",),
        "a dimension whose length differs from that of its resized arrays",
        "set to their length (if unlimited, to the longest, and the others grow); arrays of different "
        "lengths each get a dimension of their own",
        Subject.DATASET,
        find_dimension_damage,
    ),
    Rule(
        ("undeclared-dimension", "lost-references"),
        "a dangling or missing reference to a dimension",
        "set by name to the nearest dimension that fits, declaring it if necessary; in the draft the "
        "type is restored too",
        Subject.DATASET,
        find_dimension_damage,
    ),
    Rule(
        ("xarray-dimensions",),
        "`_ARRAY_DIMENSIONS` that contradicts the references or the rank",
        "rewritten",
        Subject.NODE,
        node_damage,
    ),
    Rule(
        ("unlisted", "unlisting-group", "missing"),
        "an array or group that exists but is not listed by its group, or the reverse",
        "the lists are corrected",
        Subject.NODE,
        list_damage,
    ),
    Rule(
        ("orphaned-chunks",),
        "chunks that netcdf-c leaves under the old name of a renamed array",
        "moved to the new name",
        Subject.NODE,
        list_damage,
    ),
    Rule(
        ("elementsize", "codec-text"),
        "a shuffle without the cell size, codec numbers as text",
        "rewritten as numbers",
        Subject.NODE,
        node_damage,
    ),
    Rule(
        ("byte-order",),
        "cells of netcdf-c 4.9.0 to 4.9.2 that are little-endian under a big-endian type",
        "the type is changed to little-endian; no chunk changes",
        Subject.NODE,
        node_damage,
    ),
    Rule(
        ("fill_value",),
        "netCDF's default fill value of doubles with 6 digits",
        "rewritten with all digits",
        Subject.NODE,
        node_damage,
    ),
    Rule(
        ("bit-count dtype",),
        "types of the draft in bits rather than bytes",
        "rewritten in bytes",
        Subject.NODE,
        node_damage,
    ),
    Rule(
        ("mixed-marks",),
        "markers of two generations",
        "those that are ignored are removed",
        Subject.DATASET,
        mixed_generation_damage,
    ),
)
