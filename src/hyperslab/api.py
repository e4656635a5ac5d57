"""open, create, list_formats: the functions that turn a URL into a Group or an Array.

Which format lies at a place, and what a mode does there, is decided in :mod:`hyperslab.formats.opening`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from hyperslab.array import Array
from hyperslab.array.session import open_chosen
from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import HyperslabError, Invalid, NodeNotFound, NotFound
from hyperslab.formats import format_for_new, get_format, names
from hyperslab.formats.base import FormatInfo, Moment, Variant
from hyperslab.formats.enclosing import EnclosingDataset, find_enclosing
from hyperslab.formats.opening import (
    FormatChoice,
    UserMode,
    allow_places,
    check_free,
    check_mode,
    choose_format,
    locate_version,
)
from hyperslab.group import Group
from hyperslab.group.links import follow
from hyperslab.model.paths import normalize
from hyperslab.stores.base import Store
from hyperslab.stores.building import building, can_build
from hyperslab.stores.location import Location, local_path, unpublished
from hyperslab.stores.repositories import MAIN, History, read_history

Target = str | os.PathLike[str] | Store | Sequence[str | os.PathLike[str] | Store]
"""A path, a URL, a store, or a list of those: datasets that are read as one, or the shards of one array."""


def open(
    url: Target,
    mode: UserMode = "r",
    *,
    format: str | None = None,
    path: str = "",
    storage_options: Mapping[str, Any] | None = None,
    at: Moment | None = None,
    workers: int | None = None,
    cache_bytes: int = DEFAULTS.cache_bytes,
    durable: bool = True,
    lock_timeout: float = DEFAULTS.lock_timeout,
    memory_limit: int | None = None,
    **options: Any,
) -> Group | Array:
    """Open a dataset, read-only unless ``mode`` says otherwise; only metadata is read. A list, or a path with ``*``:
    datasets that are read as one, as :func:`join` does, or the shards of one array.

    ``mode``: ``r`` read, ``r+`` change, ``a`` change or make, ``w`` replace, ``x`` make. ``format`` is found out
    unless given. ``path``: the node to give in place of the root. The place of an array in a tree of Zarr gives that
    array with its labels, as one of the tree. ``at``: the version that was the present one at a moment (a datetime, UTC
    unless it says otherwise, or ISO text), where the format keeps versions. ``workers`` threads; a cache of
    ``cache_bytes`` of decoded chunks; ``durable`` writes survive a power cut; ``lock_timeout`` in seconds;
    ``memory_limit`` in bytes for one result; ``options`` are those of the format, such as ``allow_external``: places
    that links may lead to, a list of folders and URLs or True. Raises NotFound, FormatError (says what the bytes look
    like), ReadOnly, Unsupported.
    """
    settings = Settings(workers, cache_bytes, durable, lock_timeout, memory_limit)
    check_mode(mode)
    where = Location.of(url, storage_options)
    # A look at the place that was named, which costs no call where it is none.
    if mode in ("r", "r+") and where.path is not None and ("*" in where.path or "?" in where.path or "[" in where.path):
        where = Location.matching(url, storage_options)
    where = where if at is None else locate_version(where, at)
    if options:
        where = allow_places(where, options)
    choice = choose_format(where, mode, format)
    node = normalize(path)
    if not node:
        array = _open_in_its_group(where, choice, format, settings, options)
        if array is not None:
            return array
    return _open(where, choice, node, settings, options)


def _open(
    where: Location, choice: FormatChoice, node: str, settings: Settings, options: Mapping[str, object]
) -> Group | Array:
    """Open the dataset at a place, and return its root or the node at a path."""
    if node and choice[1] in ("w", "x"):  # before anything is replaced
        remedy = "leave path out, and make the node in the new dataset"
        raise NodeNotFound("a new dataset has no such node", url=where.url, node=node, remedy=remedy)
    session = open_chosen(where, choice, settings, options)
    target, place, spec = follow(session, node or session.reader.main or "")
    if target is not session:  # a link led to another dataset, which is open by itself
        session.linked.keep(target)
        session.close()
    return Array(target, place, spec) if spec.is_array else Group(target, place)


def _open_in_its_group(
    where: Location, choice: FormatChoice, format: str | None, settings: Settings, options: Mapping[str, object]
) -> Array | None:
    """Open an array by its own place as one of the dataset around it, whose other arrays label it and whose
    consolidated metadata follows its changes; None for what is no such array.

    ``format``: the name that the user gave, if any: what is around an array may be of another format than it alone.
    """
    chosen, mode, probe = choice
    if mode in ("w", "x"):
        return None
    try:
        group_name = chosen.find_group_name(probe)
        if group_name is None:
            return None
        root = find_enclosing(where, (group_name,))
        if root is None:
            return None
        way = root.way_to(where)
        around, mode, known = choose_format(root, mode, format)
        # what was read of the array is newer than a copy of it
        known.seen.update({f"{way}/{name}": value for name, value in probe.seen.items()})
        found = _open(root, (around, mode, known), normalize(way), settings, options)
        if isinstance(found, Array):
            return found
        found.close()
    except HyperslabError:  # of a dataset that is damaged elsewhere, say: the array opens alone
        pass
    return None


def join(
    pieces: Target,
    along: str | Sequence[str] | None = None,
    *,
    packing: str = "same",
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Group:
    """Return several datasets as one, read-only; no cell is copied, and none is read but those of coordinates.

    ``pieces``: a list of places, or a path with ``*`` and ``?``, of datasets of any format that have the same arrays.
    ``along``: the dimensions that are joined; None finds them out: those whose labels differ from piece to piece, else
    the unlimited one. Pieces are put in the order of their labels, along one dimension without labels in that of the
    list. Times that are counted from other epochs are counted as in the first piece; arrays without a joined dimension
    are those of the first piece. ``packing``: ``"decoded"`` makes floats of arrays that pieces pack differently (by
    ``scale_factor``, ``_FillValue``). ``options`` as for :func:`open`.

    Invalid for pieces that overlap, leave a gap in a grid of several dimensions, or have other arrays, types,
    dimensions, labels, units, packing; Unsupported for other chunks.
    """
    where: Any = Location.matching(pieces, storage_options).with_join(along, packing)
    found = open(where, format="join", **options)
    assert isinstance(found, Group)  # which every joined dataset is
    return found


def open_group(url: Target, mode: UserMode = "r", **options: Any) -> Group:
    """Open a group as :func:`open` does; Invalid when it is an array.

    A dataset of one array is given as the group that holds the array and its coordinates.
    """
    node = open(url, mode, **options)
    if isinstance(node, Array) and not normalize(options.get("path", "")) and node.path == node._session.reader.main:
        return Group(node._session, "")
    if not isinstance(node, Group):
        raise Invalid("this is an array", url=node.url, remedy="use open_array")
    return node


def open_array(url: Target, mode: UserMode = "r", **options: Any) -> Array:
    """Open an array as :func:`open` does; Invalid when it is a group."""
    node = open(url, mode, **options)
    if not isinstance(node, Array):
        raise Invalid("this is a group", url=node.url, remedy=f"name one of its arrays by path=: {', '.join(node)}")
    return node


def create(url: Target, format: str | None = None, *, overwrite: bool = False, **options: Any) -> Group:
    """Make a new empty dataset; its format follows from the end of its name unless given. AlreadyExists when taken.

    ``options`` are those of :func:`open` and of the format, such as ``dialect`` or ``consolidated``; its page has them.
    """
    if "mode" in options:
        remedy = "overwrite=True replaces what is there; open(url, mode='a') changes it, or makes it"
        raise Invalid("create takes no mode", remedy=remedy)
    return _create(url, format, "w" if overwrite else "x", **options)


def _create(url: Any, format: str | None, mode: UserMode = "x", **options: Any) -> Group:
    """Make one as :func:`create` does; ``url`` may be a location."""
    root = open(url, mode, format=format, **options)
    if not isinstance(root, Group):
        raise Invalid("this format holds one array and no groups", url=root.url, remedy="choose another, such as zarr3")
    return root


def add_consolidated(where: Location, format: str | None, options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options of a new dataset that is made whole: in Zarr it ends with consolidated metadata, without which
    xarray's own engine warns at each opening, unless ``consolidated=False`` leaves it out."""
    chosen = get_format(format or format_for_new(where.url))
    # A repository has all documents in one object, and would take two writers of different nodes for a conflict.
    wants = chosen.traits.keeps_consolidated and not where.makes_commits
    return {"consolidated": True, **options} if wants else dict(options)


