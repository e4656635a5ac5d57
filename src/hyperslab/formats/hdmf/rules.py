"""Find and mend damage of a dataset's documents, for ``check`` and ``repair``; that of links is in ``link_diagnosis``.

Documents are changed where they are wrong, with consolidated metadata. A mend looks again, under the lock of the root.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from math import prod

import numpy as np

from hyperslab.chunks.auto import longest_chunk
from hyperslab.chunks.settings import Settings
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.pickled import read_pickled
from hyperslab.codecs.references import of_text
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import HyperslabError, Problem, UnsafePickle
from hyperslab.formats.format_errors import shorten
from hyperslab.formats.hdmf.attributes import LAYOUT
from hyperslab.formats.hdmf.cell_types import (
    OBJECT,
    OBJECTS,
    PICKLE,
    REGION,
    check_fill_value,
    describe_object_array,
    is_object_field,
    type_name_of,
)
from hyperslab.formats.hdmf.document_survey import HdmfSurvey, OtherDatasets, Spec
from hyperslab.formats.hdmf.lengths import find_length_damage
from hyperslab.formats.hdmf.link_diagnosis import find_cell_damage, find_link_damage, find_reference_damage
from hyperslab.formats.hdmf.link_sources import Allowed
from hyperslab.formats.hdmf.profile import HdmfProfile, replace_attributes, stored_attributes
from hyperslab.formats.hdmf.reader import is_specification, read_schema, specifications_path
from hyperslab.formats.hdmf.reference_ids import read_object_id
from hyperslab.formats.hdmf.writer import HdmfDocuments
from hyperslab.formats.metadata_json.dtypes import dtype_from_json
from hyperslab.formats.rules import LINKS, Finding, Rule, Rules, Subject
from hyperslab.formats.zarr.commit import DocumentChange
from hyperslab.formats.zarr.reader import ZarrReader
from hyperslab.formats.zarr.rules import chunk_keys, document_finding, make_findings, warning_finding
from hyperslab.formats.zarr2.document import ZARRAY, ZATTRS
from hyperslab.model.dtypes import DataType, ObjectRef, VlenBytes, VlenString, numpy_dtype
from hyperslab.model.paths import child
from hyperslab.model.refs import ObjectReference, path_within
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Store
from hyperslab.stores.location import Location

_TYPES = ("neurodata_type", "data_type")
# Problems of documents that ``link_diagnosis`` reports, entry by entry.
_ELSEWHERE = frozenset({"links"})
_CELL_DAMAGE = frozenset({"other-cells", "unreadable-chunk"})
"""Kinds of problems that a wrong type name makes of chunks: writing the right one mends them, too."""
# hdmf-zarr and hdmf call all integers ``int``, all floats ``float`` and text by many names: none of these words
# contradicts cells of another width.
_ANY_SIZE = {"int": "iu", "uint": "u", "long": "i", "float": "f", "double": "f", "bool": "b", "bool_": "b"}
_TEXTS = frozenset(
    {"str", "str_", "text", "utf", "utf8", "utf-8", "bytes", "bytes_", "string_", "ascii", "isodatetime"}
)


# -- the whole ---------------------------------------------------------------------------------------------------------


def find_root_damage(survey: HdmfSurvey) -> Iterator[Finding]:
    """Find what shows that a writer died: consolidated metadata, the specifications, the root's object_id."""
    root = survey.spec("")
    if root is None:
        return
    yield from _find_missing_consolidated(survey)
    place = specifications_path(root)
    there = survey.spec(place) if place is not None else None
    if place is not None and (there is None or not there.is_group):
        yield document_finding(Problem("", "specloc-missing", f".specloc names /{place}, where no group is"))
    objects = (path for path, spec in survey.specs.items() if _type_of(spec) and not survey.is_specification(path))
    if read_object_id(root) is None and next(objects, None) is not None:
        message = "the root has no object_id: links and references cannot say which dataset they mean"
        yield document_finding(Problem("", "root-object-id", message))


def _find_missing_consolidated(survey: HdmfSurvey) -> Iterator[Finding]:
    """Report missing consolidated metadata: every writer of the format writes it last, and attributes of the root
    first."""
    name = survey.profile.consolidated_name
    try:
        data = survey.store.get(name)
    except HyperslabError:
        return
    consolidated = data is not None and (name not in survey.profile.nodes or b'"consolidated_metadata"' in data)
    if consolidated:
        return
    message = "there is no consolidated metadata"
    if not stored_attributes(survey.docs("")):
        message += ", and the root has no attributes: its writer died, and more may be missing"
    yield document_finding(
        Problem("", "unconsolidated", message), "", "write consolidated metadata", lambda: DocumentChange({})
    )


