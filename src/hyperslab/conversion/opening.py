"""The sessions of the two sides of a conversion, without a cache: every value is read or written once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hyperslab import api
from hyperslab.array.session import OpenDataset
from hyperslab.stores.location import Location


@contextmanager
def dataset_session(place: api.Target | Location, **options: Any) -> Iterator[OpenDataset]:
    """Open a dataset's session without a cache; closed afterwards, discarded where what was written is not whole."""
    session = open_session(place, **options)
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
