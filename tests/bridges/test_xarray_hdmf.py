"""xarray objects into HDMF datasets of both profiles and back: the same in every value, type, attribute and zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import Invalid

TIMES = pd.date_range("2020-01-01", periods=8)


@pytest.fixture(params=["v2", "v3"])
def profile(request: pytest.FixtureRequest) -> str:
    """Each profile."""
    return str(request.param)


@pytest.fixture
def dataset() -> xr.Dataset:
    """Cells of every kind, many of them zero or empty."""
    text = np.array(["", "é", "日本"], object)
    return xr.Dataset(
        {
            "a": (("t", "x"), np.arange(12.0).reshape(4, 3) % 2),
            "i": (("t",), np.array([0, 1, 2, 0], "i4"), {"units": "V"}),
            "f": (("t",), np.array([np.nan, 0, -0.0, np.inf], "f4")),
            "flag": (("t",), [True, False, False, True]),
            "text": (("x",), text, {"kind": "words"}),
            "u": ((), np.uint8(0)),
            "scalar": ((), 0.0),
            "word": ((), "x"),
            "when": ((), np.datetime64("2020-01-01T12", "ns")),
        },
        coords={"t": TIMES[:4], "x": [0.0, 1.0, 2.0], "label": ("x", [0, 1, 0])},
        attrs={"title": "T", "count": 3, "list": [1.0, 2.0]},
    )


def _opened(place: Path, **options: Any) -> xr.Dataset:
    with xr.open_dataset(place, engine="hyperslab", **options) as found:
        return found.load()


@pytest.mark.parametrize("chunks", [None, {}])
def test_the_same_comes_back(dataset: xr.Dataset, profile: str, chunks: Any, tmp_path: Path) -> None:
    place = tmp_path / "a.nwb.zarr"
    hs.save(place, dataset, profile=profile)
    found = _opened(place, chunks=chunks)
    xr.testing.assert_identical(found, dataset)
    same = {name for name, each in dataset.variables.items() if found[name].dtype == each.dtype}
    assert set(dataset.variables) - same <= {"word", "t"}  # text of any length, times of pandas' own unit
    assert np.signbit(found["f"].values[2]) and not hs.check(place, deep=True)
    with hs.open_group(place) as root:
        assert root._session.format.name == "hdmf" and root["a"].dims == ("t", "x")
        assert root["u"].shape == () and root["u"][()] == 0


def test_a_tree_and_an_array(dataset: xr.Dataset, profile: str, tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({"/": dataset, "/g/h": dataset[["i"]] + 1})
    hs.save(tmp_path / "t.nwb.zarr", tree, profile=profile)
    with xr.open_datatree(tmp_path / "t.nwb.zarr", engine="hyperslab") as found:
        xr.testing.assert_identical(found.load(), tree)
    hs.save(tmp_path / "d.nwb.zarr", dataset["a"], profile=profile)
    with hs.open_group(tmp_path / "d.nwb.zarr") as root:
        xr.testing.assert_identical(root["a"].to_xarray().load(), dataset["a"])


def test_zeros_are_masked_only_where_it_is_said(dataset: xr.Dataset, profile: str, tmp_path: Path) -> None:
    hs.save(tmp_path / "a.nwb.zarr", dataset[["i"]], profile=profile, encoding={"i": {"_FillValue": 0}})
    np.testing.assert_array_equal(_opened(tmp_path / "a.nwb.zarr")["i"], [np.nan, 1, 2, np.nan])


def test_appending_and_regions(dataset: xr.Dataset, profile: str, tmp_path: Path) -> None:
    place = tmp_path / "a.nwb.zarr"
    hs.save(place, dataset, profile=profile)
    growing = dataset[["a", "i", "f", "flag"]].drop_vars("label")
    later = growing.assign_coords(t=TIMES[4:])
    hs.save(place, later, append_dim="t")
    fixed = dataset.drop_vars(["a", "i", "f", "flag", "t"])
    both = fixed.merge(xr.concat([growing, later], "t", data_vars="minimal"))
    xr.testing.assert_identical(_opened(place), both)
    part = growing[["a", "i"]].isel(t=slice(1, 3)) + 5
    for region, first in (({"t": slice(5, 7)}, 5), ("auto", 1)):
        cells = part.drop_vars(["t", "x"]) if region != "auto" else part
        hs.save(place, cells, region=region)
        both["a"][first : first + 2] = part["a"].values
        both["i"][first : first + 2] = part["i"].values
    xr.testing.assert_identical(_opened(place), both)
    assert not hs.check(place, deep=True)


def test_an_array_with_two_names_is_appended_to_once(dataset: xr.Dataset, profile: str, tmp_path: Path) -> None:
    place = tmp_path / "a.nwb.zarr"
    hs.save(place, dataset[["i"]], profile=profile)
    with hs.open_group(place, "r+") as root:
        root.create_link("also", root["i"])
    found = _opened(place)
    with pytest.raises(Invalid, match=r"are one array.*drop_vars\('also'\)"):
        hs.save(place, found.assign_coords(t=TIMES[4:]), append_dim="t")
    assert _opened(place).sizes["t"] == 4
    hs.save(place, found.drop_vars("i").assign_coords(t=TIMES[4:]), append_dim="t")
    assert _opened(place)["i"].values.tolist() == [0, 1, 2, 0] * 2
    with hs.open_group(place, "r+") as root:
        root.create_link("other", root.create_group("g").create_array("j", data=np.zeros(8), dims=("t",)))
    with pytest.raises(Invalid, match="not appended to"):
        hs.save(place, dataset[["i"]].drop_vars(["x", "label"], errors="ignore"), append_dim="t")


def test_what_is_added_leaves_links_and_references_as_they_are(
    dataset: xr.Dataset, profile: str, tmp_path: Path
) -> None:
    place = tmp_path / "a.nwb.zarr"
    hs.save(place, dataset, profile=profile)
    with hs.open_group(place, "r+") as root:
        root.create_link("also", root["i"])
        root["i"].attrs["of"] = root["a"].ref
        root.attrs["object_id"] = "id"
    hs.save(place, xr.Dataset({"new": ("x", [0, 1, 0])}), mode="a")
    later = dataset[["a", "i", "f", "flag"]].drop_vars("label").assign_coords(t=TIMES[4:])
    hs.save(place, later, append_dim="t")
    with hs.open_group(place) as root:
        assert dict(root.links())["also"].target == "/i" and root["i"].attrs["of"].resolve().path == "a"
        assert root["also"].shape == (8,) and root.attrs["object_id"] == "id"
    found = _opened(place)
    assert found["also"].values.tolist() == found["i"].values.tolist() and found["new"].values.tolist() == [0, 1, 0]
    assert not hs.check(place, deep=True)
