"""Blaze directories in a bucket: no locks, so files are swapped, and what takes several files is done under a lease."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import CorruptChunk, NotFound
from hyperslab.formats.blaze import FORMAT
from hyperslab.stores.location import Location
from hyperslab.testing.formats import FormatTests
from servers.s3 import S3

pytestmark = pytest.mark.sampled(3)

NESTED = np.dtype([("a", "<i2"), ("b", [("c", "<f4")])])


class TestInABucket(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, s3: S3) -> Location:
        return Location.of(f"s3://{s3.bucket()}/new.blaze", s3.options)

    def test_a_new_dataset_is_an_empty_group(self, place: Location) -> None:
        """Nothing is stored before there is an array."""
        with self.writing(place) as writer:
            assert list(writer.children("")) == []
        with pytest.raises(NotFound):
            hs.open(place)


@pytest.mark.parametrize("layout", ["blaze", "bcolz"])
def test_step_by_step(s3: S3, layout: str) -> None:
    options = {"superchunk": 3} if layout == "blaze" else {}
    place = f"s3://{s3.bucket()}/a.blaze"
    cells = np.arange(95.0)
    with hs.create(place, layout=layout, storage_options=s3.options, **options) as root:
        array = root.create_array("data", data=cells, chunks=10)
        array[33:57:2] = -1
        cells[33:57:2] = -1
        array.append(np.arange(40.0))
        cells = np.concatenate([cells, np.arange(40.0)])
        array.resize(71)
        cells = cells[:71]
        array.resize(90)
        cells = np.concatenate([cells, np.zeros(19)])
        np.testing.assert_array_equal(array[...], cells)
        np.testing.assert_array_equal(array[44:46], cells[44:46])
    np.testing.assert_array_equal(hs.open_array(place, storage_options=s3.options)[::-4], cells[::-4])
    assert not hs.check(place, deep=True, storage_options=s3.options)


def test_rows_of_columns_by_several_threads(s3: S3) -> None:
    """An append holds the array; the threads that write its superchunks do not wait for one another."""
    place = f"s3://{s3.bucket()}/a.blaze"
    rows = np.zeros(200_000, NESTED)
    rows["a"] = np.arange(200_000) % 1000
    with hs.create(place, superchunk=1, workers=4, lock_timeout=20, storage_options=s3.options) as root:
        array = root.create_array("data", shape=(0,), dtype=NESTED, chunks=20_000)
        array.append(rows)
        array[5:150_000] = rows[5:150_000]
    np.testing.assert_array_equal(hs.open_array(place, storage_options=s3.options)[...], rows)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("dtype", [np.dtype("<i2"), NESTED])
def test_several_writers_lose_nothing(s3: S3, dtype: np.dtype) -> None:
    place = f"s3://{s3.bucket()}/a.blaze"
    with hs.create(place, superchunk=2, storage_options=s3.options) as root:
        root.create_array("data", shape=(24,), dtype=dtype, chunks=3)

    def work(first: int) -> None:
        array = hs.open_array(place, "r+", storage_options=s3.options)
        for row in range(first, 24, 3):
            array[row] = row if dtype.names is None else np.array((row, (row,)), dtype)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = hs.open_array(place, storage_options=s3.options)[...]
    values = found if dtype.names is None else found["a"]
    np.testing.assert_array_equal(values, np.arange(24))


def superchunks(s3: S3, rows: int, change: Callable[[bytearray], None], key: str) -> Location:
    """A dataset in superchunks of eight chunks of 1,000 rows that do not compress; one of its values is changed."""
    place = Location.of(f"s3://{s3.bucket()}/a.blaze", s3.options)
    with hs.create(place, superchunk=8) as root:
        root.create_array("data", data=noise(rows), chunks=1000)
    store = place.store(read_only=False)
    value = bytearray(store.get(key) or b"")
    change(value)
    store.put(key, bytes(value))
    return place


def noise(rows: int) -> np.ndarray:
    return np.random.default_rng(7).random(rows)


def lengthen(value: bytearray) -> None:
    value.extend(bytes(4 << 20))


def lengthen_unfinished(value: bytearray) -> None:
    """A writer that came to no end: where the chunks begin is not known, they are walked through."""
    value[32:40] = (-1).to_bytes(8, "little", signed=True)
    lengthen(value)


@pytest.mark.parametrize(
    ("damage", "act"),
    [
        (lengthen, lambda array: array[...]),
        (lengthen, lambda array: array.__setitem__(5, 1.0)),
        (lengthen, lambda array: array.__setitem__(slice(0, 1000), 1.0)),
        (lengthen_unfinished, lambda array: array[5]),
    ],
    ids=["read", "write a part", "write a chunk", "walk"],
)
def test_a_superchunk_that_is_far_too_long_is_not_fetched(
    s3: S3, damage: Callable[[bytearray], None], act: Callable[[hs.Array], None]
) -> None:
    place = superchunks(s3, 8000, damage, "data/__1__.bin")
    array = hs.open_array(place, "r+")
    with hs.trace() as cost, pytest.raises(CorruptChunk, match="too long") as caught:
        act(array)
    assert caught.value.key == "data/__1__.bin"
    assert cost.bytes_read < 64 << 10


@pytest.mark.parametrize("rows", [5, 1500])
def test_a_superchunk_of_a_time_when_the_array_was_longer(s3: S3, rows: int) -> None:
    """Whoever made the array shorter died between its sizes and its chunks."""

    def shorten(value: bytearray) -> None:
        value[:] = json.dumps({"shape": [rows], "nbytes": 8 * rows, "cbytes": 0}).encode()

    place = superchunks(s3, 8000, shorten, "meta/sizes")
    np.testing.assert_array_equal(hs.open_array(place)[...], noise(rows))
    with hs.open_group(place, "r+") as root:
        root["data"][3] = -1
    np.testing.assert_array_equal(hs.open_array(place)[...], [*noise(3), -1, *noise(rows)[4:]])
