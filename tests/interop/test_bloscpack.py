"""Real bloscpack, in a Python of its own, reads every v3 file that we write; and we read what it made of ours."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from canonical import canonical
from readers import ENVIRONMENTS, run

import hyperslab as hs

pytestmark = pytest.mark.interop

DTYPES = ["?", "i1", "<i2", ">i4", "<u8", "<f4", ">f8", "<c16", "S5", "<U3", "<M8[ns]", "<f2"]
CHECKSUMS = ["none", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"]
CODECS = ["none", "default", "blosc:blosclz:7", "blosc:lz4hc:3", "blosc:zlib:1", "blosc:zstd:5"]


@pytest.fixture
def peer() -> str:
    """The Python that has bloscpack."""
    found: str | None = json.loads(os.environ.get(ENVIRONMENTS, "{}")).get("bloscpack")
    if found is None:
        pytest.skip("bloscpack 0.16 runs on Python 3.9 and older: make interop gives it one, where there is one")
    return found


def cells(dtype: Any, shape: tuple[int, ...] = (40, 5)) -> np.ndarray[Any, Any]:
    """Cells that compress somewhat."""
    kind = np.dtype(dtype)
    numbers = np.random.default_rng(3).integers(0, 90, shape)
    if kind.names:
        out = np.zeros(shape, kind)
        for name in kind.names:
            out[name] = numbers[..., None].repeat(2, -1) if kind[name].shape else numbers
        return out
    return numbers.astype(kind)


def compare(peer: str, tmp_path: Path, files: dict[str, tuple[Path, Any]], **more: Any) -> None:
    """bloscpack finds in each file what it should."""
    tasks = [{"name": name, "path": str(path), **more} for name, (path, _) in files.items()]
    found = run(peer, "read_bloscpack.py", tasks, tmp_path)
    for name, (_, expected) in files.items():
        assert found[name].get("error") is None, f"{name}: {found[name]['error']}"
        wanted = canonical(expected)
        assert {key: found[name][key] for key in ("shape", "cells")} == {key: wanted[key] for key in ("shape", "cells")}


def test_every_way_to_write(tmp_path: Path, peer: str) -> None:
    files = {}
    for number, (dtype, order, checksum, offsets) in enumerate(product(DTYPES, "CF", CHECKSUMS, (True, False))):
        codec, slack = CODECS[number % len(CODECS)], (0, 0.3, "full")[number % 3]
        name = f"{dtype} {order} {checksum} {offsets} {codec} {slack}"
        path, values = tmp_path / f"{number}.blp", cells(dtype)
        with hs.create(path, order=order, checksum=checksum, offsets=offsets, slack=slack, durable=False) as root:
            chunks = (7, 5) if order == "C" else (40, 2)
            root.create_array("x", data=values, chunks=chunks, codec=codec, dims=("t", "y"), attrs={"units": "K"})
        files[name] = path, values
    compare(peer, tmp_path, files)
    for number, (name, (path, values)) in enumerate(files.items()):
        axis = 1 if " F " in name else 0
        array: Any = hs.open(path, "r+", durable=False)
        array[1:9] = values[5:13]
        expected = values.copy()
        expected[1:9] = values[5:13]
        array.append(values, axis)
        expected = np.concatenate([expected, values], axis, dtype=values.dtype)
        if number % 4 == 0:
            expected = expected[:30, :4]
            array.resize(expected.shape)
        if number % 5 == 0:
            array.attrs["note"] = "x" * (300 * (number % 7))
        files[name] = path, expected
    compare(peer, tmp_path, files)


def test_codecs_shapes_and_structures(tmp_path: Path, peer: str) -> None:
    files: dict[str, tuple[Path, Any]] = {}
    structure = [("a", "<i2"), ("b", "<f4", (2,)), ("c", "S3")]
    arrays = {
        "structure": cells(structure, (30,)),
        "scalar": np.float64(2.5),
        "empty": np.zeros(0),
        "empty rows": np.zeros((0, 4), "i4"),
        "no columns": np.zeros((4, 0), "i4"),
        "cube": cells("<i8", (5, 6, 7)),
        "long cells": cells("S300", (9,)),
        "many": np.random.default_rng(0).integers(0, 99, 1 << 19),
    }
    for (title, values), slack, codec in product(arrays.items(), (0, "full"), CODECS):
        path = tmp_path / f"{len(files)}.blp"
        hs.save(path, np.asarray(values), slack=slack, codec=codec)
        files[f"{title} {slack} {codec}"] = path, values
    compare(peer, tmp_path, files)


def test_longer_chunks_than_the_array(tmp_path: Path, peer: str) -> None:
    files = {}
    for length, rows in product((0, 1, 5, 8), (3, 8, 100)):
        path, values = tmp_path / f"{length}-{rows}.blp", cells("f8", (length, 3))
        hs.save(path, values, chunks=(rows, 3))
        files[f"{length} {rows}"] = path, values
    compare(peer, tmp_path, files)


def test_a_file_of_theirs_that_we_change(tmp_path: Path, peer: str) -> None:
    values = np.random.default_rng(0).normal(size=5000)
    np.save(tmp_path / "a.npy", values)
    made = {"name": "a", "path": str(tmp_path / "a.blp"), "pack": str(tmp_path / "a.npy"), "chunk_size": 4096}
    assert "error" not in run(peer, "read_bloscpack.py", [made], tmp_path)["a"]
    array: Any = hs.open(tmp_path / "a.blp", "r+")
    assert np.array_equal(array[...], values)
    array[100:3000] = 7
    array.append(values[:900])
    array.attrs["units"] = "K"
    expected = np.append(values, values[:900])
    expected[100:3000] = 7
    compare(peer, tmp_path, {"a": (tmp_path / "a.blp", expected)})
