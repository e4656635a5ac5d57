"""What is wrong with one link or reference: where it leads, and whether that is what it means."""

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
from hyperslab.formats.format_errors import brief
from hyperslab.formats.hdmf.attributes import OWN, inner_of
from hyperslab.formats.hdmf.link_sources import PointedPlace, is_absolute, plain
from hyperslab.formats.hdmf.profile import attributes_of, with_attributes
from hyperslab.formats.hdmf.reference_ids import reference_fields
from hyperslab.formats.hdmf.survey import HDMFSurvey, LinkLoop
from hyperslab.formats.zarr.commit import Change
from hyperslab.formats.zarr.damage import NodeDamage
from hyperslab.model.paths import child
from hyperslab.model.refs import Link, ObjectReference, Pointer, RegionReference, path_within
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.selection.region_bounds import require_fits


@dataclass(frozen=True, slots=True)
class Verdict:
    """``kind``: the rest of the kind of problem. ``right``: keys of the entry as they should be, none where nobody
    knows. ``of_pointer``: the pointer leads nowhere, and is of no use as it stands."""

    kind: str
    message: str
    right: Mapping[str, str] = field(default_factory=dict)
    of_pointer: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """What a pointer leads to: the dataset that it names, and the node behind all links, if one is there."""

    verdicts: tuple[Verdict, ...]
    named: HDMFSurvey | None = None
    node: tuple[HDMFSurvey, str] | None = None

    @property
    def object_id(self) -> str | None:
        """What the node calls itself."""
        return None if self.node is None else self.node[0].id_of(self.node[1])


def judge(survey: HDMFSurvey, pointer: Pointer) -> Target:
    """What a pointer of a dataset leads to, and all that is wrong with it."""
    try:
        named, found_dataset = survey.found_by(pointer)
    except ExternalLinkRefused as error:
        return Target((Verdict("refused", error.message),))  # allowed elsewhere, it leads to what it means
    except HyperslabError as error:
        return Target((Verdict("no-dataset", error.message, of_pointer=True),))
    spelled = tuple(_source(survey, named, pointer, found_dataset))
    try:
        path = path_within(pointer)
        found = named.find(path, [])
    except LinkLoop as error:
        return Target((*spelled, Verdict("loop", error.message, of_pointer=True)), named)
    except ExternalLinkRefused as error:
        return Target((*spelled, Verdict("refused", error.message, of_pointer=True)), named)
    except BrokenLink as error:
        return Target((*spelled, Verdict("dangling", error.message, of_pointer=True)), named)
    return _identified(named, path, found, pointer, spelled)


def _source(survey: HDMFSurvey, named: HDMFSurvey, pointer: Pointer, found: PointedPlace) -> Iterator[Verdict]:
    """Return a source that is not relative to the root of the dataset, as others read it, or where nothing is."""
    right = "." if named is survey else survey.where.way_to(named.where)
    said = plain(pointer.source) or "."
    if said == right or is_absolute(right):
        return
    right_words = {"source": right} if found.certain else {}
    meant = f"{right!r} is meant" if found.certain else f"{right!r} may be meant, but others have the same object_id"
    if is_absolute(said):
        message = f"the source {pointer.source!r} is absolute: the dataset cannot be moved with it; {meant}"
        yield Verdict("absolute", message, right_words)
    else:
        message = f"the source {pointer.source!r} is not relative to the dataset's root; {meant}"
        yield Verdict("source", message, right_words)


def _identified(
    named: HDMFSurvey, path: str, found: tuple[HDMFSurvey, str] | None, pointer: Pointer, more: tuple[Verdict, ...]
) -> Target:
    """Return what is at the path; where nothing is, the only node that has the identity of the target."""
    wanted = pointer.object_id
    others = [] if wanted is None else named.ids.get(wanted, [])
    if found is not None:
        at = found[0].id_of(found[1])
        if wanted is not None and at not in (None, wanted):
            there = f"which is at {_listed(others)}" if others else "which is nowhere"
            more = (*more, Verdict("identity", f"it means {wanted}, {there}; at /{path} {at} is"))
        return Target((*more, *_region(*found, pointer)), named, found)
    if len(others) == 1:
        message = f"it means {wanted}, which is /{others[0]} now; at /{path} nothing is"
        right = Verdict("moved", message, {"path": f"/{others[0]}"})
        return Target((*more, right, *_region(named, others[0], pointer)), named, (named, others[0]))
    known = "" if wanted is None else f", nor a node with the object_id {wanted}"
    if others:
        known = f", and {_listed(others)} have the object_id {wanted}"
    return Target((*more, Verdict("dangling", f"at /{path} nothing is{known}", of_pointer=True)), named)


def _listed(paths: list[str]) -> str:
    return ", ".join(f"/{path}" for path in paths)


