"""The keys of Zarr v3, which are all that a repository has, and in words what was changed under them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from icechunk import Diff

DOCUMENT = "zarr.json"
# Keys of Zarr v3, which are all that a repository has: documents, and chunks by the default rule for their keys.
CHUNK = re.compile(r"(?:(?P<node>.+)/)?(?P<tail>c(?:/(?:0|[1-9][0-9]*))*)")
# Names of nodes in a message that the store makes itself.
_MOST_NAMES = 4


def node_of_key(key: str) -> str | None:
    """Return the node whose document or chunk has this key; None for a key that no repository has."""
    if key == DOCUMENT:
        return ""
    if key.endswith(f"/{DOCUMENT}"):
        return key[: -len(DOCUMENT) - 1]
    chunk = CHUNK.fullmatch(key)
    return None if chunk is None else chunk["node"] or ""


def is_scalar(document: bytes | None) -> bool:
    """Return True for the document of an array without dimensions, whose only chunk has no folder."""
    found = {} if document is None else msgspec.json.decode(document)
    return isinstance(found, dict) and found.get("shape") == []


def find_written(changes: Diff) -> Iterator[str]:
    """Yield as many keys of each node as were written in a session, whose changes these are."""
    for path in (*changes.new_groups, *changes.new_arrays, *changes.updated_groups, *changes.updated_arrays):
        yield f"{path.strip('/')}/{DOCUMENT}"
    for path, chunks in changes.updated_chunks.items():
        yield from (f"{path.strip('/')}/c/{number}" for number in range(len(chunks)))


def describe_changes(keys: Iterable[str], gone: Collection[str] = ()) -> str:
    """Return in words what was changed: the nodes that have documents or chunks of these keys, or those ``gone``."""
    chunks: dict[str, int] = {}
    documents: dict[str, None] = {}
    for key in keys:
        node = node_of_key(key) or ""
        if node in gone:
            continue
        if key.endswith(DOCUMENT):
            documents[node] = None
        else:
            chunks[node] = chunks.get(node, 0) + 1
    if not chunks:
        return f"change {_name_nodes(documents)}" if documents else f"remove {_name_nodes(sorted(gone))}"
    if len(chunks) == 1:
        ((node, number),) = chunks.items()
        return f"write {_name_nodes([node])}, {number} chunk{'s' if number > 1 else ''}"
    return f"write {_name_nodes(chunks)}"


def _name_nodes(nodes: Iterable[str]) -> str:
    names = [f"/{node}" for node in nodes]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
