"""Damage of nodes and of a whole dataset, but for what leads elsewhere: types, identities, schemas, poison."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from hyperslab.errors import HyperslabError, Problem, UnsafePickle
from hyperslab.formats.dtype_names import dtype_from_json
from hyperslab.formats.faults import brief
from hyperslab.formats.hdmf.attribute_names import OWN
from hyperslab.formats.hdmf.dtype_words import word_of
from hyperslab.formats.hdmf.lost_types import meant_word, needs_word
from hyperslab.formats.hdmf.object_ids import id_of
from hyperslab.formats.hdmf.objects import check_fill, words_of
from hyperslab.formats.hdmf.specifications import is_specification, place_said, read_schema
from hyperslab.formats.hdmf.spelling import attributes_of, with_attributes
from hyperslab.formats.hdmf.survey import HDMFSurvey, Spec
from hyperslab.formats.keyed_commit import Change
from hyperslab.formats.keyed_damage import NodeDamage
from hyperslab.formats.zarr2.document import ARRAY, ATTRIBUTES
from hyperslab.model.dtypes import DataType, VlenBytes, VlenString, numpy_dtype
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec

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
    if id_of(root) is None and next(objects, None) is not None:
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
    if path and _type_of(spec) is not None and id_of(spec) is None and not survey.is_specification(path):
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
        problem = Problem(path, kind, f"fill_value: {error.message} [key={child(path, ARRAY)}]")

    def change() -> Change:
        docs = survey.docs(path)
        zero = {"fill_value": words_of(spec)["fill_value"]}
        return Change({path: {ATTRIBUTES: docs.get(ATTRIBUTES, {}), ARRAY: docs[ARRAY] | zero}})

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
