"""Blosc chunks that move as they are: the same cells as by the long way, and nothing decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.codecs import blosc
from hyperslab.conversion import copy
from hyperslab.errors import CorruptChunk

CELLS = np.round(np.random.default_rng(1).random((1000, 40)), 2)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each chunk that Blosc decodes or encodes."""
    calls: list[int] = []
    for name in ("decode_into", "encode"):
        old = getattr(blosc.Blosc, name)

        def counted(*given: Any, _old: Any = old, **more: Any) -> Any:
            calls.append(1)
            return _old(*given, **more)

        monkeypatch.setattr(blosc.Blosc, name, counted if name == "encode" else staticmethod(counted))
    return calls


def made(path: Path, format: str | None = None, *, rows: int = 250, codec: str = "blosc:zstd:3", **more: Any) -> Path:
    with hs.create(path, format) as root:
        how: dict[str, Any] = {"chunks": (rows, 40), "dims": ("y", "x"), "codec": codec, "fill_value": 0.0}
        if (format or path.suffix) in ("zarr3",):
            how["checksum"] = False
        root.create_array("v", data=CELLS, **how | more)
    return path


def chunks(path: Path) -> set[bytes]:
    return {file.read_bytes() for file in path.rglob("*") if file.is_file() and file.name[0] in "0123456789c"}


def test_between_zarr2_datasets_every_stored_byte_is_the_same(tmp_path: Path, decoded: list[int]) -> None:
    source = made(tmp_path / "a.zarr", "zarr2", rows=300)
    del decoded[:]
    hs.convert(source, tmp_path / "b.zarr", "zarr2")
    assert not decoded
    assert chunks(tmp_path / "b.zarr") == chunks(source)
    assert np.array_equal(hs.open_array(tmp_path / "b.zarr", path="v")[...], CELLS)
    hs.convert(source, tmp_path / "c.zarr", "zarr2", verify=True)


def test_to_zarr3_and_back(tmp_path: Path, decoded: list[int]) -> None:
    source = made(tmp_path / "a.zarr", "zarr3")
    del decoded[:]
    hs.convert(source, tmp_path / "b.zarr", "zarr2")
    assert not decoded
    assert hs.open_array(tmp_path / "b.zarr", path="v").codec[-1].config["cname"] == "zstd"
    assert np.array_equal(hs.open_array(tmp_path / "b.zarr", path="v")[...], CELLS)


def test_checksums_are_verified_and_added_on_the_way(tmp_path: Path, decoded: list[int]) -> None:
    source = made(tmp_path / "a.zarr", "zarr3", checksum=True)
    del decoded[:]
    hs.convert(source, tmp_path / "b.zarr", "zarr3", path="")
    hs.convert(source, tmp_path / "c.zarr", "zarr2")
    hs.convert(tmp_path / "c.zarr", tmp_path / "d.zarr", "zarr3")
    assert not decoded
    assert chunks(tmp_path / "b.zarr") == chunks(source) == chunks(tmp_path / "d.zarr")
    for name in "bcd":
        assert np.array_equal(hs.open_array(tmp_path / f"{name}.zarr", path="v")[...], CELLS)
    hs.convert(source, tmp_path / "e.zarr", "zarr3", verify=True)
    chunk = next(file for file in sorted((source / "v").rglob("*")) if file.name == "0" and file.is_file())
    data = bytearray(chunk.read_bytes())
    data[40] ^= 1
    chunk.write_bytes(data)
    for format in ("zarr2", "zarr3"):
        with pytest.raises(CorruptChunk):
            hs.convert(source, tmp_path / f"f.{format}", format)


ONE = {"blaze": ".blaze", "superchunks": ".blaze", "zarr2": ".zarr", "bloscpack": ".blp"}


