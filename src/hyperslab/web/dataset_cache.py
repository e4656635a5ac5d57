"""Datasets as the explorer has them open: each once for all requests, and anew where it has changed.

They are open beside what ``zarr_view`` has of them: the explorer reads one node at a time, and a look at one of a
million arrays must not read the documents of all.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from weakref import finalize

from hyperslab.array import Array
from hyperslab.array.session import LinkedDatasets, OpenDataset, close_readers, file_stamp, open_session
from hyperslab.chunks.settings import Settings
from hyperslab.database import Array as DatabaseArray
from hyperslab.database import Collection
from hyperslab.database.collection import collection_of
from hyperslab.database.typed_conditions import parse_conditions
from hyperslab.errors import ExternalLinkRefused, HyperslabError, Invalid
from hyperslab.group.links import follow
from hyperslab.model.paths import child, normalize
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Stamp
from hyperslab.stores.location import Location

# Of each open dataset chunks are kept of which a part was shown: the next frame of a film, or the next value under the
# pointer, is mostly in them. A chunk larger than the limit is refused, so that one request cannot take all memory.
_MEMORY_LIMIT = 256 << 20
_SETTINGS = Settings(cache_bytes=16 << 20, memory_limit=_MEMORY_LIMIT)
# Datasets that are kept open, those that were used last.
_MOST_OPEN = 16
# Seconds after which the documents of a node are read again, and after which the dataset is opened anew, so that
# whatever else is remembered of it (coordinates, consolidated metadata) is never older.
_LOOK_EVERY, _OPEN_EVERY = 2.0, 60.0
# Nodes of a group among which the array is sought that shows what is in it.
_MOST_CHILDREN = 100
# Nodes of which it is remembered when they were looked at.
_MOST_LOOKS = 4096


@dataclass(eq=False)
class _Open:
    """An open dataset, the version of its file, when its nodes were looked at, and its collections that were queried:
    each has an index of attributes, which is dear to make."""

    session: OpenDataset
    file: Stamp | None
    opened: float
    looks: dict[str, float] = field(default_factory=dict)
    collections: dict[str, Collection] = field(default_factory=dict)


class _ServedLinks(LinkedDatasets):
    """The datasets that links of a dataset lead to: of those alone that are served."""

    def __init__(self, is_served: Callable[[Location], bool]) -> None:
        super().__init__()
        self._is_served = is_served

    def get_or_open(self, source: OpenDataset, place: Location, open_place: Callable[[], OpenDataset]) -> OpenDataset:
        """Return the dataset at a place that a link leads to; ExternalLinkRefused where it is not served."""
        if not self._is_served(place):
            raise ExternalLinkRefused("a link leads to a dataset that is not served", remedy="serve that one, too")
        return super().get_or_open(source, place, open_place)


class DatasetCache:
    """The datasets that were looked at last, by their place. ``is_served``: of places that links may lead to."""

    def __init__(self, is_served: Callable[[Location], bool]) -> None:
        self._is_served = is_served
        self._mutex = threading.Lock()
        self._open: OrderedDict[tuple[str, object, str], _Open] = OrderedDict()

    def open(self, where: Location, *, listing: bool = False) -> OpenDataset:
        """Return the dataset at a place. ``listing``: with the names that are there now. Errors as for ``hs.open``."""
        return self._get(where, _LOOK_EVERY if listing else _OPEN_EVERY).session

    def open_node(self, where: Location, path: str) -> tuple[OpenDataset, str, GroupSpec | ArraySpec]:
        """Return what stands at a path, or behind a link there: its dataset, its path there, and its spec now.

        NodeNotFound, Invalid for what is no path, BrokenLink.
        """
        path = normalize(path)
        found = self._get(where, _OPEN_EVERY)
        now = time.monotonic()
        looked = found.looks.get(path, found.opened)
        if now - looked > _LOOK_EVERY:
            if len(found.looks) >= _MOST_LOOKS:
                found.looks.clear()
            found.looks[path] = now
            found.session.refresh(path)
        return follow(found.session, path)

    def open_array(self, where: Location, path: str) -> Array:
        """Return the array at a path; Invalid where that is a group."""
        session, place, spec = self.open_node(where, path)
        if not spec.is_array:
            raise Invalid("this is a group", url=session.url, node=place, remedy="name an array")
        return Array(session, place, spec)

    def open_shown_array(self, where: Location, path: str) -> Array:
        """Return the array at a path; of a group there the one that it is known by: the main one of the dataset, else
        that of the most dimensions, of those that are not damaged. Invalid where there is none."""
        session, place, spec = self.open_node(where, path)
        if isinstance(spec, ArraySpec):
            return Array(session, place, spec)
        if session.reader.main and not place:
            return self.open_array(where, session.reader.main)
        arrays: list[tuple[str, ArraySpec]] = []
        for name in islice(session.reader.children(place), _MOST_CHILDREN):
            with suppress(HyperslabError):
                node = session.reader.node(child(place, name))
                if isinstance(node, ArraySpec):
                    arrays.append((child(place, name), node))
        if not arrays:
            raise Invalid("a group without arrays", url=session.url, node=place, remedy="name an array")
        return Array(session, *max(arrays, key=lambda found: len(found[1].shape)))

    def find_arrays(
        self, where: Location, path: str, conditions: Iterable[str], order: str | None
    ) -> tuple[Sequence[DatabaseArray], str]:
        """Return the arrays of the collection at a path that meet conditions, such as ``dt>=2023-01-01``, in an order,
        and the call in Python that finds them.

        Invalid for what is no collection and what is no condition; SchemaError for attributes that it has not.
        """
        found, path = self._get(where, _OPEN_EVERY), normalize(path)
        collection = found.collections.get(path)
        if collection is None:
            collection = collection_of(found.session, path, _MEMORY_LIMIT)
            if collection is None:
                raise Invalid("this is no collection", url=found.session.url, node=path, remedy="filter a collection")
            found.collections[path] = collection
        wanted = parse_conditions(collection, conditions)
        words = [*([repr(wanted)] if wanted else []), *([f"order={order!r}"] if order else [])]
        return collection.query(wanted, order=order), f"collection.query({', '.join(words)})"

    def close(self) -> None:
        """Let go of all; what is being read stays open until then."""
        with self._mutex:
            self._open = OrderedDict()

    def _get(self, where: Location, oldest: float) -> _Open:
        """Return a dataset that is open since ``oldest`` seconds at most, and whose file is the same still."""
        key, file = where.identity, file_stamp(where)
        with self._mutex:
            found = self._open.get(key)
            if found is not None and found.file == file and time.monotonic() - found.opened <= oldest:
                self._open.move_to_end(key)
                return found
        # Of several threads each may open it: the last one stays, and those before are closed when nobody reads them.
        opened = time.monotonic()
        session = open_session(where, "r", None, _SETTINGS, {})
        session = replace(session, linked=_ServedLinks(self._is_served))
        finalize(session, close_readers, session.reader, session.linked)
        made = _Open(session, file, opened)
        with self._mutex:
            self._open[key] = made
            self._open.move_to_end(key)
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)
        return made
