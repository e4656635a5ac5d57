"""``explore()``: what a notebook shows, in real Chromium: the page in a frame, also behind a proxy, else a picture."""

from __future__ import annotations

import functools
import http.server
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from chromium import MARKS, running_browser
from raw_requests import request, send

import hyperslab as hs
from hyperslab.errors import Invalid
from hyperslab.stores.memory import MemoryStore

if TYPE_CHECKING:
    from playwright.sync_api import Page

CELLS = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def root(tmp_path: Path) -> hs.Group:
    """A dataset with an array in a group."""
    with hs.create(tmp_path / "a b.zarr") as made:
        made.create_array("one/air", data=CELLS, dims=("y", "x"), units="K")
    return hs.open(tmp_path / "a b.zarr")


def shown_by(explorer: Any) -> tuple[str, str]:
    """The address of the frame, and what stands within it."""
    html = explorer._repr_mimebundle_()["text/html"]
    found = re.fullmatch(r'<object type="text/html" data="([^"]*)" style="[^"]*">(.*)</object>', html, re.DOTALL)
    assert found is not None
    return unescape(found[1]), found[2]


def test_what_a_notebook_is_given(root: hs.Group) -> None:
    explorer = root["one/air"].explore(height=300)
    try:
        url, still = shown_by(explorer)
        assert url == explorer.url
        assert still == root["one/air"]._repr_html_()
        assert "height:300px" in explorer._repr_mimebundle_()["text/html"]
        address, _, rest = url.partition("/#token=")
        token, _, place = rest.partition("&/")
        assert place == "a%20b.zarr?node=/one/air"
        # the page holds nothing of the data; all else takes the token, whatever the host is called
        assert httpx.get(f"{address}/").status_code == 200
        facts = httpx.get(f"{address}/api/browse", headers={"authorization": f"Bearer {token}", "host": "hub.example"})
        assert facts.json()["names"] == ["a b.zarr"]
        paths = ("api/browse", "api/node/a%20b.zarr", "zarr/", "zarr/a%20b.zarr/zarr.json")
        for path in (*paths, *(f"page/{up}/{path}" for up in ("..", "%2e%2e", "x/..%2f..") for path in paths)):
            assert send(address, request(f"/{path}", token="")).status == 403, path
        assert root.explore().url.startswith(f"{address}/#token={token}&")  # the same server
        assert repr(explorer) == f"<explorer of {root.url} at {address}/#/{place}>"
        assert token not in explorer._repr_mimebundle_()["text/plain"]
    finally:
        explorer.close()
        explorer.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)
    again = root.explore()
    assert again.url != explorer.url
    again.close()


@pytest.mark.parametrize(
    "query", ["token=wrong", "token=", "token", "x&token=wrong", "to%6ben=wrong", "token=a&token=b"]
)
def test_no_cookie_for_a_wrong_token(root: hs.Group, query: str) -> None:
    """Who comes by a name that leads here, or has another account of this machine, could read everything with it."""
    explorer = root.explore()
    address, _, rest = explorer.url.partition("/#token=")
    token = rest.partition("&")[0]
    try:
        for host in ("evil.example", address.partition("://")[2]):
            answer = httpx.get(f"{address}/?{query}", headers={"host": host})
            assert (answer.status_code, answer.headers.get("set-cookie")) == (403, None)
        right = httpx.get(f"{address}/?token={token}")
        assert (right.status_code, "set-cookie" in right.headers) == (303, True)
        assert httpx.get(f"{address}/api/browse", cookies=right.cookies).status_code == 200
    finally:
        explorer.close()


def test_the_height_of_a_frame_is_a_number(root: hs.Group) -> None:
    for height in (0, "640"):
        with pytest.raises(Invalid, match="height"):
            root.explore(height=height)  # type: ignore[arg-type]


@pytest.mark.parametrize("proxy", ["abc", "", "/proxy/8888/", "proxy/{port}/", "javascript:{port}", 7])
def test_what_is_no_address_of_a_proxy(root: hs.Group, proxy: Any) -> None:
    with pytest.raises(Invalid, match=r"proxy.*such as \"/proxy/{port}/\""):
        root.explore(proxy=proxy)


