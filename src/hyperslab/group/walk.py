"""Every array below a group."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from hyperslab.array import Array
from hyperslab.errors import HyperslabError
from hyperslab.group.group import Group
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child


def arrays_of(node: Group | Array, errors: dict[str, HyperslabError] | None = None) -> Iterator[tuple[str, Array]]:
    """Yield path and array of every array at or below a node, without damaged nodes and links, which may lead up.

    ``errors``: gets the error of each node that cannot be read, by its path.
    """
    return flattened(_arrays(node, {} if errors is None else errors))


def _arrays(node: Group | Array, errors: dict[str, HyperslabError]) -> Generator[Any]:
    if isinstance(node, Array):
        yield node.path, node
        return
    links = dict(node.links())
    for name in node:
        if name in links:
            continue
        try:
            found = node[name]
        except HyperslabError as error:
            errors[child(node.path, name)] = error
            continue
        yield _arrays(found, errors)
