"""Selections of no cell cost nothing and give nothing, in every format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import hyperslab as hs
from format_variants import VARIANTS, Places

if TYPE_CHECKING:
    from servers.mongo import Mongo

KEYS: dict[str, Any] = {
    "slice": slice(3, 3),
    "second axis": (slice(0, 2), slice(2, 2)),
    "list": [],
    "mask": np.zeros(6, bool),
}


@pytest.mark.covering
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_selected(mongo: Mongo, tmp_path: Path, variant: str, key: Any) -> None:
    url = Places(tmp_path, f"{mongo.url}/{mongo.database()}").new(variant)
    cells = np.arange(12.0).reshape(6, 2)
    with hs.create(url, **VARIANTS[variant].options) as root:
        root.create_array("x", data=cells, dims=("a", "b"), chunks=(2, 2))
    (array,) = (array for _, array in hs.open_group(url).arrays())
    planned = array.plan(key)
    assert (planned.chunks, planned.nbytes) == (0, 0)
    assert array[key].shape == cells[key].shape
    assert array.to_sparse(KEYS["slice"]).shape == (0, 2)
