"""Datasets in a bucket: made, read, changed and appended to; what they cost; what others read; many writers."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import obstore.store
import pytest

import hyperslab as hs
from hyperslab.errors import AlreadyExists, FormatError, NotFound
from hyperslab.stores.location import Location
from programs import side_by_side
from servers.s3 import S3

pytestmark = pytest.mark.sampled(2)

zarr = pytest.importorskip("zarr")

LAYOUTS: list[Any] = [
    pytest.param("zarr2", {}, id="zarr2"),
    pytest.param("nczarr", {}, id="nczarr"),
    pytest.param("zarr3", {}, id="zarr3"),
    pytest.param("zarr3", {"shards": (20, 20)}, id="shards"),
]
WRITTEN = [*(pytest.param(name, {}, id=name, marks=pytest.mark.soak) for name in ("zarr2", "nczarr")), *LAYOUTS[2:]]
WRITER = Path(__file__).with_name("bucket_writer.py")


def new_url(s3: S3) -> str:
    return f"s3://{s3.bucket()}/deep/x.zarr"


def theirs(url: str, s3: S3) -> Any:
    """The dataset as zarr-python has it, through obstore."""
    store = obstore.store.from_url(url, client_options={"allow_http": True}, **s3.options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their object store calls itself experimental
        return zarr.open_group(zarr.storage.ObjectStore(store), mode="r+")


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("format", "layout"), LAYOUTS)
def test_round_trip(s3: S3, format: str, layout: dict[str, Any]) -> None:
    """Written, changed in part, appended to, shrunk and grown as NumPy would; zarr-python reads the same."""
    url = new_url(s3)
    root = hs.create(url, format, storage_options=s3.options)
    expected = np.random.default_rng(1).normal(size=(50, 30))
    array = root.create_array("g/a", shape=(50, 30), dtype="f8", chunks=(5, 10), dims=("t", "x"), **layout)
    array[...] = expected
    array[3:17, 4:9] = expected[3:17, 4:9] = 7
    array[::7, ::-3] = expected[::7, ::-3] = 8
    array.attrs["units"] = "K"
    array.append(expected[:7], dim="t")
    expected = np.concatenate([expected, expected[:7]])
    again = hs.open(url, storage_options=s3.options)
    keys: list[Any] = [np.s_[...], np.s_[3:5, 4:6], np.s_[7, 7], np.s_[::-2, ::3], ([1, 40], [2, 3]), np.s_[55, 5]]
    for key in keys * 2:
        np.testing.assert_array_equal(again["g/a"][key], expected[key])
    np.testing.assert_array_equal(theirs(url, s3)["g/a"][:], expected)
    array.resize((12, 30))
    array.resize((50, 30))
    expected = np.concatenate([expected[:12], np.zeros((38, 30))])
    np.testing.assert_array_equal(hs.open(url, storage_options=s3.options)["g/a"][:], expected)
    assert theirs(url, s3)["g/a"].attrs["units"] == "K"
    np.testing.assert_array_equal(theirs(url, s3)["g/a"][:], expected)


def test_the_cache_sees_other_writers(s3: S3) -> None:
    """A chunk in memory is served only while the server says that it is still that one."""
    url = new_url(s3)
    for layout in ({}, {"shards": (10, 10)}):
        array = hs.create(url, "zarr3", storage_options=s3.options, overwrite=True).create_array(
            "a", data=np.arange(100.0).reshape(10, 10), chunks=(5, 5), **layout
        )
        reader = hs.open(url, storage_options=s3.options)["a"]
        assert reader[1, 1:3].tolist() == [11, 12]
        assert reader[1, 1] == 11
        array[1, 1] = -1
        assert reader[1, 1] == -1
        array[1, 1] = -2
        assert reader[1, 1:3].tolist() == [-2, 12]


def test_what_others_wrote(s3: S3) -> None:
    """zarr-python's bytes in a bucket."""
    url = new_url(s3)
    hs.create(url, storage_options=s3.options)
    cells = np.arange(600, dtype="i4").reshape(20, 30)
    group = theirs(url, s3)
    group.create_array("plain", data=cells, chunks=(7, 8))
    group.create_array("sharded", data=cells, chunks=(5, 5), shards=(10, 10))
    root = hs.open(url, storage_options=s3.options)
    for name in ("plain", "sharded"):
        np.testing.assert_array_equal(root[name][:], cells)
        np.testing.assert_array_equal(root[name][3:12, 5], cells[3:12, 5])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("format", "requests"), [("zarr2", 2), ("nczarr", 2), ("hdmf", 2), ("zarr3", 1)])
