"""The arrays of a collection that meet conditions, as ``hyperslab db query`` takes them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice

from hyperslab.database import Client
from hyperslab.database.typed_conditions import parse_conditions
from hyperslab.errors import CollectionNotFound, Invalid
from hyperslab.stores.location import Location
from hyperslab.web.bounded_values import cut_text

# Conditions of one request, and how far its matches may be leafed through: all before are looked at again.
_MOST_CONDITIONS, MOST_MATCHES = 32, 10_000


def find_matches(where: Location, name: str, conditions: Sequence[str], start: int, stop: int) -> list[str]:
    """Return the ids of the arrays of collection ``name`` that meet all conditions, in the order of their keys, from
    number ``start`` to before ``stop``. Invalid for what is no condition, or goes too far."""
    if len(conditions) > _MOST_CONDITIONS:
        raise Invalid("so many conditions", remedy=f"give at most {_MOST_CONDITIONS}")
    if stop > MOST_MATCHES + 1:
        raise Invalid(f"matches beyond the first {MOST_MATCHES:,}", remedy="narrow the conditions")
    level = logging.getLevelName(logging.getLogger("hyperslab").getEffectiveLevel())  # a client sets it otherwise
    place = where.url if where.path is None else where.path
    with Client(place, mode="r", storage_options=where.options, loglevel=level) as client:
        collection = client.get_collection(name)
        if collection is None:
            raise CollectionNotFound(f"no collection {cut_text(name, 60)[0]!r}", remedy="browse the database")
        found = collection.query(parse_conditions(collection, conditions), limit=stop)
        return [array.id for array in islice(found, start, stop)]
