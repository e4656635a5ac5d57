"""``hyperslab info``, ``tree``, ``dump``, ``plan``: what a dataset holds, and what reading a part of it costs."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

import click

from hyperslab.array import Array
from hyperslab.array.plain_values import codec_text, to_json_value
from hyperslab.array.series import find_clock, read_sample_scale
from hyperslab.chunks.plan import batched
from hyperslab.cli.arguments import SelectionOptions, find_array, find_cells, open_dataset, parse_selections
from hyperslab.cli.cdl import dump
from hyperslab.cli.options import (
    allow_option,
    at_option,
    choice_options,
    format_option,
    packing_option,
    path_argument,
    selection_options,
    storage_option,
    url_argument,
)
from hyperslab.cli.output import format_columns, json_option, print_json, print_remark
from hyperslab.codecs.registry import IMPLIED, PARAMETERS
from hyperslab.errors import HyperslabError, Invalid, Problem
from hyperslab.group import Group
from hyperslab.group.choice import Choice, choose_of
from hyperslab.group.html import array_text
from hyperslab.group.walk import arrays_of
from hyperslab.model.amounts import size_text
from hyperslab.model.dims import index_cells, sizes_by_dimension
from hyperslab.model.dtypes import describe
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child, split
from hyperslab.model.refs import Link, ObjectReference, RegionReference
from hyperslab.model.series import sample_rate
from hyperslab.model.spec import Chunks, Codec
from hyperslab.stores.credentials import redact
from hyperslab.stores.location import Location

# -- What a dataset is, as plain values for info and tree --------------------------------------------------------------


_UNSAID = {"blosc": {"shuffle"}, "zstd": {"checksum"}, "shuffle": {"elementsize"}}
"""Parameters that a word may give ``--codec``, and that ``info`` leaves out: few choose them."""
# Nodes that cannot be read and have a line each: ``check`` tells all of them.
_SHOWN = 5
# Dimensions that one line names; those of the groups of a session of NWB are dozens, and stand beside its arrays.
_DIMENSIONS = 12
# Sizes of one dimension that it names; an image pyramid has about so many levels.
_SIZES = 6


def codec_word(codecs: Iterable[Codec]) -> str:
    """Return the chain as ``--codec`` would take it: ``blosc:lz4:5 + crc32c``; of shards, the chain of their chunks."""
    words = []
    for codec in codecs:
        if codec.name == "sharding_indexed":
            words.append(codec_word(codec.config["codecs"]))
        elif codec.name not in IMPLIED:
            said = [name for name in PARAMETERS.get(codec.name, ()) if name not in _UNSAID.get(codec.name, ())]
            values = [codec.config.get(name) for name in said]
            texts = ["" if value is None else str(value) for value in values]
            words.append(":".join([codec.name, *texts]).rstrip(":"))
    return " + ".join(words) or "none"


def cut_text(chunks: Chunks | None) -> str:
    """Return ``10 x 37 x 49``; varying sizes in brackets."""
    if chunks is None:
        return ""
    return " x ".join(str(cut) if isinstance(cut, int) else f"[{len(cut)} sizes]" for cut in chunks) or "1"


def array_facts(path: str, array: Array) -> dict[str, object]:
    """Return what ``info`` says of one array; nothing of what cannot be read."""
    nbytes_stored: int | None = None
    storage: dict[str, object] = {}
    with suppress(HyperslabError):
        nbytes_stored = array.nbytes_stored
    with suppress(HyperslabError):
        storage = dict(array._session.reader.storage(array.path))
    return {
        "path": path,
        "dtype": describe(array.data_type),
        **({"sparse": array.spec.sparse} if array.spec.sparse else {}),
        "shape": array.shape,
        "dims": array.dims,
        "chunks": array.chunks,
        "shards": array.shards,
        "codec": codec_text(array.codec),
        "nbytes": array.nbytes,
        "nbytes_stored": nbytes_stored,
        "fill_value": array.spec.fill_value,
        "units": array.units,
        "problem": array.spec.problem,
        "storage": storage,
        **sample_facts(array),
    }


def sample_facts(array: Array) -> dict[str, object]:
    """Return the first and last second of the samples of a series of NWB, and its rate, None with timestamps; nothing
    of other arrays, and where the seconds cannot be read."""
    size = array.shape[0] if array.ndim else 0
    ends = range(0, size, max(size - 1, 1))
    with suppress(HyperslabError):  # a link may lead nowhere
        clock = find_clock(array._session, array.path, array.spec) if size else None
        if clock is not None:
            _, path, spec = clock
            found = Array(*clock)[:: ends.step] if spec.shape else index_cells(read_sample_scale(clock, size), ends)[0]
            seconds = to_json_value(found)
            rate = None if spec.shape else sample_rate(spec)
            return {"seconds": {"first": seconds[0], "last": seconds[-1], "rate": rate, "from": f"/{path}"}}
    return {}


def _sample_text(path: str, seconds: Mapping[str, Any]) -> str:
    """Return the line of a series: its seconds, and how they are stored."""
    first, last = (f"{end:.12g}" if isinstance(end, float) else end for end in (seconds["first"], seconds["last"]))
    source = f"by {seconds['from']}" if seconds["rate"] is None else f"{seconds['rate']:.12g} samples a second"
    return f"seconds of /{path}: {first} to {last}, {source}"


def _nodes(node: Group | Array, path: str) -> Generator[object]:
    """Yield kind and path of every node at or below this one, in order; a damaged one with its problem."""
    if isinstance(node, Array):
        yield {"path": path, "kind": "array", "dtype": describe(node.data_type), "shape": node.shape, "dims": node.dims}
        return
    yield {"path": path, "kind": "group"}
    links = dict(node.links())
    yield from hidden_nodes(node._session.reader.omitted(node.path))
    for name in node:
        place = child(path, name)
        if name in links:
            yield {"path": place, "kind": "link", **link_facts(links[name])}
            continue
        try:
            below = node[name]
        except HyperslabError as error:
            yield {"path": place, "kind": "problem", "message": str(error)}
            continue
        yield _nodes(below, place)


def hidden_nodes(found: Iterable[Problem]) -> Iterator[dict[str, object]]:
    """Return what a dataset holds and is not shown, as plain values."""
    for problem in found:
        yield {"path": problem.node, "kind": "not shown", "message": problem.message}


def link_facts(link: Link) -> dict[str, object]:
    """Return where a link leads to: a path, in this dataset (``.``) or another one."""
    known = {"object_id": link.object_id} if link.object_id is not None else {}
    return {"target": link.target, "source": redact(link.source), **known}


def _links(group: Group) -> Generator[Any]:
    """Yield path and link of every link below a group; none is followed."""
    links = dict(group.links())
    yield from ((child(group.path, name), link) for name, link in links.items())
    for name in group:
        below = None
        with suppress(HyperslabError):  # each by itself: behind one that cannot be read there are others
            below = group[name] if name not in links else None
        if isinstance(below, Group):
            yield _links(below)


@click.command("info", epilog="Example: hyperslab info air.zarr --json")
@url_argument
@format_option
@choice_options()
@packing_option
@at_option()
@storage_option()
@json_option
def info_command(
    url: str,
    format: str | None,
    choice: Choice,
    packing: str,
    at: str | None,
    storage_option: dict[str, object] | None,
    as_json: bool,
) -> None:
    """Format, sizes, dimensions and arrays of the dataset at URL; of the variables alone that are chosen."""
    root = open_dataset(url, storage_option, format, at=at, packing=packing)
    errors: dict[str, HyperslabError] = {}
    found = list(arrays_of(root, errors))  # once: an array of consolidated metadata may turn out to be gone
    if choice:
        found = choose_of(root, found, choice)
        errors = {path: error for path, error in errors.items() if choice.may_choose(path)}
    facts = gather(root, found, errors)
    if as_json:
        print_json("info", **facts)
    else:
        click.echo(as_text(facts, [codec_word(array.codec) for _, array in found]))
        if facts["format"] in ("collections", "deker") and not root.path and len(found) > 1:
            print_remark(f"hyperslab db list {shlex.quote(redact(url))} prints a line for each collection, not array")


def gather(
    root: Group | Array, found: Sequence[tuple[str, Array]], errors: Mapping[str, HyperslabError]
) -> dict[str, Any]:
    """Return what ``info`` says of a dataset, the arrays in it and the nodes that cannot be read, as plain values."""
    arrays = [array_facts(path, array) for path, array in found]
    stored = [array["nbytes_stored"] for array in arrays]
    links: list[tuple[str, Link]] = []
    if isinstance(root, Array):
        sizes = zip(root.dims, root.shape, strict=True)
        dims = {dim: {"size": size, "unlimited": False} for dim, size in sizes if dim}
    else:
        links = list(flattened(_links(root)))
        dims = _dimension_facts(root, found)
    return {
        "url": f"{root._session.url}/{root.path}" if root.path else root._session.url,
        "format": root._session.format.name,
        "nbytes": sum(array["nbytes"] for array in arrays),
        "nbytes_stored": None if None in stored else sum(stored),
        "dimensions": dims,
        "attrs": dict(root.attrs),
        "arrays": arrays,
        "links": [{"path": path, **link_facts(link)} for path, link in links],
        "not_shown": list(hidden_nodes(root._session.reader.omitted_below(root.path))),
        "unreadable": [{"path": path, "message": error.said} for path, error in errors.items()],
    }


def _dimension_facts(root: Group, arrays: Sequence[tuple[str, Array]]) -> dict[str, dict[str, Any]]:
    """Return the dimensions by name, with all sizes that one has among arrays of one group; those of arrays in groups
    below stand under the path of their group, unless they are the root's."""
    groups: dict[str, list[tuple[str, Array]]] = {"": []}
    for path, array in arrays:
        groups.setdefault(split(path)[0], []).append((path, array))
    facts: dict[str, dict[str, Any]] = {}
    known = root.dims
    sizes_of_root: dict[str, list[int]] = {name: [dim.size] for name, dim in known.items()}
    for group, members in groups.items():
        found = sizes_by_dimension((path, array.dims, array.shape) for path, array in members)
        sizes = {dim: list(by_size) for dim, by_size in found.items()}
        if not group:
            sizes = sizes_of_root = sizes_of_root | sizes
        for dim, several in sizes.items():
            if group and several == sizes_of_root.get(dim):
                continue
            is_unlimited = not group and dim in known and known[dim].unlimited
            size = known[dim].size if not group and dim in known and known[dim].size in several else several[-1]
            facts[child(group, dim)] = {"size": size, "unlimited": is_unlimited}
            if len(several) > 1:
                facts[child(group, dim)]["sizes"] = several
    return facts


