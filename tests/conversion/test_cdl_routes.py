"""Every CDL file of the corpus through each format that holds groups and back: equal, or a loss that was told."""

from __future__ import annotations

from pathlib import Path

import pytest

import hyperslab as hs
from cdl.compiling import NAMES, NEEDS_NCGEN, case, every_sixth
from conversion.targets import TREES

ROUTES = {**TREES, "mongo": {"format": "mongo"}}
QUICK = ("zarr3",)
MARKS = {name: () if name in QUICK else (pytest.mark.soak,) for name in ROUTES}
BYTE_ORDER = {"special_attrs", "storage"}  # cells of two byte orders: the numbers stay, the order is the target's

pytestmark = NEEDS_NCGEN


def go_and_return(made: Path, there: Path | str, folder: Path, route: str) -> None:
    """Find what is not told as a loss, on the way there or back, as it was."""
    to = hs.convert(made, there, allow_loss=True, verify=True, durable=False, **ROUTES[route])
    back = hs.convert(there, folder / "back.nc", allow_loss=True, verify=True, durable=False)
    told = {loss.node for loss in (*to.losses, *back.losses)}
    differences = hs.diff(made, folder / "back.nc")
    untold = [problem for problem in differences if not any(is_about(node, problem.node) for node in told)]
    if made.stem in BYTE_ORDER:
        untold = [problem for problem in untold if problem.kind != "type"]
    assert not untold


def is_about(told: str, node: str) -> bool:
    """Return True if a loss at one node tells of another: what is left out takes all below it along."""
    return node == told or node.startswith(f"{told}/")


@pytest.mark.parametrize("name", every_sixth(NAMES, 0))
@pytest.mark.parametrize("route", [pytest.param(route, marks=MARKS[route]) for route in ROUTES])
def test_there_and_back(request: pytest.FixtureRequest, tmp_path: Path, route: str, name: str) -> None:
    there: Path | str = tmp_path / "there"
    if route == "mongo":
        mongo = request.getfixturevalue("mongo")
        there = f"{mongo.url}/{mongo.database()}#{name}"
    go_and_return(case(name, tmp_path), there, tmp_path, route)


def test_fields_that_are_arrays_in_mongo(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """They become arrays in a group, whose dimensions get names that netCDF takes."""
    test_there_and_back(request, tmp_path, "mongo", "compound_arrays")
