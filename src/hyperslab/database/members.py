"""``collection.arrays`` and ``collection.varrays``: the arrays of a collection, and the tiles of those in tiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from hyperslab.database.arrays import Array, VArray
from hyperslab.database.filters import FilteredManager
from hyperslab.database.subsets import Subset
from hyperslab.database.tiles import stored_tiles
from hyperslab.errors import SchemaError, Unsupported

_OF_A_TILE = {"vid", "v_position"}


class Members(Protocol):
    """What a collection gives of its arrays."""

    def create(
        self,
        primary_attributes: Mapping[str, Any] | None = None,
        custom_attributes: Mapping[str, Any] | None = None,
        id_: str | None = None,
    ) -> Array: ...
    def filter(self, wanted: Mapping[str, Any]) -> FilteredManager: ...
    def __iter__(self) -> Iterator[Array]: ...
    def __len__(self) -> int: ...


class Manager:
    """The arrays of a collection: make one, look for some, go through all."""

    def __init__(self, collection: Members) -> None:
        self._collection = collection

    def create(
        self,
        primary_attributes: Mapping[str, Any] | None = None,
        custom_attributes: Mapping[str, Any] | None = None,
        id_: str | None = None,
    ) -> Array:
        """A new array, as :meth:`Collection.create` makes it."""
        return self._collection.create(primary_attributes, custom_attributes, id_)

    def filter(self, wanted: Mapping[str, Any]) -> FilteredManager:
        """Arrays by id, key or attributes, as :meth:`Collection.filter` finds them."""
        return self._collection.filter(wanted)

    def __iter__(self) -> Iterator[Array]:
        return iter(self._collection)

    def __len__(self) -> int:
        return len(self._collection)


class Tile:
    """One tile of a VArray that has data: which one it is, and its cells."""

    def __init__(self, array: VArray, position: tuple[int, ...]) -> None:
        self.array = array
        self.v_position = position

    @property
    def vid(self) -> str:
        """The id of the VArray."""
        return self.array.id

    @property
    def primary_attributes(self) -> dict[str, Any]:
        """Whose tile it is, and which one."""
        return {"vid": self.vid, "v_position": self.v_position}

    @property
    def subset(self) -> Subset:
        """Its cells, to be read, updated or cleared."""
        places = zip(self.v_position, self.array.arrays_shape, strict=True)
        return self.array[tuple(slice(place * length, (place + 1) * length) for place, length in places)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its cells along each dimension, those within the array."""
        return self.subset.shape

    def __repr__(self) -> str:
        return f"Tile(vid={self.vid!r}, v_position={self.v_position})"


class TileMembers:
    """The tiles that have data, of all the VArrays of a collection or those ``wanted``. Writing into VArrays makes
    them."""

    def __init__(self, collection: Members, wanted: Mapping[str, Any] | None = None) -> None:
        self._collection = collection
        self._wanted = dict(wanted or {})

    def create(self, *args: Any, **kwargs: Any) -> Tile:
        """Refused: a tile is made when cells of it are written."""
        raise Unsupported("tiles are not made one by one", remedy="update() the VArray that they belong to")

    def filter(self, wanted: Mapping[str, Any]) -> TileMembers:
        """Those of one VArray (``vid``), or those at one ``v_position``; SchemaError for anything else."""
        if not isinstance(wanted, Mapping) or not wanted.keys() <= _OF_A_TILE:
            raise SchemaError(f"a filter of tiles by {wanted!r}", remedy="give vid, v_position or both")
        return TileMembers(self._collection, {**self._wanted, **wanted})

    def first(self) -> Tile | None:
        """The first of them; None when there is none."""
        return next(iter(self), None)

    def last(self) -> Tile | None:
        """The last of them; None when there is none."""
        return next(iter([*self][-1:]), None)

    def __iter__(self) -> Iterator[Tile]:
        for array in self._collection:
            if isinstance(array, VArray) and self._wanted.get("vid", array.id) == array.id:
                places = stored_tiles(array.array)
                yield from (Tile(array, place) for place in places if self._wanted.get("v_position", place) == place)
