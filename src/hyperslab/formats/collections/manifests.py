"""The objects of an index in a bucket, and how one follows from another; no requests are made here.

``manifests/current`` is the *head*: the stamps of all parts, the names of all manifests, and the latest changes. Who
changes it puts another one in its place if nobody else did meanwhile. A *manifest* is an object of rows that never
changes; several whose ids follow one another are a *run*, and later runs count over earlier ones.

Both are a line of text that tells the version, then msgpack, compressed by zlib. Lengths are bounded before anything is
decoded.

Why so, by measurement (moto, 10,000 arrays of four attributes): see "The index in a bucket" of the page on the format.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from hyperslab.errors import FormatError
from hyperslab.formats.collections.index_database import UNSURE, Row
from hyperslab.model.schemas.arrays import is_id

HEAD_BYTES = 4 << 20
"""Bytes of a head, stored and decoded: one of ours takes some 20,000."""

MANIFEST_BYTES = 64 << 20
"""Bytes of a manifest, decoded: no document of an array is longer."""

# Bytes of a manifest beyond which two are made: what is in memory at once while runs are merged.
_SPLIT_BYTES = 16 << 20

# Changes in the head beyond which they go into a manifest. The head is written with every change that is published: 128
# rows take 10,000 bytes there, beside 3,000 of stamps.
_TAIL_ROWS, _TAIL_BYTES = 128, 64 << 10

# Rows of a run, in those of the next one, below which the two are merged: three runs of 10,000 arrays at the most, six
# of a million, each a request of a reader or more; each row is written 6 and 12 times until there are so many.
_RATIO = 4

# Changes that wait for those before them, and the seconds that they wait: their writers publish every ten seconds.
_WAITING, _WAITING_BYTES, _WAITING_SECONDS = 256, 128 << 10, 900.0

RETIRED_SECONDS = 900.0
"""Seconds that a manifest stays which no head names any more, for those who have read an older head; and what a killed
writer left, before it is removed. Clocks that differ by more only have readers look at the head again."""

_HEAD, _MANIFEST = b"hyperslab-index 1\n", b"hyperslab-manifest 1\n"

Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

Defaults = Sequence[bytes | None]
"""For each attribute of the schema the bytes of its default; None where it has none."""


class StoredRows(msgspec.Struct, array_like=True, frozen=True):
    """Changes of rows, as they are stored: ids in order, the mark of each document, a column for each attribute; ids
    whose arrays may not exist yet, that are gone, and that exist by now."""

    ids: list[str]
    marks: list[Int64]
    columns: list[list[bytes]]
    pending: list[str]
    gone: list[str]
    committed: list[str]


@dataclass(slots=True)
class RowChanges:
    """Changes of rows: those that are put, of them the ``pending``; ``gone`` ones; ``committed``: pending no more."""

    rows: dict[str, Row] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.rows) + len(self.gone) + len(self.committed)

    def add(self, later: RowChanges) -> None:
        """Add changes that come after these."""
        for id in later.gone:
            self.rows.pop(id, None)
        self.rows.update(later.rows)
        self.pending -= later.rows.keys() | later.gone | later.committed
        self.pending |= later.pending
        self.gone = (self.gone - later.rows.keys()) | later.gone
        self.committed = (self.committed | later.committed) - self.rows.keys() - self.gone

    def as_first(self) -> RowChanges:
        """Return the same without what only tells of earlier rows, where there are none."""
        return RowChanges(self.rows, self.pending)

    def up_to(self, id: str) -> RowChanges:
        """Take out, and return, what is of ids up to this one."""
        taken = RowChanges({each: self.rows[each] for each in self.rows if each <= id})
        for each in taken.rows:
            del self.rows[each]
        for mine, its in ((self.pending, taken.pending), (self.gone, taken.gone), (self.committed, taken.committed)):
            its.update(each for each in mine if each <= id)
            mine -= its
        return taken

    def last_id(self) -> str:
        """Return the last id of any change, in order."""
        return max((max(some) for some in (self.rows, self.gone, self.committed) if some), default="")

    def columns(self, attributes: int) -> StoredRows:
        """Return the changes as they are stored."""
        rows = [self.rows[id] for id in sorted(self.rows)]
        columns = [[row[2 + place] for row in rows] for place in range(attributes)]
        rest = map(sorted, (self.pending, self.gone, self.committed))
        return StoredRows([row[0] for row in rows], [row[1] for row in rows], columns, *rest)


def parse_rows(columns: StoredRows, defaults: Defaults) -> RowChanges:
    """Return the changes that are stored so; FormatError for what does not fit together. Columns of attributes that
    came into the schema later have their defaults."""
    lengths = {len(columns.ids), len(columns.marks), *map(len, columns.columns)}
    later = [each for each in defaults[len(columns.columns) :] if each is not None]
    if len(columns.columns) + len(later) != len(defaults) or len(lengths) > 1:
        raise FormatError("the columns of an index have different lengths")
    rest = [set(some) for some in (columns.pending, columns.gone, columns.committed)]
    if not all(is_id(id) for some in (columns.ids, *rest) for id in some):
        raise FormatError("an index names what is no array")
    rows = zip(columns.ids, columns.marks, *columns.columns, strict=True)
    found = RowChanges({row[0]: (*row, *later) for row in rows}, *rest)
    found.pending &= found.rows.keys()
    return found


class Move(msgspec.Struct, array_like=True, frozen=True):
    """A change of a part: its stamps before (None: it was not there) and after, which only this change made different,
    and what it did to the rows; the moment when it was published, in seconds since 1970."""

    part: str
    before: Int64 | None
    after: Int64
    change: StoredRows
    moment: float = 0.0


class ManifestRef(msgspec.Struct, array_like=True, frozen=True):
    """The name of a manifest and its stored length."""

    name: str
    nbytes: int


class Run(msgspec.Struct, array_like=True, frozen=True):
    """Manifests whose ids follow one another; ``rows``: how many changes are in them; ``last``: the number of the head
    whose changes were the last to go in."""

    rows: int
    last: int
    manifests: list[ManifestRef]


class Head(msgspec.Struct, array_like=True):
    """The head, ``manifests/current``. ``form``: a digest of the attributes and the place; ``epoch``: a random name of
    the index, new when it is made anew; ``number``: how often it was changed; ``tail``: the changes that are in no
    manifest, each with its number; ``waiting``: moves whose part had another stamp; ``retired``: manifests that it
    names no more, and when that began."""

    form: str
    epoch: str
    number: Int64 = 0
    stamps: dict[str, Int64] = msgspec.field(default_factory=dict)
    runs: list[Run] = msgspec.field(default_factory=list)
    tail: list[tuple[int, StoredRows]] = msgspec.field(default_factory=list)
    waiting: list[Move] = msgspec.field(default_factory=list)
    retired: list[tuple[str, float]] = msgspec.field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """The names of all manifests that count."""
        return {ref.name for run in self.runs for ref in run.manifests}


# -- bytes ------------------------------------------------------------------------------------------------------------


_encode = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(Head).decode
_decode_columns = msgspec.msgpack.Decoder(StoredRows).decode


def encode_head(head: Head) -> bytes:
    """Return a head as it is stored."""
    return _HEAD + zlib.compress(_encode(head), 1)


def parse_head(data: bytes | memoryview, form: str, defaults: Defaults) -> Head:
    """Return a stored head of an index of this ``form``; FormatError."""
    try:
        head = _decode_head(_inflate(data, _HEAD, HEAD_BYTES))
    except msgspec.MsgspecError as error:
        raise FormatError(f"the head of the index is damaged: {error}") from error
    if head.form != form:
        raise FormatError("the index is that of another place, or of other attributes")
    for columns in [*(columns for _, columns in head.tail), *(move.change for move in head.waiting)]:
        parse_rows(columns, defaults)
    names = [ref.name for run in head.runs for ref in run.manifests] + [name for name, _ in head.retired]
    if not all(map(is_manifest, names)) or any(ref.nbytes < 0 for run in head.runs for ref in run.manifests):
        raise FormatError("the head of the index names what is no manifest")
    return head


def encode_manifest(columns: StoredRows) -> bytes:
    """Return a manifest as it is stored."""
    return _MANIFEST + zlib.compress(_encode(columns), 1)


def parse_manifest(data: bytes | memoryview, defaults: Defaults) -> RowChanges:
    """Return the changes of a stored manifest; FormatError."""
    try:
        return parse_rows(_decode_columns(_inflate(data, _MANIFEST, MANIFEST_BYTES)), defaults)
    except msgspec.MsgspecError as error:
        raise FormatError(f"a manifest of the index is damaged: {error}") from error


def _inflate(data: bytes | memoryview, begin: bytes, most: int) -> bytes:
    """Return what is behind the first line, decompressed to so many bytes at the most; FormatError."""
    if bytes(data[: len(begin)]) != begin:
        raise FormatError("this is no part of an index, or one of another version")
    engine = zlib.decompressobj()
    try:
        found = engine.decompress(data[len(begin) :], most)
    except zlib.error as error:
        raise FormatError(f"a part of the index is damaged: {error}") from error
    if not engine.eof or engine.unused_data:
        raise FormatError(f"a part of the index is cut off, or longer than {most} bytes")
    return found


def manifest_name(token: str) -> str:
    """Return a name that no other manifest has, with the present moment in it."""
    return f"{int(time.time()):012x}-{token}"


def is_manifest(name: str) -> bool:
    """Return True if a name may be that of a manifest."""
    return manifest_moment(name) is not None


def manifest_moment(name: str) -> int | None:
    """Return when a manifest was named, in seconds since 1970; None for what is no name of one."""
    moment, _, token = name.partition("-")
    digits = "0123456789abcdef"
    if len(moment) != 12 or len(token) != 32 or not all(each in digits for each in moment + token):
        return None
    return int(moment, 16)


# -- another head -----------------------------------------------------------------------------------------------------


class Draft:
    """Another head, made of one; ``new``: the changes of rows that it has besides."""

    def __init__(self, head: Head, defaults: Defaults) -> None:
        self._defaults = defaults
        self.head = Head(
            head.form,
            head.epoch,
            head.number + 1,
            dict(head.stamps),
            list(head.runs),
            list(head.tail),
            list(head.waiting),
            list(head.retired),
        )
        self.new = RowChanges()
        self.is_changed = False

    def add(self, move: Move, *, waits: bool) -> None:
        """Add a move, and those that waited for it; ``waits``: it may wait for others itself."""
        stamps = self.head.stamps
        present = stamps.get(move.part)
        if UNSURE in (move.before, move.after):
            return
        if present == move.after:
            if waits:  # found by others while its arrays did not exist yet, or published with an answer that was lost
                self.commit(move.change.ids)
            return
        if present != move.before:
            if waits and move not in self.head.waiting:
                self.head.waiting.append(move)
                self.is_changed = True
            return
        self._follow(move)
        while (waiting := self._waiting_for(move.part, stamps[move.part])) is not None:
            self.head.waiting.remove(waiting)
            self._follow(waiting)

    def _waiting_for(self, part: str, stamp: int) -> Move | None:
        return next((each for each in self.head.waiting if each.part == part and each.before == stamp), None)

    def _follow(self, move: Move) -> None:
        self.new.add(parse_rows(move.change, self._defaults))
        self.head.stamps[move.part] = move.after
        self.is_changed = True

    def commit(self, ids: Collection[str]) -> None:
        """Have arrays exist that were pending."""
        later = RowChanges(committed=set(ids) - self.new.rows.keys())
        self.is_changed |= bool(later.committed)
        self.new.pending.difference_update(ids)
        self.new.add(later)

    def finish(self, now: float) -> list[str]:
        """Put the new changes into the tail, and drop what has waited for too long. Return the names of manifests
        whose time is over."""
        head = self.head
        if len(self.new):
            head.tail.append((head.number, self.new.columns(len(self._defaults))))
        young = [each for each in head.waiting if now - each.moment < _WAITING_SECONDS][-_WAITING:]
        while young and len(_encode(young)) > _WAITING_BYTES:
            young = young[len(young) // 2 + 1 :]
        head.waiting = young
        over = [name for name, moment in head.retired if now - moment > RETIRED_SECONDS]
        head.retired = [each for each in head.retired if each[0] not in over]
        return over

    def has_full_tail(self) -> bool:
        """Return True if the tail is to become a manifest."""
        rows = sum(len(each.ids) + len(each.gone) + len(each.committed) for _, each in self.head.tail)
        return rows > _TAIL_ROWS or len(_encode(self.head.tail)) > _TAIL_BYTES

    def take_tail(self) -> tuple[RowChanges, list[Run]]:
        """Take out the tail, and the runs that it is to be merged with, the latest first."""
        head, taken = self.head, list[Run]()
        delta = RowChanges()
        for _, columns in head.tail:
            delta.add(parse_rows(columns, self._defaults))
        head.tail = []
        rows = len(delta)
        while head.runs and head.runs[-1].rows < _RATIO * rows:
            taken.append(head.runs.pop())
            rows += taken[-1].rows
        return delta, taken

    def put_run(self, run: Run, merged: Iterable[Run], now: float) -> None:
        """Add the run that others became part of."""
        if run.manifests:
            self.head.runs.append(run)
        self.head.retired += [(ref.name, now) for each in merged for ref in each.manifests]


def merge(older: Iterable[RowChanges], newer: RowChanges, *, is_first: bool) -> Iterator[RowChanges]:
    """Yield the changes of a run, manifest by manifest, with later ones; ``is_first``: there is no earlier run."""
    present: RowChanges | None = None
    for following in older:
        if present is not None:
            present.add(newer.up_to(present.last_id()))
            yield present.as_first() if is_first else present
        present = following
    if present is not None:
        present.add(newer)  # with what comes after its ids, which makes no manifest of its own
        newer = present
    yield newer.as_first() if is_first else newer


def split_columns(delta: RowChanges, attributes: int) -> Iterator[StoredRows]:
    """Yield changes as they are stored, in the order of their ids, none of too many bytes."""
    if not len(delta):
        return
    columns = delta.columns(attributes)
    if len(_encode(columns)) <= _SPLIT_BYTES or len(delta) < 2:
        yield columns
        return
    ids: Sequence[str] = sorted({*delta.rows, *delta.gone, *delta.committed})
    first = delta.up_to(ids[(len(ids) - 1) // 2])
    yield from split_columns(first, attributes)
    yield from split_columns(delta, attributes)
