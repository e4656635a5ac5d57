"""True if a conversion would write into what it reads, however the two places are spelled."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from hyperslab.errors import Invalid
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.location import Location, Several
from hyperslab.stores.zip import ZipStore

_ELSEWHERE = "choose another target, and put it in the source's place yourself afterwards"


def refuse_overlap(source: Location, target: Location) -> None:
    """Invalid when both are one place, or one lies within the other."""
    there = _parts(target)
    for place in source.target.places if isinstance(source.target, Several) else (source,):
        here = _parts(place)
        if here == there:
            raise Invalid("the source and the target are the same place", url=target.url, remedy=_ELSEWHERE)
        if there[: len(here)] == here:
            raise Invalid("the target lies within the source", url=target.url, remedy=_ELSEWHERE)
        if here[: len(there)] == there:
            message = f"the source {place.url} lies within the target"
            raise Invalid(message, url=target.url, remedy=_ELSEWHERE)


def _parts(where: Location) -> tuple[str, ...]:
    """What tells a place from others, from the widest to the narrowest: symbolic links are followed, the endings of
    URLs and those who log in do not count."""
    store = where.target if where.scheme == "store" else None
    if isinstance(store, DirectoryStore | ZipStore):
        return _parts(Location.of(store.url))
    if where.path is not None:
        return ("file", *os.path.realpath(where.path).split(os.sep))
    if store is not None:
        return ("store", str(id(store)))
    if where.scheme == "memory":
        return ("memory", *where.target.strip("/").split("/"))
    url = urlsplit(where.target)
    host = url.netloc.rpartition("@")[2]
    server = where.scheme, str(where.options.get("endpoint", "")), host
    return (
        *server,
        *(part for part in unquote(url.path).split("/") if part),
        *([url.fragment] if url.fragment else []),
    )
