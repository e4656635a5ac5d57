"""Repositories of icechunk: where one is, which of its versions is meant, its history, its tags and branches.

A repository keeps snapshots of a Zarr v3 dataset. A branch is a name that moves to the newest of its snapshots, a tag
one that stays. ``icechunk+file://``, ``icechunk+s3://``, ``icechunk+gs://`` and ``icechunk+az://`` name one. What lies
under its keys, and how it is changed, is in :mod:`hyperslab.stores.icechunk`.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

import numpy as np

from hyperslab.errors import (
    AlreadyExists,
    Conflict,
    FormatError,
    HyperslabError,
    Invalid,
    MissingLibrary,
    NotFound,
    ReadOnly,
    StorageError,
)
from hyperslab.stores import locks
from hyperslab.stores.credentials import redact, redact_text
from hyperslab.stores.forks import ThreadedLibrary
from hyperslab.stores.moments import parse_moment
from hyperslab.stores.reference_table import explain_failure, parse_allowed
from hyperslab.stores.repository_buckets import allow_containers, open_bucket, take_options

if TYPE_CHECKING:
    from icechunk import Repository, Storage

PREFIX = "icechunk+"
"""The beginning of the schemes of repositories; behind it is that of the place where the repository lies."""
MAIN = "main"
"""The branch that is meant where none is named. Every repository has it, and it is never removed."""

Version = datetime | str
"""A version: that of a time, or of the name of a tag, a branch or a snapshot."""

# Seconds that the exit of a process waits for threads of icechunk, which need microseconds.
_LONGEST_AT_EXIT = 1.0

# -- the library -------------------------------------------------------------------------------------------------------


@cache
def library() -> Any:
    """Return the module icechunk; MissingLibrary where it is not installed."""
    if "icechunk" not in sys.modules:
        # It warns on stderr, at each opening of a local repository, of what the lock in `exclusive` is for. It reads
        # this variable once, when it is imported; who has set it, or imports it first, sees what they want to see.
        os.environ.setdefault("ICECHUNK_LOG", "error")
    try:
        import icechunk
    except ImportError:
        remedy = "pip install 'hyperslab[icechunk]'"
        raise MissingLibrary("a repository needs the library icechunk", remedy=remedy) from None
    atexit.register(_wait_for_its_threads)
    return icechunk


def _wait_for_its_threads() -> None:
    """Wait, at exit, until no thread of icechunk runs Python code any more.

    A thread that hands over a result wakes the thread that waits for it before it comes back from Python. If the
    process ends in between, Python before 3.14 ends that thread by ``pthread_exit``, which aborts where Rust called it.
    """
    deadline = time.monotonic() + _LONGEST_AT_EXIT
    rests = 0  # looks in a row that found none: between two calls into Python a thread shows no frame
    while rests < 2 and time.monotonic() < deadline:
        known = {thread.ident for thread in threading.enumerate()}
        rests = 0 if sys._current_frames().keys() - known else rests + 1
        time.sleep(0.001)  # which lets such a thread have the interpreter's lock


_icechunk = ThreadedLibrary()
_SPAWN = "start processes by spawn or forkserver, and open the repository in each of them"


@contextmanager
def translate_errors(url: str, key: str | None = None, *, doing: str = "read") -> Iterator[None]:
    """Raise what icechunk raises in the block as an error of ours; ``doing``: what failed, as a verb."""
    if _icechunk.orphaned:
        raise StorageError("this process was forked from one that used icechunk", url=url, remedy=_SPAWN)
    _icechunk.used = True
    icechunk = library()
    try:
        yield
    except HyperslabError:
        raise
    except icechunk.ConflictError:
        raise Conflict("another writer was faster", url=url, key=key, remedy="repeat the change") from None
    except (icechunk.IcechunkError, OSError, ValueError, TypeError) as error:
        message, remedy = f"icechunk cannot {doing} this: {reason(error)}", _LOOK
        if (virtual := explain_failure(str(error))) is not None:
            message, remedy = virtual
        elif _NO_BUCKET in str(error):
            message, remedy = "there is no such bucket", "check the spelling, or make it first"
        raise StorageError(message, url=url, key=key, remedy=remedy) from None
    except Exception as error:
        # What its threads panic with is of a class that it does not export.
        if type(error).__name__ != "RustPanic":
            raise
        raise StorageError(f"icechunk gave up: {reason(error)}", url=url, key=key) from None


# icechunk has no class of error for it.
_NO_BUCKET = "NoSuchBucket"
# What it adds to the metadata of each commit from its version 2 on.
_OF_ICECHUNK = "__icechunk"
_LOOK = "look at the disk or the network, and whether all of the repository is there"


def reason(error: BaseException) -> str:
    """Return what icechunk says, in one line without its own place in its code, and without secrets."""
    lines = (line.strip() for line in str(error).splitlines())
    first = next(filter(None, lines), type(error).__name__)
    return redact_text(first.removeprefix("x ").removeprefix("\u00d7 ").strip())


def absolute_url(url: str) -> str:
    """Return the URL of a repository in the file system as every process understands it, wherever it works.

    ``icechunk+file://./air`` is relative to the working directory. Invalid for what names no folder here.
    """
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if host not in ("", ".", "localhost"):
        remedy = f"use {PREFIX}file:///path, with three slashes, or {PREFIX}file://./path"
        raise Invalid(f"{url!r} names another machine", remedy=remedy)
    path = unquote(path if host == "." else slash + path)
    if not path.strip("/") or "\0" in path:
        raise Invalid(f"{url!r} names no folder", remedy="give the folder of the repository")
    return f"{scheme.lower()}://{quote(os.path.abspath(path))}"


# -- places ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RepositoryPlace:
    """A repository's place: ``url``, of one in the file system as :func:`absolute_url` has it; storage ``options``, and
    the ``version`` that is meant; None for the branch ``main``."""

    url: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    version: Version | None = None

    @property
    def name(self) -> str:
        """Return the URL without secrets."""
        return redact(self.url)

    @property
    def folder(self) -> str | None:
        """Return the path of a repository in the file system; None of one in a bucket."""
        scheme, _, rest = self.url.partition("://")
        return unquote(rest) if scheme.lower() == f"{PREFIX}file" else None

    def exists(self) -> bool:
        """Return True if a repository is there."""
        folder = self.folder
        if folder is not None and not os.path.isdir(folder):  # without the library, and nothing is made
            return False
        with translate_errors(self.name):
            try:
                return bool(library().Repository.exists(self._storage()))
            except library().IcechunkError:
                if folder is None:  # the network may be what failed
                    raise
                return True  # a damaged one

    def open(self, *, create: bool = False) -> Repository:
        """Return the repository; NotFound where there is none, unless it is to be made (``create``); FormatError for
        one that icechunk cannot read. Virtual chunks may be read where the storage option ``allow_external`` says
        so."""
        if not self.exists():
            if not create:
                remedy = "check the spelling, or make one: hyperslab convert SRC " + self.name
                raise NotFound("there is no repository", url=self.name, remedy=remedy)
            return self._create()
        icechunk = library()
        storage = self._storage()
        with translate_errors(self.name):
            try:
                config = icechunk.Repository.fetch_config(storage)
                remote = self._remote_options()
                allowed = allow_containers(icechunk, config, self._allowed(config), remote)
                opened: Repository = icechunk.Repository.open(
                    storage,
                    config=config if remote else None,
                    authorize_virtual_chunk_access=allowed or None,
                )
                return opened
            except icechunk.IcechunkError as error:
                remedy = "restore it from a copy, or install a newer icechunk"
                message = f"the repository is damaged, or of a newer version: {reason(error)}"
                raise FormatError(message, url=self.name, remedy=remedy) from None

    def _create(self) -> Repository:
        icechunk = library()
        folder = self.folder
        if folder is not None:
            if os.path.isdir(folder) and os.listdir(folder):
                remedy = "choose an empty place"
                raise AlreadyExists("something else lies there", url=self.name, remedy=remedy)
            os.makedirs(folder, exist_ok=True)
        with self.exclusive(None), translate_errors(self.name, doing="make"):
            # Of several writers that make it at once, those that come second open it.
            is_made = icechunk.Repository.exists(self._storage())
            make = icechunk.Repository.open if is_made else icechunk.Repository.create
            made: Repository = make(self._storage())
            return made

    def _remote_options(self) -> Mapping[str, Any]:
        """Return the storage options of the servers of virtual chunks. Invalid for what is no mapping."""
        found = self.options.get("remote_options") or {}
        if not isinstance(found, Mapping):
            remedy = "give a mapping of the storage options of the servers (--storage-option remote_options:=JSON)"
            raise Invalid("the storage option remote_options is no mapping", url=self.name, remedy=remedy)
        return found

    def _allowed(self, config: Any) -> list[str]:
        """Return the places of virtual chunks that the repository names and the caller allows."""
        allowed = parse_allowed(self.options.get("allow_external", ()))
        known = list({} if config is None else config.virtual_chunk_containers or {})
        if isinstance(allowed, bool):
            return known
        roots = [_container_url(root) for root in allowed]
        return [prefix for prefix in known if any(_is_below(prefix, root) for root in roots)]

    def exclusive(self, timeout: float | None) -> AbstractContextManager[None]:
        """Hold a repository in the file system against other writers of ours; Conflict after ``timeout`` seconds.

        icechunk's own commits are safe in a bucket, where a reference is changed by a conditional request. In a folder
        they are not: of two that come at once the later one takes the place of the other (icechunk issue 804). The lock
        is on the folder itself, so nothing is left in it.
        """
        folder = self.folder
        return nullcontext() if folder is None else _hold(folder, self.name, timeout)

    def unexpired(self) -> AbstractContextManager[None]:
        """Hold a repository in the file system, as one of several, against an expiry, which would remove what is stored
        and not committed yet. Taken before :meth:`exclusive`, by an expiry too."""
        folder = self.folder
        return nullcontext() if folder is None else _hold(snapshots_folder(folder), self.name, None, shared=True)

    def _storage(self) -> Storage:
        folder = self.folder
        if folder is not None:
            take_options(self.options, (), self.name)
            storage: Storage = library().local_filesystem_storage(folder)
            return storage
        url = urlsplit(self.url)
        bucket, prefix = url.netloc.rpartition("@")[2], unquote(url.path).strip("/")
        if not bucket or not prefix:
            raise Invalid("this names no place in a bucket", url=self.name, remedy="write the bucket and a path in it")
        try:
            kind = url.scheme.lower().removeprefix(PREFIX)
            return open_bucket(library(), kind, bucket, prefix, dict(self.options), self.name)
        except (TypeError, ValueError) as error:
            names = ", ".join(self.options) or "none"
            message = f"the URL and the storage options ({names}) make no storage: {reason(error)}"
            raise Invalid(message, url=self.name, remedy="see the how-to on versions") from None


@contextmanager
def _hold(folder: str, url: str, timeout: float | None, *, shared: bool = False) -> Iterator[None]:
    try:
        with locks.hold_folder(lambda: folder, timeout, shared=shared):
            yield
    except Conflict as error:
        raise error.locate(url=url) from None


def snapshots_folder(folder: str) -> str:
    """Return the folder that every repository has from its beginning, on which an expiry and commits exclude each
    other: on the repository's own folder commits that run long would exclude one another."""
    return os.path.join(folder, "snapshots")


