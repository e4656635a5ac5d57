"""``convert``: read the documents, say the losses, write the documents, copy the cells, verify, put in place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from hyperslab import api
from hyperslab.array.session import Session
from hyperslab.chunks.settings import Settings
from hyperslab.conversion.copying import ArrayCopy, Counter, copy_arrays
from hyperslab.conversion.losses import refuse
from hyperslab.conversion.place import building, local_path
from hyperslab.conversion.progress import Progress, Report, reporting
from hyperslab.conversion.report import ConversionReport, Verification
from hyperslab.conversion.selecting import Select
from hyperslab.conversion.translate import Cutting
from hyperslab.conversion.verifying import compare_cells, compare_documents
from hyperslab.conversion.walking import Planned, find_losses, plan_nodes, walk
from hyperslab.errors import AlreadyExists, FormatError, HyperslabError
from hyperslab.formats import format_for_new, get_format
from hyperslab.formats.base import Feature, Format
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location

MEMORY = 256 << 20


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

    Raises Unsupported with all losses before anything is written, unless ``allow_loss``; AlreadyExists unless
    ``overwrite``, which replaces the target once the new one is complete. An interrupted conversion leaves the target
    as it was.
    """
    started = time.perf_counter()
    cutting = Cutting(chunks, shards, codec)
    chosen = get_format(format or format_for_new(_name(dst)))
    with opened(src) as source, target_place(dst, overwrite) as place:
        items = walk(source, "", Select.of(select), cutting)
        losses = find_losses(items, chosen.features)
        if losses and not allow_loss:
            raise refuse(losses, chosen.name)
        same = source.format.name == chosen.name
        planned = list(plan_nodes(items, cutting, chosen.features, same_format=same))
        job = Job(source, chosen, planned, memory)
        with reporting(progress, "converting") as report:
            counts = job.write(place, report)
        verified = job.verify(src, place) if verify else None
    return ConversionReport(
        source=source.url,
        target=_name(dst),
        format=chosen.name,
        groups=sum(isinstance(plan.node, GroupSpec) for plan in planned),
        arrays=sum(isinstance(plan.node, ArraySpec) for plan in planned),
        links=sum(isinstance(plan.node, Link) for plan in planned),
        chunks=counts.done_chunks,
        nbytes=counts.done_bytes,
        seconds=time.perf_counter() - started,
        losses=losses,
        verified=verified,
    )


@dataclass(frozen=True, eq=False)
class Job:
    """One conversion: from an open source, by a plan of nodes, into a place."""

    source: Session
    format: Format
    planned: list[Planned]
    memory: int

    def write(self, place: api.Target, report: Report) -> Progress:
        """Documents first, then cells; the place holds the whole dataset afterwards."""
        settings = Settings(cache_bytes=0, durable=False)
        with opened(place, mode="x", format=self.format.name, durable=False) as target:
            self._put_documents(target)
            copies = self._copies(self.source, target)
            now = Progress(0, sum(copy.nbytes for copy in copies), 0, sum(copy.chunks for copy in copies))
            report(now)

            def done(nbytes: int, chunks: int) -> None:
                nonlocal now
                now = now.advanced(nbytes, chunks)
                report(now)

            copy_arrays(copies, settings, done)
        os.sync()
        return now

    def _put_documents(self, target: Session) -> None:
        writer: Any = target.writer()
        adapt: Callable[[ArraySpec], ArraySpec] | None = getattr(writer, "new_array", None)
        batch = getattr(writer, "batch", nullcontext)
        with batch():
            for plan in self.planned:
                spec = plan.node
                try:
                    if isinstance(spec, ArraySpec) and not plan.settled and adapt is not None:
                        spec = adapt(spec)
                    writer.put(plan.item.path, spec)
                except HyperslabError as error:
                    raise error.locate(url=target.url, node=plan.item.path) from error.__cause__

    def _copies(self, source: Session, target: Session) -> list[ArrayCopy]:
        copies = []
        for plan in self.planned:
            if isinstance(plan.node, ArraySpec) and isinstance(plan.item.node, ArraySpec) and plan.item.picked:
                path = plan.item.path
                written = target.reader.node(path)
                if not isinstance(written, ArraySpec):
                    raise FormatError("the array was not made", url=target.url, node=path)
                chunks = source.reader.chunks(path), target.reader.chunks(path)
                spec = plan.item.node
                copies.append(ArrayCopy(path, plan.item.picked, chunks[0], spec, chunks[1], written, self.memory))
        return copies

    def verify(self, src: api.Target, place: api.Target) -> Verification:
        """Open both sides anew and compare them; raises at the first node that differs."""
        settings = Settings(cache_bytes=0)
        seen: list[int] = []
        count = Counter(lambda nbytes, chunks: seen.append(nbytes))
        names = Feature.DIMENSIONS in self.format.features
        attributes = 0
        with opened(src) as source, opened(place, format=self.format.name) as target:
            for plan in self.planned:
                found = target.reader.node(plan.item.path)
                if isinstance(plan.node, Link):
                    if found != plan.node:
                        raise FormatError("the link differs", url=target.url, node=plan.item.path)
                else:
                    attributes += compare_documents(plan.item.path, plan.node, found, names)
            copies = self._copies(source, target)
            for copy in copies:
                compare_cells(copy, settings, count)
        return Verification(
            groups=sum(isinstance(plan.node, GroupSpec) for plan in self.planned),
            arrays=len(copies),
            attributes=attributes,
            cells=sum(copy.nbytes // max(copy.target_spec.numpy_dtype.itemsize, 1) for copy in copies),
            nbytes=sum(seen),
        )


@contextmanager
def opened(url: api.Target, **options: Any) -> Iterator[Session]:
    """A dataset's session; closed afterwards, or discarded where what was written is not whole."""
    node = api.open(url, cache_bytes=0, **options)
    session = node._session
    try:
        yield session
    except BaseException:
        discard = getattr(session.reader, "discard", session.reader.close)
        discard()
        raise
    session.reader.close()


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
    where.store(read_only=False, create=True).delete_prefix("")
    try:
        yield dst
    except BaseException:
        where.store(read_only=False, create=True).delete_prefix("")
        raise


def _name(dst: api.Target) -> str:
    """The target in messages and for its ending."""
    return str(getattr(dst, "url", None) or (os.fspath(dst) if isinstance(dst, os.PathLike) else dst))
