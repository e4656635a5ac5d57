"""A target on trial, in memory or in a file of its own: what it takes, what is lost, how its documents will read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np

from hyperslab.array.missing import FILL
from hyperslab.array.session import OpenDataset
from hyperslab.chunks.source import CarriesBlosc, ChunkSource, ListsChunks
from hyperslab.conversion.adapt_to_target import settle
from hyperslab.conversion.dimension_names import disambiguate
from hyperslab.conversion.fitting import fitted
from hyperslab.conversion.labelling import chosen_labels, labels_of
from hyperslab.conversion.losses import Loss, refuse
from hyperslab.conversion.measuring import with_room_for_text, without_unspellable
from hyperslab.conversion.opening import opened
from hyperslab.conversion.pointing import Pointing
from hyperslab.conversion.single_array_target import refuse_lost, refuse_unheld
from hyperslab.conversion.translate import Cutting
from hyperslab.conversion.translate_codecs import stored_alike
from hyperslab.conversion.walking import Item, Planned, find_losses, overlooked, plan_nodes
from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.formats.base import Batches, Feature, Format, InDatabase, Plans, TakesLabels
from hyperslab.formats.netcdf.document import default_fill
from hyperslab.formats.zarr.dialect import FormatOfDocuments
from hyperslab.formats.zarr2.document import UNWRITTEN
from hyperslab.model.cells import as_type
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What is to be written and what is lost by it. ``keyed``: whether the format keeps its values under the keys of a
    store, each for itself; else its file is published when it is closed."""

    planned: list[Planned]
    losses: tuple[Loss, ...]
    keyed: bool


def rehearse(
    source: OpenDataset,
    items: list[Item],
    cutting: Cutting,
    format: Format,
    where: Location,
    *,
    allow_loss: bool,
    options: Mapping[str, Any] = MappingProxyType({}),
    pointing: Pointing | None = None,
) -> Rehearsal:
    """Ask the format of every node; nothing is touched at ``where``. ``pointing``: what becomes of references.
    Unsupported with all losses, unless allowed."""
    same = source.format == format
    items = fitted(source, items, format.features, pointing)
    refuse_unheld(items, format)
    losses = find_losses(items, format.features, as_it_is=same and not cutting.asks)
    features = format.features
    if format.name == "blaze" and options:  # which say how its arrays are stored: what they were stored by gives way
        same, features = False, features - {Feature.SHARDS}
    planned = list(plan_nodes(items, cutting, features, same_format=same))
    if isinstance(format, TakesLabels):
        planned = [_labelled(source, each) for each in planned]
    if format.name == "zarr2":
        planned = [_masking(source, each) for each in planned]
    with _trial(format, where, options) as (plans, keyed):
        if isinstance(plans, Plans):
            planned = [stored_alike(each, cutting, format, plans.new_array) for each in planned]
        planned, unheld = with_room_for_text(source, planned, plans, pointing)
        adapt = plans.new_array if isinstance(plans, Plans) else None
        planned, unspelled = without_unspellable(source, planned, adapt)
        planned, more = settle(planned, adapt, varies=bool(options))
        more = unheld + unspelled + more
    refuse_lost(items, planned, more, format)
    losses += more + overlooked(source.reader, items)
    if losses and not allow_loss:
        raise refuse(losses, format.name)
    return Rehearsal(planned, losses, keyed)


def _labelled(source: OpenDataset, planned: Planned) -> Planned:
    """With the labels of coordinate arrays, for a target whose arrays say their labels themselves."""
    spec, item = planned.node, planned.item
    if not isinstance(spec, ArraySpec) or not isinstance(item.node, ArraySpec) or item.picked is None:
        return planned
    labels = chosen_labels(labels_of(source, item.origin, item.node), item.node.dims, item.picked)
    return replace(planned, node=spec.evolve(indexes=labels))


