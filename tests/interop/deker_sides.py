"""Both sides, deker and hyperslab, under one face: what is done to one is done to the other with the same words."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from deker_peer import Peer, TheirError

from hyperslab import database


@dataclass(frozen=True)
class Side:
    """One of the two: its package, and what its collections are made with."""

    name: str
    api: Any
    new: dict[str, Any] = field(default_factory=dict)

    @property
    def is_theirs(self) -> bool:
        """Whether this is deker."""
        return self.name == "deker"

    def client(self, root: Path, **more: Any) -> Any:
        """A client of the store at ``root``."""
        return self.api.Client(f"file://{root}", loglevel="CRITICAL", **more)

    def collection(self, client: Any, name: str, plan: Plan) -> Any:
        """A new collection of DEKER's layout."""
        return client.create_collection(name, plan.schema(self.api), plan.options(self.api), **self.new)


def theirs(peer: Peer) -> Side:
    """The side of deker."""
    return Side("deker", peer.api)


OURS = Side("hyperslab", database, {"layout": "deker"})


@dataclass(frozen=True)
class Dim:
    """A dimension in plain words: with ``step`` one of time."""

    name: str
    size: int
    labels: Any = None
    scale: tuple[float, float, str | None] | None = None
    start: datetime | str | None = None
    step: timedelta | None = None

    def schema(self, api: Any) -> Any:
        """As a side has it."""
        if self.step is not None:
            return api.TimeDimensionSchema(name=self.name, size=self.size, start_value=self.start, step=self.step)
        scale = api.Scale(*self.scale) if self.scale else None
        return api.DimensionSchema(name=self.name, size=self.size, labels=self.labels, scale=scale)


@dataclass(frozen=True)
class Plan:
    """A schema with its options in plain words; ``cut`` makes a VArray: ``vgrid`` or ``arrays_shape``."""

    dims: tuple[Dim, ...]
    dtype: Any
    attributes: tuple[tuple[str, Any, bool], ...] = ()
    fill: Any = None
    cut: dict[str, tuple[int, ...]] | None = None
    chunks: Any = None
    compression: tuple[Any, Any] | None = None

    def schema(self, api: Any) -> Any:
        """As a side has it."""
        named = [
            api.AttributeSchema(name=name, dtype=dtype, primary=primary) for name, dtype, primary in self.attributes
        ]
        given = {
            "dimensions": [each.schema(api) for each in self.dims],
            "dtype": self.dtype,
            "attributes": named or None,
        }
        given |= {} if self.fill is None else {"fill_value": self.fill}
        return api.VArraySchema(**given, **self.cut) if self.cut else api.ArraySchema(**given)

    def options(self, api: Any) -> Any:
        """As a side has them; None where nothing is asked."""
        if self.chunks is None and self.compression is None:
            return None
        packed = None
        if self.compression is not None:
            name, values = self.compression
            packed = api.HDF5CompressionOpts(compression=name, compression_opts=values)
        return api.HDF5Options(chunks=self.chunks, compression_opts=packed)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of its arrays."""
        return tuple(each.size for each in self.dims)


def lattice(*sizes: int) -> tuple[Dim, ...]:
    """Dimensions without labels."""
    return tuple(Dim(name, size) for name, size in zip("vwzyx"[-len(sizes) :], sizes, strict=True))


def outcome(deed: Callable[[], Any]) -> Any:
    """What a deed gives, or the names of the error with those of its bases."""
    try:
        return deed()
    except TheirError as error:
        return Failed(error.name, *error.bases, said=str(error))
    except Exception as error:
        return Failed(*(each.__name__ for each in type(error).__mro__), said=str(error))


class Failed(tuple[str, ...]):
    """The names of an error and of its bases."""

    said: str

    def __new__(cls, *names: str, said: str = "") -> Failed:
        """``said``: its message, which is not compared."""
        made = super().__new__(cls, names)
        made.said = said
        return made

    def __repr__(self) -> str:
        return f"{self[0]}: {self.said}"


def same(found: Any, wanted: Any) -> bool:
    """Whether cells are those that are wanted: type, shape, and values, NaN like NaN."""
    if isinstance(found, Failed) or isinstance(wanted, Failed):
        return False
    found, wanted = np.asarray(found), np.asarray(wanted)
    alike = found.dtype == wanted.dtype and found.shape == wanted.shape
    return alike and bool(np.array_equal(found, wanted, equal_nan=found.dtype.kind in "fc"))


# -- the files ------------------------------------------------------------------------------------------------------


def tree(root: Path) -> Iterator[str]:
    """Files, links with their targets below ``{root}``, and empty folders, sorted."""
    found = []
    for folder, folders, files in os.walk(root):
        for name in [*files, *(each for each in folders if not os.listdir(Path(folder, each)))]:
            path = Path(folder, name)
            target = f" -> {os.readlink(path)}" if path.is_symlink() else "/" if path.is_dir() else ""
            found.append(f"{path.relative_to(root)}{target}".replace(str(root), "{root}"))
    return iter(sorted(found))


def data_of(root: Path, name: str, id: str, kind: str = "array", suffix: str = "hdf5") -> Path:
    """Where the data of an array are."""
    first, rest = id.split("-", 1)
    return root / "collections" / name / f"{kind}_data" / "/".join(first) / rest / f"{id}.{suffix}"


def inside(path: Path) -> dict[str, Any]:
    """What an HDF5 file holds, as far as it is the same for all that write the same."""
    with h5py.File(path, "r", locking=False) as file:
        found: dict[str, Any] = {name: bytes(file["meta"][()]).rstrip(b"\0") for name in ("meta",)}
        found |= {"meta type": file["meta"].dtype.str, "empty_cells": int(file["empty_cells"][()])}
        found |= {"names": sorted(file), "attributes": [len(file.attrs), *(len(file[each].attrs) for each in file)]}
        if "data" in file:
            data = file["data"]
            plan = data.id.get_create_plist()
            found |= {"dtype": data.dtype.str, "chunks": data.chunks, "shape": data.shape, "most": data.maxshape}
            found["filters"] = [plan.get_filter(each)[:3] for each in range(plan.get_nfilters())]
            found["fill"] = complex(data.fillvalue)
    return found


def meta(path: Path) -> Any:
    """The record in an HDF5 file, parsed."""
    return json.loads(inside(path)["meta"])
