"""A hundred datasets of strangers: each is answered for in bounded memory and time, with errors that say what is wrong.

Names and attributes with markup and control characters, absurd shapes, damaged chunks and documents, links in circles,
places that vanish while they are served.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import h5py
import httpx
import numpy as np
import pytest
from raw_requests import server_process

import hyperslab as hs
from hyperslab.web import dataset_cache

MARKUP = "<script>alert(1)</script>"
Make = Callable[[Path], None]


def document(**changes: Any) -> dict[str, Any]:
    """The document of an array of four cells in one chunk, with changes."""
    chunks = changes.pop("chunk_shape", [4])
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
        **changes,
    }


GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}


def write(root: Path, array: Any, chunk: bytes | None = bytes(16), name: str = "x", group: Any = None) -> None:
    """A dataset of one array, documents as text or as JSON."""
    for path, found in ((root, GROUP if group is None else group), (root / name, array)):
        path.mkdir(parents=True, exist_ok=True)
        text = found if isinstance(found, bytes) else json.dumps(found).encode("utf-8", "surrogatepass")
        (path / "zarr.json").write_bytes(text)
    if chunk is not None:
        (root / name / "c").mkdir(exist_ok=True)
        (root / name / "c" / "0").write_bytes(chunk)


# -- the table ---------------------------------------------------------------------------------------------------------

NAMES = (
    MARKUP,
    '"><img src=x onerror=alert(1)>',
    "a'onmouseover='alert(1)",
    "javascript:alert(1)",
    "a\u202eb",
    "a\u2066b",
    "a\nb",
    "a\rb",
    "a\tb",
    "a\x1b[31mb",
    "\x7f",
    "%2e%2e",
    "..%2f..",
    " a ",
    "x" * 255,
    "é" * 127,
    "👩‍👩‍👧",
    "__proto__",
    "constructor",
    "c",
    "losses",
    "?token=",
    "#",
    "{{7*7}}",
    "-rf",
    "a&amp;b",
)
ATTRIBUTES: dict[str, Any] = {
    "markup": {MARKUP: MARKUP, "units": MARKUP, "long_name": MARKUP},
    "keys of JavaScript": {"__proto__": {"polluted": 1}, "constructor": {"prototype": 1}, "toString": None},
    "control characters": {"a\x00b": "\x00\x1b]0;title\x07", "\u202e": "\u202e\u2066"},
    "half a surrogate pair": {"\ud800": "\udfff"},
    "long text": {"title": "a" * 300_000},
    "long name": {"a" * 100_000: 1},
    "many": {str(number): number for number in range(3000)},
    "a long list": {"list": list(range(20_000))},
    "lists in lists": {"deep": json.loads("[" * 90 + "]" * 90)},
    "objects in objects": {"deep": json.loads('{"a":' * 90 + "1" + "}" * 90)},
    "large numbers": {"a": 10**400, "b": -(10**30), "c": 1e308},
    "units that are none": {"units": "days since 9999999-99-99", "calendar": MARKUP},
    "units that are no text": {"units": [1, 2], "calendar": {"a": 1}},
    "a scale of nothing": {"scale_factor": "x", "add_offset": [1], "_FillValue": {"a": 1}},
    "a scale of naught": {"scale_factor": 0.0, "add_offset": 1e308},
    "coordinates": {"coordinates": "x x x ../x", "_ARRAY_DIMENSIONS": ["../x"]},
    "a table of itself": {"colnames": ["x", "x", "../x", MARKUP], "neurodata_type": "DynamicTable"},
    "no object": [1, 2, 3],
}
DOCUMENTS: dict[str, Any] = {
    "no cells": document(shape=[0]),
    "a chunk of nothing": document(chunk_shape=[0]),
    "more cells than numbers": document(shape=[2**63 - 1]),
    "more than that": document(shape=[2**64]),
    "a shape of 400 digits": document(shape=[10**400]),
    "10^18 chunks": document(shape=[10**18], chunk_shape=[1]),
    "a chunk of 10^15 cells": document(shape=[10**15], chunk_shape=[10**15]),
    "a chunk beyond 64 bits": document(shape=[10**6] * 6, chunk_shape=[10**6] * 6),
    "32 dimensions": document(shape=[2] * 32, chunk_shape=[2] * 32),
    "33 dimensions": document(shape=[1] * 33, chunk_shape=[1] * 33),
    "1000 dimensions": document(shape=[1] * 1000, chunk_shape=[1] * 1000),
    "a negative length": document(shape=[-4]),
    "a length of 1.5": document(shape=[1.5]),
    "a length of text": document(shape=["4"]),
    "a shape of nothing": document(shape=None),
    "lengths of lists": document(shape=[[4]]),
    "names of strangers": document(dimension_names=[MARKUP]),
    "a long name": document(dimension_names=["a" * 100_000]),
    "names of others": document(dimension_names=["a", "b", "c"]),
    "an unknown type": document(data_type="int31"),
    "a type of markup": document(data_type=MARKUP),
    "a wide type": document(data_type="r8000000000"),
    "an unknown codec": document(codecs=[{"name": MARKUP}]),
    "no codec": document(codecs=[]),
    "a thousand codecs": document(codecs=[{"name": "gzip", "configuration": {"level": 1}}] * 1000),
    "a fill of text": document(fill_value=MARKUP),
    "a fill beyond": document(fill_value=2**70),
    "format 4": document(zarr_format=4),
    "an unknown extension": document(storage_transformers=[{"name": "x", "must_understand": True}]),
    "shards in shards": document(
        codecs=[
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [3],
                    "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [0]}}],
                    "index_codecs": [{"name": "gzip", "configuration": {"level": 1}}],
                },
            }
        ]
    ),
    "no JSON": b'{"zarr_format": 3',
    "an empty document": b"",
    "bytes": bytes(range(256)),
    "another text": "no document",
    "lists of lists": b"[" * 100_000,
    "a name twice": json.dumps(document()).encode()[:-1] + b', "shape": [5], "shape": [6]}',
}
GZIP = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}]
BLOSC = {"cname": "lz4", "clevel": 1, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}
CHUNKS: dict[str, tuple[dict[str, Any], bytes]] = {
    "an empty chunk": (document(), b""),
    "a short chunk": (document(), bytes(7)),
    "a long chunk": (document(), bytes(100)),
    "no gzip": (document(codecs=GZIP), b"no gzip"),
    "half of gzip": (document(codecs=GZIP), zlib.compress(bytes(16), wbits=31)[:-9]),
    "a bomb of gzip": (document(codecs=GZIP), zlib.compress(bytes(64 << 20), 9, wbits=31)),
    "a checksum that is wrong": (document(codecs=[GZIP[0], {"name": "crc32c"}]), bytes(20)),
    "blosc of a GiB": (
        document(codecs=[GZIP[0], {"name": "blosc", "configuration": BLOSC}]),
        struct.pack("<BBBBIII", 2, 1, 0x21, 4, 1 << 30, 1 << 30, 24) + bytes(8),
    ),
    "zstd of a GiB": (
        document(codecs=[GZIP[0], {"name": "zstd", "configuration": {"level": 1, "checksum": False}}]),
        b"\x28\xb5\x2f\xfd\xa0" + (1 << 30).to_bytes(4, "little") + b"\x01\x00\x00",
    ),
    "text of 2^32 letters": (document(data_type="string", codecs=[{"name": "vlen-utf8"}], fill_value=""), b"\xff" * 64),
}


def link(target: str) -> Make:
    """A chunk that is a symbolic link."""

    def make(root: Path) -> None:
        write(root, document(), None)
        (root / "x" / "c").mkdir()
        (root / "x" / "c" / "0").symlink_to(target)

    return make


def in_circles(root: Path) -> None:
    """Groups that are links to groups above them."""
    write(root, document())
    (root / "x" / "again").symlink_to(root)
    (root / "group").symlink_to(root)


def hdf5_in_circles(root: Path) -> None:
    """Groups of HDF5 that hold each other."""
    with h5py.File(root.with_suffix(".nc"), "w") as file:
        inner = file.create_group("a/b")
        inner["up"] = file["a"]
        file["soft"] = h5py.SoftLink("/soft")
        file["a/x"] = np.arange(4)


def a_pipe(root: Path) -> None:
    """A chunk that is a pipe, of which the other end never comes."""
    write(root, document(), None)
    (root / "x" / "c").mkdir()
    os.mkfifo(root / "x" / "c" / "0")


def a_folder(root: Path) -> None:
    """A chunk that is a folder."""
    write(root, document(), None)
    (root / "x" / "c" / "0").mkdir(parents=True)


OTHERS: dict[str, Make] = {
    "a chunk of /dev/zero": link("/dev/zero"),
    "a chunk of /etc/passwd": link("/etc/passwd"),
    "a chunk that leads to itself": link("0"),
    "groups in circles": in_circles,
    "groups of HDF5 in circles": hdf5_in_circles,
    "a pipe as a chunk": a_pipe,
    "a folder as a chunk": a_folder,
    "a pipe as a place": lambda root: os.mkfifo(root),
    "half a netCDF file": lambda root: half_of_netcdf(root.with_suffix(".nc")),
    "a file of HDF5 in name": lambda root: void(root.with_suffix(".nc").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(99))),
    "a file of b2nd in name": lambda root: void(root.with_suffix(".b2nd").write_bytes(b"\x9e\xa8b2frame\x00" * 9)),
    "references to anything": lambda root: references(root.with_suffix(".json")),
}


def void(_: int) -> None:
    """Nothing, whatever was returned."""


def half_of_netcdf(path: Path) -> None:
    """The first half of a file."""
    with hs.create(path) as root:
        root.create_array("x", data=np.arange(10_000))
    path.write_bytes(path.read_bytes()[:20_000])


def references(path: Path) -> None:
    """References to a file of the system, to a server, and to more than there is."""
    array = {"zarr_format": 2, "shape": [8], "chunks": [8], "dtype": "|u1", "order": "C", "fill_value": 0}
    text = json.dumps({**array, "compressor": None, "filters": None})
    targets = [["/etc/passwd", 0, 8], ["http://127.0.0.1:9/", 0, 8], ["references.json", 0, 10**12], ["file:///"]]
    refs: dict[str, Any] = {".zgroup": '{"zarr_format": 2}'}
    for number, target in enumerate(targets):
        refs |= {f"x{number}/.zarray": text, f"x{number}/0": target}
    path.write_text(json.dumps({"version": 1, "refs": refs}))


def all_of_them() -> Iterator[tuple[str, Make]]:
    """Every dataset by what is wrong with it."""
    for name in NAMES:
        yield f"the name {name[:20]!r}", lambda root, name=name: write(root, document(), name=name)
    for kind, attributes in ATTRIBUTES.items():
        group = {**GROUP, "attributes": attributes}
        array = document(attributes=attributes)
        yield f"attributes: {kind}", lambda root, a=array, g=group: write(root, a, group=g)
    for kind, array in DOCUMENTS.items():
        yield f"a document: {kind}", lambda root, array=array: write(root, array)
    for kind, (array, chunk) in CHUNKS.items():
        yield f"a chunk: {kind}", lambda root, a=array, c=chunk: write(root, a, c)
    yield from OTHERS.items()


# -- what is asked of each ---------------------------------------------------------------------------------------------


def answers(client: httpx.Client, place: str) -> Iterator[httpx.Response]:
    """What a browser, and a reader of Zarr, would ask of a dataset."""
    for path in (f"zarr/{place}", f"zarr/{place}/zarr.json", f"zarr/{place}/losses"):
        yield client.get(f"/{path}")
    listed = client.get(f"/api/browse/{place}")
    yield listed
    nodes = listed.json().get("nodes", [{"path": "/x"}])
    for node in nodes[:8]:
        query = {"node": node["path"]}
        for what, more in {"node": {}, "rows": {"count": 5}, "cell": {"index": "0"}, "view": {"width": 8}}.items():
            yield client.get(f"/api/{what}/{place}", params={**query, **more})
        for key in ("zarr.json", "c/0", "c", "c/9999999"):
            yield client.get(f"/zarr/{place}/{quote(node['path'].strip('/'))}/{key}")


def check(found: httpx.Response) -> None:
    """An answer is no defect, says what is wrong where something is, and holds no markup that would be run."""
    assert found.status_code in (200, 400, 403, 404, 500, 503), found.text[:300]
    kind = found.headers["content-type"]
    assert found.headers["x-content-type-options"] == "nosniff"
    if kind.startswith("text/html"):
        assert "<script" not in found.text and "<img" not in found.text
    if found.status_code >= 400:
        error = found.json()["error"]
        assert error["class"] != "Defect" and error["message"], (found.request.url, error)
        assert len(found.content) < 20_000
    elif kind == "application/json":
        found.json()
    assert b"root:x" not in found.content


@pytest.mark.sampled(4)
@pytest.mark.parametrize("quarter", range(4))
def test_a_hundred_hostile_datasets(tmp_path: Path, quarter: int) -> None:
    datasets = list(all_of_them())
    assert len(datasets) >= 100
    made = {}
    for number, (kind, make) in list(enumerate(datasets))[quarter::4]:
        make(tmp_path / f"d{number}.zarr")
        made[kind] = next(path.name for path in tmp_path.iterdir() if path.stem == f"d{number}")
    outcomes: Counter[tuple[str, int]] = Counter()
    with hs.serve(tmp_path, token="") as server, httpx.Client(base_url=server.address, timeout=30) as client:
        for kind, name in made.items():
            for found in answers(client, f"{quote(tmp_path.name)}/{name}"):
                check(found)
                outcomes[kind.partition(":")[0][:10], found.status_code] += 1
        assert client.get("/").status_code == 200
    print("\n".join(f"{kind:10} {status:4} {count:5}" for (kind, status), count in sorted(outcomes.items())))


# -- places that change ------------------------------------------------------------------------------------------------


def test_places_that_vanish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_cache, "_LOOK_EVERY", 0.5)
    (tmp_path / "folder").mkdir()
    for name in ("folder/a.zarr", "folder/b.nc", "c.zarr", "d.nc"):
        with hs.create(tmp_path / name) as root:
            root.create_array("x", data=np.arange(100), chunks=(50,))
    outside = tmp_path / "outside.zarr"
    (tmp_path / "c.zarr").rename(outside)
    shutil.copytree(outside, tmp_path / "c.zarr")
    places = ("folder/a.zarr", "folder/b.nc", "c.zarr", "d.nc")
    with (
        hs.serve(tmp_path / "folder", tmp_path / "c.zarr", tmp_path / "d.nc", token="") as server,
        httpx.Client(base_url=server.address, timeout=30) as client,
    ):
        for name in places:
            assert client.get(f"/zarr/{name}/x/c/0").status_code == 200
            assert client.get(f"/api/view/{name}?node=/x").status_code == 200
        shutil.rmtree(tmp_path / "folder")
        shutil.rmtree(tmp_path / "c.zarr")
        (tmp_path / "d.nc").unlink()
        time.sleep(1.1)  # after which it is looked at again
        for name in places:
            for path in (f"zarr/{name}/x/c/1", f"zarr/{name}/zarr.json", f"api/node/{name}?node=/x"):
                found = client.get(f"/{path}")
                assert (found.status_code, found.json()["error"]["class"]) in {(404, "NotFound"), (404, "NodeNotFound")}
        assert client.get("/").status_code == 200
        (tmp_path / "folder").symlink_to(tmp_path)
        assert client.get("/zarr/folder/outside.zarr/zarr.json").status_code in (200, 404)  # the place itself is a link
        with hs.create(tmp_path / "d.nc") as root:
            root.create_array("x", data=np.arange(100) + 1, chunks=(50,))
        assert client.get("/zarr/d.nc/x/zarr.json").status_code == 200


# -- large ones --------------------------------------------------------------------------------------------------------


def many_attributes(root: Path) -> None:
    """A million attributes at a group, and at an array."""
    attributes = {f"attribute {number}": number for number in range(1_000_000)}
    write(root, document(attributes=attributes), group={**GROUP, "attributes": attributes})


def many_children(root: Path) -> None:
    """A hundred thousand arrays in a group."""
    write(root, document())
    text = json.dumps(document()).encode()
    for number in range(100_000):
        (root / f"x{number}").mkdir()
        (root / f"x{number}" / "zarr.json").write_bytes(text)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("make", "most"), [(many_attributes, 1 << 30), (many_children, 2 << 30)])
def test_a_million_attributes_and_a_hundred_thousand_children(tmp_path: Path, make: Make, most: int) -> None:
    make(tmp_path / "large.zarr")
    with hs.create(tmp_path / "small.zarr") as root:
        root.create_array("x", data=np.arange(4))
    with (
        server_process(tmp_path / "large.zarr", tmp_path / "small.zarr", says="no consolidated metadata") as served,
        httpx.Client(base_url=served.address, timeout=300) as client,
    ):
        began = time.monotonic()
        for path in ("browse/large.zarr", "node/large.zarr?node=/x"):
            told = client.get(f"/api/{path}")
            check(told)  # a million attributes are more than is read of a document
            assert len(told.content) < 1 << 20
        shown = time.monotonic() - began
        found = client.get("/zarr/large.zarr/zarr.json")
        check(found)
        print(f"{make.__name__}: shown in {shown:.1f} s, as Zarr ({found.status_code}) in", end=" ")
        print(f"{time.monotonic() - began - shown:.1f} s, {served.peak() >> 20} MiB at most")
        assert client.get("/zarr/small.zarr/x/c/0").status_code == 200
        assert served.peak() < most


@pytest.mark.parametrize("make", [a_pipe, a_folder])
def test_a_chunk_that_is_no_file_is_not_said_to_be_missing(tmp_path: Path, make: Make) -> None:
    """A reader takes 404 for a chunk of fill values."""
    make(tmp_path / "d.zarr")
    with hs.serve(tmp_path, token="") as server, httpx.Client(base_url=server.address, timeout=30) as client:
        for known in ({}, {"if-none-match": '"0"'}):
            found = client.get(f"/zarr/{quote(tmp_path.name)}/d.zarr/x/c/0", headers=known)
            assert found.status_code == 500 and found.json()["error"]["class"] == "CorruptChunk"
