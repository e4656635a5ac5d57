"""Links and references that lead nowhere, elsewhere than they mean, or by a way that does not last.

``diagnose_pointer`` judges one of them; the others search links, attributes and cells. An entry of a document is
changed where it is wrong; all else that stands there stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.memory import require
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import BrokenLink, ExternalLinkRefused, HyperslabError, Problem
from hyperslab.formats.format_errors import shorten
from hyperslab.formats.hdmf.attributes import ID_KEYS, LAYOUT, Reference, reference_part
from hyperslab.formats.hdmf.document_survey import HdmfSurvey, LinkLoop
from hyperslab.formats.hdmf.link_sources import DatasetLocation, is_absolute, normalize_source
from hyperslab.formats.hdmf.profile import replace_attributes, stored_attributes
from hyperslab.formats.hdmf.reference_ids import reference_fields
from hyperslab.formats.rules import Finding
from hyperslab.formats.zarr.commit import DocumentChange
from hyperslab.formats.zarr.rules import document_finding
from hyperslab.model.paths import child
from hyperslab.model.refs import Link, ObjectReference, Pointer, RegionReference, path_within
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.selection.region_bounds import require_fits


@dataclass(frozen=True, slots=True)
class LinkDiagnosis:
    """``kind``: the rest of the kind of problem. ``right``: keys of the entry as they should be, none where nobody
    knows. ``of_pointer``: the pointer leads nowhere, and is of no use as it stands."""

    kind: str
    message: str
    correction: Mapping[str, str] = field(default_factory=dict)
    leads_nowhere: bool = False


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """What a pointer leads to: the dataset that it names, and the node behind all links, if one is there."""

    diagnoses: tuple[LinkDiagnosis, ...]
    dataset: HdmfSurvey | None = None
    node: tuple[HdmfSurvey, str] | None = None

    @property
    def object_id(self) -> str | None:
        """Return the ``object_id`` of the node."""
        return None if self.node is None else self.node[0].object_id_at(self.node[1])


def diagnose_pointer(survey: HdmfSurvey, pointer: Pointer) -> LinkTarget:
    """Follow a pointer of a dataset, and return what it leads to with all that is wrong with it."""
    try:
        dataset, found_dataset = survey.resolve_pointer(pointer)
    except ExternalLinkRefused as error:
        return LinkTarget((LinkDiagnosis("refused", error.message),))  # allowed elsewhere, it leads to what it means
    except HyperslabError as error:
        return LinkTarget((LinkDiagnosis("no-dataset", error.message, leads_nowhere=True),))
    source_problems = tuple(_check_source(survey, dataset, pointer, found_dataset))
    try:
        path = path_within(pointer)
        found = dataset.find(path, [])
    except LinkLoop as error:
        return LinkTarget((*source_problems, LinkDiagnosis("loop", error.message, leads_nowhere=True)), dataset)
    except ExternalLinkRefused as error:
        return LinkTarget((*source_problems, LinkDiagnosis("refused", error.message, leads_nowhere=True)), dataset)
    except BrokenLink as error:
        return LinkTarget((*source_problems, LinkDiagnosis("dangling", error.message, leads_nowhere=True)), dataset)
    return _check_identity(dataset, path, found, pointer, source_problems)


def _check_source(
    survey: HdmfSurvey, dataset: HdmfSurvey, pointer: Pointer, found: DatasetLocation
) -> Iterator[LinkDiagnosis]:
    """Yield what is wrong with a source: absolute, or relative to another place than the dataset's root."""
    correction = "." if dataset is survey else survey.where.way_to(dataset.where)
    source = normalize_source(pointer.source) or "."
    if source == correction or is_absolute(correction):
        return
    right_words = {"source": correction} if found.is_certain else {}
    meant = (
        f"{correction!r} is meant"
        if found.is_certain
        else f"{correction!r} may be meant, but others have the same object_id"
    )
    if is_absolute(source):
        message = f"the source {pointer.source!r} is absolute: the dataset cannot be moved with it; {meant}"
        yield LinkDiagnosis("absolute", message, right_words)
    else:
        message = f"the source {pointer.source!r} is not relative to the dataset's root; {meant}"
        yield LinkDiagnosis("source", message, right_words)


