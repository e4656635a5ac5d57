"""Older versions of the arrays of a collection that keeps them, and the collection as of a moment.

Before a value of an array (its document, a tile) is replaced or removed, what lies under its key gets a second key,
which is named by the moment of the change; where nothing lies there, an empty value says that::

    versions/6f/6f0c…/c.0.0/20261127T203344123456       what c/0/0 was until then
    versions/6f/6f0c…/zarr.json/20261127T203000000000-  there was none until then

So the value of a key as of a moment is its first version after that, or the present one where there is none. A version
is stored under the lock of its key, and is on the medium before the change shows. Hence who reads the present value,
looks for versions after that, and finds none, has read the value of the moment. A change that failed after all leaves a
version that is equal to the present value, which does no harm. The moment of a version lies shortly before the change
shows: a moment between the two reads as before at first, and as after it from then on.

A version is a second name of the same file: it takes no room until the value that it was made of is replaced. The
moments are those of the writers' clocks, but later than those of the same key before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from zlib import crc32

from hyperslab.errors import Invalid, StorageError, Unsupported
from hyperslab.formats.collections.own.documents import ARRAY, ARRAYS, JOURNAL, PART, VERSIONS, CollectionKeys
from hyperslab.formats.collections.own.tile_transaction import parse_journal
from hyperslab.model.schemas.arrays import is_id
from hyperslab.stores.base import Scratch, Stamp, Store
from hyperslab.stores.wrapped import WrappedStore

_FORM = "%Y%m%dT%H%M%S%f"
_ABSENT = "-"
# Seconds by which versions outlive their time, for who has just begun to read them, and for clocks that differ.
_GRACE = 120.0

Result = TypeVar("Result")


def moment_text(moment: datetime) -> str:
    """Return a moment as versions are named: texts compare as their moments do."""
    return moment.astimezone(UTC).strftime(_FORM)


def _moment_of(name: str) -> datetime | None:
    """Return the moment that a version is named by; None for what is no version."""
    try:
        return datetime.strptime(name.removesuffix(_ABSENT), _FORM).replace(tzinfo=UTC)
    except ValueError:
        return None


def _next_moment(known: Iterable[Sequence[str]]) -> str:
    """Return the present moment, or one behind the last of those that some values have versions of, whatever the clock
    of their writer told."""
    latest = [moment for names in known if names and (moment := _moment_of(names[-1])) is not None]
    return moment_text(max([datetime.now(UTC), *(moment + timedelta(microseconds=1) for moment in latest)]))


class ArrayVersions:
    """The versions of the arrays of one collection. ``seconds``: how long they are kept, -1 for ever."""

    def __init__(self, store: Store, keys: CollectionKeys, seconds: float) -> None:
        self._store = store
        self._keys = keys
        self._seconds = seconds

    def require_locks(self) -> None:
        """Raise Unsupported for a store without locks: a change could not be told from another at the same time."""
        if not self._store.traits.locks_chunks:
            remedy = "keep it on a disk, or without keep_versions in a bucket that keeps versions itself"
            message = "changes of a collection that keeps versions, in a store without locks"
            raise Unsupported(message, url=self._store.url, remedy=remedy)

    def folder(self, id: str, name: str = "") -> str:
        """Return the folder of the versions of an array, or of the value ``name`` below the array's folder."""
        base = f"{self._keys.folder(VERSIONS)}/{id[:PART]}/{id}"
        return f"{base}/{name.replace('/', '.')}" if name else base

    def names(self, id: str) -> Sequence[str]:
        """Return the values of an array that have versions, as they are named below its folder."""
        names = self._store.list_dir(self.folder(id))[1]
        return [name if name == ARRAY else name.replace(".", "/") for name in names]

    def keep(self, id: str, names: Iterable[str], *, durable: bool) -> None:
        """Keep what lies now under keys of an array, which the caller has locked, and is about to change."""
        self.require_locks()  # also of a collection that was copied to where there are none
        names = list(names)
        known = {name: self._store.list_dir(self.folder(id, name))[0] for name in names}
        moment = _next_moment(known.values())
        for name in names:
            target = f"{self.folder(id, name)}/{moment}"
            if not self._store.copy(f"{self._keys.array(id)}/{name}", target, durable=durable):
                self._store.put(target + _ABSENT, b"", durable=durable)
            self._remove_expired(self.folder(id, name), known[name])

    def keep_removed(self, id: str, *, durable: bool, timeout: float | None) -> None:
        """Keep all of an array, whose document the caller has locked, and is about to remove. The document comes first:
        from its moment on the array is gone, whatever is written to its tiles until they are."""
        folder = self._keys.array(id)
        names = sorted(key[len(folder) + 1 :] for key in self._store.list(folder))
        self.keep(id, [ARRAY], durable=durable)
        for name in names:
            if name != ARRAY:
                with self._store.lock_chunks(folder, [crc32(name.encode())], timeout):
                    self.keep(id, [name], durable=durable)

    def keep_absent(self, id: str, *, durable: bool) -> str:
        """Keep that there was no array until now whose document is about to be stored; return the key of that."""
        self.require_locks()
        folder = self.folder(id, ARRAY)  # one that was removed may have had the same id
        key = f"{folder}/{_next_moment([self._store.list_dir(folder)[0]])}{_ABSENT}"
        self._store.put(key, b"", durable=durable)
        return key

    def _remove_expired(self, folder: str, names: Iterable[str]) -> int:
        if self._seconds < 0:
            return 0
        oldest = moment_text(datetime.now(UTC) - timedelta(seconds=self._seconds + _GRACE))
        expired = [name for name in names if name < oldest]
        for name in expired:
            self._store.delete(f"{folder}/{name}")
        return len(expired)

    def expire(self) -> int:
        """Remove the versions of all arrays whose time is over; return how many."""
        if self._seconds < 0:
            return 0
        folders = (self.folder(id, name) for part in self.parts() for id in self.ids(part) for name in self.names(id))
        return sum(self._remove_expired(folder, self._store.list_dir(folder)[0]) for folder in folders)

    def moments(self, id: str) -> list[datetime]:
        """Return the moments at which something of an array changed, in order."""
        found = {name for value in self.names(id) for name in self._store.list_dir(self.folder(id, value))[0]}
        return sorted({moment for name in found if (moment := _moment_of(name)) is not None})

    def ids(self, part: str) -> Iterator[str]:
        """Yield the ids of a part that have versions."""
        return filter(is_id, self._store.list_dir(f"{self._keys.folder(VERSIONS)}/{part}")[1])

    def parts(self) -> Sequence[str]:
        """Return the parts that have versions."""
        return self._store.list_dir(self._keys.folder(VERSIONS))[1]

    def check_moment(self, at: datetime) -> None:
        """Raise Invalid for a moment that is to come, or of which versions are kept no more."""
        now = datetime.now(UTC)
        if at > now:
            raise Invalid(f"{at.isoformat()} is to come", remedy="give a moment that is over")
        if 0 <= self._seconds < (now - at).total_seconds():
            kept = str(timedelta(seconds=self._seconds)).removesuffix(", 0:00:00")
            message = f"versions are kept for {kept}, and {at.isoformat()} is longer ago"
            raise Invalid(message, remedy="give a later moment")


