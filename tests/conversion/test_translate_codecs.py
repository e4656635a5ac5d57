"""What nobody asks for stays: compressor, level, shuffle, chunks and shards, as far as the target has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.model.spec import Codec

DATA = np.arange(24 * 30, dtype="f4").reshape(24, 30)
LZ4 = ["blosc lz4 5 shuffle"]
# source, its codec, target, options, what compresses there
KEPT: tuple[tuple[str, str, str, dict[str, str], list[str]], ...] = (
    ("zarr2", "zstd:9", "zarr3", {}, ["zstd 9"]),
    ("zarr2", "zlib:7", "zarr3", {}, ["gzip 7"]),
    ("zarr2", "zlib:7", "nczarr", {}, ["zlib 7"]),
    ("zarr3", "gzip:7", "nczarr", {}, ["zlib 7"]),
    ("zarr3", "gzip:7", "zarr2", {}, ["gzip 7"]),
    ("zarr3", "gzip:2", "collections", {}, ["gzip 2"]),
    ("zarr3", "gzip:2", "b2nd", {}, ["blosc zlib 2 shuffle"]),
    ("zarr3", "zstd:9", "b2nd", {}, ["blosc zstd 5 shuffle"]),
    ("zarr3", "blosc:zstd:7", "collections", {}, ["blosc zstd 7 shuffle"]),
    ("zarr3", "blosc:zstd:7:noshuffle", "blaze", {}, ["blosc zstd 7 noshuffle"]),
    ("zarr3", "blosc:zstd:7", "netcdf", {}, ["zstd 7"]),
    ("collections", "gzip:7", "collections", {}, ["gzip 7"]),
    ("netcdf", "shuffle+zlib:3", "zarr2", {}, ["shuffle", "zlib 3"]),
    ("netcdf", "shuffle+zlib:3", "zarr3", {}, ["blosc zlib 3 shuffle"]),
    ("netcdf", "shuffle+zlib:3", "nczarr", {}, ["shuffle", "zlib 3"]),
    ("netcdf", "zlib:3", "hdmf", {"profile": "v3"}, ["gzip 3"]),
    ("zarr2", "bz2:4", "zarr3", {}, ["bz2 4"]),
    ("zarr2", "bz2:4", "b2nd", {}, LZ4),
    ("zarr3", "zstd:3", "nczarr", {}, ["zstd 3"]),
    ("zarr3", "none", "zarr2", {}, LZ4),
)


def _told(array: hs.Array) -> list[str]:
    steps = list(array.spec.codecs)
    if steps[-1:] and steps[-1].name == "sharding_indexed":
        steps = list(steps[-1].config["codecs"])
    return [_word(each) for each in steps if each.name not in ("bytes", "crc32c", "fletcher32")]


def _word(codec: Codec) -> str:
    """The name of a codec and its settings, a shuffle by its name."""
    config = dict(codec.config)
    if isinstance(config.get("shuffle"), int):
        config["shuffle"] = ("noshuffle", "shuffle", "bitshuffle")[config["shuffle"]]
    keys = ("cname", "clevel", "level", "shuffle")
    return " ".join([codec.name, *(str(config[key]) for key in keys if key in config)])


def _source(place: Path, format: str, **said: Any) -> Path:
    with hs.create(place, format=format) as root:
        root.create_array("v", data=DATA, dims=["y", "x"], **said)
    return place


@pytest.mark.parametrize(
    ("source", "codec", "target", "options", "expected"), KEPT, ids=[" ".join(each[:3]) for each in KEPT]
)
def test_the_compressor(
    tmp_path: Path, source: str, codec: str, target: str, options: dict[str, str], expected: list[str]
) -> None:
    there = _source(tmp_path / "source", source, codec=codec, chunks=(6, 10))
    hs.convert(there, tmp_path / "target", target, verify=True, **options)
    with hs.open_group(tmp_path / "target") as root:
        assert _told(root["v"]) == expected


@pytest.mark.parametrize(
    ("codec", "rows", "expected"),
    [("gzip:2", 128, ["zlib 2"]), ("blosc:zlib:7", 128, ["zlib 7"]), ("blosc:zstd:7", 128, []), ("gzip:2", 16, [])],
)
def test_tiles_of_deker_have_gzip_where_it_pays(tmp_path: Path, codec: str, rows: int, expected: list[str]) -> None:
    with hs.create(tmp_path / "source.zarr") as root:
        cells = np.arange(128 * 200, dtype="f4").reshape(128, 200)
        root.create_array("v", data=cells, dims=["y", "x"], codec=codec, chunks=(rows, 200))
    hs.convert(tmp_path / "source.zarr", tmp_path / "target", "deker", verify=True)
    assert _told(hs.open(tmp_path / "target")["v"]) == expected


def test_what_is_asked_for_counts(tmp_path: Path) -> None:
    there = _source(tmp_path / "source", "zarr2", codec="zstd:9")
    hs.convert(there, tmp_path / "target", "zarr3", codec="default")
    assert _told(hs.open(tmp_path / "target")["v"]) == LZ4


def test_shards_stay_where_there_are_any(tmp_path: Path) -> None:
    there = _source(tmp_path / "source", "zarr3", chunks=(6, 10), shards=(12, 10), codec="zstd:2")
    hs.convert(there, tmp_path / "nwb", "hdmf", profile="v3")
    hs.convert(there, tmp_path / "plain", "zarr2")
    hs.convert(there, tmp_path / "part", "hdmf", profile="v3", select={"y": slice(0, 7)})
    cuts = [hs.open(tmp_path / name)["v"] for name in ("nwb", "plain", "part")]
    assert [(each.spec.chunks, each.chunks) for each in cuts] == [
        ((12, 10), (6, 10)),
        ((6, 10), (6, 10)),
        ((12, 10), (6, 10)),
    ]


def test_small_chunks_stay_but_for_many_of_them(tmp_path: Path) -> None:
    few = hs.convert(_source(tmp_path / "few", "zarr2", chunks=(6, 10)), tmp_path / "a", "zarr3")
    many = hs.convert(_source(tmp_path / "many", "zarr2", chunks=(1, 2)), tmp_path / "b", "zarr3")
    assert (few.recut, hs.open(tmp_path / "a")["v"].chunks) == ((), (6, 10))
    assert many.recut == ("/v has chunks of 24 x 30 (source: 1 x 2)",)
    assert "cut otherwise: /v has chunks" in str(many)


def test_chunks_beyond_the_end_stay_for_what_is_appended(tmp_path: Path) -> None:
    there = _source(tmp_path / "source", "zarr2", chunks=(100, 30))
    hs.convert(there, tmp_path / "target", "zarr3")
    assert hs.open(tmp_path / "target")["v"].chunks == (100, 30)


def test_many_notes_are_counted(tmp_path: Path) -> None:
    with hs.create(tmp_path / "source", format="zarr2") as root:
        for name in "abcde":
            root.create_array(name, data=DATA, dims=["y", "x"], chunks=(1, 2))
    said = str(hs.convert(tmp_path / "source", tmp_path / "target", "zarr3"))
    assert said.count("cut otherwise") == 4
    assert "cut otherwise: 2 more arrays" in said


@pytest.mark.parametrize("format", ["netcdf", "zarr3", "zarr2", "nczarr"])
def test_what_is_not_compressed_is_not_when_it_is_cut_anew(tmp_path: Path, format: str) -> None:
    there = _source(tmp_path / "source", format, codec="none", chunks=(6, 10))
    hs.convert(there, tmp_path / "target", format, chunks={"x": 5}, verify=True)
    with hs.open_group(tmp_path / "target") as root:
        assert _told(root["v"]) == []
    other = "zarr3" if format == "netcdf" else "netcdf"
    hs.convert(there, tmp_path / "other", other, chunks={"x": 5}, verify=True)
    with hs.open_group(tmp_path / "other") as root:
        assert _told(root["v"]) != [], "another format compresses as it does by default"
