"""Makes, reads, finds and slices the arrays of collections, told by lines of JSON: ``[name, arguments...]``.

Runs in the Python of DEKER, which has no hyperslab: both are called by the same names. Each answer is a line of JSON.
"""

from __future__ import annotations

import gc
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from benchmarks.answering import answer

OURS = sys.argv[1] != "deker"
if OURS:
    import hyperslab.database as peer
else:
    import deker as peer

START = datetime(2020, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - DEKER's Python may be 3.9
SIDE = 2896  # cells along each side of a tiled array: 64 MiB of float64
TILES = 8


def field(side: int) -> np.ndarray[Any, Any]:
    """Smooth data plus noise."""
    rows = np.sin(np.arange(side) / 300)[:, None] * 20 + np.cos(np.arange(side) / 200)
    return rows + np.random.default_rng(7).integers(0, 100, (side, side)) / 100


def opened(path: str, durable: bool) -> Any:
    """A client, at its best documented setting."""
    return peer.Client(f"file://{path}", **({"durable": durable} if OURS else {"loglevel": "CRITICAL"}))


def dimensions(*sizes: int) -> list[Any]:
    """Plain dimensions."""
    return [peer.DimensionSchema(name=f"d{axis}", size=size) for axis, size in enumerate(sizes)]


class Child:
    """What is asked for, by name; the client stays open until it is closed."""

    def __init__(self) -> None:
        self._client: Any = None
        self._collection: Any = None
        self._array: Any = None
        self._cells: Any = None

    def begin(self, path: str, kind: str, name: str, durable: bool) -> None:
        """Have a new collection of records (``small``), of tiled arrays, or of arrays of 10,000 tiles (``many``)."""
        self.close()
        self._client = opened(path, durable)
        key = [
            peer.AttributeSchema(name="dt", dtype=datetime, primary=True),
            peer.AttributeSchema(name="station", dtype=str, primary=True),
        ]
        if kind == "small":
            schema = peer.ArraySchema(dimensions=dimensions(24), dtype=float, attributes=key)
        elif kind == "tiled":
            schema = peer.VArraySchema(dimensions=dimensions(SIDE, SIDE), dtype=float, vgrid=(TILES, TILES))
        else:
            schema = peer.VArraySchema(dimensions=dimensions(1000, 1000), dtype=float, vgrid=(100, 100))
        self._collection = self._client.create_collection(name, schema)
        if kind != "small":
            self._array = self._collection.create()
        if kind == "tiled":
            self._cells = field(SIDE) if self._cells is None else self._cells

    def open(self, path: str, name: str, durable: bool) -> None:
        """Open a collection of before."""
        self.close()
        self._client = opened(path, durable)
        self._collection = self._client.get_collection(name)

    def take(self) -> None:
        """The only array of the collection."""
        self._array = next(iter(self._collection))

    def create(self, first: int, count: int) -> None:
        """So many records, one by one."""
        for number in range(first, first + count):
            self._collection.create(primary_attributes=self.key(number))

    def create_many(self, first: int, count: int) -> None:
        """The same by one call, where there is one."""
        if not OURS:
            self.create(first, count)
        else:
            self._collection.create_many((self.key(number), None) for number in range(first, first + count))

    def key(self, number: int) -> dict[str, Any]:
        """The primary attributes of a record."""
        return {"dt": START + timedelta(hours=number), "station": f"S{number % 100:03d}"}

    def find(self, first: int, count: int) -> int:
        """Look so many records up by their keys, one by one."""
        found = [self._collection.filter(self.key(number)).first() for number in range(first, first + count)]
        return sum(each is not None for each in found)

    def query(self, first: int, hits: int) -> int:
        """The records of so many hours."""
        bounds = START + timedelta(hours=first), START + timedelta(hours=first + hits - 1)
        if OURS:
            return len(list(self._collection.query(dt=bounds)))
        return sum(bounds[0] <= each.primary_attributes["dt"] <= bounds[1] for each in self._collection)

    def write(self) -> None:
        """The whole of the tiled array."""
        self._array[:].update(self._cells)

    def read(self, *bounds: list[int]) -> list[float]:
        """A part of the tiled array (all of it without bounds); its first and last cell."""
        key = tuple(slice(*bound) for bound in bounds) or (slice(None),)
        cells = self._array[key].read()
        return [float(cells.flat[0]), float(cells.flat[-1])]

    def update(self, *bounds: list[int]) -> None:
        """Write a part of the tiled array."""
        key = tuple(slice(*bound) for bound in bounds)
        self._array[key].update(self._cells[key])

    def expected(self, *bounds: list[int]) -> list[float]:
        """What a read gives."""
        cells = self._cells[tuple(slice(*bound) for bound in bounds) or (slice(None),)]
        return [float(cells.flat[0]), float(cells.flat[-1])]

    def plan(self) -> int:
        """A lazy subset of the whole array; its cells."""
        shape = self._array[:].shape
        return int(np.prod(shape))

    def collect(self) -> None:
        """Collect garbage, outside of what is timed."""
        gc.collect()

    def close(self) -> None:
        """Close what is open."""
        if self._client is not None:
            self._client.close()
        self._client = self._collection = self._array = None
        self.collect()


if __name__ == "__main__":
    answer(Child())