def _container_url(place: str) -> str:
    """Return a folder or URL that the caller allows as the URL that a repository names, without escapes in a path."""
    if "://" in place:
        return unquote(place) if place.startswith("file://") else place
    return f"file://{os.path.realpath(place)}"


def _is_below(prefix: str, root: str) -> bool:
    """Return True for a place that a repository names, with escapes in a path or without, at or below a root."""
    return any(
        f"{each.rstrip('/')}/".startswith(f"{root.rstrip('/')}/") and ".." not in unquote(each).split("/")
        for each in {prefix, unquote(prefix) if prefix.startswith("file://") else prefix}
    )


# -- versions ----------------------------------------------------------------------------------------------------------


def parse_version(at: str | date | np.datetime64) -> Version:
    """Return a version as it was given: a time in UTC (UTC unless it says otherwise, a date is its midnight), or the
    name of a tag, a branch or a snapshot, which is text that is no time. Invalid."""
    try:
        return parse_moment(at)
    except ValueError:
        if isinstance(at, str) and at:
            return str(at)
        said = "an empty text" if isinstance(at, str) else repr(at)
        raise Invalid(f"{said} is no version", remedy=_VERSIONS) from None


_VERSIONS = "give a time (2026-11-01T12:00, UTC), a tag, a branch or the id of a snapshot"


