"""Datasets on web servers: such as any static host, and the poorest there is, without ranges, ETags or listings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import HyperslabError, NodeNotFound
from servers.files import serving

CELLS = np.arange(3600.0).reshape(60, 60)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *said: Any) -> None:
        """Say nothing."""


@pytest.fixture
def poor(tmp_path: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def rich(tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path) as url:
        yield url


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("kind", ["poor", "rich"])
def test_reading(tmp_path: Path, request: pytest.FixtureRequest, kind: str, format: str) -> None:
    """A consolidated tree is known without a listing; chunks and shards are read, again when they have changed."""
    host = request.getfixturevalue(kind)
    root = hs.create(tmp_path / "x y.zarr", format, consolidated=True)
    root.create_array("g/a", data=CELLS, chunks=(20, 25), attrs={"units": "K"})
    if format == "zarr3":
        root.create_array("g/s", data=CELLS, chunks=(10, 10), shards=(60, 60))
    found = hs.open(f"{host}/x%20y.zarr")
    assert sorted(found["g"]) == sorted(root["g"])
    assert found["g/a"].attrs["units"] == "K"
    for name in root["g"]:
        array = found["g"][name]
        for _ in range(2):
            np.testing.assert_array_equal(array[:], CELLS)
            np.testing.assert_array_equal(array[7:22, 3], CELLS[7:22, 3])
            assert array[7, 8] == CELLS[7, 8]
        root["g"][name][7, 8:10] = [-1, -2]
        if kind == "rich":  # a poor one tells the time by seconds
            assert array[7, 8:10].tolist() == [-1, -2]
    with pytest.raises(NodeNotFound):
        found["g/nowhere"]
    with pytest.raises(HyperslabError):
        hs.open(f"{host}/nowhere.zarr", storage_options={"retry_config": {"max_retries": 0}})
    with pytest.raises(HyperslabError):
        hs.open(f"{host}/x%20y.zarr", "r+")["g/a"][3, 3] = 5
    assert hs.open(f"{host}/x%20y.zarr")["g/a"][3, 3] == CELLS[3, 3]
