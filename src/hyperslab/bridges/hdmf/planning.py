"""From a tree of builders to what is to be written: groups, links and datasets by path, in the order of the tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import h5py
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf.data_utils import DataIO

from hyperslab.bridges.hdmf.data_io import settings_of
from hyperslab.bridges.hdmf.lazy import HyperslabDataset
from hyperslab.bridges.hdmf.pointers import Pointers, source_of
from hyperslab.model.paths import child
from hyperslab.model.refs import Link


@dataclass(frozen=True)
class NewGroup:
    """A group with its attributes. ``is_new``: it was not read from the file."""

    path: str
    builder: GroupBuilder
    is_new: bool


@dataclass(frozen=True)
class NewLink:
    """A link, and the builder that it was made from."""

    path: str
    link: Link
    builder: Any


@dataclass(frozen=True)
class NewDataset:
    """A dataset with its data, unwrapped, and what the wrapper said."""

    path: str
    builder: DatasetBuilder
    data: Any
    settings: dict[str, Any] = field(default_factory=dict)
    wrapper: DataIO | None = None


Item = NewGroup | NewLink | NewDataset


@dataclass(frozen=True)
class Planner:
    """``is_written``: whether a builder is in the file already. ``link_data``: link to arrays of open files, rather
    than copying them."""

    pointers: Pointers
    is_written: Callable[[Any], bool]
    link_data: bool

    def plan(self, root: GroupBuilder) -> Iterator[Item]:
        """All that is to be written of a tree."""
        return self._group("", root)

    def _group(self, path: str, builder: GroupBuilder) -> Iterator[Item]:
        yield NewGroup(path, builder, not self.is_written(builder))
        for name, group in builder.groups.items():
            yield from self._group(child(path, name), group)
        for name, dataset in builder.datasets.items():
            if not self.is_written(dataset):
                yield self._dataset(child(path, name), dataset)
        for name, link in builder.links.items():
            if not self.is_written(link):
                yield from self._link(child(path, name), link)

    def _link(self, path: str, link: Any) -> Iterator[Item]:
        """A link; what it leads to in a file of another kind is copied in its place."""
        target = link.builder
        if self.pointers.stays(target.source) or not os.path.isfile(target.source):
            yield NewLink(path, self.pointers.link(target), link)
        elif isinstance(target, DatasetBuilder):
            yield self._dataset(path, target)
        else:
            yield from self._group(path, target)

    def _dataset(self, path: str, builder: DatasetBuilder) -> Item:
        data, wrapper, wanted = builder.data, None, self.link_data
        settings: dict[str, Any] = {}
        if isinstance(data, DataIO):
            wrapper, settings = data, settings_of(data)
            said = getattr(data, "link_data", None)
            wanted = wanted if said is None else bool(said)
            data = data.data
        if isinstance(data, HyperslabDataset) and wanted:
            link = self._link_to(path, data)
            if link is not None:
                return NewLink(path, link, builder)
        if not settings and isinstance(data, HyperslabDataset | h5py.Dataset) and data.chunks is not None:
            settings = {"chunks": data.chunks}
        return NewDataset(path, builder, data, settings, wrapper)

    def _link_to(self, path: str, data: HyperslabDataset) -> Link | None:
        """The link to an array of an open file; None where it stands at its own place, or is of another format: those
        are copied."""
        array = data.dataset
        if array._session.format.name != "hdmf":
            return None
        source = source_of(array._session)
        if array.path == path and self.pointers.stays(source):
            return None
        known = array.ref
        return Link(known.path, self.pointers.relative(source), known.object_id, known.source_object_id)
