"""The folder of an Array or a VArray is an array of Zarr v3 to zarr-python; how arrays are cut and encoded."""

from __future__ import annotations

import warnings
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from own_store import ATTRIBUTES, DIMENSIONS, SETTINGS, START, made, opened, record, schema, tiled

from hyperslab.errors import SchemaError, Unsupported
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.formats.collections.own.documents import chunk_and_shard_lengths, new_spec
from hyperslab.formats.collections.own.layout import LAYOUT, OwnCollectionStore
from hyperslab.model.schemas import (
    ArraySchema,
    AttributeSchema,
    DimensionSchema,
    HDF5CompressionOpts,
    HDF5Options,
    Record,
    VArraySchema,
)
from hyperslab.model.schemas.arrays import new_id
from hyperslab.model.schemas.attributes import reads_extended
from hyperslab.stores.location import Location

TYPES = ["i1", "i2", "i4", "i8", "q", "u1", "u2", "u4", "u8", "Q", "f2", "f4", "f8", "c8", "c16"]


def fill(holding: OwnCollectionStore, id: str) -> np.ndarray[Any, Any]:
    """Write every cell, chunk by chunk; what was written."""
    spec = holding.spec(id)
    cells = np.arange(1, 1 + np.prod(spec.shape)).reshape(spec.shape).astype(spec.numpy_dtype)
    source = holding.chunks(id, spec)
    for coords in source.grid:
        block = np.full(source.grid.chunk_shape(coords), spec.fill_cell(), spec.numpy_dtype)
        extent = source.grid.extent(coords)
        inside = tuple(slice(0, cut.stop - cut.start) for cut in extent)
        block[inside] = cells[extent]
        source.write(coords, block)
    return cells


def by_zarr(root: Path, id: str) -> Any:
    return zarr.open_array(root / "collections/weather/arrays" / id[:2] / id, mode="r")


@pytest.mark.covering
@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("cut", ["array", "varray"])
def test_zarr_python_reads_it(tmp_path: Path, code: str, cut: str) -> None:
    """Values, dimension names, attributes and fill value are equal; unwritten ones read as the fill value."""
    what = schema(dtype=np.dtype(code)) if cut == "array" else tiled(dtype=np.dtype(code))
    holding = made(Location.of(tmp_path), what)
    found, empty = record(1, "é\n", note="n", level=1.5), record(2)
    holding.create([found, empty])
    cells = fill(holding, found.id)
    theirs = by_zarr(tmp_path, found.id)
    np.testing.assert_array_equal(theirs[...], cells)
    assert theirs.dtype == np.dtype(code)
    assert theirs.metadata.dimension_names == ("hour", "y", "what")
    assert theirs.shards == ((4, 6, 2) if cut == "array" else (2, 4, 2))
    attributes = dict(theirs.attrs)
    assert attributes.pop("_hyperslab")
    assert attributes == {
        "id": found.id,
        "primary_attributes": {"dt": "2023-01-02T00:00:00+00:00", "station": "é\n"},
        "custom_attributes": {"note": "n", "level": 1.5},
    }
    np.testing.assert_array_equal(by_zarr(tmp_path, empty.id)[...], np.full((4, 6, 2), what.fill_value))


@pytest.mark.skipif(not reads_extended(), reason="no floats of 80 bits here")
@pytest.mark.parametrize("code", ["g", "G"])
@pytest.mark.parametrize("cut", [schema, tiled])
def test_floats_of_80_bits(tmp_path: Path, code: str, cut: Any) -> None:
    """They keep every bit; zarr-python opens the array as one of bytes (but reads no shards of such: it asks for the
    hash of their fill value, which has none)."""
    holding = made(Location.of(tmp_path), cut(dtype=np.dtype(code), fill_value=np.longdouble(1) / 3))
    found = record(1)
    holding.create([found])
    spec = opened(Location.of(tmp_path)).spec(found.id)
    assert spec.dtype == np.dtype(code)
    assert spec.fill_value == np.longdouble(1) / 3
    cells = np.arange(48).reshape(4, 6, 2).astype(code) / 3
    source = holding.chunks(found.id, spec)
    for coords in source.grid:
        block = np.zeros(source.grid.chunk_shape(coords), spec.numpy_dtype)
        extent = source.grid.extent(coords)
        block[tuple(slice(0, cut.stop - cut.start) for cut in extent)] = cells[extent]
        source.write(coords, block)
        np.testing.assert_array_equal(source.read(coords), block)
    theirs = by_zarr(tmp_path, found.id)
    assert (theirs.dtype, theirs.shape) == (np.dtype((np.void, cells.itemsize)), (4, 6, 2))
    assert theirs.metadata.dimension_names == ("hour", "y", "what")


