"""What a conversion did: plain values, falsy nowhere, printable."""

from __future__ import annotations

from dataclasses import dataclass

from hyperslab.conversion.losses import Loss
from hyperslab.errors import Problem


@dataclass(frozen=True, slots=True)
class Verification:
    """What a second read of both sides compared, all of it equal: numbers of nodes, attributes, cells and bytes."""

    groups: int
    arrays: int
    attributes: int
    cells: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """A finished conversion: from where to where, how much, what was lost, and what was verified (None: not asked).

    ``nbytes`` counts decoded cells, ``chunks`` the target's chunks (its shards, where it has such) whether or not a
    cell in them differs from the fill value, ``seconds`` the whole. ``resumed_nbytes``: how many of ``nbytes`` an
    interrupted conversion had copied. ``damaged``: what of the source could not be read and was left out.
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

    def __str__(self) -> str:
        lines = [
            f"{self.source} -> {self.target} ({self.format}): {self.arrays} arrays, {self.groups} groups, "
            f"{self.chunks} chunks, {self.nbytes} bytes in {self.seconds:.2f} s"
        ]
        if self.resumed_nbytes:
            lines.append(f"resumed: {self.resumed_nbytes} bytes were there already")
        lines += [f"lost: {loss}" for loss in self.losses]
        lines += [f"damaged, left out: {problem}" for problem in self.damaged]
        if self.verified is not None:
            seen = self.verified
            lines.append(f"verified: {seen.cells} cells and {seen.attributes} attributes of {seen.arrays} arrays equal")
        return "\n".join(lines)
