"""Where builders stand: their paths, and the links and references that lead to them from the dataset being written.

From a tree of builders to what is to be written: groups, links and datasets by path, in the order of the tree."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import h5py
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.data_utils import DataIO

from hyperslab.array.session import OpenDataset
from hyperslab.bridges.hdmf.datasets import HyperslabDataset, settings_of
from hyperslab.model.paths import child
from hyperslab.model.refs import Link, ObjectReference, RegionReference

ROOT = "root"


def path_of(builder: Any) -> str:
    """The absolute path of a group's or dataset's builder in its own dataset."""
    if builder.parent is None and builder.name == ROOT:
        return "/"
    if builder.location is not None:
        return posixpath.normpath(posixpath.join("/", builder.location, builder.name))
    names = []
    while builder is not None and not (builder.parent is None and builder.name == ROOT):
        names.append(builder.name)
        builder = builder.parent
    return "/" + "/".join(reversed(names))


def target_of(value: Any) -> Any:
    """The builder that a link's or reference's builder leads to; any other builder as it is."""
    while isinstance(value, LinkBuilder | ReferenceBuilder):
        value = value.builder
    return value


def source_of(session: OpenDataset) -> str:
    """What builders call the dataset that they stand in: its path, else its URL."""
    origin = session.origin
    return session.url if origin is None or origin.where.path is None else origin.where.path


def root_of(builder: Any) -> Any:
    """The builder above all others."""
    while builder.parent is not None:
        builder = builder.parent
    return builder


@dataclass(frozen=True)
class Pointers:
    """Makes links and references from the dataset ``here``; what stands in ``exported`` will stand in it too."""

    here: str
    exported: str | None = None
    root_id: str | None = None
    _real: dict[str, str] = field(default_factory=dict, compare=False)

    def link(self, target: Any) -> Link:
        """The link to a builder."""
        path, source, ids = self._place(target)
        return Link(path, source, *ids)

    def reference(self, value: Any) -> ObjectReference | RegionReference:
        """The reference to a builder; one of ours is given as it is."""
        if isinstance(value, ObjectReference | RegionReference):
            return value
        return self.to(target_of(value))

    def to(self, target: Any) -> ObjectReference:
        """The reference to a builder."""
        path, source, ids = self._place(target)
        return ObjectReference(path, source, *ids)

    def stays(self, source: str | None) -> bool:
        """Return whether what stands in ``source`` stands in the dataset that is written, too."""
        return source is None or any(
            source == place or self._real_path(source) == self._real_path(place)
            for place in (self.here, self.exported)
            if place is not None
        )

    def _real_path(self, path: str) -> str:
        """Without symbolic links, which are followed once for all pointers of a write."""
        if path not in self._real:
            self._real[path] = path if "://" in path else os.path.realpath(path)
        return self._real[path]

    def relative(self, source: str | None) -> str:
        """How a dataset is named from here: ``.`` for itself, a POSIX path relative to the root, or a URL."""
        if source is None or self.stays(source):
            return "."
        if "://" in source or "://" in self.here:
            return source
        return os.path.relpath(source, self.here).replace(os.sep, "/")

    def _place(self, target: Any) -> tuple[str, str, tuple[str | None, str | None]]:
        root, source = root_of(target), self.relative(target.source)
        root_id = root.attributes.get("object_id") if root.name == ROOT else None
        if source == ".":
            root_id = root_id or self.root_id
        return path_of(target), source, (target.attributes.get("object_id"), root_id)


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

    list_pointers: Pointers
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
        if self.list_pointers.stays(target.source) or not os.path.isfile(target.source):
            yield NewLink(path, self.list_pointers.link(target), link)
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
        if array.path == path and self.list_pointers.stays(source):
            return None
        known = array.ref
        return Link(known.path, self.list_pointers.relative(source), known.object_id, known.source_object_id)
