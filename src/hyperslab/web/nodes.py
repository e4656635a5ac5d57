"""Descriptions of nodes for the explorer, as JSON values of bounded size: lists of them, one in full, and a cell."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.array.flags import find_flags
from hyperslab.array.html import is_quickly_sized
from hyperslab.array.plain_values import codec_text
from hyperslab.array.session import OpenDataset
from hyperslab.errors import HyperslabError, Invalid, NodeNotFound, SelectionError
from hyperslab.model.dims import axis_names
from hyperslab.model.dtypes import describe
from hyperslab.model.paths import child, normalize
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, Chunks, GroupSpec, Node
from hyperslab.stores.credentials import redact
from hyperslab.stores.location import Location
from hyperslab.web.axes import labels_of
from hyperslab.web.bounded_values import cut_text, flag_facts, plain, public_text, shown_units
from hyperslab.web.cell_places import find_cell_places, place_facts
from hyperslab.web.dataset_cache import DatasetCache
from hyperslab.web.rows import count_rows, is_collection

# Nodes of one list, and seconds after which a list ends early: on a server each node may be a request.
MOST_NODES, _LIST_SECONDS = 2000, 5.0
# Attributes of a node that are told, their bytes as JSON, and what is not shown of a group, with the reason.
_MOST_ATTRIBUTES, _ATTRIBUTE_BYTES, _MOST_OMITTED = 500, 1 << 20, 100


# -- lists -------------------------------------------------------------------------------------------------------------


def list_nodes(
    datasets: DatasetCache, where: Location, group: str, after: str | None, depth: int | None = None
) -> dict[str, object]:
    """Return the first nodes at and below a group, in the dataset's order; those behind ``after`` where that is named.

    ``depth``: how many levels below the group, None for all. ``next``: what to name for more; None where these are
    all. NodeNotFound.
    """
    session = datasets.open(where, listing=True)
    group, after = normalize(group), None if after is None else normalize(after)
    found: list[dict[str, object]] = []
    last, deadline = "", time.monotonic() + _LIST_SECONDS
    is_whole = True
    for path, node in _walk(session, group, after, depth):
        if len(found) == MOST_NODES or (found and time.monotonic() > deadline):
            is_whole = False
            break
        last = path
        found.append({"path": f"/{path}", **_facts_of(session, path, node)})
    omitted = [public_text(str(problem)) for problem in islice(session.reader.omitted(group), _MOST_OMITTED + 1)]
    return {
        "url": session.url,
        "format": session.format.name,
        "group": f"/{group}",
        "main": session.reader.main and f"/{session.reader.main}",
        "nodes": found,
        "is_whole": is_whole,
        "next": None if is_whole else f"/{last}",
        "not_shown": [*omitted[:_MOST_OMITTED], *(["and more"] if len(omitted) > _MOST_OMITTED else [])],
    }


def _walk(
    session: OpenDataset, group: str, after: str | None, depth: int | None
) -> Iterator[tuple[str, Node | HyperslabError]]:
    """Yield path and node of a group and of all below it, or the error of one that cannot be read."""
    if after is not None:
        below = _resume(session, group, after)[:depth]
    else:
        top = session.reader.node(group)
        yield group, top
        below = [_enter(session, group)] if top.is_group else []
    while below:
        path = next(below[-1], None)
        if path is None:
            below.pop()
            continue
        try:
            node = session.reader.node(path)
        except HyperslabError as error:
            yield path, error
            continue
        yield path, node
        if node.is_group and len(below) != depth and not is_collection(session, path):
            below.append(_enter(session, path))


def _enter(session: OpenDataset, group: str) -> Iterator[str]:
    """Yield the paths right below a group; none of one whose names cannot be read."""
    with suppress(HyperslabError):
        for name in session.reader.children(group):
            yield child(group, name)


def _resume(session: OpenDataset, group: str, after: str) -> list[Iterator[str]]:
    """Return what is left to walk behind a node. Invalid where it is gone, or is not below the group."""
    below: list[Iterator[str]] = []
    path = group
    if after != group:
        if group and not after.startswith(f"{group}/"):
            raise Invalid(f"/{after} is not below /{group}", remedy="name the next of the list before")
        for name in after[len(group) :].strip("/").split("/"):
            try:
                names = session.reader.children_after(path, name)
            except NodeNotFound as error:
                remedy = "list from the beginning"
                raise Invalid(f"/{child(path, name)} is no longer there", remedy=remedy) from error
            below.append(map(partial(child, path), names))
            path = child(path, name)
    if session.reader.node(path).is_group and not is_collection(session, path):
        below.append(_enter(session, path))
    return below


def _facts_of(session: OpenDataset, path: str, node: Node | HyperslabError) -> dict[str, object]:
    """Return what a list tells of one node."""
    if isinstance(node, HyperslabError):
        return {"kind": "problem", "message": public_text(node.said)}
    if isinstance(node, Link):
        return {"kind": "link", **link_facts(node)}
    kind = node.attrs.get("neurodata_type", node.attrs.get("data_type"))
    typed = {"type": cut_text(kind)[0]} if isinstance(kind, str) else {}
    if isinstance(node, GroupSpec):
        return {"kind": "collection" if is_collection(session, path) else "group", **typed}
    return {
        "kind": "array",
        "dims": [None if dim is None else cut_text(dim)[0] for dim in node.dims],
        "shape": node.shape,
        "dtype": describe(node.dtype),
        "units": node.units and cut_text(node.units)[0],
        "nbytes": _nbytes(node),
        **({"problem": public_text(node.problem)} if node.problem else {}),
        **typed,
    }


def _nbytes(spec: ArraySpec) -> int:
    cells = 1
    for size in spec.shape:
        cells *= size
    return cells * spec.numpy_dtype.itemsize


def link_facts(link: Link) -> dict[str, object]:
    """Return where a link leads to: a path, in this dataset (``.``) or another one."""
    return {"target": cut_text(link.target)[0], "source": cut_text(redact(link.source))[0]}


# -- one node ----------------------------------------------------------------------------------------------------------


def node_facts(datasets: DatasetCache, where: Location, path: str) -> dict[str, object]:
    """Return all that is told of one node: of a link what it leads to, with where that is. Errors as for a look there.

    The size where it is stored is told of arrays of few chunks at hand.
    """
    session, place, spec = datasets.open_node(where, path)
    link: dict[str, object] = {}
    with suppress(NodeNotFound):  # what stands behind a link to a group has none of its own
        here = datasets.open(where).reader.node(normalize(path))
        if isinstance(here, Link):
            link = {"link": {**link_facts(here), "leads_to": f"/{place}", "url": session.url}}
    main = session.reader.main and f"/{session.reader.main}"
    head = {"url": session.url, "format": session.format.name, "path": f"/{normalize(path)}", "main": main, **link}
    facts = _facts_of(session, place, spec)
    attrs = parse_documents(spec.attrs) if is_collection(session, place) else spec.attrs
    attributes, is_whole = attribute_list(attrs)
    tail: dict[str, object] = {"attributes": attributes, "attributes_are_all": is_whole}
    rows = count_rows(session, place, spec)
    if rows is not None:
        tail["rows"] = rows
    if isinstance(spec, ArraySpec):
        facts |= _array_facts(Array(session, place, spec))
    return {**head, **facts, **tail}


def _array_facts(array: Array) -> dict[str, object]:
    """Return how an array is stored, the coordinates of its dimensions, and where its cells lie on the earth."""
    spec, session = array.spec, array._session
    storage: dict[str, object] = {}
    stored = None
    with suppress(HyperslabError):
        storage = dict(session.reader.storage(array.path))
        if is_quickly_sized(session.url, spec):
            stored = array.nbytes_stored
    places = find_cell_places(array)
    return {
        "units": shown_units(array)[0],
        "chunks": _cut_facts(array.chunks),
        "shards": None if array.shards is None else _cut_facts(array.shards),
        "codec": cut_text(codec_text(array.codec))[0],
        "fill_value": plain(_named(spec.fill_value))[0],
        "sparse": spec.sparse,
        "nbytes_stored": stored,
        "storage": plain(storage)[0],
        "coordinates": [_coordinate_facts(array, axis) for axis in range(array.ndim)],
        "map": places and places.as_json(),
        "flags": flag_facts(find_flags(spec.attrs)),
    }


def _named(value: object) -> object:
    """Return a value as it is told; NaN and infinities, of which JSON has none, by their names."""
    return str(value) if isinstance(value, float | np.floating) and not np.isfinite(value) else value


def _cut_facts(chunks: Chunks) -> list[object]:
    """Return the chunk length along each axis; where they vary their number, the least and the most."""
    return [
        cut if isinstance(cut, int) else {"count": len(cut), "least": min(cut, default=0), "most": max(cut, default=0)}
        for cut in chunks
    ]


def _coordinate_facts(array: Array, axis: int) -> dict[str, object]:
    """Return the coordinate of a dimension, with its first and last label."""
    size = array.shape[axis]
    labels = labels_of(array, axis, range(0, size, max(size - 1, 1)))
    facts = labels.as_json()
    texts = labels.labels or []
    return {"dim": axis_names(array.dims)[axis], "size": size, **facts, "labels": None, "ends": texts}


def parse_documents(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a collection: its schema, which is JSON in a text, as the mapping that it is."""
    found = dict(attrs)
    for name, value in attrs.items():
        if isinstance(value, str) and value.startswith("{") and len(value) <= _ATTRIBUTE_BYTES:
            with suppress(ValueError, RecursionError):
                found[name] = json.loads(value)
    return found


