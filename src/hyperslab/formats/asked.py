"""What is asked of a reader and cannot be: the errors are the same in every format."""

from __future__ import annotations

from collections.abc import Iterable

from hyperslab.errors import Invalid, NodeNotFound, NotFound
from hyperslab.model.spec import ArraySpec, GroupSpec


def no_node(path: str, url: str) -> NodeNotFound:
    """The error for a path at which nothing lies."""
    return NodeNotFound(f"there is no /{path}", url=url, node=path)


def no_file(url: str) -> NotFound:
    """The error for a file that is not there."""
    return NotFound("there is no such file", url=url)


def closed(url: str) -> Invalid:
    """The error for what is asked of a dataset that was closed."""
    return Invalid("the dataset is closed", url=url, remedy="open it again")


def names_below(spec: GroupSpec | ArraySpec, names: Iterable[str]) -> list[str]:
    """The names right below a node, in a dataset whose arrays all lie in its root: nothing is below an array."""
    return list(names) if isinstance(spec, GroupSpec) else []


def array_at(path: str, spec: GroupSpec | ArraySpec, url: str) -> ArraySpec:
    """The spec of an array whose cells are asked for; NodeNotFound for that of a group."""
    if not isinstance(spec, ArraySpec):
        raise NodeNotFound("this is a group, not an array", url=url, node=path)
    return spec
