"""A target's nodes in its format's own words: codecs, shards, labels, dimension names, fill values, attributes.

What a format's features say of a node is in :mod:`hyperslab.conversion.plan`. Here the format itself is asked,
node by node and before anything is written, by its ``new_array`` (:data:`Adapt`): it gives its own spelling, or raises
Unsupported, which becomes a loss that no feature tells of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from operator import lt

import numpy as np

from hyperslab.array.indexes import find_index
from hyperslab.array.session import OpenDataset
from hyperslab.chunks.auto import MANY
from hyperslab.chunks.source import ChunkSource
from hyperslab.codecs.blosc import config_of
from hyperslab.codecs.registry import parse_codec
from hyperslab.conversion.losses import Loss, fallback_type, is_left_out, target_cell_type
from hyperslab.conversion.rechunk import Encoding
from hyperslab.conversion.selection import select_labels
from hyperslab.conversion.source_nodes import SourceNode
from hyperslab.errors import DAMAGE, HyperslabError, MissingLibrary, Unsupported
from hyperslab.formats.base import Feature, Format
from hyperslab.formats.codec_kinds import COMPRESSORS, inner_codecs, is_compressed
from hyperslab.formats.dimension_suffix import add_suffix
from hyperslab.formats.netcdf.data_model import default_fill
from hyperslab.model.attrs import FILL_VALUE, Attrs
from hyperslab.model.cells import number_cell, same_type
from hyperslab.model.dims import Index
from hyperslab.model.dtypes import VlenString, describe, numpy_dtype, tag_of
from hyperslab.model.paths import outward, split
from hyperslab.model.refs import RegionReference
from hyperslab.model.spec import ArraySpec, Codec, Node

# The target's `new_array`: gives the array as the format will store it, or raises Unsupported.
Adapt = Callable[[ArraySpec], ArraySpec]

_AS_JSON = "becomes JSON text"
# What a format says of an attribute is learnt from an array of one cell that has no other.
_BARE_ARRAY = ArraySpec(shape=(), dtype=np.dtype(np.int8), chunks=())


@dataclass(frozen=True, slots=True, eq=False)
class TargetNode:
    """A node that is to be written, and the one it comes from. ``is_native``: the spec is the target's own already."""

    source: SourceNode
    node: Node
    is_native: bool = True


# -- nodes as the format takes them ------------------------------------------------------------------------------------


def adapt_nodes(nodes: list[TargetNode], adapt: Adapt, *, varies: bool) -> tuple[list[TargetNode], tuple[Loss, ...]]:
    """Return the nodes as the target takes them, without those that it refuses, and what is lost by that.

    ``varies``: whether the target's options may make it take less than the source's format does.
    """
    adapted: list[TargetNode] = []
    losses: list[Loss] = []
    for plan in nodes:
        try:
            node, lost = _adapt_node(plan, adapt, varies)
        except HyperslabError as error:
            raise error.locate(node=plan.source.path) from error.__cause__
        losses += lost
        if node is not None:
            adapted.append(TargetNode(plan.source, node))
    return adapted, tuple(losses)


def _adapt_node(plan: TargetNode, adapt: Adapt, varies: bool) -> tuple[Node | None, list[Loss]]:
    path, node = plan.source.path, plan.node
    if node.is_array and not (plan.is_native and (not varies or accepts(node, adapt))):
        return _adapt_array(path, node, adapt)
    is_array = node.is_array and any(map(_needs_trial, node.attrs.values()))
    if node.is_link or not (is_array or node.is_group):
        return node, []
    attrs, losses = _adapt_attributes(path, node.attrs, lambda one: adapt(_BARE_ARRAY.evolve(attrs=one)))
    return (node.evolve(attrs=attrs) if losses or is_array else node), losses


