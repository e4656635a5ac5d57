"""Times as text of ISO 8601: NumPy is the oracle, every unit, NaT, either byte order; nothing is written."""

from __future__ import annotations

import numpy as np
import pytest

from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.plain_cells import iso_texts
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import Invalid, Unsupported
from hyperslab.model.dtypes import VlenString
from hyperslab.model.spec import Codec

UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25s"]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("order", "<>")
def test_dates_read_as_numpy_writes_them(unit, order):
    times = np.array([0, 1, -1, 10**6, np.iinfo("i8").min]).view(f"M8[{unit}]").astype(f"{order}M8[{unit}]")
    chain = build_chain(
        (Codec("iso_time", {"dtype": times.dtype.str}), Codec("bytes")), ChunkLayout(VlenString(), (5,))
    )
    texts = chain.decode(times.tobytes())
    assert texts.dtype == np.dtypes.StringDType()
    assert texts.tolist() == [*np.datetime_as_string(times[:4].astype(f"<M8[{unit}]")).tolist(), ""]
    assert np.array_equal(np.array(texts.tolist()[:4], times.dtype), times[:4])


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("Y", "-P1500Y"),
        ("M", "-P1500M"),
        ("W", "-P1500W"),
        ("D", "-P1500D"),
        ("h", "-PT1500H"),
        ("m", "-PT1500M"),
        ("s", "-PT1500S"),
        ("ms", "-PT1.5S"),
        ("us", "-PT0.0015S"),
        ("ns", "-PT0.0000015S"),
        ("25s", "-PT37500S"),
        ("generic", "-1500"),
    ],
)
def test_durations(unit, text):
    times = np.array([-1500, np.iinfo("i8").min]).view("m8" if unit == "generic" else f"m8[{unit}]")
    assert iso_texts(times).tolist() == [text, ""]
    assert iso_texts(times[:0]).tolist() == []


def test_a_moment_without_a_unit_is_a_number():
    assert iso_texts(np.array([7], "i8").view("M8")).tolist() == ["7"]


def test_it_only_reads():
    chain = build_chain((Codec("iso_time", {"dtype": "<M8[s]"}), Codec("bytes")), ChunkLayout(VlenString(), (1,)))
    with pytest.raises(Unsupported, match="native=True"):
        chain.encode(np.array(["2020"], np.dtypes.StringDType()))


@pytest.mark.parametrize(
    ("cells", "config"), [(np.dtype("i8"), {"dtype": "<M8[s]"}), (VlenString(), {"dtype": "<i8"}), (VlenString(), {})]
)
def test_what_is_no_time_is_refused(cells, config):
    with pytest.raises(Invalid, match="iso_time"):
        build_chain((Codec("iso_time", config), Codec("bytes")), ChunkLayout(cells, (1,)))
