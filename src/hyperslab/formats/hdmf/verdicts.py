"""What is wrong with one link or reference: where it leads, and whether that is what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hyperslab.errors import BrokenLink, ExternalLinkRefused, HyperslabError
from hyperslab.formats.hdmf.sources import is_absolute, plain
from hyperslab.formats.hdmf.survey import LinkLoop, Survey
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
    named: Survey | None = None
    node: tuple[Survey, str] | None = None

    @property
    def object_id(self) -> str | None:
        """What the node calls itself."""
        return None if self.node is None else self.node[0].id_of(self.node[1])


def judge(survey: Survey, pointer: Pointer) -> Target:
    """What a pointer of a dataset leads to, and all that is wrong with it."""
    try:
        named = survey.dataset_of(pointer)
    except ExternalLinkRefused as error:
        return Target((Verdict("refused", error.message, of_pointer=True),))
    except HyperslabError as error:
        return Target((Verdict("no-dataset", error.message, of_pointer=True),))
    spelled = tuple(_source(survey, named, pointer))
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


def _source(survey: Survey, named: Survey, pointer: Pointer) -> Iterator[Verdict]:
    """A source that is not relative to the root of the dataset, as others read it."""
    right = "." if named is survey else survey.where.way_to(named.where)
    said = plain(pointer.source) or "."
    if said == right or is_absolute(right):
        return
    if is_absolute(said):
        message = f"the source {pointer.source!r} is absolute: the dataset cannot be moved with it; {right!r} is meant"
        yield Verdict("absolute", message, {"source": right})
    else:
        message = f"the source {pointer.source!r} is not relative to the dataset's root; {right!r} is meant"
        yield Verdict("source", message, {"source": right})


def _identified(
    named: Survey, path: str, found: tuple[Survey, str] | None, pointer: Pointer, more: tuple[Verdict, ...]
) -> Target:
    """What is at the path, or the node that has the identity of the target."""
    wanted = pointer.object_id
    at = None if found is None else found[0].id_of(found[1])
    if found is not None and (wanted is None or at in (None, wanted)):
        return Target((*more, *_region(*found, pointer)), named, found)
    moved = [] if wanted is None else named.ids.get(wanted, [])
    what = "nothing is" if found is None else f"{at} is"
    if moved:
        message = f"it means {wanted}, which is /{moved[0]} now; at /{path} {what}"
        right = Verdict("moved", message, {"path": f"/{moved[0]}"})
        return Target((*more, right, *_region(named, moved[0], pointer)), named, (named, moved[0]))
    if found is None:
        known = "" if wanted is None else f", nor a node with the object_id {wanted}"
        return Target((*more, Verdict("dangling", f"at /{path} {what}{known}", of_pointer=True)), named)
    message = f"it means {wanted}, which is nowhere; at /{path} {what}"
    return Target((*more, Verdict("identity", message), *_region(*found, pointer)), named, found)


def _region(there: Survey, path: str, pointer: Pointer) -> Iterator[Verdict]:
    """Whether an array is there that still has the cells."""
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
