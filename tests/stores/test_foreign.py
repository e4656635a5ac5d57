"""Stores of other libraries: the shipped suite over each, and datasets in them that both sides read."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Invalid, NotFound, ReadOnly, StorageError
from hyperslab.stores import DirectoryStore
from hyperslab.stores.foreign import FsspecStore, ZarrPythonStore, adopt_store
from hyperslab.testing.stores import StoreTests
from servers.s3 import S3

zarr = pytest.importorskip("zarr")


class TestFsspecFolder(StoreTests):
    """The folder itself: whole values, locks."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> DirectoryStore:
        return adopt_store(fsspec.get_mapper(f"file://{tmp_path}/x"))  # type: ignore[no-any-return]


class TestFsspecMemory(StoreTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[FsspecStore]:
        mapper = fsspec.get_mapper(f"memory://{tmp_path}/x")
        yield adopt_store(mapper)
        mapper.clear()


class TestZarrMemory(StoreTests):
    @pytest.fixture
    def store(self) -> ZarrPythonStore:
        return adopt_store(zarr.storage.MemoryStore())  # type: ignore[no-any-return]


class TestZarrLocal(StoreTests):
    """The folder itself."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> DirectoryStore:
        return adopt_store(zarr.storage.LocalStore(tmp_path / "x"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("layout", [{}, {"shards": (10, 10)}], ids=["chunks", "shards"])
def test_zarr_stores(layout: dict[str, Any]) -> None:
    """Written through the store's own calls, read by zarr-python from the same store, and the other way round."""
    store = zarr.storage.MemoryStore()
    cells = np.arange(400.0).reshape(20, 20)
    root = hs.create(store, "zarr3")
    array = root.create_array("a", data=cells, chunks=(5, 5), **layout)
    array[3:9, 4] = cells[3:9, 4] = -1
    group = zarr.open_group(store, mode="r+")
    np.testing.assert_array_equal(group["a"][:], cells)
    group.create_array("b", data=cells, chunks=(7, 7))
    np.testing.assert_array_equal(hs.open(store)["b"][2:9], cells[2:9])
    with pytest.raises(ReadOnly):
        hs.open(store.with_read_only(True), "r+")


@pytest.mark.sampled(0)
def test_fsspec_on_s3(s3: S3) -> None:
    """s3fs reads what was written to the bucket, and writes what is read there."""
    bucket = s3.bucket()
    options = {"key": "tester", "secret": "canary", "client_kwargs": {"endpoint_url": s3.endpoint}}
    mapper = fsspec.get_mapper(f"s3://{bucket}/x.zarr", **options)
    cells = np.arange(400.0).reshape(20, 20)
    hs.create(mapper, "zarr2").create_array("a", data=cells, chunks=(5, 5))
    assert hs.open(mapper).url == f"s3://{bucket}/x.zarr"
    root = hs.open(f"s3://{bucket}/x.zarr", "r+", storage_options=s3.options)
    np.testing.assert_array_equal(root["a"][:], cells)
    root.create_array("b", data=cells + 1, chunks=(7, 7))
    np.testing.assert_array_equal(hs.open(mapper)["b"][:], cells + 1)
    theirs = zarr.open_group(f"s3://{bucket}/x.zarr", mode="r", storage_options=options)
    np.testing.assert_array_equal(theirs["b"][:], cells + 1)
    nowhere = fsspec.get_mapper("s3://nowhere/x.zarr", **options)
    with pytest.raises(StorageError, match="nowhere"):
        hs.create(nowhere)


REFERENCES = {
    ".zgroup": '{"zarr_format": 2}',
    "a/.zarray": '{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i2", "compressor": null, "filters": null, '
    '"order": "C", "fill_value": 7}',
    "a/0": "base64:AQACAA==",
}


def test_references_of_fsspec() -> None:
    """Their keys have no root before them."""
    mapper = fsspec.get_mapper("reference://", fo={"version": 1, "refs": REFERENCES})
    store = adopt_store(mapper)
    assert list(store.list()) == sorted(REFERENCES)
    assert store.list_dir() == ([".zgroup"], ["a"])
    assert store.list_dir("a") == ([".zarray", "0"], [])
    np.testing.assert_array_equal(hs.open(mapper)["a"], zarr.open_group(mapper, mode="r")["a"][:])


def test_a_place_without_a_root() -> None:
    mapper = fsspec.get_mapper("memory://")
    store = adopt_store(mapper)
    store.put("deep/down/.z", b"1")
    try:
        assert list(store.list("deep")) == ["deep/down/.z"]
        assert store.list_dir("deep/down") == ([".z"], [])
        assert "deep" in store.list_dir()[1]
    finally:
        store.delete_prefix("deep")


def test_a_missing_place_that_is_only_read(tmp_path: Path) -> None:
    """It is said to be missing, and nothing is made."""
    for store in (
        zarr.storage.LocalStore(tmp_path / "x", read_only=True),
        zarr.storage.ZipStore(tmp_path / "x.zip", mode="r"),
    ):
        for use in (hs.open, hs.create):
            with pytest.raises(NotFound, match="there is no such"):
                use(store)
    assert not list(tmp_path.iterdir())


class Leaky(fsspec.spec.AbstractFileSystem):  # type: ignore[misc]
    """A server that is down, whose client says where and how it asked."""

    protocol = "leaky"

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **more: Any) -> bytes:
        raise OSError(f"503, url='https://user:canary@host/{path}?X-Amz-Signature=canary', 'Cookie': 'canary'")

    info = ls = find = cat_file


