"""``edit``: names and attributes of a dataset, changed by one step that shows whole or not at all.

What the format itself shows at one stroke (a file that is written whole, an archive, a commit, one document) is changed
where it is. Else the dataset is made anew beside its place, of hard links to its chunks, and changes places with the
old one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace

from hyperslab import api
from hyperslab.array.session import OpenDataset
from hyperslab.conversion.edit_plan import Changes, EditPlan, plan_edit
from hyperslab.conversion.opening import dataset_session
from hyperslab.conversion.source_nodes import walk_nodes
from hyperslab.errors import Conflict, Invalid, Unsupported
from hyperslab.formats.base import Feature, Writer
from hyperslab.formats.enclosing import EnclosingDataset, find_above
from hyperslab.formats.opening import refuse_moment
from hyperslab.group import Group
from hyperslab.model.paths import child, split
from hyperslab.model.spec import ArraySpec, GroupSpec, Node
from hyperslab.stores.building import building, can_build
from hyperslab.stores.endpoints import Options
from hyperslab.stores.keys import LOCK
from hyperslab.stores.location import Location, unpublished
from hyperslab.stores.locks import hold_all_ranges
from hyperslab.stores.system import IS_WINDOWS

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class EditReport:
    """The report of an edit, done or only planned: one line a change."""

    url: str
    changes: tuple[str, ...]
    dry_run: bool

    def __str__(self) -> str:
        return "\n".join(self.changes)


def edit(
    url: api.Target,
    *,
    rename_variables: Mapping[str, str] | None = None,
    rename_dimensions: Mapping[str, str] | None = None,
    rename_attributes: Mapping[str, str] | None = None,
    set: Mapping[str, object] | None = None,
    delete: tuple[str, ...] | list[str] = (),
    append: Mapping[str, object] | None = None,
    dry_run: bool = False,
    storage_options: Options = None,
) -> EditReport:
    """Change names and attributes of the dataset at ``url``, all of it or nothing.

    ``rename_variables``: new names by path, ``rename_dimensions`` by name (``"g/x"``: that of the group alone).
    ``rename_attributes``, ``set``, ``delete``, ``append``: attributes as ``"path:name"``; the path may be a pattern
    (``"t*:units"``), a group, or empty for the whole dataset, and that of a renamed variable the old or the new one;
    ``append`` puts text, or numbers, behind what is there.
    Attributes by which variables name others follow. ``dry_run``: say what would be changed, and touch nothing.

    NotFound for what is not there, AlreadyExists for a name that is taken, Unsupported where the format renames nothing
    or the place shows several documents one by one; Conflict where others wrote meanwhile: nothing is changed then.
    """
    where = Location.of(url, storage_options)
    refuse_moment(where)
    if (found := find_above(where)) is not None:
        remedy = f"edit the whole, and write the path before the names: {found[1]}:NAME"
        raise Invalid("edit takes whole datasets", url=found[0].url, node=found[1], remedy=remedy)
    changes = Changes(
        rename_variables or {}, rename_dimensions or {}, rename_attributes or {}, set or {}, tuple(delete), append or {}
    )
    with dataset_session(where, "r") as session, session.add_place_to_errors():
        plan = plan_edit(_read_nodes(session), changes)
        _refuse_unsupported(session, plan)
    if plan.touched and not dry_run:
        _change(where, changes, plan)
    return EditReport(where.url, tuple(plan.lines), dry_run)


def _read_nodes(session: OpenDataset) -> dict[str, Node]:
    return dict(walk_nodes(session, ""))


def _refuse_unsupported(session: OpenDataset, plan: EditPlan) -> None:
    """Raise Unsupported for names that the format keeps as they are."""
    name, traits = session.format.name, session.format.traits
    if (plan.moves or plan.dims or plan.is_naming) and traits.has_collections:
        remedy = "convert it, and edit that; attributes of arrays can be changed"
        raise Unsupported(f"format {name} renames nothing: a schema says what its arrays are", remedy=remedy)
    if (plan.dims or plan.is_naming) and Feature.DIMENSIONS not in session.format.features:
        raise Unsupported(f"format {name} has no names of dimensions", remedy="convert it to a format that has, first")
    if plan.moves and Feature.REFERENCES in session.format.features:
        remedy = "change it with hdmf or pynwb, or convert it to zarr3 and edit that"
        raise Unsupported(f"format {name} has references that name its arrays by their paths", remedy=remedy)


# -- one step ----------------------------------------------------------------------------------------------------------


def _change(where: Location, changes: Changes, plan: EditPlan) -> None:
    """Do what was planned by one step; what is there now counts, in case it has changed since."""
    if where.keeps_versions:
        with api.one_commit(where, f"edit: {'; '.join(plan.lines)}", create=False) as place:
            _change_in_place(place, changes)
        return
    with dataset_session(where, "r+") as session:
        writer = session.writer()
        is_one_step = session.is_written_whole or writer.locks_whole or where.path is None
        if where.path is None and plan.touched > 1 and where.scheme not in ("memory", "store"):
            message = f"{plan.touched} nodes change, and this place shows them one by one"
            remedy = "change one at a time, or copy the dataset here, edit it, and sync it back"
            raise Unsupported(message, url=where.url, remedy=remedy)
        if is_one_step or (plan.touched == 1 and not plan.moves and not plan.dims):
            _apply(session, plan_edit(_read_nodes(session), changes))
            return
        if not can_build(str(where.path)):
            message = "nothing can be made beside the dataset"
            raise Unsupported(message, url=where.url, remedy="edit a copy of it elsewhere")
        is_linked = session.format.traits.is_keyed
        if session.format.traits.has_collections:  # writers of its arrays would not be kept out meanwhile
            message = f"{plan.touched} nodes change, and format {session.format.name} shows them one by one"
            raise Unsupported(message, url=where.url, remedy="change one at a time")
        if is_linked and IS_WINDOWS:  # which moves no folder in which a lock is held
            remedy = "change one at a time, or edit it in a zip archive: convert it there, and back"
            raise Unsupported("several documents of a folder do not change at one stroke here", remedy=remedy)
        with writer.lock_node("") if is_linked else nullcontext():
            _change_beside(where, changes, session, is_linked=is_linked)


def _change_in_place(where: Location, changes: Changes) -> None:
    with dataset_session(where, "r+") as session:
        _apply(session, plan_edit(_read_nodes(session), changes))


def _change_beside(where: Location, changes: Changes, session: OpenDataset, *, is_linked: bool) -> None:
    """Make the dataset anew beside its place, and let both change places while nobody writes a chunk."""
    place = os.path.realpath(str(where.path))
    before = _stamps(place)
    around = _without_writers(where, place, before, session, is_linked=is_linked)
    with building(place, overwrite=True, around=around) as temporary:
        _clone(place, temporary, is_linked=is_linked)
        with dataset_session(unpublished(temporary), "r+", format=session.format.name) as copy:
            _apply(copy, plan_edit(_read_nodes(copy), changes))
    session.format.placed(where)


@contextmanager
def _without_writers(
    where: Location, place: str, before: Mapping[str, _Stamp], session: OpenDataset, *, is_linked: bool
) -> Iterator[None]:
    """Keep writers of chunks out of all arrays in the block; Conflict where others have written at the place since it
    had the stamps ``before``.

    Writers of documents are kept out by the lock of the root, which the caller holds. The locks come before the look:
    who wrote before is seen, and who waits finds, once they are let go, the new dataset under the path.
    """
    with ExitStack() as stack:
        if is_linked:
            stack.enter_context(EnclosingDataset(where).follow_whole())
            folders = [os.path.join(place, path) for path, node in _read_nodes(session).items() if node.is_array]
            stack.enter_context(hold_all_ranges(folders, session.settings.lock_timeout))
        elif os.path.isdir(place) and not IS_WINDOWS:  # an array of its own, with coordinates below it
            folders = [folder for folder, _, names in os.walk(place) if folder == place or LOCK in names]
            stack.enter_context(hold_all_ranges(folders, session.settings.lock_timeout))
        if before != _stamps(place):
            raise Conflict("others wrote into the dataset meanwhile", url=where.url, remedy="edit it again")
        yield


def _clone(place: str, copy: str, *, is_linked: bool) -> None:
    """Make a file or folder anew under another name: files by hard links, which are never changed in place there, where
    that is so and the file system has them; else by copies."""

    def take(source: str, target: str) -> str:
        if is_linked:
            with suppress(OSError):
                os.link(source, target, follow_symlinks=False)
                return target
        with suppress(FileNotFoundError):  # a writer beside has renamed it, which the stamps tell
            shutil.copy2(source, target, follow_symlinks=False)
        return target

    if os.path.isdir(place):
        shutil.copytree(place, copy, symlinks=True, copy_function=take)
    else:
        shutil.copy2(place, copy)


def _stamps(place: str) -> dict[str, _Stamp]:
    """Return what tells the versions of all files at a place, without those that only stand for a lock."""
    files = [place]
    if os.path.isdir(place):
        files = [os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names if name != LOCK]
    found = {}
    for name in files:
        with suppress(FileNotFoundError):  # a writer beside has renamed it
            status = os.lstat(name)
            found[name] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


# -- the changes -------------------------------------------------------------------------------------------------------


def _apply(session: OpenDataset, plan: EditPlan) -> None:
    """Do what is planned: dimensions first, then attributes, then the names of variables."""
    writer = session.writer()
    whole = writer.lock_node("") if writer.locks_whole else nullcontext()
    with session.add_place_to_errors(), writer.one_commit(), whole, writer.batch():
        _rename_dimensions(session, plan)
        for path, attrs in plan.attrs.items():
            writer.put(path, _spec(writer, path).evolve(attrs=attrs))
        root = Group(session, "")
        for old, new in _in_order(plan.moves):
            root.move(old, new)


def _rename_dimensions(session: OpenDataset, plan: EditPlan) -> None:
    """Give dimensions their new names, by way of others where two change names."""
    writer = session.writer()
    taken = {(rename.group, rename.old) for rename in plan.dims}
    steps = [(rename.group, rename.old, rename.new) for rename in plan.dims]
    if any((group, new) in taken for group, _, new in steps):
        aside = [(group, old, f"{new}{_ASIDE}{number}") for number, (group, old, new) in enumerate(steps)]
        steps = aside + [(group, between, new) for (_, _, between), (group, _, new) in zip(aside, steps, strict=True)]
    if steps and all(writer.rename_dimension(group, old, new) for group, old, new in steps):
        return
    for group in {rename.group for rename in plan.dims}:
        spec = writer.node(group)
        names = {rename.old: rename.new for rename in plan.dims if rename.group == group}
        if spec.is_group and any(dim.name in names for dim in spec.dims):
            declared = tuple(replace(dim, name=names.get(dim.name, dim.name)) for dim in spec.dims)
            writer.put(group, spec.evolve(dims=declared))
    for path, dims in plan.axes.items():
        spec = writer.node(path)
        if spec.is_array and spec.dims != dims:
            names_of_labels = dict(zip(spec.dims, dims, strict=True))
            indexes = {str(names_of_labels.get(name, name)): index for name, index in spec.indexes.items()}
            writer.put(path, spec.evolve(dims=dims, indexes=indexes))


def _spec(writer: Writer, path: str) -> GroupSpec | ArraySpec:
    spec = writer.node(path)
    if spec.is_link:
        raise Invalid("a link has no attributes", node=path, remedy="name what it leads to")
    return spec


# What a name has behind it while others change theirs.
_ASIDE = "-renamed-"


def _in_order(moves: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield moves, each when its target is free; where names go round in a circle, by way of another one."""
    left = dict(moves)
    number = 0
    while left:
        free = next((old for old, new in left.items() if new not in left), None)
        if free is not None:
            yield free, left.pop(free)
            continue
        old = next(iter(left))
        group, name = split(old)
        aside = child(group, f"{name}{_ASIDE}{number}")
        number += 1
        yield old, aside
        left[aside] = left.pop(old)
