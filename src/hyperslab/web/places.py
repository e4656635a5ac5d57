"""The places that are served: each under a name, folders and databases of many datasets looked into as far as asked.

No path leads out of a place: a name in a folder is one segment, symbolic links are resolved before anything is opened,
and what is no dataset is never read for anybody.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from urllib.parse import quote, unquote_to_bytes

from hyperslab.array.session import open_session
from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError, Invalid, NotFound
from hyperslab.formats import SCHEMES, detect
from hyperslab.formats.opening import is_occupied, probe_place
from hyperslab.formats.signatures import ends_as_dataset, holds_only_datasets
from hyperslab.formats.zarr.opening import ZarrFormat
from hyperslab.stores.location import REMOTE, Location, Probe
from hyperslab.web.zarr_view import EncodedChunks, ZarrView

# Datasets of folders that are kept open, those that were used last: each holds files or connections.
_MOST_OPEN = 64
# Of places whose prefixes are looked into; web servers list nothing.
_BUCKETS = frozenset(REMOTE) - {"http", "https"}
# Names of a folder that are shown.
MOST_NAMES = 1000
# Seconds for which files of a folder are looked into, 0.6 ms each; of those behind them all are listed.
_LIST_SECONDS = 2.0
# Objects of a database that are described by one query.
_OBJECTS_AT_ONCE = 1000
# Seconds after which it is looked again where a name in a folder leads.
_LOOK_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class FoundDataset:
    """A dataset, and the ``key`` that is asked of it."""

    view: ZarrView
    key: str


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """The names right in a folder, or of the objects in a database; ``is_whole``: these are all."""

    names: Sequence[str]
    is_whole: bool
    is_database: bool = False


class ServedPlace:
    """One place under its ``name``: a dataset, or a folder or database of datasets."""

    def __init__(self, name: str, where: Location, chunks: EncodedChunks) -> None:
        self.name = name
        self.where = where
        self._chunks = chunks
        self._mutex = threading.Lock()
        self._is_dataset: bool | None = None
        self._views: OrderedDict[tuple[str, ...], tuple[ZarrView, str, float]] = OrderedDict()

    def find(self, parts: Sequence[str]) -> FoundDataset | FoundFolder:
        """Return what lies at ``parts`` below the place. NotFound."""
        if (found := self.find_open(parts)) is not None:
            return found
        if self._is_one_dataset():
            return FoundDataset(self._add((), self.where, ""), "/".join(parts))
        if self.where.scheme in _BUCKETS:
            return self._find_in_bucket(parts)
        if self.where.path is None:
            return self._find_object(parts)
        return self._find_in_folder(parts)

    def find_open(self, parts: Sequence[str]) -> FoundDataset | None:
        """Return the dataset at ``parts`` if it was found before."""
        for count in range(len(parts) + 1):
            if (view := self._known(tuple(parts[:count]))) is not None:
                return FoundDataset(view, "/".join(parts[count:]))
        return None

    def describe_objects(
        self, start: int, count: int, conditions: Sequence[str], order: str | None
    ) -> Sequence[Mapping[str, object]]:
        """Return what is known of the objects of a database, as :meth:`.Reader.describe_datasets` does. Invalid for
        another place."""
        if self.where.scheme not in SCHEMES:
            raise Invalid("a folder without rows", url=self.where.url, remedy="browse it")
        with closing(open_session(self.where, "r", None, Settings(cache_bytes=0), {})) as session:
            return session.reader.describe_datasets(start, count, conditions, order)

    def all_objects(self, conditions: Sequence[str], order: str | None) -> Iterator[Mapping[str, object]]:
        """Yield what :meth:`describe_objects` tells of all objects; few are in memory at a time."""
        start = 0
        while some := self.describe_objects(start, _OBJECTS_AT_ONCE, conditions, order):
            yield from some
            start += len(some)

    def close(self) -> None:
        """Let go of all datasets."""
        with self._mutex:
            views, self._views = self._views, OrderedDict()
        for view, _, _ in views.values():
            view.close()

    def _known(self, parts: tuple[str, ...]) -> ZarrView | None:
        """Return a dataset that was found before, unless its name leads elsewhere by now."""
        with self._mutex:
            found = self._views.get(parts)
            if found is None:
                return None
            view, real, looked = found
            now = time.monotonic()
            if real and now - looked > _LOOK_EVERY:
                if os.path.realpath(os.path.join(self.where.target, *parts)) != real:
                    del self._views[parts]
                    return None
                self._views[parts] = view, real, now
            self._views.move_to_end(parts)
            return view

    def _add(self, parts: tuple[str, ...], where: Location, real: str) -> ZarrView:
        gone = []
        with self._mutex:
            if parts not in self._views:
                self._views[parts] = ZarrView(where, self._chunks), real, time.monotonic()
            view = self._views[parts][0]
            while len(self._views) > _MOST_OPEN:
                gone.append(self._views.popitem(last=False)[1][0])
        for each in gone:
            each.close()
        return view

    def _is_one_dataset(self) -> bool:
        """Return True unless the place is a folder or a database of datasets."""
        if self._is_dataset is None or self.where.scheme == "file":  # a folder may become a dataset, and be none again
            self._is_dataset = not (_is_folder(self.where) or _has_objects(self.where))
        return self._is_dataset

    def holds(self, where: Location) -> bool:
        """Return True for a dataset that lies in this place, and is shown there."""
        if self.where.path is None or where.path is None:
            mine = self.where.url.rstrip("/")
            return where.url == mine or where.url.startswith((f"{mine}/", f"{mine}#"))
        root, path = os.path.realpath(self.where.path), os.path.realpath(where.path)
        below = path[len(root) :].strip(os.sep)
        return _is_within(path, root) and (not below or all(map(_is_served_name, below.split(os.sep))))

    # -- folders -------------------------------------------------------------------------------------------------------

    def _find_in_folder(self, parts: Sequence[str]) -> FoundDataset | FoundFolder:
        root = os.path.realpath(self.where.target)
        path = root
        for count, name in enumerate(parts, 1):
            path = os.path.realpath(os.path.join(path, name))
            if not _is_served_name(name) or not _is_within(path, root) or not os.path.exists(path):
                raise NotFound(
                    "there is nothing of this name", node="/".join(parts[:count]), remedy="browse the folder"
                )
            where = Location.of(path)
            if not _is_folder(where):
                if not _is_dataset(where):
                    raise NotFound("this is no dataset", node="/".join(parts[:count]), remedy="browse the folder")
                return FoundDataset(self._add(tuple(parts[:count]), where, path), "/".join(parts[count:]))
        return _list_folder(path, root)

    def _find_in_bucket(self, parts: Sequence[str]) -> FoundDataset | FoundFolder:
        where = self.where
        for count, name in enumerate(parts, 1):
            below = where.at(name) if _is_served_name(name) else None
            if below is not None and _is_dataset(below):
                return FoundDataset(self._add(tuple(parts[:count]), below, ""), "/".join(parts[count:]))
            if below is None or not is_occupied(below):
                node = "/".join(parts[:count])
                raise NotFound("there is nothing of this name", node=node, remedy="browse the folder")
            where = below
        return _list_prefix(where)

    # -- databases of objects ------------------------------------------------------------------------------------------

    def _find_object(self, parts: Sequence[str]) -> FoundDataset | FoundFolder:
        if not parts:
            names = _names_of(self.where) or []
            return FoundFolder(names[:MOST_NAMES], len(names) <= MOST_NAMES, is_database=True)
        where = Location.of(f"{self.where.target}#{quote(parts[0], safe='')}", self.where.options)
        return FoundDataset(self._add((parts[0],), where, ""), "/".join(parts[1:]))


def find_place(places: Mapping[str, ServedPlace], parts: Sequence[str]) -> FoundDataset | FoundFolder:
    """Return what lies at a path, whose first part names the place. NotFound."""
    place = places.get(parts[0]) if parts else None
    if place is None:
        raise NotFound("no place is served under this name", node="/".join(parts[:1]), remedy="browse the places")
    return place.find(parts[1:])


def find_open(places: Mapping[str, ServedPlace], parts: Sequence[str]) -> FoundDataset | None:
    """Return the dataset at a path if it was found before: nothing is read for it but where its name leads now."""
    place = places.get(parts[0]) if parts else None
    return None if place is None else place.find_open(parts[1:])


def _is_served_name(name: str) -> bool:
    """Return True for names that are shown: what begins with a dot is somebody's own, and others no path can have."""
    return not name.startswith(".") and is_name(name)


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)


