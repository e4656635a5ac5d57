"""Many clients at once: every chunk is right, and the server's memory does not grow with them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from raw_requests import port_of, request, send, server_process

import hyperslab as hs

SIDE, CHUNK = 1000, 100
PLACES = ("a.zarr", "a.nc")


async def read_chunks(address: str, keys: list[str]) -> list[bytes | None]:
    """The chunks that one client reads by a connection that it keeps; None for one that it did not get."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(address), limit=1 << 20)
    found: list[bytes | None] = []
    for key in keys:
        writer.write(request(f"/zarr/{key}", token="").replace(b"Connection: close\r\n", b""))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        (length,) = (int(line.split()[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length"))
        body = await reader.readexactly(length)
        found.append(body if head.startswith(b"http/1.1 200") else None)
    writer.close()
    await writer.wait_closed()
    return found


def keys_of(address: str, name: str) -> list[str]:
    """The keys of all chunks of the array of a dataset."""
    document = json.loads(send(address, request(f"/zarr/{name}/x/zarr.json", token="")).body)
    counts = [-(-SIDE // length) for length in document["chunk_grid"]["configuration"]["chunk_shape"]]
    return [f"{name}/x/c/{row}/{column}" for row in range(counts[0]) for column in range(counts[1])]


def read_by_many(folder: Path, clients: int, each: int) -> tuple[int, int]:
    """How many of the chunks that clients read of two datasets were wrong, and by how much the server's memory grew
    after each chunk had been read once."""
    cells = np.random.default_rng(0).random((SIDE, SIDE), "f4")
    for name in PLACES:
        with hs.create(folder / name) as root:
            root.create_array("x", data=cells, chunks=(CHUNK, CHUNK), dims=("row", "column"))

    async def read_all(address: str) -> list[list[bytes | None]]:
        return await asyncio.gather(*(read_chunks(address, share) for share in shares))

    with server_process(*(folder / name for name in PLACES)) as served:
        keys = [key for name in PLACES for key in keys_of(served.address, name)]
        order = np.random.default_rng(1).integers(0, len(keys), (clients, each))
        shares = [[keys[i] for i in some] for some in order]
        expected = dict(zip(keys, asyncio.run(read_chunks(served.address, keys)), strict=True))
        before = served.peak()
        found = asyncio.run(read_all(served.address))
        grown = served.peak() - before
    stored = {key: (folder / key).read_bytes() for key in keys if key.startswith("a.zarr")}
    assert {key: expected[key] for key in stored} == stored
    pairs = (
        (key, value)
        for share, values in zip(shares, found, strict=True)
        for key, value in zip(share, values, strict=True)
    )
    wrong = sum(value is None or value != expected[key] for key, value in pairs)
    print(f"{clients} clients, {clients * each} chunks: {wrong} wrong, {before >> 20} MiB, {grown >> 10} KiB more")
    return wrong, grown


def test_some_clients_read_chunks(tmp_path: Path) -> None:
    wrong, grown = read_by_many(tmp_path, 20, 20)
    assert (wrong, grown < 32 << 20) == (0, True)


@pytest.mark.sampled(0)
def test_a_hundred_clients_read_ten_thousand_chunks(tmp_path: Path) -> None:
    wrong, grown = read_by_many(tmp_path, 100, 100)
    assert (wrong, grown < 64 << 20) == (0, True)
