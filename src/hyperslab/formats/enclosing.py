"""The dataset around a dataset: ``x.zarr`` for ``x.zarr/g``, a group that is opened, made or replaced by its own place.

Consolidated metadata of the groups above speaks of the nodes below, so it follows what is done to them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import FormatError, HyperslabError, Unsupported
from hyperslab.formats import detect
from hyperslab.formats.base import Writer
from hyperslab.formats.opening import detect_format
from hyperslab.formats.signatures import file_above
from hyperslab.stores.keys import PARTIAL
from hyperslab.stores.location import Location, Probe

_GROUP_DOCUMENTS = ("zarr.json", ".zgroup")
"""The documents of a group, in either version of Zarr."""


class EnclosingDataset:
    """The outermost dataset around ``where``, looked for with the first change; mostly there is none."""

    def __init__(self, where: Location, settings: Settings = DEFAULTS) -> None:
        self._where = where
        self._settings = settings
        self._writer: Writer | None = None
        self._way: str | None = None

    @contextmanager
    def follow(
        self, *, stored: Collection[str] = (), gone: Collection[str] = (), arrived: Collection[str] = ()
    ) -> Iterator[None]:
        """Have it follow what is made in the block of nodes here, each by its path.

        ``stored``: nodes whose documents are written; ``gone``: removed with all below; ``arrived``: there then, with
        all below. Whoever holds locks of nodes here takes the lock of the root last, as writers of the whole do.
        """
        if self._way is None:
            self._way = self._find()
        if self._writer is None:
            yield
            return
        with self._writer.follow(self._way, stored=stored, gone=gone, arrived=arrived):
            yield

    @contextmanager
    def follow_whole(self) -> Iterator[None]:
        """Have it follow that the dataset is made, or replaced, in the block; it is closed then."""
        try:
            with self.follow(gone=("",), arrived=("",)):
                yield
        finally:
            self.close()

    def close(self) -> None:
        """Let go of it."""
        writer, self._writer, self._way = self._writer, None, None
        if writer is not None:
            writer.close()

    def _find(self) -> str:
        root = find_enclosing(self._where)
        if root is None:
            return ""
        with suppress(FormatError, Unsupported):  # what cannot be read has no consolidated metadata that anybody reads
            reader = detect_format(Probe(root)).open(root, "r+", settings=self._settings)
            if isinstance(reader, Writer):
                self._writer = reader
        return root.way_to(self._where)


def find_above(where: Location) -> tuple[Location, str] | None:
    """Return the dataset above a place where nothing lies and that is a node of it all the same: a file or an archive,
    or a root of collections; and the path of the node in it. None for any other place."""
    file = file_above(where)
    if file is not None and where.path is not None:
        node = os.path.relpath(where.path, file).replace(os.sep, "/")
        return Location.of(file if where.scheme == "file" else f"{where.scheme}://{file}", where.options), node
    there, _ = find_existing(where)
    if there is where or not there.exists():
        return None
    found = detect(Probe(there))
    return (there, there.way_to(where)) if found is not None and found.traits.has_collections else None


def find_tree_above(where: Location) -> tuple[Location, str] | None:
    """Return the outermost dataset of Zarr above a place of the file system where nothing lies, and the path of the
    node that would lie there, or that only a link leads to; None for any other place."""
    there, below = find_existing(where)
    root = None if there is where else find_enclosing(below)
    return None if root is None else (root, root.way_to(where))


def find_existing(where: Location) -> tuple[Location, Location]:
    """Return the nearest place of the file system, from ``where`` upwards, at which something lies, and the one right
    below it on the way, at which nothing does; twice ``where`` itself if something lies there, and of other systems.
    """
    there = below = where
    while there.scheme == "file" and not there.exists() and (above := there.above()) is not None:
        there, below = above, there
    return there, below


def find_enclosing(where: Location, documents: Collection[str] = _GROUP_DOCUMENTS) -> Location | None:
    """Return the place of the outermost dataset around this one, as far as group lies in group; None without one.

    ``documents``: any of which makes a group.
    """
    target = str(where.target)
    if where.unpublished or (PARTIAL in target and os.path.basename(target).startswith(PARTIAL)):
        return None  # what is built beside its place is no node yet
    if where.scheme == "file":  # as stores would, without their making: every array that is opened asks so twice
        found = ""
        while (above := target.rpartition(os.sep)[0] or os.path.dirname(target)) != target:
            if not any(map(os.path.isfile, map(f"{above}/".__add__, documents))):
                break
            found = target = above
        return Location(found, where.scheme, found, where.options, found) if found else None
    root = None
    while (around := (root or where).above()) is not None and _is_group(around, documents):
        root = around
    return root


def _is_group(where: Location, documents: Collection[str]) -> bool:
    with suppress(HyperslabError):
        store = where.store(read_only=True)
        try:
            return any(store.size(name) is not None for name in documents)
        finally:
            store.close()
    return False
