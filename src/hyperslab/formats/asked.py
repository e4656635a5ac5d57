"""What is asked of a reader by its path: what is not there is the same error in every format."""

from __future__ import annotations

from hyperslab.errors import NodeNotFound
from hyperslab.model.spec import ArraySpec, GroupSpec


def no_node(path: str, url: str) -> NodeNotFound:
    """The error for a path at which nothing lies."""
    return NodeNotFound(f"there is no /{path}", url=url, node=path)


def array_at(path: str, spec: GroupSpec | ArraySpec, url: str) -> ArraySpec:
    """The spec of an array whose cells are asked for; NodeNotFound for that of a group."""
    if not isinstance(spec, ArraySpec):
        raise NodeNotFound("this is a group, not an array", url=url, node=path)
    return spec
