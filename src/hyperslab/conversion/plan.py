"""The plan of a conversion: the nodes of the target and all that is lost, before anything is touched.

Each node is planned as the features of the target's format allow (types, attributes, dimensions, groups; chunks in
:mod:`hyperslab.conversion.rechunk`). The plan is then tried on an empty target, in memory or in a temporary file, where
:mod:`hyperslab.conversion.adapt` asks the format itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from hyperslab.array.session import OpenDataset
from hyperslab.chunks.auto import MANY, SMALL_SHARD_BYTES
from hyperslab.codecs.registry import parse_codec
from hyperslab.conversion.adapt import (
    TargetNode,
    adapt_nodes,
    add_coordinate_labels,
    disambiguate,
    require_main_array_kept,
    require_main_array_representable,
    set_zarr2_fill_value,
    translate_codecs,
)
from hyperslab.conversion.losses import (
    COLUMNS,
    SAMPLES,
    Features,
    Loss,
    is_left_out,
    losses_error,
    losses_of,
    target_attrs,
    target_cell_type,
    target_named_types,
    unit_losses,
)
from hyperslab.conversion.opening import dataset_session, trial_session
from hyperslab.conversion.rechunk import Encoding, choose_chunks, refit_chunks
from hyperslab.conversion.recoding import DerivedArrays, add_arrays, add_point_labels, split_rows
from hyperslab.conversion.references import ReferenceMap
from hyperslab.conversion.selection import ArraySelection, Select, select_labels
from hyperslab.conversion.source_nodes import (
    SourceDamage,
    SourceNode,
    add_missing_markers,
    find_source_nodes,
    select_nodes,
)
from hyperslab.conversion.variable_length import drop_non_utf8, fit_fixed_length, measure_text, read_blocks
from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.formats.base import Feature, Format, Reader
from hyperslab.formats.codec_kinds import is_compressed
from hyperslab.group.choice import EVERYTHING as ALL_VARIABLES
from hyperslab.group.choice import Choice
from hyperslab.model.amounts import counted
from hyperslab.model.cells import as_type
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import numpy_dtype
from hyperslab.model.paths import child, outward, split
from hyperslab.model.series import FIRST_SAMPLE, SAMPLE_COUNT, SERIES, names_samples
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore

# Cells in flight: a box takes a quarter of it, see ArrayCopy.chunks_per_box.
MEMORY = 256 << 20
# A shard that nobody asked for takes this part of it and no more: a box of cells is in memory twice, beside what is
# encoded of it, for each of two threads.
_SHARDS_IN_MEMORY = 8
EVERYTHING = Select.of(None)
"""The selection of all cells."""
AS_IN_SOURCE = Encoding()
"""Chunks, shards and codecs as the source has them, as far as they suit."""


def collect_nodes(
    source: OpenDataset,
    format: Format,
    damage: SourceDamage,
    *,
    path: str = "",
    select: Select = EVERYTHING,
    encoding: Encoding = AS_IN_SOURCE,
    skip_damaged: bool = False,
    choice: Choice = ALL_VARIABLES,
) -> tuple[list[SourceNode], DerivedArrays]:
    """Return the nodes that are converted, with the cells that are selected, and the arrays among them that are made
    of the source: columns of rows, labels of a point.

    ``path``: the group or array that becomes the root; ``choice``: the variables of it. Nodes that cannot be read are
    an error that lists them, or are left out, their errors in ``damage``.
    """
    parts = find_source_nodes(source, path, format.features, damage, choice)
    if damage and not skip_damaged:
        damage.raise_error()
    parts, columns = split_rows(parts, format.features)
    source = add_arrays(source, columns)
    items, points = add_point_labels(select_nodes(source, parts, select, encoding))
    return add_missing_markers(source, items, format), {**columns, **points}


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
    memory: int = MEMORY,
    options: Mapping[str, object] = MappingProxyType({}),
    references: ReferenceMap | None = None,
) -> DryRun:
    """Return what a conversion would write; nothing is touched at ``where``.

    Each node is first fitted to the format's features, then shown to the format itself. ``references``: what becomes
    of links and references. ``options``: of the target's format. ``memory``: for cells in flight. Unsupported with all
    losses, unless ``allow_loss``.
    """
    same = source.format == format
    items = fit_fixed_length(source, items, format.features, references)
    require_main_array_representable(items, format)
    features = format.features
    if Feature.LINKS not in source.format.features:
        features -= {Feature.LINKS}  # a link of an HDF5 file leads to another one, which no link of a format opens
    losses = find_losses(items, features, as_it_is=same and not encoding.is_requested)
    if format.traits.options_cut and options:  # what the arrays of the source were cut by gives way to them
        same, features = False, features - {Feature.SHARDS}
    is_many = format.traits.shards_many or (encoding.shards == MANY and Feature.SHARDS in features)
    most = min(SMALL_SHARD_BYTES, memory // _SHARDS_IN_MEMORY) if is_many else 0
    cut, is_stored_so = replace(encoding, shard_bytes=most), source.stored_format == format
    kept = format.traits.kept_layout if same else frozenset()
    nodes = list(plan_nodes(items, cut, features, same_format=same, is_stored_so=is_stored_so, kept_layout=kept))
    if format.traits.label_rules:
        nodes = [add_coordinate_labels(source, each) for each in nodes]
    if format.traits.fill_value == "missing":
        nodes = [set_zarr2_fill_value(source, each) for each in nodes]
    # of formats whose datasets live in a database the format itself tells how it takes arrays
    with nullcontext() if format.traits.in_database else trial_session(format.name, where, options) as trial:
        target = None if trial is None else trial.writer()
        adapt = format.new_array if target is None else target.new_array
        room = target.room_for_text if target is not None and format.traits.bounds_text else None
        nodes = [translate_codecs(each, encoding, format, adapt, source.stored_format) for each in nodes]
        nodes, text_losses = measure_text(source, nodes, room, references)
        nodes, byte_losses = drop_non_utf8(source, nodes, adapt)
        nodes, other_losses = adapt_nodes(nodes, adapt, varies=bool(options))

    format_losses = text_losses + byte_losses + other_losses
    require_main_array_kept(items, nodes, format_losses, format)
    losses += format_losses + find_omissions(source.reader, items)
    losses += () if references is None else tuple(_sample_losses(source, items, references))
    if losses and not allow_loss:
        raise losses_error(losses, format.name)
    return DryRun(nodes, losses, keyed=format.traits.is_keyed)


def write_documents(target: OpenDataset, nodes: Sequence[TargetNode]) -> None:
    """Write the documents of all nodes, as one batch where the writer has batches."""
    writer = target.writer()
    with writer.batch():
        for plan in disambiguate(nodes, target.format):
            try:
                writer.put(plan.source.path, plan.node)
            except HyperslabError as error:
                raise error.locate(url=target.url, node=plan.source.path) from error.__cause__


def render_documents(
    format: Format, nodes: Sequence[TargetNode], options: Mapping[str, object] = MappingProxyType({})
) -> dict[str, bytes]:
    """Return the documents of a keyed format by key, byte by byte as a conversion writes them."""
    store = MemoryStore()
    with dataset_session(store, mode="x", format=format.name, options=options) as target:
        write_documents(target, nodes)
    return {key: value for key in store.list() if (value := store.get(key)) is not None}


# -- what the target's features allow ----------------------------------------------------------------------------------


def find_losses(items: list[SourceNode], features: Features, *, as_it_is: bool = False) -> tuple[Loss, ...]:
    """Return all that a format of these ``features`` cannot hold of the nodes.

    ``as_it_is``: source and target are of one format and keep their documents, so that units stay.
    """
    losses = [loss for item in items for loss in losses_of(item.path, item.node, features)]
    losses += _label_losses(items) if Feature.LABELS not in features else ()
    if not as_it_is:
        losses += [loss for item in items for loss in unit_losses(item.path, item.node)]
    return tuple(losses)


def _label_losses(items: list[SourceNode]) -> Iterator[Loss]:
    """Yield a loss for labels that an array has itself and that no coordinate array among the nodes holds too."""
    shapes = {item.path: (item.node.dims, item.node.shape) for item in items if item.node.is_array}
    for item in items:
        if not item.node.is_array:
            continue
        sizes = dict(zip(item.node.dims, item.node.shape, strict=True))
        groups = list(outward(split(item.path)[0]))
        covered = {
            dim
            for dim in item.node.indexes
            if any(shapes.get(child(g, dim)) == ((dim,), (sizes[dim],)) for g in groups)
            or (_is_point(item, dim) and shapes.get(child(groups[0], dim)) == ((), ()))  # by add_point_labels
        }
        if lost := [dim for dim in item.node.indexes if dim not in covered]:
            names = ", ".join(map(repr, lost))
            message = f"the labels of {names} are left out (to_xarray() makes coordinates of them)"
            yield Loss(item.path, Feature.LABELS, message)


def _is_point(item: SourceNode, dim: str) -> bool:
    """Return True if one position alone is selected along a dimension of an array."""
    picked = item.picked
    return item.node.is_array and picked is not None and item.node.dims.index(dim) not in picked.kept


def find_omissions(reader: Reader, items: list[SourceNode]) -> tuple[Loss, ...]:
    """Return as losses what lies at the source's place and its format does not show."""
    found = (problem for item in items if item.whole for problem in reader.omitted(item.origin))
    return tuple(Loss(problem.node, problem.kind, problem.message) for problem in found)


