"""One server as its clients see it: ranges, versions, folders, and everything that is refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from html import unescape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import httpx
import numpy as np
import pytest
from raw_requests import port_of, request, send

import hyperslab as hs
from hyperslab.stores import MemoryStore
from hyperslab.stores.location import Location
from hyperslab.web import zarr_view
from hyperslab.web.guard import Limits
from hyperslab.web.server import start_server
from hyperslab.web.zarr_view import ZarrView

if TYPE_CHECKING:
    from servers.s3 import S3

CELLS = np.arange(4000, dtype="i4").reshape(40, 100)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of datasets with others beside it, and links that lead out."""
    inside = tmp_path / "inside"
    (inside / "deeper" / "more").mkdir(parents=True)
    for place in (inside / "a.zarr", inside / "deeper" / "more" / "b.nc", tmp_path / "secret.zarr"):
        with hs.create(place) as root:
            root.create_array("x", data=CELLS, chunks=(10, 100), dims=("row", "column"))
    (inside / "out.zarr").symlink_to(tmp_path / "secret.zarr")
    (inside / "up").symlink_to(tmp_path)
    (inside / ".hidden").mkdir()
    (inside / "notes.txt").write_text("no dataset")
    (tmp_path / "secret.txt").write_text("secret")
    return inside


@pytest.fixture
def server(folder: Path) -> Iterator[Any]:
    with hs.serve(folder, folder / "a.zarr", token="letmein") as running:
        yield running


@pytest.fixture
def client(server: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address, headers=server.headers) as made:
        yield made


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/zarr/a.zarr/x/c/1/0", "/zarr/inside/deeper/more/b.nc/x/c/0/0", "/zarr/a.zarr/zarr.json"]
)
def test_parts_and_versions(client: httpx.Client, path: str) -> None:
    whole = client.get(path)
    tag, size = whole.headers["etag"], len(whole.content)
    assert (whole.status_code, whole.headers["content-length"]) == (200, str(size))
    assert (whole.headers["cache-control"], whole.headers["accept-ranges"]) == ("no-cache", "bytes")
    head = client.head(path)
    assert (head.status_code, head.headers["content-length"], head.headers["etag"]) == (200, str(size), tag)
    for asked, part in {
        "bytes=0-0": slice(0, 1),
        "bytes=5-9": slice(5, 10),
        "bytes=10-": slice(10, None),
        "bytes=-7": slice(-7, None),
        f"bytes=-{10 * size}": slice(None),
        f"bytes=3-{10 * size}": slice(3, None),
    }.items():
        found = client.get(path, headers={"Range": asked})
        assert (found.status_code, found.content) == (206, whole.content[part]), asked
        start, stop, _ = part.indices(size)
        assert found.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"
    for beyond in (f"bytes={size}-", "bytes=-0", "bytes=9999999999999999999-"):
        found = client.get(path, headers={"Range": beyond})
        assert (found.status_code, found.headers["content-range"]) == (416, f"bytes */{size}")
    for no_range in ("bytes=9-5", "bytes=a-b", "cells=0-1", "bytes=0-1,3-4", "bytes=" + ",".join(["0-"] * 500)):
        found = client.get(path, headers={"Range": no_range})
        assert (found.status_code, found.content) == (200, whole.content)
    assert client.get(path, headers={"If-None-Match": f'"other", {tag}'}).status_code == 304
    assert client.get(path, headers={"If-None-Match": '"other"'}).content == whole.content
    assert client.get(path, headers={"Range": "bytes=1-2", "If-Range": '"other"'}).content == whole.content
    assert client.get(path, headers={"Range": "bytes=1-2", "If-Range": tag}).content == whole.content[1:3]


