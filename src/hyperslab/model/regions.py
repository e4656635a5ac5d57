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

    def __str__(self) -> str:
        return "..."


@dataclass(frozen=True, slots=True)
class Nothing:
    """No cell."""

    def __str__(self) -> str:
        return "none"


@dataclass(frozen=True, slots=True)
class Steps:
    """The positions ``start``, ``start + step`` … below ``stop`` along one axis; ``step`` is at least 1."""

    start: int
    stop: int
    step: int = 1

    def __str__(self) -> str:
        return f"{self.start}:{self.stop}" + (f":{self.step}" if self.step != 1 else "")


@dataclass(frozen=True, slots=True)
class Product:
    """The product of what is taken along each axis: steps, or a strictly increasing list of positions.

    It is a *slices* region where every axis has steps, an *orthogonal* one otherwise.
    """

    axes: tuple[Steps | tuple[int, ...], ...]
    shape: Shape

    def __str__(self) -> str:
        return ", ".join(str(axis) if isinstance(axis, Steps) else str(list(axis)) for axis in self.axes)


@dataclass(frozen=True, slots=True)
class Points:
    """Single cells, in order, as often as they are named."""

    points: tuple[tuple[int, ...], ...]
    shape: Shape

    def __str__(self) -> str:
        return f"{len(self.points)} points"


@dataclass(frozen=True, slots=True)
class Blocks:
    """The union of boxes, each ``(start per axis, stop per axis)``; its cells are in row-major order, each once."""

    blocks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    shape: Shape

    def __str__(self) -> str:
        return f"{len(self.blocks)} blocks"


Region = Everything | Nothing | Product | Points | Blocks
