"""What a dataset is, as plain values for ``info`` and ``tree``."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from typing import Any

from hyperslab.array import Array
from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.base import TellsStorage, omitted_at
from hyperslab.group import Group
from hyperslab.model.dtypes import describe
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child
from hyperslab.model.refs import Link
from hyperslab.model.spec import Chunks, Codec
from hyperslab.stores.redaction import redact

_PLAIN = ("bytes", "vlen-utf8", "vlen-bytes", "vlen-array")
"""What only makes bytes of cells goes without saying."""
_TOLD = {"blosc": ("cname", "clevel"), "lzma": ("preset",), "lz4": ("acceleration",), "bitround": ("keepbits",)}
_TOLD |= dict.fromkeys(("zstd", "gzip", "zlib", "bz2", "pcodec"), ("level",))


def codec_text(codecs: tuple[Codec, ...]) -> str:
    """The chain in a few words: ``bytes, zstd(level=3)``; a shard's inner chain in brackets."""
    return ", ".join(map(_one_codec, codecs)) or "none"


def _one_codec(codec: Codec) -> str:
    if codec.name == "sharding_indexed":
        return f"sharding[{codec_text(tuple(codec.config['codecs']))}]"
    simple = {name: value for name, value in codec.config.items() if isinstance(value, str | int | float)}
    return codec.name + (f"({', '.join(f'{name}={value}' for name, value in simple.items())})" if simple else "")


def codec_word(codecs: Iterable[Codec]) -> str:
    """The chain as ``--codec`` would take it: ``blosc:lz4:5 + crc32c``; of shards, the chain of their chunks."""
    return " + ".join(filter(None, map(_one_word, codecs))) or "none"


def _one_word(codec: Codec) -> str:
    if codec.name in _PLAIN:
        return ""
    if codec.name == "sharding_indexed":
        return codec_word(codec.config["codecs"])
    given = [codec.config.get(name) for name in _TOLD.get(codec.name, ())]
    return ":".join([codec.name, *(str(value) for value in given if value is not None)])


def cut_text(chunks: Chunks | None) -> str:
    """``10 x 37 x 49``; varying sizes in brackets."""
    if chunks is None:
        return ""
    return " x ".join(str(cut) if isinstance(cut, int) else f"[{len(cut)} sizes]" for cut in chunks) or "1"


def array_facts(path: str, array: Array) -> dict[str, Any]:
    """One array: what ``info`` says of it."""
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
        "nbytes_stored": _stored(array),
        "fill_value": array.spec.fill_value,
        "units": array.units,
        "problem": array.spec.problem,
        "storage": _storage(array),
    }


def _storage(array: Array) -> dict[str, Any]:
    """What the format tells beyond the spec."""
    reader = array._session.reader
    try:
        return dict(reader.storage(array.path)) if isinstance(reader, TellsStorage) else {}
    except HyperslabError:
        return {}


def _stored(array: Array) -> int | None:
    try:
        return array.nbytes_stored
    except HyperslabError:
        return None


def nodes_of(node: Group | Array) -> Iterator[dict[str, Any]]:
    """Kind and path of every node at or below this one, in order; a damaged one says its problem."""
    return flattened(_nodes(node, ""))


def _nodes(node: Group | Array, path: str) -> Generator[Any]:
    if isinstance(node, Array):
        yield {"path": path, "kind": "array", "dtype": describe(node.data_type), "shape": node.shape, "dims": node.dims}
        return
    yield {"path": path, "kind": "group"}
    links = dict(node.links())
    yield from hidden_nodes(omitted_at(node._session.reader, node.path))
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


def hidden_nodes(found: Iterable[Problem]) -> Iterator[dict[str, Any]]:
    """Return what a dataset holds and is not shown, as plain values."""
    for problem in found:
        yield {"path": problem.node, "kind": "not shown", "message": problem.message}


def link_facts(link: Link) -> dict[str, Any]:
    """Where a link leads to: a path, in this dataset (``.``) or another one."""
    known = {"object_id": link.object_id} if link.object_id is not None else {}
    return {"target": link.target, "source": redact(link.source), **known}


def links_of(node: Group | Array) -> Iterator[tuple[str, Link]]:
    """Path and link of every link below a node; none is followed."""
    return flattened(_links(node))


def _links(node: Group | Array) -> Generator[Any]:
    if isinstance(node, Array):
        return
    links = dict(node.links())
    yield from ((child(node.path, name), link) for name, link in links.items())
    with suppress(HyperslabError):
        for _, group in node.groups():
            yield _links(group)
