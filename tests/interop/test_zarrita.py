"""zarrita.js reads every format over HTTP equal to the source: what browsers have of Zarr."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from readers import CHILDREN, ENVIRONMENTS

import hyperslab as hs
from format_variants import VARIANTS, Places, dataset, save

if TYPE_CHECKING:
    from servers.mongo import Mongo

PACKAGES = json.loads(os.environ.get(ENVIRONMENTS, "{}")).get("zarrita")
pytestmark = [pytest.mark.interop, pytest.mark.skipif(PACKAGES is None, reason="needs zarrita.js (.ci/peers.py)")]


def read(datasets: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """What zarrita.js reads of the datasets."""
    given = json.dumps({"datasets": datasets, "headers": headers})
    command = ["node", str(CHILDREN / "read_zarrita.mjs"), PACKAGES]
    ended = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def as_told(cells: Any) -> list[Any]:
    """Cells as the child writes them: whole numbers of 64 bits as text."""
    flat = np.asarray(cells).ravel()
    if flat.dtype.kind in "iu" and flat.dtype.itemsize == 8:
        return [str(cell) for cell in flat.tolist()]
    return ["nan" if cell != cell else cell for cell in flat.tolist()]


def told(array: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of an array, and its cells as the child writes them."""
    return array.shape, as_told(array[...])


def test_every_format(tmp_path: Path, mongo: Mongo) -> None:
    places = Places(tmp_path, f"{mongo.url}/{mongo.database()}")
    urls = {name: places.new(name) for name in VARIANTS}
    for name, url in urls.items():
        save(name, url, dataset(name))
    with hs.serve(*urls.values()) as server:
        asked: dict[str, Any] = {}
        wanted: dict[str, Any] = {}
        for (name, url), address in zip(urls.items(), server.zarr_urls.values(), strict=True):
            with hs.open_group(url) as source:
                arrays = dict(source.arrays())
                wanted[name] = {path: told(array) for path, array in arrays.items() if array.dtype.kind != "M"}
            asked[name] = {"url": address, "paths": list(arrays)}
        found = read(asked, server.headers)
    for name in VARIANTS:
        read_by_them = {path: each for path, each in found[name].items() if "error" not in each}
        # it has no times of NumPy, in which xarray keeps them in MongoDB
        assert {path: (tuple(each["shape"]), each["data"]) for path, each in read_by_them.items()} == wanted[name], name
        assert read_by_them["air"]["attributes"]["units"] == "K"


def test_types_shards_and_codecs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cells = {
        dtype: rng.integers(0, 100, (7, 9)).astype(dtype) for dtype in ("i1", "u2", "<i4", ">i4", "i8", "f4", "f8")
    }
    with hs.create(tmp_path / "a.zarr") as root:
        for dtype, values in cells.items():
            root.create_array(f"of {dtype}", data=values, chunks=(3, 4))
        root.create_array("shards", data=cells["f4"], chunks=(2, 3), shards=(4, 6))
        root.create_array("a/b/deep", data=cells["f8"], chunks=(7, 9), codec="gzip:1")
        root.create_array("zstd", data=cells["f8"], chunks=(4, 4), codec="zstd:3")
        root.create_array("blosc", data=cells["f8"], chunks=(4, 4), codec="blosc:lz4:5")
        root.create_array("unwritten", shape=(5,), dtype="f4", fill_value=1.5, chunks=(2,))
        root.create_array("one", data=np.float64(2.5))
    paths = [*(f"of {dtype}" for dtype in cells), "shards", "a/b/deep", "zstd", "blosc", "unwritten", "one"]
    with hs.open(tmp_path / "a.zarr") as root, hs.serve(tmp_path / "a.zarr") as server:
        wanted = {path: as_told(root[path][...]) for path in paths}
        (url,) = server.zarr_urls.values()
        found = read({"a": {"url": url, "paths": list(wanted)}}, server.headers)["a"]
    assert {path: each["data"] for path, each in found.items()} == wanted
