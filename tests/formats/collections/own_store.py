"""Collections of our own layout for tests, and the places that they lie in."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from hyperslab.chunks.settings import Settings
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.formats.collections.own.layout import LAYOUT, OwnCollectionStore
from hyperslab.model.schemas import (
    ArraySchema,
    AttributeSchema,
    DimensionSchema,
    HDF5Options,
    Record,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.model.schemas.arrays import check_new, new_id
from hyperslab.stores.location import Location

START = datetime(2023, 1, 1, tzinfo=UTC)
SETTINGS = Settings(durable=False, lock_timeout=20.0)
ATTRIBUTES = (
    AttributeSchema("dt", datetime, True),
    AttributeSchema("station", str, True),
    AttributeSchema("note", str, False),
    AttributeSchema("level", float, False),
)
DIMENSIONS = (
    TimeDimensionSchema("hour", 4, "$dt", timedelta(hours=1)),
    DimensionSchema("y", 6, scale=Scale(90.0, -0.5, "lat")),
    DimensionSchema("what", 2, labels=["t", "p"]),
)


def schema(**changes: Any) -> ArraySchema:
    """Arrays of shape (4, 6, 2) with a key of a time and a text."""
    return ArraySchema(**{"dimensions": DIMENSIONS, "dtype": float, "attributes": ATTRIBUTES} | changes)


def tiled(**changes: Any) -> VArraySchema:
    """The same in tiles of (2, 4, 2), which do not divide the shape."""
    said = {"dimensions": DIMENSIONS, "dtype": np.int32, "attributes": ATTRIBUTES, "arrays_shape": (2, 4, 2)}
    return VArraySchema(**said | changes)


def made(
    where: Location,
    what: ArraySchema | None = None,
    name: str = "weather",
    options: HDF5Options | None = None,
    settings: Settings = SETTINGS,
) -> OwnCollectionStore:
    """A new collection."""
    return LAYOUT.create(where, CollectionDocument(name, what or schema(), options), settings)


def opened(
    where: Location, name: str = "weather", *, writable: bool = True, durable: bool = False
) -> OwnCollectionStore:
    """The same opened again."""
    found = LAYOUT.open(where, name, replace(SETTINGS, durable=durable), writable=writable)
    assert found is not None
    return found


def record(number: int, station: str = "A", *, id: str | None = None, **custom: Any) -> Record:
    """A record of the schemas above."""
    key = {"dt": START + timedelta(days=number), "station": station}
    return Record(id or new_id(), *check_new(schema(), key, custom))


def key_of(found: Record) -> tuple[Any, ...]:
    """The values that it is found by."""
    return tuple(found.primary.values())


def ids(holding: OwnCollectionStore) -> set[str]:
    """The arrays that exist, by way of the listings."""
    listed = {id for part in holding.generations() for id in holding.list_part(part)}
    return {found.id for found in holding.filter_committed(holding.records(listed))}


def kinds(holding: OwnCollectionStore, *, deep: bool = False) -> list[str]:
    """The kinds of problems of a collection."""
    return sorted(remedy.problem.kind for remedy in holding.find_damage(deep=deep))


def repair(holding: OwnCollectionStore, *, deep: bool = False) -> None:
    """Do all that its remedies do."""
    for remedy in list(holding.find_damage(deep=deep)):
        if remedy.act is not None:
            remedy.act()