def _check_identity(
    dataset: HdmfSurvey,
    path: str,
    found: tuple[HdmfSurvey, str] | None,
    pointer: Pointer,
    more: tuple[LinkDiagnosis, ...],
) -> LinkTarget:
    """Compare the node at the path with the id that is meant; where nothing is, find the only node with that id."""
    expected_id = pointer.object_id
    others = [] if expected_id is None else dataset.ids.get(expected_id, [])
    if found is not None:
        at = found[0].object_id_at(found[1])
        if expected_id is not None and at not in (None, expected_id):
            there = f"which is at {_join_paths(others)}" if others else "which is nowhere"
            more = (*more, LinkDiagnosis("identity", f"it means {expected_id}, {there}; at /{path} {at} is"))
        return LinkTarget((*more, *_check_region(*found, pointer)), dataset, found)
    if len(others) == 1:
        message = f"it means {expected_id}, which is /{others[0]} now; at /{path} nothing is"
        correction = LinkDiagnosis("moved", message, {"path": f"/{others[0]}"})
        return LinkTarget(
            (*more, correction, *_check_region(dataset, others[0], pointer)), dataset, (dataset, others[0])
        )
    known = "" if expected_id is None else f", nor a node with the object_id {expected_id}"
    if others:
        known = f", and {_join_paths(others)} have the object_id {expected_id}"
    return LinkTarget((*more, LinkDiagnosis("dangling", f"at /{path} nothing is{known}", leads_nowhere=True)), dataset)


def _join_paths(paths: list[str]) -> str:
    return ", ".join(f"/{path}" for path in paths)


def _check_region(there: HdmfSurvey, path: str, pointer: Pointer) -> Iterator[LinkDiagnosis]:
    """Yield what is wrong with a region: no array is there, or it lost some of the cells."""
    spec = there.spec(path)
    if not isinstance(pointer, RegionReference) or spec is None:
        return
    if not spec.is_array:
        yield LinkDiagnosis("to-group", f"a region of /{path}, which is a group")
        return
    try:
        require_fits(pointer.region, spec.shape)
    except HyperslabError as error:
        yield LinkDiagnosis("bounds", f"a region of /{path}: {error.message}")


# -- links, and references among attributes ----------------------------------------------------------------------------

LINKS, DROP_LINKS = "links", "drop_links"
"""The part of a repair that is about links and references, and so named the wish to complete them; the wish to take out
links that are of no use."""
Attributes = dict[str, Any]
Edit = Callable[[Attributes], Attributes]


def find_link_damage(survey: HdmfSurvey, path: str) -> Iterator[Finding]:
    """Find what is wrong with the links of a group."""
    spec = survey.spec(path)
    if spec is None or not spec.is_group:
        return
    for name, link in survey.links(path).items():
        target = diagnose_pointer(survey, link)
        for diagnosis in target.diagnoses:
            yield _link_damage(survey, path, name, link, diagnosis)
        if target.node is not None:
            yield from _find_missing_ids(survey, path, name, target)
        if survey.has(child(path, name)):
            message = f"the link {name!r} and a node have one name: the link counts, the node is hidden"
            drop = partial(
                _edit_attributes, survey, path, partial(_remove_link, survey.profile.attribute_names.links, name)
            )
            yield _removable(child(path, name), "link-hides-node", message, name, drop)
    yield from _find_malformed_links(survey, path, spec)


def find_reference_damage(survey: HdmfSurvey, path: str) -> Iterator[Finding]:
    """Find what is wrong with the references among the attributes of a node."""
    spec = survey.spec(path)
    for name, value in ({} if spec is None else spec.attrs).items():
        if not isinstance(value, ObjectReference | RegionReference):
            continue
        for diagnosis in diagnose_pointer(survey, value).diagnoses:
            message = f"attribute {name!r} leads to {value}: {diagnosis.message}"
            problem = Problem(path, f"reference-{diagnosis.kind}", message)
            edit = partial(_update_reference, survey, name, diagnosis.correction)
            yield _correctable(problem, name, diagnosis, partial(_edit_attributes, survey, path, edit))


# -- entries of links -------------------------------------------------------------------------------------------------