def test_large_values_go_in_pieces(tmp_path: Path) -> None:
    cells = np.random.default_rng(0).integers(0, 255, 5 << 20, "u1")
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=cells, chunks=cells.shape, codec=None)
    stored = (tmp_path / "a.zarr" / "x" / "c" / "0").read_bytes()
    with hs.serve(tmp_path / "a.zarr", token="") as server:
        url = f"{server.address}/zarr/a.zarr/x/c/0"
        assert httpx.get(url).content == stored
        assert httpx.get(url, headers={"Range": "bytes=5-3000000"}).content == stored[5:3000001]
        assert httpx.get(url, headers={"Range": "bytes=-3000000"}).content == stored[-3000000:]


def test_arrays_that_are_alike_keep_their_own_cells(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        for value in range(1, 4):
            root.create_array(f"x{value}", data=np.full(4, value))
    with hs.serve(tmp_path / "a.nc", token="") as server:
        (url,) = server.zarr_urls.values()
        with hs.open(url, storage_options={"client_options": {"allow_http": True}}) as root:
            assert [int(root[f"x{value}"][0]) for value in range(1, 4)] == [1, 2, 3]
        tags = {httpx.get(f"{url}/x{value}/c/0").headers["etag"] for value in range(1, 4)}
    assert len(tags) == 3


def test_chunks_that_were_never_written_and_keys_that_are_none(client: httpx.Client, folder: Path) -> None:
    (folder / "a.zarr" / "x" / "c" / "2" / "0").unlink()
    for key in ("x/c/2/0", "x/c/4/0", "x/c/0", "x/c/00/0", "x/c/-1/0", "x/.zarray", "y/zarr.json", "x/c/0/0/0"):
        found = client.get(f"/zarr/a.zarr/{key}")
        assert (found.status_code, found.json()["error"]["class"]) == (404, "NotFound"), key


def test_damage_is_an_error_and_no_missing_chunk(client: httpx.Client, folder: Path) -> None:
    path = folder / "deeper" / "more" / "b.nc"
    raw = bytearray(path.read_bytes())
    raw[-3000:] = bytes(3000)
    path.write_bytes(raw)
    found = [client.get(f"/zarr/inside/deeper/more/b.nc/x/c/{row}/0") for row in range(4)]
    assert {each.status_code for each in found} <= {200, 500}
    errors = [each.json()["error"] for each in found if each.status_code == 500]
    assert errors and {error["class"] for error in errors} <= {"FormatError", "CorruptChunk"}
    assert all(error["node"] == "x" and error["message"] and error["remedy"] for error in errors[1:])


def write(path: str, value: int) -> None:
    """Change every cell, in a process of its own."""
    with hs.open(path, "r+", durable=False) as root:
        root["x"][...] = value
        root["x"].attrs["value"] = value


def reading(client: httpx.Client) -> dict[str, Any]:
    """Storage options with which hyperslab itself reads."""
    headers = {"Authorization": client.headers["authorization"]}
    return {"client_options": {"default_headers": headers, "allow_http": True}}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["a.zarr", "deeper/more/b.nc"])
def test_a_write_by_another_process_is_another_version(client: httpx.Client, folder: Path, name: str) -> None:
    chunk, document = f"/zarr/inside/{name}/x/c/0/0", f"/zarr/inside/{name}/x/zarr.json"
    before, old = client.get(chunk), client.get(document)
    writer = multiprocessing.get_context("spawn").Process(target=write, args=(str(folder / name), 7))
    writer.start()
    writer.join()
    after = client.get(chunk, headers={"If-None-Match": before.headers["etag"]})
    assert (after.status_code, after.content != before.content) == (200, True)
    deadline = time.monotonic() + 5  # documents are looked at once in a second
    while client.get(document).headers["etag"] == old.headers["etag"] and time.monotonic() < deadline:
        time.sleep(0.2)
    assert client.get(document).json()["attributes"]["value"] == 7
    with hs.open(f"{client.base_url}/zarr/inside/{name}", storage_options=reading(client)) as root:
        assert (root["x"][...] == 7).all()


