"""Real deker 1.1.7, in a Python of its own, and hyperslab: the same deeds, the files that they leave.

What the reference says of deker is asked of it here, beside what hyperslab has to do in its layout.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from functools import reduce
from pathlib import Path
from typing import Any

import deker_peer
import numpy as np
import pytest
from deker_calls import CALLS, Call
from deker_defects import DEFECTS, Defect
from deker_peer import Peer
from deker_rules import BOUNDS, CELLS, CORRECTED, ERROR, HOUR, KEPT, SHAPE, START, VGRID, Row
from deker_sides import OURS, Dim, Failed, Plan, Side, data_of, inside, lattice, meta, outcome, same, theirs, tree

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(deker_peer.PYTHON is None, reason="deker runs on Python 3.9 to 3.12: make interop gives it one"),
]
ID = "352fdd68-dcb5-4edc-b3fc-4fcad9dea7fe"
FOLDERS = "3/5/2/f/d/d/6/8/dcb5-4edc-b3fc-4fcad9dea7fe"
WEATHER = Plan(
    (
        Dim("day_hours", 24, start="$dt", step=HOUR),
        Dim("y", 181, scale=(90.0, -1.0, "lat")),
        Dim("x", 360, scale=(-180.0, 1.0, "lon")),
        Dim("weather", 4, labels=["temperature", "humidity", "pressure", "wind_speed"]),
    ),
    float,
    (("dt", datetime, True), ("tm", int, False)),
)
WEATHER_TEXT = (
    '{"name": "weather", "type": "array", "schema": {"dimensions": [{"name": "day_hours", "size": 24, "type": "time", '
    '"start_value": "$dt", "step": {"days": 0, "seconds": 3600, "microseconds": 0}}, {"name": "y", "size": 181, '
    '"labels": null, "scale": {"start_value": 90.0, "step": -1.0, "name": "lat"}, "type": "generic"}, {"name": "x", '
    '"size": 360, "labels": null, "scale": {"start_value": -180.0, "step": 1.0, "name": "lon"}, "type": "generic"}, '
    '{"name": "weather", "size": 4, "labels": ["temperature", "humidity", "pressure", "wind_speed"], "scale": null, '
    '"type": "generic"}], "dtype": "numpy.float64", "attributes": [{"name": "dt", "primary": true, "dtype": '
    '"datetime"}, {"name": "tm", "primary": false, "dtype": "int"}], "fill_value": null}, "options": null, '
    '"storage_adapter": "HDF5StorageAdapter", "metadata_version": "0.2"}'
)
GRID_TEXT = (
    '{"name": "vgrid_coll", "type": "varray", "schema": {"dimensions": [{"name": "y", "size": 100, "labels": null, '
    '"scale": null, "type": "generic"}, {"name": "x", "size": 200, "labels": null, "scale": null, "type": "generic"}], '
    '"dtype": "numpy.int64", "attributes": [], "fill_value": "-99999", "vgrid": [50, 20]}, "options": null, '
    '"storage_adapter": "HDF5StorageAdapter", "metadata_version": "0.2"}'
)
EVERY = {"i": int, "f": float, "c": complex, "s": str, "tp": tuple, "d": datetime}
VALUES = {
    "i": 2,
    "f": 1e-09,
    "c": 2 - 1j,
    "s": "é b",
    "tp": (1, "a", (2.5, 2j)),
    "d": START + timedelta(microseconds=5),
}
ATTRIBUTED = Plan(
    lattice(3, 4),
    np.int16,
    (*((name, dtype, True) for name, dtype in EVERY.items()), *((f"c{n}", dtype, False) for n, dtype in EVERY.items())),
)
TILED = Plan(
    (Dim("dt", 6, start="$st", step=HOUR), Dim("x", 4, scale=(1.0, 2.0, "m"))),
    np.float32,
    (("st", datetime, False),),
    cut={"vgrid": (3, 2)},
    chunks=(1, 2),
    compression=("gzip", 6),
)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with deker_peer.speaking(tmp_path_factory.mktemp("deker")) as found:
        yield found


@pytest.fixture(scope="module", params=["deker", "hyperslab"])
def side(request: pytest.FixtureRequest, peer: Peer) -> Side:
    return theirs(peer) if request.param == "deker" else OURS


def text(root: Path, name: str) -> str:
    return (root / "collections" / name / f"{name}.json").read_text()


# -- the files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "plan", "expected"),
    [
        ("weather", WEATHER, WEATHER_TEXT),
        ("vgrid_coll", Plan(lattice(100, 200), np.int64, fill=-99999, cut={"vgrid": (50, 20)}), GRID_TEXT),
        ("vgrid_coll", Plan(lattice(100, 200), np.int64, fill=-99999, cut={"arrays_shape": (2, 10)}), GRID_TEXT),
    ],
)
def test_the_documents_of_the_reference(side: Side, tmp_path: Path, name: str, plan: Plan, expected: str) -> None:
    with side.client(tmp_path) as client:
        assert str(side.collection(client, name, plan)) == name
    assert text(tmp_path, name) == expected
    assert list(tree(tmp_path)) == [f"collections/{name}.lock", f"collections/{name}/{name}.json"]


OPTIONS = {
    (True, None): ({"mode": "true"}, {"compression": "none", "options": []}),
    ((3, 2), None): ({"mode": "manual", "size": [3, 2]}, {"compression": "none", "options": []}),
    (None, ("gzip", 6)): ({"mode": "none"}, {"compression": "gzip", "options": ["6"]}),
    (True, ("gzip", None)): ({"mode": "true"}, {"compression": "gzip", "options": None}),
    (True, ("lzf", None)): ({"mode": "true"}, {"compression": "lzf", "options": None}),
    (True, ("szip", ("nn", 8))): ({"mode": "true"}, {"compression": "szip", "options": ["nn", "8"]}),
    (True, (32015, (3,))): ({"mode": "true"}, {"compression": "32015", "options": ["3"]}),
}
FILLS = [
    (np.int8, None, "-128"),
    (np.uint16, None, "0"),
    (np.int64, None, "-9223372036854775808"),
    (np.float32, None, None),
    (np.complex64, None, None),
    (np.complex128, 1 + 2j, "(1+2j)"),
    (np.complex128, 3j, "3j"),
    (np.float64, -1.0, "-1.0"),
    (np.float64, 0.1, "0.1"),
    (np.float64, float("inf"), "inf"),
    (np.float64, float("nan"), None),
    (np.uint8, 255, "255"),
]
NAMES = {
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "longlong": np.longlong,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint": np.uint64,
    "ulonglong": np.ulonglong,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "float128": np.longdouble,
    "complex64": np.complex64,
    "cfloat": np.complex128,
    "clongfloat": np.clongdouble,
}


def test_documents_of_options_fills_and_types(side: Side, tmp_path: Path) -> None:
    with side.client(tmp_path) as client:
        for number, (chunks, packed) in enumerate(OPTIONS):
            plan = Plan(lattice(3, 4), np.int8, chunks=chunks, compression=packed)
            side.collection(client, f"o{number}", plan)
        for number, (dtype, fill, _) in enumerate(FILLS):
            side.collection(client, f"f{number}", Plan(lattice(3), dtype, fill=fill))
        for name, dtype in NAMES.items():
            side.collection(client, name, Plan(lattice(3), dtype))
        moments = (
            datetime(2020, 2, 29, 3, tzinfo=timezone(3 * HOUR)),
            datetime(2020, 2, 29, 0, 0, 0, 123456),
            "2020-02-29",
        )
        for number, start in enumerate(moments):
            side.collection(client, f"t{number}", Plan((Dim("t", 3, start=start, step=-HOUR),), np.int8))
    for number, (chunks, packed) in enumerate(OPTIONS.values()):
        assert json.loads(text(tmp_path, f"o{number}"))["options"] == {"chunks": chunks, "compression": packed}
    for number, (_, _, fill) in enumerate(FILLS):
        assert json.loads(text(tmp_path, f"f{number}"))["schema"]["fill_value"] == fill
    for name in NAMES:
        assert json.loads(text(tmp_path, name))["schema"]["dtype"] == f"numpy.{name}"
    for number, said in enumerate(("", ".123456", "")):
        (dim,) = json.loads(text(tmp_path, f"t{number}"))["schema"]["dimensions"]
        assert dim["start_value"] == f"2020-02-29T00:00:00{said}+00:00"
        assert dim["step"] == {"days": -1, "seconds": 82800, "microseconds": 0}


def test_the_files_of_an_array(side: Side, tmp_path: Path) -> None:
    """Tree, links, records, datasets; and what an update of custom attributes and a deletion leave."""
    path = data_of(tmp_path, "t", ID)
    key = "2/1e-09/(2-1j)/é b/(1, 'a', (2.5, 2j))/2023-01-01T00:00:00.000005+00:00"
    kept = [f"collections/t/array_data/{FOLDERS}/{ID}.hdf5"]
    link = f"collections/t/array_symlinks/{key}/{ID}.hdf5 -> {{root}}/{kept[0]}"
    record = {"i": 2, "f": 1e-09, "c": "(2-1j)", "s": "é b", "tp": [1, "a", [2.5, "2j"]]}
    record["d"] = "2023-01-01T00:00:00.000005+00:00"
    custom = {f"c{name}": value for name, value in record.items()}
    written = json.dumps({"id": ID, "primary_attributes": record, "custom_attributes": custom}).encode()
    with side.client(tmp_path) as client:
        collection = side.collection(client, "t", ATTRIBUTED)
        array = collection.create(VALUES, {f"c{name}": value for name, value in VALUES.items()}, ID)
        assert list(tree(tmp_path)) == ["collections/t.lock", *kept, link, "collections/t/t.json"]
        bare = {"meta": written, "meta type": f"|S{len(written) + 33}", "empty_cells": 12}
        assert inside(path) == bare | {"names": ["empty_cells", "meta"], "attributes": [0, 0, 0]}
        array[0, 0].update(5)
        data = {"dtype": "<i2", "chunks": None, "shape": (3, 4), "most": (3, 4), "filters": [], "fill": 0}
        found = bare | data | {"names": ["data", "empty_cells", "meta"], "attributes": [0, 0, 0, 0], "empty_cells": 11}
        assert inside(path) == found
        array.update_custom_attributes({"cs": "u", "cd": START})
        changed = meta(path)
        assert changed["primary_attributes"] == record
        assert list(changed["custom_attributes"]) == ["cs", "cd", "ci", "cf", "cc", "ctp"]
        assert changed["custom_attributes"]["cd"] == "2023-01-01 00:00:00+00:00"
        array[0, 0].clear()
        assert inside(path)["names"] == ["empty_cells", "meta"]
        array.delete()
        assert [each for each in tree(tmp_path) if "." in each] == ["collections/t.lock", "collections/t/t.json"]
        collection.delete()
        assert not (tmp_path / "collections/t").exists() and not (tmp_path / "collections/t.lock").exists()


def test_the_files_of_a_varray(side: Side, tmp_path: Path) -> None:
    """Tiles are made where they are written, and go with what covers them; the record is a document of its own."""
    document = data_of(tmp_path, "v", ID, "varray", "json")
    with side.client(tmp_path) as client:
        collection = side.collection(client, "v", TILED)
        array = collection.create(None, {"st": START}, ID)
        link = f"collections/v/varray_data/{FOLDERS}/{ID}.json"
        varray = [link, f"collections/v/varray_symlinks/{ID}.json -> {{root}}/{link}"]
        assert [each for each in tree(tmp_path) if "varray_" in each] == varray
        custom = '"custom_attributes": {"st": "2023-01-01T00:00:00+00:00"}'
        assert document.read_text() == f'{{"id": "{ID}", "primary_attributes": {{}}, {custom}}}'
        array[3:].update(np.arange(12, dtype=np.float32).reshape(3, 4))
        tiles = {each["position"]: each for each in _tiles(tmp_path, "v")}
        assert sorted(tiles) == ["1-0", "1-1", "2-0", "2-1"]
        for position, tile in tiles.items():
            assert tile["dtype"], tile["chunks"] == ("<f4", (1, 2))
            assert (tile["filters"], tile["fill"], tile["shape"]) == ([(1, 1, (6,))], 0, (2, 2))
            assert tile["empty_cells"] == (2 if position[0] == "1" else 0)
            primary = {"vid": ID, "v_position": [int(each) for each in position.split("-")]}
            record = json.loads(tile["meta"])
            assert (record["primary_attributes"], [*record["custom_attributes"]]) == (primary, ["parent.st"])
        array.update_custom_attributes({"st": START + HOUR})
        assert '"st": "2023-01-01 01:00:00+00:00"' in document.read_text()
        array[4:].clear()
        assert sorted(each["position"] for each in _tiles(tmp_path, "v")) == ["1-0", "1-1"]
        array.delete()
        assert [each for each in tree(tmp_path) if "." in each] == ["collections/v.lock", "collections/v/v.json"]


def _tiles(root: Path, name: str) -> Iterator[dict[str, Any]]:
    """What the tiles hold that the links lead to."""
    for link in (root / "collections" / name / "array_symlinks").rglob("*.hdf5"):
        assert link.resolve() == data_of(root, name, link.stem).resolve()
        yield inside(link) | {"position": link.parent.name}


VARIATIONS: dict[str, tuple[dict[str, Any], bool, bool]] = {  # what is other in the document; who opens it
    "as it is": ({}, True, True),
    "more at the top": ({"note": 1}, True, True),
    "no options": ({"options": ...}, True, True),
    "no adapter": ({"storage_adapter": ...}, True, True),
    "no scale": ({"schema.dimensions.0.scale": ...}, True, True),
    "a fill that is a number": ({"schema.fill_value": 5}, True, True),
    "a fill of nan": ({"schema.fill_value": "nan"}, True, True),
    "an older version": ({"metadata_version": "0.1"}, True, True),
    "double": ({"schema.dtype": "numpy.double"}, True, True),
    "no prefix": ({"schema.dtype": "float64"}, True, True),
    "complex128": ({"schema.dtype": "numpy.complex128"}, True, True),
    "float_": ({"schema.dtype": "numpy.float_"}, False, False),
    "more in the schema": ({"schema.note": 1}, False, True),
    "no fill": ({"schema.fill_value": ...}, False, False),
    "no type of a dimension": ({"schema.dimensions.0.type": ...}, False, False),
    "the next version": ({"metadata_version": "0.3"}, False, False),
    "a version that is less as text": ({"metadata_version": "0.10"}, True, False),
}


@pytest.mark.parametrize("variation", VARIATIONS)
def test_variations_of_a_document(side: Side, tmp_path: Path, variation: str) -> None:
    changes, there, here = VARIATIONS[variation]
    with side.client(tmp_path) as client:
        side.collection(client, "c", Plan(lattice(3), np.float64))
    document = json.loads(text(tmp_path, "c"))
    for place, value in changes.items():
        *parents, key = place.split(".")
        within = reduce(lambda found, name: found[int(name) if isinstance(found, list) else name], parents, document)
        within.pop(key, None)
        within |= {} if value is ... else {key: value}
    (tmp_path / "collections/c/c.json").write_text(json.dumps(document, indent=1))
    with side.client(tmp_path) as client:
        found = outcome(lambda: client.get_collection("c").create()[:].shape)
    assert (found == (3,)) == (there if side.is_theirs else here)


# -- the rules ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["array", "varray"])
def sliced(request: pytest.FixtureRequest, side: Side, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The array of the table, and its flavour."""
    dims = (
        Dim("dt", SHAPE[0], start=START, step=HOUR),
        Dim("y", SHAPE[1], scale=(90.0, -0.25, None)),
        Dim("l", SHAPE[2], labels=list("abcd")),
        Dim("x", SHAPE[3]),
    )
    plan = Plan(dims, np.int64, cut={"vgrid": VGRID} if request.param == "varray" else None)
    with side.client(tmp_path_factory.mktemp("store")) as client:
        array = side.collection(client, "c", plan).create()
        array[:].update(CELLS)
        yield array, request.param


