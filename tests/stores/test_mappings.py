"""A mapping of keys to bytes is a place for a dataset: a dict, and the map that the draft of NCZarr describes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.stores import KeyValueMap

CELLS = np.arange(6).reshape(2, 3)


@pytest.mark.covering
@pytest.mark.parametrize("make", [dict, KeyValueMap.newmap])
@pytest.mark.parametrize(
    ("format", "options"),
    [("nczarr", {"dialect": "draft"}), ("nczarr", {}), ("zarr2", {}), ("zarr3", {}), ("hdmf", {})],
)
def test_a_dataset_in_a_mapping(make: Any, format: str, options: dict[str, Any]) -> None:
    place = make()
    with hs.create(place, format, **options) as root:
        root.create_array("g/a", data=CELLS, dims=("y", "x"), chunks=(1, 3))
        root.create_array("b", data=[1])
    with hs.open(place, "r+") as root:
        root["g/a"][0, 0] = 9
        del root["b"]
        assert sorted(root) == ["g"]
    assert hs.open(place)["g/a"][...].tolist() == [[9, 1, 2], [3, 4, 5]]
    assert list(hs.check(place, deep=True)) == []
    assert all(isinstance(key, str) and isinstance(value, bytes) for key, value in place.items())
    assert not any(key.startswith("b/") for key in place)


def test_what_is_no_text_or_no_bytes_is_told() -> None:
    with pytest.raises(hs.errors.HyperslabError):
        hs.open({})
    with pytest.raises(hs.errors.HyperslabError):
        hs.open({".zgroup": 5})
