"""A conversion tried on an empty target, in memory or in a temporary file: its nodes, its losses, its documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from hyperslab.array.session import OpenDataset
from hyperslab.conversion.adapt import (
    adapt_nodes,
    add_coordinate_labels,
    disambiguate,
    require_main_array_kept,
    require_main_array_representable,
    set_zarr2_fill_value,
    translate_codecs,
)
from hyperslab.conversion.losses import Loss, losses_error
from hyperslab.conversion.opening import dataset_session
from hyperslab.conversion.rechunk import Encoding
from hyperslab.conversion.references import ReferenceMap
from hyperslab.conversion.source_nodes import SourceNode
from hyperslab.conversion.target_nodes import TargetNode, find_losses, find_omissions, plan_nodes
from hyperslab.conversion.variable_length import drop_non_utf8, fit_fixed_length, measure_text
from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.formats.base import Batches, Feature, Format, InDatabase, Plans, TakesLabels
from hyperslab.formats.zarr.dialect import FormatOfDocuments
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore


@dataclass(frozen=True, eq=False)
class DryRun:
    """The nodes that are to be written and what is lost by it.

    ``keyed``: the format keeps its values under the keys of a store, each for itself; else its file is published when
    it is closed.
    """

    nodes: list[TargetNode]
    losses: tuple[Loss, ...]
    keyed: bool


def dry_run(
    source: OpenDataset,
    items: list[SourceNode],
    encoding: Encoding,
    format: Format,
    where: Location,
    *,
    allow_loss: bool,
    options: Mapping[str, Any] = MappingProxyType({}),
    references: ReferenceMap | None = None,
) -> DryRun:
    """Return what a conversion would write; nothing is touched at ``where``.

    Each node is first fitted to the format's features, then shown to the format itself. ``references``: what becomes of
    links and references. ``options``: of the target's format. Unsupported with all losses, unless ``allow_loss``.
    """
    same = source.format == format
    items = fit_fixed_length(source, items, format.features, references)
    require_main_array_representable(items, format)
    losses = find_losses(items, format.features, as_it_is=same and not encoding.is_requested)
    features = format.features
    if format.name == "blaze" and options:  # which say how its arrays are stored: what they were stored by gives way
        same, features = False, features - {Feature.SHARDS}
    nodes = list(plan_nodes(items, encoding, features, same_format=same))
    if isinstance(format, TakesLabels):
        nodes = [add_coordinate_labels(source, each) for each in nodes]
    if format.name == "zarr2":
        nodes = [set_zarr2_fill_value(source, each) for each in nodes]
    with _trial_target(format, where, options) as (plans, keyed):
        if isinstance(plans, Plans):
            nodes = [translate_codecs(each, encoding, format, plans.new_array) for each in nodes]
        nodes, text_losses = measure_text(source, nodes, plans, references)
        adapt = plans.new_array if isinstance(plans, Plans) else None
        nodes, byte_losses = drop_non_utf8(source, nodes, adapt)
        nodes, other_losses = adapt_nodes(nodes, adapt, varies=bool(options))
    format_losses = text_losses + byte_losses + other_losses
    require_main_array_kept(items, nodes, format_losses, format)
    losses += format_losses + find_omissions(source.reader, items)
    if losses and not allow_loss:
        raise losses_error(losses, format.name)
    return DryRun(nodes, losses, keyed)


@contextmanager
def _trial_target(format: Format, where: Location, options: Mapping[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Yield what tells how the format takes arrays, and whether it keeps values under keys.

    That is the writer of an empty dataset, or the format itself where its datasets live in a database.
    """
    if isinstance(format, InDatabase):
        yield format, False
        return
    try:
        trial = dataset_session(MemoryStore(), mode="x", format=format.name, **options)
        target = trial.__enter__()
    except HyperslabError as error:
        # Formats of one file cannot be written into a store in memory: these are tried in a temporary folder below.
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
        _hide_trial_place(where, folder),
        dataset_session(Path(folder) / "trial", mode="x", format=format.name, **options) as target,
    ):
        yield target.writer(), False


@contextmanager
def _hide_trial_place(where: Location, folder: str) -> Iterator[None]:
    """Name the target in errors in place of the temporary file."""
    try:
        yield
    except HyperslabError as error:
        if error.url is not None and error.url.startswith(folder):
            error.url = where.url
        raise


def write_documents(target: OpenDataset, nodes: Sequence[TargetNode]) -> None:
    """Write the documents of all nodes, as one batch where the writer has batches."""
    writer = target.writer()
    with writer.batch() if isinstance(writer, Batches) else nullcontext():
        for plan in disambiguate(nodes, target.format):
            try:
                writer.put(plan.source.path, plan.node)
            except HyperslabError as error:
                raise error.locate(url=target.url, node=plan.source.path) from error.__cause__


def render_documents(
    format: Format, nodes: Sequence[TargetNode], options: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, bytes]:
    """Return the documents of a keyed format by key, byte by byte as a conversion writes them."""
    store = MemoryStore()
    with dataset_session(store, mode="x", format=format.name, **options) as target:
        write_documents(target, nodes)
    return {key: value for key in store.list() if (value := store.get(key)) is not None}
