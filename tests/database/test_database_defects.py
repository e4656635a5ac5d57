"""Requirements and defects of DEKER by their numbers, through the client: what layouts and flavours have in common."""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from hyperslab.database import Array, ArraySchema, AttributeSchema, Client, DimensionSchema, Scale, VArray, VArraySchema
from hyperslab.database.client import _find_problems
from hyperslab.errors import FormatError, Invalid, SchemaError
from programs import side_by_side

pytestmark = pytest.mark.covering  # layouts and flavours of arrays take turns

X = DimensionSchema("x", 8)
KEY = AttributeSchema("k", int, True)
NOTE = AttributeSchema("note", str, False)


@pytest.fixture(params=["array", "varray"])
def schema(request) -> ArraySchema:
    """Eight cells in one file, or in four."""
    if request.param == "array":
        return ArraySchema([X], int, [KEY, NOTE])
    return VArraySchema([X], int, [KEY, NOTE], vgrid=(4,))


def size_of(client: Client) -> int:
    return client.calculate_storage_size("c").bytes


def test_r4_there_are_arrays_and_varrays(client, layout):
    plain = client.create_collection("plain", ArraySchema([X], int, [KEY]), layout=layout)
    tiled = client.create_collection("tiled", VArraySchema([X], int, [KEY], vgrid=(2,)), layout=layout)
    for collection, kind in ((plain, Array), (tiled, VArray)):
        assert type(collection.create({"k": 1})) is kind is type(client.get_collection(collection.name).first())
    assert issubclass(VArray, Array) and not hasattr(plain.first(), "vgrid") and tiled.first().vgrid == (2,)
    assert [array.id for array in tiled.varrays] == [array.id for array in tiled]
    with pytest.raises(Invalid):
        _ = plain.varrays


def test_r61_a_cell_with_the_fill_value_is_a_cell_without_data(client, layout, schema):
    array = client.create_collection("c", schema, layout=layout).create({"k": 1})
    data = np.arange(8)
    data[2:4] = array.fill_value
    array[:].update(data)
    np.testing.assert_array_equal(array[:].read(), data)
    array[5:].clear()
    assert np.flatnonzero(array[:].read() == array.fill_value).tolist() == [2, 3, 5, 6, 7]
    array[:].update(int(array.fill_value))
    if isinstance(array, VArray):
        assert list(client.get_collection("c").arrays) == []
    assert (array[:].read() == array.fill_value).all()


UPDATES = """
import sys
from hyperslab.database import Client
with Client(sys.argv[1], durable=False) as client:
    array = client.get_collection("c").first()
    for number in range(1, 100_000):
        array.update_custom_attributes({"note": str(number % 10) * (number * 37 % 3000)})
        print(number, flush=True)
"""
WRITES = """
import sys
from hyperslab.database import Client
with Client(sys.argv[1], durable=False) as client:
    array = client.get_collection("c").first()
    for number in range(1, 100_000):
        array[:].update(number)
        print(number, flush=True)
"""


def kill_after(steps: int, code: str, place: Path) -> int:
    """Kill a process that runs ``code`` after so many lines of it; the number that it printed last."""
    with side_by_side(code, (place,)) as (child,):
        list(islice(child.stdout, steps))
        child.kill()
        said = child.communicate()[0].split("\n")[:-1]
    return int(said[-1]) if said else steps


def test_defect_2_a_killed_update_leaves_the_old_or_the_new_attributes(client, tmp_path, layout, schema):
    client.create_collection("c", schema, layout=layout).create_many([({"k": k}, {"note": "0"}) for k in range(2)])
    client.close()
    last = kill_after(12, UPDATES, tmp_path / "store")
    with client:
        first, second = client.get_collection("c")
        notes = [str(number % 10) * (number * 37 % 3000) for number in (last, last + 1)]
        assert first.custom_attributes["note"] in notes and second.custom_attributes == {"note": "0"}
        first.update_custom_attributes({"note": "alive"})
        assert client.get_collection("c").get(k=0).custom_attributes == {"note": "alive"}


def test_defect_3_a_killed_writer_keeps_nobody_from_reading_or_writing(tmp_path, layout, schema):
    with Client(tmp_path, write_lock_timeout=0, durable=False) as client:
        client.create_collection("c", schema, layout=layout).create({"k": 1})
        last = kill_after(12, WRITES, tmp_path)
        array = client.get_collection("c").first()
        found = set(array[:].read().tolist())
        assert found <= {last, last + 1} and (len(found) == 1 or layout == "deker")
        array[:].update(-1)
        assert (client.get_collection("c").first()[:].read() == -1).all()


