"""``convert``: read the documents, say the losses, write the documents, copy the cells, verify, put in place."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from hyperslab import api
from hyperslab.array import Array
from hyperslab.array.session import OpenDataset
from hyperslab.bridges.cluster import client_of
from hyperslab.chunks.auto import MANY
from hyperslab.chunks.progress import Progress, ProgressCallback, bar, reporting
from hyperslab.conversion.copy import SETTINGS, ArrayCopy, ConversionJob, CopyProgress, copy_arrays
from hyperslab.conversion.cost import estimate_cost
from hyperslab.conversion.journal import make_head
from hyperslab.conversion.opening import dataset_session, place_of_group, tree_session
from hyperslab.conversion.packing import Recoder
from hyperslab.conversion.packing import recode as recode_cells
from hyperslab.conversion.plan import MEMORY, DryRun, collect_nodes, write_documents
from hyperslab.conversion.plan import dry_run as plan_conversion
from hyperslab.conversion.rechunk import Encoding
from hyperslab.conversion.recoding import DerivedArrays, Recoding, add_arrays
from hyperslab.conversion.references import build_reference_map
from hyperslab.conversion.report import ConversionReport, Verification, describe_recut
from hyperslab.conversion.selection import Distances, Select
from hyperslab.conversion.source_nodes import (
    SourceDamage,
    SourceNode,
    drop_damaged,
    report_all_damage,
)
from hyperslab.conversion.staging import Head, StagedTarget, stage_target
from hyperslab.conversion.verify import verify_target
from hyperslab.errors import HyperslabError, Invalid, Problem, Unsupported
from hyperslab.formats import SCHEMES, format_for_new, get_format
from hyperslab.formats.base import Format, Moment
from hyperslab.formats.opening import check_replaceable, check_room, is_occupied, locate_version, refuse_moment
from hyperslab.group import Group
from hyperslab.group.choice import Choice, Patterns, Where
from hyperslab.model.amounts import counted, parse_size
from hyperslab.model.paths import split
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.building import already_exists
from hyperslab.stores.credentials import redact
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.endpoints import Options, two_sides
from hyperslab.stores.location import Location, Several
from hyperslab.stores.zip import ZipStore

_log = logging.getLogger("hyperslab")


def convert(
    src: api.Target | Group,
    dst: api.Target,
    format: str | None = None,
    *,
    path: str = "",
    chunks: Mapping[str, int] | str | None = None,
    shards: Mapping[str, int] | str | Literal[False] | None = None,
    codec: object = None,
    select: Mapping[str, object] | Select | None = None,
    method: Literal["nearest"] | None = None,
    tolerance: Distances | None = None,
    variables: Patterns | None = None,
    exclude: Patterns | None = None,
    where: Where | None = None,
    alone: bool = False,
    overwrite: bool = False,
    progress: bool | ProgressCallback | None = None,
    verify: bool = False,
    resume: bool = False,
    allow_loss: bool = False,
    skip_damaged: bool = False,
    memory: int | str = MEMORY,
    scheduler: object = None,
    storage_options: Options | tuple[Options, Options] = None,
    allow_external: Sequence[str] | bool = (),
    at: Moment | None = None,
    along: str | Sequence[str] | None = None,
    packing: str = "same",
    recode: Sequence[Recoder] = (),
    message: str | None = None,
    dry_run: bool = False,
    **layout: Any,
) -> ConversionReport:
    """Copy the dataset ``src``, or what ``join`` gave, to ``dst`` in another format, or cut and encoded anew.

    ``format``: of the target, else the end of its name tells. ``path``: the group that becomes the root, or an array
    with its companions. ``chunks``, ``shards``: lengths by dimension (-1: whole) or ``"auto"``, else as in the source
    where they suit; ``chunks`` also ``"same"``, ``shards`` ``"many"``, or False. ``codec``: as in ``create_array``,
    else the source's where the target has it. ``select``: by dimension name, whole numbers are positions, anything else
    labels (with their stop); one label drops the dimension; ``method``, ``tolerance``: as for ``sel``. ``variables``,
    ``exclude``: patterns over paths (``"t*"``, ``"ocean/**"``); ``where``: attributes (``{"units": "K"}``); their
    companions by CF come along, unless ``alone``. ``verify``: read and compare both sides. ``resume``: go on with an
    interrupted call. ``skip_damaged``: copy what can be read. ``memory``: bytes for cells in flight, or ``"1GB"``.
    ``scheduler``: a Client (or address) of dask.distributed. ``progress``: True for a bar, or a function of
    ``Progress``. ``storage_options``: for sides in the network, or a pair. ``allow_external``, ``at``: as for ``open``;
    ``along``, ``packing`` as for ``join``. ``recode``: :class:`.Pack` … ``message``: of a commit. ``layout``: options.
    ``dry_run``: write nothing, report the cost. Unsupported with all losses before anything is touched, unless
    ``allow_loss``; AlreadyExists unless ``overwrite``. Interrupted it leaves what was (nothing without renames).
    """
    source, target = _two_sides(place_of_group(src), dst, storage_options, along, packing, at)
    more = _only_set({"path": path, "allow_external": allow_external, "skip_damaged": skip_damaged})
    args: dict[str, Any] = {"source": source, "target": target, "path": path, "resume": resume, "named": format}
    args |= {"choice": Choice.of(variables, exclude, where, alone=alone), "overwrite": overwrite, "dry_run": dry_run}
    args |= {"select": Select.of(select, method, tolerance), "memory": parse_size(memory, "memory"), "verify": verify}
    args |= {"recoders": tuple(recode), "skip_damaged": skip_damaged, "allow_loss": allow_loss, "message": message}
    args |= {"format": format or format_for_new(target.url), "layout": api.add_consolidated(target, format, layout)}
    args["options"] = {"chunks": chunks, "shards": shards, "codec": codec, "allow_loss": allow_loss, **more}
    report = _run(_Request(**args, encoding=Encoding(chunks, shards, codec)), progress, scheduler)
    return replace(report, source=_display_place(src, source, at), target=_display_place(dst, target))


@dataclass(frozen=True)
class _Request:
    """The arguments of a conversion, checked and with their defaults.

    ``options``: what a resumed call has to repeat, as the journal keeps it; some of them only where they are set.
    ``named``: the format where the caller names it.
    """

    source: Location
    target: Location
    message: str | None
    encoding: Encoding
    select: Select
    choice: Choice
    recoders: tuple[Recoder, ...]
    memory: int
    format: str
    named: str | None
    path: str
    layout: Mapping[str, Any]
    options: Mapping[str, Any]
    resume: bool
    overwrite: bool
    allow_loss: bool
    skip_damaged: bool
    verify: bool
    dry_run: bool


def _find_foreign_files(source: OpenDataset, items: Sequence[SourceNode]) -> tuple[Problem, ...]:
    """Return what lies in the folders of nodes that are copied whole and belongs to no format."""
    if source.reader.store is None:
        return ()
    from hyperslab.integrity.foreign_files import find_foreign_files  # a file has no folders: it need not load Zarr

    # who takes some cells of an array does not wait until all its chunks are listed
    whole = (
        item.origin
        for item in items
        if item.whole and (not item.node.is_array or item.picked is None or item.picked.is_all(item.node.shape))
    )
    return tuple(find_foreign_files(source, whole))


def _run(request: _Request, progress: bool | ProgressCallback | None, scheduler: object) -> ConversionReport:
    """Do what is requested: plan and report the losses, then write, verify and publish the target."""
    started = time.perf_counter()
    require_disjoint(request.source, request.target)
    check_room(request.target)
    format = get_format(request.format).variant(request.layout)
    if request.encoding.shards not in (None, False, MANY):
        format.require_shards()
    with ExitStack() as stack:
        allowed = {name: value for name, value in request.options.items() if name == "allow_external"}
        source = stack.enter_context(dataset_session(request.source, options=allowed))
        if not request.path and source.reader.main is None and source.reader.node("").is_array:
            stack.enter_context(_name_dataset_around(request.source, allowed))
        items, made, damage = _collect_nodes(source, format, request)
        foreign = _find_foreign_files(source, items)
        references = build_reference_map(source, items, request.path, request.target)
        if references is not None:
            items = [replace(item, node=references.map_node(item.node)) for item in items]
        source = add_arrays(source, made)
        with report_all_damage(source, items):
            source, items, recodings = _recode(source, items, request, scheduler)
            plan = plan_conversion(
                source,
                items,
                request.encoding,
                format,
                request.target,
                allow_loss=request.allow_loss,
                memory=request.memory,
                options=request.layout,
                references=references,
            )
        _log_losses(plan, format, foreign)
        job = ConversionJob(format, source, plan.nodes, request.memory, request.layout, references, made, recodings)
        if request.dry_run:
            return replace(_estimate(job, request), losses=plan.losses, damaged=damage.problems, foreign=foreign)
        head: Head | None = None
        # What is one file in the end is written anew: only keys in a store can be kept one by one.
        if request.resume and plan.keyed:
            head = make_head(request.source, items, format.name, {**request.options, **request.layout})
        client = None
        if scheduler is not None:
            together = plan.keyed or format.traits.in_database
            client = stack.enter_context(_reach_cluster(request, scheduler, together=together))
        can_resume = plan.keyed and request.target.scheme != "zip" and not request.target.keeps_versions
        stack.enter_context(_log_resume_hint(request, resumable=can_resume))
        _check_overwrite(request)
        # Staging closes before the source does: the target is verified, put in its place, then all is let go.
        message = request.message or f"convert {_source_name(request.source)}"
        staged = stack.enter_context(
            stage_target(request.target, overwrite=request.overwrite, head=head, message=message)
        )
        with reporting(progress, "converting") as report, report_all_damage(source, items):
            done, copies = _write_target(job, staged, plan, request, report, client)
        verified = _verify(job, staged, plan, request, shows_bar=progress is True) if request.verify else None
    format.placed(request.target)
    summary = replace(_summary(job, request, done, copies), seconds=time.perf_counter() - started)
    return replace(summary, losses=plan.losses, damaged=damage.problems, foreign=foreign, verified=verified)


def _warn_of_unnamed_format(source: OpenDataset, format: Format, request: _Request) -> None:
    """Warn that a database becomes a dataset of another format where nothing names the target's."""
    target = request.target
    is_named = request.named or request.path or target.suffix or target.keeps_versions or target.scheme in SCHEMES
    if source.format.traits.has_collections and not is_named:
        message = "%s becomes %s, collections its groups; format='collections' (--format) makes a database"
        _log.warning(message, request.target.url, format.name)


