"""Collections of arrays, for ``hyperslab db``: a client, a collection and an array of it, by what is typed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from hyperslab.cli.output import print_remark
from hyperslab.database import Array, Client, Collection
from hyperslab.database.typed_conditions import parse_conditions
from hyperslab.errors import CollectionNotFound, HyperslabError, Invalid, NodeNotFound
from hyperslab.formats.conditions import SYNTAX, is_condition, join_conditions
from hyperslab.formats.opening import nothing_at
from hyperslab.model.guessing import meant
from hyperslab.model.schemas.arrays import is_id
from hyperslab.stores.location import Location


@contextmanager
def open_client(url: str, storage: Mapping[str, object] | None, *, writable: bool = False) -> Iterator[Client]:
    """Open the collections at a URL, for reading unless ``writable``. Errors say where they are."""
    where = Location.of(url, storage)
    if not writable and where.path is not None and not where.exists():  # a client makes its folder when it writes
        raise nothing_at(where)
    try:
        level = logging.getLevelName(logging.getLogger("hyperslab").getEffectiveLevel())
        with Client(url, mode="a" if writable else "r", storage_options=storage, loglevel=level) as client:
            yield client
    except HyperslabError as error:
        raise error.locate(url=where.url) from error.__cause__


def tell_unreadable(url: str, collection: Collection) -> None:
    """Print how many arrays were left out since what is stored of them cannot be read."""
    if lost := collection.unreadable:
        arrays = "array that cannot be read is" if lost == 1 else "arrays that cannot be read are"
        print_remark(f"{lost} {arrays} left out of {collection.name}: hyperslab check {url} tells why")


def find_collection(client: Client, name: str, at: str | None = None) -> Collection:
    """Return the collection of this name, as of a moment if one is given; CollectionNotFound says which there are."""
    found = client.get_collection(name, at=at)
    if found is None:
        raise CollectionNotFound(f"no collection {name!r}", remedy=meant(name, (each.name for each in client)))
    return found


def names_id(wanted: Sequence[str]) -> bool:
    """Return True if an id is typed, False for conditions; Invalid for a word that is neither."""
    if len(wanted) != 1 or is_condition(wanted[0]):
        return False
    if not is_id(wanted[0]):
        remedy = f"{SYNTAX}; hyperslab db query lists arrays with their ids"
        raise Invalid(f"{wanted[0]!r} is no id, and no condition", remedy=remedy)
    return True


def find_database_array(collection: Collection, wanted: Sequence[str]) -> Array:
    """Return the one array that an id, or conditions, name. NodeNotFound; Invalid where there are several."""
    if names_id(wanted):
        return collection[wanted[0]]
    found = list(collection.query(parse_conditions(collection, join_conditions(wanted)), limit=2))
    if not found:
        said = f"no array of {collection.name!r} has {', '.join(wanted) or 'been made'}"
        raise NodeNotFound(said, remedy="hyperslab db arrays lists those that are there")
    if len(found) > 1:
        ids = ", ".join(array.id for array in found)
        said = (
            f"several arrays of {collection.name!r} have {', '.join(wanted)}" if wanted else "which array is not said"
        )
        raise Invalid(said, remedy=f"name one by its id or its key; there are {ids}, …")
    return found[0]
