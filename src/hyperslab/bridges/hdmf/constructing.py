"""Containers of a file some of whose links lead nowhere: what cannot be made without them is left out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import ConstructError, GroupBuilder

from hyperslab.bridges.hdmf.pointers import path_of, root_of, target_of


class Incomplete(Protocol):
    """An open file."""

    @property
    def manager(self) -> Any: ...
    @property
    def incomplete(self) -> list[Any]:
        """Builders that lack a link or a reference."""
        ...


def construct(file: Incomplete, read: Callable[[], Any]) -> Any:
    """What ``read`` gives, begun anew without a builder that cannot be made since it lacks a link or reference."""
    while True:
        try:
            return read()
        except ConstructError as error:
            builder, why = error.args
            if not _leave_out(builder, file.incomplete):
                raise
            message = f"{path_of(builder)} is left out, it lacks what cannot be read: {why}"
            warnings.warn(message, BrokenLinkWarning, stacklevel=3)
            file.manager.clear_cache()


def _leave_out(builder: Any, incomplete: list[Any]) -> bool:
    """Take a builder, and what leads to it, out of the tree, if it or something of it lacks something."""
    if builder.parent is None or not any(_is_within(each, builder) for each in incomplete):
        return False
    places = list(_places(root_of(builder), builder))
    for holder, names, name in places:
        del names[name]
        if isinstance(holder, GroupBuilder):
            del holder.obj_type[name]
        incomplete.append(holder)
    return bool(places)


def _places(group: Any, wanted: Any) -> Iterator[tuple[Any, dict[str, Any], str]]:
    """Where a tree has a builder: the holder, which of its mappings, and the name there."""
    nodes = [group, *group.datasets.values()]
    for holder in nodes:
        mappings = [holder.attributes]
        if holder is group:
            mappings += [group.groups, group.datasets, group.links]
        for names in mappings:
            yield from [(holder, names, name) for name, each in names.items() if target_of(each) is wanted]
    for below in group.groups.values():
        if below is not wanted:
            yield from _places(below, wanted)


def _is_within(builder: Any, above: Any) -> bool:
    while builder is not None and builder is not above:
        builder = builder.parent
    return builder is not None
