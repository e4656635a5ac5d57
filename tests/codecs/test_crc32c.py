"""CRC-32C is the same whoever sums: the engine in C, NumPy where there is none, and google-crc32c, the oracle."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hyperslab.chunks.engine import load_engine
from hyperslab.codecs.crc32c import crc32c, sum_by_numpy

google_crc32c = pytest.importorskip("google_crc32c")

SIZES = [
    0,
    1,
    7,
    8,
    63,
    64,
    65,
    2047,
    2048,
    2049,
    2112,
    3072,
    4096,
    16383,
    16384,
    70_001,
    (1 << 20) + 64,
    (1 << 21) + 77,
]
SUMS = {"chosen": crc32c, "numpy": sum_by_numpy}
if (ENGINE := load_engine()) is not None:
    SUMS["engine"] = ENGINE.crc32c


def test_the_check_value_of_the_standard() -> None:
    """RFC 3720, B.4, and the check value of catalogues."""
    for of in SUMS.values():
        assert of(b"123456789") == 0xE3069283
        assert of(bytes(32)) == 0x8A9136AA
        assert of(b"\xff" * 32) == 0x62A8AB43


@pytest.mark.parametrize("of", SUMS.values(), ids=SUMS)
def test_bytes_of_any_length_and_kind(of: object) -> None:
    rng = np.random.default_rng(5)
    for size in SIZES:
        data = rng.integers(0, 256, size, np.uint8)
        expected = google_crc32c.value(data.tobytes())
        kinds = (data, data.tobytes(), np.append(data, data)[size:])
        assert {of(each) for each in kinds} == {expected}, size


@given(st.binary(max_size=5000))
@example(bytes(4096))
def test_any_bytes(data: bytes) -> None:
    assert {of(data) for of in SUMS.values()} == {google_crc32c.value(data)}


@pytest.mark.skipif(ENGINE is None, reason="the engine in C is not built here, or turned off")
def test_the_engine_refuses_what_is_no_bytes() -> None:
    for wrong in ("text", 3, None):
        with pytest.raises(TypeError):
            ENGINE.crc32c(wrong)
    with pytest.raises((BufferError, ValueError)):
        ENGINE.crc32c(np.zeros(8, np.uint8)[::2])


def test_numpy_sums_where_there_is_neither() -> None:
    """In a process without the engine and google-crc32c; what one of the others wrote is read there."""
    program = """
import sys
sys.modules["google_crc32c"] = None
import numpy as np
from hyperslab.codecs import crc32c, sharding
from hyperslab.codecs.checksums import CRC32C
assert crc32c.IMPLEMENTATION == "NumPy", crc32c.IMPLEMENTATION
print(bytes(CRC32C.encode(b"123456789")).hex())
"""
    environment = {"HYPERSLAB_NATIVE": "0", "PYTHONPATH": ":".join(sys.path)}
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == (b"123456789" + (0xE3069283).to_bytes(4, "little")).hex()