def _dimension_text(name: str, facts: Mapping[str, Any]) -> str:
    """Return the size of a dimension, or the sizes that it has in several arrays."""
    sizes = facts.get("sizes", [facts["size"]])
    text = " or ".join(map(str, sizes)) if len(sizes) <= _SIZES else f"{sizes[0]} to {sizes[-1]} ({len(sizes)} sizes)"
    return f"{name}: {text}{' (unlimited)' if facts['unlimited'] else ''}"


def as_text(facts: dict[str, Any], codecs: list[str]) -> str:
    """Return the same for people, with a word for the codecs of each array."""
    sizes = f"{size_text(facts['nbytes'])} of cells, {size_text(facts['nbytes_stored'])} stored"
    head = f"{facts['url']}: {facts['format']}, {sizes}"
    dims = [_dimension_text(name, dim) for name, dim in facts["dimensions"].items()]
    rows: list[tuple[str, ...]] = [("array", "type", "dimensions", "chunks", "codec", "cells", "stored")]
    storage = []
    for array, codec in zip(facts["arrays"], codecs, strict=True):
        pairs = zip(array["dims"], array["shape"], strict=True)
        cells = ", ".join(f"{dim}: {size}" if dim else str(size) for dim, size in pairs) or "(one cell)"
        cut = cut_text(array["chunks"]) + (f" in {cut_text(array['shards'])}" if array["shards"] else "")
        nbytes, stored = size_text(array["nbytes"]), size_text(array["nbytes_stored"])
        rows.append((f"/{array['path']}", array["dtype"], cells, cut, array["problem"] or codec, nbytes, stored))
        texts = []
        for name, value in array["storage"].items():
            word = ("no", "yes")[value] if isinstance(value, bool) else value
            texts.append(f"{name.replace('_', ' ')} {word}")
        if texts:
            storage.append(f"storage of /{array['path']}: {', '.join(texts)}")
    attrs = []
    for name, value in facts["attrs"].items():
        text = f"-> {value}" if isinstance(value, ObjectReference | RegionReference) else str(value)
        attrs.append(f"  {name}: {text.splitlines()[0] if text else ''}")
    links = [f"  /{link['path']} -> {Link(link['target'], link['source'])}" for link in facts["links"]]
    rest = f", … ({len(dims) - _DIMENSIONS} more, below)" if len(dims) > _DIMENSIONS else ""
    parts = [head, f"dimensions: {', '.join(dims[:_DIMENSIONS]) or 'none'}{rest}", format_columns(rows)]
    units = [f"/{array['path']} {array['units']}" for array in facts["arrays"] if array["units"] not in (None, "")]
    parts += [f"units: {', '.join(units)}"] if units else []
    parts += storage
    parts += [_sample_text(array["path"], array["seconds"]) for array in facts["arrays"] if "seconds" in array]
    parts += ["links:", *links] if links else []
    hidden = [f"  /{node['path']}: {node['message']}" for node in facts["not_shown"]]
    parts += ["not shown:", *hidden] if hidden else []
    unreadable = [f"  /{node['path']}: {node['message']}" for node in facts["unreadable"]]
    more = [f"  and {len(unreadable) - _SHOWN:,} more"] if len(unreadable) > _SHOWN else []
    advice = f"cannot be read (hyperslab check {facts['url']} tells what is wrong):"
    parts += [advice, *unreadable[:_SHOWN], *more] if unreadable else []
    return "\n".join(parts + (["attributes:", *attrs] if attrs else []))