def test_addresses_of_proxies(root: hs.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = root.explore(proxy="/lab/proxy/{port}/")
    port = root.explore().url.split("/#")[0].rpartition(":")[2]
    assert explorer.url.startswith(f"/lab/proxy/{port}/#token=")
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/me/")
    assert root.explore().url.startswith(f"/user/me/proxy/{port}/#token=")
    explorer.close()


def test_a_dataset_in_memory() -> None:
    root = hs.create(MemoryStore())
    root.create_array("a", data=CELLS)
    explorer = root.explore()
    address, _, rest = explorer.url.partition("/#token=")
    headers = {"authorization": f"Bearer {rest.partition('&')[0]}"}
    (name,) = httpx.get(f"{address}/api/browse", headers=headers).json()["names"]
    nodes = httpx.get(f"{address}/api/browse/{name}", headers=headers).json()["nodes"]
    assert [node["path"] for node in nodes] == ["/", "/a"]
    explorer.close()


def test_one_address_with_other_options_is_another_dataset(tmp_path: Path) -> None:
    """As the same bucket of two endpoints is."""
    with hs.create(tmp_path / "a.zip") as made:
        made.create_array("a", data=CELLS)
    options: list[dict[str, Any]] = [{"limit": 1 << 20}, {"limit": 2 << 20}, {"limit": 1 << 20}]
    explorers = [hs.open_group(tmp_path / "a.zip", storage_options=each).explore() for each in options]
    addresses = [explorer.url.partition("#")[0] for explorer in explorers]
    assert (addresses[0] == addresses[2], addresses[0] == addresses[1]) == (True, False)
    for explorer in explorers:
        explorer.close()


# -- in a browser ------------------------------------------------------------------------------------------------------


def in_chromium(test: Any) -> Any:
    """Mark a test that needs a browser."""
    return functools.reduce(lambda marked, mark: mark(marked), MARKS, test)


@pytest.fixture
def page() -> Iterator[Page]:
    with running_browser() as browser:
        yield browser.new_page()


@contextmanager
def notebook_of(folder: Path, html: str) -> Iterator[str]:
    """A page of another site with the output of a cell in it, as a notebook is; gives its address."""
    folder.mkdir(exist_ok=True)
    (folder / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8><h1>Notebook</h1><div>{html}</div>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://localhost:{server.server_port}/notebook.html"  # another site than 127.0.0.1
        server.shutdown()
        thread.join()


@in_chromium
def test_a_frame_in_a_page_of_another_site(root: hs.Group, page: Page, tmp_path: Path) -> None:
    explorer = root["one/air"].explore()
    html = explorer._repr_mimebundle_()["text/html"]
    with notebook_of(tmp_path / "site", html) as address:
        page.goto(address)
        page.wait_for_function("document.querySelector('object').contentWindow !== null")
        frame = page.frames[1]
        frame.locator("#title", has_text="air").wait_for()
        assert "K" in frame.locator("#summary").inner_text()
        frame.locator('[data-state="done"]').first.wait_for()
        assert "token" not in page.frames[1].url
        explorer.close()
        page.reload()
        page.locator("object >> text=air").first.wait_for()  # the picture in place of a page that does not come
        assert len(page.frames) == 1


@in_chromium
def test_behind_the_proxy_of_jupyter(root: hs.Group, page: Page, tmp_path: Path) -> None:
    pytest.importorskip("jupyter_server_proxy")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        f"--ServerApp.port={port}",
        f"--ServerApp.root_dir={tmp_path}",
        "--ServerApp.jpserver_extensions={'jupyter_server_proxy': True}",
        "--IdentityProvider.token=secret",
        "--no-browser",
        "--allow-root",
    ]
    program = [sys.executable, "-m", "jupyter_server", *options]
    jupyter = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    explorer = root["one/air"].explore(proxy=f"http://127.0.0.1:{port}/proxy/{{port}}/")
    try:
        deadline = time.monotonic() + 60
        while True:  # it takes seconds to begin
            try:
                page.goto(f"http://127.0.0.1:{port}/api/status?token=secret")  # which gives the browser its cookie
                break
            except Exception:
                assert time.monotonic() < deadline and jupyter.poll() is None
                time.sleep(0.5)
        page.goto(explorer.url)
        page.locator("#title", has_text="air").wait_for()
        page.locator('[data-state="done"]').first.wait_for()
    finally:
        jupyter.terminate()
        jupyter.wait(20)
        explorer.close()
