"""Numbers that mean nothing are refused wherever a dataset is opened, made, checked or converted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs

WAYS: dict[str, Callable[..., Any]] = {
    "open": hs.open,
    "open_array": lambda place, **options: hs.open_array(place, path="a", **options),
    "create": lambda place, **options: hs.create(f"{place}.new", "zarr3", **options),
    "xarray": lambda place, **options: xr.open_dataset(place, engine="hyperslab", **options),
}
WAYS_WITH_WORKERS: dict[str, Callable[..., Any]] = {
    "check": hs.check,
    "repair": hs.repair,
    "diff": lambda place, **options: hs.diff(place, place, **options),
}
REFUSED: list[tuple[str, Any, str]] = [
    ("workers", 0, "at least 1"),
    ("workers", -2, "at least 1"),
    ("workers", 1.5, "a whole number"),
    ("workers", "2", "a whole number"),
    ("cache_bytes", -1, "0 for no cache"),
    ("cache_bytes", float("nan"), "0 for no cache"),
    ("memory_limit", -1, "None for the memory"),
]


@pytest.mark.parametrize(("name", "value", "remedy"), REFUSED)
def test_numbers_that_mean_nothing(tmp_path: Path, name: str, value: Any, remedy: str) -> None:
    place = tmp_path / "a.zarr"
    with hs.create(place, "zarr3") as root:
        root.create_array("a", data=np.arange(3))
    for way in (WAYS | WAYS_WITH_WORKERS if name == "workers" else WAYS).values():
        with pytest.raises(hs.errors.Invalid, match=name) as caught:
            way(place, **{name: value})
        assert remedy in (caught.value.remedy or "")
    assert not Path(f"{place}.new").exists()


@pytest.mark.parametrize("value", [-1, "1"])
def test_a_time_to_wait_that_is_none(tmp_path: Path, value: Any) -> None:
    with pytest.raises(hs.errors.Invalid, match="lock_timeout"):
        hs.create(tmp_path / "a.zarr", "zarr3", lock_timeout=value)


@pytest.mark.parametrize(
    "options", [{"workers": 1}, {"workers": np.int64(2)}, {"cache_bytes": 0}, {"cache_bytes": 1e6}]
)
def test_numbers_that_do(tmp_path: Path, options: dict[str, Any]) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr3", **options) as root:
        root.create_array("a", data=np.arange(3))
        assert root["a"][1] == 1