@pytest.mark.parametrize("value", [nan, inf, -inf, -0.0, 1e-320, 1e308])
def test_odd_floats_in_attributes(tmp_path: Path, value: float) -> None:
    """The documents are standard JSON, and the floats the same."""
    holding = made(Location.of(tmp_path))
    found = record(1, level=value)
    holding.create([found])
    document = (tmp_path / holding.keys.array_document(found.id)).read_bytes()
    assert b"NaN," not in document
    again = holding.record(found.id).custom["level"]
    np.testing.assert_equal(again, value)
    assert str(again) == str(value)
    by_zarr(tmp_path, found.id)


def test_attributes_of_every_type(tmp_path: Path) -> None:
    """As keys and as custom values, through a document of their own."""
    kinds = {"i": int, "f": float, "c": complex, "s": str, "t": tuple, "d": type(START)}
    values = {"i": -(2**70), "f": nan, "c": -1j, "s": "\ud800a/../b", "t": (1, "a", (2.5, nan)), "d": START}
    attributes = [AttributeSchema(name, kind, True) for name, kind in kinds.items()]
    attributes += [AttributeSchema(f"{name}2", kind, False) for name, kind in kinds.items()]
    holding = made(Location.of(tmp_path), ArraySchema(DIMENSIONS[1:], int, attributes))
    found = Record(new_id(), values, {f"{name}2": value for name, value in values.items()})
    holding.create([found])
    assert repr(holding.record(found.id)) == repr(found)
    assert holding.id_of(tuple(values.values())) == found.id
    assert holding.id_of(tuple((values | {"d": START.replace(year=2024)}).values())) is None


def options(chunks: Any = None, compression: Any = None, values: Any = None) -> HDF5Options:
    return HDF5Options(chunks, HDF5CompressionOpts(compression, values))


@pytest.mark.parametrize(
    ("said", "names"),
    [
        (None, ["blosc"]),
        (options(), []),
        (options((2, 3, 2), "gzip", 7), ["gzip"]),
        (options(True, "gzip"), ["gzip"]),
        (options(True, 32015, (5,)), ["zstd"]),
        (options((2, 3, 2), 32015), ["zstd"]),
        (options((2, 3, 2), 32004, (0,)), ["lz4"]),
        (options((2, 3, 2), 32001, (0, 0, 0, 0, 9, 2, 5)), ["blosc"]),
        (options((2, 3, 2), 32001), ["blosc"]),
    ],
)
@pytest.mark.parametrize("cut", [schema, tiled])
def test_compression(tmp_path: Path, said: HDF5Options | None, names: list[str], cut: Any) -> None:
    """The filter that the options name is the codec, and zarr-python reads what it made."""
    where = Location.of(tmp_path)
    what = cut() if cut is schema or said is None or said.chunks is None else cut(arrays_shape=(2, 6, 2))
    holding = made(where, what, options=said)
    found = record(1)
    holding.create([found])
    (sharding,) = holding.spec(found.id).codecs
    assert [codec.name for codec in sharding.config["codecs"][1:-1]] == names
    cells = fill(holding, found.id)
    assert opened(where).document.options == said
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr-python says that lz4 is not in its specification
        np.testing.assert_array_equal(by_zarr(tmp_path, found.id)[...], cells)


def test_codecs_keep_their_values() -> None:
    def codec(*said: Any) -> Any:
        (sharding,) = new_spec(CollectionDocument("a", schema(), options(True, *said))).codecs
        return dict(sharding.config["codecs"][1].config)

    assert codec("gzip", 7)["level"] == 7
    assert codec(32015, (5,))["level"] == 5
    blosc = codec(32001, (0, 0, 0, 0, 9, 2, 5))
    assert (blosc["cname"], blosc["clevel"], blosc["shuffle"], blosc["typesize"]) == ("zstd", 9, "bitshuffle", 8)


@pytest.mark.parametrize(
    ("said", "named"), [("lzf", "lzf"), ("szip", "szip"), (32013, "zfp"), (32099, "32099"), (32001, "Blosc")]
)
def test_filters_that_we_have_not(tmp_path: Path, said: Any, named: str) -> None:
    """Are refused by name, and nothing is made."""
    values = ("nn", 8) if said == "szip" else (0, 0, 0, 0, 5, 1, 9) if said == 32001 else None
    with pytest.raises(Unsupported, match=named):
        made(Location.of(tmp_path / "x"), options=options(True, said, values))
    assert not (tmp_path / "x").exists()


