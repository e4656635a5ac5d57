"""Shards that a user asks for as the codec that they are, as Zarr v3's JSON or as our own values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hyperslab as hs
from hyperslab.errors import HyperslabError

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def sharding(**config: Any) -> dict[str, Any]:
    return {"name": "sharding_indexed", "configuration": {"chunk_shape": [2], **config}}


def test_chains_as_json(tmp_path: Path) -> None:
    codecs = [BYTES, {"name": "gzip", "configuration": {"level": 1}}]
    with hs.create(tmp_path / "x.zarr") as root:
        nested = sharding(codecs=codecs, index_codecs=[BYTES, "crc32c"])
        root.create_array("a", shape=(4,), chunks=(4,), dtype="i4", codec=nested)[:] = [1, 2, 3, 4]
    assert hs.open(tmp_path / "x.zarr")["a"][...].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "codec",
    [
        sharding(),
        sharding(codecs=["bytes"]),
        sharding(codecs=5),
        sharding(codecs=[5]),
        sharding(codecs=[BYTES, {"name": "gzip", "configuration": {"level": 99}}]),
        sharding(codecs=[BYTES, "unheard_of"]),
        sharding(codecs=[BYTES], index_codecs=["unheard_of"]),
        sharding(codecs=[BYTES], chunk_shape=[3]),
        sharding(codecs=[BYTES], chunk_shape=["x"]),
        sharding(codecs=[BYTES], chunk_shape=None),
        sharding(codecs=[sharding(codecs=[BYTES, {"name": "gzip", "configuration": {"level": 99}}])]),
    ],
)
def test_what_cannot_be_names_its_array(tmp_path: Path, codec: dict[str, Any]) -> None:
    with hs.create(tmp_path / "x.zarr") as root, pytest.raises(HyperslabError) as caught:
        root.create_array("g/a", shape=(4,), chunks=(4,), dtype="i4", codec=codec)
    assert caught.value.node == "g/a"
    assert caught.value.url == str(tmp_path / "x.zarr")
