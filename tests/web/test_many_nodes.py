"""Lists of groups with many nodes: a page of them reads the documents of its own nodes, and no others."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

import hyperslab as hs
from hyperslab.web import nodes

GROUP = json.dumps({"zarr_format": 3, "node_type": "group"})
_opened: list[str] = []
_is_counting = [False]


def _notice(event: str, arguments: Any) -> None:
    if event == "open" and _is_counting[0] and str(arguments[0]).endswith("zarr.json"):
        _opened.append(str(arguments[0]))


sys.addaudithook(_notice)


@contextmanager
def opened_documents() -> Iterator[list[str]]:
    """The documents that are opened meanwhile, by any thread."""
    _opened.clear()
    _is_counting[0] = True
    yield _opened
    _is_counting[0] = False


def test_a_page_of_many_nodes(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(nodes, "MOST_NODES", 50)
    place = tmp_path / "a.zarr"
    for name in ("", *(f"g{number:04}" for number in range(3000)), "not a node"):
        (place / name).mkdir()
        if name != "not a node":
            (place / name / "zarr.json").write_text(GROUP)
    with hs.serve(place, token="") as server, httpx.Client(base_url=server.address) as client:
        with opened_documents() as opened:
            first = client.get("/api/browse/a.zarr", params={"depth": 1}).json()
        assert [node["path"] for node in first["nodes"][:3]] == ["/", "/g0000", "/g0001"]
        assert (len(first["nodes"]), first["next"]) == (50, "/g0048")
        assert 50 <= len(opened) < 150
        last = client.get("/api/browse/a.zarr", params={"depth": 1, "after": "/g2998"}).json()
        assert ([node["path"] for node in last["nodes"]], last["next"]) == (["/g2999"], None)
        with opened_documents() as opened:
            found = client.get("/api/browse/a.zarr", params={"depth": 1, "after": "/g2000"}).json()
        assert ([node["path"] for node in found["nodes"]][:2], len(found["nodes"])) == (["/g2001", "/g2002"], 50)
        assert len(opened) < 150
        for gone in ("/g9999", "/not a node", "/g2000/below"):
            assert client.get("/api/browse/a.zarr", params={"depth": 1, "after": gone}).status_code == 400