def test_a_file_that_is_replaced_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"a.nc": 1, "b.nc": 2}.items():
        with hs.create(tmp_path / name) as root:
            root.create_array("x", data=np.full(4, value, "i4"))
    waiting = [tmp_path / "b.nc"]
    current = ZarrView._current

    def replaced_afterwards(view: ZarrView) -> Any:
        state = current(view)
        if waiting and view.where.name == "a.nc":
            os.replace(waiting.pop(), tmp_path / "a.nc")
        return state

    monkeypatch.setattr(ZarrView, "_current", replaced_afterwards)
    with hs.serve(tmp_path / "a.nc", token="") as server:
        url = f"{server.address}/zarr/a.nc/x/c/0"
        first, second = httpx.get(url), httpx.get(url)
    assert waiting == []
    with hs.serve(tmp_path / "a.nc", token="") as server:
        assert httpx.get(f"{server.address}/zarr/a.nc/x/c/0").content == first.content
    assert (second.content, second.headers["etag"]) == (first.content, first.headers["etag"])


def test_chunks_are_never_torn(client: httpx.Client, folder: Path) -> None:
    ended = threading.Event()

    def keep_writing() -> None:
        with hs.open(folder / "a.zarr", "r+", durable=False) as root:
            value = 0
            while not ended.is_set():
                value += 1
                root["x"][:10] = value

    def read(_: int) -> set[bytes]:
        response = client.get("/zarr/a.zarr/x/c/0/0")
        return {response.content} if response.status_code == 200 else set()

    with hs.open(folder / "a.zarr", "r+", durable=False) as root:
        root.create_array("raw", data=CELLS, chunks=(10, 100), codec=None)
    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            found = set().union(*pool.map(read, range(60)))
    finally:
        ended.set()
        writer.join()
    assert found
    for value in found:
        store = MemoryStore()
        for key in ("zarr.json", "x/zarr.json"):
            store.put(key, (folder / "a.zarr" / key).read_bytes())
        store.put("x/c/0/0", value)
        cells = hs.open(store)["x"][:10]
        assert (cells == cells[0, 0]).all()


# -- folders and pages -------------------------------------------------------------------------------------------------


def test_folders_are_looked_into(client: httpx.Client) -> None:
    listed = client.get("/zarr/inside/")
    assert listed.headers["content-type"] == "text/html; charset=utf-8"
    assert all(name in listed.text for name in ("a.zarr", "deeper"))
    assert not any(name in listed.text for name in (".hidden", "out.zarr", ">up<"))
    assert "b.nc" in client.get("/zarr/inside/deeper/more").text
    assert client.get("/zarr/inside/deeper/more/b.nc/x/zarr.json").json()["shape"] == [40, 100]
    assert client.get("/zarr/inside/notes.txt").status_code == 404


def test_prefixes_of_a_bucket_are_looked_into(s3: S3) -> None:
    url = f"s3://{s3.bucket()}/lab"
    for name in ("a.nwb.zarr", "b.zarr", ".hidden.zarr"):
        with hs.create(f"{url}/{name}", storage_options=s3.options) as root:
            root.create_array("x", data=CELLS, dims=["row", "column"])
    with (
        hs.serve(url, token="", storage_options=s3.options) as server,
        httpx.Client(base_url=f"{server.address}/") as client,
    ):
        assert client.get("/api/browse/lab").json()["names"] == ["a.nwb.zarr", "b.zarr"]
        for name in ("a.nwb.zarr", "b.zarr"):
            assert client.get(f"/zarr/lab/{name}/x/zarr.json").json()["shape"] == [40, 100]
        with hs.create(f"{url}/later.zarr", storage_options=s3.options) as root:
            root.create_array("x", data=CELLS)
        assert client.get("/zarr/lab/later.zarr/x/zarr.json").json()["shape"] == [40, 100]
        for wrong in ("none", "zarr.json", ".hidden.zarr", "a.nwb.zarr/x/zarr.jso", "b.zarr/none", "..%2Flab"):
            assert client.get(f"/zarr/lab/{wrong}").status_code in (400, 404), wrong


