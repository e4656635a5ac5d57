"""Expiry in a repository of icechunk: of old snapshots, and the chunks that only they hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from hyperslab.errors import Conflict, Invalid
from hyperslab.stores import locks
from hyperslab.stores.repositories import RepositoryPlace, snapshots_folder, translate_errors

if TYPE_CHECKING:
    from icechunk import Repository

LONGEST_IN_BUCKET = timedelta(days=7)
"""For how long a commit to a bucket may be made, and how old is what expires there. No lock keeps an expiry away from
what is stored and not committed yet: its age does. A conversion of some terabytes takes a day or two."""
# Seconds that an expiry waits for commits to end: most take milliseconds, and one that runs long is not outwaited.
_PATIENCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Expiry:
    """The result of an expiry: the ids of ``snapshots`` that are no more in a history, the number of those that were
    in none before (``strays``, of branches that were moved back or removed), and the ``nbytes`` that are free now, of a
    dry run those of strays alone."""

    snapshots: tuple[str, ...]
    nbytes: int
    strays: int = 0


def expire(place: RepositoryPlace, older_than: datetime, *, dry_run: bool = False) -> Expiry:
    """Take snapshots that were committed before ``older_than`` out of history, and remove the chunks that none but
    these hold. The newest snapshot of each branch stays, and what a tag names can be opened yet, though it leaves the
    history of a branch. Snapshots that no branch and no tag leads to go too. ``dry_run``: only say which.

    Nobody may be reading what is removed. What commits that are being made have stored may be as old, and nothing leads
    to it yet: Conflict while one runs in the file system; in a bucket, where none is seen, Invalid unless
    ``older_than`` is :data:`LONGEST_IN_BUCKET` ago.
    """
    repository = place.open()
    with ExitStack() as stack:
        if not dry_run:
            _keep_commits_out(stack, place, older_than)
        stack.enter_context(place.exclusive(None))
        stack.enter_context(translate_errors(place.name, doing="expire"))
        # icechunk does not name snapshots that nothing leads to; it counts them, before others become such.
        strays = repository.garbage_collect(older_than, dry_run=True)
        if dry_run:
            older = tuple(_find_older(repository, older_than))
            return Expiry(older, int(strays.bytes_deleted), int(strays.snapshots_deleted))
        # It names those that tags and branches lead to, too: they are in no history any more, and stay; and from its
        # version 2 on strays.
        expired = set(_find_older(repository, older_than))
        gone = expired.intersection(repository.expire_snapshots(older_than))
        summary = repository.garbage_collect(older_than)
        return Expiry(tuple(sorted(gone)), int(summary.bytes_deleted), int(strays.snapshots_deleted))


def _keep_commits_out(stack: ExitStack, place: RepositoryPlace, older_than: datetime) -> None:
    folder = place.folder
    if folder is None:
        if datetime.now(UTC) - older_than < LONGEST_IN_BUCKET:
            remedy = f"give an age of {LONGEST_IN_BUCKET.days} days or more"
            raise Invalid("what others are about to commit could expire", url=place.name, remedy=remedy)
        return
    try:
        stack.enter_context(locks.hold_folder(lambda: snapshots_folder(folder), _PATIENCE_SECONDS))
    except Conflict:
        message = "a commit is being made, and what it has stored could expire"
        raise Conflict(message, url=place.name, remedy="try again when it has ended") from None


def _find_named(repository: Repository) -> set[str]:
    """Return the ids of snapshots that have a name: those of tags, and the newest of branches."""
    tags, branches = repository.list_tags(), repository.list_branches()
    return {*map(repository.lookup_tag, tags), *map(repository.lookup_branch, branches)}


def _find_older(repository: Repository, older_than: datetime) -> Iterator[str]:
    """Yield the ids of snapshots that an expiry takes out of history: all so old but those that have a name and the
    first one of all."""
    named = _find_named(repository)
    seen: set[str] = set()
    for start in sorted(named):
        for info in repository.ancestry(snapshot_id=start):
            if info.id in seen:
                break
            seen.add(info.id)
            if info.written_at < older_than and info.id not in named and info.parent_id is not None:
                yield str(info.id)
