"""Three hundred requests of strangers: nothing leads out, and the server goes on answering.

The tables are in ``hostile_requests``. What is answered is JSON with a class of error, never of our own defects.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from hostile_requests import DOCUMENT, KINDS, RANGES
from raw_requests import TOKEN, Outcome, request, send

import hyperslab as hs
from hyperslab.web import guard
from hyperslab.web.application import parse_range

SECRET = "the secret outside"
INSIDE = ("a.zarr", "deeper/b.nc", "link.zarr")
CELLS = np.arange(4000, dtype="i4").reshape(40, 100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with datasets, with secrets beside it and in it, and links that lead out."""
    base = tmp_path_factory.mktemp("hostile")
    inside = base / "inside"
    (inside / "deeper").mkdir(parents=True)
    for place in (*(inside / name for name in INSIDE), base / "secret.zarr", inside / ".hidden.zarr"):
        with hs.create(place) as root:
            root.create_array("x", data=CELLS, chunks=(10, 100), dims=("row", "column"))
            root.attrs["title"] = SECRET if "inside" not in place.parts or place.name.startswith(".") else "fine"
    (base / "secret.txt").write_text(SECRET)
    (inside / "notes.txt").write_text(SECRET)
    (inside / "out.zarr").symlink_to(base / "secret.zarr")
    (inside / "up").symlink_to(base)
    (inside / "loop").symlink_to(inside / "loop")
    (inside / "link.zarr" / "x" / "c" / "0" / "0").unlink()
    (inside / "link.zarr" / "x" / "c" / "0" / "0").symlink_to(base / "secret.txt")
    return inside


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Any]:
    with hs.serve(folder, folder / "a.zarr", token=TOKEN) as running:
        yield running


def test_three_hundred_hostile_requests(server: Any, folder: Path) -> None:
    outcomes: Counter[tuple[str, int]] = Counter()
    wrong = []
    for kind, data, right in ((kind, *case) for kind, table in KINDS.items() for case in table()):
        found = send(server.address, data, ends=kind == "no HTTP")
        outcomes[kind, found.status] += 1
        if found.status not in right or not is_clean(found):
            wrong.append((data[:120], found.status, found.body[:200]))
    table = "\n".join(f"{kind:10} {status:4} {count:5}" for (kind, status), count in sorted(outcomes.items()))
    print(table)  # pytest -s shows it
    assert wrong == []
    assert sum(outcomes.values()) >= 300
    assert send(server.address, request(DOCUMENT)).status == 200
    assert send(server.address, request("/zarr/inside/a.zarr/x/c/0/0")).status == 200


def is_clean(found: Outcome) -> bool:
    """True of an answer that tells no secret, where an error is one of a known class, and no defect."""
    if SECRET.encode() in found.body or b"root:" in found.body or TOKEN in found.head or TOKEN.encode() in found.body:
        return False
    if found.status < 400 or not found.body.startswith(b"{"):
        return found.status != 500
    return found.error["class"] not in ("Defect", "")


def test_what_is_no_range_is_none() -> None:
    assert {text: parse_range(text) for text in RANGES if parse_range(text) is not None} == {}


# -- who may read ------------------------------------------------------------------------------------------------------


def test_cookies_of_other_servers_do_not_hide_ours(server: Any) -> None:
    cookie = guard.Admission("localhost", TOKEN).cookie
    for others in ('a={"b": 1};', 'theme="dark;', "x;", "=;", "a[b]=c,d;"):
        assert send(server.address, request(DOCUMENT, f"Cookie: {others} hyperslab-1={cookie}", token="")).status == 200


def test_links_from_other_sites_are_followed(server: Any) -> None:
    headers = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate")
    found = send(server.address, request(f"/?token={TOKEN}", *headers, token=""))
    assert (found.status, found.headers["location"]) == (303, "./")
    assert "httponly" in found.headers["set-cookie"].lower() and "samesite=lax" in found.headers["set-cookie"].lower()
    same = ("Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors")
    assert send(server.address, request(DOCUMENT, *same)).status == 200


