"""Links and references that lead nowhere, elsewhere than they mean, or by a way that does not last.

``diagnose_pointer`` judges one of them; the others search links, attributes and cells. An entry of a document is
changed where it is wrong; all else that stands there stays as it is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.memory import require
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import BrokenLink, ExternalLinkRefused, HyperslabError, Problem
from hyperslab.formats.documents import object_or_empty, text_or_none
from hyperslab.formats.format_errors import shorten
from hyperslab.formats.hdmf.attributes import ID_KEYS, LAYOUT, Reference, reference_part
from hyperslab.formats.hdmf.document_survey import HdmfSurvey, LinkLoop
from hyperslab.formats.hdmf.link_sources import DatasetLocation, is_absolute, normalize_source
from hyperslab.formats.hdmf.profile import replace_attributes, stored_attributes
from hyperslab.formats.hdmf.reference_ids import reference_fields
from hyperslab.formats.rules import LINKS, Finding
from hyperslab.formats.zarr.commit import DocumentChange
from hyperslab.formats.zarr.rules import document_finding
from hyperslab.model.paths import child
from hyperslab.model.refs import Pointer, RegionReference, path_within
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.selection.region_bounds import require_fits


@dataclass(frozen=True, slots=True)
class LinkDiagnosis:
    """``kind``: the rest of the kind of problem. ``correction``: keys of the entry as they should be, none where nobody
    knows. ``leads_nowhere``: the pointer is of no use as it stands."""

    kind: str
    message: str
    correction: Mapping[str, str] = field(default_factory=dict)
    leads_nowhere: bool = False


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """The end of a pointer: the dataset that it names, and the node behind all links, if one is there."""

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
    except (BrokenLink, ExternalLinkRefused) as error:
        match error:
            case LinkLoop():
                kind = "loop"
            case ExternalLinkRefused():
                kind = "refused"
            case _:
                kind = "dangling"
        return LinkTarget((*source_problems, LinkDiagnosis(kind, error.message, leads_nowhere=True)), dataset)
    return _check_identity(dataset, path, found, pointer, source_problems)


def _check_source(
    survey: HdmfSurvey, dataset: HdmfSurvey, pointer: Pointer, found: DatasetLocation
) -> Iterator[LinkDiagnosis]:
    """Yield what is wrong with a source: absolute, or relative to another place than the dataset's root."""
    correction = "." if dataset is survey else survey.where.way_to(dataset.where)
    source = normalize_source(pointer.source) or "."
    if source == correction or is_absolute(correction):
        return
    meant = f"{correction!r} is meant"
    if not found.is_certain:
        meant = f"{correction!r} may be meant, but others have the same object_id"
    kind, message = "source", f"the source {pointer.source!r} is not relative to the dataset's root; {meant}"
    if is_absolute(source):
        kind = "absolute"
        message = f"the source {pointer.source!r} is absolute: the dataset cannot be moved with it; {meant}"
    yield LinkDiagnosis(kind, message, {"source": correction} if found.is_certain else {})


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
    places = ", ".join(f"/{other}" for other in others)
    if found is not None:
        present_id = found[0].object_id_at(found[1])
        if expected_id is not None and present_id not in (None, expected_id):
            there = f"which is at {places}" if others else "which is nowhere"
            message = f"it means {expected_id}, {there}; at /{path} {present_id} is"
            more = (*more, LinkDiagnosis("identity", message))
        return LinkTarget((*more, *_check_region(*found, pointer)), dataset, found)
    if len(others) == 1:
        message = f"it means {expected_id}, which is {places} now; at /{path} nothing is"
        moved = LinkDiagnosis("moved", message, {"path": places})
        node = dataset, others[0]
        return LinkTarget((*more, moved, *_check_region(*node, pointer)), dataset, node)
    known = "" if expected_id is None else f", nor a node with the object_id {expected_id}"
    if others:
        known = f", and {places} have the object_id {expected_id}"
    return LinkTarget((*more, LinkDiagnosis("dangling", f"at /{path} nothing is{known}", leads_nowhere=True)), dataset)


def _check_region(dataset: HdmfSurvey, path: str, pointer: Pointer) -> Iterator[LinkDiagnosis]:
    """Yield what is wrong with a region: no array is there, or it lost some of the cells."""
    spec = dataset.spec(path)
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

DROP_LINKS = "drop_links"
"""The part of a repair that is about links and references, which is also the wish to complete them; and the wish to
take out links that are of no use."""
Entries = list[Any]


