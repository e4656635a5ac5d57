"""Collections and arrays that travel to other processes, and arrays that are given to NumPy as they are."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hyperslab.database import Array, ArraySchema, AttributeSchema, Client, Collection, DimensionSchema, VArraySchema
from hyperslab.errors import ClientError, MemoryLimit, NodeNotFound, ReadOnly, Unsupported
from programs import forking, ran

pytestmark = pytest.mark.covering  # layouts and flavours of arrays take turns

X = DimensionSchema("x", 4, labels=["a", "b", "c", "d"])
KEYS = [AttributeSchema("k", int, True), AttributeSchema("t", tuple, False)]


@pytest.fixture(params=["array", "varray"])
def collection(request, client, layout) -> Collection:
    schema = ArraySchema([X], int, KEYS) if request.param == "array" else VArraySchema([X], int, KEYS, vgrid=(2,))
    made = client.create_collection("c", schema, layout=layout)
    for k in range(3):
        made.create({"k": k}, {"t": (k, 1j)})[:].update([k, 1, 2, 3])
    return made


def _total(array: Array) -> int:
    array["d"].update(10)
    return int(array[:].read().sum())


def test_arrays_are_pickled_as_where_they_are(collection):
    arrays = list(collection)
    again = pickle.loads(pickle.dumps(arrays))
    assert again == arrays and [type(array) for array in again] == [type(array) for array in arrays]
    assert again[2].custom_attributes == {"t": (2, 1j)} and again[2].schema == collection.schema
    again[2]["b":"d"].update([7, 8])
    assert arrays[2][:].read().tolist() == [2, 7, 8, 3] == copy.deepcopy(arrays[2])[:].read().tolist()
    subset = pickle.loads(pickle.dumps(arrays[2]["b":]))
    assert subset.read().tolist() == [7, 8, 3]
    arrays[2].delete()
    with pytest.raises(NodeNotFound):
        again[2][:].read()


def test_other_processes_use_them(collection):
    with ProcessPoolExecutor(2, mp_context=forking()) as pool:
        assert sorted(pool.map(_total, collection)) == [13, 14, 15]
    assert [array["d"].read() for array in collection] == [10, 10, 10]


def test_a_collection_is_the_same_elsewhere(collection, tmp_path):
    program = "import pickle, sys; found = pickle.load(sys.stdin.buffer); found.create({'k': 9}); print(len(found))"
    done = ran(program, given=pickle.dumps(collection))
    assert done.stdout == "4\n", done.stderr
    assert collection.get(k=9) is not None
    again = pickle.loads(pickle.dumps(collection))
    assert again == collection and again.as_dict == collection.as_dict and again.path == collection.path
    with Client(tmp_path / "store", mode="r") as client:
        reading = pickle.loads(pickle.dumps(client.get_collection("c")))
    assert len(reading) == 4
    with pytest.raises(ReadOnly):
        reading.create({"k": 10})


def test_what_cannot_travel_says_so(client, layout):
    made = client.create_collection("c", ArraySchema([X], int, KEYS), layout=layout)
    client.close()
    with pytest.raises(ClientError):
        pickle.dumps(made)


def test_a_collection_in_memory_is_that_of_its_process():
    with Client("memory://pickled-collections") as client:
        collection = client.create_collection("c", ArraySchema([X], int, KEYS))
        assert pickle.loads(pickle.dumps(collection)) == collection
        program = "import pickle, sys; len(pickle.load(sys.stdin.buffer))"
        done = ran(program, given=pickle.dumps(collection))
    assert Unsupported.__name__ in done.stderr


def test_numpy_takes_the_cells(collection):
    array = collection.get(k=2)
    found = np.asarray(array)
    assert found.dtype == "int64" and found.tolist() == [2, 1, 2, 3]
    assert np.array(array, "f4").dtype == "f4" and float(np.mean(array)) == 2.0
    with pytest.raises(ValueError, match="copy"):
        np.array(array, copy=False)


def test_numpy_takes_no_more_than_the_client_may(tmp_path: Path, layout):
    with Client(tmp_path / "small", memory_limit=1000, skip_collection_create_memory_check=True) as client:
        array = client.create_collection("c", ArraySchema([DimensionSchema("x", 1000)], int), layout=layout).create()
        with pytest.raises(MemoryLimit):
            np.asarray(array)
