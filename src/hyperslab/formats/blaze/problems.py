"""What is wrong with the data files of an array, and what mends it; no sound cell is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.pool import batched, each_batch
from hyperslab.chunks.source import Block
from hyperslab.errors import HyperslabError, Problem, StorageError
from hyperslab.formats.base import Remedy
from hyperslab.formats.blaze.columns import Columns
from hyperslab.formats.blaze.data_file import Index
from hyperslab.formats.blaze.document import SIZES
from hyperslab.formats.blaze.folder import ArrayFolder
from hyperslab.formats.blaze.superchunks import Superchunks
from hyperslab.stores import counting
from hyperslab.stores.strays import ABANDONED, Strays

_BATCH = 4
_TRIES = 5


def remedies(folder: ArrayFolder, node: str, *, deep: bool, workers: int) -> Iterator[Remedy]:
    """Each problem of the array at ``folder`` with what mends it; ``deep``: every digest is verified, and every chunk
    decoded, by several threads, each in the memory of one chunk."""
    spec = folder.labelled.spec
    yield from _sizes(folder, node)
    source = folder.source(spec, exact=True)
    columns = source.columns if isinstance(source, Columns) else [((), source)]
    known = {"/".join(path[:depth]) for path, _ in columns for depth in range(len(path) + 1)}
    for path in sorted(known):
        place = f"{source.keys.data}/{path}" if path else source.keys.data
        yield from _strangers(folder, node, place, path, known)
    for _, column in columns:
        yield from _Files(column, node, deep).examine(workers)


def _sizes(folder: ArrayFolder, node: str) -> Iterator[Remedy]:
    spec = folder.labelled.spec
    said, is_so = folder.docs[SIZES].get("nbytes"), prod(spec.shape) * spec.numpy_dtype.itemsize
    if said != is_so:
        message = f"meta/sizes says {said!r:.30} bytes, {spec.shape} cells of {spec.numpy_dtype} take {is_so}"
        yield Remedy(Problem(node, "sizes", message))


def _strangers(folder: ArrayFolder, node: str, place: str, path: str, known: set[str]) -> Iterator[Remedy]:
    """What is no value, or a folder that belongs to no field; what is in the way of a file is taken out first."""
    try:
        inner = folder.store.list_dir(place)[1]
    except StorageError as error:
        yield Remedy(Problem(node, "unreadable-folder", f"{error.said} [key={place}]"))
        return
    for stray in folder.store.strays(place) if isinstance(folder.store, Strays) else ():
        if stray.kind != "temporary" or stray.age > ABANDONED:
            key = f"{place}/{stray.name}"
            what = "an unfinished write of a writer that is gone" if stray.kind == "temporary" else "no data file"
            problem = Problem(node, stray.kind, f"{stray.name} is {what} [key={key}]")
            yield Remedy(problem, "take it out", take=key)
    for name in inner:
        if (f"{path}/{name}" if path else name) not in known:
            key = f"{place}/{name}"
            problem = Problem(node, "foreign", f"the folder {name} belongs to no field [key={key}]")
            yield Remedy(problem, "take it out", take=key)


class _Files:
    """The files of one column."""

    def __init__(self, column: Superchunks, node: str, deep: bool) -> None:
        self._column = column
        self._node = node
        self._deep = deep
        self._found: list[tuple[int, Remedy]] = []

    def examine(self, workers: int) -> Iterator[Remedy]:
        """All problems in the order of the files."""
        keys = self._column.keys
        try:
            places, others = keys.places()
        except StorageError as error:
            yield Remedy(Problem(self._node, "unreadable-folder", f"{error.said} [key={keys.folder}]"))
            return
        there = set(places)
        for place in range(self._column.places):
            if place not in there:
                self._say(place, "missing-superchunk", f"superchunk {place + 1} is missing", self._fill(place))
        each_batch(self._examine, batched(places, _BATCH), workers)
        for name in others:
            problem = Problem(self._node, "foreign", f"{name} is no data file [key={keys.prefix}{name}]")
            self._found.append((1 << 62, Remedy(problem, "take it out", take=keys.prefix + name)))
        yield from (remedy for _, remedy in sorted(self._found, key=lambda pair: pair[0]))

    def _fill(self, place: int) -> tuple[str, Callable[[], None]]:
        return "write fill values", partial(self._column.rewrite, place)

    def _say(
        self, place: int, kind: str, message: str, mend: tuple[str, Callable[[], None]] | None, **more: Any
    ) -> None:
        """A problem of a file, with its key and rows."""
        rows = self._column.rows_of(place)
        message = f"{message} [key={self._column.keys.key(place)}, rows {rows[0]}:{rows[1]}]"
        action, act = mend or (None, None)
        self._found.append((place, Remedy(Problem(self._node, kind, message), action, act=act, **more)))

    def _examine(self, places: Iterable[int]) -> None:
        for place in places:
            if place >= max(self._column.places, 0 if self._column.shape.single else 1):
                key = self._column.keys.key(place)
                self._say(
                    place, "extra-superchunk", "the file lies behind the last row", ("take it out", _done), take=key
                )
            else:
                self._examine_one(place)

    def _examine_one(self, place: int) -> None:
        column, key = self._column, self._column.keys.key(place)
        try:
            index = column.index_at(place)
        except HyperslabError as error:
            action = "take it out and write fill values"
            self._say(place, "damaged-superchunk", error.said, (action, self._fill(place)[1]), take=key)
            return
        if index is None:  # it went meanwhile
            return
        count = column.count(place)
        if index.count > max(count, 1):
            message = f"the file holds {index.count} chunks, the array has {count} there"
            self._say(place, "extra-chunks", message, ("cut them off", self._fill(place)[1]), keep=(key,))
        elif column.is_short(place):
            message = f"the file holds {index.count} chunks, the last of {index.last} bytes; the array has more there"
            self._say(place, "short-superchunk", message, self._fill(place))
        self._chunks(place, index, key)

    def _chunks(self, place: int, index: Index, key: str) -> None:
        """Each chunk; unless all are wanted, the last one: it is not whole in a file that is cut off."""
        column = self._column
        rest = (0,) * (len(column.grid.axes) - 1)
        scratch: Block | None = None
        for local in range(0 if self._deep else index.count - 1, index.count):
            coords = (place * column.per + local, *rest) if column.grid.axes else ()
            if scratch is None:
                scratch = np.empty(column.grid.chunk_shape(coords), column.dtype)
            error = self._error(coords, scratch)
            if error is not None:
                first = column.rows_of(place)[0] + local * column.chunk_rows
                rows = f"{first}:{min(first + column.chunk_rows, column.rows_of(place)[1])}"
                action = f"write fill values in its place; the rows {rows} read as the fill value then"
                act = (action, partial(column.blank_out, coords))
                self._say(place, "corrupt-chunk", f"chunk {local}: {error.said}", act, keep=(key,))
        if self._deep and counting.watchers:
            counting.done(1)

    def _error(self, coords: tuple[int, ...], scratch: Block) -> HyperslabError | None:
        """What is wrong with one version of a chunk; one that is replaced meanwhile is looked at again."""
        found = None
        for _ in range(_TRIES):
            stamp = self._column.stamp(coords)
            try:
                self._column.read_into(coords, scratch)
            except HyperslabError as error:
                found = error
                if self._column.stamp(coords) == stamp:
                    return error
            else:
                return None
        return found


def _done() -> None:
    """What is taken out leaves nothing to be done."""
