"""What is wrong with one link or reference: where it leads, and whether that is what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hyperslab.errors import BrokenLink, ExternalLinkRefused, HyperslabError
from hyperslab.formats.hdmf.sources import PointedPlace, is_absolute, plain
from hyperslab.formats.hdmf.survey import HDMFSurvey, LinkLoop
from hyperslab.model.refs import Pointer, RegionReference, path_within
from hyperslab.model.spec import ArraySpec
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
