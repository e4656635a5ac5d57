"""The collections that the tests of trust work on, in both layouts and both flavours."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.database import ArraySchema, AttributeSchema, Client, Collection, DimensionSchema, VArraySchema

WORKERS = 8
NAME = "shared"
DIMENSIONS = (DimensionSchema("y", 8), DimensionSchema("x", 16))
TILE = (4, 8)
ATTRIBUTES = (
    AttributeSchema("slot", int, True),
    AttributeSchema("station", str, True),
    AttributeSchema("note", str, False),
    *(AttributeSchema(f"w{number}", int, False) for number in range(WORKERS)),
)


def schema(flavour: str) -> ArraySchema:
    """Arrays of 8 x 16 cells, whole or in four tiles."""
    if flavour == "varray":
        return VArraySchema(DIMENSIONS, np.int64, ATTRIBUTES, fill_value=-1, arrays_shape=TILE)
    return ArraySchema(DIMENSIONS, np.int64, ATTRIBUTES, fill_value=-1)


def client(url: str, **options: Any) -> Client:
    """A client of the place; what it writes need not survive a power cut."""
    return Client(url, durable=False, workers=2, **options)


def made(url: str, layout: Any, flavour: str, *, keep_versions: bool = False, **options: Any) -> Collection:
    """A new collection with the array that all work on."""
    found = client(url, **options).create_collection(NAME, schema(flavour), layout=layout, keep_versions=keep_versions)
    found.create({"slot": -1, "station": "all"}, {"note": "begun"})
    return found


def opened(url: str, **options: Any) -> Collection:
    """The same in a client of its own."""
    found = client(url, **options).get_collection(NAME)
    assert found is not None
    return found


def key(slot: int) -> dict[str, Any]:
    """The primary attributes of one of the arrays that come and go."""
    return {"slot": slot, "station": f"s{slot % 3}"}


def pieces(cells: np.ndarray[Any, Any], layout: str, flavour: str) -> list[np.ndarray[Any, Any]]:
    """The parts of an array that one write gives all of their cells at one stroke."""
    if layout == "hyperslab" or flavour == "array":
        return [cells]
    return [part for rows in np.split(cells, 2) for part in np.split(rows, 2, axis=1)]
