"""Documents of collections that are wrong cost no cell: a repair leaves what lies in sound shards, tiles and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema, VArraySchema

pytestmark = pytest.mark.sampled(2)

Document = dict[str, Any]
Edit = Callable[[Document], Any]
CELLS = np.arange(1, 49, dtype="<i4").reshape(6, 8)
FLAVOURS = ("array", "varray")
SLOTS = 2


def made(folder: Path, layout: Any, flavour: str) -> Path:
    """A collection of arrays, in one piece or in tiles."""
    dimensions = [DimensionSchema("y", 6), DimensionSchema("x", 8)]
    attributes = [AttributeSchema("slot", int, True), AttributeSchema("note", str, False)]
    tiles: dict[str, Any] = {"vgrid": (2, 2)} if flavour == "varray" else {}
    schema = (VArraySchema if tiles else ArraySchema)(dimensions, np.int32, attributes, fill_value=-1, **tiles)
    with Client(folder, durable=False) as client:
        collection = client.create_collection("c", schema, layout=layout)
        for slot in range(SLOTS):
            collection.create({"slot": slot}, {"note": "sound"})[:].update(CELLS + 100 * slot)
    return folder


def stored(place: Path) -> dict[str, object]:
    """What lies in each shard, and the cells of each HDF5 file."""
    found: dict[str, object] = {}
    for path in sorted((place / "collections").rglob("*")):
        if path.suffix == ".hdf5" and not path.is_symlink():
            with h5py.File(path) as file:
                found[path.name] = (file["data"].dtype, file["data"][()].tolist())
        elif path.is_file() and "c" in path.relative_to(place / "collections").parts[1:-1]:
            found[str(path.relative_to(place))] = path.read_bytes()
    return found


def edit(path: Path, how: Edit) -> None:
    document = json.loads(path.read_bytes())
    how(document)
    path.write_text(json.dumps(document))


def assert_whole(place: Path) -> None:
    with Client(place, mode="r") as client:
        collection = client.get_collection("c")
        assert collection is not None
        for slot in range(SLOTS):
            again = collection.get(slot=slot)
            assert again is not None
            np.testing.assert_array_equal(again[:].read(), CELLS + 100 * slot)


def repaired(place: Path) -> None:
    """Every repair that there is leaves what is stored."""
    before = stored(place)
    assert len(before) >= SLOTS
    for deep in (False, True):
        for dry_run in (True, False):
            list(hs.repair(place, deep=deep, dry_run=dry_run))
            assert stored(place) == before


# -- documents of arrays of the own layout ----------------------------------------------------------------------------


def _sharding(document: Document) -> Document:
    return next(each for each in document["codecs"] if each["name"] == "sharding_indexed")["configuration"]


def _inner_codecs(*codecs: Any) -> Edit:
    def change(document: Document) -> None:
        inner = _sharding(document)["codecs"]
        inner[1:] = codecs

    return change


def _shape(*shape: int) -> Edit:
    return lambda document: document.update(shape=list(shape))


def _grid(*shape: int) -> Edit:
    return lambda document: document["chunk_grid"]["configuration"].update(chunk_shape=list(shape))


def _attributes(**values: Any) -> Edit:
    return lambda document: document["attributes"].update(values)


OF_ARRAYS: dict[str, Edit] = {
    "of 8 bytes": lambda document: document.update(data_type="int64"),
    "of one byte": lambda document: document.update(data_type="int8"),
    "of other numbers": lambda document: document.update(data_type="float64", fill_value=0.0),
    "of half the rows": _shape(3, 8),
    "of more rows": _shape(12, 8),
    "of smaller shards": _grid(2, 4),
    "of larger shards": _grid(12, 16),
    "of smaller chunks": lambda document: _sharding(document).update(chunk_shape=[1, 1]),
    "without compressor": _inner_codecs(),
    "of another compressor": _inner_codecs({"name": "numcodecs.bz2", "configuration": {"level": 1}}),
    "with another checksum": _inner_codecs({"name": "numcodecs.adler32"}),
    "without a checksum of the index": lambda document: _sharding(document)["index_codecs"].pop(),
    "with the index at the start": lambda document: _sharding(document).update(index_location="start"),
    "without shards": lambda document: document.update(codecs=_sharding(document)["codecs"]),
    "of an unknown codec": lambda document: document["codecs"].append({"name": "of another planet"}),
    "of another key": _attributes(primary_attributes={"slot": 77}),
    "of the key of the other": _attributes(primary_attributes={"slot": 1}),
    "of a key of another type": _attributes(primary_attributes={"slot": "a"}),
    "without a key": _attributes(primary_attributes={}),
    "of another id": _attributes(id="aa345678-1234-4234-8234-123456789abc"),
    "without attributes": lambda document: document.pop("attributes"),
    "of a group": lambda document: document.update(node_type="group"),
    "of another version": lambda document: document.update(zarr_format=2),
}


@pytest.mark.sampled(3)
@pytest.mark.covering
@pytest.mark.parametrize("case", OF_ARRAYS)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_shards_stay_whatever_the_document_of_their_array_says(flavour: str, case: str, tmp_path: Path) -> None:
    place = made(tmp_path / "x", "hyperslab", flavour)
    with Client(place, mode="r") as client:
        collection = client.get_collection("c")
        assert collection is not None
        array = collection.get(slot=0)
        assert array is not None
    (document,) = place.rglob(f"{array.id}/zarr.json")
    right = document.read_bytes()
    edit(document, OF_ARRAYS[case])
    repaired(place)
    document.write_bytes(right)
    assert_whole(place)
    assert not hs.check(place, deep=True)


@pytest.mark.parametrize("damage", [b"", b"\0" * 700, b'{"zarr', None])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_shards_stay_where_the_document_is_lost(flavour: str, damage: bytes | None, tmp_path: Path) -> None:
    place = made(tmp_path / "x", "hyperslab", flavour)
    document = min(place.rglob("zarr.json"))
    right = document.read_bytes()
    document.unlink() if damage is None else document.write_bytes(damage)
    assert hs.check(place)
    repaired(place)
    document.write_bytes(right)
    assert not hs.check(place, deep=True)


# -- documents of collections -----------------------------------------------------------------------------------------


def _schema(how: Edit) -> Edit:
    return lambda document: how(document["schema" if "schema" in document else "v_array_schema"])


def _slot(**fields: Any) -> Edit:
    return _schema(lambda schema: schema["attributes"][0].update(fields))


OF_COLLECTIONS: dict[str, Edit] = {
    "of one byte": _schema(lambda schema: schema.update(dtype="numpy.int8")),
    "of 8 bytes": _schema(lambda schema: schema.update(dtype="numpy.int64")),
    "of other numbers": _schema(lambda schema: schema.update(dtype="numpy.float32")),
    "of another fill value": _schema(lambda schema: schema.update(fill_value="7")),
    "of half the rows": _schema(lambda schema: schema["dimensions"][0].update(size=3)),
    "of more rows": _schema(lambda schema: schema["dimensions"][0].update(size=12)),
    "of one dimension": _schema(lambda schema: schema["dimensions"].pop()),
    "of another name": _schema(lambda schema: schema["dimensions"][0].update(name="z")),
    "of fewer tiles": _schema(lambda schema: schema.update(vgrid=[1, 2]) if "vgrid" in schema else None),
    "of half the rows and tiles": _schema(
        lambda schema: (
            schema["dimensions"][0].update(size=3),
            schema.update({"vgrid": [1, 2]} if "vgrid" in schema else {}),
        )
    ),
    "of more tiles": _schema(lambda schema: schema.update(vgrid=[6, 8]) if "vgrid" in schema else None),
    "of a key of another type": _slot(dtype="string"),
    "of a key of another name": _slot(name="slots"),
    "of no key": _slot(primary=False),
    "of a larger key": _schema(lambda schema: schema["attributes"][1].update(primary=True)),
    "without attributes": _schema(lambda schema: schema.update(attributes=[])),
    "with a filter": lambda document: document.update(
        options={"chunks": {"mode": "manual", "size": [1, 1]}, "compression": {"compression": "gzip", "options": ["9"]}}
    ),
}


@pytest.mark.covering
@pytest.mark.parametrize("case", OF_COLLECTIONS)
@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("layout", ["hyperslab", "deker"])
def test_cells_stay_whatever_the_document_of_the_collection_says(
    layout: str, flavour: str, case: str, tmp_path: Path
) -> None:
    place = made(tmp_path / "x", layout, flavour)
    document = place / "collections/c" / ("collection.json" if layout == "hyperslab" else "c.json")
    right = document.read_bytes()
    edit(document, OF_COLLECTIONS[case])
    repaired(place)
    document.write_bytes(right)
    list(hs.repair(place, deep=True, dry_run=False))  # links of DEKER's that were made for the other schema
    assert_whole(place)


# -- metadata in DEKER's files ----------------------------------------------------------------------------------------

OF_FILES: dict[str, tuple[str, Edit]] = {
    "of another key": ("array", lambda said: said["primary_attributes"].update(slot=77)),
    "of the key of the other": ("array", lambda said: said["primary_attributes"].update(slot=1)),
    "without a key": ("array", lambda said: said.update(primary_attributes={})),
    "of another id": ("array", lambda said: said.update(id="aa345678-1234-4234-8234-123456789abc")),
    "of no array": (
        "varray",
        lambda said: said["primary_attributes"].update(vid="aa345678-1234-4234-8234-123456789abc"),
    ),
    "outside the grid": ("varray", lambda said: said["primary_attributes"].update(v_position=[7, 7])),
    "of another rank": ("varray", lambda said: said["primary_attributes"].update(v_position=[0])),
    "of the place of another": ("varray", lambda said: said["primary_attributes"].update(v_position=[1, 1])),
    "without a place": ("varray", lambda said: said.update(primary_attributes={})),
}


@pytest.mark.parametrize("case", OF_FILES)
def test_cells_stay_whatever_their_file_says_of_itself(case: str, tmp_path: Path) -> None:
    flavour, how = OF_FILES[case]
    place = made(tmp_path / "x", "deker", flavour)
    for path in place.rglob("*.hdf5"):
        with h5py.File(path) as file:
            said = json.loads(file["meta"][()])
        if not path.is_symlink() and (
            0 in said["primary_attributes"].values() or [0, 0] in said["primary_attributes"].values()
        ):
            break
    with h5py.File(path, "r+") as file:
        how(said)
        del file["meta"]
        file.create_dataset("meta", data=np.bytes_(json.dumps(said)))
    assert hs.check(place)
    repaired(place)
