"""The one function that follows links and references, also to other datasets: lazily, with a limit of hops."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from hyperslab.array.references import seen_from
from hyperslab.array.session import OpenDataset, open_session
from hyperslab.chunks.settings import Settings
from hyperslab.errors import BrokenLink, HyperslabError, Invalid, NodeNotFound, Unsupported
from hyperslab.model.guessing import nearest
from hyperslab.model.paths import join, split
from hyperslab.model.refs import HOPS, Link, ObjectReference, Pointer, path_within
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location

Found = tuple[OpenDataset, str, GroupSpec | ArraySpec]
"""The dataset, the path in it and what is there."""


def follow(session: OpenDataset, path: str) -> Found:
    """Return what ``path`` stands for; a link may stand for it, or for a group on the way to it.

    NodeNotFound where nothing is, BrokenLink for a link that leads to nothing or in a circle, ExternalLinkRefused.
    """
    try:
        return _Hops().follow(session, path)
    except NodeNotFound as error:
        error.remedy = _near(session, path) or error.remedy
        raise


def follow_within(session: OpenDataset, path: str) -> tuple[str, GroupSpec | ArraySpec]:
    """Return the same for what has to be in this dataset; Unsupported where it is in another one."""
    led, place, spec = follow(session, path)
    if led is not session:
        message = f"a link on the way leads to {led.url}"
        raise Unsupported(message, url=session.url, node=path, remedy="open that dataset by its own place")
    return place, spec


def resolve(session: OpenDataset, pointer: Pointer) -> Found:
    """Return what a link or reference leads to that was read from this dataset; errors as for :func:`follow`."""
    return _Hops().lead(session, pointer, None)


def link_to(session: OpenDataset, target: object, source: str | None) -> Link:
    """Return the link of this dataset to a path of dataset ``source``, or to a node or reference, also of another
    one."""
    if isinstance(target, str):
        return Link(target if target.startswith("/") else f"/{target}", source or ".")
    pointer = target if isinstance(target, Pointer) else getattr(target, "ref", None)
    if not isinstance(pointer, Link | ObjectReference) or source is not None:
        what = f"a {type(target).__name__}" + ("" if source is None else f" in {source!r}")
        raise Invalid(f"{what} is no target of a link", url=session.url, remedy="give a path, or a node")
    seen = seen_from(session, pointer)
    return seen if isinstance(seen, Link) else Link(seen.path, seen.source, seen.object_id, seen.source_object_id)


def refuse_links_above(session: OpenDataset, path: str) -> None:
    """Raise Invalid where a group on the way to a new node is a link: what it leads to is changed under its own
    name."""
    folder, _ = split(path)
    while folder:
        with suppress(NodeNotFound):
            if session.reader.node(folder).is_link:
                remedy = "make the node in the group that it leads to"
                raise Invalid("a link is no group", url=session.url, node=folder, remedy=remedy)
        folder, _ = split(folder)


class _Hops:
    """One search: how many links were followed, and which of them the present ones stand in."""

    count = 0
    within: frozenset[tuple[int, str]] = frozenset()

    def follow(self, session: OpenDataset, path: str) -> Found:
        """Do as :func:`follow`, also of what stands on the way."""
        try:
            spec = session.reader.node(path)
        except NodeNotFound:
            found = self.beyond(session, path)
            if found is None:
                raise
            return found
        return self.lead(session, spec, path) if spec.is_link else (session, path, spec)

    def beyond(self, session: OpenDataset, path: str) -> Found | None:
        """Return what stands behind the nearest linked ancestor of a path; None where there is none."""
        if not session.has_links:
            return None
        folder, name = split(path)
        tail = name
        while folder:
            try:
                spec = session.reader.node(folder)
            except NodeNotFound:
                folder, name = split(folder)
                tail = f"{name}/{tail}"
                continue
            if not spec.is_link:
                return None
            led, place, _ = self.lead(session, spec, folder)
            return self._guarded(led, join(place, tail))
        return None

    def _guarded(self, session: OpenDataset, path: str) -> Found:
        here = (id(session.reader), path)
        if here in self.within:
            raise BrokenLink("links lead in a circle", url=session.url, node=path, remedy="remove one of them")
        self.within |= {here}
        try:
            return self.follow(session, path)
        finally:
            self.within -= {here}

    def lead(self, session: OpenDataset, pointer: Pointer, node: str | None) -> Found:
        """Return what a pointer leads to that was read from this dataset, where it is the link ``node``."""
        self.count += 1
        if self.count > HOPS:
            message = f"more than {HOPS} links lead to one another"
            raise BrokenLink(message, url=session.url, node=node, remedy="remove one of them")
        try:
            place = session.reader.place_of(pointer)
            there = session if place is None else session.linked.get_or_open(session, place, _opening(session, place))
            path = path_within(pointer)
            found = self._at(there, path)
            if found is not None:
                return found
            message = f"it leads to /{path} of {there.url}, where nothing is"
            wanted = pointer.object_id
            if wanted is None:
                raise BrokenLink(message)
            others = there.reader.paths_of(wanted)
            found = self._at(there, others[0]) if len(others) == 1 else None
            if found is None:
                said = f"{len(others)} nodes have" if others else "nothing has"
                raise BrokenLink(f"{message}; {said} the object_id {wanted}", remedy="link to what is meant")
            warnings.warn(f"{message}; by the object_id {wanted} /{others[0]} is taken", UserWarning, stacklevel=2)
            return found
        except HyperslabError as error:
            raise error.locate(url=session.url, node=node) from error.__cause__

    def _at(self, session: OpenDataset, path: str) -> Found | None:
        try:
            return self._guarded(session, path)
        except NodeNotFound:
            return None


def _opening(session: OpenDataset, place: Location) -> Callable[[], OpenDataset]:
    """Return what opens another dataset as this one is open, for reading alone."""

    def opening() -> OpenDataset:
        options = {} if session.origin is None else session.origin.options
        allowed = {name: options[name] for name in ("allow_external",) if name in options}
        mine = session.settings
        settings = Settings(mine.workers, mine.cache_bytes, memory_limit=mine.memory_limit)
        return replace(open_session(place, "r", session.format.name, settings, allowed), linked=session.linked)

    return opening


def _near(session: OpenDataset, path: str) -> str | None:
    """Return what was probably meant: a name like the first one that is missing, in the nearest group that is there."""
    group, name = split(path)
    while True:
        try:
            if group:
                session.reader.node(group)
            return nearest(name, session.reader.children(group))
        except NodeNotFound:
            if not group:
                return None
            group, name = split(group)
        except HyperslabError:
            return None