class PastStore(WrappedStore):
    """The store of a collection, to be read: values of its arrays are those that they had at a moment."""

    def __init__(self, store: Store, keys: CollectionKeys, versions: ArrayVersions, at: datetime) -> None:
        super().__init__(store, read_only=True)
        self._keys = keys
        self._versions = versions
        self._at = at
        self._arrays = keys.folder(ARRAYS) + "/"
        self._journals = keys.folder(JOURNAL) + "/"

    def older(self, key: str) -> str | None:
        """Return the key of the version that counts for a key: empty where there was no value, None where there is no
        version, and the present value counts. Invalid when versions of the moment are kept no more."""
        if not key.startswith(self._arrays):
            return None
        self._versions.check_moment(self._at)
        parts = key[len(self._arrays) :].split("/", 2)
        if len(parts) < 3:
            return None
        _, id, name = parts
        folder, at = self._versions.folder(id, name), moment_text(self._at)
        for version in self._store.list_dir(folder)[0]:
            if version.removesuffix(_ABSENT) > at:
                return "" if version.endswith(_ABSENT) else f"{folder}/{version}"
        return None

    def _read(self, key: str, read: Callable[[str], Result | None]) -> Result | None:
        place = self.older(key)
        if place is None:
            found = read(key)
            # In this order: where it was changed before it was read, there is a version by now.
            place = self.older(key)
            if place is None:
                return found
        if not place:
            return None
        found = read(place)
        if found is None:
            raise StorageError("a version was removed while it was read", url=self.url, key=place, remedy="read again")
        return found

    def get(self, key: str) -> bytes | None:
        """Return the whole value, or None; of a journal nothing, where it tells of a write after the moment."""
        found = self._read(key, self._store.get)
        if found is None or not key.startswith(self._journals):
            return found
        folder = self._keys.array(key[len(self._journals) :])
        entry = parse_journal(found, key)
        is_later = entry is not None and any(self.older(f"{folder}/{tile}") is not None for tile in entry.keys)
        return None if is_later else found

    def get_into(self, key: str, scratch: Scratch, most: int | None = None) -> memoryview | None:
        return self._read(key, lambda place: self._store.get_into(place, scratch, most))

    def read_exactly(self, key: str, out: memoryview) -> int | None:
        return self._read(key, lambda place: self._store.read_exactly(place, out))

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        return self._read(key, lambda place: self._store.get_ranges(place, ranges))

    def size(self, key: str) -> int | None:
        return self._read(key, self._store.size)

    def stamp(self, key: str) -> Stamp | None:
        """Return what identifies the version of the moment, None when missing."""
        return self._read(key, self._store.stamp)

    def stray_at(self, key: str) -> str | None:
        return None if self.older(key) is not None else self._store.stray_at(key)

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield every key below ``prefix/``, sorted: of an array those that had a value at the moment."""
        if prefix.count("/") <= self._arrays.count("/") or not prefix.startswith(self._arrays):
            yield from self._store.list(prefix)
            return
        id = prefix[len(self._arrays) :].split("/")[1]
        present = set(self._store.list(prefix))
        older = {f"{self._keys.array(id)}/{name}" for name in self._versions.names(id)}
        for key in sorted(present | {key for key in older if key.startswith(f"{prefix}/")}):
            place = self.older(key)
            if place or (place is None and key in present):
                yield key
