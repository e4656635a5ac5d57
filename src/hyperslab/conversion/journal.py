"""The journal of a conversion: what is being made of what, and which boxes of which array are done.

It lies under keys of a store, beside a folder that is being built or in a hidden folder of a store that is built in
place::

    head                the order: source, options, versions; what a resumed conversion must agree with
    documents           the documents of the target are written (and what they are, where they are held back)
    done-00000001 …     boxes whose cells are in the target, as runs of numbers by array and by cut into boxes
    synced              up to which of these the medium is known to hold the cells

Every value carries its CRC-32; a damaged or half-written one counts as missing. A killed process loses nothing that was
written; a power cut (another boot of the system) may, so then only what was synced counts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from hyperslab.conversion.selection import ArraySelection
from hyperslab.conversion.source_nodes import SourceNode
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.stores.base import Store
from hyperslab.stores.files import version_of
from hyperslab.stores.location import Location

Boxes = np.ndarray
"""One boolean per box."""
BoxNumber = tuple[str, tuple[int, ...], int]
"""The array's path, target chunks per box along each axis, the box's number."""

# What is not yet written is repeated after a kill: at most a tenth of a second, or 1/200 of the time so far.
_WRITE_SECONDS, _WRITE_SHARE = 0.1, 0.005
# A sync waits for the medium: every 5 s at the most, and never more than 1/20 of the time.
_SYNC_SECONDS, _SYNC_COSTS = 5.0, 20.0
# Finished boxes are kept as one byte per chunk: of more chunks (256 MiB) none counts as done.
_MOST_CHUNKS = 1 << 28


class ConversionJournal:
    """A journal under ``prefix`` of ``store``.

    ``sync`` has the medium keep all cells that were written (None: it keeps each at once). ``clock`` gives seconds;
    ``boot`` tells this boot of the system from others.
    """

    def __init__(
        self,
        store: Store,
        prefix: str = "",
        sync: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        boot: str | None = None,
    ) -> None:
        self._store = store
        self._prefix = f"{prefix}/" if prefix else ""
        self._folder = prefix
        self._sync = sync
        self._clock = clock
        self._boot = boot_id() if boot is None else boot
        self._number = 0
        self._pending: dict[tuple[str, tuple[int, ...]], list[int]] = {}
        self._records: list[Mapping[str, Any]] = []
        self._began = self._noted = self._synced = clock()
        self._cost = 0.0

    # -- what was written before ------------------------------------------------------------------------------------

    def head(self) -> dict[str, object] | None:
        """Return the order, None when there is no journal."""
        found = self._get("head")
        return found if isinstance(found, dict) else None

    def documents(self) -> Sequence[Sequence[str]] | None:
        """Return what :meth:`documents_written` was told; None when the documents are not complete."""
        found = self._get("documents")
        return found["documents"] if isinstance(found, dict) else None

    def load(self) -> None:
        """Read which boxes are done, and go on from there."""
        names = sorted(name for name in self._store.list_dir(self._folder)[0] if name.startswith("done-"))
        synced = self._get("synced")
        kept = synced["number"] if isinstance(synced, dict) else 0
        for name in names:
            self._number = max(self._number, int(name.removeprefix("done-")))
            record = self._get(name)
            if isinstance(record, dict) and (self._number <= kept or record["boot"] in ("", self._boot)):
                self._records.append(record)

    def finished_boxes(self, path: str, counts: tuple[int, ...], chunks: tuple[int, ...]) -> Boxes | None:
        """Return which boxes of ``counts`` target chunks are done of an array of so many ``chunks``; None: none is.

        An earlier run may have taken other boxes, for want of memory, so what is done is worked out chunk by chunk.
        """
        if any(size == 0 for size in chunks) or np.prod(chunks, dtype=float) > _MOST_CHUNKS:
            return None
        done: Boxes | None = None
        for record in self._records:
            for other, cut, runs in record["boxes"]:
                if other == path:
                    done = np.zeros(chunks, np.bool_) if done is None else done
                    _mark_boxes(done, tuple(cut), runs)
        return None if done is None else _boxes_complete(done, counts)

    # -- what is written now ----------------------------------------------------------------------------------------

    def begin(self, head: Mapping[str, Any]) -> None:
        """Forget all, and start anew with this order."""
        for name in self._store.list_dir(self._folder)[0]:
            self._store.delete(self._prefix + name)
        self._number, self._records = 0, []
        self._put("head", head, durable=True)

    def documents_written(self, documents: Sequence[Sequence[str]]) -> None:
        """Note that the target's documents are complete."""
        self._flush_medium()
        self._put("documents", {"documents": documents}, durable=True)

    def add_box(self, box: BoxNumber) -> None:
        """Note one more box as done; written soon, later ones less often: at most 1/200 of the work is repeated."""
        path, counts, number = box
        self._pending.setdefault((path, counts), []).append(number)
        now = self._clock()
        if now - self._noted >= max(_WRITE_SECONDS, _WRITE_SHARE * (now - self._began)):
            self.write()
        if self._sync is not None and now - self._synced >= max(_SYNC_SECONDS, _SYNC_COSTS * self._cost):
            self.write()
            self._flush_medium()
            self._put("synced", {"number": self._number}, durable=True)

    def write(self) -> None:
        """Write what is pending."""
        if not self._pending:
            return
        pending, self._pending = self._pending, {}
        boxes = [[path, counts, _runs(numbers)] for (path, counts), numbers in pending.items()]
        self._number += 1
        record = {"boot": "" if self._sync is None else self._boot, "boxes": boxes}
        self._put(f"done-{self._number:08d}", record, durable=self._sync is None)
        self._noted = self._clock()

    def _flush_medium(self) -> None:
        if self._sync is not None:
            began = self._clock()
            self._sync()
            self._synced = self._clock()
            self._cost = self._synced - began

    def end(self) -> None:
        """Remove the journal: first what makes it one, so that half of it is never taken for one."""
        self._store.delete(f"{self._prefix}head")
        for name in self._store.list_dir(self._folder)[0]:
            self._store.delete(self._prefix + name)
        if self._folder:
            self._store.delete_prefix(self._folder)

    # -- values -----------------------------------------------------------------------------------------------------

    def _get(self, name: str) -> object:
        value = self._store.get(self._prefix + name)
        if value is None or value[8:9] != b" " or b"%08x" % crc32(value[9:]) != value[:8]:
            return None
        return json.loads(value[9:])

    def _put(self, name: str, document: Mapping[str, object], *, durable: bool) -> None:
        text = json.dumps(document).encode()
        self._store.put(self._prefix + name, b"%08x %b" % (crc32(text), text), durable=durable)


