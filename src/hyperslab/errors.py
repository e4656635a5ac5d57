"""Every error that hyperslab raises, grouped by what its reader will do about it.

::

    HyperslabError
    ├── NotFound (KeyError, FileNotFoundError)  look for another name
    │   ├── NodeNotFound
    │   ├── CollectionNotFound
    │   └── BrokenLink
    ├── AlreadyExists (FileExistsError)         choose another target, or overwrite
    ├── ReadOnly (PermissionError)              open for writing
    ├── WrongCredentials (PermissionError)      give another user or password
    ├── Invalid (ValueError)                    correct the call
    │   ├── SelectionError (IndexError)
    │   │   └── RegionOutOfBounds
    │   ├── LabelError (KeyError, IndexError)
    │   ├── WrongType (TypeError)
    │   ├── SchemaError
    │   ├── ClientError (RuntimeError)
    │   └── ExternalLinkRefused
    ├── FormatError                             repair the dataset
    │   └── UnsafePickle
    ├── CorruptChunk                            restore the chunk
    ├── MissingChunks                           write or restore the chunks
    ├── TilesFailed                             look at what is wrong with each tile
    ├── Unsupported (NotImplementedError)       install an extra, or use another format
    │   └── MissingLibrary (ImportError)
    ├── StorageError (OSError)                  look at the disk or the network
    ├── Conflict                                try again
    │   └── Replaced                            open it again
    └── MemoryLimit (MemoryError)               ask for less, or allow more

An error knows where it happened (``url``, ``node``, ``key``) and what would work (``remedy``). A lower floor
raises with what it knows; a higher one completes the place with :meth:`HyperslabError.locate`, in an ``except`` or by a
block (``locate_errors``). It is the same error that goes on: ``raise error.locate(...) from error.__cause__`` keeps the
cause that it has, where ``from error`` would make it its own, and ``from None`` would hide the error of the system or
of a library that it was made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Problem:
    """One defect of a dataset: the ``node`` (path) it is in, a stable ``kind``, and a ``message`` for people."""

    node: str
    kind: str
    message: str

    def __str__(self) -> str:
        return f"/{self.node}: {self.message}" if self.node else self.message


class HyperslabError(Exception):
    """The root of the tree: a message, the place (``url``, ``node``, ``key``) and a ``remedy``.

    ``advice`` is the remedy of errors that are raised without one.
    """

    advice: str | None = None

    def __init__(
        self,
        message: str,
        *,
        url: str | None = None,
        node: str | None = None,
        key: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.url = url
        self.node = node
        self.key = key
        self.remedy = self.advice if remedy is None else remedy

    def locate(self, *, url: str | None = None, node: str | None = None, key: str | None = None) -> Self:
        """Fill in the parts of the place that are still unknown; returns the same error, to be raised."""
        self.url = url if self.url is None else self.url
        self.node = node if self.node is None else self.node
        self.key = key if self.key is None else self.key
        return self

    @property
    def said(self) -> str:
        """The problem alone, without the place and the remedy."""
        return self.message

    @property
    def place(self) -> str:
        """``url node=/a/b key=a/b/c/0``, as far as known."""
        parts = [self.url] if self.url else []
        parts += [f"node=/{self.node}"] if self.node is not None else []
        parts += [f"key={self.key}"] if self.key else []
        return " ".join(parts)

    def __str__(self) -> str:
        place = f" [{self.place}]" if self.place else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.said}{place}{remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[HyperslabError], args: tuple[Any, ...], state: dict[str, object]) -> HyperslabError:
    error = kind(*args)
    error.args = args
    error.__dict__.update(state)
    return error


class NotFound(HyperslabError, KeyError, FileNotFoundError):
    """A node, file or record that is not there."""

    advice = "check the spelling"


class NodeNotFound(NotFound):
    """No group or array has this path."""

    advice = "list the group above to see the names that are there"


class CollectionNotFound(NotFound):
    """No collection has this name."""


class BrokenLink(NotFound):
    """A link or reference leads to nothing."""

    advice = "mend it (hyperslab repair --links), or bring its target back"


class AlreadyExists(HyperslabError, FileExistsError):
    """The target is taken."""

    advice = "choose another name, or remove what is there"


class ReadOnly(HyperslabError, PermissionError):
    """The dataset, its format or its medium takes no writes."""


class WrongCredentials(HyperslabError, PermissionError):
    """The server does not know this user or password."""

    advice = "look at user and password"


class Invalid(HyperslabError, ValueError):
    """An argument makes no sense here."""


class SelectionError(Invalid, IndexError):
    """An index is out of bounds or of the wrong kind."""


class RegionOutOfBounds(SelectionError):
    """The array has become smaller than a region of it, or has another number of dimensions."""


class LabelError(Invalid, KeyError, IndexError):
    """No cell has this label; the message names the neighbours."""


class WrongType(Invalid, TypeError):
    """An index or a value is of a type that cannot be one."""


class SchemaError(Invalid):
    """Data or attributes do not fit the schema."""


class ClientError(Invalid, RuntimeError):
    """A database client cannot be opened with these arguments, or it is closed."""


class ExternalLinkRefused(Invalid):
    """A link leads out of the dataset to a place that was not allowed."""


class FormatError(HyperslabError):
    """A document or file breaks its format; ``problems`` lists every defect found."""

    advice = "mend it (hyperslab repair shows what it can mend), or restore it from a copy"

    def __init__(self, message: str, *, problems: Sequence[Problem] = (), **place: str | None) -> None:
        super().__init__(message, **place)
        self.problems = tuple(problems)


class UnsafePickle(FormatError):
    """Pickled cells hold anything but references and plain values; nothing of them was run."""

    advice = "do not trust the writer of this dataset; the rest of it can be read"


class CorruptChunk(HyperslabError):
    """A chunk's bytes are not what its array says: what was ``expected`` and what was ``found``."""

    advice = "restore this chunk from a copy, or take it out (hyperslab repair) to read the fill value"

    def __init__(self, message: str, *, expected: object = None, found: object = None, **place: str | None) -> None:
        super().__init__(message, **place)
        self.expected = expected
        self.found = found

    @property
    def said(self) -> str:
        """The problem, with the expected and the found value as far as they are known."""
        known = self.expected is not None or self.found is not None
        return f"{self.message} (expected {self.expected}, found {self.found})" if known else self.message


