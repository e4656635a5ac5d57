"""Find the dataset that a link or reference leads to: resolve its ``source``, and confine it.

``source`` decides, in this order: this dataset itself; relative to its root; relative to the folder that it lies in
(hdmf-zarr 0.10); as an absolute place. What comes of it must be a dataset that lies below the folder of this one, or at
a place that was allowed: links that follow each other never lead out of the first one's folder. Symbolic links are
resolved before that check. A place that is not allowed stays refused.

Only where nothing at all is at ``source`` do ids help, since datasets are moved: the one dataset of this folder whose
root has the ``object_id`` that the pointer knows, or without one the neighbour of the same name (peers wrote absolute
paths without ids). Copies and backups have the id too, so that it proves nothing where several have it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from hyperslab.errors import BrokenLink, ExternalLinkRefused, HyperslabError, Invalid
from hyperslab.formats.documents import object_or_empty, read_json, text_or_none
from hyperslab.model.refs import Pointer
from hyperslab.stores.credentials import redact
from hyperslab.stores.location import REMOTE, Location, Probe

Allowed = Sequence[str] | bool
_DOCUMENTS = ("zarr.json", ".zgroup")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
# A drive letter of Windows. It is absolute on every machine, and never a path below the dataset.
_DRIVE = re.compile(r"[A-Za-z]:(?=/|$)")
# The search by object_id opens each dataset of a folder: in larger folders nothing is searched, and the link is broken.
_MOST_NEIGHBOURS = 1000
# Of several datasets with one object_id an error lists so many.
_MOST_NAMES = 5
_ALLOW = "name its folder or URL by allow_external=[...] (--allow-external), or True (any) for all"
_UNPACK = "a store object and an archive have no places beside them: unpack it, or open it by its path or URL"
_BRING = "bring it back to its place, or beside this one"


@dataclass(frozen=True, slots=True)
class DatasetLocation:
    """The dataset at the end of a pointer. ``place``: None for the dataset that the pointer stands in.

    ``explanation``: why it is not the place that ``source`` names, where nothing is. ``is_certain``: no other may be
    meant.
    """

    place: Location | None
    explanation: str = ""
    is_certain: bool = True


def find_dataset(where: Location, pointer: Pointer, *, root_id: str | None, allow: Allowed = ()) -> DatasetLocation:
    """Find the dataset that a pointer read at ``where`` leads to.

    ``root_id``: the ``object_id`` of its root. ``allow``: folders and URLs that it may lead to besides, True for all.
    BrokenLink where there is no such dataset or several may be meant, ExternalLinkRefused where it would be at a place
    that is not allowed: of what is there nothing was read.
    """
    source, object_id = pointer.source, pointer.source_object_id
    if normalize_source(source) in ("", "."):
        return DatasetLocation(None)
    if not _is_name(source):
        raise BrokenLink(f"{redact(source)!r} names no dataset", url=where.url, remedy="link to it anew")
    search = _Search(where, _parse_allowed(allow))
    refused = ExternalLinkRefused(
        f"{redact(source)!r} leads to a place that is not allowed",
        url=where.url,
        remedy=_UNPACK if where.scheme in ("zip", "store") else _ALLOW,
    )
    for candidate in search.list_candidates(source):
        if candidate is None:  # what is not allowed stays refused, whatever else the source may mean
            raise refused
        if search.is_here(candidate) or is_dataset(candidate):
            return DatasetLocation(None if search.is_here(candidate) else candidate)
    found = (
        search.find_by_name(source) if object_id is None else search.find_by_id(source, object_id, object_id == root_id)
    )
    if found is None and search.is_refused:
        raise refused
    if found is None:
        tried = "" if object_id is None else f", nor one beside this one with the object_id {object_id}"
        raise BrokenLink(f"there is no dataset {redact(source)!r}{tried}", url=where.url, remedy=_BRING)
    return found


def _is_name(source: str) -> bool:
    """Return True if a file system can have the name: without NUL, and text that has an encoding."""
    try:
        return b"\0" not in source.encode()
    except UnicodeEncodeError:
        return False


def normalize_source(source: str) -> str:
    """Return a source with single slashes between names, also where a writer under Windows had backslashes."""
    text = source.replace("\\", "/")
    return text if _URL.match(text) or not text else posixpath.normpath(text)


def is_absolute(source: str) -> bool:
    """Return True if a source names a place wherever the dataset is."""
    return bool(source.startswith("/") or _URL.match(source) or _DRIVE.match(source))


@dataclass
class _Search:
    """The search for one pointer's dataset; ``is_refused``: a place where nothing is was not allowed either."""

    where: Location
    allow: Sequence[str] | None
    is_refused: bool = False

    def list_candidates(self, source: str) -> Iterator[Location | None]:
        """Yield the places that `source` may mean, None for one that must not be read."""
        text = normalize_source(source)
        if is_absolute(text):
            yield from self._absolute(text)
            return
        is_own_name = text == self.where.name
        place = self.where.at(text)
        if place is not None or not is_own_name:
            yield from self._check_place(place)
        if is_own_name:
            yield self.where  # as 0.10 spelled "here"
        if (neighbour := self._resolve_allowed(self.where.at(f"../{text}"))) is not None:
            yield neighbour

    def _absolute(self, text: str) -> Iterator[Location | None]:
        """Yield the place of an absolute source. One in the network gets the options of this one on the same server
        only."""
        if os.name != "nt" and _DRIVE.match(text):  # a machine without drives has no such place
            self.is_refused = True
            return
        try:
            if (match := _URL.match(text)) is None:
                yield from self._check_place(Location.of(text))
            elif _has_parent_steps(text):
                yield None
            else:
                same = _server(text) == _server(str(self.where.target)) and match[1].lower() in REMOTE
                yield from self._check_place(Location.of(text, dict(self.where.options) if same else None))
        except HyperslabError:
            yield None

    def _check_place(self, place: Location | None) -> Iterator[Location | None]:
        """Yield the place, None for one that is not allowed; nothing for a path of this machine that does not exist."""
        confined = self._resolve_allowed(place)
        if confined is None and place is not None and _is_missing(place):
            self.is_refused = True
            return
        yield confined

    def _resolve_allowed(self, place: Location | None) -> Location | None:
        """Resolve symbolic links of a place; return None where there is none, or it is not allowed."""
        if place is None:
            return None
        if place.path is None:
            return place if self._is_allowed_url(place) else None
        # Checked twice. As it is spelled, since nothing outside of the allowed folders may be looked at; and as
        # symbolic links resolve it, since one inside of them may lead out.
        if place.scheme not in ("file", "zip") or not self._is_allowed_path(place.path, resolved=False):
            return None
        try:
            real = os.path.realpath(place.path)
        except (OSError, ValueError):
            return None
        return Location.of(real) if self._is_allowed_path(real, resolved=True) else None

    def _is_allowed_path(self, path: str, *, resolved: bool) -> bool:
        """Return True if a path is below the folder of this dataset, or in an allowed one. ``resolved``: without
        symbolic links."""
        if self.allow is None:
            return True
        own = self.where.path if self.where.scheme == "file" else None
        spelled = [] if own is None else [os.path.abspath(own), os.path.realpath(own)]
        folders = {os.path.dirname(each) for each in spelled}
        if resolved:
            folders = {os.path.realpath(folder) for folder in folders}
        if any(_is_below(path, folder) for folder in folders if folder != os.path.dirname(folder)):
            return True
        if any(_is_in(path, each) for each in spelled):
            return True
        roots = [root for root in self.allow if not _URL.match(root)]
        real = [os.path.realpath(root) for root in roots]
        return any(_is_in(path, root) for root in (real if resolved else [*map(os.path.abspath, roots), *real]))

    def _is_allowed_url(self, place: Location) -> bool:
        if self.allow is None:
            return True
        here, there = self.where, str(place.target)
        if place.scheme == here.scheme:
            above = posixpath.dirname(str(here.target).rstrip("/"))
            if place.scheme == "memory" and (not above or there.startswith(f"{above}/")):
                return True
            if above.partition("://")[2] and there.startswith(f"{above}/"):
                return True
        spelled = f"memory://{there}" if place.scheme == "memory" else there
        roots = [root.rstrip("/") for root in self.allow if _URL.match(root)]
        return any(spelled == root or spelled.startswith(f"{root}/") for root in roots)

    def is_here(self, place: Location) -> bool:
        """Return True if it is this dataset."""
        if place.path is None or self.where.path is None:
            targets = [str(each.target).rstrip("/") for each in (place, self.where)]
            return place.scheme == self.where.scheme and targets[0] == targets[1]
        return os.path.realpath(place.path) == os.path.realpath(self.where.path)

    def find_by_id(self, source: str, object_id: str, is_own: bool) -> DatasetLocation | None:
        """Return the one dataset of this folder whose root calls itself ``object_id``; ``is_own``: this one does."""
        others = [place for place in self._neighbours() if root_id_of(place) == object_id]
        why = f"nothing is at {redact(source)!r}; by the object_id {object_id} of its root"
        if is_own:
            return DatasetLocation(None, f"{why} this dataset is taken", is_certain=not others)
        if len(others) > 1:
            names = ", ".join(sorted(place.name for place in others)[:_MOST_NAMES])
            message = (
                f"there is no dataset {redact(source)!r}, and {len(others)} have the object_id {object_id}: {names}"
            )
            raise BrokenLink(message, url=self.where.url, remedy="link to the one that is meant")
        return DatasetLocation(others[0], f"{why} {others[0].url} is taken") if others else None

    def find_by_name(self, source: str) -> DatasetLocation | None:
        """Return the dataset of this folder that has the name of the source."""
        name = posixpath.basename(normalize_source(source).rstrip("/"))
        if name in ("", ".", ".."):
            return None
        why = f"nothing is at {redact(source)!r}; by its name"
        if name == self.where.name:
            return DatasetLocation(None, f"{why} this dataset is taken")
        place = self._resolve_allowed(self.where.at(f"../{name}"))
        if place is None or not is_dataset(place):
            return None
        if self.is_here(place):
            return DatasetLocation(None, f"{why} this dataset is taken")
        return DatasetLocation(place, f"{why} {place.url} is taken")

    def _neighbours(self) -> Iterator[Location]:
        folder = self.where.at("..")
        if folder is None or folder.scheme == "memory":
            return
        try:
            names = folder.store(read_only=True).list_dir("")[1]
        except HyperslabError:
            return
        for name in names if len(names) <= _MOST_NEIGHBOURS else ():  # of more nobody knows which is the only one
            confined = self._resolve_allowed(self.where.at(f"../{name}"))
            if confined is not None and not self.is_here(confined):
                yield confined


