"""One library of arrays with attributes: ``python -m benchmarks.growing_databases_child NAME``, asked by lines of JSON.

Runs in the Python of hyperslab, of DEKER or of ArcticDB. All hold the same records: ten stations, each an hour, with 24
cells, and a number that stands in no key. In ArcticDB a record is a symbol named by station and hour, with the rest as
its metadata; in MongoDB an object with the same name, and all as attributes.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from benchmarks.answering import answer

START = datetime(2000, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - DEKER's Python may be 3.9
STATIONS, NAME, CELLS = 10, "records", 24
PATIENCE = 60.0  # what takes longer is not asked again
AT_ONCE = 500  # symbols of ArcticDB whose metadata is read by one call


def key(number: int) -> dict[str, Any]:
    """Return the primary attributes of a record."""
    return {"dt": START + timedelta(hours=number // STATIONS), "station": f"S{number % STATIONS}"}


def cells(number: int) -> Any:
    """Return the cells of a record."""
    return np.arange(float(CELLS)) + number


class Collections:
    """The collections of hyperslab or of DEKER, which are called by the same names."""

    def __init__(self, peer: Any, ours: bool) -> None:
        self._peer, self._ours = peer, ours
        self._records: Any = None

    def open(self, place: str, options: dict[str, Any], mode: str) -> None:
        """Open the database; ``mode`` is of hyperslab alone."""
        ours = {"durable": False, "mode": mode, "storage_options": options or None}
        self._client = self._peer.Client(place, **(ours if self._ours else {"loglevel": "CRITICAL"}))
        self._records = self._client.get_collection(NAME)

    def begin(self) -> None:
        """Make the collection."""
        attribute = self._peer.AttributeSchema
        attributes = [
            attribute(name="dt", dtype=datetime, primary=True),
            attribute(name="station", dtype=str, primary=True),
            attribute(name="run", dtype=int, primary=False),
        ]
        dimensions = [self._peer.DimensionSchema(name="x", size=CELLS)]
        schema = self._peer.ArraySchema(dimensions=dimensions, dtype=float, attributes=attributes)
        self._records = self._client.create_collection(NAME, schema)

    def add(self, numbers: range) -> None:
        """Make records."""
        if self._ours:
            arrays = self._records.create_many((key(number), {"run": number}) for number in numbers)
        else:
            arrays = [self._records.create(key(number), {"run": number}) for number in numbers]
        for array, number in zip(arrays, numbers):  # noqa: B905 - as of Python 3.9
            array[:].update(cells(number))

    def key(self, number: int) -> list[int]:
        """Read the cells of one by its key."""
        found = self._records.filter(key(number)).first()
        return [int(found[:].read()[0])]

    def range(self, low: int, count: int) -> list[int]:
        """Find those whose number lies in a range; it is in no key."""
        if self._ours:
            return [each.custom_attributes["run"] for each in self._records.query(run=(low, low + count - 1))]
        return sorted(number for number in self._numbers() if low <= number < low + count)

    def newest(self, count: int) -> list[int]:
        """Find the last ones."""
        if self._ours:
            return [each.custom_attributes["run"] for each in self._records.query(order="-dt", limit=count)]
        return sorted(self._numbers())[: -count - 1 : -1]

    def attribute(self, station: int, count: int) -> list[int]:
        """Find the first ones of a station."""
        if self._ours:
            found = self._records.query(station=f"S{station}", limit=count)
            return [each.custom_attributes["run"] for each in found]
        return sorted(number for number in self._numbers() if number % STATIONS == station)[:count]

    def _numbers(self) -> Iterable[int]:
        """Read all arrays, as one has to where nothing else finds them."""
        return (each.custom_attributes["run"] for each in self._records)


class Symbols:
    """A library of ArcticDB."""

    def __init__(self) -> None:
        import arcticdb
        import pandas

        self._arctic, self._pandas = arcticdb, pandas
        self._records: Any = None

    def open(self, place: str, options: dict[str, Any], mode: str) -> None:
        """Open the library, or make it."""
        self._records = self._arctic.Arctic(place).get_library(NAME, create_if_missing=mode != "r")

    def begin(self) -> None:
        """There is nothing else to make."""

    def add(self, numbers: range) -> None:
        """Write records."""
        payload = self._arctic.WritePayload
        self._records.write_batch(
            [
                payload(self._symbol(number), self._pandas.DataFrame({"x": cells(number)}), {"run": number})
                for number in numbers
            ]
        )

    def _symbol(self, number: int) -> str:
        return f"S{number % STATIONS}-{number // STATIONS:08d}"

    def key(self, number: int) -> list[int]:
        """Read the cells of one by its name."""
        return [int(self._records.read(self._symbol(number)).data["x"].iloc[0])]

    def range(self, low: int, count: int) -> list[int]:
        """Find those whose number lies in a range: it stands in the metadata, which is read of all."""
        found = self._numbers(self._records.list_symbols())
        return sorted(number for number in found if low <= number < low + count)

    def newest(self, count: int) -> list[int]:
        """Find the last ones by their names."""
        names = sorted(self._records.list_symbols(), key=lambda name: (name[3:], name))
        return [*self._numbers(names[: -count - 1 : -1])]

    def attribute(self, station: int, count: int) -> list[int]:
        """Find the first ones of a station by their names."""
        return [*self._numbers(sorted(self._records.list_symbols(regex=f"^S{station}-"))[:count])]

    def _numbers(self, names: list[str]) -> Iterable[int]:
        for start in range(0, len(names), AT_ONCE):
            for found in self._records.read_metadata_batch(names[start : start + AT_ONCE]):
                yield found.metadata["run"]


class Objects:
    """The objects of a MongoDB database, by hyperslab or, on the same documents, by xarray_mongodb: that has neither
    names nor queries, so that its user asks the documents, as its manual says."""

    def __init__(self, peer: Any, ours: bool) -> None:
        import pymongo
        import xarray

        self._example = xarray.DataArray(cells(0), dims="x", attrs=self._attrs(0)).chunk()  # what dask and it import
        self._peer, self._ours, self._connect = peer, ours, pymongo.MongoClient
        self._objects: Any = None

    def open(self, place: str, options: dict[str, Any], mode: str) -> None:
        """Connect to the server."""
        database = self._connect(place).get_default_database()
        self._meta = database.xarray.meta
        ours = {"search_index": ["station", "run"]} if self._ours else {}
        self._objects = self._peer.XarrayMongoDB(database, **ours)

    def begin(self) -> None:
        """Make the indexes with the first object, which the others are copies of."""
        _, future = self._objects.put(self._example, name=self._name(0))
        future.compute(scheduler="sync")

    def add(self, numbers: range) -> None:
        """Make records: the documents that ``put`` makes, many at a time."""
        from bson import ObjectId

        first = self._meta.find_one({"name": self._name(0)})
        chunks = self._meta.database.xarray.chunks
        chunk = chunks.find_one({"meta_id": first["_id"]})
        new = [(ObjectId(), number) for number in numbers if number]
        self._meta.insert_many(
            {**first, "_id": id, "name": self._name(number), "attrs": self._attrs(number)} for id, number in new
        )
        chunks.insert_many(
            {**chunk, "_id": ObjectId(), "meta_id": id, "data": cells(number).tobytes()} for id, number in new
        )

    def key(self, number: int) -> list[int]:
        """Read the cells of one by its name, or by its attributes."""
        if self._ours:
            return [int(self._objects.get(self._name(number), load=True)[0])]
        attrs = {f"attrs.{name}": value for name, value in self._attrs(number).items() if name != "run"}
        return [int(self._objects.get(self._meta.find_one(attrs)["_id"], load=True)[0])]

    def range(self, low: int, count: int) -> list[int]:
        """Find those whose number lies in a range."""
        if self._ours:
            return self._runs(self._objects.find({"run": slice(low, low + count - 1)}))
        within = {"$gte": low, "$lt": low + count}
        return self._runs_of_documents(self._meta.find({"attrs.run": within}).sort("_id"))

    def newest(self, count: int) -> list[int]:
        """Find the last ones."""
        if self._ours:
            return self._runs(self._objects.find(order="-created", limit=count))
        return self._runs_of_documents(self._meta.find().sort("_id", -1).limit(count))

    def attribute(self, station: int, count: int) -> list[int]:
        """Find the first ones of a station."""
        if self._ours:
            return self._runs(self._objects.find({"station": f"S{station}"}, limit=count))
        return self._runs_of_documents(self._meta.find({"attrs.station": f"S{station}"}).sort("_id").limit(count))

    def _name(self, number: int) -> str:
        return f"S{number % STATIONS}-{number // STATIONS:08d}"

    def _attrs(self, number: int) -> dict[str, Any]:
        return {**key(number), "run": number}

    def _runs(self, found: Iterable[Any]) -> list[int]:
        return [each.attrs["run"] for each in found]

    def _runs_of_documents(self, found: Iterable[Any]) -> list[int]:
        return [each["attrs"]["run"] for each in found]


class Requests:
    """Answer the requests of the benchmark, by their names."""

    def __init__(self, library: str) -> None:
        self._library: Any
        if library == "arcticdb":
            self._library = Symbols()
        elif library == "mongo":
            import hyperslab.mongo

            self._library = Objects(hyperslab.mongo, True)
        elif library == "xarray_mongodb":
            import xarray_mongodb

            self._library = Objects(xarray_mongodb, False)
        elif library == "deker":
            import deker

            self._library = Collections(deker, False)
        else:
            import hyperslab.database

            self._library = Collections(hyperslab.database, True)

    def build(self, place: str, options: dict[str, Any], first: int, stop: int) -> float:
        """Make records, the first ones with all that holds them; return the seconds."""
        began = time.perf_counter()
        self._library.open(place, options, "a")
        if first == 0:
            self._library.begin()
        for start in range(first, stop, 1000):
            self._library.add(range(start, min(start + 1000, stop)))
        return time.perf_counter() - began

    def ask(self, place: str, options: dict[str, Any], what: str, arguments: list[int], seconds: float) -> Any:
        """Open the database and ask; then ask again for so many seconds (0: not at all). Return the answer, the seconds
        of the first time and of the best one of all, and the megabytes of memory that were taken."""
        began = time.perf_counter()
        self._library.open(place, options, "r")
        question = getattr(self._library, what)
        answer, cold, others = question(*arguments), time.perf_counter() - began, list[float]()
        if cold > PATIENCE:
            seconds = 0.0
        while sum(others) < seconds:
            began = time.perf_counter()
            question(*arguments)
            others.append(time.perf_counter() - began)
        return answer, cold, min([cold, *others]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    answer(Requests(sys.argv[1]))
