"""Where the page draws cells of files that CF knows: meshes, ways, grids around other poles; beside netCDF4."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import netCDF4
import numpy as np
import pytest

import hyperslab as hs
from cf_files import FILES

KINDS = ("mesh", "rotated", "rotated_alone", "stations", "trajectories", "trajectory")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cf")
    for kind in KINDS:
        FILES[kind](place / f"{kind}.nc")
    return place


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    places = [folder / f"{kind}.nc" for kind in KINDS]
    with hs.serve(*places, token="") as server, httpx.Client(base_url=server.address, timeout=30) as found:
        yield found


def cells_of(folder: Path, kind: str, *names: str) -> list[np.ndarray]:
    with netCDF4.Dataset(folder / f"{kind}.nc") as file:
        return [np.asarray(file[name][...]) for name in names]


def places_of(client: httpx.Client, kind: str, **query: Any) -> np.ndarray:
    """Return longitudes and latitudes as the page gets them."""
    answer = client.get(
        f"/api/view/{kind}.nc", params={"node": "/t", "positions": 1, "width": 99, "height": 99, **query}
    )
    assert answer.status_code == 200, answer.text
    size = int.from_bytes(answer.content[:4], "little")
    head = json.loads(answer.content[4 : 4 + size])
    return np.frombuffer(answer.content[4 + size :], "<f4").reshape(head["shape"])


def map_of(client: httpx.Client, kind: str, node: str = "/t") -> Any:
    return client.get(f"/api/node/{kind}.nc", params={"node": node}).json()["map"]


def test_faces_of_a_mesh_are_points(client: httpx.Client, folder: Path) -> None:
    assert map_of(client, "mesh")["kind"] == "points"
    assert map_of(client, "mesh", "/height")["dims"] == ["node"]
    np.testing.assert_allclose(places_of(client, "mesh", x="face"), cells_of(folder, "mesh", "face_lon", "face_lat"))


@pytest.mark.parametrize("kind", ["rotated", "rotated_alone"])
def test_grids_around_other_poles_lie_on_the_earth(client: httpx.Client, folder: Path, kind: str) -> None:
    wanted = np.stack(cells_of(folder, "rotated", "lon", "lat"))
    assert (map_of(client, kind)["kind"], map_of(client, kind)["dims"]) == ("grid", ["rlat", "rlon"])
    np.testing.assert_allclose(places_of(client, kind, x="rlon", y="rlat"), wanted, rtol=1e-5)
    np.testing.assert_allclose(places_of(client, kind, x="rlat", y="rlon"), wanted.swapaxes(1, 2), rtol=1e-5)
    facts = client.get(f"/api/cell/{kind}.nc", params={"node": "/t", "index": "2,5"}).json()["places"]
    assert [place["units"] for place in facts] == ["degrees_north", "degrees_east"]
    assert np.allclose([place["label"] for place in facts], wanted[::-1, 2, 5])


def test_ways_are_told_from_series(client: httpx.Client, folder: Path) -> None:
    assert map_of(client, "trajectory")["is_way"] and not map_of(client, "stations")["is_way"]
    np.testing.assert_allclose(
        places_of(client, "trajectory", x="time"), cells_of(folder, "trajectory", "lon", "lat"), rtol=1e-6
    )


def test_several_ways_are_no_grid(client: httpx.Client) -> None:
    assert map_of(client, "trajectories") is None
