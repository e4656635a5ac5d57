"""Chunks that zarr-python, tensorstore and zarrs wrote decode to the cells that they hold."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.registry import as_codecs, build_chain
from hyperslab.errors import Unsupported
from hyperslab.model.dtypes import DataType, VlenBytes, VlenString

pytestmark = pytest.mark.usefixtures("decoder")

OLD_PCODEC = version("pcodec").startswith("0.")
CHUNKS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "golden" / "chunks.json").read_text())


@pytest.fixture(autouse=True)
def readable(name: str) -> None:
    """pcodec before 1.0 does not read what later ones write."""
    if OLD_PCODEC and "pcodec" in name:
        pytest.skip("pcodec 1 wrote these chunks")


def data_type(name: Any) -> DataType:
    if name == "string":
        return VlenString()
    if name == "bytes":
        return VlenBytes()
    if isinstance(name, list):
        return np.dtype([(field, kind) for field, kind in name])
    return np.dtype(getattr(ml_dtypes, name, name))


def fill(value: Any, dtype: DataType) -> Any:
    if isinstance(dtype, VlenString | VlenBytes):
        return "" if isinstance(dtype, VlenString) else b""
    return np.zeros((), dtype)[()] if not isinstance(value, int | float) else np.array(value).astype(dtype)[()]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CHUNKS)
def test_decodes(name: str) -> None:
    entry = CHUNKS[name]
    dtype = data_type(entry["dtype"])
    cells = ChunkLayout(dtype, tuple(entry["shape"]), fill(entry["fill_value"], dtype))
    chain = build_chain(as_codecs(entry["codecs"]), cells)
    data = bytes.fromhex(entry["chunk"])
    found = chain.decode(data)
    out = np.empty(cells.shape, cells.numpy_dtype)
    chain.decode_into(data, out)
    if "objects" in entry:
        expected = [bytes.fromhex(x) for x in entry["objects"]] if dtype == VlenBytes() else entry["objects"]
        assert found.reshape(-1).tolist() == out.reshape(-1).tolist() == expected
        return
    assert found.tobytes() == out.tobytes()
    if "tolerance" in entry:
        cells_there = np.frombuffer(bytes.fromhex(entry["cells"]), cells.numpy_dtype).reshape(cells.shape)
        np.testing.assert_allclose(found, cells_there, atol=entry["tolerance"])
    else:
        assert found.tobytes().hex() == entry["cells"]


@pytest.mark.parametrize("name", [name for name, entry in CHUNKS.items() if entry["codecs"] != ["pcodec"]])
def test_what_is_decoded_encodes_to_the_same_cells(name: str) -> None:
    entry = CHUNKS[name]
    dtype = data_type(entry["dtype"])
    chain = build_chain(
        as_codecs(entry["codecs"]), ChunkLayout(dtype, tuple(entry["shape"]), fill(entry["fill_value"], dtype))
    )
    once = chain.decode(bytes.fromhex(entry["chunk"]))
    try:
        stored = chain.encode(once)
    except Unsupported:
        assert "snappy" in name
        return
    again = chain.decode(stored)
    if once.dtype.kind in "OT":
        assert again.tolist() == once.tolist()
    elif "zfpy" not in name:
        assert again.tobytes() == once.tobytes()
    fixed = chain.size is not None and not any("packbits" in str(codec) for codec in entry["codecs"])
    if fixed and "lossy" not in entry and "tolerance" not in entry:
        assert bytes(stored).hex() == entry["chunk"]
