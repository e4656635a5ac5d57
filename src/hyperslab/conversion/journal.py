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
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from hyperslab.stores.base import WritableStore

Boxes = np.ndarray[Any, Any]
Done = tuple[str, tuple[int, ...], int]
"""The array's path, target chunks per box along each axis, the box's number."""

_SOON, _SLOWLY = 0.1, 0.005
_SYNC_SECONDS, _SYNC_COSTS = 5.0, 20.0
_MOST_CHUNKS = 1 << 28


class ConversionJournal:
    """A journal under ``prefix`` of ``store``. ``sync`` has the medium keep all cells that were written (None: it keeps
    each at once). ``clock`` gives seconds; ``running`` tells this boot of the system from others."""

    def __init__(
        self,
        store: WritableStore,
        prefix: str = "",
        sync: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        running: str | None = None,
    ) -> None:
        self._store = store
        self._prefix = f"{prefix}/" if prefix else ""
        self._folder = prefix
        self._sync = sync
        self._clock = clock
        self._boot = boot() if running is None else running
        self._number = 0
        self._pending: dict[tuple[str, tuple[int, ...]], list[int]] = {}
        self._records: list[Mapping[str, Any]] = []
        self._began = self._noted = self._synced = clock()
        self._cost = 0.0

    # -- what was written before ------------------------------------------------------------------------------------

    def head(self) -> dict[str, Any] | None:
        """The order, None when there is no journal."""
        found = self._get("head")
        return found if isinstance(found, dict) else None

    def documents(self) -> Any:
        """What was said of the documents when they were complete; None when they are not."""
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

    def done(self, path: str, counts: tuple[int, ...], chunks: tuple[int, ...]) -> Boxes | None:
        """Which boxes of ``counts`` target chunks are done of an array of so many ``chunks``; None when none is.

        An earlier run may have taken other boxes, for want of memory.
        """
        if any(size == 0 for size in chunks) or np.prod(chunks, dtype=float) > _MOST_CHUNKS:
            return None
        done: Boxes | None = None
        for record in self._records:
            for other, cut, runs in record["boxes"]:
                if other == path:
                    done = np.zeros(chunks, np.bool_) if done is None else done
                    _mark(done, tuple(cut), runs)
        return None if done is None else _all_in(done, counts)

    # -- what is written now ----------------------------------------------------------------------------------------

    def begin(self, head: Mapping[str, Any]) -> None:
        """Forget all, start anew."""
        for name in self._store.list_dir(self._folder)[0]:
            self._store.delete(self._prefix + name)
        self._number, self._records = 0, []
        self._put("head", head, durable=True)

    def documents_written(self, documents: Any) -> None:
        """The target's documents are complete."""
        self._flush_medium()
        self._put("documents", {"documents": documents}, durable=True)

    def note(self, box: Done) -> None:
        """One more box is done; written down soon, later ones less often: at most 1/200 of the work is repeated."""
        path, counts, number = box
        self._pending.setdefault((path, counts), []).append(number)
        now = self._clock()
        if now - self._noted >= max(_SOON, _SLOWLY * (now - self._began)):
            self.write()
        if self._sync is not None and now - self._synced >= max(_SYNC_SECONDS, _SYNC_COSTS * self._cost):
            self.write()
            self._flush_medium()
            self._put("synced", {"number": self._number}, durable=True)

    def write(self) -> None:
        """Write down what is pending."""
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

    def _get(self, name: str) -> Any:
        value = self._store.get(self._prefix + name)
        if value is None or value[8:9] != b" " or b"%08x" % crc32(value[9:]) != value[:8]:
            return None
        return json.loads(value[9:])

    def _put(self, name: str, document: Any, *, durable: bool) -> None:
        text = json.dumps(document).encode()
        self._store.put(self._prefix + name, b"%08x %b" % (crc32(text), text), durable=durable)


@cache
def boot() -> str:
    """What tells this boot of the system from all others; where it says nothing, a text that equals no other."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"process at {time.time_ns()}"


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """The numbers as ``[start, stop]``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, number + 1])
    return runs


def _mark(chunks: Boxes, counts: tuple[int, ...], runs: Sequence[Sequence[int]]) -> None:
    """Mark the chunks of the boxes in ``runs``."""
    shape = tuple(-(-size // count) for size, count in zip(chunks.shape, counts, strict=True))
    boxes = np.zeros(int(np.prod(shape, dtype=np.int64)), np.bool_)
    for start, stop in runs:
        boxes[start:stop] = True
    marked: Boxes = boxes.reshape(shape)
    for axis, (count, size) in enumerate(zip(counts, chunks.shape, strict=True)):
        marked = np.repeat(marked, count, axis)[(slice(None),) * axis + (slice(size),)]
    chunks |= marked


def _all_in(chunks: Boxes, counts: tuple[int, ...]) -> Boxes:
    """For each box whether all of its chunks are marked."""
    for axis, (count, size) in enumerate(zip(counts, chunks.shape, strict=True)):
        chunks = np.logical_and.reduceat(chunks, np.arange(0, size, count), axis)
    return chunks