@contextmanager
def build_dataset(
    url: Target, format: str | None = None, *, overwrite: bool = False, **options: Any
) -> Iterator[Group]:
    """Make a dataset that stands at ``url`` once the block ends, whole, in place of the old one if ``overwrite``; in
    Zarr with consolidated metadata unless ``consolidated=False``.

    In a file system it is built beside its place, and nothing is left of it when the block fails; elsewhere it is built
    where it belongs. Errors as for :func:`create`.
    """
    where = Location.of(url, options.get("storage_options"))
    options = add_consolidated(where, format, options)
    path = local_path(url)
    if where.keeps_versions:
        with one_commit(where, "save") as place, _create(place, format, "w" if overwrite else "x", **options) as root:
            yield root
        return
    if path is None or not can_build(path):
        with create(url, format, overwrite=overwrite, **options) as root:
            yield root
        return
    where = Location.of(path)
    check_free(where, overwrite=overwrite)
    durable = options.pop("durable", True)  # all of it once, when it takes its place
    chosen = format or format_for_new(where.url)
    with (
        building(
            path, overwrite=overwrite, durable=durable, around=EnclosingDataset(where).follow_whole()
        ) as temporary,
        _create(unpublished(temporary), chosen, durable=False, **options) as root,
    ):
        yield root
    get_format(chosen).placed(where)


