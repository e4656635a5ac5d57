"""One remedy for names that are not there, wherever they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Invalid
from hyperslab.model.guessing import meant, nearest
from hyperslab.stores import MemoryStore


def test_the_nearest_name_else_all() -> None:
    assert meant("tyme", ("time", None, "lat")) == "did you mean 'time'?"
    assert meant("x", ("time", None, "lat")) == "there are time, lat"
    assert meant(1, ()) == "there are none"
    assert meant("x", range(30)).endswith("18, 19 and 10 more")
    assert (nearest("tyme", ("time", None)), nearest("x", ("time",))) == ("did you mean 'time'?", None)


@pytest.mark.parametrize(
    "select",
    [
        lambda array: array.sel(tyme=0),
        lambda array: array.decoded().isel(tyme=0),
        lambda array: hs.create(MemoryStore()).create_array("b", data=array[...], dims=array.dims, chunks={"tyme": 1}),
    ],
)
def test_dimensions(select: Any) -> None:
    array = hs.create(MemoryStore()).create_array("a", data=np.zeros((2, 3)), dims=("time", None))
    with pytest.raises(Invalid, match=r"no dimension 'tyme'.*did you mean 'time'"):
        select(array)
