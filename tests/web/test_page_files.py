"""The files of the page as a browser fetches them: version, caching, compression, policy, size."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import httpx
import numpy as np
import pytest
from raw_requests import request, send

import hyperslab as hs

PAGE = files("hyperslab.web") / "page"
FIRST_LOAD = 300 << 10
"""Bytes that a browser fetches, compressed, before it shows anything."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=np.arange(3))
    with hs.serve(tmp_path / "a.zarr", token="") as server, httpx.Client(base_url=server.address) as made:
        yield made


def names_in(text: str) -> list[str]:
    """The addresses of files that the page names."""
    return re.findall(r'"(page/[^"]+)"', text)


def test_the_page_names_files_that_are_kept_for_good(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    names = names_in(page.text)
    assert len(names) > 5
    for name in names:
        found = client.get(f"/{name}")
        assert (found.status_code, found.headers["cache-control"]) == (200, "private, max-age=31536000, immutable")
        again = client.get(f"/{name}", headers={"If-None-Match": found.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        plain = client.get(f"/{name}", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers and plain.content == found.content
        assert found.headers["content-encoding"] == "gzip" and found.headers["vary"] == "Accept-Encoding"
        assert plain.content == PAGE.joinpath(name.split("/", 2)[2]).read_bytes()
    again = client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    ("header", "is_compressed"),
    [("gzip", True), ("br, gzip;q=0.5", True), ("*", True), ("gzip;q=0", False), ("br", False), ("", False)],
)
def test_who_takes_gzip_gets_it(client: httpx.Client, header: str, is_compressed: bool) -> None:
    found = client.get("/", headers={"Accept-Encoding": header})
    assert ("content-encoding" in found.headers) is is_compressed
    assert found.text.startswith("<!doctype html>")


@pytest.mark.parametrize(
    "path", ["{0}/nothing.js", "{0}/../page_files.py", "{0}/%2e%2e/page_files.py", "0000/app.js", "{0}/", "{0}"]
)
def test_nothing_else_is_served(client: httpx.Client, path: str) -> None:
    version = names_in(client.get("/").text)[0].split("/")[1]
    found = send(str(client.base_url), request(f"/page/{path.format(version)}"))  # which httpx would resolve
    assert (found.status, found.error["class"]) == (404, "NotFound")


def test_the_policy_lets_nothing_in(client: httpx.Client) -> None:
    for name in ("/", f"/{names_in(client.get('/').text)[0]}"):
        policy = client.get(name).headers["content-security-policy"]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert (rules["default-src"], rules["script-src"], rules["style-src"]) == ("'none'", "'self'", "'self'")
        assert {rules[name] for name in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
        assert "unsafe" not in policy and "http" not in policy


def test_no_document_holds_script_or_style() -> None:
    text = PAGE.joinpath("index.html").read_text(encoding="utf-8")
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text) == []
    for file in Path(str(PAGE)).glob("*.js"):
        code = file.read_text(encoding="utf-8")
        found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", code)
        assert (file.name, found) == (file.name, [])


def test_the_first_load_is_small() -> None:
    """All that is there: what a plot needs beside it is among it, but for what is large and rarely needed."""
    page = Path(str(PAGE))
    rarely = ("coastlines", "LICENSE", "manifest")
    loaded = [file for file in page.rglob("*") if file.is_file() and not any(word in file.name for word in rarely)]
    sizes = {str(file.relative_to(page)): len(gzip.compress(file.read_bytes(), 9)) for file in loaded}
    assert sum(sizes.values()) < FIRST_LOAD, sizes
