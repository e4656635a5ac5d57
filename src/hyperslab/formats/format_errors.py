"""The errors that every format raises alike, and the problems of a document collected while it is parsed."""

from __future__ import annotations

from collections.abc import Iterable

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import FormatError, Invalid, NodeNotFound, NotFound, Problem, ReadOnly, Unsupported
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec, Node

LONGEST = 2**63 - 1
"""The largest length of a dimension or chunk: what a signed 64-bit offset counts."""
MOST_DIMENSIONS = 64  # as many as a NumPy array has
_INT = frozenset({int})


class Problems(list[Problem]):
    """The problems of one node's documents, in the order in which they were found.

    A reader goes on after a problem, so that it finds all of them. How bad one is, it tells by the method:

    - ``warn``: the document can be read as it stands;
    - ``undecodable``: it can be read, but not the cells of its array;
    - ``fatal``: no spec can be made of it.
    """

    def __init__(self, node: str) -> None:
        super().__init__()
        self.node = node
        self.is_fatal = False
        self._undecodable: list[str] = []

    def warn(self, kind: str, message: str) -> None:
        """Add a problem that a reader survives."""
        self.append(Problem(self.node, kind, message))

    def undecodable(self, kind: str, message: str) -> None:
        """Add a problem for which the array's cells cannot be decoded."""
        self.warn(kind, message)
        self._undecodable.append(message)

    def fatal(self, kind: str, message: str) -> None:
        """Add a problem that makes the document meaningless."""
        self.warn(kind, message)
        self.is_fatal = True

    @property
    def undecodable_reason(self) -> str | None:
        """Return why the cells cannot be decoded, None when they can."""
        return "; ".join(self._undecodable) or None

    def raise_if_fatal(self) -> None:
        """Raise a FormatError that lists every problem, when no spec can be made."""
        if self.is_fatal:
            shown = "; ".join(problem.message for problem in self)
            raise FormatError(shown, problems=self, node=self.node)

    def lengths(self, kind: str, value: object, least: int, ndim: int | None = None) -> tuple[int, ...] | None:
        """Return a list of whole numbers from ``least`` to 2^63-1, one per dimension; None, and a fatal problem, when
        ``value`` is none."""
        if not isinstance(value, list) or not _INT.issuperset(map(type, value)):
            self.fatal(kind, f"{kind} is {shorten(value)}, not a list of whole numbers")
        elif ndim is not None and len(value) != ndim:
            self.fatal(kind, f"{kind} has {len(value)} lengths for {ndim} dimensions")
        elif len(value) > MOST_DIMENSIONS:
            self.fatal(kind, f"{kind} has {len(value)} dimensions, at most {MOST_DIMENSIONS} are possible")
        elif value and not (min(value) >= least and max(value) <= LONGEST):
            self.fatal(kind, f"{kind} {value} has lengths below {least} or beyond 2^63-1")
        else:
            return tuple(value)
        return None

    def mapping(self, kind: str, value: object) -> dict[str, object] | None:
        """Return a JSON object; None, and a fatal problem, when ``value`` is none."""
        if isinstance(value, dict):
            return value
        self.fatal(kind, f"{kind} is {shorten(value)}, not an object")
        return None


def document_error(kind: str, message: str, **where: str) -> FormatError:
    """Return the error for one problem of a whole file or document. ``where``: as of any error, such as a remedy."""
    return FormatError(message, problems=(Problem("", kind, message),), **where)


def shorten(value: object) -> str:
    """Return a value as text of at most 60 characters, for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def node_not_found(path: str, url: str) -> NodeNotFound:
    """Return the error for a path at which nothing lies."""
    return NodeNotFound(f"there is no /{path}", url=url, node=path)


def file_not_found(url: str) -> NotFound:
    """Return the error for a file that is not there."""
    return NotFound("there is no such file", url=url)


def dataset_closed(url: str) -> Invalid:
    """Return the error for a use of a dataset after its ``close()``."""
    return Invalid("the dataset is closed", url=url, remedy="open it again")


def names_below(spec: GroupSpec | ArraySpec, names: Iterable[str]) -> list[str]:
    """Return the names right below a node, in a dataset whose arrays all lie in its root: nothing is below an array."""
    return list(names) if spec.is_group else []


def require_array(path: str, spec: GroupSpec | ArraySpec, url: str) -> ArraySpec:
    """Return ``spec`` where it is that of an array; NodeNotFound where it is that of a group."""
    if not spec.is_array:
        raise NodeNotFound("this is a group, not an array", url=url, node=path)
    return spec


def require_no_link(spec: Node, path: str, format: str, url: str | None = None) -> GroupSpec | ArraySpec:
    """Return ``spec`` where it is that of a group or an array; Unsupported for a link, which the format has not."""
    if isinstance(spec, Link):
        raise Unsupported(f"format {format} has no links", url=url, node=path)
    return spec


def read_only_error() -> ReadOnly:
    """Return the error for a change of a dataset that is open for reading."""
    return ReadOnly("this dataset is open for reading", remedy="open it with mode='r+'")


class ReadOnlyChunks(ChunkSource):
    """The methods of a chunk source that write, for a dataset that is open for reading."""

    def write(self, coords: Coords, block: Block) -> None:
        """Raise ReadOnly."""
        raise read_only_error()

    def erase(self, coords: Coords) -> None:
        """Raise ReadOnly."""
        raise read_only_error()


def no_versions_error(url: str, name: str, *, has_locks: bool) -> Unsupported:
    """Return the error for an older state of a collection that keeps none; ``has_locks``: its store could."""
    message = "an older state of a collection that keeps no versions"
    remedy = "make one with keep_versions=True, or seconds, which keeps them from then on"
    if not has_locks:
        remedy = "leave at= (--at) out; versions of arrays are kept on a disk alone"
    return Unsupported(message, url=url, node=name, remedy=remedy)
