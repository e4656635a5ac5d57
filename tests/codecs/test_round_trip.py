"""What is encoded decodes to the same cells, for every codec, dtype and shape."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from chains import BIG, LITTLE, TAILS, cases, chain, same
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import at_most
from hyperslab.codecs.chain import Chain

pytestmark = pytest.mark.usefixtures("decoder")

DTYPES = [
    *("?", "i1", "u1", "<i2", ">u2", "<i4", ">i8", "<u8", "<f2", ">f4", "<f8", ">c8", "<c16"),
    *("<M8[ns]", ">m8[s]", "S3", "<U2", ">U1", "V5"),
    np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S3"), ("d", "<u2", (2, 2))]),
    np.dtype([("n", [("x", ">i2"), ("y", "u1")]), ("z", "<c8")]),
    *(ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn),
]
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


def blocks(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Any bytes (bits that the type does not use are cleared)."""
    count = prod(shape) * dtype.itemsize
    data = np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)
    data[: count // 2] //= 64
    data &= {"bool": 1, "int4": 15, "float4_e2m1fn": 15}.get(dtype.name, 255)
    if dtype.kind == "U":
        data = np.where(data.view("<u4") % 2, 65, 0x1F600).astype(dtype.byteorder + "u4")
    return data.view(dtype).reshape(shape) if count else np.empty(shape, dtype)


def check(made: Chain, block: np.ndarray[Any, Any]) -> None:
    data = bytes(made.encode(block))
    assert made.size in (None, len(data))
    if made.direct:
        assert data == block.tobytes()
    for stored in (data, bytearray(data), memoryview(b"xyz" + data)[3:]):
        assert same(made.decode(stored), block)
        out = np.empty(block.shape, block.dtype)
        made.decode_into(stored, out)
        assert same(out, block)


@pytest.mark.parametrize("tail", TAILS)
@settings(max_examples=at_most(10))
@given(dtype=st.sampled_from(DTYPES), shape=SHAPES, seed=st.integers(0, 99), order=st.sampled_from([LITTLE, BIG, None]))
def test_every_tail_with_any_dtype(tail: str, dtype: Any, shape: Any, seed: int, order: Any) -> None:
    made = chain(dtype, shape, *([order] if order else []), *TAILS[tail][0])
    check(made, blocks(np.dtype(dtype), shape, seed))


@pytest.mark.parametrize("name", cases())
def test_every_codec(name: str) -> None:
    case = cases()[name]
    check(case.chain, case.block)


@given(shape=SHAPES, seed=st.integers(0, 99), data=st.data())
def test_transpose(shape: Any, seed: int, data: Any) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    block = blocks(np.dtype("<i2"), shape, seed)
    made = chain("<i2", shape, ("transpose", {"order": order}), BIG)
    assert bytes(made.encode(block)) == block.transpose(order).astype(">i2").tobytes()
    check(made, block)


@pytest.mark.parametrize("shape", [(0,), (), (3, 0, 2)])
@pytest.mark.parametrize("codec", ["delta", "fixedscaleoffset", "quantize", "bitround", "astype", "pcodec", "packbits"])
def test_empty_and_single(codec: str, shape: tuple[int, ...]) -> None:
    config: dict[str, Any] = {
        "fixedscaleoffset": {"offset": 0, "scale": 1},
        "quantize": {"digits": 2},
        "bitround": {"keepbits": 23},
        "astype": {"encode_dtype": "f8"},
    }.get(codec, {})
    check(chain("<f4", shape, (codec, config)), np.full(shape, 2, "<f4"))


def test_block_of_another_byte_order_is_cast() -> None:
    made = chain("<i4", (3,), LITTLE)
    assert bytes(made.encode(np.array([1, 2, 3], ">i4"))) == np.array([1, 2, 3], "<i4").tobytes()


def test_encode_does_not_change_the_block() -> None:
    for case in cases().values():
        before = case.block.copy()
        case.chain.encode(case.block)
        assert same(case.block, before)


def test_a_block_need_not_be_contiguous() -> None:
    wide = np.arange(48, dtype="<i4").reshape(4, 12)
    for name, (tail, _) in TAILS.items():
        made = chain("<i4", (4, 6), LITTLE, *tail)
        assert same(made.decode(made.encode(wide[:, ::2])), wide[:, ::2].copy()), name