def test_stores_of_obstore(tmp_path: Path) -> None:
    obstore = pytest.importorskip("obstore.store")
    places = {
        "s3://a/b": obstore.S3Store("a", prefix="b", region="x"),
        "gs://a": obstore.GCSStore("a", skip_signature=True),
        "az://a/b": obstore.AzureStore("a", prefix="b", account_name="c", account_key="YQ=="),
        "https://a/b": obstore.HTTPStore("https://a/b"),
        "obstore-memory://": obstore.MemoryStore(),
    }
    assert [adopt_store(store).url for store in places.values()] == [*places]
    assert isinstance(adopt_store(obstore.LocalStore(tmp_path)), DirectoryStore)


def test_subclasses_of_other_libraries_stores(tmp_path: Path) -> None:
    """They are known by their classes, wherever they are defined; what they do otherwise is done."""
    obstore = pytest.importorskip("obstore.store")

    class Bucket(obstore.MemoryStore):  # type: ignore[misc]
        pass

    class Mapper(fsspec.mapping.FSMap):  # type: ignore[misc]
        pass

    class Files(fsspec.implementations.local.LocalFileSystem):  # type: ignore[misc]
        def cat_file(self, path: str, start: int | None = None, end: int | None = None, **more: Any) -> bytes:
            return super().cat_file(path, start, end, **more).upper()  # type: ignore[no-any-return]

    class Local(zarr.storage.LocalStore):  # type: ignore[misc]
        pass

    assert adopt_store(Bucket()).url == "obstore-memory://"
    with hs.create(Bucket(), "zarr3") as root:
        root.create_array("a", data=np.arange(3))
    assert isinstance(adopt_store(Mapper(str(tmp_path), fsspec.filesystem("file"))), DirectoryStore)
    (tmp_path / "x").write_bytes(b"abc")
    assert adopt_store(fsspec.mapping.FSMap(str(tmp_path), Files())).get("x") == b"ABC"
    assert isinstance(adopt_store(Local(tmp_path)), ZarrPythonStore)
    assert [adopt_store(other) for other in (3, obstore, fsspec.filesystem("file"))] == [None] * 3


def test_errors_hold_no_secrets() -> None:
    """Nor does what a traceback shows."""
    store = FsspecStore(fsspec.mapping.FSMap("x", Leaky()))
    for read in (lambda: store.get("a"), lambda: store.size("a"), lambda: list(store.list())):
        with pytest.raises(StorageError, match=r"503, url='https://\*\*\*@host/x") as caught:
            read()
        assert "canary" not in "".join(traceback.format_exception(caught.value))


def test_what_is_no_store() -> None:
    """Of these libraries, too."""
    with pytest.raises(Invalid, match="no place"):
        hs.open(zarr.storage.MemoryStore)
