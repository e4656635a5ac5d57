"""The sessions of the two sides of a conversion, without a cache: every value is read or written once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hyperslab import api
from hyperslab.array import Array
from hyperslab.array.session import OpenDataset
from hyperslab.stores.location import Location


@contextmanager
def dataset_session(place: api.Target | Location, **options: Any) -> Iterator[OpenDataset]:
    """Open a dataset's session without a cache; closed afterwards, discarded where what was written is not whole."""
    with _closing(open_session(place, **options)) as session:
        yield session


@contextmanager
def tree_session(place: api.Target, **options: Any) -> Iterator[tuple[OpenDataset, str]]:
    """Open a session as :func:`dataset_session` does; that of the tree, with the path, for an array's own place."""
    node = api.open(place, cache_bytes=0, **options)
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


def open_session(place: api.Target | Location, **options: Any) -> OpenDataset:
    """Return a dataset's session without a cache, to be closed by the caller."""
    target: Any = place  # ``open`` takes a Location too, which no user has
    return api.open_alone(target, cache_bytes=0, **options)._session
