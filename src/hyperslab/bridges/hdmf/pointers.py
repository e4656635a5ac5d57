"""Where builders stand: their paths, and the links and references that lead to them from the dataset being written."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass, field
from typing import Any

from hdmf.build import LinkBuilder, ReferenceBuilder

from hyperslab.array.session import OpenDataset
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
