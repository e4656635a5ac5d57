"""Values that cells cannot hold are refused by `update` and `append`, and what means missing stays that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.database import ArraySchema, Client, DimensionSchema, VArraySchema
from hyperslab.errors import HyperslabError

pytestmark = pytest.mark.covering  # layouts and flavours of arrays take turns

X = DimensionSchema("x", 4)
TIMES = np.array(["2020-01-01"] * 4, "M8[s]")
MISFITS = [
    ("f4", 1e300),
    ("f4", [1e300, 1, 2, 3]),
    ("f4", np.array([1e300, 1, 2, 3])),
    ("i2", float("nan")),
    ("i2", [1.0, float("nan"), 3.0, 4.0]),
    ("i2", 40_000),
    ("i2", np.array([40_000, 1, 2, 3])),
    ("u1", -1),
    ("f8", 1j),
    ("f8", np.array([1j, 1, 2, 3])),
    ("i8", TIMES),
    ("f8", TIMES - TIMES[0]),
]


@pytest.mark.parametrize(("dtype", "value"), MISFITS, ids=lambda value: f"{value}".replace("\n", " "))
@pytest.mark.parametrize("flavour", ["array", "varray"])
def test_what_cells_cannot_hold_is_refused(client, layout, flavour, dtype, value):
    kind = np.dtype(dtype).type
    schema = ArraySchema([X], kind) if flavour == "array" else VArraySchema([X], kind, vgrid=(2,))
    array = client.create_collection("c", schema, layout=layout).create()
    array[:].update(np.arange(4, dtype=dtype))
    with pytest.raises(HyperslabError):
        array[:].update(value)
    if layout == "hyperslab":
        grows = client.create_collection("g", ArraySchema([DimensionSchema("t", None)], kind)).create()
        with pytest.raises(HyperslabError):
            grows.append(value if isinstance(value, np.ndarray) else np.full(4, value, object).tolist())
        assert grows.shape == (0,)
    assert array[:].read().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("format", ["collections", "deker"])
def test_what_means_missing_stays_missing(tmp_path: Path, format):
    with hs.create(tmp_path / "a.zarr") as made:
        packed = {"_FillValue": np.int16(-99), "scale_factor": 0.5, "add_offset": 10.0}
        for name, dtype, fill, attrs in (
            ("packed", "i2", -99, packed),
            ("marked", "f4", 1e20, {"_FillValue": np.float32(1e20)}),
            ("other", "f4", 0, {"missing_value": np.float32(-1)}),
            ("filled", "i2", 7, {}),
        ):
            array = made.create_array(name, shape=(4,), dtype=dtype, dims=["x"], fill_value=fill, attrs=attrs)
            array[:2] = [1, -1]
    assert hs.convert(tmp_path / "a.zarr", tmp_path / "db", format, verify=True).losses == ()
    assert hs.convert(tmp_path / "db", tmp_path / "b.zarr", verify=True).losses == ()
    for place in ("a.zarr", "db", "b.zarr"):
        found = {name: array.decoded()[...].tolist() for name, array in hs.open(tmp_path / place).items()}
        missing = pytest.approx(float("nan"), nan_ok=True)
        assert found["packed"] == [10.5, 9.5, missing, missing], place
        assert found["marked"] == [1, -1, missing, missing], place
        assert found["other"] == [1, missing, 0, 0], place
        assert found["filled"] == [1, -1, 7, 7], place


def test_a_database_keeps_its_fill_value(tmp_path: Path, layout):
    with Client(tmp_path / "a", durable=False) as client:
        client.create_collection("c", ArraySchema([X], np.int16, fill_value=-99), layout=layout).create()[:2].update(1)
    hs.convert(tmp_path / "a", tmp_path / "b", "deker" if layout == "hyperslab" else "collections", verify=True)
    hs.convert(tmp_path / "b", tmp_path / "c.zarr", verify=True)
    for place in ("a", "b", "c.zarr"):
        (array,) = hs.open(tmp_path / place)["c"].values()
        assert (int(array.fill_value), array[...].tolist()) == (-99, [1, 1, -99, -99])
