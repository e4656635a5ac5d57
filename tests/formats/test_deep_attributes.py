"""Attributes that are nested deeply, or in themselves, in every format: stored so that they are read, or refused."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from format_variants import VARIANTS, Places
from hyperslab.errors import Invalid, Unsupported

if TYPE_CHECKING:
    from servers.mongo import Mongo


def nested(levels: int) -> list[Any]:
    return reduce(lambda inner, _: [inner], range(levels), [1])


def within_itself() -> list[Any]:
    one: list[Any] = []
    one += [one, one]
    return one


@pytest.fixture
def url(request: pytest.FixtureRequest, mongo: Mongo, tmp_path: Path) -> str:
    return Places(tmp_path, f"{mongo.url}/{mongo.database()}").new(request.getfixturevalue("variant"))


@pytest.mark.covering
@pytest.mark.parametrize("value", [nested(100), nested(20_000), within_itself()], ids=["100", "20000", "itself"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_nested_too_deeply_is_refused(url: str, variant: str, value: Any) -> None:
    with hs.create(url, **VARIANTS[variant].options) as root:
        array = root.create_array("x", data=np.arange(4.0), dims=("a",), chunks=(2,))
        with pytest.raises(Invalid, match="'deep' is nested in more than 64 levels"):
            array.attrs["deep"] = value
        if not VARIANTS[variant].one:
            with pytest.raises(Invalid, match="nested"):
                root.create_group("g", attrs={"deep": value})
    (read,) = (array for _, array in hs.open_group(url).arrays())
    assert "deep" not in read.attrs
    with pytest.raises(Invalid, match="nested"):
        hs.save(url, xr.Dataset({"x": ("a", np.arange(4.0), {"deep": value})}), mode="w", **VARIANTS[variant].options)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_stored_is_read(url: str, variant: str) -> None:
    with hs.create(url, **VARIANTS[variant].options) as root:
        array = root.create_array("x", data=np.arange(4.0), dims=("a",), chunks=(2,))
        try:
            array.attrs["deep"] = nested(60)
        except Unsupported:
            return
    (read,) = (array for _, array in hs.open_group(url).arrays())
    assert read.attrs["deep"] in (nested(60), str(nested(60)))  # NCZarr holds lists of lists as text
