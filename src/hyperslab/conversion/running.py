"""``convert``: read the documents, say the losses, write the documents, copy the cells, verify, put in place."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hyperslab import api
from hyperslab.conversion.job import Job, opened
from hyperslab.conversion.losses import refuse
from hyperslab.conversion.progress import Report, reporting
from hyperslab.conversion.report import ConversionReport
from hyperslab.conversion.selecting import Select
from hyperslab.conversion.settling import settle
from hyperslab.conversion.translate import Cutting
from hyperslab.conversion.walking import find_losses, plan_nodes, walk
from hyperslab.errors import AlreadyExists, Unsupported
from hyperslab.formats import format_for_new, get_format
from hyperslab.formats.base import Feature, Plans
from hyperslab.stores.building import building, local_path
from hyperslab.stores.location import Location

MEMORY = 256 << 20

_log = logging.getLogger("hyperslab")


def convert(
    src: api.Target,
    dst: api.Target,
    format: str | None = None,
    *,
    chunks: Mapping[str, int] | str | None = None,
    shards: Mapping[str, int] | str | None = None,
    codec: Any = None,
    select: Mapping[str, Any] | Select | None = None,
    overwrite: bool = False,
    progress: bool | Report | None = None,
    verify: bool = False,
    allow_loss: bool = False,
    memory: int = MEMORY,
) -> ConversionReport:
    """Copy the dataset ``src`` to ``dst`` in another format, or cut and encoded anew.

    ``format``: of the target; without it the end of its name tells. ``chunks``, ``shards``: lengths by dimension name
    (-1: the whole dimension) or ``"auto"``; without ``chunks`` the source's are kept where they suit. ``codec``: as in
    ``create_array``. ``select``: by dimension name, whole numbers are positions and anything else labels (slices of
    labels include their stop); it applies to every array that has the dimension, and one label drops the dimension.
    ``verify``: read both sides again and compare every cell by its bits, types, dimensions and attributes.
    ``memory``: bytes for cells in flight. ``progress``: True for a bar on a terminal, or a function of ``Progress``.

    Raises Unsupported with all losses before any cell is copied, unless ``allow_loss`` (then they are logged before);
    AlreadyExists unless ``overwrite``, which replaces the target once the new one is complete. An interrupted
    conversion leaves the target as it was (one in memory is emptied).
    """
    started = time.perf_counter()
    cutting = Cutting(chunks, shards, codec)
    chosen = get_format(format or format_for_new(_name(dst)))
    if shards is not None and Feature.SHARDS not in chosen.features:
        raise Unsupported(f"format {chosen.name} has no shards", remedy="leave shards= (--shards) out, or use zarr3")
    with opened(src) as source, target_place(dst, overwrite) as built:
        items = walk(source, "", Select.of(select), cutting)
        losses = find_losses(items, chosen.features)
        same = source.format.name == chosen.name
        planned = list(plan_nodes(items, cutting, chosen.features, same_format=same))
        with reporting(progress, "converting") as report, opened(built, mode="x", format=chosen.name) as target:
            writer = target.writer()
            planned, more = settle(planned, writer.new_array if isinstance(writer, Plans) else None)
            losses += more
            if losses and not allow_loss:
                raise refuse(losses, chosen.name)
            for loss in losses:
                _log.warning("lost in %s: %s", chosen.name, loss)
            job = Job(chosen, source, planned, memory)
            done = job.write(target, report)
        verified = job.verify(src, built) if verify else None
    seconds = time.perf_counter() - started
    return replace(job.summary(_name(dst), done), seconds=seconds, losses=losses, verified=verified)


@contextmanager
def target_place(dst: api.Target, overwrite: bool) -> Iterator[api.Target]:
    """Where to build: beside a local target, else in the target itself, which is emptied again when that fails."""
    path = local_path(dst)
    if path is not None:
        with building(path, overwrite=overwrite) as temporary:
            yield temporary
        return
    where = Location.of(dst)
    if where.exists() and not overwrite:
        raise AlreadyExists("the target exists", url=where.url, remedy="choose another, or overwrite=True")
    store = where.store(read_only=False, create=True)
    store.delete_prefix("")
    try:
        yield dst
    except BaseException:
        store.delete_prefix("")
        raise


def _name(dst: api.Target) -> str:
    """The target in messages and for its ending."""
    return str(getattr(dst, "url", None) or (os.fspath(dst) if isinstance(dst, os.PathLike) else dst))
