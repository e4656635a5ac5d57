"""Datasets on web servers: such as any static host, and the poorest there is, without ranges, ETags or listings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import HyperslabError, NodeNotFound, NotFound, StorageError, Unsupported
from hyperslab.stores.location import Location
from servers.files import serving

CELLS = np.arange(3600.0).reshape(60, 60)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *said: Any) -> None:
        """Say nothing."""


class Timeless(Quiet):
    """Tells no time either."""

    def send_header(self, keyword: str, value: str) -> None:
        """All but that one."""
        if keyword != "Last-Modified":
            super().send_header(keyword, value)


class Odd(Quiet):
    """Answers as if a range had been asked for that is not there."""

    def do_GET(self) -> None:
        """Also to who asks for none."""
        if "/c/" not in self.path:
            return super().do_GET()
        self.send_response(416)
        self.send_header("Content-Length", "0")
        return self.end_headers()


class Weak(Quiet):
    """Names versions by weak ETags, which match where something is asked for unless it is one, and nowhere else."""

    tag = ""

    def do_GET(self) -> None:
        """By the conditions of RFC 9110, section 13."""
        place = Path(self.translate_path(self.path))
        self.tag = f'W/"{place.stat().st_mtime_ns}"' if place.is_file() else ""
        if self.tag and "If-Match" in self.headers:
            return self.send_error(412)
        if self.tag and self.headers.get("If-None-Match") == self.tag:
            self.send_response(304)
            return self.end_headers()
        return super().do_GET() if self.command == "GET" else super().do_HEAD()

    def end_headers(self) -> None:
        """With the ETag."""
        if self.tag:
            self.send_header("ETag", self.tag)
        super().end_headers()

    do_HEAD = do_GET


def _listed(place: str) -> str:
    kind = "<D:collection/>" if place.endswith("/") else ""
    about = (
        "<D:getlastmodified>Tue, 01 Jan 2030 00:00:00 GMT</D:getlastmodified>"
        f"<D:getcontentlength>2</D:getcontentlength><D:resourcetype>{kind}</D:resourcetype>"
    )
    return (
        f"<D:response><D:href>{place}</D:href><D:propstat><D:status>HTTP/1.1 200 OK</D:status>"
        f"<D:prop>{about}</D:prop></D:propstat></D:response>"
    )


class Listing(Quiet):
    """Lists a folder with one file and one folder by WebDAV, but for the first request, for which it is too busy."""

    asked = 0

    def do_PROPFIND(self) -> None:
        """As RFC 4918 says."""
        type(self).asked += 1
        seen = "".join(map(_listed, ["/x%20y/", "/x%20y/zarr.json", "/x%20y/g/"]))
        text = f'<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">{seen}</D:multistatus>'.encode()
        self.send_response(207 if self.asked > 1 else 503)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def hosting(folder: Path, handler: type[Quiet]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def poor(tmp_path: Path) -> Iterator[str]:
    with hosting(tmp_path, Quiet) as url:
        yield url


@pytest.fixture
def rich(tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path) as url:
        yield url


@pytest.mark.sampled(20)
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
    with pytest.raises(NotFound):
        hs.open(f"{host}/nowhere.zarr")
    with pytest.raises(HyperslabError):
        hs.open(f"{host}/x%20y.zarr", "r+")["g/a"][3, 3] = 5
    assert hs.open(f"{host}/x%20y.zarr")["g/a"][3, 3] == CELLS[3, 3]


def _two(folder: Path) -> hs.Group:
    root = hs.create(folder / "x.zarr", consolidated=True)
    root.create_array("chunks", data=CELLS, chunks=(20, 25))
    root.create_array("shards", data=CELLS, chunks=(10, 10), shards=(60, 60))
    return root


@pytest.mark.parametrize("handler", [Timeless, Weak])
def test_what_tells_versions_badly(tmp_path: Path, handler: type[Quiet]) -> None:
    """Nothing that was read before is taken for what is there, and nothing waits for another version."""
    root = _two(tmp_path)
    with hosting(tmp_path, handler) as url:
        found = hs.open(f"{url}/x.zarr")
        for name, array in found.items():
            for value in (-1.0, -2.0):
                assert array[7, 8] == root[name][7, 8]
                np.testing.assert_array_equal(array[7:22, 3:9], root[name][7:22, 3:9])
                root[name][7, 8] = value
                assert array[7, 8] == value


def test_an_answer_to_no_question(tmp_path: Path) -> None:
    """It is an error of the server, and none of ours is let out."""
    _two(tmp_path)
    with hosting(tmp_path, Odd) as url:
        for array in hs.open(f"{url}/x.zarr").values():
            with pytest.raises(StorageError, match=r"416.*/c/"):
                array[7, 8]


@pytest.mark.parametrize("name", ["nowhere.zarr", "nowhere.nc", "nowhere", "a/b"])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    """It takes few requests to know, though the server refuses to list: that is not asked again and again."""
    asked: list[str] = []

    class Counting(Quiet):
        def parse_request(self) -> bool:
            """Note what is asked."""
            parsed = super().parse_request()
            asked.append(self.command)
            return parsed

    with hosting(tmp_path, Counting) as url, pytest.raises(NotFound):
        hs.open(f"{url}/{name}")
    assert len(asked) <= 8
    assert asked.count("PROPFIND") <= 2


def test_a_server_that_lists(tmp_path: Path) -> None:
    """One that was too busy is asked again; names are those below the place that was opened."""
    with hosting(tmp_path, Listing) as url:
        store = Location.of(f"{url}/x%20y").store(read_only=True)
        assert store.list_dir() == (["zarr.json"], ["g"])
        assert list(store.list()) == ["zarr.json"]


class Unlisted(Quiet):
    """Lists nothing: it answers whoever asks for a folder, or for a listing, with one status."""

    status = 404

    def list_directory(self, path: Any) -> None:
        """Refuse, to whoever asks as browsers do."""
        self.send_error(self.status)

    def do_PROPFIND(self) -> None:
        """Refuse."""
        self.send_error(self.status)


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("status", [200, 401, 403, 404, 405, 501])
def test_the_remedy_where_nothing_is_listed(tmp_path: Path, format: str, status: int) -> None:
    """A tree without consolidated metadata opens, and so does each node; the error for the rest says what works."""
    with hs.create(tmp_path / "x.zarr", format) as made:
        made.attrs["title"] = "t"
        made.create_array("g/a", data=CELLS, dims=("y", "x"), chunks=(20, 25))
        made["g"].create_array("y", data=np.arange(60.0), dims=("y",))
    with hosting(tmp_path, type("Refusing", (Unlisted,), {"status": status})) as host:
        url = f"{host}/x.zarr"
        root = hs.open(url)
        assert root.attrs["title"] == "t" and "nothing" in repr(root)
        for ask in (
            lambda: list(root),
            root.tree,
            lambda: list(root["g"]),
            lambda: xr.open_dataset(f"{url}/g", engine="hyperslab"),
        ):
            with pytest.raises(Unsupported, match="lists nothing") as caught:
                ask()
            assert caught.value.remedy and "root['name']" in caught.value.remedy
            assert "hyperslab.open(place, 'r+', consolidated=True).close()" in caught.value.remedy
        assert root["g/a"][7, 8] == hs.open(f"{url}/g/a")[7, 8] == CELLS[7, 8]
        assert hs.open_array(f"{url}/g/a").sel(y=7.0)[8] == CELLS[7, 8]
        with pytest.raises(NotFound) as nothing:
            hs.open(host)
        assert nothing.value.remedy and "URL of a dataset" in nothing.value.remedy
        hs.open(tmp_path / "x.zarr", "r+", consolidated=True).close()
        assert [list(hs.open(url)), list(hs.open(url)["g"])] == [["g"], ["a", "y"]]
