"""Our own layout in a bucket of a real S3 server and in memory: the same calls as on a disk."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import uuid4

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    DimensionSchema,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.database.connection import Connection
from hyperslab.errors import (
    AlreadyExists,
    ClientError,
    CollectionNotFound,
    Invalid,
    NodeNotFound,
    ReadOnly,
    Unsupported,
)

DIMENSIONS = [
    TimeDimensionSchema("t", 4, "$dt", timedelta(hours=1)),
    DimensionSchema("y", 6, scale=Scale(90.0, -0.5)),
    DimensionSchema("l", 2, labels=["a", "b"]),
]
ATTRIBUTES = [AttributeSchema("dt", datetime, True), AttributeSchema("n", int, False)]
DATA = np.arange(48).reshape(4, 6, 2)


@pytest.fixture(params=["s3", "memory"])
def opened(request):
    """What opens a client of an empty place, again and again."""
    if request.param == "memory":
        name = uuid4().hex
        return lambda **options: Client(f"memory://{name}", **options)
    s3 = request.getfixturevalue("s3")
    place = f"s3://{s3.bucket()}/data/store"
    return lambda **options: Client(place, storage_options=s3.options, **options)


def test_the_present_state_is_not_shown_as_an_older_one(opened):
    with opened() as client:
        client.create_collection("c", ArraySchema(DIMENSIONS, int, ATTRIBUTES)).create({"dt": "2024-01-01"})
        with pytest.raises(Unsupported, match="keeps no versions") as caught:
            client.get_collection("c", at="2020-01-01")
        if client.url.startswith("s3"):
            assert "keep_versions" not in str(caught.value)  # which has no effect there
        assert client.get_collection("none", at="2020-01-01") is None


@pytest.mark.sampled(20)
@pytest.mark.parametrize("grid", [{}, {"vgrid": (2, 3, 1)}], ids=["array", "varray"])
def test_a_life_of_a_collection(opened, grid):
    schema = (VArraySchema if grid else ArraySchema)(DIMENSIONS, int, ATTRIBUTES, **grid)
    with opened() as client:
        collection = client.create_collection("c", schema)
        with pytest.raises(AlreadyExists):
            client.create_collection("c", schema)
        array = collection.create({"dt": datetime(2023, 1, 1)}, {"n": 1})
        collection.create_many(({"dt": datetime(2023, 1, day)}, {"n": day}) for day in (3, 2))
        with pytest.raises(AlreadyExists):
            collection.create({"dt": datetime(2023, 1, 2)})
        array[:].update(DATA)
        array["2023-01-01T01:00:00", 89.5:88.0, "b"].update([-1, -2, -3])
    expected = DATA.copy()
    expected[1, 1:4, 1] = [-1, -2, -3]
    with client:
        found = client.get_collection("c").filter({"dt": "2023-01-01"}).first()
        np.testing.assert_array_equal(found[:].read(), expected)
        np.testing.assert_array_equal(found[::-2, 88.5:, "a"].read(), expected[::-2, 3:, 0])
        found.update_custom_attributes({"n": 9})
        assert [each.custom_attributes["n"] for each in collection] == [9, 2, 3] and len(collection) == 3
        assert [each.custom_attributes["n"] for each in collection.query(n=(3, None), order="-n")] == [9, 3]
        found[:2].clear()
        expected[:2] = found.fill_value
        np.testing.assert_array_equal(array[:].read(), expected)
        assert client.calculate_storage_size("c").bytes > 0 and not client.check_integrity(4, False)
        found.delete()
        with pytest.raises(NodeNotFound):
            array[:].read()
    with opened(mode="r") as reader:
        assert [each.custom_attributes["n"] for each in reader.get_collection("c")] == [2, 3]
        with pytest.raises(ReadOnly):
            reader.get_collection("c").clear()
    with client:
        collection.clear()
        assert len(collection) == 0
        collection.delete()
        assert list(client) == [] and client.get_collection("c") is None
        with pytest.raises(CollectionNotFound):
            list(collection)


def test_of_many_who_create_one_key_one_wins(opened):
    with opened() as client:
        collection = client.create_collection(
            "c", ArraySchema([DimensionSchema("x", 2)], int, [AttributeSchema("k", int, True)])
        )

        def create(_: int) -> bool:
            try:
                collection.create({"k": 1})
            except AlreadyExists:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(create, range(16))) == 1
        assert len(collection) == 1


def test_unlimited_dimensions_grow(opened):
    with opened() as client:
        dims = [DimensionSchema("x", None), DimensionSchema("y", 3)]
        array = client.create_collection("c", VArraySchema(dims, float, arrays_shape=(2, 3))).create()
        for start in range(0, 9, 3):
            array.append(np.arange(start, start + 9.0).reshape(3, 3))
        assert array.shape == (9, 3) and array[7].read().tolist() == [9.0, 10.0, 11.0]


def test_a_closed_client_tells_its_place(opened):
    client = opened()
    place = client.url
    client.close()
    assert place in repr(client) and "closed" in repr(client) and client.url == place


def test_secrets_of_a_url_are_told_to_nobody():
    for place in ("nix://user:canary@host/store", "file://user:canary@host/store"):
        with pytest.raises(ClientError) as caught:
            Client(place)
        assert "canary" not in str(caught.value) and "canary" not in repr(caught.value)
    kept = Connection("s3://bucket/store", "a", 1, {"storage_options": {"password": "canary"}})
    assert "canary" not in repr(kept)


def test_dekers_layout_is_one_of_folders(opened):
    with opened() as client:
        with pytest.raises(Unsupported):
            client.create_collection("c", ArraySchema(DIMENSIONS, int, ATTRIBUTES), layout="deker")
        assert list(client) == []


def test_collections_travel_without_secrets(s3, monkeypatch):
    place = f"s3://{s3.bucket()}/data/store"
    with Client(place, storage_options=s3.options) as client:
        array = client.create_collection("c", ArraySchema(DIMENSIONS, int, ATTRIBUTES)).create({"dt": "2023-01-01"})
        array[:].update(DATA)
        for each in (client.get_collection("c"), array):
            with pytest.raises(Invalid, match="secrets"):
                pickle.dumps(each)
    for name in ("access_key_id", "secret_access_key"):
        monkeypatch.setenv(f"AWS_{name.upper()}", s3.options[name])
    plain = {name: value for name, value in s3.options.items() if name not in ("access_key_id", "secret_access_key")}
    with Client(place, storage_options=plain) as client:
        data = pickle.dumps(client.get_collection("c"))
        assert s3.options["secret_access_key"].encode() not in data
        np.testing.assert_array_equal(pickle.loads(data).first()[:].read(), DATA)


def test_readers_follow_a_new_attribute_without_reading_arrays(s3):
    """What they had loaded, or find in the bucket, is known with its default: no document of an array is read."""
    place = f"s3://{s3.bucket()}/data/store"
    schema = ArraySchema([DimensionSchema("x", 2)], int, [AttributeSchema("n", int, True)])
    with Client(place, storage_options=s3.options) as writer:
        made = writer.create_collection("c", schema)
        list(made.create_many(({"n": number}, {}) for number in range(60)))
    with (
        Client(place, storage_options=s3.options, mode="r") as reader,
        Client(place, storage_options=s3.options) as writer,
    ):
        known = reader.get_collection("c")
        assert len(known.query(n=(3, 5))) == 3
        writer.get_collection("c").add_attribute(AttributeSchema("quality", int, False, 7))
        with hs.trace() as cost:
            assert known._collection.required_store().document.schema.custom_attributes
            assert known._collection.index.count() == 60
        assert cost.requests < 15
        with Client(place, storage_options=s3.options, mode="r") as late, hs.trace() as cost:
            assert late.get_collection("c")._collection.index.count() == 60
        assert cost.requests < 15


def test_whether_a_collection_is_there_is_one_request(s3):
    """Also where it was made by this client, or given another schema by another one."""
    place = f"s3://{s3.bucket()}/data/store"
    with Client(place, storage_options=s3.options) as client:
        made = client.create_collection("c", ArraySchema(DIMENSIONS, int, ATTRIBUTES))
        for _ in range(2):
            with hs.trace() as cost:
                assert client.get_collection("c") is not None
            assert cost.requests == 1
        with Client(place, storage_options=s3.options) as other:
            other.get_collection("c").add_attribute(AttributeSchema("quality", int, False, 7))
        with hs.trace() as cost:
            assert not made._collection.store.exists()
        assert cost.requests == 1
        assert client.get_collection("c").schema.custom_attributes[-1].name == "quality"
