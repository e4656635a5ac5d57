"""Planted damage: found with its kind and place, mended so that nothing is left to find, no sound cell changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planting import CASES, CELLS, LAYOUTS, Case, Dataset, sound

import hyperslab as hs
from hyperslab.integrity.mender import repair
from hyperslab.integrity.report import Mend
from hyperslab.integrity.survey import check

PLANTED = [(name, layout) for name, case in CASES.items() for layout in case.layouts]


def files(folder: Path) -> dict[str, bytes]:
    """Every file by its path; links and pipes are no files."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24 and path.name != ".lock"
    }


def expected(case: Case, layout: str) -> dict[str, np.ndarray]:
    """What the arrays hold after the repair."""
    cells = {name: values.copy() for name, values in CELLS.items()}
    for name, region in case.lost.items():
        cells[name][region] = 0
    return cells


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sound_is_sound(layout: str, tmp_path: Path) -> None:
    url = str(sound(tmp_path, layout))
    before = files(tmp_path)
    for deep in (False, True):
        report = check(url, deep=deep)
        assert (not report, list(report), report.notes) == (True, [], [])
    assert not repair(url)
    assert not repair(url, dry_run=False)
    assert files(tmp_path) == before


@pytest.mark.sampled(1)
@pytest.mark.covering("name", "layout")
@pytest.mark.parametrize(("name", "layout"), PLANTED, ids=lambda value: str(value).replace(" ", "-"))
def test_found_and_mended(name: str, layout: str, tmp_path: Path) -> None:
    case = CASES[name]
    data = Dataset(sound(tmp_path, layout), layout)
    case.plant(data)
    url, before = str(data.root), files(tmp_path)
    there = [path for path in CELLS if (data.root / path).exists()]

    report = check(url, deep=True)
    kind = case.kind_in(layout)
    # chunks outside the grid are harmless, and mended all the same; files that no format knows on wish
    left = [note for note in report.notes if note.kind in ("outside-grid", "foreign")]
    assert (case.node, kind) in {(problem.node, problem.kind) for problem in [*report, *left]}, str(report)
    assert files(tmp_path) == before

    plan = repair(url, drop_foreign=True)
    assert files(tmp_path) == before, "a dry run changed something"
    assert sorted(mend.kind for mend in plan) == sorted(problem.kind for problem in [*report, *left])
    assert all(isinstance(mend, Mend) and mend.action and not mend.done for mend in plan), str(plan)
    for region in case.lost.values():
        cells = f"[{', '.join(f'{cut.start}:{cut.stop}' for cut in region)}]"
        assert any(cells in str(mend) for mend in plan), f"no word of {cells}: {plan}"

    mended = repair(url, dry_run=False, drop_foreign=True)
    assert mended and all(isinstance(mend, Mend) and mend.done for mend in mended), str(mended)
    after = check(url, deep=True)
    assert list(after) == [] and not {"outside-grid", "foreign"} & {note.kind for note in after.notes}
    root = hs.open_group(url)
    wanted = expected(case, layout)
    for path in there:
        found = root[path]
        assert found.shape == wanted[path].shape
        np.testing.assert_array_equal(found[...], wanted[path])
        assert dict(found.attrs) == ({} if path in ("raw", "g/b") else {"units": "K" if path == "t2m" else "degrees"})
    kept = case.attrs or layout == "zarr2"  # there they are a document of their own
    assert root.attrs.get("title") == ("sound" if kept else None)