def _region(there: HDMFSurvey, path: str, pointer: Pointer) -> Iterator[Verdict]:
    """Return whether an array is there that still has the cells."""
    spec = there.spec(path)
    if not isinstance(pointer, RegionReference) or spec is None:
        return
    if not isinstance(spec, ArraySpec):
        yield Verdict("to-group", f"a region of /{path}, which is a group")
        return
    try:
        require_fits(pointer.region, spec.shape)
    except HyperslabError as error:
        yield Verdict("bounds", f"a region of /{path}: {error.message}")


# -- ------------------------------------------------------------------------------------------------------------------
# Links, and references among attributes, that lead nowhere, elsewhere than they mean, or by a way that does not last.
#
# An entry of a document is changed where it is wrong; all else that stands there stays as it is.


LINKS, DROP = "links", "drop_links"
"""The part of a repair that is about links and references, and so named the wish to complete them; the wish to take out
links that are of no use."""
_IDS = ("object_id", "source_object_id")
Attributes = dict[str, Any]
Edit = Callable[[Attributes], Attributes]


def of_links(survey: HDMFSurvey, path: str) -> Iterator[NodeDamage]:
    """What is wrong with the links of a group."""
    spec = survey.spec(path)
    if not isinstance(spec, GroupSpec):
        return
    for name, link in survey.links(path).items():
        target = judge(survey, link)
        for verdict in target.verdicts:
            yield _of_link(survey, path, name, link, verdict)
        if target.node is not None:
            yield from _incomplete(survey, path, name, target)
        if survey.has(child(path, name)):
            message = f"the link {name!r} and a node have one name: the link counts, the node is hidden"
            drop = partial(_changed, survey, path, partial(_without_link, survey.profile.words.links, name))
            yield _dropped(child(path, name), "link-hides-node", message, name, drop)
    yield from _no_links(survey, path, spec)


def of_references(survey: HDMFSurvey, path: str) -> Iterator[NodeDamage]:
    """What is wrong with the references among the attributes of a node."""
    spec = survey.spec(path)
    for name, value in ({} if spec is None else spec.attrs).items():
        if not isinstance(value, ObjectReference | RegionReference):
            continue
        for verdict in judge(survey, value).verdicts:
            message = f"attribute {name!r} leads to {value}: {verdict.message}"
            problem = Problem(path, f"reference-{verdict.kind}", message)
            edit = partial(_with_reference, survey, name, verdict.right)
            yield _mended(problem, name, verdict, partial(_changed, survey, path, edit))


# -- entries of links -------------------------------------------------------------------------------------------------


def _of_link(survey: HDMFSurvey, path: str, name: str, link: Link, verdict: Verdict) -> NodeDamage:
    node, kind, message = child(path, name), f"link-{verdict.kind}", f"the link leads to {link}: {verdict.message}"
    word = survey.profile.words.links
    if verdict.of_pointer:
        return _dropped(node, kind, message, name, partial(_changed, survey, path, partial(_without_link, word, name)))
    edit = partial(_with_link, word, name, verdict.right)
    return _mended(Problem(node, kind, message), name, verdict, partial(_changed, survey, path, edit))


def _mended(problem: Problem, about: str, verdict: Verdict, change: Callable[[], Change]) -> NodeDamage:
    if not verdict.right:
        return NodeDamage(problem, about, part=LINKS)
    said = " and ".join(f"the {name} {value!r}" for name, value in verdict.right.items())
    return NodeDamage(problem, about, f"write {said}", change, part=LINKS)


def _dropped(node: str, kind: str, message: str, about: str, change: Callable[[], Change]) -> NodeDamage:
    return NodeDamage(Problem(node, kind, message), about, "take the link out", change, part=LINKS, asked=DROP)


def _incomplete(survey: HDMFSurvey, path: str, name: str, target: Target) -> Iterator[NodeDamage]:
    """What an entry could say of its target, and does not; profile v3 has no words for what is not known."""
    word = survey.profile.words.links
    entries = attributes_of(survey.docs(path))[word]
    entry = entries[_number(entries, name)]
    source = None if target.named is None else target.named.id_of("")
    known = dict(zip(_IDS, (target.object_id, source), strict=True))
    every = survey.profile.words.profile == "v2"
    right = {
        name: value
        for name, value in known.items()
        if (value is not None and entry.get(name) is None) or (every and name not in entry)
    }
    if right:
        said = " and ".join(f"the {each} {'null' if value is None else value}" for each, value in right.items())
        problem = Problem(child(path, name), "link-incomplete", f"the link does not say the {' and '.join(right)}")
        change = partial(_changed, survey, path, partial(_with_link, word, name, right))
        yield NodeDamage(problem, name, f"write {said}", change, part=LINKS, asked=LINKS, sound=True)