def _masking(source: OpenDataset, planned: Planned) -> Planned:
    """Have readers of Zarr v2, who take its fill value for the marker of missing cells, mask what the source marks.

    A fill value of zero is left out: unwritten cells are zero without it. So is the one that netCDF gives variables
    without ``_FillValue``, unless the source leaves chunks unwritten: a copy with another fill value writes every
    chunk. Any other gives way to ``_FillValue``, or is said to mean nothing missing.
    """
    spec, there = planned.node, planned.item.node
    if not isinstance(spec, ArraySpec) or not isinstance(there, ArraySpec) or spec.numpy_dtype.kind not in "biufc":
        return planned
    if source.format.name == "zarr2":
        is_unwritten = UNWRITTEN in there.layout
    elif spec.fill_value is None or (marker := _marker_of(spec)) == spec.fill_value:
        return planned
    elif not any(spec.fill_cell().tobytes()):
        return replace(planned, node=spec.evolve(fill_value=None))
    elif marker is not None:
        return replace(planned, node=spec.evolve(fill_value=marker))
    elif spec.fill_value == default_fill(spec.dtype) and _has_every_chunk(source.reader.chunks(planned.item.origin)):
        return replace(planned, node=spec.evolve(fill_value=None))
    else:
        is_unwritten = None not in spec.dims
    return replace(planned, node=spec.evolve(layout={**spec.layout, UNWRITTEN: True})) if is_unwritten else planned


def _has_every_chunk(source: ChunkSource) -> bool:
    """Return whether a copy of the source stores every chunk: unwritten ones stay unwritten only where stored chunks
    are copied as they are."""
    if not (isinstance(source, CarriesBlosc) and isinstance(source, ListsChunks)):
        return True
    counts = source.grid.counts  # chunks beyond them, which a killed append left, are none of the array
    inside = (all(at < count for at, count in zip(coords, counts, strict=True)) for coords in source.stored())
    return sum(inside) == source.grid.size


def _marker_of(spec: ArraySpec) -> Any:
    """Return ``_FillValue`` as a cell; None where it is no one value that a cell can have."""
    said = np.asarray(spec.attrs.get(FILL, ""))
    if said.size != 1 or said.dtype.kind not in "biufc":
        return None
    marker = as_type(said.reshape(()), spec.numpy_dtype)[()]
    return marker if marker == said or (marker != marker and said != said) else None


@contextmanager
def _trial(format: Format, where: Location, options: Mapping[str, Any]) -> Iterator[tuple[Any, bool]]:
    """What tells how the format takes arrays, and whether it keeps values under keys."""
    if isinstance(format, InDatabase):
        yield format, False
        return
    try:
        trial = opened(MemoryStore(), mode="x", format=format.name, **options)
        target = trial.__enter__()
    except HyperslabError as error:
        if where.scheme != "file" or not isinstance(error, Unsupported):
            error.url = where.url
            raise
    else:
        try:
            yield target.writer(), isinstance(format, FormatOfDocuments)
        finally:
            trial.__exit__(None, None, None)
        return
    with (
        TemporaryDirectory() as folder,
        _told_as(where, folder),
        opened(Path(folder) / "trial", mode="x", format=format.name, **options) as target,
    ):
        yield target.writer(), False


@contextmanager
def _told_as(where: Location, folder: str) -> Iterator[None]:
    """What is said of the trial's file is said of the target."""
    try:
        yield
    except HyperslabError as error:
        if error.url is not None and error.url.startswith(folder):
            error.url = where.url
        raise


def put_documents(target: OpenDataset, planned: Sequence[Planned]) -> None:
    """Write the documents of all nodes."""
    writer = target.writer()
    with writer.batch() if isinstance(writer, Batches) else nullcontext():
        for plan in disambiguate(planned, target.format):
            try:
                writer.put(plan.item.path, plan.node)
            except HyperslabError as error:
                raise error.locate(url=target.url, node=plan.item.path) from error.__cause__


def documents_of(
    format: Format, planned: Sequence[Planned], options: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, bytes]:
    """The documents of a keyed format by key, byte by byte as a conversion writes them."""
    store = MemoryStore()
    with opened(store, mode="x", format=format.name, **options) as target:
        put_documents(target, planned)
    return {key: value for key in store.list() if (value := store.get(key)) is not None}
