"""The one function that follows links: with a hop limit and a cycle check."""

from __future__ import annotations

from difflib import get_close_matches

from hyperslab.array.session import Session
from hyperslab.errors import FormatError, HyperslabError, NodeNotFound, Unsupported
from hyperslab.formats.base import Feature
from hyperslab.model.paths import join, split
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec

HOPS = 32


def follow(session: Session, path: str) -> tuple[str, GroupSpec | ArraySpec]:
    """The path and spec that ``path`` stands for; a link may stand for it, or for a group on the way to it."""
    seen = {path}
    for _ in range(HOPS):
        try:
            spec = session.reader.node(path)
        except NodeNotFound as error:
            above = _link_above(session, path)
            if above is None:
                error.remedy = _near(session, path) or error.remedy
                raise
            path = above
        else:
            if not isinstance(spec, Link):
                return path, spec
            path = _target(spec)
        if path in seen:
            raise FormatError("links form a circle", url=session.url, node=path, remedy="remove one of the links")
        seen.add(path)
    raise FormatError(f"more than {HOPS} links in a row", url=session.url, node=path)


def _near(session: Session, path: str) -> str | None:
    """What was probably meant: a name like the first one that is missing, in the nearest group that is there."""
    group, name = split(path)
    while group and not _is_there(session, group):
        group, name = split(group)
    try:
        near = get_close_matches(name, list(session.reader.children(group)), 1)
    except HyperslabError:
        return None
    return f"did you mean {near[0]!r}?" if near else None


def _is_there(session: Session, path: str) -> bool:
    try:
        session.reader.node(path)
    except NodeNotFound:
        return False
    except HyperslabError:
        return True
    return True


def _link_above(session: Session, path: str) -> str | None:
    """The path with its nearest linked ancestor replaced by the link's target; None where a format has no links."""
    if Feature.LINKS not in session.format.features:
        return None
    folder, tail = split(path)
    while folder:
        try:
            spec = session.reader.node(folder)
        except NodeNotFound:
            folder, name = split(folder)
            tail = f"{name}/{tail}"
            continue
        return join(_target(spec), tail) if isinstance(spec, Link) else None
    return None


def _target(link: Link) -> str:
    if link.source != ".":
        raise Unsupported(f"the link to {link.source!r} leaves the dataset", remedy="open that dataset by its own URL")
    return join("", link.target)