def _needs_trial(value: object) -> bool:
    """Return True if a format may give an attribute of this type but not take it, such as HDMF's region references."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "OV" and value.dtype.hasobject:
        return tag_of(value.dtype) is None  # of a user's type there are features
    return isinstance(value, RegionReference)


def _adapt_array(path: str, spec: ArraySpec, adapt: Adapt) -> tuple[ArraySpec | None, list[Loss]]:
    try:
        adapted = adapt(spec)
    except Unsupported:
        bare = spec.evolve(attrs={})
    else:
        texts = [
            _attribute_loss(path, name, spec.attrs[name], _AS_JSON)
            for name in _names_turned_to_text(spec.attrs, adapted.attrs)
        ]
        return adapted, [*_type_losses(path, spec, adapted), *texts]
    try:
        adapt(bare)
    except MissingLibrary:  # no loss, and mended by installing it
        raise
    except Unsupported as error:
        if accepts(bare.evolve(codecs=parse_codec("default", spec.numpy_dtype)), adapt):
            raise  # not the cells, but the codec that was asked for
        if (found := _adapt_with_fallback_type(path, spec, adapt)) is not None:
            return found
        return None, [Loss(path, "cells", f"{error.message}: the array is left out")]
    attrs, losses = _adapt_attributes(path, spec.attrs, lambda one: adapt(bare.evolve(attrs=one)))
    return adapt(spec.evolve(attrs=attrs)), losses


def accepts(spec: ArraySpec, adapt: Adapt) -> bool:
    """Return True if the target has a spelling for the array."""
    try:
        adapt(spec)
    except Unsupported:
        return False
    return True


def _adapt_with_fallback_type(path: str, spec: ArraySpec, adapt: Adapt) -> tuple[ArraySpec, list[Loss]] | None:
    """Return the array with numbers for its booleans or times; None where the target takes these neither."""
    less = fallback_type(spec.dtype) if isinstance(spec.dtype, np.dtype) and spec.dtype.kind in "bmM" else None
    if less is None:
        return None
    fill = None if spec.fill_value is None else spec.fill_cell().astype(numpy_dtype(less))[()]
    adapted, losses = _adapt_array(path, spec.evolve(dtype=less, fill_value=fill), adapt)
    return None if adapted is None else (adapted, [*_type_losses(path, spec, adapted), *losses])


def _type_losses(path: str, before: ArraySpec, after: ArraySpec) -> list[Loss]:
    if same_type(before.dtype, after.dtype, any_order=True):
        return []
    return [Loss(path, "type", f"cells of type {describe(before.dtype)} become {describe(after.dtype)}")]


def _adapt_attributes(
    path: str, attrs: Attrs, ask: Callable[[Attrs], ArraySpec]
) -> tuple[dict[str, object], list[Loss]]:
    """Return the attributes that the target takes: as they are, as JSON text, or not at all; and the losses.

    ``ask``: gives an array with these attributes as the target stores it, or raises Unsupported.
    """
    with suppress(Unsupported):  # nearly always all are taken, and to ask for each of a million takes minutes
        if not _names_turned_to_text(attrs, ask(attrs).attrs):
            return dict(attrs), []
    kept: dict[str, object] = {}
    losses = []
    for name, value in attrs.items():
        outcome = "is left out"
        for candidate, meaning in _attribute_candidates(value):
            try:
                after = ask({name: candidate}).attrs
            except Unsupported as error:
                how = error.remedy if isinstance(value, RegionReference) else None  # it would be taken
                outcome = "is left out" if how is None else f"is left out ({how})"
                continue
            as_text = bool(_names_turned_to_text({name: candidate}, after))
            kept[name], outcome = (after[name], _AS_JSON) if as_text else (candidate, meaning)
            break
        if outcome:
            losses.append(_attribute_loss(path, name, value, outcome))
    return kept, losses


def _attribute_loss(path: str, name: str, value: object, outcome: str) -> Loss:
    shown = repr(value) if len(repr(value)) < 60 else f"a {type(value).__name__}"
    return Loss(path, Feature.ATTRIBUTES, f"the attribute {name!r}, {shown}, {outcome}")


def _names_turned_to_text(before: Attrs, after: Attrs) -> list[str]:
    """Return the names of attributes that are no text, and that the target takes as text."""
    names = []
    for name in (name for name, value in after.items() if isinstance(value, str) and name in before):
        match before[name]:
            case np.ndarray() as cells:
                items = cells.ravel().tolist()
            case list() | tuple() as listed:
                items = list(listed)
            case value:
                items = [value]
        if not items or not all(isinstance(item, str | bytes) for item in items):
            names.append(name)
    return names


def _attribute_candidates(value: object) -> Iterator[tuple[object, str]]:
    """Yield what may stand for an attribute's value, the nearest first, and what is lost by it."""
    yield value, ""
    if isinstance(value, str) and value.endswith("\0"):
        yield value.rstrip("\0"), "loses the NULs at its end"
    try:
        text = json.dumps(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    except TypeError:
        return
    yield text, _AS_JSON


# -- codecs and shards -------------------------------------------------------------------------------------------------
# A conversion keeps how the source compresses, unless asked for another codec: the algorithm, its level, the shuffle
# and shards. Codecs that change cells (delta, scale and offset) are not repeated, since the cells that they decode to
# are copied. Checksums are those that each format adds by itself.


Chain = tuple[Codec, ...]

# The levels of Blosc that compress (0 stores): those of other compressors are brought into this range.
_BLOSC_LEVELS = (1, 9)


def translate_codecs(
    target: TargetNode, encoding: Encoding, format: Format, adapt: Adapt, stored: Format
) -> TargetNode:
    """Return the array stored as the source's is, in what the caller left open and as far as the target takes it.

    It gets the same shards and the first chain that compresses alike; the codecs that were planned where the target
    takes none of these. What is not compressed is compressed in another format alone, not where it is only cut anew:
    ``stored`` is the format that the cells lie in.
    """
    spec, origin = target.node, target.source.node
    if target.is_native or not spec.is_array or not origin.is_array:
        return target
    chains = [spec.codecs]
    if encoding.codec is None and target.source.keeps_codecs and Feature.CODECS in format.features:
        alike, common = list(equivalent_chains(origin.codecs)), format.traits.common_codecs
        if stored == format and not is_compressed(origin.codecs):
            alike = [()]
        if common is not None:  # those first of which every reader of the format knows all codecs
            alike.sort(key=lambda chain: not common.issuperset(codec.name for codec in chain))
        chains = [*(parse_codec(list(chain), spec.numpy_dtype) for chain in alike), spec.codecs]
    plain = spec
    if encoding.shards is None or encoding.shards == MANY:
        plain = spec.evolve(layout={name: value for name, value in spec.layout.items() if name != "shards"})
    try:
        wishes = (wish.evolve(codecs=chain) for wish, chain in product((spec, plain), chains))
        # Shards with any chain come before no shards: dropping them would change how many objects there are.
        node = next((wish for wish in wishes if accepts(wish.evolve(attrs={}), adapt)), plain)
    except HyperslabError as error:
        raise error.locate(node=target.source.path) from error.__cause__
    return replace(target, node=node)


def equivalent_chains(codecs: Sequence[Codec]) -> Iterator[Chain]:
    """Yield chains that compress as these codecs do, the nearest first."""
    steps = list(inner_codecs(codecs))
    codec = next((step for step in reversed(steps) if step.name in COMPRESSORS), None)
    if codec is None:
        return
    if codec.name == "blosc":
        config = config_of([codec]) or {}
        if config.get("cname", "snappy") == "snappy":  # which nobody writes any more
            return
        # without the settings that follow from the cells
        yield (Codec("blosc", {key: config[key] for key in ("cname", "clevel", "shuffle") if key in config}),)
        if config["cname"] == "zlib":  # for targets without Blosc
            yield (Codec("gzip", {"level": config.get("clevel", 5)}),)
        return
    # The same inside Blosc comes early where a shuffle stands before it, last where the target may have no other.
    inside, is_shuffled = _blosc_config(codec), any(step.name == "shuffle" for step in steps)
    if is_shuffled:
        yield Codec("shuffle"), codec
        if inside is not None:
            yield (Codec("blosc", {**inside, "shuffle": "shuffle"}),)
    yield (codec,)
    if codec.name in ("gzip", "zlib"):
        yield (Codec("zlib" if codec.name == "gzip" else "gzip", codec.config),)
    if inside is not None and not is_shuffled:
        yield (Codec("blosc", inside),)


def _blosc_config(codec: Codec) -> Mapping[str, object] | None:
    """Return the compressor as one of Blosc's, at the level that does the same there; None where Blosc has it not."""
    level = codec.config.get("level")
    low, high = _BLOSC_LEVELS
    match codec.name:
        case "gzip" | "zlib":
            return {"cname": "zlib", "clevel": level if isinstance(level, int) and low <= level <= high else low}
        case "zstd":  # Blosc's level n is zstd's 2 n - 1
            return {"cname": "zstd", "clevel": max(low, min(high, ((level or 3) + 1) // 2))}
        case "lz4":
            return {"cname": "lz4"}
        case _:
            return None


# -- targets of one array ----------------------------------------------------------------------------------------------
# A target that holds one array cannot leave it out, so what it has no place for is an error whatever may be lost.


def require_main_array_representable(items: Sequence[SourceNode], format: Format) -> None:
    """Raise Unsupported where a target of one array has no type for that array: the first of the nodes."""
    main = _main_array(items, format)
    if main is None or not main.node.is_array:
        return
    alone = format.features - format.traits.in_coordinates
    if is_left_out(main.path, main.node, alone):
        if isinstance(main.node.dtype, VlenString):
            reason = "a text in it ends with NUL, which no text of a fixed length keeps"
        elif target_cell_type(main.node, alone) is None:
            reason = f"cells of type {describe(main.node.dtype)}"
        else:
            reason = "it is 0-d"
        raise _no_place_error(main, format, [reason])


def require_main_array_kept(
    items: Sequence[SourceNode], nodes: Sequence[TargetNode], losses: Sequence[Loss], format: Format
) -> None:
    """Raise Unsupported where such a target, asked about the array itself, did not take it."""
    main = _main_array(items, format)
    if main is not None and not any(plan.source is main for plan in nodes):
        messages = (loss.message for loss in losses if loss.node == main.path)
        raise _no_place_error(main, format, [message.removesuffix(": the array is left out") for message in messages])


def _main_array(items: Sequence[SourceNode], format: Format) -> SourceNode | None:
    if format.features & {Feature.GROUPS, Feature.ARRAYS}:
        return None
    return next((item for item in items if item.node.is_array), None)


def _no_place_error(main: SourceNode, format: Format, reasons: Sequence[str]) -> Unsupported:
    message = f"{format.name} holds one array, and has no place for this one: {'; '.join(reasons)}"
    remedy = "choose another array by path= (--path), or another format, such as zarr3"
    return Unsupported(message, node=main.path, remedy=remedy)


# -- labels ------------------------------------------------------------------------------------------------------------


def add_coordinate_labels(source: OpenDataset, target: TargetNode) -> TargetNode:
    """Return the array with the labels of coordinate arrays, for a format whose arrays have their labels themselves.

    Labels that cannot be read are left out.
    """
    spec, item = target.node, target.source
    if not spec.is_array or not item.node.is_array or item.picked is None:
        return target
    labels: dict[str, Index] = {}
    for dim in (dim for dim in item.node.dims if dim is not None):
        with suppress(*DAMAGE):  # which is an error where the coordinate itself is copied
            index = find_index(source, item.origin, item.node, dim)
            if index is not None:
                labels[dim] = index
    return replace(target, node=spec.evolve(indexes=select_labels(labels, item.node.dims, item.picked)))


# -- dimension names ---------------------------------------------------------------------------------------------------
# Formats that declare dimensions know one length by each name; arrays of other sources may mean several.


_Lengths = dict[tuple[str, str], int]
"""By group and name, how long the dimensions are that were declared so far."""


def disambiguate(nodes: Sequence[TargetNode], format: Format) -> Iterator[TargetNode]:
    """Yield the nodes with dimension names that mean one length each.

    The first length keeps the name, others are called ``<name>@<length>`` (which the format shows by the plain name).
    """
    if format.traits.dimension_scope is None:
        yield from nodes
        return
    known = {(p.source.path, dim.name): dim.size for p in nodes if p.node.is_group for dim in p.node.dims}
    flat = format.traits.dimension_scope == "dataset"
    if flat:
        known = {("", name): size for (_, name), size in known.items()}
    for plan in nodes:
        if plan.node.is_array:
            group = "" if flat else split(plan.source.path)[0]
            axes = zip(plan.node.dims, plan.node.shape, strict=True)
            dims = tuple(name and _declare_dimension(known, group, name, size) for name, size in axes)
            plan = plan if dims == plan.node.dims else replace(plan, node=plan.node.evolve(dims=dims))
        yield plan


def _declare_dimension(known: _Lengths, group: str, name: str, size: int) -> str:
    """Return the name of a dimension in this group, and declare it there unless it can be seen from there.

    No dimension hides another of the same name in a group above: netCDF4-python would take the one for the other.
    """
    for above in outward(group):
        length = known.get((above, name))
        if length is not None:
            return name if length == size else _declare_dimension(known, group, add_suffix(name, size), size)
    known[group, name] = size
    return name


# -- fill values -------------------------------------------------------------------------------------------------------


def set_zarr2_fill_value(source: OpenDataset, target: TargetNode) -> TargetNode:
    """Have readers of Zarr v2, who take its fill value for the marker of missing cells, mask what the source marks.

    A fill value of zero is left out of arrays with names of dimensions, which alone such readers open: unwritten cells
    are zero without it. So is the one that netCDF gives variables without ``_FillValue``, unless the source leaves
    chunks unwritten: a copy with another fill value writes every chunk. Any other gives way to ``_FillValue``, or is
    said to mean nothing missing.
    """
    spec, there = target.node, target.source.node
    if not spec.is_array or not there.is_array or spec.numpy_dtype.kind not in "biufc":
        return target
    if source.format.traits.fill_value == "missing":
        is_plain = there.is_fill_plain
    elif spec.fill_value is None or (marker := _missing_marker(spec)) == spec.fill_value:
        return target
    elif None not in spec.dims and not any(spec.fill_cell().tobytes()):
        return replace(target, node=spec.evolve(fill_value=None))
    elif marker is not None:
        return replace(target, node=spec.evolve(fill_value=marker))
    elif spec.fill_value == default_fill(spec.dtype) and _stores_every_chunk(
        source.reader.chunks(target.source.origin)
    ):
        return replace(target, node=spec.evolve(fill_value=None))
    else:
        is_plain = None not in spec.dims
    return replace(target, node=spec.evolve(is_fill_plain=True)) if is_plain else target


def _stores_every_chunk(source: ChunkSource) -> bool:
    """Return True if a copy of the source stores every chunk: where the source cannot say which it has, or has all."""
    if not source.traits.lists_chunks:
        return True
    counts = source.grid.counts  # chunks beyond them, which a killed append left, are none of the array
    try:
        inside = [all(map(lt, coords, counts)) for coords in source.stored_coords()]
    except Unsupported:  # a web server that lists nothing
        return True
    return sum(inside) == source.grid.size


def _missing_marker(spec: ArraySpec) -> object:
    """Return ``_FillValue`` as a cell; None where it is no one value that a cell can have."""
    try:
        return number_cell(spec.attrs.get(FILL_VALUE), spec.numpy_dtype)
    except (TypeError, OverflowError):
        return None