def _no_links(survey: HDMFSurvey, path: str, spec: GroupSpec) -> Iterator[NodeDamage]:
    """Entries that are no links; one that says again what another says goes without being asked for."""
    word = survey.profile.words.links
    links = survey.links(path)
    for entry in spec.layout.get(OWN, {}).get("unread", {}).get(word, ()):
        about = json.dumps(entry, sort_keys=True, default=str)
        change = partial(_changed, survey, path, partial(_without_entry, word, entry))
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in links:
            message = f"{word}: {brief(entry)} is no link"
            yield _dropped(path, "link-malformed", message, about, change)
            continue
        first = links[name]
        said = entry.get("path"), entry.get("source")
        same = said in ((first.target, first.source), (first.target[1:], first.source))
        message = f"{word}: {brief(entry)} has the name of another link, which counts"
        problem = Problem(child(path, name), "link-duplicate", message)
        yield NodeDamage(problem, about, "take it out", change, part=LINKS, asked="" if same else DROP)


# -- edits ------------------------------------------------------------------------------------------------------------


def _changed(survey: HDMFSurvey, path: str, edit: Edit) -> Change:
    docs = survey.docs(path)
    return Change({path: with_attributes(docs, edit(dict(attributes_of(docs))))})


def _is_called(entry: Any, name: str) -> bool:
    return isinstance(entry, dict) and entry.get("name") == name


def _with_link(word: str, name: str, right: Mapping[str, Any], attributes: Attributes) -> Attributes:
    """The first entry of the name, which is the one that counts, with other words."""
    entries = list(attributes[word])
    number = _number(entries, name)
    entries[number] = {**entries[number], **right}
    return {**attributes, word: entries}


def _without_link(word: str, name: str, attributes: Attributes) -> Attributes:
    entries = list(attributes[word])
    del entries[_number(entries, name)]
    return {**attributes, word: entries}


def _number(entries: list[Any], name: str) -> int:
    """Where the link stands that counts: entries that are no links may have its name."""
    texts = ("name", "path", "source")
    return next(
        number
        for number, entry in enumerate(entries)
        if _is_called(entry, name)
        and all(isinstance(entry.get(text), str) for text in texts)
        and all(isinstance(entry.get(text), str | None) for text in _IDS)
    )


def _without_entry(word: str, entry: Any, attributes: Attributes) -> Attributes:
    """Without the last of such entries, or all that stands there in place of a list."""
    entries = attributes[word] if isinstance(attributes[word], list) else []
    last = max((number for number, other in enumerate(entries) if other == entry), default=-1)
    return {**attributes, word: [other for number, other in enumerate(entries) if number != last]}


def _with_reference(survey: HDMFSurvey, name: str, right: Mapping[str, Any], attributes: Attributes) -> Attributes:
    value = attributes[name]
    inner = inner_of(value, survey.profile.words)
    place = "value" if survey.profile.words.profile == "v2" else "_REFERENCE"
    return {**attributes, name: {**value, place: {**inner, **right}}}


# -- ------------------------------------------------------------------------------------------------------------------
# References in cells that lead nowhere: of each array the first of each kind is told, and how many there are.


_MOST_CHUNKS = 1 << 18
"""An array of more chunks is not looked into: none of references has so many."""
Reference = ObjectReference | RegionReference


@dataclass(slots=True)
class _Count:
    first: str
    total: int = 0


def of_cells(survey: HDMFSurvey, path: str) -> Iterator[NodeDamage]:
    """What is wrong with the references in the cells of an array. Chunks that cannot be decoded are told elsewhere."""
    spec = survey.spec(path)
    fields = reference_fields(spec.dtype) if isinstance(spec, ArraySpec) and spec.problem is None else None
    if not isinstance(spec, ArraySpec) or fields is None:
        return
    known: dict[Any, tuple[Verdict, ...]] = {}
    found: dict[str, _Count] = {}
    for place, reference in _references(survey, path, spec, fields):
        same = (type(reference), reference, reference.object_id, reference.source_object_id)
        if same not in known:
            known[same] = judge(survey, reference).verdicts
        for verdict in known[same]:
            shown = f"{place} leads to {reference}: {verdict.message}"
            found.setdefault(verdict.kind, _Count(shown)).total += 1
    for kind, count in found.items():
        message = count.first if count.total == 1 else f"{count.total} references; the first, {count.first}"
        yield NodeDamage(Problem(path, f"reference-{kind}", message), f"cells {kind}", part=LINKS)


def _references(
    survey: HDMFSurvey, path: str, spec: ArraySpec, fields: tuple[str, ...]
) -> Iterator[tuple[str, Reference]]:
    """The references of all chunks, each with what its cell is called."""
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


def _stored(survey: HDMFSurvey, path: str, spec: ArraySpec, source: ChunkSource) -> Iterator[Coords]:
    """The chunks that are there."""
    if source.grid.size > _MOST_CHUNKS:
        return
    if source.grid.outer is not None:
        yield from source.grid
        return
    there = set(survey.store.list(path))
    key_of = survey.profile.key_of(spec)
    yield from (coords for coords in source.grid if child(path, key_of(coords)) in there)
