"""What zarr-python and tensorstore wrote we read, append to and describe anew; they read it back, nothing lost."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from canonical import canonical

import hyperslab as hs

zarr = pytest.importorskip("zarr", minversion="3.1")
tensorstore = pytest.importorskip("tensorstore")

DTYPES = ["bool", "i1", "<i4", "u8", "<f2", "<f4", "f8", "c8", "c16", "M8[ns]", "m8[s]", "U3", "S5", "V4", "string"]
LAYOUTS: list[dict[str, Any]] = [
    {"zarr_format": 2},
    {"zarr_format": 2, "order": "F", "chunk_key_encoding": {"name": "v2", "separator": "/"}},
    {"zarr_format": 3},
    {"zarr_format": 3, "chunk_key_encoding": {"name": "default", "separator": "."}},
    {"zarr_format": 3, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
    {"zarr_format": 3, "shards": (4, 4)},
    {"zarr_format": 3, "filters": [{"name": "transpose", "configuration": {"order": [1, 0]}}]},
]
OURS = {"mine": {"must_understand": False, "n": 1}}


def values_of(dtype: str) -> np.ndarray[Any, Any]:
    """Six by four cells of the type."""
    numbers = np.arange(24).reshape(6, 4)
    if dtype == "string":
        return numbers.astype("U2").astype(np.dtypes.StringDType())
    return numbers.astype("<i4").view("V4") if dtype == "V4" else numbers.astype(dtype)


def written(place: Path, values: np.ndarray[Any, Any], layout: dict[str, Any], *, consolidated: bool) -> None:
    """A group with the array ``a`` by zarr-python, whose warnings about its own types are its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = zarr.create_group(place, zarr_format=layout["zarr_format"], attributes={"title": "theirs"})
        array = root.create_array("a", shape=values.shape, dtype=values.dtype, chunks=(2, 2), **_without_format(layout))
        array[...] = values
        array.attrs.update({"n": 1, "nested": {"deep": [1, None, "x"]}})
        if consolidated:
            zarr.consolidate_metadata(place)


def _without_format(layout: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in layout.items() if name != "zarr_format"}


def read_back(place: Path, *, consolidated: bool) -> Any:
    """zarr-python's array, found by way of the consolidated copy or of the array's own document."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return zarr.open_group(place, mode="r", use_consolidated=consolidated)["a"]


@pytest.mark.covering
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", ["<f4", "string"])
def test_appended_and_described_anew(tmp_path: Path, layout: dict[str, Any], dtype: str, consolidated: bool) -> None:
    changed_and_read_back(tmp_path / "a.zarr", layout, dtype, consolidated)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_every_type(tmp_path: Path, zarr_format: int, dtype: str) -> None:
    changed_and_read_back(tmp_path / "a.zarr", {"zarr_format": zarr_format}, dtype, False)


def changed_and_read_back(place: Path, layout: dict[str, Any], dtype: str, consolidated: bool) -> None:
    """Read, append, change an attribute, add an array; then zarr-python sees all of it."""
    written(place, values_of(dtype), layout, consolidated=consolidated)
    values = np.asarray(read_back(place, consolidated=consolidated)[...])  # it reads transposed text otherwise ordered
    with hs.open(place, "r+", durable=False) as root:
        array = root["a"]
        assert canonical(array[...]) == canonical(values)
        array.append(values[:3], axis_of_first(array))
        array[0, 1] = values[5, 3]
        array.attrs["n"] = 2
        root.create_array("b", (2,), "i4", fill_value=0)
    wanted = np.concatenate([values, values[:3]])
    wanted[0, 1] = values[5, 3]
    theirs = read_back(place, consolidated=consolidated)
    assert canonical(theirs[...]) == canonical(wanted)
    assert dict(theirs.attrs) == {"n": 2, "nested": {"deep": [1, None, "x"]}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = zarr.open_group(place, mode="r", use_consolidated=consolidated)
        assert sorted(root.array_keys()) == ["a", "b"] and root.attrs["title"] == "theirs"


def axis_of_first(array: Any) -> Any:
    """The first dimension by its name, or by its number where it has none."""
    return array.dims[0] if array.dims and array.dims[0] is not None else 0


@pytest.mark.parametrize("name", [".zarray", ".zgroup", "zarr.json"])
def test_keys_of_others_are_kept(tmp_path: Path, name: str) -> None:
    place = tmp_path / "a.zarr"
    written(place, values_of("<f4"), {"zarr_format": 3 if name == "zarr.json" else 2}, consolidated=False)
    documents = [path for path in (place / name, place / "a" / name) if path.exists()]
    for path in documents:
        path.write_text(json.dumps(json.loads(path.read_text()) | OURS))
    with hs.open(place, "r+", durable=False) as root:
        root.attrs["title"] = "ours"
        root["a"].attrs["n"] = 2
        root["a"].append(values_of("<f4"), 0)
    for path in documents:
        assert json.loads(path.read_text())["mine"] == OURS["mine"]


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_tensorstore_reads_what_we_appended(tmp_path: Path, driver: str) -> None:
    values = values_of("<f4")
    chunks: dict[str, Any] = {"dtype": "<f4", "chunks": [2, 2]}
    if driver == "zarr3":
        grid = {"name": "regular", "configuration": {"chunk_shape": [2, 2]}}
        chunks = {"data_type": "float32", "chunk_grid": grid, "dimension_names": ["y", None]}
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(tmp_path / "a")}}
    made = {**spec, "metadata": {"shape": [6, 4], **chunks}}
    tensorstore.open(made, create=True).result().write(values).result()
    ours = hs.open_array(tmp_path / "a", "r+", durable=False)
    assert canonical(ours[...]) == canonical(values)
    ours.append(values, axis_of_first(ours))
    ours.attrs["note"] = "appended"
    theirs = tensorstore.open(spec, open=True, read=True).result().read().result()
    assert canonical(theirs) == canonical(np.concatenate([values, values]))
