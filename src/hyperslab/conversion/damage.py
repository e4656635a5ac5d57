"""What of a source cannot be read: left out where the caller asks for that, else an error that lists it all."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import NoReturn

from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, MissingChunks, Problem, TilesFailed

DAMAGE = (CorruptChunk, FormatError, MissingChunks, TilesFailed)
"""Errors that say that what is stored is not whole."""

_REMEDY = "skip_damaged=True (--skip-damaged) copies the rest"
_NOTHING = "without what is damaged there is no array to copy"
_log = logging.getLogger("hyperslab")


@dataclass
class SourceDamage:
    """The first error of each node of a source that cannot be read, by its path."""

    errors: dict[str, HyperslabError] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.errors)

    def covers(self, path: str) -> bool:
        """Return whether a node, or a group that it is in, cannot be read."""
        return any(f"{path}/".startswith(f"{top}/") for top in self.errors)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong, node by node."""
        return tuple(Problem(path, "damaged", _said(error)) for path, error in sorted(self.errors.items()))

    def refuse(self, *, rest: bool = True) -> NoReturn:
        """Raise the one error, or one that lists them all. ``rest``: whether something could be copied without."""
        found = list(self.errors.items())
        if len(found) == 1:
            path, error = found[0]
            more = _REMEDY if rest else _NOTHING
            error.remedy = f"{error.remedy}; {more}" if error.remedy else more
            raise error.locate(node=path) from error.__cause__
        shown = "\n".join(f"  {problem}" for problem in self.problems)
        message = f"{len(found)} nodes of the source are damaged:\n{shown}\n"
        remedy = f"repair it, or {_REMEDY}" if rest else f"repair it; {_NOTHING}"
        raise FormatError(message, problems=self.problems, url=found[0][1].url, remedy=remedy) from found[0][1]

    def tell(self) -> None:
        """Log what is left out."""
        for problem in self.problems:
            _log.warning("left out, for it is damaged: %s", problem)


def _said(error: HyperslabError) -> str:
    return f"{error.said} [key={error.key}]" if error.key is not None else error.said