def test_opening_a_consolidated_tree(s3: S3, format: str, requests: int) -> None:
    """At most two requests, whatever its size, and the whole tree is known."""
    url = new_url(s3)
    root = hs.create(url, format, storage_options=s3.options, consolidated=True)
    with root.batch():
        for i in range(4):
            root.create_array(f"g{i}/h/a", shape=(4,), dtype="f4", dims=("x",), attrs={"n": i})
    with hs.trace() as cost:
        again = hs.open(url, storage_options=s3.options)
        assert again["g3/h/a"].attrs["n"] == 3
        assert len(again.tree().splitlines()) > 12
    assert cost.requests == requests
    assert "consolidated" in repr(theirs(url, s3).metadata)


def test_requests_of_a_read(s3: S3) -> None:
    """One per chunk and none before it; a shard by its index and what is wanted; a chunk that is known by asking."""
    url = new_url(s3)
    root = hs.create(url, storage_options=s3.options)
    root.create_array("a", data=np.zeros((40, 40)) + 1, chunks=(10, 10))
    root.create_array("s", data=np.random.default_rng(1).random((40, 40)), chunks=(5, 5), shards=(40, 40))
    root = hs.open(url, storage_options=s3.options)
    plain, shards = root["a"], root["s"]
    with hs.trace() as cost:
        plain[:]
    assert (cost.requests, cost.chunks) == (16, 16)
    for known in (False, True):
        with hs.trace() as cost:
            plain[3:15, 3]
        assert (cost.requests, cost.bytes_read > 0) == (2, not known)
    with hs.trace() as cost:
        shards[2, 3]
    assert (cost.requests, cost.chunks) == (2, 1)
    assert cost.bytes_read < 64 * 16 + 400
    with hs.trace() as cost:
        shards[2, 13]
    assert cost.requests == 1
    with hs.trace() as cost:
        shards[:]
    assert cost.requests == 1
    with hs.trace() as outside:
        pass
    assert (outside.requests, outside.chunks, repr(outside)) == (
        0,
        0,
        "<Trace: 0 requests, 0 bytes read, 0 bytes written, 0 chunks>",
    )


def test_nothing_there(s3: S3) -> None:
    """Said as elsewhere; what is there and no dataset is no dataset; what is there is not replaced unasked."""
    url = new_url(s3)
    with pytest.raises(NotFound, match="nothing"):
        hs.open(url, storage_options=s3.options)
    Location.of(url, s3.options).store(read_only=False).put("readme.txt", b"hello")
    with pytest.raises(FormatError, match=r"readme\.txt"):
        hs.open(url, storage_options=s3.options)
    other = new_url(s3)
    hs.create(other, storage_options=s3.options)
    with pytest.raises(AlreadyExists):
        hs.create(other, storage_options=s3.options)


def test_convert(s3: S3, tmp_path: Path) -> None:
    """From a folder into a bucket, within buckets and back."""
    cells = np.arange(600.0).reshape(20, 30)
    hs.create(tmp_path / "a.zarr").create_array("v", data=cells, chunks=(7, 8), attrs={"units": "m"})
    url = new_url(s3)
    where = Location.of(url, s3.options)
    hs.convert(tmp_path / "a.zarr", where, format="zarr3")
    hs.convert(where, tmp_path / "b.zarr", format="zarr2")
    root = hs.open(tmp_path / "b.zarr")
    np.testing.assert_array_equal(root["v"][:], cells)
    assert root["v"].attrs["units"] == "m"