def test_files_of_strangers_lead_nowhere(tmp_path: Path) -> None:
    secret, inside = tmp_path / "secret.bin", tmp_path / "inside"
    secret.write_bytes(b"secret!!")
    (inside / "link.zarr" / "x").mkdir(parents=True)
    document = {"zarr_format": 2, "shape": [8], "chunks": [8], "dtype": "|u1", "order": "C", "fill_value": 0}
    array = json.dumps({**document, "compressor": None, "filters": None})
    (inside / "link.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    (inside / "link.zarr" / "x" / ".zarray").write_text(array)
    (inside / "link.zarr" / "x" / "0").symlink_to(secret)
    references = {".zgroup": '{"zarr_format": 2}', "x/.zarray": array, "x/0": [str(secret), 0, 8]}
    (inside / "references.json").write_text(json.dumps({"version": 1, "refs": references}))
    with h5py.File(inside / "file.nc", "w") as file:
        file["sound"] = np.ones(3)
        file.create_dataset("x", shape=(8,), dtype="u1", external=[(str(secret), 0, 8)])
    with h5py.File(inside / "linked.nc", "w") as file:
        file["x"] = h5py.ExternalLink(str(inside / "file.nc"), "/x")
    with hs.serve(inside, token="") as server:
        (url,) = server.zarr_urls.values()
        for name in ("link.zarr", "references.json", "file.nc", "linked.nc"):
            found = httpx.get(f"{url}/{name}/x/c/0")
            assert (found.status_code in (404, 500, 503), b"secret!!" in found.content) == (True, False), name
        assert [loss["node"] for loss in httpx.get(f"{url}/file.nc/losses").json()["losses"]] == ["x"]
        assert httpx.get(f"{url}/file.nc/sound/c/0").status_code == 200  # the rest is served


def test_names_are_escaped(tmp_path: Path) -> None:
    bad = tmp_path / '<script>alert(1)<&">'
    bad.mkdir()
    (bad / "a\u202ecba'><b>.zarr").mkdir()
    with hs.serve(bad, token="") as server:
        index = httpx.get(f"{server.address}/zarr/")
        (url,) = server.zarr_urls.values()
        page = httpx.get(url)
    for found in (index, page):
        assert found.status_code == 200
        assert not any(text in found.text for text in ("<script", "<b>", "\u202e"))
        assert found.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_person_without_the_token_gets_a_page(server: Any) -> None:
    """Programs get JSON, also those that take any type; the page has no script, and no word of the token."""
    typed = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for headers in (typed, {"accept": "*/*", "sec-fetch-mode": "navigate"}):
        found = httpx.get(f"{server.address}/?token=wrong", headers=headers)
        assert (found.status_code, found.headers["content-type"]) == (403, "text/html; charset=utf-8")
        assert "hyperslab serve" in found.text and "<script" not in found.text and "letmein" not in found.text
        assert "default-src 'none'" in found.headers["content-security-policy"]
        assert "set-cookie" not in found.headers
    for headers in ({}, {**typed, "sec-fetch-mode": "cors"}):
        found = httpx.get(f"{server.address}/", headers=headers)
        assert (found.status_code, found.json()["error"]["class"]) == (403, "WrongCredentials")


def test_the_token_of_the_address_becomes_a_cookie(server: Any) -> None:
    with httpx.Client(follow_redirects=True) as browser:
        assert browser.get(f"{server.address}/").status_code == 403
        index = browser.get(server.url)
        assert (index.status_code, str(index.url)) == (200, f"{server.address}/")
        assert browser.get(f"{server.address}/zarr/a.zarr/zarr.json").status_code == 200
        assert "letmein" not in str(list(browser.cookies.items()))
    assert httpx.get(f"{server.address}/zarr/a.zarr/zarr.json?token=letmein").status_code == 200


@pytest.mark.parametrize("name", ["a.zarr", "inside/deeper/more/b.nc"])
def test_hyperslab_takes_the_token_in_the_url(server: Any, name: str) -> None:
    """Whatever the name of what is served ends with."""
    for place, path in {"": "x", "/x": ""}.items():
        with hs.open(f"{server.address}/zarr/{name}{place}?token=letmein") as node:
            array = node[path] if path else node
            np.testing.assert_array_equal(array[3:5], CELLS[3:5])
            assert "letmein" not in node.url


# -- what is refused ---------------------------------------------------------------------------------------------------


def ask(server: Any, line: str, *headers: str, host: str | None = None, token: str = "letmein") -> tuple[int, bytes]:
    """The status and body of a request, written as it is; 0 where the server cut it off before the answer was read."""
    port = int(server.address.rpartition(":")[2])
    host = f"127.0.0.1:{port}" if host is None else host
    lines = [
        line,
        *([f"Host: {host}"] if host else []),
        *([f"Authorization: Bearer {token}"] if token else []),
        *headers,
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        answer = b""
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1"))
            while more := connection.recv(1 << 16):
                answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body


def test_hosts_origins_methods_and_tokens(server: Any) -> None:
    get, port = "GET /zarr/a.zarr/zarr.json HTTP/1.1", server.address.rpartition(":")[2]
    assert ask(server, get)[0] == 200
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "1.2.3.4",
        "[::2]",
        "@",
    ):
        assert ask(server, get, host=host)[0] in (400, 403), host
    assert ask(server, get, host="")[0] == 400
    assert ask(server, get, f"Host: 127.0.0.1:{port}", host="evil.example")[0] == 400
    for host in (f"localhost:{port}", "LOCALHOST", "[::1]:80", "127.0.0.1"):
        assert ask(server, get, host=host)[0] == 200, host
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{int(port) + 1}"):
        assert ask(server, get, f"Origin: {origin}")[0] == 403, origin
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"):
        assert ask(server, get.replace("GET", method))[0] in (400, 405), method
    for token in ("", "letmei", "letmeinn", "LETMEIN", "é", "a" * 9000):
        assert ask(server, get, token=token)[0] == 403, token
    assert ask(server, get, "Cookie: hyperslab=letmein; hyperslab-1=x; =;;", token="")[0] == 403
    assert ask(server, get.replace("json", "json?token="), token="")[0] == 403
    assert ask(server, get.replace("json", "json?token=letmein&token=x"), token="")[0] == 200
    assert ask(server, get)[0] == 200


def test_absurd_requests_end_and_the_server_stays(server: Any) -> None:
    assert ask(server, f"GET /{'a' * 5000} HTTP/1.1")[0] == 414
    assert ask(server, f"GET /zarr/a.zarr/{'x/' * 1500} HTTP/1.1")[0] == 404
    assert ask(server, f"GET /zarr/a.zarr/x/c/{'9' * 3000}/0 HTTP/1.1")[0] == 404
    # A server that closes before it has read all resets the connection, and the answer on its way may be lost.
    assert ask(server, "GET / HTTP/1.1", f"X: {'a' * 70_000}")[0] in (0, 400, 431)
    assert ask(server, "GET / HTTP/1.1", *[f"X{i}: a" for i in range(9000)])[0] in (0, 400, 431)
    assert ask(server, "GET / HTTQ/1.1")[0] == 400
    assert ask(server, "\x00\xff\xfe", host="")[0] == 400
    assert ask(server, "GET / HTTP/1.1", "Content-Length: 5\r\nTransfer-Encoding: chunked")[0] in (200, 400)
    assert ask(server, "GET / HTTP/1.1")[0] == 200


def test_half_open_connections_are_cut_off(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.web.connections._HEAD_SECONDS", 0.3)
    port = int(server.address.rpartition(":")[2])
    for begun in (b"", b"GET / HTTP/1.1\r\nHost: local", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(begun)
            with suppress(ConnectionResetError):
                while connection.recv(1 << 16):
                    pass
    assert ask(server, "GET / HTTP/1.1")[0] == 200


def test_who_does_not_read_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.web.connections._READ_SECONDS", 0.3)
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=np.ones(40 << 20, "u1"), chunks=(40 << 20,), codec=None)
    with hs.serve(tmp_path / "a.zarr", token="") as server:
        port = int(server.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"GET /zarr/a.zarr/x/c/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(1)
            got = 0
            with suppress(ConnectionResetError):
                while more := connection.recv(1 << 20):
                    got += len(more)
        assert 0 < got < 40 << 20
        assert httpx.get(f"{server.address}/zarr/a.zarr/zarr.json").status_code == 200


def test_too_many_at_once_are_told_to_come_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    read = ZarrView.read
    monkeypatch.setattr(ZarrView, "read", lambda *given: held.wait(10) and read(*given))
    limits = Limits(per_client=3, at_once=2, waiting=0.2)
    where = Location.of(folder / "a.zarr")
    with start_server([where], token="", limits=limits) as server, ThreadPoolExecutor(6) as pool:
        client = httpx.Client(base_url=server.address)
        asked = [pool.submit(client.get, "/zarr/a.zarr/zarr.json") for _ in range(6)]
        refused = list(islice(as_completed(asked, timeout=20), 4))  # two are worked on
        held.set()
        found = [each.result() for each in asked]
        client.close()
    assert {each.result().status_code for each in refused} <= {429, 503}
    assert all(each.result().headers["retry-after"] for each in refused)
    assert [each.status_code for each in found].count(200) == 2


def test_pages_of_an_allowed_site_may_read(folder: Path) -> None:
    site = "https://gridlook.example"
    with hs.serve(folder / "a.zarr", token="t", allow_origin=site) as server:
        url = f"{server.address}/zarr/a.zarr/zarr.json"
        asked = httpx.options(url, headers={"Origin": site, "Access-Control-Request-Headers": "authorization,range"})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, site)
        assert "Range" in asked.headers["access-control-allow-headers"]
        read = httpx.get(url, headers={"Origin": site, **server.headers})
        assert (read.status_code, read.headers["access-control-allow-origin"]) == (200, site)
        assert "ETag" in read.headers["access-control-expose-headers"]
        assert httpx.get(url, headers={"Origin": site}).status_code == 403
        assert httpx.get(url, headers={"Origin": "https://evil.example", **server.headers}).status_code == 403


def test_what_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(hs.errors.NotFound):
        hs.serve(tmp_path / "nothing.zarr")
    with pytest.raises(hs.errors.Invalid):
        hs.serve()
    with pytest.raises(hs.errors.Invalid):
        hs.serve(tmp_path, host="0.0.0.0", token="")
    with hs.serve(tmp_path) as server, pytest.raises(hs.errors.StorageError):
        hs.serve(tmp_path, port=int(server.address.rpartition(":")[2]))


def test_a_file_that_is_no_dataset_is_not_served(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no dataset")
    with pytest.raises(hs.errors.Invalid, match=r"no dataset.*notes\.txt"):
        hs.serve(tmp_path / "notes.txt")
    with h5py.File(tmp_path / "broken.nc", "w") as file:
        file["x"] = np.arange(1000.0)
    (tmp_path / "broken.nc").write_bytes((tmp_path / "broken.nc").read_bytes()[:900])
    hs.serve(tmp_path / "broken.nc").close()  # what is wrong with it is told to who looks


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_serves_until_it_is_interrupted(folder: Path) -> None:
    command = [sys.executable, "-m", "hyperslab", "serve", str(folder / "a.zarr"), "--json"]
    environment = {**os.environ, "HYPERSLAB_TOKEN": "from outside"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        text = ""
        while not text.endswith("}\n") or text.count("{") != text.count("}"):
            text += child.stdout.readline()
        told = json.loads(text)
        headers = {"Authorization": "Bearer from outside"}
        assert httpx.get(f"{told['places']['a.zarr']}/x/zarr.json", headers=headers).json()["shape"] == [40, 100]
        child.send_signal(2)
        rest = child.communicate(timeout=20)
    assert (child.returncode, rest) == (0, ("", ""))


@pytest.mark.skipif(sys.platform == "win32", reason="a script as the browser")
def test_a_browser_is_started_without_the_token(folder: Path, tmp_path: Path) -> None:
    """Every user of the machine can see with what words a program was started."""
    program, seen = tmp_path / "browser", tmp_path / "seen"
    program.write_text(f'#!/bin/sh\nprintf %s "$*" > {seen}.part\nmv {seen}.part {seen}\n')
    program.chmod(0o700)
    command = [sys.executable, "-m", "hyperslab", "serve", str(folder / "a.zarr"), "--json", "--open"]
    environment = {**os.environ, "HYPERSLAB_TOKEN": "a&b<c", "BROWSER": f"{program} %s"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as child:
        try:
            while not seen.exists() and child.poll() is None:
                time.sleep(0.05)
            address = seen.read_text()
            file = Path(address.removeprefix("file://"))
            (url,) = re.findall(r"url=([^\"]*)", file.read_text())
            modes = [oct(path.stat().st_mode)[-3:] for path in (file.parent,)]
            found = httpx.get(unescape(url))
        finally:
            child.send_signal(2)
            rest = child.communicate(timeout=20)
    assert (address.startswith("file://"), "a&b" in address, "a%26b" in address, modes) == (True, False, False, ["700"])
    assert (found.status_code, "set-cookie" in found.headers) == (303, True)
    assert (child.returncode, rest[1], file.exists(), file.parent.exists()) == (0, "", False, False)


# -- connections -------------------------------------------------------------------------------------------------------


def test_requests_sent_at_once_are_answered_in_their_order(server: Any) -> None:
    paths = (
        "/zarr/a.zarr/x/c/0/0",
        "/zarr/a.zarr/nothing",
        "/zarr/inside/deeper/more/b.nc/x/c/1/0",
        "/zarr/a.zarr/zarr.json",
    )
    ones = [request(path) for path in paths]
    many = b"".join(each.replace(b"Connection: close\r\n", b"") for each in ones[:-1]) + ones[-1]
    with socket.create_connection(("127.0.0.1", port_of(server.address)), timeout=20) as connection:
        connection.sendall(many)
        answers = b""
        while more := connection.recv(1 << 16):
            answers += more
    statuses = [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200, 404, 200, 200]
    for each in ones:
        assert send(server.address, each).body in answers


def test_a_request_in_pieces_is_one(server: Any) -> None:
    whole = request("/zarr/a.zarr/x/c/0/0")
    with socket.create_connection(("127.0.0.1", port_of(server.address)), timeout=20) as connection:
        for at in range(len(whole)):
            connection.sendall(whole[at : at + 1])
        answer = b""
        while more := connection.recv(1 << 16):
            answer += more
    assert answer.endswith(send(server.address, whole).body)


def test_stored_chunks_of_folders_alone_are_read_between_requests(folder: Path) -> None:
    chunks = zarr_view.EncodedChunks(1 << 20, at_once=1)
    stored = ZarrView(Location.of(folder / "a.zarr"), chunks)
    made = ZarrView(Location.of(folder / "deeper" / "more" / "b.nc"), chunks)
    assert stored.find_at_hand("x/c/0/0") is None  # it is yet to be opened
    for view in (stored, made):
        view.read("x/c/0/0")
    state = stored.find_at_hand("x/c/0/0")
    assert [stored.find_at_hand(key) for key in ("zarr.json", "x/zarr.json", "y/c/0/0", "x/c/9/9")] == [
        state,
        state,
        None,
        None,
    ]
    assert made.find_at_hand("x/c/0/0") is None
    # what is at hand is read of that state, also where the dataset is to be opened anew meanwhile
    stored.close()
    found = stored.read("x/c/0/0", at_hand=state)
    assert found is not None and bytes(found.data or b"") == (folder / "a.zarr" / "x" / "c" / "0" / "0").read_bytes()
    assert (state is not None, stored.find_at_hand("x/c/0/0")) == (True, None)
    for view in (stored, made):
        view.close()