def find_snapshot(repository: Repository, place: RepositoryPlace) -> str:
    """Return the id of the snapshot that a place means. NotFound where there is none of this name, or none so old;
    Invalid for a time that is to come, and for a name of both a tag and a branch."""
    version, url = place.version, place.name
    with translate_errors(url):
        match version:
            case None:
                return str(repository.lookup_branch(MAIN))
            case datetime():
                return _find_snapshot_at(repository, version, url)
        is_tag, is_branch = version in repository.list_tags(), version in repository.list_branches()
        if is_tag and is_branch:
            remedy = "give the id of the snapshot, which hyperslab history shows"
            raise Invalid(f"{version!r} is a tag and a branch", url=url, remedy=remedy)
        if is_tag:
            return str(repository.lookup_tag(version))
        if is_branch:
            return str(repository.lookup_branch(version))
        return _check_snapshot(repository, version, url)


def _find_snapshot_at(repository: Repository, moment: datetime, url: str) -> str:
    """Return the snapshot that was the newest one of ``main`` at a moment."""
    if moment > datetime.now(UTC):
        raise Invalid(f"{moment.isoformat()} is to come", url=url, remedy="give a time that is over")
    oldest = None
    for info in repository.ancestry(branch=MAIN):
        if info.written_at <= moment:
            return str(info.id)
        oldest = info.written_at
    first = "" if oldest is None else f": the oldest snapshot is of {oldest.isoformat(timespec='seconds')}"
    remedy = "give a later time; what expired is gone"
    raise NotFound(f"no snapshot is as old as {moment.isoformat()}{first}", url=url, remedy=remedy)


