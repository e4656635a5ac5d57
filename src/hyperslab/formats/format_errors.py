"""The errors that every format raises alike, and the problems of a document collected while it is parsed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block
from hyperslab.errors import FormatError, Invalid, NodeNotFound, NotFound, Problem, ReadOnly
from hyperslab.model.spec import ArraySpec, GroupSpec

LONGEST = 2**63 - 1
"""The largest length of a dimension or chunk."""
MOST_DIMENSIONS = 64
_INT = frozenset({int})


class Faults:
    """The defects of one node's documents.

    ``refuse``: the document cannot be understood. ``cannot``: it can, but its cells cannot be decoded. ``note``: it can
    be read as it stands.
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self.problems: list[Problem] = []
        self._fatal = False
        self._cannot: list[str] = []

    def note(self, kind: str, message: str) -> None:
        """Something that a reader survives."""
        self.problems.append(Problem(self.node, kind, message))

    def cannot(self, kind: str, message: str) -> None:
        """Something that makes the cells unreadable."""
        self.note(kind, message)
        self._cannot.append(message)

    def refuse(self, kind: str, message: str) -> None:
        """Something that makes the document meaningless."""
        self.note(kind, message)
        self._fatal = True

    @property
    def fatal(self) -> bool:
        """Return whether no spec can be made."""
        return self._fatal

    @property
    def problem(self) -> str | None:
        """Why the cells cannot be decoded, None when they can."""
        return "; ".join(self._cannot) or None

    def check(self) -> None:
        """FormatError with every problem when no spec can be made."""
        if self._fatal:
            shown = "; ".join(problem.message for problem in self.problems)
            raise FormatError(shown, problems=self.problems, node=self.node)

    def lengths(self, kind: str, value: Any, least: int, ndim: int | None = None) -> tuple[int, ...] | None:
        """A list of whole numbers from ``least`` to 2^63-1, as many as there are dimensions; None when it is not."""
        if not isinstance(value, list) or not _INT.issuperset(map(type, value)):
            self.refuse(kind, f"{kind} is {brief(value)}, not a list of whole numbers")
        elif ndim is not None and len(value) != ndim:
            self.refuse(kind, f"{kind} has {len(value)} lengths for {ndim} dimensions")
        elif len(value) > MOST_DIMENSIONS:
            self.refuse(kind, f"{kind} has {len(value)} dimensions, at most {MOST_DIMENSIONS} are possible")
        elif value and not (min(value) >= least and max(value) <= LONGEST):
            self.refuse(kind, f"{kind} {value} has lengths below {least} or beyond 2^63-1")
        else:
            return tuple(value)
        return None

    def mapping(self, kind: str, value: Any) -> dict[str, Any] | None:
        """A JSON object; None when it is not."""
        if isinstance(value, dict):
            return value
        self.refuse(kind, f"{kind} is {brief(value)}, not an object")
        return None


def flawed(kind: str, message: str, **where: str) -> FormatError:
    """Return the error for one problem of a whole file or document. ``where``: as of any error, such as a remedy."""
    return FormatError(message, problems=(Problem("", kind, message),), **where)


def brief(value: Any) -> str:
    """A value as short text for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def no_node(path: str, url: str) -> NodeNotFound:
    """The error for a path at which nothing lies."""
    return NodeNotFound(f"there is no /{path}", url=url, node=path)


def no_file(url: str) -> NotFound:
    """The error for a file that is not there."""
    return NotFound("there is no such file", url=url)


def closed(url: str) -> Invalid:
    """The error for what is asked of a dataset that was closed."""
    return Invalid("the dataset is closed", url=url, remedy="open it again")


def names_below(spec: GroupSpec | ArraySpec, names: Iterable[str]) -> list[str]:
    """The names right below a node, in a dataset whose arrays all lie in its root: nothing is below an array."""
    return list(names) if isinstance(spec, GroupSpec) else []


def array_at(path: str, spec: GroupSpec | ArraySpec, url: str) -> ArraySpec:
    """The spec of an array whose cells are asked for; NodeNotFound for that of a group."""
    if not isinstance(spec, ArraySpec):
        raise NodeNotFound("this is a group, not an array", url=url, node=path)
    return spec


def read_only() -> ReadOnly:
    """The error for a change of a dataset that is open for reading."""
    return ReadOnly("this dataset is open for reading", remedy="open it with mode='r+'")


class ReadOnlyChunks:
    """The half of a source that writes."""

    def write(self, coords: Coords, block: Block) -> None:
        """Refused."""
        raise read_only()

    def erase(self, coords: Coords) -> None:
        """Refused."""
        raise read_only()