def find_duplicate_ids(survey: HdmfSurvey) -> Iterator[Finding]:
    """Find object ids that several nodes have."""
    for object_id, paths in survey.ids.items():
        for path in paths[1:]:
            yield document_finding(
                Problem(path, "object-id-twice", f"/{paths[0]} has the object_id {object_id} too"), object_id
            )


def _type_of(spec: Spec) -> object:
    return next((spec.attrs[name] for name in _TYPES if name in spec.attrs), None)


# -- one node ----------------------------------------------------------------------------------------------------------


def find_node_damage(survey: HdmfSurvey, path: str) -> Iterator[Finding]:
    """Find what is wrong with the documents of one node."""
    spec = survey.spec(path)
    if spec is None:
        return
    for number, problem in enumerate(survey.profile.problems(survey.docs(path), path)):
        if problem.kind not in _ELSEWHERE:
            yield _reader_warning(survey, path, problem, str(number))
    if path and _type_of(spec) is not None and read_object_id(spec) is None and not survey.is_specification(path):
        yield document_finding(Problem(path, "object-id", f"a {shorten(_type_of(spec))} without object_id"))
    if spec.is_array:
        yield from _find_type_contradiction(survey, path, spec)
        yield from _find_fill_damage(survey, path, spec)


def _reader_warning(survey: HdmfSurvey, path: str, problem: Problem, about: str) -> Finding:
    """Report what a reader survives, and write the documents as they are understood where that mends it.

    Not by the rule of all documents: type names are told by chunks, and every commit writes consolidated metadata.
    """
    place = child(path, next(name for name in survey.profile.nodes if name in survey.docs(path)))
    located = Problem(problem.node, problem.kind, f"{problem.message} [key={place}]")
    spec = survey.spec(path)
    if problem.kind == survey.profile.dtype_name and spec is not None and spec.is_array:
        if needs_type_name(survey, path, spec) and problem.kind not in stored_attributes(survey.docs(path)):
            return _restore_type_name(survey, path, spec, located, about)
        return _rewrite_type_name(survey, path, spec, located, about)
    return warning_finding(survey, path, located, about)


def _find_type_contradiction(survey: HdmfSurvey, path: str, spec: ArraySpec) -> Iterator[Finding]:
    """Find a ``zarr_dtype`` or ``_DTYPE`` that names another type than the cells have."""
    name = survey.profile.dtype_name
    type_name = spec.layout.get(LAYOUT, {}).get(name)
    if not isinstance(type_name, str) or not contradicts(type_name, spec.dtype):
        return
    meant = type_name_of(spec.dtype, survey.profile.name)
    message = f"{name} is {type_name!r}, but the cells are {meant!r}"
    yield _rewrite_type_name(survey, path, spec, Problem(path, name, message), f"contradiction {type_name}")


def _restore_type_name(survey: HdmfSurvey, path: str, spec: ArraySpec, problem: Problem, about: str) -> Finding:
    """Report a lost type name, and write what the first stored chunk implies; if none is stored, the default."""
    name, type_name = problem.kind, infer_type_name(survey, path, spec)
    if type_name is None:
        is_text = survey.profile.name == "v3" or next(chunk_keys(survey.store, path), None) is None
        return _rewrite_type_name(survey, path, spec, problem, about) if is_text else document_finding(problem, about)

    def change() -> DocumentChange:
        docs = survey.docs(path)
        return DocumentChange({path: replace_attributes(docs, {**stored_attributes(docs), name: type_name})})

    action = f"write the {name} {json.dumps(type_name)}, which the cells have"
    return document_finding(problem, about, action, change, key=path, explains=_CELL_DAMAGE)


def _rewrite_type_name(survey: HdmfSurvey, path: str, spec: ArraySpec, problem: Problem, about: str) -> Finding:
    """Report a wrong type name, and write the one that the profile gives to a new array of such cells."""
    name = survey.profile.dtype_name
    own = {each: value for each, value in spec.layout.get(LAYOUT, {}).items() if each != name}
    bare = spec.evolve(layout={**spec.layout, LAYOUT: own})

    def change() -> DocumentChange:
        docs = survey.docs(path)
        attributes = {each: value for each, value in stored_attributes(docs).items() if each != name}
        rendered = stored_attributes(survey.profile.render(bare))
        if name in rendered:
            attributes[name] = rendered[name]
        return DocumentChange({path: replace_attributes(docs, attributes)})

    return document_finding(problem, about, f"write the {name} that the cells have", change)


