"""Repair of formats that are no documents and chunks under keys: a chunk that cannot be decoded is replaced by fill
values, where it lies in a place of its own. What was stored of it goes to the quarantine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import prod
from typing import Any

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.plan import batched
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import CorruptChunk, HyperslabError, ReadOnly
from hyperslab.integrity.dataset import CheckedDataset
from hyperslab.integrity.quarantine import Quarantine
from hyperslab.integrity.report import Mend, not_mended
from hyperslab.integrity.stored_chunks import span, unpacked_size

KIND = "corrupt-chunk"
# Chunks that one thread looks at in one go.
_BATCH = 16


@dataclass(frozen=True, slots=True)
class _Damaged:
    """A chunk that cannot be decoded, the bytes that are stored of it, and what is wrong with it."""

    node: str
    coords: Coords
    stored: bytes
    message: str
    action: str

    def mend(self, *, done: bool) -> Mend:
        return Mend(self.node, KIND, self.message, self.action, done)


@dataclass
class FillValues:
    """One repair. ``folder``: where what is replaced goes, None: nowhere."""

    place: CheckedDataset
    settings: Settings
    folder: str | None
    _found: list[_Damaged] = field(default_factory=list)

    def run(self, mends: Iterable[Mend], *, dry_run: bool) -> Iterator[Mend]:
        """Yield what others found; in place of damaged chunks that nothing else mends, what is done to them."""
        known = list(mends)
        nodes = sorted({mend.node for mend in known if mend.kind == KIND and mend.action is None})
        if nodes and self.place.format.info.writable and self.place.where.path is not None:
            self._look(nodes)
        mended = {each.node for each in self._found}
        yield from (mend for mend in known if mend.kind != KIND or mend.action or mend.node not in mended)
        if dry_run or not self._found:
            yield from (each.mend(done=False) for each in self._found)
            return
        try:
            self._replace()
        except ReadOnly:
            raise
        except HyperslabError as error:
            yield from (not_mended(each.mend(done=False), error.said) for each in self._found)
            return
        yield from (each.mend(done=True) for each in self._found)

    # -- which ------------------------------------------------------------------------------------------------------

    def _look(self, nodes: Iterable[str]) -> None:
        """Find all damaged chunks of the arrays of which some are damaged, unless one shares its bytes with others."""
        reader = self.place.format.open(self.place.where, "r", settings=self.settings)
        try:
            for node in nodes:
                spec, source = reader.node(node), reader.chunks(node)
                if spec.is_array:
                    self._found += self._of(node, source, spec.numpy_dtype.itemsize) or []
        finally:
            reader.close()

    def _of(self, node: str, source: ChunkSource, itemsize: int) -> list[_Damaged] | None:
        found: list[_Damaged | None] = []

        def work(batch: list[Coords]) -> None:
            for coords in batch:
                try:
                    source.read(coords)
                except HyperslabError as error:
                    found.append(self._damaged(node, source, coords, itemsize, error))

        each_batch(work, batched(source.grid, _BATCH), self.settings.threads)
        sure = [each for each in found if each is not None]
        return sorted(sure, key=lambda each: each.coords) if len(sure) == len(found) else None

    def _damaged(
        self, node: str, source: ChunkSource, coords: Coords, itemsize: int, error: HyperslabError
    ) -> _Damaged | None:
        """Return a chunk whose bytes are damaged; None where they may be sound, and the cells of another type or
        length."""
        stored = source.stored_bytes(coords) if isinstance(error, CorruptChunk) else None
        if stored is None or unpacked_size(stored) not in (None, prod(source.grid.chunk_shape(coords)) * itemsize):
            return None
        cells = span(source.grid, coords)
        action = f"{self._quarantine.verb}; the cells {cells} read as the fill value then"
        return _Damaged(node, coords, bytes(stored), f"{error.said} [{error.key}, cells {cells}]", action)

    # -- the deed ---------------------------------------------------------------------------------------------------

    @property
    def _quarantine(self) -> Quarantine:
        return Quarantine(None, self.folder)  # nothing here lies under a key

    def _replace(self) -> None:
        for each in self._found:
            self._quarantine.keep_bytes(f"{each.node}/chunk.{'.'.join(map(str, each.coords)) or '0'}", each.stored)
        with ExitStack() as stack:
            writer: Any = self.place.format.open(self.place.where, "r+", settings=self.settings)
            stack.callback(writer.close)
            for node in {each.node: None for each in self._found}:
                self._blank(writer, node, [each.coords for each in self._found if each.node == node])

    def _blank(self, writer: Any, node: str, damaged: list[Coords]) -> None:
        if writer.rebuild(node, damaged):
            return
        source = writer.chunks(node)
        with source.transaction(self.settings.lock_timeout):
            for coords in damaged:
                source.erase(coords)
