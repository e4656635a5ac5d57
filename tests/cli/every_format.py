"""One real dataset in every format, dialect and layout that is written, in every kind of place that each can lie in."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from uuid import uuid4

import iris_sample_data
import pytest
from pymongo import MongoClient

import hyperslab as hs
from hyperslab.stores.base import Store
from hyperslab.stores.location import Location
from servers.s3 import S3

AIR = "air_temperature"
SHAPE = (24, 12, 10)
CHUNKS = {"time": 6, "latitude": 6, "longitude": 10}
ARRAYS = {
    AIR,
    "time",
    "time_bnds",
    "latitude",
    "longitude",
    "forecast_period",
    "latitude_longitude",
    "forecast_reference_time",
    "height",
}
_KEYED = ("local", "zip", "memory", "s3")
_HEADER = 4
"""A byte of the header of a Blosc chunk: how long its cells are. Those of the cells themselves have no checksum."""


@dataclass(frozen=True)
class Variant:
    """A way to store the dataset. ``lost``: the lines by which ``diff`` tells what it cannot hold. ``chunk``: the key
    of a chunk, or a pattern of it, and the ``byte`` of it that is damaged; ``document``: the key of a document.
    ``mends``: the kinds of places in which such a chunk is mended."""

    name: str
    format: str
    suffix: str
    options: dict[str, Any] = field(default_factory=dict)
    places: tuple[str, ...] = _KEYED
    lost: tuple[str, ...] = ()
    chunk: str = ""
    byte: int = -3
    document: str = ""
    mends: tuple[str, ...] = _KEYED

    def __str__(self) -> str:
        return self.name

    @property
    def chunks(self) -> tuple[int, ...]:
        """What its array is cut into: as was asked for, or whole rows of as many cells."""
        return (3, 12, 10) if self.format in ("bloscpack", "blaze") else (6, 6, 10)


def _zarr2(name: str, format: str, suffix: str, **options: Any) -> Variant:
    return Variant(name, format, suffix, options, chunk=f"{AIR}/0.0.0", byte=_HEADER, document=f"{AIR}/.zarray")


def _zarr3(name: str, format: str, suffix: str, **options: Any) -> Variant:
    return Variant(name, format, suffix, options, chunk=f"{AIR}/c/0/0/0", document=f"{AIR}/zarr.json")


def _file(name: str, format: str, suffix: str, *places: str, byte: int = -3, **options: Any) -> Variant:
    """Of one file, which is written in the local file system alone."""
    return Variant(name, format, suffix, options, ("local", *places), byte=byte, mends=("local",))


VARIANTS = [
    _zarr2("zarr2", "zarr2", ".zarr"),
    _zarr3("zarr3", "zarr3", ".zarr"),
    _zarr2("nczarr", "nczarr", ".nczarr"),
    _zarr2("nczarr-draft", "nczarr", ".nczarr", dialect="draft"),
    _zarr2("hdmf-v2", "hdmf", ".hdmf.zarr", profile="v2"),
    _zarr3("hdmf-v3", "hdmf", ".hdmf.zarr", profile="v3"),
    _file("bloscpack", "bloscpack", ".blp", "s3"),
    _file("bloscpack-blaze", "bloscpack", ".blp", "s3", layout="blaze"),
    Variant("blaze", "blaze", ".blaze", chunk="data/__1__.bin", document="meta/storage"),
    Variant("bcolz", "blaze", ".blaze", {"layout": "bcolz"}, chunk="data/__0.blp", byte=20, document="meta/storage"),
    _file("b2nd", "b2nd", ".b2nd", byte=_HEADER),
    _file("netcdf", "netcdf", ".nc", "s3"),
    Variant("mongo", "mongo", "", places=("mongo",), mends=()),
    Variant("collections", "collections", ".db", chunk=f"collections/{AIR}/arrays/*/c/0/0/0", byte=100),
    Variant(
        "deker",
        "deker",
        ".deker",
        places=("local",),
        lost=("/: dimensions: 'time' is no longer unlimited",),
        chunk=f"collections/{AIR}/array_data/*.hdf5",
        byte=1,
        mends=(),
    ),
]
_ON_SERVERS = ("zarr3", "bloscpack", "blaze", "netcdf")
"""In buckets, where each request costs milliseconds and a command needs many, the soak knows the others too."""


def _case(variant: Variant, kind: str) -> Any:
    marks = [pytest.mark.soak] if kind == "s3" and variant.name not in _ON_SERVERS else []
    return pytest.param(variant, kind, id=f"{variant}-{kind}", marks=marks)


CASES = [_case(variant, kind) for variant in VARIANTS for kind in variant.places]
HERE = [_case(variant, kind) for variant in VARIANTS for kind in variant.places if kind in ("local", "mongo")]
MENDED = [_case(variant, kind) for variant in VARIANTS for kind in variant.mends]
TOLD = [_case(variant, kind) for variant in VARIANTS for kind in variant.places if not variant.mends]
DOCUMENTS = [_case(variant, "local") for variant in VARIANTS if variant.document]


@dataclass(frozen=True)
class Made:
    """A dataset of the ``variant`` that lies in a place of the ``kind``, and how a command reaches it."""

    variant: Variant
    kind: str
    url: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """Storage options as they are typed."""
        return [word for name, value in self.options.items() for word in ("--storage-option", f"{name}={value}")]

    @property
    def is_file(self) -> bool:
        """Whether it is one file or object, and no keys."""
        return self.variant.format in ("netcdf", "bloscpack", "b2nd")

    def open(self, mode: Any = "r") -> Any:
        """The dataset as a group."""
        return hs.open_group(self.url, mode, storage_options=self.options or None)

    def store(self) -> Store:
        """Its keys."""
        return Location.of(self.url, self.options).store(read_only=False)

    def contents(self) -> dict[str, bytes]:
        """All that is stored."""
        if self.variant.format == "mongo":
            with MongoClient[Any](self.url.partition("#")[0]) as client:
                documents = client.get_default_database()["xarray.chunks"].find()
                return {str(each["_id"]): repr(each).encode() for each in documents}
        if self.is_file:
            return {"": Path(self.url).read_bytes()}
        store = self.store()
        found = {key: bytes(store.get(key) or b"") for key in store.list("")}
        store.close()
        return found


def make_source(folder: Path) -> Path:
    """A corner of 240 years of air temperature over North America, compressed, as netCDF."""
    corner = {"time": slice(0, 24), "latitude": slice(0, 12), "longitude": slice(0, 10)}
    real = os.path.join(iris_sample_data.path, "A1B_north_america.nc")
    hs.convert(real, folder / "america.nc", select=corner, chunks=CHUNKS, codec="default")  # by which damage is noticed
    return folder / "america.nc"


@dataclass
class Maker:
    """Makes datasets of the ``source`` in places of its own; servers are started when one is asked for."""

    source: Path
    folder: Path
    s3: Callable[[], S3]
    mongo: Callable[[], str]
    made: dict[tuple[str, str], Made] = field(default_factory=dict)

    def shared(self, variant: Variant, kind: str) -> Made:
        """One that nobody changes."""
        key = (variant.name, kind)
        if key not in self.made:
            self.made[key] = self.fresh(variant, kind)
        return self.made[key]

    def fresh(self, variant: Variant, kind: str) -> Made:
        """One of the test's own."""
        made = self._place(variant, kind)
        if kind == "s3" and made.is_file:
            local = self.shared(variant, "local")
            _put_object(made, Path(local.url).read_bytes())
            return made
        hs.convert(
            self.source,
            made.url,
            variant.format,
            chunks=CHUNKS,
            allow_loss=bool(variant.lost),
            storage_options=(None, made.options or None),
            **variant.options,
        )
        return made

    def _place(self, variant: Variant, kind: str) -> Made:
        name = f"{uuid4().hex[:8]}{variant.suffix}"
        if kind == "s3":
            server = self.s3()
            return Made(variant, kind, f"s3://{server.bucket()}/{name}", server.options)
        places = {"local": f"{self.folder}/{name}", "zip": f"{self.folder}/{name}.zip", "memory": f"memory://{name}"}
        return Made(variant, kind, places[kind] if kind in places else f"{self.mongo()}#america")