@cache
def boot_id() -> str:
    """Return the id of this boot of the system; where it says none, a text that equals no other."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"process at {time.time_ns()}"


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """Return the numbers as sorted ``[start, stop]``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, number + 1])
    return runs


def _mark_boxes(chunks: Boxes, counts: tuple[int, ...], runs: Sequence[Sequence[int]]) -> None:
    """Mark the chunks of the boxes in ``runs``."""
    shape = tuple(-(-size // count) for size, count in zip(chunks.shape, counts, strict=True))
    boxes = np.zeros(int(np.prod(shape, dtype=np.int64)), np.bool_)
    for start, stop in runs:
        boxes[start:stop] = True
    marked: Boxes = boxes.reshape(shape)
    for axis, (count, size) in enumerate(zip(counts, chunks.shape, strict=True)):
        marked = np.repeat(marked, count, axis)[(slice(None),) * axis + (slice(size),)]
    chunks |= marked


def _boxes_complete(chunks: Boxes, counts: tuple[int, ...]) -> Boxes:
    """Return for each box whether all of its chunks are marked."""
    for axis, (count, size) in enumerate(zip(counts, chunks.shape, strict=True)):
        chunks = np.logical_and.reduceat(chunks, np.arange(0, size, count), axis)
    return chunks


# -- what a resumed conversion must agree with ------------------------------------------------------------------------


JOURNAL_VERSION = 1

_REASONS = {
    "journal": "its journal is of another version",
    "version": "it was begun by another version of hyperslab",
    "source": "it had another source",
    "format": "the target had another format",
    "documents": "the source's documents, or the selected cells, are others",
    "values": "the source's files changed",
}


@cache
def installed_version() -> str:
    """Return the version of hyperslab that runs here."""
    from importlib.metadata import version  # on use: with it come email, sockets and archives

    return version("hyperslab")


def make_head(
    where: Location, items: Sequence[SourceNode], format: str, options: Mapping[str, object]
) -> dict[str, object]:
    """Return the order of a conversion, as its journal keeps it (JSON values)."""
    # An option stands there for people too: itself where it is short, else its digest.
    texts = {name: repr(value) for name, value in options.items()}
    return {
        "journal": JOURNAL_VERSION,
        "version": installed_version(),
        "source": where.url,
        "format": format,
        "options": {name: text if len(text) < 200 else digest(options[name]) for name, text in texts.items()},
        "documents": digest([(item.path, item.node, item.picked) for item in items]),
        "values": digest(_source_stamps(where)),
    }


def require_same_order(before: Mapping[str, Any], now: Mapping[str, Any], url: str) -> None:
    """Raise Invalid, with every difference, unless the orders are the same."""
    reasons = [reason for name, reason in _REASONS.items() if before.get(name) != now.get(name)]
    old = before.get("options") or {}
    changed = [name for name in {**now["options"], **old} if old.get(name) != now["options"].get(name)]
    reasons += [f"{name} was {old.get(name)}, not {now['options'].get(name)}" for name in changed]
    if reasons:
        remedy = "repeat the call that was interrupted, or convert without resume (--resume), which starts anew"
        raise Invalid(f"this conversion cannot be resumed: {'; '.join(reasons)}", url=url, remedy=remedy)


def _source_stamps(where: Location) -> object:
    """Return every stored value with its stamp; where stamps would cost a request each, the keys alone."""
    if where.is_file():
        return version_of(os.stat(where.target))
    remote = where.remote_file()
    if remote is not None:
        return remote.size, remote.stamp
    try:
        store = where.store(read_only=True)
        if store.traits.stamped and (where.path is not None or where.scheme == "memory"):
            return [(key, store.stamp(key)) for key in store.list()]
        return [(key, None) for key in store.list()]
    except HyperslabError:  # a web server lists nothing
        return None


def digest(value: object) -> str:
    """Return the same text for equal values, in every process."""
    state = blake2b(digest_size=16)
    _feed(state, value)
    return state.hexdigest()


# Names of classes are hashed into journals, which an interrupted conversion finds again: those of classes that have
# another name by now stay what they were.
_HASHED_NAMES: dict[type, str] = {ArraySelection: "Picked"}


def _feed(state: blake2b, value: object) -> None:
    """Feed a value, each by its type and length before its content, so that no two run into one another."""
    kind = _HASHED_NAMES.get(type(value), type(value).__name__)
    match value:
        case np.ndarray() | np.generic():
            cells = np.asarray(value)
            _feed(state, f"{cells.dtype!r} {cells.shape}")
            if cells.dtype.hasobject or cells.dtype.kind == "T":
                _feed(state, cells.tolist())
            else:
                state.update(np.ascontiguousarray(cells).tobytes())
        case Enum():
            _feed(state, value.name)
        case _ if is_dataclass(value) and not isinstance(value, type):
            state.update(f"({kind}:".encode())
            for field in fields(value):
                _feed(state, getattr(value, field.name))
        case Mapping():
            state.update(f"{{{len(value)}:".encode())
            for name, item in value.items():
                _feed(state, name)
                _feed(state, item)
        case list() | tuple():
            state.update(f"[{len(value)}:".encode())
            for item in value:
                _feed(state, item)
        case _:
            shown: object = type(value).__repr__
            text = kind if shown is object.__repr__ else f"{kind} {value!r}"
            data = text.encode("utf-8", "surrogatepass")
            state.update(b"%d:%b" % (len(data), data))
