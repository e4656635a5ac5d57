"""What xarray's user guide does with ``to_zarr``, done by the accessor: engine ``zarr`` reads the same afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from old_peers import needs

Write = Callable[..., Any]


def by_xarray(dataset: xr.Dataset, url: Path, **options: Any) -> Any:
    return dataset.to_zarr(url, zarr_format=2, **options)


def by_us(dataset: xr.Dataset, url: Path, **options: Any) -> Any:
    return dataset.hyperslab.save(url, format="zarr2", **options)


def a_new_one(write: Write, url: Path) -> None:
    write(series(0, 5), url)


def appended(write: Write, url: Path) -> None:
    write(series(0, 3), url)
    write(series(3, 7), url, append_dim="t")
    write(series(7, 8), url, append_dim="t")


def replaced(write: Write, url: Path) -> None:
    write(series(0, 3), url)
    write(series(4, 6), url, mode="w")


def added_to(write: Write, url: Path) -> None:
    write(series(0, 3), url)
    write(xr.Dataset({"extra": ("x", np.arange(4.0))}, attrs={"by": "us"}), url, mode="a")


def overwritten_variable(write: Write, url: Path) -> None:
    write(series(0, 3), url)
    write(series(0, 3)[["foo"]] + 10, url, mode="a")


def groups(write: Write, url: Path) -> None:
    write(series(0, 3), url)
    write(series(0, 3) * 3, url, group="low/er", mode="a")


def prepared_then_filled(write: Write, url: Path) -> None:
    whole = series(0, 10).chunk({"t": 3})
    write(whole, url, compute=False)
    for start in range(0, 10, 3):
        part = series(start, min(start + 3, 10)).drop_vars("x")
        write(part, url, region={"t": slice(start, min(start + 3, 10))})


def found_by_coordinates(write: Write, url: Path) -> None:
    write(series(0, 10), url)
    write((series(4, 8) * 2).drop_vars("x"), url, region="auto" if write is by_us else {"t": "auto"}, mode="r+")


def computed_later(write: Write, url: Path) -> None:
    later = write(series(0, 6).chunk({"t": 2}), url, compute=False)
    later.compute(scheduler="threads")


def chunked_as_encoded(write: Write, url: Path) -> None:
    write(series(0, 6), url, encoding={"foo": {"chunks": (2, 3)}})


def series(start: int, stop: int) -> xr.Dataset:
    """Days ``start`` to ``stop`` of something at four places."""
    days = np.datetime64("2001-01-01", "ns") + np.arange(start, stop) * np.timedelta64(1, "D")
    cells = np.arange(start, stop)[:, None] + np.arange(4) / 10
    dataset = xr.Dataset({"foo": (("t", "x"), cells, {"units": "m"})}, {"t": days, "x": [10, 20, 30, 40]}, {"by": "us"})
    dataset["t"].encoding = {"units": "hours since 2000-01-01", "dtype": "i8"}
    return dataset


@pytest.mark.parametrize(
    "scenario",
    [
        a_new_one,
        appended,
        replaced,
        added_to,
        overwritten_variable,
        groups,
        prepared_then_filled,
        found_by_coordinates,
        computed_later,
        chunked_as_encoded,
    ],
)
@needs("xarray", (2025, 3), "does not open a tree by zarr-python 3.1")
def test_same_outcome(tmp_path: Path, scenario: Callable[[Write, Path], None]) -> None:
    scenario(by_xarray, tmp_path / "theirs.zarr")
    scenario(by_us, tmp_path / "ours.zarr")
    theirs = xr.open_datatree(tmp_path / "theirs.zarr", engine="zarr")
    ours = xr.open_datatree(tmp_path / "ours.zarr", engine="zarr")
    for node in theirs.subtree:
        _forget_marks(ours[node.path])
    xr.testing.assert_identical(ours.load(), theirs.load())
    if scenario is chunked_as_encoded:
        assert hs.open(tmp_path / "ours.zarr")["foo"].chunks == (2, 3)


def _forget_marks(node: Any) -> None:
    """What plain Zarr cannot say is in one attribute of ours."""
    for holder in (node, *node.variables.values()):
        holder.attrs.pop("_hyperslab", None)
