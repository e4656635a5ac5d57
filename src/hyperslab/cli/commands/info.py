"""``hyperslab info``: what a dataset holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from hyperslab.array import Array
from hyperslab.cli.describing import array_facts, codec_word, cut_text, hidden_nodes, link_facts, links_of
from hyperslab.cli.naming import arrays_of
from hyperslab.cli.opening import open_dataset, url_argument
from hyperslab.cli.output import columns, json_option, print_json
from hyperslab.cli.storage import storage_option
from hyperslab.formats.base import omitted_below
from hyperslab.group import Group
from hyperslab.model.amounts import size_text
from hyperslab.model.paths import child, split
from hyperslab.model.refs import Link, ObjectReference, RegionReference


@click.command("info", epilog="Example: hyperslab info air.zarr --json")
@url_argument
@click.option("--format", help="The format, where it is not to be found out.")
@storage_option()
@json_option
def command(url: str, format: str | None, storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """Format, sizes, dimensions and arrays of the dataset at URL."""
    root = open_dataset(url, storage_option, format)
    found = list(arrays_of(root))  # once: an array of consolidated metadata may turn out to be gone
    facts = gather(root, found)
    if as_json:
        print_json("info", **facts)
    else:
        click.echo(as_text(facts, [codec_word(array.codec) for _, array in found]))


def gather(root: Group | Array, found: Sequence[tuple[str, Array]]) -> dict[str, Any]:
    """All that is told of a dataset and the arrays in it, as plain values."""
    arrays = [array_facts(path, array) for path, array in found]
    stored = [array["nbytes_stored"] for array in arrays]
    return {
        "url": child(root._session.url, root.path) if isinstance(root, Array) else root._session.url,
        "format": root._session.format.name,
        "nbytes": sum(array["nbytes"] for array in arrays),
        "nbytes_stored": None if None in stored else sum(stored),
        "dimensions": _dimensions(root) | ({} if isinstance(root, Array) else _dimensions_below(root, found)),
        "attrs": dict(root.attrs),
        "arrays": arrays,
        "links": [{"path": path, **link_facts(link)} for path, link in links_of(root)],
        "not_shown": list(hidden_nodes(omitted_below(root._session.reader, root.path))),
    }


def _dimensions(root: Group | Array) -> dict[str, Any]:
    if isinstance(root, Array):
        return {dim: {"size": size, "unlimited": False} for dim, size in zip(root.dims, root.shape, strict=True) if dim}
    return {name: {"size": dim.size, "unlimited": dim.unlimited} for name, dim in root.dims.items()}


def _dimensions_below(root: Group, found: Iterable[tuple[str, Array]]) -> dict[str, Any]:
    """Return the dimensions of arrays in groups below, by the path of the group; those of the root's stand there."""
    known = root.dims
    return {
        child(split(path)[0], dim): {"size": size, "unlimited": False}
        for path, array in found
        for dim, size in zip(array.dims, array.shape, strict=True)
        if dim and split(path)[0] and (dim not in known or known[dim].size != size)
    }


def as_text(facts: dict[str, Any], codecs: list[str]) -> str:
    """The same for people, with a word for the codecs of each array."""
    sizes = f"{size_text(facts['nbytes'])} of cells, {size_text(facts['nbytes_stored'])} stored"
    head = f"{facts['url']}: {facts['format']}, {sizes}"
    dims = [
        f"{name}: {dim['size']}{' (unlimited)' if dim['unlimited'] else ''}"
        for name, dim in facts["dimensions"].items()
    ]
    rows: list[tuple[str, ...]] = [("array", "type", "dimensions", "chunks", "codec", "cells", "stored")]
    rows += [_row(array, codec) for array, codec in zip(facts["arrays"], codecs, strict=True)]
    attrs = [f"  {name}: {_line(value)}" for name, value in facts["attrs"].items()]
    links = [f"  /{link['path']} -> {_there(link)}" for link in facts["links"]]
    parts = [head, f"dimensions: {', '.join(dims) or 'none'}", columns(rows)]
    units = [f"/{array['path']} {array['units']}" for array in facts["arrays"] if array["units"] not in (None, "")]
    parts += [f"units: {', '.join(units)}"] if units else []
    parts += [_storage(array) for array in facts["arrays"] if array["storage"]]
    parts += ["links:", *links] if links else []
    hidden = [f"  /{node['path']}: {node['message']}" for node in facts["not_shown"]]
    parts += ["not shown:", *hidden] if hidden else []
    return "\n".join(parts + (["attributes:", *attrs] if attrs else []))


def _there(link: dict[str, Any]) -> str:
    return str(Link(link["target"], link["source"]))


def _line(value: Any) -> str:
    text = f"-> {value}" if isinstance(value, ObjectReference | RegionReference) else str(value)
    return text.splitlines()[0] if text else ""


def _storage(array: dict[str, Any]) -> str:
    told = ", ".join(f"{name.replace('_', ' ')} {_word(value)}" for name, value in array["storage"].items())
    return f"storage of /{array['path']}: {told}"


def _word(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _row(array: dict[str, Any], codec: str) -> tuple[str, ...]:
    pairs = zip(array["dims"], array["shape"], strict=True)
    cells = ", ".join(f"{dim}: {size}" if dim else str(size) for dim, size in pairs) or "(one cell)"
    cut = cut_text(array["chunks"]) + (f" in {cut_text(array['shards'])}" if array["shards"] else "")
    note = array["problem"] or codec
    sizes = (size_text(array["nbytes"]), size_text(array["nbytes_stored"]))
    return (f"/{array['path']}", array["dtype"], cells, cut, note, *sizes)