def _is_folder(where: Location) -> bool:
    """Return True for a folder, or a prefix of a bucket, that is no dataset itself: datasets may lie in it."""
    if where.scheme in _BUCKETS:
        # by names first: whether nodes lie deeper took 4 s for 20 sessions; where nothing is, a dataset is to come
        return holds_only_datasets(Probe(where)) or (not _is_dataset(where) and is_occupied(where))
    return where.path is not None and os.path.isdir(where.path) and not _is_dataset(where)


def _is_dataset(where: Location) -> bool:
    """Return True where a format recognises the place; in a folder by documents that lie right in it."""
    try:
        probe = probe_place(where)
        format = detect(probe)
    except HyperslabError:  # a damaged one is told when it is opened, and what is no dataset is not
        return False
    if isinstance(format, ZarrFormat) and not probe.is_file and where.scheme == "file":
        # what lies deeper makes a group of any folder above it
        names = {name for dialect in format.dialects for name in dialect.nodes}
        names.add(format.metadata_dialect.consolidated_name)
        return probe.has_any(sorted(names))
    return format is not None


def _list_folder(path: str, root: str) -> FoundFolder:
    """Return the names of the folders and datasets in a folder; links that lead out of the root are left out, and files
    that are no dataset."""
    names: list[str] = []
    is_whole = True
    with suppress(OSError), os.scandir(path) as entries:
        some = (entry for entry in islice(entries, 10 * MOST_NAMES) if _is_served_name(entry.name))
        inside = (e for e in some if not e.is_symlink() or _is_within(os.path.realpath(e.path), root))
        deadline = time.monotonic() + _LIST_SECONDS
        names += [
            e.name for e in inside if e.is_dir() or time.monotonic() > deadline or _is_dataset(Location.of(e.path))
        ]
        is_whole = len(names) <= MOST_NAMES and next(entries, None) is None
    return FoundFolder(sorted(names)[:MOST_NAMES], is_whole)