def _reach_cluster(request: _Request, scheduler: object, *, together: bool) -> AbstractContextManager[object]:
    """Return the client of a cluster whose workers reach both sides; ``together``: they write one target."""
    from hyperslab.conversion.distributed import require_reachable  # on use: with it comes asyncio

    require_reachable(request.source, request.target, together=together)
    return client_of(scheduler)


def _recode(
    source: OpenDataset, items: list[SourceNode], request: _Request, scheduler: object
) -> tuple[OpenDataset, list[SourceNode], list[Recoding]]:
    """Return the source and the nodes with the cells that they are to have; Unsupported on a cluster, which does not
    know them."""
    if request.recoders and scheduler is not None:
        raise Unsupported("workers of a cluster copy cells as they are", remedy="leave scheduler= (--scheduler) out")
    return recode_cells(source, items, request.recoders, request.memory)


def _log_losses(plan: DryRun, format: Format, foreign: Sequence[Problem]) -> None:
    for loss in plan.losses:
        _log.warning("lost in %s: %s", format.name, loss)
    for each in foreign:
        _log.warning("not copied: %s", each)


def _check_overwrite(request: _Request) -> None:
    """Raise FormatError for a target that an overwrite would replace, and that is no dataset."""
    if request.overwrite and is_occupied(request.target):
        check_replaceable(request.target)


