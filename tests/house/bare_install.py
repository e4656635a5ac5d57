"""A child process that plays a bare installation: modules of extras cannot be imported. It tries a table of calls and
commands, and prints what each came to as JSON.

Usage: python bare_install.py FOLDER BLOCKED,BLOCKED… TABLE   (TABLE: "core", "missing" or "beside")
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
from typing import Any

CELLS = range(12)


class Without:
    """A finder of modules that finds none of these packages, as if they were not installed."""

    def __init__(self, real: Any, names: set[str]) -> None:
        self._real = real
        self._names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in self._names else self._real.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def command(line: str) -> tuple[int, str]:
    """The exit code of ``hyperslab LINE``, and what it wrote."""
    from hyperslab.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(line.split())
        except SystemExit as end:
            return int(end.code or 0), said.getvalue()
    return 0, said.getvalue()


def made(path: str = "a.zarr") -> Any:
    """A small dataset with labels."""
    import numpy as np

    import hyperslab as hs

    with hs.create(path, "zarr3", durable=False) as root:
        root.create_array("t", data=np.array(CELLS, "f4").reshape(3, 4), dims=("x", "y"), chunks=(2, 2))
        root.create_array("x", data=np.array([10.0, 20.0, 30.0]), dims=("x",))
    return hs.open(path)


def core() -> dict[str, Callable[[], Any]]:
    """What needs no extra at all."""
    import hyperslab as hs

    def changed() -> Any:
        with hs.open("a.zarr", "r+") as root:
            root["t"][0, 0] = 99
        return float(hs.open("a.zarr")["t"][0, 0])

    def through(target: str, **options: Any) -> Any:
        hs.convert("a.zarr", target, **options)
        found = hs.open_group(target)["t"]
        return [float(cell) for cell in found[1]]

    ways = {
        "open": lambda: hs.open("a.zarr")["t"].sel(x=20.0).tolist(),
        "write": changed,
        "check": lambda: len(hs.check("a.zarr", deep=True)),
        "diff": lambda: bool(hs.diff("a.zarr", "a.zarr")),
        "list_formats": lambda: len(hs.list_formats()) >= 11,
        "html": lambda: "<div" in hs.open("a.zarr")._repr_html_(),
    }
    for name, options in {
        "zarr2": {},
        "nczarr": {},
        "hdmf": {},
        "collections": {},
        "bloscpack": {"path": "t"},
        "blaze": {"path": "t"},
    }.items():
        ways[f"convert {name}"] = lambda name=name, options=options: through(f"c-{name}", format=name, **options)
    lines = ["--help", "--version", "info a.zarr", "tree a.zarr", "get a.zarr t -s x=20.0", "dump a.zarr", "doctor"]
    lines += ["plan a.zarr t -s x=20.0", "check a.zarr --deep", "repair a.zarr", "formats", "get a.zarr t -o t.npy"]
    return ways | {line: lambda line=line: command(line)[0] for line in lines}


def missing() -> dict[str, Callable[[], Any]]:
    """What needs an extra, as ``extra: what is done`` or, of the command line, ``extra: hyperslab …``."""
    import numpy as np

    import hyperslab as hs
    from hyperslab.database import ArraySchema, Client, DimensionSchema

    root = hs.open("a.zarr")

    def collection() -> Any:
        schema = ArraySchema([DimensionSchema("x", 3)], float)
        return Client("own").create_collection("c", schema).create()[:].update(np.arange(3.0))

    def in_deker() -> Any:
        schema = ArraySchema([DimensionSchema("x", 3)], float)
        return Client("dk").create_collection("c", schema, layout="deker").create()[:].update(np.arange(3.0))

    collection()
    subset = next(iter(Client("own").get_collection("c")))[:]
    ways = {
        "web: serve": lambda: hs.serve("a.zarr"),
        "netcdf: create": lambda: hs.create("n.nc"),
        "netcdf: open": lambda: hs.open("there.nc"),
        "netcdf: convert": lambda: hs.convert("a.zarr", "c.nc"),
        "netcdf: save": lambda: hs.save("s.nc", np.arange(3)),
        "b2nd: create": lambda: hs.create("n.b2nd").create_array("a", data=np.arange(3)),
        "b2nd: open": lambda: hs.open("there.b2nd"),
        "b2nd: convert": lambda: hs.convert("a.zarr", "c.b2nd", path="t"),
        "mongo: open": lambda: hs.open("mongodb://127.0.0.1:1/x#a"),
        "mongo: create": lambda: hs.create("mongodb://127.0.0.1:1/x#a"),
        "mongo: convert": lambda: hs.convert("a.zarr", "mongodb://127.0.0.1:1/x#a"),
        "mongo: the face": lambda: __import__("hyperslab.mongo"),
        "cloud: open s3": lambda: hs.open("s3://bucket/a.zarr"),
        "cloud: open https": lambda: hs.open("https://127.0.0.1:1/a.zarr"),
        "cloud: create": lambda: hs.create("gs://bucket/a.zarr"),
        "cloud: convert": lambda: hs.convert("a.zarr", "az://bucket/a.zarr"),
        "icechunk: open": lambda: hs.open("icechunk+s3://bucket/air"),
        "icechunk: convert": lambda: hs.convert("a.zarr", "icechunk+gs://bucket/air"),
        "icechunk: history": lambda: hs.history("icechunk+az://bucket/air"),
        "icechunk: commit": lambda: hs.commit("icechunk+s3://bucket/air", "more").__enter__(),
        "hdf5: convert to deker": lambda: hs.convert("a.zarr", "dk2", format="deker"),
        "hdf5: a collection of deker's": in_deker,
        "hdmf: the face": lambda: __import__("hyperslab.hdmf"),
        "xarray: of a group": lambda: root.to_xarray(),
        "xarray: a tree": lambda: root.to_datatree(),
        "xarray: of an array": lambda: root["t"].to_xarray(),
        "xarray: of a subset": lambda: subset.read_xarray(),
        "dask: of an array": lambda: root["t"].to_dask(),
        "sparse: of an array": lambda: root["t"].to_sparse(),
        "pint: a Quantity": lambda: __import__("hyperslab.bridges.pint").bridges.pint.join(1.0, "metre"),
        "dtypes: a new array": lambda: hs.create("memory://q").create_array("a", shape=(2,), dtype="bfloat16"),
        "dtypes: an array that is there": lambda: hs.open("small.zarr")["a"][...],
        "codecs: pcodec": lambda: hs.convert("a.zarr", "p.zarr", codec="pcodec"),
        "codecs: a new array": lambda: hs.create("memory://z").create_array(
            "a", data=np.arange(4.0), codec={"name": "zfpy", "configuration": {"mode": 4, "tolerance": 0.1}}
        ),
    }
    lines = {
        "netcdf": ["info there.nc", "convert a.zarr d.nc", "get a.zarr t -o t.nc"],
        "b2nd": ["info there.b2nd", "convert a.zarr d.b2nd --path t"],
        "mongo": [
            "info mongodb://127.0.0.1:1/x#a",
            "check mongodb://127.0.0.1:1/x#a",
            "db list mongodb://127.0.0.1:1/x",
        ],
        "cloud": ["info s3://bucket/a.zarr", "convert a.zarr s3://bucket/a.zarr"],
        "icechunk": ["info icechunk+s3://bucket/air", "convert a.zarr icechunk+s3://bucket/air"],
        "hdf5": ["convert a.zarr dk3 --format deker"],
        "plot": ["plot a.zarr t -o t.png"],
        "codecs": ["convert a.zarr e.zarr --codec pcodec"],
        "tour": ["tour"],
        "web": ["serve a.zarr"],
    }
    for extra, some in lines.items():
        ways |= {f"{extra}: hyperslab {line}": lambda line=line: command(line) for line in some}
    return ways


def beside() -> dict[str, Callable[[], Any]]:
    """What needs dask where xarray is there."""
    import hyperslab as hs

    root = hs.open("a.zarr")
    return {
        "dask: chunks of a Dataset": lambda: root.to_xarray(chunks={}),
        "dask: chunks of a tree": lambda: root.to_datatree(chunks={}),
        "dask: chunks of a DataArray": lambda: root["t"].to_xarray(chunks={}),
        "sparse: of an array": lambda: root["t"].to_sparse(),
    }


def outcome(way: Callable[[], Any]) -> Any:
    """What a call gives, or the kind of its error and what that says."""
    try:
        given = way()
    except Exception as error:
        return [[kind.__name__ for kind in type(error).__mro__], str(error)]
    return given if isinstance(given, int | float | list | tuple | bool) else repr(given)


def main() -> None:
    """Try one table."""
    folder, blocked, table = sys.argv[1:4]
    os.chdir(folder)
    sys.meta_path[:] = [Without(finder, set(blocked.split(","))) for finder in sys.meta_path]
    made()
    tables = {"core": core, "missing": missing, "beside": beside}
    results = {name: outcome(way) for name, way in tables[table]().items()}
    loaded = sorted({name.partition(".")[0] for name in sys.modules})
    print(json.dumps({"results": results, "loaded": loaded}))


if __name__ == "__main__":
    main()
