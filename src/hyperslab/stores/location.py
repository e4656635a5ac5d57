"""Where a dataset is: what a user names becomes a place, and a place opens as a store or shows its first bytes.

:data:`PLACES` is the one table from the scheme of a URL to what knows the kind of place. :class:`Location` touches the
medium only when asked; :class:`Probe` reads each document once for all the formats that want to know whether the place
holds one of theirs.
"""

from __future__ import annotations

import glob
import os
import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote

from hyperslab.errors import FormatError, Invalid, NotFound, ReadOnly, Unsupported
from hyperslab.stores.base import Store
from hyperslab.stores.credentials import HIDDEN, function_option, plain_options, redact, resolve
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.files import absolute, read_error
from hyperslab.stores.memory import MemoryStore
from hyperslab.stores.moments import add_moment, split_moment
from hyperslab.stores.reference_table import SUFFIXES, holds_references
from hyperslab.stores.repositories import RepositoryPlace, absolute_url
from hyperslab.stores.system import IS_WINDOWS


class Scheme(ABC):
    """One kind of place. ``target`` is what is left of the URL without the scheme, or a store that the user gave."""

    def exists(self, target: Any) -> bool:
        """Return True if anything is there; True where to know would cost a request: whoever reads finds out."""
        return True

    @abstractmethod
    def open(self, target: Any, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        """Return the store; ``NotFound`` where nothing is and nothing is to be made."""

    keeps_versions = False
    """True for a place that keeps versions of a dataset itself, whatever its format."""


class _Folder(Scheme):
    def exists(self, target: str) -> bool:
        try:
            os.stat(target)
        except (OSError, ValueError):
            return False
        return True

    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        if options:
            _take(options, {}, target)
        store = DirectoryStore(target, read_only=read_only)
        if not create and not read_only and not os.path.isdir(target):  # for reading the store has looked itself
            raise NotFound("there is no such folder", url=store.url)
        return store


class _Archive(_Folder):
    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        from hyperslab.stores.zip import ZipStore

        _take(options, {"limit": int}, target)
        if not create and not os.path.exists(target):
            raise NotFound("there is no such file", url=f"zip://{os.path.abspath(target)}")
        return ZipStore(target, read_only=read_only, **options)


class _Memory(Scheme):
    def exists(self, target: str) -> bool:
        return MemoryStore.exists(target)

    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        _take(options, {}, f"memory://{target}")
        if not create and not MemoryStore.exists(target):
            raise NotFound("nothing is stored under this name in this process", url=f"memory://{target}")
        return MemoryStore(target, read_only=read_only)


class _ReferenceScheme(_Folder):
    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        from hyperslab.stores.references import ReferenceStore

        if not read_only:
            raise ReadOnly("references are only read", url=f"reference://{target}", remedy="convert them to zarr3")
        known = {"allow_external": bool | str | os.PathLike | Sequence, "remote_options": Mapping | None, "limit": int}
        _take(options, known, target)
        return ReferenceStore(target, **options)


class _Given(Scheme):
    def exists(self, target: Store) -> bool:
        return next(iter(target.list()), None) is not None

    def open(self, target: Store, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        _take(options, {}, target.url)
        if target.read_only and not read_only:
            raise ReadOnly("the store was opened for reading", url=target.url, remedy="open it for writing")
        return target


class _Objects(Scheme):
    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        from hyperslab.stores.buckets import open_objects

        return open_objects(target, options, read_only=read_only)


class _Repository(Scheme):
    """A repository of icechunk; ``target`` is its place, with a version and options."""

    keeps_versions = True

    def exists(self, target: RepositoryPlace) -> bool:
        return target.exists()

    def open(self, target: RepositoryPlace, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        from hyperslab.stores.icechunk import RepositoryStore

        return RepositoryStore(target, read_only=read_only, create=create)


class _Several(Scheme):
    """The places of a list; what lies on them together only a format knows."""

    def exists(self, target: Any) -> bool:
        return all(place.exists() for place in target.places)

    def open(self, target: Any, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        from hyperslab.stores.several import SeveralStore

        return SeveralStore([place.url for place in target.places], read_only=read_only)


class _Database(Scheme):
    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        raise Unsupported("a database is no store of keys", remedy="leave format= out, or give format='mongo'")


def _take(options: Mapping[str, Any], known: Mapping[str, Any], url: str) -> None:
    """Raise Invalid for options that are not ``known`` by these names and types."""
    for name, kind in known.items():
        if name in options and not isinstance(options[name], kind):
            message = f"the storage option {name} is a {type(options[name]).__name__}"
            raise Invalid(message, url=url, remedy=_REMEDIES[name])
    if not options.keys() <= known.keys():
        names = ", ".join(sorted(options.keys() - known.keys()))
        raise Invalid(f"storage options that mean nothing here: {names}", url=url, remedy="leave them out")


_REMEDIES = {
    "limit": "give a whole number of bytes (--storage-option limit:=BYTES)",
    "allow_external": "give True, a folder or URL prefix, or a list of them",
    "remote_options": "give a mapping of the storage options of the servers (--storage-option remote_options:=JSON)",
}

REMOTE = ("s3", "gs", "az", "http", "https")
"""The schemes of buckets and web servers."""

REPOSITORIES = ("icechunk+file", "icechunk+s3", "icechunk+gs", "icechunk+az")  # of icechunk, which keep versions
PLACES: dict[str, Scheme] = {
    "file": _Folder(),
    "zip": _Archive(),
    "memory": _Memory(),
    "reference": _ReferenceScheme(),
    "store": _Given(),
    "several": _Several(),
    **dict.fromkeys(REMOTE, _Objects()),
    **dict.fromkeys(REPOSITORIES, _Repository()),
    **dict.fromkeys(("mongodb", "mongodb+srv"), _Database()),
}
"""Every scheme that a URL may have. A new kind of place is one more line."""


if TYPE_CHECKING:
    from hyperslab.stores.object import RemoteFile

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_QUERY, _DRIVE = re.compile(r"[?#]"), re.compile(r"/[A-Za-z]:(?:[/\\]|\Z)")
_NO_SCHEMES = ("store", "several")
# The documents that are read to find out what a place holds: those of most sizes at once, a larger one, which can only
# be one with copies of many others, once its size is known.
_FEW_BYTES, _MOST_BYTES = 64 << 20, 512 << 20


@dataclass(frozen=True, slots=True)
class Several:
    """Places that a list names: one dataset lies on all of them. ``along``, ``packing``: how those that are datasets of
    their own are joined (:mod:`hyperslab.formats.join`)."""

    places: tuple[Location, ...]
    along: tuple[str, ...] | None = None
    packing: str = "same"

    def __post_init__(self) -> None:
        if any(isinstance(place.target, Several) for place in self.places):
            raise Invalid("a list of places within a list", remedy="give one list")


@dataclass(frozen=True, slots=True)
class Location:
    """A place: ``url`` without secrets, ``scheme``, ``path`` in the local file system (else None), storage ``options``.

    ``target`` is what the scheme's kind of place opens: the rest of the URL with its secrets, or a store. Secrets are
    in no repr and are dropped when pickled; a location of a store object is not pickled. ``unpublished``: nobody reads
    there before the dataset is complete and has another name. ``moment``: what is there is read as it was then, in UTC,
    or, in a repository, as the tag, branch or snapshot of this name; it is said by ``at=`` behind the ``?`` of a URL or
    path, or by :meth:`as_of`. Which formats can, and that nothing is written there,
    :func:`hyperslab.formats.opening.check_moment` sees to.
    """

    url: str
    scheme: str
    path: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    target: Any = field(default=None, repr=False, hash=False)
    unpublished: bool = False
    moment: datetime | str | None = None

    @classmethod
    def of(cls, target: Any, storage_options: Mapping[str, Any] | None = None) -> Self:
        """Return the place that a path, a URL or a store object names, or the places of a list of those.

        URLs: ``file://``, ``zip://path``, ``memory://name``, and those of other kinds in :data:`PLACES`; a
        path that ends in ``.zip`` and is no folder is an archive. ``?at=2026-11-01T00:00`` at the end of a path or URL,
        or among what a database's URL has behind ``?``, is a moment. ``Unsupported`` for any other scheme, Invalid.
        """
        if storage_options is not None and not isinstance(storage_options, Mapping):
            message = f"storage_options are a {type(storage_options).__name__}"
            raise Invalid(message, remedy="give a mapping of names to values")
        options = dict(storage_options or {})
        if isinstance(target, cls):
            return target
        if isinstance(target, list | tuple):
            return cls._of_several(target, options)
        if isinstance(target, str | os.PathLike):
            text, moment = target if isinstance(target, str) else os.fsdecode(target), None
            if "at=" in text:  # as good as never: the call would be one of those of each dataset that is opened
                text, moment = split_moment(text)
            match = _URL.fullmatch(text) if isinstance(target, str) else None
            scheme, rest = (match[1].lower(), match[2]) if match else ("file", text)
            found = cls._of_url(text, scheme, rest, options, escaped=match is not None)
            return found if moment is None else replace(found, url=found._url_at(moment), moment=moment)
        from hyperslab.stores.foreign import adopt_store

        store = target if isinstance(target, Store) else adopt_store(target)
        if store is not None:
            return cls(redact(store.url), "store", None, options, store)
        remedy = "give a path, a URL, a store of hyperslab, obstore or zarr, or a mapping of keys to bytes"
        raise Invalid(f"a {type(target).__name__} is no place", remedy=remedy)

    @classmethod
    def matching(cls, target: Any, storage_options: Mapping[str, Any] | None = None) -> Self:
        """Return the place as :meth:`of` does, or those in the file system that match a path with ``*``, ``?`` or
        ``[…]``, sorted, where nothing has that very name."""
        if isinstance(target, str | os.PathLike):
            text, _ = split_moment(os.fsdecode(target))
            if glob.has_magic(text) and "://" not in text and not os.path.lexists(text):
                found = sorted(glob.glob(text, recursive=True))
                if not found:
                    remedy = "check the spelling, and the quotes in a shell; a moment is ?at=2026-11-01T00:00"
                    raise NotFound("no file or folder matches this pattern", url=text, remedy=remedy)
                return cls.of(found, storage_options)
        return cls.of(target, storage_options)

    def with_join(self, along: str | Sequence[str] | None, packing: str = "same") -> Location:
        """Return the places of a list, or this one, as datasets that are joined along dimensions."""
        places = self.target.places if isinstance(self.target, Several) else (self,)
        dims = (along,) if isinstance(along, str) else None if along is None else tuple(along)
        where = self if isinstance(self.target, Several) else Location.of([self])
        return replace(where, target=Several(places, dims, packing))

    @classmethod
    def _of_several(cls, targets: Sequence[Any], options: dict[str, Any]) -> Self:
        """Return places that are read as one; ``options`` are for those on servers."""
        places = [cls.of(target) for target in targets]
        if not places:
            raise Invalid("an empty list is no place", remedy="give a path or URL")
        if options:
            places = [cls.of(t, options) if p.scheme in REMOTE else p for t, p in zip(targets, places, strict=True)]
        merged = {name: value for place in places for name, value in place.options.items()}
        return cls(" + ".join(place.url for place in places), "several", None, merged, Several(tuple(places)))

    @classmethod
    def _of_url(cls, text: str, scheme: str, rest: str, options: dict[str, Any], *, escaped: bool) -> Self:
        if scheme not in PLACES or scheme in _NO_SCHEMES:
            known = ", ".join(f"{name}://" for name in PLACES if name not in _NO_SCHEMES)
            raise Unsupported(
                f"places of the kind {scheme}://", url=redact(text), remedy=f"use a path, or one of {known}"
            )
        if scheme == REPOSITORIES[0]:
            text = absolute_url(text)
        if scheme not in ("file", "zip", "reference"):
            return cls(redact(text), scheme, None, options, rest if scheme == "memory" else text)
        path = _path_of_url(rest, text) if scheme == "file" and escaped else rest
        if not path or "\0" in path:
            raise Invalid(f"{text!r} names no file or folder", remedy="give a path")
        path = absolute(path)
        if path.lower().endswith(".zip") and not os.path.isdir(path):
            scheme = "zip"
        elif path.lower().endswith(SUFFIXES) and holds_references(path):
            scheme = "reference"
        return cls(path if scheme == "file" else f"{scheme}://{path}", scheme, path, options, path)

    def as_of(self, moment: datetime | str) -> Location:
        """Return the place as it was at a moment in UTC, or, in a repository, the version of a name. Invalid where the
        URL says one."""
        if self.moment is not None:
            raise Invalid("the URL says a moment already", url=self.url, remedy="leave at= out of one of them")
        return replace(self, url=self._url_at(moment), moment=moment)

    def _url_at(self, moment: datetime | str) -> str:
        """Return the URL with a moment: of a database, since the URL of others is a path that is read by."""
        if isinstance(moment, datetime) and isinstance(PLACES[self.scheme], _Database):
            return add_moment(self.url, moment)
        return self.url

    @property
    def identity(self) -> tuple[str, object, str]:
        """The identity of the place in this process: also the options, since the same URL leads elsewhere at
        another endpoint. Of a store it holds while that one is there."""
        target = self.target if isinstance(self.target, str) else id(self.target)
        return self.scheme, target, repr((sorted(self.options.items()), self.moment))

    @property
    def name(self) -> str:
        """The last part of the URL, without a final ``.zip``."""
        name = _QUERY.split(self.url, maxsplit=1)[0] if self.path is None else self.path
        name = name.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
        return name[:-4] if name.lower().endswith(".zip") else name

    @property
    def suffix(self) -> str:
        """The last suffix of :attr:`name` in lower case (``.zarr``), ``""`` when there is none."""
        stem, dot, end = self.name.rpartition(".")
        return f"{dot}{end}".lower() if stem.strip(".") else ""

    def at(self, relative: str) -> Location | None:
        """Return the place that a POSIX path leads to from here (``../b.zarr``), of the same kind and with the same
        options.

        None where none can: outside of the server or bucket, and from what has no places beside it (an archive, a store
        object, a database, a list of places).
        """
        if self.scheme == "file":
            path = os.path.normpath(os.path.join(self.target, *relative.split("/")))
            return replace(Location.of(path), moment=self.moment)
        if self.scheme not in ("memory", *REMOTE):
            return None
        start, path = "", self.target
        if self.scheme in REMOTE:
            if "?" in path or "#" in path:
                return None
            host, _, path = path.partition("://")[2].partition("/")
            start, relative = f"{self.scheme}://{host}/", quote(relative, safe="/")
        path = posixpath.normpath(posixpath.join(path.rstrip("/") or ".", relative.rstrip("/")))
        if path in (".", "..") or path.startswith(("../", "/")):
            return None
        whole = start + path
        return replace(self, url=redact(whole) if start else f"memory://{whole}", target=whole)

    def above(self) -> Location | None:
        """Return the folder that this place lies in, with the same options; None where there is none, and for what lies
        in no folder: an archive, a store, a database, a list of places."""
        target = str(self.target)
        if self.scheme == "file":
            folder = target.rpartition(os.sep)[0] or os.path.dirname(target)
            if folder == target:
                return None
            return Location(folder, self.scheme, folder, self.options, folder, self.unpublished, self.moment)
        folder = target.rstrip("/").rpartition("/")[0]
        if self.scheme not in REMOTE or folder.endswith("/") or "?" in target or "#" in target:
            return None
        return replace(self, url=redact(folder), target=folder)

    def way_to(self, place: Location) -> str:
        """Return a POSIX path that :meth:`at` gives ``place`` for; its whole path or URL where none can.

        Unsupported for a store object, which has no name that others could open it by.
        """
        if place.scheme in ("store", "several"):
            raise Unsupported(f"a link to a {place.scheme}", url=place.url, remedy="open it by its path or URL")
        if place.path is not None and self.path is not None:
            if place.path.startswith(f"{self.path}{os.sep}"):  # as often as an array is opened by its own place
                return place.path[len(self.path) + 1 :].replace(os.sep, "/")
            try:
                return os.path.relpath(place.path, self.path).replace(os.sep, "/")
            except ValueError:  # on another drive
                return place.path
        here, there = str(self.target), str(place.target)
        if place.scheme != self.scheme or (self.scheme in REMOTE and _server(here) != _server(there)):
            return place.url if place.path is None else place.path
        return unquote(posixpath.relpath(f"/{_below_server(there)}", f"/{_below_server(here)}"))

    @property
    def keeps_versions(self) -> bool:
        """Return True for a place that keeps versions of a dataset itself, whatever its format: a repository."""
        return PLACES[self.scheme].keeps_versions

    @property
    def makes_commits(self) -> bool:
        """Return True where what is written becomes a commit: in a repository, or the store of one."""
        return self.keeps_versions or (self.scheme == "store" and self.target.traits.transacts)

    @property
    def repository(self) -> RepositoryPlace:
        """Return the place of the repository, at the version that is meant. Unsupported for a place that is none."""
        if not self.keeps_versions:
            remedy = f"convert it into a repository: hyperslab convert {self.url} icechunk+file:///FOLDER"
            raise Unsupported("this place keeps no versions", url=self.url, remedy=remedy)
        return RepositoryPlace(self.target, resolve(self.options), self.moment)

    def exists(self) -> bool:
        """Return True if anything is there."""
        kind = PLACES[self.scheme]
        return kind.exists(self.repository if kind.keeps_versions else self.target)

    def is_file(self) -> bool:
        """Return True if it is one plain file, read by its bytes and not by keys (an archive is none)."""
        return self.scheme == "file" and os.path.isfile(self.target)

    def is_dir(self) -> bool:
        """Return True if it is there and holds values under keys: a folder, an archive, a store."""
        return os.path.isdir(self.target) if self.scheme == "file" else self.exists()

    def store(self, *, read_only: bool, create: bool = False) -> Store:
        """Return its store. ``NotFound`` when nothing is there, unless ``create`` (which makes it when first written
        to)."""
        if self.unpublished and self.scheme == "file" and create and not read_only:
            return DirectoryStore(self.target, unpublished=True)
        kind = PLACES[self.scheme]
        try:
            return kind.open(
                self.repository if kind.keeps_versions else self.target,
                resolve(self.options) if self.options else {},
                read_only=read_only,
                create=create and not read_only,
            )
        except (Unsupported, NotFound) as error:
            raise error.locate(url=self.url) from None

    def remote_file(self) -> RemoteFile | None:
        """Return the one object of a bucket or web server that the URL names, by one request; None when there is
        none."""
        target = str(self.target)
        whole = target.partition("?")[0]
        if self.scheme not in REMOTE or whole.endswith("/") or whole.rpartition("/")[0].endswith("/"):
            return None
        if "#" in target or (whole != target and self.scheme not in ("http", "https")):
            remedy = "give credentials by storage_options or the environment"
            raise Unsupported("a query or fragment in the URL of one file", url=self.url, remedy=remedy)
        from hyperslab.stores.object import RemoteFile, split_file_url

        above, name = split_file_url(target)
        store = PLACES[self.scheme].open(above, resolve(self.options), read_only=True, create=False)
        return RemoteFile.open(store, name)

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.target, Several):
            return _restore_several, (list(self.target.places), self.target.along, self.target.packing)
        if self.scheme == "store":
            raise Unsupported(
                "a store object cannot be pickled", url=self.url, remedy="name its place by a path or URL"
            )
        options = plain_options(self.options) | function_option(self.options)
        return _restore, (self.url.replace(f"{HIDDEN}@", ""), options, self.moment)


def _restore(url: str, options: Mapping[str, Any], moment: datetime | str | None) -> Location:
    """Return a location that was pickled."""
    return replace(Location.of(url, options), moment=moment)


def _restore_several(places: list[Location], along: tuple[str, ...] | None, packing: str) -> Location:
    """Return a list of places that was pickled."""
    return Location.of(places).with_join(along, packing)


def _server(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


def _below_server(url: str) -> str:
    return url.partition("://")[2].partition("/")[2] if "://" in url else url


def local_path(target: object) -> str | None:
    """Return the path of a target in the file system (a path or ``file://`` URL) as it is written; None for any
    other."""
    if isinstance(target, os.PathLike):
        path: str = os.fspath(target)
        return path
    if not isinstance(target, str):
        return None
    match = _URL.fullmatch(target)
    if match is None:
        return target
    return _path_of_url(match[2], target) if match[1].lower() == "file" else None


def unpublished(path: str) -> Location:
    """Return a path that nobody knows before the dataset there is complete and gets its name."""
    return replace(Location.of(path), unpublished=True)


def _path_of_url(rest: str, text: str) -> str:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost"):
        raise Invalid(f"{text!r} names another machine", remedy="use file:///path, with three slashes")
    return unquote(slash * (not (IS_WINDOWS and _DRIVE.match(slash + path))) + path)


class Probe:
    """A look at a place: each key is read at most once, misses too. ``store`` is opened when first needed."""

    def __init__(self, where: Location, *, is_file: bool | None = None) -> None:
        self.where = where
        self._store: Store | None = None
        self.seen: dict[str, bytes | None] = {}
        """The values that were read so far by key, None for missing ones: a reader need not read them again."""
        self._listed: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
        self._head = b""
        self.is_file = where.is_file() if is_file is None else is_file
        """True of one plain file, which has no keys."""
        self._asked_remote, self.folders_searched = False, 0  # for nodes, of a folder that has no document

    @property
    def url(self) -> str:
        """The place, without secrets."""
        return self.where.url

    @property
    def store(self) -> Store:
        """The place opened for reading; it may go on being used after the probe."""
        if self._store is None:
            self._store = self.where.store(read_only=True)
        return self._store

    def get(self, key: str) -> bytes | None:
        """Return the value, None when missing or when the place is one plain file; ``FormatError`` above 512 MiB."""
        if self.is_file:
            return None
        if key not in self.seen:
            self.seen[key] = self._read(key)
        return self.seen[key]

    def has_any(self, keys: Iterable[str]) -> bool:
        """Return True if a value is stored under one of the keys; those behind it are not asked for."""
        if self.is_file:
            return False
        seen = self.seen
        for key in keys:
            if key not in seen:
                seen[key] = self._read(key)
            if seen[key] is not None:
                return True
        return False

    def _read(self, key: str) -> bytes | None:
        store = self._store or self.store
        found = store.get_ranges(key, [(0, _FEW_BYTES + 1)])
        if found is None or len(found[0]) <= _FEW_BYTES:
            return None if found is None else found[0]
        size = store.size(key)
        if size is None or size > _MOST_BYTES:
            remedy = "open a node below by its own place (its URL with /name), or remove consolidated metadata"
            raise FormatError("a document of more than 512 MiB", url=self.url, key=key, remedy=remedy)
        return store.get(key)

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """Return the names right below ``prefix``, keys and folders, asked for once; none when the place is one plain
        file."""
        if self.is_file:
            return (), ()
        if prefix not in self._listed:
            self._listed[prefix] = self.store.list_dir(prefix)
        return self._listed[prefix]

    def head(self, n: int = 64) -> bytes:
        """Return the first ``n`` bytes when the place is one file (or one object of a server), else ``b""``."""
        if self.is_file and len(self._head) < n:
            try:
                with open(self.where.target, "rb") as file:
                    self._head = file.read(n)
            except OSError as error:
                raise read_error(error, self.url, "") from error
        if self.where.scheme in REMOTE and not self._asked_remote:
            self._asked_remote = True
            remote = self.where.remote_file()
            self._head = b"" if remote is None else remote.head
        return self._head[:n]
