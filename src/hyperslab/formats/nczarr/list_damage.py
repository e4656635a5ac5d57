"""Lists of arrays and groups that are wrong, chunks that a rename left behind, marks of two generations at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from hyperslab.errors import Problem
from hyperslab.formats.keyed_commit import Change, key
from hyperslab.formats.nczarr.damage import chunk_keys
from hyperslab.formats.nczarr.generation import ARRAY, GROUP, SUPERBLOCK, TYPES, Generation
from hyperslab.formats.nczarr.own_objects import ZARRAY, ZGROUP, own, with_own
from hyperslab.formats.nczarr.survey import Damage, Survey
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec, GroupSpec

_OWN = frozenset({SUPERBLOCK, GROUP, ARRAY, TYPES})
_MARKS = {Generation.V1: (".zdataset",), Generation.DRAFT: ()}
_LISTS = ("arrays", "groups")
_LISTED = frozenset({Generation.V1, Generation.V2A, Generation.V2B, Generation.V2C})


def of_root(survey: Survey) -> Iterator[Damage]:
    """Marks of other generations than the one that counts (rule 3.1)."""
    generation = survey.generation
    if generation is Generation.PURE:
        return
    names = survey.store.list_dir("")[0]
    for name in _MARKS.get(generation, (".nczarr", ".zdataset")):
        if name in names:
            yield Damage(_mixed(survey, name), name, "take it out", at=name, take=name)
    group = survey.docs("").get(ZGROUP, {})
    if generation is Generation.V2C:
        strange = [name for name in group if name.lower() in _OWN]
    else:
        strange = [SUPERBLOCK.upper()] if generation is Generation.V2B and SUPERBLOCK.upper() in group else []
    if strange:
        left = {name: value for name, value in group.items() if name not in strange}
        change = lambda: Change({"": survey.docs("") | {ZGROUP: left}})  # noqa: E731
        yield Damage(_mixed(survey, ", ".join(strange)), ZGROUP, "take them out of .zgroup", change)


def _mixed(survey: Survey, marks: str) -> Problem:
    return Problem("", "mixed-marks", f"{marks}: a mark of another generation than {survey.generation}, which counts")


def of_group(survey: Survey, path: str) -> Iterator[Damage]:
    """What a group lists that is not there, and what is there that it does not list."""
    spec = survey.specs.get(path)
    if not isinstance(spec, GroupSpec) or survey.generation not in _LISTED:
        return
    said = own(survey.docs(path), survey.generation, GROUP) or {}
    if not all(_is_list(said.get(kind)) for kind in _LISTS):
        yield _without_lists(survey, path)
        return
    for problem in survey.dataset.strays(path):
        name = split(problem.node)[1]
        if problem.kind == "missing":
            change = partial(_relisted, survey, path, name, None)
            yield Damage(problem, "", "take it out of the list", change)
            continue
        orphan = _orphan(survey, path, name)
        yield _unlisted(survey, path, problem) if orphan is None else orphan


def _is_list(said: Any) -> bool:
    return isinstance(said, list) and all(isinstance(name, str) and name and "/" not in name for name in said)


def _without_lists(survey: Survey, path: str) -> Damage:
    """A group that somebody made who does not know NCZarr."""
    problem = Problem(path, "unlisting-group", "the group does not list what is in it")

    def change() -> Change:
        spec, lists = survey.specs[path], survey.lists(path)
        docs = survey.rendered(path, spec.evolve(layout={**spec.layout, **lists}))
        known = (own(survey.docs(path), survey.generation, GROUP) or {}).get("dimensions", {})
        said = {"dimensions": known, **lists}
        return Change({path: docs or with_own(survey.docs(path), survey.generation, GROUP, said)})

    return Damage(problem, "", "write the lists of what is in it", change)


def _unlisted(survey: Survey, path: str, problem: Problem) -> Damage:
    name = split(problem.node)[1]
    kind = "arrays" if isinstance(survey.specs.get(problem.node), ArraySpec) else "groups"
    if problem.node not in survey.specs:
        return Damage(problem)
    return Damage(problem, "", "list it", partial(_relisted, survey, path, name, kind))


def _relisted(survey: Survey, path: str, name: str, kind: str | None) -> Change:
    """The group with the name in one list, or in none."""
    said = own(survey.docs(path), survey.generation, GROUP) or {}
    lists = {}
    for each in _LISTS:
        names = [other for other in said.get(each) or [] if other != name]
        lists[each] = [*names, name] if each == kind else names
    return Change({path: with_own(survey.docs(path), survey.generation, GROUP, lists)})


# -- renamed arrays ---------------------------------------------------------------------------------------------------


def _orphan(survey: Survey, group: str, name: str) -> Damage | None:
    """The array that netcdf-c left behind when it was told to call it otherwise: all but its documents stayed."""
    old = key(group, name)
    heirs = [path for path, _ in survey.arrays if split(path)[0] == group and _inherits(survey, old, path)]
    if len(heirs) != 1:
        return None
    message = f"/{heirs[0]} was called so before; its chunks were left here, and it reads as its fill value"
    problem = Problem(old, "orphaned-chunks", message)
    return Damage(problem, "", f"move the chunks to /{heirs[0]}", partial(_moved, survey, old, heirs[0]))


def _inherits(survey: Survey, old: str, new: str) -> bool:
    """Whether an array is the same as an unlisted one of netcdf-c, and its chunks lie there."""
    generation, lists = survey.generation, own(survey.docs(split(new)[0]), survey.generation, GROUP) or {}
    if old == new or split(new)[1] not in (lists.get("arrays") or []) or old not in survey.specs:
        return False
    mine, theirs = survey.docs(new), survey.docs(old)
    known = own(theirs, generation, ARRAY)
    if known is None or known != own(mine, generation, ARRAY) or mine.get(ZARRAY) != theirs.get(ZARRAY):
        return False
    left = {place[len(old) :] for place in chunk_keys(survey, old)}
    both = left & {place[len(new) :] for place in chunk_keys(survey, new)}
    return bool(left) and all(survey.store.get(old + name) == survey.store.get(new + name) for name in both)


def _moved(survey: Survey, old: str, new: str) -> Change:
    """Chunk by chunk, so that each lies in one place or the other; a move that is cut short is taken up again."""
    store: Any = survey.store

    def act() -> None:
        for place in list(chunk_keys(survey, old)):
            store.put(new + place[len(old) :], store.get(place), durable=True)
            store.delete(place)
        store.delete_prefix(old)

    return Change({}, gone=(old,), act=act)
