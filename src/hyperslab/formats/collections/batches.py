"""Arrays that were made together: key entries that count once their batch does, which one value says for all.

The key entry of an array that was made alone holds its id. One of a batch holds the id, a space and the name of the
batch, and leads nowhere until ``batches/<name>`` says ``committed``: that value, put where there is none, makes all of
the arrays exist at one stroke. Where the maker died before it, whoever needs one of the keys says ``aborted`` there,
which keeps the maker from committing should it live after all; then the entry may go.
"""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.errors import Conflict
from hyperslab.formats.collections.creation_marker import is_dead
from hyperslab.formats.collections.places import Places
from hyperslab.formats.collections.store_fallbacks import put_new
from hyperslab.stores.base import WritableStore

_COMMITTED, _ABORTED = b"committed", b"aborted"


def entry_value(id: str, txn: str | None) -> bytes:
    """Return the value of the key entry of an array, made alone or in the batch ``txn``."""
    return id.encode() if txn is None else f"{id} {txn}".encode()


def read_entry(value: bytes) -> tuple[str, str | None]:
    """Return the id that the value of a key entry names, and the batch that it was made in."""
    id, _, txn = value.decode("ascii", "replace").partition(" ")
    return id, txn or None


class BatchCommits:
    """The batches of one collection. A batch that was committed stays so, and is asked for once."""

    def __init__(self, store: WritableStore, places: Places) -> None:
        self._store = store
        self._places = places
        self._committed: set[str] = set()

    def ids(self, values: Sequence[bytes | None]) -> list[str | None]:
        """Return the ids that the values of key entries lead to, as of one moment for each batch; None where to
        none."""
        looked: dict[str, bool] = {}
        found: list[str | None] = []
        for value in values:
            id, txn = (None, None) if value is None else read_entry(value)
            if txn is not None and txn not in looked:
                looked[txn] = self._is_committed(txn)
            found.append(id if txn is None or looked[txn] else None)
        return found

    def _is_committed(self, txn: str) -> bool:
        if txn not in self._committed and self._store.get(self._places.batch(txn)) == _COMMITTED:
            self._committed.add(txn)
        return txn in self._committed

    def commit(self, txn: str, *, durable: bool) -> None:
        """Let all entries of a batch count; ``Conflict`` when another writer has taken its maker for dead."""
        put_new(self._store, [(self._places.batch(txn), _COMMITTED)], durable=durable)

    def release(self, entry: str, value: bytes) -> bool:
        """Remove a key entry whose batch was not committed and whose maker died; False for any other."""
        txn = read_entry(value)[1]
        if txn is None or self._is_committed(txn) or not is_dead(self._store, self._places, txn):
            return False
        try:
            put_new(self._store, [(self._places.batch(txn), _ABORTED)], durable=True)
        except Conflict:
            if self._is_committed(txn):
                return False
        if self._store.get(entry) == value:
            self._store.delete(entry, durable=True)
        return True