def find_link_damage(survey: HdmfSurvey, path: str) -> Iterator[Finding]:
    """Find what is wrong with the links of a group."""
    spec = survey.spec(path)
    if spec is None or not spec.is_group:
        return
    links = survey.links(path)
    entries = stored_attributes(survey.docs(path))[survey.profile.links_name] if links else []
    numbers = _number_entries(entries)
    for name, link in links.items():
        node = child(path, name)
        drop = partial(_edit_links, survey, path, partial(_remove_link, name))
        target = diagnose_pointer(survey, link)
        for diagnosis in target.diagnoses:
            kind, message = f"link-{diagnosis.kind}", f"the link leads to {link}: {diagnosis.message}"
            if diagnosis.leads_nowhere:
                yield _removable(node, kind, message, name, drop)
                continue
            change = partial(_edit_links, survey, path, partial(_update_link, name, diagnosis.correction))
            yield _correctable(Problem(node, kind, message), name, diagnosis, change)
        if target.node is not None:
            yield from _find_missing_ids(survey, path, name, entries[numbers[name]], target)
        if survey.has(node):
            message = f"the link {name!r} and a node have one name: the link counts, the node is hidden"
            yield _removable(node, "link-hides-node", message, name, drop)
    yield from _find_malformed_links(survey, path, spec)


def find_reference_damage(survey: HdmfSurvey, path: str) -> Iterator[Finding]:
    """Find what is wrong with the references among the attributes of a node."""
    spec = survey.spec(path)
    for name, value in ({} if spec is None else spec.attrs).items():
        if not isinstance(value, Reference):
            continue
        for diagnosis in diagnose_pointer(survey, value).diagnoses:
            message = f"attribute {name!r} leads to {value}: {diagnosis.message}"
            problem = Problem(path, f"reference-{diagnosis.kind}", message)
            change = partial(_update_reference, survey, path, name, diagnosis.correction)
            yield _correctable(problem, name, diagnosis, change)


# -- entries of links -------------------------------------------------------------------------------------------------


def _correctable(
    problem: Problem, about: str, diagnosis: LinkDiagnosis, change: Callable[[], DocumentChange]
) -> Finding:
    if not diagnosis.correction:
        return document_finding(problem, about, part=LINKS)
    words = " and ".join(f"the {name} {value!r}" for name, value in diagnosis.correction.items())
    return document_finding(problem, about, f"write {words}", change, part=LINKS)


def _removable(node: str, kind: str, message: str, about: str, change: Callable[[], DocumentChange]) -> Finding:
    problem = Problem(node, kind, message)
    return document_finding(problem, about, "take the link out", change, part=LINKS, wish=DROP_LINKS)


def _find_missing_ids(
    survey: HdmfSurvey, path: str, name: str, entry: Mapping[str, object], target: LinkTarget
) -> Iterator[Finding]:
    """Find ids of the target that an entry lacks; profile v3 leaves out those that are not known."""
    root_id = None if target.dataset is None else target.dataset.object_id_at("")
    every = survey.profile.name == "v2"
    correction = {
        key: value
        for key, value in zip(ID_KEYS, (target.object_id, root_id), strict=True)
        if (value is not None and entry.get(key) is None) or (every and key not in entry)
    }
    if correction:
        words = " and ".join(f"the {each} {'null' if value is None else value}" for each, value in correction.items())
        problem = Problem(child(path, name), "link-incomplete", f"the link does not say the {' and '.join(correction)}")
        change = partial(_edit_links, survey, path, partial(_update_link, name, correction))
        yield document_finding(problem, name, f"write {words}", change, part=LINKS, wish=LINKS, is_note=True)


def _find_malformed_links(survey: HdmfSurvey, path: str, spec: GroupSpec) -> Iterator[Finding]:
    """Find entries that are no links. One that repeats another is taken out without a wish."""
    word = survey.profile.links_name
    links = survey.links(path)
    for entry in spec.layout.get(LAYOUT, {}).get("unread", {}).get(word, ()):
        about = json.dumps(entry, sort_keys=True, default=str)
        change = partial(_edit_links, survey, path, partial(_remove_entry, entry))
        name = text_or_none(object_or_empty(entry).get("name"))
        if name is None or name not in links:
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


def _edit_links(survey: HdmfSurvey, path: str, edit: Callable[[Entries], None]) -> DocumentChange:
    """Return the documents of a group with its list of links as `edit` leaves it; of anything else an empty list."""
    docs, word = survey.docs(path), survey.profile.links_name
    attributes = stored_attributes(docs)
    entries = list(attributes[word]) if isinstance(attributes[word], list) else []
    edit(entries)
    return DocumentChange({path: replace_attributes(docs, {**attributes, word: entries})})