def _check_snapshot(repository: Repository, version: str, url: str) -> str:
    """Return the name if it is the id of a snapshot that is there. NotFound."""
    try:
        return str(repository.lookup_snapshot(version).id)
    except library().IcechunkError:
        names = ", ".join([*sorted(repository.list_tags()), *sorted(repository.list_branches())][:10])
        remedy = f"there are {names}; hyperslab history shows the snapshots that have not expired"
        message = f"there is no tag, branch or snapshot {version!r}"
        raise NotFound(message, url=url, remedy=remedy) from None


def find_branch(repository: Repository, place: RepositoryPlace) -> str:
    """Return the branch that writes go to. ReadOnly where the place means a time, a tag or a snapshot; NotFound where
    it means none."""
    version, url = place.version, place.name
    if version is None:
        return MAIN
    with translate_errors(url):
        if isinstance(version, str) and version in repository.list_branches():
            return version
        found = find_snapshot(repository, place)
    remedy = f"write to a branch: hyperslab branch {url} NAME --at {found} makes one"
    raise ReadOnly("an older version is only read", url=url, remedy=remedy)


# -- history -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of a repository: its ``id``, when it was committed (UTC), the ``message``, and the id of the one before
    it (``parent``; None of the first). ``metadata``: what else the writer said. ``tags`` and ``branches`` that are this
    snapshot."""

    id: str
    time: datetime
    message: str
    parent: str | None
    metadata: Mapping[str, Any]
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = ", ".join([*(f"tag {name}" for name in self.tags), *(f"branch {name}" for name in self.branches)])
        return f"{self.id}  {self.time:%Y-%m-%dT%H:%M:%SZ}  {self.message}{f'  ({names})' if names else ''}"


class History(tuple[Snapshot, ...]):
    """The snapshots of a branch, the newest first; shown one a line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(str, self))


def read_history(place: RepositoryPlace, limit: int | None = None) -> History:
    """Return the snapshots that led to the version that a place means, the newest first, at most ``limit``."""
    repository = place.open()
    start = find_snapshot(repository, place)
    with translate_errors(place.name):
        tags = _names_by_snapshot(repository.list_tags(), repository.lookup_tag)
        branches = _names_by_snapshot(repository.list_branches(), repository.lookup_branch)
        found: list[Snapshot] = []
        for info in repository.ancestry(snapshot_id=start):
            if limit is not None and len(found) >= limit:
                break
            names = tuple(tags.get(info.id, ())), tuple(branches.get(info.id, ()))
            metadata = {key: value for key, value in info.metadata.items() if key != _OF_ICECHUNK}
            found.append(Snapshot(info.id, info.written_at, info.message, info.parent_id, metadata, *names))
        return History(found)