def contradicts(type_name: str, dtype: DataType) -> bool:
    """Return True if the word for a type speaks of other cells than there are; Zarr's own type counts."""
    is_text = isinstance(dtype, VlenString | VlenBytes) or (isinstance(dtype, np.dtype) and dtype.kind in "SU")
    if type_name in _TEXTS:
        return not is_text
    if type_name in _ANY_SIZE:
        return is_text or numpy_dtype(dtype).kind not in _ANY_SIZE[type_name]
    try:
        other = dtype_from_json(np.dtype(type_name).str if type_name.isidentifier() else type_name)
    except TypeError:
        return False
    if other.kind not in "biufc":
        return False
    return is_text or numpy_dtype(dtype).newbyteorder("=") != other.newbyteorder("=")


def _find_fill_damage(survey: HdmfSurvey, path: str, spec: ArraySpec) -> Iterator[Finding]:
    """Find a fill value of rows that cannot be decoded; that happens only when their cells are touched."""
    try:
        check_fill_value(spec)
        return
    except HyperslabError as error:
        kind = "unsafe-pickle" if isinstance(error, UnsafePickle) else "fill_value"
        problem = Problem(path, kind, f"fill_value: {error.message} [key={child(path, ZARRAY)}]")

    def change() -> DocumentChange:
        docs = survey.docs(path)
        zero = {"fill_value": describe_object_array(spec)["fill_value"]}
        return DocumentChange({path: {ZATTRS: docs.get(ZATTRS, {}), ZARRAY: docs[ZARRAY] | zero}})

    yield document_finding(problem, "fill", "write the fill value of rows that were never written", change)


# -- specifications ----------------------------------------------------------------------------------------------------


def find_schema_damage(survey: HdmfSurvey, path: str) -> Iterator[Finding]:
    """Find a schema that is no JSON. One under other codecs than those of text is a problem of its documents."""
    spec = survey.spec(path)
    if spec is None or not spec.is_array or spec.problem or not is_specification(path, survey.specifications):
        return
    try:
        read_schema(survey.documents, path)
    except HyperslabError as error:
        yield document_finding(Problem(path, "specification", f"the schema cannot be read: {error.message}"), "text")


# -- lost type names: Zarr v2 says ``|O`` of text and of references, v3 stores both as text; the first chunk tells ----


def infer_type_name(survey: HdmfSurvey, path: str, spec: ArraySpec) -> object:
    """Infer the lost ``zarr_dtype`` or ``_DTYPE`` from the first stored chunk; None where it tells nothing."""
    try:
        if survey.profile.name == "v3":
            return _infer_text_type(survey, path, spec)
        return _infer_object_type(survey, path, spec)
    except (HyperslabError, ValueError, RecursionError):
        return None


def needs_type_name(survey: HdmfSurvey, path: str, spec: ArraySpec) -> bool:
    """Return True if only that name tells the type of the cells."""
    if survey.profile.name == "v3":
        return isinstance(spec.dtype, VlenString)
    doc = survey.docs(path)[ZARRAY]
    dtype = doc.get("dtype")
    fields = dtype if isinstance(dtype, list) else [[None, dtype]]
    match doc.get("filters"):
        case [{"id": "json2" | "pickle"}, *_]:
            return any(map(is_object_field, fields))
    return False


def _infer_object_type(survey: HdmfSurvey, path: str, spec: ArraySpec) -> object:
    fields = survey.docs(path)[ZARRAY]["dtype"]
    is_row = isinstance(fields, list)
    columns = _first_chunk_columns(survey, path, spec, len(fields) if is_row else 1)
    if columns is None:
        return None
    if not is_row:
        return _common_type_name(columns[0])
    pairs = zip(fields, columns, strict=True)
    type_names = [_common_type_name(column) if is_object_field(field) else str(field[1]) for field, column in pairs]
    if None in type_names:
        return None
    words = ["str_" if type_name == "str" else type_name for type_name in type_names]
    return [{"name": field[0], "dtype": word} for field, word in zip(fields, words, strict=True)]


def _common_type_name(values: Sequence[object]) -> str | None:
    """Return the type name that all values of JSON or of a pickle share; unwritten ones say nothing."""
    found = {_type_name_of_value(value) for value in values if value is False or value not in (None, 0)}
    return found.pop() if len(found) == 1 else None


