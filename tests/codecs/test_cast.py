"""``cast_value`` and ``scale_offset``, against their definitions."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pytest
from chains import chain
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.codecs.chain import Chain
from hyperslab.errors import CorruptChunk, Invalid, Unsupported

RULES = {
    "nearest-even": ROUND_HALF_EVEN,
    "towards-zero": ROUND_DOWN,
    "towards-positive": ROUND_CEILING,
    "towards-negative": ROUND_FLOOR,
    "nearest-away": ROUND_HALF_UP,
}


def cast(source: str, target: str, count: int = 1, **config: Any) -> Chain:
    return chain(source, (count,), ("cast_value", {"data_type": target} | config), ("bytes", {"endian": "little"}))


def stored(made: Chain, values: Any, source: str, target: str) -> list[Any]:
    found: list[Any] = np.frombuffer(made.encode(np.array(values, source)), target).tolist()
    return found


@given(
    value=st.one_of(st.floats(-300, 300), st.integers(-600, 600).map(lambda n: n / 2)),
    rounding=st.sampled_from(sorted(RULES)),
    target=st.sampled_from(["int8", "uint8", "int16", "int64"]),
    beyond=st.sampled_from(["error", "clamp", "wrap"]),
)
def test_rounding_and_range(value: float, rounding: str, target: str, beyond: str) -> None:
    made = cast("<f8", target, rounding=rounding, out_of_range=beyond)
    info = np.iinfo(target)
    exact = int(Decimal(value).to_integral_value(RULES[rounding]))
    if info.min <= exact <= info.max:
        expected = exact
    elif beyond == "error":
        with pytest.raises(Invalid, match="does not fit"):
            stored(made, [value], "<f8", target)
        return
    elif beyond == "clamp":
        expected = min(max(exact, info.min), info.max)
    else:
        expected = (exact - info.min) % 2**info.bits + info.min
    assert stored(made, [value], "<f8", target) == [expected]


@given(
    value=st.integers(-(2**63), 2**64 - 1),
    target=st.sampled_from(["int8", "uint16", "int64", "uint64"]),
    beyond=st.sampled_from(["clamp", "wrap"]),
)
def test_integers_to_integers(value: int, target: str, beyond: str) -> None:
    source = "<u8" if value >= 2**63 else "<i8"
    info = np.iinfo(target)
    clamped = min(max(value, info.min), info.max)
    expected = clamped if beyond == "clamp" else (value - info.min) % 2**info.bits + info.min
    assert stored(cast(source, target, out_of_range=beyond), [value], source, target) == [expected]


@pytest.mark.parametrize("value", [2.0**63, -(2.0**63) - 2048, 2.0**64, float("inf"), float("-inf"), float("nan")])
def test_floats_at_the_ends_of_int64(value: float) -> None:
    with pytest.raises(Invalid, match="fit"):
        stored(cast("<f8", "int64"), [value], "<f8", "<i8")
    if value == value:
        end = np.iinfo("i8").max if value > 0 else np.iinfo("i8").min
        assert stored(cast("<f8", "int64", out_of_range="clamp"), [value], "<f8", "<i8") == [end]
    assert stored(cast("<f8", "int64"), [-(2.0**63)], "<f8", "<i8") == [-(2**63)]


def test_floats_to_narrower_floats() -> None:
    with pytest.raises(Invalid, match="float16"):
        stored(cast("<f8", "float16"), [1e6], "<f8", "<f2")
    assert stored(cast("<f8", "float16", 3, out_of_range="clamp"), [1e6, -1e6, np.inf], "<f8", "<f2") == [
        65504,
        -65504,
        np.inf,
    ]
    with pytest.raises(Invalid, match="only integers wrap"):
        cast("<f8", "float16", out_of_range="wrap")


def test_scalar_map_goes_before_the_cast() -> None:
    pairs = {"encode": [["NaN", 255], ["Infinity", 254], [3, 7]], "decode": [[255, "NaN"], [254, "Infinity"]]}
    made = cast("<f8", "uint8", 5, scalar_map=pairs)
    data = made.encode(np.array([np.nan, np.inf, 3, 7, 0]))
    assert list(bytes(data)) == [255, 254, 7, 7, 0]
    np.testing.assert_array_equal(made.decode(data), [np.nan, np.inf, 7, 7, 0])


def test_a_stored_value_that_does_not_fit_is_damage() -> None:
    with pytest.raises(CorruptChunk, match="fit"):
        cast("|i1", "int16").decode(b"\x00\x10")


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"data_type": "int8", "rounding": "up"}, Invalid),
        ({"data_type": "int8", "out_of_range": "ignore"}, Invalid),
        ({"data_type": "int8", "other": 1}, Invalid),
        ({"data_type": "int8", "scalar_map": {"encode": [[1]]}}, Invalid),
        ({"data_type": "int8", "scalar_map": {"encode": [["x", 1]]}}, Invalid),
        ({"data_type": "string"}, Unsupported),
        ({}, Unsupported),
    ],
)
def test_configurations(config: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"cast_value|is no value"):
        chain("<f8", (1,), ("cast_value", config))


def test_scale_offset() -> None:
    floats = chain("<f4", (3,), ("scale_offset", {"offset": 5, "scale": 0.5}))
    assert np.frombuffer(floats.encode(np.array([5, 7, 1], "<f4")), "<f4").tolist() == [0, 1, -2]
    whole = chain("<i2", (2,), ("scale_offset", {"offset": -1, "scale": 3}))
    assert whole.decode(whole.encode(np.array([4, -9], "<i2"))).tolist() == [4, -9]
    with pytest.raises(CorruptChunk, match="multiple"):
        whole.decode(np.array([3, 4], "<i2").tobytes())
    with pytest.raises(Invalid, match="overflow"):
        whole.encode(np.array([30000, 0], "<i2"))
    with pytest.raises(Invalid, match="scale=0"):
        chain("<i2", (2,), ("scale_offset", {"scale": 0}))
    with pytest.raises(Invalid, match="no value"):
        chain("<i2", (2,), ("scale_offset", {"scale": 0.5}))