def _parse_allowed(allow: Allowed) -> Sequence[str] | None:
    """Return the allowed places, None for all; Invalid for anything but text."""
    if isinstance(allow, bool):
        return None if allow else ()
    roots = [allow] if isinstance(allow, str | os.PathLike) else list(allow)
    if not all(isinstance(root, str | os.PathLike) and os.fspath(root) for root in roots):
        raise Invalid(f"allow_external={allow!r}", remedy="give True, a folder or URL, or a list of them")
    return [os.fsdecode(root) for root in roots]


def _server(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme.lower()}://{rest.partition('/')[0].lower()}"


def _has_parent_steps(url: str) -> bool:
    """Return True if a part of its path is ``..``, spelled in any way that a server may understand."""
    return not {".", ".."}.isdisjoint(re.split(r"[/\\]", unquote(unquote(url))))


def _is_in(path: str, folder: str) -> bool:
    return os.path.normcase(path) == os.path.normcase(folder) or _is_below(path, folder)


def _is_below(path: str, folder: str) -> bool:
    try:
        return path != folder and os.path.commonpath([path, folder]) == os.path.normpath(folder)
    except ValueError:  # on another drive
        return False


def _is_missing(place: Location) -> bool:
    """Return True if nothing is at a path of this machine. Only its name is looked at, so an error means that it may be
    there."""
    if place.path is None:
        return False
    try:
        os.lstat(place.path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def is_dataset(place: Location) -> bool:
    """Return True if a Zarr hierarchy begins there."""
    try:
        if place.path is not None and not os.path.exists(place.path):
            return False
        probe = Probe(place)
        return any(probe.get(key) is not None for key in _DOCUMENTS)
    except (HyperslabError, OSError, ValueError):
        return False


def root_id_of(place: Location) -> str | None:
    """Return the ``object_id`` of a dataset's root; None where it has none or is no dataset."""
    try:
        probe = Probe(place)
        document = object_or_empty(read_json(probe.get("zarr.json") or b"{}"))
        attrs = document.get("attributes") if document else read_json(probe.get(".zattrs") or b"{}")
    except (HyperslabError, OSError, ValueError):
        return None
    return text_or_none(object_or_empty(attrs).get("object_id"))
