"""The two sides of a conversion: where they are, and their sessions without a cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hyperslab import api
from hyperslab.array.session import Session
from hyperslab.formats.base import Discards
from hyperslab.stores.location import Location

_OWN = ("file", "zip", "memory", "store")


def located(target: Any, storage_options: Mapping[str, Any] | None) -> Location:
    """The place; ``storage_options`` are for those in the network."""
    where = Location.of(target)
    return where if where.scheme in _OWN or not storage_options else Location.of(target, storage_options)


@contextmanager
def opened(place: Any, **options: Any) -> Iterator[Session]:
    """A dataset's session without a cache; closed afterwards, or discarded where what was written is not whole."""
    session = open_session(place, **options)
    try:
        yield session
    except BaseException:
        if isinstance(session.reader, Discards):
            session.reader.discard()
        else:
            session.reader.close()
        raise
    session.reader.close()


def open_session(place: Any, **options: Any) -> Session:
    """A dataset's session without a cache, to be closed by the caller."""
    return api.open(place, cache_bytes=0, **options)._session
