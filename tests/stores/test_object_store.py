"""Object stores against a real S3 server over HTTP: the shipped suite, what is read by how many requests, secrets."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import obstore.store
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import DataObject, data, integers, lists, tuples

import hyperslab as hs
from hyperslab.errors import Conflict, CorruptChunk, Invalid, ReadOnly, StorageError, Unsupported
from hyperslab.stores import DirectoryStore
from hyperslab.stores.base import Scratch, Store
from hyperslab.stores.location import Location
from hyperslab.stores.object import ObjectStore
from hyperslab.stores.ranges import span
from hyperslab.testing.store_machine import store_machine
from hyperslab.testing.stores import ODD_KEYS, StoreTests
from servers.s3 import S3, SECRET

pytestmark = pytest.mark.sampled(2)


def new_store(s3: S3, prefix: str = "some/x.zarr") -> ObjectStore:
    """An empty store in a bucket of its own."""
    store = Location.of(f"s3://{s3.bucket()}/{prefix}", s3.options).store(read_only=False, create=True)
    assert isinstance(store, ObjectStore)
    return store


@pytest.fixture
def store(s3: S3) -> ObjectStore:
    return new_store(s3)


class TestObjectStore(StoreTests):
    @pytest.fixture
    def store(self, s3: S3) -> ObjectStore:
        return new_store(s3)

    @pytest.mark.parametrize("key", [key for key in ODD_KEYS if key.isprintable()])
    def test_odd_keys(self, store: ObjectStore, key: str) -> None:
        """As everywhere."""
        super().test_odd_keys(store, key)

    def test_control_characters(self, store: ObjectStore) -> None:
        """Stored, or refused as no name: that is obstore's choice."""
        try:
            store.put("\n", b"1")
        except Invalid as error:
            assert "control" in str(error)
        else:
            assert store.get("\n") == b"1"

    def test_stamps(self, store: ObjectStore) -> None:
        """The ETag of S3 follows from the bytes: other bytes, another stamp; a swap of equal bytes loses nothing."""
        seen = set()
        for i in range(50):
            store.put("a/b", b"%d" % i)
            assert store.stamp("a/b") == store.stamp("a/b")
            seen.add(store.stamp("a/b"))
        assert len(seen) == 50
        assert store.stamp("a") is None

    @pytest.mark.soak
    def test_touch(self, store: Store) -> None:
        super().test_touch(store)

    def test_a_few_touches(self, store: Store) -> None:
        """Each takes two requests, of which the suite for all stores makes ten thousand."""
        seen = set()
        for number in range(50):
            store.touch("a/b", durable=number % 10 == 0)
            seen.add(store.stamp("a/b"))
        assert None not in seen and len(seen) == 50
        assert len(store.get("a/b") or b"") < 50


@pytest.mark.sampled(0)  # what differs is the prefix alone
class TestWholeBucket(TestObjectStore):
    """A bucket without a prefix."""

    @pytest.fixture
    def store(self, s3: S3) -> ObjectStore:
        return new_store(s3, "")

    @pytest.mark.soak
    @pytest.mark.parametrize("durable", [False, True])
    def test_put_many(self, store: Store, durable: bool) -> None:
        """Eight hundred requests."""
        super().test_put_many(store, durable)


@pytest.mark.sampled(0)
def test_machine(s3: S3) -> None:
    """Step by step as a dict."""

    class Scratched(ObjectStore):
        """A store that is empty again when it is closed."""

        def __init__(self) -> None:
            made = new_store(s3)
            super().__init__(made._store, made.url)

    case = store_machine(Scratched).TestCase
    case.settings = settings(max_examples=8, stateful_step_count=15, parent=settings.default)
    case("runTest").runTest()


# -- secrets ----------------------------------------------------------------------------------------------------------


def test_no_secret_is_shown(s3: S3) -> None:
    """Not in a repr, a URL, an error of any kind, nor by pickling."""
    bucket = s3.bucket()
    where = Location.of(f"s3://{bucket}/x", s3.options)
    store = where.store(read_only=False, create=True)
    texts = [repr(where), str(where), where.url, repr(store), store.url]
    refused = Location.of("s3://nowhere/x", s3.options).store(read_only=False, create=True)
    for call in (lambda: refused.get("a"), lambda: refused.put("a", b""), lambda: list(refused.list())):
        with pytest.raises(StorageError, match="no such bucket") as caught:
            call()
        texts += [str(caught.value), repr(caught.value.__cause__), repr(caught.value.__dict__)]
    for options in ({"secret_access_key": SECRET, "nonsense": SECRET}, {"endpoint": 5, "token": SECRET}):
        with pytest.raises(Invalid) as wrong:
            Location.of("s3://b/x", options).store(read_only=True)
        texts += [str(wrong.value), repr(wrong.value.__cause__)]
    assert not [text for text in texts if SECRET in text]
    assert SECRET.encode() not in pickle.dumps(where)
    with pytest.raises(Unsupported, match="pickled"):
        pickle.dumps(store)


def test_a_password_in_a_url_is_not_shown() -> None:
    """Though the client's own errors quote it."""
    options = {"retry_config": {"max_retries": 0}, "client_options": {"allow_http": True}}
    store = Location.of(f"http://user:{SECRET}@127.0.0.1:9/x?sig={SECRET}", options).store(read_only=True)
    with pytest.raises(StorageError, match="cannot read") as caught:
        store.get("zarr.json")
    assert caught.value.__cause__ is None
    assert SECRET not in f"{caught.value} {store!r} {store.url}"