# -- versions ----------------------------------------------------------------------------------------------------------


@contextmanager
def one_commit(
    where: Location, message: str | None = None, metadata: Mapping[str, Any] | None = None, *, create: bool = True
) -> Iterator[Location]:
    """Yield a place in a repository whose changes become one commit when the block ends well; the repository is made
    where there is none, unless not ``create``."""
    with closing(where.store(read_only=False, create=create)) as store:
        try:
            with store.transaction(shared=True):
                store.describe_commit(message, metadata)
                yield Location.of(store)
        finally:
            if where.keeps_versions:  # else it is a store of the caller, who may go on
                store.end()


@contextmanager
def commit(
    url: Target,
    message: str,
    *,
    branch: str = MAIN,
    metadata: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Group]:
    """Change a repository by one commit: what the block makes of its arrays and groups shows when it ends well, all of
    it together; when it fails, nothing.

    Yields the root of the newest version of the branch; the repository is made where there is none. ``metadata``: what
    else the history is to say of the commit, as JSON values. ``options`` as for :func:`open`. What others have
    committed meanwhile stays, where it does not clash; Conflict names the nodes where it does, and nothing is
    committed. Unsupported for a place that keeps no versions; NotFound without such a branch.
    """
    where = Location.of(url, storage_options)
    if where.moment is None or branch != MAIN:
        where = where.as_of(branch)
    if not isinstance(message, str) or not message.strip():
        raise Invalid("a commit without a message", url=where.url, remedy="say what it changes, and why")
    repository = where.repository  # Unsupported for a place that is none
    if branch != MAIN and not repository.exists():
        raise NotFound("there is no repository to have branches", url=where.url, remedy=f"make it on {MAIN} first")
    with one_commit(where, message, metadata) as place:
        target: Any = place
        with open_group(target, "a", **options) as root:
            yield root


def history(
    url: Target, at: Moment | None = None, limit: int | None = None, *, storage_options: Mapping[str, Any] | None = None
) -> History:
    """Return the snapshots of a repository, the newest first: id, time, message, parent, metadata, tags and branches.

    ``at``: those that led to another version than the newest of ``main``: a time, a tag, a branch, or a snapshot.
    ``limit``: at most so many. Unsupported for a place that keeps no versions, NotFound.
    """
    where = Location.of(url, storage_options)
    return read_history(locate_version(where, at).repository if where.keeps_versions else where.repository, limit)


def list_formats() -> dict[str, FormatInfo]:
    """Return every format by name: what it holds, how it is recognised, whether it can be written, its variants and
    their features."""
    infos = {}
    for format in map(get_format, names()):
        # a format without variants is its own only variant
        variants = format.info.variants or (Variant(format.name, format.features),)
        infos[format.name] = replace(format.info, variants=variants)
    return infos


__all__ = [
    "build_dataset",
    "commit",
    "create",
    "history",
    "join",
    "list_formats",
    "open",
    "open_array",
    "open_group",
]