def _sample_losses(source: OpenDataset, items: list[SourceNode], references: ReferenceMap) -> Iterator[Loss]:
    """Yield a loss for each column of rows that name samples of series by number, of which not all are copied, and for
    each whose fields become arrays, which keep the numbers of the source."""
    by_origin = {item.origin: item for item in items}
    for item in items if references.samples else ():
        is_split = item.node.is_group and COLUMNS in item.node.layout
        rows = source.reader.node(item.origin) if is_split else item.node
        picked = by_origin[child(item.origin, FIRST_SAMPLE)].picked if is_split else item.picked
        if not rows.is_array or picked is None or not names_samples(rows.dtype):
            continue
        wrong, count = 0, 0
        series: dict[str, None] = {}
        for block in read_blocks(source, item.origin, picked):
            count += block.size
            for row in block.flat:
                number = references.number_in_copy(row[SERIES], int(row[FIRST_SAMPLE]), int(row[SAMPLE_COUNT]))
                if number is None or (is_split and number != row[FIRST_SAMPLE]):
                    wrong += 1
                    series[str(row[SERIES])] = None
        if wrong:
            names = f"{wrong} of {counted(count, 'row')} name samples of {', '.join(series)} by number"
            left = "which are not all chosen: these rows name none in the copy"
            kept = "which the selection numbers anew: the numbers stay as in the source"
            yield Loss(item.path, SAMPLES, f"{names}, {kept if is_split else left}")


