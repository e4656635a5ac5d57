"""The corpus of hostile datasets (``tests/trust``) under check and repair: found, mended or left, never a crash."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.integrity.report import Mend, Report

sys.path.insert(0, str(Path(__file__).parents[1] / "trust"))
corpus = importlib.import_module("corpus")

CAUSES = ("truncated", "swapped", "oversized", "bombs", "json", "fields", "codecs", "links", "nczarr")
LAYOUTS = {
    "nczarr": ("nczarr", "draft"),
    "bombs": tuple(corpus.LAYOUTS),
    "json": ("zarr2", "zarr3"),
    "fields": ("zarr2", "zarr3"),
}
BAD_CHUNK = {"CorruptChunk", "MemoryLimit"}


def cases(cause: str, share: int) -> list[object]:
    found = getattr(importlib.import_module(corpus.CAUSES[cause]), cause)()
    layouts = LAYOUTS.get(cause, corpus.MAIN)
    some = [case for case in found if case.layout in layouts and case.around is None and case.medium is None]
    if cause == "nczarr":  # very many, of which some are large
        some = [case for case in some if "10^5" not in case.name and "1000" not in case.name][::3]
    chosen: list[object] = corpus.some(some, share)
    return chosen


def unmended(report: Report) -> set[tuple[str, str]]:
    return {(mend.node, mend.kind) for mend in report if isinstance(mend, Mend) and not mend.done}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("share", [60, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "cause", [pytest.param(cause, marks=pytest.mark.soak) if cause == "bombs" else cause for cause in CAUSES]
)
def test_found_mended_or_left(cause: str, share: int, tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    seen = 0
    for number, case in enumerate(cases(cause, share)):
        folder = tmp_path / str(number)
        place = folder / "inside" / case.target
        shutil.copytree(corpus.template(tmp_path / "templates", case.layout), place)
        (folder / "canary").write_bytes(corpus.CANARY)
        case.make(place)
        report = hs.check(place, deep=True)
        if "CorruptChunk" in case.errors and set(case.errors) <= BAD_CHUNK:
            assert any(problem.node == "a" for problem in report), case.name
            seen += 1
        outside = [note for note in report.notes if note.kind == "outside-grid"]
        kinds = sorted(problem.kind for problem in [*report, *outside])
        assert sorted(mend.kind for mend in hs.repair(place)) == kinds, case.name
        left = unmended(hs.repair(place, dry_run=False))
        assert {(problem.node, problem.kind) for problem in hs.check(place, deep=True)} == left, case.name
        assert (folder / "canary").read_bytes() == corpus.CANARY, case.name
        if case.sibling:
            np.testing.assert_array_equal(hs.open_group(place)["good"][...], corpus.GOOD)
        shutil.rmtree(folder)
    assert seen or cause not in ("truncated", "oversized", "bombs")