def _link_damage(survey: HdmfSurvey, path: str, name: str, link: Link, diagnosis: LinkDiagnosis) -> Finding:
    node, kind, message = child(path, name), f"link-{diagnosis.kind}", f"the link leads to {link}: {diagnosis.message}"
    word = survey.profile.attribute_names.links
    if diagnosis.leads_nowhere:
        return _removable(
            node, kind, message, name, partial(_edit_attributes, survey, path, partial(_remove_link, word, name))
        )
    edit = partial(_update_link, word, name, diagnosis.correction)
    return _correctable(Problem(node, kind, message), name, diagnosis, partial(_edit_attributes, survey, path, edit))


def _correctable(
    problem: Problem, about: str, diagnosis: LinkDiagnosis, change: Callable[[], DocumentChange]
) -> Finding:
    if not diagnosis.correction:
        return document_finding(problem, about, part=LINKS)
    words = " and ".join(f"the {name} {value!r}" for name, value in diagnosis.correction.items())
    return document_finding(problem, about, f"write {words}", change, part=LINKS)


def _removable(node: str, kind: str, message: str, about: str, change: Callable[[], DocumentChange]) -> Finding:
    return document_finding(
        Problem(node, kind, message), about, "take the link out", change, part=LINKS, wish=DROP_LINKS
    )


def _find_missing_ids(survey: HdmfSurvey, path: str, name: str, target: LinkTarget) -> Iterator[Finding]:
    """Find ids of the target that an entry lacks; profile v3 leaves out those that are not known."""
    word = survey.profile.attribute_names.links
    entries = stored_attributes(survey.docs(path))[word]
    entry = entries[_link_index(entries, name)]
    source = None if target.dataset is None else target.dataset.object_id_at("")
    known = dict(zip(ID_KEYS, (target.object_id, source), strict=True))
    every = survey.profile.attribute_names.profile == "v2"
    correction = {
        name: value
        for name, value in known.items()
        if (value is not None and entry.get(name) is None) or (every and name not in entry)
    }
    if correction:
        words = " and ".join(f"the {each} {'null' if value is None else value}" for each, value in correction.items())
        problem = Problem(child(path, name), "link-incomplete", f"the link does not say the {' and '.join(correction)}")
        change = partial(_edit_attributes, survey, path, partial(_update_link, word, name, correction))
        yield document_finding(problem, name, f"write {words}", change, part=LINKS, wish=LINKS, sound=True)


def _find_malformed_links(survey: HdmfSurvey, path: str, spec: GroupSpec) -> Iterator[Finding]:
    """Find entries that are no links. One that repeats another is taken out without being asked for."""
    word = survey.profile.attribute_names.links
    links = survey.links(path)
    for entry in spec.layout.get(LAYOUT, {}).get("unread", {}).get(word, ()):
        about = json.dumps(entry, sort_keys=True, default=str)
        change = partial(_edit_attributes, survey, path, partial(_remove_entry, word, entry))
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in links:
            message = f"{word}: {shorten(entry)} is no link"
            yield _removable(path, "link-malformed", message, about, change)
            continue
        first = links[name]
        destination = entry.get("path"), entry.get("source")
        same = destination in ((first.target, first.source), (first.target[1:], first.source))
        message = f"{word}: {shorten(entry)} has the name of another link, which counts"
        problem = Problem(child(path, name), "link-duplicate", message)
        yield document_finding(problem, about, "take it out", change, part=LINKS, wish="" if same else DROP_LINKS)


# -- edits ------------------------------------------------------------------------------------------------------------


def _edit_attributes(survey: HdmfSurvey, path: str, edit: Edit) -> DocumentChange:
    docs = survey.docs(path)
    return DocumentChange({path: replace_attributes(docs, edit(dict(stored_attributes(docs))))})


def _is_called(entry: object, name: str) -> bool:
    return isinstance(entry, dict) and entry.get("name") == name


def _update_link(word: str, name: str, correction: Mapping[str, object], attributes: Attributes) -> Attributes:
    """Update the entry of a link; of several with the name the first one counts."""
    entries = list(attributes[word])
    number = _link_index(entries, name)
    entries[number] = {**entries[number], **correction}
    return {**attributes, word: entries}


def _remove_link(word: str, name: str, attributes: Attributes) -> Attributes:
    entries = list(attributes[word])
    del entries[_link_index(entries, name)]
    return {**attributes, word: entries}