def plan_nodes(
    items: list[SourceNode],
    encoding: Encoding,
    features: Features,
    *,
    same_format: bool,
    is_stored_so: bool,
    kept_layout: frozenset[str],
) -> Iterator[TargetNode]:
    """Yield what each node becomes, without those that the target has no place for and all below them.
    ``kept_layout``: names of what arrays that are cut anew keep of their layout."""
    sizes, longest = _dimension_sizes(items)
    declared = {item.path: item.node.dims for item in items if item.node.is_group}
    gone: list[str] = []
    for item in items:
        if is_left_out(item.path, item.node, features) or any(f"{item.path}/".startswith(f"{top}/") for top in gone):
            # What is in a group that is left out goes with it.
            gone.append(item.path)
            continue
        if item.node.is_array and item.picked is not None:
            cut = encoding
            if encoding.codec is None and not item.keeps_codecs:
                plain = is_stored_so and not is_compressed(item.node.codecs)
                cut = replace(encoding, codec="none" if plain else "default")
            if item.node.dims == (split(item.path)[1],) and isinstance(encoding.shards, Mapping):
                cut = replace(cut, shards=None)  # lengths by dimension are meant for cells, so coordinates stay whole
            if item.node.dims == (split(item.path)[1],) and isinstance(encoding.chunks, Mapping):
                # one that grows has chunks for what is still to come
                wanted = encoding.chunks.get(item.node.dims[0], -1)
                longer = wanted > prod(item.picked.shape) and _growing_axes(item.node, item.picked, item.path, declared)
                cut = replace(cut, chunks={item.node.dims[0]: wanted} if longer else "auto", shards=None)
            # arrays of the same format say themselves that they have no shards, unless they are cut anew
            if same_format and cut.keeps_chunks and cut.shards != MANY:
                cut = replace(cut, shard_bytes=0)
            elif cut.shard_bytes:
                cut = replace(cut, growing=_growing_axes(item.node, item.picked, item.path, declared))
            try:
                spec, is_native = new_array(
                    item.node, item.picked, cut, features, same_format=same_format, kept_layout=kept_layout
                )
            except HyperslabError as error:
                raise error.locate(node=item.path) from error.__cause__
            yield TargetNode(item, spec, is_native)
        elif item.node.is_group:
            # Unlimited dimensions are as long as the arrays: Zarr's documents do not say the length.
            lengths = _sizes_in_scope(longest, item.path)
            dims = tuple(
                replace(dim, size=max(dim.size, lengths.get(dim.name) or 0)) if dim.unlimited else dim
                for dim in item.node.dims
            )
            selected = _sizes_in_scope(sizes, item.path)
            yield TargetNode(item, new_group(item.node.evolve(dims=dims), selected, features, same_format=same_format))
        else:
            yield TargetNode(item, item.node)


