"""Decoded chunks kept in memory, bounded by bytes. An entry is served only while the stored chunk is the same one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

Block = np.ndarray


class BlockCache:
    """Least recently used blocks under hashable names, each with the stamp of the stored bytes that it came from."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self._lock = threading.Lock()
        self._blocks: OrderedDict[Hashable, tuple[Any, Block]] = OrderedDict()
        self.peek: Callable[[Hashable], tuple[Any, Block] | None] = self._blocks.get
        """Return stamp and block under a name, of whatever version."""

    def get(self, name: Hashable, stamp: Any) -> Block | None:
        """Return the block under ``name`` if it was made from the version ``stamp``."""
        # A miss takes no lock: one look at a dict needs none, with Python's own or without. What was found is looked at
        # again under the lock, since another thread may have dropped it. The order of use changes under it alone:
        # without Python's own it is not safe for threads.
        entry = self._blocks.get(name)
        if entry is None:
            return None
        with self._lock:
            if name in self._blocks:
                if entry[0] == stamp:
                    self._blocks.move_to_end(name)
                    return entry[1]
                self._drop(name)
        return None

    def put(self, name: Hashable, stamp: Any, block: Block) -> None:
        """Remember a block (read-only from now on); the oldest ones make room."""
        if block.nbytes > self.limit:
            return
        block.flags.writeable = False
        with self._lock:
            if name in self._blocks:
                self._drop(name)
            self._blocks[name] = (stamp, block)
            self.nbytes += block.nbytes
            while self.nbytes > self.limit:
                self._drop(next(iter(self._blocks)))

    def _drop(self, name: Hashable) -> None:
        self.nbytes -= self._blocks.pop(name)[1].nbytes
