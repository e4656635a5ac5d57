"""MongoDB: put and get an object of 256 MiB, against xarray_mongodb and against the driver alone."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np
import pymongo
import xarray as xr
import xarray_mongodb  # before any client is made: it changes how clients are pickled

from benchmarks.harness import OURS, Contender, Row, Target
from hyperslab.mongo import XarrayMongoDB

TITLE = "MongoDB: one object"
_DEFAULT, _LARGE = 255 * 1024, 1_048_576 - 1024
_PUTTING = (
    "the server, which takes 0.8 of 1.05 s of CPU for 256 MiB on the two cores that all share, whoever sends, and the "
    "disk under its journal. hyperslab waits for that once, before the object is found (13 flushes, as many as the "
    "server makes by itself in that time; 63 when each block waited), xarray_mongodb never. "
    'layout="extended" asks the server besides whether every byte is there, 0.03 s of its CPU.'
)
_GETTING = (
    "the driver alone needs two thirds of the time to receive and decode the documents; the rest is one copy of each "
    "into the result."
)
_LAZILY = (
    "the server's and the driver's work is the same, one query for each block; the rest is dask, which puts the "
    'blocks together, for both. layout="extended" asks the server first whether every byte is there, 0.03 s; without '
    "that both take as long (106 and 104 ms for 64 MiB on an idle disk)."
)
_DURABLE = pymongo.WriteConcern(j=True)

Database = pymongo.database.Database[Any]


def rows(folder: Path, side: int) -> Iterator[Row]:
    """Blocks of 4 MiB in documents as xarray_mongodb cuts them, then in those of layout="extended"."""
    values = np.random.default_rng(5).standard_normal((side // 2, side))
    blocks = dask.array.from_array(values, chunks=(512, 1024), name="benchmark")
    lazy = xr.DataArray(blocks, dims=("y", "x"))
    with _server(folder) as client:
        for segment, title, options in (
            (_DEFAULT, "documents of 255 KiB", {}),
            (_LARGE, 'layout="extended", documents of 1 MiB', {"layout": "extended"}),
        ):
            yield from _mode(client, lazy, values, segment, title, options)


def _mode(
    client: pymongo.MongoClient[Any], lazy: xr.DataArray, values: Any, segment: int, title: str, options: dict[str, Any]
) -> Iterator[Row]:
    databases = {name: client[f"{name.partition(' ')[0]}{segment}"] for name in (OURS, "xarray_mongodb", "raw pymongo")}
    handles: dict[str, Any] = {}

    def renew(name: str) -> None:
        """Leave collections and indexes as the contender makes them, with a small object; open anew."""
        client.drop_database(databases[name].name)
        if name == OURS:
            handles[name] = XarrayMongoDB(databases[name], **options)
        elif name == "xarray_mongodb":
            handles[name] = xarray_mongodb.XarrayMongoDB(databases[name], chunk_size_bytes=segment)
        if name in handles:
            _put(handles[name], xr.DataArray(dask.array.zeros((4, 4)), dims=("y", "x")))
        else:
            _put_raw(databases[name], values[:512, :1024], segment)
            databases[name]["xarray.chunks"].delete_many({})

    raw = databases["raw pymongo"]
    size = f"{values.nbytes >> 20} MiB float64, 4 MiB blocks, {title}"
    putters = {
        OURS: lambda: _put(handles[OURS], lazy),
        "xarray_mongodb": lambda: _put(handles["xarray_mongodb"], lazy),
        "raw pymongo": lambda: _put_raw(raw, values, segment),
    }
    raw_too = lambda bound: (Target("xarray_mongodb", 2.0, bound), Target("raw pymongo", 0.8, bound))  # noqa: E731
    contenders = [Contender(name, put, before=partial(renew, name)) for name, put in putters.items()]
    getters: dict[str, Callable[[Any], Any]] = {
        OURS: lambda _id: handles[OURS].get(_id, load=True).values,
        "xarray_mongodb": lambda _id: handles["xarray_mongodb"].get(_id, load=True).values,
        "raw pymongo": lambda _id: _get_raw(raw, values.shape),
    }
    yield Row(
        f"put {size}", contenders, lambda name, _id: np.array_equal(getters[name](_id), values), raw_too(_PUTTING)
    )
    ids = {}
    for name, put in putters.items():
        renew(name)
        ids[name] = put()
    same = lambda _, got: np.array_equal(got, values)  # noqa: E731
    yield Row(
        f"get {size}", [Contender(n, partial(get, ids[n])) for n, get in getters.items()], same, raw_too(_GETTING)
    )
    lazily = [
        Contender(OURS, lambda: handles[OURS].get(ids[OURS]).compute().values),
        Contender("xarray_mongodb", lambda: handles["xarray_mongodb"].get(ids["xarray_mongodb"]).compute().values),
    ]
    yield Row(f"get lazily, then compute, {size}", lazily, same, [Target("xarray_mongodb", 2.0, _LAZILY)])


def _put(mongo: Any, lazy: xr.DataArray) -> Any:
    _id, future = mongo.put(lazy)
    future.compute()
    return _id


def _blocks(shape: tuple[int, int]) -> Iterator[tuple[slice, slice]]:
    for y, x in product(range(0, shape[0], 512), range(0, shape[1], 1024)):
        yield slice(y, y + 512), slice(x, x + 1024)


def _put_raw(database: Database, values: Any, segment: int) -> None:
    """The same documents by one thread, the driver seeing to the batches."""
    chunks = database.get_collection("xarray.chunks", write_concern=_DURABLE)

    def documents() -> Iterator[dict[str, Any]]:
        for number, block in enumerate(_blocks(values.shape)):
            data = values[block].tobytes()
            for n, start in enumerate(range(0, len(data), segment)):
                yield {"block": number, "n": n, "data": data[start : start + segment]}

    chunks.insert_many(documents(), ordered=False)


def _get_raw(database: Database, shape: tuple[int, int]) -> Any:
    """All documents by one query, joined block by block."""
    parts: dict[int, list[tuple[int, bytes]]] = {}
    for doc in database["xarray.chunks"].find({}, {"_id": 0}):
        parts.setdefault(doc["block"], []).append((doc["n"], doc["data"]))
    out = np.empty(shape)
    for number, block in enumerate(_blocks(shape)):
        data = b"".join(data for _, data in sorted(parts.pop(number)))
        out[block] = np.frombuffer(data).reshape(512, 1024)
    return out


@contextmanager
def _server(folder: Path) -> Iterator[pymongo.MongoClient[Any]]:
    """mongod on a free port of the loopback, with the cache that it would take by itself at most."""
    found = find_spec("fiftyone")
    assert found and found.submodule_search_locations
    program = Path(found.submodule_search_locations[0], "db", "bin", "mongod")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = folder / "mongod"
    home.mkdir()
    command = [program, "--dbpath", home, "--port", str(port), "--bind_ip", "127.0.0.1"]
    with subprocess.Popen([*command, "--wiredTigerCacheSizeGB", "2"], stdout=subprocess.DEVNULL) as process:
        try:
            with pymongo.MongoClient[Any]("127.0.0.1", port) as client:
                client.admin.command("ping")
                yield client
        finally:
            process.kill()
