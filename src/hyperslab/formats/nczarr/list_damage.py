"""Lists of arrays and groups that are wrong, chunks that a rename left behind, marks of two generations at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from hyperslab.errors import Problem
from hyperslab.formats.keyed_commit import Change
from hyperslab.formats.nczarr.damage import chunk_keys
from hyperslab.formats.nczarr.generation import ARRAY, GROUP, SUPERBLOCK, TYPES, Generation
from hyperslab.formats.nczarr.own_objects import ZARRAY, ZGROUP, own, with_own
from hyperslab.formats.nczarr.survey import NCZarrSurvey, NodeDamage
from hyperslab.model.paths import child, split
from hyperslab.model.spec import ArraySpec, GroupSpec

_OWN = frozenset({SUPERBLOCK, GROUP, ARRAY, TYPES})
_MARKS = {Generation.V1: (".zdataset",), Generation.DRAFT: ()}
_LISTS = ("arrays", "groups")
_LISTED = frozenset({Generation.V1, Generation.V2A, Generation.V2B, Generation.V2C})


def of_root(survey: NCZarrSurvey) -> Iterator[NodeDamage]:
    """Marks of other generations than the one that counts (rule 3.1)."""
    generation = survey.generation
    if generation is Generation.PURE:
        return
    names = survey.store.list_dir("")[0]
    for name in _MARKS.get(generation, (".nczarr", ".zdataset")):
        if name in names:
            yield NodeDamage(_mixed(survey, name), name, "take it out", at=name, take=name)
    group = survey.docs("").get(ZGROUP, {})
    if generation is Generation.V2C:
        strange = [name for name in group if name.lower() in _OWN]
    else:
        strange = [SUPERBLOCK.upper()] if generation is Generation.V2B and SUPERBLOCK.upper() in group else []
    if strange:
        left = {name: value for name, value in group.items() if name not in strange}
        yield NodeDamage(
            _mixed(survey, ", ".join(strange)),
            ZGROUP,
            "take them out of .zgroup",
            lambda: Change({"": survey.docs("") | {ZGROUP: left}}),
        )


def _mixed(survey: NCZarrSurvey, marks: str) -> Problem:
    return Problem("", "mixed-marks", f"{marks}: a mark of another generation than {survey.generation}, which counts")


def of_group(survey: NCZarrSurvey, path: str) -> Iterator[NodeDamage]:
    """What a group lists that is not there, and what is there that it does not list."""
    spec = survey.specs.get(path)
    if not isinstance(spec, GroupSpec) or survey.generation not in _LISTED:
        return
    said = own(survey.docs(path), survey.generation, GROUP) or {}
    if not all(_is_list(said.get(kind)) for kind in _LISTS):
        yield _without_lists(survey, path)
        return
    alike: dict[str, list[str]] | None = None
    for problem in survey.dataset.strays(path):
        name = split(problem.node)[1]
        if problem.kind == "missing":
            change = partial(_relisted, survey, path, name, None)
            yield NodeDamage(problem, "", "take it out of the list", change)
            continue
        alike = _by_likeness(survey, path, said["arrays"]) if alike is None else alike
        orphan = _orphan(survey, problem.node, alike)
        yield _unlisted(survey, path, problem) if orphan is None else orphan


def _is_list(said: Any) -> bool:
    return isinstance(said, list) and all(isinstance(name, str) and name and "/" not in name for name in said)


def _without_lists(survey: NCZarrSurvey, path: str) -> NodeDamage:
    """A group that somebody made who does not know NCZarr."""
    problem = Problem(path, "unlisting-group", "the group does not list what is in it")

    def change() -> Change:
        spec, lists = survey.specs[path], survey.lists(path)
        docs = survey.rendered(path, spec.evolve(layout={**spec.layout, **lists}))
        known = (own(survey.docs(path), survey.generation, GROUP) or {}).get("dimensions", {})
        said = {"dimensions": known, **lists}
        return Change({path: docs or with_own(survey.docs(path), survey.generation, GROUP, said)})

    return NodeDamage(problem, "", "write the lists of what is in it", change)


def _unlisted(survey: NCZarrSurvey, path: str, problem: Problem) -> NodeDamage:
    name = split(problem.node)[1]
    kind = "arrays" if isinstance(survey.specs.get(problem.node), ArraySpec) else "groups"
    if problem.node not in survey.specs:
        return NodeDamage(problem)
    return NodeDamage(problem, "", "list it", partial(_relisted, survey, path, name, kind))


def _relisted(survey: NCZarrSurvey, path: str, name: str, kind: str | None) -> Change:
    """The group with the name in one list, or in none."""
    said = own(survey.docs(path), survey.generation, GROUP) or {}
    lists = {}
    for each in _LISTS:
        names = [other for other in said.get(each) or [] if other != name]
        lists[each] = [*names, name] if each == kind else names
    return Change({path: with_own(survey.docs(path), survey.generation, GROUP, lists)})


# -- renamed arrays ---------------------------------------------------------------------------------------------------


def _orphan(survey: NCZarrSurvey, old: str, alike: Mapping[str, Sequence[str]]) -> NodeDamage | None:
    """The array that netcdf-c left behind when it was told to call it otherwise: all but its documents stayed."""
    likeness = _likeness(survey, old)
    left = list(chunk_keys(survey, old)) if likeness in alike else []
    heirs = [path for path in alike.get(likeness or "", ()) if left and _inherits(survey, left, old, path)]
    if len(heirs) != 1:
        return None
    message = f"/{heirs[0]} was called so before; its chunks were left here, and it reads as its fill value"
    problem = Problem(old, "orphaned-chunks", message)
    return NodeDamage(problem, "", f"move the chunks to /{heirs[0]}", partial(_moved, survey, old, heirs[0]))


def _by_likeness(survey: NCZarrSurvey, group: str, names: Sequence[str]) -> dict[str, list[str]]:
    """The arrays that a group lists, those of like documents together."""
    found: dict[str, list[str]] = {}
    for path in (child(group, name) for name in dict.fromkeys(names)):
        if (likeness := _likeness(survey, path)) is not None:
            found.setdefault(likeness, []).append(path)
    return found


def _likeness(survey: NCZarrSurvey, path: str) -> str | None:
    """What an array of netcdf-c keeps when it is renamed; None for other nodes."""
    if not isinstance(survey.specs.get(path), ArraySpec):
        return None
    docs = survey.docs(path)
    known = own(docs, survey.generation, ARRAY)
    return None if known is None else json.dumps([known, docs.get(ZARRAY)], sort_keys=True)


def _inherits(survey: NCZarrSurvey, left: Sequence[str], old: str, new: str) -> bool:
    """Return whether none of the chunks that ``old`` has is another one here."""
    return all(survey.store.get(new + place[len(old) :]) in (None, survey.store.get(place)) for place in left)


def _moved(survey: NCZarrSurvey, old: str, new: str) -> Change:
    """Chunk by chunk, so that each lies in one place or the other; a move that is cut short is taken up again."""
    store: Any = survey.store

    def act() -> None:
        for place in list(chunk_keys(survey, old)):
            store.put(new + place[len(old) :], store.get(place), durable=True)
            store.delete(place)
        store.delete_prefix(old)

    return Change({}, gone=(old,), act=act)
