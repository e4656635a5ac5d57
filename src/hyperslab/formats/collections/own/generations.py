"""The generations of a collection's parts: values that change with each change below ``arrays/<part>``.

Where the store swaps values by requests, a change of one is a swap from the version that is known to another: so the
writer knows that nobody else changed the part between the two, and an index can follow. That costs no request more than
a change that knows nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from hyperslab.errors import Conflict, StorageError, Unsupported
from hyperslab.formats.collections.own.documents import ARRAYS, GENERATIONS, PART, CollectionKeys
from hyperslab.stores.base import Stamp, Store
from hyperslab.stores.requests import each_request

Change = tuple[Stamp | None, Stamp]
"""The stamps of a generation before and after a change; None: it was missing."""

# Times that a generation is swapped while others are faster; then it is changed without knowing from what.
_TRIES = 4


class Generations:
    """The generations of one collection, with the stamps that were seen last."""

    def __init__(self, store: Store, keys: CollectionKeys) -> None:
        self._store = store
        self._keys = keys
        self._known: dict[str, Stamp] | None = None
        self._unmarked: frozenset[str] | None = None

    def read(self) -> Mapping[str, Stamp]:
        """Return the parts that have generations, with the stamps of these."""
        found = self._store.entries(self._keys.folder(GENERATIONS))
        known = self._known = {name: stamp for name, stamp, _ in found if len(name) == PART}
        return dict(known)

    @property
    def known_parts(self) -> Collection[str]:
        """The parts that had generations when these were looked at last; none before."""
        return self._known or ()

    def prepare(self) -> None:
        """Look, once, which parts there are before something is changed."""
        if self._unmarked is None:
            self._unmarked = frozenset(self._store.list_dir(self._keys.folder(ARRAYS))[1]) - self.read().keys()

    def is_new(self, part: str) -> bool:
        """Return True if a part that has no generation is known to have had no arrays when this was prepared: who has
        made some since has made a generation, too."""
        return self._unmarked is not None and part not in self._unmarked

    def touch(self, parts: Collection[str], *, durable: bool) -> Sequence[Change | None]:
        """Give parts other stamps; return those before and after where it is known that nobody else did meanwhile."""
        keys = map(self._keys.generation, parts)
        touches = [partial(self._store.touch, key, durable=durable) for key in keys]
        if self._store.traits.concurrency is not None:
            return each_request(touches)
        return [touch() for touch in touches]

    def swap(self, parts: Collection[str]) -> Sequence[Change | None]:
        """Do the same by swaps, where the store has these."""
        return each_request([partial(self._swap, part) for part in parts])

    def _swap(self, part: str) -> Change | None:
        key, known = self._keys.generation(part), self._known
        before = (self.read() if known is None else known).get(part)
        for _ in range(_TRIES):
            try:
                after = self._store.put_if(key, os.urandom(16), before)
            except Conflict:
                before = self.read().get(part)
            except Unsupported:  # Google's listings tell no version to swap
                before = self._store.stamp(key)
            except StorageError:
                break
            else:
                if (known := self._known) is not None:
                    known[part] = after
                return before, after
        return self._store.touch(key)
