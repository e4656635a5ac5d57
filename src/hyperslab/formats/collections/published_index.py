"""The head and the manifests of an index in the folder of a store: read, swapped for others, and removed.

What they are says :mod:`.manifests`. Manifests are stored before the head that names them, and removed some time after
the last one that did.
"""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from hashlib import blake2b

import msgspec

from hyperslab.errors import Conflict, CorruptChunk, FormatError, HyperslabError
from hyperslab.formats.collections.index_database import form_of
from hyperslab.formats.collections.manifests import (
    HEAD_BYTES,
    MANIFEST_BYTES,
    RETIRED_SECONDS,
    Draft,
    Head,
    ManifestRef,
    Move,
    RowChanges,
    Run,
    encode_head,
    encode_manifest,
    manifest_moment,
    manifest_name,
    merge,
    parse_head,
    parse_manifest,
    split_columns,
)
from hyperslab.formats.collections.ranks import encode_rank, ranker
from hyperslab.model.schemas import AttributeSchema
from hyperslab.stores.attempts import FIRST_PAUSE_SECONDS, beaten
from hyperslab.stores.base import Stamp, Store

LOGGER = logging.getLogger("hyperslab.database")

CURRENT = "current"
"""The name of the head."""

TRIES, TRIES_AT_END = 3, 9
"""Times that a head is swapped, or read, while others are faster; then the changes wait for the next time. There is
none when a writer is closed, so that it tries longer, with the pauses of ``attempts`` between: some three seconds."""


class ManifestLost(Exception):
    """A manifest that the head names is missing or damaged."""