def test_chunks_that_do_not_fit(tmp_path: Path) -> None:
    for chunks in ((2, 3), (5, 6, 2)):
        with pytest.raises(SchemaError, match="do not fit"):
            made(Location.of(tmp_path / "x"), options=options(chunks))
    assert not (tmp_path / "x").exists()


def dimensions(*sizes: int | None) -> list[DimensionSchema]:
    return [DimensionSchema(f"d{axis}", size) for axis, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "tile", "chunks", "expected"),
    [
        ((10, 7), None, (4, 7), ((4, 7), (12, 7))),
        ((10, 7), None, None, ((10, 7), (10, 7))),
        ((1 << 13, 1 << 10), None, None, ((512, 1024), (8192, 1024))),
        ((10, 7), (4, 3), None, ((4, 3), (4, 3))),
        ((100, 100), (36, 35), (10, 10), ((9, 7), (36, 35))),
        ((2000, 5), (1009, 5), (64, 5), ((1009, 5), (1009, 5))),
        ((None, 7), None, (4, 7), ((4, 7), (1024, 7))),
        ((None, 7), (4, 7), None, ((4, 7), (4, 7))),
    ],
)
def test_cuts(sizes: Any, tile: Any, chunks: Any, expected: Any) -> None:
    """An Array is one shard of whole chunks, but along unlimited dimensions; a VArray has a shard per tile."""
    if tile is None:
        what = ArraySchema(dimensions(*sizes), float)
    else:
        what = VArraySchema(dimensions(*sizes), float, arrays_shape=tile)
    said = None if chunks is None else options(chunks)
    assert chunk_and_shard_lengths(CollectionDocument("a", what, said)) == expected
    spec = new_spec(CollectionDocument("a", what, said))
    assert (spec.inner_chunks, spec.chunks) == expected


@pytest.mark.parametrize("tile", [None, (3, 5)])
def test_unlimited_dimensions_grow(tmp_path: Path, tile: Any) -> None:
    what: ArraySchema = ArraySchema(dimensions(None, 5), np.int32, fill_value=-1)
    if tile is not None:
        what = VArraySchema(dimensions(None, 5), np.int32, fill_value=-1, arrays_shape=tile)
    holding = made(Location.of(tmp_path), what)
    found = Record(new_id(), {}, {})
    holding.create([found])
    spec = holding.spec(found.id)
    assert spec.shape == (0, 5)
    holding.put_spec(found.id, spec.evolve(shape=(7, 5)))
    cells = fill(holding, found.id)
    holding.put_spec(found.id, spec.evolve(shape=(9, 5)))
    theirs = by_zarr(tmp_path, found.id)
    np.testing.assert_array_equal(theirs[...], np.concatenate([cells, np.full((2, 5), -1)]))
    assert holding.record(found.id) == found


def test_labels_go_with_a_dimension_that_grows(tmp_path: Path) -> None:
    what = schema(dimensions=[DimensionSchema("n", None, scale=DIMENSIONS[1].scale), DIMENSIONS[0]])
    holding = made(Location.of(tmp_path), what)
    found = record(1)
    holding.create([found])
    holding.put_spec(found.id, holding.spec(found.id).evolve(shape=(3, 4)))
    assert holding.spec(found.id).indexes["n"].size == 3  # type: ignore[union-attr]
    assert {attribute.name for attribute in ATTRIBUTES} == {*holding.record(found.id).values}


def test_what_others_add_to_a_document_stays(tmp_path: Path) -> None:
    """An attribute that zarr-python writes, through an update of ours."""
    holding = made(Location.of(tmp_path))
    found = record(1)
    holding.create([found])
    theirs = zarr.open_array(tmp_path / holding.keys.array(found.id), mode="r+")
    theirs.attrs["units"] = "K"
    holding.update(found.id, lambda now: Record(now.id, now.primary, {**now.custom, "note": "x"}))
    assert by_zarr(tmp_path, found.id).attrs["units"] == "K"
    assert holding.record(found.id).custom["note"] == "x"
    assert holding.spec(found.id).indexes


def test_an_empty_array_costs_nothing_and_one_cell_one_chunk(tmp_path: Path) -> None:
    holding = LAYOUT.create(
        Location.of(tmp_path), CollectionDocument("weather", ArraySchema(dimensions(1 << 12, 1 << 12), float)), SETTINGS
    )
    found = Record(new_id(), {}, {})
    holding.create([found])
    assert holding.nbytes_stored() < 5000
    spec = holding.spec(found.id)
    source = holding.chunks(found.id, spec)
    source.write((0, 0), np.ones(source.grid.chunk_shape((0, 0))))
    assert holding.nbytes_stored() < 100_000
