"""Reports of checks and repairs: lists of problems, empty (false) where all is well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hyperslab.errors import Problem
from hyperslab.model.amounts import counted


@dataclass(frozen=True, slots=True)
class Mend(Problem):
    """A problem and what mends it. ``action`` is None where nothing does; ``remedy``: what to do then, where that is
    known. ``done``: whether it has been mended."""

    action: str | None = None
    done: bool = False
    remedy: str | None = None

    def __str__(self) -> str:
        place = f"/{self.node}: " if self.node else ""
        if self.action is None:
            what = f"cannot be mended: {self.remedy}" if self.remedy else "cannot be mended"
        else:
            what = f"{'mended' if self.done else 'mend'}: {self.action}"
        return f"{place}{self.message}; {what}"


def not_mended(problem: Problem, reason: str) -> Mend:
    """Return what is told of a problem whose mending failed."""
    return Mend(problem.node, problem.kind, f"{problem.message}; mending failed: {reason}")


class Report(list[Problem]):
    """The problems of a dataset in the order of its nodes; false when it is sound.

    ``node``: the path in the dataset at ``url`` of what was looked at, with all below it; empty: all of it. ``notes``
    are what may well be meant (chunks that are not stored, say) and count as no problem. ``deep``: True where every
    chunk was decoded. The items of a repair's report are :class:`Mend`.
    """

    def __init__(
        self,
        problems: Iterable[Problem] = (),
        *,
        url: str,
        node: str = "",
        notes: Iterable[Problem] = (),
        deep: bool = False,
    ) -> None:
        super().__init__(problems)
        self.url = url
        self.node = node
        self.notes = list(notes)
        self.deep = deep

    @property
    def kinds(self) -> dict[str, int]:
        """Return how often each kind of problem was found."""
        counts: dict[str, int] = {}
        for problem in self:
            counts[problem.kind] = counts.get(problem.kind, 0) + 1
        return counts

    def __str__(self) -> str:
        return "\n".join(map(as_line, self))

    def __repr__(self) -> str:
        amounts = f"{counted(len(self), 'problem')}, {counted(len(self.notes), 'note')}"
        part = f"/{self.node} in " if self.node else ""
        return f"<{type(self).__name__} of {part}{self.url}: {amounts}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (list(self), self.url, self.node, self.notes, self.deep)


def _rebuild(problems: list[Problem], url: str, node: str, notes: list[Problem], deep: bool) -> Report:
    return Report(problems, url=url, node=node, notes=notes, deep=deep)


def as_line(problem: Problem) -> str:
    """Return a problem in one line: its place, its kind, what is wrong."""
    rest = str(problem).removeprefix(f"/{problem.node}: ")
    return f"/{problem.node}: {problem.kind}: {rest}"
