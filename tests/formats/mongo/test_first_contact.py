"""A server that does not answer the first time is given up soon; one that elects a primary is waited for."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from pymongo import MongoClient

import hyperslab as hs
from hyperslab.errors import StorageError

if TYPE_CHECKING:
    from servers.mongo import Mongo


@pytest.fixture(params=["refused", "no answer"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """A port where nothing listens, or something that accepts and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "no answer":
            listener.listen(16)
        yield listener.getsockname()[1]


@pytest.mark.parametrize("act", [hs.open, hs.create])
def test_a_server_that_does_not_answer(port: int, act: Any) -> None:
    url = f"mongodb://user:canary@127.0.0.1:{port}/db#x"
    for _ in range(2):  # the second time, too
        began = time.monotonic()
        with pytest.raises(StorageError, match="does not answer") as caught:
            act(url)
        assert time.monotonic() - began < 10  # it was 20; 3 on an idle machine
        assert caught.value.url == f"mongodb://***@127.0.0.1:{port}/db#x"
        assert "look whether it runs" in str(caught.value) and "canary" not in str(caught.value)


def test_who_says_how_long_is_heard(port: int) -> None:
    began = time.monotonic()
    with pytest.raises(StorageError):
        hs.open(f"mongodb://127.0.0.1:{port}/db?serverSelectionTimeoutMS=4500#x")
    assert time.monotonic() - began > 4


def test_an_election_is_waited_for(mongo_replica: Mongo) -> None:
    with MongoClient[Any](mongo_replica.url, directConnection=True) as client:
        name = client.admin.command("hello")["setName"]
        url = f"{mongo_replica.url}/{mongo_replica.database()}?replicaSet={name}"
        data = xr.Dataset({"t": ("x", np.arange(3))})
        hs.save(f"{url}#known", data)
        client.admin.command("replSetStepDown", 5, force=True)
        assert not client.admin.command("hello")["isWritablePrimary"]
        hs.save(f"{url}&appName=new#first", data)  # by a client of its own
        assert client.admin.command("hello")["isWritablePrimary"]
        client.admin.command("replSetStepDown", 5, force=True)
        hs.save(f"{url}#second", data)
    assert (
        hs.open_group(f"{url}#first")["t"][:].tolist() == hs.open_group(f"{url}#second")["t"][:].tolist() == [0, 1, 2]
    )
