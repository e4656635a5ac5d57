"""xarray's engine on collections: what it claims, one array with coordinates, and refusals that say what to name."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.bridges.xarray.engine import HyperslabBackendEntrypoint
from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    DimensionSchema,
    Scale,
    TimeDimensionSchema,
)
from hyperslab.errors import ClientError, Invalid, Unsupported

DAY = datetime(2023, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["hyperslab", "deker"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    dims = [
        TimeDimensionSchema("hour", 2, "$dt", timedelta(hours=12)),
        DimensionSchema("lat", 3, scale=Scale(60.0, -2.5)),
        DimensionSchema("layer", 2, labels=["warm", "wet"]),
    ]
    with Client(tmp_path / "db") as client:
        air = client.create_collection(
            "air", ArraySchema(dims, float, [AttributeSchema("dt", datetime, True)]), layout=request.param
        )
        for day in range(2):
            air.create({"dt": DAY + timedelta(days=day)})[:].update(np.full((2, 3, 2), float(day)))
    return tmp_path / "db"


def test_a_folder_of_collections_is_claimed(root: Path, tmp_path: Path) -> None:
    engine = HyperslabBackendEntrypoint()
    assert engine.guess_can_open(str(root))
    assert engine.guess_can_open(root / "collections" / "air")
    (tmp_path / "plain").mkdir()
    with hs.create(tmp_path / "a.zarr") as other:
        other.create_array("v", shape=(2,))
    for name in ("plain", "a.zarr", "nothing"):
        assert not engine.guess_can_open(tmp_path / name)


def test_one_array_is_a_dataset_with_coordinates(root: Path) -> None:
    id = next(iter(hs.open_group(root)["air"]))
    found = xr.open_dataset(root, engine="hyperslab", group=f"air/{id}")
    array = found[id]
    assert array.dims == ("hour", "lat", "layer")
    assert found["lat"].values.tolist() == [60.0, 57.5, 55.0]
    assert found["layer"].values.tolist() == ["warm", "wet"]
    assert found["hour"].dtype.kind == "M"
    assert array.sel(lat=57.4, method="nearest").sel(layer="wet").shape == (2,)


@pytest.mark.parametrize("group", [None, "air"])
def test_what_is_no_dataset_is_refused(root: Path, group: str | None) -> None:
    with Client(root) as client:
        client.create_collection("aaa", ArraySchema([DimensionSchema("x", 2)], float))  # it has no arrays yet
    with pytest.raises(Invalid, match=r"get_collection\(NAME\)\.to_xarray\(stack=ATTRIBUTE\)") as caught:
        xr.open_dataset(root, engine="hyperslab", group=group)
    (named,) = re.findall(r"group='(air/[^']*)'", caught.value.remedy)
    assert xr.open_dataset(root, engine="hyperslab", group=named)[named.partition("/")[2]].shape == (2, 3, 2)
    with Client(root) as client:
        assert client.get_collection("air").to_xarray(stack="dt").sizes["dt"] == 2


def test_one_array_goes_into_a_netcdf_file_once_its_dicts_are_text(root: Path, tmp_path: Path) -> None:
    with Client(root) as client:
        cells = client.get_collection("air").filter({"dt": DAY}).first().array.to_xarray().rename("air")
        target = tmp_path / "one.nc"
        with pytest.raises(Unsupported, match=r"'primary_attributes' is of type dict.*; json\.dumps\(\) makes text"):
            cells.hyperslab.save(target)
        dicts = {name: json.dumps(value) for name, value in cells.attrs.items() if isinstance(value, dict)}
        cells.assign_attrs(dicts).hyperslab.save(target)
        with xr.open_dataset(target, engine="netcdf4") as found:
            np.testing.assert_array_equal(found["hour"], cells["hour"])  # in whatever unit xarray decodes times
            xr.testing.assert_equal(found["air"].load(), cells.assign_coords(hour=found["hour"]).load())
            assert json.loads(found["air"].attrs["primary_attributes"]) == {"dt": DAY.isoformat()}


def test_an_array_of_served_collections_keeps_its_own_times(root: Path) -> None:
    """What is served is Zarr, where its collection is a group and the other arrays lie beside it."""
    with hs.serve(root) as server:
        options = {"client_options": {"default_headers": server.headers}}
        for mode in ("r", "a"):
            with pytest.raises(ClientError, match=r"hyperslab\.open\(URL\)\['COLLECTION'\]"):
                Client(server.zarr_urls["db"], storage_options=options, mode=mode)
        served = hs.open_group(server.zarr_urls["db"], storage_options=options)
        by_day = {array.attrs["primary_attributes"]["dt"]: array for array in served["air"].values()}
        assert sorted(by_day) == [DAY.isoformat(), (DAY + timedelta(days=1)).isoformat()]
        for start, array in by_day.items():
            one = served[f"air/{array.name}"].to_xarray()
            assert one["hour"].values[0] == np.datetime64(start[:19])
            assert array.sel(hour=start[:19], lat=57.5, layer="wet") == one.sel(hour=start[:19], lat=57.5, layer="wet")
            place = f"{server.zarr_urls['db']}/air/{array.name}"
            ours = xr.open_dataset(place, engine="hyperslab", storage_options=options)
            np.testing.assert_array_equal(ours["hour"], one["hour"])


def test_arrays_of_other_times_leave_a_tree_s_dimension_without_labels(root: Path) -> None:
    tree = xr.open_datatree(root, engine="hyperslab")
    air = tree["air"].to_dataset()
    assert len(air.data_vars) == 2
    assert "hour" not in air.coords
    assert air["lat"].values.tolist() == [60.0, 57.5, 55.0]


def test_a_database_made_of_a_dataset_is_one(tmp_path: Path) -> None:
    given = xr.Dataset({"v": (("lat",), np.arange(3.0))}, {"lat": [3.0, 2.0, 1.0]})
    given.hyperslab.save(tmp_path / "db", format="collections")
    found = xr.open_dataset(tmp_path / "db", engine="hyperslab")
    xr.testing.assert_identical(found.load(), given)
