"""The versions of a repository of icechunk: commits, history, tags, branches, and what expires.

``at`` is a version everywhere: a time (a datetime, UTC unless it says otherwise, or ISO text), a tag, a branch, or the
id of a snapshot; None is the newest of the branch ``main``. Of a place that is no repository each function raises
Unsupported, of one where nothing is NotFound.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hyperslab.api import Target, commit, history
from hyperslab.formats.base import Moment
from hyperslab.formats.opening import locate_version
from hyperslab.model.amounts import parse_seconds
from hyperslab.stores import repositories, repository_expiry
from hyperslab.stores.location import Location
from hyperslab.stores.repositories import MAIN, History, RepositoryPlace, Snapshot
from hyperslab.stores.repository_expiry import Expiry

StorageOptions = Mapping[str, Any] | None


def _place(url: Target, storage_options: StorageOptions, at: Moment | None = None) -> RepositoryPlace:
    where = Location.of(url, storage_options)
    return (locate_version(where, at) if where.keeps_versions else where).repository


def tags(url: Target, *, storage_options: StorageOptions = None) -> dict[str, str]:
    """Return the tags of a repository, each with the id of its snapshot."""
    return repositories.list_names(_place(url, storage_options))[0]


def branches(url: Target, *, storage_options: StorageOptions = None) -> dict[str, str]:
    """Return the branches of a repository, each with the id of its newest snapshot."""
    return repositories.list_names(_place(url, storage_options))[1]


def create_tag(url: Target, name: str, at: Moment | None = None, *, storage_options: StorageOptions = None) -> str:
    """Give a version a tag, a name that stays; return the id of its snapshot. AlreadyExists for a name that a tag has
    or had, Invalid for what can be no name."""
    return repositories.create_tag(_place(url, storage_options, at), name)


def create_branch(url: Target, name: str, at: Moment | None = None, *, storage_options: StorageOptions = None) -> str:
    """Begin a branch with a version; return the id of its snapshot. It moves with what is written at ``?at=NAME``.
    AlreadyExists, Invalid for what can be no name."""
    return repositories.create_branch(_place(url, storage_options, at), name)


def delete_tag(url: Target, name: str, *, storage_options: StorageOptions = None) -> None:
    """Remove a tag, whose name is not given again; its snapshot stays. NotFound."""
    repositories.delete_tag(_place(url, storage_options), name)


def delete_branch(url: Target, name: str, *, storage_options: StorageOptions = None) -> None:
    """Remove a branch; its snapshots stay until they expire. NotFound, Invalid for ``main``."""
    repositories.delete_branch(_place(url, storage_options), name)


def restore(url: Target, at: Moment, branch: str = MAIN, *, storage_options: StorageOptions = None) -> str:
    """Make a version the newest one of a branch again; return the id of its snapshot. No cells are copied.

    What came after is in the history no more; a tag, or its id until it expires, still leads to it. NotFound.
    """
    return repositories.restore(_place(url, storage_options, at), branch)


def expire(
    url: Target, older_than: float | timedelta, *, dry_run: bool = False, storage_options: StorageOptions = None
) -> Expiry:
    """Take snapshots that were committed more than ``older_than`` (seconds, or a timedelta) ago out of history, and
    remove the chunks that only they hold; ``dry_run``: only say which.

    The newest snapshot of each branch stays, and what a tag names, which leaves the history of a branch all the same.
    What no branch and no tag leads to goes too (``strays``). Nobody may be reading what goes. Invalid for a time to
    come, and for less than 7 days in a bucket: what is stored there and not committed yet is known by its age alone.
    Conflict while a commit is made in a file system.
    """
    age = timedelta(seconds=parse_seconds(older_than, "older_than"))
    return repository_expiry.expire(_place(url, storage_options), datetime.now(UTC) - age, dry_run=dry_run)


__all__ = [
    "Expiry",
    "History",
    "Snapshot",
    "branches",
    "commit",
    "create_branch",
    "create_tag",
    "delete_branch",
    "delete_tag",
    "expire",
    "history",
    "restore",
    "tags",
]