def test_credentials_from_the_environment(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual names."""
    bucket = s3.bucket()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    store = Location.of(f"s3://{bucket}/x").store(read_only=False, create=True)
    store.put("a", b"1")
    assert store.get("a") == b"1"


def test_a_forked_child_is_told(s3: S3) -> None:
    """The client's threads stay behind: the child gets an error, where it would wait for ever."""
    url = f"s3://{s3.bucket()}/x.zarr"
    program = f"""if True:
        import os, hyperslab as hs
        options = {s3.options!r}
        hs.create({url!r}, storage_options=options)
        if not os.fork():
            try:
                hs.open({url!r}, storage_options=options)
            except hs.errors.StorageError as error:
                print(error.message, "spawn" in error.remedy, flush=True)
            os._exit(0)
        os.wait()
    """
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert answer.stdout == "this process was forked from one that used object stores True\n"


# -- what is not a URL ------------------------------------------------------------------------------------------------


def test_a_store_of_obstore(s3: S3, tmp_path: Path) -> None:
    """One that the user made is a place like any other; one of files is the folder."""
    bucket = s3.bucket()
    theirs = obstore.store.S3Store(bucket, prefix="p/x.zarr", client_options={"allow_http": True}, **s3.options)
    root = hs.create(theirs)
    root.create_array("a", data=np.arange(5))
    assert root.url == f"s3://{bucket}/p/x.zarr"
    assert hs.open(theirs)["a"][:].tolist() == [0, 1, 2, 3, 4]
    assert hs.open(f"s3://{bucket}/p/x.zarr", storage_options=s3.options)["a"][3] == 3
    hs.create(obstore.store.MemoryStore())
    local = Location.of(obstore.store.LocalStore(tmp_path))
    assert isinstance(local.store(read_only=False), DirectoryStore)
    web = Location.of(obstore.store.HTTPStore.from_url(f"https://u:{SECRET}@h/x"))
    assert web.url == "https://***@h/x"


def test_without_encryption(s3: S3) -> None:
    """A store that the user made for encrypted lines alone: the error says what would work."""
    store = Location.of(obstore.store.S3Store(s3.bucket(), **s3.options)).store(read_only=True)
    with pytest.raises(StorageError, match="allow_http"):
        store.get("a")


def test_read_only(s3: S3) -> None:
    """Refused before anything is asked of the server."""
    store = Location.of("s3://nowhere/x", s3.options).store(read_only=True)
    assert isinstance(store, ObjectStore)
    for call in (lambda: store.put("a", b""), lambda: store.delete("a"), lambda: store.put_if("a", b"", None)):
        with pytest.raises(ReadOnly):
            call()


# -- versions ---------------------------------------------------------------------------------------------------------


def test_new_values_whose_answers_were_lost(store: ObjectStore) -> None:
    """What has the wanted value already counts as stored, and stays when another key is taken."""
    store.put("a", b"1")
    store.put_new([("a", b"1"), ("b", b"2")])
    assert store.get("b") == b"2"
    with pytest.raises(Conflict):
        store.put_new([("a", b"1"), ("c", b"3"), ("b", b"other")])
    assert list(store.list()) == ["a", "b"]


def test_versions(store: ObjectStore) -> None:
    """Value, size and stamp of one version by one request; a part of it; nothing when it is known; of it alone."""
    assert store.get_version("a") is None
    store.put("a", b"0123456789")
    with hs.trace() as cost:
        whole = store.get_version("a")
        part = store.get_version("a", (-3, 0))
        assert whole is not None
        assert part is not None
        known = store.get_version("a", unless=whole.stamp)
    assert (cost.requests, cost.bytes_read) == (3, 13)
    assert (bytes(whole.data), whole.size) == (b"0123456789", 10)
    assert (bytes(part.data), part.size, part.stamp) == (b"789", 10, whole.stamp)
    assert whole.stamp == store.stamp("a")
    assert known is not None
    assert known.data is None
    assert store.get_ranges_of("a", [(0, 2), (8, 10)], whole.stamp) == [b"01", b"89"]
    with pytest.raises(CorruptChunk):
        store.get_version("a", most=9)
    with pytest.raises(CorruptChunk):
        store.get_into("a", Scratch(), 9)
    store.put("a", b"other")
    with pytest.raises(Conflict):
        store.get_ranges_of("a", [(0, 2)], whole.stamp)
    again = store.get_version("a", unless=whole.stamp)
    assert again is not None
    assert bytes(again.data) == b"other"
    store.delete("a")
    assert store.get_ranges_of("a", [(0, 2)], whole.stamp) is None


@given(data())
@settings(
    max_examples=min(settings.default.max_examples, 60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_ranges(store: ObjectStore, draw: DataObject) -> None:
    """Whatever is asked for together, it is what bytes would give."""
    value = bytes(i % 251 for i in range(draw.draw(integers(0, 900_000))))
    store.put("r", value)
    bounds = integers(-1_000_000, 1_000_000)
    ranges = draw.draw(lists(tuples(bounds, bounds), min_size=1, max_size=6))
    assert store.get_ranges("r", ranges) == [value[slice(*span(*wanted, len(value)))] for wanted in ranges]


def test_neighbouring_ranges_are_one_request(store: ObjectStore) -> None:
    """Far ones are not."""
    store.put("r", bytes(3 << 20))
    with hs.trace() as cost:
        store.get_ranges("r", [(0, 10), (20, 30), (100_000, 100_010)])
    assert cost.requests == 1
    with hs.trace() as cost:
        store.get_ranges("r", [(0, 10), (2 << 20, (2 << 20) + 5)])
    assert (cost.requests, cost.bytes_read) == (2, 15)
