"""What a conversion did: plain values, falsy nowhere, printable."""

from __future__ import annotations

from dataclasses import dataclass

from hyperslab.conversion.losses import Loss
from hyperslab.errors import Problem
from hyperslab.model.amounts import counted, size_text


@dataclass(frozen=True, slots=True)
class Verification:
    """What a second read of both sides compared, all of it equal: numbers of nodes, attributes, cells and bytes."""

    groups: int
    arrays: int
    attributes: int
    cells: int
    nbytes: int


_FEW = 3


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """A finished conversion: from where to where, how much, what was lost, and what was verified (None: not asked).

    ``nbytes`` counts decoded cells, ``chunks`` the target's chunks (its shards, where it has such) whether or not a
    cell in them differs from the fill value, ``seconds`` the whole. ``resumed_nbytes``: how many of ``nbytes`` an
    interrupted conversion had copied. ``damaged``: what of the source could not be read and was left out. ``recut``:
    each array that is not cut into the chunks that were asked for, or the source's where none were, and how it is.
    """

    source: str
    target: str
    format: str
    groups: int
    arrays: int
    links: int
    chunks: int
    nbytes: int
    seconds: float = 0.0
    losses: tuple[Loss, ...] = ()
    verified: Verification | None = None
    resumed_nbytes: int = 0
    damaged: tuple[Problem, ...] = ()
    recut: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.source} -> {self.target} ({self.format}): {counted(self.arrays, 'array')}, "
            f"{counted(self.groups, 'group')}, {counted(self.chunks, 'chunk')}, "
            f"{size_text(self.nbytes)} of cells in {self.seconds:.2f} s"
        ]
        if self.resumed_nbytes:
            lines.append(f"resumed: {size_text(self.resumed_nbytes)} of cells were there already")
        lines += [f"cut otherwise: {note}" for note in self.recut[:_FEW]]
        if len(self.recut) > _FEW:
            lines.append(f"cut otherwise: {counted(len(self.recut) - _FEW, 'more array')}")
        lines += [f"lost: {loss}" for loss in self.losses]
        lines += [f"damaged, left out: {problem}" for problem in self.damaged]
        if self.verified is not None:
            seen = self.verified
            lines.append(
                f"verified: {counted(seen.cells, 'cell')} and {counted(seen.attributes, 'attribute')} "
                f"of {counted(seen.arrays, 'array')} equal"
            )
        return "\n".join(lines)
