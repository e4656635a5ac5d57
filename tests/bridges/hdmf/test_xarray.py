"""NWB files as xarray sees them: series, and tables, whose columns share names of axes and have several lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr
from nwb_files import small_file

import hyperslab as hs
from hyperslab.hdmf import HyperslabIO


def test_columns_of_several_lengths(tmp_path: Path, profile: str) -> None:
    place = tmp_path / "small.nwb.zarr"
    with HyperslabIO(place, "w", profile=profile) as io:
        io.write(small_file())
    with xr.open_datatree(place, engine="hyperslab") as tree:
        trials = tree["intervals/trials"].to_dataset()
        assert trials["start_time"].values.tolist() == [0.0, 0.1, 0.2]
        assert trials["tags"].values.tolist() == ["a", "a", "b", "a", "b"]
        assert trials["tags"].dims != trials["start_time"].dims == trials["stop_time"].dims
        assert tree["acquisition/ts0/data"].dims == tree["acquisition/ts0/timestamps"].dims == ("num_times",)
    with hs.open_group(place) as root:
        assert np.array_equal(root["units"].to_xarray()["spike_times"], [0.1, 0.2, 0.5])


def test_a_coordinate_keeps_its_name(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.hdmf.zarr") as root:
        root.create_array("first", data=np.arange(5), dims=["x"])
        root.create_array("x", data=np.arange(3.0), dims=["x"])
        root.create_array("y", data=np.arange(3), dims=["x"])
        found = root.to_xarray().load()
    assert found["y"].dims == ("x",)
    assert found["first"].dims == ("phony_dim_0",)
    assert found["y"].sel(x=2.0) == 2
