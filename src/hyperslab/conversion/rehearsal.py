"""A target on trial, in memory or in a file of its own: what it takes, what is lost, how its documents will read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from hyperslab.array.session import Session
from hyperslab.conversion.alone import refuse_lost, refuse_unheld
from hyperslab.conversion.dimension_names import told_apart
from hyperslab.conversion.fitting import fitted
from hyperslab.conversion.labelling import chosen_labels, labels_of
from hyperslab.conversion.losses import Loss, refuse
from hyperslab.conversion.measuring import with_room_for_text
from hyperslab.conversion.opening import opened
from hyperslab.conversion.pointing import Pointing
from hyperslab.conversion.settling import settle
from hyperslab.conversion.storing import stored_alike
from hyperslab.conversion.translate import Cutting
from hyperslab.conversion.walking import Item, Planned, find_losses, overlooked, plan_nodes
from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.formats.base import Batches, Feature, Format, InDatabase, Plans, TakesLabels
from hyperslab.formats.spelling import KeyedFormat
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
    source: Session,
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
    if format.name == "zarr2" and not same:
        planned = [_unmasked(each) for each in planned]
    with _trial(format, where, options) as (plans, keyed):
        if isinstance(plans, Plans):
            planned = [stored_alike(each, cutting, format, plans.new_array) for each in planned]
        planned = with_room_for_text(source, planned, plans, pointing)
        planned, more = settle(planned, plans.new_array if isinstance(plans, Plans) else None)
    refuse_lost(items, planned, more, format)
    losses += more + overlooked(source.reader, items)
    if losses and not allow_loss:
        raise refuse(losses, format.name)
    return Rehearsal(planned, losses, keyed)


def _labelled(source: Session, planned: Planned) -> Planned:
    """With the labels of coordinate arrays, for a target whose arrays say their labels themselves."""
    spec, item = planned.node, planned.item
    if not isinstance(spec, ArraySpec) or not isinstance(item.node, ArraySpec) or item.picked is None:
        return planned
    labels = chosen_labels(labels_of(source, item.origin, item.node), item.node.dims, item.picked)
    return replace(planned, node=spec.evolve(indexes=labels))


def _unmasked(planned: Planned) -> Planned:
    """Without a fill value of zero: unwritten cells of Zarr v2 are zero without it, and with it xarray masks zeros."""
    spec = planned.node
    if not isinstance(spec, ArraySpec) or spec.numpy_dtype.kind not in "biufc" or "_FillValue" in spec.attrs:
        return planned
    return planned if any(spec.fill_cell().tobytes()) else replace(planned, node=spec.evolve(fill_value=None))


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
            yield target.writer(), isinstance(format, KeyedFormat)
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


def put_documents(target: Session, planned: Sequence[Planned]) -> None:
    """Write the documents of all nodes."""
    writer = target.writer()
    with writer.batch() if isinstance(writer, Batches) else nullcontext():
        for plan in told_apart(planned, target.format):
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
