"""The sessions of the two sides of a conversion, without a cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hyperslab import api
from hyperslab.array.session import OpenDataset
from hyperslab.formats.base import Discards


@contextmanager
def opened(place: Any, **options: Any) -> Iterator[OpenDataset]:
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


def open_session(place: Any, **options: Any) -> OpenDataset:
    """A dataset's session without a cache, to be closed by the caller."""
    return api.open_alone(place, cache_bytes=0, **options)._session