def attribute_list(attrs: Mapping[str, Any]) -> tuple[list[dict[str, object]], bool]:
    """Return name and value of the first attributes, with ``cut`` where that is a part; True where these are all."""
    found: list[dict[str, object]] = []
    left = _ATTRIBUTE_BYTES
    for name, value in islice(attrs.items(), _MOST_ATTRIBUTES):
        shown, cut = plain(_named(value))
        found.append({"name": cut_text(str(name))[0], "value": shown, **({"cut": cut} if cut else {})})
        left -= len(json.dumps(found[-1]))
        if left < 0:
            break
    return found, len(found) == len(attrs)


# -- one cell ----------------------------------------------------------------------------------------------------------


def cell_facts(array: Array, index: tuple[int, ...]) -> dict[str, object]:
    """Return one cell, decoded and as stored, with its labels. SelectionError for what is no cell, CorruptChunk."""
    if len(index) != array.ndim or any(not at < size for at, size in zip(index, array.shape, strict=True)):
        remedy = f"give {array.ndim} positions within {'x'.join(map(str, array.shape)) or 'no dimensions'}"
        raise SelectionError("there is no such cell", node=array.path, url=array.url, remedy=remedy)
    stored = array[index]
    units, stored_units = shown_units(array)
    facts: dict[str, object] = {"path": f"/{array.path}", "index": list(index), "units": units}
    facts["stored_units"] = stored_units
    value, problem = stored, None
    try:
        view = array.decoded()
        value = np.asarray(view[index[: view.ndim]])[()]
    except HyperslabError as error:
        problem = public_text(error.said)
    names = axis_names(array.dims)
    labels = [
        (name, labels_of(array, axis, range(at, at + 1)))
        for axis, (name, at) in enumerate(zip(names, index, strict=True))
    ]
    facts["places"] = place_facts(array, index)
    facts["words"] = [] if (flags := find_flags(array.spec.attrs)) is None else flags.words_of(stored)
    facts["labels"] = [
        {"dim": name, "label": found.labels[0] if found.labels else None, "units": found.units}
        for name, found in labels
    ]
    shown, cut = plain(value)
    facts |= {"value": shown, "stored": plain(stored)[0], **({"cut": cut} if cut else {})}
    return facts if problem is None else {**facts, "problem": problem}
