"""Damage in a tile of a collection says which cells are lost, by positions and by labels, in both layouts."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import h5py
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.database import (
    AttributeSchema,
    Client,
    DimensionSchema,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)

LOST = ", cells [2:4, 2:4, 0:2], hour 2026-01-01T12:00:00 to 2026-01-01T18:00:00, lat 55.0 to 52.5, layer warm to wet]"
ALL = ", cells [0:4, 0:6, 0:2], hour 2026-01-01 to 2026-01-01T18:00:00, lat 60.0 to 47.5, layer warm to wet]"


@pytest.fixture(params=["hyperslab", "deker"])
def layout(request: pytest.FixtureRequest) -> str:
    """Each layout."""
    return str(request.param)


def make_root(place: Path, layout: str, tiles: tuple[int, int, int]) -> Path:
    """Make a collection with one array in tiles; return its folder."""
    dims = [
        TimeDimensionSchema("hour", 4, "$dt", timedelta(hours=6)),
        DimensionSchema("lat", 6, scale=Scale(60.0, -2.5)),
        DimensionSchema("layer", 2, labels=["warm", "wet"]),
    ]
    schema = VArraySchema(dims, float, [AttributeSchema("dt", datetime, True)], vgrid=tiles)
    with Client(place) as client:
        made = client.create_collection("air", schema, layout=layout)
        cells = np.random.default_rng(0).normal(size=(4, 6, 2))
        made.create({"dt": datetime(2026, 1, 1, tzinfo=UTC)})[:].update(cells)
    return place / "collections" / "air"


def find_tile(folder: Path, layout: str, tile: str) -> Path:
    """Return the file of the tile at a place such as ``1-1-0``."""
    if layout == "hyperslab":
        return next(folder.glob(f"arrays/*/*/c/{tile.replace('-', '/')}"))
    return Path(os.path.realpath(next(folder.glob(f"array_symlinks/*/{tile}/*"))))


@pytest.mark.parametrize("left", [0, 0.5, -60])
def test_a_tile_that_cannot_be_read(layout: str, left: float, tmp_path: Path) -> None:
    path = find_tile(make_root(tmp_path, layout, (2, 3, 1)), layout, "1-1-0")
    data = path.read_bytes()
    kept = int(len(data) * left) if left >= 0 else len(data) + int(left)
    path.write_bytes(data[:kept])
    (problem,) = hs.check(tmp_path, deep=True)
    assert problem.kind == ("corrupt-shard" if layout == "hyperslab" else "unreadable-tile")
    assert problem.message.endswith(LOST) and problem.node.startswith("air/")
    plan = str(hs.repair(tmp_path, dry_run=True)[0])
    assert LOST in plan


def test_cells_of_a_tile_that_cannot_be_decoded(layout: str, tmp_path: Path) -> None:
    path = find_tile(make_root(tmp_path, layout, (2, 3, 1)), layout, "1-1-0")
    data = bytearray(path.read_bytes())
    if layout == "hyperslab":
        data[20] ^= 0xFF
        path.write_bytes(data)
        kind = "corrupt-chunk"
    else:  # no filter of the peer's files finds a damaged cell: one that cannot be undone, in its place
        with h5py.File(path, "r+") as file:
            del file["data"]
            file.create_dataset("data", data=np.ones((2, 2, 2)), chunks=(2, 2, 2), compression="gzip")
            file["data"].id.write_direct_chunk((0, 0, 0), b"no stream of zlib")
        kind = "unreadable-cells"
    (problem,) = (each for each in hs.check(tmp_path, deep=True) if each.kind == kind)
    assert problem.message.endswith(LOST)


def test_a_tile_that_is_the_whole_array(layout: str, tmp_path: Path) -> None:
    path = find_tile(make_root(tmp_path, layout, (1, 1, 1)), layout, "0-0-0")
    path.write_bytes(b"")
    (problem,) = hs.check(tmp_path)
    assert problem.message.endswith(ALL)
