"""Text of profile v3 has any length, also by shape alone; rows have room for what they were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Invalid
from hyperslab.model.dtypes import VlenString, tagged

LONG = "é" * 2000
ROWS = np.dtype([("n", "<i4"), ("text", tagged(np.dtype(object), VlenString()))])


def test_text_made_by_shape_alone_has_any_length(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "hdmf", profile="v3") as root:
        array = root.create_array("text", shape=(2,), dtype=str)
        array[0] = LONG
        array.append([LONG + "!"])
    with hs.open(tmp_path / "a.zarr") as root:
        assert root["text"][...].tolist() == [LONG, "", LONG + "!"]


def test_the_remedy_for_longer_text_in_rows_is_true(tmp_path: Path) -> None:
    data = np.array([(1, LONG)], [("n", "<i4"), ("text", object)]).astype(ROWS)
    with hs.create(tmp_path / "a.zarr", "hdmf", profile="v3") as root:
        array = root.create_array("rows", shape=(1,), dtype=ROWS)
        with pytest.raises(Invalid, match="make the array anew with data="):
            array[...] = data
        root.create_array("anew", data=data, dtype=ROWS)
    with hs.open(tmp_path / "a.zarr") as root:
        assert root["anew"][...].tolist() == [(1, LONG)]