def _estimate(job: ConversionJob, request: _Request) -> ConversionReport:
    """Return the report of a conversion that is not done, with its cost; AlreadyExists where a target is in the way."""
    if not request.overwrite and is_occupied(request.target):
        raise already_exists(request.target.url)
    _check_overwrite(request)
    cost = estimate_cost(job, request.target, SETTINGS)
    summary = _summary(job, request, Progress(0, 0, 0, 0), ())
    return replace(summary, cost=cost, nbytes=cost.nbytes, chunks=sum(each.written for each in cost.arrays))


def _summary(job: ConversionJob, request: _Request, done: Progress, copies: Sequence[ArrayCopy]) -> ConversionReport:
    """Return the report of what was written."""
    kinds = [type(plan.node) for plan in job.nodes]
    return ConversionReport(
        source=job.source.url,
        target=request.target.url,
        format=job.format.name,
        groups=kinds.count(GroupSpec),
        arrays=kinds.count(ArraySpec),
        links=kinds.count(Link),
        chunks=done.done_chunks,
        shards=sum(copy.chunks for copy in copies if copy.target_spec.inner_chunks is not None),
        nbytes=done.done_bytes,
        resumed_nbytes=done.resumed_bytes,
        recut=tuple(describe_recut(copies, request.encoding)),
        recoded=tuple(change.line for recoding in job.recodings for change in recoding.values()),
        companions=tuple(plan.source.path for plan in job.nodes if plan.source.is_companion),
    )