@pytest.mark.parametrize("row", KEPT + CORRECTED, ids=lambda row: row.expression)
def test_slicing(side: Side, sliced: Any, row: Row) -> None:
    array, flavour = sliced
    wanted = row.theirs_of(flavour) if side.is_theirs else row.ours
    found = outcome(lambda: array[row.key].read())
    if not isinstance(wanted, str):
        assert same(found, CELLS[wanted])
    elif wanted == "fill":
        assert found[-1].max() == np.iinfo(np.int64).min
    else:
        assert isinstance(found, Failed) and wanted in found


@pytest.mark.parametrize("expression", BOUNDS)
def test_bounds(sliced: Any, expression: str) -> None:
    assert sliced[0][Row(expression, ERROR).key].bounds == BOUNDS[expression]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.number)
def test_defects(side: Side, tmp_path: Path, defect: Defect) -> None:
    root = tmp_path / "above" / "store"
    client = side.client(root)
    assert defect.deed(side, client, root) == (defect.theirs if side.is_theirs else defect.ours)
    client.close()


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.what)
def test_calls(side: Side, tmp_path: Path, call: Call) -> None:
    root = tmp_path / "above" / "store"
    with side.client(root) as client:
        found = outcome(lambda: call.deed(side, client, root))
        wanted = call.theirs if side.is_theirs else call.ours
        assert wanted in found if isinstance(found, Failed) else [found] == wanted