def _put_object(made: Made, data: bytes) -> None:
    """Store the one object that the dataset is."""
    above, _, name = made.url.rpartition("/")
    store = Location.of(above, made.options).store(read_only=False)
    store.put(name, data, durable=False)
    store.close()


def damage(made: Made, *, document: bool = False) -> None:
    """One byte of a chunk, or of the document of the array, becomes another."""
    variant = made.variant
    if variant.format == "mongo":
        _damage_mongo(made.url)
    elif made.is_file:
        path = Path(made.url)
        start, stop = _place(made)
        place = start + variant.byte if variant.byte >= 0 else stop + variant.byte
        path.write_bytes(_flipped(path.read_bytes(), place))
    else:
        store = made.store()
        wanted = variant.document if document else variant.chunk
        key = next(key for key in store.list("") if fnmatch(key, wanted))
        store.put(key, _flipped(bytes(store.get(key) or b""), 0 if document else variant.byte), durable=False)
        store.close()


def _flipped(data: bytes, place: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 0x55
    return bytes(changed)


def _damage_mongo(url: str) -> None:
    """A document of cells loses a byte: any other byte would contradict nothing."""
    with MongoClient[Any](url.partition("#")[0]) as client:
        chunks = client.get_default_database()["xarray.chunks"]
        found = chunks.find_one({"name": AIR})
        assert found is not None
        chunks.update_one({"_id": found["_id"]}, {"$set": {"data": found["data"][:-1]}})


def _place(made: Made) -> tuple[int, int]:
    """Where the first chunk lies in a file."""
    stored = made.open()[AIR]._cells.source.stored_bytes((0, 0, 0))
    start = Path(made.url).read_bytes().index(stored)
    return start, start + len(stored)
