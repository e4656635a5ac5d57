"""Every format over HTTP: zarr-python, tensorstore and xarray read what the source holds; equal chunks go as stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from obstore.store import HTTPStore

import hyperslab as hs
from format_variants import VARIANTS, Places, dataset, save
from hyperslab.formats.zarr.chunks import KeyedChunks

if TYPE_CHECKING:
    from servers.mongo import Mongo

AS_STORED = {"zarr2", "zarr3", "nczarr draft", "nczarr current", "hdmf v2", "hdmf v3"}
"""Variants whose chunks are those of Zarr v3."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, mongo: Mongo) -> Iterator[tuple[Any, dict[str, str]]]:
    """One server of a dataset of each variant, and their places."""
    places = Places(tmp_path_factory.mktemp("served"), f"{mongo.url}/{mongo.database()}")
    urls = {name: places.new(name) for name in VARIANTS}
    for name, url in urls.items():
        save(name, url, dataset(name))
    with hs.serve(*urls.values()) as server:
        yield server, urls


def address(served: tuple[Any, dict[str, str]], name: str) -> str:
    """Where a variant is served."""
    server, urls = served
    return list(server.zarr_urls.values())[list(urls).index(name)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_served_is_what_the_source_holds(served: Any, name: str) -> None:
    server, urls = served
    options: Any = {"client_options": {"default_headers": server.headers, "allow_http": True}}
    lost = {
        loss["node"] for loss in httpx.get(f"{address(served, name)}/losses", headers=server.headers).json()["losses"]
    }
    with hs.open(address(served, name), storage_options=options) as root, hs.open_group(urls[name]) as source:
        assert (sorted(root), lost) == (sorted(source), set())
        for path, array in source.arrays():
            np.testing.assert_array_equal(root[path][...], np.asarray(array[...]))
            assert root[path].dims == array.dims
            np.testing.assert_equal(dict(root[path].attrs), {**root[path].attrs, **array.attrs})  # NaN is itself


@pytest.mark.parametrize("name", VARIANTS)
def test_zarr_python_and_xarray_read_it(served: Any, name: str) -> None:
    zarr, xarray = pytest.importorskip("zarr"), pytest.importorskip("xarray")
    server, urls = served
    options: Any = {"default_headers": server.headers, "allow_http": True}
    # fsspec's HTTP reads the same, and leaves its connections open
    store = zarr.storage.ObjectStore(HTTPStore.from_url(address(served, name), client_options=options), read_only=True)
    root = zarr.open_group(store, mode="r")
    with hs.open_group(urls[name]) as source:
        assert sorted(path for path, _ in root.arrays()) == sorted(path for path, _ in source.arrays())
        for path, array in source.arrays():
            np.testing.assert_array_equal(root[path][...], np.asarray(array[...]))
        assert root["air"].attrs["units"] == "K"
        assert root["air"].metadata.dimension_names == ("time", "lat", "lon")
    pytest.importorskip("xarray", minversion="2025.6", reason="xarray before 2025.6 with zarr-python 3.1")
    with xarray.open_zarr(store, chunks=None, consolidated=True) as found:
        np.testing.assert_array_equal(found["air"].sel(lat=40.0), dataset(name)["air"].sel(lat=40.0))
        assert (found["time"].values == dataset(name)["time"].values).all()


@pytest.mark.parametrize("name", VARIANTS)
def test_tensorstore_reads_it(served: Any, name: str) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    server, _ = served
    headers = [f"{key}: {value}" for key, value in server.headers.items()]
    store = {"driver": "http", "base_url": f"{address(served, name)}/", "path": "air/", "headers": headers}
    array = tensorstore.open({"driver": "zarr3", "kvstore": store}, open=True).result()
    np.testing.assert_array_equal(array.read().result(), dataset(name)["air"])


def test_serving_writes_nothing(tmp_path: Path) -> None:
    urls = {name: Places(tmp_path, "").new(name) for name in VARIANTS if name != "mongo"}
    for name, url in urls.items():
        save(name, url, dataset(name))
    before = {path: (path.lstat().st_mtime_ns, path.lstat().st_ino) for path in sorted(tmp_path.rglob("*"))}
    with hs.serve(tmp_path, *urls.values(), token="") as server, httpx.Client(base_url=server.address) as client:
        for url in list(server.zarr_urls.values())[1:]:
            place = url.rpartition("/")[2]
            for key in ("zarr.json", "losses", "air/c/0/0/0", "air/c/9/0/0"):
                assert client.get(f"/zarr/{place}/{key}").status_code in (200, 404)
            for what in ("browse", "node", "rows", "view"):
                assert client.get(f"/api/{what}/{place}?node=/air").status_code == 200
    assert {path: (path.lstat().st_mtime_ns, path.lstat().st_ino) for path in sorted(tmp_path.rglob("*"))} == before


@pytest.mark.parametrize("name", sorted(AS_STORED))
def test_equal_chunks_are_sent_as_they_are_stored(served: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server, urls = served
    decoded = []
    for method in ("read_into", "read_part", "_read", "write_batch", "read"):
        monkeypatch.setattr(KeyedChunks, method, lambda *given, **more: decoded.append(given))
    key = "c/1/0/0" if name in ("zarr3", "hdmf v3") else "1.0.0"
    stored = Path(urls[name], "air", key).read_bytes()
    response = httpx.get(f"{address(served, name)}/air/c/1/0/0", headers=server.headers)
    assert (response.content, decoded) == (stored, [])
    part = httpx.get(f"{address(served, name)}/air/c/1/0/0", headers={**server.headers, "Range": "bytes=3-8"})
    assert (part.status_code, part.content, decoded) == (206, stored[3:9], [])


def test_dimensions_of_netcdf_need_no_attribute_more(tmp_path: Path) -> None:
    """Where an array has them; xarray cannot write a mapping among the attributes on to netCDF."""
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("t", data=np.zeros((2, 3)), dims=("y", "x"))
        root.create_dimension("bare", 4)
        root.create_group("deep").create_array("u", data=np.zeros(3), dims=("x",))
    with hs.create(tmp_path / "b.nc") as root:
        root.create_array("t", data=np.zeros((2, 3)), dims=("y", "x"))
    with hs.serve(tmp_path, token="") as server:
        (url,) = server.zarr_urls.values()
        attributes = [httpx.get(f"{url}/{name}.nc/zarr.json").json()["attributes"] for name in "ab"]
    assert attributes == [{"_hyperslab": {"version": 1, "dims": {"bare": {"size": 4}}}}, {}]


def test_losses_are_those_of_convert(tmp_path: Path) -> None:
    source, target = tmp_path / "a.zarr", tmp_path / "b.zarr"
    with hs.create(source, "hdmf") as root:
        root.create_array("x", data=np.arange(3))
        root.create_link("y", "x")
        root.create_array("strange", data=np.arange(3))
    report = hs.convert(source, target, "zarr3", allow_loss=True)
    document = json.loads((source / "strange" / ".zarray").read_text())
    (source / "strange" / ".zarray").write_text(json.dumps({**document, "compressor": {"id": "unheard-of"}}))
    for name in (".zmetadata",):
        (source / name).unlink(missing_ok=True)
    with hs.serve(source, token="") as server:
        (url,) = server.zarr_urls.values()
        losses = httpx.get(f"{url}/losses").json()["losses"]
        told = [loss["message"] for loss in losses if loss["node"] != "strange"]
        assert told == [loss.message for loss in report.losses if loss.node != "strange"] != []
        assert ["unheard-of" in loss["message"] for loss in losses if loss["node"] == "strange"] == [True]
        assert httpx.get(f"{url}/x/zarr.json").json()["shape"] == [3]
        assert httpx.get(f"{url}/strange/zarr.json").status_code == 404


def test_objects_of_a_database_are_found_by_name(mongo: Mongo) -> None:
    database = f"{mongo.url}/{mongo.database()}"
    for name in ("one", "two & <b>"):
        save("mongo", f"{database}#{quote(name)}", dataset("mongo"))
    with hs.serve(database, token="") as server:
        (url,) = server.zarr_urls.values()
        page = httpx.get(url).text
        assert ("one" in page, "two &amp; &lt;b&gt;" in page, "<b>" in page) == (True, True, False)
        for name in ("one", "two & <b>"):
            assert httpx.get(f"{url}/{quote(name)}/air/zarr.json").json()["shape"] == [4, 2, 3]
        assert httpx.get(f"{url}/three/zarr.json").status_code == 404