def _names_by_snapshot(names: set[str], look_up: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        found.setdefault(look_up(name), []).append(name)
    return found


# -- tags and branches -------------------------------------------------------------------------------------------------


def list_names(place: RepositoryPlace) -> tuple[dict[str, str], dict[str, str]]:
    """Return the tags and the branches of a repository, each with the id of its snapshot."""
    repository = place.open()
    with translate_errors(place.name):
        tags = {name: str(repository.lookup_tag(name)) for name in sorted(repository.list_tags())}
        branches = {name: str(repository.lookup_branch(name)) for name in sorted(repository.list_branches())}
    return tags, branches


def _refuse_taken(repository: Repository, place: RepositoryPlace, name: str) -> None:
    """Raise AlreadyExists for the name of a tag or branch: ``at=`` would not know which of two is meant."""
    for kind, names in (("tag", repository.list_tags()), ("branch", repository.list_branches())):
        if name in names:
            remedy = "choose another name, or remove that one (--delete)"
            raise AlreadyExists(f"there is a {kind} {name!r}", url=place.name, remedy=remedy)


def create_tag(place: RepositoryPlace, name: str) -> str:
    """Give the version that a place means a tag; return the id of its snapshot. AlreadyExists for a name that a tag
    has, or had: icechunk gives none twice."""
    repository = _open_for_names(place, name)
    snapshot = find_snapshot(repository, place)
    with place.exclusive(None), translate_errors(place.name, doing="tag"):
        _refuse_taken(repository, place, name)
        try:
            repository.create_tag(name, snapshot)
        except library().IcechunkError as error:
            message = f"icechunk makes no tag ({reason(error)}) {name!r}"
            raise AlreadyExists(message, url=place.name, remedy="choose a name that no tag ever had") from None
    return snapshot


def create_branch(place: RepositoryPlace, name: str) -> str:
    """Begin a branch with the version that a place means; return the id of its snapshot. AlreadyExists."""
    repository = _open_for_names(place, name)
    snapshot = find_snapshot(repository, place)
    with place.exclusive(None), translate_errors(place.name, doing="branch"):
        _refuse_taken(repository, place, name)
        repository.create_branch(name, snapshot)
    return snapshot


def delete_tag(place: RepositoryPlace, name: str) -> None:
    """Remove a tag, whose name is not given again; its snapshot stays. NotFound."""
    repository = place.open()
    _delete_name(place, "tag", name, repository.list_tags, repository.delete_tag)


def delete_branch(place: RepositoryPlace, name: str) -> None:
    """Remove a branch; snapshots that no other branch and no tag leads to are gone with the next expiry. NotFound,
    Invalid for ``main``."""
    if name == MAIN:
        raise Invalid(f"the branch {MAIN} stays", url=place.name, remedy="remove another one")
    repository = place.open()
    _delete_name(place, "branch", name, repository.list_branches, repository.delete_branch)


def _delete_name(
    place: RepositoryPlace, kind: str, name: str, names: Callable[[], set[str]], delete: Callable[[str], None]
) -> None:
    with place.exclusive(None), translate_errors(place.name, doing="remove"):
        if name not in names():
            raise NotFound(f"there is no {kind} {name!r}", url=place.name, remedy=f"hyperslab {kind} lists them")
        delete(name)


def _open_for_names(place: RepositoryPlace, name: str) -> Repository:
    """Return the repository in which something gets a name; Invalid for what cannot be one."""
    if not name or "/" in name or name != name.strip() or not name.isprintable():
        remedy = "give a word without slashes, such as v1"
        raise Invalid(f"{name!r} is no name of a tag or branch", url=place.name, remedy=remedy)
    try:
        datetime.fromisoformat(name)
    except ValueError:
        return place.open()
    remedy = "choose a name that is no time: at= would take it for one"
    raise Invalid(f"{name!r} is a time, and no name of a tag or branch", url=place.name, remedy=remedy)


def restore(place: RepositoryPlace, branch: str = MAIN) -> str:
    """Make the version that a place means the newest one of a branch; return the id of its snapshot.

    The branch is moved: snapshots that came after are in its history no more. A tag keeps them, if they are wanted yet.
    """
    repository = place.open()
    snapshot = find_snapshot(repository, place)
    with place.exclusive(None), translate_errors(place.name, doing="restore"):
        if branch not in repository.list_branches():
            raise NotFound(f"there is no branch {branch!r}", url=place.name, remedy="hyperslab branch lists them")
        now = repository.lookup_branch(branch)
        repository.reset_branch(branch, snapshot, from_snapshot_id=now)
    return snapshot
