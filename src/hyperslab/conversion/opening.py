"""The sessions of the two sides of a conversion, without a cache: every value is read or written once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from hyperslab import api
from hyperslab.api import Target
from hyperslab.array import Array
from hyperslab.array.session import OpenDataset, open_session
from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats.base import Mode
from hyperslab.group import Group
from hyperslab.stores.endpoints import Options
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore

NO_CACHE = Settings(cache_bytes=0)
_SETTINGS = [field.name for field in fields(Settings)]


def place_of_group(source: Target | Group) -> Any:
    """Return the place of a dataset that is open; a place as it is. Invalid for a group within a dataset, and for one
    that was opened in another way than its place says."""
    if not isinstance(source, Group):
        return source
    origin = source._session.origin
    if origin is None or source.path or origin.options:
        remedy = "give its place; of a group also path=, and the options that it was opened with"
        raise Invalid("this group is not all that its place says", url=source._session.url, remedy=remedy)
    return origin.where


@contextmanager
def dataset_session(
    place: Target | Location,
    mode: Mode = "r",
    *,
    format: str | None = None,
    storage_options: Options = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[OpenDataset]:
    """Open a dataset's session without a cache; closed afterwards, discarded where what was written is not whole.

    ``options``: those of the format, and settings such as ``workers``.
    """
    mine = {name: value for name, value in options.items() if name not in _SETTINGS}
    settings = Settings(**{**{name: options[name] for name in _SETTINGS if name in options}, "cache_bytes": 0})
    with _closing(open_session(Location.of(place, storage_options), mode, format, settings, mine)) as session:
        yield session


@contextmanager
def trial_session(
    format: str, where: Location, options: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[OpenDataset]:
    """Open an empty dataset that stands for one at ``where``, and is forgotten: in memory, or in a temporary folder for
    a format of one file. Errors name ``where``."""
    folder: str | None = None
    try:
        with ExitStack() as stack:
            try:
                target = stack.enter_context(dataset_session(MemoryStore(), "x", format=format, options=options))
            except HyperslabError as error:
                if where.scheme != "file" or not isinstance(error, Unsupported):
                    error.url = where.url
                    raise
                folder = stack.enter_context(TemporaryDirectory())
                trial = dataset_session(Path(folder) / "trial", "x", format=format, options=options)
                target = stack.enter_context(trial)
            yield target
    except HyperslabError as error:
        if folder is not None and error.url is not None and error.url.startswith(folder):
            error.url = where.url  # the temporary file means nothing to the caller
        raise


@contextmanager
def tree_session(
    place: Target | Location,
    mode: Mode = "r",
    *,
    storage_options: Options = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[tuple[OpenDataset, str]]:
    """Open a session as :func:`dataset_session` does; that of the tree, with the path, for an array's own place."""
    # open takes a location too
    where: Any = (Location.matching if mode == "r" else Location.of)(place, storage_options)
    node = api.open(where, mode, **{**options, "cache_bytes": 0})
    session = node._session
    path = node.path if isinstance(node, Array) and node.path != session.reader.main else ""
    with _closing(session):
        yield session, path


@contextmanager
def _closing(session: OpenDataset) -> Iterator[OpenDataset]:
    try:
        yield session
    except BaseException:
        session.reader.discard()
        raise
    session.reader.close()