def _growing_axes(
    spec: ArraySpec, picked: ArraySelection, path: str, declared: Mapping[str, Sequence[Dimension]]
) -> list[int]:
    """Return the axes of the new array along unlimited dimensions; ``declared``: those of each group."""
    dims: dict[str, Dimension] = {}
    for group in outward(split(path)[0]):
        dims = {dim.name: dim for dim in declared.get(group, ())} | dims  # the nearest of each name
    names = [spec.dims[axis] for axis in picked.kept]
    return [axis for axis, name in enumerate(names) if name in dims and dims[name].unlimited]


_Sizes = dict[tuple[str, str], int | None]
"""By group and dimension name."""


def _dimension_sizes(items: list[SourceNode]) -> tuple[_Sizes, _Sizes]:
    """Return the lengths left where cells are selected, None for a dimension that is gone; and those of the longest
    array of each group."""
    selected: _Sizes = {}
    longest: _Sizes = {}
    for item in items:
        if not item.node.is_array:
            continue
        folder, picked = split(item.path)[0], item.picked
        lengths = {} if picked is None else dict(zip(picked.kept, picked.shape, strict=True))
        for axis, (dim, size) in enumerate(zip(item.node.dims, item.node.shape, strict=True)):
            if dim is not None:
                longest[folder, dim] = max(size, longest.get((folder, dim)) or 0)
                if picked is not None and lengths.get(axis) != size:
                    selected[folder, dim] = lengths.get(axis)
    return selected, longest


def _sizes_in_scope(sizes: _Sizes, group: str) -> dict[str, int | None]:
    """Return the sizes of dimensions as arrays in or below a group use them; arrays nearer to the group win."""
    below = [entry for entry in sizes if not group or entry[0] == group or entry[0].startswith(f"{group}/")]
    # Longest paths first, so that what is nearest to the group is put last and wins.
    below.sort(key=lambda entry: -len(entry[0]))
    return {dim: sizes[folder, dim] for folder, dim in below}


def new_array(
    spec: ArraySpec,
    picked: ArraySelection,
    encoding: Encoding,
    features: Features,
    *,
    same_format: bool,
    kept_layout: frozenset[str],
) -> tuple[ArraySpec, bool]:
    """Return the target's array, and whether the source's spec could be kept (same format, nothing asked anew).

    ``picked``: the selected cells; ``features``: of the target. Unsupported for cells that the target has no type for.
    """
    dtype = target_cell_type(spec, features)
    if dtype is None:
        raise Unsupported("the target has no such cells")
    dims = tuple(spec.dims[axis] for axis in picked.kept) if Feature.DIMENSIONS in features else ()
    attrs = target_attrs(spec.attrs, features)
    labels = select_labels(spec.indexes, spec.dims, picked) if Feature.LABELS in features else {}
    if same_format and not encoding.is_requested and dtype == spec.dtype and len(picked.kept) == len(spec.shape):
        same = {
            "shape": picked.shape,
            "dims": dims,
            "attrs": attrs,
            "indexes": labels,
            "chunks": refit_chunks(spec, picked),
        }
        return spec.evolve(**same), True
    chunks, shards = choose_chunks(spec, picked, encoding, features)
    codecs = parse_codec("default" if encoding.codec is None else encoding.codec, numpy_dtype(dtype))
    layout: dict[str, object] = {} if shards is None else {"shards": shards}
    layout |= {name: spec.layout[name] for name in kept_layout if name in spec.layout}
    sparse = spec.sparse if Feature.SPARSE in features else None
    fill = spec.fill_value
    if fill is not None and spec.numpy_dtype != numpy_dtype(dtype):
        fill = as_type(spec.fill_cell(), numpy_dtype(dtype))[()]
    wish = ArraySpec(
        shape=picked.shape,
        dtype=dtype,
        dims=dims,
        chunks=chunks,
        codecs=codecs,
        fill_value=fill,
        attrs=attrs,
        indexes=labels,
        sparse=sparse,
        layout=layout,
    )
    return wish, False


def new_group(spec: GroupSpec, sizes: Mapping[str, int | None], features: Features, *, same_format: bool) -> GroupSpec:
    """Return the target's group. ``sizes``: the new length of each selected dimension, None for one that is gone."""
    dims: Iterable[Dimension] = (
        Dimension(dim.name, size, dim.unlimited and Feature.UNLIMITED in features)
        for dim in spec.dims
        if (size := sizes.get(dim.name, dim.size)) is not None
    )
    types = target_named_types(spec.types, features)
    layout = {name: value for name, value in spec.layout.items() if same_format and name != COLUMNS}
    return GroupSpec(attrs=target_attrs(spec.attrs, features), dims=tuple(dims), types=types, layout=layout)
