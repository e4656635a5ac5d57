"""The nodes of a target as its format's features allow: types, attributes, dimensions, groups, and the losses.

What the format itself says of each node is in :mod:`hyperslab.conversion.adapt`; how arrays are cut in
:mod:`hyperslab.conversion.rechunk`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab.codecs.default import parse_codec
from hyperslab.conversion.losses import (
    COLUMNS,
    Features,
    Loss,
    Node,
    is_left_out,
    losses_of,
    target_attrs,
    target_cell_type,
    target_named_types,
    unit_losses,
)
from hyperslab.conversion.rechunk import Encoding, choose_chunks, refit_chunks
from hyperslab.conversion.selection import Picked, select_labels
from hyperslab.conversion.source_nodes import SourceNode
from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.formats.base import Feature, Reader, omitted_at
from hyperslab.model.cells import as_type
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import numpy_dtype
from hyperslab.model.paths import child, outward, split
from hyperslab.model.spec import ArraySpec, GroupSpec


@dataclass(frozen=True, slots=True, eq=False)
class TargetNode:
    """A node that is to be written, and the one it comes from. ``is_native``: the spec is the target's own already."""

    source: SourceNode
    node: Node
    is_native: bool = True


def find_losses(items: list[SourceNode], features: Features, *, as_it_is: bool = False) -> tuple[Loss, ...]:
    """Return all that a format of these ``features`` cannot hold of the nodes.

    ``as_it_is``: source and target are of one format and keep their documents, so that units stay.
    """
    losses = [loss for item in items for loss in losses_of(item.path, item.node, features)]
    if Feature.LABELS not in features:
        losses += _label_losses(items)
    if not as_it_is:
        losses += [loss for item in items for loss in unit_losses(item.path, item.node)]
    return tuple(losses)


def _label_losses(items: list[SourceNode]) -> Iterator[Loss]:
    """Yield a loss for labels that an array has itself and that no coordinate array among the nodes holds too."""
    shapes = {item.path: (item.node.dims, item.node.shape) for item in items if isinstance(item.node, ArraySpec)}
    for item in items:
        if not isinstance(item.node, ArraySpec):
            continue
        sizes = dict(zip(item.node.dims, item.node.shape, strict=True))
        groups = list(outward(split(item.path)[0]))
        held = {
            dim
            for dim in item.node.indexes
            if any(shapes.get(child(g, dim)) == ((dim,), (sizes[dim],)) for g in groups)
        }
        if lost := [dim for dim in item.node.indexes if dim not in held]:
            names = ", ".join(map(repr, lost))
            message = f"the labels of {names} are left out (to_xarray() makes coordinates of them)"
            yield Loss(item.path, Feature.LABELS, message)


def find_omissions(reader: Reader, items: list[SourceNode]) -> tuple[Loss, ...]:
    """Return as losses what lies at the source's place and its format does not show."""
    found = (problem for item in items if item.whole for problem in omitted_at(reader, item.origin))
    return tuple(Loss(problem.node, problem.kind, problem.message) for problem in found)


def plan_nodes(
    items: list[SourceNode], encoding: Encoding, features: Features, *, same_format: bool
) -> Iterator[TargetNode]:
    """Yield what each node becomes, without those that the target has no place for and all below them."""
    sizes, longest = _selected_sizes(items), _longest_sizes(items)
    gone: list[str] = []
    for item in items:
        if is_left_out(item.path, item.node, features) or any(f"{item.path}/".startswith(f"{top}/") for top in gone):
            # What is in a group that is left out goes with it.
            gone.append(item.path)
            continue
        if isinstance(item.node, ArraySpec) and item.picked is not None:
            try:
                cut = _encoding_for(item.path, item.node, encoding)
                spec, is_native = new_array(item.node, item.picked, cut, features, same_format=same_format)
            except HyperslabError as error:
                raise error.locate(node=item.path) from error.__cause__
            yield TargetNode(item, spec, is_native)
        elif isinstance(item.node, GroupSpec):
            node = _set_unlimited_lengths(item.node, _sizes_in_scope(longest, item.path))
            yield TargetNode(
                item, new_group(node, _sizes_in_scope(sizes, item.path), features, same_format=same_format)
            )
        else:
            yield TargetNode(item, item.node)


def _encoding_for(path: str, spec: ArraySpec, encoding: Encoding) -> Encoding:
    """Return how an array is cut: chunk lengths by dimension are meant for cells, so coordinates stay whole."""
    if spec.dims != (split(path)[1],) or not isinstance(encoding.chunks, Mapping):
        return encoding
    return replace(encoding, chunks="auto", shards=None)


def _selected_sizes(items: list[SourceNode]) -> dict[tuple[str, str], int | None]:
    """Return the lengths left where cells are selected, by group and dimension; None for a dimension that is gone."""
    sizes: dict[tuple[str, str], int | None] = {}
    for item in items:
        if isinstance(item.node, ArraySpec) and item.picked is not None:
            folder = split(item.path)[0]
            lengths = dict(zip(item.picked.kept, item.picked.shape, strict=True))
            for axis, dim in enumerate(item.node.dims):
                if dim is not None and lengths.get(axis) != item.node.shape[axis]:
                    sizes[folder, dim] = lengths.get(axis)
    return sizes


def _longest_sizes(items: list[SourceNode]) -> dict[tuple[str, str], int]:
    """Return by group and dimension name how long the longest array of the group is."""
    longest: dict[tuple[str, str], int] = {}
    for item in items:
        if isinstance(item.node, ArraySpec):
            folder = split(item.path)[0]
            for dim, size in zip(item.node.dims, item.node.shape, strict=True):
                if dim is not None:
                    longest[folder, dim] = max(size, longest.get((folder, dim), 0))
    return longest


def _set_unlimited_lengths(spec: GroupSpec, longest: Mapping[str, int | None]) -> GroupSpec:
    """Return a group whose unlimited dimensions are as long as its arrays: Zarr's documents do not say the length."""
    return spec.evolve(
        dims=tuple(
            replace(dim, size=max(dim.size, longest.get(dim.name) or 0)) if dim.unlimited else dim for dim in spec.dims
        )
    )


def _sizes_in_scope(sizes: Mapping[tuple[str, str], int | None], group: str) -> dict[str, int | None]:
    """Return the sizes of dimensions as arrays in or below a group use them; arrays nearer to the group win."""
    below = [entry for entry in sizes if not group or entry[0] == group or entry[0].startswith(f"{group}/")]
    # Longest paths first, so that what is nearest to the group is put last and wins.
    below.sort(key=lambda entry: -len(entry[0]))
    return {dim: sizes[folder, dim] for folder, dim in below}


def new_array(
    spec: ArraySpec, picked: Picked, encoding: Encoding, features: Features, *, same_format: bool
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
    layout = {} if shards is None else {"shards": shards}
    sparse = spec.sparse if Feature.SPARSE in features else None
    fill = None if spec.fill_value is None else _convert_fill_value(spec, numpy_dtype(dtype))
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


def _convert_fill_value(spec: ArraySpec, dtype: np.dtype[Any]) -> Any:
    """Return the fill value as a cell of another type."""
    return spec.fill_value if spec.numpy_dtype == dtype else as_type(spec.fill_cell(), dtype)[()]


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
