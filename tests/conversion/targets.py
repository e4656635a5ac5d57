"""Targets of every kind whose mechanism differs: what is given to ``convert``, and all that lies there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from pymongo import MongoClient

import hyperslab as hs
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore

KINDS: dict[str, tuple[str, str]] = {
    "folder": ("zarr3", ".zarr"),
    "zip": ("zarr3", ".zarr.zip"),
    "zarr2": ("zarr2", ".zarr"),
    "hdmf": ("hdmf", ".nwb.zarr"),
    "nczarr": ("nczarr", ".nczarr"),
    "netcdf": ("netcdf", ".nc"),
    "bloscpack": ("bloscpack", ".blp"),
    "blaze": ("blaze", ".blaze"),
    "b2nd": ("b2nd", ".b2nd"),
    "collections": ("collections", ""),
    "deker": ("deker", ""),
    "memory": ("zarr3", ".zarr"),
    "s3": ("zarr3", ".zarr"),
    "mongo": ("mongo", ""),
}
"""The format, and the end of the name."""
TREES: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3"},
    "zarr2": {"format": "zarr2"},
    "netcdf": {"format": "netcdf"},
    "nczarr": {"format": "nczarr"},
    "hdmf": {"format": "hdmf", "profile": "v2"},
    "hdmf v3": {"format": "hdmf", "profile": "v3"},
    "draft": {"format": "nczarr", "dialect": "draft"},
    "collections": {"format": "collections"},
    "deker": {"format": "deker"},
}
"""Formats that hold groups, with the options of each variant."""
LOCAL = [kind for kind in KINDS if kind not in ("memory", "s3", "mongo")]
IN_PLACE = ("memory", "s3")
"""Stores without renames."""
ONE = ("bloscpack", "blaze", "b2nd")
"""Formats of one array."""
CELLS = np.arange(64.0).reshape(8, 8)
_NUMBERS = count()


@dataclass(frozen=True)
class Target:
    """Where to convert to, and how."""

    kind: str
    url: str
    storage: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def convert(self, source: Any, **more: Any) -> Any:
        """``convert`` into it."""
        given = {**self.options, "storage_options": (None, self.storage), **more}
        return hs.convert(source, self.url, KINDS[self.kind][0], **given)

    @property
    def words(self) -> list[str]:
        """The arguments of the command line."""
        given = [f"--dst-option={name}={value}" for name, value in (self.storage or {}).items()]
        path = [f"--path={self.options['path']}"] if "path" in self.options else []
        return [self.url, "--format", KINDS[self.kind][0], *path, *given]

    def open(self) -> Any:
        """The dataset as a group."""
        return hs.open_group(self.url, storage_options=self.storage)

    def lies(self) -> dict[str, Any]:
        """All that lies there and beside it, by name."""
        if self.kind == "mongo":
            return dict(_documents(self.url))
        if self.kind in IN_PLACE:
            where = Location.of(self.url, self.storage)
            store = where.store(read_only=True, create=True) if where.exists() else MemoryStore()
            return {key: store.get(key) for key in store.list()}
        folder = Path(self.url).parent
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _documents(url: str) -> Iterator[tuple[str, Any]]:
    with MongoClient[Any](url) as client:
        database = client.get_default_database()
        for name in database.list_collection_names():
            for document in database[name].find():
                yield f"{name}/{document['_id']}", document


def target_of(kind: str, folder: Path, servers: Any) -> Target:
    """A free place of this kind; ``servers`` gives a session's server by name."""
    options = {"path": "a"} if kind in ONE else {}
    if kind == "mongo":
        server = servers("mongo")
        return Target(kind, f"{server.url}/{server.database()}#x", None, options)
    if kind == "s3":
        server = servers("s3")
        return Target(kind, f"s3://{server.bucket()}/x.zarr", server.options, options)
    if kind == "memory":
        name = f"bad-input-{next(_NUMBERS)}"
        MemoryStore.forget(name)
        return Target(kind, f"memory://{name}", None, options)
    (folder / "there").mkdir(exist_ok=True)
    return Target(kind, str(folder / "there" / f"x{KINDS[kind][1]}"), None, options)


def make_source(path: Path, format: str = "zarr3") -> Path:
    """An array of several chunks with a coordinate, and two others."""
    with hs.create(path, format) as root:
        root.create_array("a", data=CELLS, dims=("y", "x"), chunks=(2, 8), attrs={"units": "K"})
        root.create_array("x", data=np.arange(8.0), dims=("x",), chunks=(4,))
        root.create_array("b", data=CELLS + 1, dims=("y", "x"), chunks=(2, 8))
        root.create_array("c", data=CELLS + 2, dims=("y", "x"), chunks=(2, 8))
    return path


def damage(source: Path, *arrays: str) -> None:
    """Cut off the end of the second chunk of each of these arrays."""
    for name in arrays:
        chunk = sorted(path for path in (source / name / "c").rglob("*") if path.is_file())[1]
        chunk.write_bytes(chunk.read_bytes()[:-3])
