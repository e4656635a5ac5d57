"""``convert``: read the documents, say the losses, write the documents, copy the cells, verify, put in place."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from hyperslab import api
from hyperslab.array.session import OpenDataset
from hyperslab.bridges.cluster import client_of
from hyperslab.chunks.progress import Progress, Report, bar, reporting
from hyperslab.conversion.columns import Columns, in_columns, with_columns
from hyperslab.conversion.damage import SourceDamage
from hyperslab.conversion.dry_run import Rehearsal, put_documents, rehearse
from hyperslab.conversion.fingerprint import head_of
from hyperslab.conversion.job import SETTINGS, CopyProgress, Job, copy_arrays
from hyperslab.conversion.opening import opened
from hyperslab.conversion.overlap import refuse_overlap
from hyperslab.conversion.parts import parts_of
from hyperslab.conversion.pointing import pointing_of
from hyperslab.conversion.recut import recut_notes
from hyperslab.conversion.report import ConversionReport
from hyperslab.conversion.scan_damage import readable, told_whole
from hyperslab.conversion.selecting import Select
from hyperslab.conversion.sizes import parse_size
from hyperslab.conversion.spreading import refuse_unreachable, spread
from hyperslab.conversion.staged_target import Head, StagedTarget, site_of
from hyperslab.conversion.translate import Cutting
from hyperslab.conversion.verifying import verify as verify_target
from hyperslab.conversion.walking import Item, walk, with_markers
from hyperslab.errors import Unsupported
from hyperslab.formats import format_for_new, get_format
from hyperslab.formats.base import Feature, Format, InDatabase, KnowsItsPlace, Varies
from hyperslab.stores.endpoints import Options, two_sides
from hyperslab.stores.location import Location
from hyperslab.stores.redaction import redact

MEMORY = 256 << 20

_log = logging.getLogger("hyperslab")


def convert(
    src: api.Target,
    dst: api.Target,
    format: str | None = None,
    *,
    path: str = "",
    chunks: Mapping[str, int] | str | None = None,
    shards: Mapping[str, int] | str | None = None,
    codec: Any = None,
    select: Mapping[str, Any] | Select | None = None,
    overwrite: bool = False,
    progress: bool | Report | None = None,
    verify: bool = False,
    resume: bool = False,
    allow_loss: bool = False,
    skip_damaged: bool = False,
    memory: int | str = MEMORY,
    scheduler: Any = None,
    storage_options: Options | tuple[Options, Options] = None,
    allow_external: Sequence[str] | bool = (),
    **layout: Any,
) -> ConversionReport:
    """Copy the dataset ``src`` to ``dst`` in another format, or cut and encoded anew.

    ``format``: of the target, else the end of its name tells. ``path``: the group that becomes the target's root, or
    the array that is copied with its coordinates; a target that holds one array needs it where there are several.
    ``chunks``, ``shards``: lengths by dimension name (-1: the whole) or ``"auto"``, else as in the source where it
    suits. ``codec``: as in ``create_array``, else the source's where the target has it. ``select``: by dimension name,
    whole numbers are positions, anything else labels (slices of labels include their stop); one label drops the
    dimension. ``verify``: read both sides again and compare all. ``resume``: go on where an interrupted call stopped.
    ``skip_damaged``: read the source once before, and leave out what of it cannot be read. ``memory``: bytes for cells
    in flight (per process), or text such as ``"1GB"``. ``scheduler``: a dask.distributed Client (or address) whose
    workers copy. ``progress``: True for a bar on a terminal, or a function of ``Progress``. ``storage_options``: for
    sides in the network, or a pair of them. ``allow_external``: of the source, as for ``open``: links to there are led
    there from the target. ``layout``: what the target's format takes as options of its own.

    Raises Unsupported with all losses before anything is touched, unless ``allow_loss`` (then they are logged before);
    AlreadyExists unless ``overwrite``, which replaces the target once the new one is complete; errors of damage list
    all of it. An interrupted conversion leaves the target as it was (a store without renames: empty, where something
    was to be replaced). Invalid when one side lies in the other, or when it cannot be resumed.
    """
    started, wishes = time.perf_counter(), {"chunks": chunks, "shards": shards, "codec": codec}
    said = _said(path=path, allow_external=allow_external, skip_damaged=skip_damaged)
    flags = {"resume": resume, "overwrite": overwrite, "allow_loss": allow_loss, "skip_damaged": skip_damaged}
    source, target = two_sides(src, dst, storage_options)
    order = _Order(
        source=source,
        target=target,
        cutting=Cutting(**wishes),
        select=Select.of(select),
        memory=parse_size(memory, "memory"),
        format=format or format_for_new(target.url),
        path=path,
        layout=(layout := api.whole_options(target, format, layout)),
        options={**wishes, "allow_loss": allow_loss, **said, **layout},
        verify=verify,
        **flags,
    )
    report = replace(_run(order, progress, scheduler), source=_typed(src, source), target=_typed(dst, target))
    return replace(report, seconds=time.perf_counter() - started)


@dataclass(frozen=True)
class _Order:
    """What is to be done."""

    source: Location
    target: Location
    cutting: Cutting
    select: Select
    memory: int
    format: str
    path: str
    layout: Mapping[str, Any]
    options: Mapping[str, Any]
    resume: bool
    overwrite: bool
    allow_loss: bool
    skip_damaged: bool
    verify: bool

    @property
    def reading(self) -> dict[str, Any]:
        """How the source is opened."""
        return {name: self.options[name] for name in ("allow_external",) if name in self.options}


def _run(order: _Order, progress: bool | Report | None, scheduler: Any) -> ConversionReport:
    refuse_overlap(order.source, order.target)
    chosen = get_format(order.format)
    if isinstance(chosen, Varies):
        chosen = chosen.variant(order.layout)
    if order.cutting.shards is not None and Feature.SHARDS not in chosen.features:
        raise Unsupported(f"format {chosen.name} has no shards", remedy="leave shards= (--shards) out, or use zarr3")
    with ExitStack() as held:
        source = held.enter_context(opened(order.source, **order.reading))
        items, columns, damage = _items(source, chosen, order)
        pointing = pointing_of(source, items, order.path, order.target)
        if pointing is not None:
            items = [replace(item, node=pointing.node(item.node)) for item in items]
        source = with_columns(source, columns)
        target, cutting, lossy = order.target, order.cutting, order.allow_loss
        asked: dict[str, Any] = {"allow_loss": lossy, "options": order.layout, "pointing": pointing}
        with told_whole(source, items):
            plan = rehearse(source, items, cutting, chosen, target, **asked)
        for loss in plan.losses:
            _log.warning("lost in %s: %s", chosen.name, loss)
        head: Head | None = None
        if order.resume and plan.keyed:
            head = head_of(order.source, items, chosen.name, order.options)
        client = None
        if scheduler is not None:
            refuse_unreachable(order.source, order.target, together=plan.keyed or isinstance(chosen, InDatabase))
            client = held.enter_context(client_of(scheduler))
        held.enter_context(_hint(order, resumable=plan.keyed and order.target.scheme != "zip"))
        site = held.enter_context(site_of(order.target, overwrite=order.overwrite, head=head))
        job = Job(chosen, source, plan.planned, order.memory, order.layout, pointing, columns)
        with reporting(progress, "converting") as report, told_whole(source, items):
            done = _write(job, site, plan, order, report, client)
        verified = None
        if order.verify:
            with bar(progress is True, "verifying") as report:
                verified = verify_target(job, order.source, site, report, keyed=plan.keyed)
    if isinstance(chosen, KnowsItsPlace):
        chosen.placed(order.target)
    return replace(job.summary(order.target.url, *done), losses=plan.losses, damaged=damage.problems, verified=verified)


@contextmanager
def _hint(order: _Order, *, resumable: bool) -> Iterator[None]:
    """Say, at Ctrl-C, how to go on where nothing was kept."""
    try:
        yield
    except KeyboardInterrupt:
        if not (order.resume and resumable):
            how = "with resume=True (--resume) what is done is kept for the next call" if resumable else "begin anew"
            _log.warning("interrupted: nothing of %s is kept; %s", order.target.url, how)
        raise


def _items(source: OpenDataset, format: Format, order: _Order) -> tuple[list[Item], Columns, SourceDamage]:
    """What is converted; what cannot be read is refused, or left out where that was asked for."""
    damage = SourceDamage()
    parts = parts_of(source, order.path, format.features, damage)
    if damage and not order.skip_damaged:
        damage.refuse()
    parts, columns = in_columns(parts, format.features)
    source = with_columns(source, columns)
    items = with_markers(source, walk(source, parts, order.select, order.cutting), format)
    return (readable(source, items, damage) if order.skip_damaged else items), columns, damage


def _write(
    job: Job, site: StagedTarget, plan: Rehearsal, order: _Order, report: Report, client: Any
) -> tuple[Progress, tuple[str, ...]]:
    """Documents first, then cells. How far it came, and what is cut otherwise than asked."""
    with opened(site.place, mode="r+" if site.begun else site.mode, format=job.format.name, **order.layout) as target:
        if not site.begun:
            put_documents(target, plan.planned)
            site.documents_written()
        copies = job.copies(target)
        tally = CopyProgress(copies, report, site.journal)
        try:
            if client is None:
                copy_arrays(copies, tally, SETTINGS)
            else:
                spread(client, copies, tally, order.source, _reached(site, target), job.format.name)
        finally:
            if site.journal is not None:
                site.journal.write()
    return tally.now, tuple(recut_notes(copies, order.cutting))


def _reached(site: StagedTarget, target: OpenDataset) -> StagedTarget:
    """The target as workers reach it: what is made in a database has another name until it is complete."""
    if target.origin is None or not isinstance(target.format, InDatabase):
        return site
    return replace(site, where=target.origin.where)


def _said(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value}


def _typed(side: api.Target, where: Location) -> str:
    """A side as it was given, without secrets."""
    return redact(os.fspath(side)) if isinstance(side, str | os.PathLike) else where.url