def _type_name_of_value(value: object) -> str | None:
    match value:
        case str():
            return "str"
        case ObjectReference():
            return OBJECT
        case {"path": str(), "region": region} if region is not None:
            return REGION
        case {"path": str()}:
            return OBJECT
    return None


def _first_chunk_columns(survey: HdmfSurvey, path: str, spec: ArraySpec, count: int) -> list[list[object]] | None:
    """Return the plain values of the first stored chunk, by field."""
    keys = sorted(chunk_keys(survey.store, path))
    data = next((found for key in keys if (found := survey.store.get(key)) is not None), None)
    if data is None:
        return None
    shape = longest_chunk(spec.chunks)
    raw = bytes(build_chain(spec.codecs, ChunkLayout(spec.dtype, shape, spec.fill_value)).unpack(data))
    if any(codec.name == PICKLE for codec in spec.codecs):
        return list(map(list, read_pickled(raw, prod(shape) * count).columns))
    items = json.loads(raw)[:-2]
    for _ in shape[1:]:
        items = [cell for item in items for cell in item]
    if count == 1:
        return [items]
    rows = [item for item in items if isinstance(item, list) and len(item) == count]
    return [list(column) for column in zip(*rows, strict=True)] or None


def _infer_text_type(survey: HdmfSurvey, path: str, spec: ArraySpec) -> str | None:
    """Return the name of references where each text of the first chunk is one and leads to a node of the dataset."""
    source = survey.documents.chunks_as(path, spec)
    block = next((found for coords in source.grid if (found := source.read(coords)) is not None), None)
    texts = [] if block is None else [text for text in block.reshape(-1).tolist() if text]
    if not texts:
        return None
    for text in texts:
        reference = of_text(text, ObjectRef())
        if not isinstance(reference, ObjectReference) or survey.find(path_within(reference), []) is None:
            return "str"
    return OBJECTS["v3"]


# -- lost attributes: profile v2 keeps them, with the links, in a file of their own; no writer removes that alone ------


def find_lost_attributes(survey: HdmfSurvey, path: str) -> Iterator[Finding]:
    """Find attributes of one node that only consolidated metadata still has."""
    consolidated = survey.consolidated.get(path, {}).get(ZATTRS)
    place = child(path, ZATTRS)
    try:
        if not consolidated or survey.store.get(place) is not None:
            return
    except HyperslabError:
        return
    names = ", ".join(map(repr, consolidated))
    message = f"consolidated metadata has attributes of this node that are gone from it: {names} [key={place}]"

    def change() -> DocumentChange:
        return DocumentChange({path: {**survey.docs(path), ZATTRS: consolidated}})

    action = "take the attributes from consolidated metadata"
    yield document_finding(Problem(path, "lost-attributes", message), "", action, change, part=LINKS)


# -- the table --------------------------------------------------------------------------------------------------------


def _of_pointers(*names: str) -> tuple[str, ...]:
    """Return the kinds of problems that both links and references have."""
    return tuple(f"{pointer}-{name}" for name in names for pointer in ("link", "reference"))


_IDENTITY = "nodes without an object id, or with that of another node"
_REGION_OUTSIDE = "a region of a group, or beyond the bounds of a shrunken array"
_SCHEMAS = "schemas that cannot be read, or are not where the root says they are"
_NEVER = "not repairable"