def test_defect_5_a_copied_store_is_its_own(client, tmp_path, layout, schema):
    original = client.create_collection("c", schema, layout=layout)
    original.create({"k": 1})[:].update(1)
    original.create({"k": 2})[:].update(2)
    shutil.copytree(tmp_path / "store", tmp_path / "copy", symlinks=True)
    with Client(tmp_path / "copy", durable=False) as other:
        copy = other.get_collection("c")
        copy.get(k=1)[:].update(7)
        copy.get(k=2).delete()
        assert [int(array[0].read()) for array in copy] == [7]
        assert [int(array[0].read()) for array in original] == [1, 2]
        original.get(k=1).delete()
        assert copy.get(k=1)[0].read() == 7 and copy.get(k=2) is None and len(original) == 1


@pytest.mark.parametrize("grid", [None, (2, 1, 2)])
def test_defect_11_dots_stand_for_all_dimensions_that_are_left(client, layout, grid):
    dims = [DimensionSchema(name, 4) for name in "xyz"]
    schema = ArraySchema(dims, int) if grid is None else VArraySchema(dims, int, vgrid=grid)
    array = client.create_collection("c", schema, layout=layout).create()
    data = np.arange(64).reshape(4, 4, 4)
    array[...].update(data)
    for key in (np.s_[..., 0], np.s_[1, ...], np.s_[1, ..., 2], np.s_[..., 1, 1, 1], np.s_[0, 1, 2, ...]):
        np.testing.assert_array_equal(array[key].read(), data[key])
    with pytest.raises(IndexError):
        array[..., 0, ...]


def test_defect_16_what_selects_nothing_is_empty(client, layout, schema):
    array = client.create_collection("c", schema, layout=layout).create({"k": 1})
    array[:].update(np.arange(8))
    for key in (np.s_[3:3], np.s_[5:2], np.s_[8:], np.s_[2:5:-1]):
        assert array[key].shape == (0,) == array[key].read().shape and array[key].describe() == {"x": []}
        array[key].update([])
        array[key].clear()
    np.testing.assert_array_equal(array[:].read(), np.arange(8))


WRONG = {
    "negative size": lambda: ArraySchema([DimensionSchema("x", -4)], int),
    "scale of step 0": lambda: ArraySchema([DimensionSchema("x", 4, scale=Scale(0.0, 0.0))], int),
    "scale of NaN": lambda: ArraySchema([DimensionSchema("x", 4, scale=Scale(float("nan"), 1.0))], int),
    "too few labels": lambda: ArraySchema([DimensionSchema("x", 4, labels=["a", "b"])], int),
    "fill that overflows": lambda: ArraySchema([X], np.int8, fill_value=300),
}


@pytest.mark.parametrize("name", WRONG)
def test_defect_20_what_makes_no_sense_is_never_stored(client, layout, name):
    with pytest.raises(SchemaError):
        client.create_collection("c", WRONG[name](), layout=layout)
    sound = client.create_collection("sound", ArraySchema([X], int), layout=layout).as_dict
    sound["schema"]["dimensions"][0]["size"] = -4
    with pytest.raises(FormatError):
        client.collection_from_dict({**sound, "name": "c"})
    assert [each.name for each in client] == ["sound"]


def test_defect_24_changes_leave_no_space_behind(client, layout, schema):
    array = client.create_collection("c", schema, layout=layout).create({"k": 1}, {"note": "x" * 500})
    array[:].update(np.arange(8))
    once = size_of(client)
    for number in range(30):
        array.update_custom_attributes({"note": str(number % 10) * 500})
        array[:].clear()
        array[:].update(np.arange(8) + number)
    assert size_of(client) <= once + 4096


def test_a_check_passes_over_a_collection_that_is_removed_meanwhile(client, layout, schema):
    """It was an AttributeError: the names are those of its beginning."""
    for name in ("a", "b"):
        client.create_collection(name, schema, layout=layout)

    class Removing:
        """The collections as they were a moment ago."""

        def collections(self):
            names = client._connection.reader.collections()
            client.get_collection("a").delete()
            return names

        def collection_store(self, name):
            return client._connection.collection_store(name)

    assert list(_find_problems(Removing(), 1, None)) == []
