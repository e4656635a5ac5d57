"""Damage of nodes and of a whole dataset, but for what leads elsewhere: types, identities, schemas, poison."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np

from hyperslab.chunks.auto import longest_chunk
from hyperslab.chunks.settings import Settings
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.chain import build_chain
from hyperslab.codecs.pickled import read_pickled
from hyperslab.codecs.reference_text import of_text
from hyperslab.errors import HyperslabError, Problem, UnsafePickle
from hyperslab.formats.base import Remedy
from hyperslab.formats.format_errors import brief
from hyperslab.formats.hdmf.attributes import OWN
from hyperslab.formats.hdmf.cell_types import OBJECT, OBJECTS, PICKLE, REGION, check_fill, word_of, words_of
from hyperslab.formats.hdmf.link_diagnosis import LINKS, of_cells, of_links, of_references
from hyperslab.formats.hdmf.link_sources import Allowed
from hyperslab.formats.hdmf.profile import attributes_of, with_attributes
from hyperslab.formats.hdmf.reader import is_specification, place_said, read_schema
from hyperslab.formats.hdmf.reference_ids import object_id_of
from hyperslab.formats.hdmf.survey import HDMFSurvey, Others, Profiled, Spec
from hyperslab.formats.hdmf.writer import HdmfDocuments
from hyperslab.formats.metadata_json.dtypes import dtype_from_json
from hyperslab.formats.zarr.commit import Change
from hyperslab.formats.zarr.damage import NodeDamage, remedies_of
from hyperslab.formats.zarr.reader import KeyedReader
from hyperslab.formats.zarr2.document import ZARRAY, ZATTRS
from hyperslab.model.dtypes import DataType, ObjectRef, VlenBytes, VlenString, numpy_dtype
from hyperslab.model.paths import child
from hyperslab.model.refs import ObjectReference, path_within
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store, WritableStore
from hyperslab.stores.location import Location

# -- ------------------------------------------------------------------------------------------------------------------
# What cells are whose documents do not tell it any more: the first stored chunk is asked.
#
# Zarr v2 says ``|O`` of text and references alike, and v3 has references as text; without ``zarr_dtype`` or
# ``_DTYPE`` they would be taken for text.


_OBJECT_DTYPES = ("|O", "O", "object")


def meant_word(survey: HDMFSurvey, path: str, spec: ArraySpec) -> Any:
    """Return the ``zarr_dtype`` or ``_DTYPE`` that the first stored chunk speaks of; None where it tells nothing."""
    try:
        if survey.profile.words.profile == "v3":
            return _word_of_texts(survey, path, spec)
        return _word_of_objects(survey.docs(path)[ZARRAY], survey, path, spec)
    except (HyperslabError, ValueError, RecursionError):
        return None


def needs_word(survey: HDMFSurvey, path: str, spec: ArraySpec) -> bool:
    """Return whether the type of the cells is nowhere but in that word."""
    if survey.profile.words.profile == "v3":
        return isinstance(spec.dtype, VlenString)
    doc = survey.docs(path)[ZARRAY]
    dtype = doc.get("dtype")
    filters = doc.get("filters")
    first = filters[0].get("id") if isinstance(filters, list) and filters and isinstance(filters[0], dict) else None
    fields = dtype if isinstance(dtype, list) else [[None, dtype]]
    return first in ("json2", "pickle") and any(_is_object(field) for field in fields)


def _is_object(field: Any) -> bool:
    return isinstance(field, list) and len(field) > 1 and field[1] in _OBJECT_DTYPES


def _word_of_objects(doc: Mapping[str, Any], survey: HDMFSurvey, path: str, spec: ArraySpec) -> Any:
    fields = doc["dtype"] if isinstance(doc["dtype"], list) else None
    columns = _columns(survey, path, spec, 1 if fields is None else len(fields))
    if columns is None:
        return None
    if fields is None:
        return _kind(columns[0])
    pairs = zip(fields, columns, strict=True)
    words = [_kind(column) if _is_object(field) else str(field[1]) for field, column in pairs]
    if None in words:
        return None
    named = zip(fields, ("str_" if word == "str" else word for word in words), strict=True)
    return [{"name": field[0], "dtype": word} for field, word in named]


def _kind(values: Sequence[Any]) -> str | None:
    """Return what values of JSON or of a pickle are together; those that were never written say nothing."""
    found = {_kind_of_value(value) for value in values if value is not None and not (value == 0 and value is not False)}
    return found.pop() if len(found) == 1 else None


def _kind_of_value(value: Any) -> str | None:
    if isinstance(value, str):
        return "str"
    if isinstance(value, ObjectReference):
        return OBJECT
    if isinstance(value, dict) and isinstance(value.get("path"), str):
        return OBJECT if value.get("region") is None else REGION
    return None


def _columns(survey: HDMFSurvey, path: str, spec: ArraySpec, count: int) -> list[list[Any]] | None:
    """Return the plain values of the first stored chunk, by field."""
    keys = (place for place in survey.store.list(path) if not place[len(child(path, "")) :].startswith("."))
    data = next((found for place in sorted(keys) if (found := survey.store.get(place)) is not None), None)
    if data is None:
        return None
    shape = longest_chunk(spec.chunks)
    raw = bytes(build_chain(spec.codecs, ChunkLayout(spec.dtype, shape, spec.fill_value)).unpack(data))
    if any(codec.name == PICKLE for codec in spec.codecs):
        values = 1
        for length in shape:
            values *= length
        return list(map(list, read_pickled(raw, values * count).columns))
    items = json.loads(raw)[:-2]
    for _ in shape[1:]:
        items = [cell for item in items for cell in item]
    if count == 1:
        return [items]
    rows = [item for item in items if isinstance(item, list) and len(item) == count]
    return [list(column) for column in zip(*rows, strict=True)] or None


def _word_of_texts(survey: HDMFSurvey, path: str, spec: ArraySpec) -> str | None:
    """Return references where each text of the first chunk is one, and leads to a node of the dataset."""
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


_TYPES = ("neurodata_type", "data_type")
_ELSEWHERE = frozenset({"links"})
_CELLS = frozenset({"other-cells", "unreadable-chunk"})
"""What a look at the chunks calls cells that are not of the type that the documents say."""
_ANY_SIZE = {"int": "iu", "uint": "u", "long": "i", "float": "f", "double": "f", "bool": "b", "bool_": "b"}
_TEXTS = frozenset(
    {"str", "str_", "text", "utf", "utf8", "utf-8", "bytes", "bytes_", "string_", "ascii", "isodatetime"}
)


# -- the whole ---------------------------------------------------------------------------------------------------------


def of_root(survey: HDMFSurvey) -> Iterator[NodeDamage]:
    """What the root and consolidated metadata tell of whether a writer came to its end."""
    root = survey.spec("")
    if root is None:
        return
    yield from _unfinished(survey)
    place = place_said(root)
    if place is not None and not isinstance(survey.spec(place), GroupSpec):
        yield NodeDamage(Problem("", "specloc-missing", f".specloc names /{place}, where no group is"))
    objects = (path for path, spec in survey.specs.items() if _type_of(spec) and not survey.is_specification(path))
    if object_id_of(root) is None and next(objects, None) is not None:
        message = "the root has no object_id: links and references cannot say which dataset they mean"
        yield NodeDamage(Problem("", "root-object-id", message))


def _unfinished(survey: HDMFSurvey) -> Iterator[NodeDamage]:
    """Every writer of the format consolidates at its end, and gives the root attributes before."""
    name = survey.profile.copy_name
    try:
        data = survey.store.get(name)
    except HyperslabError:
        return
    copied = data is not None and (name not in survey.profile.nodes or b'"consolidated_metadata"' in data)
    if copied:
        return
    message = "there is no consolidated metadata"
    if not attributes_of(survey.docs("")):
        message += ", and the root has no attributes: its writer died, and more may be missing"
    yield NodeDamage(Problem("", "unconsolidated", message), "", "write consolidated metadata", lambda: Change({}))


def of_ids(survey: HDMFSurvey) -> Iterator[NodeDamage]:
    """Identities that several nodes have."""
    for said, paths in survey.ids.items():
        for path in paths[1:]:
            yield NodeDamage(Problem(path, "object-id-twice", f"/{paths[0]} has the object_id {said} too"), said)


def _type_of(spec: Spec) -> Any:
    return next((spec.attrs[name] for name in _TYPES if name in spec.attrs), None)


# -- one node ----------------------------------------------------------------------------------------------------------


def of_node(survey: HDMFSurvey, path: str) -> Iterator[NodeDamage]:
    """What is wrong with the documents of one node."""
    spec = survey.spec(path)
    if spec is None:
        return
    for number, problem in enumerate(survey.profile.problems(survey.docs(path), path)):
        if problem.kind not in _ELSEWHERE:
            yield _noted(survey, path, problem, str(number))
    if path and _type_of(spec) is not None and object_id_of(spec) is None and not survey.is_specification(path):
        yield NodeDamage(Problem(path, "object-id", f"a {brief(_type_of(spec))} without object_id"))
    if isinstance(spec, ArraySpec):
        yield from _other_type(survey, path, spec)
        yield from _fill(survey, path, spec)


def _noted(survey: HDMFSurvey, path: str, problem: Problem, about: str) -> NodeDamage:
    """Something that is survived while reading, and what would have been right."""
    place = child(path, next(name for name in survey.profile.nodes if name in survey.docs(path)))
    said = Problem(problem.node, problem.kind, f"{problem.message} [key={place}]")
    spec = survey.spec(path)
    if problem.kind == survey.profile.words.dtype and isinstance(spec, ArraySpec):
        if needs_word(survey, path, spec) and problem.kind not in attributes_of(survey.docs(path)):
            return _as_stored(survey, path, spec, said, about)
        return _retyped(survey, path, spec, said, about)
    try:
        docs = survey.profile.render(survey.profile.parse(survey.docs(path), path))
        left = survey.profile.problems(docs, path)
    except HyperslabError:
        return NodeDamage(said, about)
    if problem.kind in {other.kind for other in left}:
        return NodeDamage(said, about)
    return NodeDamage(said, about, "write the documents as they are understood", lambda: Change({path: docs}))


def _other_type(survey: HDMFSurvey, path: str, spec: ArraySpec) -> Iterator[NodeDamage]:
    """``zarr_dtype`` or ``_DTYPE`` that is known, and speaks of other cells."""
    name = survey.profile.words.dtype
    word = spec.layout.get(OWN, {}).get(name)
    if not isinstance(word, str) or not contradicts(word, spec.dtype):
        return
    message = f"{name} is {word!r}, but the cells are {word_of(spec.dtype, survey.profile.words.profile)!r}"
    yield _retyped(survey, path, spec, Problem(path, name, message), f"contradiction {word}")


def _as_stored(survey: HDMFSurvey, path: str, spec: ArraySpec, problem: Problem, about: str) -> NodeDamage:
    """Return the word that is gone, as the first stored chunk tells it; where nothing is stored, as it is assumed."""
    name, word = problem.kind, meant_word(survey, path, spec)
    if word is None:
        stored = (place for place in survey.store.list(path) if not place.rpartition("/")[2].startswith("."))
        is_text = survey.profile.words.profile == "v3" or next(stored, None) is None
        return _retyped(survey, path, spec, problem, about) if is_text else NodeDamage(problem, about)

    def change() -> Change:
        docs = survey.docs(path)
        return Change({path: with_attributes(docs, {**attributes_of(docs), name: word})})

    action = f"write the {name} {json.dumps(word)}, which the cells have"
    return NodeDamage(problem, about, action, change, at=path, settles=_CELLS)


def _retyped(survey: HDMFSurvey, path: str, spec: ArraySpec, problem: Problem, about: str) -> NodeDamage:
    """The word that the cells have, as the profile spells an array that never had one."""
    name = survey.profile.words.dtype
    own = {each: value for each, value in spec.layout.get(OWN, {}).items() if each != name}
    bare = spec.evolve(layout={**spec.layout, OWN: own})

    def change() -> Change:
        docs = survey.docs(path)
        rest = {each: value for each, value in attributes_of(docs).items() if each != name}
        said = attributes_of(survey.profile.render(bare))
        return Change({path: with_attributes(docs, rest | {each: said[each] for each in (name,) if each in said})})

    return NodeDamage(problem, about, f"write the {name} that the cells have", change)


def contradicts(word: str, dtype: DataType) -> bool:
    """Return whether the word for a type speaks of other cells than there are; what counts is Zarr's type.

    Peers call all integers ``int`` and all floats ``float``, and text by many names.
    """
    is_text = isinstance(dtype, VlenString | VlenBytes) or (isinstance(dtype, np.dtype) and dtype.kind in "SU")
    if word in _TEXTS:
        return not is_text
    if word in _ANY_SIZE:
        return is_text or numpy_dtype(dtype).kind not in _ANY_SIZE[word]
    try:
        said = dtype_from_json(np.dtype(word).str if word.isidentifier() else word)
    except TypeError:
        return False
    if said.kind not in "biufc":
        return False
    return is_text or numpy_dtype(dtype).newbyteorder("=") != said.newbyteorder("=")


def _fill(survey: HDMFSurvey, path: str, spec: ArraySpec) -> Iterator[NodeDamage]:
    """The fill value of rows, which is decoded when their cells are touched."""
    try:
        check_fill(spec)
        return
    except HyperslabError as error:
        kind = "unsafe-pickle" if isinstance(error, UnsafePickle) else "fill_value"
        problem = Problem(path, kind, f"fill_value: {error.message} [key={child(path, ZARRAY)}]")

    def change() -> Change:
        docs = survey.docs(path)
        zero = {"fill_value": words_of(spec)["fill_value"]}
        return Change({path: {ZATTRS: docs.get(ZATTRS, {}), ZARRAY: docs[ZARRAY] | zero}})

    yield NodeDamage(problem, "fill", "write the fill value of rows that were never written", change)


# -- specifications ----------------------------------------------------------------------------------------------------


def of_schema(survey: HDMFSurvey, path: str) -> Iterator[NodeDamage]:
    """A schema that is no JSON; one of other codecs than those of text is a problem of its documents."""
    spec = survey.spec(path)
    if not isinstance(spec, ArraySpec) or spec.problem or not is_specification(path, survey.specifications):
        return
    try:
        read_schema(survey.documents, path)
    except HyperslabError as error:
        yield NodeDamage(Problem(path, "specification", f"the schema cannot be read: {error.message}"), "text")


# -- ------------------------------------------------------------------------------------------------------------------
# Attributes of profile v2 that are gone with their file, while consolidated metadata still has them: the links of a
# group are among them. No writer takes the file away and leaves the copy.


def of_attributes(survey: HDMFSurvey, path: str) -> Iterator[NodeDamage]:
    """Those of one node."""
    copied = survey.copy.get(path, {}).get(ZATTRS)
    if not copied or not _is_gone(survey, path):
        return
    place = child(path, ZATTRS)
    names = ", ".join(map(repr, copied))
    message = f"consolidated metadata has attributes of this node that are gone from it: {names} [key={place}]"

    def change() -> Change:
        return Change({path: {**survey.docs(path), ZATTRS: copied}})

    action = "take the attributes from consolidated metadata"
    yield NodeDamage(Problem(path, "lost-attributes", message), "", action, change, part=LINKS)


def _is_gone(survey: HDMFSurvey, path: str) -> bool:
    try:
        return survey.store.get(child(path, ZATTRS)) is None
    except HyperslabError:
        return False


# -- ------------------------------------------------------------------------------------------------------------------
# Everything that is known to go wrong in datasets of HDMF, looked for in one of them, and how each is mended.
#
# Documents are changed where they are wrong, with consolidated metadata; a mend looks again, under the lock of the
# root.


Examiner = Callable[[HDMFSurvey], Iterable[NodeDamage]]


class _Examined:
    """What is told of a dataset; ``_look`` makes a survey of it as it is stored now."""

    _look: Callable[[], AbstractContextManager[HDMFSurvey]]

    def problems(self, *, deep: bool, workers: int) -> Iterator[Problem]:
        """What is wrong with the documents, but for what each key tells alone; ``deep``: with references in cells."""
        return (remedy.problem for remedy in self.remedies(deep=deep, workers=workers) if not remedy.sound)

    def remedies(self, *, deep: bool, workers: int) -> Iterator[Remedy]:
        """The same, with what mends it."""
        with self._look() as survey:
            yield from remedies_of(self, survey, self._look, _examiners(survey, deep))


class HdmfExamined(_Examined, KeyedReader):
    """The documents of the dataset at ``where``, of which every problem is told; links are followed to where they may
    lead, and to places that are allowed."""

    def __init__(
        self, store: Store, profile: Profiled, settings: Settings, where: Location, allow: Allowed = ()
    ) -> None:
        super().__init__(store, profile, settings)
        self._look = partial(_looking, store, profile, settings, where, allow)


class HdmfMended(_Examined, HdmfDocuments):
    """The same, open for what mends them."""

    def __init__(
        self, store: WritableStore, profile: Profiled, settings: Settings, where: Location, allow: Allowed = ()
    ) -> None:
        super().__init__(store, profile, settings, consolidated=True)
        self._look = partial(_looking, store, profile, settings, where, allow)

    def mend(self, change: Change) -> None:
        """Store documents as they are given, and consolidated metadata."""
        self._commit(change)
        self._forget("")


@contextmanager
def _looking(
    store: Store, profile: Profiled, settings: Settings, where: Location, allow: Allowed
) -> Iterator[HDMFSurvey]:
    """A look at what is stored now."""
    others = Others(settings, allow)
    try:
        yield HDMFSurvey(store, profile, settings, where, others)
    finally:
        others.close()


def _examiners(survey: HDMFSurvey, deep: bool) -> Iterator[Examiner]:
    """What looks at parts of a dataset, in the order in which they are mended."""
    for path in survey.specs:
        yield partial(of_attributes, path=path)
    for path in survey.specs:
        yield partial(of_node, path=path)
        yield partial(of_links, path=path)
        yield partial(of_references, path=path)
        if deep:
            yield partial(of_cells, path=path)
            yield partial(of_schema, path=path)
    yield of_root
    yield of_ids
