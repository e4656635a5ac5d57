"""Six processes make nodes of the same names at one time: one makes each, the others get AlreadyExists."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from programs import side_by_side

WORKERS = 6
MAKER = """
import json, os, sys, time
import numpy as np
import hyperslab as hs
url, worker, names, how, gate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]


def together(step):
    os.close(os.open(f"{gate}/{step}-{worker}", os.O_CREAT))
    while sum(name.startswith((f"{step}-", "over-")) for name in os.listdir(gate)) < 6:
        time.sleep(0.0005)


def make(root, name):
    cells = np.full((2 + worker, 3), worker + 1, "f4")
    attrs = {"by": worker}
    if how == "batch":
        with root.batch():
            root.create_array(name, data=cells, chunks=(1, 3), attrs=attrs)
    elif how == "array":
        root.create_array(name, data=cells, chunks=(1, 3), attrs=attrs)
    elif how == "failing":
        root.create_array(name, data=Failing() if worker % 2 else cells, shape=cells.shape, chunks=(1, 3), attrs=attrs)
    elif how == "group":
        root.create_group(name, attrs)
    elif how == "below":
        root.create_group(name, attrs) if worker % 2 else root.create_array(f"{name}/a{worker}", data=cells)
    elif how == "link":
        root.create_link(name, f"/source{worker}") if worker % 2 else root.create_group(name, attrs)
    elif how == "move":
        root.move(f"source{worker}-{name}", name)


class Failing:
    shape, dtype, ndim, size = (2 + worker, 3), np.dtype("f4"), 2, 3 * (2 + worker)

    def __array__(self, *arguments, **options):
        raise ZeroDivisionError


made, failed = [], []


def run(root):
    if how == "move":
        for number in range(names):
            root.create_group(f"source{worker}-n{number}", {"by": worker})
    for number in range(names):
        together(number)
        try:
            make(root, f"n{number}")
            made.append(number)
        except hs.errors.AlreadyExists:
            pass
        except ZeroDivisionError:
            failed.append(number)


try:
    with hs.open_group(url, "r+", durable=False) as root:
        run(root)
finally:
    open(f"{gate}/over-{worker}", "w").close()  # nobody waits for one that has failed
print(json.dumps({"made": made, "failed": failed}))
"""

SAVER = MAKER.replace(
    """    with hs.open_group(url, "r+", durable=False) as root:
        run(root)
""",
    """    for number in range(names):
        together(number)
        end = url.rpartition(".")[2]
        target = f"{url[: -len(end) - 1]}{number}.{end}"
        cells = np.full((2 + worker, 3), worker + 1, "f4")
        try:
            hs.save(target, cells, format=how, durable=False)
            made.append(number)
        except hs.errors.AlreadyExists:
            pass
""",
)

REPLACER = MAKER.replace(
    """    with hs.open_group(url, "r+", durable=False) as root:
        run(root)
""",
    """    import xarray as xr
    for number in range(names):
        together(number)
        cells = np.full((2 + worker, 3), worker + 1, "f4")
        dataset = xr.DataArray(cells, dims=("y", "x"), name="data", attrs={"by": worker}).to_dataset()
        end = url.rpartition(".")[2]
        hs.save(f"{url[: -len(end) - 1]}{number}.{end}", dataset, format=how, mode="w", durable=False)