class PublishedIndex:
    """The objects of an index of these attributes in the ``folder`` of a store that swaps values.

    ``exists``: returns True while the collection is there: of one that was removed nothing is stored. ``head``: the one
    that was read last, or put there; ``stamp``: its version, None where there is none; ``is_read``: False before it is
    read, and to have it read anew; ``fault``: what is wrong with it. ``begins_anew``: the next head takes the place of
    what is stored, whatever that tells.
    """

    def __init__(
        self, attributes: Sequence[AttributeSchema], store: Store, folder: str, exists: Callable[[], bool]
    ) -> None:
        self.store = store
        self.folder = folder
        self.form = self.form_here(attributes)
        self.defaults = [
            encode_rank(ranker(each)(each.unset_value)) if each.has_default else None for each in attributes
        ]
        self._exists = exists
        self.forget()

    def forget(self) -> None:
        """Begin as if nothing had been read."""
        self.head, self.is_read = self._empty_head(), False
        self.stamp: Stamp | None = None
        self.fault = ""
        self.begins_anew = False

    def form_here(self, attributes: Sequence[AttributeSchema]) -> str:
        """Return the form of an index of these attributes, which no copy has: that may be of two moments, with ETags
        that are those of the original."""
        place = f"{form_of(attributes)} {self.store.url.rstrip('/')}/{self.folder}"
        return blake2b(place.encode(), digest_size=16).hexdigest()

    def key(self, name: str) -> str:
        """Return the key of the head or of a manifest."""
        return f"{self.folder}/{name}"

    def _empty_head(self) -> Head:
        return Head(self.form, "")

    # -- reading ------------------------------------------------------------------------------------------------------

    def read_head(self) -> None:
        """Look at the head, unless it is the one that is known; one that is damaged is as good as none."""
        key, unless = self.key(CURRENT), self.stamp if self.is_read else None
        head = self._empty_head()
        stamp: Stamp | None = None
        try:
            found = self.store.get_version(key, unless=unless, most=HEAD_BYTES)
            if found is not None and found.data is None:
                return
            self.fault = ""
            if found is not None:
                stamp = found.stamp
                head = parse_head(found.data, self.form, self.defaults)
        except (CorruptChunk, FormatError) as error:
            self.fault = error.message
            LOGGER.debug("the index is left out: %s", error)
            stamp = self.store.stamp(key) if stamp is None else stamp
        self.head, self.stamp, self.is_read = head, stamp, True

    def read_head_anew(self) -> Head:
        """Look at the head, whatever is known of it."""
        self.is_read = False
        self.read_head()
        return self.head

    def read_manifest(self, ref: ManifestRef) -> RowChanges:
        """Return the changes in a manifest; ManifestLost."""
        most = min(ref.nbytes, MANIFEST_BYTES)
        try:
            found = self.store.get_version(self.key(ref.name), most=most)
            if found is None:
                raise ManifestLost
            return parse_manifest(found.data, self.defaults)
        except (CorruptChunk, FormatError) as error:
            raise ManifestLost from error

    # -- another head -------------------------------------------------------------------------------------------------

    def swap(
        self, moves: Sequence[Move], found: Sequence[Move], committed: set[str], tries: int
    ) -> tuple[tuple[str, int], Draft]:
        """Put a head with these changes in place of the present one. Return the epoch and number that the other one
        had, and what was made of it. Conflict when others were faster again and again."""
        made: set[str] = set()
        for attempt in range(tries):
            if attempt or not self.is_read:
                _pause(attempt)
                self.read_head()
                self._remove(made - self.head.names)
                made.clear()
            if not self.head.epoch and not self._exists():  # also where its schema is another one by now
                break
            base = self._empty_head() if self.begins_anew else self.head
            draft = self._draft(base, moves, found, committed)
            if not draft.is_changed:
                return (base.epoch, base.number), draft
            over = draft.finish(time.time())
            try:
                if draft.has_full_tail():
                    self._fold(draft, made)
                stamp = self.store.put_if(self.key(CURRENT), encode_head(draft.head), self.stamp)
            except Conflict:  # also where the answer to a swap was lost
                continue
            except ManifestLost:
                self.begins_anew = attempt > 0
                continue
            self.head, self.stamp, self.is_read, self.begins_anew = draft.head, stamp, True, False
            self._remove(over)
            return (base.epoch, base.number), draft
        self.is_read = False
        raise beaten(self.store.url, self.key(CURRENT))

    def _draft(self, base: Head, moves: Sequence[Move], found: Sequence[Move], committed: set[str]) -> Draft:
        draft = Draft(base, self.defaults)
        if not base.epoch:
            draft.head.epoch = secrets.token_hex(16)
            now = time.time()
            draft.head.retired = [*self.head.retired, *((name, now) for name in self.head.names)]
        for move in moves:
            draft.add(move, waits=True)
        for move in found:
            draft.add(move, waits=False)
        draft.commit(committed)
        return draft

    def _fold(self, draft: Draft, made: set[str]) -> None:
        """Make a run of the tail, and of runs that are not much longer."""
        newer, taken = draft.take_tail()
        for run in taken[:-1]:
            older = RowChanges()
            for ref in run.manifests:
                older.add(self.read_manifest(ref))
            older.add(newer)
            newer = older
        longest = taken[-1].manifests if taken else []
        refs, rows = list[ManifestRef](), 0
        for delta in merge(map(self.read_manifest, longest), newer, is_first=not draft.head.runs):
            for columns in split_columns(delta, len(self.defaults)):
                name, data = manifest_name(secrets.token_hex(16)), encode_manifest(columns)
                made.add(name)
                self.store.put(self.key(name), data, durable=True)
                refs.append(ManifestRef(name, len(data)))
                rows += len(columns.ids) + len(columns.gone) + len(columns.committed)
        draft.put_run(Run(rows, draft.head.number, refs), taken, time.time())
        if not refs:  # nothing is left, which no run tells of
            draft.head.epoch = secrets.token_hex(16)

    def change_form(self, attributes: Sequence[AttributeSchema]) -> None:
        """Let the head be one of these attributes, if there is any; another one that was put there meanwhile is changed
        in turn. Where others are faster again and again it stays, and counts for nothing."""
        for attempt in range(TRIES_AT_END):
            head = self.read_head_anew()
            head = msgspec.structs.replace(head, form=self.form_here(attributes), number=head.number + 1, waiting=[])
            try:
                if head.epoch:
                    self.store.put_if(self.key(CURRENT), encode_head(head), self.stamp)
                return
            except Conflict:
                _pause(attempt)

    # -- leftovers ----------------------------------------------------------------------------------------------------

    def _remove(self, names: Collection[str]) -> None:
        with suppress(HyperslabError):
            for name in names:
                self.store.delete(self.key(name))

    def find_leftovers(self) -> list[str]:
        """Return the keys of manifests that no head names, and that nobody is about to name."""
        return self.choose_leftovers([self.key(name) for name, _, _ in self.store.entries(self.folder)])

    def choose_leftovers(self, keys: Collection[str]) -> list[str]:
        """Return those of some keys, by one look at the head."""
        head = self.read_head_anew()
        known = head.names.union(name for name, _ in head.retired)
        oldest = time.time() - RETIRED_SECONDS
        moments = {key: manifest_moment(name) for key in keys if (name := key.rpartition("/")[2]) not in known}
        return [key for key, moment in moments.items() if moment is not None and moment < oldest]


def _pause(attempt: int) -> None:
    """Wait before another attempt, at random, so that writers who met do not meet again; not before the first one."""
    if attempt:
        time.sleep(random.uniform(0, FIRST_PAUSE_SECONDS * 2**attempt))