def _list_prefix(where: Location) -> FoundFolder:
    """Return the names right below a prefix of a bucket: all folders, and the objects that end as datasets do."""
    keys, folders = where.store(read_only=True).list_dir("")
    names = sorted(filter(_is_served_name, {*folders, *filter(ends_as_dataset, keys)}))
    return FoundFolder(names[:MOST_NAMES], len(names) <= MOST_NAMES)


def _has_objects(where: Location) -> bool:
    """Return True for a database, or a part of one, that holds datasets and is none."""
    return where.scheme in SCHEMES and _names_of(where) is not None


def _names_of(where: Location) -> list[str] | None:
    """Return the names of the datasets in a database, one more than are shown; None for a place that is one dataset."""
    with closing(open_session(where, "r", None, Settings(cache_bytes=0), {})) as session:
        names = session.reader.some_names(MOST_NAMES + 1)
        return None if names is None else list(names)


# -- names -------------------------------------------------------------------------------------------------------------


def name_places(locations: Sequence[Location], chunks: EncodedChunks) -> dict[str, ServedPlace]:
    """Return the places by name: the last part of each URL, with a number where two have the same. NotFound where
    nothing is, Invalid without any, and for a file that is no dataset."""
    if not locations:
        raise Invalid("there is nothing to serve", remedy="give a path or URL")
    places: dict[str, ServedPlace] = {}
    for where in locations:
        if where.scheme == "file" and probe_place(where).is_file and not _is_dataset(where):  # NotFound
            raise Invalid("this file is no dataset", url=where.url, remedy="give a dataset, or a folder of datasets")
        stem = as_name(where.name.strip(". ")) or "dataset"
        name, number = stem, 1
        while name in places:
            number += 1
            name = f"{stem}-{number}"
        places[name] = ServedPlace(name, where, chunks)
    return places


# -- paths of addresses ------------------------------------------------------------------------------------------------
# Taken apart without a way out of the places that are served.


_NO_LETTER = re.compile(r"[\x00-\x1f/\\\x7f\ud800-\udfff]")
"""A character that no name in a path has: a slash, a control character, a byte of a file's name that is no UTF-8."""


def is_name(part: str) -> bool:
    """Return True for what can be a part of a path: a text that is neither empty nor a way up, without a slash, a
    backslash or a control character."""
    return part not in ("", ".", "..") and _NO_LETTER.search(part) is None


def as_name(text: str) -> str:
    """Return a text with each letter replaced that no name has."""
    return _NO_LETTER.sub("_", text)


def split_path(raw: bytes, skip: int) -> list[str]:
    """Return the segments of a path behind ``skip`` parts (``/zarr/`` has two), each decoded once.

    Invalid for one that is no name, however it is spelled.
    """
    segments = raw.partition(b"?")[0].split(b"/")[skip:]
    if segments and not segments[-1]:
        del segments[-1]  # a slash at the end
    parts = []
    for segment in segments:
        try:
            part = unquote_to_bytes(segment).decode()
        except UnicodeDecodeError:
            raise Invalid("the path is no UTF-8", remedy="escape it as UTF-8") from None
        if not is_name(part):
            raise Invalid("a part of the path is no name", remedy="names have no slash, and are neither . nor ..")
        parts.append(part)
    return parts
