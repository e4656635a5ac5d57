"""``ZarrStore``: zarr-python's own suite for stores, and what xarray and zarr write through it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs

zarr = pytest.importorskip("zarr", "3.1", exc_type=ImportError)  # another peer's environment has none, or an old one
from zarr.core.buffer import Buffer, cpu  # noqa: E402
from zarr.testing.store import StoreTests  # noqa: E402

from hyperslab.bridges.zarr import ZarrStore  # noqa: E402


class TestZarrStore(StoreTests[ZarrStore, cpu.Buffer]):
    """zarr-python's suite over a folder."""

    store_cls = ZarrStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        return {"url": str(tmp_path / "a.zarr")}

    async def set(self, store: ZarrStore, key: str, value: Buffer) -> None:
        path = Path(store.url, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value.to_bytes())

    async def get(self, store: ZarrStore, key: str) -> Buffer:
        return self.buffer_cls.from_bytes(Path(store.url, key).read_bytes())

    def test_store_repr(self, store: ZarrStore) -> None:
        assert repr(store) == f"ZarrStore({store.url!r})"

    def test_store_supports_writes(self, store: ZarrStore) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: ZarrStore) -> None:
        assert store.supports_listing


@pytest.mark.parametrize("url", ["a.zarr", "memory://shim-{name}", "a.zip"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_and_hyperslab_see_the_same(tmp_path: Path, url: str, zarr_format: int) -> None:
    place = url.format(name=tmp_path.name) if "://" in url else str(tmp_path / url)
    store = hs.zarr_store(place)
    root = zarr.create_group(store, zarr_format=zarr_format)
    cells = np.arange(60).reshape(6, 10)
    root.create_array("g/a", data=cells, chunks=(4, 3))
    if place.endswith(".zip"):
        store.close()
    np.testing.assert_array_equal(hs.open(place)["g/a"], cells)
    reader = zarr.open_group(hs.zarr_store(place, read_only=True), mode="r")
    np.testing.assert_array_equal(reader["g/a"][1:5, ::2], cells[1:5, ::2])


def test_xarray_writes_through_it(tmp_path: Path) -> None:
    dataset = xr.Dataset({"t": (("x", "y"), np.random.default_rng(1).random((5, 6)))}, {"x": np.arange(5)}, {"n": 1})
    dataset.to_zarr(hs.zarr_store(tmp_path / "a.zarr"), zarr_format=2)
    dataset.to_zarr(hs.zarr_store(tmp_path / "a.zarr"), append_dim="x", zarr_format=2)
    twice = xr.concat([dataset, dataset], "x")
    xr.testing.assert_identical(xr.open_zarr(hs.zarr_store(tmp_path / "a.zarr", read_only=True)).compute(), twice)
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "a.zarr", engine="hyperslab").load(), twice)