""",
)

TREES = {
    "zarr2": ("zarr2", {}),
    "zarr3": ("zarr3", {}),
    "consolidated": ("zarr3", {"consolidated": True}),
    "nczarr-current": ("nczarr", {"dialect": "current"}),
    "nczarr-draft": ("nczarr", {"dialect": "draft"}),
    "hdmf-v2": ("hdmf", {"profile": "v2"}),
    "hdmf-v3": ("hdmf", {"profile": "v3"}),
}
ALONE = {
    "netcdf": "x.nc",
    "b2nd": "x.b2nd",
    "bloscpack": "x.blp",
    "blaze": "x.blaze",
    "zarr3": "x.zarr",
    "zarr2": "x.zarr",
    "nczarr": "x.zarr",
    "hdmf": "x.zarr",
}
FEW = [2, pytest.param(50, marks=pytest.mark.soak)]
CASES = [
    pytest.param(layout, how, marks=() if how == "array" or layout in ("zarr3", "hdmf-v2") else pytest.mark.soak)
    for layout in TREES
    for how in ("array", "batch", "group", "move")
]
SOME = [pytest.param(layout, marks=() if layout in ("zarr3", "nczarr-draft") else pytest.mark.soak) for layout in TREES]


def _race(tmp_path: Path, layout: str, how: str, names: int) -> tuple[Any, list[dict[str, list[int]]]]:
    """What is there after it, and what each worker said."""
    form, options = TREES[layout]
    url, gate = str(tmp_path / "x"), tmp_path / "gate"
    gate.mkdir()
    with hs.create(url, form, **options) as root:
        for worker in range(WORKERS if how == "link" else 0):
            root.create_group(f"source{worker}")
    with side_by_side(MAKER, *((url, worker, names, how, gate) for worker in range(WORKERS))) as workers:
        ends = [worker.communicate() for worker in workers]
    assert not (errors := "".join(err for _, err in ends)), errors
    assert not hs.check(url)
    return hs.open(url), [json.loads(out) for out, _ in ends]


def _is_whole(array: Any, by: int) -> bool:
    return array.attrs["by"] == by and np.array_equal(array[...], np.full((2 + by, 3), by + 1, "f4"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("names", FEW)
@pytest.mark.parametrize(("layout", "how"), CASES)
def test_one_process_makes_a_name(tmp_path: Path, layout: str, how: str, names: int) -> None:
    root, said = _race(tmp_path, layout, how, names)
    for number in range(names):
        makers = [worker for worker in range(WORKERS) if number in said[worker]["made"]]
        assert len(makers) == 1, (number, makers)
        node = root[f"n{number}"]
        assert _is_whole(node, makers[0]) if how in ("array", "batch") else node.attrs["by"] == makers[0]


@pytest.mark.parametrize("names", FEW)
@pytest.mark.parametrize("layout", SOME)
def test_a_failed_creation_removes_nothing_of_others(tmp_path: Path, layout: str, names: int) -> None:
    root, said = _race(tmp_path, layout, "failing", names)
    for number in range(names):
        makers = [worker for worker in range(WORKERS) if number in said[worker]["made"]]
        assert len(makers) <= 1
        assert (f"n{number}" in root) == bool(makers)
        assert all(_is_whole(root[f"n{number}"], worker) for worker in makers)


@pytest.mark.parametrize("names", FEW)
@pytest.mark.parametrize("layout", SOME)
def test_a_group_that_is_made_on_the_way_takes_no_attributes_away(tmp_path: Path, layout: str, names: int) -> None:
    root, said = _race(tmp_path, layout, "below", names)
    for number in range(names):
        makers = [worker for worker in (1, 3, 5) if number in said[worker]["made"]]
        group = root[f"n{number}"]
        assert len(makers) <= 1
        assert [group.attrs["by"]] == makers if makers else "by" not in group.attrs
        assert sorted(group) == ["a0", "a2", "a4"]


@pytest.mark.parametrize("names", FEW)
@pytest.mark.parametrize("layout", ["hdmf-v2", "hdmf-v3"])
def test_one_process_makes_a_link_or_the_group(tmp_path: Path, layout: str, names: int) -> None:
    root, said = _race(tmp_path, layout, "link", names)
    links = dict(root.links())
    for number in range(names):
        makers = [worker for worker in range(WORKERS) if number in said[worker]["made"]]
        assert len(makers) == 1, (number, makers)
        name, maker = f"n{number}", makers[0]
        assert (links[name].target == f"/source{maker}") if maker % 2 else root[name].attrs["by"] == maker


@pytest.mark.sampled(3)
@pytest.mark.parametrize("names", FEW)
@pytest.mark.parametrize("form", ALONE)
def test_one_process_makes_a_dataset(tmp_path: Path, form: str, names: int) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    jobs = [(str(tmp_path / ALONE[form]), worker, names, form, gate) for worker in range(WORKERS)]
    with side_by_side(SAVER, *jobs) as workers:
        ends = [worker.communicate() for worker in workers]
    assert not (errors := "".join(err for _, err in ends)), errors
    said = [json.loads(out) for out, _ in ends]
    for number in range(names):
        makers = [worker for worker in range(WORKERS) if number in said[worker]["made"]]
        assert len(makers) == 1, (number, makers)
        found: Any = hs.open_group(tmp_path / ALONE[form].replace(".", f"{number}."))["data"]
        assert np.array_equal(found[...], np.full((2 + makers[0], 3), makers[0] + 1, "f4"))


@pytest.mark.parametrize("names", FEW)
@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=() if form in ("zarr3", "bloscpack") else pytest.mark.soak) for form in ALONE]
)
def test_of_those_who_replace_a_dataset_one_is_there_whole(tmp_path: Path, form: str, names: int) -> None:
    """The first of them makes it, the others put theirs in its place."""
    gate = tmp_path / "gate"
    gate.mkdir()
    jobs = [(str(tmp_path / ALONE[form]), worker, names, form, gate) for worker in range(WORKERS)]
    with side_by_side(REPLACER, *jobs) as workers:
        ends = [worker.communicate() for worker in workers]
    assert not (errors := "".join(err for _, err in ends)), errors
    for number in range(names):
        place = tmp_path / ALONE[form].replace(".", f"{number}.")
        found: Any = hs.open_group(place)["data"]
        assert _is_whole(found, int(found.attrs["by"])), number
        assert not hs.check(place, deep=True)
    assert [name for name in sorted(os.listdir(tmp_path)) if name.startswith(".partial")] == []
