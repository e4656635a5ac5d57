"""One of several processes that write single cells of one array: every n-th cell, one call for each.

Runs in any peer's Python: ``losing_child LIBRARY PLACE make|read|WORKER WORKERS CELLS``. Prints a line of JSON: what
``read`` finds, or the cells whose write was refused.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

CHUNKS = 4
Write = Callable[[int, float], None]


def hyperslab(place: str, cells: int, make: bool) -> tuple[Write, Callable[[], Any]]:
    """The array of hyperslab, at its defaults but for durability, which no peer but tensorstore has."""
    import hyperslab as hs

    if make:
        hs.save(place, np.zeros(cells), chunks=(cells // CHUNKS,))
    array = hs.open_array(place, mode="r+", path="data", durable=False)
    return array.__setitem__, lambda: array[...]


def zarr_python(place: str, cells: int, make: bool) -> tuple[Write, Callable[[], Any]]:
    """The array of zarr-python, at its defaults."""
    import zarr

    if make:
        zarr.create_array(place, shape=(cells,), chunks=(cells // CHUNKS,), dtype="f8")
    array = zarr.open_array(place, mode="r+")
    return array.__setitem__, lambda: array[...]


def tensorstore(place: str, cells: int, make: bool) -> tuple[Write, Callable[[], Any]]:
    """The array of tensorstore, at its defaults."""
    import tensorstore as ts

    grid = {"name": "regular", "configuration": {"chunk_shape": [cells // CHUNKS]}}
    metadata = {"metadata": {"shape": [cells], "data_type": "float64", "chunk_grid": grid}} if make else {}
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": place}, **metadata}
    array = ts.open(spec, create=make, open=not make).result()
    return (lambda cell, value: array[cell].write(value).result()), lambda: array[...].read().result()


def deker(place: str, cells: int, make: bool) -> tuple[Write, Callable[[], Any]]:
    """The only array of a collection of DEKER, at its defaults."""
    from deker import ArraySchema, Client, DimensionSchema

    client = Client(f"file://{place}", loglevel="CRITICAL")
    if make:
        schema = ArraySchema(dimensions=[DimensionSchema(name="x", size=cells)], dtype=float)
        client.create_collection("cells", schema).create()[:].update(np.zeros(cells))
    array = next(iter(client.get_collection("cells")))
    held = [client, array]  # a client that nobody holds is closed
    return (lambda cell, value: held[1][cell].update(value)), lambda: held[1][:].read()


KNOWN = {"hyperslab": hyperslab, "zarr-python": zarr_python, "tensorstore": tensorstore, "DEKER": deker}


def refused(write: Write, cells: range, place: str) -> list[int]:
    """Write each cell's number into it as soon as all may begin; those that raised."""
    found = []
    open(f"{place}.{cells.start}", "x").close()
    while not os.path.exists(f"{place}.go"):
        time.sleep(0.001)
    for cell in cells:
        try:
            write(cell, float(cell + 1))
        except Exception:
            found.append(cell)
    return found


def main(library: str, place: str, what: str, workers: int, cells: int) -> None:
    """Do one thing and print what came of it."""
    write, read = KNOWN[library](place, cells, what == "make")
    if what == "read":
        print(json.dumps(np.asarray(read()).tolist()))
    elif what != "make":
        print(json.dumps(refused(write, range(int(what), cells, workers), place)))


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
