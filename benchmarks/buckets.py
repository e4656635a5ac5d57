"""S3: read an array of 500 chunks from a real server over HTTP, through obstore and s3fs."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from obstore.store import S3Store

import hyperslab as hs
from benchmarks.harness import OURS, Contender, Row, Target
from benchmarks.layouts import field

TITLE = "S3: an array of 500 chunks"
KEYS = {"access_key_id": "bench", "secret_access_key": "bench", "region": "us-east-1"}
_BOUND = "the server: moto, a Python program on the same two cores, takes 2 ms a request, whoever asks."
_SHAPE, _CHUNKS = (2000, 1600), (100, 64)


def rows(folder: Path, side: int) -> Iterator[Row]:
    """The whole array, each time opened anew; the server's own work is in every figure."""
    with running_server() as endpoint:
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bench", method="PUT")).close()
        options = {"endpoint": endpoint, **KEYS}
        cells = field(_SHAPE)
        with hs.create("s3://bench/a.zarr", "zarr3", storage_options=options) as root:
            root.create_array("t", data=cells, chunks=_CHUNKS)
        contenders = [
            Contender(OURS, lambda: hs.open("s3://bench/a.zarr", storage_options=options, cache_bytes=0)["t"][...]),
            Contender("zarr + obstore", _by_obstore(options)),
            Contender("zarr + s3fs", _by_s3fs(endpoint)),
        ]
        yield Row(
            f"read {_SHAPE[0] * _SHAPE[1] * 4 >> 20} MiB in 500 chunks",
            contenders,
            lambda _, got: np.array_equal(got, cells),
            (Target("fastest", 1.5, _BOUND),),
        )


def _by_obstore(options: dict[str, Any]) -> Callable[[], Any]:
    def read() -> Any:
        store = S3Store("bench", prefix="a.zarr", client_options={"allow_http": True}, **options)
        return zarr.open_group(zarr.storage.ObjectStore(store, read_only=True), mode="r")["t"][...]

    return read


def _by_s3fs(endpoint: str) -> Callable[[], Any]:
    client = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    options = {"key": "bench", "secret": "bench", "client_kwargs": client}
    return lambda: zarr.open_group("s3://bench/a.zarr", mode="r", storage_options=options)["t"][...]


@contextmanager
def running_server() -> Iterator[str]:
    """moto on a free port of the loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet) as process:
        try:
            endpoint = f"http://127.0.0.1:{port}"
            for _ in range(100):
                try:
                    urllib.request.urlopen(f"{endpoint}/moto-api/").close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield endpoint
        finally:
            process.kill()