def _link_index(entries: list[Any], name: str) -> int:
    """Return the index of the entry that counts: entries that are no links may have its name."""
    texts = ("name", "path", "source")
    return next(
        number
        for number, entry in enumerate(entries)
        if _is_called(entry, name)
        and all(isinstance(entry.get(text), str) for text in texts)
        and all(isinstance(entry.get(text), str | None) for text in ID_KEYS)
    )


def _remove_entry(word: str, entry: object, attributes: Attributes) -> Attributes:
    """Remove the last of equal entries, or all that stands there in place of a list."""
    entries = attributes[word] if isinstance(attributes[word], list) else []
    last = max((number for number, other in enumerate(entries) if other == entry), default=-1)
    return {**attributes, word: [other for number, other in enumerate(entries) if number != last]}


def _update_reference(
    survey: HdmfSurvey, name: str, correction: Mapping[str, object], attributes: Attributes
) -> Attributes:
    value = attributes[name]
    inner = reference_part(value, survey.profile.attribute_names)
    place = "value" if survey.profile.attribute_names.profile == "v2" else "_REFERENCE"
    return {**attributes, name: {**value, place: {**inner, **correction}}}


# -- references in cells: of each kind of damage in an array the first is reported, with their number -----------------

# An array of more chunks is not looked into: none of references has so many.
_MOST_CHUNKS = 1 << 18


@dataclass(slots=True)
class _Tally:
    first: str
    total: int = 0


def find_cell_damage(survey: HdmfSurvey, path: str) -> Iterator[Finding]:
    """Find wrong references in the cells of an array. Chunks that cannot be decoded are reported by other checks."""
    spec = survey.spec(path)
    fields = reference_fields(spec.dtype) if spec is not None and spec.is_array and spec.problem is None else None
    if spec is None or not spec.is_array or fields is None:
        return
    known: dict[Any, tuple[LinkDiagnosis, ...]] = {}
    found: dict[str, _Tally] = {}
    for place, reference in _references(survey, path, spec, fields):
        same = (type(reference), reference, reference.object_id, reference.source_object_id)
        if same not in known:
            known[same] = diagnose_pointer(survey, reference).diagnoses
        for diagnosis in known[same]:
            shown = f"{place} leads to {reference}: {diagnosis.message}"
            found.setdefault(diagnosis.kind, _Tally(shown)).total += 1
    for kind, count in found.items():
        message = count.first if count.total == 1 else f"{count.total} references; the first, {count.first}"
        yield document_finding(Problem(path, f"reference-{kind}", message), f"cells {kind}", part=LINKS)


def _references(
    survey: HdmfSurvey, path: str, spec: ArraySpec, fields: tuple[str, ...]
) -> Iterator[tuple[str, Reference]]:
    """Yield the references of all stored chunks, each after a description of its cell."""
    try:
        source = survey.documents.chunks_as(path, spec)
        if source.grid.fixed is None:
            return
        require(prod(source.grid.fixed) * spec.numpy_dtype.itemsize, survey.settings.memory_limit)
        for coords in _stored(survey, path, spec, source):
            origin = [cut.start for cut in source.grid.extent(coords)]
            cut = tuple(slice(0, part.stop - part.start) for part in source.grid.extent(coords))
            for name, cells in _cells(source, coords, fields):
                for index, cell in np.ndenumerate(cells[cut]):
                    if isinstance(cell, Reference):
                        where = ", ".join(str(start + i) for start, i in zip(origin, index, strict=True))
                        yield f"cell [{where}]{f' field {name!r}' if name else ''}", cell
    except HyperslabError:
        return


def _cells(source: ChunkSource, coords: Coords, fields: tuple[str, ...]) -> list[tuple[str, Any]]:
    try:
        block = source.read(coords)
    except HyperslabError:
        return []
    if block is None:
        return []
    return [(name, block[name]) for name in fields] if fields else [("", block)]


def _stored(survey: HdmfSurvey, path: str, spec: ArraySpec, source: ChunkSource) -> Iterator[Coords]:
    """Yield the coordinates of the chunks that are stored."""
    if source.grid.size > _MOST_CHUNKS:
        return
    if source.grid.outer is not None:
        yield from source.grid
        return
    there = set(survey.store.list(path))
    key_of = survey.profile.key_of(spec)
    yield from (coords for coords in source.grid if child(path, key_of(coords)) in there)