RULES = Rules(
    Rule(
        _of_pointers("absolute", "source"),
        "a source that is absolute, or not relative to the root, so that the dataset cannot be moved, "
        "or some readers do not find the target",
        "rewritten as relative, unless it is ambiguous",
        Subject.NODE,
        find_link_damage,
    ),
    Rule(
        _of_pointers("moved"),
        "nothing at the path; the target was found elsewhere by its `object_id`",
        "the new path is written; references in cells are left as they are",
        Subject.NODE,
        find_link_damage,
    ),
    Rule(
        _of_pointers("dangling", "no-dataset", "loop"),
        "nothing at the path; a cycle of links",
        "`--drop-links` removes the link",
        Subject.NODE,
        find_link_damage,
    ),
    Rule(
        _of_pointers("refused"),
        "a target outside the dataset's folder that `--allow-external` does not name; a path out of the dataset",
        "kept: name the place with `--allow-external`; `--drop-links` removes a path out of the dataset",
        Subject.NODE,
        find_link_damage,
    ),
    Rule(
        _of_pointers("identity"),
        "the target has a different `object_id` than the link states",
        "not repairable: the node at the path is used",
        Subject.NODE,
        find_link_damage,
    ),
    Rule(("reference-to-group",), _REGION_OUTSIDE, _NEVER, Subject.NODE, find_reference_damage),
    Rule(("reference-bounds",), _REGION_OUTSIDE, _NEVER, Subject.NODE, find_cell_damage, deep=True),
    Rule(
        ("link-duplicate", "link-malformed", "link-hides-node"),
        "entries that are empty or invalid, repeat a link, or hide a link or node",
        "a repeated one is removed, others with `--drop-links`",
        Subject.NODE,
        find_link_damage,
    ),
    Rule(
        ("link-incomplete",),
        "a note: a link without object ids, as other libraries write",
        "`--links` adds them",
        Subject.NODE,
        find_link_damage,
    ),
    Rule(
        ("lost-attributes",),
        "a lost `.zattrs` file with links and types that consolidated metadata still has",
        "restored from it",
        Subject.NODE,
        find_lost_attributes,
    ),
    Rule(("object-id",), _IDENTITY, _NEVER, Subject.NODE, find_node_damage),
    Rule(("object-id-twice",), _IDENTITY, _NEVER, Subject.DATASET, find_duplicate_ids),
    Rule(("root-object-id",), _IDENTITY, _NEVER, Subject.DATASET, find_root_damage),
    Rule(
        ("column-length",),
        "columns of a table that differ in length, so that rows would be put together wrongly",
        _NEVER,
        Subject.NODE,
        find_length_damage,
        otherwise="remove, or append, rows of single columns",
    ),
    Rule(
        ("timestamps-length",),
        "a series with more or fewer timestamps than samples, which have no seconds then",
        _NEVER,
        Subject.NODE,
        find_length_damage,
        otherwise="append what is missing to the data or the timestamps",
    ),
    Rule(
        ("zarr_dtype", "_DTYPE"),
        "a type that differs from that of the cells",
        "rewritten",
        Subject.NODE,
        find_node_damage,
    ),
    Rule(
        ("unsafe-pickle",),
        "a pickle that would run code, in a chunk (`--deep`) or a fill value",
        "the chunk is moved to quarantine, the fill value rewritten",
        Subject.NODE,
        find_node_damage,
    ),
    Rule(("specification",), _SCHEMAS, _NEVER, Subject.NODE, find_schema_damage, deep=True),
    Rule(("specloc",), _SCHEMAS, _NEVER, Subject.NODE, find_node_damage),
    Rule(("specloc-missing",), _SCHEMAS, _NEVER, Subject.DATASET, find_root_damage),
    Rule(
        ("unconsolidated",),
        "no consolidated metadata, because the writer died",
        "written",
        Subject.DATASET,
        find_root_damage,
    ),
)


class _ChecksHdmf:
    """Report the damage of a dataset; ``_open_survey`` makes a survey of it as it is stored now."""

    _open_survey: Callable[[], AbstractContextManager[HdmfSurvey]]

    def find_damage(self, *, deep: bool, workers: int) -> Iterator[Finding]:
        """Yield every problem of the dataset with what mends it."""
        with self._open_survey() as survey:
            yield from make_findings(self, survey, self._open_survey, RULES, survey.specs, deep=deep)


class HdmfCheckReader(_ChecksHdmf, ZarrReader):
    """A reader of the documents at ``where`` that reports every problem; links are followed to where they may lead, and
    to places that are allowed."""

    def __init__(
        self, store: Store, profile: HdmfProfile, settings: Settings, where: Location, allow: Allowed = ()
    ) -> None:
        super().__init__(store, profile, settings)
        self._open_survey = partial(_survey_dataset, store, profile, settings, where, allow)


class HdmfRepairWriter(_ChecksHdmf, HdmfDocuments):
    """A writer of the documents that mends them."""

    def __init__(
        self, store: Store, profile: HdmfProfile, settings: Settings, where: Location, allow: Allowed = ()
    ) -> None:
        super().__init__(store, profile, settings, consolidated=True)
        self._open_survey = partial(_survey_dataset, store, profile, settings, where, allow)

    def mend(self, change: DocumentChange) -> None:
        """Store these documents, and consolidated metadata."""
        self._commit(change)
        self._forget("")


@contextmanager
def _survey_dataset(
    store: Store, profile: HdmfProfile, settings: Settings, where: Location, allow: Allowed
) -> Iterator[HdmfSurvey]:
    """Survey a dataset as it is stored now, and close the datasets that its links led to at the end."""
    others = OtherDatasets(settings, allow)
    try:
        yield HdmfSurvey(store, profile, settings, where, others)
    finally:
        others.close()
