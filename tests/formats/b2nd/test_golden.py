"""Files that blosc2 wrote, read; and files that are written here, read by blosc2."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import blosc2
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Unsupported

GOLDEN = Path(__file__).parents[2] / "golden" / "b2nd"
ARRAYS = ["f4_2d", "struct", "M8", "full_special", "sparse_dir"]


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_blosc2(name: str) -> None:
    truth = np.load(GOLDEN / f"{name}.b2nd.npy")
    with hs.open_group(GOLDEN / f"{name}.b2nd") as root:
        array = root["data"]
        assert (array.shape, array.dtype) == (truth.shape, truth.dtype)
        assert np.array_equal(array[...], truth)
        assert np.array_equal(array[1:], truth[1:])
    assert np.array_equal(hs.open_array(GOLDEN / f"{name}.b2nd")[-1], truth[-1])


def test_chunks_codec_and_metalayers_that_are_not_ours() -> None:
    array = hs.open_array(GOLDEN / "f4_2d.b2nd")
    assert (array.dims, array.chunks, dict(array.attrs), array.units) == (("y", "x"), (8, 16), {"units": "K"}, "K")
    assert array.codec[0].config["cname"] == "zstd"
    assert array.spec.layout["blocks"] == (4, 8)


def test_a_changed_file_keeps_the_metalayers_of_others(tmp_path: Path) -> None:
    path = shutil.copy(GOLDEN / "f4_2d.b2nd", tmp_path / "a.b2nd")
    with hs.open_group(path, "r+") as root:
        root["data"].attrs["units"] = "degC"
        root["data"].attrs["valid"] = np.float32(3)
        root["data"][0, 0] = 7
    found = blosc2.open(str(path), mode="r")
    assert found.vlmeta["units"] == "degC"
    assert found.vlmeta["dims"] == ["y", "x"]
    assert list(found.vlmeta["attrs"]) == ["valid"]
    assert found[0, 0] == 7
    array = hs.open_array(path)
    assert dict(array.attrs) == {"units": "degC", "valid": np.float32(3)}
    assert array.attrs["valid"].dtype == np.float32


def test_a_changed_sparse_directory(tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    shutil.copytree(GOLDEN / "sparse_dir.b2nd", path)
    truth = np.load(GOLDEN / "sparse_dir.b2nd.npy")
    with hs.open_group(path, "r+") as root:
        root["data"][5:700] = 1
        root["data"].append(np.arange(50))
    truth[5:700] = 1
    expected = np.concatenate([truth, np.arange(50)])
    assert np.array_equal(hs.open_array(path)[...], expected)
    assert np.array_equal(blosc2.open(str(path), mode="r")[...], expected)
    assert [each.name for each in tmp_path.iterdir()] == ["a.b2nd"]


def test_a_frame_without_an_array_is_named() -> None:
    with pytest.raises(Unsupported, match=r"load_array"):
        hs.open(GOLDEN / "save_array.b2frame")


@pytest.mark.parametrize("name", ["tree.b2d", "tree.b2z"])
def test_trees_are_groups(name: str) -> None:
    with hs.open_group(GOLDEN / name) as root:
        assert list(root) == ["g"]
        assert list(root["g"]) == ["a", "b"]
        assert np.array_equal(root["g/a"][...], np.arange(10))
        assert np.array_equal(root["g/b"][1:3], np.linspace(0, 1, 5)[1:3])
        assert dict(root.attrs) == ({"title": "t"} if name.endswith("z") else {})
    with pytest.raises(Unsupported, match="only read"):
        hs.open(GOLDEN / name, "r+")


@pytest.mark.parametrize("codec", ["default", "blosc:zstd:3", "blosc:blosclz:9", "blosc:zlib:1", "none"])
def test_blosc2_reads_what_is_written(tmp_path: Path, codec: str) -> None:
    values = np.arange(60.0).reshape(5, 12)
    with hs.create(tmp_path / "a.b2nd") as root:
        array = root.create_array("t", data=values, chunks=(2, 5), dims=("y", "x"), codec=codec, attrs={"units": "K"})
        root.create_array("y", data=np.arange(5), dims=("y",))
    found = blosc2.open(str(tmp_path / "a.b2nd"), mode="r")
    assert (found.shape, found.chunks) == ((5, 12), (2, 5))
    assert np.array_equal(found[...], values)
    assert found.vlmeta["dims"] == ["y", "x"]
    assert found.vlmeta["attrs"] == {"units": "K"}
    assert list(found.vlmeta["coords"]) == ["y"]
    expected: Any = array.codec[0].config["cname"] if array.codec else "lz4"
    assert blosc2.Codec[expected.upper()] == found.cparams.codec
