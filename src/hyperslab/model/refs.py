"""Links and references as plain values; only ``Group`` follows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A name that stands for the node ``target`` (absolute path) of dataset ``source`` (``"."``: this one)."""

    target: str
    source: str = "."


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """A value that points at the node ``path`` of dataset ``source``."""

    path: str
    source: str = "."


@dataclass(frozen=True, slots=True)
class RegionReference:
    """A value that points at ``region`` (start, stop per axis) of the array ``path`` of dataset ``source``."""

    path: str
    region: tuple[tuple[int, int], ...]
    source: str = "."