@pytest.mark.sampled(0)
def test_another_process_takes_its_own_credentials(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickled array carries the place; who opens it again has the secrets in its environment."""
    url = new_url(s3)
    hs.create(url, storage_options=s3.options).create_array("a", data=np.arange(40), chunks=(10,))
    names = {"AWS_ACCESS_KEY_ID": "access_key_id", "AWS_SECRET_ACCESS_KEY": "secret_access_key"}
    for name, option in (names | {"AWS_ENDPOINT_URL": "endpoint", "AWS_REGION": "region"}).items():
        monkeypatch.setenv(name, s3.options[option])
    data = pickle.dumps(hs.open(url)["a"])
    assert s3.options["secret_access_key"].encode() not in data
    program = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read())[:].sum())"
    answer = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, timeout=60)
    assert answer.stdout == b"780\n"


# -- many writers -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("format", "layout"), WRITTEN)
def test_many_writers(s3: S3, format: str, layout: dict[str, Any]) -> None:
    """Two processes of two threads each write interleaved cells of the same chunks; all of them are there."""
    url = new_url(s3)
    root = hs.create(url, format, storage_options=s3.options)
    root.create_array("a", shape=(40, 20), dtype="i4", chunks=(5, 10), **layout)
    with side_by_side(WRITER, *((url, json.dumps(s3.options), number) for number in range(2))) as writers:
        assert [writer.communicate() for writer in writers] == [("done\n", "")] * 2
    expected = np.arange(800).reshape(40, 20)
    root = hs.open(url, storage_options=s3.options)
    np.testing.assert_array_equal(root["a"][:] - 1, expected)
    assert len(root["a"].attrs) == 4 * 5


@pytest.mark.sampled(0)
@pytest.mark.parametrize("consolidated", [False, True])
def test_many_appenders(s3: S3, consolidated: bool) -> None:
    """Every row of every appender is there once, in rows that stayed together; attributes of all of them, too."""
    url = new_url(s3)
    root = hs.create(url, storage_options=s3.options, consolidated=consolidated)
    root.create_array("a", shape=(0, 3), dtype="i4", chunks=(4, 3), dims=("t", "x"))

    def append(who: int) -> None:
        array = hs.open(url, "r+", storage_options=s3.options)["a"]
        for i in range(4):
            array.append(np.full((3, 3), 10 * who + i), dim="t")
            array.attrs[f"{who} {i}"] = i

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(append, [1, 2, 3]))
    array = hs.open(url, storage_options=s3.options)["a"]
    assert array.shape == (36, 3)
    rows = array[:].reshape(12, 9)
    assert (rows == rows[:, :1]).all()
    assert sorted(rows[:, 0].tolist()) == [10 * who + i for who in (1, 2, 3) for i in range(4)]
    assert len(array.attrs) == 12
    assert "a" in hs.open(url, storage_options=s3.options)


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "nczarr", "hdmf"])
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_nothing_in_a_bucket_is_nothing_whatever_the_format(s3: S3, format: str, mode: Any) -> None:
    with pytest.raises(NotFound, match="there is nothing"):
        hs.open(new_url(s3), mode, format=format, storage_options=s3.options)


def test_a_pattern_is_not_looked_up_in_a_bucket(s3: S3) -> None:
    with pytest.raises(NotFound, match="list of URLs: patterns are of the file system alone"):
        hs.open(f"{new_url(s3)}/*.nc", storage_options=s3.options)


def test_a_signed_url_of_one_file(s3: S3, tmp_path: Path) -> None:
    """The query goes with each request, and no message shows its signature."""
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("t", data=np.arange(6.0), dims=("x",), chunks=(2,))
    bucket = obstore.store.S3Store(s3.bucket(), **s3.options, client_options={"allow_http": True})
    obstore.put(bucket, "day 1.nc", tmp_path / "a.nc")
    for name, reads in {"day 1.nc": True, "none.nc": False}.items():
        url = obstore.sign(bucket, "GET", name, timedelta(minutes=5))
        assert "Signature=" in url
        if reads:
            with hs.open(url) as root:
                np.testing.assert_array_equal(root["t"][1:5], np.arange(1.0, 5.0))
                assert "Signature=***" in root.url
            continue
        with pytest.raises(NotFound, match="check the spelling") as caught:
            hs.open(url)
        assert "Signature=***" in str(caught.value)
