"""From builders to what is to be written: groups, links and datasets by path, and the pointers among them."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h5py
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.data_utils import DataIO

from hyperslab.array.session import OpenDataset
from hyperslab.bridges.hdmf.datasets import HyperslabDataset, read_storage_settings
from hyperslab.model.paths import child
from hyperslab.model.refs import Link, ObjectReference, RegionReference

ROOT = "root"


def path_of(builder: Any) -> str:
    """Return the absolute path of a group's or dataset's builder in its own dataset."""
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
    """Return the builder that a link's or reference's builder leads to; any other builder as it is."""
    while isinstance(value, LinkBuilder | ReferenceBuilder):
        value = value.builder
    return value


def source_of(session: OpenDataset) -> str:
    """Return the name that builders give to their dataset: its path, else its URL."""
    origin = session.origin
    return session.url if origin is None or origin.where.path is None else origin.where.path


def root_of(builder: Any) -> Any:
    """Return the builder above all others."""
    while builder.parent is not None:
        builder = builder.parent
    return builder


@dataclass(frozen=True)
class Pointers:
    """Makes links and references from the dataset ``here``; what stands in ``exported`` will stand in it too."""

    here: str
    exported: str | None = None
    root_id: str | None = None
    _real_paths: dict[str, str] = field(default_factory=dict, compare=False)

    def link(self, target: Any) -> Link:
        """Return the link to a builder."""
        return Link(*self.locate(target))

    def reference(self, value: Any) -> ObjectReference | RegionReference:
        """Return the reference to a builder; one of ours is returned as it is."""
        if isinstance(value, ObjectReference | RegionReference):
            return value
        return ObjectReference(*self.locate(target_of(value)))

    def is_same_dataset(self, source: str | None) -> bool:
        """Return True if what stands in ``source`` stands in the dataset that is written, too."""
        return source is None or any(
            source == place or self._real_path(source) == self._real_path(place)
            for place in (self.here, self.exported)
            if place is not None
        )

    def _real_path(self, path: str) -> str:
        """Resolve symbolic links, once for all pointers of a write: before the next one they may lead elsewhere."""
        if path not in self._real_paths:
            self._real_paths[path] = path if "://" in path else os.path.realpath(path)
        return self._real_paths[path]

    def relative_source(self, source: str | None) -> str:
        """Return the name of a dataset from here: ``.`` for itself, a POSIX path relative to the root, or a URL."""
        if source is None or self.is_same_dataset(source):
            return "."
        if "://" in source or "://" in self.here:
            return source
        return os.path.relpath(source, self.here).replace(os.sep, "/")

    def locate(self, target: Any) -> tuple[str, str, str | None, str | None]:
        """Return the path of a builder, the source of its dataset, and the object ids of both."""
        root, source = root_of(target), self.relative_source(target.source)
        root_id = root.attributes.get("object_id") if root.name == ROOT else None
        if source == ".":
            root_id = root_id or self.root_id
        return path_of(target), source, target.attributes.get("object_id"), root_id


def reference_to(container: Any, manager: BuildManager, source: str) -> ObjectReference:
    """Return the reference to a container of the file `source`, for which `manager` builds the tree that it is in."""
    above = container
    while above.parent is not None:
        above = above.parent
    manager.build(above)
    builder = manager.build(container)
    pointers = Pointers(source, root_id=root_of(builder).attributes.get("object_id"))
    return ObjectReference(*pointers.locate(target_of(builder)))


# -- the plan ---------------------------------------------------------------------------------------------------------


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
    """A dataset with its data, unwrapped, and the wrapper with its settings."""

    path: str
    builder: DatasetBuilder
    data: Any
    settings: dict[str, Any] = field(default_factory=dict)
    wrapper: DataIO | None = None


@dataclass
class WritePlan:
    """All that is to be written of trees of builders: groups before what is in them, links, datasets.

    ``is_written``: called with a builder, True for one that is in the file already. ``link_data``: link to arrays of
    open files, rather than copying them.
    """

    pointers: Pointers
    is_written: Callable[[Any], bool]
    link_data: bool
    groups: list[NewGroup] = field(default_factory=list)
    links: list[NewLink] = field(default_factory=list)
    datasets: list[NewDataset] = field(default_factory=list)

    def add_tree(self, builder: GroupBuilder, path: str = "") -> None:
        """Plan a group at `path` with all below it."""
        self.groups.append(NewGroup(path, builder, not self.is_written(builder)))
        for name, group in builder.groups.items():
            self.add_tree(group, child(path, name))
        for name, dataset in builder.datasets.items():
            if not self.is_written(dataset):
                self._add_dataset(child(path, name), dataset)
        for name, link in builder.links.items():
            if not self.is_written(link):
                self._add_link(child(path, name), link)

    def _add_link(self, path: str, link: Any) -> None:
        """Plan a link, or a copy of what it leads to in a file of another kind."""
        target = link.builder
        if self.pointers.is_same_dataset(target.source) or not os.path.isfile(target.source):
            self.links.append(NewLink(path, self.pointers.link(target), link))
        elif isinstance(target, DatasetBuilder):
            self._add_dataset(path, target)
        else:
            self.add_tree(target, path)

    def _add_dataset(self, path: str, builder: DatasetBuilder) -> None:
        data, wrapper, link_data = builder.data, None, self.link_data
        settings: dict[str, Any] = {}
        if isinstance(data, DataIO):
            wrapper, settings = data, read_storage_settings(data)
            own = getattr(data, "link_data", None)
            link_data = link_data if own is None else bool(own)
            data = data.data
        if isinstance(data, HyperslabDataset) and link_data and (link := self._link_to(path, data)) is not None:
            self.links.append(NewLink(path, link, builder))
            return
        if not settings and isinstance(data, HyperslabDataset | h5py.Dataset) and data.chunks is not None:
            settings = {"chunks": data.chunks}
        self.datasets.append(NewDataset(path, builder, data, settings, wrapper))

    def _link_to(self, path: str, data: HyperslabDataset) -> Link | None:
        """Return the link to an array of an open file; None for arrays that are copied: at their own place, or of
        another format."""
        array = data.dataset
        if not array._session.format.traits.links_datasets:
            return None
        source = source_of(array._session)
        if array.path == path and self.pointers.is_same_dataset(source):
            return None
        known = array.ref
        return Link(known.path, self.pointers.relative_source(source), known.object_id, known.source_object_id)
