"""Containers of a file some of whose links lead nowhere: what cannot be made without them is left out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import ConstructError

from hyperslab.bridges.hdmf.pointers import path_of


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
    """Take a builder out of its group if it, or something of it, lacks something; whether it was."""
    parent = builder.parent
    if parent is None or not any(_is_within(each, builder) for each in incomplete):
        return False
    for kind in (parent.groups, parent.datasets, parent.links):
        if kind.get(builder.name) is builder:
            del kind[builder.name]
            del parent.obj_type[builder.name]
            incomplete.append(parent)
            return True
    return False


def _is_within(builder: Any, above: Any) -> bool:
    while builder is not None and builder is not above:
        builder = builder.parent
    return builder is not None
