"""Where things lie in a DEKER collection: names computed from ids, keys and positions of tiles. Pure.

Paths are relative to the folder of the collection. An id's data lies below eight folders of one character each (its
first group) and one of the rest; a link to it lies below the values of its primary attributes, as Python's ``str``
spells them. What could lead out of the folder is refused where it is written and means nothing where it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from hyperslab.chunks.grid import Coords
from hyperslab.errors import SchemaError
from hyperslab.model.schemas.records import check_component, is_id

Kind = Literal["array", "varray"]
"""Arrays and tiles are HDF5 files, VArrays are JSON documents."""

SUFFIXES: dict[Kind, str] = {"array": ".hdf5", "varray": ".json"}
READ_LOCK, TILE_LOCK = ".arrayreadlock", ".varraylock"
FOLDERS = ("array_data", "array_symlinks", "varray_data", "varray_symlinks")

_is_position = re.compile(r"(?:0|[1-9][0-9]*)(?:-(?:0|[1-9][0-9]*))*").fullmatch


def data_path(kind: Kind, id: str) -> str:
    """The file of an array, tile or VArray."""
    first, _, rest = id.partition("-")
    return f"{kind}_data/{'/'.join(first)}/{rest}/{id}{SUFFIXES[kind]}"


def id_in(kind: Kind, name: str) -> str | None:
    """The id that a file or link of this kind is named by; None for any other name."""
    suffix = SUFFIXES[kind]
    stem = name.removesuffix(suffix)
    return stem if name.endswith(suffix) and is_id(stem) else None


def key_folder(kind: Kind, values: Iterable[object]) -> str:
    """The folder of the link of an array with these primary attributes, in the schema's order."""
    return "/".join([f"{kind}_symlinks", *map(component, values)])


def tile_folder(id: str, coords: Coords | None = None) -> str:
    """The folder of the link to a tile of a VArray; without ``coords`` the one above those of all its tiles."""
    return f"array_symlinks/{id}" if coords is None else f"array_symlinks/{id}/{'-'.join(map(str, coords))}"


def position_of(name: str) -> Coords | None:
    """The position that a tile's folder is named by; None for any other name, a negative position among them."""
    return tuple(map(int, name.split("-"))) if _is_position(name) else None


def component(value: object) -> str:
    """A primary attribute's value as a part of a path."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


def check_parts(values: Iterable[object]) -> None:
    """SchemaError for a key that would leave its folder, nest in another or be too long for a file system."""
    for value in values:
        check_component(component(value))


def are_safe(values: Iterable[object]) -> bool:
    """Return whether a link below these values lies where it should: in as many folders as there are values."""
    try:
        check_parts(values)
    except SchemaError:
        return False
    return True