def test_allowed_sites_are_names_too(folder: Path) -> None:
    with hs.serve(folder / "a.zarr", token="", allow_origin=["https://Data.example/", "http://[::5]:80"]) as server:
        site = "https://data.example"
        assert send(server.address, request(DOCUMENT, f"Origin: {site}")).headers["access-control-max-age"] == "600"
        for host in ("data.example", "DATA.example.:443", "[::5]"):
            assert send(server.address, request(DOCUMENT, host=host)).status == 200, host
        assert send(server.address, request(DOCUMENT, host="other.example")).status == 403
        loaded = request(DOCUMENT, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors")
        assert send(server.address, loaded).status == 403
    for origin in ("site.example", "https://site.example/path", "https://", "null", "https://a b", "", "http://[::1"):
        with pytest.raises(hs.errors.Invalid, match="origin"):
            hs.serve(folder, allow_origin=origin)


def test_tokens_and_hosts_that_are_none(folder: Path) -> None:
    for token in (" a", "line\n", "two\nlines", "é"):
        with pytest.raises(hs.errors.Invalid, match="token"):
            hs.serve(folder, token=token)
    with pytest.raises(hs.errors.Invalid, match="host"):
        hs.serve(folder, host="")


def test_names_of_the_machine_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    admission = guard.Admission.of("0.0.0.0", "t", ())
    asked: list[str] = []
    monkeypatch.setattr(socket, "getfqdn", lambda *name: asked.append("name") or "x")
    assert admission.is_our_host(socket.gethostname()) and not admission.is_our_host("evil.example")
    assert asked == []


# -- names that are no text --------------------------------------------------------------------------------------------


def test_names_that_no_address_can_have(tmp_path: Path) -> None:
    for name in (b"\xff.zarr", b"line\nbreak.zarr", b"back\\slash.zarr", b"fine.zarr"):
        with hs.create(tmp_path / name.decode(errors="surrogateescape")) as root:
            root.create_array("x", data=CELLS)
    with hs.serve(tmp_path, tmp_path / "line\nbreak.zarr", token="") as server:
        first, second = server.zarr_urls
        assert (second, "\udcff" in second) == ("line_break.zarr", False)
        page = httpx.get(server.zarr_urls[first])
        assert (page.status_code, page.text.count("<li>")) == (200, 1)
        assert httpx.get(f"{server.address}/api/browse/{quote(first)}").json()["names"] == ["fine.zarr"]
        assert httpx.get(server.url).status_code == 200
        assert httpx.get(f"{server.zarr_urls[second]}/x/zarr.json").status_code == 200


# -- links between datasets --------------------------------------------------------------------------------------------


def test_credentials_of_links_are_told_nobody(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "hdmf") as root:
        root.create_array("x", data=np.arange(3))
        root.create_link("away", "/x", source="https://user:password@host.example/b.zarr?sig=password")
    with hs.serve(tmp_path / "a.zarr", token="") as server:
        for path in ("zarr/a.zarr/losses", "api/browse/a.zarr", "api/node/a.zarr?node=/away"):
            found = httpx.get(f"{server.address}/{path}").text
            assert ("host.example" in found, "password" in found) == (True, False), path


def test_links_lead_to_what_is_served_alone(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with hs.create(tmp_path / f"{name}.zarr", "hdmf") as root:
            root.create_array("x", data=np.arange(3))
    with hs.open(tmp_path / "a.zarr", "r+") as root:
        root.create_link("away", "/x", source="../b.zarr")
    with hs.serve(tmp_path / "a.zarr", token="") as server:
        found = httpx.get(f"{server.address}/api/node/a.zarr?node=/away")
        assert (found.status_code, found.json()["error"]["class"]) == (403, "ExternalLinkRefused")
        assert httpx.get(f"{server.address}/api/rows/a.zarr?node=/away").status_code == 403
    for places in ((tmp_path / "a.zarr", tmp_path / "b.zarr"), (tmp_path,)):
        with hs.serve(*places, token="") as server:
            name = "a.zarr" if len(places) == 2 else f"{quote(tmp_path.name)}/a.zarr"
            assert httpx.get(f"{server.address}/api/node/{name}?node=/away").json()["shape"] == [3]
