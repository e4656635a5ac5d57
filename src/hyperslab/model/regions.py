"""Regions of an array as plain values: which cells a region reference points at, whatever document spells it.

Every number is a non-negative position, resolved against ``shape``, the array's shape when the region was made: growth
of the array does not move a region.
"""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Everything:
    """All cells: those of ``shape``, or without one those that there are when it is read."""

    shape: Shape | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """No cell."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The positions ``start``, ``start + step`` … below ``stop`` along one axis; ``step`` is at least 1."""

    start: int
    stop: int
    step: int = 1


@dataclass(frozen=True, slots=True)
class Product:
    """The product of what is taken along each axis: steps, or a strictly increasing list of positions.

    It is a *slices* region where every axis has steps, an *orthogonal* one otherwise.
    """

    axes: tuple[Steps | tuple[int, ...], ...]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Points:
    """Single cells, in order, as often as they are named."""

    points: tuple[tuple[int, ...], ...]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Blocks:
    """The union of boxes, each ``(start per axis, stop per axis)``; its cells are in row-major order, each once."""

    blocks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    shape: Shape


Region = Everything | Nothing | Product | Points | Blocks
