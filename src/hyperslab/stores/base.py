"""What a store can do, one Protocol per operation: a consumer's signature asks for exactly what it needs.

A key is ``a/b/c``: no leading slash, no empty segment, ``.`` or ``..``. A missing key reads as None: a missing chunk is
the commonest thing in an array store and no exception. Every failure of the medium is a ``StorageError`` that names the
key. A :class:`Stamp` identifies one version of a value; two equal stamps mean the same bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from hyperslab.stores.scratch import Scratch

Buffer = bytes | bytearray | memoryview
Stamp = Hashable


class Unversioned:
    """The stamp of a value whose server tells neither a version nor a time: no two are equal."""


@runtime_checkable
class Get(Protocol):
    def get(self, key: str) -> bytes | None:
        """The whole value, or None."""
        ...


@runtime_checkable
class GetInto(Protocol):
    def get_into(self, key: str, scratch: Scratch, most: int | None = None) -> memoryview | None:
        """The whole value read into ``scratch``, which grows when too small; None when missing.

        The view is valid until ``scratch`` is used again. ``CorruptChunk`` instead of growing beyond ``most`` bytes.
        """
        ...


@runtime_checkable
class ReadInto(Protocol):
    def read_exactly(self, key: str, out: memoryview) -> int | None:
        """Read into ``out``; the value's true length (which may differ from ``len(out)``), or None when missing."""
        ...


@runtime_checkable
class Descriptor(Protocol):
    def descriptor(self, key: str) -> int | None:
        """The value's file, open for reading (the caller closes it); None when missing."""
        ...


@runtime_checkable
class GetRanges(Protocol):
    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        """Bytes ``start <= i < stop`` for each range, cut at the end; a negative start counts from the end, and so does
        a stop of 0 or less beside it: ``(-8, 0)`` is the last 8 bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Version:
    """A value, or a part of it, of one version: its ``data`` (None where not wanted), whole ``size`` and stamp."""

    data: Any
    size: int
    stamp: Stamp


@runtime_checkable
class GetVersion(Protocol):
    """Where asking for a stamp costs as much as reading: both come by one request."""

    def get_version(
        self, key: str, part: tuple[int, int] | None = None, *, unless: Stamp | None = None, most: int | None = None
    ) -> Version | None:
        """The value, or a ``part`` of it; None when missing, without ``data`` when its stamp is ``unless``.

        ``CorruptChunk`` instead of more than ``most`` bytes.
        """
        ...

    def get_ranges_of(self, key: str, ranges: Sequence[tuple[int, int]], stamp: Stamp) -> list[bytes] | None:
        """``get_ranges`` of the version that has this stamp; ``Conflict`` when it is another one by now."""
        ...


@runtime_checkable
class Put(Protocol):
    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Store the value: afterwards every reader sees the old or the new one, never a part."""
        ...


@runtime_checkable
class PutMany(Protocol):
    def put_many(self, pairs: Iterable[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """Group commit: all values written, then all made durable, then all made visible."""
        ...


@runtime_checkable
class PutIf(Protocol):
    def put_if(self, key: str, value: Buffer, expected: Stamp | None, *, durable: bool = False) -> Stamp:
        """Store the value only if the present one has this stamp (None: is missing), else ``Conflict``.

        Over a network also where the answer was lost: read again, and see what is there.
        """
        ...


@runtime_checkable
class PutNew(Protocol):
    def put_new(self, pairs: Sequence[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """Store values whose keys are all missing, in this order, or none of them: ``Conflict`` names a taken one.

        Of several writers of one key one succeeds. A dead one may leave the first of its values.
        """
        ...


@runtime_checkable
class Touches(Protocol):
    def touch(self, key: str, *, durable: bool = False) -> None:
        """Give the key a stamp that it never had, for little; whatever it holds then. Made where it is missing."""
        ...


@runtime_checkable
class Flushes(Protocol):
    """Where one flush of all is cheaper than a durable write of each."""

    @property
    def flushes(self) -> bool:
        """Return whether this system can."""
        ...

    def flush(self) -> None:
        """Everything that was written before is on the medium."""
        ...


@runtime_checkable
class PutLast(Protocol):
    """Where values that lead to others wait for these, so that all are made durable together."""

    def put_last(self, pairs: Sequence[tuple[str, Buffer]], first: Iterable[str], *, durable: bool = False) -> None:
        """``put_new`` of values that lead to those of the keys ``first``: if ``durable``, these are on the medium
        before, however they were stored. ``Conflict``."""
        ...


@runtime_checkable
class Stamps(Protocol):
    def stamp(self, key: str) -> Stamp | None:
        """What identifies the present version (size, mtime_ns, inode; or an ETag), None when missing."""
        ...


@runtime_checkable
class Size(Protocol):
    def size(self, key: str) -> int | None:
        """Bytes stored under the key, None when missing."""
        ...


@runtime_checkable
class Delete(Protocol):
    def delete(self, key: str, *, durable: bool = False) -> None:
        """Remove the key; missing is fine. If ``durable``, it does not come back after a power cut."""
        ...

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        """Remove every key that is ``prefix`` or stands below ``prefix/``; ``""`` removes all. ``durable`` as above."""
        ...


@runtime_checkable
class Rename(Protocol):
    def rename(self, source: str, target: str) -> None:
        """Move every key below ``source/`` to ``target/``; the target must not exist (``AlreadyExists``)."""
        ...


@runtime_checkable
class Moves(Protocol):
    def move(self, pairs: Sequence[tuple[str, str]], *, durable: bool = False) -> None:
        """Give values other keys, ``(from, to)``, each over what is there at one stroke: a reader who does not find it
        under the one key any more finds it under the other. One that is missing is passed over."""
        ...


@runtime_checkable
class List(Protocol):
    def list(self, prefix: str = "") -> Iterator[str]:
        """Every key that stands below ``prefix/``, sorted; temporary files and locks are not keys."""
        ...

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """The names right below ``prefix/``: (keys, sub-prefixes), each sorted."""
        ...


@runtime_checkable
class Tells(Protocol):
    def entries(self, folder: str, tail: str = "") -> Iterator[tuple[str, Stamp, int]]:
        """Of every ``folder/<name>`` (``folder/<name>/<tail>``, a name too) that has a value: name, stamp, size.

        In any order; by one listing.
        """
        ...

    def nbytes_below(self, prefix: str) -> int:
        """Bytes of all values below ``prefix/``."""
        ...


@runtime_checkable
class LocksNodes(Protocol):
    def lock_node(self, folder: str, timeout: float | None) -> AbstractContextManager[None]:
        """Hold the documents of the node at ``folder`` exclusively; ``Conflict`` after ``timeout`` seconds."""
        ...


@runtime_checkable
class Locks(LocksNodes, Protocol):
    def lock_chunks(self, folder: str, slots: Sequence[int], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the bytes ``slots`` of ``folder/.lock`` exclusively, taken in order; ``Conflict`` after timeout."""
        ...


@runtime_checkable
class Concurrent(Protocol):
    @property
    def concurrency(self) -> int:
        """How many requests at once suit it, whatever the number of cores."""
        ...


class Store(Get, List, Protocol):
    """The least that a dataset can be read from; other abilities are asked for with ``isinstance``."""

    @property
    def url(self) -> str:
        """Where it is, without secrets; usable in messages."""
        ...

    @property
    def read_only(self) -> bool:
        """Return whether writes are refused."""
        ...

    def close(self) -> None:
        """Let go of handles; closing twice is fine."""
        ...


class WritableStore(Store, Put, Delete, Protocol):
    """A store that also takes writes."""