# -- hyperslab tree: the names in a dataset ----------------------------------------------------------------------------


@click.command("tree", epilog="Example: hyperslab tree air.zarr")
@url_argument
@storage_option()
@json_option
def tree_command(url: str, storage_option: dict[str, object] | None, as_json: bool) -> None:
    """The tree of groups, arrays and links of the dataset at URL."""
    root = open_dataset(url, storage_option)
    if as_json:
        print_json("tree", url=url, nodes=list(flattened(_nodes(root, ""))))
    elif isinstance(root, Group):
        click.echo(root.tree())
    else:
        click.echo(f"{Location.of(url).name}{array_text(root.spec)}")


# -- hyperslab dump: CDL text ------------------------------------------------------------------------------------------


# Lines that are written together: each write is flushed.
_AT_ONCE = 1000


@click.command("dump", epilog="Example: hyperslab dump air.zarr -h; hyperslab dump air.zarr --array t2m")
@url_argument
@click.option("-h", "--header", is_flag=True, help="The header alone, no cells.")
@click.option("--array", "arrays", multiple=True, metavar="PATH", help="Cells of this array only; repeatable.")
@choice_options()
@storage_option()
@json_option
def dump_command(
    url: str,
    header: bool,
    arrays: tuple[str, ...],
    choice: Choice,
    storage_option: dict[str, object] | None,
    as_json: bool,
) -> None:
    """The dataset at URL as CDL text, as ncdump prints it; with the cells of the variables alone that are chosen."""
    root = open_dataset(url, storage_option)
    name = PurePosixPath(url.rstrip("/")).name
    name = name.rsplit(".", 1)[0] or name
    paths = [path for path, _ in choose_of(root, list(arrays_of(root)), choice)] if choice else []
    for path in arrays:
        array = find_array(root, path)
        if array.url != root.url:  # a link to one of another dataset is shown as a link alone
            message = f"/{path.strip('/')} leads to another dataset"
            raise Invalid(message, url=array.url, node=array.path, remedy="dump that")
        paths.append(array.path)
    only = frozenset(paths) if paths and isinstance(root, Group) else None
    lines = dump(root, name, header=header, only=only)
    if as_json:
        print_json("dump", url=url, cdl="\n".join(lines))
        return
    for some in batched(lines, _AT_ONCE):
        click.echo("\n".join(some))


# -- hyperslab plan: what a selection costs, before it runs ------------------------------------------------------------


@click.command("plan", epilog="Example: hyperslab plan air.zarr t2m -s time=2013-01..2013-03 -s lat=50.0")
@url_argument
@path_argument
@selection_options
@storage_option()
@allow_option()
@json_option
def plan_command(
    url: str,
    path: str,
    selections: tuple[str, ...],
    manner: SelectionOptions,
    storage_option: dict[str, object] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
) -> None:
    """Show which chunks, bytes and requests a selection of the array PATH costs; no cell is read."""
    array = find_array(open_dataset(url, storage_option, allow=allow_external), path)
    price = array.plan(find_cells([array], parse_selections(selections), manner).key(array))
    if as_json:
        print_json("plan", url=url, path=array.path, **price.as_json())
    else:
        click.echo(str(price))