def _update_link(name: str, correction: Mapping[str, object], entries: Entries) -> None:
    """Update the entry of a link; of several with the name the first one counts."""
    number = _link_index(entries, name)
    entries[number] = {**entries[number], **correction}


def _remove_link(name: str, entries: Entries) -> None:
    del entries[_link_index(entries, name)]


def _number_entries(entries: Entries) -> dict[str, int]:
    """Return, for the name of each link, the index of the entry that counts."""
    numbers: dict[str, int] = {}
    for number, entry in enumerate(entries):
        if _is_link(entry):
            numbers.setdefault(entry["name"], number)
    return numbers


def _link_index(entries: Entries, name: str) -> int:
    """Return the index of the entry of a link that counts."""
    for number, entry in enumerate(entries):
        # the name first: a repair of thousands of links looks for each of them among all
        if isinstance(entry, dict) and entry.get("name") == name and _is_link(entry):
            return number
    raise KeyError(name)


def _is_link(entry: Any) -> bool:
    """Return True for an entry that is a link: others may have its name."""
    match entry:
        case {"name": str(), "path": str(), "source": str()}:
            return all(isinstance(entry.get(key), str | None) for key in ID_KEYS)
    return False


def _remove_entry(entry: object, entries: Entries) -> None:
    """Remove the last of equal entries."""
    if last := [number for number, other in enumerate(entries) if other == entry][-1:]:
        del entries[last[0]]


def _update_reference(survey: HdmfSurvey, path: str, name: str, correction: Mapping[str, object]) -> DocumentChange:
    docs, profile = survey.docs(path), survey.profile.name
    attributes = stored_attributes(docs)
    value = attributes[name]
    key = "value" if profile == "v2" else "_REFERENCE"
    new = {**value, key: {**reference_part(value, profile), **correction}}
    return DocumentChange({path: replace_attributes(docs, {**attributes, name: new})})


# -- references in cells: of each kind of damage in an array the first is reported, with their number -----------------

# An array of more chunks is not looked into: none of references has so many.
_MOST_CHUNKS = 1 << 18


def find_cell_damage(survey: HdmfSurvey, path: str) -> Iterator[Finding]:
    """Find wrong references in the cells of an array. Chunks that cannot be decoded are reported by other checks."""
    spec = survey.spec(path)
    if spec is None or not spec.is_array or spec.problem is not None:
        return
    fields = reference_fields(spec.dtype)
    if fields is None:
        return
    known: dict[Any, tuple[LinkDiagnosis, ...]] = {}
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for cell, reference in _references(survey, path, spec, fields):
        same = (type(reference), reference, reference.object_id, reference.source_object_id)
        if same not in known:
            known[same] = diagnose_pointer(survey, reference).diagnoses
        for diagnosis in known[same]:
            first.setdefault(diagnosis.kind, f"{cell} leads to {reference}: {diagnosis.message}")
            counts[diagnosis.kind] += 1
    for kind, message in first.items():
        if counts[kind] > 1:
            message = f"{counts[kind]} references; the first, {message}"
        yield document_finding(Problem(path, f"reference-{kind}", message), f"cells {kind}", part=LINKS)


def _references(
    survey: HdmfSurvey, path: str, spec: ArraySpec, fields: tuple[str, ...]
) -> Iterator[tuple[str, Reference]]:
    """Yield the references of all stored chunks, each after a description of its cell."""
    with suppress(HyperslabError):
        source = survey.documents.chunks_as(path, spec)
        if source.grid.fixed is None:
            return
        require(prod(source.grid.fixed) * spec.numpy_dtype.itemsize, survey.settings.memory_limit)
        for coords in _stored_coords(survey, path, spec, source):
            block = None
            with suppress(HyperslabError):
                block = source.read(coords)
            if block is None:
                continue
            extent = source.grid.extent(coords)
            inside = tuple(slice(0, part.stop - part.start) for part in extent)
            for name, cells in [(f" field {name!r}", block[name]) for name in fields] or [("", block)]:
                for index, cell in np.ndenumerate(cells[inside]):
                    if isinstance(cell, Reference):
                        where = ", ".join(str(part.start + i) for part, i in zip(extent, index, strict=True))
                        yield f"cell [{where}]{name}", cell


def _stored_coords(survey: HdmfSurvey, path: str, spec: ArraySpec, source: ChunkSource) -> Iterator[Coords]:
    """Yield the coordinates of the chunks that are stored."""
    if source.grid.size > _MOST_CHUNKS:
        return
    if source.grid.outer is not None:
        yield from source.grid
        return
    there = set(survey.store.list(path))
    key_of = survey.profile.key_of(spec)
    yield from (coords for coords in source.grid if child(path, key_of(coords)) in there)
