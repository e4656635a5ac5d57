"""One finding of a check: the problem, where in the store it lies, and what may mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hyperslab.chunks.grid import Coords
from hyperslab.errors import Problem


@dataclass(frozen=True, slots=True)
class Finding:
    """``key``: what lies there is meant (a chunk, a document, a folder, a stray). ``coords``: the stored object's place
    in its array's grid. ``sound``: this is a note and no problem. ``means``: what a mend needs to know besides."""

    problem: Problem
    key: str = ""
    coords: Coords | None = None
    sound: bool = False
    means: Any = None

    @property
    def order(self) -> tuple[str, str, tuple[int, ...], str]:
        """By node, then by place."""
        return self.problem.node, self.problem.kind, self.coords or (), self.key


def found(node: str, kind: str, message: str, **more: Any) -> Finding:
    """A finding of these words."""
    return Finding(Problem(node, kind, message), **more)