@contextmanager
def _name_dataset_around(where: Location, options: Mapping[str, Any]) -> Iterator[None]:
    """Log which coordinates an array leaves behind that is converted by its own place within a dataset, and name that
    dataset in an error that refuses an array without a group."""
    with tree_session(where, options=options) as (session, path):
        beside = _coordinates_beside(Array(session, path, session.array(path))) if path else []
    remedy = f"convert {session.url} with path={path!r} (--path {path})"
    if beside:
        _log.warning("the coordinates %s of /%s are left out; to keep them %s", ", ".join(beside), path, remedy)
    try:
        yield
    except (Invalid, Unsupported) as error:
        if path and error.node == "":
            error.remedy = f"{remedy}, or write the array with get -o"
        raise


def _coordinates_beside(array: Array) -> list[str]:
    """Return the names of the coordinates of an array's dimensions that stand in its group."""
    group, found = Group(array._session, split(array.path)[0]), []
    for name in dict.fromkeys(filter(None, array.dims)):
        with suppress(HyperslabError):  # a damaged one is no part of what is converted
            if name != array.name and name in group and group[name].dims == (name,):
                found.append(name)
    return found


@contextmanager
def _log_resume_hint(request: _Request, *, resumable: bool) -> Iterator[None]:
    """Log, at Ctrl-C, how to go on where nothing was kept."""
    try:
        yield
    except KeyboardInterrupt:
        if not (request.resume and resumable):
            how = "with resume=True (--resume) what is done is kept for the next call" if resumable else "begin anew"
            _log.warning("interrupted: nothing of %s is kept; %s", request.target.url, how)
        raise


def _collect_nodes(
    source: OpenDataset, format: Format, request: _Request
) -> tuple[list[SourceNode], DerivedArrays, SourceDamage]:
    """Return the nodes that are converted, the arrays that are made among them, and the damage that was left out.

    Damage is an error unless the caller asked to leave it out.
    """
    _warn_of_unnamed_format(source, format, request)
    damage = SourceDamage()
    items, made = collect_nodes(
        source,
        format,
        damage,
        path=request.path,
        select=request.select,
        encoding=request.encoding,
        skip_damaged=request.skip_damaged,
        choice=request.choice,
    )
    if request.skip_damaged:
        items = drop_damaged(add_arrays(source, made), items, damage)
    return items, made, damage