class MissingChunks(HyperslabError):
    """Chunks that must exist do not."""

    advice = "check the dataset to see what is missing, and write or restore it"


class TilesFailed(HyperslabError):
    """Tiles of an array could not be read or written; ``exceptions`` has the error of each, by its position."""

    def __init__(
        self, message: str, *, exceptions: Mapping[tuple[int, ...], Exception] | None = None, **place: str | None
    ) -> None:
        super().__init__(message, **place)
        self.exceptions = dict(exceptions or {})
        known = (error.remedy for error in self.exceptions.values() if isinstance(error, HyperslabError))
        self.remedy = self.remedy or next(filter(None, known), None)

    @property
    def said(self) -> str:
        """The failures, tile by tile."""
        return "; ".join([self.message, *(f"tile {place}: {_told(error)}" for place, error in self.exceptions.items())])


def _told(error: Exception) -> str:
    """Return what is wrong, and under which key."""
    if not isinstance(error, HyperslabError):
        return str(error)
    return f"{error.said} [key={error.key}]" if error.key else error.said


class Unsupported(HyperslabError, NotImplementedError):
    """A feature that this format, or this installation, does not have; the message names both."""

    advice = "read the rest without it, or use another format"


class MissingLibrary(Unsupported, ImportError):
    """A library that an extra brings is not installed; the remedy names the extra."""


class StorageError(HyperslabError, OSError):
    """The disk, the network or the server failed."""

    advice = "look at the disk or the network, then try again"


class Conflict(HyperslabError):
    """Another writer holds the lock or was faster."""

    advice = "try again"


class Replaced(Conflict):
    """What was opened is gone, or another version has taken its place; reads of an ``Array`` begin once more by
    themselves."""

    advice = "open it again"


class MemoryLimit(HyperslabError, MemoryError):
    """The result or a chunk would need more memory than allowed; nothing was allocated."""

    advice = "select less at a time, or give the process more memory"


DAMAGE = (CorruptChunk, FormatError, MissingChunks, TilesFailed)
"""Errors that say that what is stored is not whole."""
