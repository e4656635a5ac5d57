"""The sources of all formats do what every source must: in files, in shards, in one file, swapped in a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from obstore.store import MemoryStore

from hyperslab.formats import get_format
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.location import Location
from hyperslab.testing.sources import SourceTests

KINDS = {
    "zarr2": ("zarr2", {}, "files"),
    "zarr3": ("zarr3", {}, "files"),
    "shards": ("zarr3", {"shards": (8, 6)}, "files"),
    "swapped": ("zarr3", {}, "bucket"),
    "swapped shards": ("zarr3", {"shards": (8, 6)}, "bucket"),
    "netcdf": ("netcdf", {}, "files"),
    "b2nd": ("b2nd", {}, "files"),
    "bloscpack": ("bloscpack", {}, "files"),
    "blaze": ("blaze", {"shards": (8, 6)}, "files"),
    "blaze in a bucket": ("blaze", {"shards": (8, 6)}, "bucket"),
}


class TestSources(SourceTests):
    """Twelve rows of six cells in chunks of four rows; the last chunk of shards is alone in its own."""

    @pytest.fixture(params=KINDS.values(), ids=list(KINDS))
    def source(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
        name, layout, where = request.param
        place = Location.of(MemoryStore() if where == "bucket" else tmp_path / "new")
        writer: Any = get_format(name).open(place, "x")
        wish = ArraySpec(shape=(12, 6), dtype=np.dtype("<f8"), chunks=(4, 6), dims=("y", "x"), layout=layout)
        writer.put("v", writer.new_array(wish))
        yield writer.chunks("v")
        writer.close()