@pytest.mark.covering
@pytest.mark.parametrize("rows", [250, 300])
@pytest.mark.parametrize("target", list(ONE))
@pytest.mark.parametrize("source", list(ONE))
def test_between_formats(tmp_path: Path, decoded: list[int], source: str, target: str, rows: int) -> None:
    old, new = tmp_path / f"a{ONE[source]}", tmp_path / f"b{ONE[target]}"
    shards = {"shards": (2 * rows, 40)} if source == "superchunks" else {}
    made(old, "zarr2" if source == "zarr2" else None, rows=rows, **shards)
    how: dict[str, Any] = {"shards": {"y": 2 * rows}} if target == "superchunks" else {}
    how |= {"format": "zarr2"} if target == "zarr2" else {}
    del decoded[:]
    hs.convert(old, new, **how)
    edges = rows == 300 and (source == "zarr2") != (target == "zarr2")
    assert len(decoded) <= (8 if edges else 4 * (target == "superchunks"))
    assert bool(decoded) or not edges
    with hs.open_group(new) as root:
        assert np.array_equal(root["v"][...], CELLS)
        assert root["v"].chunks == (rows, 40)
    report = hs.convert(old, new, verify=True, overwrite=True, **how)
    assert report.verified is not None


@pytest.mark.parametrize(
    "how",
    [
        {"chunks": {"y": 500}},
        {"codec": "blosc:lz4:5"},
        {"select": {"y": slice(0, 999)}},
        {"codec": "blosc:zstd:1"},
    ],
)
def test_what_is_cut_encoded_or_chosen_anew_is_decoded(tmp_path: Path, decoded: list[int], how: dict[str, Any]) -> None:
    source = made(tmp_path / "a.zarr", "zarr2")
    del decoded[:]
    hs.convert(source, tmp_path / "b.zarr", "zarr2", **how)
    assert decoded
    found = hs.open_array(tmp_path / "b.zarr", path="v")[...]
    assert np.array_equal(found, CELLS[: len(found)])


@pytest.mark.parametrize("there", [">f8", "order"])
def test_cells_in_another_order_are_decoded_and_bytes_in_another_are_moved(
    tmp_path: Path, decoded: list[int], there: str
) -> None:
    import json

    source = made(tmp_path / "a.zarr", "zarr2")
    said = json.loads((source / "v" / ".zarray").read_text())
    said |= {"order": "F"} if there == "order" else {"dtype": ">f8"}
    (source / "v" / ".zarray").write_text(json.dumps(said))
    wanted = hs.open_array(source, path="v")[...]
    del decoded[:]
    hs.convert(source, tmp_path / "b.zarr", "zarr3")
    assert bool(decoded) == (there == "order")  # Zarr v3 says the order of bytes too
    assert np.array_equal(hs.open_array(tmp_path / "b.zarr", path="v")[...], wanted)


def test_chunks_that_were_never_written_stay_so(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr2") as root:
        array = root.create_array("v", shape=(1000, 40), dtype="f8", chunks=(250, 40), fill_value=7.0)
        array[:250] = CELLS[:250]
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", "zarr2", verify=True)
    assert len(chunks(tmp_path / "b.zarr")) == 1
    assert (hs.open_array(tmp_path / "b.zarr", path="v")[250:] == 7).all()


def test_a_damaged_chunk_is_named_and_not_moved(tmp_path: Path) -> None:
    source = made(tmp_path / "a.zarr", "zarr2")
    (source / "v" / "1.0").write_bytes((source / "v" / "1.0").read_bytes()[:-1])
    with pytest.raises(hs.errors.CorruptChunk, match=r"v/1\.0"):
        hs.convert(source, tmp_path / "b.zarr", "zarr2")
    assert not (tmp_path / "b.zarr").exists()


def test_it_is_the_long_way_byte_for_byte_when_that_encodes_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = made(tmp_path / "a.zarr", "zarr2", rows=300)
    hs.convert(source, tmp_path / "short.zarr", "zarr2")
    monkeypatch.setattr(copy.ArrayCopy, "can_copy_buffers", False)
    hs.convert(source, tmp_path / "long.zarr", "zarr2")
    assert chunks(tmp_path / "short.zarr") == chunks(tmp_path / "long.zarr")
