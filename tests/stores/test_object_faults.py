"""What fails between us and a bucket: repeated, then an error that names place and key; nothing waits for ever."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import HyperslabError, ReadOnly, StorageError
from hyperslab.stores import leases
from hyperslab.stores.location import Location
from hyperslab.stores.object import ObjectStore
from servers.faults import Proxy, faulty
from servers.s3 import S3

VALUE = bytes(range(256)) * 2000
READS: dict[str, Callable[[ObjectStore], Any]] = {
    "get": lambda store: store.get("a/b"),
    "get_ranges": lambda store: store.get_ranges("a/b", [(0, 1000), (400_000, 500_000)]),
    "list": lambda store: list(store.list("a")),
    "list_dir": lambda store: store.list_dir("a"),
}
WRITES: dict[str, Callable[[ObjectStore], Any]] = {
    "put": lambda store: store.put("a/b", VALUE),
    "put_many": lambda store: store.put_many([(f"a/{i}", VALUE[:1000]) for i in range(20)]),
    "delete": lambda store: store.delete("a/c"),
    "delete_prefix": lambda store: store.delete_prefix("a"),
}


@pytest.fixture
def proxy(s3: S3) -> Iterator[Proxy]:
    with faulty(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def options(s3: S3, proxy: Proxy) -> dict[str, Any]:
    """Through the proxy, with little patience."""
    backoff = {"init_backoff": timedelta(milliseconds=10), "max_backoff": timedelta(seconds=1), "base": 2}
    retries = {
        "max_retries": 2,
        "retry_timeout": timedelta(seconds=20),
        "backoff": backoff,
    }
    return {**s3.options, "endpoint": proxy.url, "retry_config": retries, "client_options": {"timeout": "1s"}}


@pytest.fixture
def url(s3: S3) -> str:
    return f"s3://{s3.bucket()}/x.zarr"


@pytest.fixture
def store(url: str, options: dict[str, Any]) -> ObjectStore:
    store = Location.of(url, options).store(read_only=False, create=True)
    assert isinstance(store, ObjectStore)
    store.put("a/b", VALUE)
    return store


def test_etags_without_quotes(store: ObjectStore, proxy: Proxy) -> None:
    """A version has one stamp, by whatever request it is told."""
    proxy.times(1, "unquoted")
    [(_, listed, _)] = store.entries("a")
    assert listed == store.stamp("a/b")


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("fault", ["503", "reset", "truncate", "break", "hang"])
@pytest.mark.parametrize("name", READS)
def test_reads(store: ObjectStore, proxy: Proxy, name: str, fault: str) -> None:
    """A fault that passes is not noticed; one that stays is an error, soon."""
    read = READS[name]
    expected = read(store)
    proxy.times(2, fault)
    assert read(store) == expected
    proxy.times(1000, fault)
    begin = time.monotonic()
    with pytest.raises(StorageError, match="cannot read") as caught:
        read(store)
    assert time.monotonic() - begin < 20
    assert caught.value.url == store.url
    assert (caught.value.key or "a").startswith("a")
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.sampled(0)
@pytest.mark.covering
@pytest.mark.parametrize("fault", ["503", "reset", "lost", "hang"])
@pytest.mark.parametrize("name", WRITES)
def test_writes(store: ObjectStore, proxy: Proxy, name: str, fault: str) -> None:
    """The same."""
    write = WRITES[name]
    proxy.times(2, fault, ("PUT", "POST", "DELETE"))
    write(store)
    proxy.times(1000, fault, ("PUT", "POST", "DELETE"))
    with pytest.raises(StorageError, match="cannot write") as caught:
        write(store)
    assert caught.value.url == store.url
    assert caught.value.key is not None


def test_access_refused(store: ObjectStore, proxy: Proxy) -> None:
    """Said once, for both directions."""
    proxy.times(1, "403")
    with pytest.raises(StorageError, match=r"access refused.*a/b.*credentials"):
        store.get("a/b")
    proxy.times(1, "403", ("PUT",))
    with pytest.raises(ReadOnly, match=r"access refused.*a/b.*credentials"):
        store.put("a/b", b"")
    assert store.get("a/b") == VALUE


def test_the_server_goes_away(s3: S3, url: str) -> None:
    """In the midst of reading: an error that names the chunk, and nothing hangs."""
    hs.create(url, storage_options=s3.options).create_array("v", data=np.ones((40, 40)), chunks=(10, 10))
    with faulty(s3.endpoint) as proxy:
        options = {**s3.options, "endpoint": proxy.url, "retry_config": {"max_retries": 1}}
        array = hs.open(url, storage_options=options)["v"]
        assert array[0, 0] == 1
        answered = iter(range(5))
        proxy.choose = lambda method, path: "reset" if next(answered, None) is None else None
        with pytest.raises(StorageError, match=r"s3://.*node=/v.*key=v/c/"):
            array[:]


@pytest.mark.sampled(0)
def test_requests_in_flight(s3: S3, url: str, proxy: Proxy) -> None:
    """32 chunks are asked for before the first is answered, whatever the number of cores; and so they are written."""
    cells = np.arange(6400.0).reshape(80, 80) + 1
    array = hs.create(url, storage_options=s3.options).create_array("a", data=cells, chunks=(10, 10))
    array = hs.open(url, "r+", storage_options={**s3.options, "endpoint": proxy.url})["a"]
    together = threading.Barrier(32)

    def wait(method: str, path: str) -> None:
        if "/a/c/" in path:
            together.wait(30)

    proxy.choose = wait
    np.testing.assert_array_equal(array[:], cells)
    array[...] = cells + 1
    assert not together.broken
    proxy.choose = lambda method, path: None
    np.testing.assert_array_equal(array[:], cells + 1)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    "layout",
    [pytest.param({}, id="chunks", marks=pytest.mark.soak), pytest.param({"shards": (20, 20)}, id="shards")],
)
def test_writers_on_a_bad_line(
    s3: S3, url: str, options: dict[str, Any], proxy: Proxy, layout: dict[str, tuple[int, int]]
) -> None:
    """Every tenth answer is lost after it was served, others break off: no cell and no attribute is lost."""
    array = hs.create(url, storage_options=s3.options).create_array(
        "a", shape=(20, 20), chunks=(10, 10), dtype="i4", **layout
    )
    array = hs.open(url, "r+", storage_options=options)["a"]
    number = iter(range(10_000))
    faults = {3: "lost", 7: "break"}
    proxy.choose = lambda method, path: faults.get(next(number) % 10)
    for row in range(0, 20, 4):
        array[row, 1::3] = row + 1
        array.attrs[f"n{row}"] = row
        array.append(np.full((1, 20), -row), dim=0)
    proxy.choose = lambda method, path: None
    expected = np.zeros((25, 20), "i4")
    for i, row in enumerate(range(0, 20, 4)):
        expected[row, 1::3] = row + 1
        expected[20 + i] = -row
    array = hs.open(url, storage_options=options)["a"]
    np.testing.assert_array_equal(array[:], expected)
    assert dict(array.attrs) == {f"n{row}": row for row in range(0, 20, 4)}


@pytest.mark.soak  # a lease is awaited after each
def test_every_request_of_a_change(
    s3: S3, url: str, options: dict[str, Any], proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th request is refused for good, for n = 1, 2, …: an error, or the change is there; a copy of all documents
    says no other; and what is left in the bucket holds up the next writer for no longer than a lease."""
    monkeypatch.setattr(leases, "LEASE", 0.5)
    for n in range(100):
        root = hs.create(url, storage_options=s3.options, consolidated=True, overwrite=True)
        root.create_array("a", data=np.arange(4))
        array = hs.open(url, "r+", storage_options=options)["a"]
        before = len(proxy.seen)
        proxy.choose = lambda method, path, at=before + n: "403" if len(proxy.seen) == at + 1 else None  # type: ignore[misc]
        try:
            array.attrs["n"] = n
            acknowledged = True
        except HyperslabError:
            acknowledged = False
        asked = len(proxy.seen) - before
        proxy.choose = lambda method, path: None
        found = [node.attrs.get("n") for node in both_ways(url, s3)]
        assert found == [n, n] if acknowledged else found in ([None, None], [n, n])
        if asked <= n:
            assert n > 8
            return
        array.attrs["m"] = n
        assert [node.attrs["m"] for node in both_ways(url, s3)] == [n, n]
    pytest.fail("the change never came to its end")


def both_ways(url: str, s3: S3) -> list[Any]:
    """The array as the tree has it, and as it is opened alone."""
    return [hs.open(url, storage_options=s3.options)["a"], hs.open(f"{url}/a", storage_options=s3.options)]


class Refusal(BaseHTTPRequestHandler):
    """A server that refuses whatever is asked, as one of credentials may."""

    def do_PUT(self) -> None:
        self.send_error(403)

    do_GET = do_PUT

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_no_credentials_are_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = {
            "metadata_endpoint": f"http://127.0.0.1:{server.server_port}",
            "client_options": {"allow_http": True},
            "region": "us-east-1",
        }
        with pytest.raises(StorageError, match=r"access refused.*credentials"):
            hs.open("s3://bucket/a.zarr", storage_options=options)
        server.shutdown()