def _write_target(
    job: ConversionJob, staged: StagedTarget, plan: DryRun, request: _Request, report: ProgressCallback, client: object
) -> tuple[Progress, list[ArrayCopy]]:
    """Write the documents, then the cells. Return how far it came, and the copies of the arrays."""
    with dataset_session(
        staged.place, mode="r+" if staged.has_documents else staged.mode, format=job.format.name, options=request.layout
    ) as target:
        if not staged.has_documents:
            write_documents(target, plan.nodes)
            staged.documents_written()
        copies = job.copies(target)
        progress = CopyProgress(copies, report, staged.journal)
        try:
            if client is None:
                copy_arrays(copies, progress, SETTINGS)
            else:
                from hyperslab.conversion.distributed import copy_distributed

                # as workers reach it: in a database it has another name until it is complete
                reachable = staged
                if target.origin is not None and target.format.traits.in_database:
                    reachable = replace(staged, where=target.origin.where)
                copy_distributed(client, copies, progress, request.source, reachable, job.format.name)
        finally:
            if staged.journal is not None:
                staged.journal.write()
    return progress.current, copies


def _verify(
    job: ConversionJob, staged: StagedTarget, plan: DryRun, request: _Request, *, shows_bar: bool
) -> Verification:
    with bar(shows_bar, "verifying") as report:
        return verify_target(job, request.source, staged, report, keyed=plan.keyed)


def _two_sides(
    src: api.Target,
    dst: api.Target,
    options: Options | tuple[Options, Options],
    along: str | Sequence[str] | None,
    packing: str,
    at: Moment | None,
) -> tuple[Location, Location]:
    """Return the places of the source, joined or as of a moment where that is wanted, and of the target."""
    source, target = two_sides(src, dst, options)
    refuse_moment(target)
    if along is not None or packing != "same":
        source = source.with_join(along, packing)
    return locate_version(source, at), target


def _display_place(side: api.Target | Group, where: Location, at: Moment | None = None) -> str:
    """Return a side as the caller gave it, without secrets; that of a moment as the URL that says so."""
    return redact(os.fspath(side)) if at is None and isinstance(side, str | os.PathLike) else where.url


def _source_name(where: Location) -> str:
    """Return what a commit calls the source: its name, or how many pieces are joined and from which one to which."""
    if not isinstance(where.target, Several):
        return where.name
    names = [place.name for place in where.target.places]
    return names[0] if len(names) == 1 else f"{counted(len(names), 'piece')}, {names[0]} to {names[-1]}"


def _only_set(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that are set."""
    return {name: value for name, value in options.items() if value}


# -- source and target in one place ------------------------------------------------------------------------------------


_ELSEWHERE = "choose another target, and put it in the source's place yourself afterwards"


def require_disjoint(source: Location, target: Location) -> None:
    """Raise Invalid when source and target are one place, or one lies within the other, however they are spelled."""
    there = _place_parts(target)
    for place in source.target.places if isinstance(source.target, Several) else (source,):
        here = _place_parts(place)
        if here == there:
            raise Invalid("the source and the target are the same place", url=target.url, remedy=_ELSEWHERE)
        if there[: len(here)] == here:
            raise Invalid("the target lies within the source", url=target.url, remedy=_ELSEWHERE)
        if here[: len(there)] == there:
            message = f"the source {place.url} lies within the target"
            raise Invalid(message, url=target.url, remedy=_ELSEWHERE)


def _place_parts(where: Location) -> tuple[str, ...]:
    """Return what tells a place from others, from the widest to the narrowest.

    Symbolic links are followed, the endings of URLs and those who log in do not count.
    """
    store = where.target if where.scheme == "store" else None
    if isinstance(store, DirectoryStore | ZipStore):
        return _place_parts(Location.of(store.url))
    if where.path is not None:
        return ("file", *os.path.realpath(where.path).split(os.sep))
    if store is not None:
        return ("store", str(id(store)))
    if where.scheme == "memory":
        return ("memory", *where.target.strip("/").split("/"))
    url = urlsplit(where.target)
    host = url.netloc.rpartition("@")[2]
    server = where.scheme, str(where.options.get("endpoint", "")), host
    return (
        *server,
        *(part for part in unquote(url.path).split("/") if part),
        *([dict(parse_qsl(url.query)).get("collection", "xarray")] if where.scheme in SCHEMES else []),
        *([url.fragment] if url.fragment else []),
    )
