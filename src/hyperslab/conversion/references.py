"""Links and references of a source as they are to be in a copy at another place.

What leads to a node that is copied too leads to its copy, anything else to where it led before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hyperslab.array.references import reference_fields, root_id
from hyperslab.array.session import OpenDataset
from hyperslab.conversion.source_nodes import SourceNode
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats.base import Feature
from hyperslab.group.links import follow
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import DataType
from hyperslab.model.paths import child, join, split
from hyperslab.model.refs import Link, ObjectReference, Pointer, RegionReference
from hyperslab.model.series import DATA, FIRST_SAMPLE, NO_SAMPLES, SAMPLE_COUNT, SERIES, names_samples
from hyperslab.model.spec import Node
from hyperslab.selection.region import Range
from hyperslab.stores.location import Location

# A path from the root, or a URL: it means the same from wherever it is read.
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z][A-Za-z0-9+.-]*:")
P = TypeVar("P", bound=Pointer)


@dataclass(frozen=True, eq=False)
class ReferenceMap:
    """Leads the links and references of an open source to where they lead in a copy at ``target``.

    ``places``: the path there of each node that is copied, ``whole``: all of them are; ``cut``: the arrays of which
    only some cells are copied, so that regions of them stay regions of the source; ``samples``: the positions along the
    first dimension that are copied, of arrays of which that are not all, None where these do not follow one another.
    """

    source: OpenDataset
    target: Location
    places: Mapping[str, str]
    links: frozenset[str]
    cut: frozenset[str]
    whole: bool
    samples: Mapping[str, range | None]
    # Cells often repeat one reference many times; following one costs reads of the source.
    cache: dict[object, ObjectReference | RegionReference] = field(default_factory=dict)
    series: dict[str, str | None] = field(default_factory=dict)

    def map_node(self, node: Node) -> Node:
        """Return a link, or a node with its attributes, as it is to be in the copy."""
        if node.is_link:
            return self.map_pointer(node)
        mapped = {
            name: self.map_pointer(value)
            for name, value in node.attrs.items()
            if isinstance(value, ObjectReference | RegionReference)
        }
        return node.evolve(attrs={**node.attrs, **mapped}) if mapped else node

    def map_cells(self, values: Values, dtype: DataType) -> Values:
        """Return cells with their references, and the numbers of samples of series, as they are to be in the copy; the
        same array where there are none."""
        fields = reference_fields(dtype)
        if not fields:
            return values
        mapped = values.copy()
        for name, _ in fields:
            column = mapped if name is None else mapped[name]
            for place, cell in enumerate(column.flat):
                if isinstance(cell, ObjectReference | RegionReference):
                    key = (cell, cell.object_id, cell.source_object_id)
                    if key not in self.cache:
                        self.cache[key] = self.map_pointer(cell)
                    column.flat[place] = self.cache[key]
        if self.samples and names_samples(dtype):
            self._renumber_samples(mapped, values[SERIES])
        return mapped

    def _renumber_samples(self, rows: Values, series: Values) -> None:
        """Have rows name samples by their numbers in the copy, none where they are not all there; ``series``: of each,
        as the source refers to it."""
        firsts, counts = rows[FIRST_SAMPLE], rows[SAMPLE_COUNT]
        for place, reference in enumerate(series.flat):
            number = self.number_in_copy(reference, int(firsts.flat[place]), int(counts.flat[place]))
            firsts.flat[place] = NO_SAMPLES if number is None else number
            if number is None:
                counts.flat[place] = NO_SAMPLES

    def number_in_copy(self, series: object, first: int, count: int) -> int | None:
        """Return which number the first of some samples of a series has in the copy; None where they are not all there,
        one behind the other."""
        data = self.find_data(series)
        if data is None or data not in self.samples or first < 0:
            return first
        chosen = self.samples[data]
        if chosen is None or not chosen.start <= first <= first + count <= chosen.stop:
            return None
        return first - chosen.start

    def find_data(self, series: object) -> str | None:
        """Return the path of the samples of a series of the source, also where a link leads to them; None of others."""
        if not isinstance(series, ObjectReference):
            return None
        if series.path not in self.series:
            self.series[series.path] = None
            with suppress(HyperslabError):  # what leads nowhere, or out of the dataset, is not numbered anew
                if self.source.reader.place_of(series) is None:
                    session, place, _ = follow(self.source, child(join("", series.path), DATA))
                    self.series[series.path] = place if session is self.source else None
        return self.series[series.path]

    def map_pointer(self, pointer: P) -> P:
        """Return a link or reference as it is to be in the copy; one that leads nowhere keeps its words."""
        path: str | None = None
        with suppress(Invalid):  # text that is no path
            path = join("", pointer.target if isinstance(pointer, Link) else pointer.path)
        try:
            place = self.source.reader.place_of(pointer)
        except HyperslabError:  # what is missing, or must not be read
            return self._map_unresolved(pointer)
        if place is not None or path is None:
            return pointer if place is None else replace(pointer, source=self.target.way_to(place))
        there = self._path_in_copy(path)
        # A region of an array of which only some cells are copied would mean other cells in the copy: it leads to the
        # source.
        if there is not None and not (isinstance(pointer, RegionReference) and path in self.cut):
            return _redirect(pointer, there, ".")
        origin = self.source.origin
        if origin is None or origin.where.scheme in ("store", "several"):
            return pointer
        moved = _redirect(pointer, path, self.target.way_to(origin.where))
        return replace(moved, source_object_id=root_id(self.source))

    def _map_unresolved(self, pointer: P) -> P:
        """Return a pointer whose dataset is not looked at: a relative path leads to the same place as before."""
        origin, source = self.source.origin, pointer.source
        place = None if origin is None or _ABSOLUTE.match(source) or "\0" in source else origin.where.at(source)
        return pointer if place is None else replace(pointer, source=self.target.way_to(place))

    def _path_in_copy(self, path: str) -> str | None:
        """Return where a node of the source is in the copy; None where it is not copied."""
        if path in self.places:
            return self.places[path]
        folder, tail = path, ""
        while folder:
            folder, name = split(folder)
            tail = f"{name}/{tail}".rstrip("/")
            if folder in self.links:
                return join(self.places[folder], tail)
        return path if self.whole else None


def _redirect(pointer: P, path: str, source: str) -> P:
    """Return the pointer with another path and source; what it knows of its target stays."""
    if isinstance(pointer, Link):
        return replace(pointer, target=f"/{path}", source=source)
    return replace(pointer, path=f"/{path}", source=source, home=None)


def build_reference_map(
    source: OpenDataset, items: Sequence[SourceNode], path: str, target: Location
) -> ReferenceMap | None:
    """Return how the links and references of what is copied change; None for formats that have neither."""
    if not source.format.features & {Feature.LINKS, Feature.REFERENCES}:
        return None
    cut = (
        item.origin
        for item in items
        if item.node.is_array and item.picked is not None and not item.picked.is_all(item.node.shape)
    )
    return ReferenceMap(
        source,
        target,
        places={item.origin: item.path for item in items},
        links=frozenset(item.origin for item in items if item.node.is_link),
        cut=frozenset(cut),
        whole=not path,
        samples=dict(_iter_chosen_samples(items)),
    )


def _iter_chosen_samples(items: Sequence[SourceNode]) -> Iterator[tuple[str, range | None]]:
    """Yield the path of each array of which not all positions along the first dimension are selected, and these if they
    follow one another."""
    for item in items:
        if not item.node.is_array or item.picked is None or not item.node.shape:
            continue
        axis = item.picked.axes[0]
        run = range(axis.start, axis.start + axis.count) if isinstance(axis, Range) and axis.step == 1 else None
        if 0 not in item.picked.kept:
            yield item.origin, None
        elif run != range(item.node.shape[0]):
            yield item.origin, run
